//! Memory of buffers in size classes, cut from spans of pages.
//!
//! Pieces of up to [`LARGEST`] bytes are cut from spans of 64 to 128 KiB, each with pieces of one size; longer pieces
//! are runs of pages (`posix::pages`). Sizes are multiples of 64 bytes up to 2 KiB. Above that there are [`STEPS`]
//! sizes between powers of two, so that a piece is at most 1/32 longer than its content. The spans of a size have the
//! length that leaves little behind their last piece. A span without pieces in use is freed.
//!
//! Bounds: a piece is taken from one of the fullest spans of its class, so that others become empty. The idle memory
//! consists of the free pieces of spans. It is at most one span per class as long as buffers are freed in the order
//! of allocation, or at random from a constant mix of lengths. If the lengths change, the last pieces of a class keep
//! their spans allocated. [`buffer_memory`] reports the idle memory, which a memory budget charges to its cache.
//!
//! Each kind of memory has its own spans and runs. An allocation takes the lock of its class and kind. Threads keep
//! pieces of evicted buffers for reuse (`pool`).
//!
//! Invariants:
//!
//! S1. The description of a span is in the first page of its area. As long as the span exists, it is accessed only
//!     with the lock of the span's class held. The numbers of the description for the pages of the span are written
//!     before a piece of the span is taken, and stay.
//! S2. A piece that is not in `free` of its span belongs to one [`Memory`].
//! S3. The pages of a span are of the kind of its class.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::posix::memory_kind::MemoryKind;
use crate::posix::pages::{self, PAGE, area_of};
use crate::sync::{AtomicUsize, Mutex, Ordering};

/// The pages of the shortest and the longest span.
const SHORTEST_SPAN: usize = (64 << 10) / PAGE;
const LONGEST_SPAN: usize = 2 * SHORTEST_SPAN;

/// The most pieces of a span.
const MOST_PIECES: usize = 512;

/// The largest piece of a span.
const LARGEST: usize = SHORTEST_SPAN * PAGE / 2;

/// The smallest piece.
const SMALLEST: usize = 128;

/// The step between the sizes of short pieces, and the largest of them.
const SHORT_STEP: usize = 64;
const LARGEST_SHORT: usize = 2 << 10;

/// The number of sizes between consecutive powers of two.
const STEPS: usize = 32;

/// The number of short sizes, and of all.
const SHORT: usize = (LARGEST_SHORT - SMALLEST) / SHORT_STEP + 1;
const CLASSES: usize = SHORT + STEPS * (LARGEST.ilog2() - LARGEST_SHORT.ilog2()) as usize;

/// The offsets of two arrays in the first page of an area: for each page, the number of the description of its span,
/// a byte; and the descriptions. The number is that of the span's first page divided by [`SHORTEST_SPAN`], which no
/// two spans share.
const NUMBERS: usize = 64;
const DESCRIPTIONS: usize = NUMBERS + pages::AREA / PAGE;

/// The number of spans among which the fullest is searched.
const CHOICES: usize = 8;

static CLASS: [[Mutex<Class>; CLASSES]; MemoryKind::ALL.len()] =
    [const { [const { Mutex::new(Class::new()) }; CLASSES] }; MemoryKind::ALL.len()];

/// The class with the index `class` of pieces of `kind`.
fn class_with(kind: MemoryKind, class: usize) -> &'static Mutex<Class> {
    &CLASS[kind.index()][class]
}

/// Bytes of pieces and runs in use.
static LIVE: AtomicUsize = AtomicUsize::new(0);
/// Bytes of spans that were never part of a piece.
static UNTOUCHED: AtomicUsize = AtomicUsize::new(0);

/// The memory of all buffers of the process, of all kinds, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferMemory {
    /// Memory of buffers.
    pub live: usize,
    /// Resident memory that no buffer uses: free pieces, and pages kept for reuse.
    pub free: usize,
}

/// The memory of all buffers of the process. Idle pages include those that memtables have freed.
#[must_use]
pub fn buffer_memory() -> BufferMemory {
    // Relaxed: sums that order nothing.
    let live = LIVE.load(Ordering::Relaxed);
    let untouched = UNTOUCHED.load(Ordering::Relaxed);
    let spans = SPANS.load(Ordering::Relaxed);
    let in_spans = LIVE_IN_SPANS.load(Ordering::Relaxed);
    BufferMemory {
        live,
        free: spans.saturating_sub(untouched + in_spans) + pages::page_use().idle,
    }
}

/// Bytes of spans, and of their pieces in use.
static SPANS: AtomicUsize = AtomicUsize::new(0);
static LIVE_IN_SPANS: AtomicUsize = AtomicUsize::new(0);

/// The description of a span.
struct Span {
    /// A bit for each free piece.
    free: [u64; MOST_PIECES / 64],
    /// The number of pieces, of those in use, and of those ever used.
    pieces: u16,
    used: u16,
    touched: u16,
    /// The number of the first page in the area.
    first: u16,
    /// The index in `partial` of the class, if the span has free pieces.
    place: u32,
}

/// The number of descriptions of an area. Their numbers fit in a byte, and all of them in the first page.
const SPANS_PER_AREA: usize = pages::AREA / PAGE / SHORTEST_SPAN;
const _: () = assert!(SPANS_PER_AREA <= 256 && DESCRIPTIONS.is_multiple_of(align_of::<Span>()));
const _: () = assert!(DESCRIPTIONS + SPANS_PER_AREA * size_of::<Span>() <= PAGE);

/// The address of a description.
#[derive(Clone, Copy, PartialEq, Eq)]
struct SpanAt(NonNull<Span>);

// SAFETY: an address; the description is accessed with the lock of its class (S1).
unsafe impl Send for SpanAt {}

impl SpanAt {
    /// The span of `piece`, which is in use.
    fn of(piece: NonNull<u8>) -> SpanAt {
        let area = area_of(piece);
        let page = (piece.addr().get() - area.addr().get()) / PAGE;
        // SAFETY: within the first page of the area; the number of a page of the span is constant (S1).
        let number = unsafe { area.add(NUMBERS + page).read() };
        SpanAt::with_number(area, number)
    }

    fn with_number(area: NonNull<u8>, number: u8) -> SpanAt {
        let offset = DESCRIPTIONS + usize::from(number) * size_of::<Span>();
        // SAFETY: within the first page of the area.
        SpanAt(unsafe { area.add(offset) }.cast())
    }

    /// A new span in the run of `len` pages at `start`.
    fn new(start: NonNull<u8>, len: usize) -> SpanAt {
        let area = area_of(start);
        let first = first_page(start);
        let number = (first / SHORTEST_SPAN) as u8;
        for page in first..first + len {
            // SAFETY: within the first page of the area; no other span has the page.
            unsafe { area.add(NUMBERS + page).write(number) };
        }
        SpanAt::with_number(area, number)
    }
}

/// The number in its area of the page at `start`.
fn first_page(start: NonNull<u8>) -> usize {
    (start.addr().get() - area_of(start).addr().get()) / PAGE
}

/// The spans of a class and a kind that have free pieces.
struct Class {
    partial: Vec<SpanAt>,
}

impl Class {
    const fn new() -> Class {
        Class {
            partial: Vec::new(),
        }
    }

    /// The description of a span of this class.
    fn span(&mut self, at: SpanAt) -> &mut Span {
        // SAFETY: the caller has the lock of the class of the span (S1), and no other reference.
        unsafe { &mut *at.0.as_ptr() }
    }

    /// Takes a piece of `size` bytes. `kind` is that of the class.
    fn take(&mut self, size: usize, kind: MemoryKind) -> NonNull<u8> {
        let first = self.partial.len().saturating_sub(CHOICES);
        let choices = first..self.partial.len();
        let fullest = choices.max_by_key(|&index| self.span(self.partial[index]).used);
        let at = match fullest {
            Some(index) => self.partial[index],
            None => self.new_span(size, kind),
        };
        let span = self.span(at);
        let start = span.start(at);
        let piece = span.take();
        let is_full = span.used == span.pieces;
        if piece >= usize::from(span.touched) {
            span.touched = piece as u16 + 1;
            UNTOUCHED.fetch_sub(size, Ordering::Relaxed);
        }
        if is_full {
            self.remove(at);
        }
        // SAFETY: the piece lies in the span.
        unsafe { start.add(piece * size) }
    }

    /// Frees `piece` of `size` bytes. Returns the start of the span if no other piece of it is in use; the caller frees
    /// its [`span_pages`].
    fn give(&mut self, piece: NonNull<u8>, size: usize) -> Option<NonNull<u8>> {
        let at = SpanAt::of(piece);
        let place = self.partial.len() as u32;
        let span = self.span(at);
        let start = span.start(at);
        let was_full = span.used == span.pieces;
        span.give((piece.addr().get() - start.addr().get()) / size);
        let (is_empty, touched) = (span.used == 0, usize::from(span.touched));
        if was_full {
            span.place = place;
            self.partial.push(at);
        }
        if !is_empty {
            return None;
        }
        self.remove(at);
        let len = span_pages(size) * PAGE;
        SPANS.fetch_sub(len, Ordering::Relaxed);
        UNTOUCHED.fetch_sub(len - touched * size, Ordering::Relaxed);
        Some(start)
    }

    /// Adds an empty span.
    fn new_span(&mut self, size: usize, kind: MemoryKind) -> SpanAt {
        let pages = span_pages(size);
        let len = pages * PAGE;
        let start = pages::take(len, kind);
        let at = SpanAt::new(start, pages);
        let mut free = [0; MOST_PIECES / 64];
        for piece in 0..len / size {
            free[piece / 64] |= 1 << (piece % 64);
        }
        let span = Span {
            free,
            pieces: (len / size) as u16,
            used: 0,
            touched: 0,
            first: first_page(start) as u16,
            place: self.partial.len() as u32,
        };
        // SAFETY: the span is new: the description is this class's from now on (S1).
        unsafe { at.0.write(span) };
        self.partial.push(at);
        SPANS.fetch_add(len, Ordering::Relaxed);
        UNTOUCHED.fetch_add(len, Ordering::Relaxed);
        at
    }

    /// Removes a span from those with free pieces.
    fn remove(&mut self, at: SpanAt) {
        let place = self.span(at).place;
        debug_assert!(
            self.partial[place as usize] == at,
            "the span is at its recorded place"
        );
        self.partial.swap_remove(place as usize);
        if let Some(&moved) = self.partial.get(place as usize) {
            self.span(moved).place = place;
        }
    }
}

impl Span {
    /// The first piece. `at` is the address of the description.
    fn start(&self, at: SpanAt) -> NonNull<u8> {
        // SAFETY: within the area.
        unsafe { area_of(at.0.cast()).add(usize::from(self.first) * PAGE) }
    }

    /// Takes the first free piece.
    fn take(&mut self) -> usize {
        let word = self.free.iter().position(|&word| word != 0);
        let word = word.expect("the span has free pieces");
        let bit = self.free[word].trailing_zeros() as usize;
        self.free[word] &= self.free[word] - 1;
        self.used += 1;
        word * 64 + bit
    }

    fn give(&mut self, piece: usize) {
        debug_assert!(self.free[piece / 64] >> (piece % 64) & 1 == 0, "S2");
        self.free[piece / 64] |= 1 << (piece % 64);
        self.used -= 1;
    }
}

/// The number of pages of spans with pieces of `size` bytes: the least that leave at most 1/256 of the span behind the
/// last piece, otherwise those that leave the least part of it.
fn span_pages(size: usize) -> usize {
    let unused = |pages: usize| pages * PAGE % size;
    let mut best = SHORTEST_SPAN;
    for pages in SHORTEST_SPAN..=LONGEST_SPAN {
        if pages * PAGE / size > MOST_PIECES || unused(best) * 256 <= best * PAGE {
            break;
        }
        if unused(pages) * best < unused(best) * pages {
            best = pages;
        }
    }
    best
}

/// The class for `len` bytes, and the size of its pieces.
fn class_of(len: usize) -> Option<(usize, usize)> {
    if len <= LARGEST_SHORT {
        let size = len.next_multiple_of(SHORT_STEP).max(SMALLEST);
        return Some(((size - SMALLEST) / SHORT_STEP, size));
    }
    if len > LARGEST {
        return None;
    }
    let power = (len - 1).ilog2();
    let step = (1 << power) / STEPS;
    let size = len.next_multiple_of(step);
    let above = STEPS * (power - LARGEST_SHORT.ilog2()) as usize;
    let steps = (size - (1 << power)) / step;
    Some((SHORT + above + steps - 1, size))
}

/// The size of the memory for `len` bytes.
pub(super) fn rounded(len: usize) -> usize {
    match class_of(len) {
        _ if len == 0 => 0,
        Some((_, size)) => size,
        None => len.next_multiple_of(PAGE),
    }
}

/// The size and the kind of memory in 32 bits: units of [`SHORT_STEP`] bytes, and the kind in the lowest bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent(u32);

impl Extent {
    /// The extent of `size` bytes, a result of [`rounded`].
    fn new(size: usize, kind: MemoryKind) -> Extent {
        debug_assert!(size.is_multiple_of(SHORT_STEP), "sizes are whole units");
        let units = u32::try_from(size / SHORT_STEP * 2).expect("a buffer is less than 4 GiB");
        Extent(units | kind.index() as u32)
    }

    pub(super) fn from_bits(bits: u32) -> Extent {
        Extent(bits)
    }

    pub(super) fn bits(self) -> u32 {
        self.0
    }

    #[inline]
    pub(super) fn size(self) -> usize {
        (self.0 / 2) as usize * SHORT_STEP
    }

    #[inline]
    pub(super) fn kind(self) -> MemoryKind {
        MemoryKind::ALL[(self.0 & 1) as usize]
    }
}

// One bit holds every kind.
const _: () = assert!(MemoryKind::ALL.len() == 2);

/// Owned memory for a buffer. It has arbitrary content: zeros, or that of an earlier buffer.
pub(crate) struct Memory {
    start: NonNull<u8>,
    /// A result of [`rounded`].
    len: usize,
    kind: MemoryKind,
}

// SAFETY: the value owns the memory.
unsafe impl Send for Memory {}
// SAFETY: a shared reference only reads.
unsafe impl Sync for Memory {}

impl Memory {
    /// Memory of `kind` of at least `len` bytes. Aborts like a failed allocation if there is none.
    pub(crate) fn new(len: usize, kind: MemoryKind) -> Memory {
        let size = rounded(len);
        LIVE.fetch_add(size, Ordering::Relaxed);
        let start = match class_of(len) {
            _ if len == 0 => NonNull::dangling(),
            Some((class, size)) => {
                LIVE_IN_SPANS.fetch_add(size, Ordering::Relaxed);
                class_with(kind, class).lock().take(size, kind)
            }
            None => pages::take(size, kind),
        };
        let len = size;
        Memory { start, len, kind }
    }

    /// True if new memory of `kind` for `len` bytes would be like this.
    pub(super) fn fits(&self, len: usize, kind: MemoryKind) -> bool {
        self.kind == kind && self.len == rounded(len)
    }

    fn extent(&self) -> Extent {
        Extent::new(self.len, self.kind)
    }

    /// The start and the extent of the memory, which [`Memory::from_raw`] takes back.
    pub(super) fn into_raw(self) -> (NonNull<u8>, Extent) {
        let extent = self.extent();
        (std::mem::ManuallyDrop::new(self).start, extent)
    }

    /// The memory that [`Memory::into_raw`] returned.
    ///
    /// # Safety
    ///
    /// Both are from one call, and are passed once.
    pub(super) unsafe fn from_raw(start: NonNull<u8>, extent: Extent) -> Memory {
        Memory {
            start,
            len: extent.size(),
            kind: extent.kind(),
        }
    }
}

impl Default for Memory {
    /// Memory of no bytes.
    fn default() -> Memory {
        Memory {
            start: NonNull::dangling(),
            len: 0,
            kind: MemoryKind::default(),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        LIVE.fetch_sub(self.len, Ordering::Relaxed);
        let (start, len) = match class_of(self.len) {
            _ if self.len == 0 => return,
            Some((class, size)) => {
                LIVE_IN_SPANS.fetch_sub(size, Ordering::Relaxed);
                let span = class_with(self.kind, class).lock().give(self.start, size);
                match span {
                    Some(span) => (span, span_pages(size) * PAGE),
                    None => return,
                }
            }
            None => (self.start, self.len),
        };
        // SAFETY: the value owned the run, or it is a span that no class has any more.
        unsafe { pages::give(start, len, self.kind) };
    }
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the memory is initialized, as pages are zero at first, and belongs to this value (S2).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the reference is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_at_most_a_thirty_second_longer() {
        let mut before = None;
        for len in 1..=LARGEST {
            let (class, size) = class_of(len).unwrap();
            assert!(class < CLASSES && size >= len, "{len}: {class}, {size}");
            assert_eq!(class_of(size), Some((class, size)));
            assert!(size - len < SHORT_STEP.max(len / STEPS + 1) || len < SMALLEST);
            if let Some((previous, of_previous)) = before {
                assert!(class == previous || class == previous + 1, "{len}");
                assert_eq!(class == previous, size == of_previous, "{len}");
            }
            before = Some((class, size));
        }
        assert_eq!(before.unwrap().0, CLASSES - 1);
        assert!(class_of(LARGEST + 1).is_none());
        assert_eq!((rounded(0), rounded(LARGEST + 1)), (0, LARGEST + PAGE));
    }

    #[test]
    fn spans_have_little_behind_their_last_piece() {
        let sizes = (1..=LARGEST).filter_map(class_of).map(|(_, size)| size);
        let sizes: std::collections::BTreeSet<usize> = sizes.collect();
        for size in sizes {
            let len = span_pages(size) * PAGE;
            assert!((64 << 10..=128 << 10).contains(&len) && len / size <= MOST_PIECES);
            assert!(len % size * 40 <= len, "{size}: {len}");
        }
    }

    const ORDINARY: MemoryKind = MemoryKind::ALL[0];
    const UNDUMPED: MemoryKind = MemoryKind::ALL[1];

    /// The pieces of a class of a test, separate from those of the process.
    fn filled(class: &mut Class, size: usize, count: usize) -> Vec<NonNull<u8>> {
        let mut pieces = Vec::new();
        for n in 0..count {
            let piece = class.take(size, ORDINARY);
            // SAFETY: the piece is this test's.
            unsafe { piece.as_ptr().write_bytes(n as u8, size) };
            pieces.push(piece);
        }
        pieces
    }

    fn give(class: &mut Class, piece: NonNull<u8>, size: usize) -> bool {
        let span = class.give(piece, size);
        if let Some(span) = span {
            // SAFETY: the span is no longer part of the class.
            unsafe { pages::give(span, span_pages(size) * PAGE, ORDINARY) };
        }
        span.is_some()
    }

    #[test]
    fn pieces_are_disjoint_and_keep_their_content() {
        for size in [128, 1024, 4352, 9216, 32 << 10] {
            let mut class = Class::new();
            let count = if cfg!(miri) { 20 } else { 1000 };
            let pieces = filled(&mut class, size, count);
            for (n, piece) in pieces.iter().enumerate() {
                // SAFETY: as above.
                let bytes = unsafe { std::slice::from_raw_parts(piece.as_ptr(), size) };
                // Writing every byte takes minutes under Miri.
                let step = if cfg!(miri) { 1000 } else { 1 };
                assert!(bytes.iter().step_by(step).all(|&byte| byte == n as u8));
            }
            let given = pieces.into_iter().filter(|&it| give(&mut class, it, size));
            assert_eq!(
                given.count(),
                count.div_ceil(span_pages(size) * PAGE / size)
            );
            assert!(class.partial.is_empty());
        }
    }

    #[test]
    fn free_pieces_of_full_spans_are_taken_first() {
        let (mut class, size) = (Class::new(), 8 << 10);
        let pieces = filled(&mut class, size, 16);
        assert!(class.partial.is_empty());
        assert!(!give(&mut class, pieces[1], size));
        for piece in &pieces[8..15] {
            assert!(!give(&mut class, *piece, size));
        }
        assert_eq!(class.partial.len(), 2);
        assert_eq!(class.take(size, ORDINARY), pieces[1]);
        assert!(give(&mut class, pieces[15], size));
        for (n, piece) in pieces[..8].iter().enumerate() {
            assert_eq!(give(&mut class, *piece, size), n == 7);
        }
    }

    #[test]
    fn extents_have_size_and_kind() {
        for kind in MemoryKind::ALL {
            for len in [0, 1, LARGEST, LARGEST + 1, u32::MAX as usize] {
                let extent = Extent::new(rounded(len), kind);
                assert_eq!((extent.size(), extent.kind()), (rounded(len), kind));
                assert_eq!(Extent::from_bits(extent.bits()), extent);
            }
        }
    }

    #[test]
    fn kinds_do_not_mix() {
        let areas = |memory: &[Memory]| -> std::collections::HashSet<usize> {
            let pieces = memory.iter().filter(|it| it.len() <= pages::AREA / 2);
            pieces.map(|it| area_of(it.start).addr().get()).collect()
        };
        let lens = [100, 700, 4000, 30_000, 100_000, 3 << 20];
        let rounds = if cfg!(miri) { 1 } else { 40 };
        let memory = |kind| -> Vec<Memory> {
            let lens = lens.iter().cycle().take(lens.len() * rounds);
            lens.map(|&len| Memory::new(len, kind)).collect()
        };
        let (ordinary, undumped) = (memory(ORDINARY), memory(UNDUMPED));
        assert!(areas(&ordinary).is_disjoint(&areas(&undumped)));
    }

    #[test]
    fn memory_returns_to_its_kind() {
        // A class that other tests do not use.
        let (class, size) = class_of(LARGEST - 4000).unwrap();
        let has = |kind, at| class_with(kind, class).lock().partial.contains(&at);
        for (kind, other) in [(ORDINARY, UNDUMPED), (UNDUMPED, ORDINARY)] {
            let of_a_span = span_pages(size) * PAGE / size;
            let mut memory: Vec<_> = (0..of_a_span).map(|_| Memory::new(size, kind)).collect();
            let at = SpanAt::of(memory[0].start);
            assert!(memory.iter().all(|it| SpanAt::of(it.start) == at) && !has(kind, at));
            memory.pop();
            assert!(has(kind, at) && !has(other, at));
            memory.clear();
            assert!(!has(kind, at));
        }
    }

    #[test]
    fn memory_is_counted() {
        let memory: Vec<Memory> = [0, 1, 5000, LARGEST, LARGEST + 1, 3 << 20]
            .map(|len| Memory::new(len, ORDINARY))
            .into();
        let bytes: usize = memory.iter().map(|memory| memory.len()).sum();
        assert!(buffer_memory().live >= bytes);
        assert_eq!(memory[3].len(), LARGEST);
        assert!(memory[5][(3 << 20) - 1] == 0);
    }

    #[test]
    fn threads_take_and_give_pieces() {
        let rounds = if cfg!(miri) { 20 } else { 20_000 };
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                scope.spawn(move || {
                    let mut held: Vec<Memory> = Vec::new();
                    for n in 0..rounds {
                        let len = 3000 + n * 97 % 3000;
                        let kind = MemoryKind::ALL[n % 2];
                        let mut memory = Memory::new(len, kind);
                        memory[0] = thread;
                        memory[len - 1] = thread;
                        if held.len() == 30 {
                            let old = held.swap_remove(n * 7 % 30);
                            assert_eq!(old[0], thread);
                        }
                        held.push(memory);
                    }
                });
            }
        });
    }
}
