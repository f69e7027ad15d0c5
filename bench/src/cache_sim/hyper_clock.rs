//! A model of RocksDB's HyperClock cache.
//!
//! Entries are at random places of a table that is swept by a clock hand. The countdown of an entry starts at
//! a value given by its priority, is raised by hits, and lowered by the hand, to at most two; the hand evicts
//! at zero.

use cairn_memory::CachePriority;

use crate::key_value_gen::Rng;

use super::policy::Policy;
use super::trace::Request;

/// The maximum countdown after a pass of the hand.
const MOST_LEFT: u32 = 2;
/// The load factor at which the table grows.
const LOAD: f64 = 0.6;
const EMPTY: u32 = u32::MAX;

/// The cache.
pub struct HyperClock {
    capacity: u64,
    used: u64,
    /// Keys by place.
    slots: Vec<u32>,
    free: Vec<u32>,
    /// Place, countdown and charge by key.
    entries: Vec<Entry>,
    hand: usize,
    rng: Rng,
}

#[derive(Clone, Copy)]
struct Entry {
    slot: u32,
    countdown: u32,
    charge: u32,
}

impl HyperClock {
    /// Creates a cache of `capacity` bytes for keys below `keys`.
    pub fn new(keys: usize, capacity: u64) -> HyperClock {
        HyperClock {
            capacity,
            used: 0,
            slots: Vec::new(),
            free: Vec::new(),
            entries: vec![
                Entry {
                    slot: EMPTY,
                    countdown: 0,
                    charge: 0
                };
                keys
            ],
            hand: 0,
            rng: Rng::new(1),
        }
    }

    fn evict(&mut self) {
        loop {
            self.hand = (self.hand + 1) % self.slots.len();
            let key = self.slots[self.hand];
            if key == EMPTY {
                continue;
            }
            let entry = &mut self.entries[key as usize];
            if entry.countdown == 0 {
                return self.erase(key);
            }
            entry.countdown = (entry.countdown - 1).min(MOST_LEFT);
        }
    }
}

impl Policy for HyperClock {
    fn request(&mut self, request: &Request) -> bool {
        let entry = &mut self.entries[request.key as usize];
        if entry.slot != EMPTY {
            entry.countdown += 1;
            return true;
        }
        let charge = u64::from(request.charge);
        if charge > self.capacity {
            return false;
        }
        while self.used + charge > self.capacity {
            self.evict();
        }
        let taken = self.slots.len() - self.free.len();
        if taken as f64 >= self.slots.len() as f64 * LOAD {
            let from = self.slots.len() as u32;
            self.slots.resize((from as usize * 2).max(64), EMPTY);
            self.free.extend(from..self.slots.len() as u32);
        }
        let at = self.rng.below(self.free.len() as u64) as usize;
        let slot = self.free.swap_remove(at);
        self.slots[slot as usize] = request.key;
        self.entries[request.key as usize] = Entry {
            slot,
            countdown: match request.priority {
                CachePriority::Bottom => 1,
                CachePriority::Low => 2,
                CachePriority::High => 3,
            },
            charge: request.charge,
        };
        self.used += charge;
        false
    }

    fn erase(&mut self, key: u32) {
        let entry = &mut self.entries[key as usize];
        if entry.slot != EMPTY {
            self.slots[entry.slot as usize] = EMPTY;
            self.free.push(entry.slot);
            self.used -= u64::from(entry.charge);
            entry.slot = EMPTY;
        }
    }
}
