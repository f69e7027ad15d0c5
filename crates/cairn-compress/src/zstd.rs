//! Zstandard through the reference library.

use std::cell::RefCell;

use cairn_types::{Decoded, Error, Malformed, Result};
use zstd_safe::{CCtx, CDict, CParameter, DCtx, DDict};

use crate::compressor::{CodecOptions, LIBRARY_DEFAULT_LEVEL};

/// The level for WAL records, and for blocks if none is set.
const DEFAULT_LEVEL: i32 = 3;

/// The working memory of a compressor, with the dictionary digested for its level.
pub(crate) struct Context {
    context: CCtx<'static>,
    dictionary: Option<CDict<'static>>,
}

impl Context {
    /// Working memory for compressing with `options` and `dictionary`.
    pub(crate) fn new(options: CodecOptions, dictionary: Option<&[u8]>) -> Result<Context> {
        let level = match options.level {
            LIBRARY_DEFAULT_LEVEL => DEFAULT_LEVEL,
            level => level,
        };
        let mut context = CCtx::create();
        context
            .set_parameter(CParameter::CompressionLevel(level))
            .map_err(failed)?;
        context
            .set_parameter(CParameter::ChecksumFlag(options.checksum))
            .map_err(failed)?;
        let dictionary = match dictionary {
            None => None,
            // The library omits the checksum with a digested dictionary.
            Some(raw) if options.checksum => {
                context.load_dictionary(raw).map_err(failed)?;
                None
            }
            Some(raw) => Some(CDict::try_create(raw, level).ok_or_else(|| {
                Error::invalid_argument(format!("zstd rejects a dictionary of {} bytes", raw.len()))
            })?),
        };
        Ok(Context {
            context,
            dictionary,
        })
    }

    /// Working memory for records of a WAL.
    pub(crate) fn for_records() -> Result<Context> {
        let mut context = CCtx::create();
        context
            .set_parameter(CParameter::CompressionLevel(DEFAULT_LEVEL))
            .map_err(|code| Error::aborted(zstd_safe::get_error_name(code)))?;
        Ok(Context {
            context,
            dictionary: None,
        })
    }

    /// Compresses `raw` into `out` and returns the length of the frame, or `None` if it does not
    /// fit into `out`.
    pub(crate) fn compress(&mut self, raw: &[u8], out: &mut [u8]) -> Result<Option<usize>> {
        let written = match &self.dictionary {
            Some(dictionary) => self.context.compress_using_cdict(out, raw, dictionary),
            None => self.context.compress2(out, raw),
        };
        match written {
            Ok(len) => Ok(Some(len)),
            Err(code) if is_too_small(code) => Ok(None),
            Err(code) => Err(failed(code)),
        }
    }
}

/// The length of the longest frame of `len` bytes.
pub(crate) fn bound(len: usize) -> usize {
    zstd_safe::compress_bound(len)
}

#[cold]
fn failed(code: usize) -> Error {
    Error::aborted(format!(
        "compressing with ZSTD: {}",
        zstd_safe::get_error_name(code)
    ))
}

/// True if zstd reports that the output buffer is too small.
fn is_too_small(code: usize) -> bool {
    zstd_safe::get_error_name(code) == "Destination buffer is too small"
}

/// A dictionary, digested for decompression.
pub(crate) struct Digested(DDict<'static>);

impl Digested {
    /// `None` if the bytes have zstd's dictionary magic but are not a valid dictionary.
    pub(crate) fn new(raw: &[u8]) -> Option<Digested> {
        DDict::try_create(raw).map(Digested)
    }

    /// The memory used, in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        self.0.sizeof()
    }
}

thread_local! {
    /// zstd's decompression context, some 150 KiB, reused from block to block.
    static CONTEXT: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
}

/// Decompresses `stream` into `out` and returns the length, or `None` if it does not fit into
/// `out`.
pub(crate) fn decompress(
    stream: &[u8],
    dictionary: Option<&Digested>,
    out: &mut [u8],
) -> Decoded<Option<usize>> {
    let mut decompress = |context: &mut DCtx<'_>| match dictionary {
        None => context.decompress(out, stream),
        Some(dictionary) => context.decompress_using_ddict(out, stream, &dictionary.0),
    };
    let written = CONTEXT.try_with(|context| decompress(&mut context.borrow_mut()));
    // The context of an exiting thread is gone.
    match written.unwrap_or_else(|_| decompress(&mut DCtx::create())) {
        Ok(len) => Ok(Some(len)),
        Err(code) if is_too_small(code) => Ok(None),
        Err(code) => Err(Malformed::at(
            0,
            format!(
                "ZSTD stream is damaged ({})",
                zstd_safe::get_error_name(code)
            ),
        )),
    }
}

/// Trains a dictionary of at most `max_bytes` from the concatenated `samples`, whose lengths are in
/// `sizes`.
pub(crate) fn train(samples: &[u8], sizes: &[usize], max_bytes: usize) -> Result<Vec<u8>> {
    zstd::dict::from_continuous(samples, sizes, max_bytes).map_err(|error| {
        Error::invalid_argument(format!(
            "training a zstd dictionary of at most {max_bytes} bytes from {} samples: {error}",
            sizes.len()
        ))
    })
}
