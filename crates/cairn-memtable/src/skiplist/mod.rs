//! The skiplist of a memtable: nodes in an arena, inserted and read by many threads without a lock.
//!
//! An insertion finds its position on every level, writes a private node, and links it from the
//! lowest level up with one compare-and-swap per level. A writer that loses a swap resumes the
//! search from its current node. Readers follow links and never block, except to link insertions
//! that a single writer has deferred (`deferred_insert.rs`). Nodes are never removed.
//!
//! Invariants, cited by number:
//!
//! N1. A node has the memory layout drawn in `node.rs`, and lives as long as the arena, which lives as long
//!     as the list. Only `Node::write` makes nodes.
//! N2. A node is complete before it is published: its key, value and own links are written before the release
//!     that makes it reachable. Key and value never change afterwards, except as N7 permits.
//! N3. A link changes only to a node with a smaller key (one inserted in between), so a node that
//!     precedes a key continues to precede it.
//! N4. A node reached through a link of `level` has more than `level` links. The head has all levels.
//! N5. The bound of a link is never less than the prefix of the node that the link points to: it is
//!     set after the link, to the prefix of the node that the link pointed to at that time, and
//!     links only change to smaller keys (N3). The release store of a bound pairs with the acquire
//!     load in `Node::bound`, so a link that is read after its bound is not older than the bound. A
//!     prefix above the bound is therefore above that of the next node. A bound may be greater, so a
//!     prefix that is not above it proves nothing: it may decide when a search descends, but never
//!     where a node is inserted.
//! N6. A hint holds nodes of the list with the hint's number. Numbers are never reused.
//! N7. The sequence numbers, and the checksums, of the entries of a list that was filled before it was published change
//!     at most once, by a thread that holds the lock of deferred insertions, before any reader has an entry: every read
//!     calls `link_pending` first.
#![expect(
    unsafe_code,
    reason = "variable-sized nodes in an arena, linked by atomics"
)]

mod batch_insert;
mod checks;
pub(crate) mod comparator_guard;
mod deferred_insert;
mod node;
mod prefetch;
mod run;
mod sorted_fill;
mod splice;
mod unsorted_buffer;

#[cfg(not(loom))]
pub(crate) mod atomic {
    pub(crate) use cairn_platform::sync::{
        AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Mutex, Ordering,
    };
}
#[cfg(loom)]
pub(crate) mod atomic {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

    /// Loom's mutex with the interface of the platform's.
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Mutex<T> {
            Mutex(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().expect("no model panics under a lock")
        }

        pub(crate) fn try_lock(&self) -> Option<loom::sync::MutexGuard<'_, T>> {
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
pub use checks::Checks;
use deferred_insert::Deferred;
use node::{MAX_HEIGHT, Node, Target};
pub(crate) use prefetch::Prefetcher;
pub(crate) use run::Run;
pub(crate) use sorted_fill::sorted_positions;
use unsorted_buffer::UnsortedBuffer;

/// A concurrent skiplist; see the module's documentation.
pub(crate) struct SkipList {
    order: KeyOrder,
    head: NonNull<Node>,
    /// The number of levels in use. May be stale; only the start of a search depends on it.
    height: AtomicUsize,
    /// The number of insertions so far, including those in progress.
    entries: AtomicUsize,
    /// The unique number of the list, for hints.
    number: u64,
    arena: Arena,
    checks: Checks,
    /// Insertions that a single writer has deferred.
    deferred: Deferred,
    /// Unlinked entries, if the list is sorted on read.
    unsorted: Option<Box<UnsortedBuffer>>,
}

// SAFETY: threads share nothing but nodes, which are immutable except for their atomic links (N2) and live as
// long as the list (N1).
unsafe impl Send for SkipList {}
// SAFETY: as above.
unsafe impl Sync for SkipList {}

/// A number that no list has.
const NO_LIST: u64 = 0;

/// The position of an insertion, from which the next search starts. Ascending keys find their
/// position immediately. A hint may be used with any memtable, but only helps with the one it was
/// last used with.
pub struct InsertHint {
    list: u64,
    /// On each level, the last node at or before the insertion.
    prev: [*mut Node; MAX_HEIGHT],
}

// SAFETY: the pointers are dereferenced only by the list they belong to (N6), which is `Sync`.
unsafe impl Send for InsertHint {}

impl Default for InsertHint {
    fn default() -> InsertHint {
        InsertHint {
            list: NO_LIST,
            prev: [ptr::null_mut(); MAX_HEIGHT],
        }
    }
}

/// An entry of a skiplist, borrowed from the list.
#[derive(Clone, Copy)]
pub struct Entry<'l> {
    /// A pointer rather than a reference, because an entry may be stored next to the owner of its
    /// list and both may be passed to the function that drops them.
    list: NonNull<SkipList>,
    node: NonNull<Node>,
    lifetime: PhantomData<&'l SkipList>,
}

// SAFETY: an entry is a shared reference to an immutable node (N2) of a list that is `Sync`.
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

    /// The user key, including its timestamp.
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

    /// The kind of the entry.
    #[inline]
    #[must_use]
    pub fn kind(&self) -> ValueKind {
        let packed = cairn_format::key::packed(self.key());
        // Truncation is intended: the kind is the lowest byte.
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

    /// The next entry.
    #[inline]
    pub(crate) fn next(&self) -> Option<Entry<'l>> {
        // SAFETY: every node has a link of level 0 (N4).
        self.list().entry(unsafe { Node::next(self.node, 0) })
    }

    /// The previous entry.
    pub(crate) fn prev(&self) -> Option<Entry<'l>> {
        let key = self.key();
        let packed = cairn_format::key::packed(key);
        self.list().before(cairn_format::key::user_key(key), packed)
    }

    /// Extends the lifetime of the entry to `'long`.
    ///
    /// # Safety
    ///
    /// The list must live for `'long`, at its current address.
    pub(crate) unsafe fn extended<'long>(self) -> Entry<'long> {
        Entry {
            list: self.list,
            node: self.node,
            lifetime: PhantomData,
        }
    }

    /// True if the entry belongs to `list`.
    #[inline]
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
            head: Node::create(&arena, MAX_HEIGHT, &nothing, &[], &[]),
            height: AtomicUsize::new(1),
            entries: AtomicUsize::new(0),
            number: LISTS.fetch_add(1, Relaxed),
            arena,
            checks: Checks::default(),
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

    /// The number of insertions so far, including those in progress.
    pub(crate) fn entries(&self) -> usize {
        self.entries.load(Ordering::Relaxed)
    }

    /// True if entries are sorted when they are read, not when they are inserted.
    pub(crate) fn is_sorted_on_read(&self) -> bool {
        self.unsorted.is_some()
    }

    /// Inserts an entry, starting the search at `hint`. Returns false, leaving the list unchanged, if the
    /// internal key is present. A list that is sorted on read accepts duplicates and later keeps one of them.
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
        let node = self.create_node(height, &target, value);
        self.place(node, height, &target, hint)
    }

    /// Makes an unlinked node.
    #[inline]
    fn create_node(&self, height: usize, target: &Target<'_>, value: &[u8]) -> NonNull<Node> {
        let len = usize::from(self.checks.checksum_len);
        match len {
            0 => Node::create(&self.arena, height, target, value, &[]),
            _ => {
                let sum = checks::checksum_of(target, value);
                Node::create(&self.arena, height, target, value, &sum[..len])
            }
        }
    }

    /// Links entries that are deferred or unsorted, so that they can be read.
    #[inline]
    fn link_pending(&self) {
        if self.deferred.waiting.load(Ordering::Acquire) {
            self.link_deferred_now();
        }
        if let Some(unsorted) = &self.unsorted {
            self.sort_pending(unsorted);
        }
    }

    /// The search target for `node`, an unlinked node of this list.
    #[inline]
    fn target_of(&self, node: NonNull<Node>) -> Target<'_> {
        // SAFETY: the node belongs to this list, which is alive (N1).
        let internal = unsafe { Node::key(node) };
        let (user, packed) = (
            cairn_format::key::user_key(internal),
            cairn_format::key::packed(internal),
        );
        Target::new(&self.order, user, packed)
    }

    /// Links `node`, starting the search at `hint`. Returns false if its key is present.
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

    /// Links `node` at the position given by `hint`. Returns false if its key is present.
    #[inline(always)]
    fn link_up(
        &self,
        node: NonNull<Node>,
        height: usize,
        target: &Target<'_>,
        hint: &mut InsertHint,
    ) -> bool {
        debug_assert!((1..=MAX_HEIGHT).contains(&height), "no tower is higher");
        for level in 0..height {
            if !self.link(node, level, target, &mut hint.prev[level]) {
                let before = self.entries.fetch_sub(1, Ordering::Relaxed);
                debug_assert!(before > 0, "the insertion was counted");
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

    /// Links `node` on `level` after `prev`, which is advanced to the node directly before it. Returns false
    /// if an entry with its key is present.
    #[inline]
    fn link(
        &self,
        node: NonNull<Node>,
        level: usize,
        target: &Target<'_>,
        prev: &mut *mut Node,
    ) -> bool {
        // SAFETY: `prev` is the head or was reached on this level, now or for an earlier insertion (N4, N6),
        // and `node` has more than `level` links.
        unsafe {
            let mut before = NonNull::new(*prev).expect("a search sets every level");
            loop {
                let (place, next) = self.walk(before, level, target);
                before = place;
                *prev = place.as_ptr();
                if next == Some(node) {
                    // Linked here before the comparator panicked.
                    return true;
                }
                if let Some(next) = next
                    && level == 0
                    && Node::compare(next, &self.order, target) == Order::Equal
                {
                    return false;
                }
                let next = next.map_or(ptr::null_mut(), NonNull::as_ptr);
                // Relaxed: published by the swap below (N2).
                Node::link(node, level).store(next, Ordering::Relaxed);
                // If the swap succeeds, `place` has pointed to `next` all along, so its bound holds for
                // `next` (N5).
                Node::set_bound(node, level, Node::bound(place, level));
                // Release pairs with the acquire in `Node::next` (N2). Acquire orders the bound
                // that is set below after the link (N5). After a failed swap, the walk reloads
                // everything.
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

    /// Sets `hint`, on every level, to a node before `target` and close to it. The hint is valid for no list
    /// until [`SkipList::link_up`].
    #[inline(always)]
    fn find_place(&self, target: &Target<'_>, hint: &mut InsertHint) {
        let height = self.height.load(Ordering::Relaxed);
        debug_assert!(height <= MAX_HEIGHT, "no tower is higher");
        let start = match self.trusted_levels(target, hint, height) {
            Some(level) => level,
            None => {
                hint.prev = [self.head.as_ptr(); MAX_HEIGHT];
                height
            }
        };
        // Stays invalid until the insertion is complete: if the comparator panics, the levels are
        // inconsistent.
        hint.list = NO_LIST;
        let mut level = start;
        // A level that the hint retains starts where the level above ended, or at its own node.
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

    /// The lowest level at and above which `hint` is valid for `target`, or `None` if the hint
    /// cannot be used.
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
        // Every node of the hint precedes the target, because none is after `last`.
        (0..height)
            .find(|&level| {
                // SAFETY: `prev[level]` has a link of that level (N4, N6).
                NonNull::new(hint.prev[level])
                    .is_some_and(|prev| unsafe { self.next_before(prev, level, target).is_none() })
            })
            .or(Some(height))
    }

    /// The node after `node` on `level`, if it is known to precede `target` by the bound of the link or by its key.
    /// The key is read only if its prefix may equal that of `target`.
    ///
    /// # Safety
    ///
    /// `node` must belong to this list and have a link of `level`.
    #[inline]
    unsafe fn next_before(
        &self,
        node: NonNull<Node>,
        level: usize,
        target: &Target<'_>,
    ) -> Option<NonNull<Node>> {
        // SAFETY: the caller's contract, and N4 for the next node.
        unsafe {
            let bound = Node::bound(node, level);
            if level > 0 && target.prefix < bound {
                return None;
            }
            // Read after the bound (N5).
            let next = Node::next(node, level)?;
            let precedes =
                target.prefix > bound || Node::compare(next, &self.order, target) == Order::Less;
            precedes.then_some(next)
        }
    }

    /// Advances from `node`, which precedes `target`, along `level` while the next node is known to precede
    /// it.
    ///
    /// # Safety
    ///
    /// `node` must belong to this list and have a link of `level`.
    #[inline]
    unsafe fn approach(
        &self,
        mut node: NonNull<Node>,
        level: usize,
        target: &Target<'_>,
    ) -> NonNull<Node> {
        // SAFETY: the caller's contract for the first node, N4 for all others.
        while let Some(next) = unsafe { self.next_before(node, level, target) } {
            node = next;
        }
        node
    }

    /// Advances from `node`, which precedes `target`, to the last node of `level` that does. Returns it and
    /// its successor.
    ///
    /// # Safety
    ///
    /// `node` must belong to this list and have a link of `level`.
    #[inline]
    unsafe fn walk(
        &self,
        mut node: NonNull<Node>,
        level: usize,
        target: &Target<'_>,
    ) -> (NonNull<Node>, Option<NonNull<Node>>) {
        // SAFETY: the caller's contract for the first node, N4 for all others.
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

    /// The last node before `target`, or the head, and its successor.
    #[inline]
    fn search(&self, target: &Target<'_>) -> (NonNull<Node>, Option<NonNull<Node>>) {
        let node = self.upper_before(target);
        // SAFETY: every node has a link of level 0 (N4).
        unsafe { self.walk(node, 0, target) }
    }

    /// A node before `target` that has a link of level 1, or the head.
    #[inline]
    fn upper_before(&self, target: &Target<'_>) -> NonNull<Node> {
        self.link_pending();
        let mut node = self.head;
        for level in (1..self.height.load(Ordering::Relaxed)).rev() {
            // SAFETY: `node` is the head or was reached on this level or a higher one (N4).
            node = unsafe { self.approach(node, level, target) };
        }
        node
    }

    /// The first entry at or after the given internal key.
    #[inline]
    pub(crate) fn at_or_after(&self, user: &[u8], packed: u64) -> Option<Entry<'_>> {
        let (_, next) = self.search(&Target::new(&self.order, user, packed));
        self.entry(next)
    }

    /// The last entry before the given internal key.
    pub(crate) fn before(&self, user: &[u8], packed: u64) -> Option<Entry<'_>> {
        let (node, _) = self.search(&Target::new(&self.order, user, packed));
        self.entry((node != self.head).then_some(node))
    }

    /// The first entry.
    pub(crate) fn first(&self) -> Option<Entry<'_>> {
        self.link_pending();
        // SAFETY: the head has a link of every level.
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

    /// Picks the height of the next node: each additional link has a probability of one quarter.
    /// The height depends only on the insertion count, so that runs are reproducible.
    #[inline]
    fn new_height(&self) -> usize {
        // Relaxed: insertions only need distinct numbers.
        let nth = self.entries.fetch_add(1, Ordering::Relaxed) as u64;
        let height = height_of(nth);
        self.raise_height(height);
        height
    }

    /// Lets searches start at `height` or above.
    #[inline]
    fn raise_height(&self, height: usize) {
        debug_assert!(height <= MAX_HEIGHT, "the head has a link of every level");
        // Relaxed: a search that sees a stale height starts on a lower level.
        if height > self.height.load(Ordering::Relaxed) {
            self.height.fetch_max(height, Ordering::Relaxed);
        }
    }
}

/// The height of the `nth` node.
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
