//! Blob files and blob indexes.
//!
//! The first byte selects the content of the rest: 0 for a file, otherwise a blob index.

use cairn_format::blob::{BlobIndex, Footer, Header, RecordHeader};

/// Reads the file record by record, or the blob index.
pub fn run(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else {
        return;
    };
    if choice == 0 {
        file(data);
        return;
    }
    let Ok(index) = BlobIndex::decode(data) else {
        return;
    };
    let mut bytes = Vec::new();
    index.encode(&mut bytes);
    assert_eq!(BlobIndex::decode(&bytes).ok(), Some(index));
}

fn file(data: &[u8]) {
    if let Ok(header) = Header::decode(data) {
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        assert_eq!(Header::decode(&bytes).ok(), Some(header));
    }
    if let Some(tail) = data.last_chunk::<32>()
        && let Ok(footer) = Footer::decode(tail)
    {
        let mut bytes = Vec::new();
        footer.encode(&mut bytes);
        assert_eq!(Footer::decode(&bytes).ok(), Some(footer));
    }
    let mut rest = data.get(30..).unwrap_or_default();
    while let Ok(header) = RecordHeader::decode(rest) {
        let len = header
            .record_len()
            .and_then(|len| usize::try_from(len).ok());
        let Some(record) = len.and_then(|len| rest.get(..len)) else {
            break;
        };
        let key_len = usize::try_from(header.key_len).expect("it is part of a length that is");
        let (key, value) = record[32..].split_at(key_len);
        let _ = header.check_body(key, value);
        rest = &rest[record.len()..];
    }
}
