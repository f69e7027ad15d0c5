//! The write batch with index: writes that are collected, read as if they were made, and then
//! written, or dropped.
//!
//! [`IndexedBatch`] wraps a write batch and keeps, for every family, its keys in order, each with
//! the records that change it. [`BatchIter`] walks these records; a get or a [`JoinedIter`] reads
//! them over what the database has. What a key's records amount to is decided in one place
//! (`resolve`), so that every way of reading agrees.
//!
//! The batch lives behind a lock of its own: iterators keep it and see what is added while they
//! stand on it. No lock is held between two calls.

mod base_delta_iter;
mod batch;
mod index;
mod iter;
mod read;

pub use base_delta_iter::JoinedIter;
pub use batch::IndexedBatch;
pub use index::WriteKind;
pub use iter::{BatchIter, WriteEntry};
