//! Making room for a write: the checks of a leader when attention was requested.
//!
//! Full memtables are switched. If a log is synced when it ends, most of it is synced in advance. All writes
//! wait while the log is locked or the memtable budget is used up.

use std::cell::Cell;
use std::sync::Arc;

use cairn_format::manifest::{VersionEdit, WalAddition, WalChanges};
use cairn_memtable::Memtable;
use cairn_observe::FlushReason;
use cairn_observe::listener::MemTableInfo;
use cairn_observe::statistics::Ticker;
use cairn_platform::Priority;
use cairn_types::{Error, FileNumber, Result};

use super::archive;
use super::early_switch::{self, Decision};
use super::log::CurrentLog;
use super::stopwatch::Stopwatch;
use crate::catalog::family::FamilyState;
use crate::jobs::background::guarded;
use crate::locks::Rank;
use crate::shared::{Immutable, Shared, Tree};

impl Shared {
    /// Makes room for a batch. Sets `notifies` if listeners may have to be notified. The caller leads.
    #[inline]
    pub(crate) fn make_room(
        self: &Arc<Self>,
        no_slowdown: bool,
        notifies: &Cell<bool>,
    ) -> Result<()> {
        // Acquire pairs with the stores that request attention.
        if !self.signals.wants_attention() {
            return Ok(());
        }
        notifies.set(true);
        self.make_room_slowly(no_slowdown)
    }

    #[cold]
    fn make_room_slowly(self: &Arc<Self>, no_slowdown: bool) -> Result<()> {
        debug_assert!(self.context.locks.is_held(Rank::Lead), "the caller leads");
        let mut steps = Stopwatch::start(&*self.context.world.clock);
        let mut stalled = false;
        loop {
            // Cleared before all checks: what is requested later is for the next leader.
            self.signals.clear_attention();
            if let Err(error) = self.check_writable() {
                // The next leader has to check, too.
                self.signals.request_attention();
                return Err(error);
            }
            self.writes.commits.wait_for_insertions();
            steps.lap("insertions in progress");
            let waited = self.wait_while_locked(no_slowdown)?;
            steps.lap("the locked log");
            if waited {
                continue;
            }
            let before = self.before_selection();
            self.switch_full_memtables()?;
            steps.lap("memtables");
            let waited = self.wait_for_buffers(no_slowdown, before, &mut stalled)?;
            steps.lap("the budget of memtables");
            if !waited {
                steps.log_if_slow(&self.context.info, "making room for a write");
                return Ok(());
            }
        }
    }

    /// Switches full memtables, and those whose logs exceed the limit on log space. Starts a sync of the log
    /// if one is nearly full.
    fn switch_full_memtables(self: &Arc<Self>) -> Result<()> {
        debug_assert_eq!(
            self.published(),
            self.writes.commits.allocated(),
            "no insertion is in progress when memtables are switched"
        );
        let families = self.catalog.families().clone();
        let mut full = Vec::new();
        let mut nearly_full = Vec::new();
        for family in families.iter() {
            let memtable = family.memtable();
            let used = memtable.memory_usage();
            if used >= family.full() || memtable.is_marked_for_flush() {
                full.push(family.clone());
            } else if memtable.has_range_tombstones() && family.has_too_many_ranges(&memtable) {
                full.push(family.clone());
                let reason = FlushReason::MemtableMaxRangeDeletions;
                self.flush_because(std::slice::from_ref(family), reason);
            } else if family.writes.wants_attention(used) {
                match self.ends_early(family, &memtable, used) {
                    true => full.push(family.clone()),
                    false if used >= family.nearly_full() => nearly_full.push(family.clone()),
                    false => {}
                }
            }
        }
        if !nearly_full.is_empty() {
            self.sync_log_ahead();
            self.slow_down(&nearly_full);
        }
        let mut requested = false;
        if full.is_empty() && self.logs_are_too_large() {
            if self.has_only_log_data() {
                return self.release_log_data();
            }
            full = self.families_of_oldest_log();
            self.flush_because(&full, FlushReason::WalFull);
            requested = true;
        }
        if full.is_empty() {
            return self.flush_for_buffers().map(|_| ());
        }
        self.switch_memtables(&self.flushed_with(&full), requested)
    }

    /// True if `memtable` of `family`, which takes `used` bytes, is to be switched early. If not, sets the
    /// size for the next check.
    fn ends_early(&self, family: &FamilyState, memtable: &Arc<Memtable>, used: usize) -> bool {
        debug_assert!(
            Arc::ptr_eq(memtable, &family.view().memtable),
            "the leader alone switches memtables"
        );
        let now = self.context.world.clock.monotonic_nanos();
        let next = match family.writes.early.decide(&family.options(), used, now) {
            _ if self.flushes_atomically() || self.syncs_at_switch() => family.full(),
            Some(Decision::CheckAt(next)) => next,
            Some(Decision::Switch) if self.waits_for_any_flush(family) => {
                used + early_switch::step(family.full())
            }
            Some(Decision::Switch)
                if early_switch::overlaps_nothing(memtable, &family.view().version) =>
            {
                return true;
            }
            _ => family.full(),
        };
        let most = match used >= family.nearly_full() {
            true => family.full(),
            false => family.nearly_full(),
        };
        family.writes.set_attention(next.min(most));
        false
    }

    fn waits_for_any_flush(&self, family: &FamilyState) -> bool {
        let tree = self.tree.lock();
        let state = tree.families.get(&family.id());
        state.is_none_or(|state| !state.immutables.is_empty())
    }

    /// True if a switch of logs syncs the old one: its length is recorded, or it may have old content after
    /// its end.
    fn syncs_at_switch(&self) -> bool {
        let options = self.options();
        options.track_and_verify_wals
            || options.track_and_verify_wals_in_manifest
            || options.recycle_log_file_num > 0
    }

    /// True if a log is synced when it ends even if no write requires that.
    pub(crate) fn syncs_ended_logs(&self) -> bool {
        self.syncs_at_switch() || self.has_families() || archive::archives(&self.options())
    }

    /// True if there are several families, none of which may be ahead of the logs of another.
    fn has_families(&self) -> bool {
        self.catalog.families().iter().nth(1).is_some()
    }

    /// Makes every log before `log` durable if that is the first log needed by a family, before the MANIFEST
    /// records it: a power failure could otherwise lose data of other families that this one keeps.
    pub(crate) fn sync_unsynced_logs(&self, log: FileNumber) -> Result<()> {
        self.sync_moved_sections()?;
        if !self.has_families() {
            return Ok(());
        }
        if log != FileNumber(u64::MAX) {
            // As in RocksDB, a flush counts as one sync, also if the logs are durable already.
            self.telemetry.tick(Ticker::WalFileSynced, 1);
        }
        let before = self.tree.lock().logs.unsynced_before(log);
        before.iter().try_for_each(|file| {
            file.sync(&*self.context.world.fs)
                .inspect_err(|error| self.log_failed(error))
        })
    }

    /// Syncs most of a log in advance of a switch that would wait for it. The caller does not lead.
    pub(crate) fn sync_before_switch(&self) -> Result<()> {
        let file = match self.syncs_at_switch() {
            true => {
                let writer = self.writes.writer.lock();
                let log = writer.log.as_ref().filter(|log| !log.is_empty());
                log.map(CurrentLog::file)
            }
            false => None,
        };
        file.map_or(Ok(()), |file| {
            file.sync(&*self.context.world.fs)
                .inspect_err(|error| self.log_failed(error))
        })
    }

    /// Starts a background sync of the current log, once per log, if it will be synced when it ends.
    fn sync_log_ahead(self: &Arc<Self>) {
        let mut writer = self.writes.writer.lock();
        let Some(log) = writer.log.as_mut().filter(|log| !log.is_presynced()) else {
            return;
        };
        let syncer = log.file();
        if !syncer.was_synced() && !self.syncs_ended_logs() {
            return;
        }
        log.mark_presynced();
        drop(writer);
        let shared = self.clone();
        self.context.world.executor.spawn(
            Priority::High,
            Box::new(move || {
                if let Err(error) = syncer.sync(&*shared.context.world.fs) {
                    shared.log_failed(&error);
                }
            }),
        );
    }

    /// Ends `log` in the background, and syncs it if required. The caller has counted it among the purges,
    /// the ending logs and those that are not durable.
    fn end_log(self: &Arc<Self>, log: CurrentLog) {
        self.spawn_job(Priority::High, move |shared| {
            let number = log.number();
            // A panic is an error of the log, too: closing waits until its end is recorded.
            let ended = guarded("the end of a log", || {
                let file = log.end()?;
                let synced = file.was_synced() || shared.syncs_ended_logs();
                if synced {
                    file.finish(&*shared.context.world.fs)?;
                }
                Ok(synced)
            });
            if let Err(error) = &ended {
                shared.log_failed(error);
            }
            let mut tree = shared.tree.lock();
            tree.logs
                .finish_ending(number, ended.is_ok_and(|synced| synced));
            drop(tree);
            shared.purge_counted();
        });
    }

    /// True if the logs that recovery needs exceed `max_total_wal_size`. Logs that only undecided transactions need do not
    /// count, since flushes would not release them.
    fn logs_are_too_large(&self) -> bool {
        let limit = self.signals.wal_limit();
        let finished = {
            let tree = self.tree.lock();
            let oldest = tree.families.values().map(|family| family.log_number).min();
            match self.writes.sections.first_log() {
                None => tree.logs.needed().map(|(_, len)| len).sum(),
                Some(_) => tree.logs.bytes_from(oldest.unwrap_or_default()),
            }
        };
        let mut writer = self.writes.writer.lock();
        let current = writer.unflushed_log_bytes;
        let are_too_large = limit > 0 && finished.saturating_add(current) > limit;
        writer.check_log_at = match are_too_large {
            // If no memtable can be switched, not every write tries it.
            true => current.saturating_add((limit / 16).max(1 << 20)),
            false if limit > 0 => limit.saturating_sub(finished).saturating_add(1),
            false => u64::MAX,
        };
        are_too_large
    }

    /// Begins a new log, and records that the others are not needed, as no flush does.
    fn release_log_data(self: &Arc<Self>) -> Result<()> {
        self.switch_memtables(&[], false)?;
        self.catalog.edit().release_logs(&**self)?;
        self.spawn_purge();
        Ok(())
    }

    /// True if no family has unflushed data and no prepared section is undecided, so that the logs have at most log data.
    fn has_only_log_data(&self) -> bool {
        if self.writes.sections.first_log().is_some() {
            return false;
        }
        let families = self.catalog.families();
        let tree = self.tree.lock();
        families.iter().all(|family| {
            let state = tree.families.get(&family.id());
            family.memtable().is_empty() && state.is_none_or(|state| state.immutables.is_empty())
        })
    }

    /// Returns the families that need the oldest log.
    fn families_of_oldest_log(&self) -> Vec<Arc<FamilyState>> {
        debug_assert!(self.context.locks.is_held(Rank::Lead), "the caller leads");
        let families = self.catalog.families();
        let tree = self.tree.lock();
        let oldest = tree.families.values().map(|family| family.log_number).min();
        families
            .iter()
            .filter(|family| {
                tree.families.get(&family.id()).is_some_and(|state| {
                    Some(state.log_number) == oldest && state.immutables.is_empty()
                }) && !family.memtable().is_empty()
            })
            .cloned()
            .collect()
    }

    /// Gives each of `families` a new memtable, and all of them a new log, and schedules flushes, which do
    /// not wait for more memtables to merge if they were `requested`. The caller leads, and delivers queued
    /// events to listeners after it has released the lead.
    pub(crate) fn switch_memtables(
        self: &Arc<Self>,
        families: &[Arc<FamilyState>],
        requested: bool,
    ) -> Result<()> {
        self.only_switch_memtables(families, requested)?;
        self.schedule(&mut self.tree.lock());
        Ok(())
    }

    /// Like [`Shared::switch_memtables`], without scheduling flushes, which is left to the caller.
    pub(crate) fn only_switch_memtables(
        self: &Arc<Self>,
        families: &[Arc<FamilyState>],
        requested: bool,
    ) -> Result<()> {
        debug_assert!(self.context.locks.is_held(Rank::Lead), "the caller leads");
        let mut steps = Stopwatch::start(&*self.context.world.clock);
        self.switch_log(&mut steps)
            .inspect_err(|error| self.log_failed(error))?;
        let current = self.current_log()?;
        let last = self.writes.commits.allocated();
        assert_eq!(
            self.published(),
            last,
            "no insertion is in progress when memtables are switched"
        );
        let now = self.context.world.clock.monotonic_nanos();
        for family in families {
            self.switch_blobs(family);
        }
        let mut tree = self.tree.lock();
        for family in families {
            self.begin_memtable(family, now);
            let Some(state) = tree.families.get_mut(&family.id()) else {
                continue;
            };
            let old = family.memtable();
            state.flush_requested |= requested && !(old.is_empty() && state.immutables.is_empty());
            if old.is_empty() && state.immutables.is_empty() {
                // There is no flush for which this could be the reason.
                state.flush_reason = None;
            }
            assert!(
                old.is_empty() || old.largest_seq() <= last,
                "a memtable of {:?} has entry {}, but numbers are assigned up to {last}",
                family.name(),
                old.largest_seq()
            );
            self.seal_active(&mut tree, family, current, None);
        }
        self.release_logs_of_idle_families(&mut tree, current);
        self.check_tree(&tree);
        self.update_conditions(&mut tree);
        drop(tree);
        self.telemetry.write_lines();
        steps.lap("switching memtables");
        steps.log_if_slow(&self.context.info, "a switch of memtables");
        Ok(())
    }

    /// Returns the number of the current log.
    pub(super) fn current_log(&self) -> Result<FileNumber> {
        let writer = self.writes.writer.lock();
        let log = writer.log.as_ref();
        log.map(CurrentLog::number)
            .ok_or_else(|| Error::shutdown("the database is closed"))
    }

    /// Resets the state of the write path for a new memtable of `family`.
    pub(super) fn begin_memtable(&self, family: &FamilyState, now: u64) {
        self.end_pace(family);
        family.writes.pace.memtable_began(now);
        family.writes.begin_memtable(&family.options());
    }

    /// Replaces the active memtable of `family`, which then needs logs from `next_log` on, and adds `next` as the newest
    /// immutable one.
    pub(super) fn seal_active(
        &self,
        tree: &mut Tree,
        family: &FamilyState,
        next_log: FileNumber,
        next: Option<Immutable>,
    ) {
        let Some(state) = tree.families.get_mut(&family.id()) else {
            return;
        };
        let (old, held_log) = (family.memtable(), family.writes.take_held_log());
        if old.is_empty() && next.is_none() {
            return;
        }
        if !old.is_empty() {
            self.report_sealed(family, &old);
            old.seal();
            state.immutables.push(Immutable {
                memtable: old,
                next_log,
                held_log,
                shares_log: next.is_some(),
            });
        }
        let last = self.writes.commits.allocated();
        let active = self.new_memtable(&family.options(), last);
        let view = family.view();
        let view = match next {
            None => view.with_new_memtable(active),
            Some(next) => {
                let memtable = next.memtable.clone();
                self.report_sealed(family, &memtable);
                memtable.seal();
                state.immutables.push(next);
                view.with_ingested(memtable, active)
            }
        };
        family.set_view(view);
        family.trim_memtable_history();
    }

    /// Advances the log numbers of families without writes since their last switch, now that the log `current` begins.
    pub(super) fn release_logs_of_idle_families(&self, tree: &mut Tree, current: FileNumber) {
        // A family without unflushed data needs only the current log. One without writes since its last
        // switch will need only the current log once that memtable is flushed, regardless of the logs in
        // between.
        for family in self.catalog.families().iter() {
            if let Some(state) = tree.families.get_mut(&family.id())
                && family.memtable().is_empty()
            {
                match state.immutables.last_mut() {
                    Some(last) => last.next_log = current,
                    None => {
                        assert!(
                            state.log_number <= current,
                            "the log number of {:?} falls from {} to {current}",
                            family.name(),
                            state.log_number
                        );
                        state.log_number = current;
                    }
                }
            }
        }
    }

    /// Reports that `memtable` of `family` became immutable.
    pub(super) fn report_sealed(&self, family: &FamilyState, memtable: &Memtable) {
        family.count_view();
        if !self.telemetry.has_listeners() {
            return;
        }
        let first = memtable.first_seq().unwrap_or_default();
        let info = MemTableInfo {
            family_name: family.name().to_owned(),
            first_seqno: first,
            earliest_seqno: memtable.earliest_seq(),
            num_entries: memtable.entries() as u64,
            num_deletes: memtable.deletions() as u64,
            newest_udt: Vec::new(),
        };
        self.telemetry
            .notify_later(move |listener| listener.on_memtable_sealed(&info));
    }

    /// Ends the current log and starts another, unless it is empty. The caller leads.
    ///
    /// Operations that wait for the device are left to a job: syncing the rest took up to 600 ms on a busy
    /// device, truncating a mapped log 85 ms. Until then the records are followed by zeros.
    pub(super) fn switch_log(self: &Arc<Self>, steps: &mut Stopwatch<'_>) -> Result<()> {
        let Some(ended) = self.end_current_log(steps)? else {
            return Ok(());
        };
        if !ended.failed && self.options().track_and_verify_wals_in_manifest {
            let finished = WalAddition {
                number: ended.number,
                synced_bytes: Some(ended.len),
            };
            let record = VersionEdit {
                wals: WalChanges {
                    additions: vec![finished],
                    deleted_before: None,
                },
                ..VersionEdit::default()
            };
            self.catalog.edit().log_record(&**self, record)?;
            steps.lap("the MANIFEST");
        }
        if ended.failed {
            // All data is flushed before the next write.
            self.writes.sections.forget_move();
        }
        let moved = self.moved_sections()?;
        let (old, number) = self.replace_log(&ended, steps)?;
        self.close_log(old, number, &ended, steps)?;
        if let Some(moved) = moved {
            let mut writer = self.writes.writer.lock();
            let Some(log) = writer.log.as_mut() else {
                return Err(Error::shutdown("the database is closed"));
            };
            self.log_moved(&moved, log)?;
            writer.unflushed_log_bytes = log.len();
            steps.lap("the prepared transactions");
        }
        Ok(())
    }

    /// Prepares the current log for its end: its records are handed to the kernel, and synced if the options
    /// require that. `None` if the log is empty.
    fn end_current_log(&self, steps: &mut Stopwatch<'_>) -> Result<Option<EndedLog>> {
        let mut writer = self.writes.writer.lock();
        let Some(log) = writer.log.as_mut() else {
            return Err(Error::shutdown("the database is closed"));
        };
        let failed = log.has_failed();
        if log.is_empty() && !failed {
            return Ok(None);
        }
        let synced = self.syncs_at_switch();
        // A failed log is not touched: nothing is written to the new one until all logged data is flushed.
        if !failed {
            log.hand_over()?;
        }
        if !failed && synced {
            if self.options().track_and_verify_wals {
                // The next log records the length of this file.
                log.cut()?;
                steps.lap("truncating the log");
            }
            log.file().sync(&*self.context.world.fs)?;
            steps.lap("syncing the log");
        }
        Ok(Some(EndedLog {
            number: log.number(),
            len: log.len(),
            failed,
            synced,
        }))
    }

    /// Replaces `ended` by a new log. Returns the old one and the number of the new one. Only the leader
    /// writes, so the current log is still the one that ended.
    fn replace_log(
        &self,
        ended: &EndedLog,
        steps: &mut Stopwatch<'_>,
    ) -> Result<(CurrentLog, FileNumber)> {
        let mut writer = self.writes.writer.lock();
        let first = self.writes.commits.allocated().plus(1);
        let Some(log) = writer.log.as_mut() else {
            return Err(Error::shutdown("the database is closed"));
        };
        assert_eq!(log.number(), ended.number, "the leader alone ends logs");
        let number = self.catalog.numbers.take();
        assert!(
            log.number() < number,
            "log {number} replaces an older one, not {}",
            log.number()
        );
        assert_eq!(
            log.len(),
            ended.len,
            "nothing is written to log {} after its end",
            ended.number
        );
        let predecessor = self.predecessor(log);
        let mut next = self.create_log(number, predecessor, Some(log))?;
        if !ended.failed && !ended.synced {
            next.follow(log, first)?;
        }
        steps.lap("the next log");
        let old = std::mem::replace(log, next);
        writer.ended = Some((old.number(), old.file_len()));
        writer.unflushed_log_bytes = 0;
        writer.check_log_at = 0;
        self.writes.sections.note_log(number);
        Ok((old, number))
    }

    /// Releases `old`, which was replaced by the log `number`: its file is closed, by a job unless that takes
    /// no time.
    fn close_log(
        self: &Arc<Self>,
        old: CurrentLog,
        number: FileNumber,
        ended: &EndedLog,
        steps: &mut Stopwatch<'_>,
    ) -> Result<()> {
        if let Some((_, nanos)) = old.slow_append() {
            self.context.info.info(format_args!(
                "an append to log {} took {} ms",
                old.number(),
                nanos / 1_000_000
            ));
        }
        let mut tree = self.tree.lock();
        tree.logs.set_len(old.number(), old.len());
        tree.logs.add_current(number);
        if ended.failed {
            tree.logs.mark_failed(old.number());
            drop(tree);
            old.give_up();
        } else if ended.synced && !old.is_mapped() {
            drop(tree);
            // The tail of old content of a recycled log is harmless once the next log has records.
            old.finish(&*self.context.world.fs)?;
            steps.lap("closing the log");
        } else {
            tree.logs.start_ending(old.number(), old.file());
            // Only the leader of an open database ends a log.
            assert!(tree.jobs.begin_purge());
            drop(tree);
            self.end_log(old);
        }
        Ok(())
    }
}

/// A log that is about to be replaced.
struct EndedLog {
    number: FileNumber,
    /// Bytes of its records.
    len: u64,
    /// True if a write to it has failed.
    failed: bool,
    /// True if it is durable.
    synced: bool,
}
