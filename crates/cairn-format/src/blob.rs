//! Blob files, which hold large values, and the blob indexes that tables store in their place.
//!
//! ```text
//! file     header, records, footer
//! header   fixed32 magic 00248f37, fixed32 version 1, fixed32 family, u8 flags (bit 0: values
//!   30     expire), u8 compression, fixed64 and fixed64 range of expirations
//! record   fixed64 key length, fixed64 value length (as stored), fixed64 expiration,
//!   32     fixed32 masked crc of these 24 bytes, fixed32 masked crc of key and value,
//!          key (a user key), value
//! footer   fixed32 magic, fixed64 count of values, fixed64 and fixed64 range of expirations,
//!   32     fixed32 masked crc of these 28 bytes
//! index    u8 1, varint64 file, varint64 offset of the value (not of its record), varint64 size
//!          (as stored), u8 compression
//! ```
//!
//! Indexes of kinds 0 and 2, and files with expiring values, belong to RocksDB's older, stacked
//! BlobDB and are rejected.

use cairn_types::{Decoded, FileNumber, Malformed};

use crate::checksum::{crc32c, crc32c_extend, mask};
use crate::coding::{Input, put_fixed32, put_fixed64, put_varint64};

/// The magic number at the start of a blob file and of its footer.
pub const MAGIC: u32 = 0x0024_8f37;
/// The length of a file header.
pub const HEADER_LEN: usize = 30;
/// The length of a record header, which precedes the key.
pub const RECORD_HEADER_LEN: usize = 32;
/// The length of a file footer.
pub const FOOTER_LEN: usize = 32;

const VERSION: u32 = 1;
const FLAG_EXPIRES: u8 = 1;

/// The header of a blob file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The column family of the values.
    pub family: u32,
    /// The number of the values' codec.
    pub compression: u8,
}

impl Header {
    /// Decodes a header.
    ///
    /// # Errors
    ///
    /// [`Malformed`] with the name of the field.
    pub fn decode(bytes: &[u8]) -> Decoded<Header> {
        let mut input = Input::new(bytes);
        check_magic(&mut input)?;
        let at = input.at();
        let version = input.fixed32()?;
        if version != VERSION {
            return Err(Malformed::unsupported(
                at,
                format!("version {version} of a blob file"),
            ));
        }
        let family = input.fixed32()?;
        let at = input.at();
        if input.u8()? & FLAG_EXPIRES != 0 {
            return Err(Malformed::unsupported(
                at,
                "blob file whose values expire (stacked BlobDB)",
            ));
        }
        let compression = input.u8()?;
        input.take(16)?;
        Ok(Header {
            family,
            compression,
        })
    }

    /// Appends the encoded header to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_fixed32(out, MAGIC);
        put_fixed32(out, VERSION);
        put_fixed32(out, self.family);
        out.extend_from_slice(&[0, self.compression]);
        out.extend_from_slice(&[0; 16]);
    }
}

/// The footer of a complete blob file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// The number of values in the file.
    pub blob_count: u64,
}

impl Footer {
    /// Decodes a footer, the last [`FOOTER_LEN`] bytes of a file.
    ///
    /// # Errors
    ///
    /// [`Malformed`] with the name of the field.
    pub fn decode(bytes: &[u8]) -> Decoded<Footer> {
        let mut input = Input::new(bytes);
        check_magic(&mut input)?;
        let blob_count = input.fixed64()?;
        input.take(16)?;
        let covered = &bytes[..input.at()];
        check_crc(&mut input, crc32c(covered), "checksum of the footer")?;
        Ok(Footer { blob_count })
    }

    /// Appends the encoded footer to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        put_fixed32(out, MAGIC);
        put_fixed64(out, self.blob_count);
        out.extend_from_slice(&[0; 16]);
        let crc = mask(crc32c(&out[start..]));
        put_fixed32(out, crc);
    }
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// The length of the key.
    pub key_len: u64,
    /// The stored length of the value.
    pub value_len: u64,
    /// The expiration time of the value; zero except in files of stacked BlobDB.
    pub expiration: u64,
    /// The masked checksum of key and value.
    body_crc: u32,
}

impl RecordHeader {
    /// Decodes a record header and verifies its checksum.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if it is truncated or its checksum does not match.
    pub fn decode(bytes: &[u8]) -> Decoded<RecordHeader> {
        let mut input = Input::new(bytes);
        let key_len = input.fixed64()?;
        let value_len = input.fixed64()?;
        let expiration = input.fixed64()?;
        let covered = &bytes[..input.at()];
        check_crc(&mut input, crc32c(covered), "checksum of a record's header")?;
        Ok(RecordHeader {
            key_len,
            value_len,
            expiration,
            body_crc: input.fixed32()?,
        })
    }

    /// Verifies the checksum of the record's key and value.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if it does not match.
    pub fn check_body(&self, key: &[u8], value: &[u8]) -> Decoded<()> {
        let crc = mask(crc32c_extend(crc32c(key), value));
        if crc != self.body_crc {
            return Err(Malformed::mismatch(
                28,
                "checksum of key and value",
                format_args!("{:08x}", self.body_crc),
                format_args!("{crc:08x}"),
            ));
        }
        Ok(())
    }

    /// The length of the whole record, or `None` on overflow.
    #[must_use]
    pub fn record_len(&self) -> Option<u64> {
        (RECORD_HEADER_LEN as u64)
            .checked_add(self.key_len)?
            .checked_add(self.value_len)
    }
}

/// Appends a record with `key` and the stored form `value` to `out`.
pub fn encode_record(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.reserve(RECORD_HEADER_LEN + key.len() + value.len());
    put_fixed64(out, key.len() as u64);
    put_fixed64(out, value.len() as u64);
    put_fixed64(out, 0);
    let crc = mask(crc32c(&out[start..]));
    put_fixed32(out, crc);
    put_fixed32(out, mask(crc32c_extend(crc32c(key), value)));
    out.extend_from_slice(key);
    out.extend_from_slice(value);
}

/// The location of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlobIndex {
    /// The blob file. Zero means the table that contains the index.
    pub file: FileNumber,
    /// The offset of the value in the file. The record starts earlier, with its header and the key.
    pub offset: u64,
    /// The stored length of the value.
    pub size: u64,
    /// The number of the value's codec.
    pub compression: u8,
}

impl BlobIndex {
    const STORED: u8 = 1;

    /// Decodes an index, the value of an entry of kind `BlobIndex`.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if it is truncated, has trailing bytes, or is of a kind that only stacked
    /// BlobDB writes.
    pub fn decode(bytes: &[u8]) -> Decoded<BlobIndex> {
        let mut input = Input::new(bytes);
        match input.u8()? {
            BlobIndex::STORED => {}
            kind @ (0 | 2) => {
                return Err(Malformed::unsupported(
                    0,
                    format!("blob index of kind {kind} (stacked BlobDB)"),
                ));
            }
            kind => {
                return Err(Malformed::at(0, format!("unknown blob index kind {kind}")));
            }
        }
        let index = BlobIndex {
            file: FileNumber(input.varint64()?),
            offset: input.varint64()?,
            size: input.varint64()?,
            compression: input.u8()?,
        };
        input.finish("blob index")?;
        Ok(index)
    }

    /// Appends the encoded index to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(BlobIndex::STORED);
        put_varint64(out, self.file.0);
        put_varint64(out, self.offset);
        put_varint64(out, self.size);
        out.push(self.compression);
    }
}

fn check_magic(input: &mut Input<'_>) -> Decoded<()> {
    let at = input.at();
    let magic = input.fixed32()?;
    if magic != MAGIC {
        return Err(Malformed::mismatch(
            at,
            "magic number of a blob file",
            format_args!("{MAGIC:08x}"),
            format_args!("{magic:08x}"),
        ));
    }
    Ok(())
}

fn check_crc(input: &mut Input<'_>, crc: u32, what: &str) -> Decoded<()> {
    let at = input.at();
    let stored = input.fixed32()?;
    if stored != mask(crc) {
        return Err(Malformed::mismatch(
            at,
            what,
            format_args!("{stored:08x}"),
            format_args!("{:08x}", mask(crc)),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn blob_indexes_round_trip(numbers in any::<[u64; 3]>(), compression in any::<u8>()) {
            let index = BlobIndex {
                file: FileNumber(numbers[0]),
                offset: numbers[1],
                size: numbers[2],
                compression,
            };
            let mut bytes = Vec::new();
            index.encode(&mut bytes);
            prop_assert_eq!(BlobIndex::decode(&bytes), Ok(index));
            prop_assert!(BlobIndex::decode(&bytes[..bytes.len() - 1]).is_err());
            bytes.push(0);
            prop_assert!(BlobIndex::decode(&bytes).is_err());
        }

        #[test]
        fn damaged_records_are_detected(
            key in vec(any::<u8>(), 0..20),
            value in vec(any::<u8>(), 0..40),
            at in any::<prop::sample::Index>(),
            xor in 1..=u8::MAX,
        ) {
            let mut bytes = Vec::new();
            encode_record(&key, &value, &mut bytes);
            let whole = |bytes: &[u8]| -> Decoded<()> {
                let header = RecordHeader::decode(bytes)?;
                let body = &bytes[RECORD_HEADER_LEN..];
                header.check_body(&body[..key.len()], &body[key.len()..])
            };
            prop_assert_eq!(whole(&bytes), Ok(()));
            let header = RecordHeader::decode(&bytes).unwrap();
            prop_assert_eq!(header.record_len(), Some(bytes.len() as u64));
            let at = at.index(bytes.len());
            bytes[at] ^= xor;
            prop_assert!(whole(&bytes).is_err());
        }

        #[test]
        fn hostile_blob_files_never_panic(bytes in vec(any::<u8>(), 0..40)) {
            let _ = (Header::decode(&bytes), Footer::decode(&bytes));
            let _ = (RecordHeader::decode(&bytes), BlobIndex::decode(&bytes));
        }
    }

    #[test]
    fn header_and_footer_have_rocksdbs_bytes() {
        let header = Header {
            family: 3,
            compression: 7,
        };
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        assert_eq!(bytes[..14], *b"\x37\x8f\x24\0\x01\0\0\0\x03\0\0\0\0\x07");
        assert_eq!(bytes.len(), HEADER_LEN);
        assert_eq!(Header::decode(&bytes), Ok(header));
        bytes[12] = 1;
        assert!(Header::decode(&bytes).unwrap_err().unsupported);

        let footer = Footer { blob_count: 9 };
        let mut bytes = Vec::new();
        footer.encode(&mut bytes);
        assert_eq!(bytes.len(), FOOTER_LEN);
        assert_eq!(Footer::decode(&bytes), Ok(footer));
        bytes[4] = 8;
        assert!(Footer::decode(&bytes).is_err());
    }

    #[test]
    fn indexes_of_stacked_blobdb_are_rejected() {
        for kind in [0u8, 2] {
            let error = BlobIndex::decode(&[kind, 1, 1, 1, 1, 0]).unwrap_err();
            assert!(error.unsupported);
        }
        assert!(!BlobIndex::decode(&[3, 1, 1, 1, 0]).unwrap_err().unsupported);
    }
}
