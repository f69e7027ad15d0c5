//! Retries of interrupted system calls.
//!
//! Signal handlers of the application, such as a profiler's, make slow calls fail with `EINTR`, mainly on
//! network and user-space file systems. The call had no effect, and callers of this layer must not notice.
//! Every call that may block goes through [`retry_on_eintr`], or [`retry_io`] if the standard library makes it. The
//! reservation of space, which can take longer than the interval of a profiler's signals and starts over after each,
//! uses [`retry_briefly`].

use std::io;

use rustix::io::{Errno, retry_on_intr};

/// The number of attempts of [`retry_briefly`].
const MAX_ATTEMPTS: usize = 8;

/// Repeats `call` until it is not interrupted.
pub(super) fn retry_on_eintr<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    retry_on_intr(|| interruptible(&mut call))
}

/// Repeats `call` at most [`MAX_ATTEMPTS`] times while it is interrupted: with a timer of a short period, a long call might be
/// repeated forever.
pub(super) fn retry_briefly<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    for _ in 1..MAX_ATTEMPTS {
        match interruptible(&mut call) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
    interruptible(&mut call)
}

/// [`retry_on_eintr`] for calls of the standard library.
pub(super) fn retry_io<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        #[cfg(test)]
        if injected::comes_now() {
            continue;
        }
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn interruptible<T>(call: &mut impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    #[cfg(test)]
    if injected::comes_now() {
        return Err(Errno::INTR);
    }
    call()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a reservation of space that was always interrupted was repeated forever.
    #[test]
    fn a_call_is_repeated_briefly() {
        let mut calls = 0;
        let result: Result<(), Errno> = retry_briefly(|| {
            calls += 1;
            Err(Errno::INTR)
        });
        assert_eq!((result, calls), (Err(Errno::INTR), MAX_ATTEMPTS));
        let mut calls = 0;
        let result = retry_briefly(|| {
            calls += 1;
            if calls < MAX_ATTEMPTS {
                Err(Errno::INTR)
            } else {
                Ok(calls)
            }
        });
        assert_eq!(result, Ok(MAX_ATTEMPTS));
    }
}
