//! Live files of a database, for backups, and its WAL files.

use std::ffi::{CString, c_char, c_int, c_uchar};
use std::os::unix::ffi::OsStrExt as _;
use std::ptr::null;

use cairn_db::{LiveFileStorageInfo, LiveFilesStorageInfoOptions, WalFile, WalFileType};

use crate::database::rocksdb_t;
use crate::error::{report_ptr, store, terminated};
use crate::handle::{create, destroy, maybe, misuse, of, of_mut, take};
use crate::options::Checked;

/// A live file, with its strings as C strings.
pub struct CopiedFile {
    info: LiveFileStorageInfo,
    name: CString,
    directory: CString,
    checksum: Vec<u8>,
    checksum_function: CString,
}

/// A WAL file, with its name as a C string.
pub struct Log {
    file: WalFile,
    path_name: CString,
}

handles! {
    /// Options of the list of live files.
    rocksdb_livefiles_storage_info_options_t = Checked<LiveFilesStorageInfoOptions>;
    /// The live files.
    rocksdb_livefiles_storage_info_t = Vec<CopiedFile>;
    /// A WAL file.
    rocksdb_wal_file_t = Log;
    /// WAL files, oldest first. Each has a handle, owned by the list.
    rocksdb_wal_files_t = Vec<*mut rocksdb_wal_file_t>;
}

c_destructors! {
    /// Frees options.
    rocksdb_livefiles_storage_info_options_destroy(rocksdb_livefiles_storage_info_options_t);
    /// Frees a list of files.
    rocksdb_livefiles_storage_info_destroy(rocksdb_livefiles_storage_info_t);
    /// Frees the WAL file of `rocksdb_get_current_wal_file`. Those of a list are freed with the list.
    rocksdb_wal_file_destroy(rocksdb_wal_file_t);
}

c_setters! { rocksdb_livefiles_storage_info_options_t:
    rocksdb_livefiles_storage_info_options_set_atomic_flush(c_uchar) => atomic_flush;
    rocksdb_livefiles_storage_info_options_set_include_checksum_info(c_uchar) => include_checksum_info;
    rocksdb_livefiles_storage_info_options_set_wal_size_for_flush(u64) => wal_size_for_flush;
}

c_getters! { rocksdb_livefiles_storage_info_options_t:
    rocksdb_livefiles_storage_info_options_get_atomic_flush(mut) -> c_uchar => atomic_flush;
    rocksdb_livefiles_storage_info_options_get_include_checksum_info(mut) -> c_uchar => include_checksum_info;
    rocksdb_livefiles_storage_info_options_get_wal_size_for_flush(mut) -> u64 => wal_size_for_flush;
}

impl From<LiveFileStorageInfo> for CopiedFile {
    fn from(info: LiveFileStorageInfo) -> CopiedFile {
        let mut checksum = info.file_checksum.clone();
        checksum.push(0);
        CopiedFile {
            name: terminated(&info.relative_filename),
            directory: terminated(info.directory.as_os_str().as_bytes()),
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
/// The handle is valid as `c.h` requires.
unsafe fn at<'a>(files: *const rocksdb_livefiles_storage_info_t, index: usize) -> &'a CopiedFile {
    // SAFETY: guaranteed by the caller.
    let files = unsafe { of(files) };
    files.get(index).unwrap_or_else(|| {
        misuse(&format!(
            "file {index} requested from a list of {} files",
            files.len()
        ))
    })
}

c_functions! {
    /// Creates default options: no checksums; memtables are flushed first.
    fn rocksdb_livefiles_storage_info_options_create() -> *mut rocksdb_livefiles_storage_info_options_t {
        create(Checked::new(LiveFilesStorageInfoOptions::default()))
    }
    /// Returns the files that a copy of the database needs, including WAL files, and the number of
    /// bytes to copy of each. Null means default options. File deletions should be disabled first.
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
    /// Returns the number of files.
    fn rocksdb_livefiles_storage_info_count(info: *const rocksdb_livefiles_storage_info_t) -> usize {
        of(info).len()
    }
    /// Returns the name of a file in its directory.
    fn rocksdb_livefiles_storage_info_relative_filename(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
    ) -> *const c_char {
        at(info, index).name.as_ptr()
    }
    /// Returns the directory of a file.
    fn rocksdb_livefiles_storage_info_directory(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
    ) -> *const c_char {
        at(info, index).directory.as_ptr()
    }
    /// Returns the number in the name of a file; 0 for CURRENT.
    fn rocksdb_livefiles_storage_info_file_number(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
    ) -> u64 {
        at(info, index).info.file_number
    }
    /// Returns RocksDB's number of the file type: 0 WAL, 2 table, 3 MANIFEST, 4 CURRENT, 9 OPTIONS, 10
    /// blob file.
    fn rocksdb_livefiles_storage_info_file_type(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
    ) -> c_int {
        at(info, index).info.file_type.number()
    }
    /// Returns the number of bytes of a file to copy.
    fn rocksdb_livefiles_storage_info_size(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
    ) -> u64 {
        at(info, index).info.size
    }
    /// Returns RocksDB's number of the temperature of a file.
    fn rocksdb_livefiles_storage_info_temperature(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
    ) -> c_int {
        at(info, index).info.temperature.into()
    }
    /// Returns the file checksum, which may contain zero bytes; empty if none is recorded or requested.
    fn rocksdb_livefiles_storage_info_file_checksum(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
    ) -> *const c_char {
        at(info, index).checksum.as_ptr().cast()
    }
    /// Returns the name of the checksum function; empty unless checksums were requested.
    fn rocksdb_livefiles_storage_info_file_checksum_func_name(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
    ) -> *const c_char {
        at(info, index).checksum_function.as_ptr()
    }
    /// Returns the contents that a file should have in the copy if they differ from those on disk;
    /// otherwise empty.
    fn rocksdb_livefiles_storage_info_replacement_contents(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
        size: *mut usize,
    ) -> *const c_char {
        let contents = at(info, index).info.replacement_contents.as_deref().unwrap_or_default();
        store(size, contents.len());
        contents.as_ptr().cast()
    }
    /// True if the file may be longer than the reported size, and the copy needs only the first
    /// part.
    fn rocksdb_livefiles_storage_info_trim_to_size(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
    ) -> c_uchar {
        at(info, index).info.trim_to_size.into()
    }

    /// Returns the WAL files that contain at least one batch, including archived ones, oldest
    /// first.
    fn rocksdb_get_sorted_wal_files(db: *mut rocksdb_t, errptr: *mut *mut c_char) -> *mut rocksdb_wal_files_t {
        report_ptr(errptr, || {
            let logs = of(db.cast_const()).db.sorted_wal_files()?;
            Ok(create(logs.into_iter().map(|log| create(log.into())).collect()))
        })
    }
    /// Returns the number of WAL files.
    fn rocksdb_wal_files_count(files: *const rocksdb_wal_files_t) -> usize {
        of(files).len()
    }
    /// Returns a WAL file of a list, valid as long as the list; null beyond the last.
    fn rocksdb_wal_files_get_wal_file(files: *const rocksdb_wal_files_t, index: usize) -> *const rocksdb_wal_file_t {
        of(files).get(index).map_or(null(), |log| log.cast_const())
    }
    /// Frees a list with its WAL files.
    ///
    /// Does nothing for null.
    fn rocksdb_wal_files_destroy(files: *mut rocksdb_wal_files_t) {
        if !files.is_null() {
            for log in take(files) {
                destroy(log);
            }
        }
    }
    /// Returns the current WAL file, to be destroyed by the caller.
    fn rocksdb_get_current_wal_file(db: *mut rocksdb_t, errptr: *mut *mut c_char) -> *mut rocksdb_wal_file_t {
        report_ptr(errptr, || Ok(create(of(db.cast_const()).db.current_wal_file()?.into())))
    }
    /// Returns the path relative to the WAL directory: `/000012.log` or `/archive/000012.log`.
    fn rocksdb_wal_file_path_name(file: *const rocksdb_wal_file_t) -> *const c_char {
        of(file).path_name.as_ptr()
    }
    /// Returns the log number.
    fn rocksdb_wal_file_log_number(file: *const rocksdb_wal_file_t) -> u64 {
        of(file).file.log_number.0
    }
    /// Returns 0 for an archived WAL file, 1 for a live one.
    fn rocksdb_wal_file_type(file: *const rocksdb_wal_file_t) -> c_int {
        match of(file).file.file_type {
            WalFileType::Archived => 0,
            WalFileType::Alive => 1,
        }
    }
    /// Returns the sequence number of the first batch; 0 for the current WAL file.
    fn rocksdb_wal_file_start_sequence(file: *const rocksdb_wal_file_t) -> u64 {
        of(file).file.start_sequence.0
    }
    /// Returns the size in bytes.
    fn rocksdb_wal_file_size_file_bytes(file: *const rocksdb_wal_file_t) -> u64 {
        of(file).file.size_file_bytes
    }
}
