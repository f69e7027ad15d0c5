//! Memory of handles: slabs of address space that are never reused for another type.
//!
//! The address of a shell belongs to its type for the life of the process, so a destroyed handle
//! can be read safely at any time. Its memory, however, is allocated and returned as needed. A
//! [`Pool`] divides its slabs into *units* of one or more pages:
//!
//! ```text
//! slab      64 KiB, 128 KiB, 256 KiB, ...
//! unit      | shell | shell | ... | rest |     the pages of as many shells as fit
//! unit is   full      all of its shells are in use: they have an object or are queued
//!           open      some of its shells are in use
//!           vacant    none is in use; its pages are resident
//!           returned  none is in use; its pages were returned to the kernel and read as zeros
//! ```
//!
//! Destroyed shells are queued first ([`REST`], in each thread and then in the pool), so a program
//! that creates and destroys handles at a steady rate never reaches the units. If more than
//! [`RESTING`] shells are queued, the oldest go back to their units. A unit becomes vacant when its
//! last shell is back; if there are more than [`VACANT`] vacant units, the oldest are returned to
//! the kernel, adjacent ones in one call.

use std::alloc::{Layout, handle_alloc_error};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, AtomicUsize};

use cairn_platform::region::{Region, page_size};

/// The header of a shell. All zeros is a valid header of a shell without an object.
pub struct Link {
    /// State of the object.
    pub word: AtomicU32,
    /// Non-zero while a call uses the object.
    pub in_use: AtomicU32,
    /// Identity of the object's owner; 0 for none.
    pub owner: AtomicUsize,
    /// The next shell in a queue or in the free list of a unit. Undefined in the last shell of a queue and while the
    /// object is alive.
    pub next: Cell<*mut Link>,
}

/// The number of other shells that must be destroyed before a destroyed shell is reused.
pub(crate) const REST: usize = 64;

/// Number of destroyed shells that a thread keeps before it moves some to the pool.
pub(crate) const OWN: usize = 4 * REST;

/// Number of queued shells that a pool keeps before it moves the oldest to their units.
const RESTING: usize = 2 * REST;

/// Number of vacant units that a pool keeps. It collects the same number again and then returns
/// those together.
const VACANT: usize = 8;

/// Number of units in the first slab of a pool. Each slab has twice as many as the one before.
const FIRST_SLAB: usize = 16;

/// Alignment of shells: a cache line, so that adjacent shells cause no false sharing.
const LINE: usize = 64;

/// Destroyed shells, oldest first.
pub struct Queue {
    first: Cell<*mut Link>,
    last: Cell<*mut Link>,
    len: Cell<usize>,
}

// SAFETY: the queue owns its shells; no thread has a reference to them.
unsafe impl Send for Queue {}

impl Queue {
    pub const fn new() -> Queue {
        Queue {
            first: Cell::new(null_mut()),
            last: Cell::new(null_mut()),
            len: Cell::new(0),
        }
    }

    /// The number of shells.
    #[inline]
    pub fn len(&self) -> usize {
        self.len.get()
    }

    /// Removes the oldest shell if at least [`REST`] others were destroyed since.
    #[inline]
    pub fn pop(&self) -> Option<*mut Link> {
        self.pop_beyond(REST)
    }

    /// Removes the oldest shell, if there are more than `kept`.
    #[inline]
    fn pop_beyond(&self, kept: usize) -> Option<*mut Link> {
        let len = self.len.get();
        (len > kept).then(|| {
            self.len.set(len - 1);
            let first = self.first.get();
            // SAFETY: shells stay readable, and the queue owns its shells. The link of the last one is never followed.
            self.first.set(unsafe { (*first).next.get() });
            first
        })
    }

    /// Appends a chain of `count` shells from `first` to `last`.
    #[inline]
    pub fn push(&self, first: *mut Link, last: *mut Link, count: usize) {
        match self.len.get() {
            0 => self.first.set(first),
            // SAFETY: as in `pop_beyond`; the queue is not empty.
            _ => unsafe { (*self.last.get()).next.set(first) },
        }
        self.last.set(last);
        self.len.set(self.len.get() + count);
    }

    /// Moves the `count` oldest shells, or all if there are fewer, to `other`.
    fn give(&self, count: usize, other: &Queue) {
        let count = count.min(self.len.get());
        if count == 0 {
            return;
        }
        let first = self.first.get();
        let mut last = first;
        for _ in 1..count {
            // SAFETY: as in `pop_beyond`; there are `count` shells.
            last = unsafe { (*last).next.get() };
        }
        // SAFETY: as above.
        self.first.set(unsafe { (*last).next.get() });
        self.len.set(self.len.get() - count);
        other.push(first, last, count);
    }
}

/// State of a unit. There is a list of units for each.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Full,
    Open,
    Vacant,
    Returned,
}

/// One or a few pages of a slab.
struct Unit {
    place: Place,
    /// Number of shells taken at least once since the unit was last vacant. They are the first ones of the unit; the next one
    /// is taken when the free list is empty.
    made: u16,
    /// Number of shells in use.
    out: u16,
    /// Neighbours in the list of the unit's state.
    before: u32,
    after: u32,
    /// Free list of shells that are back.
    free: *mut Link,
}

// SAFETY: the pool owns the shells of a free list.
unsafe impl Send for Unit {}

/// The end of a list of units.
const NONE: u32 = u32::MAX;

/// Units in one state, by number.
struct List {
    first: u32,
    last: u32,
    len: usize,
}

impl List {
    const EMPTY: List = List {
        first: NONE,
        last: NONE,
        len: 0,
    };
}

/// The shells of one type that are in no thread's queue.
pub struct Pool {
    resting: Queue,
    /// Slab `n` begins with unit `FIRST_SLAB * (2^n - 1)`.
    slabs: Vec<Region>,
    units: Vec<Unit>,
    /// Lists of units, by state.
    lists: [List; 4],
    /// Distance between shells, in bytes.
    stride: usize,
    /// Size of a unit, in bytes; 0 until the first slab is reserved, because it depends on the page size.
    unit_len: usize,
    /// Number of shells in a unit.
    in_unit: u16,
}

/// Distance between shells of the type `S`, in bytes.
pub const fn stride<S>() -> usize {
    assert!(align_of::<S>() <= LINE, "shells are aligned to a line");
    size_of::<S>().next_multiple_of(LINE)
}

impl Pool {
    /// An empty pool of shells that are `stride` bytes apart ([`stride`]).
    pub const fn new(stride: usize) -> Pool {
        Pool {
            resting: Queue::new(),
            slabs: Vec::new(),
            units: Vec::new(),
            lists: [List::EMPTY; 4],
            stride,
            unit_len: 0,
            in_unit: 0,
        }
    }

    /// Takes a shell without an object.
    pub fn take(&mut self) -> *mut Link {
        if let Some(shell) = self.resting.pop() {
            return shell;
        }
        // The unit that became open most recently is likely to be the fullest. Filling it gives the
        // others a chance to become vacant.
        let id = match &self.lists {
            [_, open, ..] if open.len > 0 => open.last,
            [_, _, vacant, _] if vacant.len > 0 => vacant.last,
            [.., returned] if returned.len > 0 => returned.last,
            _ => self.add_unit(),
        };
        let start = self.start_of(id);
        let (stride, in_unit) = (self.stride, self.in_unit);
        let unit = self.unit(id);
        let shell = match unit.free.is_null() {
            true => {
                unit.made += 1;
                start
                    .wrapping_add((usize::from(unit.made) - 1) * stride)
                    .cast()
            }
            false => {
                let shell = unit.free;
                // SAFETY: shells stay readable, and the pool owns its free lists.
                unit.free = unsafe { (*shell).next.get() };
                shell
            }
        };
        unit.out += 1;
        let place = match unit.out == in_unit {
            true => Place::Full,
            false => Place::Open,
        };
        self.move_to(id, place);
        shell
    }

    /// Takes the `count` oldest shells of `queue` back, or all if there are fewer.
    pub fn receive(&mut self, queue: &Queue, count: usize) {
        queue.give(count, &self.resting);
        self.settle();
    }

    /// Takes back one shell.
    pub fn receive_one(&mut self, shell: *mut Link) {
        self.resting.push(shell, shell, 1);
        self.settle();
    }

    /// Calls `look` with every shell that may have an object, and with some that have none.
    pub fn for_each(&self, mut look: impl FnMut(*mut Link)) {
        for (id, unit) in (0..).zip(&self.units) {
            if unit.out > 0 {
                let start = self.start_of(id);
                (0..usize::from(unit.made))
                    .for_each(|number| look(start.wrapping_add(number * self.stride).cast()));
            }
        }
    }

    /// True if `address` is in a slab of the pool.
    pub fn has(&self, address: usize) -> bool {
        self.slab_of(address).is_some()
    }

    /// Moves queued shells beyond [`RESTING`] to their units.
    fn settle(&mut self) {
        while let Some(shell) = self.resting.pop_beyond(RESTING) {
            self.put_back(shell);
        }
    }

    /// Adds a shell to the free list of its unit.
    fn put_back(&mut self, shell: *mut Link) {
        let id = self.unit_of(shell.addr());
        let unit = self.unit(id);
        unit.out -= 1;
        if unit.out > 0 {
            // SAFETY: the pool owns the shell.
            unsafe { (*shell).next.set(unit.free) };
            unit.free = shell;
            return self.move_to(id, Place::Open);
        }
        // The free list is stored in the unit's pages, which may be returned.
        unit.free = null_mut();
        unit.made = 0;
        self.move_to(id, Place::Vacant);
        if self.lists[Place::Vacant as usize].len == 2 * VACANT {
            self.return_vacant();
        }
    }

    /// Returns the pages of the [`VACANT`] units that became vacant first to the kernel.
    fn return_vacant(&mut self) {
        let mut ids = [NONE; VACANT];
        for id in &mut ids {
            *id = self.lists[Place::Vacant as usize].first;
            self.move_to(*id, Place::Returned);
        }
        ids.sort_unstable();
        let unit_len = self.unit_len;
        for neighbours in
            ids.chunk_by(|&id, &next| id + 1 == next && slab_of_unit(id) == slab_of_unit(next))
        {
            let region = &self.slabs[slab_of_unit(neighbours[0])];
            let offset = self.start_of(neighbours[0]).addr() - region.start().addr().get();
            // SAFETY: the units are adjacent in the slab, and none of their shells is in use. Only a program that uses a
            // destroyed handle still writes to them, and only into `in_use`, which has no effect there.
            unsafe { region.give_back(offset, neighbours.len() * unit_len) };
        }
    }

    /// Adds a unit, and a new slab if it is the first unit of one.
    #[cold]
    fn add_unit(&mut self) -> u32 {
        if self.unit_len == 0 {
            self.unit_len = unit_len(self.stride);
            self.in_unit = u16::try_from(self.unit_len / self.stride).unwrap_or(u16::MAX);
        }
        let id = u32::try_from(self.units.len()).unwrap_or(NONE);
        let slab = slab_of_unit(id);
        if slab == self.slabs.len() {
            let len = (FIRST_SLAB << slab) * self.unit_len;
            let Some(region) = Region::reserve(len) else {
                let layout = Layout::from_size_align(len, LINE);
                handle_alloc_error(layout.unwrap_or(Layout::new::<Link>()));
            };
            show_to_leak_checker(&region);
            self.slabs.push(region);
        }
        self.units.push(Unit {
            place: Place::Returned,
            made: 0,
            out: 0,
            before: NONE,
            after: NONE,
            free: null_mut(),
        });
        self.append(id, Place::Returned);
        id
    }

    fn unit(&mut self, id: u32) -> &mut Unit {
        &mut self.units[id as usize]
    }

    /// The address of a unit.
    fn start_of(&self, id: u32) -> *mut u8 {
        let slab = slab_of_unit(id);
        let number = id as usize - first_unit(slab);
        let start = self.slabs[slab].start().as_ptr();
        start.wrapping_add(number * self.unit_len)
    }

    /// The unit of the shell at `address`.
    fn unit_of(&self, address: usize) -> u32 {
        let found = self.slab_of(address);
        let (slab, offset) = found.expect("shells of a pool lie in its slabs");
        (first_unit(slab) + offset / self.unit_len) as u32
    }

    /// The slab that contains `address`, and the offset in it.
    fn slab_of(&self, address: usize) -> Option<(usize, usize)> {
        // Starts with the last slab, which has half of all units.
        self.slabs
            .iter()
            .enumerate()
            .rev()
            .find_map(|(slab, region)| {
                let offset = address.wrapping_sub(region.start().addr().get());
                (offset < region.len()).then_some((slab, offset))
            })
    }

    /// Moves a unit to the end of another list.
    fn move_to(&mut self, id: u32, place: Place) {
        let unit = self.unit(id);
        let (from, before, after) = (unit.place, unit.before, unit.after);
        if from == place {
            return;
        }
        let list = from as usize;
        match before {
            NONE => self.lists[list].first = after,
            before => self.unit(before).after = after,
        }
        match after {
            NONE => self.lists[list].last = before,
            after => self.unit(after).before = before,
        }
        self.lists[list].len -= 1;
        self.append(id, place);
    }

    /// Appends a unit that is in no list.
    fn append(&mut self, id: u32, place: Place) {
        let list = &mut self.lists[place as usize];
        let last = std::mem::replace(&mut list.last, id);
        list.len += 1;
        match last {
            NONE => list.first = id,
            last => self.unit(last).after = id,
        }
        let unit = self.unit(id);
        (unit.place, unit.before, unit.after) = (place, last, NONE);
    }
}

/// The number of the slab that contains the unit `id`.
fn slab_of_unit(id: u32) -> usize {
    (id as usize / FIRST_SLAB + 1).ilog2() as usize
}

/// The first unit of a slab.
fn first_unit(slab: usize) -> usize {
    FIRST_SLAB * ((1 << slab) - 1)
}

/// Size of a unit in bytes: the fewest pages of which shells of `stride` bytes leave at most an eighth unused.
fn unit_len(stride: usize) -> usize {
    let page = page_size();
    let mut len = page;
    while len < stride || (len % stride) * 8 > len {
        len += page;
    }
    len
}

/// Registers the region with LeakSanitizer, if the program runs under it, so that objects that a live handle points to are not
/// reported as leaks.
fn show_to_leak_checker(region: &Region) {
    type Register = unsafe extern "C" fn(*const u8, usize);
    // SAFETY: the name is a C string. The function of that name has this type and accepts any mapped range, and the
    // regions of a pool are never unmapped.
    unsafe {
        let found = libc::dlsym(libc::RTLD_DEFAULT, c"__lsan_register_root_region".as_ptr());
        if !found.is_null() {
            let register = std::mem::transmute::<*mut libc::c_void, Register>(found);
            register(region.start().as_ptr(), region.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    impl Pool {
        /// Resident bytes of the pool's slabs.
        pub fn resident(&self) -> usize {
            let page = page_size();
            let pages_of = |region: &Region| {
                let mut pages = vec![0_u8; region.len() / page];
                let start = region.start().as_ptr().cast();
                // SAFETY: there is a byte for every page of the region.
                let done = unsafe { libc::mincore(start, region.len(), pages.as_mut_ptr()) };
                assert_eq!(done, 0, "mincore");
                pages.iter().filter(|&&seen| seen & 1 == 1).count()
            };
            self.slabs.iter().map(pages_of).sum::<usize>() * page
        }

        /// Bytes of all units whose pages were not returned.
        pub fn held(&self) -> usize {
            (self.units.len() - self.lists[Place::Returned as usize].len) * self.unit_len
        }
    }

    /// Takes shells and overwrites each.
    fn take(pool: &mut Pool, count: usize) -> Vec<*mut Link> {
        let stride = pool.stride;
        let shells: Vec<*mut Link> = (0..count).map(|_| pool.take()).collect();
        for &shell in &shells {
            // SAFETY: this test owns the shell.
            unsafe { shell.cast::<u8>().write_bytes(0x55, stride) };
        }
        shells
    }

    fn give(pool: &mut Pool, shells: impl IntoIterator<Item = *mut Link>) {
        shells.into_iter().for_each(|shell| pool.receive_one(shell));
    }

    /// The numbers below `count`, a power of two, in scattered order.
    fn scattered(count: usize) -> impl Iterator<Item = usize> {
        (0..count).map(move |number| number.wrapping_mul(0x9e37_79b1) % count)
    }

    #[test]
    fn memory_is_proportional_to_the_shells_in_use() {
        for stride in [64, 192, 1216, 3072, 5184] {
            let mut pool = Pool::new(stride);
            let count: usize = (1 << 24) / stride;
            let count = 1_usize << count.ilog2();
            for round in 0..3 {
                let mut shells = take(&mut pool, count);
                let full = pool.resident();
                assert!(full >= count * stride, "{full} for {count} of {stride}");
                assert!(
                    full <= count * stride * 5 / 4,
                    "{full} for {count} of {stride}"
                );
                shells.sort_unstable();
                shells.windows(2).for_each(|two| {
                    assert!(
                        two[0].addr() + stride <= two[1].addr(),
                        "shells do not overlap"
                    );
                });
                match round {
                    0 => give(&mut pool, shells),
                    1 => give(&mut pool, shells.into_iter().rev()),
                    _ => give(&mut pool, scattered(count).map(|number| shells[number])),
                }
                let left = pool.resident();
                let kept = 2 * VACANT * pool.unit_len;
                // Each queued shell may keep a unit.
                let limit = kept + RESTING * if round == 2 { pool.unit_len } else { stride };
                assert!(
                    left <= limit + 2 * pool.unit_len,
                    "{left} bytes remain for stride {stride}, more than {limit}"
                );
                assert!(pool.held() >= left, "{} and {left}", pool.held());
            }
            let known = pool.slabs.len();
            take(&mut pool, count);
            assert_eq!(pool.slabs.len(), known, "the addresses are reused");
        }
    }

    #[test]
    fn a_shell_that_was_returned_reads_as_zeros() {
        let mut pool = Pool::new(64);
        let shells = take(&mut pool, 100_000);
        give(&mut pool, shells.iter().copied());
        // SAFETY: shells stay readable.
        let words = shells
            .iter()
            .map(|&shell| unsafe { (*shell).word.load(Relaxed) });
        let zero = words.filter(|&word| word == 0).count();
        let kept = RESTING + 2 * VACANT * usize::from(pool.in_unit);
        assert!(zero >= 100_000 - kept - usize::from(pool.in_unit), "{zero}");
        assert!(shells.iter().all(|&shell| pool.has(shell.addr())));
        assert!(!pool.has((&raw const zero).addr()));
    }

    #[test]
    fn a_shell_is_not_reused_at_once() {
        let mut pool = Pool::new(64);
        let shells = take(&mut pool, 4 * RESTING);
        let (first, others) = (shells[0], &shells[1..]);
        give(&mut pool, [first]);
        for &other in &others[..REST - 1] {
            assert_ne!(pool.take(), first);
            give(&mut pool, [other]);
        }
    }

    #[test]
    fn for_each_visits_all_shells_in_use_and_no_returned_page() {
        let mut pool = Pool::new(64);
        let shells = take(&mut pool, 10_000);
        let (kept, ended) = shells.split_at(10);
        give(&mut pool, ended.iter().copied());
        let mut seen = Vec::new();
        pool.for_each(|shell| seen.push(shell));
        assert!(kept.iter().all(|shell| seen.contains(shell)));
        assert!(
            seen.len() <= RESTING + 3 * usize::from(pool.in_unit),
            "{}",
            seen.len()
        );
    }

    #[test]
    fn units_waste_little() {
        for stride in (1..400).map(|lines| lines * LINE) {
            let len = unit_len(stride);
            let shells = len / stride;
            assert!(shells > 0 && (len - shells * stride) * 8 <= len, "{stride}");
            assert!(u16::try_from(shells).is_ok());
        }
    }

    #[test]
    fn units_are_numbered_through_the_slabs() {
        let mut id = 0;
        for slab in 0..10 {
            assert_eq!(first_unit(slab), id as usize);
            for _ in 0..FIRST_SLAB << slab {
                assert_eq!(slab_of_unit(id), slab);
                id += 1;
            }
        }
    }
}
