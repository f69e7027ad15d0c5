//! RocksDB's C interface on Cairn: `librocksdb.so` and `librocksdb.a`.
//!
//! This crate has the functions of `rocksdb/c.h` and `cairn/c.h` and the objects behind their
//! handles. Each function converts its arguments, calls the engine and converts the result; there
//! is no logic in this layer.
//!
//! - *Handles* (`handle`) point to shells whose addresses are reused for one type only, so that the use
//!   of a destroyed handle is detected and aborts the process with a message. Pages without a live
//!   object are returned to the kernel (`slabs`).
//! - *Errors* (`error`) are strings in RocksDB's form, allocated with `malloc`, in `*errptr`.
//! - *Callbacks* (`callbacks`) are called from any thread; their results are validated where possible.
//! - *Panics* become errors in functions with an `errptr`, and otherwise abort with a message; none
//!   unwinds into C.
//!
//! Safety: every function requires valid arguments as defined by `c.h`: pointers to the documented
//! objects, correct lengths, and no concurrent use of a handle unless its type is thread-safe.

#![expect(non_camel_case_types, reason = "C type names follow RocksDB")]
#![expect(
    clippy::missing_safety_doc,
    reason = "the module documentation states the safety contract of all functions"
)]

#[macro_use]
mod handle;
#[macro_use]
mod macros;

pub mod backup;
pub mod batch;
pub mod cache;
pub mod cairn;
pub mod callbacks;
pub mod compact_files;
pub mod constants;
pub mod control;
pub mod database;
pub mod db;
pub mod env;
mod error;
pub mod estimates;
pub mod families;
pub mod files;
pub mod flat_tables;
pub mod indexed;
pub mod iter;
pub mod live_files;
pub mod memory;
pub mod metadata;
pub mod metadata_reads;
pub mod optimistic;
pub mod options;
pub mod perf;
pub mod rate_limiter;
pub mod reads;
mod slabs;
pub mod sst_file_manager;
pub mod statistics;
pub mod table_properties;
pub mod timestamps;
pub mod trace;
pub mod transaction;
pub mod transaction_db;
mod value_copy;
pub mod writes;
