//! Adaptive waiting: spin, then yield, then block.
//!
//! Blocking and waking a thread costs two context switches, about ten microseconds on two cores; a write
//! takes two. A thread that waits for another thread's next step therefore first spins for about as long as
//! such a step takes (which helps if the other thread is running), then yields (which helps if it was
//! preempted), and only then blocks.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The number of spins before yielding: about two to five microseconds.
const MAX_SPINS: u32 = 200;
/// The time spent yielding before blocking.
const MAX_YIELD: Duration = Duration::from_micros(50);
/// The number of spins worthwhile on this machine: 0 if there is only one core.
#[must_use]
pub fn spin_limit() -> u32 {
    static LIMIT: OnceLock<u32> = OnceLock::new();
    *LIMIT.get_or_init(|| match crate::cores::count() {
        1 => 0,
        _ => MAX_SPINS,
    })
}

/// Spins until `done` returns true or a few microseconds have passed. Returns the last result of `done`.
#[inline]
pub fn spin_until(done: impl Fn() -> bool) -> bool {
    for _ in 0..spin_limit() {
        if done() {
            return true;
        }
        std::hint::spin_loop();
    }
    done()
}

/// Yields until `done` returns true or about fifty microseconds have passed. Returns the last result of
/// `done`.
#[expect(
    clippy::disallowed_methods,
    reason = "the elapsed time only selects the way of waiting"
)]
pub fn yield_until(done: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    loop {
        std::thread::yield_now();
        if done() {
            return true;
        }
        // On a busy machine a single yield takes longer than that, and a blocked thread is scheduled sooner
        // than one that yields.
        if began.elapsed() > MAX_YIELD {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn waits_end_on_success_or_timeout() {
        assert!(super::spin_until(|| true));
        assert!(!super::spin_until(|| false));
        assert!(!super::yield_until(|| false));
        assert!(super::yield_until(|| true));
    }
}
