//! The JSON report: all measurements of all rounds, and the figures of the table.

use serde_json::{Map, Value, json};

use crate::bench_stats::QUANTILES;
use crate::compare::{Compared, Comparison, Rounds};
use crate::measurement::Measurement;
use crate::medians::Spread;

/// Returns the text of the file.
#[must_use]
pub fn text(comparison: &Comparison, facts: &[(&str, String)]) -> String {
    let facts: Map<String, Value> = facts
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.as_str().into()))
        .collect();
    let differences: Map<String, Value> = comparison
        .differences
        .iter()
        .map(|(name, values)| (name.clone(), json!(values)))
        .collect();
    let benchmarks: Vec<Value> = comparison
        .benchmarks
        .iter()
        .map(|one| benchmark(one, &comparison.labels))
        .collect();
    let whole = json!({
        "engines": comparison.engines,
        "labels": comparison.labels,
        "facts": facts,
        "options_that_differ": differences,
        "quantiles": QUANTILES,
        "benchmarks": benchmarks,
    });
    format!("{whole:#}\n")
}

fn benchmark(compared: &Compared, labels: &[String]) -> Value {
    let engines = labels.iter().zip(&compared.engines);
    let engines: Vec<Value> = engines
        .map(|(label, rounds)| engine(label, rounds))
        .collect();
    let ratios: Vec<Value> = (1..labels.len())
        .map(|other| {
            json!({
                "of": labels[other],
                "to": labels[0],
                "clock": spread(compared.ratio(other, Measurement::clock)),
                "cpu": spread(compared.ratio(other, Measurement::cpu)),
            })
        })
        .collect();
    json!({ "name": compared.name, "engines": engines, "ratios": ratios })
}

fn engine(label: &str, rounds: &Rounds) -> Value {
    let all: Vec<Value> = rounds.0.iter().map(Measurement::to_json).collect();
    json!({
        "engine": label,
        "clock_nanos_per_operation": spread(rounds.spread(Measurement::clock)),
        "cpu_nanos_per_operation": spread(rounds.spread(Measurement::cpu)),
        "operations_per_second": spread(rounds.spread(Measurement::rate)),
        "median_quantile_nanos": rounds.quantiles(),
        "rounds": all,
    })
}

fn spread(spread: Spread) -> Value {
    json!({ "median": spread.median, "low": spread.low, "high": spread.high })
}
