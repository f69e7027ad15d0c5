//! Pessimistic transactions: the database, and writes outside of transactions.
//!
//! A write outside of a transaction locks its key, writes, and unlocks the key, so that it neither overwrites a key that
//! a transaction has locked nor comes between a validation and a commit. A batch locks all of its keys in one order,
//! the same for all batches, before it is written.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use cairn_db::{Column, Db, Family, OpenRequest, Record, WriteBatch};
use cairn_locks::{
    DeadlockPath, LockKey, LockManager, LockStatus, Owner, RangeLockStatus, Request,
};
use cairn_options::{FamilyOptions, WriteOptions};
use cairn_platform::sync::Mutex;
use cairn_types::{Error, Result};

use crate::history;
use crate::key::{key_of, without_timestamp};
use crate::options::{TransactionDbOptions, TransactionOptions, WritePolicy};
use crate::transaction::{Parked, Transaction, retry};

/// The locks and names of the transactions of one database.
pub(crate) struct Locking {
    pub(crate) locks: LockManager,
    options: TransactionDbOptions,
    /// The names of transactions.
    names: Mutex<HashSet<Vec<u8>>>,
    /// Prepared transactions without a handle, by name.
    parked: Mutex<BTreeMap<Vec<u8>, Parked>>,
}

impl Locking {
    pub(crate) fn options(&self) -> &TransactionDbOptions {
        &self.options
    }

    /// Registers the name of a transaction.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if another transaction has it.
    pub(crate) fn register_name(&self, name: &[u8]) -> Result<()> {
        match self.names.lock().insert(name.to_vec()) {
            true => Ok(()),
            false => Err(Error::invalid_argument("Duplicate name")),
        }
    }

    pub(crate) fn unregister_name(&self, name: &[u8]) {
        self.names.lock().remove(name);
    }

    /// Keeps a prepared transaction whose handle was dropped. Its name stays registered.
    pub(crate) fn park(&self, parked: Parked) {
        let before = self.parked.lock().insert(parked.name().to_vec(), parked);
        debug_assert!(before.is_none(), "names of transactions are unique");
    }
}

/// The lock of a key for a write outside of transactions. It is released when this value is dropped.
struct LockedKey<'a> {
    locks: &'a LockManager,
    owner: u64,
    key: LockKey,
}

impl Drop for LockedKey<'_> {
    fn drop(&mut self) {
        self.locks.unlock(&self.key, self.owner);
    }
}

/// The time to wait for a lock, from milliseconds: negative for no limit.
pub(crate) fn wait_time(millis: i64) -> Option<Duration> {
    u64::try_from(millis).ok().map(Duration::from_millis)
}

/// A database whose transactions lock the keys that they write.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use cairn_db::OpenRequest;
/// use cairn_options::{DbOptions, ReadOptions};
/// use cairn_txn::TransactionDb;
///
/// let options = DbOptions { create_if_missing: true, ..DbOptions::default() };
/// let db = TransactionDb::open(
///     &OpenRequest {
///         path: dir.path(),
///         options: &options,
///         families: &[],
///         others: None,
///         read_only: false,
///         world: cairn_platform::World::posix(),
///     },
///     &Default::default(),
/// )?;
/// // Moves 10 from one account to the other.
/// let amount = |value: Option<cairn_db::Value>| value.map_or(0, |value| value[0]);
/// db.transact(|txn| {
///     let from = amount(txn.get_for_update(b"from", &ReadOptions::default())?);
///     let to = amount(txn.get_for_update(b"to", &ReadOptions::default())?);
///     txn.put(b"from", &[from.wrapping_sub(10)])?;
///     txn.put(b"to", &[to + 10])
/// })?;
/// assert_eq!(amount(db.db().get(b"to")?), 10);
/// # Ok::<(), cairn_types::Error>(())
/// ```
#[derive(Clone)]
pub struct TransactionDb {
    db: Db,
    locking: Arc<Locking>,
}

impl TransactionDb {
    /// Opens a database with `allow_2pc`. Families keep flushed memtables for conflict checks, unless their options set
    /// a limit. Prepared transactions that the logs have are recovered with their locks; see
    /// [`TransactionDb::prepared_transactions`].
    ///
    /// # Errors
    ///
    /// Those of [`cairn_db::open_of_policy`]; `NotSupported` for secondary indexes with a write policy other than
    /// "committed".
    pub fn open(
        request: &OpenRequest<'_>,
        options: &TransactionDbOptions,
    ) -> Result<TransactionDb> {
        options.check()?;
        let policy = options.write_policy.of_sections();
        let open = |request: &OpenRequest<'_>| cairn_db::open_of_policy(request, policy);
        TransactionDb::new(history::open_by(request, true, open)?, options)
    }

    /// Opens a database that RocksDB last wrote with the write policy `policy`, and converts it: its policy is "committed"
    /// from then on, and RocksDB opens it with that policy. Prepared transactions stay prepared; transactions that were
    /// not prepared, of which the logs may have parts with the policy "unprepared", are rolled back.
    ///
    /// # Errors
    ///
    /// Those of [`cairn_db::convert_policy`]; `InvalidArgument` if `options` have a write policy other than "committed".
    pub fn convert(
        request: &OpenRequest<'_>,
        options: &TransactionDbOptions,
        policy: WritePolicy,
    ) -> Result<TransactionDb> {
        if options.write_policy != WritePolicy::Committed {
            return Err(Error::invalid_argument(
                "a database is converted to the write policy WRITE_COMMITTED",
            ));
        }
        let policy = policy.of_sections();
        let open = |request: &OpenRequest<'_>| cairn_db::convert_policy(request, policy);
        TransactionDb::new(history::open_by(request, true, open)?, options)
    }

    /// Makes a transaction database of an open one, whose other handles must not write to it.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if `db` was not opened with the write policy of the options: [`TransactionDb::open`] does that.
    /// `NotSupported` as for it.
    pub fn new(db: Db, options: &TransactionDbOptions) -> Result<TransactionDb> {
        options.check()?;
        if db.prepare_policy() != options.write_policy.of_sections() {
            return Err(Error::invalid_argument(format!(
                "the write policy {:?} for a database that was opened with {:?}",
                options.write_policy,
                db.prepare_policy()
            )));
        }
        let limit = u64::try_from(options.max_num_locks).ok();
        let locks = LockManager::new(
            options.num_stripes,
            limit.filter(|limit| *limit > 0),
            options.max_num_deadlocks,
            db.clock().clone(),
        );
        let locking = Arc::new(Locking {
            locks,
            options: options.clone(),
            names: Mutex::default(),
            parked: Mutex::default(),
        });
        let families = db.families();
        for prepared in db.prepared()? {
            // Parked when it is dropped.
            drop(Transaction::recovered(&db, &locking, &families, &prepared)?);
        }
        Ok(TransactionDb { db, locking })
    }

    /// Returns the prepared transactions that have no handle, sorted by name: those recovered by the opening, and those
    /// whose handles were dropped. Each is returned once, until its new handle is dropped.
    #[must_use]
    pub fn prepared_transactions(&self) -> Vec<Transaction> {
        let parked = std::mem::take(&mut *self.locking.parked.lock());
        let unparked = parked.into_values().map(|parked| self.unpark(parked));
        unparked.collect()
    }

    /// Returns the prepared transaction `name` if it has no handle, like [`TransactionDb::prepared_transactions`].
    #[must_use]
    pub fn transaction_by_name(&self, name: &[u8]) -> Option<Transaction> {
        let parked = self.locking.parked.lock().remove(name)?;
        Some(self.unpark(parked))
    }

    fn unpark(&self, parked: Parked) -> Transaction {
        Transaction::unparked(self.db.clone(), self.locking.clone(), parked)
    }

    /// Begins a transaction.
    #[must_use]
    pub fn begin(&self) -> Transaction {
        self.begin_with(&WriteOptions::default(), &TransactionOptions::default())
    }

    /// Begins a transaction that is committed with `write_options`.
    #[must_use]
    pub fn begin_with(
        &self,
        write_options: &WriteOptions,
        options: &TransactionOptions,
    ) -> Transaction {
        Transaction::pessimistic(
            self.db.clone(),
            self.locking.clone(),
            write_options.clone(),
            options,
        )
    }

    /// Runs `work` in a transaction that detects deadlocks, and commits it. After a conflict, a timeout or a deadlock, it
    /// is repeated in a new transaction, a limited number of times.
    ///
    /// # Errors
    ///
    /// The error of `work`; that of the commit.
    pub fn transact<T>(&self, mut work: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        self.retry(|transaction| transaction.run(&mut work))
    }

    /// Calls `attempt` with a new transaction that detects deadlocks, and which it has to commit. After a conflict, a
    /// timeout or a deadlock, it is called again with another one, a limited number of times.
    ///
    /// # Errors
    ///
    /// The error of the last attempt.
    pub fn retry<T>(&self, attempt: impl FnMut(Transaction) -> Result<T>) -> Result<T> {
        let options = TransactionOptions {
            deadlock_detect: true,
            ..TransactionOptions::default()
        };
        retry(
            || self.begin_with(&WriteOptions::default(), &options),
            attempt,
        )
    }

    /// Returns the underlying database. Its writes ignore the locks of transactions.
    #[must_use]
    pub fn db(&self) -> &Db {
        &self.db
    }

    pub(crate) fn options(&self) -> &TransactionDbOptions {
        &self.locking.options
    }

    /// Creates a family.
    ///
    /// # Errors
    ///
    /// Those of [`Db::create_family`]; `NotSupported` for keys with timestamps, with a write policy other than
    /// "committed".
    pub fn create_family(&self, name: &str, options: &FamilyOptions) -> Result<Family> {
        let has_timestamps = options.comparator.timestamp_size() > 0;
        if has_timestamps && self.locking.options.write_policy != WritePolicy::Committed {
            return Err(Error::not_supported(
                "Only WriteCommittedTxn supports timestamp",
            ));
        }
        history::create_family(&self.db, name, options)
    }

    /// Sets `key` of `family` to `value`, outside of a transaction.
    ///
    /// # Errors
    ///
    /// Those of [`Db::write_with`]; `TimedOut` with `LockTimeout` if a transaction holds the lock of the key;
    /// `Aborted` with `LockLimit`.
    pub fn put(
        &self,
        family: &Family,
        key: &[u8],
        value: &[u8],
        options: &WriteOptions,
    ) -> Result<()> {
        let indexed = self.write_indexed(family, options, |txn| {
            txn.put_untracked_in(family, key, value)
        });
        if let Some(written) = indexed {
            return written;
        }
        let _lock = self.lock(family, key)?;
        family.put_with(key, value, options)
    }

    /// Deletes `key` from `family`, outside of a transaction.
    ///
    /// # Errors
    ///
    /// Those of [`TransactionDb::put`].
    pub fn delete(&self, family: &Family, key: &[u8], options: &WriteOptions) -> Result<()> {
        let indexed =
            self.write_indexed(family, options, |txn| txn.delete_untracked_in(family, key));
        if let Some(written) = indexed {
            return written;
        }
        let _lock = self.lock(family, key)?;
        family.delete_with(key, options)
    }

    /// Adds a merge operand to `key` of `family`, outside of a transaction.
    ///
    /// # Errors
    ///
    /// Those of [`TransactionDb::put`].
    pub fn merge(
        &self,
        family: &Family,
        key: &[u8],
        operand: &[u8],
        options: &WriteOptions,
    ) -> Result<()> {
        let indexed = self.write_indexed(family, options, |txn| {
            txn.merge_untracked_in(family, key, operand)
        });
        if let Some(written) = indexed {
            return written;
        }
        let _lock = self.lock(family, key)?;
        family.merge_with(key, operand, options)
    }

    /// Sets `key` of `family` to an entity, outside of a transaction.
    ///
    /// # Errors
    ///
    /// Those of [`TransactionDb::put`].
    pub fn put_entity(
        &self,
        family: &Family,
        key: &[u8],
        columns: &[Column<'_>],
        options: &WriteOptions,
    ) -> Result<()> {
        let indexed = self.write_indexed(family, options, |txn| {
            txn.put_entity_untracked_in(family, key, columns)
        });
        if let Some(written) = indexed {
            return written;
        }
        let _lock = self.lock(family, key)?;
        family.put_entity_with(key, columns, options)
    }

    /// Writes `batch` outside of a transaction.
    ///
    /// # Errors
    ///
    /// Those of [`TransactionDb::put`]; `NotSupported` for range deletions and for keys with timestamps, as in RocksDB.
    pub fn write(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        if let Some(written) = self.write_indexed_batch(batch, options) {
            return written;
        }
        let _locks = match self.locking.options.skip_concurrency_control {
            true => Vec::new(),
            false => self.lock_batch(batch)?,
        };
        self.db.write_with(batch, options)
    }

    /// Locks `key` of `family` for a write outside of transactions, unless concurrency control is turned off.
    fn lock(&self, family: &Family, key: &[u8]) -> Result<Option<LockedKey<'_>>> {
        self.db.check_families([family])?;
        match self.locking.options.skip_concurrency_control {
            true => Ok(None),
            false => self.lock_for(&self.new_owner(), family.id(), key).map(Some),
        }
    }

    /// Locks the keys of `batch`, in ascending order.
    fn lock_batch(&self, batch: &WriteBatch) -> Result<Vec<LockedKey<'_>>> {
        if batch.has_timestamps() {
            // The order of the timestamps might not be that of the locks.
            return Err(Error::not_supported(
                "Batch to commit includes timestamp assigned before locking",
            ));
        }
        let families = match self.db.has_timestamps() {
            true => self.db.families(),
            false => Vec::new(),
        };
        let mut keys = BTreeSet::new();
        for record in batch.records() {
            let record = record?;
            if let Record::DeleteRange { .. } = record {
                return Err(Error::invalid_argument(
                    "a transaction database takes no range deletions",
                ));
            }
            let key = key_of(&record);
            keys.extend(key.map(|(id, key)| (id, without_timestamp(&families, id, key))));
        }
        let owner = self.new_owner();
        let lock = |(family, key)| self.lock_for(&owner, family, key);
        keys.into_iter().map(lock).collect()
    }

    /// The owner of the locks of a write outside of transactions.
    fn new_owner(&self) -> Owner {
        Owner::new(self.locking.locks.next_id(), 0)
    }

    /// Locks `key` of `family` for `owner`.
    fn lock_for(&self, owner: &Owner, family: u32, key: &[u8]) -> Result<LockedKey<'_>> {
        let locks = &self.locking.locks;
        let key = LockKey::new(family, key);
        let request = Request {
            owner,
            exclusive: true,
            timeout: wait_time(self.locking.options.default_lock_timeout),
            detect: None,
        };
        locks.lock(&key, &request)?;
        Ok(LockedKey {
            locks,
            owner: owner.id,
            key,
        })
    }

    /// Returns the locked keys.
    #[must_use]
    pub fn lock_status(&self) -> Vec<LockStatus> {
        self.locking.locks.status()
    }

    /// Returns the locked ranges.
    #[must_use]
    pub fn range_lock_status(&self) -> Vec<RangeLockStatus> {
        self.locking.locks.range_status()
    }

    /// Returns the key for which the transaction `id` waits, and those that hold its lock.
    #[must_use]
    pub fn waits_for(&self, id: u64) -> Option<LockStatus> {
        self.locking.locks.waits_for(id)
    }

    /// Returns the most recent deadlocks, newest first.
    #[must_use]
    pub fn deadlocks(&self) -> Vec<DeadlockPath> {
        self.locking.locks.deadlocks()
    }

    /// Sets the number of deadlocks that are kept.
    pub fn set_deadlock_buffer(&self, size: u32) {
        self.locking.locks.set_deadlock_buffer(size);
    }
}
