//! The end of an open database: closing, the flag that cancels jobs, and the lock on the directory.
//!
//! Invariants:
//!
//! CLOSE1. Closing is never undone, and cancels jobs.
//! CLOSE2. One thread closes the database; other callers wait for it.
//! CLOSE3. The directory is released when closing is complete, and not before.

use std::sync::Arc;

use cairn_platform::fs::FileLock;
use cairn_platform::sync::{AtomicBool, Mutex, Ordering};
use cairn_types::{Error, Result};

use crate::locks::{Locks, Rank, Ranked};

/// The state of closing.
pub(crate) struct Lifecycle {
    /// Set when closing begins; running jobs check it and end.
    closing: Arc<AtomicBool>,
    /// True once closing is complete. Held by the thread that closes.
    closed: Ranked<bool>,
    /// The lock on the directory, for a follower its own; `None` for a read-only database or a secondary instance.
    directory: Mutex<Option<Box<dyn FileLock>>>,
}

impl Lifecycle {
    /// Creates the state of an open database with the lock `directory`.
    pub(crate) fn new(directory: Option<Box<dyn FileLock>>, locks: Locks) -> Lifecycle {
        Lifecycle {
            closing: Arc::default(),
            closed: locks.mutex(Rank::Closing, false),
            directory: Mutex::new(directory),
        }
    }

    /// Begins closing: no new job starts, and running ones end soon.
    pub(crate) fn begin_closing(&self) {
        self.closing.store(true, Ordering::Release);
    }

    /// True once closing has begun.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// # Errors
    ///
    /// `ShutdownInProgress` if the database is being closed, or is closed.
    pub(crate) fn check_open(&self) -> Result<()> {
        match self.is_closing() {
            true => Err(Error::shutdown("the database is being closed")),
            false => Ok(()),
        }
    }

    /// The flag that cancels jobs when the database is closed.
    pub(crate) fn cancel_flag(&self) -> Arc<AtomicBool> {
        self.closing.clone()
    }

    /// Runs `close` unless that was done; waits for another thread that is doing so.
    pub(crate) fn close_once(&self, close: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut closed = self.closed.lock();
        if *closed {
            return Ok(());
        }
        let done = close();
        assert!(
            self.is_closing(),
            "closing has begun in a closed database (CLOSE1)"
        );
        *closed = true;
        done
    }

    /// True if closing is complete; waits for a thread that is closing.
    pub(crate) fn is_closed(&self) -> bool {
        *self.closed.lock()
    }

    /// Releases the lock on the directory.
    pub(crate) fn release_directory(&self) {
        assert!(
            self.is_closing(),
            "only a closing database releases its directory (CLOSE3)"
        );
        *self.directory.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_closed_once_and_cancels_its_jobs() {
        let lifecycle = Lifecycle::new(None, Locks::new());
        let flag = lifecycle.cancel_flag();
        assert!(lifecycle.check_open().is_ok() && !lifecycle.is_closed());
        let failed = lifecycle.close_once(|| {
            lifecycle.begin_closing();
            Err(Error::io_text("the log"))
        });
        assert!(failed.is_err() && lifecycle.is_closed() && lifecycle.is_closing());
        assert!(flag.load(Ordering::Acquire) && lifecycle.check_open().is_err());
        lifecycle
            .close_once(|| unreachable!("it is closed"))
            .unwrap();
    }

    #[test]
    #[should_panic(expected = "CLOSE3")]
    fn an_open_database_keeps_its_directory_locked() {
        Lifecycle::new(None, Locks::new()).release_directory();
    }
}
