//! Compactions that cannot read or write: writes go on without the tables, or get the error instead of waiting for ever.

use cairn_db::Db;
use cairn_options::FamilyOptions;
use cairn_sim::trace::Call;
use cairn_sim::{Fault, FaultPlan, SimWorld};
use cairn_types::{Code, Error, Subcode};

use super::basic::{db_options, small};
use super::errors::{failing, get, of_kind, open_on, the_table, wait_a_minute};

/// Options with which writes stop soon if compactions fail.
fn soon_stopped() -> FamilyOptions {
    FamilyOptions {
        level0_file_num_compaction_trigger: 2,
        level0_slowdown_writes_trigger: 6,
        level0_stop_writes_trigger: 8,
        ..small()
    }
}

/// Returns a database whose level 0 stops writes once it is to be compacted.
fn with_full_level_zero() -> (SimWorld, Db) {
    let sim = SimWorld::new(8);
    let family = FamilyOptions {
        disable_auto_compactions: true,
        ..soon_stopped()
    };
    let db = open_on(&sim, &db_options(), &family).expect("it opens");
    for n in 0..8_u8 {
        db.put(b"a", &[n]).expect("nothing fails here");
        db.put(b"b", &[n]).expect("nothing fails here");
        db.flush().expect("nothing fails here");
    }
    (sim, db)
}

/// Lets compactions begin.
fn compact_from_now_on(db: &Db) {
    db.default_family()
        .set_options(&[("disable_auto_compactions", "false")])
        .expect("a dynamic option");
}

/// Overwrites a key forty times, a minute and a flush apart. Returns the errors of the writes.
fn write_and_wait(sim: &SimWorld, db: &Db) -> Vec<Error> {
    let mut errors = Vec::new();
    for n in 0..40_u8 {
        errors.extend(db.put(b"b", &[n]).err());
        db.flush().expect("flushes succeed");
        wait_a_minute(sim);
    }
    errors
}

fn level_zero_files(db: &Db) -> u64 {
    let files = db.property("rocksdb.num-files-at-level0");
    files
        .and_then(|files| files.parse().ok())
        .expect("it is a number")
}

/// Writes and compacts for long, while compactions leave out one table.
fn goes_on_without_a_table(sim: &SimWorld, db: &Db) {
    assert_eq!(write_and_wait(sim, db), []);
    assert_eq!(db.background_error_state(), None);
    assert_eq!(db.damaged_tables().len(), 1);
    assert_eq!(get(db, b"b"), Some(vec![39]));
    assert!(level_zero_files(db) < 8);
}

/// Regression: the recovery from a full device forgot the failures of compactions, which were repeated every second, and writes
/// that waited for them never got the error.
#[test]
fn writes_do_not_wait_for_compactions_that_lack_space() {
    let (sim, db) = with_full_level_zero();
    sim.fs
        .set_plan(failing(Call::Create, ".sst", Fault::NoSpace, usize::MAX));
    compact_from_now_on(&db);
    wait_a_minute(&sim);
    // The delays between attempts grow.
    let failures = db.property("rocksdb.background-errors");
    let failures = failures.and_then(|count| count.parse::<u32>().ok());
    assert!(failures.is_some_and(|count| count < 12), "{failures:?}");
    let error = db.put(b"a", b"x").unwrap_err();
    assert!(error.to_string().contains("keep failing"), "{error}");
    assert_eq!(error.subcode(), Subcode::NoSpace);
    sim.fs.set_plan(FaultPlan::default());
    for _ in 0..3 {
        wait_a_minute(&sim);
    }
    assert!(level_zero_files(&db) < 8);
    assert_eq!(db.background_error_state(), None);
    db.put(b"a", b"y").unwrap();
    db.close().unwrap();
}

/// Regression: compactions of a table that was removed were retried for ever, until level 0 was full and writes waited.
#[test]
fn a_missing_table_does_not_stop_the_database() {
    let sim = SimWorld::new(8);
    let family = FamilyOptions {
        disable_auto_compactions: true,
        ..soon_stopped()
    };
    let db = open_on(&sim, &db_options(), &family).unwrap();
    db.put(b"a", b"1").unwrap();
    db.put(b"c", b"1").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    // It is not open.
    let db = open_on(&sim, &db_options(), &family).unwrap();
    sim.world.fs.remove(&the_table(&sim)).unwrap();
    compact_from_now_on(&db);
    goes_on_without_a_table(&sim, &db);
    db.close().unwrap();
}

/// Regression: compactions of a table that lies in an unreadable sector were retried for ever, and writes waited.
#[test]
fn an_unreadable_table_does_not_stop_the_database_and_is_compacted_when_it_can_be_read() {
    let sim = SimWorld::new(8);
    let db = open_on(&sim, &db_options(), &soon_stopped()).unwrap();
    db.put(b"a", &[1; 5000]).unwrap();
    db.put(b"c", &[2; 5000]).unwrap();
    db.flush().unwrap();
    let table = the_table(&sim);
    let name = table.file_name().unwrap().to_str().unwrap().to_owned();
    sim.fs
        .set_plan(failing(Call::Read, &name, Fault::InputOutput, usize::MAX));
    goes_on_without_a_table(&sim, &db);
    assert_eq!(db.damaged_tables()[0].error.code(), Code::IoError);

    sim.fs.set_plan(FaultPlan::default());
    assert_eq!(write_and_wait(&sim, &db), []);
    assert!(db.damaged_tables().is_empty());
    assert!(sim.fs.image().files().all(|(path, _)| path != table));
    assert_eq!(get(&db, b"a"), Some(vec![1; 5000]));
    db.close().unwrap();
}

/// Regression: compactions that collect garbage of a blob file that was removed were retried for ever, and writes waited.
#[test]
fn a_missing_blob_file_does_not_stop_the_database() {
    let sim = SimWorld::new(8);
    let family = FamilyOptions {
        enable_blob_files: true,
        min_blob_size: 100,
        enable_blob_garbage_collection: true,
        blob_garbage_collection_age_cutoff: 1.0,
        ..soon_stopped()
    };
    let db = open_on(&sim, &db_options(), &family).unwrap();
    db.put(b"a", &[1; 5000]).unwrap();
    db.put(b"c", &[2; 5000]).unwrap();
    db.flush().unwrap();
    sim.world.fs.remove(&of_kind(&sim, "blob")[0]).unwrap();
    goes_on_without_a_table(&sim, &db);
    db.close().unwrap();
}

/// Regression: writes waited for ever for compactions that could not write their outputs.
#[test]
fn writes_that_wait_for_compactions_get_their_error_if_they_keep_failing() {
    stopped_while(|| failing(Call::Create, ".sst", Fault::Denied, usize::MAX));
}

#[test]
fn writes_that_wait_for_compactions_get_their_error_if_no_table_can_be_read() {
    stopped_while(|| failing(Call::Read, ".sst", Fault::InputOutput, usize::MAX));
}

/// Stops writes while the faults of `plan` occur in compactions, but not in flushes, and lets them end.
fn stopped_while(plan: impl Fn() -> FaultPlan) {
    let sim = SimWorld::new(8);
    let family = FamilyOptions {
        num_levels: 2,
        ..soon_stopped()
    };
    let db = open_on(&sim, &db_options(), &family).expect("nothing fails here");
    let hold = db.snapshot();
    for n in 0..8_u8 {
        // Flushes succeed, and compactions fail.
        db.put(b"b", &[n; 5000]).expect("nothing fails here");
        sim.fs.set_plan(FaultPlan::default());
        db.flush().expect("nothing fails here");
        sim.fs.set_plan(plan());
        sim.executor.run(1_000);
    }
    assert_eq!(level_zero_files(&db), 8);
    let error = db.put(b"c", b"1").expect_err("they are stopped");
    assert_eq!(error.code(), Code::IoError);
    let text = error.text();
    assert!(
        text.contains("compactions") && text.contains(".sst"),
        "{text}"
    );
    assert_eq!(db.background_error_state(), None);

    sim.fs.set_plan(FaultPlan::default());
    wait_a_minute(&sim);
    wait_a_minute(&sim);
    db.put(b"c", b"1").expect("nothing fails here");
    assert!(level_zero_files(&db) < 8);
    drop(hold);
    db.close().expect("nothing fails here");
}

#[test]
fn writes_get_the_damage_if_level_zero_is_full_of_damaged_tables() {
    let (sim, db) = with_full_level_zero();
    for table in of_kind(&sim, "sst") {
        sim.fs.flip_bit(&table, 20, 1).unwrap();
    }
    compact_from_now_on(&db);
    wait_a_minute(&sim);
    let mut flushed = 0;
    let error = loop {
        match db.put(b"c", b"1") {
            Err(error) => break error,
            Ok(()) => db.flush().unwrap(),
        }
        wait_a_minute(&sim);
        flushed += 1;
        assert!(flushed < 8, "writes proceed");
    };
    assert_eq!(error.code(), Code::Corruption);
    let text = error.text();
    assert!(text.contains("7 tables") && text.contains(".sst"), "{text}");
    // Writes of another family proceed.
    let other = db.create_family("other", &small()).unwrap();
    other.put(b"c", b"1").unwrap();
    db.close().unwrap();
}
