//! The queue of the subcompactions of one compaction.
//!
//! A subcompaction is queued, claimed by one thread, and finished by that thread. While it runs,
//! the end of its key range may be split off and queued as a new subcompaction. Only the thread
//! that runs the compaction waits, for the last subcompaction to finish, and it claims any that is
//! queued in the meantime. There is one mutex, taken a few times per subcompaction.

use std::collections::VecDeque;

use cairn_platform::sync::{AtomicBool, Condvar, Mutex, Ordering};
use cairn_types::{Error, Result};

/// The range of user keys of one subcompaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SubcompactionRange {
    /// The first key; `None` if unbounded.
    pub(crate) lower: Option<Vec<u8>>,
    /// The first key after the range; `None` if unbounded.
    pub(crate) upper: Option<Vec<u8>>,
    /// True if its outputs go to the level below the output level.
    pub(crate) skip_level: bool,
}

/// The subcompactions of one compaction, each with a result `T`.
pub(crate) struct SubcompactionQueue<T> {
    state: Mutex<State<T>>,
    /// Signalled when a subcompaction is queued or finished.
    change: Condvar,
    /// True while the waiting thread has nothing to run.
    idle: AtomicBool,
}

struct State<T> {
    /// Queued subcompactions with their numbers.
    waiting: VecDeque<(usize, SubcompactionRange)>,
    finished: Vec<Option<Result<T>>>,
}

impl<T> SubcompactionQueue<T> {
    /// Creates a queue of `spans`, which ascend without gap or overlap.
    pub(crate) fn new(spans: Vec<SubcompactionRange>) -> SubcompactionQueue<T> {
        assert!(!spans.is_empty(), "a compaction has a subcompaction");
        assert!(
            spans
                .windows(2)
                .all(|pair| pair[0].upper.is_some() && pair[0].upper == pair[1].lower),
            "the ranges are adjacent"
        );
        SubcompactionQueue {
            state: Mutex::new(State {
                finished: spans.iter().map(|_| None).collect(),
                waiting: spans.into_iter().enumerate().collect(),
            }),
            change: Condvar::new(),
            idle: AtomicBool::new(false),
        }
    }

    /// True if a subcompaction is queued.
    pub(crate) fn are_waiting(&self) -> bool {
        !self.state.lock().waiting.is_empty()
    }

    /// True if all subcompactions are finished.
    pub(crate) fn are_finished(&self) -> bool {
        self.state.lock().finished.iter().all(Option::is_some)
    }

    /// Claims a queued subcompaction for the caller.
    pub(crate) fn take(&self) -> Option<(Claimed<'_, T>, SubcompactionRange)> {
        let mut state = self.state.lock();
        let (number, range) = state.waiting.pop_front()?;
        assert!(
            state.finished[number].is_none(),
            "a queued subcompaction is not finished"
        );
        let taken = Claimed {
            queue: self,
            number,
            armed: true,
        };
        Some((taken, range))
    }

    /// Queues a subcompaction.
    pub(crate) fn add(&self, range: SubcompactionRange) {
        let mut state = self.state.lock();
        let number = state.finished.len();
        assert!(
            range.lower.is_some(),
            "the split range starts at the split key"
        );
        assert!(
            state.finished.iter().any(Option::is_none),
            "the subcompaction that was split is running"
        );
        state.finished.push(None);
        state.waiting.push_back((number, range));
        self.change.notify_all();
    }

    /// True if a thread is waiting for work.
    pub(crate) fn has_idle(&self) -> bool {
        // Relaxed: a stale read only delays the next split.
        self.idle.load(Ordering::Relaxed)
    }

    /// Waits until a subcompaction is queued or all are finished.
    pub(crate) fn wait(&self) -> Wait<T> {
        let mut state = self.state.lock();
        self.idle.store(true, Ordering::Relaxed);
        let outcome = loop {
            if !state.waiting.is_empty() {
                break Wait::More;
            }
            if state.finished.iter().all(Option::is_some) {
                break Wait::Over(state.finished.drain(..).flatten().collect());
            }
            self.change.wait(&mut state);
        };
        self.idle.store(false, Ordering::Relaxed);
        outcome
    }

    fn set(&self, number: usize, result: Result<T>) {
        let earlier = self.state.lock().finished[number].replace(result);
        assert!(earlier.is_none(), "a subcompaction finishes once");
        self.change.notify_all();
    }
}

/// The outcome of a wait.
pub(crate) enum Wait<T> {
    /// A subcompaction is queued.
    More,
    /// All subcompactions are finished: their results, or the first error.
    Over(Result<Vec<T>>),
}

/// A claimed subcompaction. If its thread panics, dropping it records an error, so that no thread waits
/// for it forever.
pub(crate) struct Claimed<'a, T> {
    queue: &'a SubcompactionQueue<T>,
    pub(crate) number: usize,
    armed: bool,
}

impl<T> Claimed<'_, T> {
    /// Records the result of the subcompaction.
    pub(crate) fn finish(mut self, result: Result<T>) {
        self.armed = false;
        self.queue.set(self.number, result);
    }
}

impl<T> Drop for Claimed<'_, T> {
    fn drop(&mut self) {
        if self.armed {
            let error = Error::panicked("a subcompaction panicked");
            self.queue.set(self.number, Err(error));
        }
    }
}
