//! From the bytes of a block in its file to its contents in memory.

use std::ops::Deref;
use std::sync::Arc;

use cairn_compress::{
    Compression, Dictionary, Framing, declared_len, decompress, decompress_exact,
};
use cairn_format::block::{EntryForm, expand};
use cairn_format::checksum::{ChecksumKind, block_checksum, context_modifier};
use cairn_format::table::{Footer, Handle, Properties, TRAILER_LEN};
use cairn_observe::statistics::{Histogram, Meter};
use cairn_platform::{Buffer, RandomAccessFile, ReadRequest};
use cairn_types::{Decoded, Malformed};

/// No block may become larger than this; offsets in blocks are 32 bits wide.
const MAX_BLOCK_BYTES: usize = u32::MAX as usize;

/// Splits `raw`, a block with its trailer, and checks its checksum. Returns what is before the
/// trailer, and how it is compressed.
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

/// The bytes of a block as they were read, with its trailer.
pub(crate) enum Raw<'a> {
    /// Bytes among others.
    Part(&'a [u8]),
    /// All bytes of a buffer: those of a block that is not compressed stay where they are.
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

/// The contents of the block whose bytes are `raw`, with memory for a tail of `room` bytes if they are copied.
/// How long it takes to decompress them goes to `meter`.
pub(crate) fn unpack(
    raw: &Raw<'_>,
    handle: Handle,
    footer: &Footer,
    dictionary: Option<&Dictionary>,
    verify: bool,
    room: usize,
    meter: &Meter,
) -> Decoded<Buffer> {
    let (stored, kind) = check(raw, handle, footer, verify)?;
    if kind == Compression::None {
        return Ok(match raw {
            Raw::Part(_) => Buffer::with_room(stored, room),
            Raw::Whole(buffer) => buffer.clone().cut(TRAILER_LEN),
        });
    }
    let began = meter.began_detail();
    let unpacked = decompressed(stored, kind, footer, dictionary, room);
    if let Some(nanos) = meter.nanos_since(began) {
        meter.update(|update| update.time(Histogram::DecompressionTimesNanos, nanos));
    }
    unpacked
}

/// The first format version whose blocks may have a common prefix.
const COMMON_PREFIX_SINCE: u32 = 8;

/// `block`, the contents of a block of entries, as cursors move in it: without a common prefix. With memory for a
/// tail of `room` bytes if it has to be built anew.
pub(crate) fn without_prefix(
    block: Buffer,
    form: EntryForm,
    footer: &Footer,
    room: usize,
) -> Decoded<Buffer> {
    if footer.version < COMMON_PREFIX_SINCE {
        return Ok(block);
    }
    Ok(match expand(&block, form)? {
        Some(expanded) => Buffer::with_room(&expanded, room),
        None => block,
    })
}

fn decompressed(
    stored: &[u8],
    kind: Compression,
    footer: &Footer,
    dictionary: Option<&Dictionary>,
    room: usize,
) -> Decoded<Buffer> {
    let framing = Framing::of_format_version(footer.version);
    let declared = declared_len(kind, stored, framing, MAX_BLOCK_BYTES)?;
    match declared.modest_len(stored.len()) {
        Some(len) => Buffer::filled(len, room, |out| {
            decompress_exact(kind, stored, framing, dictionary, out)
        }),
        None => decompress(kind, stored, framing, dictionary, MAX_BLOCK_BYTES).map(Buffer::from),
    }
}

/// The result of `decode` for `file`'s bytes at `offset` when they are read anew, after those that were
/// read first (`len` of them) proved damaged. What damaged them may have been on the way: memory, a
/// cable, the drive's own cache. If the second reading is no better, the first one's error stands.
#[cold]
pub(crate) fn read_again<T>(
    error: Malformed,
    file: &Arc<dyn RandomAccessFile>,
    (offset, len): (u64, usize),
    decode: impl FnOnce(&Raw<'_>) -> Decoded<T>,
) -> Decoded<T> {
    let again = ReadRequest::new(file.clone(), offset, len).read_now();
    again
        .ok()
        .and_then(|bytes| decode(&Raw::Whole(bytes)).ok())
        .ok_or(error)
}

/// Like [`unpack`], for a block that is read once and not kept: what is not compressed stays where it is.
pub(crate) fn contents<'r>(
    raw: &'r Raw<'_>,
    handle: Handle,
    footer: &Footer,
    meter: &Meter,
) -> Decoded<Raw<'r>> {
    match check(raw, handle, footer, true)? {
        (stored, Compression::None) => Ok(Raw::Part(stored)),
        _ => unpack(raw, handle, footer, None, false, 0, meter).map(Raw::Whole),
    }
}

/// Like [`contents`] for the properties block, whose global sequence number may have been written in
/// place without mending the checksum (formats.md 13).
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
