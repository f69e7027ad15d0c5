//! Recovery from a background error, automatic or manual.
//!
//! 1. A failed log is abandoned for a new one; it is no longer written or synced. Its writes are in the
//!    memtables, except the one that failed, whose outcome is unknown until then and which is lost
//!    afterwards. Prepared transactions are logged again in the new one. A decision of one of them whose write failed is
//!    cut off the old log first, since a crash during the recovery could leave both the decision and the new section. If
//!    it cannot be, or if a sync failed, the database stays read-only until it is opened again.
//! 2. All memtables (only those waiting for a flush, if the log is intact) are flushed and installed
//!    together, so that a crash leaves a consistent state of all families. A MANIFEST that failed is replaced
//!    by a new one.
//! 3. An edit records that older logs are not needed, even if there was nothing to flush.
//! 4. The error is cleared. Writes, which have failed until now, succeed again; jobs start.
//!
//! Automatic recovery starts at once and is retried every `bgerror_resume_retry_interval`, up to
//! `max_bgerror_resume_count` times. While the device is full the number of retries is unlimited, but an
//! attempt is made only if there is more free space than at the last one, or enough for the memtables. A
//! recovery counts as a flush (no other flush runs concurrently, and closing waits for it).
//!
//! A compaction that lacks space does not stop writes: there is nothing to repair, and the recovery only lets it run at once.
//! Its failures still add up, so that writes that wait for it get its error in the end.

use std::sync::Arc;
use std::time::Duration;

use cairn_observe::BackgroundErrorReason as Reason;
use cairn_observe::callback::{self, Within};
use cairn_observe::listener::BackgroundErrorRecoveryInfo;
use cairn_observe::statistics::{Histogram, Ticker};
use cairn_platform::Priority;
use cairn_types::{Code, Error, Result, Severity, Subcode};

use super::BackgroundError;
use crate::catalog::family::FamilyState;
use crate::jobs::background::guarded;
use crate::jobs::counts::JobKind;
use crate::shared::Shared;

/// The next step after an attempt.
enum Next {
    Over,
    /// Flushes are running; the end of the last one starts the next attempt.
    WhenFlushed,
    Later,
}

impl Shared {
    /// Starts an automatic recovery from `error`, unless one is in progress or a listener disables it.
    pub(super) fn start_recovery(&self, reason: Reason, error: &Error, severity: Severity) {
        let mut auto_recovery = true;
        callback::within(&self.context.info, Within::Locked, || {
            self.telemetry.notify(|listener| {
                listener.on_error_recovery_begin(reason, error, &mut auto_recovery);
            });
        });
        let retries = self.options().max_bgerror_resume_count;
        if !auto_recovery || !self.errors.begin_automatic(retries) {
            return;
        }
        self.telemetry.tick(Ticker::ErrorHandlerAutoresumeCount, 1);
        self.context
            .info
            .info(format_args!("resuming automatically from: {error}"));
        // If nothing was stopped, there is no hurry.
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

    /// Handles the end of a flush: an attempt that waited for it proceeds.
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

    /// True if an attempt is worthwhile: the space limit permits it, and the device was not full or has more
    /// free space now.
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
        let needed = match self.errors.stop_writes() {
            true => needed as u64,
            // That of a compaction is unknown.
            false => u64::MAX,
        };
        self.errors.note_free_space(free, needed)
    }

    /// One attempt of an automatic recovery.
    fn attempt(self: &Arc<Self>) -> Next {
        let Some(current) = self.errors.current_or_end() else {
            return Next::Over;
        };
        if current.severity > Severity::Hard {
            self.end_recovery(Some(&current.error), Some(&current.error));
            return Next::Over;
        }
        self.errors.count_attempt();
        self.telemetry
            .tick(Ticker::ErrorHandlerAutoresumeRetryTotalCount, 1);
        match self.recover(false) {
            Ok(()) => Next::Over,
            Err(error) if error.code() == Code::Busy => {
                let tree = self.tree.lock();
                // The last flush may have ended in the meantime.
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

    /// Ends the recovery from `old`, and reports its outcome.
    fn end_recovery(&self, old: Option<&Error>, new: Option<&Error>) {
        self.report_recovery(self.errors.end_recovery(), old, new);
    }

    /// Reports the end of a recovery from `old`; `attempts` is their number if it was automatic.
    pub(super) fn report_recovery(
        &self,
        attempts: Option<u64>,
        old: Option<&Error>,
        new: Option<&Error>,
    ) {
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

    /// Implements [`crate::Db::resume`].
    pub(crate) fn resume(self: &Arc<Self>) -> Result<()> {
        self.context.check_process()?;
        let Some((recovery, current)) = self.errors.begin_manual()? else {
            return Ok(());
        };
        let result = loop {
            if let Err(error) = self.wait_until(|tree| tree.jobs.flushes() == 0) {
                break Err(error);
            }
            match self.recover(true) {
                Err(error) if error.code() == Code::Busy => {}
                result => break result,
            }
        };
        // After a success it is still in progress if the error has cleared without it.
        self.errors.end_manual(recovery);
        if let Err(error) = &result {
            self.report_recovery(None, Some(&current.error), Some(error));
        }
        result
    }

    /// Resumes from the current error of the database. `Busy` while flushes are running. Failures of compactions are forgotten
    /// if the caller asked for it (`requested`), or if the error had stopped writes.
    fn recover(self: &Arc<Self>, requested: bool) -> Result<()> {
        let starts_over = requested || self.errors.stop_writes();
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
        let result = guarded("resuming", || self.as_job(|| self.leave_error()));
        let mut tree = self.tree.lock();
        tree.jobs.end(JobKind::Flush);
        // An attempt of the next recovery may wait for this one.
        self.recovery_goes_on(tree.jobs.flushes());
        for state in tree.families.values_mut() {
            state.reporting.clear();
        }
        if result.is_ok() {
            for state in tree.families.values_mut() {
                state.retry_flush = None;
                match &mut state.retry_compaction {
                    Some(retry) if !starts_over => retry.end_delay(),
                    retry => *retry = None,
                }
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
            // The flush may have used up the remaining space.
            self.check_space()?;
            self.catalog.edit().release_logs(&**self)?;
        }
        self.clear_error(&current)
    }

    /// Replaces a failed log by a new one, and switches all memtables.
    fn begin_log_anew(self: &Arc<Self>) -> Result<()> {
        debug_assert!(
            self.errors.stop_writes(),
            "no write is accepted before the log that failed is replaced"
        );
        self.end_doubt()?;
        let lead = self.lead_alone()?;
        if let Some(log) = self.writes.writer.lock().log.as_mut() {
            log.mark_failed();
        }
        let families: Vec<Arc<FamilyState>> = self.catalog.families().iter().cloned().collect();
        self.switch_memtables(&families, true)?;
        self.move_sections()
            .inspect_err(|error| self.log_failed(error))?;
        drop(lead);
        self.telemetry.deliver();
        // The data of the old log must be flushed, atomically, before anything is written to a new log.
        let blocked = self.context.unsynced_blobs.block_syncs();
        let failed = {
            let logs = &mut self.tree.lock().logs;
            match blocked {
                // The sync of any of them would fail.
                true => logs.take_unsynced(),
                false => logs.take_failed_syncs(),
            }
        };
        failed.iter().for_each(|log| log.forget());
        // A failure from here on is one of the new log.
        self.errors.log_was_replaced();
        Ok(())
    }

    /// Makes sure that the log, which has failed, has no decision about a prepared transaction: one that it may have is cut
    /// off.
    ///
    /// # Errors
    ///
    /// `Busy` while a transaction is being decided; `NoSpace`, after which another attempt may succeed; `Aborted` if the
    /// log may have a decision.
    fn end_doubt(&self) -> Result<()> {
        let sections = &self.writes.sections;
        let Err(doubt) = sections.check_certain() else {
            return Ok(());
        };
        if doubt.code() != Code::Aborted {
            return Err(doubt);
        }
        let cut = match &self.writes.writer.lock().log {
            Some(log) => log.cut_off_failed(&*self.context.world.fs),
            None => Err(Error::shutdown("the database is closed")),
        };
        match cut {
            Ok(()) => {
                sections.settle();
                sections.check_certain()
            }
            Err(error) if error.subcode() == Subcode::NoSpace => Err(error),
            Err(error) => {
                self.context.info.warn(format_args!("{doubt}: {error}"));
                // Fatal: further attempts would be in vain, and writes tell what helps.
                self.log_failed(&doubt);
                Err(doubt)
            }
        }
    }

    /// Logs the prepared sections in the current log, which replaces the failed one. The caller leads.
    fn move_sections(&self) -> Result<()> {
        if self.writes.sections.is_empty() || self.writes.sections.are_early() {
            // The switch has moved those that are written early.
            return Ok(());
        }
        let next = self.writes.commits.allocated().plus(1);
        let mut writer = self.writes.writer.lock();
        let Some(log) = writer.log.as_mut() else {
            return Err(Error::shutdown("the database is closed"));
        };
        self.writes.sections.move_to(log, next)?;
        log.file().sync(&*self.context.world.fs)?;
        writer.unflushed_log_bytes = log.len();
        Ok(())
    }

    /// Clears the error, unless a more severe one has occurred in the meantime. From then on, writes proceed, and their
    /// errors start another recovery.
    fn clear_error(&self, left: &BackgroundError) -> Result<()> {
        let attempts = self.errors.clear(left)?;
        self.writes.sections.settle();
        self.context
            .info
            .info(format_args!("resumed from: {}", left.error));
        self.report_recovery(attempts, Some(&left.error), None);
        Ok(())
    }
}
