//! The duties of a writer to others, met also when the program's own code panics under it: the lead goes to the
//! next writer, the members of a group learn how it ended, and an insertion that is cut short ends with an error,
//! so that the group is passed like any other.

use std::sync::Arc;

use cairn_memtable::{COMPARATOR_RULE, in_comparator};
use cairn_observe::callback::{self, Within};
use cairn_types::{Error, Result, SequenceNumber};

use super::insert::Company;
use super::queue::{Queue, Waiter};
use crate::locks::Held;
use crate::shared::Shared;

/// The lead of the write queue. Dropped, it goes to the next writer.
pub(crate) struct Lead<'q> {
    queue: &'q Queue,
    _held: Held,
}

impl<'q> Lead<'q> {
    /// The lead, which the caller has; `held` notes that it does.
    #[inline]
    pub(crate) fn new(queue: &'q Queue, held: Held) -> Lead<'q> {
        Lead { queue, _held: held }
    }
}

impl Drop for Lead<'_> {
    #[inline]
    fn drop(&mut self) {
        self.queue.hand_over();
    }
}

/// The waiters that a leader took out of the queue, while they have no turn yet. Dropped, it ends their
/// writes with an error; a leader that gives them their turns forgets it.
pub(crate) struct Untold<'w>(pub(crate) &'w [Arc<Waiter>]);

impl Drop for Untold<'_> {
    #[cold]
    fn drop(&mut self) {
        for follower in self.0 {
            follower.finish(Err(Error::aborted(
                "the writer that carried this write panicked",
            )));
        }
    }
}

impl Shared {
    /// True if the thread may lead, and change options.
    ///
    /// # Errors
    ///
    /// `Busy` with the rule in a callback that may not.
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
        is_not_comparing()
    }

    /// True if the thread may wait for jobs.
    ///
    /// # Errors
    ///
    /// `Busy` with the rule in a callback that may not.
    pub(crate) fn may_wait(&self) -> Result<()> {
        callback::may_wait(&self.context.info)?;
        is_not_comparing()
    }

    /// [`Shared::insert`] with a panic of the program's comparator, prefix extractor or merge operator as an error.
    #[inline]
    pub(crate) fn insert_guarded(
        &self,
        batch: &[u8],
        first: SequenceNumber,
        company: Company,
    ) -> Result<()> {
        self.guarded("the insertion into a memtable", || {
            // Relaxed: an option is in force before the first write that it is for.
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

/// A comparator may run under the lock of a memtable, for which a job or another writer waits.
fn is_not_comparing() -> Result<()> {
    match in_comparator() {
        true => Err(Error::busy(COMPARATOR_RULE)),
        false => Ok(()),
    }
}
