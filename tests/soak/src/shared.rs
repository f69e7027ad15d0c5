//! State that the threads of a run share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Flags of the present cycle, and a counter that shows that work goes on.
#[derive(Default)]
pub struct Shared {
    stop: AtomicBool,
    disturbed: AtomicBool,
    progress: AtomicU64,
}

impl Shared {
    /// True once the workers are to return.
    pub fn stops(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Makes the workers return, or lets the next ones begin.
    pub fn set_stop(&self, stop: bool) {
        self.stop.store(stop, Ordering::SeqCst);
    }

    /// True while faults are on or the database still suffers from them: errors are right then.
    pub fn disturbed(&self) -> bool {
        self.disturbed.load(Ordering::SeqCst)
    }

    /// Begins or ends the time in which errors are right.
    pub fn set_disturbed(&self, disturbed: bool) {
        self.disturbed.store(disturbed, Ordering::SeqCst);
    }

    /// Counts an operation that ended.
    pub fn progress(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// Operations that ended.
    pub fn operations(&self) -> u64 {
        self.progress.load(Ordering::Relaxed)
    }
}
