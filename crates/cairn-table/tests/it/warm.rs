//! Blocks that are inserted into the cache as they are written are those that reads would insert.

use std::sync::Arc;

use cairn_memory::secondary::CacheTier;
use cairn_memory::{BlockCache, CacheKey, CacheOptions, CachePriority};
use cairn_options::{MetadataCacheOptions, PinningTier, TableOptions};
use cairn_table::{BuildParams, OpenParams, TableIdentity, TablePlace, WarmBlocks};
use cairn_types::PrefixExtractor;
use proptest::prelude::*;

use crate::round_trip::{entries_of, options, orders, raw_entries};
use crate::world::{build, forward, get, open};

fn cache() -> Arc<BlockCache> {
    Arc::new(BlockCache::new(8 << 20, CacheOptions::default()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_warm_table_is_read_without_a_miss(
        raw in raw_entries(),
        (options, compression, codec) in options(),
        order in orders(),
        cache_metadata: bool,
        pins_top_level: bool,
        pinned in prop::sample::select(vec![PinningTier::None, PinningTier::All]),
    ) {
        let entries = entries_of(&order, raw);
        let warm = cache();
        let options = TableOptions {
            cache_index_and_filter_blocks: cache_metadata,
            pin_top_level_index_and_filter: pins_top_level,
            metadata_cache_options: MetadataCacheOptions {
                partition_pinning: pinned,
                unpartitioned_pinning: pinned,
                ..MetadataCacheOptions::default()
            },
            block_cache: Some(warm.clone()),
            ..options
        };
        let options = Arc::new(options);
        let identity = TableIdentity {
            db_id: "a database".to_owned(),
            session_id: "ABCDEFGHIJKLMNOPQRST".to_owned(),
            ..TableIdentity::default()
        };
        let extractor = Some(PrefixExtractor::Fixed(3));
        let (bytes, _) = build(
            BuildParams {
                options: options.clone(),
                order: order.clone(),
                compression,
                compression_options: codec,
                prefix_extractor: extractor.clone(),
                identity,
                place: TablePlace {
                    level: 0,
                    ..TablePlace::default()
                },
                warm: Some(WarmBlocks {
                    priority: CachePriority::Low,
                    lowest_tier: CacheTier::default(),
                }),
                ..BuildParams::default()
            },
            &entries,
            &[],
        ).unwrap();
        let inserted = warm.counts();
        let cold = cache();
        for cache in [&warm, &cold] {
            let table = open(&bytes, OpenParams {
                order: order.clone(),
                level: Some(0),
                options: options.clone(),
                prefix_extractor: extractor.clone(),
                cache: Some(cache.clone()),
                ..OpenParams::default()
            }).unwrap();
            prop_assert_eq!(&forward(&table).unwrap(), &entries);
            for (key, _) in &entries {
                let user = cairn_format::key::user_key(key);
                prop_assert!(!get(&table, user, 1000).unwrap().is_empty());
            }
            let id = table.cache_id();
            for offset in 0..bytes.len() as u64 {
                let key = CacheKey::of_block(id, offset);
                prop_assert!(!cold.contains(&key) || warm.contains(&key));
                if let (Some(read), Some(built)) = (cold.get(&key), warm.get(&key)) {
                    prop_assert_eq!(&*read, &*built);
                }
            }
        }
        // Every lookup of a table found its block, and none was inserted that is never looked up.
        let counts = warm.counts();
        prop_assert_eq!((counts.insertions, counts.evictions), (inserted.insertions, 0));
        let read = cold.counts().entries;
        prop_assert!(read <= inserted.entries);
        // A table without entries has an index partition that no read reaches. A partitioned filter may have a partition
        // that no key asks for: one of prefixes only, or of keys without a prefix.
        if !entries.is_empty() && !options.partition_filters {
            prop_assert_eq!(read, inserted.entries);
        }
    }
}
