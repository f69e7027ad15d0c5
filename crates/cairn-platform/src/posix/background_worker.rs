//! Threads that prepare what somebody will need soon: windows of logs, the space of the next log, large pages of
//! memtables, logs that are written back when they are synced.
//!
//! None of it is long work, but whoever would do it at the moment of need is a writer, and the kernel may take
//! milliseconds for it. Each kind has a thread for the whole process, so that a window does not wait for a
//! page; it ends when nothing was asked for during [`IDLE_TIMEOUT`], and is started again.

use std::collections::VecDeque;
use std::time::Duration;

use super::process::Process;
use crate::sync::{Condvar, Mutex};

/// For how long a thread waits for work before it ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);

/// Something to be prepared.
type Work = Box<dyn FnOnce() + Send>;

/// Prepares windows of logs.
pub(super) static WINDOWS: BackgroundWorker = BackgroundWorker::named("cairn-windows");
/// Asks for writeback of what is written of logs: the call waits where the device has much to do.
pub(super) static WRITEBACK: BackgroundWorker = BackgroundWorker::named("cairn-writeback");
/// Makes spare files of logs: space is reserved, for which the file system may wait for the device.
pub(super) static SPARES: BackgroundWorker = BackgroundWorker::named("cairn-spares");
/// Prepares large pages.
pub(super) static PAGES: BackgroundWorker = BackgroundWorker::named("cairn-pages");

/// A thread that is there while there is work.
pub(super) struct BackgroundWorker {
    name: &'static str,
    state: Mutex<Queue>,
    asked: Condvar,
}

struct Queue {
    work: VecDeque<Work>,
    /// The process whose thread serves, if there is one. A child has none of its parent's.
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

    /// Has `work` done, behind what was asked for before. `false` if there is no thread: then it will not be
    /// done.
    pub(super) fn ask(&'static self, work: impl FnOnce() + Send + 'static) -> bool {
        let mut state = self.state.lock();
        if state.started.is_some_and(|process| !process.is_this()) {
            // It was asked for by the parent, which does it.
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

    /// The life of the thread.
    fn serve(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(work) = state.work.pop_front() {
                drop(state);
                work();
                state = self.state.lock();
            } else if self.asked.wait_for(&mut state, IDLE_TIMEOUT).timed_out()
                && state.work.is_empty()
            {
                state.started = None;
                return;
            }
        }
    }
}
