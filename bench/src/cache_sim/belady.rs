//! Belady's algorithm: evicts the entry whose next use is farthest in the future. It is not quite optimal for
//! entries of different sizes.

use std::collections::BTreeSet;

use super::policy::Policy;
use super::trace::{Request, Trace};

/// The cache.
pub struct Belady {
    capacity: u64,
    used: u64,
    at: usize,
    /// The next use of the key of each request.
    next: Vec<u32>,
    /// Next use and key of the cached entries.
    queue: BTreeSet<(u32, u32)>,
    /// Next use and charge by key.
    entries: Vec<Option<(u32, u32)>>,
}

impl Belady {
    /// Creates a cache of `capacity` bytes for the requests of `trace`.
    pub fn new(trace: &Trace, capacity: u64) -> Belady {
        let requests: Vec<u32> = trace.requests().map(|request| request.key).collect();
        let mut next = vec![u32::MAX; requests.len()];
        let mut last = vec![u32::MAX; trace.keys];
        for (at, key) in requests.iter().enumerate().rev() {
            next[at] = last[*key as usize];
            last[*key as usize] = at as u32;
        }
        Belady {
            capacity,
            used: 0,
            at: 0,
            next,
            queue: BTreeSet::new(),
            entries: vec![None; trace.keys],
        }
    }
}

impl Policy for Belady {
    fn request(&mut self, request: &Request) -> bool {
        let next = self.next[self.at];
        self.at += 1;
        let found = self.entries[request.key as usize].is_some();
        self.erase(request.key);
        if next == u32::MAX {
            return found;
        }
        self.queue.insert((next, request.key));
        self.entries[request.key as usize] = Some((next, request.charge));
        self.used += u64::from(request.charge);
        while self.used > self.capacity {
            let Some(&(_, victim)) = self.queue.last() else {
                break;
            };
            self.erase(victim);
        }
        found
    }

    fn erase(&mut self, key: u32) {
        if let Some((next, charge)) = self.entries[key as usize].take() {
            self.queue.remove(&(next, key));
            self.used -= u64::from(charge);
        }
    }
}
