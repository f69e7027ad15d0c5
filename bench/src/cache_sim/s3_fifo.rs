//! S3-FIFO ("FIFO queues are all you need for cache eviction", Yang and others, SOSP 2023).

use super::lists::Lists;
use super::policy::Policy;
use super::trace::Request;

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOST: usize = 2;
/// The maximum number of hits that are counted.
const MOST_HITS: u8 = 3;

/// The cache.
pub struct S3Fifo {
    capacity: u64,
    lists: Lists,
    hits: Vec<u8>,
}

impl S3Fifo {
    /// Creates a cache of `capacity` bytes for keys below `keys`.
    pub fn new(keys: usize, capacity: u64) -> S3Fifo {
        S3Fifo {
            capacity,
            lists: Lists::new(keys, 3),
            hits: vec![0; keys],
        }
    }

    fn small(&self) -> u64 {
        self.capacity / 10
    }

    fn evict(&mut self) -> bool {
        if self.lists.bytes(SMALL) >= self.small() || self.lists.len(MAIN) == 0 {
            while let Some(oldest) = self.lists.oldest(SMALL) {
                if self.hits[oldest as usize] > 1 {
                    self.hits[oldest as usize] = 0;
                    self.lists.shift(MAIN, oldest);
                    if self.lists.bytes(MAIN) > self.capacity - self.small() {
                        return self.evict_main();
                    }
                } else {
                    self.lists.shift(GHOST, oldest);
                    while self.lists.bytes(GHOST) > self.capacity - self.small() {
                        let Some(forgotten) = self.lists.oldest(GHOST) else {
                            break;
                        };
                        self.lists.remove(forgotten);
                    }
                    return true;
                }
            }
        }
        self.evict_main()
    }

    fn evict_main(&mut self) -> bool {
        while let Some(oldest) = self.lists.oldest(MAIN) {
            let hits = &mut self.hits[oldest as usize];
            if *hits == 0 {
                self.lists.remove(oldest);
                return true;
            }
            *hits -= 1;
            self.lists.shift(MAIN, oldest);
        }
        false
    }
}

impl Policy for S3Fifo {
    fn request(&mut self, request: &Request) -> bool {
        let Request { key, charge, .. } = *request;
        let queue = self.lists.queue_of(key);
        if matches!(queue, Some(SMALL | MAIN)) {
            let hits = &mut self.hits[key as usize];
            *hits = (*hits + 1).min(MOST_HITS);
            return true;
        }
        self.lists.remove(key);
        while self.lists.bytes(SMALL) + self.lists.bytes(MAIN) + u64::from(charge) > self.capacity {
            if !self.evict() {
                return false;
            }
        }
        let into = if queue == Some(GHOST) { MAIN } else { SMALL };
        self.hits[key as usize] = 0;
        self.lists.push(into, key, charge);
        false
    }

    fn erase(&mut self, key: u32) {
        self.lists.remove(key);
    }
}
