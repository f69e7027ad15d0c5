//! Segments of the flash cache: the header, the table, and every record that the table names.

use cairn_format::cache_segment::{
    HEADER_LEN, RECORD_HEADER_LEN, ROW_LEN, SegmentBuilder, SegmentHeader, SegmentRecord,
};
use cairn_format::hash::xxh3_128;

/// Reads the file as a restart and lookups do. A segment whose records are all valid is built again.
pub fn run(data: &[u8]) {
    let Ok(header) = SegmentHeader::decode(data, data.len() as u64) else {
        return;
    };
    let Ok(rows) = header.decode_table(&data[HEADER_LEN..][..header.table_len()]) else {
        return;
    };
    let mut built = SegmentBuilder::new(header.generation);
    let mut all = true;
    for row in &rows {
        let at = usize::try_from(row.offset).expect("the row was checked");
        let len = usize::try_from(row.len).expect("the row was checked");
        match SegmentRecord::decode(&data[at..][..len], header.generation) {
            Ok(record) => {
                all &= record.key == row.key && record.role == row.role;
                assert!(built.add(&record), "it was part of a segment");
            }
            Err(_) => all = false,
        }
    }
    if all {
        let built = built.finish(header.identity);
        let end = usize::try_from(header.end).expect("the header was checked");
        assert_eq!([built.head, built.records].concat(), data[..end]);
        assert_eq!(built.rows, rows);
    }
}

/// Recomputes the checksums of the table, the header and the records.
pub fn repair(data: &mut [u8]) {
    let Some(generation) = data.get(16..24) else {
        return;
    };
    let generation = u64::from_le_bytes(generation.try_into().expect("the range has 8 bytes"));
    let sum = |bytes: &[u8]| xxh3_128(bytes, generation).1.to_le_bytes();
    let number = |data: &[u8], at: usize| {
        let bytes = data.get(at..at + 4)?;
        let number = u32::from_le_bytes(bytes.try_into().expect("the range has 4 bytes"));
        usize::try_from(number).ok()
    };
    let table_len = number(data, 12).and_then(|entries| entries.checked_mul(ROW_LEN));
    let Some(table_len) = table_len.filter(|len| len.saturating_add(HEADER_LEN) <= data.len())
    else {
        return;
    };
    for row in (HEADER_LEN..HEADER_LEN + table_len).step_by(ROW_LEN) {
        let (Some(at), Some(len)) = (number(data, row + 16), number(data, row + 20)) else {
            return;
        };
        let end = at.saturating_add(len);
        if len >= RECORD_HEADER_LEN && end <= data.len() {
            let fixed = sum(&data[at + 8..end]);
            data[at..at + 8].copy_from_slice(&fixed);
        }
    }
    let fixed = sum(&data[HEADER_LEN..][..table_len]);
    data[48..56].copy_from_slice(&fixed);
    let fixed = sum(&data[..56]);
    data[56..64].copy_from_slice(&fixed);
}
