//! What threads do for databases at this moment: RocksDB's `GetThreadList`.
//!
//! A database that is opened with `enable_thread_tracking` has a [`Tracker`]: flushes, compactions, openings
//! and verifications say when they begin, how far they are and when they end. [`list`] shows those of all
//! databases of the process; threads that do nothing of that are not in it. Bytes are counted as files are
//! read and written, by the threads that work on an operation; while nothing is tracked a call of a file pays
//! for one look at a number.
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

pub use status::{CompactionOperation, FlushOperation, Operation, Stage, ThreadStatus, ThreadType};

/// Operations under way, in the order in which they began.
static OPERATIONS: Mutex<Vec<Arc<Tracked>>> = Mutex::new(Vec::new());

/// How many there are. A thread that works on one has seen its beginning: what it loads is not 0.
static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

/// What the calling thread works on.
struct Current {
    tracked: Arc<Tracked>,
    /// It is the thread that is in the list for it, not one that helps.
    leads: bool,
}

/// A database whose threads are tracked.
struct Database {
    name: String,
    clock: Arc<dyn Clock>,
}

/// An operation under way.
pub struct Tracked {
    database: Arc<Database>,
    thread: u64,
    thread_type: ThreadType,
    family: String,
    operation: Operation,
    /// When it began, in nanoseconds of the database's clock.
    began: u64,
    // Numbers for people: nothing is ordered by them.
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

/// What the threads of all databases of the process do, if these were opened with
/// `enable_thread_tracking`: an entry for each operation, in the order in which they began.
#[must_use]
pub fn list() -> Vec<ThreadStatus> {
    listed(|_| true)
}

fn listed(wanted: impl Fn(&Tracked) -> bool) -> Vec<ThreadStatus> {
    let operations = OPERATIONS.lock();
    let wanted = operations.iter().filter(|tracked| wanted(tracked));
    wanted.map(|tracked| tracked.status()).collect()
}

/// Says what threads do for one database, if that is asked for; by default it is not.
#[derive(Default)]
pub struct Tracker(Option<Arc<Database>>);

impl Tracker {
    /// For the database in the directory `name`. Unless `on`, nothing is tracked.
    #[must_use]
    pub fn new(on: bool, name: &str, clock: Arc<dyn Clock>) -> Tracker {
        Tracker(on.then(|| {
            Arc::new(Database {
                name: name.to_owned(),
                clock,
            })
        }))
    }

    /// The calling thread works on `operation` of `family` until what this returns is dropped. What it did
    /// before goes on then.
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
                // Relaxed: this thread sees its own, and helpers are called later.
                COUNT.fetch_add(1, Ordering::Relaxed);
                turn_to(Some(Current {
                    tracked: tracked.clone(),
                    leads: true,
                }))
            }),
            tracked,
            _stays: PhantomData,
        }
    }

    /// What the threads of this database do.
    #[must_use]
    pub fn list(&self) -> Vec<ThreadStatus> {
        let Some(mine) = &self.0 else {
            return Vec::new();
        };
        listed(|tracked| Arc::ptr_eq(&tracked.database, mine))
    }
}

/// The calling thread works on `next` from now on; returns what it worked on.
fn turn_to(next: Option<Current>) -> Option<Current> {
    // A thread that is ending works on nothing.
    CURRENT
        .try_with(|current| current.replace(next))
        .unwrap_or_default()
}

/// An operation that the calling thread works on. Ends when it is dropped, also by a panic.
#[must_use]
pub struct Working {
    tracked: Option<Arc<Tracked>>,
    outer: Option<Current>,
    /// It belongs to its thread.
    _stays: PhantomData<*const ()>,
}

impl Drop for Working {
    fn drop(&mut self) {
        if let Some(tracked) = &self.tracked {
            let _ended = turn_to(self.outer.take());
            COUNT.fetch_sub(1, Ordering::Relaxed);
            OPERATIONS
                .lock()
                .retain(|other| !Arc::ptr_eq(other, tracked));
        }
    }
}

/// What the calling thread works on, for threads that [`help`] it.
#[must_use]
pub fn current() -> Option<Arc<Tracked>> {
    look(|current| current.tracked.clone())
}

/// Looks at what the calling thread works on.
fn look<T>(look: impl FnOnce(&Current) -> T) -> Option<T> {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return None;
    }
    look_slowly(look)
}

#[cold]
fn look_slowly<T>(look: impl FnOnce(&Current) -> T) -> Option<T> {
    let found = CURRENT.try_with(|current| current.borrow().as_ref().map(look));
    found.unwrap_or_default()
}

/// Until what this returns is dropped, bytes that the calling thread reads and writes count for `tracked`,
/// which another thread is in the list for.
pub fn help(tracked: Option<&Arc<Tracked>>) -> Helping {
    let outer = tracked.map(|tracked| {
        turn_to(Some(Current {
            tracked: tracked.clone(),
            leads: false,
        }))
    });
    Helping {
        outer,
        _stays: PhantomData,
    }
}

/// The calling thread helps another one. Ends when it is dropped.
#[must_use]
pub struct Helping {
    /// What it worked on before, if it helps anybody.
    outer: Option<Option<Current>>,
    _stays: PhantomData<*const ()>,
}

impl Drop for Helping {
    fn drop(&mut self) {
        if let Some(outer) = self.outer.take() {
            let _helped = turn_to(outer);
        }
    }
}

/// What the calling thread works on is at `stage` until what this returns is dropped. Nothing if it helps
/// another one.
pub fn stage(stage: Stage) -> AtStage {
    let before = look(|current| {
        let number = stage as u8;
        let swap = || current.tracked.stage.swap(number, Ordering::Relaxed);
        current.leads.then(|| (current.tracked.clone(), swap()))
    });
    AtStage(before.flatten())
}

/// A stage of what a thread works on.
#[must_use]
pub struct AtStage(Option<(Arc<Tracked>, u8)>);

impl Drop for AtStage {
    fn drop(&mut self) {
        if let Some((tracked, before)) = &self.0 {
            tracked.stage.store(*before, Ordering::Relaxed);
        }
    }
}

/// True if anything is tracked.
#[inline]
pub(crate) fn is_in_use() -> bool {
    COUNT.load(Ordering::Relaxed) > 0
}

/// The calling thread has read `bytes` from a file.
#[inline]
pub(crate) fn count_read(bytes: u64) {
    look(|current| current.tracked.read.fetch_add(bytes, Ordering::Relaxed));
}

/// The calling thread has written `bytes` to a file.
#[inline]
pub(crate) fn count_written(bytes: u64) {
    look(|current| current.tracked.written.fetch_add(bytes, Ordering::Relaxed));
}

#[cfg(test)]
mod tests;
