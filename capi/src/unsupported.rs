//! Functions of unsupported features: they exist so that programs link, and report that they are not
//! implemented.
//!
//! A function with an `errptr` returns `Not implemented: <function>: <what>`. A function that sets
//! an option makes the calls that use the options fail. All others create or take objects of an
//! unsupported feature: they return null or zero and write a line to the LOG of every open
//! database.

use std::ffi::{c_char, c_int, c_uchar, c_void};

use crate::cache::rocksdb_memory_allocator_t;
use crate::callbacks::compaction_filter::{
    rocksdb_compactionfilter_t, rocksdb_compactionfilterfactory_t,
};
use crate::callbacks::comparator::rocksdb_comparator_t;
use crate::callbacks::listener::rocksdb_eventlistener_t;
use crate::callbacks::logger::rocksdb_logger_t;
use crate::callbacks::merge::rocksdb_mergeoperator_t;
use crate::callbacks::tables::{
    rocksdb_sst_partitioner_factory_t, rocksdb_table_properties_collector_factory_t,
};
use crate::callbacks::transform::rocksdb_slicetransform_t;
use crate::database::{rocksdb_column_family_handle_t, rocksdb_t};
use crate::env::rocksdb_env_t;
use crate::handle::of_mut;
use crate::options::objects::rocksdb_file_checksum_gen_factory_t;
use crate::options::{rocksdb_block_based_table_options_t, rocksdb_options_t};

/// An object of an unsupported feature.
pub struct rocksdb_compaction_service_options_override_t(());
/// An object of an unsupported feature.
pub struct rocksdb_compactionservice_jobinfo_t(());
/// An object of an unsupported feature.
pub struct rocksdb_compactionservice_scheduleresponse_t(());
/// An object of an unsupported feature.
pub struct rocksdb_compactionservice_t(());
/// An object of an unsupported feature.
pub struct rocksdb_cuckoo_table_options_t(());
/// An object of an unsupported feature.
pub struct rocksdb_open_and_compact_options_t(());
/// A callback that is never called.
pub type rocksdb_compaction_service_cancel_awaiting_jobs_cb = Option<unsafe extern "C" fn()>;
/// A callback that is never called.
pub type rocksdb_compaction_service_on_installation_cb = Option<unsafe extern "C" fn()>;
/// A callback that is never called.
pub type rocksdb_compaction_service_schedule_cb = Option<unsafe extern "C" fn()>;
/// A callback that is never called.
pub type rocksdb_compaction_service_wait_cb = Option<unsafe extern "C" fn()>;

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

c_unbuilt! { "remote compaction":
    no() fn rocksdb_compaction_service_options_override_add_event_listener(override_options: *mut rocksdb_compaction_service_options_override_t, event_listener: *mut rocksdb_eventlistener_t);
    no() fn rocksdb_compaction_service_options_override_add_table_properties_collector_factory(override_options: *mut rocksdb_compaction_service_options_override_t, factory: *mut rocksdb_table_properties_collector_factory_t);
    no() fn rocksdb_compaction_service_options_override_create() -> *mut rocksdb_compaction_service_options_override_t;
    no() fn rocksdb_compaction_service_options_override_create_from_options(option: *mut rocksdb_options_t) -> *mut rocksdb_compaction_service_options_override_t;
    no() fn rocksdb_compaction_service_options_override_destroy(override_options: *mut rocksdb_compaction_service_options_override_t);
    no() fn rocksdb_compaction_service_options_override_set_block_based_table_factory(override_options: *mut rocksdb_compaction_service_options_override_t, table_options: *mut rocksdb_block_based_table_options_t);
    no() fn rocksdb_compaction_service_options_override_set_compaction_filter(override_options: *mut rocksdb_compaction_service_options_override_t, compaction_filter: *mut rocksdb_compactionfilter_t);
    no() fn rocksdb_compaction_service_options_override_set_compaction_filter_factory(override_options: *mut rocksdb_compaction_service_options_override_t, compaction_filter_factory: *mut rocksdb_compactionfilterfactory_t);
    no() fn rocksdb_compaction_service_options_override_set_comparator(override_options: *mut rocksdb_compaction_service_options_override_t, comparator: *mut rocksdb_comparator_t);
    no() fn rocksdb_compaction_service_options_override_set_cuckoo_table_factory(override_options: *mut rocksdb_compaction_service_options_override_t, table_options: *mut rocksdb_cuckoo_table_options_t);
    no() fn rocksdb_compaction_service_options_override_set_env(override_options: *mut rocksdb_compaction_service_options_override_t, env: *mut rocksdb_env_t);
    no() fn rocksdb_compaction_service_options_override_set_file_checksum_gen_factory(override_options: *mut rocksdb_compaction_service_options_override_t, factory: *mut rocksdb_file_checksum_gen_factory_t);
    no() fn rocksdb_compaction_service_options_override_set_info_log(override_options: *mut rocksdb_compaction_service_options_override_t, logger: *mut rocksdb_logger_t);
    no() fn rocksdb_compaction_service_options_override_set_merge_operator(override_options: *mut rocksdb_compaction_service_options_override_t, merge_operator: *mut rocksdb_mergeoperator_t);
    no() fn rocksdb_compaction_service_options_override_set_option(override_options: *mut rocksdb_compaction_service_options_override_t, key: *const c_char, value: *const c_char);
    no() fn rocksdb_compaction_service_options_override_set_prefix_extractor(override_options: *mut rocksdb_compaction_service_options_override_t, prefix_extractor: *mut rocksdb_slicetransform_t);
    no() fn rocksdb_compaction_service_options_override_set_sst_partitioner_factory(override_options: *mut rocksdb_compaction_service_options_override_t, factory: *mut rocksdb_sst_partitioner_factory_t);
    no() fn rocksdb_compaction_service_options_override_set_statistics(override_options: *mut rocksdb_compaction_service_options_override_t, options: *mut rocksdb_options_t);
    no() fn rocksdb_compactionservice_create(state: *mut c_void, destructor: Option<unsafe extern "C" fn(*mut c_void)>, schedule: rocksdb_compaction_service_schedule_cb, name: *const c_char, wait: rocksdb_compaction_service_wait_cb, cancel_awaiting_jobs: rocksdb_compaction_service_cancel_awaiting_jobs_cb, on_installation: rocksdb_compaction_service_on_installation_cb) -> *mut rocksdb_compactionservice_t;
    no() fn rocksdb_compactionservice_jobinfo_t_get_base_input_level(info: *const rocksdb_compactionservice_jobinfo_t) -> c_int;
    no() fn rocksdb_compactionservice_jobinfo_t_get_cf_id(info: *const rocksdb_compactionservice_jobinfo_t) -> u32;
    no() fn rocksdb_compactionservice_jobinfo_t_get_cf_name(info: *const rocksdb_compactionservice_jobinfo_t, len: *mut usize) -> *const c_char;
    no() fn rocksdb_compactionservice_jobinfo_t_get_compaction_reason(info: *const rocksdb_compactionservice_jobinfo_t) -> c_int;
    no() fn rocksdb_compactionservice_jobinfo_t_get_db_id(info: *const rocksdb_compactionservice_jobinfo_t, len: *mut usize) -> *const c_char;
    no() fn rocksdb_compactionservice_jobinfo_t_get_db_name(info: *const rocksdb_compactionservice_jobinfo_t, len: *mut usize) -> *const c_char;
    no() fn rocksdb_compactionservice_jobinfo_t_get_db_session_id(info: *const rocksdb_compactionservice_jobinfo_t, len: *mut usize) -> *const c_char;
    no() fn rocksdb_compactionservice_jobinfo_t_get_job_id(info: *const rocksdb_compactionservice_jobinfo_t) -> u64;
    no() fn rocksdb_compactionservice_jobinfo_t_get_output_level(info: *const rocksdb_compactionservice_jobinfo_t) -> c_int;
    no() fn rocksdb_compactionservice_jobinfo_t_get_priority(info: *const rocksdb_compactionservice_jobinfo_t) -> c_int;
    no() fn rocksdb_compactionservice_jobinfo_t_is_bottommost_level(info: *const rocksdb_compactionservice_jobinfo_t) -> c_uchar;
    no() fn rocksdb_compactionservice_jobinfo_t_is_full_compaction(info: *const rocksdb_compactionservice_jobinfo_t) -> c_uchar;
    no() fn rocksdb_compactionservice_jobinfo_t_is_manual_compaction(info: *const rocksdb_compactionservice_jobinfo_t) -> c_uchar;
    err(errptr) fn rocksdb_compactionservice_scheduleresponse_create(scheduled_job_id: *const c_char, status: c_int, errptr: *mut *mut c_char) -> *mut rocksdb_compactionservice_scheduleresponse_t;
    err(errptr) fn rocksdb_compactionservice_scheduleresponse_create_with_status(status: c_int, errptr: *mut *mut c_char) -> *mut rocksdb_compactionservice_scheduleresponse_t;
    no() fn rocksdb_compactionservice_scheduleresponse_get_scheduled_job_id(response: *const rocksdb_compactionservice_scheduleresponse_t, len: *mut usize) -> *const c_char;
    no() fn rocksdb_compactionservice_scheduleresponse_getstatus(response: *const rocksdb_compactionservice_scheduleresponse_t) -> c_int;
    no() fn rocksdb_compactionservice_scheduleresponse_t_destroy(response: *mut rocksdb_compactionservice_scheduleresponse_t);
    err(errptr) fn rocksdb_open_and_compact(db_path: *const c_char, output_directory: *const c_char, input: *const c_char, input_len: usize, output_len: *mut usize, override_options: *const rocksdb_compaction_service_options_override_t, errptr: *mut *mut c_char) -> *mut c_char;
    no() fn rocksdb_open_and_compact_canceled_create() -> *mut c_uchar;
    no() fn rocksdb_open_and_compact_canceled_destroy(canceled: *mut c_uchar);
    no() fn rocksdb_open_and_compact_canceled_set(canceled: *mut c_uchar, value: c_uchar);
    no() fn rocksdb_open_and_compact_options_create() -> *mut rocksdb_open_and_compact_options_t;
    no() fn rocksdb_open_and_compact_options_destroy(options: *mut rocksdb_open_and_compact_options_t);
    no() fn rocksdb_open_and_compact_options_get_max_secondary_open_retries(options: *mut rocksdb_open_and_compact_options_t) -> u32;
    no() fn rocksdb_open_and_compact_options_set_allow_resumption(options: *mut rocksdb_open_and_compact_options_t, allow_resumption: c_uchar);
    no() fn rocksdb_open_and_compact_options_set_canceled(options: *mut rocksdb_open_and_compact_options_t, canceled: *mut c_uchar);
    no() fn rocksdb_open_and_compact_options_set_max_secondary_open_retries(options: *mut rocksdb_open_and_compact_options_t, max_secondary_open_retries: u32);
    err(errptr) fn rocksdb_open_and_compact_with_options(options: *const rocksdb_open_and_compact_options_t, db_path: *const c_char, output_directory: *const c_char, input: *const c_char, input_len: usize, output_len: *mut usize, override_options: *const rocksdb_compaction_service_options_override_t, errptr: *mut *mut c_char) -> *mut c_char;
    at(options) fn rocksdb_options_set_compaction_service(options: *mut rocksdb_options_t, service: *mut rocksdb_compactionservice_t);
}

c_unbuilt! { "secondary instances":
    err(errptr) fn rocksdb_open_as_secondary(options: *const rocksdb_options_t, name: *const c_char, secondary_path: *const c_char, errptr: *mut *mut c_char) -> *mut rocksdb_t;
    err(errptr) fn rocksdb_open_as_secondary_column_families(options: *const rocksdb_options_t, name: *const c_char, secondary_path: *const c_char, num_column_families: c_int, column_family_names: *const *const c_char, column_family_options: *const *const rocksdb_options_t, column_family_handles: *mut *mut rocksdb_column_family_handle_t, errptr: *mut *mut c_char) -> *mut rocksdb_t;
    err(errptr) fn rocksdb_try_catch_up_with_primary(db: *mut rocksdb_t, errptr: *mut *mut c_char);
}
