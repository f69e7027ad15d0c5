//! Large values in blob files.

use cairn::CompactRangeOptions;

use crate::database;

#[test]
fn large_values_are_stored_in_blob_files_and_read_as_usual() {
    let db = database("enable_blob_files=true;min_blob_size=1000");
    db.put(b"large", &[7; 5000]).unwrap();
    db.put(b"small", b"1").unwrap();
    db.flush().unwrap();
    assert_eq!(db.property_number("rocksdb.num-blob-files"), Some(1));
    assert_eq!(db.get(b"large").unwrap().unwrap().len(), 5000);
    let lengths: Vec<usize> = (&db)
        .into_iter()
        .map(|entry| entry.unwrap().1.len())
        .collect();
    assert_eq!(lengths, [5000, 1]);

    db.delete(b"large").unwrap();
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    assert_eq!(db.property_number("rocksdb.num-blob-files"), Some(0));
}

#[test]
fn deferred_values_are_read_by_iteration() {
    let db = database("enable_blob_files=true");
    db.put(b"k", &[7; 5000]).unwrap();
    db.flush().unwrap();
    let options = cairn::ReadOptions {
        allow_unprepared_value: true,
        ..Default::default()
    };
    let entries: Vec<_> = db.iter_with(&options).into_iter().collect();
    assert_eq!(entries[0].as_ref().unwrap().1.len(), 5000);

    let (batch, family) = (cairn::IndexedBatch::new(true), db.default_family());
    batch.put(b"l", b"1");
    let over = family.iter_with_batch(&batch, &options);
    let lengths = over.into_iter().map(|entry| entry.unwrap().1.len());
    assert_eq!(lengths.collect::<Vec<_>>(), [5000, 1]);
}
