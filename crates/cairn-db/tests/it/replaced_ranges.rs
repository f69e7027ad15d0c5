//! Ranges that an ingestion replaces though tables overlap them partly.

use std::path::Path;

use cairn_db::{Db, FamilyDescriptor, Ingestion, ReplaceRange, SstFileWriter};
use cairn_options::{
    BottommostLevelCompaction, CompactRangeOptions, CompactionStyle, DbOptions, FamilyOptions,
    IngestExternalFileOptions, Options, ReadOptions, WaitForCompactOptions,
};
use cairn_platform::World;
use cairn_sim::trace::Call;
use cairn_sim::{CrashModel, Fault, FaultPlan, FaultRule, SimWorld, Trigger};
use cairn_types::{Code, Error, KeyOrder, Result};

use crate::basic::{open_at, small};

const KEYS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

fn of_style(style: CompactionStyle) -> FamilyOptions {
    FamilyOptions {
        compaction_style: style,
        num_levels: if style == CompactionStyle::Fifo { 1 } else { 4 },
        ..small()
    }
}

fn open_with(world: &World, family: &FamilyOptions) -> Db {
    let families = [FamilyDescriptor::new("default", family.clone())];
    open_at(world, &families).expect("a database")
}

/// Writes two tables, of the keys a to f and d to h, and compacts the first.
fn filled(world: &World, family: &FamilyOptions) -> Db {
    let db = open_with(world, family);
    for (at, keys) in [&KEYS[..6], &KEYS[3..]].iter().enumerate() {
        for key in *keys {
            db.put(key.as_bytes(), b"old").expect("a write");
        }
        db.flush().expect("a flush");
        if at == 0 && family.compaction_style != CompactionStyle::Fifo {
            compact(&db);
        }
    }
    db
}

fn compact(db: &Db) {
    let all = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.compact_range(None, None, &all).expect("a compaction");
}

/// Writes a table of these keys, all with the value `new`.
fn table(world: &World, keys: &[&str]) {
    let fs = &world.fs;
    fs.create_dir_all("/out".as_ref()).expect("a directory");
    let mut writer = SstFileWriter::new(world, &DbOptions::default(), &small());
    writer.open("/out/n.sst".as_ref()).expect("a file");
    for key in keys {
        writer.put(key.as_bytes(), b"new").expect("a write");
    }
    writer.finish().expect("a table");
}

fn replace(db: &Db, range: ReplaceRange, options: &str) -> Result<()> {
    let options = IngestExternalFileOptions::from_text(options).expect("options");
    let mut ingestion = Ingestion::new(db.default_family(), ["/out/n.sst"], &options);
    ingestion.replace = Some(range);
    db.ingest_external_files(&[ingestion])
}

fn keys(from: &str, to: &str) -> ReplaceRange {
    ReplaceRange::Keys(from.into(), to.into())
}

fn refused(done: Result<()>) -> Error {
    done.expect_err("the ingestion is refused")
}

/// The keys with the first letter of their values, by a scan, which agrees with gets.
fn content(db: &Db, options: &ReadOptions) -> String {
    let mut iter = db.iter_with(options);
    let mut all = String::new();
    iter.seek_to_first();
    while iter.valid() {
        all.push(char::from(iter.key()[0]));
        all.push(char::from(iter.value()[0]));
        all.push(' ');
        iter.next();
    }
    iter.status().expect("a scan");
    for key in KEYS {
        let value = db.get_with(key.as_bytes(), options).expect("a read");
        let found = value.map(|value| format!("{key}{} ", char::from(value[0])));
        let scanned = all
            .split_inclusive(' ')
            .find(|entry| entry.starts_with(key));
        assert_eq!(found.as_deref(), scanned, "{key}");
    }
    all.trim_end().to_owned()
}

fn now(db: &Db) -> String {
    content(db, &ReadOptions::default())
}

fn tables(world: &World) -> usize {
    let names = world.fs.list(Path::new("/db")).expect("the directory");
    names.iter().filter(|name| name.ends_with(".sst")).count()
}

const STYLES: [CompactionStyle; 3] = [
    CompactionStyle::Level,
    CompactionStyle::Universal,
    CompactionStyle::Fifo,
];

#[test]
fn a_range_that_tables_overlap_partly_is_replaced() {
    for style in STYLES {
        let world = World::in_memory();
        let db = filled(&world, &of_style(style));
        table(&world, &["c", "e"]);
        replace(&db, keys("b", "g"), "").unwrap();
        let expected = "ao cn en go ho";
        assert_eq!(now(&db), expected, "{style:?}");
        // Newer data is above the tombstone.
        db.put(b"d", b"later").unwrap();
        db.flush().unwrap();
        db.close().unwrap();
        drop(db);
        let db = open_with(&world, &of_style(style));
        assert_eq!(now(&db), "ao cn dl en go ho", "{style:?}");
        if style != CompactionStyle::Fifo {
            compact(&db);
            assert_eq!(now(&db), "ao cn dl en go ho", "{style:?}");
        }
        // Once more, without new data in the memtable.
        table(&world, &["d"]);
        replace(&db, keys("d", "d0"), "move_files=true").unwrap();
        assert_eq!(now(&db), "ao cn dn en go ho", "{style:?}");
        assert!(!world.fs.exists("/out/n.sst".as_ref()).unwrap());
        // Compactions delete their inputs after they have been installed.
        db.wait_for_compact(&WaitForCompactOptions::default())
            .unwrap();
        let live = db.live_files_metadata().len();
        db.close().unwrap();
        assert_eq!(tables(&world), live);
    }
}

#[test]
fn snapshots_and_iterators_keep_the_replaced_data() {
    for style in STYLES {
        let world = World::in_memory();
        let db = filled(&world, &of_style(style));
        table(&world, &["c"]);
        let before = "ao bo co do eo fo go ho";
        let snapshot = db.snapshot();
        let at = ReadOptions {
            snapshot: Some(snapshot.sequence()),
            ..ReadOptions::default()
        };
        let mut iter = db.iter_with(&ReadOptions::default());
        // The second table has no other keys, and leaves unless the snapshot needs it.
        replace(&db, keys("b", "i"), "").unwrap();
        assert_eq!(
            (now(&db).as_str(), content(&db, &at).as_str()),
            ("ao cn", before)
        );
        if style != CompactionStyle::Fifo {
            compact(&db);
        }
        assert_eq!(
            (now(&db).as_str(), content(&db, &at).as_str()),
            ("ao cn", before)
        );
        iter.seek_to_last();
        assert_eq!(iter.key(), b"h");
        // The entire family has no limit that a tombstone could end with.
        let error = refused(replace(&db, ReplaceRange::All, ""));
        assert_eq!(error.code(), Code::InvalidArgument);
        assert!(error.to_string().contains("snapshot"), "{error}");
        replace(&db, ReplaceRange::All, "snapshot_consistency=false").unwrap();
        assert_eq!(now(&db), "cn");
        drop(snapshot);
    }
}

#[test]
fn tables_inside_of_the_range_leave_without_a_tombstone() {
    let world = World::in_memory();
    let db = filled(&world, &of_style(CompactionStyle::Level));
    table(&world, &["c"]);
    let bottom = "fail_if_not_bottommost_level=true;snapshot_consistency=false";
    let snapshot = db.snapshot();
    replace(&db, keys("a", "i"), bottom).unwrap();
    assert_eq!((now(&db).as_str(), tables(&world)), ("cn", 1));
    drop(snapshot);
    // A tombstone stays above what it covers.
    db.put(b"z", b"old").unwrap();
    db.put(b"b", b"old").unwrap();
    db.flush().unwrap();
    let error = refused(replace(&db, keys("a", "i"), bottom));
    assert_eq!(error.code(), Code::TryAgain);
    assert_eq!(tables(&world), db.live_files_metadata().len());
}

#[test]
fn the_limit_is_exclusive() {
    let world = World::in_memory();
    let db = filled(&world, &of_style(CompactionStyle::Level));
    table(&world, &["c"]);
    // The limit is in a memtable, which is not flushed.
    db.put(b"g", b"newer").unwrap();
    replace(&db, keys("c", "g"), "allow_blocking_flush=false").unwrap();
    assert_eq!(now(&db), "ao bo cn gn ho");
    db.delete_range(b"g", b"gz").unwrap();
    replace(&db, keys("c", "g"), "allow_blocking_flush=false").unwrap();
    let error = refused(replace(&db, keys("c", "g0"), "allow_blocking_flush=false"));
    assert_eq!(error.code(), Code::InvalidArgument);
    // A file that ends with the limit is outside.
    let error = refused(replace(&db, keys("a", "c"), ""));
    assert_eq!(error.code(), Code::InvalidArgument);
    for (from, to) in [("c", "c"), ("d", "c")] {
        let error = refused(replace(&db, keys(from, to), ""));
        assert_eq!(error.code(), Code::InvalidArgument);
        assert!(
            error
                .to_string()
                .contains("its start must be before its limit"),
            "{error}"
        );
    }
    assert_eq!(now(&db), "ao bo cn ho");
}

#[test]
fn a_tombstone_without_a_number_is_refused() {
    let world = World::in_memory();
    let db = filled(&world, &of_style(CompactionStyle::Level));
    table(&world, &["c"]);
    for (options, reason) in [
        ("allow_global_seqno=false", "allow_global_seqno is false"),
        ("allow_db_generated_files=true", "allow_db_generated_files"),
    ] {
        let error = refused(replace(&db, keys("b", "g"), options));
        assert_eq!(error.code(), Code::InvalidArgument);
        assert!(error.to_string().contains(reason), "{error}");
        assert!(error.to_string().contains("cuts through table"), "{error}");
    }
    assert_eq!(now(&db), "ao bo co do eo fo go ho");
    let stamped = FamilyOptions {
        comparator: KeyOrder::BytewiseU64Ts,
        ..small()
    };
    let stamped = db.create_family("stamped", &stamped).unwrap();
    let stamp = 7_u64.to_le_bytes();
    for key in [b"a", b"z"] {
        stamped.put_with_timestamp(key, &stamp, b"old").unwrap();
    }
    stamped.flush().unwrap();
    let mut writer = SstFileWriter::for_family(&stamped);
    writer.open("/out/s.sst".as_ref()).unwrap();
    writer.put_with_timestamp(b"m", &stamp, b"new").unwrap();
    writer.finish().unwrap();
    let options = IngestExternalFileOptions::default();
    let mut ingestion = Ingestion::new(&stamped, ["/out/s.sst"], &options);
    ingestion.replace = Some(keys("k", "n"));
    let error = refused(db.ingest_external_files(std::slice::from_ref(&ingestion)));
    assert!(
        error.to_string().contains("keys have timestamps"),
        "{error}"
    );
    // Tables inside of the range leave.
    ingestion.replace = Some(keys("a", "zz"));
    db.ingest_external_files(&[ingestion]).unwrap();
    let left = db.live_files_metadata();
    let left = left
        .iter()
        .filter(|file| file.column_family_name == "stamped");
    assert_eq!(
        left.map(|file| &file.smallest_key[..1]).collect::<Vec<_>>(),
        [b"m"]
    );
}

/// Every operation on a table or its directory fails once.
#[test]
fn a_failed_replacement_changes_nothing() {
    let calls = [
        (Call::Create, ".sst"),
        (Call::Append, ".sst"),
        (Call::Sync, ".sst"),
        (Call::Open, ".sst"),
        (Call::Read, ".sst"),
        (Call::SyncDirectory, "db"),
    ];
    for (call, name_end) in calls {
        let mut failed = 0;
        for count in 0.. {
            let sim = SimWorld::new(9);
            let db = filled(&sim.world, &of_style(CompactionStyle::Level));
            table(&sim.world, &["c"]);
            let before = tables(&sim.world);
            sim.fs.set_plan(FaultPlan::new(vec![FaultRule {
                trigger: Trigger::Class {
                    call,
                    name_end: name_end.to_owned(),
                    count,
                },
                fault: Fault::InputOutput,
                lasts: 1,
            }]));
            let done = replace(&db, keys("b", "g"), "");
            sim.fs.set_plan(FaultPlan::new(vec![]));
            if done.is_ok() {
                assert_eq!(now(&db), "ao cn go ho", "{call:?} {count}");
                break;
            }
            failed += 1;
            assert_eq!(refused(done).code(), Code::IoError, "{call:?} {count}");
            assert_eq!(now(&db), "ao bo co do eo fo go ho", "{call:?} {count}");
            if call == Call::SyncDirectory && db.put(b"x", b"1").is_err() {
                // The directory of a log or a MANIFEST: the database is read-only.
                continue;
            }
            assert_eq!(tables(&sim.world), before, "{call:?} {count}");
            replace(&db, keys("b", "g"), "").unwrap();
            assert_eq!(&now(&db)[..11], "ao cn go ho", "{call:?} {count}");
        }
        assert!(failed > 1, "{call:?}: {failed}");
    }
}

/// Crashes between all file operations of a replacement.
#[test]
fn a_crash_leaves_the_old_range_or_the_new_one() {
    for style in STYLES {
        let sim = SimWorld::new(4);
        let db = filled(&sim.world, &of_style(style));
        // A part is in a memtable, which the ingestion flushes.
        db.put(b"d", b"old").unwrap();
        table(&sim.world, &["c"]);
        let from = sim.fs.trace().len();
        replace(&db, keys("b", "g"), "").unwrap();
        let trace = sim.fs.trace();
        let (mut with, mut without) = (0, 0);
        for at in from..=trace.len() {
            for model in [
                CrashModel::Kill,
                CrashModel::Synced,
                CrashModel::Prefix,
                CrashModel::NamesFirst,
                CrashModel::DataFirst,
            ] {
                for image in trace.images(at, model, 7).take(3) {
                    let world = SimWorld::on(image, 1).world;
                    let db = open_with(&world, &of_style(style));
                    match now(&db).as_str() {
                        "ao bo co do eo fo go ho" => {
                            assert!(at < trace.len(), "the ingestion was acknowledged");
                            without += 1;
                        }
                        "ao cn go ho" => with += 1,
                        other => panic!("{style:?}, {model:?} at {at}: {other}"),
                    }
                    assert_eq!(tables(&world), db.live_files_metadata().len());
                }
            }
        }
        assert!(with > 0 && without > 0, "{with} {without}");
    }
}
