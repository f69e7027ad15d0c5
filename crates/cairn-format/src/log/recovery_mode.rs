//! What a database does about damage in a WAL.

use super::Reason;

/// How much damage in a WAL an open tolerates. The numbers are RocksDB's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RecoveryMode {
    /// A log may end in the middle of a record; damage anywhere else fails the open.
    TolerateCorruptedTailRecords = 0,
    /// Any damage fails the open.
    AbsoluteConsistency = 1,
    /// Everything up to the first damage is recovered, and nothing behind it.
    #[default]
    PointInTimeRecovery = 2,
    /// Everything that can be read is recovered.
    SkipAnyCorruptedRecords = 3,
}

/// What to do when a reader had to leave something out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The log ends here; the next log follows as usual.
    EndOfLog,
    /// Recovery ends here, unless the next log begins with exactly the sequence number that would
    /// follow: then the database was opened after this damage, and went on.
    Stop,
    /// The open fails.
    Fail,
    /// Go on with the next record.
    Skip,
}

impl RecoveryMode {
    /// The mode with this number, if there is one.
    #[must_use]
    pub fn from_u8(number: u8) -> Option<RecoveryMode> {
        use RecoveryMode::*;
        [
            TolerateCorruptedTailRecords,
            AbsoluteConsistency,
            PointInTimeRecovery,
            SkipAnyCorruptedRecords,
        ]
        .get(usize::from(number))
        .copied()
    }

    /// What to do about `reason` in a log that is recyclable or not.
    ///
    /// In a recycled log damage is expected: behind the last record lies what the file held
    /// before, from the middle of any record on. A whole record of that time may also be where a
    /// newer one was lost, so recovery to a point in time asks the next log.
    #[must_use]
    pub fn judge(self, reason: Reason, recycled: bool) -> Verdict {
        use RecoveryMode::*;
        match self {
            SkipAnyCorruptedRecords if reason.is_torn() => Verdict::EndOfLog,
            SkipAnyCorruptedRecords => Verdict::Skip,
            PointInTimeRecovery => Verdict::Stop,
            _ if matches!(reason, Reason::OldLogNumber(_)) => Verdict::EndOfLog,
            // Nobody was told that such a record is there, in a process that ended.
            AbsoluteConsistency if reason == Reason::Unfinished => Verdict::EndOfLog,
            TolerateCorruptedTailRecords if recycled || reason.is_torn() => Verdict::EndOfLog,
            TolerateCorruptedTailRecords | AbsoluteConsistency => Verdict::Fail,
        }
    }
}
