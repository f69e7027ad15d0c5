//! The result of a job: the edit that installs its outputs, and its statistics.

use cairn_observe::perf::iostats::FileTimes;
use cairn_version::TreeEdit;

/// The result of a job.
#[derive(Clone, Debug, Default)]
pub struct JobOutput {
    /// The edit that installs the outputs. The inputs must be kept until it is installed. All
    /// output files and their directory entries are synced.
    pub edit: TreeEdit,
    /// Statistics of the job.
    pub stats: JobStats,
}

/// Statistics of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobStats {
    /// Bytes of the input tables or memtables.
    pub input_bytes: u64,
    /// Point entries read.
    pub input_entries: u64,
    /// Raw sizes of the inputs. Set for a subcompaction only if it is the only one.
    pub input_raw: RawInput,
    /// True if a filter skipped entries that were not counted.
    pub inexact: bool,
    /// True if a part of the job ran in another process.
    pub remote: bool,
    /// Blobs read.
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
    /// Uncompressed bytes of keys and values of the tables written.
    pub output_raw_bytes: u64,
    /// Entries read but not written, by cause.
    pub dropped: Dropped,
    /// Blobs relocated to other files or into tables.
    pub relocated_blobs: u64,
    /// Stored bytes of the relocated blobs.
    pub relocated_blob_bytes: u64,
    /// CPU time, in nanoseconds.
    pub cpu_nanos: u64,
    /// Duration of file writes; measured for compactions with `report_bg_io_stats`.
    pub file_times: FileTimes,
}

impl JobStats {
    /// Adds the statistics of a subcompaction. Some are sums of numbers in files and in replies of workers, so that they may
    /// overflow.
    pub(crate) fn add(&mut self, part: &JobStats) {
        macro_rules! sums {
            ($($name:ident),*) => { $(self.$name = self.$name.saturating_add(part.$name);)* };
        }
        sums!(
            input_bytes,
            input_entries,
            output_files,
            output_bytes,
            output_entries,
            output_blob_files,
            output_blob_bytes,
            output_raw_bytes,
            relocated_blobs,
            relocated_blob_bytes,
            cpu_nanos
        );
        self.inexact |= part.inexact;
        self.remote |= part.remote;
        self.blobs_read = self.blobs_read.and(&part.blobs_read);
        self.dropped.add(&part.dropped);
        self.file_times.add(&part.file_times);
    }
}

/// Raw input sizes from the properties of the input tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawInput {
    /// Bytes of internal keys, including range tombstones.
    pub key_bytes: u64,
    /// Bytes of values, including range tombstones.
    pub value_bytes: u64,
    /// Number of point deletions.
    pub deletions: u64,
}

/// Blobs read by a job: for filters, as merge bases, and for relocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlobsRead {
    /// Number of reads.
    pub count: u64,
    /// Stored bytes of the records read.
    pub bytes: u64,
}

impl BlobsRead {
    /// Counts one read of a record of `bytes` bytes.
    pub(crate) fn count(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
    }

    /// Returns the sum of two counts.
    pub(crate) fn and(&self, others: &BlobsRead) -> BlobsRead {
        BlobsRead {
            count: self.count + others.count,
            bytes: self.bytes + others.bytes,
        }
    }
}

/// Entries that a job read but did not write. An entry counts under every applicable cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Entries shadowed by a newer entry of the same key or by a range tombstone.
    pub hidden: u64,
    /// Deletions with nothing left to shadow.
    pub obsolete: u64,
    /// Obsolete deletions above the bottommost level: no lower level held the key.
    pub obsolete_early: u64,
    /// Entries covered by a range tombstone.
    pub covered: u64,
    /// Obsolete single deletions without an older entry of their key.
    pub single_alone: u64,
    /// Single deletions whose next older entry is not a value.
    pub single_mismatched: u64,
    /// Entries removed by the user's filter.
    pub filtered: u64,
    /// Range tombstones, counted per fragment.
    pub range_deletions: u64,
}

impl Dropped {
    fn add(&mut self, more: &Dropped) {
        macro_rules! sums {
            ($($name:ident),*) => { $(self.$name = self.$name.saturating_add(more.$name);)* };
        }
        sums!(
            hidden,
            obsolete,
            obsolete_early,
            covered,
            single_alone,
            single_mismatched,
            filtered,
            range_deletions
        );
    }
}
