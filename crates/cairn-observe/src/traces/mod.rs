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

pub use block_cache::BlockCacheTracer;
pub use io::IoTracer;
pub use sink::{TraceSink, TraceWriter, check_outside_writer, is_in_writer, untraced};

/// The default of the size in bytes above which a trace has no further records.
pub const DEFAULT_MAX_TRACE_FILE_SIZE: u64 = 64 << 30;

/// Options of a block-cache or I/O trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledTraceOptions {
    /// One of this many operations on files is recorded, or the lookups of one of this many blocks; 0 and 1 for all. A hash
    /// of its key decides if a block is one of them, so that either all of its lookups are recorded or none.
    pub sampling_frequency: u64,
    /// The size of the trace in bytes above which nothing more is recorded.
    pub max_trace_file_size: u64,
}

impl Default for SampledTraceOptions {
    fn default() -> SampledTraceOptions {
        SampledTraceOptions {
            sampling_frequency: 1,
            max_trace_file_size: DEFAULT_MAX_TRACE_FILE_SIZE,
        }
    }
}
