//! The tags of the fields of a version edit, and their bodies.
//!
//! ```text
//! Comparator           name                        ColumnFamily        varint32 id
//! LogNumber            varint64                    ColumnFamilyAdd     name
//! NextFileNumber       varint64                    ColumnFamilyDrop    nothing
//! LastSequence         varint64                    MaxColumnFamily     varint32 id
//! CompactCursor        varint32 level, key         InAtomicGroup       varint32 edits to come
//! DeletedFile          varint32 level, varint64    BlobFileAddition    see `BlobAddition`
//! NewFile 1 to 4       see `NewFile`               BlobFileGarbage     see `BlobGarbage`
//! PrevLogNumber        varint64                    MinLogNumberToKeep  varint64
//! ```
//!
//! Names and keys have a varint32 length prefix. For tags of 8192 and up, so has the whole body.

/// The name of the comparator.
pub const COMPARATOR: u32 = 1;
/// The oldest WAL of the column family with unflushed data.
pub const LOG_NUMBER: u32 = 2;
/// The next file number.
pub const NEXT_FILE_NUMBER: u32 = 3;
/// The largest sequence number.
pub const LAST_SEQUENCE: u32 = 4;
/// The start of the next round-robin compaction of a level.
pub const COMPACT_CURSOR: u32 = 5;
/// A removed table.
pub const DELETED_FILE: u32 = 6;
/// An added table, in LevelDB's format.
pub const NEW_FILE: u32 = 7;
/// Zero.
pub const PREV_LOG_NUMBER: u32 = 9;
/// The oldest WAL needed.
pub const MIN_LOG_NUMBER_TO_KEEP: u32 = 10;
/// An added table, with sequence numbers.
pub const NEW_FILE2: u32 = 100;
/// An added table, with sequence numbers and a path.
pub const NEW_FILE3: u32 = 102;
/// An added table, with tagged fields.
pub const NEW_FILE4: u32 = 103;
/// The column family of the edit.
pub const COLUMN_FAMILY: u32 = 200;
/// Creation of the column family.
pub const COLUMN_FAMILY_ADD: u32 = 201;
/// Deletion of the column family.
pub const COLUMN_FAMILY_DROP: u32 = 202;
/// The largest column family id assigned.
pub const MAX_COLUMN_FAMILY: u32 = 203;
/// The number of remaining edits of an atomic group.
pub const IN_ATOMIC_GROUP: u32 = 300;
/// An added blob file.
pub const BLOB_FILE_ADDITION: u32 = 400;
/// Garbage in a blob file.
pub const BLOB_FILE_GARBAGE: u32 = 401;

/// Unknown tags with this bit have a length and are skipped.
pub const SKIPPABLE: u32 = 1 << 13;
/// The database id.
pub const DB_ID: u32 = SKIPPABLE + 1;
/// An obsolete form of [`BLOB_FILE_ADDITION`], without a length despite the bit.
pub const OLD_BLOB_FILE_ADDITION: u32 = SKIPPABLE + 2;
/// An obsolete form of [`BLOB_FILE_GARBAGE`], without a length despite the bit.
pub const OLD_BLOB_FILE_GARBAGE: u32 = SKIPPABLE + 3;
/// An obsolete form of [`WAL_ADDITION`], without a length despite the bit.
pub const OLD_WAL_ADDITION: u32 = SKIPPABLE + 4;
/// An obsolete form of [`WAL_DELETION`], without a length despite the bit.
pub const OLD_WAL_DELETION: u32 = SKIPPABLE + 5;
/// The timestamp below which history may be trimmed.
pub const FULL_HISTORY_TS_LOW: u32 = SKIPPABLE + 6;
/// A tracked WAL: varint64 number, then sub-tags up to 1; sub-tag 2 is a varint64 size.
pub const WAL_ADDITION: u32 = SKIPPABLE + 7;
/// Removal of tracked WALs below a varint64 number.
pub const WAL_DELETION: u32 = SKIPPABLE + 8;
/// One byte: true if tables persist user-defined timestamps.
pub const PERSIST_TIMESTAMPS: u32 = SKIPPABLE + 9;
/// The progress of a remote compaction.
pub const COMPACTION_PROGRESS: u32 = SKIPPABLE + 10;
/// The size of the MANIFEST when it was created.
pub const COMPACTED_MANIFEST_BYTES: u32 = SKIPPABLE + 11;

/// Specific to Cairn and skipped by RocksDB: the edit continues an atomic group.
pub const LATER_IN_GROUP: u32 = SKIPPABLE + 0xca1;
/// Specific to Cairn and skipped by RocksDB: varint64 number and length of a WAL, see [`super::LogReach`].
pub const LOG_REACH: u32 = SKIPPABLE + 0xca2;

/// Specific to Cairn and skipped by RocksDB: varint32 number of following edits in a group of column family
/// changes.
pub const IN_FAMILY_GROUP: u32 = SKIPPABLE + 0xca3;

/// The end of the sub-tags of a WAL addition.
pub(super) const WAL_END: u32 = 1;
/// The synced size of a WAL.
pub(super) const WAL_SYNCED_BYTES: u32 = 2;

/// The tags of the fields that follow a [`NEW_FILE4`]. Each has a length; unknown ones are skipped
/// unless bit 6 is set.
pub(super) mod file {
    pub const END: u32 = 1;
    pub const NEED_COMPACTION: u32 = 2;
    pub const MIN_LOG_NUMBER_TO_KEEP: u32 = 3;
    pub const OLDEST_BLOB_FILE: u32 = 4;
    pub const OLDEST_ANCESTER_TIME: u32 = 5;
    pub const FILE_CREATION_TIME: u32 = 6;
    pub const CHECKSUM: u32 = 7;
    pub const CHECKSUM_FUNCTION: u32 = 8;
    pub const TEMPERATURE: u32 = 9;
    pub const MIN_TIMESTAMP: u32 = 10;
    pub const MAX_TIMESTAMP: u32 = 11;
    pub const UNIQUE_ID: u32 = 12;
    pub const EPOCH_NUMBER: u32 = 13;
    pub const COMPENSATED_RANGE_DELETION_SIZE: u32 = 14;
    pub const TAIL_SIZE: u32 = 15;
    pub const TIMESTAMPS_PERSISTED: u32 = 16;
    pub const OPEN_METADATA: u32 = 17;
    pub const PATH_ID: u32 = 65;
    pub const MUST_KNOW: u32 = 1 << 6;
}

/// The tags of the fields that follow a blob file's addition or garbage, under the same rules as
/// `file`.
pub(super) mod blob {
    pub const END: u32 = 0;
    pub const MUST_KNOW: u32 = 1 << 6;
}
