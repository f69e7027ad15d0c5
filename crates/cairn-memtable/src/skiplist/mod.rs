//! The sorted list under a memtable: a skiplist in an arena, which many threads insert into and
//! read at the same time without a lock.
//!
//! An insertion finds its place on every level, writes a node that nobody sees, and links it from
//! the lowest level up, each with one compare-and-swap; who loses a swap looks on from where it
//! stands. Readers follow links and wait for nobody, unless a lone writer has put off what they have to
//! see (`deferred.rs`). Nodes are not removed.
//!
//! Invariants of the list, cited by number:
//!
//! N1. A node's memory is laid out as `node.rs` draws it, and lives as long as the arena, which
//!     lives as long as the list. Nodes are made by `Node::create` only.
//! N2. A node is complete before it is published: its key, value and own links are written before
//!     the release that makes it reachable, and key and value never change afterwards.
//! N3. Links change only from a node to one with a smaller key (insertion in between), so whoever
//!     stands before a key stays before it.
//! N4. A node reached through a link of `level` has more than `level` links; the head has all.
//! N5. The bound beside a link is never below the prefix of the node that the link leads to: it is
//!     set, after the link, to the prefix of a node that the link then led to, and links move to
//!     smaller keys only (N3). It may be above; so it serves to go down early, never to insert.
//! N6. A hint holds nodes of the list whose number it carries; numbers are never used twice.
#![expect(
    unsafe_code,
    reason = "nodes of variable size in an arena, linked by atomics"
)]

mod batch_insert;
pub(crate) mod comparator_guard;
mod deferred_insert;
mod node;
mod prefetch;
mod unsorted_buffer;

#[cfg(not(loom))]
mod atomic {
    pub(super) use cairn_platform::sync::{
        AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Mutex, Ordering,
    };
}
#[cfg(loom)]
mod atomic {
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

    /// Loom's mutex with the functions of the one that it stands for.
    pub(super) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(super) fn new(value: T) -> Mutex<T> {
            Mutex(loom::sync::Mutex::new(value))
        }

        pub(super) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().expect("no model panics under a lock")
        }

        pub(super) fn try_lock(&self) -> Option<loom::sync::MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }
}

use std::cmp::Ordering as Order;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use cairn_memory::Arena;
use cairn_types::{KeyOrder, SequenceNumber, ValueKind};

use atomic::{AtomicUsize, Ordering};
pub(crate) use batch_insert::Addition;
pub use batch_insert::INSERT_BATCH;
use deferred_insert::Deferred;
use node::{MAX_HEIGHT, Node, Target};
pub(crate) use prefetch::Prefetcher;
use unsorted_buffer::UnsortedBuffer;

/// The list; see the module's documentation.
pub(crate) struct SkipList {
    order: KeyOrder,
    head: NonNull<Node>,
    /// Levels in use; only a hint where to begin.
    height: AtomicUsize,
    /// Insertions so far, those under way included.
    entries: AtomicUsize,
    /// Which list this is, for hints.
    number: u64,
    arena: Arena,
    /// What a lone writer has not linked in yet.
    deferred: Deferred,
    /// What is not linked in yet, if the list is sorted only when it is read.
    unsorted: Option<Box<UnsortedBuffer>>,
}

// SAFETY: all that threads share are nodes, which are immutable but for their atomic links (N2) and
// live as long as the list (N1).
unsafe impl Send for SkipList {}
// SAFETY: as above.
unsafe impl Sync for SkipList {}

/// The number of no list.
const NO_LIST: u64 = 0;

/// Where the last insertion went, so that the next one begins its search there. Keys in ascending
/// order find their place at once. Works for any memtable, best for the one it was used with last.
pub struct InsertHint {
    list: u64,
    /// On each level the last node that is not behind the last insertion.
    prev: [*mut Node; MAX_HEIGHT],
}

// SAFETY: the pointers are only followed by the list that they belong to (N6), which is `Sync`.
unsafe impl Send for InsertHint {}

impl Default for InsertHint {
    fn default() -> InsertHint {
        InsertHint {
            list: NO_LIST,
            prev: [ptr::null_mut(); MAX_HEIGHT],
        }
    }
}

/// An entry of a list, seen through a reference to it.
#[derive(Clone, Copy)]
pub struct Entry<'l> {
    /// A pointer although a reference is meant: an entry may be stored beside the owner of its
    /// list, and the two may be passed to the function that drops both.
    list: NonNull<SkipList>,
    node: NonNull<Node>,
    lifetime: PhantomData<&'l SkipList>,
}

// SAFETY: an entry is a reference to an immutable node (N2) of a list that is `Sync`.
unsafe impl Send for Entry<'_> {}
// SAFETY: as above.
unsafe impl Sync for Entry<'_> {}

impl<'l> Entry<'l> {
    /// The internal key.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &'l [u8] {
        // SAFETY: the list, and so the arena, lives for `'l` (N1).
        unsafe { Node::key(self.node) }
    }

    /// The user key, timestamp included.
    #[inline]
    #[must_use]
    pub fn user_key(&self) -> &'l [u8] {
        cairn_format::key::user_key(self.key())
    }

    /// The sequence number.
    #[inline]
    #[must_use]
    pub fn seq(&self) -> SequenceNumber {
        cairn_format::key::sequence(self.key())
    }

    /// What the entry is.
    #[inline]
    #[must_use]
    pub fn kind(&self) -> ValueKind {
        let packed = cairn_format::key::packed(self.key());
        // Truncation is meant: the kind is the lowest byte.
        ValueKind::from_u8(packed as u8).expect("only kinds are inserted")
    }

    /// The value.
    #[inline]
    #[must_use]
    pub fn value(&self) -> &'l [u8] {
        // SAFETY: the list, and so the arena, lives for `'l` (N1).
        unsafe { Node::value(self.node) }
    }

    #[inline]
    fn list(&self) -> &'l SkipList {
        // SAFETY: the list is borrowed for `'l`.
        unsafe { self.list.as_ref() }
    }

    /// The entry behind this one.
    #[inline]
    pub(crate) fn next(&self) -> Option<Entry<'l>> {
        // SAFETY: every node has a link of level 0 (N4).
        self.list().entry(unsafe { Node::next(self.node, 0) })
    }

    /// The entry before this one.
    pub(crate) fn prev(&self) -> Option<Entry<'l>> {
        let key = self.key();
        let packed = cairn_format::key::packed(key);
        self.list().before(cairn_format::key::user_key(key), packed)
    }

    /// The same entry with the lifetime `'long`.
    ///
    /// # Safety
    ///
    /// The list lives for `'long`, at the same address.
    pub(crate) unsafe fn extended<'long>(self) -> Entry<'long> {
        Entry {
            list: self.list,
            node: self.node,
            lifetime: PhantomData,
        }
    }

    /// True if this is an entry of `list`.
    pub(crate) fn is_of(&self, list: &SkipList) -> bool {
        ptr::eq(self.list.as_ptr(), list)
    }
}

impl SkipList {
    pub(crate) fn new(order: KeyOrder, arena_block: usize) -> SkipList {
        use cairn_platform::sync::{AtomicU64 as Counter, Ordering::Relaxed};
        static LISTS: Counter = Counter::new(1);
        let arena = Arena::new(arena_block);
        let nothing = Target {
            prefix: 0,
            user: &[],
            packed: 0,
        };
        SkipList {
            order,
            head: Node::create(&arena, MAX_HEIGHT, &nothing, &[]),
            height: AtomicUsize::new(1),
            entries: AtomicUsize::new(0),
            number: LISTS.fetch_add(1, Relaxed),
            arena,
            deferred: Deferred::default(),
            unsorted: None,
        }
    }

    pub(crate) fn order(&self) -> &KeyOrder {
        &self.order
    }

    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// How many insertions began.
    pub(crate) fn entries(&self) -> usize {
        self.entries.load(Ordering::Relaxed)
    }

    /// Inserts an entry, beginning the search at `hint`. `false` if exactly this internal key is
    /// here already; then nothing changes. A list that is sorted deferred takes every entry and keeps
    /// one of two equal ones.
    pub(crate) fn insert(
        &self,
        user: &[u8],
        packed: u64,
        value: &[u8],
        hint: &mut InsertHint,
    ) -> bool {
        let target = Target::new(&self.order, user, packed);
        let height = self.new_height();
        if let Some(unsorted) = &self.unsorted {
            self.append(unsorted, &target, value, height);
            return true;
        }
        let node = Node::create(&self.arena, height, &target, value);
        self.place(node, height, &target, hint)
    }

    /// Sees to it that what was not linked in yet can be read.
    #[inline]
    fn link_pending(&self) {
        if self.deferred.waiting.load(Ordering::Acquire) {
            self.link_deferred_now();
        }
        if let Some(unsorted) = &self.unsorted {
            self.sort_pending(unsorted);
        }
    }

    /// What `node`, which is of this list and not linked in yet, is to be linked in as.
    #[inline]
    fn target_of(&self, node: NonNull<Node>) -> Target<'_> {
        // SAFETY: the node is of this list, which lives (N1).
        let internal = unsafe { Node::key(node) };
        let (user, packed) = (
            cairn_format::key::user_key(internal),
            cairn_format::key::packed(internal),
        );
        Target::new(&self.order, user, packed)
    }

    /// Links `node`, beginning the search at `hint`.
    #[inline]
    fn place(
        &self,
        node: NonNull<Node>,
        height: usize,
        target: &Target<'_>,
        hint: &mut InsertHint,
    ) -> bool {
        self.find_place(target, hint);
        self.link_up(node, height, target, hint)
    }

    /// Links `node` where `hint` says that it belongs.
    #[inline(always)]
    fn link_up(
        &self,
        node: NonNull<Node>,
        height: usize,
        target: &Target<'_>,
        hint: &mut InsertHint,
    ) -> bool {
        for level in 0..height {
            if !self.link(node, level, target, &mut hint.prev[level]) {
                self.entries.fetch_sub(1, Ordering::Relaxed);
                hint.list = self.number;
                return false;
            }
        }
        for prev in &mut hint.prev[..height] {
            *prev = node.as_ptr();
        }
        hint.list = self.number;
        true
    }

    /// Links `node` on `level` somewhere behind `prev`, which is moved to just before it. `false`
    /// if an entry with its key is there.
    #[inline]
    fn link(
        &self,
        node: NonNull<Node>,
        level: usize,
        target: &Target<'_>,
        prev: &mut *mut Node,
    ) -> bool {
        // SAFETY: `prev` is the head or was reached on this level, now or for an earlier insertion
        // (N4, N6), and `node` has more than `level` links.
        unsafe {
            let mut before = NonNull::new(*prev).expect("a search leaves a node on every level");
            loop {
                let (place, next) = self.walk(before, level, target);
                before = place;
                *prev = place.as_ptr();
                if next == Some(node) {
                    // It was linked here before the comparator panicked.
                    return true;
                }
                if let Some(next) = next
                    && level == 0
                    && Node::compare(next, &self.order, target) == Order::Equal
                {
                    return false;
                }
                let next = next.map_or(ptr::null_mut(), NonNull::as_ptr);
                // Relaxed: the swap below publishes it (N2).
                Node::link(node, level).store(next, Ordering::Relaxed);
                // If the swap succeeds, `place` led to `next` all the while, and its bound holds
                // for `next` (N5).
                Node::set_bound(node, level, Node::bound(place, level));
                // Release pairs with the acquire in `Node::next` (N2); acquire keeps the bound that
                // is set below behind the link (N5). On failure nothing is used of what was found;
                // the walk loads it again.
                let swapped = Node::link(place, level).compare_exchange(
                    next,
                    node.as_ptr(),
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                );
                if swapped.is_ok() {
                    Node::set_bound(place, level, target.prefix);
                    return true;
                }
            }
        }
    }

    /// Leaves in `hint`, on every level, a node before `target` that is close to it. It is the hint of no list until
    /// [`SkipList::link_up`].
    #[inline(always)]
    fn find_place(&self, target: &Target<'_>, hint: &mut InsertHint) {
        let height = self.height.load(Ordering::Relaxed);
        let start = match self.trusted_levels(target, hint, height) {
            Some(level) => level,
            None => {
                hint.prev = [self.head.as_ptr(); MAX_HEIGHT];
                height
            }
        };
        // Until the insertion is done: where the comparator panics, the levels do not agree.
        hint.list = NO_LIST;
        let mut level = start;
        // A level that is kept begins where the one above it ended, or where it was.
        let mut at = None;
        while level > 0 {
            level -= 1;
            let from = at.or(NonNull::new(hint.prev[level])).unwrap_or(self.head);
            // SAFETY: `from` is the head, or was reached on this level or a higher one (N4, N6).
            let place = unsafe { self.approach(from, level, target) };
            hint.prev[level] = place.as_ptr();
            at = Some(place);
        }
    }

    /// From which level on upwards `hint` can be kept for `target`, or `None` if it is of no use.
    #[inline(always)]
    fn trusted_levels(
        &self,
        target: &Target<'_>,
        hint: &InsertHint,
        height: usize,
    ) -> Option<usize> {
        if hint.list != self.number {
            return None;
        }
        let last = NonNull::new(hint.prev[0])?;
        // SAFETY: the hint is of this list (N6).
        if last != self.head && unsafe { Node::compare(last, &self.order, target) } != Order::Less {
            return None;
        }
        // All of the hint is before the target now, as it is nowhere behind `last`.
        (0..height)
            .find(|&level| {
                // SAFETY: `prev[level]` has a link of that level (N4, N6).
                NonNull::new(hint.prev[level])
                    .is_some_and(|prev| unsafe { !self.next_is_before(prev, level, target) })
            })
            .or(Some(height))
    }

    /// True if the node behind `node` on `level` is before `target`.
    ///
    /// # Safety
    ///
    /// `node` is of this list and has a link of `level`.
    #[inline]
    unsafe fn next_is_before(
        &self,
        node: NonNull<Node>,
        level: usize,
        target: &Target<'_>,
    ) -> bool {
        // SAFETY: the caller's promise, and N4 for the next node.
        unsafe {
            if level > 0 && target.prefix < Node::bound(node, level) {
                return false;
            }
            Node::next(node, level)
                .is_some_and(|next| Node::compare(next, &self.order, target) == Order::Less)
        }
    }

    /// Goes from `node`, which is before `target`, as far on `level` as it is sure to stay before
    /// it without touching what lies behind.
    ///
    /// # Safety
    ///
    /// `node` is of this list and has a link of `level`.
    #[inline]
    unsafe fn approach(
        &self,
        mut node: NonNull<Node>,
        level: usize,
        target: &Target<'_>,
    ) -> NonNull<Node> {
        // SAFETY: the caller's promise for the first node, N4 for all others.
        unsafe {
            while level == 0 || target.prefix >= Node::bound(node, level) {
                match Node::next(node, level) {
                    Some(next) if Node::compare(next, &self.order, target) == Order::Less => {
                        node = next;
                    }
                    _ => break,
                }
            }
        }
        node
    }

    /// Goes from `node`, which is before `target`, to the last node on `level` that is, and returns
    /// it with the one behind it.
    ///
    /// # Safety
    ///
    /// `node` is of this list and has a link of `level`.
    #[inline]
    unsafe fn walk(
        &self,
        mut node: NonNull<Node>,
        level: usize,
        target: &Target<'_>,
    ) -> (NonNull<Node>, Option<NonNull<Node>>) {
        // SAFETY: the caller's promise for the first node, N4 for all others.
        unsafe {
            loop {
                let next = Node::next(node, level);
                let Some(candidate) = next else {
                    return (node, None);
                };
                Node::prefetch(Node::next(candidate, level), level);
                if Node::compare(candidate, &self.order, target) != Order::Less {
                    return (node, next);
                }
                node = candidate;
            }
        }
    }

    /// The last node before `target` (or the head), and the one behind it.
    #[inline]
    fn search(&self, target: &Target<'_>) -> (NonNull<Node>, Option<NonNull<Node>>) {
        self.link_pending();
        let mut node = self.head;
        for level in (1..self.height.load(Ordering::Relaxed)).rev() {
            // SAFETY: `node` is the head or was reached on this level or a higher one (N4).
            node = unsafe { self.approach(node, level, target) };
        }
        // SAFETY: every node has a link of level 0 (N4).
        unsafe { self.walk(node, 0, target) }
    }

    /// The first entry at or behind the internal key of these parts.
    #[inline]
    pub(crate) fn at_or_after(&self, user: &[u8], packed: u64) -> Option<Entry<'_>> {
        let (_, next) = self.search(&Target::new(&self.order, user, packed));
        self.entry(next)
    }

    /// The last entry before the internal key of these parts.
    pub(crate) fn before(&self, user: &[u8], packed: u64) -> Option<Entry<'_>> {
        let (node, _) = self.search(&Target::new(&self.order, user, packed));
        self.entry((node != self.head).then_some(node))
    }

    /// The first entry.
    pub(crate) fn first(&self) -> Option<Entry<'_>> {
        self.link_pending();
        // SAFETY: the head has all links.
        self.entry(unsafe { Node::next(self.head, 0) })
    }

    /// The last entry.
    pub(crate) fn last(&self) -> Option<Entry<'_>> {
        self.link_pending();
        let mut node = self.head;
        for level in (0..self.height.load(Ordering::Relaxed)).rev() {
            // SAFETY: `node` is the head or was reached on this level or a higher one (N4).
            while let Some(next) = unsafe { Node::next(node, level) } {
                node = next;
            }
        }
        self.entry((node != self.head).then_some(node))
    }

    #[inline]
    fn entry(&self, node: Option<NonNull<Node>>) -> Option<Entry<'_>> {
        node.map(|node| Entry {
            list: NonNull::from(self),
            node,
            lifetime: PhantomData,
        })
    }

    /// How many links the next node gets: one, and another for each quarter of chance. The order
    /// of insertions decides, so that a run can be repeated.
    #[inline]
    fn new_height(&self) -> usize {
        // Relaxed: the number only has to differ from insertion to insertion.
        let nth = self.entries.fetch_add(1, Ordering::Relaxed) as u64;
        let height = height_of(nth);
        // Relaxed: a reader that sees an old height only starts lower.
        if height > self.height.load(Ordering::Relaxed) {
            self.height.fetch_max(height, Ordering::Relaxed);
        }
        height
    }
}

/// The links of the `nth` node.
#[inline]
fn height_of(nth: u64) -> usize {
    let mut bits = (nth + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits ^= bits >> 27;
    (1 + bits.trailing_zeros() as usize / 2).min(MAX_HEIGHT)
}

#[cfg(all(test, not(loom)))]
mod panic_tests;
#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests;
