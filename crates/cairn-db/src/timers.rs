//! What comes again every so many seconds: statistics to the info log and into their history, and a
//! look for compactions that nothing but time or reads make due.
//!
//! Each of them is a job of the executor that puts itself off by its period. A change of the period
//! begins a new row of jobs; one of an older row finds that out when its time comes, and ends. Nobody
//! waits for these jobs: a simulated clock is not moved on for their sake.

use std::sync::Arc;
use std::time::Duration;

use cairn_observe::statistics::history::{History, Slice};
use cairn_observe::threads::ThreadStatus;
use cairn_options::{DbOptions, FamilyOptions};
use cairn_platform::Priority;
use cairn_platform::sync::{AtomicU64, Mutex, Ordering};
use cairn_version::shape::ShapeOptions;

use crate::db::Db;
use crate::shared::Shared;

/// What comes again.
#[derive(Clone, Copy)]
enum Task {
    /// Statistics go to the info log.
    Dump,
    /// What tickers grew by goes into the history.
    Remember,
    /// Compactions that have become due are started.
    Compact,
}

/// The rows of jobs that go on now, and what they gathered.
#[derive(Default)]
pub(crate) struct Timers {
    /// How many rows of each task there have been; jobs of the last one go on.
    rows: [AtomicU64; Task::ALL.len()],
    /// The seconds between two jobs of the row of each task that goes on; 0 if none does.
    periods: [AtomicU64; Task::ALL.len()],
    history: Mutex<History>,
}

impl Task {
    const ALL: [Task; 3] = [Task::Dump, Task::Remember, Task::Compact];

    /// The seconds between two of its jobs; 0 if there are to be none.
    fn seconds(self, shared: &Shared) -> u64 {
        let options = shared.options();
        match self {
            Task::Dump => options.stats_dump_period_sec.into(),
            Task::Remember => options.stats_persist_period_sec.into(),
            Task::Compact => shared.seconds_between_looks(&options),
        }
    }

    fn run(self, shared: &Arc<Shared>) {
        match self {
            Task::Dump => shared.dump_stats(),
            Task::Remember => shared.remember_stats(),
            Task::Compact => shared.look_for_compactions(),
        }
    }
}

impl Shared {
    /// Begins what comes again whose period is another one than it was. A database that is only read
    /// does without.
    pub(crate) fn begin_timers(self: &Arc<Self>) {
        if self.context.read_only {
            return;
        }
        for task in Task::ALL {
            // Relaxed: who changes options does so alone.
            let period = task.seconds(self);
            if self.timers.periods[task as usize].swap(period, Ordering::Relaxed) == period {
                continue;
            }
            let row = self.timers.rows[task as usize].fetch_add(1, Ordering::Relaxed) + 1;
            self.put_off(task, row);
        }
        let options = self.options();
        if let Some(statistics) = self.telemetry.statistics()
            && options.stats_persist_period_sec > 0
        {
            self.timers.history.lock().begin(|| statistics.tickers());
        }
    }

    /// The next job of a row.
    fn put_off(self: &Arc<Self>, task: Task, row: u64) {
        let period = match task.seconds(self) {
            0 => return,
            seconds => Duration::from_secs(seconds),
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
        self.context
            .world
            .executor
            .spawn_at_leisure(period, Priority::High, job);
    }

    /// The seconds between two looks for compactions that only time or reads make due; 0 if no family
    /// knows such. What is due by an age waits for a fifth of it at most, and where something else
    /// comes again sooner, these come as often.
    fn seconds_between_looks(&self, options: &DbOptions) -> u64 {
        let families = self.families.load();
        let mut ages = families
            .iter()
            .filter_map(|family| shortest_age(&family.options()));
        let Some(first) = ages.next() else {
            return 0;
        };
        let ages = ages.fold(first, u64::min);
        let others = [
            options.stats_dump_period_sec,
            options.stats_persist_period_sec,
        ];
        let others = others.into_iter().filter(|&seconds| seconds > 0);
        others
            .map(u64::from)
            .chain([options.max_compaction_trigger_wakeup_seconds, ages / 5])
            .fold(u64::MAX, u64::min)
            .max(1)
    }

    fn look_for_compactions(self: &Arc<Self>) {
        self.schedule(&mut self.tree.lock());
    }

    /// Puts what tickers grew by into the history.
    fn remember_stats(&self) {
        if let Some(statistics) = self.telemetry.statistics() {
            let limit = self.options().stats_history_buffer_size;
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            let seconds = self.context.world.clock.wall_seconds();
            self.timers
                .history
                .lock()
                .push(seconds, statistics.tickers(), limit);
        }
    }
}

/// The shortest age in seconds that makes a compaction of a family due, or `u64::MAX` if only reads
/// do; `None` if nothing does that happens without a write.
fn shortest_age(options: &FamilyOptions) -> Option<u64> {
    let shape = ShapeOptions::from(options);
    let ages = [shape.periodic, shape.ttl, shape.bottommost_delay];
    let shortest = ages.into_iter().filter(|&age| age > 0).min();
    match shape.reads_per_byte > 0.0 {
        true => shortest.or(Some(u64::MAX)),
        false => shortest,
    }
}

impl Db {
    /// What threads do for this database now, if it was opened with `enable_thread_tracking`: an entry for
    /// each flush, compaction and verification, in the order in which they began.
    /// [`cairn_observe::threads::list`] has those of all databases of the process, and openings.
    #[must_use]
    pub fn thread_list(&self) -> Vec<ThreadStatus> {
        self.shared().telemetry.thread_list()
    }

    /// What tickers grew by, in slices of `stats_persist_period_sec` each, of those that ended at
    /// `from` or later and before `to`, in seconds since 1970; the oldest first. They lie in memory,
    /// in at most `stats_history_buffer_size` bytes: the oldest go first.
    #[must_use]
    pub fn stats_history(&self, from: u64, to: u64) -> Vec<Arc<Slice>> {
        self.shared().timers.history.lock().between(from, to)
    }
}
