//! Secondary indexes: the entries are those of the records, whatever transactions do.

mod golden;
mod histories;
mod searches;

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cairn_db::{Db, Family, OpenRequest, Record, WriteBatch};
use cairn_options::{DbOptions, FamilyOptions, ReadOptions, WriteOptions};
use cairn_platform::World;
use cairn_txn::{
    OptimisticTransactionDb, OptimisticTransactionDbOptions, SecondaryIndex, SimpleSecondaryIndex,
    Transaction, TransactionDb, TransactionDbOptions, TransactionOptions, WritePolicy,
};
use cairn_types::{Code, Error, Result, Subcode};

use crate::{codes, with_request};

/// Key and value of an entry.
type Entry = (Vec<u8>, Vec<u8>);

/// An index that stores the column in capitals. The entries, which have the value as it was written, are found by its
/// first letter. Its values must not begin with `!`, after which it panics if there is another one.
#[derive(Debug)]
struct Capitals {
    column: &'static [u8],
    number: u8,
}

impl SecondaryIndex for Capitals {
    fn primary_family(&self) -> &str {
        "default"
    }

    fn secondary_family(&self) -> &str {
        "capitals"
    }

    fn primary_column(&self) -> &[u8] {
        self.column
    }

    fn updated_value<'v>(&self, _: &[u8], value: &'v [u8]) -> Result<Option<Cow<'v, [u8]>>> {
        let capitals = value.to_ascii_uppercase();
        Ok((capitals != value).then_some(capitals.into()))
    }

    fn key_prefix<'v>(&self, _: &'v [u8], value: &'v [u8]) -> Result<Cow<'v, [u8]>> {
        assert!(!value.starts_with(b"!!"), "on purpose");
        match value.first() {
            Some(b'!') => Err(Error::aborted("not this value")),
            _ => Ok(value.get(..1).unwrap_or_default().into()),
        }
    }

    fn finalized_prefix<'p>(&self, prefix: &'p [u8]) -> Result<Cow<'p, [u8]>> {
        match prefix {
            b"?" => Err(Error::aborted("not this search")),
            _ => Ok([&[self.number, prefix.len() as u8], prefix].concat().into()),
        }
    }

    fn secondary_value<'v>(
        &self,
        key: &'v [u8],
        value: &'v [u8],
        previous: &'v [u8],
    ) -> Result<Option<Cow<'v, [u8]>>> {
        assert_eq!(value, previous.to_ascii_uppercase());
        Ok((!key.is_empty()).then_some(previous.into()))
    }
}

fn by_value() -> Arc<dyn SecondaryIndex> {
    Arc::new(SimpleSecondaryIndex::new("default", b"", "by_value"))
}

fn by_hue() -> Arc<dyn SecondaryIndex> {
    Arc::new(SimpleSecondaryIndex::new("default", b"hue", "by_hue"))
}

/// The index of another family, with entries in that family.
fn within() -> Arc<dyn SecondaryIndex> {
    Arc::new(SimpleSecondaryIndex::new("shapes", b"form", "by_hue"))
}

fn capitals() -> Arc<dyn SecondaryIndex> {
    Arc::new(Capitals {
        column: b"name",
        number: 0xf1,
    })
}

fn options(indexes: Vec<Arc<dyn SecondaryIndex>>) -> TransactionDbOptions {
    TransactionDbOptions {
        secondary_indices: indexes,
        transaction_lock_timeout: 0,
        default_lock_timeout: 0,
        ..TransactionDbOptions::default()
    }
}

/// The indexes of most tests.
fn indexes() -> Vec<Arc<dyn SecondaryIndex>> {
    vec![by_value(), by_hue(), within(), capitals()]
}

const FAMILIES: [&str; 4] = ["by_value", "by_hue", "shapes", "capitals"];

/// Opens the database in `world`, with all families.
fn open_in(world: &World, options: &TransactionDbOptions) -> TransactionDb {
    let db = with_request(world.clone(), |request| {
        TransactionDb::open(request, options).unwrap()
    });
    for name in FAMILIES {
        if db.db().family(name).is_none() {
            db.create_family(name, &FamilyOptions::default()).unwrap();
        }
    }
    db
}

fn open(indexes: Vec<Arc<dyn SecondaryIndex>>) -> TransactionDb {
    open_in(&World::in_memory(), &options(indexes))
}

fn family(db: &Db, name: &str) -> Family {
    db.family(name).unwrap()
}

/// The records of a family, as `transaction` sees them if there is one.
fn content(db: &Db, transaction: Option<&Transaction>, name: &str) -> Vec<Entry> {
    let (family, options) = (family(db, name), ReadOptions::default());
    let mut all = Vec::new();
    match transaction {
        None => {
            let mut iter = family.iter_with(&options);
            iter.seek_to_first();
            while iter.valid() {
                all.push((iter.key().to_vec(), iter.value().to_vec()));
                iter.next();
            }
            iter.status().unwrap();
        }
        Some(transaction) => {
            let mut iter = transaction.iter_in(&family, &options);
            iter.seek_to_first();
            while iter.valid() {
                all.push((iter.key().to_vec(), iter.value().to_vec()));
                iter.next();
            }
            iter.status().unwrap();
        }
    }
    all
}

/// A record: its key and its columns.
type Columns = (Vec<u8>, Vec<Entry>);

/// The records of a family with their columns, as `transaction` sees them if there is one.
fn records(db: &Db, transaction: Option<&Transaction>, name: &str) -> Vec<Columns> {
    let (family, options) = (family(db, name), ReadOptions::default());
    let keys = content(db, transaction, name);
    let columns = |key: &[u8]| {
        let found = match transaction {
            None => family.get_entity(key, &options),
            Some(transaction) => transaction.get_entity_in(&family, key, &options),
        };
        let found = found.unwrap().expect("the iterator returned it");
        let owned = found
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        owned.collect()
    };
    let all = keys.into_iter();
    all.map(|(key, _)| (key.clone(), columns(&key))).collect()
}

/// The length of `value` as a varint of one byte, and `value`.
fn prefixed(value: &[u8]) -> Vec<u8> {
    assert!(value.len() < 128);
    [&[value.len() as u8], value].concat()
}

/// Checks that the entries are those of the records, as `transaction` sees both if there is one.
fn check(db: &Db, transaction: Option<&Transaction>) {
    let [mut by_value, mut by_hue, mut capitals] = [const { Vec::new() }; 3];
    for (key, columns) in records(db, transaction, "default") {
        for (name, value) in columns {
            let entry = [prefixed(&value), key.clone()].concat();
            match &name[..] {
                b"" => by_value.push(entry),
                b"hue" => by_hue.push(entry),
                b"name" => {
                    assert_eq!(value, value.to_ascii_uppercase());
                    let first = prefixed(&value[..value.len().min(1)]);
                    capitals.push([&[0xf1], &first[..], &key].concat());
                }
                _ => {}
            }
        }
    }
    for (key, columns) in records(db, transaction, "shapes") {
        let forms = columns.iter().filter(|(name, _)| name == b"form");
        by_hue.extend(forms.map(|(_, form)| [prefixed(form), key.clone()].concat()));
    }
    for (name, mut expected) in [
        ("by_value", by_value),
        ("by_hue", by_hue),
        ("capitals", capitals),
    ] {
        expected.sort();
        let found = content(db, transaction, name);
        let keys: Vec<_> = found.into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, expected, "{name}");
    }
}

/// The records of the batch of a transaction: kind, family and key.
fn batch_of(transaction: &Transaction) -> Vec<(char, u32, Vec<u8>)> {
    transaction.write_batch().with_batch(|batch| {
        let records = batch.records().map(|record| match record.unwrap() {
            Record::Put { family, key, .. } => ('p', family, key.to_vec()),
            Record::PutEntity { family, key, .. } => ('e', family, key.to_vec()),
            Record::Delete { family, key } => ('d', family, key.to_vec()),
            Record::SingleDelete { family, key } => ('s', family, key.to_vec()),
            other => panic!("{other:?}"),
        });
        records.collect()
    })
}

#[test]
fn the_batch_of_a_transaction_has_the_records_of_rocksdb() {
    let db = open(indexes());
    let [default, by_value, by_hue, shapes, capitals] =
        ["default", "by_value", "by_hue", "shapes", "capitals"].map(|name| family(db.db(), name));
    let mut txn = db.begin();
    txn.put(b"k", b"red").unwrap();
    let entity: [(&[u8], &[u8]); 3] = [(b"name", b"ruby"), (b"hue", b"red"), (b"x", b"y")];
    txn.put_entity_in(&default, b"k", &entity).unwrap();
    txn.delete(b"k").unwrap();
    txn.delete(b"absent").unwrap();
    txn.single_delete_in(&default, b"absent").unwrap();
    // No index has the default column of this family, nor this family.
    txn.put_in(&shapes, b"k", b"round").unwrap();
    assert_eq!(
        batch_of(&txn),
        [
            ('p', default.id(), b"k".to_vec()),
            ('p', by_value.id(), b"\x03redk".to_vec()),
            ('s', by_value.id(), b"\x03redk".to_vec()),
            ('e', default.id(), b"k".to_vec()),
            ('p', by_hue.id(), b"\x03redk".to_vec()),
            ('p', capitals.id(), b"\xf1\x01Rk".to_vec()),
            ('s', by_hue.id(), b"\x03redk".to_vec()),
            ('s', capitals.id(), b"\xf1\x01Rk".to_vec()),
            ('d', default.id(), b"k".to_vec()),
            ('p', shapes.id(), b"k".to_vec()),
        ]
    );
    txn.put_entity_in(&default, b"k", &entity).unwrap();
    txn.commit().unwrap();
    check(db.db(), None);
    assert_eq!(
        content(db.db(), None, "capitals"),
        [(b"\xf1\x01Rk".to_vec(), b"ruby".to_vec())]
    );
    let stored = default.get_entity(b"k", &ReadOptions::default());
    assert_eq!(stored.unwrap().unwrap().get(b"name"), Some(&b"RUBY"[..]));
}

#[test]
fn a_merge_into_an_indexed_family_is_refused() {
    let family = FamilyOptions {
        merge_operator: cairn_options::merge_operators::from_text("stringappend").ok(),
        ..FamilyOptions::default()
    };
    let db = open(indexes());
    let other = db.create_family("other", &family).unwrap();
    let default = db.db().default_family();
    let mut txn = db.begin();
    let mut batch = WriteBatch::new();
    batch.merge(b"k", b"1");
    for refused in [
        txn.merge(b"k", b"1"),
        txn.merge_in(default, b"k", b"1"),
        txn.merge_untracked_in(default, b"k", b"1"),
        db.merge(default, b"k", b"1", &WriteOptions::default()),
        db.write(&batch, &WriteOptions::default()),
    ] {
        assert_eq!(codes(refused).0, Code::NotSupported);
    }
    assert!(batch_of(&txn).is_empty());
    // RocksDB refuses these, too.
    txn.merge_in(&other, b"k", b"1").unwrap();
    txn.commit().unwrap();
    db.merge(&other, b"k", b"2", &WriteOptions::default())
        .unwrap();
    assert_eq!(content(db.db(), None, "other")[0].1, b"1,2");
}

/// Regression: a batch of which a write was refused is not written, neither to an indexed family nor to another one, and
/// not added to a transaction.
#[test]
fn a_refused_batch_is_not_written() {
    let db = open(indexes());
    let other = db
        .create_family("other", &FamilyOptions::default())
        .unwrap();
    for family in [db.db().default_family(), &other] {
        let mut batch = WriteBatch::new();
        batch.set_max_bytes(100);
        batch.put_in(family, b"k", b"red");
        batch.put_in(family, b"l", &[7; 100]);
        batch.put_in(family, b"m", b"blue");
        let refused = batch.refused().cloned().unwrap();
        let written = db.write(&batch, &WriteOptions::default());
        assert_eq!(written.unwrap_err(), refused);
        let mut txn = db.begin();
        assert_eq!(txn.rebuild_from_write_batch(&batch).unwrap_err(), refused);
        assert!(batch_of(&txn).is_empty());
        assert!(content(db.db(), None, family.name()).is_empty());
        batch.forget_refused();
        db.write(&batch, &WriteOptions::default()).unwrap();
        assert_eq!(content(db.db(), None, family.name()).len(), 2);
    }
    check(db.db(), None);
}

#[test]
fn indexes_require_the_policy_committed_and_locks() {
    for policy in [WritePolicy::Prepared, WritePolicy::Unprepared] {
        let options = TransactionDbOptions {
            write_policy: policy,
            ..options(indexes())
        };
        let refused = with_request(World::in_memory(), |request| {
            TransactionDb::open(request, &options).map(drop)
        });
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), Code::NotSupported);
        assert!(refused.text().contains("secondary indexes"), "{refused}");
    }
}

#[test]
fn a_write_that_an_index_fails_leaves_the_transaction_unchanged() {
    let db = open(indexes());
    let default = db.db().default_family().clone();
    let mut txn = db.begin();
    let named =
        |name: &'static [u8]| -> [(&[u8], &[u8]); 2] { [(b"hue", b"red"), (b"name", name)] };
    txn.put_entity_in(&default, b"k", &named(b"ruby")).unwrap();
    let before = (batch_of(&txn), txn.counts(), txn.num_keys());

    let failed = txn.put_entity_in(&default, b"k", &named(b"!no"));
    assert_eq!(codes(failed).0, Code::Aborted);
    let failed = txn.put_entity_in(&default, b"new", &named(b"!no"));
    assert_eq!(codes(failed).0, Code::Aborted);
    for key in [b"k", b"q"] {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            txn.put_entity_in(&default, key, &named(b"!!"))
        }));
        assert!(panicked.is_err());
    }
    assert_eq!((batch_of(&txn), txn.counts(), txn.num_keys()), before);
    check(db.db(), Some(&txn));
    // The keys of the failed writes are not locked.
    db.put(&default, b"new", b"1", &WriteOptions::default())
        .unwrap();
    assert_eq!(codes(txn.rollback_to_save_point()).0, Code::NotFound);
    txn.commit().unwrap();
    check(db.db(), None);
}

#[test]
fn a_write_whose_entries_cannot_be_locked_or_fit_leaves_the_transaction_unchanged() {
    let db = open(indexes());
    let default = db.db().default_family().clone();
    let by_value = family(db.db(), "by_value");
    let mut holder = db.begin();
    holder
        .lock_for_update(&by_value, b"\x03redk", &ReadOptions::default(), true, true)
        .unwrap();
    let mut txn = db.begin();
    assert_eq!(codes(txn.put(b"k", b"red")).1, Subcode::LockTimeout);
    assert!(batch_of(&txn).is_empty() && txn.num_keys() == 0);
    drop(holder);
    txn.put(b"k", b"red").unwrap();
    txn.commit().unwrap();

    // There is room for the record, but not for its entry.
    let small = TransactionOptions {
        max_write_batch_size: 60,
        ..TransactionOptions::default()
    };
    let mut txn = db.begin_with(&WriteOptions::default(), &small);
    let value = [b'x'; 30];
    assert_eq!(
        codes(txn.put_in(&default, b"q", &value)).1,
        Subcode::MemoryLimit
    );
    assert!(batch_of(&txn).is_empty() && txn.num_keys() == 0);
    txn.put(b"q", b"1").unwrap();
    txn.commit().unwrap();
    check(db.db(), None);
}

#[test]
fn records_of_a_family_whose_entries_have_none_cannot_be_written() {
    let db = with_request(World::in_memory(), |request| {
        TransactionDb::open(request, &options(vec![by_value()])).unwrap()
    });
    let default = db.db().default_family();
    let write = || db.put(default, b"k", b"red", &WriteOptions::default());
    let missing = write().unwrap_err();
    assert_eq!(missing.code(), Code::InvalidArgument);
    assert!(missing.text().contains("by_value"), "{missing}");
    assert!(content(db.db(), None, "default").is_empty());
    db.create_family("by_value", &FamilyOptions::default())
        .unwrap();
    write().unwrap();
    // The family is found again after it was dropped and created.
    db.db().drop_family(&family(db.db(), "by_value")).unwrap();
    assert_eq!(codes(write()).0, Code::InvalidArgument);
    db.create_family("by_value", &FamilyOptions::default())
        .unwrap();
    write().unwrap();
    assert_eq!(content(db.db(), None, "by_value").len(), 1);
}

#[test]
fn writes_outside_of_transactions_change_the_entries() {
    for skip_concurrency_control in [false, true] {
        let options = TransactionDbOptions {
            skip_concurrency_control,
            ..options(indexes())
        };
        let db = open_in(&World::in_memory(), &options);
        let (default, write) = (db.db().default_family(), WriteOptions::default());
        let shapes = family(db.db(), "shapes");
        for n in 0..4 {
            db.put(default, &[b'k', n], b"red", &write).unwrap();
        }
        check(db.db(), None);
        db.put(default, b"k\0", b"blue", &write).unwrap();
        db.put_entity(default, b"k\x01", &[(b"hue", b"blue")], &write)
            .unwrap();
        db.delete(default, b"k\x02", &write).unwrap();
        db.delete(default, b"absent", &write).unwrap();
        check(db.db(), None);
        let mut batch = WriteBatch::new();
        batch.put(b"k\x03", b"1");
        batch.put(b"k\x03", b"2");
        batch.put_log_data(b"data");
        batch.delete(b"k\0");
        batch.put_entity_in(&shapes, b"s", &[(b"form", b"round")]);
        batch.single_delete(b"k\x01");
        db.write(&batch, &write).unwrap();
        check(db.db(), None);
        assert_eq!(
            content(db.db(), None, "by_value"),
            [(b"\x012k\x03".to_vec(), vec![])]
        );
        assert_eq!(
            content(db.db(), None, "by_hue"),
            [(b"\x05rounds".to_vec(), vec![])]
        );

        let mut ranges = WriteBatch::new();
        ranges.put(b"k\x03", b"3");
        ranges.delete_range(b"a", b"z");
        assert_eq!(codes(db.write(&ranges, &write)).0, Code::InvalidArgument);
        check(db.db(), None);
        assert_eq!(content(db.db(), None, "default")[0].1, b"2");
        // Batches without indexed families are written as before.
        let mut other = WriteBatch::new();
        other.timed_put_in(&family(db.db(), "capitals"), b"plain", b"1", 1_700_000_000);
        db.write(&other, &write).unwrap();
    }
}

#[test]
fn a_locked_record_is_not_written_outside_of_the_transaction() {
    let db = open(indexes());
    let (default, write) = (db.db().default_family().clone(), WriteOptions::default());
    let mut txn = db.begin();
    txn.put(b"k", b"red").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(b"free", b"1");
    batch.put(b"k", b"2");
    for locked in [
        db.put(&default, b"k", b"2", &write),
        db.delete(&default, b"k", &write),
        db.write(&batch, &write),
    ] {
        assert_eq!(codes(locked).1, Subcode::LockTimeout);
    }
    txn.commit().unwrap();
    assert_eq!(content(db.db(), None, "default").len(), 1);
    check(db.db(), None);
}

#[test]
fn a_write_of_a_record_that_was_written_after_the_snapshot_conflicts() {
    let db = open(indexes());
    let default = db.db().default_family().clone();
    let mut txn = db.begin();
    txn.set_snapshot();
    db.put(&default, b"k", b"red", &WriteOptions::default())
        .unwrap();
    assert_eq!(codes(txn.put(b"k", b"blue")).0, Code::Busy);
    assert_eq!(codes(txn.delete(b"k")).0, Code::Busy);
    assert_eq!(txn.num_keys(), 0);
    txn.put_untracked_in(&default, b"k", b"blue").unwrap();
    txn.commit().unwrap();
    check(db.db(), None);
}

#[test]
fn writes_that_are_not_indexed_for_reads_change_the_entries() {
    let db = open(indexes());
    let mut txn = db.begin();
    txn.disable_indexing();
    txn.put(b"k", b"red").unwrap();
    txn.put(b"k", b"blue").unwrap();
    txn.put_in(&family(db.db(), "shapes"), b"unseen", b"1")
        .unwrap();
    let shapes = content(db.db(), Some(&txn), "shapes");
    assert_eq!(shapes.len(), 1, "an indexed family is always indexed");
    txn.put_in(&family(db.db(), "by_value"), b"unseen", b"1")
        .unwrap();
    assert_eq!(content(db.db(), Some(&txn), "by_value").len(), 1);
    txn.rollback().unwrap();
    txn.put(b"k", b"red").unwrap();
    txn.put(b"k", b"blue").unwrap();
    txn.commit().unwrap();
    check(db.db(), None);
}

#[test]
fn a_prepared_transaction_is_recovered_with_its_entries() {
    let world = World::in_memory();
    let db = open_in(&world, &options(indexes()));
    let write = WriteOptions::default();
    let default = db.db().default_family().clone();
    db.put(&default, b"a", b"red", &write).unwrap();
    db.put(&default, b"b", b"red", &write).unwrap();
    for name in [b"one", b"two"] {
        let mut txn = db.begin();
        txn.set_name(name).unwrap();
        let key = match name {
            b"one" => b"a",
            _ => b"b",
        };
        txn.put(key, b"blue").unwrap();
        txn.put_entity_in(&default, name, &[(b"name", b"ruby")])
            .unwrap();
        txn.prepare().unwrap();
    }
    check(db.db(), None);
    drop(default);
    db.db().clone().close().unwrap();
    drop(db);

    let db = open_in(&world, &options(indexes()));
    let (default, shapes) = (family(db.db(), "default"), family(db.db(), "shapes"));
    let mut one = db.transaction_by_name(b"one").unwrap();
    let two = db.transaction_by_name(b"two").unwrap();
    assert_eq!(batch_of(&one).len(), 5);
    check(db.db(), Some(&one));
    // Writes after the prepare are part of the commit.
    one.put(b"a", b"green").unwrap();
    one.put_entity_in(&shapes, b"s", &[(b"form", b"round")])
        .unwrap();
    let failed = one.put_entity_in(&default, b"new", &[(b"name", b"!no")]);
    assert_eq!(codes(failed).0, Code::Aborted);
    check(db.db(), Some(&one));
    one.commit().unwrap();
    let mut two = two;
    two.rollback().unwrap();
    check(db.db(), None);
    assert_eq!(content(db.db(), None, "default").len(), 3);
    assert_eq!(content(db.db(), None, "by_value").len(), 2);
}

/// RocksDB derives the entry of the first index from a value that the second one replaces, and never removes it.
#[test]
fn entries_are_those_of_the_stored_value_if_several_indexes_change_it() {
    #[derive(Debug)]
    struct Appends(u8);

    impl SecondaryIndex for Appends {
        fn primary_family(&self) -> &str {
            "default"
        }
        fn secondary_family(&self) -> &str {
            "by_value"
        }
        fn primary_column(&self) -> &[u8] {
            b""
        }
        fn updated_value<'v>(&self, _: &[u8], value: &'v [u8]) -> Result<Option<Cow<'v, [u8]>>> {
            Ok(Some([value, &[self.0]].concat().into()))
        }
        fn key_prefix<'v>(&self, _: &'v [u8], value: &'v [u8]) -> Result<Cow<'v, [u8]>> {
            Ok(value.into())
        }
        fn finalized_prefix<'p>(&self, prefix: &'p [u8]) -> Result<Cow<'p, [u8]>> {
            Ok([&[self.0], prefix].concat().into())
        }
        fn secondary_value<'v>(
            &self,
            _: &'v [u8],
            _: &'v [u8],
            previous: &'v [u8],
        ) -> Result<Option<Cow<'v, [u8]>>> {
            Ok(Some(previous.into()))
        }
    }

    let db = open(vec![Arc::new(Appends(b'1')), Arc::new(Appends(b'2'))]);
    let mut txn = db.begin();
    txn.put(b"k", b"v").unwrap();
    let entry = |key: &[u8], value: &[u8]| (key.to_vec(), value.to_vec());
    assert_eq!(
        content(db.db(), Some(&txn), "by_value"),
        [entry(b"1v12k", b"v"), entry(b"2v12k", b"v1")]
    );
    txn.commit().unwrap();
    let mut txn = db.begin();
    txn.delete(b"k").unwrap();
    txn.commit().unwrap();
    assert!(content(db.db(), None, "by_value").is_empty());
}

#[test]
fn an_optimistic_database_has_no_indexes_and_a_plain_one_does_not_change_them() {
    let world = World::in_memory();
    let db = open_in(&world, &options(indexes()));
    db.db().put(b"bypassed", b"1").unwrap();
    assert!(content(db.db(), None, "by_value").is_empty());
    // Its entry is put when it is written again; the old one, which does not exist, is deleted.
    db.put(
        db.db().default_family(),
        b"bypassed",
        b"2",
        &WriteOptions::default(),
    )
    .unwrap();
    check(db.db(), None);
    drop(db);
    let db = with_request(world, |request: &OpenRequest<'_>| {
        let options = DbOptions::default();
        OptimisticTransactionDb::open(
            &OpenRequest {
                options: &options,
                path: request.path,
                families: &[],
                others: request.others,
                read_only: false,
                world: request.world.clone(),
            },
            &OptimisticTransactionDbOptions::default(),
        )
        .unwrap()
    });
    let mut txn = db.begin();
    txn.put(b"k", b"red").unwrap();
    assert_eq!(batch_of(&txn).len(), 1);
}
