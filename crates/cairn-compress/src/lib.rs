//! Block compression: RocksDB's codecs behind one type.
//!
//! [`Compressor`] turns a block into its stored form, [`decompress`] turns it back. A stored form
//! is framed as formats.md 6.3 says: most codecs carry the size of the original in front, because
//! their own streams do not. The zstd stream of compressed WALs is in [`wal`].
//!
//! No size is allocated on an input's word: a declared size is held against the best ratio that
//! the codec can reach and against the caller's limit, and beyond a few times the input the buffer
//! grows only by what the codec really produces.
//!
//! The features `lz4` and `zstd` compile the reference libraries in, which are C; the other codecs are
//! Rust. Without a feature its codec is [not supported](Compression::is_supported).
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
