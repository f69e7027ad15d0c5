//! Flushes of one family and of all.

use std::path::Path;
use std::sync::Arc;

use cairn_db::{Db, FamilyDescriptor, OpenRequest, WriteBatch, open};
use cairn_options::{
    DbOptions, FamilyOptions, FlushOptions, Options, WaitForCompactOptions, WriteOptions,
};
use cairn_platform::World;
use cairn_sim::{Call, Fault, FaultPlan, FaultRule, SimWorld, Trigger};
use cairn_types::Code;

use crate::basic::db_options;
use crate::threads::{Gate, Point};
use crate::wal::open_with;

fn open_two(world: &World, db: &DbOptions, family: &FamilyOptions) -> Db {
    let families = ["default", "other"].map(|name| FamilyDescriptor::new(name, family.clone()));
    let options = DbOptions {
        create_missing_column_families: true,
        ..db.clone()
    };
    open(&OpenRequest {
        path: Path::new("/db"),
        options: &options,
        families: &families,
        others: None,
        read_only: false,
        world: world.clone(),
    })
    .expect("it opens")
}

fn unlogged() -> WriteOptions {
    WriteOptions {
        disable_wal: true,
        ..WriteOptions::default()
    }
}

fn files(db: &Db, family: &str) -> Option<u64> {
    let family = db.family(family).expect("it is there");
    let text = family.property("rocksdb.num-files-at-level0");
    text.and_then(|text| text.parse().ok())
}

#[test]
fn an_atomic_flush_includes_the_selected_families() {
    let world = World::in_memory();
    let options = DbOptions {
        atomic_flush: true,
        ..db_options()
    };
    let by_hand = FamilyOptions {
        disable_auto_compactions: true,
        ..FamilyOptions::default()
    };
    let db = open_two(&world, &options, &by_hand);
    let other = db.family("other").unwrap();
    for n in 0..3_u8 {
        let mut batch = WriteBatch::new();
        batch.put(&[n], b"1");
        batch.put_in(&other, &[n], b"2");
        db.write_with(&batch, &unlogged()).unwrap();
        other.flush().unwrap();
    }
    let found = || (files(&db, "default"), files(&db, "other"));
    assert_eq!(found(), (Some(0), Some(3)));
    // Other families are included if necessary: the flushed state is consistent.
    for family in [db.default_family(), &other] {
        family.put_with(b"k", b"v", &unlogged()).unwrap();
    }
    db.wait_for_compact(&WaitForCompactOptions {
        flush: true,
        ..WaitForCompactOptions::default()
    })
    .unwrap();
    assert_eq!(found(), (Some(1), Some(4)));
    for family in [db.default_family(), &other] {
        family.put_with(b"k", b"v", &unlogged()).unwrap();
    }
    db.flush_families(&[db.default_family(), &other]).unwrap();
    assert_eq!(found(), (Some(2), Some(5)));
    db.drop_family(&other).unwrap();
    db.put(b"k", b"v").unwrap();
    assert_eq!(
        db.flush_families(&[&other]).unwrap_err().code(),
        Code::ColumnFamilyDropped
    );
    db.flush().unwrap();
    db.close().unwrap();
}

#[test]
fn a_full_memtable_switches_all_families_of_an_atomic_database() {
    let world = World::in_memory();
    let options = DbOptions {
        atomic_flush: true,
        ..db_options()
    };
    let family = FamilyOptions::from_text(
        "write_buffer_size=65536;min_write_buffer_number_to_merge=2;max_write_buffer_number=4",
    )
    .unwrap();
    let db = open_two(&world, &options, &family);
    assert_eq!(
        db.default_family()
            .options()
            .min_write_buffer_number_to_merge,
        1
    );
    let other = db.family("other").unwrap();
    other.put_with(b"k", b"v", &unlogged()).unwrap();
    for n in 0..40_u8 {
        db.put_with(&[n], &[n; 4096], &unlogged()).unwrap();
    }
    db.wait_until_quiet().unwrap();
    assert_eq!(files(&db, "other"), Some(1));
    assert!(files(&db, "default") >= Some(1));
}

#[test]
fn a_flush_waits_for_its_end_only_if_requested() {
    let world = World::in_memory();
    let db = open_two(&world, &db_options(), &FamilyOptions::default());
    db.put(b"k", b"v").unwrap();
    let later = FlushOptions {
        wait: false,
        ..FlushOptions::default()
    };
    db.default_family().flush_with(&later).unwrap();
    db.wait_until_quiet().unwrap();
    assert_eq!(files(&db, "default"), Some(1));
}

#[test]
fn memtables_wait_to_be_merged_unless_a_flush_is_requested_or_logs_are_too_large() {
    let world = World::in_memory();
    let family = FamilyOptions::from_text(
        "write_buffer_size=65536;max_write_buffer_number=6;min_write_buffer_number_to_merge=4",
    )
    .unwrap();
    let db = open_two(&world, &db_options(), &family);
    for n in 0..60_u8 {
        db.put(&[n], &[n; 2048]).unwrap();
    }
    db.wait_until_quiet().unwrap();
    assert_eq!(files(&db, "default"), Some(0));
    db.flush().unwrap();
    assert_eq!(files(&db, "default"), Some(1));
    db.close().unwrap();

    let world = World::in_memory();
    let options = DbOptions {
        max_total_wal_size: 30_000,
        ..db_options()
    };
    let db = open_two(&world, &options, &family);
    for n in 0..60_u8 {
        db.put(&[n], &[n; 2048]).unwrap();
    }
    db.wait_until_quiet().unwrap();
    assert!(files(&db, "default") >= Some(1));
}

/// When a program drops a family and its last handle, the space is freed, as in RocksDB.
#[test]
fn the_tables_of_a_dropped_family_are_deleted_with_its_last_handle() {
    for in_background in [false, true] {
        // Its jobs run only while a caller waits for them.
        let sim = SimWorld::new(3);
        let options = DbOptions {
            avoid_unnecessary_blocking_io: in_background,
            ..db_options()
        };
        let db = open_with(&sim.world, &options, false);
        let tables = || {
            let names = sim.world.fs.list(Path::new("/db")).unwrap();
            names.iter().filter(|name| name.ends_with(".sst")).count()
        };
        let family = db.create_family("gone", &FamilyOptions::default()).unwrap();
        family.put(b"k", b"v").unwrap();
        family.flush().unwrap();
        db.wait_until_quiet().unwrap();
        let other = family.clone();
        db.drop_family(&family).unwrap();
        drop(family);
        db.wait_until_quiet().unwrap();
        assert_eq!(tables(), 1, "a reader may need it");
        drop(other);
        assert_eq!(tables(), usize::from(in_background));
        db.wait_until_quiet().unwrap();
        assert_eq!(tables(), 0);
        db.close().unwrap();
    }
}

#[test]
fn a_forced_atomic_flush_installs_all_families_or_none() {
    for force_atomic_flush in [false, true] {
        let sim = SimWorld::new(5);
        let by_hand = FamilyOptions {
            disable_auto_compactions: true,
            ..FamilyOptions::default()
        };
        let db = open_two(&sim.world, &db_options(), &by_hand);
        let other = db.family("other").unwrap();
        let all = [db.default_family(), &other];
        for family in all {
            family.put_with(b"k", b"v", &unlogged()).unwrap();
        }
        // The table of the second family cannot be created.
        sim.fs.set_plan(FaultPlan::new(vec![FaultRule {
            trigger: Trigger::Class {
                call: Call::Create,
                name_end: ".sst".to_owned(),
                count: 1,
            },
            fault: Fault::Denied,
            lasts: 1,
        }]));
        let options = FlushOptions {
            force_atomic_flush,
            ..FlushOptions::default()
        };
        db.flush_families_with(&all, &options).unwrap_err();
        let found = || (files(&db, "default"), files(&db, "other"));
        let expected = match force_atomic_flush {
            true => (Some(0), Some(0)),
            false => (Some(1), Some(0)),
        };
        assert_eq!(found(), expected);
        // The next attempt is of all families again, whoever requests it.
        sim.fs.set_plan(FaultPlan::default());
        other.flush().unwrap();
        assert_eq!(found(), (Some(1), Some(1)));
        // Afterwards, families are flushed one by one.
        for family in all {
            family.put_with(b"k", b"v", &unlogged()).unwrap();
        }
        other.flush().unwrap();
        assert_eq!(found(), (Some(1), Some(2)));
        // Nothing to flush leaves nothing behind.
        db.flush_families_with(&[&other], &options).unwrap();
        db.default_family().flush().unwrap();
        assert_eq!(found(), (Some(2), Some(2)));
        db.close().unwrap();
    }
}

/// Regression: the end of a forced atomic flush cleared the request for a memtable that was sealed meanwhile. With
/// `min_write_buffer_number_to_merge` above 1 nothing flushed it then, and `flush` did not return.
#[test]
fn a_flush_requested_during_a_forced_atomic_flush_is_executed() {
    let gate = Arc::new(Gate::default());
    let mut options = db_options();
    options.listeners.push(gate.clone());
    let pairs = FamilyOptions {
        min_write_buffer_number_to_merge: 2,
        max_write_buffer_number: 6,
        ..FamilyOptions::default()
    };
    let db = open_two(&World::in_memory(), &options, &pairs);
    let request = |force_atomic_flush| FlushOptions {
        wait: false,
        force_atomic_flush,
        ..FlushOptions::default()
    };
    db.put(b"a", b"1").unwrap();
    gate.hold(Point::FlushBegins);
    db.flush_with(&request(true)).unwrap();
    gate.look(|| {
        db.put(b"b", b"2").unwrap();
        db.flush_with(&request(false)).unwrap();
    });
    db.wait_until_quiet().unwrap();
    let unflushed = db.property("rocksdb.num-immutable-mem-table");
    assert_eq!(unflushed.as_deref(), Some("0"));
    assert_eq!(files(&db, "default"), Some(2));
    db.close().unwrap();
}

/// The logs stay near `max_total_wal_size` however little each memtable has, and if there is only log data of the program.
#[test]
fn logs_stay_near_their_limit() {
    let (limit, record) = (200_000, [7_u8; 10_000]);
    for (families, track_and_verify_wals) in [(0, false), (0, true), (1, false), (5, true)] {
        let world = World::in_memory();
        let options = DbOptions {
            max_total_wal_size: limit,
            track_and_verify_wals,
            ..db_options()
        };
        let db = open_two(&world, &options, &FamilyOptions::default());
        let handles: Vec<_> = (0..families)
            .map(|n| {
                let name = format!("family {n}");
                db.create_family(&name, &FamilyOptions::default()).unwrap()
            })
            .collect();
        let mut most = 0;
        for n in 0..200_usize {
            let mut batch = WriteBatch::new();
            match handles.get(n % families.max(1)) {
                Some(family) => batch.put_in(family, &n.to_be_bytes(), &record),
                None => batch.put_log_data(&record),
            }
            db.write(&batch).unwrap();
            db.wait_until_quiet().unwrap();
            let logs = db.sorted_wal_files().unwrap();
            most = most.max(logs.iter().map(|log| log.size_file_bytes).sum());
        }
        assert!(
            most > limit / 2 && most < limit * 3 / 2,
            "{families}: {most}"
        );
    }
}

/// Logs that cannot be deleted yet, because deletions are disabled, cause no flushes.
#[test]
fn logs_that_are_kept_cause_no_flushes() {
    let world = World::in_memory();
    let options = DbOptions {
        max_total_wal_size: 100_000,
        ..db_options()
    };
    let family = FamilyOptions {
        disable_auto_compactions: true,
        ..FamilyOptions::default()
    };
    let db = open_two(&world, &options, &family);
    db.disable_file_deletions().unwrap();
    for n in 0..60_u8 {
        db.put(&[n], &[n; 10_000]).unwrap();
        db.wait_until_quiet().unwrap();
    }
    let tables = files(&db, "default").unwrap();
    assert!((4..=8).contains(&tables), "{tables} tables");
}
