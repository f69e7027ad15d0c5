//! `cairn scan` prints every golden database with the content that RocksDB reads from it.

use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

use ::cairn::{CompactRangeOptions, Comparator, Db, FamilyDescriptor, KeyOrder, Options};
use cairn_interop::content::{Content, Dump, Row, Rows, count, difference};
use cairn_interop::golden::Golden;
use cairn_interop::{cairn, dir_snapshot, golden};

/// Databases with values embedded in tables, whose other rows are read.
const EMBEDDED: &str = "embedded_blobs";

/// The custom comparator of a golden database.
struct LengthThenBytes;

impl Comparator for LengthThenBytes {
    fn name(&self) -> &str {
        "golden.LengthThenBytes"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }
}

/// The error in the scan of `golden`, if there is one.
fn problem(golden: &Golden) -> Option<String> {
    let temporary = tempfile::tempdir().unwrap();
    golden.unpack(temporary.path());
    let path = temporary.path().join("db");
    let before = dir_snapshot::read(temporary.path());
    let actual = cairn::scan(&path, &golden.options, &golden.families);
    let changes = dir_snapshot::changes(&before, &dir_snapshot::read(temporary.path()));
    if !changes.is_empty() {
        return Some(format!(
            "the scan changed the directory: {}",
            changes.join(", ")
        ));
    }
    if golden.needs_comparator {
        return refused(&actual, "comparator").or_else(|| problem_in_program(golden, &path));
    }
    if golden.name.contains(EMBEDDED) {
        return refused_where_embedded(&actual);
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

/// The error when `golden` is read by a program with the comparator.
fn problem_in_program(golden: &Golden, path: &Path) -> Option<String> {
    let options = Options::default().text(&golden.options).unwrap();
    let families = golden.families.iter().map(|(name, text)| {
        let mut family = Options::default().text(text).unwrap().family;
        family.comparator = KeyOrder::Custom(Arc::new(LengthThenBytes));
        FamilyDescriptor::new(name.clone(), family)
    });
    let builder = Db::builder(path).options(options);
    let db = builder.families(families).open().unwrap();
    let content = content_of(&db);
    let expected = golden.expected().unwrap();
    difference(&expected, &content).or_else(|| missed(&db))
}

/// The content of `db`.
fn content_of(db: &Db) -> Content {
    let mut content = Content::new();
    for family in db.families() {
        let mut rows = Rows::default();
        let mut iter = family.iter();
        iter.seek_to_first();
        while iter.valid() {
            rows.rows.push(Row::of(iter.key(), iter.value()));
            iter.next();
        }
        rows.error = iter.status().err().map(|error| error.to_string());
        content.insert(family.name().to_owned(), rows);
    }
    content
}

/// A key that iteration finds, but not a get or a seek in either direction.
fn missed(db: &Db) -> Option<String> {
    for family in db.families() {
        let mut iter = family.iter();
        iter.seek_to_first();
        while iter.valid() {
            let (key, value) = (iter.key().to_vec(), iter.value().to_vec());
            let got = family.get(&key).unwrap();
            let mut seeking = family.iter();
            seeking.seek(&key);
            let forward = seeking.valid() && seeking.key() == key && seeking.value() == value;
            seeking.seek_for_prev(&key);
            let backward = seeking.valid() && seeking.key() == key;
            if got.as_deref() != Some(&value[..]) || !forward || !backward {
                return Some(format!("{key:02x?} of {} is missed", family.name()));
            }
            iter.next();
        }
    }
    None
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

/// The first embedded value must be rejected with its reason.
fn refused_where_embedded(actual: &Dump) -> Option<String> {
    let is_named = |family: &Rows| {
        let error = family.error.as_ref();
        error.is_some_and(|error| error.contains("embedded in a table"))
    };
    match actual {
        Ok(content) if content.values().all(is_named) => None,
        other => Some(format!("must be refused by name, got {other:?}")),
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

/// Checks all databases, then reports all failures.
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

#[test]
fn databases_of_11_12_are_read() {
    every(|golden| golden.name.starts_with("v1112_"));
}

/// RocksDB 11.12's gets and seeks miss some of these keys.
#[test]
fn keys_that_are_shorter_than_the_prefix_of_their_block_are_found() {
    let wanted = [
        "v1112_fv8_rev_short_keys",
        "v1112_fv8_edge_blocks",
        "v1112_fv8_rev",
    ];
    let all = golden::all().into_iter();
    for golden in all.filter(|golden| wanted.contains(&&golden.name[..])) {
        let temporary = tempfile::tempdir().unwrap();
        golden.unpack(temporary.path());
        let mut families = Vec::new();
        for (name, text) in &golden.families {
            let family = Options::default().text(text).unwrap().family;
            families.push(FamilyDescriptor::new(name.clone(), family));
        }
        let builder = Db::builder(temporary.path().join("db"));
        let db = builder.families(families).open().unwrap();
        assert_eq!(missed(&db), None, "{}", golden.name);
        // Still found after Cairn has rewritten them, in tables with a prefix of user keys.
        for family in db.families() {
            family
                .compact_range(None, None, &CompactRangeOptions::default())
                .unwrap();
        }
        assert_eq!(missed(&db), None, "{}, compacted", golden.name);
        let rows = difference(&golden.expected().unwrap(), &content_of(&db));
        assert_eq!(rows, None, "{}, compacted", golden.name);
    }
}

/// The deliberately corrupt databases. A MANIFEST with a torn tail is not damaged: the database opens.
const DAMAGED: [&str; 2] = ["_corrupt_block", "_wal_corrupt_mid"];

/// `verify` reports corruption where there is some and nowhere else; `inspect` shows every file.
/// Verifies a database and shows its files with the command line tool. Returns what fails.
fn not_shown(golden: &Golden) -> Vec<String> {
    let mut failed = Vec::new();
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
        // A log and a MANIFEST may end with a partial record, which is an error of the file but not of the database.
        let name = file.file_name().unwrap().to_string_lossy();
        let may_be_torn = name.ends_with(".log") || name.starts_with("MANIFEST");
        if !(damaged || (!output.stdout.is_empty() && (output.status.success() || may_be_torn))) {
            failed.push(format!("{}: not shown", file.display()));
        }
    }
    failed
}

#[test]
fn databases_are_verified_and_their_files_shown() {
    // The command line tool does not have the custom comparator.
    let all = golden::all().into_iter().filter(|it| !it.needs_comparator);
    let all: Vec<Golden> = all.collect();
    let (some, others) = all.split_at(all.len() / 2);
    let failed = std::thread::scope(|scope| {
        let others = scope.spawn(|| others.iter().flat_map(not_shown).collect::<Vec<_>>());
        let mut failed: Vec<String> = some.iter().flat_map(not_shown).collect();
        failed.extend(others.join().expect("the thread ends"));
        failed
    });
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
