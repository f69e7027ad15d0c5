//! Limits on sizes: fields of a struct, lines of a function.
//!
//! Both rules rely on rustfmt's layout: an item ends at the first closing brace in the column of its first
//! line, and the fields of a struct are indented by four columns more than the struct.

use crate::sources::Source;

/// The maximum number of fields of a struct.
const MAX_FIELDS: usize = 20;

/// The maximum number of lines of a function outside of tests.
const MAX_LINES: usize = 100;

/// A function of more lines is long. At most one function in [`ONE_LONG_IN`] may be.
const LONG_LINES: usize = 70;
const ONE_LONG_IN: usize = 100;

/// Structs with more than [`MAX_FIELDS`] fields: file, name, reason. Options are rows of a table, read one by
/// one. Records that mirror a public structure of RocksDB have its fields, so that programs that move find
/// them.
const LARGE_STRUCTS: [(&str, &str, &str); 5] = [
    (
        "bench/src/flags.rs",
        "Flags",
        "option table: db_bench's flags, one field each",
    ),
    (
        "crates/cairn-jobs/src/pick/options.rs",
        "PickOptions",
        "option table: the options of a family that compaction picking reads",
    ),
    (
        "crates/cairn-observe/src/listener.rs",
        "CompactionJobInfo",
        "mirrors rocksdb::CompactionJobInfo",
    ),
    (
        "crates/cairn-observe/src/listener.rs",
        "CompactionJobStats",
        "mirrors rocksdb::CompactionJobStats",
    ),
    (
        "crates/cairn-db/src/files/live.rs",
        "LiveFileMetaData",
        "mirrors rocksdb::LiveFileMetaData",
    ),
];

/// Reports structs and functions that are too large, entries of [`LARGE_STRUCTS`] that are not needed, and a
/// share of long functions above the limit.
pub fn check(sources: &[Source], complaints: &mut Vec<String>) {
    fields(sources, &LARGE_STRUCTS, complaints);
    lines(sources, complaints);
}

fn fields(sources: &[Source], listed: &[(&str, &str, &str)], complaints: &mut Vec<String>) {
    let mut large = Vec::new();
    for source in sources {
        for found in structs(source) {
            if found.fields > MAX_FIELDS {
                large.push((source.path.as_str(), found));
            }
        }
    }
    for (path, found) in &large {
        let Struct { name, line, fields } = found;
        if !listed
            .iter()
            .any(|(file, known, _)| file == path && known == name)
        {
            complaints.push(format!(
                "{path}:{line}: `{name}` has {fields} fields, more than {MAX_FIELDS}; group those that belong \
                 together"
            ));
        }
    }
    for (path, name, _) in listed {
        if !large
            .iter()
            .any(|(file, found)| file == path && found.name == *name)
        {
            complaints.push(format!(
                "xtask/src/limits.rs: {path} has no struct `{name}` with more than {MAX_FIELDS} fields; remove \
                 it from the list"
            ));
        }
    }
}

fn lines(sources: &[Source], complaints: &mut Vec<String>) {
    let mut count = 0;
    let mut long = Vec::new();
    for source in sources.iter().filter(|source| !is_test(&source.path)) {
        for function in functions(source) {
            let Function { name, line, lines } = &function;
            count += 1;
            if *lines > MAX_LINES {
                complaints.push(format!(
                    "{}:{line}: `{name}` has {lines} lines, more than {MAX_LINES}; split it",
                    source.path
                ));
            }
            if *lines > LONG_LINES {
                long.push((*lines, format!("{}:{line} {name} {lines}", source.path)));
            }
        }
    }
    if long.len() * ONE_LONG_IN > count {
        long.sort();
        let places: Vec<String> = long.iter().rev().map(|(_, place)| place.clone()).collect();
        complaints.push(format!(
            "{} of {count} functions have more than {LONG_LINES} lines, more than one in {ONE_LONG_IN}: {}",
            long.len(),
            places.join(", ")
        ));
    }
}

/// A struct with named fields.
struct Struct<'a> {
    name: &'a str,
    /// The number of its first line.
    line: usize,
    fields: usize,
}

/// A function with a body.
struct Function<'a> {
    name: &'a str,
    /// The number of its first line.
    line: usize,
    /// The number of its lines, signature and braces included.
    lines: usize,
}

/// The structs of a file, including those in tests and macros.
fn structs(source: &Source) -> Vec<Struct<'_>> {
    let lines: Vec<&str> = source.text.lines().collect();
    let mut found = Vec::new();
    for (first, line) in lines.iter().enumerate() {
        let text = without_visibility(line.trim_start());
        let Some(rest) = text.strip_prefix("struct ") else {
            continue;
        };
        let Some((opening, end)) = body_of(&lines, first) else {
            continue;
        };
        let indent = line.len() - line.trim_start().len() + 4;
        found.push(Struct {
            name: name_of(rest),
            line: first + 1,
            fields: lines[opening..end]
                .iter()
                .filter(|line| is_field(line, indent))
                .count(),
        });
    }
    found
}

/// True for a line that declares a field and is indented by `indent` columns.
fn is_field(line: &str, indent: usize) -> bool {
    let text = line.trim_start();
    if line.len() - text.len() != indent {
        return false;
    }
    let text = without_visibility(text);
    let text = text.strip_prefix("r#").unwrap_or(text);
    let name = text.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
    name.len() < text.len() && name.starts_with(':') && !name.starts_with("::")
}

/// The functions of a file, without its tests.
fn functions(source: &Source) -> Vec<Function<'_>> {
    let code = source.text.split("#[cfg(test)]\nmod tests {").next();
    let lines: Vec<&str> = code.unwrap_or_default().lines().collect();
    let mut found = Vec::new();
    for (first, line) in lines.iter().enumerate() {
        let Some((before, rest)) = line.trim_start().split_once("fn ") else {
            continue;
        };
        let is_prefix = |c: char| c.is_ascii_alphabetic() || " ()\"_".contains(c);
        if !before.chars().all(is_prefix) {
            continue;
        }
        if let Some((_, end)) = body_of(&lines, first) {
            found.push(Function {
                name: name_of(rest),
                line: first + 1,
                lines: end - first + 1,
            });
        }
    }
    found
}

/// The lines that open and close the body of the item that begins at line `first`; `None` if it has no body,
/// or one in a single line.
fn body_of(lines: &[&str], first: usize) -> Option<(usize, usize)> {
    let line = lines[first];
    let opening = lines[first..]
        .iter()
        .position(|line| line.ends_with(['{', '}', ';']))?
        + first;
    if !lines[opening].ends_with('{') {
        return None;
    }
    let end = format!("{}}}", &line[..line.len() - line.trim_start().len()]);
    let length = lines[first..].iter().position(|line| *line == end)?;
    Some((opening, first + length))
}

/// `text` without a leading `pub` or `pub(...)`.
fn without_visibility(text: &str) -> &str {
    let Some(rest) = text.strip_prefix("pub") else {
        return text;
    };
    match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(") ").map_or(text, |(_, rest)| rest),
        None => rest.strip_prefix(' ').unwrap_or(text),
    }
}

/// The identifier at the start of `text`.
fn name_of(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

/// True if the file contains only tests.
fn is_test(path: &str) -> bool {
    path.contains("tests/") || path.ends_with("tests.rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: String) -> Source {
        Source {
            path: path.to_owned(),
            text,
        }
    }

    /// A struct with fields of several forms, the last of which spans lines.
    fn structure(fields: usize) -> String {
        let mut text = "//! X.\n\npub(crate) struct Wide<T>\nwhere\n    T: Copy,\n{\n".to_owned();
        for field in 1..fields {
            let visibility = ["", "pub ", "pub(super) "][field % 3];
            text += &format!(
                "    /// Note: a comment.\n    #[doc(hidden)]\n    {visibility}f{field}: T,\n"
            );
        }
        text += "    r#type: HashMap<\n        u8,\n        std::sync::Arc<T>,\n    >,\n}\n\nstruct Unit;\n\n";
        text + "struct Pair(u8, u8);\n\nfn f() {\n    let later: u8 = 1;\n}\n"
    }

    fn reported(text: String, listed: &[(&str, &str, &str)]) -> Vec<String> {
        let mut complaints = Vec::new();
        fields(
            &[source("crates/a/src/b.rs", text)],
            listed,
            &mut complaints,
        );
        complaints
    }

    #[test]
    fn fields_are_counted_without_comments_bounds_and_other_items() {
        let source = source("a.rs", structure(5));
        let found = structs(&source);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].name, found[0].line, found[0].fields),
            ("Wide", 3, 5)
        );
    }

    #[test]
    fn a_struct_over_the_limit_is_reported() {
        assert!(reported(structure(MAX_FIELDS), &[]).is_empty());
        let complaints = reported(structure(MAX_FIELDS + 1), &[]);
        assert_eq!(complaints.len(), 1);
        assert!(
            complaints[0].starts_with("crates/a/src/b.rs:3: `Wide` has 21 fields"),
            "{complaints:?}"
        );
    }

    #[test]
    fn the_list_of_large_structs_has_only_those_needed() {
        let listed = [("crates/a/src/b.rs", "Wide", "an option table")];
        assert!(reported(structure(MAX_FIELDS + 1), &listed).is_empty());
        assert_eq!(reported(structure(MAX_FIELDS), &listed).len(), 1);
        let elsewhere = [("crates/a/src/c.rs", "Wide", "an option table")];
        assert_eq!(reported(structure(MAX_FIELDS + 1), &elsewhere).len(), 2);
    }

    fn function(name: &str, lines: usize) -> String {
        let body = "    work();\n".repeat(lines - 4);
        format!("pub(crate) fn {name}(\n    at: usize,\n) {{\n{body}}}\n\n")
    }

    fn complaints_about_lines(path: &str, text: String) -> Vec<String> {
        let mut complaints = Vec::new();
        lines(&[source(path, text)], &mut complaints);
        complaints
    }

    #[test]
    fn a_function_over_the_limit_is_reported() {
        let others = function("short", 5).repeat(ONE_LONG_IN);
        let text = |lines| others.clone() + &function("long", lines);
        assert!(complaints_about_lines("a.rs", text(MAX_LINES)).is_empty());
        let complaints = complaints_about_lines("a.rs", text(MAX_LINES + 1));
        assert_eq!(complaints.len(), 1);
        assert!(
            complaints[0].contains("`long` has 101 lines"),
            "{complaints:?}"
        );
        assert!(complaints_about_lines("a/tests/b.rs", text(MAX_LINES + 1)).is_empty());
    }

    #[test]
    fn a_share_of_long_functions_over_the_limit_is_reported() {
        let text =
            |short| function("long", LONG_LINES + 1) + &function("short", LONG_LINES).repeat(short);
        assert!(complaints_about_lines("a.rs", text(ONE_LONG_IN - 1)).is_empty());
        let complaints = complaints_about_lines("a.rs", text(ONE_LONG_IN - 2));
        assert_eq!(complaints.len(), 1);
        assert!(complaints[0].contains("a.rs:1 long 71"), "{complaints:?}");
    }

    #[test]
    fn declarations_and_tests_are_not_functions() {
        let text = "trait T {\n    fn f();\n    fn g() {}\n}\n#[cfg(test)]\nmod tests {\n    fn h() {\n        i();\n    }\n}\n";
        assert!(functions(&source("a.rs", text.to_owned())).is_empty());
    }
}
