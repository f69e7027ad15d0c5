//! RocksDB's C interface on Cairn: `librocksdb.so` and `librocksdb.a`.
//!
//! Owns the functions of `rocksdb/c.h` and `cairn/c.h` and the objects behind their handles. Each
//! function turns C's arguments into Rust's, calls the engine, and turns the answer back; nothing
//! here decides anything about data.
//!
//! - *Handles* (`handle`) are shells whose addresses are reused for one type only, so that the use of a
//!   destroyed handle is detected and aborts the process with a message; their pages are returned to
//!   the kernel when no object is in them (`slabs`).
//! - *Errors* (`error`) are texts in RocksDB's words, allocated with `malloc`, in `*errptr`.
//! - *Callbacks* (`callbacks`) are called from any thread; what a program's function returns is
//!   checked where it can be.
//! - *Panics* end in an error where there is an `errptr`, else in a message and an abort; none
//!   crosses into C.
//! - What is not built yet (`unsupported`) says so: an error where there is an `errptr`, else the empty
//!   result and one line in the LOG.
//!
//! Safety: every function relies on what `c.h` says of its arguments: pointers point to what their
//! names say, lengths are right, and no two threads use one handle that is not documented as
//! thread-safe.

#![expect(non_camel_case_types, reason = "the names of C's types are RocksDB's")]
#![expect(
    clippy::missing_safety_doc,
    reason = "the contract of every function is the header's; the page above says it once"
)]

#[macro_use]
mod handle;
#[macro_use]
mod macros;

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
pub mod indexed;
pub mod iter;
pub mod live_files;
pub mod memory;
pub mod metadata;
pub mod metadata_reads;
pub mod options;
pub mod perf;
pub mod rate_limiter;
pub mod reads;
mod slabs;
pub mod sst_file_manager;
pub mod statistics;
pub mod table_properties;
pub mod unsupported;
pub mod writes;
