//! Every golden database is listed by `cairn scan` with the content that RocksDB reads from it.

use cairn_interop::content::{Content, Dump, Rows, count, difference};
use cairn_interop::golden::Golden;
use cairn_interop::{cairn, folder, golden};

/// Databases that this version does not read, with a word that the error must contain.
const NOT_READ: [(&str, &str); 1] = [("plain_table", "plaintable")];

/// What is wrong with the reading of `golden`, or nothing.
fn problem(golden: &Golden) -> Option<String> {
    let temporary = tempfile::tempdir().unwrap();
    golden.unpack(temporary.path());
    let path = temporary.path().join("db");
    let before = folder::read(temporary.path());
    let actual = cairn::scan(&path, &golden.options, &golden.families);
    let changes = folder::changes(&before, &folder::read(temporary.path()));
    if !changes.is_empty() {
        return Some(format!(
            "the scan changed the directory: {}",
            changes.join(", ")
        ));
    }
    if let Some((_, word)) = NOT_READ.iter().find(|(part, _)| golden.name.contains(part)) {
        return refused(&actual, word);
    }
    match (golden.expected(), actual) {
        (Err(_), Err(error)) => error
            .is_empty()
            .then(|| "an error without words".to_owned()),
        (Err(expected), Ok(_)) => Some(format!("opened, but must fail: {expected}")),
        (Ok(_), Err(error)) => Some(format!("not read: {error}")),
        (Ok(expected), Ok(actual)) => difference(&expected, &actual).or_else(|| blame(&actual)),
    }
}

fn refused(actual: &Dump, word: &str) -> Option<String> {
    match actual {
        Err(error) if error.to_lowercase().contains(word) => None,
        // Tables are opened when they are first read.
        Ok(content) if content.values().any(|family| says(family, word)) => None,
        other => Some(format!(
            "must be refused with the words {word:?}, got {other:?}"
        )),
    }
}

fn says(family: &Rows, word: &str) -> bool {
    let error = family.error.as_ref();
    family.rows.is_empty() && error.is_some_and(|error| error.to_lowercase().contains(word))
}

/// An error in the middle of a scan must name the file.
fn blame(actual: &Content) -> Option<String> {
    let errors = actual.values().filter_map(|family| family.error.as_ref());
    let vague: Vec<_> = errors.filter(|error| !error.contains(".sst")).collect();
    (!vague.is_empty()).then(|| format!("errors that name no file: {vague:?}"))
}

/// Tries all, then tells of all that failed.
fn every(part: impl Fn(&Golden) -> bool) {
    let (mut read, mut rows, mut failed) = (0, 0, Vec::new());
    for golden in golden::all().into_iter().filter(part) {
        read += 1;
        match problem(&golden) {
            None => rows += golden.expected().map_or(0, |content| count(&content)),
            Some(problem) => failed.push(format!("{}: {problem}", golden.name)),
        }
    }
    println!("{read} golden databases, {rows} rows as expected");
    assert!(
        failed.is_empty(),
        "{} of {read} failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

#[test]
fn databases_of_7_8_are_read() {
    every(|golden| golden.name.starts_with("v0708_"));
}

#[test]
fn databases_of_11_1_are_read() {
    every(|golden| golden.name.starts_with("v1101_"));
}

#[test]
fn databases_of_11_9_are_read() {
    every(|golden| golden.name.starts_with("v1109_"));
}

/// The files on purpose damaged, and those of a format that is not read.
const DAMAGED: [&str; 4] = [
    "_corrupt_block",
    "_wal_corrupt_mid",
    "_manifest_torn_tail",
    "_plain_table",
];

/// `verify` finds damage where there is some and nowhere else; `inspect` shows every file.
#[test]
fn databases_are_verified_and_their_files_shown() {
    let mut failed = Vec::new();
    for golden in golden::all() {
        let temporary = tempfile::tempdir().unwrap();
        golden.unpack(temporary.path());
        let path = temporary.path().join("db");
        let damaged = DAMAGED.iter().any(|part| golden.name.contains(part));
        let output = cairn::run(&["verify", "--db", path.to_str().unwrap()]);
        if output.status.success() == damaged {
            let words = String::from_utf8_lossy(&output.stdout).into_owned();
            failed.push(format!("{}: verify says {words}", golden.name));
        }
        for file in std::fs::read_dir(&path).unwrap() {
            let file = file.unwrap().path();
            let output = cairn::run(&["inspect", file.to_str().unwrap()]);
            // A log may end within a record, which is damage of the file though not of the database.
            let is_log = file.extension().is_some_and(|end| end == "log");
            if !(damaged || (!output.stdout.is_empty() && (output.status.success() || is_log))) {
                failed.push(format!("{}: not shown", file.display()));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
