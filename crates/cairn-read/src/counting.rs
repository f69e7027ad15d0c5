//! What statistics hear of point reads.

use cairn_observe::perf::{self, PerfMetric};
use cairn_observe::statistics::{Began, Histogram, TableCounts, Ticker, Update};
use cairn_types::Result;

use crate::get::Found;
use crate::view::Reading;

/// Where the search for a key ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hit {
    /// In a memtable.
    Memtable,
    /// In a table of this level.
    Level(usize),
    /// Nowhere.
    Nowhere,
}

impl Reading {
    /// Begins to measure a read, if that is asked for.
    #[inline]
    pub(crate) fn began(&self) -> Began {
        Began::now(self.statistics.as_deref(), &*self.clock)
    }
}

/// A get has ended.
#[inline]
pub(crate) fn count_get(
    reading: &Reading,
    began: Began,
    tables: Option<&TableCounts>,
    hit: Hit,
    found: &Result<Found>,
) {
    perf::count(|perf| {
        if let Some(tables) = tables {
            perf.add_tables(tables);
        }
        perf.add(PerfMetric::GetReadBytes, found.as_ref().map_or(0, len_of));
        perf.add(PerfMetric::GetFromMemtableCount, 1);
    });
    let micros = began.micros(&*reading.clock);
    let update = |update: &Update<'_>| {
        if let Some(tables) = tables {
            tables.bring_to(update);
        }
        if let Some(micros) = micros {
            update.time(Histogram::DbGet, micros);
        }
        let Ok(found) = found else { return };
        count_hit(update, hit, found);
        update.add(Ticker::NumberKeysRead, 1);
        let bytes = len_of(found);
        update.add(Ticker::BytesRead, bytes);
        update.record(Histogram::BytesPerRead, bytes);
    };
    let counted = reading
        .statistics
        .as_ref()
        .is_some_and(|all| all.update(update));
    if let Some(tables) = tables.filter(|_| !counted) {
        tables.forget();
    }
}

/// A read that is no get has looked into tables.
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

/// The search for one key has ended.
#[inline]
pub(crate) fn count_hit(update: &Update<'_>, hit: Hit, found: &Found) {
    let in_memory = match hit {
        Hit::Memtable => Ticker::MemtableHit,
        _ => Ticker::MemtableMiss,
    };
    update.add(in_memory, 1);
    if let (Hit::Level(level), Found::Value(_) | Found::Entity(_)) = (hit, found) {
        let ticker = match level {
            0 => Ticker::GetHitL0,
            1 => Ticker::GetHitL1,
            _ => Ticker::GetHitL2AndUp,
        };
        update.add(ticker, 1);
    }
}

/// Bytes of what was found.
#[inline]
pub(crate) fn len_of(found: &Found) -> u64 {
    match found {
        Found::Missing => 0,
        Found::Value(value) | Found::Entity(value) => value.len() as u64,
    }
}
