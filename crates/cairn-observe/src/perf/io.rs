//! I/O context: RocksDB's counters of what the calling thread did to files.
//!
//! They go with the [perf counters](super): nothing is counted before a program first asks for either,
//! bytes are from [`PerfLevel::EnableCount`] on (RocksDB counts them always), times from
//! [`PerfLevel::EnableTimeExceptForMutex`] on, times of the processor from
//! [`PerfLevel::EnableTimeAndCpuTimeExceptForMutex`] on.
//!
//! ```
//! use cairn_observe::perf::io::{self, IoMetric};
//! use cairn_observe::perf::{self, PerfLevel};
//!
//! perf::set_level(PerfLevel::EnableCount);
//! io::reset();
//! io::add(IoMetric::BytesRead, 7);
//! assert_eq!(io::metric(IoMetric::BytesRead), 7);
//! assert_eq!(io::report(true), "bytes_read = 7");
//! ```

use std::cell::Cell;

use cairn_platform::world::Clock;

use super::{PerfLevel, begin_use, is_in_use, level, listed};

pub use super::io_metric::IoMetric;

thread_local! {
    static SUMS: [Cell<u64>; IoMetric::COUNT] = const { [const { Cell::new(0) }; IoMetric::COUNT] };
}

/// Adds to a counter, if anybody has ever asked for counters and the thread wants them.
#[inline]
pub fn add(metric: IoMetric, count: u64) {
    if is_in_use() && level() >= PerfLevel::EnableCount {
        add_always(metric, count);
    }
}

#[cold]
fn add_always(metric: IoMetric, count: u64) {
    SUMS.with(|sums| {
        let sum = &sums[metric as usize];
        sum.set(sum.get().wrapping_add(count));
    });
}

/// Carries `call` out. How long it took goes to `metric`, if the thread wants times.
#[inline]
pub fn timed<T>(clock: &dyn Clock, metric: IoMetric, call: impl FnOnce() -> T) -> T {
    if !super::wants_times() {
        return call();
    }
    let began = clock.monotonic_nanos();
    let result = call();
    add_always(metric, clock.monotonic_nanos().saturating_sub(began));
    result
}

/// The same with the processor's time, which goes to the second metric.
#[inline]
pub(crate) fn timed_io<T>(
    clock: &dyn Clock,
    (time, cpu): (IoMetric, IoMetric),
    call: impl FnOnce() -> T,
) -> T {
    if !super::wants_times() {
        return call();
    }
    let of_processor = level() >= PerfLevel::EnableTimeAndCpuTimeExceptForMutex;
    let began = of_processor.then(|| clock.thread_cpu_nanos());
    let result = timed(clock, time, call);
    if let Some(began) = began {
        add_always(cpu, clock.thread_cpu_nanos().saturating_sub(began));
    }
    result
}

/// The calling thread's counters begin anew.
pub fn reset() {
    begin_use();
    SUMS.with(|sums| sums.iter().for_each(|sum| sum.set(0)));
}

/// A counter of the calling thread.
#[must_use]
pub fn metric(metric: IoMetric) -> u64 {
    SUMS.with(|sums| sums[metric as usize].get())
}

/// The calling thread's counters as text, in RocksDB's form.
#[must_use]
pub fn report(without_zeros: bool) -> String {
    let all = IoMetric::ALL.iter().map(|&one| (one.name(), metric(one)));
    listed(all, without_zeros)
}
