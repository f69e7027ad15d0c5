//! Job information beyond the original interface: numbers, statistics, lists of files, table
//! properties.
//!
//! A pointer to a part of a job's information is valid as long as that information.

use std::ffi::{c_char, c_int, c_uchar};

use cairn_format::table::properties::Properties;
use cairn_observe::listener::{
    BlobFileAddition, BlobFileGarbage, CompactionFileInfo, CompactionJobInfo, CompactionJobStats,
};
use cairn_options::Compression;

use crate::callbacks::listener::{
    rocksdb_compactionjobinfo_t, rocksdb_externalfileingestioninfo_t, rocksdb_flushjobinfo_t,
    rocksdb_memtableinfo_t, rocksdb_subcompactionjobinfo_t,
};
use crate::error::bytes;
use crate::handle::{create, misuse, of};
use crate::table_properties::{rocksdb_table_properties_t, seen, shown, words, words_at};

/// The statistics of a compaction.
pub struct rocksdb_compaction_job_stats_t(());
/// An input or output table of a compaction.
pub struct rocksdb_compaction_file_info_t(());
/// A blob file written by a job.
pub struct rocksdb_blob_file_addition_info_t(());
/// A blob file that gained garbage in a compaction.
pub struct rocksdb_blob_file_garbage_info_t(());

c_destructors! {
    /// Frees an object created by `rocksdb_compactionjobinfo_create`.
    rocksdb_compactionjobinfo_destroy(rocksdb_compactionjobinfo_t);
}

/// A pointer to the element `pos` of a list.
fn element<T, V>(list: &[T], pos: usize) -> *const V {
    match list.get(pos) {
        Some(element) => shown(element),
        None => misuse(&format!(
            "element {pos} requested from a list of {}",
            list.len()
        )),
    }
}

/// The id of a job.
fn job(id: u64) -> c_int {
    c_int::try_from(id).unwrap_or(c_int::MAX)
}

/// The number of the codec of blob files; that of no compression if there are none.
fn blob_codec(compression: Option<Compression>) -> u32 {
    compression.unwrap_or(Compression::None) as u32
}

/// Statistics of a compaction.
///
/// # Safety
///
/// The pointer is valid as `c.h` requires.
unsafe fn stats_of<'a>(stats: *const rocksdb_compaction_job_stats_t) -> &'a CompactionJobStats {
    // SAFETY: guaranteed by the caller.
    unsafe { seen(stats) }
}

/// The properties of a compaction's output tables, sorted by path.
fn tables(info: &CompactionJobInfo) -> Vec<&(String, std::sync::Arc<Properties>)> {
    let mut tables: Vec<_> = info.table_properties.iter().collect();
    tables.sort_by(|a, b| a.0.cmp(&b.0));
    tables
}

/// Defines getters of statistics: `name -> type => expression of stats;`.
macro_rules! statistics {
    ($($(#[$doc:meta])* $name:ident -> $type:ty => |$stats:ident| $value:expr;)+) => {
        c_functions! {$(
            $(#[$doc])*
            fn $name(stats: *const rocksdb_compaction_job_stats_t) -> $type {
                let $stats = stats_of(stats);
                $value
            }
        )+}
    };
}

/// Defines getters of features that Cairn lacks: always 0.
macro_rules! absent {
    ($($(#[$doc:meta])* $name:ident -> $type:ty;)+) => {
        c_functions! {$(
            $(#[$doc])*
            fn $name(stats: *const rocksdb_compaction_job_stats_t) -> $type {
                let _ = stats_of(stats);
                0
            }
        )+}
    };
}

/// A count as `size_t`.
fn size(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

statistics! {
    /// The duration in microseconds.
    rocksdb_compaction_job_stats_elapsed_micros -> u64 => |stats| stats.elapsed_micros;
    /// The total CPU time of its threads in microseconds.
    rocksdb_compaction_job_stats_cpu_micros -> u64 => |stats| stats.cpu_micros;
    /// The number of input entries.
    rocksdb_compaction_job_stats_num_input_records -> u64 => |stats| stats.num_input_records;
    /// The number of input deletions, without range tombstones. For one of several subcompactions, this and
    /// the byte totals are 0.
    rocksdb_compaction_job_stats_num_input_deletion_records -> u64 => |stats| stats.num_input_deletion_records;
    /// The total size of the internal input keys, each of which has 8 bytes in addition to the user
    /// key.
    rocksdb_compaction_job_stats_total_input_raw_key_bytes -> u64 => |stats| stats.total_input_raw_key_bytes;
    /// The total size of the input values, as stored in the tables.
    rocksdb_compaction_job_stats_total_input_raw_value_bytes -> u64 => |stats| stats.total_input_raw_value_bytes;
    /// True if the number of input entries is exact, that is, no filter has skipped keys.
    rocksdb_compaction_job_stats_has_accurate_num_input_records -> c_uchar => |stats| (!stats.input_records_inexact).into();
    /// The number of blobs read: for filters, for merges, and for relocation.
    rocksdb_compaction_job_stats_num_blobs_read -> u64 => |stats| stats.num_blobs_read;
    /// The total size of their records in bytes.
    rocksdb_compaction_job_stats_total_blob_bytes_read -> u64 => |stats| stats.total_blob_bytes_read;
    /// The number of input tables.
    rocksdb_compaction_job_stats_num_input_files -> usize => |stats| size(stats.num_input_files);
    /// The number of input tables that were moved without rewriting.
    rocksdb_compaction_job_stats_num_input_files_trivially_moved -> usize => |stats| size(stats.num_input_files_trivially_moved);
    /// The number of those in the output level.
    rocksdb_compaction_job_stats_num_input_files_at_output_level -> usize => |stats| size(stats.num_input_files_at_output_level);
    /// The number of output entries.
    rocksdb_compaction_job_stats_num_output_records -> u64 => |stats| stats.num_output_records;
    /// The number of output tables.
    rocksdb_compaction_job_stats_num_output_files -> usize => |stats| size(stats.num_output_files);
    /// The number of output blob files.
    rocksdb_compaction_job_stats_num_output_files_blob -> usize => |stats| size(stats.num_output_files_blob);
    /// True if all tables of the family were inputs.
    rocksdb_compaction_job_stats_is_full_compaction -> c_uchar => |stats| stats.is_full_compaction.into();
    /// True if it is a manual compaction.
    rocksdb_compaction_job_stats_is_manual_compaction -> c_uchar => |stats| stats.is_manual_compaction.into();
    /// The total size of the input tables in bytes.
    rocksdb_compaction_job_stats_total_input_bytes -> u64 => |stats| stats.total_input_bytes;
    /// The total size of the output tables in bytes.
    rocksdb_compaction_job_stats_total_output_bytes -> u64 => |stats| stats.total_output_bytes;
    /// The total size of the output blob files in bytes.
    rocksdb_compaction_job_stats_total_output_bytes_blob -> u64 => |stats| stats.total_output_bytes_blob;
    /// The number of entries dropped because of a newer entry of the same key.
    rocksdb_compaction_job_stats_num_records_replaced -> u64 => |stats| stats.num_records_replaced;
    /// The number of deletions dropped because no older version could exist.
    rocksdb_compaction_job_stats_num_expired_deletion_records -> u64 => |stats| stats.num_expired_deletion_records;
    /// The number of single deletions dropped without a matching value.
    rocksdb_compaction_job_stats_num_single_del_fallthru -> u64 => |stats| stats.num_single_del_fallthru;
    /// The number of single deletions that matched another deletion or a merge operand instead of a value.
    rocksdb_compaction_job_stats_num_single_del_mismatch -> u64 => |stats| stats.num_single_del_mismatch;
    /// The time spent in file writes, in nanoseconds, if `report_bg_io_stats` is set.
    rocksdb_compaction_job_stats_file_write_nanos -> u64 => |stats| stats.file_times.write;
    /// The same for range syncs.
    rocksdb_compaction_job_stats_file_range_sync_nanos -> u64 => |stats| stats.file_times.range_sync;
    /// The same for fsync.
    rocksdb_compaction_job_stats_file_fsync_nanos -> u64 => |stats| stats.file_times.fsync;
    /// The same for preallocation.
    rocksdb_compaction_job_stats_file_prepare_write_nanos -> u64 => |stats| stats.file_times.prepare_write;
    /// The number of corrupt keys: always 0, because a corrupt key fails the job.
    rocksdb_compaction_job_stats_num_corrupt_keys -> u64 => |stats| stats.num_corrupt_keys;
    /// True if a part of the compaction ran in another process.
    rocksdb_compaction_job_stats_is_remote_compaction -> c_uchar => |stats| stats.is_remote_compaction.into();
}

absent! {
    /// The number of input tables skipped because a range tombstone covers them: always 0, because
    /// all are read.
    rocksdb_compaction_job_stats_num_filtered_input_files -> usize;
    /// The number of those in the output level.
    rocksdb_compaction_job_stats_num_filtered_input_files_at_output_level -> usize;
    /// The total size of the skipped input tables: always 0.
    rocksdb_compaction_job_stats_total_skipped_input_bytes -> u64;
}

c_functions! {
    /// The first bytes of the smallest output key, at most 8.
    fn rocksdb_compaction_job_stats_smallest_output_key_prefix(
        stats: *const rocksdb_compaction_job_stats_t,
        size: *mut usize,
    ) -> *const c_char {
        words(stats_of(stats).smallest_output_key_prefix.as_bytes(), size)
    }
    /// The first bytes of the largest output key, at most 8.
    fn rocksdb_compaction_job_stats_largest_output_key_prefix(
        stats: *const rocksdb_compaction_job_stats_t,
        size: *mut usize,
    ) -> *const c_char {
        words(stats_of(stats).largest_output_key_prefix.as_bytes(), size)
    }
    /// The id of the flushed family.
    fn rocksdb_flushjobinfo_cf_id(info: *const rocksdb_flushjobinfo_t) -> u32 {
        of(info).family_id
    }
    /// The id of the job.
    fn rocksdb_flushjobinfo_job_id(info: *const rocksdb_flushjobinfo_t) -> c_int {
        job(of(info).job_id)
    }
    /// The codec of the blob files.
    fn rocksdb_flushjobinfo_blob_compression_type(info: *const rocksdb_flushjobinfo_t) -> u32 {
        blob_codec(of(info).blob_compression)
    }
    /// The id of the compacted family.
    fn rocksdb_compactionjobinfo_cf_id(info: *const rocksdb_compactionjobinfo_t) -> u32 {
        of(info).family_id
    }
    /// The id of the job.
    fn rocksdb_compactionjobinfo_job_id(info: *const rocksdb_compactionjobinfo_t) -> c_int {
        job(of(info).job_id)
    }
    /// The codec of the blob files.
    fn rocksdb_compactionjobinfo_blob_compression_type(info: *const rocksdb_compactionjobinfo_t) -> u32 {
        blob_codec(of(info).blob_compression)
    }
    /// The id of the compacted family.
    fn rocksdb_subcompactionjobinfo_cf_id(info: *const rocksdb_subcompactionjobinfo_t) -> u32 {
        of(info).family_id
    }
    /// The id of the job.
    fn rocksdb_subcompactionjobinfo_job_id(info: *const rocksdb_subcompactionjobinfo_t) -> c_int {
        job(of(info).job_id)
    }
    /// The codec of the blob files.
    fn rocksdb_subcompactionjobinfo_blob_compression_type(info: *const rocksdb_subcompactionjobinfo_t) -> u32 {
        blob_codec(of(info).blob_compression)
    }
    /// The codec of the output tables.
    fn rocksdb_compactionjobinfo_compression(info: *const rocksdb_compactionjobinfo_t) -> u32 {
        of(info).compression as u32
    }
    /// Its statistics.
    fn rocksdb_compactionjobinfo_stats(info: *const rocksdb_compactionjobinfo_t) -> *const rocksdb_compaction_job_stats_t {
        shown(&of(info).stats)
    }
    /// The codec of the output tables.
    fn rocksdb_subcompactionjobinfo_compression(info: *const rocksdb_subcompactionjobinfo_t) -> u32 {
        of(info).compression as u32
    }
    /// Its statistics.
    fn rocksdb_subcompactionjobinfo_stats(info: *const rocksdb_subcompactionjobinfo_t) -> *const rocksdb_compaction_job_stats_t {
        shown(&of(info).stats)
    }
    /// The id of the subcompaction.
    fn rocksdb_subcompactionjobinfo_subcompaction_job_id(info: *const rocksdb_subcompactionjobinfo_t) -> c_int {
        c_int::try_from(of(info).subcompaction_job_id).unwrap_or(c_int::MAX)
    }
    /// The id of the thread.
    fn rocksdb_flushjobinfo_thread_id(info: *const rocksdb_flushjobinfo_t) -> u64 {
        of(info).thread_id
    }
    /// The id of the thread.
    fn rocksdb_compactionjobinfo_thread_id(info: *const rocksdb_compactionjobinfo_t) -> u64 {
        of(info).thread_id
    }
    /// The file number of the table.
    fn rocksdb_flushjobinfo_file_number(info: *const rocksdb_flushjobinfo_t) -> u64 {
        of(info).file_number
    }
    /// The number of the oldest blob file that the table references; 0 for none.
    fn rocksdb_flushjobinfo_oldest_blob_file_number(info: *const rocksdb_flushjobinfo_t) -> u64 {
        of(info).oldest_blob_file_number
    }
    /// The properties of the table; all empty before it exists.
    fn rocksdb_flushjobinfo_table_properties(info: *const rocksdb_flushjobinfo_t) -> *const rocksdb_table_properties_t {
        of(info).table_properties.as_deref().map_or_else(no_properties, shown)
    }
    /// The number of tables in level 0 at the time of the callback.
    fn rocksdb_compactionjobinfo_num_l0_files(info: *const rocksdb_compactionjobinfo_t) -> c_int {
        c_int::try_from(of(info).num_l0_files).unwrap_or(c_int::MAX)
    }
    /// True if the compaction was aborted.
    fn rocksdb_compactionjobinfo_aborted(info: *const rocksdb_compactionjobinfo_t) -> c_uchar {
        of(info).aborted.into()
    }
    /// The number of input file infos.
    fn rocksdb_compactionjobinfo_input_file_infos_count(info: *const rocksdb_compactionjobinfo_t) -> usize {
        of(info).input_file_infos.len()
    }
    /// An input file info.
    fn rocksdb_compactionjobinfo_input_file_info_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
    ) -> *const rocksdb_compaction_file_info_t {
        element(&of(info).input_file_infos, pos)
    }
    /// The number of output file infos.
    fn rocksdb_compactionjobinfo_output_file_infos_count(info: *const rocksdb_compactionjobinfo_t) -> usize {
        of(info).output_file_infos.len()
    }
    /// An output file info.
    fn rocksdb_compactionjobinfo_output_file_info_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
    ) -> *const rocksdb_compaction_file_info_t {
        element(&of(info).output_file_infos, pos)
    }
    /// The number of blob files written.
    fn rocksdb_flushjobinfo_blob_file_addition_infos_count(info: *const rocksdb_flushjobinfo_t) -> usize {
        of(info).blob_files.len()
    }
    /// A blob file that was written.
    fn rocksdb_flushjobinfo_blob_file_addition_info_at(
        info: *const rocksdb_flushjobinfo_t,
        pos: usize,
    ) -> *const rocksdb_blob_file_addition_info_t {
        element(&of(info).blob_files, pos)
    }
    /// The number of blob files written.
    fn rocksdb_compactionjobinfo_blob_file_addition_infos_count(info: *const rocksdb_compactionjobinfo_t) -> usize {
        of(info).blob_files.len()
    }
    /// A blob file that was written.
    fn rocksdb_compactionjobinfo_blob_file_addition_info_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
    ) -> *const rocksdb_blob_file_addition_info_t {
        element(&of(info).blob_files, pos)
    }
    /// The number of blob files that gained garbage.
    fn rocksdb_compactionjobinfo_blob_file_garbage_infos_count(info: *const rocksdb_compactionjobinfo_t) -> usize {
        of(info).blob_garbage.len()
    }
    /// A blob file that gained garbage.
    fn rocksdb_compactionjobinfo_blob_file_garbage_info_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
    ) -> *const rocksdb_blob_file_garbage_info_t {
        element(&of(info).blob_garbage, pos)
    }
    /// The number of input and output tables with properties.
    fn rocksdb_compactionjobinfo_table_properties_count(info: *const rocksdb_compactionjobinfo_t) -> usize {
        of(info).table_properties.len()
    }
    /// The path of such a table, in sorted order; null beyond the last.
    fn rocksdb_compactionjobinfo_table_properties_key_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
        key_len: *mut usize,
    ) -> *const c_char {
        words_at(tables(of(info)).get(pos).map(|table| table.0.as_bytes()), key_len)
    }
    /// Its properties; null beyond the last.
    fn rocksdb_compactionjobinfo_table_properties_value_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
    ) -> *const rocksdb_table_properties_t {
        tables(of(info)).get(pos).map_or(std::ptr::null(), |table| shown(&*table.1))
    }
    /// The properties of the input or output table with a path; null if there is no such table.
    fn rocksdb_compactionjobinfo_table_properties_for_file(
        info: *const rocksdb_compactionjobinfo_t,
        file_name: *const c_char,
        file_name_len: usize,
    ) -> *const rocksdb_table_properties_t {
        let path = bytes(file_name, file_name_len);
        let mut tables = of(info).table_properties.iter();
        let table = tables.find(|table| table.0.as_bytes() == path);
        table.map_or(std::ptr::null(), |table| shown(&*table.1))
    }
    /// Creates an empty job info, which `rocksdb_compact_files` fills.
    fn rocksdb_compactionjobinfo_create() -> *mut rocksdb_compactionjobinfo_t {
        create(CompactionJobInfo::default())
    }
    /// The path of the external file.
    fn rocksdb_externalfileingestioninfo_external_file_path(
        info: *const rocksdb_externalfileingestioninfo_t,
        size: *mut usize,
    ) -> *const c_char {
        words(of(info).external_file_path.as_bytes(), size)
    }
    /// The global sequence number of its entries; 0 if they keep their own.
    fn rocksdb_externalfileingestioninfo_global_seqno(info: *const rocksdb_externalfileingestioninfo_t) -> u64 {
        of(info).global_seqno.0
    }
    /// The properties of the table.
    fn rocksdb_externalfileingestioninfo_table_properties(
        info: *const rocksdb_externalfileingestioninfo_t,
    ) -> *const rocksdb_table_properties_t {
        shown(&*of(info).table_properties)
    }
    /// The newest timestamp in the memtable; empty if unknown.
    fn rocksdb_memtableinfo_newest_udt(info: *const rocksdb_memtableinfo_t, size: *mut usize) -> *const c_char {
        words(&of(info).newest_udt, size)
    }
    /// The level of a table.
    fn rocksdb_compaction_file_info_level(info: *const rocksdb_compaction_file_info_t) -> c_int {
        c_int::try_from(seen::<CompactionFileInfo, _>(info).level).unwrap_or(c_int::MAX)
    }
    /// Its number.
    fn rocksdb_compaction_file_info_file_number(info: *const rocksdb_compaction_file_info_t) -> u64 {
        seen::<CompactionFileInfo, _>(info).file_number
    }
    /// The number of the oldest blob file that it references; 0 for none.
    fn rocksdb_compaction_file_info_oldest_blob_file_number(info: *const rocksdb_compaction_file_info_t) -> u64 {
        seen::<CompactionFileInfo, _>(info).oldest_blob_file_number
    }
    /// The path of a blob file.
    fn rocksdb_blob_file_addition_info_blob_file_path(
        info: *const rocksdb_blob_file_addition_info_t,
        size: *mut usize,
    ) -> *const c_char {
        words(seen::<BlobFileAddition, _>(info).path.as_bytes(), size)
    }
    /// Its number.
    fn rocksdb_blob_file_addition_info_blob_file_number(info: *const rocksdb_blob_file_addition_info_t) -> u64 {
        seen::<BlobFileAddition, _>(info).number
    }
    /// The number of its blobs.
    fn rocksdb_blob_file_addition_info_total_blob_count(info: *const rocksdb_blob_file_addition_info_t) -> u64 {
        seen::<BlobFileAddition, _>(info).total_blob_count
    }
    /// The total size of these blobs in bytes.
    fn rocksdb_blob_file_addition_info_total_blob_bytes(info: *const rocksdb_blob_file_addition_info_t) -> u64 {
        seen::<BlobFileAddition, _>(info).total_blob_bytes
    }
    /// The path of a blob file.
    fn rocksdb_blob_file_garbage_info_blob_file_path(
        info: *const rocksdb_blob_file_garbage_info_t,
        size: *mut usize,
    ) -> *const c_char {
        words(seen::<BlobFileGarbage, _>(info).path.as_bytes(), size)
    }
    /// Its number.
    fn rocksdb_blob_file_garbage_info_blob_file_number(info: *const rocksdb_blob_file_garbage_info_t) -> u64 {
        seen::<BlobFileGarbage, _>(info).number
    }
    /// The number of its blobs that became garbage.
    fn rocksdb_blob_file_garbage_info_garbage_blob_count(info: *const rocksdb_blob_file_garbage_info_t) -> u64 {
        seen::<BlobFileGarbage, _>(info).garbage_blob_count
    }
    /// The total size of these blobs in bytes.
    fn rocksdb_blob_file_garbage_info_garbage_blob_bytes(info: *const rocksdb_blob_file_garbage_info_t) -> u64 {
        seen::<BlobFileGarbage, _>(info).garbage_blob_bytes
    }
}

/// The properties of a table that does not exist yet.
fn no_properties() -> *const rocksdb_table_properties_t {
    static NONE: std::sync::LazyLock<Properties> = std::sync::LazyLock::new(Properties::default);
    shown(&*NONE)
}
