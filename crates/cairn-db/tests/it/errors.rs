//! Failing files: the consequences for a database, and its recovery.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cairn_db::Db;
use cairn_observe::listener::BackgroundErrorRecoveryInfo;
use cairn_observe::statistics::{Statistics, StatsLevel, Ticker};
use cairn_observe::{BackgroundErrorReason, EventListener};
use cairn_options::{
    BottommostLevelCompaction, CompactRangeOptions, DbOptions, FamilyOptions, FlushOptions,
    ImportColumnFamilyOptions, WaitForCompactOptions, WalWriteMode, WriteOptions,
};
use cairn_platform::sync::{AtomicBool, Mutex, Ordering};
use cairn_platform::{Executor, World};
use cairn_sim::trace::Call;
use cairn_sim::{CrashModel, DiskImage, Fault, FaultPlan, FaultRule, SimWorld, Trigger};
use cairn_types::{Code, Error, Result, Severity, Subcode};

use super::basic::{db_options, open_with, small};
use super::callouts::within_bounds;

pub(super) fn open_on(sim: &SimWorld, options: &DbOptions, family: &FamilyOptions) -> Result<Db> {
    open_with(&sim.world, options, family)
}

pub(super) fn synced() -> WriteOptions {
    WriteOptions {
        sync: true,
        ..WriteOptions::default()
    }
}

/// The injected failures: operations of `call` on files with this suffix, `lasts` times.
pub(super) fn failing(call: Call, name_end: &str, fault: Fault, lasts: usize) -> FaultPlan {
    FaultPlan::new(vec![failure(call, name_end, fault, lasts)])
}

/// The rule of such a plan.
pub(super) fn failure(call: Call, name_end: &str, fault: Fault, lasts: usize) -> FaultRule {
    let trigger = Trigger::Class {
        call,
        name_end: name_end.to_owned(),
        count: 0,
    };
    FaultRule {
        trigger,
        fault,
        lasts,
    }
}

/// Lets background work proceed for a simulated minute.
pub(super) fn wait_a_minute(sim: &SimWorld) {
    for _ in 0..60 {
        sim.clock.advance(Duration::from_secs(1));
        sim.executor.run(1_000);
    }
}

pub(super) fn get(db: &Db, key: &[u8]) -> Option<Vec<u8>> {
    let found = db.get(key).expect("reads succeed");
    found.map(|value| value.to_vec())
}

pub(super) fn after_power_cut(sim: &SimWorld) -> SimWorld {
    let trace = sim.fs.trace();
    let image: DiskImage = trace
        .images(trace.len(), CrashModel::Synced, 0)
        .next()
        .expect("one image");
    SimWorld::on(image, 9)
}

/// Returns the names of the files.
fn names(sim: &SimWorld) -> Vec<String> {
    let image = sim.fs.image();
    let names = image
        .files()
        .filter_map(|(path, _)| path.file_name()?.to_str().map(str::to_owned));
    names.collect()
}

/// Returns the names of the MANIFESTs.
fn manifests(sim: &SimWorld) -> Vec<String> {
    let mut manifests = names(sim);
    manifests.retain(|name| name.starts_with("MANIFEST"));
    manifests
}

/// Returns the files of the database whose names end in `.kind`.
pub(super) fn of_kind(sim: &SimWorld, kind: &str) -> Vec<PathBuf> {
    let image = sim.fs.image();
    let paths = image.files().map(|(path, _)| path);
    paths
        .filter(|path| path.extension().is_some_and(|end| end == kind))
        .collect()
}

pub(super) fn the_table(sim: &SimWorld) -> PathBuf {
    of_kind(sim, "sst").remove(0)
}

#[test]
fn a_failed_sync_of_the_log_fails_the_write_and_the_database_resumes_with_a_new_log() {
    let sim = SimWorld::new(1);
    let db = open_on(&sim, &db_options(), &small()).unwrap();
    db.put_with(b"a", b"1", &synced()).unwrap();
    sim.fs
        .set_plan(failing(Call::Sync, ".log", Fault::InputOutput, 1));
    let error = db.put_with(b"b", b"2", &synced()).unwrap_err();
    assert_eq!(error.code(), Code::IoError);
    let state = db.background_error_state().expect("the log failed");
    assert_eq!(state.severity, Severity::Hard);
    assert_eq!(state.error, error);
    // The property is the number of failed jobs.
    assert_eq!(db.property_number("rocksdb.background-errors"), Some(0));
    assert_eq!(get(&db, b"a"), Some(b"1".to_vec()));
    let refused = db.put(b"c", b"3").unwrap_err();
    assert!(refused.text().contains(error.text()), "{refused}");

    sim.executor.run(1_000);
    assert_eq!(db.background_error_state(), None);
    db.put_with(b"d", b"4", &synced()).unwrap();
    let again = after_power_cut(&sim);
    for db in [db, open_on(&again, &db_options(), &small()).unwrap()] {
        assert_eq!(get(&db, b"a"), Some(b"1".to_vec()));
        assert_eq!(get(&db, b"b"), None);
        assert_eq!(get(&db, b"c"), None);
        assert_eq!(get(&db, b"d"), Some(b"4".to_vec()));
    }
}

#[test]
fn the_first_failed_write_is_not_recovered_by_resuming_even_with_nothing_to_flush() {
    let sim = SimWorld::new(2);
    let db = open_on(&sim, &db_options(), &small()).unwrap();
    sim.fs
        .set_plan(failing(Call::Sync, ".log", Fault::InputOutput, 1));
    db.put_with(b"never", b"1", &synced()).unwrap_err();
    db.resume().unwrap_err();
    sim.executor.run(1_000);
    db.put_with(b"a", b"2", &synced()).unwrap();
    for model in [CrashModel::Synced, CrashModel::All] {
        let trace = sim.fs.trace();
        let image = trace.images(trace.len(), model, 0).next().unwrap();
        let again = SimWorld::on(image, 3);
        let db = open_on(&again, &db_options(), &small()).unwrap();
        assert_eq!(get(&db, b"never"), None);
        assert_eq!(get(&db, b"a"), Some(b"2".to_vec()));
    }
}

#[test]
fn reads_succeed_while_the_device_is_full_and_writes_when_it_has_space() {
    let sim = SimWorld::new(3);
    let db = open_on(&sim, &db_options(), &small()).unwrap();
    sim.fs.set_capacity(200_000);
    let mut written = 0;
    let error = loop {
        let key = format!("key{written:05}");
        match db.put(key.as_bytes(), &[7; 500]) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        sim.executor.run(3);
    };
    assert_eq!(error.subcode(), Subcode::NoSpace, "{error}");
    wait_a_minute(&sim);
    db.put(b"still full", b"").unwrap_err();
    for n in 0..written {
        let key = format!("key{n:05}");
        assert_eq!(get(&db, key.as_bytes()).map(|value| value.len()), Some(500));
    }
    sim.fs.set_capacity(u64::MAX);
    wait_a_minute(&sim);
    assert_eq!(db.background_error_state(), None);
    db.put(b"again", b"").unwrap();
    db.close().unwrap();
    drop(db);
    assert_eq!(sim.fs.leaks(), Vec::<String>::new());
}

#[test]
fn a_failed_flush_keeps_its_memtable_and_is_retried() {
    for call in [Call::Create, Call::Append, Call::Sync] {
        let sim = SimWorld::new(4);
        let db = open_on(&sim, &db_options(), &small()).unwrap();
        db.put(b"a", b"1").unwrap();
        sim.fs
            .set_plan(failing(call, ".sst", Fault::InputOutput, usize::MAX));
        db.flush().unwrap_err();
        let state = db.background_error_state().unwrap();
        assert_eq!(state.severity, Severity::Hard);
        wait_a_minute(&sim);
        assert_eq!(get(&db, b"a"), Some(b"1".to_vec()));
        db.put(b"b", b"2").unwrap_err();
        sim.fs.set_plan(FaultPlan::default());
        wait_a_minute(&sim);
        db.put(b"b", b"2").unwrap();
        db.flush().unwrap();
        assert_eq!(get(&db, b"a"), Some(b"1".to_vec()));
    }
}

#[test]
fn a_requested_flush_neither_waits_for_a_retry_nor_returns_an_earlier_error() {
    for atomic_flush in [false, true] {
        let sim = SimWorld::new(5);
        let options = DbOptions {
            atomic_flush,
            ..db_options()
        };
        let db = open_on(&sim, &options, &small()).unwrap();
        let unlogged = WriteOptions {
            disable_wal: true,
            ..WriteOptions::default()
        };
        sim.fs
            .set_plan(failing(Call::Create, ".sst", Fault::Denied, usize::MAX));
        // Immutable memtables accumulate until writes would have to wait.
        for n in 0..4_u8 {
            db.put_with(&[n], b"1", &unlogged).unwrap();
            db.flush().unwrap_err();
            db.flush().unwrap_err();
        }
        let state = db.background_error_state().unwrap();
        assert_eq!(state.severity, Severity::Soft);
        sim.fs.set_plan(FaultPlan::default());
        db.flush().unwrap();
        assert_eq!(db.background_error_state(), None);
        let again = after_power_cut(&sim);
        let again = open_on(&again, &options, &small()).unwrap();
        assert!((0..4).all(|n| get(&again, &[n]).is_some()));
    }
}

#[test]
fn a_failed_manifest_is_replaced() {
    for call in [Call::Append, Call::Sync] {
        let sim = SimWorld::new(5);
        let db = open_on(&sim, &db_options(), &small()).unwrap();
        db.put(b"a", b"1").unwrap();
        let manifest = &manifests(&sim)[0];
        sim.fs
            .set_plan(failing(call, manifest, Fault::InputOutput, usize::MAX));
        db.flush().unwrap_err();
        wait_a_minute(&sim);
        assert_eq!(db.background_error_state(), None);
        db.put_with(b"b", b"2", &synced()).unwrap();
        let again = after_power_cut(&sim);
        let db = open_on(&again, &db_options(), &small()).unwrap();
        assert_eq!(get(&db, b"a"), Some(b"1".to_vec()));
        assert_eq!(get(&db, b"b"), Some(b"2".to_vec()));
    }
}

/// Regression: each attempt to replace a failed MANIFEST left a MANIFEST and the tables of a flush behind, until the next
/// opening.
#[test]
fn attempts_to_replace_a_failed_manifest_leave_no_files() {
    // CURRENT is not replaced, or it is unknown whether it is.
    for call in [Call::Create, Call::Sync, Call::Rename] {
        let sim = SimWorld::new(5);
        let db = open_on(&sim, &db_options(), &small()).unwrap();
        let left = || (manifests(&sim).len(), of_kind(&sim, "sst").len());
        db.put(b"a", b"1").unwrap();
        let manifest = &manifests(&sim)[0];
        let rule = |call, name_end: &str| FaultRule {
            trigger: Trigger::Class {
                call,
                name_end: name_end.to_owned(),
                count: 0,
            },
            fault: Fault::InputOutput,
            lasts: usize::MAX,
        };
        sim.fs.set_plan(FaultPlan::new(vec![
            rule(Call::Append, manifest),
            rule(call, ".dbtmp"),
        ]));
        db.flush().unwrap_err();
        wait_a_minute(&sim);
        assert!(db.background_error_state().is_some());
        if call != Call::Rename {
            // One of the first write, whose outcome is unknown.
            assert_eq!(left(), (1, 1), "{call:?}");
        }
        sim.fs.set_plan(FaultPlan::default());
        wait_a_minute(&sim);
        assert_eq!(db.background_error_state(), None);
        assert_eq!(left(), (1, 1), "{call:?}");
        assert!(of_kind(&sim, "dbtmp").is_empty());
        let again = after_power_cut(&sim);
        let db = open_on(&again, &db_options(), &small()).unwrap();
        assert_eq!(get(&db, b"a"), Some(b"1".to_vec()));
    }
}

/// Records the reasons of background errors.
#[derive(Default)]
struct Reasons(Mutex<Vec<BackgroundErrorReason>>);

impl EventListener for Reasons {
    fn on_background_error(&self, reason: BackgroundErrorReason, _: &mut Option<Error>) {
        self.0.lock().push(reason);
    }
}

#[test]
fn listeners_get_rocksdbs_reason_for_a_failed_manifest_write() {
    let flush = |db: &Db| db.flush();
    let family = |db: &Db| db.create_family("other", &small()).map(drop);
    let compaction = |db: &Db| db.compact_range(None, None, &CompactRangeOptions::default());
    type Work<'a> = &'a dyn Fn(&Db) -> Result<()>;
    let works: [(Work<'_>, BackgroundErrorReason); 3] = [
        (&flush, BackgroundErrorReason::ManifestWriteNoWal),
        (&compaction, BackgroundErrorReason::ManifestWrite),
        (&family, BackgroundErrorReason::ManifestWrite),
    ];
    for (work, expected) in works {
        let sim = SimWorld::new(5);
        let reasons = Arc::new(Reasons::default());
        let mut options = db_options();
        options.max_bgerror_resume_count = 0;
        options.listeners.push(reasons.clone());
        let db = open_on(&sim, &options, &small()).unwrap();
        for value in [b"1", b"2"] {
            db.put(b"a", value).unwrap();
            db.flush().unwrap();
        }
        if expected == BackgroundErrorReason::ManifestWriteNoWal {
            db.put(b"b", b"1").unwrap();
        }
        let manifest = &manifests(&sim)[0];
        sim.fs.set_plan(failing(
            Call::Append,
            manifest,
            Fault::InputOutput,
            usize::MAX,
        ));
        work(&db).unwrap_err();
        assert_eq!(*reasons.0.lock(), [expected]);
    }
}

#[test]
fn without_automatic_attempts_the_database_is_resumed_manually() {
    let sim = SimWorld::new(6);
    let options = DbOptions {
        max_bgerror_resume_count: 0,
        wal_write_mode: WalWriteMode::Plain,
        ..db_options()
    };
    let db = open_on(&sim, &options, &small()).unwrap();
    db.put(b"a", b"1").unwrap();
    sim.fs
        .set_plan(failing(Call::Append, ".log", Fault::InputOutput, 1));
    db.put(b"b", b"2").unwrap_err();
    wait_a_minute(&sim);
    db.put(b"b", b"2").unwrap_err();
    db.resume().unwrap();
    db.put(b"b", b"3").unwrap();
    assert_eq!(get(&db, b"b"), Some(b"3".to_vec()));
    assert_eq!(get(&db, b"a"), Some(b"1".to_vec()));
    db.close().unwrap();
}

#[test]
fn attempts_to_resume_are_counted() {
    let sim = SimWorld::new(7);
    let options = DbOptions {
        max_bgerror_resume_count: 3,
        ..db_options()
    };
    let db = open_on(&sim, &options, &small()).unwrap();
    db.put(b"a", b"1").unwrap();
    sim.fs.set_plan(failing(
        Call::Create,
        ".sst",
        Fault::InputOutput,
        usize::MAX,
    ));
    db.flush().unwrap_err();
    wait_a_minute(&sim);
    // The flush and three attempts.
    assert_eq!(sim.fs.injected(), 4);
    sim.fs.set_plan(FaultPlan::default());
    wait_a_minute(&sim);
    db.put(b"b", b"2").unwrap_err();
    db.resume().unwrap();
    db.put(b"b", b"2").unwrap();
}

/// Creates two tables in level 0, the older of which is damaged.
fn with_a_damaged_table(sim: &SimWorld, options: &DbOptions) -> Db {
    let db = open_on(sim, options, &small()).expect("nothing fails here");
    db.put(b"a", &[1; 5000]).expect("nothing fails here");
    db.put(b"b", &[2; 5000]).expect("nothing fails here");
    db.flush().expect("nothing fails here");
    sim.fs
        .flip_bit(&the_table(sim), 20, 1)
        .expect("nothing fails here");
    db.put(b"c", b"3").expect("nothing fails here");
    db.flush().expect("nothing fails here");
    db
}

/// Resets every background error.
struct Forgiving;

impl EventListener for Forgiving {
    fn on_background_error(&self, _: BackgroundErrorReason, error: &mut Option<Error>) {
        *error = None;
    }
}

pub(super) fn forgiving() -> DbOptions {
    let mut options = db_options();
    options.listeners.push(Arc::new(Forgiving));
    options
}

/// Options of a compaction that writes every table.
fn rewriting() -> CompactRangeOptions {
    CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    }
}

#[test]
fn damage_found_by_a_manual_compaction_stops_writes() {
    let sim = SimWorld::new(8);
    let db = with_a_damaged_table(&sim, &db_options());
    let error = db.compact_range(None, None, &rewriting()).unwrap_err();
    assert!(error.is_corruption(), "{error}");
    let state = db.background_error_state().expect("it was kept");
    assert_eq!(state.severity, Severity::Unrecoverable);
    assert_eq!(db.property_number("rocksdb.background-errors"), Some(1));
    db.put(b"d", b"4").unwrap_err();
    assert_eq!(get(&db, b"c"), Some(b"3".to_vec()));
    db.close().unwrap();
}

#[test]
fn a_failed_flush_that_was_reset_is_waited_for_once() {
    for lasts in [1, usize::MAX] {
        let sim = SimWorld::new(8);
        let db = open_on(&sim, &forgiving(), &small()).unwrap();
        db.put(b"a", b"1").unwrap();
        sim.fs
            .set_plan(failing(Call::Create, ".sst", Fault::InputOutput, lasts));
        let flushed = db.flush();
        assert_eq!(flushed.is_ok(), lasts == 1, "{flushed:?}");
        assert_eq!(db.background_error_state(), None);
        db.put(b"b", b"2").unwrap();
        let failed = db.property_number("rocksdb.background-errors");
        assert_eq!(failed, Some(if lasts == 1 { 1 } else { 2 }));
        db.close().unwrap_or_default();
    }
}

/// Waits for flushes and compactions.
fn wait_for_jobs(db: &Db) -> Result<()> {
    db.wait_for_compact(&WaitForCompactOptions::default())
}

/// Waits for flushes and compactions, and closes the database.
fn wait_and_close(db: &Db) -> Result<()> {
    db.wait_for_compact(&WaitForCompactOptions {
        close_db: true,
        ..WaitForCompactOptions::default()
    })
}

fn let_compact(db: &Db, compacts: bool) {
    let disabled = (!compacts).to_string();
    db.default_family()
        .set_options(&[("disable_auto_compactions", &disabled)])
        .expect("a dynamic option");
}

/// Regression: the wait succeeded although a compaction that had failed was still due.
#[test]
fn a_wait_for_compactions_returns_the_error_of_one_that_is_still_due() {
    for fault in [Fault::NoSpace, Fault::InputOutput] {
        let sim = SimWorld::new(34);
        let family = FamilyOptions {
            disable_auto_compactions: true,
            ..small()
        };
        let db = open_on(&sim, &db_options(), &family).unwrap();
        for n in 0..4_u8 {
            db.put(b"a", &[n]).unwrap();
            db.put(b"b", &[n]).unwrap();
            db.flush().unwrap();
        }
        let level_zero = || db.property("rocksdb.num-files-at-level0").unwrap();
        sim.fs
            .set_plan(failing(Call::Append, ".sst", fault, usize::MAX));
        let_compact(&db, true);
        let error = wait_for_jobs(&db).unwrap_err();
        assert_eq!(error.code(), Code::IoError, "{error}");
        let is_full = fault == Fault::NoSpace;
        assert_eq!(error.subcode() == Subcode::NoSpace, is_full, "{error}");
        assert_eq!(level_zero(), "4");
        db.put(b"c", b"1").unwrap();
        if !is_full {
            // It is not due any more.
            let_compact(&db, false);
            wait_for_jobs(&db).unwrap();
            let_compact(&db, true);
            wait_for_jobs(&db).unwrap_err();
        }
        sim.fs.set_plan(FaultPlan::default());
        wait_a_minute(&sim);
        wait_for_jobs(&db).unwrap();
        assert_eq!(level_zero(), "0");
        assert_eq!(db.background_error_state(), None);
        db.close().unwrap();
    }
}

/// Regression: the wait succeeded although a flush that had failed was still to be retried.
#[test]
fn a_wait_for_jobs_lasts_until_a_flush_that_was_reset_is_retried() {
    for lasts in [1, usize::MAX] {
        let sim = SimWorld::new(35);
        let db = open_on(&sim, &forgiving(), &small()).unwrap();
        db.put(b"a", b"1").unwrap();
        sim.fs
            .set_plan(failing(Call::Create, ".sst", Fault::InputOutput, lasts));
        let soon = FlushOptions {
            wait: false,
            ..FlushOptions::default()
        };
        db.flush_with(&soon).unwrap();
        assert_eq!(wait_for_jobs(&db).is_ok(), lasts == 1);
        let tables = of_kind(&sim, "sst").len();
        assert_eq!(tables, usize::from(lasts == 1));
        db.close().unwrap_or_default();
    }
}

/// Regression: the database was not closed.
#[test]
fn a_wait_that_closes_the_database_does_so_in_spite_of_an_error() {
    let sim = SimWorld::new(36);
    let db = open_on(&sim, &db_options(), &small()).unwrap();
    db.put(b"a", b"1").unwrap();
    sim.fs.set_plan(failing(
        Call::Append,
        ".sst",
        Fault::InputOutput,
        usize::MAX,
    ));
    db.flush().unwrap_err();
    let state = db.background_error_state().unwrap();
    assert_eq!(state.severity, Severity::Hard);
    wait_for_jobs(&db).unwrap_err();
    wait_and_close(&db).unwrap();
    let error = db.put(b"b", b"2").unwrap_err();
    assert_eq!(error.code(), Code::ShutdownInProgress, "{error}");
    sim.fs.set_plan(FaultPlan::default());
    let again = open_on(&sim, &db_options(), &small()).unwrap();
    assert_eq!(get(&again, b"a"), Some(b"1".to_vec()));
}

#[test]
fn a_wait_does_not_close_a_database_that_would_lose_writes() {
    let sim = SimWorld::new(37);
    let db = open_on(&sim, &db_options(), &small()).unwrap();
    let unlogged = WriteOptions {
        disable_wal: true,
        ..WriteOptions::default()
    };
    db.put_with(b"a", b"1", &unlogged).unwrap();
    sim.fs
        .set_plan(failing(Call::Append, ".sst", Fault::NoSpace, usize::MAX));
    for _ in 0..2 {
        let error = wait_and_close(&db).unwrap_err();
        assert_eq!(error.subcode(), Subcode::NoSpace, "{error}");
    }
    sim.fs.set_plan(FaultPlan::default());
    wait_a_minute(&sim);
    db.put_with(b"b", b"2", &unlogged).unwrap();
    wait_and_close(&db).unwrap();
    let again = open_on(&sim, &db_options(), &small()).unwrap();
    assert_eq!(get(&again, b"a"), Some(b"1".to_vec()));
    assert_eq!(get(&again, b"b"), Some(b"2".to_vec()));
}

#[test]
fn a_damaged_table_does_not_stop_the_database() {
    let sim = SimWorld::new(8);
    let db = with_a_damaged_table(&sim, &forgiving());
    let error = db.get(b"a").unwrap_err();
    assert!(error.is_corruption());
    assert!(error.text().contains(".sst"), "{error}");
    assert_eq!(get(&db, b"c"), Some(b"3".to_vec()));
    let error = db.compact_range(None, None, &rewriting()).unwrap_err();
    assert!(error.is_corruption(), "{error}");
    // Nothing was installed, no job is retried in a loop, and everything else proceeds.
    db.wait_until_quiet().unwrap();
    assert_eq!(db.background_error_state(), None);
    assert_eq!(get(&db, b"c"), Some(b"3".to_vec()));
    assert_eq!(get(&db, b"b").map(|value| value.len()), Some(5000));
    db.put(b"d", b"4").unwrap();
    db.flush().unwrap();
    db.compact_range(None, None, &rewriting()).unwrap_err();
    assert_eq!(db.damaged_tables().len(), 1);
    assert_eq!(get(&db, b"d"), Some(b"4".to_vec()));
    db.close().unwrap();
}

/// Writes, flushes and compacts with one fault at operation `at`. Returns true if the fault occurred.
fn run_with_fault(at: usize, fault: Fault, lasts: usize) -> bool {
    let sim = SimWorld::new(at as u64);
    let db = open_on(&sim, &db_options(), &small()).expect("nothing fails here");
    let first = sim.fs.operations();
    sim.fs.set_plan(FaultPlan::new(vec![FaultRule {
        trigger: Trigger::Operation(first + at),
        fault,
        lasts,
    }]));
    let mut acked: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut doubtful: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for n in 0..60_u32 {
        let key = format!("k{:02}", n % 20).into_bytes();
        let value = vec![n as u8; 40];
        match db.put_with(&key, &value, &synced()) {
            Ok(()) => {
                acked.insert(key, value);
            }
            Err(_) => doubtful.push((key, value)),
        }
        if n % 15 == 14 {
            // Failures of flushes and compactions are handled by the database, not by the workload.
            let _ = db.flush();
            let _ = db.compact_range(None, None, &CompactRangeOptions::default());
        }
        sim.executor.run(2);
    }
    let met = sim.fs.injected() > 0;
    let check = |db: &Db, when: &str| {
        for (key, value) in &acked {
            let found = get(db, key);
            let doubt = doubtful
                .iter()
                .any(|(k, v)| k == key && Some(v) == found.as_ref());
            assert!(
                found.as_ref() == Some(value) || doubt,
                "{fault:?} at {at} for {lasts}, {when}: {}: {found:?}",
                String::from_utf8_lossy(key),
            );
        }
    };
    sim.fs.set_plan(FaultPlan::default());
    check(&db, "after the fault");
    wait_a_minute(&sim);
    let error = db.background_error_state();
    assert_eq!(error, None, "{fault:?} at {at} for {lasts}");
    db.put_with(b"after", b"", &synced())
        .expect("nothing fails here");
    db.flush().expect("nothing fails here");
    check(&db, "after resuming");
    db.wait_until_quiet().expect("nothing fails here");
    let again = after_power_cut(&sim);
    let cut = open_on(&again, &db_options(), &small()).expect("nothing fails here");
    check(&cut, "after a power cut");
    assert!(get(&cut, b"after").is_some());
    drop(cut);
    db.close().expect("nothing fails here");
    drop(db);
    assert_eq!(sim.fs.leaks(), Vec::<String>::new(), "{fault:?} at {at}");
    met
}

#[test]
fn a_fault_at_any_operation_loses_nothing_and_is_recovered_from() {
    for fault in [Fault::InputOutput, Fault::NoSpace, Fault::ShortWrite] {
        for lasts in [1, 9] {
            let mut at = 0;
            while run_with_fault(at, fault, lasts) {
                at += 1 + at / 40;
            }
        }
    }
}

#[test]
fn a_delayed_attempt_keeps_no_closed_database_alive() {
    let sim = SimWorld::new(10);
    let db = open_on(&sim, &db_options(), &small()).unwrap();
    db.put(b"a", b"1").unwrap();
    sim.fs.set_plan(failing(
        Call::Create,
        ".sst",
        Fault::InputOutput,
        usize::MAX,
    ));
    db.flush().unwrap_err();
    sim.executor.run(10);
    assert!(sim.executor.delayed() > 0);
    db.close().unwrap();
    drop(db);
    while sim.executor.help_later() {}
    assert_eq!(sim.fs.leaks(), Vec::<String>::new());
}

#[test]
fn a_compaction_that_fails_repeatedly_waits_between_attempts() {
    let sim = SimWorld::new(12);
    let family = FamilyOptions {
        level0_file_num_compaction_trigger: 2,
        ..small()
    };
    let db = open_on(&sim, &db_options(), &family).unwrap();
    for _ in 0..2 {
        db.put(b"a", b"1").unwrap();
        db.put(b"z", b"1").unwrap();
        db.flush().unwrap();
        // Compactions can never read their inputs.
        sim.fs
            .set_plan(failing(Call::Read, ".sst", Fault::InputOutput, usize::MAX));
    }
    let before = sim.executor.completed();
    let error = db.wait_until_quiet().unwrap_err();
    assert_eq!(error.code(), Code::IoError);
    let jobs = sim.executor.completed() - before;
    assert!(jobs < 100, "{jobs} jobs until it was reported");
}

#[test]
fn families_that_cannot_be_recorded_in_the_options_file_exist() {
    let sim = SimWorld::new(31);
    let db = open_on(&sim, &db_options(), &small()).unwrap();
    db.put(b"k", b"v").unwrap();
    db.flush().unwrap();
    let export = db.export("/export".as_ref()).unwrap();
    let unsaved = |outcome: Result<()>, known: &str| {
        assert_eq!(sim.fs.injected(), 1);
        let error = outcome.unwrap_err();
        assert_eq!(error.code(), Code::IoError);
        assert!(error.text().contains(known), "{error}");
    };
    let break_next = || {
        let plan = failing(Call::Create, ".dbtmp", Fault::InputOutput, 1);
        sim.fs.set_plan(plan);
    };
    break_next();
    unsaved(db.create_family("new", &small()).map(drop), "exist");
    db.family("new")
        .expect("it exists")
        .put(b"a", b"1")
        .unwrap();

    break_next();
    let options = ImportColumnFamilyOptions::default();
    let exports = std::slice::from_ref(&export);
    let imported = db.create_family_with_import("in", &small(), &options, exports);
    unsaved(imported.map(drop), "exist");
    let family = db.family("in").expect("it exists");
    assert_eq!(family.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));

    break_next();
    let new = db.family("new").expect("it exists");
    unsaved(db.drop_family(&new), "is dropped");
    assert!(db.family("new").is_none());
    drop((family, new));
    db.close().unwrap();

    let db = open_on(&sim, &db_options(), &small()).unwrap();
    let family = db.family("in").expect("it exists");
    assert_eq!(family.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
    assert!(db.family("new").is_none());
}

/// Writes to the database that reports an error.
#[derive(Default)]
struct Writes {
    db: Mutex<Option<Db>>,
    begun: Mutex<Vec<Result<()>>>,
    ended: Mutex<Vec<Result<()>>>,
}

impl Writes {
    fn write(&self) -> Result<()> {
        let db = self.db.lock().clone().expect("it is open");
        db.put(b"listener", b"1")
            .and_then(|()| db.sync_wal())
            .and_then(|()| db.flush())
    }
}

impl EventListener for Writes {
    fn on_error_recovery_begin(&self, _: BackgroundErrorReason, _: &Error, _: &mut bool) {
        self.begun.lock().push(self.write());
    }
    fn on_error_recovery_end(&self, _: &BackgroundErrorRecoveryInfo) {
        self.ended.lock().push(self.write());
    }
}

#[test]
fn a_listener_of_recoveries_cannot_wait_for_its_own_thread() {
    let fails = |call: Call, name_end: &str, act: fn(&Db) -> Result<()>| {
        let sim = SimWorld::new(32);
        let listener = Arc::new(Writes::default());
        let mut options = db_options();
        options.listeners.push(listener.clone());
        let db = open_on(&sim, &options, &small()).unwrap();
        db.put(b"a", b"1").unwrap();
        *listener.db.lock() = Some(db.clone());
        sim.fs
            .set_plan(failing(call, name_end, Fault::InputOutput, 1));
        let error = act(&db).err();
        assert!(error.is_some(), "{call:?} {name_end}");
        wait_a_minute(&sim);
        let begun = listener.begun.lock();
        let refused = |result: &Result<()>| result.as_ref().is_err_and(|e| e.code() == Code::Busy);
        assert!(!begun.is_empty() && begun.iter().all(refused), "{begun:?}");
        let ended = listener.ended.lock();
        assert!(!ended.is_empty(), "{ended:?}");
        assert_eq!(db.background_error_state(), None);
        *listener.db.lock() = None;
    };
    within_bounds("listener".to_owned(), move || {
        fails(Call::Sync, ".log", |db| db.put_with(b"b", b"2", &synced()));
        fails(Call::Sync, ".log", Db::sync_wal);
        fails(Call::Create, ".log", |db| db.flush());
        fails(Call::Create, ".sst", |db| db.flush());
    });
}

/// Lets a write of another thread fail when the first recovery ends, and lets an attempt to resume from that begin.
struct FailsAtEnd {
    sim: SimWorld,
    statistics: Arc<Statistics>,
    db: Mutex<Option<Db>>,
    /// Set when the write has failed.
    has_failed: AtomicBool,
}

impl EventListener for FailsAtEnd {
    fn on_error_recovery_end(&self, _: &BackgroundErrorRecoveryInfo) {
        let Some(db) = self.db.lock().take() else {
            return;
        };
        let attempts = || {
            let ticker = Ticker::ErrorHandlerAutoresumeRetryTotalCount;
            self.statistics.ticker(ticker)
        };
        let before = attempts();
        // Ended logs may be synced in the background, too.
        let fails = failing(Call::Sync, ".log", Fault::InputOutput, usize::MAX);
        self.sim.fs.set_plan(fails);
        std::thread::scope(|scope| {
            let write = || db.put_with(b"b", b"1", &synced());
            scope.spawn(move || write().expect_err("the log fails"));
        });
        self.sim.fs.set_plan(FaultPlan::default());
        self.has_failed.store(true, Ordering::SeqCst);
        // If another thread is available.
        for _ in 0..10_000 {
            if attempts() > before {
                break;
            }
            std::thread::yield_now();
        }
    }
}

/// Regression: an attempt to resume that met the end of the previous recovery waited for a flush for ever.
#[test]
fn a_write_that_fails_while_a_recovery_ends_is_recovered_from() {
    within_bounds("recovery".to_owned(), || {
        let sim = SimWorld::new(33);
        let world = World {
            fs: sim.fs.clone(),
            ..World::in_memory()
        };
        let mut options = db_options();
        let statistics = Arc::new(Statistics::new(StatsLevel::All));
        options.statistics = statistics.clone().into();
        let listener = Arc::new(FailsAtEnd {
            sim,
            statistics,
            db: Mutex::new(None),
            has_failed: AtomicBool::new(false),
        });
        options.listeners.push(listener.clone());
        let db = open_with(&world, &options, &small()).unwrap();
        *listener.db.lock() = Some(db.clone());
        let fs = &listener.sim.fs;
        fs.set_plan(failing(Call::Sync, ".log", Fault::InputOutput, 1));
        db.put_with(b"a", b"1", &synced()).unwrap_err();
        let has_failed = || listener.has_failed.load(Ordering::SeqCst);
        while !has_failed() || db.background_error_state().is_some() {
            std::thread::yield_now();
        }
        db.put(b"a", b"2").unwrap();
        db.close().unwrap();
    });
}
