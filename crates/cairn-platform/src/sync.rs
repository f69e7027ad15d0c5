//! Locks and atomics, in one place, so that a model checker can replace them.
//!
//! Locks are not poisoned: after a panic in a job the database becomes read-only by its own mechanism, and
//! reads continue.

pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub use std::sync::{Arc, OnceLock, Weak};

/// The primitives of the lock-free cache and its buffers: those above, or under `--cfg shuttle` those of the
/// model checker, which schedules threads in random orders.
pub mod modelled {
    #[cfg(not(shuttle))]
    pub use super::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Mutex, MutexGuard};
    #[cfg(shuttle)]
    pub use shuttle::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
    #[cfg(shuttle)]
    pub use shuttle_mutex::{Mutex, MutexGuard};

    /// Shuttle's mutex without poisoning.
    #[cfg(shuttle)]
    mod shuttle_mutex {
        pub use shuttle::sync::MutexGuard;

        /// A mutex.
        pub struct Mutex<T>(shuttle::sync::Mutex<T>);

        impl<T> Mutex<T> {
            /// Creates an unlocked mutex.
            pub const fn new(value: T) -> Mutex<T> {
                Mutex(shuttle::sync::Mutex::new(value))
            }

            pub fn lock(&self) -> MutexGuard<'_, T> {
                self.0
                    .lock()
                    .unwrap_or_else(|poisoned| poisoned.into_inner())
            }
        }
    }
}
