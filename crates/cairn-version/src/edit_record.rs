//! Conversion between a change of the tree and its MANIFEST record.

use cairn_format::key::{self, InternalKey};
use cairn_format::manifest::{self, BlobAddition, NewFile, TreeChanges, VersionEdit};
use cairn_platform::sync::{Arc, OnceLock};

use crate::blob_file_meta::{BlobFileMeta, BlobGarbage};
use crate::builder::MAX_LEVELS;
use crate::edit::TreeEdit;
use crate::file_meta::{CompactionHints, FileMeta};
use crate::open_tables::TableSlot;

/// Converts a level of a record. Values above the maximum number of levels are rejected when the
/// edit is applied.
fn level_of(level: u32) -> usize {
    usize::try_from(level).unwrap_or(usize::MAX)
}

impl From<TreeChanges> for TreeEdit {
    fn from(tree: TreeChanges) -> TreeEdit {
        let deleted = tree.deleted_files.iter();
        let added = tree.new_files.into_iter();
        let cursors = tree.compact_cursors.into_iter();
        TreeEdit {
            deleted: deleted
                .map(|&(level, number)| (level_of(level), number))
                .collect(),
            added: added
                .map(|file| (level_of(file.level), Arc::new(FileMeta::from(file))))
                .collect(),
            added_blobs: tree
                .blob_additions
                .iter()
                .map(|blob| Arc::new(blob.into()))
                .collect(),
            blob_garbage: tree.blob_garbage.iter().map(BlobGarbage::from).collect(),
            cursors: cursors.map(|(level, key)| (level_of(level), key)).collect(),
            history_low: None,
        }
    }
}

impl TreeEdit {
    /// Returns the MANIFEST record of this change for `family`. Existing garbage of added blob files is
    /// included.
    #[must_use]
    pub fn record(&self, family: u32) -> VersionEdit {
        let level = |level: usize| {
            assert!(level < MAX_LEVELS, "level {level} cannot be read back");
            level as u32
        };
        let deleted = self.deleted.iter();
        let added = self.added.iter();
        let cursors = self.cursors.iter();
        let known = self
            .added_blobs
            .iter()
            .filter(|blob| blob.garbage_count > 0);
        let known = known.map(|blob| BlobGarbage {
            number: blob.number,
            count: blob.garbage_count,
            bytes: blob.garbage_bytes,
        });
        let tree = TreeChanges {
            compact_cursors: cursors.map(|(at, key)| (level(*at), key.clone())).collect(),
            deleted_files: deleted.map(|&(at, number)| (level(at), number)).collect(),
            new_files: added.map(|(at, file)| file.record(level(*at))).collect(),
            blob_additions: self.added_blobs.iter().map(|blob| blob.record()).collect(),
            blob_garbage: known
                .chain(self.blob_garbage.iter().copied())
                .map(|garbage| manifest::BlobGarbage {
                    number: garbage.number,
                    blob_count: garbage.count,
                    blob_bytes: garbage.bytes,
                })
                .collect(),
        };
        VersionEdit {
            tree,
            full_history_ts_low: self.history_low.clone(),
            ..VersionEdit::of_family(family)
        }
    }
}

impl From<NewFile> for FileMeta {
    fn from(file: NewFile) -> FileMeta {
        FileMeta {
            number: file.number,
            path_id: file.path_id,
            size: file.size,
            smallest: file.smallest,
            largest: file.largest,
            seqs: file.seqs,
            epoch: file.epoch_number,
            oldest_blob: file.oldest_blob_file,
            times: file.times,
            checksum: file.checksum,
            unique_id: (file.unique_id != [0, 0]).then_some(file.unique_id),
            temperature: file.temperature,
            compensated_range_deletion_size: file.compensated_range_deletion_size,
            tail_size: file.tail_size,
            timestamps: file.timestamps,
            hints: CompactionHints {
                marked: file.marked_for_compaction,
                ..CompactionHints::default()
            },
            counts: OnceLock::new(),
            table: TableSlot::default(),
            charge: OnceLock::new(),
        }
    }
}

/// The size of timestamps in tables that do not keep them: only the built-in comparators support this.
const STRIPPED_TIMESTAMP: usize = 8;

impl FileMeta {
    /// Returns `bound` as it is recorded: without timestamp if the table does not keep timestamps.
    fn recorded_bound(&self, bound: &InternalKey) -> InternalKey {
        if self.timestamps.persisted {
            return bound.clone();
        }
        let plain = key::strip_timestamp(bound.user_key(), STRIPPED_TIMESTAMP);
        InternalKey::new(plain, bound.seq(), bound.kind())
    }

    /// Returns the record that adds this file to `level`.
    fn record(&self, level: u32) -> NewFile {
        NewFile {
            level,
            number: self.number,
            path_id: self.path_id,
            size: self.size,
            smallest: self.recorded_bound(&self.smallest),
            largest: self.recorded_bound(&self.largest),
            seqs: self.seqs,
            marked_for_compaction: self.hints.marked,
            oldest_blob_file: self.oldest_blob,
            times: self.times,
            checksum: self.checksum.clone(),
            temperature: self.temperature,
            timestamps: self.timestamps.clone(),
            unique_id: self.unique_id.unwrap_or([0, 0]),
            epoch_number: self.epoch,
            compensated_range_deletion_size: self.compensated_range_deletion_size,
            tail_size: self.tail_size,
        }
    }
}

impl From<&BlobAddition> for BlobFileMeta {
    fn from(blob: &BlobAddition) -> BlobFileMeta {
        BlobFileMeta {
            number: blob.number,
            total_count: blob.blob_count,
            total_bytes: blob.blob_bytes,
            checksum_method: blob.checksum_method.clone(),
            checksum_value: blob.checksum.clone(),
            garbage_count: 0,
            garbage_bytes: 0,
        }
    }
}

impl BlobFileMeta {
    fn record(&self) -> BlobAddition {
        assert!(
            self.garbage_count <= self.total_count,
            "garbage is part of the file"
        );
        BlobAddition {
            number: self.number,
            blob_count: self.total_count,
            blob_bytes: self.total_bytes,
            checksum_method: self.checksum_method.clone(),
            checksum: self.checksum_value.clone(),
        }
    }
}

impl From<&manifest::BlobGarbage> for BlobGarbage {
    fn from(garbage: &manifest::BlobGarbage) -> BlobGarbage {
        BlobGarbage {
            number: garbage.number,
            count: garbage.blob_count,
            bytes: garbage.blob_bytes,
        }
    }
}
