//! Idle workers that help a running compaction.
//!
//! While there are no writes, the threads that `max_background_jobs` allows and that are idle help the running
//! compactions, so that all of them work even on a single one. While there are writes, the processors are left to the
//! writers. A check costs one read of the clock; one in every [`CHECK_INTERVAL`] costs the lock of the tree.

use std::sync::Arc;
use std::time::Duration;

use cairn_jobs::{Permit, RequestThread};
use cairn_platform::sync::Mutex;

use crate::shared::Shared;

/// The interval of checks for writes. Longer than a writer waits for a device now and then.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Records written in that time that still count as no writes.
const FEW: u64 = 50;

/// The time and the newest record at the last check of a job.
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
                if now.nanos.saturating_sub(last.nanos) < CHECK_INTERVAL.as_nanos() as u64 {
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
