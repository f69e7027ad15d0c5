//! Creation and deletion of backups.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cairn_backup::{
    BackupEngine, BackupEngineOptions, BackupEngineReadOnly, CreateBackupOptions, RestoreOptions,
    ShareFilesNaming,
};
use cairn_db::{Db, OpenRequest};
use cairn_observe::LogSink;
use cairn_observe::listener::{EventListener, FlushJobInfo};
use cairn_observe::logger::Level;
use cairn_observe::statistics::Ticker;
use cairn_options::{DbOptions, FamilyOptions};
use cairn_platform::sync::Mutex;
use cairn_platform::{RateLimiter, World};
use cairn_types::Code;

use crate::{
    BACKUPS, DB, RESTORED, back_up, back_up_flushed, engine, entries, files, open, restored,
    try_open,
};

fn put(db: &Db, from: u32, to: u32) {
    for number in from..to {
        let key = format!("key{number:06}");
        db.put(key.as_bytes(), &number.to_le_bytes().repeat(20))
            .unwrap();
    }
}

#[test]
fn each_backup_restores_the_state_of_its_time() {
    let world = World::in_memory();
    let (db, engine) = (open(&world), engine(&world));
    let mut states = Vec::new();
    for round in 0..4 {
        put(&db, round * 50, round * 50 + 100);
        // Unflushed data is in the logs.
        let id = match round % 2 {
            0 => back_up(&engine, &db),
            _ => back_up_flushed(&engine, &db),
        };
        assert_eq!(id, round + 1);
        states.push(entries(&db));
        engine.verify_backup(id, true).unwrap();
    }
    for (id, state) in (1..).zip(&states) {
        assert!(restored(&world, &engine, id) == *state, "{id}");
    }
    engine.delete_backup(2).unwrap();
    engine.purge_old_backups(2).unwrap();
    let left: Vec<u32> = engine.backups().iter().map(|info| info.backup_id).collect();
    assert_eq!(left, [3, 4]);
    for id in left {
        engine.verify_backup(id, true).unwrap();
        assert!(
            restored(&world, &engine, id) == states[id as usize - 1],
            "{id}"
        );
    }
    assert_eq!(engine.delete_backup(2).unwrap_err().code(), Code::NotFound);
    engine.purge_old_backups(0).unwrap();
    let left = files(&world, BACKUPS.as_ref());
    assert_eq!(left, ["BACKUP_LOCK"], "nothing else is left");
    assert_eq!(back_up(&engine, &db), 5);
}

/// A backup reads new tables only, and a few kilobytes of old ones.
#[test]
fn an_incremental_backup_reads_what_is_new() {
    let world = World::in_memory();
    let options = DbOptions {
        create_if_missing: true,
        ..DbOptions::default()
    };
    let family = FamilyOptions {
        disable_auto_compactions: true,
        ..FamilyOptions::default()
    };
    let db = cairn_db::open(&cairn_db::OpenRequest {
        path: DB.as_ref(),
        options: &options,
        families: &[],
        others: Some(&family),
        read_only: false,
        world: world.clone(),
    })
    .unwrap();
    let engine = engine(&world);
    let ticker = |ticker: Ticker| db.statistics().unwrap().ticker(ticker);
    for round in 0..5 {
        put(&db, round * 20_000, (round + 1) * 20_000);
        db.flush().unwrap();
    }
    back_up_flushed(&engine, &db);
    let all = ticker(Ticker::BackupReadBytes);
    assert_eq!(all, ticker(Ticker::BackupWriteBytes));
    put(&db, 0, 100);
    back_up_flushed(&engine, &db);
    let more = ticker(Ticker::BackupReadBytes) - all;
    assert!(more * 20 < all, "{more} of {all}");
    let before = files(&world, &Path::new(BACKUPS).join("shared_checksum"));
    back_up_flushed(&engine, &db);
    let after = files(&world, &Path::new(BACKUPS).join("shared_checksum"));
    assert_eq!(before, after, "nothing is copied again");
}

#[test]
fn blob_files_are_shared_by_their_checksums() {
    let world = World::in_memory();
    let family = FamilyOptions {
        enable_blob_files: true,
        min_blob_size: 10,
        ..FamilyOptions::default()
    };
    let db = try_open(&world, DB.as_ref(), &family, true).unwrap();
    put(&db, 0, 100);
    let first = engine(&world);
    back_up_flushed(&first, &db);
    back_up_flushed(&first, &db);
    // Another engine does not know the checksums.
    let second = engine(&world);
    let id = back_up_flushed(&second, &db);
    assert_eq!(id, 3);
    let names = files(&world, &Path::new(BACKUPS).join("shared_checksum"));
    let blobs = names.iter().filter(|name| name.ends_with(".blob"));
    assert_eq!(blobs.count(), 1, "{names:?}");
    assert!(restored(&world, &second, id) == entries(&db));
}

#[test]
fn all_layouts_are_restored() {
    let all: [fn(&mut BackupEngineOptions); 6] = [
        |options| options.share_table_files = false,
        |options| options.share_files_with_checksum = false,
        |options| {
            options.share_files_with_checksum_naming =
                ShareFilesNaming::LEGACY_CRC32C_AND_FILE_SIZE;
        },
        |options| options.share_files_with_checksum_naming = ShareFilesNaming::USE_DB_SESSION_ID,
        |options| options.schema_version = cairn_format::backup::Schema::Two,
        |options| options.sync = false,
    ];
    for (number, change) in all.iter().enumerate() {
        let world = World::in_memory();
        let db = open(&world);
        let mut options = BackupEngineOptions::new(BACKUPS);
        change(&mut options);
        options.max_background_operations = 4;
        let engine = BackupEngine::open(&world, &options).unwrap();
        for round in 0..3 {
            put(&db, round * 100, round * 100 + 150);
            let id = back_up_flushed(&engine, &db);
            engine.verify_backup(id, true).unwrap();
            assert!(restored(&world, &engine, id) == entries(&db), "{number}");
        }
        engine.delete_backup(1).unwrap();
        engine.verify_backup(2, true).unwrap();
        let again = BackupEngineReadOnly::open(&world, &options).unwrap();
        again.verify_backup(3, true).unwrap();
        assert_eq!(again.backups(), engine.backups(), "{number}");
    }
}

#[test]
fn arguments_are_checked() {
    let world = World::in_memory();
    let db = open(&world);
    let engine = engine(&world);
    let long = CreateBackupOptions {
        app_metadata: vec![0; (1 << 20) + 1],
        ..CreateBackupOptions::default()
    };
    let refused = engine.create_new_backup(&db, &long).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let exclude = CreateBackupOptions {
        exclude_files: Some(Arc::new(|_| {})),
        ..CreateBackupOptions::default()
    };
    let refused = engine.create_new_backup(&db, &exclude).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let mut options = BackupEngineOptions::new("");
    assert!(BackupEngine::open(&world, &options).is_err());
    options = BackupEngineOptions::new(BACKUPS);
    options.max_background_operations = 0;
    assert!(BackupEngine::open(&world, &options).is_err());
    options = BackupEngineOptions::new("/nowhere");
    let missing = BackupEngineReadOnly::open(&world, &options).unwrap_err();
    assert_eq!(missing.code(), Code::NotFound);
    assert!(!world.fs.exists("/nowhere".as_ref()).unwrap());
    options.destroy_old_data = true;
    assert!(BackupEngineReadOnly::open(&world, &options).is_err());
    assert!(engine.backups().is_empty());
    assert_eq!(ShareFilesNaming::from_number(1 << 31), None);
}

#[test]
fn metadata_and_old_data() {
    let world = World::in_memory();
    let (db, engine) = (open(&world), engine(&world));
    let create = CreateBackupOptions {
        app_metadata: b"\0\n metadata \xff".to_vec(),
        ..CreateBackupOptions::default()
    };
    let id = engine.create_new_backup(&db, &create).unwrap();
    let mut options = BackupEngineOptions::new(BACKUPS);
    let reader = BackupEngineReadOnly::open(&world, &options).unwrap();
    let info = reader.backup(id).unwrap();
    assert_eq!(info.app_metadata, create.app_metadata);
    assert_eq!(info, engine.latest_backup().unwrap());
    options.destroy_old_data = true;
    let empty = BackupEngine::open(&world, &options).unwrap();
    assert!(empty.backups().is_empty());
    assert_eq!(files(&world, BACKUPS.as_ref()), ["BACKUP_LOCK"]);
}

/// An engine notices the backups of others before its own changes.
#[test]
fn engines_of_one_directory_take_turns() {
    let world = World::in_memory();
    let db = open(&world);
    let (first, second) = (engine(&world), engine(&world));
    assert_eq!(back_up_flushed(&first, &db), 1);
    put(&db, 0, 10);
    assert_eq!(back_up_flushed(&second, &db), 2);
    first.garbage_collect().unwrap();
    second.verify_backup(2, true).unwrap();
    first.delete_backup(1).unwrap();
    assert_eq!(back_up_flushed(&second, &db), 3);
    second.verify_backup(3, true).unwrap();
    assert_eq!(second.backups().len(), 2);
    let held = world
        .fs
        .lock(&Path::new(BACKUPS).join("BACKUP_LOCK"))
        .unwrap();
    let refused = first
        .create_new_backup(&db, &Default::default())
        .unwrap_err();
    assert!(refused.text().contains("changed elsewhere"), "{refused}");
    drop(held);
    assert_eq!(back_up_flushed(&first, &db), 4);
}

#[test]
fn callbacks_may_read_stop_and_panic() {
    let world = World::in_memory();
    let db = open(&world);
    put(&db, 0, 2_000);
    let mut options = BackupEngineOptions::new(BACKUPS);
    options.callback_trigger_interval_size = 1;
    let engine = Arc::new(BackupEngine::open(&world, &options).unwrap());
    let calls = Arc::new(AtomicU64::new(0));
    let (seen, inner, database) = (calls.clone(), engine.clone(), db.clone());
    let create = CreateBackupOptions {
        flush_before_backup: true,
        progress: Some(Arc::new(move |progress| {
            assert!(progress.copied_bytes <= progress.total_bytes);
            assert!(inner.backups().is_empty());
            for refused in [
                inner.delete_backup(1),
                inner.garbage_collect(),
                inner.verify_backup(1, true),
                inner
                    .create_new_backup(&database, &Default::default())
                    .map(|_| ()),
                inner.restore_db_from_backup(1, DB.as_ref(), DB.as_ref(), &Default::default()),
            ] {
                assert_eq!(refused.unwrap_err().code(), Code::Busy);
            }
            seen.fetch_add(1, Ordering::Relaxed);
        })),
        ..CreateBackupOptions::default()
    };
    assert_eq!(engine.create_new_backup(&db, &create).unwrap(), 1);
    assert!(calls.load(Ordering::Relaxed) >= 3);
    let panics = CreateBackupOptions {
        progress: Some(Arc::new(|_| panic!("a callback of a test"))),
        ..CreateBackupOptions::default()
    };
    let aborted = engine.create_new_backup(&db, &panics).unwrap_err();
    assert_eq!(aborted.code(), Code::Aborted);
    let inner = engine.clone();
    let stops = CreateBackupOptions {
        progress: Some(Arc::new(move |_| inner.stop())),
        ..CreateBackupOptions::default()
    };
    put(&db, 0, 1);
    let stopped = engine.create_new_backup(&db, &stops).unwrap_err();
    assert_eq!(stopped.code(), Code::Incomplete, "{stopped}");
    let stopped = engine
        .create_new_backup(&db, &Default::default())
        .unwrap_err();
    assert_eq!(stopped.code(), Code::Incomplete);
    assert_eq!(engine.backups().len(), 1);
    engine.verify_backup(1, true).unwrap();
    let again = crate::engine(&world);
    assert_eq!(back_up(&again, &db), 2);
    assert!(restored(&world, &again, 2) == entries(&db));
}

#[test]
fn excluded_files_come_from_another_directory() {
    let world = World::in_memory();
    let db = open(&world);
    put(&db, 0, 1_000);
    let whole = engine(&world);
    back_up_flushed(&whole, &db);
    let mut options = BackupEngineOptions::new("/partial");
    options.schema_version = cairn_format::backup::Schema::Two;
    let partial = BackupEngine::open(&world, &options).unwrap();
    let exclude = CreateBackupOptions {
        exclude_files: Some(Arc::new(|files| {
            for (path, excluded) in files {
                assert!(path.starts_with("shared_checksum/"), "{path}");
                *excluded = true;
            }
        })),
        ..CreateBackupOptions::default()
    };
    let id = partial.create_new_backup(&db, &exclude).unwrap();
    assert_eq!(partial.backup(id).unwrap().excluded_files.len(), 1);
    assert!(files(&world, "/partial/shared_checksum".as_ref()).is_empty());
    let target = Path::new("/restored");
    let alone = RestoreOptions::default();
    let refused = partial.restore_db_from_backup(id, target, target, &alone);
    assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
    let both = RestoreOptions {
        alternate_dirs: vec![&whole],
        ..RestoreOptions::default()
    };
    let reopened = BackupEngineReadOnly::open(&world, &options).unwrap();
    reopened
        .restore_db_from_backup(id, target, target, &both)
        .unwrap();
    let copy = try_open(&world, target, &FamilyOptions::default(), false).unwrap();
    assert!(entries(&copy) == entries(&db));
}

#[test]
fn rates_are_limited() {
    let world = World::in_memory();
    let db = open(&world);
    put(&db, 0, 2_000);
    let limiter = Arc::new(RateLimiter::of_writes(1 << 30));
    let mut options = BackupEngineOptions::new(BACKUPS);
    options.backup_rate_limiter = Some(limiter.clone());
    options.restore_rate_limiter = Some(limiter.clone());
    let engine = BackupEngine::open(&world, &options).unwrap();
    let id = back_up_flushed(&engine, &db);
    let size = engine.backup(id).unwrap().size;
    let backup = limiter.total_bytes_through(None);
    assert!(backup + 100 > size && backup <= size, "{backup} of {size}");
    assert!(restored(&world, &engine, id) == entries(&db));
    assert_eq!(limiter.total_bytes_through(None), backup + size);
}

/// Regression: a change released the mutex before the file lock, and the next one found the directory locked.
#[test]
fn changes_of_one_engine_wait_for_each_other() {
    let world = World::in_memory();
    let engine = engine(&world);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5_000 {
                    engine.garbage_collect().unwrap();
                }
            });
        }
    });
}

/// Many threads create backups, delete, verify and restore them through one engine, while the database is written.
#[test]
fn one_engine_is_shared_between_threads() {
    let world = World::in_memory();
    let db = open(&world);
    let mut options = BackupEngineOptions::new(BACKUPS);
    options.max_background_operations = 3;
    let engine = BackupEngine::open(&world, &options).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| put(&db, 0, 3_000));
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..10 {
                    back_up_flushed(&engine, &db);
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..10 {
                engine.purge_old_backups(3).unwrap();
            }
        });
        for thread in 0..2 {
            let (engine, world) = (&engine, &world);
            scope.spawn(move || {
                let target = format!("/restored{thread}");
                let target = Path::new(&target);
                for _ in 0..10 {
                    let restore = RestoreOptions::default();
                    match engine.restore_db_from_latest_backup(target, target, &restore) {
                        Err(error) => assert_eq!(error.code(), Code::NotFound, "{error}"),
                        Ok(()) => {
                            let family = FamilyOptions::default();
                            let db = try_open(world, target, &family, false).unwrap();
                            let count = entries(&db).len();
                            let last = format!("key{:06}", count.saturating_sub(1));
                            assert!(count == 0 || db.get(last.as_bytes()).unwrap().is_some());
                            db.close().unwrap();
                        }
                    }
                }
            });
        }
    });
    for info in engine.backups() {
        engine.verify_backup(info.backup_id, true).unwrap();
    }
}

/// Obsolete tables, logs and OPTIONS files are deleted while backups are created, but not those that a backup copies.
#[test]
fn files_are_kept_while_they_are_copied() {
    let world = World::in_memory();
    let family = FamilyOptions {
        write_buffer_size: 64 << 10,
        level0_file_num_compaction_trigger: 2,
        ..FamilyOptions::default()
    };
    let db = try_open(&world, DB.as_ref(), &family, true).unwrap();
    let engine = engine(&world);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..40 {
                put(&db, round * 50, round * 50 + 500);
                let limit = format!("{}", 64 + round);
                let changes = [("max_open_files", &*limit)];
                db.set_db_options(&changes).unwrap();
                db.flush().unwrap();
                // Unbalanced, as in a program that is not aware of the backup.
                db.enable_file_deletions().unwrap();
            }
        });
        let mut created = 0;
        while !writer.is_finished() || created < 3 {
            let id = back_up(&engine, &db);
            engine.verify_backup(id, true).unwrap();
            restored(&world, &engine, id);
            engine.purge_old_backups(2).unwrap();
            created += 1;
        }
    });
    let id = back_up(&engine, &db);
    assert!(restored(&world, &engine, id) == entries(&db));
}

#[test]
fn closed_and_read_only_databases() {
    let world = World::in_memory();
    let (db, engine) = (open(&world), engine(&world));
    put(&db, 0, 100);
    back_up(&engine, &db);
    db.flush().unwrap();
    let state = entries(&db);
    db.close().unwrap();
    let closed = engine.create_new_backup(&db, &Default::default());
    assert!(closed.is_err());
    assert_eq!(engine.backups().len(), 1);
    drop(db);
    let db = cairn_db::open(&cairn_db::OpenRequest {
        path: DB.as_ref(),
        options: &DbOptions::default(),
        families: &[],
        others: Some(&FamilyOptions::default()),
        read_only: true,
        world: world.clone(),
    });
    let db = db.unwrap();
    let id = back_up(&engine, &db);
    assert!(restored(&world, &engine, id) == state);
    engine.verify_backup(1, true).unwrap();
}

/// Some programs pass the directory of the database.
#[test]
fn backups_may_be_in_the_directory_of_the_database() {
    let world = World::in_memory();
    let db = open(&world);
    put(&db, 0, 100);
    let engine = BackupEngine::open(&world, &BackupEngineOptions::new(DB)).unwrap();
    let id = back_up(&engine, &db);
    let state = entries(&db);
    put(&db, 100, 200);
    assert!(restored(&world, &engine, id) == state);
    db.close().unwrap();
    drop(db);
    let dir = Path::new(DB);
    engine
        .restore_db_from_latest_backup(dir, dir, &RestoreOptions::default())
        .unwrap();
    let db = open(&world);
    assert!(entries(&db) == state);
    engine.verify_backup(id, true).unwrap();
    assert_eq!(back_up(&engine, &db), 2);
    engine.garbage_collect().unwrap();
    engine.verify_backup(2, true).unwrap();
}

/// A log that keeps its lines.
#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl LogSink for Lines {
    fn log(&self, level: Level, message: &str) {
        self.0.lock().push(format!("{level:?} {message}"));
    }

    fn level(&self) -> Level {
        Level::Info
    }
}

#[test]
fn operations_and_their_outcomes_are_logged() {
    let world = World::in_memory();
    let lines = Arc::new(Lines::default());
    let options = BackupEngineOptions {
        info_log: Some(lines.clone()),
        ..BackupEngineOptions::new(BACKUPS)
    };
    let logged = |level: &str, text: &str| {
        let lines = lines.0.lock();
        let fits = |line: &&String| line.starts_with(level) && line.contains(text);
        lines.iter().filter(fits).count() == 1
    };
    let db = open(&world);
    put(&db, 0, 10);
    let engine = BackupEngine::open(&world, &options).unwrap();
    assert!(logged("Info", "has 0 valid backups"));
    let id = back_up(&engine, &db);
    assert!(logged("Info", "the creation of a backup begins"));
    assert!(logged("Info", "the creation of a backup succeeded"));
    let files = engine.backup(id).unwrap().number_files;
    assert!(logged("Info", &format!("backup 1 has {files} files")));
    engine.verify_backup(id, true).unwrap();
    assert!(logged("Info", "the verification of backup 1 succeeded"));
    engine.delete_backup(7).unwrap_err();
    assert!(logged("Error", "the deletion of backup 7 failed"));
    let restored = Path::new("/restored");
    engine
        .restore_db_from_latest_backup(restored, restored, &RestoreOptions::default())
        .unwrap();
    assert!(logged("Info", "the newest backup to /restored succeeded"));
    engine.purge_old_backups(0).unwrap();
    engine.garbage_collect().unwrap();
    assert!(logged("Info", "but the newest 0 backups succeeded"));
    assert!(logged("Info", "the removal of unlisted files succeeded"));
}

#[test]
fn callbacks_may_not_change_any_engine_whose_operations_wait_for_them() {
    let world = World::in_memory();
    let db = open(&world);
    put(&db, 0, 100);
    let first = Arc::new(engine(&world));
    let options = BackupEngineOptions::new("/other");
    let second = Arc::new(BackupEngine::open(&world, &options).unwrap());
    assert_eq!((back_up(&first, &db), back_up(&second, &db)), (1, 1));
    let codes: Arc<Mutex<Vec<Code>>> = Arc::default();
    let note = |engine: &Arc<BackupEngine>| {
        let (engine, codes) = (engine.clone(), codes.clone());
        move || {
            for refused in [engine.delete_backup(1), engine.garbage_collect()] {
                codes.lock().push(refused.unwrap_err().code());
            }
        }
    };
    let change_second = note(&second);
    let restore = RestoreOptions {
        alternate_dirs: vec![&second],
        progress: Some(Arc::new(move |_| change_second())),
        ..RestoreOptions::default()
    };
    first
        .restore_db_from_backup(1, RESTORED.as_ref(), RESTORED.as_ref(), &restore)
        .unwrap();
    // The callback of a backup creates another backup, whose callback is in the operations of both engines.
    let change_first = note(&first);
    let inner = CreateBackupOptions {
        progress: Some(Arc::new(move |_| change_first())),
        ..CreateBackupOptions::default()
    };
    let (database, other) = (db.clone(), second.clone());
    let outer = CreateBackupOptions {
        progress: Some(Arc::new(move |_| {
            other.create_new_backup(&database, &inner).unwrap();
        })),
        ..CreateBackupOptions::default()
    };
    first.create_new_backup(&db, &outer).unwrap();
    let codes = codes.lock();
    assert!(codes.len() >= 4 && codes.iter().all(|code| *code == Code::Busy));
}

/// A listener that changes the backups at the beginning of each flush.
struct Collector {
    engine: Arc<BackupEngine>,
    outcomes: Arc<Mutex<Vec<Option<Code>>>>,
}

impl EventListener for Collector {
    fn on_flush_begin(&self, _: &FlushJobInfo) {
        let outcome = self.engine.garbage_collect();
        let code = outcome.err().map(|error| error.code());
        self.outcomes.lock().push(code);
    }
}

/// Regression: a backup waited for its flush, whose listener waited for the backup.
#[test]
fn a_listener_does_not_wait_for_the_backup_that_waits_for_its_flush() {
    let world = World::in_memory();
    let engine = Arc::new(engine(&world));
    let outcomes: Arc<Mutex<Vec<Option<Code>>>> = Arc::default();
    let listener = Collector {
        engine: engine.clone(),
        outcomes: outcomes.clone(),
    };
    let mut options = DbOptions {
        create_if_missing: true,
        ..DbOptions::default()
    };
    options.listeners.push(Arc::new(listener));
    let db = cairn_db::open(&OpenRequest {
        path: DB.as_ref(),
        options: &options,
        families: &[],
        others: Some(&FamilyOptions::default()),
        read_only: false,
        world: world.clone(),
    })
    .unwrap();
    put(&db, 0, 10);
    let id = back_up_flushed(&engine, &db);
    engine.verify_backup(id, true).unwrap();
    assert_eq!(*outcomes.lock(), [Some(Code::Busy)]);
    put(&db, 10, 20);
    db.flush().unwrap();
    assert_eq!(*outcomes.lock(), [Some(Code::Busy), None]);
}
