//! Prints tables: footer, parts, properties, range tombstones, entries.

use std::sync::Arc;

use cairn_format::key;
use cairn_format::table::Footer;
use cairn_platform::Io;
use cairn_table::{IterOptions, Table, TableIter};
use cairn_types::{Progress, Result};

use super::Page;
use crate::show::{escaped, hex};
use crate::tables;

pub(super) fn show(page: &mut Page<'_>) -> Result<()> {
    let io = Io::blocking();
    let table = tables::open(&page.path, &io)?;
    show_footer(page, &table)?;
    show_properties(page, &table)?;
    if let Some(fragments) = table.range_tombstones() {
        page.line("range tombstones")?;
        for fragment in fragments.iter() {
            let seqs: Vec<String> = fragment.seqs().iter().map(ToString::to_string).collect();
            let (start, end) = (page.bytes(fragment.start), page.bytes(fragment.end));
            page.line(format_args!("  {start} .. {end} @{}", seqs.join(", ")))?;
        }
    }
    if page.flags.entries {
        show_entries(page, &table, &io)?;
    }
    match table.verify_checksums(&io) {
        Ok(()) if table.flat_format().is_some() => page.line("all entries can be decoded"),
        Ok(()) => page.line("all checksums match"),
        Err(error) => page.damage(error),
    }
}

fn show_footer(page: &mut Page<'_>, table: &Table) -> Result<()> {
    match table.flat_format() {
        Some(format) => page.line(format_args!("format {}, without checksums", format.name()))?,
        None => show_block_based_footer(page, table.footer())?,
    }
    for (name, handle) in table.parts().iter() {
        page.line(format_args!(
            "{} at offset {}, {} bytes",
            escaped(name),
            handle.offset,
            handle.size
        ))?;
    }
    Ok(())
}

fn show_block_based_footer(page: &mut Page<'_>, footer: &Footer) -> Result<()> {
    page.line(format_args!("format version {}", footer.version))?;
    page.line(format_args!("checksum {:?}", footer.checksum))?;
    page.line(format_args!(
        "metaindex at offset {}, {} bytes",
        footer.metaindex.offset, footer.metaindex.size
    ))?;
    match footer.index {
        Some(index) => page.line(format_args!(
            "index at offset {}, {} bytes",
            index.offset, index.size
        )),
        None => Ok(()),
    }
}

fn show_properties(page: &mut Page<'_>, table: &Table) -> Result<()> {
    let properties = table.properties();
    page.line("properties")?;
    for (name, value) in properties.rows() {
        page.line(format_args!("  {name} = {value}"))?;
    }
    let known = [
        (
            "index kind",
            properties.index_kind.map(|kind| format!("{kind:?}")),
        ),
        (
            "global sequence number",
            table.global_seqno().map(|seq| seq.to_string()),
        ),
        (
            "external file version",
            properties
                .external_version
                .map(|version| version.to_string()),
        ),
        (
            "timestamps",
            properties
                .timestamps
                .as_ref()
                .map(|(min, max)| format!("{} to {}", hex(min), hex(max))),
        ),
    ];
    for (name, value) in known {
        if let Some(value) = value {
            page.line(format_args!("  {name} = {value}"))?;
        }
    }
    for (name, value) in &properties.others {
        page.line(format_args!("  {} = {}", escaped(name), escaped(value)))?;
    }
    Ok(())
}

fn show_entries(page: &mut Page<'_>, table: &Arc<Table>, io: &Io) -> Result<()> {
    page.line("entries")?;
    let options = IterOptions {
        fill_cache: false,
        ..IterOptions::default()
    };
    let mut iter = TableIter::new(table.clone(), options);
    let mut step: Progress = iter.seek_to_first();
    loop {
        iter.complete(step, io);
        if !iter.valid() {
            break;
        }
        match key::parse(iter.key()) {
            Ok(parsed) => {
                let (key, value) = (page.bytes(parsed.user_key), page.bytes(iter.value()));
                page.line(format_args!(
                    "  {key} @{} {:?} = {value}",
                    parsed.seq, parsed.kind
                ))?;
            }
            Err(error) => page.damage(format_args!("{} {error}", hex(iter.key())))?,
        }
        step = iter.next();
    }
    match iter.status() {
        Ok(()) => Ok(()),
        Err(error) => page.damage(error),
    }
}
