//! Reads and writes of a transaction, and the locks of their keys.

use std::sync::Arc;

use cairn_db::{Column, Columns, Family, Found, KeyState, Record, Value, WriteBatch};
use cairn_format::batch::DEFAULT_FAMILY;
use cairn_format::key::strip_timestamp;
use cairn_indexed::{BaseDeltaIter, IndexedBatch};
use cairn_locks::{Endpoint, LockKey, ReleaseOnDrop, Request};
use cairn_options::ReadOptions;
use cairn_types::{Error, Result, SequenceNumber};

use super::{NextSnapshot, Pessimistic, Policy, SnapshotNotifier, Transaction, WriteCounts};
use crate::pessimistic::wait_time;
use crate::tracker::{Tracked, Untracked};

/// The access to a key for which it is locked or tracked.
#[derive(Clone, Copy)]
pub(super) struct Access {
    read_only: bool,
    exclusive: bool,
    /// The key must not have been written after the snapshot.
    pub(super) validates: bool,
}

const WRITE: Access = Access {
    read_only: false,
    exclusive: true,
    validates: true,
};

const UNTRACKED: Access = Access {
    validates: false,
    ..WRITE
};

const READ_FOR_UPDATE: Access = Access {
    read_only: true,
    ..WRITE
};

/// A write of a record that has entries in secondary indexes.
pub(super) enum Change<'a> {
    Put(&'a [u8]),
    PutEntity(&'a [Column<'a>]),
    Delete,
    SingleDelete,
}

impl Transaction {
    /// Locks `key` of `family`, or of the default family, for `access`, or tracks it for the check at the commit.
    // `None` for the default family, whose handle is a part of the transaction: the caller cannot borrow it.
    pub(super) fn lock(
        &mut self,
        family: Option<&Family>,
        key: &[u8],
        access: Access,
    ) -> Result<()> {
        self.db.check_families(family)?;
        if let Some(family) = family.filter(|_| !access.read_only) {
            family.check_takes_writes()?;
        }
        let (key, seq) = match &self.policy {
            Policy::Optimistic(_) if !access.validates => return Ok(()),
            Policy::Optimistic(_) => {
                self.set_snapshot_if_needed();
                let seq = self.snapshot.as_ref().map(|snapshot| snapshot.sequence());
                let seq = seq.unwrap_or_else(|| self.db.latest_sequence());
                self.keep_family(family);
                (LockKey::new(id_of(family), key), seq)
            }
            Policy::Pessimistic(own) if own.skip_concurrency_control => return Ok(()),
            Policy::Pessimistic(_) => self.lock_key(family, key, access)?,
        };
        let (read_only, exclusive) = (access.read_only, access.exclusive);
        if let Some(point) = self.save_points.last_mut() {
            point.since.track(key.clone(), seq, read_only, exclusive);
        }
        self.tracker.track(key, seq, read_only, exclusive);
        Ok(())
    }

    /// Keeps the family of a key that the commit checks, unless it is the default family.
    fn keep_family(&mut self, family: Option<&Family>) {
        if let Some(family) = family.filter(|family| family.id() != DEFAULT_FAMILY)
            && self.families.iter().all(|kept| kept.id() != family.id())
        {
            self.families.push(family.clone());
        }
    }

    /// Locks `key` in a pessimistic transaction. Returns the sequence number since which others have not written it
    /// (T2).
    fn lock_key(
        &mut self,
        family: Option<&Family>,
        key: &[u8],
        access: Access,
    ) -> Result<(LockKey, SequenceNumber)> {
        let key = LockKey::new(id_of(family), key);
        let tracked = self.tracker.get(&key);
        let upgrades = tracked.is_some_and(|tracked| access.exclusive && !tracked.exclusive);
        if tracked.is_none() || upgrades {
            let own = self.own_locks().expect("the policy has locks");
            own.locking.locks.lock(
                &key,
                &Request {
                    owner: &own.owner,
                    exclusive: access.exclusive,
                    timeout: wait_time(own.lock_timeout),
                    detect: own.detect,
                },
            )?;
        }
        let notifier = self.take_snapshot_if_needed();
        let own = self.own_locks().expect("the policy has locks");
        // Until it is tracked, the lock is released by a panic of the notifier or the comparator.
        let taken = ReleaseOnDrop::new(|| match (upgrades, tracked) {
            (true, _) => own.locking.locks.downgrade(&key, own.owner.id),
            (false, None) => own.locking.locks.unlock(&key, own.owner.id),
            (false, Some(_)) => {}
        });
        self.notify(notifier);
        let family = family.unwrap_or(self.db.default_family());
        let snapshot = self.snapshot.as_ref().map(|snapshot| snapshot.sequence());
        let read = match family.timestamp_size() {
            0 => None,
            _ => self.timestamps.read,
        };
        let seq = match access.validates && (snapshot.is_some() || read.is_some()) {
            true => {
                let latest = || self.db.latest_sequence();
                let since = snapshot.unwrap_or_else(latest);
                let known = tracked.filter(|tracked| snapshot.is_some() && tracked.seq <= since);
                let read = read.filter(|_| own.locking.options().enable_udt_validation);
                validated(family, &key, since, known, read)?
            }
            false => match tracked {
                Some(tracked) => tracked.seq,
                None => self.db.latest_sequence(),
            },
        };
        taken.keep();
        Ok((key, seq))
    }

    fn own_locks(&self) -> Option<&Pessimistic> {
        match &self.policy {
            Policy::Optimistic(_) => None,
            Policy::Pessimistic(own) => Some(own),
        }
    }

    fn set_snapshot_if_needed(&mut self) {
        let notifier = self.take_snapshot_if_needed();
        self.notify(notifier);
    }

    /// Takes the snapshot that the next operation needs. Returns the function to call with it.
    fn take_snapshot_if_needed(&mut self) -> Option<Arc<SnapshotNotifier>> {
        let NextSnapshot::Needed(notifier) = &mut self.next_snapshot else {
            return None;
        };
        let notifier = notifier.take();
        self.set_snapshot();
        notifier
    }

    fn notify(&self, notifier: Option<Arc<SnapshotNotifier>>) {
        if let (Some(notifier), Some(snapshot)) = (notifier, &self.snapshot) {
            notifier(snapshot);
        }
    }

    /// Locks `key` and adds a write of it to the batch with `add`, which returns the count of such writes.
    pub(super) fn write(
        &mut self,
        family: Option<&Family>,
        key: &[u8],
        access: Access,
        add: impl for<'c> FnOnce(&IndexedBatch, &Family, &'c mut WriteCounts) -> &'c mut u64,
    ) -> Result<()> {
        self.lock(family, key, access)?;
        let family = family.unwrap_or(self.db.default_family());
        let count = add(&self.batch, family, &mut self.counts);
        if let Some(error) = self.batch.refused() {
            self.batch.forget_refused();
            return Err(error);
        }
        *count += 1;
        Ok(())
    }

    fn add_put(
        &mut self,
        family: Option<&Family>,
        key: &[u8],
        value: &[u8],
        access: Access,
    ) -> Result<()> {
        if self.is_indexed(family) {
            return self.write_indexed(family, key, &Change::Put(value), access);
        }
        self.write(family, key, access, |batch, family, counts| {
            batch.put_in(family, key, value);
            &mut counts.puts
        })
    }

    fn add_merge(
        &mut self,
        family: Option<&Family>,
        key: &[u8],
        operand: &[u8],
        access: Access,
    ) -> Result<()> {
        if self.is_indexed(family) {
            return Err(Error::not_supported(
                "Merge with secondary indices not yet supported",
            ));
        }
        self.write(family, key, access, |batch, family, counts| {
            batch.merge_in(family, key, operand);
            &mut counts.merges
        })
    }

    fn add_put_entity(
        &mut self,
        family: &Family,
        key: &[u8],
        columns: &[Column<'_>],
        access: Access,
    ) -> Result<()> {
        if self.is_indexed(Some(family)) {
            return self.write_indexed(Some(family), key, &Change::PutEntity(columns), access);
        }
        self.write(Some(family), key, access, |batch, family, counts| {
            batch.put_entity_in(family, key, columns);
            &mut counts.put_entities
        })
    }

    fn add_delete(&mut self, family: Option<&Family>, key: &[u8], access: Access) -> Result<()> {
        if self.is_indexed(family) {
            return self.write_indexed(family, key, &Change::Delete, access);
        }
        self.write(family, key, access, |batch, family, counts| {
            batch.delete_in(family, key);
            &mut counts.deletes
        })
    }

    fn add_single_delete(&mut self, family: &Family, key: &[u8], access: Access) -> Result<()> {
        if self.is_indexed(Some(family)) {
            return self.write_indexed(Some(family), key, &Change::SingleDelete, access);
        }
        self.write(Some(family), key, access, |batch, family, counts| {
            batch.single_delete_in(family, key);
            &mut counts.deletes
        })
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    ///
    /// Pessimistic: `TimedOut` with `LockTimeout`, `Busy` with `Deadlock`, or `Aborted` with `LockLimit` if the key
    /// cannot be locked; `Busy` if it was written after the snapshot. Both: `Aborted` with `MemoryLimit` if the batch
    /// would be too large.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.add_put(None, key, value, WRITE)
    }

    /// Sets `key` of `family` to `value`.
    ///
    /// # Errors
    ///
    /// Those of [`Transaction::put`].
    pub fn put_in(&mut self, family: &Family, key: &[u8], value: &[u8]) -> Result<()> {
        self.add_put(Some(family), key, value, WRITE)
    }

    /// Sets `key` of `family` to an entity.
    ///
    /// # Errors
    ///
    /// Those of [`Transaction::put`].
    pub fn put_entity_in(
        &mut self,
        family: &Family,
        key: &[u8],
        columns: &[Column<'_>],
    ) -> Result<()> {
        self.add_put_entity(family, key, columns, WRITE)
    }

    /// Deletes `key`.
    ///
    /// # Errors
    ///
    /// Those of [`Transaction::put`].
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.add_delete(None, key, WRITE)
    }

    /// Deletes `key` from `family`.
    ///
    /// # Errors
    ///
    /// Those of [`Transaction::put`].
    pub fn delete_in(&mut self, family: &Family, key: &[u8]) -> Result<()> {
        self.add_delete(Some(family), key, WRITE)
    }

    /// Deletes `key`, which was put exactly once, from `family`.
    ///
    /// # Errors
    ///
    /// Those of [`Transaction::put`].
    pub fn single_delete_in(&mut self, family: &Family, key: &[u8]) -> Result<()> {
        self.add_single_delete(family, key, WRITE)
    }

    /// Adds a merge operand to `key`.
    ///
    /// # Errors
    ///
    /// Those of [`Transaction::put`].
    pub fn merge(&mut self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.add_merge(None, key, operand, WRITE)
    }

    /// Adds a merge operand to `key` of `family`.
    ///
    /// # Errors
    ///
    /// Those of [`Transaction::put`].
    pub fn merge_in(&mut self, family: &Family, key: &[u8], operand: &[u8]) -> Result<()> {
        self.add_merge(Some(family), key, operand, WRITE)
    }

    /// [`Transaction::put_in`] without a check for conflicts. A pessimistic transaction locks the key.
    ///
    /// # Errors
    ///
    /// Those of [`Transaction::put`], except for conflicts with the snapshot.
    pub fn put_untracked_in(&mut self, family: &Family, key: &[u8], value: &[u8]) -> Result<()> {
        self.add_put(Some(family), key, value, UNTRACKED)
    }

    /// [`Transaction::put_entity_in`] without a check for conflicts. A pessimistic transaction locks the key.
    ///
    /// # Errors
    ///
    /// Those of [`Transaction::put_untracked_in`].
    pub fn put_entity_untracked_in(
        &mut self,
        family: &Family,
        key: &[u8],
        columns: &[Column<'_>],
    ) -> Result<()> {
        self.add_put_entity(family, key, columns, UNTRACKED)
    }

    /// [`Transaction::merge_in`] without a check for conflicts. A pessimistic transaction locks the key.
    ///
    /// # Errors
    ///
    /// Those of [`Transaction::put_untracked_in`].
    pub fn merge_untracked_in(
        &mut self,
        family: &Family,
        key: &[u8],
        operand: &[u8],
    ) -> Result<()> {
        self.add_merge(Some(family), key, operand, UNTRACKED)
    }

    /// [`Transaction::delete_in`] without a check for conflicts. A pessimistic transaction locks the key.
    ///
    /// # Errors
    ///
    /// Those of [`Transaction::put_untracked_in`].
    pub fn delete_untracked_in(&mut self, family: &Family, key: &[u8]) -> Result<()> {
        self.add_delete(Some(family), key, UNTRACKED)
    }

    /// [`Transaction::single_delete_in`] without a check for conflicts. A pessimistic transaction locks the key.
    ///
    /// # Errors
    ///
    /// Those of [`Transaction::put_untracked_in`].
    pub fn single_delete_untracked_in(&mut self, family: &Family, key: &[u8]) -> Result<()> {
        self.add_single_delete(family, key, UNTRACKED)
    }

    /// Adds bytes that are written to the log only.
    pub fn put_log_data(&mut self, data: &[u8]) {
        self.batch.put_log_data(data);
    }

    /// Returns the value of `key` as it will be once the transaction is committed. A snapshot in `options` applies to
    /// the database only.
    ///
    /// # Errors
    ///
    /// Those of a get.
    pub fn get(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Value>> {
        self.get_in(self.db.default_family(), key, options)
    }

    /// [`Transaction::get`] in `family`.
    ///
    /// # Errors
    ///
    /// Those of a get.
    pub fn get_in(
        &self,
        family: &Family,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<Value>> {
        self.db.check_families([family])?;
        self.batch.get_over(family, key, options)
    }

    /// [`Transaction::get_in`] for wide-column entities.
    ///
    /// # Errors
    ///
    /// Those of a get.
    pub fn get_entity_in(
        &self,
        family: &Family,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<Columns>> {
        self.db.check_families([family])?;
        self.batch.get_entity_over(family, key, options)
    }

    /// [`Transaction::get_in`] for several keys. `sorted` states that they are in key order.
    #[must_use]
    pub fn multi_get_in<K: AsRef<[u8]>>(
        &self,
        family: &Family,
        keys: &[K],
        options: &ReadOptions,
        sorted: bool,
    ) -> Vec<Result<Option<Value>>> {
        if let Err(error) = self.db.check_families([family]) {
            return keys.iter().map(|_| Err(error.clone())).collect();
        }
        self.batch.multi_get_over(family, keys, options, sorted)
    }

    /// Locks `key` exclusively and returns its value: no other transaction can change it until this one has ended.
    ///
    /// # Errors
    ///
    /// Those of a get; those of [`Transaction::put`].
    pub fn get_for_update(&mut self, key: &[u8], options: &ReadOptions) -> Result<Option<Value>> {
        let options = self.options_for_update(self.db.default_family(), options, true)?;
        self.lock(None, key, READ_FOR_UPDATE)?;
        self.get(key, &options)
    }

    /// Locks `key` of `family`, for this transaction alone if `exclusive`, and returns its value. With `validate`, the
    /// key must not have been written after the snapshot of the transaction. In a family with timestamps, the value is
    /// that at the read timestamp.
    ///
    /// # Errors
    ///
    /// Those of a get; those of [`Transaction::put`]; `InvalidArgument` for a snapshot in `options` without `validate`.
    pub fn get_for_update_in(
        &mut self,
        family: &Family,
        key: &[u8],
        options: &ReadOptions,
        exclusive: bool,
        validate: bool,
    ) -> Result<Option<Value>> {
        let options = self.options_for_update(family, options, validate)?;
        self.lock_for_update(family, key, &options, exclusive, validate)?;
        self.get_in(family, key, &options)
    }

    /// [`Transaction::get_for_update_in`] for wide-column entities.
    ///
    /// # Errors
    ///
    /// Those of [`Transaction::get_for_update_in`].
    pub fn get_entity_for_update_in(
        &mut self,
        family: &Family,
        key: &[u8],
        options: &ReadOptions,
        exclusive: bool,
        validate: bool,
    ) -> Result<Option<Columns>> {
        let options = self.options_for_update(family, options, validate)?;
        self.lock_for_update(family, key, &options, exclusive, validate)?;
        self.get_entity_in(family, key, &options)
    }

    /// Locks `key` of `family` for a read.
    ///
    /// # Errors
    ///
    /// Those of [`Transaction::get_for_update_in`].
    pub fn lock_for_update(
        &mut self,
        family: &Family,
        key: &[u8],
        options: &ReadOptions,
        exclusive: bool,
        validate: bool,
    ) -> Result<()> {
        if !validate && options.snapshot.is_some() {
            return Err(Error::invalid_argument(
                "If do_validate is false then GetForUpdate with snapshot is not defined.",
            ));
        }
        let access = Access {
            exclusive,
            validates: validate,
            ..READ_FOR_UPDATE
        };
        self.lock(Some(family), key, access)
    }

    /// Locks several keys exclusively and returns their values. If one cannot be locked, its error is that of all; the
    /// keys before it stay locked. If `options` are rejected for one, no key is locked.
    #[must_use]
    pub fn multi_get_for_update(
        &mut self,
        keys: &[(&Family, &[u8])],
        options: &ReadOptions,
    ) -> Vec<Result<Option<Value>>> {
        let each = keys
            .iter()
            .map(|(family, _)| self.options_for_update(family, options, true));
        let locked = each.collect::<Result<Vec<_>>>().and_then(|each| {
            for ((family, key), options) in keys.iter().zip(&each) {
                self.lock_for_update(family, key, options, true, true)?;
            }
            Ok(each)
        });
        match locked {
            Ok(each) => {
                let keys = keys.iter().zip(&each);
                keys.map(|((family, key), options)| self.get_in(family, key, options))
                    .collect()
            }
            Err(error) => keys.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    /// Locks the keys of `family` from `start` to `end`, both inclusive, for this transaction alone, whether they exist or
    /// not. The lock is held until the transaction ends, also if it is taken back to an earlier save point. It is not
    /// recovered with a prepared transaction.
    ///
    /// # Errors
    ///
    /// Those of a lock, see [`Transaction::put`]; `InvalidArgument` if `start` follows `end`; `NotSupported` for an
    /// optimistic transaction.
    pub fn get_range_lock(
        &mut self,
        family: &Family,
        start: Endpoint,
        end: Endpoint,
    ) -> Result<()> {
        self.db.check_families([family])?;
        let Some(own) = self.own_locks() else {
            return Err(Error::not_supported(
                "range locks in optimistic transactions",
            ));
        };
        if own.skip_concurrency_control {
            return Ok(());
        }
        let request = Request {
            owner: &own.owner,
            exclusive: true,
            timeout: wait_time(own.lock_timeout),
            detect: own.detect,
        };
        let order = family.options().comparator.clone();
        let locks = &own.locking.locks;
        let range = locks.lock_range(family.id(), &order, (start, end), &request)?;
        self.ranges.push(range);
        self.set_snapshot_if_needed();
        Ok(())
    }

    /// Takes back a read for update. If the key was not accessed otherwise, it is unlocked, or not checked. Within a
    /// save point, only reads since the save point are taken back.
    pub fn undo_get_for_update(&mut self, family: &Family, key: &[u8]) {
        let key = LockKey::new(family.id(), key);
        if let Some(point) = self.save_points.last_mut()
            && point.since.untrack_read(&key) == Untracked::No
        {
            return;
        }
        if self.tracker.untrack_read(&key) == Untracked::Key
            && let Some(own) = self.own_locks()
        {
            own.locking.locks.unlock(&key, own.owner.id);
        }
    }

    /// Returns an iterator over the default family as it will be once the transaction is committed.
    #[must_use]
    pub fn iter(&self, options: &ReadOptions) -> BaseDeltaIter {
        self.iter_in(self.db.default_family(), options)
    }

    /// [`Transaction::iter`] over `family`. If it belongs to another database, the iterator has no entries, and its status
    /// is `InvalidArgument`.
    #[must_use]
    pub fn iter_in(&self, family: &Family, options: &ReadOptions) -> BaseDeltaIter {
        let mut base = family.iter_with(options);
        if let Err(error) = self.db.check_families([family]) {
            base.disable(error);
        }
        self.batch.iter_over(family, base, options)
    }

    /// Adds the writes of `batch`, locking or tracking their keys.
    ///
    /// # Errors
    ///
    /// [`WriteBatch::refused`], before any write; those of the writes; `NotSupported` for range deletions and other
    /// records that are not writes of one key; `InvalidArgument` for a family that does not exist. The writes before
    /// stay.
    pub fn rebuild_from_write_batch(&mut self, batch: &WriteBatch) -> Result<()> {
        if let Some(error) = batch.refused() {
            return Err(error.clone());
        }
        let families = self.db.families();
        let records = batch.records();
        for record in records {
            self.add_record(&record?, &families)?;
        }
        Ok(())
    }

    /// Adds the write of `record` to the batch, locking or tracking its key.
    pub(crate) fn add_record(&mut self, record: &Record<'_>, families: &[Family]) -> Result<()> {
        let Some(id) = record.family() else {
            return match record {
                Record::LogData(_) | Record::Noop => Ok(()),
                _ => Err(Error::invalid_argument(
                    "the batch has a marker of a two-phase transaction",
                )),
            };
        };
        let family = families.iter().find(|family| family.id() == id);
        let Some(family) = family else {
            return Err(Error::invalid_argument(format!(
                "the batch writes to column family {id}, which does not exist or was dropped"
            )));
        };
        // Keys get the commit timestamp.
        let plain = |key| strip_timestamp(key, family.timestamp_size());
        match record {
            Record::Put { key, value, .. } => self.put_in(family, plain(key), value),
            Record::Delete { key, .. } => self.delete_in(family, plain(key)),
            Record::SingleDelete { key, .. } => self.single_delete_in(family, plain(key)),
            Record::Merge { key, operand, .. } => self.merge_in(family, plain(key), operand),
            Record::PutEntity { key, entity, .. } => {
                let found = Found::Entity(entity.to_vec().into());
                match found.into_columns()? {
                    Some(columns) => {
                        let columns: Vec<Column<'_>> = columns.iter().collect();
                        self.put_entity_in(family, key, &columns)
                    }
                    None => Ok(()),
                }
            }
            Record::DeleteRange { .. } => Err(Error::invalid_argument(
                "a transaction takes no range deletions",
            )),
            _ => Err(Error::not_supported(
                "a record other than a write of one key in a transaction",
            )),
        }
    }
}

/// The id of a family; `None` for the default family.
fn id_of(family: Option<&Family>) -> u32 {
    family.map_or(DEFAULT_FAMILY, Family::id)
}

/// Returns the sequence number since which others have not written `key`, which is locked: `since`, or that of `known`.
/// With the timestamp `read`, the key must not have a version with a newer one either.
///
/// # Errors
///
/// `Busy` if the key was written afterwards.
fn validated(
    family: &Family,
    key: &LockKey,
    since: SequenceNumber,
    known: Option<Tracked>,
    read: Option<u64>,
) -> Result<SequenceNumber> {
    if let Some(known) = known {
        return Ok(known.seq);
    }
    let written = match family.timestamp_size() {
        0 => family.state_since(key.bytes(), since, false)? == KeyState::Written,
        _ => family.is_written_after(key.bytes(), since, read)?,
    };
    match written {
        true => Err(Error::busy(
            "the key was written after the snapshot or the read timestamp of the transaction",
        )),
        false => Ok(since),
    }
}
