//! The filter of a table in use: whether it may have a key, or keys of a prefix.

use cairn_format::block::{BlockKind, BlockLayout, IndexCursor, IndexForm};
use cairn_format::filter::{FilterKey, FilterKind};
use cairn_format::key::{self, LookupKey, strip_timestamp};
use cairn_format::table::Handle;
use cairn_memory::CacheRole;
use cairn_types::{Result, SequenceNumber, ValueKind};

use super::table::{Blocks, Lack, Part, Supplied, Table};

/// The filter of an open table.
pub(crate) struct Filter {
    pub root: Part,
    /// What the root is, if it is held and no index over partitions.
    pub kind: Option<FilterKind>,
    pub partitioned: bool,
    /// How the index over the partitions is coded.
    pub form: IndexForm,
    /// Whether it knows whole keys.
    pub whole_keys: bool,
    /// Whether it knows prefixes.
    pub prefixes: bool,
    /// Partitions held in memory, by offset; usually none.
    pub partitions: Blocks,
}

/// What the filter says, or the block that it lacks.
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

    /// What filters of whole keys know the key of `lookup` by.
    #[inline]
    fn whole_key_of<'a>(&self, lookup: &'a LookupKey) -> FilterKey<'a> {
        match self.params.order.timestamp_size() {
            0 => FilterKey::with_hash(lookup.user(), lookup.hash()),
            size => FilterKey::new(strip_timestamp(lookup.user(), size)),
        }
    }

    /// What filters of prefixes know the key of `lookup` by.
    fn prefix_of<'a>(&self, lookup: &'a LookupKey) -> Option<FilterKey<'a>> {
        let user_key = strip_timestamp(lookup.user(), self.params.order.timestamp_size());
        let prefix = self.prefix_extractor.as_ref()?.prefix(user_key)?;
        Some(FilterKey::new(prefix))
    }

    /// Reads a byte of what the filter has on the key of `lookup`, if the filter is held in memory
    /// as a whole, so that it is in the processor's cache when it is asked.
    #[inline]
    #[must_use]
    pub fn touch_filter(&self, lookup: &LookupKey) -> u8 {
        let Some(filter) = &self.filter else {
            return 0;
        };
        let (Some(bits), Some(kind)) = (&filter.root.held, &filter.kind) else {
            return 0;
        };
        let probe = match filter.whole_keys {
            true => Some(self.whole_key_of(lookup)),
            false => self.prefix_of(lookup),
        };
        probe.map_or(0, |probe| kind.touch(bits, &probe))
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
        if let (Some(bits), Some(kind)) = (&filter.root.held, &filter.kind) {
            return Ok(Ok(kind.may_match(bits, probe)));
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
