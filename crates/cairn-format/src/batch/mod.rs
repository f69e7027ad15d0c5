//! Write batches: sets of changes that are applied atomically, and the payload of WAL records.
//!
//! ```text
//! offset  size  header
//!      0     8  sequence number of the first counted record
//!      8     4  number of counted records
//!     12        records
//!
//! tag of the default family / of another   followed by (with its id as varint32 first, if another)
//! Value 01/05, Merge 02/06                 key, value
//! Deletion 00/04, SingleDeletion 07/08     key
//! RangeDeletion 0f/0e                      begin (inclusive), end (exclusive)
//! BlobIndex 11/10                          key, blob index
//! WideColumnEntity 16/17                   key, entity
//! ValuePreferredSeqno 18/19                key, value followed by a fixed64 of unix seconds
//! LogData 03                               bytes
//! Noop 0d, BeginPrepare 09, 12, 13         nothing
//! EndPrepare 0a, Commit 0b, Rollback 0c    name of the transaction
//! CommitWithTimestamp 15                   timestamp, name of the transaction
//! ```
//!
//! Keys, values and names have a varint32 length prefix. Records that change a key are counted: record k of
//! them, from zero, has the header's sequence number plus k. LogData, Noop and the markers of two-phase
//! commit are not counted.
//!
//! [`WriteBatch`] builds a batch, [`BatchRef`] reads it in place. Neither checks column families or size
//! limits.

mod builder;

#[cfg(test)]
mod tests;

use cairn_types::{Decoded, Malformed, SequenceNumber, ValueKind};

pub use builder::{Mark, WriteBatch, check_entry};

use crate::coding::Input;

/// The length of the header.
pub const HEADER_LEN: usize = 12;

/// The maximum length of a key: its internal key has 8 more bytes, and lengths have 32 bits. As in RocksDB.
pub const MAX_KEY_LEN: usize = u32::MAX as usize - 8;

/// The maximum length of a value alone. A key and its value together have at most
/// [`crate::block::MAX_ENTRY_LEN`] bytes.
pub const MAX_VALUE_LEN: usize = u32::MAX as usize;

/// The id of the default column family.
pub const DEFAULT_FAMILY: u32 = 0;

/// A record of a batch, borrowed from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are documented at their variants")]
pub enum Record<'a> {
    /// Sets `key` to `value`.
    Put {
        family: u32,
        key: &'a [u8],
        value: &'a [u8],
    },
    /// Deletes `key`.
    Delete { family: u32, key: &'a [u8] },
    /// Deletes the single put of `key`.
    SingleDelete { family: u32, key: &'a [u8] },
    /// Merges `operand` into `key`.
    Merge {
        family: u32,
        key: &'a [u8],
        operand: &'a [u8],
    },
    /// Deletes the keys from `begin` up to, but excluding, `end`.
    DeleteRange {
        family: u32,
        begin: &'a [u8],
        end: &'a [u8],
    },
    /// Sets `key` to `entity`, encoded as in [`crate::wide`].
    PutEntity {
        family: u32,
        key: &'a [u8],
        entity: &'a [u8],
    },
    /// Sets `key` to the value in a blob file at `index`, encoded as in [`crate::blob`].
    PutBlobIndex {
        family: u32,
        key: &'a [u8],
        index: &'a [u8],
    },
    /// Sets `key` to `value`, with the write time `unix_seconds`.
    TimedPut {
        family: u32,
        key: &'a [u8],
        value: &'a [u8],
        unix_seconds: u64,
    },
    /// Data for readers of the WAL, ignored by the LSM tree.
    LogData(&'a [u8]),
    /// A no-op.
    Noop,
    /// The start of a prepared section, with its write policy.
    BeginPrepare(PreparePolicy),
    /// The end of the prepared section of transaction `name`.
    EndPrepare { name: &'a [u8] },
    /// The commit of transaction `name`.
    Commit { name: &'a [u8] },
    /// The commit of transaction `name` at `timestamp`.
    CommitWithTimestamp { timestamp: &'a [u8], name: &'a [u8] },
    /// The rollback of transaction `name`.
    Rollback { name: &'a [u8] },
}

/// The write policy of a transaction: when its data is written to the WAL and the memtable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreparePolicy {
    /// To the memtable at commit.
    WriteCommitted,
    /// To the memtable at prepare.
    WritePrepared,
    /// To the WAL and the memtable before prepare.
    WriteUnprepared,
}

impl Record<'_> {
    /// True if the record takes a sequence number.
    #[inline]
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.family().is_some()
    }

    /// The column family whose keys the record changes, if any.
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

/// A write batch, read in place.
#[derive(Clone, Copy, Debug)]
pub struct BatchRef<'a> {
    bytes: &'a [u8],
    sequence: SequenceNumber,
    count: u32,
}

impl<'a> BatchRef<'a> {
    /// Decodes the header. Records are decoded one at a time by [`BatchRef::records`].
    ///
    /// # Errors
    ///
    /// [`Malformed`] if the header is truncated, or a sequence number of its records exceeds 56 bits.
    pub fn parse(bytes: &'a [u8]) -> Decoded<BatchRef<'a>> {
        let mut input = Input::new(bytes);
        let sequence = input.fixed64()?;
        let count = input.fixed32()?;
        let last = sequence.saturating_add(u64::from(count.saturating_sub(1)));
        if last > SequenceNumber::MAX.0 {
            return Err(Malformed::mismatch(
                0,
                "last sequence number of the batch",
                "at most 2^56 - 1",
                last,
            ));
        }
        Ok(BatchRef {
            bytes,
            sequence: SequenceNumber(sequence),
            count,
        })
    }

    /// The sequence number of the first counted record.
    #[must_use]
    pub fn sequence(&self) -> SequenceNumber {
        self.sequence
    }

    /// The number of counted records, according to the header.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Header and records.
    #[must_use]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The records in order. The iterator ends after the first error. Without an error, the number
    /// of counted records matches the header.
    #[inline]
    #[must_use]
    pub fn records(&self) -> Records<'a> {
        let mut input = Input::new(self.bytes);
        let header = input.take(HEADER_LEN).is_ok();
        debug_assert!(header, "parse() has validated the header");
        Records {
            input,
            expected: self.count,
            found: 0,
            ended: false,
        }
    }

    /// Decodes the record at offset `at`, as returned by [`Records::at`].
    ///
    /// # Errors
    ///
    /// [`Malformed`] if there is no valid record.
    pub fn record_at(&self, at: usize) -> Decoded<Record<'a>> {
        let mut input = Input::new(self.bytes);
        input.take(at)?;
        read_record(&mut input)
    }

    /// Decodes the record at offset `at`, and returns it with the offset after it.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if there is no valid record.
    pub fn record_from(&self, at: usize) -> Decoded<(Record<'a>, usize)> {
        let mut input = Input::new(self.bytes);
        input.take(at)?;
        let record = read_record(&mut input)?;
        Ok((record, input.at()))
    }

    /// Decodes and validates all records.
    ///
    /// # Errors
    ///
    /// [`Malformed`], as from the iterator of [`BatchRef::records`].
    pub fn check(&self) -> Decoded<()> {
        self.records().try_for_each(|record| record.map(|_| ()))
    }
}

/// An iterator over the records of a batch.
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

impl<'a> Records<'a> {
    /// Returns the key and value of the next record if that is a put in the default family with lengths of at most two
    /// bytes, by far the most common record. Otherwise the iterator is unchanged.
    #[inline]
    pub fn next_put(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        let bytes = self.input.rest();
        let (&tag, rest) = bytes.split_first()?;
        if tag != ValueKind::Value as u8 || self.ended {
            return None;
        }
        let (key, rest) = short_lps(rest)?;
        let (value, rest) = short_lps(rest)?;
        let taken = self.input.take(bytes.len() - rest.len());
        debug_assert!(taken.is_ok(), "the record is within the input");
        self.found = self.found.saturating_add(1);
        Some((key, value))
    }

    /// The offset of the next record in the batch.
    #[must_use]
    pub fn at(&self) -> usize {
        self.input.at()
    }

    fn miscount(&self) -> Option<Malformed> {
        (self.found != self.expected)
            .then(|| Malformed::mismatch(8, "count of the write batch", self.expected, self.found))
    }
}

/// Splits off a slice at the start of `bytes` whose length takes at most two bytes.
#[inline]
fn short_lps(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    match *bytes {
        [len @ 0..0x80, ref rest @ ..] => rest.split_at_checked(usize::from(len)),
        [low, high @ 0..0x80, ref rest @ ..] => {
            rest.split_at_checked(usize::from(low & 0x7f) | usize::from(high) << 7)
        }
        _ => None,
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
        .ok_or_else(|| Malformed::at(at, "timed put without a time"))?;
    Ok(Record::TimedPut {
        family,
        key,
        value,
        unix_seconds: u64::from_le_bytes(*time),
    })
}

#[cold]
fn unknown_tag(at: usize, tag: u8) -> Malformed {
    Malformed::at(at, format!("unknown write batch tag {tag:#04x}"))
}
