//! Numbers that one thread at a time may change and any thread may read, and the right to change them.

use super::atomics::{AtomicBool, AtomicU64, Ordering};

/// The right to change the sums beside it. Nobody waits for it.
pub(super) struct Turn(AtomicBool);

impl Turn {
    pub(super) fn new() -> Turn {
        Turn(AtomicBool::new(false))
    }

    /// True if the caller has it now; it then gives it back.
    #[inline]
    pub(super) fn take(&self) -> bool {
        // Acquire pairs with the release of whoever had it before: what he stored is loaded.
        !self.0.swap(true, Ordering::Acquire)
    }

    #[inline]
    pub(super) fn give_back(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A number that only who has the turn, or the slot, changes.
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

    /// Three threads, each of which adds to the first of two shards whose turn it gets, or to a sum
    /// behind a lock: nothing is lost, however they interleave.
    #[test]
    fn no_addition_is_lost() {
        loom::model(|| {
            let shards: Arc<[(Turn, Sum); 2]> =
                Arc::new([(Turn::new(), Sum::new(0)), (Turn::new(), Sum::new(0))]);
            let rest = Arc::new(loom::sync::Mutex::new(0));
            let add = |shards: &[(Turn, Sum); 2], rest: &loom::sync::Mutex<u64>| {
                for (turn, sum) in shards {
                    if turn.take() {
                        sum.add(1);
                        turn.give_back();
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
