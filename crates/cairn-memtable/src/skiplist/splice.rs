//! Insertion of ascending entries that have the same neighbours in the list.
//!
//! The nodes are linked to each other while they are private, and then to the list with one swap per level
//! for all of them. Position, count and memory are also determined once.
//!
//! A successful swap on the lowest level proves that no node has come between the neighbours. A successor that
//! was found on a higher level before that swap follows the neighbour, and so all new entries. If a swap
//! fails, the nodes are linked one by one, which overwrites their private links of that level: no search
//! reaches a node on a level on which it is not linked.

use std::cmp::Ordering as Order;
use std::ptr::NonNull;

use cairn_format::key;

use super::atomic::Ordering;
use super::batch_insert::{Addition, INSERT_BATCH};
use super::node::{Link, MAX_HEIGHT, Node, Target};
use super::{InsertHint, SkipList, height_of};

/// Unlinked nodes in ascending order.
struct Chain<'k> {
    len: usize,
    /// The place on the lowest level, whose successor all keys precede.
    gap: Gap,
    targets: [Target<'k>; INSERT_BATCH],
    heights: [usize; INSERT_BATCH],
    nodes: [NonNull<Node>; INSERT_BATCH],
}

impl<'k> Chain<'k> {
    fn new(targets: [Target<'k>; INSERT_BATCH], len: usize, gap: Gap) -> Chain<'k> {
        Chain {
            len,
            gap,
            targets,
            heights: [0; INSERT_BATCH],
            nodes: [NonNull::dangling(); INSERT_BATCH],
        }
    }

    /// The nodes with their heights and keys.
    fn iter(&self) -> impl DoubleEndedIterator<Item = (NonNull<Node>, usize, &Target<'k>)> {
        (0..self.len).map(|at| (self.nodes[at], self.heights[at], &self.targets[at]))
    }
}

/// The place of a chain on one level.
#[derive(Clone, Copy)]
struct Gap {
    /// The last node before the chain.
    before: NonNull<Node>,
    /// Its successor, or null.
    after: *mut Node,
    /// The first node of the part of the chain that is linked so far, or `after`.
    first: *mut Node,
    /// The bound of a link to `first`.
    bound: u64,
}

impl SkipList {
    /// Inserts the first of `additions`, at most [`INSERT_BATCH`], and those after it that ascend and have the same
    /// successor in the list, which has no checksums, as [`SkipList::insert`] does. Calls `done` with the index of each, and true if it
    /// was inserted, and returns their number.
    pub(super) fn insert_run(
        &self,
        additions: &[Addition<'_>],
        hint: &mut InsertHint,
        mut done: impl FnMut(usize, bool),
    ) -> usize {
        debug_assert!(self.checks.checksum_len == 0, "the nodes have no checksums");
        let Some(&(user, packed, value)) = additions.first() else {
            return 0;
        };
        let first = Target::new(&self.order, user, packed);
        self.find_place(&first, hint);
        let mut chain = self.ascending(first, additions, hint);
        if chain.len < 2 {
            let height = self.new_height();
            let node = Node::create(&self.arena, height, &first, value, &[]);
            done(0, self.link_up(node, height, &first, hint));
            return 1;
        }
        self.create_nodes(&mut chain, additions);
        match self.splice(&chain, hint) {
            true => (0..chain.len).for_each(|at| done(at, true)),
            false => {
                for (at, (node, height, target)) in chain.iter().enumerate() {
                    done(at, self.link_up(node, height, target, hint));
                }
            }
        }
        chain.len
    }

    /// The keys of the ascending additions from the first one, `first`, that are before the successor of `hint`, the
    /// position of `first`.
    #[inline]
    fn ascending<'k>(
        &self,
        first: Target<'k>,
        additions: &[Addition<'k>],
        hint: &mut InsertHint,
    ) -> Chain<'k> {
        let mut targets = [first; INSERT_BATCH];
        let mut len = 1;
        for &(user, packed, _) in additions.iter().take(INSERT_BATCH).skip(1) {
            let target = Target::new(&self.order, user, packed);
            if self.compare(&targets[len - 1], &target) != Order::Less {
                break;
            }
            targets[len] = target;
            len += 1;
        }
        let gap = self.gap(0, &first, hint.prev[0]);
        hint.prev[0] = gap.before.as_ptr();
        if let Some(after) = NonNull::new(gap.after) {
            // SAFETY: the node was reached in this list (N1).
            let precedes = |target| unsafe { Node::compare(after, &self.order, target) };
            while len > 0 && precedes(&targets[len - 1]) != Order::Greater {
                len -= 1;
            }
        }
        Chain::new(targets, len, gap)
    }

    /// Compares two keys.
    #[inline]
    fn compare(&self, a: &Target<'_>, b: &Target<'_>) -> Order {
        a.prefix
            .cmp(&b.prefix)
            .then_with(|| key::compare_user(&self.order, a.user, b.user))
            .then_with(|| b.packed.cmp(&a.packed))
    }

    /// Creates the nodes of `chain`, in one piece of memory if they are small.
    #[inline]
    fn create_nodes(&self, chain: &mut Chain<'_>, additions: &[Addition<'_>]) {
        // Relaxed: insertions only need distinct numbers.
        let nth = self.entries.fetch_add(chain.len, Ordering::Relaxed) as u64;
        let mut bytes = 0_usize;
        let mut top = 0;
        for (at, &(_, _, value)) in additions.iter().enumerate().take(chain.len) {
            chain.heights[at] = height_of(nth + at as u64);
            top = top.max(chain.heights[at]);
            let size = Node::size(chain.heights[at], &chain.targets[at], value, 0);
            bytes = bytes.saturating_add(size);
        }
        self.raise_height(top);
        let mut place = self
            .arena
            .holds_many(bytes)
            .then(|| self.arena.allocate(bytes, align_of::<Link>()));
        for (at, &(_, _, value)) in additions.iter().enumerate().take(chain.len) {
            let (height, target) = (chain.heights[at], &chain.targets[at]);
            chain.nodes[at] = match place {
                None => Node::create(&self.arena, height, target, value, &[]),
                // SAFETY: the sizes of the nodes are multiples of their alignment, and their sum was allocated (N1).
                Some(start) => unsafe {
                    place = Some(start.add(Node::size(height, target, value, 0)));
                    Node::write(start, height, target, value, &[])
                },
            };
        }
    }

    /// Links `chain` at the position given by `hint`. Returns false, with no node linked, if another insertion
    /// interferes.
    #[inline]
    fn splice(&self, chain: &Chain<'_>, hint: &mut InsertHint) -> bool {
        let top = chain.heights[..chain.len]
            .iter()
            .copied()
            .max()
            .unwrap_or(0);
        debug_assert!((1..=MAX_HEIGHT).contains(&top), "no tower is higher");
        // The keys were compared with the successor on the lowest level, which is therefore not determined again.
        let mut gaps = [chain.gap; MAX_HEIGHT];
        for (level, gap) in gaps.iter_mut().enumerate().take(top).skip(1) {
            *gap = self.gap(level, &chain.targets[0], hint.prev[level]);
        }
        for (node, height, target) in chain.iter().rev() {
            for (level, gap) in gaps.iter_mut().enumerate().take(height) {
                // SAFETY: `node` has more than `level` links, and is private (N2).
                unsafe {
                    // Relaxed: published by a swap (N2).
                    Node::link(node, level).store(gap.first, Ordering::Relaxed);
                    Node::set_bound(node, level, gap.bound);
                }
                gap.first = node.as_ptr();
                gap.bound = target.prefix;
            }
        }
        if !self.close(0, &gaps[0]) {
            return false;
        }
        for (level, gap) in gaps.iter().enumerate().take(top).skip(1) {
            if self.close(level, gap) {
                continue;
            }
            let mut prev = gap.before.as_ptr();
            for (node, _, target) in chain.iter().filter(|(_, height, _)| *height > level) {
                let linked = self.link(node, level, target, &mut prev);
                debug_assert!(linked, "only the lowest level rejects a node");
            }
        }
        for (node, height, _) in chain.iter() {
            hint.prev[..height].fill(node.as_ptr());
        }
        hint.list = self.number;
        true
    }

    /// The gap on `level` for keys from `first` on, found from `prev`, which precedes `first`.
    #[inline]
    fn gap(&self, level: usize, first: &Target<'_>, prev: *mut Node) -> Gap {
        let prev = NonNull::new(prev).expect("a search sets every level");
        // SAFETY: `prev` is the head or was reached on this level (N4, N6).
        let (before, bound, after) = unsafe {
            let (before, after) = self.walk(prev, level, first);
            // As in `SkipList::link`: a bound ever set holds for every later successor (N5).
            (before, Node::bound(before, level), after)
        };
        let after = after.map_or(std::ptr::null_mut(), NonNull::as_ptr);
        Gap {
            before,
            after,
            first: after,
            bound,
        }
    }

    /// Links the first node of the chain in `gap`. Returns false if the gap has changed.
    #[inline]
    fn close(&self, level: usize, gap: &Gap) -> bool {
        // SAFETY: `before` has a link of the level (N4).
        unsafe {
            // Release pairs with the acquire in `Node::next` (N2). Acquire orders the bound that is set below
            // after the link (N5).
            let swapped = Node::link(gap.before, level).compare_exchange(
                gap.after,
                gap.first,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            if swapped.is_ok() {
                Node::set_bound(gap.before, level, gap.bound);
            }
            swapped.is_ok()
        }
    }
}
