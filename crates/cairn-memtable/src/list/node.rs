//! A node of the list, and the only code that reads or writes its memory.
//!
//! ```text
//!          tower, highest link first              head           key and value
//! ┌─────────────────┬─────┬─────────────────┬──────────┬────────┬──────┬──────────┬──────────┬────────┬───────┐
//! │ next[h-1], bound│ ... │ next[1], bound  │ next[0]  │ prefix │ key  │ value    │ user key │ packed │ value │
//! │ 16 bytes        │     │ 16              │ 8        │ 8      │ len 4│ len 4    │          │ 8      │       │
//! └─────────────────┴─────┴─────────────────┴──────────┴────────┴──────┴──────────┴──────────┴────────┴───────┘
//!                                                      ▲ a node's address
//! ```
//!
//! The address of a node is that of its head, so that links, prefix and the beginning of the key
//! lie next to each other, mostly in one cache line. The prefix is the first 8 bytes of the user
//! key in an order that integers compare in ([`prefix_of`]); most comparisons end there.

use std::cmp::Ordering as Order;
use std::ptr::{self, NonNull};
use std::slice;

use cairn_format::key;
use cairn_memory::Arena;
use cairn_types::KeyOrder;

use super::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Links that a node can have. With a quarter of the nodes on each higher level, that is right for
/// some sixteen million entries and harmless for more.
pub(super) const MAX_HEIGHT: usize = 12;

/// Bytes of sequence number and kind behind the user key.
const PACKED: usize = key::SUFFIX_LEN;

pub(super) type Link = AtomicPtr<Node>;

/// A link above the lowest level, with a bound that the prefix of the next node does not exceed
/// (N5 says why it holds).
struct Upper {
    next: Link,
    bound: AtomicU64,
}

/// The bound of a link that leads nowhere.
const NOWHERE: u64 = u64::MAX;

/// Bytes of a tower of `height` links.
fn tower_len(height: usize) -> usize {
    size_of::<Link>() + (height - 1) * size_of::<Upper>()
}

/// The head of a node; the tower lies before it and the bytes behind it.
#[repr(C)]
pub(super) struct Node {
    prefix: u64,
    key_len: u32,
    value_len: u32,
}

/// What is searched for, or inserted: a key taken apart.
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

/// A number that orders user keys as far as it can: smaller numbers mean smaller keys, equal
/// numbers mean nothing.
#[inline]
fn prefix_of(order: &KeyOrder, user: &[u8]) -> u64 {
    let start = |bytes: &[u8]| match bytes.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        // Padding with zeros keeps the order: a key sorts before its extensions.
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

impl Node {
    /// Writes a node of `height` links that are all null, and returns its address. Nobody else
    /// knows the node yet.
    pub(super) fn create(
        arena: &Arena,
        height: usize,
        target: &Target<'_>,
        value: &[u8],
    ) -> NonNull<Node> {
        debug_assert!((1..=MAX_HEIGHT).contains(&height));
        let key_len = u32::try_from(target.user.len()).expect("a key is shorter than 4 GiB");
        let value_len = u32::try_from(value.len()).expect("a value is shorter than 4 GiB");
        let tower = tower_len(height);
        let bytes = target.user.len() + PACKED + value.len();
        let start = arena.allocate(tower + size_of::<Node>() + bytes, align_of::<Link>());
        // SAFETY: the arena gave this thread alone as many bytes as tower, head, key and value
        // take together, aligned for links, whose size keeps the head aligned as well (N1).
        unsafe {
            let node = start.add(tower).cast::<Node>();
            node.cast::<Link>().sub(1).write(Link::new(ptr::null_mut()));
            for level in 1..height {
                Node::upper_place(node, level).write(Upper {
                    next: Link::new(ptr::null_mut()),
                    bound: AtomicU64::new(NOWHERE),
                });
            }
            node.write(Node {
                prefix: target.prefix,
                key_len,
                value_len,
            });
            let key = node.add(1).cast::<u8>();
            key.copy_from_nonoverlapping(NonNull::from(target.user).cast(), target.user.len());
            let packed = key.add(target.user.len());
            packed
                .cast::<[u8; PACKED]>()
                .write_unaligned(target.packed.to_le_bytes());
            packed
                .add(PACKED)
                .copy_from_nonoverlapping(NonNull::from(value).cast(), value.len());
            node
        }
    }

    /// Where the link of `level`, above the lowest, lies.
    ///
    /// # Safety
    ///
    /// `node` has or will have a tower higher than `level`, which is at least 1.
    #[inline]
    unsafe fn upper_place(node: NonNull<Node>, level: usize) -> NonNull<Upper> {
        // SAFETY: the caller's promise: the tower lies before the head (N1).
        unsafe { node.cast::<Link>().sub(1).cast::<Upper>().sub(level) }
    }

    /// The link of `level`.
    ///
    /// # Safety
    ///
    /// `node` was made by [`Node::create`] with a height above `level`, and its arena lives for `'a`.
    #[inline]
    pub(super) unsafe fn link<'a>(node: NonNull<Node>, level: usize) -> &'a Link {
        // SAFETY: the caller's promise: the tower lies before the head (N1).
        unsafe {
            match level {
                0 => node.cast::<Link>().sub(1).as_ref(),
                _ => &Node::upper_place(node, level).as_ref().next,
            }
        }
    }

    /// A number that the prefix of the node behind `node` on `level` does not exceed; the largest
    /// one where nothing is known.
    ///
    /// # Safety
    ///
    /// As for [`Node::link`].
    #[inline]
    pub(super) unsafe fn bound(node: NonNull<Node>, level: usize) -> u64 {
        if level == 0 {
            return NOWHERE;
        }
        // Relaxed: an old bound is a larger one, and any bound holds (N5).
        // SAFETY: the caller's promise.
        unsafe { Node::upper_place(node, level).as_ref() }
            .bound
            .load(Ordering::Relaxed)
    }

    /// Sets the bound of a link.
    ///
    /// # Safety
    ///
    /// As for [`Node::link`]; and the prefix of the node behind does not exceed `bound` (N5).
    #[inline]
    pub(super) unsafe fn set_bound(node: NonNull<Node>, level: usize, bound: u64) {
        if level > 0 {
            // SAFETY: the caller's promise.
            let upper = unsafe { Node::upper_place(node, level).as_ref() };
            upper.bound.store(bound, Ordering::Relaxed);
        }
    }

    /// The node behind `node` on `level`.
    ///
    /// # Safety
    ///
    /// As for [`Node::link`].
    #[inline]
    pub(super) unsafe fn next(node: NonNull<Node>, level: usize) -> Option<NonNull<Node>> {
        // Acquire pairs with the release in `List::insert`: a node that is reached is complete.
        // SAFETY: the caller's promise.
        NonNull::new(unsafe { Node::link(node, level) }.load(Ordering::Acquire))
    }

    /// User key and value, where the value begins behind the packed number.
    ///
    /// # Safety
    ///
    /// `node` was made by [`Node::create`] and its arena lives for `'a`.
    #[inline]
    unsafe fn bytes<'a>(
        node: NonNull<Node>,
        from: usize,
        len: impl Fn(&Node) -> usize,
    ) -> &'a [u8] {
        // SAFETY: the caller's promise; the bytes behind the head are initialised, belong to this
        // node and do not change (N1, N2).
        unsafe {
            let len = len(node.as_ref());
            slice::from_raw_parts(node.add(1).cast::<u8>().add(from).as_ptr(), len)
        }
    }

    /// The internal key.
    ///
    /// # Safety
    ///
    /// As for [`Node::bytes`].
    #[inline]
    pub(super) unsafe fn key<'a>(node: NonNull<Node>) -> &'a [u8] {
        // SAFETY: the caller's promise.
        unsafe { Node::bytes(node, 0, |head| head.key_len as usize + PACKED) }
    }

    /// The value.
    ///
    /// # Safety
    ///
    /// As for [`Node::bytes`].
    #[inline]
    pub(super) unsafe fn value<'a>(node: NonNull<Node>) -> &'a [u8] {
        // SAFETY: the caller's promise.
        unsafe {
            let from = node.as_ref().key_len as usize + PACKED;
            Node::bytes(node, from, |head| head.value_len as usize)
        }
    }

    /// How the node's key stands to `target`.
    ///
    /// # Safety
    ///
    /// As for [`Node::bytes`].
    #[inline]
    pub(super) unsafe fn compare(
        node: NonNull<Node>,
        order: &KeyOrder,
        target: &Target<'_>,
    ) -> Order {
        // SAFETY: the caller's promise.
        let (prefix, key) = unsafe { (node.as_ref().prefix, Node::key(node)) };
        if prefix != target.prefix {
            return prefix.cmp(&target.prefix);
        }
        key::compare_user(order, key::user_key(key), target.user)
            .then_with(|| target.packed.cmp(&key::packed(key)))
    }

    /// Asks the processor to load what a comparison with `node` on `level` will touch.
    #[inline]
    pub(super) fn prefetch(node: Option<NonNull<Node>>, level: usize) {
        #[cfg(target_arch = "x86_64")]
        if let Some(node) = node {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let address = node.cast::<i8>().as_ptr().wrapping_sub(8 + 16 * level);
            // SAFETY: a prefetch has no effect on the program, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (node, level);
    }
}
