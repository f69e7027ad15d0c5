//! Flush triggered by scans: counts the hidden entries of the active memtable that forward steps
//! skip, and marks the memtable for flush if they exceed `memtable_op_scan_flush_trigger` or
//! `memtable_avg_op_scan_flush_trigger`. The next write to the memtable starts the flush.

use std::sync::Arc;

use cairn_memtable::Memtable;
use cairn_options::ReadOptions;
use cairn_types::SequenceNumber;

use crate::view::View;

/// Counters of hidden memtable entries.
pub(super) struct ScanFlushTrigger {
    memtable: Arc<Memtable>,
    /// The first sequence number of the memtable. Entries of files ingested since are counted as
    /// well.
    from: SequenceNumber,
    per_step: u64,
    /// 0 if the average is not limited.
    average_per_step: u64,
    in_step: u64,
    since_seek: u64,
    /// The number of steps since the last seek, including the seek.
    steps: u64,
}

impl ScanFlushTrigger {
    /// Counters for an iterator over `view`; `None` if the trigger is disabled. Tailing iterators
    /// are excluded, as in RocksDB.
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

    /// True if an entry with this sequence number is counted.
    pub(super) fn owns(&self, seq: SequenceNumber) -> bool {
        seq >= self.from
    }

    /// Begins a step.
    pub(super) fn begin_step(&mut self) {
        self.steps += 1;
        self.in_step = 0;
    }

    /// Counts hidden entries skipped by the current step.
    pub(super) fn add_hidden(&mut self, count: u64) {
        self.in_step += count;
        self.since_seek += count;
        if self.in_step >= self.per_step {
            self.memtable.mark_for_flush();
        }
    }

    /// Evaluates the average at the end of a scan: before a seek, or when the iterator is dropped.
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
