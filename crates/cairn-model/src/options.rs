//! Options of a run, as text.

use std::fmt;
use std::str::FromStr;

use cairn_types::{Error, Result};

use crate::line::{Line, wrong};
use crate::merge_kind::MergeKind;

/// Options of a run, as text with RocksDB's names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionSet {
    /// Database options: `name=value` pairs, each followed by `;`.
    pub db: String,
    /// Options of every column family.
    pub family: String,
    /// Table options of every family.
    pub table: String,
    /// The merge operator of every family.
    pub merge: MergeKind,
    /// True if writes bypass the WAL. Each family then survives up to its last flush or later,
    /// independently of the others.
    pub unlogged: bool,
}

impl OptionSet {
    /// Overrides the options named in these texts.
    pub fn override_with(&mut self, db: &str, family: &str, table: &str) {
        for (text, over) in [
            (&mut self.db, db),
            (&mut self.family, family),
            (&mut self.table, table),
        ] {
            *text = overridden(text, over);
        }
    }

    /// Returns the value of `name` in one of the three texts.
    #[must_use]
    pub fn value<'t>(text: &'t str, name: &str) -> Option<&'t str> {
        let mut all = pairs(text).into_iter();
        all.find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }

    /// True if the database option `name` is `true`.
    #[must_use]
    pub fn is_on(&self, name: &str) -> bool {
        OptionSet::value(&self.db, name) == Some("true")
    }

    /// True if an acknowledged write may be buffered in the process.
    #[must_use]
    pub fn buffers_wal(&self) -> bool {
        self.is_on("manual_wal_flush")
    }

    /// True if all families of an unlogged database survive at a common moment.
    #[must_use]
    pub fn flushes_atomically(&self) -> bool {
        self.is_on("atomic_flush")
    }
}

/// Splits a text into pairs; a `;` inside braces does not separate.
#[must_use]
pub fn pairs(text: &str) -> Vec<&str> {
    let (mut all, mut depth, mut begin) = (Vec::new(), 0usize, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ';' if depth == 0 => {
                all.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    all.push(&text[begin..]);
    all.retain(|pair| !pair.is_empty());
    all
}

fn overridden(text: &str, over: &str) -> String {
    let name = |pair: &str| pair.split_once('=').map_or("", |(name, _)| name).to_owned();
    let over = pairs(over);
    let named: Vec<String> = over.iter().map(|pair| name(pair)).collect();
    let kept = pairs(text)
        .into_iter()
        .filter(|pair| !named.contains(&name(pair)));
    kept.chain(over.iter().copied())
        .map(|pair| format!("{pair};"))
        .collect()
}

impl fmt::Display for OptionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OptionSet {
            db,
            family,
            table,
            merge,
            unlogged,
        } = self;
        let unlogged = if *unlogged { " unlogged" } else { "" };
        write!(
            f,
            "merge={merge}{unlogged} db=[{db}] family=[{family}] table=[{table}]"
        )
    }
}

impl FromStr for OptionSet {
    type Err = Error;

    fn from_str(text: &str) -> Result<OptionSet> {
        let part = |name: &str| {
            let rest = text.split_once(&format!("{name}=["))?.1;
            Some(rest.split_once(']')?.0.to_owned())
        };
        let group = |name| part(name).ok_or_else(|| wrong("missing options", text));
        let merge = Line(text).option("merge");
        Ok(OptionSet {
            db: group("db")?,
            family: group("family")?,
            table: group("table")?,
            merge: merge
                .ok_or_else(|| wrong("no merge operator", text))?
                .parse()?,
            unlogged: Line(text).has("unlogged"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_win_and_braces_protect_separators() {
        let mut set = OptionSet {
            db: "a=1;b={x=1;y=2};".to_owned(),
            ..OptionSet::default()
        };
        set.override_with("b={x=3;};c=true", "", "");
        assert_eq!(set.db, "a=1;b={x=3;};c=true;");
        assert_eq!(OptionSet::value(&set.db, "b"), Some("{x=3;}"));
        assert!(set.is_on("c"));
    }
}
