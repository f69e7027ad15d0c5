//! What a thread does, for histograms that tell times of files apart by it.

use std::cell::Cell;

use crate::statistics::Histogram;

/// What the files are read or written for.
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
    /// A batch of gets.
    MultiGet,
    /// An iterator.
    DbIterator,
    /// Checking blocks.
    VerifyDbChecksum,
    /// Checking whole files.
    VerifyFileChecksums,
}

thread_local! {
    static ACTIVITY: Cell<Option<Activity>> = const { Cell::new(None) };
}

impl Activity {
    /// Carries `work` out, which is a part of this.
    pub fn run<T>(self, work: impl FnOnce() -> T) -> T {
        let _outer = Outer(ACTIVITY.replace(Some(self)));
        work()
    }

    /// What the calling thread does, if anybody has said so.
    #[must_use]
    pub fn current() -> Option<Activity> {
        ACTIVITY.get()
    }

    /// The histogram of reads for this.
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

    /// The histogram of writes for this, if there is one.
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

/// What the thread did before; it does that again when this is dropped, also by a panic.
struct Outer(Option<Activity>);

impl Drop for Outer {
    fn drop(&mut self) {
        ACTIVITY.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_activity_within_another_ends_with_it() {
        assert_eq!(Activity::current(), None);
        Activity::Compaction.run(|| {
            Activity::Flush.run(|| assert_eq!(Activity::current(), Some(Activity::Flush)));
            assert_eq!(Activity::current(), Some(Activity::Compaction));
        });
        assert_eq!(Activity::current(), None);
    }
}
