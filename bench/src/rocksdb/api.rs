//! The C functions, as a table of function pointers filled when the library is loaded.
//!
//! Names and arguments are those of RocksDB's `c.h`; handles are opaque.
#![expect(
    unsafe_code,
    reason = "symbols of a C library have no types until we give them some"
)]

use std::ffi::{c_char, c_int, c_uchar, c_void};

use crate::function_table::function_table;

/// An opaque handle of the C API. Types are distinguished in [`super::db`].
pub type Handle = *mut c_void;
/// The out parameter of a C function's error text.
pub type ErrorSlot = *mut *mut c_char;

function_table! {
    /// The loaded functions of RocksDB's `c.h`. The library stays loaded as long as the table lives.
    Api;
    fn rocksdb_free(*mut c_void);
    fn rocksdb_options_create() -> Handle;
    fn rocksdb_options_destroy(Handle);
    fn rocksdb_options_set_create_if_missing(Handle, c_uchar);
    fn rocksdb_options_set_create_missing_column_families(Handle, c_uchar);
    fn rocksdb_get_options_from_string(Handle, *const c_char, Handle, ErrorSlot);
    fn rocksdb_list_column_families(Handle, *const c_char, *mut usize, ErrorSlot) -> *mut *mut c_char;
    fn rocksdb_list_column_families_destroy(*mut *mut c_char, usize);
    fn rocksdb_create_default_env() -> Handle;
    fn rocksdb_env_destroy(Handle);
    fn rocksdb_cache_create_lru(usize) -> Handle;
    fn rocksdb_cache_create_hyper_clock(usize, usize) -> Handle;
    fn rocksdb_block_based_options_create() -> Handle;
    fn rocksdb_block_based_options_destroy(Handle);
    fn rocksdb_block_based_options_set_block_cache(Handle, Handle);
    fn rocksdb_options_set_block_based_table_factory(Handle, Handle);
    fn rocksdb_options_set_blob_cache(Handle, Handle);
    fn rocksdb_options_add_compact_on_deletion_collector_factory(Handle, usize, usize);
    fn rocksdb_cache_destroy(Handle);
    fn rocksdb_load_latest_options(
        *const c_char, Handle, bool, Handle, *mut Handle, *mut usize, *mut *mut *mut c_char,
        *mut *mut Handle, ErrorSlot
    );
    fn rocksdb_load_latest_options_destroy(Handle, *mut *mut c_char, *mut Handle, usize);
    fn rocksdb_open_column_families(
        Handle, *const c_char, c_int, *const *const c_char, *const Handle, *mut Handle, ErrorSlot
    ) -> Handle;
    fn rocksdb_open_column_families_with_ttl(
        Handle, *const c_char, c_int, *const *const c_char, *const Handle, *mut Handle, *const c_int, ErrorSlot
    ) -> Handle;
    fn rocksdb_open_for_read_only_column_families(
        Handle, *const c_char, c_int, *const *const c_char, *const Handle, *mut Handle, c_uchar, ErrorSlot
    ) -> Handle;
    fn rocksdb_open_as_secondary_column_families(
        Handle, *const c_char, *const c_char, c_int, *const *const c_char, *const Handle, *mut Handle, ErrorSlot
    ) -> Handle;
    fn rocksdb_try_catch_up_with_primary(Handle, ErrorSlot);
    fn rocksdb_column_family_handle_destroy(Handle);
    fn rocksdb_close(Handle);
    fn rocksdb_writeoptions_create() -> Handle;
    fn rocksdb_writeoptions_destroy(Handle);
    fn rocksdb_writeoptions_set_sync(Handle, c_uchar);
    fn rocksdb_writeoptions_disable_WAL(Handle, c_int);
    fn rocksdb_put(Handle, Handle, *const c_char, usize, *const c_char, usize, ErrorSlot);
    fn rocksdb_merge(Handle, Handle, *const c_char, usize, *const c_char, usize, ErrorSlot);
    fn rocksdb_delete(Handle, Handle, *const c_char, usize, ErrorSlot);
    fn rocksdb_put_cf(Handle, Handle, Handle, *const c_char, usize, *const c_char, usize, ErrorSlot);
    fn rocksdb_merge_cf(Handle, Handle, Handle, *const c_char, usize, *const c_char, usize, ErrorSlot);
    fn rocksdb_delete_cf(Handle, Handle, Handle, *const c_char, usize, ErrorSlot);
    fn rocksdb_delete_range_cf(
        Handle, Handle, Handle, *const c_char, usize, *const c_char, usize, ErrorSlot
    );
    fn rocksdb_writebatch_create() -> Handle;
    fn rocksdb_writebatch_create_from(*const c_char, usize) -> Handle;
    fn rocksdb_writebatch_destroy(Handle);
    fn rocksdb_writebatch_clear(Handle);
    fn rocksdb_writebatch_count(Handle) -> c_int;
    fn rocksdb_writebatch_put(Handle, *const c_char, usize, *const c_char, usize);
    fn rocksdb_writebatch_put_cf(Handle, Handle, *const c_char, usize, *const c_char, usize);
    fn rocksdb_writebatch_delete(Handle, *const c_char, usize);
    fn rocksdb_writebatch_merge_cf(Handle, Handle, *const c_char, usize, *const c_char, usize);
    fn rocksdb_writebatch_delete_cf(Handle, Handle, *const c_char, usize);
    fn rocksdb_writebatch_singledelete_cf(Handle, Handle, *const c_char, usize);
    fn rocksdb_writebatch_delete_range_cf(
        Handle, Handle, *const c_char, usize, *const c_char, usize
    );
    fn rocksdb_write(Handle, Handle, Handle, ErrorSlot);
    fn rocksdb_readoptions_create() -> Handle;
    fn rocksdb_readoptions_destroy(Handle);
    fn rocksdb_readoptions_set_timestamp(Handle, *const c_char, usize);
    fn rocksdb_readoptions_set_iter_start_ts(Handle, *const c_char, usize);
    fn rocksdb_increase_full_history_ts_low(Handle, Handle, *const c_char, usize, ErrorSlot);
    fn rocksdb_readoptions_set_verify_checksums(Handle, c_uchar);
    fn rocksdb_readoptions_set_total_order_seek(Handle, c_uchar);
    fn rocksdb_readoptions_set_async_io(Handle, c_uchar);
    fn rocksdb_readoptions_set_prefix_same_as_start(Handle, c_uchar);
    fn rocksdb_get_pinned(Handle, Handle, *const c_char, usize, ErrorSlot) -> Handle;
    fn rocksdb_batched_multi_get_cf(
        Handle, Handle, Handle, usize, *const *const c_char, *const usize, *mut Handle,
        *mut *mut c_char, bool
    );
    fn rocksdb_get_pinned_cf(Handle, Handle, Handle, *const c_char, usize, ErrorSlot) -> Handle;
    fn rocksdb_pinnableslice_value(Handle, *mut usize) -> *const c_char;
    fn rocksdb_pinnableslice_destroy(Handle);
    fn rocksdb_create_iterator(Handle, Handle) -> Handle;
    fn rocksdb_create_iterator_cf(Handle, Handle, Handle) -> Handle;
    fn rocksdb_iter_destroy(Handle);
    fn rocksdb_iter_valid(Handle) -> c_uchar;
    fn rocksdb_iter_seek_to_first(Handle);
    fn rocksdb_iter_seek_to_last(Handle);
    fn rocksdb_iter_seek(Handle, *const c_char, usize);
    fn rocksdb_iter_seek_for_prev(Handle, *const c_char, usize);
    fn rocksdb_iter_next(Handle);
    fn rocksdb_iter_prev(Handle);
    fn rocksdb_iter_key(Handle, *mut usize) -> *const c_char;
    fn rocksdb_iter_value(Handle, *mut usize) -> *const c_char;
    fn rocksdb_iter_timestamp(Handle, *mut usize) -> *const c_char;
    fn rocksdb_iter_get_error(Handle, ErrorSlot);
    fn rocksdb_flushoptions_create() -> Handle;
    fn rocksdb_flushoptions_destroy(Handle);
    fn rocksdb_flush_cf(Handle, Handle, Handle, ErrorSlot);
    fn rocksdb_flush_wal(Handle, c_uchar, ErrorSlot);
    fn rocksdb_compact_range_cf(Handle, Handle, *const c_char, usize, *const c_char, usize);
    fn rocksdb_wait_for_compact_options_create() -> Handle;
    fn rocksdb_wait_for_compact_options_destroy(Handle);
    fn rocksdb_wait_for_compact(Handle, Handle, ErrorSlot);
    fn rocksdb_envoptions_create() -> Handle;
    fn rocksdb_envoptions_destroy(Handle);
    fn rocksdb_sstfilewriter_create(Handle, Handle) -> Handle;
    fn rocksdb_sstfilewriter_open(Handle, *const c_char, ErrorSlot);
    fn rocksdb_sstfilewriter_put(Handle, *const c_char, usize, *const c_char, usize, ErrorSlot);
    fn rocksdb_sstfilewriter_delete(Handle, *const c_char, usize, ErrorSlot);
    fn rocksdb_sstfilewriter_delete_range(
        Handle, *const c_char, usize, *const c_char, usize, ErrorSlot
    );
    fn rocksdb_sstfilewriter_finish(Handle, ErrorSlot);
    fn rocksdb_sstfilewriter_destroy(Handle);
    fn rocksdb_ingestexternalfileoptions_create() -> Handle;
    fn rocksdb_ingestexternalfileoptions_destroy(Handle);
    fn rocksdb_ingest_external_file_cf(
        Handle, Handle, *const *const c_char, usize, Handle, ErrorSlot
    );
    fn rocksdb_checkpoint_object_create(Handle, ErrorSlot) -> Handle;
    fn rocksdb_checkpoint_create(Handle, *const c_char, u64, ErrorSlot);
    fn rocksdb_checkpoint_object_destroy(Handle);
    fn rocksdb_property_value_cf(Handle, Handle, *const c_char) -> *mut c_char;
}

/// The setter of a read option, which older libraries lack.
const OPTIMIZE_MULTIGET_FOR_IO: &str = "rocksdb_readoptions_set_optimize_multiget_for_io";

impl Api {
    /// Sets the read option. Does nothing if the library has no setter; the option is true then.
    pub fn set_optimize_multiget_for_io(&self, read: Handle, on: bool) {
        let name = OPTIMIZE_MULTIGET_FOR_IO.as_bytes();
        // SAFETY: the type is that of the function of this name in c.h, and the handle is live.
        unsafe {
            if let Ok(set) = self
                ._library
                .get::<unsafe extern "C" fn(Handle, c_uchar)>(name)
            {
                set(read, u8::from(on));
            }
        }
    }

    /// True if the option can be set.
    pub fn has_optimize_multiget_for_io(&self) -> bool {
        self.has(OPTIMIZE_MULTIGET_FOR_IO)
    }

    /// True if the library exports the function `name`.
    pub fn has(&self, name: &str) -> bool {
        // SAFETY: the symbol is not used.
        unsafe { self._library.get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_ok()
    }
}
