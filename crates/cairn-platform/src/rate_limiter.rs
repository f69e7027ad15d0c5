//! The rate limiter of background I/O: a token bucket that several databases may share.
//!
//! The bucket is refilled once per period by a waiting thread, so that no dedicated thread is needed. Unused
//! tokens do not accumulate: there are never more refills than periods, so the bytes admitted in any interval
//! exceed the rate by at most one refill (and the content of the bucket). Requests that find the bucket empty
//! are queued by priority. A waiting thread sleeps until the next refill without holding a lock, using the
//! caller's [`Clock`]. A request that is admitted immediately costs one lock.
//!
//! ```
//! use cairn_platform::rate_limiter::{RateLimited, RateLimiter};
//!
//! // 64 MiB per second in ten refills; one refill in ten serves lower priorities first.
//! // Only writes are limited.
//! let limiter = RateLimiter::new(64 << 20, 100_000, 10, RateLimited::WritesOnly, false);
//! assert_eq!(limiter.bytes_per_second(), 64 << 20);
//! assert_eq!(limiter.single_burst_bytes(), (64 << 20) / 10);
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::Clock;
use crate::sync::{AtomicU64, Mutex, Ordering};

/// The priority of a request, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum IoPriority {
    /// Compactions.
    Low,
    /// Between compactions and flushes.
    Mid,
    /// Flushes.
    High,
    /// User operations, always served first. Flushes and compactions have this priority while writes are
    /// stalled.
    User,
}

/// The number of priorities.
const PRIORITIES: usize = 4;

/// The direction of I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoKind {
    /// A read.
    Read,
    /// A write.
    Write,
}

/// The kinds of I/O that are limited (RocksDB's `RateLimiter::Mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RateLimited {
    /// Reads only.
    ReadsOnly,
    /// Writes only.
    #[default]
    WritesOnly,
    /// Reads and writes.
    AllIo,
}

/// An admitted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The number of bytes admitted.
    pub bytes: u64,
    /// The waiting time, if it had to wait.
    pub waited_nanos: Option<u64>,
    /// The number of times it was the first to find the bucket empty.
    pub drains: u64,
}

/// A queued request.
struct Waiting {
    id: u64,
    bytes: u64,
    /// The number of bytes still needed.
    left: u64,
}

struct State {
    /// Tokens in the bucket. 0 while a request is queued.
    available: u64,
    /// The time of the next refill, in nanoseconds of the clock.
    next_refill: u64,
    queues: [VecDeque<Waiting>; PRIORITIES],
    next_id: u64,
    bytes_through: [u64; PRIORITIES],
    requests: [u64; PRIORITIES],
    /// Refills that a request waited for, since the rate was last tuned.
    drains: u64,
    /// The refill that was last counted in `drains`.
    drained_for: Option<u64>,
    /// The time when the rate was last tuned.
    tuned_at: Option<u64>,
    /// The state of the random numbers that decide the service order.
    dice: u64,
}

/// A limit in bytes per second, shared by `Arc` between databases.
///
/// The limit applies to tables and blob files written by flushes and compactions, and depending on its mode to reads
/// by compactions. Writes to the WAL and user reads are not limited.
pub struct RateLimiter {
    mode: RateLimited,
    auto_tuned: bool,
    /// The configured rate, which a tuned rate does not exceed.
    max_rate: u64,
    refill_period_us: u64,
    fairness: u64,
    rate: AtomicU64,
    /// The maximum number of bytes admitted at once; 0 for one refill.
    burst: AtomicU64,
    state: Mutex<State>,
}

/// The number of refill periods between tunings.
const PERIODS_PER_TUNE: u64 = 100;
/// The divisor of the configured rate that gives the minimum tuned rate.
const ALLOWED_RANGE: u64 = 20;

impl RateLimiter {
    /// Creates a limiter of `bytes_per_sec` bytes per second, refilled every `refill_period_us` microseconds
    /// (RocksDB's default is 100 000). A longer period allows larger bursts, a shorter one costs more. One
    /// refill in `fairness` (RocksDB's default is 10, the maximum 100) serves lower priorities before higher
    /// ones, to avoid starvation. `mode` selects the kinds of I/O that are limited.
    ///
    /// With `auto_tuned` the rate starts at half of `bytes_per_sec` and follows the demand, between a
    /// twentieth of it and the full rate.
    ///
    /// Values of 0 are treated as 1.
    #[must_use]
    pub fn new(
        bytes_per_sec: u64,
        refill_period_us: u64,
        fairness: u32,
        mode: RateLimited,
        auto_tuned: bool,
    ) -> RateLimiter {
        let max_rate = bytes_per_sec.max(1);
        let rate = match auto_tuned {
            true => (max_rate / 2).max(1),
            false => max_rate,
        };
        RateLimiter {
            mode,
            auto_tuned,
            max_rate,
            refill_period_us: refill_period_us.max(1),
            fairness: u64::from(fairness.clamp(1, 100)),
            rate: AtomicU64::new(rate),
            burst: AtomicU64::new(0),
            state: Mutex::new(State {
                available: 0,
                next_refill: 0,
                queues: Default::default(),
                next_id: 0,
                bytes_through: [0; PRIORITIES],
                requests: [0; PRIORITIES],
                drains: 0,
                drained_for: None,
                tuned_at: None,
                dice: 0x9e37_79b9_7f4a_7c15,
            }),
        }
    }

    /// Creates a limiter of writes with RocksDB's defaults.
    #[must_use]
    pub fn of_writes(bytes_per_sec: u64) -> RateLimiter {
        RateLimiter::new(bytes_per_sec, 100_000, 10, RateLimited::WritesOnly, false)
    }

    /// Changes the rate, effective for queued requests from the next refill.
    pub fn set_bytes_per_second(&self, bytes_per_sec: u64) {
        self.rate.store(bytes_per_sec.max(1), Ordering::Relaxed);
    }

    /// The current rate.
    #[must_use]
    pub fn bytes_per_second(&self) -> u64 {
        self.rate.load(Ordering::Relaxed)
    }

    /// Changes the maximum number of bytes admitted at once; 0 for one refill.
    pub fn set_single_burst_bytes(&self, bytes: u64) {
        self.burst.store(bytes, Ordering::Relaxed);
    }

    /// The maximum number of bytes admitted at once. Larger requests are split.
    #[must_use]
    pub fn single_burst_bytes(&self) -> u64 {
        match self.burst.load(Ordering::Relaxed) {
            0 => self.refill_bytes(),
            bytes => bytes,
        }
    }

    /// The total number of bytes admitted with `priority`, or with any.
    #[must_use]
    pub fn total_bytes_through(&self, priority: Option<IoPriority>) -> u64 {
        total(&self.state.lock().bytes_through, priority)
    }

    /// The total number of requests with `priority`, or with any.
    #[must_use]
    pub fn total_requests(&self, priority: Option<IoPriority>) -> u64 {
        total(&self.state.lock().requests, priority)
    }

    /// The number of queued requests with `priority`, or with any.
    #[must_use]
    pub fn total_pending_requests(&self, priority: Option<IoPriority>) -> u64 {
        let state = self.state.lock();
        let waiting: [u64; PRIORITIES] =
            std::array::from_fn(|index| state.queues[index].len() as u64);
        total(&waiting, priority)
    }

    /// True if I/O of this kind is limited.
    #[must_use]
    pub fn limits(&self, kind: IoKind) -> bool {
        match self.mode {
            RateLimited::ReadsOnly => kind == IoKind::Read,
            RateLimited::WritesOnly => kind == IoKind::Write,
            RateLimited::AllIo => true,
        }
    }

    /// Waits until `bytes` are admitted, in pieces of at most one burst.
    pub fn request(&self, clock: &dyn Clock, bytes: u64, priority: IoPriority, kind: IoKind) {
        let mut left = bytes;
        while left > 0 {
            left -= self.request_token(clock, left, priority, kind);
        }
    }

    /// Waits until some of `bytes`, at most one burst, are admitted, and returns their number.
    pub fn request_token(
        &self,
        clock: &dyn Clock,
        bytes: u64,
        priority: IoPriority,
        kind: IoKind,
    ) -> u64 {
        if bytes == 0 || !self.limits(kind) {
            return bytes;
        }
        self.pass(clock, bytes, priority).bytes
    }

    /// Waits until some of `bytes`, at most one burst, are admitted. Does not consider the mode.
    pub(crate) fn pass(&self, clock: &dyn Clock, bytes: u64, priority: IoPriority) -> Passed {
        let bytes = bytes.min(self.single_burst_bytes());
        let mut passed = Passed {
            bytes,
            waited_nanos: None,
            drains: 0,
        };
        let Some(id) = self.ask(clock.monotonic_nanos(), bytes, priority) else {
            return passed;
        };
        let mut began = None;
        loop {
            let now = clock.monotonic_nanos();
            let waiting = self.wait_for(id, priority, now);
            passed.waited_nanos = began.map(|began| now.saturating_sub(began));
            let Some((wait, drained)) = waiting else {
                return passed;
            };
            began.get_or_insert(now);
            passed.drains += u64::from(drained);
            clock.sleep(wait);
        }
    }

    /// Takes `bytes` from the bucket. If there are not enough, queues a request for the remainder and returns
    /// its id.
    fn ask(&self, now: u64, bytes: u64, priority: IoPriority) -> Option<u64> {
        let queue = priority as usize;
        let mut state = self.state.lock();
        self.tune(&mut state, now);
        state.requests[queue] += 1;
        let taken = state.available.min(bytes);
        state.available -= taken;
        if taken == bytes {
            state.bytes_through[queue] += bytes;
            return None;
        }
        let id = state.next_id;
        state.next_id += 1;
        state.queues[queue].push_back(Waiting {
            id,
            bytes,
            left: bytes - taken,
        });
        Some(id)
    }

    /// The time that request `id` has to wait before it checks again, and whether it is the first that waits
    /// for the next refill. `None` once it was admitted.
    fn wait_for(&self, id: u64, priority: IoPriority, now: u64) -> Option<(Duration, bool)> {
        let mut state = self.state.lock();
        let waits = |state: &State| state.queues[priority as usize].iter().any(|w| w.id == id);
        if waits(&state) && now >= state.next_refill {
            self.refill(&mut state, now);
        }
        if !waits(&state) {
            return None;
        }
        let drained = state.drained_for != Some(state.next_refill);
        if drained {
            state.drained_for = Some(state.next_refill);
            state.drains += 1;
        }
        let wait = Duration::from_nanos(state.next_refill.saturating_sub(now));
        Some((wait, drained))
    }

    /// Refills the bucket and serves queued requests.
    fn refill(&self, state: &mut State, now: u64) {
        state.next_refill = now.saturating_add(self.period_nanos());
        state.available = self.refill_bytes();
        for priority in self.turns(state) {
            let queue = priority as usize;
            while let Some(first) = state.queues[queue].front_mut() {
                let given = first.left.min(state.available);
                first.left -= given;
                state.available -= given;
                if first.left > 0 {
                    return;
                }
                state.bytes_through[queue] += first.bytes;
                state.queues[queue].pop_front();
            }
        }
    }

    /// The order in which the queues are served: user requests first, then usually by descending priority.
    fn turns(&self, state: &mut State) -> [IoPriority; PRIORITIES] {
        use IoPriority::{High, Low, Mid, User};
        let high_last = self.one_in_fairness(state);
        let (second, third) = match self.one_in_fairness(state) {
            true => (Low, Mid),
            false => (Mid, Low),
        };
        match high_last {
            true => [User, second, third, High],
            false => [User, High, second, third],
        }
    }

    /// True with a probability of about one in `fairness`.
    fn one_in_fairness(&self, state: &mut State) -> bool {
        state.dice ^= state.dice << 13;
        state.dice ^= state.dice >> 7;
        state.dice ^= state.dice << 17;
        state.dice.is_multiple_of(self.fairness)
    }

    /// Periodically adapts the rate to the demand: it is lowered if the bucket was rarely empty, and raised
    /// if it mostly was.
    fn tune(&self, state: &mut State, now: u64) {
        if !self.auto_tuned {
            return;
        }
        let period = self.period_nanos();
        let since = now.saturating_sub(*state.tuned_at.get_or_insert(now));
        if since < period.saturating_mul(PERIODS_PER_TUNE) {
            return;
        }
        state.tuned_at = Some(now);
        let drained_percent = state.drains.saturating_mul(100) / since.div_ceil(period);
        state.drains = 0;
        let rate = self.bytes_per_second();
        let least = self.max_rate / ALLOWED_RANGE;
        let scaled =
            |by: u64, of: u64| saturated(u128::from(rate) * u128::from(by) / u128::from(of));
        self.set_bytes_per_second(match drained_percent {
            0 => least,
            1..50 => scaled(100, 105).max(least),
            91.. => scaled(105, 100).min(self.max_rate),
            _ => rate,
        });
    }

    fn period_nanos(&self) -> u64 {
        self.refill_period_us.saturating_mul(1000)
    }

    /// The number of bytes of one refill, at least 1 to guarantee progress.
    fn refill_bytes(&self) -> u64 {
        let bytes = u128::from(self.bytes_per_second()) * u128::from(self.refill_period_us);
        saturated(bytes / 1_000_000).max(1)
    }
}

fn saturated(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn total(counts: &[u64; PRIORITIES], priority: Option<IoPriority>) -> u64 {
    match priority {
        Some(priority) => counts[priority as usize],
        None => counts.iter().sum(),
    }
}

impl std::fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RateLimiter")
            .field("bytes_per_second", &self.bytes_per_second())
            .field("refill_period_us", &self.refill_period_us)
            .field("fairness", &self.fairness)
            .field("mode", &self.mode)
            .field("auto_tuned", &self.auto_tuned)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "rate_limiter_tests.rs"]
mod tests;
