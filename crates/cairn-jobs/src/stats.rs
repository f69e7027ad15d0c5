//! The result of a job: the edit that installs its outputs, and counts of its inputs and outputs.

use cairn_observe::perf::io::FileTimes;
use cairn_version::TreeEdit;

/// The statistics of a job.
#[derive(Clone, Debug, Default)]
pub struct JobOutput {
    /// The change that makes its outputs part of the tree. Nothing is visible, and nothing may be
    /// dropped, before the caller has installed it. Files and their names are synced.
    pub edit: TreeEdit,
    /// Counts, for the log and for statistics.
    pub stats: JobStats,
}

/// The counts of what a job read and wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobStats {
    /// Bytes of the input tables or memtables.
    pub input_bytes: u64,
    /// Point entries read.
    pub input_entries: u64,
    /// More of them; of a part of a compaction only if it is the only one.
    pub input_raw: RawInput,
    /// True if a filter made it jump over entries, which were not counted.
    pub inexact: bool,
    /// Blobs that were read.
    pub blobs_read: BlobsRead,
    /// Tables written.
    pub output_files: u64,
    /// Bytes of the tables written.
    pub output_bytes: u64,
    /// Point entries written.
    pub output_entries: u64,
    /// Blob files written.
    pub output_blob_files: u64,
    /// Bytes of the blob files written.
    pub output_blob_bytes: u64,
    /// Bytes of keys and values of the tables written, as they were before they were packed.
    pub output_raw_bytes: u64,
    /// The entries that were read and not written, by cause.
    pub dropped: Dropped,
    /// Blobs that were moved to other files, or into tables.
    pub relocated_blobs: u64,
    /// Their bytes, as they were stored.
    pub relocated_blob_bytes: u64,
    /// Nanoseconds that processors worked for it.
    pub cpu_nanos: u64,
    /// How long its calls that write files took; only a compaction under `report_bg_io_stats` looks.
    pub file_times: FileTimes,
}

impl JobStats {
    /// Adds what another part of the job read and wrote.
    pub(crate) fn add(&mut self, part: &JobStats) {
        self.input_bytes += part.input_bytes;
        self.input_entries += part.input_entries;
        self.inexact |= part.inexact;
        self.blobs_read = self.blobs_read.and(&part.blobs_read);
        self.output_files += part.output_files;
        self.output_bytes += part.output_bytes;
        self.output_entries += part.output_entries;
        self.output_blob_files += part.output_blob_files;
        self.output_blob_bytes += part.output_blob_bytes;
        self.output_raw_bytes += part.output_raw_bytes;
        self.dropped.add(&part.dropped);
        self.relocated_blobs += part.relocated_blobs;
        self.relocated_blob_bytes += part.relocated_blob_bytes;
        self.cpu_nanos += part.cpu_nanos;
        self.file_times.add(&part.file_times);
    }
}

/// The counts of entries in the properties of the tables that a compaction reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawInput {
    /// Bytes of their internal keys, range tombstones included.
    pub key_bytes: u64,
    /// Bytes of their values, range tombstones included.
    pub value_bytes: u64,
    /// Those of them that are deletions of a key.
    pub deletions: u64,
}

/// Blobs that a job read: for filters, for merge operands above them, and to move them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlobsRead {
    /// Their number, each time that one was read.
    pub count: u64,
    /// Bytes of their records, as they are stored.
    pub bytes: u64,
}

impl BlobsRead {
    /// One more, whose record has `bytes` bytes.
    pub(crate) fn count(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
    }

    /// These and `others`.
    pub(crate) fn and(&self, others: &BlobsRead) -> BlobsRead {
        BlobsRead {
            count: self.count + others.count,
            bytes: self.bytes + others.bytes,
        }
    }
}

/// The entries that a job read and did not write. An entry counts under every heading that fits it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Entries below a newer one of the same key, or below a range tombstone.
    pub hidden: u64,
    /// Deletions that nothing was left to be hidden by.
    pub obsolete: u64,
    /// Those of them that were not at the bottom of the tree: no level below held their keys.
    pub obsolete_early: u64,
    /// Entries that a range tombstone covered.
    pub covered: u64,
    /// Single deletions among the obsolete ones that found no older entry of their key.
    pub single_alone: u64,
    /// Single deletions that found something else than a value right below them.
    pub single_mismatched: u64,
    /// Entries that the user's filter removed.
    pub filtered: u64,
    /// Range tombstones, each piece of one that fragments were cut to.
    pub range_deletions: u64,
}

impl Dropped {
    fn add(&mut self, more: &Dropped) {
        self.hidden += more.hidden;
        self.obsolete += more.obsolete;
        self.obsolete_early += more.obsolete_early;
        self.covered += more.covered;
        self.single_alone += more.single_alone;
        self.single_mismatched += more.single_mismatched;
        self.filtered += more.filtered;
        self.range_deletions += more.range_deletions;
    }
}
