//! The WALs of an open database: lengths, and the state of each log on its way from the current log to its deletion.
//!
//! Invariants:
//!
//! - A log is removed from the set only when the MANIFEST does not need it and its ending job, and those of
//!   all earlier logs, are done.
//! - `first_needed` never decreases.
//! - A log to be recycled is not needed, was created by this opening, and its last write did not fail.
//!   Asserted. The records of an older log may lack the log number, and would be taken for records of the log
//!   that reuses the file.
//!
//! The lock of the tree guards the set. No method touches a file.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use cairn_format::manifest::LogReach;
use cairn_types::FileNumber;

use super::log::LogFile;

/// The WALs of an open database.
#[derive(Default)]
pub(crate) struct LogSet {
    /// Lengths of logs that may hold unflushed data, in bytes; 0 for the current log.
    lengths: BTreeMap<FileNumber, u64>,
    /// Logs whose last write failed. Their files may outlive their entries in `lengths`.
    failed: BTreeSet<FileNumber>,
    /// Obsolete logs whose files will be reused, oldest first.
    recycled: VecDeque<FileNumber>,
    /// The first log that this opening created.
    first_created: Option<FileNumber>,
    /// Logs whose ending job has not finished: it truncates the file to the records written, and may sync it.
    ending: BTreeSet<FileNumber>,
    /// Replaced logs that are not known to be durable.
    unsynced: BTreeMap<FileNumber, Arc<LogFile>>,
    /// The first log that recovery needs, according to the durable MANIFEST.
    first_needed: FileNumber,
    /// The durable end of the logs at the last ingestion, according to the MANIFEST.
    reach: Option<LogReach>,
    /// Time of the last check of the archive, in seconds since 1970.
    archive_scanned_at: u64,
}

/// Logs removed from the set.
pub(crate) struct Unneeded {
    /// Lengths of the logs, in bytes.
    pub(crate) logs: BTreeMap<FileNumber, u64>,
    /// Files that were kept open for a sync that is no longer needed.
    pub(crate) unsynced: Vec<Arc<LogFile>>,
}

impl LogSet {
    /// Creates an empty set. Recovery needs no log before `first_needed`.
    pub(crate) fn new(first_needed: FileNumber) -> LogSet {
        LogSet {
            first_needed,
            ..LogSet::default()
        }
    }

    /// Adds the new current log.
    pub(crate) fn add_current(&mut self, number: FileNumber) {
        let last = self.lengths.keys().next_back();
        assert!(
            last.is_none_or(|last| *last < number),
            "log {number} is newer than the last one, {last:?}"
        );
        assert!(
            self.first_needed <= number,
            "recovery needs log {number}, which is about to be written: it begins at {}",
            self.first_needed
        );
        let is_new = self.lengths.insert(number, 0).is_none();
        assert!(is_new, "log {number} is new");
        self.first_created.get_or_insert(number);
    }

    /// Sets the length of a log that takes no more records, adding it if it is not in the set.
    pub(crate) fn set_len(&mut self, number: FileNumber, len: u64) {
        let before = self.lengths.insert(number, len);
        assert!(
            before.is_none_or(|before| before == 0 || before == len),
            "log {number} takes no more records: {len} bytes, and {before:?} before"
        );
    }

    /// Marks a log whose last write failed. It is neither archived nor recycled, and streams of updates skip it.
    pub(crate) fn mark_failed(&mut self, number: FileNumber) {
        assert!(
            self.lengths.contains_key(&number) && !self.recycled.contains(&number),
            "log {number}, whose write failed, was written by this opening"
        );
        self.failed.insert(number);
    }

    /// True if the last write of the log failed.
    pub(crate) fn has_failed(&self, number: FileNumber) -> bool {
        self.failed.contains(&number)
    }

    /// Registers the ending job of a replaced log.
    pub(crate) fn start_ending(&mut self, number: FileNumber, file: Arc<LogFile>) {
        assert!(
            self.lengths.contains_key(&number),
            "log {number} is in the set"
        );
        let is_first = self.ending.insert(number);
        assert!(is_first, "log {number} ends once");
        self.unsynced.insert(number, file);
    }

    /// Records that the ending job of a log has finished; `durable` if it synced the log.
    pub(crate) fn finish_ending(&mut self, number: FileNumber, durable: bool) {
        let was_ending = self.ending.remove(&number);
        assert!(was_ending, "the ending job of log {number} has begun");
        if durable {
            self.unsynced.remove(&number);
        }
    }

    /// True while an ending job has not finished.
    pub(crate) fn has_ending(&self) -> bool {
        !self.ending.is_empty()
    }

    /// Logs whose ending job has not finished, with their lengths.
    pub(crate) fn ending(&self) -> impl Iterator<Item = (FileNumber, u64)> {
        let len = |number: &FileNumber| Some((*number, *self.lengths.get(number)?));
        self.ending.iter().filter_map(len)
    }

    /// All logs, with their lengths.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (FileNumber, u64)> {
        self.lengths.iter().map(|(&number, &len)| (number, len))
    }

    /// Logs that recovery needs, with their lengths.
    pub(crate) fn needed(&self) -> impl Iterator<Item = (FileNumber, u64)> {
        let needed = self.lengths.range(self.first_needed..);
        needed.map(|(&number, &len)| (number, len))
    }

    /// The length of a log, if it is in the set.
    pub(crate) fn len_of(&self, number: FileNumber) -> Option<u64> {
        self.lengths.get(&number).copied()
    }

    /// Total length of all logs but the current one, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.lengths.values().sum()
    }

    /// Total length of the logs from `number` on, but the current one, in bytes.
    pub(crate) fn bytes_from(&self, number: FileNumber) -> u64 {
        self.lengths.range(number..).map(|(_, bytes)| bytes).sum()
    }

    /// Returns the first log that recovery needs, according to the durable MANIFEST.
    pub(crate) fn first_needed(&self) -> FileNumber {
        self.first_needed
    }

    /// Raises the first needed log to `number`, which the durable MANIFEST has.
    pub(crate) fn release_before(&mut self, number: FileNumber) {
        let current = self.lengths.keys().next_back();
        assert!(
            current.is_none_or(|current| number <= *current),
            "recovery needs the current log, {current:?}, and what is released ends before {number}"
        );
        self.first_needed = self.first_needed.max(number);
    }

    /// Durable end of the logs at the last ingestion.
    pub(crate) fn reach(&self) -> Option<LogReach> {
        self.reach
    }

    /// Sets the durable end of the logs at an ingestion.
    pub(crate) fn set_reach(&mut self, reach: Option<LogReach>) {
        debug_assert!(
            reach.is_none_or(|reach| reach.bytes > 0
                && (self.lengths.contains_key(&reach.number) || reach.number < self.first_needed)),
            "the logs end in one of the set, or a flush has released it meanwhile: {reach:?}"
        );
        self.reach = reach;
    }

    /// Logs before `number` that are not known to be durable, oldest first.
    pub(crate) fn unsynced_before(&self, number: FileNumber) -> Vec<Arc<LogFile>> {
        let before = self.unsynced.range(..number);
        before.map(|(_, file)| file.clone()).collect()
    }

    /// Takes all logs that are not known to be durable.
    pub(crate) fn take_unsynced(&mut self) -> Vec<Arc<LogFile>> {
        std::mem::take(&mut self.unsynced).into_values().collect()
    }

    /// Takes the logs that are not durable because a write or sync failed.
    pub(crate) fn take_failed_syncs(&mut self) -> Vec<Arc<LogFile>> {
        let failed = self.unsynced.extract_if(.., |_, log| log.has_failed());
        failed.map(|(_, log)| log).collect()
    }

    /// Takes the logs that recovery does not need and whose ending jobs have finished.
    pub(crate) fn take_unneeded(&mut self) -> Unneeded {
        let kept = self.lengths.split_off(&self.first_kept());
        debug_assert!(
            self.first_created.is_none() || !kept.is_empty(),
            "the current log stays"
        );
        Unneeded {
            logs: std::mem::replace(&mut self.lengths, kept),
            unsynced: self.take_unneeded_syncs(),
        }
    }

    /// Takes only the files of such logs that were kept open for a sync.
    pub(crate) fn take_unneeded_syncs(&mut self) -> Vec<Arc<LogFile>> {
        let kept = self.unsynced.split_off(&self.first_kept());
        let unneeded = std::mem::replace(&mut self.unsynced, kept);
        unneeded.into_values().collect()
    }

    /// Returns the first log that stays in the set.
    fn first_kept(&self) -> FileNumber {
        let ending = self.ending.first().copied();
        ending.map_or(self.first_needed, |ending| ending.min(self.first_needed))
    }

    /// Queues the file of a removed log for reuse, unless an earlier opening created it or `most` files are
    /// already queued. Returns true if it was queued.
    pub(crate) fn recycle(&mut self, number: FileNumber, most: usize) -> bool {
        let is_created_here = self.first_created.is_some_and(|first| first <= number);
        if !is_created_here || self.recycled.len() >= most {
            return false;
        }
        assert!(
            number < self.first_needed && !self.has_failed(number),
            "log {number} may be recycled"
        );
        self.recycled.push_back(number);
        true
    }

    /// Takes the oldest log queued for reuse.
    pub(crate) fn next_recycled(&mut self) -> Option<FileNumber> {
        self.recycled.pop_front()
    }

    /// Takes all logs queued for reuse.
    pub(crate) fn take_recycled(&mut self) -> VecDeque<FileNumber> {
        std::mem::take(&mut self.recycled)
    }

    /// True if the archive is to be checked at `now`, in seconds since 1970: the last check was at least
    /// `interval` seconds ago, or in the future, because the clock was set back since.
    pub(crate) fn begin_archive_scan(&mut self, now: u64, interval: u64) -> bool {
        let last = self.archive_scanned_at;
        let due = last.saturating_add(interval) <= now || last > now;
        if due {
            self.archive_scanned_at = now;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cairn_platform::mem::MemFileSystem;
    use cairn_wal::WalOptions;

    use super::*;
    use crate::write::log::{CurrentLog, Expected};

    const fn number(number: u64) -> FileNumber {
        FileNumber(number)
    }

    fn file(fs: &MemFileSystem, log: u64) -> Arc<LogFile> {
        let (dir, options) = (Path::new("/"), WalOptions::default());
        let expected = Expected::default();
        let log = CurrentLog::create(fs, dir, number(log), None, &options, false, expected);
        log.unwrap().file()
    }

    #[test]
    fn a_log_with_an_ending_job_keeps_later_logs() {
        let fs = MemFileSystem::new();
        let mut set = LogSet::new(number(1));
        for log in 1..=4 {
            set.add_current(number(log));
            set.set_len(number(log), log * 10);
        }
        set.start_ending(number(2), file(&fs, 2));
        set.start_ending(number(3), file(&fs, 3));
        set.release_before(number(4));
        let first = set.take_unneeded();
        assert_eq!(first.logs, BTreeMap::from([(number(1), 10)]));
        assert!(first.unsynced.is_empty());
        set.finish_ending(number(3), true);
        assert!(set.take_unneeded().logs.is_empty(), "2 is before 3");
        set.finish_ending(number(2), false);
        let rest = set.take_unneeded();
        assert_eq!(rest.logs.len(), 2);
        assert_eq!(rest.unsynced.len(), 1, "the sync of 2 is no longer needed");
        assert_eq!(set.iter().collect::<Vec<_>>(), [(number(4), 40)]);
        assert!(!set.has_ending() && set.bytes() == 40);
    }

    #[test]
    fn the_first_needed_log_never_falls() {
        let mut set = LogSet::new(number(5));
        set.release_before(number(3));
        assert_eq!(set.first_needed(), number(5));
        set.set_len(number(4), 1);
        set.set_len(number(6), 2);
        assert_eq!(set.needed().collect::<Vec<_>>(), [(number(6), 2)]);
    }

    #[test]
    fn logs_are_recycled_oldest_first_up_to_the_limit() {
        let mut set = LogSet::new(number(3));
        assert!(!set.recycle(number(2), 2), "no log is of this opening");
        set.add_current(number(3));
        set.add_current(number(9));
        set.release_before(number(9));
        assert!(!set.recycle(number(2), 2), "2 is of an earlier opening");
        assert!(set.recycle(number(3), 2) && set.recycle(number(5), 2));
        assert!(!set.recycle(number(7), 2));
        assert_eq!(set.next_recycled(), Some(number(3)));
        assert_eq!(set.take_recycled(), [number(5)]);
        assert_eq!(set.next_recycled(), None);
    }

    #[test]
    #[should_panic(expected = "may be recycled")]
    fn a_log_whose_write_failed_is_not_recycled() {
        let mut set = LogSet::new(number(3));
        set.add_current(number(3));
        set.add_current(number(9));
        set.release_before(number(9));
        set.mark_failed(number(3));
        set.recycle(number(3), 1);
    }

    /// Regression: after the clock had been wrong once, archived logs were kept until the time that it had shown.
    #[test]
    fn the_archive_is_checked_after_the_clock_was_set_back() {
        let mut set = LogSet::default();
        let mut begins = |now| set.begin_archive_scan(now, 600);
        assert!(begins(1_000) && !begins(1_599) && begins(1_600));
        assert!(begins(9_000_000), "the clock is wrong");
        assert!(begins(2_000) && !begins(2_599) && begins(2_600));
    }

    #[test]
    fn logs_that_are_not_durable_are_listed_in_order() {
        let fs = MemFileSystem::new();
        let mut set = LogSet::default();
        for log in [2, 4, 6] {
            set.add_current(number(log));
            set.start_ending(number(log), file(&fs, log));
        }
        set.finish_ending(number(2), true);
        assert_eq!(set.unsynced_before(number(6)).len(), 1);
        assert_eq!(set.ending().count(), 2);
        assert!(set.take_failed_syncs().is_empty());
        assert_eq!(set.take_unsynced().len(), 2);
        assert!(set.unsynced_before(number(9)).is_empty());
    }
}
