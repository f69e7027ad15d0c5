//! What the threads of a benchmark count: operations, bytes, latencies, and the course of time.
//!
//! [`Tally::line`] and [`Tally::percentiles`] are what db_bench prints.

use hdrhistogram::Histogram;

/// What one thread of a benchmark has done.
#[derive(Debug)]
pub struct Tally {
    /// Operations.
    pub done: u64,
    /// Bytes of keys and values that went through.
    pub bytes: u64,
    /// Keys that were found.
    pub found: u64,
    /// Keys that were looked for.
    pub looked: u64,
    /// Nanoseconds from first to last operation.
    pub nanos: u64,
    /// Bytes of keys and values that were handed to the engine to be written.
    pub written: u64,
    /// Nanoseconds of single operations; empty where they were not timed.
    pub latencies: Histogram<u64>,
    /// What was done when; empty where nothing was timed.
    pub course: Course,
}

/// Nanoseconds of a slot of a [`Course`].
pub const SLOT_NANOS: u64 = 100_000_000;

/// What was done in each tenth of a second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// The slots that are over and the one that is not.
    pub slots: Vec<Slot>,
}

/// A tenth of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Operations that ended in it.
    pub done: u64,
    /// Nanoseconds of the longest of them.
    pub longest: u64,
}

impl Course {
    /// Notes `count` operations that took `nanos` and ended `at` nanoseconds after the begin.
    #[inline]
    pub fn note(&mut self, at: u64, count: u64, nanos: u64) {
        let place = (at / SLOT_NANOS) as usize;
        if place >= self.slots.len() {
            self.slots.resize(place + 1, Slot::default());
        }
        let slot = &mut self.slots[place];
        slot.done += count;
        slot.longest = slot.longest.max(nanos);
    }

    /// Adds what another thread did at the same time.
    pub fn add(&mut self, other: &Course) {
        if other.slots.len() > self.slots.len() {
            self.slots.resize(other.slots.len(), Slot::default());
        }
        for (slot, other) in self.slots.iter_mut().zip(&other.slots) {
            slot.done += other.done;
            slot.longest = slot.longest.max(other.longest);
        }
    }
}

/// The quantiles that are kept of latencies.
pub const QUANTILES: [f64; 16] = [
    0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99995, 0.99999,
    0.999_999, 1.0,
];

/// Longest latency that is told from longer ones: ten minutes.
const LONGEST_NANOS: u64 = 600_000_000_000;

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            done: 0,
            bytes: 0,
            found: 0,
            looked: 0,
            nanos: 0,
            written: 0,
            course: Course::default(),
            latencies: Histogram::new_with_max(LONGEST_NANOS, 3)
                .expect("three digits of ten minutes fit a histogram"),
        }
    }
}

impl Tally {
    /// Notes an operation that took `nanos`.
    #[inline]
    pub fn record(&mut self, nanos: u64) {
        self.latencies.saturating_record(nanos);
    }

    /// Adds what another thread has done.
    pub fn add(&mut self, other: &Tally) {
        self.done += other.done;
        self.bytes += other.bytes;
        self.found += other.found;
        self.looked += other.looked;
        self.nanos += other.nanos;
        self.written += other.written;
        self.course.add(&other.course);
        self.latencies
            .add(&other.latencies)
            .expect("both histograms have the same bounds");
    }

    /// Nanoseconds at each of [`QUANTILES`]; nothing if no operation was timed.
    #[must_use]
    pub fn quantiles(&self) -> Vec<u64> {
        if self.latencies.is_empty() {
            return Vec::new();
        }
        let at = |quantile: f64| self.latencies.value_at_quantile(quantile);
        QUANTILES.into_iter().map(at).collect()
    }

    /// db_bench's line for the benchmark `name`, which took `elapsed_nanos` in all threads
    /// together.
    #[must_use]
    pub fn line(&self, name: &str, elapsed_nanos: u64) -> String {
        let done = self.done.max(1);
        let elapsed = (elapsed_nanos.max(1)) as f64 / 1e9;
        let micros = self.nanos as f64 / 1e3 / done as f64;
        let rate = done as f64 / elapsed;
        let mut line = format!(
            "{name:<12} : {micros:11.3} micros/op {rate:.0} ops/sec {elapsed:.3} seconds {done} operations;",
        );
        if self.bytes + self.written > 0 {
            let rate = (self.bytes + self.written) as f64 / f64::from(1 << 20) / elapsed;
            line.push_str(&format!(" {rate:6.1} MB/s"));
        }
        if self.looked > 0 {
            line.push_str(&format!(" ({} of {} found)", self.found, self.looked));
        }
        line
    }

    /// Percentiles in microseconds, or `None` if nothing was timed.
    #[must_use]
    pub fn percentiles(&self) -> Option<String> {
        if self.latencies.is_empty() {
            return None;
        }
        let micros = |nanos: u64| nanos as f64 / 1e3;
        let mut line = "Percentiles:".to_owned();
        for percent in [50.0, 75.0, 99.0, 99.9, 99.99] {
            let value = micros(self.latencies.value_at_quantile(percent / 100.0));
            line.push_str(&format!(" P{percent}: {value:.2}"));
        }
        line.push_str(&format!(
            " Max: {:.2} (micros)",
            micros(self.latencies.max())
        ));
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_db_benchs() {
        let tally = Tally {
            done: 2_000_000,
            bytes: 232_000_000,
            nanos: 6_420_000_000,
            ..Tally::default()
        };
        assert_eq!(
            tally.line("fillseq", 6_420_000_000),
            "fillseq      :       3.210 micros/op 311526 ops/sec 6.420 seconds 2000000 operations;   34.5 MB/s"
        );
        let tally = Tally {
            done: 10,
            looked: 10,
            found: 7,
            nanos: 10,
            ..Tally::default()
        };
        assert!(tally.line("x", 10).ends_with("operations; (7 of 10 found)"));
    }

    #[test]
    fn a_stop_is_seen_in_the_course() {
        let mut course = Course::default();
        course.note(5, 1, 5);
        course.note(SLOT_NANOS * 3 + 1, 2, SLOT_NANOS * 3);
        let mut other = Course::default();
        other.note(7, 4, 70);
        other.add(&course);
        let slot = |done, longest| Slot { done, longest };
        let stop = [slot(5, 70), slot(0, 0), slot(0, 0), slot(2, SLOT_NANOS * 3)];
        assert_eq!(other.slots, stop);
    }

    #[test]
    fn percentiles_are_in_microseconds() {
        let mut tally = Tally::default();
        assert_eq!(tally.percentiles(), None);
        (1..=100).for_each(|micros| tally.record(micros * 1000));
        let line = tally.percentiles().unwrap();
        assert!(line.starts_with("Percentiles: P50: 50.0"), "{line}");
        let quantiles = tally.quantiles();
        assert_eq!(quantiles.len(), QUANTILES.len());
        assert!((99_000..99_200).contains(&quantiles[7]), "{quantiles:?}");
    }
}
