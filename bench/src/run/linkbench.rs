//! LinkBench's load and mix as loops.

use std::sync::atomic::Ordering;

use cairn::Result;

use super::{Checked, Job, Worker, wrong_value};
use crate::engine::{Cursor, Engine, Session};
use crate::linkbench::{
    COUNT_LEN, LINK_LEN, LIST_LEN, MOST_LINKS, Step, TYPES, count_key, degree, link, link_key,
    link_number, list_key, node_key, together,
};
use crate::ycsb::Zipfian;

/// Zipf's constants of LinkBench.
const READ_LINKS: f64 = 0.8;
const WRITE_LINKS: f64 = 0.741;
const READ_NODES: f64 = 0.625;
const UPDATE_NODES: f64 = 0.606;

impl<E: Engine, S: Session> Worker<'_, E, S> {
    /// Writes the nodes that are this thread's, each with its links and counts as one batch.
    pub(super) fn fill_links(&mut self) -> Result<()> {
        let num = self.flags.num;
        let step = self.flags.threads.max(1) as usize;
        for node in (self.thread..num).step_by(step) {
            let value = self.job.values.of(node);
            self.session.add(&node_key(node), value);
            self.tally.written += (node_key(node).len() + value.len()) as u64;
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
                    self.tally.written += key.len() as u64;
                    self.session.delete(&key)?;
                }
            }
            done += 1;
            self.finished(1);
        }
        Ok(())
    }

    /// One of the links that `node` was loaded with.
    fn some_link(&mut self, node: u64) -> (u8, u64) {
        let at = self.rng.below(degree(node));
        link(node, at, self.flags.num)
    }

    fn get_node(&mut self, node: u64) -> Result<bool> {
        self.key.clear();
        self.key.extend_from_slice(&node_key(node));
        let before = self.tally.found;
        self.get_one(node)?;
        Ok(self.tally.found > before)
    }

    fn put_node(&mut self, node: u64) -> Result<()> {
        self.key.clear();
        self.key.extend_from_slice(&node_key(node));
        self.put(node)
    }

    /// Whether there is a link, whose value is compared with what it must be.
    fn has_link(&mut self, key: &[u8]) -> Result<bool> {
        self.tally.looked += 1;
        let (job, tally) = (self.job, &mut self.tally);
        let found = self.session.get(key, |value| {
            tally.bytes += (key.len() + value.len()) as u64;
            check_link(job, key, value)
        })?;
        self.tally.found += u64::from(found);
        Ok(found)
    }

    fn get_links(&mut self, keys: &[Box<[u8]>]) -> Result<()> {
        self.tally.looked += keys.len() as u64;
        let (job, tally) = (self.job, &mut self.tally);
        self.session.multi_get(keys, |at, value| {
            tally.found += 1;
            tally.bytes += (keys[at].len() + value.len()) as u64;
            check_link(job, &keys[at], value)
        })
    }

    /// How many links a node has of a type; 0 where nothing is written about it.
    fn count(&mut self, key: &[u8; LIST_LEN]) -> Result<u64> {
        self.tally.looked += 1;
        let (mut count, tally) = (0, &mut self.tally);
        let found = self.session.get(key, |value| {
            tally.bytes += (key.len() + value.len()) as u64;
            let first = value.first_chunk();
            count = first.map_or(0, |first| u64::from_be_bytes(*first));
            Ok(())
        })?;
        self.tally.found += u64::from(found);
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
        self.tally.written += key.len() as u64;
        self.add_count(&counted, count.saturating_sub(1));
        self.session.write()
    }

    /// Adds a link to the session's batch.
    fn add_link(&mut self, key: &[u8]) {
        let value = self.job.values.of_len(link_number(key), LINK_LEN);
        self.tally.written += (key.len() + value.len()) as u64;
        self.session.add(key, value);
    }

    /// Adds a count to the session's batch.
    fn add_count(&mut self, key: &[u8; LIST_LEN], count: u64) {
        let mut value = [b' '; COUNT_LEN];
        value[..8].copy_from_slice(&count.to_be_bytes());
        self.tally.written += (key.len() + value.len()) as u64;
        self.session.add(key, &value);
    }

    /// Reads the links whose keys begin with `list`.
    fn walk_links(&mut self, list: &[u8; LIST_LEN]) -> Result<()> {
        let mut iter = self.session.cursor();
        iter.seek(list);
        self.tally.looked += 1;
        let mut count = 0;
        while count < MOST_LINKS && iter.valid() && iter.key().starts_with(list) {
            let (key, value) = (iter.key(), iter.value());
            self.tally.bytes += (key.len() + value.len()) as u64;
            check_link(self.job, key, value)?;
            count += 1;
            iter.next();
        }
        self.tally.found += u64::from(count > 0);
        iter.status()
    }
}

/// Checks that `value` is that of the link with this key.
fn check_link<E>(job: &Job<'_, E>, key: &[u8], value: &[u8]) -> Result<()> {
    let number = link_number(key);
    match job.checked {
        Checked::Nothing => Ok(()),
        _ if value == job.values.of_len(number, LINK_LEN) => Ok(()),
        _ => Err(wrong_value(number, value.len())),
    }
}
