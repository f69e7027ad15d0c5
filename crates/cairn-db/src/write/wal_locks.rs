//! The holders of `lock_wal`.
//!
//! The first lock is acquired with the lead of the write queue, so that no write is in progress when it is
//! held; meanwhile other threads wait. Further locks are only counted.
//!
//! Invariant: a first lock is begun only while no thread holds one.

use std::thread::ThreadId;

/// The threads that block writes. Guarded by the lock of the tree.
#[derive(Default)]
pub(crate) struct WalLocks {
    /// The threads, with the number of locks of each.
    holders: Vec<(ThreadId, usize)>,
    /// True while a thread acquires the first lock.
    beginning: bool,
}

/// The outcome of [`WalLocks::begin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// The thread holds a lock.
    Held,
    /// The thread acquires the first lock: it must call [`WalLocks::complete`].
    First,
    /// Another thread is acquiring the first lock.
    Wait,
}

impl WalLocks {
    /// Begins a lock of `thread`.
    pub(crate) fn begin(&mut self, thread: ThreadId) -> Begun {
        if self.is_held() {
            assert!(
                !self.beginning,
                "a first lock begins while no thread holds one"
            );
            self.add(thread);
            return Begun::Held;
        }
        match std::mem::replace(&mut self.beginning, true) {
            true => Begun::Wait,
            false => Begun::First,
        }
    }

    /// Completes a first lock: it is held by `holder`, or by no thread.
    pub(crate) fn complete(&mut self, holder: Option<ThreadId>) {
        assert!(self.beginning, "a first lock is completed once");
        assert!(
            !self.is_held(),
            "no other lock is held when the first is completed"
        );
        self.beginning = false;
        if let Some(thread) = holder {
            self.add(thread);
        }
    }

    /// True while a thread acquires the first lock.
    pub(crate) fn is_beginning(&self) -> bool {
        self.beginning
    }

    /// True while a thread holds a lock.
    pub(crate) fn is_held(&self) -> bool {
        !self.holders.is_empty()
    }

    fn add(&mut self, thread: ThreadId) {
        match self
            .holders
            .iter_mut()
            .find(|(holder, _)| *holder == thread)
        {
            Some((_, times)) => *times += 1,
            None => self.holders.push((thread, 1)),
        }
    }

    /// Releases one lock of `thread`. Returns false if it holds none.
    pub(crate) fn release(&mut self, thread: ThreadId) -> bool {
        let Some((_, times)) = self
            .holders
            .iter_mut()
            .find(|(holder, _)| *holder == thread)
        else {
            return false;
        };
        debug_assert!(*times > 0, "a holder has locked");
        *times -= 1;
        self.holders.retain(|(_, times)| *times > 0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lock_is_taken_by_one_thread_and_later_ones_count() {
        let mut locks = WalLocks::default();
        let here = std::thread::current().id();
        let there = std::thread::scope(|scope| {
            let thread = scope.spawn(|| std::thread::current().id());
            thread.join().unwrap()
        });
        assert_eq!(locks.begin(here), Begun::First);
        assert_eq!(locks.begin(there), Begun::Wait);
        assert!(locks.is_beginning() && !locks.is_held());
        locks.complete(None);
        assert_eq!(locks.begin(there), Begun::First);
        locks.complete(Some(there));
        assert_eq!(locks.begin(here), Begun::Held);
        assert_eq!(locks.begin(there), Begun::Held);
        assert!(locks.release(there) && locks.release(there) && !locks.release(there));
        assert!(locks.is_held() && locks.release(here) && !locks.is_held());
    }
}
