//! The command `cache`: prints the content of a cache dump.

use std::collections::HashMap;
use std::io::Write;

use cairn::caches::{CacheDumpContent, CacheGroup};
use cairn_platform::PosixFileSystem;
use cairn_types::{Error, Result};
use serde_json::{Value, json};

use crate::args::Cache;
use crate::commands::recovered;
use crate::show::{aligned, escaped};

/// Names of column families by id.
type Names = HashMap<u32, String>;

/// Prints the dump.
pub fn run(flags: &Cache, out: &mut dyn Write) -> Result<()> {
    let content = CacheDumpContent::read(&PosixFileSystem, &flags.file)?;
    let names = match &flags.db {
        Some(dir) => recovered(dir)?
            .families
            .into_iter()
            .map(|family| (family.id, family.name))
            .collect(),
        None => Names::new(),
    };
    let text = match flags.json {
        true => format!("{}\n", to_json(&content, &names)),
        false => table(&content, &names),
    };
    out.write_all(text.as_bytes())
        .map_err(|error| Error::io_text(format!("print: {error}")))
}

fn to_json(content: &CacheDumpContent, names: &Names) -> Value {
    let group = |group: &CacheGroup| {
        json!({
            "role": group.role,
            "family_id": group.family,
            "family": group.family.and_then(|id| names.get(&id)),
            "level": group.level,
            "entries": group.entries,
            "bytes": group.bytes,
            "hits": group.hits,
            "age_p50": group.age_p50,
            "age_p90": group.age_p90,
            "age_max": group.age_max,
        })
    };
    json!({
        "seconds": content.seconds,
        "entries": content.all.blocks,
        "bytes": content.all.bytes,
        "groups": content.groups.iter().map(group).collect::<Vec<_>>(),
    })
}

/// The groups as a table. The first three columns are aligned to the left.
fn table(content: &CacheDumpContent, names: &Names) -> String {
    let head = [
        "role", "family", "level", "entries", "bytes", "hits", "age p50", "age p90", "age max",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(content.groups.iter().map(|group| {
        let family = group.family.map_or("-".to_owned(), |id| {
            let name = names.get(&id).map(|name| escaped(name.as_bytes()));
            name.unwrap_or_else(|| id.to_string())
        });
        vec![
            group.role.to_owned(),
            family,
            group
                .level
                .map_or("-".to_owned(), |level| level.to_string()),
            group.entries.to_string(),
            group.bytes.to_string(),
            group.hits.to_string(),
            group.age_p50.to_string(),
            group.age_p90.to_string(),
            group.age_max.to_string(),
        ]
    }));
    let mut text = aligned(&rows, 3);
    text += &format!(
        "{} entries, {} bytes\n",
        content.all.blocks, content.all.bytes
    );
    text
}
