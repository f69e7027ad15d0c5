//! Listeners: code of the user's that is told what the engine does.
//!
//! A listener is called on the thread that does the work, with no lock of the engine held (but for what
//! it is told of files, see [`EventListener::should_be_notified_on_file_io`]), so it
//! may call the database; while it runs, that job waits. A panic in a listener is caught and
//! noted in the info log: it is the listener's trouble, not the database's.
//!
//! The structs carry what RocksDB's do. File paths are absolute.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cairn_compress::Compression;
use cairn_format::table::properties::Properties;
use cairn_types::{Error, SequenceNumber, TableFileCreationReason};

use crate::logger::{Level, Logger};
use crate::perf::io::FileTimes;
use crate::reason::{BackgroundErrorReason, CompactionReason, FlushReason, StallCondition};

/// A flush.
#[derive(Clone, Debug, Default)]
pub struct FlushJobInfo {
    /// The directory of the database.
    pub db_name: String,
    /// The id of the family.
    pub family_id: u32,
    /// Its name.
    pub family_name: String,
    /// The new table; the path of a table of number 0 before it exists, and if nothing was left to be
    /// written.
    pub file_path: String,
    /// Its number; 0 as long as there is none.
    pub file_number: u64,
    /// The oldest blob file that the table refers to; 0 for none.
    pub oldest_blob_file_number: u64,
    /// The number of the thread, as in the info log.
    pub thread_id: u64,
    /// The number of the job.
    pub job_id: u64,
    /// True if level 0 of the family has `level0_slowdown_writes_trigger` files or more: before the flush
    /// when it begins, with the new table when it has completed.
    pub triggered_writes_slowdown: bool,
    /// The same of `level0_stop_writes_trigger`.
    pub triggered_writes_stop: bool,
    /// The first write in the table; the largest sequence number there is as long as there is no table.
    pub smallest_seqno: SequenceNumber,
    /// The last one; 0 as long as there is no table.
    pub largest_seqno: SequenceNumber,
    /// The properties of the table, once it exists.
    pub table_properties: Option<Arc<Properties>>,
    /// Why.
    pub flush_reason: FlushReason,
    /// The compression of blob files.
    pub blob_compression: Option<Compression>,
    /// Blob files that were written.
    pub blob_files: Vec<BlobFileAddition>,
}

/// A family whose flush a program asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManualFlushInfo {
    /// The id of the family.
    pub family_id: u32,
    /// Its name.
    pub family_name: String,
    /// Why: a manual flush.
    pub flush_reason: FlushReason,
}

/// A blob file that a job wrote.
#[derive(Clone, Debug, Default)]
pub struct BlobFileAddition {
    /// Where it lies.
    pub path: String,
    /// Its number.
    pub number: u64,
    /// Values in it.
    pub total_blob_count: u64,
    /// Their bytes.
    pub total_blob_bytes: u64,
}

/// Values of a blob file that a compaction made garbage.
#[derive(Clone, Debug, Default)]
pub struct BlobFileGarbage {
    /// Where the file lies.
    pub path: String,
    /// Its number.
    pub number: u64,
    /// How many more of its values are garbage.
    pub garbage_blob_count: u64,
    /// Bytes of their records.
    pub garbage_blob_bytes: u64,
}

/// A file that takes part in a compaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactionFileInfo {
    /// Its level.
    pub level: usize,
    /// Its number.
    pub file_number: u64,
    /// The oldest blob file that it refers to; 0 for none.
    pub oldest_blob_file_number: u64,
}

/// What a compaction did. Listeners see the numbers of files alone if it moved or deleted them as they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionJobStats {
    /// How long it took, in microseconds.
    pub elapsed_micros: u64,
    /// How long its threads computed, in microseconds, where that is measured.
    pub cpu_micros: u64,
    /// Files read.
    pub num_input_files: u64,
    /// Those of them that lay in the output level; 0 when the compaction begins.
    pub num_input_files_at_output_level: u64,
    /// Those of them that were moved, not rewritten.
    pub num_input_files_trivially_moved: u64,
    /// Entries read; of a compaction that failed, the entries of its input files.
    pub num_input_records: u64,
    /// True if a filter made it jump over entries, which `num_input_records` leaves out.
    pub input_records_inexact: bool,
    /// Deletions in the files read, range tombstones not among them. This and the two sums below are what
    /// the properties of the files say; of a part of a compaction they are 0 unless it is the only one.
    pub num_input_deletion_records: u64,
    /// Bytes of the internal keys in the files read, those of range tombstones included.
    pub total_input_raw_key_bytes: u64,
    /// Bytes of the values there, those of range tombstones included; of a value in a blob file, the
    /// reference to it.
    pub total_input_raw_value_bytes: u64,
    /// Blobs read: for filters, for merge operands above them, and to move them.
    pub num_blobs_read: u64,
    /// Bytes of their records.
    pub total_blob_bytes_read: u64,
    /// Bytes of the files read.
    pub total_input_bytes: u64,
    /// Files written.
    pub num_output_files: u64,
    /// Entries written.
    pub num_output_records: u64,
    /// Bytes of the files written.
    pub total_output_bytes: u64,
    /// Blob files written.
    pub num_output_files_blob: u64,
    /// Bytes of the blob files written.
    pub total_output_bytes_blob: u64,
    /// Entries that were not written because of a newer one of the same key.
    pub num_records_replaced: u64,
    /// Deletions that were not written because nothing was left for them to hide.
    pub num_expired_deletion_records: u64,
    /// Single deletions that were not written because nothing was there for them to meet.
    pub num_single_del_fallthru: u64,
    /// Single deletions that met something else than a value: another deletion or a merge operand.
    pub num_single_del_mismatch: u64,
    /// How long calls that write files took, if the family's `report_bg_io_stats` asks.
    pub file_times: FileTimes,
    /// The first bytes of the smallest key written.
    pub smallest_output_key_prefix: KeyPrefix,
    /// The first bytes of the largest key written.
    pub largest_output_key_prefix: KeyPrefix,
    /// True if all files of the family took part.
    pub is_full_compaction: bool,
    /// True if it was requested.
    pub is_manual_compaction: bool,
    /// Entries that were not keys; always 0, such a job fails.
    pub num_corrupt_keys: u64,
}

/// The first bytes of a key: at most 8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyPrefix {
    bytes: [u8; 8],
    len: usize,
}

impl KeyPrefix {
    /// The first bytes of `key`.
    #[must_use]
    pub fn of(key: &[u8]) -> KeyPrefix {
        let mut prefix = KeyPrefix::default();
        prefix.len = key.len().min(prefix.bytes.len());
        prefix.bytes[..prefix.len].copy_from_slice(&key[..prefix.len]);
        prefix
    }

    /// They.
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
    /// The id of the family.
    pub family_id: u32,
    /// Its name.
    pub family_name: String,
    /// How it ended.
    pub status: Option<Error>,
    /// The number of the thread, as in the info log.
    pub thread_id: u64,
    /// The number of the job.
    pub job_id: u64,
    /// Files in level 0 when it began or ended.
    pub num_l0_files: usize,
    /// The smallest level of the inputs.
    pub base_input_level: usize,
    /// The level of the outputs.
    pub output_level: usize,
    /// Paths of the inputs.
    pub input_files: Vec<String>,
    /// More of the inputs.
    pub input_file_infos: Vec<CompactionFileInfo>,
    /// Paths of the outputs; none before they exist.
    pub output_files: Vec<String>,
    /// More of the outputs.
    pub output_file_infos: Vec<CompactionFileInfo>,
    /// Properties of the outputs, by path.
    pub table_properties: Vec<(String, Arc<Properties>)>,
    /// Why.
    pub compaction_reason: CompactionReason,
    /// The compression of the outputs.
    pub compression: Compression,
    /// What it did.
    pub stats: CompactionJobStats,
    /// The compression of blob files.
    pub blob_compression: Option<Compression>,
    /// Blob files that were written.
    pub blob_files: Vec<BlobFileAddition>,
    /// Blob files that have more garbage than before.
    pub blob_garbage: Vec<BlobFileGarbage>,
    /// True if it was cut short.
    pub aborted: bool,
}

/// A part of a compaction, which runs beside the others.
#[derive(Clone, Debug, Default)]
pub struct SubcompactionJobInfo {
    /// The id of the family.
    pub family_id: u32,
    /// Its name.
    pub family_name: String,
    /// How it ended.
    pub status: Option<Error>,
    /// The number of the thread, as in the info log.
    pub thread_id: u64,
    /// The number of the compaction.
    pub job_id: u64,
    /// Which part it is.
    pub subcompaction_job_id: usize,
    /// The smallest level of the inputs.
    pub base_input_level: usize,
    /// The level of the outputs.
    pub output_level: usize,
    /// Why.
    pub compaction_reason: CompactionReason,
    /// The compression of the outputs.
    pub compression: Compression,
    /// What it did.
    pub stats: CompactionJobStats,
    /// The compression of blob files.
    pub blob_compression: Option<Compression>,
}

/// A table or blob file that is about to be written.
#[derive(Clone, Debug, Default)]
pub struct FileCreationBriefInfo {
    /// The directory of the database.
    pub db_name: String,
    /// The name of the family.
    pub family_name: String,
    /// Where it lies.
    pub file_path: String,
    /// The job that writes it.
    pub job_id: u64,
    /// Why.
    pub reason: Option<TableFileCreationReason>,
}

/// A table that was written, or could not be.
#[derive(Clone, Debug, Default)]
pub struct TableFileCreationInfo {
    /// Which one, and who wrote it.
    pub brief: FileCreationBriefInfo,
    /// Its size, in bytes.
    pub file_size: u64,
    /// Its properties.
    pub table_properties: Arc<Properties>,
    /// Why it could not be written.
    pub status: Option<Error>,
    /// The checksum of the whole file, where it is kept.
    pub file_checksum: Vec<u8>,
    /// What computed that.
    pub file_checksum_func_name: String,
}

/// A blob file that was written, or could not be.
#[derive(Clone, Debug, Default)]
pub struct BlobFileCreationInfo {
    /// Which one, and who wrote it.
    pub brief: FileCreationBriefInfo,
    /// Values in it.
    pub total_blob_count: u64,
    /// Their bytes.
    pub total_blob_bytes: u64,
    /// Why it could not be written.
    pub status: Option<Error>,
}

/// A file that was deleted, or could not be.
#[derive(Clone, Debug, Default)]
pub struct FileDeletionInfo {
    /// The directory of the database.
    pub db_name: String,
    /// Where it lay.
    pub file_path: String,
    /// The job that deleted it.
    pub job_id: u64,
    /// Why it could not be deleted.
    pub status: Option<Error>,
}

/// A memtable that takes no writes any more.
#[derive(Clone, Debug, Default)]
pub struct MemTableInfo {
    /// The name of the family.
    pub family_name: String,
    /// The first write in it.
    pub first_seqno: SequenceNumber,
    /// The last write before it was made: no write up to this one is in it, but for what a recovery read
    /// from logs. 0 for a memtable that was made when the database was opened.
    pub earliest_seqno: SequenceNumber,
    /// Entries.
    pub num_entries: u64,
    /// Deletions among them.
    pub num_deletes: u64,
    /// The newest timestamp in it, where it is known.
    pub newest_udt: Vec<u8>,
}

/// A file that was ingested.
#[derive(Clone, Debug, Default)]
pub struct ExternalFileIngestionInfo {
    /// The name of the family.
    pub family_name: String,
    /// Where it lay.
    pub external_file_path: String,
    /// Where it lies.
    pub internal_file_path: String,
    /// The sequence number of all its entries; 0 if they keep their own.
    pub global_seqno: SequenceNumber,
    /// Its properties.
    pub table_properties: Arc<Properties>,
}

/// Writes of a family are slowed down, stopped or free again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteStallInfo {
    /// The name of the family.
    pub family_name: String,
    /// The condition of now.
    pub current: StallCondition,
    /// The one before.
    pub previous: StallCondition,
}

/// How a recovery from an error ended.
#[derive(Clone, Debug, Default)]
pub struct BackgroundErrorRecoveryInfo {
    /// The error.
    pub old_error: Option<Error>,
    /// The error that is there now; none if the database is well.
    pub new_error: Option<Error>,
}

/// What was done to a file, with RocksDB's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
#[non_exhaustive]
pub enum FileOperation {
    /// Bytes were read.
    Read = 0,
    /// Bytes were written.
    Write = 1,
    /// The file was cut.
    Truncate = 2,
    /// The file was closed.
    Close = 3,
    /// What direct I/O held in memory was handed over.
    Flush = 4,
    /// The content was synced.
    Sync = 5,
    /// Content and attributes were synced.
    Fsync = 6,
    /// The kernel was asked to write a range back.
    RangeSync = 7,
    /// Bytes were appended: the name of a write in an error.
    Append = 8,
}

/// A call of an open file that has ended.
#[derive(Clone, Copy, Debug)]
pub struct FileOperationInfo<'a> {
    /// What was done.
    pub operation: FileOperation,
    /// The file.
    pub path: &'a Path,
    /// The first byte it was done to, or where the file was cut; 0 if it was done to the whole file.
    pub offset: u64,
    /// How many bytes it was done to; of a read that failed, how many were wanted.
    pub length: u64,
    /// When it began, in microseconds since 1970.
    pub start_micros: u64,
    /// How long it took.
    pub duration: Duration,
    /// Why it failed, if it did.
    pub error: Option<&'a Error>,
}

/// A call of an open file that has failed.
#[derive(Clone, Copy, Debug)]
pub struct IoErrorInfo<'a> {
    /// Why.
    pub error: &'a Error,
    /// What was to be done.
    pub operation: FileOperation,
    /// The file.
    pub path: &'a Path,
    /// The first byte it was to be done to.
    pub offset: u64,
    /// How many bytes.
    pub length: u64,
}

/// How much background work there is, and how near writes are to being slowed down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackgroundJobPressure {
    /// Compactions that the executor has, running or not.
    pub compaction_scheduled: u64,
    /// Those of them that run.
    pub compaction_running: u64,
    /// Flushes that the executor has, running or not.
    pub flush_scheduled: u64,
    /// Those of them that run.
    pub flush_running: u64,
    /// What the family that is nearest to being slowed down has of what slows it down, in percent:
    /// files or runs of level 0, or bytes that wait for compactions. More than 100 when it is.
    pub write_stall_proximity_pct: u64,
    /// True if more compactions than one may run because writes wait for them.
    pub compaction_speedup_active: bool,
}

/// Is told what the engine does. Every call has a body that does nothing.
///
/// No lock is held during a call. A call must not close the database or wait for a job: the job
/// that calls may be the one waited for.
#[expect(unused_variables, reason = "bodies that do nothing")]
pub trait EventListener: Send + Sync {
    /// What it is called in messages.
    fn name(&self) -> &str {
        "EventListener"
    }
    /// A flush begins.
    fn on_flush_begin(&self, info: &FlushJobInfo) {}
    /// A flush is installed.
    fn on_flush_completed(&self, info: &FlushJobInfo) {}
    /// A flush that a program asked for has its memtables. Several families only if they are flushed
    /// together.
    fn on_manual_flush_scheduled(&self, infos: &[ManualFlushInfo]) {}
    /// A compaction begins.
    fn on_compaction_begin(&self, info: &CompactionJobInfo) {}
    /// A compaction has written its files and is about to be installed: its inputs are still in the
    /// tree, and no other job may take them. It may fail yet.
    fn on_compaction_pre_commit(&self, info: &CompactionJobInfo) {}
    /// A compaction is installed, or has failed.
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {}
    /// A part of a compaction begins.
    fn on_subcompaction_begin(&self, info: &SubcompactionJobInfo) {}
    /// A part of a compaction ends.
    fn on_subcompaction_completed(&self, info: &SubcompactionJobInfo) {}
    /// A table is about to be written.
    fn on_table_file_creation_started(&self, info: &FileCreationBriefInfo) {}
    /// A table was written. It belongs to the tree when its job is installed.
    fn on_table_file_created(&self, info: &TableFileCreationInfo) {}
    /// A table was deleted.
    fn on_table_file_deleted(&self, info: &FileDeletionInfo) {}
    /// A blob file is about to be written.
    fn on_blob_file_creation_started(&self, info: &FileCreationBriefInfo) {}
    /// A blob file was written.
    fn on_blob_file_created(&self, info: &BlobFileCreationInfo) {}
    /// A blob file was deleted.
    fn on_blob_file_deleted(&self, info: &FileDeletionInfo) {}
    /// A memtable was switched.
    fn on_memtable_sealed(&self, info: &MemTableInfo) {}
    /// The last handle of a dropped family is let go.
    fn on_column_family_handle_deletion_started(&self, family_name: &str) {}
    /// A file was ingested.
    fn on_external_file_ingested(&self, info: &ExternalFileIngestionInfo) {}
    /// A background error is about to stop writes. Taking the error out of `error` makes it
    /// undone: writes go on.
    fn on_background_error(&self, reason: BackgroundErrorReason, error: &mut Option<Error>) {}
    /// A recovery from `error` begins; clearing `auto_recovery` keeps it from running by itself.
    fn on_error_recovery_begin(
        &self,
        reason: BackgroundErrorReason,
        error: &Error,
        auto_recovery: &mut bool,
    ) {
    }
    /// A recovery has ended.
    fn on_error_recovery_end(&self, info: &BackgroundErrorRecoveryInfo) {}
    /// Writes of a family are slowed down, stopped or free again.
    fn on_stall_conditions_changed(&self, info: &WriteStallInfo) {}
    /// The database is about to be closed. Jobs may still run.
    fn on_db_shutdown_begin(&self) {}
    /// A flush or a compaction of the background has ended.
    fn on_background_job_pressure_changed(&self, pressure: &BackgroundJobPressure) {}

    /// True if it is to be told of calls of files, with the functions below. Asked once, when the
    /// database is opened. If no listener says so nothing is paid for it.
    ///
    /// These calls are made where the file is used, with locks held: they must not call the database,
    /// and everybody who waits for the file waits for them. They tell of all files but the info log
    /// and the lock.
    fn should_be_notified_on_file_io(&self) -> bool {
        false
    }
    /// A read has ended; each of several at once.
    fn on_file_read_finish(&self, info: &FileOperationInfo<'_>) {}
    /// Bytes were written behind the end of a file.
    fn on_file_write_finish(&self, info: &FileOperationInfo<'_>) {}
    /// A file that uses direct I/O handed over what it held in memory.
    fn on_file_flush_finish(&self, info: &FileOperationInfo<'_>) {}
    /// A file was synced.
    fn on_file_sync_finish(&self, info: &FileOperationInfo<'_>) {}
    /// The kernel was asked to write a range of a file back.
    fn on_file_range_sync_finish(&self, info: &FileOperationInfo<'_>) {}
    /// A file was cut.
    fn on_file_truncate_finish(&self, info: &FileOperationInfo<'_>) {}
    /// A file that was written was closed.
    fn on_file_close_finish(&self, info: &FileOperationInfo<'_>) {}
    /// One of these calls has failed; said after the function for the call itself.
    fn on_io_error(&self, info: &IoErrorInfo<'_>) {}
}

/// The listeners of a database, in the order of their calls.
#[derive(Clone, Default)]
pub struct Listeners(Vec<Arc<dyn EventListener>>);

impl Listeners {
    /// These listeners.
    #[must_use]
    pub fn new(listeners: Vec<Arc<dyn EventListener>>) -> Listeners {
        Listeners(listeners)
    }

    /// Those that want to be told of calls of files.
    #[must_use]
    pub fn of_files(&self) -> Listeners {
        let wants = |one: &&Arc<dyn EventListener>| one.should_be_notified_on_file_io();
        Listeners(self.0.iter().filter(wants).cloned().collect())
    }

    /// Adds one behind the others.
    pub fn push(&mut self, listener: Arc<dyn EventListener>) {
        self.0.push(listener);
    }

    /// True if there are no listeners.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Calls each listener. A panic ends only the call of the one that panics; `info` is told.
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
