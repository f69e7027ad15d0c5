//! Filter policies: the built-in ones, which are all there are in C.

use std::ffi::c_int;

use cairn_format::filter::FilterPolicy;

use crate::handle::create;

handles! {
    /// A filter policy.
    rocksdb_filterpolicy_t = FilterPolicy;
}

c_destructors! {
    /// Frees a policy that no options own.
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
    /// Bloom filters of `bits_per_key` bits for each key.
    fn rocksdb_filterpolicy_create_bloom(bits_per_key: f64) -> *mut rocksdb_filterpolicy_t {
        bloom(bits_per_key)
    }
    /// The same; there is one format of Bloom filters.
    fn rocksdb_filterpolicy_create_bloom_full(bits_per_key: f64) -> *mut rocksdb_filterpolicy_t {
        bloom(bits_per_key)
    }
    /// The same; the format's word is not used.
    fn rocksdb_filterpolicy_create_bloom_format(bits_per_key: f64, _original_format: bool) -> *mut rocksdb_filterpolicy_t {
        bloom(bits_per_key)
    }
    /// Ribbon filters as good as Bloom filters of so many bits for each key.
    fn rocksdb_filterpolicy_create_ribbon(bloom_equivalent_bits_per_key: f64) -> *mut rocksdb_filterpolicy_t {
        // No level comes before a flush's, which counts as -1.
        ribbon(bloom_equivalent_bits_per_key, -1)
    }
    /// Ribbon filters, and Bloom filters for levels before `bloom_before_level`.
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
