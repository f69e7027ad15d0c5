//! The database as a member of a memory budget: it reports its work, and triggers a rebalancing every second.

use cairn_memory::budget::{Budgeted, DatabaseWork, MemoryRegion, MoveRecord};

use crate::memory::budget::MergeTimes;
use crate::shared::Shared;

impl Shared {
    /// Triggers a rebalancing of the budget, and logs the move.
    pub(crate) fn tick_budget(&self) {
        let Some(budget) = &self.budget else { return };
        let now = self.context.world.clock.monotonic_nanos();
        if let Some(record) = budget.of.tick(now) {
            self.log_move(&record);
        }
    }

    fn log_move(&self, record: &MoveRecord) {
        let made = &record.made;
        let mut event = self
            .telemetry
            .event(self.telemetry.new_job(), "memory_budget_move");
        event
            .text("from", made.from.name())
            .text("to", made.to.name())
            .number("bytes", made.bytes)
            .number("saved_nanos_per_second", made.saved.round())
            .number("lost_nanos_per_second", made.lost.round())
            .text("reason", &made.to_string());
        for region in MemoryRegion::ALL {
            event.number(region.name(), record.split.get(region));
        }
        self.telemetry.log_event(&event);
    }

    /// The time of all flushes and compactions, and bytes of the files.
    fn merges_and_size(&self) -> (MergeTimes, u64) {
        let (mut merges, mut stored) = (MergeTimes::default(), 0);
        let families = self.catalog.families();
        for family in families.iter() {
            let stats = family.stats.get();
            for level in stats.levels.values() {
                merges.nanos += level.micros.saturating_mul(1000);
                merges.overlap_nanos += level.overlap_micros.saturating_mul(1000);
            }
            let version = &family.view().version;
            let levels = (0..version.num_levels()).map(|level| version.level(level).bytes());
            let blobs = version.blob_files().values().map(|file| file.total_bytes);
            stored = levels.chain(blobs).fold(stored, u64::saturating_add);
        }
        (merges, stored)
    }
}

impl Budgeted for Shared {
    fn limit_open_tables(&self) {
        self.catalog.sources.limit_open_tables(&self.options());
    }

    fn take_work(&self) -> DatabaseWork {
        let Some(budget) = &self.budget else {
            return DatabaseWork::default();
        };
        let (merges, stored) = self.merges_and_size();
        let (reads, merges) = budget.take_work(merges);
        DatabaseWork {
            reads,
            merge_nanos: merges.nanos,
            overlap_nanos: merges.overlap_nanos,
            stored,
            direct_reads: self.options().use_direct_reads,
        }
    }
}
