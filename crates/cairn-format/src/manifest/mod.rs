//! Version edits: changes of a database's LSM tree, and the payload of MANIFEST records.
//!
//! An edit is a sequence of `varint32 tag, body` up to the end of its record. Unknown tags with bit 13 set
//! have a length and are skipped; others are rejected. The bodies are described at [`tag`].
//!
//! This module encodes and decodes edits and validates each field individually. Consistency with
//! earlier edits (levels, overlap, column families) is checked when they are replayed.

mod blob_file;
mod decode;
mod encode;
mod file_details;
mod new_file;
pub mod tag;

#[cfg(test)]
mod tests;

use cairn_types::{Decoded, FileNumber, SequenceNumber};

pub use blob_file::{BlobAddition, BlobGarbage};
pub use file_details::{
    CreationTimes, FileChecksum, NO_CHECKSUM_FUNCTION, SequenceRange, Timestamps,
};
pub use new_file::NewFile;

use crate::key::InternalKey;

/// A change of the LSM tree. Fields that are `None` or empty are unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionEdit {
    /// The database id.
    pub db_id: Option<String>,
    /// The name of the column family's comparator.
    pub comparator: Option<String>,
    /// The oldest WAL with unflushed data of the column family.
    pub log_number: Option<FileNumber>,
    /// Obsolete, inherited from LevelDB: zero.
    pub prev_log_number: Option<u64>,
    /// The next file number.
    pub next_file_number: Option<FileNumber>,
    /// The largest column family id ever assigned.
    pub max_family: Option<u32>,
    /// The oldest WAL that any column family needs.
    pub min_log_number_to_keep: Option<FileNumber>,
    /// An upper bound of the sequence numbers in the tree.
    pub last_sequence: Option<SequenceNumber>,
    /// Changes of the files of the column family.
    pub tree: TreeChanges,
    /// Changes of the set of WALs tracked in the MANIFEST.
    pub wals: WalChanges,
    /// The column family of the edit.
    pub family: u32,
    /// Creation or deletion of the column family.
    pub family_change: Option<FamilyChange>,
    /// The number of edits of the same atomic group that follow; `None` outside of a group.
    pub atomic_group_remaining: Option<u32>,
    /// The same for a group that creates or drops column families, which is not allowed in RocksDB's atomic
    /// groups. To RocksDB the edits are independent.
    pub family_group_remaining: Option<u32>,
    /// The timestamp below which history may be trimmed.
    pub full_history_ts_low: Option<Vec<u8>>,
    /// True if user-defined timestamps are persisted in tables of the column family.
    pub persist_timestamps: Option<bool>,
    /// The progress of a remote compaction in RocksDB's encoding; never in a MANIFEST.
    pub compaction_progress: Option<Vec<u8>>,
    /// The size of the MANIFEST when it was created.
    pub compacted_manifest_bytes: Option<u64>,
    /// The WAL position that the edit's tables are newer than, where no log number implies it.
    pub log_reach: Option<LogReach>,
}

/// The files that an edit adds to the tree of a column family and removes from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeChanges {
    /// The start of the next round-robin compaction of a level.
    pub compact_cursors: Vec<(u32, InternalKey)>,
    /// Tables removed from the tree, by level.
    pub deleted_files: Vec<(u32, FileNumber)>,
    /// Tables added to the tree.
    pub new_files: Vec<NewFile>,
    /// Blob files added to the tree.
    pub blob_additions: Vec<BlobAddition>,
    /// Additional garbage in blob files.
    pub blob_garbage: Vec<BlobGarbage>,
}

/// A change of the set of WALs that are tracked in the MANIFEST.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalChanges {
    /// WALs that are created or synced.
    pub additions: Vec<WalAddition>,
    /// The number below which WALs are no longer tracked.
    pub deleted_before: Option<FileNumber>,
}

/// The durable part of a WAL when tables were added whose data is in no WAL. The tables are newer
/// than the records up to this point: a recovery that ends earlier must not keep them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogReach {
    /// The number of the WAL.
    pub number: FileNumber,
    /// The offset after its last record.
    pub bytes: u64,
}

/// Starts the record of an edit that continues an atomic group. When such a record is found after
/// invalid bytes, those bytes belong to the same append.
pub fn mark_later_in_group(out: &mut Vec<u8>) {
    crate::coding::put_varint32(out, tag::LATER_IN_GROUP);
    crate::coding::put_lps(out, &[]);
}

/// True if `record`, or its start, was marked by [`mark_later_in_group`].
#[must_use]
pub fn is_later_in_group(record: &[u8]) -> bool {
    let mut mark = Vec::new();
    mark_later_in_group(&mut mark);
    record.starts_with(&mark)
}

/// Creation or deletion of a column family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FamilyChange {
    /// Created with this name.
    Add {
        /// The name.
        name: String,
    },
    /// Dropped with all its files.
    Drop,
}

/// A WAL and its durable size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalAddition {
    /// The number.
    pub number: FileNumber,
    /// The size at the last sync; `None` if it was just created.
    pub synced_bytes: Option<u64>,
}

impl VersionEdit {
    /// An empty edit of column family `family`.
    #[must_use]
    pub fn of_family(family: u32) -> VersionEdit {
        VersionEdit {
            family,
            ..VersionEdit::default()
        }
    }

    /// An edit that only records the size of the MANIFEST at its creation.
    #[must_use]
    pub fn of_size(fresh_bytes: u64) -> VersionEdit {
        VersionEdit {
            compacted_manifest_bytes: Some(fresh_bytes),
            ..VersionEdit::default()
        }
    }

    /// The last edit of a MANIFEST that was closed and may be continued. RocksDB never writes these two
    /// fields alone, and they do not change its state.
    #[must_use]
    pub fn of_end(fresh_bytes: u64) -> VersionEdit {
        VersionEdit {
            prev_log_number: Some(0),
            ..VersionEdit::of_size(fresh_bytes)
        }
    }

    /// Decodes an edit, the payload of a MANIFEST record. Empty input is an empty edit.
    ///
    /// # Errors
    ///
    /// [`cairn_types::Malformed`] for a field that is truncated or has an invalid value, and for unknown tags
    /// that may not be skipped, with their number.
    pub fn decode(bytes: &[u8]) -> Decoded<VersionEdit> {
        decode::decode(bytes)
    }

    /// Encodes the edit and appends it to `out`, with its fields in RocksDB's order.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode::encode(self, out);
    }

    /// The encoded edit.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }
}
