//! The memory of a database in the HTML report: a table of its holders, and the borders of a memory budget over time.

use std::fmt::Write;

use serde_json::Value;

use super::svg::{COLOURS, Line, Plot, Scale, escaped, short};
use crate::memory_record::{MemoryRecord, Split};

/// The number of moves that are listed.
const LISTED: usize = 20;

/// Adds the section of a record, with the label and colour of its engine if there are several.
pub fn section(record: &MemoryRecord, engine: Option<(&str, &str)>, html: &mut String) {
    let label = engine.map_or(String::new(), |(label, colour)| {
        let key = format!("<span class=key style=\"background:{colour}\"></span>");
        key + &escaped(label)
    });
    let _ = write!(html, "<h3>Memory at the end, by holder {label}</h3>");
    holders(&record.report, html);
    long_lived(&record.report, html);
    if let Some(plot) = borders(&record.splits) {
        let _ = write!(html, "<h3>Borders of the memory budget {label}</h3>");
        html.push_str("<p>");
        for (at, (name, _)) in regions(&record.splits).iter().enumerate() {
            let colour = COLOURS[at % COLOURS.len()];
            let _ = write!(
                html,
                "<span class=key style=\"background:{colour}\"></span>{}",
                escaped(&name.replace('_', " "))
            );
        }
        let _ = write!(html, "</p>{plot}");
        moves(&record.splits, html);
    }
}

/// The holders of memory with their bytes, the largest first: cache entries by role, and other uses.
fn bytes_by_holder(report: &Value) -> Vec<(String, u64)> {
    let mut all: Vec<(String, u64)> = Vec::new();
    for cache in report["caches"].as_array().into_iter().flatten() {
        for (role, entries) in cache["entries"].as_object().into_iter().flatten() {
            let (name, bytes) = (format!("cached: {role}"), entries["bytes"].as_u64());
            match all.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += bytes.unwrap_or(0),
                None => all.push((name, bytes.unwrap_or(0))),
            }
        }
    }
    for (name, bytes) in report["uses"].as_object().into_iter().flatten() {
        all.push((name.clone(), bytes.as_u64().unwrap_or(0)));
    }
    all.retain(|(_, bytes)| *bytes > 0);
    all.sort_by(|(a, large), (b, small)| small.cmp(large).then(a.cmp(b)));
    all
}

fn holders(report: &Value, html: &mut String) {
    html.push_str("<div class=wide><table><tr><th>holder<th>bytes");
    for (name, bytes) in bytes_by_holder(report) {
        let bytes = short(bytes as f64);
        let _ = write!(html, "<tr><td>{}<td>{bytes}", escaped(&name));
    }
    for (name, bytes) in [
        ("all of these", &report["total"]),
        (
            "resident memory of the process",
            &report["process"]["resident"],
        ),
        ("budget", &report["budget"]["bytes"]),
    ] {
        if let Some(bytes) = bytes.as_u64() {
            let _ = write!(html, "<tr><td>{name}<td>{}", short(bytes as f64));
        }
    }
    html.push_str("</table></div>");
}

/// Adds the oldest iterator and the oldest snapshot, which keep memory and files alive.
fn long_lived(report: &Value, html: &mut String) {
    for (what, open) in [
        ("iterators", &report["iterators"]),
        ("snapshots", &report["snapshots"]),
    ] {
        let count = open["open"].as_u64().unwrap_or(0);
        if count == 0 {
            continue;
        }
        let oldest = &open["oldest"][0];
        let thread = oldest["thread"].as_str().unwrap_or("unknown");
        let age = oldest["seconds"].as_f64();
        let age = age.map_or(String::new(), |age| format!(", {age:.1} seconds old"));
        let _ = write!(
            html,
            "<p>Open {what}: {count}. The oldest was created by the thread {}{age}.</p>",
            escaped(thread)
        );
    }
}

/// The regions of the splits, with their largest sizes.
fn regions(splits: &[Split]) -> Vec<(String, u64)> {
    let first = splits.first().map_or(&[][..], |split| &split.regions);
    let most = |at: usize| {
        let bytes = splits.iter().filter_map(|split| split.regions.get(at));
        bytes.map(|(_, bytes)| *bytes).max().unwrap_or(0)
    };
    let names = first.iter().map(|(name, _)| name.clone());
    names
        .enumerate()
        .map(|(at, name)| (name, most(at)))
        .collect()
}

/// Plots the size of each region over time, or nothing without a budget.
fn borders(splits: &[Split]) -> Option<String> {
    let end = splits.last()?.seconds;
    let regions = regions(splits);
    let most = regions.iter().map(|(_, bytes)| *bytes).max()?;
    let line = |at: usize| {
        // A border stays until the next move.
        let mut points: Vec<(f64, f64)> = Vec::new();
        for split in splits {
            let Some((_, bytes)) = split.regions.get(at) else {
                continue;
            };
            if let Some(&(_, before)) = points.last() {
                points.push((split.seconds, before));
            }
            points.push((split.seconds, *bytes as f64));
        }
        Line {
            colour: COLOURS[at % COLOURS.len()],
            points,
            marks: Vec::new(),
        }
    };
    let across = Scale::rounded(end);
    let plot = Plot {
        title: "borders of the memory budget over time",
        height: 220.0,
        across,
        across_marks: across
            .marks()
            .into_iter()
            .map(|at| (at, short(at)))
            .collect(),
        across_words: "seconds",
        up: Scale::rounded(most as f64),
        lines: (0..regions.len()).map(line).collect(),
    };
    Some(plot.svg())
}

/// Adds a list of the last moves with their reasons.
fn moves(splits: &[Split], html: &mut String) {
    let made: Vec<&Split> = splits.iter().filter(|it| !it.reason.is_empty()).collect();
    let _ = write!(html, "<p>Moves: {}.</p>", made.len());
    if made.is_empty() {
        return;
    }
    html.push_str("<ul>");
    for split in &made[made.len().saturating_sub(LISTED)..] {
        let reason = escaped(&split.reason);
        let _ = write!(html, "<li>{:.1} s: {reason}", split.seconds);
    }
    html.push_str("</ul>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_record::tests::record;

    /// The cells of the table in `html`, by row.
    fn rows(html: &str) -> Vec<(String, String)> {
        let table = html
            .split("<table>")
            .nth(1)
            .and_then(|rest| rest.split("</table>").next());
        let rows = table.expect("there is a table").split("<tr><td>").skip(1);
        let cells = |row: &str| {
            let (name, bytes) = row.split_once("<td>").expect("two cells");
            (name.to_owned(), bytes.to_owned())
        };
        rows.map(cells).collect()
    }

    /// The points of the lines in `html`.
    fn lines(html: &str) -> Vec<Vec<(f64, f64)>> {
        let paths = html.split("<path class=line").skip(1);
        let points = |path: &str| {
            let path = path
                .split("d=\"M")
                .nth(1)
                .and_then(|rest| rest.split('"').next());
            let points = path.expect("a path").split('L');
            let point = |point: &str| {
                let (x, y) = point.split_once(' ').expect("two numbers");
                (x.parse().expect("a number"), y.parse().expect("a number"))
            };
            points.map(point).collect()
        };
        paths.map(points).collect()
    }

    #[test]
    fn holders_borders_and_moves_can_be_read_from_the_section() {
        let mut html = String::new();
        section(&record(), None, &mut html);
        let rows = rows(&html);
        let rows: Vec<(&str, &str)> = rows.iter().map(|(a, b)| (&a[..], &b[..])).collect();
        assert_eq!(
            rows,
            [
                ("cached: DataBlock", "5M"),
                ("WriteBuffer", "2M"),
                ("FileMetadata", "30k"),
                ("all of these", "90"),
                ("resident memory of the process", "120M"),
                ("budget", "100"),
            ]
        );
        let lines = lines(&html);
        // The start, two points for each move, two for the end.
        assert_eq!(lines.iter().map(Vec::len).collect::<Vec<_>>(), [7, 7]);
        for line in &lines {
            assert!(
                line.windows(2).all(|two| two[0].0 <= two[1].0),
                "time goes on"
            );
        }
        // The cache grows, and memtables shrink; the vertical axis points down.
        assert!(lines[0][6].1 < lines[0][0].1 && lines[1][6].1 > lines[1][0].1);
        assert!(html.contains("<li>3.0 s: &lt;to 20&gt;<li>18.5 s: &lt;to 60&gt;</ul>"));
        assert!(html.contains(
            "Open iterators: 2. The oldest was created by the thread scan &lt;1&gt;, 71.5"
        ));
        assert!(!html.contains("snapshots"));
        for outside in ["<script", "NaN", "inf"] {
            assert!(!html.contains(outside), "{html}");
        }
    }

    #[test]
    fn a_record_without_a_budget_has_no_plot() {
        let mut html = String::new();
        let record = MemoryRecord {
            report: serde_json::json!({ "total": 7, "budget": null }),
            splits: Vec::new(),
        };
        section(&record, Some(("ours", "#000")), &mut html);
        assert!(!html.contains("<svg") && rows(&html).len() == 1, "{html}");
    }
}
