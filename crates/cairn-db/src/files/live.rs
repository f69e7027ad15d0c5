//! Live files: lists and metadata of the files in the tree.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_format::names::{self, FileName};
use cairn_jobs::checksum;
use cairn_observe::FlushReason;
use cairn_observe::statistics::{Histogram, Ticker};
use cairn_observe::threads::Operation;
use cairn_options::FileChecksum;
use cairn_types::{Error, Result, SequenceNumber};
use cairn_version::{BlobFileMeta, FileMeta, Version};

use super::capture::Capture;
use super::host::{Components, Host};
use super::kept::{enable_deletions, keep_files};
use crate::catalog::family::FamilyState;
use crate::context::DbContext;
use crate::db::Db;
use crate::db::handle::Family;

/// A table of the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveFileMetaData {
    /// The family it belongs to.
    pub column_family_name: String,
    /// The level it lies in.
    pub level: usize,
    /// The name in its directory.
    pub relative_filename: String,
    /// Its directory.
    pub directory: PathBuf,
    /// The number in its name.
    pub file_number: u64,
    /// Length in bytes.
    pub size: u64,
    /// The smallest sequence number in it.
    pub smallest_seqno: SequenceNumber,
    /// The largest sequence number in it.
    pub largest_seqno: SequenceNumber,
    /// Lower bound of its user keys.
    pub smallest_key: Vec<u8>,
    /// Upper bound of its user keys.
    pub largest_key: Vec<u8>,
    /// Lower bound as an internal key.
    pub smallest: Vec<u8>,
    /// Upper bound as an internal key.
    pub largest: Vec<u8>,
    /// True if a running compaction reads it.
    pub being_compacted: bool,
    /// Entries; 0 as long as the table has not been opened.
    pub num_entries: u64,
    /// Deletions; 0 as long as the table has not been opened.
    pub num_deletions: u64,
    /// The oldest blob file that it refers to; 0 for none.
    pub oldest_blob_file_number: u64,
    /// The time at which its oldest data was first written, in seconds since 1970; 0 if unknown.
    pub oldest_ancester_time: u64,
    /// The time of its creation, in seconds since 1970; 0 if unknown.
    pub file_creation_time: u64,
    /// Its age among the files of level 0: larger is newer.
    pub epoch_number: u64,
    /// RocksDB's number for the temperature of its storage.
    pub temperature: u8,
    /// Checksum of the whole file; empty if none is recorded.
    pub file_checksum: Vec<u8>,
    /// The checksum function, or `Unknown`.
    pub file_checksum_func_name: String,
}

/// A blob file of the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlobMetaData {
    /// The number in its name.
    pub blob_file_number: u64,
    /// The name in its directory.
    pub blob_file_name: String,
    /// Its directory.
    pub blob_file_path: PathBuf,
    /// Length in bytes.
    pub blob_file_size: u64,
    /// Blobs in it.
    pub total_blob_count: u64,
    /// Bytes of their records.
    pub total_blob_bytes: u64,
    /// Blobs that are garbage.
    pub garbage_blob_count: u64,
    /// Bytes of their records.
    pub garbage_blob_bytes: u64,
    /// The checksum function; empty for none.
    pub checksum_method: String,
    /// Its checksum; empty for none.
    pub checksum_value: Vec<u8>,
}

/// One level of a family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelMetaData {
    /// The level.
    pub level: usize,
    /// Bytes of its tables.
    pub size: u64,
    /// Its tables: from newest to oldest in level 0, by key below.
    pub files: Vec<LiveFileMetaData>,
}

/// The files of a family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ColumnFamilyMetaData {
    /// The name of the family.
    pub name: String,
    /// Bytes of its tables.
    pub size: u64,
    /// The number of tables.
    pub file_count: usize,
    /// Its levels.
    pub levels: Vec<LevelMetaData>,
    /// Bytes of its blob files.
    pub blob_file_size: u64,
    /// Its blob files.
    pub blob_files: Vec<BlobMetaData>,
}

/// A selection of the files of a family.
#[derive(Clone, Debug, Default)]
pub struct ColumnFamilyMetaDataOptions {
    /// Only tables that may contain this key or larger ones.
    pub start_key: Option<Vec<u8>>,
    /// Only tables that may contain this key or smaller ones.
    pub end_key: Option<Vec<u8>>,
    /// Only this level.
    pub level: Option<usize>,
}

/// The kind of a file of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FileType {
    /// A write-ahead log.
    Wal,
    /// A table.
    Table,
    /// The MANIFEST.
    Manifest,
    /// CURRENT.
    Current,
    /// OPTIONS.
    Options,
    /// A blob file.
    Blob,
}

impl FileType {
    /// RocksDB's number of this type.
    #[must_use]
    pub fn number(self) -> i32 {
        match self {
            FileType::Wal => 0,
            FileType::Table => 2,
            FileType::Manifest => 3,
            FileType::Current => 4,
            FileType::Options => 9,
            FileType::Blob => 10,
        }
    }
}

/// A file that is part of a whole copy of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveFileStorageInfo {
    /// The name in its directory.
    pub relative_filename: String,
    /// Its directory.
    pub directory: PathBuf,
    /// The number in its name; 0 for CURRENT.
    pub file_number: u64,
    /// Its kind.
    pub file_type: FileType,
    /// The number of its bytes that belong to the copy.
    pub size: u64,
    /// RocksDB's number for the temperature of its storage.
    pub temperature: u8,
    /// Checksum of the whole file; empty if none is recorded or requested.
    pub file_checksum: Vec<u8>,
    /// The checksum function; `Unknown` if there is none, empty if checksums are not requested.
    pub file_checksum_func_name: String,
    /// The content of the file in the copy, if it differs from that on disk.
    pub replacement_contents: Option<Vec<u8>>,
    /// True if the file may be longer than `size`, and only its first `size` bytes belong to the copy.
    pub trim_to_size: bool,
}

/// Options of a list of live files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveFilesStorageInfoOptions {
    /// True if checksums are filled in.
    pub include_checksum_info: bool,
    /// Memtables are flushed first if the logs have this many bytes or more: 0 always, `u64::MAX` never.
    pub wal_size_for_flush: u64,
    /// True if that flush is of all families together, as with the option of the same name.
    pub atomic_flush: bool,
}

/// Captures the current state. The caller prevents the deletion of files. Writers wait briefly.
///
/// Memtables that refer to blob files in no version are flushed first, while writers wait: the copy has these files then.
pub(crate) fn capture<H: Host>(host: &Arc<H>) -> Result<Capture> {
    let Components {
        context, catalog, ..
    } = host.components();
    if context.read_only {
        return host.opened_files();
    }
    context.check_process()?;
    let _lead = host.lead_alone()?;
    let families = catalog.families().clone();
    let direct = families.iter().filter(|family| family.direct.has_files());
    let direct: Vec<_> = direct.cloned().collect();
    if !direct.is_empty() {
        host.flush_led(&direct, FlushReason::GetLiveFiles)
            .map_err(|error| {
                error.context("values in blob files that no version has are flushed for a copy")
            })?;
    }
    // Buffered records belong to the state, too.
    host.flush_wal(false)?;
    // Logs and MANIFEST are captured consistently: data that the MANIFEST expects in logs is in them.
    let editor = catalog.edit();
    let files = editor.live_files()?;
    let end = host.log_end();
    Ok(Capture {
        files,
        logs: end.needed,
        last: end.last,
    })
}

/// Returns the metadata of `file`.
fn live_file(
    context: &DbContext,
    family: &FamilyState,
    level: usize,
    file: &FileMeta,
    busy: &cairn_jobs::pick::InProgress,
) -> LiveFileMetaData {
    let path = family.tables().path(file);
    let counts = file.counts.get().copied().unwrap_or_default();
    LiveFileMetaData {
        column_family_name: family.name().to_owned(),
        level,
        relative_filename: names::table(file.number),
        directory: path.parent().map_or(context.dir.clone(), PathBuf::from),
        file_number: file.number.0,
        size: file.size,
        smallest_seqno: file.seqs.smallest,
        largest_seqno: file.seqs.largest,
        smallest_key: file.smallest.user_key().to_vec(),
        largest_key: file.largest.user_key().to_vec(),
        smallest: file.smallest.as_bytes().to_vec(),
        largest: file.largest.as_bytes().to_vec(),
        being_compacted: busy.is_busy(file.number),
        num_entries: counts.entries,
        num_deletions: counts.deletions,
        oldest_blob_file_number: file.oldest_blob.map_or(0, |number| number.0),
        oldest_ancester_time: file.oldest_time(),
        file_creation_time: file.created(),
        epoch_number: file.epoch,
        temperature: file.temperature,
        file_checksum: file.checksum.value.clone(),
        file_checksum_func_name: file.checksum.function.to_string(),
    }
}

/// Returns the files of `family` that `options` select.
pub(crate) fn family_metadata(
    host: &impl Host,
    family: &FamilyState,
    options: &ColumnFamilyMetaDataOptions,
) -> ColumnFamilyMetaData {
    let context = host.components().context;
    let busy = host.with_inputs(family, |busy| busy.clone());
    let busy = busy.unwrap_or_default();
    let version = family.view().version.clone();
    let mut metadata = ColumnFamilyMetaData {
        name: family.name().to_owned(),
        ..ColumnFamilyMetaData::default()
    };
    for level in 0..version.num_levels() {
        if options.level.is_some_and(|only| only != level) {
            continue;
        }
        let files: Vec<_> = asked_for(&version, level, options)
            .map(|file| live_file(context, family, level, file, &busy))
            .collect();
        let sizes = files.iter().map(|file| file.size);
        let size = sizes.fold(0, u64::saturating_add);
        metadata.size = metadata.size.saturating_add(size);
        metadata.file_count += files.len();
        metadata.levels.push(LevelMetaData { level, size, files });
    }
    for blob in version.blob_files().values() {
        let blob = blob_metadata(context, &family.tables().paths[0], blob);
        metadata.blob_file_size = metadata.blob_file_size.saturating_add(blob.blob_file_size);
        metadata.blob_files.push(blob);
    }
    metadata
}

/// Returns the metadata of a blob file in `dir`.
fn blob_metadata(context: &DbContext, dir: &Path, blob: &BlobFileMeta) -> BlobMetaData {
    let name = names::blob(blob.number);
    let path = dir.join(&name);
    BlobMetaData {
        blob_file_number: blob.number.0,
        blob_file_name: name,
        blob_file_path: dir.to_owned(),
        // A file that cannot be examined now is still listed.
        blob_file_size: context
            .world
            .fs
            .status(&path)
            .map_or(blob.total_bytes, |found| found.len),
        total_blob_count: blob.total_count,
        total_blob_bytes: blob.total_bytes,
        garbage_blob_count: blob.garbage_count,
        garbage_blob_bytes: blob.garbage_bytes,
        checksum_method: blob.checksum_method.clone(),
        checksum_value: blob.checksum_value.clone(),
    }
}

/// Returns every file of `capture` as part of a copy.
pub(crate) fn storage_infos(
    database: Components<'_>,
    capture: &Capture,
    checksums: bool,
) -> Result<Vec<LiveFileStorageInfo>> {
    let context = database.context;
    let no_function = match checksums {
        true => cairn_version::file_meta::NO_CHECKSUM_FUNCTION,
        false => "",
    };
    let info =
        |kind: FileType, name: FileName, directory: PathBuf, size: u64| LiveFileStorageInfo {
            relative_filename: name.to_string(),
            directory,
            file_number: name.number().map_or(0, |number| number.0),
            file_type: kind,
            size,
            temperature: 0,
            file_checksum: Vec::new(),
            file_checksum_func_name: no_function.to_owned(),
            replacement_contents: None,
            trim_to_size: false,
        };
    let mut all = Vec::new();
    for (dir, file) in &capture.files.tables {
        let name = FileName::Table(file.number);
        let mut table = info(FileType::Table, name, dir.clone(), file.size);
        table.temperature = file.temperature;
        if checksums {
            table.file_checksum.clone_from(&file.checksum.value);
            table.file_checksum_func_name = file.checksum.function.to_string();
        }
        all.push(table);
    }
    for (dir, blob) in &capture.files.blobs {
        let name = FileName::Blob(blob.number);
        let size = context.world.fs.status(&dir.join(name.to_string()))?.len;
        let mut entry = info(FileType::Blob, name, dir.clone(), size);
        if checksums && !blob.checksum_method.is_empty() {
            entry.file_checksum.clone_from(&blob.checksum_value);
            entry
                .file_checksum_func_name
                .clone_from(&blob.checksum_method);
        }
        all.push(entry);
    }
    let (number, size) = capture.files.manifest;
    let manifest = FileName::Manifest(number);
    all.push(LiveFileStorageInfo {
        trim_to_size: true,
        ..info(FileType::Manifest, manifest, context.dir.clone(), size)
    });
    let current = names::encode_current(number).into_bytes();
    let size = current.len() as u64;
    all.push(LiveFileStorageInfo {
        replacement_contents: Some(current),
        ..info(
            FileType::Current,
            FileName::Current,
            context.dir.clone(),
            size,
        )
    });
    if let Some((number, size)) = database.catalog.options_files.newest()? {
        let name = FileName::Options(number);
        all.push(info(FileType::Options, name, context.dir.clone(), size));
    }
    for &(number, size) in &capture.logs {
        let name = FileName::Wal(number);
        // A recycled log may have more than its own records.
        all.push(LiveFileStorageInfo {
            trim_to_size: true,
            ..info(FileType::Wal, name, context.wal_dir.clone(), size)
        });
    }
    Ok(all)
}

/// Returns the tables of a level that `options` select.
fn asked_for<'v>(
    version: &'v Version,
    level: usize,
    options: &'v ColumnFamilyMetaDataOptions,
) -> impl Iterator<Item = &'v Arc<FileMeta>> {
    let order = version.order();
    let compare = move |key: &[u8], wanted: &[u8]| {
        let size = order.timestamp_size();
        let bare = |key: &[u8]| {
            [
                cairn_format::key::strip_timestamp(key, size),
                &vec![0; size],
            ]
            .concat()
        };
        order.compare_without_timestamp(&bare(key), &[wanted, &vec![0; size]].concat())
    };
    version.level(level).files().iter().filter(move |file| {
        let behind = options.start_key.as_ref().is_some_and(|start| {
            let standing = compare(file.largest.user_key(), start);
            standing.is_lt() || standing.is_eq() && file.largest.is_exclusive_bound()
        });
        let before = options
            .end_key
            .as_ref()
            .is_some_and(|end| compare(file.smallest.user_key(), end).is_gt());
        !behind && !before
    })
}

impl Db {
    /// Prevents the deletion of all current and future live files until [`Db::enable_file_deletions`] has
    /// been called as often.
    ///
    /// # Errors
    ///
    /// `NotSupported` in a forked child.
    pub fn disable_file_deletions(&self) -> Result<()> {
        self.shared().context.check_process()?;
        self.shared().catalog.deletions.disable();
        Ok(())
    }

    /// Ends one [`Db::disable_file_deletions`]. The last one deletes obsolete files.
    ///
    /// # Errors
    ///
    /// `NotSupported` in a forked child.
    pub fn enable_file_deletions(&self) -> Result<()> {
        self.shared().context.check_process()?;
        enable_deletions(&**self.shared());
        Ok(())
    }

    /// Returns every table of every family.
    #[must_use]
    pub fn live_files_metadata(&self) -> Vec<LiveFileMetaData> {
        let shared = self.shared();
        let families = shared.catalog.families();
        let all = ColumnFamilyMetaDataOptions::default();
        families
            .iter()
            .flat_map(|family| family_metadata(&**shared, family, &all).levels)
            .flat_map(|level| level.files)
            .collect()
    }

    /// Returns the names of all live files except logs, relative to the directory and with a leading slash,
    /// and the relevant length of the MANIFEST. File deletions should be disabled first.
    ///
    /// # Errors
    ///
    /// Those of a flush, with `flush`.
    pub fn live_files(&self, flush: bool) -> Result<(Vec<String>, u64)> {
        let shared = self.shared();
        if flush {
            shared.flush_for_copy(0, false)?;
        }
        let capture = capture(shared)?;
        let infos = storage_infos(shared.components(), &capture, false)?;
        let names = infos
            .into_iter()
            .filter(|info| info.file_type != FileType::Wal)
            .map(|info| format!("/{}", info.relative_filename));
        Ok((names.collect(), capture.files.manifest.1))
    }

    /// Returns every file that a copy of the database needs, including logs, with its relevant length. File
    /// deletions should be disabled first.
    ///
    /// # Errors
    ///
    /// Those of a flush.
    pub fn live_files_storage_info(
        &self,
        options: &LiveFilesStorageInfoOptions,
    ) -> Result<Vec<LiveFileStorageInfo>> {
        let shared = self.shared();
        shared.flush_for_copy(options.wal_size_for_flush, options.atomic_flush)?;
        let capture = capture(shared)?;
        storage_infos(shared.components(), &capture, options.include_checksum_info)
    }

    /// Returns the recorded checksums of all tables and blob files: number, checksum, function.
    #[must_use]
    pub fn live_files_checksum_info(&self) -> Vec<(u64, Vec<u8>, String)> {
        let mut all = Vec::new();
        for family in self.shared().catalog.families().iter() {
            let version = family.view().version.clone();
            all.extend(version.files().map(|(_, file)| {
                let checksum = file.checksum.value.clone();
                (file.number.0, checksum, file.checksum.function.to_string())
            }));
            all.extend(version.blob_files().values().map(|blob| {
                let checksum = blob.checksum_value.clone();
                (blob.number.0, checksum, blob.checksum_method.clone())
            }));
        }
        all
    }

    /// Reads every table and blob file of every family and compares its checksum with the one in the
    /// MANIFEST, if any.
    ///
    /// # Errors
    ///
    /// `Corruption` for the first file that differs; `InvalidArgument` without `file_checksum_gen_factory`, and for a
    /// checksum function that it does not have.
    pub fn verify_file_checksums(&self) -> Result<()> {
        let shared = self.shared();
        let options = shared.options();
        let Some(factory) = &options.file_checksum_gen_factory else {
            return Err(Error::invalid_argument(
                "file_checksum_gen_factory is null: files have no checksums that could be verified",
            ));
        };
        let database = shared.components();
        let _working = shared
            .telemetry
            .begin_operation("", Operation::VerifyFileChecksums);
        let _kept = keep_files(&**shared);
        for family in shared.catalog.families().iter() {
            let view = family.view();
            for (_, file) in view.version.files() {
                let path = family.tables().path(file);
                verify_file(
                    database,
                    factory,
                    &path,
                    &file.checksum.value,
                    &file.checksum.function,
                )?;
            }
            for (number, blob) in view.version.blob_files() {
                let path = view.family.blobs.path(*number);
                let (value, method) = (&blob.checksum_value, &blob.checksum_method);
                verify_file(database, factory, &path, value, method)?;
            }
        }
        Ok(())
    }
}

/// Compares the checksum of the file at `path` with that in the MANIFEST, unless that is empty.
fn verify_file(
    database: Components<'_>,
    factory: &FileChecksum,
    path: &Path,
    expected: &[u8],
    function: &str,
) -> Result<()> {
    if expected.is_empty() {
        return Ok(());
    }
    let running = factory.start_requested(path, function)?;
    let (telemetry, fs) = (database.telemetry, &*database.context.world.fs);
    let began = telemetry.began();
    let (found, _) = checksum::of_file(fs, path, running)?;
    let bytes = fs.status(path)?.len;
    telemetry.tick(Ticker::VerifyChecksumReadBytes, bytes);
    telemetry.time_since(began, Histogram::FileReadVerifyFileChecksumsMicros);
    if found != expected {
        return Err(Error::corruption(format!(
            "checksum of {}: expected {expected:02x?} as in the MANIFEST, found {found:02x?}",
            path.display(),
        )));
    }
    Ok(())
}

impl Family {
    /// Returns the files of the family by level.
    #[must_use]
    pub fn metadata(&self, options: &ColumnFamilyMetaDataOptions) -> ColumnFamilyMetaData {
        family_metadata(&*self.db.shared, &self.state, options)
    }
}
