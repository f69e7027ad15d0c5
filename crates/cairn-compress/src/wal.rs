//! The zstd stream of compressed WALs: one frame per logical record (formats.md 3).
//!
//! The log writer fragments a frame like any record, and the log reader reassembles the fragments before
//! decompression. A frame does not include its uncompressed size.

use cairn_types::{Decoded, Error, Result};

use crate::decompress::by_doubling;
use crate::kind::Compression;
use crate::zstd;

/// The compressor of a WAL's records.
pub struct WalCompressor(zstd::Context);

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
        zstd::Context::for_records().map(WalCompressor)
    }

    /// Appends the frame of `record` to `out`.
    ///
    /// # Errors
    ///
    /// Those of zstd; none are expected.
    pub fn compress(&mut self, record: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        out.resize(start + zstd::bound(record.len()), 0);
        let written = self.0.compress(record, &mut out[start..])?;
        let written = written.ok_or_else(|| Error::aborted("a zstd frame exceeds its bound"))?;
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
        if !kind.is_supported() {
            return Err(kind.not_supported().context("WAL"));
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
