//! Runs of pages, for memory whose resident size must follow its use.
//!
//! Memory freed to the C library's allocator stays resident until all memory above it in its heap is free. A run
//! that is freed here can be returned to the kernel independently of others. Block buffers (`buffer`) and memtables
//! are allocated as runs.
//!
//! Runs are cut from areas of 2 MiB, first fit in the order of the areas, so that later areas become empty and are
//! unmapped. Longer runs are mapped individually.
//!
//! The pages of a freed run stay resident for reuse, up to a limit: `MAX_IDLE`, plus the size of all runs divided by
//! `IDLE_DIVISOR`. If the limit is exceeded, all idle pages are returned to the kernel (`madvise`). The cost per
//! freed page is thus constant, and resident memory exceeds that of the runs by at most the limit.
//!
//! Invariants:
//!
//! P1. A page of an area belongs to at most one run. The first page of an area belongs to no run; it starts with
//!     the index of the area in the list.
//! P2. A page is marked as used while it is being returned to the kernel.
//! P3. The start of a run has the provenance of its area.

#![expect(
    unsafe_code,
    reason = "runs are raw memory, and their area is found by their address"
)]

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;

use super::huge::{HUGE_PAGE, HugePage};
use super::region::{self, page_size};
use crate::sync::{AtomicUsize, Mutex, Ordering};

/// The size and alignment of an area.
pub(crate) const AREA: usize = HUGE_PAGE;

/// The unit of runs, in bytes. The pages of the system may be larger.
pub const PAGE: usize = 4 << 10;

/// The pages of an area.
const PAGES: usize = AREA / PAGE;

/// The pages of an area that runs can use.
const USABLE: u16 = PAGES as u16 - 1;

/// The longest run that is cut from an area, in bytes.
const LONGEST: usize = AREA / 2;

/// The number of idle pages that may always be kept.
const MAX_IDLE: usize = (512 << 10) / PAGE;

/// The number of further idle pages, as a divisor of the pages in use.
const IDLE_DIVISOR: usize = 32;

/// The number of free pages that stay mapped when an area is unmapped.
const MAPPED_EMPTY: usize = 128;

/// A run of pages, readable and writable. It contains zeros, or the data of an earlier run.
#[derive(Debug)]
pub struct Pages {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the value owns the memory, and any thread may free it.
unsafe impl Send for Pages {}
// SAFETY: a shared reference gives access to the memory only through the caller's own `unsafe` code.
unsafe impl Sync for Pages {}

impl Pages {
    /// A run of `len` bytes, rounded up to pages. Aborts like a failed allocation if there is no memory.
    #[must_use]
    pub fn new(len: usize) -> Pages {
        let len = len.max(1).next_multiple_of(PAGE);
        Pages {
            start: take(len, 1),
            len,
        }
    }

    /// The first byte, on a page boundary. The memory is valid as long as the run.
    #[inline]
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The number of bytes.
    #[inline]
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a run is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the run was taken in `new`, and its only owner is dropped.
        unsafe { give(self.start, self.len) };
    }
}

/// The memory of all runs, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageUse {
    /// Runs in use.
    pub used: usize,
    /// Pages of freed runs that may be resident.
    pub idle: usize,
}

/// The memory of all runs of the process.
#[must_use]
pub fn page_use() -> PageUse {
    let areas = AREAS.lock();
    PageUse {
        // Relaxed: a sum that orders nothing.
        used: areas.used * PAGE + LONG.load(Ordering::Relaxed),
        idle: areas.idle * PAGE,
    }
}

/// Bytes of the runs that are mapped individually.
static LONG: AtomicUsize = AtomicUsize::new(0);

static AREAS: Mutex<Areas> = Mutex::new(Areas {
    areas: Vec::new(),
    free: Vec::new(),
    used: 0,
    idle: 0,
});

/// The areas of the process. An area and its number of free pages have the same index.
struct Areas {
    areas: Vec<Area>,
    free: Vec<u16>,
    /// The pages of runs.
    used: usize,
    /// The free pages that may be resident.
    idle: usize,
}

struct Area {
    memory: HugePage,
    /// A bit for each page in use.
    used: Bits,
    /// A bit for each free page that may be resident.
    idle: Bits,
}

/// A set of the pages of an area.
#[derive(Clone, Copy, Default)]
struct Bits([u64; PAGES / 64]);

impl Bits {
    #[inline]
    fn has(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 != 0
    }

    /// Sets or clears `len` bits from `at` on; returns how many changed.
    fn set(&mut self, at: usize, len: usize, to: bool) -> usize {
        let mut changed = 0;
        for bit in at..at + len {
            if self.has(bit) != to {
                self.0[bit / 64] ^= 1 << (bit % 64);
                changed += 1;
            }
        }
        changed
    }

    /// The start of the first `len` clear bits at a multiple of `align`.
    fn clear_run(&self, len: usize, align: usize) -> Option<usize> {
        let mut at = 0;
        while at + len <= PAGES {
            if self.0[at / 64] == u64::MAX {
                at = (at / 64 + 1) * 64;
                continue;
            }
            match (at..at + len).rev().find(|&bit| self.has(bit)) {
                None => return Some(at),
                Some(used) => at = (used + 1).next_multiple_of(align),
            }
        }
        None
    }

    /// The first run of set bits at or after `at`.
    fn next_run(&self, at: usize) -> Option<(usize, usize)> {
        let start = (at..PAGES).find(|&bit| self.has(bit))?;
        let end = (start..PAGES).find(|&bit| !self.has(bit)).unwrap_or(PAGES);
        Some((start, end - start))
    }
}

impl Area {
    fn page(&self, at: usize) -> NonNull<u8> {
        debug_assert!(at < PAGES, "the page is in the area");
        // SAFETY: within the memory of the area.
        unsafe { self.memory.base().add(at * PAGE) }
    }

    /// Stores the index of the area in its first page (P1).
    fn set_index(&mut self, index: usize) {
        // SAFETY: the first page belongs to no run (P1), and the caller has the lock of the list.
        unsafe { self.memory.base().cast::<usize>().write(index) };
    }
}

impl Areas {
    /// Takes `len` pages at a multiple of `align` from the first area that has them.
    fn take(&mut self, len: usize, align: usize) -> Option<NonNull<u8>> {
        let with_room = |(index, &free): (usize, &u16)| (usize::from(free) >= len).then_some(index);
        let mut candidates = self.free.iter().enumerate().filter_map(with_room);
        let found = candidates.find_map(|index| {
            let at = self.areas[index].used.clear_run(len, align)?;
            Some((index, at))
        });
        let (index, at) = found?;
        let area = &mut self.areas[index];
        area.used.set(at, len, true);
        self.idle -= area.idle.set(at, len, false);
        let start = area.page(at);
        self.free[index] -= len as u16;
        self.used += len;
        Some(start)
    }

    fn add(&mut self, memory: HugePage) {
        let mut area = Area {
            memory,
            used: Bits::default(),
            idle: Bits::default(),
        };
        area.used.set(0, 1, true);
        area.set_index(self.areas.len());
        self.areas.push(area);
        self.free.push(USABLE);
    }

    /// Makes `len` pages from page `at` of the area `index` free, and idle if they may be `resident`. Returns the
    /// memory of the area if it is empty and others have enough room.
    fn free(&mut self, index: usize, at: usize, len: usize, resident: bool) -> Option<HugePage> {
        let area = &mut self.areas[index];
        let freed = area.used.set(at, len, false);
        debug_assert!(freed == len, "P1");
        if resident {
            self.idle += area.idle.set(at, len, true);
        }
        self.free[index] += len as u16;
        let others = || {
            let free = self.free.iter().map(|&free| usize::from(free));
            free.sum::<usize>() - usize::from(USABLE)
        };
        if self.free[index] < USABLE || others() < MAPPED_EMPTY {
            return None;
        }
        let mut area = self.areas.swap_remove(index);
        self.free.swap_remove(index);
        if let Some(moved) = self.areas.get_mut(index) {
            moved.set_index(index);
        }
        self.idle -= area.idle.set(0, PAGES, false);
        Some(area.memory)
    }

    /// Marks an idle run as used, so that the caller can return it to the kernel (P2). Returns its start and length.
    fn take_idle(&mut self) -> Option<(NonNull<u8>, usize)> {
        // From the end: the first areas are used first.
        for (index, area) in self.areas.iter_mut().enumerate().rev() {
            if let Some((at, len)) = area.idle.next_run(0) {
                self.idle -= area.idle.set(at, len, false);
                area.used.set(at, len, true);
                self.free[index] -= len as u16;
                return Some((area.page(at), len));
            }
        }
        None
    }

    /// True if more pages are idle than are kept.
    fn is_idle_beyond_bound(&self) -> bool {
        self.idle > MAX_IDLE + self.used / IDLE_DIVISOR
    }
}

/// The area of `start`, a pointer into a run that was cut from an area.
#[inline]
pub(crate) fn area_of(start: NonNull<u8>) -> NonNull<u8> {
    // The pointer keeps the provenance of the area (P3).
    let area = start.as_ptr().map_addr(|address| address & !(AREA - 1));
    NonNull::new(area).expect("an area does not start at 0")
}

/// Takes `len` bytes, a multiple of [`PAGE`], at a multiple of `align` pages if they are cut from an area.
pub(crate) fn take(len: usize, align: usize) -> NonNull<u8> {
    debug_assert!(len > 0 && len.is_multiple_of(PAGE), "whole pages");
    if len > LONGEST {
        let len = len.next_multiple_of(page_size());
        LONG.fetch_add(len, Ordering::Relaxed);
        return region::memory::map(len).unwrap_or_else(|| {
            let layout = Layout::from_size_align(len, PAGE);
            handle_alloc_error(layout.unwrap_or(Layout::new::<u8>()))
        });
    }
    let len = len / PAGE;
    loop {
        if let Some(start) = AREAS.lock().take(len, align) {
            return start;
        }
        // Without the lock, because mapping is slow.
        let memory = HugePage::of_small_pages();
        AREAS.lock().add(memory);
    }
}

/// Frees a run.
///
/// # Safety
///
/// `start` is from [`take`] with the same `len`, and nothing uses the memory any more.
pub(crate) unsafe fn give(start: NonNull<u8>, len: usize) {
    if len > LONGEST {
        let len = len.next_multiple_of(page_size());
        LONG.fetch_sub(len, Ordering::Relaxed);
        // SAFETY: mapped in `take` with this length.
        unsafe { region::memory::unmap(start, len) };
        return;
    }
    let len = len / PAGE;
    let mut areas = AREAS.lock();
    areas.used -= len;
    let empty = areas.free_run(start, len, true);
    let trims = areas.is_idle_beyond_bound();
    drop(areas);
    // Without the lock, because unmapping is slow.
    drop(empty);
    if trims {
        trim();
    }
}

/// Returns the idle pages to the kernel.
pub fn trim() {
    loop {
        let Some((start, len)) = AREAS.lock().take_idle() else {
            return;
        };
        give_back(start, len * PAGE);
        let empty = AREAS.lock().free_run(start, len, false);
        drop(empty);
    }
}

/// Returns the whole pages of the system within `len` bytes from `start` on to the kernel. The caller has marked
/// them as used (P2).
fn give_back(start: NonNull<u8>, len: usize) {
    let address = start.addr().get();
    let first = address.next_multiple_of(page_size());
    let end = (address + len) / page_size() * page_size();
    if first < end {
        // SAFETY: the range is part of the pages, which are of an area and which no run uses.
        unsafe { region::memory::give_back(start.add(first - address), end - first) };
    }
}

impl Areas {
    /// [`Areas::free`] of the run of `len` pages at `start`.
    fn free_run(&mut self, start: NonNull<u8>, len: usize, resident: bool) -> Option<HugePage> {
        let area = area_of(start);
        // SAFETY: the area is mapped, as a part of it is marked as used, and starts with its index (P1).
        let index = unsafe { area.cast::<usize>().read() };
        let at = (start.addr().get() - area.addr().get()) / PAGE;
        self.free(index, at, len, resident)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Areas of a test, separate from those of the process.
    fn areas() -> Areas {
        Areas {
            areas: Vec::new(),
            free: Vec::new(),
            used: 0,
            idle: 0,
        }
    }

    #[test]
    fn runs_are_disjoint_and_aligned() {
        let mut areas = areas();
        areas.add(HugePage::of_small_pages());
        let mut taken = Vec::new();
        for len in [1, 16, 3, 100, 16, 200] {
            let align = if len == 16 { 16 } else { 1 };
            let start = areas.take(len, align).expect("there is room");
            assert!(start.addr().get().is_multiple_of(align * PAGE));
            assert!(!start.addr().get().is_multiple_of(AREA), "P1");
            taken.push((start.addr().get(), len * PAGE));
        }
        assert!(areas.take(256, 1).is_none());
        let mut sorted = taken.clone();
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0));
        assert_eq!(areas.used, 336);
    }

    #[test]
    fn freed_pages_are_idle_and_are_returned() {
        let mut areas = areas();
        areas.add(HugePage::of_small_pages());
        let first = areas.take(10, 1).unwrap();
        let second = areas.take(20, 1).unwrap();
        // SAFETY: the run is this test's.
        unsafe { second.as_ptr().write(7) };
        areas.used -= 10;
        assert!(areas.free_run(first, 10, true).is_none());
        assert_eq!((areas.idle, areas.used), (10, 20));
        // Idle pages are used again first.
        assert_eq!(areas.take(4, 1), Some(first));
        assert_eq!(areas.idle, 6);
        let (start, len) = areas.take_idle().unwrap();
        assert_eq!((len, areas.idle), (6, 0));
        assert!(areas.take_idle().is_none());
        give_back(start, len * PAGE);
        assert!(areas.free_run(start, len, false).is_none());
        assert_eq!(areas.idle, 0);
        // SAFETY: as above.
        unsafe { assert_eq!(*second.as_ptr(), 7) };
    }

    #[test]
    fn empty_areas_are_unmapped_if_others_have_room() {
        let mut areas = areas();
        for _ in 0..3 {
            areas.add(HugePage::of_small_pages());
        }
        let runs: Vec<_> = (0..6).map(|_| areas.take(255, 1).unwrap()).collect();
        assert!(areas.free_run(runs[0], 255, true).is_none());
        assert!(
            areas.free_run(runs[1], 255, true).is_none(),
            "no other has room"
        );
        assert!(areas.free_run(runs[4], 255, true).is_none());
        assert!(areas.free_run(runs[5], 255, true).is_some());
        assert_eq!((areas.areas.len(), areas.idle), (2, 510));
        // The moved area has its new index.
        assert!(areas.free_run(runs[2], 255, true).is_none());
        assert!(areas.free_run(runs[3], 255, true).is_some());
        assert_eq!((areas.areas.len(), areas.idle), (1, 510));
    }

    #[test]
    fn long_runs_are_mapped_alone() {
        let before = page_use();
        let run = Pages::new(LONGEST + 1);
        assert!(run.len() > LONGEST && run.start().addr().get().is_multiple_of(PAGE));
        // SAFETY: within the run.
        unsafe { assert_eq!(*run.start().add(run.len() - 1).as_ptr(), 0) };
        let now = page_use();
        assert!(now.used >= run.len(), "{before:?} {now:?}");
        drop(run);
    }

    #[test]
    fn idle_pages_are_bounded() {
        let runs: Vec<Pages> = (0..40).map(|_| Pages::new(100_000)).collect();
        drop(runs);
        let now = page_use();
        let bound = MAX_IDLE * PAGE + now.used / IDLE_DIVISOR;
        // Other tests of the process free runs at the same time.
        assert!(now.idle <= 2 * bound, "{now:?}");
        trim();
    }
}
