//! Verifies and decompresses blocks read from a file.

use std::ops::Deref;

use cairn_compress::{
    Compression, Dictionary, Framing, declared_len, decompress, decompress_exact,
};
use cairn_format::block::{EntryForm, expand};
use cairn_format::checksum::{ChecksumKind, block_checksum, context_modifier};
use cairn_format::table::{Footer, Handle, Properties, TRAILER_LEN};
use cairn_observe::statistics::{Histogram, Meter};
use cairn_platform::{Allocation, Buffer, ReadRequest};
use cairn_types::{Decoded, Malformed};

/// Maximum block size: offsets in blocks have 32 bits.
const MAX_BLOCK_BYTES: usize = u32::MAX as usize;

/// Verifies the checksum of `raw`, a block with its trailer. Returns the stored contents and their
/// compression type.
pub(crate) fn check<'a>(
    raw: &'a [u8],
    handle: Handle,
    footer: &Footer,
    verify: bool,
) -> Decoded<(&'a [u8], Compression)> {
    let wanted = handle.size + TRAILER_LEN as u64;
    if raw.len() as u64 != wanted {
        return Err(Malformed::mismatch(
            0,
            "length of a block that was read",
            wanted,
            raw.len(),
        ));
    }
    let (stored, trailer) = raw.split_at(raw.len() - TRAILER_LEN);
    let kind = trailer[0];
    if verify && footer.checksum != ChecksumKind::None {
        let [_, a, b, c, d] = *trailer else {
            unreachable!("a trailer has five bytes");
        };
        let found = u32::from_le_bytes([a, b, c, d]);
        let expected = block_checksum(footer.checksum, stored, kind)
            .wrapping_add(context_modifier(footer.base_context, handle.offset));
        if found != expected {
            return Err(Malformed::mismatch(
                stored.len() + 1,
                &format!(
                    "checksum of the block of {} bytes at {}",
                    handle.size, handle.offset
                ),
                format_args!("{expected:08x}"),
                format_args!("{found:08x}"),
            ));
        }
    }
    let kind = Compression::from_u8(kind).ok_or_else(|| {
        Malformed::unsupported(stored.len(), format!("compression type {kind:#04x}"))
    })?;
    Ok((stored, kind))
}

/// A block as read, with its trailer.
pub(crate) enum Raw<'a> {
    /// A slice of a larger read.
    Part(&'a [u8]),
    /// A whole buffer; the contents of an uncompressed block need not be copied.
    Whole(Buffer),
}

impl Deref for Raw<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Raw::Part(bytes) => bytes,
            Raw::Whole(buffer) => buffer,
        }
    }
}

/// Returns the contents of the block `raw`, in memory of `allocation` if they are copied.
/// Decompression time is reported to `meter`.
pub(crate) fn unpack(
    raw: &Raw<'_>,
    handle: Handle,
    footer: &Footer,
    dictionary: Option<&Dictionary>,
    verify: bool,
    allocation: Allocation,
    meter: &Meter,
) -> Decoded<Buffer> {
    let (stored, kind) = check(raw, handle, footer, verify)?;
    if kind == Compression::None {
        return Ok(match raw {
            Raw::Part(_) => Buffer::copy_of(stored, allocation),
            Raw::Whole(buffer) => buffer.clone().cut(TRAILER_LEN),
        });
    }
    let began = meter.began_detail();
    let unpacked = decompressed(stored, kind, footer, dictionary, allocation);
    if let Some(nanos) = meter.nanos_since(began) {
        meter.update(|update| update.time(Histogram::DecompressionTimesNanos, nanos));
    }
    unpacked
}

/// The first format version whose blocks may have a common prefix.
const COMMON_PREFIX_SINCE: u32 = 8;

/// Returns `block` with whole keys, as cursors expect, instead of keys without their common prefix.
/// If it is rebuilt, it is in memory of `allocation`. `version` is the format version of the table.
pub(crate) fn without_prefix(
    block: Buffer,
    form: EntryForm,
    version: u32,
    allocation: Allocation,
) -> Decoded<Buffer> {
    if version < COMMON_PREFIX_SINCE {
        return Ok(block);
    }
    Ok(match expand(&block, form)? {
        Some(expanded) => Buffer::copy_of(&expanded, allocation),
        None => block,
    })
}

fn decompressed(
    stored: &[u8],
    kind: Compression,
    footer: &Footer,
    dictionary: Option<&Dictionary>,
    allocation: Allocation,
) -> Decoded<Buffer> {
    let framing = Framing::of_format_version(footer.version);
    let declared = declared_len(kind, stored, framing, MAX_BLOCK_BYTES)?;
    match declared.modest_len(stored.len()) {
        Some(len) => Buffer::filled(len, allocation, |out| {
            decompress_exact(kind, stored, framing, dictionary, out)
        }),
        None => decompress(kind, stored, framing, dictionary, MAX_BLOCK_BYTES)
            .map(|bytes| Buffer::copy_of(&bytes, allocation)),
    }
}

/// Executes `request` again, after the first read turned out to be damaged, and returns the result of
/// `decode`. The damage may be transient: in memory, on a cable,
/// or in the cache of the drive. If the second read is damaged too, the first error is returned.
#[cold]
pub(crate) fn read_again<T>(
    error: Malformed,
    request: &ReadRequest,
    decode: impl FnOnce(&Raw<'_>) -> Decoded<T>,
) -> Decoded<T> {
    let again = request.read_now();
    again
        .ok()
        .and_then(|bytes| decode(&Raw::Whole(bytes)).ok())
        .ok_or(error)
}

/// Like [`unpack`], for a block that is read once and not kept. Uncompressed contents are not
/// copied.
pub(crate) fn contents<'r>(
    raw: &'r Raw<'_>,
    handle: Handle,
    footer: &Footer,
    meter: &Meter,
) -> Decoded<Raw<'r>> {
    match check(raw, handle, footer, true)? {
        (stored, Compression::None) => Ok(Raw::Part(stored)),
        _ => unpack(
            raw,
            handle,
            footer,
            None,
            false,
            Allocation::default(),
            meter,
        )
        .map(Raw::Whole),
    }
}

/// Like [`contents`] for the properties block, whose global sequence number may have been updated in
/// place without its checksum (formats.md 13).
pub(crate) fn properties_of<'r>(
    raw: &'r Raw<'_>,
    handle: Handle,
    footer: &Footer,
) -> Decoded<Raw<'r>> {
    let first = contents(raw, handle, footer, &Meter::default());
    let Err(mismatch) = first else {
        return first;
    };
    let Ok((stored, Compression::None)) = check(raw, handle, footer, false) else {
        return Err(mismatch);
    };
    let Some(place) = Properties::find_global_seqno(stored) else {
        return Err(mismatch);
    };
    let mut zeroed = raw.to_vec();
    zeroed[place].fill(0);
    match check(&zeroed, handle, footer, true) {
        Ok(_) => Ok(Raw::Part(stored)),
        Err(_) => Err(mismatch),
    }
}
