//! Write batches.

use std::fmt;

use cairn_db::{Column, Record};
use cairn_types::{Error, Result};

use crate::family::Family;

/// A list of writes, to one or several column families, that becomes visible and durable as a
/// whole. Writes in it take effect in the order in which they were added.
///
/// The bytes are RocksDB's serialized form ([`WriteBatch::data`], [`WriteBatch::from_data`]).
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
    /// An empty batch.
    #[must_use]
    pub fn new() -> WriteBatch {
        WriteBatch {
            inner: cairn_db::WriteBatch::new(),
        }
    }

    /// An empty batch whose serialized form may have `max_bytes` bytes; 0 for any number. See
    /// [`WriteBatch::set_max_bytes`].
    #[must_use]
    pub fn with_max_bytes(max_bytes: usize) -> WriteBatch {
        WriteBatch {
            inner: cairn_db::WriteBatch::with_max_bytes(max_bytes),
        }
    }

    /// Lets the serialized form grow to `max_bytes` bytes; 0 for any number, as at first. A write
    /// that would make it longer is not added, and the batch is [refused](WriteBatch::refused) with
    /// `Aborted` and the subcode `MemoryLimit`. What is there already stays.
    pub fn set_max_bytes(&mut self, max_bytes: usize) {
        self.inner.set_max_bytes(max_bytes);
    }

    /// Bytes that the serialized form may have; 0 for any number.
    #[must_use]
    pub fn max_bytes(&self) -> usize {
        self.inner.max_bytes()
    }

    /// The reason for which the first write was refused, if one was. The batch cannot be written before it is
    /// cleared, or [`WriteBatch::forget_refused`] is called.
    #[must_use]
    pub fn refused(&self) -> Option<&Error> {
        self.inner.refused()
    }

    /// Refuses the batch because of a write that cannot be added, unless it is already refused.
    pub fn refuse(&mut self, error: Error) {
        self.inner.refuse(error);
    }

    /// Allows the batch to be written without the writes that were not added.
    pub fn forget_refused(&mut self) {
        self.inner.forget_refused();
    }

    /// The batch that RocksDB's serialized form describes.
    ///
    /// # Errors
    ///
    /// `Corruption` if the bytes are no batch, `NotSupported` for records that Cairn does not
    /// know.
    pub fn from_data(data: &[u8]) -> Result<WriteBatch> {
        let inner = cairn_db::WriteBatch::from_data(data)?;
        Ok(WriteBatch { inner })
    }

    /// RocksDB's serialized form of this batch.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        self.inner.data()
    }

    /// The records in the order in which they were added, log data included.
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
    /// `Corruption`, which no batch that was built or checked by this type shows.
    pub fn records(&self) -> impl Iterator<Item = Result<Record<'_>>> {
        self.inner.records()
    }

    /// The number of writes in the batch.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.inner.count()
    }

    /// True if the batch holds nothing, not even log data.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// Removes everything, save points too. The memory is kept, and the limit of bytes.
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

    /// [`WriteBatch::put`] of a key and a value in pieces, which are copied once.
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

    /// [`WriteBatch::merge`] of a key and an operand in pieces, which are copied once.
    pub fn merge_parts(&mut self, key: &[&[u8]], operand: &[&[u8]]) {
        self.inner.merge_parts(key, operand);
    }

    /// [`WriteBatch::merge_parts`] in `family`.
    pub fn merge_parts_in(&mut self, family: &Family<'_>, key: &[&[u8]], operand: &[&[u8]]) {
        self.inner.merge_parts_in(&family.inner, key, operand);
    }

    /// Deletes `key` from the default family. Deleting what does not exist is no error.
    #[inline]
    pub fn delete(&mut self, key: &[u8]) {
        self.inner.delete(key);
    }

    /// Deletes `key` from `family`.
    #[inline]
    pub fn delete_in(&mut self, family: &Family<'_>, key: &[u8]) {
        self.inner.delete_in(&family.inner, key);
    }

    /// Deletes `key`, which was put exactly once since it was last deleted. Cheaper than
    /// [`WriteBatch::delete`]; on a key that was put twice or merged the result is undefined.
    pub fn single_delete(&mut self, key: &[u8]) {
        self.inner.single_delete(key);
    }

    /// [`WriteBatch::single_delete`] in `family`.
    pub fn single_delete_in(&mut self, family: &Family<'_>, key: &[u8]) {
        self.inner.single_delete_in(&family.inner, key);
    }

    /// Deletes every key from `begin` up to, not including, `end`.
    pub fn delete_range(&mut self, begin: &[u8], end: &[u8]) {
        self.inner.delete_range(begin, end);
    }

    /// [`WriteBatch::delete_range`] in `family`.
    pub fn delete_range_in(&mut self, family: &Family<'_>, begin: &[u8], end: &[u8]) {
        self.inner.delete_range_in(&family.inner, begin, end);
    }

    /// Adds an operand for the merge operator of the default family.
    #[inline]
    pub fn merge(&mut self, key: &[u8], operand: &[u8]) {
        self.inner.merge(key, operand);
    }

    /// Adds an operand for the merge operator of `family`.
    #[inline]
    pub fn merge_in(&mut self, family: &Family<'_>, key: &[u8], operand: &[u8]) {
        self.inner.merge_in(&family.inner, key, operand);
    }

    /// Adds bytes that are written to the log only.
    pub fn put_log_data(&mut self, data: &[u8]) {
        self.inner.put_log_data(data);
    }

    /// Remembers the present state for [`WriteBatch::rollback_to_save_point`].
    pub fn set_save_point(&mut self) {
        self.inner.set_save_point();
    }

    /// Removes what was added since the last save point, and that save point. A batch that was refused
    /// since then is so no more.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no save point.
    pub fn rollback_to_save_point(&mut self) -> Result<()> {
        self.inner.rollback_to_save_point()
    }

    /// Forgets the last save point and keeps what was added since.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no save point.
    pub fn pop_save_point(&mut self) -> Result<()> {
        self.inner.pop_save_point()
    }

    /// Sets `key` to an entity of `columns`, pairs of name and value in any order. The empty name
    /// is that of the default column. A name that repeats is `Corruption` when the batch is
    /// written, as in RocksDB.
    pub fn put_entity(&mut self, key: &[u8], columns: &[Column<'_>]) {
        self.inner.put_entity(key, columns);
    }

    /// [`WriteBatch::put_entity`] in `family`.
    pub fn put_entity_in(&mut self, family: &Family<'_>, key: &[u8], columns: &[Column<'_>]) {
        self.inner.put_entity_in(&family.inner, key, columns);
    }

    /// Sets `key` to an entity in each of several families.
    pub fn put_attribute_groups(&mut self, key: &[u8], groups: &[(&Family<'_>, &[Column<'_>])]) {
        let groups: Vec<(&cairn_db::Family, &[Column<'_>])> = groups
            .iter()
            .map(|(family, columns)| (&family.inner, *columns))
            .collect();
        self.inner.put_attribute_groups(key, &groups);
    }

    /// Sets `key` to `value`, which was written at `unix_seconds`. The time only decides where
    /// RocksDB's tiered compaction keeps the value.
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
