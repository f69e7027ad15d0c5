//! Calls that a signal cuts short.
//!
//! A signal handler of the program (a profiler's timer, say) makes slow calls end with `EINTR`,
//! mostly on file systems of a network or in user space. Nothing has happened then, and nobody
//! above this layer is to know: every call that may wait is made through [`retry_on_eintr`].

use rustix::io::{Errno, retry_on_intr};

/// Makes `call` until no signal comes between.
pub(super) fn retry_on_eintr<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    retry_on_intr(|| {
        #[cfg(test)]
        if injected::comes_now() {
            return Err(Errno::INTR);
        }
        call()
    })
}

/// Signals that tests let come.
#[cfg(test)]
pub(super) mod injected {
    use std::cell::Cell;

    thread_local! {
        static STORM: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
    }

    /// Runs `act` while two signals come before each call of this thread; how many came.
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
