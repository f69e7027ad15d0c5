//! Traces of the reads and writes of a database, and their replay; of its block lookups and file operations.
//!
//! A trace records every get, batch of gets, seek of an iterator and batch of writes with its time, in a file of
//! RocksDB's format: RocksDB's tools analyze it, and either engine replays it on a copy of the database, for example
//! to compare options.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! use cairn::trace::{ReplayOptions, TraceOptions};
//! use cairn::{Db, Options};
//!
//! let options = Options::default().create_if_missing(true);
//! let db = Db::open(dir.path().join("db"), &options)?;
//! let trace = dir.path().join("queries.trace");
//! db.start_trace(&trace, &TraceOptions::default())?;
//! db.put(b"granite", b"igneous")?;
//! db.get(b"granite")?;
//! db.end_trace()?;
//!
//! let copy = Db::open(dir.path().join("copy"), &options)?;
//! let mut replayer = copy.replayer(&trace, &[])?;
//! replayer.prepare()?;
//! replayer.replay(&ReplayOptions { fast_forward: 10.0, ..Default::default() }, None)?;
//! assert_eq!(copy.get(b"granite")?.as_deref(), Some(&b"igneous"[..]));
//! # Ok::<(), cairn::Error>(())
//! ```

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::path::Path;

use cairn_types::Result;

use crate::db::Db;
use crate::family::Family;

pub use cairn_db::{
    FileTraceReader, FileTraceWriter, Query, ReplayOptions, Replayed, SampledTraceOptions, Seek,
    TraceFilter, TraceOptions, TraceReader, TraceRecord, TraceRecordResult, TraceWriter,
};

impl Db {
    /// Starts to record the reads and writes of the database in the file `path`, which is truncated if it exists. A trace
    /// that is active is ended first. The trace ends with [`Db::end_trace`], or when the database is closed.
    ///
    /// An error of the file does not affect the operations: the trace has no further records, and [`Db::end_trace`]
    /// returns the error. Records are buffered, and not synced.
    ///
    /// # Errors
    ///
    /// `IoError` of the file, after which no trace is active.
    pub fn start_trace(&self, path: impl AsRef<Path>, options: &TraceOptions) -> Result<()> {
        let create =
            || Ok(Box::new(FileTraceWriter::create(self.inner.world(), path.as_ref())?) as _);
        self.inner.start_trace(options, create)
    }

    /// [`Db::start_trace`] with another destination than a file.
    ///
    /// # Errors
    ///
    /// That of `writer` for the first record; `Busy` in a call of a trace writer.
    pub fn start_trace_to(
        &self,
        writer: Box<dyn TraceWriter>,
        options: &TraceOptions,
    ) -> Result<()> {
        self.inner.start_trace(options, || Ok(writer))
    }

    /// Ends the trace.
    ///
    /// # Errors
    ///
    /// `IoError` if there is no trace; the first error of its writer, after which records may be missing.
    pub fn end_trace(&self) -> Result<()> {
        self.inner.end_trace()
    }

    /// Starts to record the lookups of blocks in the block cache in the file `path`, which is truncated if it exists, in the
    /// format of RocksDB's `block_cache_trace_analyzer`: the kind, size, level and file of each block, the operation that
    /// needs it, and if it was in the cache. The trace ends with [`Db::end_block_cache_trace`], or when the database is
    /// closed. An error of the file does not affect the lookups.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cairn::Db::builder(&dir.path().join("db")).create_if_missing(true).open()?;
    /// db.start_block_cache_trace(dir.path().join("lookups.trace"), &Default::default())?;
    /// db.get(b"granite")?;
    /// db.end_block_cache_trace()?;
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Busy` if there is a block-cache trace; `IoError` of the file.
    pub fn start_block_cache_trace(
        &self,
        path: impl AsRef<Path>,
        options: &SampledTraceOptions,
    ) -> Result<()> {
        let create =
            || Ok(Box::new(FileTraceWriter::create(self.inner.world(), path.as_ref())?) as _);
        self.inner.start_block_cache_trace(options, create)
    }

    /// Ends the block-cache trace, if there is one.
    ///
    /// # Errors
    ///
    /// The first error of the file, after which records may be missing.
    pub fn end_block_cache_trace(&self) -> Result<()> {
        self.inner.end_block_cache_trace()
    }

    /// Starts to record the operations of the database on its files in the file `path`, which is truncated if it exists, in
    /// the format of RocksDB's `io_tracer_parser`: the name and duration of each operation, and the bytes concerned. The
    /// trace ends with [`Db::end_io_trace`], or when the database is closed. An error of the file does not affect the
    /// operations.
    ///
    /// # Errors
    ///
    /// `Busy` if there is an I/O trace; `IoError` of the file.
    pub fn start_io_trace(
        &self,
        path: impl AsRef<Path>,
        options: &SampledTraceOptions,
    ) -> Result<()> {
        let create =
            || Ok(Box::new(FileTraceWriter::create(self.inner.world(), path.as_ref())?) as _);
        self.inner.start_io_trace(options, create)
    }

    /// Ends the I/O trace, if there is one.
    ///
    /// # Errors
    ///
    /// The first error of the file, after which records may be missing.
    pub fn end_io_trace(&self) -> Result<()> {
        self.inner.end_io_trace()
    }

    /// Creates a replayer of the trace in the file `path`. It can replay reads of `families` and of the default family,
    /// and writes to any family.
    ///
    /// # Errors
    ///
    /// `IoError` of the file.
    pub fn replayer(
        &self,
        path: impl AsRef<Path>,
        families: &[&Family<'_>],
    ) -> Result<Replayer<'_>> {
        let reader = FileTraceReader::open(self.inner.world(), path.as_ref())?;
        self.replayer_of(Box::new(reader), families)
    }

    /// [`Db::replayer`] with another source than a file.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if a family belongs to another database.
    pub fn replayer_of(
        &self,
        reader: Box<dyn TraceReader>,
        families: &[&Family<'_>],
    ) -> Result<Replayer<'_>> {
        let families: Vec<_> = families.iter().map(|family| &family.inner).collect();
        Ok(Replayer {
            inner: cairn_db::Replayer::new(&self.inner, &families, reader)?,
            db: PhantomData,
        })
    }
}

/// Replays a trace on a database; see [`Db::replayer`]. Its methods are those of [`cairn_db::Replayer`].
pub struct Replayer<'db> {
    inner: cairn_db::Replayer,
    db: PhantomData<&'db Db>,
}

impl Deref for Replayer<'_> {
    type Target = cairn_db::Replayer;
    fn deref(&self) -> &cairn_db::Replayer {
        &self.inner
    }
}

impl DerefMut for Replayer<'_> {
    fn deref_mut(&mut self) -> &mut cairn_db::Replayer {
        &mut self.inner
    }
}

impl fmt::Debug for Replayer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
