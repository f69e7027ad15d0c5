//! Column families.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_db::{
    Column, ColumnFamilyMetaData, ColumnFamilyMetaDataOptions, Columns, ExportImportFilesMetaData,
    MayExist, Range, SizeApproximationOptions, TablePropertiesCollection, UserRange, Value,
};
use cairn_options::{
    CompactRangeOptions, CompactionOptions, FamilyOptions, FlushOptions, IngestExternalFileOptions,
    ReadOptions, WriteOptions,
};
use cairn_types::Result;

use crate::db::Db;
use crate::iter::Iter;

/// A column family of an open database: a keyspace of its own with options of its own. Writes to
/// several families in one [`crate::WriteBatch`] take effect together.
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

    /// The families of the engine behind `families`.
    pub(crate) fn inner_of<'f>(families: &[&'f Family<'_>]) -> Vec<&'f cairn_db::Family> {
        families.iter().map(|family| &family.inner).collect()
    }

    /// The number by which logs and MANIFEST know the family; 0 is the default family.
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

    /// Changes options of the family while the database is open, by RocksDB's names: all of
    /// `changes`, or none. The new OPTIONS file is on the disk when the call returns.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if `changes` is empty, or names an option that does not exist, cannot have
    /// its value, or cannot change in an open database; `NotSupported` for options that Cairn does
    /// not have. Nothing is changed then. `IoError` if the options are in force, but could not
    /// be written to the OPTIONS file.
    pub fn set_options(&self, changes: &[(&str, &str)]) -> Result<()> {
        self.inner.set_options(changes)
    }

    /// True if the family has been dropped. Its data stays readable through this handle.
    #[must_use]
    pub fn is_dropped(&self) -> bool {
        self.inner.is_dropped()
    }

    /// The value of `key`, or `None` if it has none.
    ///
    /// # Errors
    ///
    /// `IoError` or `Corruption` of a file that had to be read.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.inner.get(key)
    }

    /// [`Family::get`] with options. A wide-column entity has the value of its default column.
    ///
    /// # Errors
    ///
    /// Those of [`Family::get`]; `Incomplete` if `read_tier` forbids what the read needs.
    #[inline]
    pub fn get_with(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Value>> {
        self.inner.get_with(key, options)
    }

    /// [`Family::get_with`] into the caller's `buffer`, which gets as much of the value as fits.
    /// Returns the length of the value.
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

    /// The existence of `key`, as far as filters and memory show it without reading a file.
    /// `Perhaps` is always a right answer, `No` is certain.
    #[must_use]
    pub fn key_may_exist(&self, key: &[u8], options: &ReadOptions) -> MayExist {
        self.inner.key_may_exist(key, options)
    }

    /// The values of `keys`, in their order, all as of one moment: each with its own result, so
    /// that an error of one leaves the others right. Much cheaper than a [`Family::get`] for each:
    /// the keys go down the tree together, and the blocks that are not in memory are read together.
    ///
    /// `options.value_size_soft_limit` bounds the bytes that are read: keys beyond it fail with `Aborted`.
    #[must_use]
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
    ) -> Vec<Result<Option<Value>>> {
        self.inner.multi_get(keys, options)
    }

    /// [`Family::multi_get`] of keys that ascend in the order of the family, which saves sorting
    /// them. Keys that do not are found all the same, less quickly.
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

    /// Deletes `key`. Deleting what does not exist is no error.
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

    /// Deletes `key`, which was put exactly once since it was last deleted.
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

    /// Adds an operand for the family's merge operator.
    ///
    /// # Errors
    ///
    /// `NotSupported` if the family has no merge operator; else see [`Db::write_with`].
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

    /// Sets `key` to `value`, which was written at `unix_seconds`.
    ///
    /// # Errors
    ///
    /// See [`Db::write_with`].
    pub fn timed_put(&self, key: &[u8], value: &[u8], unix_seconds: u64) -> Result<()> {
        self.inner.timed_put(key, value, unix_seconds)
    }

    /// The value that `key` was set to, and the operands that were merged to it since, from the oldest to the
    /// newest; nothing if it has no value. The merge operator is not called. Of an entity the
    /// default column counts.
    ///
    /// # Errors
    ///
    /// `Incomplete` if there are more than `expected_max`; its text has the number. Else those of
    /// [`Family::get_with`]; `InvalidArgument` if `expected_max` is 0.
    pub fn get_merge_operands(
        &self,
        key: &[u8],
        expected_max: usize,
        options: &ReadOptions,
    ) -> Result<Vec<Value>> {
        self.inner.get_merge_operands(key, expected_max, options)
    }

    /// Sets `key` to an entity of `columns`, pairs of name and value in any order.
    ///
    /// # Errors
    ///
    /// `Corruption` if a name repeats; else see [`Db::write_with`].
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

    /// The columns of `key`, sorted by name, or `None` if it has no value. A plain value is one column
    /// without a name.
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

    /// [`Family::multi_get`] of wide-column entities; a plain value is one column without a name.
    #[must_use]
    pub fn multi_get_entity<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
    ) -> Vec<Result<Option<Columns>>> {
        self.inner.multi_get_entity(keys, options)
    }

    /// Writes the family's memtable to a table, and waits for it.
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

    /// Compacts the keys from `begin` to `end`, both inclusive; `None` is unbounded. Memtables that
    /// hold such keys are flushed first.
    ///
    /// # Errors
    ///
    /// `Incomplete` if it was called off; `InvalidArgument` and `NotSupported` for a level or path
    /// that cannot be; the error that made the database read-only; errors of the files that were
    /// read.
    pub fn compact_range(
        &self,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        self.inner.compact_range(begin, end, options)
    }

    /// Compacts the tables called `files`, and those that have to go with them, into
    /// `output_level`; `path_id` is the directory of the outputs. Returns the paths of the outputs.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if there is no such file or level; `Aborted` if files of it are being
    /// compacted already; `Incomplete` if it was called off; errors of the files.
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

    /// Marks the files that touch the keys from `begin` to `end` for compaction.
    ///
    /// # Errors
    ///
    /// The error that made the database read-only.
    pub fn suggest_compact_range(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        self.inner.suggest_compact_range(begin, end)
    }

    /// Deletes the tables from level 1 on that lie in one of `ranges` with all their keys, without
    /// reading them. Other keys of the ranges stay. A quick way to free space before
    /// [`Family::delete_range`], not a deletion: snapshots see their keys go, and older versions in
    /// other files may come to light.
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

    /// Moves the files of level 0, which must not overlap, to `target_level`, above which nothing
    /// may lie.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` names the obstacle.
    pub fn promote_level_zero(&self, target_level: usize) -> Result<()> {
        self.inner.promote_level_zero(target_level)
    }

    /// Turns automatic compactions of this family on.
    ///
    /// # Errors
    ///
    /// Those of [`Family::set_options`].
    pub fn enable_auto_compaction(&self) -> Result<()> {
        self.inner.enable_auto_compaction()
    }

    /// Removes every key before `begin`, and every key from `end` on. Meant for databases that are
    /// split or joined: nothing else should write outside of the range meanwhile, and snapshots may
    /// see its keys go.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if `end` comes before `begin`; `NotSupported` for keys with timestamps;
    /// the error that made the database read-only.
    pub fn clip(&self, begin: &[u8], end: &[u8]) -> Result<()> {
        self.inner.clip(begin, end)
    }

    /// Ingests the tables `files`, all of them or none.
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

    /// Flushes the family and puts links to its tables into `dir`, which must not exist.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if `dir` exists; `NotSupported` if values lie in blob files; those of a
    /// flush; `IoError`. Nothing is left in `dir` then.
    pub fn export(&self, dir: impl AsRef<Path>) -> Result<ExportImportFilesMetaData> {
        self.inner.export(dir.as_ref())
    }

    /// The files of the family, level by level.
    #[must_use]
    pub fn metadata(&self, options: &ColumnFamilyMetaDataOptions) -> ColumnFamilyMetaData {
        self.inner.metadata(options)
    }

    /// The property of this name as text, or `None` if there is none.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<String> {
        self.inner.property(name)
    }

    /// The property of this name, if it is a number.
    #[must_use]
    pub fn property_number(&self, name: &str) -> Option<u64> {
        self.inner.property_number(name)
    }

    /// The property of this name as a map, if it has that form: `rocksdb.cfstats`,
    /// `rocksdb.dbstats`, stall and cache statistics, added-up table properties.
    #[must_use]
    pub fn property_map(&self, name: &str) -> Option<BTreeMap<String, String>> {
        self.inner.property_map(name)
    }

    /// The properties of every table of the family, by path. Tables that have not been read yet are
    /// opened.
    ///
    /// # Errors
    ///
    /// `IoError` or `Corruption` of a table.
    pub fn properties_of_all_tables(&self) -> Result<TablePropertiesCollection> {
        self.inner.properties_of_all_tables()
    }

    /// The properties of every table that has keys in one of `ranges`, both ends inclusive.
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

    /// The properties of every table by level, as [`Family::properties_of_all_tables`] gives them.
    ///
    /// # Errors
    ///
    /// `IoError` or `Corruption` of a table.
    pub fn properties_of_tables_by_level(&self) -> Result<Vec<TablePropertiesCollection>> {
        self.inner.properties_of_tables_by_level()
    }

    /// The approximate bytes of files (and, if included, of memtables) that hold the keys of each of
    /// `ranges`, begin included and end not. Blob files do not count.
    ///
    /// Costs a look into the index of up to two files a level and range; memtables are walked.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if nothing is to be counted; those of reading indexes.
    pub fn approximate_sizes(
        &self,
        ranges: &[Range<'_>],
        options: &SizeApproximationOptions,
    ) -> Result<Vec<u64>> {
        self.inner.approximate_sizes(ranges, options)
    }

    /// About how many entries of memtables lie in `range`, and their bytes. Walks them.
    #[must_use]
    pub fn approximate_memtable_stats(&self, range: &Range<'_>) -> (u64, u64) {
        self.inner.approximate_memtable_stats(range)
    }

    /// An iterator over the family, not yet on any key.
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
