//! Statistics: RocksDB's tickers and histograms, under its names and numbers.
//!
//! An operation counts on its own stack and brings what it counted here once, at its end
//! ([`Statistics::update`]); that costs some nanoseconds, whatever the number of things counted.
//! A few threads that stay have sums of their own, to which they add without asking anybody; all others
//! add to those of the core they run on. So nobody waits for anybody, and a thread that ends leaves its
//! counts behind. Reading adds up what lies in all these places; it takes nothing away from those who
//! write, and its cost goes with the number of cores, not of threads.
//!
//! Every count is exact: no addition is lost or counted twice, also not while threads come and go or sums
//! begin anew. An addition at the moment in which a sum begins anew counts before or after, a sample of a
//! histogram with all that is told of it. What is read while others add may have some of their last
//! additions and not others, of one update too.
//!
//! ```
//! use cairn_observe::statistics::{Histogram, Statistics, StatsLevel, Ticker};
//!
//! let statistics = Statistics::new(StatsLevel::ExceptTimers);
//! statistics.update(|update| {
//!     update.add(Ticker::BytesRead, 100);
//!     update.record(Histogram::BytesPerRead, 100);
//!     update.time(Histogram::DbGet, 5);
//! });
//! assert_eq!(statistics.ticker(Ticker::BytesRead), 100);
//! assert_eq!(statistics.histogram(Histogram::BytesPerRead).count, 1);
//! // The level leaves times out.
//! assert_eq!(statistics.histogram(Histogram::DbGet).count, 0);
//! ```

mod atomics;
mod beginning;
mod distribution;
mod gets;
mod histogram;
pub mod history;
mod meter;
pub(crate) mod rows;
mod samples;
mod shard;
mod slots;
mod tables;
#[cfg(test)]
mod tests;
mod ticker;
mod turn;

use std::fmt::{self, Write as _};
use std::sync::Arc;

use cairn_platform::cores;
use cairn_platform::sync::{AtomicU8, Ordering};

pub use distribution::{Distribution, HistogramData};
pub use gets::Hit;
use gets::Kind;
pub use histogram::Histogram;
pub use meter::{Began, Meter};
use shard::{Shard, Shards};
pub use tables::{BlockPart, CacheEvent, TableCounts, count};
pub use ticker::Ticker;

/// What statistics leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum StatsLevel {
    /// Everything.
    DisableAll,
    /// Histograms; tickers are kept.
    ExceptHistogramOrTimers,
    /// What is measured by a clock.
    ExceptTimers,
    /// Times of single blocks and of waiting for locks.
    ExceptDetailedTimers,
    /// Times of waiting for locks.
    ExceptTimeForMutex,
    /// Nothing.
    All,
}

impl StatsLevel {
    const ALL: [StatsLevel; 6] = [
        StatsLevel::DisableAll,
        StatsLevel::ExceptHistogramOrTimers,
        StatsLevel::ExceptTimers,
        StatsLevel::ExceptDetailedTimers,
        StatsLevel::ExceptTimeForMutex,
        StatsLevel::All,
    ];

    /// The level with this number in RocksDB's interface. Numbers beyond the ends mean the ends.
    #[must_use]
    pub fn from_number(number: i64) -> StatsLevel {
        StatsLevel::ALL[number.clamp(0, 5) as usize]
    }
}

/// Which statistics a database keeps.
#[derive(Clone, Debug, Default)]
pub enum Keeping {
    /// Its own. The level leaves times out: asking the clock twice would cost a get more than
    /// everything else that is counted about it.
    #[default]
    Own,
    /// These, which other databases may keep too.
    Shared(Arc<Statistics>),
    /// None.
    Nothing,
}

impl Keeping {
    /// The statistics of a database that is opened now.
    #[must_use]
    pub fn statistics(&self) -> Option<Arc<Statistics>> {
        match self {
            Keeping::Own => Some(Arc::new(Statistics::new(StatsLevel::ExceptTimers))),
            Keeping::Shared(statistics) => Some(statistics.clone()),
            Keeping::Nothing => None,
        }
    }
}

impl From<Arc<Statistics>> for Keeping {
    fn from(statistics: Arc<Statistics>) -> Keeping {
        Keeping::Shared(statistics)
    }
}

impl PartialEq for Keeping {
    fn eq(&self, other: &Keeping) -> bool {
        match (self, other) {
            (Keeping::Own, Keeping::Own) | (Keeping::Nothing, Keeping::Nothing) => true,
            (Keeping::Shared(ours), Keeping::Shared(theirs)) => Arc::ptr_eq(ours, theirs),
            _ => false,
        }
    }
}

/// The sums of one or more databases. Aligned so that what every update looks at shares no line with the
/// count of an [`Arc`], and in this order so that it is in one.
#[repr(C, align(128))]
pub struct Statistics {
    level: AtomicU8,
    shards: Shards,
}

impl Statistics {
    /// Statistics without anything in them.
    #[must_use]
    pub fn new(level: StatsLevel) -> Statistics {
        Statistics {
            level: AtomicU8::new(level as u8),
            shards: Shards::new(cores::count()),
        }
    }

    /// What is left out.
    #[inline]
    #[must_use]
    pub fn level(&self) -> StatsLevel {
        StatsLevel::ALL[usize::from(self.level.load(Ordering::Relaxed)).min(5)]
    }

    /// Changes what is left out from now on.
    pub fn set_level(&self, level: StatsLevel) {
        self.level.store(level as u8, Ordering::Relaxed);
    }

    /// True if times are measured.
    #[inline]
    #[must_use]
    pub fn wants_times(&self) -> bool {
        self.level.load(Ordering::Relaxed) > StatsLevel::ExceptTimers as u8
    }

    /// True if times of single blocks and the like are measured.
    #[inline]
    #[must_use]
    pub fn wants_detailed_times(&self) -> bool {
        self.level() > StatsLevel::ExceptDetailedTimers
    }

    /// Brings in what an operation counted. `change` must not ask for statistics itself. Whether it was called:
    /// it is not at the level that leaves everything out.
    #[inline]
    pub fn update(&self, change: impl FnOnce(&Update<'_>)) -> bool {
        let level = self.level.load(Ordering::Relaxed);
        let counts = level > StatsLevel::DisableAll as u8;
        if counts {
            let shards = &self.shards;
            match slots::current() {
                Some(slot) => change(&Update {
                    shards,
                    shard: shards.of_slot(slot),
                    level,
                }),
                None => self.update_by_core(level, change),
            }
        }
        counts
    }

    /// [`Statistics::update`] by a thread that has no slot.
    #[inline(never)]
    fn update_by_core(&self, level: u8, change: impl FnOnce(&Update<'_>)) {
        let shards = &self.shards;
        let held = shards.of_core(cores::current());
        change(&Update {
            shards,
            shard: held.shard(),
            level,
        });
    }

    /// Adds to one ticker.
    #[inline]
    pub fn add(&self, ticker: Ticker, count: u64) {
        self.update(|update| update.add(ticker, count));
    }

    /// Adds one sample that is not a time.
    pub fn record(&self, histogram: Histogram, value: u64) {
        self.update(|update| update.record(histogram, value));
    }

    /// Adds one time.
    pub fn time(&self, histogram: Histogram, duration: u64) {
        self.update(|update| update.time(histogram, duration));
    }

    /// The sum of a ticker.
    #[must_use]
    pub fn ticker(&self, ticker: Ticker) -> u64 {
        self.shards.ticker(ticker)
    }

    /// The samples of a histogram.
    #[must_use]
    pub fn histogram(&self, histogram: Histogram) -> Distribution {
        self.shards.histogram(histogram)
    }

    /// All tickers, each at the place of its number.
    #[must_use]
    pub fn tickers(&self) -> Vec<u64> {
        self.shards.tickers()
    }

    /// Sets a ticker. What is added meanwhile counts before, and is gone, or after.
    pub fn set_ticker(&self, ticker: Ticker, count: u64) {
        self.shards.set_ticker(ticker, count);
    }

    /// The sum of a ticker, which begins anew. What is added meanwhile counts before or after.
    pub fn take_ticker(&self, ticker: Ticker) -> u64 {
        self.shards.set_ticker(ticker, 0)
    }

    /// Forgets everything. What is added meanwhile is forgotten or stays, each addition and each sample
    /// for itself.
    pub fn reset(&self) {
        self.shards.reset();
    }
}

/// RocksDB's text: a line for each ticker and each histogram.
impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (ticker, count) in Ticker::ALL.iter().zip(self.tickers()) {
            writeln!(f, "{} COUNT : {count}", ticker.name())?;
        }
        for &histogram in Histogram::ALL {
            let data = self.histogram(histogram).data();
            let mut line = String::from(histogram.name());
            for (name, value) in [
                ("P50", data.median),
                ("P95", data.percentile95),
                ("P99", data.percentile99),
                ("P100", data.max),
            ] {
                write!(line, " {name} : {value:.6}")?;
            }
            writeln!(f, "{line} COUNT : {} SUM : {}", data.count, data.sum)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = self.level();
        f.debug_struct("Statistics")
            .field("level", &level)
            .finish_non_exhaustive()
    }
}

/// The sums that a thread adds to, while one operation brings in what it counted.
pub struct Update<'a> {
    shards: &'a Shards,
    /// One of them, to which nobody else adds meanwhile.
    shard: &'a Shard,
    /// A [`StatsLevel`] as its number.
    level: u8,
}

impl Update<'_> {
    /// Adds to a ticker.
    #[inline]
    pub fn add(&self, ticker: Ticker, count: u64) {
        self.shard.add(ticker, count);
    }

    /// Adds what a get counted in tables, if it looked into any, and begins that anew; where it ended, and the
    /// bytes of its value if there is one.
    #[inline]
    pub fn get(&self, tables: Option<&TableCounts>, hit: Hit, value: Option<u64>) {
        if let Some(kind) = Kind::of(tables, hit, value.is_some()) {
            self.shard.add_get(kind);
            if let Some(tables) = tables {
                self.add(Ticker::BlockCacheBytesRead, tables.hit_bytes.get());
                tables.forget();
            }
        } else {
            self.odd_get(tables, hit, value.is_some());
        }
        let bytes = value.unwrap_or(0);
        self.add(Ticker::BytesRead, bytes);
        self.record(Histogram::BytesPerRead, bytes);
    }

    /// Adds what gets of some kind add at once.
    #[inline(never)]
    fn odd_get(&self, tables: Option<&TableCounts>, hit: Hit, is_value: bool) {
        if let Some(tables) = tables {
            tables.bring_to(self);
        }
        self.hit(hit, is_value);
        self.add(Ticker::NumberKeysRead, 1);
    }

    /// Adds where the search for a key ended.
    #[inline]
    pub fn hit(&self, hit: Hit, is_value: bool) {
        self.add(hit.of_memtables(), 1);
        if let Some(ticker) = hit.of_level().filter(|_| is_value) {
            self.add(ticker, 1);
        }
    }

    /// Adds a sample that is not a time.
    #[inline]
    pub fn record(&self, histogram: Histogram, value: u64) {
        self.sample(StatsLevel::ExceptHistogramOrTimers, histogram, value);
    }

    /// Adds a time.
    #[inline]
    pub fn time(&self, histogram: Histogram, duration: u64) {
        self.sample(StatsLevel::ExceptTimers, histogram, duration);
    }

    /// Adds a sample that the levels up to `without` leave out.
    #[inline]
    fn sample(&self, without: StatsLevel, histogram: Histogram, value: u64) {
        if self.level > without as u8 && !self.shard.record(histogram, value) {
            self.shards.record_by_core(histogram, value);
        }
    }
}
