//! Descriptions of tables that are to be ingested.

use cairn_format::checksum::{crc32c, mask};
use cairn_format::prepared_file::PreparedFile;

use crate::memory_limit::Bound;

/// The properties of collectors are in hexadecimal twice, but each is an entry of a map.
pub const BOUND: Bound = Bound {
    base: 64 << 10,
    factor: 16,
};

/// Decodes the input.
pub fn run(data: &[u8]) {
    if let Ok(found) = PreparedFile::decode(data) {
        let again = PreparedFile::decode(&found.encode());
        assert_eq!(again.expect("an encoded description is decoded"), found);
    }
}

/// Recomputes the checksum at the end.
pub fn repair(data: &mut [u8]) {
    if let Some((text, checksum)) = data.split_last_chunk_mut::<4>() {
        *checksum = mask(crc32c(text)).to_le_bytes();
    }
}
