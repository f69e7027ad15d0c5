//! Files that enter and leave a database.
//!
//! Tables can be written outside of any database, in key order, and then ingested atomically, which
//! is much cheaper than writing the entries one by one.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! use cairn::{Db, IngestExternalFileOptions, Options, SstFileReader, SstFileWriter, World};
//!
//! let options = Options::default().create_if_missing(true);
//! let file = dir.path().join("stones.sst");
//! let mut writer = SstFileWriter::new(&World::posix(), &options.db, &options.family);
//! writer.open(&file)?;
//! writer.put(b"granite", b"igneous")?;
//! writer.put(b"slate", b"metamorphic")?;
//! let info = writer.finish()?;
//! assert_eq!(info.num_entries, 2);
//!
//! // The file can be read on its own,
//! let reader = SstFileReader::open(&World::posix(), &file, &options.family)?;
//! assert_eq!(reader.get(b"slate")?.as_deref(), Some(&b"metamorphic"[..]));
//!
//! // or become part of a database.
//! let db = Db::open(dir.path().join("db"), &options)?;
//! db.ingest_external_file([&file], &IngestExternalFileOptions::default())?;
//! assert_eq!(db.get(b"granite")?.as_deref(), Some(&b"igneous"[..]));
//! # Ok::<(), cairn::Error>(())
//! ```
//!
//! Input that is not in key order and does not fit into memory can be sorted first:
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! use cairn::{Db, IngestExternalFileOptions, Options, SortedRunBuilder, World};
//! use cairn::files::SortedRunBuilderOptions;
//!
//! let options = SortedRunBuilderOptions::new(dir.path().join("sorting"));
//! let mut builder = SortedRunBuilder::new(&World::posix(), options)?;
//! builder.add(b"slate", b"metamorphic")?;
//! builder.add(b"granite", b"igneous")?;
//! builder.finish()?;
//!
//! let db = Db::open(dir.path().join("db"), &Options::default().create_if_missing(true))?;
//! let ingest = IngestExternalFileOptions {
//!     allow_db_generated_files: true,
//!     snapshot_consistency: false,
//!     ..Default::default()
//! };
//! db.ingest_external_file(builder.output_files(), &ingest)?;
//! assert_eq!(db.get(b"granite")?.as_deref(), Some(&b"igneous"[..]));
//! # Ok::<(), cairn::Error>(())
//! ```

use std::marker::PhantomData;
use std::path::{Path, PathBuf};

pub use cairn_db::{
    BlobMetaData, ColumnFamilyMetaData, ColumnFamilyMetaDataOptions, ExportImportFilesMetaData,
    ExternalSstFileInfo, FileType, LevelMetaData, LiveFileMetaData, LiveFileStorageInfo,
    LiveFilesStorageInfoOptions, PreparedFileInfo, ReplaceRange, SortedRunBuilderOptions,
};
use cairn_options::FamilyOptions;
pub use cairn_options::{ImportColumnFamilyOptions, IngestExternalFileOptions};
use cairn_platform::World;
use cairn_types::{Result, SequenceNumber};

use crate::db::Db;
use crate::family::Family;
use crate::open::Options;

pub use crate::tables::{SortedRunBuilder, SstFileReader, SstFileWriter, SstIter};

/// External tables for one family; see [`Db::ingest_external_files`].
#[derive(Clone, Debug)]
pub struct Ingestion<'db> {
    family: Family<'db>,
    /// The tables. Where they overlap, later ones are newer.
    pub files: Vec<PathBuf>,
    /// Options of the ingestion.
    pub options: IngestExternalFileOptions,
    /// The whole-file checksums, one per file; empty for none.
    pub checksums: Vec<Vec<u8>>,
    /// The names of the checksum functions, one per file.
    pub checksum_functions: Vec<String>,
    /// The key range whose data the files replace. It must contain all of them.
    pub replace: Option<ReplaceRange>,
    /// The descriptions of the files, one per file; empty for none. A file with a description is not
    /// opened, unless `verify_checksums_before_ingest` is set: its bounds and properties are trusted.
    pub file_infos: Vec<PreparedFileInfo>,
}

impl<'db> Ingestion<'db> {
    /// Creates an ingestion of `files` into `family`.
    #[must_use]
    pub fn new(
        family: &Family<'db>,
        files: impl IntoIterator<Item = impl Into<PathBuf>>,
        options: &IngestExternalFileOptions,
    ) -> Ingestion<'db> {
        Ingestion {
            family: family.clone(),
            files: files.into_iter().map(Into::into).collect(),
            options: options.clone(),
            checksums: Vec::new(),
            checksum_functions: Vec::new(),
            replace: None,
            file_infos: Vec::new(),
        }
    }

    /// The target family.
    #[must_use]
    pub fn family(&self) -> &Family<'db> {
        &self.family
    }

    fn to_inner(&self) -> cairn_db::Ingestion {
        cairn_db::Ingestion {
            family: self.family.inner.clone(),
            files: self.files.clone(),
            options: self.options.clone(),
            checksums: self.checksums.clone(),
            checksum_functions: self.checksum_functions.clone(),
            replace: self.replace.clone(),
            file_infos: self.file_infos.clone(),
        }
    }
}

/// Files that are ready for their ingestion; see [`Db::prepare_file_ingestion`]. Unless they are committed, they are
/// deleted when this is dropped, or after a crash when the database is opened.
#[derive(Debug)]
#[must_use = "the prepared files are deleted when the handle is dropped"]
pub struct FileIngestionHandle<'db> {
    inner: cairn_db::FileIngestionHandle,
    db: PhantomData<&'db Db>,
}

impl FileIngestionHandle<'_> {
    /// Deletes the prepared files.
    pub fn abort(self) {
        self.inner.abort();
    }
}

impl Db {
    /// Ingests the external tables `files` into the default family, atomically. Their entries are
    /// newer than all existing data, and those of later files are newer than those of earlier ones.
    /// [`crate::Family`] has the same method; [`crate::files`] has an example.
    ///
    /// The ingested data is invisible to existing snapshots. Memtables that overlap the files are
    /// flushed first; writers wait in the meantime.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for options and files that do not match the family or each other;
    /// `Corruption` of a file; `TryAgain` with `fail_if_not_bottommost_level`. Nothing has then
    /// changed. After an `IoError` of the MANIFEST, the outcome is unknown and the database is
    /// read-only.
    pub fn ingest_external_file(
        &self,
        files: impl IntoIterator<Item = impl Into<PathBuf>>,
        options: &IngestExternalFileOptions,
    ) -> Result<()> {
        self.inner.ingest_external_file(files, options)
    }

    /// Ingests tables into several families, atomically even across a crash.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use cairn::{Db, FamilyOptions, IngestExternalFileOptions, Ingestion, Options, SstFileWriter};
    ///
    /// let db = Db::open(dir.path().join("db"), &Options::default().create_if_missing(true))?;
    /// let stones = db.create_family("stones", &FamilyOptions::default())?;
    /// let options = IngestExternalFileOptions { move_files: true, ..Default::default() };
    /// let mut all = Vec::new();
    /// for family in [db.default_family(), stones.clone()] {
    ///     let file = dir.path().join(format!("{}.sst", family.id()));
    ///     let mut writer = SstFileWriter::for_family(&family);
    ///     writer.open(&file)?;
    ///     writer.put(b"k", family.name().as_bytes())?;
    ///     writer.finish()?;
    ///     all.push(Ingestion::new(&family, [file], &options));
    /// }
    /// db.ingest_external_files(&all)?;
    /// assert_eq!(stones.get(b"k")?.as_deref(), Some(&b"stones"[..]));
    /// # drop(all);
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db::ingest_external_file`].
    pub fn ingest_external_files(&self, ingestions: &[Ingestion<'_>]) -> Result<()> {
        let ingestions: Vec<cairn_db::Ingestion> =
            ingestions.iter().map(Ingestion::to_inner).collect();
        self.inner.ingest_external_files(&ingestions)
    }

    /// Prepares an ingestion into several families: all the work that does not block writers. Each file is examined, and
    /// linked or copied; the caller's file is no longer read, unless it is to be moved. Reads are not affected before
    /// [`Db::commit_file_ingestion_handles`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use cairn::{Db, IngestExternalFileOptions, Ingestion, Options, SstFileWriter};
    ///
    /// let db = Db::open(dir.path().join("db"), &Options::default().create_if_missing(true))?;
    /// let file = dir.path().join("stones.sst");
    /// let mut writer = SstFileWriter::for_family(&db.default_family());
    /// writer.open(&file)?;
    /// writer.put(b"granite", b"igneous")?;
    /// writer.finish()?;
    /// let ingestion = Ingestion::new(&db.default_family(), [file], &IngestExternalFileOptions::default());
    /// let prepared = db.prepare_file_ingestion(&[ingestion])?;
    /// assert!(db.get(b"granite")?.is_none());
    /// db.commit_file_ingestion_handle(prepared)?;
    /// assert_eq!(db.get(b"granite")?.as_deref(), Some(&b"igneous"[..]));
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db::ingest_external_file`], except for those of the commit.
    pub fn prepare_file_ingestion<'db>(
        &'db self,
        ingestions: &[Ingestion<'_>],
    ) -> Result<FileIngestionHandle<'db>> {
        let ingestions: Vec<cairn_db::Ingestion> =
            ingestions.iter().map(Ingestion::to_inner).collect();
        Ok(FileIngestionHandle {
            inner: self.inner.prepare_file_ingestion(&ingestions)?,
            db: PhantomData,
        })
    }

    /// Returns the description of the live table at `path`, with which another database ingests the
    /// table without opening it (`allow_db_generated_files`); see [`Ingestion::file_infos`]. The table
    /// exists as long as deletions are paused ([`Db::disable_file_deletions`]) or a link to it exists.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use cairn::files::{IngestExternalFileOptions, Ingestion, PreparedFileInfo};
    /// use cairn::{Db, Options};
    ///
    /// let options = Options::default().create_if_missing(true);
    /// let from = Db::open(dir.path().join("from"), &options)?;
    /// from.put(b"granite", b"igneous")?;
    /// from.flush()?;
    /// from.disable_file_deletions()?;
    /// let file = &from.live_files_metadata()[0];
    /// let path = file.directory.join(&file.relative_filename);
    /// let bytes = from.prepared_file_info(&path)?.encode(); // to another host
    ///
    /// let to = Db::open(dir.path().join("to"), &options)?;
    /// let ingest = IngestExternalFileOptions {
    ///     allow_db_generated_files: true,
    ///     ..Default::default()
    /// };
    /// let mut ingestion = Ingestion::new(&to.default_family(), [path], &ingest);
    /// ingestion.file_infos = vec![PreparedFileInfo::decode(&bytes)?];
    /// to.ingest_external_files(&[ingestion])?;
    /// assert_eq!(to.get(b"granite")?.as_deref(), Some(&b"igneous"[..]));
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if no live table has this path; those of opening the table.
    pub fn prepared_file_info(&self, path: impl AsRef<Path>) -> Result<PreparedFileInfo> {
        self.inner.prepared_file_info(path.as_ref())
    }

    /// Ingests the files of `handle`, atomically.
    ///
    /// # Errors
    ///
    /// Those of [`Db::commit_file_ingestion_handles`].
    pub fn commit_file_ingestion_handle(&self, handle: FileIngestionHandle<'_>) -> Result<()> {
        self.inner.commit_file_ingestion_handle(handle.inner)
    }

    /// Ingests the files of all `handles`, atomically. Files for the same family are ingested as if they had been prepared
    /// together, in the order of the handles: where they overlap, later ones are newer.
    ///
    /// # Errors
    ///
    /// Those of [`Db::ingest_external_file`]. `InvalidArgument` if there are no handles, if one is of another database, or
    /// if handles for one family have different options; `NotSupported` if one of them replaces a range. The files are
    /// deleted then, except after an `IoError` of the MANIFEST.
    pub fn commit_file_ingestion_handles(
        &self,
        handles: Vec<FileIngestionHandle<'_>>,
    ) -> Result<()> {
        let handles = handles.into_iter().map(|handle| handle.inner).collect();
        self.inner.commit_file_ingestion_handles(handles)
    }

    /// Deletes the database in `path`: all of its files, including those in other directories named
    /// by `options`, and nothing else. It must not be open. A missing database is not an error.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use cairn::{Db, Options};
    ///
    /// let path = dir.path().join("db");
    /// let options = Options::default().create_if_missing(true);
    /// let db = Db::open(&path, &options)?;
    /// assert!(Db::destroy(&path, &options).is_err()); // it is open
    /// db.close()?;
    /// Db::destroy(&path, &options)?;
    /// assert!(!path.exists());
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `IoError` if the database is open or a file cannot be deleted; all other files are deleted
    /// nevertheless.
    pub fn destroy(path: impl AsRef<Path>, options: &Options) -> Result<()> {
        Db::destroy_in(&World::posix(), path.as_ref(), options)
    }

    /// [`Db::destroy`] in a world of the caller's choice.
    ///
    /// # Errors
    ///
    /// Those of [`Db::destroy`].
    pub fn destroy_in(world: &World, path: &Path, options: &Options) -> Result<()> {
        let families = std::slice::from_ref(&options.family);
        cairn_db::destroy(world, path, &options.db, families)
    }

    /// Creates a second database with the current state in `dir`, which must not exist. Tables are
    /// hard-linked, so that the checkpoint takes no space until the two databases diverge; on
    /// another device they are copied. Memtables are flushed first if the WALs have at least
    /// `log_size_for_flush` bytes (0 for always, `u64::MAX` for never); unflushed data is in the
    /// checkpoint's WALs. Returns the sequence number of the last write in the checkpoint.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use cairn::{Db, Options};
    ///
    /// let options = Options::default().create_if_missing(true);
    /// let db = Db::open(dir.path().join("db"), &options)?;
    /// db.put(b"k", b"before")?;
    /// db.create_checkpoint(dir.path().join("copy"), 0)?;
    /// db.put(b"k", b"after")?;
    /// let copy = Db::open(dir.path().join("copy"), &options)?;
    /// assert_eq!(copy.get(b"k")?.as_deref(), Some(&b"before"[..]));
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if `dir` exists; those of a flush; `IoError`. Nothing is then left in
    /// `dir`. A crash may leave a directory with the suffix `.tmp`, which the next attempt
    /// replaces.
    pub fn create_checkpoint(
        &self,
        dir: impl AsRef<Path>,
        log_size_for_flush: u64,
    ) -> Result<SequenceNumber> {
        self.inner
            .create_checkpoint(dir.as_ref(), log_size_for_flush)
    }

    /// Creates the family `name` from the tables of one or more exports (`Family::export`) of this
    /// or other databases. The exports must not overlap. The import is atomic, even across a crash.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use cairn::{Db, FamilyOptions, ImportColumnFamilyOptions, Options};
    ///
    /// let options = Options::default().create_if_missing(true);
    /// let from = Db::open(dir.path().join("from"), &options)?;
    /// from.put(b"k", b"v")?;
    /// let export = from.default_family().export(dir.path().join("export"))?;
    ///
    /// let to = Db::open(dir.path().join("to"), &options)?;
    /// let how = ImportColumnFamilyOptions::default();
    /// let family =
    ///     to.create_family_with_import("travelled", &FamilyOptions::default(), &how, &[export])?;
    /// assert_eq!(family.get(b"k")?.as_deref(), Some(&b"v"[..]));
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the name is empty or taken, the comparators differ, exports overlap, or
    /// a level does not exist; `Corruption` of a file. Nothing has then changed.
    pub fn create_family_with_import(
        &self,
        name: &str,
        options: &FamilyOptions,
        import: &ImportColumnFamilyOptions,
        exports: &[ExportImportFilesMetaData],
    ) -> Result<Family<'_>> {
        self.inner
            .create_family_with_import(name, options, import, exports)
            .map(Family::new)
    }

    /// Protects all currently live files from deletion until [`Db::enable_file_deletions`] has been
    /// called the same number of times.
    ///
    /// # Errors
    ///
    /// None at present; the signature follows RocksDB.
    pub fn disable_file_deletions(&self) -> Result<()> {
        self.inner.disable_file_deletions()
    }

    /// Undoes one [`Db::disable_file_deletions`]. After the last, obsolete files are deleted.
    ///
    /// # Errors
    ///
    /// None at present; the signature follows RocksDB.
    pub fn enable_file_deletions(&self) -> Result<()> {
        self.inner.enable_file_deletions()
    }

    /// All tables of all families, with their levels and bounds.
    #[must_use]
    pub fn live_files_metadata(&self) -> Vec<LiveFileMetaData> {
        self.inner.live_files_metadata()
    }

    /// The files of the default family, level by level.
    #[must_use]
    pub fn column_family_metadata(
        &self,
        options: &ColumnFamilyMetaDataOptions,
    ) -> ColumnFamilyMetaData {
        self.inner.metadata(options)
    }

    /// The names of all live files except WALs, relative to the directory and with a leading slash,
    /// and the valid size of the MANIFEST. With `flush`, memtables are flushed first.
    ///
    /// # Errors
    ///
    /// Those of a flush.
    pub fn live_files(&self, flush: bool) -> Result<(Vec<String>, u64)> {
        self.inner.live_files(flush)
    }

    /// All files that a copy of the database needs, including WALs, and the size to copy of each.
    /// For programs that copy databases themselves.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let (path, copy) = (dir.path().join("db"), dir.path().join("copy"));
    /// # let options = cairn::Options::default().create_if_missing(true);
    /// # let db = cairn::Db::open(&path, &options)?;
    /// # db.put(b"k", b"v")?;
    /// # std::fs::create_dir(&copy).unwrap();
    /// db.disable_file_deletions()?;
    /// for file in db.live_files_storage_info(&Default::default())? {
    ///     let to = copy.join(&file.relative_filename);
    ///     match &file.replacement_contents {
    ///         Some(content) => std::fs::write(&to, content).unwrap(),
    ///         None => {
    ///             let from = file.directory.join(&file.relative_filename);
    ///             let content = std::fs::read(&from).unwrap();
    ///             std::fs::write(&to, &content[..file.size as usize]).unwrap();
    ///         }
    ///     }
    /// }
    /// db.enable_file_deletions()?;
    /// assert!(cairn::Db::open(&copy, &options)?.get(b"k")?.is_some());
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of a flush; `NotSupported` for a database that was opened read-only.
    pub fn live_files_storage_info(
        &self,
        options: &LiveFilesStorageInfoOptions,
    ) -> Result<Vec<LiveFileStorageInfo>> {
        self.inner.live_files_storage_info(options)
    }

    /// The recorded checksums of all tables and blob files: file number, checksum and function
    /// name.
    #[must_use]
    pub fn live_files_checksum_info(&self) -> Vec<(u64, Vec<u8>, String)> {
        self.inner.live_files_checksum_info()
    }

    /// Reads all tables and blob files and compares their checksums to those recorded in the
    /// MANIFEST, if any. Requires `file_checksum_gen_factory`.
    ///
    /// # Errors
    ///
    /// `Corruption` with the first file that differs; `NotSupported` for an unknown checksum
    /// function; `InvalidArgument` without the option.
    pub fn verify_file_checksums(&self) -> Result<()> {
        self.inner.verify_file_checksums()
    }
}
