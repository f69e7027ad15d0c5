//! Block compression: RocksDB's codecs behind one interface.
//!
//! [`Compressor`] converts a block to its stored form, and [`decompress`] converts it back. The framing of
//! the stored form is described in formats.md 6.3: most codecs need the uncompressed size in front, because
//! their own streams lack it. The zstd stream of compressed WALs is in [`wal`].
//!
//! Declared sizes are not trusted. They are checked against the codec's best ratio and the caller's
//! limit, and a buffer larger than a small multiple of the input grows only as the codec produces
//! output.
//!
//! The features `lz4` and `zstd` compile in the C reference libraries; the other codecs are pure
//! Rust. Without the feature, a codec is [not supported](Compression::is_supported).
//!
//! ```
//! use cairn_compress::{Compression, Compressor, Framing, decompress};
//!
//! let mut compressor = Compressor::new(Compression::Zlib, Default::default(), None)?;
//! let mut stored = Vec::new();
//! assert!(compressor.compress(&[7; 4096], &mut stored)?);
//! let raw = decompress(Compression::Zlib, &stored, Framing::Sized, None, 1 << 20)?;
//! assert_eq!(raw, [7; 4096]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(test)]
mod absent_tests;
mod compressor;
mod decompress;
mod dictionary;
mod kind;
#[cfg(feature = "lz4")]
mod lz4;
#[cfg(not(feature = "lz4"))]
#[path = "lz4_absent.rs"]
mod lz4;
#[cfg(test)]
mod tests;
pub mod wal;
#[cfg(feature = "zstd")]
mod zstd;
#[cfg(not(feature = "zstd"))]
#[path = "zstd_absent.rs"]
mod zstd;

pub use compressor::{CodecOptions, Compressor, LIBRARY_DEFAULT_LEVEL};
pub use decompress::{Declared, Framing, declared_len, decompress, decompress_exact};
pub use dictionary::{Dictionary, train_zstd};
pub use kind::Compression;
pub use wal::{WalCompressor, WalDecompressor};
