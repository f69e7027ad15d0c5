//! How urgently the kernel serves the calling thread.

#![expect(unsafe_code, reason = "ioprio_set has no safe face")]

#[cfg(target_arch = "x86_64")]
const IOPRIO_SET: i64 = 251;
#[cfg(not(target_arch = "x86_64"))]
const IOPRIO_SET: i64 = 30;

/// "The thread with this number", 0 for the caller, of `ioprio_set(2)`.
const WHO_THREAD: i64 = 1;
/// The class that is served when nobody else asks, of `ioprio_set(2)`.
const CLASS_IDLE: i64 = 3 << 13;
/// The least urgent of `setpriority(2)`.
const LEAST_URGENT: i32 = 19;

unsafe extern "C" {
    fn syscall(number: i64, ...) -> i64;
}

/// Lets the kernel carry out the calling thread's reads and writes when nobody else has any. A
/// kernel that refuses leaves things as they were.
pub(crate) fn lower_io() {
    // SAFETY: the call takes three numbers and touches no memory of ours.
    unsafe {
        syscall(IOPRIO_SET, WHO_THREAD, 0_i64, CLASS_IDLE);
    }
}

/// Lets the calling thread run when nobody else wants the processor.
pub(crate) fn lower_cpu() {
    // On Linux "this process" is this thread. A refusal leaves things as they were.
    let _unchanged_if_refused = rustix::process::setpriority_process(None, LEAST_URGENT);
}
