//! Background errors: what is known of them, who is told, what they stop.
//!
//! An error that its caller alone cannot deal with (of a log, MANIFEST, flush or compaction) is
//! judged (`severity`): it stops nothing, or is kept as the state of the database. From
//! [`Severity::Hard`] on writes and jobs stop; every write reports the cause, reads go on. What may
//! pass is tried again by itself (`recovery`).
//!
//! [`Shared::failure`] is the part that writers look at; the state here stands beside it, under a
//! lock that is held alone and never across a file operation.

pub(crate) mod recovery;
pub(crate) mod retry;
pub(crate) mod severity;

use std::sync::{Arc, Weak};

use cairn_observe::BackgroundErrorReason;
use cairn_observe::calls::{self, Within};
use cairn_observe::statistics::Ticker;
use cairn_platform::sync::{AtomicU64, Mutex, OnceLock, Ordering};
use cairn_types::{Code, Error, Result, Severity, Subcode};

use crate::db::Db;
use crate::shared::Shared;
use recovery::Recovery;

/// An error that the database is in: what was being done, and what it stops.
#[derive(Clone, Debug, PartialEq)]
pub struct BackgroundError {
    /// What was being done.
    pub reason: BackgroundErrorReason,
    /// What it stops: from `Hard` on, writes.
    pub severity: Severity,
    /// The cause.
    pub error: Error,
}

/// The background errors of a database.
#[derive(Default)]
pub(crate) struct Errors {
    state: Mutex<State>,
    count: AtomicU64,
    owner: OnceLock<Weak<Shared>>,
}

#[derive(Default)]
struct State {
    current: Option<BackgroundError>,
    /// The last error that a listener took back, until the job that failed with it has reported it too.
    forgiven: Option<(BackgroundErrorReason, Error)>,
    recovery: Recovery,
}

impl Errors {
    /// The database whose errors these are; without it nothing is resumed.
    pub(crate) fn belongs_to(&self, shared: &Arc<Shared>) {
        // A second call names the same database.
        let _ = self.owner.set(Arc::downgrade(shared));
    }

    /// The number of jobs that have failed since the database was opened.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Counts a job that ended with `error`.
    pub(crate) fn count_failed_job(&self, error: &Error) {
        if !is_intended(error) {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The error that the database is in.
    pub(crate) fn current(&self) -> Option<BackgroundError> {
        self.state.lock().current.clone()
    }
}

/// Whether `error` says that a job ended because somebody wanted it to.
fn is_intended(error: &Error) -> bool {
    matches!(
        error.code(),
        Code::ShutdownInProgress | Code::ColumnFamilyDropped
    ) || error.subcode() == Subcode::ManualCompactionPaused
}

impl Shared {
    /// Takes note of `error`, which came while `reason` was done, and of what it stops. True if a listener
    /// has taken it back.
    pub(crate) fn background_error(&self, reason: BackgroundErrorReason, error: &Error) -> bool {
        self.background_error_said(reason, reason, error)
    }

    /// [`Shared::background_error`] of a flush that failed. Listeners get the reason that RocksDB gives for
    /// tables that cannot be written, whatever the log holds.
    pub(crate) fn flush_failed(&self, error: &Error) -> bool {
        let said = BackgroundErrorReason::FlushNoWal;
        self.background_error_said(self.flush_reason(), said, error)
    }

    /// [`Shared::background_error`], for which listeners get the reason `said`.
    fn background_error_said(
        &self,
        reason: BackgroundErrorReason,
        said: BackgroundErrorReason,
        error: &Error,
    ) -> bool {
        if is_intended(error) || self.is_known(reason, error) {
            return false;
        }
        self.telemetry.tick(Ticker::ErrorHandlerBgErrorCount, 1);
        if error.code() == Code::IoError {
            self.telemetry.tick(Ticker::ErrorHandlerBgIoErrorCount, 1);
        }
        let judged = severity::judge(reason, error, self.options().paranoid_checks);
        let is_full = matches!(error.subcode(), Subcode::NoSpace | Subcode::SpaceLimit);
        if judged.may_pass && error.code() == Code::IoError && !is_full {
            self.telemetry
                .tick(Ticker::ErrorHandlerBgRetryableIoErrorCount, 1);
        }
        let mut told = Some(error.clone());
        // At once, and not as a notice: a listener may forgive the error.
        calls::within(&self.context.info, Within::Locked, || {
            self.telemetry
                .notify(|listener| listener.on_background_error(said, &mut told));
        });
        let Some(error) = told else {
            self.context.info.warn(format_args!(
                "background error of {} that a listener forgave: {error}",
                reason.text()
            ));
            self.errors.state.lock().forgiven = Some((reason, error.clone()));
            return true;
        };
        self.context.info.error(format_args!(
            "background error of {} ({:?}): {error}",
            reason.text(),
            judged.severity
        ));
        if judged.severity == Severity::NoError {
            return false;
        }
        let starts = {
            let mut state = self.errors.state.lock();
            let before = state.current.as_ref().map(|current| current.severity);
            if before < Some(judged.severity) {
                state.current = Some(BackgroundError {
                    reason,
                    severity: judged.severity,
                    error: error.clone(),
                });
            }
            if judged.severity >= Severity::Hard && before < Some(Severity::Hard)
                || judged.severity > Severity::Hard
            {
                self.failure.store(Some(Arc::new(error.clone())));
            }
            state.recovery.failed(reason, &error);
            let full = matches!(error.subcode(), Subcode::NoSpace | Subcode::SpaceLimit);
            let allowed = full || self.options().max_bgerror_resume_count > 0;
            // A flush that stopped no writes is over its error when it succeeds.
            let passes = judged.severity == Severity::Hard
                || judged.severity == Severity::Soft && reason == BackgroundErrorReason::Compaction;
            judged.may_pass && passes && allowed
        };
        self.attention.store(true, Ordering::Release);
        drop(self.tree.lock());
        self.changed.notify_all();
        if starts {
            self.start_recovery(said, &error, judged.severity);
        }
        false
    }

    /// True if `error` is the one that the database is in, or one that was taken back where it happened: a
    /// job that fails because of it reports nothing new.
    fn is_known(&self, reason: BackgroundErrorReason, error: &Error) -> bool {
        let mut state = self.errors.state.lock();
        let forgiven = state
            .forgiven
            .take_if(|(before, forgiven)| *before != reason && forgiven == error);
        let current = state.current.as_ref();
        forgiven.is_some() || current.is_some_and(|current| current.error == *error)
    }

    /// [`Shared::background_error`] of the log.
    pub(crate) fn log_failed(&self, error: &Error) {
        self.background_error(BackgroundErrorReason::WriteCallback, error);
    }

    /// [`Shared::background_error`] of the MANIFEST, for which listeners get `reason`.
    pub(crate) fn manifest_failed(&self, reason: BackgroundErrorReason, error: &Error) {
        self.background_error_said(BackgroundErrorReason::ManifestWrite, reason, error);
    }

    /// Ends a wait for room of a writer while flushes fail: memory is full, and nobody knows until
    /// when.
    pub(crate) fn check_stall(&self) -> Result<()> {
        match self.errors.current() {
            Some(current)
                if current.severity == Severity::Soft
                    && current.reason != BackgroundErrorReason::Compaction =>
            {
                Err(current
                    .error
                    .context("the memtables are full and flushes fail"))
            }
            _ => Ok(()),
        }
    }
}

impl Db {
    /// The error that the database is in, with what it stops.
    #[must_use]
    pub fn background_error_state(&self) -> Option<BackgroundError> {
        self.shared().errors.current()
    }

    /// Leaves the error that the database is in: what is in memory is written to tables, the log
    /// and the MANIFEST are begun anew where they had failed, and writes go on.
    ///
    /// # Errors
    ///
    /// `Busy` while the database resumes by itself. What failed this time; the error that the
    /// database is in if only opening it again helps.
    pub fn resume(&self) -> Result<()> {
        self.shared().resume()
    }
}
