//! The state of background errors: the current error of the database, and the progress of resuming.
//!
//! A state machine behind its own lock, which is never held together with other locks or during calls of
//! other code. It makes the decisions, and the caller carries them out: it calls listeners, writes to the
//! info log and starts attempts.
//!
//! Invariants:
//!
//! E1. The error that stops writes is the current error if that is severe enough, and none otherwise.
//! E2. The current error is only replaced by a more severe one.
//! E3. At most one recovery is in progress, automatic or manual.
//! E4. A recovery ends when its error is cleared: an error that occurs from then on starts another one.

use std::sync::Arc;

use arc_swap::{ArcSwapOption, Guard};
use cairn_observe::BackgroundErrorReason;
use cairn_platform::sync::{AtomicU64, OnceLock, Ordering};
use cairn_types::{Code, Error, Result, Severity, Subcode};

use super::severity::Assessment;
use crate::locks::{Locks, Rank, Ranked};

/// The current error: the operation that failed, and the consequences.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BackgroundError {
    /// The work that failed.
    pub reason: BackgroundErrorReason,
    /// The severity: from `Hard` on, writes stop.
    pub severity: Severity,
    /// The cause.
    pub error: Error,
}

/// A function that starts an attempt to resume.
type Attempt = dyn Fn() + Send + Sync;

/// The background errors of a database.
pub(crate) struct Errors {
    state: Ranked<State>,
    /// The error that stops writes. Every write reads it, so it is outside the lock; it changes under the
    /// lock.
    failure: ArcSwapOption<Error>,
    failed_jobs: AtomicU64,
    attempt: OnceLock<Arc<Attempt>>,
}

#[derive(Default)]
struct State {
    current: Option<BackgroundError>,
    /// The last error that a listener reset, until the job that failed with it has reported it, too.
    reset_by_listener: Option<(BackgroundErrorReason, Error)>,
    recovery: Recovery,
}

/// The progress of resuming.
#[derive(Default)]
struct Recovery {
    under_way: UnderWay,
    /// The number of manual recoveries that have begun.
    manual_recoveries: u64,
    /// Remaining attempts.
    left: i32,
    /// Attempts made.
    attempts: u64,
    /// True if the log may have failed since the last recovery.
    log_failed: bool,
    /// True if the device was full at the last failure.
    full: bool,
    /// Free bytes before the last attempt.
    free_before: Option<u64>,
    /// True if an attempt is waiting for the last flush to end.
    waits_for_flushes: bool,
}

impl Recovery {
    /// Ends the recovery in progress. Returns the number of attempts if it was automatic.
    fn end(&mut self) -> Option<u64> {
        // A waiting attempt belongs to the recovery that ends.
        self.waits_for_flushes = false;
        let ended = std::mem::take(&mut self.under_way);
        (ended == UnderWay::Automatic).then_some(self.attempts)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum UnderWay {
    #[default]
    Nothing,
    /// The database is resuming automatically.
    Automatic,
    /// A caller is resuming.
    Manual(ManualRecovery),
}

/// Identifies a manual recovery. It may end when its error is cleared, and another one begin before its caller returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ManualRecovery(u64);

impl Errors {
    /// Creates the state without errors, for a database with `locks`.
    pub(crate) fn new(locks: Locks) -> Errors {
        Errors {
            state: locks.mutex(Rank::Errors, State::default()),
            failure: ArcSwapOption::empty(),
            failed_jobs: AtomicU64::new(0),
            attempt: OnceLock::new(),
        }
    }

    /// Sets the function that starts an attempt to resume; without it there is no recovery. Only the first
    /// call has an effect.
    pub(crate) fn set_attempt(&self, attempt: impl Fn() + Send + Sync + 'static) {
        self.attempt.get_or_init(|| Arc::new(attempt));
    }

    /// Returns the function that starts an attempt to resume.
    pub(super) fn attempt(&self) -> Option<Arc<Attempt>> {
        self.attempt.get().cloned()
    }

    /// Returns the error that stops writes.
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

    /// Returns the current error of the database.
    pub(crate) fn current(&self) -> Option<BackgroundError> {
        self.state.lock().current.clone()
    }

    /// Returns true if `error` is the current error, or one that was reset where it occurred: a job that fails because of
    /// it has nothing new to report. Records in any case that a log failed; a reset error is recognized once.
    ///
    /// Errors are compared by their text, so that one of a log may be that of another log, such as one that a recovery has
    /// to replace as well, or of another file. An error of a log is therefore new if the current one does not stop writes.
    pub(super) fn recognize(&self, reason: BackgroundErrorReason, error: &Error) -> bool {
        let mut state = self.state.lock();
        let reset_by_listener = state
            .reset_by_listener
            .take_if(|(before, reset_by_listener)| *before != reason && reset_by_listener == error)
            .is_some();
        let current = state.current.as_ref();
        let severity = current
            .filter(|current| current.error == *error)
            .map(|current| current.severity);
        let is_current = match is_of_log(reason) {
            true => severity >= Some(Severity::Hard),
            false => severity.is_some(),
        };
        state.recovery.log_failed |= is_current && is_of_log(reason);
        reset_by_listener || is_current
    }

    /// Records that a listener has reset `error`.
    pub(super) fn note_reset(&self, reason: BackgroundErrorReason, error: Error) {
        self.state.lock().reset_by_listener = Some((reason, error));
    }

    /// Records an error that is more severe than `NoError`; `retries` is `max_bgerror_resume_count`. True if
    /// the database should resume automatically.
    pub(super) fn note(
        &self,
        reason: BackgroundErrorReason,
        judged: &Assessment,
        error: &Error,
        retries: i32,
    ) -> bool {
        debug_assert!(
            judged.severity > Severity::NoError,
            "an error without consequences is not recorded"
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
            if severity >= Severity::Hard {
                self.failure.store(Some(Arc::new(error.clone())));
            }
        }
        self.check(&state);
        debug_assert!(
            state.current.as_ref().map(|current| current.severity) >= before,
            "the current error is only replaced by a more severe one (E2)"
        );
        let full = is_no_space(error);
        state.recovery.full = full;
        state.recovery.log_failed |= is_of_log(reason);
        // An error of a flush that stopped no writes is cleared when the flush succeeds.
        let passes = severity == Severity::Hard
            || severity == Severity::Soft && reason == BackgroundErrorReason::Compaction;
        judged.is_retryable && passes && (full || retries > 0)
    }

    /// Clears the error `left`, from which the database has resumed, and ends the recovery. Returns the number of attempts
    /// if it was automatic.
    ///
    /// # Errors
    ///
    /// A more severe error that occurred in the meantime.
    pub(super) fn clear(&self, left: &BackgroundError) -> Result<Option<u64>> {
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
        Ok(state.recovery.end())
    }

    /// Checks that the error that stops writes agrees with the current error.
    fn check(&self, state: &State) {
        let current = state.current.as_ref();
        let stops = current.filter(|current| current.severity >= Severity::Hard);
        debug_assert_eq!(
            self.failure.load().as_deref(),
            stops.map(|current| &current.error),
            "writes stop with the current error if and only if it is severe enough (E1)"
        );
    }

    /// Clears an error that stops nothing, if `is_over` accepts it, and ends an automatic recovery from it. Returns also
    /// the number of its attempts. A manual one continues.
    pub(super) fn clear_soft(
        &self,
        is_over: impl FnOnce(BackgroundErrorReason) -> bool,
    ) -> Option<(BackgroundError, Option<u64>)> {
        let mut state = self.state.lock();
        let over = state
            .current
            .take_if(|current| current.severity == Severity::Soft && is_over(current.reason))?;
        self.check(&state);
        let attempts = match state.recovery.under_way {
            UnderWay::Automatic => state.recovery.end(),
            UnderWay::Nothing | UnderWay::Manual(_) => None,
        };
        Some((over, attempts))
    }

    /// Returns the current error. If there is none, ends the recovery.
    pub(super) fn current_or_end(&self) -> Option<BackgroundError> {
        let mut state = self.state.lock();
        if state.current.is_none() {
            state.recovery.end();
        }
        state.current.clone()
    }
}

impl Errors {
    /// Starts an automatic recovery of at most `retries` attempts; false if one is in progress. If writes go on, because only
    /// compactions lack space, the free space before the last attempt still counts.
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
        if self.stop_writes() {
            recovery.free_before = None;
        }
        true
    }

    /// Starts a manual recovery, and returns the error to resume from; `None` if there is none.
    ///
    /// # Errors
    ///
    /// `Busy` if one is in progress; an error that requires reopening the database.
    pub(super) fn begin_manual(&self) -> Result<Option<(ManualRecovery, BackgroundError)>> {
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
        let recovery = ManualRecovery(state.recovery.manual_recoveries);
        state.recovery.manual_recoveries += 1;
        state.recovery.under_way = UnderWay::Manual(recovery);
        Ok(Some((recovery, current)))
    }

    /// Ends the recovery in progress. Returns the number of attempts if it was automatic.
    pub(super) fn end_recovery(&self) -> Option<u64> {
        self.state.lock().recovery.end()
    }

    /// Ends the manual recovery `which`, unless it ended when its error was cleared.
    pub(super) fn end_manual(&self, which: ManualRecovery) {
        let recovery = &mut self.state.lock().recovery;
        if recovery.under_way == UnderWay::Manual(which) {
            recovery.under_way = UnderWay::Nothing;
        }
    }

    /// Counts an attempt that starts.
    pub(super) fn count_attempt(&self) {
        self.state.lock().recovery.attempts += 1;
    }

    /// Counts a failed attempt. True if another one is to be made later, which is always the case while the
    /// device is full.
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

    /// Defers the next attempt until no flush is running, unless the recovery has ended in the meantime.
    pub(super) fn wait_for_flushes(&self) {
        let recovery = &mut self.state.lock().recovery;
        recovery.waits_for_flushes = recovery.under_way == UnderWay::Automatic;
    }

    /// Records that no flush is running any more. True if an attempt waited for that.
    pub(super) fn take_wait_for_flushes(&self) -> bool {
        std::mem::take(&mut self.state.lock().recovery.waits_for_flushes)
    }

    /// True if the device was full at the last failure.
    pub(super) fn is_device_full(&self) -> bool {
        self.state.lock().recovery.full
    }

    /// Records the `free` bytes of the device. True if an attempt that needs `needed` bytes is worthwhile:
    /// more are free than before the last one, or enough.
    pub(super) fn note_free_space(&self, free: u64, needed: u64) -> bool {
        let before = self.state.lock().recovery.free_before.replace(free);
        before.is_none_or(|before| free > before || free >= needed)
    }

    /// True if the log may have failed since the last recovery.
    pub(super) fn has_log_failed(&self) -> bool {
        self.state.lock().recovery.log_failed
    }

    /// Records that a new log has replaced the failed one.
    pub(super) fn log_was_replaced(&self) {
        let recovery = &mut self.state.lock().recovery;
        debug_assert!(recovery.log_failed, "a log that failed is replaced");
        recovery.log_failed = false;
    }
}

/// True for an error of a log, or one that leaves a memtable without a write that the log has.
fn is_of_log(reason: BackgroundErrorReason) -> bool {
    matches!(
        reason,
        BackgroundErrorReason::WriteCallback | BackgroundErrorReason::MemTable
    )
}

/// True if `error` is that of a job that was ended on purpose.
pub(super) fn is_intended(error: &Error) -> bool {
    matches!(
        error.code(),
        Code::ShutdownInProgress | Code::ColumnFamilyDropped
    ) || error.subcode() == Subcode::ManualCompactionPaused
}

/// True if `error` is that of a full device or an exhausted space limit.
pub(super) fn is_no_space(error: &Error) -> bool {
    matches!(error.subcode(), Subcode::NoSpace | Subcode::SpaceLimit)
}

#[cfg(test)]
mod tests {
    use BackgroundErrorReason as Reason;

    use super::*;

    fn assessment(severity: Severity) -> Assessment {
        Assessment {
            severity,
            is_retryable: true,
        }
    }

    fn hard(errors: &Errors, text: &str) -> bool {
        let error = Error::io_text(text);
        errors.note(Reason::Flush, &assessment(Severity::Hard), &error, 1)
    }

    #[test]
    fn only_a_more_severe_error_replaces_the_current_one() {
        let errors = Errors::new(Locks::new());
        let soft = Error::io_text("soft");
        errors.note(Reason::Compaction, &assessment(Severity::Soft), &soft, 1);
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
        errors.note(Reason::Flush, &assessment(Severity::Fatal), &fatal, 1);
        assert!(errors.clear(&current).is_err());
        assert!(failure().unwrap().contains("fatal"));
        assert!(errors.begin_manual().is_err());
    }

    /// Regression: writes failed with the last error rather than the most severe one.
    #[test]
    fn writes_fail_with_the_most_severe_error() {
        let errors = Errors::new(Locks::new());
        let worst = Error::corruption("damaged");
        let severity = assessment(Severity::Unrecoverable);
        errors.note(Reason::Flush, &severity, &worst, 1);
        let fatal = Error::panicked("a panic");
        errors.note(Reason::Flush, &assessment(Severity::Fatal), &fatal, 1);
        let failure = errors.failure().as_ref().map(|error| Error::clone(error));
        assert_eq!(failure, Some(worst.clone()));
        assert_eq!(errors.current().map(|current| current.error), Some(worst));
    }

    #[test]
    fn at_most_one_recovery_is_in_progress() {
        let errors = Errors::new(Locks::new());
        assert_eq!(errors.begin_manual().unwrap(), None);
        hard(&errors, "failed");
        let (_, current) = errors.begin_manual().unwrap().unwrap();
        assert!(errors.begin_manual().is_err() && !errors.begin_automatic(2));
        assert_eq!(errors.end_recovery(), None);
        assert!(errors.begin_automatic(2) && errors.begin_manual().is_err());
        errors.count_attempt();
        assert!(errors.may_try_again());
        errors.count_attempt();
        assert!(!errors.may_try_again());
        assert_eq!(errors.clear(&current).unwrap(), Some(2));
        assert!(!errors.stop_writes() && errors.current().is_none());
        assert_eq!(errors.end_recovery(), None);
    }

    /// Regression: a write that failed between the two was never resumed from.
    #[test]
    fn a_recovery_ends_when_its_error_is_cleared() {
        let errors = Errors::new(Locks::new());
        hard(&errors, "first");
        assert!(errors.begin_automatic(2));
        let first = errors.current().unwrap();
        errors.clear(&first).unwrap();
        assert!(hard(&errors, "second") && errors.begin_automatic(2), "E4");
        assert!(errors.current_or_end().is_some() && !errors.begin_automatic(2));

        let errors = Errors::new(Locks::new());
        let soft = Error::io_text("soft");
        errors.note(Reason::Compaction, &assessment(Severity::Soft), &soft, 1);
        assert!(errors.begin_automatic(2));
        let (cleared, attempts) = errors.clear_soft(|_| true).unwrap();
        assert_eq!((cleared.error, attempts), (soft, Some(0)));
        assert!(hard(&errors, "second") && errors.begin_automatic(2), "E4");

        let errors = Errors::new(Locks::new());
        assert!(errors.begin_automatic(2) && errors.current_or_end().is_none());
        assert!(errors.begin_automatic(2), "E4");
    }

    /// Regression: a soft error that cleared by itself also ended a manual recovery, and an automatic one
    /// could start concurrently.
    #[test]
    fn an_error_that_clears_does_not_end_a_manual_recovery() {
        let errors = Errors::new(Locks::new());
        let soft = Error::io_text("soft");
        errors.note(Reason::Compaction, &assessment(Severity::Soft), &soft, 1);
        let (recovery, _) = errors.begin_manual().unwrap().unwrap();
        let (_, attempts) = errors.clear_soft(|_| true).unwrap();
        assert_eq!(attempts, None);
        assert!(!errors.begin_automatic(1), "E3");
        errors.end_manual(recovery);
        assert!(errors.begin_automatic(1));
        errors.end_manual(recovery);
        assert_eq!(errors.end_recovery(), Some(0));
    }

    /// Regression: a caller whose recovery had ended with its error also ended one that another caller had begun since.
    #[test]
    fn a_manual_recovery_is_ended_by_its_caller_only() {
        let errors = Errors::new(Locks::new());
        hard(&errors, "first");
        let (first, current) = errors.begin_manual().unwrap().unwrap();
        assert_eq!(errors.clear(&current).unwrap(), None);
        hard(&errors, "second");
        let (second, _) = errors.begin_manual().unwrap().unwrap();
        errors.end_manual(first);
        assert!(
            errors.begin_manual().is_err() && !errors.begin_automatic(1),
            "E3"
        );
        errors.end_manual(second);
        assert!(errors.begin_automatic(1));
    }

    /// Regression: a soft error that cleared by itself ended the recovery but not its waiting attempt, which
    /// then ran in addition to those of the next recovery.
    #[test]
    fn an_attempt_waiting_for_flushes_ends_with_its_recovery() {
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
    fn a_full_device_is_retried_without_limit_when_space_is_freed() {
        let errors = Errors::new(Locks::new());
        let full = Error::new(Code::IoError, Subcode::NoSpace, "full");
        assert!(errors.note(Reason::Flush, &assessment(Severity::Hard), &full, 0));
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
            &assessment(Severity::Hard),
            &broken,
            1,
        );
        let current = errors.current().unwrap();
        assert!(errors.has_log_failed() && errors.clear(&current).is_err());
        errors.log_was_replaced();
        errors.clear(&current).unwrap();
    }

    /// Regression: a new log that failed with the text of the current error was not replaced, and no attempt to
    /// resume succeeded any more.
    #[test]
    fn a_log_that_fails_with_the_text_of_the_current_error_is_replaced() {
        let errors = Errors::new(Locks::new());
        let broken = Error::io_text("broken");
        let log = Reason::WriteCallback;
        errors.note(log, &assessment(Severity::Hard), &broken, 1);
        errors.log_was_replaced();
        assert!(errors.recognize(Reason::Flush, &broken) && !errors.has_log_failed());
        assert!(errors.recognize(log, &broken) && errors.has_log_failed());
        let current = errors.current().unwrap();
        assert!(errors.clear(&current).is_err());
        errors.log_was_replaced();
        errors.clear(&current).unwrap();
    }

    #[test]
    fn an_error_of_a_log_is_new_unless_the_current_one_stops_writes() {
        let errors = Errors::new(Locks::new());
        let broken = Error::io_text("broken");
        let soft = assessment(Severity::Soft);
        errors.note(Reason::FlushNoWal, &soft, &broken, 1);
        assert!(errors.recognize(Reason::FlushNoWal, &broken));
        assert!(!errors.recognize(Reason::WriteCallback, &broken) && !errors.has_log_failed());
        let hard = assessment(Severity::Hard);
        errors.note(Reason::WriteCallback, &hard, &broken, 1);
        assert!(errors.stop_writes() && errors.has_log_failed());
        assert!(errors.recognize(Reason::WriteCallback, &broken));
    }

    #[test]
    fn an_error_that_was_reset_is_recognized_once() {
        let errors = Errors::new(Locks::new());
        let error = Error::io_text("broken");
        errors.note_reset(Reason::ManifestWrite, error.clone());
        assert!(!errors.recognize(Reason::ManifestWrite, &error));
        assert!(errors.recognize(Reason::Flush, &error));
        assert!(!errors.recognize(Reason::Flush, &error));
    }
}
