//! The activity of a thread, which breaks down the file I/O histograms (RocksDB's
//! `Env::IOActivity`).

use std::cell::Cell;

use crate::statistics::Histogram;

/// The purpose of file reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// A flush.
    Flush,
    /// A compaction.
    Compaction,
    /// Opening a database.
    DbOpen,
    /// A get.
    Get,
    /// A MultiGet.
    MultiGet,
    /// An iterator.
    DbIterator,
    /// Verification of block checksums.
    VerifyDbChecksum,
    /// Verification of whole-file checksums.
    VerifyFileChecksums,
}

thread_local! {
    static ACTIVITY: Cell<Option<Activity>> = const { Cell::new(None) };
}

impl Activity {
    /// Runs `work` as part of this activity.
    pub fn run<T>(self, work: impl FnOnce() -> T) -> T {
        let _outer = RestoreActivity(ACTIVITY.replace(Some(self)));
        work()
    }

    /// The activity of the calling thread, if set.
    #[must_use]
    pub fn current() -> Option<Activity> {
        ACTIVITY.get()
    }

    /// The histogram of reads for this activity.
    #[must_use]
    pub fn reads(self) -> Histogram {
        match self {
            Activity::Flush => Histogram::FileReadFlushMicros,
            Activity::Compaction => Histogram::FileReadCompactionMicros,
            Activity::DbOpen => Histogram::FileReadDbOpenMicros,
            Activity::Get => Histogram::FileReadGetMicros,
            Activity::MultiGet => Histogram::FileReadMultigetMicros,
            Activity::DbIterator => Histogram::FileReadDbIteratorMicros,
            Activity::VerifyDbChecksum => Histogram::FileReadVerifyDbChecksumMicros,
            Activity::VerifyFileChecksums => Histogram::FileReadVerifyFileChecksumsMicros,
        }
    }

    /// The histogram of writes for this activity, if there is one.
    #[must_use]
    pub fn writes(self) -> Option<Histogram> {
        match self {
            Activity::Flush => Some(Histogram::FileWriteFlushMicros),
            Activity::Compaction => Some(Histogram::FileWriteCompactionMicros),
            Activity::DbOpen => Some(Histogram::FileWriteDbOpenMicros),
            _ => None,
        }
    }
}

/// Restores the previous activity of the thread when dropped.
struct RestoreActivity(Option<Activity>);

impl Drop for RestoreActivity {
    fn drop(&mut self) {
        ACTIVITY.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_activities_are_restored() {
        assert_eq!(Activity::current(), None);
        Activity::Compaction.run(|| {
            Activity::Flush.run(|| assert_eq!(Activity::current(), Some(Activity::Flush)));
            assert_eq!(Activity::current(), Some(Activity::Compaction));
        });
        assert_eq!(Activity::current(), None);
    }
}
