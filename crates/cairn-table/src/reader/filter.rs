//! The filter of a table in use: whether it may have a key, or keys of a prefix.

use cairn_format::block::{BlockKind, BlockLayout, IndexCursor, IndexForm};
use cairn_format::filter::{FilterKey, FilterKind};
use cairn_format::key::{self, LookupKey, strip_timestamp};
use cairn_format::table::Handle;
use cairn_memory::CacheRole;
use cairn_platform::prefetch_address;
use cairn_types::{Result, SequenceNumber, ValueKind};

use super::table::{Blocks, Lack, Part, Supplied, Table};

/// Bytes of a line of the processor's cache, and of a filter those that have to do with one key.
const LINE: usize = 64;

/// The filter of an open table.
pub(crate) struct Filter {
    /// An index over partitions, if it is held, or where the filter or that index lies.
    pub root: Part,
    /// The whole filter, if it is held.
    pub bits: Option<Bits>,
    pub partitioned: bool,
    /// How the index over the partitions is coded.
    pub form: IndexForm,
    /// True if it knows whole keys.
    pub whole_keys: bool,
    /// True if it knows prefixes.
    pub prefixes: bool,
    /// Partitions held in memory, by offset; usually none.
    pub partitions: Blocks,
}

/// A filter in memory of its own, in which its lines are lines of the processor's cache. Where blocks lie
/// otherwise a line of the filter is in two of those, and asking it waits for both.
pub(crate) struct Bits {
    memory: Box<[u8]>,
    start: usize,
    len: usize,
    kind: FilterKind,
}

impl Bits {
    /// A copy of `filter`.
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

    /// Asks for the memory of what there is on `probe`.
    #[inline]
    fn prefetch(&self, probe: &FilterKey<'_>) {
        let place = self.start + self.kind.place(probe);
        prefetch_address(self.memory.as_ptr().addr().wrapping_add(place));
    }

    pub(crate) fn memory_usage(&self) -> usize {
        self.memory.len()
    }
}

/// The answer of the filter, or the block that it lacks.
pub(crate) type Answer = Result<Result<bool, Lack>>;

impl Table {
    /// Whether the table may have the user key of `lookup`.
    #[inline]
    pub(crate) fn may_contain(&self, lookup: &LookupKey, supplied: &Supplied) -> Answer {
        let Some(filter) = &self.filter else {
            return Ok(Ok(true));
        };
        if filter.whole_keys {
            let probe = self.whole_key_of(lookup);
            let answer = self.ask(filter, &probe, lookup.internal(), supplied);
            if let Ok(Ok(may_match)) = answer {
                supplied.counts.filter(may_match);
            }
            return answer;
        }
        if filter.prefixes
            && let Some(probe) = self.prefix_of(lookup)
        {
            let answer = self.ask(filter, &probe, lookup.internal(), supplied);
            if let Ok(Ok(may_match)) = answer {
                supplied.counts.prefix_filter(may_match);
            }
            return answer;
        }
        Ok(Ok(true))
    }

    /// The key of `lookup` in filters of whole keys.
    #[inline]
    fn whole_key_of<'a>(&self, lookup: &'a LookupKey) -> FilterKey<'a> {
        match self.params.order.timestamp_size() {
            0 => FilterKey::with_hash(lookup.user(), lookup.hash()),
            size => FilterKey::new(strip_timestamp(lookup.user(), size)),
        }
    }

    /// The prefix of the key of `lookup` in filters of prefixes.
    fn prefix_of<'a>(&self, lookup: &'a LookupKey) -> Option<FilterKey<'a>> {
        let user_key = strip_timestamp(lookup.user(), self.params.order.timestamp_size());
        let prefix = self.prefix_extractor.as_ref()?.prefix(user_key)?;
        Some(FilterKey::new(prefix))
    }

    /// Asks for the memory of what the filter has on the key of `lookup`, if the filter is held in memory
    /// as a whole.
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

    /// Whether the table may have keys with the prefix of `user_key`, as the file has it.
    pub(crate) fn may_have_prefix_of(&self, user_key: &[u8], supplied: &Supplied) -> Answer {
        let Some(filter) = self.filter.as_ref().filter(|filter| filter.prefixes) else {
            return Ok(Ok(true));
        };
        let bare = strip_timestamp(user_key, self.order.timestamp_size());
        let Some(prefix) = self.prefix_extractor.as_ref().and_then(|e| e.prefix(bare)) else {
            return Ok(Ok(true));
        };
        // Only among partitions it matters where the key lies.
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
        self.ask(filter, &FilterKey::new(prefix), &target, supplied)
    }

    /// Asks the filter, or the partition of it that is responsible for `target`, for `probe`.
    #[inline]
    fn ask(
        &self,
        filter: &Filter,
        probe: &FilterKey<'_>,
        target: &[u8],
        supplied: &Supplied,
    ) -> Answer {
        if let Some(bits) = &filter.bits {
            return Ok(Ok(bits.may_match(probe)));
        }
        if filter.partitioned {
            return self.ask_partition(filter, probe, target, supplied);
        }
        let lack = Lack {
            handle: filter.root.handle,
            role: CacheRole::Filter,
        };
        Ok(self
            .find(lack, supplied)
            .map(|bits| FilterKind::parse(&bits).may_match(&bits, probe))
            .ok_or(lack))
    }

    fn ask_partition(
        &self,
        filter: &Filter,
        probe: &FilterKey<'_>,
        target: &[u8],
        supplied: &Supplied,
    ) -> Answer {
        let lack = Lack {
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
        let lack = Lack {
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

    /// The partition for `target`: the first whose separator is not before it, or the last one.
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
    fn a_held_filter_answers_as_the_block_does_and_its_lines_are_the_processors() {
        let policy = FilterPolicy::from_text("bloomfilter:10").unwrap();
        for keys in [0, 1, 7, 1000] {
            let mut builder = policy.builder(7, Some(1)).unwrap();
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
