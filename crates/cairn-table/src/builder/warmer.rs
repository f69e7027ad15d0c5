//! Inserts blocks into the block cache as they are written (`prepopulate_block_cache`).
//!
//! Each block is inserted uncompressed, in the form in which a read would have cached it and under the same
//! key. Only blocks that reads look up in the cache are inserted: data blocks, partitions of indexes and filters
//! that are not pinned, and whole or top-level ones if `cache_index_and_filter_blocks` keeps them there. The rest
//! is read when the table is opened.

use std::sync::Arc;

use cairn_format::block::{DataWords, EntryForm, IndexForm};
use cairn_format::table::{Handle, Properties};
use cairn_memory::secondary::CacheTier;
use cairn_memory::{BlockCache, CacheKey, CachePriority, CacheRole};
use cairn_observe::statistics::Meter;
use cairn_options::TableOptions;
use cairn_platform::{Allocation, Buffer};
use cairn_types::{Malformed, Result};

use crate::block_stats::{count_insertion, part_of};
use crate::builder::params::{BuildParams, WarmBlocks};
use crate::metadata::{Tier, is_pinned, metadata_priority, unique_id};
use crate::reader::block_fetcher::without_prefix;

/// Inserts the blocks of one table.
pub(crate) struct Warmer {
    cache: Arc<BlockCache>,
    file: [u64; 2],
    options: Arc<TableOptions>,
    level: Option<usize>,
    data_priority: CachePriority,
    lowest_tier: CacheTier,
    metadata_priority: CachePriority,
    /// True if cached data blocks get search words.
    has_words: bool,
    meter: Meter,
}

impl Warmer {
    /// Creates a warmer if `params` ask for it; `None` otherwise, without a cache, and for a table without a
    /// unique id, whose blocks have no key yet.
    pub(crate) fn new(params: &BuildParams, properties: &Properties) -> Option<Warmer> {
        let WarmBlocks {
            priority,
            lowest_tier,
        } = params.warm?;
        let options = params.options.clone();
        let [high, low, _] = unique_id(properties)?.external();
        Some(Warmer {
            cache: options.block_cache.clone()?,
            file: [high, low],
            level: usize::try_from(params.place.level).ok(),
            lowest_tier,
            data_priority: priority,
            metadata_priority: metadata_priority(&options),
            has_words: params.order.bytewise_before_timestamp().is_some() && !params.external,
            meter: params.meter.clone(),
            options,
        })
    }

    /// Inserts the data block `raw`, which was written to `handle`. `entries` is the usual number of entries of a
    /// block.
    pub(crate) fn data(&self, handle: Handle, raw: &[u8], entries: u64) -> Result<()> {
        let words = match self.has_words {
            true => DataWords::encoded_len(entries.saturating_add(1)),
            false => 0,
        };
        let room = match words <= handle.size.max(self.options.block_size) / 8 {
            true => words as usize,
            false => 0,
        };
        self.insert(CacheRole::Data, handle, raw, Some(EntryForm::Data), room)
    }

    /// Inserts the metadata block `raw`, which was written to `handle`, if reads look it up. `form` is the encoding
    /// of its entries if it is an index.
    pub(crate) fn metadata(
        &self,
        (role, tier): (CacheRole, Tier),
        handle: Handle,
        raw: &[u8],
        form: Option<IndexForm>,
    ) -> Result<()> {
        let is_cached = tier == Tier::Partition || self.options.cache_index_and_filter_blocks;
        if !is_cached || is_pinned(&self.options, self.level, tier) {
            return Ok(());
        }
        self.insert(role, handle, raw, form.map(EntryForm::Index), 0)
    }

    fn insert(
        &self,
        role: CacheRole,
        handle: Handle,
        raw: &[u8],
        form: Option<EntryForm>,
        room: usize,
    ) -> Result<()> {
        let kind = self.cache.options().memory;
        let allocation = Allocation { kind, room };
        let block = Buffer::copy_of(raw, allocation);
        let block = match form {
            Some(form) => without_prefix(block, form, self.options.format_version, allocation)
                .map_err(|error: Malformed| error.in_file("a block that was just built", 0))?,
            None => block,
        };
        let bytes = block.memory_usage();
        let priority = match role {
            CacheRole::Data => self.data_priority,
            _ => self.metadata_priority,
        };
        let key = CacheKey::of_block(self.file, handle.offset);
        let outcome = (self.cache).insert_down_to(key, block, role, priority, self.lowest_tier);
        self.meter
            .update(|update| count_insertion(update, part_of(role), bytes, outcome));
        Ok(())
    }
}
