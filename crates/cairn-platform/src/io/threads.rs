//! The execution of a batch of transfers by threads, for processes that cannot use io_uring.
//!
//! A process has at most [`MOST`] such threads, which start when they are needed and end when they have been idle
//! for [`IDLE`]. The caller executes transfers as well, so that a batch ends even if no thread can be started.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::posix::process::Process;
use crate::read_queue::{Ticket, Transfer};
use crate::sync::{Condvar, Mutex, OnceLock};

/// The maximum number of threads.
const MOST: usize = 32;
/// The time after which an idle thread ends.
const IDLE: Duration = Duration::from_secs(10);

/// The transfers of a batch.
struct Batch {
    state: Mutex<BatchState>,
    changed: Condvar,
}

struct BatchState {
    waiting: Vec<(Ticket, Transfer)>,
    running: usize,
    done: Vec<(Ticket, Transfer)>,
}

/// Counts the end of a transfer, even if it ends by a panic.
struct Running<'a>(&'a Batch);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.state.lock().running -= 1;
        self.0.changed.notify_all();
    }
}

impl Batch {
    /// Executes transfers until none is waiting.
    fn work(&self) {
        loop {
            let taken = {
                let mut state = self.state.lock();
                let taken = state.waiting.pop();
                state.running += usize::from(taken.is_some());
                taken
            };
            let Some((ticket, mut transfer)) = taken else {
                return;
            };
            let running = Running(self);
            transfer.execute();
            self.state.lock().done.push((ticket, transfer));
            drop(running);
        }
    }
}

/// The threads of a process.
struct Threads {
    process: Process,
    state: Mutex<ThreadsState>,
    called: Condvar,
}

#[derive(Default)]
struct ThreadsState {
    /// Batches with transfers that wait, each as often as it can use a thread.
    calls: VecDeque<Arc<Batch>>,
    threads: usize,
    idle: usize,
}

impl Threads {
    fn of_process() -> &'static Threads {
        static THREADS: OnceLock<Threads> = OnceLock::new();
        THREADS.get_or_init(Threads::new)
    }

    fn new() -> Threads {
        Threads {
            process: Process::this(),
            state: Mutex::default(),
            called: Condvar::new(),
        }
    }

    /// Lets up to `wanted` threads work on `batch`.
    fn call(&'static self, batch: &Arc<Batch>, wanted: usize) {
        let mut state = self.state.lock();
        for _ in 0..wanted.min(MOST) {
            state.calls.push_back(batch.clone());
        }
        while state.threads < MOST && state.idle < state.calls.len() {
            let builder = std::thread::Builder::new().name("cairn-read".to_owned());
            if builder.spawn(move || self.serve()).is_err() {
                break;
            }
            state.threads += 1;
            state.idle += 1;
        }
        drop(state);
        self.called.notify_all();
    }

    /// Removes `batch` from the queue, once it has no more transfers to start.
    fn recall(&self, batch: &Arc<Batch>) {
        let mut state = self.state.lock();
        state.calls.retain(|called| !Arc::ptr_eq(called, batch));
    }

    /// Works on batches until there is none for [`IDLE`].
    fn serve(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(batch) = state.calls.pop_front() {
                state.idle -= 1;
                drop(state);
                batch.work();
                drop(batch);
                state = self.state.lock();
                state.idle += 1;
                continue;
            }
            if self.called.wait_for(&mut state, IDLE).timed_out() && state.calls.is_empty() {
                state.threads -= 1;
                state.idle -= 1;
                return;
            }
        }
    }
}

/// Executes `transfers`. Returns after the last has ended.
pub(super) fn execute(transfers: &mut [Option<Transfer>]) {
    if let [Some(transfer)] = transfers {
        transfer.execute();
        return;
    }
    execute_by(Threads::of_process(), transfers);
}

fn execute_by(threads: &'static Threads, transfers: &mut [Option<Transfer>]) {
    // In a forked child, the threads and perhaps the locks belong to the parent.
    if !threads.process.is_this() {
        transfers.iter_mut().flatten().for_each(Transfer::execute);
        return;
    }
    let taken = transfers.iter_mut().enumerate().rev();
    let waiting: Vec<_> = taken
        .filter_map(|(ticket, transfer)| {
            let left = transfer.take_if(|transfer| !transfer.has_ended())?;
            Some((ticket, left))
        })
        .collect();
    let others = waiting.len().saturating_sub(1);
    let batch = Arc::new(Batch {
        state: Mutex::new(BatchState {
            done: Vec::with_capacity(waiting.len()),
            waiting,
            running: 0,
        }),
        changed: Condvar::new(),
    });
    if others > 0 {
        threads.call(&batch, others);
    }
    batch.work();
    if others > 0 {
        threads.recall(&batch);
    }
    let mut state = batch.state.lock();
    while state.running > 0 {
        batch.changed.wait(&mut state);
    }
    for (ticket, transfer) in state.done.drain(..) {
        transfers[ticket] = Some(transfer);
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "transfers are of descriptors, below the file system"
)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::buffer::Memory;

    #[test]
    fn calls_that_no_thread_follows_do_not_pile_up() {
        // All threads are busy with other batches, and the limit permits no more.
        let threads: &Threads = Box::leak(Box::new(Threads::new()));
        threads.state.lock().threads = MOST;
        let file = Arc::new(File::open("/dev/zero").unwrap());
        let transfer = || Transfer::new(file.clone(), 0, Memory::new(8), 0, 8, false);
        for _ in 0..3 {
            let mut transfers: Vec<_> = (0..4).map(|_| Some(transfer())).collect();
            execute_by(threads, &mut transfers);
            let done = transfers.iter().flatten();
            assert_eq!(done.filter(|one| one.outcome() == Ok(8)).count(), 4);
            assert!(threads.state.lock().calls.is_empty());
        }
    }
}
