//! The locks of the standard library without poisoning, and with condition variables that borrow the guard.
//!
//! Each lock contains its whole state. Locks that share a table of waiting threads, as those of `parking_lot` do, are not
//! safe after a fork: the child inherits the table without the threads, and locking in the child then follows pointers to
//! their former stacks.

#![allow(clippy::disallowed_types, reason = "this module wraps them")]

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
use std::time::Duration;

pub use std::sync::{RwLockReadGuard, RwLockWriteGuard};

/// Returns the guard or the value, and ignores poisoning.
fn unpoisoned<G>(result: LockResult<G>) -> G {
    result.unwrap_or_else(PoisonError::into_inner)
}

fn unpoisoned_try<G>(result: TryLockResult<G>) -> Option<G> {
    match result {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// A mutex.
#[derive(Default)]
pub struct Mutex<T: ?Sized>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Creates an unlocked mutex.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    /// Consumes the mutex and returns the value.
    pub fn into_inner(self) -> T {
        unpoisoned(self.0.into_inner())
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks the mutex. Blocks while another thread holds it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(unpoisoned(self.0.lock())))
    }

    /// Locks the mutex without blocking. Returns `None` if it is locked.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        unpoisoned_try(self.0.try_lock()).map(|guard| MutexGuard(Some(guard)))
    }

    /// Returns the value without locking: `&mut self` excludes other threads.
    pub fn get_mut(&mut self) -> &mut T {
        unpoisoned(self.0.get_mut())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The guard of a locked mutex. Dropping it unlocks the mutex.
#[must_use = "the mutex is unlocked at once"]
pub struct MutexGuard<'a, T: ?Sized>(
    /// `None` only during a wait for a condition variable.
    Option<std::sync::MutexGuard<'a, T>>,
);

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match &self.0 {
            Some(guard) => guard,
            None => unreachable!("the guard is borrowed by a wait"),
        }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.0 {
            Some(guard) => guard,
            None => unreachable!("the guard is borrowed by a wait"),
        }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A condition variable. Spurious wakeups are possible.
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

impl Condvar {
    /// Creates a condition variable.
    pub const fn new() -> Condvar {
        Condvar(std::sync::Condvar::new())
    }

    /// Unlocks the mutex, blocks until the next notification, and locks the mutex again.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.0.take();
        guard.0 = held.map(|held| unpoisoned(self.0.wait(held)));
    }

    /// Like [`Condvar::wait`], but blocks for at most `limit`. Returns true if the wait timed out.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, limit: Duration) -> bool {
        let Some(held) = guard.0.take() else {
            return false;
        };
        let (held, outcome) = unpoisoned(self.0.wait_timeout(held, limit));
        guard.0 = Some(held);
        outcome.timed_out()
    }

    /// Wakes one thread blocked in a wait.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all threads blocked in a wait.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A reader-writer lock.
#[derive(Default)]
pub struct RwLock<T: ?Sized>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// Creates an unlocked lock.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(std::sync::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Locks for reading. Blocks while there is a writer, and may deadlock if the calling thread already has the lock.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        unpoisoned(self.0.read())
    }

    /// Locks for writing. Blocks while there are readers or a writer.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        unpoisoned(self.0.write())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn locks_are_not_poisoned() {
        let mutex = Mutex::new(1);
        let lock = RwLock::new(1);
        let panics = || {
            *mutex.lock() += 1;
            *lock.write() += 1;
            let _locked = (mutex.lock(), lock.write());
            panic!("on purpose");
        };
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert_eq!(*mutex.try_lock().expect("it is unlocked"), 2);
        assert_eq!((*mutex.lock(), *lock.read()), (2, 2));
        assert_eq!(mutex.into_inner(), 2);
    }

    #[test]
    fn waits_unlock_and_end_by_notification_or_timeout() {
        let (mutex, changed) = (Mutex::new(false), Condvar::new());
        std::thread::scope(|scope| {
            let mut set = mutex.lock();
            assert!(mutex.try_lock().is_none());
            scope.spawn(|| {
                *mutex.lock() = true;
                changed.notify_one();
            });
            while !*set {
                changed.wait(&mut set);
            }
        });
        // Without a notification only a spurious wakeup ends a wait before the timeout.
        let mut set = mutex.lock();
        while !changed.wait_for(&mut set, Duration::from_millis(1)) {}
        assert!(*set);
    }
}
