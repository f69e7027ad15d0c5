//! Option rows, and their errors.

use std::borrow::Cow;

use cairn_types::{Error, Result};

use crate::text::Refusal;

/// Support of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Support {
    /// Implemented as RocksDB documents it.
    Built,
    /// Accepted without effect, because its value changes neither results nor durability: a
    /// performance hint, a check that is always made, or a detail of a feature that is rejected by
    /// another option.
    Hint,
    /// Not implemented: values other than the default are rejected when a database is opened for
    /// writing.
    Missing,
}

/// An option of the struct `S`.
pub struct Row<S> {
    /// RocksDB's name.
    pub name: &'static str,
    /// True if it can be changed at run time.
    pub dynamic: bool,
    /// True if it is written to OPTIONS files.
    pub written: bool,
    /// True if RocksDB 7.8 does not know it. It is omitted from files at its default value, so that
    /// older releases can read them.
    pub recent: bool,
    /// Its support.
    pub support: Support,
    /// Returns the value as text.
    pub get: fn(&S) -> String,
    /// Returns the value as text for a line of an OPTIONS file.
    pub get_line: fn(&S) -> String,
    /// Sets the value from a text. Members of a struct that the text does not name are kept.
    pub set: fn(&mut S, &str) -> Result<(), Refusal>,
    /// Sets the value from a text. Members of a struct that the text does not name are reset to their
    /// defaults.
    pub replace: fn(&mut S, &str) -> Result<(), Refusal>,
    /// [`Text::known_parts`](crate::text::Text::known_parts) of the option's type.
    pub known_parts: KnownParts,
}

impl<S> std::fmt::Debug for Row<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Row")
            .field("name", &self.name)
            .field("dynamic", &self.dynamic)
            .field("support", &self.support)
            .finish_non_exhaustive()
    }
}

/// Removes unknown members from a text and appends their names to a list.
pub type KnownParts = for<'t> fn(&'t str, &mut Vec<String>) -> Cow<'t, str>;

/// Returns the error for an unknown option.
#[cold]
pub(crate) fn unknown(what: &str, name: &str) -> Error {
    Error::invalid_argument(format!("unknown option {name} of {what}"))
}

/// Rejects an unsupported option of an operation.
pub(crate) fn refuse(asked: bool, name: &str) -> Result<()> {
    match asked {
        false => Ok(()),
        true => Err(Error::not_supported(format!(
            "option {name} is not supported yet"
        ))),
    }
}

/// Returns the error for the unsupported options `names`, if there are any.
pub(crate) fn refuse_all(names: &[&str]) -> Result<()> {
    refuse(!names.is_empty(), &names.join(", "))
}
