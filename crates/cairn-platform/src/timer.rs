//! Jobs that wait for their time.
//!
//! One thread, started when the first job comes, sleeps until the earliest job is due and hands it
//! to the pool. It runs nothing itself, so a long job never delays another's time. A program that waits
//! for the end of all threads ends it too; what is done at leisure does not start it again by itself.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock::Clock;
use crate::executor::{Job, Priority};
use crate::posix::SystemClock;
use crate::sync::{Arc, Condvar, Mutex, MutexGuard};

/// What takes the jobs that are due.
pub(crate) type Deliver = dyn Fn(Priority, Job) + Send + Sync;

/// The jobs that wait, and the thread that watches the clock for them.
pub(crate) struct Timers {
    state: Mutex<State>,
    changed: Condvar,
    deliver: Box<Deliver>,
}

#[derive(Default)]
struct State {
    waiting: BinaryHeap<Reverse<Waiting>>,
    /// Jobs that ever came; keeps those of one moment in their order.
    count: u64,
    /// The thread, once it was started.
    thread: Option<JoinHandle<()>>,
    /// The thread is to end.
    ending: bool,
    closing: bool,
}

/// A job and its time, in nanoseconds of the monotonic clock.
struct Waiting {
    due: u64,
    number: u64,
    priority: Priority,
    job: Job,
    at_leisure: bool,
}

impl Timers {
    /// No jobs; those that come are handed to `deliver` in time.
    pub(crate) fn new(deliver: Box<Deliver>) -> Arc<Timers> {
        Arc::new(Timers {
            state: Mutex::default(),
            changed: Condvar::new(),
            deliver,
        })
    }

    /// Hands `job` over once `delay` has passed. Nobody waits for what is done `at_leisure`.
    pub(crate) fn add(
        self: &Arc<Self>,
        delay: Duration,
        priority: Priority,
        job: Job,
        at_leisure: bool,
    ) {
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
        self.start(state);
    }

    /// Starts the thread again if it was ended while jobs wait.
    pub(crate) fn go_on(self: &Arc<Self>) {
        let state = self.state.lock();
        if !state.waiting.is_empty() {
            self.start(state);
        }
    }

    fn start(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if state.thread.is_some() || state.ending {
            return;
        }
        let timers = Arc::clone(self);
        let thread = std::thread::Builder::new().name("cairn-timer".to_owned());
        state.thread = thread.spawn(move || timers.serve()).ok();
        if state.thread.is_none() {
            // The system has no thread to give; the next job that comes tries again, and jobs that
            // are due by then are handed over with it.
            drop(state);
            self.hand_over_due();
        }
    }

    /// Waits until the thread has ended. It starts again if a job waits that is not done at leisure,
    /// or with the next job that comes.
    pub(crate) fn join(self: &Arc<Self>) {
        let mut state = self.state.lock();
        let Some(thread) = state.thread.take() else {
            return;
        };
        state.ending = true;
        self.changed.notify_all();
        // It catches nothing, for it runs nothing.
        let _ = MutexGuard::unlocked(&mut state, || thread.join());
        state.ending = false;
        if state
            .waiting
            .iter()
            .any(|Reverse(waiting)| !waiting.at_leisure)
        {
            self.start(state);
        }
    }

    /// True if there is a thread.
    #[cfg(test)]
    pub(crate) fn is_running(&self) -> bool {
        self.state.lock().thread.is_some()
    }

    /// Ends the thread; jobs that wait are dropped unrun.
    pub(crate) fn close(&self) {
        let waiting = {
            let mut state = self.state.lock();
            state.closing = true;
            self.changed.notify_all();
            std::mem::take(&mut state.waiting)
        };
        // Dropped outside the lock: what a job holds may spawn when it goes.
        drop(waiting);
    }

    /// The life of the thread.
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

    fn hand_over_due(&self) {
        while let Some(due) = self.next_due() {
            (self.deliver)(due.priority, due.job);
        }
    }

    fn next_due(&self) -> Option<Waiting> {
        let now = SystemClock.monotonic_nanos();
        let mut state = self.state.lock();
        match state.waiting.peek() {
            Some(Reverse(next)) if next.due <= now => state.waiting.pop().map(|next| next.0),
            _ => None,
        }
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Waiting) -> bool {
        self.number == other.number
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Waiting) -> std::cmp::Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}
