//! The timer thread for delayed jobs.
//!
//! One thread, started for the first job, sleeps until the earliest job is due and submits it to the pool. It
//! runs no job itself, so a long job does not delay others. [`Timers::join`] ends the thread; leisure jobs
//! alone do not restart it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock::Clock;
use crate::executor::{Job, Priority};
use crate::posix::SystemClock;
use crate::sync::{Arc, Condvar, Mutex, MutexGuard};

/// The receiver of jobs that are due.
pub(crate) type Deliver<J> = dyn Fn(Priority, J) + Send + Sync;

/// The delayed jobs, and the thread that waits for them.
pub(crate) struct Timers<J = Job> {
    state: Mutex<State<J>>,
    changed: Condvar,
    deliver: Box<Deliver<J>>,
}

struct State<J> {
    waiting: BinaryHeap<Reverse<Waiting<J>>>,
    /// The number of jobs submitted, which orders jobs with equal times.
    count: u64,
    /// The thread, if running.
    thread: Option<JoinHandle<()>>,
    /// True if the thread is to end.
    ending: bool,
    closing: bool,
}

/// A job and its due time, in nanoseconds of the monotonic clock.
struct Waiting<J> {
    due: u64,
    number: u64,
    priority: Priority,
    job: J,
    at_leisure: bool,
}

impl<J: Send + 'static> Timers<J> {
    /// Creates a timer that passes jobs to `deliver` when due.
    pub(crate) fn new(deliver: Box<Deliver<J>>) -> Arc<Timers<J>> {
        Arc::new(Timers {
            state: Mutex::new(State {
                waiting: BinaryHeap::new(),
                count: 0,
                thread: None,
                ending: false,
                closing: false,
            }),
            changed: Condvar::new(),
            deliver,
        })
    }

    /// Submits `job` after `delay`. A job `at_leisure` is not waited for. Returns false if no thread could be started for
    /// it: the next job tries again.
    pub(crate) fn add(
        self: &Arc<Self>,
        delay: Duration,
        priority: Priority,
        job: J,
        at_leisure: bool,
    ) -> bool {
        let nanos = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        let due = SystemClock.monotonic_nanos().saturating_add(nanos);
        let mut state = self.state.lock();
        let number = state.count;
        state.count += 1;
        state.waiting.push(Reverse(Waiting {
            due,
            number,
            priority,
            job,
            at_leisure,
        }));
        self.changed.notify_one();
        self.start(state)
    }

    /// Restarts the thread if it was ended while jobs are waiting.
    pub(crate) fn go_on(self: &Arc<Self>) {
        let state = self.state.lock();
        if !state.waiting.is_empty() {
            self.start(state);
        }
    }

    /// Returns false if the thread cannot be started.
    fn start(self: &Arc<Self>, mut state: MutexGuard<'_, State<J>>) -> bool {
        if state.thread.is_some() || state.ending {
            return true;
        }
        let timers = Arc::clone(self);
        let thread = std::thread::Builder::new().name("cairn-timer".to_owned());
        state.thread = thread.spawn(move || timers.serve()).ok();
        let started = state.thread.is_some();
        if !started {
            // The next job tries again, and delivers overdue jobs as well.
            drop(state);
            self.hand_over_due();
        }
        started
    }

    /// Waits until the thread has ended. It restarts if a job other than a leisure job is waiting, or with
    /// the next job.
    pub(crate) fn join(self: &Arc<Self>) {
        let mut state = self.state.lock();
        let Some(thread) = state.thread.take() else {
            return;
        };
        state.ending = true;
        self.changed.notify_all();
        // The thread runs no user code and does not panic.
        drop(state);
        let _ = thread.join();
        let mut state = self.state.lock();
        state.ending = false;
        if state
            .waiting
            .iter()
            .any(|Reverse(waiting)| !waiting.at_leisure)
        {
            self.start(state);
        }
    }

    /// True if the thread is running.
    #[cfg(test)]
    pub(crate) fn is_running(&self) -> bool {
        self.state.lock().thread.is_some()
    }

    /// Ends the thread and drops waiting jobs.
    pub(crate) fn close(&self) {
        let waiting = {
            let mut state = self.state.lock();
            state.closing = true;
            self.changed.notify_all();
            std::mem::take(&mut state.waiting)
        };
        // Dropped outside the lock: dropping a job may submit others.
        drop(waiting);
    }

    /// The main loop of the thread.
    fn serve(&self) {
        loop {
            self.hand_over_due();
            let mut state = self.state.lock();
            if state.closing || state.ending {
                return;
            }
            let now = SystemClock.monotonic_nanos();
            match state.waiting.peek().map(|Reverse(next)| next.due) {
                None => self.changed.wait(&mut state),
                Some(due) if due > now => {
                    let wait = Duration::from_nanos(due - now);
                    self.changed.wait_for(&mut state, wait);
                }
                Some(_) => {}
            }
        }
    }

    /// Delivers the jobs that are due.
    pub(crate) fn hand_over_due(&self) {
        while let Some(due) = self.next_due() {
            (self.deliver)(due.priority, due.job);
        }
    }

    fn next_due(&self) -> Option<Waiting<J>> {
        let now = SystemClock.monotonic_nanos();
        let mut state = self.state.lock();
        match state.waiting.peek() {
            Some(Reverse(next)) if next.due <= now => state.waiting.pop().map(|next| next.0),
            _ => None,
        }
    }
}

impl<J> PartialEq for Waiting<J> {
    fn eq(&self, other: &Waiting<J>) -> bool {
        self.number == other.number
    }
}

impl<J> Eq for Waiting<J> {}

impl<J> PartialOrd for Waiting<J> {
    fn partial_cmp(&self, other: &Waiting<J>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<J> Ord for Waiting<J> {
    fn cmp(&self, other: &Waiting<J>) -> std::cmp::Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}
