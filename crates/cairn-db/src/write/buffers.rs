//! The memory budget of memtables: how the write-group leader enforces the `WriteBufferManager`'s limit.

use std::sync::Arc;
use std::time::Duration;

use cairn_memory::write_buffer::{FlushPolicy, FlushRequest, MemtableOwner};
use cairn_observe::FlushReason;
use cairn_platform::Priority;
use cairn_platform::sync::Ordering;
use cairn_types::{Error, Result};

use crate::catalog::family::FamilyState;
use crate::locks::Rank;
use crate::shared::{Shared, Tree};

/// The period in which a leader that waits for a job checks again if it must wait, even if it is not woken, and refuses
/// waiting callbacks of jobs.
pub(crate) const POLL_PERIOD: Duration = Duration::from_millis(20);

/// The state of the write buffer manager and of the families before a memtable is selected for a flush.
#[derive(Clone, Copy, Default)]
pub(super) struct BeforeSelection {
    /// [`WriteBufferManager::checks`](cairn_memory::WriteBufferManager::checks).
    checks: u64,
    /// True if a family could be selected: one with entries in memory and without a pending flush.
    could_select: bool,
}

impl Shared {
    pub(crate) fn buffers_want_a_flush(&self) -> bool {
        let buffers = self.writes.buffers.as_ref();
        buffers.is_some_and(|buffers| buffers.should_flush())
    }

    /// Returns the family to flush because of the budget: the one that its policy selects if the budget is
    /// exceeded, or the one with the largest memtable if another database has requested a flush. `None` if
    /// all memtables are empty, or if another database is to flush.
    pub(crate) fn family_that_buffers_pick(&self) -> Vec<Arc<FamilyState>> {
        let Some(buffers) = &self.writes.buffers else {
            return Vec::new();
        };
        // Acquire pairs with the store of the request.
        if self.writes.flush_requested.swap(false, Ordering::Acquire) {
            return self.family_of_largest_memtable();
        }
        if !buffers.should_flush() || buffers.request_flush(self) {
            return Vec::new();
        }
        match buffers.flush_policy() {
            FlushPolicy::Oldest => self.family_of_oldest_memtable(),
            FlushPolicy::Largest | FlushPolicy::LargestAcrossDatabases => {
                self.family_of_largest_memtable()
            }
        }
    }

    /// The families with entries in memory for which no flush is pending. As in RocksDB, the others are not flushed: another
    /// memtable of theirs would be small, and would soon be one too many.
    fn flushable_families(&self, tree: &Tree) -> Vec<Arc<FamilyState>> {
        let is_pending = |family: &FamilyState| {
            let state = tree.families.get(&family.id());
            state.is_some_and(|state| state.has_pending_flush(&family.options()))
        };
        let families = self.catalog.families();
        let filled = families
            .iter()
            .filter(|family| family.memtable().first_seq().is_some());
        filled
            .filter(|family| !is_pending(family))
            .cloned()
            .collect()
    }

    fn family_of_largest_memtable(&self) -> Vec<Arc<FamilyState>> {
        let families = self.flushable_families(&self.tree.lock()).into_iter();
        let largest = families.max_by_key(|family| family.memtable().memory_usage());
        largest.into_iter().collect()
    }

    /// Returns the family with the oldest memtable.
    fn family_of_oldest_memtable(&self) -> Vec<Arc<FamilyState>> {
        let families = self.flushable_families(&self.tree.lock()).into_iter();
        let oldest = families.min_by_key(|family| family.memtable().first_seq());
        oldest.into_iter().collect()
    }

    /// The state by which a leader that waits after its selection notices that it has to select again.
    pub(super) fn before_selection(&self) -> BeforeSelection {
        let Some(buffers) = &self.writes.buffers else {
            return BeforeSelection::default();
        };
        BeforeSelection {
            checks: buffers.checks(),
            could_select: !self.flushable_families(&self.tree.lock()).is_empty(),
        }
    }

    /// Waits while the write buffer manager stalls writes, or until there is a reason to select again since `before`.
    /// Returns true if it waited. A stall with several waits is counted once: `stalled` is then set. The caller
    /// leads.
    pub(super) fn wait_for_buffers(
        &self,
        no_slowdown: bool,
        before: BeforeSelection,
        stalled: &mut bool,
    ) -> Result<bool> {
        debug_assert!(self.context.locks.is_held(Rank::Lead), "the caller leads");
        let Some(buffers) = self.writes.buffers.as_ref().filter(|b| b.must_wait(self)) else {
            return Ok(false);
        };
        // If nothing in this database is waiting for a flush, another database has to free memory; this one
        // might otherwise wait forever if that one receives no writes.
        self.signals.request_attention();
        let refusal = Error::incomplete(
            "memtables have used up the write buffer manager's budget and no_slowdown is set",
        );
        let _held_back = self.writes.commits.hold_back(refusal, no_slowdown)?;
        if !std::mem::replace(stalled, true) {
            self.telemetry.record_buffer_stop();
        }
        // Only the leader, which is waiting here, can carry out a requested flush. If another database could
        // not carry out one, this one selects again. The threads that wake waiters may all be busy.
        self.wait_until_polled(POLL_PERIOD, |tree| {
            let is_over = buffers.checks() != before.checks
                || !before.could_select && !self.flushable_families(tree).is_empty()
                || self.writes.flush_requested.load(Ordering::Acquire)
                || self.check_writable().is_err()
                || self.check_stall().is_err();
            if !is_over {
                // The memory may be that of a memtable whose flush is waiting for its callback.
                self.writes.commits.refuse_callbacks();
            }
            is_over
        })?;
        self.check_stall()?;
        Ok(true)
    }
}

impl MemtableOwner for Shared {
    fn wake(self: Arc<Self>) {
        // On another thread: the thread that frees memory may hold the lock that waiters need.
        let woken = self.clone();
        self.run(Box::new(move || {
            drop(woken.tree.lock());
            woken.changed.notify_all();
        }));
    }

    fn run(self: Arc<Self>, job: Box<dyn FnOnce() + Send>) {
        // The job takes over the reference, which may be the last one: a database is not dropped here.
        let executor = self.context.world.executor.clone();
        let job = Box::new(move || {
            job();
            drop(self);
        });
        executor.spawn(Priority::High, job);
    }

    fn flushable(&self) -> usize {
        if self.check_writable().is_err() {
            return 0;
        }
        let families = self.catalog.families();
        let filled = families
            .iter()
            .filter(|family| family.memtable().first_seq().is_some());
        let sizes = filled.map(|family| family.memtable().memory_reserved());
        match self.flushes_atomically() {
            true => sizes.sum(),
            false => sizes.max().unwrap_or(0),
        }
    }

    fn stuck(&self) -> usize {
        if !self.errors.stop_writes() && self.check_stall().is_ok() {
            return 0;
        }
        let views = self.catalog.families();
        let views = views.iter().map(|family| family.view());
        views
            .map(|view| {
                view.memtables()
                    .map(|it| it.memory_reserved())
                    .sum::<usize>()
            })
            .sum()
    }

    fn flush_largest(self: Arc<Self>, request: FlushRequest) {
        // Release pairs with the acquire of the leader.
        self.writes.flush_requested.store(true, Ordering::Release);
        self.signals.request_attention();
        self.clone().wake();
        self.spawn_job(Priority::High, move |shared| {
            // If the database receives no writes, this job is the leader.
            if let Ok(lead) = shared.lead_alone() {
                if let Err(error) = shared.flush_for_buffers() {
                    shared.context.info.info(format_args!(
                        "a flush requested by the write buffer manager failed: {error}"
                    ));
                }
                drop(lead);
                shared.telemetry.deliver();
            }
            drop(request);
        });
    }
}

impl Shared {
    /// Switches the memtable that is to be flushed because of the budget, if any. The caller leads.
    pub(crate) fn flush_for_buffers(self: &Arc<Self>) -> Result<bool> {
        self.check_writable()?;
        let picked = self.family_that_buffers_pick();
        if picked.is_empty() {
            return Ok(false);
        }
        self.flush_because(&picked, FlushReason::WriteBufferManager);
        self.switch_memtables(&self.flushed_with(&picked), true)?;
        if let Some(buffers) = &self.writes.buffers {
            buffers.note_flush();
        }
        Ok(true)
    }
}
