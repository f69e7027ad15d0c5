//! The current core of a thread, for data that is sharded by core.

use std::sync::OnceLock;
use std::thread::available_parallelism;

/// The number of the core that the caller is running on. The caller may migrate at any time, so the number
/// serves to distribute accesses, not to synchronise them. Takes about two nanoseconds.
#[inline]
#[must_use]
pub fn current() -> usize {
    #[cfg(target_os = "linux")]
    return rustix::thread::sched_getcpu();
    #[cfg(not(target_os = "linux"))]
    return by_thread();
}

/// A number per thread, for systems that cannot report the core.
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

/// The number of cores available to the process at the first call, at least 1.
#[must_use]
pub fn count() -> usize {
    // The system computes it from files of its control groups.
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| available_parallelism().map_or(1, usize::from))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_current_core_is_known() {
        assert!(super::count() >= 1);
        assert!(super::current() < 1 << 20);
    }
}
