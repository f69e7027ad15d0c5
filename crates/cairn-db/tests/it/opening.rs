//! Opening with short reads, and with logs whose durable content is unknown.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use cairn_db::{Db, FamilyDescriptor, OpenRequest, open};
use cairn_options::{DbOptions, FamilyOptions, ReadOptions};
use cairn_platform::fs::FileMode;
use cairn_platform::{FileSystem, World};
use cairn_sim::trace::Call;
use cairn_sim::{DiskImage, Fault, FaultPlan, FaultRule, SimWorld, Trigger};
use cairn_types::{Code, Result};

use super::basic::{db_options, open_at, small};
use super::errors::{after_power_cut, failing, failure, get, open_on, synced};
use super::hooked_files::{Operation, hooked};
use super::wal::open_with;

/// A database with three families, whose content lies in the log.
fn three_families() -> Result<(DiskImage, DbOptions)> {
    let options = DbOptions {
        avoid_flush_during_shutdown: true,
        ..db_options()
    };
    let sim = SimWorld::new(3);
    let db = open_on(&sim, &options, &small())?;
    for name in ["stones", "trees"] {
        let family = db.create_family(name, &FamilyOptions::default())?;
        family.put(b"k", name.as_bytes())?;
    }
    db.put_with(b"k", b"default", &synced())?;
    drop(db);
    Ok((sim.fs.image(), options))
}

/// Regression: file names with numbers close to the maximum made the counter of file numbers wrap to zero.
#[test]
fn file_names_with_implausible_numbers_do_not_change_the_counter() {
    let (image, options) = three_families().unwrap();
    for name in ["18446744073709551615.sst", "4611686018427387903.blob"] {
        let sim = SimWorld::on(image.clone(), 5);
        let stray = Path::new("/db").join(name);
        let file = sim.world.fs.create(&stray, FileMode::default()).unwrap();
        file.append(b"stray").unwrap();
        file.close().unwrap();
        for _ in 0..2 {
            let db = open_on(&sim, &options, &small()).unwrap();
            assert_eq!(get(&db, b"k").as_deref(), Some(&b"default"[..]), "{name}");
            db.flush().unwrap();
            db.put(b"l", b"1").unwrap();
            db.close().unwrap();
        }
        assert!(
            sim.world.fs.exists(&stray).unwrap(),
            "it is not the database's"
        );
    }
    let sim = SimWorld::on(image, 5);
    let log = Path::new("/db/18446744073709551615.log");
    let file = sim.world.fs.create(log, FileMode::default()).unwrap();
    file.close().unwrap();
    let error = open_on(&sim, &options, &small()).err().unwrap();
    assert_eq!(error.code(), Code::Corruption, "{error}");
}

/// Makes the `number`th read short, and `lasts` reads from it on.
fn short_reads(number: usize, lasts: usize) -> FaultPlan {
    FaultPlan::new(vec![FaultRule {
        trigger: Trigger::Class {
            call: Call::Read,
            name_end: String::new(),
            count: number,
        },
        fault: Fault::ShortRead,
        lasts,
    }])
}

#[test]
fn a_short_read_is_continued() {
    let (image, options) = three_families().unwrap();
    let mut reads = 0;
    loop {
        let sim = SimWorld::on(image.clone(), 4);
        sim.fs.set_plan(short_reads(reads, 1));
        let db = open_on(&sim, &options, &small()).unwrap();
        if sim.fs.injected() == 0 {
            break;
        }
        reads += 1;
        sim.fs.set_plan(FaultPlan::default());
        for name in ["default", "stones", "trees"] {
            let family = db.family(name).expect("every family is there");
            let found = family.get(b"k").unwrap().expect("the log was read whole");
            assert_eq!(&*found, name.as_bytes(), "short read {reads}");
        }
    }
    // At least CURRENT, the MANIFEST, a log, and IDENTITY.
    assert!(reads >= 4, "{reads} reads");
}

#[test]
fn a_file_that_cannot_be_read_to_its_end_is_an_error() {
    let (image, options) = three_families().unwrap();
    let mut refused = 0;
    for number in 0.. {
        let sim = SimWorld::on(image.clone(), 5);
        sim.fs.set_plan(short_reads(number, usize::MAX));
        let opened = open_on(&sim, &options, &small());
        if sim.fs.injected() == 0 {
            break;
        }
        let error = opened.err().expect("something was not read");
        assert_eq!(error.code(), Code::IoError, "{error}");
        refused += 1;
        // The files are unchanged.
        sim.fs.set_plan(FaultPlan::default());
        let db = open_on(&sim, &options, &small()).unwrap();
        assert_eq!(db.families().len(), 3);
        assert_eq!(get(&db, b"k"), Some(b"default".to_vec()));
    }
    assert!(refused >= 4, "{refused} openings were refused");
}

/// Data that a failed sync could not write stays readable and is lost in a power failure, even if the log is
/// synced again.
#[test]
fn logs_kept_by_an_opening_are_rewritten() {
    for fault in [Fault::InputOutput, Fault::SyncReverted] {
        let options = DbOptions {
            avoid_flush_during_recovery: true,
            avoid_flush_during_shutdown: true,
            track_and_verify_wals_in_manifest: true,
            ..db_options()
        };
        let sim = SimWorld::new(6);
        let db = open_on(&sim, &options, &small()).unwrap();
        db.put_with(b"a", b"1", &synced()).unwrap();
        sim.fs.set_plan(failing(Call::Sync, ".log", fault, 1));
        db.put_with(b"b", b"2", &synced()).unwrap_err();
        sim.fs.set_plan(FaultPlan::default());
        // Closing and opening does not reveal whether the sync succeeded.
        drop(db);
        let db = open_on(&sim, &options, &small()).unwrap();
        let doubtful = get(&db, b"b");
        db.put_with(b"c", b"3", &synced()).unwrap();
        drop(db);
        let db = open_on(&after_power_cut(&sim), &options, &small()).unwrap();
        assert_eq!(get(&db, b"a"), Some(b"1".to_vec()));
        assert_eq!(get(&db, b"b"), doubtful, "{fault}");
        assert_eq!(get(&db, b"c"), Some(b"3".to_vec()));
    }
}

#[test]
fn an_opening_lists_its_directory_once_and_still_cleans_it_up() {
    let sim = SimWorld::new(6);
    let open = || open_on(&sim, &db_options(), &small());
    for _ in 0..3 {
        let db = open().unwrap();
        db.put(b"a", b"1").unwrap();
        db.close().unwrap();
    }
    for left_by_a_crash in ["000001.sst", "000001.dbtmp", "000001.log"] {
        let path = Path::new("/db").join(left_by_a_crash);
        sim.fs.create(&path, FileMode::default()).unwrap();
    }
    let lists = || {
        let trace = sim.fs.trace();
        let lists = trace.operations().iter();
        lists.filter(|done| done.call == Call::List).count()
    };
    let before = lists();
    let db = open().unwrap();
    assert_eq!(lists() - before, 1);

    let names = sim.fs.list(Path::new("/db")).unwrap();
    let count = |part: &str| names.iter().filter(|name| name.contains(part)).count();
    assert_eq!(count("000001."), 0, "{names:?}");
    assert_eq!(
        [count(".log"), count("MANIFEST"), count("OPTIONS")],
        [1, 1, 2],
        "{names:?}"
    );
    assert_eq!(count("LOG.old"), 3, "{names:?}");
    assert_eq!(get(&db, b"a").as_deref(), Some(&b"1"[..]));
}

/// Opens a database with `reuse_manifest_on_open`.
fn reusing(sim: &SimWorld) -> Result<Db> {
    open_on(sim, &reuse_options(), &small())
}

fn reuse_options() -> DbOptions {
    DbOptions {
        reuse_manifest_on_open: true,
        ..db_options()
    }
}

/// Returns the content of CURRENT.
fn current(sim: &SimWorld) -> String {
    let image = sim.fs.image();
    let mut files = image.files();
    let found = files.find(|(path, _)| path.ends_with("CURRENT"));
    let (_, bytes) = found.expect("the database exists");
    String::from_utf8(bytes.to_vec()).expect("it is text")
}

#[test]
fn only_a_manifest_that_was_closed_is_reused() {
    let sim = SimWorld::new(1);
    let db = reusing(&sim).unwrap();
    let family = db.create_family("family", &small()).unwrap();
    db.put(b"flushed", b"1").unwrap();
    db.flush().unwrap();
    let first = current(&sim);
    drop(family);
    db.close().unwrap();
    drop(db);
    for round in 0..4_u8 {
        let db = reusing(&sim).unwrap();
        assert_eq!(current(&sim), first, "round {round}");
        // The flushes of the opening, later flushes, and those of the next opening.
        assert_eq!(get(&db, b"logged"), (round > 0).then(|| vec![round - 1]));
        db.put(&[round], b"1").unwrap();
        db.flush().unwrap();
        db.put_with(b"logged", &[round], &synced()).unwrap();
        db.close().unwrap();
        drop(db);
        let again = after_power_cut(&sim);
        let db = reusing(&again).unwrap();
        assert_eq!(get(&db, b"logged"), Some(vec![round]));
        assert_eq!(get(&db, b"flushed"), Some(b"1".to_vec()));
        assert!((0..=round).all(|key| get(&db, &[key]).is_some()));
        assert!(db.family("family").is_some());
        db.verify_checksum(&ReadOptions::default()).unwrap();
    }
    // Without changes: it is closed in the state in which it was opened.
    reusing(&sim).unwrap().close().unwrap();
    reusing(&sim).unwrap().close().unwrap();
    assert_eq!(current(&sim), first);
    // Without the option at the opening, and after a process that did not close the database.
    open_on(&sim, &db_options(), &small())
        .unwrap()
        .close()
        .unwrap();
    let second = current(&sim);
    assert_ne!(second, first);
    let db = reusing(&sim).unwrap();
    let third = current(&sim);
    assert_ne!(third, second, "it was not closed for reuse");
    db.put(b"a", b"1").unwrap();
    db.flush().unwrap();
    let crashed = SimWorld::on(sim.fs.image(), 5);
    drop(db);
    let db = reusing(&crashed).unwrap();
    assert_ne!(current(&crashed), third);
    assert_eq!(get(&db, b"a"), Some(b"1".to_vec()));
    db.close().unwrap();
    drop(db);
    // It exceeds the size limit of the option.
    let third = current(&crashed);
    let little = DbOptions {
        max_manifest_file_size: 1,
        max_manifest_space_amp_pct: 0,
        ..reuse_options()
    };
    let db = open_on(&crashed, &little, &small()).unwrap();
    assert_ne!(current(&crashed), third);
    assert_eq!(get(&db, b"a"), Some(b"1".to_vec()));
}

/// If the sync of the last record fails, the kernel marks its pages as clean, and a later sync would leave a
/// gap before records appended after it.
#[test]
fn a_last_record_that_was_not_synced_leaves_no_gap() {
    let sim = SimWorld::new(1);
    let db = reusing(&sim).unwrap();
    db.put(b"a", b"1").unwrap();
    db.flush().unwrap();
    let first = current(&sim);
    let manifest = first.trim().to_owned();
    sim.fs
        .set_plan(failing(Call::Sync, &manifest, Fault::InputOutput, 1));
    db.close().unwrap_err();
    drop(db);
    sim.fs.set_plan(FaultPlan::default());
    let db = reusing(&sim).unwrap();
    assert_eq!(current(&sim), first);
    db.put(b"b", b"2").unwrap();
    db.flush().unwrap();
    let again = after_power_cut(&sim);
    let db = reusing(&again).unwrap();
    assert_eq!(get(&db, b"a"), Some(b"1".to_vec()));
    assert_eq!(get(&db, b"b"), Some(b"2".to_vec()));
}

/// After any failure while a MANIFEST is reused, a new one replaces it.
#[test]
fn a_manifest_that_cannot_be_reused_is_replaced() {
    for call in [Call::Truncate, Call::Append, Call::Sync] {
        let sim = SimWorld::new(1);
        let db = reusing(&sim).unwrap();
        db.put(b"a", b"1").unwrap();
        db.flush().unwrap();
        db.put(b"b", b"2").unwrap();
        db.close().unwrap();
        drop(db);
        let first = current(&sim);
        let name = first.trim().to_owned();
        sim.fs.set_plan(failing(call, &name, Fault::InputOutput, 1));
        let db = reusing(&sim).unwrap();
        assert_eq!(sim.fs.injected(), 1, "{call:?}");
        assert_ne!(current(&sim), first, "{call:?}");
        let again = after_power_cut(&sim);
        for db in [db, reusing(&again).unwrap()] {
            assert_eq!(get(&db, b"a"), Some(b"1".to_vec()), "{call:?}");
            assert_eq!(get(&db, b"b"), Some(b"2".to_vec()), "{call:?}");
        }
    }
}

/// RocksDB opens them, too.
#[test]
fn a_missing_family_that_is_listed_twice_is_created_once() {
    let world = SimWorld::new(1).world;
    let families = ["default", "new", "new"];
    let families = families.map(|name| FamilyDescriptor::new(name, FamilyOptions::default()));
    let options = DbOptions {
        create_missing_column_families: true,
        ..db_options()
    };
    for _ in 0..2 {
        let db = open(&OpenRequest {
            path: Path::new("/db"),
            options: &options,
            families: &families,
            others: None,
            read_only: false,
            world: world.clone(),
        })
        .unwrap();
        let names: Vec<_> = db.families().iter().map(|f| f.name().to_owned()).collect();
        assert_eq!(names, ["default", "new"]);
    }
}

/// Regression: a read-only opening failed if the process that writes the database deleted a log meanwhile.
#[test]
fn a_read_only_opening_starts_again_if_the_database_changes() {
    let world = World::in_memory();
    let db = open_with(&world, &db_options(), false);
    db.put(b"a", b"1").unwrap();
    let openings = Arc::new(AtomicUsize::new(0));
    let reader = hooked(world.clone(), {
        let (db, fs, openings) = (db.clone(), world.fs.clone(), openings.clone());
        move |operation, path| {
            let is_log = path.extension().is_some_and(|kind| kind == "log");
            if operation != Operation::Open || !is_log || openings.fetch_add(1, SeqCst) >= 2 {
                return;
            }
            db.put(b"a", b"2").unwrap();
            db.flush().unwrap();
            // If the database has not removed it yet.
            let _ = fs.remove(path);
        }
    });
    let copy = open_with(&reader, &db_options(), true);
    assert_eq!(copy.get(b"a").unwrap().as_deref(), Some(&b"2"[..]));
    assert!(openings.load(SeqCst) > 2);
}

/// A read-only opening of the database in `/db`.
pub(super) fn read_only(world: &World, options: &DbOptions, families: &[&str]) -> Result<Db> {
    let families = families.iter();
    let families = families.map(|name| FamilyDescriptor::new(*name, FamilyOptions::default()));
    open(&OpenRequest {
        path: Path::new("/db"),
        options,
        families: &families.collect::<Vec<_>>(),
        others: None,
        read_only: true,
        world: world.clone(),
    })
}

/// Regression: a read-only opening was rejected with `error_if_exists`, which is about the creation of a database.
#[test]
fn a_read_only_opening_ignores_error_if_exists() {
    let world = World::in_memory();
    let db = open_with(&world, &db_options(), false);
    db.put(b"a", b"1").unwrap();
    // Best-efforts recovery reads no log.
    db.flush().unwrap();
    db.close().unwrap();
    for best_efforts_recovery in [false, true] {
        let options = DbOptions {
            error_if_exists: true,
            best_efforts_recovery,
            ..db_options()
        };
        let db = read_only(&world, &options, &["default"]).unwrap();
        assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    }
}

/// Regression: a read-only opening tried to create the families that are missing.
#[test]
fn a_read_only_opening_does_not_find_a_missing_family() {
    let world = World::in_memory();
    open_with(&world, &db_options(), false).close().unwrap();
    for create_missing_column_families in [false, true] {
        let options = DbOptions {
            create_missing_column_families,
            ..db_options()
        };
        let error = read_only(&world, &options, &["default", "new"]).map(drop);
        let error = error.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        assert!(
            error.text().contains("Column family not found: new"),
            "{error}"
        );
    }
}

/// Regression: an IDENTITY without a text prevented the opening of a database whose MANIFEST has no id.
#[test]
fn an_identity_without_a_text_is_replaced() {
    for damaged in [&b"\n"[..], b"\xff\xfe"] {
        let world = World::in_memory();
        let options = DbOptions {
            write_dbid_to_manifest: false,
            ..db_options()
        };
        open_with(&world, &options, false).close().unwrap();
        let path = Path::new("/db/IDENTITY");
        world.fs.remove(path).unwrap();
        let file = world.fs.create(path, FileMode::default()).unwrap();
        file.append(damaged).unwrap();
        file.close().unwrap();
        let db = open_with(&world, &options, false);
        let id = db.identity().to_owned();
        assert!(id.len() > 8, "{id:?}");
        db.close().unwrap();
        let db = open_with(&world, &options, false);
        assert_eq!(db.identity(), id);
    }
}

/// Regression: a database could not be created below a directory that may be searched and not read.
#[test]
fn the_directory_above_a_new_database_need_not_be_readable() {
    for (fault, may_open) in [(Fault::Denied, true), (Fault::InputOutput, false)] {
        let sim = SimWorld::new(3);
        sim.world.fs.create_dir_all(Path::new("/home")).unwrap();
        let request = OpenRequest {
            path: Path::new("/home/db"),
            options: &db_options(),
            families: &[],
            others: None,
            read_only: false,
            world: sim.world.clone(),
        };
        let above = || {
            sim.fs
                .set_plan(failing(Call::SyncDirectory, "home", fault, usize::MAX))
        };
        above();
        let opened = open(&request);
        assert_eq!(opened.is_ok(), may_open, "{fault}");
        sim.fs.set_plan(FaultPlan::default());
        let db = opened.or_else(|_| open(&request)).unwrap();
        db.put(b"a", b"1").unwrap();
        above();
        let copied = db.create_checkpoint(Path::new("/home/copy"), 0);
        assert_eq!(copied.is_ok(), may_open, "{fault}");
        let path = Path::new("/home/db/LOG");
        let file = sim.fs.open(path, FileMode::default()).unwrap();
        let mut log = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        file.read_up_to_end(0, &mut log).unwrap();
        let log = String::from_utf8_lossy(&log);
        for name in ["/home/db", "/home/copy"] {
            let warning = format!("the name of {name} may not survive a power failure");
            assert_eq!(log.contains(&warning), may_open, "{fault}: {log}");
        }
    }
}

/// Regression: an existing database could not be opened with a new directory of logs unless it could be created as well.
#[test]
fn a_new_directory_of_logs_is_created() {
    let world = World::in_memory();
    let db = open_with(&world, &db_options(), false);
    db.put(b"a", b"1").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let moved = DbOptions {
        create_if_missing: false,
        wal_dir: "/logs".into(),
        ..db_options()
    };
    let error = read_only(&world, &moved, &[]).map(drop).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(!world.fs.exists(Path::new("/logs")).unwrap());
    let db = open_with(&world, &moved, false);
    assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    db.put(b"b", b"2").unwrap();
    db.close().unwrap();
    let db = open_with(&world, &moved, false);
    assert_eq!(db.get(b"b").unwrap().as_deref(), Some(&b"2"[..]));
}

/// Regression: a read-only opening lacked the writes of a log that the process that writes the database deleted between the
/// reading of the MANIFEST and the listing of the logs.
#[test]
fn a_read_only_opening_does_not_miss_a_log_that_is_deleted_before_it_is_listed() {
    for wal_dir in ["", "/logs"] {
        let options = DbOptions {
            wal_dir: wal_dir.into(),
            ..db_options()
        };
        let world = World::in_memory();
        let db = open_with(&world, &options, false);
        db.put(b"a", b"1").unwrap();
        let listings = Arc::new(AtomicUsize::new(0));
        let reader = hooked(world.clone(), {
            let (db, listings) = (db.clone(), listings.clone());
            let logs = if wal_dir.is_empty() { "/db" } else { wal_dir };
            move |operation, path| {
                if operation == Operation::List
                    && path == Path::new(logs)
                    && listings.fetch_add(1, SeqCst) < 20
                {
                    db.flush().unwrap();
                    db.put(b"b", b"2").unwrap();
                }
            }
        });
        let copy = open_with(&reader, &options, true);
        assert_eq!(copy.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(copy.get(b"b").unwrap().as_deref(), Some(&b"2"[..]));
        assert!(listings.load(SeqCst) > 20);
    }
}

/// The recycled log of another process may be overwritten while it is read.
#[test]
fn a_read_only_opening_starts_again_if_a_recycled_log_may_have_been_overwritten() {
    for recycle_log_file_num in [0, 2] {
        let options = DbOptions {
            recycle_log_file_num,
            ..db_options()
        };
        let world = World::in_memory();
        let db = open_with(&world, &options, false);
        db.put(b"a", b"1").unwrap();
        let openings = Arc::new(AtomicUsize::new(0));
        let reader = hooked(world.clone(), {
            let (db, openings) = (db.clone(), openings.clone());
            move |operation, path| {
                let is_log = path.extension().is_some_and(|kind| kind == "log");
                if operation != Operation::Open || !is_log {
                    return;
                }
                if openings.fetch_add(1, SeqCst) == 0 {
                    // The log is kept for reuse.
                    db.disable_file_deletions().unwrap();
                    db.flush().unwrap();
                    db.put(b"b", b"2").unwrap();
                }
            }
        });
        let copy = open_with(&reader, &options, true);
        assert_eq!(copy.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(copy.get(b"b").unwrap().is_some(), recycle_log_file_num > 0);
    }
}

/// Regression: blob files were opened by the first read of a read-only database, when the process that writes it could have
/// deleted them.
#[test]
fn a_read_only_database_keeps_its_files() {
    let world = World::in_memory();
    let family = FamilyOptions {
        enable_blob_files: true,
        ..small()
    };
    let db = crate::basic::open_with(&world, &db_options(), &family).unwrap();
    db.put(b"a", b"in a blob file").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let reader = open_with(&world, &db_options(), true);
    let names = world.fs.list("/db".as_ref()).unwrap();
    let files = names
        .iter()
        .filter(|name| name.ends_with(".sst") || name.ends_with(".blob"));
    let removed = files.map(|name| world.fs.remove(&Path::new("/db").join(name)));
    assert_eq!(removed.collect::<Result<Vec<()>>>().unwrap().len(), 2);
    assert_eq!(
        reader.get(b"a").unwrap().as_deref(),
        Some(&b"in a blob file"[..])
    );
}

/// A file that is missing without a change of the database is reported.
#[test]
fn a_read_only_opening_without_a_table_fails_once() {
    let world = World::in_memory();
    let db = open_with(&world, &db_options(), false);
    db.put(b"a", b"1").unwrap();
    db.flush().unwrap();
    let tables = db.live_files_metadata();
    let table = Path::new("/db").join(&tables[0].relative_filename);
    db.close().unwrap();
    world.fs.remove(&table).unwrap();
    let attempts = Arc::new(AtomicUsize::new(0));
    let reader = hooked(world.clone(), {
        let attempts = attempts.clone();
        move |operation, path| {
            if operation == Operation::Open && path.ends_with("CURRENT") {
                attempts.fetch_add(1, SeqCst);
            }
        }
    });
    let opened = open(&OpenRequest {
        path: Path::new("/db"),
        options: &db_options(),
        families: &[],
        others: None,
        read_only: true,
        world: reader,
    });
    assert!(opened.is_err());
    // The attempt reads it, and so does each look at whether the database has changed: before, in and after the attempt.
    assert_eq!(attempts.load(SeqCst), 4);
}

/// Regression: an opening failed at a directory with the name of a file to delete.
#[test]
fn a_directory_with_the_name_of_an_obsolete_file_is_kept() {
    let world = World::in_memory();
    let places = ["/db/000200.dbtmp", "/db/000010.sst", "/db/MANIFEST-000099"];
    open_at(&world, &[]).unwrap().put(b"k", b"v").unwrap();
    for place in places {
        world.fs.create_dir_all(Path::new(place)).unwrap();
    }
    for _ in 0..2 {
        let db = open_at(&world, &[]).unwrap();
        assert!(db.get(b"k").unwrap().is_some());
        db.flush().unwrap();
        db.close().unwrap();
    }
    for place in places {
        assert!(world.fs.exists(Path::new(place)).unwrap(), "{place}");
    }
}

/// Regression: an opening failed at an obsolete file that could not be deleted, and so did all later ones.
#[test]
fn an_obsolete_file_that_cannot_be_deleted_is_left_to_the_next_opening() {
    let sim = SimWorld::new(6);
    let open = || open_on(&sim, &db_options(), &small());
    for _ in 0..2 {
        let db = open().unwrap();
        db.put(b"a", b"0").unwrap();
        db.close().unwrap();
    }
    let stale = [
        "000001.log",
        "000001.sst.trash",
        "000400.sst",
        "000402.dbtmp",
        "MANIFEST-000401",
        "OPTIONS-000001",
    ];
    for name in stale {
        let path = Path::new("/db").join(name);
        sim.fs.create(&path, FileMode::default()).unwrap();
    }
    let denied = |name: &str| failure(Call::Remove, name, Fault::Denied, usize::MAX);
    let left = || {
        let names = sim.fs.list(Path::new("/db")).unwrap();
        let left = stale.iter();
        left.filter(|stale| names.iter().any(|name| name == *stale))
            .count()
    };
    for (before, value) in [(b"0", b"1"), (b"1", b"2")] {
        sim.fs.set_plan(FaultPlan::new(stale.map(denied).to_vec()));
        let db = open().unwrap();
        assert_eq!(left(), stale.len());
        assert_eq!(get(&db, b"a").as_deref(), Some(&before[..]));
        db.put(b"a", value).unwrap();
        db.flush().unwrap();
        db.close().unwrap();
    }
    sim.fs.set_plan(FaultPlan::default());
    let db = open().unwrap();
    assert_eq!(left(), 0);
    assert_eq!(get(&db, b"a").as_deref(), Some(&b"2"[..]));
}
