//! Asking for the memory of the entries that a walk from front to back will come to.
//!
//! Each entry says where the next one lies, so that who goes from one to the next waits for memory each time. The
//! links of level 1 lead past some four entries at a time; what lies between their ends are short ways that several lanes
//! go beside each other, up to [`MAX_AHEAD`] entries ahead of the walk. With each step of the walk one of them goes on by one
//! entry, in turn, so that what it reads has arrived since it was there.
//!
//! Cost of a step: a few loads of lines that are there. Nothing but hints to the processor comes of it.

use std::ptr::NonNull;

use super::SkipList;
use super::node::Node;

/// How many ways between two links of level 1 are gone beside each other.
const LANES: usize = 4;

/// How many entries are in_flight for that the walk has not come to. They stay in the nearest cache.
const MAX_AHEAD: usize = 24;

/// What runs ahead of a walk.
pub(crate) struct Prefetcher {
    /// The node up to which lanes were sent, and which has a link of level 1 therefore; none behind the last.
    upper: Option<NonNull<Node>>,
    lanes: [Option<Lane>; LANES],
    /// Whose turn it is.
    turn: usize,
    /// Entries that were in_flight for and not come to yet.
    in_flight: usize,
}

/// A way from one node to another one behind it.
#[derive(Clone, Copy)]
struct Lane {
    at: NonNull<Node>,
    end: Option<NonNull<Node>>,
}

impl Prefetcher {
    /// Nothing.
    pub(crate) const NONE: Prefetcher = Prefetcher {
        upper: None,
        lanes: [None; LANES],
        turn: 0,
        in_flight: 0,
    };

    /// What runs ahead of a walk from the first entry of `list`.
    pub(crate) fn of(list: &SkipList) -> Prefetcher {
        Prefetcher {
            upper: Some(list.head),
            ..Prefetcher::NONE
        }
    }

    /// The walk goes on by one entry.
    ///
    /// # Safety
    ///
    /// The list lives.
    #[inline]
    pub(crate) unsafe fn step(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
        // Twice, or nothing would get ahead of the walk.
        for _ in 0..2 {
            if self.in_flight < MAX_AHEAD {
                // SAFETY: the caller's promise.
                let prefetched = unsafe { self.advance() };
                self.in_flight += usize::from(prefetched.is_some());
            }
        }
    }

    /// The lane whose turn it is goes on, or another one is sent. The node that was in_flight for.
    ///
    /// # Safety
    ///
    /// As for [`Prefetcher::step`].
    #[inline]
    unsafe fn advance(&mut self) -> Option<NonNull<Node>> {
        self.turn = (self.turn + 1) % LANES;
        let place = &mut self.lanes[self.turn];
        if let Some(lane) = place {
            // SAFETY: every node has a link of level 0 (N4), and the list lives.
            let next = unsafe { Node::next(lane.at, 0) };
            if let Some(node) = next.filter(|_| next != lane.end) {
                Node::prefetch_entry(next);
                lane.at = node;
                return next;
            }
            *place = None;
        }
        let at = self.upper?;
        // SAFETY: the head has all links, and a node that a link of level 1 leads to has one too (N4).
        let end = unsafe { Node::next(at, 1) };
        Node::prefetch(end, 1);
        Node::prefetch_entry(end);
        *place = Some(Lane { at, end });
        self.upper = end;
        end
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use cairn_types::KeyOrder;

    use super::super::InsertHint;
    use super::*;

    /// A list of `count` entries, in no order.
    fn list(count: u64) -> SkipList {
        let list = SkipList::new(KeyOrder::Bytewise, 4096);
        for nth in 0..count {
            let key = (nth * 7919 % 10_007).to_be_bytes();
            assert!(list.insert(&key, nth << 8 | 1, b"value", &mut InsertHint::default()));
        }
        list
    }

    #[test]
    fn every_entry_is_asked_for_once() {
        for count in [0, 1, 2, 300] {
            let list = list(count);
            let mut ahead = Prefetcher::of(&list);
            let mut prefetched = BTreeSet::new();
            for _ in 0..4 * count + 100 {
                // SAFETY: the list lives.
                if let Some(node) = unsafe { ahead.advance() } {
                    assert!(prefetched.insert(node));
                }
            }
            let all = std::iter::successors(list.first(), |entry| entry.next());
            assert_eq!(prefetched, all.map(|entry| entry.node).collect());
        }
    }

    #[test]
    fn a_walk_is_kept_ahead_of_by_so_many_entries_and_no_more() {
        let list = list(300);
        let mut ahead = Prefetcher::of(&list);
        for nth in 0..200 {
            // SAFETY: the list lives.
            unsafe { ahead.step() };
            assert!(ahead.in_flight <= MAX_AHEAD);
            assert!(
                nth < 50 || ahead.in_flight > MAX_AHEAD / 2,
                "{nth}: {}",
                ahead.in_flight
            );
        }
        for _ in 0..200 {
            // SAFETY: the list lives.
            unsafe { ahead.step() };
        }
        assert_eq!(ahead.in_flight, 0, "the list has ended");
    }
}
