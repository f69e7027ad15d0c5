//! The destination of a trace, and the records on their way to it.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cairn_types::{Error, Result};

use crate::callback::{self, Within};
use crate::logger::Logger;

/// A destination of a trace.
///
/// It is called by one thread at a time, with a lock of the trace held: it must not wait for another thread that uses
/// the database. It is dropped without that lock. Operations on the database in a call are not traced, and writes fail
/// with `Busy`. A destination of a block-cache or an I/O trace must not use the database at all, because its caller may
/// hold any lock of it.
pub trait TraceWriter: Send {
    /// Appends a record.
    ///
    /// # Errors
    ///
    /// Any error; the trace has no further records then.
    fn write(&mut self, record: &[u8]) -> Result<()>;
    /// Returns the number of bytes appended, which `max_trace_file_size` limits.
    fn file_size(&self) -> u64;
    /// Completes the trace. Called once, after the last record.
    ///
    /// # Errors
    ///
    /// Any error if the trace is not complete; the call that ends the trace returns it.
    fn close(&mut self) -> Result<()>;
}

thread_local! {
    /// True while the thread is in a call of a trace writer.
    static IN_WRITER: Cell<bool> = const { Cell::new(false) };
}

/// True while the thread is in a call of a trace writer, whose operations are not traced.
#[must_use]
pub fn is_in_writer() -> bool {
    IN_WRITER.get()
}

/// Runs `call`, which creates the destination of a trace: its operations are not traced, and it may not start or end
/// traces.
pub fn untraced<T>(call: impl FnOnce() -> T) -> T {
    let _restores = RestoreInWriter(IN_WRITER.replace(true));
    call()
}

/// Restores the state of the thread when dropped.
struct RestoreInWriter(bool);

impl Drop for RestoreInWriter {
    fn drop(&mut self) {
        IN_WRITER.set(self.0);
    }
}

/// Checks that the thread may start or end a trace.
///
/// # Errors
///
/// `Busy` in a call of a trace writer.
pub fn check_outside_writer() -> Result<()> {
    match IN_WRITER.get() {
        false => Ok(()),
        true => Err(Error::busy("a trace writer may not start or end traces")),
    }
}

/// Calls the writer of a trace of the database that logs to `info`. A panic is an error.
fn call_writer<T>(info: &Logger, call: impl FnOnce() -> Result<T>) -> Result<T> {
    let within = || untraced(|| callback::within(info, Within::Trace, call));
    let called = catch_unwind(AssertUnwindSafe(within));
    called.unwrap_or_else(|_| Err(Error::panicked("the trace writer panicked")))
}

/// The maximum memory that is retained for the next record, in bytes.
const KEPT_RECORD_BYTES: usize = 64 << 10;

/// The writer of a trace that was started and not ended.
pub struct TraceSink {
    writer: Box<dyn TraceWriter>,
    max_file_size: u64,
    /// The first error of the writer.
    failed: Option<Error>,
    /// The record that is appended next.
    pub record: Vec<u8>,
}

impl TraceSink {
    /// Starts a trace with the record `header`. `max_file_size` is the size in bytes above which it has no further
    /// records.
    #[must_use]
    pub fn new(writer: Box<dyn TraceWriter>, max_file_size: u64, header: Vec<u8>) -> TraceSink {
        TraceSink {
            writer,
            max_file_size,
            failed: None,
            record: header,
        }
    }

    /// Appends the record. Returns true if there may be further records.
    ///
    /// # Errors
    ///
    /// That of the writer, which is also kept for [`TraceSink::end`]. There are no further records.
    pub fn append(&mut self, info: &Logger) -> Result<bool> {
        let TraceSink { writer, record, .. } = self;
        let most = self.max_file_size;
        let written = call_writer(info, || {
            writer.write(record)?;
            Ok(writer.file_size() <= most)
        });
        self.record.clear();
        self.record.shrink_to(KEPT_RECORD_BYTES);
        written.inspect_err(|error| self.fail(error.clone()))
    }

    /// Keeps `error` for [`TraceSink::end`], unless there was an earlier one.
    pub fn fail(&mut self, error: Error) {
        self.failed.get_or_insert(error);
    }

    /// Appends the record `last`, if it has one, and completes the trace. The caller drops the sink, and with it the
    /// writer, after it has released the lock of the trace.
    ///
    /// # Errors
    ///
    /// The first error of the trace.
    pub fn end(&mut self, info: &Logger, last: Option<Vec<u8>>) -> Result<()> {
        if self.failed.is_none()
            && let Some(last) = last
        {
            self.record = last;
            // Kept for the result.
            let _ = self.append(info);
        }
        let writer = &mut self.writer;
        let closed = call_writer(info, || writer.close());
        self.failed.take().map_or(closed, Err)
    }
}
