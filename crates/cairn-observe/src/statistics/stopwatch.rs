//! Timers for statistics, which read the clock only if times are enabled.

use std::fmt;
use std::sync::Arc;

use cairn_platform::Clock;
use cairn_platform::rate_limiter::Passed;
use cairn_platform::{IoKind, LimitWatch};

use super::{Histogram, Statistics, Ticker, Update};

/// The start of a measurement, if times are enabled.
#[derive(Clone, Copy, Debug)]
pub struct Began(Option<u64>);

impl Began {
    /// The measurement as a number, for [`Began::from_note`].
    pub(crate) fn to_note(self) -> u64 {
        self.0.unwrap_or(u64::MAX)
    }

    /// The measurement of [`Began::to_note`].
    pub(crate) fn from_note(note: u64) -> Began {
        Began((note != u64::MAX).then_some(note))
    }

    /// Starts a measurement, if `statistics` include times.
    #[inline]
    #[must_use]
    pub fn now(statistics: Option<&Statistics>, clock: &dyn Clock) -> Began {
        let wanted = statistics.is_some_and(Statistics::wants_times);
        Began(wanted.then(|| clock.monotonic_nanos()))
    }

    /// Starts a measurement, if `statistics` include times of single blocks and the like.
    #[must_use]
    pub fn detail(statistics: Option<&Statistics>, clock: &dyn Clock) -> Began {
        let wanted = statistics.is_some_and(Statistics::wants_detailed_times);
        Began(wanted.then(|| clock.monotonic_nanos()))
    }

    /// The elapsed nanoseconds.
    #[inline]
    #[must_use]
    pub fn nanos(self, clock: &dyn Clock) -> Option<u64> {
        let began = self.0?;
        Some(clock.monotonic_nanos().saturating_sub(began))
    }

    /// The elapsed microseconds.
    #[inline]
    #[must_use]
    pub fn micros(self, clock: &dyn Clock) -> Option<u64> {
        Some(self.nanos(clock)? / 1_000)
    }
}

/// Statistics, if enabled, and the clock for their times. For components that record statistics
/// outside of user operations.
///
/// ```
/// use std::sync::Arc;
///
/// use cairn_observe::statistics::{Histogram, Meter, Statistics, StatsLevel, Ticker};
/// use cairn_platform::World;
///
/// let statistics = Arc::new(Statistics::new(StatsLevel::All));
/// let meter = Meter::new(Some(statistics.clone()), World::in_memory().clock);
/// let began = meter.began();
/// meter.add(Ticker::NoFileOpens, 1);
/// meter.time_since(began, Histogram::TableOpenIoMicros);
/// assert_eq!(statistics.ticker(Ticker::NoFileOpens), 1);
/// assert_eq!(statistics.histogram(Histogram::TableOpenIoMicros).count, 1);
/// ```
#[derive(Clone, Default)]
pub struct Meter(Option<(Arc<Statistics>, Arc<dyn Clock>)>);

impl Meter {
    /// Creates a meter that records in `statistics`, if there are any.
    #[must_use]
    pub fn new(statistics: Option<Arc<Statistics>>, clock: Arc<dyn Clock>) -> Meter {
        Meter(statistics.map(|statistics| (statistics, clock)))
    }

    /// The statistics.
    #[must_use]
    pub fn statistics(&self) -> Option<&Arc<Statistics>> {
        self.0.as_ref().map(|(statistics, _)| statistics)
    }

    /// True if times are measured.
    #[must_use]
    pub fn wants_times(&self) -> bool {
        self.statistics().is_some_and(|s| s.wants_times())
    }

    /// Adds counts, if statistics are enabled.
    #[inline]
    pub fn update(&self, change: impl FnOnce(&Update<'_>)) {
        if let Some((statistics, _)) = &self.0 {
            statistics.update(change);
        }
    }

    /// Adds to one ticker.
    pub fn add(&self, ticker: Ticker, count: u64) {
        self.update(|update| update.add(ticker, count));
    }

    /// Starts a measurement, if times are enabled.
    #[must_use]
    pub fn began(&self) -> Began {
        match &self.0 {
            Some((statistics, clock)) => Began::now(Some(statistics), &**clock),
            None => Began(None),
        }
    }

    /// Starts a measurement of a single block or the like, if such times are enabled.
    #[must_use]
    pub fn began_detail(&self) -> Began {
        match &self.0 {
            Some((statistics, clock)) => Began::detail(Some(statistics), &**clock),
            None => Began(None),
        }
    }

    /// The elapsed nanoseconds, if measured.
    #[must_use]
    pub fn nanos_since(&self, began: Began) -> Option<u64> {
        self.0.as_ref().and_then(|(_, clock)| began.nanos(&**clock))
    }

    /// Ends a measurement and records it in microseconds.
    pub fn time_since(&self, began: Began, histogram: Histogram) {
        if let Some(nanos) = self.nanos_since(began) {
            self.update(|update| update.time(histogram, nanos / 1_000));
        }
    }
}

impl LimitWatch for Meter {
    fn passed(&self, kind: IoKind, passed: Passed) {
        use Ticker as T;
        let (bytes, requests, delayed, total_wait, wait) = match kind {
            IoKind::Read => (
                T::RateLimiterBytesRead,
                T::RateLimiterRequestsRead,
                T::RateLimiterDelayedRequestsRead,
                T::RateLimiterTotalWaitMicrosRead,
                Histogram::RateLimiterWaitMicrosRead,
            ),
            IoKind::Write => (
                T::RateLimiterBytesWrite,
                T::RateLimiterRequestsWrite,
                T::RateLimiterDelayedRequestsWrite,
                T::RateLimiterTotalWaitMicrosWrite,
                Histogram::RateLimiterWaitMicrosWrite,
            ),
        };
        self.update(|update| {
            update.add(bytes, passed.bytes);
            update.add(requests, 1);
            update.add(T::NumberRateLimiterDrains, passed.drains);
            if let Some(nanos) = passed.waited_nanos {
                update.add(delayed, 1);
                update.add(total_wait, nanos / 1_000);
                update.time(wait, nanos / 1_000);
            }
        });
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Meter").field(&self.statistics()).finish()
    }
}
