//! Backups.

use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use cairn_backup::{
    BackupEngine, BackupEngineOptions, BackupInfo, CreateBackupOptions, ExcludeFiles, Progress,
    RestoreOptions, ShareFilesNaming,
};
use cairn_platform::World;
use cairn_types::Result;

use crate::callbacks::State;

use crate::database::rocksdb_t;
use crate::env::rocksdb_env_t;
use crate::error::{maybe_bytes, path, report, report_ptr, store};
use crate::handle::{create, destroy, maybe, misuse, of, of_mut};
use crate::options::{Checked, rocksdb_options_t};
use crate::rate_limiter::rocksdb_ratelimiter_t;
use crate::table_properties::words;

handles! {
    /// Creates, verifies, restores and deletes the backups in a directory.
    rocksdb_backup_engine_t = BackupEngine;
    /// Descriptions of the backups in a directory.
    rocksdb_backup_engine_info_t = Vec<BackupInfo>;
    /// Options of a backup engine.
    rocksdb_backup_engine_options_t = Checked<BackupEngineOptions>;
    /// Options of a restore.
    rocksdb_restore_options_t = Checked<RestoreOptions<'static>>;
    /// Options of one backup.
    rocksdb_create_backup_options_t = Checked<CreateBackupOptions>;
}

c_destructors! {
    /// Closes an engine. The backups are not affected.
    rocksdb_backup_engine_close(rocksdb_backup_engine_t);
    /// Frees options.
    rocksdb_backup_engine_options_destroy(rocksdb_backup_engine_options_t);
    /// Frees options.
    rocksdb_restore_options_destroy(rocksdb_restore_options_t);
    /// Frees options.
    rocksdb_create_backup_options_destroy(rocksdb_create_backup_options_t);
}

c_setters! { rocksdb_backup_engine_options_t:
    rocksdb_backup_engine_options_set_backup_log_files(c_uchar) => backup_log_files;
    rocksdb_backup_engine_options_set_backup_rate_limit(u64) => backup_rate_limit;
    rocksdb_backup_engine_options_set_callback_trigger_interval_size(u64) => callback_trigger_interval_size;
    rocksdb_backup_engine_options_set_destroy_old_data(c_uchar) => destroy_old_data;
    rocksdb_backup_engine_options_set_io_buffer_size(u64) => io_buffer_size;
    rocksdb_backup_engine_options_set_restore_rate_limit(u64) => restore_rate_limit;
    rocksdb_backup_engine_options_set_schema_version(c_int) => schema_version;
    rocksdb_backup_engine_options_set_share_files_with_checksum(c_uchar) => share_files_with_checksum;
    rocksdb_backup_engine_options_set_share_table_files(c_uchar) => share_table_files;
    rocksdb_backup_engine_options_set_sync(c_uchar) => sync;
}

c_getters! { rocksdb_backup_engine_options_t:
    rocksdb_backup_engine_options_get_backup_log_files(mut) -> c_uchar => backup_log_files;
    rocksdb_backup_engine_options_get_backup_rate_limit(mut) -> u64 => backup_rate_limit;
    rocksdb_backup_engine_options_get_callback_trigger_interval_size(mut) -> u64 => callback_trigger_interval_size;
    rocksdb_backup_engine_options_get_destroy_old_data(mut) -> c_uchar => destroy_old_data;
    rocksdb_backup_engine_options_get_io_buffer_size(mut) -> u64 => io_buffer_size;
    rocksdb_backup_engine_options_get_restore_rate_limit(mut) -> u64 => restore_rate_limit;
    rocksdb_backup_engine_options_get_schema_version(mut) -> c_int => schema_version;
    rocksdb_backup_engine_options_get_share_files_with_checksum(mut) -> c_uchar => share_files_with_checksum;
    rocksdb_backup_engine_options_get_share_table_files(mut) -> c_uchar => share_table_files;
    rocksdb_backup_engine_options_get_sync(mut) -> c_uchar => sync;
}

c_setters! { rocksdb_restore_options_t:
    rocksdb_restore_options_set_keep_log_files(c_int) => keep_log_files;
    rocksdb_restore_options_set_mode(c_int) => mode;
}

c_getters! { rocksdb_restore_options_t:
    rocksdb_restore_options_get_keep_log_files(mut) -> c_uchar => keep_log_files;
    rocksdb_restore_options_get_mode(mut) -> c_int => mode;
}

c_setters! { rocksdb_create_backup_options_t:
    rocksdb_create_backup_options_set_atomic_flush(c_uchar) => atomic_flush;
    rocksdb_create_backup_options_set_flush_before_backup(c_uchar) => flush_before_backup;
}

c_getters! { rocksdb_create_backup_options_t:
    rocksdb_create_backup_options_get_atomic_flush(mut) -> c_uchar => atomic_flush;
    rocksdb_create_backup_options_get_flush_before_backup(mut) -> c_uchar => flush_before_backup;
}

/// Creates a backup of `db`, with bytes of the application, and stores its id.
///
/// # Safety
///
/// The arguments are valid as `c.h` requires.
unsafe fn create_backup(
    (be, db): (*mut rocksdb_backup_engine_t, *mut rocksdb_t),
    options: *const rocksdb_create_backup_options_t,
    app_metadata: Option<&[u8]>,
    backup_id: *mut u32,
) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut options = match maybe(options) {
            Some(options) => options.checked()?.clone(),
            None => CreateBackupOptions::default(),
        };
        options.app_metadata = app_metadata.unwrap_or_default().to_vec();
        let id = of(be.cast_const()).create_new_backup(&of(db.cast_const()).db, &options)?;
        store(backup_id, id);
        Ok(())
    }
}

/// Returns a description of a list.
///
/// # Safety
///
/// `info` is a live list.
unsafe fn at<'a>(info: *const rocksdb_backup_engine_info_t, index: c_int) -> &'a BackupInfo {
    // SAFETY: guaranteed by the caller.
    let list = unsafe { of(info) };
    let found = usize::try_from(index)
        .ok()
        .and_then(|index| list.get(index));
    found.unwrap_or_else(|| misuse(&format!("backup {index} of a list of {}", list.len())))
}

c_functions! {
    /// Opens the backups in the directory `path_name`, which is created if it is missing, with default options and the
    /// environment in `options`.
    fn rocksdb_backup_engine_open(
        options: *const rocksdb_options_t,
        path_name: *const c_char,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_backup_engine_t {
        report_ptr(errptr, || {
            let backups = BackupEngineOptions::new(path(path_name));
            Ok(create(BackupEngine::open(&of(options).checked()?.world(), &backups)?))
        })
    }
    /// Opens the backups in the directory in `options`. `env` is the environment of databases.
    fn rocksdb_backup_engine_open_opts(
        options: *const rocksdb_backup_engine_options_t,
        env: *mut rocksdb_env_t,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_backup_engine_t {
        report_ptr(errptr, || {
            let world = maybe(env.cast_const()).map_or_else(World::posix, |env| env.world.clone());
            Ok(create(BackupEngine::open(&world, of(options).checked()?)?))
        })
    }
    /// Creates a backup of `db`, with its logs.
    fn rocksdb_backup_engine_create_new_backup(
        be: *mut rocksdb_backup_engine_t,
        db: *mut rocksdb_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            let options = CreateBackupOptions::default();
            of(be.cast_const()).create_new_backup(&of(db.cast_const()).db, &options).map(|_| ())
        });
    }
    /// Creates a backup of `db`, after a flush if `flush_before_backup` is set.
    fn rocksdb_backup_engine_create_new_backup_flush(
        be: *mut rocksdb_backup_engine_t,
        db: *mut rocksdb_t,
        flush_before_backup: c_uchar,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            let options = CreateBackupOptions {
                flush_before_backup: flush_before_backup != 0,
                ..CreateBackupOptions::default()
            };
            of(be.cast_const()).create_new_backup(&of(db.cast_const()).db, &options).map(|_| ())
        });
    }
    /// Creates a backup of `db` with options, which may be null, and stores its id unless `backup_id` is null.
    fn rocksdb_backup_engine_create_new_backup_with_options(
        be: *mut rocksdb_backup_engine_t,
        db: *mut rocksdb_t,
        options: *const rocksdb_create_backup_options_t,
        backup_id: *mut u32,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || create_backup((be, db), options, None, backup_id));
    }
    /// The same, with bytes that are stored with the backup.
    fn rocksdb_backup_engine_create_new_backup_with_metadata(
        be: *mut rocksdb_backup_engine_t,
        db: *mut rocksdb_t,
        options: *const rocksdb_create_backup_options_t,
        app_metadata: *const c_char,
        app_metadata_len: usize,
        backup_id: *mut u32,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            create_backup((be, db), options, maybe_bytes(app_metadata, app_metadata_len), backup_id)
        });
    }
    /// Ends the backups in progress, from another thread; they and all later ones of the engine fail.
    fn rocksdb_backup_engine_stop_backup(be: *mut rocksdb_backup_engine_t) {
        of(be.cast_const()).stop();
    }
    /// Deletes the oldest backups so that at most `num_backups_to_keep` remain.
    fn rocksdb_backup_engine_purge_old_backups(
        be: *mut rocksdb_backup_engine_t,
        num_backups_to_keep: u32,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || of(be.cast_const()).purge_old_backups(num_backups_to_keep as usize));
    }
    /// Verifies that the files of a backup exist and have their lengths.
    fn rocksdb_backup_engine_verify_backup(be: *mut rocksdb_backup_engine_t, backup_id: u32, errptr: *mut *mut c_char) {
        report(errptr, || of(be.cast_const()).verify_backup(backup_id, false));
    }
    /// Restores a backup to the database in `db_dir` with logs in `wal_dir`.
    fn rocksdb_backup_engine_restore_db_from_backup(
        be: *mut rocksdb_backup_engine_t,
        db_dir: *const c_char,
        wal_dir: *const c_char,
        restore_options: *const rocksdb_restore_options_t,
        backup_id: u32,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            let options = of(restore_options).checked()?;
            of(be.cast_const()).restore_db_from_backup(backup_id, &path(db_dir), &path(wal_dir), options)
        });
    }
    /// Restores the newest backup.
    fn rocksdb_backup_engine_restore_db_from_latest_backup(
        be: *mut rocksdb_backup_engine_t,
        db_dir: *const c_char,
        wal_dir: *const c_char,
        restore_options: *const rocksdb_restore_options_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            let options = of(restore_options).checked()?;
            of(be.cast_const()).restore_db_from_latest_backup(&path(db_dir), &path(wal_dir), options)
        });
    }

    /// Returns descriptions of the valid backups, oldest first.
    fn rocksdb_backup_engine_get_backup_info(be: *mut rocksdb_backup_engine_t) -> *const rocksdb_backup_engine_info_t {
        create::<rocksdb_backup_engine_info_t>(of(be.cast_const()).backups())
    }
    /// Returns the number of backups.
    fn rocksdb_backup_engine_info_count(info: *const rocksdb_backup_engine_info_t) -> c_int {
        c_int::try_from(of(info).len()).unwrap_or(c_int::MAX)
    }
    /// Returns the time of a backup in seconds since 1970.
    fn rocksdb_backup_engine_info_timestamp(info: *const rocksdb_backup_engine_info_t, index: c_int) -> i64 {
        at(info, index).timestamp
    }
    /// Returns the id of a backup.
    fn rocksdb_backup_engine_info_backup_id(info: *const rocksdb_backup_engine_info_t, index: c_int) -> u32 {
        at(info, index).backup_id
    }
    /// Returns the number of bytes of a backup, including shared files.
    fn rocksdb_backup_engine_info_size(info: *const rocksdb_backup_engine_info_t, index: c_int) -> u64 {
        at(info, index).size
    }
    /// Returns the number of files of a backup, including shared ones.
    fn rocksdb_backup_engine_info_number_files(info: *const rocksdb_backup_engine_info_t, index: c_int) -> u32 {
        at(info, index).number_files
    }
    /// Returns the bytes of the application that are stored with a backup.
    fn rocksdb_backup_engine_info_app_metadata(
        info: *const rocksdb_backup_engine_info_t,
        index: c_int,
        len: *mut usize,
    ) -> *const c_char {
        words(&at(info, index).app_metadata, len)
    }
    /// Frees descriptions.
    ///
    /// Does nothing for null.
    fn rocksdb_backup_engine_info_destroy(info: *const rocksdb_backup_engine_info_t) {
        destroy(info.cast_mut());
    }

    /// Creates options with RocksDB's defaults for the directory `backup_dir`.
    fn rocksdb_backup_engine_options_create(backup_dir: *const c_char) -> *mut rocksdb_backup_engine_options_t {
        create(Checked::new(BackupEngineOptions {
            max_valid_backups_to_open: c_int::MAX as usize,
            ..BackupEngineOptions::new(path(backup_dir))
        }))
    }
    /// Sets the directory of the backups.
    fn rocksdb_backup_engine_options_set_backup_dir(options: *mut rocksdb_backup_engine_options_t, backup_dir: *const c_char) {
        of_mut(options).backup_dir = path(backup_dir);
    }
    /// Returns the directory of the backups, which is valid until the options are changed.
    fn rocksdb_backup_engine_options_get_backup_dir(opt: *mut rocksdb_backup_engine_options_t, size: *mut usize) -> *const c_char {
        words(of(opt.cast_const()).backup_dir.as_os_str().as_bytes(), size)
    }
    /// Sets the rate limiter of backups, which the options share. Does nothing for null.
    fn rocksdb_backup_engine_options_set_backup_rate_limiter(options: *mut rocksdb_backup_engine_options_t, limiter: *mut rocksdb_ratelimiter_t) {
        if let Some(limiter) = maybe(limiter.cast_const()) {
            of_mut(options).backup_rate_limiter = Some(limiter.clone());
        }
    }
    /// Sets the rate limiter of restores, which the options share. Does nothing for null.
    fn rocksdb_backup_engine_options_set_restore_rate_limiter(options: *mut rocksdb_backup_engine_options_t, limiter: *mut rocksdb_ratelimiter_t) {
        if let Some(limiter) = maybe(limiter.cast_const()) {
            of_mut(options).restore_rate_limiter = Some(limiter.clone());
        }
    }
    /// Sets the environment of the directory of backups; that of the database for null.
    fn rocksdb_backup_engine_options_set_env(options: *mut rocksdb_backup_engine_options_t, env: *mut rocksdb_env_t) {
        of_mut(options).backup_world = maybe(env.cast_const()).map(|env| env.world.clone());
    }
    /// Sets the maximum number of files that are copied at the same time.
    fn rocksdb_backup_engine_options_set_max_background_operations(options: *mut rocksdb_backup_engine_options_t, val: c_int) {
        let options = of_mut(options);
        let option = "max_background_operations";
        match usize::try_from(val) {
            Ok(number) if number > 0 => {
                options.accept(option);
                options.max_background_operations = number;
            }
            _ => options.refuse_number(option, "rocksdb_backup_engine_options_set_max_background_operations", val.into()),
        }
    }
    /// Returns the maximum number of files that are copied at the same time.
    fn rocksdb_backup_engine_options_get_max_background_operations(options: *mut rocksdb_backup_engine_options_t) -> c_int {
        let options = of(options.cast_const());
        match options.refused_number("max_background_operations") {
            Some(number) => number as c_int,
            None => c_int::try_from(options.max_background_operations).unwrap_or(c_int::MAX),
        }
    }
    /// Sets the maximum number of backups that a read-only engine opens; negative for no limit.
    fn rocksdb_backup_engine_options_set_max_valid_backups_to_open(options: *mut rocksdb_backup_engine_options_t, val: c_int) {
        // A negative number becomes one of the largest, which the getter casts back.
        of_mut(options).max_valid_backups_to_open = val as usize;
    }
    /// Returns the maximum number of backups that a read-only engine opens.
    fn rocksdb_backup_engine_options_get_max_valid_backups_to_open(options: *mut rocksdb_backup_engine_options_t) -> c_int {
        of(options.cast_const()).max_valid_backups_to_open as c_int
    }
    /// Sets the names of shared files: RocksDB's `ShareFilesNaming`.
    fn rocksdb_backup_engine_options_set_share_files_with_checksum_naming(options: *mut rocksdb_backup_engine_options_t, val: c_int) {
        let options = of_mut(options);
        let option = "share_files_with_checksum_naming";
        match ShareFilesNaming::from_number(val.cast_unsigned()) {
            Some(naming) => {
                options.accept(option);
                options.share_files_with_checksum_naming = naming;
            }
            None => options.refuse_number(option, "rocksdb_backup_engine_options_set_share_files_with_checksum_naming", val.into()),
        }
    }
    /// Returns the names of shared files.
    fn rocksdb_backup_engine_options_get_share_files_with_checksum_naming(options: *mut rocksdb_backup_engine_options_t) -> c_int {
        of(options.cast_const()).share_files_with_checksum_naming.number().cast_signed()
    }
    /// Creates options of a restore with RocksDB's defaults.
    fn rocksdb_restore_options_create() -> *mut rocksdb_restore_options_t {
        create(Checked::new(RestoreOptions::default()))
    }
    /// Creates options of a backup with RocksDB's defaults.
    fn rocksdb_create_backup_options_create() -> *mut rocksdb_create_backup_options_t {
        create(Checked::new(CreateBackupOptions::default()))
    }
    /// Sets a function that is called as the backup advances, with `state`, by the threads that copy; null removes it.
    fn rocksdb_create_backup_options_set_progress_callback(
        options: *mut rocksdb_create_backup_options_t,
        state: *mut c_void,
        callback: Option<unsafe extern "C" fn(*mut c_void)>,
    ) {
        let state = State::new(state, None);
        of_mut(options).progress = callback.map(|callback| {
            // SAFETY: the program provides a function that may be called with its state from any thread.
            Arc::new(move |_: Progress| unsafe { callback(state.pointer()) }) as Arc<dyn Fn(Progress) + Send + Sync>
        });
    }
    /// Sets a function that selects shared files to exclude: it receives `state` and a path relative to the directory of
    /// backups, and returns 0 to include the file. It requires schema 2; null removes it.
    fn rocksdb_create_backup_options_set_exclude_files_callback(
        options: *mut rocksdb_create_backup_options_t,
        state: *mut c_void,
        callback: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> c_uchar>,
    ) {
        let state = State::new(state, None);
        of_mut(options).exclude_files = callback.map(|callback| {
            Arc::new(move |files: &mut [(String, bool)]| {
                for (path, excluded) in files {
                    // SAFETY: the program's function reads the path, of this length, during the call.
                    *excluded = unsafe { callback(state.pointer(), path.as_ptr().cast(), path.len()) } != 0;
                }
            }) as ExcludeFiles
        });
    }
}
