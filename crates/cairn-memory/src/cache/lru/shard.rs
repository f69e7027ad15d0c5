//! One shard of the cache: a hash table of entries, and a queue per pool. Everything here runs under the
//! shard's lock.
//!
//! The lines of the table hold what a hit needs (key, buffer, touch count), so that a hit follows no pointer
//! but the buffer's. The queues are doubly linked through a slab of nodes by index, and are accessed only by
//! insertion, eviction and erasure.

use cairn_platform::Buffer;

use super::super::CacheEntry;
use super::super::store::Insertion;
use super::super::{CacheKey, CacheOptions, CachePriority, CacheRole, Evicted, RoleCounts};
use super::table::{Hashed, Table};
use crate::secondary::CacheTier;

/// The overhead of the cache per entry, approximately: its line and a share of the free ones, the node, and
/// the reference counts.
pub(in crate::cache) const ENTRY_OVERHEAD: usize = 176;

/// The maximum touch count of an entry, and thus the number of times that it escapes eviction.
const MAX_TOUCHES: u8 = 3;

/// The number of entries that an eviction examines before it ignores touch counts.
const TOUCHES_RESPECTED: usize = 32;

/// The number of entries that an eviction examines before it fails because all are in use.
const MAX_EXAMINED: usize = 256;

const NONE: u32 = u32::MAX;

/// The limits of a shard, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    capacity: usize,
    /// By pool; `usize::MAX` if no ratio is configured.
    pools: [usize; 3],
    strict: bool,
}

impl Limits {
    pub(super) fn new(capacity: usize, options: &CacheOptions) -> Limits {
        let share = |ratio: f64| {
            if ratio > 0.0 {
                // A share of a length in memory: the loss of precision is irrelevant.
                (capacity as f64 * ratio.min(1.0)) as usize
            } else {
                usize::MAX
            }
        };
        Limits {
            capacity,
            pools: [
                usize::MAX,
                share(options.low_pri_pool_ratio),
                share(options.high_pri_pool_ratio),
            ],
            strict: options.strict_capacity_limit,
        }
    }
}

/// An entry of the table.
struct Slot {
    key: CacheKey,
    buffer: Buffer,
    node: u32,
    role: CacheRole,
    priority: CachePriority,
    lowest: CacheTier,
    touches: u8,
}

impl Hashed for Slot {
    fn hash(&self) -> u64 {
        self.key.hash()
    }
}

impl Slot {
    fn charge(&self) -> usize {
        self.buffer.memory_usage() + ENTRY_OVERHEAD
    }
}

/// A node of a queue. Free nodes are chained through `next`.
#[derive(Clone, Copy)]
struct Node {
    hash: u64,
    prev: u32,
    next: u32,
    pool: CachePriority,
}

/// The entries of a pool, from young (`head`) to old (`tail`).
#[derive(Clone, Copy)]
struct Queue {
    head: u32,
    tail: u32,
    usage: usize,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue {
            head: NONE,
            tail: NONE,
            usage: 0,
        }
    }
}

/// One shard; see the module's documentation.
pub(super) struct Shard {
    table: Table<Slot>,
    nodes: Vec<Node>,
    free: u32,
    queues: [Queue; 3],
    limits: Limits,
    counts: [RoleCounts; CacheRole::ALL.len()],
}

impl Default for Shard {
    fn default() -> Shard {
        Shard {
            table: Table::new(),
            nodes: Vec::new(),
            free: NONE,
            queues: Default::default(),
            limits: Limits::default(),
            counts: Default::default(),
        }
    }
}

impl Shard {
    #[inline]
    pub(super) fn get(&mut self, hash: u64, key: &CacheKey, role: CacheRole) -> Option<Buffer> {
        match self.table.find_mut(hash, |slot| slot.key == *key) {
            Some(slot) => {
                // Taking a reference waits for its cache line; the others arrive meanwhile.
                slot.buffer.prefetch();
                slot.touches = (slot.touches + 1).min(MAX_TOUCHES);
                self.counts[slot.role as usize].hits += 1;
                Some(slot.buffer.clone())
            }
            None => {
                self.counts[role as usize].misses += 1;
                None
            }
        }
    }

    #[inline]
    pub(super) fn prefetch(&self, hash: u64, key: &CacheKey) {
        if let Some(slot) = self.table.find(hash, |slot| slot.key == *key) {
            slot.buffer.prefetch();
        }
    }

    pub(super) fn contains(&self, hash: u64, key: &CacheKey) -> bool {
        self.table.find(hash, |slot| slot.key == *key).is_some()
    }

    pub(super) fn insert(&mut self, entry: Insertion, evicted: &mut Vec<Evicted>) -> bool {
        let Insertion {
            hash,
            key,
            buffer,
            role,
            priority,
            lowest,
        } = entry;
        drop(self.erase(hash, &key));
        let charge = buffer.memory_usage() + ENTRY_OVERHEAD;
        let fits = charge <= self.limits.capacity;
        if !fits || (!self.make_room(charge, evicted) && self.limits.strict) {
            self.counts[role as usize].refusals += 1;
            return false;
        }
        let node = self.new_node(hash, priority);
        let slot = Slot {
            key,
            buffer,
            node,
            role,
            priority,
            lowest,
            touches: 0,
        };
        self.table.insert(slot);
        self.link(node, priority, charge);
        let counts = &mut self.counts[role as usize];
        counts.insertions += 1;
        counts.entries += 1;
        counts.usage += charge;
        self.demote_overflow();
        true
    }

    /// Appends `tail` to `buffer` in place, if it is the buffer of `key`, has room, and no reader holds it.
    /// Returns it unchanged as an error otherwise.
    pub(super) fn lay_tail(
        &mut self,
        hash: u64,
        key: &CacheKey,
        buffer: Buffer,
        tail: &[u8],
    ) -> Result<Buffer, Buffer> {
        let slot = self.table.find_mut(hash, |slot| slot.key == *key);
        let Some(slot) = slot.filter(|slot| slot.buffer.is_same(&buffer)) else {
            return Err(buffer);
        };
        drop(buffer);
        match slot.buffer.append_tail(tail) {
            true => Ok(slot.buffer.clone()),
            false => Err(slot.buffer.clone()),
        }
    }

    /// Replaces the buffer of `key`, if present. The entry moves to the young end of its pool.
    pub(super) fn replace(
        &mut self,
        hash: u64,
        key: &CacheKey,
        buffer: Buffer,
        evicted: &mut Vec<Evicted>,
    ) {
        let Some(slot) = self.table.find_mut(hash, |slot| slot.key == *key) else {
            return;
        };
        let before = slot.charge();
        slot.buffer = buffer;
        let (node, role, now) = (slot.node, slot.role, slot.charge());
        let pool = self.nodes[node as usize].pool;
        self.unlink(node, before);
        self.link(node, pool, now);
        let counts = &mut self.counts[role as usize];
        counts.usage = counts.usage - before + now;
        self.demote_overflow();
        self.make_room(0, evicted);
    }

    pub(super) fn erase(&mut self, hash: u64, key: &CacheKey) -> Option<Evicted> {
        let slot = self.table.remove(hash, |slot| slot.key == *key)?;
        Some(self.forget(slot))
    }

    pub(super) fn erase_unused(&mut self, evicted: &mut Vec<Evicted>) {
        for pool in CachePriority::IN_ORDER {
            let mut at = self.queues[pool as usize].tail;
            while at != NONE {
                let prev = self.nodes[at as usize].prev;
                if self.slot(at).is_none_or(|slot| slot.buffer.holders() == 1) {
                    evicted.extend(self.remove_node(at));
                }
                at = prev;
            }
        }
    }

    pub(super) fn set_limits(&mut self, limits: Limits, evicted: &mut Vec<Evicted>) {
        self.limits = limits;
        self.demote_overflow();
        while self.usage() > limits.capacity {
            if !self.evict_one(evicted) {
                break;
            }
        }
    }

    pub(super) fn usage(&self) -> usize {
        self.queues.iter().map(|queue| queue.usage).sum()
    }

    pub(super) fn pinned_usage(&self) -> usize {
        let held = self.table.iter().filter(|slot| slot.buffer.holders() > 1);
        held.map(Slot::charge).sum()
    }

    /// See [`Table::lines`].
    pub(super) fn lines(&self) -> (usize, usize) {
        self.table.lines()
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn places(&self) -> usize {
        self.table.places()
    }

    pub(super) fn all(&self) -> Vec<CacheEntry> {
        let entry = |slot: &Slot| CacheEntry {
            key: slot.key,
            role: slot.role,
            priority: slot.priority,
            charge: slot.charge(),
            hits: u32::from(slot.touches),
            age_seconds: 0,
        };
        self.table.iter().map(entry).collect()
    }

    pub(super) fn counts(&self, role: CacheRole) -> RoleCounts {
        self.counts[role as usize]
    }

    /// Evicts entries until `charge` more bytes fit. Returns false if that is impossible.
    fn make_room(&mut self, charge: usize, evicted: &mut Vec<Evicted>) -> bool {
        while self.usage() + charge > self.limits.capacity {
            if !self.evict_one(evicted) {
                return false;
            }
        }
        true
    }

    /// Evicts one entry of the lowest non-empty pool. Returns false if none was found that is not in use.
    fn evict_one(&mut self, evicted: &mut Vec<Evicted>) -> bool {
        let mut examined = 0;
        for pool in CachePriority::IN_ORDER {
            let rounds = self.table.len();
            for _ in 0..rounds {
                let at = self.queues[pool as usize].tail;
                if at == NONE {
                    break;
                }
                if examined == MAX_EXAMINED {
                    return false;
                }
                examined += 1;
                if self.rotate_if_used(at, examined > TOUCHES_RESPECTED) {
                    continue;
                }
                if let Some(slot) = self.slot(at) {
                    let role = slot.role as usize;
                    self.counts[role].evictions += 1;
                }
                evicted.extend(self.remove_node(at));
                return true;
            }
        }
        false
    }

    /// Moves the oldest entry of a pool to a young end if it was hit or is in use, and returns whether it
    /// did. Touches are ignored if `ignore_touches`.
    fn rotate_if_used(&mut self, at: u32, ignore_touches: bool) -> bool {
        let hash = self.nodes[at as usize].hash;
        let Some(slot) = self.table.find_mut(hash, |slot| slot.node == at) else {
            return false;
        };
        let held = slot.buffer.holders() > 1;
        let touched = slot.touches > 0 && !ignore_touches;
        if !held && !touched {
            return false;
        }
        slot.touches = slot.touches.saturating_sub(1);
        let charge = slot.charge();
        // A hit returns an entry to the pool of its own priority; being in use does not.
        let pool = if touched {
            slot.priority
        } else {
            self.nodes[at as usize].pool
        };
        self.unlink(at, charge);
        self.link(at, pool, charge);
        true
    }

    /// Moves the oldest entries of pools that exceed their share to the next lower pool.
    fn demote_overflow(&mut self) {
        for pool in [CachePriority::High, CachePriority::Low] {
            let Some(below) = pool.below() else { continue };
            while self.queues[pool as usize].usage > self.limits.pools[pool as usize] {
                let at = self.queues[pool as usize].tail;
                let Some(charge) = self.slot(at).map(Slot::charge) else {
                    break;
                };
                self.unlink(at, charge);
                self.link(at, below, charge);
            }
        }
    }

    fn slot(&self, node: u32) -> Option<&Slot> {
        let hash = self.nodes.get(node as usize)?.hash;
        self.table.find(hash, |slot| slot.node == node)
    }

    fn remove_node(&mut self, node: u32) -> Option<Evicted> {
        let hash = self.nodes[node as usize].hash;
        let slot = self.table.remove(hash, |slot| slot.node == node)?;
        Some(self.forget(slot))
    }

    /// Removes an entry, already taken from the table, from its queue and the counters.
    fn forget(&mut self, slot: Slot) -> Evicted {
        let charge = slot.charge();
        debug_assert!(
            self.counts[slot.role as usize].usage >= charge,
            "the entry was counted"
        );
        self.unlink(slot.node, charge);
        self.nodes[slot.node as usize].next = self.free;
        self.free = slot.node;
        let counts = &mut self.counts[slot.role as usize];
        counts.entries -= 1;
        counts.usage -= charge;
        Evicted {
            key: slot.key,
            buffer: slot.buffer,
            role: slot.role,
            priority: slot.priority,
            is_hit: slot.touches > 0,
            lowest: slot.lowest,
            overhead: ENTRY_OVERHEAD,
        }
    }

    fn new_node(&mut self, hash: u64, pool: CachePriority) -> u32 {
        let node = Node {
            hash,
            prev: NONE,
            next: NONE,
            pool,
        };
        if self.free != NONE {
            let at = self.free;
            self.free = self.nodes[at as usize].next;
            self.nodes[at as usize] = node;
            return at;
        }
        self.nodes.push(node);
        u32::try_from(self.nodes.len() - 1).expect("a shard has fewer than 2^32 entries")
    }

    /// Inserts a node at the young end of `pool`.
    fn link(&mut self, at: u32, pool: CachePriority, charge: usize) {
        debug_assert_ne!(
            self.queues[pool as usize].head, at,
            "the node is in no queue"
        );
        let queue = &mut self.queues[pool as usize];
        let old_head = queue.head;
        queue.head = at;
        if old_head == NONE {
            queue.tail = at;
        }
        queue.usage += charge;
        let node = &mut self.nodes[at as usize];
        node.pool = pool;
        node.prev = NONE;
        node.next = old_head;
        if old_head != NONE {
            self.nodes[old_head as usize].prev = at;
        }
    }

    fn unlink(&mut self, at: u32, charge: usize) {
        let Node {
            prev, next, pool, ..
        } = self.nodes[at as usize];
        let queue = &mut self.queues[pool as usize];
        debug_assert!(queue.usage >= charge, "the entry was charged to its pool");
        debug_assert_eq!(
            prev == NONE,
            queue.head == at,
            "the head has no predecessor"
        );
        debug_assert_eq!(next == NONE, queue.tail == at, "the tail has no successor");
        queue.usage -= charge;
        if prev == NONE {
            queue.head = next;
        } else {
            self.nodes[prev as usize].next = next;
        }
        if next == NONE {
            self.queues[pool as usize].tail = prev;
        } else {
            self.nodes[next as usize].prev = prev;
        }
    }
}
