//! Files that enter and leave a database.
//!
//! Tables can be written outside of any database, in key order, and then ingested: much cheaper
//! than writing the same entries one by one, and all of them appear at once.
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
//! // The file can be read by itself,
//! let reader = SstFileReader::open(&World::posix(), &file, &options.family)?;
//! assert_eq!(reader.get(b"slate")?.as_deref(), Some(&b"metamorphic"[..]));
//!
//! // or become part of a database.
//! let db = Db::open(dir.path().join("db"), &options)?;
//! db.ingest_external_file([&file], &IngestExternalFileOptions::default())?;
//! assert_eq!(db.get(b"granite")?.as_deref(), Some(&b"igneous"[..]));
//! # Ok::<(), cairn::Error>(())
//! ```

use std::path::PathBuf;

pub use cairn_db::{
    ExternalSstFileInfo, Ingestion, ReplaceRange, SstFileReader, SstFileWriter, SstIter,
};
pub use cairn_options::{ImportColumnFamilyOptions, IngestExternalFileOptions};
use cairn_types::Result;

use crate::db::Db;

impl Db {
    /// Ingests the external tables `files` into the default family: all of them or none. Entries
    /// are newer than everything there is, and in `files` the later are newer than the earlier.
    /// [`crate::Family`] has the same method; [`crate::files`] has an example.
    ///
    /// Snapshots that exist do not see what is ingested. Memtables that overlap the files are
    /// flushed first, and writers wait meanwhile.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for options and files that do not fit the family or each other,
    /// `Corruption` of a file, `TryAgain` with `fail_if_not_bottommost_level`; nothing has changed
    /// then. After an `IoError` of the MANIFEST the ingestion is in doubt and the database
    /// read-only.
    pub fn ingest_external_file(
        &self,
        files: impl IntoIterator<Item = impl Into<PathBuf>>,
        options: &IngestExternalFileOptions,
    ) -> Result<()> {
        self.inner.ingest_external_file(files, options)
    }

    /// Ingests tables into several families: all of them or none, after a crash too.
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
    pub fn ingest_external_files(&self, ingestions: &[Ingestion]) -> Result<()> {
        self.inner.ingest_external_files(ingestions)
    }
}
