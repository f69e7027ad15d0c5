//! Reports of a comparison: a table on the terminal, JSON, and HTML with plots.

mod figures;
mod html;
mod json;
mod memory;
mod svg;
mod table;

use std::io::Write;
use std::path::Path;

use cairn::{Error, Result};

use crate::compare::{self, Comparison};
use crate::db_dir::directory;
use crate::flags::Flags;
use crate::printed;

/// Compares the engines and writes all reports.
///
/// # Errors
///
/// As [`compare::run`], and errors of writing the reports.
pub fn run(flags: &Flags, out: &mut dyn Write) -> Result<()> {
    printed(head(flags, out))?;
    let facts = facts(flags);
    let comparison = compare::run(flags, |step| {
        // The reader of standard error may have closed it.
        let _ = writeln!(std::io::stderr(), "{step}");
        Ok(())
    })?;
    // If a report cannot be written, the others still are.
    let json = flags.json.as_ref();
    let json = json.map_or(Ok(()), |file| save(file, &json::text(&comparison, &facts)));
    let html = flags.html.as_ref();
    let html = html.map_or(Ok(()), |file| save(file, &html::page(&comparison, &facts)));
    printed(table::print(&comparison, out)).and(json).and(html)
}

fn save(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).map_err(|error| Error::io("write", file, error))
}

/// Returns the test conditions.
#[must_use]
pub fn facts(flags: &Flags) -> Vec<(&'static str, String)> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown", |rest| rest.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let mut facts = vec![
        ("processor", format!("{cores} x {model}")),
        (
            "kernel",
            read("/proc/sys/kernel/osrelease").trim().to_owned(),
        ),
        ("load before", read("/proc/loadavg").trim().to_owned()),
        ("benchmarks", flags.benchmarks.clone()),
        ("entries", flags.num.to_string()),
        ("reads", flags.reads().to_string()),
        ("keys", format!("{} bytes", flags.key_size)),
        (
            "values",
            format!(
                "{} bytes, compressible to {}",
                flags.value_size, flags.compression_ratio
            ),
        ),
        ("threads", flags.threads.to_string()),
        ("seconds", flags.duration.to_string()),
        ("batch size", flags.batch_size.to_string()),
        ("seek nexts", flags.seek_nexts.to_string()),
        ("log", log_words(flags).to_owned()),
        ("checksums verified", flags.verify_checksum.to_string()),
        ("operations timed", flags.histogram.to_string()),
        ("rounds", flags.round_count().to_string()),
        ("options of every engine", flags.engine_options()),
    ];
    if flags.uses_graph() {
        let (node, link) = (flags.node_datasize, flags.link_datasize);
        let medians = format!("medians of {node} bytes a node and {link} a link");
        facts.push(("graph", medians));
    }
    if let Some(cache) = flags.cache_settings() {
        facts.push(("shared cache", cache.to_string()));
    }
    if flags.databases() > 1 {
        facts.push(("databases", flags.databases().to_string()));
    }
    if let Some(remote) = flags.remote() {
        let (latency, depth) = (remote.latency, remote.queue_depth);
        let bandwidth = match remote.bandwidth {
            0 => "no limit".to_owned(),
            rate => format!("{} MB/s", rate / 1_000_000),
        };
        facts.push((
            "each read",
            format!("latency {latency:?}, bandwidth {bandwidth}, queue depth {depth}"),
        ));
    }
    if let Some(budget) = flags.memory_budget {
        facts.push(("memory budget", format!("{budget} bytes")));
    }
    if let Some(prepare) = &flags.prepare {
        facts.push(("prepared by", prepare.clone()));
    }
    facts
}

fn log_words(flags: &Flags) -> &'static str {
    match (flags.disable_wal, flags.sync) {
        (true, _) => "no log",
        (false, true) => "logged and synced",
        (false, false) => "logged, not synced",
    }
}

/// Prints the header.
///
/// # Errors
///
/// Output errors.
pub fn head(flags: &Flags, out: &mut dyn Write) -> std::io::Result<()> {
    if cfg!(debug_assertions) {
        writeln!(
            out,
            "WARNING:    built without optimization; build with --release to measure"
        )?;
    }
    writeln!(out, "Keys:       {} bytes each", flags.key_size)?;
    writeln!(
        out,
        "Values:     {} bytes each ({:.0} bytes after compression)",
        flags.value_size,
        flags.value_size as f64 * flags.compression_ratio
    )?;
    writeln!(out, "Entries:    {}", flags.num)?;
    if flags.uses_graph() {
        let (node, link) = (flags.node_datasize, flags.link_datasize);
        writeln!(
            out,
            "Graph:      medians of {node} bytes a node and {link} a link"
        )?;
    }
    let raw = flags.raw_bytes() as f64 / f64::from(1 << 20);
    writeln!(out, "RawSize:    {raw:.1} MB (estimated)")?;
    writeln!(out, "Threads:    {}", flags.threads)?;
    writeln!(out, "Engines:    {}", flags.engine_names().join(", "))?;
    writeln!(out, "DB path:    [{}]", directory(flags).display())?;
    writeln!(out, "Options:    {}", flags.engine_options())?;
    if let Some(cache) = flags.cache_settings() {
        writeln!(out, "Cache:      {cache}")?;
    }
    if flags.databases() > 1 {
        writeln!(out, "Databases:  {}", flags.databases())?;
    }
    writeln!(out, "{}", "-".repeat(48))?;
    out.flush()
}

/// Describes options that differ between engines.
#[must_use]
pub fn difference_lines(comparison: &Comparison) -> Vec<String> {
    let line = |(name, values): &(String, Vec<String>)| {
        let each = comparison.labels.iter().zip(values);
        let each: Vec<String> = each
            .map(|(label, value)| format!("{label}={value}"))
            .collect();
        format!("{name}: {}", each.join(", "))
    };
    comparison.differences.iter().map(line).collect()
}
