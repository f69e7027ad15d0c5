//! Metadata of tables and levels, checkpoints, exports and imports.

use std::ffi::{CString, c_char, c_int, c_uchar};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use cairn_db::{
    ColumnFamilyMetaData, ColumnFamilyMetaDataOptions, Db, ExportImportFilesMetaData,
    LevelMetaData, LiveFileMetaData,
};
use cairn_options::ImportColumnFamilyOptions;
use cairn_types::SequenceNumber;

use crate::database::{rocksdb_column_family_handle_t, rocksdb_t};
use crate::error::{
    bytes, family_name, malloc_bytes, malloc_text, maybe_bytes, path, report, report_ptr, store,
    text,
};
use crate::handle::{create, destroy, maybe, misuse, of, of_mut, take};
use crate::options::{Checked, rocksdb_options_t};
use crate::table_properties::words_at;

/// A table, with its strings as C strings.
#[derive(Default)]
pub struct LiveFile {
    meta: LiveFileMetaData,
    /// The level, which a program may set to any number.
    level: c_int,
    family: CString,
    name: CString,
    directory: CString,
}

handles! {
    /// A table of a database.
    rocksdb_livefile_t = LiveFile;
    /// The tables of a database.
    rocksdb_livefiles_t = Vec<LiveFile>;
    /// Options of a metadata query.
    rocksdb_column_family_metadata_options_t = MetadataOptions;
    /// The metadata of a family.
    rocksdb_column_family_metadata_t = ColumnFamilyMetaData;
    /// The metadata of a level.
    rocksdb_level_metadata_t = LevelMetaData;
    /// The metadata of a table.
    rocksdb_sst_file_metadata_t = LiveFileMetaData;
    /// Creates checkpoints of a database.
    rocksdb_checkpoint_t = Db;
    /// The metadata of exported tables.
    rocksdb_export_import_files_metadata_t = ExportImportFilesMetaData;
    /// Options of an import.
    rocksdb_import_column_family_options_t = Checked<ImportColumnFamilyOptions>;
}

c_destructors! {
    /// Frees a file that has not been added to a list.
    rocksdb_livefile_destroy(rocksdb_livefile_t);
    /// Frees the metadata of a family.
    rocksdb_column_family_metadata_destroy(rocksdb_column_family_metadata_t);
    /// Frees options.
    rocksdb_column_family_metadata_options_destroy(rocksdb_column_family_metadata_options_t);
    /// Frees the metadata of a level.
    rocksdb_level_metadata_destroy(rocksdb_level_metadata_t);
    /// Frees the metadata of a table.
    rocksdb_sst_file_metadata_destroy(rocksdb_sst_file_metadata_t);
    /// Frees the object. The checkpoints are not affected.
    rocksdb_checkpoint_object_destroy(rocksdb_checkpoint_t);
    /// Frees the metadata of exported tables.
    rocksdb_export_import_files_metadata_destroy(rocksdb_export_import_files_metadata_t);
    /// Frees options.
    rocksdb_import_column_family_options_destroy(rocksdb_import_column_family_options_t);
}

c_setters! { rocksdb_import_column_family_options_t:
    rocksdb_import_column_family_options_set_move_files(c_uchar) => move_files;
}

c_getters! { rocksdb_import_column_family_options_t:
    rocksdb_import_column_family_options_get_move_files(mut) -> c_uchar => move_files;
}

/// A C string; truncated at the first zero byte.
fn c_text(text: impl AsRef<[u8]>) -> CString {
    let text = text.as_ref().split(|&byte| byte == 0).next();
    CString::new(text.unwrap_or_default()).unwrap_or_default()
}

fn c_path(path: &Path) -> CString {
    c_text(path.as_os_str().as_bytes())
}

/// Options of a metadata query, with the level as the program set it.
pub struct MetadataOptions {
    start_key: Option<Vec<u8>>,
    end_key: Option<Vec<u8>>,
    /// Any negative number selects all levels.
    level: c_int,
}

impl MetadataOptions {
    fn query(&self) -> ColumnFamilyMetaDataOptions {
        ColumnFamilyMetaDataOptions {
            start_key: self.start_key.clone(),
            end_key: self.end_key.clone(),
            level: usize::try_from(self.level).ok(),
        }
    }
}

impl From<LiveFileMetaData> for LiveFile {
    fn from(meta: LiveFileMetaData) -> LiveFile {
        LiveFile {
            family: c_text(&meta.column_family_name),
            // RocksDB's form of the name: a path relative to the directory.
            name: c_text(format!("/{}", meta.relative_filename)),
            directory: c_path(&meta.directory),
            level: c_int::try_from(meta.level).unwrap_or(c_int::MAX),
            meta,
        }
    }
}

/// The file `index` of a list.
///
/// # Safety
///
/// The handle is valid as `c.h` requires.
unsafe fn at<'a>(files: *const rocksdb_livefiles_t, index: c_int) -> &'a LiveFile {
    // SAFETY: guaranteed by the caller.
    let files = unsafe { of(files) };
    let file = usize::try_from(index)
        .ok()
        .and_then(|index| files.get(index));
    file.unwrap_or_else(|| {
        misuse(&format!(
            "file {index} requested from a list of {} files",
            files.len()
        ))
    })
}

/// A key for C.
///
/// # Safety
///
/// `size` is null or may be written to.
unsafe fn key(key: &[u8], size: *mut usize) -> *const c_char {
    // SAFETY: guaranteed by the caller.
    unsafe { store(size, key.len()) };
    key.as_ptr().cast()
}

/// A copy of a key for C.
///
/// # Safety
///
/// `size` is null or may be written to.
unsafe fn key_copy(key: &[u8], size: *mut usize) -> *mut c_char {
    // SAFETY: guaranteed by the caller.
    unsafe { store(size, key.len()) };
    malloc_bytes(key)
}

/// The metadata of a family, restricted by the options. Levels without selected tables are then
/// omitted, as in RocksDB; without options, all levels are included.
///
/// # Safety
///
/// The options are null or valid as `c.h` requires.
unsafe fn asked_metadata(
    family: &cairn_db::Family,
    options: *const rocksdb_column_family_metadata_options_t,
) -> *mut rocksdb_column_family_metadata_t {
    // SAFETY: guaranteed by the caller.
    match unsafe { maybe(options) } {
        Some(options) => {
            let mut found = family.metadata(&options.query());
            found.levels.retain(|level| !level.files.is_empty());
            create(found)
        }
        None => family_metadata(family),
    }
}

fn family_metadata(family: &cairn_db::Family) -> *mut rocksdb_column_family_metadata_t {
    create(family.metadata(&ColumnFamilyMetaDataOptions::default()))
}

c_functions! {
    /// Returns the tables of a database.
    fn rocksdb_livefiles(db: *mut rocksdb_t) -> *const rocksdb_livefiles_t {
        let files = of(db.cast_const()).db.live_files_metadata();
        create::<rocksdb_livefiles_t>(files.into_iter().map(LiveFile::from).collect()).cast_const()
    }
    /// Creates an empty list.
    fn rocksdb_livefiles_create() -> *mut rocksdb_livefiles_t {
        create(Vec::new())
    }
    /// Adds a file. The list takes ownership.
    fn rocksdb_livefiles_add(files: *mut rocksdb_livefiles_t, livefile: *mut rocksdb_livefile_t) {
        let LiveFile { mut meta, level, .. } = take(livefile);
        let name = c_text(&meta.relative_filename);
        meta.relative_filename = meta.relative_filename.trim_start_matches('/').to_owned();
        of_mut(files).push(LiveFile { level, name, ..meta.into() });
    }
    /// Frees a list.
    fn rocksdb_livefiles_destroy(files: *const rocksdb_livefiles_t) {
        destroy(files.cast_mut());
    }
    /// Returns the number of files.
    fn rocksdb_livefiles_count(files: *const rocksdb_livefiles_t) -> c_int {
        c_int::try_from(of(files).len()).unwrap_or(c_int::MAX)
    }
    /// Returns the name of a file's family.
    fn rocksdb_livefiles_column_family_name(files: *const rocksdb_livefiles_t, index: c_int) -> *const c_char {
        at(files, index).family.as_ptr()
    }
    /// Returns the name of a file, with a leading slash unless the program has set it without one.
    fn rocksdb_livefiles_name(files: *const rocksdb_livefiles_t, index: c_int) -> *const c_char {
        at(files, index).name.as_ptr()
    }
    /// Returns the directory of a file.
    fn rocksdb_livefiles_directory(files: *const rocksdb_livefiles_t, index: c_int) -> *const c_char {
        at(files, index).directory.as_ptr()
    }
    /// Returns the level of a file.
    fn rocksdb_livefiles_level(files: *const rocksdb_livefiles_t, index: c_int) -> c_int {
        at(files, index).level
    }
    /// Returns the size of a file in bytes.
    fn rocksdb_livefiles_size(files: *const rocksdb_livefiles_t, index: c_int) -> usize {
        usize::try_from(at(files, index).meta.size).unwrap_or(usize::MAX)
    }
    /// Returns the smallest key of a file.
    fn rocksdb_livefiles_smallestkey(files: *const rocksdb_livefiles_t, index: c_int, size: *mut usize) -> *const c_char {
        key(&at(files, index).meta.smallest_key, size)
    }
    /// Returns the largest key of a file.
    fn rocksdb_livefiles_largestkey(files: *const rocksdb_livefiles_t, index: c_int, size: *mut usize) -> *const c_char {
        key(&at(files, index).meta.largest_key, size)
    }
    /// Returns the smallest sequence number of a file.
    fn rocksdb_livefiles_smallest_seqno(files: *const rocksdb_livefiles_t, index: c_int) -> u64 {
        at(files, index).meta.smallest_seqno.0
    }
    /// Returns the largest sequence number of a file.
    fn rocksdb_livefiles_largest_seqno(files: *const rocksdb_livefiles_t, index: c_int) -> u64 {
        at(files, index).meta.largest_seqno.0
    }
    /// Returns the number of entries of a file.
    fn rocksdb_livefiles_entries(files: *const rocksdb_livefiles_t, index: c_int) -> u64 {
        at(files, index).meta.num_entries
    }
    /// Returns the number of deletions of a file.
    fn rocksdb_livefiles_deletions(files: *const rocksdb_livefiles_t, index: c_int) -> u64 {
        at(files, index).meta.num_deletions
    }

    /// Creates an empty description of a file.
    fn rocksdb_livefile_create() -> *mut rocksdb_livefile_t {
        create(LiveFile::default())
    }
    /// Sets the family.
    fn rocksdb_livefile_set_column_family_name(file: *mut rocksdb_livefile_t, name: *const c_char) {
        of_mut(file).meta.column_family_name = text(name);
    }
    /// Sets the level.
    fn rocksdb_livefile_set_level(file: *mut rocksdb_livefile_t, level: c_int) {
        let file = of_mut(file);
        file.level = level;
        file.meta.level = usize::try_from(level).unwrap_or(0);
    }
    /// Sets the name.
    fn rocksdb_livefile_set_name(file: *mut rocksdb_livefile_t, name: *const c_char) {
        of_mut(file).meta.relative_filename = text(name);
    }
    /// Sets the directory.
    fn rocksdb_livefile_set_directory(file: *mut rocksdb_livefile_t, directory: *const c_char) {
        of_mut(file).meta.directory = path(directory);
    }
    /// Sets the size in bytes.
    fn rocksdb_livefile_set_size(file: *mut rocksdb_livefile_t, size: usize) {
        of_mut(file).meta.size = size as u64;
    }
    /// Sets the smallest key.
    fn rocksdb_livefile_set_smallest_key(file: *mut rocksdb_livefile_t, key: *const c_char, keylen: usize) {
        of_mut(file).meta.smallest_key = bytes(key, keylen).to_vec();
    }
    /// Sets the largest key.
    fn rocksdb_livefile_set_largest_key(file: *mut rocksdb_livefile_t, key: *const c_char, keylen: usize) {
        of_mut(file).meta.largest_key = bytes(key, keylen).to_vec();
    }
    /// Sets the smallest sequence number.
    fn rocksdb_livefile_set_smallest_seqno(file: *mut rocksdb_livefile_t, seqno: u64) {
        of_mut(file).meta.smallest_seqno = SequenceNumber(seqno);
    }
    /// Sets the largest sequence number.
    fn rocksdb_livefile_set_largest_seqno(file: *mut rocksdb_livefile_t, seqno: u64) {
        of_mut(file).meta.largest_seqno = SequenceNumber(seqno);
    }
    /// Sets the number of entries.
    fn rocksdb_livefile_set_num_entries(file: *mut rocksdb_livefile_t, entries: u64) {
        of_mut(file).meta.num_entries = entries;
    }
    /// Sets the number of deletions.
    fn rocksdb_livefile_set_num_deletions(file: *mut rocksdb_livefile_t, deletions: u64) {
        of_mut(file).meta.num_deletions = deletions;
    }

    /// Returns the metadata of the default family.
    fn rocksdb_get_column_family_metadata(db: *mut rocksdb_t) -> *mut rocksdb_column_family_metadata_t {
        family_metadata(of(db.cast_const()).db.default_family())
    }
    /// Returns the metadata of a family.
    fn rocksdb_get_column_family_metadata_cf(
        _db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
    ) -> *mut rocksdb_column_family_metadata_t {
        family_metadata(of(column_family.cast_const()))
    }
    /// Creates options that select all tables.
    fn rocksdb_column_family_metadata_options_create() -> *mut rocksdb_column_family_metadata_options_t {
        create(MetadataOptions { start_key: None, end_key: None, level: -1 })
    }
    /// Selects only tables that may contain this key or greater ones; null for no bound.
    fn rocksdb_column_family_metadata_options_set_start_key(
        options: *mut rocksdb_column_family_metadata_options_t,
        key: *const c_char,
        key_len: usize,
    ) {
        of_mut(options).start_key = maybe_bytes(key, key_len).map(<[u8]>::to_vec);
    }
    /// Returns that key, which belongs to the options; null for no bound.
    fn rocksdb_column_family_metadata_options_get_start_key(
        options: *const rocksdb_column_family_metadata_options_t,
        key_len: *mut usize,
    ) -> *const c_char {
        words_at(of(options).start_key.as_deref(), key_len)
    }
    /// Selects only tables that may contain this key or smaller ones; null for no bound.
    fn rocksdb_column_family_metadata_options_set_end_key(
        options: *mut rocksdb_column_family_metadata_options_t,
        key: *const c_char,
        key_len: usize,
    ) {
        of_mut(options).end_key = maybe_bytes(key, key_len).map(<[u8]>::to_vec);
    }
    /// Returns that key, which belongs to the options; null for no bound.
    fn rocksdb_column_family_metadata_options_get_end_key(
        options: *const rocksdb_column_family_metadata_options_t,
        key_len: *mut usize,
    ) -> *const c_char {
        words_at(of(options).end_key.as_deref(), key_len)
    }
    /// Selects a level; a negative number selects all.
    fn rocksdb_column_family_metadata_options_set_level(opt: *mut rocksdb_column_family_metadata_options_t, v: c_int) {
        of_mut(opt).level = v;
    }
    /// Returns the selected level; -1 by default.
    fn rocksdb_column_family_metadata_options_get_level(opt: *mut rocksdb_column_family_metadata_options_t) -> c_int {
        of(opt.cast_const()).level
    }
    /// Returns the selected files of the default family, without empty levels; null options select all.
    fn rocksdb_get_column_family_metadata_with_options(
        db: *mut rocksdb_t,
        options: *const rocksdb_column_family_metadata_options_t,
    ) -> *mut rocksdb_column_family_metadata_t {
        asked_metadata(of(db.cast_const()).db.default_family(), options)
    }
    /// Returns the selected files of a family, without empty levels; null options select all.
    fn rocksdb_get_column_family_metadata_cf_with_options(
        _db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        options: *const rocksdb_column_family_metadata_options_t,
    ) -> *mut rocksdb_column_family_metadata_t {
        asked_metadata(of(column_family.cast_const()), options)
    }
    /// Returns the total size of its tables in bytes.
    fn rocksdb_column_family_metadata_get_size(cf_meta: *mut rocksdb_column_family_metadata_t) -> u64 {
        of(cf_meta.cast_const()).size
    }
    /// Returns the number of its tables.
    fn rocksdb_column_family_metadata_get_file_count(cf_meta: *mut rocksdb_column_family_metadata_t) -> usize {
        of(cf_meta.cast_const()).file_count
    }
    /// Returns its name, to be freed with `free`.
    fn rocksdb_column_family_metadata_get_name(cf_meta: *mut rocksdb_column_family_metadata_t) -> *mut c_char {
        malloc_text(&of(cf_meta.cast_const()).name)
    }
    /// Returns the number of its levels.
    fn rocksdb_column_family_metadata_get_level_count(cf_meta: *mut rocksdb_column_family_metadata_t) -> usize {
        of(cf_meta.cast_const()).levels.len()
    }
    /// Returns one of its levels, to be destroyed by the caller; null beyond the last.
    fn rocksdb_column_family_metadata_get_level_metadata(
        cf_meta: *mut rocksdb_column_family_metadata_t,
        i: usize,
    ) -> *mut rocksdb_level_metadata_t {
        let level = of(cf_meta.cast_const()).levels.get(i).cloned();
        level.map_or(std::ptr::null_mut(), create)
    }
    /// Returns the number of the level.
    fn rocksdb_level_metadata_get_level(level_meta: *mut rocksdb_level_metadata_t) -> c_int {
        c_int::try_from(of(level_meta.cast_const()).level).unwrap_or(c_int::MAX)
    }
    /// Returns the total size of its tables in bytes.
    fn rocksdb_level_metadata_get_size(level_meta: *mut rocksdb_level_metadata_t) -> u64 {
        of(level_meta.cast_const()).size
    }
    /// Returns the number of its tables.
    fn rocksdb_level_metadata_get_file_count(level_meta: *mut rocksdb_level_metadata_t) -> usize {
        of(level_meta.cast_const()).files.len()
    }
    /// Returns one of its tables, to be destroyed by the caller; null beyond the last.
    fn rocksdb_level_metadata_get_sst_file_metadata(
        level_meta: *mut rocksdb_level_metadata_t,
        i: usize,
    ) -> *mut rocksdb_sst_file_metadata_t {
        let file = of(level_meta.cast_const()).files.get(i).cloned();
        file.map_or(std::ptr::null_mut(), create)
    }
    /// Returns the name of a table, to be freed with `free`.
    fn rocksdb_sst_file_metadata_get_relative_filename(file_meta: *mut rocksdb_sst_file_metadata_t) -> *mut c_char {
        malloc_text(&of(file_meta.cast_const()).relative_filename)
    }
    /// Returns the directory of a table, to be freed with `free`.
    fn rocksdb_sst_file_metadata_get_directory(file_meta: *mut rocksdb_sst_file_metadata_t) -> *mut c_char {
        malloc_text(of(file_meta.cast_const()).directory.as_os_str().as_bytes())
    }
    /// Returns the size of a table in bytes.
    fn rocksdb_sst_file_metadata_get_size(file_meta: *mut rocksdb_sst_file_metadata_t) -> u64 {
        of(file_meta.cast_const()).size
    }
    /// Returns the smallest key of a table, to be freed with `free`.
    fn rocksdb_sst_file_metadata_get_smallestkey(file_meta: *mut rocksdb_sst_file_metadata_t, len: *mut usize) -> *mut c_char {
        key_copy(&of(file_meta.cast_const()).smallest_key, len)
    }
    /// Returns the largest key of a table, to be freed with `free`.
    fn rocksdb_sst_file_metadata_get_largestkey(file_meta: *mut rocksdb_sst_file_metadata_t, len: *mut usize) -> *mut c_char {
        key_copy(&of(file_meta.cast_const()).largest_key, len)
    }

    /// Disables the deletion of obsolete files, so that they can be copied.
    fn rocksdb_disable_file_deletions(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
        report(errptr, || of(db.cast_const()).db.disable_file_deletions());
    }
    /// Enables the deletion of obsolete files again.
    fn rocksdb_enable_file_deletions(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
        report(errptr, || of(db.cast_const()).db.enable_file_deletions());
    }

    /// Creates an object for creating checkpoints of a database.
    fn rocksdb_checkpoint_object_create(db: *mut rocksdb_t, errptr: *mut *mut c_char) -> *mut rocksdb_checkpoint_t {
        report_ptr(errptr, || Ok(create(of(db.cast_const()).db.clone())))
    }
    /// Creates a checkpoint in `checkpoint_dir`, which must not exist. If the WALs have at least
    /// `log_size_for_flush` bytes, the memtables are flushed instead of copying the WALs.
    fn rocksdb_checkpoint_create(
        checkpoint: *mut rocksdb_checkpoint_t,
        checkpoint_dir: *const c_char,
        log_size_for_flush: u64,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            let db = of(checkpoint.cast_const());
            db.create_checkpoint(&path(checkpoint_dir), log_size_for_flush).map(|_| ())
        });
    }
    /// Exports the tables of a family to `export_dir`, which must not exist.
    fn rocksdb_checkpoint_export_column_family(
        checkpoint: *mut rocksdb_checkpoint_t,
        column_family: *mut rocksdb_column_family_handle_t,
        export_dir: *const c_char,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_export_import_files_metadata_t {
        let _ = of(checkpoint.cast_const());
        report_ptr(errptr, || Ok(create(of(column_family.cast_const()).export(&path(export_dir))?)))
    }
    /// Creates empty metadata of exported tables.
    fn rocksdb_export_import_files_metadata_create() -> *mut rocksdb_export_import_files_metadata_t {
        create(ExportImportFilesMetaData::default())
    }
    /// Returns the name of the comparator, to be freed with `free`.
    fn rocksdb_export_import_files_metadata_get_db_comparator_name(
        metadata: *mut rocksdb_export_import_files_metadata_t,
    ) -> *mut c_char {
        malloc_text(&of(metadata.cast_const()).db_comparator_name)
    }
    /// Sets the name of the comparator.
    fn rocksdb_export_import_files_metadata_set_db_comparator_name(
        metadata: *mut rocksdb_export_import_files_metadata_t,
        name: *const c_char,
    ) {
        of_mut(metadata).db_comparator_name = text(name);
    }
    /// Returns the tables as a list to be destroyed by the caller. As in RocksDB, it lacks family
    /// names and entry counts.
    fn rocksdb_export_import_files_metadata_get_files(
        metadata: *mut rocksdb_export_import_files_metadata_t,
    ) -> *mut rocksdb_livefiles_t {
        let files = of(metadata.cast_const()).files.iter().map(|file| LiveFileMetaData {
            column_family_name: String::new(),
            num_entries: 0,
            num_deletions: 0,
            ..file.clone()
        });
        create(files.map(LiveFile::from).collect())
    }
    /// Sets the tables. The list remains the caller's.
    fn rocksdb_export_import_files_metadata_set_files(
        metadata: *mut rocksdb_export_import_files_metadata_t,
        files: *mut rocksdb_livefiles_t,
    ) {
        of_mut(metadata).files = of(files.cast_const()).iter().map(|file| file.meta.clone()).collect();
    }
    /// Creates default options: tables are copied.
    fn rocksdb_import_column_family_options_create() -> *mut rocksdb_import_column_family_options_t {
        create(Checked::new(ImportColumnFamilyOptions::default()))
    }
    /// Creates a family from exported tables.
    fn rocksdb_create_column_family_with_import(
        db: *mut rocksdb_t,
        column_family_options: *mut rocksdb_options_t,
        column_family_name: *const c_char,
        import_options: *mut rocksdb_import_column_family_options_t,
        metadata: *mut rocksdb_export_import_files_metadata_t,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_column_family_handle_t {
        report_ptr(errptr, || {
            let options = of(column_family_options.cast_const()).checked()?;
            let import = of(import_options.cast_const()).checked()?;
            let exports = std::slice::from_ref(of(metadata.cast_const()));
            let db = &of(db.cast_const()).db;
            let family = db.create_family_with_import(&family_name(column_family_name)?, &options.family, import, exports)?;
            Ok(create(family))
        })
    }
}
