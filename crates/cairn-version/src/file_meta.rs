//! Metadata of a table file, known without opening it, and the slot of its open table.
//!
//! A [`FileMeta`] is immutable once it is part of a version, and versions share it. The open table is
//! stored in a slot of the metadata, so that reads reach it by pointer. Statistics that only the table
//! knows are filled in when it is first opened.

use cairn_format::id::UniqueId;
use cairn_format::key::InternalKey;
use cairn_format::manifest::{CreationTimes, FileChecksum, SequenceRange, Timestamps};
use cairn_format::table::properties::Properties;
use cairn_memory::CacheCharge;
use cairn_platform::sync::{Arc, AtomicU64, OnceLock, Ordering};
use cairn_types::FileNumber;

use crate::open_tables::TableSlot;

pub use cairn_format::manifest::NO_CHECKSUM_FUNCTION;

/// Entry counts of a table, and their size before encoding.
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

impl EntryCounts {
    /// Those that the properties of a table state.
    #[must_use]
    pub fn of(properties: &Properties) -> EntryCounts {
        EntryCounts {
            entries: properties.num_entries,
            deletions: properties.num_deletions,
            range_deletions: properties.num_range_deletions,
            raw_key_bytes: properties.raw_key_size,
            raw_value_bytes: properties.raw_value_size,
        }
    }
}

/// Estimated number of reads that found no value in a file, from sampling.
#[derive(Debug, Default)]
pub struct WastedReads(AtomicU64);

impl WastedReads {
    /// Adds a sampled read that represents `weight` reads.
    pub fn add(&self, weight: u64) {
        // Relaxed, here and below: a statistic that orders nothing.
        self.0.fetch_add(weight, Ordering::Relaxed);
    }

    /// Returns the number of reads.
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

/// Reasons for and against compacting a file. Only `marked` is persisted.
#[derive(Clone, Debug, Default)]
pub struct CompactionHints {
    /// True if a property collector marked it for compaction.
    pub marked: bool,
    /// Set by `SuggestCompactRange`.
    pub suggested: OnceLock<()>,
    /// True if the job that wrote the file kept neither an old version for a snapshot nor a
    /// deletion that could be dropped at the bottom, so that compacting it again would not shrink
    /// it.
    pub settled: bool,
    /// Reads that a compaction of the file would save; sampled only with read-triggered compaction.
    pub wasted_reads: WastedReads,
}

/// A table file as the MANIFEST describes it.
#[derive(Clone)]
pub struct FileMeta {
    /// File number.
    pub number: FileNumber,
    /// Path id of its directory.
    pub path_id: u32,
    /// File size in bytes.
    pub size: u64,
    /// Lower bound of its keys and range tombstones, inclusive.
    pub smallest: InternalKey,
    /// Upper bound of its keys and range tombstones; inclusive, except that a range tombstone sentinel
    /// excludes its user key (see [`crate::bounds`]).
    pub largest: InternalKey,
    /// Sequence numbers of its entries.
    pub seqs: SequenceRange,
    /// Epoch number, which orders level 0: larger is newer. 0 in files of old databases until recovery
    /// assigns one.
    pub epoch: u64,
    /// The oldest blob file that its entries refer to.
    pub oldest_blob: Option<FileNumber>,
    /// Times at which the file and its data were created, as recorded in the MANIFEST.
    pub times: CreationTimes,
    /// Whole-file checksum.
    pub checksum: FileChecksum,
    /// Internal unique id, if recorded.
    pub unique_id: Option<[u64; 2]>,
    /// RocksDB's temperature of its storage; 0 if unknown.
    pub temperature: u8,
    /// Estimated bytes in lower levels covered by its range tombstones.
    pub compensated_range_deletion_size: u64,
    /// Size of everything after the data blocks, in bytes; 0 if unknown.
    pub tail_size: u64,
    /// User-defined timestamps of its keys.
    pub timestamps: Timestamps,
    /// Reasons for and against compacting it.
    pub hints: CompactionHints,
    /// Entry counts, once known.
    pub counts: OnceLock<EntryCounts>,
    /// The open table, if any.
    pub table: TableSlot,
    /// The charge of the metadata to the block cache; clones share it.
    pub charge: OnceLock<Arc<CacheCharge>>,
}

/// Bytes of a file's metadata in small allocations and in the lists of versions, as measured with 10,000 files.
const ALLOCATIONS: usize = 512;

impl FileMeta {
    /// Returns the id from which the cache keys of the file's blocks derive, if it is the same for every
    /// opening of the file: [`Table::cache_id`](cairn_table::Table::cache_id), or, if the table is not
    /// open, the one derived from the unique id in the MANIFEST.
    #[must_use]
    pub fn cache_id(&self) -> Option<[u64; 2]> {
        match self.table.peek() {
            Some(table) => table.has_lasting_cache_id().then(|| table.cache_id()),
            None => {
                let [first, second] = self.unique_id?;
                let [high, low, _] = UniqueId([first, second, 0]).external();
                Some([high, low])
            }
        }
    }

    /// Creates metadata of which only number, size and bounds are known.
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
            seqs: SequenceRange::ZERO,
            epoch: 0,
            oldest_blob: None,
            times: CreationTimes::default(),
            checksum: FileChecksum::default(),
            unique_id: None,
            temperature: 0,
            compensated_range_deletion_size: 0,
            tail_size: 0,
            timestamps: Timestamps::default(),
            hints: CompactionHints::default(),
            counts: OnceLock::new(),
            table: TableSlot::default(),
            charge: OnceLock::new(),
        }
    }

    /// Returns the memory of the metadata, in bytes.
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        let keys = self.smallest.as_bytes().len() + self.largest.as_bytes().len();
        let timestamps = self.timestamps.min.capacity() + self.timestamps.max.capacity();
        size_of::<FileMeta>() + keys + timestamps + self.checksum.value.capacity() + ALLOCATIONS
    }

    /// True if the file is marked for compaction, by a collector or by the user.
    #[must_use]
    pub fn is_marked(&self) -> bool {
        self.hints.marked || self.hints.suggested.get().is_some()
    }

    /// Returns the wasted reads per byte of the file.
    #[must_use]
    pub fn reads_per_byte(&self) -> f64 {
        match self.size {
            0 => 0.0,
            size => self.hints.wasted_reads.get() as f64 / size as f64,
        }
    }

    /// Returns the creation time of the oldest data in seconds since 1970, from the MANIFEST or from
    /// the open table; 0 if unknown.
    #[must_use]
    pub fn oldest_time(&self) -> u64 {
        match self.times.oldest_ancester {
            0 => self.table.times().oldest,
            time => time,
        }
    }

    /// Returns the creation time of the file in seconds since 1970, from the MANIFEST or from the open
    /// table; 0 if unknown.
    #[must_use]
    pub fn created(&self) -> u64 {
        match self.times.file {
            0 => self.table.times().created,
            time => time,
        }
    }

    /// Returns the creation time of the newest data in seconds since 1970, or of the file if that of the data is not
    /// recorded or the table has not been opened; 0 if unknown.
    #[must_use]
    pub fn newest_time(&self) -> u64 {
        match self.table.times().newest {
            0 => self.created(),
            time => time,
        }
    }

    /// True if [`FileMeta::newest_time`] is that of the data.
    #[must_use]
    pub fn knows_newest_time(&self) -> bool {
        self.table.times().newest > 0
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
