//! Tables that are not divided into blocks: RocksDB's PlainTable and CuckooTable.
//!
//! ```text
//! PlainTable:   entry*   [bloom block]  [index block]  properties  metaindex  footer
//! CuckooTable:  bucket*                                properties  metaindex  footer
//! ```
//!
//! Both were designed to be mapped into memory. Nothing in them has a checksum or a trailer, and nothing is
//! compressed. The properties say how the entries are encoded. The footer has the layout of the block-based
//! format, of version 0 (PlainTable, with a magic number of its own) or 1 (CuckooTable); its index handle is null.

pub mod cuckoo;
pub mod plain;
mod plain_bloom;
mod plain_index;

use cairn_types::{Decoded, Malformed};

use crate::coding::{Input, put_fixed32, put_fixed64};
use crate::table::Handle;
use crate::table::footer::{FOOTER_LEN, LEGACY_FOOTER_LEN, place};

const PLAIN_MAGIC: u64 = 0x8242_2296_63bf_9564;
const LEGACY_PLAIN_MAGIC: u64 = 0x4f34_18eb_7a8f_13b8;
const CUCKOO_MAGIC: u64 = 0x9267_89d0_c5f1_7873;
/// The length of the two handles and their padding.
const HANDLES_LEN: usize = 40;
/// The checksum type of tables without checksums.
const NO_CHECKSUM: u8 = 0;
/// The version in the footer of a CuckooTable.
const CUCKOO_VERSION: u32 = 1;

/// A table format without blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlatFormat {
    /// Entries in key order.
    Plain,
    /// A hash table.
    Cuckoo,
}

impl FlatFormat {
    /// The format of the table whose last bytes are `tail`; `None` for all others.
    #[must_use]
    pub fn recognize(tail: &[u8]) -> Option<FlatFormat> {
        match u64::from_le_bytes(*tail.last_chunk()?) {
            PLAIN_MAGIC | LEGACY_PLAIN_MAGIC => Some(FlatFormat::Plain),
            CUCKOO_MAGIC => Some(FlatFormat::Cuckoo),
            _ => None,
        }
    }

    /// The name of the format in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FlatFormat::Plain => "PlainTable",
            FlatFormat::Cuckoo => "CuckooTable",
        }
    }
}

/// The decoded footer of a table without blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlatFooter {
    /// The format of the table.
    pub format: FlatFormat,
    /// The handle of the metaindex.
    pub metaindex: Handle,
    /// The length of the footer.
    pub len: usize,
}

impl FlatFooter {
    /// Decodes the footer of a table of `file_len` bytes from `tail`, the end of the file. `tail` may start before
    /// the footer.
    ///
    /// # Errors
    ///
    /// The field and its offset in `tail`.
    pub fn decode(tail: &[u8], file_len: u64) -> Decoded<FlatFooter> {
        let format = FlatFormat::recognize(tail)
            .ok_or_else(|| Malformed::at(0, "magic number of another format"))?;
        let is_legacy = tail.ends_with(&LEGACY_PLAIN_MAGIC.to_le_bytes());
        let len = match is_legacy {
            true => LEGACY_FOOTER_LEN,
            false => FOOTER_LEN,
        };
        let (start, offset) = place(tail, file_len, len)?;
        let mut input = Input::new(&tail[start..]);
        let decoded = decode_handle(&mut input, is_legacy, offset);
        let metaindex = decoded.map_err(|error: Malformed| error.shifted(start))?;
        Ok(FlatFooter {
            format,
            metaindex,
            len,
        })
    }

    /// Returns the encoded footer of a new table.
    #[must_use]
    pub fn encode(format: FlatFormat, metaindex: Handle) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_LEN);
        if format == FlatFormat::Cuckoo {
            out.push(NO_CHECKSUM);
        }
        let start = out.len();
        metaindex.encode(&mut out);
        Handle::NULL.encode(&mut out);
        out.resize(start + HANDLES_LEN, 0);
        match format {
            FlatFormat::Plain => put_fixed64(&mut out, LEGACY_PLAIN_MAGIC),
            FlatFormat::Cuckoo => {
                put_fixed32(&mut out, CUCKOO_VERSION);
                put_fixed64(&mut out, CUCKOO_MAGIC);
            }
        }
        out
    }
}

/// Decodes the handle of the metaindex, which ends at or before `offset`, that of the footer.
fn decode_handle(input: &mut Input<'_>, is_legacy: bool, offset: u64) -> Decoded<Handle> {
    if !is_legacy {
        let version = Input::new(&input.rest()[1 + HANDLES_LEN..]).fixed32()?;
        if version > CUCKOO_VERSION {
            let text = format!("version {version} of a table without blocks");
            return Err(Malformed::unsupported(1 + HANDLES_LEN, text));
        }
        input.u8()?;
    }
    let at = input.at();
    let handle = Handle::decode(input)?;
    handle.check_with(0, offset, at)?;
    Ok(handle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const METAINDEX: Handle = Handle {
        offset: 1000,
        size: 95,
    };

    #[test]
    fn footers_round_trip() {
        for (format, len) in [(FlatFormat::Plain, 48), (FlatFormat::Cuckoo, 53)] {
            let mut tail = b"before".to_vec();
            tail.extend(FlatFooter::encode(format, METAINDEX));
            let footer = FlatFooter::decode(&tail, 1095 + len).unwrap();
            assert_eq!(footer.format, format);
            assert_eq!(footer.metaindex, METAINDEX);
            assert_eq!(footer.len as u64, len);
            let error = FlatFooter::decode(&tail, 1094 + len).unwrap_err();
            assert!(error.what.contains("handle of a block"), "{error}");
        }
    }

    #[test]
    fn newer_versions_are_not_supported() {
        let mut tail = FlatFooter::encode(FlatFormat::Cuckoo, METAINDEX);
        tail[41] = 2;
        assert!(FlatFooter::decode(&tail, 2000).unwrap_err().unsupported);
    }

    proptest! {
        #[test]
        fn damage_never_panics(at in 0usize..53, bits in 1u8.., cut in 0usize..53, len in 0u64..3000) {
            let mut tail = FlatFooter::encode(FlatFormat::Cuckoo, METAINDEX);
            tail[at] ^= bits;
            let _ = FlatFooter::decode(&tail, len);
            let _ = FlatFooter::decode(&tail[cut..], len);
        }
    }
}
