//! Reports of one job: calls of listeners, events in the info log, and statistics of its family's work.
//!
//! The caller of a report must not hold a lock.

mod compaction;
mod flush;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use cairn_format::table::properties::Properties;
use cairn_jobs::{JobEvents, JobStats};
use cairn_memory::{CacheCharge, ChargePolicy, MemoryUse};
use cairn_observe::callback::{self, Within};
use cairn_observe::event::{Event, hex, quoted};
use cairn_observe::listener::{
    BlobFileAddition, BlobFileCreationInfo, CompactionJobStats, FileCreationBriefInfo,
    SubcompactionJobInfo, TableFileCreationInfo,
};
use cairn_observe::thread_number;
use cairn_platform::sync::Mutex;
use cairn_types::{Error, FileNumber, Result, TableFileCreationReason};
use cairn_version::{BlobFileMeta, FileMeta, Version};

use crate::catalog::family::FamilyState;
use crate::telemetry::Telemetry;
use compaction::note_counts;

/// The number of files in each level.
pub(crate) fn lsm_state(version: &Version) -> Vec<u64> {
    version
        .levels()
        .iter()
        .map(|level| level.len() as u64)
        .collect()
}

/// Adds the numbers of the oldest and newest blob file of `version`, if it has any.
fn note_blob_files(event: &mut Event, version: &Version) {
    let files = version.blob_files();
    if let Some(((first, _), (last, _))) = files.first_key_value().zip(files.last_key_value()) {
        event
            .number("blob_file_head", first.0)
            .number("blob_file_tail", last.0);
    }
}

/// Reports one job.
pub(crate) struct Watch {
    telemetry: Arc<Telemetry>,
    family_id: u32,
    family: String,
    pub(crate) job: u64,
    reason: TableFileCreationReason,
    /// Fields shared by all subcompactions.
    part: SubcompactionJobInfo,
    /// Start times of the subcompactions, in nanoseconds.
    began: Mutex<BTreeMap<usize, u64>>,
    /// Blob files written.
    blobs: Mutex<Vec<BlobFileAddition>>,
    /// Tables written, if they are reported when the job ends.
    created: Option<Mutex<CreatedTables>>,
    /// The charges of the family's memory.
    charge: ChargePolicy,
}

/// Tables that a job has written.
#[derive(Default)]
struct CreatedTables {
    tables: Vec<CreatedTable>,
    charge: Option<CacheCharge>,
    bytes: usize,
}

/// A table that a job has written.
struct CreatedTable {
    number: FileNumber,
    path: String,
    properties: Arc<Properties>,
}

impl CreatedTable {
    /// Returns the memory of this record, in bytes.
    fn memory_usage(&self) -> usize {
        size_of::<CreatedTable>()
            + self.path.capacity()
            + size_of::<Properties>()
            + self.properties.memory_usage()
    }
}

impl Watch {
    /// Reports a new job of `family`, which writes tables for `reason`.
    pub(crate) fn new(
        telemetry: &Arc<Telemetry>,
        family: &FamilyState,
        reason: TableFileCreationReason,
    ) -> Watch {
        Watch {
            telemetry: telemetry.clone(),
            family_id: family.id(),
            family: family.name().to_owned(),
            job: telemetry.new_job(),
            reason,
            part: SubcompactionJobInfo::default(),
            began: Mutex::default(),
            // A compaction may write thousands of tables, whose properties take more memory than their metadata.
            created: telemetry.has_listeners().then(Mutex::default),
            charge: family.tables().charge.clone(),
            blobs: Mutex::default(),
        }
    }

    /// Keeps the paths and properties of the tables that the job writes, even without listeners.
    #[must_use]
    pub(crate) fn keeping_tables(mut self) -> Watch {
        self.created.get_or_insert_default();
        self
    }

    /// Records a table for the report at the end of the job, if there is one.
    fn keep(&self, number: FileNumber, path: &Path, properties: &Arc<Properties>) {
        let Some(created) = &self.created else {
            return;
        };
        let table = CreatedTable {
            number,
            path: path.to_string_lossy().into_owned(),
            properties: properties.clone(),
        };
        let mut created = created.lock();
        created.bytes += table.memory_usage();
        created.tables.push(table);
        let bytes = created.bytes;
        match &mut created.charge {
            Some(charge) => charge.set(bytes),
            none => *none = self.charge.charge(MemoryUse::Job, bytes),
        }
    }

    /// Returns the reason for which the job writes tables.
    pub(crate) fn reason(&self) -> TableFileCreationReason {
        self.reason
    }

    fn brief(&self, path: &Path) -> FileCreationBriefInfo {
        FileCreationBriefInfo {
            db_name: self.telemetry.context().dir.to_string_lossy().into_owned(),
            family_name: self.family.clone(),
            file_path: path.to_string_lossy().into_owned(),
            job_id: self.job,
            reason: Some(self.reason),
        }
    }
}

impl JobEvents for Watch {
    fn within_job(&self, work: &mut dyn FnMut()) {
        callback::within(&self.telemetry.context().info, Within::Job, work);
    }

    fn table_started(&self, _number: FileNumber, path: &Path) {
        if self.telemetry.has_listeners() {
            let info = self.brief(path);
            self.telemetry
                .notify(|listener| listener.on_table_file_creation_started(&info));
        }
    }

    fn table_received(&self, path: &Path, file: &FileMeta, properties: &Arc<Properties>) {
        self.keep(file.number, path, properties);
    }

    fn table_created(&self, path: &Path, file: &FileMeta, properties: &Arc<Properties>) {
        let (number, size) = (file.number, file.size);
        self.keep(number, path, properties);
        let mut event = self.telemetry.event(self.job, "table_file_creation");
        event
            .text("cf_name", &self.family)
            .number("file_number", number.0)
            .number("file_size", size)
            .text("file_checksum", &hex(&file.checksum.value))
            .text("file_checksum_func_name", &file.checksum.function)
            .number("smallest_seqno", file.seqs.smallest.0)
            .number("largest_seqno", file.seqs.largest.0)
            .group("table_properties", &logged_properties(properties));
        if let Some(blob) = file.oldest_blob {
            event.number("oldest_blob_file_number", blob.0);
        }
        event.text("status", "OK");
        self.telemetry.log_event(&event);
        if !self.telemetry.has_listeners() {
            return;
        }
        let info = TableFileCreationInfo {
            brief: self.brief(path),
            file_size: size,
            table_properties: properties.clone(),
            file_checksum: file.checksum.value.clone(),
            file_checksum_func_name: file.checksum.function.to_string(),
            ..TableFileCreationInfo::default()
        };
        self.telemetry
            .notify(|listener| listener.on_table_file_created(&info));
    }

    fn blob_started(&self, _number: FileNumber, path: &Path) {
        if self.telemetry.has_listeners() {
            let info = self.brief(path);
            self.telemetry
                .notify(|listener| listener.on_blob_file_creation_started(&info));
        }
    }

    fn blob_created(&self, path: &Path, file: &BlobFileMeta) {
        let brief = self.brief(path);
        self.blobs.lock().push(BlobFileAddition {
            path: brief.file_path.clone(),
            number: file.number.0,
            total_blob_count: file.total_count,
            total_blob_bytes: file.total_bytes,
        });
        let mut event = self.telemetry.event(self.job, "blob_file_creation");
        event
            .text("cf_name", &self.family)
            .number("file_number", file.number.0)
            .number("total_blob_count", file.total_count)
            .number("total_blob_bytes", file.total_bytes)
            .text("file_checksum", &hex(&file.checksum_value))
            .text("file_checksum_func_name", &file.checksum_method)
            .text("status", "OK");
        self.telemetry.log_event(&event);
        let info = BlobFileCreationInfo {
            brief,
            total_blob_count: file.total_count,
            total_blob_bytes: file.total_bytes,
            status: None,
        };
        self.telemetry
            .notify(|listener| listener.on_blob_file_created(&info));
    }

    fn subcompaction_began(&self, part: usize) {
        let now = self.telemetry.context().world.clock.monotonic_nanos();
        self.began.lock().insert(part, now);
        if self.telemetry.has_listeners() {
            let info = SubcompactionJobInfo {
                thread_id: thread_number(),
                subcompaction_job_id: part,
                ..self.part.clone()
            };
            self.telemetry
                .notify(|listener| listener.on_subcompaction_begin(&info));
        }
    }

    fn subcompaction_completed(&self, part: usize, result: Result<JobStats, &Error>) {
        if !self.telemetry.has_listeners() {
            return;
        }
        let now = self.telemetry.context().world.clock.monotonic_nanos();
        let began = self.began.lock().get(&part).copied().unwrap_or(now);
        let counts = result.as_ref().copied().unwrap_or_default();
        let mut stats = CompactionJobStats {
            elapsed_micros: now.saturating_sub(began) / 1000,
            num_output_files: counts.output_files,
            total_output_bytes: counts.output_bytes,
            ..CompactionJobStats::default()
        };
        note_counts(&mut stats, &counts);
        let info = SubcompactionJobInfo {
            thread_id: thread_number(),
            subcompaction_job_id: part,
            status: result.err().cloned(),
            stats,
            ..self.part.clone()
        };
        self.telemetry
            .notify(|listener| listener.on_subcompaction_completed(&info));
    }
}

/// Returns the properties of a table for the info log. None of them contains a user key.
fn logged_properties(p: &Properties) -> Vec<(&'static str, String)> {
    let average = |bytes: u64| bytes.checked_div(p.num_entries).unwrap_or(0);
    let sizes = [
        ("data_size", p.data_size),
        ("index_size", p.index_size),
        ("index_partitions", p.index_partitions),
        ("top_level_index_size", p.top_level_index_size),
        ("index_key_is_user_key", p.index_key_is_user_key),
        (
            "index_value_is_delta_encoded",
            p.index_value_is_delta_encoded,
        ),
        ("filter_size", p.filter_size),
        ("raw_key_size", p.raw_key_size),
        ("raw_average_key_size", average(p.raw_key_size)),
        ("raw_value_size", p.raw_value_size),
        ("raw_average_value_size", average(p.raw_value_size)),
        ("num_data_blocks", p.num_data_blocks),
        ("num_entries", p.num_entries),
        ("num_filter_entries", p.num_filter_entries),
        ("num_deletions", p.num_deletions),
        ("num_merge_operands", p.num_merge_operands),
        ("num_range_deletions", p.num_range_deletions),
        ("format_version", p.format_version),
        ("fixed_key_len", p.fixed_key_len),
    ];
    let number = |(name, value): (&'static str, u64)| (name, value.to_string());
    let text = |name, value: &str| (name, quoted(value));
    let mut all: Vec<_> = sizes.map(number).into();
    all.extend([
        text("filter_policy", &p.filter_policy),
        text("column_family_name", &p.column_family_name),
        number(("column_family_id", p.column_family_id)),
        text("comparator", &p.comparator),
        number((
            "user_defined_timestamps_persisted",
            u64::from(!p.timestamps_stripped),
        )),
        number(("key_largest_seqno", p.key_largest_seqno)),
        number(("key_smallest_seqno", p.key_smallest_seqno)),
        text("merge_operator", &p.merge_operator),
        text("prefix_extractor_name", &p.prefix_extractor),
        text("property_collectors", &p.property_collectors),
        text("compression", &p.compression),
        text("compression_options", &p.compression_options),
        number(("creation_time", p.creation_time)),
        number(("oldest_key_time", p.oldest_key_time)),
        number(("newest_key_time", p.newest_key_time)),
        number(("file_creation_time", p.file_creation_time)),
        number((
            "slow_compression_estimated_data_size",
            p.slow_compression_estimate,
        )),
        number((
            "fast_compression_estimated_data_size",
            p.fast_compression_estimate,
        )),
        text("db_id", &p.db_id),
        text("db_session_id", &p.db_session_id),
        number(("orig_file_number", p.original_file_number)),
    ]);
    all
}
