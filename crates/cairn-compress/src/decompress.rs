//! The decompressor: from the stored form of a block to its content, for untrusted input.

use cairn_types::{Decoded, Malformed};

use crate::dictionary::Dictionary;
use crate::kind::Compression;
use crate::lz4;
use crate::zstd;

/// The encoding of the uncompressed size in a stored form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Format versions 0 and 1: none for zlib and bzip2, 8 bytes for LZ4.
    Legacy,
    /// Format version 2 and later, and blob files: a leading varint32. Snappy has its own.
    Sized,
}

impl Framing {
    /// The framing of tables of this format version.
    #[must_use]
    pub fn of_format_version(version: u32) -> Framing {
        if version < 2 {
            Framing::Legacy
        } else {
            Framing::Sized
        }
    }
}

/// The size information in a stored form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The uncompressed size, if the framing has one.
    pub len: Option<usize>,
    /// The offset of the codec's stream in the stored form.
    pub stream: usize,
}

impl Declared {
    /// The declared size, if it is safe to allocate for a stored form of `stored_len` bytes: at most 64 KiB
    /// and 8 times the input.
    #[must_use]
    pub fn modest_len(&self, stored_len: usize) -> Option<usize> {
        self.len.filter(|&len| len <= modest(stored_len))
    }
}

/// The number of bytes to allocate initially for an input of `stored_len` bytes.
fn modest(stored_len: usize) -> usize {
    (64 << 10) + stored_len.saturating_mul(8)
}

/// The maximum number of bytes that one byte of a codec's stream can expand to.
fn best_ratio(kind: Compression) -> usize {
    match kind {
        Compression::None | Compression::Xpress => 1,
        // Three bytes copy at most 64 bytes.
        Compression::Snappy => 22,
        // Two bits encode a match of 258 bytes.
        Compression::Zlib => 1032,
        // About 37 bytes encode a block of 900,000 bytes in which every five stand for 259.
        Compression::Bzip2 => 1 << 21,
        Compression::Lz4 | Compression::Lz4hc => 255,
        // Four bytes encode a run of 128 KiB.
        Compression::Zstd => 32768,
    }
}

/// Appends a varint32.
pub(crate) fn put_varint32(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The varint32 at the start of `bytes`, and its length.
fn varint32(bytes: &[u8]) -> Option<(u32, usize)> {
    let mut value = 0u64;
    for (at, &byte) in bytes.iter().take(5).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return Some((u32::try_from(value).ok()?, at + 1));
        }
    }
    None
}

/// Decodes the size information of `payload` and checks it against the codec's best ratio and `limit`.
///
/// # Errors
///
/// [`Malformed`] if the size is truncated, beyond the codec's best ratio, or above `limit`, or if the codec is not
/// supported.
pub fn declared_len(
    kind: Compression,
    payload: &[u8],
    framing: Framing,
    limit: usize,
) -> Decoded<Declared> {
    let cut = || {
        Malformed::at(
            0,
            "size of the uncompressed block is truncated or too large",
        )
    };
    let (len, stream) = match (kind, framing) {
        (kind, _) if !kind.is_supported() => {
            return Err(Malformed::unsupported(0, kind.absence()));
        }
        (Compression::None, _) => (Some(payload.len() as u64), 0),
        (Compression::Snappy, _) => (Some(u64::from(varint32(payload).ok_or_else(cut)?.0)), 0),
        (Compression::Zlib | Compression::Bzip2, Framing::Legacy) => (None, 0),
        (Compression::Lz4 | Compression::Lz4hc, Framing::Legacy) => {
            let bytes = payload.first_chunk::<8>().ok_or_else(cut)?;
            (Some(u64::from_le_bytes(*bytes)), 8)
        }
        _ => {
            let (len, width) = varint32(payload).ok_or_else(cut)?;
            (Some(u64::from(len)), width)
        }
    };
    let reach = (payload.len() - stream)
        .saturating_mul(best_ratio(kind))
        .min(limit);
    match len {
        None => Ok(Declared { len: None, stream }),
        Some(len) if len <= reach as u64 => Ok(Declared {
            len: Some(len as usize),
            stream,
        }),
        Some(len) => Err(Malformed::mismatch(
            0,
            "size of the uncompressed block",
            format_args!("at most {reach} from {} bytes of {kind}", payload.len()),
            len,
        )),
    }
}

/// Decompresses the stored form `payload` (the block without its trailer) to at most `limit` bytes.
///
/// # Errors
///
/// [`Malformed`] if the stored form is damaged or does not have the declared size.
pub fn decompress(
    kind: Compression,
    payload: &[u8],
    framing: Framing,
    dictionary: Option<&Dictionary>,
    limit: usize,
) -> Decoded<Vec<u8>> {
    let declared = declared_len(kind, payload, framing, limit)?;
    if let Some(len) = declared.modest_len(payload.len()) {
        let mut out = vec![0; len];
        fill(kind, payload, declared, dictionary, &mut out)?;
        return Ok(out);
    }
    let stream = &payload[declared.stream..];
    let out = match kind {
        Compression::Zlib => inflate_growing(stream, dictionary, declared.len.unwrap_or(limit)),
        Compression::Bzip2 => bunzip2_growing(stream, declared.len.unwrap_or(limit)),
        Compression::Snappy => {
            let len = declared.len.unwrap_or(0);
            check_snappy(stream, len)?;
            let mut out = vec![0; len];
            fill(kind, payload, declared, dictionary, &mut out)?;
            return Ok(out);
        }
        _ => by_doubling(kind, stream, dictionary, declared.len.unwrap_or(limit)),
    }
    .map_err(|error| error.shifted(declared.stream))?;
    match declared.len {
        Some(len) if len != out.len() => Err(wrong_len(declared, out.len())),
        _ => Ok(out),
    }
}

/// Decompresses the stored form `payload` into `out`, which must have the declared size.
///
/// # Errors
///
/// [`Malformed`] if the stored form is damaged or does not have that size.
pub fn decompress_exact(
    kind: Compression,
    payload: &[u8],
    framing: Framing,
    dictionary: Option<&Dictionary>,
    out: &mut [u8],
) -> Decoded<()> {
    let declared = declared_len(kind, payload, framing, out.len())?;
    fill(kind, payload, declared, dictionary, out)
}

#[cold]
fn wrong_len(declared: Declared, found: usize) -> Malformed {
    Malformed::mismatch(
        declared.stream,
        "length of the uncompressed block",
        declared.len.unwrap_or(0),
        found,
    )
}

#[cold]
fn broken(kind: Compression, why: impl std::fmt::Display) -> Malformed {
    Malformed::at(0, format!("{kind} stream is damaged ({why})"))
}

/// The outcome of an attempt to decompress into a buffer.
enum Attempt {
    Wrote(usize),
    TooSmall,
}

/// Decompresses into `out`, which the output must fill.
fn fill(
    kind: Compression,
    payload: &[u8],
    declared: Declared,
    dictionary: Option<&Dictionary>,
    out: &mut [u8],
) -> Decoded<()> {
    let stream = &payload[declared.stream..];
    let attempt = match kind {
        Compression::None => {
            if stream.len() == out.len() {
                out.copy_from_slice(stream);
            }
            Ok(Attempt::Wrote(stream.len()))
        }
        Compression::Snappy => snap::raw::Decoder::new()
            .decompress(stream, out)
            .map(Attempt::Wrote)
            .map_err(|e| broken(kind, e)),
        Compression::Zlib => inflate(stream, dictionary, out),
        Compression::Bzip2 => bunzip2(stream, out),
        Compression::Lz4 | Compression::Lz4hc => {
            lz4::decompress(stream, dictionary.map_or(&[], Dictionary::raw), out)
                .map(Attempt::Wrote)
                .ok_or_else(|| broken(kind, "malformed, or longer than declared"))
        }
        Compression::Zstd => unzstd_attempt(stream, dictionary, out)
            .map(|written| written.map_or(Attempt::TooSmall, Attempt::Wrote)),
        Compression::Xpress => Err(Malformed::unsupported(0, kind.absence())),
    };
    match attempt.map_err(|error| error.shifted(declared.stream))? {
        Attempt::Wrote(len) if len == out.len() => Ok(()),
        Attempt::Wrote(len) => Err(Malformed::mismatch(
            declared.stream,
            "length of the uncompressed block",
            out.len(),
            len,
        )),
        Attempt::TooSmall => Err(broken(kind, "longer than declared").shifted(declared.stream)),
    }
}

/// Attempts to decompress with zstd.
fn unzstd_attempt(
    stream: &[u8],
    dictionary: Option<&Dictionary>,
    out: &mut [u8],
) -> Decoded<Option<usize>> {
    let digested = match dictionary {
        None => None,
        Some(dictionary) => match dictionary.zstd() {
            None => return Err(broken(Compression::Zstd, "its dictionary is damaged")),
            digested => digested,
        },
    };
    zstd::decompress(stream, digested, out)
}

/// The window size of raw deflate streams. The largest one decodes streams of any smaller one.
const WINDOW_BITS: u8 = 15;

fn inflater(dictionary: Option<&Dictionary>) -> Decoded<flate2::Decompress> {
    let mut stream = flate2::Decompress::new_with_window_bits(false, WINDOW_BITS);
    if let Some(dictionary) = dictionary {
        stream
            .set_dictionary(dictionary.raw())
            .map_err(|e| broken(Compression::Zlib, e))?;
    }
    Ok(stream)
}

fn inflate(input: &[u8], dictionary: Option<&Dictionary>, out: &mut [u8]) -> Decoded<Attempt> {
    let mut stream = inflater(dictionary)?;
    let status = stream
        .decompress(input, out, flate2::FlushDecompress::Finish)
        .map_err(|e| broken(Compression::Zlib, e))?;
    match status {
        flate2::Status::StreamEnd => Ok(Attempt::Wrote(stream.total_out() as usize)),
        _ => Err(broken(
            Compression::Zlib,
            "truncated, or longer than declared",
        )),
    }
}

fn bunzip2(input: &[u8], out: &mut [u8]) -> Decoded<Attempt> {
    let mut stream = bzip2::Decompress::new(false);
    // One call consumes the whole input, up to the end of the output.
    match stream.decompress(input, out) {
        Ok(bzip2::Status::StreamEnd) => Ok(Attempt::Wrote(stream.total_out() as usize)),
        Ok(_) => Err(broken(
            Compression::Bzip2,
            "truncated, or longer than declared",
        )),
        Err(error) => Err(broken(Compression::Bzip2, error)),
    }
}

/// Doubles the output buffer of a stream.
fn grow(out: &mut Vec<u8>, input_len: usize, max: usize) -> bool {
    if out.len() < out.capacity() {
        return true;
    }
    let room = modest(input_len).max(out.len()).min(max - out.len());
    out.reserve_exact(room);
    room > 0
}

fn inflate_growing(input: &[u8], dictionary: Option<&Dictionary>, max: usize) -> Decoded<Vec<u8>> {
    let mut stream = inflater(dictionary)?;
    let mut out = Vec::new();
    while grow(&mut out, input.len(), max) {
        let (taken, had) = (stream.total_in() as usize, out.len());
        let status = stream
            .decompress_vec(&input[taken..], &mut out, flate2::FlushDecompress::None)
            .map_err(|e| broken(Compression::Zlib, e))?;
        if status == flate2::Status::StreamEnd {
            return Ok(out);
        }
        if stream.total_in() as usize == taken && out.len() == had {
            return Err(broken(Compression::Zlib, "truncated"));
        }
    }
    Err(broken(Compression::Zlib, "longer than declared or allowed"))
}

fn bunzip2_growing(input: &[u8], max: usize) -> Decoded<Vec<u8>> {
    let mut stream = bzip2::Decompress::new(false);
    let mut out = Vec::new();
    while grow(&mut out, input.len(), max) {
        let (taken, had) = (stream.total_in() as usize, out.len());
        let status = stream
            .decompress_vec(&input[taken..], &mut out)
            .map_err(|e| broken(Compression::Bzip2, e))?;
        if status == bzip2::Status::StreamEnd {
            return Ok(out);
        }
        if stream.total_in() as usize == taken && out.len() == had {
            return Err(broken(Compression::Bzip2, "truncated"));
        }
    }
    Err(broken(
        Compression::Bzip2,
        "longer than declared or allowed",
    ))
}

/// Decompresses with a codec that cannot be resumed: first into a small buffer, then from the start
/// into one of twice the size until it fits.
pub(crate) fn by_doubling(
    kind: Compression,
    stream: &[u8],
    dictionary: Option<&Dictionary>,
    max: usize,
) -> Decoded<Vec<u8>> {
    let mut len = modest(stream.len()).min(max);
    loop {
        let mut out = vec![0; len];
        let written = if kind == Compression::Zstd {
            unzstd_attempt(stream, dictionary, &mut out)?
        } else {
            let dictionary = dictionary.map_or(&[][..], Dictionary::raw);
            let whole = len == max;
            let written = if whole {
                lz4::decompress(stream, dictionary, &mut out)
            } else {
                lz4::decompress_some(stream, dictionary, &mut out)
            };
            let written =
                written.ok_or_else(|| broken(kind, "malformed, or longer than declared"))?;
            Some(written).filter(|&written| whole || written < len)
        };
        match written {
            Some(written) => {
                out.truncate(written);
                return Ok(out);
            }
            None if len == max => return Err(broken(kind, "longer than declared or allowed")),
            None => len = len.saturating_mul(2).min(max),
        }
    }
}

/// Scans the elements of a Snappy block and checks that they produce `len` bytes, so that a buffer
/// is allocated only for a block that fills it.
fn check_snappy(stream: &[u8], len: usize) -> Decoded<()> {
    let (_, mut at) = varint32(stream).unwrap_or((0, stream.len()));
    let mut total = 0usize;
    while let Some(&tag) = stream.get(at) {
        let short = usize::from(tag >> 2);
        let (element, width) = match tag & 3 {
            0 if short < 60 => (short + 1, short + 2),
            0 => {
                let extra = short - 59;
                let bytes = stream.get(at + 1..at + 1 + extra).unwrap_or(&[]);
                let literal = bytes.iter().rev().fold(0, |n, &b| n << 8 | usize::from(b)) + 1;
                (literal, 1 + extra + literal)
            }
            1 => ((short & 7) + 4, 2),
            2 => (short + 1, 3),
            _ => (short + 1, 5),
        };
        total += element;
        at = at.saturating_add(width);
        if total > len {
            break;
        }
    }
    if total == len && at == stream.len() {
        return Ok(());
    }
    Err(broken(
        Compression::Snappy,
        "its elements do not add up to its size",
    ))
}
