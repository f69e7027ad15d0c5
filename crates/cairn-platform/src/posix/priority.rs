//! I/O and CPU priorities of the calling thread.

#![expect(unsafe_code, reason = "ioprio_set has no safe binding")]

#[cfg(target_arch = "x86_64")]
const IOPRIO_SET: i64 = 251;
#[cfg(not(target_arch = "x86_64"))]
const IOPRIO_SET: i64 = 30;

/// `IOPRIO_WHO_PROCESS` of `ioprio_set(2)`. With id 0 it selects the calling thread.
const WHO_THREAD: i64 = 1;
/// The idle class of `ioprio_set(2)`.
const CLASS_IDLE: i64 = 3 << 13;
/// The lowest priority of `setpriority(2)`.
const LEAST_URGENT: i32 = 19;

unsafe extern "C" {
    fn syscall(number: i64, ...) -> i64;
}

/// Gives the calling thread idle I/O priority. Has no effect if the kernel refuses.
pub(crate) fn lower_io() {
    // SAFETY: the call takes three numbers and accesses no memory.
    unsafe {
        syscall(IOPRIO_SET, WHO_THREAD, 0_i64, CLASS_IDLE);
    }
}

/// Gives the calling thread the lowest CPU priority.
pub(crate) fn lower_cpu() {
    // On Linux this affects the calling thread only. Has no effect if the kernel refuses.
    let _unchanged_if_refused = rustix::process::setpriority_process(None, LEAST_URGENT);
}
