//! Optimistic transactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use cairn_db::{Family, WriteBatch};
use cairn_observe::EventListener;
use cairn_observe::listener::MemTableInfo;
use cairn_options::{FamilyOptions, ReadOptions, WriteOptions};
use cairn_platform::sync::Mutex;
use cairn_txn::{
    LockBuckets, OptimisticTransactionDb, OptimisticTransactionDbOptions,
    OptimisticTransactionOptions, TransactionState, ValidatePolicy,
};
use cairn_types::{Code, Result, Subcode};

use crate::{codes, optimistic, with_listener};

fn each_policy(test: impl Fn(&OptimisticTransactionDb)) {
    for validate_policy in [ValidatePolicy::Serial, ValidatePolicy::Parallel] {
        test(&optimistic(&OptimisticTransactionDbOptions {
            validate_policy,
            occ_lock_buckets: 16,
            ..OptimisticTransactionDbOptions::default()
        }));
    }
}

fn read() -> ReadOptions {
    ReadOptions::default()
}

#[test]
fn a_transaction_sees_its_writes_and_others_see_them_after_the_commit() {
    each_policy(|db| {
        db.db().put(b"a", b"0").unwrap();
        let mut txn = db.begin();
        txn.put(b"a", b"1").unwrap();
        txn.put(b"b", b"2").unwrap();
        txn.delete(b"c").unwrap();
        assert_eq!(txn.get(b"a", &read()).unwrap().unwrap(), b"1"[..]);
        assert_eq!(db.db().get(b"a").unwrap().unwrap(), b"0"[..]);
        let mut keys = Vec::new();
        let mut iter = txn.iter(&read());
        iter.seek_to_first();
        while iter.valid() {
            keys.push((iter.key().to_vec(), iter.value().to_vec()));
            iter.next();
        }
        let expected = [(b"a", b"1"), (b"b", b"2")].map(|(k, v)| (k.to_vec(), v.to_vec()));
        assert_eq!(keys, expected);
        assert_eq!(txn.counts().puts, 2);
        assert_eq!(txn.num_keys(), 3);
        txn.commit().unwrap();
        assert_eq!(txn.num_keys(), 0);
        assert_eq!(db.db().get(b"b").unwrap().unwrap(), b"2"[..]);
        txn.commit().unwrap();
    });
}

#[test]
fn a_conflicting_commit_is_busy_and_can_be_rolled_back() {
    each_policy(|db| {
        let mut txn = db.begin();
        txn.put(b"k", b"1").unwrap();
        db.write(&batch(b"k"), &WriteOptions::default()).unwrap();
        assert_eq!(codes(txn.commit()), (Code::Busy, Subcode::None));
        assert_eq!(codes(txn.commit()), (Code::Busy, Subcode::None));
        assert_eq!(db.db().get(b"k").unwrap().unwrap(), b"other"[..]);
        txn.rollback().unwrap();
        txn.put(b"k", b"2").unwrap();
        txn.commit().unwrap();
        assert_eq!(txn.state(), TransactionState::Started);
    });
}

/// Regression: with parallel validation, a range deletion could be written between the check and the write of a commit.
#[test]
fn a_range_deletion_is_not_written_within_a_commit() {
    each_policy(|db| {
        // The other keys lengthen the check.
        let others: Vec<_> = (0..200).map(|n| format!("m{n}").into_bytes()).collect();
        let mut both_keys = WriteBatch::new();
        both_keys.delete_range(b"k", b"l");
        both_keys.delete_range(b"z", b"zz");
        let both = std::sync::Barrier::new(2);
        // A panic between the barriers would leave the other thread waiting.
        let mut missed = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..300 {
                    both.wait();
                    db.write(&both_keys, &WriteOptions::default()).unwrap();
                    both.wait();
                }
            });
            for round in 0..300 {
                db.db().put(b"k", b"read").unwrap();
                let mut txn = db.begin();
                txn.get_for_update(b"k", &read()).unwrap();
                for key in &others {
                    txn.get_for_update(key, &read()).unwrap();
                }
                txn.put(b"z", b"written").unwrap();
                both.wait();
                let committed = txn.commit();
                both.wait();
                // A commit comes before the deletion, or sees it.
                let left = db.db().get(b"z").unwrap();
                missed.extend(left.map(|_| (round, committed)));
            }
        });
        assert!(missed.is_empty(), "{missed:?}");
    });
}

/// Commits and writes a key when the first memtable is sealed, and keeps the results.
#[derive(Default)]
struct Committer {
    db: Mutex<Option<OptimisticTransactionDb>>,
    answers: Mutex<Vec<Result<()>>>,
}

impl EventListener for Committer {
    fn on_memtable_sealed(&self, _: &MemTableInfo) {
        let Some(db) = self.db.lock().take() else {
            return;
        };
        let mut txn = db.begin();
        txn.put(b"k", b"listener").unwrap();
        let committed = txn.commit();
        let written = db.write(&batch(b"k"), &WriteOptions::default());
        self.answers.lock().extend([committed, written]);
    }
}

/// Regression: a listener that is notified because of a commit or a write can write the same key, whose bucket is not locked
/// any more.
#[test]
fn a_listener_can_commit_the_key_of_the_commit_that_notifies_it() {
    type Write = fn(&OptimisticTransactionDb, &[u8]) -> Result<()>;
    let ways: [Write; 3] = [
        |db, value| {
            let mut txn = db.begin();
            txn.put(b"k", value)?;
            txn.commit()
        },
        |db, value| {
            let mut batch = WriteBatch::new();
            batch.put(b"k", value);
            db.write(&batch, &WriteOptions::default())
        },
        |db, value| {
            let mut batch = WriteBatch::new();
            batch.put(b"k", value);
            batch.delete_range(b"x", b"y");
            db.write(&batch, &WriteOptions::default())
        },
    ];
    for write in ways {
        let committer = Arc::new(Committer::default());
        let buckets = OptimisticTransactionDbOptions {
            occ_lock_buckets: 1,
            ..OptimisticTransactionDbOptions::default()
        };
        let db = with_listener(committer.clone(), |request| {
            OptimisticTransactionDb::open(request, &buckets).unwrap()
        });
        *committer.db.lock() = Some(db.clone());
        for _ in 0..1000 {
            write(&db, &[b'v'; 1000]).unwrap();
            if !committer.answers.lock().is_empty() {
                break;
            }
        }
        let answers = committer.answers.lock();
        assert_eq!(answers.len(), 2, "no memtable was sealed");
        for answer in &*answers {
            let code = answer.as_ref().err().map(cairn_types::Error::code);
            assert!(matches!(code, None | Some(Code::Busy)), "{answer:?}");
        }
    }
}

fn batch(key: &[u8]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(key, b"other");
    batch
}

#[test]
fn reads_for_update_and_snapshots_are_checked_and_untracked_writes_are_not() {
    each_policy(|db| {
        let mut txn = db.begin();
        assert!(txn.get_for_update(b"r", &read()).unwrap().is_none());
        db.db().put(b"r", b"1").unwrap();
        assert_eq!(codes(txn.commit()), (Code::Busy, Subcode::None));

        let mut txn = db.begin();
        txn.get_for_update(b"r", &read()).unwrap();
        txn.undo_get_for_update(db.db().default_family(), b"r");
        db.db().put(b"r", b"2").unwrap();
        txn.commit().unwrap();

        let snapshot = OptimisticTransactionOptions { set_snapshot: true };
        let mut txn = db.begin_with(&WriteOptions::default(), &snapshot);
        db.db().put(b"s", b"1").unwrap();
        txn.put(b"s", b"2").unwrap();
        assert_eq!(codes(txn.commit()), (Code::Busy, Subcode::None));

        let mut txn = db.begin();
        txn.set_snapshot_on_next_operation();
        assert!(txn.snapshot().is_none());
        db.db().put(b"s", b"3").unwrap();
        txn.put(b"s", b"4").unwrap();
        assert!(txn.snapshot().is_some());
        txn.commit().unwrap();

        let told = Arc::new(AtomicU64::new(0));
        let notified = told.clone();
        let mut txn = db.begin();
        txn.set_snapshot_on_next_operation_and_notify(Arc::new(move |snapshot| {
            notified.store(snapshot.sequence().0, Relaxed);
        }));
        txn.put(b"n", b"1").unwrap();
        let taken = txn.snapshot().expect("a write takes it").sequence().0;
        assert_eq!(told.swap(0, Relaxed), taken);
        txn.put(b"n", b"2").unwrap();
        assert_eq!(told.load(Relaxed), 0, "only the first write takes one");
        txn.commit().unwrap();

        let mut txn = db.begin();
        txn.put_untracked_in(db.db().default_family(), b"u", b"1")
            .unwrap();
        db.db().put(b"u", b"2").unwrap();
        txn.commit().unwrap();
        assert_eq!(db.db().get(b"u").unwrap().unwrap(), b"1"[..]);
    });
}

#[test]
fn save_points_take_back_writes_and_tracked_keys() {
    each_policy(|db| {
        let mut txn = db.begin();
        txn.put(b"a", b"1").unwrap();
        txn.set_save_point();
        txn.put(b"b", b"1").unwrap();
        txn.set_save_point();
        txn.put(b"c", b"1").unwrap();
        txn.pop_save_point().unwrap();
        txn.rollback_to_save_point().unwrap();
        assert_eq!(codes(txn.rollback_to_save_point()).0, Code::NotFound);
        assert_eq!(codes(txn.pop_save_point()).0, Code::NotFound);
        assert_eq!((txn.num_keys(), txn.counts().puts), (1, 1));
        db.db().put(b"b", b"2").unwrap();
        db.db().put(b"c", b"2").unwrap();
        txn.commit().unwrap();
        assert_eq!(db.db().get(b"b").unwrap().unwrap(), b"2"[..]);
    });
}

#[test]
fn a_commit_tries_again_if_the_memtables_do_not_reach_back() {
    each_policy(|db| {
        let forgetful = FamilyOptions {
            max_write_buffer_size_to_maintain: 1,
            ..FamilyOptions::default()
        };
        let forgetful = db.create_family("forgetful", &forgetful).unwrap();
        let txn_of = |family: &Family| {
            let mut txn = db.begin();
            txn.put_in(family, b"k", b"1").unwrap();
            family.put(b"other", b"1").unwrap();
            db.db().flush_families(&[family]).unwrap();
            txn
        };
        // Flushed memtables are kept.
        txn_of(db.db().default_family()).commit().unwrap();
        let mut txn = txn_of(&forgetful);
        assert_eq!(codes(txn.commit()).0, Code::TryAgain);
        txn.rollback().unwrap();
        txn.put(b"k", b"2").unwrap();
        txn.commit().unwrap();
    });
}

#[test]
fn families_are_checked_apart_and_a_dropped_one_fails_the_commit() {
    each_policy(|db| {
        let family = db.create_family("f", &FamilyOptions::default()).unwrap();
        let mut txn = db.begin();
        txn.put_in(&family, b"k", b"1").unwrap();
        db.db().put(b"k", b"other").unwrap();
        txn.commit().unwrap();
        assert_eq!(family.get(b"k").unwrap().unwrap(), b"1"[..]);
        txn.put_in(&family, b"k", b"2").unwrap();
        family.put(b"k", b"3").unwrap();
        assert_eq!(codes(txn.commit()).0, Code::Busy);
        txn.rollback().unwrap();
        txn.put_in(&family, b"k", b"4").unwrap();
        db.db().drop_family(&family).unwrap();
        assert_eq!(codes(txn.commit()).0, Code::InvalidArgument);
    });
}

#[test]
fn counters_incremented_by_many_threads_lose_nothing() {
    each_policy(|db| {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..200_u32 {
                        let key = [(n % 3) as u8];
                        db.transact(|txn| {
                            let old = txn.get_for_update(&key, &read())?;
                            let old =
                                old.map_or(0, |v| u32::from_le_bytes((*v).try_into().unwrap()));
                            txn.put(&key, &(old + 1).to_le_bytes())
                        })
                        .unwrap();
                    }
                });
            }
        });
        let sum: u32 = (0..3_u8)
            .map(|key| db.db().get(&[key]).unwrap().unwrap())
            .map(|value| u32::from_le_bytes((*value).try_into().unwrap()))
            .sum();
        assert_eq!(sum, 800);
    });
}

#[test]
fn databases_share_buckets_and_reject_names_and_prepare() {
    let buckets = Arc::new(LockBuckets::new(2, true));
    assert_eq!(buckets.memory(), 128);
    let options = OptimisticTransactionDbOptions {
        shared_lock_buckets: Some(buckets),
        ..OptimisticTransactionDbOptions::default()
    };
    for db in [optimistic(&options), optimistic(&options)] {
        let mut txn = db.begin();
        txn.put(b"k", b"1").unwrap();
        assert_eq!(codes(txn.set_name(b"n")).0, Code::InvalidArgument);
        assert_eq!(codes(txn.prepare()).0, Code::InvalidArgument);
        txn.commit().unwrap();
    }
}

#[test]
fn writes_that_are_not_indexed_are_committed_but_not_read() {
    each_policy(|db| {
        let mut txn = db.begin();
        txn.put(b"a", b"1").unwrap();
        txn.disable_indexing();
        txn.put(b"a", b"2").unwrap();
        txn.put(b"b", b"2").unwrap();
        txn.set_save_point();
        txn.put(b"c", b"3").unwrap();
        txn.enable_indexing();
        txn.put(b"d", b"4").unwrap();
        assert_eq!(txn.get(b"a", &read()).unwrap().unwrap(), b"1"[..]);
        assert!(txn.get(b"b", &read()).unwrap().is_none());
        assert_eq!(txn.get(b"d", &read()).unwrap().unwrap(), b"4"[..]);
        assert_eq!(txn.num_keys(), 4);
        txn.rollback_to_save_point().unwrap();
        // The index is rebuilt without the writes that were excluded.
        assert_eq!(txn.get(b"a", &read()).unwrap().unwrap(), b"1"[..]);
        assert!(txn.get(b"b", &read()).unwrap().is_none());
        txn.put(b"c", b"5").unwrap();
        assert_eq!(txn.get(b"c", &read()).unwrap().unwrap(), b"5"[..]);
        txn.commit().unwrap();
        for (key, value) in [(b"a", b"2"), (b"b", b"2"), (b"c", b"5")] {
            assert_eq!(db.db().get(key).unwrap().unwrap(), value[..]);
        }
        assert!(db.db().get(b"d").unwrap().is_none());
    });
}

#[test]
fn a_family_that_only_ingests_rejects_each_write_and_the_transaction_goes_on() {
    each_policy(|db| {
        let options = FamilyOptions {
            disallow_memtable_writes: true,
            ..FamilyOptions::default()
        };
        let family = db.db().create_family("loaded", &options).unwrap();
        let mut txn = db.begin();
        txn.put(b"a", b"1").unwrap();
        assert_eq!(
            codes(txn.put_in(&family, b"a", b"1")).0,
            Code::InvalidArgument
        );
        assert_eq!(codes(txn.delete_in(&family, b"a")).0, Code::InvalidArgument);
        assert_eq!(
            codes(txn.put_untracked_in(&family, b"a", b"1")).0,
            Code::InvalidArgument
        );
        txn.get_for_update_in(&family, b"a", &read(), true, true)
            .unwrap();
        txn.commit().unwrap();
        assert_eq!(db.db().get(b"a").unwrap().unwrap(), b"1"[..]);
        assert!(family.get(b"a").unwrap().is_none());
    });
}
