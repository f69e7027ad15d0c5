//! Directories of backups that are damaged, or made to do harm.

use std::path::Path;

use cairn_backup::{BackupEngine, BackupEngineOptions, RestoreOptions};
use cairn_platform::World;
use cairn_platform::fs::FileMode;
use cairn_types::Code;

use crate::{BACKUPS, back_up, back_up_flushed, engine, entries, files, open, restored};

fn read(world: &World, path: &Path) -> Vec<u8> {
    let file = world.fs.open(path, FileMode::default()).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

fn replace(world: &World, path: &Path, content: &[u8]) {
    let _ = world.fs.remove(path);
    let file = world.fs.create(path, FileMode::default()).unwrap();
    file.append(content).unwrap();
    file.close().unwrap();
}

/// Every byte of a metadata file is changed in several ways. The other backup stays complete, and the changed one is
/// corrupt with a reason, or is another description of existing files.
#[test]
fn changed_metadata_is_reported_and_harms_no_other_backup() {
    let world = World::in_memory();
    let (db, first) = (open(&world), engine(&world));
    db.put(b"a", b"1").unwrap();
    back_up_flushed(&first, &db);
    db.put(b"b", b"2").unwrap();
    back_up_flushed(&first, &db);
    let path = Path::new(BACKUPS).join("meta/2");
    let original = read(&world, &path);
    let mut corrupt = 0;
    for at in 0..original.len() {
        for byte in [b'\n', b' ', b'/', b'.', b'0', 0, 0xff, original[at] ^ 1] {
            let mut changed = original.clone();
            changed[at] = byte;
            replace(&world, &path, &changed);
            let engine = engine(&world);
            engine.verify_backup(1, true).unwrap();
            let reasons = engine.corrupted_backups();
            corrupt += reasons.len();
            for (id, reason) in reasons {
                assert_eq!(id, 2);
                assert!(
                    matches!(reason.code(), Code::Corruption | Code::NotSupported),
                    "{reason}"
                );
                assert!(reason.text().contains("/backups/"), "{reason}");
                let refused = engine.verify_backup(2, false).unwrap_err();
                assert_eq!(refused, reason);
            }
            engine.garbage_collect().unwrap();
            engine.verify_backup(1, true).unwrap();
        }
    }
    assert!(corrupt > original.len(), "{corrupt} of {}", original.len());
    // No garbage collection has removed a file that the metadata lists.
    replace(&world, &path, &original);
    engine(&world).verify_backup(2, true).unwrap();
}

/// Regression: no engine could be opened.
#[test]
fn a_directory_in_the_place_of_a_metadata_file_is_no_backup() {
    let world = World::in_memory();
    let meta = Path::new(BACKUPS).join("meta/7");
    engine(&world);
    world.fs.create_dir_all(&meta).unwrap();
    let engine = engine(&world);
    assert!(engine.backups().is_empty() && engine.corrupted_backups().is_empty());
    let db = open(&world);
    db.put(b"a", b"1").unwrap();
    // The id of the directory is taken.
    assert_eq!(back_up_flushed(&engine, &db), 8);
    engine.garbage_collect().unwrap();
    engine.verify_backup(8, true).unwrap();
    assert!(world.fs.exists(&meta).unwrap());

    let dir = tempfile::tempdir().unwrap();
    let options = BackupEngineOptions::new(dir.path());
    let world = World::posix();
    BackupEngine::open(&world, &options).unwrap();
    world.fs.create_dir_all(&dir.path().join("meta/7")).unwrap();
    let engine = BackupEngine::open(&world, &options).unwrap();
    assert!(engine.backups().is_empty() && engine.corrupted_backups().is_empty());
}

#[test]
fn a_corrupt_backup_can_be_deleted() {
    let world = World::in_memory();
    let (db, first) = (open(&world), engine(&world));
    db.put(b"a", b"1").unwrap();
    back_up_flushed(&first, &db);
    db.put(b"b", b"2").unwrap();
    back_up_flushed(&first, &db);
    replace(&world, &Path::new(BACKUPS).join("meta/2"), b"junk\n");
    let second = engine(&world);
    assert_eq!(second.backups().len(), 1);
    let error = second.backup(2).unwrap_err();
    assert!(
        error.to_string().contains("at offset 0 of /backups/meta/2"),
        "{error}"
    );
    assert_eq!(back_up(&second, &db), 3);
    second.delete_backup(2).unwrap();
    assert!(second.corrupted_backups().is_empty());
    second.garbage_collect().unwrap();
    for id in [1, 3] {
        second.verify_backup(id, true).unwrap();
    }
    assert!(restored(&world, &second, 3) == entries(&db));
}

#[test]
fn missing_and_damaged_files_are_named() {
    let world = World::in_memory();
    let (db, engine) = (open(&world), engine(&world));
    db.put(b"a", b"1").unwrap();
    let id = back_up_flushed(&engine, &db);
    let all = files(&world, BACKUPS.as_ref());
    for name in all
        .iter()
        .filter(|name| !name.starts_with("meta/") && *name != "BACKUP_LOCK")
    {
        let path = Path::new(BACKUPS).join(name);
        let original = read(&world, &path);
        world.fs.remove(&path).unwrap();
        let missing = engine.verify_backup(id, false).unwrap_err();
        assert_eq!(missing.code(), Code::NotFound);
        assert!(missing.text().contains(name), "{missing}");
        let target = Path::new(crate::RESTORED);
        let refused = engine.restore_db_from_backup(id, target, target, &RestoreOptions::default());
        assert!(refused.is_err());
        assert!(!world.fs.exists(&target.join("CURRENT")).unwrap());
        let reopened = crate::engine(&world);
        let (_, reason) = reopened.corrupted_backups().remove(0);
        assert!(reason.text().contains(name), "{reason}");
        replace(&world, &path, &[&original[..], b"x"].concat());
        let longer = engine.verify_backup(id, false).unwrap_err();
        assert!(
            longer.is_corruption() && longer.text().contains("expected"),
            "{longer}"
        );
        if let [first, rest @ ..] = &original[..] {
            replace(&world, &path, &[&[first ^ 1], rest].concat());
            engine.verify_backup(id, false).unwrap();
            let changed = engine.verify_backup(id, true).unwrap_err();
            assert!(
                changed.is_corruption() && changed.text().contains("checksum of"),
                "{changed}"
            );
            let refused =
                engine.restore_db_from_backup(id, target, target, &RestoreOptions::default());
            assert!(refused.unwrap_err().is_corruption());
            assert!(!world.fs.exists(&target.join("CURRENT")).unwrap());
        }
        replace(&world, &path, &original);
        engine.verify_backup(id, true).unwrap();
    }
}

/// Regression: a backup whose metadata lists no MANIFEST was verified and restored, and the restored database could not be
/// opened. One without CURRENT was verified.
#[test]
fn a_backup_without_current_or_manifest_is_corrupt() {
    let world = World::in_memory();
    let (db, first) = (open(&world), engine(&world));
    db.put(b"a", b"1").unwrap();
    let id = back_up_flushed(&first, &db);
    let path = Path::new(BACKUPS).join(format!("meta/{id}"));
    let original = String::from_utf8(read(&world, &path)).unwrap();
    let target = Path::new(crate::RESTORED);
    for absent in ["CURRENT", "MANIFEST"] {
        let lines = original.lines().filter(|line| !line.contains(absent));
        let mut lines: Vec<&str> = lines.collect();
        // The time, the sequence number and the number of files precede the files.
        let fewer = (lines.len() - 3).to_string();
        lines[2] = &fewer;
        replace(&world, &path, (lines.join("\n") + "\n").as_bytes());
        let engine = engine(&world);
        let refused = [
            engine.verify_backup(id, false),
            engine.verify_backup(id, true),
            engine.restore_db_from_backup(id, target, target, &RestoreOptions::default()),
        ];
        for refused in refused {
            let error = refused.unwrap_err();
            let named = format!("backup {id} has no {absent}");
            assert!(
                error.is_corruption() && error.text().contains(&named),
                "{error}"
            );
        }
        assert!(!world.fs.exists(&target.join("CURRENT")).unwrap());
    }
}

/// Regression: a shared file that an earlier backup lists, and that the directory has lost, is copied again.
#[test]
fn a_missing_shared_file_is_copied_again() {
    for with_checksum in [true, false] {
        let world = World::in_memory();
        let db = open(&world);
        let mut options = BackupEngineOptions::new(BACKUPS);
        options.share_files_with_checksum = with_checksum;
        let engine = BackupEngine::open(&world, &options).unwrap();
        db.put(b"a", b"1").unwrap();
        let mut ids = vec![back_up_flushed(&engine, &db)];
        let all = files(&world, BACKUPS.as_ref());
        let table = all.iter().find(|name| name.ends_with(".sst")).unwrap();
        assert!(table.starts_with("shared"), "{table}");
        let path = Path::new(BACKUPS).join(table);
        let original = read(&world, &path);
        for damage in [None, Some(&original[1..])] {
            match damage {
                None => world.fs.remove(&path).unwrap(),
                Some(rest) => replace(&world, &path, rest),
            }
            ids.push(back_up(&engine, &db));
            for id in &ids {
                engine.verify_backup(*id, true).unwrap();
            }
        }
        assert_eq!(read(&world, &path), original);
        assert_eq!(restored(&world, &engine, ids[2]), entries(&db));
    }
}

/// Files of the user in the directories survive everything.
#[test]
fn foreign_files_are_kept() {
    let world = World::in_memory();
    let (db, engine) = (open(&world), engine(&world));
    let foreign = [
        "notes",
        "meta/notes",
        "meta/01",
        "private/notes",
        "shared_checksum/notes.sst",
        "shared_checksum/.hidden",
    ];
    for name in foreign {
        replace(&world, &Path::new(BACKUPS).join(name), b"of the user");
    }
    let id = back_up(&engine, &db);
    let inside = format!("private/{id}/notes");
    replace(&world, &Path::new(BACKUPS).join(&inside), b"of the user");
    engine.delete_backup(id).unwrap();
    engine.garbage_collect().unwrap();
    let left = files(&world, BACKUPS.as_ref());
    for name in foreign.iter().copied().chain([&*inside]) {
        assert!(left.iter().any(|found| found == name), "{name}");
    }
    let next = back_up(&engine, &db);
    engine.verify_backup(next, true).unwrap();
}

/// Leftovers of other programs are removed, and of the same names are no obstacle.
#[test]
fn leftovers_are_removed() {
    let world = World::in_memory();
    let db = open(&world);
    let _ = engine(&world);
    let leftovers = [
        "meta/.1.tmp",
        "meta/2.tmp",
        "private/1/CURRENT",
        "private/3.tmp/000001.log",
        "shared_checksum/.000009_sX_1.sst.tmp",
        "shared_checksum/000009_sX_1.sst",
    ];
    for name in leftovers {
        let path = Path::new(BACKUPS).join(name);
        world.fs.create_dir_all(path.parent().unwrap()).unwrap();
        replace(&world, &path, b"left");
    }
    let again = engine(&world);
    assert!(again.backups().is_empty());
    assert_eq!(back_up(&again, &db), 1);
    again.verify_backup(1, true).unwrap();
    let left = files(&world, BACKUPS.as_ref());
    assert!(
        left.iter()
            .all(|name| !name.contains("tmp") && !name.contains("sX")),
        "{left:?}"
    );
    let options = BackupEngineOptions::new(BACKUPS);
    assert_eq!(
        BackupEngine::open(&world, &options)
            .unwrap()
            .backups()
            .len(),
        1
    );
}

#[test]
fn a_metadata_file_of_any_length_is_no_burden() {
    let world = World::in_memory();
    let (db, first) = (open(&world), engine(&world));
    back_up(&first, &db);
    let path = Path::new(BACKUPS).join("meta/2");
    let file = world.fs.create(&path, FileMode::default()).unwrap();
    for _ in 0..257 {
        file.append(&vec![b'1'; 1 << 20]).unwrap();
    }
    file.close().unwrap();
    let second = engine(&world);
    let (id, error) = second.corrupted_backups().remove(0);
    assert!(
        id == 2 && error.text().contains("length of /backups/meta/2"),
        "{error}"
    );
    second.delete_backup(2).unwrap();
    second.verify_backup(1, true).unwrap();
}

#[test]
fn a_file_in_the_place_of_a_directory_damages_only_its_backup() {
    let world = World::in_memory();
    let (db, first) = (open(&world), engine(&world));
    db.put(b"a", b"1").unwrap();
    back_up_flushed(&first, &db);
    let state = entries(&db);
    db.put(b"b", b"2").unwrap();
    back_up_flushed(&first, &db);
    drop(first);
    let private = Path::new(BACKUPS).join("private/2");
    for name in world.fs.list(&private).unwrap() {
        world.fs.remove(&private.join(name)).unwrap();
    }
    world.fs.remove_dir(&private).unwrap();
    replace(&world, &private, b"");
    let again = engine(&world);
    assert_eq!(again.backups().len(), 1);
    assert!(again.verify_backup(2, false).unwrap_err().is_corruption());
    assert_eq!(restored(&world, &again, 1), state);
}
