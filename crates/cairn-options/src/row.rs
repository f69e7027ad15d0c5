//! One option: a row of a table of options, and the errors about it.

use std::borrow::Cow;

use cairn_types::{Error, Result};

use crate::text::Refusal;

/// The treatment of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Support {
    /// It has the effect that RocksDB documents.
    Built,
    /// Any value is accepted, because none changes what a user reads or what survives: a hint about
    /// time or space, a check that Cairn always makes, or a detail of a feature that another
    /// option refuses.
    Hint,
    /// The feature behind it is not built: values other than the default are refused when a
    /// database is opened to be written.
    Missing,
}

/// One option of the struct `S`.
pub struct Row<S> {
    /// RocksDB's name.
    pub name: &'static str,
    /// True if it can change while the database is open.
    pub dynamic: bool,
    /// True if OPTIONS files carry it.
    pub written: bool,
    /// True if RocksDB 7.8 does not know it. It is then left out of files where it has its
    /// default, so that older releases can read them.
    pub recent: bool,
    /// Its treatment.
    pub support: Support,
    /// The option's value as text.
    pub get: fn(&S) -> String,
    /// Changes the option to what a text says. Of a group, what the text does not name stays.
    pub set: fn(&mut S, &str) -> Result<(), Refusal>,
    /// Changes the option to what a text says. Of a group, what the text does not name goes back
    /// to its default.
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

/// Takes parts that do not exist out of a text, and adds their names to a list.
pub type KnownParts = for<'t> fn(&'t str, &mut Vec<String>) -> Cow<'t, str>;

/// The error of an option name that is not in the table.
#[cold]
pub(crate) fn unknown(what: &str, name: &str) -> Error {
    Error::invalid_argument(format!("unknown option {name} of {what}"))
}

/// Refuses an option of one call whose feature is not built.
pub(crate) fn refuse(asked: bool, name: &str) -> Result<()> {
    match asked {
        false => Ok(()),
        true => Err(Error::not_supported(format!(
            "option {name} asks for what Cairn does not do yet"
        ))),
    }
}

/// Refuses options of features that are not built, if there are `names`.
pub(crate) fn refuse_all(names: &[&str]) -> Result<()> {
    refuse(!names.is_empty(), &names.join(", "))
}
