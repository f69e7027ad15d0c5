//! `memory`: the memory of a database with every table open.

use std::io::Write;

use cairn_types::{Error, Result};
use serde_json::Value;

use crate::args::Memory;
use crate::target::{self, Use};

/// The property that has the report.
const PROPERTY: &str = "cairn.memory";

/// Opens the database read-only and every table of it, and prints the report.
///
/// # Errors
///
/// Those of opening the database and its tables.
pub fn run(flags: &Memory, out: &mut dyn Write) -> Result<()> {
    let db = target::open(&flags.target, Use::Read)?;
    for family in db.families() {
        family.properties_of_all_tables()?;
    }
    let report = db.property(PROPERTY);
    let report = report.ok_or_else(|| Error::not_supported(PROPERTY))?;
    let text = match flags.json {
        true => report + "\n",
        false => {
            let json: Value = serde_json::from_str(&report)
                .map_err(|error| Error::corruption(format!("{PROPERTY}: {error}")))?;
            table(&json)
        }
    };
    out.write_all(text.as_bytes())
        .map_err(|error| Error::io_text(format!("print: {error}")))
}

/// Rows of a label and a number of bytes.
#[derive(Default)]
struct Table(String);

impl Table {
    fn row(&mut self, label: &str, bytes: u64) {
        self.0 += &format!("{label:<48}{:>12}\n", shown(bytes));
    }

    /// [`Table::row`], unless there is nothing to show.
    fn row_if_any(&mut self, label: &str, bytes: u64) {
        if bytes > 0 {
            self.row(label, bytes);
        }
    }
}

/// Returns the report as a table, with the largest holders listed separately.
fn table(report: &Value) -> String {
    let mut table = Table::default();
    for cache in members(&report["caches"]) {
        let families: Vec<&str> = members(&cache["families"])
            .filter_map(Value::as_str)
            .collect();
        let capacity = shown(number(&cache["capacity"]));
        let label = format!("block cache of {capacity} ({})", families.join(", "));
        table.row(&label, number(&cache["usage"]));
        for (role, entries) in cache["entries"].as_object().into_iter().flatten() {
            let label = format!("  {role} ({})", number(&entries["entries"]));
            table.row_if_any(&label, number(&entries["bytes"]));
        }
        for (what, bytes) in cache["charged"].as_object().into_iter().flatten() {
            table.row_if_any(&format!("  charged: {what}"), number(bytes));
        }
        table.row_if_any("  in use by readers", number(&cache["pinned"]));
    }
    for family in members(&report["families"]) {
        let name = family["name"].as_str().unwrap_or_default();
        let memtables = &family["memtables"];
        let all = ["mutable", "immutable", "history"].map(|kind| number(&memtables[kind]));
        table.row(&format!("{name}: memtables"), all.iter().sum());
        let tables = &family["tables"];
        let label = format!("{name}: open tables ({})", number(&tables["open"]));
        table.row(&label, number(&tables["bytes"]));
        let files = &family["files"];
        let label = format!("{name}: metadata of files ({})", number(&files["count"]));
        table.row(&label, number(&files["bytes"]));
    }
    table.row("total", number(&report["total"]));
    table.0
}

fn members(array: &Value) -> impl Iterator<Item = &Value> {
    array.as_array().into_iter().flatten()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// Returns `bytes` with a unit.
fn shown(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}
