//! Pausing, aborting and cancelling background work, and waiting for it. The holds on jobs are counted in
//! [`Jobs`](crate::jobs::counts::Jobs).

use std::sync::Arc;
use std::time::Duration;

use cairn_jobs::Cancel;
use cairn_options::{Canceled, WaitForCompactOptions};
use cairn_types::{Code, Error, Result, Subcode};

use crate::catalog::family::FamilyState;
use crate::db::Db;
use crate::errors::retry::Retry;
use crate::jobs::background::guarded;
use crate::jobs::counts::{Ban, PausedBy};
use crate::shared::{FamilyTree, Shared, Tree};

impl Shared {
    /// The flags that end a compaction: that of closing, and those of the holds that cancel it.
    pub(crate) fn compaction_cancel(&self, manual: Option<&Canceled>) -> Cancel {
        let flags = self.tree.lock().jobs.cancel_flags(manual);
        Cancel::any(flags.into_iter().chain([self.lifecycle.cancel_flag()]))
    }

    /// Returns the error of a compaction that ended with `error`: the reason, if it was cancelled.
    pub(crate) fn called_off(&self, error: Error, manual: Option<&Canceled>) -> Error {
        if error.code() != Code::Aborted || error.is_panic() || self.lifecycle.is_closing() {
            return error;
        }
        self.tree
            .lock()
            .jobs
            .reason_of_cancel(manual)
            .unwrap_or(error)
    }

    fn pause_background_work(self: &Arc<Self>, by: PausedBy) {
        self.tree.lock().jobs.begin_pause();
        loop {
            // The only possible error is that the thread must not wait.
            let waited = self.wait_until(|tree| tree.jobs.are_idle());
            let mut tree = self.tree.lock();
            // A flush may have started since; once the pause is complete, none may.
            if waited.is_err() || self.context.is_forked() || tree.jobs.are_idle() {
                tree.jobs.complete_pause(by);
                break;
            }
        }
        self.changed.notify_all();
    }

    /// Waits until `done`. In a callback of a job, which would wait for itself, it does not wait.
    fn wait_unless_within(&self, done: impl FnMut(&Tree) -> bool) {
        // The only possible error is that the thread must not wait.
        let _ = self.wait_until(done);
    }

    fn continue_background_work(self: &Arc<Self>, by: PausedBy) -> Result<()> {
        let mut tree = self.tree.lock();
        if !tree.jobs.end_pause(by) {
            return Err(Error::invalid_argument(
                "background work is not paused, so it cannot continue",
            ));
        }
        self.schedule(&mut tree);
        self.changed.notify_all();
        Ok(())
    }

    /// Changes the bans on manual compactions. While there are any, no manual compaction is running when this
    /// returns.
    fn change_bans(self: &Arc<Self>, change: Ban) {
        let banned = self.tree.lock().jobs.change_bans(change);
        self.changed.notify_all();
        if banned {
            self.wait_unless_within(|tree| !tree.jobs.have_manual());
        }
    }

    /// Runs `act` while no background work and no manual compaction is running.
    pub(crate) fn alone<T>(self: &Arc<Self>, act: impl FnOnce() -> Result<T>) -> Result<T> {
        self.may_wait()?;
        self.change_bans(Ban::BeginAlone);
        self.pause_background_work(PausedBy::Change);
        assert!(
            !self.tree.lock().jobs.have_manual(),
            "no manual compaction runs during an exclusive change"
        );
        let result = guarded("an exclusive change", act);
        let continued = self.continue_background_work(PausedBy::Change);
        self.change_bans(Ban::EndAlone);
        result.and_then(|value| continued.map(|()| value))
    }

    fn abort_all_compactions(self: &Arc<Self>) {
        self.tree.lock().jobs.abort();
        self.changed.notify_all();
        self.wait_unless_within(|tree| tree.jobs.compactions() == 0 && !tree.jobs.have_manual());
    }

    fn resume_all_compactions(self: &Arc<Self>) {
        let mut tree = self.tree.lock();
        if tree.jobs.end_abort() {
            self.schedule(&mut tree);
        }
        self.changed.notify_all();
    }

    fn cancel_all_background_work(self: &Arc<Self>, wait: bool) -> Result<()> {
        if wait {
            self.may_wait()?;
        }
        let flushed = self.flush_unlogged();
        self.lifecycle.begin_closing();
        self.cancel_remote_compactions();
        self.signals.request_attention();
        {
            let _tree = self.tree.lock();
            self.changed.notify_all();
        }
        if wait {
            self.wait_until(|tree| tree.jobs.are_over())?;
        }
        flushed
    }

    /// True if no job is running, and no job is due that is held, waits for a limiter, or is to be retried.
    fn is_quiet(&self, tree: &Tree, options: &WaitForCompactOptions) -> bool {
        let runs = !tree.jobs.are_idle();
        let purges = options.wait_for_purge && tree.jobs.have_purges();
        let held = !tree.jobs.may_flush() || !tree.jobs.may_compact();
        let limited = tree.families.values().any(|family| family.limited);
        let retries = || !self.due_retries(tree).is_empty();
        !(runs || purges || limited || held && self.is_work_due(tree) || retries())
    }

    /// True if a flush or compaction would start without the holds.
    fn is_work_due(&self, tree: &Tree) -> bool {
        self.catalog.families().iter().any(|family| {
            let Some(state) = tree.families.get(&family.id()) else {
                return false;
            };
            state.has_pending_flush(&family.options()) || self.compacts_by_itself(family, state)
        })
    }

    /// True if an automatic compaction of `family` would start without the holds.
    fn compacts_by_itself(&self, family: &FamilyState, state: &FamilyTree) -> bool {
        !family.options().disable_auto_compactions
            && self.is_compaction_due(family, &state.busy, &family.view().version)
    }

    /// Returns the retries of jobs that have failed and are still due. A manual compaction, for example, may have done the
    /// work of a failed one.
    fn due_retries<'t>(&self, tree: &'t Tree) -> Vec<&'t Retry> {
        let mut due = Vec::new();
        for family in self.catalog.families().iter() {
            let Some(state) = tree.families.get(&family.id()) else {
                continue;
            };
            let flush = state.retry_flush.as_ref();
            due.extend(flush.filter(|_| !state.immutables.is_empty()));
            let compaction = state.retry_compaction.as_ref();
            due.extend(compaction.filter(|_| self.compacts_by_itself(family, state)));
        }
        due
    }

    /// Returns the error of work that has failed and was not done since: the current error of the database, or, once no job
    /// is running, that of a job which is retried later.
    fn failed_work(&self, tree: &Tree) -> Option<Error> {
        if let Err(error) = self.check_failure() {
            return Some(error);
        }
        if let Some(current) = self.errors.current() {
            return Some(current.error);
        }
        if !tree.jobs.are_idle() {
            return None;
        }
        let retries = self.due_retries(tree);
        let failed = retries.into_iter().find(|retry| retry.ends_waiting());
        failed.map(|retry| retry.error.clone())
    }

    /// True if the state of background work ends a wait. A database that is to be closed is closed in spite of work that
    /// has failed.
    fn is_wait_over(&self, tree: &Tree, options: &WaitForCompactOptions) -> Result<bool> {
        self.lifecycle.check_open()?;
        if options.abort_on_pause && !tree.jobs.may_flush() {
            return Err(Error::aborted("background work is paused"));
        }
        match self.failed_work(tree) {
            Some(error) if !options.close_db => Err(error),
            Some(_) => Ok(true),
            None => Ok(self.is_quiet(tree, options)),
        }
    }

    fn wait_for_compact(self: &Arc<Self>, options: &WaitForCompactOptions) -> Result<()> {
        // A callback may run under the lock of the tree.
        self.may_wait()?;
        if options.flush {
            let families: Vec<_> = self.catalog.families().iter().cloned().collect();
            self.flush(&families)?;
        } else if options.close_db {
            self.flush_before_closing()?;
        }
        let now = || self.context.world.clock.monotonic_nanos();
        let deadline = now().saturating_add(options.timeout.saturating_mul(1000));
        while !self.is_wait_over(&self.tree.lock(), options)? {
            let executor = &self.context.world.executor;
            if executor.help() || options.timeout == 0 && executor.help_later() {
                continue;
            }
            let mut tree = self.tree.lock();
            if self.is_wait_over(&tree, options)? {
                break;
            }
            if options.timeout == 0 {
                tree.wait(&self.changed);
                continue;
            }
            let left = deadline.saturating_sub(now());
            if left == 0 {
                return Err(Error::new(
                    Code::TimedOut,
                    Subcode::None,
                    format!(
                        "flushes and compactions were not done after {} microseconds",
                        options.timeout
                    ),
                ));
            }
            tree.wait_for(&self.changed, Duration::from_nanos(left));
        }
        match options.close_db {
            true => self.try_close(),
            false => Ok(()),
        }
    }
}

impl Db {
    /// Waits for running flushes and compactions, and starts no automatic ones until [`Db::continue_background_work`]
    /// has been called as often. Manual compactions are executed meanwhile, as in RocksDB. Writes proceed until memtables
    /// are full. In a callback of a job it does not wait. The final flush of a closing database runs nevertheless.
    pub fn pause_background_work(&self) {
        self.handle.shared.pause_background_work(PausedBy::Program);
    }

    /// Ends one pause.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if there is none.
    pub fn continue_background_work(&self) -> Result<()> {
        self.handle
            .shared
            .continue_background_work(PausedBy::Program)
    }

    /// Cancels manual compactions with `Incomplete`, and rejects new ones until
    /// [`Db::enable_manual_compaction`] has been called as often.
    pub fn disable_manual_compaction(&self) {
        let shared = &self.handle.shared;
        shared.change_bans(Ban::Add);
    }

    /// Lifts one ban on manual compactions. If there is none, the next ban has no effect, as in RocksDB.
    pub fn enable_manual_compaction(&self) {
        let shared = &self.handle.shared;
        shared.change_bans(Ban::Lift);
    }

    /// Aborts all compactions, whose work is lost, and starts no more until [`Db::resume_all_compactions`]
    /// has been called as often. Flushes are not affected.
    pub fn abort_all_compactions(&self) {
        self.handle.shared.abort_all_compactions();
    }

    /// Ends one abort.
    pub fn resume_all_compactions(&self) {
        self.handle.shared.resume_all_compactions();
    }

    /// Ends all background work permanently: the database can then only be read and closed. With `wait`,
    /// returns when no job is running.
    ///
    /// # Errors
    ///
    /// An error of flushing writes that bypassed the log.
    pub fn cancel_all_background_work(&self, wait: bool) -> Result<()> {
        self.handle.shared.context.check_process()?;
        self.handle.shared.cancel_all_background_work(wait)
    }

    /// Waits until no flush or compaction is running or due, and for the further conditions in `options`.
    ///
    /// # Errors
    ///
    /// `Aborted` if background work is paused and `abort_on_pause` is set; `TimedOut`;
    /// `ShutdownInProgress`; the error of a flush or compaction that has failed and was not done since. With `close_db` such
    /// an error does not prevent closing, unless it concerns writes that bypassed the log: those of [`Db::try_close`].
    pub fn wait_for_compact(&self, options: &WaitForCompactOptions) -> Result<()> {
        self.handle.shared.context.check_process()?;
        self.handle.shared.wait_for_compact(options)
    }
}
