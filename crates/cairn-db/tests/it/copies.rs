//! Checkpoints, exports, and lists of live files.

use std::path::Path;

use cairn_db::{
    ColumnFamilyMetaDataOptions, Db, ExportImportFilesMetaData, FileType, Ingestion,
    LiveFilesStorageInfoOptions, OpenRequest, open,
};
use cairn_options::{
    CompactRangeOptions, DbOptions, FamilyOptions, ImportColumnFamilyOptions,
    IngestExternalFileOptions,
};
use cairn_platform::World;
use cairn_sim::trace::Call;
use cairn_sim::{Fault, SimWorld};
use cairn_types::{Code, Result, SequenceNumber, Subcode};

use crate::basic::{db_options, open_at, open_with, small};
use crate::errors::{failing, forgiving, of_kind};

fn open_dir(world: &World, dir: &str) -> Result<Db> {
    open_dir_as(world, dir, false)
}

fn open_dir_as(world: &World, dir: &str, read_only: bool) -> Result<Db> {
    open(&OpenRequest {
        path: Path::new(dir),
        options: &db_options(),
        families: &[],
        others: Some(&small()),
        read_only,
        world: world.clone(),
    })
}

fn get(db: &Db, key: &str) -> Option<Vec<u8>> {
    let value = db.get(key.as_bytes()).expect("the read returns no error");
    value.map(|value| value.to_vec())
}

fn fill(db: &Db, from: u32, to: u32) {
    for n in from..to {
        let key = format!("k{n:05}");
        db.put(key.as_bytes(), &[b'v'; 100])
            .expect("the write works");
    }
}

#[test]
fn a_checkpoint_does_not_create_the_directory_above_it() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    fill(&db, 0, 10);
    let error = db
        .create_checkpoint("/missing/copy".as_ref(), 0)
        .unwrap_err();
    assert_eq!(
        (error.code(), error.subcode()),
        (Code::IoError, Subcode::PathNotFound)
    );
    assert!(error.text().contains("/missing"), "{error}");
    assert!(!world.fs.exists("/missing".as_ref()).unwrap());
    world.fs.create_dir_all("/missing".as_ref()).unwrap();
    db.create_checkpoint("/missing/copy".as_ref(), 0).unwrap();
}

#[test]
fn a_checkpoint_is_a_database_with_the_state_at_its_creation() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    db.create_family("other", &small()).unwrap();
    fill(&db, 0, 2000);
    db.family("other").unwrap().put(b"o", b"1").unwrap();
    // One with the log, one with everything flushed.
    for (dir, limit) in [("/logged", u64::MAX), ("/flushed", 0)] {
        let seq = db.create_checkpoint(dir.as_ref(), limit).unwrap();
        assert_eq!(seq, db.latest_sequence());
        assert_eq!(
            db.create_checkpoint(dir.as_ref(), limit)
                .unwrap_err()
                .code(),
            Code::InvalidArgument
        );
    }
    db.put(b"k00001", b"changed").unwrap();
    fill(&db, 2000, 2100);
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    for dir in ["/logged", "/flushed"] {
        let copy = open_dir(&world, dir).unwrap();
        assert_eq!(get(&copy, "k00001"), Some(vec![b'v'; 100]));
        assert_eq!(
            (get(&copy, "k01999").is_some(), get(&copy, "k02000")),
            (true, None)
        );
        assert!(copy.family("other").unwrap().get(b"o").unwrap().is_some());
        copy.put(b"own", b"1").unwrap();
        copy.close().unwrap();
    }
    assert_eq!(get(&db, "own"), None);
    assert_eq!(get(&db, "k00001").as_deref(), Some(&b"changed"[..]));
    let left = world.fs.list("/".as_ref()).unwrap();
    assert!(left.iter().all(|name| !name.ends_with(".tmp")), "{left:?}");
}

/// Returns every file below `dir` with its content.
fn contents(world: &World, dir: &str) -> Vec<(String, Vec<u8>)> {
    let mut names = world.fs.list(dir.as_ref()).expect("it is listed");
    names.sort();
    let read = |name: String| {
        let content = crate::logs::bytes_of(world, &Path::new(dir).join(&name));
        (name, content)
    };
    names.into_iter().map(read).collect()
}

#[test]
fn a_checkpoint_of_a_read_only_database_has_the_entries_of_its_logs() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).expect("it opens");
    db.create_family("other", &small()).expect("it is created");
    let other = db.family("other").expect("it is there");
    fill(&db, 0, 500);
    other.put(b"o", b"1").expect("it is written");
    db.flush().expect("it is flushed");
    fill(&db, 500, 600);
    other.put(b"o", b"2").expect("it is written");
    let last = db.latest_sequence();
    drop(other);
    db.close().expect("it closes");
    drop(db);
    let before = contents(&world, "/db");
    // With every family, and with only the default one.
    for (dir, others) in [("/whole", Some(&small())), ("/partly", None)] {
        let reader = open(&OpenRequest {
            path: Path::new("/db"),
            options: &db_options(),
            families: &[],
            others,
            read_only: true,
            world: world.clone(),
        })
        .expect("it opens to be read");
        assert!(reader.family("other").is_some() == others.is_some());
        let (files, manifest) = reader.live_files(true).expect("they are listed");
        assert!(manifest > 0 && files.iter().any(|name| name.ends_with(".sst")));
        let infos = reader
            .live_files_storage_info(&LiveFilesStorageInfoOptions::default())
            .expect("they are listed");
        assert!(infos.iter().any(|info| info.file_type == FileType::Wal));
        let copied = reader
            .create_checkpoint(dir.as_ref(), 0)
            .expect("it is made");
        assert_eq!(copied, last);
        drop(reader);
        assert_eq!(contents(&world, "/db"), before, "the source is as it was");
        let copy = open_dir(&world, dir).expect("the copy opens");
        assert_eq!(get(&copy, "k00000").map(|value| value.len()), Some(100));
        assert_eq!(get(&copy, "k00599").map(|value| value.len()), Some(100));
        let other = copy.family("other").expect("it is copied");
        let value = other.get(b"o").expect("the read returns no error");
        assert_eq!(value.as_deref(), Some(&b"2"[..]));
        assert!(copy.latest_sequence() >= last);
    }
}

#[test]
fn files_stay_while_deletions_are_disabled() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    fill(&db, 0, 500);
    db.disable_file_deletions().unwrap();
    db.disable_file_deletions().unwrap();
    let infos = db
        .live_files_storage_info(&LiveFilesStorageInfoOptions::default())
        .unwrap();
    fill(&db, 0, 500);
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    db.enable_file_deletions().unwrap();
    for info in &infos {
        let path = info.directory.join(&info.relative_filename);
        let len = world.fs.status(&path).unwrap().len;
        assert!(
            len >= info.size
                && (info.trim_to_size || len == info.size || info.file_type == FileType::Current)
        );
    }
    let table = infos
        .iter()
        .find(|info| info.file_type == FileType::Table)
        .unwrap();
    db.enable_file_deletions().unwrap();
    assert!(
        !world
            .fs
            .exists(&table.directory.join(&table.relative_filename))
            .unwrap()
    );
    let (names, manifest) = db.live_files(true).unwrap();
    assert!(manifest > 0 && names.iter().any(|name| name == "/CURRENT"));
    let all = db.live_files_metadata();
    let family = db.metadata(&ColumnFamilyMetaDataOptions::default());
    assert_eq!(all.len(), family.file_count);
    assert_eq!(all.iter().map(|file| file.size).sum::<u64>(), family.size);
    let none = db.metadata(&ColumnFamilyMetaDataOptions {
        start_key: Some(b"z".to_vec()),
        ..ColumnFamilyMetaDataOptions::default()
    });
    assert_eq!(none.file_count, 0);
}

/// Regression: the export of a dropped family succeeded, without what was in memtables.
#[test]
fn a_dropped_family_is_neither_exported_nor_ingested_into() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    let family = db.create_family("gone", &small()).unwrap();
    family.put(b"a", b"1").unwrap();
    db.flush_families(&[&family]).unwrap();
    let dir = Path::new("/export");
    let export = family.export(dir).unwrap();
    let table = dir.join(&export.files[0].relative_filename);
    family.put(b"b", b"2").unwrap();
    db.drop_family(&family).unwrap();
    let as_it_is = IngestExternalFileOptions {
        allow_db_generated_files: true,
        ..IngestExternalFileOptions::default()
    };
    let ingestion = Ingestion::new(&family, [table], &as_it_is);
    for refused in [
        family.export("/again".as_ref()).map(|_| ()),
        db.ingest_external_files(&[ingestion]),
        family.delete_files_in_ranges(&[(None, None)], true),
    ] {
        let error = refused.unwrap_err();
        assert_eq!(error.code(), Code::ColumnFamilyDropped, "{error}");
    }
    assert!(world.fs.list("/again".as_ref()).is_err());
    assert_eq!(family.get(b"b").unwrap().as_deref(), Some(&b"2"[..]));
}

#[test]
fn an_exported_family_becomes_one_of_another_database() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    // A compaction would discard the newest sequence numbers.
    db.set_options(&[("disable_auto_compactions", "true")])
        .unwrap();
    fill(&db, 0, 2000);
    db.flush().unwrap();
    fill(&db, 1000, 1500);
    db.delete(b"k00007").unwrap();
    db.delete_range(b"k00010", b"k00020").unwrap();
    // It would lack what is in the logs.
    let reader = open_dir_as(&world, "/db", true).unwrap();
    let error = reader.export("/export".as_ref()).unwrap_err();
    assert_eq!(error.code(), Code::NotSupported, "{error}");
    let export = db.export("/export".as_ref()).unwrap();
    assert!(export.files.len() >= 2);
    let other = open_dir(&world, "/second").unwrap();
    let import = ImportColumnFamilyOptions { move_files: true };
    let mut wrong = export.clone();
    wrong.db_comparator_name = "rocksdb.ReverseBytewiseComparator".to_owned();
    let create = |export: &_| {
        other.create_family_with_import("in", &small(), &import, std::slice::from_ref(export))
    };
    assert_eq!(create(&wrong).unwrap_err().code(), Code::InvalidArgument);
    let mut outside = export.clone();
    outside.files[0].relative_filename = "../CURRENT".to_owned();
    assert_eq!(create(&outside).unwrap_err().code(), Code::InvalidArgument);
    // Numbers that would leave none for later writes.
    let mut last = export.clone();
    last.files[0].largest_seqno = SequenceNumber::MAX;
    assert_eq!(create(&last).unwrap_err().code(), Code::Corruption);
    let mut last = export.clone();
    last.files[0].epoch_number = u64::MAX;
    assert_eq!(create(&last).unwrap_err().code(), Code::Corruption);
    assert!(other.family("in").is_none());
    let family = create(&export).unwrap();
    assert!(other.latest_sequence() >= db.latest_sequence());
    let check = |family: &cairn_db::Family| {
        assert!(family.get(b"k01999").unwrap().is_some());
        assert!(family.get(b"k00007").unwrap().is_none());
        assert!(family.get(b"k00015").unwrap().is_none());
    };
    check(&family);
    assert!(world.fs.list("/export".as_ref()).unwrap().is_empty());
    drop(family);
    other.close().unwrap();
    let other = open_dir(&world, "/second").unwrap();
    check(&other.family("in").unwrap());
    // The same database, from a copy.
    let again = db.export("/again".as_ref()).unwrap();
    let copied = ImportColumnFamilyOptions::default();
    let twin = db
        .create_family_with_import("twin", &small(), &copied, std::slice::from_ref(&again))
        .unwrap();
    check(&twin);
    let twice = [again.clone(), again];
    assert!(
        db.create_family_with_import("x", &small(), &copied, &twice)
            .is_err()
    );
    twin.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    check(&twin);
}

#[test]
fn destroying_a_database_leaves_other_files() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    fill(&db, 0, 300);
    db.flush().unwrap();
    let options = db_options();
    let destroy = || cairn_db::destroy(&world, "/db".as_ref(), &options, &[]);
    assert_eq!(destroy().unwrap_err().code(), Code::IoError);
    assert!(get(&db, "k00001").is_some());
    db.close().unwrap();
    let mode = Default::default();
    world.fs.create("/db/notes.txt".as_ref(), mode).unwrap();
    destroy().unwrap();
    assert_eq!(world.fs.list("/db".as_ref()).unwrap(), ["notes.txt"]);
    world.fs.remove("/db/notes.txt".as_ref()).unwrap();
    destroy().unwrap();
    assert!(!world.fs.exists("/db".as_ref()).unwrap());
    destroy().unwrap();
}

/// Regression: the directory behind a symbolic link was removed, and the next opening through the link failed.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the file system under test makes no links"
)]
fn destroying_a_database_behind_a_symbolic_link_keeps_the_directory() {
    let place = tempfile::tempdir().unwrap();
    let (real, link) = (place.path().join("real"), place.path().join("link"));
    std::fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let world = World::posix();
    let options = db_options();
    let opened = || {
        open(&OpenRequest {
            path: &link,
            options: &options,
            families: &[],
            others: Some(&small()),
            read_only: false,
            world: world.clone(),
        })
    };
    for _ in 0..2 {
        let db = opened().unwrap();
        assert!(get(&db, "k").is_none());
        db.put(b"k", b"1").unwrap();
        db.close().unwrap();
        drop(db);
        cairn_db::destroy(&world, &link, &options, &[]).unwrap();
        assert_eq!(std::fs::read_dir(&real).unwrap().count(), 0);
    }
}

/// Regression: if a listener reset the error of a failed MANIFEST, the tables of the import were deleted, and the next
/// opening missed them. Without the listener, they stayed after resuming, until the next opening.
#[test]
fn an_import_in_doubt_keeps_its_tables_until_the_next_manifest() {
    let tables = |sim: &SimWorld| of_kind(sim, "sst").len();
    for (options, is_reset) in [(forgiving(), true), (db_options(), false)] {
        let sim = SimWorld::new(3);
        let options = DbOptions {
            max_bgerror_resume_count: 0,
            ..options
        };
        let db = open_with(&sim.world, &options, &small()).unwrap();
        fill(&db, 0, 10);
        let export = db.export("/export".as_ref()).unwrap();
        let before = tables(&sim);
        let name =
            String::from_utf8(crate::logs::bytes_of(&sim.world, "/db/CURRENT".as_ref())).unwrap();
        let plan = failing(Call::Sync, name.trim_end(), Fault::InputOutput, 1);
        sim.fs.set_plan(plan);
        let import = ImportColumnFamilyOptions::default();
        let created = db.create_family_with_import("in", &small(), &import, &[export]);
        assert_eq!(created.map(drop).unwrap_err().code(), Code::IoError);
        assert_eq!(sim.fs.injected(), 1);
        assert_eq!(db.background_error_state().is_none(), is_reset);
        assert_eq!(tables(&sim), before + 1, "the MANIFEST may have the table");
        if !is_reset {
            db.resume().unwrap();
            assert_eq!(tables(&sim), before, "no MANIFEST has the table");
        }
        db.close().unwrap();
        let db = open_with(&sim.world, &db_options(), &small()).unwrap();
        let family = db.family("in");
        assert!(is_reset || family.is_none());
        for family in family.iter().chain([db.default_family()]) {
            let found = family.get(b"k00007").unwrap();
            assert_eq!(found.as_deref(), Some(&[b'v'; 100][..]));
        }
    }
}

/// An import of tables that refer to blob files, which are not part of an export, would read those of the same numbers.
#[test]
fn tables_that_refer_to_blob_files_are_not_imported() {
    let world = World::in_memory();
    let blobs = FamilyOptions {
        enable_blob_files: true,
        ..small()
    };
    let db = open_at(&world, &[]).unwrap();
    let source = db.create_family("source", &blobs).unwrap();
    source.put(b"k", &[1; 1000]).unwrap();
    source.flush().unwrap();
    let export = ExportImportFilesMetaData {
        db_comparator_name: "leveldb.BytewiseComparator".to_owned(),
        files: db.live_files_metadata(),
    };
    let options = ImportColumnFamilyOptions { move_files: false };
    let created = db.create_family_with_import("in", &blobs, &options, &[export]);
    let error = created.map(|_| ()).unwrap_err();
    assert_eq!(error.code(), Code::NotSupported, "{error}");
    assert!(db.family("in").is_none());
}
