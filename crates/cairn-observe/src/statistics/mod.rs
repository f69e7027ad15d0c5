//! Statistics: RocksDB's tickers and histograms, with its names and numbers.
//!
//! An operation counts on its own stack and adds its counts once, at the end
//! ([`Statistics::update`]), which costs a few nanoseconds regardless of their number. Long-lived
//! threads may have shards of their own, which they update without synchronisation; all other
//! threads use the shard of their current core. No thread blocks, and the counts of a thread
//! outlive it. A read sums all shards. It does not disturb writers, and its cost depends on the
//! number of cores rather than the number of threads.
//!
//! Counts are exact: no addition is lost or duplicated, even while threads start and end or
//! counters are reset. An addition concurrent with a reset takes effect before or after it; a
//! histogram sample does so as a whole. A read concurrent with additions may see any subset of the
//! latest ones, even a part of one update.
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
//! // Times are excluded by the level.
//! assert_eq!(statistics.histogram(Histogram::DbGet).count, 0);
//! ```

mod atomics;
mod get_kinds;
mod histogram;
mod histogram_data;
pub mod history;
pub(crate) mod numbered_enum;
mod reset;
mod samples;
mod shard;
mod single_writer;
mod stopwatch;
mod table_counts;
#[cfg(test)]
mod tests;
mod thread_slots;
mod ticker;

use std::fmt::{self, Write as _};
use std::sync::Arc;

use cairn_platform::cores;
use cairn_platform::sync::{AtomicU8, Ordering};

pub use get_kinds::Hit;
use get_kinds::Kind;
pub use histogram::Histogram;
pub use histogram_data::{Distribution, HistogramData};
use shard::{Shard, Shards};
pub use stopwatch::{Began, Meter};
pub use table_counts::{BlockPart, CacheEvent, TableCounts, count};
pub use ticker::Ticker;

/// The level of detail: the kinds of statistics that are disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum StatsLevel {
    /// Disables everything.
    DisableAll,
    /// Disables histograms. Tickers are kept.
    ExceptHistogramOrTimers,
    /// Disables all times.
    ExceptTimers,
    /// Disables the times of single blocks and the time spent waiting for mutexes.
    ExceptDetailedTimers,
    /// Disables the time spent waiting for mutexes.
    ExceptTimeForMutex,
    /// Disables nothing.
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

    /// The level with this number in RocksDB's interface. Numbers out of range are clamped.
    #[must_use]
    pub fn from_number(number: i64) -> StatsLevel {
        StatsLevel::ALL[number.clamp(0, 5) as usize]
    }
}

/// The statistics that a database keeps.
#[derive(Clone, Debug, Default)]
pub enum Keeping {
    /// Statistics of its own, without times: reading the clock twice would cost a get more than all other
    /// counters.
    #[default]
    Own,
    /// Statistics that other databases may share.
    Shared(Arc<Statistics>),
    /// None.
    Nothing,
}

impl Keeping {
    /// The statistics of a database that is being opened.
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

/// Statistics of one or more databases. Aligned so that the fields used by every update are apart
/// from the reference count of an [`Arc`], and ordered so that they share one cache line.
#[repr(C, align(128))]
pub struct Statistics {
    level: AtomicU8,
    inner: Option<Arc<Statistics>>,
    /// The histograms that get no times: a bit for each, by number.
    ignored: u128,
    shards: Shards,
}

const _: () = assert!(Histogram::COUNT <= u128::BITS as usize);

impl Statistics {
    /// Creates empty statistics.
    #[must_use]
    pub fn new(level: StatsLevel) -> Statistics {
        Statistics {
            level: AtomicU8::new(level as u8),
            inner: None,
            ignored: 0,
            shards: Shards::new(cores::count()),
        }
    }

    /// Makes `inner` count everything that these statistics count, each at its own level. Times are forwarded if
    /// the level of these statistics includes them; `inner` then records them at any level that includes histograms. A
    /// ticker that is set or taken is set in `inner` as well; reads and [`Statistics::reset`] concern only these
    /// statistics. Each update of forwarding statistics costs time proportional to the number of tickers.
    #[must_use]
    pub fn forwarding_to(self, inner: Arc<Statistics>) -> Statistics {
        Statistics {
            inner: Some(inner),
            ..self
        }
    }

    /// Drops the times of `histograms`. Samples other than times are recorded in them nevertheless.
    #[must_use]
    pub fn without_times_of(self, histograms: impl IntoIterator<Item = Histogram>) -> Statistics {
        let bits = histograms.into_iter().map(|one| 1 << one as u32);
        Statistics {
            ignored: bits.fold(self.ignored, |all, bit: u128| all | bit),
            ..self
        }
    }

    /// The current level.
    #[inline]
    #[must_use]
    pub fn level(&self) -> StatsLevel {
        StatsLevel::ALL[usize::from(self.level.load(Ordering::Relaxed)).min(5)]
    }

    /// Changes the level for later updates.
    pub fn set_level(&self, level: StatsLevel) {
        self.level.store(level as u8, Ordering::Relaxed);
    }

    /// True if times are enabled.
    #[inline]
    #[must_use]
    pub fn wants_times(&self) -> bool {
        self.level.load(Ordering::Relaxed) > StatsLevel::ExceptTimers as u8
    }

    /// True if times of single blocks and the like are enabled.
    #[inline]
    #[must_use]
    pub fn wants_detailed_times(&self) -> bool {
        self.level() > StatsLevel::ExceptDetailedTimers
    }

    /// Adds the counts of an operation. `change` must not use statistics itself. Returns false if the level
    /// disables everything and `change` was not called.
    #[inline]
    pub fn update(&self, change: impl FnOnce(&Update<'_>)) -> bool {
        let level = self.level.load(Ordering::Relaxed);
        let counts = level > StatsLevel::DisableAll as u8;
        if counts {
            match thread_slots::current() {
                Some(slot) if self.inner.is_none() => change(&Update {
                    statistics: self,
                    shard: self.shards.of_slot(slot),
                    inner: None,
                    level,
                }),
                _ => self.update_in_shard(level, change),
            }
        }
        counts
    }

    /// [`Statistics::update`] for a thread without a slot, and of statistics that forward: in the shard of a core.
    #[inline(never)]
    fn update_in_shard(&self, level: u8, change: impl FnOnce(&Update<'_>)) {
        let mut change = Some(change);
        let mut change_once = |update: &Update<'_>| {
            if let Some(change) = change.take() {
                change(update);
            }
        };
        if self.inner.is_some() {
            return self.update_both(level, &mut change_once);
        }
        let held = self.shards.of_core(cores::current());
        change_once(&Update {
            statistics: self,
            shard: held.shard(),
            inner: None,
            level,
        });
    }

    /// [`Statistics::update`] of statistics that forward. `change` is called once. Not generic, because each member of a
    /// chain of statistics would need another instance of this function.
    #[cold]
    #[inline(never)]
    fn update_both(&self, level: u8, change: &mut dyn FnMut(&Update<'_>)) {
        let held = self.shards.of_core(cores::current());
        let mut update = |inner: Option<&Update<'_>>| {
            change(&Update {
                statistics: self,
                shard: held.shard(),
                inner,
                level,
            });
        };
        let counts = self.inner.as_ref().is_some_and(|inner| {
            inner.update(|inner| {
                let before = held.shard().counters();
                update(Some(inner));
                held.shard().forward(&before, inner.shard);
            })
        });
        if !counts {
            update(None);
        }
    }

    /// Adds to one ticker.
    #[inline]
    pub fn add(&self, ticker: Ticker, count: u64) {
        self.update(|update| update.add(ticker, count));
    }

    /// Adds a sample other than a time.
    pub fn record(&self, histogram: Histogram, value: u64) {
        self.update(|update| update.record(histogram, value));
    }

    /// Adds a sample of a time.
    pub fn time(&self, histogram: Histogram, duration: u64) {
        self.update(|update| update.time(histogram, duration));
    }

    /// The value of a ticker.
    #[must_use]
    pub fn ticker(&self, ticker: Ticker) -> u64 {
        self.shards.ticker(ticker)
    }

    /// The samples of a histogram.
    #[must_use]
    pub fn histogram(&self, histogram: Histogram) -> Distribution {
        self.shards.histogram(histogram)
    }

    /// The values of all tickers, by number.
    #[must_use]
    pub fn tickers(&self) -> Vec<u64> {
        self.shards.tickers()
    }

    /// Sets a ticker. Concurrent additions take effect before or after.
    pub fn set_ticker(&self, ticker: Ticker, count: u64) {
        self.shards.set_ticker(ticker, count);
        if let Some(inner) = &self.inner {
            inner.set_ticker(ticker, count);
        }
    }

    /// Resets a ticker and returns its value. Concurrent additions take effect before or after.
    pub fn take_ticker(&self, ticker: Ticker) -> u64 {
        let count = self.shards.set_ticker(ticker, 0);
        if let Some(inner) = &self.inner {
            inner.set_ticker(ticker, 0);
        }
        count
    }

    /// Resets all tickers and histograms. Concurrent additions and samples each take effect before or after.
    pub fn reset(&self) {
        self.shards.reset();
    }
}

/// RocksDB's format: a line for each ticker and each histogram.
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

/// The shard that a thread updates, while it adds the counts of an operation.
pub struct Update<'a> {
    statistics: &'a Statistics,
    /// A shard that no other thread updates at the same time.
    shard: &'a Shard,
    /// The update of the inner statistics, if they count. Samples are forwarded immediately, tickers when the update ends.
    inner: Option<&'a Update<'a>>,
    /// The number of the [`StatsLevel`].
    level: u8,
}

impl Update<'_> {
    /// Adds to a ticker.
    #[inline]
    pub fn add(&self, ticker: Ticker, count: u64) {
        self.shard.add(ticker, count);
    }

    /// Adds a get: the place where it ended, the length of its value, if any, and its counts in
    /// tables, which are reset.
    #[inline]
    pub fn get(&self, tables: Option<&TableCounts>, hit: Hit, value: Option<u64>) {
        if let Some(kind) = Kind::of(tables, hit, value.is_some()) {
            self.shard.add_get(kind);
            if let Some(tables) = tables {
                self.add(Ticker::BlockCacheBytesRead, tables.hit_bytes.get());
                tables.forget();
            }
        } else {
            self.other_get(tables, hit, value.is_some());
        }
        let bytes = value.unwrap_or(0);
        self.add(Ticker::BytesRead, bytes);
        self.record(Histogram::BytesPerRead, bytes);
    }

    /// Adds the counts of a get that has no kind.
    #[inline(never)]
    fn other_get(&self, tables: Option<&TableCounts>, hit: Hit, is_value: bool) {
        if let Some(tables) = tables {
            tables.bring_to(self);
        }
        self.hit(hit, is_value);
        self.add(Ticker::NumberKeysRead, 1);
    }

    /// Adds the place where a get ended.
    #[inline]
    pub fn hit(&self, hit: Hit, is_value: bool) {
        self.add(hit.of_memtables(), 1);
        if let Some(ticker) = hit.of_level().filter(|_| is_value) {
            self.add(ticker, 1);
        }
    }

    /// Adds a sample other than a time.
    #[inline]
    pub fn record(&self, histogram: Histogram, value: u64) {
        if self.level > StatsLevel::ExceptHistogramOrTimers as u8 {
            self.sample(histogram, value);
        }
    }

    /// Adds a sample of a time.
    #[inline]
    pub fn time(&self, histogram: Histogram, duration: u64) {
        let is_wanted = self.level > StatsLevel::ExceptTimers as u8;
        if is_wanted && self.statistics.ignored & (1 << histogram as u32) == 0 {
            self.sample(histogram, duration);
        }
    }

    /// Adds a sample. Statistics that forward have found that times are enabled, if it is one.
    #[inline]
    fn sample(&self, histogram: Histogram, value: u64) {
        if !self.shard.record(histogram, value) {
            self.statistics.shards.record_by_core(histogram, value);
        }
        if let Some(inner) = self.inner {
            inner.forwarded(histogram, value);
        }
    }

    /// Adds a sample that statistics forward to these.
    #[cold]
    #[inline(never)]
    fn forwarded(&self, histogram: Histogram, value: u64) {
        self.record(histogram, value);
    }
}
