//! The log of a database with the write policies "prepared" and "unprepared": its records and their sequence numbers, as
//! a recovery by RocksDB counts them.

use std::collections::BTreeSet;
use std::path::Path;

use cairn_db::{
    CommitParts, Db, FamilyDescriptor, OpenRequest, PreparePolicy, WriteBatch, open_of_policy,
};
use cairn_format::batch::{BatchRef, Record};
use cairn_options::{DbOptions, FamilyOptions, WriteOptions, merge_operators};
use cairn_platform::World;
use cairn_platform::fs::FileMode;
use cairn_types::{Code, KeyOrder, Result};
use cairn_wal::{WalEvent, WalReader};

const POLICIES: [PreparePolicy; 2] = [PreparePolicy::WritePrepared, PreparePolicy::WriteUnprepared];

fn open(world: &World, policy: PreparePolicy, family: &FamilyOptions) -> Result<Db> {
    let options = DbOptions {
        create_if_missing: true,
        allow_2pc: true,
        ..DbOptions::default()
    };
    open_of_policy(
        &OpenRequest {
            path: Path::new("/db"),
            options: &options,
            families: &[FamilyDescriptor::new("default", family.clone())],
            others: Some(family),
            read_only: false,
            world: world.clone(),
        },
        policy,
    )
}

fn adding() -> FamilyOptions {
    FamilyOptions {
        merge_operator: merge_operators::from_text("stringappend").ok(),
        ..FamilyOptions::default()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn described(record: &Record<'_>) -> String {
    match *record {
        Record::Put { key, value, .. } => format!("{}={}", text(key), text(value)),
        Record::Merge { key, operand, .. } => format!("{}+{}", text(key), text(operand)),
        Record::Delete { key, .. } => format!("-{}", text(key)),
        Record::Noop => "noop".to_owned(),
        Record::BeginPrepare(PreparePolicy::WritePrepared) => "begin".to_owned(),
        Record::EndPrepare { name } => format!("end {}", text(name)),
        Record::Commit { name } => format!("commit {}", text(name)),
        Record::Rollback { name } => format!("rollback {}", text(name)),
        ref other => format!("{other:?}"),
    }
}

/// Returns the batches of the current log of `db`, each with its sequence number.
#[expect(clippy::unwrap_used, reason = "a helper of tests")]
fn batches(world: &World, db: &Db) -> Vec<(u64, String)> {
    let file = db.current_wal_file().unwrap();
    let number = file.log_number;
    let path = Path::new("/db").join(format!("{number}.log"));
    let mut reader = WalReader::open(&*world.fs, &path, number, FileMode::default()).unwrap();
    let mut all = Vec::new();
    loop {
        match reader.next().unwrap() {
            WalEvent::Record { payload, .. } => {
                let batch = BatchRef::parse(payload).unwrap();
                let records = batch.records().map(|record| described(&record.unwrap()));
                let records: Vec<String> = records.collect();
                // A log begins with a note on the one before it.
                if !records.concat().starts_with("LogData") {
                    all.push((batch.sequence().0, records.join(" ")));
                }
            }
            WalEvent::End(_) => return all,
            _ => {}
        }
    }
}

/// Returns the number of sequence numbers that RocksDB's recovery takes for a batch, one of the texts of [`batches`].
fn taken(batch: &str) -> u64 {
    let (mut taken, mut empty, mut keys) = (0, true, BTreeSet::new());
    for record in batch.split(' ') {
        match record {
            "begin" | "noop" if empty => {}
            // The names of transactions follow the markers of their ends.
            "end" | "commit" | "rollback" | "noop" => {
                taken += 1;
                empty = true;
                keys.clear();
            }
            record => {
                let key = record.trim_start_matches('-').split(['=', '+']).next();
                if record.contains(['=', '+', '-']) {
                    empty = false;
                    if !keys.insert(key) {
                        taken += 1;
                        keys = BTreeSet::from([key]);
                    }
                }
            }
        }
    }
    taken
}

fn batch(changes: &[(&str, &str)]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for (key, value) in changes {
        match value.strip_prefix('+') {
            Some(operand) => batch.merge(key.as_bytes(), operand.as_bytes()),
            None if value.is_empty() => batch.delete(key.as_bytes()),
            None => batch.put(key.as_bytes(), value.as_bytes()),
        }
    }
    batch
}

fn writes() -> WriteOptions {
    WriteOptions::default()
}

#[test]
fn the_log_is_what_a_recovery_by_rocksdb_expects() {
    for policy in POLICIES {
        let world = World::in_memory();
        let db = open(&world, policy, &adding()).unwrap();
        assert_eq!(db.prepare_policy(), policy);
        db.put(b"a", b"1").unwrap();
        db.write(&batch(&[("k", "1"), ("k", "2"), ("k", "+3")]))
            .unwrap();
        db.prepare(
            b"t",
            &batch(&[("a", "t"), ("b", "t"), ("a", "u")]),
            &writes(),
        )
        .unwrap();
        db.prepare(b"empty", &WriteBatch::new(), &writes()).unwrap();
        db.prepare(b"u", &batch(&[("k", "+u"), ("c", "u")]), &writes())
            .unwrap();
        db.roll_back_prepared(b"u", &writes()).unwrap();
        db.commit_prepared(b"t", &writes()).unwrap();
        db.commit_prepared(b"empty", &writes()).unwrap();
        db.prepare(b"v", &batch(&[("d", "v")]), &writes()).unwrap();
        let parts = CommitParts {
            before: Some(&batch(&[("e", "before")])),
            after: Some(&batch(&[("f", "after")])),
            ..CommitParts::default()
        };
        db.commit_prepared_with(b"v", &parts, &writes()).unwrap();
        db.put(b"z", b"1").unwrap();
        let logged = batches(&world, &db);
        let texts: Vec<&str> = logged.iter().map(|(_, text)| &**text).collect();
        assert_eq!(
            texts,
            [
                "a=1 noop",
                "k=1 k=2 k+3 noop",
                "begin a=t b=t a=u end t",
                "begin end empty",
                "begin k+u c=u end u",
                "k=2 k+3 -c rollback u noop",
                "commit t",
                "commit empty",
                "begin d=v end v",
                "e=before commit v f=after noop",
                "z=1 noop",
            ]
        );
        for pair in logged.windows(2) {
            let [(first, text), (next, _)] = pair else {
                unreachable!("windows have two")
            };
            assert!(first + taken(text) <= *next, "{text}: {first}, then {next}");
        }
        for (key, value) in [
            ("a", "u"),
            ("b", "t"),
            ("d", "v"),
            ("f", "after"),
            ("k", "2,3"),
        ] {
            let found = db.get(key.as_bytes()).unwrap().unwrap();
            assert_eq!(text(&found), value, "{key}");
        }
    }
}

/// A family that is flushed needs no log before the current one, which must have the undecided sections.
#[test]
fn each_log_begins_with_the_undecided_sections() {
    let world = World::in_memory();
    let db = open(&world, PreparePolicy::WritePrepared, &adding()).unwrap();
    db.put(b"a", b"1").unwrap();
    db.prepare(b"t", &batch(&[("a", "t"), ("new", "t")]), &writes())
        .unwrap();
    // Without a lock, both add to one key.
    db.prepare(b"u", &batch(&[("sum", "+u")]), &writes())
        .unwrap();
    db.prepare(b"v", &batch(&[("sum", "+v")]), &writes())
        .unwrap();
    db.flush().unwrap();
    let moved = "a=1 -new -sum rollback t rollback u rollback v begin a=t new=t end t \
                 begin sum+u end u begin sum+v end v";
    let logged = batches(&world, &db);
    assert_eq!(logged.len(), 1);
    assert_eq!(logged[0].1, format!("{moved} noop"));
    // The operand of "v" is not hidden by the value before it.
    db.roll_back_prepared(b"u", &writes()).unwrap();
    let logged = batches(&world, &db);
    assert!(
        logged[1].1.ends_with("begin sum+v end v noop"),
        "{}",
        logged[1].1
    );
    assert!(logged[0].0 + taken(&logged[0].1) <= logged[1].0);
    db.put(b"z", b"1").unwrap();
    assert!(logged[1].0 + taken(&logged[1].1) <= batches(&world, &db)[2].0);
    drop(db);
    let db = open(&world, PreparePolicy::WritePrepared, &adding()).unwrap();
    let names: Vec<_> = db
        .prepared()
        .unwrap()
        .into_iter()
        .map(|one| one.name)
        .collect();
    assert_eq!(names, [b"t", b"v"]);
    db.commit_prepared(b"v", &writes()).unwrap();
    db.commit_prepared(b"t", &writes()).unwrap();
    drop(db);
    let db = open(&world, PreparePolicy::WriteUnprepared, &adding()).unwrap();
    for (key, value) in [("a", "t"), ("new", "t"), ("sum", "v"), ("z", "1")] {
        let found = db.get(key.as_bytes()).unwrap().unwrap();
        assert_eq!(text(&found), value, "{key}");
    }
    assert!(db.prepared().unwrap().is_empty());
}

#[test]
fn what_rocksdb_rejects_is_rejected() {
    let world = World::in_memory();
    let policy = PreparePolicy::WritePrepared;
    let db = open(&world, policy, &adding()).unwrap();
    let mut ranges = WriteBatch::new();
    ranges.delete_range(b"a", b"b");
    let refused = db.prepare(b"t", &ranges, &writes()).unwrap_err();
    assert_eq!(refused.code(), Code::NotSupported);
    assert!(db.prepared().unwrap().is_empty());
    db.write(&ranges).unwrap();
    let refused = db.updates_since(cairn_types::SequenceNumber(0)).err();
    assert_eq!(refused.unwrap().code(), Code::NotSupported);
    drop(db);
    let stamped = FamilyOptions {
        comparator: KeyOrder::from_name("leveldb.BytewiseComparator.u64ts").unwrap(),
        ..FamilyOptions::default()
    };
    let refused = open(&World::in_memory(), policy, &stamped).err().unwrap();
    assert_eq!(refused.code(), Code::NotSupported);
}

/// The checksums of a protected prepare are those of the section, and of the marker that is inserted.
#[test]
fn protected_transactions_are_written() {
    let world = World::in_memory();
    let db = open(&world, PreparePolicy::WritePrepared, &adding()).unwrap();
    let protected = WriteOptions {
        protection_bytes_per_key: 8,
        ..WriteOptions::default()
    };
    for (name, key) in [(b"t", "a"), (b"u", "b")] {
        db.prepare(name, &batch(&[(key, "1")]), &protected).unwrap();
    }
    db.commit_prepared(b"t", &protected).unwrap();
    db.roll_back_prepared(b"u", &protected).unwrap();
    drop(db);
    let db = open(&world, PreparePolicy::WritePrepared, &adding()).unwrap();
    assert!(db.get(b"a").unwrap().is_some() && db.get(b"b").unwrap().is_none());
}
