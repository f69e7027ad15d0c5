//! Deferred insertions of a single writer: the searches for their positions are batched, so that
//! memory accesses overlap.
//!
//! A deferred node is complete and in the arena, but unreachable. It is linked by the next reader,
//! or by the writer once [`INSERT_BATCH`] nodes are deferred, so readers see every published entry.
//! If reads are frequent, each would find nodes to link, and the writer would pay for a lock and a
//! flag, so nothing is deferred for a while after a read. Neither are insertions directly after the
//! previous one, nor insertions into a list that fits into the CPU caches.

use std::cmp::Ordering as Order;
use std::ptr::NonNull;

use super::atomic::{AtomicBool, AtomicUsize, Mutex, Ordering};
use super::batch_insert::{INSERT_BATCH, Search};
use super::comparator_guard::{assert_not_held, holding};
use super::node::{Node, Target};
use super::{InsertHint, NO_LIST, SkipList};

/// The minimum size of a list for insertions to be deferred; searches in smaller lists hit the
/// cache. Builds with debug assertions defer as often as possible, for test coverage.
const DEFER_MIN_ENTRIES: usize = if cfg!(debug_assertions) { 2 } else { 4096 };

/// The number of insertions after a read that are linked immediately.
const LINKED_AFTER_READ: usize = if cfg!(debug_assertions) { 3 } else { 256 };

/// The deferred insertions of a list.
pub(super) struct Deferred {
    state: Mutex<State>,
    /// True if there is a deferred node.
    pub(super) waiting: AtomicBool,
    /// The number of insertions that are still to be linked immediately.
    linked_left: AtomicUsize,
}

struct State {
    /// Nodes of the list that owns this state (N1), each with its height.
    nodes: [Option<(NonNull<Node>, usize)>; INSERT_BATCH],
    len: usize,
    hint: InsertHint,
    /// The number to add to the sequence number of every entry before the next read; 0 if there is none.
    shift: u64,
}

impl Default for Deferred {
    fn default() -> Deferred {
        Deferred {
            state: Mutex::new(State {
                nodes: [None; INSERT_BATCH],
                len: 0,
                hint: InsertHint::default(),
                shift: 0,
            }),
            waiting: AtomicBool::new(false),
            linked_left: AtomicUsize::new(0),
        }
    }
}

impl Deferred {
    /// Makes the next reader add `base` to the sequence number of every entry. The list is not published.
    pub(super) fn set_shift(&mut self, base: u64) {
        let mut state = self.state.lock();
        debug_assert!(state.len == 0 && state.shift == 0, "a list is shifted once");
        state.shift = base;
        // Relaxed: the list is published later, as a whole.
        self.waiting.store(true, Ordering::Relaxed);
    }
}

impl SkipList {
    /// Inserts an entry with a new internal key. Linking it may be deferred, but not beyond the
    /// next read.
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

    /// [`SkipList::insert_deferred`] with the lock held.
    #[inline(always)]
    fn insert_or_defer(&self, state: &mut State, user: &[u8], packed: u64, value: &[u8]) {
        debug_assert!(state.len <= INSERT_BATCH, "a full batch is linked");
        if state.len == INSERT_BATCH {
            // The comparator panicked while these nodes were being linked.
            self.insert(user, packed, value, &mut InsertHint::default());
            return;
        }
        let target = Target::new(&self.order, user, packed);
        let height = self.new_height();
        let node = self.create_node(height, &target, value);
        if state.len == 0 {
            let immediately = self.links_immediately();
            let hint = &mut state.hint;
            let is_new = match self.appends_at(&target, hint) {
                true if hint.list == self.number => {
                    // Invalid until the insertion is complete, as in `find_place`.
                    hint.list = NO_LIST;
                    Some(self.link_up(node, height, &target, hint))
                }
                appends if appends || immediately => Some(self.place(node, height, &target, hint)),
                _ => None,
            };
            if let Some(is_new) = is_new {
                debug_assert!(is_new, "deferred entries have new keys");
                return;
            }
        }
        let at = state.len;
        state.nodes[at] = Some((node, height));
        state.len += 1;
        if state.len == INSERT_BATCH {
            self.link_deferred(state);
        } else if at == 0 {
            // Release pairs with the acquire in `link_pending`. A reader that uses a published sequence
            // number sees this store because of the publication.
            self.deferred.waiting.store(true, Ordering::Release);
        }
    }

    /// True if the insertion must be linked immediately.
    #[inline]
    fn links_immediately(&self) -> bool {
        // Relaxed: the number orders no other access, here and where it is set.
        let left = self.deferred.linked_left.load(Ordering::Relaxed);
        if left > 0 {
            self.deferred.linked_left.store(left - 1, Ordering::Relaxed);
        }
        left > 0 || self.entries() < DEFER_MIN_ENTRIES
    }

    /// True if `target` directly follows the last insertion, at `hint`.
    #[inline]
    fn appends_at(&self, target: &Target<'_>, hint: &InsertHint) -> bool {
        let Some(last) = NonNull::new(hint.prev[0]).filter(|_| hint.list == self.number) else {
            // There is no hint yet; linking this node sets one.
            return true;
        };
        // SAFETY: the hint belongs to this list (N6); every node has a link of level 0 (N4).
        unsafe {
            (last == self.head || Node::compare(last, &self.order, target) == Order::Less)
                && self.next_before(last, 0, target).is_none()
        }
    }

    /// Links all deferred nodes, and shifts the sequence numbers if that is due, before a read.
    #[cold]
    pub(super) fn link_deferred_now(&self) {
        assert_not_held(&self.order, &self.deferred);
        // Held to the end, because other readers need every entry as well.
        let mut state = self.deferred.state.lock();
        match std::mem::take(&mut state.shift) {
            0 => {}
            base => self.shift_entries(base),
        }
        holding(&self.order, &self.deferred, || {
            self.link_deferred(&mut state)
        });
        self.deferred
            .linked_left
            .store(LINKED_AFTER_READ, Ordering::Relaxed);
    }

    /// Links the nodes of `state`. If the comparator panics, the next reader links them.
    fn link_deferred(&self, state: &mut State) {
        let mut searches: [Option<Search<'_>>; INSERT_BATCH] = [const { None }; INSERT_BATCH];
        let waiting = || state.nodes[..state.len].iter().flatten();
        let targets = waiting().map(|(node, _)| self.target_of(*node));
        self.find_places(targets, &mut searches);
        debug_assert_eq!(waiting().count(), state.len, "a node in every slot");
        for (&(node, height), search) in waiting().zip(searches.iter_mut().flatten()) {
            let is_new = self.link_up(node, height, &search.target, &mut search.found);
            debug_assert!(is_new, "deferred entries have new keys");
        }
        if let Some(last) = searches.into_iter().flatten().last() {
            state.hint = last.found;
        }
        state.len = 0;
        self.deferred.waiting.store(false, Ordering::Release);
    }
}
