//! Background work: the trait that runs it, and its priorities.

use std::time::Duration;

/// The queues of background work, most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// Flushes.
    High,
    /// Compactions.
    Low,
    /// Compactions into the bottom of the tree, when a pool for them is configured.
    Bottom,
    /// Work of users of the pool.
    User,
    /// Parts of compactions, beside the threads that run these.
    Part,
}

/// A piece of background work.
pub type Job = Box<dyn FnOnce() + Send>;

/// Background threads.
///
/// A thread that waits for background work calls [`Executor::help`] first, holding no lock, and sleeps on a
/// condition only when that returns `false`. The simulator's executor has no threads: there, the
/// waiter runs the jobs it waits for.
pub trait Executor: Send + Sync {
    /// Runs `job` on a thread of `priority`, soon.
    fn spawn(&self, priority: Priority, job: Job);
    /// Runs `job` on a thread of `priority` once `delay` has passed. A job whose time has not come
    /// when the executor goes is dropped unrun.
    fn spawn_after(&self, delay: Duration, priority: Priority, job: Job);
    /// Like [`Executor::spawn_after`], for work that no caller waits for: [`Executor::help_later`] lets no
    /// time pass for its sake.
    fn spawn_at_leisure(&self, delay: Duration, priority: Priority, job: Job) {
        self.spawn_after(delay, priority, job);
    }
    /// Runs one waiting job on the calling thread, if this executor works that way.
    fn help(&self) -> bool {
        false
    }
    /// Advances the time until the next delayed job is due and runs it on the calling thread, if this
    /// executor works that way. Who waits for background work calls it when nothing else is left
    /// to help with.
    fn help_later(&self) -> bool {
        false
    }
    /// Makes sure that at least `threads` threads serve `priority`.
    fn reserve(&self, priority: Priority, threads: usize);
    /// Has `threads` threads serve `priority`, more or fewer than before. Jobs that run end
    /// first.
    fn set_threads(&self, priority: Priority, threads: usize) {
        self.reserve(priority, threads);
    }
    /// The number of threads reserved or set for `priority`. Without any, its jobs still run.
    fn threads(&self, priority: Priority) -> usize;
    /// The number of jobs of `priority` that wait for a thread.
    fn queued(&self, priority: Priority) -> usize {
        let _ = priority;
        0
    }
    /// Has the device serve the threads of `priority` after all others.
    fn lower_io_priority(&self, priority: Priority) {
        let _ = priority;
    }
    /// Has the processor serve the threads of `priority` after all others.
    fn lower_cpu_priority(&self, priority: Priority) {
        let _ = priority;
    }
    /// Waits until every thread has run what is queued and has ended. Not to be called by a job.
    /// Jobs that come later run as before; what is to be done at leisure waits for the next of them.
    fn join_all(&self) {}
}
