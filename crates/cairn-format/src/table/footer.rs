//! The footer: the last 48 or 53 bytes of a table, which are read first.
//!
//! ```text
//! offset  size  format versions 1 to 5          format versions 6 to 8
//!      0     1  checksum kind                   checksum kind
//!      1    40  handles of the metaindex and    3e 00 7a 00, footer checksum, base context
//!               the index, padded with zeros    checksum, metaindex size, 24 zeros
//!     41     4  format version                  format version
//!     45     8  magic number                    magic number
//! ```
//!
//! Version 0 has the 40 bytes of handles, its own magic number, and CRC32C. Since version 6, the
//! index is found through the metaindex, and the footer has its own checksum, which depends on the
//! footer's offset, so that a footer of another file is detected. The metaindex size has 32 bits in
//! versions 6 and 7. In version 8 it has 16; the other 16 give the number of bytes between the
//! metaindex and the footer, which readers skip.

use cairn_types::{Decoded, Malformed};

use crate::checksum::{ChecksumKind, buffer_checksum, context_modifier};
use crate::coding::{Input, put_fixed32, put_fixed64};
use crate::table::TRAILER_LEN;
use crate::table::handle::Handle;

/// The length of the footer of versions 1 and later.
pub const FOOTER_LEN: usize = 53;
/// The length of the footer of version 0.
pub const LEGACY_FOOTER_LEN: usize = 48;
/// The newest supported version.
pub const LATEST_VERSION: u32 = 8;
/// The maximum size of a metaindex in version 8.
pub const MAX_METAINDEX_V8: u64 = u16::MAX as u64;
/// The first version whose footer has a checksum.
const EXTENDED_SINCE: u32 = 6;
/// The first version with a gap after the metaindex.
const GAP_SINCE: u32 = 8;

const MAGIC: u64 = 0x88e2_41b7_85f4_cff7;
const LEGACY_MAGIC: u64 = 0xdb47_7524_8b80_fb57;
const PLAIN_MAGIC: u64 = 0x8242_2296_63bf_9564;
const LEGACY_PLAIN_MAGIC: u64 = 0x4f34_18eb_7a8f_13b8;
const CUCKOO_MAGIC: u64 = 0x9267_89d0_c5f1_7873;
const EXTENDED_MAGIC: [u8; 4] = [0x3e, 0x00, 0x7a, 0x00];
/// The length of the two handles and their padding.
const HANDLES_LEN: usize = 40;
/// The offset of the footer checksum.
const FOOTER_CHECKSUM_AT: usize = 5;

/// Offset of the base context checksum in footers of version 6 and later.
const BASE_CONTEXT_AT: usize = 9;

/// The decoded footer of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// The format version of the table.
    pub version: u32,
    /// The checksum type.
    pub checksum: ChecksumKind,
    /// The handle of the metaindex.
    pub metaindex: Handle,
    /// The handle of the index; `None` since version 6, where it is in the metaindex.
    pub index: Option<Handle>,
    /// The base context checksum, on which block checksums depend in addition to block and offset;
    /// 0 before version 6.
    pub base_context: u32,
}

impl Footer {
    /// The encoded length of this footer.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        if self.version == 0 {
            LEGACY_FOOTER_LEN
        } else {
            FOOTER_LEN
        }
    }

    /// Decodes the footer of a table of `file_len` bytes from `tail`, the end of the file.
    ///
    /// `tail` may start before the footer. It is not trusted: both handles are checked against the footer's
    /// offset.
    ///
    /// # Errors
    ///
    /// The field and its offset in `tail`. Other table formats and newer versions are distinguished
    /// from damage.
    pub fn decode(tail: &[u8], file_len: u64) -> Decoded<Footer> {
        let magic = tail
            .last_chunk::<8>()
            .ok_or_else(|| Malformed::at(0, "file is too short to be a table"))?;
        let magic_at = tail.len() - 8;
        let len = match u64::from_le_bytes(*magic) {
            MAGIC => FOOTER_LEN,
            LEGACY_MAGIC => LEGACY_FOOTER_LEN,
            other => return Err(foreign(other, magic_at)),
        };
        let (start, offset) = place(tail, file_len, len)?;
        let footer = &tail[start..];
        let decoded = if len == LEGACY_FOOTER_LEN {
            with_handles(0, ChecksumKind::Crc32c, &footer[..HANDLES_LEN], 0, offset)
        } else {
            versioned(footer, offset)
        };
        decoded.map_err(|error| error.shifted(start))
    }

    /// Encodes the footer for the offset `offset` of the file and appends it to `out`.
    ///
    /// The metaindex of version 6 and later must be the block directly before `offset`.
    ///
    /// # Panics
    ///
    /// If it is not, if it is larger than [`MAX_METAINDEX_V8`] in version 8, or if a handle is missing: the
    /// file would be unreadable.
    pub fn encode(&self, offset: u64, out: &mut Vec<u8>) {
        let start = out.len();
        if self.version == 0 {
            self.encode_handles(out);
            put_fixed64(out, LEGACY_MAGIC);
            return;
        }
        out.push(self.checksum as u8);
        if self.version < 6 {
            self.encode_handles(out);
        } else {
            assert_eq!(
                self.metaindex.end(),
                offset,
                "the metaindex ends at the footer"
            );
            out.extend_from_slice(&EXTENDED_MAGIC);
            put_fixed32(out, 0);
            put_fixed32(out, self.base_context);
            let size = u32::try_from(self.metaindex.size);
            let size = size.expect("a metaindex is far smaller than 4 GiB");
            assert!(
                self.version < GAP_SINCE || u64::from(size) <= MAX_METAINDEX_V8,
                "the size of the metaindex fits its field"
            );
            put_fixed32(out, size);
            out.extend_from_slice(&[0; 24]);
        }
        put_fixed32(out, self.version);
        put_fixed64(out, MAGIC);
        if self.version >= 6 {
            let checksum = buffer_checksum(self.checksum, &out[start..])
                .wrapping_add(context_modifier(self.base_context, offset));
            let at = start + FOOTER_CHECKSUM_AT;
            out[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
        }
    }

    /// The two handles and their padding.
    fn encode_handles(&self, out: &mut Vec<u8>) {
        let start = out.len();
        self.metaindex.encode(out);
        self.index
            .expect("before version 6 the footer has the index")
            .encode(out);
        out.resize(start + HANDLES_LEN, 0);
    }
}

/// The error for a magic number other than that of a block-based table.
fn foreign(magic: u64, at: usize) -> Malformed {
    match magic {
        PLAIN_MAGIC | LEGACY_PLAIN_MAGIC => Malformed::unsupported(at, "PlainTable format"),
        CUCKOO_MAGIC => Malformed::unsupported(at, "CuckooTable format"),
        other => Malformed::mismatch(
            at,
            "magic number of a table",
            format_args!("{MAGIC:016x}"),
            format_args!("{other:016x}"),
        ),
    }
}

/// Decodes the footer of versions 1 and later, which starts with checksum type and version.
fn versioned(footer: &[u8], offset: u64) -> Decoded<Footer> {
    let checksum = ChecksumKind::decode(footer[0], 0)?;
    let parts = &footer[1..1 + HANDLES_LEN];
    let version = Input::new(&footer[1 + HANDLES_LEN..]).fixed32()?;
    match version {
        1..=5 => with_handles(version, checksum, parts, 1, offset),
        EXTENDED_SINCE..=LATEST_VERSION => with_own_checksum(version, checksum, footer, offset),
        0 => Err(Malformed::at(
            41,
            "format version 0 under the magic number of later ones",
        )),
        _ => Err(Malformed::unsupported(
            41,
            format!("format_version {version} (the newest known is {LATEST_VERSION})"),
        )),
    }
}

/// Decodes versions 0 to 5: `parts`, at offset `base` of the footer, has both handles.
fn with_handles(
    version: u32,
    checksum: ChecksumKind,
    parts: &[u8],
    base: usize,
    offset: u64,
) -> Decoded<Footer> {
    let mut input = Input::new(parts);
    let decode = |input: &mut Input<'_>| {
        let at = input.at();
        let handle = Handle::decode(input)?;
        handle.check(offset, at)?;
        Ok(handle)
    };
    let metaindex = decode(&mut input).map_err(|e: Malformed| e.shifted(base))?;
    let index = decode(&mut input).map_err(|e: Malformed| e.shifted(base))?;
    Ok(Footer {
        version,
        checksum,
        metaindex,
        index: Some(index),
        base_context: 0,
    })
}

/// Decodes versions 6 and later: the metaindex directly precedes the footer, or a gap.
fn with_own_checksum(
    version: u32,
    checksum: ChecksumKind,
    footer: &[u8],
    offset: u64,
) -> Decoded<Footer> {
    let mut input = Input::new(footer);
    input.u8()?;
    input.expect(&EXTENDED_MAGIC, "extended magic number of the footer")?;
    let stored = input.fixed32()?;
    let base_context = input.fixed32()?;
    let size_and_gap = u64::from(input.fixed32()?);
    let (size, gap) = match version {
        GAP_SINCE.. => (size_and_gap & MAX_METAINDEX_V8, size_and_gap >> 16),
        _ => (size_and_gap, 0),
    };
    input.take(16)?;
    if input.take(8)? != [0; 8] {
        return Err(Malformed::unsupported(33, "footer with unknown extensions"));
    }
    if base_context == 0 {
        return Err(Malformed::mismatch(
            BASE_CONTEXT_AT,
            "base context checksum of the footer",
            "a number other than 0",
            base_context,
        ));
    }
    // Without checksums of blocks the footer has one too, that of its place only: a damaged kind does not pass for none.
    let mut copy = footer.to_vec();
    copy[FOOTER_CHECKSUM_AT..FOOTER_CHECKSUM_AT + 4].fill(0);
    let computed =
        buffer_checksum(checksum, &copy).wrapping_add(context_modifier(base_context, offset));
    if computed != stored {
        return Err(Malformed::mismatch(
            FOOTER_CHECKSUM_AT,
            "checksum of the footer",
            format_args!("{computed:08x}"),
            format_args!("{stored:08x}"),
        ));
    }
    let start = offset
        .checked_sub(TRAILER_LEN as u64 + gap)
        .and_then(|end| end.checked_sub(size))
        .ok_or_else(|| {
            Malformed::mismatch(13, "size of the metaindex", "less than the file", size)
        })?;
    Ok(Footer {
        version,
        checksum,
        metaindex: Handle {
            offset: start,
            size,
        },
        index: None,
        base_context,
    })
}

/// The offsets of a footer of `len` bytes in `tail`, the end of a file of `file_len` bytes, and in the file.
pub(crate) fn place(tail: &[u8], file_len: u64, len: usize) -> Decoded<(usize, u64)> {
    let start = tail
        .len()
        .checked_sub(len)
        .ok_or_else(|| Malformed::at(0, "footer is truncated"))?;
    let offset = file_len
        .checked_sub(len as u64)
        .ok_or_else(|| Malformed::at(0, "file is shorter than its footer"))?;
    Ok((start, offset))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn footer(version: u32, checksum: ChecksumKind) -> Footer {
        Footer {
            version,
            checksum: if version == 0 {
                ChecksumKind::Crc32c
            } else {
                checksum
            },
            metaindex: Handle {
                offset: 1000,
                size: 95,
            },
            index: (version < 6).then_some(Handle {
                offset: 700,
                size: 123,
            }),
            base_context: if version < 6 { 0 } else { 0xfeed_beef },
        }
    }

    #[test]
    fn footers_of_all_versions_round_trip() {
        for version in 0..=LATEST_VERSION {
            for kind in 0..=4 {
                let footer = footer(version, ChecksumKind::from_u8(kind).unwrap());
                let mut tail = b"something before".to_vec();
                footer.encode(1100, &mut tail);
                let file_len = 1100 + footer.encoded_len() as u64;
                assert_eq!(Footer::decode(&tail, file_len).unwrap(), footer);
            }
        }
    }

    #[test]
    fn misplaced_footers_are_detected() {
        let mut tail = Vec::new();
        footer(7, ChecksumKind::Xxh3).encode(1100, &mut tail);
        let error = Footer::decode(&tail, 2000).unwrap_err();
        assert!(error.what.contains("checksum of the footer"), "{error}");
    }

    /// Regression: a kind of checksum that was damaged to "none" disabled the check of the footer and of all blocks.
    #[test]
    fn a_damaged_kind_of_checksum_is_detected() {
        for version in EXTENDED_SINCE..=LATEST_VERSION {
            for kind in 0..=4 {
                let mut tail = Vec::new();
                footer(version, ChecksumKind::from_u8(kind).unwrap()).encode(1100, &mut tail);
                let file_len = 1100 + tail.len() as u64;
                for other in (0..=4).filter(|other| *other != kind) {
                    tail[0] = other;
                    let error = Footer::decode(&tail, file_len).unwrap_err();
                    assert!(error.what.contains("checksum of the footer"), "{error}");
                }
            }
        }
    }

    #[test]
    fn a_footer_without_a_base_context_checksum_is_malformed() {
        let mut tail = Vec::new();
        let without = Footer {
            base_context: 0,
            ..footer(7, ChecksumKind::None)
        };
        without.encode(1100, &mut tail);
        let error = Footer::decode(&tail, 1100 + tail.len() as u64).unwrap_err();
        assert!(error.what.contains("base context checksum"), "{error}");
    }

    #[test]
    fn other_formats_and_versions_are_unsupported() {
        let mut tail = Vec::new();
        footer(5, ChecksumKind::Xxh3).encode(1100, &mut tail);
        let mut newer = tail.clone();
        newer[41] = 9;
        assert!(Footer::decode(&newer, 1153).unwrap_err().unsupported);
        tail[45..].copy_from_slice(&PLAIN_MAGIC.to_le_bytes());
        assert!(Footer::decode(&tail, 1153).unwrap_err().unsupported);
        tail[45] = 0;
        assert!(!Footer::decode(&tail, 1153).unwrap_err().unsupported);
    }

    /// No writer leaves a gap so far, but readers must skip it.
    #[test]
    fn a_gap_after_the_metaindex_of_version_8_is_skipped() {
        let mut tail = Vec::new();
        footer(8, ChecksumKind::Xxh3).encode(1100, &mut tail);
        tail[15..17].copy_from_slice(&7u16.to_le_bytes());
        tail[5..9].fill(0);
        let checksum = buffer_checksum(ChecksumKind::Xxh3, &tail)
            .wrapping_add(context_modifier(0xfeed_beef, 1107));
        tail[5..9].copy_from_slice(&checksum.to_le_bytes());
        let decoded = Footer::decode(&tail, 1160).unwrap();
        assert_eq!(decoded, footer(8, ChecksumKind::Xxh3));
    }

    proptest! {
        #[test]
        fn damaged_footers_never_panic(version in 0u32..9, at in 0usize..53, bits in 1u8.., file_len in 0u64..3000) {
            let footer = footer(version, ChecksumKind::Xxh3);
            let mut tail = Vec::new();
            footer.encode(1100, &mut tail);
            let at = at % tail.len();
            tail[at] ^= bits;
            if let Ok(decoded) = Footer::decode(&tail, file_len) {
                prop_assert!(decoded.metaindex.end() <= file_len);
            }
        }
    }
}
