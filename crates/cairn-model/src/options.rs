//! The options of a run, as text.

use std::fmt;
use std::str::FromStr;

use cairn_types::{Error, Result};

use crate::line::{Line, wrong};
use crate::model::MergeKind;

/// Options of a run as text, under RocksDB's names, so that a script file says all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionSet {
    /// `name=value` pairs of the database, each ended by `;`.
    pub db: String,
    /// The same of every column family.
    pub family: String,
    /// The same of every family's block-based tables.
    pub table: String,
    /// How operands combine, in every family.
    pub merge: MergeKind,
    /// True if writes leave no trace in the WAL. Each family then survives by itself, up to its
    /// last flush at least.
    pub unlogged: bool,
}

impl OptionSet {
    /// Gives the options that these texts name the values that they say, and leaves the others.
    pub fn lay_over(&mut self, db: &str, family: &str, table: &str) {
        for (text, over) in [
            (&mut self.db, db),
            (&mut self.family, family),
            (&mut self.table, table),
        ] {
            *text = laid_over(text, over);
        }
    }

    /// The value that one of the three texts gives to `name`.
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

    /// True if a write that was acknowledged may still be in the memory of the process.
    #[must_use]
    pub fn holds_writes_back(&self) -> bool {
        self.is_on("manual_wal_flush")
    }

    /// True if all families of an unlogged database survive at one moment.
    #[must_use]
    pub fn flushes_atomically(&self) -> bool {
        self.is_on("atomic_flush")
    }
}

/// The pairs of a text; a `;` inside braces ends none.
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

fn laid_over(text: &str, over: &str) -> String {
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
        let group = |name| part(name).ok_or_else(|| wrong("options are missing", text));
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
    fn what_is_laid_over_wins_and_braces_hold_together() {
        let mut set = OptionSet {
            db: "a=1;b={x=1;y=2};".to_owned(),
            ..OptionSet::default()
        };
        set.lay_over("b={x=3;};c=true", "", "");
        assert_eq!(set.db, "a=1;b={x=3;};c=true;");
        assert_eq!(OptionSet::value(&set.db, "b"), Some("{x=3;}"));
        assert!(set.is_on("c"));
    }
}
