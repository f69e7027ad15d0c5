//! One blob file: writing it, and reading the values that tables refer to.
//!
//! A read does no I/O by itself. [`BlobFile::request`] says which bytes a blob index stands for,
//! [`BlobFile::complete`] makes the value of them; [`BlobFile::read`] does both, blocking. Each
//! read fetches the whole record and checks it: the header's checksum, that the key is the one
//! asked for, and the checksum of key and value. A wrong value is never returned.
//!
//! [`BlobBuilder`] writes a file from front to back. Which files exist, and how much of them is
//! garbage, is the version's affair.

mod builder;
mod reader;
mod verify;

#[cfg(test)]
mod tests;

pub use builder::{BlobBuilder, BlobParams, FinishedBlobs};
pub use reader::{BlobFile, BlobValue};
pub use verify::Verified;
