//! The plan of a scan over many ranges: the blocks of all tables that it will read.
//!
//! A *scout* walks the index of one table from the start of one range to its end. All scouts walk at once: the index
//! blocks that they lack are read in common rounds, whose number does not depend on the numbers of ranges and tables.
//! The data blocks found are joined to chunks, each of which is one read, across gaps of up to
//! `io_coalesce_threshold` bytes. A range in one table is planned up to [`MOST_OF_RANGE`] bytes; readahead
//! continues from there.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use cairn_format::key;
use cairn_format::table::Handle;
use cairn_format::trace::block_cache::CacheCaller;
use cairn_memory::CacheCharge;
use cairn_platform::{Buffer, Io, ReadRequest};
use cairn_types::{Result, SequenceNumber, ValueKind};

use super::ahead::separates;
use super::block_fetcher::Raw;
use super::index::{IndexIter, Landing};
use super::planned_reads::{PlannedReads, PlannedTable};
use super::table::{MissingBlock, SuppliedBlocks, Table};

/// The number of bytes of a range in one table that are planned.
pub(crate) const MOST_OF_RANGE: u64 = 1 << 20;

/// A range of user keys without timestamps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanRange {
    /// The first key.
    pub start: Vec<u8>,
    /// The first key after the range; `None` for a range without end.
    pub limit: Option<Vec<u8>>,
}

/// The manner of the reads of a plan.
#[derive(Clone, Copy, Debug)]
pub struct PlanOptions {
    /// The largest number of bytes between two blocks that are read together.
    pub io_coalesce_threshold: u64,
    /// The largest number of bytes that are held or being read, except that one read is always admitted; 0 for no
    /// limit.
    pub max_prefetch_size: u64,
    /// True if further reads are started whenever others have been used.
    pub in_background: bool,
    /// True if the ranges are scanned from the last to the first, and backward.
    pub back: bool,
    /// True if the checksums of index blocks are verified.
    pub verify_checksums: bool,
    /// True if index blocks are inserted into the cache.
    pub fill_cache: bool,
}

/// A data block of a plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedBlock {
    pub(super) handle: Handle,
    /// The first and the last range that need it.
    pub(super) ranges: (usize, usize),
}

/// The walk through the index of one table for one range.
struct Scout {
    table: usize,
    range: usize,
    walk: IndexIter,
    /// The internal key at which the walk starts, as stored.
    target: Vec<u8>,
    /// The number of bytes planned.
    bytes: u64,
    is_done: bool,
}

/// A table of the plan.
struct Scouted {
    table: Arc<Table>,
    supplied: SuppliedBlocks,
    blocks: Vec<PlannedBlock>,
    from_cache: u64,
    errors: u64,
}

/// An index block that scouts wait for.
struct Awaited {
    table: usize,
    block: MissingBlock,
    charge: Option<CacheCharge>,
}

/// A plan that is being made.
pub struct ScanPlan {
    ranges: Arc<[ScanRange]>,
    options: PlanOptions,
    tables: Vec<Scouted>,
    scouts: Vec<Scout>,
    awaited: Vec<Awaited>,
}

impl ScanPlan {
    /// A plan for `ranges`, which are in ascending order and do not overlap.
    #[must_use]
    pub fn new(ranges: Arc<[ScanRange]>, options: PlanOptions) -> ScanPlan {
        ScanPlan {
            ranges,
            options,
            tables: Vec::new(),
            scouts: Vec::new(),
            awaited: Vec::new(),
        }
    }

    /// Adds `table`, which may have keys of the ranges at the positions `ranges`.
    pub fn add(&mut self, table: Arc<Table>, ranges: Range<usize>) {
        let at = self.tables.len();
        for range in ranges {
            let ScanRange { start, limit } = &self.ranges[range];
            let mut walk = IndexIter::new(&table);
            let mut target = Vec::new();
            match (self.options.back, limit) {
                (false, _) => {
                    walk.start(Landing::Seek);
                    target = target_before(&table, start);
                }
                (true, Some(limit)) => {
                    walk.start(Landing::SeekOrLast);
                    target = target_before(&table, limit);
                }
                (true, None) => walk.start(Landing::Last),
            }
            self.scouts.push(Scout {
                table: at,
                range,
                walk,
                target,
                bytes: 0,
                is_done: false,
            });
        }
        self.tables.push(Scouted {
            table,
            supplied: SuppliedBlocks::of_reader(CacheCaller::Iterator, self.options.fill_cache),
            blocks: Vec::new(),
            from_cache: 0,
            errors: 0,
        });
    }

    /// Walks on as far as index blocks are in memory. Returns the requests for the missing ones, to be answered by
    /// [`ScanPlan::supply`]; none at the end.
    #[must_use]
    pub fn advance(&mut self) -> Vec<ReadRequest> {
        let mut requests = Vec::new();
        let mut known = HashSet::new();
        for scout in &mut self.scouts {
            let scouted = &mut self.tables[scout.table];
            let Some(block) = scout.walk_on(scouted, &self.ranges[scout.range], &self.options)
            else {
                continue;
            };
            if !known.insert((scout.table, block.handle.offset)) {
                continue;
            }
            let request = scouted.table.request(block, 0);
            self.awaited.push(Awaited {
                table: scout.table,
                block,
                charge: scouted.table.charge_read(&request),
            });
            requests.push(request);
        }
        requests
    }

    /// Supplies the missing index blocks, in the order of their requests. The scan reports errors when it gets
    /// there.
    pub fn supply(&mut self, read: Vec<Result<Buffer>>) {
        let PlanOptions {
            verify_checksums,
            fill_cache,
            ..
        } = self.options;
        let mut failed = Vec::new();
        for (awaited, bytes) in self.awaited.drain(..).zip(read) {
            let Awaited {
                table,
                block,
                charge,
            } = awaited;
            let scouted = &mut self.tables[table];
            let taken = bytes.and_then(|bytes| {
                let raw = Raw::Whole(bytes);
                let table = &scouted.table;
                table.take(block, &raw, verify_checksums, fill_cache, charge)
            });
            match taken {
                Ok(taken) => {
                    scouted
                        .table
                        .trace_miss(block, &taken.block, &scouted.supplied);
                    scouted.supplied.push(taken);
                }
                Err(_) => {
                    scouted.errors += 1;
                    failed.push(table);
                }
            }
        }
        for scout in &mut self.scouts {
            scout.is_done |= failed.contains(&scout.table);
        }
    }

    /// Returns the reads of the plan, which are executed by `io`.
    #[must_use]
    pub fn reads(self, io: &Io) -> Arc<PlannedReads> {
        let tables = self.tables.into_iter().map(|scouted| {
            let Scouted {
                table,
                supplied,
                mut blocks,
                from_cache,
                errors,
            } = scouted;
            // Neighbouring ranges may share a block.
            blocks.sort_by_key(|block| (block.handle.offset, block.ranges));
            blocks.dedup_by(|next, block| {
                let is_same = next.handle.offset == block.handle.offset;
                if is_same {
                    block.ranges.1 = block.ranges.1.max(next.ranges.1);
                }
                is_same
            });
            table.count_plan(from_cache, errors);
            table.bring(&supplied.counts);
            PlannedTable::new(table, supplied, &blocks, &self.options)
        });
        PlannedReads::new(io.clone(), self.options, tables)
    }
}

impl Scout {
    /// Adds blocks to the plan. Returns the index block that is missing, if any.
    fn walk_on(
        &mut self,
        scouted: &mut Scouted,
        range: &ScanRange,
        options: &PlanOptions,
    ) -> Option<MissingBlock> {
        while !self.is_done {
            let settled = self
                .walk
                .settle(&scouted.table, &scouted.supplied, &self.target);
            match settled {
                Ok(Some(lack)) => return Some(lack),
                Ok(None) if self.walk.valid() => {}
                Ok(None) => break,
                Err(_) => {
                    scouted.errors += 1;
                    break;
                }
            }
            if !self.add_block(scouted, range, options) {
                break;
            }
            if self.walk.step(&scouted.table, options.back).is_err() {
                scouted.errors += 1;
                break;
            }
        }
        self.is_done = true;
        self.walk.release();
        None
    }

    /// Adds the block of the walk, unless it is cached. Returns false if the range ends there.
    fn add_block(
        &mut self,
        scouted: &mut Scouted,
        range: &ScanRange,
        options: &PlanOptions,
    ) -> bool {
        let (table, handle) = (&scouted.table, self.walk.handle());
        // The scan reports damage.
        if table.check(handle, Handle::NULL).is_err() {
            return false;
        }
        if options.back && separates(table, &self.walk, &range.start, true) {
            return false;
        }
        if table.has_cached(handle) {
            scouted.from_cache += 1;
        } else {
            let ranges = (self.range, self.range);
            scouted.blocks.push(PlannedBlock { handle, ranges });
        }
        self.bytes = self.bytes.saturating_add(handle.end() - handle.offset);
        let is_last = match (&range.limit, options.back) {
            (Some(limit), false) => separates(table, &self.walk, limit, false),
            _ => false,
        };
        !is_last && self.bytes < MOST_OF_RANGE
    }
}

/// Returns the internal key before all versions of the user key `plain`, as stored in `table`.
fn target_before(table: &Table, plain: &[u8]) -> Vec<u8> {
    let timestamp = table.params.order.timestamp_size();
    let mut target = Vec::with_capacity(plain.len() + timestamp + key::SUFFIX_LEN);
    target.extend_from_slice(plain);
    target.resize(plain.len() + timestamp, 0xff);
    let packed = key::pack(SequenceNumber::MAX, ValueKind::FOR_SEEK);
    target.extend_from_slice(&packed.to_le_bytes());
    let mut buffer = Vec::new();
    table.stored_target(&target, &mut buffer).to_vec()
}
