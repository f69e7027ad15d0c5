//! The metaindex, which maps the names of meta blocks to their handles, and the format of simple key-value
//! blocks, used by the metaindex and the properties.
//!
//! ```text
//! entry*  restart*: fixed32  count: fixed32
//! entry = varint32 shared | varint32 non_shared | varint32 value_size | key bytes | value
//! ```

use std::borrow::Cow;

use cairn_types::{Decoded, Malformed};

use crate::coding::{Input, put_fixed32, put_varint32};
use crate::table::handle::Handle;

/// The name of the properties block.
pub const PROPERTIES: &[u8] = b"rocksdb.properties";
/// The name of the index block (format version 6 and later).
pub const INDEX: &[u8] = b"rocksdb.index";
/// The name of the compression dictionary.
pub const COMPRESSION_DICT: &[u8] = b"rocksdb.compression_dict";
/// The name of the range tombstone block.
pub const RANGE_DEL: &[u8] = b"rocksdb.range_del";
/// The name of the prefixes of a hash index.
pub const HASH_INDEX_PREFIXES: &[u8] = b"rocksdb.hashindex.prefixes";
/// The name of the metadata of a hash index.
pub const HASH_INDEX_METADATA: &[u8] = b"rocksdb.hashindex.metadata";
/// The prefix of a full filter's name, which is followed by that of the policy.
pub const FULL_FILTER: &[u8] = b"fullfilter.";
/// The prefix of a partitioned filter's name.
pub const PARTITIONED_FILTER: &[u8] = b"partitionedfilter.";
/// The policy name of all built-in filters.
pub const BUILTIN_FILTER: &[u8] = b"rocksdb.BuiltinBloomFilter";

/// The meta blocks of a table by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetaIndex {
    entries: Vec<(Vec<u8>, Handle)>,
}

impl MetaIndex {
    /// Decodes a metaindex block. Every handle must end at or before `limit`.
    ///
    /// # Errors
    ///
    /// The offset of the entry in the block.
    pub fn decode(block: &[u8], limit: u64) -> Decoded<MetaIndex> {
        let mut entries = Vec::new();
        for entry in Entries::new(block)? {
            let entry = entry?;
            let handle = Handle::decode(&mut Input::new(entry.value))
                .map_err(|error| error.shifted(entry.value_at))?;
            handle.check(limit, entry.value_at)?;
            entries.push((entry.key.into_owned(), handle));
        }
        Ok(MetaIndex { entries })
    }

    /// Adds a meta block.
    pub fn insert(&mut self, name: &[u8], handle: Handle) {
        self.entries.push((name.to_vec(), handle));
    }

    /// The handle of the meta block with this name.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<Handle> {
        let entry = self.entries.iter().find(|entry| entry.0 == name);
        entry.map(|entry| entry.1)
    }

    /// The handle of the built-in filter with the prefix `kind`, [`FULL_FILTER`] or [`PARTITIONED_FILTER`].
    #[must_use]
    pub fn filter(&self, kind: &[u8]) -> Option<Handle> {
        let is_it = |name: &[u8]| name.strip_prefix(kind) == Some(BUILTIN_FILTER);
        let entry = self.entries.iter().find(|entry| is_it(&entry.0));
        entry.map(|entry| entry.1)
    }

    /// The names and handles of all meta blocks.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Handle)> {
        self.entries
            .iter()
            .map(|(name, handle)| (&name[..], *handle))
    }

    /// Encodes the metaindex, sorted by name.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut rows: Vec<(&[u8], Vec<u8>)> = Vec::new();
        for (name, handle) in &self.entries {
            let mut value = Vec::new();
            handle.encode(&mut value);
            rows.push((name, value));
        }
        rows.sort();
        encode_entries(
            rows.iter().map(|(name, value)| (*name, &value[..])),
            Restarts::Every,
        )
    }
}

/// The restart points of a simple block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restarts {
    /// At every entry.
    Every,
    /// At the first entry only.
    First,
}

/// The maximum number of bytes shared with the previous key. It keeps every block within the budget
/// of its readers ([`Entries`]).
const MAX_SHARED: usize = 128;

/// Encodes `rows`, which are sorted, as a simple block. Keys are delta-encoded between restart points.
pub(crate) fn encode_entries<'a>(
    rows: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    restarts: Restarts,
) -> Vec<u8> {
    let mut block = Vec::new();
    let mut starts = Vec::new();
    let mut before: &[u8] = &[];
    for (key, value) in rows {
        let is_start = starts.is_empty() || restarts == Restarts::Every;
        let shared = match is_start {
            true => 0,
            false => {
                let pairs = key.iter().zip(before).take(MAX_SHARED);
                pairs.take_while(|(a, b)| a == b).count()
            }
        };
        if is_start {
            starts.push(block.len());
        }
        put_varint32(&mut block, shared as u32);
        put_varint32(&mut block, (key.len() - shared) as u32);
        put_varint32(&mut block, value.len() as u32);
        block.extend_from_slice(&key[shared..]);
        block.extend_from_slice(value);
        before = key;
    }
    if starts.is_empty() {
        starts.push(0);
    }
    for start in &starts {
        put_fixed32(&mut block, *start as u32);
    }
    put_fixed32(&mut block, starts.len() as u32);
    block
}

/// An entry of a simple block.
pub(crate) struct Entry<'a> {
    /// Borrowed from the block if it shares nothing with the previous key, as at a restart point.
    pub key: Cow<'a, [u8]>,
    pub value: &'a [u8],
    /// The offset of the value in the block.
    pub value_at: usize,
}

/// A sequential iterator over the entries of a simple block.
pub(crate) struct Entries<'a> {
    entries: &'a [u8],
    input: Input<'a>,
    key: Cow<'a, [u8]>,
    /// The remaining total length of keys. Without a limit, keys that share long prefixes could
    /// take quadratic memory.
    budget: usize,
}

impl<'a> Entries<'a> {
    /// Creates an iterator over the entries of `block`.
    pub(crate) fn new(block: &'a [u8]) -> Decoded<Entries<'a>> {
        let count_at = block
            .len()
            .checked_sub(4)
            .ok_or_else(|| Malformed::at(0, "block is too short to hold its restart count"))?;
        let count = Input::new(&block[count_at..]).fixed32()? as usize;
        let end = count
            .checked_mul(4)
            .and_then(|len| count_at.checked_sub(len))
            .filter(|_| count > 0)
            .ok_or_else(|| {
                let most = format!("1 to {}", count_at / 4);
                Malformed::mismatch(count_at, "number of restarts", most, count)
            })?;
        let entries = &block[..end];
        Ok(Entries {
            entries,
            input: Input::new(entries),
            key: Cow::Borrowed(&[]),
            // An entry takes at least four bytes, and its key has a shared and an unshared part.
            budget: block.len() * (MAX_SHARED / 4 + 1) + 4096,
        })
    }

    fn read(&mut self) -> Decoded<Entry<'a>> {
        let at = self.input.at();
        let shared = self.input.varint32()? as usize;
        let non_shared = self.input.varint32()? as usize;
        let value_len = self.input.varint32()? as usize;
        if shared > self.key.len() {
            return Err(Malformed::mismatch(
                at,
                "bytes shared with the previous key",
                format_args!("at most {}", self.key.len()),
                shared,
            ));
        }
        let delta = self.input.take(non_shared)?;
        match shared {
            0 => self.key = Cow::Borrowed(delta),
            _ => {
                let key = self.key.to_mut();
                key.truncate(shared);
                key.extend_from_slice(delta);
            }
        }
        self.budget = self
            .budget
            .checked_sub(self.key.len())
            .ok_or_else(|| Malformed::at(at, "keys are much longer than their block"))?;
        let value_at = self.input.at();
        Ok(Entry {
            key: self.key.clone(),
            value: self.input.take(value_len)?,
            value_at,
        })
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Decoded<Entry<'a>>;

    fn next(&mut self) -> Option<Decoded<Entry<'a>>> {
        if self.input.is_empty() {
            return None;
        }
        let entry = self.read();
        if entry.is_err() {
            self.input = Input::new(&self.entries[..0]);
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn meta_blocks_are_found_by_name() {
        let mut meta = MetaIndex::default();
        let handle = |offset| Handle { offset, size: 10 };
        meta.insert(PROPERTIES, handle(500));
        meta.insert(INDEX, handle(300));
        let block = meta.encode();
        let back = MetaIndex::decode(&block, 1000).unwrap();
        assert_eq!(back.find(PROPERTIES), Some(handle(500)));
        assert_eq!(back.find(INDEX), Some(handle(300)));
        assert_eq!(back.find(RANGE_DEL), None);
        assert!(MetaIndex::decode(&block, 514).is_err());
        assert!(MetaIndex::decode(&MetaIndex::default().encode(), 0).is_ok());
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = MetaIndex::decode(&bytes, 1000);
        }

        #[test]
        fn damage_never_panics(at: prop::sample::Index, bits in 1u8..) {
            let mut meta = MetaIndex::default();
            meta.insert(PROPERTIES, Handle { offset: 500, size: 10 });
            meta.insert(RANGE_DEL, Handle { offset: 5, size: 10 });
            let mut block = meta.encode();
            let at = at.index(block.len());
            block[at] ^= bits;
            let _ = MetaIndex::decode(&block, 1000);
        }
    }
}
