//! The memory budget of memtables: the `WriteBufferManager` as the leader of the write queue obeys it.

use std::sync::Arc;

use cairn_memory::write_buffer::{FlushPolicy, Woken};
use cairn_platform::Priority;
use cairn_types::{Error, Result};

use crate::catalog::family::FamilyState;
use crate::locks::Rank;
use crate::shared::Shared;

impl Shared {
    pub(crate) fn buffers_want_a_flush(&self) -> bool {
        let buffers = self.writes.buffers.as_ref();
        buffers.is_some_and(|buffers| buffers.should_flush())
    }

    /// The family that the flush policy of the budget picks; none if all memtables are empty.
    pub(crate) fn family_that_buffers_pick(&self) -> Vec<Arc<FamilyState>> {
        match self
            .writes
            .buffers
            .as_ref()
            .map(|buffers| buffers.flush_policy())
        {
            Some(FlushPolicy::Largest) => self.family_of_largest_memtable(),
            _ => self.family_of_oldest_memtable(),
        }
    }

    fn family_of_largest_memtable(&self) -> Vec<Arc<FamilyState>> {
        let families = self.catalog.families();
        let filled = families
            .iter()
            .filter(|family| family.memtable().first_seq().is_some());
        let largest = filled.max_by_key(|family| family.memtable().memory_usage());
        largest.cloned().into_iter().collect()
    }

    /// The family whose memtable has been filled for longest.
    fn family_of_oldest_memtable(&self) -> Vec<Arc<FamilyState>> {
        let families = self.catalog.families();
        let filled = families.iter().filter_map(|family| {
            let first = family.memtable().first_seq()?;
            Some((first, family.clone()))
        });
        let oldest = filled.min_by_key(|(first, _)| *first);
        oldest.map(|(_, family)| family).into_iter().collect()
    }

    /// Waits while the write buffer manager stalls writes. Returns true if it waited. The caller leads.
    pub(crate) fn wait_for_buffers(&self, no_slowdown: bool) -> Result<bool> {
        debug_assert!(self.context.locks.is_held(Rank::Lead), "the caller leads");
        let Some(buffers) = self.writes.buffers.as_ref().filter(|b| b.should_stall()) else {
            return Ok(false);
        };
        // Where nothing of this database waits to be flushed, another one has to give way; this
        // one would wait for it with nothing to wake it if it were never written to.
        self.signals.request_attention();
        if no_slowdown {
            return Err(Error::incomplete(
                "memtables have used up the write buffer manager's budget and no_slowdown is set",
            ));
        }
        self.telemetry.record_buffer_stop();
        self.wait_until(|_| !buffers.should_stall() || self.check_writable().is_err())?;
        Ok(true)
    }
}

impl Woken for Shared {
    fn wake(self: Arc<Self>) {
        // On a thread of its own: the thread that gives memory back may hold the lock that waiters need.
        let shared = self.clone();
        self.context.world.executor.spawn(
            Priority::High,
            Box::new(move || {
                drop(shared.tree.lock());
                shared.changed.notify_all();
            }),
        );
    }
}
