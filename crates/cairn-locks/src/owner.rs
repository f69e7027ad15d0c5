//! The states of transactions, and the part of a transaction that others see: its id, its state, its expiration, and its
//! last lock timeout.

use cairn_platform::sync::Ordering;

use crate::sync::{AtomicU8, Mutex};

/// The state of a transaction. The numbers are RocksDB's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TransactionState {
    /// Open for writes.
    Started = 0,
    /// Being prepared.
    AwaitingPrepare = 1,
    /// Prepared.
    Prepared = 2,
    /// Being committed, or the commit failed.
    AwaitingCommit = 3,
    /// Committed.
    Committed = 4,
    /// Being rolled back.
    AwaitingRollback = 5,
    /// Rolled back after it was prepared.
    RolledBack = 6,
    /// Another transaction has taken its locks after it expired.
    LocksStolen = 7,
}

impl TransactionState {
    fn of(number: u8) -> TransactionState {
        match number {
            0 => TransactionState::Started,
            1 => TransactionState::AwaitingPrepare,
            2 => TransactionState::Prepared,
            3 => TransactionState::AwaitingCommit,
            4 => TransactionState::Committed,
            5 => TransactionState::AwaitingRollback,
            6 => TransactionState::RolledBack,
            _ => TransactionState::LocksStolen,
        }
    }
}

/// A request for the lock of a key that timed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockTimeout {
    /// The id of the column family.
    pub family: u32,
    /// The key.
    pub key: Vec<u8>,
    /// The ids of the other transactions that held the lock.
    pub holders: Vec<u64>,
}

/// The owner of locks: a transaction, or a write outside of transactions.
pub struct Owner {
    /// Unique in the database.
    pub id: u64,
    /// The time after which its locks can be stolen, on the monotonic clock in nanoseconds; 0 for never.
    pub expires: u64,
    state: AtomicU8,
    /// Boxed because few owners have one.
    last_timeout: Mutex<Option<Box<LockTimeout>>>,
}

impl Owner {
    /// An owner with this id, whose locks can be stolen after the time `expires`.
    #[must_use]
    pub fn new(id: u64, expires: u64) -> Owner {
        Owner {
            id,
            expires,
            state: AtomicU8::new(TransactionState::Started as u8),
            last_timeout: Mutex::new(None),
        }
    }

    /// Returns the last key whose lock the owner did not get in time; `None` if it has waited for a lock since.
    #[must_use]
    pub fn last_timeout(&self) -> Option<LockTimeout> {
        self.last_timeout.lock().as_deref().cloned()
    }

    /// Records a timeout; `None` when the owner begins to wait for a lock.
    pub(crate) fn set_last_timeout(&self, timeout: Option<LockTimeout>) {
        *self.last_timeout.lock() = timeout.map(Box::new);
    }

    /// The state of the transaction.
    #[must_use]
    pub fn state(&self) -> TransactionState {
        TransactionState::of(self.state.load(Ordering::Acquire))
    }

    /// Sets the state, whatever it was.
    pub fn set_state(&self, state: TransactionState) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// Changes the state from `Started`. Returns false in another state: the locks may have been stolen.
    #[must_use]
    pub fn leave_started(&self, next: TransactionState) -> bool {
        self.leave(TransactionState::Started, next)
    }

    /// Changes the state from `state`. Returns false in another state.
    #[must_use]
    pub fn leave(&self, state: TransactionState, next: TransactionState) -> bool {
        // AcqRel: either the transaction goes on with its locks, or another one takes them.
        self.state
            .compare_exchange(state as u8, next as u8, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// True if it has expired at the time `now`.
    #[must_use]
    pub fn is_expired(&self, now: u64) -> bool {
        self.expires > 0 && self.expires <= now
    }

    /// Takes its locks away if it has expired at `now` and is not being committed. Returns true if it has lost them.
    #[must_use]
    pub fn steal(&self, now: u64) -> bool {
        self.is_expired(now)
            && (self.leave_started(TransactionState::LocksStolen)
                || self.state() == TransactionState::LocksStolen)
    }
}
