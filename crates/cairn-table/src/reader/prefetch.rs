//! Readahead of an iterator.
//!
//! After `num_file_reads_for_auto_readahead` sequential reads, requests cover
//! `initial_auto_readahead_size` bytes, doubling each time up to `max_auto_readahead_size`. A
//! non-sequential read resets it. A fixed readahead applies to all reads, including the first.
//!
//! Long ranges are read in pieces of [`PIECE`] bytes while the kernel prefetches the rest, so that
//! a compaction of twenty tables buffers 5 MB instead of 40 MB, and less if a small cache is charged
//! for it. If the file does not support prefetching (direct reads), the range is read at once.

use std::ops::Range;
use std::sync::Arc;

use cairn_format::table::{Handle, TRAILER_LEN};
use cairn_memory::{CacheCharge, ChargePolicy, MemoryUse};
use cairn_observe::statistics::Histogram;
use cairn_options::TableOptions;
use cairn_platform::{Buffer, RandomAccessFile, ReadRequest};
use cairn_types::Result;

use super::ahead::{Ahead, ReadAhead};
use super::planned_reads::PlannedReads;
use super::table::{MissingBlock, SuppliedBlock, Table};

/// The maximum number of bytes that one read takes ahead, where the kernel does not prefetch: options may ask for any.
const LONGEST_READ: u64 = 64 << 20;

/// Piece size while the kernel prefetches the rest: large enough to amortize the call, small enough
/// for the CPU cache.
const PIECE: u64 = 256 << 10;

/// The smallest piece size.
const SMALLEST_PIECE: u64 = 32 << 10;

/// The least number of pieces in the capacity of the cache that they are charged to.
const PIECES_OF_CACHE: u64 = 128;

/// The piece size for iterators with `charge`.
pub(crate) fn piece_size(charge: &ChargePolicy) -> u64 {
    let cache = charge.cache_of(MemoryUse::Prefetch);
    let share = cache.map_or(u64::MAX, |cache| cache.capacity() as u64 / PIECES_OF_CACHE);
    share.clamp(SMALLEST_PIECE, PIECE)
}

/// The readahead state of an iterator.
#[derive(Default)]
pub(crate) struct Prefetch {
    /// Fixed readahead in bytes; 0 for automatic readahead.
    fixed: u64,
    /// The bounds of the scan.
    plan: Option<Arc<ReadAhead>>,
    reads: u64,
    next_offset: u64,
    size: u64,
    /// Reads that were planned, which come before all others.
    pub(crate) planned: Option<Box<Planned>>,
    /// Readahead in the background, which replaces the rest.
    pub(crate) background: Option<Box<Ahead>>,
    /// `None` until something is read ahead.
    held: Option<Box<Held>>,
}

/// The planned reads of a table.
pub(crate) struct Planned {
    reads: Arc<PlannedReads>,
    /// The position of the table in the plan.
    place: usize,
}

impl Planned {
    /// The reads of `table` that `plan` contains.
    fn of(plan: &ReadAhead, table: &Arc<Table>) -> Option<Box<Planned>> {
        let reads = plan.planned.as_ref()?;
        let place = reads.place_of(table)?;
        Some(Box::new(Planned {
            reads: reads.clone(),
            place,
        }))
    }

    /// See [`PlannedReads::find`].
    pub(crate) fn find(&self, handle: Handle) -> Option<(Buffer, Range<usize>)> {
        self.reads.find(self.place, handle)
    }

    /// See [`PlannedReads::request`].
    pub(crate) fn request(&self, handle: Handle) -> Option<ReadRequest> {
        self.reads.request(self.place, handle)
    }

    /// See [`PlannedReads::supply`].
    pub(crate) fn supply(&self, handle: Handle, bytes: &Result<Buffer>) -> bool {
        self.reads.supply(self.place, handle, bytes)
    }

    /// See [`PlannedReads::known_index`].
    pub(crate) fn known_index(&self, lack: MissingBlock) -> Option<SuppliedBlock> {
        self.reads.known_index(self.place, lack)
    }
}

impl Drop for Planned {
    fn drop(&mut self) {
        self.reads.leave(self.place);
    }
}

/// The size of automatic readahead.
#[derive(Clone, Copy, Debug)]
pub struct ReadaheadSize {
    /// The number of sequential reads.
    reads: u64,
    /// In bytes.
    size: u64,
}

/// Bytes that have been read ahead. Allocated separately, so that iterators without readahead stay small.
#[derive(Default)]
struct Held {
    /// The range last passed to the kernel for prefetching.
    requested: Range<u64>,
    /// Bytes read ahead, with the offset of the first.
    ahead: Option<(u64, Buffer)>,
    /// The charge of those bytes.
    charge: Option<CacheCharge>,
    /// The bytes of `ahead` that were used.
    used: u64,
    /// The bytes of earlier readahead that were not used.
    discarded: u64,
}

impl Held {
    /// Adds the unused bytes of the buffer to those discarded.
    fn discard(&mut self) {
        let bytes = self
            .ahead
            .as_ref()
            .map_or(0, |(_, bytes)| bytes.len() as u64);
        self.discarded += bytes.saturating_sub(self.used);
        self.used = 0;
    }
}

impl Prefetch {
    pub(crate) fn new(fixed: u64) -> Prefetch {
        Prefetch {
            fixed,
            ..Prefetch::default()
        }
    }

    /// Sets the fixed readahead, in bytes; 0 for automatic readahead.
    #[inline]
    pub(crate) fn set_fixed(&mut self, fixed: u64) {
        self.fixed = fixed;
    }

    /// Resets to a state without readahead.
    #[inline]
    pub(crate) fn reset(&mut self) {
        *self = Prefetch::default();
    }

    /// Lets readahead stop at the upper bound of `plan`.
    pub(crate) fn set_plan(&mut self, plan: Arc<ReadAhead>) {
        self.plan = Some(plan);
    }

    /// [`Prefetch::use_planned`], if `plan` has other planned reads than before.
    pub(crate) fn renew_planned(&mut self, plan: &ReadAhead, table: &Arc<Table>) {
        let is_same = match (&self.planned, &plan.planned) {
            (Some(ours), Some(planned)) => Arc::ptr_eq(&ours.reads, planned),
            (None, None) => true,
            _ => false,
        };
        if !is_same {
            self.use_planned(plan, table);
        }
    }

    /// Uses the reads of `table` that `plan` contains.
    pub(crate) fn use_planned(&mut self, plan: &ReadAhead, table: &Arc<Table>) {
        self.planned = Planned::of(plan, table);
    }

    /// The bounds of the scan, if entries beyond them may be omitted.
    #[inline]
    pub(crate) fn ends(&self) -> Option<&ReadAhead> {
        let plan = match &self.background {
            Some(ahead) => Some(ahead.plan()),
            None => self.plan.as_deref(),
        };
        plan.filter(|plan| plan.ends_at_bounds)
    }

    /// The upper bound at which readahead stops.
    pub(crate) fn upper(&self) -> Option<&[u8]> {
        let plan = self.plan.as_ref().filter(|plan| plan.trims)?;
        plan.upper.as_deref()
    }

    /// Returns the number of bytes to read after the block at `handle`, which must be read.
    pub(crate) fn more(&mut self, handle: Handle, options: &TableOptions) -> u64 {
        let len = handle.size + TRAILER_LEN as u64;
        if handle.offset != self.next_offset {
            self.reads = 0;
            self.size = 0;
        }
        self.reads += 1;
        let wanted = if self.fixed > 0 {
            self.fixed
        } else if self.reads > options.num_file_reads_for_auto_readahead {
            let doubled = match self.size {
                0 => options.initial_auto_readahead_size,
                size => size.saturating_mul(2),
            };
            self.size = doubled.min(options.max_auto_readahead_size);
            self.size
        } else {
            0
        };
        self.next_offset = handle.end();
        wanted.saturating_sub(len)
    }

    /// Returns the number of bytes, of the `more` bytes after the block at `handle`, to read now, with the block at
    /// most `piece`.
    /// Has the kernel prefetch the others, and again whenever half of them have been read.
    pub(crate) fn piece(
        &mut self,
        handle: Handle,
        more: u64,
        piece: u64,
        file: &dyn RandomAccessFile,
    ) -> u64 {
        let len = handle.size + TRAILER_LEN as u64;
        let piece = piece.saturating_sub(len);
        if more <= piece {
            return more;
        }
        let end = handle.end().saturating_add(more);
        let requested = &mut self.held.get_or_insert_default().requested;
        let goes_on = (requested.start..=requested.end).contains(&handle.offset);
        if !goes_on || requested.end < end - more / 2 {
            let start = if goes_on {
                requested.end
            } else {
                handle.offset
            };
            if !file.prefetch(start, (end - start) as usize) {
                return more.min(LONGEST_READ);
            }
            *requested = handle.offset..end;
        }
        piece
    }

    /// Stores the bytes of a read that starts with the block at `handle`, and takes over the charge of the read.
    /// Returns true if it contains more.
    pub(crate) fn keep(
        &mut self,
        handle: Handle,
        bytes: &Buffer,
        reading: &mut Option<CacheCharge>,
    ) -> bool {
        let len = (handle.size as usize).saturating_add(TRAILER_LEN);
        let has_more = bytes.len() > len;
        if has_more {
            let held = self.held.get_or_insert_default();
            held.discard();
            held.used = len as u64;
            held.ahead = Some((handle.offset, bytes.clone()));
            held.charge = reading.take();
            if let Some(charge) = &mut held.charge {
                charge.reuse(MemoryUse::Prefetch);
            }
        }
        has_more
    }

    /// Returns the size of automatic readahead.
    pub(crate) fn size(&self) -> ReadaheadSize {
        ReadaheadSize {
            reads: self.reads,
            size: self.size,
        }
    }

    /// Continues with the size that readahead had in the preceding table.
    pub(crate) fn continue_with(&mut self, before: ReadaheadSize) {
        self.reads = before.reads;
        self.size = before.size;
    }

    /// Counts the bytes that were read ahead in vain.
    #[inline]
    pub(crate) fn count_end(&mut self, table: &Table) {
        if let Some(held) = &mut self.held {
            held.discard();
            let discarded = held.discarded;
            let record = Histogram::PrefetchedBytesDiscarded;
            let meter = &table.params.meter;
            meter.update(|update| update.record(record, discarded));
        }
    }

    /// Returns the readahead buffer for reuse, if it has `len` bytes.
    pub(crate) fn take_spent(&mut self, len: usize) -> Option<Buffer> {
        let held = self.held.as_mut()?;
        held.ahead
            .as_ref()
            .filter(|(_, bytes)| bytes.len() == len)?;
        held.discard();
        held.charge = None;
        held.ahead.take().map(|(_, bytes)| bytes)
    }

    /// Returns the block at `handle` with its trailer, if it was read ahead.
    pub(crate) fn take(&mut self, handle: Handle) -> Option<&[u8]> {
        let held = self.held.as_mut()?;
        let (at, bytes) = held.ahead.as_ref()?;
        let start = usize::try_from(handle.offset.checked_sub(*at)?).ok()?;
        let len = (handle.size as usize).checked_add(TRAILER_LEN)?;
        let found = bytes.get(start..start.checked_add(len)?)?;
        self.next_offset = handle.end();
        held.used += len as u64;
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cairn_platform::sync::Mutex;

    use super::*;

    #[test]
    fn readahead_starts_with_the_third_read_in_sequence_and_doubles() {
        let options = TableOptions::default();
        let mut prefetch = Prefetch::new(0);
        let block = |at: u64| Handle {
            offset: at * 1000,
            size: 995,
        };
        let more: Vec<u64> = (0..9)
            .map(|at| prefetch.more(block(at), &options))
            .collect();
        let sizes = [8u64, 16, 32, 64, 128, 256, 256].map(|kib| kib * 1024 - 1000);
        assert_eq!(more[..2], [0, 0]);
        assert_eq!(more[2..], sizes);
        assert_eq!(prefetch.more(block(100), &options), 0);
    }

    /// A file that only counts prefetches.
    struct PrefetchRecorder {
        takes: bool,
        requested: Mutex<Vec<(u64, usize)>>,
    }

    impl RandomAccessFile for PrefetchRecorder {
        fn read_at(&self, _: u64, _: &mut [u8]) -> Result<usize> {
            Ok(0)
        }
        cairn_platform::derived_reads!();
        fn advise(&self, _: cairn_platform::fs::Access) {}
        fn drop_cached(&self) {}
        fn len(&self) -> Result<u64> {
            Ok(0)
        }
        fn path(&self) -> &Path {
            Path::new("requested")
        }
        fn prefetch(&self, offset: u64, len: usize) -> bool {
            self.requested.lock().push((offset, len));
            self.takes
        }
    }

    #[test]
    fn long_readahead_is_prefetched_by_halves_and_read_in_pieces() {
        const AHEAD: u64 = 2 << 20;
        const END: u64 = 10 * AHEAD + 10_000;
        let block = |offset| Handle { offset, size: 4000 };
        let read = |file: &PrefetchRecorder, prefetch: &mut Prefetch, at: u64| {
            let wanted = prefetch.more(block(at), &TableOptions::default());
            let more = wanted.min(END.saturating_sub(block(at).end()));
            4005 + prefetch.piece(block(at), more, PIECE, file)
        };
        let mut file = PrefetchRecorder {
            takes: true,
            requested: Mutex::default(),
        };
        let mut prefetch = Prefetch::new(AHEAD);
        let (mut at, mut reads) = (0, 0);
        while at < END {
            let len = read(&file, &mut prefetch, at);
            assert!(len <= PIECE);
            let requested = file.requested.lock();
            let ready = requested
                .last()
                .map_or(0, |&(start, len)| start + len as u64);
            assert!(
                ready >= (at + AHEAD / 2).min(END - PIECE),
                "{at} of {ready}"
            );
            (at, reads) = (at + len, reads + 1);
        }
        assert_eq!((at, reads), (END, END.div_ceil(PIECE)));
        // Consecutive requests of about half the readahead.
        let requested = std::mem::take(&mut *file.requested.lock());
        assert_eq!(requested[0], (0, AHEAD as usize));
        assert!(
            requested
                .windows(2)
                .all(|two| two[0].0 + two[0].1 as u64 == two[1].0)
        );
        assert!(requested.len() <= 21, "{requested:?}");
        // A non-sequential read starts over.
        assert_eq!(read(&file, &mut prefetch, 3 * AHEAD), PIECE);
        assert_eq!(*file.requested.lock(), [(3 * AHEAD, AHEAD as usize)]);
        // Without prefetching, the range is read at once.
        file.takes = false;
        assert_eq!(read(&file, &mut Prefetch::new(AHEAD), 0), AHEAD);
        // Short readahead is not prefetched.
        let mut short = Prefetch::new(PIECE);
        assert_eq!(read(&file, &mut short, 0), PIECE);
        assert_eq!(file.requested.lock().len(), 2);
    }

    #[test]
    fn blocks_are_sliced_from_the_readahead_buffer() {
        let mut prefetch = Prefetch::new(100);
        let first = Handle {
            offset: 50,
            size: 5,
        };
        prefetch.keep(
            first,
            &Buffer::from((0..40u8).collect::<Vec<_>>()),
            &mut None,
        );
        let second = Handle {
            offset: 60,
            size: 5,
        };
        assert_eq!(
            prefetch.take(second),
            Some(&[10, 11, 12, 13, 14, 15, 16, 17, 18, 19][..])
        );
        let beyond = Handle {
            offset: 80,
            size: 6,
        };
        assert_eq!(prefetch.take(beyond), None);
    }

    #[test]
    fn the_buffer_is_reused_only_for_a_read_of_the_same_length() {
        let mut prefetch = Prefetch::new(100);
        let first = Handle { offset: 0, size: 5 };
        prefetch.keep(first, &Buffer::from(vec![0; 100]), &mut None);
        assert!(prefetch.take_spent(99).is_none());
        assert!(prefetch.take(first).is_some());
        assert_eq!(prefetch.take_spent(100).map(|bytes| bytes.len()), Some(100));
        assert!(prefetch.take(first).is_none());
    }
}
