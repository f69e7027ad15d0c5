//! Which of the machine's cores a thread runs on: for what is kept once for each core.

use std::thread::available_parallelism;

/// The number of the core that the caller runs on. It may be another one by the time it is used, so
/// this is for spreading things, not for keeping them apart. Costs some two nanoseconds.
#[inline]
#[must_use]
pub fn current() -> usize {
    #[cfg(target_os = "linux")]
    return rustix::thread::sched_getcpu();
    #[cfg(not(target_os = "linux"))]
    return by_thread();
}

/// For systems that do not say where a thread runs: a number for each thread.
#[cfg(not(target_os = "linux"))]
fn by_thread() -> usize {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicUsize, Ordering};

    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
    }
    NUMBER.get().unwrap_or_else(|| {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        NUMBER.set(Some(number));
        number
    })
}

/// How many cores the process may use, at least one.
#[must_use]
pub fn count() -> usize {
    available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    #[test]
    fn there_is_a_core_to_run_on() {
        assert!(super::count() >= 1);
        assert!(super::current() < 1 << 20);
    }
}
