//! Callbacks of the application: progress, and their isolation from the engine.
//!
//! A callback that panics makes the operation fail with `Aborted`. While a callback runs, its thread is marked, so
//! that a call that would wait for the operation in progress fails with `Busy` instead. An exiting thread has no marks.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cairn_platform::sync::{AtomicU64, Ordering};
use cairn_types::{Error, Result};

/// The progress of a backup or restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Bytes copied.
    pub copied_bytes: u64,
    /// Bytes to copy altogether.
    pub total_bytes: u64,
}

/// A function that receives progress. Several threads may call it at the same time.
pub type ProgressCallback = Arc<dyn Fn(Progress) + Send + Sync>;

thread_local! {
    /// The engines of the operations whose callbacks run on this thread, as addresses.
    static CALLING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Passes the engines of [`CALLING`] to `look`; an empty list if the thread is exiting.
fn with_calling<T>(look: impl Fn(&mut Vec<usize>) -> T) -> T {
    let looked = CALLING.try_with(|calling| look(&mut calling.borrow_mut()));
    looked.unwrap_or_else(|_| look(&mut Vec::new()))
}

/// Calls `callback` on behalf of the engines with the addresses `engines`.
///
/// # Errors
///
/// `Aborted` if it panics.
pub(crate) fn call(engines: &[usize], what: &str, callback: impl FnOnce()) -> Result<()> {
    let before = with_calling(|calling| {
        let before = calling.len();
        calling.extend_from_slice(engines);
        before
    });
    let called = catch_unwind(AssertUnwindSafe(callback));
    with_calling(|calling| calling.truncate(before));
    called.map_err(|_| Error::panicked(format!("the {what} callback of a backup panicked")))
}

/// # Errors
///
/// `Busy` in a callback of an operation of the engine with the address `engine`.
pub(crate) fn check_outside(engine: usize, what: &str) -> Result<()> {
    match with_calling(|calling| calling.contains(&engine)) {
        true => Err(Error::busy(format!(
            "{what} in a callback of the same backup engine"
        ))),
        false => Ok(()),
    }
}

/// Counts copied bytes and reports them.
pub(crate) struct Reporter {
    /// The engines of the operation, and those of callbacks that it was called in: its own callbacks may run on other
    /// threads.
    engines: Vec<usize>,
    callback: Option<ProgressCallback>,
    interval: u64,
    copied: AtomicU64,
    total: u64,
}

impl Reporter {
    pub(crate) fn new(
        engines: &[usize],
        callback: Option<ProgressCallback>,
        interval: u64,
        total: u64,
    ) -> Reporter {
        Reporter {
            engines: with_calling(|calling| [&calling[..], engines].concat()),
            callback,
            interval: interval.max(1),
            copied: AtomicU64::new(0),
            total,
        }
    }

    /// Adds copied bytes.
    pub(crate) fn advance(&self, bytes: u64) -> Result<()> {
        // Relaxed: a count.
        let before = self.copied.fetch_add(bytes, Ordering::Relaxed);
        match before / self.interval == before.saturating_add(bytes) / self.interval {
            true => Ok(()),
            false => self.report(),
        }
    }

    /// Reports the current progress.
    pub(crate) fn report(&self) -> Result<()> {
        let Some(callback) = &self.callback else {
            return Ok(());
        };
        let progress = Progress {
            copied_bytes: self.copied.load(Ordering::Relaxed),
            total_bytes: self.total,
        };
        call(&self.engines, "progress", || callback(progress))
    }
}
