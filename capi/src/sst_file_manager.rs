//! SST file managers: space limits and the deletion rate.

use std::sync::Arc;

use cairn_platform::SstFileManager;

use crate::env::rocksdb_env_t;
use crate::handle::{create, maybe, of, of_mut};
use crate::options::rocksdb_options_t;

handles! {
    /// A manager of file space and file deletion, which several databases may share.
    rocksdb_sst_file_manager_t = Arc<SstFileManager>;
}

c_destructors! {
    /// Releases the program's reference to a manager.
    rocksdb_sst_file_manager_destroy(rocksdb_sst_file_manager_t);
}

c_functions! {
    /// Creates a manager without limits. Files are deleted in the environment of their database; `env`
    /// is ignored.
    fn rocksdb_sst_file_manager_create(env: *mut rocksdb_env_t) -> *mut rocksdb_sst_file_manager_t {
        let _ = env;
        create(Arc::new(SstFileManager::new()))
    }
    /// Sets the limit on the total size of files, in bytes; 0 for no limit.
    fn rocksdb_sst_file_manager_set_max_allowed_space_usage(sfm: *mut rocksdb_sst_file_manager_t, max_allowed_space: u64) {
        of(sfm.cast_const()).set_max_allowed_space_usage(max_allowed_space);
    }
    /// Sets the bytes that compactions leave free below the limit.
    fn rocksdb_sst_file_manager_set_compaction_buffer_size(sfm: *mut rocksdb_sst_file_manager_t, compaction_buffer_size: u64) {
        of(sfm.cast_const()).set_compaction_buffer_size(compaction_buffer_size);
    }
    /// True if the files have reached the limit.
    fn rocksdb_sst_file_manager_is_max_allowed_space_reached(sfm: *mut rocksdb_sst_file_manager_t) -> bool {
        of(sfm.cast_const()).is_max_allowed_space_reached()
    }
    /// True if the files and the estimated output of running compactions have reached the limit.
    fn rocksdb_sst_file_manager_is_max_allowed_space_reached_including_compactions(sfm: *mut rocksdb_sst_file_manager_t) -> bool {
        of(sfm.cast_const()).is_max_allowed_space_reached_including_compactions()
    }
    /// Returns the total size in bytes of all tables and blob files, including trash.
    fn rocksdb_sst_file_manager_get_total_size(sfm: *mut rocksdb_sst_file_manager_t) -> u64 {
        of(sfm.cast_const()).total_size()
    }
    /// Returns the total size in bytes of files that are scheduled for deletion.
    fn rocksdb_sst_file_manager_get_total_trash_size(sfm: *mut rocksdb_sst_file_manager_t) -> u64 {
        of(sfm.cast_const()).total_trash_size()
    }
    /// Returns the deletion rate in bytes per second; 0 or less if files are deleted immediately.
    fn rocksdb_sst_file_manager_get_delete_rate_bytes_per_second(sfm: *mut rocksdb_sst_file_manager_t) -> i64 {
        of(sfm.cast_const()).delete_rate_bytes_per_second()
    }
    /// Sets the deletion rate in bytes per second.
    fn rocksdb_sst_file_manager_set_delete_rate_bytes_per_second(sfm: *mut rocksdb_sst_file_manager_t, delete_rate: i64) {
        of(sfm.cast_const()).set_delete_rate_bytes_per_second(delete_rate);
    }
    /// Returns the maximum ratio of trash to the total size.
    fn rocksdb_sst_file_manager_get_max_trash_db_ratio(sfm: *mut rocksdb_sst_file_manager_t) -> f64 {
        of(sfm.cast_const()).max_trash_db_ratio()
    }
    /// Sets the maximum ratio of trash to the total size.
    fn rocksdb_sst_file_manager_set_max_trash_db_ratio(sfm: *mut rocksdb_sst_file_manager_t, ratio: f64) {
        of(sfm.cast_const()).set_max_trash_db_ratio(ratio);
    }
    /// Sets the SST file manager. The program still destroys its handle.
    fn rocksdb_options_set_sst_file_manager(opt: *mut rocksdb_options_t, sfm: *mut rocksdb_sst_file_manager_t) {
        of_mut(opt).db.sst_file_manager = maybe(sfm.cast_const()).cloned();
    }
}
