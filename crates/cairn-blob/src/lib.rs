//! Blob files: writing one, and reading the values that tables refer to.
//!
//! A read is split into two steps that do no I/O. [`BlobFile::request`] gives the byte range of a
//! blob index, and [`BlobFile::complete`] extracts the value from those bytes; [`BlobFile::read`]
//! does both, blocking. Every read fetches the whole record and verifies it: the checksum of the
//! header, the key, and the checksum of key and value. A wrong value is never returned.
//!
//! [`BlobBuilder`] writes a file sequentially. The set of live files and the garbage in them are tracked by
//! the version.

mod builder;
mod reader;
mod verify;

#[cfg(test)]
mod tests;

pub use builder::{BlobBuilder, BlobParams, FinishedBlobs, fits};
pub use reader::{BlobFile, BlobValue};
pub use verify::Verified;
