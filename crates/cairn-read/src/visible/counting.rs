//! What statistics hear of an iterator: at each seek, and when it is dropped, what it did since.

use cairn_observe::statistics::{Histogram, Ticker, Update};

use super::DbIter;
use crate::counting::Began;

/// What an iterator did since it last brought that in.
#[derive(Default)]
pub(super) struct IterCounts {
    pub next: u64,
    pub next_found: u64,
    pub prev: u64,
    pub prev_found: u64,
    /// Bytes of the keys and values that it stood on.
    pub bytes: u64,
    /// Hidden entries passed over one by one.
    pub skipped: u64,
    /// Seeks past hidden entries.
    pub reseeks: u64,
}

impl IterCounts {
    fn bring_to(&mut self, update: &Update<'_>) {
        let counts = std::mem::take(self);
        for (ticker, count) in [
            (Ticker::NumberDbNext, counts.next),
            (Ticker::NumberDbNextFound, counts.next_found),
            (Ticker::NumberDbPrev, counts.prev),
            (Ticker::NumberDbPrevFound, counts.prev_found),
            (Ticker::IterBytesRead, counts.bytes),
            (Ticker::NumberIterSkip, counts.skipped),
            (Ticker::NumberOfReseeksInIteration, counts.reseeks),
        ] {
            update.add(ticker, count);
        }
    }
}

impl DbIter {
    /// Bytes of the key and value that the iterator stands on.
    #[inline]
    pub(super) fn entry_len(&self) -> u64 {
        (self.key().len() + self.value().len()) as u64
    }

    /// A seek of the user's has ended.
    pub(super) fn count_seek(&mut self, began: Began) {
        let found = self.valid();
        if found {
            self.counts.bytes += self.entry_len();
        }
        let reading = &self.view.family;
        let Some(statistics) = &reading.statistics else {
            return;
        };
        let micros = began.elapsed(reading);
        let counts = &mut self.counts;
        statistics.update(|update| {
            counts.bring_to(update);
            update.add(Ticker::NumberDbSeek, 1);
            update.add(Ticker::NumberDbSeekFound, u64::from(found));
            if let Some(micros) = micros {
                update.time(Histogram::DbSeek, micros);
            }
        });
    }
}

impl Drop for DbIter {
    fn drop(&mut self) {
        if let Some(statistics) = &self.view.family.statistics {
            let counts = &mut self.counts;
            statistics.update(|update| {
                counts.bring_to(update);
                update.add(Ticker::NoIteratorDeleted, 1);
            });
        }
    }
}
