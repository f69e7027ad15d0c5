//! Statistics of iterators, collected locally and added at each seek and when the iterator is
//! dropped.

use cairn_observe::perf::{self, PerfMetric};
use cairn_observe::statistics::{Began, Histogram, Ticker, Update};

use super::{DbIter, Part, Position};

/// Counts since they were last added to the statistics.
#[derive(Default)]
pub(super) struct IterCounts {
    pub next: u64,
    pub next_found: u64,
    pub prev: u64,
    pub prev_found: u64,
    /// Bytes of the keys and values returned.
    pub bytes: u64,
    /// Hidden entries skipped.
    pub skipped: u64,
    /// Skipped deletions.
    pub deletions: u64,
    /// Skipped entries that are newer than the read.
    pub recent: u64,
    /// Entries visited by backward iteration, including those returned.
    pub back: u64,
    /// Skipped entries among them: all but one for each key returned.
    pub back_skipped: u64,
    /// Deletions among them.
    pub back_deletions: u64,
    /// Seeks past hidden entries.
    pub reseeks: u64,
}

impl IterCounts {
    fn add_to_perf(&self, perf: &perf::PerfContext) {
        let hidden = self.skipped.saturating_sub(self.deletions + self.recent);
        // RocksDB's definition of a skipped key includes the entry that `next` leaves and every
        // entry visited backward.
        let entries = hidden + self.next + self.back;
        for (metric, count) in [
            (PerfMetric::IterNextCount, self.next),
            (PerfMetric::IterPrevCount, self.prev),
            (PerfMetric::IterReadBytes, self.bytes),
            (PerfMetric::InternalKeySkippedCount, entries),
            (
                PerfMetric::InternalDeleteSkippedCount,
                self.deletions + self.back_deletions,
            ),
            (PerfMetric::InternalRecentSkippedCount, self.recent),
        ] {
            perf.add(metric, count);
        }
    }

    fn bring_to(&mut self, update: &Update<'_>) {
        let counts = std::mem::take(self);
        for (ticker, count) in [
            (Ticker::NumberDbNext, counts.next),
            (Ticker::NumberDbNextFound, counts.next_found),
            (Ticker::NumberDbPrev, counts.prev),
            (Ticker::NumberDbPrevFound, counts.prev_found),
            (Ticker::IterBytesRead, counts.bytes),
            (Ticker::NumberIterSkip, counts.skipped + counts.back_skipped),
            (Ticker::NumberOfReseeksInIteration, counts.reseeks),
        ] {
            update.add(ticker, count);
        }
    }
}

impl DbIter {
    /// Bytes of the current key and value.
    #[inline]
    fn entry_len(&self) -> u64 {
        let value_len = match &self.position {
            Position::Entry(Part::All) => self.merging.head().1,
            _ => self.value().len(),
        };
        (self.key().len() + value_len) as u64
    }

    /// Starts the measurement of a seek to the first or last key. Only one to a bound is timed, as in RocksDB.
    pub(super) fn began_at_end(&self, is_bounded: bool) -> Began {
        let reading = &self.view.family;
        let statistics = reading.statistics.as_deref().filter(|_| is_bounded);
        Began::now(statistics, &*reading.clock)
    }

    /// Records a completed seek.
    pub(super) fn count_seek(&mut self, began: Began) {
        self.update_fast_ranges();
        let found = self.valid();
        if found {
            self.counters.counts.bytes += self.entry_len();
        }
        let reading = &self.view.family;
        perf::count(|perf| {
            self.counters.counts.add_to_perf(perf);
            perf.add(PerfMetric::IterSeekCount, 1);
        });
        let Some(statistics) = &reading.statistics else {
            self.counters.counts = IterCounts::default();
            return;
        };
        let micros = began.micros(&*reading.clock);
        let counted = statistics.update(|update| {
            self.counters.counts.bring_to(update);
            update.add(Ticker::NumberDbSeek, 1);
            update.add(Ticker::NumberDbSeekFound, u64::from(found));
            if let Some(micros) = micros {
                update.time(Histogram::DbSeek, micros);
            }
        });
        if !counted {
            self.counters.counts = IterCounts::default();
        }
    }
}

impl DbIter {
    /// Records a completed fast step to an entry of `bytes` bytes.
    #[inline(always)]
    pub(super) fn count_fast_step(&mut self, back: bool, bytes: u64) {
        if !self.settings.has_statistics && !perf::is_in_use() {
            return;
        }
        let counts = &mut self.counters.counts;
        let (steps, steps_found) = match back {
            false => (&mut counts.next, &mut counts.next_found),
            true => (&mut counts.prev, &mut counts.prev_found),
        };
        *steps += 1;
        *steps_found += 1;
        counts.back += u64::from(back);
        counts.bytes += bytes;
        if perf::is_in_use() {
            self.flush_counts();
        }
    }

    /// Records a completed step: in the perf context at once, in the statistics later.
    #[inline]
    pub(super) fn count_step(&mut self, back: bool) {
        if !self.settings.has_statistics && !perf::is_in_use() {
            return;
        }
        let found = u64::from(self.valid());
        let bytes = if found > 0 { self.entry_len() } else { 0 };
        let counts = &mut self.counters.counts;
        let (steps, steps_found) = match back {
            false => (&mut counts.next, &mut counts.next_found),
            true => (&mut counts.prev, &mut counts.prev_found),
        };
        *steps += 1;
        *steps_found += found;
        counts.bytes += bytes;
        if perf::is_in_use() {
            self.flush_counts();
        }
    }

    /// Records the end of the iterator.
    pub(super) fn count_end(&mut self) {
        if let Some(statistics) = &self.view.family.statistics {
            statistics.update(|update| {
                self.counters.counts.bring_to(update);
                update.add(Ticker::NoIteratorDeleted, 1);
            });
        }
    }

    #[cold]
    fn flush_counts(&mut self) {
        perf::count(|perf| self.counters.counts.add_to_perf(perf));
        let statistics = self.view.family.statistics.as_ref();
        if !statistics.is_some_and(|all| all.update(|update| self.counters.counts.bring_to(update)))
        {
            self.counters.counts = IterCounts::default();
        }
    }
}
