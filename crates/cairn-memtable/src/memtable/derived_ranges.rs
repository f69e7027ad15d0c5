//! Range tombstones that scans derive from runs of point deletions
//! (`min_tombstones_for_range_conversion`), so that later scans skip the runs at once.
//!
//! A scan at sequence number `s` has found that the keys from `start` to `end` have no value at `s`, and adds the
//! tombstone `[start, end)@s` to the active memtable of its view. The tombstone is not logged: it deletes nothing,
//! and a crash may lose it. These invariants keep it from changing the result of a read.
//!
//! 1. *All writes up to `s` were seen.* `s` was published before the scan began (otherwise the iterator adds nothing), so
//!    every write up to `s` had been inserted. They are in the memtable of the view or in older sources, because the
//!    memtable has not been sealed yet: writes go to a later memtable only after that.
//! 2. *Older sources hold only older entries.* Reads skip a tombstone's range in all sources below the one that holds it,
//!    without comparing sequence numbers. The memtable has an entry that is not newer than `s`, and every entry of an
//!    older source is older than any entry of the memtable. `s` is therefore newer than all entries below.
//! 3. *Nothing is put below the memtable.* An ingestion adds entries beneath it that a scan with an earlier view has not
//!    seen. Before it looks at the memtables, it calls [`Memtable::stop_derived_ranges`] for each of them.
//! 4. *A sealed memtable does not change.* [`Memtable::seal`] takes the lock that an addition holds, so a flush and an
//!    open iterator see all tombstones or none. A write that comes later has a number above `s` and is not covered.
//!
//! A reader at a snapshot before `s` ignores the tombstone. For a reader at `s` or later, it hides versions that are
//! not newer than `s`, of keys that have no value at `s`: none of them is visible to it anyway. Once it is in the
//! memtable, the tombstone is like one of a range deletion with the number `s`, and it is flushed and compacted like
//! one. Only conflict checks of transactions tell the two apart ([`Memtable::written_range_tombstones`]): keys in
//! the range that were never written have not changed.

use cairn_format::range_del::Fragments;
use cairn_types::{KeyOrder, SequenceNumber};

use super::Memtable;
use super::ranges::tombstone;
use crate::skiplist::comparator_guard::{assert_not_held, holding};

/// A range without visible keys, found by a scan.
#[derive(Clone, Copy, Debug)]
pub struct DerivedRange<'a> {
    /// The sequence number of the scan.
    pub seq: SequenceNumber,
    /// The sequence number of one of the deletions found in the range.
    pub deleted: SequenceNumber,
    /// The first key, which is deleted.
    pub start: &'a [u8],
    /// The key after the range.
    pub end: &'a [u8],
}

impl Memtable {
    /// Adds a tombstone over `range`, unless that would be useless or unsafe (the invariants are in
    /// `memtable/derived_ranges.rs`). Returns true if it was added. The keys must have no timestamps.
    #[must_use]
    pub fn add_derived_range(&self, range: &DerivedRange<'_>) -> bool {
        debug_assert_eq!(self.order().timestamp_size(), 0, "keys have no timestamps");
        // No waiting: the tombstone is not needed.
        let Some(stopped) = self.derived_stopped.try_lock() else {
            return false;
        };
        let follows_entry = self.first_seq().is_some_and(|first| first <= range.seq);
        let is_derived = || {
            holding(self.order(), &self.derived_stopped, || {
                self.is_derived(range)
            })
        };
        if *stopped || !follows_entry || is_derived() {
            return false;
        }
        let new = tombstone(self.order(), range.seq, range.start, range.end);
        self.push_range(new, |ranges| &mut ranges.derived);
        true
    }

    /// Rejects derived ranges from now on; see [`Memtable::add_derived_range`].
    pub fn stop_derived_ranges(&self) {
        assert_not_held(self.order(), &self.derived_stopped);
        *self.derived_stopped.lock() = true;
    }

    /// True if `range` is empty, or if another scan has added a tombstone over it.
    fn is_derived(&self, range: &DerivedRange<'_>) -> bool {
        let order = self.order();
        if order.compare(range.start, range.end).is_ge() {
            return true;
        }
        self.has_range_tombstones()
            && self
                .range_tombstones()
                .iter()
                .any(|fragments| covers(order, fragments, range))
    }
}

/// True if `fragments` hide the deletions of `range` from reads at its sequence number.
fn covers(order: &KeyOrder, fragments: &Fragments, range: &DerivedRange<'_>) -> bool {
    let mut region = fragments.region(order, range.start);
    loop {
        let newest = fragments.newest(region, range.seq);
        // A tombstone that is not newer than the deletion was known to the scan, and did not cover it.
        if newest <= range.deleted && newest < range.seq {
            return false;
        }
        match fragments.edge(region) {
            Some(edge) if order.compare(edge, range.end).is_lt() => region += 1,
            Some(_) => return true,
            None => return false,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests;
