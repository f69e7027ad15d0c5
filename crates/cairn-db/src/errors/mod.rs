//! Background errors: their reports to listeners and to the info log, and their consequences.
//!
//! An error that cannot be handled by its caller alone (of a log, MANIFEST, flush or compaction) is
//! classified (`severity`): it either has no consequences or becomes the error state of the database. From
//! [`Severity::Hard`] on, writes and jobs stop; every write returns the cause, and reads proceed. Transient
//! errors are retried automatically (`recovery`).
//!
//! [`Errors`](state::Errors) has the state and its rules; this module calls listeners and writes to the info
//! log.

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
    /// Records `error`, which occurred during `reason`, and its consequences. True if a listener has reset
    /// it.
    pub(crate) fn background_error(&self, reason: BackgroundErrorReason, error: &Error) -> bool {
        self.report_background_error(reason, reason, error)
    }

    /// [`Shared::background_error`] for a failed flush. Listeners get RocksDB's reason for tables that cannot
    /// be written, regardless of the log.
    pub(crate) fn flush_failed(&self, error: &Error) -> bool {
        let listener_reason = BackgroundErrorReason::FlushNoWal;
        self.report_background_error(self.flush_reason(), listener_reason, error)
    }

    /// [`Shared::background_error`] with the reason `listener_reason` for listeners.
    fn report_background_error(
        &self,
        reason: BackgroundErrorReason,
        listener_reason: BackgroundErrorReason,
        error: &Error,
    ) -> bool {
        if is_intended(error) || self.errors.recognize(reason, error) {
            return false;
        }
        self.telemetry.tick(Ticker::ErrorHandlerBgErrorCount, 1);
        if error.code() == Code::IoError {
            self.telemetry.tick(Ticker::ErrorHandlerBgIoErrorCount, 1);
        }
        let judged = severity::judge(reason, error, self.options().paranoid_checks);
        if judged.is_retryable && error.code() == Code::IoError && !is_no_space(error) {
            self.telemetry
                .tick(Ticker::ErrorHandlerBgRetryableIoErrorCount, 1);
        }
        let mut shown = Some(error.clone());
        // Called at once rather than queued, since a listener may reset the error.
        callback::within(&self.context.info, Within::Locked, || {
            self.telemetry
                .notify(|listener| listener.on_background_error(listener_reason, &mut shown));
        });
        let Some(error) = shown else {
            self.context.info.warn(format_args!(
                "background error of {}, reset by a listener: {error}",
                reason.text()
            ));
            self.errors.note_reset(reason, error.clone());
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
        if let Some(buffers) = &self.writes.buffers {
            // Databases that share the manager do not wait for the memtables of this one.
            buffers.flush_failed();
        }
        if starts {
            self.start_recovery(listener_reason, &error, judged.severity);
        }
        false
    }

    /// [`Shared::background_error`] for an error of the log.
    pub(crate) fn log_failed(&self, error: &Error) {
        self.background_error(BackgroundErrorReason::WriteCallback, error);
    }

    /// [`Shared::background_error`] for an error of the MANIFEST, with `reason` for listeners.
    pub(crate) fn manifest_error(&self, reason: BackgroundErrorReason, error: &Error) {
        self.report_background_error(BackgroundErrorReason::ManifestWrite, reason, error);
    }

    /// # Errors
    ///
    /// `SpaceLimit` if writes have to stop because files have reached the limit of the `SstFileManager`.
    fn check_space(&self) -> Result<()> {
        match self.options().paranoid_checks {
            true => self.catalog.space.check_limit(),
            false => Ok(()),
        }
    }

    /// Checks the space limit after a job that created files, and stops writes if it is reached. The caller
    /// holds no lock.
    pub(crate) fn note_space(&self, reason: BackgroundErrorReason) {
        if let Err(error) = self.catalog.space.check_limit() {
            self.background_error(reason, &error);
        }
    }

    /// Ends the wait of a writer for room while flushes fail, because it is unknown when memory will be
    /// available.
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
    /// Returns the current error of the database and its severity.
    #[must_use]
    pub fn background_error_state(&self) -> Option<BackgroundError> {
        self.shared().errors.current()
    }

    /// Resumes from the current error of the database: memtables are flushed, a failed log or MANIFEST is
    /// replaced by a new one, and writes proceed.
    ///
    /// # Errors
    ///
    /// `Busy` while the database is resuming automatically; an error of this attempt; the current error, if
    /// it requires reopening the database.
    pub fn resume(&self) -> Result<()> {
        self.shared().resume()
    }
}
