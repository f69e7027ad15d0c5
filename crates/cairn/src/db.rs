//! The handle of an open database.

use std::fmt;
use std::path::Path;

use cairn_db::{Dropped, FamilyDescriptor, Value};
use cairn_options::{CompactRangeOptions, FamilyOptions, ReadOptions, WriteOptions};
use cairn_platform::World;
use cairn_types::{Error, Result, SequenceNumber};

use crate::batch::WriteBatch;
use crate::builder::DbBuilder;
use crate::family::Family;
use crate::iter::Iter;
use crate::open::Options;
use crate::snapshot::Snapshot;

/// An open database. Share it between threads by reference or in an `Arc`; the last owner closes
/// it, by [`Db::close`] or by dropping it.
pub struct Db {
    pub(crate) inner: cairn_db::Db,
}

impl Db {
    /// Opens the database in the directory `path` with all its column families, which all get the
    /// family options of `options`.
    ///
    /// Built-in comparators and merge operators that the files record need not be named.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if it does not exist or the options make no sense; `NotSupported` for
    /// files and options that Cairn does not know; `IoError` if it is open elsewhere; `Corruption`
    /// that names file and offset.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Db> {
        Db::builder(path).options(options.clone()).open()
    }

    /// Opens the database for reading only: no file of it is changed, and other openings are not
    /// excluded. Reads may fail if another opening writes meanwhile.
    ///
    /// # Errors
    ///
    /// Those of [`Db::open`].
    pub fn open_read_only(path: impl AsRef<Path>, options: &Options) -> Result<Db> {
        let builder = Db::builder(path).options(options.clone());
        builder.read_only(true).open()
    }

    /// Returns a builder for opening the database in `path`: with options for single families, for
    /// reading only, or in another [`World`].
    pub fn builder(path: impl AsRef<Path>) -> DbBuilder {
        DbBuilder::new(path.as_ref())
    }

    /// The names of the column families of the database in `path`. Nothing is changed.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if there is no database; `Corruption` of its MANIFEST.
    pub fn list_families(path: impl AsRef<Path>) -> Result<Vec<String>> {
        Db::list_families_in(&World::posix(), path.as_ref())
    }

    /// [`Db::list_families`] in a world of the caller's choice.
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

    /// The value of `key`, in the memory where it lies, or `None` if it has none.
    ///
    /// # Errors
    ///
    /// `IoError` or `Corruption` of a file that had to be read.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.inner.get(key)
    }

    /// [`Db::get`] with options.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get`]; `Incomplete` if `read_tier` forbids what the read needs.
    pub fn get_with(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Value>> {
        self.inner.get_with(key, options)
    }

    /// Deletes `key`. Deleting what does not exist is no error.
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

    /// Deletes `key`, which was put exactly once since it was last deleted; cheaper than
    /// [`Db::delete`]. On a key that was put twice or merged the result is undefined.
    ///
    /// # Errors
    ///
    /// See [`Db::write_with`].
    pub fn single_delete(&self, key: &[u8]) -> Result<()> {
        self.inner.single_delete(key)
    }

    /// Deletes every key from `begin` up to, not including, `end`.
    ///
    /// # Errors
    ///
    /// See [`Db::write_with`].
    pub fn delete_range(&self, begin: &[u8], end: &[u8]) -> Result<()> {
        self.inner.delete_range(begin, end)
    }

    /// Adds an operand for the merge operator of the default family.
    ///
    /// # Errors
    ///
    /// `NotSupported` if there is no merge operator; else see [`Db::write_with`].
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

    /// Writes `batch`: all of it or nothing.
    ///
    /// # Errors
    ///
    /// See [`Db::write_with`].
    pub fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.inner.write(&batch.inner)
    }

    /// [`Db::write`] with options.
    ///
    /// # Errors
    ///
    /// After `InvalidArgument`, `Incomplete` and `NotSupported` nothing was written. After an
    /// `IoError` the batch is in doubt (found whole or not at all when the database is opened
    /// again) and the database is read-only.
    pub fn write_with(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        self.inner.write_with(&batch.inner, options)
    }

    /// An iterator over the default family, not yet on any key.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter::new(self.inner.iter())
    }

    /// [`Db::iter`] with options: bounds, a snapshot, prefix rules.
    #[must_use]
    pub fn iter_with(&self, options: &ReadOptions) -> Iter<'_> {
        Iter::new(self.inner.iter_with(options))
    }

    /// A snapshot: the present state, readable while the value lives.
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

    /// The live families, in the order of their creation.
    #[must_use]
    pub fn families(&self) -> Vec<Family<'_>> {
        self.inner.families().into_iter().map(Family::new).collect()
    }

    /// Creates a family.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the name is empty or taken, or the options make no sense.
    pub fn create_family(&self, name: &str, options: &FamilyOptions) -> Result<Family<'_>> {
        self.inner.create_family(name, options).map(Family::new)
    }

    /// Creates several families, all of them or none, in the order given. One call for many families syncs the MANIFEST
    /// and writes the OPTIONS file once.
    ///
    /// # Errors
    ///
    /// Those of [`Db::create_family`], for any of them.
    pub fn create_families(&self, given: &[FamilyDescriptor]) -> Result<Vec<Family<'_>>> {
        let created = self.inner.create_families(given)?;
        Ok(created.into_iter().map(Family::new).collect())
    }

    /// Drops `family` and all that is in it. Readers that hold it go on reading.
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
    /// The error that made the database read-only; errors of the files that were read.
    pub fn compact_range(
        &self,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        self.inner.compact_range(begin, end, options)
    }

    /// Waits until no flush or compaction runs or is due.
    ///
    /// # Errors
    ///
    /// The error that made the database read-only.
    pub fn wait_until_quiet(&self) -> Result<()> {
        self.inner.wait_until_quiet()
    }

    /// The tickers and histograms that the database keeps, alone or with others; `None` if the
    /// options say that it keeps none.
    #[must_use]
    pub fn statistics(&self) -> Option<&std::sync::Arc<crate::observe::Statistics>> {
        self.inner.statistics()
    }

    /// The work of threads for this database now, if it was opened with `enable_thread_tracking`: an entry for
    /// each flush, compaction and verification, in the order in which they began.
    /// [`threads::list`](crate::observe::threads::list) has those of all databases of the process, and
    /// openings.
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

    /// The growth of tickers, in slices of `stats_persist_period_sec` each, of those that ended at
    /// `from` or later and before `to`, in seconds since 1970; the oldest first. They lie in memory,
    /// in at most `stats_history_buffer_size` bytes: the oldest go first.
    #[must_use]
    pub fn stats_history(
        &self,
        from: u64,
        to: u64,
    ) -> Vec<std::sync::Arc<crate::observe::StatsSlice>> {
        self.inner.stats_history(from, to)
    }

    /// The property `name` of the default family as text, by RocksDB's names.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<String> {
        self.inner.property(name)
    }

    /// The names of the properties that have an answer. A name that ends in `at-level` is followed
    /// by a level's number.
    pub fn property_names() -> impl Iterator<Item = &'static str> {
        cairn_db::Db::property_names()
    }

    /// The parts of logs that recovery left out when the database was opened.
    #[must_use]
    pub fn dropped_at_recovery(&self) -> Vec<Dropped> {
        self.inner.dropped_at_recovery()
    }

    /// The error that made the database read-only, if it is.
    #[must_use]
    pub fn background_error(&self) -> Option<Error> {
        self.inner.background_error()
    }

    /// Syncs the log, waits for running jobs and closes the database.
    ///
    /// # Errors
    ///
    /// `IoError` if the log could not be synced: the last writes may then be lost in a power cut.
    pub fn close(self) -> Result<()> {
        self.inner.close()
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db")
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}
