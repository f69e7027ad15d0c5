//! The commit pipeline: from a batch to logged entries in memtables that are visible to reads.
//!
//! ```text
//! batch -> queue -> [prepare] -> sequence numbers -> one log append (and sync) for the group
//!       -> hand over the lead -> every member inserts its own batch -> visible once all before it are
//! ```
//!
//! The pipeline owns the write queue, the sequence numbers, and the order in which groups become visible. All
//! other services of a database are behind [`CommitEnv`], so that tests run it with a log and a memtable of
//! their own.
//!
//! The next group is logged while this one inserts. An operation that needs exclusive access to the memtables
//! takes the lead alone ([`CommitPipeline::lead_alone`]), which waits for insertions in progress.
//!
//! Invariants:
//!
//! C1. Only the leader assigns sequence numbers; each group gets the numbers following those of the previous
//! group, and groups are logged in that order.
//! C2. A batch is inserted only after its group is logged, and visible only after it and all earlier ones are
//! inserted.
//! C3. Every member of a group gets the outcome of the group, even if the leader panics.
//! C4. The numbers of a logged group count as used even if an insertion fails: the group becomes visible like
//! any other, so that later groups can.
//!
//! Cost of an uncontended commit: two swaps of the queue's lead, the calls of the environment, one swap.

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::Arc;

use cairn_memory::CacheCharge;
#[cfg(not(loom))]
use cairn_platform::sync::{AtomicU64, Ordering};
use cairn_types::{Error, Result, SequenceNumber};

#[cfg(loom)]
use super::loomed::{AtomicU64, Ordering};
use super::order::Order;
use super::queue::{Batch, Group, HeldBack, Kind, Mode, OwnedBatch, Queue, Turn, Waiter};
use crate::locks::{Held, Locks, Rank};

/// The services that a commit needs from the rest of the database.
pub(crate) trait CommitEnv {
    /// Charges the copy of a waiting batch of `bytes`; `None` if such copies are not charged.
    fn charge_batch(&self, bytes: usize) -> Option<CacheCharge>;

    /// Returns the error for a thread that must not wait for jobs.
    fn may_wait(&self) -> Result<()>;

    /// Prepares memtables and log for the next group. The caller leads; an error fails its batch alone.
    fn prepare(&self, no_slowdown: bool) -> Result<()>;

    /// The maximum bytes of batches in a group whose leader writes `bytes`.
    fn group_limit(&self, bytes: usize) -> usize;

    /// Appends a group to the log, and syncs it if its mode requires that. After an error it is unknown
    /// whether the group was logged, and the environment must reject later ones.
    fn log(&self, group: &LoggedGroup<'_>) -> Result<()>;

    /// True if the batches of a group must be inserted sequentially, with earlier groups visible.
    fn inserts_in_turn(&self) -> bool;

    /// Inserts a batch whose first record has the sequence number `first`. Does not panic.
    fn insert(&self, batch: Batch<'_>, first: SequenceNumber, company: Company) -> Result<()>;

    /// Handles the failure of an insertion of a group that is logged.
    fn insertion_failed(&self, error: &Error);
}

/// A group that is being logged.
pub(crate) struct LoggedGroup<'a> {
    /// The logged parts of the batches, each with the sequence number of its first record.
    pub(crate) batches: &'a [(SequenceNumber, &'a [u8])],
    /// Sequence numbers that the batches take together.
    pub(crate) keys: u64,
    pub(crate) mode: Mode,
}

/// The concurrency of the insertion of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    /// No concurrent insertions, and every earlier write is in the memtables: operands are merged as they are
    /// inserted if `max_successive_merges` is set.
    None,
    /// The batch is the only one of its group. Batches of later groups may be inserted concurrently.
    OtherGroups,
    /// Other batches of the same group are inserted concurrently.
    Group,
}

/// The commit pipeline of one database.
pub(crate) struct CommitPipeline {
    queue: Queue,
    order: Order,
    /// The last assigned sequence number. Changed only by the leader.
    allocated: AtomicU64,
    /// The locks of the database, one of which is the lead; `None` in tests.
    locks: Option<Locks>,
}

impl CommitPipeline {
    /// Creates a pipeline without writes, for a database with these locks.
    pub(crate) fn new(locks: Option<Locks>) -> CommitPipeline {
        CommitPipeline {
            queue: Queue::default(),
            order: Order::default(),
            allocated: AtomicU64::new(0),
            locks,
        }
    }

    /// Returns the last sequence number visible to reads.
    #[inline]
    pub(crate) fn visible(&self) -> SequenceNumber {
        self.order.visible()
    }

    /// Returns the last assigned sequence number. Reliable only for the leader.
    #[inline]
    pub(crate) fn allocated(&self) -> SequenceNumber {
        // Relaxed: the lead is passed between threads with acquire and release.
        SequenceNumber(self.allocated.load(Ordering::Relaxed))
    }

    /// Marks every sequence number up to `last` as assigned and visible, for entries that were added
    /// otherwise: by recovery or an ingestion. No insertion is in progress; the caller leads, or opens the
    /// database.
    pub(crate) fn skip_to(&self, last: SequenceNumber) {
        let last = self.allocated().max(last);
        assert!(self.visible() <= last, "visible numbers are assigned");
        self.allocated.store(last.0, Ordering::Relaxed);
        self.order.jump(last);
    }

    /// Commits `batch`: when this returns without an error, it is logged as `mode` requires, inserted and
    /// visible. Batches of other threads may be in the same group.
    ///
    /// # Errors
    ///
    /// Those of the environment, for the group that the batch was in.
    #[inline]
    pub(crate) fn commit(&self, env: &impl CommitEnv, batch: Batch<'_>, mode: Mode) -> Result<()> {
        self.commit_after(env, batch, mode, || ())
    }

    /// [`CommitPipeline::commit`] with a call of `queued` when the position of the batch in the order of writes is
    /// fixed. It runs on the caller's thread, which may lead, and does not panic.
    ///
    /// # Errors
    ///
    /// Those of [`CommitPipeline::commit`].
    #[inline]
    pub(crate) fn commit_after(
        &self,
        env: &impl CommitEnv,
        batch: Batch<'_>,
        mode: Mode,
        queued: impl FnOnce(),
    ) -> Result<()> {
        let kind = Kind::Batch(mode);
        let mut charge = None;
        let waiter = self.queue.join(|| {
            charge = env.charge_batch(batch.len());
            Waiter::new(kind, OwnedBatch::new(&batch), env.may_wait())
        });
        queued();
        let Some(waiter) = waiter else {
            return self.lead(env, batch, mode, || Ok(()));
        };
        match waiter.wait() {
            Turn::Lead => self.lead(env, batch, mode, || Ok(())),
            Turn::Insert(seq, group) => {
                let inserted = env.insert(waiter.batch.get(), seq, Company::Group);
                self.end_insertion(env, &group, inserted)
            }
            Turn::Finished(result) => result,
        }
    }

    /// [`CommitPipeline::commit`] of a batch on a condition: `check` runs with all earlier writes inserted and visible,
    /// and no other write is committed between it and the batch. If it fails, nothing is written. The batch joins no
    /// group of another writer; others may join its group.
    ///
    /// # Errors
    ///
    /// That of `check`; those of [`CommitPipeline::commit`].
    pub(crate) fn commit_if(
        &self,
        env: &impl CommitEnv,
        batch: Batch<'_>,
        mode: Mode,
        check: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let kind = Kind::Conditional(mode);
        self.queue.lead_alone(kind, || env.may_wait())?;
        self.lead(env, batch, mode, || {
            self.wait_for_insertions();
            check()
        })
    }

    /// Takes the lead for an exclusive operation, with all earlier writes inserted and visible, until the
    /// result is dropped. `may_wait` returns the error for a thread that must not wait for jobs.
    ///
    /// # Errors
    ///
    /// That of `may_wait` if the leader waits for a job.
    pub(crate) fn lead_alone(&self, may_wait: impl FnOnce() -> Result<()>) -> Result<Lead<'_>> {
        // First: a lock out of order must panic before waiting for the lead.
        let held = self.note_lead();
        self.queue.lead_alone(Kind::Alone, may_wait)?;
        let lead = self.lead_of(held);
        self.wait_for_insertions();
        Ok(lead)
    }

    /// Refuses the waiting writers that are callbacks of jobs, since a job for which the caller waits may be waiting for
    /// one of them. The caller leads.
    pub(crate) fn refuse_callbacks(&self) {
        self.queue.refuse_callbacks();
    }

    /// Begins to hold writes back: until the result is dropped, other writes with `no_slowdown` fail with `refusal`. The
    /// caller leads, for a write with or without `no_slowdown`.
    ///
    /// # Errors
    ///
    /// `refusal` for the leader's own write with `no_slowdown`.
    pub(crate) fn hold_back(&self, refusal: Error, no_slowdown: bool) -> Result<HeldBack<'_>> {
        match no_slowdown {
            true => Err(refusal),
            false => Ok(self.queue.hold_back(refusal)),
        }
    }

    /// Waits until all logged writes are inserted and visible. The caller leads.
    pub(crate) fn wait_for_insertions(&self) {
        debug_assert!(self.queue.is_led(), "the caller leads");
        self.order.wait_for(self.allocated());
    }

    #[inline]
    fn note_lead(&self) -> Option<Held> {
        self.locks.map(|locks| locks.hold(Rank::Lead))
    }

    #[inline]
    fn lead_of(&self, held: Option<Held>) -> Lead<'_> {
        Lead {
            queue: &self.queue,
            _held: held,
        }
    }

    /// Commits the caller's batch and those of its group, if `check` succeeds. The caller leads.
    // Inlined along with its callees for a group of one: each call would return its outcome through memory.
    #[inline(always)]
    fn lead(
        &self,
        env: &impl CommitEnv,
        batch: Batch<'_>,
        mode: Mode,
        check: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let lead = self.lead_of(self.note_lead());
        env.prepare(mode.no_slowdown)?;
        check()?;
        let limit = || env.group_limit(batch.len());
        let followers = self.queue.followers(Kind::Batch(mode), limit);
        let pending = PendingFollowers(&followers);
        let result = match self.log_group(env, batch, mode, &followers) {
            Ok(before) if env.inserts_in_turn() => {
                self.insert_in_turn(env, batch, before, &followers)
            }
            Ok(before) => {
                std::mem::forget(pending);
                drop(lead);
                return match followers.is_empty() {
                    true => self.insert_alone(env, batch, before),
                    false => self.insert_group(env, batch, before, &followers),
                };
            }
            Err(error) => Err(error),
        };
        std::mem::forget(pending);
        for follower in &followers {
            follower.finish(result.clone());
        }
        drop(lead);
        result
    }

    /// Assigns sequence numbers to a group and logs it. Returns the last number before them.
    #[inline(always)]
    fn log_group(
        &self,
        env: &impl CommitEnv,
        batch: Batch<'_>,
        mode: Mode,
        followers: &[Arc<Waiter>],
    ) -> Result<SequenceNumber> {
        let before = self.allocated();
        debug_assert!(self.visible() <= before, "visible numbers are assigned");
        let first = before.plus(1);
        let mut next = first.plus(keys_of(&batch));
        verify(&batch)?;
        let (alone, mut all) = ([(first, batch.logged)], Vec::new());
        if !followers.is_empty() {
            all.reserve_exact(1 + followers.len());
            all.extend(alone);
            for follower in followers {
                let batch = follower.batch.get();
                verify(&batch)?;
                all.push((next, batch.logged));
                next = next.plus(keys_of(&batch));
            }
        }
        let batches: &[(SequenceNumber, &[u8])] = match followers.is_empty() {
            true => &alone,
            false => &all,
        };
        if next.0 - 1 > SequenceNumber::MAX.0 {
            return Err(exhausted(before));
        }
        let keys = next.0 - first.0;
        env.log(&LoggedGroup {
            batches,
            keys,
            mode,
        })?;
        // Relaxed: the next leader gets the lead with acquire and release.
        self.allocated.store(next.0 - 1, Ordering::Relaxed);
        Ok(before)
    }

    /// Inserts a batch that is a group of its own, and waits until it is visible.
    #[inline(always)]
    fn insert_alone(
        &self,
        env: &impl CommitEnv,
        batch: Batch<'_>,
        before: SequenceNumber,
    ) -> Result<()> {
        let inserted = env.insert(batch, before.plus(1), Company::OtherGroups);
        self.show_group(env, before, before.plus(keys_of(&batch)), inserted)
    }

    /// Inserts the batches of a group concurrently, and waits until they are visible.
    fn insert_group(
        &self,
        env: &impl CommitEnv,
        batch: Batch<'_>,
        before: SequenceNumber,
        followers: &[Arc<Waiter>],
    ) -> Result<()> {
        let first = before.plus(1);
        let mut next = first.plus(keys_of(&batch));
        let mut placed = Vec::with_capacity(followers.len());
        for follower in followers {
            placed.push((next, follower));
            next = next.plus(keys_of(&follower.batch.get()));
        }
        // Sleeping waiters are not woken twice.
        let (looking, carried): (Vec<_>, Vec<_>) = placed
            .into_iter()
            .partition(|(_, follower)| follower.is_spinning());
        let group = Group::new(1 + looking.len(), before, SequenceNumber(next.0 - 1));
        for (seq, follower) in looking {
            follower.insert_at(seq, &group);
        }
        let inserted = env.insert(batch, first, Company::Group).and_then(|()| {
            carried.iter().try_for_each(|(seq, follower)| {
                env.insert(follower.batch.get(), *seq, Company::Group)
            })
        });
        let result = self.end_insertion(env, &group, inserted);
        for (_, follower) in carried {
            follower.finish(result.clone());
        }
        result
    }

    /// Inserts the batches of a group sequentially, each of which sees those before it, and publishes them.
    /// The caller leads.
    fn insert_in_turn(
        &self,
        env: &impl CommitEnv,
        batch: Batch<'_>,
        before: SequenceNumber,
        followers: &[Arc<Waiter>],
    ) -> Result<()> {
        self.order.wait_for(before);
        let mut inserted = Ok(());
        let mut next = before.plus(1);
        let batches = followers.iter().map(|follower| follower.batch.get());
        for batch in std::iter::once(batch).chain(batches) {
            inserted = inserted.and_then(|()| env.insert(batch, next, Company::None));
            next = next.plus(keys_of(&batch));
        }
        self.show_group(env, before, SequenceNumber(next.0 - 1), inserted)
    }

    /// Ends the insertion of a member of `group`: the last one publishes the group, and the others wait for
    /// that.
    fn end_insertion(
        &self,
        env: &impl CommitEnv,
        group: &Group,
        inserted: Result<()>,
    ) -> Result<()> {
        if group.inserted(inserted) {
            return self.show_group(env, group.before, group.last, group.outcome());
        }
        self.order.wait_for(group.last);
        group.outcome()
    }

    /// Publishes the group of the numbers after `before` up to `last`, with the outcome `inserted` of its
    /// insertion (C4).
    #[inline]
    fn show_group(
        &self,
        env: &impl CommitEnv,
        before: SequenceNumber,
        last: SequenceNumber,
        inserted: Result<()>,
    ) -> Result<()> {
        if let Err(error) = &inserted {
            env.insertion_failed(error);
        }
        self.order.show(before, last);
        inserted
    }
}

/// The lead of the write queue. Dropping it passes it to the next writer.
pub(crate) struct Lead<'q> {
    queue: &'q Queue,
    _held: Option<Held>,
}

impl Drop for Lead<'_> {
    #[inline]
    fn drop(&mut self) {
        self.queue.hand_over();
    }
}

/// The waiters that a leader removed from the queue and that have had no turn yet. Dropping it ends their
/// writes with an error; a leader that gives them their turns forgets it.
struct PendingFollowers<'w>(&'w [Arc<Waiter>]);

impl Drop for PendingFollowers<'_> {
    #[cold]
    fn drop(&mut self) {
        for follower in self.0 {
            follower.finish(Err(Error::aborted(
                "the writer that carried this write panicked",
            )));
        }
    }
}

/// Verifies the checksums of `batch`, if it is protected.
#[inline]
fn verify(batch: &Batch<'_>) -> Result<()> {
    match batch.protection {
        None => Ok(()),
        Some(protection) => protection.verify_logged(batch.logged),
    }
}

#[cold]
fn exhausted(last: SequenceNumber) -> Error {
    Error::aborted(format!(
        "the sequence numbers after {last} do not suffice for the write: copy the entries into a new database"
    ))
}

/// Returns the number of sequence numbers that `batch` takes.
#[inline]
fn keys_of(batch: &Batch<'_>) -> u64 {
    count_of(batch.inserted).max(u64::from(batch.reserved))
}

/// Returns the count in the header of the batch `bytes`.
#[inline]
fn count_of(bytes: &[u8]) -> u64 {
    let count = bytes.get(8..12).and_then(<[u8]>::first_chunk);
    u64::from(u32::from_le_bytes(*count.expect("a batch has its header")))
}
