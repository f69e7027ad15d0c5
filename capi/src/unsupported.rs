//! Functions of unsupported features: they exist so that programs link, and report that they are not
//! implemented.
//!
//! A function with an `errptr` returns `Not implemented: <function>: <what>`. A function that sets
//! an option makes the calls that use the options fail. All others create or take objects of an
//! unsupported feature: they return null or zero and write a line to the LOG of every open
//! database.

use std::ffi::{c_char, c_int, c_uchar};

use crate::cache::rocksdb_memory_allocator_t;
use crate::handle::of_mut;
use crate::options::rocksdb_options_t;

/// An object of an unsupported feature.
pub struct rocksdb_cuckoo_table_options_t(());

c_unbuilt! { "custom memory allocators":
    err(errptr) fn rocksdb_jemalloc_nodump_allocator_create(errptr: *mut *mut c_char) -> *mut rocksdb_memory_allocator_t;
}

c_unbuilt! { "cuckoo tables":
    no() fn rocksdb_cuckoo_options_create() -> *mut rocksdb_cuckoo_table_options_t;
    no() fn rocksdb_cuckoo_options_destroy(options: *mut rocksdb_cuckoo_table_options_t);
    no() fn rocksdb_cuckoo_options_set_cuckoo_block_size(options: *mut rocksdb_cuckoo_table_options_t, v: u32);
    no() fn rocksdb_cuckoo_options_set_hash_ratio(options: *mut rocksdb_cuckoo_table_options_t, v: f64);
    no() fn rocksdb_cuckoo_options_set_identity_as_first_hash(options: *mut rocksdb_cuckoo_table_options_t, v: c_uchar);
    no() fn rocksdb_cuckoo_options_set_max_search_depth(options: *mut rocksdb_cuckoo_table_options_t, v: u32);
    no() fn rocksdb_cuckoo_options_set_use_module_hash(options: *mut rocksdb_cuckoo_table_options_t, v: c_uchar);
    at(opt) fn rocksdb_options_set_cuckoo_table_factory(opt: *mut rocksdb_options_t, table_options: *mut rocksdb_cuckoo_table_options_t);
}

c_unbuilt! { "plain tables":
    at(opt) fn rocksdb_options_set_plain_table_factory(opt: *mut rocksdb_options_t, v: u32, v2: c_int, v3: f64, v4: usize, v5: usize, v6: c_char, v7: c_uchar, v8: c_uchar);
}
