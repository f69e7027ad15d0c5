//! Threads of the process that execute jobs of one kind.
//!
//! They start when they are needed, and end when they have been idle for [`IDLE`].

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::sync::{Condvar, Mutex};

/// The time after which an idle thread ends.
const IDLE: Duration = Duration::from_secs(10);

/// The threads, and the jobs that wait for them.
pub(super) struct Workers<J> {
    name: &'static str,
    run: fn(J),
    state: Mutex<State<J>>,
    called: Condvar,
}

struct State<J> {
    waiting: VecDeque<J>,
    threads: usize,
    idle: usize,
}

/// Executes `job`. A panic, which the panic hook reports, ends the job only.
pub(super) fn contained(job: impl FnOnce()) {
    drop(catch_unwind(AssertUnwindSafe(job)));
}

impl<J: Send + 'static> Workers<J> {
    /// Threads called `name`, which execute a job by `run`.
    pub(super) fn new(name: &'static str, run: fn(J)) -> Workers<J> {
        Workers {
            name,
            run,
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                threads: 0,
                idle: 0,
            }),
            called: Condvar::new(),
        }
    }

    /// Leaves `jobs` to the threads, and starts more as needed while there are fewer than `most`. Returns the jobs that
    /// wait if there is no thread.
    #[must_use]
    pub(super) fn submit(
        &'static self,
        jobs: impl IntoIterator<Item = J>,
        most: usize,
    ) -> VecDeque<J> {
        let mut state = self.state.lock();
        let before = state.waiting.len();
        state.waiting.extend(jobs);
        let added = state.waiting.len() - before;
        while state.threads < most && state.idle < state.waiting.len() && self.start() {
            state.threads += 1;
            state.idle += 1;
        }
        if state.threads == 0 {
            return std::mem::take(&mut state.waiting);
        }
        drop(state);
        match added {
            1 => self.called.notify_one(),
            _ => self.called.notify_all(),
        }
        VecDeque::new()
    }

    /// Removes the waiting jobs for which `stays` returns false.
    pub(super) fn retain(&self, stays: impl FnMut(&J) -> bool) {
        self.state.lock().waiting.retain(stays);
    }

    fn start(&'static self) -> bool {
        let builder = std::thread::Builder::new().name(self.name.to_owned());
        builder.spawn(|| self.serve()).is_ok()
    }

    fn serve(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.waiting.pop_front() {
                state.idle -= 1;
                drop(state);
                contained(|| (self.run)(job));
                state = self.state.lock();
                state.idle += 1;
            } else if self.called.wait_for(&mut state, IDLE) && state.waiting.is_empty() {
                state.threads -= 1;
                state.idle -= 1;
                return;
            }
        }
    }

    /// Pretends that there are `threads` threads, which are busy.
    #[cfg(test)]
    pub(super) fn with_busy(self, threads: usize) -> Workers<J> {
        self.state.lock().threads = threads;
        self
    }

    /// True if no job waits.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().waiting.is_empty()
    }
}
