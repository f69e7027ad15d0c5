//! Tasks that recur every so many seconds: statistics to the info log and into their history, and a look for
//! compactions that only time or reads make due.
//!
//! Each task is a chain of jobs of the executor, each of which schedules the next. A change of the period begins
//! a new chain; a job of an older one finds that out when its time comes, and ends. No wait includes these jobs: a
//! simulated clock is not moved on for their sake.
//!
//! Here stands which chain is in force, and the history. `periodic.rs` runs the tasks.

use std::sync::Arc;

use cairn_observe::statistics::history::{History, Slice};
use cairn_platform::sync::{AtomicU64, Mutex, Ordering};

/// A task that recurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Statistics go to the info log.
    Dump,
    /// The growth of tickers goes into the history.
    Remember,
    /// Compactions that have become due are started.
    Compact,
    /// The memory budget moves a border.
    Budget,
}

impl Task {
    pub(crate) const ALL: [Task; 4] = [Task::Dump, Task::Remember, Task::Compact, Task::Budget];
}

/// A chain of jobs of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) task: Task,
    number: u64,
}

/// The chains in force, and the history of statistics.
#[derive(Default)]
pub(crate) struct Timers {
    /// Chains of each task so far; the last one is in force.
    chains: [AtomicU64; Task::ALL.len()],
    /// The seconds between two jobs of each task's chain; 0 if none is in force.
    periods: [AtomicU64; Task::ALL.len()],
    history: Mutex<History>,
}

impl Timers {
    /// Sets the seconds between two jobs of `task`, 0 for none. If that is a change, returns the chain to begin.
    pub(crate) fn set_period(&self, task: Task, seconds: u64) -> Option<Chain> {
        // Relaxed: options change one at a time.
        if self.periods[task as usize].swap(seconds, Ordering::Relaxed) == seconds {
            return None;
        }
        let number = self.chains[task as usize].fetch_add(1, Ordering::Relaxed) + 1;
        (seconds > 0).then_some(Chain { task, number })
    }

    /// True if `chain` is the last of its task.
    pub(crate) fn is_in_force(&self, chain: Chain) -> bool {
        self.chains[chain.task as usize].load(Ordering::Relaxed) == chain.number
    }

    /// Begins the history, unless it has begun, with the tickers that `now` returns.
    pub(crate) fn begin_history(&self, now: impl FnOnce() -> Vec<u64>) {
        self.history.lock().begin(now);
    }

    /// Appends the growth of the `tickers` up to the time `seconds` since 1970 to the history, which keeps at most
    /// `limit` bytes.
    pub(crate) fn remember(&self, seconds: u64, tickers: Vec<u64>, limit: usize) {
        self.history.lock().push(seconds, tickers, limit);
    }

    /// The slices that ended at `from` or later and before `to`, in seconds since 1970.
    pub(crate) fn history(&self, from: u64, to: u64) -> Vec<Arc<Slice>> {
        self.history.lock().between(from, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_the_period_ends_the_chain_before_it() {
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
