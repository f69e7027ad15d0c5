//! Other processes in which a test runs code: a forked child, or one that starts anew.

#![expect(unsafe_code, reason = "the standard library does not fork")]

use std::panic::{AssertUnwindSafe, catch_unwind};

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(code: i32) -> !;
    fn alarm(seconds: u32) -> u32;
}

/// The time after which the kernel ends a child, in seconds.
const LIMIT: u32 = 120;

/// The exit code of a child whose code panicked.
const PANICKED: i32 = 101;

/// Runs `act` in a child and `meanwhile` in the parent, and returns the exit code of the child, the result of
/// `act`. `act` must not take a lock that another thread of the parent may hold.
pub(super) fn in_child(act: impl FnOnce() -> i32, meanwhile: impl FnOnce()) -> i32 {
    // SAFETY: the child runs `act` and exits; it accesses nothing that a thread of the parent may have locked.
    match unsafe { fork() } {
        0 => {
            // SAFETY: no handler is installed: the signal ends the child.
            unsafe { alarm(LIMIT) };
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
            assert_eq!(
                (waited, signal),
                (child, 0),
                "the child exited, within {LIMIT} s"
            );
            status >> 8
        }
    }
}

/// True if `act`, run in a child, returns true.
pub(crate) fn holds_in_child(act: impl FnOnce() -> bool, meanwhile: impl FnOnce()) -> bool {
    in_child(|| i32::from(!act()), meanwhile) == 0
}

/// Runs the code of the test called `name` in a process of its own, where it may use up limits and start threads. The
/// process is this program, which calls the test again.
pub(crate) fn alone(name: &str, act: impl FnOnce()) {
    const ALONE: &str = "CAIRN_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        // SAFETY: no handler is installed: the signal ends the process.
        unsafe { alarm(LIMIT) };
        return act();
    }
    let ran = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && text.contains("1 passed"), "{ran:?}");
}
