//! Holding background work back, calling it off, and waiting for it.
//!
//! Four things hold compactions back, each counted, because several callers may want it at once:
//! a pause of all background work, an abort of compactions, a manual compaction that wants to be
//! alone, and a manual compaction that waits for its turn. A ban on manual compactions and an
//! abort also end those that run, through flags that the jobs look at.

use std::sync::Arc;
use std::time::Duration;

use cairn_jobs::Cancel;
use cairn_options::{Canceled, WaitForCompactOptions};
use cairn_platform::sync::{AtomicBool, Ordering};
use cairn_types::{Code, Error, Result, Subcode};

use crate::db::Db;
use crate::shared::{Shared, Tree};

/// What holds background work back. Part of [`Tree`].
#[derive(Default)]
pub(crate) struct Control {
    /// Pauses that have begun: no compaction starts.
    pausing: usize,
    /// Pauses that are complete: no flush starts either.
    paused: usize,
    /// Aborts that have not been resumed.
    aborts: usize,
    /// Set while there are aborts; running compactions look at it.
    abort: Arc<AtomicBool>,
    /// Bans on manual compactions that the program has not lifted; below zero those that it has lifted
    /// in advance.
    bans: i64,
    /// Changes under way that let no manual compaction run beside them.
    alone: usize,
    /// Set while there are bans; running manual compactions look at it.
    banned: Arc<AtomicBool>,
    /// Manual compactions that want no other beside them.
    pub(crate) exclusive: usize,
    /// Manual compactions that wait for a running one to get out of their way.
    pub(crate) waiting: usize,
}

impl Control {
    /// Aborts of compactions that have not been resumed.
    pub(crate) fn aborts(&self) -> usize {
        self.aborts
    }

    /// Whether flushes may start.
    pub(crate) fn lets_flush(&self) -> bool {
        self.paused == 0
    }

    /// Whether automatic compactions may start.
    pub(crate) fn lets_compact(&self) -> bool {
        self.pausing + self.aborts + self.exclusive + self.waiting == 0
    }

    /// Whether manual compactions may not run.
    fn bans_manual(&self) -> bool {
        self.bans > 0 || self.alone > 0
    }

    /// Why a manual compaction cannot go on, if it cannot.
    pub(crate) fn refuses_manual(&self, canceled: &Canceled) -> Result<()> {
        if self.bans_manual() || canceled.is_canceled() {
            return Err(paused());
        }
        if self.aborts > 0 {
            return Err(aborted());
        }
        Ok(())
    }

    /// What ends a compaction, beside the closing of the database.
    pub(crate) fn flags(&self, manual: Option<&Canceled>) -> Vec<Arc<AtomicBool>> {
        let mut flags = vec![self.abort.clone()];
        if let Some(canceled) = manual {
            flags.push(self.banned.clone());
            flags.extend(canceled.flag().cloned());
        }
        flags
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

/// Whether the error says that a compaction was called off, which is nobody's fault.
pub(crate) fn is_called_off(error: &Error) -> bool {
    error.code() == Code::Incomplete
        && matches!(
            error.subcode(),
            Subcode::ManualCompactionPaused | Subcode::CompactionAborted
        )
}

impl Shared {
    /// What ends a compaction: the closing of the database, or who called it off.
    pub(crate) fn compaction_cancel(&self, manual: Option<&Canceled>) -> Cancel {
        let flags = self.tree.lock().control.flags(manual);
        Cancel::any(flags.into_iter().chain([self.cancel.clone()]))
    }

    /// What a compaction that was told to end says.
    pub(crate) fn called_off(&self, error: Error, manual: Option<&Canceled>) -> Error {
        if error.code() != Code::Aborted || self.cancel.load(Ordering::Acquire) {
            return error;
        }
        let control = &self.tree.lock().control;
        let is_set = |flag: &Arc<AtomicBool>| flag.load(Ordering::Acquire);
        match manual {
            Some(canceled) if is_set(&control.banned) || canceled.is_canceled() => paused(),
            _ if is_set(&control.abort) => aborted(),
            _ => error,
        }
    }

    fn pause_background_work(self: &Arc<Self>) {
        self.tree.lock().control.pausing += 1;
        self.wait_unless_within(|tree| tree.flushes == 0 && tree.compactions == 0);
        self.tree.lock().control.paused += 1;
        self.changed.notify_all();
    }

    /// Waits until `done`; in a callback of a job, which would wait for itself, not at all.
    fn wait_unless_within(&self, done: impl FnMut(&Tree) -> bool) {
        // The only error is that the thread may not wait.
        let _ = self.wait_until(done);
    }

    fn continue_background_work(self: &Arc<Self>) -> Result<()> {
        let mut tree = self.tree.lock();
        if tree.control.paused == 0 {
            return Err(Error::invalid_argument(
                "background work is not paused, so it cannot continue",
            ));
        }
        tree.control.paused -= 1;
        tree.control.pausing -= 1;
        self.schedule(&mut tree);
        self.changed.notify_all();
        Ok(())
    }

    /// Changes who bans manual compactions; while anybody does, none runs when this returns.
    fn change_bans(self: &Arc<Self>, change: impl FnOnce(&mut Control)) {
        let banned = {
            let mut tree = self.tree.lock();
            let control = &mut tree.control;
            change(control);
            let banned = control.bans_manual();
            control.banned.store(banned, Ordering::Release);
            self.changed.notify_all();
            banned
        };
        if banned {
            self.wait_unless_within(|tree| tree.manual == 0);
        }
    }

    /// Runs `act` while no background work and no manual compaction runs.
    pub(crate) fn alone<T>(self: &Arc<Self>, act: impl FnOnce() -> Result<T>) -> Result<T> {
        self.may_wait()?;
        self.change_bans(|control| control.alone += 1);
        self.pause_background_work();
        let result = self.guarded("what runs alone", act);
        let continued = self.continue_background_work();
        self.change_bans(|control| control.alone -= 1);
        result.and_then(|value| continued.map(|()| value))
    }

    fn abort_all_compactions(self: &Arc<Self>) {
        {
            let mut tree = self.tree.lock();
            tree.control.aborts += 1;
            tree.control.abort.store(true, Ordering::Release);
            self.changed.notify_all();
        }
        self.wait_unless_within(|tree| tree.compactions == 0 && tree.manual == 0);
    }

    fn resume_all_compactions(self: &Arc<Self>) {
        let mut tree = self.tree.lock();
        tree.control.aborts = tree.control.aborts.saturating_sub(1);
        if tree.control.aborts == 0 {
            tree.control.abort.store(false, Ordering::Release);
            self.schedule(&mut tree);
        }
        self.changed.notify_all();
    }

    fn cancel_all_background_work(self: &Arc<Self>, wait: bool) -> Result<()> {
        if wait {
            self.may_wait()?;
        }
        let flushed = self.flush_unlogged();
        self.closing.store(true, Ordering::Release);
        self.attention.store(true, Ordering::Release);
        self.cancel.store(true, Ordering::Release);
        {
            let _tree = self.tree.lock();
            self.changed.notify_all();
        }
        if wait {
            self.wait_until(|tree| tree.flushes == 0 && tree.compactions == 0 && tree.manual == 0)?;
        }
        flushed
    }

    /// Whether nothing runs, and nothing that is held back is due.
    fn is_quiet(&self, tree: &Tree, options: &WaitForCompactOptions) -> bool {
        let runs = tree.flushes + tree.compactions > 0;
        let purges = options.wait_for_purge && tree.purges > 0;
        let held = !tree.control.lets_flush() || !tree.control.lets_compact();
        !(runs || purges || held && self.is_work_due(tree))
    }

    /// Whether a flush or compaction would start if nothing held it back.
    fn is_work_due(&self, tree: &Tree) -> bool {
        self.families.load().iter().any(|family| {
            let Some(state) = tree.families.get(&family.id()) else {
                return false;
            };
            let options = family.options();
            let to_merge = options.min_write_buffer_number_to_merge.max(1) as usize;
            let flushes = !state.immutables.is_empty()
                && (state.flush_requested || state.immutables.len() >= to_merge);
            let compacts = !options.disable_auto_compactions
                && self.is_compaction_due(family, &state.busy, &family.view().version);
            flushes || compacts
        })
    }

    /// Whether a wait is over, as far as the state of background work goes.
    fn is_wait_over(&self, tree: &Tree, options: &WaitForCompactOptions) -> Result<bool> {
        if self.closing.load(Ordering::Acquire) {
            return Err(Error::shutdown("the database is being closed"));
        }
        if options.abort_on_pause && !tree.control.lets_flush() {
            return Err(Error::aborted("background work is paused"));
        }
        self.check_failure()?;
        Ok(self.is_quiet(tree, options))
    }

    fn wait_for_compact(self: &Arc<Self>, options: &WaitForCompactOptions) -> Result<()> {
        if options.flush {
            let families: Vec<_> = self.families.load().iter().cloned().collect();
            self.flush(&families)?;
        }
        let now = || self.context.world.clock.monotonic_nanos();
        let deadline = now().saturating_add(options.timeout.saturating_mul(1000));
        while !self.is_wait_over(&self.tree.lock(), options)? {
            self.may_wait()?;
            if self.context.world.executor.help() {
                continue;
            }
            let mut tree = self.tree.lock();
            if self.is_wait_over(&tree, options)? {
                break;
            }
            if options.timeout == 0 {
                self.changed.wait(&mut tree);
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
            self.changed.wait_for(&mut tree, Duration::from_nanos(left));
        }
        match options.close_db {
            true => self.close(),
            false => Ok(()),
        }
    }
}

impl Db {
    /// Lets running flushes and compactions end, and starts no more until
    /// [`Db::continue_background_work`] has been called as often. Writes go on until memtables are
    /// full. In a callback of a job it does not wait.
    pub fn pause_background_work(&self) {
        self.handle.shared.pause_background_work();
    }

    /// Takes one pause back.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if there is none.
    pub fn continue_background_work(&self) -> Result<()> {
        self.handle.shared.continue_background_work()
    }

    /// Ends manual compactions with `Incomplete`, and refuses new ones until
    /// [`Db::enable_manual_compaction`] has been called as often.
    pub fn disable_manual_compaction(&self) {
        let shared = &self.handle.shared;
        shared.change_bans(|control| control.bans = control.bans.saturating_add(1));
    }

    /// Takes one ban on manual compactions back. Without a ban the next one has no effect, as in RocksDB.
    pub fn enable_manual_compaction(&self) {
        let shared = &self.handle.shared;
        shared.change_bans(|control| control.bans = control.bans.saturating_sub(1));
    }

    /// Ends all compactions, whose work is lost, and starts no more until
    /// [`Db::resume_all_compactions`] has been called as often. Flushes go on.
    pub fn abort_all_compactions(&self) {
        self.handle.shared.abort_all_compactions();
    }

    /// Takes one abort back.
    pub fn resume_all_compactions(&self) {
        self.handle.shared.resume_all_compactions();
    }

    /// Ends all background work for good: what is left to do with the database is to read, and to
    /// close it. With `wait`, returns when nothing runs any more.
    ///
    /// # Errors
    ///
    /// An error of flushing what was written without a log.
    pub fn cancel_all_background_work(&self, wait: bool) -> Result<()> {
        self.handle.shared.context.check_process()?;
        self.handle.shared.cancel_all_background_work(wait)
    }

    /// Waits until no flush or compaction runs or is due, and what else `options` say.
    ///
    /// # Errors
    ///
    /// `Aborted` if background work is paused and `abort_on_pause` is set; `TimedOut`;
    /// `ShutdownInProgress`; the error that made the database read-only.
    pub fn wait_for_compact(&self, options: &WaitForCompactOptions) -> Result<()> {
        self.handle.shared.context.check_process()?;
        self.handle.shared.wait_for_compact(options)
    }
}
