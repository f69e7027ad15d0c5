//! Locks and atomics, from one place, so that a model checker can replace them.
//!
//! Locks do not poison: a panic in a job makes the database read-only by its own means, and
//! readers go on.

pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub use std::sync::{Arc, OnceLock, Weak};
