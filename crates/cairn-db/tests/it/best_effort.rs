//! Best-effort recovery of databases with missing files.

use std::path::{Path, PathBuf};

use cairn_db::{Db, Ingestion, OpenRequest, SstFileWriter, open};
use cairn_options::{
    BottommostLevelCompaction, CompactRangeOptions, DbOptions, FamilyOptions,
    IngestExternalFileOptions,
};
use cairn_platform::World;
use cairn_types::{Code, Result};

use crate::basic::db_options;

const TABLES: u8 = 4;

fn try_open(world: &World, options: &DbOptions) -> Result<Db> {
    try_open_with(world, options, FamilyOptions::default())
}

/// Opens the database with `family`, but without automatic compactions.
fn try_open_with(world: &World, options: &DbOptions, family: FamilyOptions) -> Result<Db> {
    open(&OpenRequest {
        path: Path::new("/db"),
        options,
        families: &[],
        others: Some(&FamilyOptions {
            disable_auto_compactions: true,
            ..family
        }),
        read_only: false,
        world: world.clone(),
    })
}

/// Creates a database with a table for each key from 0 on, and one more key in the log.
fn written() -> (World, Vec<PathBuf>) {
    let world = World::in_memory();
    let db = try_open(&world, &db_options()).expect("it is created");
    for key in 0..TABLES {
        db.put(&[key], b"value").expect("a write");
        db.flush().expect("a flush");
    }
    db.put(b"logged", b"value").expect("a write");
    db.close().expect("it closes");
    (world.clone(), tables(&world))
}

fn tables(world: &World) -> Vec<PathBuf> {
    of_kind(world, ".sst")
}

/// Returns the files of the database whose names end in `end`, in order.
fn of_kind(world: &World, end: &str) -> Vec<PathBuf> {
    let mut names = world.fs.list(Path::new("/db")).expect("a directory");
    names.retain(|name| name.ends_with(end));
    names.sort();
    let paths = names.iter().map(|name| Path::new("/db").join(name));
    paths.collect()
}

fn best_effort() -> DbOptions {
    DbOptions {
        best_efforts_recovery: true,
        ..DbOptions::default()
    }
}

#[test]
fn the_latest_state_without_lost_tables_is_recovered() {
    for lost in 1_u8..1 << TABLES {
        let (world, tables) = written();
        for (number, table) in tables.iter().enumerate() {
            if lost >> number & 1 == 1 {
                world.fs.remove(table).unwrap();
            }
        }
        let refused = try_open(&world, &DbOptions::default()).err().unwrap();
        assert_eq!(refused.code(), Code::Corruption, "{refused}");
        let db = try_open(&world, &best_effort()).unwrap();
        let whole = lost.trailing_zeros() as u8;
        for key in 0..TABLES {
            assert_eq!(db.get(&[key]).unwrap().is_some(), key < whole, "{lost:b}");
        }
        assert!(db.get(b"logged").unwrap().is_none());
        // The recovered database works like any other.
        db.put(b"new", b"value").unwrap();
        db.close().unwrap();
        let db = try_open(&world, &DbOptions::default()).unwrap();
        assert!(db.get(b"new").unwrap().is_some());
        db.close().unwrap();
    }
}

#[test]
fn neither_current_nor_the_end_of_the_manifest_is_required() {
    let (world, _) = written();
    world.fs.remove(Path::new("/db/CURRENT")).unwrap();
    let db = try_open(&world, &best_effort()).unwrap();
    assert!(db.get(&[TABLES - 1]).unwrap().is_some());
    assert!(db.get(b"logged").unwrap().is_none());
    db.close().unwrap();

    let (world, _) = written();
    let names = world.fs.list(Path::new("/db")).unwrap();
    let name = names
        .iter()
        .find(|name| name.starts_with("MANIFEST"))
        .unwrap();
    let len = world.fs.status(&Path::new("/db").join(name)).unwrap().len;
    // In the last record, which is of the flush of the last table.
    damage(&world, name, len as usize - 12);
    assert!(try_open(&world, &DbOptions::default()).is_err());
    let db = try_open(&world, &best_effort()).unwrap();
    assert!(db.get(&[TABLES - 2]).unwrap().is_some());
    assert!(db.get(&[TABLES - 1]).unwrap().is_none());
    db.close().unwrap();
}

/// Flips a bit of the file `name`.
pub fn damage(world: &World, name: &str, at: usize) {
    let path = Path::new("/db").join(name);
    let file = world.fs.open(&path, Default::default()).expect("a file");
    let mut content = vec![0; file.len().expect("a length") as usize];
    file.read_up_to_end(0, &mut content).expect("its content");
    content[at] ^= 1;
    world.fs.remove(&path).expect("it goes");
    let file = world.fs.create(&path, Default::default()).expect("a file");
    file.append(&content).expect("a write");
    file.close().expect("it closes");
}

#[test]
fn without_paranoid_checks_a_lost_table_is_an_error_of_its_reads() {
    let (world, tables) = written();
    world.fs.remove(&tables[1]).unwrap();
    let options = DbOptions {
        paranoid_checks: false,
        ..DbOptions::default()
    };
    let db = try_open(&world, &options).unwrap();
    assert!(db.get(b"logged").unwrap().is_some());
    assert!(db.get(&[0]).unwrap().is_some());
    let error = db.get(&[1]).unwrap_err();
    assert!(error.text().contains(".sst"), "{error}");
    db.close().unwrap();
}

/// The files of `dir` with their lengths.
fn files(world: &World, dir: &str) -> Vec<(String, u64)> {
    let dir = Path::new(dir);
    let names = world.fs.list(dir).unwrap_or_default();
    let mut files: Vec<_> = names
        .into_iter()
        .map(|name| {
            let len = world.fs.status(&dir.join(&name)).map_or(0, |s| s.len);
            (name, len)
        })
        .collect();
    files.sort();
    files
}

/// Regression (R8): tables and logs were deleted if the MANIFEST could not be read to its end.
#[test]
fn files_that_are_not_recovered_are_moved_aside() {
    for at in [0.2, 0.5, 0.9] {
        let (world, _) = written();
        let manifest = files(&world, "/db")
            .into_iter()
            .find(|(name, _)| name.starts_with("MANIFEST"));
        let (manifest, len) = manifest.unwrap();
        world.fs.remove("/db/CURRENT".as_ref()).unwrap();
        damage(&world, &manifest, (len as f64 * at) as usize);
        let data: Vec<_> = files(&world, "/db")
            .into_iter()
            .filter(|(name, len)| *len > 0 && (name.ends_with(".sst") || name.ends_with(".log")))
            .collect();
        assert!(data.len() > usize::from(TABLES));
        let Ok(db) = try_open(&world, &best_effort()) else {
            assert_eq!(files(&world, "/db/lost"), []);
            continue;
        };
        let dropped = db.dropped_at_recovery();
        assert_eq!(dropped.len(), 1, "{dropped:?}");
        assert!(dropped[0].file.ends_with(&manifest));
        assert!(dropped[0].offset < len && dropped[0].offset + dropped[0].bytes == len);
        db.close().unwrap();
        let (here, lost) = (files(&world, "/db"), files(&world, "/db/lost"));
        for file in &data {
            assert!(here.contains(file) || lost.contains(file), "{file:?}");
        }
        assert!(lost.contains(&(manifest, len)), "{lost:?}");
        assert!(lost.len() > 1, "{lost:?}");
    }
}

/// Nothing is moved aside if nothing is missing.
#[test]
fn intact_files_stay_in_place() {
    let (world, _) = written();
    let db = try_open(&world, &db_options()).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    drop(db);
    let db = try_open(&world, &best_effort()).unwrap();
    assert!(db.get(b"logged").unwrap().is_some());
    assert!(db.dropped_at_recovery().is_empty());
    db.close().unwrap();
    assert_eq!(files(&world, "/db/lost"), []);
}

/// Even if an older one is still linked.
#[test]
fn a_blob_file_with_only_garbage_may_be_missing() {
    let world = World::in_memory();
    let try_open = |options: &DbOptions| {
        let family = FamilyOptions {
            enable_blob_files: true,
            ..FamilyOptions::default()
        };
        try_open_with(&world, options, family)
    };
    let db = try_open(&db_options()).unwrap();
    for (key, value) in [(b"a", b"1"), (b"b", b"1"), (b"b", b"2")] {
        db.put(key, value).unwrap();
        db.flush().unwrap();
    }
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    assert_eq!(db.property("rocksdb.num-blob-files").as_deref(), Some("2"));
    db.close().unwrap();
    drop(db);
    world.fs.remove(Path::new("/db/CURRENT")).unwrap();
    let db = try_open(&best_effort()).unwrap();
    assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(db.get(b"b").unwrap().as_deref(), Some(&b"2"[..]));
}

/// Regression: a family was recovered to a state before an ingestion that also added a file to another
/// family, where it has since been compacted.
#[test]
fn files_ingested_together_stay_after_one_is_compacted() {
    let (world, _) = written();
    let db = try_open(&world, &db_options()).unwrap();
    let other = db
        .create_family("other", &FamilyOptions::default())
        .unwrap();
    world.fs.create_dir_all("/out".as_ref()).unwrap();
    let ingestions = [db.default_family(), &other].map(|family| {
        let path = format!("/out/{}.sst", family.name());
        let mut writer = SstFileWriter::for_family(family);
        writer.open(path.as_ref()).unwrap();
        writer.put(b"came", b"together").unwrap();
        writer.finish().unwrap();
        Ingestion::new(family, [path], &IngestExternalFileOptions::default())
    });
    db.ingest_external_files(&ingestions).unwrap();
    let force = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    other.compact_range(None, None, &force).unwrap();
    db.close().unwrap();
    drop((db, other, ingestions));
    world.fs.remove(Path::new("/db/CURRENT")).unwrap();
    let db = try_open(&world, &best_effort()).unwrap();
    let other = db.family("other").unwrap();
    for found in [db.get(b"came"), other.get(b"came")] {
        assert_eq!(found.unwrap().as_deref(), Some(&b"together"[..]));
    }
}

/// Families that were flushed together, one of which has been compacted since: the others prove that the
/// flush was complete.
#[test]
fn families_flushed_together_stay_after_one_is_compacted() {
    let (world, _) = written();
    let atomic = |options: DbOptions| DbOptions {
        atomic_flush: true,
        ..options
    };
    let db = try_open(&world, &atomic(db_options())).unwrap();
    let others = ["one", "two"].map(|name| {
        db.create_family(name, &FamilyOptions::default())
            .expect("no family has the name")
    });
    let families = [db.default_family(), &others[0], &others[1]];
    for family in families {
        family.put(b"came", b"together").unwrap();
    }
    db.flush_families(&families).unwrap();
    let force = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    others[1].compact_range(None, None, &force).unwrap();
    db.close().unwrap();
    drop((db, others));
    world.fs.remove(Path::new("/db/CURRENT")).unwrap();
    let db = try_open(&world, &atomic(best_effort())).unwrap();
    for name in ["default", "one", "two"] {
        let found = db.family(name).unwrap().get(b"came").unwrap();
        assert_eq!(found.as_deref(), Some(&b"together"[..]), "{name}");
    }
}

/// Regression: a MANIFEST whose first state lacked only its newest tables was rejected, which RocksDB recovers.
#[test]
fn the_newest_tables_of_level_zero_may_be_missing_from_every_state() {
    for lost in 1_u8..1 << TABLES {
        for (with_tables, with_blobs) in [(true, true), (true, false), (false, true)] {
            let world = World::in_memory();
            let family = || FamilyOptions {
                enable_blob_files: true,
                ..FamilyOptions::default()
            };
            let db = try_open_with(&world, &db_options(), family()).unwrap();
            for key in 0..TABLES {
                db.put(&[key], b"value").unwrap();
                db.flush().unwrap();
            }
            db.close().unwrap();
            drop(db);
            // This starts a MANIFEST with all tables.
            let db = try_open_with(&world, &best_effort(), family()).unwrap();
            db.close().unwrap();
            drop(db);
            let blobs = of_kind(&world, ".blob");
            for (number, (table, blob)) in tables(&world).iter().zip(&blobs).enumerate() {
                if lost >> number & 1 == 1 {
                    let removed = [(with_tables, table), (with_blobs, blob)];
                    for (_, path) in removed.iter().filter(|(removes, _)| *removes) {
                        world.fs.remove(path).unwrap();
                    }
                }
            }
            let whole = lost.trailing_zeros() as u8;
            let is_suffix = (lost >> whole) + 1 == 1 << (TABLES - whole);
            let opened = try_open_with(&world, &best_effort(), family());
            if !is_suffix || !with_tables {
                let refused = opened.err().map(|error| error.code());
                assert_eq!(refused, Some(Code::Corruption), "{lost:b}, {with_tables}");
                continue;
            }
            let db = opened.unwrap();
            for key in 0..TABLES {
                let found = db.get(&[key]).unwrap();
                assert_eq!(found.is_some(), key < whole, "{lost:b}, {with_blobs}");
            }
            let blobs = db.property("rocksdb.num-blob-files");
            assert!(!with_blobs || blobs == Some(whole.to_string()), "{blobs:?}");
            db.put(b"new", b"value").unwrap();
            db.close().unwrap();
            drop(db);
            let db = try_open_with(&world, &DbOptions::default(), family()).unwrap();
            assert!(db.get(b"new").unwrap().is_some());
            db.close().unwrap();
        }
    }
}
