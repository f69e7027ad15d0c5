//! Where the sums lie: a shard for each slot that a thread may have leased, and one for each core.
//!
//! An addition to a number that others may add to at the same time costs some eight nanoseconds even
//! where nobody does; a get has about ten of them to make. So additions are loads and stores, by whom the
//! shard belongs to:
//!
//! - The shard of a slot belongs to the thread that has leased the slot ([`super::slots`]).
//! - The shard of a core is taken with one exchange, which costs as much as all additions of a get. Nobody
//!   ever waits for it: who finds it taken (its holder was interrupted, or runs on another core by now)
//!   goes to the next one, and behind the last stands one with a lock.
//!
//! Nobody else stores there, not even to let sums begin anew ([`super::beginning`]).
//!
//! A shard of a slot has no room for the samples of histograms that no operation of a user adds to by
//! itself ([`OFTEN`]): its owner adds those to the shard of a core. Otherwise who reads would have to look at
//! every histogram of every slot.
//!
//! What a get adds to lies in few lines of memory: between two gets they leave the nearest cache, and to
//! fetch them costs as much as the additions. One line has the sums of bytes and how often the usual lengths of values came, one
//! the number of gets of its kind ([`super::gets`]); values of other lengths go to a third.
//!
//! A shard of a slot is made when its first owner comes, and takes 4.4 KB and 0.9 KB for each histogram that
//! was recorded in there: less than 11 KB, and half a megabyte for all [`SLOTS`]. The shard of a core takes
//! 5.5 KB, and 77 KB with every histogram.

use cairn_platform::cores;
use cairn_platform::sync::{Mutex, MutexGuard, OnceLock};

use super::get_kinds::{self, Gets, Kind};
use super::histogram::Histogram;
use super::histogram_data::Distribution;
use super::reset::{Generation, SamplesOf, Start};
use super::samples::{Samples, Usual};
use super::single_writer::{Sum, Turn};
use super::thread_slots::SLOTS;
use super::ticker::Ticker;

/// What gets add bytes to: these sums lie in the first line of a shard. Those behind are what a get adds to
/// that is of no kind.
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

/// What operations of users add samples to, each at its end. Those of the first are part of each shard.
const OFTEN: [u16; 8] = [
    OF_EACH_GET as u16,
    Histogram::BytesPerWrite as u16,
    Histogram::BytesPerMultiget as u16,
    Histogram::DbGet as u16,
    Histogram::DbWrite as u16,
    Histogram::DbMultiget as u16,
    Histogram::DbSeek as u16,
    Histogram::ReadNumMergeOperands as u16,
];

/// What each get adds a sample to.
const OF_EACH_GET: Histogram = Histogram::BytesPerRead;

/// Where in a shard each ticker lies: those of gets first.
const TICKERS: [u16; Ticker::COUNT] = places(&OF_GETS);

/// Where in a shard each histogram lies: those that are often added to first.
const HISTOGRAMS: [u16; Histogram::COUNT] = places(&OFTEN);

/// The place of each number, if those of `first` come first and then the others in their order.
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

/// The sums of one slot or core. Aligned so that two of them share no line, and no pair of lines that a
/// processor fetches together.
#[repr(C, align(128))]
pub(super) struct Shard {
    turn: Turn,
    samples_of: SamplesOf,
    /// With `of_each_get` the samples of [`OF_EACH_GET`].
    usual: Usual,
    /// By [`TICKERS`].
    tickers: [Sum; Ticker::COUNT],
    /// What gets added to tickers besides.
    gets: Gets,
    of_each_get: Samples,
    /// By [`HISTOGRAMS`] behind [`OF_EACH_GET`], which goes on in `seldom`.
    often: [OnceLock<Box<Samples>>; OFTEN.len() - 1],
    /// Nothing in the shard of a slot.
    seldom: Box<[OnceLock<Box<Samples>>]>,
}

// What every get adds bytes to is in one line.
const _: () = assert!(std::mem::offset_of!(Shard, tickers) == 48);

impl Shard {
    /// Without a sum yet, for so many histograms that are seldom added to.
    fn new(seldom: usize) -> Shard {
        Shard {
            turn: Turn::new(),
            samples_of: SamplesOf::new(),
            usual: Usual::new(),
            tickers: std::array::from_fn(|_| Sum::new(0)),
            gets: Gets::new(),
            of_each_get: Samples::new(),
            often: [const { OnceLock::new() }; OFTEN.len() - 1],
            seldom: (0..seldom).map(|_| OnceLock::new()).collect(),
        }
    }

    fn of_slot() -> Shard {
        Shard::new(0)
    }

    fn of_core() -> Shard {
        Shard::new(Histogram::COUNT - OFTEN.len())
    }

    #[inline]
    pub(super) fn sum(&self, ticker: Ticker) -> &Sum {
        &self.tickers[usize::from(TICKERS[ticker as usize])]
    }

    /// Adds to a ticker. Only for whom the shard belongs to.
    #[inline]
    pub(super) fn add(&self, ticker: Ticker, count: u64) {
        self.sum(ticker).add(count);
    }

    /// Adds a get. Only for whom the shard belongs to.
    #[inline]
    pub(super) fn add_get(&self, kind: Kind) {
        self.gets.add(kind);
    }

    /// Where the samples of a histogram are that is not [`OF_EACH_GET`], if the shard has room for them.
    #[inline]
    fn boxed(&self, histogram: Histogram) -> Option<&OnceLock<Box<Samples>>> {
        let place = usize::from(HISTOGRAMS[histogram as usize]) - 1;
        match place < self.often.len() {
            true => Some(&self.often[place]),
            false => self.seldom.get(place - self.often.len()),
        }
    }

    /// Adds a sample, if there is room for it. Only for whom the shard belongs to.
    #[inline]
    pub(super) fn record(&self, histogram: Histogram, value: u64) -> bool {
        if histogram == OF_EACH_GET {
            if !self.usual.add(value) {
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

    /// Adds what the shard has of a histogram to `to`, if it is of `generation`.
    fn histogram(&self, histogram: Histogram, generation: u64, to: &mut Distribution) {
        if !self.samples_of.are_of(generation) {
            return;
        }
        if histogram == OF_EACH_GET {
            self.usual.add_to(to);
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
        let samples = self.often.iter().chain(&self.seldom);
        let samples = samples.filter_map(OnceLock::get).map(|it| &**it);
        samples.chain([&self.of_each_get]).for_each(Samples::clear);
        self.usual.clear();
    }
}

/// The shard of a core that the caller has taken. Given back when dropped.
pub(super) struct Held<'a> {
    shard: &'a Shard,
    /// Held for the shard that one does wait for.
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
        self.shard.turn.give_back();
    }
}

/// All sums of some statistics. In this order: what every update looks at comes first.
#[repr(C)]
pub(super) struct Shards {
    generation: Generation,
    of_slots: [OnceLock<Box<Shard>>; SLOTS],
    /// Their number is a power of two.
    of_cores: Box<[Shard]>,
    /// For who finds the shards of all cores taken.
    overflow: Box<Shard>,
    overflow_lock: Mutex<()>,
    /// By the tickers' numbers.
    starts: Box<[Start]>,
    /// Held by who lets sums begin anew.
    beginning: Mutex<()>,
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
            beginning: Mutex::new(()),
        }
    }

    /// The shard of a slot, for its owner.
    #[inline]
    pub(super) fn of_slot(&self, slot: usize) -> &Shard {
        let shard = self.of_slots[slot].get_or_init(|| Box::new(Shard::of_slot()));
        shard.catch_up(&self.generation);
        shard
    }

    /// A shard for an addition on `core`.
    #[inline(never)]
    pub(super) fn of_core(&self, core: usize) -> Held<'_> {
        let last = self.of_cores.len() - 1;
        let mut shards = (0..=last).map(|further| &self.of_cores[(core + further) & last]);
        let held = match shards.find(|shard| shard.turn.take()) {
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

    /// Adds a sample for which the shards of slots have no room.
    #[cold]
    pub(super) fn record_by_core(&self, histogram: Histogram, value: u64) {
        let held = self.of_core(cores::current());
        held.shard.record(histogram, value);
    }

    /// Every shard.
    pub(super) fn all(&self) -> impl Iterator<Item = &Shard> {
        self.slots().chain(self.cores())
    }

    /// Those of slots that have had an owner.
    fn slots(&self) -> impl Iterator<Item = &Shard> {
        let shards = self.of_slots.iter().filter_map(OnceLock::get);
        shards.map(|shard| &**shard)
    }

    /// Those of cores.
    fn cores(&self) -> impl Iterator<Item = &Shard> {
        self.of_cores.iter().chain([&*self.overflow])
    }

    /// The sum of a ticker.
    pub(super) fn ticker(&self, ticker: Ticker) -> u64 {
        self.add_ticker(self.starts[ticker as usize].below_zero(), ticker)
    }

    /// `sum` and what has been added to a ticker.
    fn add_ticker(&self, sum: u64, ticker: Ticker) -> u64 {
        let sums = self.all().map(|shard| shard.sum(ticker).get());
        let sum = sums.fold(sum, u64::wrapping_add);
        match get_kinds::Totals::tell_of(ticker) {
            true => sum.wrapping_add(self.gets().ticker(ticker)),
            false => sum,
        }
    }

    /// The gets of each kind.
    fn gets(&self) -> get_kinds::Totals {
        get_kinds::Totals::of(self.all().map(|shard| &shard.gets))
    }

    /// The sums of all tickers, by their numbers.
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

    /// A ticker is `count` from now on. Returns what it was.
    pub(super) fn set_ticker(&self, ticker: Ticker, count: u64) -> u64 {
        let _alone = self.beginning.lock();
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
            if OFTEN.contains(&(histogram as u16)) {
                self.slots().for_each(&mut add);
            }
            self.cores().for_each(add);
            samples.count = samples.buckets.iter().sum();
            samples
        })
    }

    /// Every sum begins anew.
    pub(super) fn reset(&self) {
        let _alone = self.beginning.lock();
        self.generation.advance();
        for &ticker in Ticker::ALL {
            self.begin(ticker, 0);
        }
    }
}
