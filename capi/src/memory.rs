//! Memory usage of databases and caches.

use std::ffi::c_char;
use std::sync::Arc;

use cairn_db::{Db, MemoryUsage, approximate_memory_usage};
use cairn_memory::BlockCache;

use crate::cache::rocksdb_cache_t;
use crate::database::rocksdb_t;
use crate::error::report_ptr;
use crate::handle::{create, of, of_mut};

/// Databases and caches to measure.
#[derive(Default)]
pub struct Consumers {
    dbs: Vec<Db>,
    caches: Vec<Arc<BlockCache>>,
}

handles! {
    /// A list of databases and caches to measure.
    rocksdb_memory_consumers_t = Consumers;
    /// Memory usage.
    rocksdb_memory_usage_t = MemoryUsage;
}

c_destructors! {
    /// Frees the list, without the databases and caches in it.
    rocksdb_memory_consumers_destroy(rocksdb_memory_consumers_t);
    /// Frees a result.
    rocksdb_approximate_memory_usage_destroy(rocksdb_memory_usage_t);
}

c_functions! {
    /// Creates an empty list.
    fn rocksdb_memory_consumers_create() -> *mut rocksdb_memory_consumers_t {
        create(Consumers::default())
    }
    /// Adds a database.
    fn rocksdb_memory_consumers_add_db(consumers: *mut rocksdb_memory_consumers_t, db: *mut rocksdb_t) {
        of_mut(consumers).dbs.push(of(db.cast_const()).db.clone());
    }
    /// Adds a cache.
    fn rocksdb_memory_consumers_add_cache(consumers: *mut rocksdb_memory_consumers_t, cache: *mut rocksdb_cache_t) {
        of_mut(consumers).caches.push(of(cache.cast_const()).clone());
    }
    /// Measures the current memory usage of the databases and caches in a list.
    fn rocksdb_approximate_memory_usage_create(
        consumers: *mut rocksdb_memory_consumers_t,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_memory_usage_t {
        report_ptr(errptr, || {
            let consumers = of(consumers.cast_const());
            let dbs: Vec<&Db> = consumers.dbs.iter().collect();
            Ok(create(approximate_memory_usage(&dbs, &consumers.caches)))
        })
    }
    /// Returns the number of bytes used by memtables.
    fn rocksdb_approximate_memory_usage_get_mem_table_total(memory_usage: *mut rocksdb_memory_usage_t) -> u64 {
        of(memory_usage.cast_const()).mem_table_total
    }
    /// Returns the number of bytes used by unflushed memtables.
    fn rocksdb_approximate_memory_usage_get_mem_table_unflushed(memory_usage: *mut rocksdb_memory_usage_t) -> u64 {
        of(memory_usage.cast_const()).mem_table_unflushed
    }
    /// Returns the number of bytes used by indexes and filters that open tables hold outside of
    /// caches.
    fn rocksdb_approximate_memory_usage_get_mem_table_readers_total(memory_usage: *mut rocksdb_memory_usage_t) -> u64 {
        of(memory_usage.cast_const()).table_readers_total
    }
    /// Returns the number of bytes used by caches.
    fn rocksdb_approximate_memory_usage_get_cache_total(memory_usage: *mut rocksdb_memory_usage_t) -> u64 {
        of(memory_usage.cast_const()).cache_total
    }
}
