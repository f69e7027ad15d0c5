//! Entries that wait to be sorted: a list for bulk loads takes them as they come, and links them in
//! when it is first read.
//!
//! To append costs a copy into the arena and a push; all that has come since the last read is sorted
//! by whoever reads next, and linked in ascending order, for which every place is found at once.

use std::ptr::NonNull;

use cairn_format::key;
use cairn_platform::sync::{AtomicBool, Mutex, Ordering};

use super::comparator_guard::{assert_not_held, holding};
use super::node::{Node, Target};
use super::{InsertHint, SkipList};

/// The entries that wait; nodes of the list that this is in (N1), each with its height.
#[derive(Default)]
pub(super) struct UnsortedBuffer {
    nodes: Mutex<Vec<(NonNull<Node>, usize)>>,
    /// True if there are any.
    waiting: AtomicBool,
}

impl SkipList {
    /// A list that is sorted only when it is read.
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
        let node = Node::create(&self.arena, height, target, value);
        let mut nodes = unsorted.nodes.lock();
        nodes.push((node, height));
        // Release pairs with the acquire in `sort_pending`. That the reader of a published sequence number
        // sees it follows from the publication.
        unsorted.waiting.store(true, Ordering::Release);
    }

    /// Sees to it that what was appended can be read.
    #[inline]
    pub(super) fn sort_pending(&self, unsorted: &UnsortedBuffer) {
        if unsorted.waiting.load(Ordering::Acquire) {
            self.sort_in(unsorted);
        }
    }

    #[cold]
    fn sort_in(&self, unsorted: &UnsortedBuffer) {
        assert_not_held(&self.order, unsorted);
        // Held to the end: other readers need all of it as well.
        let mut nodes = unsorted.nodes.lock();
        holding(&self.order, unsorted, || self.sort_and_link(&mut nodes));
        unsorted.waiting.store(false, Ordering::Release);
    }

    /// Links `nodes` in. Those that a panic of the comparator keeps from that stay for the next reader.
    fn sort_and_link(&self, nodes: &mut Vec<(NonNull<Node>, usize)>) {
        // SAFETY: the nodes are of this list, which lives (N1).
        let key_of = |node: NonNull<Node>| unsafe { Node::key(node) };
        // Descending: the smallest, which is linked first, is taken from the end.
        nodes.sort_unstable_by(|(a, _), (b, _)| key::compare(&self.order, key_of(*b), key_of(*a)));
        let mut hint = InsertHint::default();
        while let Some(&(node, height)) = nodes.last() {
            self.place(node, height, &self.target_of(node), &mut hint);
            nodes.pop();
        }
    }
}
