//! Reports on an open database: to listeners, to the info log, and into statistics.
//!
//! Listeners are called without locks. Under a lock a caller leaves a notice ([`Telemetry::notify_later`]), which the next
//! [`Telemetry::deliver`] passes on. Of the components below it knows the context only.
//!
//! Cost: a test of a pointer where no statistics are kept, of a length where there are no listeners.

mod sums;
mod tally;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use cairn_format::names::FileName;
use cairn_observe::event::Event;
use cairn_observe::listener::{EventListener, FileDeletionInfo};
use cairn_observe::statistics::Statistics;
use cairn_observe::threads::Tracker;
use cairn_observe::{Counters, Level, Listeners};
use cairn_options::DbOptions;
use cairn_platform::sync::{AtomicBool, AtomicU64, Mutex, Ordering};
use cairn_types::Result;

use crate::context::DbContext;
use sums::Sums;
pub(crate) use tally::GroupCounts;

/// A call of every listener that is still to be made.
type Notice = Box<dyn Fn(&dyn EventListener) + Send>;

/// Reports on an open database.
pub(crate) struct Telemetry {
    context: Arc<DbContext>,
    listeners: Listeners,
    /// Calls that are still to be made; a short lock, held alone.
    notices: Mutex<VecDeque<Notice>>,
    /// Sums of operations.
    counters: Counters,
    /// Tickers and histograms, if they are kept.
    statistics: Option<Arc<Statistics>>,
    /// The list of threads, if the database is in it.
    pub(crate) threads: Tracker,
    /// The sums of the last `rocksdb.dbstats`.
    reported: Mutex<Sums>,
    /// The number of the next job.
    next_job: AtomicU64,
    /// True if listeners were told that the database is being closed.
    told_of_shutdown: AtomicBool,
    /// The time of the last line about a long write, in nanoseconds.
    long_write_logged: AtomicU64,
}

/// The shortest time between two lines about long writes, in nanoseconds.
const BETWEEN_LONG_WRITES: u64 = 1_000_000_000;

impl Telemetry {
    /// Reports on the database of `context` by its `options`; `threads` lists what its threads do.
    pub(crate) fn new(context: Arc<DbContext>, options: &DbOptions, threads: Tracker) -> Telemetry {
        Telemetry {
            context,
            listeners: options.listeners.clone(),
            notices: Mutex::default(),
            counters: Counters::default(),
            statistics: options.statistics.statistics(),
            threads,
            reported: Mutex::default(),
            next_job: AtomicU64::new(1),
            told_of_shutdown: AtomicBool::new(false),
            long_write_logged: AtomicU64::new(0),
        }
    }

    /// True if there are listeners.
    pub(crate) fn has_listeners(&self) -> bool {
        !self.listeners.is_empty()
    }

    /// Calls each listener. The caller holds no lock.
    pub(crate) fn notify(&self, call: impl FnMut(&dyn EventListener)) {
        self.listeners.each(&self.context.info, call);
    }

    /// Keeps a notice for [`Telemetry::deliver`].
    pub(crate) fn notify_later(&self, notice: impl Fn(&dyn EventListener) + Send + 'static) {
        if !self.listeners.is_empty() {
            self.notices.lock().push_back(Box::new(notice));
        }
    }

    /// Tells what waits to be told. The caller holds no lock.
    pub(crate) fn deliver(&self) {
        if self.listeners.is_empty() {
            return;
        }
        loop {
            let Some(notice) = self.notices.lock().pop_front() else {
                return;
            };
            self.notify(notice);
        }
    }

    /// An event of `job` for the info log.
    pub(crate) fn event(&self, job: u64, name: &str) -> Event {
        Event::new(self.context.world.clock.wall_micros(), job, name)
    }

    /// Writes an event to the info log.
    pub(crate) fn log_event(&self, event: &Event) {
        self.context.info.plain(Level::Info, event.finish());
    }

    /// The number of a new job.
    pub(crate) fn new_job(&self) -> u64 {
        self.next_job.fetch_add(1, Ordering::Relaxed)
    }

    /// Tells that `path` was deleted, or could not be.
    pub(crate) fn note_deletion(&self, path: &Path, job: u64, result: &Result<()>) {
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
        event.number("file_number", number.0);
        if let Err(error) = result {
            event.text("status", &error.to_string());
        }
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

    /// Tells listeners, once, that the database is being closed.
    pub(crate) fn shutdown_begins(&self) {
        if !self.told_of_shutdown.swap(true, Ordering::Relaxed) {
            self.notify(|listener| listener.on_db_shutdown_begin());
        }
    }

    /// True if the info log may have a line about a long write that ends `now`, in nanoseconds: one a second.
    pub(crate) fn takes_long_write(&self, now: u64) -> bool {
        // Relaxed: two lines in a second do no harm.
        let last = self.long_write_logged.load(Ordering::Relaxed);
        if last != 0 && now.saturating_sub(last) < BETWEEN_LONG_WRITES {
            return false;
        }
        self.long_write_logged.store(now, Ordering::Relaxed);
        true
    }
}
