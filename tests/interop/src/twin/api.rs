//! A table of the functions of RocksDB's C API that the twin driver calls, filled from any library.
//!
//! Names and arguments are those of RocksDB's `c.h`; handles are opaque.
#![expect(
    unsafe_code,
    reason = "symbols of a C library have no types until we give them some"
)]

use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::path::Path;

/// An opaque handle of the C API.
pub type Handle = *mut c_void;
/// Where a C function stores its error text.
pub type ErrorSlot = *mut *mut c_char;
/// Destroys a callback's state.
pub type Destructor = unsafe extern "C" fn(*mut c_void);
/// Returns the name of a callback object.
pub type Name = unsafe extern "C" fn(*mut c_void) -> *const c_char;

/// A listener callback with the database and the event.
pub type OfDatabase = unsafe extern "C" fn(*mut c_void, Handle, Handle);
/// A listener callback with the event.
pub type OfInfo = unsafe extern "C" fn(*mut c_void, Handle);

macro_rules! functions {
    ($(fn $name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The loaded functions. The library stays loaded as long as the table exists.
        #[expect(non_snake_case, reason = "the names are those of the C functions")]
        pub struct Api {
            $(#[doc = concat!("`", stringify!($name), "` of c.h.")]
            pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// Last, so that it is dropped last.
            _library: libloading::Library,
        }

        impl Api {
            /// Loads the library at `path` and looks up every function.
            ///
            /// # Errors
            ///
            /// It cannot be loaded, or lacks a function.
            #[expect(non_snake_case, reason = "the names are those of the C functions")]
            pub fn load(path: &Path) -> Result<Self, libloading::Error> {
                // SAFETY: the constructors of both libraries only initialize their own tables.
                let library = unsafe { libloading::Library::new(path) }?;
                $(
                    // SAFETY: the type is that of the function of this name in RocksDB's c.h.
                    let $name = unsafe { *library.get(concat!(stringify!($name), "\0").as_bytes())? };
                )*
                Ok(Api { $($name,)* _library: library })
            }
        }
    };
}

functions! {
    fn rocksdb_free(*mut c_void);
    fn rocksdb_options_create() -> Handle;
    fn rocksdb_options_destroy(Handle);
    fn rocksdb_get_options_from_string(Handle, *const c_char, Handle, ErrorSlot);
    fn rocksdb_options_set_create_if_missing(Handle, c_uchar);
    fn rocksdb_options_set_create_missing_column_families(Handle, c_uchar);
    fn rocksdb_options_set_merge_operator(Handle, Handle);
    fn rocksdb_options_set_comparator(Handle, Handle);
    fn rocksdb_options_set_compaction_filter(Handle, Handle);
    fn rocksdb_options_set_uint64add_merge_operator(Handle);
    fn rocksdb_mergeoperator_create(*mut c_void, Destructor, unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize, *const *const c_char, *const usize, c_int, *mut c_uchar, *mut usize) -> *mut c_char, unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const *const c_char, *const usize, c_int, *mut c_uchar, *mut usize) -> *mut c_char, unsafe extern "C" fn(*mut c_void, *const c_char, usize), Name) -> Handle;
    fn rocksdb_comparator_create(*mut c_void, Destructor, unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int, Name) -> Handle;
    fn rocksdb_comparator_destroy(Handle);
    fn rocksdb_compactionfilter_create(*mut c_void, Destructor, unsafe extern "C" fn(*mut c_void, c_int, *const c_char, usize, *const c_char, usize, *mut *mut c_char, *mut usize, *mut c_uchar) -> c_uchar, Name) -> Handle;
    fn rocksdb_compactionfilter_destroy(Handle);
    fn rocksdb_open_column_families(Handle, *const c_char, c_int, *const *const c_char, *const Handle, *mut Handle, ErrorSlot) -> Handle;
    fn rocksdb_open_for_read_only_column_families(Handle, *const c_char, c_int, *const *const c_char, *const Handle, *mut Handle, c_uchar, ErrorSlot) -> Handle;
    fn rocksdb_list_column_families(Handle, *const c_char, *mut usize, ErrorSlot) -> *mut *mut c_char;
    fn rocksdb_list_column_families_destroy(*mut *mut c_char, usize);
    fn rocksdb_column_family_handle_destroy(Handle);
    fn rocksdb_create_column_family(Handle, Handle, *const c_char, ErrorSlot) -> Handle;
    fn rocksdb_drop_column_family(Handle, Handle, ErrorSlot);
    fn rocksdb_column_family_handle_get_id(Handle) -> u32;
    fn rocksdb_column_family_handle_get_name(Handle, *mut usize) -> *mut c_char;
    fn rocksdb_close(Handle);
    fn rocksdb_writeoptions_create() -> Handle;
    fn rocksdb_writeoptions_destroy(Handle);
    fn rocksdb_writeoptions_set_sync(Handle, c_uchar);
    fn rocksdb_writeoptions_disable_WAL(Handle, c_int);
    fn rocksdb_writeoptions_set_ignore_missing_column_families(Handle, c_uchar);
    fn rocksdb_put(Handle, Handle, *const c_char, usize, *const c_char, usize, ErrorSlot);
    fn rocksdb_put_cf(Handle, Handle, Handle, *const c_char, usize, *const c_char, usize, ErrorSlot);
    fn rocksdb_merge(Handle, Handle, *const c_char, usize, *const c_char, usize, ErrorSlot);
    fn rocksdb_merge_cf(Handle, Handle, Handle, *const c_char, usize, *const c_char, usize, ErrorSlot);
    fn rocksdb_delete(Handle, Handle, *const c_char, usize, ErrorSlot);
    fn rocksdb_delete_cf(Handle, Handle, Handle, *const c_char, usize, ErrorSlot);
    fn rocksdb_singledelete(Handle, Handle, *const c_char, usize, ErrorSlot);
    fn rocksdb_singledelete_cf(Handle, Handle, Handle, *const c_char, usize, ErrorSlot);
    fn rocksdb_delete_range_cf(Handle, Handle, Handle, *const c_char, usize, *const c_char, usize, ErrorSlot);
    fn rocksdb_writebatch_create() -> Handle;
    fn rocksdb_writebatch_destroy(Handle);
    fn rocksdb_writebatch_clear(Handle);
    fn rocksdb_writebatch_count(Handle) -> c_int;
    fn rocksdb_writebatch_put_cf(Handle, Handle, *const c_char, usize, *const c_char, usize);
    fn rocksdb_writebatch_merge_cf(Handle, Handle, *const c_char, usize, *const c_char, usize);
    fn rocksdb_writebatch_delete_cf(Handle, Handle, *const c_char, usize);
    fn rocksdb_writebatch_singledelete_cf(Handle, Handle, *const c_char, usize);
    fn rocksdb_writebatch_delete_range_cf(Handle, Handle, *const c_char, usize, *const c_char, usize);
    fn rocksdb_writebatch_put_log_data(Handle, *const c_char, usize);
    fn rocksdb_writebatch_set_save_point(Handle);
    fn rocksdb_writebatch_rollback_to_save_point(Handle, ErrorSlot);
    fn rocksdb_writebatch_pop_save_point(Handle, ErrorSlot);
    fn rocksdb_writebatch_data(Handle, *mut usize) -> *const c_char;
    fn rocksdb_writebatch_iterate_cf(Handle, *mut c_void, unsafe extern "C" fn(*mut c_void, u32, *const c_char, usize, *const c_char, usize), unsafe extern "C" fn(*mut c_void, u32, *const c_char, usize), unsafe extern "C" fn(*mut c_void, u32, *const c_char, usize, *const c_char, usize));
    fn rocksdb_write(Handle, Handle, Handle, ErrorSlot);
    fn rocksdb_writebatch_wi_create(usize, c_uchar) -> Handle;
    fn rocksdb_writebatch_wi_destroy(Handle);
    fn rocksdb_writebatch_wi_clear(Handle);
    fn rocksdb_writebatch_wi_count(Handle) -> c_int;
    fn rocksdb_writebatch_wi_put_cf(Handle, Handle, *const c_char, usize, *const c_char, usize);
    fn rocksdb_writebatch_wi_merge_cf(Handle, Handle, *const c_char, usize, *const c_char, usize);
    fn rocksdb_writebatch_wi_delete_cf(Handle, Handle, *const c_char, usize);
    fn rocksdb_writebatch_wi_singledelete_cf(Handle, Handle, *const c_char, usize);
    fn rocksdb_writebatch_wi_set_save_point(Handle);
    fn rocksdb_writebatch_wi_rollback_to_save_point(Handle, ErrorSlot);
    fn rocksdb_writebatch_wi_data(Handle, *mut usize) -> *const c_char;
    fn rocksdb_writebatch_wi_get_from_batch_cf(Handle, Handle, Handle, *const c_char, usize, *mut usize, ErrorSlot) -> *mut c_char;
    fn rocksdb_writebatch_wi_get_from_batch_and_db_cf(Handle, Handle, Handle, Handle, *const c_char, usize, *mut usize, ErrorSlot) -> *mut c_char;
    fn rocksdb_writebatch_wi_get_pinned_from_batch_and_db_cf(Handle, Handle, Handle, Handle, *const c_char, usize, ErrorSlot) -> Handle;
    fn rocksdb_writebatch_wi_create_iterator_with_base_cf(Handle, Handle, Handle) -> Handle;
    fn rocksdb_writebatch_wi_create_iterator_with_base_cf_readopts(Handle, Handle, Handle, Handle) -> Handle;
    fn rocksdb_write_writebatch_wi(Handle, Handle, Handle, ErrorSlot);
    fn rocksdb_readoptions_create() -> Handle;
    fn rocksdb_readoptions_destroy(Handle);
    fn rocksdb_readoptions_set_snapshot(Handle, Handle);
    fn rocksdb_readoptions_set_iterate_lower_bound(Handle, *const c_char, usize);
    fn rocksdb_readoptions_set_iterate_upper_bound(Handle, *const c_char, usize);
    fn rocksdb_readoptions_set_read_tier(Handle, c_int);
    fn rocksdb_readoptions_set_tailing(Handle, c_uchar);
    fn rocksdb_readoptions_set_total_order_seek(Handle, c_uchar);
    fn rocksdb_readoptions_set_prefix_same_as_start(Handle, c_uchar);
    fn rocksdb_readoptions_set_pin_data(Handle, c_uchar);
    fn rocksdb_readoptions_set_ignore_range_deletions(Handle, c_uchar);
    fn rocksdb_readoptions_set_max_skippable_internal_keys(Handle, u64);
    fn rocksdb_readoptions_set_readahead_size(Handle, usize);
    fn rocksdb_readoptions_set_fill_cache(Handle, c_uchar);
    fn rocksdb_readoptions_set_async_io(Handle, c_uchar);
    fn rocksdb_get(Handle, Handle, *const c_char, usize, *mut usize, ErrorSlot) -> *mut c_char;
    fn rocksdb_get_cf(Handle, Handle, Handle, *const c_char, usize, *mut usize, ErrorSlot) -> *mut c_char;
    fn rocksdb_get_pinned_cf(Handle, Handle, Handle, *const c_char, usize, ErrorSlot) -> Handle;
    fn rocksdb_pinnableslice_value(Handle, *mut usize) -> *const c_char;
    fn rocksdb_pinnableslice_destroy(Handle);
    fn rocksdb_multi_get_cf(Handle, Handle, *const Handle, usize, *const *const c_char, *const usize, *mut *mut c_char, *mut usize, ErrorSlot);
    fn rocksdb_batched_multi_get_cf(Handle, Handle, Handle, usize, *const *const c_char, *const usize, *mut Handle, ErrorSlot, bool);
    fn rocksdb_key_may_exist_cf(Handle, Handle, Handle, *const c_char, usize, *mut *mut c_char, *mut usize, *const c_char, usize, *mut c_uchar) -> c_uchar;
    fn rocksdb_get_into_buffer_cf(Handle, Handle, Handle, *const c_char, usize, *mut c_char, usize, *mut usize, *mut c_uchar, ErrorSlot) -> c_uchar;
    fn rocksdb_create_iterator_cf(Handle, Handle, Handle) -> Handle;
    fn rocksdb_create_iterators(Handle, Handle, *mut Handle, *mut Handle, usize, ErrorSlot);
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
    fn rocksdb_iter_get_error(Handle, ErrorSlot);
    fn rocksdb_iter_refresh(Handle, ErrorSlot);
    fn rocksdb_create_snapshot(Handle) -> Handle;
    fn rocksdb_release_snapshot(Handle, Handle);
    fn rocksdb_snapshot_get_sequence_number(Handle) -> u64;
    fn rocksdb_get_latest_sequence_number(Handle) -> u64;
    fn rocksdb_flushoptions_create() -> Handle;
    fn rocksdb_flushoptions_destroy(Handle);
    fn rocksdb_flush_cf(Handle, Handle, Handle, ErrorSlot);
    fn rocksdb_flush_cfs(Handle, Handle, *mut Handle, c_int, ErrorSlot);
    fn rocksdb_flush_wal(Handle, c_uchar, ErrorSlot);
    fn rocksdb_compact_range_cf_opt(Handle, Handle, Handle, *const c_char, usize, *const c_char, usize);
    fn rocksdb_compactoptions_create() -> Handle;
    fn rocksdb_compactoptions_destroy(Handle);
    fn rocksdb_compactoptions_set_bottommost_level_compaction(Handle, c_uchar);
    fn rocksdb_compactoptions_set_change_level(Handle, c_uchar);
    fn rocksdb_compactoptions_set_target_level(Handle, c_int);
    fn rocksdb_compactoptions_set_exclusive_manual_compaction(Handle, c_uchar);
    fn rocksdb_compactoptions_set_max_subcompactions(Handle, c_int);
    fn rocksdb_set_options_cf(Handle, Handle, c_int, *mut *const c_char, *mut *const c_char, ErrorSlot);
    fn rocksdb_property_value_cf(Handle, Handle, *const c_char) -> *mut c_char;
    fn rocksdb_property_int_cf(Handle, Handle, *const c_char, *mut u64) -> c_int;
    fn rocksdb_approximate_sizes_cf(Handle, Handle, c_int, *const *const c_char, *const usize, *const *const c_char, *const usize, *mut u64, ErrorSlot);
    fn rocksdb_checkpoint_object_create(Handle, ErrorSlot) -> Handle;
    fn rocksdb_checkpoint_create(Handle, *const c_char, u64, ErrorSlot);
    fn rocksdb_checkpoint_object_destroy(Handle);
    fn rocksdb_envoptions_create() -> Handle;
    fn rocksdb_envoptions_destroy(Handle);
    fn rocksdb_sstfilewriter_create(Handle, Handle) -> Handle;
    fn rocksdb_sstfilewriter_create_with_comparator(Handle, Handle, Handle) -> Handle;
    fn rocksdb_sstfilewriter_open(Handle, *const c_char, ErrorSlot);
    fn rocksdb_sstfilewriter_put(Handle, *const c_char, usize, *const c_char, usize, ErrorSlot);
    fn rocksdb_sstfilewriter_merge(Handle, *const c_char, usize, *const c_char, usize, ErrorSlot);
    fn rocksdb_sstfilewriter_delete(Handle, *const c_char, usize, ErrorSlot);
    fn rocksdb_sstfilewriter_delete_range(Handle, *const c_char, usize, *const c_char, usize, ErrorSlot);
    fn rocksdb_sstfilewriter_finish(Handle, ErrorSlot);
    fn rocksdb_sstfilewriter_destroy(Handle);
    fn rocksdb_ingestexternalfileoptions_create() -> Handle;
    fn rocksdb_ingestexternalfileoptions_destroy(Handle);
    fn rocksdb_ingestexternalfileoptions_set_move_files(Handle, c_uchar);
    fn rocksdb_ingestexternalfileoptions_set_allow_global_seqno(Handle, c_uchar);
    fn rocksdb_ingestexternalfileoptions_set_snapshot_consistency(Handle, c_uchar);
    fn rocksdb_ingestexternalfileoptions_set_allow_blocking_flush(Handle, c_uchar);
    fn rocksdb_ingestexternalfileoptions_set_fail_if_not_bottommost_level(Handle, c_uchar);
    fn rocksdb_ingest_external_file_cf(Handle, Handle, *const *const c_char, usize, Handle, ErrorSlot);
    fn rocksdb_get_updates_since(Handle, u64, Handle, ErrorSlot) -> Handle;
    fn rocksdb_wal_iter_destroy(Handle);
    fn rocksdb_wal_iter_get_batch(Handle, *mut u64) -> Handle;
    fn rocksdb_wal_iter_next(Handle);
    fn rocksdb_wal_iter_status(Handle, ErrorSlot);
    fn rocksdb_wal_iter_valid(Handle) -> c_uchar;
    fn rocksdb_wait_for_compact(Handle, Handle, ErrorSlot);
    fn rocksdb_wait_for_compact_options_create() -> Handle;
    fn rocksdb_wait_for_compact_options_destroy(Handle);
    fn rocksdb_wait_for_compact_options_set_flush(Handle, c_uchar);
    fn rocksdb_delete_file_in_range_cf(Handle, Handle, *const c_char, usize, *const c_char, usize, ErrorSlot);
    fn rocksdb_get_column_family_metadata_cf(Handle, Handle) -> Handle;
    fn rocksdb_column_family_metadata_get_file_count(Handle) -> usize;
    fn rocksdb_column_family_metadata_destroy(Handle);
    fn rocksdb_eventlistener_create(*mut c_void, Destructor, OfDatabase, OfDatabase, OfDatabase, OfDatabase, OfInfo, OfInfo, OfDatabase, unsafe extern "C" fn(*mut c_void, u32, Handle), OfInfo, OfInfo) -> Handle;
    fn rocksdb_options_add_eventlistener(Handle, Handle);
    fn rocksdb_compactionjobinfo_status(Handle, ErrorSlot);
    fn rocksdb_compactionjobinfo_input_file_at(Handle, usize, *mut usize) -> *const c_char;
    fn rocksdb_compactionjobinfo_output_file_at(Handle, usize, *mut usize) -> *const c_char;
    fn rocksdb_subcompactionjobinfo_status(Handle, ErrorSlot);
    fn rocksdb_writestallinfo_cur(Handle) -> *const c_int;
    fn rocksdb_writestallinfo_prev(Handle) -> *const c_int;
    fn rocksdb_status_ptr_get_error(Handle, ErrorSlot);
    fn rocksdb_reset_status(Handle);
    fn rocksdb_create_default_env() -> Handle;
    fn rocksdb_sst_file_manager_create(Handle) -> Handle;
    fn rocksdb_sst_file_manager_set_max_allowed_space_usage(Handle, u64);
    fn rocksdb_options_set_sst_file_manager(Handle, Handle);
    fn rocksdb_column_family_metadata_get_size(Handle) -> u64;
    fn rocksdb_transactiondb_options_create() -> Handle;
    fn rocksdb_transactiondb_options_destroy(Handle);
    fn rocksdb_transactiondb_options_set_transaction_lock_timeout(Handle, i64);
    fn rocksdb_transactiondb_options_set_default_lock_timeout(Handle, i64);
    fn rocksdb_transactiondb_open_column_families(Handle, Handle, *const c_char, c_int, *const *const c_char, *const *const c_void, *mut Handle, ErrorSlot) -> Handle;
    fn rocksdb_transactiondb_get_base_db(Handle) -> Handle;
    fn rocksdb_transactiondb_create_column_family(Handle, Handle, *const c_char, ErrorSlot) -> Handle;
    fn rocksdb_transactiondb_close_base_db(Handle);
    fn rocksdb_transactiondb_close(Handle);
    fn rocksdb_transactiondb_put_cf(Handle, Handle, Handle, *const c_char, usize, *const c_char, usize, ErrorSlot);
    fn rocksdb_transactiondb_merge_cf(Handle, Handle, Handle, *const c_char, usize, *const c_char, usize, ErrorSlot);
    fn rocksdb_transactiondb_delete_cf(Handle, Handle, Handle, *const c_char, usize, ErrorSlot);
    fn rocksdb_transactiondb_write(Handle, Handle, Handle, ErrorSlot);
    fn rocksdb_transactiondb_get_prepared_transactions(Handle, *mut usize) -> *mut Handle;
    fn rocksdb_optimistictransactiondb_open_column_families(Handle, *const c_char, c_int, *const *const c_char, *const *const c_void, *mut Handle, ErrorSlot) -> Handle;
    fn rocksdb_optimistictransactiondb_get_base_db(Handle) -> Handle;
    fn rocksdb_optimistictransactiondb_close_base_db(Handle);
    fn rocksdb_optimistictransactiondb_close(Handle);
    fn rocksdb_optimistictransactiondb_write(Handle, Handle, Handle, ErrorSlot);
    fn rocksdb_optimistictransaction_options_create() -> Handle;
    fn rocksdb_optimistictransaction_options_destroy(Handle);
    fn rocksdb_optimistictransaction_options_set_set_snapshot(Handle, c_uchar);
    fn rocksdb_optimistictransaction_begin(Handle, Handle, Handle, Handle) -> Handle;
    fn rocksdb_transaction_options_create() -> Handle;
    fn rocksdb_transaction_options_destroy(Handle);
    fn rocksdb_transaction_options_set_set_snapshot(Handle, c_uchar);
    fn rocksdb_transaction_options_set_lock_timeout(Handle, i64);
    fn rocksdb_transaction_begin(Handle, Handle, Handle, Handle) -> Handle;
    fn rocksdb_transaction_destroy(Handle);
    fn rocksdb_transaction_commit(Handle, ErrorSlot);
    fn rocksdb_transaction_rollback(Handle, ErrorSlot);
    fn rocksdb_transaction_prepare(Handle, ErrorSlot);
    fn rocksdb_transaction_set_name(Handle, *const c_char, usize, ErrorSlot);
    fn rocksdb_transaction_get_name(Handle, *mut usize) -> *mut c_char;
    fn rocksdb_transaction_set_savepoint(Handle);
    fn rocksdb_transaction_rollback_to_savepoint(Handle, ErrorSlot);
    fn rocksdb_transaction_get_writebatch_wi(Handle) -> Handle;
    fn rocksdb_transaction_rebuild_from_writebatch(Handle, Handle, ErrorSlot);
    fn rocksdb_transaction_put(Handle, *const c_char, usize, *const c_char, usize, ErrorSlot);
    fn rocksdb_transaction_put_cf(Handle, Handle, *const c_char, usize, *const c_char, usize, ErrorSlot);
    fn rocksdb_transaction_merge(Handle, *const c_char, usize, *const c_char, usize, ErrorSlot);
    fn rocksdb_transaction_merge_cf(Handle, Handle, *const c_char, usize, *const c_char, usize, ErrorSlot);
    fn rocksdb_transaction_delete(Handle, *const c_char, usize, ErrorSlot);
    fn rocksdb_transaction_delete_cf(Handle, Handle, *const c_char, usize, ErrorSlot);
    fn rocksdb_transaction_get_cf(Handle, Handle, Handle, *const c_char, usize, *mut usize, ErrorSlot) -> *mut c_char;
    fn rocksdb_transaction_get_for_update_cf(Handle, Handle, Handle, *const c_char, usize, *mut usize, c_uchar, ErrorSlot) -> *mut c_char;
    fn rocksdb_transaction_multi_get_cf(Handle, Handle, *const Handle, usize, *const *const c_char, *const usize, *mut *mut c_char, *mut usize, *mut *mut c_char);
    fn rocksdb_transaction_multi_get_for_update_cf(Handle, Handle, *const Handle, usize, *const *const c_char, *const usize, *mut *mut c_char, *mut usize, *mut *mut c_char);
    fn rocksdb_transaction_create_iterator_cf(Handle, Handle, Handle) -> Handle;
}
