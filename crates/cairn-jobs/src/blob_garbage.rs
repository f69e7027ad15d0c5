//! Counts the blobs that a compaction leaves unreferenced.
//!
//! A blob that is referenced by an input but by no output becomes garbage in its blob file.

use std::collections::BTreeMap;

use cairn_format::blob::{BlobIndex, RECORD_HEADER_LEN};
use cairn_format::wide::{self, ColumnValue};
use cairn_types::{Error, FileNumber, Result};
use cairn_version::BlobGarbage;

/// A number of blobs and the total size of their records.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    count: u64,
    bytes: u64,
}

/// The blobs of each file that enter with the inputs and leave with the outputs: RocksDB's
/// `BlobGarbageMeter`.
#[derive(Clone, Debug, Default)]
pub struct BlobGarbageMeter {
    files: BTreeMap<FileNumber, (Sum, Sum)>,
    /// True if entries of the input are known to refer to blobs.
    pub(crate) has_blobs: bool,
}

/// Returns the blob file and the stored size of the blob that a value refers to; `None` for an inlined
/// TTL index.
///
/// # Errors
///
/// `Corruption` if the blob index is malformed; `NotSupported` if it refers to a blob in its own
/// table, since the reference would be wrong in any other table.
pub fn blob_of(index: &[u8]) -> Result<Option<(FileNumber, u64)>> {
    match BlobIndex::decode(index) {
        Ok(BlobIndex {
            file: FileNumber(0),
            ..
        }) => Err(Error::not_supported(
            "compaction of a table with embedded blobs",
        )),
        Ok(BlobIndex { file, size, .. }) => Ok(Some((file, size))),
        Err(malformed) if malformed.unsupported => Ok(None),
        Err(malformed) => Err(malformed.in_file("a blob index in a table", 0)),
    }
}

/// True if columns of an encoded entity may be in blob files, judging by its first byte.
pub(crate) fn may_have_blobs(entity: &[u8]) -> bool {
    entity.first() != Some(&1)
}

impl BlobGarbageMeter {
    /// Counts the blob references of an input entity.
    ///
    /// # Errors
    ///
    /// `Corruption` if the entity or a blob index is malformed.
    pub fn entity_enters(&mut self, user_key: &[u8], entity: &[u8]) -> Result<()> {
        if !may_have_blobs(entity) {
            return Ok(());
        }
        let decoded = wide::decode(entity).map_err(|e| e.in_file("an entity in a table", 0))?;
        for column in decoded.columns() {
            if let ColumnValue::Blob(index) = column.value {
                self.enters(user_key, index)?;
            }
        }
        Ok(())
    }

    /// Counts the blob reference of an input entry.
    ///
    /// # Errors
    ///
    /// `Corruption` if the blob index is malformed.
    pub fn enters(&mut self, user_key: &[u8], index: &[u8]) -> Result<()> {
        self.add(user_key, index, |sums| &mut sums.0)
    }

    /// Counts the blob reference of a written entry.
    ///
    /// # Errors
    ///
    /// `Corruption` if the blob index is malformed.
    pub fn leaves(&mut self, user_key: &[u8], index: &[u8]) -> Result<()> {
        self.add(user_key, index, |sums| &mut sums.1)
    }

    fn add(
        &mut self,
        user_key: &[u8],
        index: &[u8],
        side: impl FnOnce(&mut (Sum, Sum)) -> &mut Sum,
    ) -> Result<()> {
        let Some((number, size)) = blob_of(index)? else {
            return Ok(());
        };
        let sum = side(self.files.entry(number).or_default());
        sum.count += 1;
        let key_len = user_key.len() as u64;
        sum.bytes = sum
            .bytes
            .saturating_add(RECORD_HEADER_LEN as u64 + key_len)
            .saturating_add(size);
        Ok(())
    }

    /// True if entries of the input refer to blobs.
    pub(crate) fn is_expected(&self) -> bool {
        self.has_blobs || !self.files.is_empty()
    }

    /// Adds the counts of another subcompaction of the job.
    pub fn merge(&mut self, other: &BlobGarbageMeter) {
        for (&number, (entered, left)) in &other.files {
            let sums = self.files.entry(number).or_default();
            for (sum, more) in [(&mut sums.0, entered), (&mut sums.1, left)] {
                sum.count += more.count;
                sum.bytes = sum.bytes.saturating_add(more.bytes);
            }
        }
    }

    /// Returns the number of references to the blob file `number` that leave, and the bytes of their records.
    #[must_use]
    pub fn left(&self, number: FileNumber) -> (u64, u64) {
        let sums = self.files.get(&number);
        sums.map_or((0, 0), |(_, left)| (left.count, left.bytes))
    }

    /// Returns the garbage of each blob file.
    #[must_use]
    pub fn counted(&self) -> Vec<BlobGarbage> {
        let files = self.files.iter();
        files
            .inspect(|(number, (entered, left))| {
                debug_assert!(
                    left.count <= entered.count,
                    "more references to blob file {number} leave than enter"
                );
            })
            .map(|(&number, (entered, left))| BlobGarbage {
                number,
                count: entered.count.saturating_sub(left.count),
                bytes: entered.bytes.saturating_sub(left.bytes),
            })
            .filter(|garbage| garbage.count > 0)
            .collect()
    }
}
