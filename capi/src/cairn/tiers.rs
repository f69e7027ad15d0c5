//! Tiers below a block cache: compressed memory and flash.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use cairn_memory::secondary::{
    CompressedCacheOptions, CompressedSecondaryCache, FlashCache, FlashCacheOptions, SecondaryCache,
};
use cairn_options::Compression;
use cairn_platform::World;
use cairn_types::Error;

use super::caches::share;
use crate::cache::{
    rocksdb_cache_t, rocksdb_hyper_clock_cache_options_t, rocksdb_lru_cache_options_t,
};
use crate::env::rocksdb_env_t;
use crate::error::{path, report, report_ptr};
use crate::handle::{create, maybe, of, of_mut};

handles! {
    /// A tier below a block cache.
    cairn_cache_tier_t = Arc<dyn SecondaryCache>;
}

c_destructors! {
    /// Releases the program's reference to a tier. Caches above it keep theirs. A tier of flash writes
    /// the entries that wait when its last reference is released.
    cairn_cache_tier_destroy(cairn_cache_tier_t);
}

c_functions! {
    /// Creates a tier of compressed memory of `capacity` bytes. `compression` is a codec such as
    /// `rocksdb_lz4_compression`. Entries that it evicts are offered to the tier `below`, unless that is null.
    fn cairn_cache_tier_create_compressed(
        capacity: usize,
        compression: c_int,
        below: *const cairn_cache_tier_t,
        errptr: *mut *mut c_char,
    ) -> *mut cairn_cache_tier_t {
        report_ptr(errptr, || {
            let codec = u8::try_from(compression).ok().and_then(Compression::from_u8);
            let codec = codec.ok_or_else(|| {
                Error::invalid_argument(format!("{compression} is not the number of a codec"))
            })?;
            let options = CompressedCacheOptions {
                capacity,
                compression: codec,
                ..CompressedCacheOptions::default()
            };
            let tier = match maybe(below) {
                Some(below) => CompressedSecondaryCache::with_tier_below(&options, Arc::clone(below))?,
                None => CompressedSecondaryCache::new(&options)?,
            };
            let tier: Arc<dyn SecondaryCache> = Arc::new(tier);
            Ok(create(tier))
        })
    }
    /// Opens a tier of `capacity` bytes in files of the directory `name`, which is for this tier alone, with
    /// the entries that earlier processes left there. `env` may be null for the default environment.
    fn cairn_cache_tier_open_flash(
        env: *const rocksdb_env_t,
        name: *const c_char,
        capacity: usize,
        errptr: *mut *mut c_char,
    ) -> *mut cairn_cache_tier_t {
        report_ptr(errptr, || {
            let world = maybe(env).map_or_else(World::posix, |env| env.world.clone());
            let options = FlashCacheOptions { dir: path(name), capacity, ..FlashCacheOptions::default() };
            let tier: Arc<dyn SecondaryCache> = Arc::new(FlashCache::open(&options, &world)?);
            Ok(create(tier))
        })
    }
    /// Sets the capacity in bytes.
    fn cairn_cache_tier_set_capacity(tier: *mut cairn_cache_tier_t, capacity: usize) {
        of(tier.cast_const()).set_capacity(capacity);
    }
    /// Returns the capacity in bytes.
    fn cairn_cache_tier_get_capacity(tier: *const cairn_cache_tier_t) -> usize {
        of(tier).capacity()
    }
    /// Returns the bytes in use.
    fn cairn_cache_tier_get_usage(tier: *const cairn_cache_tier_t) -> usize {
        of(tier).usage()
    }
    /// Returns the number of entries.
    fn cairn_cache_tier_get_occupancy_count(tier: *const cairn_cache_tier_t) -> u64 {
        of(tier).counts().entries
    }
    /// Returns the number of lookups that found an entry.
    fn cairn_cache_tier_get_hits(tier: *const cairn_cache_tier_t) -> u64 {
        of(tier).counts().hits
    }

    /// Sets the tier below caches that are created with the options; null for none.
    fn cairn_lru_cache_options_set_tier(opt: *mut rocksdb_lru_cache_options_t, tier: *const cairn_cache_tier_t) {
        of_mut(opt).tier = maybe(tier).cloned();
    }
    /// Sets the share of the capacity, 0 to 1, that is the tier's. The tier then has no capacity of its own.
    fn cairn_lru_cache_options_set_compressed_secondary_ratio(opt: *mut rocksdb_lru_cache_options_t, ratio: f64) {
        of_mut(opt).tier_ratio = Some(share(ratio));
    }
    /// Sets the tier below caches that are created with the options; null for none.
    fn cairn_hyper_clock_cache_options_set_tier(
        opt: *mut rocksdb_hyper_clock_cache_options_t,
        tier: *const cairn_cache_tier_t,
    ) {
        of_mut(opt).tier = maybe(tier).cloned();
    }
    /// Sets the share of the capacity, 0 to 1, that is the tier's. The tier then has no capacity of its own.
    fn cairn_hyper_clock_cache_options_set_compressed_secondary_ratio(
        opt: *mut rocksdb_hyper_clock_cache_options_t,
        ratio: f64,
    ) {
        of_mut(opt).tier_ratio = Some(share(ratio));
    }
    /// Changes the share of the capacity that is the tier's, for a cache that was created with one.
    fn cairn_cache_set_compressed_secondary_ratio(
        cache: *mut rocksdb_cache_t,
        ratio: f64,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || of(cache.cast_const()).set_tier_ratio(ratio));
    }
}
