//! Save points: the state to which a part of a transaction can be taken back.

use std::sync::Arc;

use cairn_db::Snapshot;
use cairn_locks::TransactionState;
use cairn_types::{Error, Result};

use super::{NextSnapshot, Policy, Transaction, WriteCounts};
use crate::tracker::Tracker;

/// A save point.
pub(super) struct SavePoint {
    snapshot: Option<Arc<Snapshot>>,
    next_snapshot: NextSnapshot,
    counts: WriteCounts,
    /// The accesses since the save point, up to the next one.
    pub(super) since: Tracker,
}

impl Transaction {
    /// Sets a save point.
    pub fn set_save_point(&mut self) {
        self.save_points.push(SavePoint {
            snapshot: self.snapshot.clone(),
            next_snapshot: self.next_snapshot.clone(),
            counts: self.counts,
            since: Tracker::default(),
        });
        self.batch.set_save_point();
    }

    /// Takes back everything since the last save point, and removes it. Keys that were locked since then are unlocked.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no save point; `InvalidArgument` if the transaction has ended.
    pub fn rollback_to_save_point(&mut self) -> Result<()> {
        if self.state() != TransactionState::Started {
            return Err(Error::invalid_argument(
                "Transaction is beyond state for rollback.",
            ));
        }
        self.take_back_to_save_point()
    }

    /// [`Transaction::rollback_to_save_point`] in any state, for a write that was not completed.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no save point.
    pub(super) fn take_back_to_save_point(&mut self) -> Result<()> {
        let Some(point) = self.save_points.pop() else {
            return Err(no_save_point());
        };
        self.snapshot = point.snapshot;
        self.next_snapshot = point.next_snapshot;
        self.counts = point.counts;
        let gone = self.tracker.subtract(point.since);
        if let Policy::Pessimistic(own) = &self.policy {
            for key in gone {
                own.locking.locks.unlock(&key, own.owner.id);
            }
        }
        self.batch.rollback_to_save_point()
    }

    /// Removes the last save point. Everything since then belongs to the save point before.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no save point.
    pub fn pop_save_point(&mut self) -> Result<()> {
        let Some(point) = self.save_points.pop() else {
            return Err(no_save_point());
        };
        if let Some(before) = self.save_points.last_mut() {
            before.since.merge(point.since);
        }
        self.batch.pop_save_point()
    }
}

#[cold]
fn no_save_point() -> Error {
    Error::not_found("the transaction has no save point")
}
