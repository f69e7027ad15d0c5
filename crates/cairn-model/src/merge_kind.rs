//! Merge operators of scripts.

use std::fmt;
use std::str::FromStr;

use cairn_types::{Error, Result};

/// Merge operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MergeKind {
    /// No operator; scripts contain no operands.
    #[default]
    None,
    /// `uint64add`: adds 8-byte little-endian numbers; values of another length count as 0.
    Add,
    /// `stringappend`: joins with commas.
    Append,
    /// `put`: the last operand wins.
    Put,
    /// `max`: the bytewise largest wins.
    Max,
}

/// Names of the operators in scripts.
const MERGE_NAMES: [(MergeKind, &str); 5] = [
    (MergeKind::None, "none"),
    (MergeKind::Add, "uint64add"),
    (MergeKind::Append, "stringappend"),
    (MergeKind::Put, "put"),
    (MergeKind::Max, "max"),
];

impl fmt::Display for MergeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = MERGE_NAMES.iter().find(|(kind, _)| kind == self);
        f.write_str(named.expect("every kind has a name").1)
    }
}

impl FromStr for MergeKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<MergeKind> {
        let named = MERGE_NAMES.iter().find(|(_, name)| *name == text);
        named
            .map(|(kind, _)| *kind)
            .ok_or_else(|| Error::invalid_argument(format!("unknown merge operator {text:?}")))
    }
}

impl MergeKind {
    /// Returns the result of `operand` applied to `existing`.
    #[must_use]
    pub fn apply(self, existing: Option<&[u8]>, operand: &[u8]) -> Vec<u8> {
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        match (self, existing) {
            (MergeKind::Add, existing) => existing
                .map_or(0, number)
                .wrapping_add(number(operand))
                .to_le_bytes()
                .to_vec(),
            (MergeKind::Append, Some(existing)) => [existing, b",", operand].concat(),
            (MergeKind::Max, Some(existing)) => existing.max(operand).to_vec(),
            _ => operand.to_vec(),
        }
    }
}
