//! The mutexes, atomics and signals of the lock manager: those of the platform, or under `--cfg loom` those of the model
//! checker.

#[cfg(not(loom))]
pub(crate) use cairn_platform::sync::modelled::{AtomicU8, AtomicU64, Mutex, MutexGuard, Signal};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU8, AtomicU64};
#[cfg(loom)]
pub(crate) use loomed::{Mutex, MutexGuard, Signal};

#[cfg(loom)]
mod loomed {
    use std::time::Duration;

    pub(crate) use loom::sync::MutexGuard;

    /// Loom's mutex without poisoning.
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Mutex<T> {
            Mutex(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("loom does not poison mutexes")
        }
    }

    /// Loom's condition variable. A limit of a wait never passes.
    #[derive(Default)]
    pub(crate) struct Signal(loom::sync::Condvar);

    impl Signal {
        /// Waits until it is notified. Returns the guard and true.
        pub(crate) fn wait<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            _limit: Option<Duration>,
        ) -> (MutexGuard<'a, T>, bool) {
            let guard = self.0.wait(guard);
            (guard.expect("loom does not poison mutexes"), true)
        }

        /// Wakes all waiting threads.
        pub(crate) fn notify(&self) {
            self.0.notify_all();
        }
    }
}
