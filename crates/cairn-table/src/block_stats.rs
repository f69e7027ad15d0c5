//! Statistics of blocks in the cache, shared by builder and reader.

use cairn_memory::{CacheRole, InsertOutcome};
use cairn_observe::statistics::{BlockPart, CacheEvent, Ticker, Update};

/// Returns the block kind for tickers.
#[inline]
pub(crate) fn part_of(role: CacheRole) -> BlockPart {
    match role {
        CacheRole::Filter | CacheRole::FilterMeta => BlockPart::Filter,
        CacheRole::Index => BlockPart::Index,
        CacheRole::Dictionary => BlockPart::Dictionary,
        CacheRole::Data | CacheRole::Blob | CacheRole::Other => BlockPart::Data,
    }
}

/// Counts the insertion of a block into the cache, or its rejection. `bytes` is the size of its allocation.
pub(crate) fn count_insertion(
    update: &Update<'_>,
    part: BlockPart,
    bytes: usize,
    outcome: InsertOutcome,
) {
    if !outcome.is_kept() {
        update.add(Ticker::BlockCacheAddFailures, 1);
        return;
    }
    update.add(Ticker::BlockCacheAdd, 1);
    update.add(Ticker::BlockCacheBytesWrite, bytes as u64);
    update.add(part.ticker(CacheEvent::Add), 1);
    update.add(part.bytes_inserted(), bytes as u64);
    if outcome == InsertOutcome::Replaced {
        update.add(Ticker::BlockCacheAddRedundant, 1);
        update.add(part.ticker(CacheEvent::AddRedundant), 1);
    }
}
