//! The version edit: one change of a database's tree, and the payload of a MANIFEST record.
//!
//! An edit is a list of `varint32 tag, body` up to the end of its record. A tag that Cairn does
//! not know is skipped if it has bit 13 set, for then a length follows it; otherwise the edit is
//! refused. What the bodies hold is drawn at [`tag`].
//!
//! This module turns edits into bytes and back and checks each field by itself. Whether an edit
//! makes sense after those before it (levels, overlap, known families) is for who replays them.

mod blob_file;
mod decode;
mod encode;
mod new_file;
pub mod tag;

#[cfg(test)]
mod tests;

use cairn_types::{Decoded, FileNumber, SequenceNumber};

pub use blob_file::{BlobAddition, BlobGarbage};
pub use new_file::{NO_CHECKSUM_FUNCTION, NewFile};

use crate::key::InternalKey;

/// One change of the tree. What is `None` or empty stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionEdit {
    /// The database's id.
    pub db_id: Option<String>,
    /// Name of the family's comparator.
    pub comparator: Option<String>,
    /// The family's oldest WAL that may hold unflushed data.
    pub log_number: Option<FileNumber>,
    /// A relic of LevelDB: zero.
    pub prev_log_number: Option<u64>,
    /// The number that the next new file gets.
    pub next_file_number: Option<FileNumber>,
    /// The largest family id ever given.
    pub max_family: Option<u32>,
    /// No WAL with a smaller number is needed by anybody.
    pub min_log_number_to_keep: Option<FileNumber>,
    /// The largest sequence number in the tree, or beyond.
    pub last_sequence: Option<SequenceNumber>,
    /// Where the next round-robin compaction of a level begins.
    pub compact_cursors: Vec<(u32, InternalKey)>,
    /// Tables that leave the tree, by level.
    pub deleted_files: Vec<(u32, FileNumber)>,
    /// Tables that join the tree.
    pub new_files: Vec<NewFile>,
    /// Blob files that join the tree.
    pub blob_additions: Vec<BlobAddition>,
    /// Values of blob files that nobody needs any more.
    pub blob_garbage: Vec<BlobGarbage>,
    /// WALs that the MANIFEST vouches for.
    pub wal_additions: Vec<WalAddition>,
    /// The MANIFEST no longer vouches for WALs with smaller numbers.
    pub wals_deleted_before: Option<FileNumber>,
    /// The family that the edit is about.
    pub family: u32,
    /// Whether the family comes or goes.
    pub family_change: Option<FamilyChange>,
    /// How many edits of an atomic group follow this one; `None` outside groups.
    pub atomic_group_remaining: Option<u32>,
    /// The same of a group in which families come or go, which RocksDB's atomic groups must not hold. To
    /// RocksDB each of its edits counts by itself.
    pub family_group_remaining: Option<u32>,
    /// Timestamps below this one may be gone.
    pub full_history_ts_low: Option<Vec<u8>>,
    /// Whether user-defined timestamps are stored in the family's tables.
    pub persist_timestamps: Option<bool>,
    /// How far a compaction elsewhere has come, as RocksDB encodes it; never in a MANIFEST.
    pub compaction_progress: Option<Vec<u8>>,
    /// Size of the MANIFEST when it was freshly written.
    pub compacted_manifest_bytes: Option<u64>,
    /// What the edit's tables are newer than, though no log number says so.
    pub log_reach: Option<LogReach>,
}

/// How far a WAL was durable when tables joined that no WAL holds. They are newer than its records
/// up to there: a recovery that ends before it may not keep them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogReach {
    /// Its number.
    pub number: FileNumber,
    /// The offset behind its last record.
    pub bytes: u64,
}

/// Begins the record of an edit that follows others of its atomic group. Whoever finds such a
/// record behind bytes that are none knows that they belong to the same append.
pub fn mark_later_in_group(out: &mut Vec<u8>) {
    crate::coding::put_varint32(out, tag::LATER_IN_GROUP);
    crate::coding::put_lps(out, &[]);
}

/// True if `record`, or its beginning, is marked by [`mark_later_in_group`].
#[must_use]
pub fn is_later_in_group(record: &[u8]) -> bool {
    let mut mark = Vec::new();
    mark_later_in_group(&mut mark);
    record.starts_with(&mark)
}

/// Whether a family comes or goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FamilyChange {
    /// It is new, and has this name.
    Add {
        /// Its name.
        name: String,
    },
    /// It is gone, and all its files.
    Drop,
}

/// A WAL that exists, and how much of it is known to be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalAddition {
    /// Its number.
    pub number: FileNumber,
    /// Its size at the last sync; `None` if it was just created.
    pub synced_bytes: Option<u64>,
}

impl VersionEdit {
    /// An edit of family `family` that changes nothing yet.
    #[must_use]
    pub fn of_family(family: u32) -> VersionEdit {
        VersionEdit {
            family,
            ..VersionEdit::default()
        }
    }

    /// An edit that says nothing but how large the MANIFEST was when it was fresh.
    #[must_use]
    pub fn of_size(fresh_bytes: u64) -> VersionEdit {
        VersionEdit {
            compacted_manifest_bytes: Some(fresh_bytes),
            ..VersionEdit::default()
        }
    }

    /// The last edit of a MANIFEST that was closed and may be gone on with: RocksDB never writes these two
    /// alone, and finds nothing new in them.
    #[must_use]
    pub fn of_end(fresh_bytes: u64) -> VersionEdit {
        VersionEdit {
            prev_log_number: Some(0),
            ..VersionEdit::of_size(fresh_bytes)
        }
    }

    /// Reads one edit, the whole of a MANIFEST record. Empty bytes are an edit that changes
    /// nothing.
    ///
    /// # Errors
    ///
    /// [`cairn_types::Malformed`] for a field that is cut short or has an impossible value, and
    /// for unknown tags that may not be skipped, with their number.
    pub fn decode(bytes: &[u8]) -> Decoded<VersionEdit> {
        decode::decode(bytes)
    }

    /// Appends the edit's bytes to `out`, in the order in which RocksDB writes its fields.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode::encode(self, out);
    }

    /// The edit's bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }
}
