//! Counts and sizes of a family's blob files and its blob cache, for properties.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use cairn_read::View;
use cairn_types::FileNumber;
use cairn_version::{BlobFileMeta, Version};

use crate::shared::Shared;

/// The blob files of one version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlobStats {
    /// The number of files.
    pub(crate) files: u64,
    /// Bytes of all of them.
    pub(crate) bytes: u64,
    /// Bytes of garbage in them: records that no table refers to.
    pub(crate) garbage: u64,
}

impl BlobStats {
    pub(crate) fn of(version: &Version) -> BlobStats {
        let files = version.blob_files().values();
        files.fold(BlobStats::default(), |sum, file| BlobStats {
            files: sum.files + 1,
            bytes: sum.bytes.saturating_add(file.file_size()),
            garbage: sum.garbage.saturating_add(file.garbage_bytes),
        })
    }

    /// Bytes of all records per byte that is not garbage.
    pub(crate) fn space_amplification(&self) -> f64 {
        match self.bytes.saturating_sub(self.garbage) {
            0 => 0.0,
            live => self.bytes as f64 / live as f64,
        }
    }
}

/// The text of `rocksdb.blob-stats`.
impl fmt::Display for BlobStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Number of blob files: {}", self.files)?;
        writeln!(f, "Total size of blob files: {}", self.bytes)?;
        writeln!(f, "Total size of garbage in blob files: {}", self.garbage)?;
        let amplification = self.space_amplification();
        writeln!(f, "Blob file space amplification: {amplification}")
    }
}

impl Shared {
    /// Returns the total size of the blob files of the family of `view`, including those kept only by readers
    /// of older versions.
    pub(crate) fn all_blob_bytes(&self, view: &View) -> u64 {
        let mut all: BTreeMap<FileNumber, Arc<BlobFileMeta>> = view.version.blob_files().clone();
        let waiting = self.catalog.deletions.blobs_of(&view.family.blobs);
        all.extend(waiting.into_iter().map(|file| (file.number, file)));
        let sizes = all.values().map(|file| file.file_size());
        sizes.fold(0, u64::saturating_add)
    }
}

/// Returns the capacity of the blob cache of `view`'s family, its usage, and its pinned usage; `None` without
/// a cache.
pub(crate) fn blob_cache(view: &View) -> Option<(u64, u64, u64)> {
    let cache = view.family.blobs.cache()?;
    Some((
        cache.capacity() as u64,
        cache.usage() as u64,
        cache.pinned_usage() as u64,
    ))
}
