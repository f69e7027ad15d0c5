//! Batches: atomicity, save points, limits, and reads before the write.

use cairn::{Code, FamilyOptions, IndexedBatch, ReadOptions, Record, WriteBatch, WriteOptions};

use crate::{database, shown};

#[test]
fn a_batch_is_written_to_all_its_families_at_once() {
    let db = database("");
    let stones = db
        .create_family("stones", &FamilyOptions::default())
        .unwrap();
    let mut batch = WriteBatch::new();
    batch.put(b"a", b"1");
    batch.put_in(&stones, b"b", b"2");
    batch.put_parts(&[b"c", b"d"], &[b"3", b"4"]);
    batch.delete_in(&stones, b"missing");
    assert_eq!(batch.count(), 4);
    let before = db.latest_sequence();
    db.write(&batch).unwrap();
    assert_eq!(db.latest_sequence(), before.plus(4));
    assert_eq!(shown(&db), ["a=1", "cd=34"]);
    assert_eq!(shown(&stones), ["b=2"]);
}

#[test]
fn a_batch_round_trips_through_its_serialized_form() {
    let mut batch = WriteBatch::new();
    batch.put(b"a", b"1");
    batch.delete_range(b"b", b"c");
    let again = WriteBatch::from_data(batch.data()).unwrap();
    let records: Vec<_> = again.records().collect::<Result<_, _>>().unwrap();
    assert!(matches!(records[0], Record::Put { key: b"a", .. }));
    assert_eq!(records.len(), 2);
    let error = WriteBatch::from_data(b"short").unwrap_err();
    assert_eq!(error.code(), Code::Corruption);
}

#[test]
fn a_batch_over_its_limit_is_rejected_until_its_error_is_cleared() {
    let db = database("");
    let mut batch = WriteBatch::with_max_bytes(64);
    batch.put(b"a", b"1");
    batch.put(b"b", &[7; 100]);
    assert!(batch.refused().is_some());
    assert_eq!(db.write(&batch).unwrap_err().code(), Code::Aborted);
    batch.forget_refused();
    db.write(&batch).unwrap();
    assert_eq!(shown(&db), ["a=1"]);
}

#[test]
fn an_indexed_batch_is_read_with_the_database_below_it() {
    let db = database("");
    db.put(b"a", b"1").unwrap();
    db.put(b"c", b"3").unwrap();
    let family = db.default_family();
    let batch = IndexedBatch::new(true);
    batch.put(b"b", b"2");
    batch.delete(b"c");
    let options = ReadOptions::default();
    assert_eq!(
        shown(family.iter_with_batch(&batch, &options)),
        ["a=1", "b=2"]
    );
    let backward = family.iter_with_batch(&batch, &options).into_iter().rev();
    assert_eq!(shown(backward), ["b=2", "a=1"]);
    assert!(batch.get_over(&family, b"c", &options).unwrap().is_none());
    assert_eq!(shown(&db), ["a=1", "c=3"]);

    assert_eq!(batch.to_batch().count(), 2);
    db.write_indexed(&batch, &WriteOptions::default()).unwrap();
    assert_eq!(shown(&db), ["a=1", "b=2"]);
}

#[test]
fn batches_are_ingested_with_and_without_a_log_that_has_records() {
    let db = database("");
    let unlogged = WriteOptions {
        disable_wal: true,
        ..WriteOptions::default()
    };
    for round in 0..4_u32 {
        if round == 2 {
            db.put(b"logged", b"1").unwrap();
        }
        let batch = IndexedBatch::new(true);
        for n in 0..1000 {
            batch.put(&(round * 1000 + n).to_be_bytes(), b"value");
        }
        db.ingest_indexed(&batch, &unlogged).unwrap();
        assert_eq!(
            shown(&db).len() as u32,
            (round + 1) * 1000 + u32::from(round > 1)
        );
    }
    db.flush().unwrap();
    assert_eq!(shown(&db).len(), 4001);
    db.close().unwrap();
}
