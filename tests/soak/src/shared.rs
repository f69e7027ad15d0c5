//! State shared by the threads of a run.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Flags of the current cycle, and a progress counter.
#[derive(Default)]
pub struct Shared {
    stop: AtomicBool,
    disturbed: AtomicBool,
    progress: AtomicU64,
}

impl Shared {
    /// True once the workers must return.
    pub fn stops(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Stops the workers, or allows the next ones to start.
    pub fn set_stop(&self, stop: bool) {
        self.stop.store(stop, Ordering::SeqCst);
    }

    /// True while faults are enabled or the database has not recovered from them: errors are then
    /// expected.
    pub fn disturbed(&self) -> bool {
        self.disturbed.load(Ordering::SeqCst)
    }

    /// Starts or ends the period in which errors are expected.
    pub fn set_disturbed(&self, disturbed: bool) {
        self.disturbed.store(disturbed, Ordering::SeqCst);
    }

    /// Counts a finished operation.
    pub fn progress(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of finished operations.
    pub fn operations(&self) -> u64 {
        self.progress.load(Ordering::Relaxed)
    }
}
