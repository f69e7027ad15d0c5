//! Manual compactions: of a range, of named files, or by a hint.
//!
//! They run on the caller's thread. The inputs are reserved under the lock of the tree like those of any compaction, so
//! automatic compactions run in parallel unless the manual one is exclusive.

use std::borrow::Cow;
use std::sync::Arc;

use cairn_format::key::{self, InternalKey};
use cairn_format::names::FileName;
use cairn_jobs::BlobGc;
use cairn_jobs::pick::{self, FilesRequest, Manual, Pick, Step, UserRange};
use cairn_memtable::Memtable;
use cairn_observe::listener::CompactionJobInfo;
use cairn_observe::statistics::Ticker;
use cairn_observe::{BackgroundErrorReason, FlushReason};
use cairn_options::{
    BlobGarbageCollectionPolicy, Canceled, CompactRangeOptions, CompactionOptions, CompactionStyle,
};
use cairn_types::{Error, FileNumber, KeyOrder, Result, SequenceNumber, ValueKind};
use cairn_version::Version;

use crate::catalog::family::FamilyState;
use crate::db::handle::Family;
use crate::jobs::background::guarded;
use crate::jobs::compaction::Chosen;
use crate::jobs::counts::{JobKind, is_called_off};
use crate::read::bounds;
use crate::shared::{Shared, Tree};

/// Returns the bound `key` of a range of keys, with a timestamp of bytes `fill`: 0xff before all versions of the key, 0
/// after them.
fn with_timestamp<'k>(family: &FamilyState, key: &'k [u8], fill: u8) -> Cow<'k, [u8]> {
    match family.order().timestamp_size() {
        0 => Cow::Borrowed(key),
        size => Cow::Owned([key, &vec![fill; size]].concat()),
    }
}

impl Shared {
    /// Compacts the keys of `family` from `begin` to `end`, both inclusive.
    pub(crate) fn compact_range(
        self: &Arc<Self>,
        family: &Arc<FamilyState>,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        options: &CompactRangeOptions,
        trim: Option<&[u8]>,
    ) -> Result<()> {
        self.check_writable()?;
        family.check_not_dropped()?;
        self.tree.lock().jobs.check_manual(&options.canceled)?;
        family.check_path(options.target_path_id)?;
        let fifo = family.options().compaction_style == CompactionStyle::Fifo;
        if fifo && options.change_level {
            return Err(Error::not_supported(
                "FIFO compaction does not support change_level",
            ));
        }
        if let Some(low) = &options.full_history_ts_low {
            if begin.is_some() || end.is_some() {
                return Err(Error::invalid_argument(
                    "Cannot specify compaction range with full_history_ts_low",
                ));
            }
            self.increase_history_low(family, low)?;
        }
        let (begin, end) = (
            begin.map(|begin| with_timestamp(family, begin, 0xff)),
            end.map(|end| with_timestamp(family, end, 0)),
        );
        let (begin, end) = (begin.as_deref(), end.as_deref());
        let needs_flush = match (begin, end) {
            (Some(begin), Some(end)) => in_memtables(family, begin, end),
            _ => true,
        };
        if needs_flush && (options.allow_write_stall || self.wait_for_room_to_flush(family)?) {
            let families = std::slice::from_ref(family);
            self.flush_because(&self.flushed_with(families), FlushReason::ManualCompaction);
            self.flush(families)?;
        }
        self.retry_damaged(family);
        let blob_gc = manual_blob_gc(family, options);
        let manual = self.as_manual(
            options.exclusive_manual_compaction,
            &options.canceled,
            || {
                // Outputs of the automatic compactions that it waited for are inputs: they are not trimmed.
                let next = self.catalog.numbers.next();
                let mut manual = Manual::new(begin, end, options, next);
                self.run_manual(family, &mut manual, (blob_gc, trim), &options.canceled)?;
                Ok(manual)
            },
        )?;
        match manual.reached().filter(|_| options.change_level) {
            Some(level) => {
                let target = usize::try_from(options.target_level).ok();
                self.alone(|| self.refit(family, level, target))
            }
            None => Ok(()),
        }
    }

    /// Waits until there is room for a flush ([`Shared::has_room_for_flush`]). Returns false if the memtable that was active
    /// at the start of the wait has been flushed by then.
    fn wait_for_room_to_flush(self: &Arc<Self>, family: &Arc<FamilyState>) -> Result<bool> {
        let first = Arc::downgrade(&family.memtable());
        let flushed = || first.strong_count() == 0;
        let fits = |tree: &Tree| {
            let Some(state) = tree.families.get(&family.id()) else {
                return true;
            };
            self.has_room_for_flush(family, state)
        };
        // If no job is running, none will free memory: the wait would not end.
        let hopeless = |tree: &Tree| tree.jobs.are_idle();
        self.wait_until(|tree| {
            flushed() || fits(tree) || hopeless(tree) || self.check_writable().is_err()
        })?;
        self.check_writable()?;
        Ok(!flushed())
    }

    /// Runs `act` as a manual compaction.
    fn as_manual<T>(
        self: &Arc<Self>,
        exclusive: bool,
        canceled: &Canceled,
        act: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        {
            let mut tree = self.tree.lock();
            tree.jobs.begin_manual(exclusive, canceled)?;
        }
        let ready = match exclusive {
            true => self.wait_until(|tree| {
                tree.jobs.compactions() == 0
                    || tree.jobs.check_manual(canceled).is_err()
                    || self.check_writable().is_err()
            }),
            false => Ok(()),
        };
        let result = ready.and_then(|()| guarded("a manual compaction", act));
        let mut tree = self.tree.lock();
        tree.jobs.end_manual(exclusive);
        self.schedule(&mut tree);
        self.changed.notify_all();
        drop(tree);
        self.purge();
        result
    }

    fn run_manual(
        self: &Arc<Self>,
        family: &Arc<FamilyState>,
        manual: &mut Manual,
        (blob_gc, trim): (BlobGc, Option<&[u8]>),
        canceled: &Canceled,
    ) -> Result<()> {
        loop {
            self.check_writable()?;
            let (chosen, releases) = {
                let mut tree = self.tree.lock();
                tree.jobs.check_manual(canceled)?;
                let version = family.view().version.clone();
                let Some(state) = tree.families.get_mut(&family.id()) else {
                    return Ok(());
                };
                let releases = state.busy.releases();
                let (present, options) = (self.present(family), self.pick_options(family));
                let from = pick::Tree::new(&version, &state.busy, &present, &options);
                let chosen = match self.picking(|| manual.next(&from)) {
                    Step::Done => return Ok(()),
                    Step::Wait => {
                        state.check_wait()?;
                        None
                    }
                    Step::Run(pick) => Some(Chosen {
                        blob_gc: Some(blob_gc),
                        trim: trim.map(<[u8]>::to_vec),
                        ..self.take(&mut tree, family, *pick, version)?
                    }),
                };
                if chosen.is_none() {
                    tree.jobs.begin_waiting();
                }
                (chosen, releases)
            };
            match chosen {
                Some(chosen) => {
                    self.run_taken(family, chosen, canceled)?;
                }
                None => {
                    let waited = self.wait_until(|tree| {
                        let state = tree.families.get(&family.id());
                        state.is_none_or(|state| state.busy.releases() != releases)
                            || tree.jobs.check_manual(canceled).is_err()
                            || self.check_writable().is_err()
                    });
                    self.tree.lock().jobs.end_waiting();
                    waited?;
                }
            }
        }
    }

    /// Reserves the inputs of `pick`, which runs on this thread.
    fn take(
        &self,
        tree: &mut Tree,
        family: &FamilyState,
        pick: Pick,
        version: Arc<Version>,
    ) -> Result<Chosen> {
        let room = self.catalog.space.reserve(&pick).inspect_err(|_| {
            self.telemetry.tick(Ticker::CompactionCancelled, 1);
        })?;
        let state = tree.families.get_mut(&family.id());
        let state = state.expect("the caller has just seen the family under this lock");
        let id = self.picking(|| state.busy.add(family.order(), &pick));
        tree.jobs.begin(JobKind::Compaction);
        Ok(Chosen {
            pick: Arc::new(pick),
            version,
            id,
            blob_gc: None,
            trim: None,
            reports_tables: false,
            _room: room,
            _token: Shared::forced_token(family),
        })
    }

    /// Runs a compaction whose inputs this thread has reserved.
    fn run_taken(
        self: &Arc<Self>,
        family: &FamilyState,
        chosen: Chosen,
        canceled: &Canceled,
    ) -> Result<CompactionJobInfo> {
        let result = guarded("a compaction", || {
            self.as_job(|| self.run_compaction(family, &chosen, Some(canceled)))
        });
        let mut tree = self.tree.lock();
        tree.jobs.end(JobKind::Compaction);
        self.release(&mut tree, family, &chosen);
        if let Err(error) = &result {
            self.set_aside_damaged(&mut tree, family, &chosen.pick, error);
        }
        drop(chosen);
        self.update_conditions(&mut tree);
        self.changed.notify_all();
        drop(tree);
        // The manual compaction continues, and closing waits for it.
        self.as_job(|| self.purge());
        self.release_memory_of_job();
        result.inspect_err(|error| {
            // This includes damage: the program has requested this compaction, and writes stop as in RocksDB.
            if !is_called_off(error) {
                self.errors.count_failed_job(error);
                self.background_error(BackgroundErrorReason::Compaction, error);
            }
        })
    }

    /// Reserves and runs the compaction that `choose` finds in the current tree. Returns true if it found one.
    fn run_chosen(
        self: &Arc<Self>,
        family: &FamilyState,
        canceled: &Canceled,
        choose: impl FnOnce(&pick::Tree<'_>) -> Result<Option<Pick>>,
    ) -> Result<bool> {
        let (present, options) = (self.present(family), self.pick_options(family));
        let chosen = {
            let mut tree = self.tree.lock();
            let version = family.view().version.clone();
            let state = tree.families.get_mut(&family.id());
            let state = state.ok_or_else(|| dropped(family))?;
            let from = pick::Tree::new(&version, &state.busy, &present, &options);
            match choose(&from)? {
                Some(pick) => self.take(&mut tree, family, pick, version)?,
                None => return Ok(false),
            }
        };
        self.run_taken(family, chosen, canceled).map(|_| true)
    }

    /// Moves the files of `level` to the level `target`, or without a target to the highest empty level with sufficient capacity.
    fn refit(
        self: &Arc<Self>,
        family: &FamilyState,
        level: usize,
        target: Option<usize>,
    ) -> Result<()> {
        self.run_chosen(family, &Canceled::default(), |tree| {
            pick::refit(tree, level, target)
        })
        .map(|_| ())
    }

    fn move_level_zero(self: &Arc<Self>, family: &FamilyState, target: usize) -> Result<()> {
        self.check_writable()?;
        self.run_chosen(family, &Canceled::default(), |tree| {
            pick::move_level_zero(tree, target)
        })
        .map(|_| ())
    }

    fn delete_files_in_ranges(
        self: &Arc<Self>,
        family: &FamilyState,
        ranges: &[UserRange<'_>],
        include_end: bool,
    ) -> Result<()> {
        self.check_writable()?;
        family.check_not_dropped()?;
        self.run_chosen(family, &Canceled::default(), |tree| {
            Ok(pick::delete_in_ranges(tree, ranges, include_end))
        })?;
        let mut tree = self.tree.lock();
        self.schedule(&mut tree);
        Ok(())
    }

    fn suggest_compact_range(
        self: &Arc<Self>,
        family: &FamilyState,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        self.check_writable()?;
        let begin = begin.map(first_of);
        let end = end.map(last_of);
        let (begin, end) = (
            begin.as_ref().map(InternalKey::as_bytes),
            end.as_ref().map(InternalKey::as_bytes),
        );
        let mut tree = self.tree.lock();
        let version = family.view().version.clone();
        self.picking(|| {
            // Files of the last level cannot move down.
            for level in 0..version.num_non_empty_levels().saturating_sub(1) {
                for file in version.overlapping(level, begin, end) {
                    file.hints.suggested.get_or_init(|| ());
                }
            }
        });
        self.schedule(&mut tree);
        Ok(())
    }

    /// Compacts the named files of `family`. Returns information about the job.
    fn compact_files(
        self: &Arc<Self>,
        family: &FamilyState,
        options: &CompactionOptions,
        names: &[&str],
        output_level: usize,
        path_id: Option<u32>,
    ) -> Result<CompactionJobInfo> {
        self.check_writable()?;
        options.check_supported()?;
        let path_id = match (path_id, family.tables().paths.len()) {
            (Some(path_id), _) => path_id,
            (None, 1) => 0,
            (None, count) => {
                return Err(Error::not_supported(format!(
                    "there are {count} paths of tables: specify the one of the outputs"
                )));
            }
        };
        family.check_path(path_id)?;
        let files: Vec<FileNumber> = names
            .iter()
            .map(|name| table_number(name))
            .collect::<Result<_>>()?;
        let request = FilesRequest {
            files: &files,
            output_level,
            path_id,
            options,
        };
        self.retry_damaged(family);
        let pick_options = self.pick_options(family);
        let present = self.present(family);
        self.as_manual(false, &options.canceled, || {
            let chosen = {
                let mut tree = self.tree.lock();
                let version = family.view().version.clone();
                let state = tree.families.get(&family.id());
                let busy = &state.ok_or_else(|| dropped(family))?.busy;
                let from = pick::Tree::new(&version, busy, &present, &pick_options);
                let pick = self.picking(|| pick::pick_files(&from, &request))?;
                Chosen {
                    reports_tables: true,
                    ..self.take(&mut tree, family, pick, version)?
                }
            };
            self.run_taken(family, chosen, &options.canceled)
        })
    }
}

/// The error of a manual compaction of a family that was dropped.
#[cold]
fn dropped(family: &FamilyState) -> Error {
    Error::shutdown(format!("column family {:?} was dropped", family.name()))
}

/// The smallest internal key of a user key.
fn first_of(user: &[u8]) -> InternalKey {
    InternalKey::new(user, SequenceNumber::MAX, ValueKind::FOR_SEEK)
}

/// The largest internal key of a user key.
fn last_of(user: &[u8]) -> InternalKey {
    InternalKey::new(user, SequenceNumber::ZERO, ValueKind::Deletion)
}

/// Returns the number in the name of a table, with or without directories.
fn table_number(name: &str) -> Result<FileNumber> {
    let last = name.rsplit('/').next().unwrap_or(name);
    match FileName::parse(last) {
        Some(FileName::Table(number) | FileName::LegacyTable(number)) => Ok(number),
        _ => Err(Error::invalid_argument(format!(
            "{name:?} is not the name of a table"
        ))),
    }
}

/// True if a memtable of `family` has entries from `begin` to `end`.
fn in_memtables(family: &FamilyState, begin: &[u8], end: &[u8]) -> bool {
    let view = family.view();
    let tables = view.immutables.iter().chain([&view.memtable]);
    let order = family.order();
    tables
        .into_iter()
        .any(|memtable| touches(order, memtable, begin, end))
}

/// True if `memtable` has entries from `begin` to `end`, which have timestamps if the keys do.
fn touches(order: &KeyOrder, memtable: &Arc<Memtable>, begin: &[u8], end: &[u8]) -> bool {
    let mut iter = Memtable::iter(memtable);
    iter.seek(first_of(begin).as_bytes());
    // The flush of a damaged memtable reports the damage.
    let damaged = iter.status().is_err();
    let entry = iter.valid()
        && order
            .compare_without_timestamp(key::user_key(iter.key()), end)
            .is_le();
    let size = order.timestamp_size();
    let [begin, end] = [begin, end].map(|bound| key::strip_timestamp(bound, size));
    // The bounds of range tombstones have no timestamps.
    damaged
        || entry
        || memtable.raw_range_tombstones().iter().any(|tombstone| {
            bounds::compare(order, &tombstone.start, end).is_le()
                && bounds::compare(order, &tombstone.end, begin).is_gt()
        })
}

/// Returns the blobs that a manual compaction relocates.
fn manual_blob_gc(family: &FamilyState, options: &CompactRangeOptions) -> BlobGc {
    let default = BlobGc::new(&family.options());
    let cutoff = options.blob_garbage_collection_age_cutoff;
    BlobGc {
        enabled: match options.blob_garbage_collection_policy {
            BlobGarbageCollectionPolicy::Force => true,
            BlobGarbageCollectionPolicy::Disable => false,
            BlobGarbageCollectionPolicy::UseDefault => default.enabled,
        },
        age_cutoff: match (0.0..=1.0).contains(&cutoff) {
            true => cutoff,
            false => default.age_cutoff,
        },
        space_target: default.space_target,
    }
}

impl Family {
    /// Compacts the keys from `begin` to `end`, both inclusive; `None` is unbounded. Memtables with keys in the range are
    /// flushed first.
    ///
    /// # Errors
    ///
    /// `Incomplete` if it was cancelled; `InvalidArgument` and `NotSupported` for an impossible level or
    /// path; the error that made the database read-only; errors of reading files.
    pub fn compact_range(
        &self,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        self.db
            .shared
            .compact_range(&self.state, begin, end, options, None)
    }

    /// Compacts the tables named `files`, and those that must be included with them, into `output_level`;
    /// `path_id` is the directory of the output tables, `None` selects the only one. Returns the paths of the outputs: tables, and
    /// then blob files.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if there is no such file or level; `NotSupported` without a `path_id` if there are several
    /// directories; `Aborted` if any of the files is already being compacted; `Incomplete` if it was cancelled; errors of the
    /// files.
    pub fn compact_files(
        &self,
        options: &CompactionOptions,
        files: &[&str],
        output_level: usize,
        path_id: Option<u32>,
    ) -> Result<Vec<String>> {
        let did = self.compact_files_reported(options, files, output_level, path_id)?;
        let paths = did.output_paths().into_iter();
        Ok(paths.map(str::to_owned).collect())
    }

    /// Like [`Family::compact_files`], but returns the information that listeners get, which includes the
    /// paths of the outputs.
    ///
    /// # Errors
    ///
    /// Those of [`Family::compact_files`].
    pub fn compact_files_reported(
        &self,
        options: &CompactionOptions,
        files: &[&str],
        output_level: usize,
        path_id: Option<u32>,
    ) -> Result<CompactionJobInfo> {
        self.db
            .shared
            .compact_files(&self.state, options, files, output_level, path_id)
    }

    /// Marks the files that overlap the keys from `begin` to `end` for compaction.
    ///
    /// # Errors
    ///
    /// The error that made the database read-only.
    pub fn suggest_compact_range(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        let begin = begin.map(|begin| with_timestamp(&self.state, begin, 0xff));
        let end = end.map(|end| with_timestamp(&self.state, end, 0));
        self.db
            .shared
            .suggest_compact_range(&self.state, begin.as_deref(), end.as_deref())
    }

    /// Deletes the tables of level 1 and below that lie completely in one of `ranges`, without reading them.
    /// Other keys in the ranges stay. This frees space quickly before [`Family::delete_range`]; it does not
    /// replace it: snapshots lose the keys, and older versions in other files may become visible.
    ///
    /// # Errors
    ///
    /// The error that made the database read-only.
    pub fn delete_files_in_ranges(
        &self,
        ranges: &[UserRange<'_>],
        include_end: bool,
    ) -> Result<()> {
        let state = &self.state;
        let ranges = ranges.iter().map(|(begin, end)| {
            let begin = begin.map(|begin| with_timestamp(state, begin, 0xff));
            (begin, end.map(|end| with_timestamp(state, end, 0)))
        });
        let ranges: Vec<_> = ranges.collect();
        let ranges: Vec<UserRange<'_>> = ranges
            .iter()
            .map(|(begin, end)| (begin.as_deref(), end.as_deref()))
            .collect();
        self.db
            .shared
            .delete_files_in_ranges(state, &ranges, include_end)
    }

    /// Moves the files of level 0, which must not overlap, to `target_level`; the levels above it must be
    /// empty.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` with the reason.
    pub fn promote_level_zero(&self, target_level: usize) -> Result<()> {
        self.db.shared.move_level_zero(&self.state, target_level)
    }

    /// Enables automatic compactions of this family.
    ///
    /// # Errors
    ///
    /// Those of [`Family::set_options`].
    pub fn enable_auto_compaction(&self) -> Result<()> {
        self.set_options(&[("disable_auto_compactions", "false")])
    }
}

impl FamilyState {
    /// Returns an error if there is no directory of tables with this id.
    fn check_path(&self, path_id: u32) -> Result<()> {
        let count = self.tables().paths.len();
        match (path_id as usize) < count {
            true => Ok(()),
            false => Err(Error::invalid_argument(format!(
                "target path {path_id}: there are {count} paths of tables"
            ))),
        }
    }
}
