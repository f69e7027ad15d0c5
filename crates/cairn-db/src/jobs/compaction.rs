//! Compactions of one family: picking, running and installing them.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use cairn_jobs::pick::{self, InProgress, JobId, Pick, PickOptions, Reason};
use cairn_jobs::{BlobGc, CompactJob, JobContext, KeyRange, compact, multi_level};
use cairn_observe::BackgroundErrorReason;
use cairn_observe::listener::CompactionJobInfo;
use cairn_observe::statistics::Ticker;
use cairn_observe::threads::{self, CompactionOperation, Operation, Stage};
use cairn_options::{Canceled, CompactionStyle, FamilyOptions};
use cairn_platform::IoPriority;
use cairn_platform::Priority;
use cairn_platform::sst_file_manager::Reservation;
use cairn_platform::{TaskToken, TaskWaiter};
use cairn_read::View;
use cairn_types::{FileNumber, Result, SequenceNumber, TableFileCreationReason};
use cairn_version::Version;
use cairn_version::compaction_score::{self, AgeLimits};
use cairn_version::periodic_phase::PeriodicPhase;

use crate::catalog::family::FamilyState;
use crate::catalog::install::Change;
use crate::jobs::watch::Watch;
use crate::shared::{Shared, Tree};

/// A picked compaction whose inputs are reserved.
#[derive(Clone)]
pub(crate) struct Chosen {
    pub(crate) pick: Arc<Pick>,
    pub(crate) version: Arc<Version>,
    pub(crate) id: JobId,
    /// The blobs to relocate, if other than the family's options specify.
    pub(crate) blob_gc: Option<BlobGc>,
    /// The timestamp above which versions are dropped.
    pub(crate) trim: Option<Vec<u8>>,
    /// True if the caller gets the paths and properties of the tables written.
    pub(crate) reports_tables: bool,
    /// Space reserved for its output, which counts as used until it ends.
    pub(crate) _room: Option<Arc<Reservation>>,
    /// The permission of the family's limiter of compactions.
    pub(crate) _token: Option<Arc<TaskToken>>,
}

/// A limiter of compactions has a token again, possibly released under the lock of another database.
impl TaskWaiter for Shared {
    fn task_may_start(self: Arc<Self>) {
        let executor = self.context.world.executor.clone();
        // The job takes over the reference, which may be the last one: a database is not dropped here.
        let job = Box::new(move || {
            self.as_job(|| self.schedule(&mut self.tree.lock()));
            self.changed.notify_all();
        });
        executor.spawn(Priority::High, job);
    }
}

impl Shared {
    pub(crate) fn pick_options(&self, family: &FamilyState) -> PickOptions {
        PickOptions::new(&self.options(), &family.options())
    }

    pub(crate) fn present(&self, family: &FamilyState) -> AgeLimits {
        let now = self.context.world.clock.wall_seconds();
        let options = family.options();
        AgeLimits {
            now,
            ahead: self.options().seconds_ahead(now),
            phase: self.periodic_phase(family),
            oldest_snapshot: self.catalog.snapshots.kept_from(self.published()),
            full_history_ts_low: family.view().version.history_low().to_vec(),
            young_after: self.young_after(&options, now),
            zero_through: match options.preserved_seconds() {
                0 => SequenceNumber::MAX,
                // A compaction knows at least these samples.
                span => self.timers.samples.get().seq_at(now.saturating_sub(span)),
            },
        }
    }

    /// Returns the preferred times of periodic compactions of `family`.
    fn periodic_phase(&self, family: &FamilyState) -> PeriodicPhase {
        let percent = self.options().periodic_compaction_phase_recovery_percent;
        let anchor = self.timers.phase_anchor();
        PeriodicPhase::new(&self.context.db_id, family.id(), anchor, percent)
    }

    /// Returns the sequence number after which entries are too young for the last level of a family with `options`, as far
    /// as is known without reading tables; the maximum if none are.
    fn young_after(&self, options: &FamilyOptions, now: u64) -> SequenceNumber {
        match options.preclude_last_level_data_seconds {
            0 => SequenceNumber::MAX,
            span => {
                let known = self.timers.samples.get().seq_at(now.saturating_sub(span));
                let oldest = self.catalog.snapshots.list().first().copied();
                oldest.map_or(known, |oldest| oldest.min(known))
            }
        }
    }

    /// Makes the release of the oldest snapshot start compactions that it enables.
    pub(crate) fn wake_with_snapshots(self: &Arc<Self>) {
        let shared = Arc::downgrade(self);
        self.catalog.snapshots.on_release(move || {
            if let Some(shared) = shared.upgrade() {
                shared.snapshot_released();
            }
        });
    }

    /// Handles the release of the oldest snapshot: bottommost files may now drop entries that it kept. Finding them takes a
    /// pass over all files, so the result is cached until the tree changes.
    fn snapshot_released(self: &Arc<Self>) {
        let oldest = self.catalog.snapshots.kept_from(self.published());
        if !self.catalog.snapshots.may_settle(oldest) {
            return;
        }
        let mut tree = self.tree.lock();
        let families = self.catalog.families().clone();
        let held = families.iter().flat_map(|family| {
            let version = family.view().version.clone();
            let files = version.files().map(|(_, file)| file.clone());
            files.collect::<Vec<_>>()
        });
        let held = held.filter(|file| !file.hints.settled && file.seqs.largest >= oldest);
        let threshold = held.map(|file| file.seqs.largest.0).min();
        self.catalog
            .snapshots
            .note_bottom(SequenceNumber(threshold.unwrap_or(u64::MAX)));
        self.schedule(&mut tree);
    }

    /// Picks a compaction of `family`, if one is due, and reserves its inputs.
    pub(crate) fn choose_compaction(
        self: &Arc<Self>,
        tree: &mut Tree,
        family: &FamilyState,
    ) -> Option<Chosen> {
        let version = family.view().version.clone();
        let state = tree.families.get_mut(&family.id())?;
        let (present, options) = (self.present(family), self.pick_options(family));
        let from = pick::Tree::new(&version, &state.busy, &present, &options);
        let pick = self.picking(|| pick::pick(&from));
        let token = match family.options().compaction_thread_limiter.as_ref() {
            Some(limiter) if pick.is_some() => {
                let shared = Arc::downgrade(self);
                let token = limiter.token(&(shared as Weak<dyn TaskWaiter>));
                state.limited = token.is_none();
                Some(Arc::new(token?))
            }
            _ => {
                state.limited = false;
                None
            }
        };
        let pick = pick?;
        let Ok(room) = self.catalog.space.reserve(&pick) else {
            self.telemetry.tick(Ticker::CompactionCancelled, 1);
            self.retry_when_space_frees();
            return None;
        };
        let id = self.picking(|| state.busy.add(family.order(), &pick));
        Some(Chosen {
            pick: Arc::new(pick),
            version,
            id,
            blob_gc: None,
            trim: None,
            reports_tables: false,
            _room: room,
            _token: token,
        })
    }

    /// Releases the inputs of `chosen`.
    pub(crate) fn release(&self, tree: &mut Tree, family: &FamilyState, chosen: &Chosen) {
        if let Some(state) = tree.families.get_mut(&family.id()) {
            state.busy.remove(chosen.id);
            if chosen.pick.drops {
                state.forget_deleted(&family.view().version);
            }
        }
    }

    /// Runs `chosen` and installs its output. Returns information about the job.
    pub(crate) fn run_compaction(
        self: &Arc<Self>,
        family: &FamilyState,
        chosen: &Chosen,
        manual: Option<&Canceled>,
    ) -> Result<CompactionJobInfo> {
        let mut context = JobContext {
            cancel: self.compaction_cancel(manual),
            ..self.job_context(family)
        };
        let service = self.options().compaction_service.clone();
        let pick = match service {
            // A worker writes to one level.
            Some(_) => chosen.pick.clone(),
            None => multi_level::with_skip_level(&context, &chosen.pick),
        };
        // The request has no place for the timestamp to trim to.
        let is_local = pick.trivial_move || pick.drops || chosen.trim.is_some();
        // Looked up before the job is reported to begin: an error ends it without further reports.
        let remote = match service.filter(|_| !is_local) {
            Some(service) => self.files_for_worker()?.map(|files| (service, files)),
            None => None,
        };
        let mut watch = Watch::new(&self.telemetry, family, TableFileCreationReason::Compaction);
        if chosen.reports_tables {
            watch = watch.keeping_tables();
        }
        let _working = self
            .telemetry
            .begin_operation(family.name(), compaction_operation(watch.job, &pick));
        let oldest_snapshot = context.snapshots.first().copied();
        let info = watch.compaction_begins(family, &pick, &chosen.version, oldest_snapshot);
        let watch = Arc::new(watch);
        context.events = Some(watch.clone());
        if let Some(blob_gc) = chosen.blob_gc {
            context.blob_gc = blob_gc;
        }
        context.history.trim.clone_from(&chosen.trim);
        context.io_priority = self.io_priority(IoPriority::Low);
        context.limit_reads();
        context.request_thread = Some(self.spare());
        let remote = remote
            .map(|(service, files)| self.remote_compactor(service, files, family, &info, &pick));
        let job = CompactJob {
            context: Arc::new(context),
            pick: pick.clone(),
            version: chosen.version.clone(),
            range: KeyRange::default(),
            remote,
            keeps_outputs: false,
        };
        let started = self.context.world.clock.monotonic_nanos();
        let done = compact::run(&job)
            .map_err(|error| self.cut_short(self.called_off(error, manual)))
            .and_then(|done| {
                if !self.lifecycle.is_closing() {
                    watch.compaction_commits(&info, family, &pick, &done.edit, done.stats);
                }
                let change = Change {
                    edit: done.edit.clone(),
                    ..Change::default()
                };
                let _stage = threads::stage(Stage::CompactionInstall);
                self.catalog
                    .install(&**self, &[(family, &change)])
                    .map(|()| done)
            });
        let micros = (self.context.world.clock.monotonic_nanos() - started) / 1000;
        let outcome = done.as_ref().map(|done| (&done.edit, done.stats));
        let info = watch.compaction_ended(info, family, &pick, outcome, micros);
        done?;
        self.note_space(BackgroundErrorReason::Compaction);
        Ok(info)
    }

    /// The token of a compaction of `family` that starts in any case.
    pub(crate) fn forced_token(family: &FamilyState) -> Option<Arc<TaskToken>> {
        let options = family.options();
        let limiter = options.compaction_thread_limiter.as_ref()?;
        Some(Arc::new(limiter.force_token()))
    }

    /// Schedules another check for compactions after a delay, once for all that lack space now.
    fn retry_when_space_frees(self: &Arc<Self>) {
        if !self.catalog.space.begin_wait() {
            return;
        }
        let interval = Duration::from_micros(self.options().bgerror_resume_retry_interval.max(1));
        // Weak: a delayed job does not keep a closed database in memory.
        let weak = Arc::downgrade(self);
        let job = Box::new(move || {
            if let Some(shared) = weak.upgrade() {
                shared.catalog.space.end_wait();
                shared.schedule(&mut shared.tree.lock());
            }
        });
        self.context
            .world
            .executor
            .spawn_after(interval, Priority::Low, job);
    }

    /// Returns the level that level 0 is compacted into.
    pub(crate) fn base_level(&self, family: &FamilyState, view: &View) -> usize {
        compaction_score::targets(&view.version, &self.pick_options(family).shape).base_level
    }

    /// Returns the bytes to be compacted until all levels are within their targets.
    pub(crate) fn pending_bytes(&self, family: &FamilyState, view: &View) -> u64 {
        let options = self.pick_options(family);
        if options.style != CompactionStyle::Level {
            return 0;
        }
        let shape = options.shape;
        let targets = compaction_score::targets(&view.version, &shape);
        let young = match shape.precludes_young {
            true => young_bytes(&view.version, &self.present(family)),
            false => 0,
        };
        compaction_score::pending_compaction_bytes(&view.version, &targets, &shape, young)
    }

    /// Returns the compaction score of each level, disregarding files in `busy`.
    pub(crate) fn scores(
        &self,
        family: &FamilyState,
        view: &View,
        busy: &HashSet<FileNumber>,
    ) -> BTreeMap<usize, f64> {
        let options = self.pick_options(family);
        let runs = view.version.level(0).len() as f64;
        if options.style != CompactionStyle::Level {
            return BTreeMap::from([(0, runs / options.shape.level0_trigger as f64)]);
        }
        let targets = compaction_score::targets(&view.version, &options.shape);
        compaction_score::scores(&view.version, &targets, busy, &options.shape)
            .into_iter()
            .collect()
    }

    /// True if a compaction of `family` is due.
    pub(crate) fn wants_compaction(&self, family: &FamilyState, view: &View) -> bool {
        let tree = self.tree.lock();
        tree.families
            .get(&family.id())
            .is_some_and(|state| self.is_compaction_due(family, &state.busy, &view.version))
    }

    /// True if a compaction of `version` is due in addition to those running.
    pub(crate) fn is_compaction_due(
        &self,
        family: &FamilyState,
        busy: &InProgress,
        version: &Version,
    ) -> bool {
        let (present, options) = (self.present(family), self.pick_options(family));
        pick::is_due(&pick::Tree::new(version, busy, &present, &options))
    }
}

/// Returns the size of the files that are too young for the last level.
fn young_bytes(version: &Version, limits: &AgeLimits) -> u64 {
    let young = version
        .files()
        .filter(|(level, file)| limits.is_young(version, *level, file));
    young
        .map(|(_, file)| file.size)
        .fold(0, u64::saturating_add)
}

/// Returns the thread-list entry of the compaction of `pick`.
fn compaction_operation(job_id: u64, pick: &Pick) -> Operation {
    Operation::Compaction(CompactionOperation {
        job_id,
        base_input_level: pick.start_level(),
        output_level: pick.output.level,
        is_manual: pick.reason == Reason::Manual,
        is_deletion: pick.drops,
        is_trivial_move: pick.trivial_move,
        total_input_bytes: pick.input_bytes(),
    })
}
