//! The conversion of batch records to memtable entries.

use cairn_format::batch::Record;
use cairn_types::{Error, Result, ValueKind};

/// An entry to be inserted into a memtable.
pub(crate) struct Entry<'a> {
    pub(crate) kind: ValueKind,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

impl<'a> Entry<'a> {
    /// A put of `value`.
    #[inline]
    pub(crate) fn put(key: &'a [u8], value: &'a [u8]) -> Entry<'a> {
        let kind = ValueKind::Value;
        Entry { kind, key, value }
    }
}

/// Returns the family and the memtable entry of a record; `None` for records that are only logged.
pub(crate) fn entry<'a>(record: &Record<'a>) -> Result<Option<(u32, Entry<'a>)>> {
    let found = |family: u32, kind, key, value| Ok(Some((family, Entry { kind, key, value })));
    match *record {
        Record::Put { family, key, value } => found(family, ValueKind::Value, key, value),
        Record::Delete { family, key } => found(family, ValueKind::Deletion, key, &[]),
        Record::SingleDelete { family, key } => found(family, ValueKind::SingleDeletion, key, &[]),
        Record::Merge {
            family,
            key,
            operand,
        } => found(family, ValueKind::Merge, key, operand),
        Record::DeleteRange { family, begin, end } => {
            found(family, ValueKind::RangeDeletion, begin, end)
        }
        Record::PutEntity {
            family,
            key,
            entity,
        } => found(family, ValueKind::WideColumnEntity, key, entity),
        Record::PutBlobIndex { family, key, index } => {
            found(family, ValueKind::BlobIndex, key, index)
        }
        // The write time only affects the placement by RocksDB's tiered compaction; without that record of
        // times, a flush by RocksDB makes a plain value of it, too.
        Record::TimedPut {
            family, key, value, ..
        } => found(family, ValueKind::Value, key, value),
        // The markers of a prepared section that is committed.
        Record::BeginPrepare(_) | Record::EndPrepare { .. } => Ok(None),
        Record::LogData(_) | Record::Noop => Ok(None),
        ref other => Err(Error::not_supported(format!(
            "the write batch has a record that this version does not apply: {other:?}"
        ))),
    }
}
