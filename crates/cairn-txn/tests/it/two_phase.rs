//! Two-phase commit: states, misuse, recovery, and the logs that are kept for it.

use cairn_db::{Db, OpenRequest, WriteBatch};
use cairn_options::{DbOptions, FamilyOptions, ReadOptions, WriteOptions, merge_operators};
use cairn_platform::World;
use cairn_txn::{
    Transaction, TransactionDb, TransactionDbOptions, TransactionOptions, TransactionState,
    WritePolicy,
};
use cairn_types::{Code, Result, Subcode};

use crate::{codes, pessimistic, with_request};

/// Opens a transaction database in `world`, which may have one already.
pub(crate) fn open_in(world: &World) -> TransactionDb {
    open_as(world, WritePolicy::Committed)
}

/// Like [`open_in`], with the write policy `policy`.
pub(crate) fn open_as(world: &World, policy: WritePolicy) -> TransactionDb {
    try_open_as(world, &DbOptions::default(), policy).unwrap()
}

fn try_open(world: &World, options: &DbOptions) -> Result<TransactionDb> {
    try_open_as(world, options, WritePolicy::Committed)
}

pub(crate) fn try_open_as(
    world: &World,
    options: &DbOptions,
    policy: WritePolicy,
) -> Result<TransactionDb> {
    let impatient = TransactionDbOptions {
        transaction_lock_timeout: 0,
        default_lock_timeout: 0,
        write_policy: policy,
        ..TransactionDbOptions::default()
    };
    as_request(world, options, false, |request| {
        TransactionDb::open(request, &impatient)
    })
}

/// Calls `open` with the request for the database in `world`. Its values are added up by merges.
fn as_request<T>(
    world: &World,
    options: &DbOptions,
    read_only: bool,
    open: impl FnOnce(&OpenRequest<'_>) -> T,
) -> T {
    with_request(world.clone(), |request| {
        let options = DbOptions {
            create_if_missing: true,
            ..options.clone()
        };
        let family = FamilyOptions {
            merge_operator: merge_operators::from_text("uint64add").ok(),
            ..FamilyOptions::default()
        };
        open(&OpenRequest {
            options: &options,
            others: Some(&family),
            path: request.path,
            families: &[],
            read_only,
            world: request.world.clone(),
        })
    })
}

fn prepared(db: &TransactionDb, name: &[u8], key: &[u8], value: &[u8]) -> Transaction {
    let mut txn = db.begin();
    txn.set_name(name).unwrap();
    txn.put(key, value).unwrap();
    txn.prepare().unwrap();
    txn
}

pub(crate) fn put(db: &TransactionDb, key: &[u8], value: &[u8]) -> Result<()> {
    db.put(db.db().default_family(), key, value, &Default::default())
}

pub(crate) fn get(db: &Db, key: &[u8]) -> Option<Vec<u8>> {
    db.get(key).unwrap().map(|value| value.to_vec())
}

fn logs(db: &Db) -> Vec<u64> {
    let files = db.sorted_wal_files().unwrap();
    files.iter().map(|file| file.log_number.0).collect()
}

#[test]
fn a_prepared_transaction_is_visible_once_it_is_committed() {
    let db = pessimistic(&TransactionDbOptions::default());
    let before = db.db().latest_sequence();
    let mut txn = prepared(&db, b"t", b"k", b"1");
    assert_eq!(txn.state(), TransactionState::Prepared);
    assert_eq!(db.db().latest_sequence(), before, "no number is taken");
    assert_eq!(get(db.db(), b"k"), None);
    let own = txn.get(b"k", &ReadOptions::default()).unwrap().unwrap();
    assert_eq!(&*own, b"1");
    txn.commit().unwrap();
    assert_eq!(txn.state(), TransactionState::Committed);
    assert_eq!(get(db.db(), b"k").unwrap(), b"1");
    assert_eq!(db.db().latest_sequence(), before.plus(1));
    assert!(db.lock_status().is_empty() && db.db().prepared().unwrap().is_empty());

    let mut txn = prepared(&db, b"t", b"k", b"2");
    txn.rollback().unwrap();
    assert_eq!(txn.state(), TransactionState::RolledBack);
    assert_eq!(get(db.db(), b"k").unwrap(), b"1");
    assert!(db.lock_status().is_empty() && db.db().prepared().unwrap().is_empty());
    // The name is free once the transaction is dropped.
    assert_eq!(codes(db.begin().set_name(b"t")).0, Code::InvalidArgument);
    drop(txn);
    db.begin().set_name(b"t").unwrap();
}

#[test]
fn misuse_is_rejected_as_in_rocksdb() {
    let db = pessimistic(&TransactionDbOptions {
        default_lock_timeout: 0,
        transaction_lock_timeout: 0,
        ..TransactionDbOptions::default()
    });
    let mut txn = db.begin();
    txn.put(b"k", b"1").unwrap();
    let error = txn.prepare().unwrap_err();
    assert!(error.text().contains("has not been named"), "{error}");
    assert_eq!(error.code(), Code::InvalidArgument);
    drop(txn);

    let mut txn = prepared(&db, b"t", b"k", b"1");
    let rejected = |result: Result<()>, text: &str| {
        let error = result.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        assert!(error.text().contains(text), "{error}");
    };
    rejected(txn.prepare(), "already been prepared");
    rejected(txn.set_name(b"u"), "beyond state for naming");
    rejected(txn.rollback_to_save_point(), "beyond state for rollback");
    assert_eq!(codes(put(&db, b"k", b"2")).1, Subcode::LockTimeout);
    txn.commit().unwrap();
    rejected(txn.prepare(), "already been committed");
    rejected(txn.commit(), "already been committed");
    rejected(txn.rollback(), "already been committed");

    let mut txn = prepared(&db, b"t", b"k", b"2");
    txn.rollback().unwrap();
    rejected(txn.prepare(), "already been rolledback");
    rejected(txn.commit(), "already been rolledback");
    rejected(txn.rollback(), "not in state for rollback");

    // Functions of the database itself.
    let options = WriteOptions::default();
    rejected(db.db().commit_prepared(b"none", &options), "no transaction");
    rejected(
        db.db().roll_back_prepared(b"none", &options),
        "no transaction",
    );
    let batch = WriteBatch::new();
    db.db().prepare(b"own", &batch, &options).unwrap();
    rejected(
        db.db().prepare(b"own", &batch, &options),
        "already prepared",
    );
    db.db().commit_prepared(b"own", &options).unwrap();
    let plain = with_request(World::in_memory(), cairn_db::open).unwrap();
    let error = plain.prepare(b"t", &batch, &options).unwrap_err();
    assert_eq!(error.code(), Code::NotSupported);
}

/// RocksDB applies writes after the prepare with the commit, but does not log them.
#[test]
fn writes_after_the_prepare_belong_to_the_commit() {
    let world = World::in_memory();
    let db = open_in(&world);
    let family = db.create_family("f", &FamilyOptions::default()).unwrap();
    let mut txn = prepared(&db, b"t", b"k", b"1");
    txn.put(b"k", b"2").unwrap();
    txn.put_in(&family, b"l", b"2").unwrap();
    drop(txn);
    let mut txn = db.transaction_by_name(b"t").unwrap();
    txn.delete(b"gone").unwrap();
    txn.commit().unwrap();
    let mut undecided = prepared(&db, b"u", b"u", b"1");
    undecided.put(b"u", b"2").unwrap();
    let mut rolled_back = prepared(&db, b"v", b"v", b"1");
    rolled_back.put(b"w", b"1").unwrap();
    rolled_back.rollback().unwrap();
    let updates: Vec<u32> = {
        let mut updates = db
            .db()
            .updates_since(cairn_types::SequenceNumber(1))
            .unwrap();
        let mut counts = Vec::new();
        while updates.valid() {
            counts.push(updates.batch().unwrap().1.count());
            updates.next();
        }
        counts
    };
    assert_eq!(updates, [4]);
    db.db().close().unwrap();
    drop((undecided, family, db));
    let db = open_in(&world);
    assert_eq!(get(db.db(), b"k").unwrap(), b"2");
    assert_eq!(
        &*db.db().family("f").unwrap().get(b"l").unwrap().unwrap(),
        b"2"
    );
    assert_eq!(get(db.db(), b"w"), None);
    db.transaction_by_name(b"u").unwrap().commit().unwrap();
    assert_eq!(get(db.db(), b"u").unwrap(), b"1", "the later write is lost");
}

#[test]
fn a_commit_time_batch_takes_effect_with_the_commit_before_its_writes() {
    let world = World::in_memory();
    let db = open_in(&world);
    let family = db.create_family("f", &FamilyOptions::default()).unwrap();
    let from = db.db().latest_sequence();
    let mut txn = prepared(&db, b"t", b"k", b"own");
    txn.commit_time_batch().put(b"id", b"7");
    txn.commit_time_batch().put(b"k", b"commit time");
    txn.commit_time_batch().put_in(&family, b"id", b"8");
    assert_eq!(get(db.db(), b"id"), None);
    assert!(txn.get(b"id", &ReadOptions::default()).unwrap().is_none());
    txn.put(b"late", b"1").unwrap();
    // A transaction without a handle keeps it.
    drop(txn);
    let mut txn = db.transaction_by_name(b"t").unwrap();
    txn.commit().unwrap();
    assert_eq!(db.db().latest_sequence(), from.plus(5));
    assert!(txn.commit_time_batch().is_empty());
    let check = |db: &Db| {
        let all = [&b"id"[..], b"k", b"late"].map(|key| get(db, key).unwrap());
        assert_eq!(all, [&b"7"[..], b"own", b"1"]);
        let other = db.family("f").unwrap().get(b"id").unwrap().unwrap();
        assert_eq!(&*other, b"8");
    };
    check(db.db());
    let mut updates = db.db().updates_since(from.plus(1)).unwrap();
    assert_eq!(updates.batch().unwrap().1.count(), 5);
    updates.next();
    assert!(!updates.valid());
    drop(updates);
    db.db().close().unwrap();
    drop((txn, family, db));
    check(open_in(&world).db());
}

#[test]
fn a_commit_time_batch_needs_a_prepared_transaction() {
    let db = pessimistic(&TransactionDbOptions::default());
    let mut txn = db.begin();
    txn.put(b"k", b"1").unwrap();
    txn.commit_time_batch().put(b"id", b"1");
    let error = txn.commit().unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.text().contains("Commit-time batch"), "{error}");
    // It is still open, and a rollback discards the batch.
    txn.rollback().unwrap();
    txn.put(b"k", b"2").unwrap();
    txn.commit().unwrap();
    let mut txn = prepared(&db, b"t", b"k", b"3");
    txn.commit_time_batch().put(b"id", b"1");
    txn.rollback().unwrap();
    assert_eq!(get(db.db(), b"id"), None);
    assert_eq!(get(db.db(), b"k").unwrap(), b"2");
    // RocksDB drops the batch of an optimistic transaction silently.
    let db = crate::optimistic(&cairn_txn::OptimisticTransactionDbOptions::default());
    let mut txn = db.begin();
    txn.put(b"k", b"1").unwrap();
    txn.commit_time_batch().put(b"id", b"1");
    assert_eq!(codes(txn.commit()).0, Code::InvalidArgument);
    txn.commit_time_batch().clear();
    txn.commit().unwrap();
}

/// The log of a prepared section is needed until the section is in a table, also if the commit-time batch writes to the
/// same family before the section.
#[test]
fn a_commit_time_batch_does_not_release_the_log_of_the_section() {
    let world = World::in_memory();
    let db = open_in(&world);
    let other = db.create_family("f", &FamilyOptions::default()).unwrap();
    let flush = |family: &cairn_db::Family| {
        family.flush().unwrap();
        db.db().wait_until_quiet().unwrap();
    };
    let mut txn = prepared(&db, b"t", b"k", b"1");
    let section = logs(db.db())[0];
    put(&db, b"a", b"1").unwrap();
    flush(db.db().default_family());
    txn.commit_time_batch().put(b"id", b"1");
    txn.commit().unwrap();
    other.put(b"a", b"1").unwrap();
    flush(&other);
    let kept = logs(db.db());
    assert!(kept.contains(&section), "{kept:?}");
    flush(db.db().default_family());
    other.put(b"a", b"2").unwrap();
    flush(&other);
    let left = logs(db.db());
    assert!(!left.contains(&section), "{left:?}");
}

#[test]
fn a_transaction_that_must_be_prepared_is_not_committed_without() {
    let db = pessimistic(&TransactionDbOptions::default());
    let options = TransactionOptions {
        skip_prepare: false,
        ..TransactionOptions::default()
    };
    let mut txn = db.begin_with(&WriteOptions::default(), &options);
    txn.set_name(b"t").unwrap();
    txn.put(b"k", b"1").unwrap();
    assert_eq!(codes(txn.commit()).1, Subcode::TxnNotPrepared);
    txn.prepare().unwrap();
    txn.commit().unwrap();
    assert_eq!(get(db.db(), b"k").unwrap(), b"1");
}

#[test]
fn an_expired_transaction_is_not_prepared_and_a_prepared_one_does_not_expire() {
    let sim = cairn_sim::SimWorld::new(1);
    let db = open_in(&sim.world);
    let expiring = TransactionOptions {
        expiration: 10,
        ..TransactionOptions::default()
    };
    let begin = |name: &[u8], key: &[u8]| {
        let mut txn = db.begin_with(&WriteOptions::default(), &expiring);
        txn.set_name(name).unwrap();
        txn.put(key, b"1").unwrap();
        txn
    };
    let (mut late, mut early) = (begin(b"late", b"l"), begin(b"early", b"e"));
    early.prepare().unwrap();
    sim.clock.advance(std::time::Duration::from_millis(20));
    assert_eq!(codes(late.prepare()).0, Code::Expired);
    put(&db, b"l", b"2").unwrap();
    assert_eq!(codes(late.prepare()).0, Code::Expired);
    assert_eq!(codes(put(&db, b"e", b"2")).1, Subcode::LockTimeout);
    early.commit().unwrap();
    assert_eq!(get(db.db(), b"e").unwrap(), b"1");
}

#[test]
fn a_dropped_transaction_stays_prepared_with_its_locks() {
    let db = pessimistic(&TransactionDbOptions {
        default_lock_timeout: 0,
        ..TransactionDbOptions::default()
    });
    let txn = prepared(&db, b"t", b"k", b"1");
    let id = txn.id();
    assert!(db.prepared_transactions().is_empty() && db.transaction_by_name(b"t").is_none());
    drop(txn);
    assert_eq!(codes(put(&db, b"k", b"2")).1, Subcode::LockTimeout);
    assert_eq!(codes(db.begin().set_name(b"t")).0, Code::InvalidArgument);
    assert!(db.transaction_by_name(b"u").is_none());
    let mut txn = db.transaction_by_name(b"t").unwrap();
    assert!(db.prepared_transactions().is_empty());
    assert_eq!((txn.id(), txn.name(), txn.num_keys()), (id, &b"t"[..], 1));
    assert_eq!(txn.counts().puts, 1);
    txn.commit().unwrap();
    put(&db, b"k", b"2").unwrap();
    db.begin().set_name(b"t").unwrap();
}

#[test]
fn prepared_transactions_are_recovered_with_their_locks() {
    let world = World::in_memory();
    let db = open_in(&world);
    let family = db.create_family("f", &FamilyOptions::default()).unwrap();
    let mut first = db.begin();
    first.set_name(b"first").unwrap();
    first.put(b"a", b"1").unwrap();
    first.merge(b"sum", &7_u64.to_le_bytes()).unwrap();
    first.put_in(&family, b"b", b"1").unwrap();
    first.prepare().unwrap();
    let second = prepared(&db, b"second", b"c", b"1");
    prepared(&db, b"third", b"d", b"1").commit().unwrap();
    prepared(&db, b"fourth", b"e", b"1").rollback().unwrap();
    put(&db, b"z", b"1").unwrap();
    db.db().close().unwrap();
    drop((first, second, db, family));

    // Each opening logs them again.
    for _ in 0..2 {
        let db = open_in(&world);
        assert_eq!(db.db().prepared().unwrap().len(), 2);
        db.db().close().unwrap();
    }
    let db = open_in(&world);
    let family = db.db().family("f").unwrap();
    assert_eq!(get(db.db(), b"d").unwrap(), b"1");
    assert_eq!(get(db.db(), b"a"), None);
    let locked = |key: &[u8]| put(&db, key, b"2").is_err();
    assert!(locked(b"a") && locked(b"c") && locked(b"sum") && !locked(b"d") && !locked(b"e"));
    assert_eq!(
        codes(db.put(&family, b"b", b"2", &Default::default())).1,
        Subcode::LockTimeout
    );
    let names: Vec<_> = {
        let all = db.prepared_transactions();
        all.iter().map(|txn| txn.name().to_vec()).collect()
    };
    assert_eq!(names, [b"first".to_vec(), b"second".to_vec()]);
    let mut first = db.transaction_by_name(b"first").unwrap();
    assert_eq!(first.state(), TransactionState::Prepared);
    let own = first
        .get_in(&family, b"b", &ReadOptions::default())
        .unwrap();
    assert_eq!(&*own.unwrap(), b"1");
    first.commit().unwrap();
    db.transaction_by_name(b"second")
        .unwrap()
        .rollback()
        .unwrap();
    assert_eq!(get(db.db(), b"a").unwrap(), b"1");
    assert_eq!(&*family.get(b"b").unwrap().unwrap(), b"1");
    assert_eq!(get(db.db(), b"sum").unwrap(), 7_u64.to_le_bytes());
    assert!(db.lock_status().is_empty());
    db.db().close().unwrap();
    drop((first, db, family));

    let db = open_in(&world);
    assert!(db.prepared_transactions().is_empty());
    assert_eq!(get(db.db(), b"sum").unwrap(), 7_u64.to_le_bytes());
    assert_eq!(get(db.db(), b"c"), None);
}

#[test]
fn an_opening_without_two_phase_commit_needs_decided_transactions() {
    for flushes in [false, true] {
        open_without_two_phase_commit(flushes);
    }
}

fn open_without_two_phase_commit(flushes: bool) {
    let world = World::in_memory();
    let db = open_in(&world);
    let txn = prepared(&db, b"t", b"k", b"1");
    let mut later = prepared(&db, b"u", b"l", b"1");
    if flushes {
        // Only the undecided transactions need the log now.
        put(&db, b"z", b"1").unwrap();
        db.db().default_family().flush().unwrap();
    }
    later.commit().unwrap();
    db.db().close().unwrap();
    drop((txn, later, db));
    let open_plain =
        |read_only| as_request(&world, &DbOptions::default(), read_only, cairn_db::open);
    let error = open_plain(false).err().unwrap();
    assert_eq!(error.code(), Code::NotSupported);
    assert!(error.text().contains("prepared transactions"), "{error}");
    let db = open_plain(true).unwrap();
    assert_eq!(get(&db, b"k"), None);
    assert_eq!(get(&db, b"l").unwrap(), b"1");
    drop(db);
    let db = open_in(&world);
    db.transaction_by_name(b"t").unwrap().rollback().unwrap();
    db.db().close().unwrap();
    drop(db);
    let db = open_plain(false).unwrap();
    assert_eq!(get(&db, b"k"), None);
}

#[test]
fn logs_are_kept_for_undecided_sections_and_for_committed_ones_in_memtables() {
    let world = World::in_memory();
    let db = open_in(&world);
    let other = db.create_family("f", &FamilyOptions::default()).unwrap();
    let flush = |family: &cairn_db::Family| family.flush().unwrap();
    let mut txn = db.begin();
    txn.set_name(b"t").unwrap();
    txn.put(b"k", b"1").unwrap();
    txn.put_in(&other, b"k", b"1").unwrap();
    txn.prepare().unwrap();
    let first = logs(db.db());
    assert_eq!(first.len(), 1);
    for round in 0..3_u8 {
        put(&db, b"a", &[round]).unwrap();
        flush(db.db().default_family());
        assert_eq!(
            logs(db.db())[0],
            first[0],
            "an undecided section keeps its log"
        );
    }
    txn.commit().unwrap();
    drop(txn);
    put(&db, b"a", b"1").unwrap();
    flush(db.db().default_family());
    assert_eq!(
        logs(db.db())[0],
        first[0],
        "the memtable of the other family keeps it"
    );
    flush(&other);
    put(&db, b"a", b"2").unwrap();
    flush(db.db().default_family());
    db.db().wait_until_quiet().unwrap();
    let left = logs(db.db());
    assert!(left.iter().all(|log| *log > first[0]), "{left:?}");
    assert_eq!(&*other.get(b"k").unwrap().unwrap(), b"1");
}

#[test]
fn a_stream_of_updates_has_the_writes_of_a_transaction_at_its_commit() {
    let world = World::in_memory();
    let db = open_in(&world);
    let from = db.db().latest_sequence().plus(1);
    put(&db, b"a", b"1").unwrap();
    let mut first = prepared(&db, b"first", b"b", b"1");
    let mut second = prepared(&db, b"second", b"c", b"1");
    put(&db, b"d", b"1").unwrap();
    db.db().default_family().flush().unwrap();
    first.commit().unwrap();
    second.rollback().unwrap();
    put(&db, b"e", b"1").unwrap();
    // From the first batch on, and from one whose log has only the decision.
    let keys = |from| {
        let mut keys = Vec::new();
        let mut updates = db.db().updates_since(from).unwrap();
        while updates.valid() {
            let (seq, batch) = updates.batch().unwrap();
            assert_eq!(seq, from.plus(keys.len() as u64));
            for record in batch.records() {
                match record.unwrap() {
                    cairn_db::Record::Put { key, .. } => keys.push(key.to_vec()),
                    record => panic!("{record:?}"),
                }
            }
            updates.next();
        }
        updates.status().unwrap();
        keys.concat()
    };
    assert_eq!(keys(from), b"adbe");
    assert_eq!(keys(from.plus(2)), b"be");
}

#[test]
fn a_checkpoint_has_the_prepared_transactions() {
    let world = World::in_memory();
    let db = open_in(&world);
    let mut txn = prepared(&db, b"t", b"k", b"1");
    put(&db, b"a", b"1").unwrap();
    db.db().default_family().flush().unwrap();
    put(&db, b"a", b"2").unwrap();
    db.db()
        .create_checkpoint(std::path::Path::new("/copy"), u64::MAX)
        .unwrap();
    txn.commit().unwrap();
    let request = |path: &'static str, f: &dyn Fn(&OpenRequest<'_>)| {
        as_request(&world, &DbOptions::default(), false, |request| {
            f(&OpenRequest {
                path: std::path::Path::new(path),
                world: request.world.clone(),
                ..*request
            });
        });
    };
    request("/copy", &|request| {
        let copy = TransactionDb::open(request, &TransactionDbOptions::default()).unwrap();
        assert_eq!(get(copy.db(), b"a").unwrap(), b"2");
        assert_eq!(get(copy.db(), b"k"), None);
        copy.transaction_by_name(b"t").unwrap().commit().unwrap();
        assert_eq!(get(copy.db(), b"k").unwrap(), b"1");
    });
}

/// Threads prepare and decide transactions on counters of their own while memtables are flushed; every decision is in
/// the database afterwards, and in the next opening.
#[test]
fn transactions_of_many_threads_are_decided_once() {
    let world = World::in_memory();
    let db = open_in(&world);
    let family = db.create_family("f", &FamilyOptions::default()).unwrap();
    let add = |thread: u64, round: u64| {
        let options = WriteOptions {
            sync: round.is_multiple_of(5),
            ..WriteOptions::default()
        };
        let mut txn = db.begin_with(&options, &Default::default());
        txn.set_name(&[thread as u8, round as u8]).unwrap();
        txn.merge(&[thread as u8], &1_u64.to_le_bytes()).unwrap();
        txn.put_in(&family, &[thread as u8], &round.to_le_bytes())
            .unwrap();
        txn.prepare().unwrap();
        match round % 4 {
            0 => txn.rollback().unwrap(),
            1 => {
                drop(txn);
                let name = [thread as u8, round as u8];
                db.transaction_by_name(&name).unwrap().commit().unwrap();
            }
            _ => txn.commit().unwrap(),
        }
    };
    let (threads, rounds) = (4, 200);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || (0..rounds).for_each(|round| add(thread, round)));
        }
        scope.spawn(|| {
            for _ in 0..20 {
                db.db().default_family().flush().unwrap();
                family.flush().unwrap();
            }
        });
    });
    let check = |db: &TransactionDb| {
        assert!(db.db().prepared().unwrap().is_empty() && db.lock_status().is_empty());
        for thread in 0..threads {
            let sum = get(db.db(), &[thread as u8]).unwrap();
            assert_eq!(u64::from_le_bytes(sum.try_into().unwrap()), rounds / 4 * 3);
        }
    };
    check(&db);
    db.db().close().unwrap();
    drop((family, db));
    check(&open_in(&world));
}

#[test]
fn an_undecided_transaction_does_not_make_every_write_flush() {
    let world = World::in_memory();
    let options = DbOptions {
        max_total_wal_size: 4096,
        ..DbOptions::default()
    };
    let db = try_open(&world, &options).unwrap();
    let mut txn = prepared(&db, b"t", b"k", &[1; 8192]);
    let current = || db.db().current_wal_file().unwrap().log_number.0;
    let first = current();
    for round in 0..100_u8 {
        put(&db, b"a", &[round; 16]).unwrap();
    }
    db.db().wait_until_quiet().unwrap();
    // A table and a log per switch.
    let switches = (current() - first) / 2;
    assert!(switches < 5, "{switches} switches for 4 KB");
    txn.commit().unwrap();
    assert_eq!(get(db.db(), b"k").unwrap().len(), 8192);
}

/// A database is closed while threads prepare and commit: what was acknowledged is there after the next opening, and
/// what was prepared is either prepared or committed.
#[test]
fn a_close_during_prepares_and_commits_loses_nothing() {
    let world = World::in_memory();
    let db = open_in(&world);
    let key = |thread: u8, round: u32| [&[thread][..], &round.to_be_bytes()].concat();
    // The number of transactions that each thread has prepared, and of those that it has committed.
    let ends: Vec<(u32, u32)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let db = &db;
                scope.spawn(move || {
                    for round in 0.. {
                        let mut txn = db.begin();
                        let key = key(thread, round);
                        txn.set_name(&key).unwrap();
                        txn.put(&key, b"1").unwrap();
                        if let Err(error) = txn.prepare() {
                            assert_eq!(error.code(), Code::ShutdownInProgress);
                            return (round, round);
                        }
                        if let Err(error) = txn.commit() {
                            assert_eq!(error.code(), Code::ShutdownInProgress);
                            assert_eq!(txn.state(), TransactionState::Prepared);
                            return (round + 1, round);
                        }
                    }
                    unreachable!("the database is closed")
                })
            })
            .collect();
        std::thread::park_timeout(std::time::Duration::from_millis(20));
        db.db().close().unwrap();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    drop(db);
    let db = open_in(&world);
    let mut left = db.prepared_transactions();
    for (thread, (prepared, committed)) in (0..4).zip(ends) {
        for round in 0..committed {
            assert!(get(db.db(), &key(thread, round)).is_some());
        }
        if committed < prepared {
            let key = key(thread, committed);
            let at = left.iter().position(|txn| txn.name() == key);
            left.remove(at.expect("it is prepared")).commit().unwrap();
            assert!(get(db.db(), &key).is_some());
        }
    }
    assert!(left.is_empty(), "{left:?}");
}

/// Regression: a transaction without locks that was prepared took locks after its handle was dropped and taken out again.
#[test]
fn a_prepared_transaction_keeps_its_options_without_a_handle() {
    let db = pessimistic(&TransactionDbOptions::default());
    let options = TransactionOptions {
        skip_concurrency_control: true,
        ..TransactionOptions::default()
    };
    let mut txn = db.begin_with(&WriteOptions::default(), &options);
    txn.set_name(b"t").unwrap();
    txn.put(b"k", b"1").unwrap();
    txn.prepare().unwrap();
    drop(txn);
    let mut txn = db.transaction_by_name(b"t").unwrap();
    txn.put(b"l", b"1").unwrap();
    assert!(db.lock_status().is_empty());
    txn.commit().unwrap();
    assert_eq!(get(db.db(), b"l").unwrap(), b"1");
}
