//! The log writer, which fragments logical records.
//!
//! A record costs one copy and one checksum. The only allocation is the growth of the caller's
//! buffer.

use cairn_types::Veil;

use super::record_type as rt;
use super::{BLOCK_LEN, HEADER_LEN, Predecessor, RECYCLABLE_HEADER_LEN};
use crate::checksum::{crc32c, crc32c_extend, mask};

/// The framing of the records of a file, which is the same for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// For a new file.
    Legacy,
    /// For a recycled file: each record has the number of the new log, so that a reader detects old
    /// content.
    Recyclable {
        /// The lower half of the file's number.
        log_number: u32,
    },
}

impl Framing {
    /// Recyclable framing for file `number`.
    #[must_use]
    pub fn recyclable(number: u64) -> Framing {
        Framing::Recyclable {
            log_number: low_half(number),
        }
    }

    fn header_len(self) -> usize {
        match self {
            Framing::Legacy => HEADER_LEN,
            Framing::Recyclable { .. } => RECYCLABLE_HEADER_LEN,
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the format stores the lower half of a file's number"
)]
pub(super) fn low_half(number: u64) -> u32 {
    number as u32
}

/// Fragments consecutive records. Its only state is the position in the file.
#[derive(Clone, Debug)]
pub struct LogWriter {
    framing: Framing,
    offset: u64,
    /// The veils of the fragments added since they were cleared; `None` if the file needs none.
    veils: Option<Vec<Veil>>,
}

impl LogWriter {
    /// Creates a writer at the start of a file.
    #[must_use]
    pub fn new(framing: Framing) -> LogWriter {
        LogWriter::at(framing, 0)
    }

    /// Creates a writer after the first `offset` bytes of a file.
    #[must_use]
    pub fn at(framing: Framing, offset: u64) -> LogWriter {
        LogWriter {
            framing,
            offset,
            veils: None,
        }
    }

    /// Enables veils, for a mapped file: one for each fragment that continues a record.
    #[must_use]
    pub fn with_veils(mut self) -> LogWriter {
        self.veils = Some(Vec::new());
        self
    }

    /// The veils of the fragments added since the last [`LogWriter::clear_veils`]. Their offsets
    /// are relative to the output.
    #[inline]
    #[must_use]
    pub fn veils(&self) -> &[Veil] {
        self.veils.as_deref().unwrap_or(&[])
    }

    /// Clears the veils after the output has been stored.
    #[inline]
    pub fn clear_veils(&mut self) {
        if let Some(veils) = &mut self.veils {
            veils.clear();
        }
    }

    /// The size of the file once all output is written.
    #[inline]
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Appends the fragments of `record` to `out`.
    #[inline]
    pub fn add(&mut self, record: &[u8], out: &mut Vec<u8>) {
        self.add_parts(&[record], out);
    }

    /// Appends the fragments of a record, the concatenation of `parts`, to `out`.
    pub fn add_parts(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) {
        let header_len = self.framing.header_len();
        let mut parts = Parts::new(parts);
        let mut left = parts.total();
        out.reserve(left + 2 * header_len + left / BLOCK_LEN * header_len);
        let mut begin = true;
        loop {
            let room = self.room_for(header_len, out);
            let len = left.min(room - header_len);
            left -= len;
            let kind = match (begin, left == 0) {
                (true, true) => rt::FULL,
                (true, false) => rt::FIRST,
                (false, false) => rt::MIDDLE,
                (false, true) => rt::LAST,
            };
            let kind = match self.framing {
                Framing::Legacy => kind,
                Framing::Recyclable { .. } => kind + rt::TO_RECYCLABLE,
            };
            let start = out.len();
            self.frame(kind, header_len, len, out, |out| parts.copy(len, out));
            if let (false, Some(veils)) = (begin, &mut self.veils) {
                veils.push(veil(start, out));
            }
            begin = false;
            if left == 0 {
                return;
            }
        }
    }

    /// Appends the record that announces compression, which must be the first of a file.
    ///
    /// # Panics
    ///
    /// If the file has other records.
    pub fn add_compression(&mut self, kind: u32, out: &mut Vec<u8>) {
        assert!(self.offset == 0, "the compression record is a log's first");
        // Uses legacy framing even in a recycled file.
        self.frame(rt::SET_COMPRESSION, HEADER_LEN, 4, out, |out| {
            out.extend_from_slice(&kind.to_le_bytes());
        });
    }

    /// Appends a record of timestamp sizes: pairs of a column family id and a number of bytes.
    ///
    /// # Panics
    ///
    /// If a size is zero (such families must be omitted), or if there are more families than fit
    /// into a block (about 5,400).
    pub fn add_timestamp_sizes(&mut self, sizes: &[(u32, u16)], out: &mut Vec<u8>) {
        assert!(
            sizes.iter().all(|&(_, size)| size != 0),
            "families without timestamps are omitted"
        );
        let kinds = (rt::TIMESTAMP_SIZES, rt::RECYCLABLE_TIMESTAMP_SIZES);
        self.add_metadata(kinds, sizes.len() * 6, out, |out| {
            for (family, size) in sizes {
                out.extend_from_slice(&family.to_le_bytes());
                out.extend_from_slice(&size.to_le_bytes());
            }
        });
    }

    /// Appends the summary of the preceding log.
    pub fn add_predecessor(&mut self, predecessor: &Predecessor, out: &mut Vec<u8>) {
        let kinds = (rt::PREDECESSOR, rt::RECYCLABLE_PREDECESSOR);
        self.add_metadata(kinds, Predecessor::LEN, out, |out| {
            out.extend_from_slice(&predecessor.encode());
        });
    }

    fn add_metadata(
        &mut self,
        kinds: (u8, u8),
        len: usize,
        out: &mut Vec<u8>,
        payload: impl FnOnce(&mut Vec<u8>),
    ) {
        let header_len = self.framing.header_len();
        assert!(
            header_len + len <= BLOCK_LEN,
            "a metadata record fits into one block"
        );
        self.room_for(header_len + len, out);
        let kind = match self.framing {
            Framing::Legacy => kinds.0,
            Framing::Recyclable { .. } => kinds.1,
        };
        self.frame(kind, header_len, len, out, payload);
    }

    /// Fills the block with zeros unless `wanted` bytes fit, and returns the remaining length of the block.
    #[inline]
    fn room_for(&mut self, wanted: usize, out: &mut Vec<u8>) -> usize {
        let room = BLOCK_LEN - in_block(self.offset);
        if room >= wanted {
            return room;
        }
        out.resize(out.len() + room, 0);
        self.offset += room as u64;
        BLOCK_LEN
    }

    #[inline]
    fn frame(
        &mut self,
        kind: u8,
        header_len: usize,
        len: usize,
        out: &mut Vec<u8>,
        payload: impl FnOnce(&mut Vec<u8>),
    ) {
        let start = out.len();
        let length = u16::try_from(len).expect("a record fits a block");
        let [low, high] = length.to_le_bytes();
        out.extend_from_slice(&[0, 0, 0, 0, low, high, kind]);
        if let (Framing::Recyclable { log_number }, RECYCLABLE_HEADER_LEN) =
            (self.framing, header_len)
        {
            out.extend_from_slice(&log_number.to_le_bytes());
        }
        payload(out);
        let crc = mask(crc32c(&out[start + 6..]));
        out[start..start + 4].copy_from_slice(&crc.to_le_bytes());
        self.offset += (header_len + len) as u64;
    }
}

/// The veil of the last fragment, which starts at `start`.
fn veil(start: usize, out: &[u8]) -> Veil {
    let len = out.len() - start - HEADER_LEN;
    let length = u16::try_from(len).expect("a piece fits a block");
    let [low, high] = length.to_le_bytes();
    let behind = &out[start + HEADER_LEN..];
    let crc = mask(crc32c_extend(crc32c(&[rt::VEIL]), behind));
    let [c0, c1, c2, c3] = crc.to_le_bytes();
    Veil {
        at: start,
        end: out.len(),
        head: [c0, c1, c2, c3, low, high, rt::VEIL, behind[0]],
    }
}

/// The offset of a file position within its block.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the remainder is smaller than a block"
)]
pub(super) fn in_block(offset: u64) -> usize {
    (offset % BLOCK_LEN as u64) as usize
}

/// The remaining part of a list of slices.
struct Parts<'a> {
    slices: &'a [&'a [u8]],
    /// The number of bytes of the first slice already consumed.
    taken: usize,
}

impl<'a> Parts<'a> {
    fn new(slices: &'a [&'a [u8]]) -> Parts<'a> {
        Parts { slices, taken: 0 }
    }

    #[inline]
    fn total(&self) -> usize {
        self.slices.iter().map(|slice| slice.len()).sum()
    }

    /// Moves the next `len` bytes to `out`.
    #[inline]
    fn copy(&mut self, mut len: usize, out: &mut Vec<u8>) {
        while let Some((first, others)) = self.slices.split_first() {
            let rest = &first[self.taken..];
            if rest.len() > len {
                out.extend_from_slice(&rest[..len]);
                self.taken += len;
                return;
            }
            out.extend_from_slice(rest);
            len -= rest.len();
            self.taken = 0;
            self.slices = others;
        }
    }
}
