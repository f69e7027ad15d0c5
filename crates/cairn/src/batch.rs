//! Write batches.

use std::fmt;

use cairn_db::{Column, Record};
use cairn_types::{Error, Result};

use crate::family::Family;

/// A list of writes to one or more column families that is applied atomically. The writes take
/// effect in the order in which they were added.
///
/// The batch is kept in RocksDB's serialized form ([`WriteBatch::data`],
/// [`WriteBatch::from_data`]).
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use cairn::{Db, Options, WriteBatch};
///
/// let db = Db::open(dir.path().join("db"), &Options::default().create_if_missing(true))?;
/// let mut batch = WriteBatch::new();
/// batch.put(b"granite", b"igneous");
/// batch.delete(b"chalk");
/// db.write(&batch)?;
/// assert!(db.get(b"granite")?.is_some());
/// # Ok::<(), cairn::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct WriteBatch {
    pub(crate) inner: cairn_db::WriteBatch,
}

impl WriteBatch {
    /// Creates an empty batch.
    #[must_use]
    pub fn new() -> WriteBatch {
        WriteBatch {
            inner: cairn_db::WriteBatch::new(),
        }
    }

    /// Creates an empty batch whose serialized form is limited to `max_bytes` bytes; 0 for no
    /// limit. See [`WriteBatch::set_max_bytes`].
    #[must_use]
    pub fn with_max_bytes(max_bytes: usize) -> WriteBatch {
        WriteBatch {
            inner: cairn_db::WriteBatch::with_max_bytes(max_bytes),
        }
    }

    /// Limits the serialized form to `max_bytes` bytes; 0 for no limit, the default. A write that
    /// would exceed the limit is not added, and the batch is marked as
    /// [rejected](WriteBatch::refused) with `Aborted` and the subcode `MemoryLimit`. Earlier writes
    /// stay in the batch.
    pub fn set_max_bytes(&mut self, max_bytes: usize) {
        self.inner.set_max_bytes(max_bytes);
    }

    /// The maximum size of the serialized form in bytes; 0 for no limit.
    #[must_use]
    pub fn max_bytes(&self) -> usize {
        self.inner.max_bytes()
    }

    /// Protects the writes of the batch with checksums, or stops protecting them. Each write that is added gets its
    /// checksum at once, which is verified until the write is in a memtable.
    ///
    /// # Errors
    ///
    /// `Corruption`, which cannot occur for a batch that was built or validated by this type.
    pub fn set_protected(&mut self, on: bool) -> Result<()> {
        self.inner.set_protected(on)
    }

    /// Verifies the checksums of the writes, if the batch is protected.
    ///
    /// # Errors
    ///
    /// `Corruption` if memory was damaged since a write was added.
    pub fn verify_checksums(&self) -> Result<()> {
        self.inner.verify_checksums()
    }

    /// The error of the first rejected write, if any. The batch cannot be written until it is
    /// cleared or [`WriteBatch::forget_refused`] is called.
    #[must_use]
    pub fn refused(&self) -> Option<&Error> {
        self.inner.refused()
    }

    /// Marks the batch as rejected because of a write that cannot be added, unless it is already
    /// marked.
    pub fn refuse(&mut self, error: Error) {
        self.inner.refuse(error);
    }

    /// Allows the batch to be written without its rejected writes.
    pub fn forget_refused(&mut self) {
        self.inner.forget_refused();
    }

    /// Creates a batch from RocksDB's serialized form.
    ///
    /// # Errors
    ///
    /// `Corruption` if the bytes are not a valid batch; `NotSupported` for unknown record types.
    pub fn from_data(data: &[u8]) -> Result<WriteBatch> {
        let inner = cairn_db::WriteBatch::from_data(data)?;
        Ok(WriteBatch { inner })
    }

    /// The batch in RocksDB's serialized form.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        self.inner.data()
    }

    /// The records in the order in which they were added, including log data.
    ///
    /// ```
    /// use cairn::{Record, WriteBatch};
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.put(b"slate", b"metamorphic");
    /// batch.put_log_data(b"from the north");
    /// let records: Vec<_> = batch.records().collect::<Result<_, _>>()?;
    /// assert!(matches!(records[0], Record::Put { family: 0, key: b"slate", .. }));
    /// assert!(matches!(records[1], Record::LogData(b"from the north")));
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Corruption`; never for a batch that was built or validated by this type.
    pub fn records(&self) -> impl Iterator<Item = Result<Record<'_>>> {
        self.inner.records()
    }

    /// The number of writes in the batch.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.inner.count()
    }

    /// True if the batch has no records, not even log data.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// Removes all writes and save points. The allocation and the size limit are kept.
    pub fn clear(&mut self) {
        self.inner.clear();
    }

    /// Sets `key` to `value` in the default family.
    #[inline]
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.inner.put(key, value);
    }

    /// Sets `key` to `value` in `family`.
    #[inline]
    pub fn put_in(&mut self, family: &Family<'_>, key: &[u8], value: &[u8]) {
        self.inner.put_in(&family.inner, key, value);
    }

    /// [`WriteBatch::put`] with a key and a value given in pieces, which are copied only once.
    ///
    /// ```
    /// let mut batch = cairn::WriteBatch::new();
    /// batch.put_parts(&[b"user:", b"4711"], &[b"name=", b"Ada"]);
    ///
    /// let mut whole = cairn::WriteBatch::new();
    /// whole.put(b"user:4711", b"name=Ada");
    /// assert_eq!(batch.data(), whole.data());
    /// ```
    pub fn put_parts(&mut self, key: &[&[u8]], value: &[&[u8]]) {
        self.inner.put_parts(key, value);
    }

    /// [`WriteBatch::put_parts`] in `family`.
    pub fn put_parts_in(&mut self, family: &Family<'_>, key: &[&[u8]], value: &[&[u8]]) {
        self.inner.put_parts_in(&family.inner, key, value);
    }

    /// [`WriteBatch::merge`] with a key and an operand given in pieces, which are copied only once.
    pub fn merge_parts(&mut self, key: &[&[u8]], operand: &[&[u8]]) {
        self.inner.merge_parts(key, operand);
    }

    /// [`WriteBatch::merge_parts`] in `family`.
    pub fn merge_parts_in(&mut self, family: &Family<'_>, key: &[&[u8]], operand: &[&[u8]]) {
        self.inner.merge_parts_in(&family.inner, key, operand);
    }

    /// Deletes `key` from the default family. Deleting a missing key is not an error.
    #[inline]
    pub fn delete(&mut self, key: &[u8]) {
        self.inner.delete(key);
    }

    /// Deletes `key` from `family`.
    #[inline]
    pub fn delete_in(&mut self, family: &Family<'_>, key: &[u8]) {
        self.inner.delete_in(&family.inner, key);
    }

    /// Deletes `key`, which must have been put exactly once since it was last deleted. Cheaper than
    /// [`WriteBatch::delete`]; for a key that was put twice or merged, the result is undefined.
    pub fn single_delete(&mut self, key: &[u8]) {
        self.inner.single_delete(key);
    }

    /// [`WriteBatch::single_delete`] in `family`.
    pub fn single_delete_in(&mut self, family: &Family<'_>, key: &[u8]) {
        self.inner.single_delete_in(&family.inner, key);
    }

    /// Deletes all keys from `begin` up to, but excluding, `end`.
    pub fn delete_range(&mut self, begin: &[u8], end: &[u8]) {
        self.inner.delete_range(begin, end);
    }

    /// [`WriteBatch::delete_range`] in `family`.
    pub fn delete_range_in(&mut self, family: &Family<'_>, begin: &[u8], end: &[u8]) {
        self.inner.delete_range_in(&family.inner, begin, end);
    }

    /// Adds a merge operand to `key` in the default family.
    #[inline]
    pub fn merge(&mut self, key: &[u8], operand: &[u8]) {
        self.inner.merge(key, operand);
    }

    /// Adds a merge operand to `key` in `family`.
    #[inline]
    pub fn merge_in(&mut self, family: &Family<'_>, key: &[u8], operand: &[u8]) {
        self.inner.merge_in(&family.inner, key, operand);
    }

    /// Adds data that is written to the WAL only.
    pub fn put_log_data(&mut self, data: &[u8]) {
        self.inner.put_log_data(data);
    }

    /// Sets a save point for [`WriteBatch::rollback_to_save_point`].
    pub fn set_save_point(&mut self) {
        self.inner.set_save_point();
    }

    /// Removes the writes since the last save point, and the save point. A rejection since then is
    /// cleared.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no save point.
    pub fn rollback_to_save_point(&mut self) -> Result<()> {
        self.inner.rollback_to_save_point()
    }

    /// Removes the last save point and keeps the writes since.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no save point.
    pub fn pop_save_point(&mut self) -> Result<()> {
        self.inner.pop_save_point()
    }

    /// Sets `key` to a wide-column entity with `columns`, which are pairs of name and value in any
    /// order. The default column has the empty name. A repeated name makes the write of the batch
    /// fail with `Corruption`, as in RocksDB.
    pub fn put_entity(&mut self, key: &[u8], columns: &[Column<'_>]) {
        self.inner.put_entity(key, columns);
    }

    /// [`WriteBatch::put_entity`] in `family`.
    pub fn put_entity_in(&mut self, family: &Family<'_>, key: &[u8], columns: &[Column<'_>]) {
        self.inner.put_entity_in(&family.inner, key, columns);
    }

    /// Sets `key` to a wide-column entity in each of several families.
    pub fn put_attribute_groups(&mut self, key: &[u8], groups: &[(&Family<'_>, &[Column<'_>])]) {
        let groups: Vec<(&cairn_db::Family, &[Column<'_>])> = groups
            .iter()
            .map(|(family, columns)| (&family.inner, *columns))
            .collect();
        self.inner.put_attribute_groups(key, &groups);
    }

    /// Sets `key` to `value` with the write time `unix_seconds`. The time only determines where
    /// RocksDB's tiered compaction places the value.
    pub fn timed_put(&mut self, key: &[u8], value: &[u8], unix_seconds: u64) {
        self.inner.timed_put(key, value, unix_seconds);
    }

    /// [`WriteBatch::timed_put`] in `family`.
    pub fn timed_put_in(
        &mut self,
        family: &Family<'_>,
        key: &[u8],
        value: &[u8],
        unix_seconds: u64,
    ) {
        self.inner
            .timed_put_in(&family.inner, key, value, unix_seconds);
    }
}

impl fmt::Debug for WriteBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteBatch")
            .field("count", &self.count())
            .field("bytes", &self.data().len())
            .finish_non_exhaustive()
    }
}
