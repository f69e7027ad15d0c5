//! The log format of WALs and MANIFESTs: records of any length in blocks of 32 KiB.
//!
//! ```text
//! block            32768 bytes; a physical record does not cross its end
//! record           fixed32 masked crc of the rest, fixed16 length, u8 type,
//!                  [recyclable: fixed32 low half of the file's number,] `length` bytes of payload
//! Full 1, First 2, Middle 3, Last 4                          a logical record, whole or fragmented
//! RFull 5, RFirst 6, RMiddle 7, RLast 8                      the same in a recycled file
//! SetCompression 9                                           fixed32; only as the first record
//! TimestampSizes 10, recyclable 11                           (fixed32 family, fixed16 size)*
//! Predecessor 130, recyclable 131                            fixed64 number, size, last sequence
//! Veil 255                                                   placeholder of a fragment being stored
//! ```
//!
//! If the rest of a block cannot hold a header (or the whole record, for metadata records, types 9
//! and up, which are never fragmented), it is filled with zeros. A reader therefore skips the end
//! of a block that is too short for a header, and treats zeros in place of a header as unwritten.
//! Unknown types with bit 7 set are ignored; others are damage.
//!
//! A veil temporarily replaces the header of a Middle or Last fragment at the start of a block of a
//! mapped file (see [`Veil`]): it covers the same bytes with another type. RocksDB's reader
//! silently ignores it together with the fragments before it, so that a record is never visible in
//! part. A veil remains only at the end of a log whose process died at that moment.
//!
//! [`Veil`]: cairn_types::Veil
//!
//! [`LogWriter`] fragments records, [`LogReader`] reassembles them and reports everything it drops,
//! and [`RecoveryMode`] defines the reaction of a database. None of them does I/O.

mod reader;
mod recovery_mode;
mod writer;

#[cfg(test)]
mod tests;

use cairn_types::{Decoded, Malformed, SequenceNumber};

pub use reader::{Bytes, Dropped, End, Event, LogReader, Reason, Source};
pub use recovery_mode::{RecoveryMode, Verdict};
pub use writer::{Framing, LogWriter};

use crate::coding::Input;

/// The length of a block.
pub const BLOCK_LEN: usize = 32 << 10;
/// The length of a record header.
pub const HEADER_LEN: usize = 7;
/// The length of a recyclable record header.
pub const RECYCLABLE_HEADER_LEN: usize = 11;

/// The types of physical records.
pub(crate) mod record_type {
    pub const FULL: u8 = 1;
    pub const FIRST: u8 = 2;
    pub const MIDDLE: u8 = 3;
    pub const LAST: u8 = 4;
    /// Added to the types above in a recyclable log.
    pub const TO_RECYCLABLE: u8 = 4;
    pub const RECYCLABLE_FULL: u8 = 5;
    pub const RECYCLABLE_LAST: u8 = 8;
    pub const SET_COMPRESSION: u8 = 9;
    pub const TIMESTAMP_SIZES: u8 = 10;
    pub const RECYCLABLE_TIMESTAMP_SIZES: u8 = 11;
    pub const PREDECESSOR: u8 = 130;
    pub const RECYCLABLE_PREDECESSOR: u8 = 131;
    /// Placeholder of a fragment being stored.
    pub const VEIL: u8 = 255;
    /// Unknown types with this bit are ignored.
    pub const MAY_IGNORE: u8 = 0x80;
}

/// The length-prefixed tag at the start of the data of [`Predecessor::as_batch`].
const NOTE: &[u8; 18] = b"\x03\x28cairn.log.before";

/// A summary of the preceding WAL, recorded in a WAL either as a separate record, as RocksDB 10 and
/// later do with `track_and_verify_wals`, or as a batch, which every version of RocksDB accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predecessor {
    /// The number.
    pub log_number: u64,
    /// The size in bytes.
    pub bytes: u64,
    /// The sequence number of its last batch, 0 if it has none.
    pub last_sequence: SequenceNumber,
}

impl Predecessor {
    /// The length of the encoding.
    pub const LEN: usize = 24;

    /// Decodes the payload of a predecessor record.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if its length is wrong or its sequence number exceeds 56 bits.
    pub fn decode(payload: &[u8]) -> Decoded<Predecessor> {
        let mut input = Input::new(payload);
        let predecessor = Predecessor {
            log_number: input.fixed64()?,
            bytes: input.fixed64()?,
            last_sequence: SequenceNumber(input.fixed64()?),
        };
        if !input.is_empty() || predecessor.last_sequence > SequenceNumber::MAX {
            return Err(Malformed::at(0, "predecessor record is damaged"));
        }
        Ok(predecessor)
    }

    /// The payload of a predecessor record.
    #[must_use]
    pub fn encode(&self) -> [u8; Predecessor::LEN] {
        let mut payload = [0; Predecessor::LEN];
        payload[..8].copy_from_slice(&self.log_number.to_le_bytes());
        payload[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        payload[16..].copy_from_slice(&self.last_sequence.0.to_le_bytes());
        payload
    }

    /// Encodes the summary as a batch without writes, in a LogData record: `cairn.log.before` and the result
    /// of [`Predecessor::encode`]. It is the first batch of its log, and `next` is the sequence number of the
    /// first write in the log.
    #[must_use]
    pub fn as_batch(&self, next: SequenceNumber) -> Vec<u8> {
        let mut batch = Vec::with_capacity(12 + NOTE.len() + Predecessor::LEN);
        batch.extend_from_slice(&next.0.to_le_bytes());
        batch.extend_from_slice(&[0; 4]);
        batch.extend_from_slice(NOTE);
        batch.extend_from_slice(&self.encode());
        batch
    }

    /// The summary in `batch` and the sequence number of the batch, if [`Predecessor::as_batch`]
    /// made it.
    #[must_use]
    pub fn from_batch(batch: &[u8]) -> Option<(Predecessor, SequenceNumber)> {
        let (next, rest) = batch.split_first_chunk()?;
        let stated = rest.strip_prefix(&[0; 4])?.strip_prefix(NOTE)?;
        let stated = Predecessor::decode(stated).ok()?;
        Some((stated, SequenceNumber(u64::from_le_bytes(*next))))
    }
}

/// The user-defined timestamp sizes of column families, as recorded in a WAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampSizes<'a>(&'a [[u8; 6]]);

impl<'a> TimestampSizes<'a> {
    /// Decodes the payload of a timestamp-size record.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if a pair is incomplete or a size is zero.
    pub fn decode(payload: &'a [u8]) -> Decoded<TimestampSizes<'a>> {
        let (pairs, rest) = payload.as_chunks::<6>();
        let sizes = TimestampSizes(pairs);
        if !rest.is_empty() || sizes.iter().any(|(_, size)| size == 0) {
            return Err(Malformed::at(0, "timestamp size record is damaged"));
        }
        Ok(sizes)
    }

    /// Column family id and size in bytes, in the order of the record.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u16)> + use<'a> {
        self.0.iter().map(|&[a, b, c, d, low, high]| {
            (
                u32::from_le_bytes([a, b, c, d]),
                u16::from_le_bytes([low, high]),
            )
        })
    }
}
