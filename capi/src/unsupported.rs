//! Functions of unsupported features: they exist so that programs link, and report that they are not
//! implemented.
//!
//! A function with an `errptr` returns `Not implemented: <function>: <what>`. A function that sets
//! an option makes the calls that use the options fail. All others create or take objects of an
//! unsupported feature: they return null or zero and write a line to the LOG of every open
//! database.

use std::ffi::{c_char, c_int, c_uchar, c_void};

use crate::batch::rocksdb_writebatch_t;
use crate::cache::rocksdb_memory_allocator_t;
use crate::database::{rocksdb_column_family_handle_t, rocksdb_t};
use crate::handle::of_mut;
use crate::indexed::rocksdb_writebatch_wi_t;
use crate::options::{
    rocksdb_compactoptions_t, rocksdb_options_t, rocksdb_readoptions_t, rocksdb_writeoptions_t,
};

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

c_unbuilt! { "user-defined timestamps":
    at(opt) fn rocksdb_compactoptions_set_full_history_ts_low(opt: *mut rocksdb_compactoptions_t, ts: *mut c_char, tslen: usize);
    err(errptr) fn rocksdb_delete_cf_with_ts(db: *mut rocksdb_t, options: *const rocksdb_writeoptions_t, column_family: *mut rocksdb_column_family_handle_t, key: *const c_char, keylen: usize, ts: *const c_char, tslen: usize, errptr: *mut *mut c_char);
    err(errptr) fn rocksdb_delete_with_ts(db: *mut rocksdb_t, options: *const rocksdb_writeoptions_t, key: *const c_char, keylen: usize, ts: *const c_char, tslen: usize, errptr: *mut *mut c_char);
    err(errptr) fn rocksdb_get_cf_with_ts(db: *mut rocksdb_t, options: *const rocksdb_readoptions_t, column_family: *mut rocksdb_column_family_handle_t, key: *const c_char, keylen: usize, vallen: *mut usize, ts: *mut *mut c_char, tslen: *mut usize, errptr: *mut *mut c_char) -> *mut c_char;
    err(errptr) fn rocksdb_get_full_history_ts_low(db: *mut rocksdb_t, column_family: *mut rocksdb_column_family_handle_t, ts_lowlen: *mut usize, errptr: *mut *mut c_char) -> *mut c_char;
    err(errptr) fn rocksdb_get_with_ts(db: *mut rocksdb_t, options: *const rocksdb_readoptions_t, key: *const c_char, keylen: usize, vallen: *mut usize, ts: *mut *mut c_char, tslen: *mut usize, errptr: *mut *mut c_char) -> *mut c_char;
    err(errptr) fn rocksdb_increase_full_history_ts_low(db: *mut rocksdb_t, column_family: *mut rocksdb_column_family_handle_t, ts_low: *const c_char, ts_lowlen: usize, errptr: *mut *mut c_char);
    errs(num_keys, values_list, errs) fn rocksdb_multi_get_cf_with_ts(db: *mut rocksdb_t, options: *const rocksdb_readoptions_t, column_families: *const *const rocksdb_column_family_handle_t, num_keys: usize, keys_list: *const *const c_char, keys_list_sizes: *const usize, values_list: *mut *mut c_char, values_list_sizes: *mut usize, timestamps_list: *mut *mut c_char, timestamps_list_sizes: *mut usize, errs: *mut *mut c_char);
    errs(num_keys, values_list, errs) fn rocksdb_multi_get_with_ts(db: *mut rocksdb_t, options: *const rocksdb_readoptions_t, num_keys: usize, keys_list: *const *const c_char, keys_list_sizes: *const usize, values_list: *mut *mut c_char, values_list_sizes: *mut usize, timestamp_list: *mut *mut c_char, timestamp_list_sizes: *mut usize, errs: *mut *mut c_char);
    err(errptr) fn rocksdb_open_and_trim_history(options: *const rocksdb_options_t, name: *const c_char, num_column_families: c_int, column_family_names: *const *const c_char, column_family_options: *const *const rocksdb_options_t, column_family_handles: *mut *mut rocksdb_column_family_handle_t, trim_ts: *mut c_char, trim_tslen: usize, errptr: *mut *mut c_char) -> *mut rocksdb_t;
    err(errptr) fn rocksdb_put_cf_with_ts(db: *mut rocksdb_t, options: *const rocksdb_writeoptions_t, column_family: *mut rocksdb_column_family_handle_t, key: *const c_char, keylen: usize, ts: *const c_char, tslen: usize, val: *const c_char, vallen: usize, errptr: *mut *mut c_char);
    err(errptr) fn rocksdb_put_with_ts(db: *mut rocksdb_t, options: *const rocksdb_writeoptions_t, key: *const c_char, keylen: usize, ts: *const c_char, tslen: usize, val: *const c_char, vallen: usize, errptr: *mut *mut c_char);
    err(errptr) fn rocksdb_singledelete_cf_with_ts(db: *mut rocksdb_t, options: *const rocksdb_writeoptions_t, column_family: *mut rocksdb_column_family_handle_t, key: *const c_char, keylen: usize, ts: *const c_char, tslen: usize, errptr: *mut *mut c_char);
    err(errptr) fn rocksdb_singledelete_with_ts(db: *mut rocksdb_t, options: *const rocksdb_writeoptions_t, key: *const c_char, keylen: usize, ts: *const c_char, tslen: usize, errptr: *mut *mut c_char);
    err(errptr) fn rocksdb_writebatch_update_timestamps(wb: *mut rocksdb_writebatch_t, ts: *const c_char, tslen: usize, state: *mut c_void, get_ts_size: Option<unsafe extern "C" fn(*mut c_void, u32) -> usize>, errptr: *mut *mut c_char);
    err(errptr) fn rocksdb_writebatch_wi_update_timestamps(wbwi: *mut rocksdb_writebatch_wi_t, ts: *const c_char, tslen: usize, state: *mut c_void, get_ts_size: Option<unsafe extern "C" fn(*mut c_void, u32) -> usize>, errptr: *mut *mut c_char);
}
