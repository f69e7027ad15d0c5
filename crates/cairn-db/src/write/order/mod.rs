//! The order in which writes become visible: that of their sequence numbers.
//!
//! A logged group inserts its entries while the next one is already being logged, so that groups may end
//! their insertions in any order. Each becomes visible when all earlier ones are. A thread that ends a group
//! early records that and waits; the thread that ends the missing group publishes them all, because the
//! waiting threads may not be running.
//!
//! Invariants:
//!
//! O1. The group of every number up to `visible` has ended its insertion.
//! O2. `visible` never decreases, and is always the last number of a group. It is advanced only by the thread
//! that ends the next group, or that holds `early` and finds the next group there.
//! O3. A group that has ended early is in `early` until it is published, by the thread that publishes the
//! previous group.
//! O4. A write-group leader that reads the last assigned number from `visible` has exclusive access to the
//! memtables.
//!
//! Cost without contention: a load, a swap and two loads.

#[cfg(all(test, loom))]
mod loom_tests;

#[cfg(not(loom))]
use cairn_platform::backoff;
#[cfg(not(loom))]
use cairn_platform::sync::{AtomicU64, Condvar, Mutex, Ordering};
use cairn_types::SequenceNumber;

#[cfg(loom)]
use super::loomed::{AtomicU64, Condvar, Mutex, Ordering, backoff};

/// The visible sequence number, and the threads that wait for it to advance.
#[derive(Default)]
pub(crate) struct Order {
    visible: AtomicU64,
    /// Groups that ended before an earlier one: the last number before each, and its last number.
    early: Mutex<Vec<(SequenceNumber, SequenceNumber)>>,
    /// The number of groups in `early`.
    early_count: AtomicU64,
    sleepers: AtomicU64,
    sleeping: Mutex<()>,
    woken: Condvar,
}

impl Order {
    /// Returns the last sequence number visible to reads.
    #[inline]
    pub(crate) fn visible(&self) -> SequenceNumber {
        // Acquire pairs with the swap that made it visible.
        SequenceNumber(self.visible.load(Ordering::Acquire))
    }

    /// Publishes everything up to `last`. No other thread is writing.
    pub(crate) fn jump(&self, last: SequenceNumber) {
        assert!(
            self.early_count.load(Ordering::SeqCst) == 0,
            "no insertion is in progress"
        );
        self.advance(last);
    }

    /// Publishes the group of the numbers after `before` up to `last`, which has ended, and waits until all
    /// earlier ones are published.
    #[inline]
    pub(crate) fn show(&self, before: SequenceNumber, last: SequenceNumber) {
        debug_assert!(before <= last, "a group ends behind its beginning");
        if before == last {
            // It took no number, and publishes nothing.
            self.wait_for(before);
        } else if self.visible() == before {
            self.advance(last);
        } else {
            self.show_later(before, last);
        }
    }

    #[cold]
    fn show_later(&self, before: SequenceNumber, last: SequenceNumber) {
        debug_assert!(
            self.visible() <= before,
            "a group that has not ended is not visible (O1)"
        );
        let mut early = self.early.lock();
        // SeqCst, as in `advance`: either the previous group is visible here, or this one is found there.
        self.early_count.fetch_add(1, Ordering::SeqCst);
        early.push((before, last));
        drop(early);
        self.show_early();
        self.wait_for(last);
    }

    /// Publishes the groups that ended early and whose predecessors are all visible.
    #[cold]
    fn show_early(&self) {
        let mut early = self.early.lock();
        let next = |early: &[(SequenceNumber, _)]| {
            let visible = SequenceNumber(self.visible.load(Ordering::SeqCst));
            early.iter().position(|(before, _)| *before == visible)
        };
        while let Some(at) = next(&early) {
            let (_, last) = early.swap_remove(at);
            let count = self.early_count.fetch_sub(1, Ordering::SeqCst);
            debug_assert!(count > 0, "groups that ended early are counted (O3)");
            debug_assert!(
                last.0 > self.visible.load(Ordering::Relaxed),
                "visible numbers ascend (O2)"
            );
            self.visible.store(last.0, Ordering::SeqCst);
        }
        drop(early);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.wake();
        }
    }

    /// Waits until everything up to `seq` is visible.
    pub(crate) fn wait_for(&self, seq: SequenceNumber) {
        let reached = || self.visible() >= seq;
        if backoff::spin_until(reached) || backoff::yield_until(reached) {
            return;
        }
        let mut sleeping = self.sleeping.lock();
        // SeqCst, as in `advance`: either the sleeper sees the new number, or the publishing thread sees the
        // sleeper.
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while self.visible.load(Ordering::SeqCst) < seq.0 {
            self.woken.wait(&mut sleeping);
        }
        let sleepers = self.sleepers.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(sleepers > 0, "a thread that wakes has slept");
    }

    #[inline]
    fn advance(&self, last: SequenceNumber) {
        debug_assert!(
            self.visible.load(Ordering::Relaxed) <= last.0,
            "visible numbers ascend (O2)"
        );
        // Release: a reader that sees the number sees the entries up to it, including those of the groups
        // that this thread has seen become visible.
        self.visible.store(last.0, Ordering::SeqCst);
        if self.early_count.load(Ordering::SeqCst) > 0 {
            self.show_early();
        } else if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        drop(self.sleeping.lock());
        self.woken.notify_all();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn groups_become_visible_in_their_order() {
        let order = Order::default();
        let next = AtomicU64::new(0);
        let seen = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (order, next, seen) = (&order, &next, &seen);
                scope.spawn(move || {
                    for round in 0..2000_u64 {
                        let numbers = (thread + round) % 4;
                        let before = next.fetch_add(numbers, Ordering::Relaxed);
                        if round % 512 == thread {
                            // Long enough for the others to fall asleep.
                            std::thread::park_timeout(std::time::Duration::from_micros(300));
                        }
                        let shown = seen.load(Ordering::Acquire);
                        let (before, last) =
                            (SequenceNumber(before), SequenceNumber(before + numbers));
                        order.show(before, last);
                        assert!(order.visible() >= last);
                        assert!(order.visible().0 >= shown, "visible writes stay visible");
                        seen.fetch_max(order.visible().0, Ordering::AcqRel);
                    }
                });
            }
        });
        assert_eq!(order.visible().0, next.into_inner());
    }
}
