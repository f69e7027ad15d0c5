//! Databases written by LevelDB, and tables with its names.

use std::path::{Path, PathBuf};

use cairn_db::{Db, OpenRequest, open};
use cairn_options::{DbOptions, FamilyOptions};
use cairn_platform::World;
use cairn_platform::fs::FileMode;
use cairn_types::Result;

use crate::basic::{db_options, open_at, scan, small};

const DIR: &str = "/db";

fn names(world: &World) -> Vec<String> {
    world.fs.list(DIR.as_ref()).expect("a directory")
}

/// Gives all tables the names of LevelDB.
fn rename_tables(world: &World) {
    for name in names(world).iter().filter(|name| name.ends_with(".sst")) {
        let path = Path::new(DIR).join(name);
        let renamed = world.fs.rename(&path, &path.with_extension("ldb"));
        renamed.expect("it is renamed");
    }
}

/// A closed database with a table that has an entry.
fn with_a_table() -> World {
    let world = World::in_memory();
    let db = open_at(&world, &[]).expect("it is created");
    db.put(b"k", b"1").expect("a write");
    db.flush().expect("a flush");
    db.close().expect("it closes");
    world
}

fn open_read_only(world: &World, paranoid_checks: bool) -> Result<Db> {
    let options = DbOptions {
        paranoid_checks,
        ..db_options()
    };
    open(&OpenRequest {
        path: Path::new(DIR),
        options: &options,
        families: &[],
        others: Some(&FamilyOptions::default()),
        read_only: true,
        world: world.clone(),
    })
}

/// Regression: a table whose name ends in `.ldb` was reported as missing.
#[test]
fn tables_with_names_of_leveldb_are_read_and_renamed_by_openings_that_write() {
    let world = World::in_memory();
    let expected = [
        (b"k".to_vec(), b"1".to_vec()),
        (b"l".to_vec(), b"2".to_vec()),
    ];
    let db = open_at(&world, &[]).unwrap();
    for (key, value) in &expected {
        db.put(key, value).unwrap();
        db.flush().unwrap();
    }
    db.close().unwrap();
    rename_tables(&world);
    for paranoid_checks in [true, false] {
        let db = open_read_only(&world, paranoid_checks).unwrap();
        assert_eq!(scan(&db), expected);
        let kept = names(&world);
        assert_eq!(kept.iter().filter(|name| name.ends_with(".ldb")).count(), 2);
    }
    let db = open_at(&world, &[]).unwrap();
    assert_eq!(scan(&db), expected);
    let now = names(&world);
    assert_eq!(now.iter().filter(|name| name.ends_with(".sst")).count(), 2);
    assert!(!now.iter().any(|name| name.ends_with(".ldb")));
    db.compact_range(None, None, &Default::default()).unwrap();
    assert_eq!(scan(&db), expected);
}

#[test]
fn a_missing_table_is_reported_under_its_current_name() {
    let world = with_a_table();
    for name in names(&world).iter().filter(|name| name.ends_with(".sst")) {
        world.fs.remove(&Path::new(DIR).join(name)).unwrap();
    }
    let error = open_at(&world, &[]).err().expect("a table is missing");
    assert!(error.to_string().contains(".sst"), "{error}");
    assert!(error.to_string().contains("is missing"), "{error}");
}

#[test]
fn repair_reads_tables_with_names_of_leveldb() {
    let world = with_a_table();
    rename_tables(&world);
    world.fs.remove(&Path::new(DIR).join("CURRENT")).unwrap();
    cairn_db::repair(&world, DIR.as_ref(), &db_options(), &[], &small()).unwrap();
    let db = open_at(&world, &[]).unwrap();
    assert_eq!(scan(&db), [(b"k".to_vec(), b"1".to_vec())]);
}

/// `tests/data/leveldb` was written by LevelDB 1.22: keys 0 to 899 with tables and a log, then every third deleted; after
/// another opening, every ninth from 1 on overwritten.
#[test]
fn a_database_of_leveldb_is_opened() {
    let source: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/data/leveldb"]
        .iter()
        .collect();
    let world = World::in_memory();
    world.fs.create_dir_all(DIR.as_ref()).unwrap();
    let fixture = World::posix().fs;
    for name in fixture.list(&source).unwrap() {
        let file = fixture
            .open(&source.join(&name), FileMode::default())
            .unwrap();
        let mut content = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        file.read_up_to_end(0, &mut content).unwrap();
        let copy = world
            .fs
            .create(&Path::new(DIR).join(&name), FileMode::default())
            .unwrap();
        copy.append(&content).unwrap();
        copy.close().unwrap();
    }
    let expected = (0..900).filter(|n| n % 3 != 0).map(|n| {
        let value = match n % 9 {
            1 => "again".to_owned(),
            _ => format!("value{n:04} ").repeat(8),
        };
        (format!("key{n:04}").into_bytes(), value.into_bytes())
    });
    let expected: Vec<_> = expected.collect();
    assert_eq!(scan(&open_read_only(&world, true).unwrap()), expected);
    for _ in 0..2 {
        let db = open_at(&world, &[]).unwrap();
        assert_eq!(scan(&db), expected);
        db.compact_range(None, None, &Default::default()).unwrap();
        assert_eq!(scan(&db), expected);
        db.close().unwrap();
    }
}
