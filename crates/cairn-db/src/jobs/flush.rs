//! Flushes of memtables: when a flush starts, and waiting for it.
//!
//! Families are flushed individually, when they have `min_write_buffer_number_to_merge` full memtables or on
//! request. With `atomic_flush`, all families switch their memtables together, one job writes the immutable
//! memtables of all of them, and one group of edits installs the tables, so that a crash leaves a consistent
//! state of the whole database, even without a log. A program that flushes selected families switches only
//! those together; they may then be ahead of the others.

use std::sync::Arc;
use std::time::Duration;

use cairn_observe::FlushReason;
use cairn_observe::listener::ManualFlushInfo;
use cairn_options::{FamilyOptions, FlushOptions};
use cairn_types::{Error, Result, SequenceNumber};

use crate::catalog::family::FamilyState;
use crate::db::Db;
use crate::db::handle::Family;
use crate::jobs::counts::JobKind;
use crate::shared::{FamilyTree, Immutable, Shared, Tree};
use crate::write::buffers::POLL_PERIOD;
use crate::write::stall::{self, Condition};

/// The progress that memtables must reach before a caller that waits for their flush returns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goal {
    /// Their entries are in tables. The caller leads.
    InTables,
    /// Listeners have been notified as well.
    Reported,
}

/// The options of a flush that the engine needs now.
fn at_once(force_atomic_flush: bool) -> FlushOptions {
    FlushOptions {
        allow_write_stall: true,
        force_atomic_flush,
        ..FlushOptions::default()
    }
}

impl Shared {
    /// True if all families are flushed together.
    pub(crate) fn flushes_atomically(&self) -> bool {
        self.options().atomic_flush
    }

    /// Returns the families to switch when `families` need to be switched and the program selected none: all
    /// of them if they are flushed together. Otherwise persisted statistics may be flushed with them.
    pub(crate) fn flushed_with(&self, families: &[Arc<FamilyState>]) -> Vec<Arc<FamilyState>> {
        match self.flushes_atomically() {
            true => self.catalog.families().iter().cloned().collect(),
            false => self.with_lagging_stats(families),
        }
    }

    /// Reserves the memtables of `family` that wait for a flush. False if none is due.
    pub(crate) fn reserve_flush(&self, tree: &mut Tree, family: &FamilyState) -> bool {
        if tree.jobs.flushes() >= self.options().background_limits().0 {
            return false;
        }
        let Some(state) = tree.families.get_mut(&family.id()) else {
            return false;
        };
        if state.flushing
            || !state.has_pending_flush(&family.options())
            || state.flushable(self.published()).next().is_none()
            || self.must_wait(state.retry_flush.as_ref())
        {
            return false;
        }
        state.flushing = true;
        true
    }

    /// Finishes a flush reserved by [`Shared::reserve_flush`].
    pub(crate) fn finish_flush(
        self: &Arc<Self>,
        tree: &mut Tree,
        family: &FamilyState,
        result: &Result<()>,
        reset_by_listener: bool,
    ) {
        self.note_outcome(tree, family.id(), JobKind::Flush, result, reset_by_listener);
        if let Some(state) = tree.families.get_mut(&family.id()) {
            assert!(state.flushing, "a flush that ends has started");
            state.flushing = false;
            state.reporting.clear();
            state.flush_requested &= !state.immutables.is_empty();
        }
    }

    /// Reserves the memtables of all families that wait for an atomic flush. False if none is due.
    pub(crate) fn reserve_atomic_flush(&self, tree: &mut Tree) -> bool {
        let published = self.published();
        let is_due = |state: &FamilyTree| state.flushable(published).next().is_some();
        let waits = tree.families.values().any(is_due);
        if !waits {
            tree.forced.nothing_waits();
        }
        // One job at a time: a later state must not be installed before this one.
        let mut retries = tree.families.values().map(|state| &state.retry_flush);
        if tree.jobs.flushes() > 0 || !waits || retries.any(|retry| self.must_wait(retry.as_ref()))
        {
            return false;
        }
        let mut reasons = tree
            .families
            .values()
            .filter_map(|state| state.flush_reason);
        self.telemetry
            .record_atomic_flush(reasons.next().unwrap_or(FlushReason::WriteBufferFull));
        for state in tree.families.values_mut() {
            state.flushing = is_due(state);
        }
        tree.forced.start();
        true
    }

    /// Finishes a flush reserved by [`Shared::reserve_atomic_flush`].
    pub(crate) fn finish_atomic_flush(
        self: &Arc<Self>,
        tree: &mut Tree,
        result: &Result<()>,
        reset_by_listener: bool,
    ) {
        let flushed: Vec<u32> = {
            let flushing = tree.families.iter().filter(|(_, state)| state.flushing);
            flushing.map(|(id, _)| *id).collect()
        };
        for id in flushed {
            self.note_outcome(tree, id, JobKind::Flush, result, reset_by_listener);
        }
        for state in tree.families.values_mut() {
            state.flushing = false;
            state.reporting.clear();
            state.flush_requested &= !state.immutables.is_empty();
        }
        tree.forced.finish(result.is_ok());
    }

    /// Notifies listeners of the end of a flush, and of the stall that it causes, before callers that wait for the
    /// flush return. True if a listener has reset the error.
    pub(crate) fn report_flush(self: &Arc<Self>, result: &Result<()>) -> bool {
        let reset_by_listener = match result {
            Ok(()) => false,
            Err(error) => {
                self.errors.count_failed_job(error);
                self.flush_failed(error)
            }
        };
        if self.telemetry.has_listeners() {
            self.update_conditions(&mut self.tree.lock());
            self.telemetry.write_lines();
            self.telemetry.deliver();
        }
        reset_by_listener
    }

    /// Switches the memtables of `families`, and of those flushed together with them, and waits until they
    /// are flushed.
    pub(crate) fn flush(self: &Arc<Self>, families: &[Arc<FamilyState>]) -> Result<()> {
        self.flush_with(&self.flushed_with(families), &at_once(false))
    }

    /// Flushes all memtables for a copy of the database if the logs have at least `wal_bytes` bytes; together if
    /// `atomic`.
    pub(crate) fn flush_for_copy(self: &Arc<Self>, wal_bytes: u64, atomic: bool) -> Result<()> {
        self.context.check_process()?;
        if wal_bytes == u64::MAX || self.context.read_only {
            return Ok(());
        }
        self.may_write()?;
        // Writes without a log would be missing in the copy.
        let unlogged = self.signals.has_unlogged();
        if self.log_bytes() < wal_bytes && !unlogged && !self.has_direct_blobs() {
            return Ok(());
        }
        let families: Vec<_> = self.catalog.families().iter().cloned().collect();
        self.flush_with(&families, &at_once(atomic))
    }

    /// True if memtables may refer to blob files that no version has.
    pub(crate) fn has_direct_blobs(&self) -> bool {
        let families = self.catalog.families();
        self.signals.writes_blobs() && families.iter().any(|family| family.direct.has_files())
    }

    /// Switches the memtables of `families` only, as `options` specify.
    fn flush_with(
        self: &Arc<Self>,
        families: &[Arc<FamilyState>],
        options: &FlushOptions,
    ) -> Result<()> {
        self.switch_for_flush(families, options)?;
        match options.wait {
            true => self.await_flushes(families, Goal::Reported),
            false => Ok(()),
        }
    }

    /// Sets the reason of the next flush of each family, unless it has one.
    pub(crate) fn flush_because(&self, families: &[Arc<FamilyState>], reason: FlushReason) {
        let mut tree = self.tree.lock();
        for family in families {
            if let Some(state) = tree.families.get_mut(&family.id()) {
                state.flush_reason.get_or_insert(reason);
            }
        }
    }

    /// [`Shared::flush_with`] for a program that selected `families`.
    fn flush_manually(
        self: &Arc<Self>,
        families: &[Arc<FamilyState>],
        options: &FlushOptions,
    ) -> Result<()> {
        // A callback may run under the lock of the tree.
        self.may_write()?;
        self.flush_because(families, FlushReason::ManualFlush);
        self.switch_for_flush(families, options)?;
        if self.telemetry.has_listeners() {
            let infos: Vec<_> = families
                .iter()
                .map(|family| ManualFlushInfo {
                    family_id: family.id(),
                    family_name: family.name().to_owned(),
                    flush_reason: FlushReason::ManualFlush,
                })
                .collect();
            let together = match self.flushes_atomically() || options.force_atomic_flush {
                true => infos.len().max(1),
                false => 1,
            };
            for infos in infos.chunks(together) {
                self.telemetry
                    .notify(|listener| listener.on_manual_flush_scheduled(infos));
            }
        }
        match options.wait {
            true => self.await_flushes(families, Goal::Reported),
            false => Ok(()),
        }
    }

    fn switch_for_flush(
        self: &Arc<Self>,
        families: &[Arc<FamilyState>],
        options: &FlushOptions,
    ) -> Result<()> {
        self.check_writable()?;
        options.check_supported()?;
        self.retry_flushes(families);
        if !options.allow_write_stall {
            self.wait_before_flush(families)?;
        }
        // Before acquiring the lead, which may have to wait.
        self.sync_before_switch()?;
        let lead = self.lead_alone()?;
        self.check_writable()?;
        let switches = self.with_lagging_stats(families);
        self.tree.lock().forced.seal(options.force_atomic_flush);
        let switched = self.only_switch_memtables(&switches, true);
        self.tree.lock().forced.sealed(switched.is_ok());
        drop(lead);
        // Listeners are notified of the sealed memtable without the lead, which their calls may need, and
        // before its flush starts.
        self.telemetry.deliver();
        self.schedule(&mut self.tree.lock());
        switched
    }

    /// [`Shared::flush`] for a caller that holds the lead and keeps it.
    ///
    /// # Errors
    ///
    /// `NotSupported` while `lock_wal` is held, which blocks flushes.
    pub(crate) fn flush_led(
        self: &Arc<Self>,
        families: &[Arc<FamilyState>],
        reason: FlushReason,
    ) -> Result<()> {
        if self.tree.lock().wal_locks.is_held() {
            return Err(Error::not_supported(
                "a flush, which writes to a new log, while lock_wal is held",
            ));
        }
        let families = self.flushed_with(families);
        self.flush_because(&families, reason);
        self.retry_flushes(&families);
        self.switch_memtables(&families, true)?;
        // A listener may write, which waits for the lead.
        self.await_flushes(&families, Goal::InTables)
    }

    /// Waits until the current immutable memtables of `families` have reached `wanted`.
    fn await_flushes(self: &Arc<Self>, families: &[Arc<FamilyState>], wanted: Goal) -> Result<()> {
        let goals: Vec<(u32, Option<Immutable>)> = {
            let tree = self.tree.lock();
            families
                .iter()
                .map(|family| {
                    let state = tree.families.get(&family.id());
                    let last = state.and_then(|state| state.immutables.last().cloned());
                    (family.id(), last)
                })
                .collect()
        };
        // A failed flush is retried for an unknown time.
        let failing = |tree: &Tree| {
            goals.iter().find_map(|(id, _)| {
                let state = tree.families.get(id)?;
                has_failed(state).cloned()
            })
        };
        let reached = |tree: &Tree| {
            goals.iter().all(|(id, goal)| {
                let Some(goal) = goal else { return true };
                tree.families.get(id).is_none_or(|state| {
                    let is_it = |memtable: &Arc<_>| Arc::ptr_eq(memtable, &goal.memtable);
                    let waits = state.immutables.iter().any(|one| is_it(&one.memtable));
                    let unreported = wanted == Goal::Reported && state.reporting.iter().any(is_it);
                    !waits && !unreported
                })
            })
        };
        // No flush starts once the database is being closed.
        let over = |tree: &Tree| self.lifecycle.is_closing() && tree.jobs.flushes() == 0;
        let leads = wanted == Goal::InTables;
        let period = match leads {
            true => POLL_PERIOD,
            false => Duration::MAX,
        };
        loop {
            // Determined under the lock: a failed flush may be retried, and the error gone, before it is taken again.
            let mut outcome = None;
            self.wait_until_polled(period, |tree| {
                outcome = match failing(tree) {
                    Some(error) => Some(Err(error)),
                    None if reached(tree) => Some(Ok(())),
                    None if over(tree) => {
                        Some(Err(Error::shutdown("the database is being closed")))
                    }
                    None => None,
                };
                let is_over = outcome.is_some() || self.errors.stop_writes();
                if leads && !is_over {
                    // The flushes may be waiting for them.
                    self.writes.commits.refuse_callbacks();
                }
                is_over
            })?;
            self.check_failure()?;
            if let Some(outcome) = outcome {
                return outcome;
            }
        }
    }

    /// True if one more file of level 0, and the active memtable as an immutable one unless it is empty, would not slow down
    /// the writes of `family`, or if both are below the triggers of jobs, so that no job would make more room.
    pub(crate) fn has_room_for_flush(&self, family: &FamilyState, state: &FamilyTree) -> bool {
        let mut load = self.load_of(family, state);
        let options = family.options();
        let to_merge = options.memtables_to_merge() as usize;
        let trigger = options.level0_file_num_compaction_trigger.max(0) as usize;
        if load.immutables < to_merge && load.level_zero_files < trigger {
            return true;
        }
        load.immutables += usize::from(!family.memtable().is_empty());
        load.level_zero_files += 1;
        stall::condition(load, &options) == Condition::Normal
    }

    /// Waits until there is room for the flush of each family ([`Shared::has_room_for_flush`]), or its memtable has been
    /// switched in the meantime.
    fn wait_before_flush(&self, families: &[Arc<FamilyState>]) -> Result<()> {
        for family in families {
            let active = family.memtable();
            self.wait_until(|tree| {
                let switched = !Arc::ptr_eq(&active, &family.memtable());
                let Some(state) = tree.families.get(&family.id()) else {
                    return true;
                };
                // If no job is running, none will free memory: the wait would not end.
                switched
                    || active.is_empty() && state.immutables.is_empty()
                    || self.has_room_for_flush(family, state)
                    || tree.jobs.are_idle()
                    || self.check_writable().is_err()
                    || has_failed(state).is_some()
            })?;
            let tree = self.tree.lock();
            if let Some(error) = tree.families.get(&family.id()).and_then(has_failed) {
                return Err(error.context("flushes fail"));
            }
        }
        self.check_writable()
    }
}

/// Returns the error of the last flush of a family, if it failed and no other is running yet. It will be
/// retried, which may fail as well.
fn has_failed(state: &FamilyTree) -> Option<&Error> {
    let retry = state.retry_flush.as_ref()?;
    (!state.flushing && retry.ends_waiting()).then_some(&retry.error)
}

impl FamilyTree {
    /// True if a flush is running or due, also if it waits for a thread, a retry or the end of a pause.
    pub(crate) fn has_pending_flush(&self, options: &FamilyOptions) -> bool {
        let to_merge = options.memtables_to_merge() as usize;
        let waits = self.immutables.len();
        self.flushing || waits >= to_merge || waits > 0 && self.flush_requested
    }

    /// Returns the memtables that can be flushed, oldest first: those with only entries up to `published`, the last
    /// visible sequence number, except one that shares a log with the next. An entry that is not visible yet could
    /// replace one that still is.
    pub(crate) fn flushable(&self, published: SequenceNumber) -> impl Iterator<Item = &Immutable> {
        let is_visible = |one: &&Immutable| one.memtable.largest_seq() <= published;
        let visible = self.immutables.iter().take_while(is_visible).count();
        let (visible, later) = self.immutables.split_at(visible);
        let whole = match visible {
            [rest @ .., last] if last.shares_log && !later.is_empty() => rest,
            all => all,
        };
        whole.iter()
    }
}

impl Tree {
    /// Takes the reason of the next flush of a family.
    pub(crate) fn take_flush_reason(&mut self, family: u32) -> FlushReason {
        let state = self.families.get_mut(&family);
        let reason = state.and_then(|state| state.flush_reason.take());
        reason.unwrap_or(FlushReason::WriteBufferFull)
    }
}

impl Db {
    /// Flushes the memtables of `families`; an empty list means all families. With `atomic_flush` or
    /// [`FlushOptions::force_atomic_flush`], after a crash their data is recovered either completely or not at all.
    ///
    /// # Errors
    ///
    /// The error that made the database read-only; `ShutdownInProgress`.
    pub fn flush_families_with(&self, families: &[&Family], options: &FlushOptions) -> Result<()> {
        self.check_families(families.iter().copied())?;
        let states: Vec<_> = match families {
            [] => self.shared().catalog.families().iter().cloned().collect(),
            families => families.iter().map(|family| family.state.clone()).collect(),
        };
        states
            .iter()
            .try_for_each(|state| state.check_not_dropped())?;
        self.shared().flush_manually(&states, options)
    }

    /// Like [`Db::flush_families_with`] with the default options: it waits.
    ///
    /// # Errors
    ///
    /// The error that made the database read-only.
    pub fn flush_families(&self, families: &[&Family]) -> Result<()> {
        self.flush_families_with(families, &FlushOptions::default())
    }
}

impl Family {
    /// Flushes the family's memtables, and waits.
    ///
    /// # Errors
    ///
    /// The error that made the database read-only.
    pub fn flush(&self) -> Result<()> {
        self.flush_with(&FlushOptions::default())
    }

    /// Like [`Family::flush`], with options.
    ///
    /// # Errors
    ///
    /// The error that made the database read-only.
    pub fn flush_with(&self, options: &FlushOptions) -> Result<()> {
        let state = std::slice::from_ref(&self.state);
        self.db.shared.flush_manually(state, options)
    }
}
