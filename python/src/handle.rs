//! Open databases, and the objects of Python that depend on them.
//!
//! An iterator, a snapshot or a family of Rust borrows its database. In Python, each holds a shared reference in a
//! *slot*, and the database knows its slots. Closing empties them all, after the calls in progress, and then closes
//! the database; a later use finds an empty slot and raises `Closed`.
//!
//! A thread waits for a lock only while it is detached from the interpreter. A callback of Python may thus run while
//! its caller holds a lock.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use cairn::{Db, Error, OptimisticTransactionDb, Result, TransactionDb, WriteBatch, WriteOptions};
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use parking_lot::{MappedRecursiveRwLockReadGuard, RecursiveRwLock, RecursiveRwLockReadGuard};
use pyo3::prelude::*;

use crate::errors::{busy, closed, forked, raise};

/// The number of forks between the first process and this one.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Called in each forked child.
pub fn count_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

thread_local! {
    /// The number of callbacks of Python in which the thread is.
    static CALLBACKS: Cell<usize> = const { Cell::new(0) };
}

/// Calls `work`, a callback of Python.
pub fn in_callback<T>(work: impl FnOnce() -> T) -> T {
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            CALLBACKS.set(CALLBACKS.get() - 1);
        }
    }
    CALLBACKS.set(CALLBACKS.get() + 1);
    let _end = End;
    work()
}

fn is_in_callback() -> bool {
    CALLBACKS.get() > 0
}

/// A database in one of its three forms.
pub enum Engine {
    Plain(Db),
    Locking(TransactionDb),
    Optimistic(OptimisticTransactionDb),
}

impl Engine {
    pub fn db(&self) -> &Db {
        match self {
            Engine::Plain(db) => db,
            Engine::Locking(db) => db.db(),
            Engine::Optimistic(db) => db.db(),
        }
    }

    /// Writes `batch`. A database with transactions takes its locks.
    pub fn write(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        match self {
            Engine::Plain(db) => db.write_with(batch, options),
            Engine::Locking(db) => db.write(batch, options),
            Engine::Optimistic(db) => db.write(batch, options),
        }
    }

    fn close(self) -> Result<()> {
        match self {
            Engine::Plain(db) => db.close(),
            Engine::Locking(db) => db.close(),
            Engine::Optimistic(db) => db.close(),
        }
    }
}

/// An object that is released when the database is closed.
pub trait Dependent: Send + Sync {
    /// Releases the object, or returns false if a call uses it.
    fn try_release(self: Arc<Self>) -> bool;
}

/// A value that many threads read at a time.
///
/// A thread may read it in a callback of a read, so the lock prefers readers; `is_closing` keeps them from delaying the
/// thread that empties it.
pub struct Slot<T> {
    value: RecursiveRwLock<Option<T>>,
    is_closing: AtomicBool,
    born: u64,
}

/// A guard that keeps a value in its slot.
pub type Reading<'s, T> = MappedRecursiveRwLockReadGuard<'s, T>;

/// A value that one thread uses at a time.
pub struct Exclusive<T> {
    value: Mutex<Option<T>>,
    born: u64,
}

fn check_process(born: u64) -> PyResult<()> {
    match born == FORKS.load(Ordering::Relaxed) {
        true => Ok(()),
        false => Err(forked()),
    }
}

/// The message for a callback that would wait for itself.
/// The pause before the next attempt to release objects in use.
const RELEASE_RETRY: Duration = Duration::from_millis(1);

const MAY_WAIT_FOR_ITSELF: &str = "a callback uses an object that may be waiting for it";

/// Fails if the thread, which is in a callback, would wait for itself.
pub fn check_wait() -> PyResult<()> {
    match is_in_callback() {
        false => Ok(()),
        true => Err(busy(MAY_WAIT_FOR_ITSELF)),
    }
}

impl<T> Slot<T> {
    pub fn new(value: T) -> Slot<T> {
        Slot {
            value: RecursiveRwLock::new(Some(value)),
            is_closing: AtomicBool::new(false),
            born: FORKS.load(Ordering::Relaxed),
        }
    }

    /// The value, which stays while the guard lives.
    #[inline]
    pub fn read(&self) -> PyResult<Reading<'_, T>> {
        check_process(self.born)?;
        // A writer has set `is_closing` before it takes the lock.
        match self.value.try_read() {
            Some(guard) if !self.is_closing.load(Ordering::Relaxed) => {
                RecursiveRwLockReadGuard::try_map(guard, Option::as_ref).map_err(|_| closed())
            }
            _ => Err(closed()),
        }
    }

    fn take(&self) -> Option<T> {
        self.is_closing.store(true, Ordering::Relaxed);
        self.value.write().take()
    }

    /// Empties the slot.
    pub fn clear(&self, py: Python<'_>) -> PyResult<()>
    where
        T: Send + Sync,
    {
        check_process(self.born)?;
        check_wait()?;
        py.detach(|| drop(self.take()));
        Ok(())
    }
}

impl<T: Send + Sync> Dependent for Slot<T> {
    fn try_release(self: Arc<Self>) -> bool {
        self.is_closing.store(true, Ordering::Relaxed);
        // The value is dropped without the lock.
        let value = self.value.try_write().map(|mut value| value.take());
        value.is_some()
    }
}

impl<T> Exclusive<T> {
    pub fn new(value: T) -> Exclusive<T> {
        Exclusive {
            value: Mutex::new(Some(value)),
            born: FORKS.load(Ordering::Relaxed),
        }
    }

    /// The value, for the lifetime of the guard.
    #[inline]
    pub fn lock(&self, py: Python<'_>) -> PyResult<MappedMutexGuard<'_, T>>
    where
        T: Send,
    {
        check_process(self.born)?;
        loop {
            if let Some(guard) = self.value.try_lock() {
                return MutexGuard::try_map(guard, Option::as_mut).map_err(|_| closed());
            }
            check_wait()?;
            py.detach(|| drop(self.value.lock()));
        }
    }

    /// [`Exclusive::lock`] of a thread that is detached; `None` if the slot is empty.
    pub fn lock_detached(&self) -> Result<Option<MappedMutexGuard<'_, T>>> {
        let guard = match self.value.try_lock() {
            Some(guard) => guard,
            None if is_in_callback() => return Err(Error::busy(MAY_WAIT_FOR_ITSELF)),
            None => self.value.lock(),
        };
        Ok(MutexGuard::try_map(guard, Option::as_mut).ok())
    }

    /// [`Exclusive::lock_detached`] of a future, which does not wait: it is polled again.
    pub fn poll_lock(&self, context: &Context<'_>) -> Poll<Option<MappedMutexGuard<'_, T>>> {
        match self.value.try_lock() {
            Some(guard) => Poll::Ready(MutexGuard::try_map(guard, Option::as_mut).ok()),
            None => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    /// Empties the slot.
    pub fn clear(&self, py: Python<'_>) -> PyResult<()>
    where
        T: Send,
    {
        check_process(self.born)?;
        if self.value.try_lock().is_none() {
            check_wait()?;
        }
        py.detach(|| drop(self.value.lock().take()));
        Ok(())
    }
}

impl<T: Send> Dependent for Exclusive<T> {
    fn try_release(self: Arc<Self>) -> bool {
        let value = self.value.try_lock().map(|mut value| value.take());
        value.is_some()
    }
}

/// In a forked child, the database and what depends on it are left alone: the threads that they would wait for are
/// those of the parent.
fn leave_if_forked<T>(value: Option<T>, born: u64) {
    if born != FORKS.load(Ordering::Relaxed) {
        std::mem::forget(value);
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        leave_if_forked(self.value.get_mut().take(), self.born);
    }
}

impl<T> Drop for Exclusive<T> {
    fn drop(&mut self) {
        leave_if_forked(self.value.get_mut().take(), self.born);
    }
}

/// A database that is open, or was.
pub struct Shared {
    pub path: PathBuf,
    engine: Slot<Arc<Engine>>,
    dependents: Mutex<Dependents>,
}

#[derive(Default)]
struct Dependents {
    known: Vec<Weak<dyn Dependent>>,
    /// The length at which dead entries are removed.
    limit: usize,
}

impl Dependents {
    fn add(&mut self, dependent: Weak<dyn Dependent>) {
        if self.known.len() >= self.limit.max(64) {
            self.known.retain(|known| known.strong_count() > 0);
            self.limit = self.known.len() * 2;
        }
        self.known.push(dependent);
    }
}

/// The databases of the process that may be open.
static OPEN: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

impl Shared {
    pub fn new(engine: Engine) -> Arc<Shared> {
        let shared = Arc::new(Shared {
            path: engine.db().path().to_owned(),
            engine: Slot::new(Arc::new(engine)),
            dependents: Mutex::default(),
        });
        let mut open = OPEN.lock();
        open.retain(|known| known.strong_count() > 0);
        open.push(Arc::downgrade(&shared));
        shared
    }

    /// The database, which stays open while the guard lives.
    pub fn engine(&self) -> PyResult<Reading<'_, Arc<Engine>>> {
        self.engine.read()
    }

    /// Creates an object that depends on the database.
    pub fn depend<D: Dependent + 'static>(
        &self,
        py: Python<'_>,
        make: impl FnOnce(&Arc<Engine>) -> Result<D> + Send,
    ) -> PyResult<Arc<D>> {
        let engine = self.engine()?;
        let engine: &Arc<Engine> = &engine;
        let made = py.detach(|| make(engine));
        let made = Arc::new(made.map_err(|error| raise(py, error))?);
        self.register(&made);
        Ok(made)
    }

    /// Makes closing release `dependent`, whose creator has the database open.
    pub fn register<D: Dependent + 'static>(&self, dependent: &Arc<D>) {
        let weak: Weak<D> = Arc::downgrade(dependent);
        self.dependents.lock().add(weak);
    }

    pub fn is_open(&self) -> bool {
        self.engine.read().is_ok()
    }

    /// Closes the database unless it is closed.
    pub fn close(&self, py: Python<'_>) -> PyResult<()> {
        check_process(self.engine.born)?;
        if is_in_callback() {
            return Err(busy("a callback cannot close a database"));
        }
        let closed = py.detach(|| self.close_detached());
        closed.map_err(|error| raise(py, error))
    }

    fn close_detached(&self) -> Result<()> {
        let Some(engine) = self.engine.take() else {
            return Ok(());
        };
        let dependents = std::mem::take(&mut *self.dependents.lock());
        let mut busy: Vec<_> = dependents.known.iter().filter_map(Weak::upgrade).collect();
        loop {
            // A call in progress may wait for the lock of a transaction; releasing that transaction ends the call.
            busy.retain(|dependent| !dependent.clone().try_release());
            if busy.is_empty() {
                break;
            }
            #[expect(clippy::disallowed_methods, reason = "Python has no simulated clock")]
            std::thread::sleep(RELEASE_RETRY);
        }
        match Arc::try_unwrap(engine) {
            Ok(engine) => engine.close(),
            // Closed by the last reference, which a task has that is being dropped.
            Err(engine) => engine.db().sync_wal(),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The last object of Python is gone. Closing waits for background work, which may call Python.
        if check_process(self.engine.born).is_ok() {
            let close = || self.close_detached();
            let _ = match Python::try_attach(|py| py.detach(close)) {
                Some(done) => done,
                None => self.close_detached(),
            };
        }
    }
}

/// Closes every database of the process, at its exit.
pub fn close_all(py: Python<'_>) -> PyResult<()> {
    let open = std::mem::take(&mut *OPEN.lock());
    let mut outcome = Ok(());
    for shared in open.iter().filter_map(Weak::upgrade) {
        if check_process(shared.engine.born).is_ok() {
            outcome = outcome.and(shared.close(py));
        }
    }
    outcome
}
