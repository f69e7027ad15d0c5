//! Block caches.

use std::ffi::c_int;
use std::sync::Arc;

use cairn_memory::{BlockCache, CacheOptions};

use crate::handle::{create, maybe, of, of_mut};

/// Options of a cache, and its capacity.
#[derive(Clone, Default)]
pub struct Options {
    capacity: usize,
    /// How it is built. `-1` shard bits choose by capacity.
    pub build: CacheOptions,
}

/// A memory allocator of the program's; there is none to choose yet.
pub struct Allocator;

handles! {
    /// A block cache.
    rocksdb_cache_t = Arc<BlockCache>;
    /// Options of an LRU cache.
    rocksdb_lru_cache_options_t = Options;
    /// Options of a clock cache.
    rocksdb_hyper_clock_cache_options_t = Options;
    /// A memory allocator.
    rocksdb_memory_allocator_t = Allocator;
}

c_destructors! {
    /// Gives up the program's share of a cache. Databases that use it keep theirs.
    rocksdb_cache_destroy(rocksdb_cache_t);
    /// Frees options.
    rocksdb_lru_cache_options_destroy(rocksdb_lru_cache_options_t);
    /// Frees options.
    rocksdb_hyper_clock_cache_options_destroy(rocksdb_hyper_clock_cache_options_t);
    /// Frees an allocator.
    rocksdb_memory_allocator_destroy(rocksdb_memory_allocator_t);
}

fn bits(value: c_int) -> Option<u32> {
    u32::try_from(value).ok()
}

fn new_cache(capacity: usize, build: CacheOptions) -> *mut rocksdb_cache_t {
    create(Arc::new(BlockCache::new(capacity, build)))
}

c_functions! {
    /// A cache of `capacity` bytes.
    fn rocksdb_cache_create_lru(capacity: usize) -> *mut rocksdb_cache_t {
        new_cache(capacity, CacheOptions::default())
    }
    /// A cache that refuses an insertion rather than grow beyond `capacity` bytes.
    fn rocksdb_cache_create_lru_with_strict_capacity_limit(capacity: usize) -> *mut rocksdb_cache_t {
        new_cache(capacity, CacheOptions { strict_capacity_limit: true, ..CacheOptions::default() })
    }
    /// A cache with options.
    fn rocksdb_cache_create_lru_opts(opt: *const rocksdb_lru_cache_options_t) -> *mut rocksdb_cache_t {
        let options = of(opt);
        new_cache(options.capacity, options.build)
    }
    /// A cache of `capacity` bytes. The estimate of an entry's charge is not needed.
    fn rocksdb_cache_create_hyper_clock(capacity: usize, _estimated_entry_charge: usize) -> *mut rocksdb_cache_t {
        new_cache(capacity, CacheOptions::default())
    }
    /// A cache with options.
    fn rocksdb_cache_create_hyper_clock_opts(opt: *const rocksdb_hyper_clock_cache_options_t) -> *mut rocksdb_cache_t {
        let options = of(opt);
        new_cache(options.capacity, options.build)
    }
    /// Notes that the process ends, so that its memory need not be freed.
    fn rocksdb_cache_disown_data(cache: *mut rocksdb_cache_t) {
        // One share is never given up: the memory stays until the process ends.
        std::mem::forget(Arc::clone(of(cache.cast_const())));
    }
    /// Changes the capacity, in bytes.
    fn rocksdb_cache_set_capacity(cache: *mut rocksdb_cache_t, capacity: usize) {
        of(cache.cast_const()).set_capacity(capacity);
    }
    /// The capacity, in bytes.
    fn rocksdb_cache_get_capacity(cache: *const rocksdb_cache_t) -> usize {
        of(cache).capacity()
    }
    /// Bytes in the cache.
    fn rocksdb_cache_get_usage(cache: *const rocksdb_cache_t) -> usize {
        of(cache).usage()
    }
    /// Bytes in the cache that are in use.
    fn rocksdb_cache_get_pinned_usage(cache: *const rocksdb_cache_t) -> usize {
        of(cache).pinned_usage()
    }
    /// Slots of the cache's table.
    fn rocksdb_cache_get_table_address_count(cache: *const rocksdb_cache_t) -> usize {
        // The table grows with its entries; it has no slots that stand empty for long.
        of(cache).entries()
    }
    /// Entries in the cache.
    fn rocksdb_cache_get_occupancy_count(cache: *const rocksdb_cache_t) -> usize {
        of(cache).entries()
    }

    /// Options of an LRU cache.
    fn rocksdb_lru_cache_options_create() -> *mut rocksdb_lru_cache_options_t {
        create(Options::default())
    }
    /// The capacity, in bytes.
    fn rocksdb_lru_cache_options_set_capacity(opt: *mut rocksdb_lru_cache_options_t, capacity: usize) {
        of_mut(opt).capacity = capacity;
    }
    /// Shards, as a power of two; -1 chooses by capacity.
    fn rocksdb_lru_cache_options_set_num_shard_bits(opt: *mut rocksdb_lru_cache_options_t, num_shard_bits: c_int) {
        of_mut(opt).build.num_shard_bits = bits(num_shard_bits);
    }
    /// The allocator. Cairn's cache takes memory from the process's own.
    fn rocksdb_lru_cache_options_set_memory_allocator(
        opt: *mut rocksdb_lru_cache_options_t,
        allocator: *mut rocksdb_memory_allocator_t,
    ) {
        let _ = (of(opt.cast_const()), maybe(allocator.cast_const()));
    }
    /// Options of a clock cache.
    fn rocksdb_hyper_clock_cache_options_create(
        capacity: usize,
        _estimated_entry_charge: usize,
    ) -> *mut rocksdb_hyper_clock_cache_options_t {
        create(Options { capacity, build: CacheOptions::default() })
    }
    /// The capacity, in bytes.
    fn rocksdb_hyper_clock_cache_options_set_capacity(opt: *mut rocksdb_hyper_clock_cache_options_t, capacity: usize) {
        of_mut(opt).capacity = capacity;
    }
    /// The estimate of an entry's charge, which the cache does not need.
    fn rocksdb_hyper_clock_cache_options_set_estimated_entry_charge(
        opt: *mut rocksdb_hyper_clock_cache_options_t,
        _charge: usize,
    ) {
        let _ = of(opt.cast_const());
    }
    /// Shards, as a power of two; -1 chooses by capacity.
    fn rocksdb_hyper_clock_cache_options_set_num_shard_bits(
        opt: *mut rocksdb_hyper_clock_cache_options_t,
        num_shard_bits: c_int,
    ) {
        of_mut(opt).build.num_shard_bits = bits(num_shard_bits);
    }
    /// The allocator. Cairn's cache takes memory from the process's own.
    fn rocksdb_hyper_clock_cache_options_set_memory_allocator(
        opt: *mut rocksdb_hyper_clock_cache_options_t,
        allocator: *mut rocksdb_memory_allocator_t,
    ) {
        let _ = (of(opt.cast_const()), maybe(allocator.cast_const()));
    }
}
