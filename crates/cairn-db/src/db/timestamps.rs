//! User-defined timestamps: writes and reads of families whose keys end with one.
//!
//! The timestamp of a key is passed separately and stored after it. Versions of a key are ordered by timestamp, newest
//! first; a read has a timestamp and ignores newer versions. A program must write the versions of a key in the order of
//! their timestamps, because a read that finds a version does not search older writes for a newer timestamp.

use std::sync::Arc;

use cairn_options::{BottommostLevelCompaction, CompactRangeOptions, ReadOptions, WriteOptions};
use cairn_read::{Value, check_timestamp_size, get_with_timestamp, shown_timestamp};
use cairn_types::{Code, Error, Result, Subcode};
use cairn_version::TreeEdit;

use cairn_format::batch::Record;

use crate::catalog::family::FamilyState;
use crate::catalog::install::Change;
use crate::db::Db;
use crate::db::handle::Family;
use crate::open::OpenRequest;
use crate::shared::Shared;
use crate::write::batch::WriteBatch;
use crate::write::entry::entry;

/// A value and the timestamp of its version.
pub type TimestampedValue = (Value, Vec<u8>);

/// The error for a call without timestamp on the family `name`, whose keys have timestamps.
#[cold]
pub(crate) fn needs_timestamp(name: &str) -> Error {
    Error::invalid_argument(format!(
        "cannot call this method on column family {name} that enables timestamp"
    ))
}

/// Checks that the timestamps of `family` have `found` bytes.
pub(crate) fn check_size(family: &FamilyState, found: usize) -> Result<()> {
    match family.order().timestamp_size() {
        0 => Err(Error::invalid_argument(format!(
            "cannot call this method on column family {} that does not enable timestamp",
            family.name()
        ))),
        expected => check_timestamp_size(expected, found),
    }
}

/// A record of a family whose keys have timestamps.
pub(crate) enum Stamped<'a> {
    Put(&'a [u8]),
    Merge(&'a [u8]),
    Delete,
    SingleDelete,
    /// Deletes the keys up to this one.
    DeleteRange(&'a [u8]),
}

impl WriteBatch {
    /// Adds `record` of `key` in `family`, whose keys have timestamps: with `timestamp`, or with a placeholder if there
    /// is none.
    #[cold]
    pub(crate) fn add_stamped(
        &mut self,
        family: &Family,
        key: &[u8],
        timestamp: Option<&[u8]>,
        record: &Stamped<'_>,
    ) {
        let size = family.timestamp_size();
        let placeholder = vec![0; size];
        let stamp = timestamp.unwrap_or(&placeholder);
        if let Err(error) = check_size(&family.state, stamp.len()) {
            return self.refuse(error);
        }
        self.has_placeholders |= timestamp.is_none();
        self.has_ranges |= matches!(record, Stamped::DeleteRange(_));
        self.has_merges |= matches!(record, Stamped::Merge(_));
        let (id, key) = (self.id_of(family), [key, stamp].concat());
        self.add_of_stamped(id, size, |batch| match *record {
            Stamped::Put(value) => batch.put(id, &key, value),
            Stamped::Merge(operand) => batch.merge(id, &key, operand),
            Stamped::Delete => batch.delete(id, &key),
            Stamped::SingleDelete => batch.single_delete(id, &key),
            Stamped::DeleteRange(end) => batch.delete_range(id, &key, &[end, stamp].concat()),
        });
    }

    /// Sets `key` at `timestamp` to `value` in `family`.
    pub fn put_with_timestamp(
        &mut self,
        family: &Family,
        key: &[u8],
        timestamp: &[u8],
        value: &[u8],
    ) {
        self.add_stamped(family, key, Some(timestamp), &Stamped::Put(value));
    }

    /// Deletes `key` from `family` at `timestamp`. Older versions remain visible to reads with older timestamps.
    pub fn delete_with_timestamp(&mut self, family: &Family, key: &[u8], timestamp: &[u8]) {
        self.add_stamped(family, key, Some(timestamp), &Stamped::Delete);
    }

    /// Deletes `key`, which was put exactly once since it was last deleted, from `family` at `timestamp`.
    pub fn single_delete_with_timestamp(&mut self, family: &Family, key: &[u8], timestamp: &[u8]) {
        self.add_stamped(family, key, Some(timestamp), &Stamped::SingleDelete);
    }

    /// Deletes every key from `begin` up to, not including, `end` from `family` at `timestamp`.
    pub fn delete_range_with_timestamp(
        &mut self,
        family: &Family,
        begin: &[u8],
        end: &[u8],
        timestamp: &[u8],
    ) {
        let record = Stamped::DeleteRange(end);
        self.add_stamped(family, begin, Some(timestamp), &record);
    }

    /// Adds an operand at `timestamp` for the merge operator of `family`.
    pub fn merge_with_timestamp(
        &mut self,
        family: &Family,
        key: &[u8],
        timestamp: &[u8],
        operand: &[u8],
    ) {
        self.add_stamped(family, key, Some(timestamp), &Stamped::Merge(operand));
    }

    /// Sets the timestamps of all keys to `timestamp`. Keys that were added without timestamp to a family whose keys
    /// have timestamps get it, and so do keys that have one. `size_of` returns the size of the timestamps of a family,
    /// given its id: 0 for none, and `None` if the family does not exist.
    ///
    /// # Errors
    ///
    /// `NotFound` if a family does not exist; `InvalidArgument` for a timestamp of another size, and for entities and
    /// timed puts in a family with timestamps. The batch is then unchanged.
    pub fn update_timestamps(
        &mut self,
        timestamp: &[u8],
        size_of: impl FnMut(u32) -> Option<usize>,
    ) -> Result<()> {
        if timestamp.is_empty() {
            return Err(Error::invalid_argument("Timestamp is empty"));
        }
        self.set_timestamps(timestamp, size_of)
    }

    /// Sets the timestamps of all keys that were added to families with timestamps.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a timestamp of another size. The batch is then unchanged.
    pub fn stamp(&mut self, timestamp: &[u8]) -> Result<()> {
        let sizes = self.stamped().to_vec();
        let size_of = |id: u32| sizes.iter().find(|(stamped, _)| *stamped == id);
        self.set_timestamps(timestamp, |id| {
            Some(size_of(id).map_or(0, |(_, size)| *size))
        })
    }

    /// True if keys were added to a family whose keys have timestamps.
    #[must_use]
    pub fn has_timestamps(&self) -> bool {
        !self.stamped().is_empty()
    }

    /// True if keys were added without timestamp to a family whose keys have timestamps, and
    /// [`WriteBatch::update_timestamps`] has not been called since.
    #[must_use]
    pub fn lacks_timestamps(&self) -> bool {
        self.has_placeholders
    }
}

impl Shared {
    /// Returns an error unless the keys of `batch` have timestamps exactly in the families whose keys have them.
    #[cold]
    pub(crate) fn check_timestamps(&self, batch: &WriteBatch) -> Result<()> {
        let families = self.catalog.families();
        let size = |family: &Arc<FamilyState>| family.order().timestamp_size();
        for (id, stamped) in batch.stamped() {
            if let Some(family) = families.get(*id) {
                check_size(family, *stamped)?;
            }
        }
        let is_plain =
            |family: &&Arc<FamilyState>| size(family) > 0 && batch.writes_plain_to(family.id());
        let plain = families.iter().find(is_plain);
        if let Some(family) = plain
            && !batch.is_raw()
        {
            return Err(needs_timestamp(family.name()));
        }
        if batch.lacks_timestamps() {
            let stamped = batch.stamped().first();
            let family = stamped.and_then(|(id, _)| families.get(*id));
            return Err(needs_timestamp(family.map_or("", |family| family.name())));
        }
        if plain.is_none() {
            return Ok(());
        }
        for record in batch.records() {
            let record = record?;
            let Some((id, entry)) = entry(&record)? else {
                continue;
            };
            let size = families.get(id).map_or(0, size);
            let ends_short =
                matches!(record, Record::DeleteRange { .. }) && entry.value.len() < size;
            if entry.key.len() < size || ends_short {
                return Err(Error::invalid_argument(format!(
                    "a key of the batch is shorter than the timestamps of column family {id}, which have {size} bytes"
                )));
            }
        }
        Ok(())
    }
}

impl Shared {
    /// Increases `full_history_ts_low` of `family` to `low`.
    pub(crate) fn increase_history_low(
        self: &Arc<Self>,
        family: &Arc<FamilyState>,
        low: &[u8],
    ) -> Result<()> {
        self.check_writable()?;
        check_size(family, low.len())?;
        let order = family.order();
        // Keys that differ only in their timestamps are ordered newest first. A timestamp alone is such a key.
        let is_older = |a: &[u8], b: &[u8]| !b.is_empty() && order.compare(a, b).is_gt();
        let current = family.view().version.clone();
        if is_older(low, current.history_low()) {
            return Err(Error::invalid_argument(format!(
                "Current full_history_ts_low: {} is higher than provided ts: {}",
                shown_timestamp(current.history_low()),
                shown_timestamp(low)
            )));
        }
        let change = Change {
            edit: TreeEdit {
                history_low: Some(low.to_vec()),
                ..TreeEdit::default()
            },
            ..Change::default()
        };
        self.catalog.install(&**self, &[(family, &change)])?;
        let now = family.view().version.clone();
        if is_older(low, now.history_low()) {
            return Err(Error::new(
                Code::TryAgain,
                Subcode::None,
                format!(
                    "full_history_ts_low: {} is set to be higher than the requested timestamp: {}",
                    shown_timestamp(now.history_low()),
                    shown_timestamp(low)
                ),
            ));
        }
        Ok(())
    }

    /// Drops all versions with timestamps newer than `timestamp` from all families whose keys have timestamps.
    pub(crate) fn drop_newer_versions(self: &Arc<Self>, timestamp: &[u8]) -> Result<()> {
        let options = CompactRangeOptions {
            // Automatic compactions, which the open has scheduled, do not trim.
            exclusive_manual_compaction: true,
            bottommost_level_compaction: BottommostLevelCompaction::ForceOptimized,
            ..CompactRangeOptions::default()
        };
        let families = self.catalog.families();
        for family in families.iter() {
            if family.order().timestamp_size() > 0 {
                check_size(family, timestamp.len())?;
                self.compact_range(family, None, None, &options, Some(timestamp))?;
            }
        }
        Ok(())
    }
}

/// Opens a database and drops all versions with timestamps newer than `timestamp` from the families whose keys have
/// timestamps.
///
/// # Errors
///
/// Those of [`open`](crate::open()); `InvalidArgument` with `avoid_flush_during_recovery`, and for a timestamp of the
/// wrong size; errors of the compaction.
pub fn open_and_trim_history(request: &OpenRequest<'_>, timestamp: &[u8]) -> Result<Db> {
    if request.options.avoid_flush_during_recovery {
        return Err(Error::invalid_argument(
            "avoid_flush_during_recovery incompatible with OpenAndTrimHistory",
        ));
    }
    let db = crate::open(request)?;
    db.handle.shared.drop_newer_versions(timestamp)?;
    Ok(db)
}

impl Family {
    /// Increases the timestamp below which history may be dropped (`full_history_ts_low`). Reads at older timestamps
    /// then fail, and flushes and compactions keep only the newest of the older versions of a key.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if keys have no timestamps or timestamps of another size, or if `low` is older than the current
    /// one; `TryAgain` if another call has set a newer one; the error that made the database read-only.
    pub fn increase_full_history_ts_low(&self, low: &[u8]) -> Result<()> {
        self.db.shared.increase_history_low(&self.state, low)
    }

    /// Returns the timestamp below which history may have been dropped; empty if it was never set.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if keys have no timestamps.
    pub fn full_history_ts_low(&self) -> Result<Vec<u8>> {
        match self.timestamp_size() {
            0 => check_size(&self.state, 0).map(|()| Vec::new()),
            _ => Ok(self.state.view().version.history_low().to_vec()),
        }
    }

    /// Sets `key` at `timestamp` to `value`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if keys have no timestamps, or timestamps of another size; otherwise see
    /// [`Db::write_with`](crate::Db::write_with).
    pub fn put_with_timestamp(&self, key: &[u8], timestamp: &[u8], value: &[u8]) -> Result<()> {
        self.single(&WriteOptions::default(), |batch| {
            batch.put_with_timestamp(self, key, timestamp, value);
        })
    }

    /// Deletes `key` at `timestamp`. Older versions remain visible to reads with older timestamps.
    ///
    /// # Errors
    ///
    /// Those of [`Family::put_with_timestamp`].
    pub fn delete_with_timestamp(&self, key: &[u8], timestamp: &[u8]) -> Result<()> {
        self.single(&WriteOptions::default(), |batch| {
            batch.delete_with_timestamp(self, key, timestamp);
        })
    }

    /// Deletes `key`, which was put exactly once since it was last deleted, at `timestamp`.
    ///
    /// # Errors
    ///
    /// Those of [`Family::put_with_timestamp`].
    pub fn single_delete_with_timestamp(&self, key: &[u8], timestamp: &[u8]) -> Result<()> {
        self.single(&WriteOptions::default(), |batch| {
            batch.single_delete_with_timestamp(self, key, timestamp);
        })
    }

    /// Deletes every key from `begin` (inclusive) to `end` (exclusive) at `timestamp`.
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
        self.single(&WriteOptions::default(), |batch| {
            batch.delete_range_with_timestamp(self, begin, end, timestamp);
        })
    }

    /// Adds an operand at `timestamp` for the family's merge operator.
    ///
    /// # Errors
    ///
    /// `NotSupported` if the family has no merge operator; those of [`Family::put_with_timestamp`].
    pub fn merge_with_timestamp(&self, key: &[u8], timestamp: &[u8], operand: &[u8]) -> Result<()> {
        self.check_merge_operator()?;
        self.single(&WriteOptions::default(), |batch| {
            batch.merge_with_timestamp(self, key, timestamp, operand);
        })
    }

    /// Returns the value of `key` at the timestamp of `options` and the timestamp of the version, or `None` if it
    /// does not exist. Timestamps are empty if keys have none.
    ///
    /// # Errors
    ///
    /// Those of [`Family::get_with`].
    pub fn get_with_timestamp(
        &self,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<TimestampedValue>> {
        let (found, timestamp) = self.found_by(key, options, get_with_timestamp)?;
        Ok(found.into_value()?.map(|value| (value, timestamp)))
    }
}
