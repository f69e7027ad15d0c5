//! LIRS ("LIRS: An Efficient Low Inter-reference Recency Set Replacement Policy", Jiang and Zhang,
//! SIGMETRICS 2002), in bytes, with a bound on keys that are not cached.

use super::lists::Lists;
use super::policy::Policy;
use super::trace::Request;

/// The share of the capacity for rarely read entries, as a divisor.
const RARE: u64 = 100;
/// The maximum bytes of uncached keys in the stack, as a multiple of the capacity.
const GHOSTS: u64 = 2;
const STACK: usize = 0;
const RARELY: usize = 0;
const GHOST: usize = 1;

/// State of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Unknown,
    /// Cached and read often.
    Low,
    /// Cached and read rarely.
    High,
    /// Not cached, but in the stack.
    Ghost,
}

/// The cache.
pub struct Lirs {
    capacity: u64,
    low_bytes: u64,
    state: Vec<State>,
    /// Keys by recency.
    stack: Lists,
    /// Rarely read entries in order of insertion, and uncached keys in order of eviction.
    queues: Lists,
}

impl Lirs {
    /// Creates a cache of `capacity` bytes for keys below `keys`.
    pub fn new(keys: usize, capacity: u64) -> Lirs {
        Lirs {
            capacity,
            low_bytes: 0,
            state: vec![State::Unknown; keys],
            stack: Lists::new(keys, 1),
            queues: Lists::new(keys, 2),
        }
    }

    fn low_limit(&self) -> u64 {
        self.capacity - self.capacity / RARE
    }

    /// Removes everything older than the oldest entry that is read often.
    fn prune(&mut self) {
        while let Some(oldest) = self.stack.oldest(STACK) {
            match self.state[oldest as usize] {
                State::Low => return,
                State::Ghost => {
                    self.queues.remove(oldest);
                    self.state[oldest as usize] = State::Unknown;
                }
                State::High | State::Unknown => {}
            }
            self.stack.remove(oldest);
        }
    }

    /// Demotes the oldest entries to rarely read until the others are within their limit.
    fn demote(&mut self) {
        while self.low_bytes > self.low_limit() {
            self.prune();
            let Some(oldest) = self.stack.oldest(STACK) else {
                return;
            };
            let charge = self.stack.charge_of(oldest);
            self.stack.remove(oldest);
            self.state[oldest as usize] = State::High;
            self.low_bytes -= u64::from(charge);
            self.queues.push(RARELY, oldest, charge);
        }
        self.prune();
    }

    fn make_room(&mut self, charge: u32) -> bool {
        while self.low_bytes + self.queues.bytes(RARELY) + u64::from(charge) > self.capacity {
            let Some(victim) = self.queues.oldest(RARELY) else {
                // Only entries read often are left.
                let Some(oldest) = self.stack.oldest(STACK) else {
                    return false;
                };
                self.erase(oldest);
                continue;
            };
            self.queues.remove(victim);
            self.state[victim as usize] = State::Unknown;
            if self.stack.queue_of(victim).is_some() {
                self.state[victim as usize] = State::Ghost;
                self.queues
                    .push(GHOST, victim, self.stack.charge_of(victim));
                while self.queues.bytes(GHOST) > GHOSTS * self.capacity {
                    let Some(forgotten) = self.queues.oldest(GHOST) else {
                        break;
                    };
                    self.erase(forgotten);
                }
            }
        }
        true
    }

    fn raise(&mut self, key: u32, charge: u32) {
        self.stack.remove(key);
        self.stack.push(STACK, key, charge);
    }
}

impl Policy for Lirs {
    fn request(&mut self, request: &Request) -> bool {
        let Request { key, charge, .. } = *request;
        match self.state[key as usize] {
            State::Low => {
                self.raise(key, charge);
                self.prune();
                return true;
            }
            State::High => {
                self.queues.remove(key);
                if self.stack.queue_of(key).is_some() {
                    self.state[key as usize] = State::Low;
                    self.low_bytes += u64::from(charge);
                    self.raise(key, charge);
                    self.demote();
                } else {
                    self.raise(key, charge);
                    self.queues.push(RARELY, key, charge);
                }
                return true;
            }
            State::Ghost | State::Unknown => {}
        }
        if u64::from(charge) > self.capacity {
            return false;
        }
        let known = self.state[key as usize] == State::Ghost;
        if known {
            self.queues.remove(key);
            self.state[key as usize] = State::Unknown;
        }
        if !self.make_room(charge) {
            return false;
        }
        let warming =
            self.low_bytes + u64::from(charge) <= self.low_limit() && self.queues.len(RARELY) == 0;
        // Making room can have pruned the key from the stack.
        if warming || (known && self.stack.queue_of(key).is_some()) {
            self.state[key as usize] = State::Low;
            self.low_bytes += u64::from(charge);
            self.raise(key, charge);
            self.demote();
        } else {
            self.state[key as usize] = State::High;
            self.raise(key, charge);
            self.queues.push(RARELY, key, charge);
        }
        false
    }

    fn erase(&mut self, key: u32) {
        if self.state[key as usize] == State::Low {
            self.low_bytes -= u64::from(self.stack.charge_of(key));
        }
        self.state[key as usize] = State::Unknown;
        self.stack.remove(key);
        self.queues.remove(key);
        self.prune();
    }
}
