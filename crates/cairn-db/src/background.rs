//! Background work: choosing flushes and compactions, and running them.
//!
//! The jobs themselves are functions of `cairn-jobs` over immutable inputs. Here a job is chosen
//! under the lock of the tree, run without any lock, and its edit installed. A job that fails or
//! panics makes the database read-only with its cause; a job that was cut short by the closing of
//! the database changes nothing.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cairn_observe::BackgroundErrorReason;
use cairn_observe::callback::{self, Within};
use cairn_options::DbOptions;
use cairn_platform::{Executor, Priority};
use cairn_types::{Error, Result};

use crate::family::FamilyState;
use crate::jobs::{JobKind, is_called_off};
use crate::locks::RankedGuard;
use crate::shared::{Shared, Tree};

/// Reserves the threads for jobs, and those that may help one of them.
pub(crate) fn reserve_threads(executor: &dyn Executor, options: &DbOptions) {
    let (flushes, compactions) = options.background_limits();
    // One more than flushes: syncs and ends of logs, for which writers may have to wait, and deletions.
    executor.reserve(Priority::High, flushes + 1);
    executor.reserve(Priority::Low, compactions);
    executor.reserve(Priority::Part, flushes + compactions - 1);
}

impl Shared {
    /// Starts the jobs that are due, as far as the limits allow.
    pub(crate) fn schedule(self: &Arc<Self>, tree: &mut Tree) {
        if self.context.read_only || self.lifecycle.is_closing() || self.errors.stop_writes() {
            return;
        }
        let families = self.families.load_full();
        if tree.jobs.may_flush() {
            self.schedule_flushes(tree, &families);
        }
        if tree.jobs.may_compact() {
            for family in families.iter() {
                while self.schedule_compaction(tree, family) {}
            }
        }
    }

    /// Starts a compaction of `family` if one is due; whether it did.
    fn schedule_compaction(self: &Arc<Self>, tree: &mut Tree, family: &Arc<FamilyState>) -> bool {
        if tree.jobs.compactions() >= self.options().background_limits().1
            || family.options().disable_auto_compactions
        {
            return false;
        }
        let history = tree.families.get(&family.id());
        if self.must_wait(history.and_then(|state| state.retry_compaction.as_ref())) {
            return false;
        }
        let Some(chosen) = self.choose(tree, family) else {
            return false;
        };
        tree.jobs.begin(JobKind::Compaction);
        let family = family.clone();
        self.spawn(Priority::Low, move |shared| {
            shared.job_begins(JobKind::Compaction);
            let result = shared.guarded("a compaction", || {
                match shared.run_compaction(&family, &chosen, None) {
                    Err(error) if is_called_off(&error) => Ok(()),
                    result => result.map(|_| ()),
                }
            });
            let mut tree = shared.tree.lock();
            tree.jobs.end(JobKind::Compaction);
            shared.release(&mut tree, &family, &chosen);
            let result = shared.compaction_ended(&mut tree, &family, &chosen.pick, result);
            // What they hold would keep from being deleted the inputs, and all tables of a family
            // that was dropped.
            drop((chosen, family));
            shared.job_ended(tree, JobKind::Compaction, result);
        });
        true
    }

    /// Runs `job` in the background with the database. A panic that the job does not catch itself makes the database
    /// read-only, so that no caller waits for what the job was to do.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        priority: Priority,
        job: impl FnOnce(&Arc<Shared>) + Send + 'static,
    ) {
        let shared = self.clone();
        let guarded = move || {
            let done = shared.guarded("a background job", || {
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

    /// Runs `job`, whose callbacks may not wait for others.
    pub(crate) fn as_job<T>(&self, job: impl FnOnce() -> T) -> T {
        callback::within(&self.context.info, Within::Job, job)
    }

    /// Runs `job`; a panic in it becomes an error.
    #[inline]
    pub(crate) fn guarded<T>(&self, what: &str, job: impl FnOnce() -> Result<T>) -> Result<T> {
        catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(|panic| Err(panicked(what, &*panic)))
    }

    /// Counts a job that a thread has begun to run.
    pub(crate) fn job_begins(&self, kind: JobKind) {
        self.tree.lock().jobs.start_running(kind);
    }

    /// Ends a job: writers and waiters are woken, and the next jobs start.
    pub(crate) fn job_ended<'t>(
        self: &'t Arc<Self>,
        mut tree: RankedGuard<'t, Tree>,
        kind: JobKind,
        result: Result<()>,
    ) {
        drop(tree);
        match (&result, kind) {
            (Ok(()), kind) => self.forget_soft_error(kind),
            // `tell_of_flush` has reported it.
            (Err(_), JobKind::Flush) => {}
            (Err(error), JobKind::Compaction) => {
                self.errors.count_failed_job(error);
                self.background_error(BackgroundErrorReason::Compaction, error);
            }
        }
        tree = self.tree.lock();
        self.recovery_goes_on(tree.jobs.flushes());
        self.update_conditions(&mut tree);
        self.schedule(&mut tree);
        tree.jobs.stop_running(kind);
        if self.telemetry.has_listeners() {
            let pressure = self.pressure(&tree);
            self.telemetry.notify_later(move |listener| {
                listener.on_background_job_pressure_changed(&pressure)
            });
        }
        self.changed.notify_all();
        self.purge_as_job(tree);
    }

    /// Waits until no job runs or is due.
    ///
    /// A job that failed and waits for its retry is tried at once; a second failure is reported.
    pub(crate) fn wait_until_quiet(self: &Arc<Self>) -> Result<()> {
        self.retry_now();
        self.wait_until(|tree| {
            self.errors.stop_writes() || tree.jobs.are_idle() && !tree.jobs.have_purges()
        })?;
        self.check_failure()?;
        self.first_retry().map_or(Ok(()), |retry| Err(retry.error))
    }
}

/// The error that the panic of `what` becomes.
#[cold]
#[inline(never)]
fn panicked(what: &str, panic: &(dyn Any + Send)) -> Error {
    let said = panic.downcast_ref::<&str>().copied();
    let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Error::aborted(format!("{what} panicked: {}", said.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cairn_options::DbOptions;
    use cairn_platform::{Priority, World};

    use crate::{OpenRequest, open};

    #[test]
    fn a_job_that_panics_makes_the_database_read_only() {
        let options = DbOptions {
            create_if_missing: true,
            ..DbOptions::default()
        };
        let db = open(&OpenRequest {
            path: Path::new("/db"),
            options: &options,
            families: &[],
            others: None,
            world: World::in_memory(),
            read_only: false,
        })
        .unwrap();
        db.put(b"a", b"1").unwrap();
        db.shared().spawn(Priority::High, |_| panic!("a defect"));
        // The wait is for the job, which has nothing else to notify.
        while db.background_error().is_none() {
            std::thread::yield_now();
        }
        let error = db.put(b"b", b"2").unwrap_err();
        assert!(error.to_string().contains("a defect"), "{error}");
        assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    }
}
