//! W-TinyLFU ("TinyLFU: A Highly Efficient Cache Admission Policy", Einziger and others, 2017) with a window
//! of a fixed share of the capacity.

use crate::key_value_gen::mix;

use super::lists::Lists;
use super::policy::Policy;
use super::trace::Request;

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;
/// The protected share of the main part.
const PROTECTED_SHARE: f64 = 0.8;
/// The number of reads between two halvings of the counters, as a multiple of the entries in the cache.
const SAMPLE: u64 = 10;
/// The maximum count.
const MOST: u8 = 15;

/// The cache.
pub struct TinyLfu {
    capacity: u64,
    window: u64,
    lists: Lists,
    sketch: Sketch,
}

impl TinyLfu {
    /// Creates a cache of `capacity` bytes for keys below `keys`, with a share of it as the window.
    pub fn new(keys: usize, capacity: u64, window: f64) -> TinyLfu {
        TinyLfu {
            capacity,
            window: (capacity as f64 * window) as u64,
            lists: Lists::new(keys, 3),
            sketch: Sketch::new(),
        }
    }

    fn total(&self) -> u64 {
        (0..3).map(|queue| self.lists.bytes(queue)).sum()
    }

    /// Evicts entries until the rest fits: each time either the oldest of the main part or the one that
    /// leaves the window.
    fn evict(&mut self) {
        while self.lists.bytes(WINDOW) > self.window
            && let Some(candidate) = self.lists.oldest(WINDOW)
        {
            let main = self.capacity - self.window;
            let charge = u64::from(self.lists.charge_of(candidate));
            let mut admitted = true;
            while self.lists.bytes(PROBATION) + self.lists.bytes(PROTECTED) + charge > main {
                let victim = self.lists.oldest(PROBATION);
                let Some(victim) = victim.or_else(|| self.lists.oldest(PROTECTED)) else {
                    admitted = false;
                    break;
                };
                if self.sketch.count(candidate) <= self.sketch.count(victim) {
                    admitted = false;
                    break;
                }
                self.lists.remove(victim);
            }
            match admitted {
                true => self.lists.shift(PROBATION, candidate),
                false => {
                    self.lists.remove(candidate);
                }
            }
        }
    }
}

impl Policy for TinyLfu {
    fn request(&mut self, request: &Request) -> bool {
        let Request { key, charge, .. } = *request;
        self.sketch.add(key);
        match self.lists.queue_of(key) {
            Some(WINDOW) => self.lists.shift(WINDOW, key),
            Some(PROTECTED) => self.lists.shift(PROTECTED, key),
            Some(_) => {
                self.lists.shift(PROTECTED, key);
                let main = (self.capacity - self.window) as f64;
                while self.lists.bytes(PROTECTED) as f64 > main * PROTECTED_SHARE
                    && let Some(oldest) = self.lists.oldest(PROTECTED)
                {
                    self.lists.shift(PROBATION, oldest);
                }
            }
            None => {
                self.lists.push(WINDOW, key, charge);
                let len = (0..3).map(|queue| self.lists.len(queue)).sum();
                self.sketch.fit(len);
                self.evict();
                debug_assert!(self.total() <= self.capacity);
                return false;
            }
        }
        true
    }

    fn erase(&mut self, key: u32) {
        self.lists.remove(key);
    }
}

/// A count-min sketch with four rows and periodic halving.
struct Sketch {
    rows: [Vec<u8>; 4],
    mask: u64,
    reads: u64,
    entries: u64,
}

impl Sketch {
    fn new() -> Sketch {
        Sketch {
            rows: [const { Vec::new() }; 4],
            mask: 0,
            reads: 0,
            entries: 0,
        }
    }

    /// Grows the sketch for `entries`, which loses the counts.
    fn fit(&mut self, entries: usize) {
        if entries as u64 > self.entries {
            self.entries = entries as u64;
            let size = (entries * 2).next_power_of_two().max(64);
            if size > self.rows[0].len() {
                self.rows = std::array::from_fn(|_| vec![0; size]);
                self.mask = size as u64 - 1;
            }
        }
    }

    fn places(&self, key: u32) -> [usize; 4] {
        std::array::from_fn(|row| {
            (mix(u64::from(key) | (row as u64 + 1) << 40) & self.mask) as usize
        })
    }

    fn count(&self, key: u32) -> u8 {
        let places = self.places(key);
        let counts = self.rows.iter().zip(places).map(|(row, at)| row[at]);
        counts.min().unwrap_or(0)
    }

    fn add(&mut self, key: u32) {
        if self.rows[0].is_empty() {
            return;
        }
        let places = self.places(key);
        for (row, at) in self.rows.iter_mut().zip(places) {
            row[at] = (row[at] + 1).min(MOST);
        }
        self.reads += 1;
        if self.reads >= SAMPLE * self.entries {
            self.reads /= 2;
            for row in &mut self.rows {
                row.iter_mut().for_each(|count| *count /= 2);
            }
        }
    }
}
