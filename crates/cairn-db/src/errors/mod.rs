//! Background errors: their reports to listeners and the info log, and what they stop.
//!
//! An error that its caller alone cannot deal with (of a log, MANIFEST, flush or compaction) is
//! judged (`severity`): it stops nothing, or is kept as the state of the database. From
//! [`Severity::Hard`] on writes and jobs stop; every write reports the cause, reads go on. What may
//! pass is tried again by itself (`recovery`).
//!
//! [`Errors`](state::Errors) is the state and its rules; here stand the calls of listeners and the lines of the info log.

mod job_outcome;
mod recovery;
pub(crate) mod retry;
pub(crate) mod severity;
pub(crate) mod state;

use cairn_observe::BackgroundErrorReason;
use cairn_observe::callback::{self, Within};
use cairn_observe::statistics::Ticker;
use cairn_types::{Code, Error, Result, Severity};

use crate::db::Db;
use crate::shared::Shared;
pub use state::BackgroundError;
use state::{is_intended, is_no_space};

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
        if is_intended(error) || self.errors.is_known(reason, error) {
            return false;
        }
        self.telemetry.tick(Ticker::ErrorHandlerBgErrorCount, 1);
        if error.code() == Code::IoError {
            self.telemetry.tick(Ticker::ErrorHandlerBgIoErrorCount, 1);
        }
        let judged = severity::judge(reason, error, self.options().paranoid_checks);
        if judged.may_pass && error.code() == Code::IoError && !is_no_space(error) {
            self.telemetry
                .tick(Ticker::ErrorHandlerBgRetryableIoErrorCount, 1);
        }
        let mut shown = Some(error.clone());
        // At once, and not as a notice: a listener may forgive the error.
        callback::within(&self.context.info, Within::Locked, || {
            self.telemetry
                .notify(|listener| listener.on_background_error(said, &mut shown));
        });
        let Some(error) = shown else {
            self.context.info.warn(format_args!(
                "background error of {} that a listener forgave: {error}",
                reason.text()
            ));
            self.errors.forgive(reason, error.clone());
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
        let retries = self.options().max_bgerror_resume_count;
        let starts = self.errors.note(reason, &judged, &error, retries);
        self.signals.request_attention();
        drop(self.tree.lock());
        self.changed.notify_all();
        if starts {
            self.start_recovery(said, &error, judged.severity);
        }
        false
    }

    /// [`Shared::background_error`] of the log.
    pub(crate) fn log_failed(&self, error: &Error) {
        self.background_error(BackgroundErrorReason::WriteCallback, error);
    }

    /// [`Shared::background_error`] of the MANIFEST, for which listeners get `reason`.
    pub(crate) fn manifest_error(&self, reason: BackgroundErrorReason, error: &Error) {
        self.background_error_said(BackgroundErrorReason::ManifestWrite, reason, error);
    }

    /// # Errors
    ///
    /// `SpaceLimit` if writes have to stop because files have reached the limit of the `SstFileManager`.
    fn check_space(&self) -> Result<()> {
        match self.options().paranoid_checks {
            true => self.catalog.space().check_limit(),
            false => Ok(()),
        }
    }

    /// Checks the limit after a job that made files, and stops writes if it is reached. The
    /// caller holds no lock.
    pub(crate) fn note_space(&self, reason: BackgroundErrorReason) {
        if let Err(error) = self.catalog.space().check_limit() {
            self.background_error(reason, &error);
        }
    }

    /// Ends the wait of a writer for room while flushes fail: memory is full for an unknown time.
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
