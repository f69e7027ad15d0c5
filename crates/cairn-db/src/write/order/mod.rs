//! The order in which writes become visible: that of their sequence numbers.
//!
//! A group that is logged inserts its entries while the next one is logged already, so that groups may
//! end their insertions in any order. Each becomes visible when all before it are. A thread that ends a group early
//! notes that and waits; the thread that ends the missing group shows them all, because
//! the waiting threads may not be running.
//!
//! Invariants:
//!
//! O1. The group of every number up to `visible` has ended its insertion.
//! O2. `visible` never goes back, and rests only at the last number of a group. Only the thread that ends the group that
//!     follows it, or holds `early` and finds that group there, moves it.
//! O3. A group that has ended is noted in `early` until it is shown; the thread that shows the one before it shows it too.
//! O4. A leader of the write queue that sees `visible` at the last number given out is alone with the memtables.
//!
//! Cost for a writer that is alone: a load, a swap and two loads.

#[cfg(all(test, loom))]
mod loom_tests;

#[cfg(not(loom))]
use cairn_platform::backoff;
#[cfg(not(loom))]
use cairn_platform::sync::{AtomicU64, Condvar, Mutex, Ordering};
use cairn_types::SequenceNumber;

#[cfg(loom)]
use super::loomed::{AtomicU64, Condvar, Mutex, Ordering, backoff};

/// The visible writes, and the threads that wait for more.
#[derive(Default)]
pub(crate) struct Order {
    visible: AtomicU64,
    /// Groups that ended before one before them: the last number before each, and its last.
    early: Mutex<Vec<(SequenceNumber, SequenceNumber)>>,
    /// The number of groups in `early`.
    early_count: AtomicU64,
    sleepers: AtomicU64,
    sleeping: Mutex<()>,
    woken: Condvar,
}

impl Order {
    /// The last sequence number that reads see.
    #[inline]
    pub(crate) fn visible(&self) -> SequenceNumber {
        // Acquire pairs with the swap that made it visible.
        SequenceNumber(self.visible.load(Ordering::Acquire))
    }

    /// Shows everything up to `last`. No other thread writes meanwhile.
    pub(crate) fn jump(&self, last: SequenceNumber) {
        assert!(
            self.early_count.load(Ordering::SeqCst) == 0,
            "no insertion is under way"
        );
        self.advance(last);
    }

    /// Shows the group of the numbers after `before` up to `last`, which has ended, and waits until all before
    /// it are shown.
    #[inline]
    pub(crate) fn show(&self, before: SequenceNumber, last: SequenceNumber) {
        debug_assert!(before <= last, "a group ends behind its beginning");
        if before == last {
            // It took no number, and shows nothing.
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
        // SeqCst, as in `advance`: either the one before is visible here or this one is seen there.
        self.early_count.fetch_add(1, Ordering::SeqCst);
        early.push((before, last));
        drop(early);
        self.show_early();
        self.wait_for(last);
    }

    /// Shows those that have ended early and that nothing is missing before any more.
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
        // SeqCst, as in `advance`: either the sleeper sees the new number, or the thread that shows it sees the sleeper.
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
        // Release: a reader that sees the number sees the entries up to it, those too of the groups
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
                        assert!(order.visible().0 >= shown, "what was seen stays seen");
                        seen.fetch_max(order.visible().0, Ordering::AcqRel);
                    }
                });
            }
        });
        assert_eq!(order.visible().0, next.into_inner());
    }
}
