//! The set of logs of an open database: which may hold unflushed data, which are still being ended, which are not durable, and
//! which wait to be written over.
//!
//! Invariants, asserted where the set changes:
//!
//! - A log that is ending, or not durable, is in the set until nothing needs it; none of them is archived, deleted or
//!   written over before.
//! - The number of the first log that is needed never falls.
//! - A log that waits to be written over is needed by nobody, and is none whose last write failed.
//!
//! The set is a part of what the lock of the tree guards. Nothing here touches a file.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use cairn_format::manifest::LogReach;
use cairn_types::FileNumber;

use super::log::LogFile;

/// The logs of an open database.
#[derive(Default)]
pub(crate) struct LogSet {
    /// The lengths of logs that may hold unflushed data; 0 for the one that is written.
    lengths: BTreeMap<FileNumber, u64>,
    /// Logs whose last writes failed. Their files may be there for longer than they are in `lengths`.
    failed: BTreeSet<FileNumber>,
    /// Obsolete logs whose files become new ones.
    recycled: VecDeque<FileNumber>,
    /// Logs that a job is cutting to what was written.
    ending: BTreeSet<FileNumber>,
    /// Logs that were replaced and are not known to be durable.
    unsynced: BTreeMap<FileNumber, Arc<LogFile>>,
    /// Logs before this one are needed by nobody, and the MANIFEST says so durably.
    first_needed: FileNumber,
    /// The durable length of the logs when tables were last ingested; the MANIFEST has it.
    reach: Option<LogReach>,
}

/// Logs that have left the set.
pub(crate) struct Unneeded {
    /// Logs by number, with their lengths.
    pub(crate) logs: BTreeMap<FileNumber, u64>,
    /// Files that are open for a sync that nobody waits for any more.
    pub(crate) unsynced: Vec<Arc<LogFile>>,
}

impl LogSet {
    /// No logs; those before `first_needed` are needed by nobody.
    pub(crate) fn new(first_needed: FileNumber) -> LogSet {
        LogSet {
            first_needed,
            ..LogSet::default()
        }
    }

    /// Adds the log that is written from now on.
    pub(crate) fn begin(&mut self, number: FileNumber) {
        let is_new = self.lengths.insert(number, 0).is_none();
        assert!(is_new, "log {number} begins once");
    }

    /// Adds a log that an earlier opening wrote, or notes the length of the one that was written until now.
    pub(crate) fn end(&mut self, number: FileNumber, len: u64) {
        self.lengths.insert(number, len);
    }

    /// Notes that the last write of a log failed: nobody may read it later as history, or write over it.
    pub(crate) fn fail(&mut self, number: FileNumber) {
        self.failed.insert(number);
    }

    /// True if the last write of the log failed.
    pub(crate) fn has_failed(&self, number: FileNumber) -> bool {
        self.failed.contains(&number)
    }

    /// Leaves a log that was replaced to a job, which cuts it and may sync it.
    pub(crate) fn end_later(&mut self, number: FileNumber, file: Arc<LogFile>) {
        assert!(
            self.lengths.contains_key(&number),
            "log {number} is in the set while it ends"
        );
        self.ending.insert(number);
        self.unsynced.insert(number, file);
    }

    /// Notes that the job of a log is done; `durable` if it synced the log.
    pub(crate) fn ended(&mut self, number: FileNumber, durable: bool) {
        self.ending.remove(&number);
        if durable {
            self.unsynced.remove(&number);
        }
    }

    /// True if a job is still ending a log.
    pub(crate) fn is_ending(&self) -> bool {
        !self.ending.is_empty()
    }

    /// The logs that are being ended, with their lengths.
    pub(crate) fn ending(&self) -> impl Iterator<Item = (FileNumber, u64)> {
        let len = |number: &FileNumber| Some((*number, *self.lengths.get(number)?));
        self.ending.iter().filter_map(len)
    }

    /// All logs, with their lengths.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (FileNumber, u64)> {
        self.lengths.iter().map(|(&number, &len)| (number, len))
    }

    /// The logs that recovery would read, with their lengths.
    pub(crate) fn needed(&self) -> impl Iterator<Item = (FileNumber, u64)> {
        let needed = self.lengths.range(self.first_needed..);
        needed.map(|(&number, &len)| (number, len))
    }

    /// The length of a log, if it is in the set.
    pub(crate) fn len_of(&self, number: FileNumber) -> Option<u64> {
        self.lengths.get(&number).copied()
    }

    /// The bytes of all logs but the one that is written.
    pub(crate) fn bytes(&self) -> u64 {
        self.lengths.values().sum()
    }

    /// The first log that is needed, as the MANIFEST says.
    pub(crate) fn first_needed(&self) -> FileNumber {
        self.first_needed
    }

    /// Notes that the MANIFEST says durably that logs before `number` are needed by nobody.
    pub(crate) fn release_before(&mut self, number: FileNumber) {
        self.first_needed = self.first_needed.max(number);
    }

    /// The durable length of the logs when tables were last ingested.
    pub(crate) fn reach(&self) -> Option<LogReach> {
        self.reach
    }

    /// Notes the durable length of the logs at an ingestion.
    pub(crate) fn set_reach(&mut self, reach: Option<LogReach>) {
        self.reach = reach;
    }

    /// The logs before `number` that are not known to be durable, the oldest first.
    pub(crate) fn unsynced_before(&self, number: FileNumber) -> Vec<Arc<LogFile>> {
        let before = self.unsynced.range(..number);
        before.map(|(_, file)| file.clone()).collect()
    }

    /// Takes the logs that are not known to be durable, for a sync by the caller.
    pub(crate) fn take_unsynced(&mut self) -> Vec<Arc<LogFile>> {
        std::mem::take(&mut self.unsynced).into_values().collect()
    }

    /// Takes the logs whose writes or syncs failed from those that wait for a sync.
    pub(crate) fn take_failed_syncs(&mut self) -> Vec<Arc<LogFile>> {
        let failed = self.unsynced.extract_if(.., |_, log| log.has_failed());
        failed.map(|(_, log)| log).collect()
    }

    /// Takes the logs that are ended and needed by nobody.
    pub(crate) fn take_unneeded(&mut self) -> Unneeded {
        let kept = self.lengths.split_off(&self.first_kept());
        Unneeded {
            logs: std::mem::replace(&mut self.lengths, kept),
            unsynced: self.take_unneeded_syncs(),
        }
    }

    /// Takes only the files that are open for a sync that nobody waits for any more.
    pub(crate) fn take_unneeded_syncs(&mut self) -> Vec<Arc<LogFile>> {
        let kept = self.unsynced.split_off(&self.first_kept());
        let unneeded = std::mem::replace(&mut self.unsynced, kept);
        unneeded.into_values().collect()
    }

    /// All logs before this one are ended and needed by nobody.
    fn first_kept(&self) -> FileNumber {
        let ending = self.ending.first().copied();
        ending.map_or(self.first_needed, |ending| ending.min(self.first_needed))
    }

    /// Keeps the file of a log that has left the set for a new one, unless `most` wait already. True if it is kept.
    pub(crate) fn recycle(&mut self, number: FileNumber, most: usize) -> bool {
        if self.recycled.len() >= most {
            return false;
        }
        assert!(
            number < self.first_needed && !self.has_failed(number),
            "log {number} may be written over"
        );
        self.recycled.push_back(number);
        true
    }

    /// Takes the oldest log that waits to be written over.
    pub(crate) fn next_recycled(&mut self) -> Option<FileNumber> {
        self.recycled.pop_front()
    }

    /// Takes all logs that wait to be written over.
    pub(crate) fn take_recycled(&mut self) -> VecDeque<FileNumber> {
        std::mem::take(&mut self.recycled)
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
    fn a_log_that_ends_keeps_those_behind_it() {
        let fs = MemFileSystem::new();
        let mut set = LogSet::new(number(1));
        for log in 1..=4 {
            set.begin(number(log));
            set.end(number(log), log * 10);
        }
        set.end_later(number(2), file(&fs, 2));
        set.end_later(number(3), file(&fs, 3));
        set.release_before(number(4));
        let first = set.take_unneeded();
        assert_eq!(first.logs, BTreeMap::from([(number(1), 10)]));
        assert!(first.unsynced.is_empty());
        set.ended(number(3), true);
        assert!(set.take_unneeded().logs.is_empty(), "2 is before 3");
        set.ended(number(2), false);
        let rest = set.take_unneeded();
        assert_eq!(rest.logs.len(), 2);
        assert_eq!(rest.unsynced.len(), 1, "nobody syncs 2 any more");
        assert_eq!(set.iter().collect::<Vec<_>>(), [(number(4), 40)]);
        assert!(!set.is_ending() && set.bytes() == 40);
    }

    #[test]
    fn the_first_needed_log_never_falls() {
        let mut set = LogSet::new(number(5));
        set.release_before(number(3));
        assert_eq!(set.first_needed(), number(5));
        set.end(number(4), 1);
        set.end(number(6), 2);
        assert_eq!(set.needed().collect::<Vec<_>>(), [(number(6), 2)]);
    }

    #[test]
    fn logs_are_written_over_oldest_first_and_no_more_than_wanted() {
        let mut set = LogSet::new(number(9));
        assert!(set.recycle(number(3), 2) && set.recycle(number(5), 2));
        assert!(!set.recycle(number(7), 2));
        assert_eq!(set.next_recycled(), Some(number(3)));
        assert_eq!(set.take_recycled(), [number(5)]);
        assert_eq!(set.next_recycled(), None);
    }

    #[test]
    #[should_panic(expected = "may be written over")]
    fn a_log_whose_write_failed_is_not_written_over() {
        let mut set = LogSet::new(number(9));
        set.fail(number(3));
        set.recycle(number(3), 1);
    }

    #[test]
    fn logs_that_are_not_durable_are_found_in_order() {
        let fs = MemFileSystem::new();
        let mut set = LogSet::default();
        for log in [2, 4, 6] {
            set.begin(number(log));
            set.end_later(number(log), file(&fs, log));
        }
        set.ended(number(2), true);
        assert_eq!(set.unsynced_before(number(6)).len(), 1);
        assert_eq!(set.ending().count(), 2);
        assert!(set.take_failed_syncs().is_empty());
        assert_eq!(set.take_unsynced().len(), 2);
        assert!(set.unsynced_before(number(9)).is_empty());
    }
}
