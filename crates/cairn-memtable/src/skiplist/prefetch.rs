//! Prefetching for forward scans.
//!
//! The address of an entry is known only from its predecessor, so a plain scan waits for memory at
//! every entry. Links of level 1 skip about four entries each. Several lanes follow the segments
//! between consecutive nodes of level 1 in parallel, up to [`MAX_AHEAD`] entries ahead of the scan.
//! Each step of the scan advances the lanes in turn, so that the data a lane reads has arrived
//! since its last turn.
//!
//! A step costs a few loads that hit the cache; its only effects are prefetches.

use std::ptr::NonNull;

use super::SkipList;
use super::node::Node;

/// The number of segments of level 1 that are followed in parallel.
const LANES: usize = 4;

/// The number of entries prefetched ahead of the scan, few enough to stay in the L1 cache.
const MAX_AHEAD: usize = 24;

/// The prefetch state of a scan.
pub(crate) struct Prefetcher {
    /// The end of the last segment assigned to a lane, a node with a link of level 1; `None` after the last
    /// node.
    upper: Option<NonNull<Node>>,
    lanes: [Option<Lane>; LANES],
    /// The lane to advance next.
    turn: usize,
    /// Entries prefetched and not yet reached by the scan.
    in_flight: usize,
}

/// A segment of the list, from its current node to its end.
#[derive(Clone, Copy)]
struct Lane {
    at: NonNull<Node>,
    end: Option<NonNull<Node>>,
}

impl Prefetcher {
    /// Prefetches nothing.
    pub(crate) const NONE: Prefetcher = Prefetcher {
        upper: None,
        lanes: [None; LANES],
        turn: 0,
        in_flight: 0,
    };

    /// Returns the state for a scan from the first entry of `list`.
    pub(crate) fn of(list: &SkipList) -> Prefetcher {
        Prefetcher {
            upper: Some(list.head),
            ..Prefetcher::NONE
        }
    }

    /// Returns the state for a scan that starts near `upper`, a node with a link of level 1.
    pub(super) fn after(upper: NonNull<Node>) -> Prefetcher {
        Prefetcher {
            upper: Some(upper),
            ..Prefetcher::NONE
        }
    }

    /// True if there may be entries to prefetch.
    #[inline]
    pub(super) fn is_active(&self) -> bool {
        self.upper.is_some()
    }

    /// Advances the prefetch by one step of the scan.
    ///
    /// # Safety
    ///
    /// The list must be alive.
    #[inline]
    pub(crate) unsafe fn step(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
        // Two advances, so that the lanes get ahead of the scan.
        for _ in 0..2 {
            if self.in_flight < MAX_AHEAD {
                // SAFETY: the caller's contract.
                let prefetched = unsafe { self.advance() };
                self.in_flight += usize::from(prefetched.is_some());
            }
        }
        debug_assert!(
            self.in_flight <= MAX_AHEAD,
            "prefetching stays within its distance"
        );
    }

    /// Advances the lane whose turn it is, or assigns it the next segment. Returns the prefetched node.
    ///
    /// # Safety
    ///
    /// As for [`Prefetcher::step`].
    #[inline]
    unsafe fn advance(&mut self) -> Option<NonNull<Node>> {
        self.turn = (self.turn + 1) % LANES;
        let place = &mut self.lanes[self.turn];
        if let Some(lane) = place {
            // SAFETY: every node has a link of level 0 (N4), and the list is alive.
            let next = unsafe { Node::next(lane.at, 0) };
            if let Some(node) = next.filter(|_| next != lane.end) {
                Node::prefetch_entry(next);
                lane.at = node;
                return next;
            }
            *place = None;
        }
        let at = self.upper?;
        // SAFETY: the head has every link, and a node reached through a link of level 1 has one too (N4).
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

    /// A list of `count` entries in scattered order.
    fn list(count: u64) -> SkipList {
        let list = SkipList::new(KeyOrder::Bytewise, 4096);
        for nth in 0..count {
            let key = (nth * 7919 % 10_007).to_be_bytes();
            assert!(list.insert(&key, nth << 8 | 1, b"value", &mut InsertHint::default()));
        }
        list
    }

    #[test]
    fn every_entry_is_prefetched_once() {
        for count in [0, 1, 2, 300] {
            let list = list(count);
            let mut ahead = Prefetcher::of(&list);
            let mut prefetched = BTreeSet::new();
            for _ in 0..4 * count + 100 {
                // SAFETY: the list is alive.
                if let Some(node) = unsafe { ahead.advance() } {
                    assert!(prefetched.insert(node));
                }
            }
            let all = std::iter::successors(list.first(), |entry| entry.next());
            assert_eq!(prefetched, all.map(|entry| entry.node).collect());
        }
    }

    #[test]
    fn prefetching_stays_within_its_distance_ahead_of_the_scan() {
        let list = list(300);
        let mut ahead = Prefetcher::of(&list);
        for nth in 0..200 {
            // SAFETY: the list is alive.
            unsafe { ahead.step() };
            assert!(ahead.in_flight <= MAX_AHEAD);
            assert!(
                nth < 50 || ahead.in_flight > MAX_AHEAD / 2,
                "{nth}: {}",
                ahead.in_flight
            );
        }
        for _ in 0..200 {
            // SAFETY: the list is alive.
            unsafe { ahead.step() };
        }
        assert_eq!(ahead.in_flight, 0, "the list has ended");
    }
}
