//! The batch: writes are added to it and indexed, taken back, and written.

use std::sync::Arc;

use cairn_db::{Column, Db, Family, Iter, WriteBatch};
use cairn_options::{ReadOptions, WriteOptions};
use cairn_platform::sync::Mutex;
use cairn_types::{Error, KeyOrder, Result};

use crate::base_delta_iter::JoinedIter;
use crate::index::{Indexed, WriteKind};
use crate::iter::BatchIter;

/// The family that every database has.
const DEFAULT: u32 = 0;

/// Writes that take effect together, and can be read before they do.
///
/// Iterators keep the batch and see what is added while they live. Range deletions are refused, as
/// RocksDB does.
pub struct IndexedBatch {
    pub(crate) shared: Arc<Mutex<Indexed>>,
    default_order: KeyOrder,
}

impl IndexedBatch {
    /// An empty batch. With `overwrite` a key has one record that counts (and the merges since);
    /// without, every record of a key is kept and shown.
    #[must_use]
    pub fn new(overwrite: bool) -> IndexedBatch {
        IndexedBatch::with_order(KeyOrder::Bytewise, overwrite)
    }

    /// [`IndexedBatch::new`] with the order of families whose own is not known: the default
    /// family's, where writes name none.
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

    /// Sets `key` of `family` to an entity of `columns`, pairs of name and value in any order.
    pub fn put_entity_in(&self, family: &Family, key: &[u8], columns: &[Column<'_>]) {
        self.add_in(family, key, WriteKind::PutEntity, |batch| {
            batch.put_entity_in(family, key, columns);
        });
    }

    /// Adds an operand for the merge operator of the default family.
    pub fn merge(&self, key: &[u8], operand: &[u8]) {
        self.add(key, WriteKind::Merge, |batch| batch.merge(key, operand));
    }

    /// Adds an operand for the merge operator of `family`.
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

    /// Range deletions are not supported in a batch with index.
    ///
    /// # Errors
    ///
    /// `NotSupported`, always.
    pub fn delete_range(&self, begin: &[u8], end: &[u8]) -> Result<()> {
        let _ = (begin, end);
        Err(Error::not_supported(
            "a range deletion in a write batch with index",
        ))
    }

    /// Adds bytes that only the log carries.
    pub fn put_log_data(&self, data: &[u8]) {
        self.shared.lock().batch.put_log_data(data);
    }

    /// Lets the batch's serialized form grow to `max_bytes` bytes; 0 for any number, as at first. See
    /// [`WriteBatch::set_max_bytes`].
    pub fn set_max_bytes(&self, max_bytes: usize) {
        self.shared.lock().batch.set_max_bytes(max_bytes);
    }

    /// Why the first write that was not added was not; see [`WriteBatch::refused`].
    #[must_use]
    pub fn refused(&self) -> Option<Error> {
        self.shared.lock().batch.refused().cloned()
    }

    /// Refuses the batch because of a write that cannot be added; see [`WriteBatch::refuse`].
    pub fn refuse(&self, error: Error) {
        self.shared.lock().batch.refuse(error);
    }

    /// Lets the batch be written without the writes that were not added.
    pub fn forget_refused(&self) {
        self.shared.lock().batch.forget_refused();
    }

    /// How many writes the batch holds, overwritten ones included.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.shared.lock().batch.count()
    }

    /// The length of the batch's serialized form in bytes.
    #[must_use]
    pub fn data_size(&self) -> usize {
        self.shared.lock().batch.data().len()
    }

    /// Shows `look` the batch itself. It must not call the indexed batch.
    pub fn with_batch<T>(&self, look: impl FnOnce(&WriteBatch) -> T) -> T {
        look(&self.shared.lock().batch)
    }

    /// Removes everything, save points too.
    pub fn clear(&self) {
        self.shared.lock().clear();
    }

    /// Remembers the present state for [`IndexedBatch::rollback_to_save_point`].
    pub fn set_save_point(&self) {
        self.shared.lock().batch.set_save_point();
    }

    /// Removes what was added since the last save point, and that save point.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no save point.
    pub fn rollback_to_save_point(&self) -> Result<()> {
        let mut indexed = self.shared.lock();
        indexed.batch.rollback_to_save_point()?;
        indexed.rebuild()
    }

    /// Forgets the last save point and keeps what was added since.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no save point.
    pub fn pop_save_point(&self) -> Result<()> {
        self.shared.lock().batch.pop_save_point()
    }

    /// Replaces the writes of this batch by those of `batch`, in RocksDB's serialized form.
    ///
    /// # Errors
    ///
    /// `Corruption` if the bytes are no batch, `NotSupported` for range deletions; this batch is
    /// then empty.
    pub fn rebuild_from(&self, batch: &WriteBatch) -> Result<()> {
        let mut indexed = self.shared.lock();
        indexed.clear();
        let max_bytes = indexed.batch.max_bytes();
        indexed.batch = WriteBatch::from_data(batch.data())?;
        indexed.batch.set_max_bytes(max_bytes);
        indexed.rebuild().inspect_err(|_| indexed.clear())
    }

    /// Writes the batch to `db`: all of it or nothing. The batch stays as it is.
    ///
    /// # Errors
    ///
    /// Those of [`Db::write_with`].
    pub fn write_to(&self, db: &Db, options: &WriteOptions) -> Result<()> {
        // A copy, so that a write that waits does not keep readers of the batch waiting.
        let batch = self.shared.lock().batch.clone();
        db.write_with(&batch, options)
    }

    /// Walks the records of the default family in this batch.
    #[must_use]
    pub fn iter(&self) -> BatchIter {
        BatchIter::new(self.shared.clone(), DEFAULT)
    }

    /// Walks the records of `family` in this batch.
    #[must_use]
    pub fn iter_in(&self, family: &Family) -> BatchIter {
        BatchIter::new(self.shared.clone(), family.id())
    }

    /// Walks what `family` will hold once the batch is written: `base`, an iterator over it, and
    /// this batch. The bounds of `options` apply to the batch; those of `base` are its own.
    #[must_use]
    pub fn iter_over(&self, family: &Family, base: Iter, options: &ReadOptions) -> JoinedIter {
        JoinedIter::new(self.shared.clone(), family.clone(), base, options)
    }
}

impl std::fmt::Debug for IndexedBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IndexedBatch({} writes)", self.count())
    }
}
