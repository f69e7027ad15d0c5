//! Traces of a database: their destination, and the recorders of block-cache lookups and file operations.
//!
//! ```text
//! block lookup of a table -> BlockCacheTracer -> [sampling by block] -> TraceSink -> TraceWriter
//! operation on a file     -> IoTracer         -> [sampling]          -> TraceSink -> TraceWriter
//! ```
//!
//! The recorder of queries is in `cairn-db`, and shares the [`TraceSink`]. `cairn_format::trace` has the formats.
//!
//! While no database of the process has an active trace of a kind, a lookup or an operation tests one static counter
//! ([`block_cache::is_in_use`], [`io::is_in_use`]).
//!
//! A failure of a trace never fails the traced operation: the trace has no further records, and the call that ends it
//! returns the error.

pub mod block_cache;
pub mod io;
mod open_trace;
mod sink;
#[cfg(test)]
mod tests;

pub use block_cache::{BlockCacheTraceOptions, BlockCacheTracer};
pub use io::{IoTraceOptions, IoTracer};
pub use sink::{TraceSink, TraceWriter, check_outside_writer, is_in_writer, untraced};

/// The default of the size in bytes above which a trace has no further records.
pub const DEFAULT_MAX_TRACE_FILE_SIZE: u64 = 64 << 30;
