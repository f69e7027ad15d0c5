//! The outcome of flushes and compactions: which failed jobs are retried, and when.
//!
//! A compaction that read a damaged table is not retried: the table is quarantined, which excludes it (and
//! everything that must not move past it) from all picks, while other compactions proceed. Reads of the
//! undamaged parts of the table succeed. Damage found by a manual compaction is also a background error, as
//! in RocksDB. When a caller requests a flush or compaction of the family, waiting retries and quarantined
//! tables are tried at once, and the outcome is returned.
//!
//! A damaged or missing blob file quarantines the inputs that may refer to it. Other errors of an input may pass: the
//! compaction is retried, and the input quarantined only if it keeps failing, until the longest delay of retries has
//! passed. Writes that wait for compactions that keep failing get their error.

use std::sync::Arc;

use cairn_format::names::FileName;
use cairn_jobs::pick::Pick;
use cairn_observe::{BackgroundErrorReason as Reason, Level};
use cairn_platform::Priority;
use cairn_types::{Code, Error, Result, Subcode};
use cairn_version::{FileMeta, Version};

use super::retry::{Damaged, Retry};
use super::state::is_intended;
use crate::catalog::family::FamilyState;
use crate::db::Db;
use crate::jobs::counts::JobKind;
use crate::shared::{FamilyTree, Shared, Tree};
use crate::write::stall::{Cause, Condition};

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
        if let Some(state) = tree.families.get_mut(&family.id()) {
            state.release_damaged();
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
        let id = family.id();
        let quarantined = result
            .as_ref()
            .err()
            .filter(|error| self.set_aside_damaged(tree, family, pick, error));
        let Some(error) = quarantined else {
            self.note_outcome(tree, id, JobKind::Compaction, &result, false);
            return result;
        };
        self.errors.count_failed_job(error);
        // Failures that may pass add up, but without the quarantined table the next compaction need not wait.
        let counted = may_pass(error).then_some(&result);
        self.note_outcome(
            tree,
            id,
            JobKind::Compaction,
            counted.unwrap_or(&Ok(())),
            false,
        );
        let state = tree.families.get_mut(&id);
        if let Some(retry) = state.and_then(|state| state.retry_compaction.as_mut()) {
            retry.end_delay();
        }
        Ok(())
    }

    /// Handles the success of a job: clears an error of the same kind that did not stop writes.
    pub(crate) fn forget_soft_error(&self, kind: JobKind) {
        let is_compaction = kind == JobKind::Compaction;
        let old = self
            .errors
            .clear_soft(|reason| (reason == Reason::Compaction) == is_compaction);
        if let Some((old, attempts)) = old {
            self.context.info.info(format_args!(
                "a job that failed has succeeded: {}",
                old.error
            ));
            self.report_recovery(attempts, Some(&old.error), None);
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

    /// Quarantines the inputs of `pick` that cause `error`: a table that is damaged, missing, or cannot be read for a
    /// long time, or those that may refer to such a blob file. The remaining result is not a background error then. The
    /// purge after the job writes the lines about them.
    pub(crate) fn set_aside_damaged(
        self: &Arc<Self>,
        tree: &mut Tree,
        family: &FamilyState,
        pick: &Pick,
        error: &Error,
    ) -> bool {
        let Some(state) = tree.families.get_mut(&family.id()) else {
            return false;
        };
        let may_pass = may_pass(error);
        let is_cause = match may_pass {
            true => Retry::is_last_attempt(state.retry_compaction.as_ref()),
            false => error.is_corruption() || error.subcode() == Subcode::PathNotFound,
        };
        if !is_cause {
            return false;
        }
        let named: Vec<FileName> = named_files(error.text()).collect();
        let blamed: Vec<_> = pick
            .files()
            .filter(|(_, file)| is_blamed(file, &named))
            .collect();
        for (level, file) in &blamed {
            if state.busy.quarantine(file.number) {
                state.damaged.push(Damaged {
                    family: family.name().to_owned(),
                    number: file.number,
                    level: *level,
                    smallest: file.smallest.user_key().to_vec(),
                    largest: file.largest.user_key().to_vec(),
                    error: error.clone(),
                });
            }
            let text = format_args!(
                "[{}] table {} of level {level} or its blob files are damaged, missing or unreadable, and it is left \
                 out of compactions from now on; `cairn repair --quarantine` sets a damaged table aside for good: \
                 {error}",
                family.name(),
                file.number
            );
            self.telemetry.log_later(Level::Error, text);
        }
        if may_pass && !blamed.is_empty() {
            self.retry_damaged_later(family.id());
        }
        !blamed.is_empty()
    }

    /// Starts compactions of the quarantined tables of `family` after the longest delay of retries.
    fn retry_damaged_later(self: &Arc<Self>, family: u32) {
        let delay = Retry::longest_delay(self.options().bgerror_resume_retry_interval);
        let owner = Arc::downgrade(self);
        let retry = move || {
            let Some(shared) = owner.upgrade() else {
                return;
            };
            let mut tree = shared.tree.lock();
            if let Some(state) = tree.families.get_mut(&family) {
                state.release_damaged();
            }
            shared.schedule(&mut tree);
        };
        let executor = &self.context.world.executor;
        executor.spawn_after(delay, Priority::High, Box::new(retry));
    }
}

impl FamilyTree {
    /// Allows compactions to read the quarantined tables again.
    fn release_damaged(&mut self) {
        if !self.damaged.is_empty() {
            self.damaged.clear();
            self.busy.release_quarantined();
        }
    }

    /// Forgets quarantined tables that are not in `version`: damaged ones can be deleted.
    pub(crate) fn forget_deleted(&mut self, version: &Version) {
        let is_left = |table: &Damaged| {
            let level = version.level(table.level);
            level.position(table.number).is_some()
        };
        self.damaged.retain(is_left);
    }

    /// Returns the error for which writes to `family` would wait in vain: they are stopped until compactions succeed, but
    /// those keep failing, or level 0 is full of tables that they leave out.
    pub(crate) fn endless_stop(&self, family: &FamilyState) -> Option<Error> {
        let Condition::Stopped(cause @ (Cause::LevelZero | Cause::PendingBytes)) = self.condition
        else {
            return None;
        };
        let name = family.name();
        if let Some(retry) = &self.retry_compaction
            && retry.keeps_failing()
        {
            let text = format_args!("writes to {name:?} wait for compactions, which keep failing");
            return Some(retry.error.context(text));
        }
        let in_level_zero = self.damaged.iter().filter(|table| table.level == 0).count();
        let limit = usize::try_from(family.options().write_limits().stop_files);
        // The others become one table at best.
        let is_full =
            cause == Cause::LevelZero && limit.is_ok_and(|limit| in_level_zero + 1 >= limit);
        let first = self.damaged.first().filter(|_| is_full)?;
        Some(first.error.context(format_args!(
            "writes to {name:?} stop, because {in_level_zero} tables of level 0 cannot be compacted"
        )))
    }

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
    /// Returns the tables that compactions have found damaged or missing since the database was opened, that they could
    /// not read for a long time, or whose blob files are. They stay in place, are read as far as possible, and are
    /// excluded from compactions.
    #[must_use]
    pub fn damaged_tables(&self) -> Vec<Damaged> {
        let tree = self.shared().tree.lock();
        let states = tree.families.values();
        states.flat_map(|state| state.damaged.clone()).collect()
    }
}

/// True if another attempt may succeed: unlike damage, and unlike files that are missing.
fn may_pass(error: &Error) -> bool {
    error.code() == Code::IoError && error.subcode() != Subcode::PathNotFound
}

/// Returns the files of a database that `text` names, possibly as the ends of paths.
fn named_files(text: &str) -> impl Iterator<Item = FileName> {
    let words = text.split(|letter: char| letter != '.' && !letter.is_alphanumeric());
    words.filter_map(|word| FileName::parse(word.trim_matches('.')))
}

/// True if `table`, or a blob file that it may refer to, is among `named`.
fn is_blamed(table: &FileMeta, named: &[FileName]) -> bool {
    named.iter().any(|name| match *name {
        FileName::Table(number) | FileName::LegacyTable(number) => number == table.number,
        FileName::Blob(number) => table.oldest_blob.is_some_and(|oldest| oldest <= number),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use cairn_types::FileNumber;

    use super::*;

    /// Regression: a table whose name is the end of that of the damaged one was quarantined in its place.
    #[test]
    fn an_error_of_one_table_is_not_blamed_on_another() {
        let names = |text: &str| named_files(text).collect::<Vec<_>>();
        let twelve = FileName::Table(FileNumber(12));
        let text = "block checksum mismatch in /db/1000012.sst, at offset 20";
        assert_eq!(names(text), [FileName::Table(FileNumber(1_000_012))]);
        for text in [
            "000012.sst",
            "of 000012.sst: damaged",
            "in /a/b/000012.sst.",
        ] {
            assert_eq!(names(text), [twelve], "{text}");
        }
        assert_eq!(names("/db/000012.ssta"), []);
        let blob = FileName::Blob(FileNumber(7));
        assert_eq!(names("/db/000012.sst: /db/000007.blob"), [twelve, blob]);
    }
}
