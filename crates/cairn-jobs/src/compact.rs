//! Compaction: turns a pick into tables of its output level.
//!
//! Inputs → merge → [`crate::compaction_iterator`] → `crate::output` → tables → version edit. A
//! compaction may be split by user key into subcompactions that run concurrently and share only
//! immutable state. Some of them may write one level deeper than the rest; those also read that level. A compaction into
//! the last level may write young entries to the level above it ([`mod@crate::pick`]).
//!
//! Subcompactions are created in two ways. `max_subcompactions` limits the number of ranges into
//! which a compaction is split before it starts. In addition, a running subcompaction periodically
//! requests an extra thread ([`JobContext::request_thread`]) and hands it the second half of its
//! remaining range: compactions finish sooner on an idle machine, while a busy machine writes the
//! same tables as without the split. The calling thread runs subcompactions as long as any are
//! queued, so a compaction completes even if no other thread is available.

use cairn_format::key;
use cairn_format::key::InternalKey;
use cairn_format::range_del::{Fragment, Fragments, Tombstone};
use cairn_format::trace::block_cache::CacheCaller;
use cairn_observe::Activity;
use cairn_observe::perf::iostats::{self, FileTimes};
use cairn_observe::statistics::Histogram;
use cairn_observe::threads::{self, Stage, Tracked};
use cairn_options::CompactionStyle;
use cairn_platform::Priority;
use cairn_platform::sync::{Arc, Mutex};
use cairn_table::IterOptions;
use cairn_types::{
    Error, FilterContext, PartitionContext, Result, SequenceNumber, SstPartitioner,
    TableFileCreationReason, ValueKind,
};
use cairn_version::{BlobFileMeta, FileMeta, TreeEdit, Version, bounds};

use crate::blob_garbage::BlobGarbageMeter;
use crate::blobs::BlobReader;
use crate::compaction_iterator::{CompactionIterator, Rules};
use crate::context::{JobContext, Permit};
use crate::filter::Filter;
use crate::history::TimestampRules;
use crate::inputs::{InputRun, InputTable, MAX_HELD, Tables, inputs};
use crate::lower_levels::LowerLevels;
use crate::output::Outputs;
use crate::output_params::{BlobPlan, OutputParams, warm};
use crate::output_splitter::OutputSplitter;
use crate::pick::{Output, Pick, Reason, YoungOutput};
use crate::preserved_times::PreservedTimes;
use crate::range_tombstones;
use crate::remote::RemoteCompactor;
use crate::sorted_runs::{Merge, Run};
use crate::stats::{JobOutput, JobStats, RawInput};
use crate::subcompaction_split;
use crate::subcompactions::{SubcompactionQueue, SubcompactionRange, Wait};
use crate::ttl;

/// The number of entries between two attempts of a running subcompaction to hand half of its
/// remaining range to another thread.
const SPLIT_CHECK_INTERVAL: u32 = if cfg!(test) { 3 } else { 256 };

/// Minimum input size of a split, in bytes.
const MIN_SPLIT_BYTES: u64 = if cfg!(test) { 1 } else { 512 << 10 };

/// A compaction to run.
pub struct CompactJob {
    /// The family, database and readers that the job runs for.
    pub context: Arc<JobContext>,
    /// The input files and the output parameters.
    pub pick: Arc<Pick>,
    /// The version from which the pick was made.
    pub version: Arc<Version>,
    /// The user keys to compact; all others are left out of the output.
    pub range: KeyRange,
    /// Runs the subcompactions in other processes.
    pub remote: Option<RemoteCompactor>,
    /// True if complete tables are kept when the job fails, because a later job will use them.
    pub keeps_outputs: bool,
}

/// A range of user keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key; `None` if unbounded.
    pub lower: Option<Vec<u8>>,
    /// The first key after the range; `None` if unbounded.
    pub upper: Option<Vec<u8>>,
}

impl KeyRange {
    /// True if the range has all keys.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.lower.is_none() && self.upper.is_none()
    }
}

/// Runs the compaction of `job` and returns the edit that replaces its inputs with its outputs. A
/// trivial move does no I/O.
///
/// # Errors
///
/// `IoError`; `Corruption` if an input is damaged or yields fewer entries than its properties
/// state, or if the merge operator fails; `Aborted`. Files written so far are then removed.
pub fn run(job: &CompactJob) -> Result<JobOutput> {
    if job.pick.trivial_move || job.pick.drops {
        return Ok(JobOutput {
            edit: job.pick.as_move(),
            stats: JobStats::default(),
        });
    }
    let compaction = {
        let _stage = threads::stage(Stage::CompactionPrepare);
        Arc::new(Activity::Compaction.run(|| Compaction::prepare(job))?)
    };
    let _stage = threads::stage(Stage::CompactionRun);
    let all_params = || {
        let young = compaction.young.iter().map(|young| &young.params);
        let targets = compaction.targets.iter().map(|target| &target.params);
        targets.chain(young)
    };
    let done = compaction.run().and_then(|done| {
        all_params().try_for_each(OutputParams::sync_names)?;
        Ok(done)
    });
    if done.is_err() && !job.keeps_outputs {
        all_params().for_each(OutputParams::remove_all);
    }
    done
}

/// State shared by the subcompactions of a compaction.
struct Compaction {
    context: Arc<JobContext>,
    pick: Arc<Pick>,
    /// The inputs as sorted runs, newest first.
    runs: Vec<InputRun>,
    /// The output levels: the output level of the pick and, for `skip_level` subcompactions, the level
    /// below it.
    targets: Vec<Target>,
    /// The level above the output level, for young entries.
    young: Option<YoungTarget>,
    /// The context passed to the compaction filter factory.
    filter_context: FilterContext,
    subcompactions: SubcompactionQueue<SubcompactionOutput>,
    /// True if the compaction covers all keys of its inputs.
    covers_all: bool,
    remote: Option<RemoteCompactor>,
    /// Additional threads that `max_subcompactions` allows.
    helpers: usize,
    /// The entry of the job in the thread list, if threads are tracked.
    tracked: Option<Arc<Tracked>>,
}

/// The inputs and outputs of one output level.
struct Target {
    params: OutputParams,
    output: Output,
    /// Files of the next lower level with data that overlap the inputs.
    grandparents: Vec<Arc<FileMeta>>,
    /// The number of runs that are read.
    runs: usize,
    tombstones: Arc<Fragments>,
    /// The subset of `tombstones` that is written.
    written: Arc<Fragments>,
    below: LowerLevels,
}

/// The output of young entries.
struct YoungTarget {
    params: OutputParams,
    output: Output,
    /// Entries and range tombstones with larger sequence numbers are written here.
    after: SequenceNumber,
    /// The range tombstones that are written.
    written: Arc<Fragments>,
}

/// The result of one subcompaction.
struct SubcompactionOutput {
    /// The first user key of its range.
    lower: Option<Vec<u8>>,
    /// The new tables with their levels.
    files: Vec<(usize, Arc<FileMeta>)>,
    blobs: Vec<Arc<BlobFileMeta>>,
    garbage: BlobGarbageMeter,
    stats: JobStats,
    /// Range tombstones written.
    range_deletions: u64,
}

impl Compaction {
    fn prepare(job: &CompactJob) -> Result<Compaction> {
        let (context, pick) = (&job.context, &job.pick);
        let order = &context.family.order;
        assert!(pick.files().next().is_some(), "a compaction has an input");
        assert!(context.snapshots.is_sorted(), "snapshots ascend");
        let runs = open_runs(job)?;
        let now = context.world.clock.wall_seconds();
        let times = PreservedTimes::of_compaction(context, now, &runs)?;
        let mut targets = vec![Target::new(
            job,
            &times,
            &pick.output,
            &pick.grandparents,
            pick.bottommost,
            &runs[..runs.len() - usize::from(pick.skip_level.is_some())],
        )?];
        if let Some(skip_level) = &pick.skip_level {
            let (output, grandparents) = (&skip_level.output, &skip_level.grandparents);
            let bottommost = skip_level.bottommost;
            let target = Target::new(job, &times, output, grandparents, bottommost, &runs)?;
            targets.push(target);
        }
        let young = pick.young.as_ref().map(|young| {
            assert!(
                pick.skip_level.is_none(),
                "a compaction writes to at most two levels"
            );
            YoungTarget::split_off(job, young, &mut targets[0])
        });
        let borders = match job.range.is_full() && subcompaction_split::may_split(pick, order) {
            true => {
                let began = context.meter.began();
                let borders = subcompaction_split::borders(&runs, order, pick, &context.io)?;
                context
                    .meter
                    .time_since(began, Histogram::SubcompactionSetupTime);
                borders
            }
            false => Vec::new(),
        };
        let mut spans = subcompaction_split::spans(borders, order, pick.skip_level.as_ref());
        if !job.range.is_full() {
            assert!(pick.skip_level.is_none(), "a range has one output level");
            (spans[0].lower, spans[0].upper) = (job.range.lower.clone(), job.range.upper.clone());
        }
        let count = spans.len();
        if count > 1 && pick.max_subcompactions > 1 {
            context.meter.update(|update| {
                update.record(Histogram::NumSubcompactionsScheduled, count as u64);
            });
        }
        // A skip-level subcompaction adds a range, not a thread.
        let most = pick.max_subcompactions.saturating_sub(1) as usize;
        Ok(Compaction {
            context: context.clone(),
            pick: pick.clone(),
            runs,
            targets,
            young,
            filter_context: FilterContext {
                is_full_compaction: pick.files().count() == job.version.files().count(),
                is_manual_compaction: pick.reason == Reason::Manual,
                input_start_level: Some(pick.start_level()),
                family_id: context.family.id,
                reason: TableFileCreationReason::Compaction,
            },
            subcompactions: SubcompactionQueue::new(spans),
            covers_all: job.range.is_full(),
            remote: job.remote.clone(),
            helpers: most.min(count - 1),
            tracked: threads::current(),
        })
    }

    /// Runs all subcompactions, on this thread and on available helpers, and joins the results.
    fn run(self: &Arc<Compaction>) -> Result<JobOutput> {
        let executor = &self.context.world.executor;
        if self.helpers > 0 {
            executor.reserve(Priority::Part, self.helpers);
        }
        for _ in 0..self.helpers {
            self.spawn_helper(None);
        }
        loop {
            self.run_waiting();
            if !self.subcompactions.are_finished() && executor.help() {
                continue;
            }
            if let Wait::Over(outputs) = self.subcompactions.wait() {
                return self.join(outputs?);
            }
        }
    }

    /// Starts a helper thread for queued subcompactions. `permit` is released when it ends.
    fn spawn_helper(self: &Arc<Compaction>, permit: Option<Permit>) {
        // A weak reference: a helper that starts late must not keep the inputs alive, because they
        // are deleted when the compaction ends.
        let compaction = Arc::downgrade(self);
        let help = move || {
            if let Some(compaction) = compaction.upgrade() {
                let _helping = threads::help(compaction.tracked.as_ref());
                match &compaction.context.events {
                    Some(events) => events.within_job(&mut || compaction.run_waiting()),
                    None => compaction.run_waiting(),
                }
            }
            drop(permit);
        };
        let executor = &self.context.world.executor;
        executor.spawn(Priority::Part, Box::new(help));
    }

    /// Runs subcompactions until the queue is empty.
    fn run_waiting(self: &Arc<Compaction>) {
        while let Some((taken, span)) = self.subcompactions.take() {
            let number = taken.number;
            if let Some(events) = &self.context.events {
                events.subcompaction_began(number);
            }
            let result = self.run_subcompaction(number, span);
            if let Some(events) = &self.context.events {
                events.subcompaction_completed(number, result.as_ref().map(|output| output.stats));
            }
            taken.finish(result);
        }
    }

    fn run_subcompaction(
        self: &Arc<Compaction>,
        number: usize,
        span: SubcompactionRange,
    ) -> Result<SubcompactionOutput> {
        let clock = &self.context.world.clock;
        let before = clock.thread_cpu_nanos();
        let _stage = threads::stage(Stage::CompactionProcessKv);
        let write = || {
            Activity::Compaction.run(|| match self.run_remotely(number, &span)? {
                Some(output) => Ok(output),
                None => self.write_subcompaction(span),
            })
        };
        let (output, times) = match self.context.family.options.report_bg_io_stats {
            true => iostats::with_times(write),
            false => (write(), FileTimes::default()),
        };
        let mut output = output?;
        output.stats.file_times = times;
        output.stats.cpu_nanos = clock.thread_cpu_nanos().saturating_sub(before);
        Ok(output)
    }

    /// Runs the subcompaction `number` in another process. `None` if it is to be run by this one.
    fn run_remotely(
        &self,
        number: usize,
        span: &SubcompactionRange,
    ) -> Result<Option<SubcompactionOutput>> {
        let Some(remote) = &self.remote else {
            return Ok(None);
        };
        let target = &self.targets[usize::from(span.skip_level)];
        let received = remote.run(&target.params, &self.pick, number, span)?;
        Ok(received.map(|received| SubcompactionOutput {
            lower: span.lower.clone(),
            range_deletions: received.range_deletions,
            files: at_level(target.output.level, received.files).collect(),
            blobs: Vec::new(),
            garbage: BlobGarbageMeter::default(),
            stats: received.stats,
        }))
    }

    fn write_subcompaction(
        self: &Arc<Compaction>,
        mut span: SubcompactionRange,
    ) -> Result<SubcompactionOutput> {
        let order = &self.context.family.order;
        let target = &self.targets[usize::from(span.skip_level)];
        if let (Some(lower), Some(upper)) = (&span.lower, &span.upper) {
            debug_assert!(order.compare(lower, upper).is_lt(), "a range is not empty");
        }
        let lower = span.lower.take();
        let lower = lower.as_deref();
        let mut entries = self.entries(target, lower)?;
        let splitter = OutputSplitter::new(order.clone(), &target.output, &target.grandparents);
        let partitioner = self.partitioner(&target.output);
        let mut outputs = Outputs::new(&target.params, target.written.clone(), splitter, lower)
            .partitioned(partitioner);
        let mut young = self.young_outputs(lower);
        let mut may_split_running =
            subcompaction_split::may_split_running(&self.pick, order) && !entries.may_jump();
        let mut until_ask = SPLIT_CHECK_INTERVAL;
        while let Some(entry) = entries.next(span.upper.as_deref())? {
            match &mut young {
                Some((after, young)) if key::sequence(entry.key) > *after => young.add(entry)?,
                _ => outputs.add(entry)?,
            }
            until_ask -= 1;
            if until_ask == 0 {
                until_ask = SPLIT_CHECK_INTERVAL;
                may_split_running =
                    may_split_running && self.hand_off(&mut span, entries.user_key())?;
            }
        }
        let upper = span.upper.as_deref();
        let mut written = outputs.finish(upper)?;
        let mut garbage = std::mem::take(&mut entries.garbage);
        garbage.merge(&written.garbage);
        let mut files: Vec<_> = at_level(target.output.level, written.files).collect();
        let mut range_deletions = pieces(target.written.clipped(order, lower, upper));
        if let (Some(target), Some((_, outputs))) = (&self.young, young) {
            let upper_level = outputs.finish(upper)?;
            garbage.merge(&upper_level.garbage);
            files.extend(at_level(target.output.level, upper_level.files));
            range_deletions += pieces(target.written.clipped(order, lower, upper));
            written.blobs.extend(upper_level.blobs);
            written.stats.add(&upper_level.stats);
        }
        Ok(SubcompactionOutput {
            lower: lower.map(<[u8]>::to_vec),
            range_deletions,
            files,
            blobs: written.blobs,
            stats: JobStats {
                input_entries: entries.input().passed(),
                inexact: entries.jumped(),
                input_raw: match (lower, upper) {
                    (None, None) => self.input_raw(),
                    _ => RawInput::default(),
                },
                blobs_read: entries.blobs_read().and(&written.stats.blobs_read),
                dropped: entries.dropped,
                ..written.stats
            },
            garbage,
        })
    }

    /// Hands a queued subcompaction, or the second half of the part of `span` after `reached`, to
    /// an idle or extra thread, if there is one. Returns false if no further hand-off is
    /// worthwhile.
    fn hand_off(
        self: &Arc<Compaction>,
        span: &mut SubcompactionRange,
        reached: &[u8],
    ) -> Result<bool> {
        // The thread that waits for completion takes the subcompaction itself.
        let permit = match self.subcompactions.has_idle() {
            true => None,
            false => match self
                .context
                .request_thread
                .as_ref()
                .and_then(|request| request())
            {
                Some(permit) => Some(permit),
                None => return Ok(true),
            },
        };
        let gives = self.subcompactions.are_waiting() || self.split(span, reached)?;
        if gives && permit.is_some() {
            self.spawn_helper(permit);
        }
        Ok(gives)
    }

    /// Splits off the second half of the part of `span` after `reached` as a queued subcompaction.
    /// Returns false if that part is too small.
    fn split(&self, span: &mut SubcompactionRange, reached: &[u8]) -> Result<bool> {
        let target = &self.targets[usize::from(span.skip_level)];
        let runs = &self.runs[..target.runs];
        let least = MIN_SPLIT_BYTES.max(target.output.target_bytes / 4);
        let (context, upper) = (&self.context, span.upper.as_deref());
        let middle = subcompaction_split::middle(
            runs,
            &context.family.order,
            least,
            reached,
            upper,
            &context.io,
        )?;
        let Some(middle) = middle else {
            return Ok(false);
        };
        let order = &context.family.order;
        debug_assert!(
            order.compare(reached, &middle).is_lt(),
            "written keys stay in the first half"
        );
        debug_assert!(upper.is_none_or(|upper| order.compare(&middle, upper).is_lt()));
        let given = SubcompactionRange {
            lower: Some(middle.clone()),
            upper: span.upper.replace(middle),
            skip_level: span.skip_level,
        };
        self.subcompactions.add(given);
        Ok(true)
    }

    /// Returns the outputs of young entries at or after the user key `lower`, and the sequence number after which they
    /// begin.
    fn young_outputs(&self, lower: Option<&[u8]>) -> Option<(SequenceNumber, Outputs<'_>)> {
        let young = self.young.as_ref()?;
        let order = &self.context.family.order;
        let splitter = OutputSplitter::new(order.clone(), &young.output, &[]);
        let outputs = Outputs::new(&young.params, young.written.clone(), splitter, lower)
            .partitioned(self.partitioner(&young.output));
        Some((young.after, outputs))
    }

    /// Returns the user's partitioner for one subcompaction.
    fn partitioner(&self, output: &Output) -> Option<Box<dyn SstPartitioner>> {
        let factory = self.context.family.options.sst_partitioner_factory.get()?;
        let (smallest, largest) = self.pick.bounds(&self.context.family.order);
        factory.create(&PartitionContext {
            is_full_compaction: self.filter_context.is_full_compaction,
            is_manual_compaction: self.filter_context.is_manual_compaction,
            output_level: output.level,
            smallest_user_key: smallest.user_key(),
            largest_user_key: largest.user_key(),
        })
    }

    /// Returns an iterator over the entries written to `target`, starting at the user key `lower`.
    fn entries(
        &self,
        target: &Target,
        lower: Option<&[u8]>,
    ) -> Result<CompactionIterator<Merge<Tables>>> {
        let context = &self.context;
        let options = IterOptions {
            // The inputs are about to be deleted: do not cache their blocks.
            fill_cache: false,
            readahead: context.database.options.compaction_readahead_size,
            caller: CacheCaller::Compaction,
            ..IterOptions::default()
        };
        let runs = self.runs[..target.runs].iter().map(|tables| {
            Tables::new(
                context.family.order.clone(),
                tables.clone(),
                options,
                context.io.clone(),
            )
        });
        let mut merge = Merge::new(context.family.order.clone(), runs.collect());
        let first =
            lower.map(|user| InternalKey::new(user, SequenceNumber::MAX, ValueKind::FOR_SEEK));
        merge.start(first.as_ref().map(InternalKey::as_bytes));
        let rules = Rules {
            order: context.family.order.clone(),
            snapshots: context.snapshots.clone(),
            merge_operator: ttl::merge_operator(&context.family.options, &context.world.clock),
            dated: context.family.options.value_ttl.is_some(),
            tombstones: target.tombstones.clone(),
            bottommost: target.params.bottommost,
            below: target.below.clone(),
            strict_single_deletions: context.database.options.enforce_single_del_contracts,
            zero_through: target.params.times.zero_through,
            filter: Filter::of_job(context, &self.filter_context)?,
            cancel: context.cancel.clone(),
            meter: context.meter.clone(),
            history: TimestampRules::of_compaction(context),
        };
        let mut entries = CompactionIterator::new(merge, rules);
        let mut inputs = self.pick.files();
        entries.garbage.has_blobs = inputs.any(|(_, file)| file.oldest_blob.is_some());
        entries.blobs = Some(BlobReader::of(&target.params));
        Ok(entries)
    }

    /// Combines the results of all subcompactions into one edit.
    fn join(&self, mut outputs: Vec<SubcompactionOutput>) -> Result<JobOutput> {
        let order = &self.context.family.order;
        outputs.sort_by(|a, b| match (&a.lower, &b.lower) {
            (Some(a), Some(b)) => order.compare(a, b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        });
        let mut done = JobOutput::default();
        let mut garbage = BlobGarbageMeter::default();
        done.stats.input_bytes = self.pick.input_bytes();
        // The last target reads all inputs.
        let read = self
            .targets
            .last()
            .map_or(0, |target| pieces(target.tombstones.iter()));
        let written = outputs.iter().map(|output| output.range_deletions);
        let written = written.fold(0, u64::saturating_add);
        done.stats.dropped.range_deletions = read.saturating_sub(written);
        for output in outputs {
            done.edit.added.extend(output.files);
            done.edit.added_blobs.extend(output.blobs);
            done.stats.add(&output.stats);
            garbage.merge(&output.garbage);
        }
        done.stats.input_raw = self.input_raw();
        let trims = TimestampRules::of_compaction(&self.context).trims();
        if self.covers_all && !done.stats.inexact && !trims {
            self.check_count(done.stats.input_entries)?;
        }
        self.check_outputs(&done.edit);
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

    /// Asserts that the outputs of each level are disjoint, and that no file is both input and output.
    fn check_outputs(&self, edit: &TreeEdit) {
        let order = &self.context.family.order;
        let outputs = self.targets.iter().map(|target| &target.output);
        for output in outputs.chain(self.young.iter().map(|young| &young.output)) {
            let level = output.level;
            let outputs = edit.added.iter().filter(|(at, _)| *at == level);
            let mut files: Vec<_> = outputs.map(|(_, file)| file).collect();
            files.sort_by(|a, b| key::compare(order, a.smallest.as_bytes(), b.smallest.as_bytes()));
            debug_assert!(
                files
                    .windows(2)
                    .all(|pair| bounds::are_apart(order, pair[0], pair[1])),
                "outputs in level {level} overlap"
            );
        }
        let written = |number| edit.added.iter().any(|(_, file)| file.number == number);
        assert!(
            !self.pick.files().any(|(_, file)| written(file.number)),
            "an output has the number of an input"
        );
    }

    /// Returns the raw sizes and deletion count from the properties of the inputs.
    fn input_raw(&self) -> RawInput {
        let mut raw = RawInput::default();
        for input in inputs(&self.runs) {
            let counts = &input.facts.counts;
            let deletions = counts.deletions.saturating_sub(counts.range_deletions);
            raw.key_bytes = raw.key_bytes.saturating_add(counts.raw_key_bytes);
            raw.value_bytes = raw.value_bytes.saturating_add(counts.raw_value_bytes);
            raw.deletions = raw.deletions.saturating_add(deletions);
        }
        raw
    }

    /// Fails if the inputs yielded fewer entries than their properties state: entries would be lost.
    /// Tables without an entry count are not checked.
    fn check_count(&self, read: u64) -> Result<()> {
        let mut expected = 0_u64;
        for input in inputs(&self.runs) {
            let counts = &input.facts.counts;
            if counts.entries == 0 {
                return Ok(());
            }
            let points = counts.entries.saturating_sub(counts.range_deletions);
            expected = expected.saturating_add(points);
        }
        if read == expected || !self.context.database.options.compaction_verify_record_count {
            return Ok(());
        }
        let paths = inputs(&self.runs).map(|input| self.context.table_path(&input.file));
        let paths: Vec<String> = paths.map(|path| path.display().to_string()).collect();
        Err(Error::corruption(format!(
            "entries of the inputs of a compaction: expected {expected} by their properties, \
             found {read} in {}",
            paths.join(", ")
        )))
    }
}

impl Target {
    fn new(
        job: &CompactJob,
        times: &PreservedTimes,
        output: &Output,
        grandparents: &[Arc<FileMeta>],
        bottommost: bool,
        runs: &[InputRun],
    ) -> Result<Target> {
        let order = &job.context.family.order;
        let mut tombstones = Vec::new();
        for input in inputs(runs).filter(|input| input.facts.has_tombstones) {
            tombstones.extend(own_tombstones(&job.context, input)?);
        }
        let history = TimestampRules::of_compaction(&job.context);
        let tombstones = history.kept_tombstones(order, tombstones.into_iter());
        let tombstones = Arc::new(Fragments::build(order, tombstones));
        let below = match job.pick.more_may_come {
            true => LowerLevels::anything(),
            false => LowerLevels::level(&job.version, output.level),
        };
        let snapshots = &job.context.snapshots;
        Ok(Target {
            params: params(job, output, bottommost, times.clone()),
            output: output.clone(),
            grandparents: grandparents.to_vec(),
            runs: runs.len(),
            written: range_tombstones::written(
                order,
                &tombstones,
                snapshots,
                bottommost,
                &below,
                &history,
            ),
            tombstones,
            below,
        })
    }
}

impl YoungTarget {
    /// Returns the target of the young entries of a compaction, with those range tombstones of `last`, the target in the last
    /// level, that are as young.
    fn split_off(job: &CompactJob, young: &YoungOutput, last: &mut Target) -> YoungTarget {
        let params = params(job, &young.output, false, last.params.times.clone());
        let oldest_snapshot = job.context.snapshots.first().copied();
        let after = (params.times.young_after)
            .min(oldest_snapshot.unwrap_or(SequenceNumber::MAX))
            .max(young.stays_through);
        let order = &job.context.family.order;
        let (above, below): (Vec<Tombstone>, Vec<Tombstone>) = last
            .written
            .iter()
            .flat_map(|fragment| fragment.tombstones().collect::<Vec<_>>())
            .partition(|tombstone| tombstone.seq > after);
        last.written = Arc::new(Fragments::build(order, below));
        YoungTarget {
            params,
            output: young.output.clone(),
            after,
            written: Arc::new(Fragments::build(order, above)),
        }
    }
}

/// Adds the level to each of `files`.
fn at_level(
    level: usize,
    files: Vec<Arc<FileMeta>>,
) -> impl Iterator<Item = (usize, Arc<FileMeta>)> {
    files.into_iter().map(move |file| (level, file))
}

/// Returns the number of range tombstones in `fragments`, as they would be stored.
fn pieces<'a>(fragments: impl Iterator<Item = Fragment<'a>>) -> u64 {
    fragments.map(|fragment| fragment.depth() as u64).sum()
}

/// Returns the creation time of the newest data of `inputs`, which tables of FIFO trees record; 0 if it is unknown.
fn newest_time<'a>(context: &JobContext, inputs: impl Iterator<Item = &'a Arc<FileMeta>>) -> u64 {
    let times = inputs.map(|file| file.newest_time());
    match context.family.options.compaction_style {
        CompactionStyle::Fifo => times.max().unwrap_or_default(),
        _ => 0,
    }
}

fn params(
    job: &CompactJob,
    output: &Output,
    bottommost: bool,
    times: PreservedTimes,
) -> OutputParams {
    let (context, pick) = (&job.context, &job.pick);
    let reason = TableFileCreationReason::Compaction;
    let now = context.world.clock.wall_seconds();
    let inputs = || pick.files().map(|(_, file)| file);
    let oldest_time = inputs()
        .map(|file| file.oldest_time())
        .filter(|&time| time > 0)
        .min();
    let newest = inputs()
        .map(|file| file.seqs.largest)
        .max()
        .unwrap_or_default();
    OutputParams {
        context: context.clone(),
        level: output.level,
        reason: TableFileCreationReason::Compaction,
        path_id: output.path_id,
        compression: output.compression,
        compression_options: output.compression_options.clone(),
        temperature: output
            .temperature
            .unwrap_or_else(|| context.family.options.temperature_at(output.level)),
        target_bytes: output.target_bytes,
        epoch: inputs().map(|file| file.epoch).min().unwrap_or_default(),
        oldest_time: oldest_time.unwrap_or(now),
        newest_time: newest_time(context, inputs()),
        now,
        unhindered: context.snapshots.iter().all(|&snapshot| snapshot >= newest),
        bottommost,
        version: Some(job.version.clone()),
        warm: warm(&context.family.options, reason),
        blobs: BlobPlan {
            relocate_below: context.blob_gc.relocate_below(&job.version),
            ..BlobPlan::new(&context.family.options, output.level, reason)
        },
        kept_blobs: None,
        created: Mutex::new(Vec::new()),
        times,
    }
}

/// Opens the inputs as sorted runs: one per level-0 file, one per other level.
fn open_runs(job: &CompactJob) -> Result<Vec<InputRun>> {
    let levels = &job.pick.inputs;
    assert!(
        levels.windows(2).all(|pair| pair[0].level < pair[1].level),
        "runs of upper levels come first"
    );
    let held = job.pick.files().count() <= MAX_HELD;
    let open = |file, level| InputTable::open(&job.context.open, file, level, held);
    let mut runs = Vec::new();
    for inputs in levels {
        let tables = inputs.files.iter().map(|file| open(file, inputs.level));
        match inputs.level {
            0 => {
                for table in tables {
                    runs.push(InputRun::from([table?]));
                }
            }
            _ => runs.push(tables.collect::<Result<InputRun>>()?),
        }
    }
    Ok(runs)
}

/// Returns the range tombstones of a table, truncated to its bounds. A tombstone must not apply
/// outside those bounds: entries there may be newer although their sequence numbers are smaller.
///
/// The largest user key itself is excluded. If the upper bound is an entry with that key and the
/// tombstone extends further, the key continues in the next table, which is also an input and
/// starts with it.
fn own_tombstones(context: &JobContext, input: &InputTable) -> Result<Vec<Tombstone>> {
    let table = input.table()?;
    let Some(all) = table.range_tombstones() else {
        return Ok(Vec::new());
    };
    let order = &context.family.order;
    let [smallest, largest] = [&input.file.smallest, &input.file.largest]
        .map(|bound| key::strip_timestamp(bound.user_key(), order.timestamp_size()));
    Ok(all.tombstones(order, smallest, largest).collect())
}
