//! WAL recovery modes.

use super::Reason;

/// The amount of damage in a WAL that is tolerated when a database is opened. The numbers are RocksDB's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RecoveryMode {
    /// A log may end within a record. Damage anywhere else fails the open.
    TolerateCorruptedTailRecords = 0,
    /// Any damage fails the open.
    AbsoluteConsistency = 1,
    /// Recovers everything up to the first damage, and nothing after it.
    #[default]
    PointInTimeRecovery = 2,
    /// Recovers every readable record.
    SkipAnyCorruptedRecords = 3,
}

/// The reaction to dropped bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The log ends here. Recovery continues with the next log.
    EndOfLog,
    /// Recovery ends here, unless the next log starts with exactly the expected sequence number,
    /// which means that the database was opened after the damage and written to.
    Stop,
    /// The open fails.
    Fail,
    /// Recovery continues with the next record.
    Skip,
}

impl RecoveryMode {
    /// The mode with this number, or `None`.
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

    /// The reaction to `reason`, in a recyclable log or in any other.
    ///
    /// Damage is expected in a recycled log: old content follows the last record, starting in the
    /// middle of an arbitrary record. A complete old record may also stand in place of a lost new
    /// one, so point-in-time recovery checks the next log.
    #[must_use]
    pub fn judge(self, reason: Reason, recycled: bool) -> Verdict {
        use RecoveryMode::*;
        match self {
            SkipAnyCorruptedRecords if reason.is_torn() => Verdict::EndOfLog,
            SkipAnyCorruptedRecords => Verdict::Skip,
            PointInTimeRecovery => Verdict::Stop,
            _ if matches!(reason, Reason::OldLogNumber(_)) => Verdict::EndOfLog,
            // Such a record was never acknowledged: the process died first.
            AbsoluteConsistency if reason == Reason::Unfinished => Verdict::EndOfLog,
            TolerateCorruptedTailRecords if recycled || reason.is_torn() => Verdict::EndOfLog,
            TolerateCorruptedTailRecords | AbsoluteConsistency => Verdict::Fail,
        }
    }
}
