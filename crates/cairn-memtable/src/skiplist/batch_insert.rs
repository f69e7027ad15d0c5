//! Insertions whose places are looked for together.
//!
//! A search waits for memory at almost every node that is not near the head. The searches for several
//! keys take turns: each asks for the memory of its next node and lets the others go on until that has
//! come. What each finds is a hint like any other, so that what is inserted meanwhile does no harm (N3).

use std::cmp::Ordering as Order;
use std::ptr::NonNull;

use super::atomic::Ordering;
use super::node::{MAX_HEIGHT, Node, Target};
use super::{InsertHint, SkipList};

/// How many entries look for their places in a memtable together, at most.
pub const INSERT_BATCH: usize = 8;

/// Levels from which on a hint is so near that no search is worth sharing.
const NEAR: usize = 2;

/// An entry to insert: user key, sequence number with kind, and value.
pub(crate) type Addition<'a> = (&'a [u8], u64, &'a [u8]);

/// A search under way.
pub(super) struct Search<'k> {
    pub(super) target: Target<'k>,
    /// The last node that is known to be before the target, and the level that is searched.
    node: NonNull<Node>,
    level: usize,
    /// The node behind it, whose memory has been asked for.
    ahead: Option<NonNull<Node>>,
    /// A node that is not before the target.
    beyond: Option<NonNull<Node>>,
    pub(super) found: InsertHint,
}

impl Search<'_> {
    /// Leaves the level; whether there is one below it.
    #[inline]
    fn descend(&mut self) -> bool {
        self.found.prev[self.level] = self.node.as_ptr();
        self.level = self.level.wrapping_sub(1);
        self.level != usize::MAX
    }
}

impl SkipList {
    /// Inserts all of `additions`, [`INSERT_BATCH`] at most, as [`SkipList::insert`] does it, and tells `done`
    /// of each whether it was new.
    pub(crate) fn insert_batch(
        &self,
        additions: &[Addition<'_>],
        hint: &mut InsertHint,
        mut done: impl FnMut(usize, bool),
    ) {
        debug_assert!(
            additions.len() <= INSERT_BATCH,
            "no more than there are searches for"
        );
        let mut searches: [Option<Search<'_>>; INSERT_BATCH] = [const { None }; INSERT_BATCH];
        let shared =
            additions.len() > 1 && self.unsorted.is_none() && !self.is_near(additions, hint);
        if shared {
            let target = |&(user, packed, _): &_| Target::new(&self.order, user, packed);
            self.find_places(additions.iter().map(target), &mut searches);
        }
        for (at, (addition, search)) in additions.iter().zip(&mut searches).enumerate() {
            let (user, packed, value) = *addition;
            let is_new = match search {
                None => self.insert(user, packed, value, hint),
                Some(search) => {
                    let height = self.new_height();
                    let node = Node::create(&self.arena, height, &search.target, value);
                    self.link_up(node, height, &search.target, &mut search.found)
                }
            };
            done(at, is_new);
        }
        if let Some(last) = searches.into_iter().flatten().last() {
            *hint = last.found;
        }
    }

    /// True if the first of `additions` goes next to where `hint` is.
    #[inline]
    fn is_near(&self, additions: &[Addition<'_>], hint: &InsertHint) -> bool {
        let height = self.height.load(Ordering::Relaxed);
        additions.first().is_some_and(|&(user, packed, _)| {
            let target = Target::new(&self.order, user, packed);
            let level = self.trusted_levels(&target, hint, height);
            level.is_some_and(|level| level <= NEAR)
        })
    }

    /// Fills `searches` with the places of `targets`, [`INSERT_BATCH`] at most.
    pub(super) fn find_places<'k>(
        &self,
        targets: impl Iterator<Item = Target<'k>>,
        searches: &mut [Option<Search<'k>>; INSERT_BATCH],
    ) {
        let top = self.height.load(Ordering::Relaxed) - 1;
        // A bit for each search that goes on.
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

    /// Looks at the node that was asked for, and asks for the next one. `false` when the place on the
    /// lowest level is found.
    #[inline]
    fn step(&self, search: &mut Search<'_>) -> bool {
        // SAFETY: the search stands on the head or on nodes of this list that it reached on their
        // level or a higher one (N1, N4).
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
