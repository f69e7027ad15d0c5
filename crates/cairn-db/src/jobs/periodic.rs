//! The periodic tasks of an open database ([`crate::jobs::timers`]), and their periods.

use std::sync::Arc;
use std::time::Duration;

use cairn_observe::statistics::history::Slice;
use cairn_observe::threads::ThreadStatus;
use cairn_options::{DbOptions, FamilyOptions};
use cairn_platform::Priority;
use cairn_types::Result;
use cairn_version::compaction_score::ShapeOptions;

use crate::db::Db;
use crate::jobs::timers::{Chain, Task};
use crate::shared::Shared;

impl Shared {
    /// Starts the tasks whose period has changed. A read-only database has none.
    pub(crate) fn begin_timers(self: &Arc<Self>) {
        if self.context.read_only {
            return;
        }
        self.sample_seqno();
        for task in Task::ALL {
            if let Some(chain) = self.timers.set_period(task, self.period(task)) {
                self.schedule_task(chain);
            }
        }
        let options = self.options();
        if let Some(statistics) = self.telemetry.statistics()
            && options.stats_persist_period_sec > 0
        {
            self.timers.begin_history(|| statistics.tickers());
        }
    }

    /// Returns the period of `task` in seconds; 0 if it is disabled.
    fn period(&self, task: Task) -> u64 {
        let options = self.options();
        match task {
            Task::Dump => options.stats_dump_period_sec.into(),
            Task::Remember => options.stats_persist_period_sec.into(),
            Task::Compact => self.compaction_check_interval(&options),
            Task::Budget => u64::from(self.budget.is_some()),
            Task::Sample => self.preserved_spans().sampling_period(),
        }
    }

    /// Schedules the next job of `chain`.
    fn schedule_task(self: &Arc<Self>, chain: Chain) {
        let period = match self.period(chain.task) {
            0 => return,
            seconds => Duration::from_secs(seconds),
        };
        // Weak: a delayed job does not keep a closed database in memory.
        let weak = Arc::downgrade(self);
        let job = Box::new(move || {
            if let Some(shared) = weak.upgrade()
                && !shared.lifecycle.is_closing()
                && shared.timers.is_in_force(chain)
            {
                shared.run_task(chain.task);
                shared.schedule_task(chain);
            }
        });
        self.context
            .world
            .executor
            .spawn_at_leisure(period, Priority::High, job);
    }

    fn run_task(self: &Arc<Self>, task: Task) {
        match task {
            Task::Dump => self.dump_stats(),
            Task::Remember => self.remember_stats(),
            Task::Compact => self.schedule(&mut self.tree.lock()),
            Task::Budget => self.tick_budget(),
            Task::Sample => self.sample_seqno(),
        }
    }

    /// Returns the period in seconds of checks for compactions that become due through time or reads alone; 0
    /// if no family has any. A compaction that is due by age is delayed by at most a fifth of the age. If
    /// another task has a shorter period, checks are as frequent.
    fn compaction_check_interval(&self, options: &DbOptions) -> u64 {
        let families = self.catalog.families();
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

    fn remember_stats(self: &Arc<Self>) {
        if let Some(statistics) = self.telemetry.statistics() {
            let options = self.options();
            let seconds = self.context.world.clock.wall_seconds();
            if options.persist_stats_to_disk {
                let slice = self.timers.take_growth(seconds, statistics.tickers());
                return slice
                    .into_iter()
                    .for_each(|slice| self.persist_stats(slice));
            }
            let limit = usize::try_from(options.stats_history_buffer_size).unwrap_or(usize::MAX);
            self.timers.remember(seconds, statistics.tickers(), limit);
        }
    }
}

/// Returns the shortest age in seconds at which a compaction of a family becomes due, `u64::MAX` if only
/// reads make one due, or `None` if compactions depend on writes only.
fn shortest_age(options: &FamilyOptions) -> Option<u64> {
    let shape = ShapeOptions::from(options);
    let temperatures = &options
        .compaction_options_fifo
        .file_temperature_age_thresholds
        .0;
    let ages = [
        shape.periodic,
        shape.ttl,
        shape.bottommost_delay,
        options.preclude_last_level_data_seconds,
        temperatures.first().map_or(0, |first| first.age),
    ];
    let shortest = ages.into_iter().filter(|&age| age > 0).min();
    match shape.reads_per_byte > 0.0 {
        true => shortest.or(Some(u64::MAX)),
        false => shortest,
    }
}

impl Db {
    /// Returns the current work of threads for this database, if it was opened with `enable_thread_tracking`:
    /// an entry for each flush, compaction and verification, in the order in which they started.
    /// [`cairn_observe::threads::list`] has those of all databases of the process, and openings.
    #[must_use]
    pub fn thread_list(&self) -> Vec<ThreadStatus> {
        self.shared().telemetry.thread_list()
    }

    /// Returns the increases of tickers in intervals of `stats_persist_period_sec` that ended between `from`
    /// (inclusive) and `to` (exclusive), in seconds since 1970, oldest first. They are kept in memory, up to
    /// `stats_history_buffer_size` bytes, and the oldest are dropped first; with `persist_stats_to_disk` they are kept in
    /// the column family [`STATS_FAMILY`](crate::STATS_FAMILY), without a limit.
    ///
    /// # Errors
    ///
    /// Those of reads, with `persist_stats_to_disk`.
    pub fn stats_history(&self, from: u64, to: u64) -> Result<Vec<Arc<Slice>>> {
        match self.shared().options().persist_stats_to_disk {
            true => self.persisted_stats(from, to),
            false => Ok(self.shared().timers.history(from, to)),
        }
    }
}
