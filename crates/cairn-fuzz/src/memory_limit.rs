//! Memory limit of one input: a counting allocator and a bound.
//!
//! Property S2 of the design: a decoder takes at most 64 KiB plus eight times its input, and does not
//! trust sizes in a file. The counters are thread-local, so that concurrent tests do not affect each
//! other.
#![expect(unsafe_code, reason = "a global allocator requires unsafe code")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Memory bound for an input: `base + factor * length`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Bytes allowed for any input.
    pub base: usize,
    /// Bytes allowed per byte of the input.
    pub factor: usize,
}

impl Bound {
    /// The bound of a decoder.
    pub const DECODER: Bound = Bound {
        base: 64 << 10,
        factor: 8,
    };

    /// Returns the bound for an input of `len` bytes.
    #[must_use]
    pub const fn of(self, len: usize) -> usize {
        self.base.saturating_add(self.factor.saturating_mul(len))
    }
}

/// Larger requests abort immediately: such a size can only come from the input.
const REFUSED: usize = 1 << 32;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn grew(bytes: usize) {
    LIVE.with(|live| {
        let now = live.get() + bytes as isize;
        live.set(now);
        PEAK.with(|peak| peak.set(peak.get().max(now)));
    });
}

fn shrank(bytes: usize) {
    LIVE.with(|live| live.set(live.get() - bytes as isize));
}

/// Returns the bytes that this thread has allocated and not freed.
#[cfg(test)]
pub(crate) fn live() -> isize {
    LIVE.with(Cell::get)
}

/// Returns the peak of live memory of this thread during `work`, relative to the start.
pub fn peak_of(work: impl FnOnce()) -> usize {
    let before = LIVE.with(Cell::get);
    PEAK.with(|peak| peak.set(before));
    work();
    usize::try_from(PEAK.with(Cell::get) - before).unwrap_or(0)
}

/// The system allocator with a count of live bytes.
struct CountingAllocator;

// SAFETY: every call goes to the system's allocator unchanged; counting neither allocates (the
// cells are constants without destructors) nor touches the memory.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > REFUSED {
            return std::ptr::null_mut();
        }
        grew(layout.size());
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() > REFUSED {
            return std::ptr::null_mut();
        }
        grew(layout.size());
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        shrank(layout.size());
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > REFUSED {
            return std::ptr::null_mut();
        }
        shrank(layout.size());
        grew(size);
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static METER: CountingAllocator = CountingAllocator;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_counts_what_is_live_at_once() {
        let peak = peak_of(|| {
            for _ in 0..10 {
                std::hint::black_box(vec![0u8; 1 << 20]);
            }
        });
        assert!((1 << 20..(1 << 20) + 4096).contains(&peak), "{peak}");
    }

    #[test]
    fn the_bound_grows_with_the_input() {
        assert_eq!(Bound::DECODER.of(0), 65_536);
        assert_eq!(Bound::DECODER.of(1000), 73_536);
    }
}
