//! WAL filters: user code that inspects every batch during recovery.

use std::collections::BTreeMap;

use crate::number::FileNumber;

/// A filter's decision on a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WalDecision {
    /// Applies the batch.
    Continue,
    /// Applies this batch instead, with the same sequence number. It must be a well-formed write
    /// batch with no more entries than the original.
    Change(Vec<u8>),
    /// Skips the batch.
    Ignore,
    /// Skips the batch and everything after it.
    Stop,
    /// Treats the batch as corrupt, subject to the recovery mode.
    Corrupted,
}

/// A filter applied to the batches replayed when a database is opened.
pub trait WalFilter: Send + Sync {
    /// The name recorded in OPTIONS files.
    fn name(&self) -> &str;

    /// Called once before the first batch, with the first WAL that each column family still needs, by family
    /// id, and the ids by family name.
    fn families(&self, log_numbers: &BTreeMap<u32, FileNumber>, ids: &BTreeMap<String, u32>) {
        let _ = (log_numbers, ids);
    }

    /// Returns the decision on `batch`, a record of the WAL with this number and path.
    fn record(&self, log: FileNumber, path: &str, batch: &[u8]) -> WalDecision;
}
