//! Repair of damaged databases, without losing any readable data.

use std::path::{Path, PathBuf};

use cairn_db::{
    Db, FamilyDescriptor, Ingestion, OpenRequest, Quarantine, RepairReport, SstFileWriter, open,
};
use cairn_options::{
    CompactRangeOptions, DbOptions, FamilyOptions, IngestExternalFileOptions, ReadOptions,
    WriteOptions, merge_operators,
};
use cairn_platform::World;
use cairn_sim::trace::Call;
use cairn_sim::{Fault, FaultPlan, SimWorld};
use cairn_types::{Code, FileNumber, KeyOrder, Result};

use crate::basic::{db_options, open_at, open_with, small};
use crate::errors::failing;

const DIR: &str = "/db";

fn repair(world: &World) -> Result<RepairReport> {
    cairn_db::repair(world, DIR.as_ref(), &db_options(), &[], &small())
}

fn quarantine(world: &World, which: &Quarantine) -> Result<RepairReport> {
    cairn_db::quarantine(world, DIR.as_ref(), &db_options(), &[], &small(), which)
}

fn names(world: &World, dir: &str) -> Vec<String> {
    let mut names = world.fs.list(dir.as_ref()).unwrap_or_default();
    names.sort();
    names
}

fn tables(world: &World) -> Vec<PathBuf> {
    let names = names(world, DIR).into_iter();
    let tables = names.filter(|name| name.ends_with(".sst"));
    tables.map(|name| Path::new(DIR).join(name)).collect()
}

fn get(db: &Db, key: &str) -> Option<String> {
    let value = db.get(key.as_bytes()).expect("the read returns no error");
    value.map(|value| String::from_utf8_lossy(&value).into_owned())
}

/// Changes a byte in the middle of a file.
fn damage(world: &World, path: &Path) {
    let fs = &world.fs;
    let file = fs.open(path, Default::default()).expect("it is there");
    let mut bytes = vec![0; file.len().expect("it has a length") as usize];
    file.read_at(0, &mut bytes).expect("it can be read");
    drop(file);
    bytes[20] ^= 0x55;
    fs.remove(path).expect("it can be removed");
    let file = fs
        .create(path, Default::default())
        .expect("it can be created");
    file.append(&bytes).expect("it can be written");
}

/// Creates a database with a table for each of `a`, `m` and `z`, and `later` in its log.
fn three_tables(world: &World) {
    let db = open_at(world, &[]).expect("it opens");
    for key in ["a", "m", "z"] {
        db.put(key.as_bytes(), b"flushed").expect("a write");
        db.put(&[key.as_bytes(), b"2"].concat(), b"flushed")
            .expect("a write");
        db.flush().expect("a flush");
    }
    db.put(b"later", b"logged").expect("a write");
    db.close().expect("it closes");
}

#[test]
fn a_damaged_table_is_moved_aside_and_its_range_is_reported() {
    let world = World::in_memory();
    three_tables(&world);
    let open = open_at(&world, &[]).unwrap();
    assert_eq!(
        quarantine(&world, &Quarantine::AllDamaged)
            .unwrap_err()
            .code(),
        Code::IoError
    );
    open.close().unwrap();
    let before = tables(&world);
    damage(&world, &before[1]);
    let report = quarantine(&world, &Quarantine::AllDamaged).unwrap();
    assert_eq!((report.kept, report.lost.len()), (before.len() - 1, 1));
    let lost = &report.lost[0];
    assert_eq!(lost.keys, Some((b"m".to_vec(), b"m2".to_vec())));
    assert_eq!((lost.family.as_str(), lost.level), ("default", 0));
    assert!(world.fs.exists(&lost.path).unwrap());
    assert!(!world.fs.exists(&before[1]).unwrap());
    let db = open_at(&world, &[]).unwrap();
    assert_eq!(get(&db, "a").as_deref(), Some("flushed"));
    assert_eq!(get(&db, "later").as_deref(), Some("logged"));
    assert_eq!((get(&db, "m"), get(&db, "m2")), (None, None));
    db.close().unwrap();
    // One by its number, and a name without a number.
    let number = |path: &Path| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        FileNumber(name.parse().unwrap())
    };
    let which = Quarantine::Tables(vec![number(&before[0])]);
    assert_eq!(quarantine(&world, &which).unwrap().lost.len(), 1);
    assert_eq!(
        quarantine(&world, &which).unwrap_err().code(),
        Code::InvalidArgument
    );
    let db = open_at(&world, &[]).unwrap();
    assert_eq!(
        (get(&db, "a"), get(&db, "z").as_deref()),
        (None, Some("flushed"))
    );
}

#[test]
fn a_database_without_manifest_is_rebuilt_from_its_tables_and_logs() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    let other = db.create_family("other", &small()).unwrap();
    for round in 0..3 {
        for key in ["a", "b", "c"] {
            db.put(key.as_bytes(), format!("{key}{round}").as_bytes())
                .unwrap();
        }
        other.put(b"o", b"x").unwrap();
        db.flush_families(&[]).unwrap();
    }
    db.delete(b"b").unwrap();
    db.put(b"c", b"logged").unwrap();
    drop(other);
    db.close().unwrap();
    let logs = names(&world, DIR)
        .iter()
        .filter(|name| name.ends_with(".log"))
        .count();
    world.fs.remove("/db/CURRENT".as_ref()).unwrap();
    let report = repair(&world).unwrap();
    assert!(report.rebuilt && report.lost.is_empty() && report.dropped.is_empty());
    let lost = names(&world, "/db/lost");
    assert!(
        lost.iter().any(|name| name.starts_with("MANIFEST-")),
        "{lost:?}"
    );
    assert_eq!(
        lost.iter().filter(|name| name.ends_with(".log")).count(),
        logs
    );
    let db = open_at(&world, &[]).unwrap();
    assert_eq!(get(&db, "a").as_deref(), Some("a2"));
    assert_eq!(get(&db, "b"), None);
    assert_eq!(get(&db, "c").as_deref(), Some("logged"));
    let other = db.family("other").expect("its name is in its tables");
    assert_eq!(other.get(b"o").unwrap().as_deref(), Some(&b"x"[..]));
    assert!(db.latest_sequence() >= report.last_sequence);
}

#[test]
fn blob_files_referenced_only_by_entities_are_kept_without_a_manifest() {
    let world = World::in_memory();
    let options = FamilyOptions {
        enable_blob_files: true,
        enable_blob_columns: true,
        min_blob_size: 300,
        disable_auto_compactions: true,
        ..small()
    };
    let opened = || open_at(&world, &[FamilyDescriptor::new("default", options.clone())]).unwrap();
    let db = opened();
    let large = [b'L'; 400];
    // Each table has its own blob file, every other one for a plain value.
    for name in [&b"first"[..], b"third"] {
        db.put_entity(b"entity", &[(name, &large)]).unwrap();
        db.put_entity(name, &[(b"", b"small"), (b"m", &large)])
            .unwrap();
        db.flush().unwrap();
        db.put(b"value", &large).unwrap();
        db.flush().unwrap();
    }
    let blobs = || {
        let all = names(&world, DIR).into_iter();
        all.filter(|name| name.ends_with(".blob")).count()
    };
    assert_eq!(blobs(), 4);
    db.close().unwrap();
    world.fs.remove("/db/CURRENT".as_ref()).unwrap();
    let report = cairn_db::repair(&world, DIR.as_ref(), &db_options(), &[], &options).unwrap();
    assert!(report.rebuilt && report.lost.is_empty());
    let db = opened();
    // When a table is removed from the tree, unreferenced blob files are removed as well.
    db.compact_range(
        Some(b"value"),
        Some(b"value"),
        &CompactRangeOptions::default(),
    )
    .unwrap();
    for name in [&b"first"[..], b"third"] {
        let entity = db.get_entity(name, &ReadOptions::default()).unwrap();
        let entity = entity.expect("it was put");
        let columns: Vec<_> = entity.iter().collect();
        assert_eq!(columns, [(&b""[..], &b"small"[..]), (b"m", &large)]);
    }
    assert_eq!(db.get(b"value").unwrap().as_deref(), Some(&large[..]));
    assert_eq!(blobs(), 3, "all but that of the older value");
}

#[test]
fn an_older_value_does_not_reappear_if_tables_overlap() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    // The compacted table has the older value of k, and larger sequence numbers than that of the newer one.
    db.put(b"k", b"old").unwrap();
    db.put(b"z", b"old").unwrap();
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    db.put(b"k", b"new").unwrap();
    db.flush().unwrap();
    db.put(b"a", b"1").unwrap();
    db.put(b"j", b"1").unwrap();
    db.compact_range(Some(b"a"), Some(b"j"), &CompactRangeOptions::default())
        .unwrap();
    assert_eq!(get(&db, "k").as_deref(), Some("new"));
    db.close().unwrap();
    world.fs.remove("/db/CURRENT".as_ref()).unwrap();
    repair(&world).unwrap();
    let db = open_at(&world, &[]).unwrap();
    assert_eq!(get(&db, "k").as_deref(), Some("new"));
    assert_eq!(get(&db, "z").as_deref(), Some("old"));
}

/// Regression: writes that were only logged were lost if a compaction had merged an ingested table, whose number is newer, with
/// others: the largest number of a table counted as the end of what is flushed.
#[test]
fn logged_writes_that_are_older_than_ingested_tables_are_replayed() {
    let world = World::in_memory();
    let options = DbOptions {
        avoid_flush_during_shutdown: true,
        ..db_options()
    };
    let family = FamilyOptions {
        disable_auto_compactions: true,
        ..small()
    };
    let db = open_with(&world, &options, &family).unwrap();
    for key in [b"a1", b"a2", b"a3"] {
        db.put(key, b"flushed").unwrap();
    }
    db.flush().unwrap();
    db.put(b"k1", b"logged").unwrap();
    db.put(b"k2", b"logged").unwrap();
    let mut writer = SstFileWriter::for_family(db.default_family());
    world.fs.create_dir_all("/out".as_ref()).unwrap();
    writer.open("/out/a.sst".as_ref()).unwrap();
    for key in [b"a1", b"a2", b"a3"] {
        writer.put(key, b"ingested").unwrap();
    }
    writer.finish().unwrap();
    let ingestion = Ingestion::new(
        db.default_family(),
        ["/out/a.sst"],
        &IngestExternalFileOptions::default(),
    );
    // The snapshots keep the number of the ingested entries in the compacted table.
    let before = db.snapshot();
    db.ingest_external_files(&[ingestion]).unwrap();
    db.compact_range(Some(b"a"), Some(b"b"), &CompactRangeOptions::default())
        .unwrap();
    drop(before);
    db.close().unwrap();
    world.fs.remove("/db/CURRENT".as_ref()).unwrap();
    repair(&world).unwrap();
    let db = open_at(&world, &[]).unwrap();
    for (key, value) in [
        ("a1", "ingested"),
        ("a3", "ingested"),
        ("k1", "logged"),
        ("k2", "logged"),
    ] {
        assert_eq!(get(&db, key).as_deref(), Some(value), "{key}");
    }
}

/// Regression: tables of another database, ingested with their numbers, counted as flushed entries with these numbers.
#[test]
fn logged_writes_beside_ingested_tables_of_another_database_are_replayed() {
    let world = World::in_memory();
    let options = DbOptions {
        avoid_flush_during_shutdown: true,
        ..db_options()
    };
    let other = open(&OpenRequest {
        path: "/other".as_ref(),
        options: &options,
        families: &[],
        others: Some(&small()),
        read_only: false,
        world: world.clone(),
    })
    .unwrap();
    for key in ["x1", "x2", "x3", "x4"] {
        other.put(key.as_bytes(), b"other").unwrap();
    }
    other.flush().unwrap();
    let db = open_with(&world, &options, &small()).unwrap();
    for key in ["k1", "k2", "k3"] {
        db.put(key.as_bytes(), b"logged").unwrap();
    }
    let name = names(&world, "/other")
        .into_iter()
        .find(|name| name.ends_with(".sst"))
        .expect("it was flushed");
    let as_they_are = IngestExternalFileOptions {
        allow_db_generated_files: true,
        ..IngestExternalFileOptions::default()
    };
    let ingestion = Ingestion::new(
        db.default_family(),
        [format!("/other/{name}")],
        &as_they_are,
    );
    db.ingest_external_files(&[ingestion]).unwrap();
    db.close().unwrap();
    world.fs.remove("/db/CURRENT".as_ref()).unwrap();
    repair(&world).unwrap();
    let db = open_at(&world, &[]).unwrap();
    for (key, value) in [("k1", "logged"), ("k3", "logged"), ("x1", "other")] {
        assert_eq!(get(&db, key).as_deref(), Some(value), "{key}");
    }
}

/// What is in tables is not replayed: merge operands would count twice.
#[test]
fn logged_operands_that_are_in_tables_are_not_replayed() {
    let world = World::in_memory();
    let other = FamilyDescriptor::new("other", small());
    let family = FamilyOptions {
        merge_operator: merge_operators::from_text("uint64add").ok(),
        ..small()
    };
    let options = DbOptions {
        create_missing_column_families: true,
        avoid_flush_during_shutdown: true,
        ..db_options()
    };
    let open = |world: &World| {
        let families = [
            FamilyDescriptor::new("default", family.clone()),
            other.clone(),
        ];
        open(&OpenRequest {
            path: DIR.as_ref(),
            options: &options,
            families: &families,
            others: None,
            read_only: false,
            world: world.clone(),
        })
    };
    let db = open(&world).unwrap();
    // The log is kept for the other family, which is known by its table.
    let other_family = db.family("other").unwrap();
    other_family.put(b"o", b"flushed").unwrap();
    other_family.flush().unwrap();
    other_family.put(b"o", b"logged").unwrap();
    drop(other_family);
    // The newest of these operands is not in the log.
    let unlogged = WriteOptions {
        disable_wal: true,
        ..WriteOptions::default()
    };
    db.merge(b"mixed", &1_u64.to_le_bytes()).unwrap();
    db.default_family()
        .merge_with(b"mixed", &2_u64.to_le_bytes(), &unlogged)
        .unwrap();
    for n in 1..=4_u64 {
        db.merge(b"sum", &n.to_le_bytes()).unwrap();
        if n == 3 {
            db.flush().unwrap();
        }
    }
    db.close().unwrap();
    world.fs.remove("/db/CURRENT".as_ref()).unwrap();
    let families = [
        FamilyDescriptor::new("default", family.clone()),
        other.clone(),
    ];
    cairn_db::repair(&world, DIR.as_ref(), &options, &families, &small()).unwrap();
    let db = open(&world).unwrap();
    for (key, expected) in [("sum", 10_u64), ("mixed", 3)] {
        let sum = db.get(key.as_bytes()).unwrap().expect("it is there");
        assert_eq!(sum[..], expected.to_le_bytes(), "{key}");
    }
    let other = db.family("other").unwrap();
    assert_eq!(other.get(b"o").unwrap().as_deref(), Some(&b"logged"[..]));
}

/// Regression: tables whose version edits were cut off from the MANIFEST were moved aside.
#[test]
fn a_manifest_that_was_cut_off_is_rebuilt() {
    for lost in [1, 5, 60] {
        let world = World::in_memory();
        three_tables(&world);
        let before = tables(&world).len();
        let name = names(&world, DIR)
            .into_iter()
            .find(|name| name.starts_with("MANIFEST"));
        let path = Path::new(DIR).join(name.unwrap());
        let len = world.fs.status(&path).unwrap().len;
        let file = world.fs.open_overwrite(&path, Default::default()).unwrap();
        file.truncate(len - lost).unwrap();
        drop(file);
        let report = repair(&world).unwrap();
        assert!(report.rebuilt, "{lost}");
        assert_eq!((report.kept, report.lost.len()), (before, 0), "{lost}");
        let db = open_at(&world, &[]).unwrap();
        for key in ["a", "a2", "m", "m2", "z", "z2"] {
            assert_eq!(get(&db, key).as_deref(), Some("flushed"), "{lost}: {key}");
        }
        assert_eq!(get(&db, "later").as_deref(), Some("logged"));
    }
}

/// Regression: a repair with `best_efforts_recovery` left the logs out.
#[test]
fn a_repair_replays_the_logs_with_best_efforts_recovery() {
    let world = World::in_memory();
    three_tables(&world);
    let options = DbOptions {
        best_efforts_recovery: true,
        ..db_options()
    };
    cairn_db::repair(&world, DIR.as_ref(), &options, &[], &small()).unwrap();
    let db = open_at(&world, &[]).unwrap();
    assert_eq!(get(&db, "a").as_deref(), Some("flushed"));
    assert_eq!(get(&db, "later").as_deref(), Some("logged"));
}

/// Regression: a family without timestamps in its tables was opened neither by the repair nor after it, if the options of the
/// repair had the default of `persist_user_defined_timestamps`.
#[test]
fn a_repair_takes_from_the_tables_whether_they_have_timestamps() {
    for is_rebuilt in [false, true] {
        let world = World::in_memory();
        let keeping = FamilyOptions {
            comparator: KeyOrder::BytewiseU64Ts,
            ..small()
        };
        let stripping = FamilyOptions {
            persist_user_defined_timestamps: false,
            ..keeping.clone()
        };
        let families = [FamilyDescriptor::new("default", stripping.clone())];
        let db = open_at(&world, &families).unwrap();
        let default = db.default_family();
        let stamp = 7_u64.to_le_bytes();
        default
            .put_with_timestamp(b"flushed", &stamp, b"1")
            .unwrap();
        db.flush().unwrap();
        default.put_with_timestamp(b"logged", &stamp, b"2").unwrap();
        db.close().unwrap();
        if is_rebuilt {
            world.fs.remove("/db/CURRENT".as_ref()).unwrap();
        }
        let report = cairn_db::repair(&world, DIR.as_ref(), &db_options(), &[], &keeping).unwrap();
        assert_eq!((report.rebuilt, report.lost.len()), (is_rebuilt, 0));
        let db = open_at(&world, &families).unwrap();
        let now = ReadOptions {
            timestamp: Some(u64::MAX.to_le_bytes().to_vec()),
            ..ReadOptions::default()
        };
        let value = |key: &[u8]| db.default_family().get_with(key, &now).unwrap();
        assert_eq!(value(b"flushed").as_deref(), Some(&b"1"[..]));
        assert_eq!(value(b"logged").as_deref(), Some(&b"2"[..]));
    }
}

#[test]
fn a_directory_without_a_database_is_not_repaired() {
    let world = World::in_memory();
    assert_eq!(repair(&world).unwrap_err().code(), Code::InvalidArgument);
    world.fs.create_dir_all(DIR.as_ref()).unwrap();
    assert_eq!(repair(&world).unwrap_err().code(), Code::InvalidArgument);
    // An intact database is unchanged.
    three_tables(&world);
    let report = repair(&world).unwrap();
    assert!(!report.rebuilt && report.lost.is_empty());
    let db = open_at(&world, &[]).unwrap();
    assert_eq!(get(&db, "m").as_deref(), Some("flushed"));
    assert_eq!(get(&db, "later").as_deref(), Some("logged"));
}

/// Regression: a table that could not be opened for a reason outside of it was removed from the database.
#[test]
fn a_table_that_cannot_be_read_for_now_is_not_lost() {
    for fault in [Fault::NoDescriptor, Fault::Denied, Fault::InputOutput] {
        let calls = [Call::Status, Call::Open, Call::Read];
        for call in calls.into_iter().filter(|call| fault.applies_to(*call)) {
            let sim = SimWorld::new(1);
            three_tables(&sim.world);
            let before = tables(&sim.world);
            sim.fs.set_plan(failing(call, ".sst", fault, usize::MAX));
            quarantine(&sim.world, &Quarantine::AllDamaged).unwrap_err();
            assert!(sim.fs.injected() > 0);
            sim.fs.set_plan(FaultPlan::default());
            assert_eq!(tables(&sim.world), before);
            let report = quarantine(&sim.world, &Quarantine::AllDamaged).unwrap();
            assert_eq!((report.kept, report.lost.len()), (before.len(), 0));
        }
    }
}

/// Regression: a MANIFEST that could not be read for a reason outside of it was replaced, and its tables put into level 0.
#[test]
fn a_manifest_that_cannot_be_read_for_now_is_not_replaced() {
    for fault in [Fault::NoDescriptor, Fault::Denied, Fault::InputOutput] {
        for prefix in ["MANIFEST", "CURRENT"] {
            let calls = [Call::Open, Call::Read];
            for call in calls.into_iter().filter(|call| fault.applies_to(*call)) {
                let sim = SimWorld::new(1);
                three_tables(&sim.world);
                let mut names = names(&sim.world, DIR).into_iter();
                let name = names.find(|name| name.starts_with(prefix)).unwrap();
                sim.fs.set_plan(failing(call, &name, fault, usize::MAX));
                repair(&sim.world).unwrap_err();
                assert!(sim.fs.injected() > 0);
                sim.fs.set_plan(FaultPlan::default());
                assert!(!repair(&sim.world).unwrap().rebuilt);
            }
        }
    }
}

/// Regression: a blob file that could not be opened for a reason outside of it was left out of the rebuilt database.
#[test]
fn a_blob_file_that_cannot_be_opened_for_now_is_not_left_out() {
    let sim = SimWorld::new(1);
    let family = FamilyOptions {
        enable_blob_files: true,
        ..small()
    };
    let db = open_with(&sim.world, &db_options(), &family).unwrap();
    db.put(b"a", &[7; 1000]).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let names = names(&sim.world, DIR).into_iter();
    for name in names.filter(|name| name.starts_with("MANIFEST")) {
        sim.world.fs.remove(&Path::new(DIR).join(name)).unwrap();
    }
    sim.fs.set_plan(failing(
        Call::Open,
        ".blob",
        Fault::NoDescriptor,
        usize::MAX,
    ));
    repair(&sim.world).unwrap_err();
    sim.fs.set_plan(FaultPlan::default());
    repair(&sim.world).unwrap();
    let db = open_with(&sim.world, &db_options(), &family).unwrap();
    assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&[7; 1000][..]));
}
