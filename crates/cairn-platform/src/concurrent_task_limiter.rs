//! The limit on concurrent tasks that families and databases share (RocksDB's `ConcurrentTaskLimiter`).
//!
//! A task holds a token while it is scheduled or running. A token that is not available is not waited for: the caller
//! registers itself and is notified once a token is released or the limit is raised.
//!
//! ```
//! use std::sync::Arc;
//! use cairn_platform::ConcurrentTaskLimiter;
//!
//! let limiter = Arc::new(ConcurrentTaskLimiter::new("compactions", 1));
//! let token = limiter.force_token();
//! assert_eq!(limiter.outstanding_tasks(), 1);
//! drop(token);
//! assert_eq!(limiter.outstanding_tasks(), 0);
//! ```

use std::fmt;
use std::sync::{Arc, Weak};

use crate::sync::Mutex;

/// A holder of tasks that is notified when another task may start.
pub trait TaskWaiter: Send + Sync {
    /// Called once for each registration, on any thread, which may hold locks of another waiter: it only arranges for
    /// [`ConcurrentTaskLimiter::token`] to be called again elsewhere.
    fn task_may_start(self: Arc<Self>);
}

/// A limit on concurrent tasks.
pub struct ConcurrentTaskLimiter {
    name: String,
    state: Mutex<State>,
}

struct State {
    /// Negative for no limit.
    max_outstanding: i32,
    outstanding: usize,
    /// Those that were refused a token and not notified since.
    waiters: Vec<Weak<dyn TaskWaiter>>,
}

impl State {
    fn is_full(&self) -> bool {
        usize::try_from(self.max_outstanding).is_ok_and(|max| self.outstanding >= max)
    }
}

impl ConcurrentTaskLimiter {
    /// Creates a limiter of `max_outstanding` tasks: 0 for none, negative for no limit.
    #[must_use]
    pub fn new(name: &str, max_outstanding: i32) -> ConcurrentTaskLimiter {
        ConcurrentTaskLimiter {
            name: name.to_owned(),
            state: Mutex::new(State {
                max_outstanding,
                outstanding: 0,
                waiters: Vec::new(),
            }),
        }
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of tasks that hold a token.
    #[must_use]
    pub fn outstanding_tasks(&self) -> usize {
        self.state.lock().outstanding
    }

    /// Sets the limit: 0 for no further tasks, negative for no limit. Tasks that hold a token keep it.
    pub fn set_max_outstanding_tasks(&self, max_outstanding: i32) {
        self.change(|state| state.max_outstanding = max_outstanding);
    }

    /// Returns a token for a task; `None` if the limit is reached. `waiter` is then notified of the next change.
    #[must_use]
    pub fn token(self: &Arc<Self>, waiter: &Weak<dyn TaskWaiter>) -> Option<TaskToken> {
        let mut state = self.state.lock();
        if state.is_full() {
            state.waiters.retain(|other| other.strong_count() > 0);
            if !state.waiters.iter().any(|other| other.ptr_eq(waiter)) {
                state.waiters.push(waiter.clone());
            }
            return None;
        }
        state.outstanding += 1;
        Some(TaskToken(self.clone()))
    }

    /// Returns a token for a task that starts in any case. It counts towards the limit of others.
    #[must_use]
    pub fn force_token(self: &Arc<Self>) -> TaskToken {
        self.state.lock().outstanding += 1;
        TaskToken(self.clone())
    }

    /// Applies `change`, and notifies all waiters if another task may start then.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let waiters = {
            let mut state = self.state.lock();
            change(&mut state);
            match state.is_full() {
                true => Vec::new(),
                false => std::mem::take(&mut state.waiters),
            }
        };
        for waiter in waiters.iter().filter_map(Weak::upgrade) {
            waiter.task_may_start();
        }
    }
}

impl fmt::Debug for ConcurrentTaskLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outstanding = self.outstanding_tasks();
        write!(
            f,
            "ConcurrentTaskLimiter({}, {outstanding} tasks)",
            self.name
        )
    }
}

/// The permission of a task to run, which ends when it is dropped.
#[derive(Debug)]
pub struct TaskToken(Arc<ConcurrentTaskLimiter>);

impl Drop for TaskToken {
    fn drop(&mut self) {
        self.0.change(|state| state.outstanding -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{AtomicUsize, Ordering};

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl TaskWaiter for Counter {
        fn task_may_start(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A waiter and the number of its notifications.
    fn waiter() -> (Arc<Counter>, Weak<dyn TaskWaiter>) {
        let counter = Arc::new(Counter::default());
        let weak: Weak<dyn TaskWaiter> = Arc::downgrade(&counter) as Weak<dyn TaskWaiter>;
        (counter, weak)
    }

    #[test]
    fn a_refused_waiter_is_notified_once_when_a_task_ends() {
        let limiter = Arc::new(ConcurrentTaskLimiter::new("l", 2));
        let (counter, waiter) = waiter();
        let notified = || counter.0.load(Ordering::Relaxed);
        let first = limiter.token(&waiter).expect("the limit is 2");
        let second = limiter.token(&waiter).expect("the limit is 2");
        assert!(limiter.token(&waiter).is_none() && limiter.token(&waiter).is_none());
        assert_eq!((limiter.outstanding_tasks(), notified()), (2, 0));
        drop(first);
        assert_eq!((limiter.outstanding_tasks(), notified()), (1, 1));
        drop(second);
        assert_eq!(notified(), 1, "it was not refused again");
    }

    #[test]
    fn forced_tasks_count_and_no_waiter_is_notified_above_the_limit() {
        let limiter = Arc::new(ConcurrentTaskLimiter::new("l", 1));
        let (counter, waiter) = waiter();
        let forced = [limiter.force_token(), limiter.force_token()];
        assert!(limiter.token(&waiter).is_none());
        let [first, second] = forced;
        drop(first);
        assert_eq!(counter.0.load(Ordering::Relaxed), 0);
        drop(second);
        assert_eq!(counter.0.load(Ordering::Relaxed), 1);
        assert!(limiter.token(&waiter).is_some());
    }

    #[test]
    fn a_raised_limit_notifies_waiters_and_zero_refuses_all() {
        let limiter = Arc::new(ConcurrentTaskLimiter::new("l", 0));
        let (counter, waiter) = waiter();
        assert!(limiter.token(&waiter).is_none());
        limiter.set_max_outstanding_tasks(0);
        assert_eq!(counter.0.load(Ordering::Relaxed), 0);
        limiter.set_max_outstanding_tasks(-1);
        assert_eq!(counter.0.load(Ordering::Relaxed), 1);
        let tokens: Vec<_> = (0..9).map(|_| limiter.token(&waiter)).collect();
        assert!(tokens.iter().all(Option::is_some));
    }

    #[test]
    fn waiters_that_no_longer_exist_are_forgotten() {
        let limiter = Arc::new(ConcurrentTaskLimiter::new("l", 0));
        for _ in 0..100 {
            let (counter, waiter) = waiter();
            assert!(limiter.token(&waiter).is_none());
            drop(counter);
        }
        assert_eq!(limiter.state.lock().waiters.len(), 1);
    }
}
