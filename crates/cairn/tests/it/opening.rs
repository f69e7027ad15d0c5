//! Ways to open a database.

use cairn::{Code, Db, FamilyDescriptor, FamilyOptions, Options, Subcode, World};

use crate::shown;

#[test]
fn a_database_is_created_only_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let error = Db::open(&path, &Options::default()).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    let db = Db::builder(&path).create_if_missing(true).open().unwrap();
    assert!(db.path().ends_with("db"));
    db.close().unwrap();
    Db::open(&path, &Options::default()).unwrap();
}

#[test]
fn families_are_created_or_found_with_their_options() {
    let world = World::in_memory();
    let builder = Db::builder("/db").world(world.clone());
    let missing = builder.clone().create_if_missing(true);
    let stones = FamilyOptions {
        write_buffer_size: 1 << 20,
        ..FamilyOptions::default()
    };
    let named = |builder: cairn::DbBuilder| builder.family("stones", stones.clone());
    let error = named(missing.clone()).open().unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);

    let db = named(missing.create_missing_column_families(true))
        .open()
        .unwrap();
    assert_eq!(
        db.family("stones").unwrap().options().write_buffer_size,
        1 << 20
    );
    db.close().unwrap();
    let descriptors = [FamilyDescriptor::new("stones", stones.clone())];
    let db = builder.families(descriptors).open().unwrap();
    assert_eq!(db.families().len(), 2);
    db.close().unwrap();
    assert_eq!(
        Db::list_families_in(&world, "/db".as_ref()).unwrap(),
        ["default", "stones"]
    );
}

#[test]
fn a_read_only_database_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().create_if_missing(true);
    let writer = Db::open(dir.path(), &options).unwrap();
    writer.put(b"k", b"v").unwrap();
    writer.flush().unwrap();
    // Concurrently with the writer; a second writer is rejected.
    let reader = Db::open_read_only(dir.path(), &options).unwrap();
    assert_eq!(shown(&reader), ["k=v"]);
    assert_eq!(
        reader.put(b"k", b"w").unwrap_err().code(),
        Code::NotSupported
    );
    assert_eq!(
        Db::open(dir.path(), &options).unwrap_err().code(),
        Code::IoError
    );
}

#[test]
fn a_database_in_memory_exists_as_long_as_its_world() {
    let world = World::in_memory();
    let builder = Db::builder("/db").world(world.clone());
    let db = builder.clone().create_if_missing(true).open().unwrap();
    db.put(b"k", b"v").unwrap();
    db.close().unwrap();
    let db = builder.clone().open().unwrap();
    assert_eq!(shown(&db), ["k=v"]);
    db.close().unwrap();
    Db::destroy_in(&world, "/db".as_ref(), &Options::default()).unwrap();
    assert!(builder.open().is_err());
}

#[test]
fn invalid_options_are_rejected_by_name() {
    let error = Options::default()
        .text("write_buffer_size=many")
        .unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.text().contains("write_buffer_size"), "{error}");
}

#[test]
fn a_lost_manifest_is_repaired() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().create_if_missing(true);
    let db = Db::open(dir.path(), &options).unwrap();
    db.put(b"k", b"v").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    std::fs::remove_file(dir.path().join("CURRENT")).unwrap();
    let report = Db::repair(dir.path(), &options, &[]).unwrap();
    assert!(report.rebuilt && report.lost.is_empty());
    assert_eq!(shown(&Db::open(dir.path(), &options).unwrap()), ["k=v"]);
}

#[test]
fn debug_forms_show_no_data() {
    let db = Db::builder("/db").world(World::in_memory());
    let db = db.create_if_missing(true).open().unwrap();
    db.put(b"secret key", b"secret value").unwrap();
    let mut iter = db.iter();
    iter.seek_to_first();
    let mut batch = cairn::WriteBatch::new();
    batch.put(b"secret key", b"secret value");
    let shown = format!("{db:?} {iter:?} {batch:?} {:?}", db.default_family());
    assert!(!shown.contains("secret"), "{shown}");
    assert!(
        shown.contains("\"/db\"") && shown.contains("\"default\""),
        "{shown}"
    );
}

/// RocksDB's code, by which programs distinguish a missing database from a damaged one.
#[test]
fn reading_a_missing_database_is_an_io_error() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default();
    for path in [dir.path().to_owned(), dir.path().join("missing")] {
        let errors = [
            Db::list_families(&path).unwrap_err(),
            Db::open_read_only(&path, &options).unwrap_err(),
            Db::builder(&path)
                .open_as_secondary(dir.path().join("secondary"))
                .unwrap_err(),
            Db::builder(&path)
                .open_as_follower(dir.path().join("follower"))
                .unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.code(), Code::IoError, "{error}");
            assert_eq!(error.subcode(), Subcode::PathNotFound, "{error}");
        }
        let error = Db::open(&path, &options).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    }
}

/// The MANIFEST has the identity, too.
#[test]
fn a_damaged_identity_file_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().create_if_missing(true);
    let path = dir.path().join("IDENTITY");
    drop(Db::open(dir.path(), &options).unwrap());
    let id = std::fs::read(&path).unwrap();
    for damaged in [&b"\xff\xfe"[..], b"another"] {
        std::fs::write(&path, damaged).unwrap();
        drop(Db::open_read_only(dir.path(), &options).unwrap());
        drop(Db::open(dir.path(), &options).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), id);
    }
}
