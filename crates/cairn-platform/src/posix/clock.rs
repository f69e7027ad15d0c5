//! The system clocks.

#![expect(
    clippy::disallowed_methods,
    reason = "this is the implementation behind the clock trait"
)]

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::clock::Clock;

/// The kernel's real-time and monotonic clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn wall_micros(&self) -> u64 {
        let now = clock_gettime(ClockId::Realtime);
        // A time before 1970 is treated as 1970.
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        seconds * 1_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000
    }

    fn monotonic_nanos(&self) -> u64 {
        nanos_of(ClockId::Monotonic)
    }

    fn coarse_nanos(&self) -> u64 {
        nanos_of(ClockId::MonotonicCoarse)
    }

    fn is_real(&self) -> bool {
        true
    }

    fn thread_cpu_nanos(&self) -> u64 {
        nanos_of(ClockId::ThreadCPUTime)
    }

    fn process_cpu_nanos(&self) -> u64 {
        nanos_of(ClockId::ProcessCPUTime)
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

fn nanos_of(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_advances_with_work() {
        let clock = SystemClock;
        let before = [clock.thread_cpu_nanos(), clock.process_cpu_nanos()];
        let sum = (0..1_000_000_u64).fold(0, |sum, n| sum ^ std::hint::black_box(n));
        std::hint::black_box(sum);
        assert!(clock.thread_cpu_nanos() > before[0] && clock.process_cpu_nanos() > before[1]);
    }

    #[test]
    fn clocks_are_plausible() {
        let clock = SystemClock;
        let before = clock.monotonic_nanos();
        assert!(clock.monotonic_nanos() >= before);
        let coarse = clock.coarse_nanos();
        assert!(coarse <= clock.monotonic_nanos() && coarse + 1_000_000_000 > before);
        assert!(clock.wall_seconds() > 1_600_000_000);
    }
}
