//! Threads spared for a compaction that runs already.
//!
//! While there are no writes, the threads that `max_background_jobs` allows and that have nothing to do help
//! the compactions that run: what a load leaves behind is compacted by all of them, although it may be
//! one compaction. While there are writes, they leave the processors to the writers. A look costs a glance at the
//! clock; every [`LOOK_EVERY`] one costs the lock of the tree.

use std::sync::Arc;
use std::time::Duration;

use cairn_jobs::{Permit, RequestThread};
use cairn_platform::sync::Mutex;

use crate::shared::Shared;

/// The time without writes. Longer than a writer waits for a device now and then.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Records in that time that still count as no writes.
const FEW: u64 = 50;

/// When a job looked last, and which record was the newest then.
struct Look {
    nanos: u64,
    seq: u64,
}

impl Shared {
    /// The source of spare threads for a compaction that begins now.
    pub(crate) fn spare(self: &Arc<Self>) -> Arc<RequestThread> {
        let shared = self.clone();
        let last = Mutex::new(shared.look());
        Arc::new(move || {
            let now = shared.look();
            {
                let mut last = last.lock();
                if now.nanos.saturating_sub(last.nanos) < LOOK_EVERY.as_nanos() as u64 {
                    return None;
                }
                let written = now.seq.saturating_sub(last.seq);
                *last = now;
                if written > FEW {
                    return None;
                }
            }
            shared.spared()
        })
    }

    fn look(&self) -> Look {
        Look {
            nanos: self.context.world.clock.monotonic_nanos(),
            seq: self.published().0,
        }
    }

    /// A thread that the limit of jobs leaves.
    fn spared(&self) -> Option<Permit> {
        let (flushes, compactions) = self.options().background_limits();
        let helper = self.tree.lock().jobs.begin_helper(flushes + compactions)?;
        Some(Box::new(helper))
    }
}
