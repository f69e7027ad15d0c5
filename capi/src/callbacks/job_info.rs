//! Fields of reports of jobs beyond the first release of the interface: numbers, statistics, lists of
//! files, properties of tables.
//!
//! A pointer to a part of a report belongs to the report, and is good as long as that.

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
/// A table that takes part in a compaction.
pub struct rocksdb_compaction_file_info_t(());
/// A blob file that a job wrote.
pub struct rocksdb_blob_file_addition_info_t(());
/// A blob file of which a compaction made values garbage.
pub struct rocksdb_blob_file_garbage_info_t(());

c_destructors! {
    /// Frees a report that `rocksdb_compactionjobinfo_create` made.
    rocksdb_compactionjobinfo_destroy(rocksdb_compactionjobinfo_t);
}

/// The element `pos` of a list, for C.
fn element<T, V>(list: &[T], pos: usize) -> *const V {
    match list.get(pos) {
        Some(element) => shown(element),
        None => misuse(&format!(
            "element {pos} of a list of {} was asked for",
            list.len()
        )),
    }
}

/// The number of a job.
fn job(id: u64) -> c_int {
    c_int::try_from(id).unwrap_or(c_int::MAX)
}

/// The number of a codec for blob files; no blob files are not compressed.
fn blob_codec(compression: Option<Compression>) -> u32 {
    compression.unwrap_or(Compression::None) as u32
}

/// Statistics of a compaction.
///
/// # Safety
///
/// The pointer is what `c.h` says.
unsafe fn stats_of<'a>(stats: *const rocksdb_compaction_job_stats_t) -> &'a CompactionJobStats {
    // SAFETY: the caller's promise.
    unsafe { seen(stats) }
}

/// Properties of the tables that a compaction wrote, in the order of their paths.
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

/// Defines getters of what does not happen here: always 0.
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

/// A count as C's `size_t`.
fn size(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

statistics! {
    /// How long it took, in microseconds.
    rocksdb_compaction_job_stats_elapsed_micros -> u64 => |stats| stats.elapsed_micros;
    /// How long its threads computed, in microseconds.
    rocksdb_compaction_job_stats_cpu_micros -> u64 => |stats| stats.cpu_micros;
    /// Entries read.
    rocksdb_compaction_job_stats_num_input_records -> u64 => |stats| stats.num_input_records;
    /// Deletions in the tables read, without range tombstones. Of one part of several this and the sums of
    /// bytes are 0.
    rocksdb_compaction_job_stats_num_input_deletion_records -> u64 => |stats| stats.num_input_deletion_records;
    /// Bytes of the keys in the tables read, with the 8 bytes that the engine adds to each.
    rocksdb_compaction_job_stats_total_input_raw_key_bytes -> u64 => |stats| stats.total_input_raw_key_bytes;
    /// Bytes of the values in the tables read, as they stood there.
    rocksdb_compaction_job_stats_total_input_raw_value_bytes -> u64 => |stats| stats.total_input_raw_value_bytes;
    /// True if the number of entries read is exact: unless a filter had keys skipped.
    rocksdb_compaction_job_stats_has_accurate_num_input_records -> c_uchar => |stats| (!stats.input_records_inexact).into();
    /// Blobs read: for filters, for merge operands above them, and to move them.
    rocksdb_compaction_job_stats_num_blobs_read -> u64 => |stats| stats.num_blobs_read;
    /// Bytes of their records.
    rocksdb_compaction_job_stats_total_blob_bytes_read -> u64 => |stats| stats.total_blob_bytes_read;
    /// Tables read.
    rocksdb_compaction_job_stats_num_input_files -> usize => |stats| size(stats.num_input_files);
    /// Of these, those that were moved and not rewritten.
    rocksdb_compaction_job_stats_num_input_files_trivially_moved -> usize => |stats| size(stats.num_input_files_trivially_moved);
    /// Of these, those of the level that was written to.
    rocksdb_compaction_job_stats_num_input_files_at_output_level -> usize => |stats| size(stats.num_input_files_at_output_level);
    /// Entries written.
    rocksdb_compaction_job_stats_num_output_records -> u64 => |stats| stats.num_output_records;
    /// Tables written.
    rocksdb_compaction_job_stats_num_output_files -> usize => |stats| size(stats.num_output_files);
    /// Blob files written.
    rocksdb_compaction_job_stats_num_output_files_blob -> usize => |stats| size(stats.num_output_files_blob);
    /// True if all tables of the family took part.
    rocksdb_compaction_job_stats_is_full_compaction -> c_uchar => |stats| stats.is_full_compaction.into();
    /// True if a program requested it.
    rocksdb_compaction_job_stats_is_manual_compaction -> c_uchar => |stats| stats.is_manual_compaction.into();
    /// Bytes of the tables read.
    rocksdb_compaction_job_stats_total_input_bytes -> u64 => |stats| stats.total_input_bytes;
    /// Bytes of the tables written.
    rocksdb_compaction_job_stats_total_output_bytes -> u64 => |stats| stats.total_output_bytes;
    /// Bytes of the blob files written.
    rocksdb_compaction_job_stats_total_output_bytes_blob -> u64 => |stats| stats.total_output_bytes_blob;
    /// Entries that were not written because of a newer one of the same key.
    rocksdb_compaction_job_stats_num_records_replaced -> u64 => |stats| stats.num_records_replaced;
    /// Deletions that were not written because nothing was left for them to hide.
    rocksdb_compaction_job_stats_num_expired_deletion_records -> u64 => |stats| stats.num_expired_deletion_records;
    /// Single deletions that were not written because nothing was there for them to meet.
    rocksdb_compaction_job_stats_num_single_del_fallthru -> u64 => |stats| stats.num_single_del_fallthru;
    /// Single deletions that met something else than a value: another deletion or a merge operand.
    rocksdb_compaction_job_stats_num_single_del_mismatch -> u64 => |stats| stats.num_single_del_mismatch;
    /// Nanoseconds in calls that write to files, if `report_bg_io_stats` asks for them.
    rocksdb_compaction_job_stats_file_write_nanos -> u64 => |stats| stats.file_times.write;
    /// The same of calls that ask for a range to be stored.
    rocksdb_compaction_job_stats_file_range_sync_nanos -> u64 => |stats| stats.file_times.range_sync;
    /// The same of calls that wait until a file is stored.
    rocksdb_compaction_job_stats_file_fsync_nanos -> u64 => |stats| stats.file_times.fsync;
    /// The same of calls that allocate room ahead.
    rocksdb_compaction_job_stats_file_prepare_write_nanos -> u64 => |stats| stats.file_times.prepare_write;
    /// Entries that were not keys: none, such a job fails.
    rocksdb_compaction_job_stats_num_corrupt_keys -> u64 => |stats| stats.num_corrupt_keys;
}

absent! {
    /// True if another process did it: never.
    rocksdb_compaction_job_stats_is_remote_compaction -> c_uchar;
    /// Tables that were left unread because a range tombstone covered them: none, all are read.
    rocksdb_compaction_job_stats_num_filtered_input_files -> usize;
    /// Of these, those of the level that was written to.
    rocksdb_compaction_job_stats_num_filtered_input_files_at_output_level -> usize;
    /// Bytes of such tables.
    rocksdb_compaction_job_stats_total_skipped_input_bytes -> u64;
}

c_functions! {
    /// The first bytes, at most 8, of the smallest key written.
    fn rocksdb_compaction_job_stats_smallest_output_key_prefix(
        stats: *const rocksdb_compaction_job_stats_t,
        size: *mut usize,
    ) -> *const c_char {
        words(stats_of(stats).smallest_output_key_prefix.as_bytes(), size)
    }
    /// The first bytes, at most 8, of the largest key written.
    fn rocksdb_compaction_job_stats_largest_output_key_prefix(
        stats: *const rocksdb_compaction_job_stats_t,
        size: *mut usize,
    ) -> *const c_char {
        words(stats_of(stats).largest_output_key_prefix.as_bytes(), size)
    }
    /// The id of the family that was flushed.
    fn rocksdb_flushjobinfo_cf_id(info: *const rocksdb_flushjobinfo_t) -> u32 {
        of(info).family_id
    }
    /// The number of the job.
    fn rocksdb_flushjobinfo_job_id(info: *const rocksdb_flushjobinfo_t) -> c_int {
        job(of(info).job_id)
    }
    /// The codec of blob files.
    fn rocksdb_flushjobinfo_blob_compression_type(info: *const rocksdb_flushjobinfo_t) -> u32 {
        blob_codec(of(info).blob_compression)
    }
    /// The id of the family that was compacted.
    fn rocksdb_compactionjobinfo_cf_id(info: *const rocksdb_compactionjobinfo_t) -> u32 {
        of(info).family_id
    }
    /// The number of the job.
    fn rocksdb_compactionjobinfo_job_id(info: *const rocksdb_compactionjobinfo_t) -> c_int {
        job(of(info).job_id)
    }
    /// The codec of blob files.
    fn rocksdb_compactionjobinfo_blob_compression_type(info: *const rocksdb_compactionjobinfo_t) -> u32 {
        blob_codec(of(info).blob_compression)
    }
    /// The id of the family that was compacted.
    fn rocksdb_subcompactionjobinfo_cf_id(info: *const rocksdb_subcompactionjobinfo_t) -> u32 {
        of(info).family_id
    }
    /// The number of the job.
    fn rocksdb_subcompactionjobinfo_job_id(info: *const rocksdb_subcompactionjobinfo_t) -> c_int {
        job(of(info).job_id)
    }
    /// The codec of blob files.
    fn rocksdb_subcompactionjobinfo_blob_compression_type(info: *const rocksdb_subcompactionjobinfo_t) -> u32 {
        blob_codec(of(info).blob_compression)
    }
    /// The codec of the tables written.
    fn rocksdb_compactionjobinfo_compression(info: *const rocksdb_compactionjobinfo_t) -> u32 {
        of(info).compression as u32
    }
    /// Its statistics.
    fn rocksdb_compactionjobinfo_stats(info: *const rocksdb_compactionjobinfo_t) -> *const rocksdb_compaction_job_stats_t {
        shown(&of(info).stats)
    }
    /// The codec of the tables written.
    fn rocksdb_subcompactionjobinfo_compression(info: *const rocksdb_subcompactionjobinfo_t) -> u32 {
        of(info).compression as u32
    }
    /// Its statistics.
    fn rocksdb_subcompactionjobinfo_stats(info: *const rocksdb_subcompactionjobinfo_t) -> *const rocksdb_compaction_job_stats_t {
        shown(&of(info).stats)
    }
    /// Which part of the compaction it is.
    fn rocksdb_subcompactionjobinfo_subcompaction_job_id(info: *const rocksdb_subcompactionjobinfo_t) -> c_int {
        c_int::try_from(of(info).subcompaction_job_id).unwrap_or(c_int::MAX)
    }
    /// The thread that did it.
    fn rocksdb_flushjobinfo_thread_id(info: *const rocksdb_flushjobinfo_t) -> u64 {
        of(info).thread_id
    }
    /// The thread that did it.
    fn rocksdb_compactionjobinfo_thread_id(info: *const rocksdb_compactionjobinfo_t) -> u64 {
        of(info).thread_id
    }
    /// The number of the table that was written.
    fn rocksdb_flushjobinfo_file_number(info: *const rocksdb_flushjobinfo_t) -> u64 {
        of(info).file_number
    }
    /// The oldest blob file that the table refers to; 0 for none.
    fn rocksdb_flushjobinfo_oldest_blob_file_number(info: *const rocksdb_flushjobinfo_t) -> u64 {
        of(info).oldest_blob_file_number
    }
    /// The properties of the table that was written; all empty before it exists.
    fn rocksdb_flushjobinfo_table_properties(info: *const rocksdb_flushjobinfo_t) -> *const rocksdb_table_properties_t {
        of(info).table_properties.as_deref().map_or_else(no_properties, shown)
    }
    /// Tables in level 0 when it began or ended.
    fn rocksdb_compactionjobinfo_num_l0_files(info: *const rocksdb_compactionjobinfo_t) -> c_int {
        c_int::try_from(of(info).num_l0_files).unwrap_or(c_int::MAX)
    }
    /// True if it was cut short.
    fn rocksdb_compactionjobinfo_aborted(info: *const rocksdb_compactionjobinfo_t) -> c_uchar {
        of(info).aborted.into()
    }
    /// How many inputs more is said of.
    fn rocksdb_compactionjobinfo_input_file_infos_count(info: *const rocksdb_compactionjobinfo_t) -> usize {
        of(info).input_file_infos.len()
    }
    /// More of an input.
    fn rocksdb_compactionjobinfo_input_file_info_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
    ) -> *const rocksdb_compaction_file_info_t {
        element(&of(info).input_file_infos, pos)
    }
    /// How many outputs more is said of.
    fn rocksdb_compactionjobinfo_output_file_infos_count(info: *const rocksdb_compactionjobinfo_t) -> usize {
        of(info).output_file_infos.len()
    }
    /// More of an output.
    fn rocksdb_compactionjobinfo_output_file_info_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
    ) -> *const rocksdb_compaction_file_info_t {
        element(&of(info).output_file_infos, pos)
    }
    /// How many blob files were written.
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
    /// How many blob files were written.
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
    /// How many blob files have more garbage than before.
    fn rocksdb_compactionjobinfo_blob_file_garbage_infos_count(info: *const rocksdb_compactionjobinfo_t) -> usize {
        of(info).blob_garbage.len()
    }
    /// A blob file that has more garbage than before.
    fn rocksdb_compactionjobinfo_blob_file_garbage_info_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
    ) -> *const rocksdb_blob_file_garbage_info_t {
        element(&of(info).blob_garbage, pos)
    }
    /// How many tables were written whose properties are known.
    fn rocksdb_compactionjobinfo_table_properties_count(info: *const rocksdb_compactionjobinfo_t) -> usize {
        of(info).table_properties.len()
    }
    /// The path of such a table, in the order of paths; null behind the last.
    fn rocksdb_compactionjobinfo_table_properties_key_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
        key_len: *mut usize,
    ) -> *const c_char {
        words_at(tables(of(info)).get(pos).map(|table| table.0.as_bytes()), key_len)
    }
    /// Its properties; null behind the last.
    fn rocksdb_compactionjobinfo_table_properties_value_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
    ) -> *const rocksdb_table_properties_t {
        tables(of(info)).get(pos).map_or(std::ptr::null(), |table| shown(&*table.1))
    }
    /// The properties of the table with a path; null for one that was not written.
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
    /// A report of nothing, which `rocksdb_compact_files` fills.
    fn rocksdb_compactionjobinfo_create() -> *mut rocksdb_compactionjobinfo_t {
        create(CompactionJobInfo::default())
    }
    /// The file as it was given.
    fn rocksdb_externalfileingestioninfo_external_file_path(
        info: *const rocksdb_externalfileingestioninfo_t,
        size: *mut usize,
    ) -> *const c_char {
        words(of(info).external_file_path.as_bytes(), size)
    }
    /// The sequence number of all its entries; 0 if they keep their own.
    fn rocksdb_externalfileingestioninfo_global_seqno(info: *const rocksdb_externalfileingestioninfo_t) -> u64 {
        of(info).global_seqno.0
    }
    /// The properties of the table.
    fn rocksdb_externalfileingestioninfo_table_properties(
        info: *const rocksdb_externalfileingestioninfo_t,
    ) -> *const rocksdb_table_properties_t {
        shown(&*of(info).table_properties)
    }
    /// The newest timestamp in the memtable; empty where it is not known.
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
    /// The oldest blob file that it refers to; 0 for none.
    fn rocksdb_compaction_file_info_oldest_blob_file_number(info: *const rocksdb_compaction_file_info_t) -> u64 {
        seen::<CompactionFileInfo, _>(info).oldest_blob_file_number
    }
    /// Where a blob file lies.
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
    /// Its values.
    fn rocksdb_blob_file_addition_info_total_blob_count(info: *const rocksdb_blob_file_addition_info_t) -> u64 {
        seen::<BlobFileAddition, _>(info).total_blob_count
    }
    /// Their bytes.
    fn rocksdb_blob_file_addition_info_total_blob_bytes(info: *const rocksdb_blob_file_addition_info_t) -> u64 {
        seen::<BlobFileAddition, _>(info).total_blob_bytes
    }
    /// Where a blob file lies.
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
    /// How many more of its values are garbage.
    fn rocksdb_blob_file_garbage_info_garbage_blob_count(info: *const rocksdb_blob_file_garbage_info_t) -> u64 {
        seen::<BlobFileGarbage, _>(info).garbage_blob_count
    }
    /// Their bytes.
    fn rocksdb_blob_file_garbage_info_garbage_blob_bytes(info: *const rocksdb_blob_file_garbage_info_t) -> u64 {
        seen::<BlobFileGarbage, _>(info).garbage_blob_bytes
    }
}

/// The properties of a table that does not exist yet.
fn no_properties() -> *const rocksdb_table_properties_t {
    static NONE: std::sync::LazyLock<Properties> = std::sync::LazyLock::new(Properties::default);
    shown(&*NONE)
}
