//! Lookups and insertions in a block cache without a database.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cairn::{Error, Result};

use super::{Outcome, Run, seed};
use crate::bare_cache::{Case, SKEW, entries, key, key_space, value_len};
use crate::bench_stats::BenchStats;
use crate::benchmarks::Benchmark;
use crate::engine::{BareCache, Source};
use crate::key_value_gen::Rng;
use crate::measurement::Measurement;
use crate::progress::Progress;
use crate::resource_usage::{Usage, peak_memory, reset_peak};
use crate::ycsb::Zipfian;

/// Maximum number of keys that a thread draws before it is timed. It repeats them in this order.
const DRAWN: u64 = 1 << 20;
/// Number of operations between two clock readings.
const STRIDE: usize = 1024;

impl<S: Source> Run<'_, S> {
    /// Fills a cache, and measures lookups and insertions after misses.
    pub(super) fn bare_cache(&self, benchmark: &Benchmark, case: Case) -> Result<Outcome> {
        let flags = &benchmark.flags;
        let settings = flags.bare_cache_settings();
        let cache = self.source.bare_cache(&settings)?;
        let entries = entries(settings.capacity);
        let keys = key_space(entries, case.hits as f64 / 100.0);
        let load = Load {
            cache: &cache,
            benchmark,
            zipfian: Zipfian::with(keys, SKEW),
            verify: flags.verify,
        };
        load.fill(entries)?;
        let seconds = benchmark.seconds();
        let operations = (seconds == 0).then(|| benchmark.operations());
        let total = operations.map(|each| each * case.threads);
        let progress = (self.begin)(&benchmark.name, total);
        reset_peak();
        let (stats, usage, elapsed) = load.run(case, operations, seconds, &*progress)?;
        progress.finish();
        let mut measured = Measurement::of(&benchmark.name, &stats, elapsed);
        measured.usage = usage;
        measured.peak_memory = peak_memory();
        let hits = stats.found as f64 * 100.0 / stats.looked.max(1) as f64;
        measured.figures = vec![
            ("hits in percent".to_owned(), hits),
            ("keys".to_owned(), keys as f64),
        ];
        Ok(Outcome {
            stats,
            measured,
            text: String::new(),
        })
    }
}

/// The operations on a cache.
struct Load<'a, C> {
    cache: &'a C,
    benchmark: &'a Benchmark,
    zipfian: Zipfian,
    verify: bool,
}

impl<C: BareCache> Load<'_, C> {
    /// Inserts twice as many of the most frequent keys as fit, the most frequent last, and looks up random
    /// ones until the cache has reached its steady state.
    fn fill(&self, entries: u64) -> Result<()> {
        for rank in (0..(2 * entries).min(self.zipfian.bound())).rev() {
            self.cache.insert(key(rank), rank, value_len(rank));
        }
        let mut rng = Rng::new(seed(self.benchmark, u64::MAX));
        for _ in 0..4 * entries {
            self.look_up(self.zipfian.rank(&mut rng))?;
        }
        Ok(())
    }

    /// Runs all threads. Returns their statistics, the resources used, and the elapsed nanoseconds.
    fn run(
        &self,
        case: Case,
        operations: Option<u64>,
        seconds: u64,
        progress: &dyn Progress,
    ) -> Result<(BenchStats, Usage, u64)> {
        let start = Barrier::new(case.threads as usize + 1);
        let deadline = AtomicU64::new(u64::MAX);
        let clock = Instant::now();
        let work = |thread| {
            let mut rng = Rng::new(seed(self.benchmark, thread));
            let count = operations.unwrap_or(DRAWN).clamp(1, DRAWN);
            let drawn: Vec<u64> = (0..count).map(|_| self.zipfian.rank(&mut rng)).collect();
            start.wait();
            let began = Instant::now();
            let mut stats = BenchStats::default();
            let mut left = operations.unwrap_or(u64::MAX);
            for ranks in drawn.chunks(STRIDE).cycle() {
                if left == 0
                    || clock.elapsed().as_nanos() as u64 >= deadline.load(Ordering::Relaxed)
                {
                    break;
                }
                let ranks = &ranks[..(left.min(ranks.len() as u64)) as usize];
                for rank in ranks {
                    stats.found += u64::from(self.look_up(*rank)?);
                }
                stats.looked += ranks.len() as u64;
                left -= ranks.len() as u64;
                progress.advance(ranks.len() as u64);
            }
            stats.done = stats.looked;
            stats.nanos = began.elapsed().as_nanos() as u64;
            Ok::<BenchStats, Error>(stats)
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..case.threads)
                .map(|thread| scope.spawn(move || work(thread)))
                .collect();
            start.wait();
            let (before, began) = (Usage::now(), clock.elapsed());
            if seconds > 0 {
                let end = began + Duration::from_secs(seconds);
                deadline.store(end.as_nanos() as u64, Ordering::Relaxed);
            }
            let mut total = BenchStats::default();
            for thread in threads {
                total.add(&thread.join().expect("a worker does not panic")?);
            }
            let elapsed = (clock.elapsed() - began).as_nanos() as u64;
            Ok((total, Usage::now().since(&before), elapsed))
        })
    }

    /// True if the key is cached; inserts it otherwise.
    #[inline]
    fn look_up(&self, number: u64) -> Result<bool> {
        let key = key(number);
        match self.cache.lookup(key) {
            Some(found) if self.verify && found != number => Err(wrong_entry(number, found)),
            Some(_) => Ok(true),
            None => {
                self.cache.insert(key, number, value_len(number));
                Ok(false)
            }
        }
    }
}

#[cold]
fn wrong_entry(number: u64, found: u64) -> Error {
    Error::corruption(format!(
        "the cache returned the value of key {found} for key {number}"
    ))
}
