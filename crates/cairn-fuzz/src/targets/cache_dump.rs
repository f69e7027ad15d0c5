//! Dumps of a block cache: the header and the records, as they are loaded.

use cairn_format::cache_dump::{DumpHeader, DumpRecord, HEADER_LEN, RECORD_LEN};
use cairn_format::checksum::{crc32c, crc32c_extend, mask};

/// Reads the dump up to its first damage. What was read encodes to the same bytes.
pub fn run(data: &[u8]) {
    let Ok(header) = DumpHeader::decode(data) else {
        return;
    };
    assert_eq!(header.encode(), data[..HEADER_LEN]);
    let mut rest = &data[HEADER_LEN..];
    while let Some((bytes, after)) = rest.split_first_chunk::<RECORD_LEN>() {
        let Ok(record) = DumpRecord::decode(bytes) else {
            return;
        };
        let len = match record {
            DumpRecord::Entry(entry) => entry.len as usize,
            DumpRecord::End { .. } => 0,
        };
        let Some((block, after)) = after.split_at_checked(len) else {
            return;
        };
        if DumpRecord::verify(&header, bytes, block).is_err() {
            return;
        }
        assert_eq!(record.encode(&header, block), bytes);
        rest = after;
    }
}

/// Recomputes the checksums of the header and the records.
pub fn repair(data: &mut [u8]) {
    if data.len() < HEADER_LEN {
        return;
    }
    let sum = crc32c(&data[..HEADER_LEN - 4]);
    data[HEADER_LEN - 4..HEADER_LEN].copy_from_slice(&mask(sum).to_le_bytes());
    let mut at = HEADER_LEN;
    while let Some(record) = data.get(at..at + RECORD_LEN) {
        let len = u32::from_le_bytes([record[8], record[9], record[10], record[11]]) as usize;
        let end = at.saturating_add(RECORD_LEN).saturating_add(len);
        let Some(body) = data.get(at + 4..end) else {
            return;
        };
        let fixed = mask(crc32c_extend(sum, body)).to_le_bytes();
        data[at..at + 4].copy_from_slice(&fixed);
        at = end;
    }
}
