//! The locks of the standard library without poisoning, and with condition variables that borrow the guard.
//!
//! Their whole state is in the lock. A library that keeps the waiting threads of the process in a table of its own, as
//! `parking_lot` does, would hand that table to a child process after a fork, whose threads are all but one gone: a
//! database that the child opens would then follow pointers to their stacks.

#![allow(clippy::disallowed_types, reason = "the locks that others are to use")]

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
use std::time::Duration;

pub use std::sync::{RwLockReadGuard, RwLockWriteGuard};

/// What a poisoned lock protects is used like any other.
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

    /// The value of a mutex that nobody else has.
    pub fn into_inner(self) -> T {
        unpoisoned(self.0.into_inner())
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until the mutex is unlocked, and locks it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(unpoisoned(self.0.lock())))
    }

    /// Locks the mutex if nobody else has.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        unpoisoned_try(self.0.try_lock()).map(|guard| MutexGuard(Some(guard)))
    }

    /// The value, which nobody else can lock.
    pub fn get_mut(&mut self) -> &mut T {
        unpoisoned(self.0.get_mut())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A locked mutex, which is unlocked when this is dropped.
#[must_use = "the mutex is unlocked at once"]
pub struct MutexGuard<'a, T: ?Sized>(
    /// `None` only while a condition variable waits, which borrows the guard.
    Option<std::sync::MutexGuard<'a, T>>,
);

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match &self.0 {
            Some(guard) => guard,
            None => unreachable!("a condition variable has the guard"),
        }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.0 {
            Some(guard) => guard,
            None => unreachable!("a condition variable has the guard"),
        }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A condition variable. Waits may end spuriously.
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

impl Condvar {
    /// Creates a condition variable that nobody waits for.
    pub const fn new() -> Condvar {
        Condvar(std::sync::Condvar::new())
    }

    /// Unlocks the mutex, waits until it is notified, and locks the mutex again.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.0.take();
        guard.0 = held.map(|held| unpoisoned(self.0.wait(held)));
    }

    /// Like [`Condvar::wait`], for at most `limit`. Returns true if that has passed.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, limit: Duration) -> bool {
        let Some(held) = guard.0.take() else {
            return false;
        };
        let (held, outcome) = unpoisoned(self.0.wait_timeout(held, limit));
        guard.0 = Some(held);
        outcome.timed_out()
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A lock that many readers or one writer hold.
#[derive(Default)]
pub struct RwLock<T: ?Sized>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// Creates an unlocked lock.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(std::sync::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until there is no writer, and locks it for reading. The caller must not hold it already.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        unpoisoned(self.0.read())
    }

    /// Waits until nobody holds it, and locks it for writing.
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
    fn a_panic_unlocks_and_leaves_the_value() {
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
    fn a_wait_unlocks_until_it_is_notified_or_its_limit_has_passed() {
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
        // Nobody notifies: a wait that ends spuriously is repeated.
        let mut set = mutex.lock();
        while !changed.wait_for(&mut set, Duration::from_millis(1)) {}
        assert!(*set);
    }
}
