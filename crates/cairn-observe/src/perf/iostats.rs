//! I/O context: RocksDB's counters of what the calling thread did to files.
//!
//! They go with the [perf counters](super): nothing is counted before a program first asks for either,
//! bytes are from [`PerfLevel::EnableCount`] on (RocksDB counts them always), times from
//! [`PerfLevel::EnableTimeExceptForMutex`] on, times of the processor from
//! [`PerfLevel::EnableTimeAndCpuTimeExceptForMutex`] on.
//!
//! ```
//! use cairn_observe::perf::iostats::{self, IoMetric};
//! use cairn_observe::perf::{self, PerfLevel};
//!
//! perf::set_level(PerfLevel::EnableCount);
//! iostats::reset();
//! iostats::add(IoMetric::BytesRead, 7);
//! assert_eq!(iostats::metric(IoMetric::BytesRead), 7);
//! assert_eq!(iostats::report(true), "bytes_read = 7");
//! ```

use std::cell::Cell;

use cairn_platform::Clock;

use super::{PerfLevel, begin_use, ended, is_in_use, level, listed, set_level};

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

/// How long calls that write files took, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileTimes {
    /// Writing.
    pub write: u64,
    /// Asking for a range to be stored.
    pub range_sync: u64,
    /// Waiting until files and their names are stored.
    pub fsync: u64,
    /// Allocating room ahead.
    pub prepare_write: u64,
}

impl FileTimes {
    /// What the calling thread has counted so far.
    fn so_far() -> FileTimes {
        FileTimes {
            write: metric(IoMetric::WriteNanos),
            range_sync: metric(IoMetric::RangeSyncNanos),
            fsync: metric(IoMetric::FsyncNanos),
            prepare_write: metric(IoMetric::PrepareWriteNanos),
        }
    }

    /// What came after `before`.
    fn since(&self, before: &FileTimes) -> FileTimes {
        FileTimes {
            write: self.write.wrapping_sub(before.write),
            range_sync: self.range_sync.wrapping_sub(before.range_sync),
            fsync: self.fsync.wrapping_sub(before.fsync),
            prepare_write: self.prepare_write.wrapping_sub(before.prepare_write),
        }
    }

    /// Adds times of other calls.
    pub fn add(&mut self, more: &FileTimes) {
        self.write += more.write;
        self.range_sync += more.range_sync;
        self.fsync += more.fsync;
        self.prepare_write += more.prepare_write;
    }
}

/// Carries `work` out with the calling thread's file calls timed, whatever its level, and returns how
/// long they took too.
pub fn with_times<T>(work: impl FnOnce() -> T) -> (T, FileTimes) {
    /// Puts the thread's level back.
    struct Back(PerfLevel);
    impl Drop for Back {
        fn drop(&mut self) {
            set_level(self.0);
        }
    }
    let back = Back(level());
    set_level(back.0.max(PerfLevel::EnableTimeExceptForMutex));
    let before = FileTimes::so_far();
    let done = work();
    (done, FileTimes::so_far().since(&before))
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
    ended(listed(all, without_zeros))
}
