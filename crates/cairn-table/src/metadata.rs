//! Rules for the metadata blocks of a table, shared by builder and reader: which are pinned, their priority in the cache,
//! and the id from which the keys of blocks derive.

use cairn_format::id::UniqueId;
use cairn_format::table::Properties;
use cairn_memory::CachePriority;
use cairn_options::{PinningTier, TableOptions};

/// The kind of a metadata block, as distinguished by the pinning rules.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tier {
    TopLevel,
    Partition,
    Whole,
}

/// True if a metadata block of a table of `level` is pinned while the table is open.
pub(crate) fn is_pinned(options: &TableOptions, level: Option<usize>, tier: Tier) -> bool {
    let pinned = &options.metadata_cache_options;
    let l0 = options.pin_l0_filter_and_index_blocks_in_cache;
    let (tier, fallback) = match tier {
        Tier::TopLevel if options.pin_top_level_index_and_filter => {
            (pinned.top_level_index_pinning, PinningTier::All)
        }
        Tier::TopLevel => (pinned.top_level_index_pinning, PinningTier::None),
        Tier::Partition if l0 => (pinned.partition_pinning, PinningTier::FlushedAndSimilar),
        Tier::Partition => (pinned.partition_pinning, PinningTier::None),
        Tier::Whole if l0 => (pinned.unpartitioned_pinning, PinningTier::FlushedAndSimilar),
        Tier::Whole => (pinned.unpartitioned_pinning, PinningTier::None),
    };
    let tier = if tier == PinningTier::Fallback {
        fallback
    } else {
        tier
    };
    match tier {
        PinningTier::All => true,
        PinningTier::FlushedAndSimilar => level == Some(0),
        PinningTier::None | PinningTier::Fallback => false,
    }
}

/// Returns the priority of metadata blocks in the cache.
pub(crate) fn metadata_priority(options: &TableOptions) -> CachePriority {
    match options.cache_index_and_filter_blocks_with_high_priority {
        true => CachePriority::High,
        false => CachePriority::Low,
    }
}

/// Returns the unique id derived from the properties.
pub(crate) fn unique_id(properties: &Properties) -> Option<UniqueId> {
    UniqueId::of_table(
        &properties.db_id,
        &properties.db_session_id,
        properties.original_file_number,
    )
}
