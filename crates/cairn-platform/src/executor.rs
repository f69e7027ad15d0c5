//! The interface for background work, and its priorities.

use std::time::Duration;

use cairn_types::Result;

/// The priority of background work, most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// Flushes.
    High,
    /// Compactions.
    Low,
    /// Compactions to the bottommost level, if a pool for them is configured.
    Bottom,
    /// Jobs submitted by users of the pool.
    User,
    /// Subcompactions, run in addition to the threads of compactions.
    Part,
}

/// A piece of background work.
pub type Job = Box<dyn FnOnce() + Send>;

/// An executor of background work.
///
/// A thread that waits for background work first calls [`Executor::help`], without holding a lock, and blocks
/// on a condition only if that returns false. The simulator's executor has no threads: there, the waiter runs
/// the jobs it waits for.
pub trait Executor: Send + Sync {
    /// Runs `job` on a thread of `priority`.
    fn spawn(&self, priority: Priority, job: Job);
    /// Runs `job` on a thread of `priority` after `delay`. A job that is not yet due when the executor is
    /// dropped never runs.
    fn spawn_after(&self, delay: Duration, priority: Priority, job: Job);
    /// [`Executor::spawn_after`] for work that no caller waits for: [`Executor::help_later`] does not advance
    /// the time for it.
    fn spawn_at_leisure(&self, delay: Duration, priority: Priority, job: Job) {
        self.spawn_after(delay, priority, job);
    }
    /// Runs a queued job on the calling thread, if the executor has no threads of its own. Returns false if
    /// it ran none.
    fn help(&self) -> bool {
        false
    }
    /// Advances the time to the next delayed job and runs it on the calling thread, if the executor has no
    /// threads of its own. Called by a thread that waits for background work if [`Executor::help`] ran none.
    fn help_later(&self) -> bool {
        false
    }
    /// Starts a thread if the executor has threads and none is running, so that jobs run even if no more can be started
    /// later.
    ///
    /// # Errors
    ///
    /// `IoError` if no thread can be started.
    fn start(&self) -> Result<()> {
        Ok(())
    }
    /// Raises the number of threads for `priority` to at least `threads`.
    fn reserve(&self, priority: Priority, threads: usize);
    /// Sets the number of threads for `priority`, which may be lower than before. Running jobs complete
    /// first.
    fn set_threads(&self, priority: Priority, threads: usize) {
        self.reserve(priority, threads);
    }
    /// The number of threads for `priority`. If it is 0, jobs still run.
    fn threads(&self, priority: Priority) -> usize;
    /// The number of jobs of `priority` that wait for a thread.
    fn queued(&self, priority: Priority) -> usize {
        let _ = priority;
        0
    }
    /// Gives the threads of `priority` idle I/O priority.
    fn lower_io_priority(&self, priority: Priority) {
        let _ = priority;
    }
    /// Gives the threads of `priority` the lowest CPU priority.
    fn lower_cpu_priority(&self, priority: Priority) {
        let _ = priority;
    }
    /// Waits until all queued jobs have run and all threads have ended. Must not be called by a job. Later
    /// jobs run as before; leisure jobs that are not due are delivered with the next one.
    fn join_all(&self) {}
}
