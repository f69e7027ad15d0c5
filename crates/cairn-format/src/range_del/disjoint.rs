//! Disjoint tombstones in key order, as they usually are in a table.
//!
//! They need neither sorting nor stacks: each region has at most one tombstone, so one sequence
//! number per region is enough. An edge shared by two tombstones is the end of the first and the
//! start of the second.

use std::cmp::Ordering;
use std::ops::RangeInclusive;

use cairn_types::{KeyOrder, SequenceNumber};

use super::edges::Edges;
use super::{Part, compare};

/// Stands for no tombstone. Greater than any sequence number.
const NONE: SequenceNumber = SequenceNumber(u64::MAX);

/// The sequence number of the tombstone over each region from region 1 to the last edge.
#[derive(Debug, Default)]
pub(super) struct Disjoint(Vec<SequenceNumber>);

impl Disjoint {
    pub(super) fn with_capacity(count: usize) -> Disjoint {
        Disjoint(Vec::with_capacity(count))
    }

    /// Appends a tombstone, and its edges to `edges`. Returns `None` if it does not follow the
    /// previous ones or has a timestamp; [`Stacks`](super::stacks::Stacks) are then needed. An
    /// empty tombstone is ignored.
    #[inline]
    pub(super) fn push(
        &mut self,
        edges: &mut Edges,
        order: &KeyOrder,
        part: &Part<'_>,
    ) -> Option<()> {
        if compare(order, part.start, part.end).is_ge() {
            return Some(());
        }
        if !part.ts.is_empty() || part.seq == NONE {
            return None;
        }
        let last = edges.last();
        match last.map_or(Ordering::Greater, |last| compare(order, part.start, last)) {
            Ordering::Less => return None,
            Ordering::Equal => {}
            Ordering::Greater => {
                if last.is_some() {
                    self.0.push(NONE);
                }
                edges.push(part.start);
            }
        }
        self.0.push(part.seq);
        edges.push(part.end);
        Some(())
    }

    pub(super) fn shrink(&mut self) {
        self.0.shrink_to_fit();
    }

    /// The sequence number of the tombstone over `region`.
    #[inline]
    pub(super) fn seq(&self, region: usize) -> Option<SequenceNumber> {
        let seq = self.0.get(region.checked_sub(1)?)?;
        (*seq != NONE).then_some(*seq)
    }

    /// The regions within `regions` that have a tombstone, in order.
    pub(super) fn within(
        &self,
        regions: RangeInclusive<usize>,
    ) -> impl Iterator<Item = (usize, SequenceNumber)> {
        let (from, to) = (*regions.start(), *regions.end());
        let from = from.max(1);
        let seqs = self.0.get(from - 1..to.min(self.0.len()));
        let all = (from..).zip(seqs.unwrap_or_default().iter().copied());
        all.filter(|&(_, seq)| seq != NONE)
    }

    /// The sequence numbers of all tombstones.
    pub(super) fn seqs(&self) -> impl Iterator<Item = SequenceNumber> {
        self.0.iter().copied().filter(|&seq| seq != NONE)
    }

    pub(super) fn memory(&self) -> usize {
        size_of_val(&self.0[..])
    }
}
