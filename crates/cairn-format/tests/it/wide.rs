//! Wide-column entities written by RocksDB.

use cairn_format::batch::{BatchRef, Record};
use cairn_format::blob::BlobIndex;
use cairn_format::log::{Bytes, Event, LogReader};
use cairn_format::wide::{self, Column, ColumnValue};
use cairn_types::FileNumber;

#[test]
fn entities_of_rocksdb_round_trip_byte_for_byte() {
    let file = &include_bytes!("../../testdata/wide_columns_11_9.log")[..];
    let mut reader = LogReader::new(Bytes(file), 8);
    let mut entities = 0;
    while let Event::Record { payload, .. } = reader.next().unwrap() {
        for record in BatchRef::parse(payload).unwrap().records() {
            if let Record::PutEntity { entity, .. } = record.unwrap() {
                let columns: Vec<Column<'_>> = wide::decode(entity).unwrap().columns().collect();
                let mut again = Vec::new();
                wide::encode(&columns, &mut again).unwrap();
                assert_eq!(again, entity);
                entities += 1;
            }
        }
    }
    assert!(entities > 0);
    assert!(matches!(reader.event(), Event::End(_)));
}

#[test]
fn columns_may_be_in_blob_files() {
    let entity = b"\x02\x01\x01\x01\x03\x11\x03\x06big\x01\x0d\x49\x8d\x01\x04";
    let columns: Vec<Column<'_>> = wide::decode(entity).unwrap().columns().collect();
    let [column] = columns[..] else {
        panic!("the entity has one column");
    };
    assert_eq!(column.name, b"big");
    let ColumnValue::Blob(index) = column.value else {
        panic!("the value is in a blob file");
    };
    let expected = BlobIndex {
        file: FileNumber(13),
        offset: 73,
        size: 141,
        compression: 4,
    };
    assert_eq!(BlobIndex::decode(index), Ok(expected));
    let mut again = Vec::new();
    wide::encode(&columns, &mut again).unwrap();
    assert_eq!(again, entity);
}
