//! The background error of a database, and recovery from it.

use std::ffi::{CString, c_char, c_int};

use crate::database::rocksdb_t;
use crate::error::{report, terminated};
use crate::handle::{create, of};

/// No effect on writes.
#[allow(
    non_upper_case_globals,
    reason = "C constants are named like functions"
)]
pub const cairn_severity_none: c_int = 0;
/// Writes continue; the failed job is retried.
#[allow(
    non_upper_case_globals,
    reason = "C constants are named like functions"
)]
pub const cairn_severity_soft: c_int = 1;
/// Writes fail until `cairn_resume` succeeds.
#[allow(
    non_upper_case_globals,
    reason = "C constants are named like functions"
)]
pub const cairn_severity_hard: c_int = 2;
/// Writes fail until the database is reopened.
#[allow(
    non_upper_case_globals,
    reason = "C constants are named like functions"
)]
pub const cairn_severity_fatal: c_int = 3;
/// The database is corrupt.
#[allow(
    non_upper_case_globals,
    reason = "C constants are named like functions"
)]
pub const cairn_severity_unrecoverable: c_int = 4;

/// A background error.
pub struct Failure {
    severity: c_int,
    reason: u32,
    text: CString,
}

handles! {
    /// A copy of a background error.
    cairn_background_error_t = Failure;
}

c_destructors! {
    /// Frees the copy. The database's error is not affected.
    cairn_background_error_destroy(cairn_background_error_t);
}

c_functions! {
    /// Returns the current background error, to be destroyed by the caller, or null if there is
    /// none.
    fn cairn_background_error(db: *mut rocksdb_t) -> *mut cairn_background_error_t {
        match of(db.cast_const()).db.background_error_state() {
            None => std::ptr::null_mut(),
            Some(state) => create(Failure {
                severity: state.severity as c_int,
                reason: state.reason as u32,
                text: terminated(state.error.to_string()),
            }),
        }
    }
    /// Returns the severity: one of `cairn_severity_*`.
    fn cairn_background_error_severity(state: *const cairn_background_error_t) -> c_int {
        of(state).severity
    }
    /// Returns the reason: the number that is passed to a listener's `on_background_error`.
    fn cairn_background_error_reason(state: *const cairn_background_error_t) -> u32 {
        of(state).reason
    }
    /// Returns the cause in the form of an `errptr`. The text belongs to the copy.
    fn cairn_background_error_text(state: *const cairn_background_error_t) -> *const c_char {
        of(state).text.as_ptr()
    }
    /// Recovers from a background error: memtables are flushed, a new WAL is started, and writes
    /// resume. Does nothing if there is no error. Fails with the error of this attempt, with `Busy`
    /// during an automatic recovery, or with the background error itself if the database must be
    /// reopened.
    fn cairn_resume(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
        report(errptr, || of(db.cast_const()).db.resume());
    }
}
