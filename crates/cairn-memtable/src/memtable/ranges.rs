//! The range tombstones of a memtable: those that were written, and those derived by scans.

use std::sync::Arc;

use cairn_format::key;
use cairn_format::protection::EntryChecksum;
use cairn_format::range_del::{Fragments, Tombstone};
use cairn_types::{Error, KeyOrder, Result, SequenceNumber};

/// Range tombstones as groups of fragments. A reader has to look at each group.
pub type RangeTombstones = Arc<[Arc<Fragments>]>;

/// All range tombstones.
#[derive(Default)]
pub(super) struct Ranges {
    /// Those of range deletions.
    pub(super) written: Tombstones,
    /// Those that scans derived from point deletions.
    pub(super) derived: Tombstones,
    /// The fragments of both, as returned to readers.
    shown: RangeTombstones,
}

impl Ranges {
    /// Returns the fragments of all tombstones.
    pub(super) fn build(&mut self, order: &KeyOrder) -> RangeTombstones {
        let is_changed = self.written.build(order) | self.derived.build(order);
        if self.derived.list.is_empty() {
            return Arc::clone(&self.written.shown);
        }
        if is_changed {
            let both = self.written.shown.iter().chain(&*self.derived.shown);
            self.shown = both.cloned().collect();
        }
        Arc::clone(&self.shown)
    }

    /// Returns the fragments of the written tombstones.
    pub(super) fn build_written(&mut self, order: &KeyOrder) -> RangeTombstones {
        self.written.build(order);
        Arc::clone(&self.written.shown)
    }

    /// The tombstones, each kind in the order of insertion.
    pub(super) fn all(&self) -> impl Iterator<Item = &Tombstone> {
        self.written.list.iter().chain(&self.derived.list)
    }

    pub(super) fn len(&self) -> usize {
        self.written.list.len() + self.derived.list.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.written.bytes + self.derived.bytes
    }

    /// True if a tombstone did not match its checksum when it was read.
    pub(super) fn is_damaged(&self) -> bool {
        self.written.damaged || self.derived.damaged
    }

    /// Verifies the checksums of all tombstones, if there are any.
    pub(super) fn verify(&self) -> Result<()> {
        self.written.verify(0)?;
        self.derived.verify(0)
    }
}

/// A list of range tombstones, and their fragments.
#[derive(Default)]
pub(super) struct Tombstones {
    list: Vec<Tombstone>,
    /// Their checksums, if the memtable has any.
    checksums: Vec<EntryChecksum>,
    damaged: bool,
    bytes: usize,
    /// Fragments of the tombstones up to the last read, in groups, oldest first. Each group has more
    /// tombstones than the next.
    groups: Vec<Group>,
    /// The fragments of `groups`.
    shown: RangeTombstones,
}

/// The fragments of consecutively added tombstones.
struct Group {
    count: usize,
    fragments: Arc<Fragments>,
}

impl Tombstones {
    /// Adds `tombstone`, with a checksum if `checks`.
    pub(super) fn push(&mut self, tombstone: Tombstone, checks: bool) {
        if checks {
            self.checksums.push(checksum_of(&tombstone));
        }
        self.bytes += size_of::<Tombstone>() + tombstone.start.len() + tombstone.end.len();
        self.list.push(tombstone);
    }

    /// Brings the fragments up to date with the tombstones. The tombstones added since the last
    /// read form a new group, merged with the preceding groups that are no larger. Each tombstone
    /// is therefore fragmented O(log n) times, no matter how reads and additions alternate.
    /// Returns false if nothing has changed.
    fn build(&mut self, order: &KeyOrder) -> bool {
        let built: usize = self.groups.iter().map(|group| group.count).sum();
        let mut count = self.list.len() - built;
        debug_assert!(
            built <= self.list.len(),
            "fragments are built from tombstones in the list"
        );
        if count == 0 {
            return false;
        }
        self.damaged |= self.verify(built).is_err();
        let mut kept = self.groups.len();
        while let Some(last) = kept.checked_sub(1)
            && self.groups[last].count <= count
        {
            count += self.groups[last].count;
            kept = last;
        }
        let tombstones = &self.list[self.list.len() - count..];
        let fragments = Arc::new(Fragments::build(order, tombstones));
        self.groups.truncate(kept);
        self.groups.push(Group { count, fragments });
        debug_assert!(
            self.groups.is_sorted_by(|a, b| a.count > b.count),
            "each group is larger than the next"
        );
        let shown = self.groups.iter().map(|group| group.fragments.clone());
        self.shown = shown.collect();
        true
    }

    /// Verifies the checksums of the tombstones, if there are any, from the one with the index `first` on.
    fn verify(&self, first: usize) -> Result<()> {
        let later = self.list.iter().skip(first);
        let mut sums = self.checksums.iter().skip(first);
        match later
            .zip(&mut sums)
            .all(|(it, sum)| checksum_of(it) == *sum)
        {
            true => Ok(()),
            false => Err(damaged_range()),
        }
    }
}

#[cold]
pub(super) fn damaged_range() -> Error {
    Error::corruption(
        "a range deletion in a memtable does not match its checksum: memory is damaged",
    )
}

fn checksum_of(tombstone: &Tombstone) -> EntryChecksum {
    EntryChecksum::new(&tombstone.start, &tombstone.end)
        .with_packed(tombstone.seq.0)
        .with_timestamp(&tombstone.ts)
}

/// Builds the tombstone for the range from `start` to `end`. Both carry timestamps if the order has them.
pub(super) fn tombstone(
    order: &KeyOrder,
    seq: SequenceNumber,
    start: &[u8],
    end: &[u8],
) -> Tombstone {
    let size = order.timestamp_size();
    let plain = key::strip_timestamp(start, size);
    Tombstone {
        start: plain.to_vec(),
        end: key::strip_timestamp(end, size).to_vec(),
        seq,
        ts: start[plain.len()..].to_vec(),
    }
}
