//! The assignment of statistics shards to threads.
//!
//! The process has [`SLOTS`] slots. A thread leases one after [`UPDATES_BEFORE_LEASE`] updates and
//! keeps it until it exits. As their only writer, it updates the shards of that slot, in any
//! [`Statistics`](super::Statistics), without synchronisation. The next owner continues with the
//! same shards. Short-lived threads never lease a slot, and if all slots are leased, a thread
//! retries after the same number of updates. Threads without a slot, including an exiting thread
//! that has released its own, use the shards of cores.

use std::cell::Cell;

use cairn_platform::sync::OnceLock;

use super::atomics::{AtomicU64, Ordering};

/// The number of slots. Readers visit the shards of all slots, so a larger number makes reads more expensive.
pub(super) const SLOTS: usize = 48;

/// The number of updates after which a thread tries to lease a slot.
pub(super) const UPDATES_BEFORE_LEASE: usize = 1_000;

/// The state of a thread that has released its slot, or cannot lease one.
const ENDING: usize = usize::MAX;

thread_local! {
    /// The slot of the thread if less than [`SLOTS`]; [`ENDING`]; or [`SLOTS`] plus the number of
    /// updates until it tries to lease one. A single word without a destructor: cheap to access,
    /// and still accessible when the thread exits.
    static STATE: Cell<usize> = const { Cell::new(SLOTS + UPDATES_BEFORE_LEASE) };
    /// Initialised by the lease of a slot, and dropped when the thread exits.
    static LEASE: Lease = const { Lease };
}

struct Lease;

impl Drop for Lease {
    fn drop(&mut self) {
        let state = STATE.replace(ENDING);
        if state < SLOTS {
            leases().release(state);
        }
    }
}

/// The slot of the calling thread.
#[inline]
pub(super) fn current() -> Option<usize> {
    let state = STATE.get();
    match state < SLOTS {
        true => Some(state),
        false => without_slot(state),
    }
}

#[inline(never)]
fn without_slot(state: usize) -> Option<usize> {
    match state {
        SLOTS => lease(),
        ENDING => None,
        _ => {
            STATE.set(state - 1);
            None
        }
    }
}

#[cold]
fn lease() -> Option<usize> {
    // Comes before taking a slot, so that its release is guaranteed.
    if LEASE.try_with(|_| ()).is_err() {
        STATE.set(ENDING);
        return None;
    }
    let slot = leases().take();
    STATE.set(slot.unwrap_or(SLOTS + UPDATES_BEFORE_LEASE));
    slot
}

/// The leases of the process.
fn leases() -> &'static Leases {
    static LEASES: OnceLock<Leases> = OnceLock::new();
    LEASES.get_or_init(Leases::new)
}

/// The leased slots, as a bit mask.
struct Leases(AtomicU64);

impl Leases {
    fn new() -> Leases {
        const { assert!(SLOTS <= u64::BITS as usize) };
        Leases(AtomicU64::new(0))
    }

    /// Leases a free slot.
    fn take(&self) -> Option<usize> {
        let free = |leased: u64| {
            let slot = leased.trailing_ones() as usize;
            (slot < SLOTS).then_some(slot)
        };
        // Acquire pairs with the release of the previous owner: its stores are visible. Changes of
        // other bits in between are read-modify-writes, which continue the release sequence.
        let leased = self
            .0
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |leased| {
                Some(leased | 1 << free(leased)?)
            });
        free(leased.ok()?)
    }

    fn release(&self, slot: usize) {
        self.0.fetch_and(!(1 << slot), Ordering::Release);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn slots_have_one_owner_at_a_time() {
        let leases = Leases::new();
        let all: Vec<_> = (0..SLOTS).map(|_| leases.take()).collect();
        assert_eq!(all, (0..SLOTS).map(Some).collect::<Vec<_>>());
        assert_eq!(leases.take(), None);
        leases.release(7);
        leases.release(3);
        assert_eq!([leases.take(), leases.take()], [Some(3), Some(7)]);
        assert_eq!(leases.take(), None);
    }

    /// The slot that a thread gets after enough updates.
    fn after_updates() -> Option<usize> {
        assert!(
            (0..UPDATES_BEFORE_LEASE).all(|_| current().is_none()),
            "too early"
        );
        let slot = current();
        assert_eq!(slot, current());
        slot
    }

    #[test]
    fn exiting_threads_release_their_slots() {
        // Three times the number of slots. Other tests hold some at the same time, but not all.
        for _ in 0..3 * SLOTS {
            let slot = std::thread::scope(|scope| scope.spawn(after_updates).join());
            assert!(slot.unwrap().is_some());
        }
    }

    #[test]
    fn exiting_threads_have_no_slot() {
        thread_local! {
            static LAST: Asks = const { Asks };
        }
        struct Asks;
        impl Drop for Asks {
            fn drop(&mut self) {
                ASKED
                    .set((0..3 * UPDATES_BEFORE_LEASE).find_map(|_| current()))
                    .unwrap();
            }
        }
        static ASKED: OnceLock<Option<usize>> = OnceLock::new();
        let thread = || {
            LAST.with(|_| ());
            assert!(after_updates().is_some());
            // The order of thread-local destructors is unspecified. This makes the lease the first
            // to be dropped.
            drop(Lease);
        };
        std::thread::scope(|scope| scope.spawn(thread).join()).unwrap();
        assert_eq!(ASKED.get(), Some(&None));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::super::single_writer::Sum;
    use super::*;
    use loom::sync::Arc;

    /// Three threads lease a slot, add to its counter, and release it. No two hold the same slot at a time,
    /// and each owner sees the additions of the previous one.
    #[test]
    fn owners_see_the_additions_of_previous_ones() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let leases = Arc::new(Leases::new());
            let sums: Arc<Vec<Sum>> = Arc::new((0..3).map(|_| Sum::new(0)).collect());
            let add = |leases: &Leases, sums: &[Sum]| {
                let slot = leases.take().unwrap();
                sums[slot].add(1);
                leases.release(slot);
            };
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let (leases, sums) = (leases.clone(), sums.clone());
                    loom::thread::spawn(move || add(&leases, &sums))
                })
                .collect();
            add(&leases, &sums);
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(sums.iter().map(Sum::get).sum::<u64>(), 3);
        });
    }
}
