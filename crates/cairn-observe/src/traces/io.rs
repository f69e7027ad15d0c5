//! The recorder of operations on files.

use std::path::Path;

use cairn_format::trace::block_cache::{WriterVersion, begin};
use cairn_format::trace::io::{IoOperation, STATUS_OK};
use cairn_platform::Clock;
use cairn_platform::sync::{Arc, AtomicUsize, Ordering};
use cairn_types::{Error, Result};

use super::SampledTraceOptions;
use super::open_trace::{OpenTrace, Recorded, Start};
use super::sink::TraceWriter;
use crate::logger::Logger;

/// The number of active I/O traces in the process.
static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// True if some database of the process has an active I/O trace.
// Relaxed: an operation concurrent with the start of a trace may be missing.
#[inline(always)]
#[must_use]
pub fn is_in_use() -> bool {
    IN_USE.load(Ordering::Relaxed) != 0
}

/// The numbers in the record of an operation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IoNumbers {
    file_len: Option<u64>,
    len: Option<u64>,
    offset: Option<u64>,
}

impl IoNumbers {
    /// The length of the file.
    pub(crate) fn of_file(len: u64) -> IoNumbers {
        IoNumbers {
            file_len: Some(len),
            ..IoNumbers::default()
        }
    }

    /// A number of bytes.
    pub(crate) fn of_len(len: u64) -> IoNumbers {
        IoNumbers {
            len: Some(len),
            ..IoNumbers::default()
        }
    }

    /// A range of the file.
    pub(crate) fn of_range(offset: u64, len: u64) -> IoNumbers {
        IoNumbers {
            offset: Some(offset),
            len: Some(len),
            ..IoNumbers::default()
        }
    }
}

/// The I/O trace of a database.
pub struct IoTracer {
    clock: Arc<dyn Clock>,
    open: OpenTrace,
}

impl IoTracer {
    /// Creates a recorder that is not active.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> IoTracer {
        IoTracer {
            clock,
            open: OpenTrace::new("I/O trace", &IN_USE),
        }
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
        self.open.start(start, create)
    }

    /// Ends the trace. Does nothing if there is none.
    ///
    /// # Errors
    ///
    /// The first error of the trace, after which records may be missing; `Busy` in a call of a trace writer.
    pub fn end(&self) -> Result<()> {
        self.open.end()
    }

    /// Returns the time at which an operation starts; `None` if operations are not recorded.
    pub(crate) fn begin(&self) -> Option<u64> {
        self.open.is_on().then(|| self.clock.monotonic_nanos())
    }

    /// Records an operation on the file at `path` that began at `began`, and its `error`.
    pub(crate) fn record(
        &self,
        began: u64,
        operation: &str,
        path: &Path,
        numbers: IoNumbers,
        error: Option<&Error>,
    ) {
        let now = self.clock.monotonic_nanos();
        let error = error.map(Error::to_string);
        let file = path.file_name().unwrap_or(path.as_os_str());
        let operation = IoOperation {
            operation: operation.as_bytes(),
            nanos: now.saturating_sub(began),
            status: error.as_ref().map_or(STATUS_OK, |text| text.as_bytes()),
            file: file.as_encoded_bytes(),
            file_len: numbers.file_len,
            len: numbers.len,
            offset: numbers.offset,
            request_id: None,
        };
        self.open.record(|active| {
            if active.skips() {
                return Recorded::Skipped;
            }
            match operation.encode(now, &mut active.sink.record) {
                true => Recorded::Encoded,
                false => Recorded::TooLong,
            }
        });
    }

    /// Runs `call` and records it as `operation` on the file at `path`, with the numbers that `numbers` returns for its
    /// result.
    pub(crate) fn traced<T>(
        &self,
        operation: &str,
        path: &Path,
        numbers: impl FnOnce(&Result<T>) -> IoNumbers,
        call: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let Some(began) = self.begin() else {
            return call();
        };
        let result = call();
        let numbers = numbers(&result);
        self.record(began, operation, path, numbers, result.as_ref().err());
        result
    }
}
