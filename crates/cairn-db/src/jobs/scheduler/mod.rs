//! The scheduler: which jobs start, and what happens when a job ends.
//!
//! It treats flushes and compactions only as jobs. Picking a job, running it and applying its outcome are
//! behind [`Work`], which the database implements and which tests replace by jobs that only count. Counts and
//! holds are those of [`Jobs`]; they are part of the state of the database, so that a waiter sees the end of
//! a job and its changes at the same time.
//!
//! ```text
//! schedule: due flushes, unless paused -> due compactions, unless held -> threads
//! a job:    started -> run, without a lock -> finished, under the lock -> settled: the next ones scheduled, waiters woken
//! ```
//!
//! Invariants:
//!
//! S1. A job is counted from the moment it is picked until it is finished, under one lock with either.
//! S2. Every scheduled job is finished and settled exactly once, even if it fails, and the next jobs are then
//! scheduled.
//! S3. No flush starts while background work is paused, and no compaction while a hold prevents it.
//! S4. Jobs are not idle ([`Jobs::are_idle`]) between the end of a job and the start of the jobs that it has made due.

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::Arc;

use crate::jobs::counts::{JobKind, Jobs};

/// The jobs of a database.
pub(crate) trait Work: Send + Sync + Sized + 'static {
    /// The state that picking and finishing jobs change.
    type State: AsMut<Jobs>;
    /// A job with its reserved inputs.
    type Job: Send + 'static;
    /// The outcome of a job.
    type Outcome;

    /// Wakes threads that wait for a change of the state.
    fn wake(&self);

    /// Calls `change` under the lock of the state.
    fn with_state<T>(&self, change: impl FnOnce(&mut Self::State) -> T) -> T;

    /// Reserves the inputs of the due jobs of `kind`, within their limit, and passes each job to `start`,
    /// which counts it.
    fn choose(
        self: &Arc<Self>,
        state: &mut Self::State,
        kind: JobKind,
        start: &mut dyn FnMut(&mut Self::State, Self::Job),
    );

    /// Runs `run` on a thread for jobs of `kind`, soon.
    fn spawn(self: &Arc<Self>, kind: JobKind, run: impl FnOnce(&Arc<Self>) + Send + 'static);

    /// Runs a job without a lock. A panic in it is an ordinary outcome.
    fn run(self: &Arc<Self>, job: &mut Self::Job) -> Self::Outcome;

    /// Releases the inputs of a job and applies its outcome. Returns the rest of it, to be reported.
    fn finish(
        self: &Arc<Self>,
        state: &mut Self::State,
        job: Self::Job,
        outcome: Self::Outcome,
    ) -> Self::Outcome;

    /// Reports the outcome of a job without the lock, calls `then` under it, and wakes waiters.
    fn settle(
        self: &Arc<Self>,
        kind: JobKind,
        outcome: Self::Outcome,
        then: impl FnOnce(&mut Self::State),
    );
}

/// Starts all due jobs, subject to holds and limits.
pub(crate) fn schedule<W: Work>(work: &Arc<W>, state: &mut W::State) {
    if state.as_mut().may_flush() {
        work.choose(state, JobKind::Flush, &mut |state, job| {
            start(work, state, JobKind::Flush, job);
        });
    }
    if state.as_mut().may_compact() {
        work.choose(state, JobKind::Compaction, &mut |state, job| {
            start(work, state, JobKind::Compaction, job);
        });
    }
}

/// Counts a job and passes it to a thread.
fn start<W: Work>(work: &Arc<W>, state: &mut W::State, kind: JobKind, job: W::Job) {
    state.as_mut().begin(kind);
    work.spawn(kind, move |work| execute(work, kind, job));
}

/// A job that counts as running. If its end panics, it is uncounted when dropped: a waiter for the end of all jobs would wait
/// forever.
struct Running<'w, W: Work> {
    work: &'w Arc<W>,
    kind: JobKind,
    has_stopped: bool,
}

impl<'w, W: Work> Running<'w, W> {
    fn start(work: &'w Arc<W>, kind: JobKind) -> Running<'w, W> {
        work.with_state(|state| state.as_mut().start_running(kind));
        Running {
            work,
            kind,
            has_stopped: false,
        }
    }

    /// Uncounts the job, under the lock.
    fn stop(&mut self, state: &mut W::State) {
        state.as_mut().stop_running(self.kind);
        self.has_stopped = true;
    }
}

impl<W: Work> Drop for Running<'_, W> {
    fn drop(&mut self) {
        if !self.has_stopped {
            let kind = self.kind;
            self.work
                .with_state(|state| state.as_mut().stop_running(kind));
            self.work.wake();
        }
    }
}

/// Runs a counted job to its end.
fn execute<W: Work>(work: &Arc<W>, kind: JobKind, mut job: W::Job) {
    let mut running = Running::start(work, kind);
    let outcome = work.run(&mut job);
    let outcome = work.with_state(|state| {
        state.as_mut().end(kind);
        work.finish(state, job, outcome)
    });
    work.settle(kind, outcome, |state| {
        schedule(work, state);
        running.stop(state);
    });
}
