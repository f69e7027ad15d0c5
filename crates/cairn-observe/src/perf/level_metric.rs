//! RocksDB's perf counters by level, in the order of its report.

use crate::statistics::numbered_enum::numbered_enum;

numbered_enum! {
    /// A counter of one thread's accesses to the tables of one level.
    LevelMetric {
        BloomFilterUseful = "bloom_filter_useful",
        BloomFilterFullPositive = "bloom_filter_full_positive",
        BloomFilterFullTruePositive = "bloom_filter_full_true_positive",
        UserKeyReturnCount = "user_key_return_count",
        GetFromTableNanos = "get_from_table_nanos",
        BlockCacheHitCount = "block_cache_hit_count",
        BlockCacheMissCount = "block_cache_miss_count",
    }
}
