//! LFU with dynamic aging ("Evaluating Content Management Techniques for Web Proxy Caches", Arlitt and
//! others, 1999): the rank of an entry is its number of reads plus the rank of the most recently evicted
//! entry at the time of its last read.

use std::collections::BTreeSet;

use super::policy::Policy;
use super::trace::Request;

/// The cache.
pub struct Lfu {
    capacity: u64,
    used: u64,
    /// The rank of the most recently evicted entry.
    age: u64,
    now: u64,
    /// Rank, time of use, key.
    ranked: BTreeSet<(u64, u64, u32)>,
    /// Rank, time of use, reads and charge by key.
    entries: Vec<Option<Entry>>,
}

#[derive(Clone, Copy)]
struct Entry {
    rank: u64,
    used_at: u64,
    reads: u64,
    charge: u32,
}

impl Lfu {
    /// Creates a cache of `capacity` bytes for keys below `keys`.
    pub fn new(keys: usize, capacity: u64) -> Lfu {
        Lfu {
            capacity,
            used: 0,
            age: 0,
            now: 0,
            ranked: BTreeSet::new(),
            entries: vec![None; keys],
        }
    }
}

impl Policy for Lfu {
    fn request(&mut self, request: &Request) -> bool {
        self.now += 1;
        let slot = request.key as usize;
        let found = self.entries[slot];
        let reads = found.map_or(1, |entry| entry.reads + 1);
        if found.is_some() {
            self.erase(request.key);
        } else {
            while self.used + u64::from(request.charge) > self.capacity {
                let Some(&(rank, _, victim)) = self.ranked.first() else {
                    return false;
                };
                self.age = rank;
                self.erase(victim);
            }
        }
        let entry = Entry {
            rank: self.age + reads,
            used_at: self.now,
            reads,
            charge: request.charge,
        };
        self.ranked.insert((entry.rank, entry.used_at, request.key));
        self.used += u64::from(request.charge);
        self.entries[slot] = Some(entry);
        found.is_some()
    }

    fn erase(&mut self, key: u32) {
        if let Some(entry) = self.entries[key as usize].take() {
            self.ranked.remove(&(entry.rank, entry.used_at, key));
            self.used -= u64::from(entry.charge);
        }
    }
}
