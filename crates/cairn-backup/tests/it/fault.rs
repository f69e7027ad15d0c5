//! Errors of every file operation: they are reported, and earlier backups stay complete.

use std::path::Path;

use cairn_backup::{BackupEngine, BackupEngineOptions, CreateBackupOptions, RestoreOptions};
use cairn_db::Db;
use cairn_options::FamilyOptions;
use cairn_platform::World;
use cairn_platform::fs::FileMode;
use cairn_sim::{Call, Fault, FaultPlan, FaultRule, SimWorld, Trigger};
use cairn_types::{Code, Subcode};

use crate::{
    BACKUPS, RESTORED, back_up, back_up_flushed, entries, files, open, restored, try_open,
};

struct Scene {
    db_world: World,
    db: Db,
    sim: SimWorld,
    engine: BackupEngine,
}

fn scene() -> Scene {
    let db_world = World::in_memory();
    let db = open(&db_world);
    let sim = SimWorld::new(5);
    let mut options = BackupEngineOptions::new(BACKUPS);
    options.backup_world = Some(sim.world.clone());
    let engine = BackupEngine::open(&db_world, &options).unwrap();
    db.put(b"a", &[1; 1_000]).unwrap();
    back_up_flushed(&engine, &db);
    db.put(b"b", &[2; 1_000]).unwrap();
    back_up_flushed(&engine, &db);
    db.put(b"c", &[3; 1_000]).unwrap();
    db.flush().unwrap();
    Scene {
        db_world,
        db,
        sim,
        engine,
    }
}

/// Calls `act` with a fault in each of its operations on the disk of backups, and then `check`.
fn at_each_operation(
    act: impl Fn(&Scene) -> cairn_types::Result<()>,
    check: impl Fn(&Scene, bool, bool),
) {
    let count = {
        let scene = scene();
        let before = scene.sim.fs.operations();
        act(&scene).unwrap();
        scene.sim.fs.operations() - before
    };
    assert!(count > 10, "{count} operations");
    let faults = [
        Fault::InputOutput,
        Fault::NoSpace,
        Fault::ShortWrite,
        Fault::SyncReverted,
        Fault::Denied,
        Fault::NoDescriptor,
    ];
    let mut failures = 0;
    for number in 0..count {
        for fault in faults {
            for lasts in [1, usize::MAX] {
                let scene = scene();
                let rule = FaultRule {
                    trigger: Trigger::Operation(scene.sim.fs.operations() + number),
                    fault,
                    lasts,
                };
                scene.sim.fs.set_plan(FaultPlan::new(vec![rule]));
                let done = act(&scene);
                let injected = scene.sim.fs.injected() > 0;
                scene.sim.fs.set_plan(FaultPlan::default());
                if let Err(error) = &done {
                    assert!(injected, "{error}");
                    assert_eq!(error.code(), Code::IoError, "{error}");
                    assert!(error.text().contains('/'), "the path is missing: {error}");
                    failures += 1;
                }
                check(&scene, done.is_ok(), lasts > 1);
            }
        }
    }
    assert!(failures > count, "{failures} failures");
}

/// Checks that the backups `ids` are complete for this engine and for another one, and that a backup can be created. With
/// `lasting` errors, a complete backup may be left that could not be removed.
fn check(scene: &Scene, ids: &[u32], lasting: bool) {
    let mut options = BackupEngineOptions::new(BACKUPS);
    options.backup_world = Some(scene.sim.world.clone());
    let other = BackupEngine::open(&scene.db_world, &options).unwrap();
    assert!(other.corrupted_backups().is_empty());
    for engine in [&scene.engine, &other] {
        let found: Vec<u32> = engine.backups().iter().map(|info| info.backup_id).collect();
        let more = lasting && found[..found.len() - 1] == *ids;
        assert!(more || found == ids, "{found:?}");
        for id in found {
            engine.verify_backup(id, true).unwrap();
        }
    }
    let id = back_up(&scene.engine, &scene.db);
    for id in ids.iter().chain([&id]) {
        scene.engine.verify_backup(*id, true).unwrap();
    }
    assert!(restored(&scene.db_world, &scene.engine, id) == entries(&scene.db));
}

#[test]
fn a_failed_creation_adds_nothing() {
    at_each_operation(
        |scene| {
            let options = CreateBackupOptions::default();
            scene
                .engine
                .create_new_backup(&scene.db, &options)
                .map(|_| ())
        },
        |scene, done, lasting| match done {
            true => check(scene, &[1, 2, 3], false),
            false => check(scene, &[1, 2], lasting),
        },
    );
}

#[test]
fn a_failed_deletion_leaves_other_backups_complete() {
    at_each_operation(
        |scene| scene.engine.delete_backup(1),
        |scene, done, _| {
            let mut options = BackupEngineOptions::new(BACKUPS);
            options.backup_world = Some(scene.sim.world.clone());
            let other = BackupEngine::open(&scene.db_world, &options).unwrap();
            let first = other.verify_backup(1, true);
            match first {
                Ok(()) => assert!(!done),
                Err(error) => assert_eq!(error.code(), Code::NotFound, "{error}"),
            }
            other.verify_backup(2, true).unwrap();
            let id = back_up(&scene.engine, &scene.db);
            scene.engine.verify_backup(id, true).unwrap();
            scene.engine.verify_backup(2, true).unwrap();
        },
    );
}

/// Regression: no backup could be created below a directory that may be searched but not read.
#[test]
fn the_directory_above_backups_need_not_be_readable() {
    let above = |fault| FaultRule {
        trigger: Trigger::Class {
            call: Call::SyncDirectory,
            name_end: "home".to_owned(),
            count: 0,
        },
        fault,
        lasts: usize::MAX,
    };
    for (fault, is_reported) in [(Fault::Denied, false), (Fault::InputOutput, true)] {
        let (db_world, sim) = (World::in_memory(), SimWorld::new(5));
        let db = open(&db_world);
        db.put(b"a", &[1; 1_000]).unwrap();
        sim.world.fs.create_dir_all(Path::new("/home")).unwrap();
        let mut options = BackupEngineOptions::new("/home/backups");
        options.backup_world = Some(sim.world.clone());
        sim.fs.set_plan(FaultPlan::new(vec![above(fault)]));
        let opened = BackupEngine::open(&db_world, &options);
        assert_eq!(opened.is_err(), is_reported, "{fault}");
        sim.fs.set_plan(FaultPlan::default());
        let engine = match opened {
            Ok(engine) => engine,
            Err(_) => BackupEngine::open(&db_world, &options).unwrap(),
        };
        sim.fs.set_plan(FaultPlan::new(vec![above(fault)]));
        let created = engine.create_new_backup(&db, &CreateBackupOptions::default());
        assert_eq!(created.is_err(), is_reported, "{fault}");
    }
}

/// Regression: a file that no backup lists and that could not be removed stopped all further backups and deletions.
#[test]
fn an_unlisted_file_that_cannot_be_removed_does_not_stop_changes() {
    let Scene {
        db_world, db, sim, ..
    } = scene();
    let (shared, private) = ("000777_123_10.sst", "000999.log");
    let dir = Path::new(BACKUPS);
    let stray = |relative: &str| {
        let path = dir.join(relative);
        sim.world.fs.create_dir_all(path.parent().unwrap()).unwrap();
        sim.world.fs.create(&path, FileMode::default()).unwrap();
    };
    stray(&format!("shared_checksum/{shared}"));
    stray(&format!("private/9/{private}"));
    let denied = |name: &str| FaultRule {
        trigger: Trigger::Class {
            call: Call::Remove,
            name_end: name.to_owned(),
            count: 0,
        },
        fault: Fault::Denied,
        lasts: usize::MAX,
    };
    let plan = || FaultPlan::new(vec![denied(shared), denied(private)]);
    let left = || {
        let files = files(&sim.world, dir).into_iter();
        let left = files.filter(|file| file.ends_with(shared) || file.ends_with(private));
        left.count()
    };
    let mut options = BackupEngineOptions::new(BACKUPS);
    options.backup_world = Some(sim.world.clone());
    let engine = BackupEngine::open(&db_world, &options).unwrap();
    sim.fs.set_plan(plan());
    assert_eq!([back_up(&engine, &db), back_up(&engine, &db)], [3, 4]);
    engine.delete_backup(3).unwrap();
    engine.purge_old_backups(1).unwrap();
    assert_eq!(engine.backups().len(), 1);
    let error = engine.garbage_collect().unwrap_err();
    assert_eq!(error.code(), Code::IoError, "{error}");
    assert_eq!(left(), 2);

    sim.fs.set_plan(FaultPlan::default());
    assert_eq!(back_up(&engine, &db), 5);
    assert_eq!(left(), 0);

    // The directory of the next backup must not contain a file that does not belong to it.
    stray(&format!("private/6/{private}"));
    sim.fs.set_plan(plan());
    let options = CreateBackupOptions::default();
    let error = engine.create_new_backup(&db, &options).unwrap_err();
    assert_eq!(error.code(), Code::IoError, "{error}");
    sim.fs.set_plan(FaultPlan::default());
    assert_eq!(back_up(&engine, &db), 6);
    assert_eq!(left(), 0);
    engine.verify_backup(6, true).unwrap();
}

#[test]
fn a_full_disk_is_reported() {
    let scene = scene();
    let used: u64 = scene
        .sim
        .fs
        .image()
        .files()
        .map(|(_, bytes)| bytes.len() as u64)
        .sum();
    scene.sim.fs.set_capacity(used + 500);
    let options = CreateBackupOptions::default();
    let full = scene
        .engine
        .create_new_backup(&scene.db, &options)
        .unwrap_err();
    assert_eq!(full.subcode(), Subcode::NoSpace, "{full}");
    scene.sim.fs.set_capacity(u64::MAX);
    check(&scene, &[1, 2], false);
}

#[test]
fn an_unreadable_file_of_the_database_is_reported() {
    let (sim, backups) = (SimWorld::new(6), World::in_memory());
    let mut options = BackupEngineOptions::new(BACKUPS);
    options.backup_world = Some(backups);
    let engine = BackupEngine::open(&sim.world, &options).unwrap();
    let db = open(&sim.world);
    db.put(b"a", &[1; 1_000]).unwrap();
    back_up_flushed(&engine, &db);
    db.put(b"b", &[2; 1_000]).unwrap();
    db.flush().unwrap();
    db.put(b"c", &[3; 1_000]).unwrap();
    for (name_end, call) in [
        (".sst", Call::Open),
        (".sst", Call::Read),
        (".log", Call::Open),
        ("", Call::Read),
    ] {
        let rule = FaultRule {
            trigger: Trigger::Class {
                call,
                name_end: name_end.to_owned(),
                count: 0,
            },
            fault: Fault::InputOutput,
            lasts: usize::MAX,
        };
        sim.fs.set_plan(FaultPlan::new(vec![rule]));
        let failed = engine.create_new_backup(&db, &CreateBackupOptions::default());
        let error = failed.unwrap_err();
        assert_eq!(error.code(), Code::IoError, "{error}");
        sim.fs.set_plan(FaultPlan::default());
        assert_eq!(engine.backups().len(), 1);
        engine.verify_backup(1, true).unwrap();
    }
    let id = back_up(&engine, &db);
    assert!(restored(&sim.world, &engine, id) == entries(&db));
}

#[test]
fn a_failed_restore_leaves_no_database_that_opens() {
    let (sim, backups) = (SimWorld::new(7), World::in_memory());
    let mut options = BackupEngineOptions::new(BACKUPS);
    options.backup_world = Some(backups);
    let engine = BackupEngine::open(&sim.world, &options).unwrap();
    let db = open(&sim.world);
    db.put(b"a", &[1; 1_000]).unwrap();
    back_up_flushed(&engine, &db);
    let state = entries(&db);
    let target = Path::new(RESTORED);
    let restore = || {
        let options = RestoreOptions::default();
        engine.restore_db_from_backup(1, target, target, &options)
    };
    let before = sim.fs.operations();
    restore().unwrap();
    let count = sim.fs.operations() - before;
    for number in 0..count {
        for fault in [Fault::InputOutput, Fault::NoSpace, Fault::ShortWrite] {
            let rule = FaultRule {
                trigger: Trigger::Operation(sim.fs.operations() + number),
                fault,
                lasts: 1,
            };
            sim.fs.set_plan(FaultPlan::new(vec![rule]));
            let done = restore();
            sim.fs.set_plan(FaultPlan::default());
            if let Err(error) = done {
                assert_eq!(error.code(), Code::IoError, "{error}");
                if let Ok(db) = try_open(&sim.world, target, &FamilyOptions::default(), false) {
                    assert!(entries(&db) == state, "operation {number}, {fault}");
                    db.close().unwrap();
                }
            }
            assert!(restored(&sim.world, &engine, 1) == state);
        }
    }
}
