//! The execution of transfers by threads: of a batch, for processes that cannot use io_uring, and of reads that
//! continue while their caller does other work ([`Background`]).
//!
//! A process has at most [`MOST`] such threads. The caller executes transfers as well, so that a batch ends even if no
//! thread can be started. In a forked child, it executes all of them.

use std::sync::Arc;

use super::workers::Workers;
use crate::posix::process::{Process, ThreadsOfProcess};
use crate::read_queue::{Ticket, Transfer};
use crate::sync::{Condvar, Mutex};

/// The maximum number of threads.
const MOST: usize = 32;

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

/// The threads, whose jobs are batches with transfers that wait. A batch is a job as often as it can use a thread.
type Threads = Workers<Arc<Batch>>;

fn threads() -> Threads {
    Workers::new("cairn-read", |batch: Arc<Batch>| batch.work())
}

/// The threads of the calling process; `None` in a forked child.
fn of_process() -> Option<&'static Threads> {
    static THREADS: ThreadsOfProcess<Threads> = ThreadsOfProcess::new(threads);
    THREADS.get()
}

/// Lets up to `wanted` threads work on `batch`.
fn call(threads: &'static Threads, batch: &Arc<Batch>, wanted: usize) {
    let calls = std::iter::repeat_n(batch.clone(), wanted.min(MOST));
    // Without a thread, the caller executes everything.
    drop(threads.submit(calls, MOST));
}

/// Removes `batch` from the jobs, once it has no more transfers to start.
fn recall(threads: &Threads, batch: &Arc<Batch>) {
    threads.retain(|called| !Arc::ptr_eq(called, batch));
}

/// Executes `transfers`. Returns after the last has ended.
pub(super) fn execute(transfers: &mut [Option<Transfer>]) {
    match of_process() {
        Some(threads) if transfers.len() > 1 => execute_by(threads, transfers),
        _ => transfers.iter_mut().flatten().for_each(Transfer::execute),
    }
}

fn execute_by(threads: &'static Threads, transfers: &mut [Option<Transfer>]) {
    let (batch, waiting) = Batch::of(transfers);
    let others = waiting.saturating_sub(1);
    if others > 0 {
        call(threads, &batch, others);
    }
    batch.work();
    if others > 0 {
        recall(threads, &batch);
    }
    batch.finish(transfers);
}

/// Transfers that threads execute while the caller continues.
///
/// The threads own a transfer, and thereby its memory and descriptor, until it has ended. The caller may move
/// to another thread, or end; a `Background` that is dropped takes back the transfers that have not started,
/// and the others end into memory that is then freed.
pub(super) struct Background {
    process: Process,
    batch: Arc<Batch>,
    threads: Option<&'static Threads>,
}

impl Background {
    /// Starts `transfers`, as far as they have not been executed.
    pub(super) fn start(transfers: &mut [Option<Transfer>]) -> Background {
        Background::start_by(of_process(), transfers)
    }

    fn start_by(
        threads: Option<&'static Threads>,
        transfers: &mut [Option<Transfer>],
    ) -> Background {
        let (batch, waiting) = Batch::of(transfers);
        if let Some(threads) = threads {
            call(threads, &batch, waiting);
        }
        Background {
            process: Process::this(),
            batch,
            threads,
        }
    }

    /// True if the process started the transfers. In a forked child, their state belongs to the parent.
    pub(super) fn is_own(&self) -> bool {
        self.process.is_this()
    }

    /// True if all transfers have ended. The process must have started them.
    pub(super) fn has_ended(&self) -> bool {
        let state = self.batch.state.lock();
        state.waiting.is_empty() && state.running == 0
    }

    /// Waits for the transfers and returns them to their places. Those that have not started are executed by
    /// the calling thread.
    pub(super) fn finish(self, transfers: &mut [Option<Transfer>]) {
        self.batch.work();
        self.recall();
        self.batch.finish(transfers);
    }
}

impl Background {
    fn recall(&self) {
        if let Some(threads) = self.threads {
            recall(threads, &self.batch);
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if !self.is_own() {
            return;
        }
        let waiting = std::mem::take(&mut self.batch.state.lock().waiting);
        if !waiting.is_empty() {
            self.recall();
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
    use crate::posix::memory_kind::MemoryKind;

    /// A transfer of the first `len` bytes of `file`.
    fn transfer_of(file: &Arc<File>, len: usize) -> Transfer {
        let memory = Memory::new(len, MemoryKind::default());
        Transfer::new(file.clone(), 0, memory, 0, len, false)
    }

    #[test]
    fn calls_that_no_thread_follows_do_not_pile_up() {
        // All threads are busy with other batches, and the limit permits no more.
        let threads: &Threads = Box::leak(Box::new(threads().with_busy(MOST)));
        let file = Arc::new(File::open("/dev/zero").unwrap());
        let transfer = || transfer_of(&file, 8);
        for _ in 0..3 {
            let mut transfers: Vec<_> = (0..4).map(|_| Some(transfer())).collect();
            execute_by(threads, &mut transfers);
            let done = transfers.iter().flatten();
            assert_eq!(done.filter(|one| one.outcome() == Ok(8)).count(), 4);
            assert!(threads.is_empty());
        }
    }

    #[test]
    fn reads_that_are_given_up_release_their_files_and_memory() {
        let file = Arc::new(File::open("/dev/zero").unwrap());
        let transfer = |len| transfer_of(&file, len);
        // None has started, because all threads are busy elsewhere.
        let threads: &Threads = Box::leak(Box::new(threads().with_busy(MOST)));
        let mut transfers: Vec<_> = (0..4).map(|_| Some(transfer(8))).collect();
        let background = Background::start_by(Some(threads), &mut transfers);
        assert!(transfers.iter().all(Option::is_none) && !background.has_ended());
        drop(background);
        assert!(threads.is_empty());
        assert_eq!(Arc::strong_count(&file), 1);
        // One is under way.
        let mut transfers = [Some(transfer(64 << 20))];
        let background = Background::start(&mut transfers);
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
        let threads: &Threads = Box::leak(Box::new(threads().with_busy(MOST)));
        let file = Arc::new(File::open("/dev/zero").unwrap());
        let transfer = || transfer_of(&file, 8);
        let mut transfers: Vec<_> = (0..4).map(|_| Some(transfer())).collect();
        let background = Background::start_by(Some(threads), &mut transfers);
        background.finish(&mut transfers);
        let done = transfers.iter().flatten();
        assert_eq!(done.filter(|one| one.outcome() == Ok(8)).count(), 4);
        assert!(threads.is_empty());
    }
}
