//! Insertions that a lone writer puts off until there are several, so that the searches for their places
//! wait for memory together.
//!
//! What is put off is complete and lies in the arena, but nothing leads to it: whoever reads links it in
//! first, and the writer does when there are [`INSERT_BATCH`]. So no reader sees less than before. Reads that
//! come again and again would find something to link each time, and writers would pay for a lock and a
//! flag besides; so for a while after a read nothing is put off. Nor is what goes right behind the last
//! insertion, or into a list so small that the processor's cache holds it.

use std::cmp::Ordering as Order;
use std::ptr::NonNull;

use super::atomic::{AtomicBool, AtomicUsize, Mutex, Ordering};
use super::batch_insert::{INSERT_BATCH, Search};
use super::comparator_guard::{assert_not_held, holding};
use super::node::{Node, Target};
use super::{InsertHint, SkipList};

/// Entries of a list from which on searches in it wait for memory. Builds with assertions put off as much
/// as they can, so that whatever tests a database tests this.
const DEFER_MIN_ENTRIES: usize = if cfg!(debug_assertions) { 2 } else { 4096 };

/// Insertions after a read that are not put off.
const LINKED_AFTER_READ: usize = if cfg!(debug_assertions) { 3 } else { 256 };

/// The insertions that are put off.
pub(super) struct Deferred {
    state: Mutex<State>,
    /// True if there are any.
    pub(super) waiting: AtomicBool,
    /// So many are not put off.
    linked_left: AtomicUsize,
}

struct State {
    /// Nodes of the list that this is in (N1), each with its height.
    nodes: [Option<(NonNull<Node>, usize)>; INSERT_BATCH],
    len: usize,
    hint: InsertHint,
}

impl Default for Deferred {
    fn default() -> Deferred {
        Deferred {
            state: Mutex::new(State {
                nodes: [None; INSERT_BATCH],
                len: 0,
                hint: InsertHint::default(),
            }),
            waiting: AtomicBool::new(false),
            linked_left: AtomicUsize::new(0),
        }
    }
}

impl SkipList {
    /// Inserts an entry whose internal key is not here, maybe later than now: but before anybody reads.
    pub(crate) fn insert_deferred(&self, user: &[u8], packed: u64, value: &[u8]) {
        let lone = match self.unsorted {
            None => self.deferred.state.try_lock(),
            Some(_) => None,
        };
        let Some(mut state) = lone else {
            self.insert(user, packed, value, &mut InsertHint::default());
            return;
        };
        holding(&self.order, &self.deferred, || {
            self.insert_or_defer(&mut state, user, packed, value);
        });
    }

    /// [`SkipList::insert_deferred`] by the thread that has the lock.
    #[inline(always)]
    fn insert_or_defer(&self, state: &mut State, user: &[u8], packed: u64, value: &[u8]) {
        if state.len == INSERT_BATCH {
            // The comparator panicked when these were to be linked in.
            self.insert(user, packed, value, &mut InsertHint::default());
            return;
        }
        let target = Target::new(&self.order, user, packed);
        let height = self.new_height();
        let node = Node::create(&self.arena, height, &target, value);
        if state.len == 0 && (self.links_immediately() || self.appends_at(&target, &state.hint)) {
            self.place(node, height, &target, &mut state.hint);
            return;
        }
        let at = state.len;
        state.nodes[at] = Some((node, height));
        state.len += 1;
        if state.len == INSERT_BATCH {
            self.link_deferred(state);
        } else if at == 0 {
            // Release pairs with the acquire in `link_pending`. That the reader of a published sequence number
            // sees it follows from the publication.
            self.deferred.waiting.store(true, Ordering::Release);
        }
    }

    /// True if nothing is put off for now.
    #[inline]
    fn links_immediately(&self) -> bool {
        // Relaxed: a number that orders nothing else, here and where it is set.
        let left = self.deferred.linked_left.load(Ordering::Relaxed);
        if left > 0 {
            self.deferred.linked_left.store(left - 1, Ordering::Relaxed);
        }
        left > 0 || self.entries() < DEFER_MIN_ENTRIES
    }

    /// True if `target` goes right behind the last insertion at `hint`.
    #[inline]
    fn appends_at(&self, target: &Target<'_>, hint: &InsertHint) -> bool {
        let Some(last) = NonNull::new(hint.prev[0]).filter(|_| hint.list == self.number) else {
            // There is no hint yet: this insertion makes one.
            return true;
        };
        // SAFETY: the hint is of this list (N6); every node has a link of level 0 (N4).
        unsafe {
            (last == self.head || Node::compare(last, &self.order, target) == Order::Less)
                && !self.next_is_before(last, 0, target)
        }
    }

    /// Links in what waits, before a read.
    #[cold]
    pub(super) fn link_deferred_now(&self) {
        assert_not_held(&self.order, &self.deferred);
        // Held to the end: other readers need all of it as well.
        let mut state = self.deferred.state.lock();
        holding(&self.order, &self.deferred, || {
            self.link_deferred(&mut state)
        });
        self.deferred
            .linked_left
            .store(LINKED_AFTER_READ, Ordering::Relaxed);
    }

    fn link_deferred(&self, state: &mut State) {
        let mut searches: [Option<Search<'_>>; INSERT_BATCH] = [const { None }; INSERT_BATCH];
        let waiting = || state.nodes[..state.len].iter().flatten();
        let targets = waiting().map(|(node, _)| self.target_of(*node));
        self.find_places(targets, &mut searches);
        for (&(node, height), search) in waiting().zip(searches.iter_mut().flatten()) {
            self.link_up(node, height, &search.target, &mut search.found);
        }
        if let Some(last) = searches.into_iter().flatten().last() {
            state.hint = last.found;
        }
        state.len = 0;
        self.deferred.waiting.store(false, Ordering::Release);
    }
}
