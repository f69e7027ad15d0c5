//! Policies with one queue: LRU, FIFO, MRU, CLOCK and SIEVE.

use super::lists::Lists;
use super::policy::Policy;
use super::trace::Request;

/// The treatment of hits and the choice of victims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Evicts the least recently used entry.
    Lru,
    /// Evicts the oldest entry.
    Fifo,
    /// Evicts the most recently used entry.
    Mru,
    /// FIFO that gives an entry another round for each of up to three hits.
    Clock,
    /// FIFO in which a hand skips entries that were hit and leaves them in place.
    Sieve,
}

/// The maximum number of hits that CLOCK counts.
const CLOCK_HITS: u8 = 3;

/// A policy with one queue.
pub struct OneQueue {
    order: Order,
    capacity: u64,
    lists: Lists,
    hits: Vec<u8>,
    hand: Option<u32>,
}

impl OneQueue {
    /// Creates a cache of `capacity` bytes for keys below `keys`.
    pub fn new(order: Order, keys: usize, capacity: u64) -> OneQueue {
        OneQueue {
            order,
            capacity,
            lists: Lists::new(keys, 1),
            hits: vec![0; keys],
            hand: None,
        }
    }

    fn victim(&mut self) -> Option<u32> {
        match self.order {
            Order::Lru | Order::Fifo => self.lists.oldest(0),
            Order::Mru => self.lists.newest(0),
            Order::Clock => loop {
                let oldest = self.lists.oldest(0)?;
                let hits = &mut self.hits[oldest as usize];
                if *hits == 0 {
                    return Some(oldest);
                }
                *hits -= 1;
                self.lists.shift(0, oldest);
            },
            Order::Sieve => loop {
                let at = self.hand.or_else(|| self.lists.oldest(0))?;
                let hit = std::mem::take(&mut self.hits[at as usize]) > 0;
                self.hand = self.lists.newer(at);
                if !hit {
                    return Some(at);
                }
            },
        }
    }
}

impl Policy for OneQueue {
    fn request(&mut self, request: &Request) -> bool {
        if self.lists.queue_of(request.key).is_some() {
            match self.order {
                Order::Lru | Order::Mru => self.lists.shift(0, request.key),
                Order::Fifo => {}
                Order::Clock | Order::Sieve => {
                    let hits = &mut self.hits[request.key as usize];
                    *hits = (*hits + 1).min(CLOCK_HITS);
                }
            }
            return true;
        }
        while self.lists.bytes(0) + u64::from(request.charge) > self.capacity {
            let Some(victim) = self.victim() else {
                return false;
            };
            self.lists.remove(victim);
        }
        self.hits[request.key as usize] = 0;
        self.lists.push(0, request.key, request.charge);
        false
    }

    fn erase(&mut self, key: u32) {
        if self.hand == Some(key) {
            self.hand = self.lists.newer(key);
        }
        self.lists.remove(key);
    }
}
