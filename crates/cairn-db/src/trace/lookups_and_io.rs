//! Traces of the lookups in the block cache, and of the operations on files.

use cairn_format::trace::block_cache::WriterVersion;
use cairn_observe::traces::{SampledTraceOptions, TraceWriter};
use cairn_options::file::ROCKSDB_VERSION;
use cairn_types::Result;

use crate::db::Db;

/// The version in the first record.
fn version() -> WriterVersion {
    let mut numbers = ROCKSDB_VERSION.split('.').map(str::parse);
    let mut next = || {
        let number = numbers.next().and_then(std::result::Result::ok);
        number.expect("a version has three numbers")
    };
    WriterVersion {
        major: next(),
        minor: next(),
    }
}

impl Db {
    /// Starts to record the lookups of blocks in the block cache by gets, iterators, compactions and other readers of the
    /// database. `create` returns the destination; it must not wait for a thread that starts or ends a trace. The trace
    /// ends with [`Db::end_block_cache_trace`], or when the database is closed.
    ///
    /// An error of the destination does not affect the lookups: the trace has no further records.
    ///
    /// # Errors
    ///
    /// `Busy` if there is a trace, in which case `create` is not called, or in a call of a trace writer; the errors of
    /// `create` and of the destination for the first record; `ShutdownInProgress`.
    pub fn start_block_cache_trace(
        &self,
        options: &SampledTraceOptions,
        create: impl FnOnce() -> Result<Box<dyn TraceWriter>>,
    ) -> Result<()> {
        let shared = self.shared();
        shared.context.check_process()?;
        let tracer = &shared.context.traces.block_cache;
        tracer.start(&shared.context.info, version(), options, || {
            shared.lifecycle.check_open()?;
            create()
        })
    }

    /// Ends the trace of the block cache. Does nothing if there is none, like RocksDB.
    ///
    /// # Errors
    ///
    /// The first error of its destination, after which records may be missing; `Busy` in a call of a trace writer.
    pub fn end_block_cache_trace(&self) -> Result<()> {
        let shared = self.shared();
        shared.context.check_process()?;
        shared.context.traces.block_cache.end()
    }

    /// Starts to record the operations of the database on files, except for those on its info log and on its traces.
    /// `create` returns the destination; it must not wait for a thread that starts or ends a trace. The trace ends with
    /// [`Db::end_io_trace`], or when the database is closed.
    ///
    /// An error of the destination does not affect the operations: the trace has no further records.
    ///
    /// # Errors
    ///
    /// `Busy` if there is a trace, in which case `create` is not called, or in a call of a trace writer; the errors of
    /// `create` and of the destination for the first record; `ShutdownInProgress`.
    pub fn start_io_trace(
        &self,
        options: &SampledTraceOptions,
        create: impl FnOnce() -> Result<Box<dyn TraceWriter>>,
    ) -> Result<()> {
        let shared = self.shared();
        shared.context.check_process()?;
        let tracer = &shared.context.traces.io;
        tracer.start(&shared.context.info, version(), options, || {
            shared.lifecycle.check_open()?;
            create()
        })
    }

    /// Ends the trace of operations on files. Does nothing if there is none, like RocksDB.
    ///
    /// # Errors
    ///
    /// The first error of its destination, after which records may be missing; `Busy` in a call of a trace writer.
    pub fn end_io_trace(&self) -> Result<()> {
        let shared = self.shared();
        shared.context.check_process()?;
        shared.context.traces.io.end()
    }
}
