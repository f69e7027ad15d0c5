//! Segments of the flash cache: the files in which blocks evicted from memory are kept across restarts.
//!
//! This is the only encoding here that RocksDB does not have. A segment is written once, from start to end,
//! over the previous segment in the same file; nothing is synced. Whatever a crash leaves must therefore be
//! recognised, and bytes of the previous segment must not pass for bytes of this one: each segment has a
//! generation, and every checksum depends on it.
//!
//! ```text
//! offset  size  part
//!      0     8  magic number "CRNCACHE"
//!      8     4  format version, 1
//!     12     4  number of entries, n
//!     16     8  generation: higher than that of any segment written before
//!     24    16  identity of the cache; segments of another identity are ignored
//!     40     4  end of the last record
//!     44     4  zero
//!     48     8  checksum of the table
//!     56     8  checksum of the 56 bytes before
//!     64  28 n  table: one row an entry, in the order of the records
//!         ...   records, adjacent
//!
//! row     size  part                           record  size  part
//!      0    16  key                                 0     8  checksum of the rest of the record
//!     16     4  offset of the record                8    16  key
//!     20     4  length of the record               24     4  length of the payload
//!     24     1  role                               28     4  length of the decompressed payload
//!     25     3  zero                               32     1  role
//!                                                  33     1  priority
//!                                                  34     1  codec of the payload
//!                                                  35     5  zero
//!                                                  40   ...  payload
//! ```
//!
//! All numbers are little-endian. Checksums are the lower 64 bits of XXH3 of 128 bits with the generation as
//! seed. A restart reads headers and tables only; a record is verified when it is read.

use cairn_types::{Decoded, Malformed};

use crate::coding::{Input, put_fixed32, put_fixed64};
use crate::hash::xxh3_128;

/// The length of a segment's header.
pub const HEADER_LEN: usize = 64;

/// The length of a row of the table.
pub const ROW_LEN: usize = 28;

/// The length of a record before its payload.
pub const RECORD_HEADER_LEN: usize = 40;

const MAGIC: &[u8; 8] = b"CRNCACHE";
/// The format version. A higher one is also needed when blocks are cached in another form, since a segment
/// written before would be taken for current.
const VERSION: u32 = 1;
const CHECKED_HEADER: usize = HEADER_LEN - 8;
const RECORD_CHECKSUM: usize = 8;

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The number of entries.
    pub entries: u32,
    /// The generation.
    pub generation: u64,
    /// The identity of the cache.
    pub identity: [u8; 16],
    /// The end of the last record.
    pub end: u32,
    /// The checksum of the table.
    table_checksum: u64,
}

/// A row of the table: an entry of the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRow {
    /// The key.
    pub key: [u64; 2],
    /// The offset of the record in the segment.
    pub offset: u32,
    /// The length of the record.
    pub len: u32,
    /// The role of the entry.
    pub role: u8,
}

/// The entry in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRecord<'a> {
    /// The key.
    pub key: [u64; 2],
    /// The length of the payload when decompressed.
    pub raw_len: u32,
    /// The role of the entry.
    pub role: u8,
    /// The priority of the entry.
    pub priority: u8,
    /// The codec of the payload; 0 if it is not compressed.
    pub codec: u8,
    /// The payload.
    pub payload: &'a [u8],
}

fn checksum(bytes: &[u8], generation: u64) -> u64 {
    xxh3_128(bytes, generation).1
}

fn put_key(out: &mut Vec<u8>, key: [u64; 2]) {
    put_fixed64(out, key[0]);
    put_fixed64(out, key[1]);
}

fn key(input: &mut Input<'_>) -> Decoded<[u64; 2]> {
    Ok([input.fixed64()?, input.fixed64()?])
}

fn usize_of(len: u32) -> usize {
    // At least 32 bits on every supported platform.
    len as usize
}

impl SegmentHeader {
    /// Decodes a header from the start of `bytes`, the beginning of a file of `file_len` bytes.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if it is not a header, or if it describes a segment longer than the file.
    pub fn decode(bytes: &[u8], file_len: u64) -> Decoded<SegmentHeader> {
        let Some(bytes) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(Malformed::at(bytes.len(), "segment header is cut short"));
        };
        let mut input = Input::new(bytes);
        input.expect(MAGIC, "magic number is not a cache segment's")?;
        let version = input.fixed32()?;
        if version != VERSION {
            return Err(Malformed::unsupported(
                8,
                format!("cache segment has version {version}, expected {VERSION}"),
            ));
        }
        let entries = input.fixed32()?;
        let generation = input.fixed64()?;
        let identity = input.array()?;
        let end = input.fixed32()?;
        input.expect(&[0; 4], "reserved bytes of the header are not zero")?;
        let table_checksum = input.fixed64()?;
        if input.fixed64()? != checksum(&bytes[..CHECKED_HEADER], generation) {
            return Err(Malformed::at(
                CHECKED_HEADER,
                "checksum of the header mismatch",
            ));
        }
        let header = SegmentHeader {
            entries,
            generation,
            identity,
            end,
            table_checksum,
        };
        let table_end = HEADER_LEN as u64 + u64::from(entries) * ROW_LEN as u64;
        if table_end > u64::from(end) || u64::from(end) > file_len {
            return Err(Malformed::at(
                40,
                format!("end of the segment: expected {table_end} to {file_len}, found {end}"),
            ));
        }
        Ok(header)
    }

    /// The length of the table, which is within the file.
    #[must_use]
    pub fn table_len(&self) -> usize {
        usize_of(self.entries) * ROW_LEN
    }

    /// Decodes the table, which follows the header.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if the length or the checksum of `table` is wrong, or the rows do not describe adjacent
    /// records up to the end of the segment.
    pub fn decode_table(&self, table: &[u8]) -> Decoded<Vec<SegmentRow>> {
        if table.len() != self.table_len() {
            return Err(Malformed::at(
                table.len(),
                "table of the segment is cut short",
            ));
        }
        if checksum(table, self.generation) != self.table_checksum {
            return Err(Malformed::at(0, "checksum of the table mismatch"));
        }
        let mut rows = Vec::with_capacity(table.len() / ROW_LEN);
        let mut input = Input::new(table);
        let mut at = HEADER_LEN + table.len();
        while !input.is_empty() {
            let start = input.at();
            let row = SegmentRow {
                key: key(&mut input)?,
                offset: input.fixed32()?,
                len: input.fixed32()?,
                role: input.u8()?,
            };
            input.expect(&[0; 3], "reserved bytes of a row are not zero")?;
            let end = at.checked_add(usize_of(row.len));
            let fits = end.is_some_and(|end| end <= usize_of(self.end));
            if usize_of(row.offset) != at || usize_of(row.len) < RECORD_HEADER_LEN || !fits {
                return Err(Malformed::at(start, "row does not continue the records"));
            }
            at += usize_of(row.len);
            rows.push(row);
        }
        if at != usize_of(self.end) {
            return Err(Malformed::at(
                table.len(),
                "table ends before the records do",
            ));
        }
        Ok(rows)
    }
}

impl<'a> SegmentRecord<'a> {
    /// The length of a record with a payload of `payload` bytes, or `None` if it is too long for a segment.
    #[must_use]
    pub fn encoded_len(payload: usize) -> Option<u32> {
        u32::try_from(payload.checked_add(RECORD_HEADER_LEN)?).ok()
    }

    /// Decodes `bytes`, which must be exactly one record of a segment of `generation`.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if it is something else, a record of another generation included.
    pub fn decode(bytes: &'a [u8], generation: u64) -> Decoded<SegmentRecord<'a>> {
        let mut input = Input::new(bytes);
        let expected = input.fixed64()?;
        if expected != checksum(input.rest(), generation) {
            return Err(Malformed::at(0, "checksum of a cached block mismatch"));
        }
        let key = key(&mut input)?;
        let len = input.fixed32()?;
        let raw_len = input.fixed32()?;
        let role = input.u8()?;
        let priority = input.u8()?;
        let codec = input.u8()?;
        input.expect(&[0; 5], "reserved bytes of a record are not zero")?;
        let payload = input.take(usize_of(len))?;
        input.finish("bytes behind a record")?;
        if codec == 0 && raw_len != len {
            return Err(Malformed::mismatch(
                28,
                "length of a cached block",
                len,
                raw_len,
            ));
        }
        Ok(SegmentRecord {
            key,
            raw_len,
            role,
            priority,
            codec,
            payload,
        })
    }
}

/// A segment under construction, in memory.
#[derive(Debug)]
pub struct SegmentBuilder {
    generation: u64,
    rows: Vec<SegmentRow>,
    records: Vec<u8>,
}

impl SegmentBuilder {
    /// Creates an empty segment of `generation`.
    #[must_use]
    pub fn new(generation: u64) -> SegmentBuilder {
        SegmentBuilder {
            generation,
            rows: Vec::new(),
            records: Vec::new(),
        }
    }

    /// The generation.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// True if there are no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The length of the segment so far.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        HEADER_LEN + self.rows.len() * ROW_LEN + self.records.len()
    }

    /// The length of the segment after a further record with a payload of `payload` bytes.
    #[must_use]
    pub fn len_with(&self, payload: usize) -> usize {
        self.encoded_len()
            .saturating_add(ROW_LEN + RECORD_HEADER_LEN)
            .saturating_add(payload)
    }

    /// Appends a record. Returns false, leaving the segment unchanged, if a length exceeds 32 bits.
    pub fn add(&mut self, record: &SegmentRecord<'_>) -> bool {
        let (Some(len), Ok(_)) = (
            SegmentRecord::encoded_len(record.payload.len()),
            u32::try_from(self.len_with(record.payload.len())),
        ) else {
            return false;
        };
        let start = self.records.len();
        let out = &mut self.records;
        put_fixed64(out, 0);
        put_key(out, record.key);
        put_fixed32(out, len - RECORD_HEADER_LEN as u32);
        put_fixed32(out, record.raw_len);
        out.extend_from_slice(&[record.role, record.priority, record.codec, 0, 0, 0, 0, 0]);
        out.extend_from_slice(record.payload);
        let sum = checksum(&out[start + RECORD_CHECKSUM..], self.generation);
        out[start..start + RECORD_CHECKSUM].copy_from_slice(&sum.to_le_bytes());
        self.rows.push(SegmentRow {
            key: record.key,
            // Relative to the first record until the segment is finished; the sum was checked above.
            offset: start as u32,
            len,
            role: record.role,
        });
        true
    }

    /// Encodes the segment. Returns its header and table, its records, and the rows with their final offsets.
    #[must_use]
    pub fn finish(mut self, identity: [u8; 16]) -> FinishedSegment {
        let first = HEADER_LEN + self.rows.len() * ROW_LEN;
        let end = first + self.records.len();
        let in_segment = |len: usize| u32::try_from(len).expect("checked for every record");
        let mut table = Vec::with_capacity(first - HEADER_LEN);
        for row in &mut self.rows {
            row.offset += in_segment(first);
            put_key(&mut table, row.key);
            put_fixed32(&mut table, row.offset);
            put_fixed32(&mut table, row.len);
            table.extend_from_slice(&[row.role, 0, 0, 0]);
        }
        let mut head = Vec::with_capacity(first);
        head.extend_from_slice(MAGIC);
        put_fixed32(&mut head, VERSION);
        put_fixed32(&mut head, in_segment(self.rows.len()));
        put_fixed64(&mut head, self.generation);
        head.extend_from_slice(&identity);
        put_fixed32(&mut head, in_segment(end));
        put_fixed32(&mut head, 0);
        put_fixed64(&mut head, checksum(&table, self.generation));
        let sum = checksum(&head, self.generation);
        put_fixed64(&mut head, sum);
        debug_assert_eq!(head.len(), HEADER_LEN, "the parts add up");
        head.extend_from_slice(&table);
        FinishedSegment {
            head,
            records: self.records,
            rows: self.rows,
        }
    }
}

/// A segment ready to be written: `head`, then `records`.
#[derive(Debug)]
pub struct FinishedSegment {
    /// The header and the table.
    pub head: Vec<u8>,
    /// The records.
    pub records: Vec<u8>,
    /// The rows of the table.
    pub rows: Vec<SegmentRow>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const IDENTITY: [u8; 16] = *b"sixteen bytes id";

    fn record(key: u64, payload: &[u8]) -> SegmentRecord<'_> {
        SegmentRecord {
            key: [key, !key],
            raw_len: payload.len() as u32,
            role: 3,
            priority: 1,
            codec: 0,
            payload,
        }
    }

    fn segment(generation: u64, payloads: &[Vec<u8>]) -> Vec<u8> {
        let mut builder = SegmentBuilder::new(generation);
        for (key, payload) in payloads.iter().enumerate() {
            assert!(builder.add(&record(key as u64, payload)));
        }
        let len = builder.encoded_len();
        let finished = builder.finish(IDENTITY);
        let bytes = [finished.head, finished.records].concat();
        assert_eq!(bytes.len(), len);
        bytes
    }

    fn rows(bytes: &[u8]) -> Decoded<(SegmentHeader, Vec<SegmentRow>)> {
        let header = SegmentHeader::decode(bytes, bytes.len() as u64)?;
        let table = &bytes[HEADER_LEN..][..header.table_len()];
        Ok((header, header.decode_table(table)?))
    }

    fn slice(bytes: &[u8], row: SegmentRow) -> &[u8] {
        &bytes[row.offset as usize..][..row.len as usize]
    }

    #[test]
    fn the_bytes_of_a_segment() {
        let bytes = segment(7, &[b"abc".to_vec()]);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "43524e43414348450100000001000000\
             07000000000000007369787465656e20\
             62797465732069648700000000000000\
             89b069af38868e0ef8248786d9db7ff4\
             0000000000000000ffffffffffffffff5c0000002b00000003000000\
             72ee951ffa4ad0eb0000000000000000ffffffffffffffff\
             03000000030000000301000000000000616263"
        );
    }

    #[test]
    fn an_empty_segment_is_valid() {
        let bytes = segment(1, &[]);
        let (header, rows) = rows(&bytes).unwrap();
        assert_eq!((header.entries, header.end, rows.len()), (0, 64, 0));
    }

    #[test]
    fn a_segment_longer_than_its_file_is_rejected() {
        let bytes = segment(1, &[vec![1; 100]]);
        let len = bytes.len() as u64;
        assert!(SegmentHeader::decode(&bytes, len).is_ok());
        assert!(SegmentHeader::decode(&bytes, len + 1).is_ok());
        assert_eq!(SegmentHeader::decode(&bytes, len - 1).unwrap_err().at, 40);
    }

    #[test]
    fn another_version_is_unsupported() {
        let mut bytes = segment(1, &[]);
        bytes[8] = 2;
        assert!(SegmentHeader::decode(&bytes, 64).unwrap_err().unsupported);
    }

    proptest! {
        #[test]
        fn records_survive(
            generation: u64,
            payloads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..12),
        ) {
            let bytes = segment(generation, &payloads);
            let (header, rows) = rows(&bytes).unwrap();
            prop_assert_eq!(header.generation, generation);
            prop_assert_eq!(header.identity, IDENTITY);
            prop_assert_eq!(rows.len(), payloads.len());
            for (number, row) in rows.iter().enumerate() {
                let found = SegmentRecord::decode(slice(&bytes, *row), generation).unwrap();
                prop_assert_eq!(found, record(number as u64, &payloads[number]));
                prop_assert_eq!(row.key, found.key);
                prop_assert!(SegmentRecord::decode(slice(&bytes, *row), generation ^ 1).is_err());
            }
        }

        #[test]
        fn a_changed_bit_is_noticed(at in 0usize..1000, bit in 0u8..8) {
            let mut bytes = segment(9, &[vec![5; 60], vec![6; 70]]);
            let (_, before) = rows(&bytes).unwrap();
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            let intact = |row: &&SegmentRow| SegmentRecord::decode(slice(&bytes, **row), 9).is_ok();
            let sound = before.iter().filter(intact).count();
            match at < before[0].offset as usize {
                true => prop_assert!(rows(&bytes).is_err()),
                false => prop_assert_eq!((rows(&bytes).is_ok(), sound), (true, 1)),
            }
        }
    }
}
