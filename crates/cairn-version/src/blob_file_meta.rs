//! Metadata of a blob file: its total size and the amount of garbage.

use cairn_format::blob::{FOOTER_LEN, HEADER_LEN};
use cairn_types::FileNumber;

/// A blob file of a version. Immutable: updating the garbage creates a new value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobFileMeta {
    /// File number.
    pub number: FileNumber,
    /// Number of blobs.
    pub total_count: u64,
    /// Total size of its records: headers, keys and stored values, in bytes.
    pub total_bytes: u64,
    /// Name of the checksum function; empty if none.
    pub checksum_method: String,
    /// Whole-file checksum; empty if none.
    pub checksum_value: Vec<u8>,
    /// Number of blobs without a reference.
    pub garbage_count: u64,
    /// Total size of their records, in bytes.
    pub garbage_bytes: u64,
}

impl BlobFileMeta {
    /// Creates metadata of a file without garbage and without a checksum.
    #[must_use]
    pub fn new(number: FileNumber, total_count: u64, total_bytes: u64) -> BlobFileMeta {
        BlobFileMeta {
            number,
            total_count,
            total_bytes,
            checksum_method: String::new(),
            checksum_value: Vec::new(),
            garbage_count: 0,
            garbage_bytes: 0,
        }
    }

    /// Returns the file size in bytes: records, header and footer.
    #[must_use]
    pub fn file_size(&self) -> u64 {
        self.total_bytes
            .saturating_add((HEADER_LEN + FOOTER_LEN) as u64)
    }

    /// True if every blob is garbage.
    #[must_use]
    pub fn is_all_garbage(&self) -> bool {
        debug_assert!(self.garbage_count <= self.total_count);
        debug_assert!(self.garbage_bytes <= self.total_bytes);
        self.garbage_count >= self.total_count
    }
}

/// New garbage in a blob file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobGarbage {
    /// File number.
    pub number: FileNumber,
    /// Number of blobs that became garbage.
    pub count: u64,
    /// Total size of their records, in bytes.
    pub bytes: u64,
}
