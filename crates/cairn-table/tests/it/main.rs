//! Whole tables: built and read back, read from RocksDB's files, damaged.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and its fixtures lie in real files"
)]

mod damage;
mod golden;
mod resumed;
mod round_trip;
mod warm;
mod words;
mod world;
