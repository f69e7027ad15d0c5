//! The recorder of lookups in the block cache.

use cairn_format::hash::{fastrange64, hash64};
use cairn_format::trace::block_cache::{Access, WriterVersion, begin};
use cairn_platform::Clock;
use cairn_platform::sync::{Arc, AtomicU64, AtomicUsize, Ordering};
use cairn_types::Result;

use super::SampledTraceOptions;
use super::open_trace::{OpenTrace, Recorded, Start};
use super::sink::TraceWriter;
use crate::logger::Logger;

/// The number of active block-cache traces in the process.
static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// The number of traces that were started in the process, from which their numbers derive.
static STARTED: AtomicU64 = AtomicU64::new(0);

/// True if some database of the process has an active block-cache trace.
// Relaxed: a lookup concurrent with the start of a trace may be missing.
#[inline(always)]
#[must_use]
pub fn is_in_use() -> bool {
    IN_USE.load(Ordering::Relaxed) != 0
}

/// A get, or a batch of gets, in an active trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedGetId {
    /// The number of the trace.
    trace: u64,
    /// The number of the get, from 1.
    pub get: u64,
}

/// The block-cache trace of a database.
pub struct BlockCacheTracer {
    clock: Arc<dyn Clock>,
    open: OpenTrace,
    /// The number of the active trace.
    trace: AtomicU64,
    next_get: AtomicU64,
}

impl BlockCacheTracer {
    /// Creates a recorder that is not active.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> BlockCacheTracer {
        BlockCacheTracer {
            clock,
            open: OpenTrace::new("block-cache trace", &IN_USE),
            trace: AtomicU64::new(0),
            next_get: AtomicU64::new(1),
        }
    }

    /// True if lookups are recorded.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.open.is_on()
    }

    /// Returns the number of the next get; `None` if lookups are not recorded.
    #[must_use]
    pub fn next_get(&self) -> Option<TracedGetId> {
        self.is_on().then(|| TracedGetId {
            trace: self.trace.load(Ordering::Relaxed),
            get: self.next_get.fetch_add(1, Ordering::Relaxed),
        })
    }

    /// True if `get` started in the active trace.
    #[must_use]
    pub fn is_current(&self, get: TracedGetId) -> bool {
        get.trace == self.trace.load(Ordering::Relaxed)
    }

    /// Starts the trace, written by a RocksDB of this `version`, with the writer that `create` returns. Failures of the
    /// trace are logged to `info`.
    ///
    /// # Errors
    ///
    /// `Busy` if the trace is active, without a call of `create`, or in a call of a trace writer; the errors of `create`
    /// and of the writer for the first record.
    pub fn start(
        &self,
        info: &Arc<Logger>,
        version: WriterVersion,
        options: &SampledTraceOptions,
        create: impl FnOnce() -> Result<Box<dyn TraceWriter>>,
    ) -> Result<()> {
        let start = Start {
            info,
            sampling_frequency: options.sampling_frequency,
            max_file_size: options.max_trace_file_size,
            header: begin(self.clock.wall_micros(), version),
        };
        self.open.start(start, || {
            let number = STARTED.fetch_add(1, Ordering::Relaxed) + 1;
            self.trace.store(number, Ordering::Relaxed);
            self.next_get.store(1, Ordering::Relaxed);
            create()
        })
    }

    /// Ends the trace. Does nothing if there is none.
    ///
    /// # Errors
    ///
    /// The first error of the trace, after which records may be missing; `Busy` in a call of a trace writer.
    pub fn end(&self) -> Result<()> {
        self.open.end()
    }

    /// Records `access`.
    pub fn record(&self, access: &Access<'_>) {
        self.open.record(|active| {
            let frequency = active.sampling_frequency;
            if frequency > 1 && fastrange64(hash64(access.block_key), frequency) != 0 {
                return Recorded::Skipped;
            }
            match access.encode(self.clock.wall_micros(), &mut active.sink.record) {
                true => Recorded::Encoded,
                false => Recorded::TooLong,
            }
        });
    }
}
