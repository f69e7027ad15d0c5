//! The metaindex: where a table's parts besides its data blocks lie, by name. And the plain block
//! of entries that both it and the properties are.
//!
//! ```text
//! entry*  restart*: fixed32  count: fixed32
//! entry = varint32 shared | varint32 non_shared | varint32 value_size | key bytes | value
//! ```

use std::borrow::Cow;

use cairn_types::{Decoded, Malformed};

use crate::coding::{Input, put_fixed32, put_varint32};
use crate::table::handle::Handle;

/// Name of the properties block.
pub const PROPERTIES: &[u8] = b"rocksdb.properties";
/// Name of the index block, from format version 6 on.
pub const INDEX: &[u8] = b"rocksdb.index";
/// Name of the compression dictionary.
pub const COMPRESSION_DICT: &[u8] = b"rocksdb.compression_dict";
/// Name of the block of range tombstones.
pub const RANGE_DEL: &[u8] = b"rocksdb.range_del";
/// Name of the prefixes of a hash index.
pub const HASH_INDEX_PREFIXES: &[u8] = b"rocksdb.hashindex.prefixes";
/// Name of the metadata of a hash index.
pub const HASH_INDEX_METADATA: &[u8] = b"rocksdb.hashindex.metadata";
/// What a full filter's name begins with; the policy's name follows.
pub const FULL_FILTER: &[u8] = b"fullfilter.";
/// What a partitioned filter's name begins with.
pub const PARTITIONED_FILTER: &[u8] = b"partitionedfilter.";
/// The policy name under which every built-in filter is stored.
pub const BUILTIN_FILTER: &[u8] = b"rocksdb.BuiltinBloomFilter";

/// The parts of a table, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetaIndex {
    entries: Vec<(Vec<u8>, Handle)>,
}

impl MetaIndex {
    /// Reads a metaindex block. Every handle is checked to end at or before `limit`.
    ///
    /// # Errors
    ///
    /// The entry's offset in the block.
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

    /// Adds a part.
    pub fn insert(&mut self, name: &[u8], handle: Handle) {
        self.entries.push((name.to_vec(), handle));
    }

    /// Where the part of this name lies.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<Handle> {
        let entry = self.entries.iter().find(|entry| entry.0 == name);
        entry.map(|entry| entry.1)
    }

    /// Where the built-in filter of this kind lies, [`FULL_FILTER`] or [`PARTITIONED_FILTER`].
    #[must_use]
    pub fn filter(&self, kind: &[u8]) -> Option<Handle> {
        let is_it = |name: &[u8]| name.strip_prefix(kind) == Some(BUILTIN_FILTER);
        let entry = self.entries.iter().find(|entry| is_it(&entry.0));
        entry.map(|entry| entry.1)
    }

    /// The names and places of all parts.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Handle)> {
        self.entries
            .iter()
            .map(|(name, handle)| (&name[..], *handle))
    }

    /// The metaindex as a block, sorted by name.
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

/// Where the restarts of a plain block are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restarts {
    /// At every entry.
    Every,
    /// At the first entry only.
    First,
}

/// A key shares no more than so many bytes with the one before, so that what a block holds stays within
/// the budget of its readers ([`Entries`]), whatever names it has.
const MOST_SHARED: usize = 128;

/// A plain block of `rows`, which are sorted. Keys share what they begin with up to the next restart.
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
                let pairs = key.iter().zip(before).take(MOST_SHARED);
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

/// One entry of a plain block.
pub(crate) struct Entry<'a> {
    /// Lies in the block if it shares nothing with the key before, as at a restart.
    pub key: Cow<'a, [u8]>,
    pub value: &'a [u8],
    /// Offset of the value in the block.
    pub value_at: usize,
}

/// The entries of a plain block, from front to back.
pub(crate) struct Entries<'a> {
    entries: &'a [u8],
    input: Input<'a>,
    key: Cow<'a, [u8]>,
    /// Bytes of keys that may still be given out: keys that share much with the one before could
    /// otherwise take the square of the block's size in memory.
    budget: usize,
}

impl<'a> Entries<'a> {
    /// The entries of `block`.
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
            // An entry takes four bytes or more, and its key what it shares and what it has alone.
            budget: block.len() * (MOST_SHARED / 4 + 1) + 4096,
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
                "bytes shared with the key before",
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
    fn parts_are_found_by_name() {
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
