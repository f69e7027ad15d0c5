//! Cairn and RocksDB on the same databases: golden files, both directions, turns.
//!
//! This library holds what the tests share: [`content`] is what a database contains, as lines that
//! compare; [`golden`] unpacks databases that RocksDB wrote; [`cairn`] runs the command line;
//! [`mod@reference`] reads with RocksDB's library and with its tools; [`workload`] makes random changes,
//! which [`engine`] lets RocksDB carry out; [`kills`] ends processes that write.

pub mod cairn;
pub mod content;
pub mod dir_snapshot;
pub mod engine;
pub mod golden;
pub mod kills;
pub mod reference;
pub mod twin;
pub mod workload;
