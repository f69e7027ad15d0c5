//! Statistics of point lookups.

use cairn_observe::perf::{self, PerfMetric};
use cairn_observe::statistics::{Began, Histogram, Hit, TableCounts, Update};
use cairn_types::Result;

use crate::get::Found;
use crate::view::{Reading, View};

impl Reading {
    /// Starts the timer of a read, if timing is enabled.
    #[inline]
    pub(crate) fn began(&self) -> Began {
        Began::now(self.statistics.as_deref(), &*self.clock)
    }
}

/// Records a completed get.
#[inline]
pub(crate) fn count_get(
    view: &View,
    began: Began,
    tables: Option<&TableCounts>,
    hit: Hit,
    found: &Result<Found>,
) {
    match perf::is_in_use() {
        false => add_get(&view.family, began, tables, hit, found),
        true => count_get_in_perf(view, began, tables, hit, found),
    }
}

/// [`count_get`] with the counters of the thread, and the time that counting takes.
#[cold]
fn count_get_in_perf(
    view: &View,
    began: Began,
    tables: Option<&TableCounts>,
    hit: Hit,
    found: &Result<Found>,
) {
    let reading = &view.family;
    let started = perf::wants_times().then(|| reading.clock.monotonic_nanos());
    perf::count(|perf| {
        if let Some(tables) = tables {
            perf.add_tables(tables);
        }
        perf.add(
            PerfMetric::GetReadBytes,
            found.as_ref().ok().and_then(len_of).unwrap_or(0),
        );
        perf.add(
            PerfMetric::GetFromMemtableCount,
            searched_memtables(view, hit),
        );
    });
    add_get(reading, began, tables, hit, found);
    if let Some(started) = started {
        let nanos = reading.clock.monotonic_nanos().saturating_sub(started);
        perf::count(|perf| perf.add(PerfMetric::GetPostProcessTime, nanos));
    }
}

/// Returns the number of memtables that a get searched. Empty ones do not count, as in RocksDB. A get that ends in a
/// memtable counts one, because which memtable is not recorded.
fn searched_memtables(view: &View, hit: Hit) -> u64 {
    match hit {
        Hit::Memtable => 1,
        Hit::Level(_) | Hit::Nowhere => {
            let searched = view.memtables().filter(|memtable| !memtable.is_empty());
            searched.count() as u64
        }
    }
}

/// Adds a completed get to the statistics.
#[inline]
fn add_get(
    reading: &Reading,
    began: Began,
    tables: Option<&TableCounts>,
    hit: Hit,
    found: &Result<Found>,
) {
    let micros = began.micros(&*reading.clock);
    let update = |update: &Update<'_>| {
        if let Some(micros) = micros {
            update.time(Histogram::DbGet, micros);
        }
        match found {
            Ok(found) => update.get(tables, hit, len_of(found)),
            Err(_) => tables
                .into_iter()
                .for_each(|tables| tables.bring_to(update)),
        }
    };
    let counted = reading
        .statistics
        .as_ref()
        .is_some_and(|all| all.update(update));
    if let Some(tables) = tables.filter(|_| !counted) {
        tables.forget();
    }
}

/// Records table accesses of a read other than a get.
pub(crate) fn count_tables(reading: &Reading, tables: &TableCounts) {
    perf::count(|perf| perf.add_tables(tables));
    let update = |update: &Update<'_>| tables.bring_to(update);
    if !reading
        .statistics
        .as_ref()
        .is_some_and(|all| all.update(update))
    {
        tables.forget();
    }
}

/// The length of the value, if one was found.
#[inline]
pub(crate) fn len_of(found: &Found) -> Option<u64> {
    match found {
        Found::Missing => None,
        Found::Value(value) | Found::Entity(value) => Some(value.len() as u64),
    }
}
