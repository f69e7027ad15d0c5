//! Blob files in a version edit.
//!
//! ```text
//! addition   varint64 number, varint64 blobs, varint64 bytes, method, value, fields
//! garbage    varint64 number, varint64 blobs, varint64 bytes, fields
//! fields     (varint32 tag, bytes)*, varint32 0
//! ```
//!
//! Sizes cover the records only (32-byte header, key and stored value), not the header and footer
//! of the file. Garbage accumulates over all edits.

use cairn_types::{Decoded, FileNumber, Malformed};

use super::tag::blob as field;
use crate::coding::{Input, put_lps, put_varint32, put_varint64};

/// A blob file added to the version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobAddition {
    /// The file number.
    pub number: FileNumber,
    /// The number of values.
    pub blob_count: u64,
    /// The total size of its records.
    pub blob_bytes: u64,
    /// The name of the checksum function; empty for none.
    pub checksum_method: String,
    /// The checksum of the whole file.
    pub checksum: Vec<u8>,
}

/// Additional garbage in a blob file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlobGarbage {
    /// The file number.
    pub number: FileNumber,
    /// The number of values that became garbage.
    pub blob_count: u64,
    /// The total size of their records.
    pub blob_bytes: u64,
}

impl BlobAddition {
    pub(super) fn decode(input: &mut Input<'_>) -> Decoded<BlobAddition> {
        let addition = BlobAddition {
            number: FileNumber(input.varint64()?),
            blob_count: input.varint64()?,
            blob_bytes: input.varint64()?,
            checksum_method: super::decode::text(input, "checksum method")?,
            checksum: input.lps()?.to_vec(),
        };
        skip_fields(input)?;
        Ok(addition)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint64(out, self.number.0);
        put_varint64(out, self.blob_count);
        put_varint64(out, self.blob_bytes);
        put_lps(out, self.checksum_method.as_bytes());
        put_lps(out, &self.checksum);
        put_varint32(out, field::END);
    }
}

impl BlobGarbage {
    pub(super) fn decode(input: &mut Input<'_>) -> Decoded<BlobGarbage> {
        let garbage = BlobGarbage {
            number: FileNumber(input.varint64()?),
            blob_count: input.varint64()?,
            blob_bytes: input.varint64()?,
        };
        skip_fields(input)?;
        Ok(garbage)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint64(out, self.number.0);
        put_varint64(out, self.blob_count);
        put_varint64(out, self.blob_bytes);
        put_varint32(out, field::END);
    }
}

/// No field is defined yet; unknown ones may be skippable.
fn skip_fields(input: &mut Input<'_>) -> Decoded<()> {
    loop {
        let at = input.at();
        match input.varint32()? {
            field::END => return Ok(()),
            tag if tag & field::MUST_KNOW != 0 => {
                return Err(Malformed::unsupported(
                    at,
                    format!("field {tag} of a blob file in a version edit"),
                ));
            }
            _ => {
                input.lps()?;
            }
        }
    }
}
