//! Background jobs: how flushes and compactions are picked, run and finished on behalf of the scheduler.
//!
//! The jobs themselves are functions of `cairn-jobs` over immutable inputs. A job is picked under the lock of
//! the tree, runs without any lock, and its edit is then installed. The consequences of a failure are decided by
//! [`crate::errors`]: the job is retried, or writes stop. A job cancelled by the closing of the database changes nothing.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cairn_observe::BackgroundErrorReason;
use cairn_observe::callback::{self, Within};
use cairn_options::DbOptions;
use cairn_platform::{Executor, Priority};
use cairn_types::{Error, Result};

use crate::catalog::family::FamilyState;
use crate::jobs::compaction::Chosen;
use crate::jobs::counts::{JobKind, Jobs, is_called_off};
use crate::jobs::scheduler::{self, Work};
use crate::shared::{Shared, Tree};

/// Reserves the threads for jobs and for helpers of a compaction.
pub(crate) fn reserve_threads(executor: &dyn Executor, options: &DbOptions) {
    let (flushes, compactions) = options.background_limits();
    // One more than flushes: for syncs and releases of logs, on which writers may have to wait, and for
    // deletions.
    executor.reserve(Priority::High, flushes + 1);
    executor.reserve(Priority::Low, compactions);
    executor.reserve(Priority::Part, flushes + compactions - 1);
}

/// A picked job with its reservations.
pub(crate) enum DueJob {
    /// The flush of a family's immutable memtables.
    Flush(Arc<FamilyState>),
    /// The flush of the immutable memtables of all families.
    AtomicFlush,
    Compaction(Arc<FamilyState>, Chosen),
}

/// The outcome of a background job.
pub(crate) struct JobEnd {
    result: Result<()>,
    /// True if a listener has reset the error.
    reset_by_listener: bool,
}

impl Work for Shared {
    type State = Tree;
    type Job = DueJob;
    type Outcome = JobEnd;

    fn wake(&self) {
        self.changed.notify_all();
    }

    fn with_state<T>(&self, change: impl FnOnce(&mut Tree) -> T) -> T {
        change(&mut self.tree.lock())
    }

    fn choose(
        self: &Arc<Self>,
        tree: &mut Tree,
        kind: JobKind,
        start: &mut dyn FnMut(&mut Tree, DueJob),
    ) {
        if self.context.read_only || self.lifecycle.is_closing() || self.errors.stop_writes() {
            return;
        }
        match kind {
            JobKind::Flush if tree.forced.blocks() => {}
            JobKind::Flush if self.flushes_atomically() || tree.forced.is_atomic() => {
                if self.reserve_atomic_flush(tree) {
                    start(tree, DueJob::AtomicFlush);
                }
            }
            JobKind::Flush => {
                for family in self.catalog.families().clone().iter() {
                    if self.reserve_flush(tree, family) {
                        start(tree, DueJob::Flush(family.clone()));
                    }
                }
            }
            JobKind::Compaction => {
                for family in self.catalog.families().clone().iter() {
                    while let Some(chosen) = self.reserve_compaction(tree, family) {
                        start(tree, DueJob::Compaction(family.clone(), chosen));
                    }
                }
            }
        }
    }

    fn spawn(self: &Arc<Self>, kind: JobKind, run: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let priority = match kind {
            JobKind::Flush => Priority::High,
            JobKind::Compaction => Priority::Low,
        };
        self.spawn_job(priority, run);
    }

    fn run(self: &Arc<Self>, job: &mut DueJob) -> JobEnd {
        let result = match job {
            DueJob::Flush(family) => guarded("a flush", || self.flush_family(family)),
            DueJob::AtomicFlush => guarded("an atomic flush", || self.flush_all()),
            DueJob::Compaction(family, chosen) => guarded("a compaction", || {
                match self.run_compaction(family, chosen, None) {
                    Err(error) if is_called_off(&error) => Ok(()),
                    result => result.map(|_| ()),
                }
            }),
        };
        let reset_by_listener = match job {
            DueJob::Flush(_) | DueJob::AtomicFlush => self.report_flush(&result),
            DueJob::Compaction(..) => false,
        };
        JobEnd {
            result,
            reset_by_listener,
        }
    }

    /// Drops the job under the lock: the references that it holds would prevent the deletion of its inputs,
    /// and of the tables of a dropped family.
    fn finish(self: &Arc<Self>, tree: &mut Tree, job: DueJob, end: JobEnd) -> JobEnd {
        let JobEnd {
            result,
            reset_by_listener,
        } = end;
        match job {
            DueJob::Flush(family) => {
                self.finish_flush(tree, &family, &result, reset_by_listener);
                JobEnd {
                    result,
                    reset_by_listener,
                }
            }
            DueJob::AtomicFlush => {
                self.finish_atomic_flush(tree, &result, reset_by_listener);
                JobEnd {
                    result,
                    reset_by_listener,
                }
            }
            DueJob::Compaction(family, chosen) => {
                self.release(tree, &family, &chosen);
                let result = self.compaction_ended(tree, &family, &chosen.pick, result);
                JobEnd {
                    result,
                    reset_by_listener,
                }
            }
        }
    }

    fn settle(self: &Arc<Self>, kind: JobKind, end: JobEnd, then: impl FnOnce(&mut Tree)) {
        match (&end.result, kind) {
            (Ok(()), kind) => self.forget_soft_error(kind),
            // `report_flush` has reported it.
            (Err(_), JobKind::Flush) => {}
            (Err(error), JobKind::Compaction) => {
                self.errors.count_failed_job(error);
                self.background_error(BackgroundErrorReason::Compaction, error);
            }
        }
        let mut tree = self.tree.lock();
        self.recovery_goes_on(tree.jobs.flushes());
        self.update_conditions(&mut tree);
        then(&mut tree);
        if self.telemetry.has_listeners() {
            let pressure = self.pressure(&tree);
            self.telemetry.notify_later(move |listener| {
                listener.on_background_job_pressure_changed(&pressure)
            });
        }
        self.changed.notify_all();
        self.purge_as_job(tree);
        self.release_memory_of_job();
    }
}

impl AsMut<Jobs> for Tree {
    fn as_mut(&mut self) -> &mut Jobs {
        &mut self.jobs
    }
}

impl Shared {
    /// Returns the memory of a job to the kernel, if the database has a budget. Called after the job, its inputs and the
    /// version that it has replaced are dropped.
    pub(crate) fn release_memory_of_job(&self) {
        if let Some(budget) = &self.budget {
            let now = self.context.world.clock.monotonic_nanos();
            budget.of.job_ended(now);
        }
    }

    /// Starts all due jobs, subject to holds and limits.
    pub(crate) fn schedule(self: &Arc<Self>, tree: &mut Tree) {
        scheduler::schedule(self, tree);
    }

    /// Reserves the inputs of a compaction of `family`, if one is due.
    fn reserve_compaction(
        self: &Arc<Self>,
        tree: &mut Tree,
        family: &Arc<FamilyState>,
    ) -> Option<Chosen> {
        if family.options().disable_auto_compactions {
            if let Some(state) = tree.families.get_mut(&family.id()) {
                state.limited = false;
            }
            return None;
        }
        if tree.jobs.compactions() >= self.options().background_limits().1 {
            return None;
        }
        let history = tree.families.get(&family.id());
        if self.must_wait(history.and_then(|state| state.retry_compaction.as_ref())) {
            return None;
        }
        self.choose_compaction(tree, family)
    }

    /// Runs `job` in the background with the database. A panic that the job does not catch itself makes the
    /// database read-only, so that no caller waits for the result forever.
    pub(crate) fn spawn_job(
        self: &Arc<Self>,
        priority: Priority,
        job: impl FnOnce(&Arc<Shared>) + Send + 'static,
    ) {
        let shared = self.clone();
        let guarded = move || {
            let done = guarded("a background job", || {
                shared.as_job(|| job(&shared));
                Ok(())
            });
            if let Err(error) = done {
                shared.background_error(BackgroundErrorReason::Flush, &error);
            }
        };
        self.context
            .world
            .executor
            .spawn(priority, Box::new(guarded));
    }

    /// Runs `job`, during which callbacks must not wait for other jobs.
    pub(crate) fn as_job<T>(&self, job: impl FnOnce() -> T) -> T {
        callback::within(&self.context.info, Within::Job, job)
    }

    /// Waits until no job is running or due.
    ///
    /// A failed job that is waiting for its retry is retried at once; a second failure is returned.
    pub(crate) fn wait_until_quiet(self: &Arc<Self>) -> Result<()> {
        self.retry_now();
        self.wait_until(|tree| {
            self.errors.stop_writes() || tree.jobs.are_idle() && !tree.jobs.have_purges()
        })?;
        self.check_failure()?;
        self.pending_retry()
            .map_or(Ok(()), |retry| Err(retry.error))
    }
}

/// Runs `job`; a panic becomes an error that names `what`.
#[inline]
pub(crate) fn guarded<T>(what: &str, job: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(|panic| Err(panicked(what, &*panic)))
}

/// Returns the error for a panic of `what`. A callback that cannot return an error panics with it.
#[cold]
#[inline(never)]
fn panicked(what: &str, panic: &(dyn Any + Send)) -> Error {
    if let Some(error) = panic.downcast_ref::<Error>() {
        return error.clone();
    }
    let said = panic.downcast_ref::<&str>().copied();
    let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Error::panicked(format!("{what} panicked: {}", said.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use cairn_platform::Priority;

    use crate::db::open_in_memory;

    #[test]
    fn a_callback_that_panics_with_an_error_fails_its_job_with_it() {
        let failed = super::guarded("a job", || -> cairn_types::Result<()> {
            std::panic::resume_unwind(Box::new(cairn_types::Error::incomplete("from a callback")))
        });
        let error = failed.expect_err("the job panicked");
        assert_eq!(error.code(), cairn_types::Code::Incomplete);
        assert_eq!(error.text(), "from a callback");
    }

    #[test]
    fn a_job_that_panics_makes_the_database_read_only() {
        let db = open_in_memory();
        db.put(b"a", b"1").unwrap();
        db.shared()
            .spawn_job(Priority::High, |_| panic!("a defect"));
        // The job notifies nobody. Writes are refused from shortly after the error is known.
        let error = loop {
            match db.put(b"b", b"2") {
                Ok(()) => std::thread::yield_now(),
                Err(error) => break error,
            }
        };
        assert!(db.background_error().is_some());
        assert!(error.to_string().contains("a defect"), "{error}");
        assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    }
}
