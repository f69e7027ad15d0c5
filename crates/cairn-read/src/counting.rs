//! What statistics hear of point reads.

use cairn_observe::perf::{self, PerfMetric};
use cairn_observe::statistics::{Histogram, TableCounts, Ticker, Update};
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

/// When a read began, if that is asked for: nanoseconds.
#[derive(Clone, Copy)]
pub(crate) struct Began(Option<u64>);

impl Began {
    #[inline]
    pub(crate) fn now(reading: &Reading) -> Began {
        let wanted = reading.statistics.as_ref().is_some_and(|s| s.wants_times());
        Began(wanted.then(|| reading.clock.monotonic_nanos()))
    }

    /// The microseconds since.
    #[inline]
    pub(crate) fn elapsed(self, reading: &Reading) -> Option<u64> {
        let began = self.0?;
        let now = reading.clock.monotonic_nanos();
        Some(now.saturating_sub(began) / 1_000)
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
    let Some(statistics) = &reading.statistics else {
        if let Some(tables) = tables {
            tables.forget();
        }
        return;
    };
    let micros = began.elapsed(reading);
    statistics.update(|update| {
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
    });
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
