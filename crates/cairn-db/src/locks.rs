//! Locks with ranks, so that the order in which they are taken is checked wherever tests run.
//!
//! A thread may hold several locks of a database only if it took them in the order of their [`Rank`]s. Where
//! assertions are on, a lock that is taken out of order panics, even if no other thread holds it; where they are
//! off, a [`Ranked`] is a plain mutex. Locks of different databases have nothing to do with each other: the code of a
//! program that runs under a lock of one (an info log, say) may use another.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use cairn_platform::sync::{Condvar, Mutex, MutexGuard};

/// The place of a lock in the order. A thread that holds one takes only those further down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// Held by the one thread that closes.
    Closing,
    /// A change of options.
    OptionsChange,
    /// The lead of the write queue, which is no mutex but is held like one.
    Lead,
    /// Changes of versions, one at a time.
    Manifest,
    /// The current log.
    Writer,
    /// An OPTIONS file that is written.
    OptionsFile,
    /// The state that changes when jobs start and end. Never held across a file operation.
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
    /// Locks of a database of their own.
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

    /// True if this thread holds the lock of `rank`. For assertions: always true where they are off.
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

    /// Notes that this thread holds a lock of `rank` until the result is dropped.
    ///
    /// # Panics
    ///
    /// Where assertions are on, if the thread holds a lock of that rank or a later one.
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

/// The note that a thread holds a lock.
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
        /// The locks that this thread holds: database and rank.
        static HELD: RefCell<Vec<(u64, Rank)>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn begin(database: u64, rank: Rank) {
        // A thread that ends has given its list up; its destructors go unchecked.
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            let mut of_database = held.iter().filter(|(other, _)| *other == database);
            let later = of_database.find(|(_, other)| *other >= rank);
            assert!(
                later.is_none(),
                "{rank:?} is taken while the thread holds {later:?}: the order of locks is that of `Rank`"
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

    /// Checks that a thread that waits for a condition under the lock of `rank` keeps no other one that the thread it waits
    /// for may need: of the locks after the lead it holds this one alone.
    pub(super) fn wait(database: u64, rank: Rank) {
        let _ = HELD.try_with(|held| {
            let held = held.borrow();
            let mut others = held.iter().filter(|lock| **lock != (database, rank));
            let kept = others.find(|(other, kept)| *other == database && *kept > Rank::Lead);
            debug_assert!(
                kept.is_none(),
                "a thread waits under {rank:?} and keeps {kept:?}"
            );
            debug_assert!(
                held.contains(&(database, rank)),
                "{rank:?} is held by the thread that waits under it"
            );
        });
    }
}

/// A mutex whose place in the order is checked.
pub(crate) struct Ranked<T> {
    locks: Locks,
    rank: Rank,
    mutex: Mutex<T>,
}

/// The right to use what a [`Ranked`] guards.
pub(crate) struct RankedGuard<'a, T> {
    guard: MutexGuard<'a, T>,
    _held: Held,
}

impl<T> Ranked<T> {
    /// Waits for the lock and takes it.
    #[inline]
    pub(crate) fn lock(&self) -> RankedGuard<'_, T> {
        // Checked first: a lock out of order may never come.
        let held = self.locks.hold(self.rank);
        RankedGuard {
            guard: self.mutex.lock(),
            _held: held,
        }
    }
}

impl<T> RankedGuard<'_, T> {
    /// Gives the lock back until `condition` is notified.
    pub(crate) fn wait(&mut self, condition: &Condvar) {
        self.check_wait();
        condition.wait(&mut self.guard);
    }

    /// Gives the lock back until `condition` is notified or `limit` is over.
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
    fn locks_in_order_are_taken_and_given_back_in_any() {
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
    fn a_lock_that_the_thread_holds_panics_and_does_not_hang() {
        let tree = Locks::new().mutex(Rank::Tree, ());
        let _once = tree.lock();
        let _twice = tree.lock();
    }
}
