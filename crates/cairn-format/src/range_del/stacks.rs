//! The tombstones over each region, without a copy per region.
//!
//! If each region listed all tombstones over it, nested tombstones, or a wide one over many small
//! ones, would take quadratic memory. Regions are therefore the leaves of a binary tree, and a
//! tombstone is listed at the few nodes that together span its regions: at one leaf for a single
//! region, and otherwise at no more than two nodes per height. The tombstones over a region are
//! those listed from its leaf up to the root. If no tombstone covers more than one region, as in
//! tables, only leaves have lists.
//!
//! Nodes are numbered as in a heap: node 1 is the root, node `n / 2` the parent of node `n`, and
//! node `regions + r` leaf `r`. This works for any number of leaves; nodes that would span leaves
//! at both ends simply have no list.

use std::ops::Range;

/// Lists of ranks by node; see the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    regions: usize,
    /// The offset of each leaf's list, and the end of the last one.
    leaves: Vec<usize>,
    /// The same for inner nodes; empty if they have no lists.
    inner: Vec<usize>,
    /// All lists, each in ascending order, that is, newest first.
    ranks: Vec<u32>,
}

impl Stacks {
    /// Builds the stacks of tombstones that cover `spans` of `regions`, newest first.
    pub(super) fn build(regions: usize, spans: &[Range<u32>]) -> Stacks {
        let mut leaves = vec![0_usize; regions + 1];
        let mut inner = vec![0_usize; regions + 1];
        // First the length of each list, then its offset.
        let mut inner_total = 0;
        for span in spans {
            nodes(regions, span, |node| match node.checked_sub(regions) {
                Some(leaf) => leaves[leaf] += 1,
                None => {
                    inner[node] += 1;
                    inner_total += 1;
                }
            });
        }
        let mut total = 0;
        for count in leaves.iter_mut().chain(&mut inner) {
            (*count, total) = (total, total + *count);
        }
        let mut ranks = vec![0; total];
        for (rank, span) in (0..).zip(spans) {
            nodes(regions, span, |node| {
                let next = match node.checked_sub(regions) {
                    Some(leaf) => &mut leaves[leaf],
                    None => &mut inner[node],
                };
                ranks[*next] = rank;
                *next += 1;
            });
        }
        // Each entry is now the end of a list, which is the offset of the next.
        for lists in [&mut leaves, &mut inner] {
            lists.rotate_right(1);
        }
        leaves[0] = 0;
        inner[0] = leaves[regions];
        if inner_total == 0 {
            inner = Vec::new();
        }
        Stacks {
            regions,
            leaves,
            inner,
            ranks,
        }
    }

    /// The lists of tombstones over `region`.
    #[inline]
    fn lists(&self, region: usize) -> impl Iterator<Item = &[u32]> {
        let list = |starts: &[usize], at: usize| match starts.get(at..at + 2) {
            Some(&[from, to]) => &self.ranks[from..to],
            _ => &[],
        };
        let mut node = match self.inner.is_empty() {
            true => 0,
            false => self.regions + region,
        };
        let above = std::iter::from_fn(move || {
            node /= 2;
            (node > 0).then(|| list(&self.inner, node))
        });
        std::iter::once(list(&self.leaves, region)).chain(above)
    }

    /// The smallest rank over `region` that is at least `from`.
    #[inline]
    pub(super) fn first(&self, region: usize, from: u32) -> Option<u32> {
        let first = |list: &[u32]| match list.first() {
            Some(&first) if first < from => {
                list.get(list.partition_point(|&rank| rank < from)).copied()
            }
            first => first.copied(),
        };
        self.lists(region).filter_map(first).min()
    }

    /// The smallest rank over `region` that is at least `from` and for which `counts` is true.
    pub(super) fn find(
        &self,
        region: usize,
        from: u32,
        counts: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let mut found: Option<u32> = None;
        for list in self.lists(region) {
            let at = list.partition_point(|&rank| rank < from);
            let mut ranks = list[at..].iter().copied();
            let better = ranks
                .by_ref()
                .take_while(|&rank| found.is_none_or(|found| rank < found));
            found = { better }.find(|&rank| counts(rank)).or(found);
        }
        found
    }

    /// The number of tombstones over `region`.
    #[inline]
    pub(super) fn depth(&self, region: usize) -> usize {
        self.lists(region).map(<[u32]>::len).sum()
    }

    /// The ranks of the tombstones over `region`, in any order.
    pub(super) fn ranks(&self, region: usize) -> Vec<u32> {
        self.lists(region).flatten().copied().collect()
    }

    pub(super) fn memory(&self) -> usize {
        (self.leaves.len() + self.inner.len()) * size_of::<usize>()
            + self.ranks.len() * size_of::<u32>()
    }
}

/// Calls `visit` with the nodes that together span the leaves `span`.
fn nodes(regions: usize, span: &Range<u32>, mut visit: impl FnMut(usize)) {
    let (mut from, mut to) = (regions + span.start as usize, regions + span.end as usize);
    while from < to {
        if from % 2 == 1 {
            visit(from);
            from += 1;
        }
        if to % 2 == 1 {
            to -= 1;
            visit(to);
        }
        (from, to) = (from / 2, to / 2);
    }
}
