//! Pessimistic transactions: the database, and writes outside of transactions.
//!
//! A write outside of a transaction locks its key, writes, and unlocks the key, so that it neither overwrites a key that
//! a transaction has locked nor comes between a validation and a commit. A batch locks all of its keys in one order,
//! the same for all batches, before it is written.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use cairn_db::{Column, Db, Family, OpenRequest, Record, WriteBatch};
use cairn_options::{FamilyOptions, WriteOptions};
use cairn_platform::sync::Mutex;
use cairn_types::{Error, Result};

use crate::key::LockKey;
use crate::locks::{DeadlockPath, LockManager, LockStatus, Request};
use crate::optimistic::{key_of, open_with_history};
use crate::options::{TransactionDbOptions, TransactionOptions, keep_history};
use crate::owner::Owner;
use crate::transaction::{Transaction, retry};

/// The locks and names of the transactions of one database.
pub(crate) struct Locking {
    pub(crate) locks: LockManager,
    options: TransactionDbOptions,
    /// The names of transactions.
    names: Mutex<HashSet<Vec<u8>>>,
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
}

/// Locks of a write outside of transactions, which end with this value.
struct Locked<'a> {
    locks: &'a LockManager,
    owner: Owner,
    keys: Vec<LockKey>,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        for key in &self.keys {
            self.locks.unlock(key, self.owner.id);
        }
    }
}

/// A single lock of a write outside of transactions, which ends with this value.
struct LockedKey<'a> {
    locks: &'a LockManager,
    id: u64,
    key: LockKey,
}

impl Drop for LockedKey<'_> {
    fn drop(&mut self) {
        self.locks.unlock(&self.key, self.id);
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
    /// Opens a database. Families keep flushed memtables for conflict checks, unless their options set a limit.
    ///
    /// # Errors
    ///
    /// Those of [`cairn_db::open()`]; `NotSupported` for a write policy other than "committed".
    pub fn open(
        request: &OpenRequest<'_>,
        options: &TransactionDbOptions,
    ) -> Result<TransactionDb> {
        options.check()?;
        TransactionDb::new(open_with_history(request)?, options)
    }

    /// Makes a transaction database of an open one, whose other handles must not write to it.
    ///
    /// # Errors
    ///
    /// `NotSupported` for a write policy other than "committed".
    pub fn new(db: Db, options: &TransactionDbOptions) -> Result<TransactionDb> {
        options.check()?;
        let limit = u64::try_from(options.max_num_locks).ok();
        let locks = LockManager::new(
            options.num_stripes,
            limit.filter(|limit| *limit > 0),
            options.max_num_deadlocks,
            db.clock().clone(),
        );
        Ok(TransactionDb {
            db,
            locking: Arc::new(Locking {
                locks,
                options: options.clone(),
                names: Mutex::default(),
            }),
        })
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

    /// Runs `work` in a transaction that detects deadlocks, and commits it. After a conflict, a timeout or a deadlock, it is repeated in a new
    /// transaction, a limited number of times.
    ///
    /// # Errors
    ///
    /// The error of `work`; that of the commit.
    pub fn transact<T>(&self, work: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        let options = TransactionOptions {
            deadlock_detect: true,
            ..TransactionOptions::default()
        };
        retry(|| self.begin_with(&WriteOptions::default(), &options), work)
    }

    /// Returns the underlying database. Its writes ignore the locks of transactions.
    #[must_use]
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Creates a family.
    ///
    /// # Errors
    ///
    /// Those of [`Db::create_family`].
    pub fn create_family(&self, name: &str, options: &FamilyOptions) -> Result<Family> {
        let mut options = options.clone();
        keep_history(&mut options);
        self.db.create_family(name, &options)
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
        let _lock = self.lock(family, key)?;
        family.put_with(key, value, options)
    }

    /// Deletes `key` from `family`, outside of a transaction.
    ///
    /// # Errors
    ///
    /// Those of [`TransactionDb::put`].
    pub fn delete(&self, family: &Family, key: &[u8], options: &WriteOptions) -> Result<()> {
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
        let mut batch = WriteBatch::new();
        batch.put_entity_in(family, key, columns);
        self.write(&batch, options)
    }

    /// Writes `batch` outside of a transaction.
    ///
    /// # Errors
    ///
    /// Those of [`TransactionDb::put`]; `NotSupported` for range deletions, as in RocksDB.
    pub fn write(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        let _locks = match self.locking.options.skip_concurrency_control {
            true => None,
            false => Some(self.lock_batch(batch)?),
        };
        self.db.write_with(batch, options)
    }

    /// Locks a key for a write outside of transactions.
    fn lock(&self, family: &Family, key: &[u8]) -> Result<Option<LockedKey<'_>>> {
        if self.locking.options.skip_concurrency_control {
            return Ok(None);
        }
        let locks = &self.locking.locks;
        let owner = Owner::new(locks.next_id(), 0);
        let key = LockKey::new(family.id(), key);
        locks.lock(&key, &self.request(&owner))?;
        Ok(Some(LockedKey {
            locks,
            id: owner.id,
            key,
        }))
    }

    fn request<'a>(&self, owner: &'a Owner) -> Request<'a> {
        Request {
            owner,
            exclusive: true,
            timeout: wait_time(self.locking.options.default_lock_timeout),
            detect: None,
        }
    }

    /// Locks the keys of `batch`, in ascending order.
    fn lock_batch(&self, batch: &WriteBatch) -> Result<Locked<'_>> {
        let locks = &self.locking.locks;
        let mut keys = BTreeSet::new();
        for record in batch.records() {
            let record = record?;
            if let Record::DeleteRange { .. } = record {
                return Err(Error::not_supported(
                    "range deletions in a transaction database",
                ));
            }
            if let (Some(family), Some(key)) = (record.family(), key_of(&record)) {
                keys.insert((family, key));
            }
        }
        let mut locked = Locked {
            locks,
            owner: Owner::new(locks.next_id(), 0),
            keys: Vec::with_capacity(keys.len()),
        };
        for (family, key) in keys {
            let key = LockKey::new(family, key);
            locks.lock(&key, &self.request(&locked.owner))?;
            locked.keys.push(key);
        }
        Ok(locked)
    }

    /// Returns the locked keys.
    #[must_use]
    pub fn lock_status(&self) -> Vec<LockStatus> {
        self.locking.locks.status()
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
