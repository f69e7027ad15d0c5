//! One shard of the cache: a hash table of entries, and a queue per pool. Everything here runs under the
//! shard's lock.
//!
//! A queue is ordered by last use. The oldest entry of the lowest non-empty pool is evicted first. Entries
//! that readers hold are skipped and count as used for as long as they are held.
//!
//! Moving an entry within its queue touches the nodes of its neighbours, each of which may be a cache miss. Hits
//! are therefore recorded first and moved in groups, so that their cache misses overlap. Every other operation first
//! moves the recorded entries, so that it sees them in order of use.

use cairn_platform::{Buffer, prefetch_address};

use super::super::CacheEntry;
use super::super::store::Insertion;
use super::super::{CacheKey, CachePriority, CacheRole, Evicted, InsertOutcome, RoleCounts};
use super::pool::{Limits, Pool};
use super::table::{Hashed, Table};
use crate::secondary::CacheTier;

/// The overhead of the cache per entry, approximately: its line and a share of the free ones, the node, and
/// the reference counts.
pub(in crate::cache) const ENTRY_OVERHEAD: usize = 176;

/// The number of entries of a pool that an eviction examines before it proceeds with the next pool.
const MAX_EXAMINED: usize = 256;

/// The number of entries that are demoted or evicted while the lock is held, when lower limits take effect.
pub(super) const BATCH: usize = 32;

/// The number of hits that are moved together.
const GROUP: usize = 16;

const NONE: u32 = u32::MAX;

/// An entry of the table.
struct Slot {
    key: CacheKey,
    buffer: Buffer,
    node: u32,
    role: CacheRole,
    priority: CachePriority,
    lowest: CacheTier,
    hits: u32,
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
    /// The charge of the entry, so that a move to another pool does not touch the table; `u32::MAX` if it is larger.
    charge: u32,
    pool: Pool,
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
    /// By pool.
    queues: [Queue; Pool::IN_ORDER.len()],
    limits: Limits,
    /// True while lower limits take effect: pools may exceed them, and an operation corrects only a part.
    is_lowering: bool,
    counts: [RoleCounts; CacheRole::ALL.len()],
    /// The nodes of hits that have not been moved, in the order of the hits, with their pools.
    hits: [(u32, Pool); GROUP],
    /// The number of recorded hits.
    hit_count: usize,
}

impl Default for Shard {
    fn default() -> Shard {
        Shard {
            table: Table::new(),
            nodes: Vec::new(),
            free: NONE,
            queues: Default::default(),
            limits: Limits::default(),
            is_lowering: false,
            counts: Default::default(),
            hits: [(NONE, Pool::Bottom); GROUP],
            hit_count: 0,
        }
    }
}

impl Shard {
    #[inline]
    pub(super) fn get(&mut self, hash: u64, key: &CacheKey, role: CacheRole) -> Option<Buffer> {
        let Some(slot) = self.table.find_mut(hash, |slot| slot.key == *key) else {
            self.counts[role as usize].misses += 1;
            return None;
        };
        // Taking a reference waits for its cache line; the other lines are fetched meanwhile.
        slot.buffer.prefetch();
        slot.hits = slot.hits.saturating_add(1);
        self.counts[slot.role as usize].hits += 1;
        let (node, pool) = (slot.node, self.limits.pool_of_hit(slot.priority));
        let buffer = slot.buffer.clone();
        self.hits[self.hit_count] = (node, pool);
        self.hit_count += 1;
        if self.hit_count == GROUP {
            self.move_hits();
        }
        Some(buffer)
    }

    /// Moves the entries that were hit to the young ends of their pools, in the order of the hits.
    fn move_hits(&mut self) {
        let prefetch = |node: &Node| prefetch_address(std::ptr::from_ref(node).addr());
        let hits = self.hits;
        let hits = &hits[..std::mem::take(&mut self.hit_count)];
        for (node, _) in hits {
            prefetch(&self.nodes[*node as usize]);
        }
        for (node, _) in hits {
            let Node { prev, next, .. } = self.nodes[*node as usize];
            for at in [prev, next] {
                self.nodes.get(at as usize).into_iter().for_each(prefetch);
            }
        }
        for &(node, pool) in hits {
            self.use_node(node, pool);
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

    pub(super) fn insert(&mut self, entry: Insertion, evicted: &mut Vec<Evicted>) -> InsertOutcome {
        let Insertion {
            hash,
            key,
            buffer,
            role,
            priority,
            lowest,
        } = entry;
        self.move_hits();
        let replaces = self.erase(hash, &key).is_some();
        let charge = buffer.memory_usage() + ENTRY_OVERHEAD;
        let fits = charge <= self.limits.capacity;
        if !fits || (!self.make_room(charge, evicted) && self.limits.strict) {
            self.counts[role as usize].refusals += 1;
            return InsertOutcome::Refused;
        }
        let pool = Limits::pool_of_new(priority);
        let node = self.new_node(hash);
        let slot = Slot {
            key,
            buffer,
            node,
            role,
            priority,
            lowest,
            hits: 0,
        };
        self.table.insert(slot);
        self.link(node, pool, charge);
        let counts = &mut self.counts[role as usize];
        counts.insertions += 1;
        counts.entries += 1;
        counts.usage += charge;
        self.demote_overflow();
        InsertOutcome::kept(replaces)
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
        self.move_hits();
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
        self.move_hits();
        let slot = self.table.remove(hash, |slot| slot.key == *key)?;
        Some(self.forget(slot))
    }

    pub(super) fn erase_unused(&mut self, evicted: &mut Vec<Evicted>) {
        self.move_hits();
        for pool in Pool::IN_ORDER {
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

    /// Sets the limits, and demotes and evicts up to [`BATCH`] of the entries beyond them. Returns false if the call
    /// must be repeated for the others.
    pub(super) fn set_limits(&mut self, limits: Limits, evicted: &mut Vec<Evicted>) -> bool {
        self.move_hits();
        self.limits = limits;
        self.is_lowering = self.exceeds_limits(evicted);
        !self.is_lowering
    }

    /// Demotes and evicts up to [`BATCH`] entries beyond the limits. Returns true if there may be more.
    fn exceeds_limits(&mut self, evicted: &mut Vec<Evicted>) -> bool {
        for _ in 0..BATCH {
            let is_above = self.usage() > self.limits.capacity;
            let is_changed = self.demote_one() || (is_above && self.evict_one(evicted));
            if !is_changed {
                return false;
            }
        }
        true
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
            hits: slot.hits,
            age_seconds: 0,
        };
        self.table.iter().map(entry).collect()
    }

    pub(super) fn counts(&self, role: CacheRole) -> RoleCounts {
        self.counts[role as usize]
    }

    /// Evicts entries until `charge` more bytes fit. Returns false if that is impossible, or if lower limits take
    /// effect and the entries beyond them are too many for one operation.
    fn make_room(&mut self, charge: usize, evicted: &mut Vec<Evicted>) -> bool {
        let (before, mut count) = (self.usage(), 0);
        while self.usage() + charge > self.limits.capacity {
            let is_enough = count >= BATCH && before - self.usage() >= charge;
            if (self.is_lowering && is_enough) || !self.evict_one(evicted) {
                return false;
            }
            count += 1;
        }
        true
    }

    /// Evicts the oldest entry of the lowest pool that is not in use. Entries in use move to the young end of their
    /// pool. Returns false if none was found.
    fn evict_one(&mut self, evicted: &mut Vec<Evicted>) -> bool {
        for pool in Pool::IN_ORDER {
            let youngest = self.queues[pool as usize].head;
            for _ in 0..MAX_EXAMINED {
                let at = self.queues[pool as usize].tail;
                let Some(slot) = self.slot(at) else { break };
                let (role, charge) = (slot.role, slot.charge());
                if slot.buffer.holders() > 1 {
                    self.unlink(at, charge);
                    self.link(at, pool, charge);
                    if at == youngest {
                        break;
                    }
                    continue;
                }
                self.counts[role as usize].evictions += 1;
                evicted.extend(self.remove_node(at));
                return true;
            }
        }
        false
    }

    /// Moves an entry that is hit to the young end of `pool`.
    fn use_node(&mut self, at: u32, pool: Pool) {
        let Node {
            prev,
            next,
            pool: before,
            ..
        } = self.nodes[at as usize];
        if before != pool {
            return self.promote(at, pool);
        }
        if prev == NONE {
            return;
        }
        // The usage of the pool stays, and neither of its ends is empty.
        let queue = &mut self.queues[pool as usize];
        let head = std::mem::replace(&mut queue.head, at);
        match next {
            NONE => queue.tail = prev,
            next => self.nodes[next as usize].prev = prev,
        }
        self.nodes[prev as usize].next = next;
        self.nodes[head as usize].prev = at;
        let node = &mut self.nodes[at as usize];
        (node.prev, node.next) = (NONE, head);
    }

    /// Moves an entry to the young end of another pool.
    #[inline(never)]
    fn promote(&mut self, at: u32, pool: Pool) {
        let charge = self.charge_of(at);
        self.unlink(at, charge);
        self.link(at, pool, charge);
        self.demote_overflow();
    }

    /// Moves the oldest entries of pools that exceed their share to the young end of the next lower pool.
    fn demote_overflow(&mut self) {
        let most = if self.is_lowering { BATCH } else { usize::MAX };
        for _ in 0..most {
            if !self.demote_one() {
                break;
            }
        }
    }

    /// Moves an entry that exceeds the share of its pool. Returns false if there is none.
    fn demote_one(&mut self) -> bool {
        let shared = [Pool::Promoted, Pool::High];
        let high = shared.iter().map(|pool| self.usage_of(*pool)).sum();
        if self.limits.high.is_some_and(|limit| limit < high) {
            let oldest = shared.map(|pool| self.queues[pool as usize].tail);
            let at = oldest.into_iter().find(|at| *at != NONE);
            self.demote(at, Pool::Low);
            return true;
        }
        let low = self.usage_of(Pool::Low);
        if self.limits.low.is_some_and(|limit| limit < low) {
            self.demote(Some(self.queues[Pool::Low as usize].tail), Pool::Bottom);
            return true;
        }
        false
    }

    fn demote(&mut self, at: Option<u32>, pool: Pool) {
        let at = at.expect("a pool with a usage has entries");
        let charge = self.charge_of(at);
        self.unlink(at, charge);
        self.link(at, pool, charge);
    }

    /// The charge of the entry of a node that is in a queue.
    fn charge_of(&self, node: u32) -> usize {
        let in_table = || self.slot(node).expect("a node has an entry").charge();
        let charge = match self.nodes[node as usize].charge {
            u32::MAX => in_table(),
            charge => charge as usize,
        };
        debug_assert_eq!(charge, in_table(), "a node has the charge of its entry");
        charge
    }

    fn usage_of(&self, pool: Pool) -> usize {
        self.queues[pool as usize].usage
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
            is_hit: slot.hits > 0,
            lowest: slot.lowest,
            overhead: ENTRY_OVERHEAD,
        }
    }

    /// A node that is in no queue.
    fn new_node(&mut self, hash: u64) -> u32 {
        let node = Node {
            hash,
            prev: NONE,
            next: NONE,
            charge: 0,
            pool: Pool::Bottom,
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

    /// Inserts a node at the young end of `pool`. `charge` is that of its entry.
    fn link(&mut self, at: u32, pool: Pool, charge: usize) {
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
        node.charge = u32::try_from(charge).unwrap_or(u32::MAX);
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

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
