//! Delays of writes to families whose flushes or compactions are behind.
//!
//! A writer waits here before it joins the queue, so that writes to other families can pass it. The condition
//! of a family is set by [`super::stall`], whenever its tree or its memtables change, and by [`super::pace`],
//! while its memtable is nearly full. Without a stalled family the cost is one load.

use std::sync::Arc;
use std::time::Duration;

use cairn_observe::Level;
use cairn_observe::perf::{self, PerfMetric};
use cairn_types::{Error, Result};

use super::stall::{Cause, Condition};
use crate::catalog::family::FamilyState;
use crate::shared::{FamilyTree, Shared, Tree};
use crate::write::batch::WriteBatch;

/// The maximum sleep of a delayed write before it checks the condition again.
const LONGEST_SLEEP: Duration = Duration::from_millis(5);

impl Shared {
    /// Waits until the families that `batch` writes to accept it. With `no_slowdown`, returns an error
    /// instead of waiting.
    #[inline]
    pub(crate) fn delay_write(&self, batch: &WriteBatch, no_slowdown: bool) -> Result<()> {
        // Acquire pairs with the store by which a family is marked as delayed.
        match self.signals.has_stalls() {
            false => Ok(()),
            true => self.delay_write_slowly(batch, no_slowdown),
        }
    }

    #[cold]
    fn delay_write_slowly(&self, batch: &WriteBatch, no_slowdown: bool) -> Result<()> {
        // A callback may run under the lock of the tree.
        self.may_write()?;
        let families = self.catalog.families().clone();
        let written = families.iter().filter(|state| batch.writes_to(state.id()));
        let written: Vec<_> = written
            .filter(|state| state.writes.is_held_back())
            .collect();
        if written.is_empty() {
            return Ok(());
        }
        let began = self.context.world.clock.monotonic_nanos();
        let mut condition = worst(&self.tree.lock(), &written);
        if no_slowdown && condition != Condition::Normal {
            return Err(Error::incomplete(format!(
                "writes are slowed down ({condition:?}) and no_slowdown is set"
            )));
        }
        if condition == Condition::Normal
            && !self.pace_write(&written, batch.data().len(), no_slowdown, began)
        {
            return Ok(());
        }
        if let Condition::Delayed(_) = condition {
            let bytes = batch.data().len();
            let delays = written
                .iter()
                .map(|family| family.writes.throttle.delay(bytes, began));
            let delay = delays.max().unwrap_or_default();
            self.sleep_while(delay, || {
                condition = worst(&self.tree.lock(), &written);
                matches!(condition, Condition::Delayed(_))
            })?;
        }
        if let Condition::Stopped(_) = condition {
            self.wait_until(|tree| {
                !matches!(worst(tree, &written), Condition::Stopped(_))
                    || self.check_writable().is_err()
                    || self.check_stall().is_err()
                    || endless_stop(tree, &written).is_some()
            })?;
            self.check_writable()?;
            self.check_stall()?;
            let endless = endless_stop(&self.tree.lock(), &written);
            endless.map_or(Ok(()), Err)?;
        }
        let waited = self
            .context
            .world
            .clock
            .monotonic_nanos()
            .saturating_sub(began);
        self.telemetry.record_stall(waited / 1000);
        perf::count(|perf| perf.add(PerfMetric::WriteDelayTime, waited));
        Ok(())
    }

    /// Sleeps for `delay`, or until the cause of the delay has cleared.
    ///
    /// # Errors
    ///
    /// The error that prevents writes: there is nothing to wait for then.
    pub(crate) fn sleep_while(
        &self,
        delay: Duration,
        mut has_cause: impl FnMut() -> bool,
    ) -> Result<()> {
        let mut left = delay;
        while !left.is_zero() {
            let part = left.min(LONGEST_SLEEP);
            self.context.world.clock.sleep(part);
            left -= part;
            self.check_writable()?;
            if !has_cause() {
                break;
            }
        }
        Ok(())
    }

    /// Paces writes to those of `families` whose memtables are nearly full and that have no room for another
    /// memtable yet.
    pub(crate) fn slow_down(&self, families: &[Arc<FamilyState>]) {
        let now = self.context.world.clock.monotonic_nanos();
        let tree = self.tree.lock();
        for family in families {
            let state = tree.families.get(&family.id());
            if state.is_some_and(|state| waits_for_flush(state, family))
                && !family.writes.pace.is_on()
            {
                family.writes.pace.begin(now);
                // Release: after the state of the family is stored.
                self.signals.set_stalls(true);
            }
        }
    }

    /// Ends the pacing of writes to `family`, and reports the waits.
    pub(crate) fn end_pace(&self, family: &FamilyState) {
        if !family.writes.pace.is_on() {
            return;
        }
        if let Some(waits) = family
            .writes
            .pace
            .end(self.context.world.clock.monotonic_nanos())
        {
            let text = format_args!(
                "[{}] writes were slowed down for {} ms, with a memtable nearly full and the one before it not flushed: \
                 {} of them waited {} ms together",
                family.name(),
                waits.lasted / 1_000_000,
                waits.writes,
                waits.nanos / 1_000_000,
            );
            // The caller may hold the lock of the tree.
            self.telemetry.log_later(Level::Info, text);
        }
    }

    /// Paces a write of `bytes` to families whose memtables are nearly full. Returns true if it waited. A
    /// write with `no_slowdown` does not wait, since there is room for it.
    fn pace_write(
        &self,
        families: &[&Arc<FamilyState>],
        bytes: usize,
        no_slowdown: bool,
        now: u64,
    ) -> bool {
        if no_slowdown {
            return false;
        }
        let mut waited = false;
        for family in families {
            let left = family
                .full()
                .saturating_sub(family.view().memtable.memory_usage());
            let (wait, first) = family.writes.pace.wait(bytes, left, now);
            if first {
                let cause = Cause::Memtables as usize;
                family.stats.stalled(false, cause, false);
            }
            waited |= !wait.is_zero();
            // If writes are not permitted, the leader returns the error.
            let _ = self.sleep_while(wait, || family.writes.pace.is_on());
        }
        waited
    }
}

/// True if `family` stops writes when its memtable is full.
pub(crate) fn waits_for_flush(state: &FamilyTree, family: &FamilyState) -> bool {
    let most = usize::try_from(family.options().max_write_buffer_number).unwrap_or(2);
    !state.immutables.is_empty() && state.immutables.len() + 1 >= most
}

/// Returns the worst condition of `families`. Dropped ones have none.
fn worst(tree: &Tree, families: &[&Arc<FamilyState>]) -> Condition {
    let states = families
        .iter()
        .filter_map(|family| tree.families.get(&family.id()));
    states.fold(Condition::Normal, |worst, state| {
        worst.worse(state.condition)
    })
}

/// Returns the error for which writes to one of `families` would wait in vain.
fn endless_stop(tree: &Tree, families: &[&Arc<FamilyState>]) -> Option<Error> {
    let mut states = families
        .iter()
        .filter_map(|family| Some((family, tree.families.get(&family.id())?)));
    states.find_map(|(family, state)| state.endless_stop(family))
}
