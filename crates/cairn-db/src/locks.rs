//! Locks with ranks, whose order is checked whenever tests run.
//!
//! A thread may hold several locks of a database only if it acquired them in the order of their [`Rank`]s.
//! With assertions enabled, acquiring a lock out of order panics, even without contention; otherwise a
//! [`Ranked`] is a plain mutex. Locks of different databases are independent: code of a program that runs
//! under a lock of one (an info log, say) may use another.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use cairn_platform::sync::{Condvar, Mutex, MutexGuard};

/// The rank of a lock. A thread that holds a lock may only acquire those of later ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// Held by the thread that closes the database.
    Closing,
    /// A change of options.
    OptionsChange,
    /// The lead of the write queue, which is not a mutex but acts as one.
    Lead,
    /// Changes of versions, which are serialized.
    Manifest,
    /// The current log.
    Writer,
    /// Writing of an OPTIONS file.
    OptionsFile,
    /// The state that changes when jobs start and end. Never held during a file operation.
    Tree,
    /// The list of snapshots.
    Snapshots,
    /// The state of background errors.
    Errors,
}

/// The locks of one database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Locks {
    #[cfg(debug_assertions)]
    database: u64,
}

impl Locks {
    /// Creates the locks of one database.
    pub(crate) fn new() -> Locks {
        #[cfg(debug_assertions)]
        {
            use cairn_platform::sync::{AtomicU64, Ordering};
            static NEXT: AtomicU64 = AtomicU64::new(0);
            Locks {
                database: NEXT.fetch_add(1, Ordering::Relaxed),
            }
        }
        #[cfg(not(debug_assertions))]
        Locks {}
    }

    /// A mutex with the given rank.
    pub(crate) fn mutex<T>(self, rank: Rank, value: T) -> Ranked<T> {
        Ranked {
            locks: self,
            rank,
            mutex: Mutex::new(value),
        }
    }

    /// True if this thread holds the lock of `rank`. For assertions: always true if they are disabled.
    #[inline]
    pub(crate) fn is_held(self, rank: Rank) -> bool {
        #[cfg(debug_assertions)]
        return checks::is_held(self.database, rank);
        #[cfg(not(debug_assertions))]
        {
            let _ = rank;
            true
        }
    }

    /// Records that this thread holds a lock of `rank` until the result is dropped.
    ///
    /// # Panics
    ///
    /// With assertions enabled, if the thread holds a lock of that rank or a later one.
    #[inline]
    pub(crate) fn hold(self, rank: Rank) -> Held {
        #[cfg(debug_assertions)]
        {
            checks::begin(self.database, rank);
            Held {
                database: self.database,
                rank,
                _of_this_thread: std::marker::PhantomData,
            }
        }
        #[cfg(not(debug_assertions))]
        {
            let _ = rank;
            Held {}
        }
    }
}

/// The record that a thread holds a lock.
pub(crate) struct Held {
    #[cfg(debug_assertions)]
    database: u64,
    #[cfg(debug_assertions)]
    rank: Rank,
    #[cfg(debug_assertions)]
    _of_this_thread: std::marker::PhantomData<*const ()>,
}

#[cfg(debug_assertions)]
impl Drop for Held {
    fn drop(&mut self) {
        checks::end(self.database, self.rank);
    }
}

#[cfg(debug_assertions)]
mod checks {
    use std::cell::RefCell;

    use super::Rank;

    thread_local! {
        /// The locks held by this thread: database and rank.
        static HELD: RefCell<Vec<(u64, Rank)>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn begin(database: u64, rank: Rank) {
        // The list of a thread that is exiting is gone; its destructors are not checked.
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            let mut of_database = held.iter().filter(|(other, _)| *other == database);
            let later = of_database.find(|(_, other)| *other >= rank);
            assert!(
                later.is_none(),
                "{rank:?} is acquired while the thread holds {later:?}: the order of locks is that of `Rank`"
            );
            held.push((database, rank));
        });
    }

    pub(super) fn end(database: u64, rank: Rank) {
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            let at = held.iter().rposition(|lock| *lock == (database, rank));
            debug_assert!(
                at.is_some() || std::thread::panicking(),
                "{rank:?} is released by a thread that does not hold it"
            );
            if let Some(at) = at {
                held.swap_remove(at);
            }
        });
    }

    pub(super) fn is_held(database: u64, rank: Rank) -> bool {
        let held = HELD.try_with(|held| held.borrow().contains(&(database, rank)));
        held.unwrap_or(true)
    }

    /// Checks that a thread that waits for a condition under the lock of `rank` holds no other lock that the
    /// notifying thread may need: after the lead, this one must be the only one.
    pub(super) fn wait(database: u64, rank: Rank) {
        let _ = HELD.try_with(|held| {
            let held = held.borrow();
            let mut others = held.iter().filter(|lock| **lock != (database, rank));
            let kept = others.find(|(other, kept)| *other == database && *kept > Rank::Lead);
            debug_assert!(
                kept.is_none(),
                "a thread waits under {rank:?} and holds {kept:?}"
            );
            debug_assert!(
                held.contains(&(database, rank)),
                "{rank:?} is held by the thread that waits under it"
            );
        });
    }
}

/// A mutex with a checked rank.
pub(crate) struct Ranked<T> {
    locks: Locks,
    rank: Rank,
    mutex: Mutex<T>,
}

/// A guard of a [`Ranked`].
pub(crate) struct RankedGuard<'a, T> {
    guard: MutexGuard<'a, T>,
    _held: Held,
}

impl<T> Ranked<T> {
    /// Acquires the lock, waiting if necessary.
    #[inline]
    pub(crate) fn lock(&self) -> RankedGuard<'_, T> {
        // Checked first: acquiring a lock out of order may deadlock.
        let held = self.locks.hold(self.rank);
        RankedGuard {
            guard: self.mutex.lock(),
            _held: held,
        }
    }
}

impl<T> RankedGuard<'_, T> {
    /// Releases the lock until `condition` is notified.
    pub(crate) fn wait(&mut self, condition: &Condvar) {
        self.check_wait();
        condition.wait(&mut self.guard);
    }

    /// Releases the lock until `condition` is notified or `limit` has elapsed.
    pub(crate) fn wait_for(&mut self, condition: &Condvar, limit: Duration) {
        self.check_wait();
        condition.wait_for(&mut self.guard, limit);
    }

    fn check_wait(&self) {
        #[cfg(debug_assertions)]
        checks::wait(self._held.database, self._held.rank);
    }
}

impl<T> Deref for RankedGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for RankedGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_acquired_in_order_and_released_in_any_order() {
        let locks = Locks::new();
        let writer = locks.mutex(Rank::Writer, 1);
        let tree = locks.mutex(Rank::Tree, 2);
        for _ in 0..2 {
            let first = writer.lock();
            let second = tree.lock();
            assert_eq!(*first + *second, 3);
            drop(first);
            drop(second);
        }
        let other = Locks::new().mutex(Rank::Writer, 4);
        let held = tree.lock();
        assert_eq!(*other.lock() + *held, 6);
    }

    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "order of locks"))]
    fn a_lock_out_of_order_panics() {
        let locks = Locks::new();
        let (writer, tree) = (locks.mutex(Rank::Writer, ()), locks.mutex(Rank::Tree, ()));
        let _second = tree.lock();
        let _first = writer.lock();
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "order of locks")]
    fn reacquiring_a_lock_panics_instead_of_deadlocking() {
        let tree = Locks::new().mutex(Rank::Tree, ());
        let _once = tree.lock();
        let _twice = tree.lock();
    }
}
