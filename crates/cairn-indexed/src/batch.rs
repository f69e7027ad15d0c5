//! The indexed batch: adding writes, save points, and writing.

use std::collections::BTreeMap;
use std::sync::Arc;

use cairn_db::{Column, Db, Family, Iter, WriteBatch};
use cairn_options::{ReadOptions, WriteOptions};
use cairn_platform::sync::Mutex;
use cairn_types::{Error, KeyOrder, Result};

use crate::base_delta_iter::BaseDeltaIter;
use crate::index::{Indexed, WriteKind};
use crate::iter::BatchIter;

/// The id of the default family.
const DEFAULT: u32 = 0;

/// A write batch whose writes can be read before they are written.
///
/// Iterators share the batch and see later additions. Range deletions are rejected, as in RocksDB.
pub struct IndexedBatch {
    pub(crate) shared: Arc<Mutex<Indexed>>,
    default_order: KeyOrder,
}

impl IndexedBatch {
    /// Another handle of this batch: both have the same writes.
    #[must_use]
    pub fn share(&self) -> IndexedBatch {
        IndexedBatch {
            shared: self.shared.clone(),
            default_order: self.default_order.clone(),
        }
    }

    /// Moves the content and the settings to a new batch, which is returned. This batch, its other handles and its
    /// iterators then have an empty content, and the settings of a new batch.
    #[must_use]
    pub fn take(&self) -> IndexedBatch {
        let mut indexed = self.shared.lock();
        let fresh = indexed.fresh();
        let taken = std::mem::replace(&mut *indexed, fresh);
        IndexedBatch {
            shared: Arc::new(Mutex::new(taken)),
            default_order: self.default_order.clone(),
        }
    }

    /// Creates an empty batch. With `overwrite`, each key keeps only its last write (and subsequent
    /// merges); otherwise every record is kept and returned.
    #[must_use]
    pub fn new(overwrite: bool) -> IndexedBatch {
        IndexedBatch::with_order(KeyOrder::Bytewise, overwrite)
    }

    /// [`IndexedBatch::new`] with a key order for writes that do not name a column family and go to
    /// the default one.
    #[must_use]
    pub fn with_order(default_order: KeyOrder, overwrite: bool) -> IndexedBatch {
        IndexedBatch {
            shared: Arc::new(Mutex::new(Indexed::new(default_order.clone(), overwrite))),
            default_order,
        }
    }

    fn add(&self, key: &[u8], kind: WriteKind, add: impl FnOnce(&mut WriteBatch)) {
        let order = || self.default_order.clone();
        self.shared.lock().add(DEFAULT, order, key, kind, add);
    }

    fn add_in(
        &self,
        family: &Family,
        key: &[u8],
        kind: WriteKind,
        add: impl FnOnce(&mut WriteBatch),
    ) {
        let order = || family.options().comparator.clone();
        self.shared.lock().add(family.id(), order, key, kind, add);
    }

    /// Sets `key` of the default family to `value`.
    pub fn put(&self, key: &[u8], value: &[u8]) {
        self.add(key, WriteKind::Put, |batch| batch.put(key, value));
    }

    /// Sets `key` of `family` to `value`.
    pub fn put_in(&self, family: &Family, key: &[u8], value: &[u8]) {
        self.add_in(family, key, WriteKind::Put, |batch| {
            batch.put_in(family, key, value);
        });
    }

    /// Sets `key` of `family` to an entity with `columns`: names and values, in any order.
    pub fn put_entity_in(&self, family: &Family, key: &[u8], columns: &[Column<'_>]) {
        self.add_in(family, key, WriteKind::PutEntity, |batch| {
            batch.put_entity_in(family, key, columns);
        });
    }

    /// Adds a merge operand to `key` of the default family.
    pub fn merge(&self, key: &[u8], operand: &[u8]) {
        self.add(key, WriteKind::Merge, |batch| batch.merge(key, operand));
    }

    /// Adds a merge operand to `key` of `family`.
    pub fn merge_in(&self, family: &Family, key: &[u8], operand: &[u8]) {
        self.add_in(family, key, WriteKind::Merge, |batch| {
            batch.merge_in(family, key, operand);
        });
    }

    /// Deletes `key` from the default family.
    pub fn delete(&self, key: &[u8]) {
        self.add(key, WriteKind::Delete, |batch| batch.delete(key));
    }

    /// Deletes `key` from `family`.
    pub fn delete_in(&self, family: &Family, key: &[u8]) {
        self.add_in(family, key, WriteKind::Delete, |batch| {
            batch.delete_in(family, key);
        });
    }

    /// Deletes `key`, which was put exactly once, from the default family.
    pub fn single_delete(&self, key: &[u8]) {
        self.add(key, WriteKind::SingleDelete, |batch| {
            batch.single_delete(key);
        });
    }

    /// Deletes `key`, which was put exactly once, from `family`.
    pub fn single_delete_in(&self, family: &Family, key: &[u8]) {
        self.add_in(family, key, WriteKind::SingleDelete, |batch| {
            batch.single_delete_in(family, key);
        });
    }

    /// Always fails: range deletions are not supported in an indexed batch.
    ///
    /// # Errors
    ///
    /// `NotSupported`.
    pub fn delete_range(&self, begin: &[u8], end: &[u8]) -> Result<()> {
        let _ = (begin, end);
        Err(Error::not_supported(
            "a range deletion in a write batch with index",
        ))
    }

    /// Adds data that is written to the WAL only.
    pub fn put_log_data(&self, data: &[u8]) {
        self.shared.lock().batch_mut().put_log_data(data);
    }

    /// Sets the timestamps of all keys; see [`WriteBatch::update_timestamps`].
    ///
    /// # Errors
    ///
    /// Those of [`WriteBatch::update_timestamps`].
    pub fn update_timestamps(
        &self,
        timestamp: &[u8],
        mut size_of: impl FnMut(u32) -> Option<usize>,
    ) -> Result<()> {
        let mut sizes = BTreeMap::new();
        loop {
            let mut unknown = None;
            let updated = self
                .shared
                .lock()
                .batch_mut()
                .update_timestamps(timestamp, |family| {
                    let size = sizes.get(&family).copied();
                    if size.is_none() {
                        unknown = Some(family);
                    }
                    size.flatten()
                });
            let Some(family) = unknown else {
                return updated;
            };
            // Without the lock: `size_of` may call the batch, which is unchanged so far.
            sizes.insert(family, size_of(family));
        }
    }

    /// Sets the timestamps of all keys of families with timestamps; see [`WriteBatch::stamp`].
    ///
    /// # Errors
    ///
    /// Those of [`WriteBatch::stamp`].
    pub fn stamp(&self, timestamp: &[u8]) -> Result<()> {
        self.shared.lock().batch_mut().stamp(timestamp)
    }

    /// Protects the writes with checksums; see [`WriteBatch::set_protected`].
    ///
    /// # Errors
    ///
    /// `Corruption`, which cannot occur for a batch that was built or validated by this type.
    pub fn set_protected(&self, on: bool) -> Result<()> {
        self.shared.lock().batch_mut().set_protected(on)
    }

    /// Limits the serialized size to `max_bytes` bytes; 0 for no limit, the default. See
    /// [`WriteBatch::set_max_bytes`].
    pub fn set_max_bytes(&self, max_bytes: usize) {
        self.shared.lock().batch_mut().set_max_bytes(max_bytes);
    }

    /// Returns the error of the first rejected write; see [`WriteBatch::refused`].
    #[must_use]
    pub fn refused(&self) -> Option<Error> {
        self.shared.lock().batch().refused().cloned()
    }

    /// Marks the batch as failed because of a rejected write; see [`WriteBatch::refuse`].
    pub fn refuse(&self, error: Error) {
        self.shared.lock().batch_mut().refuse(error);
    }

    /// Allows the batch to be written without its rejected writes.
    pub fn forget_refused(&self) {
        self.shared.lock().batch_mut().forget_refused();
    }

    /// Returns the number of writes, including overwritten ones.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.shared.lock().batch().count()
    }

    /// Returns the serialized size in bytes.
    #[must_use]
    pub fn data_size(&self) -> usize {
        self.shared.lock().batch().data().len()
    }

    /// Calls `look` with the underlying batch, without a lock: the indexed batch and its iterators can be used meanwhile,
    /// also by callbacks if `look` writes the batch. Such changes do not affect `look`.
    pub fn with_batch<T>(&self, look: impl FnOnce(&WriteBatch) -> T) -> T {
        look(&self.share_batch())
    }

    /// Returns the underlying batch as it is now, for a use without the lock.
    fn share_batch(&self) -> Arc<WriteBatch> {
        self.shared.lock().share_batch()
    }

    /// Calls `change` with the underlying batch. Records that it adds are not indexed, as after
    /// [`IndexedBatch::set_indexing`]; after it has removed records, the others are indexed again. `change` either adds
    /// records or removes the last ones, and must not call the indexed batch.
    ///
    /// # Errors
    ///
    /// `Corruption`, which cannot occur for a batch that was built or validated by this type.
    pub fn change_batch<T>(&self, change: impl FnOnce(&mut WriteBatch) -> T) -> Result<T> {
        let mut indexed = self.shared.lock();
        let before = indexed.batch().data().len();
        let changed = change(indexed.batch_mut());
        let after = indexed.batch().data().len();
        match after < before {
            true => indexed.rebuild()?,
            false if after > before => indexed.note_unindexed(before..after),
            false => {}
        }
        Ok(changed)
    }

    /// Starts or stops indexing further writes. Writes that are not indexed cost less memory and time, but are visible
    /// only after the batch is written: reads and iterators over the batch do not return them. Returns the setting before.
    pub fn set_indexing(&self, indexing: bool) -> bool {
        std::mem::replace(&mut self.shared.lock().indexing, indexing)
    }

    /// Removes all writes and save points.
    pub fn clear(&self) {
        self.shared.lock().clear();
    }

    /// Sets a save point for [`IndexedBatch::rollback_to_save_point`].
    pub fn set_save_point(&self) {
        self.shared.lock().batch_mut().set_save_point();
    }

    /// Removes the writes since the last save point, and the save point.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no save point.
    pub fn rollback_to_save_point(&self) -> Result<()> {
        let mut indexed = self.shared.lock();
        indexed.batch_mut().rollback_to_save_point()?;
        indexed.rebuild()
    }

    /// Removes the last save point and keeps the writes since.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no save point.
    pub fn pop_save_point(&self) -> Result<()> {
        self.shared.lock().batch_mut().pop_save_point()
    }

    /// Replaces the content with that of `batch`, which is in RocksDB's serialized form. The maximum size and the protection
    /// of this batch are kept.
    ///
    /// # Errors
    ///
    /// `Corruption` if the bytes are not a batch, `NotSupported` for range deletions; this batch is then empty.
    pub fn rebuild_from(&self, batch: &WriteBatch) -> Result<()> {
        let mut indexed = self.shared.lock();
        indexed.clear();
        let mut copy = WriteBatch::from_data(batch.data())?;
        copy.set_origin_of(batch);
        if let Some(error) = batch.refused() {
            copy.refuse(error.clone());
        }
        indexed.replace_batch(copy)?;
        indexed.rebuild().inspect_err(|_| indexed.clear())
    }

    /// Writes the batch to `db` atomically. The batch is unchanged.
    ///
    /// # Errors
    ///
    /// Those of [`Db::write_with`].
    pub fn write_to(&self, db: &Db, options: &WriteOptions) -> Result<()> {
        self.with_batch(|batch| db.write_with(batch, options))
    }

    /// Writes the batch to `db` past the memtable; see [`Db::ingest_batch`]. The batch is unchanged.
    ///
    /// # Errors
    ///
    /// Those of [`Db::ingest_batch`].
    pub fn ingest_into(&self, db: &Db, options: &WriteOptions) -> Result<()> {
        self.with_batch(|batch| db.ingest_batch(batch, options))
    }

    /// Returns an iterator over the records of the default family.
    #[must_use]
    pub fn iter(&self) -> BatchIter {
        BatchIter::new(self.shared.clone(), DEFAULT)
    }

    /// Returns an iterator over the records of `family`.
    #[must_use]
    pub fn iter_in(&self, family: &Family) -> BatchIter {
        BatchIter::new(self.shared.clone(), family.id())
    }

    /// Returns an iterator over the content of `family` once the batch is written, given `base`, an
    /// iterator over it. The bounds of `options` apply to the batch; `base` has its own.
    #[must_use]
    pub fn iter_over(&self, family: &Family, base: Iter, options: &ReadOptions) -> BaseDeltaIter {
        BaseDeltaIter::new(self.shared.clone(), family.clone(), base, options)
    }
}

impl std::fmt::Debug for IndexedBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IndexedBatch({} writes)", self.count())
    }
}
