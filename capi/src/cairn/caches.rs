//! Priority pools and usage by role of a block cache; copies of read options.

use std::ffi::{c_char, c_uchar};

use cairn_memory::CacheRole;

use crate::cache::{rocksdb_cache_t, rocksdb_lru_cache_options_t};
use crate::error::text;
use crate::handle::{create, of, of_mut};
use crate::options::rocksdb_readoptions_t;

/// `ratio` clamped to 0 to 1.
pub(super) fn share(ratio: f64) -> f64 {
    // NaN counts as 0.
    if ratio > 0.0 { ratio.min(1.0) } else { 0.0 }
}

c_functions! {
    /// Sets the share of the capacity, 0 to 1, that is reserved for blocks of high priority (index,
    /// filter and other metadata blocks). Default: 0.5.
    fn cairn_lru_cache_options_set_high_pri_pool_ratio(opt: *mut rocksdb_lru_cache_options_t, ratio: f64) {
        of_mut(opt).build.high_pri_pool_ratio = share(ratio);
    }
    /// Sets the share of the capacity, 0 to 1, that is reserved for data blocks, which take
    /// precedence over blob values. Default: 0.
    fn cairn_lru_cache_options_set_low_pri_pool_ratio(opt: *mut rocksdb_lru_cache_options_t, ratio: f64) {
        of_mut(opt).build.low_pri_pool_ratio = share(ratio);
    }
    /// If true, insertions beyond the capacity fail.
    fn cairn_lru_cache_options_set_strict_capacity_limit(opt: *mut rocksdb_lru_cache_options_t, strict: c_uchar) {
        of_mut(opt).build.strict_capacity_limit = strict != 0;
    }
    /// Returns the number of bytes in the cache that have one role: `DataBlock`, `IndexBlock`,
    /// `FilterBlock`, `FilterMetaBlock`, `OtherBlock`, `BlobValue` or `Misc`; 0 for any other name.
    fn cairn_cache_get_role_usage(cache: *const rocksdb_cache_t, role: *const c_char) -> usize {
        let name = text(role);
        let role = CacheRole::ALL.into_iter().find(|role| role.name() == name);
        role.map_or(0, |role| of(cache).role_usage(role))
    }

    /// Copies read options, including their bounds, timestamps and snapshot. The snapshot must be
    /// released only once, after the last use of either options object.
    fn cairn_readoptions_create_copy(options: *const rocksdb_readoptions_t) -> *mut rocksdb_readoptions_t {
        create(of(options).clone())
    }
}
