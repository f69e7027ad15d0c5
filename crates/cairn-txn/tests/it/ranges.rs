//! Locks of ranges.

use std::sync::atomic::{AtomicBool, Ordering};

use cairn_db::Family;
use cairn_options::{FamilyOptions, ReadOptions, WriteOptions};
use cairn_sim::Rng;
use cairn_txn::{
    Endpoint, OptimisticTransactionDbOptions, Transaction, TransactionDb, TransactionDbOptions,
    TransactionOptions,
};
use cairn_types::{Code, KeyOrder, Result, Subcode};

use crate::{codes, optimistic, pessimistic};

const TIMED_OUT: (Code, Subcode) = (Code::TimedOut, Subcode::LockTimeout);

fn impatient() -> TransactionDb {
    pessimistic(&TransactionDbOptions {
        transaction_lock_timeout: 0,
        default_lock_timeout: 0,
        ..TransactionDbOptions::default()
    })
}

fn lock(txn: &mut Transaction, start: &[u8], end: &[u8]) -> Result<()> {
    let family = txn.default_family().clone();
    txn.get_range_lock(&family, Endpoint::at(start), Endpoint::at(end))
}

#[test]
fn a_range_excludes_others_from_its_keys_existing_or_not() {
    let db = impatient();
    let family = db.db().default_family().clone();
    let (mut owner, mut other) = (db.begin(), db.begin());
    lock(&mut owner, b"c", b"f").unwrap();
    for key in [&b"c"[..], b"d0", b"f"] {
        assert_eq!(codes(other.put(key, b"1")), TIMED_OUT, "{key:?}");
        assert_eq!(
            codes(other.get_for_update(key, &ReadOptions::default())),
            TIMED_OUT
        );
        assert_eq!(
            codes(db.put(&family, key, b"1", &WriteOptions::default())),
            TIMED_OUT
        );
        owner.put(key, b"own").unwrap();
    }
    for key in [&b"b"[..], b"bz", b"f0", b"g"] {
        other.put(key, b"1").unwrap();
    }
    let status = db.range_lock_status();
    assert_eq!((status.len(), status[0].holder), (1, owner.id()));
    assert_eq!(status[0].start, Endpoint::at(b"c"));
    assert!(
        db.lock_status()
            .iter()
            .all(|key| key.key != b"c" || key.holders == [owner.id()])
    );
    // It outlives a return to a save point, but not the transaction.
    owner.set_save_point();
    lock(&mut owner, b"x", b"z").unwrap();
    owner.rollback_to_save_point().unwrap();
    assert_eq!(codes(other.put(b"y", b"1")), TIMED_OUT);
    owner.commit().unwrap();
    assert!(db.range_lock_status().is_empty());
    other.put(b"d0", b"2").unwrap();
    other.put(b"y", b"2").unwrap();
    other.rollback().unwrap();
    assert!(db.lock_status().is_empty());
}

#[test]
fn ends_may_follow_all_keys_with_a_prefix_and_ranges_have_the_order_of_the_family() {
    let db = impatient();
    let reverse = FamilyOptions {
        comparator: KeyOrder::ReverseBytewise,
        ..FamilyOptions::default()
    };
    let reverse = db.create_family("reverse", &reverse).unwrap();
    let family = db.db().default_family().clone();
    let (mut owner, mut other) = (db.begin(), db.begin());
    owner
        .get_range_lock(&family, Endpoint::at(b"b"), Endpoint::after_all(b"b"))
        .unwrap();
    assert_eq!(codes(other.put(b"b\xff\xff", b"1")), TIMED_OUT);
    assert_eq!(codes(other.put(b"b", b"1")), TIMED_OUT);
    other.put(b"a\xff", b"1").unwrap();
    other.put(b"c", b"1").unwrap();
    owner
        .get_range_lock(&family, Endpoint::after_all(b"k"), Endpoint::at(b"m"))
        .unwrap();
    other.put(b"k\xff", b"1").unwrap();
    assert_eq!(codes(other.put(b"l", b"1")), TIMED_OUT);

    owner
        .get_range_lock(&reverse, Endpoint::at(b"f"), Endpoint::at(b"c"))
        .unwrap();
    assert_eq!(codes(other.put_in(&reverse, b"d", b"1")), TIMED_OUT);
    other.put_in(&reverse, b"b", b"1").unwrap();
    let turned = owner.get_range_lock(&reverse, Endpoint::at(b"c"), Endpoint::at(b"f"));
    assert_eq!(codes(turned).0, Code::InvalidArgument);
    let optimistic = optimistic(&OptimisticTransactionDbOptions::default());
    let refused = lock(&mut optimistic.begin(), b"a", b"b");
    assert_eq!(codes(refused).0, Code::NotSupported);
}

#[test]
fn ranges_conflict_with_keys_and_ranges_of_others() {
    let db = impatient();
    let (mut first, mut second) = (db.begin(), db.begin());
    first.put(b"d", b"1").unwrap();
    assert_eq!(codes(lock(&mut second, b"a", b"d")), TIMED_OUT);
    // Others can lock the keys of a range that was not granted.
    first.put(b"b", b"1").unwrap();
    lock(&mut second, b"e", b"g").unwrap();
    assert_eq!(codes(lock(&mut first, b"g", b"h")), TIMED_OUT);
    assert_eq!(codes(lock(&mut first, b"a", b"z")), TIMED_OUT);
    lock(&mut first, b"h", b"i").unwrap();
    // Ranges of one owner may overlap.
    lock(&mut second, b"f", b"gg").unwrap();
    second.rollback().unwrap();
    lock(&mut first, b"a", b"z").unwrap();
    drop(first);
    lock(&mut second, b"a", b"z").unwrap();
}

/// Returns when the transaction `id` waits.
fn until_waits(db: &TransactionDb, id: u64) {
    while db.waits_for(id).is_none() {
        std::thread::yield_now();
    }
}

#[test]
fn a_waiting_owner_gets_the_lock_when_the_other_ends() {
    let db = pessimistic(&TransactionDbOptions {
        transaction_lock_timeout: 60_000,
        ..TransactionDbOptions::default()
    });
    let mut owner = db.begin();
    owner.put(b"c", b"1").unwrap();
    std::thread::scope(|scope| {
        let mut txn = db.begin();
        let id = txn.id();
        let waits = scope.spawn(move || {
            lock(&mut txn, b"a", b"f").unwrap();
            txn.put(b"d", b"2").unwrap();
            txn.commit().unwrap();
        });
        until_waits(&db, id);
        // Granted to the owner of the key, although another waits for a range with it.
        owner.put(b"b", b"1").unwrap();
        owner.commit().unwrap();
        waits.join().unwrap();
    });
    let mut owner = db.begin();
    lock(&mut owner, b"a", b"f").unwrap();
    std::thread::scope(|scope| {
        let (mut of_key, mut of_range) = (db.begin(), db.begin());
        let ids = [of_key.id(), of_range.id()];
        let key = scope.spawn(move || of_key.put(b"c", b"2"));
        let range = scope.spawn(move || lock(&mut of_range, b"e", b"h"));
        for id in ids {
            until_waits(&db, id);
        }
        owner.rollback().unwrap();
        key.join().unwrap().unwrap();
        range.join().unwrap().unwrap();
    });
}

#[test]
fn a_cycle_of_ranges_and_keys_is_a_deadlock() {
    let db = pessimistic(&TransactionDbOptions {
        transaction_lock_timeout: 60_000,
        ..TransactionDbOptions::default()
    });
    let options = TransactionOptions {
        deadlock_detect: true,
        ..TransactionOptions::default()
    };
    let begin = || db.begin_with(&WriteOptions::default(), &options);
    for by_range in [false, true] {
        let (mut first, mut second) = (begin(), begin());
        lock(&mut first, b"a", b"c").unwrap();
        lock(&mut second, b"x", b"z").unwrap();
        let waiting = first.id();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let locked = first.put(b"y", b"1");
                drop(first);
                locked
            });
            until_waits(&db, waiting);
            let cycle = match by_range {
                false => second.put(b"b", b"1"),
                true => lock(&mut second, b"b", b"d"),
            };
            assert_eq!(codes(cycle), (Code::Busy, Subcode::Deadlock));
            second.rollback().unwrap();
            waits.join().unwrap().unwrap();
        });
        let path = &db.deadlocks()[0].path;
        assert_eq!(path.len(), 2, "{path:?}");
    }
}

#[test]
fn the_ranges_of_an_expired_transaction_are_taken_and_those_of_a_prepared_one_stay() {
    let db = impatient();
    let expires = TransactionOptions {
        expiration: 1,
        ..TransactionOptions::default()
    };
    let mut expired = db.begin_with(&WriteOptions::default(), &expires);
    lock(&mut expired, b"a", b"c").unwrap();
    db.db().clock().sleep(std::time::Duration::from_millis(5));
    let patient = TransactionOptions {
        lock_timeout: 10_000,
        ..TransactionOptions::default()
    };
    let mut txn = db.begin_with(&WriteOptions::default(), &patient);
    txn.put(b"b", b"1").unwrap();
    lock(&mut txn, b"a", b"d").unwrap();
    assert_eq!(codes(expired.commit()).0, Code::Expired);
    drop(expired);
    assert_eq!(codes(db.begin().put(b"c", b"1")), TIMED_OUT);
    txn.set_name(b"prepared").unwrap();
    txn.prepare().unwrap();
    drop(txn);
    assert_eq!(codes(db.begin().put(b"c", b"1")), TIMED_OUT);
    db.transaction_by_name(b"prepared")
        .unwrap()
        .commit()
        .unwrap();
    db.begin().put(b"c", b"1").unwrap();
}

/// The number of keys of a range.
fn count(txn: &Transaction, family: &Family, start: &[u8], end: &[u8]) -> usize {
    let mut iter = txn.iter_in(family, &ReadOptions::default());
    let mut count = 0;
    iter.seek(start);
    while iter.valid() && iter.key() <= end {
        count += 1;
        iter.next();
    }
    iter.status().unwrap();
    count
}

#[test]
fn scans_of_locked_ranges_have_no_phantoms() {
    let db = pessimistic(&TransactionDbOptions {
        transaction_lock_timeout: 20,
        num_stripes: 2,
        ..TransactionDbOptions::default()
    });
    let family = db.db().default_family().clone();
    let stop = AtomicBool::new(false);
    let key = |number: usize| format!("{number:02}").into_bytes();
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (db, stop) = (&db, &stop);
            scope.spawn(move || {
                let mut rng = Rng::new(writer);
                while !stop.load(Ordering::Relaxed) {
                    let mut txn = db.begin();
                    let keys = [rng.below(60), rng.below(60)].map(key);
                    let first = match rng.chance(1, 2) {
                        true => txn.put(&keys[0], b"1"),
                        false => txn.delete(&keys[0]),
                    };
                    if first.and_then(|()| txn.put(&keys[1], b"1")).is_ok() {
                        txn.commit().unwrap();
                    }
                }
            });
        }
        let readers = [7, 8].map(|reader| {
            let (db, family) = (&db, &family);
            scope.spawn(move || {
                let mut rng = Rng::new(reader);
                let mut locked = 0;
                while locked < 150 {
                    let (start, len) = (rng.below(50), rng.below(20));
                    let (start, end) = (key(start), key(start + len));
                    let mut txn = db.begin();
                    if lock(&mut txn, &start, &end).is_err() {
                        continue;
                    }
                    locked += 1;
                    let before = count(&txn, family, &start, &end);
                    std::thread::yield_now();
                    assert_eq!(count(&txn, family, &start, &end), before);
                }
            })
        });
        for reader in readers {
            reader.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(db.lock_status().is_empty() && db.range_lock_status().is_empty());
}

#[test]
fn a_range_of_another_database_is_refused() {
    let (db, other) = (impatient(), impatient());
    let foreign = other.db().default_family().clone();
    let refused = db
        .begin()
        .get_range_lock(&foreign, Endpoint::at(b"a"), Endpoint::at(b"b"));
    assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
    assert!(db.range_lock_status().is_empty());
}
