//! Errors that a program can match, and their sources.

use std::error::Error as _;
use std::io;

use cairn::{Code, Db, Error, Options, ReadOptions, Subcode, WriteOptions};

use crate::database;

/// The reaction of a program to an error.
fn remedy(error: &Error) -> &'static str {
    match (error.code(), error.subcode()) {
        (Code::IoError, Subcode::NoSpace) => "free space",
        (Code::Busy | Code::TryAgain | Code::TimedOut, _) => "try again",
        (Code::Incomplete, _) => "wait",
        (Code::Corruption, _) => "restore",
        _ => "report",
    }
}

#[test]
fn codes_and_subcodes_are_matched() {
    let db = database("");
    db.lock_wal().unwrap();
    let hasty = WriteOptions {
        no_slowdown: true,
        ..WriteOptions::default()
    };
    let error = db.put_with(b"k", b"v", &hasty).unwrap_err();
    assert_eq!(remedy(&error), "wait");
    db.unlock_wal().unwrap();

    let error = db.default_family().set_options(&[("no_such_option", "1")]);
    let error = error.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.text().contains("no_such_option"), "{error}");
    assert!(error.to_string().starts_with("Invalid argument: "));
    assert_eq!(remedy(&error), "report");
}

#[test]
fn an_io_error_has_the_error_of_the_system_call_as_its_source() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a file");
    std::fs::write(&file, b"no directory").unwrap();
    let options = Options::default().create_if_missing(true);
    let error = Db::open(file.join("db"), &options).unwrap_err();
    assert_eq!(error.code(), Code::IoError);
    let source = error.source().and_then(|source| source.downcast_ref());
    let kind = source.map(io::Error::kind);
    assert_eq!(kind, Some(io::ErrorKind::NotADirectory));
    assert_eq!(error.io_kind(), kind);
}

#[test]
fn an_error_of_the_caller_has_no_source() {
    let dir = tempfile::tempdir().unwrap();
    let error = Db::open(dir.path().join("none"), &Options::default()).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
}

#[test]
fn damage_names_the_file_and_leaves_the_rest_readable() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().create_if_missing(true);
    let db = Db::open(dir.path(), &options).unwrap();
    db.put(b"a", &[1; 10_000]).unwrap();
    db.flush().unwrap();
    let table = db.live_files_metadata().remove(0);
    db.close().unwrap();

    let path = table.directory.join(&table.relative_filename);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[10] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let db = Db::open(dir.path(), &options).unwrap();
    db.put(b"b", b"2").unwrap();
    let error = db.get(b"a").unwrap_err();
    assert!(error.is_corruption());
    assert!(error.text().contains(&table.relative_filename), "{error}");
    assert!(db.get(b"b").unwrap().is_some());

    // The error is the last item of an iteration.
    let items: Vec<_> = db.iter_with(&ReadOptions::default()).into_iter().collect();
    let last = items.last().unwrap().as_ref();
    assert_eq!(last.unwrap_err().code(), Code::Corruption);
    let mut keys = db.iter().into_keys();
    assert!(keys.any(|key| key.is_err()));
    assert!(keys.next().is_none());
}
