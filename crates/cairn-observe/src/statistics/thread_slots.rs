//! Which threads have sums of their own.
//!
//! There are [`SLOTS`] of them in the process. A thread that has brought something in [`PATIENCE`] times
//! leases one, keeps it until it ends, and adds to the shards of that slot, whatever statistics they belong
//! to, without asking anybody: nobody else adds to them meanwhile. Who gets the slot next goes on where
//! the one before stopped. Short threads do not come so far, and while all slots are leased a thread asks
//! again each [`PATIENCE`] times; both add to the shards of cores, as does a thread that is ending and has
//! given its slot back.

use std::cell::Cell;

use cairn_platform::sync::OnceLock;

use super::atomics::{AtomicU64, Ordering};

/// How many threads can have sums of their own. Whoever reads looks at the shards of all slots, so more of
/// them make reading dearer.
pub(super) const SLOTS: usize = 48;

/// After how many updates a thread asks for a slot.
pub(super) const PATIENCE: usize = 1_000;

/// The state of a thread that has given its slot back, or cannot.
const ENDING: usize = usize::MAX;

thread_local! {
    /// The slot of the thread if it is below [`SLOTS`]; [`ENDING`]; or [`SLOTS`] and the number of
    /// updates until the thread asks for one. One word without a destructor: to look it up is an addition
    /// in a program, one call in a shared library, and allowed to a thread that is ending.
    static STATE: Cell<usize> = const { Cell::new(SLOTS + PATIENCE) };
    /// Touched by who leases a slot, and dropped when the thread ends.
    static LEASE: Lease = const { Lease };
}

struct Lease;

impl Drop for Lease {
    fn drop(&mut self) {
        let state = STATE.replace(ENDING);
        if state < SLOTS {
            leases().give_back(state);
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
    // Before a slot is taken: what is taken must be given back.
    if LEASE.try_with(|_| ()).is_err() {
        STATE.set(ENDING);
        return None;
    }
    let slot = leases().take();
    STATE.set(slot.unwrap_or(SLOTS + PATIENCE));
    slot
}

/// Those of the process.
fn leases() -> &'static Leases {
    static LEASES: OnceLock<Leases> = OnceLock::new();
    LEASES.get_or_init(Leases::new)
}

/// Which slots are leased: a bit for each.
struct Leases(AtomicU64);

impl Leases {
    fn new() -> Leases {
        const { assert!(SLOTS <= u64::BITS as usize) };
        Leases(AtomicU64::new(0))
    }

    /// A slot that nobody has.
    fn take(&self) -> Option<usize> {
        let free = |leased: u64| {
            let slot = leased.trailing_ones() as usize;
            (slot < SLOTS).then_some(slot)
        };
        // Acquire pairs with the release of whoever had the slot before: what he stored is loaded.
        // Changes of other bits in between are read-modify-writes and hand his release on.
        let leased = self
            .0
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |leased| {
                Some(leased | 1 << free(leased)?)
            });
        free(leased.ok()?)
    }

    fn give_back(&self, slot: usize) {
        self.0.fetch_and(!(1 << slot), Ordering::Release);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_one_owner_and_then_the_next() {
        let leases = Leases::new();
        let all: Vec<_> = (0..SLOTS).map(|_| leases.take()).collect();
        assert_eq!(all, (0..SLOTS).map(Some).collect::<Vec<_>>());
        assert_eq!(leases.take(), None);
        leases.give_back(7);
        leases.give_back(3);
        assert_eq!([leases.take(), leases.take()], [Some(3), Some(7)]);
        assert_eq!(leases.take(), None);
    }

    /// The slot that a thread gets that looks for one often enough.
    fn after_patience() -> Option<usize> {
        assert!((0..PATIENCE).all(|_| current().is_none()), "too early");
        let slot = current();
        assert_eq!(slot, current());
        slot
    }

    #[test]
    fn threads_that_end_give_their_slots_back() {
        // Three times as many as there are slots. Other tests hold some at the same time, never all.
        for _ in 0..3 * SLOTS {
            let slot = std::thread::scope(|scope| scope.spawn(after_patience).join());
            assert!(slot.unwrap().is_some());
        }
    }

    #[test]
    fn a_thread_that_is_ending_has_no_slot() {
        thread_local! {
            static LAST: Asks = const { Asks };
        }
        struct Asks;
        impl Drop for Asks {
            fn drop(&mut self) {
                ASKED
                    .set((0..3 * PATIENCE).find_map(|_| current()))
                    .unwrap();
            }
        }
        static ASKED: OnceLock<Option<usize>> = OnceLock::new();
        let thread = || {
            LAST.with(|_| ());
            assert!(after_patience().is_some());
            // The destructors of a thread do not run in an order that anybody promises: this is the
            // first one's part.
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

    /// Three threads that lease a slot, add to its sum, and give it back: no two have the same one at a
    /// time, and the next owner finds what the one before has added.
    #[test]
    fn an_owner_finds_what_the_one_before_added() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let leases = Arc::new(Leases::new());
            let sums: Arc<Vec<Sum>> = Arc::new((0..3).map(|_| Sum::new(0)).collect());
            let add = |leases: &Leases, sums: &[Sum]| {
                let slot = leases.take().unwrap();
                sums[slot].add(1);
                leases.give_back(slot);
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
