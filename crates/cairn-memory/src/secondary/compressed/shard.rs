//! One shard of the compressed tier: nodes in a vector, an open hash table of their indexes, and two queues
//! linked through the nodes. Everything here runs under the shard's lock.
//!
//! `usage` is the memory of the whole shard: entries as allocated, nodes, table and recorded keys. It is at
//! most the limit after every operation except [`Shard::set_limit`], which evicts in steps.

use super::super::recent_keys::RecentKeys;
use super::super::{Bytes, CacheTier, Offer, Removal, TierCounts};
use super::{CompressedCacheStats, hash_of};
use crate::cache::{CacheKey, CachePriority, CacheRole};

/// The maximum count of hits, and thus how often an entry of the main queue can escape eviction.
const MAX_HITS: u8 = 3;

/// The share of the limit for entries without merit, as a divisor.
const SMALL_SHARE: usize = 10;

/// The share of the limit for recorded keys, as a divisor.
const KEYS_SHARE: usize = 128;

/// The maximum memory for recorded keys, in bytes: their array is allocated at once, and a capacity may be far above the
/// memory there is.
const MAX_KEYS_BYTES: usize = 1 << 20;

/// Evictions in one step of [`Shard::set_limit`].
const STEP: usize = 256;

const NONE: u32 = u32::MAX;
const MIN_TABLE: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Queue {
    Small,
    Main,
}

/// An entry and its links. A free node has no bytes, and free nodes are chained through `next`.
struct Node {
    key: CacheKey,
    bytes: Option<Bytes>,
    /// The next younger entry of the queue.
    prev: u32,
    /// The next older entry of the queue.
    next: u32,
    role: CacheRole,
    priority: CachePriority,
    lowest: CacheTier,
    hits: u8,
    queue: Queue,
}

#[derive(Clone, Copy)]
struct Ends {
    young: u32,
    old: u32,
    charge: usize,
}

impl Default for Ends {
    fn default() -> Ends {
        Ends {
            young: NONE,
            old: NONE,
            charge: 0,
        }
    }
}

/// The decision on an offered entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// The shard has the entry.
    Present,
    /// The key was recorded, and the entry is not stored now.
    Recorded,
    /// The entry is to be stored. `proven` is true if its key had been recorded.
    Admitted { proven: bool },
}

/// An entry that was evicted.
pub(super) struct Evicted {
    pub(super) key: CacheKey,
    pub(super) bytes: Bytes,
    pub(super) role: CacheRole,
    pub(super) priority: CachePriority,
    pub(super) lowest: CacheTier,
    /// True if it had merit or was hit here.
    pub(super) hit: bool,
}

/// An entry that was found.
pub(super) struct Hit {
    pub(super) bytes: Bytes,
    pub(super) role: CacheRole,
    pub(super) priority: CachePriority,
    /// True if it was removed because it moves to the block cache.
    pub(super) promoted: bool,
}

/// The result of a lookup.
pub(super) enum Searched {
    /// The entry.
    Hit(Hit),
    /// The shard does not have it. `recorded` is true if an earlier eviction recorded the key.
    Miss { recorded: bool },
}

/// One shard; see the module's documentation.
#[derive(Default)]
pub(super) struct Shard {
    nodes: Vec<Node>,
    free: u32,
    free_count: usize,
    /// Indexes of nodes by hash; a power of two, at most three quarters in use.
    table: Box<[u32]>,
    queues: [Ends; 2],
    keys: RecentKeys,
    limit: usize,
    counts: [TierCounts; CacheRole::ALL.len()],
    placeholders: u64,
    placeholder_hits: u64,
    promotions: u64,
}

impl Node {
    fn charge(&self) -> usize {
        self.bytes.as_ref().map_or(0, Bytes::memory_usage)
    }
}

/// The index of a node, as stored.
fn index_of(at: usize) -> u32 {
    u32::try_from(at).expect("a shard has fewer than 2^32 entries")
}

/// Inserts a node into a table that has a free place.
fn put(table: &mut [u32], hash: u64, node: u32) {
    let mask = table.len() - 1;
    // Truncation is intended: the lowest bits are used.
    let mut place = hash as usize & mask;
    while table[place] != NONE {
        place = (place + 1) & mask;
    }
    table[place] = node;
}

impl Shard {
    /// Decides on an entry that is offered, and records its key if it is not stored now.
    pub(super) fn admit(&mut self, hash: u64, key: &CacheKey, force: bool) -> Admission {
        if self.place_of(hash, key).is_some() {
            return Admission::Present;
        }
        let proven = self.keys.remove(hash);
        if proven || force {
            return Admission::Admitted { proven };
        }
        self.keys.add(hash);
        self.placeholders += 1;
        Admission::Recorded
    }

    pub(super) fn insert(
        &mut self,
        hash: u64,
        offer: &Offer<'_>,
        bytes: Bytes,
        proven: bool,
        evicted: &mut Vec<Evicted>,
    ) -> bool {
        if self.place_of(hash, &offer.key).is_some() {
            // Another thread inserted it first; the bytes are the same.
            return true;
        }
        let charge = bytes.memory_usage();
        if charge + self.overhead_with_one_more() > self.limit {
            self.counts[offer.role as usize].refusals += 1;
            return false;
        }
        self.reserve();
        while self.usage() + charge > self.limit {
            let entry = self.evict_one();
            evicted.push(entry.expect("an entry fits into an empty shard"));
        }
        let queue = match proven || offer.hit {
            true => Queue::Main,
            false => Queue::Small,
        };
        let counts = &mut self.counts[offer.role as usize];
        counts.inserted(bytes.stored().len());
        let node = Node {
            key: offer.key,
            bytes: Some(bytes),
            prev: NONE,
            next: NONE,
            role: offer.role,
            priority: offer.priority,
            lowest: offer.lowest,
            hits: 0,
            queue,
        };
        let at = self.add_node(node);
        self.link(at, queue);
        put(&mut self.table, hash, index_of(at));
        true
    }

    pub(super) fn lookup(&mut self, hash: u64, key: &CacheKey, promote: bool) -> Searched {
        let Some(place) = self.place_of(hash, key) else {
            let recorded = self.keys.contains(hash);
            self.placeholder_hits += u64::from(recorded);
            return Searched::Miss { recorded };
        };
        let at = self.table[place];
        let node = &mut self.nodes[at as usize];
        let Some(bytes) = node.bytes.clone() else {
            return Searched::Miss { recorded: false };
        };
        let promoted = promote && node.hits > 0;
        node.hits = (node.hits + u8::from(promote)).min(MAX_HITS);
        let hit = Hit {
            bytes,
            role: node.role,
            priority: node.priority,
            promoted,
        };
        self.counts[hit.role as usize].hits += 1;
        if promoted {
            self.remove(place, Removal::Erased);
            self.keys.add(hash);
            self.promotions += 1;
        }
        Searched::Hit(hit)
    }

    pub(super) fn contains(&self, hash: u64, key: &CacheKey) -> bool {
        self.place_of(hash, key).is_some()
    }

    pub(super) fn erase(&mut self, hash: u64, key: &CacheKey) -> bool {
        self.keys.remove(hash);
        let Some(place) = self.place_of(hash, key) else {
            return false;
        };
        self.remove(place, Removal::Erased);
        true
    }

    /// Erases all entries, and returns them to be freed.
    pub(super) fn clear(&mut self) -> impl Drop + use<> {
        for node in &self.nodes {
            if let Some(bytes) = &node.bytes {
                let len = bytes.stored().len();
                self.counts[node.role as usize].removed(len, Removal::Erased);
            }
        }
        self.queues = Default::default();
        self.free_count = 0;
        self.table = Box::default();
        self.keys.clear();
        std::mem::take(&mut self.nodes)
    }

    /// Sets the limit and evicts some of the entries beyond it. Returns false if the call must be repeated to
    /// evict more.
    pub(super) fn set_limit(&mut self, limit: usize, evicted: &mut Vec<Evicted>) -> bool {
        self.limit = limit;
        let keys = RecentKeys::new((limit / KEYS_SHARE).min(MAX_KEYS_BYTES));
        if keys.memory_usage() != self.keys.memory_usage() {
            // The recorded keys are dropped: they are not worth the cost of moving them.
            self.keys = keys;
        }
        while self.usage() > limit && evicted.len() < STEP {
            let Some(entry) = self.evict_one() else { break };
            evicted.push(entry);
        }
        self.compact();
        self.usage() <= limit
    }

    pub(super) fn usage(&self) -> usize {
        self.queues.iter().map(|queue| queue.charge).sum::<usize>() + self.overhead()
    }

    pub(super) fn counts(&self, role: CacheRole) -> TierCounts {
        self.counts[role as usize]
    }

    pub(super) fn add_stats(&self, stats: &mut CompressedCacheStats) {
        stats.placeholders += self.placeholders;
        stats.placeholder_hits += self.placeholder_hits;
        stats.promotions += self.promotions;
    }

    /// The memory of everything but the entries.
    fn overhead(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
            + size_of_val(&*self.table)
            + self.keys.memory_usage()
    }

    /// The same after [`Shard::reserve`].
    fn overhead_with_one_more(&self) -> usize {
        self.overhead()
            + self.more_nodes() * size_of::<Node>()
            + self.more_table() * size_of::<u32>()
    }

    fn len(&self) -> usize {
        self.nodes.len() - self.free_count
    }

    /// The number of nodes to allocate for one more entry. Growing by an eighth keeps the number of unused
    /// ones low.
    fn more_nodes(&self) -> usize {
        match self.free_count > 0 || self.nodes.len() < self.nodes.capacity() {
            true => 0,
            false => (self.nodes.len() / 8).max(4),
        }
    }

    /// The number of places by which the table grows for one more entry.
    fn more_table(&self) -> usize {
        match (self.len() + 1) * 4 <= self.table.len() * 3 {
            true => 0,
            false => self.table.len().max(MIN_TABLE),
        }
    }

    fn reserve(&mut self) {
        self.nodes.reserve_exact(self.more_nodes());
        let more = self.more_table();
        if more > 0 {
            self.rebuild_table(self.table.len() + more);
        }
    }

    fn rebuild_table(&mut self, places: usize) {
        debug_assert!(
            places == 0 || places.is_power_of_two(),
            "places are selected by a mask"
        );
        let mut table = vec![NONE; places].into_boxed_slice();
        for (at, node) in (0u32..).zip(&self.nodes) {
            if node.bytes.is_some() {
                put(&mut table, hash_of(&node.key), at);
            }
        }
        self.table = table;
    }

    /// Reallocates the entries to fit, if half of the memory is unused.
    fn compact(&mut self) {
        let len = self.len();
        if len > 0 && self.nodes.capacity() <= len * 2 + 8 {
            return;
        }
        let mut all = std::mem::replace(&mut self.nodes, Vec::with_capacity(len));
        let queues = std::mem::take(&mut self.queues);
        self.free_count = 0;
        for queue in [Queue::Small, Queue::Main] {
            let mut at = queues[queue as usize].old;
            while let Some(node) = all.get_mut(at as usize) {
                let bytes = node.bytes.take();
                self.nodes.push(Node { bytes, ..*node });
                at = node.prev;
                self.link(self.nodes.len() - 1, queue);
            }
        }
        debug_assert_eq!(self.nodes.len(), len, "every entry is in a queue");
        let places = (len * 4 / 3 + 1).next_power_of_two().max(MIN_TABLE);
        self.rebuild_table(if len == 0 { 0 } else { places });
    }

    /// Evicts the next entry in order; `None` if there is none.
    fn evict_one(&mut self) -> Option<Evicted> {
        loop {
            let small = self.queues[Queue::Small as usize];
            let main = self.queues[Queue::Main as usize];
            let exceeds = small.charge > self.limit / SMALL_SHARE;
            let at = match small.old != NONE && (exceeds || main.old == NONE) {
                true => small.old,
                false => main.old,
            };
            let node = self.nodes.get_mut(at as usize)?;
            if node.hits > 0 {
                // In the small queue the entry moves up, in the main queue to the young end.
                node.hits -= 1;
                self.unlink(at);
                self.link(at as usize, Queue::Main);
                continue;
            }
            let (key, lowest) = (node.key, node.lowest);
            let (role, priority, queue) = (node.role, node.priority, node.queue);
            let hash = hash_of(&key);
            let place = self.find(hash, |node| node == at);
            let bytes = self.remove(
                place.expect("every linked node is in the table"),
                Removal::Evicted,
            );
            if queue == Queue::Small {
                self.keys.add(hash);
            }
            return Some(Evicted {
                key,
                bytes,
                role,
                priority,
                lowest,
                hit: queue == Queue::Main,
            });
        }
    }

    /// Removes the entry at a place of the table, and returns its bytes.
    fn remove(&mut self, place: usize, reason: Removal) -> Bytes {
        let at = self.table[place];
        self.unlink(at);
        self.close_gap(place);
        let node = &mut self.nodes[at as usize];
        let bytes = node.bytes.take().expect("a linked node has bytes");
        node.next = self.free;
        let role = node.role as usize;
        self.free = at;
        self.free_count += 1;
        self.counts[role].removed(bytes.stored().len(), reason);
        bytes
    }

    /// Adds a node, for which there is room, and returns its index.
    fn add_node(&mut self, node: Node) -> usize {
        if self.free_count > 0 {
            let at = self.free as usize;
            self.free = self.nodes[at].next;
            self.free_count -= 1;
            self.nodes[at] = node;
            return at;
        }
        debug_assert!(
            self.nodes.len() < self.nodes.capacity(),
            "room was reserved"
        );
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn mask(&self) -> usize {
        self.table.len().wrapping_sub(1)
    }

    fn place_of(&self, hash: u64, key: &CacheKey) -> Option<usize> {
        self.find(hash, |node| self.nodes[node as usize].key == *key)
    }

    fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<usize> {
        if self.table.is_empty() {
            return None;
        }
        // Truncation is intended: the lowest bits are used. A quarter of the places is free, so the search
        // terminates.
        let mut place = hash as usize & self.mask();
        loop {
            match self.table[place] {
                NONE => return None,
                node if is(node) => return Some(place),
                _ => place = (place + 1) & self.mask(),
            }
        }
    }

    /// Frees a place of the table. Later entries of the same run are shifted, as far as their hashes permit.
    fn close_gap(&mut self, place: usize) {
        let mut gap = place;
        let mut at = place;
        loop {
            at = (at + 1) & self.mask();
            let node = self.table[at];
            if node == NONE {
                break;
            }
            let home = hash_of(&self.nodes[node as usize].key) as usize & self.mask();
            if at.wrapping_sub(home) & self.mask() >= at.wrapping_sub(gap) & self.mask() {
                self.table[gap] = node;
                gap = at;
            }
        }
        self.table[gap] = NONE;
    }

    /// Inserts a node at the young end of `queue`.
    fn link(&mut self, at: usize, queue: Queue) {
        let index = index_of(at);
        let ends = &mut self.queues[queue as usize];
        let node = &mut self.nodes[at];
        node.queue = queue;
        node.prev = NONE;
        node.next = ends.young;
        ends.charge += node.charge();
        match std::mem::replace(&mut ends.young, index) {
            NONE => ends.old = index,
            after => self.nodes[after as usize].prev = index,
        }
    }

    fn unlink(&mut self, at: u32) {
        let node = &self.nodes[at as usize];
        let (prev, next, queue) = (node.prev, node.next, node.queue);
        let charge = node.charge();
        let ends = &mut self.queues[queue as usize];
        debug_assert!(ends.charge >= charge, "the entry was charged");
        ends.charge -= charge;
        match prev {
            NONE => ends.young = next,
            prev => self.nodes[prev as usize].next = next,
        }
        match next {
            NONE => self.queues[queue as usize].old = prev,
            next => self.nodes[next as usize].prev = prev,
        }
    }
}
