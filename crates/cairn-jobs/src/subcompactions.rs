//! The parts of a compaction, and who of several threads works on which.
//!
//! A part waits, is taken by one thread, and is finished by it. While it is worked on, the end of its
//! keys may be given away: that becomes a part of its own. Nothing is waited for but the end of the last
//! part, and who waits for that takes whatever is given away meanwhile. One mutex, taken a few
//! times for each part.

use std::collections::VecDeque;

use cairn_platform::sync::{AtomicBool, Condvar, Mutex, Ordering};
use cairn_types::{Code, Error, Result, Subcode};

/// The user keys of one part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SubcompactionRange {
    /// The first; without it, the first of all.
    pub(crate) lower: Option<Vec<u8>>,
    /// The first that is no longer in it; without it, there is none.
    pub(crate) upper: Option<Vec<u8>>,
    /// True if its outputs go a level deeper than those of the others.
    pub(crate) deeper: bool,
}

/// The parts of one compaction, of which comes a `T` each.
pub(crate) struct SubcompactionQueue<T> {
    state: Mutex<State<T>>,
    /// Signals that a part waits or is finished.
    change: Condvar,
    /// True if the thread that waits for the end of all has nothing to do.
    idle: AtomicBool,
}

struct State<T> {
    /// Parts that no thread works on yet, and their numbers.
    waiting: VecDeque<(usize, SubcompactionRange)>,
    finished: Vec<Option<Result<T>>>,
}

impl<T> SubcompactionQueue<T> {
    /// The parts `spans`, of which no thread works on any yet.
    pub(crate) fn new(spans: Vec<SubcompactionRange>) -> SubcompactionQueue<T> {
        SubcompactionQueue {
            state: Mutex::new(State {
                finished: spans.iter().map(|_| None).collect(),
                waiting: spans.into_iter().enumerate().collect(),
            }),
            change: Condvar::new(),
            idle: AtomicBool::new(false),
        }
    }

    /// True if there are parts that no thread works on.
    pub(crate) fn are_waiting(&self) -> bool {
        !self.state.lock().waiting.is_empty()
    }

    /// True if all parts are finished.
    pub(crate) fn are_finished(&self) -> bool {
        self.state.lock().finished.iter().all(Option::is_some)
    }

    /// A part that no thread works on, which is then the caller's, and its number.
    pub(crate) fn take(&self) -> Option<(Claimed<'_, T>, SubcompactionRange)> {
        let (number, range) = self.state.lock().waiting.pop_front()?;
        let taken = Claimed {
            shares: self,
            number,
            armed: true,
        };
        Some((taken, range))
    }

    /// Adds a part.
    pub(crate) fn add(&self, range: SubcompactionRange) {
        let mut state = self.state.lock();
        let number = state.finished.len();
        state.finished.push(None);
        state.waiting.push_back((number, range));
        self.change.notify_all();
    }

    /// True if a thread waits for something to do.
    pub(crate) fn has_idle(&self) -> bool {
        // Relaxed: who reads late gives later.
        self.idle.load(Ordering::Relaxed)
    }

    /// Waits until a part waits or all are finished; which of them it is.
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
        self.state.lock().finished[number] = Some(result);
        self.change.notify_all();
    }
}

/// The end of a wait.
pub(crate) enum Wait<T> {
    /// A part waits.
    More,
    /// All parts are finished: what came of them, or the first error.
    Over(Result<Vec<T>>),
}

/// A part that a thread works on. If the thread panics, it is finished with an error, so that nobody
/// waits for it.
pub(crate) struct Claimed<'a, T> {
    shares: &'a SubcompactionQueue<T>,
    pub(crate) number: usize,
    armed: bool,
}

impl<T> Claimed<'_, T> {
    /// The part is finished.
    pub(crate) fn finish(mut self, result: Result<T>) {
        self.armed = false;
        self.shares.set(self.number, result);
    }
}

impl<T> Drop for Claimed<'_, T> {
    fn drop(&mut self) {
        if self.armed {
            let error = Error::new(
                Code::Aborted,
                Subcode::None,
                "a part of a compaction panicked",
            );
            self.shares.set(self.number, Err(error));
        }
    }
}
