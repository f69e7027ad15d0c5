//! Statistics of the flushes and compactions of a family since the database was opened: the numbers of `rocksdb.cfstats`.

use std::collections::BTreeMap;

use cairn_observe::CompactionReason;
use cairn_platform::sync::Mutex;

/// Statistics of the jobs with one output level.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CompactionStats {
    /// Elapsed time of jobs, in microseconds.
    pub(crate) micros: u64,
    /// The part of it in which compactions of level 0 rewrote the data of sorted levels.
    pub(crate) overlap_micros: u64,
    /// CPU time of compactions, in microseconds.
    pub(crate) cpu_micros: u64,
    /// Bytes read from the levels above.
    pub(crate) read_above: u64,
    /// Bytes read from the level itself.
    pub(crate) read_here: u64,
    /// Bytes read from blob files.
    pub(crate) read_blobs: u64,
    /// Bytes of tables written.
    pub(crate) written: u64,
    /// Bytes of blob files written.
    pub(crate) written_blobs: u64,
    /// Bytes of tables moved to this level unchanged.
    pub(crate) moved: u64,
    /// Entries read.
    pub(crate) entries_in: u64,
    /// Entries read and not written.
    pub(crate) entries_dropped: u64,
    /// Jobs.
    pub(crate) jobs: u64,
}

impl CompactionStats {
    /// Adds the counts of `other`.
    pub(crate) fn add(&mut self, other: &CompactionStats) {
        // Sizes and counts are those that files claim.
        let sums = [
            (&mut self.micros, other.micros),
            (&mut self.overlap_micros, other.overlap_micros),
            (&mut self.cpu_micros, other.cpu_micros),
            (&mut self.read_above, other.read_above),
            (&mut self.read_here, other.read_here),
            (&mut self.read_blobs, other.read_blobs),
            (&mut self.written, other.written),
            (&mut self.written_blobs, other.written_blobs),
            (&mut self.moved, other.moved),
            (&mut self.entries_in, other.entries_in),
            (&mut self.entries_dropped, other.entries_dropped),
            (&mut self.jobs, other.jobs),
        ];
        for (sum, more) in sums {
            *sum = sum.saturating_add(more);
        }
    }

    /// Returns the difference from `before`.
    pub(crate) fn minus(&self, before: &CompactionStats) -> CompactionStats {
        CompactionStats {
            micros: self.micros - before.micros,
            overlap_micros: self.overlap_micros - before.overlap_micros,
            cpu_micros: self.cpu_micros - before.cpu_micros,
            read_above: self.read_above - before.read_above,
            read_here: self.read_here - before.read_here,
            read_blobs: self.read_blobs - before.read_blobs,
            written: self.written - before.written,
            written_blobs: self.written_blobs - before.written_blobs,
            moved: self.moved - before.moved,
            entries_in: self.entries_in - before.entries_in,
            entries_dropped: self.entries_dropped - before.entries_dropped,
            jobs: self.jobs - before.jobs,
        }
    }

    /// Bytes of tables and blob files written.
    pub(crate) fn all_written(&self) -> u64 {
        self.written.saturating_add(self.written_blobs)
    }

    /// Total bytes read.
    pub(crate) fn read(&self) -> u64 {
        self.read_above
            .saturating_add(self.read_here)
            .saturating_add(self.read_blobs)
    }
}

/// The statistics of a family.
#[derive(Clone, Debug, Default)]
pub(crate) struct FamilyStats {
    /// By level of the output.
    pub(crate) levels: BTreeMap<usize, CompactionStats>,
    /// Those of flushes.
    pub(crate) flushes: CompactionStats,
    /// The number of jobs by reason.
    pub(crate) reasons: BTreeMap<u32, u64>,
    /// Bytes and number of files that were ingested.
    pub(crate) ingested: (u64, u64),
    /// Those of them that were added to level 0.
    pub(crate) ingested_level_zero: u64,
    /// Entries in them.
    pub(crate) ingested_entries: u64,
    /// Delays and stops because of level 0 while a compaction of it was running.
    pub(crate) level_zero_stalls_while_compacting: (u64, u64),
    /// The number of write slowdowns, by cause: memtables, level 0, debt.
    pub(crate) delays: [u64; 3],
    /// The number of write stops, by cause.
    pub(crate) stops: [u64; 3],
}

impl FamilyStats {
    /// Bytes that entered the family by flushes, with those of blob files, and by ingestions.
    pub(crate) fn taken_in(&self) -> u64 {
        self.flushes.all_written().saturating_add(self.ingested.0)
    }
}

/// The statistics of a family at two times, in seconds since the database was opened.
pub(crate) struct Interval {
    pub(crate) now: (FamilyStats, f64),
    /// Those of the last periodic report.
    pub(crate) before: (FamilyStats, f64),
}

/// The statistics of a family, counted by several threads.
#[derive(Default)]
pub(crate) struct FamilyCounters {
    stats: Mutex<FamilyStats>,
    /// The statistics at the last periodic report, and its time in seconds.
    reported: Mutex<(FamilyStats, f64)>,
}

impl FamilyCounters {
    /// Returns the current counts.
    pub(crate) fn get(&self) -> FamilyStats {
        self.stats.lock().clone()
    }

    /// Returns the current counts and time, and those of the last periodic report. `renew` makes the former the last
    /// report.
    pub(crate) fn interval(&self, uptime: impl FnOnce() -> f64, renew: bool) -> Interval {
        let mut reported = self.reported.lock();
        // Read under the lock, so that no counts of a report are smaller than those of the one before.
        let now = (self.get(), uptime());
        let before = match renew {
            true => std::mem::replace(&mut *reported, now.clone()),
            false => reported.clone(),
        };
        Interval { now, before }
    }

    /// Counts an ingested file of `bytes` with `entries` in `level`.
    pub(crate) fn ingested(&self, level: usize, bytes: u64, entries: u64) {
        let mut stats = self.stats.lock();
        stats.ingested.0 = stats.ingested.0.saturating_add(bytes);
        stats.ingested.1 += 1;
        stats.ingested_level_zero += u64::from(level == 0);
        stats.ingested_entries = stats.ingested_entries.saturating_add(entries);
        let done = CompactionStats {
            written: bytes,
            ..CompactionStats::default()
        };
        stats.levels.entry(level).or_default().add(&done);
        let reason = CompactionReason::ExternalSstIngestion.number();
        *stats.reasons.entry(reason).or_default() += 1;
    }

    /// Counts a flush to level 0.
    pub(crate) fn flushed(&self, done: &CompactionStats) {
        let mut stats = self.stats.lock();
        stats.flushes.add(done);
        stats.levels.entry(0).or_default().add(done);
        *stats
            .reasons
            .entry(CompactionReason::Flush.number())
            .or_default() += 1;
    }

    /// Counts a compaction or move to these levels.
    pub(crate) fn compacted(&self, reason: CompactionReason, levels: &[(usize, CompactionStats)]) {
        let mut stats = self.stats.lock();
        for (level, done) in levels {
            stats.levels.entry(*level).or_default().add(done);
        }
        *stats.reasons.entry(reason.number()).or_default() += 1;
    }

    /// Counts a slowdown or stop of writes, by the number of its cause.
    pub(crate) fn stalled(&self, stopped: bool, cause: usize, level_zero_is_busy: bool) {
        const LEVEL_ZERO: usize = 1;
        let mut stats = self.stats.lock();
        let busy = u64::from(cause == LEVEL_ZERO && level_zero_is_busy);
        match stopped {
            true => {
                stats.stops[cause] += 1;
                stats.level_zero_stalls_while_compacting.1 += busy;
            }
            false => {
                stats.delays[cause] += 1;
                stats.level_zero_stalls_while_compacting.0 += busy;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the counts were read before the lock of the last report was taken, so that a report that was made
    /// in between had larger ones, and their difference was negative.
    #[test]
    fn a_report_reads_its_counts_after_the_last_one_is_complete() {
        let counts = FamilyCounters::default();
        let done = CompactionStats {
            written: 1,
            ..CompactionStats::default()
        };
        for written in 1..3 {
            counts.flushed(&done);
            let uptime = || {
                assert!(counts.reported.try_lock().is_none(), "no other report");
                7.0
            };
            let Interval { now, before } = counts.interval(uptime, true);
            assert_eq!(now.0.flushes.written, written);
            assert_eq!(before.0.flushes.written, written - 1);
        }
    }

    /// Regression: blob files that a flush wrote did not count as input, so that writes seemed to be amplified.
    #[test]
    fn a_flush_takes_in_its_blob_files() {
        let counts = FamilyCounters::default();
        counts.flushed(&CompactionStats {
            written: 10,
            written_blobs: 990,
            ..CompactionStats::default()
        });
        assert_eq!(counts.get().taken_in(), 1000);
    }

    #[test]
    fn the_work_on_damaged_files_does_not_overflow() {
        let counts = FamilyCounters::default();
        let moved = CompactionStats {
            moved: u64::MAX,
            read_above: u64::MAX,
            read_here: u64::MAX,
            ..CompactionStats::default()
        };
        for _ in 0..2 {
            counts.compacted(CompactionReason::LevelL0FilesNum, &[(1, moved)]);
            counts.ingested(0, u64::MAX, u64::MAX);
        }
        let work = counts.get();
        let level = &work.levels[&1];
        assert_eq!((level.moved, level.read()), (u64::MAX, u64::MAX));
        assert_eq!(work.taken_in(), u64::MAX);
    }
}
