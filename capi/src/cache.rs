//! Block caches.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use cairn_memory::secondary::SecondaryCache;
use cairn_memory::{BlockCache, CacheOptions, MemoryKind};

use crate::error::report_ptr;
use crate::handle::{create, maybe, of, of_mut};

/// The options of a cache, including its capacity.
#[derive(Clone)]
pub struct Options {
    capacity: usize,
    /// The options. If the number of shard bits is `-1`, it is derived from the capacity.
    pub build: CacheOptions,
    /// The tier below.
    pub tier: Option<Arc<dyn SecondaryCache>>,
    /// The share of the tier, from 0 to 1, if it has no capacity of its own.
    pub tier_ratio: Option<f64>,
}

impl Options {
    fn new(capacity: usize, build: CacheOptions) -> Options {
        Options {
            capacity,
            build,
            tier: None,
            tier_ratio: None,
        }
    }

    fn create(&self) -> *mut rocksdb_cache_t {
        let Some(tier) = self.tier.clone() else {
            return new_cache(self.capacity, self.build);
        };
        let cache = match self.tier_ratio {
            None => BlockCache::with_tier(self.capacity, self.build, tier),
            Some(ratio) => BlockCache::tiered(self.capacity, ratio, self.build, tier)
                .expect("the ratio is from 0 to 1"),
        };
        create(Arc::new(cache))
    }
}

handles! {
    /// A block cache.
    rocksdb_cache_t = Arc<BlockCache>;
    /// Options of an LRU cache.
    rocksdb_lru_cache_options_t = Options;
    /// Options of a clock cache.
    rocksdb_hyper_clock_cache_options_t = Options;
    /// An allocator of cached blocks. All of them share the memory of their kind.
    rocksdb_memory_allocator_t = MemoryKind;
}

c_destructors! {
    /// Releases the program's reference to a cache. Databases that use it keep theirs.
    rocksdb_cache_destroy(rocksdb_cache_t);
    /// Frees options.
    rocksdb_lru_cache_options_destroy(rocksdb_lru_cache_options_t);
    /// Frees options.
    rocksdb_hyper_clock_cache_options_destroy(rocksdb_hyper_clock_cache_options_t);
    /// Frees an allocator. Caches that were created with it are not affected.
    rocksdb_memory_allocator_destroy(rocksdb_memory_allocator_t);
}

fn bits(value: c_int) -> Option<u32> {
    u32::try_from(value).ok()
}

fn new_cache(capacity: usize, build: CacheOptions) -> *mut rocksdb_cache_t {
    create(Arc::new(BlockCache::new(capacity, build)))
}

c_functions! {
    /// Creates a cache of `capacity` bytes.
    fn rocksdb_cache_create_lru(capacity: usize) -> *mut rocksdb_cache_t {
        new_cache(capacity, CacheOptions::lru())
    }
    /// Creates a cache that rejects insertions beyond `capacity` bytes.
    fn rocksdb_cache_create_lru_with_strict_capacity_limit(capacity: usize) -> *mut rocksdb_cache_t {
        new_cache(capacity, CacheOptions { strict_capacity_limit: true, ..CacheOptions::lru() })
    }
    /// Creates a cache with options.
    fn rocksdb_cache_create_lru_opts(opt: *const rocksdb_lru_cache_options_t) -> *mut rocksdb_cache_t {
        of(opt).create()
    }
    /// Creates a cache of `capacity` bytes. The estimated entry charge is ignored.
    fn rocksdb_cache_create_hyper_clock(capacity: usize, _estimated_entry_charge: usize) -> *mut rocksdb_cache_t {
        new_cache(capacity, CacheOptions::default())
    }
    /// Creates a cache with options.
    fn rocksdb_cache_create_hyper_clock_opts(opt: *const rocksdb_hyper_clock_cache_options_t) -> *mut rocksdb_cache_t {
        of(opt).create()
    }
    /// Leaks the cache's memory, for faster process exit.
    fn rocksdb_cache_disown_data(cache: *mut rocksdb_cache_t) {
        // This reference is never released, so the memory is never freed.
        std::mem::forget(Arc::clone(of(cache.cast_const())));
    }
    /// Sets the capacity in bytes.
    fn rocksdb_cache_set_capacity(cache: *mut rocksdb_cache_t, capacity: usize) {
        of(cache.cast_const()).set_capacity(capacity);
    }
    /// Returns the capacity in bytes.
    fn rocksdb_cache_get_capacity(cache: *const rocksdb_cache_t) -> usize {
        of(cache).capacity()
    }
    /// Returns the number of bytes in the cache.
    fn rocksdb_cache_get_usage(cache: *const rocksdb_cache_t) -> usize {
        of(cache).usage()
    }
    /// Returns the number of bytes in pinned entries.
    fn rocksdb_cache_get_pinned_usage(cache: *const rocksdb_cache_t) -> usize {
        of(cache).pinned_usage()
    }
    /// Returns the number of slots of the cache's table.
    fn rocksdb_cache_get_table_address_count(cache: *const rocksdb_cache_t) -> usize {
        of(cache).table_places()
    }
    /// Returns the number of entries.
    fn rocksdb_cache_get_occupancy_count(cache: *const rocksdb_cache_t) -> usize {
        of(cache).entries()
    }

    /// Creates an allocator whose memory core dumps leave out. The name is RocksDB's; jemalloc is not used. Stores an
    /// error and returns null if the kernel does not support this.
    fn rocksdb_jemalloc_nodump_allocator_create(errptr: *mut *mut c_char) -> *mut rocksdb_memory_allocator_t {
        report_ptr(errptr, || Ok(create(MemoryKind::undumped()?)))
    }

    /// Creates options of an LRU cache.
    fn rocksdb_lru_cache_options_create() -> *mut rocksdb_lru_cache_options_t {
        create(Options::new(0, CacheOptions::lru()))
    }
    /// Sets the capacity in bytes.
    fn rocksdb_lru_cache_options_set_capacity(opt: *mut rocksdb_lru_cache_options_t, capacity: usize) {
        of_mut(opt).capacity = capacity;
    }
    /// Sets the number of shards as a power of two, of at most 12 bits; -1 derives it from the capacity.
    fn rocksdb_lru_cache_options_set_num_shard_bits(opt: *mut rocksdb_lru_cache_options_t, num_shard_bits: c_int) {
        of_mut(opt).build.num_shard_bits = bits(num_shard_bits);
    }
    /// Sets the allocator of the cache's blocks. Null restores the default.
    fn rocksdb_lru_cache_options_set_memory_allocator(
        opt: *mut rocksdb_lru_cache_options_t,
        allocator: *mut rocksdb_memory_allocator_t,
    ) {
        of_mut(opt).build.memory = maybe(allocator.cast_const()).copied().unwrap_or_default();
    }
    /// Creates options of a clock cache.
    fn rocksdb_hyper_clock_cache_options_create(
        capacity: usize,
        _estimated_entry_charge: usize,
    ) -> *mut rocksdb_hyper_clock_cache_options_t {
        create(Options::new(capacity, CacheOptions::default()))
    }
    /// Sets the capacity in bytes.
    fn rocksdb_hyper_clock_cache_options_set_capacity(opt: *mut rocksdb_hyper_clock_cache_options_t, capacity: usize) {
        of_mut(opt).capacity = capacity;
    }
    /// Ignored: the cache needs no estimate of an entry's charge.
    fn rocksdb_hyper_clock_cache_options_set_estimated_entry_charge(
        opt: *mut rocksdb_hyper_clock_cache_options_t,
        _charge: usize,
    ) {
        let _ = of(opt.cast_const());
    }
    /// Sets the number of shards as a power of two, of at most 12 bits; -1 derives it from the capacity.
    fn rocksdb_hyper_clock_cache_options_set_num_shard_bits(
        opt: *mut rocksdb_hyper_clock_cache_options_t,
        num_shard_bits: c_int,
    ) {
        of_mut(opt).build.num_shard_bits = bits(num_shard_bits);
    }
    /// Sets the allocator of the cache's blocks. Null restores the default.
    fn rocksdb_hyper_clock_cache_options_set_memory_allocator(
        opt: *mut rocksdb_hyper_clock_cache_options_t,
        allocator: *mut rocksdb_memory_allocator_t,
    ) {
        of_mut(opt).build.memory = maybe(allocator.cast_const()).copied().unwrap_or_default();
    }
}
