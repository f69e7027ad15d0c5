//! Nodes of the skiplist, and all code that accesses their memory.
//!
//! ```text
//!          tower, highest link first              entry
//! ┌─────────────────┬─────┬─────────────────┬──────────┬────────────┬──────────┬────────┬────────────┬───────┬──────────┐
//! │ next[h-1], bound│ ... │ next[1], bound  │ next[0]  │ length of  │ user key │ packed │ length of  │ value │ checksum │
//! │ 16 bytes        │     │ 16              │ 8        │ key: varint│          │ 8      │ value      │       │ 0 to 8   │
//! └─────────────────┴─────┴─────────────────┴──────────┴────────────┴──────────┴────────┴────────────┴───────┴──────────┘
//!                                                      ▲ address of the node
//! ```
//!
//! The address of a node is that of its entry, so that its lowest links and the start of its key
//! are adjacent, usually in one cache line. The first 8 bytes of the user key are compared as an
//! integer ([`prefix_of`]), which decides most comparisons. An entry is no larger than in RocksDB,
//! because the capacity of a memtable determines the write amplification of everything downstream.

use std::cmp::Ordering as Order;
use std::ptr::{self, NonNull};
use std::slice;

use cairn_format::coding::{MAX_VARINT32_LEN, varint_len};
use cairn_format::key;
use cairn_memory::Arena;
use cairn_types::KeyOrder;

use super::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The maximum height of a node. With a branching factor of 4, it suits about sixteen million
/// entries; larger lists are only slightly slower.
pub(super) const MAX_HEIGHT: usize = 12;

/// Length of the packed sequence number and kind that follow the user key.
const PACKED: usize = key::SUFFIX_LEN;

/// Cache lines prefetched per entry ahead of a scan. Once they are read, the hardware prefetcher
/// loads the lines after them.
const LINES: usize = 3;

pub(super) type Link = AtomicPtr<Node>;

/// A link above the lowest level, with an upper bound of the prefix of the next node (N5).
struct Upper {
    next: Link,
    bound: AtomicU64,
}

/// The bound of a null link.
const NOWHERE: u64 = u64::MAX;

/// Size in bytes of a tower of `height` links.
fn tower_len(height: usize) -> usize {
    size_of::<Link>() + (height - 1) * size_of::<Upper>()
}

/// The first byte of an entry. The tower precedes it and the rest of the entry follows.
#[repr(transparent)]
pub(super) struct Node(u8);

/// A key to search for or to insert, in parts.
#[derive(Clone, Copy)]
pub(super) struct Target<'k> {
    pub(super) prefix: u64,
    pub(super) user: &'k [u8],
    pub(super) packed: u64,
}

impl<'k> Target<'k> {
    #[inline]
    pub(super) fn new(order: &KeyOrder, user: &'k [u8], packed: u64) -> Target<'k> {
        Target {
            prefix: prefix_of(order, user),
            user,
            packed,
        }
    }
}

/// An integer prefix of a user key: a smaller prefix implies a smaller key; equal prefixes imply
/// nothing.
#[inline]
pub(super) fn prefix_of(order: &KeyOrder, user: &[u8]) -> u64 {
    let start = |bytes: &[u8]| match bytes.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        // Zero padding preserves the order: a key sorts before its extensions.
        None => bytes.iter().enumerate().fold(0, |prefix, (at, &byte)| {
            prefix | u64::from(byte) << (56 - 8 * at)
        }),
    };
    match order {
        KeyOrder::Bytewise => start(user),
        KeyOrder::ReverseBytewise => !start(user),
        KeyOrder::BytewiseU64Ts => start(key::strip_timestamp(user, 8)),
        KeyOrder::ReverseBytewiseU64Ts => !start(key::strip_timestamp(user, 8)),
        KeyOrder::Custom(_) => 0,
    }
}

/// Writes `bytes` and returns the address after them.
///
/// # Safety
///
/// `at` must be valid for writing that many bytes.
#[inline]
unsafe fn put(at: NonNull<u8>, bytes: &[u8]) -> NonNull<u8> {
    // SAFETY: the caller's contract.
    unsafe {
        at.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        at.add(bytes.len())
    }
}

/// Writes `len` as a varint and returns the address after it.
///
/// # Safety
///
/// As for [`put`].
#[inline]
unsafe fn put_len(mut at: NonNull<u8>, mut len: u32) -> NonNull<u8> {
    // SAFETY: the caller's contract.
    unsafe {
        while len >= 0x80 {
            // Truncation is intended: seven bits at a time.
            at.write(len as u8 | 0x80);
            at = at.add(1);
            len >>= 7;
        }
        at.write(len as u8);
        at.add(1)
    }
}

/// Reads a length written by [`put_len`] and returns it with the address after it.
///
/// # Safety
///
/// `at` must point to a length written by [`put_len`] that does not change.
#[inline]
unsafe fn take_len(at: NonNull<u8>) -> (usize, NonNull<u8>) {
    // SAFETY: the caller's contract.
    unsafe {
        match at.read() {
            short @ 0..0x80 => (usize::from(short), at.add(1)),
            _ => take_long_len(at),
        }
    }
}

/// [`take_len`] for lengths of more than one byte.
///
/// # Safety
///
/// As for [`take_len`].
#[cold]
unsafe fn take_long_len(at: NonNull<u8>) -> (usize, NonNull<u8>) {
    let mut len = 0;
    for nth in 0..MAX_VARINT32_LEN {
        // SAFETY: the caller's contract: the length extends to the first byte less than 0x80.
        let byte = unsafe { at.add(nth).read() };
        len |= usize::from(byte & 0x7f) << (7 * nth);
        if byte < 0x80 {
            // SAFETY: one past a byte that was read.
            return (len, unsafe { at.add(nth + 1) });
        }
    }
    unreachable!("lengths have five bytes at most")
}

impl Node {
    /// The bytes that a node takes with a checksum of `checksum_len` bytes, a multiple of the alignment of its links.
    #[inline]
    pub(super) fn size(
        height: usize,
        target: &Target<'_>,
        value: &[u8],
        checksum_len: usize,
    ) -> usize {
        let lens = varint_len(target.user.len() as u64) + varint_len(value.len() as u64);
        let bytes = lens + target.user.len() + PACKED + value.len() + checksum_len;
        (tower_len(height) + bytes).next_multiple_of(align_of::<Link>())
    }

    /// Creates a node of `height` null links and returns its address. The node is not published.
    #[inline]
    pub(super) fn create(
        arena: &Arena,
        height: usize,
        target: &Target<'_>,
        value: &[u8],
        checksum: &[u8],
    ) -> NonNull<Node> {
        let size = Node::size(height, target, value, checksum.len());
        let start = arena.allocate(size, align_of::<Link>());
        // SAFETY: the arena returned memory for the node that is exclusive to this thread and aligned for links
        // (N1).
        unsafe { Node::write(start, height, target, value, checksum) }
    }

    /// Writes a node of `height` null links at `start`, and returns its address. The node is not published.
    ///
    /// # Safety
    ///
    /// [`Node::size`] bytes at `start` must be exclusive to this thread, aligned for links, and live as long as the
    /// list.
    #[inline]
    pub(super) unsafe fn write(
        start: NonNull<u8>,
        height: usize,
        target: &Target<'_>,
        value: &[u8],
        checksum: &[u8],
    ) -> NonNull<Node> {
        debug_assert!((1..=MAX_HEIGHT).contains(&height));
        let len = |bytes: &[u8]| u32::try_from(bytes.len()).expect("less than 4 GiB");
        let (key_len, value_len) = (len(target.user), len(value));
        let tower = tower_len(height);
        debug_assert!(
            tower.is_multiple_of(align_of::<Link>()),
            "a tower keeps the alignment of its links"
        );
        // SAFETY: the caller's contract: tower and entry are within the memory at `start`.
        unsafe {
            let node = start.add(tower).cast::<Node>();
            node.cast::<Link>().sub(1).write(Link::new(ptr::null_mut()));
            for level in 1..height {
                Node::upper_place(node, level).write(Upper {
                    next: Link::new(ptr::null_mut()),
                    bound: AtomicU64::new(NOWHERE),
                });
            }
            let at = put_len(node.cast(), key_len);
            let at = put(at, target.user);
            let at = put(at, &target.packed.to_le_bytes());
            let end = put(put_len(at, value_len), value);
            if !checksum.is_empty() {
                put(end, checksum);
            }
            debug_assert_eq!(Node::key(node).len(), target.user.len() + PACKED);
            debug_assert_eq!(Node::value(node).len(), value.len());
            node
        }
    }

    /// The address of the link of `level`, which is not the lowest level.
    ///
    /// # Safety
    ///
    /// `node` must have, or be about to get, a tower higher than `level`, which is at least 1.
    #[inline]
    unsafe fn upper_place(node: NonNull<Node>, level: usize) -> NonNull<Upper> {
        debug_assert!((1..MAX_HEIGHT).contains(&level), "level 0 has no bound");
        // SAFETY: the caller's contract: the tower precedes the entry (N1).
        unsafe { node.cast::<Link>().sub(1).cast::<Upper>().sub(level) }
    }

    /// The link of `level`.
    ///
    /// # Safety
    ///
    /// `node` must be made by [`Node::write`] with a height above `level`, and its arena must live for `'a`.
    #[inline]
    pub(super) unsafe fn link<'a>(node: NonNull<Node>, level: usize) -> &'a Link {
        debug_assert!(level < MAX_HEIGHT, "no tower is higher");
        // SAFETY: the caller's contract: the tower precedes the entry (N1).
        unsafe {
            match level {
                0 => node.cast::<Link>().sub(1).as_ref(),
                _ => &Node::upper_place(node, level).as_ref().next,
            }
        }
    }

    /// An upper bound of the prefix of the node after `node` on `level`; the maximum if nothing is known.
    ///
    /// # Safety
    ///
    /// As for [`Node::link`].
    #[inline]
    pub(super) unsafe fn bound(node: NonNull<Node>, level: usize) -> u64 {
        if level == 0 {
            return NOWHERE;
        }
        // Acquire: the link is read afterwards (N5). A stale bound is greater, and every bound ever set remains
        // valid.
        // SAFETY: the caller's contract.
        unsafe { Node::upper_place(node, level).as_ref() }
            .bound
            .load(Ordering::Acquire)
    }

    /// Sets the bound of a link.
    ///
    /// # Safety
    ///
    /// As for [`Node::link`], and `bound` must not be less than the prefix of the next node (N5).
    #[inline]
    pub(super) unsafe fn set_bound(node: NonNull<Node>, level: usize, bound: u64) {
        if level > 0 {
            // SAFETY: the caller's contract.
            let upper = unsafe { Node::upper_place(node, level).as_ref() };
            // Release: the link was set before (N5).
            upper.bound.store(bound, Ordering::Release);
        }
    }

    /// The node after `node` on `level`.
    ///
    /// # Safety
    ///
    /// As for [`Node::link`].
    #[inline]
    pub(super) unsafe fn next(node: NonNull<Node>, level: usize) -> Option<NonNull<Node>> {
        // Acquire pairs with the release in `SkipList::link`: a reachable node is complete (N2).
        // SAFETY: the caller's contract.
        NonNull::new(unsafe { Node::link(node, level) }.load(Ordering::Acquire))
    }

    /// The internal key.
    ///
    /// # Safety
    ///
    /// `node` must be made by [`Node::write`], and its arena must live for `'a`.
    #[inline]
    pub(super) unsafe fn key<'a>(node: NonNull<Node>) -> &'a [u8] {
        // SAFETY: the caller's contract; the bytes of an entry are initialised, belong to its node and do not
        // change (N1, N2).
        unsafe {
            let (len, key) = take_len(node.cast());
            slice::from_raw_parts(key.as_ptr(), len + PACKED)
        }
    }

    /// The value.
    ///
    /// # Safety
    ///
    /// As for [`Node::key`].
    #[inline]
    pub(super) unsafe fn value<'a>(node: NonNull<Node>) -> &'a [u8] {
        // SAFETY: as above.
        unsafe {
            let (len, key) = take_len(node.cast());
            let (len, value) = take_len(key.add(len + PACKED));
            slice::from_raw_parts(value.as_ptr(), len)
        }
    }

    /// The checksum of `len` bytes.
    ///
    /// # Safety
    ///
    /// As for [`Node::key`], and the node must be made with a checksum of `len` bytes.
    pub(super) unsafe fn checksum<'a>(node: NonNull<Node>, len: usize) -> &'a [u8] {
        // SAFETY: the caller's contract: the checksum follows the value (N1).
        unsafe {
            let value = Node::value(node);
            slice::from_raw_parts(value.as_ptr().add(value.len()), len)
        }
    }

    /// Replaces the packed sequence number and kind.
    ///
    /// # Safety
    ///
    /// As for [`Node::key`], and no other thread may access the entry (N7).
    pub(super) unsafe fn set_packed(node: NonNull<Node>, packed: u64) {
        // SAFETY: the caller's contract: the packed number follows the user key (N1).
        unsafe {
            let (len, key) = take_len(node.cast());
            put(key.add(len), &packed.to_le_bytes());
        }
    }

    /// Replaces the checksum.
    ///
    /// # Safety
    ///
    /// As for [`Node::set_packed`], and the node must be made with a checksum of this length.
    pub(super) unsafe fn set_checksum(node: NonNull<Node>, checksum: &[u8]) {
        // SAFETY: the caller's contract: the checksum follows the value (N1).
        unsafe {
            let (len, key) = take_len(node.cast());
            let (len, value) = take_len(key.add(len + PACKED));
            put(value.add(len), checksum);
        }
    }

    /// Compares the node's key to `target`.
    ///
    /// # Safety
    ///
    /// As for [`Node::key`].
    #[inline]
    pub(super) unsafe fn compare(
        node: NonNull<Node>,
        order: &KeyOrder,
        target: &Target<'_>,
    ) -> Order {
        // SAFETY: the caller's contract.
        let key = unsafe { Node::key(node) };
        let user = key::user_key(key);
        prefix_of(order, user)
            .cmp(&target.prefix)
            .then_with(|| key::compare_user(order, user, target.user))
            .then_with(|| target.packed.cmp(&key::packed(key)))
    }

    /// Prefetches the link of `level` and, usually, the start of the key.
    #[inline]
    pub(super) fn prefetch(node: Option<NonNull<Node>>, level: usize) {
        if let Some(node) = node {
            prefetch(node.cast::<i8>().as_ptr().wrapping_sub(8 + 16 * level));
        }
    }

    /// Prefetches the lowest link and the first [`LINES`] cache lines of the entry.
    #[inline]
    pub(super) fn prefetch_entry(node: Option<NonNull<Node>>) {
        if let Some(node) = node {
            let link = node.cast::<i8>().as_ptr().wrapping_sub(8);
            (0..LINES).for_each(|line| prefetch(link.wrapping_add(64 * line)));
        }
    }

    /// Prefetches the start of the key.
    #[inline]
    pub(super) fn prefetch_key(node: Option<NonNull<Node>>) {
        if let Some(node) = node {
            prefetch(node.cast::<i8>().as_ptr().wrapping_add(8));
        }
    }
}

/// Prefetches the cache line of `address`.
#[inline]
fn prefetch(address: *const i8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no architectural effect, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
