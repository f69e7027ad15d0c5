//! The accepted differences, listed in `tests/interop/differences.toml`.

use serde::Deserialize;

/// The list.
const LIST: &str = include_str!("../../differences.toml");

/// The file: an array of tables `[[difference]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    difference: Vec<Difference>,
}

/// A row. `*` in a pattern matches any text.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// The operation as printed in a script; alternatives are separated by ` | `.
    pub op: String,
    /// The option set; any set if absent.
    #[serde(default = "any")]
    pub set: String,
    /// RocksDB's result.
    pub rocksdb: String,
    /// Cairn's result.
    pub cairn: String,
    /// The reason why they may differ.
    pub reason: String,
}

impl Difference {
    /// True if the row accepts these results.
    #[must_use]
    pub fn covers(&self, set: &str, op: &str, rocksdb: &str, cairn: &str) -> bool {
        matches(&self.set, set)
            && self.op.split(" | ").any(|pattern| matches(pattern, op))
            && matches(&self.rocksdb, rocksdb)
            && matches(&self.cairn, cairn)
    }
}

fn any() -> String {
    "*".to_owned()
}

/// All rows.
///
/// # Panics
///
/// If the list is malformed.
#[must_use]
pub fn all() -> Vec<Difference> {
    let list: List = toml::from_str(LIST).expect("differences.toml is a list of differences");
    list.difference
}

/// True if `text` matches `pattern`.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut open = false;
    for part in parts {
        open = part.is_empty();
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    open || rest.is_empty()
        || (pattern.contains('*') && text.ends_with(pattern.rsplit('*').next().unwrap_or("")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_an_operation_and_a_reason() {
        for row in all() {
            assert!(!row.op.is_empty() && row.op != "*", "{row:?}");
            assert!(row.reason.len() > 20, "{row:?}");
        }
    }

    #[test]
    fn a_star_matches_any_text() {
        for (pattern, text) in [
            ("*", ""),
            ("a*", "abc"),
            ("*c", "abcc"),
            ("a*c*", "abcd"),
            ("a", "a"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("", "a"), ("a", "ab"), ("*c", "cb"), ("a*c", "b")] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }
}
