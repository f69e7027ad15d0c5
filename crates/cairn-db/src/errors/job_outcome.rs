//! The outcome of flushes and compactions: which of those that failed are tried again, and when.
//!
//! A compaction that met a damaged table is not tried again: the table is set
//! aside, which keeps it (and what may not go past it) out of every pick, and other compactions go
//! on. Reads of what else the table holds go on too. Damage that a manual compaction finds is a background
//! error as well, as it is for RocksDB. A flush or compaction of
//! the family that a caller requests tries at once what waits or is set aside, and returns the outcome.

use std::sync::Arc;

use cairn_format::names::FileName;
use cairn_jobs::pick::Pick;
use cairn_observe::BackgroundErrorReason as Reason;
use cairn_platform::Priority;
use cairn_types::{Error, Result};

use super::retry::{Damaged, Retry};
use super::state::is_intended;
use crate::catalog::family::FamilyState;
use crate::db::Db;
use crate::jobs::JobKind;
use crate::shared::{Shared, Tree};

impl Shared {
    /// True if a job with this history has to wait.
    pub(crate) fn must_wait(&self, retry: Option<&Retry>) -> bool {
        let now = || self.context.world.clock.monotonic_nanos();
        retry.is_some_and(|retry| !retry.delay(now()).is_zero())
    }

    /// Takes note of how a job of `family` ended: after a failure, which a listener may have `forgiven`, the
    /// next one waits.
    pub(crate) fn note_outcome(
        self: &Arc<Self>,
        tree: &mut Tree,
        family: u32,
        kind: JobKind,
        result: &Result<()>,
        forgiven: bool,
    ) {
        let Some(state) = tree.families.get_mut(&family) else {
            return;
        };
        let retry = match kind {
            JobKind::Flush => &mut state.retry_flush,
            JobKind::Compaction => &mut state.retry_compaction,
        };
        let error = match result {
            Err(error) if !is_intended(error) => error,
            _ => {
                *retry = None;
                return;
            }
        };
        let interval = self.options().bgerror_resume_retry_interval;
        let now = self.context.world.clock.monotonic_nanos();
        let next = Retry::after(retry.as_ref(), error, forgiven, interval, now);
        let delay = next.delay(now);
        *retry = Some(next);
        let owner = Arc::downgrade(self);
        let start = move || {
            if let Some(shared) = owner.upgrade() {
                let mut tree = shared.tree.lock();
                shared.schedule(&mut tree);
                shared.changed.notify_all();
            }
        };
        self.context
            .world
            .executor
            .spawn_after(delay, Priority::High, Box::new(start));
    }

    /// Starts what waits to be tried again; what once failed is forgotten.
    pub(crate) fn retry_now(self: &Arc<Self>) {
        let mut tree = self.tree.lock();
        for state in tree.families.values_mut() {
            state.retry_flush = None;
            state.retry_compaction = None;
        }
        self.schedule(&mut tree);
    }

    /// Allows compactions to read the damaged tables of `family` again: a caller requests one, and what
    /// was read wrong once may have been right on the device.
    pub(crate) fn retry_damaged(&self, family: &FamilyState) {
        let mut tree = self.tree.lock();
        if let Some(state) = tree.families.get_mut(&family.id())
            && !state.damaged.is_empty()
        {
            state.damaged.clear();
            state.busy.release_quarantined();
        }
    }

    /// Starts the flushes of `families` that failed and wait to be tried again: a caller waits for
    /// them, and gets the error of now, not an earlier one.
    pub(crate) fn retry_flushes(self: &Arc<Self>, families: &[Arc<FamilyState>]) {
        let mut tree = self.tree.lock();
        let mut waited = false;
        for family in families {
            let state = tree.families.get_mut(&family.id());
            waited |= state.is_some_and(|state| state.retry_flush.take().is_some());
        }
        if waited {
            self.schedule(&mut tree);
        }
    }

    /// The first retry that waits, in any family.
    pub(crate) fn first_retry(&self) -> Option<Retry> {
        let tree = self.tree.lock();
        let mut states = tree.families.values();
        states.find_map(|state| state.retry_flush.clone().or(state.retry_compaction.clone()))
    }

    /// A compaction of `family` has ended: what follows for the next ones, and what of the result
    /// is a background error.
    pub(crate) fn compaction_ended(
        self: &Arc<Self>,
        tree: &mut Tree,
        family: &FamilyState,
        pick: &Pick,
        result: Result<()>,
    ) -> Result<()> {
        let result = match result {
            Err(error) if self.set_aside_damaged(tree, family, pick, &error) => {
                self.errors.count_failed_job(&error);
                Ok(())
            }
            result => result,
        };
        self.note_outcome(tree, family.id(), JobKind::Compaction, &result, false);
        result
    }

    /// A job succeeded: an error of its kind that stopped no writes is over.
    pub(crate) fn forget_soft_error(&self, kind: JobKind) {
        let is_compaction = kind == JobKind::Compaction;
        let old = self
            .errors
            .clear_soft(|reason| (reason == Reason::Compaction) == is_compaction);
        if let Some(old) = old {
            self.context.info.info(format_args!(
                "what had failed succeeds again: {}",
                old.error
            ));
            self.end_automatic_recovery(&old.error);
        }
    }

    /// The reason of errors in a flush: its data is in logs too, or nowhere else.
    pub(crate) fn flush_reason(&self) -> Reason {
        let finished = self.tree.lock().logs.bytes();
        let logged = finished + self.writes.writer.lock().unflushed_log_bytes > 0;
        match self.signals.has_unlogged() && !logged {
            true => Reason::FlushNoWal,
            false => Reason::Flush,
        }
    }

    /// Why a compaction by hand that waits for others may wait for ever: a table that it needs is
    /// damaged.
    pub(crate) fn is_in_the_way(&self, family: &FamilyState) -> Result<()> {
        let tree = self.tree.lock();
        let state = tree.families.get(&family.id());
        match state.and_then(|state| state.damaged.first()) {
            Some(table) if tree.jobs.compactions() == 0 => Err(table
                .error
                .context(format_args!("table {} is damaged", table.number))),
            _ => Ok(()),
        }
    }

    /// Sets aside the input of `pick` that `error` blames, if it is damage and blames one. What is
    /// left of the result is no background error then.
    pub(crate) fn set_aside_damaged(
        &self,
        tree: &mut Tree,
        family: &FamilyState,
        pick: &Pick,
        error: &Error,
    ) -> bool {
        if !error.is_corruption() {
            return false;
        }
        let blamed = pick.files().find(|(_, file)| {
            let name = FileName::Table(file.number).to_string();
            error.text().contains(&name)
        });
        let (Some((level, file)), Some(state)) = (blamed, tree.families.get_mut(&family.id()))
        else {
            return false;
        };
        if state.busy.quarantine(file.number) {
            state.damaged.push(Damaged {
                family: family.name().to_owned(),
                number: file.number,
                level,
                smallest: file.smallest.user_key().to_vec(),
                largest: file.largest.user_key().to_vec(),
                error: error.clone(),
            });
        }
        self.context.info.error(format_args!(
            "[{}] table {} of level {level} is damaged and left out of compactions from now on; \
             `cairn repair --quarantine` sets it aside for good: {error}",
            family.name(),
            file.number
        ));
        true
    }
}

impl Db {
    /// The tables that compactions found damaged since the database was opened. They stay where
    /// they are, are read as far as they can be, and are left out of compactions.
    #[must_use]
    pub fn damaged_tables(&self) -> Vec<Damaged> {
        let tree = self.shared().tree.lock();
        let states = tree.families.values();
        states.flat_map(|state| state.damaged.clone()).collect()
    }
}
