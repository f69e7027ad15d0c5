//! Option tables: the trait implemented by every options struct, and the macro that declares one.

use std::borrow::Cow;

use cairn_format::options_text::statements;
use cairn_types::{Error, Result};

use crate::alias::{check_effect, find, is_in_effect, steps};
use crate::row::{Row, Support, unknown};
use crate::text::unbraced;

/// An options struct.
pub trait Options: Clone + Default + Sized + 'static {
    /// Its name in messages.
    const WHAT: &'static str;

    /// Its rows, in field order.
    fn rows() -> &'static [Row<Self>];

    /// Returns the row `name`.
    fn row(name: &str) -> Option<&'static Row<Self>> {
        find(Self::rows(), name)
    }

    /// True if [`Options::set`] accepts `name`, a current or an old name.
    fn knows(&self, name: &str) -> bool {
        let group = name.split_once('.').map_or(name, |(group, _)| group);
        Self::row(group).is_some() || is_retired(Self::WHAT, name)
    }

    /// Returns the value of option `name` as text.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the option does not exist.
    fn get(&self, name: &str) -> Result<String> {
        let row = Self::row(name).ok_or_else(|| unknown(Self::WHAT, name))?;
        Ok((row.get)(self))
    }

    /// Sets option `name` from `text`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the option does not exist, the value is invalid, or the option belongs to a table format other
    /// than that of new tables.
    fn set(&mut self, name: &str, text: &str) -> Result<()> {
        if is_retired(Self::WHAT, name) {
            return Ok(());
        }
        for step in steps(Self::WHAT, Self::rows(), name, text)? {
            let set = if step.reset_members {
                step.row.replace
            } else {
                step.row.set
            };
            check_effect(Self::rows(), self, step.row.name)
                .and_then(|()| set(self, &step.text))
                .map_err(|refusal| Error::invalid_argument(format!("{name}={text}: {refusal}")))?;
        }
        Ok(())
    }

    /// Applies all of `changes` to the options of a running database, or none.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if `changes` is empty, or for an option that does not exist, is not changeable, or has an invalid value; nothing is then changed.
    fn set_dynamic<N: AsRef<str>, V: AsRef<str>>(&mut self, changes: &[(N, V)]) -> Result<()> {
        if changes.is_empty() {
            return Err(Error::invalid_argument("empty input"));
        }
        let mut changed = self.clone();
        for (name, text) in changes {
            let (name, text) = (name.as_ref(), text.as_ref());
            if !is_retired(Self::WHAT, name) {
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

    /// Parses `name=value;name={name=value;...}` on top of the defaults.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for the first unknown option or invalid value.
    fn from_text(text: &str) -> Result<Self> {
        let mut options = Self::default();
        options.update_from(text)?;
        Ok(options)
    }

    /// Sets the options in `text`; others are kept.
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

    /// Like [`Options::update_from`], but ignores unknown options, unknown members of structs and options with unknown
    /// values, and returns their names.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the text is malformed; nothing is then changed.
    fn update_from_known(&mut self, text: &str) -> Result<Vec<String>> {
        let mut changed = self.clone();
        let mut unknown = Vec::new();
        for (name, value) in split(text)? {
            if !changed.knows(name) {
                unknown.push(name.to_owned());
                continue;
            }
            let mut members = Vec::new();
            let value = match Self::row(name) {
                Some(row) => (row.known_parts)(value, &mut members),
                None => Cow::Borrowed(value),
            };
            unknown.extend(members.iter().map(|member| format!("{name}.{member}")));
            if changed.set(name, &value).is_err() {
                unknown.push(name.to_owned());
            }
        }
        *self = changed;
        Ok(unknown)
    }

    /// Returns every option with its value, in the form that [`Options::from_text`] parses, except the options of table
    /// formats other than that of new tables.
    fn to_text(&self) -> String {
        let mut text = String::new();
        let rows = Self::rows().iter();
        for row in rows.filter(|row| is_in_effect(Self::rows(), self, row.name)) {
            text.push_str(&format!("{}={};", row.name, (row.get)(self)));
        }
        text
    }

    /// Returns the rows to record for these options: all but those that have no effect, and those that older releases of
    /// RocksDB do not know and that have their defaults.
    fn rows_to_say(&self) -> impl Iterator<Item = &'static Row<Self>> {
        let default = Self::default();
        Self::rows()
            .iter()
            .filter(move |row| !row.recent || (row.get)(self) != (row.get)(&default))
            .filter(|row| is_in_effect(Self::rows(), self, row.name))
    }

    /// [`Options::to_text`] without recent options at their defaults.
    fn to_old_text(&self) -> String {
        let mut text = String::new();
        for row in self.rows_to_say() {
            text.push_str(&format!("{}={};", row.name, (row.get)(self)));
        }
        text
    }

    /// Returns the options whose values require unsupported features.
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

/// Retired options that RocksDB still accepts and ignores, so that old OPTIONS files can be read.
const RETIRED: &[&str] = &[
    "access_hint_on_compaction_start",
    "allow_os_buffer",
    "base_background_compactions",
    "block_cache_compressed",
    "bottommost_temperature",
    "check_flush_compaction_key_order",
    "compaction_measure_io_stats",
    "concurrent_prepare",
    "disableDataSync",
    "disable_data_sync",
    "expanded_compaction_factor",
    "experimental_allow_mempurge",
    "experimental_mempurge_policy",
    "fail_if_options_file_error",
    "filter_deletes",
    "hard_rate_limit",
    "hash_index_allow_collision",
    "ignore_max_compaction_bytes_for_input",
    "index_per_partition",
    "level_compaction_dynamic_file_size",
    "max_grandparent_overlap_factor",
    "max_mem_compaction_level",
    "max_write_buffer_number_to_maintain",
    "memtable_prefix_bloom_bits",
    "memtable_prefix_bloom_huge_page_tlb_size",
    "memtable_prefix_bloom_probes",
    "min_partial_merge_operands",
    "new_table_reader_for_compaction_inputs",
    "preserve_deletes",
    "purge_redundant_kvs_while_flush",
    "random_access_max_buffer_size",
    "rate_limit_delay_max_milliseconds",
    "rate_limiter",
    "reserve_table_builder_memory",
    "reserve_table_reader_memory",
    "seq_per_batch",
    "skip_checking_sst_file_sizes_on_db_open",
    "skip_log_error_on_recovery",
    "skip_table_builder_flush",
    "snap_refresh_nanos",
    "soft_rate_limit",
    "source_compaction_factor",
    "table_cache_remove_scan_count_limit",
    "use_direct_writes",
    "verify_checksums_in_compaction",
];

/// True if `name` is a retired option.
///
/// `what` is the struct: `ttl` of FIFO compaction became an option of the family.
pub(crate) fn is_retired(what: &str, name: &str) -> bool {
    RETIRED.contains(&name) || (what, name) == ("CompactionOptionsFIFO", "ttl")
}

/// Sets the options in `text`, in order.
pub(crate) fn apply<S: Options>(options: &mut S, text: &str) -> Result<()> {
    for (name, value) in split(text)? {
        options.set(name, value)?;
    }
    Ok(())
}

/// Splits a text into assignments `name=value`, whose values may be structs in braces.
pub(crate) fn split(text: &str) -> Result<Vec<(&str, &str)>> {
    statements(unbraced(text.trim()))
        .map_err(|error| Error::invalid_argument(format!("{error} in option text")))
}

/// Returns the text of a struct without members of other releases, whose names are appended to
/// `unknown`. Malformed texts are left to the parser.
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
            match is_retired(S::WHAT, name) {
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

/// Declares an options struct from rows of the form `name: Type = default;`, with an optional text
/// name in parentheses where RocksDB's name is not a snake-case Rust identifier, and optional
/// attributes after the default: `dynamic`, `unwritten` (not in OPTIONS files), `recent` (see
/// [`Row`]), `hint` and `missing` (see [`Support`]).
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

/// A row as a constant.
macro_rules! row {
    ($name:ident, $field:ident, $type:ty, ($($text:literal)?), ($($word:ident)*)) => {{
        #[allow(unused_mut, reason = "a row without attributes changes nothing")]
        let mut row = $crate::row::Row::<$name> {
            name: $crate::rows::row_name!($field $($text)?),
            dynamic: false,
            written: true,
            recent: false,
            support: $crate::row::Support::Built,
            get: |options| <$type as $crate::text::Text>::print(&options.$field),
            get_line: |options| <$type as $crate::text::Text>::print_line(&options.$field),
            set: |options, text| <$type as $crate::text::Text>::update(&mut options.$field, text),
            replace: |options, text| {
                options.$field = <$type as $crate::text::Text>::parse(text)?;
                Ok(())
            },
            known_parts: <$type as $crate::text::Text>::known_parts,
        };
        $($crate::rows::row_attribute!(row $word);)*
        row
    }};
}

/// The name of a row: the explicit text, or the field name.
macro_rules! row_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $text:literal) => {
        $text
    };
}

/// The meaning of a row attribute.
macro_rules! row_attribute {
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

pub(crate) use {options, row, row_attribute, row_name};
