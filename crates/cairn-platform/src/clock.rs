//! The clock interface.

use std::time::Duration;

/// A source of time.
pub trait Clock: Send + Sync {
    /// Microseconds since 1970. Not monotonic.
    fn wall_micros(&self) -> u64;
    /// Nanoseconds since an arbitrary point in time. Monotonic.
    fn monotonic_nanos(&self) -> u64;
    /// [`Clock::monotonic_nanos`], up to some milliseconds in the past if that is cheaper to obtain.
    fn coarse_nanos(&self) -> u64 {
        self.monotonic_nanos()
    }
    /// Blocks for `duration`.
    fn sleep(&self, duration: Duration);
    /// True if the time passes without calls of [`Clock::sleep`], and [`Clock::monotonic_nanos`] is that of the system.
    /// A thread that waits for any other clock calls [`Clock::sleep`].
    fn is_real(&self) -> bool {
        false
    }
    /// CPU time of the calling thread in nanoseconds; 0 if unknown.
    fn thread_cpu_nanos(&self) -> u64 {
        0
    }
    /// CPU time of all threads of the process in nanoseconds; 0 if unknown.
    fn process_cpu_nanos(&self) -> u64 {
        0
    }

    /// Seconds since 1970.
    fn wall_seconds(&self) -> u64 {
        self.wall_micros() / 1_000_000
    }
}
