//! Statistics of benchmark threads: operations, bytes, latencies, and throughput over time.
//!
//! [`BenchStats::line`] and [`BenchStats::percentiles`] format them as db_bench does.

use hdrhistogram::Histogram;

/// Statistics of one benchmark thread.
#[derive(Debug)]
pub struct BenchStats {
    /// Number of operations.
    pub done: u64,
    /// Bytes of keys and values read.
    pub bytes: u64,
    /// Keys found.
    pub found: u64,
    /// Keys looked up.
    pub looked: u64,
    /// Time from the first to the last operation, in nanoseconds.
    pub nanos: u64,
    /// Bytes of keys and values passed to the engine for writing.
    pub written: u64,
    /// Bytes that a thread wrote whose operations are not counted.
    pub written_beside: u64,
    /// Latencies of single operations in nanoseconds; empty if they were not timed.
    pub latencies: Histogram<u64>,
    /// Throughput over time; empty if nothing was timed.
    pub course: Timeline,
}

/// Length of a slot of a [`Timeline`], in nanoseconds.
pub const SLOT_NANOS: u64 = 100_000_000;

/// Operations in each tenth of a second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// The slots, including the current one.
    pub slots: Vec<Slot>,
}

/// One slot of a tenth of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Operations that ended in it.
    pub done: u64,
    /// The longest of them, in nanoseconds.
    pub longest: u64,
}

impl Timeline {
    /// Records `count` operations that took `nanos` and ended `at` nanoseconds after the start.
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

    /// Adds the timeline of a concurrent thread.
    pub fn add(&mut self, other: &Timeline) {
        if other.slots.len() > self.slots.len() {
            self.slots.resize(other.slots.len(), Slot::default());
        }
        for (slot, other) in self.slots.iter_mut().zip(&other.slots) {
            slot.done += other.done;
            slot.longest = slot.longest.max(other.longest);
        }
    }
}

/// The recorded latency quantiles.
pub const QUANTILES: [f64; 16] = [
    0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99995, 0.99999,
    0.999_999, 1.0,
];

/// Significant decimal digits of recorded latencies.
const DIGITS: u8 = 3;

impl Default for BenchStats {
    fn default() -> BenchStats {
        BenchStats {
            done: 0,
            bytes: 0,
            found: 0,
            looked: 0,
            nanos: 0,
            written: 0,
            written_beside: 0,
            course: Timeline::default(),
            // It grows as latencies are recorded: one for ten minutes takes 250 kB in each thread.
            latencies: Histogram::new(DIGITS).expect("a histogram may have three digits"),
        }
    }
}

impl BenchStats {
    /// Records an operation that took `nanos`.
    #[inline]
    pub fn record(&mut self, nanos: u64) {
        self.latencies
            .record(nanos)
            .expect("a histogram grows as needed");
    }

    /// Adds the statistics of another thread.
    pub fn add(&mut self, other: &BenchStats) {
        self.done += other.done;
        self.bytes += other.bytes;
        self.found += other.found;
        self.looked += other.looked;
        self.nanos += other.nanos;
        self.written += other.written;
        self.written_beside += other.written_beside;
        self.course.add(&other.course);
        self.latencies
            .add(&other.latencies)
            .expect("a histogram grows as needed");
    }

    /// Returns the latency at each of [`QUANTILES`] in nanoseconds; empty if no operation was timed.
    #[must_use]
    pub fn quantiles(&self) -> Vec<u64> {
        if self.latencies.is_empty() {
            return Vec::new();
        }
        let at = |quantile: f64| self.latencies.value_at_quantile(quantile);
        QUANTILES.into_iter().map(at).collect()
    }

    /// Returns db_bench's line for benchmark `name`, which took `elapsed_nanos` in total.
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

    /// Returns percentiles in microseconds, or `None` if nothing was timed.
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
    use crate::measurement::Measurement;

    #[test]
    fn the_line_has_the_form_of_db_bench() {
        let tally = BenchStats {
            done: 2_000_000,
            bytes: 232_000_000,
            nanos: 6_420_000_000,
            ..BenchStats::default()
        };
        assert_eq!(
            tally.line("fillseq", 6_420_000_000),
            "fillseq      :       3.210 micros/op 311526 ops/sec 6.420 seconds 2000000 operations;   34.5 MB/s"
        );
        let tally = BenchStats {
            done: 10,
            looked: 10,
            found: 7,
            nanos: 10,
            ..BenchStats::default()
        };
        assert!(tally.line("x", 10).ends_with("operations; (7 of 10 found)"));
    }

    /// Regression: the bytes of the writer beside readers were part of their throughput.
    #[test]
    fn bytes_of_a_writer_that_is_not_counted_are_no_throughput() {
        let stats = BenchStats {
            done: 10,
            bytes: 5 << 20,
            written_beside: 50 << 20,
            ..BenchStats::default()
        };
        let line = stats.line("readwhilewriting", 1_000_000_000);
        assert!(line.ends_with("   5.0 MB/s"), "{line}");
        let measured = Measurement::of("readwhilewriting", &stats, 1);
        assert_eq!((measured.bytes, measured.written), (5 << 20, 50 << 20));
    }

    #[test]
    fn a_stall_is_visible_in_the_timeline() {
        let mut course = Timeline::default();
        course.note(5, 1, 5);
        course.note(SLOT_NANOS * 3 + 1, 2, SLOT_NANOS * 3);
        let mut other = Timeline::default();
        other.note(7, 4, 70);
        other.add(&course);
        let slot = |done, longest| Slot { done, longest };
        let stop = [slot(5, 70), slot(0, 0), slot(0, 0), slot(2, SLOT_NANOS * 3)];
        assert_eq!(other.slots, stop);
    }

    #[test]
    fn percentiles_are_in_microseconds() {
        let mut tally = BenchStats::default();
        assert_eq!(tally.percentiles(), None);
        (1..=100).for_each(|micros| tally.record(micros * 1000));
        let line = tally.percentiles().unwrap();
        assert!(line.starts_with("Percentiles: P50: 50.0"), "{line}");
        let quantiles = tally.quantiles();
        assert_eq!(quantiles.len(), QUANTILES.len());
        assert!((99_000..99_200).contains(&quantiles[7]), "{quantiles:?}");
    }
}
