//! Blocks of entries: builders, layout and cursors.
//!
//! Data blocks, index blocks and most meta blocks of a table have one shape:
//!
//! ```text
//! entries | restart array: fixed32 x n | [hash index] | [fixed32 start of the values] | fixed32 footer
//!
//! entry    varint32 shared | varint32 delta length | varint32 value length | key delta | value
//! restart  offset of an entry whose key is whole (shared = 0)
//! footer   bit 31 hash index; bit 29 uniform keys; bit 28 values apart from keys; bits 0 to 27 n
//! ```
//!
//! From format version 8 on a prefix that all user keys have in common may lie before the entries, which
//! [`expand`] puts back into the keys; cursors know nothing of it.
//!
//! A reader parses the [`BlockLayout`] on each access (a few loads) and moves a [`DataCursor`] or
//! an [`IndexCursor`]. Cursors own their position and borrow nothing: every method takes the bytes
//! and their layout, so that one value can own a block and a cursor in it. They are only as good
//! as that: between two `seek`s (or `first`, `last`) the bytes must stay the same. Other bytes
//! give other answers, never a panic.
//!
//! Costs: a seek compares about log2(n) whole keys and then walks one restart interval without
//! building the keys it passes; `next` copies only what a key does not share with the one before.

mod builder;
mod common_prefix;
mod cursor;
mod data;
mod hash_index;
mod index;
mod key_words;
mod layout;
mod skip_deleted;
mod skip_deletions;
mod skip_limits;
#[cfg(test)]
mod tests;

pub use builder::{BlockBuilder, BlockOptions, IndexBlockBuilder, can_hash};
pub use common_prefix::{EntryForm, expand};
pub use data::DataCursor;
pub use hash_index::{HashHit, hash_lookup};
pub use index::{IndexCursor, IndexEntry, IndexForm};
pub use key_words::{DataWords, KeyWords};
pub use layout::{BlockKind, BlockLayout, MAX_HASHED_BLOCK_LEN};
pub use skip_deleted::{Passed, Walk, skip_deleted};
pub use skip_deletions::skip_deletions;
pub use skip_limits::{Block, Hidden, Skipped};

/// The longest block: offsets in it are 32 bits wide, here and in RocksDB.
pub const MAX_BLOCK_LEN: usize = u32::MAX as usize;

/// What an entry of a block takes beside its user key and its value, at most: the suffix of an internal key, four
/// varints, a restart, and what ends a block (and a little, so that no sum comes near the end of 32 bits).
const ENTRY_OVERHEAD: usize = 64;

/// User key and value of the longest entry. An entry lies in one block, so that one which is longer could be
/// written to a log and to a memtable, and never be read from a table.
pub const MAX_ENTRY_LEN: usize = MAX_BLOCK_LEN - ENTRY_OVERHEAD;

/// True if a block of `len` bytes has room for one more entry of this key and this value.
#[inline]
#[must_use]
pub fn has_room(len: usize, user_key: &[u8], value: &[u8]) -> bool {
    let entry = user_key.len().saturating_add(value.len());
    len.saturating_add(entry) <= MAX_ENTRY_LEN
}
