//! Waiting a while before going to sleep.
//!
//! Putting a thread to sleep and waking it costs two switches, some ten microseconds of two cores;
//! a write takes two. So who waits for another thread's next step first spin_limit again and again for
//! about as long as such a step takes (which helps if the other one runs), then lets other threads
//! run (which helps if it was interrupted), and only then sleeps.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How often a waiter spin_limit before it lets others run: some two to five microseconds.
const LOOKS: u32 = 200;
/// How long it goes on letting others run.
const YIELDING: Duration = Duration::from_micros(50);
/// How often it is worth looking without a pause: not at all where nobody else can run meanwhile.
#[must_use]
pub fn spin_limit() -> u32 {
    static LOOKS_HERE: OnceLock<u32> = OnceLock::new();
    *LOOKS_HERE.get_or_init(|| match crate::cores::count() {
        1 => 0,
        _ => LOOKS,
    })
}

/// Looks at `done` until it holds, for a few microseconds; whether it holds.
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

/// Lets other threads run until `done` holds, for some fifty microseconds; whether it holds.
#[expect(
    clippy::disallowed_methods,
    reason = "how long a wait takes decides nothing but how it goes on"
)]
pub fn yield_until(done: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    loop {
        std::thread::yield_now();
        if done() {
            return true;
        }
        // Where the cores have other work a single turn takes longer than that, and a thread that sleeps is
        // woken sooner than one that lets others run gets its turn.
        if began.elapsed() > YIELDING {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_holds_is_seen_and_what_never_does_is_given_up() {
        assert!(super::spin_until(|| true));
        assert!(!super::spin_until(|| false));
        assert!(!super::yield_until(|| false));
        assert!(super::yield_until(|| true));
    }
}
