//! The columns of a report: medians over the rounds, as text.

use crate::compare::Rounds;
use crate::measurement::Measurement;
use crate::medians::Spread;

/// Column headings.
pub const HEADINGS: [&str; 12] = [
    "ops/s",
    "µs/op",
    "CPU µs/op",
    "p50 µs",
    "p99",
    "p99.9",
    "p99.99",
    "peak MB",
    "read MB",
    "written",
    "w-amp",
    "tables",
];

/// Returns the figures in the order of [`HEADINGS`]; `-` if not measured.
#[must_use]
pub fn of(rounds: &Rounds) -> Vec<String> {
    let median = |figure: &dyn Fn(&Measurement) -> f64| rounds.spread(figure).median;
    let mut texts = vec![
        format!("{:.0}", median(&Measurement::rate)),
        format!("{:.3}", median(&Measurement::clock) / 1e3),
        format!("{:.3}", median(&Measurement::cpu) / 1e3),
    ];
    for quantile in [0.5, 0.99, 0.999, 0.9999] {
        let nanos = rounds.quantile(quantile);
        texts.push(nanos.map_or("-".to_owned(), |nanos| short(nanos as f64 / 1e3)));
    }
    for bytes in [
        median(&|one| one.peak_memory as f64),
        median(&|one| one.usage.device_read as f64),
        median(&|one| one.usage.written() as f64),
    ] {
        texts.push(short(bytes / 1e6));
    }
    let amplification: Option<Vec<f64>> = rounds.0.iter().map(Measurement::amplification).collect();
    texts.push(match amplification {
        Some(values) if !values.is_empty() => format!("{:.2}", Spread::of(values).median),
        _ => "-".to_owned(),
    });
    texts.push(short(median(&|one| one.space.tables as f64) / 1e6));
    texts
}

/// Returns the figures specific to this benchmark.
#[must_use]
pub fn own(rounds: &Rounds) -> Vec<(String, Spread)> {
    let names = rounds.0.first().map_or(&[][..], |one| &one.figures);
    let spread = |(place, (name, _)): (usize, &(String, f64))| {
        let value = |one: &Measurement| one.figures.get(place).map_or(0.0, |(_, value)| *value);
        (name.clone(), rounds.spread(value))
    };
    names.iter().enumerate().map(spread).collect()
}

/// Formats a number for the column width.
fn short(value: f64) -> String {
    match value {
        value if value >= 1000.0 => format!("{value:.0}"),
        value if value >= 100.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_figure_for_each_heading() {
        let texts = of(&Rounds(vec![Measurement {
            done: 1000,
            elapsed_nanos: 2_000_000,
            ..Measurement::default()
        }]));
        assert_eq!(texts.len(), HEADINGS.len());
        assert_eq!(texts[..4], ["500000", "2.000", "0.000", "-"]);
        assert_eq!(own(&Rounds::default()), []);
    }

    #[test]
    fn numbers_fit_their_columns() {
        let texts = [short(1.234), short(123.45), short(12345.6)];
        assert_eq!(texts, ["1.23", "123.5", "12346"]);
    }
}
