//! LinkBench's load and operation mix.

use std::sync::atomic::Ordering;

use cairn::Result;

use super::{Checked, Job, Worker, wrong_value};
use crate::engine::{Cursor, Engine, Session};
use crate::linkbench::{
    COUNT_LEN, LINK_LEN, LIST_LEN, MOST_LINKS, Step, TYPES, count_key, degree, link, link_key,
    link_number, list_key, node_key, together,
};
use crate::ycsb::Zipfian;

/// Zipf exponents of LinkBench.
const READ_LINKS: f64 = 0.8;
const WRITE_LINKS: f64 = 0.741;
const READ_NODES: f64 = 0.625;
const UPDATE_NODES: f64 = 0.606;

impl<E: Engine, S: Session> Worker<'_, E, S> {
    /// Writes the nodes of this thread, each with its links and counts as one batch.
    pub(super) fn fill_links(&mut self) -> Result<()> {
        let num = self.flags.num;
        let step = self.flags.threads.max(1) as usize;
        for node in (self.thread..num).step_by(step) {
            let value = self.job.values.of(node);
            self.session.add(&node_key(node), value);
            self.stats.written += (node_key(node).len() + value.len()) as u64;
            let mut counts = [0u64; TYPES as usize];
            for at in 0..degree(node) {
                let (kind, other) = link(node, at, num);
                self.add_link(&link_key(node, kind, other));
                counts[usize::from(kind)] += 1;
            }
            for (kind, count) in (0..).zip(counts) {
                self.add_count(&count_key(node, kind), count);
            }
            self.session.write()?;
            self.finished(1);
        }
        Ok(())
    }

    pub(super) fn links(&mut self) -> Result<()> {
        let num = self.flags.num;
        let with = |theta| Zipfian::with(num, theta);
        let (read, write) = (with(READ_LINKS), with(WRITE_LINKS));
        let (get, update) = (with(READ_NODES), with(UPDATE_NODES));
        let mut keys = Vec::new();
        let mut done = 0;
        while self.goes_on(done) {
            let kind = self.rng.below(TYPES) as u8;
            match Step::next(&mut self.rng) {
                Step::GetLinkList => {
                    let node = read.scattered(&mut self.rng);
                    self.walk_links(&list_key(node, kind))?;
                }
                Step::GetLink => {
                    let node = read.scattered(&mut self.rng);
                    keys.clear();
                    for _ in 0..together(&mut self.rng) {
                        let (kind, other) = self.some_link(node);
                        keys.push(Box::from(link_key(node, kind, other)));
                    }
                    self.get_links(&keys)?;
                }
                Step::CountLink => {
                    let node = read.scattered(&mut self.rng);
                    self.count(&count_key(node, kind))?;
                }
                Step::AddLink => {
                    let node = write.scattered(&mut self.rng);
                    let other = self.rng.below(num.max(1));
                    self.put_link(node, kind, other)?;
                }
                Step::UpdateLink => {
                    let node = write.scattered(&mut self.rng);
                    let (kind, other) = self.some_link(node);
                    self.put_link(node, kind, other)?;
                }
                Step::DeleteLink => {
                    let node = write.scattered(&mut self.rng);
                    let (kind, other) = self.some_link(node);
                    self.delete_link(node, kind, other)?;
                }
                Step::GetNode => {
                    let node = get.scattered(&mut self.rng);
                    self.get_node(node)?;
                }
                Step::UpdateNode => {
                    let node = update.scattered(&mut self.rng);
                    if self.get_node(node)? {
                        self.put_node(node)?;
                    }
                }
                Step::AddNode => {
                    let node = self.job.keys.fetch_add(1, Ordering::Relaxed);
                    self.put_node(node)?;
                }
                Step::DeleteNode => {
                    let key = node_key(self.rng.below(num.max(1)));
                    self.stats.written += key.len() as u64;
                    self.session.delete(&key)?;
                }
            }
            done += 1;
            self.finished(1);
        }
        Ok(())
    }

    /// Returns one of the initial links of `node`.
    fn some_link(&mut self, node: u64) -> (u8, u64) {
        let at = self.rng.below(degree(node));
        link(node, at, self.flags.num)
    }

    fn get_node(&mut self, node: u64) -> Result<bool> {
        self.key.clear();
        self.key.extend_from_slice(&node_key(node));
        let before = self.stats.found;
        self.get_one(node)?;
        Ok(self.stats.found > before)
    }

    fn put_node(&mut self, node: u64) -> Result<()> {
        self.key.clear();
        self.key.extend_from_slice(&node_key(node));
        self.put(node)
    }

    /// True if the link exists; verifies its value.
    fn has_link(&mut self, key: &[u8]) -> Result<bool> {
        self.stats.looked += 1;
        let (job, stats) = (self.job, &mut self.stats);
        let found = self.session.get(key, |value| {
            stats.bytes += (key.len() + value.len()) as u64;
            check_link(job, key, value)
        })?;
        self.stats.found += u64::from(found);
        Ok(found)
    }

    fn get_links(&mut self, keys: &[Box<[u8]>]) -> Result<()> {
        self.stats.looked += keys.len() as u64;
        let (job, stats) = (self.job, &mut self.stats);
        self.session.multi_get(keys, |at, value| {
            stats.found += 1;
            stats.bytes += (keys[at].len() + value.len()) as u64;
            check_link(job, &keys[at], value)
        })
    }

    /// Returns the number of links of a node and type; 0 if there is no count.
    fn count(&mut self, key: &[u8; LIST_LEN]) -> Result<u64> {
        self.stats.looked += 1;
        let (mut count, stats) = (0, &mut self.stats);
        let found = self.session.get(key, |value| {
            stats.bytes += (key.len() + value.len()) as u64;
            let first = value.first_chunk();
            count = first.map_or(0, |first| u64::from_be_bytes(*first));
            Ok(())
        })?;
        self.stats.found += u64::from(found);
        Ok(count)
    }

    fn put_link(&mut self, node: u64, kind: u8, other: u64) -> Result<()> {
        let (key, counted) = (link_key(node, kind, other), count_key(node, kind));
        let known = self.has_link(&key)?;
        let count = self.count(&counted)?;
        self.add_link(&key);
        self.add_count(&counted, count + u64::from(!known));
        self.session.write()
    }

    fn delete_link(&mut self, node: u64, kind: u8, other: u64) -> Result<()> {
        let (key, counted) = (link_key(node, kind, other), count_key(node, kind));
        let known = self.has_link(&key)?;
        let count = self.count(&counted)?;
        if !known {
            return Ok(());
        }
        self.session.remove(&key);
        self.stats.written += key.len() as u64;
        self.add_count(&counted, count.saturating_sub(1));
        self.session.write()
    }

    /// Adds a link to the session's batch.
    fn add_link(&mut self, key: &[u8]) {
        let value = self.job.values.of_len(link_number(key), LINK_LEN);
        self.stats.written += (key.len() + value.len()) as u64;
        self.session.add(key, value);
    }

    /// Adds a count to the session's batch.
    fn add_count(&mut self, key: &[u8; LIST_LEN], count: u64) {
        let mut value = [b' '; COUNT_LEN];
        value[..8].copy_from_slice(&count.to_be_bytes());
        self.stats.written += (key.len() + value.len()) as u64;
        self.session.add(key, &value);
    }

    /// Scans the links with the key prefix `list`.
    fn walk_links(&mut self, list: &[u8; LIST_LEN]) -> Result<()> {
        let mut iter = self.session.cursor();
        iter.seek(list);
        self.stats.looked += 1;
        let mut count = 0;
        while count < MOST_LINKS && iter.valid() && iter.key().starts_with(list) {
            let (key, value) = (iter.key(), iter.value());
            self.stats.bytes += (key.len() + value.len()) as u64;
            check_link(self.job, key, value)?;
            count += 1;
            iter.next();
        }
        self.stats.found += u64::from(count > 0);
        iter.status()
    }
}

/// Verifies the value of the link with this key.
fn check_link<E>(job: &Job<'_, E>, key: &[u8], value: &[u8]) -> Result<()> {
    let number = link_number(key);
    match job.checked {
        Checked::Nothing => Ok(()),
        _ if value == job.values.of_len(number, LINK_LEN) => Ok(()),
        _ => Err(wrong_value(number, value.len())),
    }
}
