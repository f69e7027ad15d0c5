//! Tables of options: what every struct made of rows can do, and the macro that declares one.

use std::borrow::Cow;

use cairn_format::options_text::statements;
use cairn_types::{Error, Result};

use crate::alias::{find, steps};
use crate::row::{Row, Support, unknown};

/// What every options struct can do.
pub trait Options: Clone + Default + Sized + 'static {
    /// What these options are called in messages.
    const WHAT: &'static str;

    /// The table, in the order of the struct.
    fn rows() -> &'static [Row<Self>];

    /// The row called `name`.
    fn row(name: &str) -> Option<&'static Row<Self>> {
        find(Self::rows(), name)
    }

    /// True if [`Options::set`] takes `name`: an option, or one of older releases.
    fn knows(&self, name: &str) -> bool {
        let group = name.split_once('.').map_or(name, |(group, _)| group);
        Self::row(group).is_some() || is_retired(name)
    }

    /// The value of the option called `name`, as text.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if there is no such option.
    fn get(&self, name: &str) -> Result<String> {
        let row = Self::row(name).ok_or_else(|| unknown(Self::WHAT, name))?;
        Ok((row.get)(self))
    }

    /// Changes the option called `name` to what `text` says.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if there is no such option, or it cannot have that value.
    fn set(&mut self, name: &str, text: &str) -> Result<()> {
        if is_retired(name) {
            return Ok(());
        }
        for step in steps(Self::WHAT, Self::rows(), name, text)? {
            let set = if step.afresh {
                step.row.replace
            } else {
                step.row.set
            };
            set(self, &step.text)
                .map_err(|refusal| Error::invalid_argument(format!("{name}={text}: {refusal}")))?;
        }
        Ok(())
    }

    /// Changes options as far as a running database can: every one of `changes`, or none.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if there is nothing to change, or names an option that does not exist,
    /// cannot have its value, or cannot change while a database is open; nothing is changed then.
    fn set_dynamic<N: AsRef<str>, V: AsRef<str>>(&mut self, changes: &[(N, V)]) -> Result<()> {
        if changes.is_empty() {
            return Err(Error::invalid_argument("empty input"));
        }
        let mut changed = self.clone();
        for (name, text) in changes {
            let (name, text) = (name.as_ref(), text.as_ref());
            if !is_retired(name) {
                let steps = steps(Self::WHAT, Self::rows(), name, text)?;
                if steps.iter().any(|step| !step.row.dynamic) {
                    return Err(Error::invalid_argument(format!(
                        "Option not changeable: {name}"
                    )));
                }
            }
            changed.set(name, text)?;
        }
        *self = changed;
        Ok(())
    }

    /// The defaults, changed by `text`: `name=value;name={name=value;...}`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` names the first option that does not exist or cannot have its value.
    fn from_text(text: &str) -> Result<Self> {
        let mut options = Self::default();
        options.update_from(text)?;
        Ok(options)
    }

    /// Changes these options by `text`; those that it does not name stay as they are.
    ///
    /// # Errors
    ///
    /// Those of [`Options::from_text`]; the options are then unchanged.
    fn update_from(&mut self, text: &str) -> Result<()> {
        let mut changed = self.clone();
        apply(&mut changed, text)?;
        *self = changed;
        Ok(())
    }

    /// [`Options::update_from`], passing over options that do not exist; their names.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` names the first option that cannot have its value; nothing is changed.
    fn update_from_known(&mut self, text: &str) -> Result<Vec<String>> {
        let mut changed = self.clone();
        let mut unknown = Vec::new();
        for (name, value) in split(text)? {
            match changed.knows(name) {
                true => changed.set(name, value)?,
                false => unknown.push(name.to_owned()),
            }
        }
        *self = changed;
        Ok(unknown)
    }

    /// Every option with its value, so that [`Options::from_text`] gives these options back.
    fn to_text(&self) -> String {
        let mut text = String::new();
        for row in Self::rows() {
            text.push_str(&format!("{}={};", row.name, (row.get)(self)));
        }
        text
    }

    /// The rows that a text needs, so that it says what these options are in words that older
    /// releases know as far as possible.
    fn rows_to_say(&self) -> impl Iterator<Item = &'static Row<Self>> {
        let default = Self::default();
        Self::rows()
            .iter()
            .filter(move |row| !row.recent || (row.get)(self) != (row.get)(&default))
    }

    /// [`Options::to_text`] without recent options that have their default.
    fn to_old_text(&self) -> String {
        let mut text = String::new();
        for row in self.rows_to_say() {
            text.push_str(&format!("{}={};", row.name, (row.get)(self)));
        }
        text
    }

    /// Names of the options whose value asks for a feature that Cairn does not have.
    fn unsupported(&self) -> Vec<&'static str> {
        let default = Self::default();
        Self::rows()
            .iter()
            .filter(|row| row.support == Support::Missing)
            .filter(|row| (row.get)(self) != (row.get)(&default))
            .map(|row| row.name)
            .collect()
    }
}

/// Options of older releases that RocksDB still accepts and passes over, so that old OPTIONS files
/// can be read.
const RETIRED: &[&str] = &[
    "access_hint_on_compaction_start",
    "allow_os_buffer",
    "base_background_compactions",
    "check_flush_compaction_key_order",
    "disableDataSync",
    "disable_data_sync",
    "expanded_compaction_factor",
    "fail_if_options_file_error",
    "filter_deletes",
    "hard_rate_limit",
    "hash_index_allow_collision",
    "ignore_max_compaction_bytes_for_input",
    "level_compaction_dynamic_file_size",
    "max_grandparent_overlap_factor",
    "max_mem_compaction_level",
    "max_write_buffer_number_to_maintain",
    "new_table_reader_for_compaction_inputs",
    "preserve_deletes",
    "purge_redundant_kvs_while_flush",
    "random_access_max_buffer_size",
    "rate_limit_delay_max_milliseconds",
    "skip_checking_sst_file_sizes_on_db_open",
    "skip_log_error_on_recovery",
    "snap_refresh_nanos",
    "soft_rate_limit",
    "source_compaction_factor",
    "table_cache_remove_scan_count_limit",
    "verify_checksums_in_compaction",
];

/// True if `name` is an option of older releases that means nothing any more.
pub(crate) fn is_retired(name: &str) -> bool {
    RETIRED.contains(&name)
}

/// Sets every option that `text` names, in its order.
pub(crate) fn apply<S: Options>(options: &mut S, text: &str) -> Result<()> {
    for (name, value) in split(text)? {
        options.set(name, value)?;
    }
    Ok(())
}

/// The statements `name=value` of a text, where a value in braces may hold statements itself.
pub(crate) fn split(text: &str) -> Result<Vec<(&str, &str)>> {
    statements(text).map_err(|error| Error::invalid_argument(format!("{error} in option text")))
}

/// The text of a group of options without the statements that name options of other releases; their
/// names are added to `unknown`. A text that is malformed is left for its parser to refuse.
pub(crate) fn known_statements<'t, S: Options>(
    text: &'t str,
    unknown: &mut Vec<String>,
) -> Cow<'t, str> {
    let inner = text.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
    let Ok(all) = statements(inner.unwrap_or(text)) else {
        return Cow::Borrowed(text);
    };
    let mut kept = String::new();
    for (name, value) in all {
        let Some(row) = S::row(name) else {
            match is_retired(name) {
                true => kept.push_str(&format!("{name}={value};")),
                false => unknown.push(name.to_owned()),
            }
            continue;
        };
        let mut parts = Vec::new();
        let value = (row.known_parts)(value, &mut parts);
        unknown.extend(parts.into_iter().map(|part| format!("{name}.{part}")));
        kept.push_str(&format!("{name}={value};"));
    }
    Cow::Owned(format!("{{{kept}}}"))
}

/// Declares an options struct from rows of the form
/// `name: Type = default;`, with an optional text name in parentheses where RocksDB's name is no
/// Rust identifier in snake case, and optional words behind the default:
/// `dynamic`, `unwritten` (not in OPTIONS files), `recent` (see [`Row`]), `hint` and `missing` (see
/// [`Support`]).
macro_rules! options {
    (
        $(#[$sdoc:meta])*
        $name:ident, $what:literal {
            $($(#[$doc:meta])* $field:ident $(($text:literal))? : $type:ty = $default:expr $(, $word:ident)*;)+
        }
    ) => {
        $(#[$sdoc])*
        #[derive(Clone)]
        pub struct $name { $($(#[$doc])* pub $field: $type,)+ }

        impl $crate::text::Text for $name {
            fn parse(text: &str) -> Result<$name, $crate::text::Refusal> {
                let mut options = <$name>::default();
                $crate::text::Text::update(&mut options, text)?;
                Ok(options)
            }

            fn print(&self) -> String {
                format!("{{{}}}", $crate::rows::Options::to_old_text(self))
            }

            fn update(&mut self, text: &str) -> Result<(), $crate::text::Refusal> {
                let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
                $crate::rows::apply(self, inner.unwrap_or(text))
                    .map_err(|error| error.text().to_owned())
            }

            fn known_parts<'t>(text: &'t str, unknown: &mut Vec<String>) -> std::borrow::Cow<'t, str> {
                $crate::rows::known_statements::<$name>(text, unknown)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}{{{}}}", $what, $crate::rows::Options::to_text(self))
            }
        }

        impl Default for $name {
            fn default() -> $name {
                $name { $($field: $default,)+ }
            }
        }

        impl $crate::rows::Options for $name {
            const WHAT: &'static str = $what;

            fn rows() -> &'static [$crate::row::Row<$name>] {
                const ROWS: &[$crate::row::Row<$name>] = &[$($crate::rows::row!(
                    $name, $field, $type, ($($text)?), ($($word)*)
                ),)+];
                ROWS
            }
        }
    };
}

/// One row as a constant.
macro_rules! row {
    ($name:ident, $field:ident, $type:ty, ($($text:literal)?), ($($word:ident)*)) => {{
        #[allow(unused_mut, reason = "a row without words changes nothing")]
        let mut row = $crate::row::Row::<$name> {
            name: $crate::rows::row_name!($field $($text)?),
            dynamic: false,
            written: true,
            recent: false,
            support: $crate::row::Support::Built,
            get: |options| <$type as $crate::text::Text>::print(&options.$field),
            set: |options, text| <$type as $crate::text::Text>::update(&mut options.$field, text),
            replace: |options, text| {
                options.$field = <$type as $crate::text::Text>::parse(text)?;
                Ok(())
            },
            known_parts: <$type as $crate::text::Text>::known_parts,
        };
        $($crate::rows::row_word!(row $word);)*
        row
    }};
}

/// The name of a row: the text where one is given, else the field.
macro_rules! row_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $text:literal) => {
        $text
    };
}

/// The meaning of a word behind a row.
macro_rules! row_word {
    ($row:ident dynamic) => {
        $row.dynamic = true
    };
    ($row:ident unwritten) => {
        $row.written = false
    };
    ($row:ident recent) => {
        $row.recent = true
    };
    ($row:ident hint) => {
        $row.support = $crate::row::Support::Hint
    };
    ($row:ident missing) => {
        $row.support = $crate::row::Support::Missing
    };
}

pub(crate) use {options, row, row_name, row_word};
