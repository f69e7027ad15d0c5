//! LZ4 and LZ4HC through the reference library: the only unsafe code of this crate.
//!
//! The invariants that the blocks below rest on:
//!
//! 1. Every pointer given to the library comes from a slice that is borrowed during the whole
//!    call, together with that slice's length (or less).
//! 2. Lengths fit `c_int`; [`int_len`] refuses longer ones.
//! 3. A stream is created once, checked for null, used by one thread at a time (`&mut self`), and
//!    freed once, when its owner is dropped.
//! 4. A stream keeps a pointer to the dictionary and the last input. Both are forgotten before the
//!    borrow ends, because every use of a stream begins by resetting it.

#![expect(
    unsafe_code,
    reason = "the LZ4 library is C and has no safe binding with dictionaries"
)]

use std::ffi::{c_char, c_int, c_void};
use std::ptr::NonNull;

use cairn_types::{Error, Result};
use lz4_sys as _;

/// The largest input that LZ4 takes.
pub(crate) const MAX_INPUT: usize = 0x7e00_0000;

// The library that `lz4-sys` links; that crate declares only some of its functions.
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

/// A length as the library takes it.
fn int_len(len: usize) -> Option<c_int> {
    c_int::try_from(len).ok().filter(|_| len <= MAX_INPUT)
}

/// LZ4 looks back 64 KiB at most; the rest of a longer dictionary is never used.
fn useful(dictionary: &[u8]) -> &[u8] {
    &dictionary[dictionary.len().saturating_sub(64 << 10)..]
}

/// How hard to search.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effort {
    /// LZ4 with this acceleration (1 is the default; higher is faster and worse).
    Fast(i32),
    /// LZ4HC at this level (9 is the default).
    High(i32),
}

/// The working memory of a compressor.
pub(crate) struct Stream {
    raw: NonNull<c_void>,
    effort: Effort,
}

// SAFETY: a stream is plain memory without ties to a thread (I3: one user at a time).
unsafe impl Send for Stream {}

impl Stream {
    /// Working memory for compressing with `effort`.
    pub(crate) fn new(effort: Effort) -> Result<Stream> {
        // SAFETY: no argument; null is checked (I3).
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
                "LZ4 got no memory for its state",
            )),
        }
    }

    /// Compresses `raw` into `out` and returns how many bytes that took, or `None` if it does not
    /// fit there.
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
        // SAFETY: I1, I2, I3; a reset, with the load, makes the stream forget what it pointed to (I4).
        let written = unsafe {
            match self.effort {
                // Block by block the library hashes fewer bytes at a time than in a stream, and so
                // finds shorter matches: RocksDB's tables are written like this.
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
        // SAFETY: created by the matching function and freed once (I3).
        unsafe {
            match self.effort {
                Effort::Fast(_) => LZ4_freeStream(self.raw.as_ptr()),
                Effort::High(_) => LZ4_freeStreamHC(self.raw.as_ptr()),
            };
        }
    }
}

/// Decompresses the block `source` into `out` and returns how many bytes it gave, or `None` if it
/// is malformed or gives more than `out` holds.
pub(crate) fn decompress(source: &[u8], dictionary: &[u8], out: &mut [u8]) -> Option<usize> {
    let dictionary = useful(dictionary);
    let (source_len, out_len) = (int_len(source.len())?, int_len(out.len())?);
    let dictionary_len = int_len(dictionary.len())?;
    // SAFETY: I1, I2; the function is made for hostile input and stays within these bounds.
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
    // SAFETY: I1, I2; the function is made for hostile input and stays within these bounds.
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
