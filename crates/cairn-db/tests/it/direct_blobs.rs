//! Direct writes of blobs: values in blob files before the flush.

#![expect(clippy::unwrap_used, reason = "an absent value fails the test")]

use std::collections::BTreeMap;
use std::path::Path;

use cairn_db::{
    ColumnFamilyMetaDataOptions, Db, FamilyDescriptor, OpenRequest, WriteBatch, open, repair,
};
use cairn_options::{
    BottommostLevelCompaction, CompactRangeOptions, DbOptions, FamilyOptions, FlushOptions,
    ReadOptions, WalRecoveryMode, WriteOptions,
};
use cairn_platform::World;
use cairn_sim::trace::Call;
use cairn_sim::{Fault, FaultPlan, FaultRule, SimWorld, Trigger};
use cairn_types::{Code, Result, SequenceNumber};

use crate::basic::{db_options, small};
use crate::errors::synced;

fn direct() -> FamilyOptions {
    FamilyOptions {
        enable_blob_files: true,
        enable_blob_direct_write: true,
        min_blob_size: 100,
        disable_auto_compactions: true,
        ..small()
    }
}

fn open_on(world: &World, options: &DbOptions, family: &FamilyOptions) -> Result<Db> {
    open(&OpenRequest {
        path: Path::new("/db"),
        options,
        families: &[FamilyDescriptor::new("default", family.clone())],
        others: Some(family),
        read_only: false,
        world: world.clone(),
    })
}

fn opened(world: &World) -> Db {
    open_on(world, &db_options(), &direct()).unwrap()
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:04}").into_bytes()
}

/// Every third value is small.
fn value(n: u32, round: u32) -> Vec<u8> {
    let len = if n.is_multiple_of(3) { 20 } else { 500 };
    let text = format!("{n} of {round} ").into_bytes();
    text.into_iter().cycle().take(len).collect()
}

fn fill(db: &Db, round: u32) {
    for n in 0..60 {
        db.put(&key(n), &value(n, round)).unwrap();
    }
}

fn check(db: &Db, round: u32) {
    for n in 0..60 {
        let found = db.get(&key(n)).unwrap().unwrap();
        assert!(found == value(n, round)[..], "{n}");
    }
    let keys: Vec<_> = (0..60).map(key).collect();
    let keys: Vec<_> = keys.iter().map(|key| &key[..]).collect();
    for (n, found) in db
        .multi_get(&keys, &ReadOptions::default())
        .into_iter()
        .enumerate()
    {
        assert!(found.unwrap().unwrap() == value(n as u32, round)[..], "{n}");
    }
    let mut iter = db.iter();
    iter.seek_to_first();
    for n in 0..60 {
        assert!(iter.value() == &value(n, round)[..], "{n}");
        iter.next();
    }
    iter.seek_to_last();
    for n in (0..60).rev() {
        assert!(iter.value() == &value(n, round)[..], "{n}");
        iter.prev();
    }
    iter.status().unwrap();
}

fn blob_files(world: &World) -> Vec<String> {
    let mut names = world.fs.list(Path::new("/db")).unwrap();
    names.retain(|name| name.ends_with(".blob"));
    names.sort();
    names
}

/// The number of values and of garbage values of each blob file of the tree.
fn counts(db: &Db) -> Vec<(u64, u64)> {
    let metadata = db.metadata(&ColumnFamilyMetaDataOptions::default());
    let files = metadata.blob_files.iter();
    files
        .map(|file| (file.total_blob_count, file.garbage_blob_count))
        .collect()
}

fn forced() -> CompactRangeOptions {
    CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    }
}

#[test]
fn large_values_are_in_blob_files_before_the_flush_and_after_it() {
    let world = World::in_memory();
    let db = opened(&world);
    fill(&db, 1);
    assert_eq!(blob_files(&world).len(), 1);
    check(&db, 1);
    assert_eq!(counts(&db), []);
    db.flush().unwrap();
    assert_eq!(counts(&db), [(40, 0)], "the file is part of the tree");
    assert_eq!(
        blob_files(&world).len(),
        1,
        "the flush writes no other file"
    );
    check(&db, 1);
    db.close().unwrap();
    check(&opened(&world), 1);
}

#[test]
fn values_that_a_flush_leaves_without_an_entry_are_garbage() {
    let world = World::in_memory();
    let db = opened(&world);
    fill(&db, 1);
    fill(&db, 2);
    db.delete(&key(1)).unwrap();
    db.flush().unwrap();
    assert_eq!(counts(&db), [(80, 41)]);
    // A write that its check refuses.
    let mut batch = WriteBatch::new();
    batch.put(b"refused", &[7; 300]);
    let refused = || Err(cairn_types::Error::aborted("no"));
    let written = db.write_if(&batch, &WriteOptions::default(), refused);
    assert_eq!(written.unwrap_err().code(), Code::Aborted);
    db.put(b"other", &[8; 300]).unwrap();
    db.flush().unwrap();
    assert_eq!(counts(&db), [(80, 41), (2, 1)]);
}

#[test]
fn a_file_without_references_is_not_added_and_is_deleted() {
    let world = World::in_memory();
    let db = opened(&world);
    db.put(b"a", &[7; 300]).unwrap();
    db.delete(b"a").unwrap();
    db.put(b"b", b"small").unwrap();
    db.flush().unwrap();
    assert_eq!(counts(&db), []);
    // The next memtable may have values in it until it is flushed.
    db.put(b"c", b"small").unwrap();
    db.flush().unwrap();
    db.put(b"d", b"small").unwrap();
    db.flush().unwrap();
    // Files are deleted after the flush.
    db.wait_until_quiet().unwrap();
    assert_eq!(blob_files(&world), Vec::<String>::new());
}

#[test]
fn logged_values_are_recovered_from_files_in_no_version() {
    for avoid_flush_during_recovery in [false, true] {
        let world = World::in_memory();
        let options = DbOptions {
            avoid_flush_during_shutdown: true,
            avoid_flush_during_recovery,
            ..db_options()
        };
        let db = open_on(&world, &options, &direct()).unwrap();
        fill(&db, 1);
        db.close().unwrap();
        let before = blob_files(&world);
        assert_eq!(before.len(), 1);
        let read_only = open(&OpenRequest {
            path: Path::new("/db"),
            options: &options,
            families: &[],
            others: Some(&direct()),
            read_only: true,
            world: world.clone(),
        });
        check(&read_only.unwrap(), 1);
        let db = open_on(&world, &options, &direct()).unwrap();
        check(&db, 1);
        assert_eq!(counts(&db), [(40, 0)]);
        assert_eq!(blob_files(&world).len(), 1, "the old file is deleted");
        assert_ne!(blob_files(&world), before, "values are relocated");
        // Also without the option.
        fill(&db, 2);
        db.close().unwrap();
        let plain = FamilyOptions {
            enable_blob_direct_write: false,
            enable_blob_files: false,
            ..direct()
        };
        let db = open_on(&world, &options, &plain).unwrap();
        check(&db, 2);
    }
}

#[test]
fn a_closed_database_has_its_values_in_the_tree() {
    let world = World::in_memory();
    let db = opened(&world);
    fill(&db, 1);
    db.close().unwrap();
    let db = opened(&world);
    assert_eq!(counts(&db), [(40, 0)]);
    check(&db, 1);
}

#[test]
fn a_log_record_without_its_value_is_handled_by_the_recovery_mode() {
    use WalRecoveryMode::*;
    for mode in [
        PointInTimeRecovery,
        TolerateCorruptedTailRecords,
        AbsoluteConsistency,
        SkipAnyCorruptedRecords,
    ] {
        let sim = SimWorld::new(1);
        let options = DbOptions {
            avoid_flush_during_shutdown: true,
            wal_recovery_mode: mode,
            ..db_options()
        };
        let db = open_on(&sim.world, &options, &direct()).unwrap();
        for n in 0..10_u8 {
            db.put(&[n], &[n; 200]).unwrap();
        }
        db.close().unwrap();
        let [name] = &blob_files(&sim.world)[..] else {
            panic!("there is one blob file");
        };
        // In the value of key 6.
        let at = 30 + 6 * (32 + 1 + 200) + 32 + 1 + 100;
        let path = Path::new("/db").join(name);
        sim.fs.flip_bit(&path, at, 3).unwrap();
        let opened = open_on(&sim.world, &options, &direct());
        if mode == AbsoluteConsistency {
            let error = opened.map(|_| ()).unwrap_err();
            assert_eq!(error.code(), Code::Corruption);
            let text = error.text();
            assert!(
                text.contains(name) && text.contains(".log") && text.contains("expected"),
                "{text}"
            );
            continue;
        }
        let db = opened.unwrap();
        let found = |n: u8| db.get(&[n]).unwrap().is_some();
        let kept: Vec<u8> = (0..10).filter(|n| found(*n)).collect();
        match mode {
            SkipAnyCorruptedRecords => assert_eq!(kept, [0, 1, 2, 3, 4, 5, 7, 8, 9]),
            _ => assert_eq!(kept, [0, 1, 2, 3, 4, 5]),
        }
    }
}

#[test]
fn writes_without_a_log_families_and_partitions() {
    let world = World::in_memory();
    let family = FamilyOptions {
        blob_direct_write_partitions: 3,
        blob_file_size: 2000,
        ..direct()
    };
    let db = open_on(&world, &db_options(), &family).unwrap();
    let other = db.create_family("other", &family).unwrap();
    let unlogged = WriteOptions {
        disable_wal: true,
        ..WriteOptions::default()
    };
    for n in 0..60_u32 {
        let mut batch = WriteBatch::new();
        batch.put(&key(n), &value(n, 1));
        batch.put_in(&other, &key(n), &value(n, 2));
        db.write_with(&batch, &unlogged).unwrap();
    }
    assert!(blob_files(&world).len() >= 20, "files are full");
    check(&db, 1);
    assert!(other.get(&key(7)).unwrap().unwrap() == value(7, 2)[..]);
    db.close().unwrap();
    let db = open_on(&world, &db_options(), &family).unwrap();
    check(&db, 1);
    let other = db.family("other").unwrap();
    assert!(other.get(&key(7)).unwrap().unwrap() == value(7, 2)[..]);
    other.put(b"new", &[1; 400]).unwrap();
    db.drop_family(&other).unwrap();
    let gone = blob_files(&world).len();
    assert!(
        other.get(b"new").unwrap().unwrap() == [1; 400][..],
        "a handle keeps it"
    );
    drop(other);
    db.put(b"more", b"x").unwrap();
    db.flush().unwrap();
    assert!(
        blob_files(&world).len() < gone,
        "the files of the family are deleted"
    );
}

/// An iterator reads values of memtables that are flushed and compacted meanwhile, and of which nothing is left in the tree.
#[test]
fn old_views_keep_their_files() {
    let world = World::in_memory();
    let db = opened(&world);
    fill(&db, 1);
    let mut iter = db.iter();
    let first = blob_files(&world);
    fill(&db, 2);
    db.flush().unwrap();
    for _ in 0..3 {
        fill(&db, 3);
        db.flush().unwrap();
        db.compact_range(None, None, &forced()).unwrap();
    }
    iter.seek_to_first();
    for n in 0..60 {
        assert!(iter.value() == &value(n, 1)[..], "{n}");
        iter.next();
    }
    iter.status().unwrap();
    assert!(blob_files(&world).contains(&first[0]));
    drop(iter);
    fill(&db, 4);
    db.flush().unwrap();
    fill(&db, 4);
    db.flush().unwrap();
    assert!(!blob_files(&world).contains(&first[0]));
    check(&db, 4);
}

#[test]
fn copies_have_all_values() {
    let world = World::in_memory();
    let db = opened(&world);
    fill(&db, 1);
    db.create_checkpoint(Path::new("/copy"), u64::MAX).unwrap();
    fill(&db, 2);
    let copy = open(&OpenRequest {
        path: Path::new("/copy"),
        options: &db_options(),
        families: &[],
        others: Some(&direct()),
        read_only: false,
        world: world.clone(),
    });
    check(&copy.unwrap(), 1);
    check(&db, 2);
    db.lock_wal().unwrap();
    let error = db.create_checkpoint(Path::new("/second"), u64::MAX);
    assert_eq!(error.unwrap_err().code(), Code::NotSupported);
    db.unlock_wal().unwrap();
    db.create_checkpoint(Path::new("/second"), u64::MAX)
        .unwrap();
}

#[test]
fn references_of_another_database_are_not_written() {
    let world = World::in_memory();
    let db = opened(&world);
    db.put(b"a", &[1; 300]).unwrap();
    let updates = db.updates_since(SequenceNumber(0)).unwrap();
    let (_, batch) = updates.batch().unwrap();
    let error = db.write(&batch).unwrap_err();
    assert_eq!(error.code(), Code::NotSupported);
}

#[test]
fn protected_batches_snapshots_and_cached_reads() {
    let world = World::in_memory();
    let db = opened(&world);
    let protected = WriteOptions {
        protection_bytes_per_key: 8,
        ..WriteOptions::default()
    };
    let mut batch = WriteBatch::new();
    batch.set_protected(true).unwrap();
    batch.put(b"a", &[1; 300]);
    batch.put_log_data(b"note");
    batch.put(b"b", b"small");
    batch.put(b"c", &[3; 100]);
    batch.put(b"d", &[4; 99]);
    db.write_with(&batch, &protected).unwrap();
    let snapshot = db.snapshot();
    db.put(b"a", &[2; 300]).unwrap();
    let at = ReadOptions {
        snapshot: Some(snapshot.sequence()),
        ..ReadOptions::default()
    };
    for _ in 0..2 {
        assert!(db.get_with(b"a", &at).unwrap().unwrap() == [1; 300][..]);
        assert!(db.get(b"a").unwrap().unwrap() == [2; 300][..]);
        assert!(db.get(b"d").unwrap().unwrap() == [4; 99][..]);
        db.flush_families_with(&[], &FlushOptions::default())
            .unwrap();
    }
    assert_eq!(counts(&db), [(3, 0)]);
}

/// Writers of several threads, some of which sync, between flushes and compactions.
#[test]
fn threads_write_to_partitions_while_memtables_are_flushed() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::posix();
    let family = FamilyOptions {
        blob_direct_write_partitions: 3,
        blob_file_size: 40_000,
        ..direct()
    };
    let open_it = || {
        open(&OpenRequest {
            path: dir.path(),
            options: &db_options(),
            families: &[],
            others: Some(&family),
            read_only: false,
            world: world.clone(),
        })
        .unwrap()
    };
    let key = |thread: u32, n: u32| format!("{thread} {:03}", n % 150).into_bytes();
    let db = open_it();
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let db = &db;
            scope.spawn(move || {
                let options = WriteOptions {
                    sync: thread == 0,
                    ..WriteOptions::default()
                };
                for n in 0..300 {
                    let mut batch = WriteBatch::new();
                    batch.put(&key(thread, n), &value(n + 1, thread));
                    db.write_with(&batch, &options).unwrap();
                    let found = db.get(&key(thread, n)).unwrap().unwrap();
                    assert!(found == value(n + 1, thread)[..]);
                }
            });
        }
        for round in 0..12 {
            db.flush().unwrap();
            if round % 4 == 3 {
                db.compact_range(None, None, &forced()).unwrap();
            }
        }
    });
    let check = |db: &Db| {
        for (thread, n) in (0..4).flat_map(|thread| (150..300).map(move |n| (thread, n))) {
            let found = db.get(&key(thread, n)).unwrap().unwrap();
            assert!(found == value(n + 1, thread)[..], "{n} of {thread}");
        }
    };
    check(&db);
    db.close().unwrap();
    let db = open_it();
    check(&db);
    assert_eq!(db.memtable_blob_files().len(), 0);
    db.close().unwrap();
}

/// Writes to the default family and `other` of `db`, with memtables that are switched and flushed meanwhile, and
/// records the values of the keys whose writes succeeded.
fn work(db: &Db, other: &cairn_db::Family, written: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
    let later = FlushOptions {
        wait: false,
        ..FlushOptions::default()
    };
    for n in 1..10 {
        let mut batch = WriteBatch::new();
        batch.put(&key(n), &value(n, 1));
        batch.put_in(other, &key(n), &value(n, 1));
        let options = match n % 4 {
            0 => synced(),
            _ => WriteOptions::default(),
        };
        if db.write_with(&batch, &options).is_ok() {
            written.insert(key(n), value(n, 1));
        }
        // A new log, whose predecessors the other family needs. An error is one of the current state.
        if n % 2 == 0 {
            let _ = db.flush_families_with(&[other], &later);
        }
    }
}

/// Regression: if a blob file could not be synced, the sync of each log failed with the same error. A log that failed
/// after the recovery had replaced the first one was not replaced, and the database stayed read-only.
#[test]
fn a_database_resumes_after_failed_syncs_of_its_directory() {
    let options = DbOptions {
        max_bgerror_resume_count: 0,
        ..db_options()
    };
    let mut failures = 0;
    for lasts in [1, 2, 12] {
        for count in 0..100 {
            let sim = SimWorld::new(1);
            let db = open_on(&sim.world, &options, &direct()).unwrap();
            let other = db.create_family("other", &direct()).unwrap();
            let trigger = Trigger::Class {
                call: Call::SyncDirectory,
                name_end: String::new(),
                count,
            };
            let rule = FaultRule {
                trigger,
                fault: Fault::InputOutput,
                lasts,
            };
            sim.fs.set_plan(FaultPlan::new(vec![rule]));
            let mut written = BTreeMap::new();
            work(&db, &other, &mut written);
            let injected = sim.fs.injected();
            sim.fs.set_plan(FaultPlan::default());
            failures += usize::from(db.background_error_state().is_some());
            // The first attempt may find that the logs have to be replaced.
            let mut attempts = (0..2).map(|_| db.resume());
            let resumed = attempts.find(Result::is_ok);
            let state = db.background_error_state();
            assert!(resumed.is_some(), "{lasts} from {count} on: {state:?}");
            db.put_with(b"last", &[1; 300], &synced()).unwrap();
            for family in [db.default_family(), &other] {
                for (key, value) in &written {
                    let found = family.get(key).unwrap().unwrap();
                    assert!(found == value[..], "{lasts} from {count} on");
                }
            }
            if injected == 0 {
                assert!(count > 3, "the work syncs the directory");
                break;
            }
        }
    }
    assert!(failures > 3, "{failures}");
}

/// Regression: a repair moved blob files without a footer aside before it replayed the logs.
#[test]
fn a_repair_recovers_logged_values() {
    for without_manifest in [false, true] {
        let world = World::in_memory();
        let options = DbOptions {
            avoid_flush_during_shutdown: true,
            ..db_options()
        };
        let db = open_on(&world, &options, &direct()).unwrap();
        fill(&db, 1);
        db.flush().unwrap();
        fill(&db, 2);
        db.close().unwrap();
        if without_manifest {
            world.fs.remove(Path::new("/db/CURRENT")).unwrap();
        }
        let families = [FamilyDescriptor::new("default", direct())];
        let report = repair(&world, Path::new("/db"), &options, &families, &direct()).unwrap();
        assert!(report.dropped.is_empty() && report.rebuilt == without_manifest);
        let db = open_on(&world, &options, &direct()).unwrap();
        check(&db, 2);
    }
}
