//! Idle workers that help a running compaction.
//!
//! While there are no writes, the threads that `max_background_jobs` permits and that are idle help running
//! compactions, so that all of them are used even by a single compaction. While there are writes, the
//! processors are left to the writers. A check costs a clock reading; every [`CHECK_INTERVAL`] a check also
//! acquires the lock of the tree.

use std::sync::Arc;
use std::time::Duration;

use cairn_jobs::{Permit, RequestThread};
use cairn_platform::sync::Mutex;

use crate::shared::Shared;

/// The interval of checks for writes. It is longer than occasional waits of a writer for the device.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The maximum number of records written in an interval that still counts as no writes.
const FEW: u64 = 50;

/// The time and the latest sequence number at the last check of a job.
struct Look {
    nanos: u64,
    seq: u64,
}

impl Shared {
    /// Returns the source of spare threads for a compaction that starts now.
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

    /// A spare thread within the limit on jobs.
    fn spared(&self) -> Option<Permit> {
        let (flushes, compactions) = self.options().background_limits();
        let helper = self.tree.lock().jobs.begin_helper(flushes + compactions)?;
        Some(Box::new(helper))
    }
}
