//! The HTML report: conditions, ratios as bars, and for each benchmark its figures, latency
//! distribution, and throughput over time with stalls marked.
//!
//! The page is self-contained, with inline styles and plots.

use std::fmt::Write;

use super::svg::{Bar, COLOURS, Line, Plot, Scale, escaped, ratio_bars, short};
use super::{difference_lines, figures, memory};
use crate::bench_stats::{QUANTILES, SLOT_NANOS};
use crate::compare::{Compared, Comparison, Rounds};
use crate::measurement::{Measurement, figure_text};

/// Maximum number of points of a timeline.
const POINTS: usize = 240;
/// Minimum duration of a stall.
const STOP_NANOS: u64 = 100_000_000;

const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1f2328;background:#fff}\
h1{font-size:1.6rem}h2{font-size:1.2rem;margin:2.2rem 0 .5rem;border-top:1px solid #d1d9e0;padding-top:1rem}\
h3{font-size:.95rem;margin:1rem 0 .2rem}table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
td,th{padding:.15rem .6rem;text-align:right;border-bottom:1px solid #eaeef2}\
td:first-child,th:first-child{text-align:left}.facts td{text-align:left;overflow-wrap:anywhere}.wide{overflow-x:auto}\
svg{width:100%;height:auto;max-width:720px;font:11px system-ui,sans-serif}svg text{fill:#59636e}\
.grid{stroke:#eaeef2}.one{stroke:#1f2328}.whisker{stroke:#1f2328;stroke-width:1.5}.line{fill:none;stroke-width:1.6}\
.key{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 1em}p,li{max-width:48rem}";

/// Returns the page.
#[must_use]
pub fn page(comparison: &Comparison, facts: &[(&str, String)]) -> String {
    let mut html = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\
         <title>cairn bench: {0}</title><style>{STYLE}</style><h1>{0}</h1>",
        escaped(&comparison.labels.join(" and "))
    );
    html.push_str("<p>");
    for (at, (label, engine)) in comparison
        .labels
        .iter()
        .zip(&comparison.engines)
        .enumerate()
    {
        let colour = COLOURS[at % COLOURS.len()];
        let name = if label == engine {
            String::new()
        } else {
            format!(" ({engine})")
        };
        let _ = write!(
            html,
            "<span class=key style=\"background:{colour}\"></span>{}{}",
            escaped(label),
            escaped(&name)
        );
    }
    html.push_str("</p>");
    if comparison.labels.len() > 1 {
        ratios(comparison, &mut html);
    }
    for compared in &comparison.benchmarks {
        benchmark(compared, comparison, &mut html);
    }
    conditions(comparison, facts, &mut html);
    html.push_str("</html>\n");
    html
}

fn ratios(comparison: &Comparison, html: &mut String) {
    let mut bars = Vec::new();
    for compared in &comparison.benchmarks {
        for other in 1..comparison.labels.len() {
            let costs = [
                (Measurement::clock as fn(&Measurement) -> f64, "clock"),
                (Measurement::cpu, "CPU"),
            ];
            for (cost, words) in costs {
                let ratio = compared.ratio(other, cost);
                let against = match comparison.labels.len() {
                    2 => String::new(),
                    _ => format!(", {}", comparison.labels[other]),
                };
                bars.push(Bar {
                    words: format!("{}{against}, {words}", compared.name),
                    colour: COLOURS[other % COLOURS.len()],
                    pale: words == "CPU",
                    value: ratio.median,
                    low: ratio.low,
                    high: ratio.high,
                });
            }
        }
    }
    let title = format!("Cost relative to {}", comparison.labels[0]);
    let _ = write!(
        html,
        "<h2>{0}</h2><p>Costs of an operation in the other engine, divided by those in {1}: right of 1 \
         {1} is ahead, left of it behind. The median of the rounds, and as a line from the lowest to \
         the highest ratio of a round.</p>{2}",
        escaped(&title),
        escaped(&comparison.labels[0]),
        ratio_bars(&title, &bars)
    );
}

fn benchmark(compared: &Compared, comparison: &Comparison, html: &mut String) {
    let _ = write!(
        html,
        "<h2>{}</h2><div class=wide><table><tr><th>",
        escaped(&compared.name)
    );
    for heading in figures::HEADINGS {
        let _ = write!(html, "<th>{heading}");
    }
    for (label, rounds) in comparison.labels.iter().zip(&compared.engines) {
        let _ = write!(html, "<tr><td>{}", escaped(label));
        for text in figures::of(rounds) {
            let _ = write!(html, "<td>{text}");
        }
    }
    html.push_str("</table></div>");
    own_figures(compared, comparison, html);
    if let Some(plot) = latencies(compared) {
        let _ = write!(html, "<h3>Latency, µs</h3>{plot}");
    }
    for (at, (label, rounds)) in comparison.labels.iter().zip(&compared.engines).enumerate() {
        if let Some(memory) = typical(rounds).and_then(|round| round.memory.as_ref()) {
            let others = comparison.labels.len() > 1;
            let label = others.then_some((label.as_str(), COLOURS[at % COLOURS.len()]));
            memory::section(memory, label, html);
        }
    }
    if let Some(plot) = course(compared) {
        let _ = write!(
            html,
            "<h3>Operations a second, in time</h3>{plot}<p>The round whose time is the median. A mark at the \
             top: nothing ended for a tenth of a second, or an operation took longer than that.</p>"
        );
    }
}

/// Adds a table of the figures specific to this benchmark, each with the lowest and the highest value of a
/// round.
fn own_figures(compared: &Compared, comparison: &Comparison, html: &mut String) {
    let engines: Vec<_> = compared.engines.iter().map(figures::own).collect();
    let names = engines.iter().max_by_key(|own| own.len());
    let names: Vec<&String> = names.into_iter().flatten().map(|(name, _)| name).collect();
    if names.is_empty() {
        return;
    }
    html.push_str("<div class=wide><table><tr><th>");
    for label in &comparison.labels {
        let _ = write!(html, "<th>{}", escaped(label));
    }
    for name in names {
        let _ = write!(html, "<tr><td>{}", escaped(name));
        for own in &engines {
            match own.iter().find(|(one, _)| one == name) {
                Some((_, value)) => {
                    let [median, low, high] =
                        [value.median, value.low, value.high].map(figure_text);
                    let _ = write!(html, "<td>{median} ({low} to {high})");
                }
                None => html.push_str("<td>-"),
            }
        }
    }
    html.push_str("</table></div>");
}

/// Plots the median latency at each quantile.
fn latencies(compared: &Compared) -> Option<String> {
    let lines: Vec<Vec<u64>> = compared.engines.iter().map(Rounds::quantiles).collect();
    let all = || {
        lines
            .iter()
            .flatten()
            .map(|nanos| (*nanos as f64 / 1e3).max(0.01))
    };
    all().next()?;
    let up = Scale::decades(all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
    // Logarithmic in the fraction of slower operations: each nine has the same width.
    let place = |quantile: f64| 1.0 / (1.0 - quantile.min(0.999_999));
    let words = [
        (0.5, "50 %"),
        (0.9, "90"),
        (0.99, "99"),
        (0.999, "99.9"),
        (0.9999, "99.99"),
        (0.99999, "99.999"),
    ];
    let line = |(at, quantiles): (usize, &Vec<u64>)| Line {
        colour: COLOURS[at % COLOURS.len()],
        points: QUANTILES
            .iter()
            .zip(quantiles)
            .filter(|(quantile, _)| **quantile < 1.0)
            .map(|(quantile, nanos)| (place(*quantile), *nanos as f64 / 1e3))
            .collect(),
        marks: Vec::new(),
    };
    let plot = Plot {
        title: &format!("latencies of {}", compared.name),
        height: 240.0,
        across: Scale::factors(1.0, 1e6),
        across_marks: words
            .map(|(quantile, words)| (place(quantile), words.to_owned()))
            .to_vec(),
        across_words: "share of operations up to this latency",
        up,
        lines: lines.iter().enumerate().map(line).collect(),
    };
    Some(plot.svg())
}

/// Returns the round with the median wall time.
fn typical(rounds: &Rounds) -> Option<&Measurement> {
    let mut all: Vec<&Measurement> = rounds.0.iter().collect();
    all.sort_by_key(|one| one.elapsed_nanos);
    all.get(all.len() / 2).copied()
}

/// Plots throughput over time, or nothing if the run was too short.
fn course(compared: &Compared) -> Option<String> {
    let rounds: Vec<&Measurement> = compared.engines.iter().filter_map(typical).collect();
    let longest = rounds.iter().map(|one| one.course.slots.len()).max()?;
    if longest < 5 {
        return None;
    }
    let step = longest.div_ceil(POINTS);
    let second = SLOT_NANOS as f64 / 1e9;
    let lines: Vec<Line<'_>> = rounds
        .iter()
        .enumerate()
        .map(|(at, one)| line_in_time(one, step, COLOURS[at % COLOURS.len()]))
        .collect();
    let most = lines
        .iter()
        .flat_map(|line| &line.points)
        .map(|point| point.1)
        .fold(0.0, f64::max);
    let across = Scale::rounded(longest as f64 * second);
    let seconds = across.marks().into_iter();
    let plot = Plot {
        title: &format!("throughput of {} over time", compared.name),
        height: 220.0,
        across,
        across_marks: seconds.map(|at| (at, short(at))).collect(),
        across_words: "seconds",
        up: Scale::rounded(most),
        lines,
    };
    Some(plot.svg())
}

/// Returns the rate per `step` slots, and the stalls.
fn line_in_time<'a>(one: &Measurement, step: usize, colour: &'a str) -> Line<'a> {
    let second = SLOT_NANOS as f64 / 1e9;
    let (mut points, mut marks) = (Vec::new(), Vec::new());
    // The last slot is incomplete.
    let whole = one.course.slots.len().saturating_sub(1);
    for (at, slots) in one.course.slots[..whole].chunks(step).enumerate() {
        let done: u64 = slots.iter().map(|slot| slot.done).sum();
        let middle = (at * step) as f64 * second + slots.len() as f64 * second / 2.0;
        points.push((middle, done as f64 / (slots.len() as f64 * second)));
        if slots
            .iter()
            .any(|slot| slot.done == 0 || slot.longest > STOP_NANOS)
        {
            marks.push(middle);
        }
    }
    Line {
        colour,
        points,
        marks,
    }
}

fn conditions(comparison: &Comparison, facts: &[(&str, String)], html: &mut String) {
    html.push_str("<h2>Conditions</h2><table class=facts>");
    for (name, value) in facts {
        let _ = write!(html, "<tr><td>{}<td>{}", escaped(name), escaped(value));
    }
    html.push_str("</table>");
    if comparison.labels.len() < 2 {
        return;
    }
    let lines = difference_lines(comparison);
    if lines.is_empty() {
        html.push_str("<p>The OPTIONS files of all engines are equal.</p>");
        return;
    }
    html.push_str("<p>Options that differ in the OPTIONS files of the engines:</p><ul>");
    for line in lines {
        let _ = write!(html, "<li>{}", escaped(&line));
    }
    html.push_str("</ul>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench_stats::{Slot, Timeline};

    #[test]
    fn the_page_is_self_contained_and_shows_ratios_latencies_and_stalls() {
        let one = |nanos: u64| Measurement {
            done: 4000,
            elapsed_nanos: nanos,
            quantiles: (1..=QUANTILES.len() as u64)
                .map(|at| at * nanos / 1000)
                .collect(),
            figures: vec![("data block misses".into(), 371_737.0)],
            course: Timeline {
                slots: (0..12)
                    .map(|at| Slot {
                        done: if at == 5 { 0 } else { 400 },
                        longest: 1000,
                    })
                    .collect(),
            },
            ..Measurement::default()
        };
        let comparison = Comparison {
            labels: vec!["ours".into(), "rocksdb".into()],
            engines: vec!["ours".into(), "/x/<librocksdb>.so".into()],
            benchmarks: vec![Compared {
                name: "fillrandom".into(),
                engines: vec![
                    Rounds(vec![one(1_200_000_000)]),
                    Rounds(vec![one(1_300_000_000)]),
                ],
            }],
            differences: vec![("CFOptions/x".into(), vec!["1".into(), "2".into()])],
        };
        let html = page(&comparison, &[("entries", "4000".into())]);
        assert_eq!(html.matches("<svg").count(), 3, "bars, latencies, course");
        assert_eq!(html.matches("</svg>").count(), 3);
        assert!(html.contains("/x/&lt;librocksdb&gt;.so"));
        assert!(html.contains("CFOptions/x: ours=1, rocksdb=2"));
        let misses = "<tr><td>data block misses<td>371737 (371737 to 371737)<td>371737";
        assert!(html.contains(misses), "{html}");
        // One stall in each engine.
        assert_eq!(html.matches("l-4 -8h8z").count(), 2);
        for outside in ["http:", "https:", "src=", "<script", "url(", "NaN", "inf"] {
            assert!(!html.contains(outside), "{outside} in {html}");
        }
    }

    #[test]
    fn the_memory_of_a_round_is_shown() {
        let measured = |memory| Measurement {
            memory,
            ..Measurement::default()
        };
        let record = crate::memory_record::tests::record();
        let comparison = Comparison {
            labels: vec!["ours".into(), "rocksdb".into()],
            engines: vec!["ours".into(), "rocksdb".into()],
            benchmarks: vec![Compared {
                name: "readrandom".into(),
                engines: vec![
                    Rounds(vec![measured(Some(record))]),
                    Rounds(vec![measured(None)]),
                ],
            }],
            differences: Vec::new(),
        };
        let html = page(&comparison, &[]);
        assert_eq!(html.matches("<h3>Memory").count(), 1, "{html}");
        assert!(html.contains("ours</h3>") && html.contains("borders of the memory budget"));
        assert!(!html.contains("<to 20>"), "text is escaped");
    }

    #[test]
    fn a_short_run_has_no_timeline() {
        let compared = Compared {
            name: "x".into(),
            engines: vec![Rounds(vec![Measurement::default()])],
        };
        assert!(course(&compared).is_none() && latencies(&compared).is_none());
    }
}
