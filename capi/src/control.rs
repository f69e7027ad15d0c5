//! Control of background work: manual compactions, pausing, waiting; WAL flushes; dynamic options.

use std::ffi::{c_char, c_int, c_uchar};

use cairn_db::{Db, Family};
use cairn_options::{ReadOptions, WaitForCompactOptions};
use cairn_types::Result;

use crate::database::{family_of, rocksdb_column_family_handle_t, rocksdb_t};
use crate::error::{array, maybe_bytes, report, text};
use crate::handle::{create, maybe, of, of_mut};
use crate::options::{Checked, rocksdb_readoptions_t};

/// Options of a WAL flush.
pub struct FlushWal {
    pub(crate) sync: bool,
    /// Stored without effect: a rate limiter does not limit WAL writes.
    rate_limiter_priority: c_int,
}

/// The priority without a rate limit (`IO_TOTAL`).
const UNLIMITED: c_int = 4;

handles! {
    /// Options of a wait.
    rocksdb_wait_for_compact_options_t = Checked<WaitForCompactOptions>;
    /// Options of a WAL flush.
    rocksdb_flushwaloptions_t = FlushWal;
}

c_destructors! {
    /// Frees options.
    rocksdb_flushwaloptions_destroy(rocksdb_flushwaloptions_t);
    /// Frees options.
    rocksdb_wait_for_compact_options_destroy(rocksdb_wait_for_compact_options_t);
}

c_setters! { rocksdb_wait_for_compact_options_t:
    rocksdb_wait_for_compact_options_set_abort_on_pause(c_uchar) => abort_on_pause;
    rocksdb_wait_for_compact_options_set_close_db(c_uchar) => close_db;
    rocksdb_wait_for_compact_options_set_flush(c_uchar) => flush;
    rocksdb_wait_for_compact_options_set_timeout(u64) => timeout;
    rocksdb_wait_for_compact_options_set_wait_for_purge(c_uchar) => wait_for_purge;
}

c_getters! { rocksdb_wait_for_compact_options_t:
    rocksdb_wait_for_compact_options_get_abort_on_pause(mut) -> c_uchar => abort_on_pause;
    rocksdb_wait_for_compact_options_get_close_db(mut) -> c_uchar => close_db;
    rocksdb_wait_for_compact_options_get_flush(mut) -> c_uchar => flush;
    rocksdb_wait_for_compact_options_get_timeout(mut) -> u64 => timeout;
    rocksdb_wait_for_compact_options_get_wait_for_purge(mut) -> c_uchar => wait_for_purge;
}

/// The options in two C arrays.
///
/// # Safety
///
/// The arrays are valid as `c.h` requires.
unsafe fn changes(
    count: c_int,
    keys: *const *const c_char,
    values: *const *const c_char,
) -> Vec<(String, String)> {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: guaranteed by the caller.
    unsafe {
        let pairs = array(keys, count).iter().zip(array(values, count));
        pairs
            .map(|(key, value)| (text(*key), text(*value)))
            .collect()
    }
}

/// The options in the form that the engine expects.
fn borrowed(changes: &[(String, String)]) -> Vec<(&str, &str)> {
    changes
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect()
}

fn set_options(family: &Family, changes: &[(String, String)]) -> Result<()> {
    family.set_options(&borrowed(changes))
}

fn delete_files(family: &Family, begin: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
    family.delete_files_in_ranges(&[(begin, end)], true)
}

fn database<'a>(db: *mut rocksdb_t) -> &'a Db {
    // SAFETY: the handle is valid as `c.h` requires; every caller is a function of the interface.
    unsafe { &of(db.cast_const()).db }
}

c_functions! {
    /// Creates default options: waits for flushes and compactions only, without a timeout.
    fn rocksdb_wait_for_compact_options_create() -> *mut rocksdb_wait_for_compact_options_t {
        create(Checked::new(WaitForCompactOptions::default()))
    }
    /// Waits until no flush or compaction is running or scheduled.
    fn rocksdb_wait_for_compact(
        db: *mut rocksdb_t,
        options: *mut rocksdb_wait_for_compact_options_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || database(db).wait_for_compact(of(options.cast_const())));
    }
    /// Waits for running flushes and compactions and starts no more, until
    /// `rocksdb_continue_background_work` has been called the same number of times.
    fn rocksdb_pause_background_work(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
        report(errptr, || {
            database(db).pause_background_work();
            Ok(())
        });
    }
    /// Reverts one `rocksdb_pause_background_work`.
    fn rocksdb_continue_background_work(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
        report(errptr, || database(db).continue_background_work());
    }
    /// Reads every block of every table and every blob, and verifies their checksums.
    fn rocksdb_verify_checksum(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
        report(errptr, || database(db).verify_checksum(&ReadOptions::default()));
    }
    /// The same with options; null means default options.
    fn rocksdb_verify_checksum_with_options(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        errptr: *mut *mut c_char,
    ) {
        let defaults = ReadOptions::default();
        report(errptr, || {
            let options = match maybe(options) {
                Some(options) => options.checked()?,
                None => &defaults,
            };
            database(db).verify_checksum(options)
        });
    }
    /// Reads all tables and blob files and compares them to their recorded file checksums, if any.
    fn rocksdb_verify_file_checksums(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
        report(errptr, || database(db).verify_file_checksums());
    }
    /// The same. The options must be valid, but only affect how files are read; null means default
    /// options.
    fn rocksdb_verify_file_checksums_with_options(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            if let Some(options) = maybe(options) {
                options.checked()?;
            }
            database(db).verify_file_checksums()
        });
    }
    /// Cancels background work permanently. With `wait`, returns after running work has ended.
    fn rocksdb_cancel_all_background_work(db: *mut rocksdb_t, wait: c_uchar) {
        // The C function has no `errptr`.
        let _ = database(db).cancel_all_background_work(wait != 0);
    }
    /// Cancels manual compactions and rejects new ones.
    fn rocksdb_disable_manual_compaction(db: *mut rocksdb_t) {
        database(db).disable_manual_compaction();
    }
    /// Allows manual compactions again.
    fn rocksdb_enable_manual_compaction(db: *mut rocksdb_t) {
        database(db).enable_manual_compaction();
    }
    /// Cancels all compactions and rejects new ones.
    fn rocksdb_abort_all_compactions(db: *mut rocksdb_t) {
        database(db).abort_all_compactions();
    }
    /// Allows compactions again.
    fn rocksdb_resume_all_compactions(db: *mut rocksdb_t) {
        database(db).resume_all_compactions();
    }
    /// Marks the files that overlap a range of the default family for compaction.
    fn rocksdb_suggest_compact_range(
        db: *mut rocksdb_t,
        start_key: *const c_char,
        start_key_len: usize,
        limit_key: *const c_char,
        limit_key_len: usize,
        errptr: *mut *mut c_char,
    ) {
        let (begin, end) = (maybe_bytes(start_key, start_key_len), maybe_bytes(limit_key, limit_key_len));
        report(errptr, || database(db).suggest_compact_range(begin, end));
    }
    /// The same for a column family.
    fn rocksdb_suggest_compact_range_cf(
        db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        start_key: *const c_char,
        start_key_len: usize,
        limit_key: *const c_char,
        limit_key_len: usize,
        errptr: *mut *mut c_char,
    ) {
        let (begin, end) = (maybe_bytes(start_key, start_key_len), maybe_bytes(limit_key, limit_key_len));
        report(errptr, || family_of(db, column_family)?.suggest_compact_range(begin, end));
    }
    /// Deletes the tables of the default family whose keys are all in a range.
    fn rocksdb_delete_file_in_range(
        db: *mut rocksdb_t,
        start_key: *const c_char,
        start_key_len: usize,
        limit_key: *const c_char,
        limit_key_len: usize,
        errptr: *mut *mut c_char,
    ) {
        let (begin, end) = (maybe_bytes(start_key, start_key_len), maybe_bytes(limit_key, limit_key_len));
        report(errptr, || delete_files(database(db).default_family(), begin, end));
    }
    /// The same for a column family.
    fn rocksdb_delete_file_in_range_cf(
        db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        start_key: *const c_char,
        start_key_len: usize,
        limit_key: *const c_char,
        limit_key_len: usize,
        errptr: *mut *mut c_char,
    ) {
        let (begin, end) = (maybe_bytes(start_key, start_key_len), maybe_bytes(limit_key, limit_key_len));
        report(errptr, || delete_files(family_of(db, column_family)?, begin, end));
    }
    /// Creates default options: a flush without a sync.
    fn rocksdb_flushwaloptions_create() -> *mut rocksdb_flushwaloptions_t {
        create(FlushWal { sync: false, rate_limiter_priority: UNLIMITED })
    }
    /// If true, the log is synced.
    fn rocksdb_flushwaloptions_set_sync(opt: *mut rocksdb_flushwaloptions_t, v: c_uchar) {
        of_mut(opt).sync = v != 0;
    }
    /// True if the log is synced.
    fn rocksdb_flushwaloptions_get_sync(opt: *mut rocksdb_flushwaloptions_t) -> c_uchar {
        of(opt.cast_const()).sync.into()
    }
    /// Stored without effect: a rate limiter does not limit WAL writes.
    fn rocksdb_flushwaloptions_set_rate_limiter_priority(opt: *mut rocksdb_flushwaloptions_t, v: c_int) {
        of_mut(opt).rate_limiter_priority = v;
    }
    /// The stored priority; 4 (`IO_TOTAL`) by default.
    fn rocksdb_flushwaloptions_get_rate_limiter_priority(opt: *mut rocksdb_flushwaloptions_t) -> c_int {
        of(opt.cast_const()).rate_limiter_priority
    }
    /// Writes buffered WAL records to the file, and syncs it if the options require it.
    fn rocksdb_flush_wal_with_options(
        db: *mut rocksdb_t,
        options: *const rocksdb_flushwaloptions_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || database(db).flush_wal(of(options).sync));
    }
    /// Writes buffered WAL records to the file and, with `sync`, syncs it.
    fn rocksdb_flush_wal(db: *mut rocksdb_t, sync: c_uchar, errptr: *mut *mut c_char) {
        report(errptr, || database(db).flush_wal(sync != 0));
    }
    /// Changes options of the open database.
    fn rocksdb_set_db_options(
        db: *mut rocksdb_t,
        count: c_int,
        keys: *const *const c_char,
        values: *const *const c_char,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || database(db).set_db_options(&borrowed(&changes(count, keys, values))));
    }
    /// Changes options of the default family of the open database.
    fn rocksdb_set_options(
        db: *mut rocksdb_t,
        count: c_int,
        keys: *const *const c_char,
        values: *const *const c_char,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || set_options(database(db).default_family(), &changes(count, keys, values)));
    }
    /// Changes options of a family of the open database.
    fn rocksdb_set_options_cf(
        db: *mut rocksdb_t,
        handle: *mut rocksdb_column_family_handle_t,
        count: c_int,
        keys: *const *const c_char,
        values: *const *const c_char,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || set_options(family_of(db, handle)?, &changes(count, keys, values)));
    }
}
