//! The parts of a copy of a database, file by file, and its logs.

use std::ffi::{CString, c_char, c_int, c_uchar};
use std::ptr::null;

use cairn_db::{LiveFileStorageInfo, LiveFilesStorageInfoOptions, WalFile, WalFileType};

use crate::database::rocksdb_t;
use crate::error::{report_ptr, store, terminated};
use crate::handle::{create, destroy, maybe, misuse, of, of_mut, take};
use crate::options::Checked;

/// A file of a copy, with its texts as C reads them.
pub struct CopiedFile {
    info: LiveFileStorageInfo,
    name: CString,
    directory: CString,
    checksum: Vec<u8>,
    checksum_function: CString,
}

/// A log, with its name as C reads it.
pub struct Log {
    file: WalFile,
    path_name: CString,
}

handles! {
    /// How the files of a copy are listed.
    rocksdb_livefiles_storage_info_options_t = Checked<LiveFilesStorageInfoOptions>;
    /// The files of a copy.
    rocksdb_livefiles_storage_info_t = Vec<CopiedFile>;
    /// A log.
    rocksdb_wal_file_t = Log;
    /// Logs, oldest first. Each has a handle, which is the list's.
    rocksdb_wal_files_t = Vec<*mut rocksdb_wal_file_t>;
}

c_destructors! {
    /// Frees options.
    rocksdb_livefiles_storage_info_options_destroy(rocksdb_livefiles_storage_info_options_t);
    /// Frees a list of files.
    rocksdb_livefiles_storage_info_destroy(rocksdb_livefiles_storage_info_t);
    /// Frees what was told of the current log. One of a list is freed with the list.
    rocksdb_wal_file_destroy(rocksdb_wal_file_t);
}

c_setters! { rocksdb_livefiles_storage_info_options_t:
    rocksdb_livefiles_storage_info_options_set_include_checksum_info(c_uchar) => include_checksum_info;
    rocksdb_livefiles_storage_info_options_set_wal_size_for_flush(u64) => wal_size_for_flush;
}

c_getters! { rocksdb_livefiles_storage_info_options_t:
    rocksdb_livefiles_storage_info_options_get_include_checksum_info(mut) -> c_uchar => include_checksum_info;
    rocksdb_livefiles_storage_info_options_get_wal_size_for_flush(mut) -> u64 => wal_size_for_flush;
}

impl From<LiveFileStorageInfo> for CopiedFile {
    fn from(info: LiveFileStorageInfo) -> CopiedFile {
        let mut checksum = info.file_checksum.clone();
        checksum.push(0);
        CopiedFile {
            name: terminated(&info.relative_filename),
            directory: terminated(&info.directory.to_string_lossy()),
            checksum,
            checksum_function: terminated(&info.file_checksum_func_name),
            info,
        }
    }
}

impl From<WalFile> for Log {
    fn from(file: WalFile) -> Log {
        Log {
            path_name: terminated(&file.path_name),
            file,
        }
    }
}

/// The file `index` of a list.
///
/// # Safety
///
/// The handle is what `c.h` says.
unsafe fn at<'a>(files: *const rocksdb_livefiles_storage_info_t, index: usize) -> &'a CopiedFile {
    // SAFETY: the caller's promise.
    let files = unsafe { of(files) };
    files.get(index).unwrap_or_else(|| {
        misuse(&format!(
            "file {index} of a list of {} files was asked for",
            files.len()
        ))
    })
}

c_functions! {
    /// No checksums; memtables are flushed first.
    fn rocksdb_livefiles_storage_info_options_create() -> *mut rocksdb_livefiles_storage_info_options_t {
        create(Checked::new(LiveFilesStorageInfoOptions::default()))
    }
    /// The files that a copy of the database needs, logs included, and how much of each. Without
    /// `options` they are the default ones. Their deletion should be disabled before.
    fn rocksdb_get_livefiles_storage_info(
        db: *mut rocksdb_t,
        options: *const rocksdb_livefiles_storage_info_options_t,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_livefiles_storage_info_t {
        report_ptr(errptr, || {
            let defaults = LiveFilesStorageInfoOptions::default();
            let options = match maybe(options) {
                Some(options) => options.checked()?,
                None => &defaults,
            };
            let files = of(db.cast_const()).db.live_files_storage_info(options)?;
            Ok(create(files.into_iter().map(CopiedFile::from).collect()))
        })
    }
    /// How many files there are.
    fn rocksdb_livefiles_storage_info_count(info: *const rocksdb_livefiles_storage_info_t) -> usize {
        of(info).len()
    }
    /// The name of a file in its directory.
    fn rocksdb_livefiles_storage_info_relative_filename(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
    ) -> *const c_char {
        at(info, index).name.as_ptr()
    }
    /// The directory of a file.
    fn rocksdb_livefiles_storage_info_directory(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
    ) -> *const c_char {
        at(info, index).directory.as_ptr()
    }
    /// The number in the name of a file; 0 for CURRENT.
    fn rocksdb_livefiles_storage_info_file_number(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
    ) -> u64 {
        at(info, index).info.file_number
    }
    /// RocksDB's number of what a file is: 0 a log, 2 a table, 3 the MANIFEST, 4 CURRENT, 9 OPTIONS, 10 a
    /// blob file.
    fn rocksdb_livefiles_storage_info_file_type(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
    ) -> c_int {
        at(info, index).info.file_type.number()
    }
    /// How many bytes of a file belong to the copy.
    fn rocksdb_livefiles_storage_info_size(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
    ) -> u64 {
        at(info, index).info.size
    }
    /// RocksDB's number of the temperature of a file.
    fn rocksdb_livefiles_storage_info_temperature(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
    ) -> c_int {
        at(info, index).info.temperature.into()
    }
    /// The checksum of a whole file, which may hold zeros; empty if none is recorded or asked for.
    fn rocksdb_livefiles_storage_info_file_checksum(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
    ) -> *const c_char {
        at(info, index).checksum.as_ptr().cast()
    }
    /// The function that made the checksum of a file; empty unless checksums were asked for.
    fn rocksdb_livefiles_storage_info_file_checksum_func_name(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
    ) -> *const c_char {
        at(info, index).checksum_function.as_ptr()
    }
    /// The content of a file in the copy, if it differs from that on disk; else of no length.
    fn rocksdb_livefiles_storage_info_replacement_contents(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
        size: *mut usize,
    ) -> *const c_char {
        let contents = at(info, index).info.replacement_contents.as_deref().unwrap_or_default();
        store(size, contents.len());
        contents.as_ptr().cast()
    }
    /// True if a file may be longer than its size here, and only its beginning belongs to the copy.
    fn rocksdb_livefiles_storage_info_trim_to_size(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
    ) -> c_uchar {
        at(info, index).info.trim_to_size.into()
    }

    /// The logs that hold a batch, archived ones too, oldest first.
    fn rocksdb_get_sorted_wal_files(db: *mut rocksdb_t, errptr: *mut *mut c_char) -> *mut rocksdb_wal_files_t {
        report_ptr(errptr, || {
            let logs = of(db.cast_const()).db.sorted_wal_files()?;
            Ok(create(logs.into_iter().map(|log| create(log.into())).collect()))
        })
    }
    /// How many logs there are.
    fn rocksdb_wal_files_count(files: *const rocksdb_wal_files_t) -> usize {
        of(files).len()
    }
    /// A log of a list, as long as the list lives; null behind its end.
    fn rocksdb_wal_files_get_wal_file(files: *const rocksdb_wal_files_t, index: usize) -> *const rocksdb_wal_file_t {
        of(files).get(index).map_or(null(), |log| log.cast_const())
    }
    /// Frees a list and the logs in it.
    ///
    /// Null is passed over.
    fn rocksdb_wal_files_destroy(files: *mut rocksdb_wal_files_t) {
        if !files.is_null() {
            for log in take(files) {
                destroy(log);
            }
        }
    }
    /// The log that is written now, which the program destroys.
    fn rocksdb_get_current_wal_file(db: *mut rocksdb_t, errptr: *mut *mut c_char) -> *mut rocksdb_wal_file_t {
        report_ptr(errptr, || Ok(create(of(db.cast_const()).db.current_wal_file()?.into())))
    }
    /// Where a log lies, from the directory of logs on: `/000012.log` or `/archive/000012.log`.
    fn rocksdb_wal_file_path_name(file: *const rocksdb_wal_file_t) -> *const c_char {
        of(file).path_name.as_ptr()
    }
    /// The number in the name of a log.
    fn rocksdb_wal_file_log_number(file: *const rocksdb_wal_file_t) -> u64 {
        of(file).file.log_number.0
    }
    /// 0 for an archived log, 1 for a live one.
    fn rocksdb_wal_file_type(file: *const rocksdb_wal_file_t) -> c_int {
        match of(file).file.file_type {
            WalFileType::Archived => 0,
            WalFileType::Alive => 1,
        }
    }
    /// The sequence number of the first batch of a log; 0 for the one that is written now.
    fn rocksdb_wal_file_start_sequence(file: *const rocksdb_wal_file_t) -> u64 {
        of(file).file.start_sequence.0
    }
    /// The length of a log in bytes.
    fn rocksdb_wal_file_size_file_bytes(file: *const rocksdb_wal_file_t) -> u64 {
        of(file).file.size_file_bytes
    }
}
