//! User-defined timestamps: families whose [`KeyOrder`](crate::KeyOrder) has them.
//!
//! Every write has a timestamp, which is stored after the key, and every read has one
//! (`ReadOptions::timestamp`) and ignores newer versions. The versions of a key must be written in the
//! order of their timestamps.

use cairn_db::TimestampedValue;
use cairn_options::ReadOptions;
use cairn_types::Result;

use crate::batch::WriteBatch;
use crate::builder::DbBuilder;
use crate::db::Db;
use crate::family::Family;

impl WriteBatch {
    /// Sets `key` at `timestamp` to `value` in `family`, whose keys have timestamps.
    pub fn put_with_timestamp(
        &mut self,
        family: &Family<'_>,
        key: &[u8],
        timestamp: &[u8],
        value: &[u8],
    ) {
        self.inner
            .put_with_timestamp(&family.inner, key, timestamp, value);
    }

    /// Deletes `key` from `family` at `timestamp`. Reads at older timestamps still return older
    /// versions.
    pub fn delete_with_timestamp(&mut self, family: &Family<'_>, key: &[u8], timestamp: &[u8]) {
        self.inner
            .delete_with_timestamp(&family.inner, key, timestamp);
    }

    /// Deletes `key`, which must have been put exactly once since it was last deleted, from `family` at
    /// `timestamp`.
    pub fn single_delete_with_timestamp(
        &mut self,
        family: &Family<'_>,
        key: &[u8],
        timestamp: &[u8],
    ) {
        self.inner
            .single_delete_with_timestamp(&family.inner, key, timestamp);
    }

    /// Deletes all keys from `begin` up to, but excluding, `end` from `family` at `timestamp`.
    pub fn delete_range_with_timestamp(
        &mut self,
        family: &Family<'_>,
        begin: &[u8],
        end: &[u8],
        timestamp: &[u8],
    ) {
        self.inner
            .delete_range_with_timestamp(&family.inner, begin, end, timestamp);
    }

    /// Adds a merge operand to `key` in `family` at `timestamp`.
    pub fn merge_with_timestamp(
        &mut self,
        family: &Family<'_>,
        key: &[u8],
        timestamp: &[u8],
        operand: &[u8],
    ) {
        self.inner
            .merge_with_timestamp(&family.inner, key, timestamp, operand);
    }

    /// Sets the timestamp of every key, including those added without a timestamp to a family whose
    /// keys have timestamps. `size_of` returns the length of the timestamps of a family, given its id:
    /// 0 for none, `None` if the family does not exist.
    ///
    /// # Errors
    ///
    /// `NotFound` if a family does not exist; `InvalidArgument` for a timestamp of another length, and
    /// for entities and timed puts in a family with timestamps. The batch is then unchanged.
    pub fn update_timestamps(
        &mut self,
        timestamp: &[u8],
        size_of: impl FnMut(u32) -> Option<usize>,
    ) -> Result<()> {
        self.inner.update_timestamps(timestamp, size_of)
    }

    /// True if the batch has keys without timestamps for a family whose keys have timestamps. It cannot
    /// be written until [`WriteBatch::update_timestamps`] is called.
    #[must_use]
    pub fn lacks_timestamps(&self) -> bool {
        self.inner.lacks_timestamps()
    }
}

impl Family<'_> {
    /// The length in bytes of the timestamps of keys; 0 if they have none.
    #[must_use]
    pub fn timestamp_size(&self) -> usize {
        self.inner.timestamp_size()
    }

    /// Sets `key` at `timestamp` to `value`.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use cairn::{Db, KeyOrder, Options, ReadOptions};
    ///
    /// let mut options = Options::default().create_if_missing(true);
    /// options.family.comparator = KeyOrder::BytewiseU64Ts;
    /// let db = Db::open(dir.path().join("db"), &options)?;
    /// let stones = db.default_family();
    /// stones.put_with_timestamp(b"granite", &1_u64.to_le_bytes(), b"hot")?;
    /// stones.put_with_timestamp(b"granite", &2_u64.to_le_bytes(), b"cold")?;
    /// let at = |timestamp: u64| ReadOptions {
    ///     timestamp: Some(timestamp.to_le_bytes().to_vec()),
    ///     ..ReadOptions::default()
    /// };
    /// assert_eq!(stones.get_with(b"granite", &at(1))?.as_deref(), Some(&b"hot"[..]));
    /// let (value, timestamp) = stones.get_with_timestamp(b"granite", &at(9))?.unwrap();
    /// assert_eq!((&*value, timestamp), (&b"cold"[..], 2_u64.to_le_bytes().to_vec()));
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if keys have no timestamps, or timestamps of another length; see also
    /// [`Db::write_with`].
    pub fn put_with_timestamp(&self, key: &[u8], timestamp: &[u8], value: &[u8]) -> Result<()> {
        self.inner.put_with_timestamp(key, timestamp, value)
    }

    /// Deletes `key` at `timestamp`. Reads at older timestamps still return older versions.
    ///
    /// # Errors
    ///
    /// Those of [`Family::put_with_timestamp`].
    pub fn delete_with_timestamp(&self, key: &[u8], timestamp: &[u8]) -> Result<()> {
        self.inner.delete_with_timestamp(key, timestamp)
    }

    /// Deletes `key`, which must have been put exactly once since it was last deleted, at `timestamp`.
    ///
    /// # Errors
    ///
    /// Those of [`Family::put_with_timestamp`].
    pub fn single_delete_with_timestamp(&self, key: &[u8], timestamp: &[u8]) -> Result<()> {
        self.inner.single_delete_with_timestamp(key, timestamp)
    }

    /// Deletes all keys from `begin` up to, but excluding, `end` at `timestamp`.
    ///
    /// # Errors
    ///
    /// Those of [`Family::put_with_timestamp`].
    pub fn delete_range_with_timestamp(
        &self,
        begin: &[u8],
        end: &[u8],
        timestamp: &[u8],
    ) -> Result<()> {
        self.inner
            .delete_range_with_timestamp(begin, end, timestamp)
    }

    /// Adds a merge operand to `key` at `timestamp`.
    ///
    /// # Errors
    ///
    /// `NotSupported` if the family has no merge operator; those of [`Family::put_with_timestamp`].
    pub fn merge_with_timestamp(&self, key: &[u8], timestamp: &[u8], operand: &[u8]) -> Result<()> {
        self.inner.merge_with_timestamp(key, timestamp, operand)
    }

    /// The value of `key` at the timestamp of `options` and the timestamp of that version, or `None` if
    /// the key does not exist. Timestamps are empty if keys have none.
    ///
    /// # Errors
    ///
    /// Those of [`Family::get_with`].
    pub fn get_with_timestamp(
        &self,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<TimestampedValue>> {
        self.inner.get_with_timestamp(key, options)
    }

    /// [`Family::get_with_timestamp`] for several keys, in the same order and as of the same point in
    /// time.
    #[must_use]
    pub fn multi_get_with_timestamps<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
    ) -> Vec<Result<Option<TimestampedValue>>> {
        self.inner.multi_get_with_timestamps(keys, options)
    }

    /// Raises the timestamp below which history may be dropped. Reads at older timestamps then fail, and
    /// flushes and compactions keep only the newest of the older versions of a key.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if keys have no timestamps or timestamps of another length, or if `low` is older
    /// than the current one; `TryAgain` if another call has set a newer one; the error that made the
    /// database read-only.
    pub fn increase_full_history_ts_low(&self, low: &[u8]) -> Result<()> {
        self.inner.increase_full_history_ts_low(low)
    }

    /// The timestamp below which history may have been dropped; empty if it was never set.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if keys have no timestamps.
    pub fn full_history_ts_low(&self) -> Result<Vec<u8>> {
        self.inner.full_history_ts_low()
    }
}

impl DbBuilder {
    /// Opens the database and drops all versions with timestamps newer than `timestamp`.
    ///
    /// # Errors
    ///
    /// Those of [`DbBuilder::open`]; `InvalidArgument` with `avoid_flush_during_recovery`, and for a
    /// timestamp of another length than those of a family; errors of the compaction.
    pub fn open_and_trim_history(self, timestamp: &[u8]) -> Result<Db> {
        let open = |request: &cairn_db::OpenRequest<'_>| {
            cairn_db::open_and_trim_history(request, timestamp)
        };
        let inner = self.open_as(open)?;
        Ok(Db { inner })
    }
}
