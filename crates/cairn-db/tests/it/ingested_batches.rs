//! Batches that are ingested past the memtable, without a log: the same content and sequence numbers as with insertions.

#![expect(clippy::unwrap_used, reason = "an absent value fails the test")]

use std::sync::Arc;

use cairn_db::{Db, Family, WriteBatch};
use cairn_observe::statistics::{Keeping, Statistics, StatsLevel, Ticker};
use cairn_options::{DbOptions, FamilyOptions, ReadOptions, WriteOptions, merge_operators};
use cairn_sim::trace::Call;
use cairn_sim::{Fault, SimWorld};
use cairn_types::{Code, SequenceNumber};

use crate::basic::{db_options, small};
use crate::errors::{after_power_cut, failing, open_on};

fn unlogged() -> WriteOptions {
    WriteOptions {
        disable_wal: true,
        ..WriteOptions::default()
    }
}

fn appending() -> FamilyOptions {
    FamilyOptions {
        merge_operator: merge_operators::from_text("stringappend").ok(),
        ..small()
    }
}

/// Opens a database with the families `default` and `other`.
fn open_two(sim: &SimWorld, options: &DbOptions) -> (Db, Family) {
    let db = open_on(sim, options, &appending()).unwrap();
    let other = match db.family("other") {
        Some(other) => other,
        None => db.create_family("other", &appending()).unwrap(),
    };
    (db, other)
}

fn content(family: &Family, seq: Option<SequenceNumber>) -> Vec<(String, String)> {
    let options = ReadOptions {
        snapshot: seq,
        ..ReadOptions::default()
    };
    let mut iter = family.iter_with(&options);
    let mut all = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    iter.seek_to_first();
    while iter.valid() {
        all.push((text(iter.key()), text(iter.value())));
        iter.next();
    }
    iter.status().unwrap();
    all
}

/// Keys that are written several times, merged and deleted, in two families.
fn batch(other: &Family) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for n in 0..200 {
        let key = format!("{:03}", n * 7 % 100);
        batch.put(key.as_bytes(), format!("v{n}").as_bytes());
        batch.merge_in(other, key.as_bytes(), b"m");
    }
    batch.delete(b"010");
    batch.single_delete_in(other, b"absent");
    batch.merge(b"010", b"again");
    batch
}

fn before(db: &Db, other: &Family) {
    db.put(b"010", b"old").unwrap();
    db.put(b"before", b"kept").unwrap();
    other.put(b"000", b"base").unwrap();
}

#[test]
fn an_ingested_batch_reads_like_a_written_one() {
    let options = db_options();
    let (sims, statistics) = ([1, 2].map(SimWorld::new), Statistics::new(StatsLevel::All));
    let (written, written_other) = open_two(&sims[0], &options);
    let statistics = Arc::new(statistics);
    let counted = DbOptions {
        statistics: Keeping::Shared(statistics.clone()),
        ..options
    };
    let (ingested, ingested_other) = open_two(&sims[1], &counted);
    before(&written, &written_other);
    before(&ingested, &ingested_other);
    let snapshot = ingested.snapshot();
    let old = content(ingested.default_family(), None);

    written.write(&batch(&written_other)).unwrap();
    ingested
        .ingest_batch(&batch(&ingested_other), &unlogged())
        .unwrap();
    assert_eq!(statistics.ticker(Ticker::NumberWbwiIngest), 1);
    assert_eq!(ingested.latest_sequence(), written.latest_sequence());
    let seq = Some(snapshot.sequence());
    assert_eq!(content(ingested.default_family(), seq), old);
    let same = || {
        let pairs = [
            (written.default_family(), ingested.default_family()),
            (&written_other, &ingested_other),
        ];
        for (written, ingested) in pairs {
            assert_eq!(content(written, None), content(ingested, None));
        }
    };
    same();
    for db in [&written, &ingested] {
        db.put(b"010", b"later").unwrap();
    }
    same();
    // The memtables are flushed without a request.
    ingested.wait_until_quiet().unwrap();
    assert!(ingested_other.property_number("rocksdb.live-sst-files-size") > Some(0));
    same();
    let all = content(ingested.default_family(), None);
    drop((snapshot, ingested, ingested_other));
    let (again, _other) = open_two(&sims[1], &db_options());
    assert_eq!(content(again.default_family(), None), all);
}

#[test]
fn an_ingested_batch_is_not_logged() {
    let sim = SimWorld::new(3);
    let (db, other) = open_two(&sim, &db_options());
    before(&db, &other);
    db.flush_wal(true).unwrap();
    for options in [
        WriteOptions::default(),
        WriteOptions {
            sync: true,
            ..WriteOptions::default()
        },
    ] {
        let refused = db.ingest_batch(&batch(&other), &options).unwrap_err();
        assert_eq!(refused.code(), Code::NotSupported);
        assert!(refused.to_string().contains("disableWAL"), "{refused}");
    }
    assert_eq!(content(&other, None).len(), 1);
    let old = content(db.default_family(), None);

    // No table can be created before the crash.
    sim.fs.set_plan(failing(
        Call::Create,
        ".sst",
        Fault::InputOutput,
        usize::MAX,
    ));
    db.ingest_batch(&batch(&other), &unlogged()).unwrap();
    assert!(content(db.default_family(), None).len() > old.len());
    let after = after_power_cut(&sim);
    let (recovered, other) = open_two(&after, &db_options());
    assert_eq!(content(recovered.default_family(), None), old);
    assert_eq!(content(&other, None), [("000".into(), "base".into())]);
}

/// Range deletions, protected entries and a log that cannot be created: the batch is inserted.
#[test]
fn a_batch_that_cannot_be_ingested_is_inserted() {
    let sim = SimWorld::new(4);
    let (db, other) = open_two(&sim, &db_options());
    before(&db, &other);
    let mut ranges = WriteBatch::new();
    ranges.delete_range(b"0", b"1");
    ranges.put(b"new", b"1");
    db.ingest_batch(&ranges, &unlogged()).unwrap();
    let keys: Vec<String> = content(db.default_family(), None)
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    assert_eq!(keys, ["before", "new"]);
    let protected = WriteOptions {
        protection_bytes_per_key: 8,
        ..unlogged()
    };
    db.ingest_batch(&batch(&other), &protected).unwrap();
    let all = content(&other, None);
    assert_eq!(all.len(), 100);

    sim.fs
        .set_plan(failing(Call::Create, ".log", Fault::Denied, 1));
    let mut last = WriteBatch::new();
    last.put_in(&other, b"last", b"1");
    db.ingest_batch(&last, &unlogged()).unwrap();
    assert!(db.background_error_state().is_some());
    assert_eq!(content(&other, None).len(), all.len() + 1);
}

#[test]
fn an_empty_batch_and_one_for_dropped_families_change_nothing() {
    let sim = SimWorld::new(5);
    let (db, other) = open_two(&sim, &db_options());
    before(&db, &other);
    let seq = db.latest_sequence();
    db.ingest_batch(&WriteBatch::new(), &unlogged()).unwrap();
    assert_eq!(db.latest_sequence(), seq);
    let batch = batch(&other);
    db.drop_family(&other).unwrap();
    let refused = db.ingest_batch(&batch, &unlogged()).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let ignoring = WriteOptions {
        ignore_missing_column_families: true,
        ..unlogged()
    };
    db.ingest_batch(&batch, &ignoring).unwrap();
    assert_eq!(content(db.default_family(), None).len(), 101);
}
