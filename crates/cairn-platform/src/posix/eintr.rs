//! Retries of interrupted system calls.
//!
//! Signal handlers of the application, such as a profiler's, make slow calls fail with `EINTR`, mainly on
//! network and user-space file systems. The call had no effect, and callers of this layer must not notice.
//! Every call that may block goes through [`retry_on_eintr`].

use rustix::io::{Errno, retry_on_intr};

/// Repeats `call` until it is not interrupted.
pub(super) fn retry_on_eintr<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    retry_on_intr(|| {
        #[cfg(test)]
        if injected::comes_now() {
            return Err(Errno::INTR);
        }
        call()
    })
}

/// Injection of signals in tests.
#[cfg(test)]
pub(super) mod injected {
    use std::cell::Cell;

    thread_local! {
        static STORM: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
    }

    /// Runs `act` with two interruptions before each call of this thread. Returns the number of
    /// interruptions.
    pub(in super::super) fn during(act: impl FnOnce()) -> usize {
        STORM.set(Some((0, 0)));
        act();
        STORM.take().map_or(0, |(came, _)| came)
    }

    pub(super) fn comes_now() -> bool {
        let Some((came, asked)) = STORM.get() else {
            return false;
        };
        let comes = asked % 3 != 2;
        STORM.set(Some((came + usize::from(comes), asked + 1)));
        comes
    }
}
