//! The zstd stream of compressed WALs: one frame per logical record (formats.md 3).
//!
//! The log writer fragments a frame like any record, and the log reader reassembles the fragments before
//! decompression. A frame does not include its uncompressed size.

use cairn_types::{Decoded, Error, Result};
use zstd_safe::{CCtx, CParameter};

use crate::decompress::by_doubling;
use crate::kind::Compression;

/// The compressor of a WAL's records.
pub struct WalCompressor(CCtx<'static>);

impl WalCompressor {
    /// Creates a compressor of `kind`.
    ///
    /// # Errors
    ///
    /// `NotSupported` unless `kind` is zstd, the only codec for WALs in RocksDB.
    pub fn new(kind: Compression) -> Result<WalCompressor> {
        if kind != Compression::Zstd {
            return Err(Error::not_supported(format!(
                "wal_compression {}",
                kind.option_name()
            )));
        }
        let mut context = CCtx::create();
        context
            .set_parameter(CParameter::CompressionLevel(3))
            .map_err(|code| Error::aborted(zstd_safe::get_error_name(code)))?;
        Ok(WalCompressor(context))
    }

    /// Appends the frame of `record` to `out`.
    ///
    /// # Errors
    ///
    /// Those of zstd; none are expected.
    pub fn compress(&mut self, record: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        out.resize(start + zstd_safe::compress_bound(record.len()), 0);
        let written = self
            .0
            .compress2(&mut out[start..], record)
            .map_err(|code| Error::aborted(zstd_safe::get_error_name(code)))?;
        out.truncate(start + written);
        Ok(())
    }
}

/// The decompressor of a WAL's records.
pub struct WalDecompressor {
    limit: usize,
}

impl WalDecompressor {
    /// Creates a decompressor of `kind` for records of at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// `NotSupported` unless `kind` is zstd.
    pub fn new(kind: Compression, limit: usize) -> Result<WalDecompressor> {
        if kind != Compression::Zstd {
            return Err(Error::not_supported(format!("WAL compressed with {kind}")));
        }
        Ok(WalDecompressor { limit })
    }

    /// Decompresses `frame` into a record.
    ///
    /// # Errors
    ///
    /// [`cairn_types::Malformed`] if the frame is damaged or its output exceeds the limit.
    pub fn decompress(&mut self, frame: &[u8]) -> Decoded<Vec<u8>> {
        by_doubling(Compression::Zstd, frame, None, self.limit)
    }
}
