//! Pools of a cache, what a cache holds, and copies of read options.

use std::ffi::{c_char, c_uchar};

use cairn_memory::CacheRole;

use crate::cache::{rocksdb_cache_t, rocksdb_lru_cache_options_t};
use crate::error::text;
use crate::handle::{create, of, of_mut};
use crate::options::rocksdb_readoptions_t;

/// A share of a capacity: what is no number between 0 and 1 becomes the nearest.
fn share(ratio: f64) -> f64 {
    // A NaN is no share at all.
    if ratio > 0.0 { ratio.min(1.0) } else { 0.0 }
}

c_functions! {
    /// The share of the capacity, 0 to 1, that index, filter and other blocks of high priority are
    /// sure of; half of it if nothing is said.
    fn cairn_lru_cache_options_set_high_pri_pool_ratio(opt: *mut rocksdb_lru_cache_options_t, ratio: f64) {
        of_mut(opt).build.high_pri_pool_ratio = share(ratio);
    }
    /// The share of the capacity, 0 to 1, that data blocks are sure of, before values of blob files;
    /// none if nothing is said.
    fn cairn_lru_cache_options_set_low_pri_pool_ratio(opt: *mut rocksdb_lru_cache_options_t, ratio: f64) {
        of_mut(opt).build.low_pri_pool_ratio = share(ratio);
    }
    /// True if an insertion is refused rather than that the cache grows beyond its capacity.
    fn cairn_lru_cache_options_set_strict_capacity_limit(opt: *mut rocksdb_lru_cache_options_t, strict: c_uchar) {
        of_mut(opt).build.strict_capacity_limit = strict != 0;
    }
    /// Bytes in the cache of one role: `DataBlock`, `IndexBlock`, `FilterBlock`, `FilterMetaBlock`,
    /// `OtherBlock`, `BlobValue` or `Misc`; 0 for any other name.
    fn cairn_cache_get_role_usage(cache: *const rocksdb_cache_t, role: *const c_char) -> usize {
        let name = text(role);
        let role = CacheRole::ALL.into_iter().find(|role| role.name() == name);
        role.map_or(0, |role| of(cache).role_usage(role))
    }

    /// A copy of read options, with their bounds, timestamps and snapshot. The snapshot is released
    /// once, and not before both were used for the last time.
    fn cairn_readoptions_create_copy(options: *const rocksdb_readoptions_t) -> *mut rocksdb_readoptions_t {
        create(of(options).clone())
    }
}
