//! ARC ("ARC: A Self-Tuning, Low Overhead Replacement Cache", Megiddo and Modha, FAST 2003), in bytes.

use super::lists::Lists;
use super::policy::Policy;
use super::trace::Request;

/// Entries read once.
const ONCE: usize = 0;
/// Entries read more than once.
const AGAIN: usize = 1;
/// Keys evicted from `ONCE`.
const ONCE_GHOST: usize = 2;
/// Keys evicted from `AGAIN`.
const AGAIN_GHOST: usize = 3;

/// The cache.
pub struct Arc {
    capacity: u64,
    /// Target of the bytes of `ONCE`.
    target: u64,
    lists: Lists,
}

impl Arc {
    /// Creates a cache of `capacity` bytes for keys below `keys`.
    pub fn new(keys: usize, capacity: u64) -> Arc {
        Arc {
            capacity,
            target: 0,
            lists: Lists::new(keys, 4),
        }
    }

    fn make_room(&mut self, charge: u32, again_ghost: bool) {
        let lists = &mut self.lists;
        while lists.bytes(ONCE) + lists.bytes(AGAIN) + u64::from(charge) > self.capacity {
            let once = lists.bytes(ONCE);
            let from_once = once > self.target || (again_ghost && once == self.target);
            match (lists.oldest(ONCE), lists.oldest(AGAIN)) {
                (Some(oldest), _) if from_once => lists.shift(ONCE_GHOST, oldest),
                (_, Some(oldest)) => lists.shift(AGAIN_GHOST, oldest),
                (Some(oldest), None) => lists.shift(ONCE_GHOST, oldest),
                (None, None) => return,
            }
        }
    }

    fn trim_ghosts(&mut self) {
        let lists = &mut self.lists;
        while lists.bytes(ONCE) + lists.bytes(ONCE_GHOST) > self.capacity {
            let Some(oldest) = lists.oldest(ONCE_GHOST) else {
                break;
            };
            lists.remove(oldest);
        }
        let sum = |lists: &Lists| (0..4).map(|at| lists.bytes(at)).sum::<u64>();
        while sum(lists) > 2 * self.capacity {
            let Some(oldest) = lists.oldest(AGAIN_GHOST) else {
                break;
            };
            lists.remove(oldest);
        }
    }
}

impl Policy for Arc {
    fn request(&mut self, request: &Request) -> bool {
        let Request { key, charge, .. } = *request;
        let (once, again) = (self.lists.bytes(ONCE_GHOST), self.lists.bytes(AGAIN_GHOST));
        let step = |mine: u64, other: u64| (other / mine.max(1)).max(1) * u64::from(charge);
        match self.lists.queue_of(key) {
            Some(ONCE | AGAIN) => {
                self.lists.shift(AGAIN, key);
                return true;
            }
            Some(ghost) => {
                self.target = match ghost {
                    ONCE_GHOST => (self.target + step(once, again)).min(self.capacity),
                    _ => self.target.saturating_sub(step(again, once)),
                };
                self.lists.remove(key);
                self.make_room(charge, ghost == AGAIN_GHOST);
                self.lists.push(AGAIN, key, charge);
            }
            None => {
                self.make_room(charge, false);
                self.lists.push(ONCE, key, charge);
            }
        }
        self.trim_ghosts();
        false
    }

    fn erase(&mut self, key: u32) {
        self.lists.remove(key);
    }
}
