//! The reads of a scan over many ranges, in the order in which the scan needs them.
//!
//! The iterators over the tables of a scan share one [`PlannedReads`]. Each read is a chunk: blocks of one table that
//! lie close together. Chunks are started in the order of the ranges, as far as the limit of bytes held or being read
//! admits, and dropped once the scan has passed them. A chunk that is reached before it was started is read then.
//!
//! A read that fails is forgotten, and the block that the scan needs is read alone: a plan never reports an error.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use cairn_format::table::Handle;
use cairn_memory::{CacheCharge, MemoryUse};
use cairn_platform::io::StartedRead;
use cairn_platform::sync::Mutex;
use cairn_platform::{Buffer, Io, ReadRequest};
use cairn_types::{FileNumber, Result};

use super::ahead::has_ended;
use super::prefetch::piece_size;
use super::scan_plan::{PlanOptions, PlannedBlock};
use super::table::{MissingBlock, SuppliedBlock, SuppliedBlocks, Table};

/// The least number of chunks of several blocks that the limit of a plan admits.
const CHUNKS_IN_LIMIT: u64 = 16;

/// A read of a plan.
struct Chunk {
    place: Range<u64>,
    /// The first and the last range that need it.
    ranges: Range<usize>,
    blocks: u64,
    used: u64,
    content: Content,
    charge: Option<CacheCharge>,
}

enum Content {
    /// It has not been started.
    Waiting,
    /// It is being read by the caller.
    Reading,
    Started(Arc<StartedRead>),
    Read(Buffer),
    /// It was dropped, or has failed.
    Gone,
}

/// A table of a plan.
pub(super) struct PlannedTable {
    table: Arc<Table>,
    /// Index blocks.
    index: SuppliedBlocks,
    /// In the order of the file.
    chunks: Vec<Chunk>,
    /// The chunks that the scan has not passed.
    left: Range<usize>,
}

impl PlannedTable {
    /// Joins `blocks`, which are in the order of the file, to chunks.
    pub(super) fn new(
        table: Arc<Table>,
        index: SuppliedBlocks,
        blocks: &[PlannedBlock],
        options: &PlanOptions,
    ) -> PlannedTable {
        let largest = match options.max_prefetch_size {
            0 => piece_size(&table.params.charge),
            // Several tables have to be read at once.
            limit => piece_size(&table.params.charge).min(limit / CHUNKS_IN_LIMIT),
        };
        let mut chunks: Vec<Chunk> = Vec::new();
        let mut joined = 0;
        for &PlannedBlock {
            handle,
            ranges: (first, last_range),
        } in blocks
        {
            if let Some(last) = chunks.last_mut()
                && let Some(gap) = handle.offset.checked_sub(last.place.end)
                && gap <= options.io_coalesce_threshold
                && handle.end() - last.place.start <= largest
            {
                last.place.end = handle.end();
                last.ranges.start = last.ranges.start.min(first);
                last.ranges.end = last.ranges.end.max(last_range + 1);
                last.blocks += 1;
                joined += u64::from(gap > 0);
                continue;
            }
            chunks.push(Chunk {
                place: handle.offset..handle.end(),
                ranges: first..last_range + 1,
                blocks: 1,
                used: 0,
                content: Content::Waiting,
                charge: None,
            });
        }
        table.count_joined(joined, blocks.len() as u64);
        PlannedTable {
            table,
            index,
            left: 0..chunks.len(),
            chunks,
        }
    }

    /// The position of the chunk with the block at `handle`.
    fn find(&self, handle: Handle) -> Option<usize> {
        let after = self
            .chunks
            .partition_point(|chunk| chunk.place.start <= handle.offset);
        let at = after.checked_sub(1)?;
        (handle.end() <= self.chunks[at].place.end).then_some(at)
    }

    fn request(&self, at: usize) -> ReadRequest {
        self.table.range_request(&self.chunks[at].place)
    }
}

struct State {
    tables: Vec<PlannedTable>,
    /// All chunks, as table and position, in the order in which the scan needs them.
    order: Vec<(usize, usize)>,
    /// The number of chunks in `order` that have been started or skipped.
    next: usize,
    /// The number of bytes that are held or being read.
    held: u64,
    /// The range that the scan has entered last.
    entered: usize,
    /// True while all chunks are in the page cache: each is read when the scan needs it. Reading them before would save
    /// no wait, but take memory for all of them.
    is_at_hand: bool,
}

/// The reads of a scan over many ranges, shared by the iterators over its tables.
pub struct PlannedReads {
    io: Io,
    options: PlanOptions,
    /// The positions of the tables.
    places: HashMap<FileNumber, usize>,
    open: Vec<Arc<Table>>,
    state: Mutex<State>,
}

impl std::fmt::Debug for PlannedReads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlannedReads").finish_non_exhaustive()
    }
}

impl PlannedReads {
    pub(super) fn new(
        io: Io,
        options: PlanOptions,
        tables: impl Iterator<Item = PlannedTable>,
    ) -> Arc<PlannedReads> {
        let tables: Vec<PlannedTable> = tables.collect();
        let chunks_of = |(at, table): (usize, &PlannedTable)| {
            let ranges = table.chunks.iter().map(|chunk| chunk.ranges.clone());
            let ranges: Vec<_> = ranges.enumerate().collect();
            ranges
                .into_iter()
                .map(move |(chunk, ranges)| (ranges, at, chunk))
        };
        let mut order: Vec<_> = tables.iter().enumerate().flat_map(chunks_of).collect();
        match options.back {
            false => order.sort_by_key(|(ranges, at, chunk)| (ranges.start, *at, *chunk)),
            true => order.sort_by_key(|(ranges, at, chunk)| {
                use std::cmp::Reverse;
                (Reverse(ranges.end), *at, Reverse(*chunk))
            }),
        }
        let place = |(at, table): (usize, &PlannedTable)| (table.table.params.number, at);
        Arc::new(PlannedReads {
            io,
            options,
            places: tables.iter().enumerate().map(place).collect(),
            open: tables.iter().map(|table| table.table.clone()).collect(),
            state: Mutex::new(State {
                order: order
                    .into_iter()
                    .map(|(_, at, chunk)| (at, chunk))
                    .collect(),
                tables,
                next: 0,
                held: 0,
                entered: match options.back {
                    false => 0,
                    true => usize::MAX,
                },
                is_at_hand: false,
            }),
        })
    }

    /// Starts the first reads.
    pub fn start(&self) {
        self.start_more(&mut self.state.lock());
    }

    /// Executes the first reads by `read`, which receives all of them in one batch, unless the page cache has the first
    /// chunk. Chunks are then read when the scan needs them, up to one that the page cache lacks.
    pub fn read_first(&self, read: impl FnOnce(&[ReadRequest]) -> Vec<Result<Buffer>>) {
        let mut state = self.state.lock();
        let Some((table, at)) = self.admit_next(&mut state) else {
            return;
        };
        if has_ended(&self.start_chunk(&mut state.tables[table], at)) {
            state.is_at_hand = true;
            return;
        }
        let mut chosen = Vec::new();
        while let Some(next) = self.admit_next(&mut state) {
            chosen.push(next);
        }
        let request = |&(table, at): &(usize, usize)| state.tables[table].request(at);
        let requests: Vec<ReadRequest> = chosen.iter().map(request).collect();
        // No other thread has the reads yet.
        for ((table, at), bytes) in chosen.into_iter().zip(read(&requests)) {
            self.keep(&mut state, table, at, bytes);
        }
    }

    /// Returns the table of the file with this number, if it is in the plan.
    #[must_use]
    pub fn table(&self, number: FileNumber) -> Option<&Arc<Table>> {
        self.places.get(&number).map(|&at| &self.open[at])
    }

    /// The position of `table`, if it is in the plan.
    pub(super) fn place_of(&self, table: &Arc<Table>) -> Option<usize> {
        let at = *self.places.get(&table.params.number)?;
        Arc::ptr_eq(&self.open[at], table).then_some(at)
    }

    /// Drops the chunks that no range from `range` on needs, in the direction of the scan.
    pub fn enter(&self, range: usize) {
        let mut state = self.state.lock();
        state.entered = range;
        let State { tables, held, .. } = &mut *state;
        for PlannedTable {
            table,
            chunks,
            left,
            ..
        } in tables
        {
            // Chunks and ranges are in the same order.
            match self.options.back {
                false => {
                    while left.start < left.end && chunks[left.start].ranges.end <= range {
                        drop_chunk(table, &mut chunks[left.start], held);
                        left.start += 1;
                    }
                }
                true => {
                    while left.start < left.end && chunks[left.end - 1].ranges.start > range {
                        left.end -= 1;
                        drop_chunk(table, &mut chunks[left.end], held);
                    }
                }
            }
        }
        self.refill(&mut state);
    }

    /// Chooses the next chunk to be read, if the limit admits it, and charges it.
    fn admit_next(&self, state: &mut State) -> Option<(usize, usize)> {
        while let Some(&(at, chunk_at)) = state.order.get(state.next) {
            let table = &mut state.tables[at];
            let chunk = &mut table.chunks[chunk_at];
            if !matches!(chunk.content, Content::Waiting) {
                state.next += 1;
                continue;
            }
            let len = chunk.place.end - chunk.place.start;
            let limit = self.options.max_prefetch_size;
            if limit > 0 && state.held > 0 && state.held.saturating_add(len) > limit {
                return None;
            }
            let charge = table.table.params.charge(MemoryUse::Prefetch, len as usize);
            let is_beyond = |charge: &CacheCharge| charge.exceeds_strict_capacity();
            if charge.as_ref().is_some_and(is_beyond) {
                return None;
            }
            chunk.charge = charge;
            chunk.content = Content::Reading;
            state.held += len;
            state.next += 1;
            return Some((at, chunk_at));
        }
        None
    }

    /// Starts the reads that the limit admits.
    fn start_more(&self, state: &mut State) {
        while let Some((at, chunk)) = self.admit_next(state) {
            self.start_chunk(&mut state.tables[at], chunk);
        }
    }

    fn start_chunk(&self, table: &mut PlannedTable, at: usize) -> ReadRequest {
        let request = table.request(at);
        let started = self.io.start(&request);
        let collecting = started.request();
        let chunk = &mut table.chunks[at];
        table.table.count_planned(chunk.blocks, request.len);
        chunk.content = Content::Started(started);
        collecting
    }

    /// Starts reads in place of those that were dropped.
    fn refill(&self, state: &mut State) {
        if self.options.in_background {
            self.start_more(state);
        }
    }

    /// Stores the result of a read.
    fn keep(&self, state: &mut State, table: usize, at: usize, bytes: Result<Buffer>) -> bool {
        let State { tables, held, .. } = state;
        let PlannedTable { table, chunks, .. } = &mut tables[table];
        let chunk = &mut chunks[at];
        let was_started = matches!(chunk.content, Content::Started(_));
        match bytes {
            Ok(bytes) => {
                if !was_started {
                    table.count_planned(chunk.blocks, bytes.len());
                }
                chunk.content = Content::Read(bytes);
                true
            }
            Err(_) => {
                table.count_plan(0, 1);
                drop_chunk(table, chunk, held);
                false
            }
        }
    }

    /// Returns the block at `handle` of the table at `place`: its chunk, and its range there. `None` if it is not
    /// planned or has not been read. The chunks before it are dropped.
    pub(super) fn find(&self, place: usize, handle: Handle) -> Option<(Buffer, Range<usize>)> {
        let mut state = self.state.lock();
        let at = self.reach(&mut state, place, handle)?;
        if state.is_at_hand && matches!(state.tables[place].chunks[at].content, Content::Waiting) {
            self.start_needed(&mut state, place, at);
        }
        if let Content::Started(started) = &state.tables[place].chunks[at].content {
            let request = started.request();
            if !has_ended(&request) {
                return None;
            }
            let bytes = self.io.read_now(&request);
            self.keep(&mut state, place, at, bytes);
        }
        let chunk = &mut state.tables[place].chunks[at];
        let Content::Read(bytes) = &chunk.content else {
            return None;
        };
        let from = (handle.offset - chunk.place.start) as usize;
        let block = from..from + (handle.end() - handle.offset) as usize;
        let found = bytes.get(block.clone()).is_some();
        let bytes = bytes.clone();
        chunk.used += 1;
        found.then_some((bytes, block))
    }

    /// Drops the chunks before that with the block at `handle`, in the direction of the scan, and returns its
    /// position.
    fn reach(&self, state: &mut State, place: usize, handle: Handle) -> Option<usize> {
        let State { tables, held, .. } = state;
        let planned = tables.get_mut(place)?;
        let at = planned.find(handle)?;
        let passed = match self.options.back {
            false => planned.left.start..at.max(planned.left.start),
            true => (at + 1).min(planned.left.end)..planned.left.end,
        };
        if passed.is_empty() {
            return Some(at);
        }
        match self.options.back {
            false => planned.left.start = passed.end,
            true => planned.left.end = passed.start,
        }
        for chunk in &mut planned.chunks[passed] {
            drop_chunk(&planned.table, chunk, held);
        }
        self.refill(state);
        Some(at)
    }

    /// Returns the request of the chunk with the block at `handle`, which [`PlannedReads::find`] has not returned.
    pub(super) fn request(&self, place: usize, handle: Handle) -> Option<ReadRequest> {
        let mut state = self.state.lock();
        let at = self.reach(&mut state, place, handle)?;
        match &state.tables[place].chunks[at].content {
            Content::Started(started) => Some(started.request()),
            Content::Waiting => Some(self.start_needed(&mut state, place, at)),
            Content::Reading | Content::Read(_) | Content::Gone => None,
        }
    }

    /// Starts to read a chunk that the scan needs, whatever the limit, and those after it that the limit admits, unless
    /// all are in the page cache.
    fn start_needed(&self, state: &mut State, place: usize, at: usize) -> ReadRequest {
        let table = &mut state.tables[place];
        let len = table.chunks[at].place.end - table.chunks[at].place.start;
        let charge = table.table.params.charge(MemoryUse::Prefetch, len as usize);
        table.chunks[at].charge = charge;
        let request = self.start_chunk(table, at);
        state.held += len;
        state.is_at_hand &= has_ended(&request);
        if !state.is_at_hand {
            self.start_more(state);
        }
        request
    }

    /// Stores the bytes of the chunk with the block at `handle`, whose request was executed. Returns false if the
    /// read failed; the block is then to be read alone.
    pub(super) fn supply(&self, place: usize, handle: Handle, bytes: &Result<Buffer>) -> bool {
        let mut state = self.state.lock();
        let at = state.tables.get(place).and_then(|table| table.find(handle));
        at.is_some_and(|at| self.keep(&mut state, place, at, bytes.clone()))
    }

    /// Returns an index block that was read for the plan.
    pub(super) fn known_index(&self, place: usize, lack: MissingBlock) -> Option<SuppliedBlock> {
        let state = self.state.lock();
        let index = &state.tables.get(place)?.index;
        let known = index.find(lack.handle.offset)?;
        Some(SuppliedBlock {
            offset: known.offset,
            role: known.role,
            block: known.block.clone(),
            charge: None,
        })
    }

    /// Drops the chunks of a table that the scan has used and no later range needs: the scan leaves the table.
    pub(super) fn leave(&self, place: usize) {
        let mut state = self.state.lock();
        let State {
            tables,
            held,
            entered,
            ..
        } = &mut *state;
        let Some(planned) = tables.get_mut(place) else {
            return;
        };
        let is_over = |chunk: &Chunk| match self.options.back {
            false => chunk.ranges.end <= *entered + 1,
            true => chunk.ranges.start >= *entered,
        };
        let left = &mut planned.chunks[planned.left.clone()];
        for chunk in left.iter_mut().filter(|chunk| chunk.used > 0) {
            if is_over(chunk) {
                drop_chunk(&planned.table, chunk, held);
            }
        }
        self.refill(&mut state);
    }
}

impl Drop for PlannedReads {
    fn drop(&mut self) {
        let State { tables, held, .. } = self.state.get_mut();
        for table in tables {
            for chunk in &mut table.chunks {
                drop_chunk(&table.table, chunk, held);
            }
        }
    }
}

/// Releases the memory of `chunk`, which the scan does not need any more.
fn drop_chunk(table: &Table, chunk: &mut Chunk, held: &mut u64) {
    match std::mem::replace(&mut chunk.content, Content::Gone) {
        Content::Waiting | Content::Gone => return,
        Content::Reading => {}
        Content::Started(_) | Content::Read(_) => {
            table.count_wasted(chunk.blocks.saturating_sub(chunk.used));
        }
    }
    *held = held.saturating_sub(chunk.place.end - chunk.place.start);
    chunk.charge = None;
}
