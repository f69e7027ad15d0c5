//! Pessimistic transactions.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use cairn_db::WriteBatch;
use cairn_indexed::BaseDeltaIter;
use cairn_observe::EventListener;
use cairn_observe::listener::MemTableInfo;
use cairn_options::{FamilyOptions, ReadOptions, WriteOptions};
use cairn_platform::sync::Mutex;
use cairn_sim::PanickingComparator;
use cairn_txn::{
    Endpoint, Transaction, TransactionDb, TransactionDbOptions, TransactionOptions,
    TransactionState,
};
use cairn_types::{Code, KeyOrder, Result, Subcode};

use crate::{codes, pessimistic, with_listener};

const TIMEOUT: (Code, Subcode) = (Code::TimedOut, Subcode::LockTimeout);

fn open() -> TransactionDb {
    pessimistic(&TransactionDbOptions {
        transaction_lock_timeout: 1,
        default_lock_timeout: 1,
        ..TransactionDbOptions::default()
    })
}

fn begin(db: &TransactionDb, options: TransactionOptions) -> Transaction {
    db.begin_with(&WriteOptions::default(), &options)
}

fn put(db: &TransactionDb, key: &[u8], value: &[u8]) -> Result<()> {
    db.put(
        db.db().default_family(),
        key,
        value,
        &WriteOptions::default(),
    )
}

fn read() -> ReadOptions {
    ReadOptions::default()
}

fn is_unlocked(db: &TransactionDb) -> bool {
    db.lock_status().is_empty()
}

#[test]
fn written_keys_are_locked_until_the_end() {
    let db = open();
    type End = fn(Transaction);
    let ends: [End; 3] = [
        |mut txn| txn.commit().unwrap(),
        |mut txn| txn.rollback().unwrap(),
        drop,
    ];
    for end in ends {
        let mut txn = db.begin();
        txn.put(b"a", b"1").unwrap();
        txn.get_for_update(b"b", &read()).unwrap();
        for key in [b"a", b"b"] {
            let mut other = db.begin();
            assert_eq!(codes(other.put(key, b"2")), TIMEOUT);
            assert_eq!(codes(other.get_for_update(key, &read())), TIMEOUT);
            assert_eq!(codes(put(&db, key, b"2")), TIMEOUT);
            let mut batch = WriteBatch::new();
            batch.put(b"free", b"2");
            batch.delete(key);
            assert_eq!(codes(db.write(&batch, &WriteOptions::default())), TIMEOUT);
            assert!(db.db().get(b"free").unwrap().is_none());
        }
        assert_eq!(db.lock_status().len(), 2);
        assert_eq!(db.lock_status()[0].holders, [txn.id()]);
        end(txn);
        assert!(is_unlocked(&db));
        put(&db, b"b", b"3").unwrap();
        put(&db, b"a", b"3").unwrap();
    }
}

#[test]
fn an_ended_transaction_rejects_another_end() {
    let db = open();
    let mut txn = db.begin();
    txn.put(b"a", b"1").unwrap();
    txn.commit().unwrap();
    assert_eq!(txn.state(), TransactionState::Committed);
    assert_eq!(codes(txn.commit()).0, Code::InvalidArgument);
    assert_eq!(codes(txn.rollback()).0, Code::InvalidArgument);
    txn.put(b"b", b"1").unwrap();
    assert_eq!(codes(txn.commit()).0, Code::InvalidArgument);
    drop(txn);
    assert!(is_unlocked(&db));
    assert!(db.db().get(b"b").unwrap().is_none());
}

#[test]
fn a_snapshot_is_validated_when_a_key_is_locked() {
    let db = open();
    // The last one keeps no flushed memtables.
    for (name, kept) in [("unflushed", 0), ("flushed", 0), ("forgetful", 1)] {
        let options = FamilyOptions {
            max_write_buffer_size_to_maintain: kept,
            ..FamilyOptions::default()
        };
        let family = db.create_family(name, &options).unwrap();
        let put = |value| {
            db.put(&family, b"k", value, &WriteOptions::default())
                .unwrap()
        };
        put(b"0");
        let snapshot = TransactionOptions {
            set_snapshot: true,
            ..TransactionOptions::default()
        };
        let mut txn = begin(&db, snapshot);
        put(b"1");
        if name != "unflushed" {
            db.db().flush_families(&[&family]).unwrap();
        }
        let busy = (Code::Busy, Subcode::None);
        assert_eq!(codes(txn.put_in(&family, b"k", b"2")), busy);
        let read_it = txn.get_for_update_in(&family, b"k", &read(), true, true);
        assert_eq!(codes(read_it), busy);
        assert!(is_unlocked(&db), "a key that failed validation is unlocked");
        txn.put_in(&family, b"other", b"2").unwrap();
        txn.rollback().unwrap();
        // Without validation it is only locked.
        let value = txn.get_for_update_in(&family, b"k", &read(), true, false);
        assert_eq!(value.unwrap().unwrap(), b"1"[..]);
        txn.put_untracked_in(&family, b"k", b"2").unwrap();
        assert_eq!(codes(txn.put_in(&family, b"k", b"2")).0, Code::Busy);
        assert_eq!(
            db.lock_status().len(),
            1,
            "a key locked before stays locked"
        );
        txn.commit().unwrap();
        let mut at_snapshot = read();
        at_snapshot.snapshot = Some(db.db().latest_sequence());
        let mut txn = db.begin();
        let denied = txn.get_for_update_in(&family, b"k", &at_snapshot, true, false);
        assert_eq!(codes(denied).0, Code::InvalidArgument);
    }
}

#[test]
fn a_failed_validation_of_an_upgrade_leaves_the_shared_lock() {
    let db = open();
    let family = db.db().default_family();
    let mut txn = db.begin();
    txn.get_for_update_in(family, b"k", &read(), false, false)
        .unwrap();
    db.db().put(b"k", b"1").unwrap();
    txn.set_snapshot();
    db.db().put(b"k", b"2").unwrap();
    // The key was tracked before the snapshot, as in RocksDB.
    txn.put(b"k", b"3").unwrap();
    txn.rollback().unwrap();
    txn.clear_snapshot();
    txn.set_snapshot();
    db.db().put(b"k", b"4").unwrap();
    txn.get_for_update_in(family, b"k", &read(), false, false)
        .unwrap();
    assert_eq!(codes(txn.put(b"k", b"5")).0, Code::Busy);
    assert!(!db.lock_status()[0].exclusive);
    drop(txn);
    assert!(is_unlocked(&db));
}

#[test]
fn shared_reads_coexist_and_deadlocks_are_reported() {
    let db = pessimistic(&TransactionDbOptions::default());
    let family = db.db().default_family();
    let detecting = || {
        begin(
            &db,
            TransactionOptions {
                deadlock_detect: true,
                lock_timeout: 60_000,
                ..TransactionOptions::default()
            },
        )
    };
    let (mut first, mut second) = (detecting(), detecting());
    let (one, two) = (first.id(), second.id());
    for txn in [&mut first, &mut second] {
        txn.get_for_update_in(family, b"k", &read(), false, true)
            .unwrap();
    }
    std::thread::scope(|scope| {
        scope.spawn(move || {
            first.put(b"k", b"1").unwrap();
            first.commit().unwrap();
        });
        while db.waits_for(one).is_none() {
            std::thread::yield_now();
        }
        assert_eq!(
            codes(second.put(b"k", b"2")),
            (Code::Busy, Subcode::Deadlock)
        );
        second.rollback().unwrap();
    });
    assert_eq!(db.db().get(b"k").unwrap().unwrap(), b"1"[..]);
    let path = &db.deadlocks()[0].path;
    let ids: Vec<u64> = path.iter().map(|info| info.transaction).collect();
    assert_eq!(ids, [two, one]);
    assert!(is_unlocked(&db));
}

#[test]
fn rolling_back_to_a_save_point_unlocks_the_keys_since() {
    let db = open();
    let mut txn = db.begin();
    txn.put(b"a", b"1").unwrap();
    txn.set_save_point();
    txn.put(b"a", b"2").unwrap();
    txn.put(b"b", b"2").unwrap();
    txn.get_for_update(b"c", &read()).unwrap();
    txn.undo_get_for_update(db.db().default_family(), b"c");
    txn.undo_get_for_update(db.db().default_family(), b"a");
    assert_eq!(db.lock_status().len(), 2);
    txn.rollback_to_save_point().unwrap();
    assert_eq!(db.lock_status().len(), 1);
    put(&db, b"b", b"3").unwrap();
    txn.commit().unwrap();
    assert_eq!(db.db().get(b"a").unwrap().unwrap(), b"1"[..]);
    assert_eq!(codes(txn.rollback_to_save_point()).0, Code::InvalidArgument);
    assert!(is_unlocked(&db));
}

#[test]
fn an_expired_transaction_loses_its_locks_and_cannot_commit() {
    let db = open();
    let expiring = TransactionOptions {
        expiration: 10,
        ..TransactionOptions::default()
    };
    for others_write in [true, false] {
        let mut txn = begin(&db, expiring.clone());
        txn.put(b"k", b"1").unwrap();
        db.db().clock().sleep(Duration::from_millis(20));
        if others_write {
            put(&db, b"k", b"2").unwrap();
            assert_eq!(txn.state(), TransactionState::LocksStolen);
        }
        assert_eq!(codes(txn.commit()).0, Code::Expired);
        assert_eq!(txn.rollback().is_ok(), !others_write);
        drop(txn);
        assert!(is_unlocked(&db));
    }
    assert_eq!(db.db().get(b"k").unwrap().unwrap(), b"2"[..]);
    let mut txn = begin(
        &db,
        TransactionOptions {
            expiration: 60_000,
            ..expiring
        },
    );
    txn.put(b"k", b"3").unwrap();
    txn.commit().unwrap();
}

#[test]
fn limits_of_locks_and_batches_are_reported() {
    let db = pessimistic(&TransactionDbOptions {
        max_num_locks: 1,
        ..TransactionDbOptions::default()
    });
    let limited = || {
        begin(
            &db,
            TransactionOptions {
                max_write_batch_size: 60,
                ..TransactionOptions::default()
            },
        )
    };
    // 12 bytes of header, 1 of the no-op, 4 of kind, lengths and key.
    let mut txn = limited();
    assert_eq!(
        codes(txn.put(b"k", &[7; 44])),
        (Code::Aborted, Subcode::MemoryLimit)
    );
    txn.put(b"k", &[7; 43]).unwrap();
    drop(txn);
    let mut txn = limited();
    txn.put(b"k", b"1").unwrap();
    assert_eq!(
        codes(txn.put(b"l", b"1")),
        (Code::Aborted, Subcode::LockLimit)
    );
    txn.commit().unwrap();
    assert_eq!(db.db().get(b"k").unwrap().unwrap(), b"1"[..]);
    put(&db, b"l", b"1").unwrap();
}

#[test]
fn names_are_unique() {
    let db = open();
    let mut txn = db.begin();
    assert_eq!(codes(txn.prepare()).0, Code::InvalidArgument);
    assert_eq!(codes(txn.set_name(b"")).0, Code::InvalidArgument);
    assert_eq!(codes(txn.set_name(&[7; 513])).0, Code::InvalidArgument);
    txn.set_name(b"first").unwrap();
    assert_eq!(codes(txn.set_name(b"again")).0, Code::InvalidArgument);
    assert_eq!(
        codes(db.begin().set_name(b"first")).0,
        Code::InvalidArgument
    );
    assert_eq!(txn.name(), b"first");
    drop(txn);
    db.begin().set_name(b"first").unwrap();
    let mut txn = begin(
        &db,
        TransactionOptions {
            skip_prepare: false,
            ..TransactionOptions::default()
        },
    );
    assert_eq!(
        codes(txn.commit()),
        (Code::InvalidArgument, Subcode::TxnNotPrepared)
    );
}

#[test]
fn writes_outside_of_transactions_and_without_concurrency_control() {
    let db = open();
    let family = db.create_family("f", &FamilyOptions::default()).unwrap();
    let options = WriteOptions::default();
    db.put(&family, b"a", b"1", &options).unwrap();
    db.put_entity(&family, b"e", &[(b"c", b"v")], &options)
        .unwrap();
    db.delete(&family, b"a", &options).unwrap();
    assert_eq!(
        codes(db.merge(&family, b"a", b"1", &options)).0,
        Code::NotSupported
    );
    let mut batch = WriteBatch::new();
    batch.delete_range(b"a", b"b");
    assert_eq!(codes(db.write(&batch, &options)).0, Code::InvalidArgument);
    assert!(is_unlocked(&db));
    let mut txn = db.begin();
    txn.put_in(&family, b"a", b"2").unwrap();
    let mut free = begin(
        &db,
        TransactionOptions {
            skip_concurrency_control: true,
            ..TransactionOptions::default()
        },
    );
    free.put_in(&family, b"a", b"3").unwrap();
    free.commit().unwrap();
    let mut batch = WriteBatch::new();
    batch.put_in(&family, b"b", b"1");
    batch.put_entity_in(&family, b"e2", &[(b"c", b"v")]);
    batch.single_delete_in(&family, b"s");
    batch.put_log_data(b"log");
    txn.rebuild_from_write_batch(&batch).unwrap();
    assert_eq!(db.lock_status().len(), 4);
    txn.commit().unwrap();
    assert_eq!(family.get(b"a").unwrap().unwrap(), b"2"[..]);
    let both: [(&cairn_db::Family, &[u8]); 2] = [(&family, b"a"), (&family, b"x")];
    let mut txn = db.begin();
    let found = txn.multi_get_for_update(&both, &read());
    assert!(found[0].as_ref().unwrap().is_some() && found[1].as_ref().unwrap().is_none());
    assert_eq!(db.lock_status().len(), 2);
    let mut other = db.begin();
    assert_eq!(
        codes(other.multi_get_for_update(&both, &read()).remove(1)),
        TIMEOUT
    );
}

/// Reads with an iterator of a transaction when a memtable is sealed.
#[derive(Default)]
struct Reader {
    iter: Mutex<Option<BaseDeltaIter>>,
    has_read: AtomicBool,
}

impl EventListener for Reader {
    fn on_memtable_sealed(&self, _: &MemTableInfo) {
        let iter = self.iter.lock().take();
        if let Some(mut iter) = iter {
            iter.seek_to_last();
            self.has_read.store(iter.valid(), SeqCst);
        }
    }
}

/// Regression: a listener that is notified because of a commit can use an iterator of the transaction.
#[test]
fn a_listener_can_use_an_iterator_of_the_transaction_that_is_committed() {
    let reader = Arc::new(Reader::default());
    let db = with_listener(reader.clone(), |request| {
        TransactionDb::open(request, &TransactionDbOptions::default()).unwrap()
    });
    let has_read = (0..1000_u32).any(|n| {
        let mut txn = db.begin();
        txn.put(&n.to_be_bytes(), &[b'v'; 1000]).unwrap();
        *reader.iter.lock() = Some(txn.iter(&read()));
        txn.commit().unwrap();
        *reader.iter.lock() = None;
        reader.has_read.load(SeqCst)
    });
    assert!(has_read, "no memtable was sealed");
}

/// Regression: reads of a family of another database, which may have the number of an own family, are refused.
#[test]
fn reads_of_a_family_of_another_database_are_refused() {
    let (db, other) = (open(), open());
    let foreign = other.db().default_family().clone();
    put(&other, b"k", b"v").unwrap();
    let mut txn = db.begin();
    let refused = [
        txn.get_in(&foreign, b"k", &read()).map(drop),
        txn.get_entity_in(&foreign, b"k", &read()).map(drop),
        txn.multi_get_in(&foreign, &[b"k"], &read(), false)
            .remove(0)
            .map(drop),
        txn.get_for_update_in(&foreign, b"k", &read(), true, true)
            .map(drop),
        txn.get_entity_for_update_in(&foreign, b"k", &read(), true, true)
            .map(drop),
        txn.multi_get_for_update(&[(&foreign, b"k")], &read())
            .remove(0)
            .map(drop),
    ];
    for refused in refused {
        assert_eq!(codes(refused).0, Code::InvalidArgument);
    }
    let mut iter = txn.iter_in(&foreign, &read());
    iter.seek_to_first();
    assert!(!iter.valid());
    assert_eq!(codes(iter.status()).0, Code::InvalidArgument);
    drop(iter);
    assert!(is_unlocked(&db) && is_unlocked(&other));
}

#[test]
fn a_transaction_outlives_the_close_of_its_database() {
    let db = open();
    let mut txn = db.begin();
    txn.put(b"k", b"1").unwrap();
    db.db().close().unwrap();
    assert_eq!(codes(txn.commit()).0, Code::ShutdownInProgress);
    assert!(is_unlocked(&db));
}

/// Runs `step`, which panics.
fn panics<T>(step: impl FnOnce() -> T) {
    assert!(catch_unwind(AssertUnwindSafe(step)).is_err());
}

#[test]
fn a_panic_of_a_callback_leaves_no_lock_behind() {
    let db = open();
    let order = Arc::new(PanickingComparator::default());
    let options = FamilyOptions {
        comparator: KeyOrder::Custom(order.clone()),
        ..FamilyOptions::default()
    };
    let family = db.create_family("panicking", &options).unwrap();
    let mut txn = db.begin();
    txn.set_snapshot_on_next_operation_and_notify(Arc::new(|_| panic!("a notifier panics")));
    panics(|| txn.put(b"a", b"1"));
    assert!(is_unlocked(&db), "after the panic of a notifier");
    db.put(&family, b"y", b"1", &WriteOptions::default())
        .unwrap();
    txn.get_for_update_in(&family, b"x", &read(), false, false)
        .unwrap();
    order.arm(true);
    // It searches for writes after the snapshot, which the read did not.
    panics(|| txn.put_in(&family, b"x", b"1"));
    let status = db.lock_status();
    assert!(status.len() == 1 && !status[0].exclusive, "{status:?}");
    order.arm(false);
    let mut other = db.begin();
    other
        .get_for_update_in(&family, b"x", &read(), false, false)
        .unwrap();
    order.arm(true);
    let start = Endpoint::at(b"w");
    panics(|| txn.get_range_lock(&family, start, Endpoint::at(b"y")));
    assert!(db.range_lock_status().is_empty());
    other.rollback().unwrap();
    txn.rollback().unwrap();
    assert!(is_unlocked(&db));
}
