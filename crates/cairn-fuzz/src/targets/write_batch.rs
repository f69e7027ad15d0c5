//! Write batches: every record is decoded, checked, and appended to another batch.

use cairn_format::batch::{BatchRef, Record, WriteBatch};
use cairn_format::log::Predecessor;

/// Parses the input as one batch.
pub fn run(data: &[u8]) {
    let Ok(batch) = BatchRef::parse(data) else {
        return;
    };
    if let Some((stated, next)) = Predecessor::from_batch(data) {
        assert_eq!(stated.as_batch(next), data);
        assert!(batch.check().is_ok() && batch.count() == 0);
    }
    let mut counted = 0;
    let mut whole = true;
    for record in batch.records() {
        match record {
            Ok(record) => counted += u32::from(record.is_counted()),
            Err(_) => {
                whole = false;
                break;
            }
        }
    }
    if batch.check().is_err() {
        return;
    }
    assert!(
        whole,
        "a batch that passes its check can be read to its end"
    );
    assert_eq!(
        counted,
        batch.count(),
        "a batch that passes its check has counted right"
    );
    let mut other = WriteBatch::new();
    other.put(0, b"before", b"1").expect("a small put fits");
    let mark = other.mark();
    other
        .append(&batch)
        .expect("a checked batch can be appended");
    same_records(&batch, &other);
    other.go_back(mark);
    assert_eq!(other.count(), 1);
    let owned = WriteBatch::from_bytes(data.to_vec()).expect("it passed the same check");
    assert_eq!(owned.as_bytes(), data);
}

fn same_records(batch: &BatchRef<'_>, other: &WriteBatch) {
    let view = other.view();
    let mut records = view.records();
    assert!(matches!(
        records.next(),
        Some(Ok(Record::Put { key: b"before", .. }))
    ));
    for record in batch.records() {
        assert_eq!(records.next().map(Result::ok), Some(record.ok()));
    }
    assert!(records.next().is_none());
}
