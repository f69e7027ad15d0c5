//! Crashes at every file operation while transactions are prepared and decided: each transaction is afterwards as it was
//! acknowledged, completely, and an undecided one can be decided.

use std::collections::BTreeMap;

use std::time::Duration;

use cairn_options::{FamilyOptions, ReadOptions, WriteOptions};
use cairn_sim::images::MODELS;
use cairn_sim::{CrashModel, DiskImage, Fault, FaultPlan, FaultRule, SimWorld, Trigger};
use cairn_txn::{Transaction, TransactionDb, TransactionOptions, TransactionState, WritePolicy};
use cairn_types::Severity;

use crate::two_phase::{get, open_as, put};

/// A policy for each form of the logs: those of "unprepared" are the ones of "prepared".
const FORMS: [WritePolicy; 2] = [WritePolicy::Committed, WritePolicy::Prepared];

const TRANSACTIONS: u64 = 9;

/// The expected state of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Absent,
    Prepared,
    RolledBack,
    Committed,
}

/// The acknowledged change of a transaction, and the length of the trace before and after it.
struct Event {
    number: u64,
    stage: Stage,
    begin: usize,
    end: usize,
    sync: bool,
}

fn name(number: u64) -> Vec<u8> {
    format!("transaction {number}").into_bytes()
}

fn key(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// The key that the commit-time batch of a transaction writes.
fn commit_time_key(number: u64) -> Vec<u8> {
    format!("committed {number}").into_bytes()
}

fn options(number: u64) -> WriteOptions {
    WriteOptions {
        sync: number.is_multiple_of(2),
        // Markers are logged in any case.
        disable_wal: number % 4 == 3,
        ..WriteOptions::default()
    }
}

/// Begins a transaction that writes to two families and adds a bit of its own to a sum. About half of
/// the transactions are committed past the memtable.
fn begin(db: &TransactionDb, family: &cairn_db::Family, number: u64) -> Transaction {
    let past = TransactionOptions {
        commit_bypass_memtable: matches!(number, 1 | 4 | 5 | 8),
        ..TransactionOptions::default()
    };
    let mut txn = db.begin_with(&options(number), &past);
    txn.set_name(&name(number)).unwrap();
    txn.put(&key(number), b"1").unwrap();
    txn.put_in(family, &key(number), b"1").unwrap();
    // Not locked: several transactions add to the sum at a time.
    let sum = (1_u64 << number).to_le_bytes();
    txn.write_batch()
        .merge_in(txn.default_family(), b"sum", &sum);
    txn.commit_time_batch().put(&commit_time_key(number), b"1");
    txn
}

/// Prepares all transactions, and decides each after the next ones are prepared, with flushes in between. The last ones
/// stay undecided.
fn run(sim: &SimWorld, db: &TransactionDb, family: &cairn_db::Family) -> Vec<Event> {
    let mut events = Vec::new();
    let mut open: BTreeMap<u64, Transaction> = BTreeMap::new();
    let len = || sim.fs.trace().len();
    for number in 1..=TRANSACTIONS {
        let mut txn = begin(db, family, number);
        let begin = len();
        txn.prepare().unwrap();
        let sync = options(number).sync;
        let mut note = |number, stage, begin, sync| {
            events.push(Event {
                number,
                stage,
                begin,
                end: len(),
                sync,
            });
        };
        note(number, Stage::Prepared, begin, sync);
        open.insert(number, txn);
        if number % 3 == 0 {
            db.db().default_family().flush().unwrap();
        }
        if number % 4 == 0 {
            family.flush().unwrap();
        }
        let Some(mut oldest) = number
            .checked_sub(2)
            .and_then(|number| open.remove(&number))
        else {
            continue;
        };
        let number = number - 2;
        let begin = len();
        let stage = match number % 3 {
            0 => {
                oldest.rollback().unwrap();
                Stage::RolledBack
            }
            _ => {
                oldest.commit().unwrap();
                Stage::Committed
            }
        };
        note(number, stage, begin, options(number).sync);
        put(db, b"between", &key(number)).unwrap();
    }
    events
}

/// Returns the stage of each transaction in `db`. Its parts agree.
fn stages(db: &TransactionDb) -> BTreeMap<u64, Stage> {
    let family = db.db().family("f");
    let prepared: Vec<Vec<u8>> = {
        let all = db.db().prepared().unwrap();
        all.into_iter().map(|one| one.name).collect()
    };
    let sum = get(db.db(), b"sum").map_or(0, |sum| u64::from_le_bytes((*sum).try_into().unwrap()));
    let mut expected = 0;
    let stages = (1..=TRANSACTIONS).map(|number| {
        let visible = get(db.db(), &key(number)).is_some();
        let other = family
            .as_ref()
            .is_some_and(|f| f.get(&key(number)).unwrap().is_some());
        assert_eq!(visible, other, "transaction {number} is atomic");
        expected |= u64::from(visible) << number;
        let is_prepared = prepared.contains(&name(number));
        assert!(
            !(visible && is_prepared),
            "transaction {number} is committed once"
        );
        let stage = match (visible, is_prepared) {
            (true, _) => Stage::Committed,
            (false, true) => Stage::Prepared,
            (false, false) => Stage::Absent,
        };
        (number, stage)
    });
    let stages = stages.collect();
    assert_eq!(sum, expected, "each committed transaction is added once");
    stages
}

/// Checks that the transactions that the crashed process committed, and no others, have the writes of their commit-time
/// batches. `found` are the stages before any other decision.
fn check_commit_time(db: &TransactionDb, found: &BTreeMap<u64, Stage>) {
    for (&number, &stage) in found {
        let written = get(db.db(), &commit_time_key(number)).is_some();
        assert_eq!(
            written,
            stage == Stage::Committed,
            "transaction {number} is {stage:?}"
        );
    }
}

/// Checks the stages after a crash at `at`, up to which `durable` events were.
fn check(found: &BTreeMap<u64, Stage>, events: &[Event], at: usize, durable: usize) {
    for (&number, &found) in found {
        let own = |event: &&Event| event.number == number;
        let known = events[..durable]
            .iter()
            .filter(own)
            .map(|event| event.stage)
            .max();
        let begun = events.iter().filter(own).filter(|event| event.begin < at);
        let known = known.unwrap_or(Stage::Absent);
        let possible = begun
            .map(|event| event.stage)
            .max()
            .unwrap_or(Stage::Absent)
            .max(known);
        // A transaction that was rolled back has left nothing.
        let same = |stage| match stage {
            Stage::RolledBack => Stage::Absent,
            stage => stage,
        };
        let fits = [known, possible, Stage::Prepared]
            .into_iter()
            .any(|stage| known <= stage && stage <= possible && same(stage) == found);
        assert!(
            fits,
            "transaction {number} is {found:?} after a crash at {at}, between {known:?} and {possible:?}"
        );
    }
}

/// Crash models of common file systems, every second one, in turn from operation to operation. In the others, the end of a
/// MANIFEST may have bytes that are neither written nor zeros, which are damage.
fn usual_models(at: usize) -> impl Iterator<Item = CrashModel> {
    let is_usual = |model: &CrashModel| !matches!(model, CrashModel::Stale | CrashModel::Garbage);
    let usual = MODELS.into_iter().filter(is_usual);
    usual.skip(at % 2).step_by(2)
}

/// Opens the image, checks it, decides what is left, and checks that again after another opening.
fn take_over(policy: WritePolicy, image: DiskImage, events: &[Event], at: usize, durable: usize) {
    let sim = SimWorld::on(image, 1);
    let db = open_as(&sim.world, policy);
    let mut expected = stages(&db);
    check(&expected, events, at, durable);
    check_commit_time(&db, &expected);
    for mut txn in db.prepared_transactions() {
        assert_eq!(txn.state(), TransactionState::Prepared);
        let number = (1..=TRANSACTIONS)
            .find(|number| name(*number) == txn.name())
            .unwrap();
        assert!(put(&db, &key(number), b"2").is_err(), "its keys are locked");
        assert!(
            txn.get(&key(number), &ReadOptions::default())
                .unwrap()
                .is_some()
        );
        let stage = match number % 2 {
            0 => {
                txn.commit().unwrap();
                Stage::Committed
            }
            _ => {
                txn.rollback().unwrap();
                Stage::Absent
            }
        };
        expected.insert(number, stage);
    }
    assert!(db.lock_status().is_empty());
    assert_eq!(stages(&db), expected);
    db.db().close().unwrap();
    drop(db);
    let db = open_as(&sim.world, policy);
    assert_eq!(stages(&db), expected);
}

#[test]
fn transactions_are_what_was_acknowledged_after_a_crash() {
    FORMS.into_iter().for_each(crash_everywhere);
}

fn crash_everywhere(policy: WritePolicy) {
    let sim = SimWorld::new(3);
    let db = open_as(&sim.world, policy);
    let family = db.create_family("f", &FamilyOptions::default()).unwrap();
    let events = run(&sim, &db, &family);
    let trace = sim.fs.trace();
    let mut images = 0;
    for at in events[0].begin..=trace.len() {
        for model in usual_models(at) {
            let acknowledged = events.iter().take_while(|event| event.end <= at).count();
            let synced = events[..acknowledged].iter().rposition(|event| event.sync);
            let durable = match model.kernel_survives() {
                true => acknowledged,
                false => synced.map_or(0, |last| last + 1),
            };
            for image in trace.images(at, model, at as u64).take(1) {
                take_over(policy, image, &events, at, durable);
                images += 1;
            }
        }
    }
    assert!(images > 200, "{images} images");
}

/// A crash during the recovery leaves what was there before.
#[test]
fn an_interrupted_recovery_loses_no_prepared_transaction() {
    FORMS.into_iter().for_each(crash_in_recovery);
}

fn crash_in_recovery(policy: WritePolicy) {
    let sim = SimWorld::new(3);
    let db = open_as(&sim.world, policy);
    let family = db.create_family("f", &FamilyOptions::default()).unwrap();
    let events = run(&sim, &db, &family);
    db.db().flush_wal(true).unwrap();
    let expected = stages(&db);
    let second = SimWorld::on(sim.fs.image(), 2);
    let again = open_as(&second.world, policy);
    assert_eq!(stages(&again), expected);
    let trace = second.fs.trace();
    let mut images = 0;
    for at in 0..=trace.len() {
        for model in usual_models(at) {
            for image in trace.images(at, model, at as u64).take(1) {
                take_over(policy, image, &events, usize::MAX, events.len());
                images += 1;
            }
        }
    }
    assert!(images > 50, "{images} images");
}

/// Prepares and decides transactions with one fault at operation `at`. Each is afterwards, and after a power failure, in
/// the state that was acknowledged, or in one of those that a failure leaves open. Returns `None` if the fault did not occur,
/// and whether the database had to be opened again.
fn run_with_fault(policy: WritePolicy, at: usize, fault: Fault, lasts: usize) -> Option<bool> {
    let sim = SimWorld::new(at as u64);
    let db = open_as(&sim.world, policy);
    let family = db.create_family("f", &FamilyOptions::default()).unwrap();
    let first = sim.fs.operations();
    sim.fs.set_plan(FaultPlan::new(vec![FaultRule {
        trigger: Trigger::Operation(first + at),
        fault,
        lasts,
    }]));
    let mut allowed: BTreeMap<u64, Vec<Stage>> = BTreeMap::new();
    let mut open: BTreeMap<u64, Transaction> = BTreeMap::new();
    let decide = |number: u64, txn: &mut Transaction| {
        let (decided, stage) = match number % 3 {
            0 => (txn.rollback(), Stage::Absent),
            _ => (txn.commit(), Stage::Committed),
        };
        match decided {
            Ok(()) => (true, vec![stage]),
            Err(_) => {
                assert_eq!(txn.state(), TransactionState::Prepared);
                (false, vec![Stage::Prepared, stage])
            }
        }
    };
    for number in 1..=TRANSACTIONS {
        let mut txn = begin(&db, &family, number);
        txn.set_write_options(WriteOptions {
            sync: true,
            ..WriteOptions::default()
        });
        match txn.prepare() {
            Ok(()) => {
                allowed.insert(number, vec![Stage::Prepared]);
                open.insert(number, txn);
            }
            Err(_) => {
                allowed.insert(number, vec![Stage::Absent, Stage::Prepared]);
            }
        }
        if number % 3 == 0 {
            // The database handles failures of flushes.
            let _ = db.db().default_family().flush();
        }
        if number % 4 == 0 {
            let _ = family.flush();
        }
        let oldest = number.saturating_sub(2);
        if let Some(txn) = open.get_mut(&oldest) {
            let (decided, stages) = decide(oldest, txn);
            allowed.insert(oldest, stages);
            if decided {
                open.remove(&oldest);
            }
        }
        sim.executor.run(2);
    }
    let met = sim.fs.injected() > 0;
    sim.fs.set_plan(FaultPlan::default());
    for _ in 0..60 {
        sim.clock.advance(Duration::from_secs(1));
        sim.executor.run(1_000);
    }
    let case = format!("{policy:?}, {fault:?} at {at} for {lasts}");
    let error = db.db().background_error_state();
    let in_doubt = allowed
        .values()
        .any(|stages| stages.len() == 2 && stages[0] == Stage::Prepared);
    assert!(error.is_none() || in_doubt, "{case}: {error:?}");
    if let Some(error) = &error {
        assert_eq!(error.severity, Severity::Fatal, "{case}: {error:?}");
        let refused = put(&db, b"between", b"1").unwrap_err();
        let helps = refused.text().contains("open the database again");
        assert!(helps, "{case}: {refused}");
    }
    if error.is_none() {
        // Decisions that failed succeed now.
        for number in 1..TRANSACTIONS - 1 {
            if let Some(txn) = open.get_mut(&number) {
                let (decided, stages) = decide(number, txn);
                assert!(decided, "{case}: transaction {number}");
                allowed.insert(number, stages);
                open.remove(&number);
            }
        }
        put(&db, b"between", b"1").unwrap();
        db.db().default_family().flush().unwrap();
    }
    let check = |db: &TransactionDb, when: &str| {
        let found = stages(db);
        for (number, stages) in &allowed {
            let found = found[number];
            assert!(
                stages.contains(&found),
                "{case}, {when}: transaction {number} is {found:?}, not {stages:?}"
            );
        }
        found
    };
    db.db().flush_wal(true).unwrap_or_default();
    let trace = sim.fs.trace();
    let images = trace.images(trace.len(), CrashModel::Synced, 0).take(1);
    for image in images {
        let cut = SimWorld::on(image, 1);
        let again = open_as(&cut.world, policy);
        let mut expected = check(&again, "after a power failure");
        check_commit_time(&again, &expected);
        for mut txn in again.prepared_transactions() {
            let number = (1..=TRANSACTIONS).find(|number| name(*number) == txn.name());
            txn.commit().unwrap();
            expected.insert(number.unwrap(), Stage::Committed);
        }
        again.db().close().unwrap();
        drop(again);
        assert_eq!(stages(&open_as(&cut.world, policy)), expected, "{case}");
    }
    met.then_some(error.is_some())
}

#[test]
fn a_fault_at_any_operation_loses_no_decision() {
    let (mut faults, mut reopened) = (0, 0);
    for policy in FORMS {
        for fault in [Fault::InputOutput, Fault::NoSpace, Fault::ShortWrite] {
            // Each operation fails once or for long.
            for (first, lasts) in [1, 9].into_iter().enumerate() {
                let mut at = first;
                while let Some(reopens) = run_with_fault(policy, at, fault, lasts) {
                    at += 2;
                    faults += 1;
                    reopened += u32::from(reopens);
                }
            }
        }
    }
    assert!(faults > 200, "{faults} faults");
    // Only failed syncs leave doubt about what a log has.
    assert!(reopened < faults / 6, "{reopened} of {faults}");
}

#[test]
fn a_decision_on_a_full_disk_is_repeated_or_changed_once_there_is_space() {
    for policy in FORMS {
        for commits in [false, true] {
            let sim = SimWorld::new(1);
            let db = open_as(&sim.world, policy);
            db.create_family("f", &FamilyOptions::default()).unwrap();
            let family = db.db().family("f").unwrap();
            let mut txn = begin(&db, &family, 2);
            txn.prepare().unwrap();
            let before = sim.fs.trace().len();
            let full = FaultRule {
                trigger: Trigger::Operation(sim.fs.operations()),
                fault: Fault::NoSpace,
                lasts: 3,
            };
            sim.fs.set_plan(FaultPlan::new(vec![full]));
            // Regression: a commit or rollback on a full disk required opening the database again.
            assert!(txn.commit().is_err(), "{policy:?}");
            for _ in 0..60 {
                sim.clock.advance(Duration::from_secs(1));
                sim.executor.run(1_000);
            }
            let stage = match commits {
                true => txn.commit().map(|()| Stage::Committed),
                false => txn.rollback().map(|()| Stage::Absent),
            };
            let stage = stage.unwrap();
            db.db().flush_wal(true).unwrap();
            assert_eq!(stages(&db)[&2], stage, "{policy:?}");
            let trace = sim.fs.trace();
            let allowed = [Stage::Prepared, stage];
            for at in before..=trace.len() {
                let allowed = match at < trace.len() {
                    true => &allowed[..],
                    false => &allowed[1..],
                };
                for image in trace.images(at, CrashModel::Synced, 0).take(1) {
                    let again = open_as(&SimWorld::on(image, 1).world, policy);
                    let found = stages(&again)[&2];
                    assert!(allowed.contains(&found), "{policy:?} at {at}: {found:?}");
                }
            }
        }
    }
}
