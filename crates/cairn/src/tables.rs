//! Tables outside of a database: writing, reading, and external sorting.

use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use cairn_db::{Columns, ExternalSstFileInfo, SortedRunBuilderOptions, Value};
use cairn_options::{DbOptions, FamilyOptions, ReadOptions};
use cairn_platform::World;
use cairn_types::Result;

use crate::batch::WriteBatch;
use crate::family::Family;
use crate::iter::Iter;
use crate::iter::cursor_methods;
use crate::properties::TableProperties;

/// A writer of external tables, one at a time. [`crate::files`] has an example.
pub struct SstFileWriter {
    inner: cairn_db::SstFileWriter,
}

impl SstFileWriter {
    /// Creates a writer whose tables have the format that a family with these options uses in its
    /// last level. With `value_ttl`, it appends the write time to each value, as a database with a
    /// time to live requires.
    #[must_use]
    pub fn new(world: &World, db: &DbOptions, family: &FamilyOptions) -> SstFileWriter {
        SstFileWriter {
            inner: cairn_db::SstFileWriter::new(world, db, family),
        }
    }

    /// Creates a writer of tables for `family`; other families reject them.
    #[must_use]
    pub fn for_family(family: &Family<'_>) -> SstFileWriter {
        SstFileWriter {
            inner: cairn_db::SstFileWriter::for_family(&family.inner),
        }
    }

    /// Starts a table at `path`, replacing an existing file.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if a table is already open or the options are invalid; `IoError`.
    pub fn open(&mut self, path: impl AsRef<Path>) -> Result<()> {
        self.inner.open(path.as_ref())
    }

    /// Sets `key` to `value`. Keys must be added in order, each once; this applies to all kinds of
    /// entries except range deletions.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if no table is open or `key` is not after the previous one; `IoError`.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.inner.put(key, value)
    }

    /// [`SstFileWriter::put`] with a timestamp, for key orders that have them.
    ///
    /// # Errors
    ///
    /// Those of [`SstFileWriter::put`]; `InvalidArgument` for a timestamp of the wrong length.
    pub fn put_with_timestamp(&mut self, key: &[u8], timestamp: &[u8], value: &[u8]) -> Result<()> {
        self.inner.put_with_timestamp(key, timestamp, value)
    }

    /// Sets `key` to an entity of `columns`, which are pairs of name and value in any order.
    ///
    /// # Errors
    ///
    /// Those of [`SstFileWriter::put`]; `InvalidArgument` if a name is repeated.
    pub fn put_entity(&mut self, key: &[u8], columns: &[(&[u8], &[u8])]) -> Result<()> {
        self.inner.put_entity(key, columns)
    }

    /// Adds a merge operand to `key`.
    ///
    /// # Errors
    ///
    /// Those of [`SstFileWriter::put`].
    pub fn merge(&mut self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.inner.merge(key, operand)
    }

    /// Deletes `key`.
    ///
    /// # Errors
    ///
    /// Those of [`SstFileWriter::put`].
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.inner.delete(key)
    }

    /// [`SstFileWriter::delete`] with a timestamp, for key orders that have them.
    ///
    /// # Errors
    ///
    /// Those of [`SstFileWriter::put_with_timestamp`].
    pub fn delete_with_timestamp(&mut self, key: &[u8], timestamp: &[u8]) -> Result<()> {
        self.inner.delete_with_timestamp(key, timestamp)
    }

    /// Deletes all keys from `begin` up to, but excluding, `end` that are in the database at
    /// ingestion; entries of this file are not affected. Range deletions may be added in any order.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if no table is open or `end` comes before `begin`; `IoError`.
    pub fn delete_range(&mut self, begin: &[u8], end: &[u8]) -> Result<()> {
        self.inner.delete_range(begin, end)
    }

    /// [`SstFileWriter::delete_range`] with a timestamp, for key orders that have them.
    ///
    /// # Errors
    ///
    /// Those of [`SstFileWriter::delete_range`], and `InvalidArgument` for a timestamp of the wrong
    /// length.
    pub fn delete_range_with_timestamp(
        &mut self,
        begin: &[u8],
        end: &[u8],
        timestamp: &[u8],
    ) -> Result<()> {
        self.inner
            .delete_range_with_timestamp(begin, end, timestamp)
    }

    /// Finishes the table and syncs it. Its directory entry is synced by the ingestion.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if no table is open or it is empty; `IoError`. The file is then removed.
    pub fn finish(&mut self) -> Result<ExternalSstFileInfo> {
        self.inner.finish()
    }

    /// The current size of the open table, or the size of the last finished one, in bytes.
    #[must_use]
    pub fn file_size(&self) -> u64 {
        self.inner.file_size()
    }
}

impl fmt::Debug for SstFileWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SstFileWriter")
            .field("file_size", &self.file_size())
            .finish_non_exhaustive()
    }
}

/// A reader for a single table outside of a database. The table is read as if it were the only one
/// of a database: only the newest versions are visible, operands are merged, and range deletions
/// are applied.
pub struct SstFileReader {
    inner: cairn_db::SstFileReader,
}

impl SstFileReader {
    /// Opens the table at `path` with the comparator, merge operator and table options of `family`.
    ///
    /// # Errors
    ///
    /// `IoError`; `Corruption` with file and offset; `InvalidArgument` if its keys are in another
    /// order.
    pub fn open(
        world: &World,
        path: impl AsRef<Path>,
        family: &FamilyOptions,
    ) -> Result<SstFileReader> {
        let inner = cairn_db::SstFileReader::open(world, path.as_ref(), family)?;
        Ok(SstFileReader { inner })
    }

    /// The properties that the writer of the table recorded.
    #[must_use]
    pub fn properties(&self) -> &TableProperties {
        self.inner.properties()
    }

    /// The value of `key`, or `None` if there is none in the table.
    ///
    /// # Errors
    ///
    /// `IoError` or `Corruption` of the file.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.inner.get(key)
    }

    /// [`SstFileReader::get`] with options.
    ///
    /// # Errors
    ///
    /// Those of [`SstFileReader::get`].
    pub fn get_with(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Value>> {
        self.inner.get_with(key, options)
    }

    /// The columns of `key`, or `None` if there is no value in the table.
    ///
    /// # Errors
    ///
    /// Those of [`SstFileReader::get`].
    pub fn get_entity(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Columns>> {
        self.inner.get_entity(key, options)
    }

    /// An iterator over the table, not yet positioned.
    #[must_use]
    pub fn iter(&self, options: &ReadOptions) -> SstIter<'_> {
        SstIter {
            inner: self.inner.iter(options),
            moved: false,
            reader: PhantomData,
        }
    }

    /// Passes every entry of the file to `take`, in order: the internal key (user key, then
    /// sequence number and kind in eight bytes) and the value. Range tombstones are not included.
    ///
    /// # Errors
    ///
    /// Those of the file, and of `take`.
    pub fn for_each_entry(&self, take: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        self.inner.for_each_entry(take)
    }

    /// Reads the whole file and verifies every block.
    ///
    /// # Errors
    ///
    /// `Corruption` with the offset of the first damaged block.
    pub fn verify_checksum(&self) -> Result<()> {
        self.inner.verify_checksum()
    }

    /// Counts the entries and compares the count to the table properties.
    ///
    /// # Errors
    ///
    /// `Corruption` if they differ; those of the file.
    pub fn verify_num_entries(&self) -> Result<()> {
        self.inner.verify_num_entries()
    }
}

impl fmt::Debug for SstFileReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SstFileReader").finish_non_exhaustive()
    }
}

/// A bidirectional cursor over the keys of a table. Created by [`SstFileReader::iter`].
pub struct SstIter<'reader> {
    inner: cairn_db::SstIter,
    /// True after the first seek.
    pub(crate) moved: bool,
    reader: PhantomData<&'reader SstFileReader>,
}

impl SstIter<'_> {
    cursor_methods!();
}

impl fmt::Debug for SstIter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SstIter")
            .field("valid", &self.valid())
            .finish_non_exhaustive()
    }
}

/// Sorts more data than fits into memory: pairs are added in any order, by any number of threads,
/// and become tables in key order. If several pairs have the same key, the one added last is kept.
///
/// The tables can be ingested with `allow_db_generated_files` and without `snapshot_consistency`;
/// unless `keep_temp_db` is set, they are deleted together with the directory. [`crate::files`] has
/// an example.
pub struct SortedRunBuilder {
    inner: cairn_db::SortedRunBuilder,
}

impl SortedRunBuilder {
    /// Creates an empty builder.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for invalid options, or if the directory already contains a database;
    /// `IoError`.
    pub fn new(world: &World, options: SortedRunBuilderOptions) -> Result<SortedRunBuilder> {
        let inner = cairn_db::SortedRunBuilder::new(world, options)?;
        Ok(SortedRunBuilder { inner })
    }

    /// Adds a pair.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` after [`SortedRunBuilder::finish`]; `IoError`.
    pub fn add(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.inner.add(key, value)
    }

    /// Adds the pairs of `batch`, which is cheaper for many pairs. The batch should contain puts
    /// only.
    ///
    /// # Errors
    ///
    /// Those of [`SortedRunBuilder::add`].
    pub fn add_batch(&self, batch: &WriteBatch) -> Result<()> {
        self.inner.add_batch(&batch.inner)
    }

    /// Sorts the added pairs into tables.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if called twice; `IoError` of a flush or compaction.
    pub fn finish(&mut self) -> Result<()> {
        self.inner.finish()
    }

    /// The tables in key order; empty before [`SortedRunBuilder::finish`].
    #[must_use]
    pub fn output_files(&self) -> &[PathBuf] {
        self.inner.output_files()
    }

    /// The number of pairs in the tables; before [`SortedRunBuilder::finish`], the number of pairs
    /// added.
    #[must_use]
    pub fn num_entries(&self) -> u64 {
        self.inner.num_entries()
    }

    /// The size of the tables in bytes; before [`SortedRunBuilder::finish`], that of the pairs
    /// added.
    #[must_use]
    pub fn data_size(&self) -> u64 {
        self.inner.data_size()
    }

    /// An iterator over all pairs in key order.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` before [`SortedRunBuilder::finish`].
    pub fn iter(&self, options: &ReadOptions) -> Result<Iter<'_>> {
        self.inner.iter(options).map(Iter::new)
    }

    /// Deletes the temporary database with all tables; the builder cannot be used afterwards.
    /// Dropping the builder does the same unless `keep_temp_db` is set.
    ///
    /// # Errors
    ///
    /// `IoError`.
    pub fn cleanup(&mut self) -> Result<()> {
        self.inner.cleanup()
    }
}

impl fmt::Debug for SortedRunBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SortedRunBuilder")
            .field("num_entries", &self.num_entries())
            .field("data_size", &self.data_size())
            .finish_non_exhaustive()
    }
}
