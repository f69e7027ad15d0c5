//! The state of background errors: the error that the database is in, and how far resuming from it has come.
//!
//! A state machine behind a lock of its own, which is held alone and never across a call of other code. It
//! decides, and the caller acts: calls listeners, writes to the info log, starts attempts.
//!
//! Invariants:
//!
//! E1. The error that stops writes is set only while there is a current error, and is cleared with it.
//! E2. The current error is only replaced by a graver one.
//! E3. At most one recovery is under way, by itself or by hand.

use std::sync::Arc;

use arc_swap::{ArcSwapOption, Guard};
use cairn_observe::BackgroundErrorReason;
use cairn_platform::sync::{AtomicU64, OnceLock, Ordering};
use cairn_types::{Code, Error, Result, Severity, Subcode};

use super::severity::Judgement;
use crate::locks::{Locks, Rank, Ranked};

/// An error that the database is in: what was being done, and what it stops.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BackgroundError {
    /// The work that failed.
    pub reason: BackgroundErrorReason,
    /// The work that it stops: from `Hard` on, writes.
    pub severity: Severity,
    /// The cause.
    pub error: Error,
}

/// A function that makes an attempt to resume.
type Attempt = dyn Fn() + Send + Sync;

/// The background errors of a database.
pub(crate) struct Errors {
    state: Ranked<State>,
    /// The error that stops writes. Every write reads it, so it lies outside the lock; it changes under it.
    failure: ArcSwapOption<Error>,
    failed_jobs: AtomicU64,
    attempt: OnceLock<Arc<Attempt>>,
}

#[derive(Default)]
struct State {
    current: Option<BackgroundError>,
    /// The last error that a listener took back, until the job that failed with it has reported it too.
    forgiven: Option<(BackgroundErrorReason, Error)>,
    recovery: Recovery,
}

/// The progress of resuming.
#[derive(Default)]
struct Recovery {
    under_way: UnderWay,
    /// Attempts that are left.
    left: i32,
    /// Attempts that were made.
    attempts: u64,
    /// The log may have failed since the last recovery.
    log_failed: bool,
    /// The device was full at the last failure.
    full: bool,
    /// Free bytes before the last attempt.
    free_before: Option<u64>,
    /// An attempt waits for the last flush to end.
    waits_for_flushes: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum UnderWay {
    #[default]
    Nothing,
    /// The database resumes by itself.
    Automatic,
    /// A caller resumes.
    ByHand,
}

impl Errors {
    /// No errors, of the database that has `locks`.
    pub(crate) fn new(locks: Locks) -> Errors {
        Errors {
            state: locks.mutex(Rank::Errors, State::default()),
            failure: ArcSwapOption::empty(),
            failed_jobs: AtomicU64::new(0),
            attempt: OnceLock::new(),
        }
    }

    /// Sets the function that makes an attempt to resume; without it nothing is resumed. The first call counts.
    pub(crate) fn set_attempt(&self, attempt: impl Fn() + Send + Sync + 'static) {
        self.attempt.get_or_init(|| Arc::new(attempt));
    }

    /// The function that makes an attempt to resume.
    pub(super) fn attempt(&self) -> Option<Arc<Attempt>> {
        self.attempt.get().cloned()
    }

    /// The error that stops writes.
    #[inline]
    pub(crate) fn failure(&self) -> Guard<Option<Arc<Error>>> {
        self.failure.load()
    }

    /// True if an error stops writes.
    pub(crate) fn stop_writes(&self) -> bool {
        self.failure.load().is_some()
    }

    /// The number of jobs that have failed since the database was opened.
    pub(crate) fn failed_jobs(&self) -> u64 {
        self.failed_jobs.load(Ordering::Relaxed)
    }

    /// Counts a job that ended with `error`.
    pub(crate) fn count_failed_job(&self, error: &Error) {
        if !is_intended(error) {
            self.failed_jobs.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The error that the database is in.
    pub(crate) fn current(&self) -> Option<BackgroundError> {
        self.state.lock().current.clone()
    }

    /// True if `error` is the current one, or one that was taken back where it happened: a job that fails because of
    /// it reports nothing new.
    pub(super) fn is_known(&self, reason: BackgroundErrorReason, error: &Error) -> bool {
        let mut state = self.state.lock();
        let forgiven = state
            .forgiven
            .take_if(|(before, forgiven)| *before != reason && forgiven == error);
        let current = state.current.as_ref();
        forgiven.is_some() || current.is_some_and(|current| current.error == *error)
    }

    /// A listener has taken `error` back.
    pub(super) fn forgive(&self, reason: BackgroundErrorReason, error: Error) {
        self.state.lock().forgiven = Some((reason, error));
    }

    /// Takes note of an error that was judged more than `NoError`; `retries` is `max_bgerror_resume_count`. True if
    /// the database should resume by itself.
    pub(super) fn note(
        &self,
        reason: BackgroundErrorReason,
        judged: &Judgement,
        error: &Error,
        retries: i32,
    ) -> bool {
        debug_assert!(
            judged.severity > Severity::NoError,
            "an error without consequences is not noted"
        );
        let mut state = self.state.lock();
        let before = state.current.as_ref().map(|current| current.severity);
        let severity = judged.severity;
        if before < Some(severity) {
            state.current = Some(BackgroundError {
                reason,
                severity,
                error: error.clone(),
            });
        }
        if severity >= Severity::Hard && before < Some(Severity::Hard) || severity > Severity::Hard
        {
            self.failure.store(Some(Arc::new(error.clone())));
        }
        self.check(&state);
        debug_assert!(
            state.current.as_ref().map(|current| current.severity) >= before,
            "the current error is only replaced by a graver one (E2)"
        );
        let full = is_no_space(error);
        state.recovery.full = full;
        state.recovery.log_failed |= matches!(
            reason,
            BackgroundErrorReason::WriteCallback | BackgroundErrorReason::MemTable
        );
        // A flush that stopped no writes is over its error when it succeeds.
        let passes = severity == Severity::Hard
            || severity == Severity::Soft && reason == BackgroundErrorReason::Compaction;
        judged.may_pass && passes && (full || retries > 0)
    }

    /// Clears the error `left`, which was resumed from.
    ///
    /// # Errors
    ///
    /// A graver one that came meanwhile.
    pub(super) fn clear(&self, left: &BackgroundError) -> Result<()> {
        let mut state = self.state.lock();
        if let Some(now) = &state.current
            && now.severity > left.severity
        {
            return Err(now.error.clone());
        }
        if state.recovery.log_failed && left.severity >= Severity::Hard {
            return Err(Error::io_text("the new log failed too"));
        }
        state.current = None;
        self.failure.store(None);
        Ok(())
    }

    /// Checks that what stops writes agrees with the current error.
    fn check(&self, state: &State) {
        let severity = state.current.as_ref().map(|current| current.severity);
        debug_assert_eq!(
            self.failure.load().is_some(),
            severity >= Some(Severity::Hard),
            "writes stop while the current error is that grave: {severity:?} (E1)"
        );
    }

    /// Clears an error that stops nothing and that `is_over` accepts.
    pub(super) fn clear_soft(
        &self,
        is_over: impl FnOnce(BackgroundErrorReason) -> bool,
    ) -> Option<BackgroundError> {
        let mut state = self.state.lock();
        let over = state
            .current
            .take_if(|current| current.severity == Severity::Soft && is_over(current.reason));
        self.check(&state);
        over
    }
}

impl Errors {
    /// Begins a recovery that goes on by itself, of at most `retries` attempts; false if one is under way.
    pub(super) fn begin_automatic(&self, retries: i32) -> bool {
        let recovery = &mut self.state.lock().recovery;
        if recovery.under_way != UnderWay::Nothing {
            return false;
        }
        debug_assert!(
            !recovery.waits_for_flushes,
            "no attempt waits while no recovery is under way (E3)"
        );
        recovery.under_way = UnderWay::Automatic;
        recovery.left = retries;
        recovery.attempts = 0;
        recovery.free_before = None;
        true
    }

    /// Begins a recovery by hand, and returns the error to leave; `None` if there is none.
    ///
    /// # Errors
    ///
    /// `Busy` if one is under way; an error that only another opening leaves.
    pub(super) fn begin_by_hand(&self) -> Result<Option<BackgroundError>> {
        let mut state = self.state.lock();
        let Some(current) = state.current.clone() else {
            return Ok(None);
        };
        if current.severity > Severity::Hard {
            return Err(current
                .error
                .context("only opening the database again helps"));
        }
        if state.recovery.under_way != UnderWay::Nothing {
            return Err(Error::busy("the database is resuming already"));
        }
        state.recovery.under_way = UnderWay::ByHand;
        Ok(Some(current))
    }

    /// Ends the recovery that is under way; the number of attempts of one that went on by itself.
    pub(super) fn end_recovery(&self) -> Option<u64> {
        let recovery = &mut self.state.lock().recovery;
        // An attempt that waits belongs to the recovery that ends.
        recovery.waits_for_flushes = false;
        let ended = std::mem::take(&mut recovery.under_way);
        (ended == UnderWay::Automatic).then_some(recovery.attempts)
    }

    /// Ends a recovery that goes on by itself, if one is under way; the number of its attempts. A recovery by hand goes on.
    pub(super) fn end_automatic(&self) -> Option<u64> {
        let recovery = &mut self.state.lock().recovery;
        if recovery.under_way != UnderWay::Automatic {
            return None;
        }
        recovery.waits_for_flushes = false;
        recovery.under_way = UnderWay::Nothing;
        Some(recovery.attempts)
    }

    /// Ends a recovery by hand, if its error has not ended it.
    pub(super) fn end_by_hand(&self) {
        let recovery = &mut self.state.lock().recovery;
        if recovery.under_way == UnderWay::ByHand {
            recovery.under_way = UnderWay::Nothing;
        }
    }

    /// Counts an attempt that begins.
    pub(super) fn count_attempt(&self) {
        self.state.lock().recovery.attempts += 1;
    }

    /// Counts an attempt that failed; true if another one is to be made later. While the device is full there
    /// always is.
    pub(super) fn may_try_again(&self) -> bool {
        let recovery = &mut self.state.lock().recovery;
        if recovery.full {
            return true;
        }
        debug_assert!(
            recovery.attempts > 0 || recovery.under_way != UnderWay::Automatic,
            "an attempt that failed was counted"
        );
        recovery.left -= 1;
        recovery.left > 0
    }

    /// Defers the next attempt until no flush runs, unless the recovery has ended meanwhile.
    pub(super) fn wait_for_flushes(&self) {
        let recovery = &mut self.state.lock().recovery;
        recovery.waits_for_flushes = recovery.under_way == UnderWay::Automatic;
    }

    /// No flush runs any more; true if an attempt waited for that.
    pub(super) fn take_wait_for_flushes(&self) -> bool {
        std::mem::take(&mut self.state.lock().recovery.waits_for_flushes)
    }

    /// True if the device was full at the last failure.
    pub(super) fn is_device_full(&self) -> bool {
        self.state.lock().recovery.full
    }

    /// Records the `free` bytes of the device. True if an attempt that needs `needed` of them is worth making: more
    /// are free than before the last one, or enough.
    pub(super) fn note_free_space(&self, free: u64, needed: u64) -> bool {
        let before = self.state.lock().recovery.free_before.replace(free);
        before.is_none_or(|before| free > before || free >= needed)
    }

    /// True if the log may have failed since the last recovery.
    pub(super) fn has_log_failed(&self) -> bool {
        self.state.lock().recovery.log_failed
    }

    /// A new log has taken the place of the one that failed.
    pub(super) fn log_was_replaced(&self) {
        let recovery = &mut self.state.lock().recovery;
        debug_assert!(recovery.log_failed, "a log that failed is replaced");
        recovery.log_failed = false;
    }
}

/// True if `error` says that a job ended because it was meant to.
pub(super) fn is_intended(error: &Error) -> bool {
    matches!(
        error.code(),
        Code::ShutdownInProgress | Code::ColumnFamilyDropped
    ) || error.subcode() == Subcode::ManualCompactionPaused
}

/// True if `error` is that of a device, or an allowance, without room.
pub(super) fn is_no_space(error: &Error) -> bool {
    matches!(error.subcode(), Subcode::NoSpace | Subcode::SpaceLimit)
}

#[cfg(test)]
mod tests {
    use BackgroundErrorReason as Reason;

    use super::*;

    fn judgement(severity: Severity) -> Judgement {
        Judgement {
            severity,
            may_pass: true,
        }
    }

    fn hard(errors: &Errors, text: &str) -> bool {
        let error = Error::io_text(text);
        errors.note(Reason::Flush, &judgement(Severity::Hard), &error, 1)
    }

    #[test]
    fn a_graver_error_takes_the_place_of_a_lighter_one_and_none_else_does() {
        let errors = Errors::new(Locks::new());
        let soft = Error::io_text("soft");
        errors.note(Reason::Compaction, &judgement(Severity::Soft), &soft, 1);
        assert!(!errors.stop_writes());
        assert!(hard(&errors, "first") && hard(&errors, "second"));
        let failure = || {
            errors
                .failure()
                .as_ref()
                .map(|error| error.text().to_owned())
        };
        assert!(failure().unwrap().contains("first"));
        let current = errors.current().unwrap();
        assert!(errors.clear_soft(|_| true).is_none());
        let fatal = Error::corruption("fatal");
        errors.note(Reason::Flush, &judgement(Severity::Fatal), &fatal, 1);
        assert!(errors.clear(&current).is_err());
        assert!(failure().unwrap().contains("fatal"));
        assert!(errors.begin_by_hand().is_err());
    }

    #[test]
    fn one_recovery_at_a_time() {
        let errors = Errors::new(Locks::new());
        assert_eq!(errors.begin_by_hand().unwrap(), None);
        hard(&errors, "failed");
        let current = errors.begin_by_hand().unwrap().unwrap();
        assert!(errors.begin_by_hand().is_err() && !errors.begin_automatic(2));
        assert_eq!(errors.end_recovery(), None);
        assert!(errors.begin_automatic(2) && errors.begin_by_hand().is_err());
        errors.count_attempt();
        assert!(errors.may_try_again());
        errors.count_attempt();
        assert!(!errors.may_try_again());
        errors.clear(&current).unwrap();
        assert!(!errors.stop_writes() && errors.current().is_none());
        assert_eq!(errors.end_recovery(), Some(2));
    }

    /// A soft error that passed by itself ended a recovery by hand too, and an automatic one could begin beside it.
    #[test]
    fn an_error_that_passes_leaves_a_recovery_by_hand_under_way() {
        let errors = Errors::new(Locks::new());
        let soft = Error::io_text("soft");
        errors.note(Reason::Compaction, &judgement(Severity::Soft), &soft, 1);
        errors.begin_by_hand().unwrap().unwrap();
        assert!(errors.clear_soft(|_| true).is_some());
        assert_eq!(errors.end_automatic(), None);
        assert!(!errors.begin_automatic(1), "E3");
        errors.end_by_hand();
        assert!(errors.begin_automatic(1));
        errors.end_by_hand();
        assert_eq!(errors.end_automatic(), Some(0));
    }

    /// A soft error that passed by itself ended the recovery and left its attempt waiting, which then went on beside
    /// those of the next recovery.
    #[test]
    fn an_attempt_that_waits_for_flushes_ends_with_its_recovery() {
        let errors = Errors::new(Locks::new());
        assert!(errors.begin_automatic(2));
        errors.wait_for_flushes();
        assert_eq!(errors.end_recovery(), Some(0));
        assert!(!errors.take_wait_for_flushes());
        errors.wait_for_flushes();
        assert!(errors.begin_automatic(2) && !errors.take_wait_for_flushes());
        errors.wait_for_flushes();
        assert!(errors.take_wait_for_flushes());
    }

    #[test]
    fn a_full_device_is_tried_again_for_ever_when_more_is_free() {
        let errors = Errors::new(Locks::new());
        let full = Error::new(Code::IoError, Subcode::NoSpace, "full");
        assert!(errors.note(Reason::Flush, &judgement(Severity::Hard), &full, 0));
        assert!(errors.begin_automatic(0) && errors.is_device_full());
        errors.count_attempt();
        assert!((0..9).all(|_| errors.may_try_again()));
        assert!(errors.note_free_space(100, 1_000));
        assert!(!errors.note_free_space(100, 1_000) && errors.note_free_space(101, 1_000));
        assert!(errors.note_free_space(50, 50));
        assert!(hard(&errors, "another reason") && !errors.is_device_full());
        assert!(!errors.may_try_again());
    }

    #[test]
    fn a_log_that_fails_again_keeps_the_error() {
        let errors = Errors::new(Locks::new());
        let broken = Error::io_text("broken");
        errors.note(
            Reason::WriteCallback,
            &judgement(Severity::Hard),
            &broken,
            1,
        );
        let current = errors.current().unwrap();
        assert!(errors.has_log_failed() && errors.clear(&current).is_err());
        errors.log_was_replaced();
        errors.clear(&current).unwrap();
    }

    #[test]
    fn an_error_that_was_taken_back_is_known_once() {
        let errors = Errors::new(Locks::new());
        let error = Error::io_text("broken");
        errors.forgive(Reason::ManifestWrite, error.clone());
        assert!(!errors.is_known(Reason::ManifestWrite, &error));
        assert!(errors.is_known(Reason::Flush, &error));
        assert!(!errors.is_known(Reason::Flush, &error));
    }
}
