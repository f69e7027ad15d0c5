//! Perf context: RocksDB's counters of what the calling thread's operations did.
//!
//! Operations count on their own stack and bring that here at their end, if anybody has ever asked:
//! until a program first sets a level or looks at the counters, an operation pays for one load of a
//! flag. From then on every thread counts at RocksDB's level, [`PerfLevel::EnableCount`], unless it
//! sets another one. [`by_level`] has counters of each level of the tree.
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
pub mod io;
mod io_metric;
mod level_metric;
mod metric;

use std::cell::Cell;
use std::fmt::Write as _;

use cairn_platform::sync::{AtomicBool, Ordering};

use crate::statistics::TableCounts;
pub use metric::PerfMetric;

/// What a thread counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum PerfLevel {
    /// Not set; nothing is counted.
    Uninitialized,
    /// Nothing.
    Disable,
    /// What needs no clock.
    #[default]
    EnableCount,
    /// Waiting for the engine, too.
    EnableWait,
    /// All times but those of waiting for locks.
    EnableTimeExceptForMutex,
    /// Times of the processor, too.
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

    /// The level with this number, if there is one.
    #[must_use]
    pub fn from_number(number: i64) -> Option<PerfLevel> {
        PerfLevel::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// The counters of one thread.
pub struct Counters {
    level: Cell<PerfLevel>,
    sums: [Cell<u64>; PerfMetric::COUNT],
}

impl Counters {
    /// Adds to a counter.
    #[inline]
    pub fn add(&self, metric: PerfMetric, count: u64) {
        let sum = &self.sums[metric as usize];
        sum.set(sum.get().wrapping_add(count));
    }

    /// What a read has counted in tables.
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

/// Somebody wants counters.
static IN_USE: AtomicBool = AtomicBool::new(false);

thread_local! {
    static COUNTERS: Counters = const {
        Counters {
            level: Cell::new(PerfLevel::EnableCount),
            sums: [const { Cell::new(0) }; PerfMetric::COUNT],
        }
    };
}

/// True if anybody has ever asked for counters.
#[inline]
#[must_use]
pub fn is_in_use() -> bool {
    // A thread that asks sees its own store; others may count a little later.
    IN_USE.load(Ordering::Relaxed)
}

/// From now on operations count.
pub fn begin_use() {
    IN_USE.store(true, Ordering::Relaxed);
}

/// Brings in what an operation counted.
#[inline]
pub fn count(change: impl FnOnce(&Counters)) {
    if is_in_use() {
        count_slowly(change);
    }
}

#[cold]
fn count_slowly(change: impl FnOnce(&Counters)) {
    COUNTERS.with(|counters| {
        if counters.level.get() >= PerfLevel::EnableCount {
            change(counters);
        }
    });
}

/// True if the thread wants times.
#[inline]
#[must_use]
pub fn wants_times() -> bool {
    is_in_use() && level_wants_times()
}

/// Stands apart: where the thread's level lies is looked up in a call in a shared library, and compilers
/// think that cheap enough to do before they know whether it is needed.
#[cold]
#[inline(never)]
fn level_wants_times() -> bool {
    level() >= PerfLevel::EnableTimeExceptForMutex
}

/// Sets what the calling thread counts.
pub fn set_level(level: PerfLevel) {
    begin_use();
    COUNTERS.with(|counters| counters.level.set(level));
}

/// What the calling thread counts.
#[must_use]
pub fn level() -> PerfLevel {
    COUNTERS.with(|counters| counters.level.get())
}

/// The calling thread's counters begin anew.
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

/// The calling thread's counters as text, in RocksDB's form; with those [by level](by_level) if they are
/// enabled.
#[must_use]
pub fn report(without_zeros: bool) -> String {
    let all = PerfMetric::ALL.iter().map(|&one| (one.name(), metric(one)));
    let mut text = listed(all, without_zeros);
    by_level::report(&mut text, without_zeros);
    ended(text)
}

/// Names with their sums, as RocksDB lists them: a comma and a blank behind each.
fn listed(all: impl Iterator<Item = (&'static str, u64)>, without_zeros: bool) -> String {
    let mut text = String::new();
    for (name, sum) in all.filter(|(_, sum)| *sum > 0 || !without_zeros) {
        // Writing to a string does not fail.
        let _ = write!(text, "{name} = {sum}, ");
    }
    text
}

/// A list without what separates its end from nothing.
fn ended(mut list: String) -> String {
    list.truncate(list.trim_end_matches([',', ' ']).len());
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_rocksdbs_and_the_threads_own() {
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
