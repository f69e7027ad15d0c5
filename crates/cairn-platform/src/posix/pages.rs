//! Runs of pages, for memory whose resident size must follow its use.
//!
//! Memory freed to the C library's allocator stays resident until all memory above it in its heap is free. A run
//! that is freed here can be returned to the kernel independently of others. Block buffers (`buffer`) and memtables
//! are allocated as runs.
//!
//! Runs are cut from areas of 2 MiB, first fit in the order of the areas, so that later areas become empty and are
//! unmapped. Longer runs are mapped individually. Each kind of memory has its own areas.
//!
//! The pages of a freed run stay resident for reuse, up to a limit: `MAX_IDLE`, plus the size of all runs divided by
//! `IDLE_DIVISOR`. If the limit is exceeded, all idle pages are returned to the kernel (`madvise`), by the thread that
//! frees a run and by those that free the next ones: each returns about `SLICE` pages, so that none is delayed by
//! more than a fraction of a millisecond. The cost per freed page is thus constant, and resident memory exceeds that
//! of the runs by at most the limit. The limit applies to each kind of memory.
//!
//! Invariants:
//!
//! P1. A page of an area belongs to at most one run. The first page of an area belongs to no run; it starts with
//!     the index of the area in the list.
//! P2. A page is marked as used while it is being returned to the kernel.
//! P3. The start of a run has the provenance of its area.
//! P4. The whole of an area or of an individual mapping is of the kind of its runs.

#![expect(
    unsafe_code,
    reason = "runs are raw memory, and their area is found by their address"
)]

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;

use super::huge::{HUGE_PAGE, HugePage};
use super::memory_kind::MemoryKind;
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
const IDLE_DIVISOR: usize = 128;

/// The number of idle pages that a thread returns to the kernel when it frees a run: more than a run has.
const SLICE: usize = LONGEST / PAGE + LONGEST / PAGE / IDLE_DIVISOR + 1;

/// The number of free pages that stay mapped when an area is unmapped.
const MAPPED_EMPTY: usize = 128;

/// A run of pages of ordinary memory, readable and writable. It contains zeros, or the data of an earlier run.
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
            start: take(len, MemoryKind::default()),
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
        unsafe { give(self.start, self.len, MemoryKind::default()) };
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
    let mut sum = PageUse {
        // Relaxed: a sum that orders nothing.
        used: LONG.load(Ordering::Relaxed),
        idle: 0,
    };
    for areas in &AREAS {
        let areas = areas.lock();
        sum.used += areas.used * PAGE;
        sum.idle += areas.idle * PAGE;
    }
    sum
}

/// Bytes of the runs that are mapped individually.
static LONG: AtomicUsize = AtomicUsize::new(0);

static AREAS: [Mutex<Areas>; MemoryKind::ALL.len()] =
    [const { Mutex::new(Areas::new()) }; MemoryKind::ALL.len()];

/// The areas of a kind of memory.
fn areas_of(kind: MemoryKind) -> &'static Mutex<Areas> {
    &AREAS[kind.index()]
}

/// The areas of one kind of memory. An area and the numbers of its pages have the same index.
struct Areas {
    areas: Vec<Area>,
    counts: Vec<Counts>,
    /// The pages of runs.
    used: usize,
    /// The free pages that may be resident.
    idle: usize,
    /// True while idle pages are returned to the kernel.
    is_trimming: bool,
}

/// The numbers of pages of an area.
#[derive(Clone, Copy, Default)]
struct Counts {
    free: u16,
    /// The free pages that may be resident.
    idle: u16,
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
    /// Sets or clears `len` bits from `at` on; returns how many changed.
    fn set(&mut self, at: usize, len: usize, to: bool) -> usize {
        let (mut changed, mut from) = (0, at);
        while from < at + len {
            let count = (64 - from % 64).min(at + len - from);
            let mask = (u64::MAX >> (64 - count)) << (from % 64);
            let word = &mut self.0[from / 64];
            let now = if to { *word | mask } else { *word & !mask };
            changed += (now ^ *word).count_ones() as usize;
            *word = now;
            from += count;
        }
        changed
    }

    /// The first bit at or after `at` that is set, or is clear; [`PAGES`] if there is none.
    fn next(&self, at: usize, is_set: bool) -> usize {
        let flip = if is_set { 0 } else { u64::MAX };
        let mut from = at;
        while from < PAGES {
            let rest = (self.0[from / 64] ^ flip) >> (from % 64);
            if rest != 0 {
                return from + rest.trailing_zeros() as usize;
            }
            from = (from / 64 + 1) * 64;
        }
        PAGES
    }

    /// The start of the first `len` clear bits.
    fn clear_run(&self, len: usize) -> Option<usize> {
        let mut at = 0;
        loop {
            at = self.next(at, false);
            if at + len > PAGES {
                return None;
            }
            let end = self.next(at, true);
            if end - at >= len {
                return Some(at);
            }
            at = end;
        }
    }

    /// The first run of set bits.
    fn first_run(&self) -> Option<(usize, usize)> {
        let start = self.next(0, true);
        (start < PAGES).then(|| (start, self.next(start, false) - start))
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
    const fn new() -> Areas {
        Areas {
            areas: Vec::new(),
            counts: Vec::new(),
            used: 0,
            idle: 0,
            is_trimming: false,
        }
    }

    /// Takes `len` pages from the first area that has them.
    fn take(&mut self, len: usize) -> Option<NonNull<u8>> {
        let with_room = |(index, counts): (usize, &Counts)| {
            let has_room = usize::from(counts.free) >= len;
            has_room.then_some(index)
        };
        let mut candidates = self.counts.iter().enumerate().filter_map(with_room);
        let found = candidates.find_map(|index| {
            let at = self.areas[index].used.clear_run(len)?;
            Some((index, at))
        });
        let (index, at) = found?;
        let area = &mut self.areas[index];
        area.used.set(at, len, true);
        let start = area.page(at);
        self.counts[index].free -= len as u16;
        self.used += len;
        self.set_idle(index, at, len, false);
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
        self.counts.push(Counts {
            free: USABLE,
            idle: 0,
        });
    }

    /// Marks pages of an area as idle or not.
    fn set_idle(&mut self, index: usize, at: usize, len: usize, to: bool) {
        let changed = self.areas[index].idle.set(at, len, to);
        let count = &mut self.counts[index].idle;
        // An area has fewer pages than 2^16.
        match to {
            true => (self.idle, *count) = (self.idle + changed, *count + changed as u16),
            false => (self.idle, *count) = (self.idle - changed, *count - changed as u16),
        }
        debug_assert!(self.idle >= usize::from(*count), "a part of the sum");
    }

    /// Makes `len` pages from page `at` of the area `index` free, and idle if they may be `resident`. Returns the
    /// memory of the area if it is empty and others have enough room.
    fn free(&mut self, index: usize, at: usize, len: usize, resident: bool) -> Option<HugePage> {
        let area = &mut self.areas[index];
        let freed = area.used.set(at, len, false);
        debug_assert!(freed == len, "P1");
        if resident {
            self.set_idle(index, at, len, true);
        }
        self.counts[index].free += len as u16;
        let others = || {
            let free = self.counts.iter().map(|it| usize::from(it.free));
            free.sum::<usize>() - usize::from(USABLE)
        };
        if self.counts[index].free < USABLE || others() < MAPPED_EMPTY {
            return None;
        }
        let area = self.areas.swap_remove(index);
        let counts = self.counts.swap_remove(index);
        if let Some(moved) = self.areas.get_mut(index) {
            moved.set_index(index);
        }
        self.idle -= usize::from(counts.idle);
        Some(area.memory)
    }

    /// Marks an idle run as used, so that the caller can return it to the kernel (P2). Returns its start and length.
    fn take_idle(&mut self) -> Option<(NonNull<u8>, usize)> {
        // From the end: the first areas are used first.
        let Some(index) = self.counts.iter().rposition(|counts| counts.idle > 0) else {
            self.is_trimming = false;
            return None;
        };
        let area = &mut self.areas[index];
        let (at, len) = area.idle.first_run().expect("the area has idle pages");
        area.used.set(at, len, true);
        let start = area.page(at);
        self.counts[index].free -= len as u16;
        self.set_idle(index, at, len, false);
        Some((start, len))
    }

    /// [`Areas::take_idle`] for a thread that has freed a run and has returned `returned` pages so far. Returns `None`
    /// if that is enough.
    fn take_slice(&mut self, returned: usize) -> Option<(NonNull<u8>, usize)> {
        self.is_trimming |= self.is_idle_beyond_bound();
        let is_enough = returned >= SLICE && !self.is_idle_beyond_bound();
        match self.is_trimming && !is_enough {
            true => self.take_idle(),
            false => None,
        }
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

/// Takes `len` bytes of `kind`, a multiple of [`PAGE`].
pub(crate) fn take(len: usize, kind: MemoryKind) -> NonNull<u8> {
    debug_assert!(len > 0 && len.is_multiple_of(PAGE), "whole pages");
    if len > LONGEST {
        return map_long(len.next_multiple_of(page_size()), kind);
    }
    let (len, areas) = (len / PAGE, areas_of(kind));
    loop {
        if let Some(start) = areas.lock().take(len) {
            return start;
        }
        // Without the lock, because mapping is slow.
        let memory = HugePage::of_small_pages();
        // SAFETY: the range is the page (P4).
        unsafe { kind.apply(memory.base(), HUGE_PAGE) };
        areas.lock().add(memory);
    }
}

/// Maps a run of `len` bytes individually.
fn map_long(len: usize, kind: MemoryKind) -> NonNull<u8> {
    LONG.fetch_add(len, Ordering::Relaxed);
    let Some(start) = region::memory::map(len) else {
        let layout = Layout::from_size_align(len, PAGE);
        handle_alloc_error(layout.unwrap_or(Layout::new::<u8>()))
    };
    // SAFETY: the range is the new mapping (P4).
    unsafe { kind.apply(start, len) };
    start
}

/// Frees a run.
///
/// # Safety
///
/// `start` is from [`take`] with the same `len` and `kind`, and nothing uses the memory any more.
pub(crate) unsafe fn give(start: NonNull<u8>, len: usize, kind: MemoryKind) {
    if len > LONGEST {
        let len = len.next_multiple_of(page_size());
        LONG.fetch_sub(len, Ordering::Relaxed);
        // SAFETY: mapped in `take` with this length.
        unsafe { region::memory::unmap(start, len) };
        return;
    }
    let (len, shared) = (len / PAGE, areas_of(kind));
    let mut areas = shared.lock();
    areas.used -= len;
    let empty = areas.free_run(start, len, true);
    let mut next = areas.take_slice(0);
    drop(areas);
    // Without the lock, because unmapping is slow.
    drop(empty);
    let mut returned = 0;
    while let Some((start, len)) = next {
        returned += len;
        next = give_idle_back(shared, (start, len), |areas| areas.take_slice(returned));
    }
}

/// Returns the idle pages to the kernel.
pub fn trim() {
    for areas in &AREAS {
        let mut next = areas.lock().take_idle();
        while let Some(run) = next {
            next = give_idle_back(areas, run, Areas::take_idle);
        }
    }
}

/// Returns a run from [`Areas::take_idle`] of `shared` to the kernel and frees it. Returns the result of `next`.
fn give_idle_back<T>(
    shared: &Mutex<Areas>,
    (start, len): (NonNull<u8>, usize),
    next: impl FnOnce(&mut Areas) -> T,
) -> T {
    give_back(start, len * PAGE);
    let mut areas = shared.lock();
    let empty = areas.free_run(start, len, false);
    let next = next(&mut areas);
    drop(areas);
    drop(empty);
    next
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

    #[test]
    fn runs_are_disjoint() {
        let mut areas = Areas::new();
        areas.add(HugePage::of_small_pages());
        let mut taken = Vec::new();
        for len in [1, 16, 3, 100, 16, 200] {
            let start = areas.take(len).expect("there is room");
            assert!(start.addr().get().is_multiple_of(PAGE));
            assert!(!start.addr().get().is_multiple_of(AREA), "P1");
            taken.push((start.addr().get(), len * PAGE));
        }
        assert!(areas.take(256).is_none());
        let mut sorted = taken.clone();
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0));
        assert_eq!(areas.used, 336);
    }

    #[test]
    fn freed_pages_are_idle_and_are_returned() {
        let mut areas = Areas::new();
        areas.add(HugePage::of_small_pages());
        let first = areas.take(10).unwrap();
        let second = areas.take(20).unwrap();
        // SAFETY: the run is this test's.
        unsafe { second.as_ptr().write(7) };
        areas.used -= 10;
        assert!(areas.free_run(first, 10, true).is_none());
        assert_eq!((areas.idle, areas.used), (10, 20));
        // Idle pages are used again first.
        assert_eq!(areas.take(4), Some(first));
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
        let mut areas = Areas::new();
        for _ in 0..3 {
            areas.add(HugePage::of_small_pages());
        }
        let runs: Vec<_> = (0..6).map(|_| areas.take(255).unwrap()).collect();
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
    fn a_freed_run_returns_a_bounded_number_of_idle_pages() {
        let mut areas = Areas::new();
        for _ in 0..8 {
            areas.add(HugePage::of_small_pages());
        }
        // Every second page is idle, so that each run has one page.
        let runs: Vec<_> = (0..8 * 511).map(|_| areas.take(1).unwrap()).collect();
        for run in runs.iter().step_by(2) {
            areas.used -= 1;
            assert!(areas.free_run(*run, 1, true).is_none());
        }
        assert!(areas.is_idle_beyond_bound());
        let mut calls = 0;
        while areas.idle > 0 {
            let (before, mut returned) = (areas.idle, 0);
            while let Some((start, len)) = areas.take_slice(returned) {
                assert_eq!(len, 1);
                assert!(areas.free_run(start, len, false).is_none());
                returned += len;
            }
            assert_eq!(before - areas.idle, returned);
            // The first call restores the bound.
            assert!(returned <= SLICE || calls == 0, "{returned}");
            assert!(!areas.is_idle_beyond_bound());
            calls += 1;
        }
        assert!(calls > 1);
        assert!(areas.take_slice(0).is_none() && !areas.is_trimming);
    }

    #[test]
    fn sets_of_pages_are_searched_by_runs() {
        // A simple form of the set.
        let run = |bits: &[bool; PAGES], len: usize| {
            let is_clear = |&at: &usize| at + len <= PAGES && !bits[at..at + len].contains(&true);
            (0..PAGES).find(is_clear)
        };
        let (mut set, mut bits, mut random) = (Bits::default(), [false; PAGES], 1u64);
        let mut next = |below: usize| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) as usize % below
        };
        for _ in 0..if cfg!(miri) { 50 } else { 3000 } {
            let (at, to) = (next(PAGES), next(3) > 0);
            let len = 1 + next((PAGES - at).min(150));
            let changed = bits[at..at + len].iter().filter(|&&bit| bit != to);
            assert_eq!(set.set(at, len, to), changed.count());
            bits[at..at + len].fill(to);
            for _ in 0..2 {
                let len = 1 + next(40);
                assert_eq!(set.clear_run(len), run(&bits, len));
            }
            let start = bits.iter().position(|&bit| bit);
            let len = |start: usize| bits[start..].iter().take_while(|&&bit| bit).count();
            assert_eq!(set.first_run(), start.map(|start| (start, len(start))));
        }
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
