//! The locks of transactions: of keys, shared and exclusive, and of ranges of keys, with a search for deadlocks.
//!
//! It owns the lock table, the wait graph ([`LockManager`]), the part of a transaction that others see ([`Owner`]), and
//! the keys of locks ([`LockKey`]). It knows nothing of databases and batches: families are numbers, and the transactions
//! decide what they lock.
//!
//! # Cost
//!
//! A lock and its release take one mutex of a stripe each. A key of up to 30 bytes is copied into the table, the wait
//! graph and the transaction; a longer one is allocated once and shared by them. A transaction that waits also takes the
//! mutex of the wait graph, which all waiting transactions share. Without locks of ranges, a lock of a key reads one
//! counter for them.

mod key;
mod manager;
mod owner;
mod sync;

pub use key::{Hashed, KeyMap, LockKey, hash_of};
pub use manager::{
    DeadlockInfo, DeadlockPath, Endpoint, LockManager, LockStatus, Range, RangeLockStatus,
    ReleaseOnDrop, Request,
};
pub use owner::{LockTimeout, Owner, TransactionState};
