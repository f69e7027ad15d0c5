//! Periodic tasks: statistics to the info log and to their history, checks for compactions that become due through time
//! or reads alone, and samples of the sequence number.
//!
//! Each task is a chain of jobs of the executor, each of which schedules the next. A change of the period
//! begins a new chain; a job of an older one detects that when it runs, and ends. These jobs are excluded
//! from all waits, so that a simulated clock need not advance for them.
//!
//! This module has the current chains and the history. `periodic.rs` runs the tasks.

use std::sync::Arc;

use cairn_observe::statistics::history::{History, Slice};
use cairn_platform::sync::{AtomicU64, Mutex, Ordering};

use crate::jobs::seqno_times::Samples;

/// A periodic task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Writes statistics to the info log.
    Dump,
    /// Adds the increases of tickers to the history.
    Remember,
    /// Starts compactions that have become due.
    Compact,
    /// Rebalances the memory budget.
    Budget,
    /// Samples the sequence number, for write times that are preserved.
    Sample,
}

impl Task {
    pub(crate) const ALL: [Task; 5] = [
        Task::Dump,
        Task::Remember,
        Task::Compact,
        Task::Budget,
        Task::Sample,
    ];
}

/// A chain of jobs of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) task: Task,
    number: u64,
}

/// The current chains, and the history of statistics.
#[derive(Default)]
pub(crate) struct Timers {
    /// The number of chains of each task so far; the last one is current.
    chains: [AtomicU64; Task::ALL.len()],
    /// The period of each task in seconds; 0 if it is disabled.
    periods: [AtomicU64; Task::ALL.len()],
    history: Mutex<History>,
    /// The time since which the phases of periodic compactions are in effect, in seconds since 1970.
    phase_anchor: AtomicU64,
    /// Samples of sequence numbers and times.
    pub(crate) samples: Samples,
}

impl Timers {
    /// Sets the period of `task` in seconds, 0 to disable it. Returns the chain to start if that is a change.
    pub(crate) fn set_period(&self, task: Task, seconds: u64) -> Option<Chain> {
        // Relaxed: changes of options are serialized.
        if self.periods[task as usize].swap(seconds, Ordering::Relaxed) == seconds {
            return None;
        }
        let number = self.chains[task as usize].fetch_add(1, Ordering::Relaxed) + 1;
        (seconds > 0).then_some(Chain { task, number })
    }

    /// True if `chain` is the current one of its task.
    pub(crate) fn is_in_force(&self, chain: Chain) -> bool {
        self.chains[chain.task as usize].load(Ordering::Relaxed) == chain.number
    }

    /// Sets the time since which the phases of periodic compactions are in effect, before the options that change
    /// them are.
    pub(crate) fn anchor_phases(&self, now: u64) {
        self.phase_anchor.store(now, Ordering::Relaxed);
    }

    /// Returns the time since which the phases of periodic compactions are in effect.
    pub(crate) fn phase_anchor(&self) -> u64 {
        // Relaxed: a compaction that is chosen during a change may use the time before it.
        self.phase_anchor.load(Ordering::Relaxed)
    }

    /// Begins the history, unless it has begun, with the tickers that `now` returns.
    pub(crate) fn begin_history(&self, now: impl FnOnce() -> Vec<u64>) {
        self.history.lock().begin(now);
    }

    /// Appends the increases of the `tickers` up to the time `seconds` since 1970 to the history, which is
    /// limited to `limit` bytes.
    pub(crate) fn remember(&self, seconds: u64, tickers: Vec<u64>, limit: usize) {
        self.history.lock().push(seconds, tickers, limit);
    }

    /// Returns the increases of the `tickers` up to the time `seconds` since 1970 since the last call, without keeping them.
    pub(crate) fn take_growth(&self, seconds: u64, tickers: Vec<u64>) -> Option<Slice> {
        self.history.lock().take(seconds, tickers)
    }

    /// Returns the intervals that ended between `from` (inclusive) and `to` (exclusive), in seconds since
    /// 1970.
    pub(crate) fn history(&self, from: u64, to: u64) -> Vec<Arc<Slice>> {
        self.history.lock().between(from, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_the_period_ends_the_previous_chain() {
        let timers = Timers::default();
        assert_eq!(timers.set_period(Task::Dump, 0), None);
        let first = timers.set_period(Task::Dump, 600).unwrap();
        assert_eq!(timers.set_period(Task::Dump, 600), None);
        let other = timers.set_period(Task::Compact, 600).unwrap();
        assert!(timers.is_in_force(first) && timers.is_in_force(other));
        let second = timers.set_period(Task::Dump, 60).unwrap();
        assert!(!timers.is_in_force(first) && timers.is_in_force(second));
        assert_eq!(timers.set_period(Task::Dump, 0), None);
        assert!(!timers.is_in_force(second) && timers.is_in_force(other));
    }
}
