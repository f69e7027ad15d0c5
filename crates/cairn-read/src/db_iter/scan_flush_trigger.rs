//! Hidden entries of the memtable that takes writes, as walks forward pass over them: when they are
//! too many, the memtable is marked and the next write to it has it flushed
//! (`memtable_op_scan_flush_trigger`, `memtable_avg_op_scan_flush_trigger`).

use std::sync::Arc;

use cairn_memtable::Memtable;
use cairn_options::ReadOptions;
use cairn_types::SequenceNumber;

use crate::view::View;

/// The entries that a walk has passed over in the memtable.
pub(super) struct ScanFlushTrigger {
    memtable: Arc<Memtable>,
    /// Entries from here on are taken for the memtable's. Files that were ingested since its first
    /// write are counted too.
    from: SequenceNumber,
    per_step: u64,
    /// 0 if the average does not matter.
    average_per_step: u64,
    in_step: u64,
    since_seek: u64,
    /// The seek is one of them.
    steps: u64,
}

impl ScanFlushTrigger {
    /// The counter of a walk over `view`; `None` if there is none. Walks that follow new writes
    /// are left out, as in RocksDB.
    pub(super) fn new(view: &View, options: &ReadOptions) -> Option<Box<ScanFlushTrigger>> {
        let per_step = u64::from(view.family.memtable_op_scan_flush_trigger);
        if per_step == 0 || options.tailing {
            return None;
        }
        Some(Box::new(ScanFlushTrigger {
            memtable: view.memtable.clone(),
            from: view.memtable.first_seq()?,
            per_step,
            average_per_step: u64::from(view.family.memtable_avg_op_scan_flush_trigger),
            in_step: 0,
            since_seek: 0,
            steps: 1,
        }))
    }

    /// True if an entry of this number is one of the memtable.
    pub(super) fn owns(&self, seq: SequenceNumber) -> bool {
        seq >= self.from
    }

    /// A step begins.
    pub(super) fn begin_step(&mut self) {
        self.steps += 1;
        self.in_step = 0;
    }

    /// The step has passed over `count` entries of the memtable.
    pub(super) fn add_hidden(&mut self, count: u64) {
        self.in_step += count;
        self.since_seek += count;
        if self.in_step >= self.per_step {
            self.memtable.mark_for_flush();
        }
    }

    /// The walk ends: a seek begins, or the iterator goes.
    pub(super) fn end_scan(&mut self) {
        let average = self.average_per_step;
        if average > 0
            && self.since_seek >= self.per_step
            && self.since_seek >= self.steps.saturating_mul(average)
        {
            self.memtable.mark_for_flush();
        }
        (self.in_step, self.since_seek, self.steps) = (0, 0, 1);
    }
}
