//! Reports on an open database: to listeners, to the info log, and to statistics.
//!
//! Listeners are called without locks. Code that holds a lock queues a call with [`Telemetry::notify_later`];
//! the next [`Telemetry::deliver`] makes it. Lines of the info log wait likewise: see [`Telemetry::log_later`]. The
//! component depends only on the context.
//!
//! Cost: one branch without statistics, one without listeners.

mod db_stats;
mod op_stats;

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use cairn_format::names::FileName;
use cairn_observe::event::Event;
use cairn_observe::listener::{EventListener, FileDeletionInfo};
use cairn_observe::statistics::Statistics;
use cairn_observe::threads::{Operation, ThreadStatus, Tracker, Working};
use cairn_observe::{InternalStats, Level, Listeners, LogLine};
use cairn_options::DbOptions;
use cairn_platform::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering};
use cairn_types::Result;

use crate::context::DbContext;
use db_stats::DbStats;
pub(crate) use op_stats::GroupCounts;

/// A queued call of every listener.
type Notice = Box<dyn Fn(&dyn EventListener) + Send>;

/// A call that holds locks which listeners may need.
#[derive(Clone, Copy)]
struct Deferral {
    /// The address of the reports whose queued calls wait for its end.
    of: usize,
    /// True once queued calls were to be made.
    is_due: bool,
}

thread_local! {
    /// The innermost such call of this thread.
    static DEFERRAL: Cell<Option<Deferral>> = const { Cell::new(None) };
}

/// Ends a deferral when dropped: restores the one around it.
struct EndDeferral(Option<Deferral>);

impl Drop for EndDeferral {
    fn drop(&mut self) {
        DEFERRAL.set(self.0);
    }
}

/// Reports on an open database.
pub(crate) struct Telemetry {
    context: Arc<DbContext>,
    listeners: Listeners,
    /// Queued calls. No other lock is acquired while this one is held.
    notices: Mutex<VecDeque<Notice>>,
    /// Queued lines of the info log. No other lock is acquired while this one is held.
    lines: Mutex<VecDeque<LogLine>>,
    /// Operation counters.
    counters: InternalStats,
    /// Tickers and histograms, if enabled.
    statistics: Option<Arc<Statistics>>,
    /// Operations that threads are working on; empty unless `enable_thread_tracking` is set.
    threads: Tracker,
    /// InternalStats at the last `rocksdb.dbstats`.
    reported: Mutex<DbStats>,
    /// The number of subcompactions that wait for another process.
    waiting_remotely: Arc<AtomicUsize>,
    /// The id of the next job.
    next_job: AtomicU64,
    /// True once `on_db_shutdown_begin` was called.
    shutdown_notified: AtomicBool,
    /// Monotonic time of the last log line about a long write, in nanoseconds; 0 before the first.
    long_write_logged: AtomicU64,
}

/// Minimum time between two log lines about long writes, in nanoseconds.
const LONG_WRITE_INTERVAL: u64 = 1_000_000_000;

impl Telemetry {
    /// Creates the reports on the database of `context`, for the listeners and statistics in `options`.
    pub(crate) fn new(context: Arc<DbContext>, options: &DbOptions, threads: Tracker) -> Telemetry {
        Telemetry {
            context,
            listeners: options.listeners.clone(),
            notices: Mutex::default(),
            lines: Mutex::default(),
            counters: InternalStats::default(),
            statistics: options.statistics.statistics(),
            threads,
            reported: Mutex::default(),
            waiting_remotely: Arc::default(),
            next_job: AtomicU64::new(1),
            shutdown_notified: AtomicBool::new(false),
            long_write_logged: AtomicU64::new(0),
        }
    }

    /// The number of subcompactions that wait for another process.
    pub(crate) fn waiting_remotely(&self) -> &Arc<AtomicUsize> {
        &self.waiting_remotely
    }

    /// The context of the database.
    pub(crate) fn context(&self) -> &DbContext {
        &self.context
    }

    /// Lists `operation` of `family` as the calling thread's until the returned guard is dropped.
    pub(crate) fn begin_operation(&self, family: &str, operation: Operation) -> Working {
        self.threads.begin(family, operation)
    }

    /// Operations that threads of this database are working on.
    pub(crate) fn thread_list(&self) -> Vec<ThreadStatus> {
        self.threads.list()
    }

    /// True if there are listeners.
    pub(crate) fn has_listeners(&self) -> bool {
        !self.listeners.is_empty()
    }

    /// Calls each listener. The caller must not hold a lock.
    pub(crate) fn notify(&self, call: impl FnMut(&dyn EventListener)) {
        self.listeners.each(&self.context.info, call);
    }

    /// Queues a call of each listener for the next [`Telemetry::deliver`].
    pub(crate) fn notify_later(&self, notice: impl Fn(&dyn EventListener) + Send + 'static) {
        if !self.listeners.is_empty() {
            self.notices.lock().push_back(Box::new(notice));
        }
    }

    /// Makes the queued calls. The caller must not hold a lock, except within [`Telemetry::deliver_after`].
    pub(crate) fn deliver(&self) {
        if self.listeners.is_empty() {
            return;
        }
        if let Some(deferral) = DEFERRAL.get()
            && deferral.of == std::ptr::from_ref(self).addr()
        {
            DEFERRAL.set(Some(Deferral {
                is_due: true,
                ..deferral
            }));
            return;
        }
        loop {
            let Some(notice) = self.notices.lock().pop_front() else {
                return;
            };
            self.notify(notice);
        }
    }

    /// Runs `work`, which holds locks that listeners may need: this thread makes the queued calls after it.
    pub(crate) fn deliver_after<T>(&self, work: impl FnOnce() -> T) -> T {
        let around = DEFERRAL.replace(Some(Deferral {
            of: std::ptr::from_ref(self).addr(),
            is_due: false,
        }));
        let end = EndDeferral(around);
        let result = work();
        let is_due = DEFERRAL.get().is_some_and(|deferral| deferral.is_due);
        drop(end);
        if is_due {
            self.deliver();
        }
        result
    }

    /// Queues a line of the info log for the next [`Telemetry::write_lines`].
    #[track_caller]
    pub(crate) fn log_later(&self, level: Level, message: impl fmt::Display) {
        // The level is checked when the line is written: the check calls the sink.
        self.lines.lock().push_back(LogLine::new(level, message));
    }

    /// Writes the queued lines. The caller must not hold the lock of the tree, which a sink may need.
    pub(crate) fn write_lines(&self) {
        loop {
            let Some(line) = self.lines.lock().pop_front() else {
                return;
            };
            self.context.info.line(&line);
        }
    }

    /// Returns an event of `job` for the info log.
    pub(crate) fn event(&self, job: u64, name: &str) -> Event {
        Event::new(self.context.world.clock.wall_micros(), job, name)
    }

    /// Writes an event to the info log.
    pub(crate) fn log_event(&self, event: &Event) {
        self.context.info.plain(Level::Info, event.finish());
    }

    /// Returns the id of a new job.
    pub(crate) fn new_job(&self) -> u64 {
        self.next_job.fetch_add(1, Ordering::Relaxed)
    }

    /// Reports the deletion of the table or blob file `path`, or its failure.
    pub(crate) fn report_deletion(&self, path: &Path, job: u64, result: &Result<()>) {
        let name = path.file_name().map(|name| name.to_string_lossy());
        let kind = name.as_deref().and_then(FileName::parse);
        let (blob, number) = match kind {
            Some(FileName::Table(number) | FileName::LegacyTable(number)) => (false, number),
            Some(FileName::Blob(number)) => (true, number),
            _ => return,
        };
        let word = match blob {
            true => "blob_file_deletion",
            false => "table_file_deletion",
        };
        let mut event = self.event(job, word);
        event
            .number("file_number", number.0)
            .text("db_session_id", &self.context.session_id);
        match result {
            Ok(()) => event.text("status", "OK"),
            Err(error) => event.text("status", &error.to_string()),
        };
        self.log_event(&event);
        if self.listeners.is_empty() {
            return;
        }
        let info = FileDeletionInfo {
            db_name: self.context.dir.to_string_lossy().into_owned(),
            file_path: path.to_string_lossy().into_owned(),
            job_id: job,
            status: result.clone().err(),
        };
        self.notify_later(move |listener| match blob {
            true => listener.on_blob_file_deleted(&info),
            false => listener.on_table_file_deleted(&info),
        });
    }

    /// Calls `on_db_shutdown_begin`, once.
    pub(crate) fn notify_shutdown(&self) {
        if !self.shutdown_notified.swap(true, Ordering::Relaxed) {
            self.notify(|listener| listener.on_db_shutdown_begin());
        }
    }

    /// True if a long write that ended at `now`, in nanoseconds, may be logged: at most one per second is.
    pub(crate) fn may_log_long_write(&self, now: u64) -> bool {
        // Relaxed: a second line within the interval is harmless.
        let last = self.long_write_logged.load(Ordering::Relaxed);
        if last != 0 && now.saturating_sub(last) < LONG_WRITE_INTERVAL {
            return false;
        }
        self.long_write_logged.store(now, Ordering::Relaxed);
        true
    }
}
