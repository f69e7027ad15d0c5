//! Background jobs: counts of scheduled and running jobs, and the holds that prevent jobs from starting.
//!
//! [`Jobs`] only counts. Which job is due, and how it runs, is decided by the callers (`background.rs`,
//! `flush.rs`, `manual.rs`). They count a job here before passing it to a thread, and end it under the same
//! lock as the change of the tree made by its end, so that waiters see both or neither.
//!
//! Four holds prevent compactions from starting: a pause of all background work (automatic ones only), an abort of
//! compactions, an exclusive manual compaction, and a manual compaction that is waiting for its turn. Each is counted,
//! because several callers may hold it at once. A ban on manual compactions and an abort also end running ones, through
//! flags that the jobs check.
//!
//! Invariants:
//!
//! J1. Every job that begins ends exactly once.
//! J2. No purge begins once the directory is released.
//! J3. The flag read by running compactions is set while there is an abort, that of manual ones while they are
//!     banned.

use std::sync::Arc;

use cairn_options::Canceled;
use cairn_platform::sync::{AtomicBool, AtomicUsize, Ordering};
use cairn_types::{Code, Error, Result, Subcode};

/// The kinds of background jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobKind {
    Flush,
    Compaction,
}

/// The jobs of a database, and the holds on them.
#[derive(Default)]
pub(crate) struct Jobs {
    /// Jobs that have begun and not ended, by kind.
    scheduled: [usize; 2],
    /// Jobs on background threads. A thread finishes a little after its job has ended.
    running: [usize; 2],
    /// Manual compactions that are running or waiting.
    manual: usize,
    /// Jobs that delete obsolete files or release logs.
    purges: usize,
    /// True once the directory may belong to another process: nothing is deleted any more.
    gave_up_directory: bool,
    /// Additional threads that help compactions.
    helpers: Arc<AtomicUsize>,
    holds: Holds,
}

/// The holds that prevent jobs from starting.
#[derive(Default)]
struct Holds {
    /// Pauses that have begun: no compaction starts.
    pausing: usize,
    /// Pauses of the program that are complete: no flush starts either.
    paused: usize,
    /// Complete pauses of exclusive changes: no flush starts, even at closing.
    paused_alone: usize,
    /// True once the database flushes for the last time, in spite of pauses of the program.
    ignores_pauses: bool,
    /// Aborts that have not been resumed.
    aborts: usize,
    /// Set while there are aborts; running compactions read it.
    aborted: Arc<AtomicBool>,
    /// Bans on manual compactions minus those that the program lifted; negative if it lifted more than it
    /// set.
    bans: i64,
    /// Exclusive changes in progress, during which no manual compaction may run.
    alone: usize,
    /// Set while there are bans; running manual compactions read it.
    banned: Arc<AtomicBool>,
    /// Exclusive manual compactions.
    exclusive: usize,
    /// Manual compactions that are waiting for a running one to end.
    waiting: usize,
}

/// Who paused background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PausedBy {
    /// The program.
    Program,
    /// An exclusive change.
    Change,
}

impl Holds {
    fn paused_by(&mut self, by: PausedBy) -> &mut usize {
        match by {
            PausedBy::Program => &mut self.paused,
            PausedBy::Change => &mut self.paused_alone,
        }
    }
}

/// A change of the bans on manual compactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ban {
    /// The program sets one more ban.
    Add,
    /// The program lifts one ban; if there is none, the next one has no effect, as in RocksDB.
    Lift,
    /// An exclusive change begins.
    BeginAlone,
    /// An exclusive change ends.
    EndAlone,
}

/// A thread that helps a compaction. Ends when dropped.
pub(crate) struct Helper(Arc<AtomicUsize>);

impl Drop for Helper {
    fn drop(&mut self) {
        // Relaxed: a stale count only delays the next helper.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Jobs {
    /// Counts a job that is about to be passed to a thread.
    pub(crate) fn begin(&mut self, kind: JobKind) {
        self.scheduled[kind as usize] += 1;
    }

    /// Ends a job.
    pub(crate) fn end(&mut self, kind: JobKind) {
        let scheduled = &mut self.scheduled[kind as usize];
        assert!(*scheduled > 0, "a {kind:?} that ends has begun (J1)");
        *scheduled -= 1;
    }

    /// Counts a job that is now running on a background thread.
    pub(crate) fn start_running(&mut self, kind: JobKind) {
        self.running[kind as usize] += 1;
    }

    /// Uncounts a job whose thread has finished; its end may already have been counted.
    pub(crate) fn stop_running(&mut self, kind: JobKind) {
        let running = &mut self.running[kind as usize];
        assert!(*running > 0, "a {kind:?} that stops was running (J1)");
        *running -= 1;
    }

    /// Flushes that are scheduled, including running ones.
    pub(crate) fn flushes(&self) -> usize {
        self.scheduled[JobKind::Flush as usize]
    }

    /// Compactions that are scheduled, including running and manual ones.
    pub(crate) fn compactions(&self) -> usize {
        self.scheduled[JobKind::Compaction as usize]
    }

    /// Jobs of `kind` running on background threads.
    pub(crate) fn running(&self, kind: JobKind) -> usize {
        self.running[kind as usize]
    }

    /// Jobs of `kind` that are scheduled or running. A job counts as running until the jobs that it has made due are
    /// scheduled, so that no waiter returns between the two.
    pub(crate) fn unfinished(&self, kind: JobKind) -> usize {
        // A job can be in both counts.
        self.scheduled[kind as usize].max(self.running[kind as usize])
    }

    /// True if no flush and no compaction is unfinished.
    pub(crate) fn are_idle(&self) -> bool {
        self.unfinished(JobKind::Flush) == 0 && self.unfinished(JobKind::Compaction) == 0
    }

    /// True if no flush and no compaction is scheduled and no manual compaction is waiting for its turn.
    pub(crate) fn are_over(&self) -> bool {
        self.are_idle() && self.manual == 0
    }

    /// Counts a thread that helps a compaction, if fewer than `limit` threads are working.
    pub(crate) fn begin_helper(&self, limit: usize) -> Option<Helper> {
        let [flushes, compactions] = self.scheduled;
        // Relaxed: helpers begin under the lock that guards this value.
        let busy = flushes + compactions + self.helpers.load(Ordering::Relaxed);
        if busy >= limit {
            return None;
        }
        self.helpers.fetch_add(1, Ordering::Relaxed);
        Some(Helper(self.helpers.clone()))
    }

    /// Counts a purge. Returns false if the directory is released, and nothing may be deleted.
    pub(crate) fn begin_purge(&mut self) -> bool {
        self.purges += usize::from(!self.gave_up_directory);
        !self.gave_up_directory
    }

    /// Ends a purge.
    pub(crate) fn end_purge(&mut self) {
        assert!(self.purges > 0, "a purge that ends has begun (J1)");
        self.purges -= 1;
    }

    /// True while a purge is running or due.
    pub(crate) fn have_purges(&self) -> bool {
        self.purges > 0
    }

    /// Prevents further purges.
    pub(crate) fn give_up_directory(&mut self) {
        self.gave_up_directory = true;
    }

    /// True if purges are prevented.
    pub(crate) fn gave_up_directory(&self) -> bool {
        self.gave_up_directory
    }
}

impl Jobs {
    /// True if flushes may start.
    pub(crate) fn may_flush(&self) -> bool {
        let holds = &self.holds;
        holds.paused_alone == 0 && (holds.paused == 0 || holds.ignores_pauses)
    }

    /// True if automatic compactions may start.
    pub(crate) fn may_compact(&self) -> bool {
        let holds = &self.holds;
        holds.pausing + holds.aborts + holds.exclusive + holds.waiting == 0
    }

    /// Begins a pause: no more compactions start. Flushes may start until it is complete.
    pub(crate) fn begin_pause(&mut self) {
        self.holds.pausing += 1;
    }

    /// Completes a pause.
    pub(crate) fn complete_pause(&mut self, by: PausedBy) {
        let holds = &mut self.holds;
        *holds.paused_by(by) += 1;
        assert!(holds.paused + holds.paused_alone <= holds.pausing);
    }

    /// Ends a complete pause. Returns false if there is none.
    pub(crate) fn end_pause(&mut self, by: PausedBy) -> bool {
        let paused = self.holds.paused_by(by);
        if *paused == 0 {
            return false;
        }
        *paused -= 1;
        self.holds.pausing -= 1;
        true
    }

    /// Lets flushes start in spite of pauses of the program, from now on.
    pub(crate) fn ignore_pauses(&mut self) {
        self.holds.ignores_pauses = true;
    }

    /// Aborts of compactions that have not been resumed.
    pub(crate) fn aborts(&self) -> usize {
        self.holds.aborts
    }

    /// Aborts all compactions; none starts until the abort is ended.
    pub(crate) fn abort(&mut self) {
        self.holds.aborts += 1;
        self.holds.aborted.store(true, Ordering::Release);
    }

    /// Ends one abort. Returns true if compactions may start again.
    pub(crate) fn end_abort(&mut self) -> bool {
        let holds = &mut self.holds;
        holds.aborts = holds.aborts.saturating_sub(1);
        let over = holds.aborts == 0;
        holds.aborted.store(!over, Ordering::Release);
        over
    }

    /// Changes the bans on manual compactions. Returns true if any are in effect.
    pub(crate) fn change_bans(&mut self, change: Ban) -> bool {
        let holds = &mut self.holds;
        match change {
            Ban::Add => holds.bans = holds.bans.saturating_add(1),
            Ban::Lift => holds.bans = holds.bans.saturating_sub(1),
            Ban::BeginAlone => holds.alone += 1,
            Ban::EndAlone => holds.alone -= 1,
        }
        let banned = holds.ban_manual();
        holds.banned.store(banned, Ordering::Release);
        banned
    }

    /// True while a manual compaction is running or waiting.
    pub(crate) fn have_manual(&self) -> bool {
        self.manual > 0
    }

    /// Counts a manual compaction, which prevents automatic ones from starting if it is `exclusive`.
    ///
    /// # Errors
    ///
    /// Those of [`Jobs::check_manual`].
    pub(crate) fn begin_manual(&mut self, exclusive: bool, canceled: &Canceled) -> Result<()> {
        self.check_manual(canceled)?;
        self.manual += 1;
        self.holds.exclusive += usize::from(exclusive);
        Ok(())
    }

    /// Ends a manual compaction that began with the same `exclusive`.
    pub(crate) fn end_manual(&mut self, exclusive: bool) {
        assert!(
            self.manual > 0,
            "a manual compaction that ends has begun (J1)"
        );
        self.manual -= 1;
        self.holds.exclusive -= usize::from(exclusive);
    }

    /// Prevents automatic compactions from starting while a manual one is waiting for its turn.
    pub(crate) fn begin_waiting(&mut self) {
        self.holds.waiting += 1;
    }

    /// Ends the wait begun by [`Jobs::begin_waiting`].
    pub(crate) fn end_waiting(&mut self) {
        self.holds.waiting -= 1;
    }

    /// # Errors
    ///
    /// `Incomplete` with the reason if a manual compaction cannot continue: it is banned, `canceled` or
    /// aborted.
    pub(crate) fn check_manual(&self, canceled: &Canceled) -> Result<()> {
        if self.holds.ban_manual() || canceled.is_canceled() {
            return Err(paused());
        }
        if self.holds.aborts > 0 {
            return Err(aborted());
        }
        Ok(())
    }

    /// The flags that end a compaction, except that of closing; `manual` is the cancellation flag of the
    /// caller of a manual one.
    pub(crate) fn cancel_flags(&self, manual: Option<&Canceled>) -> Vec<Arc<AtomicBool>> {
        let mut flags = vec![self.holds.aborted.clone()];
        if let Some(canceled) = manual {
            flags.push(self.holds.banned.clone());
            flags.extend(canceled.flag().cloned());
        }
        flags
    }

    /// Returns the reason for which a compaction was ended by one of its flags; `None` if none is set.
    pub(crate) fn reason_of_cancel(&self, manual: Option<&Canceled>) -> Option<Error> {
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Acquire);
        match manual {
            Some(canceled) if is_set(&self.holds.banned) || canceled.is_canceled() => {
                Some(paused())
            }
            _ => is_set(&self.holds.aborted).then(aborted),
        }
    }
}

impl Holds {
    fn ban_manual(&self) -> bool {
        self.bans > 0 || self.alone > 0
    }
}

fn paused() -> Error {
    Error::new(
        Code::Incomplete,
        Subcode::ManualCompactionPaused,
        "the manual compaction was cancelled",
    )
}

fn aborted() -> Error {
    Error::new(
        Code::Incomplete,
        Subcode::CompactionAborted,
        "compactions are aborted",
    )
}

/// True if `error` is that of a cancelled compaction, which is not a failure.
pub(crate) fn is_called_off(error: &Error) -> bool {
    error.code() == Code::Incomplete
        && matches!(
            error.subcode(),
            Subcode::ManualCompactionPaused | Subcode::CompactionAborted
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_done_when_each_has_ended() {
        let mut jobs = Jobs::default();
        jobs.begin(JobKind::Flush);
        jobs.start_running(JobKind::Flush);
        jobs.begin(JobKind::Compaction);
        assert_eq!((jobs.flushes(), jobs.compactions()), (1, 1));
        jobs.end(JobKind::Flush);
        // A job that has changed the tree counts as running until waiters are notified.
        assert_eq!((jobs.flushes(), jobs.running(JobKind::Flush)), (0, 1));
        jobs.end(JobKind::Compaction);
        assert!(!jobs.are_idle());
        jobs.stop_running(JobKind::Flush);
        jobs.begin_manual(false, &Canceled::default()).unwrap();
        assert!(jobs.are_idle() && !jobs.are_over());
        jobs.end_manual(false);
        assert!(jobs.are_over());
    }

    #[test]
    #[should_panic(expected = "J1")]
    fn a_job_does_not_end_twice() {
        let mut jobs = Jobs::default();
        jobs.begin(JobKind::Flush);
        jobs.end(JobKind::Flush);
        jobs.end(JobKind::Flush);
    }

    /// The last flush of a database waits for exclusive changes, but not for pauses of the program.
    #[test]
    fn pauses_can_be_ignored() {
        let mut jobs = Jobs::default();
        jobs.change_bans(Ban::BeginAlone);
        for by in [PausedBy::Program, PausedBy::Program, PausedBy::Change] {
            jobs.begin_pause();
            jobs.complete_pause(by);
        }
        jobs.ignore_pauses();
        assert!(!jobs.may_flush());
        assert!(jobs.end_pause(PausedBy::Change));
        assert!(jobs.may_flush() && !jobs.may_compact());
    }

    #[test]
    fn holds_are_counted_independently() {
        let mut jobs = Jobs::default();
        let canceled = Canceled::default();
        jobs.begin_pause();
        assert!(jobs.may_flush() && !jobs.may_compact());
        jobs.complete_pause(PausedBy::Program);
        assert!(!jobs.may_flush());
        jobs.begin_manual(true, &canceled).unwrap();
        jobs.begin_waiting();
        assert!(!jobs.end_pause(PausedBy::Change));
        assert!(jobs.end_pause(PausedBy::Program) && !jobs.end_pause(PausedBy::Program));
        assert!(jobs.may_flush() && !jobs.may_compact());
        jobs.end_waiting();
        assert!(!jobs.may_compact());
        jobs.end_manual(true);
        assert!(jobs.may_compact());
        jobs.abort();
        jobs.abort();
        assert!(!jobs.end_abort() && !jobs.may_compact());
        assert!(jobs.end_abort() && jobs.may_compact() && jobs.aborts() == 0);
    }

    #[test]
    fn flags_end_running_compactions_with_a_reason() {
        let mut jobs = Jobs::default();
        let canceled = Canceled::default();
        let (automatic, manual) = (jobs.cancel_flags(None), jobs.cancel_flags(Some(&canceled)));
        let set = |flags: &[Arc<AtomicBool>]| flags.iter().any(|flag| flag.load(Ordering::Acquire));
        assert!(jobs.change_bans(Ban::Add) && jobs.change_bans(Ban::BeginAlone));
        assert!(!set(&automatic) && set(&manual));
        assert!(jobs.change_bans(Ban::Lift) && !jobs.change_bans(Ban::EndAlone));
        assert!(!set(&manual) && jobs.reason_of_cancel(Some(&canceled)).is_none());
        // A ban that was lifted in advance.
        assert!(!jobs.change_bans(Ban::Lift) && !jobs.change_bans(Ban::Add));
        jobs.abort();
        assert!(set(&automatic) && set(&manual));
        let reason = jobs.reason_of_cancel(None).unwrap();
        assert_eq!(reason.subcode(), Subcode::CompactionAborted);
        assert!(is_called_off(&reason) && jobs.check_manual(&canceled).is_err());
    }

    #[test]
    fn helpers_use_threads_that_jobs_do_not() {
        let mut jobs = Jobs::default();
        jobs.begin(JobKind::Compaction);
        let helper = jobs.begin_helper(2).unwrap();
        assert!(jobs.begin_helper(2).is_none());
        drop(helper);
        jobs.begin(JobKind::Flush);
        assert!(jobs.begin_helper(2).is_none() && jobs.begin_helper(3).is_some());
    }

    #[test]
    fn nothing_is_purged_in_a_released_directory() {
        let mut jobs = Jobs::default();
        assert!(jobs.begin_purge() && jobs.have_purges());
        jobs.give_up_directory();
        jobs.end_purge();
        assert!(!jobs.begin_purge() && !jobs.have_purges());
    }
}
