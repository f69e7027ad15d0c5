//! Event listeners: user code that is notified of the engine's operations.
//!
//! A listener is called on the thread that performs the operation, without locks of the engine held
//! (except for file operations, see [`EventListener::should_be_notified_on_file_io`]). It may use
//! the database; the job is blocked until it returns. A panic in a listener is caught and written
//! to the info log.
//!
//! The structs have the same fields as RocksDB's. File paths are absolute.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cairn_compress::Compression;
use cairn_format::table::properties::Properties;
use cairn_types::{Error, SequenceNumber, TableFileCreationReason};

use crate::logger::{Level, Logger};
use crate::perf::iostats::FileTimes;
use crate::reason::{BackgroundErrorReason, CompactionReason, FlushReason, StallCondition};

/// A flush.
#[derive(Clone, Debug, Default)]
pub struct FlushJobInfo {
    /// The directory of the database.
    pub db_name: String,
    /// The session id of the database, which tells apart several openings of one directory.
    pub session_id: String,
    /// The id of the column family.
    pub family_id: u32,
    /// The name of the column family.
    pub family_name: String,
    /// The path of the new table. Has the file number 0 before the table exists, and if there was nothing to
    /// write.
    pub file_path: String,
    /// The file number; 0 while there is none.
    pub file_number: u64,
    /// The oldest blob file referenced by the table; 0 for none.
    pub oldest_blob_file_number: u64,
    /// The thread number, as in the info log.
    pub thread_id: u64,
    /// The job number.
    pub job_id: u64,
    /// True if level 0 of the column family has at least `level0_slowdown_writes_trigger` files,
    /// including the new table once the flush has completed.
    pub triggered_writes_slowdown: bool,
    /// The same for `level0_stop_writes_trigger`.
    pub triggered_writes_stop: bool,
    /// The smallest sequence number in the table; the maximum if there is no table yet.
    pub smallest_seqno: SequenceNumber,
    /// The largest sequence number in the table; 0 if there is no table yet.
    pub largest_seqno: SequenceNumber,
    /// The properties of the table, if it exists.
    pub table_properties: Option<Arc<Properties>>,
    /// The reason of the flush.
    pub flush_reason: FlushReason,
    /// The codec of blob files.
    pub blob_compression: Option<Compression>,
    /// The blob files written.
    pub blob_files: Vec<BlobFileAddition>,
}

/// A column family whose flush was requested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManualFlushInfo {
    /// The id of the column family.
    pub family_id: u32,
    /// The name of the column family.
    pub family_name: String,
    /// The reason of the flush.
    pub flush_reason: FlushReason,
}

/// A blob file written by a job.
#[derive(Clone, Debug, Default)]
pub struct BlobFileAddition {
    /// The path.
    pub path: String,
    /// The file number.
    pub number: u64,
    /// The number of values.
    pub total_blob_count: u64,
    /// The total size of the values.
    pub total_blob_bytes: u64,
}

/// Values of a blob file that became garbage in a compaction.
#[derive(Clone, Debug, Default)]
pub struct BlobFileGarbage {
    /// The path.
    pub path: String,
    /// The file number.
    pub number: u64,
    /// The number of values that became garbage.
    pub garbage_blob_count: u64,
    /// The total size of their records.
    pub garbage_blob_bytes: u64,
}

/// An input or output file of a compaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactionFileInfo {
    /// The level.
    pub level: usize,
    /// The file number.
    pub file_number: u64,
    /// The oldest blob file referenced; 0 for none.
    pub oldest_blob_file_number: u64,
}

/// Statistics of a compaction. A trivial move and a deletion compaction report file counts only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionJobStats {
    /// The duration in microseconds.
    pub elapsed_micros: u64,
    /// The CPU time in microseconds, if measured.
    pub cpu_micros: u64,
    /// The number of input files.
    pub num_input_files: u64,
    /// The number of input files in the output level; 0 when the compaction begins.
    pub num_input_files_at_output_level: u64,
    /// The number of input files that were trivially moved.
    pub num_input_files_trivially_moved: u64,
    /// The number of entries read; for a failed compaction, the number of entries in its input files.
    pub num_input_records: u64,
    /// True if a compaction filter skipped entries, which `num_input_records` excludes.
    pub input_records_inexact: bool,
    /// The number of point deletions in the input files. This and the next two fields are taken from table
    /// properties; for a subcompaction they are 0 unless it is the only one.
    pub num_input_deletion_records: u64,
    /// The total size of the internal keys in the input files, including those of range tombstones.
    pub total_input_raw_key_bytes: u64,
    /// The total size of the values in the input files, including those of range tombstones. A value in a
    /// blob file counts with the size of its blob index.
    pub total_input_raw_value_bytes: u64,
    /// The number of blobs read: for filters, for merges, and to relocate them.
    pub num_blobs_read: u64,
    /// The total size of their records.
    pub total_blob_bytes_read: u64,
    /// The total size of the input files.
    pub total_input_bytes: u64,
    /// The number of output files.
    pub num_output_files: u64,
    /// The number of entries written.
    pub num_output_records: u64,
    /// The total size of the output files.
    pub total_output_bytes: u64,
    /// The number of blob files written.
    pub num_output_files_blob: u64,
    /// The total size of the blob files written.
    pub total_output_bytes_blob: u64,
    /// Entries dropped because of a newer one of the same key.
    pub num_records_replaced: u64,
    /// Deletions dropped because nothing was left beneath them.
    pub num_expired_deletion_records: u64,
    /// Single deletions dropped because there was no entry for them to delete.
    pub num_single_del_fallthru: u64,
    /// Single deletions whose next older entry was not a value but another deletion or a merge
    /// operand.
    pub num_single_del_mismatch: u64,
    /// Times of file writes, if the column family sets `report_bg_io_stats`.
    pub file_times: FileTimes,
    /// The prefix of the smallest key written.
    pub smallest_output_key_prefix: KeyPrefix,
    /// The prefix of the largest key written.
    pub largest_output_key_prefix: KeyPrefix,
    /// True if all files of the column family are inputs.
    pub is_full_compaction: bool,
    /// True for a manual compaction.
    pub is_manual_compaction: bool,
    /// True if a part of it ran in another process.
    pub is_remote_compaction: bool,
    /// The number of invalid keys. Always 0, because such a compaction fails.
    pub num_corrupt_keys: u64,
}

/// The first bytes of a key, at most 8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyPrefix {
    bytes: [u8; 8],
    len: usize,
}

impl KeyPrefix {
    /// The prefix of `key`.
    #[must_use]
    pub fn of(key: &[u8]) -> KeyPrefix {
        let mut prefix = KeyPrefix::default();
        prefix.len = key.len().min(prefix.bytes.len());
        prefix.bytes[..prefix.len].copy_from_slice(&key[..prefix.len]);
        prefix
    }

    /// The bytes of the prefix.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// A compaction.
#[derive(Clone, Debug, Default)]
pub struct CompactionJobInfo {
    /// The directory of the database.
    pub db_name: String,
    /// The session id of the database, which tells apart several openings of one directory.
    pub session_id: String,
    /// The id of the column family.
    pub family_id: u32,
    /// The name of the column family.
    pub family_name: String,
    /// The error, if it failed.
    pub status: Option<Error>,
    /// The thread number, as in the info log.
    pub thread_id: u64,
    /// The job number.
    pub job_id: u64,
    /// The number of files in level 0 when the compaction began or ended.
    pub num_l0_files: usize,
    /// The smallest input level.
    pub base_input_level: usize,
    /// The output level.
    pub output_level: usize,
    /// The paths of the inputs.
    pub input_files: Vec<String>,
    /// Details of the inputs.
    pub input_file_infos: Vec<CompactionFileInfo>,
    /// The paths of the outputs; empty before they exist.
    pub output_files: Vec<String>,
    /// Details of the outputs.
    pub output_file_infos: Vec<CompactionFileInfo>,
    /// The table properties of the inputs and, once they exist, of the outputs, by path.
    pub table_properties: Vec<(String, Arc<Properties>)>,
    /// The reason of the compaction.
    pub compaction_reason: CompactionReason,
    /// The codec of the outputs.
    pub compression: Compression,
    /// The statistics of the compaction.
    pub stats: CompactionJobStats,
    /// The codec of blob files.
    pub blob_compression: Option<Compression>,
    /// The blob files written.
    pub blob_files: Vec<BlobFileAddition>,
    /// The blob files with additional garbage.
    pub blob_garbage: Vec<BlobFileGarbage>,
    /// True if the compaction was aborted.
    pub aborted: bool,
}

impl CompactionJobInfo {
    /// Returns the paths of the outputs: tables, and then blob files.
    #[must_use]
    pub fn output_paths(&self) -> Vec<&str> {
        let blobs = self.blob_files.iter().map(|blob| &blob.path);
        let paths = self.output_files.iter().chain(blobs);
        paths.map(String::as_str).collect()
    }
}

/// A subcompaction.
#[derive(Clone, Debug, Default)]
pub struct SubcompactionJobInfo {
    /// The id of the column family.
    pub family_id: u32,
    /// The name of the column family.
    pub family_name: String,
    /// The error, if it failed.
    pub status: Option<Error>,
    /// The thread number, as in the info log.
    pub thread_id: u64,
    /// The job number of the compaction.
    pub job_id: u64,
    /// The index of the subcompaction.
    pub subcompaction_job_id: usize,
    /// The smallest input level.
    pub base_input_level: usize,
    /// The output level.
    pub output_level: usize,
    /// The reason of the compaction.
    pub compaction_reason: CompactionReason,
    /// The codec of the outputs.
    pub compression: Compression,
    /// The statistics of the subcompaction.
    pub stats: CompactionJobStats,
    /// The codec of blob files.
    pub blob_compression: Option<Compression>,
}

/// A table or blob file that is about to be written.
#[derive(Clone, Debug, Default)]
pub struct FileCreationBriefInfo {
    /// The directory of the database.
    pub db_name: String,
    /// The name of the family.
    pub family_name: String,
    /// The path.
    pub file_path: String,
    /// The job number.
    pub job_id: u64,
    /// The reason, if known.
    pub reason: Option<TableFileCreationReason>,
}

/// A table that was written or could not be written.
#[derive(Clone, Debug, Default)]
pub struct TableFileCreationInfo {
    /// The file and the job.
    pub brief: FileCreationBriefInfo,
    /// The size in bytes.
    pub file_size: u64,
    /// The table properties.
    pub table_properties: Arc<Properties>,
    /// The error, if it failed.
    pub status: Option<Error>,
    /// The checksum of the whole file, if enabled.
    pub file_checksum: Vec<u8>,
    /// The name of the checksum function.
    pub file_checksum_func_name: String,
}

/// A blob file that was written or could not be written.
#[derive(Clone, Debug, Default)]
pub struct BlobFileCreationInfo {
    /// The file and the job.
    pub brief: FileCreationBriefInfo,
    /// The number of values.
    pub total_blob_count: u64,
    /// The total size of the values.
    pub total_blob_bytes: u64,
    /// The error, if it failed.
    pub status: Option<Error>,
}

/// A file that was deleted or could not be deleted.
#[derive(Clone, Debug, Default)]
pub struct FileDeletionInfo {
    /// The directory of the database.
    pub db_name: String,
    /// The former path.
    pub file_path: String,
    /// The job number.
    pub job_id: u64,
    /// The error, if it failed.
    pub status: Option<Error>,
}

/// A memtable that became immutable.
#[derive(Clone, Debug, Default)]
pub struct MemTableInfo {
    /// The name of the family.
    pub family_name: String,
    /// The smallest sequence number in it.
    pub first_seqno: SequenceNumber,
    /// The last sequence number before the memtable was created. The memtable has no older writes
    /// except those recovered from WALs. 0 for a memtable created when the database was opened.
    pub earliest_seqno: SequenceNumber,
    /// The number of entries.
    pub num_entries: u64,
    /// The number of deletions.
    pub num_deletes: u64,
    /// The newest timestamp, if known.
    pub newest_udt: Vec<u8>,
}

/// An ingested file.
#[derive(Clone, Debug, Default)]
pub struct ExternalFileIngestionInfo {
    /// The session id of the database, which tells apart several openings of one directory.
    pub session_id: String,
    /// The name of the family.
    pub family_name: String,
    /// The path of the external file.
    pub external_file_path: String,
    /// The path in the database.
    pub internal_file_path: String,
    /// The sequence number assigned to all entries; 0 if they keep their own.
    pub global_seqno: SequenceNumber,
    /// The table properties.
    pub table_properties: Arc<Properties>,
}

/// A change of the stall condition of a column family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteStallInfo {
    /// The name of the family.
    pub family_name: String,
    /// The current condition.
    pub current: StallCondition,
    /// The previous condition.
    pub previous: StallCondition,
}

/// The end of a recovery from a background error.
#[derive(Clone, Debug, Default)]
pub struct BackgroundErrorRecoveryInfo {
    /// The error.
    pub old_error: Option<Error>,
    /// The current error; `None` if the database has recovered.
    pub new_error: Option<Error>,
}

/// A file operation, with RocksDB's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
#[non_exhaustive]
pub enum FileOperation {
    /// Bytes were read.
    Read = 0,
    /// Bytes were written.
    Write = 1,
    /// The file was truncated.
    Truncate = 2,
    /// The file was closed.
    Close = 3,
    /// Buffered data of direct I/O was written.
    Flush = 4,
    /// The content was synced.
    Sync = 5,
    /// Content and attributes were synced.
    Fsync = 6,
    /// Writeback of a range was requested.
    RangeSync = 7,
    /// An append: the name for writes in I/O errors.
    Append = 8,
}

/// A completed operation on an open file.
#[derive(Clone, Copy, Debug)]
pub struct FileOperationInfo<'a> {
    /// The operation.
    pub operation: FileOperation,
    /// The file.
    pub path: &'a Path,
    /// The offset of the operation, or the new length of a truncation; 0 if it concerns the whole file.
    pub offset: u64,
    /// The number of bytes; for a failed read, the number requested.
    pub length: u64,
    /// The start time, in microseconds since 1970.
    pub start_micros: u64,
    /// The duration.
    pub duration: Duration,
    /// The error, if it failed.
    pub error: Option<&'a Error>,
}

/// A failed operation on an open file.
#[derive(Clone, Copy, Debug)]
pub struct IoErrorInfo<'a> {
    /// The error.
    pub error: &'a Error,
    /// The operation.
    pub operation: FileOperation,
    /// The file.
    pub path: &'a Path,
    /// The offset of the operation.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
}

/// The amount of background work, and the proximity of write stalls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackgroundJobPressure {
    /// Scheduled compactions, including running ones.
    pub compaction_scheduled: u64,
    /// Running compactions.
    pub compaction_running: u64,
    /// Scheduled flushes, including running ones.
    pub flush_scheduled: u64,
    /// Running flushes.
    pub flush_running: u64,
    /// The stall trigger closest to its limit in any column family, in percent of the limit: the
    /// number of files or sorted runs in level 0, or the pending compaction bytes. More than 100
    /// during a stall.
    pub write_stall_proximity_pct: u64,
    /// True if the number of compactions was raised to avoid stalls.
    pub compaction_speedup_active: bool,
}

/// A listener of engine events. All methods have empty default implementations.
///
/// No lock is held during a call. A listener must not close the database or wait for a job, which may be the
/// one that calls it.
#[expect(unused_variables, reason = "default implementations are empty")]
pub trait EventListener: Send + Sync {
    /// The name used in messages.
    fn name(&self) -> &str {
        "EventListener"
    }
    /// A flush begins.
    fn on_flush_begin(&self, info: &FlushJobInfo) {}
    /// A flush is installed.
    fn on_flush_completed(&self, info: &FlushJobInfo) {}
    /// A requested flush has selected its memtables. There is more than one column family only in
    /// an atomic flush.
    fn on_manual_flush_scheduled(&self, infos: &[ManualFlushInfo]) {}
    /// A compaction begins.
    fn on_compaction_begin(&self, info: &CompactionJobInfo) {}
    /// A compaction has written its files and is about to be installed. Its inputs are still in the
    /// LSM tree and unavailable to other jobs, and it may still fail.
    fn on_compaction_pre_commit(&self, info: &CompactionJobInfo) {}
    /// A compaction is installed, or has failed.
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {}
    /// A subcompaction begins.
    fn on_subcompaction_begin(&self, info: &SubcompactionJobInfo) {}
    /// A subcompaction ends.
    fn on_subcompaction_completed(&self, info: &SubcompactionJobInfo) {}
    /// A table is about to be written.
    fn on_table_file_creation_started(&self, info: &FileCreationBriefInfo) {}
    /// A table was written. It becomes part of the LSM tree when its job is installed.
    fn on_table_file_created(&self, info: &TableFileCreationInfo) {}
    /// A table was deleted.
    fn on_table_file_deleted(&self, info: &FileDeletionInfo) {}
    /// A blob file is about to be written.
    fn on_blob_file_creation_started(&self, info: &FileCreationBriefInfo) {}
    /// A blob file was written.
    fn on_blob_file_created(&self, info: &BlobFileCreationInfo) {}
    /// A blob file was deleted.
    fn on_blob_file_deleted(&self, info: &FileDeletionInfo) {}
    /// A memtable became immutable.
    fn on_memtable_sealed(&self, info: &MemTableInfo) {}
    /// The last handle of a dropped column family is released.
    fn on_column_family_handle_deletion_started(&self, family_name: &str) {}
    /// A file was ingested.
    fn on_external_file_ingested(&self, info: &ExternalFileIngestionInfo) {}
    /// A background error is about to stop writes. A listener that takes the error out of `error` suppresses
    /// it, and writes continue.
    fn on_background_error(&self, reason: BackgroundErrorReason, error: &mut Option<Error>) {}
    /// A recovery from `error` begins. Clearing `auto_recovery` disables automatic recovery.
    fn on_error_recovery_begin(
        &self,
        reason: BackgroundErrorReason,
        error: &Error,
        auto_recovery: &mut bool,
    ) {
    }
    /// A recovery has ended.
    fn on_error_recovery_end(&self, info: &BackgroundErrorRecoveryInfo) {}
    /// The stall condition of a column family changed.
    fn on_stall_conditions_changed(&self, info: &WriteStallInfo) {}
    /// The database is about to close. Jobs may still be running.
    fn on_db_shutdown_begin(&self) {}
    /// A background flush or compaction ended.
    fn on_background_job_pressure_changed(&self, pressure: &BackgroundJobPressure) {}

    /// True to be notified of file operations by the methods below. Called once, when the database
    /// is opened; if all listeners return false, there is no overhead.
    ///
    /// These methods are called with locks held: they must not use the database, and they delay
    /// every thread that waits for the file. All files except the info log and the lock file are
    /// covered.
    fn should_be_notified_on_file_io(&self) -> bool {
        false
    }
    /// A read completed. Called for each read of a batch.
    fn on_file_read_finish(&self, info: &FileOperationInfo<'_>) {}
    /// Data was appended to a file.
    fn on_file_write_finish(&self, info: &FileOperationInfo<'_>) {}
    /// Buffered data of direct I/O was written.
    fn on_file_flush_finish(&self, info: &FileOperationInfo<'_>) {}
    /// A file was synced.
    fn on_file_sync_finish(&self, info: &FileOperationInfo<'_>) {}
    /// Writeback of a range was requested.
    fn on_file_range_sync_finish(&self, info: &FileOperationInfo<'_>) {}
    /// A file was truncated.
    fn on_file_truncate_finish(&self, info: &FileOperationInfo<'_>) {}
    /// A file that was written was closed.
    fn on_file_close_finish(&self, info: &FileOperationInfo<'_>) {}
    /// One of these operations failed. Called after the method for the operation itself.
    fn on_io_error(&self, info: &IoErrorInfo<'_>) {}
}

/// The listeners of a database, in call order.
#[derive(Clone, Default)]
pub struct Listeners(Vec<Arc<dyn EventListener>>);

impl Listeners {
    /// Creates a list of listeners.
    #[must_use]
    pub fn new(listeners: Vec<Arc<dyn EventListener>>) -> Listeners {
        Listeners(listeners)
    }

    /// The listeners of file operations.
    #[must_use]
    pub fn of_files(&self) -> Listeners {
        let wants = |one: &&Arc<dyn EventListener>| one.should_be_notified_on_file_io();
        Listeners(self.0.iter().filter(wants).cloned().collect())
    }

    /// Appends a listener.
    pub fn push(&mut self, listener: Arc<dyn EventListener>) {
        self.0.push(listener);
    }

    /// True if there are no listeners.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Calls each listener. A panic ends the call of that listener only and is written to `info`.
    pub fn each(&self, info: &Logger, mut call: impl FnMut(&dyn EventListener)) {
        for listener in &self.0 {
            if catch_unwind(AssertUnwindSafe(|| call(&**listener))).is_err() {
                info.log(
                    Level::Error,
                    format_args!("the listener {:?} panicked", listener.name()),
                );
            }
        }
    }
}

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|one| one.name()))
            .finish()
    }
}
