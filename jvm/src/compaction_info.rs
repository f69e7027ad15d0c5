//! `CompactionJobInfo` and `CompactionJobStats`.

use cairn_observe::CompactionReason;
use cairn_observe::listener::{CompactionJobInfo, CompactionJobStats};
use jni_sys::jlong;

use crate::env::{ByteArray, Env, Object, ObjectArray, Outcome};
use crate::files::table_properties;
use crate::handle::{Mut, New, Ref};

pub fn new_info(_env: Env) -> New<CompactionJobInfo> {
    New(CompactionJobInfo::default())
}

pub fn destroy_info(env: Env, handle: jlong) -> Outcome<()> {
    crate::handle::destroy::<CompactionJobInfo>(env, handle)
}

pub fn family_name(env: Env, info: Ref<CompactionJobInfo>) -> Outcome<ByteArray> {
    env.byte_array(info.family_name.as_bytes())
}

pub fn status(env: Env, info: Ref<CompactionJobInfo>) -> Outcome<Object> {
    env.status(info.status.as_ref())
}

pub fn input_files(env: Env, info: Ref<CompactionJobInfo>) -> Outcome<ObjectArray> {
    env.strings(&info.input_files)
}

pub fn output_files(env: Env, info: Ref<CompactionJobInfo>) -> Outcome<ObjectArray> {
    env.strings(&info.output_files)
}

pub fn properties(env: Env, info: Ref<CompactionJobInfo>) -> Outcome<Object> {
    env.map(info.table_properties.iter().map(|(path, properties)| {
        Ok((
            Object(env.string(path)?.0),
            table_properties(env, properties)?,
        ))
    }))
}

/// The number of the reason in Java, which has another order from the tenth on.
pub fn reason(_env: Env, info: Ref<CompactionJobInfo>) -> i8 {
    let number = info.compaction_reason.number();
    match info.compaction_reason {
        CompactionReason::FilesMarkedForCompaction => 0x10,
        // Java has no such reason.
        CompactionReason::ReadTriggered => 0,
        _ if (11..=16).contains(&number) => number as i8 - 1,
        _ => number as i8,
    }
}

pub fn compression(_env: Env, info: Ref<CompactionJobInfo>) -> i8 {
    info.compression as i8
}

/// A copy of the statistics, which Java owns.
pub fn stats(_env: Env, info: Ref<CompactionJobInfo>) -> New<CompactionJobStats> {
    New(info.stats)
}

pub fn new_stats(_env: Env) -> New<CompactionJobStats> {
    New(CompactionJobStats::default())
}

pub fn destroy_stats(env: Env, handle: jlong) -> Outcome<()> {
    crate::handle::destroy::<CompactionJobStats>(env, handle)
}

pub fn reset(_env: Env, stats: Mut<CompactionJobStats>) {
    *stats.0 = CompactionJobStats::default();
}

/// Adds the numbers of `other`. Prefixes of keys and the kinds of compactions stay.
pub fn add(_env: Env, stats: Mut<CompactionJobStats>, other: Ref<CompactionJobStats>) {
    let (to, from) = (stats.0, *other);
    macro_rules! sum {
        ($($($field:ident).+),+) => { $(to.$($field).+ += from.$($field).+;)+ };
    }
    sum!(
        elapsed_micros,
        cpu_micros,
        num_input_files,
        num_input_files_at_output_level,
        num_input_files_trivially_moved,
        num_input_records,
        num_input_deletion_records,
        total_input_raw_key_bytes,
        total_input_raw_value_bytes,
        num_blobs_read,
        total_blob_bytes_read,
        total_input_bytes,
        num_output_files,
        num_output_records,
        total_output_bytes,
        num_output_files_blob,
        total_output_bytes_blob,
        num_records_replaced,
        num_expired_deletion_records,
        num_single_del_fallthru,
        num_single_del_mismatch,
        num_corrupt_keys,
        file_times.write,
        file_times.range_sync,
        file_times.fsync,
        file_times.prepare_write
    );
    to.input_records_inexact |= from.input_records_inexact;
    to.is_remote_compaction |= from.is_remote_compaction;
}

pub fn smallest_prefix(env: Env, stats: Ref<CompactionJobStats>) -> Outcome<ByteArray> {
    env.byte_array(stats.smallest_output_key_prefix.as_bytes())
}

pub fn largest_prefix(env: Env, stats: Ref<CompactionJobStats>) -> Outcome<ByteArray> {
    env.byte_array(stats.largest_output_key_prefix.as_bytes())
}
