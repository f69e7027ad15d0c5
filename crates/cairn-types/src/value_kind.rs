//! The kinds of entries, as in the last byte of an internal key and the tag of a batch record.

/// The kind of an entry of a table, memtable or write batch. The numbers are RocksDB's and part of the file
/// formats (formats.md 4.1). The `Family…` kinds occur in write batches only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ValueKind {
    /// A deletion.
    Deletion = 0x00,
    /// A value.
    Value = 0x01,
    /// A merge operand.
    Merge = 0x02,
    /// Opaque data that is written to the WAL only.
    LogData = 0x03,
    /// [`ValueKind::Deletion`] in a named family.
    FamilyDeletion = 0x04,
    /// [`ValueKind::Value`] in a named family.
    FamilyValue = 0x05,
    /// [`ValueKind::Merge`] in a named family.
    FamilyMerge = 0x06,
    /// A deletion of the single version beneath it.
    SingleDeletion = 0x07,
    /// [`ValueKind::SingleDeletion`] in a named family.
    FamilySingleDeletion = 0x08,
    /// Two-phase commit: start of a prepared section.
    BeginPrepare = 0x09,
    /// Two-phase commit: end of the prepared section, with its name.
    EndPrepare = 0x0a,
    /// Two-phase commit: commit of the named section.
    Commit = 0x0b,
    /// Two-phase commit: rollback of the named section.
    Rollback = 0x0c,
    /// No operation; a placeholder to be overwritten.
    Noop = 0x0d,
    /// [`ValueKind::RangeDeletion`] in a named family.
    FamilyRangeDeletion = 0x0e,
    /// A deletion of all keys from this one up to, but excluding, the one in the value.
    RangeDeletion = 0x0f,
    /// [`ValueKind::BlobIndex`] in a named family.
    FamilyBlobIndex = 0x10,
    /// A reference to a value in a blob file.
    BlobIndex = 0x11,
    /// Two-phase commit of the write-prepared policy.
    BeginPersistedPrepare = 0x12,
    /// Two-phase commit of the write-unprepared policy.
    BeginUnprepare = 0x13,
    /// A deletion of a key with a timestamp.
    DeletionWithTimestamp = 0x14,
    /// Two-phase commit with a commit timestamp.
    CommitWithTimestamp = 0x15,
    /// A wide-column entity.
    WideColumnEntity = 0x16,
    /// [`ValueKind::WideColumnEntity`] in a named family.
    FamilyWideColumnEntity = 0x17,
    /// A value with a preferred sequence number.
    ValuePreferredSeqno = 0x18,
    /// [`ValueKind::ValuePreferredSeqno`] in a named family.
    FamilyValuePreferredSeqno = 0x19,
}

impl ValueKind {
    /// The kind that sorts first among entries with the same key and sequence number. Used in seek keys.
    pub const FOR_SEEK: ValueKind = ValueKind::ValuePreferredSeqno;

    /// The kind with this number, or `None`.
    #[inline]
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

    /// True if entries of this kind are stored in tables and memtables as point entries.
    #[inline]
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

    /// True if a point entry of this kind deletes its key.
    #[inline]
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
    fn kinds_round_trip_by_number() {
        for byte in 0..=0x19u8 {
            assert_eq!(ValueKind::from_u8(byte).map(|kind| kind as u8), Some(byte));
        }
        assert_eq!(ValueKind::from_u8(0x1a), None);
        assert_eq!(ValueKind::from_u8(0x7f), None);
    }
}
