//! Batches that can be read before they are written.

use std::fmt;
use std::marker::PhantomData;

use cairn_db::{Column, Columns, Value};
use cairn_indexed::BatchIter;
use cairn_options::{ReadOptions, WriteOptions};
use cairn_types::{Error, KeyOrder, Result};

use crate::batch::WriteBatch;
use crate::db::Db;
use crate::family::Family;

/// A write batch that can be read before it is written; see [`Db::write_indexed`].
///
/// Iterators share the batch and see later additions. Range deletions are rejected, as in RocksDB.
pub struct IndexedBatch {
    inner: cairn_indexed::IndexedBatch,
}

impl IndexedBatch {
    /// Creates an empty batch. With `overwrite`, each key keeps only its last write (and subsequent
    /// merges); otherwise every record is kept and returned.
    #[must_use]
    pub fn new(overwrite: bool) -> IndexedBatch {
        IndexedBatch {
            inner: cairn_indexed::IndexedBatch::new(overwrite),
        }
    }

    /// [`IndexedBatch::new`] with a key order for writes that do not name a column family and go to
    /// the default one.
    #[must_use]
    pub fn with_order(default_order: KeyOrder, overwrite: bool) -> IndexedBatch {
        IndexedBatch {
            inner: cairn_indexed::IndexedBatch::with_order(default_order, overwrite),
        }
    }

    /// Sets `key` of the default family to `value`.
    pub fn put(&self, key: &[u8], value: &[u8]) {
        self.inner.put(key, value);
    }

    /// Sets `key` of `family` to `value`.
    pub fn put_in(&self, family: &Family<'_>, key: &[u8], value: &[u8]) {
        self.inner.put_in(&family.inner, key, value);
    }

    /// Sets `key` of `family` to an entity of `columns`, pairs of name and value in any order.
    pub fn put_entity_in(&self, family: &Family<'_>, key: &[u8], columns: &[Column<'_>]) {
        self.inner.put_entity_in(&family.inner, key, columns);
    }

    /// Adds an operand for the merge operator of the default family.
    pub fn merge(&self, key: &[u8], operand: &[u8]) {
        self.inner.merge(key, operand);
    }

    /// Adds an operand for the merge operator of `family`.
    pub fn merge_in(&self, family: &Family<'_>, key: &[u8], operand: &[u8]) {
        self.inner.merge_in(&family.inner, key, operand);
    }

    /// Deletes `key` from the default family.
    pub fn delete(&self, key: &[u8]) {
        self.inner.delete(key);
    }

    /// Deletes `key` from `family`.
    pub fn delete_in(&self, family: &Family<'_>, key: &[u8]) {
        self.inner.delete_in(&family.inner, key);
    }

    /// Deletes `key`, which must have been put exactly once, from the default family.
    pub fn single_delete(&self, key: &[u8]) {
        self.inner.single_delete(key);
    }

    /// Deletes `key`, which must have been put exactly once, from `family`.
    pub fn single_delete_in(&self, family: &Family<'_>, key: &[u8]) {
        self.inner.single_delete_in(&family.inner, key);
    }

    /// Always fails: range deletions are not supported in an indexed batch.
    ///
    /// # Errors
    ///
    /// `NotSupported`.
    pub fn delete_range(&self, begin: &[u8], end: &[u8]) -> Result<()> {
        self.inner.delete_range(begin, end)
    }

    /// Adds data that is written to the WAL only.
    pub fn put_log_data(&self, data: &[u8]) {
        self.inner.put_log_data(data);
    }

    /// Limits the serialized form to `max_bytes` bytes; 0 for no limit, the default. See
    /// [`WriteBatch::set_max_bytes`].
    pub fn set_max_bytes(&self, max_bytes: usize) {
        self.inner.set_max_bytes(max_bytes);
    }

    /// The error of the first rejected write; see [`WriteBatch::refused`].
    #[must_use]
    pub fn refused(&self) -> Option<Error> {
        self.inner.refused()
    }

    /// Marks the batch as rejected because of a write that cannot be added; see
    /// [`WriteBatch::refuse`].
    pub fn refuse(&self, error: Error) {
        self.inner.refuse(error);
    }

    /// Allows the batch to be written without its rejected writes.
    pub fn forget_refused(&self) {
        self.inner.forget_refused();
    }

    /// The number of writes in the batch, including overwritten ones.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.inner.count()
    }

    /// The size of the serialized form in bytes.
    #[must_use]
    pub fn data_size(&self) -> usize {
        self.inner.data_size()
    }

    /// A copy of the writes, without the index.
    #[must_use]
    pub fn to_batch(&self) -> WriteBatch {
        let inner = self.inner.with_batch(cairn_db::WriteBatch::clone);
        WriteBatch { inner }
    }

    /// Removes all writes and save points.
    pub fn clear(&self) {
        self.inner.clear();
    }

    /// Sets a save point for [`IndexedBatch::rollback_to_save_point`].
    pub fn set_save_point(&self) {
        self.inner.set_save_point();
    }

    /// Removes the writes since the last save point, and the save point.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no save point.
    pub fn rollback_to_save_point(&self) -> Result<()> {
        self.inner.rollback_to_save_point()
    }

    /// Removes the last save point and keeps the writes since.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no save point.
    pub fn pop_save_point(&self) -> Result<()> {
        self.inner.pop_save_point()
    }

    /// Replaces the content with that of `batch`, which is in RocksDB's serialized form. The maximum size is kept.
    ///
    /// # Errors
    ///
    /// `Corruption` if the bytes are not a valid batch; `NotSupported` for range deletions. This
    /// batch is then empty.
    pub fn rebuild_from(&self, batch: &WriteBatch) -> Result<()> {
        self.inner.rebuild_from(&batch.inner)
    }

    /// Returns an iterator over the records of the default family in this batch.
    #[must_use]
    pub fn iter(&self) -> BatchIter {
        self.inner.iter()
    }

    /// Returns an iterator over the records of `family` in this batch.
    #[must_use]
    pub fn iter_in(&self, family: &Family<'_>) -> BatchIter {
        self.inner.iter_in(&family.inner)
    }

    /// The value of `key` of the default family from the batch alone; `None` if it is deleted or
    /// absent.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the key has merge operands, which require a family to be merged.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.inner.get(key)
    }

    /// The value of `key` of `family` from the batch alone.
    ///
    /// # Errors
    ///
    /// `MergeInProgress` if the batch has merge operands of the key but not their base value; those
    /// of a merge.
    pub fn get_in(&self, family: &Family<'_>, key: &[u8]) -> Result<Option<Value>> {
        self.inner.get_in(&family.inner, key)
    }

    /// [`IndexedBatch::get_in`] for wide-column entities.
    ///
    /// # Errors
    ///
    /// Those of [`IndexedBatch::get_in`].
    pub fn get_entity_in(&self, family: &Family<'_>, key: &[u8]) -> Result<Option<Columns>> {
        self.inner.get_entity_in(&family.inner, key)
    }

    /// The value that `key` of `family` will have once the batch is written. A snapshot in
    /// `options` applies to the database only.
    ///
    /// # Errors
    ///
    /// Those of a get and of a merge.
    pub fn get_over(
        &self,
        family: &Family<'_>,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<Value>> {
        self.inner.get_over(&family.inner, key, options)
    }

    /// [`IndexedBatch::get_over`] for wide-column entities.
    ///
    /// # Errors
    ///
    /// Those of [`IndexedBatch::get_over`].
    pub fn get_entity_over(
        &self,
        family: &Family<'_>,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<Columns>> {
        self.inner.get_entity_over(&family.inner, key, options)
    }

    /// [`IndexedBatch::get_over`] for many keys, which are read from the database as one batch.
    /// `sorted` asserts that they are in ascending order.
    #[must_use]
    pub fn multi_get_over<K: AsRef<[u8]>>(
        &self,
        family: &Family<'_>,
        keys: &[K],
        options: &ReadOptions,
        sorted: bool,
    ) -> Vec<Result<Option<Value>>> {
        self.inner
            .multi_get_over(&family.inner, keys, options, sorted)
    }

    /// [`IndexedBatch::multi_get_over`] for wide-column entities.
    #[must_use]
    pub fn multi_get_entity_over<K: AsRef<[u8]>>(
        &self,
        family: &Family<'_>,
        keys: &[K],
        options: &ReadOptions,
        sorted: bool,
    ) -> Vec<Result<Option<Columns>>> {
        self.inner
            .multi_get_entity_over(&family.inner, keys, options, sorted)
    }
}

impl fmt::Debug for IndexedBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexedBatch")
            .field("count", &self.count())
            .field("bytes", &self.data_size())
            .finish_non_exhaustive()
    }
}

/// A bidirectional iterator over the content of a family as it will be once a batch is written.
/// Created by [`Family::iter_with_batch`].
pub struct BaseDeltaIter<'db> {
    inner: cairn_indexed::BaseDeltaIter,
    /// True after the first seek.
    pub(crate) moved: bool,
    db: PhantomData<&'db Db>,
}

impl<'db> BaseDeltaIter<'db> {
    pub(crate) fn new(inner: cairn_indexed::BaseDeltaIter) -> BaseDeltaIter<'db> {
        BaseDeltaIter {
            inner,
            moved: false,
            db: PhantomData,
        }
    }
}

impl BaseDeltaIter<'_> {
    /// Moves to the first key at or after `target`.
    pub fn seek(&mut self, target: &[u8]) {
        self.moved = true;
        self.inner.seek(target);
    }

    /// Moves to the last key at or before `target`.
    pub fn seek_for_prev(&mut self, target: &[u8]) {
        self.moved = true;
        self.inner.seek_for_prev(target);
    }

    /// Moves to the first key.
    pub fn seek_to_first(&mut self) {
        self.moved = true;
        self.inner.seek_to_first();
    }

    /// Moves to the last key.
    pub fn seek_to_last(&mut self) {
        self.moved = true;
        self.inner.seek_to_last();
    }

    /// Moves to the next key. Does nothing if the iterator is not valid.
    pub fn next(&mut self) {
        self.inner.next();
    }

    /// Moves to the previous key. Does nothing if the iterator is not valid.
    pub fn prev(&mut self) {
        self.inner.prev();
    }

    /// True if the iterator is positioned on a key.
    #[must_use]
    pub fn valid(&self) -> bool {
        self.inner.valid()
    }

    /// The key; empty if the iterator is not valid.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.inner.key()
    }

    /// The value, or the default column of an entity; empty if the iterator is not valid.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        self.inner.value()
    }

    /// The columns; a plain value is a single column with an empty name. `None` if the iterator is
    /// not valid.
    #[must_use]
    pub fn columns(&self) -> Option<Columns> {
        self.inner.columns()
    }

    /// Reads the value of the entry, if that was deferred (`allow_unprepared_value`). Returns false
    /// if it cannot be read; the error is then the status, and the iterator is not valid.
    pub fn prepare_value(&mut self) -> bool {
        self.inner.prepare_value()
    }

    /// The error that ended the iteration, if any.
    ///
    /// # Errors
    ///
    /// Those of the base iterator, and of merges.
    pub fn status(&self) -> Result<()> {
        self.inner.status()
    }
}

impl fmt::Debug for BaseDeltaIter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BaseDeltaIter")
            .field("valid", &self.valid())
            .finish_non_exhaustive()
    }
}

impl Db {
    /// Writes an [`IndexedBatch`] atomically. Before that, its content can be read as if it were
    /// written, by gets and iterators.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use cairn::{Db, IndexedBatch, Options, ReadOptions, WriteOptions};
    ///
    /// let db = Db::open(dir.path().join("db"), &Options::default().create_if_missing(true))?;
    /// db.put(b"chalk", b"soft")?;
    /// db.put(b"slate", b"grey")?;
    ///
    /// let (batch, family) = (IndexedBatch::new(true), db.default_family());
    /// batch.put(b"granite", b"hard");
    /// batch.delete(b"chalk");
    /// let options = ReadOptions::default();
    /// assert_eq!(batch.get_over(&family, b"granite", &options)?.as_deref(), Some(&b"hard"[..]));
    /// assert!(db.get(b"granite")?.is_none());
    ///
    /// let mut iter = family.iter_with_batch(&batch, &options);
    /// iter.seek_to_first();
    /// assert_eq!(iter.key(), b"granite");
    /// iter.next();
    /// assert_eq!(iter.key(), b"slate");
    ///
    /// batch.set_save_point();
    /// batch.delete(b"slate");
    /// batch.rollback_to_save_point()?;
    /// db.write_indexed(&batch, &WriteOptions::default())?;
    /// assert!(db.get(b"slate")?.is_some());
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db::write_with`].
    pub fn write_indexed(&self, batch: &IndexedBatch, options: &WriteOptions) -> Result<()> {
        batch
            .inner
            .with_batch(|batch| self.inner.check_batch(batch))?;
        batch.inner.write_to(&self.inner, options)
    }

    /// Writes a batch atomically, as immutable memtables of its own (RocksDB's
    /// `IngestWriteBatchWithIndex`). Other writers do not wait for the insertion of a large batch, whose
    /// memtables are flushed at once, together with those that were active before. The batch is not
    /// logged: it is lost in a crash before the flush has ended.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use cairn::{Db, IndexedBatch, Options, WriteOptions};
    ///
    /// let db = Db::open(dir.path().join("db"), &Options::default().create_if_missing(true))?;
    /// let batch = IndexedBatch::new(true);
    /// for n in 0..1000_u32 {
    ///     batch.put(&n.to_be_bytes(), b"value");
    /// }
    /// let unlogged = WriteOptions {
    ///     disable_wal: true,
    ///     ..WriteOptions::default()
    /// };
    /// db.ingest_indexed(&batch, &unlogged)?;
    /// assert!(db.get(&999_u32.to_be_bytes())?.is_some());
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `NotSupported` unless `disable_wal` is set; otherwise those of [`Db::write_with`].
    pub fn ingest_indexed(&self, batch: &IndexedBatch, options: &WriteOptions) -> Result<()> {
        batch
            .inner
            .with_batch(|batch| self.inner.check_batch(batch))?;
        batch.inner.ingest_into(&self.inner, options)
    }
}

impl<'db> Family<'db> {
    /// An iterator over the content of the family as it will be once `batch` is written; see
    /// [`Db::write_indexed`].
    #[must_use]
    pub fn iter_with_batch(
        &self,
        batch: &IndexedBatch,
        options: &ReadOptions,
    ) -> BaseDeltaIter<'db> {
        let base = self.inner.iter_with(options);
        BaseDeltaIter::new(batch.inner.iter_over(&self.inner, base, options))
    }
}
