//! The builder of write batches.

use cairn_types::{Decoded, Error, Result, SequenceNumber, ValueKind};

use super::{
    BatchRef, DEFAULT_FAMILY, HEADER_LEN, MAX_KEY_LEN, MAX_VALUE_LEN, PreparePolicy, Record,
};
use crate::block::MAX_ENTRY_LEN;
use crate::coding::{put_fixed64, put_lps, put_varint32};

/// A savepoint of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    len: usize,
    count: u32,
}

/// A write batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteBatch {
    bytes: Vec<u8>,
}

impl Default for WriteBatch {
    fn default() -> WriteBatch {
        WriteBatch::new()
    }
}

impl WriteBatch {
    /// Creates an empty batch.
    #[must_use]
    pub fn new() -> WriteBatch {
        WriteBatch::with_capacity(0)
    }

    /// Creates an empty batch with capacity for `bytes` of records.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> WriteBatch {
        let mut buffer = Vec::with_capacity(HEADER_LEN + bytes);
        buffer.resize(HEADER_LEN, 0);
        WriteBatch { bytes: buffer }
    }

    /// Validates `bytes` as a batch.
    ///
    /// # Errors
    ///
    /// `Malformed` if the header or a record is damaged.
    pub fn from_bytes(bytes: Vec<u8>) -> Decoded<WriteBatch> {
        BatchRef::parse(&bytes)?.check()?;
        Ok(WriteBatch { bytes })
    }

    /// Header and records, as written to the WAL.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The records, without the header.
    #[inline]
    #[must_use]
    pub fn records_bytes(&self) -> &[u8] {
        &self.bytes[HEADER_LEN..]
    }

    /// The encoded batch, as an owned vector.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// A view of the batch.
    #[inline]
    #[must_use]
    pub fn view(&self) -> BatchRef<'_> {
        BatchRef {
            bytes: &self.bytes,
            sequence: self.sequence(),
            count: self.count(),
        }
    }

    /// The sequence number in the header; zero until set.
    #[inline]
    #[must_use]
    pub fn sequence(&self) -> SequenceNumber {
        SequenceNumber(u64::from_le_bytes(self.header_field(0)))
    }

    /// Sets the sequence number of the first counted record.
    ///
    /// # Panics
    ///
    /// If it is larger than [`SequenceNumber::MAX`].
    #[inline]
    pub fn set_sequence(&mut self, sequence: SequenceNumber) {
        assert!(
            sequence <= SequenceNumber::MAX,
            "sequence numbers have 56 bits"
        );
        self.bytes[..8].copy_from_slice(&sequence.0.to_le_bytes());
    }

    /// The number of counted records.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::from_le_bytes(self.header_field(8))
    }

    /// Sets the count in the header. Added records are counted automatically.
    #[inline]
    pub fn set_count(&mut self, count: u32) {
        self.bytes[8..HEADER_LEN].copy_from_slice(&count.to_le_bytes());
    }

    /// The length of header and records.
    #[inline]
    #[must_use]
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// The allocated capacity in bytes.
    #[inline]
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// True if there are no records, counted or not.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == HEADER_LEN
    }

    /// Removes all records and clears the header, keeping the allocation.
    pub fn clear(&mut self) {
        self.bytes.truncate(HEADER_LEN);
        self.bytes.fill(0);
    }

    /// A savepoint at the end of the batch, for [`WriteBatch::go_back`].
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark {
            len: self.bytes.len(),
            count: self.count(),
        }
    }

    /// Removes the records added since `mark` was taken from this batch.
    ///
    /// # Panics
    ///
    /// If the batch is shorter than at that time.
    pub fn go_back(&mut self, mark: Mark) {
        assert!(
            (HEADER_LEN..=self.bytes.len()).contains(&mark.len),
            "the mark is within the batch"
        );
        self.bytes.truncate(mark.len);
        self.set_count(mark.count);
    }

    /// Adds a put.
    ///
    /// # Errors
    ///
    /// For this method and the ones below: `InvalidArgument`, leaving the batch unchanged, if key
    /// and value exceed [`MAX_ENTRY_LEN`] together, or if the batch has 2^32 - 1 counted records.
    #[inline]
    pub fn put(&mut self, family: u32, key: &[u8], value: &[u8]) -> Result<()> {
        self.add_pair(ValueKind::Value, ValueKind::FamilyValue, family, key, value)
    }

    /// Adds a put of a key and a value given in pieces.
    ///
    /// # Errors
    ///
    /// As [`WriteBatch::put`].
    pub fn put_parts(&mut self, family: u32, key: &[&[u8]], value: &[&[u8]]) -> Result<()> {
        self.add_parts(ValueKind::Value, ValueKind::FamilyValue, family, key, value)
    }

    /// Adds a merge operand; key and operand are given in pieces.
    ///
    /// # Errors
    ///
    /// As [`WriteBatch::put`].
    pub fn merge_parts(&mut self, family: u32, key: &[&[u8]], operand: &[&[u8]]) -> Result<()> {
        self.add_parts(
            ValueKind::Merge,
            ValueKind::FamilyMerge,
            family,
            key,
            operand,
        )
    }

    /// Adds a deletion.
    ///
    /// # Errors
    ///
    /// As [`WriteBatch::put`].
    #[inline]
    pub fn delete(&mut self, family: u32, key: &[u8]) -> Result<()> {
        self.add_key(ValueKind::Deletion, ValueKind::FamilyDeletion, family, key)
    }

    /// Adds a single deletion.
    ///
    /// # Errors
    ///
    /// As [`WriteBatch::put`].
    #[inline]
    pub fn single_delete(&mut self, family: u32, key: &[u8]) -> Result<()> {
        let (plain, named) = (ValueKind::SingleDeletion, ValueKind::FamilySingleDeletion);
        self.add_key(plain, named, family, key)
    }

    /// Adds a merge operand.
    ///
    /// # Errors
    ///
    /// As [`WriteBatch::put`].
    #[inline]
    pub fn merge(&mut self, family: u32, key: &[u8], operand: &[u8]) -> Result<()> {
        let (plain, named) = (ValueKind::Merge, ValueKind::FamilyMerge);
        self.add_pair(plain, named, family, key, operand)
    }

    /// Adds a deletion of the keys from `begin` up to, but excluding, `end`.
    ///
    /// # Errors
    ///
    /// As [`WriteBatch::put`].
    #[inline]
    pub fn delete_range(&mut self, family: u32, begin: &[u8], end: &[u8]) -> Result<()> {
        let (plain, named) = (ValueKind::RangeDeletion, ValueKind::FamilyRangeDeletion);
        self.add_pair(plain, named, family, begin, end)
    }

    /// Adds a put of an entity, encoded as in [`crate::wide`].
    ///
    /// # Errors
    ///
    /// As [`WriteBatch::put`].
    #[inline]
    pub fn put_entity(&mut self, family: u32, key: &[u8], entity: &[u8]) -> Result<()> {
        let (plain, named) = (
            ValueKind::WideColumnEntity,
            ValueKind::FamilyWideColumnEntity,
        );
        self.add_pair(plain, named, family, key, entity)
    }

    /// Adds a reference to a value in a blob file, encoded as in [`crate::blob`].
    ///
    /// # Errors
    ///
    /// As [`WriteBatch::put`].
    pub fn put_blob_index(&mut self, family: u32, key: &[u8], index: &[u8]) -> Result<()> {
        let (plain, named) = (ValueKind::BlobIndex, ValueKind::FamilyBlobIndex);
        self.add_pair(plain, named, family, key, index)
    }

    /// Adds a put of a value with the write time `unix_seconds`.
    ///
    /// # Errors
    ///
    /// As [`WriteBatch::put`].
    pub fn timed_put(
        &mut self,
        family: u32,
        key: &[u8],
        value: &[u8],
        unix_seconds: u64,
    ) -> Result<()> {
        check_entry(key.len(), value.len().saturating_add(8))?;
        let (plain, named) = (
            ValueKind::ValuePreferredSeqno,
            ValueKind::FamilyValuePreferredSeqno,
        );
        self.begin_counted(plain, named, family)?;
        put_lps(&mut self.bytes, key);
        let stored = u32::try_from(value.len() + 8).expect("check_entry has verified the length");
        put_varint32(&mut self.bytes, stored);
        self.bytes.extend_from_slice(value);
        put_fixed64(&mut self.bytes, unix_seconds);
        Ok(())
    }

    /// Adds data that is written to the WAL only.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if it has 2^32 bytes or more.
    pub fn put_log_data(&mut self, data: &[u8]) -> Result<()> {
        self.add_note(ValueKind::LogData, data)
    }

    /// Adds a no-op record.
    pub fn put_noop(&mut self) {
        self.bytes.push(ValueKind::Noop as u8);
    }

    /// Turns the batch of transaction `name`, which must start with a no-op, into a prepared section.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the batch does not start with a no-op, or the name is too long.
    pub fn mark_prepared(&mut self, name: &[u8]) -> Result<()> {
        if self.bytes.get(HEADER_LEN) != Some(&(ValueKind::Noop as u8)) {
            return Err(Error::invalid_argument(
                "a batch to be prepared must start with a no-op",
            ));
        }
        self.add_note(ValueKind::EndPrepare, name)?;
        self.bytes[HEADER_LEN] = ValueKind::BeginPrepare as u8;
        Ok(())
    }

    /// Returns the prepared section of transaction `name` with the records of `batch`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the name is too long.
    pub fn prepared_section(batch: &BatchRef<'_>, name: &[u8]) -> Result<WriteBatch> {
        // The tags of both markers, and the length of the name.
        const MARKERS: usize = 2 + 5;
        let records = &batch.as_bytes()[HEADER_LEN..];
        let mut section = WriteBatch::with_capacity(records.len() + name.len() + MARKERS);
        section.put_noop();
        section.append(batch)?;
        section.mark_prepared(name)?;
        Ok(section)
    }

    /// Makes a prepared section one of the write policy `policy`. Without effect on other batches.
    pub fn set_prepare_policy(&mut self, policy: PreparePolicy) {
        use ValueKind::{BeginPersistedPrepare, BeginPrepare, BeginUnprepare};
        let begins = [BeginPrepare, BeginPersistedPrepare, BeginUnprepare].map(|kind| kind as u8);
        if let Some(first) = self.bytes.get_mut(HEADER_LEN)
            && begins.contains(first)
        {
            *first = match policy {
                PreparePolicy::WriteCommitted => BeginPrepare as u8,
                PreparePolicy::WritePrepared => BeginPersistedPrepare as u8,
                PreparePolicy::WriteUnprepared => BeginUnprepare as u8,
            };
        }
    }

    /// Adds the end of the prepared section of transaction `name`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the name is too long.
    pub fn mark_end_prepare(&mut self, name: &[u8]) -> Result<()> {
        self.add_note(ValueKind::EndPrepare, name)
    }

    /// Adds the commit of transaction `name`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the name is too long.
    pub fn mark_commit(&mut self, name: &[u8]) -> Result<()> {
        self.add_note(ValueKind::Commit, name)
    }

    /// Adds the commit of transaction `name` at `timestamp`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the name is too long.
    pub fn mark_commit_at(&mut self, timestamp: &[u8], name: &[u8]) -> Result<()> {
        self.add_note(ValueKind::CommitWithTimestamp, timestamp)?;
        check_len("note in a write batch", name.len())?;
        put_lps(&mut self.bytes, name);
        Ok(())
    }

    /// Adds the rollback of transaction `name`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the name is too long.
    pub fn mark_rollback(&mut self, name: &[u8]) -> Result<()> {
        self.add_note(ValueKind::Rollback, name)
    }

    /// Adds a copy of `record`. The markers of two-phase commit and no-ops are not copied.
    ///
    /// # Errors
    ///
    /// As [`WriteBatch::put`].
    pub fn push(&mut self, record: &Record<'_>) -> Result<()> {
        use Record::*;
        match *record {
            Put { family, key, value } => self.put(family, key, value),
            Delete { family, key } => self.delete(family, key),
            SingleDelete { family, key } => self.single_delete(family, key),
            Merge {
                family,
                key,
                operand,
            } => self.merge(family, key, operand),
            DeleteRange { family, begin, end } => self.delete_range(family, begin, end),
            PutEntity {
                family,
                key,
                entity,
            } => self.put_entity(family, key, entity),
            PutBlobIndex { family, key, index } => self.put_blob_index(family, key, index),
            TimedPut {
                family,
                key,
                value,
                unix_seconds,
            } => self.timed_put(family, key, value, unix_seconds),
            LogData(data) => self.put_log_data(data),
            Noop
            | BeginPrepare(_)
            | EndPrepare { .. }
            | Commit { .. }
            | CommitWithTimestamp { .. }
            | Rollback { .. } => Ok(()),
        }
    }

    /// Replaces the end of each key with `timestamp` in the families for which `size_of` returns its length. Families
    /// for which it returns 0 are left unchanged.
    ///
    /// # Errors
    ///
    /// `NotFound` for a family for which `size_of` returns `None`; `InvalidArgument` for another length, for a key
    /// shorter than the timestamp, and for an entity, whose keys have no timestamps. The batch is then unchanged.
    pub fn set_timestamps(
        &mut self,
        timestamp: &[u8],
        mut size_of: impl FnMut(u32) -> Option<usize>,
    ) -> Result<()> {
        let mut ends = Vec::new();
        for record in self.view().records() {
            let record = record.map_err(|malformed| malformed.in_file("the write batch", 0))?;
            let Some(family) = record.family() else {
                continue;
            };
            let size = size_of(family).ok_or_else(|| {
                Error::not_found(format!("column family {family}, to which the batch writes"))
            })?;
            if size == 0 {
                continue;
            }
            if size != timestamp.len() {
                return Err(Error::invalid_argument(format!(
                    "timestamp size mismatch: column family {family} expects {size} bytes, {} given",
                    timestamp.len()
                )));
            }
            for key in stamped_keys(&record)? {
                if key.len() < size {
                    return Err(Error::invalid_argument(format!(
                        "a key of column family {family} is shorter than its timestamp of {size} bytes"
                    )));
                }
                // The key is part of the batch, so that the difference of the addresses is its position.
                let at = key.as_ptr().addr() - self.bytes.as_ptr().addr();
                ends.push(at + key.len());
            }
        }
        for end in ends {
            self.bytes[end - timestamp.len()..end].copy_from_slice(timestamp);
        }
        Ok(())
    }

    /// Appends the records of `other`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the number of records would exceed 32 bits.
    pub fn append(&mut self, other: &BatchRef<'_>) -> Result<()> {
        let count = self.count().checked_add(other.count());
        self.set_count(count.ok_or_else(too_many_records)?);
        self.bytes
            .extend_from_slice(&other.as_bytes()[HEADER_LEN..]);
        Ok(())
    }

    #[inline]
    fn add_pair(
        &mut self,
        plain: ValueKind,
        named: ValueKind,
        family: u32,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        check_entry(key.len(), value.len())?;
        self.bytes.reserve(key.len() + value.len() + 16);
        if family == DEFAULT_FAMILY && key.len() < 0x80 {
            self.count_record()?;
            self.bytes
                .extend_from_slice(&[plain as u8, key.len() as u8]);
            self.bytes.extend_from_slice(key);
        } else {
            self.begin_counted(plain, named, family)?;
            put_lps(&mut self.bytes, key);
        }
        put_lps(&mut self.bytes, value);
        Ok(())
    }

    fn add_parts(
        &mut self,
        plain: ValueKind,
        named: ValueKind,
        family: u32,
        key: &[&[u8]],
        value: &[&[u8]],
    ) -> Result<()> {
        let (key_len, value_len) = (total("key", key)?, total("value", value)?);
        check_entry(key_len as usize, value_len as usize)?;
        self.bytes
            .reserve(key_len as usize + value_len as usize + 16);
        self.begin_counted(plain, named, family)?;
        for (len, parts) in [(key_len, key), (value_len, value)] {
            put_varint32(&mut self.bytes, len);
            for part in parts {
                self.bytes.extend_from_slice(part);
            }
        }
        Ok(())
    }

    #[inline]
    fn add_key(
        &mut self,
        plain: ValueKind,
        named: ValueKind,
        family: u32,
        key: &[u8],
    ) -> Result<()> {
        check_entry(key.len(), 0)?;
        self.begin_counted(plain, named, family)?;
        put_lps(&mut self.bytes, key);
        Ok(())
    }

    #[inline]
    fn begin_counted(&mut self, plain: ValueKind, named: ValueKind, family: u32) -> Result<()> {
        self.count_record()?;
        if family == DEFAULT_FAMILY {
            self.bytes.push(plain as u8);
        } else {
            self.bytes.push(named as u8);
            put_varint32(&mut self.bytes, family);
        }
        Ok(())
    }

    #[inline]
    fn count_record(&mut self) -> Result<()> {
        let count = self.count().checked_add(1).ok_or_else(too_many_records)?;
        self.set_count(count);
        Ok(())
    }

    fn add_note(&mut self, kind: ValueKind, bytes: &[u8]) -> Result<()> {
        check_len("note in a write batch", bytes.len())?;
        self.bytes.push(kind as u8);
        put_lps(&mut self.bytes, bytes);
        Ok(())
    }

    #[inline]
    fn header_field<const N: usize>(&self, at: usize) -> [u8; N] {
        *self.bytes[at..]
            .first_chunk()
            .expect("a batch always has its header")
    }
}

/// Returns the keys of a record, which end with timestamps in a family that has them.
fn stamped_keys<'r>(record: &Record<'r>) -> Result<Vec<&'r [u8]>> {
    Ok(match *record {
        Record::Put { key, .. }
        | Record::Delete { key, .. }
        | Record::SingleDelete { key, .. }
        | Record::Merge { key, .. }
        | Record::PutBlobIndex { key, .. } => vec![key],
        Record::DeleteRange { begin, end, .. } => vec![begin, end],
        _ => {
            return Err(Error::invalid_argument(
                "entities and timed puts have no timestamps",
            ));
        }
    })
}

/// Rejects a key and value that, individually or together, are too large for a table.
///
/// # Errors
///
/// `InvalidArgument`, with the limit and the length.
#[inline]
pub fn check_entry(key_len: usize, value_len: usize) -> Result<()> {
    match key_len.saturating_add(value_len) <= MAX_ENTRY_LEN {
        true => Ok(()),
        false => Err(entry_too_long(key_len, value_len)),
    }
}

#[cold]
fn entry_too_long(key_len: usize, value_len: usize) -> Error {
    let (what, limit, len) = if key_len > MAX_KEY_LEN {
        ("key is", MAX_KEY_LEN, key_len)
    } else if value_len > MAX_VALUE_LEN {
        ("value is", MAX_VALUE_LEN, value_len)
    } else {
        (
            "key and value together are",
            MAX_ENTRY_LEN,
            key_len.saturating_add(value_len),
        )
    };
    Error::invalid_argument(format!(
        "{what} too large: expected at most {limit} bytes, found {len}"
    ))
}

#[inline]
fn check_len(what: &str, len: usize) -> Result<()> {
    if u32::try_from(len).is_err() {
        return Err(too_long(what, len));
    }
    Ok(())
}

/// The total length of `parts`.
fn total(what: &str, parts: &[&[u8]]) -> Result<u32> {
    let len = parts
        .iter()
        .fold(0, |sum: usize, part| sum.saturating_add(part.len()));
    u32::try_from(len).map_err(|_| too_long(what, len))
}

#[cold]
fn too_long(what: &str, len: usize) -> Error {
    Error::invalid_argument(format!(
        "{what} is too large: expected less than 2^32 bytes, found {len}"
    ))
}

#[cold]
fn too_many_records() -> Error {
    Error::invalid_argument("a write batch holds less than 2^32 records")
}
