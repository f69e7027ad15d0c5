//! A forked child in which a test runs code.

#![expect(unsafe_code, reason = "the standard library does not fork")]

use std::panic::{AssertUnwindSafe, catch_unwind};

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(code: i32) -> !;
}

/// The exit code of a child whose code panicked.
const PANICKED: i32 = 101;

/// Runs `act` in a child and `meanwhile` in the parent, and returns the exit code of the child, the result of
/// `act`. `act` must not take a lock that another thread of the parent may hold.
pub(super) fn in_child(act: impl FnOnce() -> i32, meanwhile: impl FnOnce()) -> i32 {
    // SAFETY: the child runs `act` and exits; it accesses nothing that a thread of the parent may have locked.
    match unsafe { fork() } {
        0 => {
            let code = catch_unwind(AssertUnwindSafe(act)).unwrap_or(PANICKED);
            // SAFETY: exits the child immediately.
            unsafe { _exit(code) }
        }
        child => {
            meanwhile();
            let mut status = 0;
            // SAFETY: `status` is valid for the call.
            let waited = unsafe { waitpid(child, &raw mut status, 0) };
            let signal = status & 0x7f;
            assert_eq!((waited, signal), (child, 0), "the child exited normally");
            status >> 8
        }
    }
}

/// True if `act`, run in a child, returns true.
pub(crate) fn holds_in_child(act: impl FnOnce() -> bool, meanwhile: impl FnOnce()) -> bool {
    in_child(|| i32::from(!act()), meanwhile) == 0
}
