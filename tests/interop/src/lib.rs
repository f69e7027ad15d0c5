//! Cairn and RocksDB on the same databases: golden files, both directions, turns.
//!
//! This library holds what the tests share: [`content`] is what a database contains, as lines that
//! compare; [`golden`] unpacks databases that RocksDB wrote; [`cairn`] runs the command line;
//! [`reference`] reads with RocksDB's library and with its tools.

pub mod cairn;
pub mod content;
pub mod folder;
pub mod golden;
pub mod reference;
