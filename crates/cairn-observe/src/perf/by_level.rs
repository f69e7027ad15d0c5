//! Perf counters by level: the tables of each level that the calling thread's reads access.
//!
//! RocksDB's `PerfContextByLevel`. A thread [`enable`]s the counters for itself. Counts require at
//! least [`PerfLevel::EnableCount`], and [`LevelMetric::GetFromTableNanos`] requires at least
//! [`PerfLevel::EnableTimeExceptForMutex`]. [`report`](super::report) then includes them, and
//! [`reset`](super::reset) resets them. A level is present once something has been counted in it.
//!
//! As in RocksDB, filter and cache counters belong to the level of the table when it was opened: a
//! file that is moved to a lower level while it is open still counts for its old level. Filter
//! counters cover whole-key and prefix filters, for gets and MultiGets.
//!
//! ```
//! use cairn_observe::perf::by_level::{self, LevelMetric};
//! use cairn_observe::perf::{self, PerfLevel};
//!
//! perf::set_level(PerfLevel::EnableCount);
//! by_level::enable();
//! by_level::add(2, LevelMetric::UserKeyReturnCount, 7);
//! assert_eq!(by_level::metric(2, LevelMetric::UserKeyReturnCount), 7);
//! assert!(perf::report(true).contains("user_key_return_count = 7@level2, "));
//! by_level::clear();
//! assert_eq!(by_level::levels(), []);
//! ```

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Write as _;

use cairn_platform::sync::{AtomicBool, Ordering};

use super::{PerfLevel, begin_use};
use crate::statistics::TableCounts;

pub use super::level_metric::LevelMetric;

/// The counters of a thread.
struct ByLevel {
    enabled: Cell<bool>,
    sums: RefCell<BTreeMap<usize, [u64; LevelMetric::COUNT]>>,
}

/// True once a thread has enabled them.
static IN_USE: AtomicBool = AtomicBool::new(false);

thread_local! {
    static BY_LEVEL: ByLevel = const {
        ByLevel {
            enabled: Cell::new(false),
            sums: RefCell::new(BTreeMap::new()),
        }
    };
}

/// Accesses the thread's counters. Does nothing if the thread is exiting.
fn with<T: Default>(look: impl FnOnce(&ByLevel) -> T) -> T {
    BY_LEVEL.try_with(look).unwrap_or_default()
}

/// Enables counters by level for the calling thread, keeping earlier counts.
pub fn enable() {
    begin_use();
    // Relaxed: the calling thread sees its own store, and no other thread counts for it.
    IN_USE.store(true, Ordering::Relaxed);
    with(|counters| counters.enabled.set(true));
}

/// Disables counters by level for the calling thread. Counts are kept, but not reported.
pub fn disable() {
    with(|counters| counters.enabled.set(false));
}

/// Disables counters by level for the calling thread, and clears them.
pub fn clear() {
    disable();
    with(|counters| counters.sums.take());
}

/// True if the calling thread counts by level: if it has enabled the counters and its level is at least
/// [`PerfLevel::EnableCount`].
#[inline]
#[must_use]
pub fn is_wanted() -> bool {
    IN_USE.load(Ordering::Relaxed) && is_wanted_by_thread()
}

/// Not inlined: access to thread-local variables may be a function call.
#[cold]
#[inline(never)]
fn is_wanted_by_thread() -> bool {
    is_enabled() && super::level() >= PerfLevel::EnableCount
}

fn is_enabled() -> bool {
    with(|counters| counters.enabled.get())
}

/// Adds to a counter of `level`. Does not check [`is_wanted`].
pub fn add(level: usize, metric: LevelMetric, count: u64) {
    with(|counters| {
        let mut sums = counters.sums.borrow_mut();
        let sum = &mut sums.entry(level).or_default()[metric as usize];
        *sum = sum.wrapping_add(count);
    });
}

/// Adds the counts of a read in tables of `level`.
pub fn add_tables(level: usize, counts: &TableCounts) {
    let hits = [&counts.data_hits, &counts.index_hits, &counts.filter_hits];
    let prefixes_positive = counts.prefixes_checked.get() - counts.prefixes_useful.get();
    for (metric, count) in [
        (
            LevelMetric::BloomFilterUseful,
            counts.filters_useful.get() + counts.prefixes_useful.get(),
        ),
        (
            LevelMetric::BloomFilterFullPositive,
            counts.filters_positive.get() + prefixes_positive,
        ),
        (
            LevelMetric::BloomFilterFullTruePositive,
            counts.filters_true.get() + counts.prefixes_true.get(),
        ),
        (
            LevelMetric::BlockCacheHitCount,
            hits.iter().map(|cell| cell.get()).sum(),
        ),
    ] {
        if count > 0 {
            add(level, metric, count);
        }
    }
}

/// A counter of the calling thread; 0 if nothing was counted in the level.
#[must_use]
pub fn metric(level: usize, metric: LevelMetric) -> u64 {
    with(|counters| {
        let sums = counters.sums.borrow();
        sums.get(&level).map_or(0, |sums| sums[metric as usize])
    })
}

/// The levels with counts of the calling thread, in ascending order.
#[must_use]
pub fn levels() -> Vec<usize> {
    with(|counters| counters.sums.borrow().keys().copied().collect())
}

/// Resets the calling thread's counters, if enabled.
pub(super) fn reset() {
    if is_enabled() {
        with(|counters| {
            let mut sums = counters.sums.borrow_mut();
            sums.values_mut().for_each(|sums| sums.fill(0));
        });
    }
}

/// Appends the calling thread's counters to `text`, if enabled: each name with the counts of all levels. Each
/// count is followed by a comma and a space.
pub(super) fn report(text: &mut String, without_zeros: bool) {
    if !is_enabled() {
        return;
    }
    for &metric in LevelMetric::ALL {
        text.push_str(metric.name());
        text.push_str(" = ");
        for level in levels() {
            let sum = self::metric(level, metric);
            if sum > 0 || !without_zeros {
                // Writing to a string cannot fail.
                let _ = write!(text, "{sum}@level{level}, ");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf;
    use crate::statistics::count;

    /// The text equals that of RocksDB's `PerfContext::ToString`: names without counts are included, and
    /// there is no separator after them.
    #[test]
    fn reports_are_rocksdbs() {
        perf::set_level(PerfLevel::EnableCount);
        perf::reset();
        assert!(!is_wanted());
        enable();
        assert!(is_wanted());
        assert_eq!(
            perf::report(true),
            "bloom_filter_useful = bloom_filter_full_positive = bloom_filter_full_true_positive = \
             user_key_return_count = get_from_table_nanos = block_cache_hit_count = \
             block_cache_miss_count ="
        );
        add(5, LevelMetric::BloomFilterUseful, 1);
        add(0, LevelMetric::BloomFilterFullPositive, 1);
        add(7, LevelMetric::BloomFilterUseful, 2);
        add(1, LevelMetric::BlockCacheMissCount, 4);
        perf::count(|perf| perf.add(perf::PerfMetric::BlockReadCount, 3));
        assert_eq!(levels(), [0, 1, 5, 7]);
        assert_eq!(
            perf::report(true),
            "block_read_count = 3, bloom_filter_useful = 1@level5, 2@level7, \
             bloom_filter_full_positive = 1@level0, bloom_filter_full_true_positive = \
             user_key_return_count = get_from_table_nanos = block_cache_hit_count = \
             block_cache_miss_count = 4@level1"
        );
        assert!(perf::report(false).ends_with(
            "multiscan_io_coalesced_nonadjacent = 0, \
             bloom_filter_useful = 0@level0, 0@level1, 1@level5, 2@level7, \
             bloom_filter_full_positive = 1@level0, 0@level1, 0@level5, 0@level7, \
             bloom_filter_full_true_positive = 0@level0, 0@level1, 0@level5, 0@level7, \
             user_key_return_count = 0@level0, 0@level1, 0@level5, 0@level7, \
             get_from_table_nanos = 0@level0, 0@level1, 0@level5, 0@level7, \
             block_cache_hit_count = 0@level0, 0@level1, 0@level5, 0@level7, \
             block_cache_miss_count = 0@level0, 4@level1, 0@level5, 0@level7"
        ));
        clear();
        perf::reset();
        assert_eq!(perf::report(true), "");
    }

    /// Disabled counters keep their values, even through a reset. Cleared counters have none.
    #[test]
    fn counters_by_level_are_kept_until_cleared() {
        perf::set_level(PerfLevel::EnableCount);
        enable();
        let useful = || metric(3, LevelMetric::BloomFilterUseful);
        add(3, LevelMetric::BloomFilterUseful, 9);
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(!is_wanted() && levels().is_empty()));
        });
        disable();
        assert!(!is_wanted());
        perf::reset();
        assert_eq!((useful(), perf::report(true)), (9, String::new()));
        enable();
        assert_eq!(useful(), 9);
        perf::reset();
        assert_eq!((useful(), levels()), (0, vec![3]));
        perf::set_level(PerfLevel::Disable);
        assert!(!is_wanted());
        clear();
        assert!(levels().is_empty());
        perf::set_level(PerfLevel::EnableCount);
        assert!(!is_wanted());
    }

    /// Prefix filters count like whole-key filters.
    #[test]
    fn table_counts_map_to_counters_by_level() {
        let counts = TableCounts::default();
        for (cell, more) in [
            (&counts.filters_useful, 1),
            (&counts.filters_positive, 10),
            (&counts.filters_true, 100),
            (&counts.prefixes_checked, 3_000),
            (&counts.prefixes_useful, 1_000),
            (&counts.prefixes_true, 10_000),
            (&counts.data_hits, 2),
            (&counts.index_hits, 20),
            (&counts.filter_hits, 200),
            (&counts.hit_bytes, 77),
        ] {
            count(cell, more);
        }
        add_tables(4, &counts);
        let all = LevelMetric::ALL.iter().map(|&one| metric(4, one));
        let all: Vec<_> = all.collect();
        assert_eq!(all, [1_001, 2_010, 10_100, 0, 0, 222, 0]);
        add_tables(5, &TableCounts::default());
        assert_eq!(levels(), [4]);
    }
}
