//! Restores: modes, logs, targets.

use std::path::Path;

use cairn_backup::{BackupEngine, BackupEngineOptions, RestoreMode, RestoreOptions};
use cairn_options::FamilyOptions;
use cairn_platform::World;
use cairn_platform::fs::FileMode;
use cairn_types::Code;

use crate::{BACKUPS, DB, back_up_flushed, engine, entries, files, open, restored, try_open};

fn write(world: &World, path: &str, content: &[u8]) {
    let file = world.fs.create(path.as_ref(), FileMode::default()).unwrap();
    file.append(content).unwrap();
    file.close().unwrap();
}

#[test]
fn a_restore_replaces_the_database_and_keeps_other_files() {
    let world = World::in_memory();
    let (db, engine) = (open(&world), engine(&world));
    db.put(b"a", b"1").unwrap();
    let id = back_up_flushed(&engine, &db);
    let state = entries(&db);
    db.put(b"b", b"2").unwrap();
    db.flush().unwrap();
    db.put(b"c", b"3").unwrap();
    let dir = Path::new(DB);
    let options = RestoreOptions::default();
    let busy = engine
        .restore_db_from_backup(id, dir, dir, &options)
        .unwrap_err();
    assert!(busy.text().contains("restoring to"), "{busy}");
    assert_eq!(entries(&db).len(), 3);
    db.close().unwrap();
    drop(db);
    write(&world, "/db/notes.txt", b"of the user");
    engine
        .restore_db_from_backup(id, dir, dir, &options)
        .unwrap();
    let db = try_open(&world, dir, &FamilyOptions::default(), false).unwrap();
    assert!(entries(&db) == state);
    assert!(files(&world, dir).contains(&"notes.txt".to_owned()));
}

/// Writes after the backup are recovered from logs that are kept.
#[test]
fn kept_logs_are_recovered() {
    let world = World::in_memory();
    let mut options = BackupEngineOptions::new(BACKUPS);
    options.backup_log_files = false;
    let engine = BackupEngine::open(&world, &options).unwrap();
    let db = open(&world);
    db.put(b"a", b"1").unwrap();
    let id = back_up_flushed(&engine, &db);
    db.put(b"b", b"2").unwrap();
    let state = entries(&db);
    db.close().unwrap();
    drop(db);
    let dir = Path::new(DB);
    let log = files(&world, dir)
        .into_iter()
        .find(|name| name.ends_with(".log"));
    let log = log.expect("a log");
    world.fs.create_dir_all(&dir.join("archive")).unwrap();
    let archived = dir.join("archive").join(&log);
    world.fs.rename(&dir.join(&log), &archived).unwrap();
    let keep = RestoreOptions {
        keep_log_files: true,
        ..RestoreOptions::default()
    };
    engine.restore_db_from_backup(id, dir, dir, &keep).unwrap();
    let db = try_open(&world, dir, &FamilyOptions::default(), false).unwrap();
    assert!(entries(&db) == state);
    db.close().unwrap();
    drop(db);
    engine
        .restore_db_from_backup(id, dir, dir, &RestoreOptions::default())
        .unwrap();
    let db = try_open(&world, dir, &FamilyOptions::default(), false).unwrap();
    assert_eq!(entries(&db).len(), 1);
}

#[test]
fn modes_keep_intact_files_and_replace_others() {
    for mode in [
        RestoreMode::KeepLatestDbSessionIdFiles,
        RestoreMode::VerifyChecksum,
    ] {
        let world = World::in_memory();
        let (db, engine) = (open(&world), engine(&world));
        for key in [b"a", b"b"] {
            db.put(key, &[key[0]; 500]).unwrap();
            db.flush().unwrap();
        }
        let id = back_up_flushed(&engine, &db);
        let state = restored(&world, &engine, id);
        let target = Path::new(crate::RESTORED);
        // One table is damaged, or has another length.
        let tables: Vec<String> = files(&world, target)
            .into_iter()
            .filter(|name| name.ends_with(".sst"))
            .collect();
        assert!(tables.len() >= 2);
        let damaged = target.join(&tables[0]);
        let file = world.fs.open(&damaged, FileMode::default()).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        world.fs.remove(&damaged).unwrap();
        bytes[20] ^= 1;
        if mode == RestoreMode::KeepLatestDbSessionIdFiles {
            bytes.truncate(100);
        }
        write(&world, damaged.to_str().unwrap(), &bytes);
        let kept = target.join(&tables[1]);
        let time = world.fs.status(&kept).unwrap().modified_micros;
        let options = RestoreOptions {
            mode,
            ..RestoreOptions::default()
        };
        engine
            .restore_db_from_backup(id, target, target, &options)
            .unwrap();
        assert_eq!(
            world.fs.status(&kept).unwrap().modified_micros,
            time,
            "{mode:?}"
        );
        let db = try_open(&world, target, &FamilyOptions::default(), false).unwrap();
        assert!(entries(&db) == state, "{mode:?}");
    }
}

#[test]
fn logs_have_a_directory_of_their_own() {
    let world = World::in_memory();
    let (db, engine) = (open(&world), engine(&world));
    db.put(b"a", b"1").unwrap();
    let id = crate::back_up(&engine, &db);
    let (dir, logs) = (Path::new("/restored"), Path::new("/logs"));
    engine
        .restore_db_from_backup(id, dir, logs, &RestoreOptions::default())
        .unwrap();
    let is_log = |name: &String| name.ends_with(".log");
    assert!(!files(&world, dir).iter().any(is_log));
    assert!(files(&world, logs).iter().all(is_log));
    let options = cairn_options::DbOptions {
        wal_dir: logs.to_owned(),
        ..Default::default()
    };
    let copy = cairn_db::open(&cairn_db::OpenRequest {
        path: dir,
        options: &options,
        families: &[],
        others: Some(&FamilyOptions::default()),
        read_only: false,
        world: world.clone(),
    });
    assert!(entries(&copy.unwrap()) == entries(&db));
}

#[test]
fn directories_with_files_of_backups_are_no_targets() {
    let world = World::in_memory();
    let (db, engine) = (open(&world), engine(&world));
    let id = back_up_flushed(&engine, &db);
    for target in [
        "/backups/private",
        "/backups/private/1",
        "/backups/shared_checksum",
        "/backups/meta",
    ] {
        let target = Path::new(target);
        for (db_dir, wal_dir) in [(target, Path::new("/r")), (Path::new("/r"), target)] {
            let options = RestoreOptions::default();
            let refused = engine.restore_db_from_backup(id, db_dir, wal_dir, &options);
            assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
        }
    }
    engine.verify_backup(id, true).unwrap();
    let missing =
        engine.restore_db_from_backup(7, "/r".as_ref(), "/r".as_ref(), &Default::default());
    assert_eq!(missing.unwrap_err().code(), Code::NotFound);
}
