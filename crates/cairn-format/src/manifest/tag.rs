//! The numbers of an edit's fields, and what follows each.
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
//! Names and keys have a varint32 length in front. From 8192 up, the whole body has.

/// Name of the comparator.
pub const COMPARATOR: u32 = 1;
/// Oldest WAL of the family with unflushed data.
pub const LOG_NUMBER: u32 = 2;
/// Next number of a file.
pub const NEXT_FILE_NUMBER: u32 = 3;
/// Largest sequence number.
pub const LAST_SEQUENCE: u32 = 4;
/// Where the next round-robin compaction of a level begins.
pub const COMPACT_CURSOR: u32 = 5;
/// A table that leaves.
pub const DELETED_FILE: u32 = 6;
/// A table that joins, as LevelDB writes it.
pub const NEW_FILE: u32 = 7;
/// Zero.
pub const PREV_LOG_NUMBER: u32 = 9;
/// Oldest WAL that anybody needs.
pub const MIN_LOG_NUMBER_TO_KEEP: u32 = 10;
/// A table that joins, with sequence numbers.
pub const NEW_FILE2: u32 = 100;
/// A table that joins, with sequence numbers and a path.
pub const NEW_FILE3: u32 = 102;
/// A table that joins, with fields of its own numbering.
pub const NEW_FILE4: u32 = 103;
/// The family that the edit is about.
pub const COLUMN_FAMILY: u32 = 200;
/// The family is new.
pub const COLUMN_FAMILY_ADD: u32 = 201;
/// The family is gone.
pub const COLUMN_FAMILY_DROP: u32 = 202;
/// Largest family id ever given.
pub const MAX_COLUMN_FAMILY: u32 = 203;
/// Edits to come in this atomic group.
pub const IN_ATOMIC_GROUP: u32 = 300;
/// A blob file that joins.
pub const BLOB_FILE_ADDITION: u32 = 400;
/// Garbage in a blob file.
pub const BLOB_FILE_GARBAGE: u32 = 401;

/// Unknown tags with this bit have a length and may be skipped.
pub const SKIPPABLE: u32 = 1 << 13;
/// Id of the database.
pub const DB_ID: u32 = SKIPPABLE + 1;
/// [`BLOB_FILE_ADDITION`] as it was first written: no length in spite of the bit.
pub const OLD_BLOB_FILE_ADDITION: u32 = SKIPPABLE + 2;
/// [`BLOB_FILE_GARBAGE`] as it was first written: no length in spite of the bit.
pub const OLD_BLOB_FILE_GARBAGE: u32 = SKIPPABLE + 3;
/// [`WAL_ADDITION`] as it was first written: no length in spite of the bit.
pub const OLD_WAL_ADDITION: u32 = SKIPPABLE + 4;
/// [`WAL_DELETION`] as it was first written: no length in spite of the bit.
pub const OLD_WAL_DELETION: u32 = SKIPPABLE + 5;
/// Timestamps below this one may be gone.
pub const FULL_HISTORY_TS_LOW: u32 = SKIPPABLE + 6;
/// A WAL: varint64 number, then sub-tags up to 1; 2 is a varint64 size.
pub const WAL_ADDITION: u32 = SKIPPABLE + 7;
/// WALs below a varint64 number are gone.
pub const WAL_DELETION: u32 = SKIPPABLE + 8;
/// One byte: whether tables store user-defined timestamps.
pub const PERSIST_TIMESTAMPS: u32 = SKIPPABLE + 9;
/// How far a compaction elsewhere has come.
pub const COMPACTION_PROGRESS: u32 = SKIPPABLE + 10;
/// Size of the MANIFEST when it was freshly written.
pub const COMPACTED_MANIFEST_BYTES: u32 = SKIPPABLE + 11;

/// Cairn's own, which RocksDB skips: the edit is one of an atomic group, and not the first.
pub const LATER_IN_GROUP: u32 = SKIPPABLE + 0xca1;
/// Cairn's own, which RocksDB skips: varint64 number and length of a WAL, see
/// [`super::LogReach`].
pub const LOG_REACH: u32 = SKIPPABLE + 0xca2;

/// Cairn's own, which RocksDB skips: varint32 number of edits that follow in a group of family changes.
pub const IN_FAMILY_GROUP: u32 = SKIPPABLE + 0xca3;

/// Ends the sub-tags of a WAL addition.
pub(super) const WAL_END: u32 = 1;
/// Synced size of a WAL.
pub(super) const WAL_SYNCED_BYTES: u32 = 2;

/// Numbers of the fields behind a [`NEW_FILE4`]: each has a length; unknown ones are skipped
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

/// Numbers of the fields behind a blob file's addition or garbage; rules as for `file`.
pub(super) mod blob {
    pub const END: u32 = 0;
    pub const MUST_KNOW: u32 = 1 << 6;
}
