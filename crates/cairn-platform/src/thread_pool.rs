//! The thread pool: a queue and a set of threads for each priority.
//!
//! A thread is started when a job finds no idle thread, up to the number reserved or set. Threads stay until
//! a smaller number is set. A panic in a job ends the job only: the thread does not report it and takes the
//! next job.
//!
//! Jobs are submitted under locks that they acquire themselves, so the submitter never runs one. If no thread can be
//! started for a priority that has none, another priority's threads run its jobs. [`Executor::start`] starts one that
//! stays; without it, and without any thread, the submitter waits until one can be started.

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use cairn_types::{Error, Result};

use crate::clock::Clock;
use crate::executor::{Executor, Job, Priority};
use crate::posix::{Process, SystemClock, priority};
use crate::sync::{Arc, AtomicBool, Condvar, Mutex, Ordering};
use crate::timer::Timers;

/// The time between attempts to start a thread while there is none.
const RETRY: Duration = Duration::from_millis(10);

/// The size of the stack of a thread; only the part that is used takes memory. Jobs call comparators, filters and merge
/// operators of programs, which may rely on the size that threads have by default in C.
const STACK: usize = 8 << 20;

/// A pool of threads for background jobs, shared by databases.
pub struct ThreadPool {
    lanes: Arc<Lanes>,
    timers: Arc<Timers>,
    /// Held by a thread that waits for all others to end: of several, each would use up what the others wait for.
    joins: Mutex<()>,
}

/// The lanes of a pool, by priority.
struct Lanes([Lane; 5]);

/// The queue of one priority, and its threads.
struct Lane {
    name: &'static str,
    priority: Priority,
    state: Mutex<LaneState>,
    work: Condvar,
    low_io: AtomicBool,
    low_cpu: AtomicBool,
    #[cfg(test)]
    refuses: AtomicBool,
}

/// The state protected by `Lane::state`.
struct LaneState {
    queue: VecDeque<Job>,
    limit: usize,
    started: usize,
    idle: usize,
    closing: bool,
    /// The threads, for joining.
    handles: Vec<JoinHandle<()>>,
}

impl ThreadPool {
    /// Creates a pool without reserved threads. Until some are reserved, flushes and compactions have one
    /// thread each, and bottommost compactions, user jobs and subcompactions run on the threads of
    /// compactions.
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
        ThreadPool {
            lanes,
            timers,
            joins: Mutex::new(()),
        }
    }

    /// The default pool of all databases in the process.
    #[must_use]
    pub fn process_wide() -> Arc<ThreadPool> {
        static POOL: Mutex<Option<(Process, Arc<ThreadPool>)>> = Mutex::new(None);
        let mut pool = POOL.lock();
        match &*pool {
            Some((process, pool)) if process.is_this() => return Arc::clone(pool),
            // After a fork, the threads and their waiters belong to the parent.
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

/// The priority of the calling thread, if it belongs to a pool.
#[must_use]
pub fn current_priority() -> Option<Priority> {
    SERVES.get()
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

    fn start(&self) -> Result<()> {
        let lane = self.lanes.index(Priority::High);
        if self.lanes.0[lane].state.lock().started > 0 {
            return Ok(());
        }
        while let Err(error) = self.lanes.add_thread(lane) {
            // Other priorities may have passed on their jobs meanwhile.
            if self.lanes.pass_on(lane) {
                return Err(Error::io("start", Path::new("a background thread"), error));
            }
            SystemClock.sleep(RETRY);
        }
        Ok(())
    }

    fn reserve(&self, priority: Priority, threads: usize) {
        {
            let mut state = self.lanes.0[priority as usize].state.lock();
            state.limit = state.limit.max(threads);
        }
        self.lanes.start_for_queued(priority as usize);
    }

    fn set_threads(&self, priority: Priority, threads: usize) {
        {
            let lane = &self.lanes.0[priority as usize];
            let mut state = lane.state.lock();
            state.limit = threads;
            // Surplus threads end when they wake.
            lane.work.notify_all();
        }
        self.lanes.start_for_queued(priority as usize);
    }

    fn threads(&self, priority: Priority) -> usize {
        self.lanes.0[priority as usize].state.lock().limit
    }

    fn queued(&self, priority: Priority) -> usize {
        self.lanes.serving(priority).state.lock().queue.len()
    }

    fn lower_io_priority(&self, priority: Priority) {
        for lane in self.lanes.with_parts(priority) {
            // Relaxed, here and below: a thread that sees a stale value changes its priority one job later.
            lane.low_io.store(true, Ordering::Relaxed);
        }
    }

    fn lower_cpu_priority(&self, priority: Priority) {
        for lane in self.lanes.with_parts(priority) {
            lane.low_cpu.store(true, Ordering::Relaxed);
        }
    }

    fn join_all(&self) {
        let _alone = self.joins.lock();
        // First, because it submits jobs to the lanes.
        self.timers.join();
        for lane in &self.lanes.0 {
            lane.join();
        }
    }
}

impl Drop for ThreadPool {
    /// Makes the threads end once their queues are empty, without waiting: the last handle may be dropped by
    /// a job. Delayed jobs are dropped.
    fn drop(&mut self) {
        self.timers.close();
        for lane in &self.lanes.0 {
            lane.state.lock().closing = true;
            lane.work.notify_all();
        }
    }
}

impl Lanes {
    /// The index of the lane that currently serves `priority`.
    fn index(&self, priority: Priority) -> usize {
        match priority {
            Priority::High => 0,
            Priority::Low => 1,
            other if self.0[other as usize].state.lock().limit == 0 => 1,
            other => other as usize,
        }
    }

    /// The lane of `priority`; for compactions, that of subcompactions as well.
    fn with_parts(&self, priority: Priority) -> impl Iterator<Item = &Lane> {
        let parts = (priority == Priority::Low).then_some(Priority::Part);
        let lanes = [Some(priority), parts].into_iter().flatten();
        lanes.map(|priority| &self.0[priority as usize])
    }

    /// The lane that currently serves `priority`.
    fn serving(&self, priority: Priority) -> &Lane {
        &self.0[self.index(priority)]
    }

    fn spawn(self: &Arc<Self>, priority: Priority, job: Job) {
        let index = self.index(priority);
        let lane = &self.0[index];
        let mut state = lane.state.lock();
        state.queue.push_back(job);
        // A lane whose threads were all removed still runs jobs, with one thread.
        if state.queue.len() <= state.idle || state.started >= state.limit.max(1) {
            lane.work.notify_one();
            return;
        }
        drop(state);
        while self.add_thread(index).is_err() && !self.pass_on(index) {
            SystemClock.sleep(RETRY);
        }
    }

    /// Starts threads for the jobs that are queued, up to the limit, which was raised. Where none can be started, the jobs
    /// are left to those that run.
    fn start_for_queued(self: &Arc<Self>, index: usize) {
        let wanted = {
            let state = self.0[index].state.lock();
            let unserved = state.queue.len().saturating_sub(state.idle);
            unserved.min(state.limit.max(1).saturating_sub(state.started))
        };
        for _ in 0..wanted {
            if self.add_thread(index).is_err() {
                return;
            }
        }
    }

    /// Starts a thread of a lane, unless it has all of its threads.
    fn add_thread(self: &Arc<Self>, index: usize) -> std::io::Result<()> {
        let lane = &self.0[index];
        let number = {
            let mut state = lane.state.lock();
            if state.started >= state.limit.max(1) {
                return Ok(());
            }
            state.started += 1;
            state.started - 1
        };
        let lanes = Arc::clone(self);
        let started = lane.may_start().and_then(|()| {
            let thread = std::thread::Builder::new()
                .name(format!("{}-{number}", lane.name))
                .stack_size(STACK);
            thread.spawn(move || lanes.0[index].serve())
        });
        let mut state = lane.state.lock();
        match started {
            Ok(handle) => {
                state.handles.retain(|other| !other.is_finished());
                state.handles.push(handle);
                Ok(())
            }
            Err(error) => {
                state.started -= 1;
                Err(error)
            }
        }
    }

    /// True if the jobs of a lane have threads: its own, or those of another lane, to which they are passed.
    fn pass_on(&self, index: usize) -> bool {
        let lane = &self.0[index];
        let mut jobs = {
            let mut state = lane.state.lock();
            if state.started > 0 {
                return true;
            }
            std::mem::take(&mut state.queue)
        };
        for other in &self.0 {
            let mut state = other.state.lock();
            if state.started > 0 {
                state.queue.append(&mut jobs);
                other.work.notify_all();
                return true;
            }
        }
        let mut state = lane.state.lock();
        jobs.append(&mut state.queue);
        state.queue = jobs;
        state.queue.is_empty()
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
            #[cfg(test)]
            refuses: AtomicBool::new(false),
        }
    }

    /// The main loop of a thread.
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

    /// Waits for the next job. `None` ends the thread.
    fn next_job(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if state.started > state.limit.max(1) {
                state.started -= 1;
                // Passes on a notification that was meant for a surplus thread.
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

    /// Waits until all queued jobs have run and all threads have ended. Jobs submitted meanwhile or later run
    /// on new threads.
    fn join(&self) {
        let mut state = self.state.lock();
        state.closing = true;
        self.work.notify_all();
        while let Some(handle) = state.handles.pop() {
            // Threads catch the panics of their jobs.
            drop(state);
            let _ = handle.join();
            state = self.state.lock();
        }
        state.closing = false;
    }

    /// Fails if a test lets threads of this lane fail.
    fn may_start(&self) -> std::io::Result<()> {
        #[cfg(test)]
        if self.refuses.load(Ordering::Relaxed) {
            return Err(std::io::ErrorKind::WouldBlock.into());
        }
        Ok(())
    }
}

/// Runs `job`. A panic has been reported by the panic hook, and ends here.
fn run(job: Job) {
    let _printed_by_the_hook = catch_unwind(AssertUnwindSafe(job));
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use cairn_types::Code;

    use super::*;
    use crate::sync::AtomicUsize;

    /// Regression: the submitter ran the jobs of a priority for which no thread could be started. Jobs are submitted under
    /// locks, and acquire them.
    #[test]
    fn jobs_without_a_thread_of_their_priority_run_on_another() {
        let pool = ThreadPool::new();
        pool.start().unwrap();
        pool.lanes
            .0
            .iter()
            .for_each(|lane| lane.refuses.store(true, Ordering::Relaxed));
        pool.reserve(Priority::High, 2);
        let (send, receive) = channel();
        let submitted = Arc::new(Mutex::new(()));
        for priority in [Priority::Low, Priority::High, Priority::Part] {
            let (send, lock) = (send.clone(), Arc::clone(&submitted));
            let held = submitted.lock();
            let job = move || {
                drop(lock.lock());
                send.send(current_priority()).unwrap();
            };
            pool.spawn(priority, Box::new(job));
            drop(held);
            assert_eq!(receive.recv().unwrap(), Some(Priority::High));
        }
    }

    /// Regression: of several threads that waited for all jobs, one could wait for ever.
    #[test]
    fn several_threads_can_wait_for_all_jobs() {
        let pool = ThreadPool::new();
        pool.reserve(Priority::Low, 2);
        let done = Arc::new(AtomicUsize::new(0));
        for round in 1..=20 {
            for _ in 0..2 {
                let done = Arc::clone(&done);
                let job = move || {
                    done.fetch_add(1, Ordering::Relaxed);
                };
                pool.spawn(Priority::Low, Box::new(job));
            }
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        pool.join_all();
                        assert_eq!(done.load(Ordering::Relaxed), 2 * round);
                    });
                }
            });
        }
    }

    /// Regression: jobs that were queued before the number of threads was raised waited for the threads that were there.
    #[test]
    fn a_raised_number_of_threads_serves_queued_jobs() {
        for reserves in [false, true] {
            let pool = ThreadPool::new();
            pool.reserve(Priority::Low, 1);
            // Each job waits until all run.
            let all = Arc::new(std::sync::Barrier::new(4));
            for _ in 0..4 {
                let all = Arc::clone(&all);
                let job = move || {
                    all.wait();
                };
                pool.spawn(Priority::Low, Box::new(job));
            }
            match reserves {
                true => pool.reserve(Priority::Low, 4),
                false => pool.set_threads(Priority::Low, 4),
            }
            pool.join_all();
        }
    }

    /// Regression: threads had the 2 MiB that are the default of the standard library. A merge operator that ran in RocksDB's
    /// threads ended the process.
    #[test]
    fn jobs_have_as_much_stack_as_threads_of_c() {
        #[inline(never)]
        fn descend(frames: u32) -> u64 {
            let frame = std::hint::black_box([u64::from(frames); 512]);
            match frames {
                0 => 0,
                _ => std::hint::black_box(descend(frames - 1)) + frame[0] / u64::from(frames),
            }
        }
        let pool = ThreadPool::new();
        let (send, receive) = channel();
        pool.spawn(
            Priority::High,
            Box::new(move || send.send(descend(700)).unwrap()),
        );
        assert_eq!(receive.recv().unwrap(), 700);
    }

    #[test]
    fn a_submitter_waits_until_a_thread_can_be_started() {
        let pool = ThreadPool::new();
        let refuse = |refuses| {
            let lanes = pool.lanes.0.iter();
            lanes.for_each(|lane| lane.refuses.store(refuses, Ordering::Relaxed));
        };
        refuse(true);
        assert_eq!(pool.start().unwrap_err().code(), Code::IoError);
        let (send, receive) = channel();
        let job = move || send.send(current_priority()).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| pool.spawn(Priority::Low, Box::new(job)));
            assert!(receive.recv_timeout(Duration::from_millis(30)).is_err());
            refuse(false);
            assert_eq!(receive.recv().unwrap(), Some(Priority::Low));
        });
    }

    #[test]
    fn jobs_run_in_order_on_named_threads() {
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
    fn joining_completes_all_jobs_and_keeps_the_pool_usable() {
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
    fn joining_ends_the_timer_without_losing_jobs() {
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
        assert!(!pool.timers.is_running(), "leisure jobs are not waited for");
        pool.spawn(Priority::User, job(1));
        assert_eq!(receive.recv(), Ok(1));
        assert!(pool.timers.is_running(), "a job was submitted");
        pool.join_all();
        // The job may be due before the threads are joined or after.
        pool.spawn_after(Duration::from_millis(5), Priority::Low, job(2));
        pool.join_all();
        assert_eq!(receive.recv(), Ok(2));
        pool.spawn_at_leisure(Duration::from_millis(5), Priority::Low, job(3));
        pool.join_all();
        pool.spawn(Priority::User, Box::new(|| {}));
        assert_eq!(receive.recv(), Ok(3));
        pool.spawn_after(hour, Priority::Low, job(4));
        pool.join_all();
        assert!(
            pool.timers.is_running(),
            "a job that is waited for keeps the timer running"
        );
    }

    #[test]
    fn the_pool_survives_panics_of_jobs() {
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
    fn reserved_threads_run_concurrently() {
        let pool = ThreadPool::new();
        pool.reserve(Priority::Bottom, 2);
        assert_eq!(pool.threads(Priority::Bottom), 2);
        let (left_send, left_receive) = channel();
        let (right_send, right_receive) = channel();
        let (done_send, done) = channel();
        let done_too = done_send.clone();
        // Each job waits for the other, so they complete only if they run concurrently.
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
    fn bottom_jobs_run_with_low_jobs_by_default() {
        let pool = ThreadPool::new();
        let (send, receive) = channel();
        pool.spawn(Priority::Bottom, Box::new(move || send.send(()).unwrap()));
        receive.recv().unwrap();
        assert_eq!(pool.threads(Priority::Bottom), 0);
    }

    #[test]
    fn queued_jobs_run_after_the_pool_is_dropped() {
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
    fn delayed_jobs_run_in_order_of_due_time() {
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
    fn the_number_of_threads_can_be_reduced() {
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
