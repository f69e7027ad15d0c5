//! What one run of one benchmark in one engine cost, and its form between processes and in reports.

use serde_json::{Value, json};

use crate::bench_stats::{Course, Slot, Tally};
use crate::db_dir::Space;
use crate::resource_usage::Usage;

/// The costs of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// The benchmark.
    pub name: String,
    /// Operations.
    pub done: u64,
    /// Nanoseconds on the clock, in all threads together.
    pub elapsed_nanos: u64,
    /// Nanoseconds from first to last operation, added over the threads.
    pub thread_nanos: u64,
    /// Bytes of keys and values that went through.
    pub bytes: u64,
    /// Of these, those handed over to be written.
    pub written: u64,
    /// Keys looked for, and found.
    pub looked: u64,
    /// Keys found.
    pub found: u64,
    /// What the process used, background work included.
    pub usage: Usage,
    /// Most bytes of resident memory.
    pub peak_memory: u64,
    /// What the directory takes afterwards.
    pub space: Space,
    /// Nanoseconds at [`crate::bench_stats::QUANTILES`].
    pub quantiles: Vec<u64>,
    /// What was done when.
    pub course: Course,
    /// Figures that only this benchmark has, such as seconds of a phase.
    pub figures: Vec<(String, f64)>,
}

impl Measured {
    /// The costs of what `tally` counted.
    #[must_use]
    pub fn of(name: &str, tally: &Tally, elapsed_nanos: u64) -> Measured {
        Measured {
            name: name.to_owned(),
            done: tally.done,
            elapsed_nanos,
            thread_nanos: tally.nanos,
            bytes: tally.bytes,
            written: tally.written,
            looked: tally.looked,
            found: tally.found,
            quantiles: tally.quantiles(),
            course: tally.course.clone(),
            ..Measured::default()
        }
    }

    /// Nanoseconds on the clock for an operation.
    #[must_use]
    pub fn clock(&self) -> f64 {
        self.elapsed_nanos as f64 / self.done.max(1) as f64
    }

    /// Nanoseconds of the processor for an operation.
    #[must_use]
    pub fn cpu(&self) -> f64 {
        self.usage.cpu_nanos as f64 / self.done.max(1) as f64
    }

    /// Operations in a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.done as f64 * 1e9 / self.elapsed_nanos.max(1) as f64
    }

    /// Bytes written for each byte that the user wrote, if that was enough to tell.
    #[must_use]
    pub fn amplification(&self) -> Option<f64> {
        (self.written >= 1 << 20).then(|| self.usage.written() as f64 / self.written as f64)
    }

    /// As JSON.
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
            "peak_memory_bytes": self.peak_memory,
            "table_bytes": self.space.tables,
            "disk_bytes": self.space.occupied,
            "quantile_nanos": self.quantiles,
            "tenths_done": done,
            "tenths_longest_nanos": longest,
            "figures": self.figures.iter().map(|(name, value)| json!([name, value])).collect::<Vec<_>>(),
        })
    }

    /// From [`Measured::to_json`]; `None` if something is missing.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Measured> {
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
        Some(Measured {
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
            },
            peak_memory: number("peak_memory_bytes")?,
            space: Space {
                tables: number("table_bytes")?,
                occupied: number("disk_bytes")?,
            },
            quantiles: numbers("quantile_nanos")?,
            course: Course {
                slots: slots
                    .map(|(done, longest)| Slot { done, longest })
                    .collect(),
            },
            figures: figures.map(figure).collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_leads_back_to_the_same_costs() {
        let mut tally = Tally {
            done: 4,
            written: 2 << 20,
            ..Tally::default()
        };
        tally.record(1000);
        tally.course.note(7, 4, 1000);
        let mut measured = Measured::of("fillseq", &tally, 8000);
        measured.usage.cpu_nanos = 6000;
        measured.usage.device_written = 5 << 20;
        measured.figures.push(("load seconds".into(), 0.25));
        let text = measured.to_json().to_string();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(Measured::from_json(&value), Some(measured.clone()));
        assert_eq!((measured.clock(), measured.cpu()), (2000.0, 1500.0));
        assert_eq!(measured.rate(), 500_000.0);
        assert_eq!(measured.amplification(), Some(2.5));
        assert_eq!(Measured::from_json(&json!({"benchmark": "x"})), None);
    }

    #[test]
    fn little_that_was_written_tells_no_amplification() {
        assert_eq!(
            Measured {
                written: 100,
                ..Measured::default()
            }
            .amplification(),
            None
        );
    }
}
