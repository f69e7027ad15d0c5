//! The interface between the catalog and the write path: the state of the logs for a MANIFEST, and the
//! effects of a durable edit on memtables and logs.

use std::collections::BTreeMap;
use std::sync::Arc;

use cairn_format::manifest::LogReach;
use cairn_observe::BackgroundErrorReason;
use cairn_types::{Error, FileNumber, Result, SequenceNumber};

use super::family::FamilyState;
use super::install::Change;

/// The services that the catalog needs from memtables and logs.
pub(crate) trait CatalogEnv {
    /// Makes the logs before `log` durable. Called before the MANIFEST records that some family does not need
    /// them: otherwise a power failure could lose writes to the other families, but not those to this one.
    fn sync_logs_before(&self, log: FileNumber) -> Result<()>;

    /// The state of the logs.
    fn log_state(&self) -> LogState;

    /// Applies `edit`, which is durable in the MANIFEST, to memtables and logs, and calls `publish` under the
    /// lock under which views change. The caller holds the lock of the MANIFEST.
    fn installed(&self, edit: &Installed<'_>, publish: impl FnOnce());

    /// Handles a failure of the MANIFEST, with `reason` for listeners.
    fn manifest_failed(&self, reason: BackgroundErrorReason, error: &Error);
}

/// A log that is kept because a memtable has entries of a prepared section in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldLog {
    pub(crate) family: u32,
    /// The place of the memtable among those of the family, oldest first.
    pub(crate) memtable: usize,
    pub(crate) log: FileNumber,
}

/// The state of the logs, as a MANIFEST records it.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogState {
    /// The last sequence number visible to reads.
    pub(crate) last_sequence: SequenceNumber,
    /// The first log that recovery needs, according to the durable MANIFEST.
    pub(crate) first_needed: FileNumber,
    /// The first log with unflushed data of each family.
    pub(crate) families: BTreeMap<u32, FileNumber>,
    /// The first log with a prepared section that is not decided.
    pub(crate) undecided: Option<FileNumber>,
    /// Logs with prepared sections that memtables have entries of.
    pub(crate) held: Vec<HeldLog>,
    /// Lengths of the logs that recovery needs, in bytes; 0 for the current log. Those whose writes failed are left out: it is
    /// unknown what they have.
    pub(crate) lengths: BTreeMap<FileNumber, u64>,
    /// The durable end of the logs at the last ingestion.
    pub(crate) reach: Option<LogReach>,
}

impl LogState {
    /// Returns the first log needed by any family after these changes.
    pub(super) fn first_after(&self, group: &[(&FamilyState, &Change)]) -> FileNumber {
        let needs = self.families.iter().map(|(id, before)| {
            let change = group.iter().find(|(family, _)| family.id() == *id);
            let number = change.and_then(|(_, change)| change.log_number);
            number.unwrap_or_default().max(*before)
        });
        let is_flushed = |held: &HeldLog| {
            let change = group.iter().find(|(family, _)| family.id() == held.family);
            change.is_some_and(|(_, change)| held.memtable < change.flushed.len())
        };
        let held = self.held.iter().filter(|held| !is_flushed(held));
        let needs = needs.chain(held.map(|held| held.log));
        needs.chain(self.undecided).min().unwrap_or_default()
    }

    /// Returns the first log needed by any family other than `family`.
    pub(super) fn first_without(&self, family: &FamilyState) -> FileNumber {
        let others = self.families.iter().filter(|(id, _)| **id != family.id());
        let needs = others.map(|(_, number)| *number);
        let held = self.held.iter().filter(|held| held.family != family.id());
        let needs = needs.chain(held.map(|held| held.log));
        needs
            .chain(self.undecided)
            .min()
            .unwrap_or(self.first_needed)
    }
}

/// An edit that is durable in the MANIFEST.
pub(crate) struct Installed<'a> {
    pub(crate) kind: InstalledKind<'a>,
    /// Recovery needs no log before this one; `None` if the edit does not record that.
    pub(crate) min_log: Option<FileNumber>,
    /// The largest sequence number in ingested files, which becomes visible with them.
    pub(crate) last_sequence: Option<SequenceNumber>,
}

/// The kind of an [`Installed`] edit.
pub(crate) enum InstalledKind<'a> {
    /// Changes of the files of families.
    Changes(&'a [(&'a FamilyState, &'a Change)]),
    /// New families, with their first log.
    Created(&'a [Arc<FamilyState>], FileNumber),
    /// The drop of a family.
    Dropped(&'a FamilyState),
    /// Only a new first log.
    Logs,
}
