//! 2Q ("2Q: A Low Overhead High Performance Buffer Management Replacement Algorithm", Johnson and Shasha,
//! VLDB 1994).

use super::lists::Lists;
use super::policy::Policy;
use super::trace::Request;

/// Entries read once, in order of insertion.
const IN: usize = 0;
/// Keys evicted from `IN`.
const OUT: usize = 1;
/// Entries read again after they left `IN`, in order of use.
const MAIN: usize = 2;

/// The cache.
pub struct TwoQueue {
    capacity: u64,
    lists: Lists,
}

impl TwoQueue {
    /// Creates a cache of `capacity` bytes for keys below `keys`.
    pub fn new(keys: usize, capacity: u64) -> TwoQueue {
        TwoQueue {
            capacity,
            lists: Lists::new(keys, 3),
        }
    }

    fn make_room(&mut self, charge: u32) {
        while self.lists.bytes(IN) + self.lists.bytes(MAIN) + u64::from(charge) > self.capacity {
            let from_in = self.lists.bytes(IN) > self.capacity / 4 || self.lists.len(MAIN) == 0;
            if from_in && let Some(oldest) = self.lists.oldest(IN) {
                self.lists.shift(OUT, oldest);
                while self.lists.bytes(OUT) > self.capacity / 2 {
                    let Some(forgotten) = self.lists.oldest(OUT) else {
                        break;
                    };
                    self.lists.remove(forgotten);
                }
            } else if let Some(oldest) = self.lists.oldest(MAIN) {
                self.lists.remove(oldest);
            } else {
                return;
            }
        }
    }
}

impl Policy for TwoQueue {
    fn request(&mut self, request: &Request) -> bool {
        let Request { key, charge, .. } = *request;
        match self.lists.queue_of(key) {
            Some(MAIN) => self.lists.shift(MAIN, key),
            Some(IN) => {}
            Some(_) => {
                self.lists.remove(key);
                self.make_room(charge);
                self.lists.push(MAIN, key, charge);
                return false;
            }
            None => {
                self.make_room(charge);
                self.lists.push(IN, key, charge);
                return false;
            }
        }
        true
    }

    fn erase(&mut self, key: u32) {
        self.lists.remove(key);
    }
}
