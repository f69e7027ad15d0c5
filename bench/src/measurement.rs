//! The measured costs of one benchmark run in one engine, and their JSON form.

use serde_json::{Value, json};

use crate::bench_stats::{BenchStats, Slot, Timeline};
use crate::db_dir::Space;
use crate::memory_record::MemoryRecord;
use crate::resource_usage::Usage;

/// The costs of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measurement {
    /// The benchmark.
    pub name: String,
    /// Number of operations.
    pub done: u64,
    /// Elapsed wall time, in nanoseconds.
    pub elapsed_nanos: u64,
    /// Total time of all threads from first to last operation, in nanoseconds.
    pub thread_nanos: u64,
    /// Bytes of keys and values read.
    pub bytes: u64,
    /// Bytes of keys and values written, including those of a writer whose operations are not counted.
    pub written: u64,
    /// Keys looked up.
    pub looked: u64,
    /// Keys found.
    pub found: u64,
    /// Resources used by the process, including background work.
    pub usage: Usage,
    /// Peak resident memory, in bytes.
    pub peak_memory: u64,
    /// Space used by the directory afterwards.
    pub space: Space,
    /// Latencies at [`crate::bench_stats::QUANTILES`], in nanoseconds.
    pub quantiles: Vec<u64>,
    /// Throughput over time.
    pub course: Timeline,
    /// Figures specific to this benchmark, such as the duration of a phase.
    pub figures: Vec<(String, f64)>,
    /// The memory of the database, for reports in files.
    pub memory: Option<MemoryRecord>,
}

impl Measurement {
    /// Creates the measurement from `stats`.
    #[must_use]
    pub fn of(name: &str, stats: &BenchStats, elapsed_nanos: u64) -> Measurement {
        Measurement {
            name: name.to_owned(),
            done: stats.done,
            elapsed_nanos,
            thread_nanos: stats.nanos,
            bytes: stats.bytes,
            written: stats.written + stats.written_beside,
            looked: stats.looked,
            found: stats.found,
            quantiles: stats.quantiles(),
            course: stats.course.clone(),
            ..Measurement::default()
        }
    }

    /// Returns the wall time per operation, in nanoseconds.
    #[must_use]
    pub fn clock(&self) -> f64 {
        self.elapsed_nanos as f64 / self.done.max(1) as f64
    }

    /// Returns the CPU time per operation, in nanoseconds.
    #[must_use]
    pub fn cpu(&self) -> f64 {
        self.usage.cpu_nanos as f64 / self.done.max(1) as f64
    }

    /// Returns operations per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.done as f64 * 1e9 / self.elapsed_nanos.max(1) as f64
    }

    /// Returns the write amplification, if enough was written to compute it.
    #[must_use]
    pub fn amplification(&self) -> Option<f64> {
        (self.written >= 1 << 20).then(|| self.usage.written() as f64 / self.written as f64)
    }

    /// Converts to JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let done: Vec<u64> = self.course.slots.iter().map(|slot| slot.done).collect();
        let longest: Vec<u64> = self.course.slots.iter().map(|slot| slot.longest).collect();
        json!({
            "benchmark": self.name,
            "operations": self.done,
            "elapsed_nanos": self.elapsed_nanos,
            "thread_nanos": self.thread_nanos,
            "bytes": self.bytes,
            "user_bytes_written": self.written,
            "looked_for": self.looked,
            "found": self.found,
            "cpu_nanos": self.usage.cpu_nanos,
            "device_bytes_read": self.usage.device_read,
            "device_bytes_written": self.usage.device_written,
            "call_bytes_read": self.usage.calls_read,
            "call_bytes_written": self.usage.calls_written,
            "read_calls": self.usage.read_calls,
            "peak_memory_bytes": self.peak_memory,
            "table_bytes": self.space.tables,
            "disk_bytes": self.space.occupied,
            "quantile_nanos": self.quantiles,
            "tenths_done": done,
            "tenths_longest_nanos": longest,
            "figures": self.figures.iter().map(|(name, value)| json!([name, value])).collect::<Vec<_>>(),
            "memory": self.memory.as_ref().map(MemoryRecord::to_json),
        })
    }

    /// Parses the result of [`Measurement::to_json`]; `None` if a field is missing.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Measurement> {
        let number = |name: &str| value.get(name)?.as_u64();
        let numbers = |name: &str| -> Option<Vec<u64>> {
            let list = value.get(name)?.as_array()?;
            list.iter().map(Value::as_u64).collect()
        };
        let slots = numbers("tenths_done")?.into_iter();
        let slots = slots.zip(numbers("tenths_longest_nanos")?);
        let figures = value.get("figures")?.as_array()?.iter();
        let figure =
            |pair: &Value| Some((pair.get(0)?.as_str()?.to_owned(), pair.get(1)?.as_f64()?));
        Some(Measurement {
            name: value.get("benchmark")?.as_str()?.to_owned(),
            done: number("operations")?,
            elapsed_nanos: number("elapsed_nanos")?,
            thread_nanos: number("thread_nanos")?,
            bytes: number("bytes")?,
            written: number("user_bytes_written")?,
            looked: number("looked_for")?,
            found: number("found")?,
            usage: Usage {
                cpu_nanos: number("cpu_nanos")?,
                device_read: number("device_bytes_read")?,
                device_written: number("device_bytes_written")?,
                calls_read: number("call_bytes_read")?,
                calls_written: number("call_bytes_written")?,
                read_calls: number("read_calls")?,
            },
            peak_memory: number("peak_memory_bytes")?,
            space: Space {
                tables: number("table_bytes")?,
                occupied: number("disk_bytes")?,
            },
            quantiles: numbers("quantile_nanos")?,
            course: Timeline {
                slots: slots
                    .map(|(done, longest)| Slot { done, longest })
                    .collect(),
            },
            figures: figures.map(figure).collect::<Option<_>>()?,
            memory: match value.get("memory")? {
                Value::Null => None,
                memory => Some(MemoryRecord::from_json(memory)?),
            },
        })
    }
}

/// Formats a figure: as an integer if it is large.
#[must_use]
pub fn figure_text(value: f64) -> String {
    match value.abs() >= 1000.0 {
        true => format!("{value:.0}"),
        false => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_round_trip_through_json() {
        let mut stats = BenchStats {
            done: 4,
            written: 2 << 20,
            ..BenchStats::default()
        };
        stats.record(1000);
        stats.course.note(7, 4, 1000);
        let mut measured = Measurement::of("fillseq", &stats, 8000);
        measured.usage.cpu_nanos = 6000;
        measured.usage.device_written = 5 << 20;
        measured.usage.read_calls = 3;
        measured.figures.push(("load seconds".into(), 0.25));
        measured.memory = Some(crate::memory_record::tests::record());
        let text = measured.to_json().to_string();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(Measurement::from_json(&value), Some(measured.clone()));
        assert_eq!((measured.clock(), measured.cpu()), (2000.0, 1500.0));
        assert_eq!(measured.rate(), 500_000.0);
        assert_eq!(measured.amplification(), Some(2.5));
        assert_eq!(Measurement::from_json(&json!({"benchmark": "x"})), None);
    }

    #[test]
    fn amplification_needs_enough_writes() {
        assert_eq!(
            Measurement {
                written: 100,
                ..Measurement::default()
            }
            .amplification(),
            None
        );
    }
}
