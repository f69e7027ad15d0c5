//! The metadata of one blob file: how much was written to it, and how much of that
//! no table refers to any more.

use cairn_format::blob::{FOOTER_LEN, HEADER_LEN};
use cairn_types::FileNumber;

/// A blob file of a version. A value: accounting makes a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobFileMeta {
    /// The number in its name.
    pub number: FileNumber,
    /// Blobs in it.
    pub total_count: u64,
    /// Bytes of records in it: headers, keys and stored values.
    pub total_bytes: u64,
    /// How its checksum was made; empty for none.
    pub checksum_method: String,
    /// Its checksum; empty for none.
    pub checksum_value: Vec<u8>,
    /// Blobs that no entry refers to any more.
    pub garbage_count: u64,
    /// Bytes of their records.
    pub garbage_bytes: u64,
}

impl BlobFileMeta {
    /// Bytes of the file: its records, header and footer.
    #[must_use]
    pub fn file_size(&self) -> u64 {
        self.total_bytes
            .saturating_add((HEADER_LEN + FOOTER_LEN) as u64)
    }

    /// True if every blob is garbage.
    #[must_use]
    pub fn is_all_garbage(&self) -> bool {
        self.garbage_count >= self.total_count
    }
}

/// Blobs of one file that became garbage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobGarbage {
    /// The blob file.
    pub number: FileNumber,
    /// How many more blobs.
    pub count: u64,
    /// Bytes of their records.
    pub bytes: u64,
}
