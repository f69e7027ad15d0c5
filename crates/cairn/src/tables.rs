//! Tables outside of a database: writing, reading and sorting.

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

/// Writes external tables, one after another. [`crate::files`] has an example.
pub struct SstFileWriter {
    inner: cairn_db::SstFileWriter,
}

impl SstFileWriter {
    /// A writer of tables as a family with these options would write them to its last level. With
    /// `value_ttl` it writes the time behind each value, as a database with a time to live needs it.
    #[must_use]
    pub fn new(world: &World, db: &DbOptions, family: &FamilyOptions) -> SstFileWriter {
        SstFileWriter {
            inner: cairn_db::SstFileWriter::new(world, db, family),
        }
    }

    /// A writer of tables for `family`: other families refuse them.
    #[must_use]
    pub fn for_family(family: &Family<'_>) -> SstFileWriter {
        SstFileWriter {
            inner: cairn_db::SstFileWriter::for_family(&family.inner),
        }
    }

    /// Begins a table at `path`. A file that is there is replaced.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if a table is being written already or the options make no sense;
    /// `IoError`.
    pub fn open(&mut self, path: impl AsRef<Path>) -> Result<()> {
        self.inner.open(path.as_ref())
    }

    /// Sets `key` to `value`. Keys come in the family's order, each once; so for all kinds of
    /// entries but range deletions.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if no table is open or `key` does not come behind the last one; `IoError`.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.inner.put(key, value)
    }

    /// [`SstFileWriter::put`] with a timestamp, for orders that have them.
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
    /// Those of [`SstFileWriter::put`]; `InvalidArgument` if a name repeats.
    pub fn put_entity(&mut self, key: &[u8], columns: &[(&[u8], &[u8])]) -> Result<()> {
        self.inner.put_entity(key, columns)
    }

    /// Adds an operand for the merge operator.
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

    /// [`SstFileWriter::delete`] with a timestamp, for orders that have them.
    ///
    /// # Errors
    ///
    /// Those of [`SstFileWriter::put_with_timestamp`].
    pub fn delete_with_timestamp(&mut self, key: &[u8], timestamp: &[u8]) -> Result<()> {
        self.inner.delete_with_timestamp(key, timestamp)
    }

    /// Deletes every key of the database, not of this file, from `begin` up to, not including,
    /// `end`. Range deletions may come in any order.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if no table is open or `end` comes before `begin`; `IoError`.
    pub fn delete_range(&mut self, begin: &[u8], end: &[u8]) -> Result<()> {
        self.inner.delete_range(begin, end)
    }

    /// [`SstFileWriter::delete_range`] with a timestamp, for orders that have them.
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

    /// Ends the table: it is complete and synced. Its name is not: an ingestion syncs
    /// that.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if no table is open or nothing was added; `IoError`. The file is then
    /// removed.
    pub fn finish(&mut self) -> Result<ExternalSstFileInfo> {
        self.inner.finish()
    }

    /// Bytes of the current table so far, or of the last one that was finished.
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

/// One table, open for reading without a database. It is read as if it were the only table of a
/// database: newest versions, merged operands, range deletions applied.
pub struct SstFileReader {
    inner: cairn_db::SstFileReader,
}

impl SstFileReader {
    /// Opens the table at `path` with the comparator, merge operator and table options of `family`.
    ///
    /// # Errors
    ///
    /// `IoError`; `Corruption` that names file and offset; `InvalidArgument` if its keys are in
    /// another order.
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

    /// The value of `key`, or `None` if the table has none.
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

    /// The columns of `key`, or `None` if the table has no value of it.
    ///
    /// # Errors
    ///
    /// Those of [`SstFileReader::get`].
    pub fn get_entity(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Columns>> {
        self.inner.get_entity(key, options)
    }

    /// An iterator over the table, not yet on any key.
    #[must_use]
    pub fn iter(&self, options: &ReadOptions) -> SstIter<'_> {
        SstIter {
            inner: self.inner.iter(options),
            moved: false,
            reader: PhantomData,
        }
    }

    /// Passes every entry of the file to `take`, in order: the internal key (user key, then
    /// sequence number and kind in eight bytes) and the value. Range tombstones are not among them.
    ///
    /// # Errors
    ///
    /// Those of the file, and of `take`.
    pub fn for_each_entry(&self, take: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        self.inner.for_each_entry(take)
    }

    /// Reads the whole file and checks every block.
    ///
    /// # Errors
    ///
    /// `Corruption` names the first block that is damaged, by its offset.
    pub fn verify_checksum(&self) -> Result<()> {
        self.inner.verify_checksum()
    }

    /// Counts the entries and compares the count with the properties.
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

/// A walk over the keys of a table, in order, both ways. [`SstFileReader::iter`] makes one.
pub struct SstIter<'reader> {
    inner: cairn_db::SstIter,
    /// True from a seek on.
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

/// Sorts more than fits into memory: pairs are added in any order, by any threads, and become tables
/// in key order. Of pairs with the same key the one that was added last stays.
///
/// The tables can be ingested with `allow_db_generated_files` and without `snapshot_consistency`; they
/// are deleted with the directory unless `keep_temp_db` is set. [`crate::files`] has an example.
pub struct SortedRunBuilder {
    inner: cairn_db::SortedRunBuilder,
}

impl SortedRunBuilder {
    /// A builder without any pairs.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for options that make no sense, or if there is a database in the directory
    /// already; `IoError`.
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

    /// Adds the pairs of `batch`, which is cheaper for many. It should hold nothing else.
    ///
    /// # Errors
    ///
    /// Those of [`SortedRunBuilder::add`].
    pub fn add_batch(&self, batch: &WriteBatch) -> Result<()> {
        self.inner.add_batch(&batch.inner)
    }

    /// Makes tables of everything that was added.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` the second time; `IoError` of a flush or compaction.
    pub fn finish(&mut self) -> Result<()> {
        self.inner.finish()
    }

    /// The tables, in key order; none before [`SortedRunBuilder::finish`].
    #[must_use]
    pub fn output_files(&self) -> &[PathBuf] {
        self.inner.output_files()
    }

    /// The number of pairs; before [`SortedRunBuilder::finish`], of those added.
    #[must_use]
    pub fn num_entries(&self) -> u64 {
        self.inner.num_entries()
    }

    /// Bytes of the tables; before the end, of what was added.
    #[must_use]
    pub fn data_size(&self) -> u64 {
        self.inner.data_size()
    }

    /// A walk over all pairs in key order.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` before [`SortedRunBuilder::finish`].
    pub fn iter(&self, options: &ReadOptions) -> Result<Iter<'_>> {
        self.inner.iter(options).map(Iter::new)
    }

    /// Deletes the directory's database with all tables. Nothing can be done with the builder then.
    /// The builder does it by itself when it goes, unless `keep_temp_db` is set.
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
