//! Builders of data blocks and index blocks.

use cairn_types::KeyOrder;

use super::common_prefix;
use super::hash_index::HashIndexBuilder;
use super::index::IndexForm;
use super::layout::MAX_HASHED_BLOCK_LEN;
use super::layout::{HASHED, SEPARATED, UNIFORM};
use crate::coding::{put_fixed32, put_lps, put_varint32, put_varint64, put_varsigned64, zigzag};
use crate::key;
use crate::table::handle::Handle;

/// The layout of a block of keys and values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockOptions {
    /// The number of entries from one restart point to the next, at least 1.
    pub restart_interval: usize,
    /// True to delta-encode keys against their predecessors.
    pub delta_encoding: bool,
    /// The number of keys per bucket of the hash index over user keys, or `None` for no hash index.
    /// Keys must then be internal keys, in an order for which [`can_hash`] holds.
    pub hash_util_ratio: Option<f64>,
    /// True to store values separately from keys. Data blocks only.
    pub separate_values: bool,
    /// True to store the common prefix of all user keys once (format version 8). Keys must then be
    /// delta-encoded internal keys.
    pub common_prefix: bool,
}

impl Default for BlockOptions {
    fn default() -> BlockOptions {
        BlockOptions {
            restart_interval: 16,
            delta_encoding: true,
            hash_util_ratio: None,
            separate_values: false,
            common_prefix: false,
        }
    }
}

impl BlockOptions {
    /// The layout of metaindex and range tombstone blocks: no delta encoding.
    #[must_use]
    pub fn whole_keys() -> BlockOptions {
        BlockOptions {
            restart_interval: 1,
            ..BlockOptions::default()
        }
    }

    /// The layout of the properties block, with a single restart point.
    #[must_use]
    pub fn one_restart() -> BlockOptions {
        BlockOptions {
            restart_interval: usize::MAX,
            ..BlockOptions::default()
        }
    }
}

/// True if blocks of keys in `order` may have a hash index: equal keys must have equal bytes, and
/// lookups must know the whole key, which rules out timestamps.
#[must_use]
pub fn can_hash(order: &KeyOrder) -> bool {
    !order.different_bytes_may_be_equal() && order.timestamp_size() == 0
}

/// The state common to both builders: the restart points, and the last key.
struct Restarts {
    offsets: Vec<u32>,
    interval: usize,
    /// The number of entries since the last restart point.
    since: usize,
    last_key: Vec<u8>,
    /// The common prefix of all keys, if it is stored once.
    common: Option<CommonPrefix>,
}

/// The length of the common prefix of the user keys of a block.
#[derive(Clone, Copy)]
struct CommonPrefix {
    /// The length over all keys so far; the maximum if there are none.
    len: usize,
    /// The length of the part of a key that follows the user key.
    suffix: usize,
}

impl CommonPrefix {
    /// Accounts for a key of `key_len` bytes that shares `shared` bytes with its predecessor.
    ///
    /// Bytes shared between the suffix of a key and a longer user key are excluded. RocksDB 11.12 includes
    /// them, and then fails to find the shorter key in reverse order.
    fn add(&mut self, shared: usize, key_len: usize) {
        let user = key_len.saturating_sub(self.suffix);
        self.len = match self.len {
            usize::MAX => user,
            len => len.min(shared).min(user),
        };
    }
}

impl Restarts {
    fn new(interval: usize) -> Restarts {
        Restarts {
            offsets: vec![0],
            interval: interval.max(1),
            since: 0,
            last_key: Vec::new(),
            common: None,
        }
    }

    /// Enables a common prefix; `suffix` is the length of the part of a key after the user key.
    fn with_common_prefix(mut self, suffix: usize) -> Restarts {
        self.common = Some(CommonPrefix {
            len: usize::MAX,
            suffix,
        });
        self
    }

    /// The length of the common prefix to be stored; 0 for none.
    #[inline]
    fn prefix_len(&self) -> usize {
        match self.common {
            Some(CommonPrefix { len, .. }) if len != usize::MAX => len,
            _ => 0,
        }
    }

    /// The number of bytes saved by the common prefix.
    #[inline]
    fn saved(&self) -> usize {
        self.prefix_len() * (self.offsets.len() - 1)
    }

    /// Moves the common prefix of `entries` to the front. `lengths` is the number of additional lengths of an
    /// entry at a restart point.
    fn strip(&mut self, entries: &mut Vec<u8>, lengths: usize) {
        let len = self.prefix_len();
        if len > 0 {
            *entries = common_prefix::strip(entries, &mut self.offsets, len, lengths);
        }
    }

    fn reset(&mut self) {
        self.offsets.clear();
        self.offsets.push(0);
        self.since = 0;
        self.last_key.clear();
        if let Some(common) = &mut self.common {
            common.len = usize::MAX;
        }
    }

    /// Starts an entry at offset `at`. Returns true if it is a restart point.
    #[inline]
    fn begin(&mut self, at: usize) -> bool {
        let restart = self.since >= self.interval || (at == 0 && self.since == 0);
        if self.since >= self.interval {
            self.offsets
                .push(u32::try_from(at).expect("blocks are smaller than 4 GiB"));
            self.since = 0;
        }
        self.since += 1;
        restart
    }

    /// Replaces the last key with `key`, and returns the number of shared bytes.
    #[inline]
    fn replace_last(&mut self, key: &[u8], restart: bool) -> usize {
        let shared = if restart && self.common.is_none() {
            0
        } else {
            key::common_prefix(&self.last_key, key)
        };
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(&key[shared..]);
        if let Some(common) = &mut self.common {
            common.add(shared, key.len());
        }
        if restart { 0 } else { shared }
    }

    fn finish(&self, out: &mut Vec<u8>) {
        out.reserve(4 * self.offsets.len() + 4);
        for &offset in &self.offsets {
            put_fixed32(out, offset);
        }
    }

    fn footer(&self, flags: u32) -> u32 {
        u32::try_from(self.offsets.len()).expect("blocks are smaller than 4 GiB") | flags
    }
}

#[inline]
fn len32(slice: &[u8]) -> u32 {
    u32::try_from(slice.len()).expect("keys and values are shorter than 4 GiB")
}

/// Appends the lengths at the start of an entry. Lengths below 128, and of values below 16 KiB, are appended at once.
#[inline]
fn put_lengths(out: &mut Vec<u8>, shared: usize, key: &[u8], value: &[u8]) {
    const SHORT: usize = 1 << 7;
    const MEDIUM: usize = 1 << 14;
    if shared < SHORT && key.len() < SHORT && value.len() < MEDIUM {
        let [shared, key, value] = [shared as u32, key.len() as u32, value.len() as u32];
        let long = u32::from(value >= SHORT as u32);
        // The second byte of a short length is zero, and removed.
        let value = value & 0x7f | long << 7 | (value >> 7) << 8;
        out.extend_from_slice(&(shared | key << 8 | value << 16).to_le_bytes());
        out.truncate(out.len() - 1 + long as usize);
        return;
    }
    put_varint32(out, shared as u32);
    put_varint32(out, len32(key));
    put_varint32(out, len32(value));
}

/// The builder of data blocks and other blocks of keys and values.
///
/// Keys must be added in order; the builder does not compare them.
pub struct BlockBuilder {
    options: BlockOptions,
    restarts: Restarts,
    hash: Option<HashIndexBuilder>,
    out: Vec<u8>,
    /// The values, if stored separately.
    values: Vec<u8>,
    entries: usize,
}

impl BlockBuilder {
    /// Creates a builder.
    #[must_use]
    pub fn new(options: BlockOptions) -> BlockBuilder {
        let restarts = Restarts::new(options.restart_interval);
        BlockBuilder {
            options,
            restarts: match options.common_prefix && options.delta_encoding {
                true => restarts.with_common_prefix(key::SUFFIX_LEN),
                false => restarts,
            },
            hash: options.hash_util_ratio.map(HashIndexBuilder::new),
            out: Vec::new(),
            values: Vec::new(),
            entries: 0,
        }
    }

    /// The layout of the blocks.
    #[must_use]
    pub fn options(&self) -> &BlockOptions {
        &self.options
    }

    /// Appends an entry.
    ///
    /// # Panics
    ///
    /// If the block reaches 4 GiB.
    #[inline]
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        let restart = self.restarts.begin(self.out.len());
        let whole = restart || !self.options.delta_encoding;
        let shared = self.restarts.replace_last(key, whole);
        let rest = &key[shared..];
        put_lengths(&mut self.out, shared, rest, value);
        if self.options.separate_values {
            if restart {
                put_varint32(&mut self.out, len32(&self.values));
            }
            self.values.extend_from_slice(value);
            self.out.extend_from_slice(rest);
        } else {
            self.out.extend_from_slice(rest);
            self.out.extend_from_slice(value);
        }
        if let Some(hash) = &mut self.hash {
            hash.add(key::user_key(key), self.restarts.offsets.len() - 1);
        }
        self.entries += 1;
    }

    /// True if the block has no entries.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// The number of entries.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// The last key added; empty if there is none.
    #[inline]
    #[must_use]
    pub fn last_key(&self) -> &[u8] {
        &self.restarts.last_key
    }

    /// The size of the block if it were finished now.
    #[inline]
    #[must_use]
    pub fn estimated_size(&self) -> usize {
        let size = self.size_without_hash();
        match self.hash_size(size) {
            Some(hash) => size + hash,
            None => size,
        }
    }

    /// An upper bound of the growth of [`BlockBuilder::estimated_size`] by this entry.
    #[must_use]
    pub fn growth(&self, key: &[u8], value: &[u8]) -> usize {
        // Three or four varints, which are mostly short, and possibly a restart point.
        key.len() + value.len() + 3 + 4 + usize::from(value.len() >= 128)
    }

    #[inline]
    fn size_without_hash(&self) -> usize {
        let apart = if self.options.separate_values { 4 } else { 0 };
        let size = self.out.len() + self.values.len() + 4 * self.restarts.offsets.len() + 4 + apart;
        size.saturating_sub(self.restarts.saved())
    }

    /// The size of the hash index of a block of `size` bytes, if it can have one.
    #[inline]
    fn hash_size(&self, size: usize) -> Option<usize> {
        let hash = self.hash.as_ref()?.size()?;
        (size + hash <= MAX_HASHED_BLOCK_LEN).then_some(hash)
    }

    /// Finishes the block. Must be followed by [`BlockBuilder::reset`].
    pub fn finish(&mut self) -> &[u8] {
        let hashed = self.hash_size(self.size_without_hash()).is_some();
        let lengths = if self.options.separate_values { 2 } else { 1 };
        self.restarts.strip(&mut self.out, lengths);
        let values_at = self.out.len();
        self.out.append(&mut self.values);
        self.restarts.finish(&mut self.out);
        let mut flags = 0;
        if let Some(hash) = self.hash.as_ref().filter(|_| hashed) {
            hash.finish(&mut self.out);
            flags |= HASHED;
        }
        if self.options.separate_values {
            let values_at = u32::try_from(values_at).expect("blocks are smaller than 4 GiB");
            put_fixed32(&mut self.out, values_at);
            flags |= SEPARATED;
        }
        put_fixed32(&mut self.out, self.restarts.footer(flags));
        &self.out
    }

    /// Starts the next block.
    pub fn reset(&mut self) {
        self.restarts.reset();
        if let Some(hash) = &mut self.hash {
            hash.reset();
        }
        self.out.clear();
        self.values.clear();
        self.entries = 0;
    }
}

/// The builder of index blocks.
pub struct IndexBlockBuilder {
    form: IndexForm,
    restarts: Restarts,
    last_handle: Handle,
    value: Vec<u8>,
    out: Vec<u8>,
    entries: usize,
    uniform: bool,
}

impl IndexBlockBuilder {
    /// Creates a builder of entries in the given form.
    #[must_use]
    pub fn new(form: IndexForm, restart_interval: usize) -> IndexBlockBuilder {
        IndexBlockBuilder {
            form,
            restarts: Restarts::new(restart_interval),
            last_handle: Handle { offset: 0, size: 0 },
            value: Vec::new(),
            out: Vec::new(),
            entries: 0,
            uniform: false,
        }
    }

    /// Enables a common prefix of all user keys (format version 8).
    #[must_use]
    pub fn with_common_prefix(mut self) -> IndexBlockBuilder {
        let suffix = if self.form.user_keys {
            0
        } else {
            key::SUFFIX_LEN
        };
        self.restarts = self.restarts.with_common_prefix(suffix);
        self
    }

    /// Adds an entry with the key `separator`, a user key or an internal key as the form requires.
    /// `first_key` is used if the form has first keys.
    ///
    /// # Panics
    ///
    /// If the form has first keys and `first_key` is `None`.
    pub fn add(&mut self, separator: &[u8], handle: Handle, first_key: Option<&[u8]>) {
        let restart = self.restarts.begin(self.out.len());
        let last = self.last_handle;
        // A delta is possible only if the block directly follows its predecessor; after padding, a
        // restart point is needed.
        let adjacent = last.end() == handle.offset;
        let whole = restart || (self.form.delta_values && !self.form.escaped && !adjacent);
        let shared = self.restarts.replace_last(separator, whole);
        self.value.clear();
        let delta = handle.size.wrapping_sub(last.size) as i64;
        if self.form.delta_values && shared > 0 && !self.form.escaped {
            put_varsigned64(&mut self.value, delta);
        } else if self.form.delta_values && shared > 0 && adjacent && delta != i64::MIN {
            put_varint64(&mut self.value, zigzag(delta) + 1);
        } else {
            if self.form.delta_values && shared > 0 {
                self.value.push(0);
            }
            put_varint64(&mut self.value, handle.offset);
            put_varint64(&mut self.value, handle.size);
        }
        if self.form.first_keys {
            put_lps(
                &mut self.value,
                first_key.expect("this index has the first key of every block"),
            );
        }
        put_varint32(&mut self.out, shared as u32);
        put_varint32(&mut self.out, len32(&separator[shared..]));
        if !self.form.delta_values {
            put_varint32(&mut self.out, len32(&self.value));
        }
        self.out.extend_from_slice(&separator[shared..]);
        self.out.extend_from_slice(&self.value);
        self.last_handle = handle;
        self.entries += 1;
    }

    /// Marks the keys of the block as uniformly distributed, a hint for RocksDB 11.9 and later.
    pub fn mark_uniform(&mut self) {
        self.uniform = true;
    }

    /// The form of the entries.
    #[must_use]
    pub fn form(&self) -> IndexForm {
        self.form
    }

    /// True if the block has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// The number of entries.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// The last separator added; empty if there is none.
    #[must_use]
    pub fn last_key(&self) -> &[u8] {
        &self.restarts.last_key
    }

    /// The size of the block if it were finished now.
    #[must_use]
    pub fn estimated_size(&self) -> usize {
        self.out.len() + 4 * self.restarts.offsets.len() + 4 - self.restarts.saved()
    }

    /// Finishes the block. Must be followed by [`IndexBlockBuilder::reset`].
    pub fn finish(&mut self) -> &[u8] {
        let lengths = usize::from(!self.form.delta_values);
        self.restarts.strip(&mut self.out, lengths);
        self.restarts.finish(&mut self.out);
        let flags = if self.uniform { UNIFORM } else { 0 };
        put_fixed32(&mut self.out, self.restarts.footer(flags));
        &self.out
    }

    /// Starts the next block.
    pub fn reset(&mut self) {
        self.restarts.reset();
        self.last_handle = Handle { offset: 0, size: 0 };
        self.out.clear();
        self.entries = 0;
        self.uniform = false;
    }
}
