//! LinkBench's load and operation mix.

use std::sync::atomic::Ordering;

use cairn::Result;

use super::{Checked, Job, Worker, wrong_value};
use crate::engine::{Cursor, Engine, Session};
use crate::linkbench::{
    COUNT_LEN, Graph, LIST_LEN, MOST_LINKS, Step, TYPES, count_key, link_key, link_number,
    list_key, node_key,
};

/// Maximum number of entries of a batch of the load.
const BATCH: usize = 1000;

impl<E: Engine, S: Session> Worker<'_, E, S> {
    /// Writes the nodes of this thread, each with its links and counts, in one batch unless there are many.
    pub(super) fn fill_links(&mut self) -> Result<()> {
        let graph = Graph::new(self.flags.num);
        let sizes = self.flags.graph_sizes();
        let step = self.flags.threads.max(1) as usize;
        for node in (self.thread..self.flags.num).step_by(step) {
            let value = self.job.values.of_len(node, sizes.node_len(node));
            self.session.add(&node_key(node), value);
            self.stats.written += (node_key(node).len() + value.len()) as u64;
            let mut added = 1;
            for kind in 0..TYPES as u8 {
                let links = graph.links(node, kind);
                for at in 0..links {
                    self.add_link(&link_key(node, kind, graph.other(node, at)));
                    added += 1;
                    if added % BATCH == 0 {
                        self.session.write()?;
                    }
                }
                if links > 0 {
                    self.add_count(&count_key(node, kind), links);
                }
            }
            self.session.write()?;
            self.finished(1);
        }
        Ok(())
    }

    pub(super) fn links(&mut self) -> Result<()> {
        let graph = Graph::new(self.flags.num);
        let mut keys = Vec::new();
        let mut done = 0;
        while self.goes_on(done) {
            let kind = self.rng.below(TYPES) as u8;
            let step = Step::next(&mut self.rng);
            match step {
                Step::GetLinkList => {
                    let node = graph.reads_links_of(&mut self.rng);
                    self.walk_links(&list_key(node, kind))?;
                }
                Step::GetLink => {
                    let node = graph.reads_links_of(&mut self.rng);
                    keys.clear();
                    for other in graph.some_others(node, kind, &mut self.rng) {
                        keys.push(Box::from(link_key(node, kind, other)));
                    }
                    self.get_links(&keys)?;
                }
                Step::CountLink => {
                    let node = graph.reads_links_of(&mut self.rng);
                    self.count(&count_key(node, kind))?;
                }
                Step::AddLink | Step::UpdateLink => {
                    let node = graph.writes_links_of(&mut self.rng);
                    let other = graph.some_other(node, kind, step, &mut self.rng);
                    self.put_link(node, kind, other)?;
                }
                Step::DeleteLink => {
                    let node = graph.writes_links_of(&mut self.rng);
                    let other = graph.some_other(node, kind, step, &mut self.rng);
                    self.delete_link(node, kind, other)?;
                }
                Step::GetNode => {
                    let node = graph.reads_node(&mut self.rng);
                    self.get_node(node)?;
                }
                Step::UpdateNode => {
                    let node = graph.updates_node(&mut self.rng);
                    if self.get_node(node)? {
                        self.put_node(node)?;
                    }
                }
                Step::AddNode => {
                    let node = self.job.keys.fetch_add(1, Ordering::Relaxed);
                    self.put_node(node)?;
                }
                Step::DeleteNode => {
                    let key = node_key(graph.removes_node(&mut self.rng));
                    self.stats.written += key.len() as u64;
                    self.session.delete(&key)?;
                }
            }
            done += 1;
            self.finished(1);
        }
        Ok(())
    }

    /// True if the node exists; verifies its value.
    fn get_node(&mut self, node: u64) -> Result<bool> {
        let sizes = self.flags.graph_sizes();
        self.get_value(&node_key(node), node, || sizes.node_len(node))
    }

    fn put_node(&mut self, node: u64) -> Result<()> {
        let len = self.flags.graph_sizes().node_len(node);
        let (key, value) = (node_key(node), self.job.values.of_len(node, len));
        self.stats.written += (key.len() + value.len()) as u64;
        self.session.put(&key, value)
    }

    /// True if the link exists; verifies its value.
    fn has_link(&mut self, key: &[u8]) -> Result<bool> {
        let (number, sizes) = (link_number(key), self.flags.graph_sizes());
        self.get_value(key, number, || sizes.link_len(number))
    }

    /// True if `key` exists; its value must be that of `number` with `len` bytes.
    fn get_value(&mut self, key: &[u8], number: u64, len: impl Fn() -> usize) -> Result<bool> {
        self.stats.looked += 1;
        let (job, stats) = (self.job, &mut self.stats);
        let found = self.session.get(key, |value| {
            stats.bytes += (key.len() + value.len()) as u64;
            check_value(job, number, &len, value)
        })?;
        self.stats.found += u64::from(found);
        Ok(found)
    }

    fn get_links(&mut self, keys: &[Box<[u8]>]) -> Result<()> {
        self.stats.looked += keys.len() as u64;
        let (job, stats, sizes) = (self.job, &mut self.stats, self.flags.graph_sizes());
        self.session.multi_get(keys, |at, value| {
            stats.found += 1;
            stats.bytes += (keys[at].len() + value.len()) as u64;
            let number = link_number(&keys[at]);
            check_value(job, number, || sizes.link_len(number), value)
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

    /// Puts a link, with its count if it is new.
    fn put_link(&mut self, node: u64, kind: u8, other: u64) -> Result<()> {
        let key = link_key(node, kind, other);
        if !self.has_link(&key)? {
            let counted = count_key(node, kind);
            let count = self.count(&counted)?;
            self.add_count(&counted, count + 1);
        }
        self.add_link(&key);
        self.session.write()
    }

    /// Deletes a link and updates its count, if it exists.
    fn delete_link(&mut self, node: u64, kind: u8, other: u64) -> Result<()> {
        let key = link_key(node, kind, other);
        if !self.has_link(&key)? {
            return Ok(());
        }
        let counted = count_key(node, kind);
        let count = self.count(&counted)?;
        self.session.remove(&key);
        self.stats.written += key.len() as u64;
        self.add_count(&counted, count.saturating_sub(1));
        self.session.write()
    }

    /// Adds a link to the session's batch.
    fn add_link(&mut self, key: &[u8]) {
        let number = link_number(key);
        let len = self.flags.graph_sizes().link_len(number);
        let value = self.job.values.of_len(number, len);
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
        let (job, sizes) = (self.job, self.flags.graph_sizes());
        let mut iter = self.session.cursor();
        iter.seek(list);
        self.stats.looked += 1;
        let mut count = 0;
        while count < MOST_LINKS && iter.valid() {
            let key = iter.key();
            if !key.starts_with(list) {
                break;
            }
            let value = iter.value();
            self.stats.bytes += (key.len() + value.len()) as u64;
            let number = link_number(key);
            check_value(job, number, || sizes.link_len(number), value)?;
            count += 1;
            iter.next();
        }
        self.stats.found += u64::from(count > 0);
        iter.status()
    }
}

/// Verifies a value, which must be that of `number` with `len` bytes.
fn check_value<E>(
    job: &Job<'_, E>,
    number: u64,
    len: impl Fn() -> usize,
    value: &[u8],
) -> Result<()> {
    match job.checked {
        Checked::Nothing => Ok(()),
        _ if value == job.values.of_len(number, len()) => Ok(()),
        _ => Err(wrong_value(number, value.len())),
    }
}
