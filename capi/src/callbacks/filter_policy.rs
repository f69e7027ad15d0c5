//! Filter policies: C programs can only use the built-in ones.

use std::ffi::c_int;

use cairn_format::filter::FilterPolicy;

use crate::handle::create;

handles! {
    /// A filter policy.
    rocksdb_filterpolicy_t = FilterPolicy;
}

c_destructors! {
    /// Frees a policy that is not owned by options.
    rocksdb_filterpolicy_destroy(rocksdb_filterpolicy_t);
}

fn bloom(bits_per_key: f64) -> *mut rocksdb_filterpolicy_t {
    create(FilterPolicy::Bloom { bits_per_key })
}

fn ribbon(bits: f64, bloom_before_level: c_int) -> *mut rocksdb_filterpolicy_t {
    create(FilterPolicy::Ribbon {
        bloom_equivalent_bits_per_key: bits,
        bloom_before_level,
    })
}

c_functions! {
    /// Creates a Bloom filter policy with `bits_per_key` bits for each key.
    fn rocksdb_filterpolicy_create_bloom(bits_per_key: f64) -> *mut rocksdb_filterpolicy_t {
        bloom(bits_per_key)
    }
    /// The same, because there is only one Bloom filter format.
    fn rocksdb_filterpolicy_create_bloom_full(bits_per_key: f64) -> *mut rocksdb_filterpolicy_t {
        bloom(bits_per_key)
    }
    /// The same: `original_format` is ignored.
    fn rocksdb_filterpolicy_create_bloom_format(bits_per_key: f64, _original_format: bool) -> *mut rocksdb_filterpolicy_t {
        bloom(bits_per_key)
    }
    /// Creates a Ribbon filter policy with the accuracy of a Bloom filter of this many bits per key.
    fn rocksdb_filterpolicy_create_ribbon(bloom_equivalent_bits_per_key: f64) -> *mut rocksdb_filterpolicy_t {
        // -1 is the level of a flush, so all levels use Ribbon filters.
        ribbon(bloom_equivalent_bits_per_key, -1)
    }
    /// Creates a policy with Bloom filters in levels before `bloom_before_level` and Ribbon filters in
    /// the others.
    fn rocksdb_filterpolicy_create_ribbon_hybrid(
        bloom_equivalent_bits_per_key: f64,
        bloom_before_level: c_int,
    ) -> *mut rocksdb_filterpolicy_t {
        ribbon(bloom_equivalent_bits_per_key, bloom_before_level)
    }
    /// The same.
    fn rocksdb_filterpolicy_create_ribbon_format(
        bloom_equivalent_bits_per_key: f64,
        bloom_before_level: c_int,
    ) -> *mut rocksdb_filterpolicy_t {
        ribbon(bloom_equivalent_bits_per_key, bloom_before_level)
    }
}
