//! The JSON report: all measurements of all rounds, and the figures of the table.

use serde_json::{Map, Value, json};

use super::figures;
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
    let figures: Map<String, Value> = figures::own(rounds)
        .into_iter()
        .map(|(name, value)| (name, spread(value)))
        .collect();
    json!({
        "engine": label,
        "clock_nanos_per_operation": spread(rounds.spread(Measurement::clock)),
        "cpu_nanos_per_operation": spread(rounds.spread(Measurement::cpu)),
        "operations_per_second": spread(rounds.spread(Measurement::rate)),
        "median_quantile_nanos": rounds.quantiles(),
        "figures": figures,
        "rounds": all,
    })
}

fn spread(spread: Spread) -> Value {
    json!({ "median": spread.median, "low": spread.low, "high": spread.high })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_benchmark_have_medians_and_ranges() {
        let one = |hits| Measurement {
            figures: vec![("hits in percent".into(), hits)],
            ..Measurement::default()
        };
        let value = engine("ours", &Rounds(vec![one(90.0), one(96.0), one(95.0)]));
        let hits = &value["figures"]["hits in percent"];
        assert_eq!(*hits, json!({"median": 95.0, "low": 90.0, "high": 96.0}));
        assert_eq!(value["rounds"].as_array().map(Vec::len), Some(3));
    }
}
