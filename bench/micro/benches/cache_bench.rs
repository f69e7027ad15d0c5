//! The cases of RocksDB's `cache_bench`: operations on a block cache without a database.
//!
//! ```text
//! cargo bench -p cairn-microbench --bench cache_bench -- 'threads:1$'
//! ```
//!
//! Parameters have the names and default values of RocksDB's flags, except for a cache of 64 MiB instead of 1 GiB, so
//! that a case is filled in a second: a key space of four times the cache (`resident_ratio` 0.25), values of 8 KiB,
//! keys skewed by the power 5, and of the operations 82 % lookups with an insertion after a miss, 2 % insertions, 5 %
//! insertions whose value is not used, 10 % lookups and 1 % erasures. A quarter of the entries is pinned
//! (`pinned_ratio`). The time is that of one operation of every thread. Values are not compressed.

#[path = "support/mod.rs"]
mod support;

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::{Duration, Instant};

use cairn_bench::key_value_gen::{Rng, mix};
use cairn_memory::{BlockCache, CacheKey, CacheKind, CacheOptions, CachePriority, CacheRole};
use cairn_platform::Buffer;
use support::{Case, Sampling, name, run};

const CACHE_SIZE: u64 = 64 << 20;
const VALUE_BYTES: u64 = 8 << 10;
/// The keys for each entry that fits.
const KEYS_PER_ENTRY: u64 = 4;
const SKEW: u32 = 5;
/// The share of entries that is pinned.
const PINNED_PART: u64 = 4;
/// Shares of the operations in percent.
const LOOKUP_INSERT: u64 = 82;
const INSERT: u64 = 2;
const BLIND_INSERT: u64 = 5;
const LOOKUP: u64 = 10;

struct Operations {
    cache: BlockCache,
    threads: u64,
    keys: u64,
    runs: u64,
    lookups: u64,
    hits: u64,
}

/// One thread of a run.
struct Thread<'a> {
    cache: &'a BlockCache,
    keys: u64,
    random: Rng,
    value: Vec<u8>,
    pinned: VecDeque<Buffer>,
    most_pinned: usize,
    lookups: u64,
    hits: u64,
}

impl Operations {
    fn new(kind: CacheKind, threads: u64) -> Operations {
        let options = CacheOptions {
            kind,
            ..CacheOptions::default()
        };
        let entries = CACHE_SIZE / VALUE_BYTES;
        let cache = BlockCache::new(CACHE_SIZE as usize, options);
        let operations = Operations {
            cache,
            threads,
            keys: entries * KEYS_PER_ENTRY,
            runs: 0,
            lookups: 0,
            hits: 0,
        };
        let mut thread = operations.thread(0);
        for _ in 0..entries * 4 {
            let key = thread.key();
            thread.insert(key);
        }
        operations
    }

    fn thread(&self, number: u64) -> Thread<'_> {
        Thread {
            cache: &self.cache,
            keys: self.keys,
            random: Rng::new(self.runs * self.threads + number + 1),
            value: vec![7; VALUE_BYTES as usize],
            pinned: VecDeque::new(),
            most_pinned: (CACHE_SIZE / VALUE_BYTES / PINNED_PART / self.threads) as usize,
            lookups: 0,
            hits: 0,
        }
    }
}

impl Thread<'_> {
    /// A key, of which small ones are likely.
    fn key(&mut self) -> CacheKey {
        let drawn = self.random.below(1 << 32) as f64 / (1_u64 << 32) as f64;
        let number = (drawn.powi(SKEW as i32) * self.keys as f64) as u64;
        CacheKey::of_block([0x1234_5678_9abc_def0, mix(number)], number * 4096)
    }

    fn insert(&mut self, key: CacheKey) {
        let value = Buffer::from(self.value.clone());
        let outcome = self
            .cache
            .insert(key, value, CacheRole::Data, CachePriority::Low);
        black_box(outcome.is_kept());
    }

    fn pin(&mut self, value: Buffer) {
        black_box(value[0]);
        self.pinned.push_back(value);
        if self.pinned.len() > self.most_pinned {
            self.pinned.pop_front();
        }
    }

    fn look_up(&mut self, key: &CacheKey) -> bool {
        self.lookups += 1;
        let found = self.cache.lookup(key, CacheRole::Data);
        self.hits += u64::from(found.is_some());
        found.map(|value| self.pin(value)).is_some()
    }

    fn operate(&mut self) {
        let key = self.key();
        match self.random.below(100) {
            at if at < LOOKUP_INSERT => {
                if !self.look_up(&key) {
                    self.insert(key);
                }
            }
            at if at < LOOKUP_INSERT + INSERT + BLIND_INSERT => self.insert(key),
            at if at < LOOKUP_INSERT + INSERT + BLIND_INSERT + LOOKUP => {
                self.look_up(&key);
            }
            _ => drop(black_box(self.cache.erase(&key))),
        }
    }
}

impl Case for Operations {
    fn run(&mut self, operations: u64) -> Duration {
        self.runs += 1;
        let began = Instant::now();
        let counts: Vec<(u64, u64)> = std::thread::scope(|scope| {
            let start = |number| {
                let mut thread = self.thread(number);
                scope.spawn(move || {
                    (0..operations).for_each(|_| thread.operate());
                    (thread.lookups, thread.hits)
                })
            };
            let threads: Vec<_> = (0..self.threads).map(start).collect();
            let ended = threads.into_iter().map(|thread| thread.join());
            ended.map(|counts| counts.expect("a thread ends")).collect()
        });
        let took = began.elapsed();
        for (lookups, hits) in counts {
            self.lookups += lookups;
            self.hits += hits;
        }
        took
    }

    fn counters(&mut self) -> Vec<(&'static str, f64)> {
        let ratio = self.hits as f64 / self.lookups.max(1) as f64;
        vec![("hit_ratio_pct", ratio * 100.0)]
    }
}

fn main() {
    for (cache_type, kind) in [
        ("cache_bench/cache_type:lru_cache", CacheKind::Lru),
        ("cache_bench/cache_type:hyper_clock_cache", CacheKind::Clock),
    ] {
        for threads in [1, 2, 16] {
            let parameters = [
                ("cache_size", CACHE_SIZE),
                ("value_bytes", VALUE_BYTES),
                ("skew", u64::from(SKEW)),
                ("threads", threads),
            ];
            let prepare = || Operations::new(kind, threads);
            run(&name(cache_type, &parameters), Sampling::Timed, prepare);
        }
    }
}
