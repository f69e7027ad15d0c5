//! Filling an empty list with sorted entries, and shifting the sequence numbers of all entries at once.
//!
//! A transaction that is committed past the memtable is sorted before its sequence numbers are known. Its list is
//! filled with numbers relative to the first one, without searches and atomic operations. [`SkipList::shift`] then takes
//! constant time: the entries are changed by the next read, or by [`SkipList::finish_shift`], under the lock of deferred
//! insertions and their flag, which reads check in any case.

use std::ptr::NonNull;

use cairn_format::key;
use cairn_types::KeyOrder;

use super::atomic::Ordering;
use super::node::{MAX_HEIGHT, Node, Target, prefix_of};
use super::{Addition, SkipList, checks, height_of};

/// Returns the positions of `count` entries in the order of a list. Sequence numbers ascend with the positions, and
/// `user_key` returns the user key at a position.
pub(crate) fn sorted_positions<'a, K: Fn(usize) -> &'a [u8]>(
    order: &KeyOrder,
    count: usize,
    user_key: K,
) -> impl Iterator<Item = usize> + use<K> {
    let mut positions: Vec<(u64, usize)> = (0..count)
        .map(|at| (prefix_of(order, user_key(at)), at))
        .collect();
    positions.sort_unstable_by(|a, b| {
        let keys = || key::compare_user(order, user_key(a.1), user_key(b.1));
        // Of equal keys, the newest comes first.
        a.0.cmp(&b.0).then_with(keys).then_with(|| b.1.cmp(&a.1))
    });
    positions.into_iter().map(|(_, at)| at)
}

impl SkipList {
    /// Adds entries in ascending order to the list, which is empty.
    pub(crate) fn fill<'a>(&mut self, sorted: impl Iterator<Item = Addition<'a>>) {
        debug_assert_eq!(self.entries(), 0, "only an empty list is filled");
        let mut tails = [self.head; MAX_HEIGHT];
        let (mut count, mut highest) = (0, 1);
        for (user, packed, value) in sorted {
            let target = Target::new(&self.order, user, packed);
            let height = height_of(count);
            let node = self.create_node(height, &target, value);
            for (level, tail) in tails[..height].iter_mut().enumerate() {
                // Relaxed: the list is published later, as a whole.
                // SAFETY: `tail` is the head or a node with a link of `level` (N4), and the list is alive.
                unsafe {
                    debug_assert!(
                        *tail == self.head || Node::compare(*tail, &self.order, &target).is_lt(),
                        "entries ascend"
                    );
                    Node::link(*tail, level).store(node.as_ptr(), Ordering::Relaxed);
                    // The next node is this one (N5).
                    Node::set_bound(*tail, level, target.prefix);
                }
                *tail = node;
            }
            count += 1;
            highest = highest.max(height);
        }
        self.height.store(highest, Ordering::Relaxed);
        // Truncation is impossible: as many nodes are in memory.
        self.entries.store(count as usize, Ordering::Relaxed);
    }

    /// Adds `base` to the sequence number of every entry, before the next read.
    pub(crate) fn shift(&mut self, base: u64) {
        self.deferred.set_shift(base);
    }

    /// Changes the entries now, if [`SkipList::shift`] was called and they are unchanged.
    pub(crate) fn finish_shift(&self) {
        self.link_pending();
    }

    /// Adds `base` to the sequence number of every entry. The caller holds the lock of deferred insertions, and has not
    /// cleared the flag that makes readers acquire it.
    pub(super) fn shift_entries(&self, base: u64) {
        // SAFETY: the head has all links, and every node has one of level 0 (N4).
        let mut at = unsafe { Node::next(self.head, 0) };
        while let Some(node) = at {
            // SAFETY: as above, for the next node. The entry is exclusive to this thread: the list was filled and
            // shifted before it was published, and a reader waits for the lock before it reads an entry (N7).
            unsafe {
                at = Node::next(node, 0);
                Node::prefetch_entry(at);
                self.shift_entry(node, base);
            }
        }
    }

    /// Adds `base` to the sequence number of `node`.
    ///
    /// # Safety
    ///
    /// The node must belong to this list, and no other thread may access its entry.
    unsafe fn shift_entry(&self, node: NonNull<Node>, base: u64) {
        // SAFETY: the caller's contract.
        unsafe {
            let packed = key::packed(Node::key(node)) + (base << 8);
            Node::set_packed(node, packed);
            let len = usize::from(self.checks.checksum_len);
            if len > 0 {
                let sum = checks::checksum_of(&self.target_of(node), Node::value(node));
                Node::set_checksum(node, &sum[..len]);
            }
        }
    }
}
