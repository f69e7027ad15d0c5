//! The block reads of LinkBench in a model of sorted tables.
//!
//! LinkBench's operations are applied to a memtable and the levels of a small model of an LSM tree: tables
//! are sorted lists of keys with block boundaries, an index block and a filter block. A lookup reads the
//! filter of each table that may contain its key, and the index and a block if the filter matches; a scan
//! reads the index and the blocks of its range in every sorted run. Flushes and compactions write new tables
//! without inserting their blocks into the cache, so that hot blocks are occasionally replaced by others.

use cairn_memory::CachePriority;

use crate::key_value_gen::{Rng, mix};
use crate::linkbench::{COUNT_LEN, Graph, MOST_LINKS, Step, TYPES};

use super::trace::{Event, Request, Trace};

/// Bytes of the value of a node, and of a link.
const NODE_LEN: u32 = 120;
const LINK_LEN: u32 = 24;
const BLOCK_LEN: u32 = 4 << 10;
/// Bytes of an index entry.
const INDEX_ENTRY: u32 = 28;
/// Bits of a filter per key.
const FILTER_BITS: u32 = 10;
/// The filter has one false positive per this number of missing keys.
const FALSE_POSITIVE: u64 = 100;
/// The number of level-0 tables that triggers a compaction.
const TRIGGER: usize = 4;
/// The size ratio of adjacent levels.
const FANOUT: usize = 10;

/// The treatment of cached blocks of a deleted table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// They are erased.
    Erased,
    /// Index and filter are erased.
    MetadataErased,
    /// They stay until they are evicted.
    Left,
}

/// A key, in LinkBench's order: kind, node, link type, other node, and a deletion flag in the lowest bit.
type Key = u64;

fn node_key(node: u64) -> Key {
    (3 << 60) | (node << 34)
}

fn count_key(node: u64, kind: u8) -> Key {
    (1 << 60) | (node << 34) | (u64::from(kind) << 30)
}

fn link_key(node: u64, kind: u8, other: u64) -> Key {
    (2 << 60) | (node << 34) | (u64::from(kind) << 30) | (other << 2)
}

/// Bytes of the entry of a key.
fn entry_len(key: Key) -> u32 {
    match key >> 60 {
        1 => 10 + COUNT_LEN as u32,
        2 => 18 + LINK_LEN,
        _ => 9 + NODE_LEN,
    }
}

/// A sorted table.
struct Table {
    keys: Vec<Key>,
    /// First entry of each block.
    blocks: Vec<u32>,
    /// Number of the filter; the index and the blocks follow.
    first: u32,
}

impl Table {
    fn block_of(&self, entry: usize) -> usize {
        self.blocks
            .partition_point(|first| *first as usize <= entry)
            - 1
    }

    fn covers(&self, key: Key) -> bool {
        self.keys[0] <= key && key <= self.keys[self.keys.len() - 1]
    }
}

/// The tree, and the trace of its reads.
pub struct Tree {
    memtable: std::collections::BTreeSet<Key>,
    /// Sorted runs by level. In level 0 each table is a run, newest last.
    levels: Vec<Vec<Table>>,
    /// The start key of the next compaction of a level.
    cursors: Vec<usize>,
    table_keys: usize,
    charges: Vec<u32>,
    events: Vec<Event>,
    deleted: Deleted,
}

impl Tree {
    fn new(table_keys: usize, deleted: Deleted) -> Tree {
        Tree {
            memtable: std::collections::BTreeSet::new(),
            levels: std::iter::repeat_with(Vec::new).take(4).collect(),
            cursors: vec![0; 4],
            table_keys,
            charges: Vec::new(),
            events: Vec::new(),
            deleted,
        }
    }

    fn read(&mut self, key: u32, priority: CachePriority) {
        self.events.push(Event::Read(Request {
            key,
            charge: self.charges[key as usize],
            priority,
        }));
    }

    /// Creates tables from the keys.
    fn tables(&mut self, keys: &[Key]) -> Vec<Table> {
        keys.chunks(self.table_keys)
            .map(|keys| {
                let first = self.charges.len() as u32;
                let mut blocks = Vec::new();
                let mut lens = Vec::new();
                for (at, key) in (0..).zip(keys) {
                    match lens.last_mut() {
                        Some(len) if *len < BLOCK_LEN => *len += entry_len(*key),
                        _ => {
                            blocks.push(at);
                            lens.push(entry_len(*key));
                        }
                    }
                }
                self.charges.push(keys.len() as u32 * FILTER_BITS / 8 + 64);
                self.charges.push(blocks.len() as u32 * INDEX_ENTRY + 64);
                self.charges.extend(lens);
                Table {
                    keys: keys.to_vec(),
                    blocks,
                    first,
                }
            })
            .collect()
    }

    fn put(&mut self, key: Key) {
        self.memtable.remove(&(key ^ 1));
        self.memtable.insert(key);
        if self.memtable.len() >= self.table_keys {
            let keys: Vec<Key> = std::mem::take(&mut self.memtable).into_iter().collect();
            let tables = self.tables(&keys);
            self.levels[0].extend(tables);
            self.compact();
        }
    }

    fn compact(&mut self) {
        if self.levels[0].len() >= TRIGGER {
            let mut tables = std::mem::take(&mut self.levels[0]);
            tables.reverse();
            self.merge_into(1, tables);
        }
        for level in 1..self.levels.len() - 1 {
            while self.levels[level].len() > TRIGGER * FANOUT.pow(level as u32 - 1) {
                let at = self.cursors[level] % self.levels[level].len();
                let table = self.levels[level].remove(at);
                self.cursors[level] = at;
                self.merge_into(level + 1, vec![table]);
            }
        }
    }

    /// Merges tables, newest first, with those of `level` that overlap them.
    fn merge_into(&mut self, level: usize, newer: Vec<Table>) {
        let first = newer.iter().map(|table| table.keys[0]).min();
        let last = newer.iter().filter_map(|table| table.keys.last()).max();
        let (Some(first), Some(&last)) = (first, last) else {
            return;
        };
        let run = &mut self.levels[level];
        let from = run.partition_point(|table| table.keys.last().is_some_and(|key| *key < first));
        let to = run.partition_point(|table| table.keys[0] <= last).max(from);
        let older: Vec<Table> = run.drain(from..to).collect();
        // By key without the deletion flag, newest first.
        let mut keys: Vec<(Key, usize, bool)> = Vec::new();
        for (age, table) in newer.iter().chain(&older).enumerate() {
            keys.extend(table.keys.iter().map(|key| (key | 1, age, key & 1 > 0)));
        }
        keys.sort_unstable();
        keys.dedup_by_key(|(key, ..)| *key);
        let bottom = level + 1 == self.levels.len();
        let kept: Vec<Key> = keys
            .iter()
            .filter(|(.., deleted)| !(bottom && *deleted))
            .map(|(key, _, deleted)| (key ^ 1) | u64::from(*deleted))
            .collect();
        let tables = self.tables(&kept);
        self.levels[level].splice(from..from, tables);
        for table in newer.iter().chain(&older) {
            let blocks = match self.deleted {
                Deleted::Erased => 2 + table.blocks.len() as u32,
                Deleted::MetadataErased => 2,
                Deleted::Left => 0,
            };
            let end = table.first + blocks;
            self.events.extend((table.first..end).map(Event::Erase));
        }
    }

    /// Returns true if `key` exists, after reading the blocks that a lookup reads.
    fn get(&mut self, key: Key) -> bool {
        if self.memtable.contains(&key) {
            return true;
        }
        if self.memtable.contains(&(key | 1)) {
            return false;
        }
        for level in 0..self.levels.len() {
            for at in (0..self.levels[level].len()).rev() {
                let run = &self.levels[level];
                let at = match level {
                    0 => at,
                    _ => run
                        .partition_point(|table| table.keys.last().is_some_and(|last| *last < key)),
                };
                if let Some(table) = run.get(at)
                    && table.covers(key)
                {
                    let place = table.keys.partition_point(|other| *other < key);
                    let found = table
                        .keys
                        .get(place)
                        .filter(|other| **other | 1 == key | 1)
                        .copied();
                    let first = table.first;
                    let block = table.block_of(place.min(table.keys.len() - 1)) as u32;
                    self.read(first, CachePriority::High);
                    if found.is_some() || passes_filter(key, first) {
                        self.read(first + 1, CachePriority::High);
                        self.read(first + 2 + block, CachePriority::Low);
                    }
                    if let Some(found) = found {
                        return found & 1 == 0;
                    }
                }
                if level > 0 {
                    break;
                }
            }
        }
        false
    }

    /// Reads the blocks of a scan from `from` to before `to`.
    fn scan(&mut self, from: Key, to: Key) {
        let mut reads = Vec::new();
        for (level, run) in self.levels.iter().enumerate() {
            let start = match level {
                0 => 0,
                _ => {
                    run.partition_point(|table| table.keys.last().is_some_and(|last| *last < from))
                }
            };
            for table in &run[start..] {
                if level > 0 && (table.keys[0] >= to && !reads.is_empty()) {
                    break;
                }
                let begin = table.keys.partition_point(|key| *key < from);
                if begin == table.keys.len() {
                    continue;
                }
                let most = begin + MOST_LINKS as usize;
                let end = table.keys.partition_point(|key| *key < to).min(most);
                reads.push((table.first + 1, CachePriority::High));
                let last = table.block_of(end.min(table.keys.len() - 1));
                for block in table.block_of(begin)..=last {
                    reads.push((table.first + 2 + block as u32, CachePriority::Low));
                }
                if level > 0 && end < table.keys.len() {
                    break;
                }
            }
        }
        for (key, priority) in reads {
            self.read(key, priority);
        }
    }

    fn put_link(&mut self, node: u64, kind: u8, other: u64) {
        let (key, counted) = (link_key(node, kind, other), count_key(node, kind));
        self.get(key);
        self.get(counted);
        self.put(key);
        self.put(counted);
    }
}

/// True if the filter of a table has a false positive for `key`.
fn passes_filter(key: Key, table: u32) -> bool {
    mix(key ^ u64::from(table)).is_multiple_of(FALSE_POSITIVE)
}

/// The block reads of `operations` operations of LinkBench on a graph of `nodes` nodes.
pub fn linkbench(name: &'static str, nodes: u64, operations: u64, deleted: Deleted) -> Trace {
    let graph = Graph::new(nodes);
    let mut keys = Vec::new();
    for node in 0..nodes {
        keys.push(node_key(node));
        keys.extend((0..TYPES as u8).map(|kind| count_key(node, kind)));
        for kind in 0..TYPES as u8 {
            let links = 0..graph.links(node, kind);
            keys.extend(links.map(|at| link_key(node, kind, graph.other(node, at))));
        }
    }
    keys.sort_unstable();
    keys.dedup();
    let mut tree = Tree::new((keys.len() / 400).max(200), deleted);
    let tables = tree.tables(&keys);
    let bytes = tree.charges.iter().map(|charge| u64::from(*charge)).sum();
    *tree.levels.last_mut().expect("a tree has levels") = tables;
    let mut rng = Rng::new(7);
    let mut total = nodes;
    for _ in 0..operations {
        let kind = rng.below(TYPES) as u8;
        let step = Step::next(&mut rng);
        match step {
            Step::GetLinkList => {
                let node = graph.reads_links_of(&mut rng);
                let from = link_key(node, kind, 0);
                tree.scan(from, from + (1 << 30));
            }
            Step::GetLink => {
                let node = graph.reads_links_of(&mut rng);
                for other in graph.some_others(node, kind, &mut rng) {
                    tree.get(link_key(node, kind, other));
                }
            }
            Step::CountLink => {
                let node = graph.reads_links_of(&mut rng);
                tree.get(count_key(node, kind));
            }
            Step::AddLink => {
                let node = graph.writes_links_of(&mut rng);
                let other = graph.some_other(node, kind, step, &mut rng);
                tree.put_link(node, kind, other);
            }
            Step::UpdateLink => {
                let node = graph.writes_links_of(&mut rng);
                let other = graph.some_other(node, kind, step, &mut rng);
                tree.put_link(node, kind, other);
            }
            Step::DeleteLink => {
                let node = graph.writes_links_of(&mut rng);
                let other = graph.some_other(node, kind, step, &mut rng);
                let key = link_key(node, kind, other);
                let known = tree.get(key);
                tree.get(count_key(node, kind));
                if known {
                    tree.put(key | 1);
                    tree.put(count_key(node, kind));
                }
            }
            Step::GetNode => {
                let node = graph.reads_node(&mut rng);
                tree.get(node_key(node));
            }
            Step::UpdateNode => {
                let node = graph.updates_node(&mut rng);
                if tree.get(node_key(node)) {
                    tree.put(node_key(node));
                }
            }
            Step::AddNode => {
                tree.put(node_key(total));
                total += 1;
            }
            Step::DeleteNode => tree.put(node_key(graph.removes_node(&mut rng)) | 1),
        }
    }
    Trace {
        name,
        keys: tree.charges.len(),
        shares: &[0.05, 1.0 / 7.0, 0.4],
        bytes,
        warm_up: tree.events.len() / 5,
        events: tree.events,
    }
}
