//! The dump of a block cache: blocks in their cached form, with their keys.
//!
//! ```text
//! offset  size  header
//!      0     8  magic number
//!      8     4  version
//!     12     4  zero
//!     16     8  time of the dump, in seconds since 1970
//!     24     4  masked CRC32C of the bytes before
//!
//! offset  size  record
//!      0     4  masked CRC32C of the rest of the record, continued from the checksum of the header
//!      4     1  role of the entry, 255 for the end
//!      5     1  priority
//!      6     1  level of the file, 255 if unknown
//!      7     1  zero
//!      8     4  length n of the block
//!     12     4  column family id
//!     16     4  age at the time of the dump, in seconds
//!     20     4  hits
//!     24    16  key; at the end: the number of entries, and of bytes of blocks
//!     40     n  block
//! ```
//!
//! Records are ordered by value, the most valuable first. The last record is the end marker; a dump without
//! it is incomplete. The checksum of every record depends on the header, so that records of another dump are
//! detected. The meaning of roles and priorities is defined by the cache; it is part of the version, and so
//! is the form of the blocks.

use cairn_types::{Decoded, Malformed};

use crate::checksum::{crc32c, crc32c_extend, mask};
use crate::coding::{Input, put_fixed32, put_fixed64};

const MAGIC: [u8; 8] = *b"cairn\x00cd";
const VERSION: u32 = 1;

/// Size of the header, in bytes.
pub const HEADER_LEN: usize = 28;
/// Size of a record without its block, in bytes.
pub const RECORD_LEN: usize = 40;

/// The level of an entry whose file is in no level.
pub const NO_LEVEL: u8 = u8::MAX;

const END: u8 = u8::MAX;

/// The header of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpHeader {
    /// Time of the dump, in seconds since 1970.
    pub seconds: u64,
    /// The checksum from which those of the records continue.
    sum: u32,
}

impl DumpHeader {
    /// Creates the header of a dump made at `seconds`.
    #[must_use]
    pub fn new(seconds: u64) -> DumpHeader {
        let mut header = DumpHeader { seconds, sum: 0 };
        header.sum = crc32c(&header.body());
        header
    }

    fn body(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(HEADER_LEN);
        body.extend_from_slice(&MAGIC);
        put_fixed32(&mut body, VERSION);
        put_fixed32(&mut body, 0);
        put_fixed64(&mut body, self.seconds);
        body
    }

    /// Returns the encoded header.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.body();
        put_fixed32(&mut bytes, mask(self.sum));
        bytes
    }

    /// Decodes the header at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// If it is truncated, damaged, or of another version.
    pub fn decode(bytes: &[u8]) -> Decoded<DumpHeader> {
        let mut input = Input::new(bytes);
        input.expect(&MAGIC, "magic number of a cache dump")?;
        let version = input.fixed32()?;
        if version != VERSION {
            let what = format!("version {version} of a cache dump, expected {VERSION}");
            return Err(Malformed::unsupported(MAGIC.len(), what));
        }
        input.expect(&[0; 4], "reserved bytes of a cache dump")?;
        let header = DumpHeader::new(input.fixed64()?);
        check_sum(HEADER_LEN - 4, header.sum, input.fixed32()?)?;
        Ok(header)
    }
}

fn check_sum(at: usize, expected: u32, found: u32) -> Decoded<()> {
    let expected = mask(expected);
    if expected == found {
        return Ok(());
    }
    Err(Malformed::mismatch(
        at,
        "checksum of a cache dump",
        format_args!("{expected:08x}"),
        format_args!("{found:08x}"),
    ))
}

/// A cache entry without its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpEntry {
    /// The role, less than 255.
    pub role: u8,
    /// The priority.
    pub priority: u8,
    /// The level of the file, or [`NO_LEVEL`].
    pub level: u8,
    /// The column family id.
    pub family: u32,
    /// The age at the time of the dump, in seconds.
    pub age_seconds: u32,
    /// The number of hits.
    pub hits: u32,
    /// The cache key.
    pub key: [u64; 2],
    /// Size of the block, in bytes.
    pub len: u32,
}

/// A record of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpRecord {
    /// An entry, whose block follows.
    Entry(DumpEntry),
    /// The end: the number of entries, and the total size of their blocks.
    End {
        /// Entries.
        entries: u64,
        /// Bytes.
        bytes: u64,
    },
}

impl DumpRecord {
    /// Returns the encoded record, to be followed by `block`, which is empty for the end.
    ///
    /// # Panics
    ///
    /// If the length of the block is not that of the entry.
    #[must_use]
    pub fn encode(&self, header: &DumpHeader, block: &[u8]) -> Vec<u8> {
        let mut body = Vec::with_capacity(RECORD_LEN);
        let (entry, role) = match *self {
            DumpRecord::Entry(entry) => (entry, entry.role),
            DumpRecord::End { entries, bytes } => (
                DumpEntry {
                    role: END,
                    priority: 0,
                    level: NO_LEVEL,
                    family: 0,
                    age_seconds: 0,
                    hits: 0,
                    key: [entries, bytes],
                    len: 0,
                },
                END,
            ),
        };
        assert_eq!(entry.len as usize, block.len(), "the block of the entry");
        body.extend_from_slice(&[role, entry.priority, entry.level, 0]);
        for number in [entry.len, entry.family, entry.age_seconds, entry.hits] {
            put_fixed32(&mut body, number);
        }
        put_fixed64(&mut body, entry.key[0]);
        put_fixed64(&mut body, entry.key[1]);
        let sum = crc32c_extend(crc32c_extend(header.sum, &body), block);
        let mut bytes = Vec::with_capacity(RECORD_LEN);
        put_fixed32(&mut bytes, mask(sum));
        bytes.extend_from_slice(&body);
        bytes
    }

    /// Decodes the record at the start of `bytes`. [`DumpRecord::verify`] verifies its checksum once the
    /// block was read; the length must be compared with that of the file first.
    ///
    /// # Errors
    ///
    /// If it is truncated or malformed.
    pub fn decode(bytes: &[u8]) -> Decoded<DumpRecord> {
        let mut input = Input::new(bytes);
        let _sum = input.fixed32()?;
        let [role, priority, level] = input.array()?;
        input.expect(&[0], "reserved byte of a cache dump")?;
        let entry = DumpEntry {
            role,
            priority,
            level,
            len: input.fixed32()?,
            family: input.fixed32()?,
            age_seconds: input.fixed32()?,
            hits: input.fixed32()?,
            key: [input.fixed64()?, input.fixed64()?],
        };
        if role != END {
            return Ok(DumpRecord::Entry(entry));
        }
        let [entries, bytes] = entry.key;
        let is_plain = (priority, level, entry.len) == (0, NO_LEVEL, 0)
            && (entry.family, entry.age_seconds, entry.hits) == (0, 0, 0);
        match is_plain {
            true => Ok(DumpRecord::End { entries, bytes }),
            false => Err(Malformed::at(
                4,
                "the end of a cache dump with other fields",
            )),
        }
    }

    /// Verifies the checksum of `record`, the encoded record of the dump with `header`, and its `block`.
    ///
    /// # Errors
    ///
    /// If they are damaged.
    pub fn verify(header: &DumpHeader, record: &[u8; RECORD_LEN], block: &[u8]) -> Decoded<()> {
        let (found, body) = record.split_at(4);
        let sum = crc32c_extend(crc32c_extend(header.sum, body), block);
        check_sum(0, sum, Input::new(found).fixed32()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry() -> DumpEntry {
        DumpEntry {
            role: 3,
            priority: 2,
            level: 6,
            family: 7,
            age_seconds: 8,
            hits: 9,
            key: [10, 11],
            len: 5,
        }
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        let header = DumpHeader::new(1_700_000_000);
        let bytes = header.encode();
        assert_eq!(
            (bytes.len(), DumpHeader::decode(&bytes)),
            (HEADER_LEN, Ok(header))
        );
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(DumpHeader::decode(&damaged).is_err(), "bit {bit}");
        }
        let block = b"block";
        for (record, block) in [
            (DumpRecord::Entry(entry()), &block[..]),
            (
                DumpRecord::End {
                    entries: 1,
                    bytes: 5,
                },
                b"",
            ),
        ] {
            let bytes: [u8; RECORD_LEN] = record.encode(&header, block).try_into().unwrap();
            assert_eq!(DumpRecord::decode(&bytes), Ok(record));
            assert_eq!(DumpRecord::verify(&header, &bytes, block), Ok(()));
            for bit in 0..RECORD_LEN * 8 {
                let mut damaged = bytes;
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(
                    DumpRecord::verify(&header, &damaged, block).is_err(),
                    "bit {bit}"
                );
            }
            for other in [&b"blocc"[..], b"bloc", b"blocks"] {
                assert!(DumpRecord::verify(&header, &bytes, other).is_err());
            }
            let other = DumpHeader::new(1_700_000_001);
            assert!(
                DumpRecord::verify(&other, &bytes, block).is_err(),
                "another dump"
            );
        }
    }

    #[test]
    fn another_version_is_not_supported() {
        let mut bytes = DumpHeader::new(1).encode();
        bytes[8] = 2;
        let error = DumpHeader::decode(&bytes).unwrap_err().to_string();
        assert!(error.contains("version 2"), "{error}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_error_or_reencode(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = DumpHeader::decode(&bytes);
            if let Ok(DumpRecord::Entry(entry)) = DumpRecord::decode(&bytes) {
                let block = vec![0; entry.len.min(1000) as usize];
                let entry = DumpEntry { len: block.len() as u32, ..entry };
                let record = DumpRecord::Entry(entry);
                let again = record.encode(&DumpHeader::new(0), &block);
                prop_assert_eq!(DumpRecord::decode(&again), Ok(record));
            }
        }
    }
}
