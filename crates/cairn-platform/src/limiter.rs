//! How many bytes a second background work may move: a bucket of tokens that several databases
//! may share.
//!
//! The bucket is filled once per refill period, by who waits for it when the time has come, so no
//! thread of its own is needed. Tokens of a period that nobody asks for are not saved up: between
//! two moments there are never more refills than periods began, so bytes never exceed the rate
//! times the time by more than one refill (and what was left in the bucket). Requests that find
//! the bucket empty stand in a queue per priority. Who waits sleeps until the next refill is due
//! and holds no lock then; time comes from the caller's [`Clock`]. A request that need not wait
//! costs one lock.
//!
//! ```
//! use cairn_platform::limiter::{RateLimited, RateLimiter};
//!
//! // 64 MiB a second, refilled ten times a second; one refill in ten serves the lower
//! // priorities first. Only writes count.
//! let limiter = RateLimiter::new(64 << 20, 100_000, 10, RateLimited::WritesOnly, false);
//! assert_eq!(limiter.bytes_per_second(), 64 << 20);
//! assert_eq!(limiter.single_burst_bytes(), (64 << 20) / 10);
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::Clock;
use crate::sync::{AtomicU64, Mutex, Ordering};

/// Who asks, the least urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum IoPriority {
    /// Compactions.
    Low,
    /// Between the two.
    Mid,
    /// Flushes.
    High,
    /// What users wait for: always served first. Flushes and compactions have it while writes are
    /// slowed down.
    User,
}

/// All priorities, the least urgent first.
const PRIORITIES: usize = 4;

/// Whether bytes are read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoKind {
    /// They are read.
    Read,
    /// They are written.
    Write,
}

/// What counts against the limit (RocksDB's `RateLimiter::Mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RateLimited {
    /// Only what is read.
    ReadsOnly,
    /// Only what is written.
    #[default]
    WritesOnly,
    /// Both.
    AllIo,
}

/// A request that was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The bytes that may pass.
    pub bytes: u64,
    /// How long it waited, if it had to.
    pub waited_nanos: Option<u64>,
    /// How many times it was the first to find the bucket dry.
    pub drains: u64,
}

/// A request that the bucket could not serve at once.
struct Waiting {
    id: u64,
    bytes: u64,
    /// What it still lacks.
    left: u64,
}

struct State {
    /// Tokens in the bucket. None while anybody waits.
    available: u64,
    /// When the bucket may be filled next, in nanoseconds of the clock.
    next_refill: u64,
    queues: [VecDeque<Waiting>; PRIORITIES],
    next_id: u64,
    bytes_through: [u64; PRIORITIES],
    requests: [u64; PRIORITIES],
    /// Refills that somebody had to wait for, since the rate was last tuned.
    drains: u64,
    /// The refill that was counted there last.
    drained_for: Option<u64>,
    /// When the rate was last tuned.
    tuned_at: Option<u64>,
    /// Decides who is served first; nothing secret depends on it.
    dice: u64,
}

/// A limit of bytes per second. Share it by `Arc` between the databases that are to keep it.
///
/// It holds for the tables and blob files that flushes and compactions write, and, where its mode
/// says so, for what compactions read. Write-ahead logs and reads of users are not limited.
pub struct RateLimiter {
    mode: RateLimited,
    auto_tuned: bool,
    /// The rate that was asked for; a tuned one does not exceed it.
    max_rate: u64,
    refill_period_us: u64,
    fairness: u64,
    rate: AtomicU64,
    /// Bytes that pass at once; 0 for a refill.
    burst: AtomicU64,
    state: Mutex<State>,
}

/// Refill periods after which a rate is tuned.
const PERIODS_PER_TUNE: u64 = 100;
/// A tuned rate does not fall below this part of the one asked for.
const ALLOWED_RANGE: u64 = 20;

impl RateLimiter {
    /// A limit of `bytes_per_sec` bytes a second, refilled every `refill_period_us` microseconds
    /// (RocksDB's default is 100 000): a longer period makes larger bursts, a shorter one costs
    /// more. One refill in `fairness` (10 by default, 100 at most) serves lower priorities before
    /// higher ones, so that they do not starve. `mode` says what counts.
    ///
    /// With `auto_tuned` the rate begins at half of `bytes_per_sec` and follows the demand between
    /// a twentieth of it and the whole.
    ///
    /// Numbers of 0 count as 1.
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

    /// A limit of written bytes with RocksDB's defaults for everything else.
    #[must_use]
    pub fn of_writes(bytes_per_sec: u64) -> RateLimiter {
        RateLimiter::new(bytes_per_sec, 100_000, 10, RateLimited::WritesOnly, false)
    }

    /// Changes the rate; requests that wait get the new one from the next refill on.
    pub fn set_bytes_per_second(&self, bytes_per_sec: u64) {
        self.rate.store(bytes_per_sec.max(1), Ordering::Relaxed);
    }

    /// The rate of now.
    #[must_use]
    pub fn bytes_per_second(&self) -> u64 {
        self.rate.load(Ordering::Relaxed)
    }

    /// Changes how many bytes pass at once; 0 for those of one refill.
    pub fn set_single_burst_bytes(&self, bytes: u64) {
        self.burst.store(bytes, Ordering::Relaxed);
    }

    /// How many bytes pass at once; what is larger is cut into pieces.
    #[must_use]
    pub fn single_burst_bytes(&self) -> u64 {
        match self.burst.load(Ordering::Relaxed) {
            0 => self.refill_bytes(),
            bytes => bytes,
        }
    }

    /// Bytes that passed with `priority`, or with any.
    #[must_use]
    pub fn total_bytes_through(&self, priority: Option<IoPriority>) -> u64 {
        total(&self.state.lock().bytes_through, priority)
    }

    /// Requests that were made with `priority`, or with any.
    #[must_use]
    pub fn total_requests(&self, priority: Option<IoPriority>) -> u64 {
        total(&self.state.lock().requests, priority)
    }

    /// Requests of `priority`, or of any, that wait now.
    #[must_use]
    pub fn total_pending_requests(&self, priority: Option<IoPriority>) -> u64 {
        let state = self.state.lock();
        let waiting: [u64; PRIORITIES] =
            std::array::from_fn(|index| state.queues[index].len() as u64);
        total(&waiting, priority)
    }

    /// True if this kind counts against the limit.
    #[must_use]
    pub fn limits(&self, kind: IoKind) -> bool {
        match self.mode {
            RateLimited::ReadsOnly => kind == IoKind::Read,
            RateLimited::WritesOnly => kind == IoKind::Write,
            RateLimited::AllIo => true,
        }
    }

    /// Waits until `bytes` may pass, piece by piece where they are more than one burst.
    pub fn request(&self, clock: &dyn Clock, bytes: u64, priority: IoPriority, kind: IoKind) {
        let mut left = bytes;
        while left > 0 {
            left -= self.request_token(clock, left, priority, kind);
        }
    }

    /// Waits until some of `bytes`, one burst at most, may pass, and returns how many.
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

    /// Waits until some of `bytes`, one burst at most, may pass. They count against the limit.
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

    /// Takes `bytes` from the bucket. Where that does not hold them, what is lacking stands in a
    /// queue under the number that is returned.
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

    /// How long the request `id` has to wait before it looks again, and whether it is the first that
    /// waits for the next refill; `None` once it was served.
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

    /// Fills the bucket and serves who waits.
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

    /// In which order the queues are served this time: users first, and then mostly, but not
    /// always, the more urgent ones.
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

    /// True once in `fairness` calls, about.
    fn one_in_fairness(&self, state: &mut State) -> bool {
        state.dice ^= state.dice << 13;
        state.dice ^= state.dice >> 7;
        state.dice ^= state.dice << 17;
        state.dice.is_multiple_of(self.fairness)
    }

    /// Now and then, adapts the rate to the demand: lower where the bucket seldom ran dry, higher
    /// where it mostly did.
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

    /// The bytes of one refill; at least one, so that everybody is served some day.
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
#[path = "limiter_tests.rs"]
mod tests;
