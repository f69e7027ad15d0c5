//! The write batch: a list of changes that take effect together, and the payload of a WAL record.
//!
//! ```text
//! offset  size  header
//!      0     8  sequence number of the first counted record
//!      8     4  how many records are counted
//!     12        records
//!
//! tag of the default family / of another   followed by (with its id as varint32 first, if another)
//! Value 01/05, Merge 02/06                 key, value
//! Deletion 00/04, SingleDeletion 07/08     key
//! RangeDeletion 0f/0e                      begin (inclusive), end (exclusive)
//! BlobIndex 11/10                          key, blob index
//! WideColumnEntity 16/17                   key, entity
//! ValuePreferredSeqno 18/19                key, value and a fixed64 of unix seconds in one
//! LogData 03                               bytes
//! Noop 0d, BeginPrepare 09, 12, 13         nothing
//! EndPrepare 0a, Commit 0b, Rollback 0c    name of the transaction
//! CommitWithTimestamp 15                   timestamp, name of the transaction
//! ```
//!
//! Keys, values and names have a varint32 length in front of them. Counted are the records that
//! change a key: record k of them, from zero, takes the header's sequence number plus k. LogData,
//! Noop and the marks of two-phase commit are not counted.
//!
//! [`WriteBatch`] builds the bytes, [`BatchRef`] reads them without copying. Neither knows what
//! families exist, what a save point is, or how much a batch may hold.

use cairn_types::{Decoded, Error, Malformed, Result, SequenceNumber, ValueKind};

use crate::coding::{Input, put_fixed64, put_lps, put_varint32};

/// Bytes before the first record.
pub const HEADER_LEN: usize = 12;

/// The id of the family that every database has.
pub const DEFAULT_FAMILY: u32 = 0;

/// One record of a batch, borrowed from its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant says what its fields are")]
pub enum Record<'a> {
    /// `key` gets `value`.
    Put {
        family: u32,
        key: &'a [u8],
        value: &'a [u8],
    },
    /// `key` goes.
    Delete { family: u32, key: &'a [u8] },
    /// The one put of `key` goes.
    SingleDelete { family: u32, key: &'a [u8] },
    /// `operand` is merged into what `key` has.
    Merge {
        family: u32,
        key: &'a [u8],
        operand: &'a [u8],
    },
    /// The keys from `begin` up to and without `end` go.
    DeleteRange {
        family: u32,
        begin: &'a [u8],
        end: &'a [u8],
    },
    /// `key` gets the columns of `entity`, encoded as in [`crate::wide`].
    PutEntity {
        family: u32,
        key: &'a [u8],
        entity: &'a [u8],
    },
    /// The value of `key` lies in a blob file, at `index`, encoded as in [`crate::blob`].
    PutBlobIndex {
        family: u32,
        key: &'a [u8],
        index: &'a [u8],
    },
    /// `key` gets `value`, written at `unix_seconds` in its user's eyes.
    TimedPut {
        family: u32,
        key: &'a [u8],
        value: &'a [u8],
        unix_seconds: u64,
    },
    /// Bytes for who reads the log; the tree ignores them.
    LogData(&'a [u8]),
    /// Nothing.
    Noop,
    /// A prepared section begins; `policy` says how its transaction was written.
    BeginPrepare(PreparePolicy),
    /// The prepared section of transaction `name` ends.
    EndPrepare { name: &'a [u8] },
    /// Transaction `name` takes effect.
    Commit { name: &'a [u8] },
    /// Transaction `name` takes effect at `timestamp`.
    CommitWithTimestamp { timestamp: &'a [u8], name: &'a [u8] },
    /// Transaction `name` is dropped.
    Rollback { name: &'a [u8] },
}

/// When a transaction's data entered the log and the memtable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreparePolicy {
    /// Into the memtable at its commit.
    WriteCommitted,
    /// Into the memtable when it was prepared.
    WritePrepared,
    /// Into log and memtable before it was prepared.
    WriteUnprepared,
}

impl Record<'_> {
    /// Whether the record takes a sequence number.
    #[inline]
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.family().is_some()
    }

    /// The family whose keys the record changes, if it changes keys.
    #[inline]
    #[must_use]
    pub fn family(&self) -> Option<u32> {
        use Record::*;
        match *self {
            Put { family, .. }
            | Delete { family, .. }
            | SingleDelete { family, .. }
            | Merge { family, .. }
            | DeleteRange { family, .. }
            | PutEntity { family, .. }
            | PutBlobIndex { family, .. }
            | TimedPut { family, .. } => Some(family),
            LogData(_)
            | Noop
            | BeginPrepare(_)
            | EndPrepare { .. }
            | Commit { .. }
            | CommitWithTimestamp { .. }
            | Rollback { .. } => None,
        }
    }
}

/// A batch that somebody else wrote, read in place.
#[derive(Clone, Copy, Debug)]
pub struct BatchRef<'a> {
    bytes: &'a [u8],
    sequence: SequenceNumber,
    count: u32,
}

impl<'a> BatchRef<'a> {
    /// Reads the header; the records are read one at a time by [`BatchRef::records`].
    ///
    /// # Errors
    ///
    /// [`Malformed`] if there is no whole header, or its sequence number has more than 56 bits.
    pub fn parse(bytes: &'a [u8]) -> Decoded<BatchRef<'a>> {
        let mut input = Input::new(bytes);
        let sequence = input.fixed64()?;
        if sequence > SequenceNumber::MAX.0 {
            return Err(Malformed::mismatch(
                0,
                "sequence number of the batch",
                "at most 2^56 - 1",
                sequence,
            ));
        }
        Ok(BatchRef {
            bytes,
            sequence: SequenceNumber(sequence),
            count: input.fixed32()?,
        })
    }

    /// The sequence number of the first counted record.
    #[must_use]
    pub fn sequence(&self) -> SequenceNumber {
        self.sequence
    }

    /// How many records the header counts.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Everything, header included.
    #[must_use]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The records in order. The iterator ends after the first error; one that ends without an
    /// error has seen as many counted records as the header says.
    #[inline]
    #[must_use]
    pub fn records(&self) -> Records<'a> {
        let mut input = Input::new(self.bytes);
        let header = input.take(HEADER_LEN).is_ok();
        debug_assert!(header, "parse() has seen the header");
        Records {
            input,
            expected: self.count,
            found: 0,
            ended: false,
        }
    }

    /// Reads all records and throws them away.
    ///
    /// # Errors
    ///
    /// [`Malformed`] as from the iterator of [`BatchRef::records`].
    pub fn check(&self) -> Decoded<()> {
        self.records().try_for_each(|record| record.map(|_| ()))
    }
}

/// Iterates over the records of a batch.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    input: Input<'a>,
    expected: u32,
    found: u32,
    ended: bool,
}

impl<'a> Iterator for Records<'a> {
    type Item = Decoded<Record<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Decoded<Record<'a>>> {
        if self.ended {
            return None;
        }
        if self.input.is_empty() {
            self.ended = true;
            return self.miscount().map(Err);
        }
        let record = read_record(&mut self.input);
        match &record {
            Ok(record) if record.is_counted() => self.found = self.found.saturating_add(1),
            Ok(_) => {}
            Err(_) => self.ended = true,
        }
        Some(record)
    }
}

impl Records<'_> {
    /// Offset in the batch of the record that `next` will read.
    #[must_use]
    pub fn at(&self) -> usize {
        self.input.at()
    }

    fn miscount(&self) -> Option<Malformed> {
        (self.found != self.expected)
            .then(|| Malformed::mismatch(8, "count of the write batch", self.expected, self.found))
    }
}

#[inline]
fn read_record<'a>(input: &mut Input<'a>) -> Decoded<Record<'a>> {
    use ValueKind::*;
    let at = input.at();
    let tag = input.u8()?;
    let Some(kind) = ValueKind::from_u8(tag) else {
        return Err(unknown_tag(at, tag));
    };
    let family = match kind {
        FamilyValue
        | FamilyDeletion
        | FamilySingleDeletion
        | FamilyMerge
        | FamilyRangeDeletion
        | FamilyBlobIndex
        | FamilyWideColumnEntity
        | FamilyValuePreferredSeqno => input.varint32()?,
        _ => DEFAULT_FAMILY,
    };
    Ok(match kind {
        Value | FamilyValue => Record::Put {
            family,
            key: input.lps()?,
            value: input.lps()?,
        },
        Deletion | FamilyDeletion => Record::Delete {
            family,
            key: input.lps()?,
        },
        SingleDeletion | FamilySingleDeletion => Record::SingleDelete {
            family,
            key: input.lps()?,
        },
        Merge | FamilyMerge => Record::Merge {
            family,
            key: input.lps()?,
            operand: input.lps()?,
        },
        RangeDeletion | FamilyRangeDeletion => Record::DeleteRange {
            family,
            begin: input.lps()?,
            end: input.lps()?,
        },
        WideColumnEntity | FamilyWideColumnEntity => Record::PutEntity {
            family,
            key: input.lps()?,
            entity: input.lps()?,
        },
        BlobIndex | FamilyBlobIndex => Record::PutBlobIndex {
            family,
            key: input.lps()?,
            index: input.lps()?,
        },
        ValuePreferredSeqno | FamilyValuePreferredSeqno => timed_put(family, input)?,
        LogData => Record::LogData(input.lps()?),
        Noop => Record::Noop,
        BeginPrepare => Record::BeginPrepare(PreparePolicy::WriteCommitted),
        BeginPersistedPrepare => Record::BeginPrepare(PreparePolicy::WritePrepared),
        BeginUnprepare => Record::BeginPrepare(PreparePolicy::WriteUnprepared),
        EndPrepare => Record::EndPrepare { name: input.lps()? },
        Commit => Record::Commit { name: input.lps()? },
        Rollback => Record::Rollback { name: input.lps()? },
        CommitWithTimestamp => Record::CommitWithTimestamp {
            timestamp: input.lps()?,
            name: input.lps()?,
        },
        DeletionWithTimestamp => return Err(unknown_tag(at, tag)),
    })
}

fn timed_put<'a>(family: u32, input: &mut Input<'a>) -> Decoded<Record<'a>> {
    let key = input.lps()?;
    let at = input.at();
    let (value, time) = input
        .lps()?
        .split_last_chunk::<8>()
        .ok_or_else(|| Malformed::at(at, "value of a timed put has no time"))?;
    Ok(Record::TimedPut {
        family,
        key,
        value,
        unix_seconds: u64::from_le_bytes(*time),
    })
}

#[cold]
fn unknown_tag(at: usize, tag: u8) -> Malformed {
    Malformed::at(
        at,
        format!("tag of a write batch record: {tag:#04x} is none"),
    )
}

/// A place in a batch to go back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    len: usize,
    count: u32,
}

/// A batch being written.
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
    /// A batch without records.
    #[must_use]
    pub fn new() -> WriteBatch {
        WriteBatch::with_capacity(0)
    }

    /// A batch without records that holds `bytes` of them before it grows.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> WriteBatch {
        let mut buffer = Vec::with_capacity(HEADER_LEN + bytes);
        buffer.resize(HEADER_LEN, 0);
        WriteBatch { bytes: buffer }
    }

    /// The batch that `bytes` are.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if the header or any record is damaged, so that what is added later follows
    /// whole records.
    pub fn from_bytes(bytes: Vec<u8>) -> Decoded<WriteBatch> {
        BatchRef::parse(&bytes)?.check()?;
        Ok(WriteBatch { bytes })
    }

    /// Header and records, as they go to the log.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The records without the header.
    #[inline]
    #[must_use]
    pub fn records_bytes(&self) -> &[u8] {
        &self.bytes[HEADER_LEN..]
    }

    /// The bytes themselves.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The batch, to be read.
    #[inline]
    #[must_use]
    pub fn view(&self) -> BatchRef<'_> {
        BatchRef {
            bytes: &self.bytes,
            sequence: self.sequence(),
            count: self.count(),
        }
    }

    /// The sequence number in the header; zero until it is set.
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

    /// How many records are counted.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::from_le_bytes(self.header_field(8))
    }

    /// Sets the count in the header. Records that are added count themselves.
    #[inline]
    pub fn set_count(&mut self, count: u32) {
        self.bytes[8..HEADER_LEN].copy_from_slice(&count.to_le_bytes());
    }

    /// Bytes of header and records.
    #[inline]
    #[must_use]
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is no record, counted or not.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == HEADER_LEN
    }

    /// Removes all records and clears the header. The memory is kept.
    pub fn clear(&mut self) {
        self.bytes.truncate(HEADER_LEN);
        self.bytes.fill(0);
    }

    /// The end of the batch, for [`WriteBatch::go_back`].
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark {
            len: self.bytes.len(),
            count: self.count(),
        }
    }

    /// Removes the records added since `mark` was taken of this batch.
    ///
    /// # Panics
    ///
    /// If the batch is shorter than it was then.
    pub fn go_back(&mut self, mark: Mark) {
        assert!(
            (HEADER_LEN..=self.bytes.len()).contains(&mark.len),
            "the mark lies within the batch"
        );
        self.bytes.truncate(mark.len);
        self.set_count(mark.count);
    }

    /// Adds a put.
    ///
    /// # Errors
    ///
    /// Of this method and those that follow: `InvalidArgument` if key or value has 2^32 bytes or
    /// more, or if the batch holds 2^32 - 1 counted records already. The batch is unchanged then.
    #[inline]
    pub fn put(&mut self, family: u32, key: &[u8], value: &[u8]) -> Result<()> {
        self.add_pair(ValueKind::Value, ValueKind::FamilyValue, family, key, value)
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

    /// Adds a deletion of a key that was put once.
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

    /// Adds a deletion of the keys from `begin` up to and without `end`.
    ///
    /// # Errors
    ///
    /// As [`WriteBatch::put`].
    #[inline]
    pub fn delete_range(&mut self, family: u32, begin: &[u8], end: &[u8]) -> Result<()> {
        let (plain, named) = (ValueKind::RangeDeletion, ValueKind::FamilyRangeDeletion);
        self.add_pair(plain, named, family, begin, end)
    }

    /// Adds a put of columns; `entity` is encoded as in [`crate::wide`].
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

    /// Adds a reference to a value in a blob file; `index` is encoded as in [`crate::blob`].
    ///
    /// # Errors
    ///
    /// As [`WriteBatch::put`].
    pub fn put_blob_index(&mut self, family: u32, key: &[u8], index: &[u8]) -> Result<()> {
        let (plain, named) = (ValueKind::BlobIndex, ValueKind::FamilyBlobIndex);
        self.add_pair(plain, named, family, key, index)
    }

    /// Adds a put of a value that its user wrote at `unix_seconds`.
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
        check_len("key", key.len())?;
        check_len("value", value.len().saturating_add(8))?;
        let (plain, named) = (
            ValueKind::ValuePreferredSeqno,
            ValueKind::FamilyValuePreferredSeqno,
        );
        self.begin_counted(plain, named, family)?;
        put_lps(&mut self.bytes, key);
        let stored = u32::try_from(value.len() + 8).expect("check_len has seen that it fits");
        put_varint32(&mut self.bytes, stored);
        self.bytes.extend_from_slice(value);
        put_fixed64(&mut self.bytes, unix_seconds);
        Ok(())
    }

    /// Adds bytes that only the log carries.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if they are 2^32 or more.
    pub fn put_log_data(&mut self, data: &[u8]) -> Result<()> {
        self.add_note(ValueKind::LogData, data)
    }

    /// Adds a record that does nothing.
    pub fn put_noop(&mut self) {
        self.bytes.push(ValueKind::Noop as u8);
    }

    /// Makes the batch of transaction `name`, which must begin with a noop, a prepared section.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the batch does not begin with a noop, or the name is too long.
    pub fn mark_prepared(&mut self, name: &[u8]) -> Result<()> {
        if self.bytes.get(HEADER_LEN) != Some(&(ValueKind::Noop as u8)) {
            return Err(Error::invalid_argument(
                "a batch to be prepared begins with a noop",
            ));
        }
        self.add_note(ValueKind::EndPrepare, name)?;
        self.bytes[HEADER_LEN] = ValueKind::BeginPrepare as u8;
        Ok(())
    }

    /// Adds the commit of transaction `name`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the name is too long.
    pub fn mark_commit(&mut self, name: &[u8]) -> Result<()> {
        self.add_note(ValueKind::Commit, name)
    }

    /// Adds the rollback of transaction `name`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the name is too long.
    pub fn mark_rollback(&mut self, name: &[u8]) -> Result<()> {
        self.add_note(ValueKind::Rollback, name)
    }

    /// Adds all records of `other`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the records of both cannot be counted in 32 bits.
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
        check_len("key", key.len())?;
        check_len("value", value.len())?;
        self.bytes.reserve(key.len() + value.len() + 16);
        self.begin_counted(plain, named, family)?;
        put_lps(&mut self.bytes, key);
        put_lps(&mut self.bytes, value);
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
        check_len("key", key.len())?;
        self.begin_counted(plain, named, family)?;
        put_lps(&mut self.bytes, key);
        Ok(())
    }

    #[inline]
    fn begin_counted(&mut self, plain: ValueKind, named: ValueKind, family: u32) -> Result<()> {
        let count = self.count().checked_add(1).ok_or_else(too_many_records)?;
        self.set_count(count);
        if family == DEFAULT_FAMILY {
            self.bytes.push(plain as u8);
        } else {
            self.bytes.push(named as u8);
            put_varint32(&mut self.bytes, family);
        }
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

#[inline]
fn check_len(what: &str, len: usize) -> Result<()> {
    if u32::try_from(len).is_err() {
        return Err(too_long(what, len));
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    struct Change {
        kind: u8,
        family: u32,
        key: Vec<u8>,
        value: Vec<u8>,
        time: u64,
    }

    impl Change {
        fn apply(&self, batch: &mut WriteBatch) {
            let (family, key, value) = (self.family, &self.key[..], &self.value[..]);
            match self.kind {
                0 => batch.put(family, key, value),
                1 => batch.delete(family, key),
                2 => batch.single_delete(family, key),
                3 => batch.merge(family, key, value),
                4 => batch.delete_range(family, key, value),
                5 => batch.put_entity(family, key, value),
                6 => batch.put_blob_index(family, key, value),
                7 => batch.timed_put(family, key, value, self.time),
                8 => batch.put_log_data(value),
                9 => batch.mark_commit(value),
                10 => batch.mark_rollback(value),
                _ => {
                    batch.put_noop();
                    Ok(())
                }
            }
            .unwrap();
        }

        fn record(&self) -> Record<'_> {
            let (family, key, value) = (self.family, &self.key[..], &self.value[..]);
            match self.kind {
                0 => Record::Put { family, key, value },
                1 => Record::Delete { family, key },
                2 => Record::SingleDelete { family, key },
                3 => Record::Merge {
                    family,
                    key,
                    operand: value,
                },
                4 => Record::DeleteRange {
                    family,
                    begin: key,
                    end: value,
                },
                5 => Record::PutEntity {
                    family,
                    key,
                    entity: value,
                },
                6 => Record::PutBlobIndex {
                    family,
                    key,
                    index: value,
                },
                7 => Record::TimedPut {
                    family,
                    key,
                    value,
                    unix_seconds: self.time,
                },
                8 => Record::LogData(value),
                9 => Record::Commit { name: value },
                10 => Record::Rollback { name: value },
                _ => Record::Noop,
            }
        }
    }

    fn changes() -> impl Strategy<Value = Vec<Change>> {
        let family = prop_oneof![Just(0), 1..4u32, any::<u32>()];
        let bytes = || vec(any::<u8>(), 0..20);
        let change = (0..12u8, family, bytes(), bytes(), any::<u64>()).prop_map(
            |(kind, family, key, value, time)| Change {
                kind,
                family,
                key,
                value,
                time,
            },
        );
        vec(change, 0..20)
    }

    fn built(changes: &[Change]) -> WriteBatch {
        let mut batch = WriteBatch::new();
        changes.iter().for_each(|change| change.apply(&mut batch));
        batch
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn what_is_written_is_read(changes in changes(), sequence in 0..=SequenceNumber::MAX.0) {
            let mut batch = built(&changes);
            batch.set_sequence(SequenceNumber(sequence));
            let read = BatchRef::parse(batch.as_bytes()).unwrap();
            prop_assert_eq!(read.sequence(), SequenceNumber(sequence));
            let records: Vec<_> = read.records().collect::<Decoded<_>>().unwrap();
            let expected: Vec<_> = changes.iter().map(Change::record).collect();
            prop_assert_eq!(&records, &expected);
            let counted = records.iter().filter(|record| record.is_counted()).count();
            prop_assert_eq!(read.count() as usize, counted);
        }

        #[test]
        fn a_batch_cut_anywhere_is_refused(changes in changes(), cut in any::<prop::sample::Index>()) {
            let batch = built(&changes);
            let bytes = batch.as_bytes();
            let cut = cut.index(bytes.len());
            let result = BatchRef::parse(&bytes[..cut]).and_then(|batch| batch.check());
            // Cutting off records that are not counted leaves a shorter, whole batch.
            let counts_all = WriteBatch::from_bytes(bytes[..cut].to_vec())
                .is_ok_and(|short| short.count() == batch.count());
            prop_assert!(result.is_err() || counts_all);
        }

        #[test]
        fn hostile_bytes_end_in_an_error_or_in_as_many_records_as_counted(
            bytes in vec(any::<u8>(), 0..200)
        ) {
            if let Ok(batch) = BatchRef::parse(&bytes) {
                let read = batch.records().take_while(Result::is_ok).count();
                prop_assert!(read <= bytes.len());
            }
        }

        #[test]
        fn going_back_restores_the_batch(before in changes(), after in changes()) {
            let mut batch = built(&before);
            let mark = batch.mark();
            after.iter().for_each(|change| change.apply(&mut batch));
            batch.go_back(mark);
            prop_assert_eq!(batch, built(&before));
        }

        #[test]
        fn appending_joins_records_and_counts(first in changes(), second in changes()) {
            let mut batch = built(&first);
            batch.append(&built(&second).view()).unwrap();
            let joined: Vec<_> = first.iter().chain(&second).cloned().collect();
            prop_assert_eq!(batch, built(&joined));
        }
    }

    #[test]
    fn bytes_are_those_of_rocksdb() {
        let mut batch = WriteBatch::new();
        batch.set_sequence(SequenceNumber(0x0102));
        batch.put(0, b"k", b"vv").unwrap();
        batch.delete(300, b"k").unwrap();
        batch.delete_range(0, b"a", b"b").unwrap();
        batch.put_log_data(b"!").unwrap();
        let expected = b"\x02\x01\0\0\0\0\0\0\x03\0\0\0\
            \x01\x01k\x02vv\
            \x04\xac\x02\x01k\
            \x0f\x01a\x01b\
            \x03\x01!";
        assert_eq!(batch.as_bytes(), expected);
    }

    #[test]
    fn unknown_tags_are_refused_with_their_number() {
        for tag in [0x14u8, 0x1a, 0x7f, 0xff] {
            let mut bytes = vec![0; HEADER_LEN];
            bytes.extend([tag, 1, b'k']);
            let error = BatchRef::parse(&bytes).unwrap().check().unwrap_err();
            assert_eq!(error.at, HEADER_LEN);
            assert!(error.what.contains(&format!("{tag:#04x}")), "{error}");
        }
    }

    #[test]
    fn a_wrong_count_is_refused_after_the_last_record() {
        let mut batch = WriteBatch::new();
        batch.put(0, b"k", b"v").unwrap();
        batch.set_count(2);
        let mut records = batch.view().records();
        assert!(records.next().unwrap().is_ok());
        let error = records.next().unwrap().unwrap_err();
        assert_eq!(
            error.to_string(),
            "count of the write batch: expected 2, found 1 at offset 8"
        );
        assert!(records.next().is_none());
    }

    #[test]
    fn a_prepared_batch_is_framed_by_its_marks() {
        let mut batch = WriteBatch::new();
        assert!(batch.mark_prepared(b"xid").is_err());
        batch.put_noop();
        batch.put(0, b"k", b"v").unwrap();
        batch.mark_prepared(b"xid").unwrap();
        let records: Vec<_> = batch.view().records().map(Result::unwrap).collect();
        assert_eq!(
            records.first(),
            Some(&Record::BeginPrepare(PreparePolicy::WriteCommitted))
        );
        assert_eq!(records.last(), Some(&Record::EndPrepare { name: b"xid" }));
        assert_eq!(batch.count(), 1);
    }

    #[test]
    fn a_full_count_refuses_one_more_and_changes_nothing() {
        let mut batch = WriteBatch::new();
        batch.set_count(u32::MAX);
        let before = batch.clone();
        assert!(batch.put(0, b"k", b"v").is_err());
        assert!(batch.append(&built_one().view()).is_err());
        assert_eq!(batch, before);
    }

    fn built_one() -> WriteBatch {
        let mut batch = WriteBatch::new();
        batch.put(0, b"k", b"v").unwrap();
        batch
    }
}
