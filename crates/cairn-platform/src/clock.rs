//! Time: the trait by which the engine reads clocks and waits.

use std::time::Duration;

/// Time.
pub trait Clock: Send + Sync {
    /// Microseconds since 1970. May jump.
    fn wall_micros(&self) -> u64;
    /// Nanoseconds since some moment; never goes back.
    fn monotonic_nanos(&self) -> u64;
    /// Waits.
    fn sleep(&self, duration: Duration);
    /// Nanoseconds that the processor has worked for the calling thread; 0 where that is not known.
    fn thread_cpu_nanos(&self) -> u64 {
        0
    }

    /// Seconds since 1970.
    fn wall_seconds(&self) -> u64 {
        self.wall_micros() / 1_000_000
    }
}
