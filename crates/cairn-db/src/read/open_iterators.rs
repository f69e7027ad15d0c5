//! The open iterators of a database: the age of their views, and the threads that opened them.
//!
//! An iterator keeps memtables and files for as long as it exists, so a forgotten one costs more than its
//! memory. Every iterator is listed when it is created. That costs a few stores to memory of the thread:
//! slots are allocated in slabs, and a thread uses only slots of slabs that it owns. Any thread may free a
//! slot. A slab changes its owner only when all of its slots are free, so that its owner opened all iterators
//! in it.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use cairn_observe::logger::thread_number;
use cairn_platform::sync::{AtomicU64, Mutex, OnceLock, Ordering};
use cairn_types::SequenceNumber;

/// The number of slots of a slab.
const SLOTS: usize = 16;
/// The maximum number of slabs of a database.
const SLABS: usize = 256;

/// The open iterators of a database.
pub(crate) struct OpenIterators {
    slabs: [OnceLock<Box<Slab>>; SLABS],
    pool: Mutex<Pool>,
    /// Open iterators without a slot, because all slots were in use.
    unlisted: AtomicU64,
}

/// The slabs without an owner.
#[derive(Default)]
struct Pool {
    /// The number of slabs allocated.
    made: usize,
    /// Slabs of threads that have ended.
    returned: Vec<usize>,
}

struct Slab {
    /// The thread that uses the slots.
    owner: Mutex<Opener>,
    slots: [Slot; SLOTS],
}

/// A thread that opened iterators or a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Opener {
    /// The name; empty if it has none.
    pub(crate) name: String,
    /// The number of the thread, as in the info log.
    pub(crate) number: u64,
}

impl Opener {
    /// Returns the calling thread.
    pub(crate) fn this() -> Opener {
        Opener {
            name: std::thread::current().name().unwrap_or_default().to_owned(),
            number: thread_number(),
        }
    }
}

/// One iterator, or none. A free slot is changed only by the owner of the slab, a used one only by its
/// iterator.
#[derive(Default)]
struct Slot {
    /// The time at which the iterator got its view, in nanoseconds of the database's clock; 0 if the slot is
    /// free. Written last, with release.
    since: AtomicU64,
    seq: AtomicU64,
    view: AtomicU64,
    family: AtomicU64,
}

/// The view that an iterator holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldView {
    /// The time at which it got the view, in nanoseconds of the database's clock.
    pub(crate) since: u64,
    /// The last sequence number visible to it.
    pub(crate) seq: SequenceNumber,
    /// The number of the view.
    pub(crate) view: u64,
    /// The id of the family.
    pub(crate) family: u32,
}

/// An open iterator.
#[derive(Clone, Debug)]
pub(crate) struct OpenIterator {
    pub(crate) held: HeldView,
    pub(crate) opener: Opener,
}

/// The slot of an iterator in the list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listed(usize);

/// The [`Listed`] of an iterator without a slot.
const UNLISTED: Listed = Listed(usize::MAX);

thread_local! {
    static OWNED: RefCell<Vec<Owned>> = const { RefCell::new(Vec::new()) };
}

/// The slabs of one database that the thread owns.
struct Owned {
    list: Weak<OpenIterators>,
    slabs: Vec<usize>,
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(list) = self.list.upgrade() {
            list.pool.lock().returned.append(&mut self.slabs);
        }
    }
}

impl Slot {
    /// Takes the slot, if it is free. Called by the owner of the slab.
    #[inline]
    fn take(&self, held: &HeldView) -> bool {
        // Acquire pairs with the release by which the slot was freed.
        let is_free = self.since.load(Ordering::Acquire) == 0;
        if is_free {
            self.set(held);
        }
        is_free
    }

    #[inline]
    fn set(&self, held: &HeldView) {
        self.seq.store(held.seq.0, Ordering::Relaxed);
        self.view.store(held.view, Ordering::Relaxed);
        self.family.store(held.family.into(), Ordering::Relaxed);
        self.since.store(held.since.max(1), Ordering::Release);
    }

    /// Returns the view of the iterator in the slot, if there is one. Its parts may belong to two views of
    /// one iterator that is refreshed concurrently.
    fn get(&self) -> Option<HeldView> {
        let since = self.since.load(Ordering::Acquire);
        (since > 0).then(|| HeldView {
            since,
            seq: SequenceNumber(self.seq.load(Ordering::Relaxed)),
            view: self.view.load(Ordering::Relaxed),
            family: u32::try_from(self.family.load(Ordering::Relaxed)).unwrap_or(0),
        })
    }
}

impl OpenIterators {
    /// Creates an empty list.
    pub(crate) fn new() -> Arc<OpenIterators> {
        Arc::new(OpenIterators {
            slabs: [const { OnceLock::new() }; SLABS],
            pool: Mutex::default(),
            unlisted: AtomicU64::new(0),
        })
    }

    /// Lists an iterator that the calling thread opened.
    #[inline]
    pub(crate) fn add(self: &Arc<Self>, held: &HeldView) -> Listed {
        let listed = OWNED.try_with(|owned| {
            let owned = owned.borrow();
            let mut of_this = owned.iter();
            let mine = of_this.find(|owned| owned.list.as_ptr() == Arc::as_ptr(self))?;
            let mut slabs = mine.slabs.iter();
            slabs.find_map(|&slab| self.take_slot(slab, held))
        });
        match listed {
            Ok(Some(listed)) => listed,
            Ok(None) => self.add_to_another_slab(held),
            // The thread exits.
            Err(_) => self.count_unlisted(),
        }
    }

    #[inline]
    fn take_slot(&self, slab: usize, held: &HeldView) -> Option<Listed> {
        let slots = &self.slabs[slab].get()?.slots;
        let slot = slots.iter().position(|slot| slot.take(held))?;
        Some(Listed(slab * SLOTS + slot))
    }

    #[cold]
    fn add_to_another_slab(self: &Arc<Self>, held: &HeldView) -> Listed {
        let Some(slab) = self.claim_slab() else {
            return self.count_unlisted();
        };
        let listed = self.take_slot(slab, held).unwrap_or(UNLISTED);
        let _kept = OWNED.try_with(|owned| {
            let mut owned = owned.borrow_mut();
            owned.retain(|owned| owned.list.strong_count() > 0);
            let of_this = |owned: &&mut Owned| owned.list.as_ptr() == Arc::as_ptr(self);
            match owned.iter_mut().find(of_this) {
                Some(mine) => mine.slabs.push(slab),
                None => owned.push(Owned {
                    list: Arc::downgrade(self),
                    slabs: vec![slab],
                }),
            }
        });
        listed
    }

    /// Assigns a slab of free slots to the calling thread.
    fn claim_slab(&self) -> Option<usize> {
        let mut pool = self.pool.lock();
        let is_free = |slab: usize| {
            let slab = self.slabs[slab].get();
            slab.is_some_and(|slab| slab.slots.iter().all(|slot| slot.get().is_none()))
        };
        let returned = pool.returned.iter().position(|&slab| is_free(slab));
        let slab = match returned {
            Some(at) => pool.returned.swap_remove(at),
            None if pool.made < SLABS => {
                pool.made += 1;
                pool.made - 1
            }
            None => return None,
        };
        let slot = self.slabs[slab].get_or_init(|| {
            Box::new(Slab {
                owner: Mutex::default(),
                slots: Default::default(),
            })
        });
        *slot.owner.lock() = Opener::this();
        Some(slab)
    }

    #[cold]
    fn count_unlisted(&self) -> Listed {
        self.unlisted.fetch_add(1, Ordering::Relaxed);
        UNLISTED
    }

    fn slot(&self, listed: Listed) -> Option<&Slot> {
        let slab = self.slabs.get(listed.0 / SLOTS)?.get()?;
        Some(&slab.slots[listed.0 % SLOTS])
    }

    /// Records that an iterator holds another view.
    pub(crate) fn renew(&self, listed: Listed, held: &HeldView) {
        if let Some(slot) = self.slot(listed) {
            slot.set(held);
        }
    }

    /// Removes an iterator.
    #[inline]
    pub(crate) fn remove(&self, listed: Listed) {
        match self.slot(listed) {
            // Release pairs with the acquire by which the owner of the slab takes the slot.
            Some(slot) => slot.since.store(0, Ordering::Release),
            None => {
                self.unlisted.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// The open iterators in the order in which they got their views, and the number of those that are not listed.
    pub(crate) fn list(&self) -> (Vec<OpenIterator>, u64) {
        let mut all = Vec::new();
        for slab in self.slabs.iter().map_while(OnceLock::get) {
            let slots = slab.slots.iter().filter_map(Slot::get);
            let held: Vec<HeldView> = slots.collect();
            if !held.is_empty() {
                let opener = slab.owner.lock().clone();
                all.extend(held.into_iter().map(|held| OpenIterator {
                    held,
                    opener: opener.clone(),
                }));
            }
        }
        all.sort_by_key(|open| open.held.since);
        (all, self.unlisted.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(since: u64) -> HeldView {
        HeldView {
            since,
            seq: SequenceNumber(since * 10),
            view: since * 100,
            family: 3,
        }
    }

    fn times(list: &OpenIterators) -> Vec<u64> {
        let (open, _) = list.list();
        open.iter().map(|open| open.held.since).collect()
    }

    #[test]
    fn the_oldest_iterators_are_first_and_have_the_thread_that_opened_them() {
        let list = OpenIterators::new();
        let first = list.add(&held(5));
        let named = std::thread::Builder::new().name("scanner".to_owned());
        let there = list.clone();
        let other = named.spawn(move || there.add(&held(2))).unwrap().join();
        let other = other.unwrap();
        let (open, unlisted) = list.list();
        assert_eq!((times(&list), unlisted), (vec![2, 5], 0));
        assert_eq!(open[0].opener.name, "scanner");
        assert_eq!(open[0].held, held(2));
        assert_eq!(open[1].opener, Opener::this());
        list.renew(first, &held(1));
        assert_eq!(times(&list), [1, 2]);
        list.remove(first);
        // It was opened by a thread that is gone: its slab is claimed once it is closed.
        assert_eq!(times(&list), [2]);
        list.remove(other);
        assert!(times(&list).is_empty());
    }

    #[test]
    fn slots_and_slabs_are_used_again() {
        let list = OpenIterators::new();
        for round in 0..3 {
            let open: Vec<Listed> = (1..=2 * SLOTS as u64 + 1)
                .map(|since| list.add(&held(since)))
                .collect();
            assert_eq!(times(&list).len(), 2 * SLOTS + 1);
            assert_eq!(list.pool.lock().made, 3, "round {round}");
            open.into_iter().for_each(|listed| list.remove(listed));
        }
        for _ in 0..10 {
            let there = list.clone();
            // Joined, a thread has returned its slabs; the end of a scope does not wait for that.
            let thread = std::thread::Builder::new().spawn(move || {
                let listed = there.add(&held(7));
                there.remove(listed);
            });
            thread.unwrap().join().unwrap();
        }
        assert_eq!(list.pool.lock().made, 4);
    }

    #[test]
    fn iterators_beyond_all_slots_are_counted() {
        let list = OpenIterators::new();
        let open: Vec<Listed> = (0..SLOTS * SLABS + 5).map(|_| list.add(&held(1))).collect();
        let (listed, unlisted) = list.list();
        assert_eq!((listed.len(), unlisted), (SLOTS * SLABS, 5));
        open.into_iter().for_each(|listed| list.remove(listed));
        let (listed, unlisted) = list.list();
        assert_eq!((listed.len(), unlisted), (0, 0));
    }
}
