//! Optimistic transactions: the database, and the validation of a commit.
//!
//! A transaction records the sequence number at which it accessed each key. Its commit fails with `Busy` if a key was
//! written afterwards, and with `TryAgain` if the memtables do not reach back that far: families keep flushed memtables
//! for this (`max_write_buffer_size_to_maintain`). Tables are not read.
//!
//! With parallel validation, a commit locks the buckets of its keys, in ascending order, checks the keys, and writes its
//! batch before it unlocks the buckets. Writes of [`OptimisticTransactionDb`] itself lock the buckets of their keys as
//! well, and those with range deletions exclude all commits, since a range has no bucket. With serial validation the keys
//! are checked by the leader of the write queue.

use std::sync::Arc;

use cairn_db::{Db, Family, KeyState, OpenRequest, Record, WriteBatch};
use cairn_locks::{LockKey, hash_of};
use cairn_options::{FamilyOptions, WriteOptions};
use cairn_platform::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard};
use cairn_types::{Error, Result};

use crate::history;
use crate::key::key_of;
use crate::options::{
    OptimisticTransactionDbOptions, OptimisticTransactionOptions, ValidatePolicy,
};
use crate::tracker::Tracker;
use crate::transaction::{Transaction, retry, write_batch};

/// Locks for the parallel validation of optimistic transactions, which databases can share.
#[derive(Debug)]
pub struct LockBuckets {
    /// Held by commits and writes, and exclusively by writes with range deletions. Commits of all threads change its word
    /// twice, as they do those of the write queue.
    ranges: RwLock<()>,
    buckets: Buckets,
}

/// The locked buckets of a commit or a write.
struct Locked<'a> {
    _buckets: Vec<MutexGuard<'a, ()>>,
    _commits: RwLockReadGuard<'a, ()>,
}

/// A bucket on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Aligned(Mutex<()>);

#[derive(Debug)]
enum Buckets {
    Dense(Box<[Mutex<()>]>),
    Aligned(Box<[Aligned]>),
}

impl LockBuckets {
    /// Creates `count` buckets, at least one; each on a cache line of its own if `cache_aligned`.
    #[must_use]
    pub fn new(count: usize, cache_aligned: bool) -> LockBuckets {
        let count = count.max(1);
        LockBuckets {
            ranges: RwLock::new(()),
            buckets: match cache_aligned {
                true => Buckets::Aligned((0..count).map(|_| Aligned::default()).collect()),
                false => Buckets::Dense((0..count).map(|_| Mutex::new(())).collect()),
            },
        }
    }

    /// The memory of the buckets in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        match &self.buckets {
            Buckets::Dense(buckets) => std::mem::size_of_val(&**buckets),
            Buckets::Aligned(buckets) => std::mem::size_of_val(&**buckets),
        }
    }

    fn len(&self) -> usize {
        match &self.buckets {
            Buckets::Dense(buckets) => buckets.len(),
            Buckets::Aligned(buckets) => buckets.len(),
        }
    }

    /// Locks the buckets of keys with these hashes, in ascending order.
    fn lock(&self, hashes: impl Iterator<Item = u64>) -> Locked<'_> {
        let commits = self.ranges.read();
        let count = self.len() as u64;
        let mut places: Vec<usize> = hashes.map(|hash| (hash % count) as usize).collect();
        places.sort_unstable();
        places.dedup();
        let lock = |at: usize| match &self.buckets {
            Buckets::Dense(buckets) => buckets[at].lock(),
            Buckets::Aligned(buckets) => buckets[at].0.lock(),
        };
        Locked {
            _buckets: places.into_iter().map(lock).collect(),
            _commits: commits,
        }
    }
}

/// The validation of the commits of one database.
#[derive(Clone, Debug)]
pub(crate) enum Validation {
    /// By the leader of the write queue.
    Serial,
    /// Before the batch joins the write queue, with the buckets of its keys locked.
    Parallel(Arc<LockBuckets>),
}

impl Validation {
    /// Writes `batch` to `db` if no key of `tracker` was written after its sequence number. `families` has the families
    /// of the keys other than the default family.
    ///
    /// # Errors
    ///
    /// `Busy` for a conflict; `TryAgain` if the memtables do not reach back far enough to find one; those of a write.
    pub(crate) fn commit(
        &self,
        db: &Db,
        families: &[Family],
        tracker: &Tracker,
        batch: &WriteBatch,
        options: &WriteOptions,
    ) -> Result<()> {
        let check = || {
            tracker.iter().try_for_each(|(key, tracked)| {
                check(family_of(db, families, key), key, tracked.seq)
            })
        };
        match self {
            Validation::Serial => db.write_if(batch, options, check),
            Validation::Parallel(buckets) => {
                let hashes = tracker.iter().map(|(key, _)| key.hash());
                // A listener may commit as well.
                db.write_under_locks(|| {
                    let _locked = buckets.lock(hashes);
                    check()?;
                    write_batch(db, batch, options)
                })
            }
        }
    }
}

/// The family of `key`, which is in `families` or the default family of `db`.
fn family_of<'a>(db: &'a Db, families: &'a [Family], key: &LockKey) -> &'a Family {
    let found = families.iter().find(|family| family.id() == key.family());
    found.unwrap_or(db.default_family())
}

/// Returns an error if `key` was written after `seq`, or if the memtables do not reach back to `seq`.
fn check(family: &Family, key: &LockKey, seq: cairn_types::SequenceNumber) -> Result<()> {
    match family.state_since(key.bytes(), seq, true)? {
        KeyState::Unchanged => Ok(()),
        KeyState::Written => Err(Error::busy(
            "a key of the transaction was written by another one",
        )),
        KeyState::Unknown { oldest } => Err(Error::try_again(format!(
            "Transaction could not check for conflicts for operation at SequenceNumber {seq} as the \
             MemTable only contains changes newer than SequenceNumber {oldest}.  Increasing the \
             value of the max_write_buffer_size_to_maintain option could reduce the frequency of \
             this error."
        ))),
    }
}

/// A database whose transactions take no locks and are checked for conflicts when they are committed.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use cairn_db::OpenRequest;
/// use cairn_options::DbOptions;
/// use cairn_txn::OptimisticTransactionDb;
/// use cairn_types::Code;
///
/// let options = DbOptions { create_if_missing: true, ..DbOptions::default() };
/// let db = OptimisticTransactionDb::open(
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
/// let (mut first, mut second) = (db.begin(), db.begin());
/// first.put(b"slate", b"metamorphic")?;
/// second.put(b"slate", b"blue")?;
/// first.commit()?;
/// assert_eq!(second.commit().unwrap_err().code(), Code::Busy);
/// # Ok::<(), cairn_types::Error>(())
/// ```
#[derive(Clone)]
pub struct OptimisticTransactionDb {
    db: Db,
    validation: Validation,
}

impl OptimisticTransactionDb {
    /// Opens a database. Families keep flushed memtables for conflict checks, unless their options set a limit.
    ///
    /// # Errors
    ///
    /// Those of [`cairn_db::open()`].
    pub fn open(
        request: &OpenRequest<'_>,
        options: &OptimisticTransactionDbOptions,
    ) -> Result<OptimisticTransactionDb> {
        Ok(OptimisticTransactionDb::new(
            history::open(request, false)?,
            options,
        ))
    }

    /// Makes a transaction database of an open one.
    #[must_use]
    pub fn new(db: Db, options: &OptimisticTransactionDbOptions) -> OptimisticTransactionDb {
        let own = || Arc::new(LockBuckets::new(options.occ_lock_buckets as usize, false));
        let validation = match options.validate_policy {
            ValidatePolicy::Serial => Validation::Serial,
            ValidatePolicy::Parallel => {
                let shared = options.shared_lock_buckets.clone();
                Validation::Parallel(shared.unwrap_or_else(own))
            }
        };
        OptimisticTransactionDb { db, validation }
    }

    /// Begins a transaction.
    #[must_use]
    pub fn begin(&self) -> Transaction {
        self.begin_with(
            &WriteOptions::default(),
            &OptimisticTransactionOptions::default(),
        )
    }

    /// Begins a transaction that is committed with `write_options`.
    #[must_use]
    pub fn begin_with(
        &self,
        write_options: &WriteOptions,
        options: &OptimisticTransactionOptions,
    ) -> Transaction {
        let validation = self.validation.clone();
        let mut transaction =
            Transaction::optimistic(self.db.clone(), validation, write_options.clone());
        if options.set_snapshot {
            transaction.set_snapshot();
        }
        transaction
    }

    /// Runs `work` in a transaction and commits it. After a conflict, it is repeated in a new transaction, a limited
    /// number of times.
    ///
    /// # Errors
    ///
    /// The error of `work`; that of the commit.
    pub fn transact<T>(&self, mut work: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        self.retry(|transaction| transaction.run(&mut work))
    }

    /// Calls `attempt` with a new transaction, which it has to commit. After a conflict, it is called again with another
    /// one, a limited number of times.
    ///
    /// # Errors
    ///
    /// The error of the last attempt.
    pub fn retry<T>(&self, attempt: impl FnMut(Transaction) -> Result<T>) -> Result<T> {
        retry(|| self.begin(), attempt)
    }

    /// Returns the underlying database. With parallel validation, its writes are not seen by a commit that is being
    /// validated.
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
        history::create_family(&self.db, name, options)
    }

    /// Writes `batch` outside of a transaction.
    ///
    /// # Errors
    ///
    /// Those of [`Db::write_with`].
    pub fn write(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        let Validation::Parallel(buckets) = &self.validation else {
            return self.db.write_with(batch, options);
        };
        let mut hashes = Vec::with_capacity(batch.count() as usize);
        for record in batch.records() {
            let record = record?;
            if matches!(record, Record::DeleteRange { .. }) {
                return self.db.write_under_locks(|| {
                    let _alone = buckets.ranges.write();
                    self.db.write_with(batch, options)
                });
            }
            if let Some((family, key)) = key_of(&record) {
                hashes.push(hash_of(family, key));
            }
        }
        self.db.write_under_locks(|| {
            let _locked = buckets.lock(hashes.into_iter());
            self.db.write_with(batch, options)
        })
    }
}
