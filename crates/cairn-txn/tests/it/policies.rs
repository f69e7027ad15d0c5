//! The write policies "prepared" and "unprepared".
//!
//! `tests/golden` has databases that RocksDB 11.1.1 left with them: the process ended after a flush, with two prepared
//! transactions. The entries of the transaction "one" are in a table of the
//! default family, and in the older log for the other family.
//!
//! ```text
//! put before, flushed; a batch with a, b, k; put k        one: put flushed, new, new again, delete before; prepare
//! flush                                                   two: put committed, k; prepare, commit
//! three: put b, never; prepare, roll back                 four: put a; prepare
//! five: put plain, k, k again; commit                     a batch with p, q, z; put z; put last in the other family
//! ```

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cairn_db::{Db, OpenRequest};
use cairn_options::{DbOptions, FamilyOptions, ReadOptions, merge_operators};
use cairn_platform::World;
use cairn_platform::fs::FileMode;
use cairn_sim::{CrashModel, SimWorld};
use cairn_txn::{
    SecondaryIndex, SimpleSecondaryIndex, TransactionDb, TransactionDbOptions, WritePolicy,
};
use cairn_types::{Code, MergeInput, MergeOperator, Result, Subcode};

const POLICIES: [(&str, WritePolicy); 2] = [
    ("prepared", WritePolicy::Prepared),
    ("unprepared", WritePolicy::Unprepared),
];

/// Copies a database of RocksDB to `world`.
pub(crate) fn copy(name: &str, world: &World) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    let dir = Path::new("/db");
    world.fs.create_dir_all(dir).unwrap();
    let disk = World::posix().fs;
    for name in disk.list(&from).unwrap() {
        let file = disk.open(&from.join(&name), FileMode::default()).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        assert_eq!(file.read_at(0, &mut bytes).unwrap(), bytes.len());
        let to = world
            .fs
            .create(&dir.join(&name), FileMode::default())
            .unwrap();
        to.append(&bytes).unwrap();
        to.sync(true).unwrap();
        to.close().unwrap();
    }
    world.fs.sync_dir(dir).unwrap();
    world.fs.sync_dir(Path::new("/")).unwrap();
}

fn with_db<T>(world: &World, open: impl FnOnce(&OpenRequest<'_>) -> T) -> T {
    let options = DbOptions {
        info_log_level: cairn_options::InfoLogLevel::Fatal,
        ..DbOptions::default()
    };
    open(&OpenRequest {
        path: Path::new("/db"),
        options: &options,
        families: &[],
        others: Some(&FamilyOptions::default()),
        read_only: false,
        world: world.clone(),
    })
}

fn convert(world: &World, policy: WritePolicy) -> Result<TransactionDb> {
    with_db(world, |request| {
        TransactionDb::convert(request, &TransactionDbOptions::default(), policy)
    })
}

fn open(world: &World) -> Result<TransactionDb> {
    open_as(world, WritePolicy::Committed)
}

fn open_as(world: &World, policy: WritePolicy) -> Result<TransactionDb> {
    let options = TransactionDbOptions {
        write_policy: policy,
        ..TransactionDbOptions::default()
    };
    with_db(world, |request| TransactionDb::open(request, &options))
}

/// Keys and values of both families.
fn content(db: &Db) -> Vec<String> {
    let mut all = Vec::new();
    for family in db.families() {
        let mut iter = family.iter_with(&ReadOptions::default());
        iter.seek_to_first();
        while iter.valid() {
            let [key, value] = [iter.key(), iter.value()].map(String::from_utf8_lossy);
            all.push(format!("{} {key}={value}", family.name()));
            iter.next();
        }
        iter.status().unwrap();
    }
    all.sort();
    all
}

/// The content without the undecided transactions.
const UNDECIDED: [&str; 12] = [
    "default a=1",
    "default b=1",
    "default before=1",
    "default committed=two",
    "default flushed=old",
    "default k=five again",
    "default p=1",
    "default plain=five",
    "default q=1",
    "default z=2",
    "other flushed=old",
    "other last=1",
];

fn names(db: &TransactionDb) -> Vec<Vec<u8>> {
    let prepared = db.prepared_transactions();
    prepared.iter().map(|txn| txn.name().to_vec()).collect()
}

#[test]
fn a_converted_database_has_the_prepared_transactions_and_hides_their_writes() {
    for (name, policy) in POLICIES {
        let world = World::in_memory();
        copy(name, &world);
        assert_eq!(open(&world).err().unwrap().code(), Code::NotSupported);
        let db = convert(&world, policy).unwrap();
        assert_eq!(content(db.db()), UNDECIDED);
        assert_eq!(names(&db), [b"four".to_vec(), b"one".to_vec()]);
        // The logs are those of the policy "committed" now.
        drop(db);
        let db = open(&world).unwrap();
        assert_eq!(content(db.db()), UNDECIDED);
        let mut four = db.transaction_by_name(b"four").unwrap();
        assert_eq!(
            four.get(b"a", &Default::default())
                .unwrap()
                .unwrap()
                .to_vec(),
            b"four"
        );
        four.rollback().unwrap();
        db.transaction_by_name(b"one").unwrap().commit().unwrap();
        let decided = [
            "default a=1",
            "default b=1",
            "default committed=two",
            "default flushed=one",
            "default k=five again",
            "default new=one again",
            "default p=1",
            "default plain=five",
            "default q=1",
            "default z=2",
            "other flushed=one",
            "other last=1",
        ];
        assert_eq!(content(db.db()), decided);
        db.db().flush().unwrap();
        drop((four, db));
        let db = open(&world).unwrap();
        assert_eq!(content(db.db()), decided);
        assert!(names(&db).is_empty());
    }
}

#[test]
fn a_database_of_rocksdb_keeps_its_policy() {
    for (name, policy) in POLICIES {
        let world = World::in_memory();
        copy(name, &world);
        let db = open_as(&world, policy).unwrap();
        assert_eq!(content(db.db()), UNDECIDED);
        assert_eq!(names(&db), [b"four".to_vec(), b"one".to_vec()]);
        drop(db);
        assert_eq!(open(&world).err().unwrap().code(), Code::NotSupported);
        let db = open_as(&world, policy).unwrap();
        assert_eq!(content(db.db()), UNDECIDED);
        db.transaction_by_name(b"four").unwrap().rollback().unwrap();
        // The log of the undecided transaction is not the one of the flushed family.
        db.db().flush().unwrap();
        drop(db);
        let db = open_as(&world, policy).unwrap();
        db.transaction_by_name(b"one").unwrap().commit().unwrap();
        let decided = content(db.db());
        for entry in [
            "default flushed=one",
            "default new=one again",
            "other flushed=one",
        ] {
            assert!(
                decided.iter().any(|found| found == entry),
                "{entry}: {decided:?}"
            );
        }
        drop(db);
        let db = open_as(&world, policy).unwrap();
        assert_eq!(content(db.db()), decided);
        assert!(names(&db).is_empty());
    }
}

#[test]
fn a_crash_while_a_database_of_rocksdb_is_opened_loses_nothing() {
    crash_while_opened(open_as);
}

#[test]
fn a_crash_while_a_database_is_converted_loses_nothing() {
    // Converted completely, it is not converted again.
    crash_while_opened(|world, policy| {
        convert(world, policy)
            .or_else(|first| open(world).inspect_err(|then| println!("{first}; then {then}")))
    });
}

fn crash_while_opened(convert: impl Fn(&World, WritePolicy) -> Result<TransactionDb>) {
    let (name, policy) = POLICIES[0];
    let sim = SimWorld::new(3);
    copy(name, &sim.world);
    let begin = sim.fs.operations();
    drop(convert(&sim.world, policy).unwrap());
    let trace = sim.fs.trace();
    let mut images = 0;
    for at in begin..=trace.len() {
        for model in [
            CrashModel::Kill,
            CrashModel::Synced,
            CrashModel::Prefix,
            CrashModel::NamesFirst,
        ] {
            for image in trace.images(at, model, 1).take(2) {
                images += 1;
                let crashed = SimWorld::on(image, 2);
                let db = convert(&crashed.world, policy);
                let db = db.unwrap_or_else(|error| panic!("{model:?} at {at}: {error}"));
                assert_eq!(content(db.db()), UNDECIDED, "{model:?} at {at}");
                assert_eq!(names(&db).len(), 2, "{model:?} at {at}");
            }
        }
    }
    assert!(images > 100, "{images}");
}

#[test]
fn logs_of_one_policy_are_not_converted_as_those_of_another() {
    let world = World::in_memory();
    copy("prepared", &world);
    let wrong = convert(&world, WritePolicy::Committed);
    assert_eq!(wrong.err().unwrap().code(), Code::NotSupported);
    // As in RocksDB, "unprepared" reads logs of "prepared".
    let db = convert(&world, WritePolicy::Unprepared).unwrap();
    assert_eq!(content(db.db()), UNDECIDED);
    drop(db);
    let wrong = convert(&world, WritePolicy::Prepared);
    assert_eq!(wrong.err().unwrap().code(), Code::NotSupported);
}

/// Writes of keys of prepared transactions that took no lock, and operands that several of them add to one key, are the
/// same after a crash, whatever is decided.
#[test]
fn operands_without_locks_survive_rollbacks_and_switches_of_logs() {
    for policy in crate::POLICIES {
        for flushes in 0..8_u32 {
            let world = World::in_memory();
            let db = crate::two_phase::open_as(&world, policy);
            let begin = |number: u64| {
                let mut txn = db.begin();
                txn.set_name(&[number as u8]).unwrap();
                let sum = (1_u64 << (8 * number)).to_le_bytes();
                txn.write_batch()
                    .merge_in(txn.default_family(), b"sum", &sum);
                txn.prepare().unwrap();
                txn
            };
            let flush = |bit: u32| match flushes & (1 << bit) {
                0 => {}
                _ => db.db().flush().unwrap(),
            };
            let [mut one, mut two, _three] = [1, 2, 3].map(begin);
            flush(0);
            one.rollback().unwrap();
            flush(1);
            let add = |number: u64| {
                let mut batch = cairn_db::WriteBatch::new();
                batch.merge(b"sum", &number.to_le_bytes());
                db.db().write(&batch).unwrap();
            };
            add(5);
            two.commit().unwrap();
            add(2);
            flush(2);
            drop((one, two, _three, db));
            let db = crate::two_phase::open_as(&world, policy);
            let sum = db.db().get(b"sum").unwrap().unwrap();
            assert_eq!(
                &*sum,
                (7 + (1_u64 << 16)).to_le_bytes(),
                "{policy:?} {flushes}"
            );
            db.transaction_by_name(&[3]).unwrap().commit().unwrap();
            let sum = db.db().get(b"sum").unwrap().unwrap();
            let expected = (7 + (1_u64 << 16) + (1_u64 << 24)).to_le_bytes();
            assert_eq!(&*sum, expected, "{policy:?} {flushes}");
        }
    }
}

/// Opens the database in `world`, which may have one already, with `family` as the options of its families.
fn open_with(world: &World, policy: WritePolicy, family: &FamilyOptions) -> TransactionDb {
    let options = DbOptions {
        create_if_missing: true,
        ..DbOptions::default()
    };
    let early = TransactionDbOptions {
        write_policy: policy,
        ..TransactionDbOptions::default()
    };
    TransactionDb::open(&crate::request(world.clone(), &options, family), &early).unwrap()
}

/// Keys of prepared transactions keep their values, with the times of their writing, through switches of logs, crashes
/// and rollbacks in a database with a time to live.
#[test]
fn values_with_a_time_to_live_are_restored_as_they_were_stored() {
    // The end of the second value is a time.
    let second = [b"abcd".as_slice(), &825_058_677_u32.to_le_bytes()].concat();
    let dated = FamilyOptions {
        value_ttl: Some(1_000_000),
        merge_operator: merge_operators::from_text("stringappend").ok(),
        ..FamilyOptions::default()
    };
    let dated_with_blobs = FamilyOptions {
        enable_blob_files: true,
        ..dated.clone()
    };
    for (_, policy) in POLICIES {
        for is_closed in [false, true] {
            for family in [&dated, &dated_with_blobs] {
                for value in [b"old-value-1".as_slice(), &second] {
                    restore_dated(policy, is_closed, family, value);
                }
            }
        }
    }
}

/// The section about each kind of value is moved to another log, then rolled back after a crash or a close.
fn restore_dated(policy: WritePolicy, is_closed: bool, family: &FamilyOptions, value: &[u8]) {
    let context = format!("{policy:?}, closed: {is_closed}, {value:?}");
    let sim = SimWorld::new(4);
    let db = open_with(&sim.world, policy, family);
    let written = sim.world.clock.wall_seconds();
    db.db().put(b"k", value).unwrap();
    let columns: [(&[u8], &[u8]); 2] = [(b"", value), (b"other", b"column")];
    db.db().put_entity(b"e", &columns).unwrap();
    db.db().merge(b"m", b"one").unwrap();
    db.db().flush().unwrap();
    db.db().merge(b"m", b"two").unwrap();
    sim.clock.advance(Duration::from_secs(1_000));

    let mut txn = db.begin();
    txn.set_name(b"t").unwrap();
    for key in [b"k", b"e", b"m", b"n"] {
        txn.put(key, b"new").unwrap();
    }
    txn.prepare().unwrap();
    db.db().flush().unwrap();
    if is_closed {
        drop((txn, db));
    }
    let trace = sim.fs.trace();
    let image = trace.images(trace.len(), CrashModel::Kill, 1).next();
    let later = SimWorld::on(image.unwrap(), 5);
    later.clock.advance(Duration::from_secs(2_000));

    let check = |db: &TransactionDb| {
        let db = db.db();
        let found = |key: &[u8]| db.get(key).unwrap().map(|value| value.to_vec());
        assert_eq!(found(b"k").as_deref(), Some(value), "{context}");
        assert_eq!(found(b"m").as_deref(), Some(&b"one,two"[..]), "{context}");
        assert_eq!(found(b"n"), None, "{context}");
        let entity = db.get_entity(b"e", &ReadOptions::default()).unwrap();
        let entity = entity.unwrap();
        assert_eq!(entity.get(b""), Some(value), "{context}");
        assert_eq!(entity.get(b"other"), Some(&b"column"[..]), "{context}");
    };
    let db = open_with(&later.world, policy, family);
    check(&db);
    let mut txn = db.transaction_by_name(b"t").unwrap();
    txn.rollback().unwrap();
    check(&db);
    drop((txn, db));
    let db = open_with(&later.world, policy, family);
    check(&db);
    drop(db);

    // Without a time to live, the stored value is returned.
    let undated = FamilyOptions {
        value_ttl: None,
        ..family.clone()
    };
    let db = open_with(&later.world, policy, &undated);
    let stored = db.db().get(b"k").unwrap().unwrap();
    let (restored, time) = stored.split_last_chunk::<4>().unwrap();
    assert_eq!(restored, value, "{context}");
    let time = u64::from(u32::from_le_bytes(*time));
    assert!((written..written + 500).contains(&time), "{context}");
}

/// An operator that merges nothing.
struct Refusing;

impl MergeOperator for Refusing {
    fn name(&self) -> &str {
        "Refusing"
    }

    fn full_merge(&self, _: &MergeInput<'_>) -> Option<Vec<u8>> {
        None
    }
}

/// A key that cannot be merged, with an undecided write, does not prevent a switch of logs, nor a rollback.
#[test]
fn a_failed_merge_does_not_prevent_a_switch_of_logs() {
    let family = FamilyOptions {
        merge_operator: Some(Arc::new(Refusing)),
        disable_auto_compactions: true,
        ..FamilyOptions::default()
    };
    for (_, policy) in POLICIES {
        let db = open_with(&World::in_memory(), policy, &family);
        db.db().put(b"k", b"base").unwrap();
        db.db().flush().unwrap();
        db.db().merge(b"k", b"operand").unwrap();
        let mut txn = db.begin();
        txn.set_name(b"t").unwrap();
        txn.put(b"k", b"new").unwrap();
        txn.prepare().unwrap();
        for value in [b"1", b"2"] {
            db.db().put(b"other", value).unwrap();
            db.db().flush().unwrap();
        }
        txn.rollback().unwrap();
        let failed = db.db().get(b"k").unwrap_err();
        assert_eq!(failed.subcode(), Subcode::MergeOperatorFailed);
        assert_eq!(db.db().get(b"other").unwrap().as_deref(), Some(&b"2"[..]));
    }
}

/// With another policy than that of the opening, the logs would not have the form that RocksDB expects.
#[test]
fn a_database_is_not_given_another_policy_after_it_was_opened() {
    let world = World::in_memory();
    copy("prepared", &world);
    let db = open_as(&world, WritePolicy::Prepared).unwrap();
    let db = db.db().clone();
    let refused = TransactionDb::new(db, &TransactionDbOptions::default());
    assert_eq!(refused.err().unwrap().code(), Code::InvalidArgument);
}

/// RocksDB's transactions with these policies do not change the entries of indexes.
#[test]
fn secondary_indexes_need_the_policy_committed() {
    for (_, policy) in POLICIES {
        let index: Arc<dyn SecondaryIndex> =
            Arc::new(SimpleSecondaryIndex::new("default", b"", "by_value"));
        let options = TransactionDbOptions {
            write_policy: policy,
            secondary_indices: vec![index],
            ..TransactionDbOptions::default()
        };
        let world = World::in_memory();
        let error = with_db(&world, |request| TransactionDb::open(request, &options))
            .err()
            .expect("they are refused");
        assert_eq!(error.code(), Code::NotSupported);
        assert!(!world.fs.exists(Path::new("/db/CURRENT")).unwrap());
    }
}
