//! LZ4 and LZ4HC through the reference library: the only unsafe code of this crate.
//!
//! Invariants, cited by number:
//!
//! 1. Every pointer passed to the library comes from a slice that is borrowed for the whole call,
//!    together with a length no greater than that of the slice.
//! 2. Lengths fit `c_int`; [`int_len`] rejects longer ones.
//! 3. A stream is created once, checked for null, used by one thread at a time (`&mut self`), and
//!    freed once, when its owner is dropped.
//! 4. A stream keeps pointers to the dictionary and the last input. They are dropped before the borrow ends,
//!    because every use of a stream starts by resetting it.

#![expect(
    unsafe_code,
    reason = "the LZ4 library has no safe binding that supports dictionaries"
)]

use std::ffi::{c_char, c_int, c_void};
use std::ptr::NonNull;

use cairn_types::{Error, Result};
use lz4_sys as _;

/// The longest input of LZ4.
pub(crate) const MAX_INPUT: usize = 0x7e00_0000;

// Library functions that `lz4-sys` links but does not declare.
unsafe extern "C" {
    fn LZ4_createStream() -> *mut c_void;
    fn LZ4_freeStream(stream: *mut c_void) -> c_int;
    fn LZ4_compress_fast_extState(
        stream: *mut c_void,
        source: *const c_char,
        dest: *mut c_char,
        source_len: c_int,
        dest_capacity: c_int,
        acceleration: c_int,
    ) -> c_int;
    fn LZ4_resetStream_fast(stream: *mut c_void);
    fn LZ4_loadDict(stream: *mut c_void, dictionary: *const c_char, len: c_int) -> c_int;
    fn LZ4_compress_fast_continue(
        stream: *mut c_void,
        source: *const c_char,
        dest: *mut c_char,
        source_len: c_int,
        dest_capacity: c_int,
        acceleration: c_int,
    ) -> c_int;
    fn LZ4_createStreamHC() -> *mut c_void;
    fn LZ4_freeStreamHC(stream: *mut c_void) -> c_int;
    fn LZ4_resetStreamHC_fast(stream: *mut c_void, level: c_int);
    fn LZ4_loadDictHC(stream: *mut c_void, dictionary: *const c_char, len: c_int) -> c_int;
    fn LZ4_compress_HC_continue(
        stream: *mut c_void,
        source: *const c_char,
        dest: *mut c_char,
        source_len: c_int,
        dest_capacity: c_int,
    ) -> c_int;
    fn LZ4_decompress_safe_usingDict(
        source: *const c_char,
        dest: *mut c_char,
        source_len: c_int,
        dest_capacity: c_int,
        dictionary: *const c_char,
        dictionary_len: c_int,
    ) -> c_int;
    fn LZ4_decompress_safe_partial_usingDict(
        source: *const c_char,
        dest: *mut c_char,
        source_len: c_int,
        target_len: c_int,
        dest_capacity: c_int,
        dictionary: *const c_char,
        dictionary_len: c_int,
    ) -> c_int;
}

/// Converts a length for the library.
fn int_len(len: usize) -> Option<c_int> {
    c_int::try_from(len).ok().filter(|_| len <= MAX_INPUT)
}

/// The last 64 KiB of a dictionary, the reach of an LZ4 match.
fn useful(dictionary: &[u8]) -> &[u8] {
    &dictionary[dictionary.len().saturating_sub(64 << 10)..]
}

/// The algorithm and its effort.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effort {
    /// LZ4 with this acceleration. 1 is the default; higher is faster with a worse ratio.
    Fast(i32),
    /// LZ4HC at this level (9 is the default).
    High(i32),
}

/// The state of a compressor.
pub(crate) struct Stream {
    raw: NonNull<c_void>,
    effort: Effort,
}

// SAFETY: a stream is plain memory without thread affinity, with one user at a time (I3).
unsafe impl Send for Stream {}

impl Stream {
    /// Creates the state for compression with `effort`.
    pub(crate) fn new(effort: Effort) -> Result<Stream> {
        // SAFETY: the function takes no arguments; its result is checked for null (I3).
        let raw = unsafe {
            match effort {
                Effort::Fast(_) => LZ4_createStream(),
                Effort::High(_) => LZ4_createStreamHC(),
            }
        };
        match NonNull::new(raw) {
            Some(raw) => Ok(Stream { raw, effort }),
            None => Err(Error::new(
                cairn_types::Code::Aborted,
                cairn_types::Subcode::MemoryLimit,
                "LZ4 could not allocate its state",
            )),
        }
    }

    /// Compresses `raw` into `out` and returns the compressed length, or `None` if it does not fit.
    pub(crate) fn compress(
        &mut self,
        raw: &[u8],
        dictionary: &[u8],
        out: &mut [u8],
    ) -> Option<usize> {
        let dictionary = useful(dictionary);
        let raw_len = int_len(raw.len())?;
        let capacity = int_len(out.len().min(MAX_INPUT))?;
        let dictionary_len = int_len(dictionary.len())?;
        let stream = self.raw.as_ptr();
        let (source, dest) = (raw.as_ptr().cast(), out.as_mut_ptr().cast());
        // SAFETY: I1, I2, I3; the reset or the load drops earlier pointers of the stream (I4).
        let written = unsafe {
            match self.effort {
                // Without a stream the library hashes fewer bytes and finds shorter matches. RocksDB's tables
                // are compressed this way.
                Effort::Fast(acceleration) if dictionary_len == 0 => LZ4_compress_fast_extState(
                    stream,
                    source,
                    dest,
                    raw_len,
                    capacity,
                    acceleration,
                ),
                Effort::Fast(acceleration) => {
                    LZ4_resetStream_fast(stream);
                    LZ4_loadDict(stream, dictionary.as_ptr().cast(), dictionary_len);
                    LZ4_compress_fast_continue(
                        stream,
                        source,
                        dest,
                        raw_len,
                        capacity,
                        acceleration,
                    )
                }
                Effort::High(level) => {
                    LZ4_resetStreamHC_fast(stream, level);
                    if dictionary_len > 0 {
                        LZ4_loadDictHC(stream, dictionary.as_ptr().cast(), dictionary_len);
                    }
                    LZ4_compress_HC_continue(stream, source, dest, raw_len, capacity)
                }
            }
        };
        usize::try_from(written).ok().filter(|&len| len > 0)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: created by the matching function, and freed once (I3).
        unsafe {
            match self.effort {
                Effort::Fast(_) => LZ4_freeStream(self.raw.as_ptr()),
                Effort::High(_) => LZ4_freeStreamHC(self.raw.as_ptr()),
            };
        }
    }
}

/// Decompresses the block `source` into `out` and returns the length of the output, or `None` if the block is
/// malformed or its output does not fit.
pub(crate) fn decompress(source: &[u8], dictionary: &[u8], out: &mut [u8]) -> Option<usize> {
    let dictionary = useful(dictionary);
    let (source_len, out_len) = (int_len(source.len())?, int_len(out.len())?);
    let dictionary_len = int_len(dictionary.len())?;
    // SAFETY: I1, I2; the function accepts hostile input and stays within these bounds.
    let written = unsafe {
        LZ4_decompress_safe_usingDict(
            source.as_ptr().cast(),
            out.as_mut_ptr().cast(),
            source_len,
            out_len,
            dictionary.as_ptr().cast(),
            dictionary_len,
        )
    };
    usize::try_from(written).ok()
}

/// Like [`decompress`], but stops without an error when `out` is full.
pub(crate) fn decompress_some(source: &[u8], dictionary: &[u8], out: &mut [u8]) -> Option<usize> {
    let dictionary = useful(dictionary);
    let (source_len, out_len) = (int_len(source.len())?, int_len(out.len())?);
    let dictionary_len = int_len(dictionary.len())?;
    // SAFETY: I1, I2; the function accepts hostile input and stays within these bounds.
    let written = unsafe {
        LZ4_decompress_safe_partial_usingDict(
            source.as_ptr().cast(),
            out.as_mut_ptr().cast(),
            source_len,
            out_len,
            out_len,
            dictionary.as_ptr().cast(),
            dictionary_len,
        )
    };
    usize::try_from(written).ok()
}
