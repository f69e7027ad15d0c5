//! Slowing down writes while flushes and compactions are behind.
//!
//! [`condition`] is a pure function from the state of a family to its stall condition; [`Throttle`] spreads
//! delayed writes over time. The conditions are RocksDB's.

use std::time::Duration;

use cairn_options::{DbOptions, FamilyOptions};
use cairn_platform::sync::Mutex;

/// The cause of a write stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Too many memtables are waiting to be flushed.
    Memtables,
    /// Too many files in level 0.
    LevelZero,
    /// Too many bytes are waiting to be compacted.
    PendingBytes,
}

/// The stall condition of a family, in order of severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Writes are not delayed.
    Normal,
    /// Writes are limited to the delayed rate.
    Delayed(Cause),
    /// Writes wait until a job has made room.
    Stopped(Cause),
}

impl Condition {
    /// Returns the more severe of the two.
    pub(crate) fn worse(self, other: Condition) -> Condition {
        let weight = |condition| match condition {
            Condition::Normal => 0,
            Condition::Delayed(_) => 1,
            Condition::Stopped(_) => 2,
        };
        if weight(other) > weight(self) {
            other
        } else {
            self
        }
    }
}

/// The load that the condition of a family depends on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    /// Memtables waiting to be flushed, excluding the active one.
    pub(crate) immutables: usize,
    /// Files in level 0.
    pub(crate) level_zero_files: usize,
    /// Bytes to be compacted until all levels are within their targets.
    pub(crate) pending_bytes: u64,
}

/// Returns the stall condition of a family with this load.
pub(crate) fn condition(load: Load, options: &FamilyOptions) -> Condition {
    let at_least = |files: usize, trigger: i32| {
        trigger >= 0 && files >= usize::try_from(trigger).unwrap_or(usize::MAX)
    };
    let memtables = usize::try_from(options.max_write_buffer_number)
        .unwrap_or(2)
        .max(1);
    let to_merge = options.memtables_to_merge() as usize;
    let compacts = !options.disable_auto_compactions;
    let over = |limit: u64| compacts && limit > 0 && load.pending_bytes >= limit;
    let limits = options.write_limits();

    if load.immutables >= memtables {
        Condition::Stopped(Cause::Memtables)
    } else if compacts && at_least(load.level_zero_files, limits.stop_files) {
        Condition::Stopped(Cause::LevelZero)
    } else if over(limits.hard_bytes) {
        Condition::Stopped(Cause::PendingBytes)
    } else if memtables > 3 && load.immutables >= memtables - 1 && load.immutables > to_merge {
        Condition::Delayed(Cause::Memtables)
    } else if compacts && at_least(load.level_zero_files, limits.slowdown_files) {
        Condition::Delayed(Cause::LevelZero)
    } else if over(limits.soft_bytes) {
        Condition::Delayed(Cause::PendingBytes)
    } else {
        Condition::Normal
    }
}

/// Returns the position of a family with this load between the trigger of delays and that of stops: 0 to 1.
pub(crate) fn pressure(load: Load, options: &FamilyOptions) -> f64 {
    let share = |value: f64, from: f64, to: f64| match to > from {
        true => ((value - from) / (to - from)).clamp(0.0, 1.0),
        false => 0.0,
    };
    let memtables = f64::from(options.max_write_buffer_number);
    let waiting = match options.max_write_buffer_number > 3 {
        true => share(load.immutables as f64, memtables - 2.0, memtables),
        false => 0.0,
    };
    let limits = options.write_limits();
    if options.disable_auto_compactions || limits.slowdown_files < 0 {
        return waiting;
    }
    let files = share(
        load.level_zero_files as f64,
        f64::from(limits.slowdown_files),
        f64::from(limits.stop_files),
    );
    let bytes = share(
        load.pending_bytes as f64,
        limits.soft_bytes as f64,
        limits.hard_bytes as f64,
    );
    let most = waiting.max(files).max(bytes);
    debug_assert!((0.0..=1.0).contains(&most), "a pressure of {most}");
    most
}

/// True if compactions of a family with this load should be sped up: well before its writes are slowed down.
pub(crate) fn is_behind(load: Load, options: &FamilyOptions) -> bool {
    if options.disable_auto_compactions {
        return false;
    }
    let trigger = i64::from(options.level0_file_num_compaction_trigger);
    let limits = options.write_limits();
    let slowdown = i64::from(limits.slowdown_files);
    let files = match slowdown >= trigger {
        true => (2 * trigger).min(trigger + (slowdown - trigger) / 4),
        false => 2 * trigger,
    };
    let soft = limits.soft_bytes;
    // With a negative trigger, no compaction reduces the number of files.
    let many_files =
        trigger >= 0 && i64::try_from(load.level_zero_files).unwrap_or(i64::MAX) >= files.max(1);
    many_files || (soft > 0 && load.pending_bytes >= soft / 4)
}

/// Returns the bytes per second shared by all low-priority writes while compactions are behind: an eighth of
/// the delayed rate, at most 2 MiB.
pub(crate) fn low_pri_rate(options: &DbOptions) -> u64 {
    let full = match options.delayed_write_rate {
        0 => DEFAULT_RATE,
        rate => rate,
    };
    (full / 8).clamp(1, 2 << 20)
}

/// The rate of delayed writes.
///
/// The rate depends on the distance from the stop trigger (see [`pressure`]), between the configured rate and
/// a 64th of it.
pub(crate) struct Throttle {
    state: Mutex<ThrottleState>,
}

struct ThrottleState {
    /// The configured rate.
    max_rate: u64,
    /// The current rate in bytes per second.
    rate: u64,
    /// The time at which the next delayed write may proceed, in nanoseconds of the monotonic clock.
    next_nanos: u64,
}

/// Returns the rate in bytes per second that `delayed_write_rate` specifies.
fn configured(delayed_write_rate: u64) -> u64 {
    match delayed_write_rate {
        0 => DEFAULT_RATE,
        rate => rate,
    }
}

const MIN_RATE: u64 = 16 << 10;
const DEFAULT_RATE: u64 = 16 << 20;

impl Throttle {
    /// Creates a throttle of `delayed_write_rate` bytes per second; 0 is 16 MiB/s.
    pub(crate) fn new(delayed_write_rate: u64) -> Throttle {
        let max_rate = configured(delayed_write_rate);
        let state = ThrottleState {
            max_rate,
            rate: max_rate,
            next_nanos: 0,
        };
        Throttle {
            state: Mutex::new(state),
        }
    }

    /// Changes the configured rate.
    pub(crate) fn set_max_rate(&self, delayed_write_rate: u64) {
        let mut state = self.state.lock();
        let max_rate = configured(delayed_write_rate);
        state.rate = if state.rate == state.max_rate {
            max_rate
        } else {
            state.rate.min(max_rate)
        };
        state.max_rate = max_rate;
    }

    /// Sets the rate for a debt at `pressure` between the triggers of delays and stops: the full rate at 0,
    /// falling progressively towards the stop.
    pub(crate) fn press(&self, pressure: f64) {
        let mut state = self.state.lock();
        let left = 1.0 - pressure.clamp(0.0, 1.0);
        // A rate in bytes per second: the loss of precision is irrelevant.
        let rate = (state.max_rate as f64 * left * left) as u64;
        let least = (state.max_rate / 64).max(MIN_RATE).min(state.max_rate);
        debug_assert!(
            0 < least && least <= state.max_rate,
            "delayed writes proceed at no more than the configured rate"
        );
        state.rate = rate.clamp(least, state.max_rate);
    }

    /// Ends the delays, and cancels the outstanding waits.
    pub(crate) fn reset(&self) {
        let mut state = self.state.lock();
        state.rate = state.max_rate;
        state.next_nanos = 0;
    }

    /// Returns the wait of a write of `bytes` that arrives at `now_nanos`.
    pub(crate) fn delay(&self, bytes: usize, now_nanos: u64) -> Duration {
        let mut state = self.state.lock();
        let start = state.next_nanos.max(now_nanos);
        debug_assert!(
            state.rate <= state.max_rate,
            "delayed writes proceed at no more than the configured rate"
        );
        let cost = (bytes as u64).saturating_mul(1_000_000_000) / state.rate.max(1);
        state.next_nanos = start.saturating_add(cost);
        Duration::from_nanos(start - now_nanos)
    }

    /// Returns the current rate in bytes per second.
    pub(crate) fn rate(&self) -> u64 {
        self.state.lock().rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_follow_the_triggers_in_order_of_severity() {
        let options = FamilyOptions::default();
        let with = |immutables, level_zero_files, pending_bytes| {
            condition(
                Load {
                    immutables,
                    level_zero_files,
                    pending_bytes,
                },
                &options,
            )
        };
        assert_eq!(with(0, 19, 0), Condition::Normal);
        assert_eq!(with(0, 20, 0), Condition::Delayed(Cause::LevelZero));
        assert_eq!(with(0, 36, 0), Condition::Stopped(Cause::LevelZero));
        assert_eq!(with(2, 36, 0), Condition::Stopped(Cause::Memtables));
        assert_eq!(
            with(0, 0, 64 << 30),
            Condition::Delayed(Cause::PendingBytes)
        );
        assert_eq!(
            with(0, 20, 256 << 30),
            Condition::Stopped(Cause::PendingBytes)
        );
    }

    #[test]
    fn without_automatic_compaction_its_debt_causes_no_stall() {
        let options = FamilyOptions {
            disable_auto_compactions: true,
            ..Default::default()
        };
        let load = Load {
            immutables: 0,
            level_zero_files: 100,
            pending_bytes: 1 << 50,
        };
        assert_eq!(condition(load, &options), Condition::Normal);
    }

    /// The load of compactions that are due.
    fn due(level_zero_files: usize, pending_bytes: u64) -> Load {
        Load {
            level_zero_files,
            pending_bytes,
            ..Load::default()
        }
    }

    #[test]
    fn compactions_count_as_behind_well_before_writes_slow_down() {
        let options = FamilyOptions::default();
        assert!(!is_behind(due(7, 0), &options) && is_behind(due(8, 0), &options));
        assert!(!is_behind(due(0, 1 << 30), &options) && is_behind(due(0, 16 << 30), &options));
        assert_eq!(low_pri_rate(&DbOptions::default()), 2 << 20);
    }

    #[test]
    fn files_do_not_count_with_a_negative_trigger() {
        let options = FamilyOptions {
            level0_file_num_compaction_trigger: -1,
            ..FamilyOptions::default()
        };
        assert!(!is_behind(due(1000, 0), &options) && is_behind(due(0, 16 << 30), &options));
    }

    #[test]
    fn pressure_rises_smoothly_from_the_slow_down_to_the_stop() {
        let options = FamilyOptions::default();
        let with = |level_zero_files| {
            let load = Load {
                level_zero_files,
                ..Load::default()
            };
            pressure(load, &options)
        };
        let rising: Vec<f64> = (18..40).map(with).collect();
        assert!(rising.is_sorted() && rising[0] == 0.0 && rising[21] == 1.0);
        assert!(rising.windows(2).all(|pair| pair[1] - pair[0] < 0.07));
    }

    #[test]
    fn delayed_writes_pass_at_the_rate() {
        let throttle = Throttle::new(1_000_000);
        assert_eq!(throttle.delay(1_000, 0), Duration::ZERO);
        assert_eq!(throttle.delay(1_000, 0), Duration::from_millis(1));
        assert_eq!(throttle.delay(1_000, 5_000_000), Duration::ZERO);
        throttle.press(0.5);
        assert_eq!(throttle.rate(), 250_000);
        throttle.press(0.0);
        assert_eq!(throttle.rate(), 1_000_000);
        throttle.press(1.0);
        assert_eq!(throttle.rate(), 16 << 10);
        throttle.delay(16 << 20, 5_000_000);
        assert!(throttle.delay(1, 5_000_000) > Duration::from_secs(1000));
        throttle.reset();
        assert_eq!(throttle.delay(1, 5_000_000), Duration::ZERO);
    }
}
