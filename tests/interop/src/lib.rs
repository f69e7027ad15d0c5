//! Cairn and RocksDB on the same databases: golden files, files exchanged in both directions,
//! alternating writers.
//!
//! The shared parts of the tests: [`content`] is the content of a database in a comparable form;
//! [`golden`] unpacks databases that RocksDB wrote; [`cairn`] runs the command line tool;
//! [`mod@reference`] reads with RocksDB's library and tools; [`workload`] generates random changes and
//! [`engine`] applies them; [`kills`] kills processes that write.

pub mod cairn;
pub mod content;
pub mod dir_snapshot;
pub mod engine;
pub mod golden;
pub mod kills;
pub mod reference;
pub mod twin;
pub mod workload;
