//! Callbacks of the program during writes: a callback must not write if that could wait for its own thread,
//! and an insertion that is interrupted by a panic in the program's code ends with an error, so that its
//! group becomes visible like any other.

use cairn_memtable::{COMPARATOR_RULE, in_comparator};
use cairn_observe::callback::{self, Within};
use cairn_types::{Error, Result, SequenceNumber};

use super::commit::Company;
use crate::jobs::background::guarded;
use crate::shared::Shared;

impl Shared {
    /// Returns an error if the thread must not lead, use the log or change options.
    ///
    /// # Errors
    ///
    /// `Busy` with the restriction in a callback that must not.
    #[inline]
    pub(crate) fn may_write(&self) -> Result<()> {
        // Relaxed: as in `insert_guarded`.
        match callback::is_within() || self.signals.insertion_calls_out() {
            false => Ok(()),
            true => self.may_write_within(),
        }
    }

    #[cold]
    fn may_write_within(&self) -> Result<()> {
        callback::may_write(&self.context.info)?;
        check_not_comparing()
    }

    /// Returns an error if the thread must not wait for jobs.
    ///
    /// # Errors
    ///
    /// `Busy` with the restriction in a callback that must not.
    pub(crate) fn may_wait(&self) -> Result<()> {
        callback::may_wait(&self.context.info)?;
        check_not_comparing()
    }

    /// Runs `pick`, which compares keys under the lock of the tree.
    pub(crate) fn picking<T>(&self, pick: impl FnOnce() -> T) -> T {
        callback::within(&self.context.info, Within::Picking, pick)
    }

    /// [`Shared::insert`], with a panic of the program's comparator, prefix extractor or merge operator as an
    /// error.
    #[inline]
    pub(crate) fn insert_guarded(
        &self,
        batch: &[u8],
        first: SequenceNumber,
        company: Company,
    ) -> Result<()> {
        guarded("the insertion into a memtable", || {
            // Relaxed: an option takes effect before the first write to which it applies.
            match self.signals.insertion_calls_out() {
                false => self.insert(batch, first, company),
                true => self.insert_calling_out(batch, first, company),
            }
        })
    }

    #[cold]
    #[inline(never)]
    fn insert_calling_out(
        &self,
        batch: &[u8],
        first: SequenceNumber,
        company: Company,
    ) -> Result<()> {
        callback::within(&self.context.info, Within::Insertion, || {
            self.insert(batch, first, company)
        })
    }
}

/// A comparator may run under the lock of a memtable that a job or another writer is waiting for.
fn check_not_comparing() -> Result<()> {
    match in_comparator() {
        true => Err(Error::busy(COMPARATOR_RULE)),
        false => Ok(()),
    }
}
