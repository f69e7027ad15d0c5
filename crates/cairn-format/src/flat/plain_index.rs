//! The index of a PlainTable: a hash table from prefixes to the offsets of entries.
//!
//! ```text
//! block   = buckets: varint32  prefixes: varint32  bucket*  list*
//! bucket  = fixed32: the offset of an entry; 2^31 - 1 for none; or, with the top bit set, the offset of a list
//! list    = count: varint32  offset*: fixed32
//! ```
//!
//! A prefix has a record for its first key and for each `index_sparseness`th one. Its bucket is its hash modulo the number of
//! buckets. The records of a bucket are in the order of the entries.

use cairn_types::{Decoded, Malformed};

use crate::coding::{Input, put_fixed32, put_varint32};
use crate::hash::hash32;

use super::plain::{HASH_SEED, MAX_FILE_LEN};

/// The bucket of no prefix.
const EMPTY: u32 = MAX_FILE_LEN as u32;
/// Set in the bucket of several records.
const LIST: u32 = 1 << 31;

/// The builder of an index.
pub struct PlainIndexBuilder {
    /// The hash and the offset of each record.
    records: Vec<(u32, u32)>,
    sparseness: u64,
    prefix: Vec<u8>,
    prefix_hash: u32,
    prefixes: u32,
    keys_of_prefix: u64,
    /// True if the next key gets a record.
    is_due: bool,
}

impl PlainIndexBuilder {
    /// Creates a builder with a record for every `sparseness`th key of a prefix; 0 for every key.
    #[must_use]
    pub fn new(sparseness: u64) -> PlainIndexBuilder {
        PlainIndexBuilder {
            records: Vec::new(),
            sparseness,
            prefix: Vec::new(),
            prefix_hash: 0,
            prefixes: 0,
            keys_of_prefix: 0,
            is_due: false,
        }
    }

    /// Adds the entry at `offset`, whose key has the prefix `prefix`.
    pub fn add(&mut self, prefix: &[u8], offset: u32) {
        if self.prefixes == 0 || self.prefix != prefix {
            self.prefixes += 1;
            self.keys_of_prefix = 0;
            self.prefix.clear();
            self.prefix.extend_from_slice(prefix);
            self.prefix_hash = hash32(prefix, HASH_SEED);
            self.is_due = true;
        }
        if self.is_due {
            self.records.push((self.prefix_hash, offset));
        }
        self.keys_of_prefix += 1;
        self.is_due = self.sparseness == 0 || self.keys_of_prefix.is_multiple_of(self.sparseness);
    }

    /// The memory of the builder, in bytes.
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        self.records.capacity() * size_of::<(u32, u32)>() + self.prefix.capacity()
    }

    /// Returns the index with `prefixes / hash_table_ratio` buckets, or with one if `hash_table_ratio` is `None`.
    #[must_use]
    pub fn finish(self, hash_table_ratio: Option<f64>) -> Vec<u8> {
        let buckets = match hash_table_ratio {
            // The cast saturates.
            Some(ratio) if ratio > 0.0 => {
                ((f64::from(self.prefixes) * (1.0 / ratio)) as u32).saturating_add(1)
            }
            _ => 1,
        };
        let mut by_bucket: Vec<(u32, u32)> = self
            .records
            .iter()
            .map(|&(hash, offset)| (hash % buckets, offset))
            .collect();
        // Stable: the records of a bucket keep their order.
        by_bucket.sort_by_key(|&(bucket, _)| bucket);
        let (mut block, mut lists) = (Vec::new(), Vec::new());
        put_varint32(&mut block, buckets);
        put_varint32(&mut block, self.prefixes);
        let mut rest = &by_bucket[..];
        for bucket in 0..buckets {
            let count = rest.iter().take_while(|record| record.0 == bucket).count();
            let (records, others) = rest.split_at(count);
            rest = others;
            match records {
                [] => put_fixed32(&mut block, EMPTY),
                [(_, offset)] => put_fixed32(&mut block, *offset),
                _ => {
                    put_fixed32(&mut block, lists.len() as u32 | LIST);
                    put_varint32(&mut lists, count as u32);
                    for (_, offset) in records {
                        put_fixed32(&mut lists, *offset);
                    }
                }
            }
        }
        block.extend_from_slice(&lists);
        block
    }
}

/// A decoded index.
pub struct PlainIndex<'a> {
    /// The number of distinct prefixes.
    pub prefixes: u32,
    buckets: &'a [u8],
    lists: &'a [u8],
}

impl<'a> PlainIndex<'a> {
    /// Decodes the sizes of an index block.
    ///
    /// # Errors
    ///
    /// The offset of the malformed part.
    pub fn decode(block: &'a [u8]) -> Decoded<PlainIndex<'a>> {
        let mut input = Input::new(block);
        let count = input.varint32()?;
        if count == 0 {
            return Err(Malformed::at(0, "index of a PlainTable without buckets"));
        }
        let prefixes = input.varint32()?;
        let len = usize::try_from(u64::from(count) * 4).unwrap_or(usize::MAX);
        Ok(PlainIndex {
            prefixes,
            buckets: input.take(len)?,
            lists: input.take_rest(),
        })
    }

    /// The offsets recorded for prefixes with the hash of `prefix`, in the order of the entries.
    ///
    /// # Errors
    ///
    /// If the list of the bucket is malformed.
    pub fn offsets(&self, prefix: &[u8]) -> Decoded<Vec<u32>> {
        let buckets = self.buckets.len() / 4;
        let bucket = hash32(prefix, HASH_SEED) as usize % buckets;
        let found = Input::new(&self.buckets[4 * bucket..]).fixed32()?;
        if found & LIST == 0 {
            let one = (found != EMPTY).then_some(found);
            return Ok(one.into_iter().collect());
        }
        let at = (found ^ LIST) as usize;
        let outside = || Malformed::at(4 * bucket, "bucket refers to a list outside of the index");
        let mut input = Input::new(self.lists.get(at..).ok_or_else(outside)?);
        let count = input.varint32()? as usize;
        let offsets = input.take(count.saturating_mul(4))?;
        let offsets = offsets
            .chunks_exact(4)
            .map(|four| Input::new(four).fixed32());
        offsets.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_bucket_lists_every_interval() {
        let mut builder = PlainIndexBuilder::new(2);
        for n in 0..5 {
            builder.add(b"", 10 * n);
        }
        let block = builder.finish(None);
        let index = PlainIndex::decode(&block).unwrap();
        assert_eq!(index.prefixes, 1);
        assert_eq!(index.offsets(b"").unwrap(), [0, 20, 40]);
        assert_eq!(&block[..6], b"\x01\x01\x00\x00\x00\x80");
    }

    #[test]
    fn lists_outside_of_the_index_are_rejected() {
        assert!(PlainIndex::decode(b"\x00\x00").is_err());
        assert!(PlainIndex::decode(b"\xff\xff\xff\xff\x0f\x00").is_err());
        let index = PlainIndex::decode(b"\x01\x01\x09\x00\x00\x80").unwrap();
        assert!(index.offsets(b"").is_err());
        let index = PlainIndex::decode(b"\x01\x01\x00\x00\x00\x80\x07").unwrap();
        assert!(index.offsets(b"").is_err());
    }

    proptest! {
        #[test]
        fn every_prefix_is_found(
            counts in prop::collection::vec(1u32..40, 1..60),
            sparseness in 0u64..20,
            ratio in prop_oneof![Just(None), (0.1f64..2.0).prop_map(Some)],
        ) {
            let mut builder = PlainIndexBuilder::new(sparseness);
            let mut offset = 0;
            let mut expected = Vec::new();
            for (prefix, count) in (0u32..).zip(counts) {
                let prefix = prefix.to_be_bytes();
                expected.push((prefix, offset, count));
                for _ in 0..count {
                    builder.add(&prefix, offset);
                    offset += 1;
                }
            }
            let block = builder.finish(ratio);
            let index = PlainIndex::decode(&block).unwrap();
            prop_assert_eq!(index.prefixes as usize, expected.len());
            for (prefix, first, count) in expected {
                let found = index.offsets(&prefix).unwrap();
                prop_assert!(found.is_sorted());
                let step = sparseness.max(1) as usize;
                for wanted in (first..first + count).step_by(step) {
                    prop_assert!(found.contains(&wanted));
                }
            }
        }
    }
}
