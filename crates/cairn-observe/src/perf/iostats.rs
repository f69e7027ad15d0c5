//! I/O statistics of the calling thread, RocksDB's `IOStatsContext`.
//!
//! I/O statistics are enabled with the [perf context](super): nothing is counted until a program
//! first uses either. Bytes are counted at [`PerfLevel::EnableCount`] and above (RocksDB always
//! counts them), times at [`PerfLevel::EnableTimeExceptForMutex`] and above, and CPU times at
//! [`PerfLevel::EnableTimeAndCpuTimeExceptForMutex`] and above.
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

/// Adds to a counter, if counters are in use and enabled for the thread.
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

/// Runs `call` and adds its duration to `metric`, if the thread's level includes times.
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

/// Like [`timed`], and adds the CPU time to the second metric.
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

/// The clock time and the CPU time of the thread at the start of a batch of reads, as far as they are measured.
pub(crate) fn begin_io(clock: &dyn Clock) -> (u64, u64) {
    if !super::wants_times() {
        return (0, 0);
    }
    (clock.monotonic_nanos(), clock.thread_cpu_nanos())
}

/// Ends a batch that began at the times `began` of [`begin_io`]. Adds `share` of the time since to the first
/// metric, and of the CPU time to the second, if they are measured.
pub(crate) fn end_io(
    clock: &dyn Clock,
    (time, cpu): (IoMetric, IoMetric),
    began: (u64, u64),
    share: impl Fn(u64) -> u64,
) {
    if !super::wants_times() || began.0 == 0 {
        return;
    }
    let nanos = clock.monotonic_nanos().saturating_sub(began.0);
    add_always(time, share(nanos));
    if level() >= PerfLevel::EnableTimeAndCpuTimeExceptForMutex {
        let nanos = clock.thread_cpu_nanos().saturating_sub(began.1);
        add_always(cpu, share(nanos));
    }
}

/// Times of calls that write files, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileTimes {
    /// Writes.
    pub write: u64,
    /// Writeback of ranges.
    pub range_sync: u64,
    /// Syncs of files and directories.
    pub fsync: u64,
    /// Preallocation.
    pub prepare_write: u64,
}

impl FileTimes {
    /// The totals of the calling thread.
    fn so_far() -> FileTimes {
        FileTimes {
            write: metric(IoMetric::WriteNanos),
            range_sync: metric(IoMetric::RangeSyncNanos),
            fsync: metric(IoMetric::FsyncNanos),
            prepare_write: metric(IoMetric::PrepareWriteNanos),
        }
    }

    /// The difference from `before`.
    fn since(&self, before: &FileTimes) -> FileTimes {
        FileTimes {
            write: self.write.wrapping_sub(before.write),
            range_sync: self.range_sync.wrapping_sub(before.range_sync),
            fsync: self.fsync.wrapping_sub(before.fsync),
            prepare_write: self.prepare_write.wrapping_sub(before.prepare_write),
        }
    }

    /// Adds the times in `more`.
    pub fn add(&mut self, more: &FileTimes) {
        self.write += more.write;
        self.range_sync += more.range_sync;
        self.fsync += more.fsync;
        self.prepare_write += more.prepare_write;
    }
}

/// Runs `work` with file times enabled for the calling thread, whatever its level. Returns the
/// times with the result.
pub fn with_times<T>(work: impl FnOnce() -> T) -> (T, FileTimes) {
    /// Restores the thread's level.
    struct RestoreLevel(PerfLevel);
    impl Drop for RestoreLevel {
        fn drop(&mut self) {
            set_level(self.0);
        }
    }
    let back = RestoreLevel(level());
    set_level(back.0.max(PerfLevel::EnableTimeExceptForMutex));
    let before = FileTimes::so_far();
    let done = work();
    (done, FileTimes::so_far().since(&before))
}

/// Resets the calling thread's counters.
pub fn reset() {
    begin_use();
    SUMS.with(|sums| sums.iter().for_each(|sum| sum.set(0)));
}

/// A counter of the calling thread.
#[must_use]
pub fn metric(metric: IoMetric) -> u64 {
    SUMS.with(|sums| sums[metric as usize].get())
}

/// The calling thread's counters as text, in RocksDB's format.
#[must_use]
pub fn report(without_zeros: bool) -> String {
    let all = IoMetric::ALL.iter().map(|&one| (one.name(), metric(one)));
    ended(listed(all, without_zeros))
}
