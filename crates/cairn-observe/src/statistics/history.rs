//! What tickers grew by from time to time, as far back as some memory allows.
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

/// What tickers grew by within one stretch of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    seconds: u64,
    grown: Box<[u64]>,
}

impl Slice {
    /// When it ended, in seconds since 1970.
    #[must_use]
    pub fn seconds(&self) -> u64 {
        self.seconds
    }

    /// What a ticker grew by. Where it was set back, what it has since.
    #[must_use]
    pub fn ticker(&self, ticker: Ticker) -> u64 {
        self.grown[ticker as usize]
    }

    /// Every ticker with what it grew by.
    pub fn tickers(&self) -> impl Iterator<Item = (Ticker, u64)> + '_ {
        Ticker::ALL.iter().copied().zip(self.grown.iter().copied())
    }

    /// Bytes of memory.
    fn memory(&self) -> usize {
        size_of::<Slice>() + size_of_val(&*self.grown)
    }
}

/// Slices, by when they ended.
#[derive(Debug, Default)]
pub struct History {
    slices: BTreeMap<u64, Arc<Slice>>,
    bytes: usize,
    /// All tickers at the end of the last slice.
    last: Option<Vec<u64>>,
}

impl History {
    /// Begins the first slice, unless it has begun: all tickers are `now`.
    pub fn begin(&mut self, now: impl FnOnce() -> Vec<u64>) {
        self.last.get_or_insert_with(now);
    }

    /// Ends a slice: at `seconds` since 1970 all tickers are `now`. Slices beyond `limit` bytes go, the
    /// oldest first; this one too, if it is larger than that alone.
    pub fn push(&mut self, seconds: u64, now: Vec<u64>, limit: usize) {
        if let Some(last) = &self.last {
            let grown = |(now, last): (&u64, &u64)| now.checked_sub(*last).unwrap_or(*now);
            let slice = Slice {
                seconds,
                grown: now.iter().zip(last).map(grown).collect(),
            };
            self.bytes += slice.memory();
            // A clock that was set back may come to the same second again: the newer one counts.
            let before = self.slices.insert(seconds, Arc::new(slice));
            self.bytes -= before.map_or(0, |before| before.memory());
        }
        self.last = Some(now);
        while self.bytes > limit
            && let Some((_, oldest)) = self.slices.pop_first()
        {
            self.bytes -= oldest.memory();
        }
    }

    /// The slices that ended at `from` or later and before `to`, the oldest first.
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
    fn a_slice_holds_what_tickers_grew_by() {
        let mut history = History::default();
        for (seconds, value) in [(10, 5), (20, 7), (30, 7), (40, 3)] {
            history.push(seconds, all(value), usize::MAX);
        }
        let grown = |from, to| -> Vec<(u64, u64)> {
            let slices = history.between(from, to);
            let read = |slice: &Arc<Slice>| (slice.seconds(), slice.ticker(Ticker::BytesRead));
            slices.iter().map(read).collect()
        };
        // At 40 somebody had set the ticker back.
        assert_eq!(grown(0, 100), [(20, 2), (30, 0), (40, 3)]);
        assert_eq!(grown(20, 40), [(20, 2), (30, 0)]);
        assert!(grown(40, 20).is_empty());
        let slice = &history.between(20, 21)[0];
        assert!(slice.tickers().all(|(_, grown)| grown == 2));
    }

    #[test]
    fn the_oldest_slices_go_when_memory_ends() {
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
        assert_eq!(history.bytes, 3 * of_one, "one second is there once");
        history.push(10, all(13), of_one - 1);
        assert!(kept(&history).is_empty());
        assert_eq!(history.bytes, 0);
    }
}
