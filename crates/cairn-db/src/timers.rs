//! What comes again every so many seconds: statistics to the info log, and into their history.
//!
//! Each of the two is a job of the executor that puts itself off by its period. A change of the period
//! begins a new row of jobs; one of an older row finds that out when its time comes, and ends. Nobody
//! waits for these jobs: a simulated clock is not moved on for their sake.

use std::sync::Arc;
use std::time::Duration;

use cairn_observe::statistics::history::{History, Slice};
use cairn_options::DbOptions;
use cairn_platform::Priority;
use cairn_platform::sync::{AtomicU64, Mutex, Ordering};

use crate::db::Db;
use crate::shared::Shared;

/// What comes again.
#[derive(Clone, Copy)]
enum Task {
    /// Statistics go to the info log.
    Dump,
    /// What tickers grew by goes into the history.
    Remember,
}

/// The rows of jobs that go on now, and what they gathered.
#[derive(Default)]
pub(crate) struct Timers {
    /// How many rows of each task there have been; jobs of the last one go on.
    rows: [AtomicU64; 2],
    history: Mutex<History>,
}

impl Task {
    const ALL: [Task; 2] = [Task::Dump, Task::Remember];

    /// The seconds between two of its jobs; 0 if there are to be none.
    fn seconds(self, options: &DbOptions) -> u32 {
        match self {
            Task::Dump => options.stats_dump_period_sec,
            Task::Remember => options.stats_persist_period_sec,
        }
    }

    fn run(self, shared: &Shared) {
        match self {
            Task::Dump => shared.dump_stats(),
            Task::Remember => shared.remember_stats(),
        }
    }
}

impl Shared {
    /// Begins what comes again whose period is another one than in the options `before`. A database
    /// that is only read does without.
    pub(crate) fn begin_timers(self: &Arc<Self>, before: Option<&DbOptions>) {
        if self.read_only {
            return;
        }
        let options = self.options();
        for task in Task::ALL {
            if before.is_some_and(|before| task.seconds(before) == task.seconds(&options)) {
                continue;
            }
            let row = self.timers.rows[task as usize].fetch_add(1, Ordering::Relaxed) + 1;
            self.put_off(task, row);
        }
        if let Some(statistics) = self.statistics()
            && options.stats_persist_period_sec > 0
        {
            self.timers.history.lock().begin(|| statistics.tickers());
        }
    }

    /// The next job of a row.
    fn put_off(self: &Arc<Self>, task: Task, row: u64) {
        let period = match task.seconds(&self.options()) {
            0 => return,
            seconds => Duration::from_secs(seconds.into()),
        };
        // Weak: what waits keeps no closed database in memory.
        let weak = Arc::downgrade(self);
        let job = Box::new(move || {
            if let Some(shared) = weak.upgrade()
                && !shared.closing.load(Ordering::Acquire)
                && shared.timers.rows[task as usize].load(Ordering::Relaxed) == row
            {
                task.run(&shared);
                shared.put_off(task, row);
            }
        });
        self.world
            .executor
            .spawn_at_leisure(period, Priority::High, job);
    }

    /// Puts what tickers grew by into the history.
    fn remember_stats(&self) {
        if let Some(statistics) = self.statistics() {
            let limit = self.options().stats_history_buffer_size;
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            let seconds = self.world.clock.wall_seconds();
            self.timers
                .history
                .lock()
                .push(seconds, statistics.tickers(), limit);
        }
    }
}

impl Db {
    /// What tickers grew by, in slices of `stats_persist_period_sec` each, of those that ended at
    /// `from` or later and before `to`, in seconds since 1970; the oldest first. They lie in memory,
    /// in at most `stats_history_buffer_size` bytes: the oldest go first.
    #[must_use]
    pub fn stats_history(&self, from: u64, to: u64) -> Vec<Arc<Slice>> {
        self.shared().timers.history.lock().between(from, to)
    }
}
