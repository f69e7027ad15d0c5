//! A change of the tree, resolved: what flushes, compactions and replay hand to a version.
//!
//! A [`TreeEdit`] speaks of files as values. The record of the MANIFEST says the same in bytes;
//! `crate::edit_record` translates between the two.

use cairn_format::key::InternalKey;
use cairn_platform::sync::Arc;
use cairn_types::FileNumber;

use crate::blob_file_meta::{BlobFileMeta, BlobGarbage};
use crate::file_meta::FileMeta;

/// Files that leave and enter a family's tree in one step. Files that move between levels are
/// deleted from one and added to the other.
#[derive(Clone, Debug, Default)]
pub struct TreeEdit {
    /// Files that leave, with their level.
    pub deleted: Vec<(usize, FileNumber)>,
    /// Files that enter, with their level.
    pub added: Vec<(usize, Arc<FileMeta>)>,
    /// Blob files that enter.
    pub added_blobs: Vec<Arc<BlobFileMeta>>,
    /// Blobs that became garbage.
    pub blob_garbage: Vec<BlobGarbage>,
    /// Where the next round-robin compaction of a level begins.
    pub cursors: Vec<(usize, InternalKey)>,
}

impl TreeEdit {
    /// True if it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.deleted.is_empty()
            && self.added.is_empty()
            && self.added_blobs.is_empty()
            && self.blob_garbage.is_empty()
            && self.cursors.is_empty()
    }

    /// Everything that `other` changes, after everything that this changes.
    pub fn append(&mut self, other: TreeEdit) {
        self.deleted.extend(other.deleted);
        self.added.extend(other.added);
        self.added_blobs.extend(other.added_blobs);
        self.blob_garbage.extend(other.blob_garbage);
        self.cursors.extend(other.cursors);
    }
}
