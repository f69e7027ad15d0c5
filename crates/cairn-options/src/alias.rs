//! Alternative spellings of options: names from older releases, members of a struct option
//! (`compression_opts.level`), and objects with their options
//! (`table_factory={id=BlockBasedTable;block_size=8K}`).

use std::borrow::Cow;

use cairn_types::{Error, Result};

use crate::row::{Row, unknown};
use crate::text::{Refusal, Text, object};

const TABLE_FACTORY: &str = "table_factory";
/// The formats of tables, each with the row of its options.
const TABLE_OPTIONS: [(&str, &str); 3] = [
    ("BlockBasedTable", "block_based_table_factory"),
    ("PlainTable", "plain_table_factory"),
    ("CuckooTable", "cuckoo_table_factory"),
];

/// One assignment to a row.
pub(crate) struct Step<'t, S: 'static> {
    pub(crate) row: &'static Row<S>,
    pub(crate) text: Cow<'t, str>,
    /// True if members that the text does not name are reset to their defaults.
    pub(crate) reset_members: bool,
}

/// Returns the current name of an option.
fn present_name(name: &str) -> &str {
    match name {
        // The spelling in RocksDB 11.1.
        "memtable_veirfy_per_key_checksum_on_seek" => "memtable_verify_per_key_checksum_on_seek",
        "memtable" => "memtable_factory",
        "table_properties_collectors" => "table_properties_collector_factories",
        _ => name,
    }
}

/// Returns the row of `rows` with this current or old name.
pub(crate) fn find<'r, S>(rows: &'r [Row<S>], name: &str) -> Option<&'r Row<S>> {
    let name = present_name(name);
    rows.iter().find(|row| row.name == name)
}

/// Returns the assignments that `name=text` stands for. `what` names the options struct in errors.
pub(crate) fn steps<'t, S: Default>(
    what: &str,
    rows: &'static [Row<S>],
    name: &str,
    text: &'t str,
) -> Result<Vec<Step<'t, S>>> {
    if name == TABLE_FACTORY && text.starts_with('{') && find(rows, TABLE_OPTIONS[0].1).is_some() {
        return table_factory(what, rows, text);
    }
    if let Some(row) = find(rows, name) {
        let text = match row.name {
            "memtable_factory" => memtable_factory(text)?,
            "compression_opts" | "bottommost_compression_opts" | "blob_compression_opts"
                if !text.contains('=') =>
            {
                Cow::Owned(compression_list(name, text)?)
            }
            // The form of old releases, when it was the only member.
            "compaction_options_fifo" if !text.contains('=') => {
                Cow::Owned(format!("{{max_table_files_size={text}}}"))
            }
            _ => Cow::Borrowed(text),
        };
        return Ok(vec![Step {
            row,
            text,
            reset_members: false,
        }]);
    }
    let (group, part) = name.split_once('.').ok_or_else(|| unknown(what, name))?;
    let group = match group {
        TABLE_FACTORY => TABLE_OPTIONS[0].1,
        _ => group,
    };
    let is_group = |row: &&Row<S>| (row.get)(&S::default()).starts_with('{');
    let row = find(rows, group)
        .filter(is_group)
        .ok_or_else(|| unknown(what, name))?;
    let text = Cow::Owned(format!("{{{part}={text}}}"));
    Ok(vec![Step {
        row,
        text,
        reset_members: false,
    }])
}

/// False if row `name` holds the options of a table format other than that of new tables in `options`.
pub(crate) fn is_in_effect<S>(rows: &[Row<S>], options: &S, name: &str) -> bool {
    match TABLE_OPTIONS.iter().find(|(_, row)| *row == name) {
        Some((format, _)) => {
            find(rows, TABLE_FACTORY).is_none_or(|row| (row.get)(options) == *format)
        }
        None => true,
    }
}

/// Rejects a change of row `name` of `options` that would have no effect.
pub(crate) fn check_effect<S>(rows: &[Row<S>], options: &S, name: &str) -> Result<(), Refusal> {
    match is_in_effect(rows, options, name) {
        true => Ok(()),
        false => Err(
            "new tables have another format; choose this one with table_factory={id=...} first"
                .to_owned(),
        ),
    }
}

/// Parses a memtable factory: a short name or an object. Numeric parameters (buckets, reserved size)
/// are ignored.
fn memtable_factory(text: &str) -> Result<Cow<'_, str>> {
    let refused = |why| Error::invalid_argument(format!("memtable_factory={text}: {why}"));
    let (id, properties) = object(text).map_err(refused)?;
    let (name, numbers) = id
        .split_once(':')
        .map_or((id, None), |(name, rest)| (name, Some(rest)));
    let numbers = numbers.into_iter().flat_map(|rest| rest.split(':'));
    for number in numbers.chain(properties.iter().map(|(_, value)| *value)) {
        if i64::parse(number).is_err() && bool::parse(number).is_err() {
            return Err(refused(format!("expected a number, found {number}")));
        }
    }
    Ok(Cow::Borrowed(match name {
        "skip_list" => "SkipListFactory",
        "vector" => "VectorRepFactory",
        "prefix_hash" => "HashSkipListRepFactory",
        "hash_linkedlist" => "HashLinkListRepFactory",
        other => other,
    }))
}

/// Converts the old form of codec options, `WINDOW_BITS:LEVEL:STRATEGY[:MAX_DICT_BYTES[:...]]`, to
/// a struct. `parallel_threads` was added after `enabled`, so a list of six parts ends with
/// `enabled`.
fn compression_list(name: &str, text: &str) -> Result<String> {
    const PARTS: [&str; 9] = [
        "window_bits",
        "level",
        "strategy",
        "max_dict_bytes",
        "zstd_max_train_bytes",
        "parallel_threads",
        "enabled",
        "max_dict_buffer_bytes",
        "use_zstd_dict_trainer",
    ];
    let values: Vec<&str> = text.split(':').collect();
    if !(3..=PARTS.len()).contains(&values.len()) {
        return Err(Error::invalid_argument(format!(
            "{name}={text}: expected 3 to {} parts, or {{level=...}}",
            PARTS.len()
        )));
    }
    let mut parts = PARTS.to_vec();
    if values.len() == 6 {
        parts.remove(5);
    }
    let said: Vec<String> = parts
        .iter()
        .zip(values)
        .map(|(part, value)| format!("{part}={value}"))
        .collect();
    Ok(format!("{{{}}}", said.join(";")))
}

/// Parses a table factory with its options. The text creates a new object, so members it does not
/// name have their defaults.
fn table_factory<'t, S>(
    what: &str,
    rows: &'static [Row<S>],
    text: &'t str,
) -> Result<Vec<Step<'t, S>>> {
    let refused = |why| Error::invalid_argument(format!("{TABLE_FACTORY}={text}: {why}"));
    let (id, properties) = object(text).map_err(refused)?;
    let row = |name| find(rows, name).ok_or_else(|| unknown(what, name));
    let mut steps = vec![Step {
        row: row(TABLE_FACTORY)?,
        text: Cow::Borrowed(id),
        reset_members: false,
    }];
    let options = TABLE_OPTIONS.iter().find(|(known, _)| *known == id);
    if let Some((_, options)) = options {
        let said: Vec<String> = properties
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let text = Cow::Owned(format!("{{{}}}", said.join(";")));
        steps.push(Step {
            row: row(options)?,
            text,
            reset_members: true,
        });
    } else if !properties.is_empty() {
        return Err(refused(format!("the options of {id} are not known")));
    }
    Ok(steps)
}
