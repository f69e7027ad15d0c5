//! Blocks of entries: builders, layout and cursors.
//!
//! Data blocks, index blocks and most meta blocks of a table share one layout:
//!
//! ```text
//! entries | restart array: fixed32 x n | [hash index] | [fixed32 start of the values] | fixed32 footer
//!
//! entry    varint32 shared | varint32 delta length | varint32 value length | key delta | value
//! restart  offset of an entry whose key is whole (shared = 0)
//! footer   bit 31 hash index; bit 29 uniform keys; bit 28 separate values; bits 0 to 27 n
//! ```
//!
//! As of format version 8, a common prefix of all user keys may precede the entries. [`expand`]
//! restores the keys, so that cursors need not handle it.
//!
//! A reader decodes the [`BlockLayout`] on each access (a few loads) and moves a [`DataCursor`] or
//! an [`IndexCursor`]. Cursors own their position and do not borrow the block: every method takes
//! the bytes and their layout, so that a struct can own both a block and a cursor. The bytes must
//! not change between two calls of `seek`, `first` or `last`. With other bytes the results are
//! unspecified, but methods do not panic.
//!
//! A seek compares about log2(n) keys and then scans one restart interval without building the keys it skips;
//! `next` copies only the part of a key that is not shared with its predecessor.

mod builder;
mod checksums;
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
pub use checksums::BlockChecksums;
pub use common_prefix::{EntryForm, expand};
pub use data::DataCursor;
pub use hash_index::{HashHit, hash_lookup};
pub use index::{IndexCursor, IndexEntry, IndexForm};
pub use key_words::{DataWords, KeyWords, Place};
pub use layout::{BlockKind, BlockLayout, MAX_HASHED_BLOCK_LEN};
pub use skip_deleted::{Passed, Walk, skip_deleted};
pub use skip_deletions::skip_deletions;
pub use skip_limits::{Block, SkipLimits, Skipped};

/// The maximum size of a block: its offsets have 32 bits, as in RocksDB.
pub const MAX_BLOCK_LEN: usize = u32::MAX as usize;

/// The maximum overhead of an entry in addition to its user key and value: the suffix of an
/// internal key, four varints, a restart point and the footer, with some slack so that 32 bits do
/// not overflow.
const ENTRY_OVERHEAD: usize = 64;

/// The maximum length of user key and value together. An entry must fit into one block: a longer one could be
/// written to the WAL and a memtable, but never be read from a table.
pub const MAX_ENTRY_LEN: usize = MAX_BLOCK_LEN - ENTRY_OVERHEAD;

/// True if a block of `len` bytes has room for an entry with this key and value.
#[inline]
#[must_use]
pub fn has_room(len: usize, user_key: &[u8], value: &[u8]) -> bool {
    let entry = user_key.len().saturating_add(value.len());
    len.saturating_add(entry) <= MAX_ENTRY_LEN
}
