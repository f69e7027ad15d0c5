//! The write batch with index: writes that can be read before they are written to the database.
//!
//! [`IndexedBatch`] wraps a write batch and indexes, for each family, its keys in order with their
//! records. [`BatchIter`] iterates over the records; gets and [`BaseDeltaIter`] combine them with the
//! content of the database. One function (`resolve`) computes the effect of a key's records, so that
//! all reads agree.
//!
//! The batch has a lock of its own: iterators share the batch and see later additions. No lock is held
//! between calls.

mod base_delta_iter;
mod batch;
mod index;
mod iter;
mod read;

pub use base_delta_iter::BaseDeltaIter;
pub use batch::IndexedBatch;
pub use index::WriteKind;
pub use iter::{BatchIter, WriteEntry};
