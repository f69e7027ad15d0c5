//! Counters with a single writer at a time and concurrent readers, and the lock that protects them.

use super::atomics::{AtomicBool, AtomicU64, Ordering};

/// A try-lock for the counters next to it. No thread ever waits for it.
pub(super) struct TryLock(AtomicBool);

impl TryLock {
    pub(super) fn new() -> TryLock {
        TryLock(AtomicBool::new(false))
    }

    /// Tries to acquire the lock. Returns false if it is held.
    #[inline]
    pub(super) fn take(&self) -> bool {
        // Acquire pairs with the release of the previous owner: its stores are visible.
        !self.0.swap(true, Ordering::Acquire)
    }

    #[inline]
    pub(super) fn release(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A counter that only the owner of the shard writes.
pub(super) struct Sum(AtomicU64);

impl Sum {
    pub(super) fn new(value: u64) -> Sum {
        Sum(AtomicU64::new(value))
    }

    #[inline]
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn add(&self, count: u64) {
        self.set(self.get().wrapping_add(count));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// Three threads each add to the first of two shards that they can lock, or else to a counter behind a
    /// mutex. No addition is lost in any interleaving.
    #[test]
    fn no_addition_is_lost() {
        loom::model(|| {
            let shards: Arc<[(TryLock, Sum); 2]> =
                Arc::new([(TryLock::new(), Sum::new(0)), (TryLock::new(), Sum::new(0))]);
            let rest = Arc::new(loom::sync::Mutex::new(0));
            let add = |shards: &[(TryLock, Sum); 2], rest: &loom::sync::Mutex<u64>| {
                for (turn, sum) in shards {
                    if turn.take() {
                        sum.add(1);
                        turn.release();
                        return;
                    }
                }
                *rest.lock().unwrap() += 1;
            };
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let (shards, rest) = (shards.clone(), rest.clone());
                    loom::thread::spawn(move || add(&shards, &rest))
                })
                .collect();
            add(&shards, &rest);
            for thread in threads {
                thread.join().unwrap();
            }
            let sum: u64 = shards.iter().map(|(_, sum)| sum.get()).sum();
            assert_eq!(sum + *rest.lock().unwrap(), 3);
        });
    }
}
