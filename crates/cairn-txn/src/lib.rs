//! Transactions: groups of reads and writes that take effect together or not at all, and are isolated from each other.
//!
//! A [`Transaction`] collects its writes in an indexed batch, so that its own reads see them, and writes the batch
//! atomically when it is committed. Two kinds of databases differ in the way they isolate transactions:
//!
//! ```text
//! OptimisticTransactionDb   no locks; a commit fails with Busy if one of its keys was written in the meantime
//! TransactionDb             each write, and each read for update, locks its key until the transaction ends
//! ```
//!
//! The crate owns the keys that a transaction has locked or must check (`tracker`); the locks are those of
//! [`cairn_locks`]. It only uses public functions of the database: a commit is a write of one batch, and atomicity and
//! durability are those of the batch.
//!
//! # Isolation
//!
//! A transaction that reads only with [`Transaction::get_for_update`] is serializable. With a snapshot
//! ([`Transaction::set_snapshot`]) and reads at that snapshot, it has snapshot isolation: its writes fail if their keys
//! were written after the snapshot. Plain reads without a snapshot see the latest committed writes.
//!
//! [`Transaction::get_range_lock`] locks all keys of a range, also those that do not exist: then a scan of the range can be
//! repeated with the same result.
//!
//! # Two-phase commit
//!
//! [`Transaction::prepare`] makes the writes of a named transaction of a [`TransactionDb`] durable without making them
//! visible. The transaction is decided later, by [`Transaction::commit`] or [`Transaction::rollback`]; if the process
//! ends before that, the next opening recovers it with its locks ([`TransactionDb::prepared_transactions`]).
//!
//! # Timestamps
//!
//! In families whose keys have timestamps, the writes of a transaction of a [`TransactionDb`] get its commit timestamp
//! ([`Transaction::set_commit_timestamp`]). A prepared transaction is logged without it; the commit logs it.
//!
//! # Secondary indexes
//!
//! Records of a [`TransactionDb`] can be found by the values of their columns: the writes of a transaction change the
//! entries of a [`SecondaryIndex`] along with the records ([`TransactionDbOptions::secondary_indices`]).
//!
//! # Invariants
//!
//! T1. A transaction holds a lock for each key that it tracks, unless its locks were stolen after it expired or it
//! skips concurrency control. It holds no other locks between calls.
//! T2. The tracked sequence number of a key is a point in time since which no other transaction has written the key,
//! if that was validated or the key was locked.
//! T3. A transaction ends once: it is committed, rolled back, or dropped without being prepared, and then holds no locks.
//! T4. The check of an optimistic commit and its write are atomic with respect to other transactions, and, with
//! [`ValidatePolicy::Serial`], to all writes of the database.
//! T5. Outside of a call, the batch of a transaction has all entries of secondary indexes that its writes of records
//! require, and no other changes of entries.
//!
//! # Cost
//!
//! The cost of a lock is that of [`cairn_locks`]. A commit takes no lock other than those of the write queue. An optimistic
//! commit looks up each tracked key in the memtables.
//!
//! # Write policies
//!
//! RocksDB's write policies determine when the entries of a transaction are written to memtables: at the commit
//! ("committed"), at the prepare ("prepared") or before it ("unprepared"). Here, it is always the commit, and the policy
//! determines the form of the logs, so that RocksDB with the same policy recovers the same content, and the reverse:
//!
//! - A prepare, a commit and a rollback take sequence numbers, and a batch ends with a no-op.
//! - RocksDB's recovery inserts the entries of a transaction when it reads its prepare. A rollback therefore logs the
//!   values that the keys have. So does each switch of logs, for all undecided transactions, which it logs again: the
//!   tables, unlike RocksDB's, lack their entries.
//! - With "unprepared", a transaction is logged as with "prepared". Parts that RocksDB logged before a prepare are read.
//!
//! The differences from RocksDB that can be observed:
//!
//! - The writes of a transaction are in memory until it ends, also those of a large or prepared one.
//! - No read fails with `TryAgain`, since there is no map of commits that could be too small.
//! - A rollback discards merge operands, as if `rollback_merge_operands` were set. It takes the lead of the write queue.
//! - Commit-time batches need no option, and are visible after the commit.
//! - After a crash, the values of a key that transactions wrote without a lock are those of the order of their prepares,
//!   not of their commits. In RocksDB, that is so before the crash, too.
//!
//! Range deletions in prepared transactions and keys with timestamps are rejected, as in RocksDB. A policy is changed
//! when the logs have no transactions, or with [`TransactionDb::convert`].
//!
//! # Limitations
//!
//! Optimistic transactions do not support keys with timestamps.

mod history;
mod key;
mod optimistic;
mod options;
mod pessimistic;
mod plain_writes;
mod secondary_index;
mod tracker;
mod transaction;

pub use cairn_locks::{
    DeadlockInfo, DeadlockPath, Endpoint, LockStatus, LockTimeout, RangeLockStatus,
    TransactionState,
};
pub use optimistic::{LockBuckets, OptimisticTransactionDb};
pub use options::{
    OptimisticTransactionDbOptions, OptimisticTransactionOptions, TransactionDbOptions,
    TransactionOptions, ValidatePolicy, WritePolicy,
};
pub use pessimistic::TransactionDb;
pub use secondary_index::{SecondaryIndex, SecondaryIndexIter, SimpleSecondaryIndex};
pub use transaction::{LockObserver, SnapshotNotifier, Transaction, WriteCounts};
