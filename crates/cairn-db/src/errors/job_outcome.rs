//! The outcome of flushes and compactions: which failed jobs are retried, and when.
//!
//! A compaction that read a damaged table is not retried: the table is quarantined, which excludes it (and
//! everything that must not move past it) from all picks, while other compactions proceed. Reads of the
//! undamaged parts of the table succeed. Damage found by a manual compaction is also a background error, as
//! in RocksDB. When a caller requests a flush or compaction of the family, waiting retries and quarantined
//! tables are tried at once, and the outcome is returned.

use std::sync::Arc;

use cairn_format::names::FileName;
use cairn_jobs::pick::Pick;
use cairn_observe::BackgroundErrorReason as Reason;
use cairn_platform::Priority;
use cairn_types::{Error, FileNumber, Result, Subcode};

use super::retry::{Damaged, Retry};
use super::state::is_intended;
use crate::catalog::family::FamilyState;
use crate::db::Db;
use crate::jobs::counts::JobKind;
use crate::shared::{FamilyTree, Shared, Tree};

impl Shared {
    /// True if a job with this history has to wait.
    pub(crate) fn must_wait(&self, retry: Option<&Retry>) -> bool {
        let now = || self.context.world.clock.monotonic_nanos();
        retry.is_some_and(|retry| !retry.delay(now()).is_zero())
    }

    /// Records the outcome of a job of `family`. After a failure, which a listener may have `reset_by_listener`, the
    /// next job is delayed.
    pub(crate) fn note_outcome(
        self: &Arc<Self>,
        tree: &mut Tree,
        family: u32,
        kind: JobKind,
        result: &Result<()>,
        reset_by_listener: bool,
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
        let next = Retry::after(retry.as_ref(), error, reset_by_listener, interval, now);
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

    /// Starts all jobs that are waiting for a retry, and clears their history of failures.
    pub(crate) fn retry_now(self: &Arc<Self>) {
        let mut tree = self.tree.lock();
        for state in tree.families.values_mut() {
            state.retry_flush = None;
            state.retry_compaction = None;
        }
        self.schedule(&mut tree);
    }

    /// Allows compactions to read the damaged tables of `family` again, because a caller requests one and the
    /// damage may have been a transient read error.
    pub(crate) fn retry_damaged(&self, family: &FamilyState) {
        let mut tree = self.tree.lock();
        if let Some(state) = tree.families.get_mut(&family.id())
            && !state.damaged.is_empty()
        {
            state.damaged.clear();
            state.busy.release_quarantined();
        }
    }

    /// Starts the failed flushes of `families` that are waiting for a retry: the caller should get the error
    /// of a new attempt, not an earlier one.
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

    /// Returns a retry that is due later, of any family.
    pub(crate) fn pending_retry(&self) -> Option<Retry> {
        let tree = self.tree.lock();
        let mut states = tree.families.values();
        states.find_map(|state| state.retry_flush.clone().or(state.retry_compaction.clone()))
    }

    /// Handles the end of a compaction of `family`: the consequences for the next ones, and the part of the
    /// result that is a background error.
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

    /// Handles the success of a job: clears an error of the same kind that did not stop writes.
    pub(crate) fn forget_soft_error(&self, kind: JobKind) {
        let is_compaction = kind == JobKind::Compaction;
        let old = self
            .errors
            .clear_soft(|reason| (reason == Reason::Compaction) == is_compaction);
        if let Some(old) = old {
            self.context.info.info(format_args!(
                "a job that failed has succeeded: {}",
                old.error
            ));
            self.end_automatic_recovery(&old.error);
        }
    }

    /// Returns the reason for errors in a flush, depending on whether its data is also in logs.
    pub(crate) fn flush_reason(&self) -> Reason {
        let finished = self.tree.lock().logs.bytes();
        let logged = finished + self.writes.writer.lock().unflushed_log_bytes > 0;
        match self.signals.has_unlogged() && !logged {
            true => Reason::FlushNoWal,
            false => Reason::Flush,
        }
    }

    /// Quarantines the input of `pick` that `error` names, if it is a table that is damaged or missing. The remaining
    /// result is not a background error then.
    pub(crate) fn set_aside_damaged(
        &self,
        tree: &mut Tree,
        family: &FamilyState,
        pick: &Pick,
        error: &Error,
    ) -> bool {
        if !error.is_corruption() && error.subcode() != Subcode::PathNotFound {
            return false;
        }
        let blamed = pick
            .files()
            .find(|(_, file)| names_table(error.text(), file.number));
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
            "[{}] table {} of level {level} is damaged or missing, and left out of compactions from now on; \
             `cairn repair --quarantine` sets it aside for good: {error}",
            family.name(),
            file.number
        ));
        true
    }
}

impl FamilyTree {
    /// Checks that a manual compaction, which conflicts with reserved files or ranges, does not wait in vain.
    ///
    /// # Errors
    ///
    /// The damage of a table, if nothing else is reserved.
    pub(crate) fn check_wait(&self) -> Result<()> {
        match self.damaged.first() {
            Some(table) if self.busy.is_empty() => Err(table
                .error
                .context(format_args!("table {} is damaged", table.number))),
            _ => Ok(()),
        }
    }
}

impl Db {
    /// Returns the tables that compactions have found damaged or missing since the database was opened. They stay in
    /// place, are read as far as possible, and are excluded from compactions.
    #[must_use]
    pub fn damaged_tables(&self) -> Vec<Damaged> {
        let tree = self.shared().tree.lock();
        let states = tree.families.values();
        states.flat_map(|state| state.damaged.clone()).collect()
    }
}

/// True if `text` has the name of `table`, possibly as the end of a path, and not as a part of a longer name.
fn names_table(text: &str, table: FileNumber) -> bool {
    let name = FileName::Table(table).to_string();
    let goes_on = |next: Option<char>| next.is_some_and(char::is_alphanumeric);
    text.match_indices(&name).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        !goes_on(before.chars().next_back()) && !goes_on(after.chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a table whose name is the end of that of the damaged one was quarantined in its place.
    #[test]
    fn an_error_of_one_table_is_not_blamed_on_another() {
        let text = "block checksum mismatch in /db/1000012.sst, at offset 20";
        assert!(names_table(text, FileNumber(1_000_012)));
        assert!(!names_table(text, FileNumber(12)));
        for text in [
            "000012.sst",
            "of 000012.sst: damaged",
            "in /a/b/000012.sst.",
        ] {
            assert!(names_table(text, FileNumber(12)), "{text}");
        }
        assert!(!names_table("/db/000012.ssta", FileNumber(12)));
    }
}
