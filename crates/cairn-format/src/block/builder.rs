//! Builders of blocks: of keys and values, and of separators and handles.

use cairn_types::KeyOrder;

use super::common_prefix;
use super::cursor::common_prefix;
use super::hash_index::HashIndexBuilder;
use super::index::IndexForm;
use super::layout::MAX_HASHED_BLOCK_LEN;
use super::layout::{HASHED, SEPARATED, UNIFORM};
use crate::coding::{put_fixed32, put_lps, put_varint32, put_varint64, put_varsigned64, zigzag};
use crate::key;
use crate::table::handle::Handle;

/// How a block of keys and values is laid out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockOptions {
    /// Entries from one whole key to the next; at least 1.
    pub restart_interval: usize,
    /// True if keys leave out what they share with the key before.
    pub delta_encoding: bool,
    /// Keys per bucket of a hash index over user keys, if there shall be one. The keys must then
    /// be internal keys, of an order for which [`can_hash`] holds.
    pub hash_util_ratio: Option<f64>,
    /// True if values lie apart from keys. Data blocks only.
    pub separate_values: bool,
    /// True if what all user keys have in common is stored once (format version 8). The keys must then
    /// be internal keys, and leave out what they share.
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
    /// The layout of metaindex and range tombstone blocks: every key is whole.
    #[must_use]
    pub fn whole_keys() -> BlockOptions {
        BlockOptions {
            restart_interval: 1,
            ..BlockOptions::default()
        }
    }

    /// The layout of the properties block: one restart.
    #[must_use]
    pub fn one_restart() -> BlockOptions {
        BlockOptions {
            restart_interval: usize::MAX,
            ..BlockOptions::default()
        }
    }
}

/// True if blocks of keys in `order` may have a hash index: equal keys must have equal bytes, and
/// a lookup must know all of them, which it does not where keys end with a timestamp.
#[must_use]
pub fn can_hash(order: &KeyOrder) -> bool {
    !order.different_bytes_may_be_equal() && order.timestamp_size() == 0
}

/// What both builders share: restarts, and the key before.
struct Restarts {
    offsets: Vec<u32>,
    interval: usize,
    /// Entries since the last restart.
    since: usize,
    last_key: Vec<u8>,
    /// What keys have in common, if that is stored once.
    common: Option<CommonPrefix>,
}

/// The length of the prefix that the user keys of a block have in common.
#[derive(Clone, Copy)]
struct CommonPrefix {
    /// Of all keys so far; that of no key is as long as can be.
    len: usize,
    /// Bytes of a key that are none of the user key.
    suffix: usize,
}

impl CommonPrefix {
    /// Takes in a key of `key_len` bytes that has `shared` bytes in common with the one before.
    ///
    /// Bytes that are shared by the suffix of a key and a longer user key count for nothing: RocksDB 11.12
    /// counts them in, and then misses the shorter key under the reverse order.
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

    /// Lets what user keys have in common be stored once; other bytes of a key are `suffix`.
    fn with_common_prefix(mut self, suffix: usize) -> Restarts {
        self.common = Some(CommonPrefix {
            len: usize::MAX,
            suffix,
        });
        self
    }

    /// The length of the prefix that is to be stored once; 0 for none.
    fn prefix_len(&self) -> usize {
        match self.common {
            Some(CommonPrefix { len, .. }) if len != usize::MAX => len,
            _ => 0,
        }
    }

    /// Bytes that storing it once saves.
    fn saved(&self) -> usize {
        self.prefix_len() * (self.offsets.len() - 1)
    }

    /// Stores the common prefix of `entries`, which have `lengths` more lengths at a restart than those of
    /// the key, once.
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

    /// Begins an entry at offset `at`, and says whether it is a restart.
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

    /// How much `key` shares with the key before, which it then takes the place of.
    fn replace_last(&mut self, key: &[u8], restart: bool) -> usize {
        let shared = if restart && self.common.is_none() {
            0
        } else {
            common_prefix(&self.last_key, key)
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

fn len32(slice: &[u8]) -> u32 {
    u32::try_from(slice.len()).expect("keys and values are shorter than 4 GiB")
}

/// Builds blocks of keys and values, one after another.
///
/// Keys come in the order of the block; the builder does not compare them.
pub struct BlockBuilder {
    options: BlockOptions,
    restarts: Restarts,
    hash: Option<HashIndexBuilder>,
    out: Vec<u8>,
    /// The values, where they lie apart.
    values: Vec<u8>,
    entries: usize,
}

impl BlockBuilder {
    /// A builder with an empty block.
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

    /// How the blocks are laid out.
    #[must_use]
    pub fn options(&self) -> &BlockOptions {
        &self.options
    }

    /// Appends an entry.
    ///
    /// # Panics
    ///
    /// When the block grows to 4 GiB.
    #[inline]
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        let restart = self.restarts.begin(self.out.len());
        let whole = restart || !self.options.delta_encoding;
        let shared = self.restarts.replace_last(key, whole);
        put_varint32(&mut self.out, shared as u32);
        put_varint32(&mut self.out, len32(&key[shared..]));
        put_varint32(&mut self.out, len32(value));
        if self.options.separate_values {
            if restart {
                put_varint32(&mut self.out, len32(&self.values));
            }
            self.values.extend_from_slice(value);
            self.out.extend_from_slice(&key[shared..]);
        } else {
            self.out.extend_from_slice(&key[shared..]);
            self.out.extend_from_slice(value);
        }
        if let Some(hash) = &mut self.hash {
            hash.add(key::user_key(key), self.restarts.offsets.len() - 1);
        }
        self.entries += 1;
    }

    /// True if nothing has been added.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// How many entries have been added.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// The key added last; empty before the first.
    #[inline]
    #[must_use]
    pub fn last_key(&self) -> &[u8] {
        &self.restarts.last_key
    }

    /// How large the block would be if it were finished now.
    #[inline]
    #[must_use]
    pub fn estimated_size(&self) -> usize {
        let size = self.size_without_hash();
        match self.hash_size(size) {
            Some(hash) => size + hash,
            None => size,
        }
    }

    /// The most that [`BlockBuilder::estimated_size`] grows when this entry is added.
    #[must_use]
    pub fn growth(&self, key: &[u8], value: &[u8]) -> usize {
        // Three or four varints, mostly short, and perhaps a restart.
        key.len() + value.len() + 3 + 4 + usize::from(value.len() >= 128)
    }

    fn size_without_hash(&self) -> usize {
        let apart = if self.options.separate_values { 4 } else { 0 };
        let size = self.out.len() + self.values.len() + 4 * self.restarts.offsets.len() + 4 + apart;
        size.saturating_sub(self.restarts.saved())
    }

    /// Bytes of the hash index of a block of `size`, if it can have one.
    fn hash_size(&self, size: usize) -> Option<usize> {
        let hash = self.hash.as_ref()?.size()?;
        (size + hash <= MAX_HASHED_BLOCK_LEN).then_some(hash)
    }

    /// Completes the block. Nothing but [`BlockBuilder::reset`] may follow.
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

    /// Begins the next block.
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

/// Builds index blocks, one after another.
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
    /// A builder with an empty block of entries of `form`.
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

    /// The same builder, which stores what all user keys of a block have in common once (format version 8).
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

    /// Appends an entry: `separator` in the form's kind of key, and where its block lies.
    /// `first_key` is written if the form has first keys.
    ///
    /// # Panics
    ///
    /// When the form has first keys and there is none.
    pub fn add(&mut self, separator: &[u8], handle: Handle, first_key: Option<&[u8]>) {
        let restart = self.restarts.begin(self.out.len());
        let last = self.last_handle;
        // A delta says that the block lies right behind the one before; padding makes a new start.
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
                first_key.expect("this index holds the first key of every block"),
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

    /// Marks the block's keys as evenly spread, a hint that RocksDB 11.9 and later use.
    pub fn mark_uniform(&mut self) {
        self.uniform = true;
    }

    /// The form of the entries.
    #[must_use]
    pub fn form(&self) -> IndexForm {
        self.form
    }

    /// True if nothing has been added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// How many entries have been added.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// The separator added last; empty before the first.
    #[must_use]
    pub fn last_key(&self) -> &[u8] {
        &self.restarts.last_key
    }

    /// How large the block would be if it were finished now.
    #[must_use]
    pub fn estimated_size(&self) -> usize {
        self.out.len() + 4 * self.restarts.offsets.len() + 4 - self.restarts.saved()
    }

    /// Completes the block. Nothing but [`IndexBlockBuilder::reset`] may follow.
    pub fn finish(&mut self) -> &[u8] {
        let lengths = usize::from(!self.form.delta_values);
        self.restarts.strip(&mut self.out, lengths);
        self.restarts.finish(&mut self.out);
        let flags = if self.uniform { UNIFORM } else { 0 };
        put_fixed32(&mut self.out, self.restarts.footer(flags));
        &self.out
    }

    /// Begins the next block.
    pub fn reset(&mut self) {
        self.restarts.reset();
        self.last_handle = Handle { offset: 0, size: 0 };
        self.out.clear();
        self.entries = 0;
        self.uniform = false;
    }
}
