//! The perf context: counters of the calling thread's operations, RocksDB's `PerfContext`.
//!
//! An operation counts on its own stack and adds its counts at the end. Until a program first sets
//! a level or reads a counter, the cost per operation is one load of a flag. From then on, every
//! thread counts at RocksDB's default level, [`PerfLevel::EnableCount`], unless it sets another.
//! [`by_level`] has counters for each level of the LSM tree.
//!
//! ```
//! use cairn_observe::perf::{self, PerfLevel, PerfMetric};
//!
//! perf::set_level(PerfLevel::EnableCount);
//! perf::reset();
//! perf::count(|perf| perf.add(PerfMetric::GetReadBytes, 7));
//! assert_eq!(perf::metric(PerfMetric::GetReadBytes), 7);
//! assert_eq!(perf::report(true), "get_read_bytes = 7");
//! ```

pub mod by_level;
mod io_metric;
pub mod iostats;
mod level_metric;
mod metric;

use std::cell::Cell;
use std::fmt::Write as _;

use cairn_platform::sync::{AtomicBool, Ordering};

use crate::statistics::TableCounts;
pub use metric::PerfMetric;

/// The set of counters that a thread keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum PerfLevel {
    /// Not set. Nothing is counted.
    Uninitialized,
    /// Nothing is counted.
    Disable,
    /// Counts only.
    #[default]
    EnableCount,
    /// Counts and waiting times.
    EnableWait,
    /// All times except the time spent waiting for mutexes.
    EnableTimeExceptForMutex,
    /// All times and CPU times except the time spent waiting for mutexes.
    EnableTimeAndCpuTimeExceptForMutex,
    /// Everything.
    EnableTime,
}

impl PerfLevel {
    const ALL: [PerfLevel; 7] = [
        PerfLevel::Uninitialized,
        PerfLevel::Disable,
        PerfLevel::EnableCount,
        PerfLevel::EnableWait,
        PerfLevel::EnableTimeExceptForMutex,
        PerfLevel::EnableTimeAndCpuTimeExceptForMutex,
        PerfLevel::EnableTime,
    ];

    /// The level with this number, or `None`.
    #[must_use]
    pub fn from_number(number: i64) -> Option<PerfLevel> {
        PerfLevel::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// The perf counters of a thread.
pub struct PerfContext {
    level: Cell<PerfLevel>,
    sums: [Cell<u64>; PerfMetric::COUNT],
}

impl PerfContext {
    /// Adds to a counter.
    #[inline]
    pub fn add(&self, metric: PerfMetric, count: u64) {
        let sum = &self.sums[metric as usize];
        sum.set(sum.get().wrapping_add(count));
    }

    /// Adds the counts of a read in tables.
    pub fn add_tables(&self, counts: &TableCounts) {
        let hits = [&counts.data_hits, &counts.index_hits, &counts.filter_hits];
        let hits = hits.iter().map(|cell| cell.get()).sum();
        self.add(PerfMetric::BlockCacheHitCount, hits);
        self.add(PerfMetric::BlockCacheIndexHitCount, counts.index_hits.get());
        self.add(
            PerfMetric::BlockCacheFilterHitCount,
            counts.filter_hits.get(),
        );
        self.add(PerfMetric::BlockCacheReadByte, counts.hit_bytes.get());
        let prefixes = counts.prefixes_checked.get() - counts.prefixes_useful.get();
        self.add(
            PerfMetric::BloomSstHitCount,
            counts.filters_positive.get() + prefixes,
        );
        let misses = counts.filters_useful.get() + counts.prefixes_useful.get();
        self.add(PerfMetric::BloomSstMissCount, misses);
    }
}

/// True once a program has used counters.
static IN_USE: AtomicBool = AtomicBool::new(false);

thread_local! {
    static COUNTERS: PerfContext = const {
        PerfContext {
            level: Cell::new(PerfLevel::EnableCount),
            sums: [const { Cell::new(0) }; PerfMetric::COUNT],
        }
    };
}

/// True if a program has used counters.
#[inline]
#[must_use]
pub fn is_in_use() -> bool {
    // Relaxed: the calling thread sees its own store; other threads may start counting a little
    // later.
    IN_USE.load(Ordering::Relaxed)
}

/// Enables counting.
pub fn begin_use() {
    IN_USE.store(true, Ordering::Relaxed);
}

/// Adds the counts of an operation.
#[inline]
pub fn count(change: impl FnOnce(&PerfContext)) {
    if is_in_use() {
        count_slowly(change);
    }
}

#[cold]
fn count_slowly(change: impl FnOnce(&PerfContext)) {
    COUNTERS.with(|counters| {
        if counters.level.get() >= PerfLevel::EnableCount {
            change(counters);
        }
    });
}

/// True if the thread's level includes times.
#[inline]
#[must_use]
pub fn wants_times() -> bool {
    is_in_use() && level_wants_times()
}

/// Not inlined: access to a thread-local variable may be a call into a shared library, which the
/// compiler would hoist above the check.
#[cold]
#[inline(never)]
fn level_wants_times() -> bool {
    level() >= PerfLevel::EnableTimeExceptForMutex
}

/// True if the thread's level includes CPU times.
#[inline]
#[must_use]
pub fn wants_cpu_times() -> bool {
    is_in_use() && level_wants_cpu_times()
}

/// Not inlined, like [`level_wants_times`].
#[cold]
#[inline(never)]
fn level_wants_cpu_times() -> bool {
    level() >= PerfLevel::EnableTimeAndCpuTimeExceptForMutex
}

/// Sets the perf level of the calling thread.
pub fn set_level(level: PerfLevel) {
    begin_use();
    COUNTERS.with(|counters| counters.level.set(level));
}

/// The perf level of the calling thread.
#[must_use]
pub fn level() -> PerfLevel {
    COUNTERS.with(|counters| counters.level.get())
}

/// Resets the calling thread's counters.
pub fn reset() {
    begin_use();
    COUNTERS.with(|counters| counters.sums.iter().for_each(|sum| sum.set(0)));
    by_level::reset();
}

/// A counter of the calling thread.
#[must_use]
pub fn metric(metric: PerfMetric) -> u64 {
    COUNTERS.with(|counters| counters.sums[metric as usize].get())
}

/// The calling thread's counters as text, in RocksDB's format, including those [by level](by_level) if
/// enabled.
#[must_use]
pub fn report(without_zeros: bool) -> String {
    let all = PerfMetric::ALL.iter().map(|&one| (one.name(), metric(one)));
    let mut text = listed(all, without_zeros);
    by_level::report(&mut text, without_zeros);
    ended(text)
}

/// Names and values as RocksDB lists them, each followed by a comma and a space.
fn listed(all: impl Iterator<Item = (&'static str, u64)>, without_zeros: bool) -> String {
    let mut text = String::new();
    for (name, sum) in all.filter(|(_, sum)| *sum > 0 || !without_zeros) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{name} = {sum}, ");
    }
    text
}

/// Removes the separator at the end of a list.
fn ended(mut list: String) -> String {
    list.truncate(list.trim_end_matches([',', ' ']).len());
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_rocksdbs_and_per_thread() {
        assert_eq!(PerfMetric::COUNT, 120);
        set_level(PerfLevel::EnableCount);
        reset();
        count(|perf| perf.add(PerfMetric::BlockReadCount, 2));
        assert_eq!(metric(PerfMetric::BlockReadCount), 2);
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(metric(PerfMetric::BlockReadCount), 0));
        });
        set_level(PerfLevel::Disable);
        count(|perf| perf.add(PerfMetric::BlockReadCount, 2));
        assert_eq!(metric(PerfMetric::BlockReadCount), 2);
        assert!(!wants_times());
        set_level(PerfLevel::EnableTime);
        assert!(wants_times());
        assert_eq!(report(true), "block_read_count = 2");
        assert!(report(false).starts_with(
            "user_key_comparison_count = 0, block_cache_hit_count = 0, block_read_count = 2, "
        ));
        assert!(report(false).ends_with("multiscan_io_coalesced_nonadjacent = 0"));
    }
}
