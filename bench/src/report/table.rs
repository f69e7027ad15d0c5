//! A comparison as a table: a line for each benchmark and engine.
//!
//! The ratios of a line say how many times the first engine beats the engine of that line, on the
//! clock and in time of the processor, with the smallest and largest ratio of a round.

use std::io::{Result, Write};

use super::difference_lines;
use crate::compare::{Compared, Comparison, Rounds};
use crate::measured::Measured;
use crate::stats::Spread;

/// Prints the table.
///
/// # Errors
///
/// Nothing can be printed.
pub fn print(comparison: &Comparison, out: &mut dyn Write) -> Result<()> {
    let width =
        |texts: &mut dyn Iterator<Item = &String>| texts.map(String::len).max().unwrap_or(0);
    let name = width(&mut comparison.benchmarks.iter().map(|one| &one.name)).max(9);
    let label = width(&mut comparison.labels.iter()).max(6);
    writeln!(
        out,
        "{:name$} {:label$} {:>10} {:>9} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>6} {:>8}  ratio clock        ratio CPU",
        "benchmark",
        "engine",
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
    )?;
    for compared in &comparison.benchmarks {
        for (at, rounds) in compared.engines.iter().enumerate() {
            write!(
                out,
                "{:name$} {:label$}",
                compared.name, comparison.labels[at]
            )?;
            figures(rounds, out)?;
            if at > 0 {
                ratios(compared, at, out)?;
            }
            writeln!(out)?;
        }
        extra(compared, &comparison.labels, out)?;
    }
    if comparison.labels.len() > 1 {
        writeln!(
            out,
            "Ratios: how many times {} beats the engine of the line, median of rounds side by side (lowest..highest).",
            comparison.labels[0]
        )?;
        let lines = difference_lines(comparison);
        if lines.is_empty() {
            writeln!(out, "Options: equal in the OPTIONS files of all engines.")?;
        } else {
            writeln!(
                out,
                "Options that differ in the OPTIONS files of the engines:"
            )?;
        }
        for line in lines {
            writeln!(out, "  {line}")?;
        }
    }
    Ok(())
}

fn figures(rounds: &Rounds, out: &mut dyn Write) -> Result<()> {
    let median = |figure: &dyn Fn(&Measured) -> f64| rounds.spread(figure).median;
    write!(
        out,
        " {:>10.0} {:>9.3} {:>9.3}",
        median(&Measured::rate),
        median(&Measured::clock) / 1e3,
        median(&Measured::cpu) / 1e3,
    )?;
    for quantile in [0.5, 0.99, 0.999, 0.9999] {
        match rounds.quantile(quantile) {
            Some(nanos) => write!(out, " {:>8}", short(nanos as f64 / 1e3))?,
            None => write!(out, " {:>8}", "-")?,
        }
    }
    for bytes in [
        median(&|one| one.peak_memory as f64),
        median(&|one| one.usage.device_read as f64),
        median(&|one| one.usage.written() as f64),
    ] {
        write!(out, " {:>8}", short(bytes / 1e6))?;
    }
    let amplification: Option<Vec<f64>> = rounds.0.iter().map(Measured::amplification).collect();
    match amplification {
        Some(values) if !values.is_empty() => write!(out, " {:>6.2}", Spread::of(values).median)?,
        _ => write!(out, " {:>6}", "-")?,
    }
    write!(
        out,
        " {:>8}",
        short(median(&|one| one.space.tables as f64) / 1e6)
    )
}

/// As many digits as a column holds.
fn short(value: f64) -> String {
    match value {
        value if value >= 1000.0 => format!("{value:.0}"),
        value if value >= 100.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

fn ratios(compared: &Compared, at: usize, out: &mut dyn Write) -> Result<()> {
    for cost in [Measured::clock, Measured::cpu] {
        let ratio = compared.ratio(at, cost);
        let range = format!("({:.2}..{:.2})", ratio.low, ratio.high);
        write!(out, "  {:>5.2} {range:12}", ratio.median)?;
    }
    Ok(())
}

/// The figures that only this benchmark has.
fn extra(compared: &Compared, labels: &[String], out: &mut dyn Write) -> Result<()> {
    for (label, rounds) in labels.iter().zip(&compared.engines) {
        for (place, (name, _)) in rounds
            .0
            .first()
            .map_or(&[][..], |one| &one.figures)
            .iter()
            .enumerate()
        {
            let value =
                rounds.spread(|one| one.figures.get(place).map_or(0.0, |(_, value)| *value));
            writeln!(
                out,
                "    {label}: {name} {:.3} ({:.3}..{:.3})",
                value.median, value.low, value.high
            )?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_engine_has_a_line_and_the_second_its_ratios() {
        let one = |nanos| Measured {
            done: 1000,
            elapsed_nanos: nanos,
            figures: vec![("seconds to load".into(), 0.5)],
            ..Measured::default()
        };
        let comparison = Comparison {
            labels: vec!["ours".into(), "rocksdb".into()],
            benchmarks: vec![Compared {
                name: "fillseq".into(),
                engines: vec![Rounds(vec![one(1_000_000)]), Rounds(vec![one(3_000_000)])],
            }],
            differences: vec![("CFOptions/x".into(), vec!["1".into(), "2".into()])],
            ..Comparison::default()
        };
        let mut text = Vec::new();
        print(&comparison, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[1].starts_with("fillseq   ours       1000000     1.000"),
            "{text}"
        );
        assert!(
            lines[2].contains("rocksdb") && lines[2].contains(" 3.00 (3.00..3.00)"),
            "{text}"
        );
        assert!(
            text.contains("ours: seconds to load 0.500 (0.500..0.500)"),
            "{text}"
        );
        assert!(text.contains("CFOptions/x: ours=1, rocksdb=2"), "{text}");
    }

    #[test]
    fn numbers_fit_their_columns() {
        assert_eq!(
            [short(1.234), short(123.45), short(12345.6)],
            ["1.23", "123.5", "12346"]
        );
    }
}
