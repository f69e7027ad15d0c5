//! Input of the table's filter: hashes of keys and prefixes. They are kept until the table is
//! finished, because their number determines the size of the filter.

use cairn_format::filter::{FilterKey, FilterKind};
use cairn_format::hash::{hash32, hash64};
use cairn_format::key::strip_timestamp;
use cairn_types::{Error, PrefixExtractor, Result};

use crate::builder::hash_buffer::HashBuffer;

/// The seed of legacy Bloom filters.
const LEGACY_SEED: u32 = 0xbc9f_1d34;

/// The hashes of the keys and prefixes of a table, grouped by data block.
pub(crate) struct FilterKeys {
    /// True below format version 5, whose filters use 32-bit hashes.
    legacy: bool,
    whole_keys: bool,
    extractor: Option<PrefixExtractor>,
    timestamp_size: usize,
    hashes: HashBuffer,
    /// For each finished data block of a partitioned filter: the end of its hashes, and the prefixes at
    /// its edges.
    blocks: Option<Vec<BlockEdge>>,
    last_whole: Option<u64>,
    last_prefix: Option<u64>,
    first_prefix: Option<u64>,
    /// The hashes combined with XOR, if filters are verified.
    checksum: Option<u64>,
}

#[derive(Clone, Copy)]
struct BlockEdge {
    end: usize,
    first_prefix: Option<u64>,
    last_prefix: Option<u64>,
}

impl FilterKeys {
    /// Creates an empty collection. With `partitioned`, the hashes of each block remain separable.
    pub(crate) fn new(
        legacy: bool,
        whole_keys: bool,
        extractor: Option<PrefixExtractor>,
        timestamp_size: usize,
        partitioned: bool,
    ) -> FilterKeys {
        FilterKeys {
            legacy,
            whole_keys,
            extractor,
            timestamp_size,
            hashes: HashBuffer::default(),
            blocks: partitioned.then(Vec::new),
            last_whole: None,
            last_prefix: None,
            first_prefix: None,
            checksum: None,
        }
    }

    /// Keeps a checksum of the hashes: without it, [`FilterKeys::verify_hashes`] and [`FilterKeys::verify_filter`] verify
    /// nothing.
    pub(crate) fn with_checksum(self) -> FilterKeys {
        FilterKeys {
            checksum: Some(0),
            ..self
        }
    }

    /// Verifies that the hashes are those that were added.
    ///
    /// # Errors
    ///
    /// `Corruption`.
    pub(crate) fn verify_hashes(&self) -> Result<()> {
        let all = || self.all().fold(0, |checksum, hash| checksum ^ hash);
        match self.checksum.is_none_or(|checksum| checksum == all()) {
            true => Ok(()),
            false => Err(Error::corruption(
                "the hashes of the keys of a filter were damaged in memory",
            )),
        }
    }

    /// Verifies that the filter `bits` of format version 5 or later matches the keys with these `hashes`.
    ///
    /// # Errors
    ///
    /// `Corruption`.
    pub(crate) fn verify_filter(
        &self,
        bits: &[u8],
        mut hashes: impl Iterator<Item = u64>,
    ) -> Result<()> {
        let kind = FilterKind::parse(bits);
        let mut matches = |hash| kind.may_match(bits, &FilterKey::with_hash(&[], hash));
        match self.checksum.is_none() || hashes.all(&mut matches) {
            true => Ok(()),
            false => Err(Error::corruption(
                "a filter that was built does not match all of its keys",
            )),
        }
    }

    #[inline]
    fn push(&mut self, hash: u64) {
        if let Some(checksum) = &mut self.checksum {
            *checksum ^= hash;
        }
        self.hashes.push(hash);
    }

    #[inline]
    fn hash(&self, key: &[u8]) -> u64 {
        if self.legacy {
            u64::from(hash32(key, LEGACY_SEED))
        } else {
            hash64(key)
        }
    }

    /// Adds a key of the current data block. Consecutive equal hashes are stored once.
    #[inline]
    pub(crate) fn add(&mut self, user_key: &[u8]) {
        let key = strip_timestamp(user_key, self.timestamp_size);
        if self.whole_keys {
            let hash = self.hash(key);
            if self.last_whole != Some(hash) {
                self.last_whole = Some(hash);
                self.push(hash);
            }
        }
        let prefix = self.extractor.as_ref().and_then(|e| e.prefix(key));
        if let Some(prefix) = prefix {
            let hash = self.hash(prefix);
            if self.last_prefix != Some(hash) {
                self.last_prefix = Some(hash);
                self.push(hash);
            }
            self.first_prefix.get_or_insert(hash);
        }
    }

    /// Ends a data block. Each block keeps all of its hashes, so that any range of blocks can
    /// become a partition.
    pub(crate) fn end_block(&mut self) {
        if let Some(blocks) = &mut self.blocks {
            blocks.push(BlockEdge {
                end: self.hashes.len(),
                first_prefix: self.first_prefix,
                last_prefix: self.last_prefix,
            });
        }
        self.last_whole = None;
        self.last_prefix = None;
        self.first_prefix = None;
    }

    /// Returns the memory of the hashes, in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        let blocks = self.blocks.as_ref().map_or(0, Vec::capacity);
        self.hashes.memory_usage() + blocks * size_of::<BlockEdge>()
    }

    /// Returns the number of hashes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.hashes.len()
    }

    /// True if there are no hashes.
    pub(crate) fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Returns all hashes.
    pub(crate) fn all(&self) -> impl Iterator<Item = u64> + Clone + '_ {
        self.hashes.range(0, self.hashes.len())
    }

    /// Returns the number of hashes of data block `block` of a partitioned filter.
    pub(crate) fn len_of(&self, block: usize) -> usize {
        self.end_before(block + 1) - self.end_before(block)
    }

    /// Returns the hashes of the data blocks from `first` to `end`, exclusive, of a partitioned
    /// filter, and the prefixes just before and after them, which are looked up by prefix seeks to
    /// the edges of the range.
    pub(crate) fn run(&self, first: usize, end: usize) -> impl Iterator<Item = u64> + Clone + '_ {
        let before = self
            .edge(first.checked_sub(1))
            .and_then(|edge| edge.last_prefix);
        let behind = self.edge(Some(end)).and_then(|edge| edge.first_prefix);
        self.hashes
            .range(self.end_before(first), self.end_before(end))
            .chain(before)
            .chain(behind)
    }

    /// Returns the edges of data block `block`, if it exists.
    fn edge(&self, block: Option<usize>) -> Option<&BlockEdge> {
        self.blocks.as_ref()?.get(block?)
    }

    /// Returns the number of hashes before those of data block `block`.
    fn end_before(&self, block: usize) -> usize {
        self.edge(block.checked_sub(1)).map_or(0, |edge| edge.end)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cairn_format::filter::FilterPolicy;
    use cairn_format::key::append_internal;
    use cairn_options::{IndexType, TableOptions};
    use cairn_platform::fs::{FileMode, FileSystem};
    use cairn_platform::mem::MemFileSystem;
    use cairn_types::{SequenceNumber, ValueKind};

    use super::*;
    use crate::builder::{BlockBasedBuilder, BuildParams};

    #[test]
    fn a_range_of_blocks_has_its_hashes_and_the_adjacent_prefixes() {
        let mut keys = FilterKeys::new(false, true, Some(PrefixExtractor::Fixed(1)), 0, true);
        for block in [["a1", "a2"], ["b1", "b1"], ["b1", "c1"]] {
            for key in block {
                keys.add(key.as_bytes());
            }
            keys.end_block();
        }
        assert_eq!([keys.len(), keys.all().count()], [2 + 3 + 4; 2]);
        assert_eq!(keys.len_of(1), 2);
        let run: Vec<u64> = keys.run(1, 2).collect();
        assert_eq!(run, [b"b1", &b"b"[..], b"a", b"b"].map(hash64));
        assert_eq!(keys.run(0, 3).count(), keys.len());
    }

    #[test]
    fn a_filter_without_a_key_and_damaged_hashes_are_corruption() {
        for policy in ["bloomfilter:10:false", "ribbonfilter:10"] {
            let policy = FilterPolicy::from_text(policy).unwrap();
            let mut keys = FilterKeys::new(false, true, None, 0, false).with_checksum();
            for n in 0..10_000_u32 {
                keys.add(&n.to_be_bytes());
            }
            keys.verify_hashes().unwrap();
            let bits = policy.builder(5, 0).unwrap().build(keys.all());
            keys.verify_filter(&bits, keys.all()).unwrap();
            for at in [0, bits.len() / 2, bits.len() - 6] {
                let mut damaged = bits.clone();
                damaged[at..(at + 64).min(bits.len() - 5)]
                    .iter_mut()
                    .for_each(|byte| *byte = !*byte);
                let error = keys.verify_filter(&damaged, keys.all()).unwrap_err();
                assert!(error.is_corruption(), "{error}");
            }
            // A filter without some of the keys.
            let other = policy.builder(5, 0).unwrap().build(keys.all().skip(1000));
            assert!(keys.verify_filter(&other, keys.all()).is_err());
            keys.hashes.damage();
            assert!(keys.verify_hashes().unwrap_err().is_corruption());
        }
    }

    /// Builds a table whose last hash is damaged before the filter is built.
    fn table_of_damaged_hashes(verifies: bool, partitioned: bool) -> Result<()> {
        let fs = MemFileSystem::new();
        let file = fs.create("/table".as_ref(), FileMode::default())?;
        let options = TableOptions {
            filter_policy: FilterPolicy::from_text("bloomfilter:10"),
            partition_filters: partitioned,
            index_type: match partitioned {
                true => IndexType::TwoLevelIndexSearch,
                false => IndexType::BinarySearch,
            },
            detect_filter_construct_corruption: verifies,
            ..TableOptions::default()
        };
        let params = BuildParams {
            options: Arc::new(options),
            ..BuildParams::default()
        };
        let mut builder = BlockBasedBuilder::create(file, params)?;
        for n in 0..1000_u32 {
            let mut key = Vec::new();
            let user = n.to_be_bytes();
            append_internal(&mut key, &user, SequenceNumber(1), ValueKind::Value);
            builder.add(&key, b"value")?;
        }
        let keys = builder.filter.as_mut();
        keys.expect("the table has a filter").hashes.damage();
        builder.finish().map(drop)
    }

    #[test]
    fn damaged_hashes_fail_the_table_if_filters_are_verified() {
        for partitioned in [false, true] {
            let error = table_of_damaged_hashes(true, partitioned).unwrap_err();
            assert!(error.is_corruption(), "{error}");
            table_of_damaged_hashes(false, partitioned).unwrap();
        }
    }
}
