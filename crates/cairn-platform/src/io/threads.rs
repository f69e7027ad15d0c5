//! The execution of transfers by threads: of a batch, for processes that cannot use io_uring, and of reads that
//! continue while their caller does other work ([`Background`]).
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
    /// A batch of `transfers`, as far as they have not been executed, and their number.
    fn of(transfers: &mut [Option<Transfer>]) -> (Arc<Batch>, usize) {
        let taken = transfers.iter_mut().enumerate().rev();
        let waiting: Vec<_> = taken
            .filter_map(|(ticket, transfer)| {
                let left = transfer.take_if(|transfer| !transfer.has_ended())?;
                Some((ticket, left))
            })
            .collect();
        let count = waiting.len();
        let state = Mutex::new(BatchState {
            done: Vec::with_capacity(count),
            waiting,
            running: 0,
        });
        let batch = Batch {
            state,
            changed: Condvar::new(),
        };
        (Arc::new(batch), count)
    }

    /// Waits for the transfers that are being executed, and returns all to their places.
    fn finish(&self, transfers: &mut [Option<Transfer>]) {
        let mut state = self.state.lock();
        while state.running > 0 {
            self.changed.wait(&mut state);
        }
        for (ticket, transfer) in state.done.drain(..) {
            transfers[ticket] = Some(transfer);
        }
    }

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
    let (batch, waiting) = Batch::of(transfers);
    let others = waiting.saturating_sub(1);
    if others > 0 {
        threads.call(&batch, others);
    }
    batch.work();
    if others > 0 {
        threads.recall(&batch);
    }
    batch.finish(transfers);
}

/// Transfers that threads execute while the caller goes on.
///
/// The threads own a transfer, and thereby its memory and descriptor, until it has ended. The caller may move
/// to another thread, or end; a `Background` that is dropped takes back the transfers that have not started,
/// and the others end into memory that is then freed.
pub(super) struct Background {
    batch: Arc<Batch>,
    threads: &'static Threads,
}

impl Background {
    /// Starts `transfers`, as far as they have not been executed. Fails in a forked child, which has no
    /// threads.
    pub(super) fn start(transfers: &mut [Option<Transfer>]) -> Option<Background> {
        Background::start_by(Threads::of_process(), transfers)
    }

    fn start_by(
        threads: &'static Threads,
        transfers: &mut [Option<Transfer>],
    ) -> Option<Background> {
        if !threads.process.is_this() {
            return None;
        }
        let (batch, waiting) = Batch::of(transfers);
        threads.call(&batch, waiting);
        Some(Background { batch, threads })
    }

    /// True if the process started the transfers. In a forked child, their state belongs to the parent.
    pub(super) fn is_own(&self) -> bool {
        self.threads.process.is_this()
    }

    /// True if all transfers have ended.
    pub(super) fn has_ended(&self) -> bool {
        let state = self.batch.state.lock();
        state.waiting.is_empty() && state.running == 0
    }

    /// Waits for the transfers and returns them to their places. Those that have not started are executed by
    /// the calling thread.
    pub(super) fn finish(self, transfers: &mut [Option<Transfer>]) {
        self.batch.work();
        self.threads.recall(&self.batch);
        self.batch.finish(transfers);
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if !self.is_own() {
            return;
        }
        let waiting = std::mem::take(&mut self.batch.state.lock().waiting);
        if !waiting.is_empty() {
            self.threads.recall(&self.batch);
        }
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

    #[test]
    fn reads_that_are_given_up_release_their_files_and_memory() {
        let file = Arc::new(File::open("/dev/zero").unwrap());
        let transfer = |len| Transfer::new(file.clone(), 0, Memory::new(len), 0, len, false);
        // None has started, because all threads are busy elsewhere.
        let threads: &Threads = Box::leak(Box::new(Threads::new()));
        threads.state.lock().threads = MOST;
        let mut transfers: Vec<_> = (0..4).map(|_| Some(transfer(8))).collect();
        let background = Background::start_by(threads, &mut transfers).unwrap();
        assert!(transfers.iter().all(Option::is_none) && !background.has_ended());
        drop(background);
        assert!(threads.state.lock().calls.is_empty());
        assert_eq!(Arc::strong_count(&file), 1);
        // One is under way.
        let mut transfers = [Some(transfer(64 << 20))];
        let background = Background::start(&mut transfers).unwrap();
        while background.batch.state.lock().running == 0 && !background.has_ended() {
            std::thread::yield_now();
        }
        drop(background);
        while Arc::strong_count(&file) > 1 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_no_thread_has_started_is_executed_when_it_is_collected() {
        let threads: &Threads = Box::leak(Box::new(Threads::new()));
        threads.state.lock().threads = MOST;
        let file = Arc::new(File::open("/dev/zero").unwrap());
        let transfer = || Transfer::new(file.clone(), 0, Memory::new(8), 0, 8, false);
        let mut transfers: Vec<_> = (0..4).map(|_| Some(transfer())).collect();
        let background = Background::start_by(threads, &mut transfers).unwrap();
        background.finish(&mut transfers);
        let done = transfers.iter().flatten();
        assert_eq!(done.filter(|one| one.outcome() == Ok(8)).count(), 4);
        assert!(threads.state.lock().calls.is_empty());
    }
}
