//! The metadata of one table file, known without opening it, and the place of its open table.
//!
//! A [`FileMeta`] never changes once it is part of a version; versions share it. The open table
//! hangs in a slot of the metadata, so that a read reaches it by pointer, and counts that only the
//! table knows are filled in beside it when it is first opened.

use std::borrow::Cow;

use cairn_format::key::InternalKey;
use cairn_platform::sync::{AtomicU64, OnceLock, Ordering};
use cairn_types::{FileNumber, SequenceNumber};

use crate::open_tables::TableSlot;

/// The name of a file checksum function when there is none.
pub const NO_CHECKSUM_FUNCTION: &str = "Unknown";

/// How many entries of what kind a table holds, and their size before encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryCounts {
    /// Point entries and range tombstones.
    pub entries: u64,
    /// Point deletions and range tombstones.
    pub deletions: u64,
    /// Range tombstones.
    pub range_deletions: u64,
    /// Bytes of internal keys.
    pub raw_key_bytes: u64,
    /// Bytes of values.
    pub raw_value_bytes: u64,
}

/// How often a file was asked for a key and had no value for it, estimated from samples.
#[derive(Debug, Default)]
pub struct WastedReads(AtomicU64);

impl WastedReads {
    /// Counts one sampled read that stands for `weight` of them.
    pub fn add(&self, weight: u64) {
        // Relaxed, here and below: an estimate that orders nothing.
        self.0.fetch_add(weight, Ordering::Relaxed);
    }

    /// The reads so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Clone for WastedReads {
    fn clone(&self) -> WastedReads {
        WastedReads(AtomicU64::new(self.get()))
    }
}

/// A table file as the MANIFEST describes it.
#[derive(Clone)]
pub struct FileMeta {
    /// The number in its name.
    pub number: FileNumber,
    /// Which of the family's directories it lies in.
    pub path_id: u32,
    /// Its length in bytes.
    pub size: u64,
    /// Lower bound of its keys and range tombstones, inclusive.
    pub smallest: InternalKey,
    /// Upper bound of its keys and range tombstones; inclusive, but for the sentinel of a range
    /// tombstone, whose user key is excluded (see [`crate::bounds`]).
    pub largest: InternalKey,
    /// The smallest sequence number in it.
    pub smallest_seq: SequenceNumber,
    /// The largest sequence number in it.
    pub largest_seq: SequenceNumber,
    /// Orders files of level 0: a larger epoch is newer. 0 in files of old databases until
    /// recovery has assigned one.
    pub epoch: u64,
    /// The oldest blob file that its entries refer to.
    pub oldest_blob: Option<FileNumber>,
    /// Seconds since 1970 at which its oldest data was first written; 0 if unknown.
    pub oldest_ancester_time: u64,
    /// Seconds since 1970 at which the file was created; 0 if unknown.
    pub creation_time: u64,
    /// Checksum of the whole file; empty if none is recorded.
    pub file_checksum: Vec<u8>,
    /// The function that made `file_checksum`, or [`NO_CHECKSUM_FUNCTION`].
    pub file_checksum_func: Cow<'static, str>,
    /// The internal unique id, if one is recorded.
    pub unique_id: Option<[u64; 2]>,
    /// RocksDB's number for the temperature of its storage; 0 if unknown.
    pub temperature: u8,
    /// Something in the file asks for a compaction.
    pub marked: bool,
    /// Bytes in lower levels that its range tombstones cover, estimated when it was written.
    pub compensated_range_deletion_size: u64,
    /// Bytes from the end of the data blocks to the end of the file; 0 if unknown.
    pub tail_size: u64,
    /// The smallest timestamp in it; empty without timestamps.
    pub min_timestamp: Vec<u8>,
    /// The largest timestamp in it; empty without timestamps.
    pub max_timestamp: Vec<u8>,
    /// True if its keys carry their timestamps on disk.
    pub timestamps_persisted: bool,
    /// The job that wrote it kept no old version alive for a snapshot, and left no deletion that
    /// could go at the bottom, so compacting it again for their sake would change nothing. Known
    /// only until the database is closed.
    pub settled: bool,
    /// A user suggested a compaction of it; known only until the database is closed.
    pub suggested: OnceLock<()>,
    /// The reads that a compaction of it would save; counted only where an option asks for it, and
    /// known only until the database is closed.
    pub wasted_reads: WastedReads,
    /// The counts of its entries, once known.
    pub counts: OnceLock<EntryCounts>,
    /// The open table, if it was needed.
    pub table: TableSlot,
}

impl FileMeta {
    /// A file about which no more is known than its place, size and bounds.
    #[must_use]
    pub fn new(
        number: FileNumber,
        size: u64,
        smallest: InternalKey,
        largest: InternalKey,
    ) -> FileMeta {
        FileMeta {
            number,
            path_id: 0,
            size,
            smallest,
            largest,
            smallest_seq: SequenceNumber::ZERO,
            largest_seq: SequenceNumber::ZERO,
            epoch: 0,
            oldest_blob: None,
            oldest_ancester_time: 0,
            creation_time: 0,
            file_checksum: Vec::new(),
            file_checksum_func: Cow::Borrowed(NO_CHECKSUM_FUNCTION),
            unique_id: None,
            temperature: 0,
            marked: false,
            compensated_range_deletion_size: 0,
            tail_size: 0,
            min_timestamp: Vec::new(),
            max_timestamp: Vec::new(),
            timestamps_persisted: true,
            settled: false,
            suggested: OnceLock::new(),
            wasted_reads: WastedReads::default(),
            counts: OnceLock::new(),
            table: TableSlot::default(),
        }
    }

    /// True if something asks for a compaction of it: its content, or a user.
    #[must_use]
    pub fn is_marked(&self) -> bool {
        self.marked || self.suggested.get().is_some()
    }

    /// Reads in vain for each of its bytes.
    #[must_use]
    pub fn reads_per_byte(&self) -> f64 {
        match self.size {
            0 => 0.0,
            size => self.wasted_reads.get() as f64 / size as f64,
        }
    }

    /// Seconds since 1970 at which its oldest data was first written, as far as the MANIFEST or
    /// a table that was opened know; 0 if unknown.
    #[must_use]
    pub fn oldest_time(&self) -> u64 {
        match self.oldest_ancester_time {
            0 => self.table.times().oldest,
            time => time,
        }
    }

    /// Seconds since 1970 at which the file was created, as far as the MANIFEST or a table that
    /// was opened know; 0 if unknown.
    #[must_use]
    pub fn created(&self) -> u64 {
        match self.creation_time {
            0 => self.table.times().created,
            time => time,
        }
    }
}

impl std::fmt::Debug for FileMeta {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}[{}@{} .. {}@{}]",
            self.number.0,
            String::from_utf8_lossy(self.smallest.user_key()).escape_debug(),
            self.smallest.seq(),
            String::from_utf8_lossy(self.largest.user_key()).escape_debug(),
            self.largest.seq(),
        )
    }
}
