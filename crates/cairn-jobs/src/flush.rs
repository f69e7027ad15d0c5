//! Flush: writes memtables to one level-0 table.

use cairn_format::range_del::Fragments;
use cairn_memtable::Memtable;
use cairn_observe::Activity;
use cairn_observe::threads::{self, Stage};
use cairn_options::{CompactionStyle, Compression};
use cairn_platform::sync::{Arc, Mutex};
use cairn_types::{Error, FilterContext, Result, TableFileCreationReason};
use cairn_version::{BlobFileMeta, BlobGarbage, TreeEdit, Version};

use crate::blob_garbage::BlobGarbageMeter;
use crate::blobs::BlobReader;
use crate::compaction_iterator::{CompactionIterator, Rules};
use crate::context::JobContext;
use crate::filter::Filter;
use crate::history::{TimestampRules, raise, successor};
use crate::lower_levels::LowerLevels;
use crate::output::Outputs;
use crate::output_params::{BlobPlan, OutputParams, warm};
use crate::output_splitter::OutputSplitter;
use crate::pick::Output;
use crate::preserved_times::PreservedTimes;
use crate::range_tombstones;
use crate::sorted_runs::{Merge, Run};
use crate::stats::{JobOutput, JobStats};
use crate::ttl;

/// A flush to run.
pub struct FlushJob {
    /// The family, database and readers that the job runs for.
    pub context: Arc<JobContext>,
    /// The immutable memtables, in any order.
    pub memtables: Vec<Arc<Memtable>>,
    /// The epoch number of the new table, larger than that of every file of the family.
    pub epoch: u64,
    /// Write time of the oldest entry, in seconds since 1970; 0 for the current time.
    pub oldest_time: u64,
    /// The current version, used to estimate the data covered by range tombstones.
    pub version: Option<Arc<Version>>,
    /// The reason reported to listeners: a flush or recovery.
    pub reason: TableFileCreationReason,
    /// Blob files that hold values of the memtables, written before the flush and durable. Values that the memtables have
    /// in other blob files are relocated.
    pub direct: Vec<Arc<BlobFileMeta>>,
}

/// Writes the memtables of `job` to one level-0 table and returns the edit that adds it, or an empty
/// edit if no entry is left to write. Of the blob files in [`FlushJob::direct`], the edit adds those that the table refers
/// to; all other values in them are garbage. The table becomes visible, and the memtables may be dropped, only
/// when the caller installs the edit.
///
/// # Errors
///
/// `IoError`; `Corruption` if the merge operator fails or if a memtable yields fewer entries than
/// it counted; `Aborted`. The table is then removed.
pub fn run(job: &FlushJob) -> Result<JobOutput> {
    let params = params(job);
    let activity = match job.reason {
        TableFileCreationReason::Recovery => Activity::DbOpen,
        _ => Activity::Flush,
    };
    let _stage = threads::stage(Stage::FlushWriteL0);
    let done = activity.run(|| write(job, &params)).and_then(|done| {
        params.sync_names()?;
        Ok(done)
    });
    if done.is_err() {
        params.remove_all();
    }
    done
}

fn params(job: &FlushJob) -> OutputParams {
    let options = &job.context.family.options;
    let now = job.context.world.clock.wall_seconds();
    let newest = job.memtables.iter().map(|table| table.largest_seq()).max();
    let newest = newest.unwrap_or_default();
    let oldest_time = if job.oldest_time == 0 {
        now
    } else {
        job.oldest_time.min(now)
    };
    OutputParams {
        context: job.context.clone(),
        level: 0,
        reason: job.reason,
        path_id: 0,
        compression: compression(options),
        compression_options: options.compression_opts.clone(),
        temperature: options.temperature_at(0),
        target_bytes: u64::MAX,
        epoch: job.epoch,
        oldest_time,
        newest_time: match options.compaction_style {
            CompactionStyle::Fifo => now,
            _ => 0,
        },
        now,
        unhindered: job
            .context
            .snapshots
            .iter()
            .all(|&snapshot| snapshot >= newest),
        bottommost: false,
        version: job.version.clone(),
        warm: warm(options, job.reason),
        blobs: BlobPlan::new(options, 0, job.reason),
        kept_blobs: Some(job.direct.iter().map(|blob| blob.number).collect()),
        created: Mutex::new(Vec::new()),
        times: PreservedTimes::of_flush(&job.context, now),
    }
}

fn compression(options: &cairn_options::FamilyOptions) -> Compression {
    options
        .compression_per_level
        .first()
        .copied()
        .unwrap_or(options.compression)
}

/// Writes the table of a flush and its blob files.
fn write(job: &FlushJob, params: &OutputParams) -> Result<JobOutput> {
    let context = &job.context;
    assert!(!job.memtables.is_empty(), "a flush has a memtable");
    assert!(context.snapshots.is_sorted(), "snapshots ascend");
    let history = TimestampRules::of_flush(context);
    for memtable in &job.memtables {
        memtable.verify_range_tombstones()?;
    }
    let tombstones = Arc::new(Fragments::build(
        &context.family.order,
        job.memtables
            .iter()
            .flat_map(|table| table.raw_range_tombstones()),
    ));
    let written = range_tombstones::written(
        &context.family.order,
        &tombstones,
        &context.snapshots,
        false,
        &LowerLevels::anything(),
        &history,
    );
    let newest_deletion = newest_range_deletion(job, &history);
    let rules = rules_of(job, params, tombstones, history)?;
    let mut merge = Merge::new(
        context.family.order.clone(),
        job.memtables.iter().map(Memtable::walk).collect(),
    );
    merge.start(None);
    let mut entries = CompactionIterator::new(merge, rules);
    entries.garbage.has_blobs = !job.direct.is_empty();
    entries.blobs = Some(BlobReader::of(params));
    let mut outputs = Outputs::new(params, written, uncut(job), None);
    while let Some(entry) = entries.next(None)? {
        outputs.add(entry)?;
    }
    let read = entries.input().passed();
    let expected = job
        .memtables
        .iter()
        .map(|table| table.entries() - table.range_deletions());
    if !entries.jumped() {
        check_count(context, read, expected.sum::<usize>() as u64)?;
    }
    let mut newest = entries.newest_timestamp().to_vec();
    if let Some(timestamp) = newest_deletion {
        raise(&context.family.order, &mut newest, &timestamp);
    }
    let written = outputs.finish(None)?;
    assert!(written.files.len() <= 1, "a flush writes at most one table");
    entries.garbage.merge(&written.garbage);
    let (direct, blob_garbage) = referenced(&job.direct, &entries.garbage);
    let mut added_blobs: Vec<_> = direct.into_iter().chain(written.blobs).collect();
    added_blobs.sort_by_key(|blob| blob.number);
    Ok(JobOutput {
        edit: TreeEdit {
            added: written.files.into_iter().map(|file| (0, file)).collect(),
            added_blobs,
            blob_garbage,
            history_low: successor(&newest),
            ..TreeEdit::default()
        },
        stats: JobStats {
            input_bytes: job
                .memtables
                .iter()
                .map(|table| table.data_bytes() as u64)
                .sum(),
            input_entries: read,
            inexact: entries.jumped(),
            blobs_read: entries.blobs_read().and(&written.stats.blobs_read),
            dropped: entries.dropped,
            ..written.stats
        },
    })
}

/// Returns the rules of the compaction iterator of a flush: nothing is known about older entries in the tree.
fn rules_of(
    job: &FlushJob,
    params: &OutputParams,
    tombstones: Arc<Fragments>,
    history: TimestampRules,
) -> Result<Rules> {
    let context = &job.context;
    Ok(Rules {
        order: context.family.order.clone(),
        snapshots: context.snapshots.clone(),
        merge_operator: ttl::merge_operator(&context.family.options, &context.world.clock),
        dated: context.family.options.value_ttl.is_some(),
        tombstones,
        bottommost: false,
        below: LowerLevels::anything(),
        strict_single_deletions: context.database.options.enforce_single_del_contracts,
        zero_through: params.times.zero_through,
        filter: Filter::of_job(
            context,
            &FilterContext {
                is_full_compaction: false,
                is_manual_compaction: false,
                input_start_level: None,
                family_id: context.family.id,
                reason: job.reason,
            },
        )?,
        cancel: context.cancel.clone(),
        meter: context.meter.clone(),
        history,
    })
}

/// Returns the blob files of `direct` with references that have left, according to `references`, and their garbage: every
/// other value, also those of failed writes, and of writes whose entries are in a later memtable.
fn referenced(
    direct: &[Arc<BlobFileMeta>],
    references: &BlobGarbageMeter,
) -> (Vec<Arc<BlobFileMeta>>, Vec<BlobGarbage>) {
    let (mut added, mut garbage) = (Vec::new(), Vec::new());
    for blob in direct {
        let (count, bytes) = references.left(blob.number);
        debug_assert!(
            count <= blob.total_count && bytes <= blob.total_bytes,
            "a value of blob file {} has one entry",
            blob.number
        );
        if count == 0 {
            continue;
        }
        added.push(blob.clone());
        if count < blob.total_count {
            garbage.push(BlobGarbage {
                number: blob.number,
                count: blob.total_count - count,
                bytes: blob.total_bytes.saturating_sub(bytes),
            });
        }
    }
    (added, garbage)
}

/// The newest timestamp of the range deletions of `job`, if timestamps are stripped.
fn newest_range_deletion(job: &FlushJob, history: &TimestampRules) -> Option<Vec<u8>> {
    if !history.strips() {
        return None;
    }
    let mut newest = Vec::new();
    let tables = job.memtables.iter();
    for tombstone in tables.flat_map(|table| table.raw_range_tombstones()) {
        raise(&job.context.family.order, &mut newest, &tombstone.ts);
    }
    (!newest.is_empty()).then_some(newest)
}

/// A flush writes one table of any size.
fn uncut(job: &FlushJob) -> OutputSplitter {
    let output = Output {
        level: 0,
        path_id: 0,
        compression: Compression::None,
        compression_options: job.context.family.options.compression_opts.clone(),
        temperature: None,
        target_bytes: u64::MAX,
        max_bytes: u64::MAX,
        max_compaction_bytes: u64::MAX,
    };
    OutputSplitter::new(job.context.family.order.clone(), &output, &[])
}

/// Fails if a memtable yielded a different number of entries than it counted, which means that
/// entries would be lost.
fn check_count(context: &JobContext, read: u64, expected: u64) -> Result<()> {
    match read == expected || !context.database.options.flush_verify_memtable_count {
        true => Ok(()),
        false => Err(Error::corruption(format!(
            "entries of memtables of column family {:?}: expected {expected}, found {read}",
            context.family.name
        ))),
    }
}
