//! Other spellings of options: names of older releases, parts of a group (`compression_opts.level`),
//! and objects with their options (`table_factory={id=BlockBasedTable;block_size=8K}`).

use std::borrow::Cow;

use cairn_types::{Error, Result};

use crate::rows::{Options, Row, unknown};
use crate::text::object;

/// The options of the block-based table stand in a row of their own.
const TABLE_FACTORY: &str = "table_factory";
const TABLE_OPTIONS: &str = "block_based_table_factory";
const BLOCK_BASED: &str = "BlockBasedTable";

/// One change of one row.
pub(crate) struct Step<'t, S: 'static> {
    pub(crate) row: &'static Row<S>,
    pub(crate) text: Cow<'t, str>,
    /// Whether parts that the text does not name go back to their defaults.
    pub(crate) afresh: bool,
}

/// The name by which a row goes today.
pub(crate) fn present_name(name: &str) -> &str {
    match name {
        // As 11.1 wrote it.
        "memtable_veirfy_per_key_checksum_on_seek" => "memtable_verify_per_key_checksum_on_seek",
        "memtable" => "memtable_factory",
        _ => name,
    }
}

/// The changes of rows that `name=text` asks for.
pub(crate) fn steps<'t, S: Options>(name: &str, text: &'t str) -> Result<Vec<Step<'t, S>>> {
    if name == TABLE_FACTORY && text.starts_with('{') && S::row(TABLE_OPTIONS).is_some() {
        return table_factory(text);
    }
    if let Some(row) = S::row(name) {
        let text = Cow::Borrowed(text);
        return Ok(vec![Step {
            row,
            text,
            afresh: false,
        }]);
    }
    let (group, part) = name.split_once('.').ok_or_else(|| unknown(S::WHAT, name))?;
    let group = match group {
        TABLE_FACTORY => TABLE_OPTIONS,
        _ => group,
    };
    let is_group = |row: &&Row<S>| (row.get)(&S::default()).starts_with('{');
    let row = S::row(group)
        .filter(is_group)
        .ok_or_else(|| unknown(S::WHAT, name))?;
    let text = Cow::Owned(format!("{{{part}={text}}}"));
    Ok(vec![Step {
        row,
        text,
        afresh: false,
    }])
}

/// A kind of table with its options: a new object, so what is not named has its default.
fn table_factory<'t, S: Options>(text: &'t str) -> Result<Vec<Step<'t, S>>> {
    let refused = |why| Error::invalid_argument(format!("{TABLE_FACTORY}={text}: {why}"));
    let (id, properties) = object(text).map_err(refused)?;
    let row = |name| S::row(name).ok_or_else(|| unknown(S::WHAT, name));
    let mut steps = vec![Step {
        row: row(TABLE_FACTORY)?,
        text: Cow::Borrowed(id),
        afresh: false,
    }];
    if id == BLOCK_BASED {
        let said: Vec<String> = properties
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let text = Cow::Owned(format!("{{{}}}", said.join(";")));
        steps.push(Step {
            row: row(TABLE_OPTIONS)?,
            text,
            afresh: true,
        });
    } else if !properties.is_empty() {
        return Err(refused(format!("options of {id} are not known")));
    }
    Ok(steps)
}
