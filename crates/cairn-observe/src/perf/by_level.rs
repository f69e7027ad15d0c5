//! Perf counters by level: where in the tree the calling thread's reads look, and what they find there.
//!
//! RocksDB's `PerfContextByLevel`. A thread [`enable`]s them for itself; they count from
//! [`PerfLevel::EnableCount`] on, [`LevelMetric::GetFromTableNanos`] from
//! [`PerfLevel::EnableTimeExceptForMutex`] on. [`report`](super::report) then prints them behind the
//! other counters, and [`reset`](super::reset) resets them too. Levels are there once something was
//! counted in them.
//!
//! Filters, blocks found in the cache and blocks missed there count for the level that their table lay in
//! when it was opened, as in RocksDB: a file that is moved down while it is open keeps counting above.
//! Filters are those that gets and batches of gets ask, for whole keys or for prefixes.
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

/// The counters of one thread.
struct ByLevel {
    enabled: Cell<bool>,
    sums: RefCell<BTreeMap<usize, [u64; LevelMetric::COUNT]>>,
}

/// Some thread has enabled them.
static IN_USE: AtomicBool = AtomicBool::new(false);

thread_local! {
    static BY_LEVEL: ByLevel = const {
        ByLevel {
            enabled: Cell::new(false),
            sums: RefCell::new(BTreeMap::new()),
        }
    };
}

/// Looks at the thread's counters; nothing if the thread is ending and has none any more.
fn with<T: Default>(look: impl FnOnce(&ByLevel) -> T) -> T {
    BY_LEVEL.try_with(look).unwrap_or_default()
}

/// The calling thread counts by level from now on. What it has counted before is kept.
pub fn enable() {
    begin_use();
    // A thread that asks sees its own store, and no other thread counts for it.
    IN_USE.store(true, Ordering::Relaxed);
    with(|counters| counters.enabled.set(true));
}

/// The calling thread counts by level no more. What it has counted is kept, but not reported.
pub fn disable() {
    with(|counters| counters.enabled.set(false));
}

/// The calling thread counts by level no more, and forgets what it has counted.
pub fn clear() {
    disable();
    with(|counters| counters.sums.take());
}

/// True if the calling thread counts by level: it does if it has enabled that and its level is
/// [`PerfLevel::EnableCount`] or above.
#[inline]
#[must_use]
pub fn is_wanted() -> bool {
    IN_USE.load(Ordering::Relaxed) && is_wanted_by_thread()
}

/// Stands apart, as the search for what belongs to the thread is a call.
#[cold]
#[inline(never)]
fn is_wanted_by_thread() -> bool {
    is_enabled() && super::level() >= PerfLevel::EnableCount
}

fn is_enabled() -> bool {
    with(|counters| counters.enabled.get())
}

/// Adds to a counter of `level`. Nobody asks whether the thread [wants](is_wanted) that.
pub fn add(level: usize, metric: LevelMetric, count: u64) {
    with(|counters| {
        let mut sums = counters.sums.borrow_mut();
        let sum = &mut sums.entry(level).or_default()[metric as usize];
        *sum = sum.wrapping_add(count);
    });
}

/// Adds what a read has counted in tables of `level`.
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

/// A counter of the calling thread; 0 for a level in which nothing was counted.
#[must_use]
pub fn metric(level: usize, metric: LevelMetric) -> u64 {
    with(|counters| {
        let sums = counters.sums.borrow();
        sums.get(&level).map_or(0, |sums| sums[metric as usize])
    })
}

/// The levels in which the calling thread has counted something since they were cleared, from the top.
#[must_use]
pub fn levels() -> Vec<usize> {
    with(|counters| counters.sums.borrow().keys().copied().collect())
}

/// The calling thread's counters begin anew, if they are enabled.
pub(super) fn reset() {
    if is_enabled() {
        with(|counters| {
            let mut sums = counters.sums.borrow_mut();
            sums.values_mut().for_each(|sums| sums.fill(0));
        });
    }
}

/// Writes the calling thread's counters behind `text`, if they are enabled: the names all, and after each
/// the sums of all levels. Every sum ends with a comma and a blank.
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
                // Writing to a string does not fail.
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

    /// The text is that of RocksDB's `PerfContext::ToString`: names without sums stay, and nothing
    /// stands between them.
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

    /// Disabled counters keep what they have, through a reset too; cleared ones have nothing.
    #[test]
    fn counters_are_kept_until_they_are_cleared() {
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

    /// Filters of prefixes go with those of whole keys.
    #[test]
    fn what_a_read_counted_in_tables_is_told_apart() {
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
