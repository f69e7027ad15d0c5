//! Records the lookups of blocks in the block cache, if the database has an active trace of them.
//!
//! A hit is recorded where the block is found, a miss once the block has been read, with its size. Only the lookups of a
//! cache are recorded: blocks that the table holds are not looked up. The lookup of a data block by a get is recorded
//! after the search in the block, with its result.

use std::cell::Cell;

use cairn_format::block::{BlockKind, BlockLayout, DataCursor};
use cairn_format::key;
use cairn_format::trace::block_cache::{
    Access, BlockSearch, CacheCaller, NO_LEVEL, TracedBlock, TracedGet,
};
use cairn_memory::CacheRole;
use cairn_observe::traces::BlockCacheTracer;
use cairn_observe::traces::block_cache::{TracedGetId, is_in_use};
use cairn_platform::Buffer;
use cairn_types::ValueKind;

use super::get::TableGet;
use super::table::{MissingBlock, SuppliedBlocks, Table};

/// A reader other than a get.
#[derive(Clone, Copy)]
pub(crate) struct TracedReader {
    pub(crate) caller: CacheCaller,
    /// True if it inserts the blocks that it reads into the cache.
    pub(crate) fills: bool,
}

/// A get that is traced.
#[derive(Clone, Copy, Debug)]
pub struct TracedRead {
    /// The number of the get.
    pub id: TracedGetId,
    /// [`CacheCaller::Get`] or [`CacheCaller::MultiGet`].
    pub caller: CacheCaller,
    /// True if it reads at a snapshot.
    pub at_snapshot: bool,
    /// True if it inserts the blocks that it reads into the cache.
    pub fills: bool,
}

/// The lookups of a get that is traced.
#[derive(Clone)]
pub(crate) struct TracedLookups {
    read: TracedRead,
    /// The internal key that is looked up.
    key: Vec<u8>,
    /// The lookup of the data block that is searched next.
    unsearched: Cell<Option<BlockLookup>>,
}

/// A lookup of a block.
#[derive(Clone, Copy)]
struct BlockLookup {
    block: MissingBlock,
    size: u64,
    is_hit: bool,
}

impl TableGet {
    /// Records the lookups of the next get, of the internal key `key`, as those of `read`; `None` if it is not traced.
    #[cold]
    pub fn trace_as(&mut self, read: Option<TracedRead>, key: &[u8]) {
        self.state().supplied.get = read.map(|read| {
            Box::new(TracedLookups {
                read,
                key: key.to_vec(),
                unsearched: Cell::new(None),
            })
        });
    }

    /// Records the lookups of this get as those of `other`.
    #[cold]
    pub fn trace_like(&mut self, other: &TableGet) {
        let get = other
            .0
            .as_ref()
            .and_then(|other| other.supplied.get.clone());
        self.state().supplied.get = get;
    }

    /// Records the lookup of the missing block of `table`, which is not read because storage must not be accessed.
    #[cold]
    pub fn trace_refused(&self, table: &Table) {
        let Some(state) = &self.0 else {
            return;
        };
        if let Some(lack) = state.missing_block() {
            table.trace_refused(lack, &state.supplied);
        }
    }
}

impl SuppliedBlocks {
    /// The get, if it started in the active trace.
    fn get_in(&self, tracer: &BlockCacheTracer) -> Option<&TracedLookups> {
        let get = self.get.as_deref();
        get.filter(|get| tracer.is_current(get.read.id))
    }
}

impl Table {
    /// The tracer of the database, if it is active.
    fn tracer(&self) -> Option<&BlockCacheTracer> {
        let tracer = self.params.cache_tracer.as_deref();
        tracer.filter(|tracer| self.params.cache.is_some() && tracer.is_on())
    }

    /// Records that `block` was not found in the cache, and was read.
    #[inline]
    pub(super) fn trace_miss(&self, lack: MissingBlock, block: &Buffer, supplied: &SuppliedBlocks) {
        if is_in_use() {
            self.trace_lookup(lack, block.memory_usage(), false, supplied);
        }
    }

    /// Records that a block was not found in the cache, and is not read.
    #[cold]
    pub(super) fn trace_refused(&self, lack: MissingBlock, supplied: &SuppliedBlocks) {
        let Some(tracer) = self.tracer() else {
            return;
        };
        let lookup = BlockLookup {
            block: lack,
            size: 0,
            is_hit: false,
        };
        if let Some(reader) = supplied.reader {
            self.trace(tracer, lookup, reader.caller, true, None);
        } else if let Some(get) = supplied.get_in(tracer) {
            self.trace_by_get(tracer, lookup, get, None);
        }
    }

    /// Records the lookup of a block of `size` bytes of memory.
    #[cold]
    #[inline(never)]
    pub(super) fn trace_lookup(
        &self,
        block: MissingBlock,
        size: usize,
        is_hit: bool,
        supplied: &SuppliedBlocks,
    ) {
        let Some(tracer) = self.tracer() else {
            return;
        };
        let size = size as u64;
        let lookup = BlockLookup {
            block,
            size,
            is_hit,
        };
        if let Some(reader) = supplied.reader {
            return self.trace(tracer, lookup, reader.caller, !reader.fills, None);
        }
        match supplied.get_in(tracer) {
            Some(get) if block.role == CacheRole::Data => get.unsearched.set(Some(lookup)),
            Some(get) => self.trace_by_get(tracer, lookup, get, None),
            // A get that is not traced.
            None => {}
        }
    }

    /// Records the lookup of the data block that a get has searched up to `cursor`.
    #[cold]
    #[inline(never)]
    pub(super) fn trace_search(
        &self,
        block: &[u8],
        cursor: &DataCursor,
        supplied: &SuppliedBlocks,
    ) {
        let Some(get) = &supplied.get else {
            return;
        };
        // Without a lookup, the block was found in that of another get.
        let Some(lookup) = get.unsearched.take() else {
            return;
        };
        if let Some(tracer) = self.tracer()
            && tracer.is_current(get.read.id)
        {
            self.trace_by_get(tracer, lookup, get, Some((block, cursor)));
        }
    }

    fn trace_by_get(
        &self,
        tracer: &BlockCacheTracer,
        lookup: BlockLookup,
        get: &TracedLookups,
        searched: Option<(&[u8], &DataCursor)>,
    ) {
        let found = searched.and_then(|(block, cursor)| self.found(block, cursor, &get.key));
        let search = BlockSearch {
            entry_size: found.map_or(0, |(_, size)| size),
            keys_in_block: searched
                .map_or(0, |(block, _)| self.keys_in_block(block, get.read.id.get)),
            is_found: found.is_some(),
        };
        let traced = TracedGet {
            id: get.read.id.get,
            at_snapshot: get.read.at_snapshot,
            key: found.map_or(&get.key, |(key, _)| key),
            search: Some(search),
        };
        let (caller, fills) = (get.read.caller, get.read.fills);
        let is_refused = lookup.size == 0;
        self.trace(tracer, lookup, caller, !fills || is_refused, Some(traced));
    }

    /// Returns the internal key of the value of `key` at which `cursor` is in `block`, and the size of the entry.
    fn found<'b>(
        &self,
        block: &'b [u8],
        cursor: &'b DataCursor,
        key: &[u8],
    ) -> Option<(&'b [u8], u64)> {
        if !cursor.valid() {
            return None;
        }
        let internal = cursor.key(block);
        let found = key::parse(internal).ok()?;
        let (user, mut stripped) = (key::user_key(key), Vec::new());
        let user = match self.pad {
            0 => user,
            _ => {
                crate::strip_internal(key, self.pad, &mut stripped);
                key::user_key(&stripped)
            }
        };
        let is_value = matches!(
            found.kind,
            ValueKind::Value
                | ValueKind::BlobIndex
                | ValueKind::WideColumnEntity
                | ValueKind::ValuePreferredSeqno
        );
        let is_same = key::is_same_key(&self.order, found.user_key, user);
        let size = internal.len() + cursor.value_range().len();
        (is_value && is_same).then_some((internal, size as u64))
    }

    /// The approximate number of keys in `block`: as in RocksDB, the last restart interval is taken as half full, which
    /// is rounded up for every other get.
    fn keys_in_block(&self, block: &[u8], get: u64) -> u64 {
        let interval = u64::try_from(self.params.options.block_restart_interval).unwrap_or(1);
        let layout = BlockLayout::parse(block, BlockKind::Data);
        let restarts = layout.map_or(0, |layout| u64::from(layout.restarts()));
        let most = interval.saturating_mul(restarts);
        most.saturating_sub(interval.saturating_sub(get & 1) / 2)
    }

    fn trace(
        &self,
        tracer: &BlockCacheTracer,
        lookup: BlockLookup,
        caller: CacheCaller,
        no_insert: bool,
        get: Option<TracedGet<'_>>,
    ) {
        let block = match lookup.block.role {
            CacheRole::Index => TracedBlock::Index,
            CacheRole::Filter | CacheRole::FilterMeta => TracedBlock::Filter,
            _ => TracedBlock::Data,
        };
        let level = self.params.level.map(u32::try_from);
        tracer.record(&Access {
            block_key: &self.cache_key(lookup.block.handle).to_bytes(),
            block,
            block_size: lookup.size,
            family: self.properties.column_family_id,
            family_name: self.properties.column_family_name.as_bytes(),
            level: level.map_or(NO_LEVEL, |level| level.unwrap_or(NO_LEVEL)),
            file: self.params.number.0,
            caller,
            is_hit: lookup.is_hit,
            no_insert,
            get,
        });
    }
}
