//! The kinds of entries: what the last byte of an internal key and the tag of a batch record say.

/// What an entry of a table, memtable or write batch is. The numbers are RocksDB's and on disk
/// (formats.md 4.1). The `Family…` kinds occur in write batches only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ValueKind {
    /// The key is gone.
    Deletion = 0x00,
    /// The key has this value.
    Value = 0x01,
    /// An operand for the family's merge operator.
    Merge = 0x02,
    /// Bytes that only the log carries.
    LogData = 0x03,
    /// [`ValueKind::Deletion`] in a named family.
    FamilyDeletion = 0x04,
    /// [`ValueKind::Value`] in a named family.
    FamilyValue = 0x05,
    /// [`ValueKind::Merge`] in a named family.
    FamilyMerge = 0x06,
    /// The one put below it is gone.
    SingleDeletion = 0x07,
    /// [`ValueKind::SingleDeletion`] in a named family.
    FamilySingleDeletion = 0x08,
    /// Two-phase commit: a prepared section begins.
    BeginPrepare = 0x09,
    /// Two-phase commit: the prepared section ends; its name follows.
    EndPrepare = 0x0a,
    /// Two-phase commit: the named section takes effect.
    Commit = 0x0b,
    /// Two-phase commit: the named section is dropped.
    Rollback = 0x0c,
    /// Nothing; a place to be overwritten.
    Noop = 0x0d,
    /// [`ValueKind::RangeDeletion`] in a named family.
    FamilyRangeDeletion = 0x0e,
    /// All keys from this one up to the one in the value are gone.
    RangeDeletion = 0x0f,
    /// [`ValueKind::BlobIndex`] in a named family.
    FamilyBlobIndex = 0x10,
    /// The value lies in a blob file.
    BlobIndex = 0x11,
    /// Two-phase commit of the write-prepared policy.
    BeginPersistedPrepare = 0x12,
    /// Two-phase commit of the write-unprepared policy.
    BeginUnprepare = 0x13,
    /// A deletion whose key carries a timestamp.
    DeletionWithTimestamp = 0x14,
    /// Two-phase commit with a commit timestamp.
    CommitWithTimestamp = 0x15,
    /// The value is a set of named columns.
    WideColumnEntity = 0x16,
    /// [`ValueKind::WideColumnEntity`] in a named family.
    FamilyWideColumnEntity = 0x17,
    /// A value with the sequence number it would rather have.
    ValuePreferredSeqno = 0x18,
    /// [`ValueKind::ValuePreferredSeqno`] in a named family.
    FamilyValuePreferredSeqno = 0x19,
}

impl ValueKind {
    /// The kind that sorts first among entries of one key and sequence number; seek keys carry it.
    pub const FOR_SEEK: ValueKind = ValueKind::ValuePreferredSeqno;

    /// The kind with this number, or `None` if there is none.
    #[must_use]
    pub fn from_u8(byte: u8) -> Option<ValueKind> {
        use ValueKind::*;
        const ALL: [ValueKind; 26] = [
            Deletion,
            Value,
            Merge,
            LogData,
            FamilyDeletion,
            FamilyValue,
            FamilyMerge,
            SingleDeletion,
            FamilySingleDeletion,
            BeginPrepare,
            EndPrepare,
            Commit,
            Rollback,
            Noop,
            FamilyRangeDeletion,
            RangeDeletion,
            FamilyBlobIndex,
            BlobIndex,
            BeginPersistedPrepare,
            BeginUnprepare,
            DeletionWithTimestamp,
            CommitWithTimestamp,
            WideColumnEntity,
            FamilyWideColumnEntity,
            ValuePreferredSeqno,
            FamilyValuePreferredSeqno,
        ];
        ALL.get(usize::from(byte)).copied()
    }

    /// True if entries of this kind lie in tables and memtables as point entries.
    #[must_use]
    pub fn is_point(self) -> bool {
        use ValueKind::*;
        matches!(
            self,
            Deletion
                | Value
                | Merge
                | SingleDeletion
                | BlobIndex
                | DeletionWithTimestamp
                | WideColumnEntity
                | ValuePreferredSeqno
        )
    }

    /// True if this point entry says that its key is gone.
    #[must_use]
    pub fn is_deletion(self) -> bool {
        use ValueKind::*;
        matches!(self, Deletion | SingleDeletion | DeletionWithTimestamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_names_its_own_kind() {
        for byte in 0..=0x19u8 {
            assert_eq!(ValueKind::from_u8(byte).map(|kind| kind as u8), Some(byte));
        }
        assert_eq!(ValueKind::from_u8(0x1a), None);
        assert_eq!(ValueKind::from_u8(0x7f), None);
    }
}
