//! Histories of transactions: the entries of the indexes are those of the records at each step.

use std::thread;

use cairn_db::Column;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::*;

/// A write of one of the keys.
#[derive(Clone, Debug)]
enum Write {
    Put(u8, u8),
    /// The default column, `hue` and `name`, if present.
    Entity(u8, [Option<u8>; 3]),
    Shape(u8, u8),
    Delete(u8),
    /// Of a key that is put only when it is absent.
    Single(u8),
    Once(u8, u8),
    DeleteShape(u8),
}

/// A step of a history.
#[derive(Clone, Debug)]
enum Step {
    /// A write in one of the transactions; untracked if true.
    Write(usize, Write, bool),
    Plain(Write),
    Batch(Vec<Write>),
    SetSavePoint(usize),
    RollBackToSavePoint(usize),
    PopSavePoint(usize),
    SetSnapshot(usize),
    Indexing(usize, bool),
    Commit(usize),
    RollBack(usize),
    /// Commits after a prepare, or rolls back.
    Decide(usize, bool),
    Flush,
    Reopen,
}

/// Values of which some are prefixes of others; the last two are refused by the index of names.
const VALUES: [&[u8]; 7] = [b"", b"r", b"re", b"red", b"Blue", b"!no", b"!!"];

fn write() -> impl Strategy<Value = Write> {
    let (key, value) = (0..5_u8, 0..VALUES.len() as u8);
    let column = || prop::option::of(0..VALUES.len() as u8);
    prop_oneof![
        4 => (key.clone(), value.clone()).prop_map(|(key, value)| Write::Put(key, value)),
        4 => (key.clone(), [column(), column(), column()])
            .prop_map(|(key, columns)| Write::Entity(key, columns)),
        1 => (key.clone(), value.clone()).prop_map(|(key, value)| Write::Shape(key, value)),
        3 => key.clone().prop_map(Write::Delete),
        2 => key.clone().prop_map(Write::Single),
        2 => (key.clone(), value).prop_map(|(key, value)| Write::Once(key, value)),
        1 => key.prop_map(Write::DeleteShape),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let txn = 0..2_usize;
    prop_oneof![
        20 => (txn.clone(), write(), prop::bool::weighted(0.2))
            .prop_map(|(txn, write, untracked)| Step::Write(txn, write, untracked)),
        3 => write().prop_map(Step::Plain),
        2 => prop::collection::vec(write(), 1..5).prop_map(Step::Batch),
        4 => txn.clone().prop_map(Step::SetSavePoint),
        3 => txn.clone().prop_map(Step::RollBackToSavePoint),
        1 => txn.clone().prop_map(Step::PopSavePoint),
        1 => txn.clone().prop_map(Step::SetSnapshot),
        1 => (txn.clone(), any::<bool>()).prop_map(|(txn, on)| Step::Indexing(txn, on)),
        4 => txn.clone().prop_map(Step::Commit),
        1 => txn.clone().prop_map(Step::RollBack),
        2 => (txn, any::<bool>()).prop_map(|(txn, commits)| Step::Decide(txn, commits)),
        1 => Just(Step::Flush),
        1 => Just(Step::Reopen),
    ]
}

fn key(n: u8) -> [u8; 2] {
    [b'k', n]
}

/// The entries of both families are in one, so that their keys must differ.
fn shape(n: u8) -> [u8; 2] {
    [b's', n]
}

fn once(n: u8) -> [u8; 2] {
    [b'o', n]
}

fn value(n: u8) -> &'static [u8] {
    VALUES[usize::from(n)]
}

fn columns(values: &[Option<u8>; 3]) -> Vec<Column<'static>> {
    let names: [&[u8]; 3] = [b"", b"hue", b"name"];
    let columns = names.into_iter().zip(values);
    columns
        .filter_map(|(name, value_of)| Some((name, value((*value_of)?))))
        .collect()
}

/// Makes a write in `txn`. Returns an error if it fails; a panic of an index is one.
fn write_in(txn: &mut Transaction, write: &Write, untracked: bool) -> Result<()> {
    let db = txn.db().clone();
    let (default, shapes) = (family(&db, "default"), family(&db, "shapes"));
    let has = |txn: &Transaction, n: u8| {
        let found = txn.get_in(&default, &once(n), &ReadOptions::default());
        found.map(|found| found.is_some())
    };
    let written = catch_unwind(AssertUnwindSafe(|| match (write, untracked) {
        (Write::Put(n, v), false) => txn.put(&key(*n), value(*v)),
        (Write::Put(n, v), true) => txn.put_untracked_in(&default, &key(*n), value(*v)),
        (Write::Entity(n, v), false) => txn.put_entity_in(&default, &key(*n), &columns(v)),
        (Write::Entity(n, v), true) => txn.put_entity_untracked_in(&default, &key(*n), &columns(v)),
        (Write::Shape(n, v), _) => txn.put_entity_in(&shapes, &shape(*n), &[(b"form", value(*v))]),
        (Write::Delete(n), false) => txn.delete(&key(*n)),
        (Write::Delete(n), true) => txn.delete_untracked_in(&default, &key(*n)),
        (Write::Single(n), false) => txn.single_delete_in(&default, &once(*n)),
        (Write::Single(n), true) => txn.single_delete_untracked_in(&default, &once(*n)),
        (Write::Once(n, _), _) if has(txn, *n)? => Ok(()),
        (Write::Once(n, v), _) => txn.put_in(&default, &once(*n), value(*v)),
        (Write::DeleteShape(n), _) => txn.delete_in(&shapes, &shape(*n)),
    }));
    written.unwrap_or_else(|_| Err(Error::aborted("a panic")))
}

/// Adds a write to `batch`; those of keys that are put once are left out.
fn add(db: &Db, batch: &mut WriteBatch, write: &Write) {
    let shapes = family(db, "shapes");
    match write {
        Write::Put(n, v) => batch.put(&key(*n), value(*v)),
        Write::Entity(n, v) => batch.put_entity(&key(*n), &columns(v)),
        Write::Shape(n, v) => batch.put_entity_in(&shapes, &shape(*n), &[(b"form", value(*v))]),
        Write::Delete(n) => batch.delete(&key(*n)),
        Write::DeleteShape(n) => batch.delete_in(&shapes, &shape(*n)),
        Write::Single(_) | Write::Once(..) => {}
    }
}

fn run(steps: &[Step]) -> TestCaseResult {
    let world = World::in_memory();
    let open = || open_in(&world, &options(indexes()));
    let mut db = open();
    let mut txns = [db.begin(), db.begin()];
    let mut names = 0_u32;
    for step in steps {
        match step {
            Step::Write(n, write, untracked) => {
                let before = batch_of(&txns[*n]);
                let before = (before, txns[*n].counts(), txns[*n].num_keys());
                if write_in(&mut txns[*n], write, *untracked).is_err() {
                    let after = batch_of(&txns[*n]);
                    let after = (after, txns[*n].counts(), txns[*n].num_keys());
                    prop_assert_eq!(before, after, "a failed write changed the transaction");
                }
            }
            Step::Plain(write) => {
                let mut batch = WriteBatch::new();
                add(db.db(), &mut batch, write);
                // An error of an index or of a lock.
                let _ = catch_unwind(AssertUnwindSafe(|| {
                    db.write(&batch, &WriteOptions::default())
                }));
            }
            Step::Batch(writes) => {
                let mut batch = WriteBatch::new();
                writes
                    .iter()
                    .for_each(|write| add(db.db(), &mut batch, write));
                let _ = catch_unwind(AssertUnwindSafe(|| {
                    db.write(&batch, &WriteOptions::default())
                }));
            }
            Step::SetSavePoint(n) => txns[*n].set_save_point(),
            // There may be none.
            Step::RollBackToSavePoint(n) => drop(txns[*n].rollback_to_save_point()),
            Step::PopSavePoint(n) => drop(txns[*n].pop_save_point()),
            Step::SetSnapshot(n) => txns[*n].set_snapshot(),
            Step::Indexing(n, true) => txns[*n].enable_indexing(),
            Step::Indexing(n, false) => txns[*n].disable_indexing(),
            Step::Commit(n) => {
                txns[*n].commit().unwrap();
                txns[*n] = db.begin();
            }
            Step::RollBack(n) => {
                txns[*n].rollback().unwrap();
                txns[*n] = db.begin();
            }
            Step::Decide(n, commits) => {
                names += 1;
                let txn = &mut txns[*n];
                txn.set_name(&names.to_be_bytes()).unwrap();
                txn.prepare().unwrap();
                match commits {
                    true => txn.commit().unwrap(),
                    false => txn.rollback().unwrap(),
                }
                *txn = db.begin();
            }
            Step::Flush => db.db().flush().unwrap(),
            Step::Reopen => {
                // The transactions keep the database open.
                for txn in &mut txns {
                    txn.rollback().unwrap();
                }
                let [first, second] = txns;
                drop((first, second));
                drop(db);
                db = open();
                txns = [db.begin(), db.begin()];
            }
        }
        check(db.db(), None);
        for txn in &txns {
            check(db.db(), Some(txn));
        }
    }
    db.db().flush().unwrap();
    db.db().wait_until_quiet().unwrap();
    check(db.db(), None);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_entries_are_those_of_the_records_at_each_step(
        steps in prop::collection::vec(step(), 1..60)
    ) {
        run(&steps)?;
    }
}

#[test]
fn the_entries_are_those_of_the_records_after_concurrent_transactions() {
    let options = TransactionDbOptions {
        secondary_indices: indexes(),
        ..TransactionDbOptions::default()
    };
    let db = open_in(&World::in_memory(), &options);
    thread::scope(|scope| {
        for thread in 0..4_u32 {
            let db = &db;
            scope.spawn(move || {
                let default = family(db.db(), "default");
                let mut random = thread + 1;
                let mut next = move |limit: u32| {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    ((random >> 8) % limit) as u8
                };
                for round in 0..150 {
                    let writes: Vec<_> = (0..3).map(|_| (next(6), next(5), next(4))).collect();
                    let write = |txn: &mut Transaction| {
                        for (n, v, kind) in &writes {
                            match kind {
                                0 => txn.delete(&key(*n))?,
                                1 => txn.put_entity_in(
                                    &default,
                                    &key(*n),
                                    &columns(&[None, Some(*v), Some(*v)]),
                                )?,
                                _ => txn.put(&key(*n), value(*v))?,
                            }
                        }
                        match round % 5 {
                            0 => Err(Error::aborted("rolled back")),
                            _ => Ok(()),
                        }
                    };
                    match db.transact(write) {
                        Ok(()) => {}
                        Err(error) => assert_eq!(error.code(), Code::Aborted, "{error}"),
                    }
                    if round % 7 == 0 {
                        let plain = WriteOptions::default();
                        // Another transaction may hold the lock for longer than the timeout.
                        let _ = db.put(&default, &key(next(6)), value(next(5)), &plain);
                    }
                }
            });
        }
    });
    check(db.db(), None);
    assert!(!content(db.db(), None, "default").is_empty());
    assert!(db.lock_status().is_empty());
}
