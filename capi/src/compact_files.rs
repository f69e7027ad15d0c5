//! Compaction of given files (`CompactFiles`).

use std::ffi::{c_char, c_int, c_uchar};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cairn_db::Family;
use cairn_observe::listener::CompactionJobInfo;
use cairn_options::{Canceled, CompactionOptions};
use cairn_types::{Error, Result};

use crate::callbacks::listener::rocksdb_compactionjobinfo_t;
use crate::database::{family_of, rocksdb_column_family_handle_t, rocksdb_t};
use crate::error::{array, malloc_text, pointers, report, store, text};
use crate::handle::{create, maybe, of, of_mut};
use crate::options::Checked;

handles! {
    /// Options of a compaction of given files.
    rocksdb_compaction_options_t = Checked<CompactionOptions>;
}

c_destructors! {
    /// Frees options.
    rocksdb_compaction_options_destroy(rocksdb_compaction_options_t);
}

c_setters! { rocksdb_compaction_options_t:
    rocksdb_compaction_options_set_allow_trivial_move(c_uchar) => allow_trivial_move;
    rocksdb_compaction_options_set_compression(c_int) => compression;
    rocksdb_compaction_options_set_max_subcompactions(u32) => max_subcompactions;
    rocksdb_compaction_options_set_output_file_size_limit(u64) => output_file_size_limit;
}

c_getters! { rocksdb_compaction_options_t:
    rocksdb_compaction_options_get_allow_trivial_move(mut) -> c_uchar => allow_trivial_move;
    rocksdb_compaction_options_get_compression(mut) -> c_int => compression;
    rocksdb_compaction_options_get_max_subcompactions(mut) -> u32 => max_subcompactions;
    rocksdb_compaction_options_get_output_file_size_limit(mut) -> u64 => output_file_size_limit;
}

/// The arguments of a compaction of files.
struct Request {
    options: *const rocksdb_compaction_options_t,
    names: *const *const c_char,
    count: usize,
    output_level: c_int,
    output_path_id: c_int,
}

impl Request {
    /// Runs the compaction.
    ///
    /// # Safety
    ///
    /// The fields are valid as `c.h` requires.
    unsafe fn run(&self, family: &Family) -> Result<CompactionJobInfo> {
        let defaults = CompactionOptions::default();
        // SAFETY: guaranteed by the caller.
        let (options, names) = unsafe {
            let options = match maybe(self.options) {
                Some(options) => options.checked()?,
                None => &defaults,
            };
            let names = array(self.names, self.count).iter();
            (options, names.map(|name| text(*name)).collect::<Vec<_>>())
        };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let level = usize::try_from(self.output_level)
            .map_err(|_| Error::invalid_argument("the output level is negative"))?;
        // Negative: none is specified.
        let path = u32::try_from(self.output_path_id).ok();
        family.compact_files_reported(options, &names, level, path)
    }
}

/// Compacts files of a family and stores the names of the output files.
///
/// # Safety
///
/// The arguments are valid as `c.h` requires.
unsafe fn compact(
    family: Result<&Family>,
    request: &Request,
    (names, count): (*mut *mut *mut c_char, *mut usize),
    info: *mut rocksdb_compactionjobinfo_t,
    errptr: *mut *mut c_char,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        report(errptr, || {
            let did = request.run(family?)?;
            let files = did.output_paths();
            store(count, files.len());
            if !names.is_null() {
                names.write(match files.is_empty() {
                    true => null_mut(),
                    false => pointers(files.iter().map(malloc_text)),
                });
            }
            if !info.is_null() {
                *of_mut(info) = did;
            }
            Ok(())
        });
    }
}

/// The flag of a pointer from `rocksdb_compaction_options_canceled_create`.
fn flag(canceled: *mut c_uchar) -> *const AtomicBool {
    canceled.cast_const().cast()
}

c_functions! {
    /// Creates default options.
    fn rocksdb_compaction_options_create() -> *mut rocksdb_compaction_options_t {
        create(Checked::new(CompactionOptions::default()))
    }
    /// Creates a flag, initially false, that cancels compactions.
    fn rocksdb_compaction_options_canceled_create() -> *mut c_uchar {
        Arc::into_raw(Arc::new(AtomicBool::new(false))).cast_mut().cast()
    }
    /// Sets or clears a flag; does nothing for null. Compactions that have already seen it set are
    /// still cancelled.
    fn rocksdb_compaction_options_canceled_set(canceled: *mut c_uchar, value: c_uchar) {
        if let Some(flag) = flag(canceled).as_ref() {
            flag.store(value != 0, Ordering::Release);
        }
    }
    /// Releases the program's reference to a flag; does nothing for null. Options that use it keep
    /// theirs.
    fn rocksdb_compaction_options_canceled_destroy(canceled: *mut c_uchar) {
        if !canceled.is_null() {
            drop(Arc::from_raw(flag(canceled)));
        }
    }
    /// Sets the flag that cancels compactions with these options; null for none.
    fn rocksdb_compaction_options_set_canceled(options: *mut rocksdb_compaction_options_t, canceled: *mut c_uchar) {
        of_mut(options).canceled = match canceled.is_null() {
            true => Canceled::default(),
            false => {
                Arc::increment_strong_count(flag(canceled));
                Arc::from_raw(flag(canceled)).into()
            }
        };
    }
    /// Compacts the given tables of the default family, and others that must be included, into a
    /// level. A negative `output_path_id` selects the only path; it is an error if there are several. The names of the
    /// output files, tables and then blob files, are stored in `output_file_names`, unless it is null, and freed by
    /// `rocksdb_compact_files_output_file_names_destroy`. Information about the job is stored in
    /// `compaction_job_info`, unless it is null; it is unchanged if the compaction could not run.
    fn rocksdb_compact_files(
        db: *mut rocksdb_t,
        options: *const rocksdb_compaction_options_t,
        input_file_names: *const *const c_char,
        num_input_file_names: usize,
        output_level: c_int,
        output_path_id: c_int,
        output_file_names: *mut *mut *mut c_char,
        num_output_file_names: *mut usize,
        compaction_job_info: *mut rocksdb_compactionjobinfo_t,
        errptr: *mut *mut c_char,
    ) {
        let request = Request {
            options,
            names: input_file_names,
            count: num_input_file_names,
            output_level,
            output_path_id,
        };
        let places = (output_file_names, num_output_file_names);
        compact(Ok(of(db.cast_const()).db.default_family()), &request, places, compaction_job_info, errptr);
    }
    /// The same for a family; null means the default family.
    fn rocksdb_compact_files_cf(
        db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        options: *const rocksdb_compaction_options_t,
        input_file_names: *const *const c_char,
        num_input_file_names: usize,
        output_level: c_int,
        output_path_id: c_int,
        output_file_names: *mut *mut *mut c_char,
        num_output_file_names: *mut usize,
        compaction_job_info: *mut rocksdb_compactionjobinfo_t,
        errptr: *mut *mut c_char,
    ) {
        let request = Request {
            options,
            names: input_file_names,
            count: num_input_file_names,
            output_level,
            output_path_id,
        };
        let family = match column_family.is_null() {
            true => Ok(of(db.cast_const()).db.default_family()),
            false => family_of(db, column_family),
        };
        let places = (output_file_names, num_output_file_names);
        compact(family, &request, places, compaction_job_info, errptr);
    }
    /// Frees a list of names.
    fn rocksdb_compact_files_output_file_names_destroy(output_file_names: *mut *mut c_char, num_output_file_names: usize) {
        for name in array(output_file_names.cast_const(), num_output_file_names) {
            libc::free(name.cast());
        }
        libc::free(output_file_names.cast());
    }
}
