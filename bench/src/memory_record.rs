//! The memory of a database during a benchmark: the property `cairn.memory` after it, and the borders of its memory
//! budget over time.
//!
//! The property lists the last moves of borders. It is read at the start, at the end, and often enough in between that no
//! move is missed.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::engine::Engine;

/// The property.
const PROPERTY: &str = "cairn.memory";

/// The interval between two readings. The property lists 20 moves, and there is at most one a second.
const INTERVAL: Duration = Duration::from_secs(10);

/// Two records of a move differ by less than this, in seconds: its age has milliseconds.
const SAME: f64 = 0.1;

/// The memory of one run of a benchmark.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryRecord {
    /// The value of `cairn.memory` at the end.
    pub report: Value,
    /// The splits of the memory budget, the oldest first. Empty without a budget.
    pub splits: Vec<Split>,
}

/// The borders of a memory budget from a point in time on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Split {
    /// Seconds since the start of the benchmark.
    pub seconds: f64,
    /// The bytes of each region.
    pub regions: Vec<(String, u64)>,
    /// The reason for the move to these borders; empty for those at the start and at the end.
    pub reason: String,
}

impl Split {
    fn of(seconds: f64, split: &Value, reason: &str) -> Option<Split> {
        let regions = split.as_object()?.iter();
        let region = |(name, bytes): (&String, &Value)| Some((name.clone(), bytes.as_u64()?));
        Some(Split {
            seconds,
            regions: regions.map(region).collect::<Option<_>>()?,
            reason: reason.to_owned(),
        })
    }
}

impl MemoryRecord {
    /// Adds a reading of the property, `seconds` after the start. Returns false if it is not the expected JSON.
    fn note(&mut self, seconds: f64, text: &str) -> bool {
        let Ok(report) = serde_json::from_str::<Value>(text) else {
            return false;
        };
        let budget = &report["budget"];
        let moves = budget["moves"].as_array().into_iter().flatten().rev();
        let made = moves.filter_map(|made| {
            let at = seconds - made["seconds"].as_f64()?;
            Split::of(at, &made["split"], made["reason"].as_str()?)
        });
        for split in made.filter(|split| split.seconds >= 0.0) {
            let is_known = |known: &Split| split.seconds < known.seconds + SAME;
            if !self.splits.last().is_some_and(is_known) {
                self.splits.push(split);
            }
        }
        self.report = report;
        true
    }

    /// Adds the current borders of the last reading.
    fn note_current(&mut self, seconds: f64) {
        let split = Split::of(seconds, &self.report["budget"]["split"], "");
        self.splits.extend(split);
    }

    /// Converts to JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let splits = self.splits.iter().map(|split| {
            let regions: Map<String, Value> = split
                .regions
                .iter()
                .map(|(name, bytes)| (name.clone(), json!(bytes)))
                .collect();
            json!({ "seconds": split.seconds, "split": regions, "reason": split.reason })
        });
        json!({ "report": self.report, "splits": splits.collect::<Vec<_>>() })
    }

    /// Parses the result of [`MemoryRecord::to_json`]; `None` if a field is missing.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<MemoryRecord> {
        let split = |split: &Value| {
            let seconds = split.get("seconds")?.as_f64()?;
            Split::of(seconds, split.get("split")?, split.get("reason")?.as_str()?)
        };
        let splits = value.get("splits")?.as_array()?.iter();
        Some(MemoryRecord {
            report: value.get("report")?.clone(),
            splits: splits.map(split).collect::<Option<_>>()?,
        })
    }
}

/// Does `work` with `db`, and records its memory if `wanted` and the engine has the property.
pub fn recorded<E: Engine, T>(
    db: &E,
    wanted: bool,
    work: impl FnOnce() -> T,
) -> (T, Option<MemoryRecord>) {
    let began = Instant::now();
    let mut record = MemoryRecord::default();
    let first = wanted.then(|| db.property(PROPERTY)).flatten();
    if !first.is_some_and(|text| record.note(0.0, &text)) {
        return (work(), None);
    }
    record.note_current(0.0);
    let seconds = || began.elapsed().as_secs_f64();
    let (ends, ended) = channel::<()>();
    let done = std::thread::scope(|scope| {
        let record = &mut record;
        scope.spawn(move || {
            while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if let Some(text) = db.property(PROPERTY) {
                    record.note(seconds(), &text);
                }
            }
        });
        let done = work();
        drop(ends);
        done
    });
    let at = seconds();
    if let Some(text) = db.property(PROPERTY) {
        record.note(at, &text);
        record.note_current(at);
    }
    (done, Some(record))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A reading with `moves`: their ages and the bytes of the block cache after them.
    pub(crate) fn reading(current: u64, moves: &[(f64, u64)]) -> String {
        let split = |cache: u64| json!({ "memtables": 100 - cache, "block_cache": cache });
        let moves = moves.iter().map(|(age, cache)| {
            json!({
                "seconds": age,
                "reason": format!("<to {cache}>"),
                "split": split(*cache),
            })
        });
        let moves: Vec<Value> = moves.collect();
        json!({
            "total": 90,
            "process": { "resident": 120_000_000 },
            "cache_entries": 40,
            "uses": { "WriteBuffer": 2_000_000, "Wal": 0, "FileMetadata": 30_000 },
            "caches": [{ "entries": { "DataBlock": { "entries": 3, "bytes": 5_000_000 } } }],
            "budget": { "bytes": 100, "split": split(current), "moves": moves },
            "iterators": { "open": 2, "oldest": [{ "seconds": 71.5, "thread": "scan <1>" }] },
            "snapshots": { "open": 0, "oldest": [] },
        })
        .to_string()
    }

    /// A record with two moves.
    pub(crate) fn record() -> MemoryRecord {
        let mut record = MemoryRecord::default();
        assert!(record.note(0.0, &reading(10, &[(5.0, 10)])));
        record.note_current(0.0);
        assert!(record.note(10.0, &reading(20, &[(7.0, 20), (15.0, 10)])));
        assert!(record.note(20.0, &reading(60, &[(1.5, 60), (17.001, 20), (25.0, 10)])));
        record.note_current(20.0);
        record
    }

    #[test]
    fn each_move_is_recorded_once() {
        let record = record();
        let caches: Vec<(f64, u64)> = record
            .splits
            .iter()
            .map(|split| (split.seconds, split.regions[0].1))
            .collect();
        assert_eq!(caches, [(0.0, 10), (3.0, 20), (18.5, 60), (20.0, 60)]);
        assert_eq!(record.splits[1].reason, "<to 20>");
        assert_eq!(record.splits[1].regions[0].0, "block_cache");
        assert_eq!(MemoryRecord::from_json(&record.to_json()), Some(record));
        assert_eq!(MemoryRecord::from_json(&json!({})), None);
    }

    #[test]
    fn a_database_without_a_budget_has_no_borders() {
        let mut record = MemoryRecord::default();
        assert!(record.note(1.0, &json!({ "total": 9, "budget": null }).to_string()));
        record.note_current(1.0);
        assert_eq!(
            (record.report["total"].as_u64(), record.splits.len()),
            (Some(9), 0)
        );
        assert!(!record.note(2.0, "no JSON"));
    }
}
