//! The write queue: it elects the leader and forms write groups.
//!
//! Writers take turns. The one whose turn it is *leads*: it alone assigns sequence numbers, appends to the
//! log and switches memtables, and it includes a group of waiting writes in its own, so that one append (and
//! one sync) serves them all. After the append it passes the lead to the next waiting writer. The members of
//! the group insert their batches into the memtables concurrently with each other and with later groups, and
//! become visible together ([`super::order`]); the leader inserts on behalf of members that are not running.
//!
//! A writer that finds no leader becomes the leader at once. Without contention it acquires no lock, since
//! the lock of the queue protects only the list of waiters. A waiter spins for a while before it sleeps.
//!
//! Invariants:
//!
//! Q1. At most one thread leads at any time.
//! Q2. Waiters get their turns in the order in which they joined.
//! Q3. Every waiter gets exactly one turn: to lead, to insert, or to end its write.
//! Q4. `lead` is `FREE` without a leader and waiters, `WAITED_FOR` with waiters, and `HELD` otherwise.
//! Changes to and from `WAITED_FOR` are made under the lock of `waiting`.
//! Q5. While a leader holds writes back ([`HeldBack`]), no write with `no_slowdown` waits.
//! Q6. While a leader waits for a job, it repeatedly refuses the waiters that are callbacks of jobs
//! ([`Queue::refuse_callbacks`]), since the job may be waiting for one of them.

use std::collections::VecDeque;
use std::sync::Arc;

use cairn_format::batch::HEADER_LEN;
#[cfg(not(loom))]
use cairn_platform::backoff;
#[cfg(not(loom))]
use cairn_platform::sync::{
    AtomicBool, AtomicU32, AtomicUsize, Condvar, Mutex, OnceLock, Ordering,
};
use cairn_types::{Error, Result, SequenceNumber};

use super::protection::Protection;

#[cfg(loom)]
use super::loomed::{
    AtomicBool, AtomicU32, AtomicUsize, Condvar, Mutex, OnceLock, Ordering, backoff,
};

/// The properties of a write that determine its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mode {
    /// The write waits for a sync of the log.
    pub(crate) sync: bool,
    /// The write skips the log.
    pub(crate) disable_wal: bool,
    /// The write fails instead of waiting when writes are slowed down.
    pub(crate) no_slowdown: bool,
}

/// The kind of a queue entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A batch to write.
    Batch(Mode),
    /// An exclusive operation: a memtable switch, a sync.
    Alone,
    /// A write on a condition, which is in no group of another writer.
    Conditional(Mode),
}

impl Kind {
    /// True for a write that fails instead of waiting when writes are slowed down.
    fn is_impatient(self) -> bool {
        match self {
            Kind::Batch(mode) | Kind::Conditional(mode) => mode.no_slowdown,
            Kind::Alone => false,
        }
    }
}

/// A batch to write. Each part has a header, whose sequence number is not used.
#[derive(Clone, Copy)]
pub(crate) struct Batch<'a> {
    /// The part for the log.
    pub(crate) logged: &'a [u8],
    /// The part for the memtables. Each counted record takes a sequence number.
    pub(crate) inserted: &'a [u8],
    /// The number of sequence numbers that the batch takes at least.
    pub(crate) reserved: u32,
    /// The checksums of both parts, if the batch is protected.
    pub(crate) protection: Option<&'a Protection>,
}

impl<'a> Batch<'a> {
    /// A batch that is logged and inserted as it is.
    #[inline]
    pub(crate) fn whole(bytes: &'a [u8]) -> Batch<'a> {
        Batch {
            logged: bytes,
            inserted: bytes,
            reserved: 0,
            protection: None,
        }
    }

    /// A batch that is only logged: it takes no sequence numbers.
    pub(crate) fn only_logged(bytes: &'a [u8]) -> Batch<'a> {
        Batch {
            logged: bytes,
            inserted: &[0; HEADER_LEN],
            reserved: 0,
            protection: None,
        }
    }

    /// Returns the bytes that a copy takes.
    pub(crate) fn len(&self) -> usize {
        match std::ptr::eq(self.logged, self.inserted) {
            true => self.logged.len(),
            false => self.logged.len() + self.inserted.len(),
        }
    }
}

/// The copy of a [`Batch`].
#[derive(Default)]
pub(crate) struct OwnedBatch {
    logged: Vec<u8>,
    /// `None` if it is the same.
    inserted: Option<Vec<u8>>,
    reserved: u32,
    protection: Option<Protection>,
}

impl OwnedBatch {
    pub(crate) fn new(batch: &Batch<'_>) -> OwnedBatch {
        let is_whole = std::ptr::eq(batch.logged, batch.inserted);
        OwnedBatch {
            logged: batch.logged.to_vec(),
            inserted: (!is_whole).then(|| batch.inserted.to_vec()),
            reserved: batch.reserved,
            protection: batch.protection.cloned(),
        }
    }

    pub(crate) fn get(&self) -> Batch<'_> {
        Batch {
            logged: &self.logged,
            inserted: self.inserted.as_ref().unwrap_or(&self.logged),
            reserved: self.reserved,
            protection: self.protection.as_ref(),
        }
    }
}

/// A waiting writer. It owns a copy of its batch, so that the leader can read it.
pub(crate) struct Waiter {
    pub(crate) kind: Kind,
    /// Empty for kinds that join no group.
    pub(crate) batch: OwnedBatch,
    /// The error for a leader that waits for a job, if the waiter is a callback of a job.
    refusal: Option<Error>,
    turn: Mutex<Option<Turn>>,
    /// Set when the turn has come.
    has_turn: AtomicBool,
    /// True while it is running and spinning for its turn: a hint.
    is_spinning: AtomicBool,
    changed: Condvar,
}

/// The turn of a waiter.
pub(crate) enum Turn {
    /// It leads.
    Lead,
    /// It inserts its batch at this sequence number and reports to the group.
    Insert(SequenceNumber, Arc<Group>),
    /// The write has ended.
    Finished(Result<()>),
}

/// The members of a group that are still inserting.
pub(crate) struct Group {
    inserting: AtomicUsize,
    /// The first failure of a member.
    failure: OnceLock<Error>,
    /// The last sequence number before the group's.
    pub(crate) before: SequenceNumber,
    /// The last sequence number of the group.
    pub(crate) last: SequenceNumber,
}

impl Group {
    /// Creates a group of `members` that insert, with the numbers after `before` up to `last`.
    pub(crate) fn new(members: usize, before: SequenceNumber, last: SequenceNumber) -> Arc<Group> {
        debug_assert!(members > 0, "the leader of a group is a member");
        debug_assert!(before <= last, "a group ends behind its beginning");
        Arc::new(Group {
            inserting: AtomicUsize::new(members),
            failure: OnceLock::new(),
            before,
            last,
        })
    }

    /// Reports the end of the insertion of a member. Returns true if it was the last one.
    pub(crate) fn inserted(&self, result: Result<()>) -> bool {
        if let Err(error) = result {
            // A second failure adds no information.
            let _ = self.failure.set(error);
        }
        // AcqRel: the last member sees every member's insertions.
        let before = self.inserting.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before > 0, "each member of a group reports once (Q3)");
        before == 1
    }

    /// Returns the outcome of the group, once all have reported.
    pub(crate) fn outcome(&self) -> Result<()> {
        // A group without numbers is visible from the start, and cannot fail.
        debug_assert!(
            self.before == self.last || self.inserting.load(Ordering::Relaxed) == 0,
            "the outcome of a group is known when all members have reported"
        );
        self.failure.get().cloned().map_or(Ok(()), Err)
    }
}

impl Waiter {
    /// Creates a waiter of `kind` with `batch` (empty for kinds that join no group). `may_wait` is the error for a
    /// thread that must not wait for jobs.
    pub(crate) fn new(kind: Kind, batch: OwnedBatch, may_wait: Result<()>) -> Arc<Waiter> {
        Arc::new(Waiter {
            kind,
            batch,
            refusal: may_wait.err(),
            turn: Mutex::new(None),
            has_turn: AtomicBool::new(false),
            is_spinning: AtomicBool::new(true),
            changed: Condvar::new(),
        })
    }

    fn give_turn(&self, turn: Turn) {
        debug_assert!(
            !self.has_turn.load(Ordering::Relaxed),
            "a waiter gets one turn (Q3)"
        );
        *self.turn.lock() = Some(turn);
        self.has_turn.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Gives the waiter its turn to insert its batch.
    pub(crate) fn insert_at(&self, seq: SequenceNumber, group: &Arc<Group>) {
        self.give_turn(Turn::Insert(seq, group.clone()));
    }

    /// Ends the write of the waiter.
    pub(crate) fn finish(&self, result: Result<()>) {
        self.give_turn(Turn::Finished(result));
    }

    /// True if the waiter would take its turn at once.
    pub(crate) fn is_spinning(&self) -> bool {
        // Relaxed: a hint that affects only the timing of an insertion.
        self.is_spinning.load(Ordering::Relaxed)
    }

    /// Waits for its turn.
    pub(crate) fn wait(&self) -> Turn {
        let has_turn = || self.has_turn.load(Ordering::Acquire);
        if !backoff::spin_until(has_turn) {
            self.is_spinning.store(false, Ordering::Relaxed);
            backoff::yield_until(has_turn);
        }
        let mut turn = self.turn.lock();
        loop {
            match turn.take() {
                Some(turn) => return turn,
                None => self.changed.wait(&mut turn),
            }
        }
    }
}

/// The queue of one database.
#[derive(Default)]
pub(crate) struct Queue {
    lead: AtomicU32,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// In the order in which they joined.
    writers: VecDeque<Arc<Waiter>>,
    /// The error for writes with `no_slowdown` while the leader holds writes back.
    refusal: Option<Error>,
}

/// The time during which a leader holds writes back. Ends when it is dropped.
pub(crate) struct HeldBack<'a>(&'a Queue);

impl Drop for HeldBack<'_> {
    fn drop(&mut self) {
        self.0.waiting.lock().refusal = None;
    }
}

/// There is no leader.
const FREE: u32 = 0;
/// There is a leader, and no waiter.
const HELD: u32 = 1;
/// There are a leader and waiters.
const WAITED_FOR: u32 = 2;

impl Queue {
    /// Joins the queue. `None` means that the caller now leads; otherwise it waits on the waiter returned by
    /// `waiter`.
    pub(crate) fn join(&self, waiter: impl FnOnce() -> Arc<Waiter>) -> Option<Arc<Waiter>> {
        if self.change(FREE, HELD) || self.spin_for_lead() {
            return None;
        }
        let mut waiting = self.waiting.lock();
        // A leader may release the lead concurrently, but only while there are no waiters (Q4).
        while waiting.writers.is_empty() && !self.change(HELD, WAITED_FOR) {
            if self.change(FREE, HELD) {
                return None;
            }
        }
        debug_assert!(
            self.lead.load(Ordering::Relaxed) == WAITED_FOR,
            "the lead is waited for while there are waiters (Q4)"
        );
        let waiter = waiter();
        waiting.writers.push_back(waiter.clone());
        self.refuse_impatient(&mut waiting);
        Some(waiter)
    }

    /// Ends the writes with `no_slowdown` among the waiters if the leader holds writes back.
    fn refuse_impatient(&self, waiting: &mut Waiting) {
        if let Some(refusal) = waiting.refusal.clone() {
            self.refuse(waiting, |waiter| {
                waiter.kind.is_impatient().then(|| refusal.clone())
            });
        }
    }

    /// Ends the waiters for which `refusal` returns an error.
    fn refuse(&self, waiting: &mut Waiting, refusal: impl Fn(&Waiter) -> Option<Error>) {
        waiting.writers.retain(|waiter| match refusal(waiter) {
            Some(error) => {
                waiter.finish(Err(error));
                false
            }
            None => true,
        });
        if waiting.writers.is_empty() {
            self.change(WAITED_FOR, HELD);
        }
    }

    /// Ends the waiters that must not wait for jobs. The caller leads and waits for a job, which may be waiting for them.
    pub(crate) fn refuse_callbacks(&self) {
        debug_assert!(self.is_led(), "the caller leads (Q1)");
        self.refuse(&mut self.waiting.lock(), |waiter| waiter.refusal.clone());
    }

    /// Begins to hold writes back: until the result is dropped, writes with `no_slowdown` fail with `refusal`. The caller
    /// leads, and keeps the lead as long.
    pub(crate) fn hold_back(&self, refusal: Error) -> HeldBack<'_> {
        debug_assert!(self.is_led(), "the caller leads (Q1)");
        let mut waiting = self.waiting.lock();
        waiting.refusal = Some(refusal);
        self.refuse_impatient(&mut waiting);
        HeldBack(self)
    }

    /// Spins for a while until the lead becomes free. Returns true if the caller now leads.
    fn spin_for_lead(&self) -> bool {
        for _ in 0..backoff::spin_limit() {
            // Relaxed: the decision is made by `change`.
            match self.lead.load(Ordering::Relaxed) {
                HELD => std::hint::spin_loop(),
                FREE if self.change(FREE, HELD) => return true,
                FREE => {}
                _ => return false,
            }
        }
        false
    }

    /// Removes from the queue the waiters that may join the group of a leader of `leader`, up to
    /// `limit_bytes` of batches, which is called only if there are waiters.
    pub(crate) fn followers(
        &self,
        leader: Kind,
        limit_bytes: impl FnOnce() -> usize,
    ) -> Vec<Arc<Waiter>> {
        debug_assert!(self.is_led(), "the caller leads (Q1)");
        // Relaxed: a waiter that joins now might as well have joined later.
        if self.lead.load(Ordering::Relaxed) != WAITED_FOR {
            return Vec::new();
        }
        let limit_bytes = limit_bytes();
        let mut group = Vec::new();
        let mut bytes = 0;
        let waiting = &mut self.waiting.lock().writers;
        while let Some(next) = waiting.front() {
            bytes += next.batch.get().len();
            if bytes > limit_bytes || !may_follow(leader, next.kind) {
                break;
            }
            group.extend(waiting.pop_front());
        }
        if waiting.is_empty() {
            self.change(WAITED_FOR, HELD);
        }
        group
    }

    /// Passes the lead to the next waiter, or frees it.
    pub(crate) fn hand_over(&self) {
        debug_assert!(self.is_led(), "the caller leads (Q1)");
        if self.change(HELD, FREE) {
            return;
        }
        let mut waiting = self.waiting.lock();
        let next = waiting.writers.pop_front();
        if waiting.writers.is_empty() {
            self.change(WAITED_FOR, HELD);
        }
        drop(waiting);
        next.expect("the lead is waited for").give_turn(Turn::Lead);
    }

    /// Changes `lead` from `from` to `to`. Returns false if it was not `from`.
    #[inline]
    fn change(&self, from: u32, to: u32) -> bool {
        // Acquire and release: a leader sees the changes of the leaders before it.
        self.lead
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// True if some thread leads.
    pub(crate) fn is_led(&self) -> bool {
        // Relaxed: for assertions of the leader.
        self.lead.load(Ordering::Relaxed) != FREE
    }

    /// Takes the lead for an operation of `kind` that is in no group of another writer. `may_wait` returns the error for a
    /// thread that must not wait for jobs.
    ///
    /// # Errors
    ///
    /// That of a leader that holds writes back, if `kind` is a write with `no_slowdown`; that of `may_wait` if the leader
    /// waits for a job.
    pub(crate) fn lead_alone(
        &self,
        kind: Kind,
        may_wait: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let waiter = || Waiter::new(kind, OwnedBatch::default(), may_wait());
        let Some(waiter) = self.join(waiter) else {
            return Ok(());
        };
        match waiter.wait() {
            Turn::Lead => Ok(()),
            Turn::Finished(refused) => refused,
            Turn::Insert(..) => unreachable!("a {kind:?} joins no group"),
        }
    }
}

/// True if a waiter of kind `next` may join the group of a leader of kind `leader`. A write without sync does
/// not wait for one with sync, and a write that must not be slowed down does not wait for others.
fn may_follow(leader: Kind, next: Kind) -> bool {
    let (Kind::Batch(leader), Kind::Batch(next)) = (leader, next) else {
        return false;
    };
    leader.disable_wal == next.disable_wal
        && leader.no_slowdown == next.no_slowdown
        && (leader.sync || !next.sync)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const PLAIN: Kind = Kind::Batch(Mode {
        sync: false,
        disable_wal: false,
        no_slowdown: false,
    });
    const SYNC: Kind = Kind::Batch(Mode {
        sync: true,
        disable_wal: false,
        no_slowdown: false,
    });

    fn join(queue: &Queue, kind: Kind, len: usize) -> Option<Arc<Waiter>> {
        join_as(queue, kind, len, Ok(()))
    }

    fn join_as(queue: &Queue, kind: Kind, len: usize, may_wait: Result<()>) -> Option<Arc<Waiter>> {
        let batch = OwnedBatch::new(&Batch::whole(&vec![0; len]));
        queue.join(|| Waiter::new(kind, batch, may_wait))
    }

    /// Regression: writes with `no_slowdown` waited for a leader that waited itself.
    #[test]
    fn a_leader_that_holds_writes_back_refuses_impatient_ones() {
        let impatient = Kind::Batch(Mode {
            sync: false,
            disable_wal: false,
            no_slowdown: true,
        });
        let is_refused = |waiter: &Waiter| match waiter.turn.lock().take() {
            Some(Turn::Finished(Err(error))) => error.code() == cairn_types::Code::Incomplete,
            _ => false,
        };
        let queue = Queue::default();
        assert!(join(&queue, PLAIN, 1).is_none());
        let [before, patient] = [impatient, PLAIN].map(|kind| join(&queue, kind, 1).unwrap());
        let held_back = queue.hold_back(Error::incomplete("held back"));
        let later = join(&queue, impatient, 1).unwrap();
        assert!(is_refused(&before) && is_refused(&later) && !is_refused(&patient));
        assert_eq!(queue.followers(PLAIN, || 1000).len(), 1);
        // The only waiter is refused, and the lead is not waited for.
        assert!(is_refused(&join(&queue, impatient, 1).unwrap()));
        assert_eq!(queue.lead.load(Ordering::Relaxed), HELD);
        drop(held_back);
        let last = join(&queue, impatient, 1).unwrap();
        assert!(!is_refused(&last));
        queue.hand_over();
        assert!(matches!(last.wait(), Turn::Lead));
    }

    /// Regression: a leader that waits for a job waited forever if the job called a callback that writes.
    #[test]
    fn a_leader_that_waits_for_a_job_refuses_callbacks_of_jobs() {
        let queue = Queue::default();
        let callback = || Err(Error::busy("a callback"));
        assert!(join(&queue, PLAIN, 1).is_none());
        queue.refuse_callbacks();
        let writes = join_as(&queue, PLAIN, 1, callback()).unwrap();
        let patient = join(&queue, PLAIN, 1).unwrap();
        let leads = join_as(&queue, Kind::Alone, 0, callback()).unwrap();
        queue.refuse_callbacks();
        for refused in [writes, leads] {
            let Turn::Finished(Err(error)) = refused.wait() else {
                panic!("it is refused");
            };
            assert_eq!(error.code(), cairn_types::Code::Busy);
        }
        // A leader that does not wait for a job passes the lead to a callback, too.
        let later = join_as(&queue, Kind::Alone, 0, callback()).unwrap();
        queue.hand_over();
        assert!(matches!(patient.wait(), Turn::Lead));
        queue.hand_over();
        assert!(matches!(later.wait(), Turn::Lead));
        assert_eq!(queue.lead.load(Ordering::Relaxed), HELD);
    }

    #[test]
    fn a_group_has_the_compatible_writes_in_order() {
        let queue = Queue::default();
        assert!(join(&queue, SYNC, 10).is_none());
        let waiting: Vec<_> = [(PLAIN, 10), (SYNC, 10), (Kind::Alone, 0), (PLAIN, 10)]
            .map(|(k, n)| join(&queue, k, n))
            .into();
        let group = queue.followers(SYNC, || 1000);
        assert_eq!(group.len(), 2);
        queue.hand_over();
        assert!(matches!(waiting[2].as_ref().unwrap().wait(), Turn::Lead));
        queue.hand_over();
        assert!(matches!(waiting[3].as_ref().unwrap().wait(), Turn::Lead));
        queue.hand_over();
        assert!(join(&queue, PLAIN, 1).is_none());
    }

    #[test]
    fn a_plain_write_does_not_wait_for_a_sync_and_groups_are_limited() {
        let queue = Queue::default();
        assert!(join(&queue, PLAIN, 1).is_none());
        let _a = join(&queue, PLAIN, 600);
        let _b = join(&queue, PLAIN, 600);
        assert_eq!(queue.followers(PLAIN, || 1000).len(), 1);
        assert_eq!(queue.followers(PLAIN, || 1000).len(), 1);
        let _c = join(&queue, SYNC, 1);
        assert_eq!(queue.followers(PLAIN, || 1000).len(), 0);
    }

    #[test]
    fn each_of_many_threads_leads_or_follows_exactly_once() {
        let queue = Queue::default();
        let carried = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let waiter = join(&queue, PLAIN, 8);
                        let leads = match &waiter {
                            None => true,
                            Some(waiter) => match waiter.wait() {
                                Turn::Lead => true,
                                Turn::Insert(..) => unreachable!("no waiter inserts here"),
                                Turn::Finished(result) => {
                                    result.unwrap();
                                    false
                                }
                            },
                        };
                        if leads {
                            let group = queue.followers(PLAIN, || 1 << 20);
                            carried.fetch_add(1 + group.len(), Ordering::Relaxed);
                            group.iter().for_each(|member| member.finish(Ok(())));
                            queue.hand_over();
                        }
                    }
                });
            }
        });
        assert_eq!(carried.into_inner(), 8000);
    }
}
