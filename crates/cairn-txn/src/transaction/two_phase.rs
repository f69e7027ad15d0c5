//! Two-phase commit: a transaction is prepared, which makes its writes durable, and decided later, also after a crash.
//!
//! ```text
//! Started -> prepare -> Prepared -> commit   -> Committed
//!                          ^     -> rollback -> RolledBack
//!                          |     -> drop     -> parked in the database with its locks, until it is taken out
//!    recovered by an opening                                     |
//!                          +-------------------------------------+
//! ```
//!
//! The database has the writes of a prepared transaction ([`Db::prepare`]). The transaction keeps its batch for reads.

use std::sync::Arc;

use cairn_db::{CommitParts, Db, Family, PreparedTransaction, WriteBatch};
use cairn_indexed::IndexedBatch;
use cairn_locks::{LockKey, Owner, Range, Request, TransactionState};
use cairn_options::WriteOptions;
use cairn_types::{Error, Result};

use super::timestamps::Timestamps;
use super::{Pessimistic, Policy, Transaction, WriteCounts, expired};
use crate::key::{key_of, without_timestamp};
use crate::options::TransactionOptions;
use crate::pessimistic::{Locking, wait_time};
use crate::tracker::Tracker;

/// A prepared transaction without a handle.
pub(crate) struct Parked {
    owner: Arc<Owner>,
    name: Vec<u8>,
    lock_timeout: i64,
    detect: Option<usize>,
    skip_concurrency_control: bool,
    batch: IndexedBatch,
    tracker: Tracker,
    ranges: Vec<Arc<Range>>,
    counts: WriteCounts,
    prepared: PreparedPart,
    bypass: BypassThresholds,
    commit_time: Option<Box<WriteBatch>>,
    timestamps: Timestamps,
    write_options: WriteOptions,
}

/// The size from which a prepared transaction is committed past the memtable.
#[derive(Clone, Copy, Default)]
pub(crate) struct BypassThresholds {
    /// The number of writes; 0 for none.
    writes: u32,
    /// The bytes of the batch; 0 for none.
    bytes: u64,
}

impl BypassThresholds {
    pub(super) fn new(options: &TransactionOptions) -> BypassThresholds {
        BypassThresholds {
            writes: match options.commit_bypass_memtable {
                true => 1,
                false => options.large_txn_commit_optimize_threshold,
            },
            bytes: options.large_txn_commit_optimize_byte_threshold,
        }
    }

    /// True if a transaction with `batch` is committed past the memtable.
    fn are_reached(&self, batch: &WriteBatch) -> bool {
        (self.writes > 0 && batch.count() >= self.writes)
            || (self.bytes > 0 && batch.data().len() as u64 >= self.bytes)
    }
}

/// The first part of the batch of a transaction, which is prepared.
#[derive(Clone, Copy, Default)]
pub(crate) struct PreparedPart {
    /// The length of its serialized form.
    len: usize,
    count: u32,
}

impl PreparedPart {
    /// All of `batch`.
    fn of(batch: &WriteBatch) -> PreparedPart {
        PreparedPart {
            len: batch.data().len(),
            count: batch.count(),
        }
    }

    /// Returns the writes of `batch` after this part.
    fn rest(&self, batch: &WriteBatch) -> Result<WriteBatch> {
        if let Some(error) = batch.refused() {
            return Err(error.clone());
        }
        let data = batch.data();
        if data.len() <= self.len {
            return Ok(WriteBatch::new());
        }
        let Some(count) = batch.count().checked_sub(self.count) else {
            return Err(Error::invalid_argument(
                "the batch of the transaction was cleared after it was prepared",
            ));
        };
        let mut rest = vec![0; 8];
        rest.extend_from_slice(&count.to_le_bytes());
        rest.extend_from_slice(&data[self.len..]);
        WriteBatch::from_data(&rest)
    }
}

impl Transaction {
    /// Logs the writes of the transaction, which must have a name. Afterwards it does not expire, and is recovered after
    /// a crash, until it is committed or rolled back. Later writes are part of the commit, but not of what is recovered.
    ///
    /// # Errors
    ///
    /// Those of [`Db::prepare`], after which the transaction can only be dropped; `InvalidArgument` if the transaction
    /// is optimistic, has no name, is already prepared or has ended; `Expired`.
    pub fn prepare(&mut self) -> Result<()> {
        let Policy::Pessimistic(own) = &self.policy else {
            return Err(Error::invalid_argument(
                "Two phase commit not supported for optimistic transactions.",
            ));
        };
        if own.name.is_empty() {
            return Err(Error::invalid_argument(
                "Cannot prepare a transaction that has not been named.",
            ));
        }
        let owner = &own.owner;
        if owner.state() == TransactionState::Started && own.is_expired() {
            return Err(expired());
        }
        if !owner.leave_started(TransactionState::AwaitingPrepare) {
            return Err(own.ended(owner.state()));
        }
        self.prepared = self.batch.with_batch(PreparedPart::of);
        self.batch
            .with_batch(|batch| self.db.prepare(&own.name, batch, &self.write_options))?;
        owner.set_state(TransactionState::Prepared);
        if owner.expires > 0 {
            // Those who wait for its locks would look for its expiration again and again.
            own.locking.locks.unregister(owner.id);
        }
        self.save_points.clear();
        Ok(())
    }

    /// Commits the transaction, which was prepared and is in state `AwaitingCommit`.
    pub(super) fn commit_prepared(&mut self) -> Result<()> {
        let prepared = self.prepared;
        let stamped = self.stamp();
        let rest = self.batch.with_batch(|batch| prepared.rest(batch));
        let bypass = self.bypass;
        let bypass_memtable = self.batch.with_batch(|batch| bypass.are_reached(batch));
        let commit_time = self.commit_time.take();
        let decided = self.decide(TransactionState::Committed, |db, name, options| {
            let (timestamp, rest) = (stamped?.map(u64::to_le_bytes), rest?);
            let parts = CommitParts {
                before: commit_time.as_deref(),
                after: Some(&rest),
                timestamp: timestamp.as_ref().map(|timestamp| &timestamp[..]),
                bypass_memtable,
            };
            db.commit_prepared_with(name, &parts, options)
        });
        if decided.is_err() {
            self.commit_time = commit_time;
        }
        decided?;
        self.unregister_name();
        Ok(())
    }

    /// Rolls the prepared transaction back.
    pub(super) fn roll_back_prepared(&mut self) -> Result<()> {
        self.decide(TransactionState::RolledBack, |db, name, options| {
            db.roll_back_prepared(name, options)
        })
    }

    /// Decides the prepared transaction with `decide`, and sets `state`. After an error it is still prepared.
    fn decide(
        &mut self,
        state: TransactionState,
        decide: impl FnOnce(&Db, &[u8], &WriteOptions) -> Result<()>,
    ) -> Result<()> {
        let Policy::Pessimistic(own) = &self.policy else {
            return Err(Error::invalid_argument("an optimistic transaction"));
        };
        if let Err(error) = decide(&self.db, &own.name, &self.write_options) {
            own.owner.set_state(TransactionState::Prepared);
            return Err(error);
        }
        own.owner.set_state(state);
        self.clear();
        Ok(())
    }

    /// Leaves the prepared transaction, whose handle is dropped, to the database.
    pub(super) fn park(&mut self) {
        let Policy::Pessimistic(own) = &mut self.policy else {
            return;
        };
        if own.owner.expires > 0 {
            own.locking.locks.unregister(own.owner.id);
        }
        let order = self.db.default_family().options().comparator.clone();
        own.locking.park(Parked {
            owner: own.owner.clone(),
            name: std::mem::take(&mut own.name),
            lock_timeout: own.lock_timeout,
            detect: own.detect,
            skip_concurrency_control: own.skip_concurrency_control,
            batch: std::mem::replace(&mut self.batch, IndexedBatch::with_order(order, true)),
            tracker: std::mem::take(&mut self.tracker),
            ranges: std::mem::take(&mut self.ranges),
            counts: self.counts,
            prepared: self.prepared,
            bypass: self.bypass,
            commit_time: self.commit_time.take(),
            timestamps: self.timestamps,
            write_options: self.write_options.clone(),
        });
    }

    /// Makes a transaction of a parked one.
    pub(crate) fn unparked(db: Db, locking: Arc<Locking>, parked: Parked) -> Transaction {
        let policy = Policy::Pessimistic(Pessimistic {
            locking,
            owner: parked.owner,
            name: parked.name,
            has_name: true,
            lock_timeout: parked.lock_timeout,
            detect: parked.detect,
            skip_concurrency_control: parked.skip_concurrency_control,
            skip_prepare: true,
        });
        let mut transaction = Transaction::new(db, policy, parked.write_options);
        transaction.batch = parked.batch;
        transaction.tracker = parked.tracker;
        transaction.ranges = parked.ranges;
        transaction.counts = parked.counts;
        transaction.prepared = parked.prepared;
        transaction.bypass = parked.bypass;
        transaction.commit_time = parked.commit_time;
        transaction.timestamps = parked.timestamps;
        transaction
    }

    /// Makes a transaction of one that was prepared before the database was opened, and locks its keys. A key that
    /// another one has locked, or that is above the limit of locks, stays unlocked.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the name is taken.
    pub(crate) fn recovered(
        db: &Db,
        locking: &Arc<Locking>,
        families: &[Family],
        prepared: &PreparedTransaction,
    ) -> Result<Transaction> {
        let write_options = WriteOptions {
            sync: true,
            ..WriteOptions::default()
        };
        let options = TransactionOptions {
            skip_concurrency_control: true,
            ..TransactionOptions::default()
        };
        let mut transaction =
            Transaction::pessimistic(db.clone(), locking.clone(), write_options, &options);
        if let Policy::Pessimistic(own) = &mut transaction.policy {
            locking.register_name(&prepared.name)?;
            own.name.clone_from(&prepared.name);
            own.has_name = true;
        }
        let seq = db.latest_sequence();
        // The batch has the entries of secondary indexes.
        let maintains_indexes = std::mem::take(&mut transaction.maintains_indexes);
        for record in prepared.batch.records() {
            let record = record?;
            // Only reads of the transaction lack a record that is not supported, or is in a dropped family.
            let _ = transaction.add_record(&record, families);
            let Policy::Pessimistic(own) = &transaction.policy else {
                continue;
            };
            let key = key_of(&record).filter(|_| !locking.options().skip_concurrency_control);
            if let Some((family, key)) = key {
                let key = without_timestamp(families, family, key);
                let key = LockKey::new(family, key);
                let request = Request {
                    owner: &own.owner,
                    exclusive: true,
                    timeout: wait_time(0),
                    detect: None,
                };
                if locking.locks.lock(&key, &request).is_ok() {
                    transaction.tracker.track(key, seq, false, true);
                }
            }
        }
        transaction.maintains_indexes = maintains_indexes;
        transaction.prepared = transaction.batch.with_batch(PreparedPart::of);
        if let Policy::Pessimistic(own) = &mut transaction.policy {
            own.skip_concurrency_control = false;
            own.owner.set_state(TransactionState::Prepared);
        }
        Ok(transaction)
    }
}

impl Parked {
    /// The name.
    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }
}
