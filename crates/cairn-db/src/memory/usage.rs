//! Approximate memory usage of databases and caches.

use std::collections::BTreeSet;
use std::sync::Arc;

use cairn_memory::BlockCache;

use crate::db::Db;

/// Approximate memory of several databases and caches together, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryUsage {
    /// All memtables, including those kept by iterators.
    pub mem_table_total: u64,
    /// Unflushed memtables.
    pub mem_table_unflushed: u64,
    /// Indexes, filters and other parts of open tables that are not in a cache.
    pub table_readers_total: u64,
    /// The caches.
    pub cache_total: u64,
}

/// Returns the approximate memory of `dbs`, and of `caches` and the caches of the families of `dbs`; each
/// cache is counted once.
#[must_use]
pub fn approximate_memory_usage(dbs: &[&Db], caches: &[Arc<BlockCache>]) -> MemoryUsage {
    let mut usage = MemoryUsage::default();
    let mut all: Vec<Arc<BlockCache>> = caches.to_vec();
    for db in dbs {
        let sum = |name| db.aggregated_property_number(name).unwrap_or(0);
        usage.mem_table_total += sum("rocksdb.size-all-mem-tables");
        usage.mem_table_unflushed += sum("rocksdb.cur-size-all-mem-tables");
        usage.table_readers_total += sum("rocksdb.estimate-table-readers-mem");
        all.extend(
            db.families()
                .iter()
                .filter_map(|family| family.state.cache()),
        );
    }
    let mut seen = BTreeSet::new();
    for cache in all {
        if seen.insert(Arc::as_ptr(&cache)) {
            usage.cache_total += cache.usage() as u64;
        }
    }
    usage
}
