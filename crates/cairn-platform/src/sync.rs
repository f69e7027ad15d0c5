//! Locks and atomics, in one place, so that a model checker can replace them.
//!
//! Locks are not poisoned: after a panic in a job the database becomes read-only by its own mechanism, and
//! reads continue.

pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub use std::sync::{Arc, OnceLock, Weak};
