//! A transaction: its batch, the keys that it tracks, and its end.
//!
//! ```text
//! begin -> [lock or track a key -> add to the batch]* -> commit: check (optimistic), write the batch, unlock
//!                                                     -> rollback, drop: unlock
//! ```
//!
//! This module creates and ends transactions. [`access`] has the locks of keys, reads and writes; [`save_points`] takes
//! back a part of a transaction; [`two_phase`] prepares it; [`timestamps`] has those of its reads and writes;
//! [`index_entries`] writes records of families with secondary indexes.

mod access;
mod index_entries;
mod save_points;
mod timestamps;
mod two_phase;

use std::sync::Arc;

use cairn_db::{Db, Family, Snapshot, WriteBatch};
use cairn_indexed::IndexedBatch;
use cairn_locks::{LockTimeout, Owner, Range, TransactionState};
use cairn_options::WriteOptions;
use cairn_types::{Code, Error, Result, Subcode};

use crate::optimistic::Validation;
use crate::options::TransactionOptions;
use crate::pessimistic::Locking;
use crate::tracker::Tracker;
use save_points::SavePoint;
use timestamps::Timestamps;
pub(crate) use two_phase::Parked;
use two_phase::{BypassThresholds, PreparedPart};

/// A handle for other threads to observe the lock requests of a pessimistic transaction.
#[derive(Clone)]
pub struct LockObserver(Arc<Owner>);

impl LockObserver {
    /// Returns the id among the transactions of the database.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Returns the last key whose lock the transaction did not get in time; `None` if it has waited for a lock since.
    #[must_use]
    pub fn last_timeout(&self) -> Option<LockTimeout> {
        self.0.last_timeout()
    }
}

/// The numbers of writes of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteCounts {
    /// Puts.
    pub puts: u64,
    /// Puts of entities.
    pub put_entities: u64,
    /// Deletions.
    pub deletes: u64,
    /// Merge operands.
    pub merges: u64,
}

/// The isolation of a transaction from others.
enum Policy {
    Optimistic(Validation),
    Pessimistic(Pessimistic),
}

/// The part of a transaction that takes locks.
struct Pessimistic {
    locking: Arc<Locking>,
    owner: Arc<Owner>,
    /// Empty if the transaction has none.
    name: Vec<u8>,
    /// True while no other transaction can have the name.
    has_name: bool,
    /// In milliseconds; negative for no limit.
    lock_timeout: i64,
    /// The number of transactions that a search for a deadlock visits; `None` for no search.
    detect: Option<usize>,
    skip_concurrency_control: bool,
    skip_prepare: bool,
}

impl Pessimistic {
    /// Begins the commit, after which the locks can no longer be stolen. Returns true if the transaction is prepared.
    ///
    /// # Errors
    ///
    /// `Expired`; `InvalidArgument` if the transaction has ended or was to be prepared.
    fn begin_commit(&self) -> Result<bool> {
        let owner = &self.owner;
        if owner.leave(TransactionState::Prepared, TransactionState::AwaitingCommit) {
            return Ok(true);
        }
        if self.is_expired() {
            return Err(expired());
        }
        let state = owner.state();
        if state == TransactionState::Started && !self.skip_prepare {
            return Err(Error::new(
                Code::InvalidArgument,
                Subcode::TxnNotPrepared,
                "the transaction was begun without skip_prepare",
            ));
        }
        match state {
            _ if owner.leave_started(TransactionState::AwaitingCommit) => Ok(false),
            state => Err(self.ended(state)),
        }
    }

    /// True if the transaction has expired. A prepared one does not expire.
    fn is_expired(&self) -> bool {
        // The clock is read only for a transaction that expires.
        self.owner.expires > 0
            && self
                .owner
                .is_expired(self.locking.locks.clock().monotonic_nanos())
    }

    /// The error of an operation that ends or prepares a transaction in `state`.
    fn ended(&self, state: TransactionState) -> Error {
        match state {
            TransactionState::Started | TransactionState::LocksStolen => expired(),
            TransactionState::Prepared => {
                Error::invalid_argument("Transaction has already been prepared.")
            }
            TransactionState::Committed => {
                Error::invalid_argument("Transaction has already been committed.")
            }
            TransactionState::RolledBack => {
                Error::invalid_argument("Transaction has already been rolledback.")
            }
            _ => Error::invalid_argument("Transaction is not in state for commit."),
        }
    }
}

/// A function that is called with a snapshot of a transaction when it is taken.
pub type SnapshotNotifier = dyn Fn(&Arc<Snapshot>) + Send + Sync;

/// The snapshot that the next operation sets.
#[derive(Clone)]
enum NextSnapshot {
    NotNeeded,
    Needed(Option<Arc<SnapshotNotifier>>),
}

/// A transaction. It is rolled back when it is dropped, unless it was committed or prepared. A prepared one stays
/// prepared and keeps its locks: [`TransactionDb::prepared_transactions`](crate::TransactionDb::prepared_transactions)
/// returns it.
///
/// Methods without a family use the default family. A transaction belongs to one thread at a time; its iterators can be
/// used while it is written to, and see later writes.
pub struct Transaction {
    db: Db,
    policy: Policy,
    batch: IndexedBatch,
    /// The families of the keys that an optimistic commit checks, except the default family.
    families: Vec<Family>,
    tracker: Tracker,
    /// The locked ranges.
    ranges: Vec<Arc<Range>>,
    save_points: Vec<SavePoint>,
    snapshot: Option<Arc<Snapshot>>,
    next_snapshot: NextSnapshot,
    counts: WriteCounts,
    /// The part of the batch that is prepared.
    prepared: PreparedPart,
    bypass: BypassThresholds,
    /// Writes that the commit of the prepared transaction adds.
    commit_time: Option<Box<WriteBatch>>,
    timestamps: Timestamps,
    /// True if writes change the entries of secondary indexes.
    maintains_indexes: bool,
    write_options: WriteOptions,
}

impl Transaction {
    fn new(db: Db, policy: Policy, write_options: WriteOptions) -> Transaction {
        Transaction {
            batch: IndexedBatch::with_order(db.default_family().options().comparator.clone(), true),
            db,
            maintains_indexes: match &policy {
                Policy::Optimistic(_) => false,
                Policy::Pessimistic(own) => own.locking.options().has_indexes(),
            },
            policy,
            families: Vec::new(),
            tracker: Tracker::default(),
            ranges: Vec::new(),
            save_points: Vec::new(),
            snapshot: None,
            next_snapshot: NextSnapshot::NotNeeded,
            counts: WriteCounts::default(),
            prepared: PreparedPart::default(),
            bypass: BypassThresholds::default(),
            commit_time: None,
            timestamps: Timestamps::default(),
            write_options,
        }
    }

    pub(crate) fn optimistic(
        db: Db,
        validation: Validation,
        write_options: WriteOptions,
    ) -> Transaction {
        Transaction::new(db, Policy::Optimistic(validation), write_options)
    }

    pub(crate) fn pessimistic(
        db: Db,
        locking: Arc<Locking>,
        write_options: WriteOptions,
        options: &TransactionOptions,
    ) -> Transaction {
        let locks = &locking.locks;
        let expires = match u64::try_from(options.expiration) {
            Ok(millis) => {
                let after = millis.saturating_mul(1_000_000);
                locks.clock().monotonic_nanos().saturating_add(after).max(1)
            }
            Err(_) => 0,
        };
        let owner = Arc::new(Owner::new(locks.next_id(), expires));
        if expires > 0 {
            locks.register(&owner);
        }
        let pessimistic = Pessimistic {
            lock_timeout: match options.lock_timeout {
                millis @ 0.. => millis,
                _ => locking.options().transaction_lock_timeout,
            },
            detect: options
                .deadlock_detect
                .then(|| usize::try_from(options.deadlock_detect_depth).unwrap_or(0)),
            skip_concurrency_control: options.skip_concurrency_control,
            skip_prepare: options.skip_prepare,
            owner,
            name: Vec::new(),
            has_name: false,
            locking,
        };
        let policy = Policy::Pessimistic(pessimistic);
        let mut transaction = Transaction::new(db, policy, write_options);
        transaction.bypass = BypassThresholds::new(options);
        if options.max_write_batch_size > 0 {
            // RocksDB counts the no-op, a byte, that becomes the marker of a prepare.
            let most = options.max_write_batch_size - 1;
            transaction.batch.set_max_bytes(most.max(1));
        }
        if options.set_snapshot {
            transaction.set_snapshot();
        }
        transaction
    }

    /// Writes the batch to the database and ends the transaction.
    ///
    /// # Errors
    ///
    /// Those of [`Db::write_with`]. Optimistic: `Busy` if a key was written by others, `TryAgain` if the memtables do
    /// not reach back far enough to decide that; the transaction can then be rolled back. Pessimistic: `Expired`;
    /// `InvalidArgument` if the transaction has ended or was to be prepared, has no commit timestamp for keys that need
    /// one, or has a commit-time batch but is not prepared. A prepared transaction is still prepared after an error.
    pub fn commit(&mut self) -> Result<()> {
        if self
            .commit_time
            .as_ref()
            .is_some_and(|batch| !batch.is_empty())
            && self.state() == TransactionState::Started
        {
            return Err(Error::invalid_argument(
                "Commit-time batch contains values that will not be committed.",
            ));
        }
        match &self.policy {
            Policy::Optimistic(validation) => {
                self.batch.with_batch(|batch| {
                    let (tracker, options) = (&self.tracker, &self.write_options);
                    validation.commit(&self.db, &self.families, tracker, batch, options)
                })?;
                self.clear();
                Ok(())
            }
            Policy::Pessimistic(own) => {
                if own.begin_commit()? {
                    return self.commit_prepared();
                }
                let write = |batch: &WriteBatch| write_batch(&self.db, batch, &self.write_options);
                let stamped = self.stamp();
                let written = stamped.and_then(|_| self.batch.with_batch(write));
                if written.is_ok() {
                    own.owner.set_state(TransactionState::Committed);
                }
                self.unregister_name();
                self.clear();
                written
            }
        }
    }

    /// Runs `work` and commits.
    ///
    /// # Errors
    ///
    /// The error of `work`; that of the commit.
    pub(crate) fn run<T>(mut self, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        let value = work(&mut self)?;
        self.commit().map(|()| value)
    }

    /// Discards the writes of the transaction and releases its locks. It can be used again.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if it has ended, or has lost its locks because it expired. Those of [`Db::write_with`] if it is
    /// prepared: it still is afterwards.
    pub fn rollback(&mut self) -> Result<()> {
        match self.state() {
            TransactionState::Prepared => self.roll_back_prepared(),
            TransactionState::Started => {
                self.clear();
                Ok(())
            }
            TransactionState::Committed => Err(Error::invalid_argument(
                "This transaction has already been committed.",
            )),
            _ => Err(Error::invalid_argument(
                "Two phase transaction is not in state for rollback.",
            )),
        }
    }

    /// Names the transaction.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for an optimistic transaction, a name of 0 or more than 512 bytes, one in use, or a
    /// transaction that has a name or has ended.
    pub fn set_name(&mut self, name: &[u8]) -> Result<()> {
        let state = self.state();
        let Policy::Pessimistic(own) = &mut self.policy else {
            return Err(Error::invalid_argument(
                "Optimistic transactions cannot be named.",
            ));
        };
        if state != TransactionState::Started {
            return Err(Error::invalid_argument(
                "Transaction is beyond state for naming.",
            ));
        }
        if !own.name.is_empty() {
            return Err(Error::invalid_argument(
                "Transaction has already been named.",
            ));
        }
        if name.is_empty() || name.len() > 512 {
            return Err(Error::invalid_argument(
                "Transaction name length must be between 1 and 512 chars.",
            ));
        }
        own.locking.register_name(name)?;
        own.name = name.to_vec();
        own.has_name = true;
        Ok(())
    }

    /// Returns the name; empty if there is none.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        match &self.policy {
            Policy::Optimistic(_) => &[],
            Policy::Pessimistic(own) => &own.name,
        }
    }

    /// Allows other transactions to have the name.
    fn unregister_name(&mut self) {
        if let Policy::Pessimistic(own) = &mut self.policy
            && std::mem::take(&mut own.has_name)
        {
            own.locking.unregister_name(&own.name);
        }
    }

    /// Returns the database.
    #[must_use]
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Returns the default family of the database.
    #[must_use]
    pub fn default_family(&self) -> &Family {
        self.db.default_family()
    }

    /// Returns the id among the transactions of the database; 0 for an optimistic transaction.
    #[must_use]
    pub fn id(&self) -> u64 {
        match &self.policy {
            Policy::Optimistic(_) => 0,
            Policy::Pessimistic(own) => own.owner.id,
        }
    }

    /// Returns a handle for other threads; `None` for an optimistic transaction, which locks no keys.
    #[must_use]
    pub fn lock_observer(&self) -> Option<LockObserver> {
        match &self.policy {
            Policy::Optimistic(_) => None,
            Policy::Pessimistic(own) => Some(LockObserver(own.owner.clone())),
        }
    }

    /// Returns the state. An optimistic transaction can always be used again.
    #[must_use]
    pub fn state(&self) -> TransactionState {
        match &self.policy {
            Policy::Optimistic(_) => TransactionState::Started,
            Policy::Pessimistic(own) => own.owner.state(),
        }
    }

    /// Sets the time to wait for a lock in milliseconds; negative for no limit.
    pub fn set_lock_timeout(&mut self, millis: i64) {
        if let Policy::Pessimistic(own) = &mut self.policy {
            own.lock_timeout = millis;
        }
    }

    /// Sets the options of the commit.
    pub fn set_write_options(&mut self, options: WriteOptions) {
        self.write_options = options;
    }

    /// Takes a snapshot. From now on, a write or a read for update of a key that others have written after the snapshot
    /// fails: immediately in a pessimistic transaction, and when an optimistic one is committed. Reads use the snapshot
    /// only if their options name it.
    pub fn set_snapshot(&mut self) {
        self.snapshot = Some(Arc::new(self.db.snapshot()));
        self.next_snapshot = NextSnapshot::NotNeeded;
    }

    /// Makes the next write or read for update take a snapshot, after it has locked its key.
    pub fn set_snapshot_on_next_operation(&mut self) {
        self.next_snapshot = NextSnapshot::Needed(None);
    }

    /// Like [`Transaction::set_snapshot_on_next_operation`]; calls `notifier` with the snapshot when it is taken.
    pub fn set_snapshot_on_next_operation_and_notify(&mut self, notifier: Arc<SnapshotNotifier>) {
        self.next_snapshot = NextSnapshot::Needed(Some(notifier));
    }

    /// Returns the snapshot. The transaction and its save points share it.
    #[must_use]
    pub fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        self.snapshot.as_ref()
    }

    /// Releases the snapshot. Keys accessed before remain validated against it.
    pub fn clear_snapshot(&mut self) {
        self.snapshot = None;
        self.next_snapshot = NextSnapshot::NotNeeded;
    }

    /// Returns the numbers of writes.
    #[must_use]
    pub fn counts(&self) -> WriteCounts {
        self.counts
    }

    /// Returns the number of keys that are locked, or will be checked.
    #[must_use]
    pub fn num_keys(&self) -> usize {
        self.tracker.len()
    }

    /// Excludes further writes from the reads of this transaction. They are locked, checked and committed as others, but
    /// cost less memory and time: for writes that the transaction will not read.
    pub fn disable_indexing(&mut self) {
        self.batch.set_indexing(false);
    }

    /// Includes further writes in the reads of this transaction again; the default.
    pub fn enable_indexing(&mut self) {
        self.batch.set_indexing(true);
    }

    /// Returns the batch of the transaction. Writes to it are neither locked nor checked.
    #[must_use]
    pub fn write_batch(&self) -> &IndexedBatch {
        &self.batch
    }

    /// Makes the batch of `old`, which the caller drops next, that of this transaction, which has no writes yet: what
    /// shares the batch of `old` then shares that of this transaction. `old` keeps its writes in another batch, so that a
    /// prepared transaction remains so. Does nothing if `old` belongs to another database.
    pub fn adopt_batch(&mut self, old: &mut Transaction) {
        if !self.db.is_same(&old.db) {
            return;
        }
        let max_bytes = self.batch.with_batch(WriteBatch::max_bytes);
        let writes = old.batch.take();
        self.batch = std::mem::replace(&mut old.batch, writes);
        self.batch.set_max_bytes(max_bytes);
    }

    /// Returns the batch of writes that the commit of the prepared transaction adds, before its own. They are neither
    /// locked nor checked, reads of the transaction do not see them, and they are logged with the commit, not with the
    /// prepare: a transaction that is recovered by an opening has none. Only a prepared transaction can be committed with
    /// them. A rollback discards them.
    pub fn commit_time_batch(&mut self) -> &mut WriteBatch {
        self.commit_time.get_or_insert_default()
    }

    /// Discards the batches, and releases all locks (T3).
    fn clear(&mut self) {
        self.save_points.clear();
        self.families.clear();
        self.batch.clear();
        self.commit_time = None;
        self.counts = WriteCounts::default();
        self.release_locks();
    }

    fn release_locks(&mut self) {
        match &self.policy {
            Policy::Optimistic(_) => self.tracker.drain(|_| ()),
            Policy::Pessimistic(own) => {
                let (locks, id) = (&own.locking.locks, own.owner.id);
                self.tracker.drain(|key| locks.unlock(key, id));
                for range in self.ranges.drain(..) {
                    locks.unlock_range(&range);
                }
            }
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if self.state() == TransactionState::Prepared {
            self.park();
            return;
        }
        self.release_locks();
        if let Policy::Pessimistic(own) = &self.policy
            && own.owner.expires > 0
        {
            own.locking.locks.unregister(own.owner.id);
        }
        self.unregister_name();
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction")
            .field("id", &self.id())
            .field("state", &self.state())
            .field("keys", &self.num_keys())
            .finish_non_exhaustive()
    }
}

#[cold]
fn expired() -> Error {
    let text = "the transaction has expired";
    Error::new(Code::Expired, Subcode::None, text)
}

/// Writes the batch of a transaction to `db`. An empty one is written only if that syncs the log.
pub(crate) fn write_batch(db: &Db, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
    match batch.is_empty() && !options.sync {
        true => Ok(()),
        false => db.write_with(batch, options),
    }
}

/// The number of times that the work of a transaction is repeated.
const MAX_ATTEMPTS: usize = 1000;

/// Calls `attempt` with a transaction made by `begin`, again after errors that another attempt may not have.
pub(crate) fn retry<T>(
    begin: impl Fn() -> Transaction,
    mut attempt: impl FnMut(Transaction) -> Result<T>,
) -> Result<T> {
    for _ in 1..MAX_ATTEMPTS {
        match attempt(begin()) {
            Err(error) if is_transient(&error) => std::thread::yield_now(),
            done => return done,
        }
    }
    attempt(begin())
}

/// True if another attempt of the transaction may succeed.
fn is_transient(error: &Error) -> bool {
    match error.code() {
        Code::Busy | Code::TryAgain | Code::Expired => true,
        Code::TimedOut => error.subcode() == Subcode::LockTimeout,
        _ => false,
    }
}
