//! What a benchmark prints: db_bench's line, and percentiles of the latencies.

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
    /// Nanoseconds of single operations; empty where they were not timed.
    pub latencies: Histogram<u64>,
}

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
        self.latencies
            .add(&other.latencies)
            .expect("both histograms have the same bounds");
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
        if self.bytes > 0 {
            let rate = self.bytes as f64 / f64::from(1 << 20) / elapsed;
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
    fn percentiles_are_in_microseconds() {
        let mut tally = Tally::default();
        assert_eq!(tally.percentiles(), None);
        (1..=100).for_each(|micros| tally.record(micros * 1000));
        let line = tally.percentiles().unwrap();
        assert!(line.starts_with("Percentiles: P50: 50.0"), "{line}");
    }
}
