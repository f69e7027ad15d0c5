//! Idle workers that help a running compaction.
//!
//! While there are no writes and the process leaves a core idle, the threads that `max_background_jobs` permits and that are
//! idle help running compactions, so that all of them are used even by a single compaction. Otherwise the cores are left
//! to writers and readers: a reader that shares its core with a helper waits for milliseconds. A check costs a clock
//! reading; every [`CHECK_INTERVAL`] a check also reads the CPU time of the process and acquires the lock of the tree.

use std::sync::Arc;
use std::time::Duration;

use cairn_jobs::{Permit, RequestThread};
use cairn_platform::cores;
use cairn_platform::sync::Mutex;

use crate::shared::Shared;

/// The interval of checks for writes. It is longer than occasional waits of a writer for the device.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The maximum number of records written in an interval that still counts as no writes.
const FEW: u64 = 50;

/// The time, the CPU time of the process, and the latest sequence number at a check.
#[derive(Clone, Copy)]
struct Look {
    nanos: u64,
    cpu_nanos: u64,
    seq: u64,
}

impl Look {
    /// True if there were few writes since `last`, and the process left one of `cores` cores idle for at least three
    /// quarters of the time.
    fn permits_help(self, last: Look, cores: usize) -> bool {
        let elapsed = self.nanos.saturating_sub(last.nanos);
        let used = self.cpu_nanos.saturating_sub(last.cpu_nanos);
        let idle = elapsed.saturating_mul(cores as u64).saturating_sub(used);
        self.seq.saturating_sub(last.seq) <= FEW && idle >= elapsed / 4 * 3
    }
}

impl Shared {
    /// Returns the source of spare threads for a compaction that starts now.
    pub(crate) fn spare(self: &Arc<Self>) -> Arc<RequestThread> {
        let shared = self.clone();
        let cores = cores::count();
        let last = Mutex::new(shared.look(shared.context.world.clock.monotonic_nanos()));
        Arc::new(move || {
            {
                let mut last = last.lock();
                let nanos = shared.context.world.clock.monotonic_nanos();
                if nanos.saturating_sub(last.nanos) < CHECK_INTERVAL.as_nanos() as u64 {
                    return None;
                }
                let now = shared.look(nanos);
                if !now.permits_help(std::mem::replace(&mut *last, now), cores) {
                    return None;
                }
            }
            shared.spared()
        })
    }

    /// A look at the time `nanos`, which is now.
    fn look(&self, nanos: u64) -> Look {
        Look {
            nanos,
            cpu_nanos: self.context.world.clock.process_cpu_nanos(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_is_permitted_while_a_core_is_idle_and_few_writes_occur() {
        let last = Look {
            nanos: 1_000_000,
            cpu_nanos: 5_000_000,
            seq: 70,
        };
        let after_50_ms = |cpu_millis: u64, written: u64| Look {
            nanos: last.nanos + 50_000_000,
            cpu_nanos: last.cpu_nanos + cpu_millis * 1_000_000,
            seq: last.seq + written,
        };
        // The compaction alone on two cores.
        assert!(after_50_ms(50, 0).permits_help(last, 2));
        assert!(after_50_ms(60, FEW).permits_help(last, 2));
        // With a reader, or two compactions.
        assert!(!after_50_ms(100, 0).permits_help(last, 2));
        assert!(!after_50_ms(70, 0).permits_help(last, 2));
        assert!(after_50_ms(100, 0).permits_help(last, 3));
        assert!(!after_50_ms(50, FEW + 1).permits_help(last, 2));
        assert!(!after_50_ms(50, 0).permits_help(last, 1));
        // The CPU time is unknown.
        assert!(after_50_ms(0, 0).permits_help(last, 1));
        // The counters of a clock that a program supplies need not be monotonic.
        let earlier = Look {
            nanos: 0,
            cpu_nanos: 0,
            seq: 70,
        };
        assert!(earlier.permits_help(last, 1));
    }
}
