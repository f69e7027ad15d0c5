//! Background threads: one queue and one set of threads for each priority.
//!
//! Threads start when there is work and none of those that exist is idle, up to the number that
//! was reserved or set; then they stay, until a smaller number is set. A job that panics ends
//! alone: its thread reports nothing (who spawned the job catches what he wants to know) and takes
//! the next job.

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::executor::{Executor, Job, Priority};
use crate::posix::{Process, priority};
use crate::sync::{Arc, AtomicBool, Condvar, Mutex, MutexGuard, Ordering};
use crate::timer::Timers;

/// Threads for background jobs, shared by all databases that are given the pool.
pub struct ThreadPool {
    lanes: Arc<Lanes>,
    timers: Arc<Timers>,
}

/// The lanes of a pool, by priority.
struct Lanes([Lane; 5]);

/// The queue of one priority and the threads that serve it.
struct Lane {
    name: &'static str,
    priority: Priority,
    state: Mutex<LaneState>,
    work: Condvar,
    low_io: AtomicBool,
    low_cpu: AtomicBool,
}

/// The state that `Lane::state` guards.
struct LaneState {
    queue: VecDeque<Job>,
    limit: usize,
    started: usize,
    idle: usize,
    closing: bool,
    /// The threads, for who waits for their end.
    handles: Vec<JoinHandle<()>>,
}

impl ThreadPool {
    /// A pool without reserved threads. Until some are reserved, flushes have one thread and compactions one,
    /// and jobs for the bottom of the tree, for users and for parts run among the other compactions.
    #[must_use]
    pub fn new() -> ThreadPool {
        let lanes = Arc::new(Lanes([
            Lane::new("cairn-high", Priority::High),
            Lane::new("cairn-low", Priority::Low),
            Lane::new("cairn-bottom", Priority::Bottom),
            Lane::new("cairn-user", Priority::User),
            Lane::new("cairn-part", Priority::Part),
        ]));
        let due = Arc::clone(&lanes);
        let timers = Timers::new(Box::new(move |priority, job| due.spawn(priority, job)));
        ThreadPool { lanes, timers }
    }

    /// The pool that all databases of this process share unless they are given another.
    #[must_use]
    pub fn process_wide() -> Arc<ThreadPool> {
        static POOL: Mutex<Option<(Process, Arc<ThreadPool>)>> = Mutex::new(None);
        let mut pool = POOL.lock();
        match &*pool {
            Some((process, pool)) if process.is_this() => return Arc::clone(pool),
            // Its threads, and who waits for them, are the parent's.
            Some(_) => std::mem::forget(pool.take()),
            None => {}
        }
        let made = Arc::new(ThreadPool::new());
        *pool = Some((Process::this(), Arc::clone(&made)));
        made
    }
}

thread_local! {
    static SERVES: Cell<Option<Priority>> = const { Cell::new(None) };
}

/// The priority whose jobs the calling thread takes, if it is one of a pool. `None` for
/// other threads.
#[must_use]
pub fn current_priority() -> Option<Priority> {
    SERVES.get()
}

/// The number of threads that this machine runs at once; 1 if unknown.
#[must_use]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

impl Default for ThreadPool {
    fn default() -> ThreadPool {
        ThreadPool::new()
    }
}

impl Executor for ThreadPool {
    fn spawn(&self, priority: Priority, job: Job) {
        self.lanes.spawn(priority, job);
        self.timers.go_on();
    }

    fn spawn_after(&self, delay: Duration, priority: Priority, job: Job) {
        self.timers.add(delay, priority, job, false);
    }

    fn spawn_at_leisure(&self, delay: Duration, priority: Priority, job: Job) {
        self.timers.add(delay, priority, job, true);
    }

    fn reserve(&self, priority: Priority, threads: usize) {
        let mut state = self.lanes.0[priority as usize].state.lock();
        state.limit = state.limit.max(threads);
    }

    fn set_threads(&self, priority: Priority, threads: usize) {
        let lane = &self.lanes.0[priority as usize];
        let mut state = lane.state.lock();
        state.limit = threads;
        // Those that are too many end when they look.
        lane.work.notify_all();
    }

    fn threads(&self, priority: Priority) -> usize {
        self.lanes.0[priority as usize].state.lock().limit
    }

    fn queued(&self, priority: Priority) -> usize {
        self.lanes.serving(priority).state.lock().queue.len()
    }

    fn lower_io_priority(&self, priority: Priority) {
        for lane in self.lanes.with_parts(priority) {
            // Relaxed, here and below: a thread that reads late lowers itself one job later.
            lane.low_io.store(true, Ordering::Relaxed);
        }
    }

    fn lower_cpu_priority(&self, priority: Priority) {
        for lane in self.lanes.with_parts(priority) {
            lane.low_cpu.store(true, Ordering::Relaxed);
        }
    }

    fn join_all(&self) {
        // Before the others: it hands jobs to them.
        self.timers.join();
        for lane in &self.lanes.0 {
            lane.join();
        }
    }
}

impl Drop for ThreadPool {
    /// Has the threads end when their queues are empty, without waiting for them: the last
    /// handle may be dropped by one of the jobs. Jobs whose time has not come are dropped.
    fn drop(&mut self) {
        self.timers.close();
        for lane in &self.lanes.0 {
            lane.state.lock().closing = true;
            lane.work.notify_all();
        }
    }
}

impl Lanes {
    /// The place of the lane that serves `priority` now.
    fn index(&self, priority: Priority) -> usize {
        match priority {
            Priority::High => 0,
            Priority::Low => 1,
            other if self.0[other as usize].state.lock().limit == 0 => 1,
            other => other as usize,
        }
    }

    /// The lane of `priority`, and that of parts with the one of the compactions they are parts of.
    fn with_parts(&self, priority: Priority) -> impl Iterator<Item = &Lane> {
        let parts = (priority == Priority::Low).then_some(Priority::Part);
        let lanes = [Some(priority), parts].into_iter().flatten();
        lanes.map(|priority| &self.0[priority as usize])
    }

    /// The lane that serves `priority` now.
    fn serving(&self, priority: Priority) -> &Lane {
        &self.0[self.index(priority)]
    }

    fn spawn(self: &Arc<Self>, priority: Priority, job: Job) {
        let index = self.index(priority);
        let lane = &self.0[index];
        let mut state = lane.state.lock();
        state.queue.push_back(job);
        // A lane whose threads were all taken away still runs what comes: with one.
        if state.queue.len() <= state.idle || state.started >= state.limit.max(1) {
            lane.work.notify_one();
            return;
        }
        let number = state.started;
        state.started += 1;
        drop(state);
        let lanes = Arc::clone(self);
        let started = std::thread::Builder::new()
            .name(format!("{}-{number}", lane.name))
            .spawn(move || lanes.0[index].serve());
        match started {
            Ok(handle) => {
                let mut state = lane.state.lock();
                state.handles.retain(|other| !other.is_finished());
                state.handles.push(handle);
            }
            Err(_) => lane.without_new_thread(),
        }
    }
}

impl Lane {
    fn new(name: &'static str, priority: Priority) -> Lane {
        Lane {
            name,
            priority,
            state: Mutex::new(LaneState {
                queue: VecDeque::new(),
                limit: 0,
                started: 0,
                idle: 0,
                closing: false,
                handles: Vec::new(),
            }),
            work: Condvar::new(),
            low_io: AtomicBool::new(false),
            low_cpu: AtomicBool::new(false),
        }
    }

    /// The life of a thread.
    fn serve(&self) {
        SERVES.set(Some(self.priority));
        let (mut low_io, mut low_cpu) = (false, false);
        while let Some(job) = self.next_job() {
            if !low_io && self.low_io.load(Ordering::Relaxed) {
                low_io = true;
                priority::lower_io();
            }
            if !low_cpu && self.low_cpu.load(Ordering::Relaxed) {
                low_cpu = true;
                priority::lower_cpu();
            }
            run(job);
        }
    }

    /// The next job; `None` ends the thread.
    fn next_job(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if state.started > state.limit.max(1) {
                state.started -= 1;
                // For the thread that was woken for a job in place of this one.
                self.work.notify_one();
                return None;
            }
            if let Some(job) = state.queue.pop_front() {
                return Some(job);
            }
            if state.closing {
                state.started -= 1;
                return None;
            }
            state.idle += 1;
            self.work.wait(&mut state);
            state.idle -= 1;
        }
    }

    /// Waits until the threads have run what is queued and have ended. Jobs that come meanwhile or
    /// later run on new threads.
    fn join(&self) {
        let mut state = self.state.lock();
        state.closing = true;
        self.work.notify_all();
        while let Some(handle) = state.handles.pop() {
            // A thread catches what its jobs throw.
            let _ = MutexGuard::unlocked(&mut state, || handle.join());
        }
        state.closing = false;
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
    use crate::clock::Clock;
    use crate::posix::SystemClock;
    use crate::sync::AtomicUsize;

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
    fn who_joins_the_threads_finds_every_job_done_and_the_pool_alive() {
        let pool = ThreadPool::new();
        let done = Arc::new(AtomicUsize::new(0));
        for round in 1..=3 {
            for _ in 0..5 {
                for priority in [Priority::High, Priority::Low, Priority::User] {
                    let done = Arc::clone(&done);
                    let count = move || {
                        done.fetch_add(1, Ordering::SeqCst);
                    };
                    pool.spawn(priority, Box::new(count));
                }
            }
            pool.join_all();
            assert_eq!(done.load(Ordering::SeqCst), round * 15);
            for lane in &pool.lanes.0 {
                assert_eq!(lane.state.lock().started, 0, "{}", lane.name);
            }
        }
    }

    #[test]
    fn who_joins_the_threads_ends_the_timer_and_jobs_still_come_in_time() {
        let pool = ThreadPool::new();
        let (send, receive) = channel();
        let job = |number: u32| -> Job {
            let send = send.clone();
            Box::new(move || send.send(number).unwrap())
        };
        let hour = Duration::from_secs(3600);
        pool.spawn_at_leisure(hour, Priority::High, job(0));
        assert!(pool.timers.is_running());
        pool.join_all();
        assert!(
            !pool.timers.is_running(),
            "nobody waits for what is done at leisure"
        );
        pool.spawn(Priority::User, job(1));
        assert_eq!(receive.recv(), Ok(1));
        assert!(pool.timers.is_running(), "a job came");
        pool.join_all();
        // Whether it is due before the threads are joined or later.
        pool.spawn_after(Duration::from_millis(5), Priority::Low, job(2));
        pool.join_all();
        assert_eq!(receive.recv(), Ok(2));
        pool.spawn_at_leisure(Duration::from_millis(5), Priority::Low, job(3));
        pool.join_all();
        pool.spawn(Priority::User, Box::new(|| {}));
        assert_eq!(receive.recv(), Ok(3));
        pool.spawn_after(hour, Priority::Low, job(4));
        pool.join_all();
        assert!(pool.timers.is_running(), "somebody waits for it");
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
        assert_eq!(pool.threads(Priority::Bottom), 0);
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

    #[test]
    fn a_delayed_job_runs_in_time_and_in_the_order_of_the_times() {
        let pool = ThreadPool::new();
        let (send, receive) = channel();
        let began = SystemClock.monotonic_nanos();
        for millis in [40, 20] {
            let send = send.clone();
            pool.spawn_after(
                Duration::from_millis(millis),
                Priority::High,
                Box::new(move || send.send(millis).unwrap()),
            );
        }
        assert_eq!(receive.recv(), Ok(20));
        assert_eq!(receive.recv(), Ok(40));
        assert!(SystemClock.monotonic_nanos() - began >= 40_000_000);
    }

    #[test]
    fn a_lane_can_shrink_and_then_runs_one_job_at_a_time() {
        let pool = ThreadPool::new();
        pool.set_threads(Priority::User, 3);
        assert_eq!(pool.threads(Priority::User), 3);
        let (send, receive) = channel();
        let barrier = Arc::new(std::sync::Barrier::new(3));
        for _ in 0..3 {
            let (send, barrier) = (send.clone(), Arc::clone(&barrier));
            let job = move || {
                barrier.wait();
                send.send(()).unwrap();
            };
            pool.spawn(Priority::User, Box::new(job));
        }
        (0..3).for_each(|_| receive.recv().unwrap());
        pool.set_threads(Priority::User, 1);
        pool.lower_cpu_priority(Priority::User);
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        for _ in 0..20 {
            let (send, running, most) = (send.clone(), running.clone(), most.clone());
            let job = move || {
                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                std::thread::yield_now();
                running.fetch_sub(1, Ordering::SeqCst);
                send.send(()).unwrap();
            };
            pool.spawn(Priority::User, Box::new(job));
        }
        (0..20).for_each(|_| receive.recv().unwrap());
        assert_eq!(most.load(Ordering::SeqCst), 1);
    }
}
