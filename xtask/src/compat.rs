//! The lists of options in docs/compatibility.md, generated from the option tables of cairn-options, and the number of
//! features by support, counted in the page's own table.
//!
//! A list is the run of lines that begin with "- " after the paragraph that introduces it. The tables
//! are parsed as text, so that xtask depends on none of the engine's crates.

use std::fs;
use std::path::Path;

use crate::sources;

const PAGE: &str = "docs/compatibility.md";

/// The lists of options: the start of the paragraph before each, and the keyword of its rows.
const LISTS: [(&str, &str); 2] = [
    ("Every option of RocksDB 11.12 is recognized", "missing"),
    ("The following are accepted without effect.", "hint"),
];

/// The groups of a list: title, and the files with the group's option tables.
const GROUPS: [(&str, &[&str]); 5] = [
    ("`DBOptions`", &["db.rs"]),
    ("`ColumnFamilyOptions`", &["family.rs"]),
    ("`BlockBasedTableOptions`", &["table.rs"]),
    (
        "`PlainTableOptions`, `CuckooTableOptions`",
        &["flat_tables.rs"],
    ),
    (
        "options of single operations",
        &["operation_options.rs", "compaction.rs", "ingest.rs"],
    ),
];

/// Keywords that may follow the default of a row.
const WORDS: [&str; 5] = ["dynamic", "unwritten", "recent", "hint", "missing"];

/// The degrees of support in the table of features, in the order of the sentence that counts them.
const DEGREES: [&str; 3] = ["yes", "part", "no"];

/// Rewrites the lists and the count.
pub fn run(root: &Path) -> Result<(), String> {
    let page = root.join(PAGE);
    let text = sources::read(root, &page).text;
    let new = rewritten(root, &text)?;
    fs::write(&page, &new).map_err(|error| format!("{PAGE}: {error}"))?;
    println!(
        "compat: {PAGE} {}",
        if new == text {
            "is up to date"
        } else {
            "has been rewritten"
        }
    );
    Ok(())
}

/// Reports lists that differ from the tables, and a wrong count.
pub fn check(root: &Path, complaints: &mut Vec<String>) {
    let text = sources::read(root, &root.join(PAGE)).text;
    match rewritten(root, &text) {
        Ok(new) if new == text => {}
        Ok(_) => complaints.push(format!(
            "{PAGE}: the lists or the count of features are out of date: run cargo xtask compat"
        )),
        Err(words) => complaints.push(words),
    }
}

/// The page with regenerated lists and count.
fn rewritten(root: &Path, text: &str) -> Result<String, String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (marker, word) in LISTS {
        let list = list(root, word);
        let paragraph = lines.iter().position(|line| line.starts_with(marker));
        let paragraph = paragraph.ok_or(format!("{PAGE}: no line begins with {marker:?}"))?;
        let begin = lines[paragraph..]
            .iter()
            .position(|line| line.starts_with("- "));
        let begin = paragraph + begin.ok_or(format!("{PAGE}: no list after {marker:?}"))?;
        let is_list = |line: &&String| line.starts_with("- ");
        let end = begin + lines[begin..].iter().take_while(is_list).count();
        lines.splice(begin..end, list);
    }
    let count = count(&lines)?;
    let is_count =
        |line: &String| line.starts_with(|c: char| c.is_ascii_digit()) && line.contains(" yes, ");
    match lines.iter_mut().find(|line| is_count(line)) {
        Some(line) => *line = count,
        None => return Err(format!("{PAGE}: no line counts the features")),
    }
    Ok(lines.join("\n") + "\n")
}

/// The sentence that counts the rows of the table of features: `| F001 | feature | yes | how |`.
fn count(lines: &[String]) -> Result<String, String> {
    let mut counts = DEGREES.map(|degree| (degree, 0));
    for line in lines.iter().filter(|line| line.starts_with("| F")) {
        let degree = line.split('|').nth(3).unwrap_or_default().trim();
        match counts.iter_mut().find(|(known, _)| *known == degree) {
            Some((_, count)) => *count += 1,
            None => {
                return Err(format!(
                    "{PAGE}: {degree:?} is not one of {DEGREES:?}: {line}"
                ));
            }
        }
    }
    let words = counts.map(|(degree, count)| format!("{count} {degree}"));
    Ok(words.join(", ") + ".")
}

/// The lines of the list of rows with the keyword `word`. An empty group has no line.
fn list(root: &Path, word: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for (title, files) in GROUPS {
        let mut names: Vec<String> = Vec::new();
        for file in files {
            let path = root.join("crates/cairn-options/src").join(file);
            let source = sources::read(root, &path).text;
            for row in rows(&source).filter(|row| row.words.contains(&word)) {
                let name = format!("`{}`", row.name);
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        if !names.is_empty() {
            lines.push(format!("- {title}: {}.", names.join(", ")));
        }
    }
    lines
}

/// A row of an `options!` table.
struct Row<'s> {
    name: &'s str,
    words: Vec<&'s str>,
}

/// The rows of all tables in a source file.
fn rows(source: &str) -> impl Iterator<Item = Row<'_>> {
    let tables = source.split("\noptions! {").skip(1);
    let bodies = tables.map(|table| table.split("\n}\n").next().unwrap_or(""));
    bodies.flat_map(|body| {
        let mut rows = Vec::new();
        let mut begin = None;
        for line in body.split_inclusive('\n') {
            let at = line.as_ptr() as usize - body.as_ptr() as usize;
            let code = line.trim();
            if code.starts_with("///") || code.is_empty() {
                continue;
            }
            // The head of the table ends with a brace.
            if begin.is_none() && code.ends_with('{') {
                continue;
            }
            let from = *begin.get_or_insert(at);
            if code.ends_with(';') {
                rows.extend(row(body[from..at + line.len()].trim()));
                begin = None;
            }
        }
        rows
    })
}

/// `name("TEXT"): type = default, word, word;`
fn row(statement: &str) -> Option<Row<'_>> {
    let (head, _) = statement.split_once(": ")?;
    let name = match head.split_once("(\"") {
        Some((_, text)) => text.strip_suffix("\")")?,
        None => head,
    };
    let mut words = Vec::new();
    let mut parts = statement.trim_end_matches(';').rsplit(',').map(str::trim);
    while let Some(word) = parts.next().filter(|word| WORDS.contains(word)) {
        words.push(word);
    }
    Some(Row { name, words })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_counted_by_support() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let table =
            lines("| F001 | A | yes | |\n| F002 | B | no | C |\n| F003 | D | yes | E | F |");
        assert_eq!(count(&table), Ok("2 yes, 0 part, 1 no.".to_owned()));
        assert!(count(&lines("| F001 | A | perhaps | |")).is_err());
    }

    #[test]
    fn rows_are_parsed_with_their_keywords() {
        let source = "\noptions! {\n    /// X.\n    S, \"S\" {\n        /// A.\n        a: bool = false, dynamic, hint;\n        /// B.\n        b(\"BBB\"): Vec<i32> =\n            vec![1, 2], missing;\n        c: u64 = 5;\n    }\n}\n";
        let found: Vec<(&str, Vec<&str>)> = rows(source).map(|row| (row.name, row.words)).collect();
        assert_eq!(
            found,
            [
                ("a", vec!["hint", "dynamic"]),
                ("BBB", vec!["missing"]),
                ("c", vec![])
            ]
        );
    }
}
