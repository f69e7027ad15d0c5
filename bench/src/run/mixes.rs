//! YCSB's workloads and db_bench's mixgraph.

use std::sync::atomic::Ordering;

use cairn::Result;

use super::{Worker, check};
use crate::engine::{Cursor, Engine, Session};
use crate::mixgraph::{Graph, Kind};
use crate::ycsb::{Mix, Step, Zipfian};

/// Maximum length of a scan.
const SCAN_MOST: u64 = 100;

impl<E: Engine, S: Session> Worker<'_, E, S> {
    pub(super) fn ycsb(&mut self, mix: Mix) -> Result<()> {
        let zipfian = Zipfian::new(self.flags.num);
        let mut done = 0;
        while self.goes_on(done) {
            let number = match mix {
                Mix::D => {
                    let keys = self.job.keys.load(Ordering::Relaxed);
                    keys - 1 - zipfian.rank(&mut self.rng)
                }
                _ => zipfian.scattered(&mut self.rng),
            };
            self.layout.write(number, &mut self.key);
            match mix.step(&mut self.rng) {
                Step::Read => self.get_one(number)?,
                Step::Update => self.put(number)?,
                Step::ReadThenUpdate => {
                    self.get_one(number)?;
                    self.put(number)?;
                }
                Step::Insert => {
                    let added = self.job.keys.fetch_add(1, Ordering::Relaxed);
                    self.layout.write(added, &mut self.key);
                    self.put(added)?;
                }
                Step::Scan => {
                    let count = 1 + self.rng.below(SCAN_MOST);
                    self.walk_from_key(count)?;
                }
            }
            done += 1;
            self.finished(1);
        }
        Ok(())
    }

    pub(super) fn graph(&mut self) -> Result<()> {
        let graph = Graph::new(&self.flags.graph, self.flags.num)?;
        let mut done = 0;
        while self.goes_on(done) {
            let (number, kind) = graph.draw(&mut self.rng);
            self.layout.write(number, &mut self.key);
            match kind {
                Kind::Get => self.get_one(number)?,
                Kind::Put(len) => {
                    let value = self.job.values.of_len(number, len);
                    self.stats.written += (self.key.len() + value.len()) as u64;
                    self.session.put(&self.key, value)?;
                }
                Kind::Walk(count) => self.walk_from_key(count)?,
            }
            done += 1;
            self.finished(1);
        }
        Ok(())
    }

    /// Reads `count` entries from the current key on.
    fn walk_from_key(&mut self, count: u64) -> Result<()> {
        let mut iter = self.session.cursor();
        iter.seek(&self.key);
        self.stats.looked += 1;
        self.stats.found += u64::from(iter.valid());
        for _ in 0..count {
            if !iter.valid() {
                break;
            }
            let (key, value) = (iter.key(), iter.value());
            self.stats.bytes += (key.len() + value.len()) as u64;
            check(self.job, || self.layout.number(key), value)?;
            iter.next();
        }
        iter.status()
    }
}
