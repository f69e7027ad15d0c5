//! Column families.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_db::{
    Column, ColumnFamilyMetaData, ColumnFamilyMetaDataOptions, Columns, ExportImportFilesMetaData,
    GetMergeOperandsOptions, MayExist, Operands, Range, SizeApproximationOptions,
    TablePropertiesCollection, UserRange, Value,
};
use cairn_options::{
    CompactRangeOptions, CompactionOptions, FamilyOptions, FlushOptions, IngestExternalFileOptions,
    ReadOptions, WriteOptions,
};
use cairn_types::Result;

use crate::db::Db;
use crate::iter::Iter;

/// A column family of an open database: a separate keyspace with its own options. Writes to several
/// families in one [`crate::WriteBatch`] are atomic.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use cairn::{Db, FamilyOptions, Options};
///
/// let db = Db::open(dir.path().join("db"), &Options::default().create_if_missing(true))?;
/// let stones = db.create_family("stones", &FamilyOptions::default())?;
/// stones.put(b"k", b"in stones")?;
/// assert!(db.get(b"k")?.is_none());
/// # Ok::<(), cairn::Error>(())
/// ```
#[derive(Clone)]
pub struct Family<'db> {
    pub(crate) inner: cairn_db::Family,
    db: PhantomData<&'db Db>,
}

impl<'db> Family<'db> {
    pub(crate) fn new(inner: cairn_db::Family) -> Family<'db> {
        Family {
            inner,
            db: PhantomData,
        }
    }

    /// The engine's handles behind `families`.
    pub(crate) fn inner_of<'f>(families: &[&'f Family<'_>]) -> Vec<&'f cairn_db::Family> {
        families.iter().map(|family| &family.inner).collect()
    }

    /// The id of the family in WALs and the MANIFEST; 0 for the default family.
    #[must_use]
    #[inline]
    pub fn id(&self) -> u32 {
        self.inner.id()
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// The options in effect.
    #[must_use]
    pub fn options(&self) -> Arc<FamilyOptions> {
        self.inner.options()
    }

    /// Changes options of the family while the database is open, atomically and by RocksDB's names.
    /// When the call returns, the new OPTIONS file is durable.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if `changes` is empty, or if an option does not exist, has an invalid
    /// value, or cannot be changed while the database is open; `NotSupported` for options that
    /// Cairn does not support. Nothing is then changed. `IoError` if the new options are in effect
    /// but could not be written to the OPTIONS file.
    pub fn set_options(&self, changes: &[(&str, &str)]) -> Result<()> {
        self.inner.set_options(changes)
    }

    /// True if the family has been dropped. Its data stays readable through this handle.
    #[must_use]
    pub fn is_dropped(&self) -> bool {
        self.inner.is_dropped()
    }

    /// The value of `key`, or `None` if there is none.
    ///
    /// # Errors
    ///
    /// `IoError` or `Corruption` of a file that was read.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.inner.get(key)
    }

    /// [`Family::get`] with options. For a wide-column entity, the value of its default column.
    ///
    /// # Errors
    ///
    /// Those of [`Family::get`]; `Incomplete` if `read_tier` forbids a necessary read.
    #[inline]
    pub fn get_with(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Value>> {
        self.inner.get_with(key, options)
    }

    /// [`Family::get_with`] into the caller's `buffer`, which receives as much of the value as
    /// fits. Returns the length of the value.
    ///
    /// # Errors
    ///
    /// Those of [`Family::get_with`].
    #[inline]
    pub fn get_into(
        &self,
        key: &[u8],
        buffer: &mut [u8],
        options: &ReadOptions,
    ) -> Result<Option<usize>> {
        self.inner.get_into(key, buffer, options)
    }

    /// Checks for the existence of `key` without reading a file, using filters and data in memory.
    /// `No` is certain; `Perhaps` is always possible.
    #[must_use]
    pub fn key_may_exist(&self, key: &[u8], options: &ReadOptions) -> MayExist {
        self.inner.key_may_exist(key, options)
    }

    /// The values of `keys`, in the same order and all as of the same point in time. Each key has
    /// its own result, so an error does not affect the others. Much cheaper than a [`Family::get`]
    /// per key: the keys are searched together, and missing blocks are read in one batch.
    ///
    /// Keys beyond `options.value_size_soft_limit` bytes of values fail with `Aborted`.
    #[must_use]
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
    ) -> Vec<Result<Option<Value>>> {
        self.inner.multi_get(keys, options)
    }

    /// [`Family::multi_get`] for keys in ascending order, which saves sorting them. Keys out of
    /// order are still found, but more slowly.
    #[must_use]
    pub fn multi_get_sorted<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
    ) -> Vec<Result<Option<Value>>> {
        self.inner.multi_get_sorted(keys, options)
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    ///
    /// See [`Db::write_with`].
    #[inline]
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.inner.put(key, value)
    }

    /// [`Family::put`] with options.
    ///
    /// # Errors
    ///
    /// See [`Db::write_with`].
    #[inline]
    pub fn put_with(&self, key: &[u8], value: &[u8], options: &WriteOptions) -> Result<()> {
        self.inner.put_with(key, value, options)
    }

    /// Deletes `key`. Deleting a missing key is not an error.
    ///
    /// # Errors
    ///
    /// See [`Db::write_with`].
    #[inline]
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        self.inner.delete(key)
    }

    /// [`Family::delete`] with options.
    ///
    /// # Errors
    ///
    /// See [`Db::write_with`].
    pub fn delete_with(&self, key: &[u8], options: &WriteOptions) -> Result<()> {
        self.inner.delete_with(key, options)
    }

    /// Deletes `key`, which must have been put exactly once since it was last deleted.
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

    /// Adds a merge operand to `key`.
    ///
    /// # Errors
    ///
    /// `NotSupported` if the family has no merge operator; see also [`Db::write_with`].
    #[inline]
    pub fn merge(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.inner.merge(key, operand)
    }

    /// [`Family::merge`] with options.
    ///
    /// # Errors
    ///
    /// See [`Family::merge`].
    pub fn merge_with(&self, key: &[u8], operand: &[u8], options: &WriteOptions) -> Result<()> {
        self.inner.merge_with(key, operand, options)
    }

    /// Sets `key` to `value` with the write time `unix_seconds`.
    ///
    /// # Errors
    ///
    /// See [`Db::write_with`].
    pub fn timed_put(&self, key: &[u8], value: &[u8], unix_seconds: u64) -> Result<()> {
        self.inner.timed_put(key, value, unix_seconds)
    }

    /// The base value of `key`, if any, and its merge operands, oldest first; empty if the key does
    /// not exist. They are pinned where they are stored, without a copy. The merge operator is not
    /// called. For a wide-column entity, the base value is its default column.
    ///
    /// # Errors
    ///
    /// `Incomplete` (`MergeOperandsInsufficientCapacity`) if there are more than `expected_max`,
    /// with their number in the message; those of [`Family::get_with`].
    pub fn get_merge_operands(
        &self,
        key: &[u8],
        expected_max: usize,
        options: &ReadOptions,
    ) -> Result<Operands> {
        self.inner.get_merge_operands(key, expected_max, options)
    }

    /// [`Family::get_merge_operands`] with a function that may end the read early. `request` then
    /// has the number of operands found.
    ///
    /// # Errors
    ///
    /// Those of [`Family::get_merge_operands`].
    pub fn get_merge_operands_with(
        &self,
        key: &[u8],
        request: &mut GetMergeOperandsOptions<'_>,
        options: &ReadOptions,
    ) -> Result<Operands> {
        self.inner.get_merge_operands_with(key, request, options)
    }

    /// Sets `key` to an entity of `columns`, pairs of name and value in any order.
    ///
    /// # Errors
    ///
    /// `Corruption` if a name is repeated; see also [`Db::write_with`].
    pub fn put_entity(&self, key: &[u8], columns: &[Column<'_>]) -> Result<()> {
        self.inner.put_entity(key, columns)
    }

    /// [`Family::put_entity`] with options.
    ///
    /// # Errors
    ///
    /// Those of [`Family::put_entity`].
    pub fn put_entity_with(
        &self,
        key: &[u8],
        columns: &[Column<'_>],
        options: &WriteOptions,
    ) -> Result<()> {
        self.inner.put_entity_with(key, columns, options)
    }

    /// The columns of `key`, sorted by name, or `None` if the key does not exist. A plain value is
    /// a single column with an empty name.
    ///
    /// # Errors
    ///
    /// Those of [`Family::get`].
    pub fn get_entity(&self, key: &[u8]) -> Result<Option<Columns>> {
        self.get_entity_with(key, &ReadOptions::default())
    }

    /// [`Family::get_entity`] with options.
    ///
    /// # Errors
    ///
    /// Those of [`Family::get_with`].
    pub fn get_entity_with(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Columns>> {
        self.inner.get_entity(key, options)
    }

    /// [`Family::multi_get`] for wide-column entities; a plain value is a single column with an
    /// empty name.
    #[must_use]
    pub fn multi_get_entity<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
    ) -> Vec<Result<Option<Columns>>> {
        self.inner.multi_get_entity(keys, options)
    }

    /// Flushes the family's memtables and waits for the flush.
    ///
    /// # Errors
    ///
    /// The error that made the database read-only.
    pub fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    /// [`Family::flush`] with options.
    ///
    /// # Errors
    ///
    /// The error that made the database read-only.
    pub fn flush_with(&self, options: &FlushOptions) -> Result<()> {
        self.inner.flush_with(options)
    }

    /// Compacts the keys from `begin` to `end`, both inclusive; `None` is unbounded. Memtables with
    /// such keys are flushed first.
    ///
    /// # Errors
    ///
    /// `Incomplete` if the compaction was cancelled; `InvalidArgument` or `NotSupported` for an
    /// invalid level or path; the error that made the database read-only; errors of the files read.
    pub fn compact_range(
        &self,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        self.inner.compact_range(begin, end, options)
    }

    /// Compacts the tables `files`, and others that must be included, into `output_level`;
    /// `path_id` selects the directory of the output tables; `None` selects the only one.
    /// Returns the paths of the outputs: tables, and then blob files.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if a file or the level does not exist; `NotSupported` without a `path_id` if
    /// there are several directories; `Aborted` if some of the files are already being compacted;
    /// `Incomplete` if the compaction was cancelled; errors of the files.
    pub fn compact_files(
        &self,
        options: &CompactionOptions,
        files: &[&str],
        output_level: usize,
        path_id: Option<u32>,
    ) -> Result<Vec<String>> {
        self.inner
            .compact_files(options, files, output_level, path_id)
    }

    /// Marks the files that overlap the keys from `begin` to `end` to be compacted soon.
    ///
    /// # Errors
    ///
    /// The error that made the database read-only.
    pub fn suggest_compact_range(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        self.inner.suggest_compact_range(begin, end)
    }

    /// Deletes the tables below level 0 whose keys are entirely within one of `ranges`, without
    /// reading them. Keys in other files stay. Use it to free space quickly before
    /// [`Family::delete_range`]; it is not a deletion itself: snapshots lose the keys as well, and
    /// older versions in other files may reappear.
    ///
    /// # Errors
    ///
    /// The error that made the database read-only.
    pub fn delete_files_in_ranges(
        &self,
        ranges: &[UserRange<'_>],
        include_end: bool,
    ) -> Result<()> {
        self.inner.delete_files_in_ranges(ranges, include_end)
    }

    /// Moves the level-0 files, which must not overlap, to `target_level`. The levels from 1 to
    /// `target_level` must be empty.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, with the reason.
    pub fn promote_level_zero(&self, target_level: usize) -> Result<()> {
        self.inner.promote_level_zero(target_level)
    }

    /// Enables automatic compactions of the family.
    ///
    /// # Errors
    ///
    /// Those of [`Family::set_options`].
    pub fn enable_auto_compaction(&self) -> Result<()> {
        self.inner.enable_auto_compaction()
    }

    /// Removes all keys before `begin` and all keys at or after `end`. Meant for splitting and
    /// merging databases: there should be no other writes outside of the range in the meantime, and
    /// snapshots may lose keys there.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if `end` comes before `begin`; `NotSupported` for keys with timestamps;
    /// the error that made the database read-only.
    pub fn clip(&self, begin: &[u8], end: &[u8]) -> Result<()> {
        self.inner.clip(begin, end)
    }

    /// Ingests the external tables `files` atomically.
    ///
    /// # Errors
    ///
    /// Those of [`Db::ingest_external_files`].
    pub fn ingest_external_file(
        &self,
        files: impl IntoIterator<Item = impl Into<PathBuf>>,
        options: &IngestExternalFileOptions,
    ) -> Result<()> {
        self.inner.ingest_external_file(files, options)
    }

    /// Flushes the family and creates links to its tables in `dir`, which must not exist.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if `dir` exists; `NotSupported` if values are in blob files; those of a
    /// flush; `IoError`. Nothing is then left in `dir`.
    pub fn export(&self, dir: impl AsRef<Path>) -> Result<ExportImportFilesMetaData> {
        self.inner.export(dir.as_ref())
    }

    /// The files of the family, level by level.
    #[must_use]
    pub fn metadata(&self, options: &ColumnFamilyMetaDataOptions) -> ColumnFamilyMetaData {
        self.inner.metadata(options)
    }

    /// The property `name` as text, or `None` if it does not exist.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<String> {
        self.inner.property(name)
    }

    /// The property `name`, if it is a number.
    #[must_use]
    pub fn property_number(&self, name: &str) -> Option<u64> {
        self.inner.property_number(name)
    }

    /// The property `name` as a map, if it has that form: `rocksdb.cfstats`, `rocksdb.dbstats`,
    /// stall and cache statistics, aggregated table properties.
    #[must_use]
    pub fn property_map(&self, name: &str) -> Option<BTreeMap<String, String>> {
        self.inner.property_map(name)
    }

    /// The properties of all tables of the family, by path. Tables that are not open are opened.
    ///
    /// # Errors
    ///
    /// `IoError` or `Corruption` of a table.
    pub fn properties_of_all_tables(&self) -> Result<TablePropertiesCollection> {
        self.inner.properties_of_all_tables()
    }

    /// The properties of the tables that overlap one of `ranges`, both ends inclusive.
    ///
    /// # Errors
    ///
    /// `IoError` or `Corruption` of a table.
    pub fn properties_of_tables_in_range(
        &self,
        ranges: &[(&[u8], &[u8])],
    ) -> Result<TablePropertiesCollection> {
        self.inner.properties_of_tables_in_range(ranges)
    }

    /// The result of [`Family::properties_of_all_tables`], grouped by level.
    ///
    /// # Errors
    ///
    /// `IoError` or `Corruption` of a table.
    pub fn properties_of_tables_by_level(&self) -> Result<Vec<TablePropertiesCollection>> {
        self.inner.properties_of_tables_by_level()
    }

    /// The approximate size of the data of each of `ranges` (end exclusive) in tables and, if
    /// included, in memtables. Blob files are not counted.
    ///
    /// Reads the indexes of up to two files per level and range; memtables are scanned.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if neither files nor memtables are included; those of reading indexes.
    pub fn approximate_sizes(
        &self,
        ranges: &[Range<'_>],
        options: &SizeApproximationOptions,
    ) -> Result<Vec<u64>> {
        self.inner.approximate_sizes(ranges, options)
    }

    /// The approximate number and size of the memtable entries in `range`, which are scanned.
    #[must_use]
    pub fn approximate_memtable_stats(&self, range: &Range<'_>) -> (u64, u64) {
        self.inner.approximate_memtable_stats(range)
    }

    /// An iterator over the family, not yet positioned.
    #[must_use]
    pub fn iter(&self) -> Iter<'db> {
        Iter::new(self.inner.iter())
    }

    /// [`Family::iter`] with options: bounds, a snapshot, prefix rules.
    #[must_use]
    pub fn iter_with(&self, options: &ReadOptions) -> Iter<'db> {
        Iter::new(self.inner.iter_with(options))
    }
}

impl fmt::Debug for Family<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Family")
            .field("id", &self.id())
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}
