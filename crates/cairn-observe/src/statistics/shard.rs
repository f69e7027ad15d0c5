//! The shards of the statistics: one for each thread slot in use, and one for each core.
//!
//! An atomic addition costs about eight nanoseconds even without contention, and a get would need about ten.
//! Additions are therefore plain loads and stores by the owner of a shard:
//!
//! - The shard of a slot is owned by the thread that leases the slot (`thread_slots`).
//! - The shard of a core is acquired by one exchange, which costs as much as all additions of a
//!   get. A thread never waits for it: if the shard is in use (its owner was preempted or has
//!   migrated), the thread tries the next shard, and after the last one a shard with a lock.
//!
//! No other thread stores to a shard, not even for a reset (`reset`).
//!
//! The shard of a slot omits histograms that user operations do not record directly ([`FREQUENT`]). Its owner
//! records those in the shard of a core, so that readers need not visit every histogram of every slot.
//!
//! The counters of a get are packed into few cache lines, because they are evicted from the L1
//! cache between gets and fetching them again costs as much as the additions. One line has the byte
//! counters and the most common value lengths, and one the number of gets by kind (`get_kinds`);
//! other value lengths take a third.
//!
//! The shard of a slot is allocated when the slot is first leased. It takes 4.4 KB plus 0.9 KB for
//! each histogram recorded in it: less than 11 KB, or half a megabyte for all [`SLOTS`]. The shard
//! of a core takes 5.5 KB, and 77 KB with every histogram.

use cairn_platform::cores;
use cairn_platform::sync::{Mutex, MutexGuard, OnceLock};

use super::get_kinds::{self, Gets, Kind};
use super::histogram::Histogram;
use super::histogram_data::Distribution;
use super::reset::{Generation, SamplesOf, Start};
use super::samples::{CommonValues, Samples};
use super::single_writer::{Sum, TryLock};
use super::thread_slots::SLOTS;
use super::ticker::Ticker;

/// Tickers placed first in a shard: the byte counters of gets, followed by the tickers of gets without a
/// kind.
const OF_GETS: [u16; 14] = [
    Ticker::BlockCacheBytesRead as u16,
    Ticker::BytesRead as u16,
    Ticker::BlockCacheHit as u16,
    Ticker::BlockCacheDataHit as u16,
    Ticker::MemtableMiss as u16,
    Ticker::NumberKeysRead as u16,
    Ticker::BloomFilterUseful as u16,
    Ticker::BloomFilterFullPositive as u16,
    Ticker::BloomFilterFullTruePositive as u16,
    Ticker::GetHitL0 as u16,
    Ticker::GetHitL1 as u16,
    Ticker::GetHitL2AndUp as u16,
    Ticker::MemtableHit as u16,
    Ticker::BlockCacheIndexHit as u16,
];

/// Histograms recorded at the end of user operations. The samples of the first one are stored in
/// each shard.
const FREQUENT: [u16; 8] = [
    OF_EACH_GET as u16,
    Histogram::BytesPerWrite as u16,
    Histogram::BytesPerMultiget as u16,
    Histogram::DbGet as u16,
    Histogram::DbWrite as u16,
    Histogram::DbMultiget as u16,
    Histogram::DbSeek as u16,
    Histogram::ReadNumMergeOperands as u16,
];

/// The histogram recorded by every get.
const OF_EACH_GET: Histogram = Histogram::BytesPerRead;

/// The position of each ticker in a shard, with those of gets first.
const TICKERS: [u16; Ticker::COUNT] = places(&OF_GETS);

/// The position of each histogram in a shard, with frequent ones first.
const HISTOGRAMS: [u16; Histogram::COUNT] = places(&FREQUENT);

/// The position of each number, if those in `first` come first and the others follow in order.
const fn places<const N: usize>(first: &[u16]) -> [u16; N] {
    let mut places = [u16::MAX; N];
    let mut next = 0;
    while next < first.len() {
        places[first[next] as usize] = next as u16;
        next += 1;
    }
    let mut number = 0;
    while number < N {
        if places[number] == u16::MAX {
            places[number] = next as u16;
            next += 1;
        }
        number += 1;
    }
    places
}

/// The counters of one slot or core. Aligned so that two shards share neither a cache line nor a
/// pair of lines that are prefetched together.
#[repr(C, align(128))]
pub(super) struct Shard {
    lock_bit: TryLock,
    samples_of: SamplesOf,
    /// Samples of [`OF_EACH_GET`], together with `of_each_get`.
    common_values: CommonValues,
    /// By [`TICKERS`].
    tickers: [Sum; Ticker::COUNT],
    /// The contribution of gets to the tickers, by kind.
    gets: Gets,
    of_each_get: Samples,
    /// By [`HISTOGRAMS`] after [`OF_EACH_GET`], continued in `infrequent`.
    frequent: [OnceLock<Box<Samples>>; FREQUENT.len() - 1],
    /// Empty in the shard of a slot.
    infrequent: Box<[OnceLock<Box<Samples>>]>,
}

// The byte counters of gets share one line.
const _: () = assert!(std::mem::offset_of!(Shard, tickers) == 48);

impl Shard {
    /// Creates a shard with zero counters and room for the given number of infrequent histograms.
    fn new(infrequent: usize) -> Shard {
        Shard {
            lock_bit: TryLock::new(),
            samples_of: SamplesOf::new(),
            common_values: CommonValues::new(),
            tickers: std::array::from_fn(|_| Sum::new(0)),
            gets: Gets::new(),
            of_each_get: Samples::new(),
            frequent: [const { OnceLock::new() }; FREQUENT.len() - 1],
            infrequent: (0..infrequent).map(|_| OnceLock::new()).collect(),
        }
    }

    fn of_slot() -> Shard {
        Shard::new(0)
    }

    fn of_core() -> Shard {
        Shard::new(Histogram::COUNT - FREQUENT.len())
    }

    #[inline]
    pub(super) fn sum(&self, ticker: Ticker) -> &Sum {
        &self.tickers[usize::from(TICKERS[ticker as usize])]
    }

    /// Adds to a ticker. Only called by the owner of the shard.
    #[inline]
    pub(super) fn add(&self, ticker: Ticker, count: u64) {
        self.sum(ticker).add(count);
    }

    /// Adds a get. Only called by the owner of the shard.
    #[inline]
    pub(super) fn add_get(&self, kind: Kind) {
        self.gets.add(kind);
    }

    /// The values of all tickers and gets.
    pub(super) fn counters(&self) -> Counters {
        Counters {
            tickers: self.tickers.each_ref().map(Sum::get),
            gets: self.gets.counts(),
        }
    }

    /// Adds what was added to these tickers and gets since they had the values `before` to those of `inner`, a shard of
    /// other statistics. Only called by the owner of both.
    pub(super) fn forward(&self, before: &Counters, inner: &Shard) {
        for ((sum, before), inner) in self.tickers.iter().zip(&before.tickers).zip(&inner.tickers) {
            inner.add(sum.get().wrapping_sub(*before));
        }
        self.gets.forward(&before.gets, &inner.gets);
    }

    /// The samples of a histogram other than [`OF_EACH_GET`], if the shard has room for it.
    #[inline]
    fn boxed(&self, histogram: Histogram) -> Option<&OnceLock<Box<Samples>>> {
        let place = usize::from(HISTOGRAMS[histogram as usize]) - 1;
        match place < self.frequent.len() {
            true => Some(&self.frequent[place]),
            false => self.infrequent.get(place - self.frequent.len()),
        }
    }

    /// Adds a sample, if the shard has room for the histogram. Only called by the owner of the shard.
    #[inline]
    pub(super) fn record(&self, histogram: Histogram, value: u64) -> bool {
        if histogram == OF_EACH_GET {
            if !self.common_values.add(value) {
                self.of_each_get.add(value);
            }
            return true;
        }
        let samples = self.boxed(histogram);
        if let Some(samples) = samples {
            let samples = samples.get_or_init(|| Box::new(Samples::new()));
            samples.add(value);
        }
        samples.is_some()
    }

    /// Adds the shard's samples of a histogram to `to`, if they are of `generation`.
    fn histogram(&self, histogram: Histogram, generation: u64, to: &mut Distribution) {
        if !self.samples_of.are_of(generation) {
            return;
        }
        if histogram == OF_EACH_GET {
            self.common_values.add_to(to);
            self.of_each_get.add_to(to);
        } else if let Some(samples) = self.boxed(histogram).and_then(OnceLock::get) {
            samples.add_to(to);
        }
    }

    #[inline]
    fn catch_up(&self, generation: &Generation) {
        self.samples_of
            .catch_up(generation, || self.clear_samples());
    }

    #[cold]
    fn clear_samples(&self) {
        let samples = self.frequent.iter().chain(&self.infrequent);
        let samples = samples.filter_map(OnceLock::get).map(|it| &**it);
        samples.chain([&self.of_each_get]).for_each(Samples::clear);
        self.common_values.clear();
    }
}

/// The values of the tickers and gets of a shard, of which none is ever reduced.
pub(super) struct Counters {
    tickers: [u64; Ticker::COUNT],
    gets: [u64; get_kinds::KINDS],
}

/// The shard of a core, acquired by the caller and released when dropped.
pub(super) struct Held<'a> {
    shard: &'a Shard,
    /// The lock of the overflow shard.
    _overflow: Option<MutexGuard<'a, ()>>,
}

impl Held<'_> {
    #[inline]
    pub(super) fn shard(&self) -> &Shard {
        self.shard
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        self.shard.lock_bit.release();
    }
}

/// All shards of a [`Statistics`](super::Statistics). The fields used by every update come first.
#[repr(C)]
pub(super) struct Shards {
    generation: Generation,
    of_slots: [OnceLock<Box<Shard>>; SLOTS],
    /// A power of two.
    of_cores: Box<[Shard]>,
    /// Used if the shards of all cores are taken.
    overflow: Box<Shard>,
    overflow_lock: Mutex<()>,
    /// By ticker number.
    starts: Box<[Start]>,
    /// Serialises resets.
    resetting: Mutex<()>,
}

impl Shards {
    pub(super) fn new(cores: usize) -> Shards {
        let count = cores.next_power_of_two();
        Shards {
            generation: Generation::new(),
            of_slots: [const { OnceLock::new() }; SLOTS],
            of_cores: (0..count).map(|_| Shard::of_core()).collect(),
            overflow: Box::new(Shard::of_core()),
            overflow_lock: Mutex::new(()),
            starts: (0..Ticker::COUNT).map(|_| Start::new()).collect(),
            resetting: Mutex::new(()),
        }
    }

    /// The shard of a slot, for its owner.
    #[inline]
    pub(super) fn of_slot(&self, slot: usize) -> &Shard {
        let shard = self.of_slots[slot].get_or_init(|| Box::new(Shard::of_slot()));
        shard.catch_up(&self.generation);
        shard
    }

    /// Acquires a shard for an update on `core`.
    #[inline(never)]
    pub(super) fn of_core(&self, core: usize) -> Held<'_> {
        let last = self.of_cores.len() - 1;
        let mut shards = (0..=last).map(|further| &self.of_cores[(core + further) & last]);
        let held = match shards.find(|shard| shard.lock_bit.take()) {
            Some(shard) => Held {
                shard,
                _overflow: None,
            },
            None => Held {
                _overflow: Some(self.overflow_lock.lock()),
                shard: &self.overflow,
            },
        };
        held.shard.catch_up(&self.generation);
        held
    }

    /// Adds a sample of a histogram that the shards of slots omit.
    #[cold]
    pub(super) fn record_by_core(&self, histogram: Histogram, value: u64) {
        let held = self.of_core(cores::current());
        held.shard.record(histogram, value);
    }

    /// All shards.
    pub(super) fn all(&self) -> impl Iterator<Item = &Shard> {
        self.slots().chain(self.cores())
    }

    /// The shards of slots that have had an owner.
    fn slots(&self) -> impl Iterator<Item = &Shard> {
        let shards = self.of_slots.iter().filter_map(OnceLock::get);
        shards.map(|shard| &**shard)
    }

    /// The shards of cores.
    fn cores(&self) -> impl Iterator<Item = &Shard> {
        self.of_cores.iter().chain([&*self.overflow])
    }

    /// The value of a ticker.
    pub(super) fn ticker(&self, ticker: Ticker) -> u64 {
        self.add_ticker(self.starts[ticker as usize].below_zero(), ticker)
    }

    /// `sum` plus all additions to a ticker.
    fn add_ticker(&self, sum: u64, ticker: Ticker) -> u64 {
        let sums = self.all().map(|shard| shard.sum(ticker).get());
        let sum = sums.fold(sum, u64::wrapping_add);
        match get_kinds::Totals::includes(ticker) {
            true => sum.wrapping_add(self.gets().ticker(ticker)),
            false => sum,
        }
    }

    /// The number of gets of each kind.
    fn gets(&self) -> get_kinds::Totals {
        get_kinds::Totals::of(self.all().map(|shard| &shard.gets))
    }

    /// The values of all tickers, by number.
    pub(super) fn tickers(&self) -> Vec<u64> {
        let mut sums: Vec<u64> = self.starts.iter().map(Start::below_zero).collect();
        let mut added = [0_u64; Ticker::COUNT];
        for shard in self.all() {
            for (added, sum) in added.iter_mut().zip(&shard.tickers) {
                *added = added.wrapping_add(sum.get());
            }
        }
        for (sum, place) in sums.iter_mut().zip(TICKERS) {
            *sum = sum.wrapping_add(added[usize::from(place)]);
        }
        for (ticker, added) in self.gets().tickers() {
            let sum = &mut sums[ticker as usize];
            *sum = sum.wrapping_add(added);
        }
        sums
    }

    /// Sets a ticker and returns its previous value.
    pub(super) fn set_ticker(&self, ticker: Ticker, count: u64) -> u64 {
        let _alone = self.resetting.lock();
        self.begin(ticker, count)
    }

    fn begin(&self, ticker: Ticker, count: u64) -> u64 {
        let start = &self.starts[ticker as usize];
        start.move_to(count, |below_zero| self.add_ticker(below_zero, ticker))
    }

    /// The samples of a histogram.
    pub(super) fn histogram(&self, histogram: Histogram) -> Distribution {
        self.generation.read(|generation| {
            let mut samples = Distribution::default();
            let mut add = |shard: &Shard| shard.histogram(histogram, generation, &mut samples);
            if FREQUENT.contains(&(histogram as u16)) {
                self.slots().for_each(&mut add);
            }
            self.cores().for_each(add);
            samples.count = samples.buckets.iter().sum();
            samples
        })
    }

    /// Resets everything.
    pub(super) fn reset(&self) {
        let _alone = self.resetting.lock();
        self.generation.advance();
        for &ticker in Ticker::ALL {
            self.begin(ticker, 0);
        }
    }
}
