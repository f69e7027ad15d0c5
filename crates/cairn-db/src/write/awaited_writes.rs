//! The threads that execute writes that futures wait for.
//!
//! A write blocks its thread until the log is synced. While one thread does that, others wait in the write queue and
//! form the next group, so that as many writes as there are threads share a sync.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cairn_platform::Job;
use cairn_platform::io::run_apart;
use cairn_platform::sync::Mutex;

/// The number of threads of a database.
const WRITERS: usize = 32;

/// Writes that wait for a thread.
#[derive(Default)]
pub(crate) struct AwaitedWrites {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    /// The number of threads that execute writes.
    writers: usize,
}

impl AwaitedWrites {
    /// Executes `write` on a thread. `sync` is true if it waits for a sync.
    pub(crate) fn start(writes: &Arc<AwaitedWrites>, sync: bool, write: Job) {
        // Without a sync to wait for, more threads are only more contention.
        let most = if sync { WRITERS } else { 1 };
        let mut state = writes.state.lock();
        state.waiting.push_back(write);
        let starts = state.writers < most;
        state.writers += usize::from(starts);
        drop(state);
        if starts {
            let writes = writes.clone();
            run_apart(Box::new(move || writes.execute()));
        }
    }

    /// Executes writes until none is waiting.
    fn execute(&self) {
        loop {
            let mut state = self.state.lock();
            let Some(next) = state.waiting.pop_front() else {
                state.writers -= 1;
                return;
            };
            drop(state);
            // A panic, which its hook has printed, ends this write only: others may have no thread but this one.
            drop(catch_unwind(AssertUnwindSafe(next)));
        }
    }
}

#[cfg(test)]
mod tests {
    use cairn_platform::sync::{AtomicUsize, Condvar, Ordering};

    use super::*;

    #[test]
    fn writes_that_wait_for_a_sync_wait_together_and_others_one_by_one() {
        for (sync, most) in [(true, WRITERS), (false, 1)] {
            let writes = Arc::new(AwaitedWrites::default());
            let gate = Arc::new((Mutex::new((0, false)), Condvar::new()));
            let done = Arc::new(AtomicUsize::new(0));
            for _ in 0..3 * WRITERS {
                let (gate, done) = (gate.clone(), done.clone());
                let write = move || {
                    let mut state = gate.0.lock();
                    state.0 += 1;
                    gate.1.notify_all();
                    while !state.1 {
                        gate.1.wait(&mut state);
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                };
                AwaitedWrites::start(&writes, sync, Box::new(write));
            }
            let mut state = gate.0.lock();
            while state.0 < most {
                gate.1.wait(&mut state);
            }
            assert_eq!(writes.state.lock().writers, most);
            assert_eq!(state.0, most, "the others have no thread");
            state.1 = true;
            drop(state);
            gate.1.notify_all();
            while done.load(Ordering::SeqCst) < 3 * WRITERS {
                std::thread::yield_now();
            }
            while writes.state.lock().writers > 0 {
                std::thread::yield_now();
            }
        }
    }

    /// Regression: the thread ended with the write that panicked, and those queued behind it were not executed.
    #[test]
    fn writes_queued_behind_one_that_panics_are_executed() {
        let writes = Arc::new(AwaitedWrites::default());
        let (gate, done) = (Arc::new(Mutex::new(())), Arc::new(AtomicUsize::new(0)));
        let closed = gate.lock();
        let waiting = gate.clone();
        AwaitedWrites::start(&writes, false, Box::new(move || drop(waiting.lock())));
        AwaitedWrites::start(&writes, false, Box::new(|| panic!("a write of a test")));
        let counted = done.clone();
        let write = move || {
            counted.fetch_add(1, Ordering::SeqCst);
        };
        AwaitedWrites::start(&writes, false, Box::new(write));
        drop(closed);
        while writes.state.lock().writers > 0 {
            std::thread::yield_now();
        }
        assert_eq!(done.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_panic_ends_its_write_only() {
        let writes = Arc::new(AwaitedWrites::default());
        let done = Arc::new(AtomicUsize::new(0));
        AwaitedWrites::start(&writes, false, Box::new(|| panic!("a write of a test")));
        while writes.state.lock().writers > 0 {
            std::thread::yield_now();
        }
        let counted = done.clone();
        let write = move || {
            counted.fetch_add(1, Ordering::SeqCst);
        };
        AwaitedWrites::start(&writes, false, Box::new(write));
        while done.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
    }
}
