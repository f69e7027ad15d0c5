//! Insertions that a lone writer puts off until there are several, so that the searches for their places
//! wait for memory together.
//!
//! What is put off is complete and lies in the arena, but nothing leads to it: whoever reads links it in
//! first, and the writer does when there are [`TOGETHER`]. So no reader sees less than before. Reads that
//! come again and again would find something to link each time, and writers would pay for a lock and a
//! flag besides; so for a while after a read nothing is put off. Nor is what goes right behind the last
//! insertion, or into a list so small that the processor's cache holds it.

use std::cmp::Ordering as Order;
use std::ptr::NonNull;

use super::atomic::{AtomicBool, AtomicUsize, Mutex, Ordering};
use super::batch_insert::{Search, TOGETHER};
use super::comparator_guard::{holding, must_be_free};
use super::node::{Node, Target};
use super::{InsertHint, List};

/// Entries of a list from which on searches in it wait for memory. Builds with assertions put off as much
/// as they can, so that whatever tests a database tests this.
const LARGE: usize = if cfg!(debug_assertions) { 2 } else { 4096 };

/// Insertions after a read that are not put off.
const AT_ONCE: usize = if cfg!(debug_assertions) { 3 } else { 256 };

/// The insertions that are put off.
pub(super) struct Late {
    state: Mutex<State>,
    /// True if there are any.
    pub(super) waiting: AtomicBool,
    /// So many are not put off.
    at_once: AtomicUsize,
}

struct State {
    /// Nodes of the list that this is in (N1), each with its height.
    nodes: [Option<(NonNull<Node>, usize)>; TOGETHER],
    len: usize,
    hint: InsertHint,
}

impl Default for Late {
    fn default() -> Late {
        Late {
            state: Mutex::new(State {
                nodes: [None; TOGETHER],
                len: 0,
                hint: InsertHint::default(),
            }),
            waiting: AtomicBool::new(false),
            at_once: AtomicUsize::new(0),
        }
    }
}

impl List {
    /// Inserts an entry whose internal key is not here, maybe later than now: but before anybody reads.
    pub(crate) fn insert_late(&self, user: &[u8], packed: u64, value: &[u8]) {
        let lone = match self.unsorted {
            None => self.late.state.try_lock(),
            Some(_) => None,
        };
        let Some(mut state) = lone else {
            self.insert(user, packed, value, &mut InsertHint::default());
            return;
        };
        holding(&self.order, &self.late, || {
            self.insert_or_wait(&mut state, user, packed, value);
        });
    }

    /// [`List::insert_late`] by the thread that has the lock.
    #[inline(always)]
    fn insert_or_wait(&self, state: &mut State, user: &[u8], packed: u64, value: &[u8]) {
        if state.len == TOGETHER {
            // The comparator panicked when these were to be linked in.
            self.insert(user, packed, value, &mut InsertHint::default());
            return;
        }
        let target = Target::new(&self.order, user, packed);
        let height = self.new_height();
        let node = Node::create(&self.arena, height, &target, value);
        if state.len == 0 && (self.is_at_once() || self.goes_behind(&target, &state.hint)) {
            self.place(node, height, &target, &mut state.hint);
            return;
        }
        let at = state.len;
        state.nodes[at] = Some((node, height));
        state.len += 1;
        if state.len == TOGETHER {
            self.link_late(state);
        } else if at == 0 {
            // Release pairs with the acquire in `settle`. That the reader of a published sequence number
            // sees it follows from the publication.
            self.late.waiting.store(true, Ordering::Release);
        }
    }

    /// True if nothing is put off for now.
    #[inline]
    fn is_at_once(&self) -> bool {
        // Relaxed: a number that orders nothing else, here and where it is set.
        let left = self.late.at_once.load(Ordering::Relaxed);
        if left > 0 {
            self.late.at_once.store(left - 1, Ordering::Relaxed);
        }
        left > 0 || self.entries() < LARGE
    }

    /// True if `target` goes right behind the last insertion at `hint`.
    #[inline]
    fn goes_behind(&self, target: &Target<'_>, hint: &InsertHint) -> bool {
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
    pub(super) fn settle_late(&self) {
        must_be_free(&self.order, &self.late);
        // Held to the end: other readers need all of it as well.
        let mut state = self.late.state.lock();
        holding(&self.order, &self.late, || self.link_late(&mut state));
        self.late.at_once.store(AT_ONCE, Ordering::Relaxed);
    }

    fn link_late(&self, state: &mut State) {
        let mut searches: [Option<Search<'_>>; TOGETHER] = [const { None }; TOGETHER];
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
        self.late.waiting.store(false, Ordering::Release);
    }
}
