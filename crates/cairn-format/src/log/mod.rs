//! The log file: records of any length in blocks of 32 KiB. WALs and MANIFESTs are log files.
//!
//! ```text
//! block            32768 bytes; a physical record never crosses its end
//! record           fixed32 masked crc of all behind it, fixed16 length, u8 type,
//!                  [recyclable: fixed32 low half of the file's number,] `length` bytes of payload
//! Full 1, First 2, Middle 3, Last 4                          a logical record in one piece, or cut
//! RFull 5, RFirst 6, RMiddle 7, RLast 8                      the same in a file used before
//! SetCompression 9                                           fixed32; only as the first record
//! TimestampSizes 10, recyclable 11                           (fixed32 family, fixed16 size)*
//! Predecessor 130, recyclable 131                            fixed64 number, size, last sequence
//! Veil 255                                                   bytes of a piece that is being stored
//! ```
//!
//! What does not fit behind a record (less than a header; for the metadata records from 9 on, less
//! than the record, which is never cut) is filled with zeros. A reader therefore skips the last
//! bytes of a block when they hold no header, and zeros where a header should be mean that nothing
//! was written there. Unknown types with bit 7 set are passed over, others are damage.
//!
//! A veil stands for a moment where a Middle or Last begins a block of a mapped file (see [`Veil`]): its header covers the
//! same bytes with another type. A reader of RocksDB passes over it, and over the pieces before it, in silence; so neither
//! piece of a record is ever there alone. Only a process that ended in that moment leaves one behind, at the end of its log.
//!
//! [`Veil`]: cairn_types::Veil
//!
//! [`LogWriter`] frames, [`LogReader`] unframes and names everything that it has to leave out, and
//! [`RecoveryMode`] says what a database does about that. None of them touches a file.

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

/// Bytes of a block.
pub const BLOCK_LEN: usize = 32 << 10;
/// Bytes in front of a record's payload.
pub const HEADER_LEN: usize = 7;
/// Bytes in front of a recyclable record's payload.
pub const RECYCLABLE_HEADER_LEN: usize = 11;

/// The types of physical records.
pub(crate) mod record_type {
    pub const FULL: u8 = 1;
    pub const FIRST: u8 = 2;
    pub const MIDDLE: u8 = 3;
    pub const LAST: u8 = 4;
    /// What is added to the four above in a recyclable log.
    pub const TO_RECYCLABLE: u8 = 4;
    pub const RECYCLABLE_FULL: u8 = 5;
    pub const RECYCLABLE_LAST: u8 = 8;
    pub const SET_COMPRESSION: u8 = 9;
    pub const TIMESTAMP_SIZES: u8 = 10;
    pub const RECYCLABLE_TIMESTAMP_SIZES: u8 = 11;
    pub const PREDECESSOR: u8 = 130;
    pub const RECYCLABLE_PREDECESSOR: u8 = 131;
    /// Of a piece that is being stored.
    pub const VEIL: u8 = 255;
    /// Unknown types with this bit may be passed over.
    pub const MAY_IGNORE: u8 = 0x80;
}

/// What the note that [`Predecessor::as_batch`] makes begins with, in a batch without writes: its length in front.
const NOTE: &[u8; 18] = b"\x03\x28cairn.log.before";

/// What a WAL says about the one before it: in a record of its own, as RocksDB does from version 10 on with
/// `track_and_verify_wals`, or in a batch, which every version of RocksDB reads over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predecessor {
    /// Its number.
    pub log_number: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// The sequence number at which its last batch begins, 0 if it has none.
    pub last_sequence: SequenceNumber,
}

impl Predecessor {
    /// Bytes of the encoding.
    pub const LEN: usize = 24;

    /// Reads the payload of a predecessor record.
    ///
    /// # Errors
    ///
    /// [`Malformed`] unless it has the right length and a sequence number of 56 bits.
    pub fn decode(payload: &[u8]) -> Decoded<Predecessor> {
        let mut input = Input::new(payload);
        let predecessor = Predecessor {
            log_number: input.fixed64()?,
            bytes: input.fixed64()?,
            last_sequence: SequenceNumber(input.fixed64()?),
        };
        if !input.is_empty() || predecessor.last_sequence > SequenceNumber::MAX {
            return Err(Malformed::at(0, "record about the log before is damaged"));
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

    /// A batch that writes nothing and says this in a LogData record: `cairn.log.before` and the encoding of
    /// [`Predecessor::encode`]. It is the first one of its log, and `next` the sequence number that the
    /// first write in the log gets.
    #[must_use]
    pub fn as_batch(&self, next: SequenceNumber) -> Vec<u8> {
        let mut batch = Vec::with_capacity(12 + NOTE.len() + Predecessor::LEN);
        batch.extend_from_slice(&next.0.to_le_bytes());
        batch.extend_from_slice(&[0; 4]);
        batch.extend_from_slice(NOTE);
        batch.extend_from_slice(&self.encode());
        batch
    }

    /// What `batch` says, and the number behind it, if it is one of [`Predecessor::as_batch`].
    #[must_use]
    pub fn from_batch(batch: &[u8]) -> Option<(Predecessor, SequenceNumber)> {
        let (next, rest) = batch.split_first_chunk()?;
        let stated = rest.strip_prefix(&[0; 4])?.strip_prefix(NOTE)?;
        let stated = Predecessor::decode(stated).ok()?;
        Some((stated, SequenceNumber(u64::from_le_bytes(*next))))
    }
}

/// The sizes of user-defined timestamps of some families, as a WAL states them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampSizes<'a>(&'a [[u8; 6]]);

impl<'a> TimestampSizes<'a> {
    /// Reads the payload of a timestamp-size record.
    ///
    /// # Errors
    ///
    /// [`Malformed`] unless it consists of whole pairs with sizes other than zero.
    pub fn decode(payload: &'a [u8]) -> Decoded<TimestampSizes<'a>> {
        let (pairs, rest) = payload.as_chunks::<6>();
        let sizes = TimestampSizes(pairs);
        if !rest.is_empty() || sizes.iter().any(|(_, size)| size == 0) {
            return Err(Malformed::at(0, "record of timestamp sizes is damaged"));
        }
        Ok(sizes)
    }

    /// Family and size in bytes, in the record's order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u16)> + use<'a> {
        self.0.iter().map(|&[a, b, c, d, low, high]| {
            (
                u32::from_le_bytes([a, b, c, d]),
                u16::from_le_bytes([low, high]),
            )
        })
    }
}
