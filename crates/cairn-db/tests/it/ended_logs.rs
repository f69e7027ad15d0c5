//! Ended logs: when they are synced, and recovery of logs with a missing end.

use std::path::{Path, PathBuf};

use cairn_db::{Db, WriteBatch};
use cairn_format::names::FileName;
use cairn_options::{CompactRangeOptions, DbOptions, FamilyOptions, FlushOptions, WalRecoveryMode};
use cairn_platform::fs::FileMode;
use cairn_sim::trace::Call;
use cairn_sim::{Fault, SimWorld};
use cairn_types::{Code, FileNumber, KeyOrder};
use cairn_wal::{WalEvent, WalReader};

use super::basic::{db_options, small};
use super::errors::{after_power_cut, failing, get, open_on, synced};

/// Starts a new log without running any job.
fn switch(db: &Db) {
    db.flush_with(&FlushOptions {
        wait: false,
        allow_write_stall: true,
        ..FlushOptions::default()
    })
    .expect("no file fails");
}

fn log_of(db: &Db) -> FileNumber {
    let log = db.current_wal_file();
    log.expect("the database is open").log_number
}

fn path_of(log: FileNumber) -> PathBuf {
    Path::new("/db").join(FileName::Wal(log).to_string())
}

/// Returns the number of log syncs so far.
fn log_syncs(sim: &SimWorld) -> usize {
    let trace = sim.fs.trace();
    let of_logs = trace.operations().iter().filter(|operation| {
        operation.call == Call::Sync && operation.path.extension().is_some_and(|end| end == "log")
    });
    of_logs.count()
}

/// Returns the files of a process that ends with a batch in each of three logs, without flushing any
/// memtable; and the second log.
fn three_logs() -> (SimWorld, FileNumber) {
    let sim = SimWorld::new(1);
    let db = open_on(&sim, &db_options(), &several()).expect("no file fails");
    db.put(b"1", b"in the first log").expect("no file fails");
    switch(&db);
    let second = log_of(&db);
    db.put(b"2", b"in the second log").expect("no file fails");
    db.put(b"3", b"in the second log").expect("no file fails");
    switch(&db);
    db.put(b"4", b"in the third log").expect("no file fails");
    (SimWorld::on(sim.fs.image(), 2), second)
}

/// A log with only empty batches is needed as long as the MANIFEST says so: the next log is only valid if it
/// exists.
#[test]
fn a_log_of_empty_batches_outlives_compactions() {
    let sim = SimWorld::new(1);
    let db = open_on(&sim, &db_options(), &several()).expect("no file fails");
    for key in [b"1", b"2"] {
        db.put(key, b"in a table").expect("no file fails");
        db.flush().expect("no file fails");
    }
    let of_nothing = log_of(&db);
    db.write(&WriteBatch::new()).expect("no file fails");
    switch(&db);
    assert_ne!(log_of(&db), of_nothing);
    db.compact_range(None, None, &CompactRangeOptions::default())
        .expect("no file fails");
    db.put(b"3", b"in the last log").expect("no file fails");
    for world in [SimWorld::on(sim.fs.image(), 2), {
        db.close().expect("no file fails");
        SimWorld::on(sim.fs.image(), 3)
    }] {
        let db = open_on(&world, &db_options(), &several()).expect("no file fails");
        assert_eq!(db.dropped_at_recovery(), []);
        assert_eq!(get(&db, b"3").as_deref(), Some(&b"in the last log"[..]));
    }
}

/// A log of an earlier opening may have records without the number of their log, which would be taken for
/// records of a log that reuses its file.
#[test]
fn logs_of_an_earlier_opening_are_not_recycled() {
    let sim = SimWorld::new(1);
    let keeping = DbOptions {
        avoid_flush_during_shutdown: true,
        avoid_flush_during_recovery: true,
        ..db_options()
    };
    let db = open_on(&sim, &keeping, &several()).expect("no file fails");
    db.put(b"1", b"in the first log").expect("no file fails");
    db.close().expect("no file fails");

    let recycling = DbOptions {
        recycle_log_file_num: 2,
        ..keeping
    };
    let db = open_on(&sim, &recycling, &several()).expect("no file fails");
    db.delete_range(b"1", b"2").expect("no file fails");
    for _ in 0..4 {
        db.put(b"2", b"in a table").expect("no file fails");
        db.flush().expect("no file fails");
        let killed = SimWorld::on(sim.fs.image(), 2);
        let reopened = open_on(&killed, &recycling, &several()).expect("no file fails");
        assert_eq!(found(&reopened), "2");
    }
}

/// Options of families with several immutable memtables.
fn several() -> FamilyOptions {
    FamilyOptions {
        max_write_buffer_number: 8,
        ..small()
    }
}

fn recovering(mode: WalRecoveryMode) -> DbOptions {
    DbOptions {
        wal_recovery_mode: mode,
        ..db_options()
    }
}

fn found(db: &Db) -> String {
    let keys = ["1", "2", "3", "4"];
    let found = keys.iter().filter(|key| get(db, key.as_bytes()).is_some());
    found.copied().collect()
}

#[test]
fn a_log_that_was_never_synced_is_not_synced_when_it_ends() {
    let sim = SimWorld::new(1);
    let db = open_on(&sim, &db_options(), &small()).unwrap();
    db.put(b"a", b"1").unwrap();
    let (first, before) = (log_of(&db), log_syncs(&sim));
    db.flush().unwrap();
    db.flush_wal(false).unwrap();
    sim.executor.run(1_000);
    assert!(log_of(&db) > first);
    assert_eq!(log_syncs(&sim), before);
    assert_eq!(sim.fs.image().file(&path_of(log_of(&db))), Some(&[][..]));
    // A log that was synced once will be synced again.
    db.put_with(b"b", b"2", &synced()).unwrap();
    let before = log_syncs(&sim);
    db.flush().unwrap();
    sim.executor.run(1_000);
    assert!(log_syncs(&sim) > before);
}

#[test]
fn a_synced_write_makes_the_logs_before_it_durable() {
    let sim = SimWorld::new(1);
    let db = open_on(&sim, &db_options(), &several()).unwrap();
    for key in [b"1", b"2", b"3"] {
        db.put(key, b"not synced").unwrap();
        switch(&db);
    }
    assert_eq!(
        found(&open_on(&after_power_cut(&sim), &db_options(), &several()).unwrap()),
        ""
    );
    db.put_with(b"4", b"synced", &synced()).unwrap();
    let again = open_on(&after_power_cut(&sim), &db_options(), &several()).unwrap();
    assert_eq!(found(&again), "1234");
}

#[test]
fn a_sync_of_a_log_without_writes_makes_the_logs_before_it_durable() {
    let sim = SimWorld::new(1);
    let db = open_on(&sim, &db_options(), &several()).unwrap();
    db.put(b"1", b"not synced").unwrap();
    switch(&db);
    db.sync_wal().unwrap();
    let again = open_on(&after_power_cut(&sim), &db_options(), &several()).unwrap();
    assert_eq!(found(&again), "1");
}

#[test]
fn flushed_data_of_one_family_is_not_ahead_of_the_others() {
    let sim = SimWorld::new(1);
    let db = open_on(&sim, &db_options(), &several()).unwrap();
    let other = db.create_family("other", &several()).unwrap();
    db.put(b"1", b"of one family").unwrap();
    let mut batch = WriteBatch::new();
    batch.put_in(&other, b"2", b"of the other");
    batch.put(b"3", b"of one family");
    db.write(&batch).unwrap();
    db.default_family().flush().unwrap();
    let again = open_on(&after_power_cut(&sim), &db_options(), &several()).unwrap();
    let other = again.family("other").unwrap();
    assert_eq!(found(&again), "13");
    assert_eq!(
        other.get(b"2").unwrap().as_deref(),
        Some(&b"of the other"[..])
    );
}

#[test]
fn an_ended_log_that_cannot_be_synced_is_flushed_to_tables() {
    let sim = SimWorld::new(1);
    let db = open_on(&sim, &db_options(), &several()).unwrap();
    let other = db.create_family("other", &several()).unwrap();
    db.put(b"1", b"x").unwrap();
    let mut batch = WriteBatch::new();
    batch.put_in(&other, b"2", b"x");
    db.write(&batch).unwrap();
    sim.fs
        .set_plan(failing(Call::Sync, ".log", Fault::InputOutput, 1));
    switch(&db);
    db.put(b"3", b"x").unwrap();
    sim.executor.run(1_000);
    assert_eq!(sim.fs.injected(), 1);
    assert_eq!(
        db.background_error_state(),
        None,
        "the database has resumed"
    );
    db.put_with(b"4", b"x", &synced()).unwrap();
    let again = open_on(&after_power_cut(&sim), &db_options(), &several()).unwrap();
    let other = again.family("other").unwrap();
    assert_eq!(found(&again), "134");
    assert_eq!(other.get(b"2").unwrap().as_deref(), Some(&b"x"[..]));
    db.close().unwrap();
}

#[test]
fn recovery_stops_before_a_log_whose_predecessor_is_incomplete() {
    for (mode, expected) in [
        (WalRecoveryMode::PointInTimeRecovery, Some("12")),
        (WalRecoveryMode::TolerateCorruptedTailRecords, Some("12")),
        (WalRecoveryMode::SkipAnyCorruptedRecords, Some("124")),
        (WalRecoveryMode::AbsoluteConsistency, None),
    ] {
        let (sim, second) = three_logs();
        // Nothing follows the first record of the second log.
        let path = path_of(second);
        let bytes = sim.fs.image().file(&path).unwrap().to_vec();
        let whole = bytes
            .windows(6)
            .position(|six| six == b"3\x11in t")
            .unwrap()
            - 21;
        let file = sim
            .world
            .fs
            .open_overwrite(&path, Default::default())
            .unwrap();
        file.truncate(whole as u64).unwrap();
        file.close().unwrap();
        let opened = open_on(&sim, &recovering(mode), &several());
        let Some(expected) = expected else {
            let error = opened.map(drop).unwrap_err();
            assert_eq!(error.code(), Code::Corruption);
            assert!(error.text().contains("are missing"), "{error}");
            continue;
        };
        let db = opened.unwrap();
        assert_eq!(found(&db), expected, "{mode:?}");
        let dropped = db.dropped_at_recovery();
        assert!(dropped.iter().any(|part| part.file == path), "{dropped:?}");
        db.close().unwrap();
    }
}

#[test]
fn recovery_stops_before_a_log_whose_predecessor_is_missing() {
    let (sim, second) = three_logs();
    sim.world.fs.remove(&path_of(second)).unwrap();
    let db = open_on(&sim, &db_options(), &several()).unwrap();
    assert_eq!(found(&db), "1");
    db.put(b"3", b"goes on").unwrap();
    db.close().unwrap();
    let db = open_on(&sim, &db_options(), &several()).unwrap();
    assert_eq!(found(&db), "13");
}

#[test]
fn a_log_records_the_timestamp_size_of_a_family_created_later() {
    let sim = SimWorld::new(1);
    let stamped = FamilyOptions {
        comparator: KeyOrder::BytewiseU64Ts,
        ..several()
    };
    let db = open_on(&sim, &db_options(), &several()).unwrap();
    db.put(b"1", b"before the family").unwrap();
    let family = db.create_family("stamped", &stamped).unwrap();
    // The last statement of the log is not a record of a batch.
    switch(&db);
    db.put(b"2", b"in the second log").unwrap();
    let other = db.create_family("too", &stamped).unwrap();
    db.put(b"3", b"behind what is stated").unwrap();
    let log = log_of(&db);
    let mut reader =
        WalReader::open(&*sim.world.fs, &path_of(log), log, FileMode::default()).unwrap();
    let mut stated = Vec::new();
    loop {
        match reader.next().unwrap() {
            WalEvent::TimestampSizes(sizes) => stated.extend(sizes.iter()),
            WalEvent::End(_) => break,
            _ => {}
        }
    }
    assert_eq!(stated, [(family.id(), 8), (other.id(), 8)]);
}

#[test]
fn complete_logs_are_all_recovered_and_their_descriptions_are_not_writes() {
    let (sim, _) = three_logs();
    let options = DbOptions {
        avoid_flush_during_recovery: true,
        ..db_options()
    };
    let db = open_on(&sim, &options, &several()).unwrap();
    assert_eq!(found(&db), "1234");
    assert!(db.dropped_at_recovery().is_empty());
    let mut updates = db.updates_since(cairn_types::SequenceNumber(1)).unwrap();
    let mut seen = Vec::new();
    while updates.valid() {
        let (first, batch) = updates.batch().unwrap();
        seen.push((first.0, batch.count()));
        updates.next();
    }
    assert_eq!(seen, [(1, 1), (2, 1), (3, 1), (4, 1)]);
}
