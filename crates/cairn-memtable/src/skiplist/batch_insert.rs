//! Batched insertion: the searches for the positions of several entries are interleaved.
//!
//! Away from the head, a search misses the cache at almost every node. The searches for several
//! keys therefore take turns: each prefetches its next node and yields to the others while the node
//! is being fetched. The result of a search is an ordinary hint, so insertions in the meantime do
//! no harm (N3).

use std::cmp::Ordering as Order;
use std::ptr::NonNull;

use super::atomic::Ordering;
use super::node::{MAX_HEIGHT, Node, Target};
use super::{InsertHint, SkipList};

/// The maximum number of entries whose positions are searched together.
pub const INSERT_BATCH: usize = 8;

/// The highest level at which the position of a hint is so close that batching does not pay off.
const NEAR: usize = 2;

/// An entry to insert: user key, packed sequence number and kind, and value.
pub(crate) type Addition<'a> = (&'a [u8], u64, &'a [u8]);

/// A search in progress.
pub(super) struct Search<'k> {
    pub(super) target: Target<'k>,
    /// The last node known to precede the target, and the level being searched.
    node: NonNull<Node>,
    level: usize,
    /// The node after it, which has been prefetched.
    ahead: Option<NonNull<Node>>,
    /// A node known not to precede the target.
    beyond: Option<NonNull<Node>>,
    pub(super) found: InsertHint,
}

impl Search<'_> {
    /// Descends one level. Returns false if there is none below.
    #[inline]
    fn descend(&mut self) -> bool {
        self.found.prev[self.level] = self.node.as_ptr();
        debug_assert!(self.level < MAX_HEIGHT, "no tower is higher");
        self.level = self.level.wrapping_sub(1);
        self.level != usize::MAX
    }
}

impl SkipList {
    /// Inserts all of `additions`, at most [`INSERT_BATCH`], as [`SkipList::insert`] does. Calls
    /// `done` with the index of each, and true if it was inserted.
    pub(crate) fn insert_batch(
        &self,
        additions: &[Addition<'_>],
        hint: &mut InsertHint,
        mut done: impl FnMut(usize, bool),
    ) {
        debug_assert!(additions.len() <= INSERT_BATCH, "one search per entry");
        if self.unsorted.is_some() || self.checks.checksum_len > 0 {
            for (at, &(user, packed, value)) in additions.iter().enumerate() {
                done(at, self.insert(user, packed, value, hint));
            }
            return;
        }
        if additions.len() < 2 || self.is_near(additions, hint) {
            let mut from = 0;
            while from < additions.len() {
                let rest = &additions[from..];
                from += self.insert_run(rest, hint, |at, is_new| done(from + at, is_new));
            }
            return;
        }
        let mut searches: [Option<Search<'_>>; INSERT_BATCH] = [const { None }; INSERT_BATCH];
        let target = |&(user, packed, _): &_| Target::new(&self.order, user, packed);
        self.find_places(additions.iter().map(target), &mut searches);
        let found = additions.iter().zip(searches.iter_mut().flatten());
        for (at, (&(_, _, value), search)) in found.enumerate() {
            let height = self.new_height();
            let node = self.create_node(height, &search.target, value);
            let is_new = self.link_up(node, height, &search.target, &mut search.found);
            done(at, is_new);
        }
        if let Some(last) = searches.into_iter().flatten().last() {
            *hint = last.found;
        }
    }

    /// True if the first of `additions` is inserted close to `hint`.
    #[inline]
    fn is_near(&self, additions: &[Addition<'_>], hint: &InsertHint) -> bool {
        let height = self.height.load(Ordering::Relaxed);
        additions.first().is_some_and(|&(user, packed, _)| {
            let target = Target::new(&self.order, user, packed);
            let level = self.trusted_levels(&target, hint, height);
            level.is_some_and(|level| level <= NEAR)
        })
    }

    /// Sets `searches` to the positions of `targets`, at most [`INSERT_BATCH`].
    pub(super) fn find_places<'k>(
        &self,
        targets: impl Iterator<Item = Target<'k>>,
        searches: &mut [Option<Search<'k>>; INSERT_BATCH],
    ) {
        let top = self.height.load(Ordering::Relaxed) - 1;
        // One bit for each search in progress.
        let mut going = 0_usize;
        for (search, target) in searches.iter_mut().zip(targets) {
            going = going << 1 | 1;
            *search = Some(Search {
                target,
                node: self.head,
                level: top,
                ahead: None,
                beyond: None,
                found: InsertHint {
                    list: self.number,
                    prev: [self.head.as_ptr(); MAX_HEIGHT],
                },
            });
        }
        while going != 0 {
            for (at, search) in searches.iter_mut().flatten().enumerate() {
                if going >> at & 1 == 1 && !self.step(search) {
                    going &= !(1 << at);
                }
            }
        }
    }

    /// Examines the prefetched node and prefetches the next one. Returns false once the position on the
    /// lowest level is found.
    #[inline]
    fn step(&self, search: &mut Search<'_>) -> bool {
        // SAFETY: the search is at the head, or at a node of this list that it reached on its level or a
        // higher one (N1, N4).
        unsafe {
            if let Some(next) = search.ahead.take() {
                if Node::compare(next, &self.order, &search.target) == Order::Less {
                    search.node = next;
                } else {
                    search.beyond = Some(next);
                    if !search.descend() {
                        return false;
                    }
                }
            }
            loop {
                let (node, level) = (search.node, search.level);
                if level == 0 || search.target.prefix >= Node::bound(node, level) {
                    let next = Node::next(node, level);
                    if next.is_some() && next != search.beyond {
                        Node::prefetch(next, level);
                        Node::prefetch_key(next);
                        search.ahead = next;
                        return true;
                    }
                }
                if !search.descend() {
                    return false;
                }
            }
        }
    }
}
