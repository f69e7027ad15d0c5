//! The handle to an open database.

use std::fmt;
use std::path::Path;

use cairn_db::{Dropped, FamilyDescriptor, Value, WriteCallback};
use cairn_options::{CompactRangeOptions, FamilyOptions, ReadOptions, WriteOptions};
use cairn_platform::World;
use cairn_types::{Error, Result, SequenceNumber};

use crate::batch::WriteBatch;
use crate::builder::DbBuilder;
use crate::family::Family;
use crate::iter::Iter;
use crate::open::Options;
use crate::snapshot::Snapshot;

/// An open database. It can be shared between threads by reference or in an `Arc`. [`Db::close`]
/// closes it, as does dropping the last reference.
pub struct Db {
    pub(crate) inner: cairn_db::Db,
}

impl Db {
    /// Opens the database in the directory `path` with all of its column families, which all get
    /// the family options of `options`.
    ///
    /// Built-in comparators and merge operators that the files record need not be set.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the database does not exist or the options are invalid; `NotSupported`
    /// for files and options that Cairn does not support; `IoError` if the database is open
    /// elsewhere; `Corruption` with file and offset.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Db> {
        Db::builder(path).options(options.clone()).open()
    }

    /// Opens the database read-only: no file is changed, and other processes may open the database.
    /// Reads may fail if another process writes in the meantime.
    ///
    /// # Errors
    ///
    /// Those of [`Db::open`]; `TryAgain` beside a process that keeps deleting logs faster than they can be read.
    pub fn open_read_only(path: impl AsRef<Path>, options: &Options) -> Result<Db> {
        let builder = Db::builder(path).options(options.clone());
        builder.read_only(true).open()
    }

    /// Returns a builder for opening the database in `path`, for example with options for
    /// individual families, read-only, or in another [`World`].
    pub fn builder(path: impl AsRef<Path>) -> DbBuilder {
        DbBuilder::new(path.as_ref())
    }

    /// The names of the column families of the database in `path`. No file is changed.
    ///
    /// # Errors
    ///
    /// `IoError` if there is no database; `Corruption` of its MANIFEST.
    pub fn list_families(path: impl AsRef<Path>) -> Result<Vec<String>> {
        Db::list_families_in(&World::posix(), path.as_ref())
    }

    /// [`Db::list_families`] in the given world.
    ///
    /// # Errors
    ///
    /// Those of [`Db::list_families`].
    pub fn list_families_in(world: &World, path: &Path) -> Result<Vec<String>> {
        cairn_db::list_families(path, world)
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.inner.path()
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    ///
    /// See [`Db::write_with`].
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.inner.put(key, value)
    }

    /// [`Db::put`] with options.
    ///
    /// # Errors
    ///
    /// See [`Db::write_with`].
    pub fn put_with(&self, key: &[u8], value: &[u8], options: &WriteOptions) -> Result<()> {
        self.inner.put_with(key, value, options)
    }

    /// The value of `key`, pinned in memory rather than copied, or `None` if there is none.
    ///
    /// # Errors
    ///
    /// `IoError` or `Corruption` of a file that was read.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.inner.get(key)
    }

    /// [`Db::get`] with options.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get`]; `Incomplete` if `read_tier` forbids a necessary read.
    pub fn get_with(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Value>> {
        self.inner.get_with(key, options)
    }

    /// Deletes `key`. Deleting a missing key is not an error.
    ///
    /// # Errors
    ///
    /// See [`Db::write_with`].
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        self.inner.delete(key)
    }

    /// [`Db::delete`] with options.
    ///
    /// # Errors
    ///
    /// See [`Db::write_with`].
    pub fn delete_with(&self, key: &[u8], options: &WriteOptions) -> Result<()> {
        self.inner.delete_with(key, options)
    }

    /// Deletes `key`, which must have been put exactly once since it was last deleted. Cheaper than
    /// [`Db::delete`]; for a key that was put twice or merged, the result is undefined.
    ///
    /// # Errors
    ///
    /// See [`Db::write_with`].
    pub fn single_delete(&self, key: &[u8]) -> Result<()> {
        self.inner.single_delete(key)
    }

    /// Deletes all keys from `begin` up to, but excluding, `end`.
    ///
    /// # Errors
    ///
    /// See [`Db::write_with`].
    pub fn delete_range(&self, begin: &[u8], end: &[u8]) -> Result<()> {
        self.inner.delete_range(begin, end)
    }

    /// Adds a merge operand to `key` in the default family.
    ///
    /// # Errors
    ///
    /// `NotSupported` if there is no merge operator; see also [`Db::write_with`].
    pub fn merge(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.inner.merge(key, operand)
    }

    /// [`Db::merge`] with options.
    ///
    /// # Errors
    ///
    /// Those of [`Db::merge`].
    pub fn merge_with(&self, key: &[u8], operand: &[u8], options: &WriteOptions) -> Result<()> {
        self.inner.merge_with(key, operand, options)
    }

    /// Writes `batch` atomically.
    ///
    /// # Errors
    ///
    /// See [`Db::write_with`].
    pub fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.write_with(batch, &WriteOptions::default())
    }

    /// [`Db::write`] with options.
    ///
    /// # Errors
    ///
    /// If the error is `InvalidArgument`, `Incomplete` or `NotSupported`, nothing was written.
    /// After an `IoError`, the database is read-only and the outcome is unknown: when the database
    /// is opened again, it has either the whole batch or none of it.
    pub fn write_with(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        self.inner.check_batch(&batch.inner)?;
        self.inner.write_with(&batch.inner, options)
    }

    /// Writes `batch` atomically, and calls `callback` when the place of the write in the order of writes is fixed, and
    /// when it is logged (RocksDB's `WriteWithCallback`). A program that orders its writes under a lock can release it
    /// as soon as the write is queued:
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use std::sync::{Mutex, MutexGuard};
    /// use cairn::{Db, Options, WriteBatch, WriteCallback, WriteOptions};
    ///
    /// struct Releases<'a>(Mutex<Option<MutexGuard<'a, u64>>>);
    ///
    /// impl WriteCallback for Releases<'_> {
    ///     fn on_write_enqueued(&self) {
    ///         self.0.lock().unwrap().take();
    ///     }
    /// }
    ///
    /// let db = Db::open(dir.path().join("db"), &Options::default().create_if_missing(true))?;
    /// let next = Mutex::new(0_u64);
    /// let append = |entry: &[u8]| {
    ///     let mut number = next.lock().unwrap();
    ///     *number += 1;
    ///     let mut batch = WriteBatch::new();
    ///     batch.put(&number.to_be_bytes(), entry);
    ///     // Entries are logged in the order of their numbers, but together with those of other threads.
    ///     let releases = Releases(Mutex::new(Some(number)));
    ///     db.write_with_callback(&batch, &WriteOptions::default(), &releases)
    /// };
    /// append(b"granite")?;
    /// append(b"basalt")?;
    /// assert!(db.get(&2_u64.to_be_bytes())?.is_some());
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db::write_with`].
    ///
    /// # Panics
    ///
    /// With a panic of `callback`, when the write has ended.
    pub fn write_with_callback(
        &self,
        batch: &WriteBatch,
        options: &WriteOptions,
        callback: &dyn WriteCallback,
    ) -> Result<()> {
        self.inner.check_batch(&batch.inner)?;
        self.inner
            .write_with_callback(&batch.inner, options, callback)
    }

    /// An iterator over the default family, not yet positioned.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter::new(self.inner.iter())
    }

    /// [`Db::iter`] with options: bounds, a snapshot, prefix rules.
    #[must_use]
    pub fn iter_with(&self, options: &ReadOptions) -> Iter<'_> {
        Iter::new(self.inner.iter_with(options))
    }

    /// Takes a snapshot: the current state, readable as long as the snapshot exists.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot<'_> {
        Snapshot::new(self, self.inner.snapshot())
    }

    /// The sequence number of the last write.
    #[must_use]
    pub fn latest_sequence(&self) -> SequenceNumber {
        self.inner.latest_sequence()
    }

    /// The default family.
    #[must_use]
    pub fn default_family(&self) -> Family<'_> {
        Family::new(self.inner.default_family().clone())
    }

    /// The family of this name, or `None`.
    #[must_use]
    pub fn family(&self, name: &str) -> Option<Family<'_>> {
        self.inner.family(name).map(Family::new)
    }

    /// The live families in order of creation.
    #[must_use]
    pub fn families(&self) -> Vec<Family<'_>> {
        self.inner.families().into_iter().map(Family::new).collect()
    }

    /// Creates a family.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the name is empty or taken or the options are invalid.
    pub fn create_family(&self, name: &str, options: &FamilyOptions) -> Result<Family<'_>> {
        self.inner.create_family(name, options).map(Family::new)
    }

    /// Creates several families atomically, in the given order. The MANIFEST is synced and the
    /// OPTIONS file written only once.
    ///
    /// # Errors
    ///
    /// Those of [`Db::create_family`].
    pub fn create_families(&self, given: &[FamilyDescriptor]) -> Result<Vec<Family<'_>>> {
        let created = self.inner.create_families(given)?;
        Ok(created.into_iter().map(Family::new).collect())
    }

    /// Drops `family` and all of its data. Existing handles can still read it.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for the default family.
    pub fn drop_family(&self, family: &Family<'_>) -> Result<()> {
        self.inner.drop_family(&family.inner)
    }

    /// Compacts the keys of the default family from `begin` to `end`, both inclusive; `None` is
    /// unbounded.
    ///
    /// # Errors
    ///
    /// The error that made the database read-only; errors of the files read.
    pub fn compact_range(
        &self,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        self.inner.compact_range(begin, end, options)
    }

    /// Waits until no flush or compaction is running or due.
    ///
    /// # Errors
    ///
    /// The error that made the database read-only.
    pub fn wait_until_quiet(&self) -> Result<()> {
        self.inner.wait_until_quiet()
    }

    /// The tickers and histograms of the database, which other databases may share; `None` if
    /// statistics are disabled.
    #[must_use]
    pub fn statistics(&self) -> Option<&std::sync::Arc<crate::observe::Statistics>> {
        self.inner.statistics()
    }

    /// The threads currently working for this database, if it was opened with
    /// `enable_thread_tracking`: an entry for each flush, compaction and verification, in order of
    /// start. [`threads::list`](crate::observe::threads::list) covers all databases of the process,
    /// and also lists databases being opened.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use cairn::observe::threads::ThreadStatus;
    /// use cairn::{Db, Options};
    ///
    /// let options = Options::default().create_if_missing(true).text("enable_thread_tracking=true")?;
    /// let db = Db::open(dir.path().join("db"), &options)?;
    /// println!("{}", ThreadStatus::header());
    /// for status in db.thread_list() {
    ///     println!("{status}");
    /// }
    /// # Ok::<(), cairn::Error>(())
    /// ```
    #[must_use]
    pub fn thread_list(&self) -> Vec<crate::observe::threads::ThreadStatus> {
        self.inner.thread_list()
    }

    /// The history of the tickers: their increments per period of `stats_persist_period_sec`,
    /// oldest first, for periods that ended at or after `from` and before `to`, in seconds since
    /// 1970. The history is kept in at most `stats_history_buffer_size` bytes of memory; the oldest
    /// periods are dropped first. With `persist_stats_to_disk` it is kept in a hidden column family, without a limit.
    ///
    /// # Errors
    ///
    /// Those of reads, with `persist_stats_to_disk`.
    pub fn stats_history(
        &self,
        from: u64,
        to: u64,
    ) -> Result<Vec<std::sync::Arc<crate::observe::StatsSlice>>> {
        self.inner.stats_history(from, to)
    }

    /// The property `name` of the default family as text, with RocksDB's names.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<String> {
        self.inner.property(name)
    }

    /// The names of the supported properties. A name that ends in `at-level` is followed by a level
    /// number.
    pub fn property_names() -> impl Iterator<Item = &'static str> {
        cairn_db::Db::property_names()
    }

    /// The parts of WALs that recovery dropped when the database was opened.
    #[must_use]
    pub fn dropped_at_recovery(&self) -> Vec<Dropped> {
        self.inner.dropped_at_recovery()
    }

    /// The error that made the database read-only, if any.
    #[must_use]
    pub fn background_error(&self) -> Option<Error> {
        self.inner.background_error()
    }

    /// Brings a secondary instance ([`DbBuilder::open_as_secondary`](crate::DbBuilder::open_as_secondary)) or a follower
    /// up to date: reads see everything that was in the primary's files when the call began. Iterators keep their state.
    ///
    /// # Errors
    ///
    /// `NotSupported` for other databases; `IoError` and `Corruption` of the primary's files, after which the state is
    /// the one before, and a later call tries again.
    pub fn try_catch_up_with_primary(&self) -> Result<()> {
        self.inner.try_catch_up_with_primary()
    }

    /// Syncs the WAL, waits for running jobs and closes the database.
    ///
    /// # Errors
    ///
    /// `IoError` if the WAL could not be synced: a power failure may then lose the last writes.
    pub fn close(self) -> Result<()> {
        self.inner.close()
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        // A helper thread may still read for an iterator whose future was dropped.
        if !self.inner.is_only_handle() && !self.inner.is_forked() {
            // Like that of a database whose last handle is dropped, the error is in the LOG at most.
            let _closed = self.inner.close();
        }
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db")
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}
