//! Leaving a background error, by itself or by hand.
//!
//! 1. The log, if it failed, is abandoned for a new one; nothing more is written to it, and no
//!    sync of it counts any more. What was logged in it is in the memtables but for the write that
//!    failed, which is in doubt until then and gone afterwards.
//! 2. All memtables (those that wait, if the log is sound) are written to tables and installed
//!    together, so that a crash finds one moment of all families. A MANIFEST that failed is
//!    replaced by a new one.
//! 3. An edit says that older logs are not needed, even when there was nothing to flush.
//! 4. The error is gone. Writers, which have failed until here, go on; jobs start.
//!
//! By itself the database begins at once and tries again every `bgerror_resume_retry_interval`,
//! `max_bgerror_resume_count` times; while the device is full, for ever, and only when there is
//! more room than at the last attempt or enough for the memtables. A recovery counts as a flush
//! (no other runs beside it, and closing waits for it).

use std::sync::Arc;
use std::time::Duration;

use cairn_observe::BackgroundErrorReason as Reason;
use cairn_observe::listener::BackgroundErrorRecoveryInfo;
use cairn_observe::statistics::{Histogram, Ticker};
use cairn_platform::Priority;
use cairn_types::{Code, Error, Result, Severity};

use super::BackgroundError;
use crate::catalog::family::FamilyState;
use crate::jobs::JobKind;
use crate::shared::Shared;

/// The step after an attempt.
enum Next {
    Over,
    /// Flushes run; the end of the last one starts the next attempt.
    WhenFlushed,
    Later,
}

impl Shared {
    /// Starts an automatic recovery from `error`, unless one is under way or a listener forbids it.
    pub(super) fn start_recovery(&self, reason: Reason, error: &Error, severity: Severity) {
        let mut auto_recovery = true;
        self.telemetry.notify(|listener| {
            listener.on_error_recovery_begin(reason, error, &mut auto_recovery);
        });
        let retries = self.options().max_bgerror_resume_count;
        if !auto_recovery || !self.errors.begin_automatic(retries) {
            return;
        }
        self.telemetry.tick(Ticker::ErrorHandlerAutoresumeCount, 1);
        self.context
            .info
            .info(format_args!("resuming by itself from: {error}"));
        // What stopped nothing is left alone for a while, for there is nothing to be done about it.
        self.recover_after(match severity {
            Severity::Soft => self.resume_interval(),
            _ => Duration::ZERO,
        });
    }

    /// The time between two attempts.
    fn resume_interval(&self) -> Duration {
        Duration::from_micros(self.options().bgerror_resume_retry_interval.max(1))
    }

    /// Makes an attempt in the background after `delay`.
    fn recover_after(&self, delay: Duration) {
        let Some(attempt) = self.errors.attempt() else {
            return;
        };
        let attempt = Box::new(move || attempt());
        match delay.is_zero() {
            true => self.context.world.executor.spawn(Priority::High, attempt),
            false => self
                .context
                .world
                .executor
                .spawn_after(delay, Priority::High, attempt),
        }
    }

    /// A flush has ended: an attempt that waited for it goes on.
    pub(crate) fn recovery_goes_on(&self, flushes: usize) {
        if flushes == 0 && self.errors.take_wait_for_flushes() {
            self.recover_after(Duration::ZERO);
        }
    }

    pub(crate) fn recover_in_background(self: &Arc<Self>) {
        let next = match self.has_room_to_recover() {
            true => self.attempt(),
            false => Next::Later,
        };
        match next {
            Next::Over | Next::WhenFlushed => {}
            Next::Later => {
                self.recover_after(self.resume_interval());
            }
        }
    }

    /// True if an attempt is worth it: the database may take room, and the device was not full or
    /// has more room now.
    fn has_room_to_recover(&self) -> bool {
        if self.lifecycle.is_closing() {
            return true;
        }
        if self.check_space().is_err() {
            return false;
        }
        if !self.errors.is_device_full() {
            return true;
        }
        let free = match self.context.world.fs.free_space(&self.context.dir) {
            Ok(free) => free,
            // The free space is unknown.
            Err(_) => return true,
        };
        let families = self.catalog.families();
        let needed: usize = families
            .iter()
            .map(|family| {
                let view = family.view();
                let waiting: usize = view.immutables.iter().map(|m| m.memory_usage()).sum();
                view.memtable.memory_usage() + waiting
            })
            .sum();
        self.errors.note_free_space(free, needed as u64)
    }

    /// One attempt of a recovery that goes on by itself.
    fn attempt(self: &Arc<Self>) -> Next {
        let Some(current) = self.errors.current() else {
            self.end_recovery(None, None);
            return Next::Over;
        };
        if current.severity > Severity::Hard {
            self.end_recovery(Some(&current.error), Some(&current.error));
            return Next::Over;
        }
        self.errors.count_attempt();
        self.telemetry
            .tick(Ticker::ErrorHandlerAutoresumeRetryTotalCount, 1);
        match self.recover() {
            Ok(()) => Next::Over,
            Err(error) if error.code() == Code::Busy => {
                let tree = self.tree.lock();
                // The last flush may have ended meanwhile.
                if tree.jobs.flushes() == 0 {
                    return Next::Later;
                }
                self.errors.wait_for_flushes();
                Next::WhenFlushed
            }
            Err(error) if error.code() == Code::ShutdownInProgress => {
                self.end_recovery(Some(&current.error), Some(&error));
                Next::Over
            }
            Err(error) => {
                self.context
                    .info
                    .warn(format_args!("an attempt to resume failed: {error}"));
                if self.errors.may_try_again() {
                    return Next::Later;
                }
                let error = Error::aborted("Exceeded resume retry count");
                self.end_recovery(Some(&current.error), Some(&error));
                Next::Over
            }
        }
    }

    /// Ends the recovery from `old`, and reports how it ended.
    fn end_recovery(&self, old: Option<&Error>, new: Option<&Error>) {
        self.report_recovery(self.errors.end_recovery(), old, new);
    }

    /// Ends an automatic recovery from `old`, which has passed by itself.
    pub(super) fn end_automatic_recovery(&self, old: &Error) {
        self.report_recovery(self.errors.end_automatic(), Some(old), None);
    }

    /// Reports the end of a recovery from `old`; `attempts` are those of an automatic one.
    fn report_recovery(&self, attempts: Option<u64>, old: Option<&Error>, new: Option<&Error>) {
        if let Some(attempts) = attempts {
            self.telemetry.record(|update| {
                update.record(Histogram::ErrorHandlerAutoresumeRetryCount, attempts);
                let success = u64::from(new.is_none());
                update.add(Ticker::ErrorHandlerAutoresumeSuccessCount, success);
            });
        }
        if old.is_some() {
            let info = BackgroundErrorRecoveryInfo {
                old_error: old.cloned(),
                new_error: new.cloned(),
            };
            self.telemetry
                .notify(|listener| listener.on_error_recovery_end(&info));
        }
    }

    /// [`crate::Db::resume`].
    pub(crate) fn resume(self: &Arc<Self>) -> Result<()> {
        self.context.check_process()?;
        let Some(current) = self.errors.begin_by_hand()? else {
            return Ok(());
        };
        let result = loop {
            if let Err(error) = self.wait_until(|tree| tree.jobs.flushes() == 0) {
                break Err(error);
            }
            match self.recover() {
                Err(error) if error.code() == Code::Busy => {}
                result => break result,
            }
        };
        match &result {
            Err(error) => self.end_recovery(Some(&current.error), Some(error)),
            // Still under way if the error has passed by itself.
            Ok(()) => self.errors.end_by_hand(),
        }
        result
    }

    /// Leaves the error that the database is in. `Busy` while flushes run.
    fn recover(self: &Arc<Self>) -> Result<()> {
        {
            let mut tree = self.tree.lock();
            self.lifecycle.check_open()?;
            if tree.jobs.flushes() > 0 {
                return Err(Error::busy("flushes are running"));
            }
            debug_assert!(
                tree.families.values().all(|state| !state.flushing),
                "a family that is flushed has a flush that runs"
            );
            tree.jobs.begin(JobKind::Flush);
        }
        let result = self.guarded("resuming", || self.as_job(|| self.leave_error()));
        let mut tree = self.tree.lock();
        tree.jobs.end(JobKind::Flush);
        for state in tree.families.values_mut() {
            state.reporting.clear();
        }
        if result.is_ok() {
            for state in tree.families.values_mut() {
                state.retry_flush = None;
                state.retry_compaction = None;
            }
        }
        self.update_conditions(&mut tree);
        self.schedule(&mut tree);
        self.changed.notify_all();
        self.purge_as_job(tree);
        result
    }

    fn leave_error(self: &Arc<Self>) -> Result<()> {
        let log_failed = self.errors.has_log_failed();
        let Some(current) = self.errors.current() else {
            return Ok(());
        };
        if current.severity >= Severity::Hard {
            if log_failed {
                self.begin_log_anew()?;
            }
            self.check_space()?;
            self.flush_all()?;
            // What was flushed may have taken the last room.
            self.check_space()?;
            self.catalog.release_logs(&**self)?;
        }
        self.clear_error(&current)
    }

    /// Puts a new log in the place of one that failed, and all memtables behind it.
    fn begin_log_anew(self: &Arc<Self>) -> Result<()> {
        debug_assert!(
            self.errors.stop_writes(),
            "no write is accepted before the log that failed is replaced"
        );
        let lead = self.lead_alone()?;
        if let Some(log) = self.writes.writer.lock().log.as_mut() {
            log.mark_failed();
        }
        let families: Vec<Arc<FamilyState>> = self.catalog.families().iter().cloned().collect();
        self.switch_memtables(&families, true)?;
        drop(lead);
        self.telemetry.deliver();
        // What a log of them holds goes to tables, all of it at once, before anything is behind it.
        let failed = self.tree.lock().logs.take_failed_syncs();
        failed.iter().for_each(|log| log.forget());
        // A failure from here on is one of the new log.
        self.errors.log_was_replaced();
        Ok(())
    }

    /// Forgets the error, unless a graver one came meanwhile.
    fn clear_error(&self, left: &BackgroundError) -> Result<()> {
        self.errors.clear(left)?;
        self.context
            .info
            .info(format_args!("resumed from: {}", left.error));
        self.end_recovery(Some(&left.error), None);
        Ok(())
    }
}
