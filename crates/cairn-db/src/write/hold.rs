//! Holding writes back while jobs are behind: those of the families whose jobs are, and no others.
//!
//! A writer waits here before it joins the queue, so that writes of other families pass it. What a
//! family asks for is decided in [`super::stall`], whenever its tree or its memtables change. Cost
//! where no family is behind: one load.

use std::sync::Arc;

use cairn_observe::perf::{self, PerfMetric};
use cairn_platform::sync::Ordering;
use cairn_types::{Error, Result};

use super::stall::Condition;
use crate::batch::WriteBatch;
use crate::family::FamilyState;
use crate::shared::{Shared, Tree};

impl Shared {
    /// Waits until the families that `batch` writes to can take it. With `no_slowdown` a wait is an
    /// error.
    #[inline]
    pub(crate) fn hold_back(&self, batch: &WriteBatch, no_slowdown: bool) -> Result<()> {
        // Acquire pairs with the store of whoever found that a family has to be held back.
        match self.some_are_held_back.load(Ordering::Acquire) {
            false => Ok(()),
            true => self.hold_back_slowly(batch, no_slowdown),
        }
    }

    #[cold]
    fn hold_back_slowly(&self, batch: &WriteBatch, no_slowdown: bool) -> Result<()> {
        let families = self.families.load_full();
        let written = families.iter().filter(|state| batch.writes_to(state.id()));
        let written: Vec<_> = written.filter(|state| state.is_held_back()).collect();
        if written.is_empty() {
            return Ok(());
        }
        let began = self.world.clock.monotonic_nanos();
        let condition = worst(&self.tree.lock(), &written);
        if no_slowdown && condition != Condition::Normal {
            return Err(Error::incomplete(format!(
                "writes are slowed down ({condition:?}) and no_slowdown is set"
            )));
        }
        match condition {
            Condition::Normal => return Ok(()),
            Condition::Delayed(_) => {
                let bytes = batch.data().len();
                let delays = written
                    .iter()
                    .map(|family| family.throttle.delay(bytes, began));
                self.world.clock.sleep(delays.max().unwrap_or_default());
            }
            Condition::Stopped(_) => {
                self.wait_until(|tree| {
                    !matches!(worst(tree, &written), Condition::Stopped(_))
                        || self.check_writable().is_err()
                        || self.check_stall().is_err()
                });
                self.check_writable()?;
                self.check_stall()?;
            }
        }
        let waited = self.world.clock.monotonic_nanos().saturating_sub(began);
        self.counters.stall_micros.add(waited / 1000);
        self.tally_stall(waited / 1000);
        perf::count(|perf| perf.add(PerfMetric::WriteDelayTime, waited));
        Ok(())
    }
}

/// The gravest condition of `families`. One that was dropped asks for nothing.
fn worst(tree: &Tree, families: &[&Arc<FamilyState>]) -> Condition {
    let states = families
        .iter()
        .filter_map(|family| tree.families.get(&family.id()));
    states.fold(Condition::Normal, |worst, state| {
        worst.worse(state.condition)
    })
}
