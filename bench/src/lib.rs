//! RocksDB through its C API, loaded at run time, to compare Cairn with.
//!
//! Nothing here is compiled or linked from RocksDB: [`rocksdb`] opens a shared library that
//! `tests/interop/fetch-rocksdb.sh` unpacks from the published Java package. Only this crate and
//! `tests/interop` know that another engine exists.

pub mod rocksdb;
pub mod store;
