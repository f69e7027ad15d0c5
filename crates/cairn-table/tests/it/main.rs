//! Tests on whole tables: built and read back, written by RocksDB, damaged.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and its fixtures are real files"
)]

mod ahead;
mod charges;
mod damage;
mod flat;
mod golden;
mod guard;
mod parallel;
mod resumed;
mod round_trip;
mod warm;
mod words;
mod world;
