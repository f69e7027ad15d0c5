//! Transactions on families whose keys have timestamps: validation, commit, two-phase commit, and crashes.

use cairn_db::{Family, FamilyDescriptor, OpenRequest};
use cairn_indexed::BaseDeltaIter;
use cairn_options::{DbOptions, FamilyOptions, ReadOptions, WriteOptions};
use cairn_platform::World;
use cairn_sim::{CrashModel, SimWorld};
use cairn_txn::{
    OptimisticTransactionDb, Transaction, TransactionDb, TransactionDbOptions, TransactionOptions,
    TransactionState,
};
use cairn_types::{Code, KeyOrder, Subcode};

use crate::{codes, with_request};

/// The default family has timestamps, `reverse` has them in reverse order, and `plain` has none.
fn families() -> Vec<FamilyDescriptor> {
    let orders = [
        ("default", KeyOrder::BytewiseU64Ts),
        ("reverse", KeyOrder::ReverseBytewiseU64Ts),
        ("plain", KeyOrder::Bytewise),
    ];
    let descriptor = |(name, comparator)| {
        let options = FamilyOptions {
            comparator,
            merge_operator: cairn_options::merge_operators::from_text("stringappend").ok(),
            ..FamilyOptions::default()
        };
        FamilyDescriptor::new(name, options)
    };
    orders.map(descriptor).into()
}

fn open_with(world: &World, validates: bool) -> TransactionDb {
    let options = TransactionDbOptions {
        transaction_lock_timeout: 0,
        default_lock_timeout: 0,
        enable_udt_validation: validates,
        ..TransactionDbOptions::default()
    };
    with_request(world.clone(), |request| {
        let db = DbOptions {
            create_if_missing: true,
            create_missing_column_families: true,
            ..request.options.clone()
        };
        let request = OpenRequest {
            options: &db,
            families: &families(),
            others: None,
            path: request.path,
            read_only: false,
            world: request.world.clone(),
        };
        TransactionDb::open(&request, &options).unwrap()
    })
}

fn open(world: &World) -> TransactionDb {
    open_with(world, true)
}

fn at(timestamp: u64) -> ReadOptions {
    ReadOptions {
        timestamp: Some(timestamp.to_le_bytes().to_vec()),
        ..ReadOptions::default()
    }
}

fn get(family: &Family, key: &[u8], timestamp: u64) -> Option<Vec<u8>> {
    let found = family.get_with(key, &at(timestamp)).unwrap();
    found.map(|value| value.to_vec())
}

fn family(db: &TransactionDb, name: &str) -> Family {
    db.db().family(name).unwrap()
}

/// Commits a put of `key` to `value` at `timestamp`.
fn put(db: &TransactionDb, key: &[u8], value: &[u8], timestamp: u64) {
    let mut txn = db.begin();
    txn.put(key, value).unwrap();
    txn.set_commit_timestamp(timestamp).unwrap();
    txn.commit().unwrap();
}

#[test]
fn a_commit_past_the_memtable_has_its_timestamp() {
    let sim = SimWorld::new(1);
    let db = open(&sim.world);
    let reverse = family(&db, "reverse");
    put(&db, b"a", b"0", 5);
    let past = TransactionOptions {
        commit_bypass_memtable: true,
        ..TransactionOptions::default()
    };
    let mut txn = db.begin_with(&WriteOptions::default(), &past);
    txn.set_name(b"t").unwrap();
    txn.put(b"b", b"1").unwrap();
    txn.delete(b"a").unwrap();
    txn.merge_in(&reverse, b"b", b"2").unwrap();
    txn.prepare().unwrap();
    assert!(txn.commit().is_err(), "it needs a timestamp");
    txn.set_commit_timestamp(10).unwrap();
    txn.commit().unwrap();
    let check = |db: &TransactionDb| {
        let (default, reverse) = (db.db().default_family(), family(db, "reverse"));
        assert_eq!(get(default, b"a", 9).unwrap(), b"0");
        assert_eq!(get(default, b"a", 10), None);
        assert_eq!(get(default, b"b", 9), None);
        assert_eq!(get(default, b"b", 10).unwrap(), b"1");
        assert_eq!(get(&reverse, b"b", 9), None);
        assert_eq!(get(&reverse, b"b", 10).unwrap(), b"2");
    };
    check(&db);
    check(&open(&SimWorld::on(sim.fs.image(), 2).world));
    db.db().flush_families(&[]).unwrap();
    check(&db);
}

#[test]
fn writes_get_the_commit_timestamp_and_need_it() {
    let db = open(&World::in_memory());
    let (reverse, plain) = (family(&db, "reverse"), family(&db, "plain"));
    let mut txn = db.begin();
    txn.put(b"a", b"1").unwrap();
    txn.delete_in(&reverse, b"a").unwrap();
    txn.merge_in(&reverse, b"b", b"2").unwrap();
    txn.put_in(&plain, b"p", b"3").unwrap();
    assert_eq!(txn.commit_timestamp(), None);
    txn.set_commit_timestamp(10).unwrap();
    assert_eq!(txn.commit_timestamp(), Some(10));
    txn.commit().unwrap();
    assert_eq!(get(db.db().default_family(), b"a", 9), None);
    assert_eq!(get(db.db().default_family(), b"a", 10).unwrap(), b"1");
    assert_eq!(get(&reverse, b"b", 10).unwrap(), b"2");
    let (_, stamp) = reverse.get_with_timestamp(b"b", &at(20)).unwrap().unwrap();
    assert_eq!(stamp, 10_u64.to_le_bytes());
    let plain = plain.get_with(b"p", &ReadOptions::default()).unwrap();
    assert_eq!(plain.unwrap().to_vec(), b"3");

    let mut txn = db.begin();
    txn.put(b"a", b"2").unwrap();
    let error = txn.commit().unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.to_string().contains("commit timestamp"), "{error}");
    drop(txn);
    assert_eq!(get(db.db().default_family(), b"a", 99).unwrap(), b"1");
    // The locks are released.
    put(&db, b"a", b"3", 11);
}

#[test]
fn timestamps_only_ascend_and_follow_the_read_timestamp() {
    let db = open(&World::in_memory());
    let mut txn = db.begin();
    txn.set_read_timestamp_for_validation(20).unwrap();
    let lower = txn.set_read_timestamp_for_validation(19);
    assert_eq!(codes(lower).0, Code::InvalidArgument);
    txn.set_read_timestamp_for_validation(21).unwrap();
    assert_eq!(codes(txn.set_commit_timestamp(21)).0, Code::InvalidArgument);
    txn.set_commit_timestamp(22).unwrap();

    let world = World::in_memory();
    let optimistic = with_request(world, |request| {
        OptimisticTransactionDb::open(request, &Default::default()).unwrap()
    });
    let mut txn = optimistic.begin();
    assert_eq!(codes(txn.set_commit_timestamp(1)).0, Code::NotSupported);
}

#[test]
fn a_key_with_a_newer_version_cannot_be_read_for_update_or_written() {
    for flush in [false, true] {
        let db = open(&World::in_memory());
        put(&db, b"a", b"old", 5);
        put(&db, b"b", b"1", 7);
        let mut txn = db.begin();
        txn.delete(b"b").unwrap();
        txn.set_commit_timestamp(10).unwrap();
        txn.commit().unwrap();
        let family = db.db().default_family().clone();
        let low = 30_u64.to_le_bytes();
        family
            .delete_range_with_timestamp(b"r", b"s", &low)
            .unwrap();
        if flush {
            db.db().flush_families(&[&family]).unwrap();
        }
        let mut txn = db.begin();
        let options = ReadOptions::default();
        let missing = txn.get_for_update(b"a", &options);
        assert_eq!(codes(missing).0, Code::InvalidArgument);
        txn.set_read_timestamp_for_validation(9).unwrap();
        let found = txn.get_for_update(b"a", &options).unwrap().unwrap();
        assert_eq!(found.to_vec(), b"old");
        // Deleted at 10, by a range deletion at 30.
        assert_eq!(codes(txn.get_for_update(b"b", &options)).0, Code::Busy);
        assert_eq!(codes(txn.put(b"b", b"2")).0, Code::Busy);
        assert_eq!(codes(txn.put(b"r", b"2")).0, Code::Busy);
        assert_eq!(
            codes(txn.get_for_update(b"a", &at(8))).0,
            Code::InvalidArgument
        );
        assert_eq!(txn.num_keys(), 1);
        let unchecked = txn.get_for_update_in(&family, b"a", &options, true, false);
        assert_eq!(codes(unchecked).0, Code::InvalidArgument);
        txn.set_read_timestamp_for_validation(10).unwrap();
        assert!(txn.get_for_update(b"b", &options).unwrap().is_none());
        txn.put(b"b", b"3").unwrap();
        txn.set_commit_timestamp(12).unwrap();
        txn.commit().unwrap();
        assert_eq!(get(&family, b"b", 11), None);
        assert_eq!(get(&family, b"b", 12).unwrap(), b"3");
    }
}

#[test]
fn without_validation_reads_for_update_see_the_latest_version() {
    let db = open_with(&World::in_memory(), false);
    put(&db, b"a", b"1", 5);
    let mut txn = db.begin();
    let found = txn.get_for_update(b"a", &ReadOptions::default()).unwrap();
    assert_eq!(found.unwrap().to_vec(), b"1");
    txn.set_read_timestamp_for_validation(1).unwrap();
    let found = txn.get_for_update(b"a", &ReadOptions::default());
    assert_eq!(codes(found).0, Code::InvalidArgument);
    txn.put(b"a", b"2").unwrap();
}

/// Regression: a read for update with a timestamp, in a family without timestamps, fails before it locks the key, also for
/// a key that the transaction has written itself.
#[test]
fn a_timestamp_in_a_plain_family_is_rejected_before_the_lock() {
    let db = open(&World::in_memory());
    let plain = family(&db, "plain");
    let mut reader = db.begin();
    let refused = reader.get_for_update_in(&plain, b"read", &at(5), true, true);
    assert_eq!(codes(refused).0, Code::InvalidArgument);
    let mut writer = db.begin();
    writer.put_in(&plain, b"read", b"v").unwrap();

    reader.put_in(&plain, b"own", b"v").unwrap();
    let refused = reader.get_for_update_in(&plain, b"own", &at(5), true, true);
    assert_eq!(codes(refused).0, Code::InvalidArgument);
}

/// Regression: reads of several keys for update lock none of them if the timestamp is rejected for one.
#[test]
fn a_timestamp_in_a_plain_family_is_rejected_before_the_locks_of_several_keys() {
    let db = open(&World::in_memory());
    let (default, plain) = (db.db().default_family(), family(&db, "plain"));
    let mut reader = db.begin();
    reader.set_read_timestamp_for_validation(5).unwrap();
    let keys = [(default, &b"one"[..]), (&plain, b"two")];
    for refused in reader.multi_get_for_update(&keys, &at(5)) {
        assert_eq!(codes(refused).0, Code::InvalidArgument);
    }
    let mut writer = db.begin();
    writer.put(b"one", b"v").unwrap();
    writer.put_in(&plain, b"two", b"v").unwrap();
}

#[test]
fn a_snapshot_is_validated_as_well() {
    let db = open(&World::in_memory());
    put(&db, b"a", b"1", 5);
    let mut txn = db.begin();
    txn.set_snapshot();
    put(&db, b"a", b"2", 6);
    assert_eq!(codes(txn.put(b"a", b"3")).0, Code::Busy);
    txn.put(b"b", b"3").unwrap();
}

#[test]
fn a_key_has_one_lock_for_all_timestamps() {
    let db = open(&World::in_memory());
    let (mut first, mut second) = (db.begin(), db.begin());
    first.put(b"a", b"1").unwrap();
    let locked = codes(second.put(b"a", b"2"));
    assert_eq!(locked, (Code::TimedOut, Subcode::LockTimeout));
    let mut batch = cairn_db::WriteBatch::new();
    let stamp = 3_u64.to_le_bytes();
    batch.put_with_timestamp(db.db().default_family(), b"b", &stamp, b"1");
    let written = db.write(&batch, &Default::default());
    assert_eq!(codes(written).0, Code::NotSupported);
    let raw = cairn_db::WriteBatch::from_data(batch.data()).unwrap();
    second.put(b"b", b"2").unwrap();
    let written = codes(db.write(&raw, &Default::default()));
    assert_eq!(written, (Code::TimedOut, Subcode::LockTimeout));
}

/// Keys, values and timestamps, in both directions, which must agree.
fn entries(mut iter: BaseDeltaIter) -> Vec<(Vec<u8>, Vec<u8>, Vec<u8>)> {
    let entry = |iter: &BaseDeltaIter| {
        let [key, value, stamp] = [iter.key(), iter.value(), iter.timestamp()].map(<[u8]>::to_vec);
        (key, value, stamp)
    };
    let (mut all, mut back) = (Vec::new(), Vec::new());
    iter.seek_to_first();
    while iter.valid() {
        all.push(entry(&iter));
        iter.next();
    }
    iter.seek_to_last();
    while iter.valid() {
        back.push(entry(&iter));
        iter.prev();
    }
    iter.status().unwrap();
    back.reverse();
    assert_eq!(all, back);
    all
}

#[test]
fn reads_combine_the_batch_with_the_database_at_a_timestamp() {
    let db = open(&World::in_memory());
    let reverse = family(&db, "reverse");
    // Keys of which one is a prefix of the other, and whose last bytes decide.
    let mut txn = db.begin();
    for key in [&b"k"[..], b"k12345678", b"k12345679", b"z"] {
        txn.put(key, b"db").unwrap();
        txn.put_in(&reverse, key, b"db").unwrap();
    }
    txn.set_commit_timestamp(4).unwrap();
    txn.commit().unwrap();
    put(&db, b"later", b"db", 9);

    let mut txn = db.begin();
    let default = db.db().default_family().clone();
    for family in [&default, &reverse] {
        txn.put_in(family, b"k12345678", b"own").unwrap();
        txn.delete_in(family, b"k").unwrap();
        txn.merge_in(family, b"k12345679", b"more").unwrap();
        txn.put_in(family, b"k1", b"own").unwrap();
        let get = |key: &[u8]| {
            let found = txn.get_in(family, key, &at(5)).unwrap();
            found.map(|value| value.to_vec())
        };
        assert_eq!(get(b"k"), None);
        assert_eq!(get(b"k12345678").unwrap(), b"own");
        assert_eq!(get(b"k12345679").unwrap(), b"db,more");
        assert_eq!(get(b"later"), None);
        let mut expected = vec![
            (b"k1".to_vec(), b"own".to_vec(), Vec::new()),
            (b"k12345678".to_vec(), b"own".to_vec(), Vec::new()),
            (b"k12345679".to_vec(), b"db,more".to_vec(), Vec::new()),
            (b"z".to_vec(), b"db".to_vec(), 4_u64.to_le_bytes().to_vec()),
        ];
        if family.name() == "reverse" {
            expected.reverse();
        }
        assert_eq!(entries(txn.iter_in(family, &at(5))), expected);
    }
    txn.set_save_point();
    txn.put(b"k2", b"gone").unwrap();
    txn.rollback_to_save_point().unwrap();
    assert_eq!(entries(txn.iter(&at(5))).len(), 4);
    assert_eq!(
        codes(txn.get(b"k", &ReadOptions::default())).0,
        Code::InvalidArgument
    );
    // The batch of another transaction is copied with its keys.
    let copied = txn.write_batch().with_batch(cairn_db::WriteBatch::clone);
    drop(txn);
    let mut copy = db.begin();
    copy.rebuild_from_write_batch(&copied).unwrap();
    assert_eq!(entries(copy.iter(&at(5))).len(), 4);
    copy.set_commit_timestamp(12).unwrap();
    copy.commit().unwrap();
    assert_eq!(get(&default, b"k12345679", 12).unwrap(), b"db,more");
    assert_eq!(get(&default, b"k12345679", 11).unwrap(), b"db");
}

/// Prepares a transaction that writes `key` to all families.
fn prepared(db: &TransactionDb, name: &[u8], key: &[u8]) -> Transaction {
    let mut txn = db.begin();
    txn.set_name(name).unwrap();
    for name in ["default", "reverse", "plain"] {
        txn.put_in(&family(db, name), key, name.as_bytes()).unwrap();
    }
    txn.prepare().unwrap();
    txn
}

#[test]
fn a_prepared_transaction_gets_its_timestamp_at_the_commit() {
    let world = World::in_memory();
    let db = open(&world);
    let mut txn = prepared(&db, b"one", b"a");
    assert_eq!(codes(txn.commit()).0, Code::InvalidArgument);
    assert_eq!(txn.state(), TransactionState::Prepared);
    // A later write is part of the commit.
    txn.put(b"b", b"later").unwrap();
    txn.set_commit_timestamp(10).unwrap();
    txn.commit().unwrap();
    let mut rolled_back = prepared(&db, b"two", b"c");
    rolled_back.rollback().unwrap();
    drop(prepared(&db, b"three", b"d"));
    drop((txn, rolled_back, db));

    // The log has the sections with placeholders, and the timestamp of the commit.
    let db = open(&world);
    let (default, reverse) = (db.db().default_family(), family(&db, "reverse"));
    for (family, value) in [(default, b"default"), (&reverse, b"reverse")] {
        assert_eq!(get(family, b"a", 9), None);
        assert_eq!(get(family, b"a", 10).unwrap(), value);
        assert_eq!(get(family, b"c", 99), None);
        assert_eq!(get(family, b"d", 99), None);
    }
    assert_eq!(get(default, b"b", 10).unwrap(), b"later");
    // The recovered transaction holds the lock of the plain key.
    let mut other = db.begin();
    assert_eq!(codes(other.put(b"d", b"2")).0, Code::TimedOut);
    let mut recovered = db.transaction_by_name(b"three").unwrap();
    let own = recovered.get(b"d", &at(1)).unwrap().unwrap();
    assert_eq!(own.to_vec(), b"default");
    assert_eq!(codes(recovered.commit()).0, Code::InvalidArgument);
    recovered.set_commit_timestamp(20).unwrap();
    recovered.commit().unwrap();
    assert_eq!(get(default, b"d", 19), None);
    assert_eq!(get(&reverse, b"d", 20).unwrap(), b"reverse");
}

#[test]
fn a_crash_leaves_commits_with_their_timestamps_or_not_at_all() {
    let sim = SimWorld::new(7);
    let db = open(&sim.world);
    let mut ends = Vec::new();
    for number in 1..=6_u64 {
        let key = [number as u8];
        let mut txn = match number % 2 {
            0 => prepared(&db, &key, &key),
            _ => db.begin(),
        };
        if number % 2 == 1 {
            txn.put(&key, b"default").unwrap();
        }
        if number == 4 {
            db.db().flush_families(&[db.db().default_family()]).unwrap();
        }
        txn.set_commit_timestamp(number * 10).unwrap();
        txn.commit().unwrap();
        ends.push(sim.fs.operations());
    }
    drop(db);
    let trace = sim.fs.trace();
    let mut images = 0;
    for at in (ends[0]..trace.len()).step_by(2) {
        for model in [CrashModel::Kill, CrashModel::Prefix] {
            for image in trace.images(at, model, 1).take(3) {
                images += 1;
                let crashed = SimWorld::on(image, 2);
                let db = open(&crashed.world);
                let family = db.db().default_family();
                let mut missing = 0;
                for number in 1..=6_u64 {
                    let key = [number as u8];
                    let found = get(family, &key, number * 10);
                    assert_eq!(get(family, &key, number * 10 - 1), None, "{number}");
                    assert!(found.as_deref().is_none_or(|value| value == b"default"));
                    let acknowledged = ends[number as usize - 1] <= at;
                    if model == CrashModel::Kill && acknowledged {
                        assert!(found.is_some(), "commit {number} is lost at {at}");
                    }
                    // Commits are recovered in order.
                    assert!(
                        missing == 0 || found.is_none(),
                        "{number} follows {missing}"
                    );
                    if found.is_none() {
                        missing = number;
                    }
                }
                for mut undecided in db.prepared_transactions() {
                    let number = undecided.name()[0];
                    undecided.set_commit_timestamp(99).unwrap();
                    undecided.commit().unwrap();
                    assert_eq!(get(family, &[number], 98), None);
                    assert_eq!(get(family, &[number], 99).unwrap(), b"default");
                }
            }
        }
    }
    assert!(images > 20, "{images}");
}

#[test]
fn the_stream_of_updates_has_the_timestamps_of_prepared_transactions() {
    let world = World::in_memory();
    let db = open(&world);
    let from = db.db().latest_sequence().plus(1);
    let mut txn = db.begin();
    txn.set_name(b"t").unwrap();
    txn.put(b"a", b"1").unwrap();
    txn.delete(b"b").unwrap();
    txn.prepare().unwrap();
    txn.set_commit_timestamp(7).unwrap();
    txn.commit().unwrap();
    let updates = db.db().updates_since(from).unwrap();
    let (_, batch) = updates.batch().unwrap();
    let keys = batch.records().map(|record| match record.unwrap() {
        cairn_db::Record::Put { key, .. } | cairn_db::Record::Delete { key, .. } => key.to_vec(),
        record => panic!("{record:?}"),
    });
    let keys: Vec<_> = keys.collect();
    let timestamp = 7_u64.to_le_bytes();
    let expected = [b"a", b"b"].map(|key| [&key[..], &timestamp].concat());
    assert_eq!(keys, expected);
}
