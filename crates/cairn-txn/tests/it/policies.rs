//! Databases that RocksDB 11.1.1 left with the write policies "prepared" and "unprepared", in `tests/golden`: the process
//! ended after a flush, with two prepared transactions. The entries of the transaction "one" are in a table of the
//! default family, and in the older log for the other family.
//!
//! ```text
//! put before, flushed; a batch with a, b, k; put k        one: put flushed, new, new again, delete before; prepare
//! flush                                                   two: put committed, k; prepare, commit
//! three: put b, never; prepare, roll back                 four: put a; prepare
//! five: put plain, k, k again; commit                     a batch with p, q, z; put z; put last in the other family
//! ```

use std::path::Path;

use cairn_db::{Db, OpenRequest};
use cairn_options::{DbOptions, FamilyOptions, ReadOptions};
use cairn_platform::World;
use cairn_platform::fs::FileMode;
use cairn_sim::{CrashModel, SimWorld};
use cairn_txn::{TransactionDb, TransactionDbOptions, WritePolicy};
use cairn_types::{Code, Result};

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
    with_db(world, |request| {
        TransactionDb::open(request, &TransactionDbOptions::default())
    })
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
fn a_crash_while_a_database_is_converted_loses_nothing() {
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
                // Converted completely, it is not converted again.
                let db = convert(&crashed.world, policy).or_else(|first| {
                    open(&crashed.world).map_err(|then| format!("{first}; then {then}"))
                });
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
