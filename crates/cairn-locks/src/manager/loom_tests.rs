//! The lock manager under loom: all interleavings of two transactions, and those of three with up to two preemptions. What
//! an exclusive lock guards is seen by its next holder, no wake-up is lost, every deadlock is found, and no lock remains.

use std::sync::Arc;
use std::time::Duration;

use cairn_types::KeyOrder;
use loom::sync::atomic::AtomicUsize;
use loom::thread;

use super::explored::{key, lock, request};
use super::*;

/// A time that stands still, so that an interleaving is the same whenever it is repeated.
struct Still;

impl Clock for Still {
    fn wall_micros(&self) -> u64 {
        0
    }
    fn monotonic_nanos(&self) -> u64 {
        0
    }
    fn sleep(&self, _: Duration) {}
}

/// What the locks guard. Its accesses order nothing themselves.
struct Guarded(AtomicUsize);

impl Guarded {
    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn increment(&self) {
        self.0.store(self.get() + 1, Ordering::Relaxed);
    }
}

/// Runs `work` as transactions 1 to `count`, with a number of preemptions. It returns the number of its increments.
fn explore_with(
    count: u64,
    preemptions: Option<usize>,
    work: impl Fn(&LockManager, &Guarded, u64) -> usize + Send + Sync + Copy + 'static,
) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions;
    model.check(move || {
        let locks = Arc::new(LockManager::new(1, None, 5, Arc::new(Still)));
        let guarded = Arc::new(Guarded(AtomicUsize::new(0)));
        let spawn = |id| {
            let (locks, guarded) = (locks.clone(), guarded.clone());
            thread::spawn(move || work(&locks, &guarded, id))
        };
        let others: Vec<_> = (2..=count).map(spawn).collect();
        let mut increments = work(&locks, &guarded, 1);
        for other in others {
            increments += other.join().expect("no panic");
        }
        assert_eq!(guarded.get(), increments);
        assert!(locks.is_idle());
    });
}

/// All interleavings of two transactions.
fn explore(work: impl Fn(&LockManager, &Guarded, u64) -> usize + Send + Sync + Copy + 'static) {
    explore_with(2, None, work);
}

#[test]
fn loom_an_exclusive_lock_is_handed_on() {
    explore(|locks, guarded, id| {
        assert!(lock(locks, id, 0, true));
        guarded.increment();
        locks.unlock(&key(0), id);
        1
    });
}

#[test]
fn loom_three_transactions_take_turns() {
    explore_with(3, Some(2), |locks, guarded, id| {
        let exclusive = id != 3;
        assert!(lock(locks, id, 0, exclusive));
        let before = guarded.get();
        if exclusive {
            guarded.increment();
        }
        assert_eq!(guarded.get(), before + usize::from(exclusive));
        locks.unlock(&key(0), id);
        usize::from(exclusive)
    });
}

#[test]
fn loom_locks_in_opposite_orders() {
    explore(|locks, guarded, id| {
        let (first, second) = if id == 1 { (0, 1) } else { (1, 0) };
        let mut increments = 0;
        assert!(lock(locks, id, first, true));
        if lock(locks, id, second, true) {
            guarded.increment();
            increments += 1;
            locks.unlock(&key(second), id);
        }
        locks.unlock(&key(first), id);
        increments
    });
}

#[test]
fn loom_upgrades() {
    explore(|locks, guarded, id| {
        let mut increments = 0;
        assert!(lock(locks, id, 0, false));
        let before = guarded.get();
        if lock(locks, id, 0, true) {
            assert_eq!(guarded.get(), before, "it was shared all the time");
            guarded.increment();
            increments += 1;
            locks.downgrade(&key(0), id);
        }
        locks.unlock(&key(0), id);
        increments
    });
}

#[test]
fn loom_a_range_and_a_key_in_it() {
    explore(|locks, guarded, id| {
        if id == 1 {
            assert!(lock(locks, id, 5, true));
            guarded.increment();
            locks.unlock(&key(5), id);
            return 1;
        }
        let ends = (Endpoint::at(&[1]), Endpoint::at(&[9]));
        let owner = Owner::new(id, 0);
        let request = request(&owner, true);
        let range = locks.lock_range(0, &KeyOrder::Bytewise, ends, &request);
        let range = range.expect("there is no deadlock");
        guarded.increment();
        locks.unlock_range(&range);
        1
    });
}
