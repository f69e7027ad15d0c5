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

/// Returns the approximate memory of `dbs` and of `caches`; each cache is counted once. Caches of the families of `dbs`
/// are counted if they are among `caches`; [`caches_of`] returns them.
#[must_use]
pub fn approximate_memory_usage(dbs: &[&Db], caches: &[Arc<BlockCache>]) -> MemoryUsage {
    let mut usage = MemoryUsage::default();
    for db in dbs {
        let sum = |name| db.aggregated_property_number(name).unwrap_or(0);
        usage.mem_table_total += sum("rocksdb.size-all-mem-tables");
        usage.mem_table_unflushed += sum("rocksdb.cur-size-all-mem-tables");
        usage.table_readers_total += sum("rocksdb.estimate-table-readers-mem");
    }
    let mut seen = BTreeSet::new();
    for cache in caches {
        if seen.insert(Arc::as_ptr(cache)) {
            usage.cache_total += cache.usage() as u64;
        }
    }
    usage
}

/// Returns the block caches of the families of `dbs`. Families may share a cache, which is then returned several times.
#[must_use]
pub fn caches_of(dbs: &[&Db]) -> Vec<Arc<BlockCache>> {
    let families = dbs.iter().flat_map(|db| db.families());
    families.filter_map(|family| family.state.cache()).collect()
}
