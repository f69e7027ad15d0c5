//! A change of the tree, applied by flushes, compactions and replay.
//!
//! A [`TreeEdit`] holds the metadata of the files it adds. Its MANIFEST record is a `VersionEdit`;
//! `crate::edit_record` converts between them.

use cairn_format::key::InternalKey;
use cairn_platform::sync::Arc;
use cairn_types::FileNumber;

use crate::blob_file_meta::{BlobFileMeta, BlobGarbage};
use crate::file_meta::FileMeta;

/// An atomic change of the files of a column family. A file that moves between levels is deleted from
/// one and added to the other.
#[derive(Clone, Debug, Default)]
pub struct TreeEdit {
    /// Deleted files, with their level.
    pub deleted: Vec<(usize, FileNumber)>,
    /// Added files, with their level.
    pub added: Vec<(usize, Arc<FileMeta>)>,
    /// Added blob files.
    pub added_blobs: Vec<Arc<BlobFileMeta>>,
    /// New garbage in blob files.
    pub blob_garbage: Vec<BlobGarbage>,
    /// Start keys of the next round-robin compaction of a level.
    pub cursors: Vec<(usize, InternalKey)>,
    /// The timestamp below which history may be dropped from now on; `None` if it is unchanged.
    pub history_low: Option<Vec<u8>>,
}

impl TreeEdit {
    /// True if the edit changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.deleted.is_empty()
            && self.added.is_empty()
            && self.added_blobs.is_empty()
            && self.blob_garbage.is_empty()
            && self.cursors.is_empty()
            && self.history_low.is_none()
    }

    /// Appends the changes of `other`.
    pub fn append(&mut self, other: TreeEdit) {
        self.deleted.extend(other.deleted);
        self.added.extend(other.added);
        self.added_blobs.extend(other.added_blobs);
        self.blob_garbage.extend(other.blob_garbage);
        self.cursors.extend(other.cursors);
        self.history_low = other.history_low.or(self.history_low.take());
    }
}
