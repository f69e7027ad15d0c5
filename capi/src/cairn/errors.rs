//! The error that a database is in, and the way out of it.

use std::ffi::{CString, c_char, c_int};

use crate::database::rocksdb_t;
use crate::error::{report, terminated};
use crate::handle::{create, of};

/// Nothing is stopped.
#[allow(
    non_upper_case_globals,
    reason = "C constants are written like functions"
)]
pub const cairn_severity_none: c_int = 0;
/// Writes go on; the job that failed is tried again.
#[allow(
    non_upper_case_globals,
    reason = "C constants are written like functions"
)]
pub const cairn_severity_soft: c_int = 1;
/// Writes fail until the database is resumed.
#[allow(
    non_upper_case_globals,
    reason = "C constants are written like functions"
)]
pub const cairn_severity_hard: c_int = 2;
/// Writes fail until the database is opened again.
#[allow(
    non_upper_case_globals,
    reason = "C constants are written like functions"
)]
pub const cairn_severity_fatal: c_int = 3;
/// The database is damaged.
#[allow(
    non_upper_case_globals,
    reason = "C constants are written like functions"
)]
pub const cairn_severity_unrecoverable: c_int = 4;

/// An error that a database is in.
pub struct Failure {
    severity: c_int,
    reason: u32,
    text: CString,
}

handles! {
    /// An error that a database is in, as it was when it was asked for.
    cairn_background_error_t = Failure;
}

c_destructors! {
    /// Frees the description of an error. The database stays in it.
    cairn_background_error_destroy(cairn_background_error_t);
}

c_functions! {
    /// The error that the database is in, which the program destroys; null if it is in none.
    fn cairn_background_error(db: *mut rocksdb_t) -> *mut cairn_background_error_t {
        match of(db.cast_const()).db.background_error_state() {
            None => std::ptr::null_mut(),
            Some(state) => create(Failure {
                severity: state.severity as c_int,
                reason: state.reason as u32,
                text: terminated(&state.error.to_string()),
            }),
        }
    }
    /// The severity of the error: one of `cairn_severity_*`.
    fn cairn_background_error_severity(state: *const cairn_background_error_t) -> c_int {
        of(state).severity
    }
    /// The reason of the error: the number that a listener for background errors is given.
    fn cairn_background_error_reason(state: *const cairn_background_error_t) -> u32 {
        of(state).reason
    }
    /// The cause, in the words of an `errptr`. It belongs to the description.
    fn cairn_background_error_text(state: *const cairn_background_error_t) -> *const c_char {
        of(state).text.as_ptr()
    }
    /// Leaves the error that the database is in: what is in memory is written to tables, logs are
    /// begun anew, and writes go on. Without an error nothing happens. Fails with what goes wrong
    /// this time, with `Busy` while the database resumes by itself, and with the error itself if
    /// only opening the database again helps.
    fn cairn_resume(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
        report(errptr, || of(db.cast_const()).db.resume());
    }
}
