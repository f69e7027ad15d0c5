//! Background threads that prepare resources ahead of need: windows and space for logs, huge pages for
//! memtables, and writeback of logs that are synced.
//!
//! These tasks are short, but the kernel may take milliseconds for them, which would delay writers. Each kind
//! has one thread in the process, so that the kinds do not wait for each other. A thread ends after
//! [`IDLE_TIMEOUT`] without work and is restarted on demand.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::process::Process;
use crate::sync::{Condvar, Mutex};

/// The time after which an idle thread ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);

/// A task.
type Work = Box<dyn FnOnce() + Send>;

/// Maps windows of logs.
pub(super) static WINDOWS: BackgroundWorker = BackgroundWorker::named("cairn-windows");
/// Starts writeback of logs, a call that blocks while the device is busy.
pub(super) static WRITEBACK: BackgroundWorker = BackgroundWorker::named("cairn-writeback");
/// Creates files with reserved space as successors of logs, which may wait for the device.
pub(super) static SPARES: BackgroundWorker = BackgroundWorker::named("cairn-spares");
/// Prepares huge pages.
pub(super) static PAGES: BackgroundWorker = BackgroundWorker::named("cairn-pages");

/// A thread that runs while there is work.
pub(super) struct BackgroundWorker {
    name: &'static str,
    state: Mutex<Queue>,
    asked: Condvar,
}

struct Queue {
    work: VecDeque<Work>,
    /// The process that owns the thread, if it runs. A forked child does not have its parent's thread.
    started: Option<Process>,
}

impl BackgroundWorker {
    const fn named(name: &'static str) -> BackgroundWorker {
        BackgroundWorker {
            name,
            state: Mutex::new(Queue {
                work: VecDeque::new(),
                started: None,
            }),
            asked: Condvar::new(),
        }
    }

    /// Queues `work`. Returns false, without queueing it, if the thread cannot be started.
    pub(super) fn submit(&'static self, work: impl FnOnce() + Send + 'static) -> bool {
        let mut state = self.state.lock();
        if state.started.is_some_and(|process| !process.is_this()) {
            // The queue belongs to the parent, which will run it.
            std::mem::forget(std::mem::take(&mut state.work));
            state.started = None;
        }
        if state.started.is_none() {
            let thread = std::thread::Builder::new().name(self.name.to_owned());
            state.started = thread.spawn(|| self.serve()).ok().map(|_| Process::this());
        }
        if state.started.is_some() {
            state.work.push_back(Box::new(work));
            self.asked.notify_one();
        }
        state.started.is_some()
    }

    /// The main loop of the thread.
    fn serve(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(work) = state.work.pop_front() {
                drop(state);
                // A panic has been reported by the panic hook. The next tasks still need the thread.
                let _printed_by_the_hook = catch_unwind(AssertUnwindSafe(work));
                state = self.state.lock();
            } else if self.asked.wait_for(&mut state, IDLE_TIMEOUT) && state.work.is_empty() {
                state.started = None;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// Regression: after a task that panicked, no other was executed any more.
    #[test]
    fn a_task_that_panics_does_not_end_the_thread() {
        static WORKER: BackgroundWorker = BackgroundWorker::named("cairn-test");
        let (done, results) = channel();
        assert!(WORKER.submit(|| panic!("a task of a test")));
        assert!(WORKER.submit(move || done.send(7).expect("the test waits")));
        assert_eq!(results.recv(), Ok(7));
    }
}
