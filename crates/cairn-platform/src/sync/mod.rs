//! Locks and atomics, in one place, so that a model checker can replace them.
//!
//! Locks are not poisoned: after a panic in a job the database becomes read-only by its own mechanism, and
//! reads continue.

mod locks;

pub use locks::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub use std::sync::{Arc, OnceLock, Weak};

/// The primitives of the lock-free cache and its buffers: those above, or under `--cfg shuttle` those of the
/// model checker, which schedules threads in random orders.
pub mod modelled {
    #[cfg(not(shuttle))]
    pub use super::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Mutex, MutexGuard};
    #[cfg(shuttle)]
    pub use shuttle::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
    #[cfg(shuttle)]
    pub use shuttle_mutex::{Mutex, MutexGuard, Signal};
    #[cfg(not(shuttle))]
    pub use signal::Signal;

    #[cfg(not(shuttle))]
    mod signal {
        use std::time::Duration;

        use super::super::{Condvar, MutexGuard};

        /// A condition variable whose waits give the guard back.
        #[derive(Default)]
        pub struct Signal(Condvar);

        impl Signal {
            /// Waits until it is notified, or for at most `limit`, which may pass spuriously. Returns the guard, and
            /// true unless the limit has passed.
            pub fn wait<'a, T>(
                &self,
                mut guard: MutexGuard<'a, T>,
                limit: Option<Duration>,
            ) -> (MutexGuard<'a, T>, bool) {
                let notified = match limit {
                    None => {
                        self.0.wait(&mut guard);
                        true
                    }
                    Some(limit) => !self.0.wait_for(&mut guard, limit),
                };
                (guard, notified)
            }

            /// Wakes all waiting threads.
            pub fn notify(&self) {
                self.0.notify_all();
            }
        }
    }

    /// Shuttle's mutex without poisoning.
    #[cfg(shuttle)]
    mod shuttle_mutex {
        use std::time::Duration;

        pub use shuttle::sync::MutexGuard;

        /// Shuttle's condition variable. A limit of a wait never passes.
        #[derive(Default)]
        pub struct Signal(shuttle::sync::Condvar);

        impl Signal {
            /// Waits until it is notified. Returns the guard and true.
            pub fn wait<'a, T>(
                &self,
                guard: MutexGuard<'a, T>,
                _limit: Option<Duration>,
            ) -> (MutexGuard<'a, T>, bool) {
                let guard = self.0.wait(guard);
                (guard.unwrap_or_else(|poisoned| poisoned.into_inner()), true)
            }

            /// Wakes all waiting threads.
            pub fn notify(&self) {
                self.0.notify_all();
            }
        }

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
