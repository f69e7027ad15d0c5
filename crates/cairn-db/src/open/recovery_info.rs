//! Results of the recovery of a database.

use std::collections::BTreeMap;

use cairn_format::batch::PreparePolicy;
use cairn_platform::sync::{Mutex, OnceLock};
use cairn_types::SequenceNumber;

use super::dropped_records::Dropped;
use crate::files::capture::Capture;

/// Results of the recovery of a database.
#[derive(Default)]
pub(crate) struct RecoveryInfo {
    dropped: Mutex<Vec<Dropped>>,
    /// Entries of families up to these numbers are in tables, although the MANIFEST does not record it: the
    /// database was repaired.
    replay_above: BTreeMap<u32, SequenceNumber>,
    /// The write policy of the logs.
    policy: Option<PreparePolicy>,
    /// The files that were read, for a read-only database.
    capture: OnceLock<Capture>,
}

impl RecoveryInfo {
    /// Creates the results of a recovery in which entries up to `replay_above` are in tables, and logs were written with
    /// the write policy `policy`.
    pub(crate) fn new(
        replay_above: BTreeMap<u32, SequenceNumber>,
        policy: PreparePolicy,
    ) -> RecoveryInfo {
        RecoveryInfo {
            replay_above,
            policy: Some(policy),
            ..RecoveryInfo::default()
        }
    }

    /// Returns the number, for each family, above which entries of logs are replayed; empty in most cases.
    pub(crate) fn replay_above(&self) -> &BTreeMap<u32, SequenceNumber> {
        &self.replay_above
    }

    /// Returns the write policy of the logs.
    pub(crate) fn policy(&self) -> PreparePolicy {
        self.policy.unwrap_or(PreparePolicy::WriteCommitted)
    }

    /// Records that recovery dropped a part of a log.
    pub(crate) fn add_dropped(&self, dropped: Dropped) {
        self.dropped.lock().push(dropped);
    }

    /// Returns the parts of logs that recovery dropped.
    pub(crate) fn dropped(&self) -> Vec<Dropped> {
        self.dropped.lock().clone()
    }

    /// True if recovery dropped a part of a log.
    pub(crate) fn has_dropped(&self) -> bool {
        !self.dropped.lock().is_empty()
    }

    /// Sets the files that were read. Only the first call has an effect.
    pub(crate) fn set_capture(&self, capture: Capture) {
        self.capture.get_or_init(|| capture);
    }

    /// Returns the files that were read.
    pub(crate) fn capture(&self) -> Option<Capture> {
        self.capture.get().cloned()
    }
}
