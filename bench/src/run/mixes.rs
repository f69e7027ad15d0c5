//! YCSB's workloads as loops.

use std::sync::atomic::Ordering;

use cairn::Result;

use super::{Worker, check};
use crate::engine::{Cursor, Engine, Session};
use crate::work::{number_of, write_key};
use crate::ycsb::{Mix, Step, Zipfian};

/// Most entries of a scan.
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
            write_key(number, &mut self.key);
            match mix.step(&mut self.rng) {
                Step::Read => self.get_one(number)?,
                Step::Update => self.put(number)?,
                Step::ReadThenUpdate => {
                    self.get_one(number)?;
                    self.put(number)?;
                }
                Step::Insert => {
                    let added = self.job.keys.fetch_add(1, Ordering::Relaxed);
                    write_key(added, &mut self.key);
                    self.put(added)?;
                }
                Step::Scan => self.walk_from_key()?,
            }
            done += 1;
            self.finished(1);
        }
        Ok(())
    }

    /// Reads 1 to [`SCAN_MOST`] entries from the present key on.
    fn walk_from_key(&mut self) -> Result<()> {
        let count = 1 + self.rng.below(SCAN_MOST);
        let mut iter = self.session.cursor();
        iter.seek(&self.key);
        self.tally.looked += 1;
        self.tally.found += u64::from(iter.valid());
        for _ in 0..count {
            if !iter.valid() {
                break;
            }
            let (key, value) = (iter.key(), iter.value());
            self.tally.bytes += (key.len() + value.len()) as u64;
            check(self.job, number_of(key), value)?;
            iter.next();
        }
        iter.status()
    }
}
