//! Traces: a record of the reads and writes of a database, and their replay; of its block lookups and file operations.
//!
//! ```text
//! get, multi-get, seek, write -> [filter, sampling] -> record with its time -> TraceWriter
//! TraceReader -> record -> [wait until its time] -> the same operation on a database
//! ```
//!
//! While no trace is active, an operation tests one flag (`QueryTrace::is_on`). `cairn_format::trace` has the format.

mod file;
mod lookups_and_io;
mod prepared;
mod recorder;
mod replay;

pub use cairn_observe::traces::TraceWriter;
pub use file::{FileTraceReader, FileTraceWriter, TraceReader};
pub(crate) use recorder::QueryTrace;
pub use recorder::{TraceFilter, TraceOptions};
pub use replay::{ReplayOptions, Replayed, Replayer, TraceRecord, TraceRecordResult};
