//! The history of tickers: their growth per period, within a memory limit.
//!
//! ```
//! use cairn_observe::statistics::history::History;
//! use cairn_observe::statistics::{Statistics, StatsLevel, Ticker};
//!
//! let statistics = Statistics::new(StatsLevel::All);
//! let mut history = History::default();
//! history.begin(|| statistics.tickers());
//! statistics.add(Ticker::BytesRead, 7);
//! history.push(200, statistics.tickers(), 1 << 20);
//! let slices = history.between(0, 300);
//! assert_eq!(slices.len(), 1);
//! assert_eq!((slices[0].seconds(), slices[0].ticker(Ticker::BytesRead)), (200, 7));
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Ticker;

/// The growth of the tickers in one period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    seconds: u64,
    grown: Box<[u64]>,
}

impl Slice {
    /// Creates a slice that ends at `seconds` since 1970, in which the tickers have `grown`, and others have not.
    #[must_use]
    pub fn new(seconds: u64, grown: impl IntoIterator<Item = (Ticker, u64)>) -> Slice {
        let mut all = vec![0; Ticker::COUNT];
        for (ticker, grown) in grown {
            all[ticker as usize] = grown;
        }
        Slice {
            seconds,
            grown: all.into(),
        }
    }

    /// The end of the period, in seconds since 1970.
    #[must_use]
    pub fn seconds(&self) -> u64 {
        self.seconds
    }

    /// The growth of a ticker; its value if it was reset in the period.
    #[must_use]
    pub fn ticker(&self, ticker: Ticker) -> u64 {
        self.grown[ticker as usize]
    }

    /// The growth of every ticker.
    pub fn tickers(&self) -> impl Iterator<Item = (Ticker, u64)> + '_ {
        Ticker::ALL.iter().copied().zip(self.grown.iter().copied())
    }

    /// The memory used, in bytes.
    fn memory(&self) -> usize {
        size_of::<Slice>() + size_of_val(&*self.grown)
    }
}

/// Slices by end time.
#[derive(Debug, Default)]
pub struct History {
    slices: BTreeMap<u64, Arc<Slice>>,
    bytes: usize,
    /// The tickers at the end of the last slice.
    last: Option<Vec<u64>>,
}

impl History {
    /// Starts the first slice unless it has been started. `now` returns the current tickers.
    pub fn begin(&mut self, now: impl FnOnce() -> Vec<u64>) {
        self.last.get_or_insert_with(now);
    }

    /// Ends a slice at `seconds` since 1970, with the current tickers `now`, and returns it without keeping it. Returns
    /// `None` for the first call unless the first slice has been started.
    pub fn take(&mut self, seconds: u64, now: Vec<u64>) -> Option<Slice> {
        let grown = |(now, last): (&u64, &u64)| now.checked_sub(*last).unwrap_or(*now);
        let last = self.last.as_ref();
        let slice = last.map(|last| Slice {
            seconds,
            grown: now.iter().zip(last).map(grown).collect(),
        });
        self.last = Some(now);
        slice
    }

    /// [`History::take`], and keeps the slice. The oldest slices beyond `limit` bytes are dropped, including this one if
    /// it alone exceeds the limit.
    pub fn push(&mut self, seconds: u64, now: Vec<u64>, limit: usize) {
        if let Some(slice) = self.take(seconds, now) {
            self.bytes += slice.memory();
            // If the clock was set back, the same second may occur again. The newer slice replaces the older.
            let before = self.slices.insert(seconds, Arc::new(slice));
            self.bytes -= before.map_or(0, |before| before.memory());
        }
        while self.bytes > limit
            && let Some((_, oldest)) = self.slices.pop_first()
        {
            self.bytes -= oldest.memory();
        }
    }

    /// The slices that ended at or after `from` and before `to`, oldest first.
    #[must_use]
    pub fn between(&self, from: u64, to: u64) -> Vec<Arc<Slice>> {
        match from < to {
            true => self
                .slices
                .range(from..to)
                .map(|(_, slice)| slice.clone())
                .collect(),
            false => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(value: u64) -> Vec<u64> {
        vec![value; Ticker::COUNT]
    }

    #[test]
    fn slices_have_the_growth_of_tickers() {
        let mut history = History::default();
        for (seconds, value) in [(10, 5), (20, 7), (30, 7), (40, 3)] {
            history.push(seconds, all(value), usize::MAX);
        }
        let grown = |from, to| -> Vec<(u64, u64)> {
            let slices = history.between(from, to);
            let read = |slice: &Arc<Slice>| (slice.seconds(), slice.ticker(Ticker::BytesRead));
            slices.iter().map(read).collect()
        };
        // The ticker was reset before second 40.
        assert_eq!(grown(0, 100), [(20, 2), (30, 0), (40, 3)]);
        assert_eq!(grown(20, 40), [(20, 2), (30, 0)]);
        assert!(grown(40, 20).is_empty());
        let slice = &history.between(20, 21)[0];
        assert!(slice.tickers().all(|(_, grown)| grown == 2));
    }

    #[test]
    fn the_oldest_slices_are_dropped_beyond_the_limit() {
        let mut history = History::default();
        let of_one = size_of::<Slice>() + 8 * Ticker::COUNT;
        for seconds in 0..10 {
            history.push(seconds, all(seconds), 3 * of_one);
        }
        let kept = |history: &History| -> Vec<u64> {
            history
                .between(0, 100)
                .iter()
                .map(|slice| slice.seconds())
                .collect()
        };
        assert_eq!(kept(&history), [7, 8, 9]);
        assert_eq!(history.bytes, 3 * of_one);
        history.push(9, all(12), 3 * of_one);
        assert_eq!(history.bytes, 3 * of_one, "a second occurs only once");
        history.push(10, all(13), of_one - 1);
        assert!(kept(&history).is_empty());
        assert_eq!(history.bytes, 0);
    }
}
