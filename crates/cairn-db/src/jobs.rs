//! Background jobs: the counts of scheduled and running ones, and the holds that keep others from starting.
//!
//! [`Jobs`] counts. Which job is due, and how it is run, is decided by the callers
//! (`background.rs`, `flush.rs`, `manual.rs`); they begin a job here before they hand it to a thread, and end it
//! under the same lock as the change of the tree that its end makes, so that a waiter sees both or neither.
//!
//! Four holds keep compactions from starting, each counted, because several callers may want it at once: a
//! pause of all background work, an abort of compactions, an exclusive manual compaction, and a manual
//! compaction that waits for its turn. A ban on manual compactions and an abort also end those that run,
//! through flags that the jobs look at.
//!
//! Invariants:
//!
//! J1. Every job that begins ends once; none ends that did not begin.
//! J2. No purge begins once the directory is given up.
//! J3. The flag that running compactions read is set while there is an abort, that of manual ones while they
//!     are banned.

use std::sync::Arc;

use cairn_options::Canceled;
use cairn_platform::sync::{AtomicBool, AtomicUsize, Ordering};
use cairn_types::{Code, Error, Result, Subcode};

/// The kinds of job that the background schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobKind {
    Flush,
    Compaction,
}

/// The jobs of a database, and the holds on them.
#[derive(Default)]
pub(crate) struct Jobs {
    /// Jobs that were begun and not ended, by kind.
    scheduled: [usize; 2],
    /// Jobs that threads of the background run. A thread is done a little after the job has ended.
    running: [usize; 2],
    /// Manual compactions that run or wait.
    manual: usize,
    /// Jobs that delete obsolete files or end logs.
    purges: usize,
    /// The directory may belong to another process: nothing is deleted any more.
    gave_up_directory: bool,
    /// Threads beside the jobs' own that help compactions.
    helpers: Arc<AtomicUsize>,
    holds: Holds,
}

/// The holds that keep jobs from starting.
#[derive(Default)]
struct Holds {
    /// Pauses that have begun: no compaction starts.
    pausing: usize,
    /// Pauses that are complete: no flush starts either.
    paused: usize,
    /// Aborts that have not been resumed.
    aborts: usize,
    /// Set while there are aborts; running compactions read it.
    aborted: Arc<AtomicBool>,
    /// Bans on manual compactions that the program has not lifted; below zero those that it has lifted
    /// in advance.
    bans: i64,
    /// Changes under way that let no manual compaction run beside them.
    alone: usize,
    /// Set while there are bans; running manual compactions read it.
    banned: Arc<AtomicBool>,
    /// Exclusive manual compactions.
    exclusive: usize,
    /// Manual compactions that wait for the end of a running one.
    waiting: usize,
}

/// A change of the bans on manual compactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ban {
    /// The program bans them once more.
    Add,
    /// The program lifts one ban; without one the next has no effect, as in RocksDB.
    Lift,
    /// A change begins that must run alone.
    BeginAlone,
    /// That change is over.
    EndAlone,
}

/// A thread that helps a compaction. Ends when dropped.
pub(crate) struct Helper(Arc<AtomicUsize>);

impl Drop for Helper {
    fn drop(&mut self) {
        // Relaxed: a count that is read too late only delays the next helper.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Jobs {
    /// Counts a job that is about to be handed to a thread.
    pub(crate) fn begin(&mut self, kind: JobKind) {
        self.scheduled[kind as usize] += 1;
    }

    /// Ends a job that was begun.
    pub(crate) fn end(&mut self, kind: JobKind) {
        let scheduled = &mut self.scheduled[kind as usize];
        assert!(*scheduled > 0, "a {kind:?} ends that did not begin (J1)");
        *scheduled -= 1;
    }

    /// Counts a job that a thread of the background runs now.
    pub(crate) fn start_running(&mut self, kind: JobKind) {
        self.running[kind as usize] += 1;
    }

    /// Uncounts a job whose thread is done; its end may have been counted already.
    pub(crate) fn stop_running(&mut self, kind: JobKind) {
        let running = &mut self.running[kind as usize];
        assert!(*running > 0, "a {kind:?} stops that did not run (J1)");
        *running -= 1;
    }

    /// Flushes that are scheduled, running ones included.
    pub(crate) fn flushes(&self) -> usize {
        self.scheduled[JobKind::Flush as usize]
    }

    /// Compactions that are scheduled, running and manual ones included.
    pub(crate) fn compactions(&self) -> usize {
        self.scheduled[JobKind::Compaction as usize]
    }

    /// Jobs of `kind` that threads of the background run.
    pub(crate) fn running(&self, kind: JobKind) -> usize {
        self.running[kind as usize]
    }

    /// True if no flush and no compaction is scheduled.
    pub(crate) fn are_idle(&self) -> bool {
        self.scheduled == [0, 0]
    }

    /// True if no flush and no compaction is scheduled and no manual compaction waits for its turn either.
    pub(crate) fn are_over(&self) -> bool {
        self.are_idle() && self.manual == 0
    }

    /// Counts a thread that helps a compaction, if fewer than `limit` threads work.
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

    /// Counts a purge; false if the directory is given up, and then nothing may be deleted.
    pub(crate) fn begin_purge(&mut self) -> bool {
        self.purges += usize::from(!self.gave_up_directory);
        !self.gave_up_directory
    }

    /// Ends a purge that was begun.
    pub(crate) fn end_purge(&mut self) {
        assert!(self.purges > 0, "a purge ends that did not begin (J1)");
        self.purges -= 1;
    }

    /// True while a purge runs or is due.
    pub(crate) fn have_purges(&self) -> bool {
        self.purges > 0
    }

    /// No purge begins from now on.
    pub(crate) fn give_up_directory(&mut self) {
        self.gave_up_directory = true;
    }

    /// True once no purge may begin.
    pub(crate) fn gave_up_directory(&self) -> bool {
        self.gave_up_directory
    }
}

impl Jobs {
    /// True if flushes may start.
    pub(crate) fn may_flush(&self) -> bool {
        self.holds.paused == 0
    }

    /// True if automatic compactions may start.
    pub(crate) fn may_compact(&self) -> bool {
        let holds = &self.holds;
        holds.pausing + holds.aborts + holds.exclusive + holds.waiting == 0
    }

    /// Begins a pause: no compaction starts any more. Flushes may start until it is complete.
    pub(crate) fn begin_pause(&mut self) {
        self.holds.pausing += 1;
    }

    /// Completes a pause that was begun.
    pub(crate) fn complete_pause(&mut self) {
        self.holds.paused += 1;
        assert!(self.holds.paused <= self.holds.pausing);
    }

    /// Takes back a pause that is complete; false if there is none.
    pub(crate) fn end_pause(&mut self) -> bool {
        let holds = &mut self.holds;
        if holds.paused == 0 {
            return false;
        }
        holds.paused -= 1;
        holds.pausing -= 1;
        true
    }

    /// Aborts of compactions that have not been resumed.
    pub(crate) fn aborts(&self) -> usize {
        self.holds.aborts
    }

    /// Ends all compactions; none starts until the abort is taken back.
    pub(crate) fn abort(&mut self) {
        self.holds.aborts += 1;
        self.holds.aborted.store(true, Ordering::Release);
    }

    /// Takes one abort back; true if compactions may start again.
    pub(crate) fn end_abort(&mut self) -> bool {
        let holds = &mut self.holds;
        holds.aborts = holds.aborts.saturating_sub(1);
        let over = holds.aborts == 0;
        holds.aborted.store(!over, Ordering::Release);
        over
    }

    /// Changes the bans on manual compactions; true if there are any now.
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

    /// True while a manual compaction runs or waits.
    pub(crate) fn have_manual(&self) -> bool {
        self.manual > 0
    }

    /// Counts a manual compaction, which keeps automatic ones from starting if it is `exclusive`.
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

    /// Ends a manual compaction that was begun as `exclusive` as this.
    pub(crate) fn end_manual(&mut self, exclusive: bool) {
        assert!(
            self.manual > 0,
            "a manual compaction ends that did not begin (J1)"
        );
        self.manual -= 1;
        self.holds.exclusive -= usize::from(exclusive);
    }

    /// Keeps automatic compactions from starting while a manual one waits for its turn.
    pub(crate) fn begin_waiting(&mut self) {
        self.holds.waiting += 1;
    }

    /// Ends the wait that [`Jobs::begin_waiting`] began.
    pub(crate) fn end_waiting(&mut self) {
        self.holds.waiting -= 1;
    }

    /// # Errors
    ///
    /// `Incomplete` with the reason if a manual compaction cannot go on: it is banned, `canceled` or aborted.
    pub(crate) fn check_manual(&self, canceled: &Canceled) -> Result<()> {
        if self.holds.ban_manual() || canceled.is_canceled() {
            return Err(paused());
        }
        if self.holds.aborts > 0 {
            return Err(aborted());
        }
        Ok(())
    }

    /// The flags that end a compaction, beside that of the closing database; `manual` is that of the caller of a
    /// manual one.
    pub(crate) fn cancel_flags(&self, manual: Option<&Canceled>) -> Vec<Arc<AtomicBool>> {
        let mut flags = vec![self.holds.aborted.clone()];
        if let Some(canceled) = manual {
            flags.push(self.holds.banned.clone());
            flags.extend(canceled.flag().cloned());
        }
        flags
    }

    /// The reason for which a compaction was ended by one of its flags; `None` if none of them is set.
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
        "the manual compaction was called off",
    )
}

fn aborted() -> Error {
    Error::new(
        Code::Incomplete,
        Subcode::CompactionAborted,
        "compactions are aborted",
    )
}

/// True if `error` is that of a compaction that was called off, which is no failure.
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
    fn jobs_are_over_when_each_has_ended() {
        let mut jobs = Jobs::default();
        jobs.begin(JobKind::Flush);
        jobs.start_running(JobKind::Flush);
        jobs.begin(JobKind::Compaction);
        assert_eq!((jobs.flushes(), jobs.compactions()), (1, 1));
        jobs.end(JobKind::Flush);
        // A job that has changed the tree still runs, until waiters know.
        assert_eq!((jobs.flushes(), jobs.running(JobKind::Flush)), (0, 1));
        jobs.stop_running(JobKind::Flush);
        jobs.end(JobKind::Compaction);
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

    #[test]
    fn each_hold_counts_for_itself() {
        let mut jobs = Jobs::default();
        let canceled = Canceled::default();
        jobs.begin_pause();
        assert!(jobs.may_flush() && !jobs.may_compact());
        jobs.complete_pause();
        assert!(!jobs.may_flush());
        jobs.begin_manual(true, &canceled).unwrap();
        jobs.begin_waiting();
        assert!(jobs.end_pause() && !jobs.end_pause());
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
    fn flags_end_what_runs_and_say_why() {
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
    fn helpers_take_the_threads_that_jobs_leave() {
        let mut jobs = Jobs::default();
        jobs.begin(JobKind::Compaction);
        let helper = jobs.begin_helper(2).unwrap();
        assert!(jobs.begin_helper(2).is_none());
        drop(helper);
        jobs.begin(JobKind::Flush);
        assert!(jobs.begin_helper(2).is_none() && jobs.begin_helper(3).is_some());
    }

    #[test]
    fn nothing_is_purged_in_a_directory_that_is_given_up() {
        let mut jobs = Jobs::default();
        assert!(jobs.begin_purge() && jobs.have_purges());
        jobs.give_up_directory();
        jobs.end_purge();
        assert!(!jobs.begin_purge() && !jobs.have_purges());
    }
}
