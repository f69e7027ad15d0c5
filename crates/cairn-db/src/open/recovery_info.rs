//! Facts about the opening of a database.

use std::collections::BTreeMap;

use cairn_platform::sync::{Mutex, OnceLock};
use cairn_types::SequenceNumber;

use super::dropped_records::Dropped;
use crate::files::capture::Capture;

/// Facts about the opening of a database.
#[derive(Default)]
pub(crate) struct RecoveryInfo {
    dropped: Mutex<Vec<Dropped>>,
    /// Entries of families up to these numbers are in tables, though the MANIFEST does not say so: the database was
    /// repaired.
    replay_above: BTreeMap<u32, SequenceNumber>,
    /// The files that were read, if the database is only read.
    capture: OnceLock<Capture>,
}

impl RecoveryInfo {
    /// Nothing is known but that entries up to `replay_above` are in tables.
    pub(crate) fn new(replay_above: BTreeMap<u32, SequenceNumber>) -> RecoveryInfo {
        RecoveryInfo {
            replay_above,
            ..RecoveryInfo::default()
        }
    }

    /// For each family the number above which entries of logs are replayed; none for most.
    pub(crate) fn replay_above(&self) -> &BTreeMap<u32, SequenceNumber> {
        &self.replay_above
    }

    /// Recovery has left out a part of a log.
    pub(crate) fn add_dropped(&self, dropped: Dropped) {
        self.dropped.lock().push(dropped);
    }

    /// The parts of logs that recovery has left out.
    pub(crate) fn dropped(&self) -> Vec<Dropped> {
        self.dropped.lock().clone()
    }

    /// True if recovery has left out a part of a log.
    pub(crate) fn has_dropped(&self) -> bool {
        !self.dropped.lock().is_empty()
    }

    /// Keeps the files that were read. The first call counts.
    pub(crate) fn set_capture(&self, capture: Capture) {
        self.capture.get_or_init(|| capture);
    }

    /// The files that were read.
    pub(crate) fn capture(&self) -> Option<Capture> {
        self.capture.get().cloned()
    }
}
