//! Transactions: groups of reads and writes that take effect together or not at all, isolated from each other.
//!
//! A [`TransactionDb`] locks the keys that a transaction writes or reads for update; an [`OptimisticTransactionDb`] takes
//! no locks, and a commit fails if one of its keys was written by others. A transaction is rolled back when it is
//! dropped without having been committed:
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("db");
//! use cairn::{Code, Db, ReadOptions};
//!
//! let db = Db::builder(&path).create_if_missing(true).open_transactional(&Default::default())?;
//! let mut txn = db.begin();
//! txn.put(b"granite", b"igneous")?;
//! assert!(db.get(b"granite")?.is_none());
//! assert!(txn.get(b"granite", &ReadOptions::default())?.is_some());
//! let locked = db.put(b"granite", b"metamorphic").unwrap_err();
//! assert_eq!(locked.code(), Code::TimedOut);
//! txn.commit()?;
//! db.put(b"granite", b"metamorphic")?;
//! # Ok::<(), cairn::Error>(())
//! ```
//!
//! A closure is repeated after a conflict:
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("db");
//! use cairn::{Db, ReadOptions};
//!
//! let db = Db::builder(&path).create_if_missing(true).open_optimistic(&Default::default())?;
//! let visits = db.transact(|txn| {
//!     let visits = txn.get_for_update(b"visits", &ReadOptions::default())?;
//!     let visits = visits.map_or(0, |count| count[0]) + 1;
//!     txn.put(b"visits", &[visits])?;
//!     Ok(visits)
//! })?;
//! assert_eq!(visits, 1);
//! # Ok::<(), cairn::Error>(())
//! ```

//! With two-phase commit, a named transaction is first prepared: its writes are durable but not visible. It is decided
//! later, also by another process after a crash:
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("db");
//! use cairn::{Db, WriteOptions};
//!
//! let open = || Db::builder(&path).create_if_missing(true).open_transactional(&Default::default());
//! let db = open()?;
//! let mut txn = db.begin();
//! txn.set_name(b"transfer 4711")?;
//! txn.put(b"granite", b"igneous")?;
//! txn.prepare()?;
//! drop(txn);
//! db.close()?;
//!
//! let db = open()?;
//! for mut txn in db.prepared_transactions() {
//!     assert_eq!(txn.name(), b"transfer 4711");
//!     txn.commit()?;
//! }
//! assert!(db.get(b"granite")?.is_some());
//! # Ok::<(), cairn::Error>(())
//! ```

use std::fmt;
use std::marker::PhantomData;

use cairn_db::{Column, Columns, OpenRequest, Value};
use cairn_options::{FamilyOptions, ReadOptions, WriteOptions};
use cairn_types::{Result, SequenceNumber};

pub use cairn_txn::{
    DeadlockInfo, DeadlockPath, Endpoint, LockBuckets, LockStatus, OptimisticTransactionDbOptions,
    OptimisticTransactionOptions, RangeLockStatus, TransactionDbOptions, TransactionOptions,
    TransactionState, ValidatePolicy, WriteCounts, WritePolicy,
};

use crate::batch::WriteBatch;
use crate::builder::DbBuilder;
use crate::db::Db;
use crate::family::Family;
use crate::indexed::BaseDeltaIter;
use crate::iter::Iter;

impl DbBuilder {
    /// Opens the database for transactions that lock keys.
    ///
    /// # Errors
    ///
    /// Those of [`DbBuilder::open`]; `NotSupported` if the logs have transactions of another write policy than that of the
    /// options, and with a policy other than "committed" for keys with timestamps.
    pub fn open_transactional(self, options: &TransactionDbOptions) -> Result<TransactionDb> {
        let inner = self.open_as(|request: &OpenRequest<'_>| {
            cairn_txn::TransactionDb::open(request, options)
        })?;
        let db = Db {
            inner: inner.db().clone(),
        };
        Ok(TransactionDb { inner, db })
    }

    /// Opens a database that RocksDB last wrote with the write policy `policy`, and converts it to the policy "committed".
    /// Prepared transactions stay prepared; others are rolled back.
    ///
    /// # Errors
    ///
    /// Those of [`DbBuilder::open_transactional`]; `NotSupported` for logs of another policy, and for range deletions and
    /// keys with timestamps in undecided transactions.
    pub fn convert_transactional(
        self,
        options: &TransactionDbOptions,
        policy: WritePolicy,
    ) -> Result<TransactionDb> {
        let inner = self.open_as(|request: &OpenRequest<'_>| {
            cairn_txn::TransactionDb::convert(request, options, policy)
        })?;
        let db = Db {
            inner: inner.db().clone(),
        };
        Ok(TransactionDb { inner, db })
    }

    /// Opens the database for transactions that are checked for conflicts when they are committed.
    ///
    /// # Errors
    ///
    /// Those of [`DbBuilder::open`].
    pub fn open_optimistic(
        self,
        options: &OptimisticTransactionDbOptions,
    ) -> Result<OptimisticTransactionDb> {
        let inner = self.open_as(|request: &OpenRequest<'_>| {
            cairn_txn::OptimisticTransactionDb::open(request, options)
        })?;
        let db = Db {
            inner: inner.db().clone(),
        };
        Ok(OptimisticTransactionDb { inner, db })
    }
}

/// A database whose transactions lock the keys that they write. See [the module](self).
pub struct TransactionDb {
    inner: cairn_txn::TransactionDb,
    db: Db,
}

impl TransactionDb {
    /// Begins a transaction.
    #[must_use]
    pub fn begin(&self) -> Transaction<'_> {
        Transaction::new(self.inner.begin())
    }

    /// Begins a transaction that is committed with `write_options`.
    #[must_use]
    pub fn begin_with(
        &self,
        write_options: &WriteOptions,
        options: &TransactionOptions,
    ) -> Transaction<'_> {
        Transaction::new(self.inner.begin_with(write_options, options))
    }

    /// Returns the prepared transactions that have no handle, sorted by name: those recovered by the opening, and those
    /// that were dropped. Each is returned once, until it is dropped again.
    #[must_use]
    pub fn prepared_transactions(&self) -> Vec<Transaction<'_>> {
        let prepared = self.inner.prepared_transactions();
        prepared.into_iter().map(Transaction::new).collect()
    }

    /// Returns the prepared transaction `name` if it has no handle, like [`TransactionDb::prepared_transactions`].
    #[must_use]
    pub fn transaction_by_name(&self, name: &[u8]) -> Option<Transaction<'_>> {
        self.inner.transaction_by_name(name).map(Transaction::new)
    }

    /// Runs `work` in a transaction and commits it. After a conflict, a timeout or a deadlock, it is repeated in a new
    /// transaction, a limited number of times.
    ///
    /// # Errors
    ///
    /// The error of `work`; that of the commit.
    pub fn transact<T>(
        &self,
        mut work: impl FnMut(&mut Transaction<'_>) -> Result<T>,
    ) -> Result<T> {
        self.inner
            .retry(|inner| Transaction::new(inner).run(&mut work))
    }

    /// Returns the underlying database, whose writes ignore the locks of transactions.
    #[must_use]
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Creates a family.
    ///
    /// # Errors
    ///
    /// Those of [`Db::create_family`].
    pub fn create_family(&self, name: &str, options: &FamilyOptions) -> Result<Family<'_>> {
        self.inner.create_family(name, options).map(Family::new)
    }

    /// Returns the value of `key`.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.db.get(key)
    }

    /// Returns an iterator over the default family.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        self.db.iter()
    }

    /// Sets `key` to `value` outside of a transaction.
    ///
    /// # Errors
    ///
    /// Those of [`Db::put`]; `TimedOut` with `LockTimeout` if a transaction holds the lock of the key.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let family = self.inner.db().default_family();
        self.inner.put(family, key, value, &WriteOptions::default())
    }

    /// [`TransactionDb::put`] in `family`, with options.
    ///
    /// # Errors
    ///
    /// Those of [`TransactionDb::put`].
    pub fn put_in(
        &self,
        family: &Family<'_>,
        key: &[u8],
        value: &[u8],
        options: &WriteOptions,
    ) -> Result<()> {
        self.inner.put(&family.inner, key, value, options)
    }

    /// Deletes `key` outside of a transaction.
    ///
    /// # Errors
    ///
    /// Those of [`TransactionDb::put`].
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        let family = self.inner.db().default_family();
        self.inner.delete(family, key, &WriteOptions::default())
    }

    /// Writes `batch` outside of a transaction.
    ///
    /// # Errors
    ///
    /// Those of [`TransactionDb::put`]; `NotSupported` for range deletions, as in RocksDB.
    pub fn write(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        self.inner.db().check_batch(&batch.inner)?;
        self.inner.write(&batch.inner, options)
    }

    /// Returns the locked keys.
    #[must_use]
    pub fn lock_status(&self) -> Vec<LockStatus> {
        self.inner.lock_status()
    }

    /// Returns the locked ranges.
    #[must_use]
    pub fn range_lock_status(&self) -> Vec<RangeLockStatus> {
        self.inner.range_lock_status()
    }

    /// Returns the key for which the transaction `id` waits, and those that hold its lock.
    #[must_use]
    pub fn waits_for(&self, id: u64) -> Option<LockStatus> {
        self.inner.waits_for(id)
    }

    /// Returns the most recent deadlocks, newest first.
    #[must_use]
    pub fn deadlocks(&self) -> Vec<DeadlockPath> {
        self.inner.deadlocks()
    }

    /// Sets the number of deadlocks that are kept.
    pub fn set_deadlock_buffer(&self, size: u32) {
        self.inner.set_deadlock_buffer(size);
    }

    /// Closes the database; see [`Db::close`].
    ///
    /// # Errors
    ///
    /// Those of [`Db::close`].
    pub fn close(self) -> Result<()> {
        self.db.close()
    }
}

impl fmt::Debug for TransactionDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionDb")
            .field("db", &self.db)
            .finish_non_exhaustive()
    }
}

/// A database whose transactions take no locks and are checked for conflicts when they are committed. See
/// [the module](self). Reads are those of [`OptimisticTransactionDb::db`].
pub struct OptimisticTransactionDb {
    inner: cairn_txn::OptimisticTransactionDb,
    db: Db,
}

impl OptimisticTransactionDb {
    /// Begins a transaction.
    #[must_use]
    pub fn begin(&self) -> Transaction<'_> {
        Transaction::new(self.inner.begin())
    }

    /// Begins a transaction that is committed with `write_options`.
    #[must_use]
    pub fn begin_with(
        &self,
        write_options: &WriteOptions,
        options: &OptimisticTransactionOptions,
    ) -> Transaction<'_> {
        Transaction::new(self.inner.begin_with(write_options, options))
    }

    /// Runs `work` in a transaction and commits it. After a conflict, it is repeated in a new transaction, a limited
    /// number of times.
    ///
    /// # Errors
    ///
    /// The error of `work`; that of the commit.
    pub fn transact<T>(
        &self,
        mut work: impl FnMut(&mut Transaction<'_>) -> Result<T>,
    ) -> Result<T> {
        self.inner
            .retry(|inner| Transaction::new(inner).run(&mut work))
    }

    /// Returns the underlying database. With parallel validation, a commit that is being validated does not see its
    /// writes.
    #[must_use]
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Creates a family.
    ///
    /// # Errors
    ///
    /// Those of [`Db::create_family`].
    pub fn create_family(&self, name: &str, options: &FamilyOptions) -> Result<Family<'_>> {
        self.inner.create_family(name, options).map(Family::new)
    }

    /// Writes `batch` outside of a transaction.
    ///
    /// # Errors
    ///
    /// Those of [`Db::write_with`].
    pub fn write(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        self.inner.db().check_batch(&batch.inner)?;
        self.inner.write(&batch.inner, options)
    }

    /// Closes the database; see [`Db::close`].
    ///
    /// # Errors
    ///
    /// Those of [`Db::close`].
    pub fn close(self) -> Result<()> {
        self.db.close()
    }
}

impl fmt::Debug for OptimisticTransactionDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OptimisticTransactionDb")
            .field("db", &self.db)
            .finish_non_exhaustive()
    }
}

/// A transaction. It is rolled back when it is dropped, unless it was committed.
///
/// Methods without a family use the default family. Writes and reads for update of a [`TransactionDb`] lock their keys,
/// and fail if that is not possible within the timeout.
pub struct Transaction<'db> {
    pub(crate) inner: cairn_txn::Transaction,
    db: PhantomData<&'db Db>,
}

impl<'db> Transaction<'db> {
    fn new(inner: cairn_txn::Transaction) -> Transaction<'db> {
        Transaction {
            inner,
            db: PhantomData,
        }
    }

    /// Runs `work` and commits.
    fn run<T>(mut self, work: impl FnOnce(&mut Transaction<'_>) -> Result<T>) -> Result<T> {
        let value = work(&mut self)?;
        self.commit().map(|()| value)
    }

    /// Writes the transaction to the database and ends it.
    ///
    /// # Errors
    ///
    /// Those of [`Db::write_with`]. Optimistic: `Busy` if a key was written by others, `TryAgain` if the memtables do not
    /// reach back far enough to decide that. Pessimistic: `Expired`; `InvalidArgument` if the transaction has ended. A
    /// prepared transaction is still prepared after an error.
    pub fn commit(&mut self) -> Result<()> {
        self.inner.commit()
    }

    /// Makes the writes of a pessimistic transaction, which must have a name, durable without making them visible. The
    /// transaction keeps its locks until it is committed or rolled back. If it is dropped, or the process ends, it stays
    /// prepared: see [`TransactionDb::prepared_transactions`]. Writes after the prepare are part of the commit, but not
    /// of what is recovered.
    ///
    /// # Errors
    ///
    /// Those of [`Db::write_with`]; `InvalidArgument` if the transaction is optimistic, has no name, is already prepared
    /// or has ended; `Expired`.
    pub fn prepare(&mut self) -> Result<()> {
        self.inner.prepare()
    }

    /// Sets the writes that the commit of the prepared transaction adds, before its own (RocksDB's commit-time batch). They
    /// are neither locked nor checked, and are logged with the commit: a transaction that is recovered by an opening has
    /// none. Only a prepared transaction can be committed with them. A rollback discards them.
    pub fn set_commit_time_batch(&mut self, batch: WriteBatch) {
        let mut batch = batch.inner;
        if let Err(error) = self.inner.db().check_batch(&batch) {
            batch.refuse(error);
        }
        *self.inner.commit_time_batch() = batch;
    }

    /// Discards the writes of the transaction and releases its locks. One that was not prepared can be used again.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if it has ended, or has lost its locks because it expired. If it is prepared, those of
    /// [`Db::write_with`], after which it still is.
    pub fn rollback(&mut self) -> Result<()> {
        self.inner.rollback()
    }

    /// Sets a save point.
    pub fn set_save_point(&mut self) {
        self.inner.set_save_point();
    }

    /// Takes back everything since the last save point, and removes it. Keys that were locked since then are unlocked.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no save point; `InvalidArgument` if the transaction has ended.
    pub fn rollback_to_save_point(&mut self) -> Result<()> {
        self.inner.rollback_to_save_point()
    }

    /// Removes the last save point. Everything since then belongs to the save point before.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no save point.
    pub fn pop_save_point(&mut self) -> Result<()> {
        self.inner.pop_save_point()
    }

    /// Takes a snapshot. From now on, a write or a read for update of a key that others have written after the snapshot
    /// fails: immediately in a pessimistic transaction, and when an optimistic one is committed.
    pub fn set_snapshot(&mut self) {
        self.inner.set_snapshot();
    }

    /// Makes the next write or read for update take a snapshot, after it has locked its key.
    pub fn set_snapshot_on_next_operation(&mut self) {
        self.inner.set_snapshot_on_next_operation();
    }

    /// Releases the snapshot.
    pub fn clear_snapshot(&mut self) {
        self.inner.clear_snapshot();
    }

    /// Excludes further writes from the reads of this transaction. They are locked, checked and committed as others, but
    /// cost less memory and time: for writes that the transaction will not read.
    pub fn disable_indexing(&mut self) {
        self.inner.disable_indexing();
    }

    /// Includes further writes in the reads of this transaction again; the default.
    pub fn enable_indexing(&mut self) {
        self.inner.enable_indexing();
    }

    /// Returns the sequence number of the snapshot, for [`ReadOptions`].
    #[must_use]
    pub fn snapshot(&self) -> Option<SequenceNumber> {
        self.inner.snapshot().map(|snapshot| snapshot.sequence())
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    ///
    /// Pessimistic: `TimedOut` with `LockTimeout`, `Busy` with `Deadlock`, or `Aborted` with `LockLimit` if the key
    /// cannot be locked; `Busy` if it was written after the snapshot. Both: `Aborted` with `MemoryLimit` if the batch
    /// would be too large.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.inner.put(key, value)
    }

    /// Sets `key` of `family` to `value`.
    ///
    /// # Errors
    ///
    /// Those of [`Transaction::put`].
    pub fn put_in(&mut self, family: &Family<'_>, key: &[u8], value: &[u8]) -> Result<()> {
        self.inner.put_in(&family.inner, key, value)
    }

    /// [`Transaction::put_in`] without a check for conflicts.
    ///
    /// # Errors
    ///
    /// Those of [`Transaction::put`], except for conflicts with the snapshot.
    pub fn put_untracked_in(
        &mut self,
        family: &Family<'_>,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        self.inner.put_untracked_in(&family.inner, key, value)
    }

    /// Sets `key` of `family` to an entity.
    ///
    /// # Errors
    ///
    /// Those of [`Transaction::put`].
    pub fn put_entity_in(
        &mut self,
        family: &Family<'_>,
        key: &[u8],
        columns: &[Column<'_>],
    ) -> Result<()> {
        self.inner.put_entity_in(&family.inner, key, columns)
    }

    /// Adds a merge operand to `key` of `family`.
    ///
    /// # Errors
    ///
    /// Those of [`Transaction::put`].
    pub fn merge_in(&mut self, family: &Family<'_>, key: &[u8], operand: &[u8]) -> Result<()> {
        self.inner.merge_in(&family.inner, key, operand)
    }

    /// Deletes `key`.
    ///
    /// # Errors
    ///
    /// Those of [`Transaction::put`].
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.inner.delete(key)
    }

    /// Deletes `key` from `family`.
    ///
    /// # Errors
    ///
    /// Those of [`Transaction::put`].
    pub fn delete_in(&mut self, family: &Family<'_>, key: &[u8]) -> Result<()> {
        self.inner.delete_in(&family.inner, key)
    }

    /// Adds the writes of `batch`.
    ///
    /// # Errors
    ///
    /// Those of the writes; `NotSupported` for range deletions.
    pub fn rebuild_from_write_batch(&mut self, batch: &WriteBatch) -> Result<()> {
        self.inner.db().check_batch(&batch.inner)?;
        self.inner.rebuild_from_write_batch(&batch.inner)
    }

    /// Returns the value of `key` as it will be once the transaction is committed. A snapshot in `options` applies to
    /// the database only.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get`].
    pub fn get(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Value>> {
        self.inner.get(key, options)
    }

    /// [`Transaction::get`] in `family`.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get`].
    pub fn get_in(
        &self,
        family: &Family<'_>,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<Value>> {
        self.inner.get_in(&family.inner, key, options)
    }

    /// [`Transaction::get_in`] for wide-column entities.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get`].
    pub fn get_entity_in(
        &self,
        family: &Family<'_>,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<Columns>> {
        self.inner.get_entity_in(&family.inner, key, options)
    }

    /// Returns the value of `key`, and locks it, or checks at the commit that others have not written it.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get`]; those of [`Transaction::put`].
    pub fn get_for_update(&mut self, key: &[u8], options: &ReadOptions) -> Result<Option<Value>> {
        self.inner.get_for_update(key, options)
    }

    /// [`Transaction::get_for_update`] in `family`, with a lock for this transaction alone if `exclusive`. With
    /// `validate`, the key must not have been written after the snapshot of the transaction.
    ///
    /// # Errors
    ///
    /// Those of [`Transaction::get_for_update`].
    pub fn get_for_update_in(
        &mut self,
        family: &Family<'_>,
        key: &[u8],
        options: &ReadOptions,
        exclusive: bool,
        validate: bool,
    ) -> Result<Option<Value>> {
        self.inner
            .get_for_update_in(&family.inner, key, options, exclusive, validate)
    }

    /// Locks the keys of `family` from `start` to `end`, both inclusive, for this transaction alone, whether they exist or
    /// not, until the transaction ends.
    ///
    /// # Errors
    ///
    /// Those of a lock, see [`Transaction::put`]; `InvalidArgument` if `start` follows `end`; `NotSupported` for an
    /// optimistic transaction.
    pub fn get_range_lock(
        &mut self,
        family: &Family<'_>,
        start: Endpoint,
        end: Endpoint,
    ) -> Result<()> {
        self.inner.get_range_lock(&family.inner, start, end)
    }

    /// Takes back a read for update.
    pub fn undo_get_for_update(&mut self, family: &Family<'_>, key: &[u8]) {
        self.inner.undo_get_for_update(&family.inner, key);
    }

    /// Returns an iterator over `family` as it will be once the transaction is committed.
    #[must_use]
    pub fn iter_in(&self, family: &Family<'_>, options: &ReadOptions) -> BaseDeltaIter<'db> {
        BaseDeltaIter::new(self.inner.iter_in(&family.inner, options))
    }

    /// [`Transaction::iter_in`] over the default family.
    #[must_use]
    pub fn iter(&self, options: &ReadOptions) -> BaseDeltaIter<'db> {
        BaseDeltaIter::new(self.inner.iter(options))
    }

    /// Names a pessimistic transaction.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for an optimistic transaction, or a name that is too long or in use.
    pub fn set_name(&mut self, name: &[u8]) -> Result<()> {
        self.inner.set_name(name)
    }

    /// Returns the name of a pessimistic transaction; empty if there is none.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.inner.name()
    }

    /// Returns the id among the transactions of a [`TransactionDb`].
    #[must_use]
    pub fn id(&self) -> u64 {
        self.inner.id()
    }

    /// Returns the state.
    #[must_use]
    pub fn state(&self) -> TransactionState {
        self.inner.state()
    }

    /// Returns the numbers of writes.
    #[must_use]
    pub fn counts(&self) -> WriteCounts {
        self.inner.counts()
    }

    /// Sets the timestamp of reads for update in families with timestamps. From now on, a write or a read for update
    /// fails if its key has a version with a newer timestamp. `u64::MAX` stands for none.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if it is less than before; `NotSupported` for an optimistic transaction.
    pub fn set_read_timestamp_for_validation(&mut self, timestamp: u64) -> Result<()> {
        self.inner.set_read_timestamp_for_validation(timestamp)
    }

    /// Sets the timestamp of the writes in families with timestamps, without which they cannot be committed. `u64::MAX`
    /// stands for none.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if it is not greater than the read timestamp; `NotSupported` for an optimistic transaction.
    pub fn set_commit_timestamp(&mut self, timestamp: u64) -> Result<()> {
        self.inner.set_commit_timestamp(timestamp)
    }

    /// Returns the timestamp of the writes, if it is set.
    #[must_use]
    pub fn commit_timestamp(&self) -> Option<u64> {
        self.inner.commit_timestamp()
    }

    /// Sets the time to wait for a lock in milliseconds; negative for no limit.
    pub fn set_lock_timeout(&mut self, millis: i64) {
        self.inner.set_lock_timeout(millis);
    }
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
