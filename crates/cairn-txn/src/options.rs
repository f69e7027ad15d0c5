//! Options of transaction databases and of transactions, with RocksDB's names and defaults.

use std::sync::Arc;

use cairn_db::PreparePolicy;
use cairn_types::{Error, Result};

use crate::optimistic::LockBuckets;
use crate::secondary_index::SecondaryIndex;

/// The form of the logs of transactions. RocksDB opens a database with the policy with which it was written, or after its
/// logs were emptied; see [Write policies](crate#write-policies).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WritePolicy {
    /// RocksDB writes the entries of a transaction to memtables at the commit.
    #[default]
    Committed,
    /// RocksDB does it at the prepare.
    Prepared,
    /// RocksDB does it before the prepare, in parts.
    Unprepared,
}

impl WritePolicy {
    /// The policy of the prepared sections in logs.
    pub(crate) fn of_sections(self) -> PreparePolicy {
        match self {
            WritePolicy::Committed => PreparePolicy::WriteCommitted,
            WritePolicy::Prepared => PreparePolicy::WritePrepared,
            WritePolicy::Unprepared => PreparePolicy::WriteUnprepared,
        }
    }
}

/// Options of a [`TransactionDb`](crate::TransactionDb).
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of RocksDB"
)]
pub struct TransactionDbOptions {
    /// The maximum number of locked keys per column family; no limit if not positive.
    pub max_num_locks: i64,
    /// The number of deadlocks that [`TransactionDb::deadlocks`](crate::TransactionDb::deadlocks) keeps.
    pub max_num_deadlocks: u32,
    /// The number of stripes of the lock table, each with its own mutex.
    pub num_stripes: usize,
    /// The default of [`TransactionOptions::lock_timeout`] in milliseconds; negative for no limit.
    pub transaction_lock_timeout: i64,
    /// The time that a write outside of a transaction waits for a lock, in milliseconds; negative for no limit.
    pub default_lock_timeout: i64,
    /// The write policy.
    pub write_policy: WritePolicy,
    /// Without effect: a rollback always discards merge operands, with every write policy.
    pub rollback_merge_operands: bool,
    /// Without effect: locks always have a queue of waiting transactions per key.
    pub use_per_key_point_lock_mgr: bool,
    /// Writes outside of transactions take no locks.
    pub skip_concurrency_control: bool,
    /// Without effect: the writes of a transaction are logged at its prepare, with every write policy.
    pub default_write_batch_flush_threshold: i64,
    /// Accesses of keys with timestamps are checked against the read timestamp of the transaction
    /// ([`Transaction::set_read_timestamp_for_validation`](crate::Transaction::set_read_timestamp_for_validation)).
    pub enable_udt_validation: bool,
    /// The secondary indexes whose entries are changed along with the records. Records that were written without them get
    /// their entries when they are written again.
    pub secondary_indices: Vec<Arc<dyn SecondaryIndex>>,
    /// Without effect, as in RocksDB: see [`TransactionOptions::large_txn_commit_optimize_threshold`].
    pub txn_commit_bypass_memtable_threshold: u32,
}

impl Default for TransactionDbOptions {
    fn default() -> TransactionDbOptions {
        TransactionDbOptions {
            max_num_locks: -1,
            max_num_deadlocks: 5,
            num_stripes: 16,
            transaction_lock_timeout: 1000,
            default_lock_timeout: 1000,
            write_policy: WritePolicy::Committed,
            rollback_merge_operands: false,
            use_per_key_point_lock_mgr: false,
            skip_concurrency_control: false,
            default_write_batch_flush_threshold: 0,
            enable_udt_validation: true,
            secondary_indices: Vec::new(),
            txn_commit_bypass_memtable_threshold: u32::MAX,
        }
    }
}

impl TransactionDbOptions {
    /// Returns an error for options that are not supported together.
    pub(crate) fn check(&self) -> Result<()> {
        let policy = match self.write_policy {
            WritePolicy::Committed => return Ok(()),
            WritePolicy::Prepared => "WRITE_PREPARED",
            WritePolicy::Unprepared => "WRITE_UNPREPARED",
        };
        match self.has_indexes() {
            true => Err(Error::not_supported(format!(
                "secondary indexes with the write policy {policy}"
            ))),
            false => Ok(()),
        }
    }

    /// True if there are secondary indexes.
    pub(crate) fn has_indexes(&self) -> bool {
        !self.secondary_indices.is_empty()
    }
}

/// Options of a transaction of a [`TransactionDb`](crate::TransactionDb).
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of RocksDB"
)]
pub struct TransactionOptions {
    /// Begins with a snapshot; see [`Transaction::set_snapshot`](crate::Transaction::set_snapshot).
    pub set_snapshot: bool,
    /// Fails instead of waiting for a lock if waiting would complete a cycle of waiting transactions.
    pub deadlock_detect: bool,
    /// Without effect: a commit-time batch is visible after the commit, with every write policy.
    pub use_only_the_last_commit_time_batch_for_recovery: bool,
    /// The time to wait for a lock in milliseconds; negative for
    /// [`TransactionDbOptions::transaction_lock_timeout`].
    pub lock_timeout: i64,
    /// Without effect: deadlocks are detected immediately.
    pub deadlock_timeout_us: i64,
    /// The time in milliseconds after which the transaction can no longer be committed and its locks can be taken by
    /// others; negative for none.
    pub expiration: i64,
    /// The number of transactions that a search for a deadlock visits. If there are more, a deadlock is assumed.
    pub deadlock_detect_depth: i64,
    /// The maximum size of the batch in bytes; 0 for no limit.
    pub max_write_batch_size: usize,
    /// Takes no locks. Only for transactions that cannot conflict with others.
    pub skip_concurrency_control: bool,
    /// The transaction can be committed without having been prepared.
    pub skip_prepare: bool,
    /// Without effect; see [`TransactionDbOptions::default_write_batch_flush_threshold`].
    pub write_batch_flush_threshold: i64,
    /// Without effect: a batch always knows the sizes of its timestamps.
    pub write_batch_track_timestamp_size: bool,
    /// A prepared transaction is committed past the memtable
    /// ([`CommitParts::bypass_memtable`](cairn_db::CommitParts::bypass_memtable)), unless it is empty: other writers do
    /// not wait until it is inserted. The memtables of its families become immutable, so that many such commits in a
    /// short time cause write stalls (`max_write_buffer_number`). Without effect if it was not prepared, and with
    /// write policies other than "committed".
    pub commit_bypass_memtable: bool,
    /// A prepared transaction with at least this number of writes is committed past the memtable; 0 for none.
    pub large_txn_commit_optimize_threshold: u32,
    /// A prepared transaction with a batch of at least this number of bytes is committed past the memtable; 0 for none.
    pub large_txn_commit_optimize_byte_threshold: u64,
}

impl Default for TransactionOptions {
    fn default() -> TransactionOptions {
        TransactionOptions {
            set_snapshot: false,
            deadlock_detect: false,
            use_only_the_last_commit_time_batch_for_recovery: false,
            lock_timeout: -1,
            deadlock_timeout_us: 500,
            expiration: -1,
            deadlock_detect_depth: 50,
            max_write_batch_size: 0,
            skip_concurrency_control: false,
            skip_prepare: true,
            write_batch_flush_threshold: -1,
            write_batch_track_timestamp_size: false,
            commit_bypass_memtable: false,
            large_txn_commit_optimize_threshold: 0,
            large_txn_commit_optimize_byte_threshold: 0,
        }
    }
}

/// The way in which optimistic transactions are checked for conflicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValidatePolicy {
    /// By the leader of the write queue, which makes other writers wait.
    Serial,
    /// Before joining the write queue, under locks of buckets of keys that exclude other transactions with the same
    /// keys. Writes that bypass the transaction database are not excluded.
    #[default]
    Parallel,
}

/// Options of an [`OptimisticTransactionDb`](crate::OptimisticTransactionDb).
#[derive(Clone, Debug)]
pub struct OptimisticTransactionDbOptions {
    /// The validation policy.
    pub validate_policy: ValidatePolicy,
    /// The number of buckets for parallel validation.
    pub occ_lock_buckets: u32,
    /// Buckets that are shared with other databases; `None` for buckets of its own.
    pub shared_lock_buckets: Option<Arc<LockBuckets>>,
}

impl Default for OptimisticTransactionDbOptions {
    fn default() -> OptimisticTransactionDbOptions {
        OptimisticTransactionDbOptions {
            validate_policy: ValidatePolicy::Parallel,
            occ_lock_buckets: 1 << 20,
            shared_lock_buckets: None,
        }
    }
}

/// Options of a transaction of an [`OptimisticTransactionDb`](crate::OptimisticTransactionDb).
#[derive(Clone, Debug, Default)]
pub struct OptimisticTransactionOptions {
    /// Begins with a snapshot; see [`Transaction::set_snapshot`](crate::Transaction::set_snapshot).
    pub set_snapshot: bool,
}
