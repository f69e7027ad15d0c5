//! The accepted differences, as `tests/interop/differences.toml` lists them.

use serde::Deserialize;

/// The list.
const LIST: &str = include_str!("../../differences.toml");

/// The file: tables `[[difference]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    difference: Vec<Difference>,
}

/// A row. In its patterns `*` stands for anything.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// The operation, as a script prints it; several patterns with ` | ` between them.
    pub op: String,
    /// The set of options; any, where the row names none.
    #[serde(default = "any")]
    pub set: String,
    /// What RocksDB answers.
    pub rocksdb: String,
    /// What Cairn answers.
    pub cairn: String,
    /// Why they may differ.
    pub reason: String,
}

impl Difference {
    /// True if this row is about these answers.
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
/// When the list is no TOML, or a row has a field that no row has or lacks one.
#[must_use]
pub fn all() -> Vec<Difference> {
    let list: List = toml::from_str(LIST).expect("differences.toml is a list of differences");
    list.difference
}

/// True if `text` has the form of `pattern`.
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
    fn every_row_says_what_it_is_about_and_why() {
        for row in all() {
            assert!(!row.op.is_empty() && row.op != "*", "{row:?}");
            assert!(row.reason.len() > 20, "{row:?}");
        }
    }

    #[test]
    fn a_star_stands_for_anything() {
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
