//! A filter of the log: the user's own code sees every batch that recovery reads, and decides.

use std::collections::BTreeMap;

use crate::number::FileNumber;

/// What recovery does with a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WalDecision {
    /// It is applied.
    Continue,
    /// This is applied in its place, under the same sequence number: a batch in the log's form, of
    /// no more entries.
    Change(Vec<u8>),
    /// It is left out.
    Ignore,
    /// It is left out, and so is everything behind it.
    Stop,
    /// It is damaged, and recovery does what it does about damage.
    Corrupted,
}

/// Sees the batches of the logs while a database is opened.
pub trait WalFilter: Send + Sync {
    /// The name that OPTIONS files record.
    fn name(&self) -> &str;

    /// Called once, before the first batch: which log each family's unflushed data begins in, by the
    /// family's id, and the ids by name.
    fn families(&self, log_numbers: &BTreeMap<u32, FileNumber>, ids: &BTreeMap<String, u32>) {
        let _ = (log_numbers, ids);
    }

    /// Decides about `batch`, which the log of this number and path holds.
    fn record(&self, log: FileNumber, path: &str, batch: &[u8]) -> WalDecision;
}
