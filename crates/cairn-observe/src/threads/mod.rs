//! The status of threads that work for databases: RocksDB's `GetThreadList`.
//!
//! A database opened with `enable_thread_tracking` has a [`Tracker`], which records the start, the
//! progress and the end of flushes, compactions, opens and verifications. [`list`] shows the
//! operations of all databases of the process; idle threads are not listed. Bytes are counted as
//! files are read and written, by all threads that work on an operation. If no operation is
//! tracked, the overhead per file operation is one load.
//!
//! ```
//! use cairn_observe::threads::{self, Operation, Tracker};
//! use cairn_platform::World;
//!
//! let tracker = Tracker::new(true, "/db", World::in_memory().clock);
//! let opening = tracker.begin("", Operation::DbOpen);
//! assert_eq!(tracker.list()[0].operation.name(), "DBOpen");
//! drop(opening);
//! assert!(tracker.list().is_empty());
//! ```

mod status;

use std::cell::RefCell;
use std::marker::PhantomData;

use cairn_platform::sync::{Arc, AtomicU8, AtomicU64, AtomicUsize, Mutex, Ordering};
use cairn_platform::thread_pool::current_priority;
use cairn_platform::{Clock, Priority};

use crate::logger::thread_number;

pub use status::{
    CompactionOperation, FlushOperation, Operation, Stage, ThreadStatus, ThreadType, micros_text,
};

/// Operations in progress, in the order of their start.
static OPERATIONS: Mutex<Vec<Arc<Tracked>>> = Mutex::new(Vec::new());

/// The number of operations. A thread that works on an operation has seen its start and reads a
/// value other than 0.
static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

/// The operation that the calling thread works on.
struct Current {
    tracked: Arc<Tracked>,
    /// True for the thread listed with the operation, false for helpers.
    leads: bool,
}

/// A database with thread tracking.
struct Database {
    name: String,
    clock: Arc<dyn Clock>,
}

/// An operation in progress.
pub struct Tracked {
    database: Arc<Database>,
    thread: u64,
    thread_type: ThreadType,
    family: String,
    operation: Operation,
    /// The start time, in nanoseconds of the database's clock.
    began: u64,
    // Informational: these atomics order no other access.
    stage: AtomicU8,
    read: AtomicU64,
    written: AtomicU64,
}

impl Tracked {
    fn status(&self) -> ThreadStatus {
        let now = self.database.clock.monotonic_nanos();
        ThreadStatus {
            thread_id: self.thread,
            thread_type: self.thread_type,
            db_name: self.database.name.clone(),
            cf_name: self.family.clone(),
            operation: self.operation,
            op_elapsed_micros: now.saturating_sub(self.began) / 1_000,
            stage: Stage::from_number(self.stage.load(Ordering::Relaxed)),
            bytes_read: self.read.load(Ordering::Relaxed),
            bytes_written: self.written.load(Ordering::Relaxed),
        }
    }
}

/// The operations in progress, in the order of their start, of all databases in the process that
/// were opened with `enable_thread_tracking`.
#[must_use]
pub fn list() -> Vec<ThreadStatus> {
    listed(|_| true)
}

fn listed(wanted: impl Fn(&Tracked) -> bool) -> Vec<ThreadStatus> {
    let operations = OPERATIONS.lock();
    let wanted = operations.iter().filter(|tracked| wanted(tracked));
    wanted.map(|tracked| tracked.status()).collect()
}

/// Tracks the operations of one database, if enabled.
#[derive(Default)]
pub struct Tracker(Option<Arc<Database>>);

impl Tracker {
    /// Creates a tracker for the database in the directory `name`.
    #[must_use]
    pub fn new(on: bool, name: &str, clock: Arc<dyn Clock>) -> Tracker {
        Tracker(on.then(|| {
            Arc::new(Database {
                name: name.to_owned(),
                clock,
            })
        }))
    }

    /// Marks the calling thread as working on `operation` of `family`, until the guard is dropped. The
    /// previous operation of the thread is then resumed.
    pub fn begin(&self, family: &str, operation: Operation) -> Working {
        let tracked = self.0.as_ref().map(|database| {
            Arc::new(Tracked {
                database: database.clone(),
                thread: thread_number(),
                thread_type: match current_priority() {
                    Some(Priority::High) => ThreadType::HighPriority,
                    Some(Priority::Low | Priority::Part) => ThreadType::LowPriority,
                    Some(Priority::Bottom) => ThreadType::BottomPriority,
                    Some(Priority::User) | None => ThreadType::User,
                },
                family: family.to_owned(),
                operation,
                began: database.clock.monotonic_nanos(),
                stage: AtomicU8::new(0),
                read: AtomicU64::new(0),
                written: AtomicU64::new(0),
            })
        });
        Working {
            outer: tracked.as_ref().and_then(|tracked| {
                OPERATIONS.lock().push(tracked.clone());
                // Relaxed: this thread sees its own store, and helpers are called later.
                COUNT.fetch_add(1, Ordering::Relaxed);
                set_current(Some(Current {
                    tracked: tracked.clone(),
                    leads: true,
                }))
            }),
            tracked,
            _stays: PhantomData,
        }
    }

    /// The operations in progress of this database.
    #[must_use]
    pub fn list(&self) -> Vec<ThreadStatus> {
        let Some(mine) = &self.0 else {
            return Vec::new();
        };
        listed(|tracked| Arc::ptr_eq(&tracked.database, mine))
    }
}

/// Sets the operation of the calling thread and returns the previous one.
fn set_current(next: Option<Current>) -> Option<Current> {
    // An exiting thread has no operation.
    CURRENT
        .try_with(|current| current.replace(next))
        .unwrap_or_default()
}

/// An operation of the calling thread. Ends when dropped.
#[must_use]
pub struct Working {
    tracked: Option<Arc<Tracked>>,
    outer: Option<Current>,
    /// Bound to its thread.
    _stays: PhantomData<*const ()>,
}

impl Drop for Working {
    fn drop(&mut self) {
        if let Some(tracked) = &self.tracked {
            let _ended = set_current(self.outer.take());
            COUNT.fetch_sub(1, Ordering::Relaxed);
            OPERATIONS
                .lock()
                .retain(|other| !Arc::ptr_eq(other, tracked));
        }
    }
}

/// The operation of the calling thread, for threads that [`help`] with it.
#[must_use]
pub fn current() -> Option<Arc<Tracked>> {
    with_tracked(|current| current.tracked.clone())
}

/// Accesses the operation of the calling thread.
fn with_tracked<T>(look: impl FnOnce(&Current) -> T) -> Option<T> {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return None;
    }
    with_tracked_slow(look)
}

#[cold]
fn with_tracked_slow<T>(look: impl FnOnce(&Current) -> T) -> Option<T> {
    let found = CURRENT.try_with(|current| current.borrow().as_ref().map(look));
    found.unwrap_or_default()
}

/// Counts I/O of the calling thread for `tracked`, the operation of another thread, until the guard is
/// dropped.
pub fn help(tracked: Option<&Arc<Tracked>>) -> Helping {
    let outer = tracked.map(|tracked| {
        set_current(Some(Current {
            tracked: tracked.clone(),
            leads: false,
        }))
    });
    Helping {
        outer,
        _stays: PhantomData,
    }
}

/// Marks the calling thread as a helper. Ends when dropped.
#[must_use]
pub struct Helping {
    /// The previous operation, if the thread helps with another.
    outer: Option<Option<Current>>,
    _stays: PhantomData<*const ()>,
}

impl Drop for Helping {
    fn drop(&mut self) {
        if let Some(outer) = self.outer.take() {
            let _helped = set_current(outer);
        }
    }
}

/// Sets the stage of the calling thread's operation, until the guard is dropped. Has no effect in a helper.
pub fn stage(stage: Stage) -> AtStage {
    let before = with_tracked(|current| {
        let number = stage as u8;
        let swap = || current.tracked.stage.swap(number, Ordering::Relaxed);
        current.leads.then(|| (current.tracked.clone(), swap()))
    });
    AtStage(before.flatten())
}

/// A stage of an operation.
#[must_use]
pub struct AtStage(Option<(Arc<Tracked>, u8)>);

impl Drop for AtStage {
    fn drop(&mut self) {
        if let Some((tracked, before)) = &self.0 {
            tracked.stage.store(*before, Ordering::Relaxed);
        }
    }
}

/// True if an operation is tracked.
#[inline]
pub(crate) fn is_in_use() -> bool {
    COUNT.load(Ordering::Relaxed) > 0
}

/// Counts `bytes` read by the calling thread.
#[inline]
pub(crate) fn count_read(bytes: u64) {
    with_tracked(|current| current.tracked.read.fetch_add(bytes, Ordering::Relaxed));
}

/// Counts `bytes` written by the calling thread.
#[inline]
pub(crate) fn count_written(bytes: u64) {
    with_tracked(|current| current.tracked.written.fetch_add(bytes, Ordering::Relaxed));
}

#[cfg(test)]
mod tests;
