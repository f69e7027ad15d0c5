//! Background threads: one queue and one set of threads for each priority.
//!
//! Threads start when there is work and none of those that exist is idle, up to the number that
//! was reserved; then they stay. A job that panics ends alone: its thread reports nothing (who
//! spawned the job catches what he wants to know) and takes the next job.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use crate::world::{Executor, Job, Priority};

/// Threads for background jobs, shared by all databases that are given the pool.
pub struct ThreadPool {
    lanes: Arc<[Lane; 3]>,
}

/// The queue of one priority and the threads that serve it.
struct Lane {
    name: &'static str,
    state: Mutex<LaneState>,
    work: Condvar,
}

/// What `Lane::state` guards.
struct LaneState {
    queue: VecDeque<Job>,
    limit: usize,
    started: usize,
    idle: usize,
    closing: bool,
}

impl ThreadPool {
    /// A pool with one thread for flushes, one for compactions, and none for the bottom of the
    /// tree: until some are reserved, bottom jobs run among the other compactions.
    #[must_use]
    pub fn new() -> ThreadPool {
        ThreadPool {
            lanes: Arc::new([
                Lane::new("cairn-high", 1),
                Lane::new("cairn-low", 1),
                Lane::new("cairn-bottom", 0),
            ]),
        }
    }

    /// The pool that all databases of this process share unless they are given another.
    #[must_use]
    pub fn process_wide() -> Arc<ThreadPool> {
        static POOL: OnceLock<Arc<ThreadPool>> = OnceLock::new();
        Arc::clone(POOL.get_or_init(|| Arc::new(ThreadPool::new())))
    }

    /// The lane that serves `priority` now.
    fn lane(&self, priority: Priority) -> usize {
        match priority {
            Priority::High => 0,
            Priority::Low => 1,
            Priority::Bottom if self.lanes[2].state.lock().limit == 0 => 1,
            Priority::Bottom => 2,
        }
    }
}

impl Default for ThreadPool {
    fn default() -> ThreadPool {
        ThreadPool::new()
    }
}

impl Executor for ThreadPool {
    fn spawn(&self, priority: Priority, job: Job) {
        let index = self.lane(priority);
        let lane = &self.lanes[index];
        let mut state = lane.state.lock();
        state.queue.push_back(job);
        if state.queue.len() <= state.idle || state.started >= state.limit {
            lane.work.notify_one();
            return;
        }
        let number = state.started;
        state.started += 1;
        drop(state);
        let lanes = Arc::clone(&self.lanes);
        let started = std::thread::Builder::new()
            .name(format!("{}-{number}", lane.name))
            .spawn(move || lanes[index].serve());
        if started.is_err() {
            lane.without_new_thread();
        }
    }

    fn reserve(&self, priority: Priority, threads: usize) {
        let lane = &self.lanes[priority as usize];
        let mut state = lane.state.lock();
        state.limit = state.limit.max(threads);
    }

    fn threads(&self, priority: Priority) -> usize {
        self.lanes[self.lane(priority)].state.lock().limit
    }
}

impl Drop for ThreadPool {
    /// Lets the threads end when their queues are empty, without waiting for them: the last
    /// handle may be dropped by one of the jobs.
    fn drop(&mut self) {
        for lane in self.lanes.iter() {
            lane.state.lock().closing = true;
            lane.work.notify_all();
        }
    }
}

impl Lane {
    fn new(name: &'static str, limit: usize) -> Lane {
        Lane {
            name,
            state: Mutex::new(LaneState {
                queue: VecDeque::new(),
                limit,
                started: 0,
                idle: 0,
                closing: false,
            }),
            work: Condvar::new(),
        }
    }

    /// The life of a thread.
    fn serve(&self) {
        while let Some(job) = self.next_job() {
            run(job);
        }
    }

    fn next_job(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.queue.pop_front() {
                return Some(job);
            }
            if state.closing {
                return None;
            }
            state.idle += 1;
            self.work.wait(&mut state);
            state.idle -= 1;
        }
    }

    /// The system refused a thread. Those that exist take the job in time; if there is none, the
    /// jobs run here and now, for they must run.
    fn without_new_thread(&self) {
        let mut state = self.state.lock();
        state.started -= 1;
        while state.started == 0 {
            let Some(job) = state.queue.pop_front() else {
                return;
            };
            MutexGuard::unlocked(&mut state, || run(job));
        }
    }
}

/// Runs `job`; its panic has been printed by the panic hook, and ends here.
fn run(job: Job) {
    let _printed_by_the_hook = catch_unwind(AssertUnwindSafe(job));
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn jobs_run_on_named_threads_and_in_order() {
        let pool = ThreadPool::new();
        let (send, receive) = channel();
        for number in 0..20 {
            let send = send.clone();
            pool.spawn(
                Priority::Low,
                Box::new(move || {
                    let name = std::thread::current().name().map(str::to_owned);
                    send.send((number, name)).unwrap();
                }),
            );
        }
        for number in 0..20 {
            let (got, name) = receive.recv().unwrap();
            assert_eq!((got, name.as_deref()), (number, Some("cairn-low-0")));
        }
    }

    #[test]
    fn a_pool_survives_a_panic_in_a_job() {
        let pool = ThreadPool::new();
        let (send, receive) = channel();
        pool.spawn(
            Priority::High,
            Box::new(|| std::panic::resume_unwind(Box::new("no message"))),
        );
        pool.spawn(Priority::High, Box::new(move || send.send(7).unwrap()));
        assert_eq!(receive.recv(), Ok(7));
    }

    #[test]
    fn reserved_threads_run_at_the_same_time() {
        let pool = ThreadPool::new();
        pool.reserve(Priority::Bottom, 2);
        assert_eq!(pool.threads(Priority::Bottom), 2);
        let (left_send, left_receive) = channel();
        let (right_send, right_receive) = channel();
        let (done_send, done) = channel();
        let done_too = done_send.clone();
        // Each job waits for the other one: they end only if they run beside each other.
        pool.spawn(
            Priority::Bottom,
            Box::new(move || {
                left_send.send(()).unwrap();
                right_receive.recv().unwrap();
                done_send.send(()).unwrap();
            }),
        );
        pool.spawn(
            Priority::Bottom,
            Box::new(move || {
                right_send.send(()).unwrap();
                left_receive.recv().unwrap();
                done_too.send(()).unwrap();
            }),
        );
        done.recv().unwrap();
        done.recv().unwrap();
    }

    #[test]
    fn bottom_jobs_run_among_the_others_when_nothing_is_reserved_for_them() {
        let pool = ThreadPool::new();
        let (send, receive) = channel();
        pool.spawn(Priority::Bottom, Box::new(move || send.send(()).unwrap()));
        receive.recv().unwrap();
        assert_eq!(pool.threads(Priority::Bottom), 1);
    }

    #[test]
    fn jobs_that_wait_when_the_pool_is_dropped_still_run() {
        let pool = ThreadPool::new();
        let (send, receive) = channel();
        for _ in 0..5 {
            let send = send.clone();
            pool.spawn(Priority::Low, Box::new(move || send.send(()).unwrap()));
        }
        drop((pool, send));
        assert_eq!(receive.iter().count(), 5);
    }
}
