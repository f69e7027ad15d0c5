//! Readahead in the background: the next blocks of a scan are read while it processes the current one.
//!
//! A *scout* walks the index in front of the scan and groups blocks into *chunks*, each of which is one read.
//! Chunks therefore begin and end with blocks, in both directions; blocks in the cache and blocks beyond the
//! bounds of the scan are left out. An index partition that the scout lacks is read in the background, too.
//!
//! The scan holds the chunk of its current block and a number of further ones, the *depth*, which are read or
//! being read:
//!
//! ```text
//!   direction of the scan ─►
//!   [ current chunk | read | being read | being read ]      scout
//!         ▲ block                                             ▲
//! ```
//!
//! Chunks begin with `initial_auto_readahead_size` after `num_file_reads_for_auto_readahead` sequential reads,
//! and double up to `max_auto_readahead_size`. The depth begins with one, and follows from the latency of the
//! reads and the pace of the scan: whenever the scan has to wait for a chunk that was started with the present
//! depth, it doubles. No clock is needed, and a scan that does not wait holds two chunks. The further chunks are
//! not larger than twice what the scan has visited, so that a short scan does not read much in vain. With a
//! fixed readahead, all chunks together have its size.
//!
//! Reads that end when they are started, because the page cache has the bytes, gain nothing from the background. After
//! some of them a forward scan is *direct*: it has no scout and holds one chunk, the bytes after the block that it needs,
//! until some reads do not end at once. One alone proves little: the kernel may return a part of bytes that it has.
//!
//! A read that fails is forgotten, and the block that the scan needs is read alone: readahead never reports an
//! error. All memory is freed with the iterator, that of a read under way when it ends.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use cairn_format::key;
use cairn_format::table::{Handle, TRAILER_LEN};
use cairn_memory::secondary::DeviceRead;
use cairn_memory::{CacheCharge, CacheRole, MemoryUse};
use cairn_observe::statistics::{Histogram, Ticker};
use cairn_platform::io::StartedRead;
use cairn_platform::{Buffer, Io, ReadDriver, ReadRequest};
use cairn_types::Result;

use super::block_fetcher::Raw;
use super::index::{IndexIter, Landing};
use super::iter::IterOptions;
use super::planned_reads::PlannedReads;
use super::prefetch::piece_size;
use super::table::{MissingBlock, SuppliedBlock, SuppliedBlocks, Table};

/// The largest depth.
const MAX_DEPTH: usize = 32;
/// The same if the memory is charged to the block cache.
const MAX_CHARGED_DEPTH: usize = 8;
/// The largest run of cached blocks that a chunk reads again rather than ending before it.
const MAX_GAP: u64 = 16 << 10;
/// The largest block that is read ahead.
const MAX_BLOCK: u64 = 8 << 20;
/// The number of blocks that the scout passes in a step of the scan.
const MAX_SCOUTED: usize = 1024;
/// The score of reads that end at once from which on the scan is direct. Such a read adds one, up to twice the score,
/// and another one takes away [`LATE`].
const PROMPT: u32 = 4;
/// See [`PROMPT`].
const LATE: u32 = 3;
/// The number of index blocks known to the scout that are kept for the scan.
const MAX_KNOWN: usize = 2;

/// The files that are read ahead in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// All.
    All,
    /// Those whose bytes the kernel does not prefetch, such as files read around the page cache.
    Unprefetched,
    /// None: readahead is part of a read that the scan waits for.
    None,
}

/// The readahead of a scan, shared by the iterators over its tables.
#[derive(Clone, Debug)]
pub struct ReadAhead {
    /// The executor of the reads.
    pub io: Io,
    /// The files that are read ahead in the background. None by an executor that blocks.
    pub background: Background,
    /// Lower bound of the scan: a user key without timestamp.
    pub lower: Option<Vec<u8>>,
    /// Upper bound of the scan.
    pub upper: Option<Vec<u8>>,
    /// True if readahead stops at the bounds, and leaves out what the cache holds.
    pub trims: bool,
    /// True if readahead that is not in the background keeps its size from table to table.
    pub keeps_size: bool,
    /// True if entries beyond the bounds may be omitted where they begin with a block, which is then not read.
    pub ends_at_bounds: bool,
    /// The reads that were planned before the scan.
    pub planned: Option<Arc<PlannedReads>>,
}

impl ReadAhead {
    /// True if `table` is read ahead in the background.
    pub(crate) fn is_in_background(&self, table: &Table) -> bool {
        self.io.driver() != ReadDriver::Blocking
            && table.image.is_none()
            && match self.background {
                Background::All => true,
                Background::Unprefetched => !table.file.prefetch(0, TRAILER_LEN),
                Background::None => false,
            }
    }
}

/// Bytes read ahead, and their place in the file.
struct Chunk {
    range: Range<u64>,
    content: Content,
    _charge: Option<CacheCharge>,
    /// The number of changes of the depth before it was started.
    epoch: u32,
    /// The number of bytes of its blocks that the scan has used.
    used: u64,
}

/// An index block that is being read for the scout.
pub(super) struct AwaitedIndex {
    block: MissingBlock,
    pub(super) request: ReadRequest,
    pub(super) charge: Option<CacheCharge>,
    /// The read of the block from the device of a tier, to which the request belongs.
    pub(super) on_device: Option<Box<DeviceRead>>,
}

enum Content {
    Started(Arc<StartedRead>),
    Read(Buffer),
}

/// The progress of the scout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scouting {
    /// The scan is not sequential yet.
    Idle,
    Going,
    /// At the end of the table.
    AtEnd,
    /// At a bound, or at damage that the scan will report.
    Stopped,
}

/// The readahead state of an iterator.
pub(crate) struct Ahead {
    plan: Arc<ReadAhead>,
    options: IterOptions,
    back: bool,
    /// The block that the scan visited last.
    last: Handle,
    /// True if the scan continues that of another table, and has not visited a block.
    continues: bool,
    /// The number of sequential reads.
    reads: u64,
    /// The size in bytes of the blocks that the scan has visited.
    visited: u64,
    /// The chunks that are read or being read, in the order of the scan.
    chunks: VecDeque<Chunk>,
    scout: IndexIter,
    scouting: Scouting,
    /// The index block that the scout waits for.
    awaited: Option<AwaitedIndex>,
    /// Index blocks for the scout.
    supplied: SuppliedBlocks,
    /// Index blocks that the scout has read, for the scan.
    known: VecDeque<SuppliedBlock>,
    /// The size of the next chunk.
    size: u64,
    depth: usize,
    epoch: u32,
    /// The score of reads that ended when they were started.
    prompt: u32,
    /// The bytes that were read and not used; `None` before the first read.
    discarded: Option<u64>,
    /// The buffer of the chunk that was dropped last, for the next read of the same step.
    spent: Option<Buffer>,
}

impl Ahead {
    pub(crate) fn new(plan: &Arc<ReadAhead>, table: &Table, options: &IterOptions) -> Ahead {
        let fixed = options.readahead;
        let mut ahead = Ahead {
            plan: plan.clone(),
            options: *options,
            back: false,
            last: Handle::NULL,
            continues: false,
            reads: 0,
            visited: 0,
            chunks: VecDeque::new(),
            scout: IndexIter::default(),
            scouting: Scouting::Idle,
            awaited: None,
            supplied: SuppliedBlocks::of_reader(options.caller, options.fill_cache),
            known: VecDeque::new(),
            size: 0,
            depth: 1,
            epoch: 0,
            prompt: 0,
            discarded: None,
            spent: None,
        };
        if fixed > 0 {
            ahead.size = (fixed / 2).clamp(1, piece_size(&table.params.charge));
            let chunks = fixed / ahead.size;
            ahead.depth = usize::try_from(chunks)
                .unwrap_or(MAX_DEPTH)
                .saturating_sub(1)
                .clamp(1, max_depth(table));
        }
        ahead
    }

    /// Forgets the chunks and the sequence of the scan.
    #[cold]
    fn reset(&mut self) {
        self.forget_chunks();
        self.reads = 0;
        self.visited = 0;
        if self.options.readahead == 0 {
            self.size = 0;
            self.depth = 1;
        }
    }

    fn forget_chunks(&mut self) {
        while self.pop() {}
        self.scouting = Scouting::Idle;
        self.awaited = None;
    }

    /// Drops the first chunk. Returns false if there is none.
    fn pop(&mut self) -> bool {
        let Some(chunk) = self.chunks.pop_front() else {
            return false;
        };
        *self.discarded.get_or_insert(0) += len_of(&chunk.range).saturating_sub(chunk.used);
        if let Content::Read(bytes) = chunk.content {
            self.spent = Some(bytes);
        }
        true
    }

    /// True if the block at `handle` follows the last one in the direction of the scan.
    fn is_next(&self, handle: Handle, back: bool) -> bool {
        match (self.continues, back) {
            (true, _) => self.back == back,
            (false, true) => self.back && handle.end() == self.last.offset,
            (false, false) => !self.back && handle.offset == self.last.end(),
        }
    }

    /// Makes the chunk with the block at `handle` the first. Returns false if no chunk has it.
    fn reach(&mut self, handle: Handle) -> bool {
        let has =
            |chunk: &Chunk| chunk.range.start <= handle.offset && handle.end() <= chunk.range.end;
        if self.chunks.front().is_some_and(has) {
            return true;
        }
        let Some(at) = self.chunks.iter().position(has) else {
            return false;
        };
        for _ in 0..at {
            self.pop();
        }
        true
    }

    /// Returns the block at `handle`, if it has been read ahead.
    #[cold]
    pub(crate) fn find(&mut self, table: &Table, handle: Handle) -> Option<&[u8]> {
        if !self.reach(handle) {
            return None;
        }
        if let Some(request) = self.request()
            && has_ended(&request)
        {
            let bytes = self.plan.io.read_now(&request);
            if !self.supply(table, &bytes) {
                return None;
            }
        }
        let chunk = self.chunks.front_mut()?;
        let Content::Read(bytes) = &chunk.content else {
            return None;
        };
        let from = (handle.offset - chunk.range.start) as usize;
        let block = bytes.get(from..from + (handle.end() - handle.offset) as usize)?;
        chunk.used += block.len() as u64;
        Some(block)
    }

    /// The bounds of the scan.
    pub(crate) fn plan(&self) -> &ReadAhead {
        &self.plan
    }

    /// Sets the bounds of the scan, which has no position.
    pub(crate) fn renew(&mut self, plan: &Arc<ReadAhead>) {
        self.reset();
        self.plan = plan.clone();
    }

    /// Notes that the current block was read by a plan. A scan that leaves the plan is sequential from the start.
    #[cold]
    pub(crate) fn note_planned(&mut self, table: &Table) {
        let options = &table.params.options;
        self.reads = self.reads.max(options.num_file_reads_for_auto_readahead);
    }

    /// Notes that the block at `handle` is the current one of the scan, and reads on.
    #[cold]
    pub(crate) fn visit(&mut self, table: &Table, handle: Handle, back: bool) {
        let same_way = self.back == back;
        let goes_on = self.is_next(handle, back) || (same_way && handle == self.last);
        if !(goes_on || same_way && self.reach(handle)) {
            self.reset();
        }
        self.note(handle, back);
        self.visited += handle.end().saturating_sub(handle.offset);
        // Chunks that the scan has passed, through blocks in the cache.
        let is_passed = |chunk: &Chunk| match back {
            true => handle.end() <= chunk.range.start,
            false => chunk.range.end <= handle.offset,
        };
        while self.chunks.front().is_some_and(is_passed) {
            self.pop();
        }
        self.read_on(table);
        self.spent = None;
    }

    fn note(&mut self, handle: Handle, back: bool) {
        self.last = handle;
        self.back = back;
        self.continues = false;
    }

    /// Returns the request of the chunk with the block at `handle`, the current one of `walk`: a chunk that is being
    /// read, or, if the scan is sequential, a new one. `None` if the block is to be read alone.
    #[cold]
    pub(crate) fn request_for(
        &mut self,
        table: &Table,
        walk: &IndexIter,
        handle: Handle,
        back: bool,
    ) -> Option<ReadRequest> {
        if self.back == back && self.reach(handle) {
            self.deepen(table);
            self.note(handle, back);
            self.read_on(table);
            return self.request();
        }
        let options = &table.params.options;
        if !self.is_next(handle, back) {
            self.reset();
        }
        self.note(handle, back);
        self.reads += 1;
        let is_sequential =
            self.reads > options.num_file_reads_for_auto_readahead && max_size(table) > 0;
        if self.options.readahead == 0 && !is_sequential {
            return None;
        }
        self.forget_chunks();
        let range = match self.is_direct() {
            true => self.direct_range(table, walk, handle),
            false => {
                self.scout = walk.clone();
                self.scouting = Scouting::Going;
                self.next_range(table, true)?
            }
        };
        let reading = charge(table, &range);
        self.start(table, range, reading);
        self.read_on(table);
        self.request()
    }

    /// True if the scan reads without the scout.
    fn is_direct(&self) -> bool {
        self.prompt >= PROMPT && !self.back
    }

    /// The bytes from the block at `handle` on, the current one of `walk`, up to the size of a chunk, the end of the
    /// data blocks, or the bound of the scan.
    fn direct_range(&mut self, table: &Table, walk: &IndexIter, handle: Handle) -> Range<u64> {
        let size = self.size.max(self.first_size(table));
        let most = table.data_end().saturating_sub(handle.end());
        let wanted = size.saturating_sub(handle.end() - handle.offset);
        let mut more = wanted.min(most);
        if let Some(upper) = self.plan.upper.as_deref().filter(|_| self.plan.trims) {
            more = trimmed(table, walk, more, upper);
        }
        if more == most {
            self.scouting = Scouting::AtEnd;
        }
        self.grow(table, size);
        handle.offset..handle.end() + more
    }

    /// Doubles the size of chunks, which is `size`, unless it is fixed.
    fn grow(&mut self, table: &Table, size: u64) {
        if self.options.readahead == 0 {
            self.size = size.saturating_mul(2).min(max_size(table));
        }
    }

    /// Doubles the depth if it was too small for the first chunk, which the scan has to wait for.
    fn deepen(&mut self, table: &Table) {
        let is_recent = |chunk: &Chunk| chunk.epoch == self.epoch;
        if self.options.readahead == 0 && self.chunks.front().is_some_and(is_recent) {
            self.depth = (self.depth * 2).min(max_depth(table));
            self.size = self.size.saturating_mul(2).min(max_size(table));
            self.epoch += 1;
        }
    }

    /// Starts to read a chunk.
    fn start(&mut self, table: &Table, range: Range<u64>, charge: Option<CacheCharge>) {
        let request = request_of(table, &range);
        let started = self.plan.io.start_into(&request, self.spent.take());
        self.prompt = match has_ended(&started.request()) {
            true => (self.prompt + 1).min(2 * PROMPT),
            false => self.prompt.saturating_sub(LATE),
        };
        self.discarded.get_or_insert(0);
        table.count_ahead(request.len);
        self.chunks.push_back(Chunk {
            range,
            content: Content::Started(started),
            _charge: charge,
            epoch: self.epoch,
            used: 0,
        });
    }

    /// The request of the first chunk, if it is being read.
    fn request(&self) -> Option<ReadRequest> {
        let chunk = self.chunks.front()?;
        let Content::Started(started) = &chunk.content else {
            return None;
        };
        Some(started.request())
    }

    /// Stores the bytes of the first chunk, whose request the caller has executed. Returns false if the read
    /// failed; the block that the scan needs is then to be read alone.
    #[cold]
    pub(crate) fn supply(&mut self, table: &Table, bytes: &Result<Buffer>) -> bool {
        let Some(chunk) = self.chunks.front_mut() else {
            return false;
        };
        match bytes {
            Ok(bytes) => {
                count_read(table, bytes.len());
                chunk.content = Content::Read(bytes.clone());
                true
            }
            Err(_) => {
                count_failure(table);
                self.pop();
                false
            }
        }
    }

    /// Starts the reads that the depth admits.
    fn read_on(&mut self, table: &Table) {
        while self.scouting == Scouting::Going && self.admits_another() {
            if self.is_direct() && !self.chunks.is_empty() {
                // The scan reads on without the scout when it gets to the end of these chunks.
                self.scouting = Scouting::Idle;
                return;
            }
            let Some(range) = self.next_range(table, false) else {
                return;
            };
            let charge = charge(table, &range);
            let is_beyond = |charge: &CacheCharge| charge.exceeds_strict_capacity();
            if charge.as_ref().is_some_and(is_beyond) {
                // The scan reads it when it gets there.
                self.scouting = Scouting::Stopped;
                return;
            }
            self.start(table, range, charge);
        }
    }

    /// Returns the place of the next chunk. `None` if there is none, or none yet. If `begins`, the first block
    /// is the one that the scan needs.
    fn next_range(&mut self, table: &Table, begins: bool) -> Option<Range<u64>> {
        let size = self.size.max(self.first_size(table));
        let mut range: Option<Range<u64>> = None;
        let mut needed = begins;
        for _ in 0..MAX_SCOUTED {
            if !self.settle(table) {
                break;
            }
            let handle = self.scout.handle();
            let len = handle.end().saturating_sub(handle.offset);
            let fits = table.check(handle, Handle::NULL).is_ok() && len <= MAX_BLOCK;
            if !needed && (!fits || self.is_before_bound(table)) {
                self.stop(table, fits);
                break;
            }
            let is_cached = !needed && self.plan.trims && table.has_cached(handle);
            match &mut range {
                None if is_cached => {
                    let distance = handle.offset.abs_diff(self.last.offset);
                    if distance > size.saturating_mul(1 + self.depth as u64) {
                        break;
                    }
                }
                None => range = Some(handle.offset..handle.end()),
                Some(range) => {
                    let gap = match self.back {
                        true => range.start.checked_sub(handle.end()),
                        false => handle.offset.checked_sub(range.end),
                    };
                    let extent = match self.back {
                        true => range.end.saturating_sub(handle.offset),
                        false => handle.end().saturating_sub(range.start),
                    };
                    if gap.is_none_or(|gap| gap > MAX_GAP) || extent > size {
                        break;
                    }
                    if !is_cached {
                        range.start = range.start.min(handle.offset);
                        range.end = range.end.max(handle.end());
                    }
                }
            }
            needed = false;
            let at_bound = self.is_at_bound(table);
            if at_bound || self.scout.step(table, self.back).is_err() {
                self.stop(table, at_bound);
                break;
            }
        }
        if range.is_some() {
            self.grow(table, size);
        }
        range
    }

    /// Ends the readahead, perhaps at a bound of the scan.
    fn stop(&mut self, table: &Table, at_bound: bool) {
        self.scouting = Scouting::Stopped;
        if at_bound {
            table.params.meter.add(Ticker::ReadaheadTrimmed, 1);
        }
    }

    /// The size of the first chunk.
    fn first_size(&self, table: &Table) -> u64 {
        let initial = table.params.options.initial_auto_readahead_size;
        initial.min(max_size(table)).max(1)
    }

    /// Positions the scout, as far as index blocks are in memory. Returns true if it is at a block.
    fn settle(&mut self, table: &Table) -> bool {
        if self.awaited.is_some() {
            let ended = |awaited: &mut AwaitedIndex| has_ended(&awaited.request);
            let Some(awaited) = self.awaited.take_if(ended) else {
                return false;
            };
            let Ok(taken) = self.take_index(table, awaited) else {
                self.scouting = Scouting::Stopped;
                return false;
            };
            // A block that was lost on the device of a tier is then read from the table.
            if let Some(taken) = taken {
                self.supplied.push(copy_of(&taken));
                self.known.truncate(MAX_KNOWN - 1);
                self.known.push_front(taken);
            }
        }
        match self.scout.settle(table, &self.supplied, &[]) {
            Ok(None) => {
                self.supplied.clear();
                self.supplied.forget_on_device();
                if !self.scout.valid() {
                    self.scouting = Scouting::AtEnd;
                }
                self.scout.valid()
            }
            Ok(Some(lack)) => {
                self.await_index(table, lack);
                false
            }
            Err(_) => {
                self.scouting = Scouting::Stopped;
                false
            }
        }
    }

    /// Takes the index block whose read has ended. Returns `None` if the device of a tier has lost it.
    fn take_index(&self, table: &Table, awaited: AwaitedIndex) -> Result<Option<SuppliedBlock>> {
        let bytes = self.plan.io.read_now(&awaited.request);
        if let Some(read) = awaited.on_device {
            return table.take_from_device(awaited.block, (*read, bytes), &self.supplied);
        }
        let taken = table.take(
            awaited.block,
            &Raw::Whole(bytes?),
            self.options.verify_checksums,
            self.options.fill_cache,
            awaited.charge,
        )?;
        table.trace_miss(awaited.block, &taken.block, &self.supplied);
        Ok(Some(taken))
    }

    /// Starts to read an index block that the scout lacks.
    fn await_index(&mut self, table: &Table, lack: MissingBlock) {
        let on_device = self.supplied.take_on_device(lack.handle.offset);
        let request = match &on_device {
            Some(read) => read.request().clone(),
            None => table.request(lack, 0),
        };
        let charge = table.charge_read(&request);
        let started = self.plan.io.start(&request);
        self.awaited = Some(AwaitedIndex {
            block: lack,
            request: started.request(),
            charge,
            on_device: on_device.map(Box::new),
        });
    }

    /// Gives the scout an index block that the scan has read.
    pub(crate) fn learn(&mut self, lack: MissingBlock, block: &Buffer) {
        if lack.role == CacheRole::Index && self.scouting == Scouting::Going {
            self.supplied.push(SuppliedBlock {
                offset: lack.handle.offset,
                role: lack.role,
                block: block.clone(),
                charge: None,
            });
        }
    }

    /// Returns the index block that the scan lacks, if the scout has read it.
    pub(crate) fn known_index(&self, lack: MissingBlock) -> Option<SuppliedBlock> {
        let is_it = |known: &&SuppliedBlock| known.offset == lack.handle.offset;
        self.known.iter().find(is_it).map(copy_of)
    }

    /// Takes the read of the index block that the scan lacks, if it is being read for the scout.
    pub(super) fn take_awaited(&mut self, lack: MissingBlock) -> Option<AwaitedIndex> {
        let is_it = |awaited: &mut AwaitedIndex| awaited.block.handle == lack.handle;
        self.awaited.take_if(is_it)
    }

    /// True if the scan is forward and ends with the block of the scout.
    fn is_at_bound(&self, table: &Table) -> bool {
        let upper = self.plan.upper.as_deref().filter(|_| self.plan.trims);
        !self.back && upper.is_some_and(|upper| separates(table, &self.scout, upper, false))
    }

    /// True if the scan is backward and has ended before the block of the scout.
    fn is_before_bound(&self, table: &Table) -> bool {
        let lower = self.plan.lower.as_deref().filter(|_| self.plan.trims);
        self.back && lower.is_some_and(|lower| separates(table, &self.scout, lower, true))
    }

    /// True if everything up to the end of the table has been read or is being read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.scouting == Scouting::AtEnd
    }

    /// True if the depth admits more than the `held` chunks.
    pub(crate) fn admits_beyond(&self, held: usize) -> bool {
        held <= self.depth
    }

    /// True if the depth, and the length of the scan so far, admit another chunk.
    fn admits_another(&self) -> bool {
        let is_long = || {
            let further = self.chunks.iter().skip(1);
            let bytes: u64 = further.map(|one| len_of(&one.range)).sum();
            self.options.readahead > 0 || bytes <= 2 * self.visited
        };
        self.admits_beyond(self.chunks.len()) && is_long()
    }

    pub(crate) fn chunks_held(&self) -> usize {
        self.chunks.len()
    }

    /// Starts to read `table`, whose scan follows that of another table with the state `before`.
    pub(crate) fn continue_from(&mut self, before: &Ahead, table: &Table, back: bool) {
        if before.options.readahead == 0 {
            self.size = before.size;
            self.depth = before.depth;
        }
        self.reads = before.reads;
        self.visited = before.visited;
        self.prompt = before.prompt;
        self.back = back;
        self.continues = true;
        self.scout = IndexIter::new(table);
        self.scout.start(match back {
            true => Landing::Last,
            false => Landing::First,
        });
        self.scouting = Scouting::Going;
        self.read_on(table);
    }

    /// Continues to read a table that the scan has not reached.
    pub(crate) fn read_on_before(&mut self, table: &Table) {
        if self.continues {
            self.read_on(table);
        }
    }

    /// Counts the bytes that were read ahead in vain.
    pub(crate) fn count_end(&mut self, table: &Table) {
        self.forget_chunks();
        if let Some(discarded) = self.discarded {
            let record = Histogram::PrefetchedBytesDiscarded;
            table
                .params
                .meter
                .update(|update| update.record(record, discarded));
        }
    }
}

/// Returns the bytes, of the `more` after the block of `walk`, that lie before `upper`, the bound of a scan.
#[cold]
pub(crate) fn trimmed(table: &Table, walk: &IndexIter, more: u64, upper: &[u8]) -> u64 {
    let mut scout = walk.clone();
    let none = SuppliedBlocks::default();
    let start = scout.handle().end();
    let mut end = start;
    while end - start < more && !separates(table, &scout, upper, false) {
        let moved = scout.step(table, false);
        let settled = moved.and_then(|()| scout.settle(table, &none, &[]));
        if !matches!(settled, Ok(None)) {
            return more;
        }
        if !scout.valid() {
            break;
        }
        let next = scout.handle().end();
        if next <= end {
            return more;
        }
        end = next;
    }
    let trimmed = more.min(end - start);
    if trimmed < more {
        table.params.meter.add(Ticker::ReadaheadTrimmed, 1);
    }
    trimmed
}

/// True if all keys of the blocks after that of `scout` are at or after `bound`, a user key without timestamp;
/// if `strictly`, true if all keys of that block and those before it precede `bound`.
pub(super) fn separates(table: &Table, scout: &IndexIter, bound: &[u8], strictly: bool) -> bool {
    let order = &table.order;
    let separator = key::strip_timestamp(scout.user_key(table), order.timestamp_size());
    let compared = key::compare_plain(order, separator, bound);
    match strictly {
        true => compared.is_lt(),
        false => compared.is_ge(),
    }
}

/// True if `request` has been started and has ended.
pub(super) fn has_ended(request: &ReadRequest) -> bool {
    let read = request.started();
    read.is_some_and(|read| read.has_ended())
}

/// A copy of a block, without its charge, which the original keeps.
fn copy_of(known: &SuppliedBlock) -> SuppliedBlock {
    SuppliedBlock {
        offset: known.offset,
        role: known.role,
        block: known.block.clone(),
        charge: None,
    }
}

fn max_depth(table: &Table) -> usize {
    match table.params.charge.charges(MemoryUse::Prefetch) {
        true => MAX_CHARGED_DEPTH,
        false => MAX_DEPTH,
    }
}

/// The largest size of a chunk; 0 if there is no automatic readahead.
fn max_size(table: &Table) -> u64 {
    let largest = table.params.options.max_auto_readahead_size;
    largest.min(piece_size(&table.params.charge))
}

fn len_of(range: &Range<u64>) -> u64 {
    range.end - range.start
}

fn request_of(table: &Table, range: &Range<u64>) -> ReadRequest {
    table.range_request(range)
}

fn charge(table: &Table, range: &Range<u64>) -> Option<CacheCharge> {
    table
        .params
        .charge(MemoryUse::Prefetch, len_of(range) as usize)
}

/// Counts a read of `len` bytes in the background.
fn count_read(table: &Table, len: usize) {
    let record = Histogram::AsyncReadBytes;
    table
        .params
        .meter
        .update(|update| update.record(record, len as u64));
}

#[cold]
fn count_failure(table: &Table) {
    table.params.meter.add(Ticker::AsyncReadErrorCount, 1);
}
