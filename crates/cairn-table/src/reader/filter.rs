//! Filter lookups of an open table, by whole key or by prefix.

use cairn_format::block::{BlockKind, BlockLayout, IndexCursor, IndexForm};
use cairn_format::filter::{FilterKey, FilterKind};
use cairn_format::key::{self, LookupKey, strip_timestamp};
use cairn_format::table::Handle;
use cairn_memory::CacheRole;
use cairn_platform::prefetch_address;
use cairn_types::{Result, SequenceNumber, ValueKind};

use super::table::{Blocks, MetaBlock, MissingBlock, SuppliedBlocks, Table};

/// Size of a cache line, and of the part of a filter that a key maps to, in bytes.
const LINE: usize = 64;

/// The filter of an open table.
pub(crate) struct Filter {
    /// The filter, or the index over its partitions.
    pub root: MetaBlock,
    /// The whole filter, if it is held in memory.
    pub bits: Option<Bits>,
    pub partitioned: bool,
    /// Encoding of the index over the partitions.
    pub form: IndexForm,
    /// True if it contains whole keys.
    pub whole_keys: bool,
    /// True if it contains prefixes.
    pub prefixes: bool,
    /// Partitions held in memory, by offset; usually empty.
    pub partitions: Blocks,
}

/// A cache-line aligned copy of a filter. In an unaligned copy, a line of the filter would span two
/// cache lines and a lookup could miss twice.
pub(crate) struct Bits {
    memory: Box<[u8]>,
    start: usize,
    len: usize,
    kind: FilterKind,
}

impl Bits {
    /// Copies `filter`.
    pub(crate) fn new(filter: &[u8]) -> Bits {
        let mut memory = vec![0; filter.len() + LINE - 1].into_boxed_slice();
        let start = memory.as_ptr().align_offset(LINE).min(LINE - 1);
        memory[start..][..filter.len()].copy_from_slice(filter);
        Bits {
            memory,
            start,
            len: filter.len(),
            kind: FilterKind::parse(filter),
        }
    }

    #[inline]
    fn may_match(&self, probe: &FilterKey<'_>) -> bool {
        let filter = &self.memory[self.start..][..self.len];
        self.kind.may_match(filter, probe)
    }

    /// Prefetches the cache line of `probe`.
    #[inline]
    fn prefetch(&self, probe: &FilterKey<'_>) {
        let place = self.start + self.kind.place(probe);
        prefetch_address(self.memory.as_ptr().addr().wrapping_add(place));
    }

    pub(crate) fn memory_usage(&self) -> usize {
        self.memory.len()
    }
}

/// The result of a filter lookup, or the missing block.
pub(crate) type Answer = Result<Result<bool, MissingBlock>>;

impl Table {
    /// The filter of whole keys, if all of it is held in memory.
    #[inline]
    fn held_key_filter(&self) -> Option<&Bits> {
        let filter = self.filter.as_ref().filter(|filter| filter.whole_keys)?;
        filter.bits.as_ref()
    }

    /// True if [`Table::may_have_key`] can exclude keys.
    #[inline]
    #[must_use]
    pub fn holds_key_filter(&self) -> bool {
        self.held_key_filter().is_some()
    }

    /// Prefetches the memory of [`Table::may_have_key`].
    #[inline]
    pub fn prefetch_key_filter(&self, key: &FilterKey<'_>) {
        if let Some(bits) = self.held_key_filter() {
            bits.prefetch(key);
        }
    }

    /// False if a filter that is held in memory excludes the user key `key`, which has no timestamp. Not counted in
    /// the statistics of filters.
    #[inline]
    #[must_use]
    pub fn may_have_key(&self, key: &FilterKey<'_>) -> bool {
        self.held_key_filter()
            .is_none_or(|bits| bits.may_match(key))
    }

    /// False if the table does not have the user key of `lookup`.
    #[inline]
    pub(crate) fn may_contain(&self, lookup: &LookupKey, supplied: &SuppliedBlocks) -> Answer {
        let Some(filter) = &self.filter else {
            return Ok(Ok(true));
        };
        if filter.whole_keys {
            let probe = self.whole_key_of(lookup);
            let answer = self.look_up(filter, &probe, lookup.internal(), supplied);
            if let Ok(Ok(may_match)) = answer {
                supplied.counts.filter(may_match);
            }
            return answer;
        }
        if filter.prefixes
            && let Some(probe) = self.prefix_of(lookup)
        {
            let answer = self.look_up(filter, &probe, lookup.internal(), supplied);
            if let Ok(Ok(may_match)) = answer {
                supplied.counts.prefix_filter(may_match);
            }
            return answer;
        }
        Ok(Ok(true))
    }

    /// Returns the key of `lookup` in a filter of whole keys.
    #[inline]
    fn whole_key_of<'a>(&self, lookup: &'a LookupKey) -> FilterKey<'a> {
        let size = self.params.order.timestamp_size();
        FilterKey::with_hash(
            strip_timestamp(lookup.user(), size),
            lookup.hash_without_timestamp(size),
        )
    }

    /// Returns the prefix of `lookup` in a filter of prefixes.
    fn prefix_of<'a>(&self, lookup: &'a LookupKey) -> Option<FilterKey<'a>> {
        let user_key = strip_timestamp(lookup.user(), self.params.order.timestamp_size());
        let prefix = self.prefix_extractor.as_ref()?.prefix(user_key)?;
        Some(FilterKey::new(prefix))
    }

    /// Prefetches the cache line for the key of `lookup`, if the whole filter is held in memory.
    #[inline]
    pub fn prefetch_filter(&self, lookup: &LookupKey) {
        let Some(filter) = &self.filter else {
            return;
        };
        let Some(bits) = &filter.bits else {
            return;
        };
        let probe = match filter.whole_keys {
            true => Some(self.whole_key_of(lookup)),
            false => self.prefix_of(lookup),
        };
        if let Some(probe) = probe {
            bits.prefetch(&probe);
        }
    }

    /// False if the table has no key with the prefix of `user_key`, as stored in the file.
    pub(crate) fn may_have_prefix_of(&self, user_key: &[u8], supplied: &SuppliedBlocks) -> Answer {
        let Some(filter) = self.filter.as_ref().filter(|filter| filter.prefixes) else {
            return Ok(Ok(true));
        };
        let bare = strip_timestamp(user_key, self.order.timestamp_size());
        let Some(prefix) = self.prefix_extractor.as_ref().and_then(|e| e.prefix(bare)) else {
            return Ok(Ok(true));
        };
        // The target is needed only to find a partition.
        if let Some(bits) = &filter.bits {
            return Ok(Ok(bits.may_match(&FilterKey::new(prefix))));
        }
        let mut target = Vec::with_capacity(user_key.len() + key::SUFFIX_LEN);
        key::append_internal(
            &mut target,
            user_key,
            SequenceNumber::MAX,
            ValueKind::FOR_SEEK,
        );
        if self.pad > 0 {
            let mut padded = Vec::new();
            crate::pad_internal(&target, self.pad, &mut padded);
            target = padded;
        }
        self.look_up(filter, &FilterKey::new(prefix), &target, supplied)
    }

    /// Looks up `probe` in the filter, or in its partition for `target`.
    #[inline]
    fn look_up(
        &self,
        filter: &Filter,
        probe: &FilterKey<'_>,
        target: &[u8],
        supplied: &SuppliedBlocks,
    ) -> Answer {
        if let Some(bits) = &filter.bits {
            return Ok(Ok(bits.may_match(probe)));
        }
        if filter.partitioned {
            return self.look_up_partition(filter, probe, target, supplied);
        }
        let lack = MissingBlock {
            handle: filter.root.handle,
            role: CacheRole::Filter,
        };
        Ok(self
            .find(lack, supplied)
            .map(|bits| FilterKind::parse(&bits).may_match(&bits, probe))
            .ok_or(lack))
    }

    fn look_up_partition(
        &self,
        filter: &Filter,
        probe: &FilterKey<'_>,
        target: &[u8],
        supplied: &SuppliedBlocks,
    ) -> Answer {
        let lack = MissingBlock {
            handle: filter.root.handle,
            role: CacheRole::FilterMeta,
        };
        let found;
        let root = match &filter.root.held {
            Some(held) => held,
            None => match self.find(lack, supplied) {
                Some(block) => {
                    found = block;
                    &found
                }
                None => return Ok(Err(lack)),
            },
        };
        let Some(handle) = self.filter_partition(filter, root, target)? else {
            return Ok(Ok(true));
        };
        let pinned = filter
            .partitions
            .binary_search_by_key(&handle.offset, |(offset, _)| *offset);
        if let Ok(at) = pinned {
            let bits = &filter.partitions[at].1;
            return Ok(Ok(FilterKind::parse(bits).may_match(bits, probe)));
        }
        let lack = MissingBlock {
            handle,
            role: CacheRole::Filter,
        };
        match self.find(lack, supplied) {
            Some(bits) => Ok(Ok(FilterKind::parse(&bits).may_match(&bits, probe))),
            None => {
                self.check(handle, filter.root.handle)?;
                Ok(Err(lack))
            }
        }
    }

    /// Returns the partition for `target`: the first whose separator is not before it, or the last one.
    fn filter_partition(
        &self,
        filter: &Filter,
        root: &[u8],
        target: &[u8],
    ) -> Result<Option<Handle>> {
        let mut buffer = Vec::new();
        let target = self.stored_target(target, &mut buffer);
        let find = || {
            let layout = BlockLayout::parse(root, BlockKind::Index)?;
            let mut cursor = IndexCursor::new(filter.form);
            cursor.seek(root, &layout, &self.order, target)?;
            if !cursor.valid() {
                cursor.last(root, &layout)?;
            }
            Ok(cursor.valid().then(|| cursor.handle()))
        };
        find().map_err(|error| self.bad(error, filter.root.handle.offset))
    }
}

#[cfg(test)]
mod tests {
    use cairn_format::filter::FilterPolicy;

    use super::*;

    #[test]
    fn a_held_filter_equals_its_block_and_is_cache_line_aligned() {
        let policy = FilterPolicy::from_text("bloomfilter:10").unwrap();
        for keys in [0, 1, 7, 1000] {
            let mut builder = policy.builder(7, 1).unwrap();
            (0..keys).for_each(|i: u32| builder.add_key(&i.to_be_bytes()));
            let block = builder.finish();
            let bits = Bits::new(&block);
            assert!(bits.memory_usage() >= block.len());
            let first = bits.memory[bits.start..].as_ptr();
            assert!(cfg!(miri) || first.addr().is_multiple_of(LINE));
            for i in 0..4000_u32 {
                let key = i.to_be_bytes();
                let probe = FilterKey::new(&key);
                bits.prefetch(&probe);
                let expected = FilterKind::parse(&block).may_match(&block, &probe);
                assert_eq!(bits.may_match(&probe), expected, "{i} of {keys}");
                assert!(expected || i >= keys);
            }
        }
    }
}
