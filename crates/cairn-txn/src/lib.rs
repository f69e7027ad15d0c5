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
//! The crate owns the locks (`locks`), the keys that a transaction has locked or must check (`tracker`), and the
//! states of transactions (`owner`). It only uses public functions of the database: a commit is a write of one batch,
//! and atomicity and durability are those of the batch.
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
//! A lock and its release take one mutex of a stripe each, and one allocation for the key. A transaction that waits
//! also takes the lock of the wait graph, which all waiting transactions share. A commit takes no lock other than those
//! of the write queue. An optimistic commit looks up each tracked key in the memtables.
//!
//! # Write policies
//!
//! Writes are written at the commit. RocksDB's policies "prepared" and "unprepared" write them to memtables at the prepare
//! and before it, which shortens the commit, and frees the memory of a large transaction before its end. They are not
//! supported; [`TransactionDb::convert`] takes over what they left. They would need:
//!
//! - reads that skip entries of undecided transactions in memtables and tables: a map from the sequence number of a
//!   prepare to that of its commit, consulted for each entry that is newer than the oldest undecided transaction;
//! - flushes and compactions that keep the versions below such entries, and do not set their sequence numbers to zero;
//! - a rollback that writes the earlier values again;
//! - one sequence number per batch in the log, since RocksDB finds the undecided entries of tables by it.
//!
//! # Limitations
//!
//! The write policies other than "committed" are not supported. Optimistic transactions do not support keys with
//! timestamps.

mod history;
mod key;
mod locks;
mod optimistic;
mod options;
mod owner;
mod pessimistic;
mod plain_writes;
mod secondary_index;
mod tracker;
mod transaction;

pub use locks::{DeadlockInfo, DeadlockPath, Endpoint, LockStatus, RangeLockStatus};
pub use optimistic::{LockBuckets, OptimisticTransactionDb};
pub use options::{
    OptimisticTransactionDbOptions, OptimisticTransactionOptions, TransactionDbOptions,
    TransactionOptions, ValidatePolicy, WritePolicy,
};
pub use owner::TransactionState;
pub use pessimistic::TransactionDb;
pub use secondary_index::{SecondaryIndex, SecondaryIndexIter, SimpleSecondaryIndex};
pub use transaction::{SnapshotNotifier, Transaction, WriteCounts};
