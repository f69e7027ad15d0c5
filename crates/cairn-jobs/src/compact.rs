//! Compaction: a pick becomes tables of its output level.
//!
//! Inputs → merged → [`crate::visible`] → `crate::output` → tables → edit. A compaction may be
//! split into parts by user keys, which run beside one another; the parts share nothing but what
//! cannot change. Some of them may go a level deeper than the rest: they read that level too. The calling thread works on parts as long as there are any, so a compaction
//! ends even if no other thread is free to help.

use std::collections::VecDeque;
use std::ops::Range;

use cairn_format::key::InternalKey;
use cairn_format::range_del::{Fragment, Fragments, Tombstone};
use cairn_observe::Activity;
use cairn_observe::statistics::Histogram;
use cairn_platform::Priority;
use cairn_platform::sync::{Arc, Condvar, Mutex};
use cairn_table::IterOptions;
use cairn_types::{
    Code, Error, FilterContext, PartitionContext, Result, SequenceNumber, SstPartitioner, Subcode,
    TableFileCreationReason, ValueKind,
};
use cairn_version::{BlobFileMeta, FileMeta, TreeEdit, Version};

use crate::below::Below;
use crate::blobs::{BlobPlan, BlobReader};
use crate::context::{Done, JobContext, JobStats};
use crate::cuts::Cuts;
use crate::filter::Filter;
use crate::garbage::Garbage;
use crate::inputs::{InputTable, Tables};
use crate::output::{Kind, Outputs};
use crate::parts;
use crate::pick::{Output, Pick, Reason};
use crate::runs::{Merge, Run};
use crate::stripes;
use crate::visible::{Rules, Visible};

/// A compaction to run.
pub struct CompactJob {
    /// The surroundings.
    pub context: Arc<JobContext>,
    /// What to compact.
    pub pick: Arc<Pick>,
    /// The version that the pick was made from.
    pub version: Arc<Version>,
}

/// Runs the compaction of `job`, and returns the edit that puts its outputs in the place of its
/// inputs. A trivial move reads and writes nothing.
///
/// # Errors
///
/// `IoError`; `Corruption` of an input, by a merge operator, or if an input does not give all the
/// entries that its properties promise; `Aborted`. What was written is then removed.
pub fn run(job: &CompactJob) -> Result<Done> {
    if job.pick.trivial_move || job.pick.drops {
        return Ok(Done {
            edit: job.pick.as_move(),
            stats: JobStats::default(),
        });
    }
    let work = Arc::new(Activity::Compaction.run(|| Work::prepare(job))?);
    let kinds = || work.targets.iter().map(|target| &target.kind);
    let done = work.run().and_then(|done| {
        kinds().try_for_each(Kind::sync_names)?;
        Ok(done)
    });
    if done.is_err() {
        kinds().for_each(Kind::remove_all);
    }
    done
}

/// Everything that the parts of a compaction share.
struct Work {
    context: Arc<JobContext>,
    pick: Arc<Pick>,
    /// The inputs as sorted runs, the newest first.
    runs: Vec<Vec<InputTable>>,
    /// Where outputs go: to the output level and, for the parts of `deeper`, to the level below it.
    targets: Vec<Target>,
    deeper: Range<usize>,
    /// What a factory of filters is told.
    filter_context: FilterContext,
    /// The user keys at which parts are divided.
    borders: Vec<Vec<u8>>,
    /// Parts that nobody works on yet.
    waiting: Mutex<VecDeque<usize>>,
    finished: Mutex<Vec<Option<Result<Part>>>>,
    /// Signals that a part is finished.
    finish: Condvar,
}

/// What is read and written for one level of outputs.
struct Target {
    kind: Kind,
    output: Output,
    /// Files of the first level below it that overlap the inputs.
    grandparents: Vec<Arc<FileMeta>>,
    /// How many of the runs are read.
    runs: usize,
    tombstones: Arc<Fragments>,
    /// Those of `tombstones` that are written.
    written: Fragments,
    below: Below,
}

/// What came of one part.
struct Part {
    level: usize,
    files: Vec<Arc<FileMeta>>,
    blobs: Vec<Arc<BlobFileMeta>>,
    garbage: Garbage,
    stats: JobStats,
    /// Range tombstones that were written.
    range_deletions: u64,
    /// A filter made it jump over entries.
    jumped: bool,
}

impl Work {
    fn prepare(job: &CompactJob) -> Result<Work> {
        let (context, pick) = (&job.context, &job.pick);
        let order = &context.order;
        let runs = open_runs(job)?;
        let mut targets = vec![Target::new(
            job,
            &pick.output,
            &pick.grandparents,
            pick.bottommost,
            &runs[..runs.len() - usize::from(pick.deeper.is_some())],
        )];
        targets.extend(pick.deeper.as_ref().map(|deeper| {
            let (output, grandparents) = (&deeper.output, &deeper.grandparents);
            Target::new(job, output, grandparents, deeper.bottommost, &runs)
        }));
        let mut borders = match parts::may_split(pick, order) {
            true => {
                let began = context.meter.began();
                let borders = parts::borders(&runs, order, pick, &context.io)?;
                context
                    .meter
                    .time_since(began, Histogram::SubcompactionSetupTime);
                borders
            }
            false => Vec::new(),
        };
        let deeper = parts::set_apart(&mut borders, order, pick.deeper.as_ref());
        let count = borders.len() + 1;
        if count > 1 && pick.max_subcompactions > 1 {
            context.meter.update(|update| {
                update.record(Histogram::NumSubcompactionsScheduled, count as u64);
            });
        }
        Ok(Work {
            context: context.clone(),
            pick: pick.clone(),
            runs,
            targets,
            deeper,
            filter_context: FilterContext {
                is_full_compaction: pick.files().count() == job.version.files().count(),
                is_manual_compaction: pick.reason == Reason::Manual,
                input_start_level: Some(pick.start_level()),
                family_id: context.family_id,
                reason: TableFileCreationReason::Compaction,
            },
            borders,
            waiting: Mutex::new((0..count).collect()),
            finished: Mutex::new((0..count).map(|_| None).collect()),
            finish: Condvar::new(),
        })
    }

    /// Runs all parts, here and on threads that are free, and joins what came of them.
    fn run(self: &Arc<Work>) -> Result<Done> {
        let executor = &self.context.world.executor;
        // The part that goes deeper is a border more, but no thread more.
        let most = self.pick.max_subcompactions.saturating_sub(1) as usize;
        let helpers = self.borders.len().min(most);
        for _ in 0..helpers {
            // One that comes too late must not keep the inputs, which are deleted when all is done.
            let work = Arc::downgrade(self);
            let help = move || {
                if let Some(work) = work.upgrade() {
                    work.run_waiting();
                }
            };
            executor.spawn(Priority::Low, Box::new(help));
        }
        self.run_waiting();
        loop {
            let mut finished = self.finished.lock();
            if finished.iter().all(Option::is_some) {
                let parts = finished
                    .drain(..)
                    .flatten()
                    .collect::<Result<Vec<Part>>>()?;
                drop(finished);
                return self.join(parts);
            }
            drop(finished);
            if !executor.help() {
                let mut finished = self.finished.lock();
                if !finished.iter().all(Option::is_some) {
                    self.finish.wait(&mut finished);
                }
            }
        }
    }

    /// Works on parts until none waits.
    fn run_waiting(&self) {
        loop {
            let Some(part) = self.waiting.lock().pop_front() else {
                return;
            };
            let mut panicked = Panicked {
                work: self,
                part,
                armed: true,
            };
            if let Some(events) = &self.context.events {
                events.part_began(part);
            }
            let result = self.run_part(part);
            if let Some(events) = &self.context.events {
                events.part_ended(part, result.as_ref().map(|part| part.stats));
            }
            panicked.armed = false;
            self.set(part, result);
        }
    }

    fn set(&self, part: usize, result: Result<Part>) {
        self.finished.lock()[part] = Some(result);
        self.finish.notify_all();
    }

    fn run_part(&self, part: usize) -> Result<Part> {
        let clock = &self.context.world.clock;
        let before = clock.thread_cpu_nanos();
        let mut part = Activity::Compaction.run(|| self.write_part(part))?;
        part.stats.cpu_nanos = clock.thread_cpu_nanos().saturating_sub(before);
        Ok(part)
    }

    fn write_part(&self, part: usize) -> Result<Part> {
        let order = &self.context.order;
        let lower = part
            .checked_sub(1)
            .map(|border| self.borders[border].as_slice());
        let upper = self.borders.get(part).map(Vec::as_slice);
        let target = &self.targets[usize::from(self.deeper.contains(&part))];
        let mut entries = self.entries(target, lower)?;
        let cuts = Cuts::new(order.clone(), &target.output, &target.grandparents);
        let written = target.written.clipped(order, lower, upper);
        let range_deletions = pieces(&written);
        let partitioner = self.partitioner(target);
        let mut outputs = Outputs::new(&target.kind, written, cuts, lower).partitioned(partitioner);
        while let Some(entry) = entries.next(upper)? {
            outputs.add(entry)?;
        }
        let written = outputs.finish(upper)?;
        let mut garbage = std::mem::take(&mut entries.garbage);
        garbage.merge(&written.garbage);
        Ok(Part {
            level: target.output.level,
            range_deletions,
            files: written.files,
            blobs: written.blobs,
            stats: JobStats {
                input_entries: entries.input().passed(),
                dropped: entries.dropped,
                ..written.stats
            },
            jumped: entries.jumped(),
            garbage,
        })
    }

    /// Borders of the user's own, for one part.
    fn partitioner(&self, target: &Target) -> Option<Box<dyn SstPartitioner>> {
        let factory = self.context.options.sst_partitioner_factory.get()?;
        let (smallest, largest) = self.pick.bounds(&self.context.order);
        factory.create(&PartitionContext {
            is_full_compaction: self.filter_context.is_full_compaction,
            is_manual_compaction: self.filter_context.is_manual_compaction,
            output_level: target.output.level,
            smallest_user_key: smallest.user_key(),
            largest_user_key: largest.user_key(),
        })
    }

    /// What is written to `target` of the inputs, from the user key `lower` on.
    fn entries(&self, target: &Target, lower: Option<&[u8]>) -> Result<Visible<Merge<Tables>>> {
        let context = &self.context;
        let options = IterOptions {
            // Blocks of files that are about to go are worth nothing in the cache.
            fill_cache: false,
            readahead: context.db_options.compaction_readahead_size,
            ..IterOptions::default()
        };
        let runs = self.runs[..target.runs].iter().map(|tables| {
            Tables::new(
                context.order.clone(),
                tables.clone(),
                options,
                context.io.clone(),
            )
        });
        let mut merge = Merge::new(context.order.clone(), runs.collect());
        let first =
            lower.map(|user| InternalKey::new(user, SequenceNumber::MAX, ValueKind::FOR_SEEK));
        merge.start(first.as_ref().map(InternalKey::as_bytes));
        let rules = Rules {
            order: context.order.clone(),
            snapshots: context.snapshots.clone(),
            merge_operator: context.options.merge_operator.clone(),
            tombstones: target.tombstones.clone(),
            bottommost: target.kind.bottommost,
            below: target.below.clone(),
            strict_single_deletions: context.db_options.enforce_single_del_contracts,
            filter: Filter::of_job(context, &self.filter_context)?,
            cancel: context.cancel.clone(),
            meter: context.meter.clone(),
        };
        let mut entries = Visible::new(merge, rules);
        entries.blobs = Some(BlobReader::of(&target.kind));
        Ok(entries)
    }

    /// The edit of all parts together.
    fn join(&self, parts: Vec<Part>) -> Result<Done> {
        let mut done = Done::default();
        let mut garbage = Garbage::default();
        done.stats.input_bytes = self.pick.input_bytes();
        // The last target reads all of them.
        let read = self
            .targets
            .last()
            .map_or(0, |target| pieces(&target.tombstones));
        let written = parts.iter().map(|part| part.range_deletions).sum();
        done.stats.dropped.range_deletions = read.saturating_sub(written);
        let jumped = parts.iter().any(|part| part.jumped);
        for part in parts {
            let files = part.files.into_iter();
            done.edit.added.extend(files.map(|file| (part.level, file)));
            done.edit.added_blobs.extend(part.blobs);
            done.stats.add(&part.stats);
            garbage.merge(&part.garbage);
        }
        if !jumped {
            self.check_count(done.stats.input_entries)?;
        }
        let inputs = self.pick.files();
        done.edit = TreeEdit {
            deleted: inputs.map(|(level, file)| (level, file.number)).collect(),
            blob_garbage: garbage.counted(),
            cursors: self
                .pick
                .cursor
                .iter()
                .map(|key| (self.pick.start_level(), key.clone()))
                .collect(),
            ..done.edit
        };
        Ok(done)
    }

    /// An input that lost entries must not be dropped as if they were written. Tables that do not
    /// say how many they hold are believed.
    fn check_count(&self, read: u64) -> Result<()> {
        let mut expected = 0;
        for input in self.runs.iter().flatten() {
            let properties = input.table.properties();
            if properties.num_entries == 0 {
                return Ok(());
            }
            expected += properties
                .num_entries
                .saturating_sub(properties.num_range_deletions);
        }
        match read == expected || !self.context.db_options.compaction_verify_record_count {
            true => Ok(()),
            false => Err(Error::corruption(format!(
                "entries of the inputs of a compaction: expected {expected} by their properties, \
                 found {read} in {:?}",
                self.pick.inputs
            ))),
        }
    }
}

/// Finishes a part with an error if its thread panics, so that nobody waits for it.
struct Panicked<'a> {
    work: &'a Work,
    part: usize,
    armed: bool,
}

impl Drop for Panicked<'_> {
    fn drop(&mut self) {
        if self.armed {
            let error = Error::new(
                Code::Aborted,
                Subcode::None,
                "a part of a compaction panicked",
            );
            self.work.set(self.part, Err(error));
        }
    }
}

impl Target {
    fn new(
        job: &CompactJob,
        output: &Output,
        grandparents: &[Arc<FileMeta>],
        bottommost: bool,
        runs: &[Vec<InputTable>],
    ) -> Target {
        let order = &job.context.order;
        let inputs = runs.iter().flatten();
        let tombstones = inputs.flat_map(|input| own_tombstones(&job.context, input));
        let tombstones = Fragments::build(order, tombstones);
        let below = match job.pick.more_may_come {
            true => Below::anything(),
            false => Below::level(&job.version, output.level),
        };
        let snapshots = &job.context.snapshots;
        Target {
            kind: kind(job, output, bottommost),
            output: output.clone(),
            grandparents: grandparents.to_vec(),
            runs: runs.len(),
            written: stripes::written(order, &tombstones, snapshots, bottommost, &below),
            tombstones: Arc::new(tombstones),
            below,
        }
    }
}

/// Range tombstones in `fragments`, as they would be stored.
fn pieces(fragments: &Fragments) -> u64 {
    let seqs = |fragment: Fragment<'_>| fragment.seqs.len() as u64;
    fragments.iter().map(seqs).sum()
}

fn kind(job: &CompactJob, output: &Output, bottommost: bool) -> Kind {
    let (context, pick) = (&job.context, &job.pick);
    let now = context.world.clock.wall_seconds();
    let inputs = || pick.files().map(|(_, file)| file);
    let oldest_time = inputs()
        .map(|file| file.oldest_time())
        .filter(|&time| time > 0)
        .min();
    let newest = inputs()
        .map(|file| file.largest_seq)
        .max()
        .unwrap_or_default();
    Kind {
        context: context.clone(),
        level: output.level,
        flushes: false,
        path_id: output.path_id,
        compression: output.compression,
        compression_options: output.compression_options.clone(),
        target_bytes: output.target_bytes,
        epoch: inputs().map(|file| file.epoch).min().unwrap_or_default(),
        oldest_time: oldest_time.unwrap_or(now),
        now,
        unhindered: context.snapshots.iter().all(|&snapshot| snapshot >= newest),
        bottommost,
        version: Some(job.version.clone()),
        blobs: BlobPlan {
            relocate_below: context.blob_gc.relocate_below(&job.version),
            ..BlobPlan::new(&context.options, output.level, false)
        },
        created: Mutex::new(Vec::new()),
    }
}

/// The inputs as sorted runs: each file of level 0 by itself, every other level as one.
fn open_runs(job: &CompactJob) -> Result<Vec<Vec<InputTable>>> {
    let mut runs = Vec::new();
    for inputs in &job.pick.inputs {
        let tables = inputs.files.iter().map(|file| {
            let table = (job.context.open)(file, inputs.level)?;
            Ok(InputTable {
                file: file.clone(),
                table,
            })
        });
        let tables = tables.collect::<Result<Vec<InputTable>>>()?;
        match inputs.level {
            0 => runs.extend(tables.into_iter().map(|table| vec![table])),
            _ => runs.push(tables),
        }
    }
    Ok(runs)
}

/// The range tombstones of a table, cut to its bounds. Beyond them they say nothing: what is there
/// may be newer than they look.
///
/// The last user key is left out. If an entry of it is the upper bound and the tombstone goes
/// further, then so does the key, into the next table, which is an input as well and begins there.
fn own_tombstones(context: &JobContext, input: &InputTable) -> Vec<Tombstone> {
    let Some(all) = input.table.range_tombstones() else {
        return Vec::new();
    };
    let own = all.truncated(&context.order, &input.file.smallest, &input.file.largest);
    own.iter()
        .flat_map(|fragment| fragment.tombstones().collect::<Vec<_>>())
        .collect()
}
