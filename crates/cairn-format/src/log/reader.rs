//! The log reader, which reassembles logical records and reports dropped bytes.
//!
//! The reader reports damage and leaves the reaction to the caller, who may continue after an
//! [`Event::Dropped`]. Records, dropped ranges, padding and trailing zeros account for every byte
//! of the file.
//!
//! Unfragmented records are returned in place. Others are reassembled in a buffer, which grows with the data
//! actually read.

use std::fmt;
use std::ops::Range;

use cairn_types::Result;

use super::record_type as rt;
use super::writer::{in_block, low_half};
use super::{BLOCK_LEN, HEADER_LEN, Predecessor, RECYCLABLE_HEADER_LEN, TimestampSizes};
use crate::checksum::{crc32c, mask};

/// The size of an atomic device write. A record stored from front to back has a non-zero byte within this
/// distance of its header; a longer run of zeros is a lost sector.
const SECTOR_LEN: usize = 512;
/// The length of the part of a record in a mapped file that is stored last.
const HEAD_LEN: usize = 8;

/// The source of a reader's data.
pub trait Source {
    /// Reads `buf.len()` bytes at `offset`, or fewer at the end of the file. Returns the number of bytes
    /// read.
    ///
    /// # Errors
    ///
    /// Those of the file system. They stop the reader and are never mistaken for the end of the
    /// file.
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<usize>;
}

impl<F: FnMut(u64, &mut [u8]) -> Result<usize>> Source for F {
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self(offset, buf)
    }
}

/// A whole log in memory.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a>(pub &'a [u8]);

impl Source for Bytes<'_> {
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let start = usize::try_from(offset).map_or(self.0.len(), |at| at.min(self.0.len()));
        let rest = &self.0[start..];
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
}

/// An event of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A logical record.
    Record {
        /// The offset of its first fragment.
        offset: u64,
        /// Its content, compressed if the log is compressed.
        payload: &'a [u8],
    },
    /// The records that follow are compressed with the codec of this number.
    Compression(u32),
    /// The user-defined timestamp sizes of the records that follow.
    TimestampSizes(TimestampSizes<'a>),
    /// The summary of the preceding log.
    Predecessor(Predecessor),
    /// Bytes were dropped.
    Dropped(Dropped),
    /// The end of the file. Returned again by later calls.
    End(End),
}

/// A range of bytes without a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The start of the range, including fragments of a record whose other fragments are bad.
    pub offset: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// The reason.
    pub reason: Reason,
}

/// The end of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The size of the file.
    pub offset: u64,
    /// The number of trailing zeros: space that was reserved but not written.
    pub zeros: u64,
}

/// The reason bytes were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The file ends within a header.
    TornHeader,
    /// The file ends within a record, or has only zeros from a sector of the record on.
    TornBody,
    /// The file ends between fragments of a record.
    TornRecord,
    /// A checksum does not match. The rest of the block is dropped, as its lengths are unreliable.
    BadChecksum,
    /// A record would cross the end of its block. The rest of the block is dropped.
    BadLength,
    /// Zeros in place of a record, followed by records. The rest of the block is dropped.
    Zeroed,
    /// A veil, or zeros in place of a header closely followed by other data, with no record after
    /// the block: the state of a mapped file whose process died while it stored records.
    Unfinished,
    /// A record of an unknown type that cannot be ignored.
    UnknownType(u8),
    /// A fragment without those before it.
    MissingStart,
    /// Fragments without those after them.
    MissingEnd,
    /// A recyclable record in a log of legacy records, or the reverse.
    MixedFraming,
    /// A metadata record of this type with an invalid payload, or at an invalid position.
    BadMetadata(u8),
    /// A record of a compressed log with a correct checksum that cannot be decompressed. Reported by the
    /// layer that decompresses.
    BadCompression,
    /// A record of the previous log in a recycled file, with that log's number.
    OldLogNumber(u32),
}

impl Reason {
    /// True if the file merely ends early, as after an interrupted write.
    #[must_use]
    pub fn is_torn(self) -> bool {
        matches!(
            self,
            Reason::TornHeader | Reason::TornBody | Reason::TornRecord | Reason::Unfinished
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::TornHeader => f.write_str("file ends within the header of a record"),
            Reason::TornBody => f.write_str("file ends within a record"),
            Reason::TornRecord => f.write_str("file ends between fragments of a record"),
            Reason::BadChecksum => f.write_str("record checksum does not match"),
            Reason::BadLength => f.write_str("record is longer than its block"),
            Reason::Zeroed => f.write_str("zeros between records"),
            Reason::Unfinished => f.write_str("file ends with a record that has no header"),
            Reason::UnknownType(kind) => write!(f, "record of unknown type {kind}"),
            Reason::MissingStart => f.write_str("fragment of a record without its start"),
            Reason::MissingEnd => f.write_str("record without its end"),
            Reason::MixedFraming => f.write_str("recyclable and other records in one file"),
            Reason::BadMetadata(kind) => write!(f, "damaged metadata record of type {kind}"),
            Reason::BadCompression => f.write_str("record cannot be decompressed"),
            Reason::OldLogNumber(number) => write!(f, "record of previous log {number}"),
        }
    }
}

/// A sequential reader of a log file.
#[derive(Debug)]
pub struct LogReader<S> {
    window: Window<S>,
    /// The lower half of the file's number, if records must match it.
    log_number: Option<u32>,
    /// The offset of the next physical record.
    at: u64,
    /// The end of the last record or metadata returned.
    whole_up_to: u64,
    /// True if records are recyclable; `None` before the first record.
    recycled: Option<bool>,
    /// The start of the record whose fragments are being collected.
    pieces_from: Option<u64>,
    pieces: Vec<u8>,
    /// The start of zeros up to `at` that may be padding, a hole, or the unwritten end.
    zeros_from: Option<u64>,
    ignored: u64,
    current: Step,
}

/// The result of one physical record.
#[derive(Debug)]
enum Step {
    Again,
    InWindow { offset: u64, payload: Range<usize> },
    InPieces { offset: u64 },
    Metadata { kind: u8, payload: Range<usize> },
    Dropped(Dropped),
    End(End),
}

/// A physical record with a correct checksum.
struct Physical {
    offset: u64,
    kind: u8,
    log_number: Option<u32>,
    /// In the window.
    payload: Range<usize>,
    /// Header and payload.
    len: u64,
}

impl<S: Source> LogReader<S> {
    /// Creates a reader of the log in `source` with `number`, which is zero for a MANIFEST.
    pub fn new(source: S, number: u64) -> LogReader<S> {
        LogReader::starting_at(source, number, 0)
    }

    /// Creates a reader that starts at `offset`, the start of a physical record.
    pub fn starting_at(source: S, number: u64, offset: u64) -> LogReader<S> {
        LogReader {
            window: Window::new(source),
            log_number: Some(low_half(number)),
            at: offset,
            whole_up_to: offset,
            recycled: None,
            pieces_from: None,
            pieces: Vec::new(),
            zeros_from: None,
            ignored: 0,
            current: Step::Again,
        }
    }

    /// Accepts recyclable records of any log, for tools that do not know the file's name.
    #[must_use]
    pub fn of_any_number(mut self) -> LogReader<S> {
        self.log_number = None;
        self
    }

    /// True if the file has recyclable records; false before the first record.
    #[must_use]
    pub fn is_recycled(&self) -> bool {
        self.recycled == Some(true)
    }

    /// The end of the last record or metadata returned. To follow a growing file, start a new
    /// reader there with [`LogReader::starting_at`].
    #[must_use]
    pub fn whole_up_to(&self) -> u64 {
        self.whole_up_to
    }

    /// The number of records of unknown types that were ignored.
    #[must_use]
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Advances to the next event and returns it.
    ///
    /// # Errors
    ///
    /// As [`LogReader::advance`].
    #[expect(
        clippy::should_implement_trait,
        reason = "an event borrows from the reader, which `Iterator` cannot express"
    )]
    pub fn next(&mut self) -> Result<Event<'_>> {
        self.advance()?;
        Ok(self.event())
    }

    /// Advances to the next event.
    ///
    /// # Errors
    ///
    /// Those of the source. Damage is not an error but an [`Event::Dropped`].
    pub fn advance(&mut self) -> Result<()> {
        // The data borrowed by the last event may now be overwritten.
        self.current = Step::Again;
        loop {
            match self.step()? {
                Step::Again => {}
                step => {
                    self.current = step;
                    return Ok(());
                }
            }
        }
    }

    /// Continues past the end of a file that has grown. Returns the source so that it can be
    /// updated.
    pub fn go_on(&mut self) -> &mut S {
        if let Some(from) = self.zeros_from.take() {
            self.at = from;
        }
        self.current = Step::Again;
        self.window.forget();
        self.window.next_len = BLOCK_LEN;
        &mut self.window.source
    }

    /// Returns to the end of the last record or metadata that was returned, to read anew what another process has
    /// changed since: it may have completed a record, or replaced a hidden one.
    pub fn reread(&mut self) {
        self.at = self.whole_up_to;
        self.pieces_from = None;
        self.zeros_from = None;
        self.current = Step::Again;
        self.window.forget();
        self.window.next_len = BLOCK_LEN;
    }

    /// The current event.
    ///
    /// # Panics
    ///
    /// Before the first [`LogReader::advance`], and after one that failed.
    #[must_use]
    pub fn event(&self) -> Event<'_> {
        match &self.current {
            Step::Again => panic!("the reader has no current event"),
            Step::InWindow { offset, payload } => Event::Record {
                offset: *offset,
                payload: &self.window.bytes[payload.clone()],
            },
            Step::InPieces { offset } => Event::Record {
                offset: *offset,
                payload: &self.pieces,
            },
            Step::Metadata { kind, payload } => {
                let payload = &self.window.bytes[payload.clone()];
                metadata(*kind, payload).expect("the metadata was validated")
            }
            Step::Dropped(dropped) => Event::Dropped(*dropped),
            Step::End(end) => Event::End(*end),
        }
    }

    /// Examines the next bytes, up to one physical record.
    fn step(&mut self) -> Result<Step> {
        let room = BLOCK_LEN - in_block(self.at);
        if room < HEADER_LEN {
            self.at += room as u64;
            return Ok(Step::Again);
        }
        let mut rest = self.window.rest_of_block(self.at)?;
        if rest.is_empty() {
            return Ok(self.end());
        }
        let cut_by_end = rest.len() < room;
        let header = rest.start..rest.end.min(rest.start + HEADER_LEN);
        if is_zero(&self.window.bytes[header]) {
            return self.zeros(rest);
        }
        if is_veil(&self.window.bytes[rest.clone()]) {
            if let Some(unfinished) = self.veiled(rest.len())? {
                return Ok(unfinished);
            }
            rest = self.window.rest_of_block(self.at)?;
        }
        if let Some(hole) = self.hole_before(&rest) {
            return Ok(hole);
        }
        match self.physical(rest.clone(), cut_by_end) {
            Ok(record) => Ok(self.logical(record)),
            Err(reason) => {
                let bad = self.at;
                self.note_framing(rest.clone());
                let is_torn = matches!(reason, Reason::BadChecksum | Reason::BadLength)
                    && self.lacks_its_end(rest.clone())?;
                self.at += rest.len() as u64;
                let reason = if is_torn { Reason::TornBody } else { reason };
                Ok(self.dropped(reason, bad))
            }
        }
    }

    /// Notes that records are recyclable if the first one, at the start of `rest`, is damaged but has the number of the file:
    /// the previous log may follow it.
    fn note_framing(&mut self, rest: Range<usize>) {
        let bytes = &self.window.bytes[rest];
        let Some(&[.., kind, n0, n1, n2, n3]) = bytes.first_chunk::<RECYCLABLE_HEADER_LEN>() else {
            return;
        };
        let number = u32::from_le_bytes([n0, n1, n2, n3]);
        if is_recyclable(kind) && self.log_number.is_none_or(|expected| expected == number) {
            self.recycled.get_or_insert(true);
        }
    }

    /// True if the record at the start of `rest`, the rest of its block, has only zeros from a sector on, and nothing is stored
    /// after it: a mapped file, which is longer than its content, after a power failure.
    fn lacks_its_end(&mut self, rest: Range<usize>) -> Result<bool> {
        let bytes = &self.window.bytes[rest];
        let Some(&[.., low, high, kind]) = bytes.first_chunk::<HEADER_LEN>() else {
            return Ok(false);
        };
        let len = header_len(kind) + usize::from(u16::from_le_bytes([low, high]));
        let end = self.at + len.min(bytes.len()) as u64;
        let zeros = bytes.iter().rev().take_while(|&&byte| byte == 0).count();
        let stored = self.at + (bytes.len() - zeros) as u64;
        let next = self.at + (BLOCK_LEN - in_block(self.at)) as u64;
        Ok(stored.next_multiple_of(SECTOR_LEN as u64) < end && self.only_zeros_from(next)?)
    }

    /// Validates the record at the start of `rest`, the rest of its block.
    fn physical(&self, rest: Range<usize>, cut_by_end: bool) -> Result<Physical, Reason> {
        let (too_short, too_long) = match cut_by_end {
            true => (Reason::TornHeader, Reason::TornBody),
            false => (Reason::BadLength, Reason::BadLength),
        };
        let bytes = &self.window.bytes[rest.clone()];
        let Some(&[c0, c1, c2, c3, low, high, kind]) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(too_short);
        };
        let header_len = header_len(kind);
        if bytes.len() < header_len {
            return Err(too_short);
        }
        let len = header_len + usize::from(u16::from_le_bytes([low, high]));
        if bytes.len() < len {
            return Err(too_long);
        }
        if mask(crc32c(&bytes[6..len])) != u32::from_le_bytes([c0, c1, c2, c3]) {
            return Err(Reason::BadChecksum);
        }
        let number = bytes[HEADER_LEN..header_len].first_chunk();
        Ok(Physical {
            offset: self.at,
            kind,
            log_number: number.map(|&number| u32::from_le_bytes(number)),
            payload: rest.start + header_len..rest.start + len,
            len: len as u64,
        })
    }

    /// Consumes `record`, and combines it with the fragments before it.
    fn logical(&mut self, record: Physical) -> Step {
        if let Some(reason) = self.refused(&record) {
            if let (Reason::OldLogNumber(_), Some(from)) = (reason, self.pieces_from.take()) {
                // The new content ends between fragments. The record is examined again.
                return Step::Dropped(Dropped {
                    offset: from,
                    bytes: record.offset - from,
                    reason: Reason::TornRecord,
                });
            }
            self.at += record.len;
            return self.dropped(reason, record.offset);
        }
        let kind = match record.kind {
            kind @ rt::RECYCLABLE_FULL..=rt::RECYCLABLE_LAST => kind - rt::TO_RECYCLABLE,
            kind => kind,
        };
        match kind {
            rt::FULL | rt::FIRST => self.starting_piece(record, kind == rt::FULL),
            rt::MIDDLE | rt::LAST => self.following_piece(record, kind == rt::LAST),
            kind if is_metadata(kind) => self.metadata(record),
            kind => {
                self.at += record.len;
                if kind == rt::VEIL && self.pieces_from.is_some() {
                    return self.dropped(Reason::MissingEnd, record.offset);
                }
                if kind & rt::MAY_IGNORE == 0 {
                    return self.dropped(Reason::UnknownType(kind), record.offset);
                }
                self.ignored += 1;
                Step::Again
            }
        }
    }

    /// The reason `record` does not belong to this file, if there is one.
    fn refused(&mut self, record: &Physical) -> Option<Reason> {
        if let (Some(found), Some(expected)) = (record.log_number, self.log_number)
            && found != expected
        {
            self.recycled.get_or_insert(true);
            return Some(Reason::OldLogNumber(found));
        }
        let says_framing = (rt::FULL..=rt::RECYCLABLE_LAST).contains(&record.kind)
            || (is_metadata(record.kind) && record.kind != rt::SET_COMPRESSION);
        if !says_framing {
            return None;
        }
        let recyclable = record.log_number.is_some();
        let mixed = *self.recycled.get_or_insert(recyclable) != recyclable;
        mixed.then_some(Reason::MixedFraming)
    }

    fn starting_piece(&mut self, record: Physical, whole: bool) -> Step {
        if let Some(from) = self.pieces_from.take() {
            // Old writers could end a block with an empty first fragment and then restart the
            // record.
            if !self.pieces.is_empty() {
                // The record is examined again by the next step.
                return Step::Dropped(Dropped {
                    offset: from,
                    bytes: record.offset - from,
                    reason: Reason::MissingEnd,
                });
            }
        }
        self.at += record.len;
        if whole {
            self.whole_up_to = self.at;
            return Step::InWindow {
                offset: record.offset,
                payload: record.payload,
            };
        }
        self.pieces.clear();
        self.pieces
            .extend_from_slice(&self.window.bytes[record.payload]);
        self.pieces_from = Some(record.offset);
        Step::Again
    }

    fn following_piece(&mut self, record: Physical, last: bool) -> Step {
        self.at += record.len;
        let Some(offset) = self.pieces_from else {
            return Step::Dropped(Dropped {
                offset: record.offset,
                bytes: record.len,
                reason: Reason::MissingStart,
            });
        };
        self.pieces
            .extend_from_slice(&self.window.bytes[record.payload]);
        if !last {
            return Step::Again;
        }
        self.pieces_from = None;
        self.whole_up_to = self.at;
        Step::InPieces { offset }
    }

    fn metadata(&mut self, record: Physical) -> Step {
        self.at += record.len;
        let misplaced = record.kind == rt::SET_COMPRESSION && record.offset != 0;
        if misplaced || metadata(record.kind, &self.window.bytes[record.payload.clone()]).is_none()
        {
            return self.dropped(Reason::BadMetadata(record.kind), record.offset);
        }
        if self.pieces_from.is_none() {
            self.whole_up_to = self.at;
        }
        Step::Metadata {
            kind: record.kind,
            payload: record.payload,
        }
    }

    /// Handles the end of the file, at `at` or at the start of the zeros before it.
    fn end(&mut self) -> Step {
        let size = self.window.file_end.unwrap_or(self.at);
        let written = self.zeros_from.unwrap_or(size).min(size);
        if let Some(from) = self.pieces_from.take() {
            return Step::Dropped(Dropped {
                offset: from,
                bytes: written - from,
                reason: Reason::TornRecord,
            });
        }
        Step::End(End {
            offset: size,
            zeros: size - written,
        })
    }

    /// Handles `rest`, the rest of a block that starts with zeros.
    fn zeros(&mut self, rest: Range<usize>) -> Result<Step> {
        let block = self.at;
        let only_zeros = is_zero(&self.window.bytes[rest.clone()]);
        let from = *self.zeros_from.get_or_insert(self.at);
        self.at += rest.len() as u64;
        if only_zeros {
            return Ok(Step::Again);
        }
        self.zeros_from = None;
        let bytes = &self.window.bytes[rest];
        let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
        let is_begun = match from == block {
            true => (HEAD_LEN..SECTOR_LEN).contains(&zeros),
            false => zeros >= HEAD_LEN && is_in_block_before(from, block),
        };
        if is_begun && self.only_hidden_from(self.at)? {
            return Ok(self.dropped(Reason::Unfinished, from));
        }
        // In the meantime a concurrent writer may have completed the record and written others
        // after it.
        self.window.forget();
        let again = self.window.rest_of_block(block)?;
        if !is_zero(
            self.window.bytes[again]
                .first_chunk::<HEADER_LEN>()
                .unwrap_or(&[0; HEADER_LEN]),
        ) {
            self.at = block;
            self.zeros_from = (from < block).then_some(from);
            return Ok(Step::Again);
        }
        Ok(self.dropped(Reason::Zeroed, from))
    }

    /// Drops the fragments of a record up to `at`, where a block with a veil starts, and `len`
    /// bytes of that block, if no record follows the block.
    fn veiled(&mut self, len: usize) -> Result<Option<Step>> {
        let (at, zeros, pieces) = (self.at, self.zeros_from, self.pieces_from);
        let from = match (pieces, zeros) {
            (None, None) => at,
            (Some(from), None) => from,
            (None, Some(from)) if is_in_block_before(from, at) => from,
            _ => return Ok(None),
        };
        let end = at + len as u64;
        let block = self.window.rest_of_block(at)?;
        let bytes = &self.window.bytes[block];
        let piece = HEADER_LEN + usize::from(u16::from_le_bytes([bytes[4], bytes[5]]));
        let is_last = bytes.get(piece..).is_none_or(is_zero);
        if in_block(at) != 0 || !is_last || !self.only_hidden_from(end)? {
            return Ok(None);
        }
        self.at = end;
        self.zeros_from = None;
        Ok(Some(self.dropped(Reason::Unfinished, from)))
    }

    /// True if no record is stored at or after `at`, the start of a block: the block's first
    /// fragment may be incomplete, and nothing follows it.
    fn only_hidden_from(&mut self, at: u64) -> Result<bool> {
        let rest = self.window.rest_of_block(at)?;
        let bytes = &self.window.bytes[rest];
        let is_begun = is_zero(&bytes[..bytes.len().min(HEAD_LEN)]) || is_veil(bytes);
        Ok(is_begun && self.only_zeros_from(at + BLOCK_LEN as u64)?)
    }

    /// True if the file has only zeros at and after `at`, the start of a block.
    fn only_zeros_from(&mut self, mut at: u64) -> Result<bool> {
        loop {
            let rest = self.window.rest_of_block(at)?;
            let bytes = &self.window.bytes[rest];
            if bytes.is_empty() || !is_zero(bytes) {
                return Ok(bytes.is_empty());
            }
            at += BLOCK_LEN as u64;
        }
    }

    /// Reports the zeros up to `at`, the start of a record, if they are more than padding.
    fn hole_before(&mut self, rest: &Range<usize>) -> Option<Step> {
        let from = self.zeros_from.take()?;
        let zeros = self.at - from;
        let kind = self.window.bytes[rest.clone()].get(HEADER_LEN - 1).copied();
        let within_one_block = zeros <= (BLOCK_LEN - in_block(from)) as u64;
        let before_metadata = kind.is_some_and(is_metadata) && within_one_block;
        if zeros < RECYCLABLE_HEADER_LEN as u64 || before_metadata {
            return None;
        }
        Some(self.dropped(Reason::Zeroed, from))
    }

    /// Drops the bytes from `bad` to `at`, and the fragments collected before them.
    fn dropped(&mut self, reason: Reason, bad: u64) -> Step {
        let offset = self.pieces_from.take().unwrap_or(bad);
        Step::Dropped(Dropped {
            offset,
            bytes: self.at - offset,
            reason,
        })
    }
}

/// True if `from` is in the block before the one of `at`, and so close to its end that a record
/// starting there may have only zeros in that block.
fn is_in_block_before(from: u64, at: u64) -> bool {
    let block = at - in_block(at) as u64;
    block
        .checked_sub(SECTOR_LEN as u64)
        .is_some_and(|close| (close..block).contains(&from))
}

/// True if a block, or the rest of one, starts with the header of a veil.
fn is_veil(bytes: &[u8]) -> bool {
    bytes.get(HEADER_LEN - 1) == Some(&rt::VEIL)
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

/// The length of the header of a record of type `kind`.
fn header_len(kind: u8) -> usize {
    match is_recyclable(kind) {
        true => RECYCLABLE_HEADER_LEN,
        false => HEADER_LEN,
    }
}

fn is_recyclable(kind: u8) -> bool {
    matches!(
        kind,
        rt::RECYCLABLE_FULL
            ..=rt::RECYCLABLE_LAST | rt::RECYCLABLE_TIMESTAMP_SIZES | rt::RECYCLABLE_PREDECESSOR
    )
}

fn is_metadata(kind: u8) -> bool {
    matches!(
        kind,
        rt::SET_COMPRESSION
            | rt::TIMESTAMP_SIZES
            | rt::RECYCLABLE_TIMESTAMP_SIZES
            | rt::PREDECESSOR
            | rt::RECYCLABLE_PREDECESSOR
    )
}

fn metadata(kind: u8, payload: &[u8]) -> Option<Event<'_>> {
    match kind {
        rt::SET_COMPRESSION => {
            let kind = payload.try_into().ok()?;
            Some(Event::Compression(u32::from_le_bytes(kind)))
        }
        rt::TIMESTAMP_SIZES | rt::RECYCLABLE_TIMESTAMP_SIZES => TimestampSizes::decode(payload)
            .ok()
            .map(Event::TimestampSizes),
        _ => Predecessor::decode(payload).ok().map(Event::Predecessor),
    }
}

/// Consecutive whole blocks of the file, held in memory.
struct Window<S> {
    source: S,
    bytes: Vec<u8>,
    /// The file offset of the first one.
    from: u64,
    /// The number of blocks to read next, which doubles each time, so that a small file takes little memory.
    next_len: usize,
    /// The end of the file, once reached.
    file_end: Option<u64>,
}

impl<S> fmt::Debug for Window<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes from {}", self.bytes.len(), self.from)
    }
}

impl<S: Source> Window<S> {
    const MAX_LEN: usize = 1 << 20;

    fn new(source: S) -> Window<S> {
        Window {
            source,
            bytes: Vec::new(),
            from: 0,
            next_len: BLOCK_LEN,
            file_end: None,
        }
    }

    /// The range in `bytes` of the rest of the block that starts at `at`; shorter or empty at the end of the
    /// file.
    fn rest_of_block(&mut self, at: u64) -> Result<Range<usize>> {
        let block = at - in_block(at) as u64;
        let end = block.saturating_add(BLOCK_LEN as u64);
        let held = self.from..self.from + self.bytes.len() as u64;
        let wanted_end = self.file_end.map_or(end, |file_end| end.min(file_end));
        if at < wanted_end && !(held.contains(&block) && wanted_end <= held.end) {
            self.read(block)?;
        }
        let clip = |offset: u64| {
            usize::try_from(offset.saturating_sub(self.from))
                .map_or(self.bytes.len(), |at| at.min(self.bytes.len()))
        };
        Ok(clip(at)..clip(end))
    }

    /// Discards the window, so that data is read again.
    fn forget(&mut self) {
        self.bytes.clear();
        self.file_end = None;
    }

    fn read(&mut self, from: u64) -> Result<()> {
        self.from = from;
        self.bytes.resize(self.next_len, 0);
        let got = self.source.read_at(from, &mut self.bytes);
        self.bytes.truncate(*got.as_ref().unwrap_or(&0));
        got?;
        if self.bytes.len() < self.next_len {
            self.file_end = Some(from + self.bytes.len() as u64);
        }
        self.next_len = (2 * self.next_len).min(Self::MAX_LEN);
        Ok(())
    }
}
