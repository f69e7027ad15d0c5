//! The active trace of a database.
//!
//! A failure of the trace never fails the traced operation: the trace has no further records, and the call that ends
//! it returns the error.

use cairn_format::trace::{self, Query, Seek};
use cairn_observe::traces::{
    DEFAULT_MAX_TRACE_FILE_SIZE, TraceSink, TraceWriter, check_outside_writer, is_in_writer,
    untraced,
};
use cairn_options::ReadOptions;
use cairn_options::file::ROCKSDB_VERSION;
use cairn_platform::sync::{AtomicBool, Mutex, Ordering};
use cairn_types::{Error, Result};

use crate::context::DbContext;
use crate::db::Db;
use crate::db::handle::Family;
use crate::shared::Shared;

/// A set of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceFilter(pub u64);

impl TraceFilter {
    /// No operation.
    pub const NONE: TraceFilter = TraceFilter(0);
    /// Gets.
    pub const GET: TraceFilter = TraceFilter(1);
    /// Writes.
    pub const WRITE: TraceFilter = TraceFilter(1 << 1);
    /// Forward seeks of iterators.
    pub const ITERATOR_SEEK: TraceFilter = TraceFilter(1 << 2);
    /// Backward seeks of iterators.
    pub const ITERATOR_SEEK_FOR_PREV: TraceFilter = TraceFilter(1 << 3);
    /// Batches of gets.
    pub const MULTI_GET: TraceFilter = TraceFilter(1 << 4);

    /// True if it has all operations of `other`.
    #[must_use]
    pub fn contains(self, other: TraceFilter) -> bool {
        self.0 & other.0 == other.0
    }

    fn of(query: &Query<'_>) -> TraceFilter {
        match query {
            Query::Write(_) => TraceFilter::WRITE,
            Query::Get { .. } => TraceFilter::GET,
            Query::Seek(_) => TraceFilter::ITERATOR_SEEK,
            Query::SeekForPrev(_) => TraceFilter::ITERATOR_SEEK_FOR_PREV,
            Query::MultiGet(_) => TraceFilter::MULTI_GET,
        }
    }
}

impl std::ops::BitOr for TraceFilter {
    type Output = TraceFilter;
    fn bitor(self, other: TraceFilter) -> TraceFilter {
        TraceFilter(self.0 | other.0)
    }
}

/// Options of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceOptions {
    /// The size of the trace in bytes above which no more operations are recorded.
    pub max_trace_file_size: u64,
    /// One of this many operations is recorded; 0 and 1 for all.
    pub sampling_frequency: u64,
    /// The operations that are not recorded, nor counted for the sampling.
    pub filter: TraceFilter,
    /// True if writes are recorded in the order in which they take effect. Each write then waits for the earlier ones
    /// and joins no group of writes. Otherwise concurrent writes may be recorded in any order.
    pub preserve_write_order: bool,
}

impl Default for TraceOptions {
    fn default() -> TraceOptions {
        TraceOptions {
            max_trace_file_size: DEFAULT_MAX_TRACE_FILE_SIZE,
            sampling_frequency: 1,
            filter: TraceFilter::NONE,
            preserve_write_order: false,
        }
    }
}

/// The state of tracing.
#[derive(Default)]
pub(crate) struct QueryTrace {
    /// True while operations are recorded.
    on: AtomicBool,
    /// True if writes are recorded by the write-group leader.
    ordered: AtomicBool,
    /// A leaf lock, held during calls of the writer.
    active: Mutex<Option<Active>>,
}

/// A trace that was started and not ended.
struct Active {
    options: TraceOptions,
    sink: TraceSink,
    /// Operations since the last one that was recorded.
    skipped: u64,
}

impl Active {
    /// True if `query` is not recorded.
    fn skips(&mut self, query: &Query<'_>) -> bool {
        if self.options.filter.contains(TraceFilter::of(query)) {
            return true;
        }
        self.skipped += 1;
        if self.skipped < self.options.sampling_frequency {
            return true;
        }
        self.skipped = 0;
        false
    }

    /// Completes the trace.
    fn end(&mut self, context: &DbContext) -> Result<()> {
        let last = trace::end(context.world.clock.wall_micros());
        self.sink.end(&context.info, Some(last))
    }
}

impl QueryTrace {
    /// True while operations are recorded.
    // Relaxed: an operation concurrent with the start of a trace may be missing; the state has a lock.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// True if the write-group leader records the writes.
    fn is_ordered(&self) -> bool {
        self.ordered.load(Ordering::Relaxed)
    }

    fn start(
        &self,
        context: &DbContext,
        options: &TraceOptions,
        may_start: impl FnOnce() -> Result<()>,
        create: impl FnOnce() -> Result<Box<dyn TraceWriter>>,
    ) -> Result<()> {
        check_outside_writer()?;
        // Declared before the guard, and so dropped after it if `create` panics: the destructor of a writer may use the
        // database.
        let mut before;
        let mut sink = None;
        let mut active = self.active.lock();
        may_start()?;
        before = active.take();
        let ended = match &mut before {
            Some(before) => {
                self.on.store(false, Ordering::Relaxed);
                before.end(context)
            }
            None => Ok(()),
        };
        // Not before: both traces may have the same file.
        let started = self.begin(&mut active, &mut sink, context, options, create);
        // A sink of the info log may end the trace, and the destructor of a writer may use the database.
        drop(active);
        untraced(|| drop(before));
        // The caller did not end it, and has no use for its error.
        if let Err(error) = ended {
            context
                .info
                .error(format_args!("a query trace failed: {error}"));
        }
        started
    }

    /// Starts a trace in `active`, which has none, with the writer that `create` returns. After an error, the writer may
    /// be in `unused`: the caller drops it without the lock.
    fn begin(
        &self,
        active: &mut Option<Active>,
        unused: &mut Option<TraceSink>,
        context: &DbContext,
        options: &TraceOptions,
        create: impl FnOnce() -> Result<Box<dyn TraceWriter>>,
    ) -> Result<()> {
        let (version, _patch) = ROCKSDB_VERSION
            .rsplit_once('.')
            .expect("a version has three numbers");
        let header = trace::begin(context.world.clock.wall_micros(), version);
        let writer = untraced(create)?;
        let sink = unused.insert(TraceSink::new(writer, options.max_trace_file_size, header));
        let more = sink.append(&context.info)?;
        self.ordered
            .store(options.preserve_write_order, Ordering::Relaxed);
        self.on.store(more, Ordering::Relaxed);
        *active = unused.take().map(|sink| Active {
            options: options.clone(),
            sink,
            skipped: 0,
        });
        Ok(())
    }

    /// Ends the trace. Returns `None` if there is none.
    pub(crate) fn end(&self, context: &DbContext) -> Result<Option<()>> {
        check_outside_writer()?;
        let mut active = self.active.lock();
        self.on.store(false, Ordering::Relaxed);
        let mut trace = active.take();
        let ended = trace.as_mut().map(|trace| trace.end(context));
        // The writer is dropped without the lock.
        drop(active);
        ended.transpose()
    }

    /// Records `query`.
    #[cold]
    #[inline(never)]
    fn record(&self, context: &DbContext, query: &Query<'_>) {
        // A forked child shares the file with its parent.
        if is_in_writer() || context.is_forked() {
            return;
        }
        let mut active = self.active.lock();
        let Some(trace) = active.as_mut() else {
            return;
        };
        if !self.is_on() || trace.skips(query) {
            return;
        }
        let now = context.world.clock.wall_micros();
        let appended = match query.encode(now, &mut trace.sink.record) {
            true => trace.sink.append(&context.info),
            false => {
                let error = Error::not_supported("a trace record of 4 GiB");
                trace.sink.fail(error.clone());
                Err(error)
            }
        };
        if let Ok(true) = appended {
            return;
        }
        self.on.store(false, Ordering::Relaxed);
        // A sink of the info log may end the trace.
        drop(active);
        if let Err(error) = appended {
            context.info.error(format_args!(
                "the query trace has no further records: {error}"
            ));
        }
    }
}

impl Shared {
    /// Records a get.
    #[cold]
    #[inline(never)]
    pub(crate) fn trace_get(&self, family: u32, key: &[u8]) {
        self.trace
            .record(&self.context, &Query::Get { family, key });
    }

    /// Records a batch of gets.
    #[cold]
    pub(crate) fn trace_multi_get(&self, keys: &[(&Family, &[u8])]) {
        let keys = keys.iter().map(|(family, key)| (family.id(), *key));
        let keys: Vec<_> = keys.collect();
        if !keys.is_empty() {
            self.trace.record(&self.context, &Query::MultiGet(keys));
        }
    }

    /// Records a seek, backward with `for_prev`.
    #[cold]
    #[inline(never)]
    pub(crate) fn trace_seek(
        &self,
        family: u32,
        key: &[u8],
        options: &ReadOptions,
        for_prev: bool,
    ) {
        let seek = Seek {
            family,
            key,
            lower: options.iterate_lower_bound.as_deref().unwrap_or(&[]),
            upper: options.iterate_upper_bound.as_deref().unwrap_or(&[]),
        };
        let query = match for_prev {
            false => Query::Seek(seek),
            true => Query::SeekForPrev(seek),
        };
        self.trace.record(&self.context, &query);
    }

    /// Records a move to the first key, or to the last one with `back`. As in RocksDB, it is a seek to the bound there;
    /// without a bound, it is not recorded.
    #[cold]
    #[inline(never)]
    pub(crate) fn trace_seek_to_end(&self, family: u32, options: &ReadOptions, back: bool) {
        let bound = match back {
            false => &options.iterate_lower_bound,
            true => &options.iterate_upper_bound,
        };
        if let Some(bound) = bound {
            self.trace_seek(family, bound, options, back);
        }
    }

    /// Calls `write` of `batch`, in its stored form, and records it: before `write`, or if the order matters or the write
    /// is conditional, after the check that `write` is given, which runs when all earlier writes are visible. A database
    /// that rejects all writes does not record them.
    #[cold]
    #[inline(never)]
    pub(crate) fn trace_write<T>(
        &self,
        batch: &[u8],
        check: Option<&mut dyn FnMut() -> Result<()>>,
        write: impl FnOnce(Option<&mut dyn FnMut() -> Result<()>>) -> Result<T>,
    ) -> Result<T> {
        if self.context.read_only {
            return write(check);
        }
        let record = || self.trace.record(&self.context, &Query::Write(batch));
        if !self.trace.is_ordered() && check.is_none() {
            record();
            return write(None);
        }
        let mut check = check;
        let mut ordered = || {
            if let Some(check) = &mut check {
                check()?;
            }
            record();
            Ok(())
        };
        write(Some(&mut ordered))
    }

    /// Ends the traces of a database that is being closed.
    pub(crate) fn end_traces_at_close(&self) {
        let traces = &self.context.traces;
        let ended = [
            ("query trace", self.trace.end(&self.context).map(drop)),
            ("block-cache trace", traces.block_cache.end()),
            ("I/O trace", traces.io.end()),
        ];
        for (name, ended) in ended {
            if let Err(error) = ended {
                self.context
                    .info
                    .error(format_args!("the {name} failed: {error}"));
            }
        }
    }
}

impl Db {
    /// Starts to record the reads and writes of the database: gets, batches of gets, seeks of iterators, and batches
    /// that are written, with the dates of their values in a database with a time to live. A trace that is active is ended
    /// first. Then `create` returns the destination; it must not wait for a thread that starts or ends a trace. The trace
    /// ends with [`Db::end_trace`], or when the database is closed.
    ///
    /// An error of the destination does not affect the operations: the trace has no further records.
    ///
    /// # Errors
    ///
    /// The errors of `create` and of the destination for the first record, after which no trace is active;
    /// `ShutdownInProgress`, and `Busy` in a call of a trace writer, without a call of `create`.
    pub fn start_trace(
        &self,
        options: &TraceOptions,
        create: impl FnOnce() -> Result<Box<dyn TraceWriter>>,
    ) -> Result<()> {
        let shared = self.shared();
        shared.context.check_process()?;
        let may_start = || shared.lifecycle.check_open();
        shared
            .trace
            .start(&shared.context, options, may_start, create)
    }

    /// Ends the trace.
    ///
    /// # Errors
    ///
    /// `IoError` if there is no trace; the first error of its writer, after which records may be missing; `Busy` in a
    /// call of a trace writer.
    pub fn end_trace(&self) -> Result<()> {
        let shared = self.shared();
        shared.context.check_process()?;
        match shared.trace.end(&shared.context)? {
            Some(()) => Ok(()),
            None => Err(Error::io_text("No trace file to close")),
        }
    }
}
