//! The compressor: one codec at one level, with working memory that is reused for every block.

use cairn_types::{Error, Result};

use crate::decompress::put_varint32;
use crate::kind::Compression;
use crate::lz4::{Effort, MAX_INPUT, Stream};
use crate::zstd;

/// RocksDB's `CompressionOptions::kDefaultCompressionLevel`, which selects the library's default.
pub const LIBRARY_DEFAULT_LEVEL: i32 = 32767;

/// Options of a codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodecOptions {
    /// The level, on the codec's own scale. [`LIBRARY_DEFAULT_LEVEL`] selects the library's default.
    pub level: i32,
    /// zlib: the base-2 logarithm of the window size, negated as for raw deflate. Streams are raw whatever the sign, and the
    /// size is limited to 9 to 14, since RocksDB reads raw streams with a window of 14 bits.
    pub window_bits: i32,
    /// zstd: true to append a checksum of the content to each frame.
    pub checksum: bool,
}

impl Default for CodecOptions {
    fn default() -> CodecOptions {
        CodecOptions {
            level: LIBRARY_DEFAULT_LEVEL,
            window_bits: -14,
            checksum: false,
        }
    }
}

/// The state that a codec keeps between blocks.
enum State {
    None,
    Snappy(Box<snap::raw::Encoder>),
    Zlib(flate2::Compress),
    Bzip2(bzip2::Compression),
    Lz4(Stream),
    Zstd(zstd::Context),
}

/// A compressor of blocks.
pub struct Compressor {
    kind: Compression,
    state: State,
    dictionary: Vec<u8>,
    scratch: Vec<u8>,
}

/// The maximum length of the uncompressed size as a varint.
const MAX_PREFIX: usize = 5;

impl Compressor {
    /// Creates a compressor of `kind`, with a dictionary if one is given and the codec supports dictionaries.
    ///
    /// # Errors
    ///
    /// `NotSupported` for XPRESS and for codecs that are not built in; `InvalidArgument` for invalid options.
    pub fn new(
        kind: Compression,
        options: CodecOptions,
        dictionary: Option<&[u8]>,
    ) -> Result<Compressor> {
        let dictionary = dictionary.filter(|_| kind.takes_dictionary());
        if !kind.is_supported() {
            return Err(kind.not_supported());
        }
        let state = match kind {
            Compression::None => State::None,
            Compression::Snappy => State::Snappy(Box::new(snap::raw::Encoder::new())),
            Compression::Zlib => State::Zlib(deflate(options)),
            Compression::Bzip2 => State::Bzip2(bzip2::Compression::new(9)),
            Compression::Lz4 => State::Lz4(Stream::new(Effort::Fast(acceleration(options)))?),
            Compression::Lz4hc => State::Lz4(Stream::new(Effort::High(hc_level(options)))?),
            Compression::Zstd => State::Zstd(zstd::Context::new(options, dictionary)?),
            Compression::Xpress => return Err(kind.not_supported()),
        };
        Ok(Compressor {
            kind,
            state,
            dictionary: dictionary.unwrap_or_default().to_vec(),
            scratch: Vec::new(),
        })
    }

    /// The longest input that [`Compressor::compress_always`] accepts for `kind`, whatever its
    /// content. Codecs use 32-bit sizes, LZ4 31-bit ones, and incompressible data expands.
    #[must_use]
    pub const fn max_len(kind: Compression) -> usize {
        match kind {
            Compression::None => u32::MAX as usize,
            Compression::Lz4 | Compression::Lz4hc => MAX_INPUT - MAX_INPUT / 200,
            _ => u32::MAX as usize / 7 * 6 - 1024,
        }
    }

    /// The maximum length of the stored form of `len` bytes for `kind`.
    #[must_use]
    pub const fn bound(kind: Compression, len: usize) -> usize {
        match kind {
            Compression::None => len,
            // No codec exceeds this: Snappy expands the most, by a sixth and 32 bytes.
            _ => len.saturating_add(len / 6 + 1024),
        }
    }

    /// The codec.
    #[must_use]
    pub fn kind(&self) -> Compression {
        self.kind
    }

    /// Appends the stored form of `raw` to `out`. Returns false, leaving `out` unchanged, if the stored form
    /// would not be shorter than `raw`.
    ///
    /// # Errors
    ///
    /// Those of the codec's library; none are expected.
    pub fn compress(&mut self, raw: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        self.compress_within(raw, raw.len().saturating_sub(1), out)
    }

    /// Appends the stored form of `raw` to `out`. Returns false, leaving `out` unchanged, if the stored form
    /// would be longer than `max_len`.
    ///
    /// # Errors
    ///
    /// Those of the codec's library; none are expected.
    pub fn compress_within(
        &mut self,
        raw: &[u8],
        max_len: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let start = out.len();
        let fits = self.append(raw, max_len, out)? && out.len() - start <= max_len;
        if !fits {
            out.truncate(start);
        }
        Ok(fits)
    }

    /// Appends the stored form of `raw` even if it is longer than `raw`: all values of a blob file
    /// have the file's codec.
    ///
    /// # Errors
    ///
    /// Those of the codec's library; none are expected.
    pub fn compress_always(&mut self, raw: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let bound = Compressor::bound(self.kind, raw.len());
        if self.append(raw, bound, out)? {
            return Ok(());
        }
        Err(failed(self.kind, "the output exceeds its bound"))
    }

    /// Appends the stored form. Returns false if it is much longer than `max_len`; `out` may then
    /// contain part of it.
    fn append(&mut self, raw: &[u8], max_len: usize, out: &mut Vec<u8>) -> Result<bool> {
        let prefixed = !matches!(self.kind, Compression::None | Compression::Snappy);
        if prefixed {
            let Ok(len) = u32::try_from(raw.len()) else {
                return Ok(false);
            };
            put_varint32(out, len);
        }
        let room = max_len + MAX_PREFIX;
        match &mut self.state {
            State::None => {
                out.extend_from_slice(raw);
                Ok(true)
            }
            State::Snappy(encoder) => {
                let bound = snap::raw::max_compress_len(raw.len());
                if bound == 0 {
                    return Ok(false);
                }
                append_from(&mut self.scratch, out, bound, |buf| {
                    encoder
                        .compress(raw, buf)
                        .map_err(|e| failed(Compression::Snappy, e))
                })?;
                Ok(true)
            }
            State::Zlib(stream) => deflate_into(stream, &self.dictionary, raw, room, out),
            State::Bzip2(level) => bzip2_into(*level, raw, room, out),
            State::Lz4(stream) => {
                let mut fits = true;
                append_from(&mut self.scratch, out, room, |buf| {
                    let written = stream.compress(raw, &self.dictionary, buf);
                    fits = written.is_some();
                    Ok(written.unwrap_or(0))
                })?;
                Ok(fits)
            }
            State::Zstd(context) => {
                let mut fits = true;
                append_from(&mut self.scratch, out, room, |buf| {
                    let written = context.compress(raw, buf)?;
                    fits = written.is_some();
                    Ok(written.unwrap_or(0))
                })?;
                Ok(fits)
            }
        }
    }
}

/// The error for a failure reported by the codec's library.
#[cold]
fn failed(kind: Compression, why: impl std::fmt::Display) -> Error {
    Error::aborted(format!("compressing with {kind}: {why}"))
}

/// Calls `fill` with a buffer of `room` bytes and appends the bytes it wrote to `out`. The buffer
/// is `scratch`, which stays initialised between calls, so that it is zeroed only once.
fn append_from(
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
    room: usize,
    fill: impl FnOnce(&mut [u8]) -> Result<usize>,
) -> Result<()> {
    if scratch.len() < room {
        scratch.resize(room, 0);
    }
    let written = fill(&mut scratch[..room])?;
    out.extend_from_slice(&scratch[..written]);
    Ok(())
}

/// Creates a raw deflate stream. Levels above 9 count as 9; negative ones select the default.
fn deflate(options: CodecOptions) -> flate2::Compress {
    let level = match options.level {
        LIBRARY_DEFAULT_LEVEL | ..=-1 => flate2::Compression::default(),
        level => flate2::Compression::new(level.unsigned_abs().min(9)),
    };
    let bits = options.window_bits.unsigned_abs().clamp(9, 14);
    flate2::Compress::new_with_window_bits(level, false, bits as u8)
}

/// LZ4's acceleration, which negative levels select.
fn acceleration(options: CodecOptions) -> i32 {
    if options.level < 0 {
        options.level.saturating_neg()
    } else {
        1
    }
}

/// LZ4HC's level. The library clamps values that are too large.
fn hc_level(options: CodecOptions) -> i32 {
    match options.level {
        LIBRARY_DEFAULT_LEVEL => 9,
        level => level,
    }
}

/// Appends the raw deflate stream of `raw`. Returns false once it exceeds `room`.
fn deflate_into(
    stream: &mut flate2::Compress,
    dictionary: &[u8],
    raw: &[u8],
    room: usize,
    out: &mut Vec<u8>,
) -> Result<bool> {
    stream.reset();
    if !dictionary.is_empty() {
        stream
            .set_dictionary(dictionary)
            .map_err(|e| failed(Compression::Zlib, e))?;
    }
    out.reserve_exact(room);
    let status = stream
        .compress_vec(raw, out, flate2::FlushCompress::Finish)
        .map_err(|e| failed(Compression::Zlib, e))?;
    Ok(status == flate2::Status::StreamEnd)
}

/// Appends the bzip2 stream of `raw`. Returns false once it exceeds `room`.
fn bzip2_into(
    level: bzip2::Compression,
    raw: &[u8],
    room: usize,
    out: &mut Vec<u8>,
) -> Result<bool> {
    let mut stream = bzip2::Compress::new(level, 0);
    out.reserve_exact(room);
    let mut rest = raw;
    loop {
        let before = stream.total_in();
        let had = out.len();
        let status = stream
            .compress_vec(rest, out, bzip2::Action::Finish)
            .map_err(|e| failed(Compression::Bzip2, e))?;
        let taken = (stream.total_in() - before) as usize;
        rest = &rest[taken..];
        if status == bzip2::Status::StreamEnd {
            return Ok(true);
        }
        if out.len() == out.capacity() || (taken == 0 && out.len() == had) {
            return Ok(false);
        }
    }
}
