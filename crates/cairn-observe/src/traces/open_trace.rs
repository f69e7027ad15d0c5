//! The state of a trace of one database that records lookups or operations, and may be active.

use cairn_platform::Process;
use cairn_platform::sync::{Arc, AtomicBool, AtomicUsize, Mutex, Ordering};
use cairn_types::{Error, Result};

use super::sink::{TraceSink, TraceWriter, check_outside_writer, is_in_writer, untraced};
use crate::logger::Logger;

/// A trace that may be active.
pub(super) struct OpenTrace {
    /// Its name in messages.
    name: &'static str,
    /// The number of traces of this kind in the process that have room for records.
    in_use: &'static AtomicUsize,
    /// True while this one has.
    on: AtomicBool,
    /// A leaf lock, held during calls of the writer.
    active: Mutex<Option<Active>>,
    process: Process,
}

/// A trace that was started and not ended.
pub(super) struct Active {
    pub(super) sink: TraceSink,
    pub(super) sampling_frequency: u64,
    /// Operations since the last one that was recorded.
    pub(super) skipped: u64,
    info: Arc<Logger>,
}

/// The start of a trace.
pub(super) struct Start<'a> {
    pub(super) info: &'a Arc<Logger>,
    pub(super) sampling_frequency: u64,
    pub(super) max_file_size: u64,
    pub(super) header: Vec<u8>,
}

/// The effect of one record.
pub(super) enum Recorded {
    /// It was appended to the record of the sink.
    Encoded,
    /// It is not recorded.
    Skipped,
    /// It is too long for a record.
    TooLong,
}

impl OpenTrace {
    pub(super) fn new(name: &'static str, in_use: &'static AtomicUsize) -> OpenTrace {
        OpenTrace {
            name,
            in_use,
            on: AtomicBool::new(false),
            active: Mutex::new(None),
            process: Process::this(),
        }
    }

    /// True if the calling thread should record.
    // Relaxed: an operation concurrent with the start of a trace may be missing; the state has a lock.
    pub(super) fn is_on(&self) -> bool {
        // A forked child shares the file with its parent.
        self.on.load(Ordering::Relaxed) && !is_in_writer() && self.process.is_this()
    }

    fn switch(&self, on: bool) {
        match (self.on.swap(on, Ordering::Relaxed), on) {
            (false, true) => {
                self.in_use.fetch_add(1, Ordering::Relaxed);
            }
            (true, false) => {
                self.in_use.fetch_sub(1, Ordering::Relaxed);
            }
            (false, false) | (true, true) => {}
        }
    }

    /// Starts the trace with the writer that `create` returns.
    ///
    /// # Errors
    ///
    /// `Busy` if it is active, without a call of `create`, or in a call of a trace writer; the errors of `create` and of
    /// the writer for the first record.
    pub(super) fn start(
        &self,
        start: Start<'_>,
        create: impl FnOnce() -> Result<Box<dyn TraceWriter>>,
    ) -> Result<()> {
        check_outside_writer()?;
        // Declared before the guard: after a failure, its writer is dropped without the lock.
        let mut sink;
        let mut active = self.active.lock();
        if active.is_some() {
            return Err(Error::busy(format!("the {} is active", self.name)));
        }
        sink = TraceSink::new(untraced(create)?, start.max_file_size, start.header);
        let has_room = sink.append(start.info)?;
        *active = Some(Active {
            sink,
            sampling_frequency: start.sampling_frequency,
            skipped: 0,
            info: start.info.clone(),
        });
        self.switch(has_room);
        Ok(())
    }

    /// Ends the trace. Does nothing if there is none.
    ///
    /// # Errors
    ///
    /// The first error of the trace, after which records may be missing; `Busy` in a call of a trace writer.
    pub(super) fn end(&self) -> Result<()> {
        check_outside_writer()?;
        let mut active = self.active.lock();
        self.switch(false);
        let Some(mut trace) = active.take() else {
            return Ok(());
        };
        let ended = trace.sink.end(&trace.info, None);
        // The writer is dropped without the lock.
        drop(active);
        ended
    }

    /// Appends the record that `encode` creates.
    pub(super) fn record(&self, encode: impl FnOnce(&mut Active) -> Recorded) {
        if !self.is_on() {
            return;
        }
        let mut guard = self.active.lock();
        let Some(active) = guard.as_mut() else {
            return;
        };
        // It may have been switched off while the thread waited for the lock.
        if !self.on.load(Ordering::Relaxed) {
            return;
        }
        let appended = match encode(active) {
            Recorded::Skipped => return,
            Recorded::Encoded => active.sink.append(&active.info),
            Recorded::TooLong => {
                let error = Error::not_supported("a trace record of 4 GiB");
                active.sink.fail(error.clone());
                Err(error)
            }
        };
        if let Ok(true) = appended {
            return;
        }
        self.switch(false);
        let info = active.info.clone();
        // The info log has a lock of its own, and uses files.
        drop(guard);
        if let Err(error) = appended {
            info.error(format_args!(
                "the {} has no further records: {error}",
                self.name
            ));
        }
    }
}

impl Drop for OpenTrace {
    fn drop(&mut self) {
        self.switch(false);
    }
}

impl Active {
    /// Counts an operation. Returns true if it is not recorded.
    pub(super) fn skips(&mut self) -> bool {
        self.skipped += 1;
        if self.skipped < self.sampling_frequency {
            return true;
        }
        self.skipped = 0;
        false
    }
}
