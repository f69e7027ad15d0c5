//! One shard of the clock cache: an index that is read without a lock, and the state behind the lock.

use cairn_platform::sync::Ordering;
use cairn_platform::sync::modelled::{AtomicU64, Mutex, MutexGuard};
use cairn_platform::{Buffer, EntryNote, PrefetchHint};

use super::super::policy::{NodeId, Policy, Seen};
use super::super::store::Insertion;
use super::super::{CacheEntry, CacheKey, CachePriority, CacheRole, Evicted, RoleCounts};
use super::ENTRY_OVERHEAD;
use super::index::Index;
use crate::secondary::CacheTier;

const ROLES: usize = CacheRole::ALL.len();

/// A shard on cache lines of its own, to avoid false sharing; see the module's documentation.
#[repr(align(128))]
pub(super) struct Shard {
    index: Index,
    misses: [AtomicU64; ROLES],
    state: Mutex<State>,
}

/// The state behind the lock: the order of eviction, and counters.
struct State {
    policy: Policy,
    /// By node of `policy`: the number of the entry, and its hits when it was last examined.
    entries: Vec<(u32, u32)>,
    counts: [RoleCounts; ROLES],
}

/// A locked shard.
pub(super) struct Locked<'a> {
    index: &'a Index,
    state: MutexGuard<'a, State>,
}

/// Role, priority and lowest tier of an entry as one number.
fn class(entry: &Insertion) -> u32 {
    let role = u32::from(entry.role as u8);
    role | u32::from(entry.priority as u8) << 8 | u32::from(entry.lowest as u8) << 16
}

fn role_of(class: u32) -> CacheRole {
    CacheRole::ALL[(class & 0xff) as usize]
}

fn priority_of(class: u32) -> CachePriority {
    CachePriority::IN_ORDER[(class >> 8 & 0xff) as usize]
}

fn lowest_of(class: u32) -> CacheTier {
    match class >> 16 {
        0 => CacheTier::Volatile,
        1 => CacheTier::VolatileCompressed,
        _ => CacheTier::NonVolatileBlock,
    }
}

fn words(key: &CacheKey) -> [u64; 2] {
    [key.high, key.low]
}

fn key_of([high, low]: [u64; 2]) -> CacheKey {
    CacheKey { high, low }
}

/// Returns the state of a cached entry.
fn look(number: u32) -> cairn_platform::Entry {
    Buffer::entry(number).expect("the number belongs to an entry")
}

fn hash_of(number: u32) -> u64 {
    key_of(look(number).key).hash()
}

impl Shard {
    pub(super) fn new() -> Shard {
        Shard {
            index: Index::new(),
            misses: Default::default(),
            state: Mutex::new(State {
                policy: Policy::new(),
                entries: Vec::new(),
                counts: Default::default(),
            }),
        }
    }

    #[inline]
    pub(super) fn index(&self) -> &Index {
        &self.index
    }

    #[inline]
    pub(super) fn lookup(&self, hash: u64, key: &CacheKey, role: CacheRole) -> Option<Buffer> {
        let words = words(key);
        let found = self.index.find(hash, |number, hint| {
            hint.prefetch();
            Buffer::pin(number, words)
        });
        if found.is_none() {
            self.misses[role as usize].fetch_add(1, Ordering::Relaxed);
        }
        found
    }

    pub(super) fn lock(&self) -> Locked<'_> {
        Locked {
            index: &self.index,
            state: self.state.lock(),
        }
    }

    /// The counters of `role`. Hits of present entries are counted in their headers.
    pub(super) fn counts(&self, role: CacheRole) -> RoleCounts {
        let locked = self.lock();
        let mut counts = locked.state.counts[role as usize];
        counts.misses = self.misses[role as usize].load(Ordering::Relaxed);
        for number in locked.numbers() {
            let entry = look(number);
            if role_of(entry.note.class) == role {
                counts.hits += u64::from(entry.hits);
            }
        }
        counts
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        let mut evicted = Vec::new();
        self.lock().remove_all(&mut evicted, |_| true);
    }
}

impl Locked<'_> {
    fn numbers(&self) -> Vec<u32> {
        self.index.numbers()
    }

    /// The number of the entry of `key`.
    pub(super) fn find(&self, hash: u64, key: &CacheKey) -> Option<u32> {
        let words = words(key);
        self.index.find(hash, |number, _| {
            (look(number).key == words).then_some(number)
        })
    }

    /// Adds an entry with a precomputed charge. Returns its actual charge, and the entry that it replaces.
    pub(super) fn insert(
        &mut self,
        entry: Insertion,
        expected: usize,
        born: u32,
    ) -> (usize, Option<Evicted>) {
        let replaced = self.erase(entry.hash, &entry.key);
        let node = self
            .state
            .policy
            .insert(entry.hash, expected, entry.priority);
        let note = EntryNote {
            link: node,
            class: class(&entry),
            born,
        };
        let (number, hint) = publish(entry.buffer, words(&entry.key), note);
        // The charge of a copy differs from that of the buffer.
        let charge = look(number).memory_usage + ENTRY_OVERHEAD;
        if charge != expected {
            self.state.policy.replace_charge(node, charge);
        }
        self.set_entry(node, number);
        self.index.insert(entry.hash, number, hint, hash_of);
        let counts = &mut self.state.counts[entry.role as usize];
        counts.insertions += 1;
        counts.entries += 1;
        counts.usage += charge;
        (charge, replaced)
    }

    fn set_entry(&mut self, node: NodeId, number: u32) {
        let entries = &mut self.state.entries;
        let at = node as usize;
        if entries.len() <= at {
            entries.resize(at + 1, (0, 0));
        }
        entries[at] = (number, 0);
    }

    /// Replaces the buffer of the entry `number` by `copy`, which has the same bytes. Returns the previous
    /// charge.
    pub(super) fn replace(&mut self, hash: u64, number: u32, copy: Buffer, charge: usize) -> usize {
        let note = look(number).note;
        let before = self.state.policy.charge(note.link);
        let key = look(number).key;
        let (replacement, hint) = publish(copy, key, note);
        self.index.insert(hash, replacement, hint, hash_of);
        self.index.remove(hash, number);
        let hits = look(number).hits;
        drop(Buffer::unpublish(number));
        self.set_entry(note.link, replacement);
        self.state.policy.replace_charge(note.link, charge);
        let counts = &mut self.state.counts[role_of(note.class) as usize];
        counts.usage = counts.usage - before + charge;
        counts.hits += u64::from(hits);
        before
    }

    /// Records that the entry `number` has the content of `buffer`.
    pub(super) fn set_hint(&self, hash: u64, number: u32, buffer: &Buffer) {
        self.index.set_hint(hash, number, buffer.hint());
    }

    /// Counts an entry that was not kept.
    pub(super) fn refuse(&mut self, role: CacheRole) {
        self.state.counts[role as usize].refusals += 1;
    }

    /// Removes the entry of the lowest rank that no reader holds, after looking at `looks` entries at most.
    pub(super) fn evict(&mut self, looks: usize) -> Option<Evicted> {
        let State {
            policy, entries, ..
        } = &mut *self.state;
        let node = policy.victim(looks, |node| {
            let (number, hits) = &mut entries[node as usize];
            let entry = look(*number);
            if entry.is_held {
                return Seen::InUse;
            }
            let before = std::mem::replace(hits, entry.hits);
            let touches = entry.hits.wrapping_sub(before);
            Seen::Touches(u8::try_from(touches).unwrap_or(u8::MAX))
        })?;
        let (number, _) = entries[node as usize];
        policy.evicted(node);
        let evicted = self.take_out(hash_of(number), number);
        self.state.counts[evicted.role as usize].evictions += 1;
        Some(evicted)
    }

    /// Removes the entry of `key`.
    pub(super) fn erase(&mut self, hash: u64, key: &CacheKey) -> Option<Evicted> {
        let number = self.find(hash, key)?;
        Some(self.remove(hash, number))
    }

    /// Removes every entry that no reader holds.
    pub(super) fn erase_unused(&mut self, evicted: &mut Vec<Evicted>) {
        self.remove_all(evicted, |entry| !entry.is_held);
    }

    fn remove_all(
        &mut self,
        evicted: &mut Vec<Evicted>,
        which: impl Fn(&cairn_platform::Entry) -> bool,
    ) {
        for number in self.numbers() {
            if which(&look(number)) {
                evicted.push(self.remove(hash_of(number), number));
            }
        }
    }

    fn remove(&mut self, hash: u64, number: u32) -> Evicted {
        self.state.policy.remove(look(number).note.link);
        self.take_out(hash, number)
    }

    /// Removes an entry without a node from the index and the counters.
    fn take_out(&mut self, hash: u64, number: u32) -> Evicted {
        let entry = look(number);
        assert!(self.index.remove(hash, number), "C2: the entry is indexed");
        let buffer = Buffer::unpublish(number).expect("C2: the entry is published");
        let role = role_of(entry.note.class);
        let evicted = Evicted {
            key: key_of(entry.key),
            buffer,
            role,
            priority: priority_of(entry.note.class),
            is_hit: entry.hits > 0,
            lowest: lowest_of(entry.note.class),
            overhead: ENTRY_OVERHEAD,
        };
        let counts = &mut self.state.counts[role as usize];
        counts.entries -= 1;
        counts.usage -= evicted.charge();
        counts.hits += u64::from(entry.hits);
        debug_assert!(
            self.state.policy.usage() == self.state.counts.iter().map(|it| it.usage).sum::<usize>(),
            "the charges of roles and of the policy are the same"
        );
        evicted
    }

    pub(super) fn pinned_usage(&self) -> usize {
        let entries = self.numbers().into_iter().map(look);
        let held = entries.filter(|entry| entry.is_held);
        held.map(|entry| entry.memory_usage + ENTRY_OVERHEAD).sum()
    }

    /// The entries, with their ages at `now`.
    pub(super) fn all(&self, now: u32) -> Vec<CacheEntry> {
        let entry = |number| {
            let entry = look(number);
            CacheEntry {
                key: key_of(entry.key),
                role: role_of(entry.note.class),
                priority: priority_of(entry.note.class),
                charge: entry.memory_usage + ENTRY_OVERHEAD,
                hits: entry.hits,
                age_seconds: now.saturating_sub(entry.note.born),
            }
        };
        self.numbers().into_iter().map(entry).collect()
    }
}

/// Publishes `buffer`, or a copy if it already was a cache entry. Returns the number and the hint of the entry.
fn publish(buffer: Buffer, key: [u64; 2], note: EntryNote) -> (u32, PrefetchHint) {
    let hint = buffer.hint();
    let refused = match buffer.publish(key, note) {
        Ok(number) => return (number, hint),
        Err(refused) => refused,
    };
    let copy = refused.with_tail(refused.tail());
    let hint = copy.hint();
    (
        copy.publish(key, note).expect("a new buffer has no key"),
        hint,
    )
}
