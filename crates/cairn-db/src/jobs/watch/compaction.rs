//! Reports of compactions.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use cairn_format::table::properties::Properties;
use cairn_jobs::JobStats;
use cairn_jobs::pick::{Pick, Reason};
use cairn_observe::listener::{
    BlobFileGarbage, CompactionFileInfo, CompactionJobInfo, CompactionJobStats, KeyPrefix,
    SubcompactionJobInfo,
};
use cairn_observe::statistics::Ticker;
use cairn_observe::{CompactionReason, thread_number};
use cairn_types::{Error, FileNumber, Result, SequenceNumber, TableFileCreationReason};
use cairn_version::{FileMeta, TreeEdit, Version};

use super::{Watch, lsm_state, note_blob_files};
use crate::catalog::family::FamilyState;
use crate::report::family_stats::CompactionStats;
use crate::telemetry::Telemetry;

/// The reason of a compaction in RocksDB's terms.
fn compaction_reason(reason: Reason) -> CompactionReason {
    match reason {
        Reason::LevelL0FilesNum => CompactionReason::LevelL0FilesNum,
        Reason::LevelMaxLevelSize => CompactionReason::LevelMaxLevelSize,
        Reason::FilesMarked => CompactionReason::FilesMarkedForCompaction,
        Reason::BottommostFiles => CompactionReason::BottommostFiles,
        Reason::Ttl => CompactionReason::Ttl,
        Reason::Periodic => CompactionReason::PeriodicCompaction,
        Reason::ForcedBlobGc => CompactionReason::ForcedBlobGc,
        Reason::ReadTriggered => CompactionReason::ReadTriggered,
        Reason::Manual => CompactionReason::ManualCompaction,
        Reason::UniversalSizeAmplification => CompactionReason::UniversalSizeAmplification,
        Reason::UniversalSizeRatio => CompactionReason::UniversalSizeRatio,
        Reason::UniversalSortedRunNum => CompactionReason::UniversalSortedRunNum,
        Reason::FifoMaxSize => CompactionReason::FifoMaxSize,
        Reason::FifoReduceNumFiles => CompactionReason::FifoReduceNumFiles,
        Reason::FifoTtl => CompactionReason::FifoTtl,
        Reason::ChangeTemperature => CompactionReason::ChangeTemperature,
        Reason::RefitLevel => CompactionReason::RefitLevel,
    }
}

impl Watch {
    /// Reports the start of a compaction of `version`. Returns the report, for [`Watch::compaction_ended`].
    pub(crate) fn compaction_begins(
        &mut self,
        family: &FamilyState,
        pick: &Pick,
        version: &Version,
        oldest_snapshot: Option<SequenceNumber>,
    ) -> CompactionJobInfo {
        let reason = compaction_reason(pick.reason);
        let reported: Vec<(usize, &Arc<FileMeta>)> = match self.created {
            Some(_) => pick.files().collect(),
            None => Vec::new(),
        };
        let info = CompactionJobInfo {
            db_name: self.telemetry.context().dir.to_string_lossy().into_owned(),
            session_id: self.telemetry.context().session_id.clone(),
            family_id: self.family_id,
            family_name: self.family.clone(),
            thread_id: thread_number(),
            job_id: self.job,
            num_l0_files: version.level(0).len(),
            base_input_level: pick.start_level(),
            output_level: pick.output.level,
            input_files: reported
                .iter()
                .map(|(_, file)| path_of(family, file))
                .collect(),
            input_file_infos: reported
                .iter()
                .map(|(level, file)| file_info(*level, file))
                .collect(),
            table_properties: match self.telemetry.has_listeners() {
                true => self.properties_of_inputs(pick, family),
                false => Vec::new(),
            },
            compaction_reason: reason,
            compression: pick.output.compression,
            stats: CompactionJobStats {
                num_input_files: pick.files().count() as u64,
                total_input_bytes: pick.input_bytes(),
                is_full_compaction: pick.files().count() == version.files().count(),
                is_manual_compaction: pick.reason == Reason::Manual,
                num_input_files_trivially_moved: match pick.trivial_move {
                    true => pick.files().count() as u64,
                    false => 0,
                },
                ..CompactionJobStats::default()
            },
            ..CompactionJobInfo::default()
        };
        self.describe_parts(pick);
        if !pick.trivial_move {
            self.log_compaction_start(&info, pick, oldest_snapshot);
        }
        let shown = for_listeners(&info, pick);
        self.telemetry
            .notify(|listener| listener.on_compaction_begin(&shown));
        info
    }

    /// Writes the start of the compaction of `pick` to the LOG.
    fn log_compaction_start(
        &self,
        info: &CompactionJobInfo,
        pick: &Pick,
        oldest_snapshot: Option<SequenceNumber>,
    ) {
        self.telemetry.context().info.info(format_args!(
            "[{}] [JOB {}] Compacting {} files to L{}, score {:.2}",
            self.family, self.job, info.stats.num_input_files, info.output_level, pick.score
        ));
        let mut event = self.telemetry.event(self.job, "compaction_started");
        event
            .text("cf_name", &self.family)
            .text("compaction_reason", info.compaction_reason.text());
        for inputs in &pick.inputs {
            let numbers: Vec<u64> = inputs.files.iter().map(|file| file.number.0).collect();
            event.numbers(&format!("files_L{}", inputs.level), &numbers);
        }
        event
            .number("score", format_args!("{:.6}", pick.score))
            .number("input_data_size", pick.input_bytes());
        match oldest_snapshot {
            Some(seq) => event.number("oldest_snapshot_seqno", seq.0),
            None => event.number("oldest_snapshot_seqno", -1),
        };
        self.telemetry.log_event(&event);
    }

    /// Returns the reports of a compaction that is installed by another process, which reports its start and end.
    pub(crate) fn of_worker(
        telemetry: &Arc<Telemetry>,
        family: &FamilyState,
        reason: TableFileCreationReason,
        pick: &Pick,
    ) -> Watch {
        let mut watch = Watch::new(telemetry, family, reason).keeping_tables();
        watch.describe_parts(pick);
        watch
    }

    /// Sets the fields that all subcompactions share.
    fn describe_parts(&mut self, pick: &Pick) {
        self.part = SubcompactionJobInfo {
            family_id: self.family_id,
            family_name: self.family.clone(),
            job_id: self.job,
            base_input_level: pick.start_level(),
            output_level: pick.output.level,
            compaction_reason: compaction_reason(pick.reason),
            compression: pick.output.compression,
            ..SubcompactionJobInfo::default()
        };
    }

    /// Returns the properties of the tables written, if they are kept.
    pub(crate) fn tables_created(&self) -> BTreeMap<FileNumber, Arc<Properties>> {
        let Some(created) = &self.created else {
            return BTreeMap::new();
        };
        let created = created.lock();
        let tables = created.tables.iter();
        tables
            .map(|table| (table.number, table.properties.clone()))
            .collect()
    }

    /// Reports a compaction that is about to be installed.
    pub(crate) fn compaction_commits(
        &self,
        info: &CompactionJobInfo,
        family: &FamilyState,
        pick: &Pick,
        edit: &TreeEdit,
        stats: JobStats,
    ) {
        if !self.telemetry.has_listeners() {
            return;
        }
        let mut info = info.clone();
        self.note_outcome(&mut info, family, pick, edit, stats);
        info.num_l0_files = family.view().version.level(0).len();
        let info = for_listeners(&info, pick);
        self.telemetry
            .notify(|listener| listener.on_compaction_pre_commit(&info));
    }

    /// Adds the outputs and counts of the compaction to `info`.
    fn note_outcome(
        &self,
        info: &mut CompactionJobInfo,
        family: &FamilyState,
        pick: &Pick,
        edit: &TreeEdit,
        stats: JobStats,
    ) {
        info.stats.num_input_files_at_output_level = files_at_output(pick);
        info.blob_files.clone_from(&self.blobs.lock());
        info.blob_compression = Some(family.options().blob_compression_type);
        note_counts(&mut info.stats, &stats);
        info.stats.num_output_files = edit.added.len() as u64;
        let size = |(_, file): &(usize, Arc<FileMeta>)| file.size;
        let sizes = edit.added.iter().map(size);
        info.stats.total_output_bytes = sizes.fold(0, u64::saturating_add);
        let order = family.order();
        let keys = edit.added.iter();
        let smallest = keys.clone().map(|(_, file)| file.smallest.user_key());
        if let Some(key) = smallest.min_by(|a, b| order.compare(a, b)) {
            info.stats.smallest_output_key_prefix = KeyPrefix::of(key);
        }
        let largest = keys.map(|(_, file)| file.largest.user_key());
        if let Some(key) = largest.max_by(|a, b| order.compare(a, b)) {
            info.stats.largest_output_key_prefix = KeyPrefix::of(key);
        }
        let blobs = &family.view().family.blobs;
        let garbage = edit.blob_garbage.iter();
        info.blob_garbage = garbage
            .map(|garbage| BlobFileGarbage {
                path: blobs.path(garbage.number).to_string_lossy().into_owned(),
                number: garbage.number.0,
                garbage_blob_count: garbage.count,
                garbage_blob_bytes: garbage.bytes,
            })
            .collect();
        let Some(created) = &self.created else {
            return;
        };
        let added = edit.added.iter();
        info.output_files = added
            .clone()
            .map(|(_, file)| path_of(family, file))
            .collect();
        info.output_file_infos = added.map(|(level, file)| file_info(*level, file)).collect();
        let created = created.lock();
        let tables = created.tables.iter();
        info.table_properties
            .extend(tables.map(|table| (table.path.clone(), table.properties.clone())));
    }

    /// Reports a compaction that was installed or failed.
    pub(crate) fn compaction_ended(
        &self,
        mut info: CompactionJobInfo,
        family: &FamilyState,
        pick: &Pick,
        result: Result<(&TreeEdit, JobStats), &Error>,
        micros: u64,
    ) -> CompactionJobInfo {
        info.stats.elapsed_micros = micros;
        match result {
            Err(error) => {
                info.status = Some(error.clone());
                info.stats.num_input_files_at_output_level = files_at_output(pick);
                if self.telemetry.has_listeners() {
                    info.stats.num_input_records = self.entries_of(pick, family);
                }
                info.aborted = error.code() == cairn_types::Code::ShutdownInProgress;
                self.telemetry
                    .tick(Ticker::CompactionAborted, u64::from(info.aborted));
            }
            Ok((edit, stats)) => {
                self.note_outcome(&mut info, family, pick, edit, stats);
                let levels = work_of(&info, pick, edit, stats.output_blob_bytes);
                family.stats.compacted(info.compaction_reason, &levels);
                if !pick.trivial_move {
                    self.telemetry.record_compaction(&info, &stats);
                }
                self.log_compaction(&info, family, pick);
            }
        }
        info.num_l0_files = family.view().version.level(0).len();
        if !info.aborted {
            let shown = for_listeners(&info, pick);
            self.telemetry
                .notify(|listener| listener.on_compaction_completed(&shown));
        }
        info
    }

    /// The properties of the inputs of `pick`, by path. Tables that cannot be opened are left out.
    // Not inlined, because the list of errors that are not reported names it.
    #[inline(never)]
    fn properties_of_inputs(
        &self,
        pick: &Pick,
        family: &FamilyState,
    ) -> Vec<(String, Arc<Properties>)> {
        let io = &self.telemetry.context().io;
        let properties = pick.files().filter_map(|(level, file)| {
            let table = family.tables().open(file, level, io).ok()?;
            Some((path_of(family, file), Arc::new(table.properties().clone())))
        });
        properties.collect()
    }

    /// The number of entries in the inputs of `pick`, without range tombstones. Tables whose properties cannot be read
    /// count as empty.
    fn entries_of(&self, pick: &Pick, family: &FamilyState) -> u64 {
        let properties = self.properties_of_inputs(pick, family);
        let entries = properties.iter().map(|(_, properties)| {
            let ranges = properties.num_range_deletions;
            properties.num_entries.saturating_sub(ranges)
        });
        entries.fold(0, u64::saturating_add)
    }

    fn log_compaction(&self, info: &CompactionJobInfo, family: &FamilyState, pick: &Pick) {
        let stats = &info.stats;
        if pick.trivial_move {
            let mut event = self.telemetry.event(self.job, "trivial_move");
            event
                .number("destination_level", info.output_level)
                .number("files", stats.num_input_files)
                .number("total_files_size", stats.total_input_bytes);
            self.telemetry.log_event(&event);
            return;
        }
        self.telemetry.context().info.info(format_args!(
            "[{}] [JOB {}] Compacted {} files of level {} to level {}: {} bytes in, {} files of {} bytes out",
            self.family,
            self.job,
            stats.num_input_files,
            info.base_input_level,
            info.output_level,
            stats.total_input_bytes,
            stats.num_output_files,
            stats.total_output_bytes,
        ));
        let version = family.view().version.clone();
        let mut event = self.telemetry.event(self.job, "compaction_finished");
        event
            .number("compaction_time_micros", stats.elapsed_micros)
            .number("compaction_time_cpu_micros", stats.cpu_micros)
            .number("output_level", info.output_level)
            .number("num_output_files", stats.num_output_files)
            .number("total_output_size", stats.total_output_bytes);
        if stats.num_output_files_blob > 0 {
            event
                .number("num_blob_output_files", stats.num_output_files_blob)
                .number("total_blob_output_size", stats.total_output_bytes_blob);
        }
        event
            .number("num_input_records", stats.num_input_records)
            .number("num_output_records", stats.num_output_records)
            .number("num_subcompactions", self.began.lock().len().max(1))
            .text("output_compression", info.compression.property_name())
            .number(
                "num_single_delete_mismatches",
                stats.num_single_del_mismatch,
            )
            .number(
                "num_single_delete_fallthrough",
                stats.num_single_del_fallthru,
            )
            .numbers("lsm_state", &lsm_state(&version));
        note_blob_files(&mut event, &version);
        self.telemetry.log_event(&event);
    }
}

fn path_of(family: &FamilyState, file: &FileMeta) -> String {
    family.tables().path(file).to_string_lossy().into_owned()
}

/// The number of inputs in the output level.
fn files_at_output(pick: &Pick) -> u64 {
    let at_output = pick.files().filter(|(at, _)| *at == pick.output.level);
    at_output.count() as u64
}

/// Returns the report for listeners: a trivial move or deletion of files has no counts except those of the
/// files.
fn for_listeners<'a>(info: &'a CompactionJobInfo, pick: &Pick) -> Cow<'a, CompactionJobInfo> {
    if !(pick.trivial_move || pick.drops) {
        return Cow::Borrowed(info);
    }
    Cow::Owned(CompactionJobInfo {
        stats: CompactionJobStats {
            num_input_files: info.stats.num_input_files,
            num_input_files_trivially_moved: info.stats.num_input_files_trivially_moved,
            ..CompactionJobStats::default()
        },
        ..info.clone()
    })
}

fn file_info(level: usize, file: &FileMeta) -> CompactionFileInfo {
    CompactionFileInfo {
        level,
        file_number: file.number.0,
        oldest_blob_file_number: file.oldest_blob.map_or(0, |number| number.0),
    }
}

/// Returns the work of a compaction on each level that it wrote to. It counts as one job of its output level.
fn work_of(
    info: &CompactionJobInfo,
    pick: &Pick,
    edit: &TreeEdit,
    blob_bytes: u64,
) -> Vec<(usize, CompactionStats)> {
    let stats = &info.stats;
    if pick.trivial_move {
        let done = CompactionStats {
            moved: stats.total_input_bytes,
            ..CompactionStats::default()
        };
        return vec![(info.output_level, done)];
    }
    let read = |level: usize| {
        let files = pick.files().filter(|(at, _)| *at == level);
        let sizes = files.map(|(_, file)| file.size);
        sizes.fold(0, u64::saturating_add)
    };
    let skip_level = pick.skip_level.as_ref().map(|skip_level| {
        let level = skip_level.output.level;
        let files = edit.added.iter().filter(|(at, _)| *at == level);
        let done = CompactionStats {
            read_here: read(level),
            written: files
                .map(|(_, file)| file.size)
                .fold(0, u64::saturating_add),
            ..CompactionStats::default()
        };
        (level, done)
    });
    let (read_deeper, written_deeper) =
        skip_level.map_or((0, 0), |(_, done)| (done.read_here, done.written));
    let read_here = read(info.output_level);
    let done = CompactionStats {
        micros: stats.elapsed_micros,
        overlap_micros: overlap_micros(info, read(0)),
        cpu_micros: stats.cpu_micros,
        read_above: stats
            .total_input_bytes
            .saturating_sub(read_here)
            .saturating_sub(read_deeper),
        read_here,
        written: stats.total_output_bytes - written_deeper,
        written_blobs: blob_bytes,
        entries_in: stats.num_input_records,
        entries_dropped: stats
            .num_input_records
            .saturating_sub(stats.num_output_records),
        jobs: 1,
        ..CompactionStats::default()
    };
    let mut levels = vec![(info.output_level, done)];
    levels.extend(skip_level);
    levels
}

/// The part of the elapsed time in which a compaction of level 0 rewrote data of sorted levels; zero for other
/// compactions.
fn overlap_micros(info: &CompactionJobInfo, level_zero_bytes: u64) -> u64 {
    let stats = &info.stats;
    let total = stats.total_input_bytes;
    if info.compaction_reason != CompactionReason::LevelL0FilesNum || total == 0 {
        return 0;
    }
    let overlap = total.saturating_sub(level_zero_bytes);
    let micros = u128::from(stats.elapsed_micros) * u128::from(overlap) / u128::from(total);
    u64::try_from(micros).unwrap_or(stats.elapsed_micros)
}

/// Sets the counts of a compaction or subcompaction.
pub(super) fn note_counts(stats: &mut CompactionJobStats, counts: &JobStats) {
    *stats = CompactionJobStats {
        cpu_micros: counts.cpu_nanos / 1_000,
        num_input_records: counts.input_entries,
        input_records_inexact: counts.inexact,
        num_input_deletion_records: counts.input_raw.deletions,
        total_input_raw_key_bytes: counts.input_raw.key_bytes,
        total_input_raw_value_bytes: counts.input_raw.value_bytes,
        num_blobs_read: counts.blobs_read.count,
        total_blob_bytes_read: counts.blobs_read.bytes,
        num_output_records: counts.output_entries,
        num_output_files_blob: counts.output_blob_files,
        total_output_bytes_blob: counts.output_blob_bytes,
        num_records_replaced: counts.dropped.hidden,
        num_expired_deletion_records: counts.dropped.obsolete,
        num_single_del_fallthru: counts.dropped.single_alone,
        num_single_del_mismatch: counts.dropped.single_mismatched,
        file_times: counts.file_times,
        is_remote_compaction: counts.remote,
        ..*stats
    };
}
