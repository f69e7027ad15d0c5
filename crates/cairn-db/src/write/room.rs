//! Making room: what a leader does before it writes when something wants its attention.
//!
//! Memtables that are full are switched, the log of a memtable that is nearly full is synced ahead
//! of the switch, and all writes wait while the log is locked or the budget of memtables used up.

use std::sync::Arc;

use cairn_format::manifest::{VersionEdit, WalAddition};
use cairn_observe::FlushReason;
use cairn_platform::Priority;
use cairn_platform::sync::Ordering;
use cairn_types::{Error, Result};

use super::log::CurrentLog;
use super::steps::Steps;
use crate::family::FamilyState;
use crate::shared::{Immutable, Shared};

impl Shared {
    /// Makes sure that a batch may be written. The caller leads.
    #[inline]
    pub(crate) fn make_room(self: &Arc<Self>, no_slowdown: bool) -> Result<()> {
        // Acquire pairs with the stores that ask for attention.
        if !self.attention.load(Ordering::Acquire) {
            return Ok(());
        }
        self.make_room_slowly(no_slowdown)
    }

    #[cold]
    fn make_room_slowly(self: &Arc<Self>, no_slowdown: bool) -> Result<()> {
        let mut steps = Steps::begin(&*self.world.clock);
        loop {
            self.check_writable()?;
            // Cleared first: whoever asks from now on is heard by the next leader.
            self.attention.store(false, Ordering::Release);
            self.wait_for_insertions();
            steps.done("insertions under way");
            let waited = self.wait_while_locked(no_slowdown)?;
            steps.done("the locked log");
            if waited {
                continue;
            }
            self.switch_full_memtables()?;
            steps.done("memtables");
            let waited = self.wait_for_buffers(no_slowdown)?;
            steps.done("the budget of memtables");
            if !waited {
                steps.tell(&self.info, "making room for a write");
                return Ok(());
            }
        }
    }

    /// Switches the memtables that are full, and those whose logs hold the log space above its
    /// limit; syncs the log ahead for those that are nearly full.
    fn switch_full_memtables(self: &Arc<Self>) -> Result<()> {
        let families = self.families.load_full();
        let mut full = Vec::new();
        let mut nearly_full = false;
        for family in families.iter() {
            let memtable = family.memtable();
            let used = memtable.memory_usage();
            if used >= family.full() || memtable.is_marked_for_flush() {
                full.push(family.clone());
            } else if memtable.has_range_tombstones() && family.has_too_many_ranges(&memtable) {
                full.push(family.clone());
                let reason = FlushReason::MemtableMaxRangeDeletions;
                self.flush_because(std::slice::from_ref(family), reason);
            } else if used >= family.attention_at.load(Ordering::Relaxed) {
                nearly_full = true;
                family.attention_at.store(family.full(), Ordering::Relaxed);
            }
        }
        if nearly_full {
            self.sync_log_ahead();
        }
        let mut asked = false;
        if full.is_empty() && self.logs_are_too_large() {
            full = self.families_of_oldest_log();
            self.flush_because(&full, FlushReason::WalFull);
            asked = true;
        }
        if full.is_empty() && self.buffers_want_a_flush() {
            full = self.family_of_oldest_memtable();
            self.flush_because(&full, FlushReason::WriteBufferManager);
            asked = true;
        }
        if full.is_empty() {
            return Ok(());
        }
        self.switch_memtables(&self.flushed_with(&full), asked)
    }

    /// Starts a background sync of the current log, once a log.
    fn sync_log_ahead(self: &Arc<Self>) {
        let mut writer = self.writer.lock();
        let Some(log) = writer.log.as_mut().filter(|log| !log.is_presynced()) else {
            return;
        };
        log.mark_presynced();
        let syncer = log.syncer();
        drop(writer);
        let shared = self.clone();
        self.world.executor.spawn(
            Priority::High,
            Box::new(move || {
                if let Err(error) = syncer.sync(&*shared.world.fs) {
                    shared.log_failed(&error);
                }
            }),
        );
    }

    /// Cuts and closes `log`, which is synced to its end, in the background. The caller has counted it among the
    /// purges and the logs that end.
    fn end_log(self: &Arc<Self>, log: CurrentLog) {
        self.spawn(Priority::High, move |shared| {
            let number = log.number();
            if let Err(error) = log.finish(&*shared.world.fs) {
                shared.log_failed(&error);
            }
            shared.tree.lock().ending_logs.remove(&number);
            shared.purge_counted();
        });
    }

    /// Whether all logs together are larger than `max_total_wal_size`.
    fn logs_are_too_large(&self) -> bool {
        let limit = self.wal_limit.load(Ordering::Relaxed);
        let finished: u64 = self.tree.lock().logs.values().sum();
        limit > 0 && finished + self.writer.lock().unflushed_log_bytes > limit
    }

    /// The families that keep the oldest log alive.
    fn families_of_oldest_log(&self) -> Vec<Arc<FamilyState>> {
        let families = self.families.load();
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

    /// Gives each of `families` a new memtable, and a new log to all, and schedules flushes, which
    /// do not wait for more memtables to merge if they were `asked` for. The caller leads.
    pub(crate) fn switch_memtables(
        self: &Arc<Self>,
        families: &[Arc<FamilyState>],
        asked: bool,
    ) -> Result<()> {
        let mut steps = Steps::begin(&*self.world.clock);
        self.switch_log(&mut steps)
            .inspect_err(|error| self.log_failed(error))?;
        let current = self.writer.lock().log.as_ref().map(|log| log.number());
        let current = current.ok_or_else(|| Error::shutdown("the database is closed"))?;
        let all = self.families.load_full();
        let mut tree = self.tree.lock();
        for family in families {
            family
                .attention_at
                .store(family.nearly_full(), Ordering::Relaxed);
            let Some(state) = tree.families.get_mut(&family.id()) else {
                continue;
            };
            let old = family.memtable();
            state.flush_requested |= asked && !(old.is_empty() && state.immutables.is_empty());
            if old.is_empty() {
                continue;
            }
            self.note_sealed(family, &old);
            old.seal();
            state.immutables.push(Immutable {
                memtable: old,
                next_log: current,
            });
            let next = family
                .view()
                .with_new_memtable(self.new_memtable(&family.options()));
            family.view.store(Arc::new(next));
            family.keep_history(&[]);
        }
        // A family that has nothing unflushed needs no log but the current one. One that wrote
        // nothing since its last switch will need none once that is flushed: what happened to
        // logs in between must not matter to it.
        for family in all.iter() {
            if let Some(state) = tree.families.get_mut(&family.id())
                && family.memtable().is_empty()
            {
                match state.immutables.last_mut() {
                    Some(last) => last.next_log = current,
                    None => state.log_number = current,
                }
            }
        }
        self.update_conditions(&mut tree);
        drop(tree);
        steps.done("switching memtables");
        // Listeners hear of a memtable before they hear of its flush.
        self.deliver();
        self.schedule(&mut self.tree.lock());
        steps.done("telling and scheduling");
        steps.tell(&self.info, "a switch of memtables");
        Ok(())
    }

    /// Ends the current log and begins another, unless nothing was written to it yet.
    ///
    /// One that is mapped is cut to its length and closed in the background: freeing what was allocated behind it
    /// waits for the device, up to 85 ms while that has much to do. Until then zeros lie behind its records.
    fn switch_log(self: &Arc<Self>, steps: &mut Steps<'_>) -> Result<()> {
        let mut writer = self.writer.lock();
        let Some(log) = writer.log.as_mut() else {
            return Err(Error::shutdown("the database is closed"));
        };
        let failed = log.has_failed();
        if log.is_empty() && !failed {
            return Ok(());
        }
        // The whole of the old log is durable before the new one gets a byte. One that failed is
        // left alone: the new one gets none before all that was logged is in tables.
        if !failed {
            log.hand_over()?;
            if self.options().track_and_verify_wals {
                // The next log says how long the file of this one is.
                log.cut()?;
                steps.done("cutting the log");
            }
            log.syncer().sync(&*self.world.fs)?;
            steps.done("syncing the log");
        }
        if !failed && self.options().track_and_verify_wals_in_manifest {
            let finished = WalAddition {
                number: log.number(),
                synced_bytes: Some(log.len()),
            };
            let record = VersionEdit {
                wal_additions: vec![finished],
                ..VersionEdit::default()
            };
            self.log_edits(&mut self.manifest.lock(), vec![record])?;
            steps.done("the MANIFEST");
        }
        let number = self.new_file_number();
        let predecessor = self.predecessor(log);
        let next = self.create_log(number, predecessor)?;
        steps.done("the next log");
        let old = writer.log.replace(next);
        writer.unflushed_log_bytes = 0;
        drop(writer);
        steps.done("the next log");
        if let Some(old) = old {
            let mut tree = self.tree.lock();
            tree.logs.insert(old.number(), old.len());
            tree.logs.insert(number, 0);
            if failed {
                tree.failed_logs.insert(old.number());
                drop(tree);
                old.give_up();
            } else if old.is_mapped() {
                tree.ending_logs.insert(old.number());
                tree.purges += 1;
                drop(tree);
                self.end_log(old);
            } else {
                drop(tree);
                // One that was written over has no tail of its former life once something is in the next one.
                old.finish(&*self.world.fs)?;
                steps.done("closing the log");
            }
        }
        Ok(())
    }
}
