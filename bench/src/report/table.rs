//! The table report: a line for each benchmark and engine.
//!
//! The ratios of a line compare its engine with the first engine, in wall time and CPU time, with the lowest
//! and highest ratio of a round.

use std::io::{Result, Write};

use super::{difference_lines, figures};
use crate::compare::{Compared, Comparison, Rounds};
use crate::measurement::{Measurement, figure_text};

/// Column widths.
const WIDTHS: [usize; 12] = [10, 9, 9, 8, 8, 8, 8, 8, 8, 8, 6, 8];

/// Prints the table.
///
/// # Errors
///
/// Output errors.
pub fn print(comparison: &Comparison, out: &mut dyn Write) -> Result<()> {
    let width =
        |texts: &mut dyn Iterator<Item = &String>| texts.map(String::len).max().unwrap_or(0);
    let name = width(&mut comparison.benchmarks.iter().map(|one| &one.name)).max(9);
    let label = width(&mut comparison.labels.iter()).max(6);
    write!(out, "{:name$} {:label$}", "benchmark", "engine")?;
    for (heading, width) in figures::HEADINGS.iter().zip(WIDTHS) {
        write!(out, " {heading:>width$}")?;
    }
    match comparison.labels.len() {
        1 => writeln!(out)?,
        _ => writeln!(out, "  ratio clock         ratio CPU")?,
    }
    for compared in &comparison.benchmarks {
        for (at, rounds) in compared.engines.iter().enumerate() {
            write!(
                out,
                "{:name$} {:label$}",
                compared.name, comparison.labels[at]
            )?;
            line(rounds, out)?;
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
            "Ratios: cost of the engine of the line divided by that of {}, median over the rounds (lowest..highest).",
            comparison.labels[0]
        )?;
        slower(comparison, out)?;
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

/// Lists the benchmarks in which the first engine is slower.
fn slower(comparison: &Comparison, out: &mut dyn Write) -> Result<()> {
    for compared in &comparison.benchmarks {
        for (at, label) in comparison.labels.iter().enumerate().skip(1) {
            let clock = compared.ratio(at, Measurement::clock).median;
            let processor = compared.ratio(at, Measurement::cpu).median;
            for (name, ratio) in [("clock", clock), ("CPU", processor)] {
                // A zero cost was not measured.
                if ratio > 0.0 && ratio < 1.0 {
                    writeln!(
                        out,
                        "Below 1.0: {} against {label}, {name}: {ratio:.2}",
                        compared.name
                    )?;
                }
            }
        }
    }
    Ok(())
}

fn line(rounds: &Rounds, out: &mut dyn Write) -> Result<()> {
    for (text, width) in figures::of(rounds).iter().zip(WIDTHS) {
        write!(out, " {text:>width$}")?;
    }
    Ok(())
}

fn ratios(compared: &Compared, at: usize, out: &mut dyn Write) -> Result<()> {
    for cost in [Measurement::clock, Measurement::cpu] {
        let ratio = compared.ratio(at, cost);
        let range = format!("({:.2}..{:.2})", ratio.low, ratio.high);
        write!(out, "  {:>5.2} {range:12}", ratio.median)?;
    }
    Ok(())
}

/// Prints the figures specific to this benchmark.
fn extra(compared: &Compared, labels: &[String], out: &mut dyn Write) -> Result<()> {
    for (label, rounds) in labels.iter().zip(&compared.engines) {
        for (name, value) in figures::own(rounds) {
            let [median, low, high] = [value.median, value.low, value.high].map(figure_text);
            writeln!(out, "    {label}: {name} {median} ({low}..{high})")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_engine_has_a_line_and_the_second_its_ratios() {
        let one = |nanos| Measurement {
            done: 1000,
            elapsed_nanos: nanos,
            figures: vec![("seconds to load".into(), 0.5)],
            ..Measurement::default()
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
        assert!(!text.contains("Below"), "{text}");
    }

    #[test]
    fn benchmarks_with_a_slower_first_engine_are_listed() {
        let one = |nanos| Measurement {
            done: 1000,
            elapsed_nanos: nanos,
            ..Measurement::default()
        };
        let comparison = Comparison {
            labels: vec!["ours".into(), "rocksdb".into()],
            benchmarks: vec![Compared {
                name: "fillbatch".into(),
                engines: vec![Rounds(vec![one(4_000_000)]), Rounds(vec![one(3_000_000)])],
            }],
            ..Comparison::default()
        };
        let mut text = Vec::new();
        print(&comparison, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let below = "Below 1.0: fillbatch against rocksdb, clock: 0.75";
        assert!(text.contains(below), "{text}");
    }
}
