//! The sums of one core: who has something to add takes the shard for himself, for some nanoseconds.
//!
//! An addition to a number that others may add to at the same time costs some eight nanoseconds even
//! where nobody does; a get has about ten of them to make. So a shard is taken with one exchange, and
//! while it is held additions are loads and stores. Nobody ever waits for a shard: who finds it taken
//! (its holder was interrupted, or runs on another core by now) goes to the next one.

use std::sync::OnceLock;

use cairn_platform::sync::{Mutex, MutexGuard};

use super::distribution::{BUCKETS, Distribution, LIMITS, bucket_of};
use super::histogram::Histogram;
use super::ticker::Ticker;
use super::turn::{Sum, Turn};

/// The samples of one histogram in one shard.
pub(super) struct Samples {
    sum: Sum,
    sum_of_squares: Sum,
    min: Sum,
    max: Sum,
    buckets: [Sum; BUCKETS],
}

impl Samples {
    fn new() -> Samples {
        Samples {
            sum: Sum::new(0),
            sum_of_squares: Sum::new(0),
            min: Sum::new(LIMITS[BUCKETS - 1]),
            max: Sum::new(0),
            buckets: std::array::from_fn(|_| Sum::new(0)),
        }
    }

    #[inline]
    fn add(&self, value: u64) {
        self.buckets[bucket_of(value)].add(1);
        self.sum.add(value);
        self.sum_of_squares.add(value.wrapping_mul(value));
        if value < self.min.get() {
            self.min.set(value);
        }
        if value > self.max.get() {
            self.max.set(value);
        }
    }

    fn clear(&self) {
        self.sum.set(0);
        self.sum_of_squares.set(0);
        self.min.set(LIMITS[BUCKETS - 1]);
        self.max.set(0);
        self.buckets.iter().for_each(|bucket| bucket.set(0));
    }

    /// Adds what is here to `to`. The buckets that can hold something lie between the smallest and
    /// the largest sample, so that a histogram of a few buckets is read in a few loads.
    fn add_to(&self, to: &mut Distribution) {
        let (min, max) = (self.min.get(), self.max.get());
        if min > max {
            return;
        }
        to.min = to.min.min(min);
        to.max = to.max.max(max);
        to.sum = to.sum.wrapping_add(self.sum.get());
        to.sum_of_squares = to.sum_of_squares.wrapping_add(self.sum_of_squares.get());
        for at in bucket_of(min)..=bucket_of(max) {
            let inside = self.buckets[at].get();
            to.buckets[at] += inside;
            to.count += inside;
        }
    }
}

/// What a get adds to: these sums lie beside the turn, in two lines of memory instead of one each.
const OF_GETS: [Ticker; 15] = [
    Ticker::BlockCacheHit,
    Ticker::BlockCacheDataHit,
    Ticker::BlockCacheBytesRead,
    Ticker::MemtableMiss,
    Ticker::NumberKeysRead,
    Ticker::BytesRead,
    Ticker::BloomFilterUseful,
    Ticker::BloomFilterFullPositive,
    Ticker::BloomFilterFullTruePositive,
    Ticker::GetHitL0,
    Ticker::GetHitL1,
    Ticker::GetHitL2AndUp,
    Ticker::MemtableHit,
    Ticker::BlockCacheIndexHit,
    Ticker::BlockCacheFilterHit,
];

/// Where in a shard the sum of each ticker lies: those of gets first, then the others in their order.
const PLACES: [u16; Ticker::COUNT] = places();

const fn places() -> [u16; Ticker::COUNT] {
    let mut places = [u16::MAX; Ticker::COUNT];
    let mut next = 0;
    while next < OF_GETS.len() {
        places[OF_GETS[next] as usize] = next as u16;
        next += 1;
    }
    let mut ticker = 0;
    while ticker < Ticker::COUNT {
        if places[ticker] == u16::MAX {
            places[ticker] = next as u16;
            next += 1;
        }
        ticker += 1;
    }
    places
}

/// The sums of one core. Aligned so that two cores share no line, and no pair of lines that a
/// processor fetches together.
#[repr(C, align(128))]
pub(super) struct Shard {
    turn: Turn,
    /// By [`PLACES`].
    tickers: [Sum; Ticker::COUNT],
    histograms: [OnceLock<Box<Samples>>; Histogram::COUNT],
}

impl Shard {
    pub(super) fn new() -> Shard {
        Shard {
            turn: Turn::new(),
            tickers: std::array::from_fn(|_| Sum::new(0)),
            histograms: [const { OnceLock::new() }; Histogram::COUNT],
        }
    }

    /// Takes the shard, unless somebody has it.
    #[inline]
    pub(super) fn take(&self) -> Option<Held<'_>> {
        // Lazily: a `Held` that was made gives the turn back.
        self.turn.take().then(|| Held {
            shard: self,
            _overflow: None,
        })
    }

    #[inline]
    fn sum(&self, ticker: Ticker) -> &Sum {
        &self.tickers[usize::from(PLACES[ticker as usize])]
    }

    /// What the shard has of a ticker.
    #[inline]
    pub(super) fn ticker(&self, ticker: Ticker) -> u64 {
        self.sum(ticker).get()
    }

    /// Adds what the shard has of a histogram to `to`.
    pub(super) fn histogram(&self, histogram: Histogram, to: &mut Distribution) {
        if let Some(samples) = self.histograms[histogram as usize].get() {
            samples.add_to(to);
        }
    }
}

/// A shard that was taken. Given back when dropped.
pub(super) struct Held<'a> {
    shard: &'a Shard,
    /// Held for the shard that one does wait for.
    _overflow: Option<MutexGuard<'a, ()>>,
}

impl Held<'_> {
    #[inline]
    pub(super) fn add(&self, ticker: Ticker, count: u64) {
        self.shard.sum(ticker).add(count);
    }

    pub(super) fn get(&self, ticker: Ticker) -> u64 {
        self.shard.ticker(ticker)
    }

    pub(super) fn set(&self, ticker: Ticker, count: u64) {
        self.shard.sum(ticker).set(count);
    }

    #[inline]
    pub(super) fn record(&self, histogram: Histogram, value: u64) {
        let samples = &self.shard.histograms[histogram as usize];
        samples.get_or_init(|| Box::new(Samples::new())).add(value);
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        self.shard.tickers.iter().for_each(|sum| sum.set(0));
        let samples = self.shard.histograms.iter().filter_map(OnceLock::get);
        samples.for_each(|samples| samples.clear());
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        self.shard.turn.give_back();
    }
}

/// The shards of all cores, and one for who finds all of them taken.
pub(super) struct Shards {
    /// Their number is a power of two.
    of_cores: Box<[Shard]>,
    overflow: Shard,
    overflow_lock: Mutex<()>,
}

impl Shards {
    pub(super) fn new(cores: usize) -> Shards {
        let count = cores.next_power_of_two();
        Shards {
            of_cores: (0..count).map(|_| Shard::new()).collect(),
            overflow: Shard::new(),
            overflow_lock: Mutex::new(()),
        }
    }

    /// A shard for an addition on `core`.
    #[inline]
    pub(super) fn take(&self, core: usize) -> Held<'_> {
        match self.shard(core).take() {
            Some(held) => held,
            None => self.take_another(core),
        }
    }

    #[inline]
    fn shard(&self, core: usize) -> &Shard {
        &self.of_cores[core & (self.of_cores.len() - 1)]
    }

    #[cold]
    fn take_another(&self, core: usize) -> Held<'_> {
        let others = (1..self.of_cores.len()).map(|further| self.shard(core + further));
        others.filter_map(Shard::take).next().unwrap_or_else(|| {
            let lock = self.overflow_lock.lock();
            Held {
                shard: &self.overflow,
                _overflow: Some(lock),
            }
        })
    }

    /// Every shard.
    pub(super) fn all(&self) -> impl Iterator<Item = &Shard> {
        self.of_cores.iter().chain([&self.overflow])
    }

    /// Takes every shard, one after the other, waiting for it, and shows it to `change`.
    pub(super) fn take_each(&self, mut change: impl FnMut(&Held<'_>)) {
        let lock = self.overflow_lock.lock();
        for shard in &self.of_cores {
            loop {
                if let Some(held) = shard.take() {
                    change(&held);
                    break;
                }
                std::thread::yield_now();
            }
        }
        change(&Held {
            shard: &self.overflow,
            _overflow: Some(lock),
        });
    }
}
