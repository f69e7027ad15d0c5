//! The unsorted entries of a memtable for bulk loads, which are sorted and linked when the memtable is first
//! read.
//!
//! An append costs a copy into the arena and a push. The next reader sorts everything appended since the last
//! read and links it in ascending order, so that each position is found immediately from the previous one.

use std::ptr::NonNull;

use cairn_format::key;
use cairn_platform::sync::{AtomicBool, AtomicUsize, Mutex, Ordering};

use super::comparator_guard::{assert_not_held, holding};
use super::node::{Node, Target};
use super::{InsertHint, SkipList};

/// Unlinked nodes of the list that owns the buffer (N1), each with its height.
#[derive(Default)]
pub(super) struct UnsortedBuffer {
    nodes: Mutex<Vec<(NonNull<Node>, usize)>>,
    /// True if the buffer is not empty.
    waiting: AtomicBool,
    /// The memory of `nodes` in bytes, which never shrinks.
    memory: AtomicUsize,
}

impl SkipList {
    /// Makes the list sort its entries only when it is read.
    pub(crate) fn sort_on_read(mut self) -> SkipList {
        self.unsorted = Some(Box::default());
        self
    }

    pub(super) fn append(
        &self,
        unsorted: &UnsortedBuffer,
        target: &Target<'_>,
        value: &[u8],
        height: usize,
    ) {
        let node = self.create_node(height, target, value);
        let mut nodes = unsorted.nodes.lock();
        nodes.push((node, height));
        // Relaxed: informational.
        let memory = nodes.capacity() * size_of::<(NonNull<Node>, usize)>();
        unsorted.memory.store(memory, Ordering::Relaxed);
        // Release pairs with the acquire in `sort_pending`. A reader that uses a published sequence number
        // sees this store because of the publication.
        unsorted.waiting.store(true, Ordering::Release);
    }

    /// The memory of the buffer of unsorted entries, in bytes, which never shrinks.
    #[inline]
    pub(crate) fn unsorted_memory(&self) -> usize {
        let unsorted = self.unsorted.as_ref();
        unsorted.map_or(0, |it| it.memory.load(Ordering::Relaxed))
    }

    /// Makes the appended entries readable.
    #[inline]
    pub(super) fn sort_pending(&self, unsorted: &UnsortedBuffer) {
        if unsorted.waiting.load(Ordering::Acquire) {
            self.sort_in(unsorted);
        }
    }

    #[cold]
    fn sort_in(&self, unsorted: &UnsortedBuffer) {
        assert_not_held(&self.order, unsorted);
        // Held to the end, because other readers need every entry as well.
        let mut nodes = unsorted.nodes.lock();
        holding(&self.order, unsorted, || self.sort_and_link(&mut nodes));
        unsorted.waiting.store(false, Ordering::Release);
    }

    /// Links `nodes`. If the comparator panics, the next reader links the remaining ones.
    fn sort_and_link(&self, nodes: &mut Vec<(NonNull<Node>, usize)>) {
        // SAFETY: the nodes belong to this list, which is alive (N1).
        let key_of = |node: NonNull<Node>| unsafe { Node::key(node) };
        // Descending order: the smallest is linked first and is popped from the end.
        nodes.sort_unstable_by(|(a, _), (b, _)| key::compare(&self.order, key_of(*b), key_of(*a)));
        let mut hint = InsertHint::default();
        while let Some(&(node, height)) = nodes.last() {
            self.place(node, height, &self.target_of(node), &mut hint);
            nodes.pop();
        }
    }
}
