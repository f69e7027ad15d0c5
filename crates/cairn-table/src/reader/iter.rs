//! The iterator over the entries of a table.
//!
//! Within a block `next` is a few inlined instructions. At the end of a block the iterator records the
//! pending movement (a step in the index, a position in a data block) and carries it out as far as
//! blocks are in memory; at a missing block it stops and continues once the block is supplied.
//!
//! A caller that seeks with several iterators passes all of them through [`TableIter::set_out`],
//! then [`TableIter::reach`] and [`TableIter::hold`], before it calls [`TableIter::arrive`] for the
//! first. Each stage prefetches the memory of the next one, so that cache misses overlap.

mod life;
mod missing;

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use cairn_format::block::{
    Block, BlockKind, BlockLayout, DataCursor, DataWords, Place, SkipLimits, Skipped, Walk,
    skip_deleted, skip_deletions,
};
use cairn_format::key;
use cairn_format::table::Handle;
use cairn_format::trace::block_cache::CacheCaller;
use cairn_memory::CacheRole;
use cairn_observe::perf;
use cairn_platform::Buffer;
use cairn_types::{Decoded, Error, KeyOrder, Malformed, Progress, Result, SequenceNumber};

use super::ahead::{Ahead, ReadAhead, separates};
use super::block_fetcher::Raw;
use super::index::{IndexIter, Landing as IndexLanding};
use super::prefetch::{Prefetch, ReadaheadSize};
use super::table::{MissingBlock, SuppliedBlocks, Table};
use life::ReadTable;
use missing::{HeldCharges, Lack, take};

/// The number of bytes to prefetch, starting at the target entry.
const SCANNED: usize = 256;

/// The range of offsets in a block, `from` to `to`, in which a scan need not prefetch the next block.
#[derive(Clone, Copy, PartialEq, Eq)]
struct NoPrefetch {
    from: usize,
    to: usize,
}

/// The scan prefetches with its next step.
const PREFETCH_NEXT: NoPrefetch = NoPrefetch {
    from: usize::MAX,
    to: 0,
};
/// The scan does not prefetch any more.
const PREFETCH_NEVER: NoPrefetch = NoPrefetch {
    from: 0,
    to: usize::MAX,
};

/// Options of an iterator.
#[derive(Clone, Copy, Debug)]
pub struct IterOptions {
    /// True if the blocks read are inserted into the cache.
    pub fill_cache: bool,
    /// True if the checksums of the blocks read are verified.
    pub verify_checksums: bool,
    /// Fixed readahead in bytes; 0 for automatic readahead, which starts once reads are sequential.
    pub readahead: u64,
    /// True if `seek` looks up the prefix of its target in the filter and becomes invalid if the
    /// table has no such prefix. For callers that do not need keys with other prefixes.
    pub prefix_filter: bool,
    /// The origin of the block lookups, for the block-cache trace.
    pub caller: CacheCaller,
}

impl Default for IterOptions {
    fn default() -> IterOptions {
        IterOptions {
            fill_cache: true,
            verify_checksums: true,
            readahead: 0,
            prefix_filter: false,
            caller: CacheCaller::default(),
        }
    }
}

/// The target position in a data block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Landing {
    First,
    Last,
    Seek,
    SeekForPrev,
    /// The first entry, after a seek whose block has only entries before the target.
    FirstAfter,
    /// The last entry, after a backward seek whose block has only entries after the target.
    LastBefore,
}

impl Landing {
    /// The position in the next block, or in the previous one for a backward movement, if the current block has no
    /// entry for this one.
    fn in_neighbour(self) -> Landing {
        match self {
            Landing::First => Landing::First,
            Landing::Last => Landing::Last,
            Landing::Seek | Landing::FirstAfter => Landing::FirstAfter,
            Landing::SeekForPrev | Landing::LastBefore => Landing::LastBefore,
        }
    }

    fn is_back(self) -> bool {
        matches!(
            self,
            Landing::Last | Landing::SeekForPrev | Landing::LastBefore
        )
    }

    fn is_search(self) -> bool {
        matches!(self, Landing::Seek | Landing::SeekForPrev)
    }
}

/// The state of the filter lookup of a seek.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PrefixFilter {
    /// No lookup is needed, or the filter may have the prefix of the target.
    Settled,
    /// The lookup is pending.
    Pending,
    /// The filter excluded the prefix of the target.
    Excluded,
}

/// The number of cache hits that an iterator counts before it reports them.
const HITS_KEPT: u64 = 16;

/// An iterator over the point entries of a table, in internal-key order, with the contract of
/// `cairn_types::iter`.
pub struct TableIter {
    table: ReadTable,
    options: IterOptions,
    walk: IndexIter,
    data: DataCursor,
    block: Option<(Buffer, BlockLayout)>,
    block_handle: Handle,
    calm: NoPrefetch,
    landing: Option<Landing>,
    /// The place of the target of a forward seek, if a stage of the seek has loaded its block and found it.
    near: Option<Place>,
    filter: PrefixFilter,
    target: Vec<u8>,
    padding: Padding,
    /// See [`Table::has_slow_entries`].
    slow: bool,
    valid: bool,
    error: Option<Error>,
    lack: Option<Lack>,
    supplied: SuppliedBlocks,
    /// The charges of held blocks that are not in the cache.
    held: Option<Box<HeldCharges>>,
    prefetch: Prefetch,
    /// Number of searches so far; saturates.
    searches: u8,
}

/// From this search on, an iterator builds the search words of the blocks that it reads for a search. It is a scan over many
/// range tombstones or an iterator that is reused for seeks, and its blocks will be searched again.
const MANY_SEARCHES: u8 = 4;

/// A timestamp that keys get and the file does not store.
struct Padding {
    pads: bool,
    /// The current key with it.
    key: Vec<u8>,
}

impl TableIter {
    /// Reads ahead by `plan`: before the first movement.
    pub fn read_ahead(&mut self, plan: &Arc<ReadAhead>) {
        if plan.planned.is_some() {
            self.prefetch.use_planned(plan, &self.table);
        }
        if plan.is_in_background(&self.table) {
            let ahead = Ahead::new(plan, &self.table, &self.options);
            self.prefetch.background = Some(Box::new(ahead));
        } else {
            self.prefetch.set_plan(plan.clone());
        }
    }

    /// Reads ahead by `plan`, with other bounds, from the next movement on, which is a seek.
    pub fn renew_readahead(&mut self, plan: &Arc<ReadAhead>) {
        self.prefetch.renew_planned(plan, &self.table);
        match &mut self.prefetch.background {
            Some(ahead) => ahead.renew(plan),
            None => self.prefetch.set_plan(plan.clone()),
        }
    }

    /// True if the iterator reads ahead in the background, and has read up to the end of the table in the
    /// direction of its movement: the next table is to be read.
    #[must_use]
    pub fn has_read_to_end(&self) -> bool {
        self.prefetch
            .background
            .as_ref()
            .is_some_and(|ahead| ahead.is_at_end())
    }

    /// True if more reads than the `held` ones may be under way.
    #[must_use]
    pub fn admits_beyond(&self, held: usize) -> bool {
        let ahead = self.prefetch.background.as_ref();
        ahead.is_some_and(|ahead| ahead.admits_beyond(held))
    }

    /// The number of reads of the iterator that are under way or whose bytes it holds.
    #[must_use]
    pub fn chunks_held(&self) -> usize {
        self.prefetch
            .background
            .as_ref()
            .map_or(0, |ahead| ahead.chunks_held())
    }

    /// Starts to read the table of `next`, which continues the movement of this iterator.
    pub fn read_into(&self, next: &mut TableIter, back: bool) {
        if let (Some(before), Some(ahead)) =
            (&self.prefetch.background, &mut next.prefetch.background)
        {
            ahead.continue_from(before, &next.table, back);
        }
    }

    /// Continues what [`TableIter::read_into`] has started, before the first movement.
    pub fn read_on(&mut self) {
        if let Some(ahead) = &mut self.prefetch.background {
            ahead.read_on_before(&self.table);
        }
    }

    /// Returns the size of readahead that is not in the background.
    #[must_use]
    pub fn readahead(&self) -> ReadaheadSize {
        self.prefetch.size()
    }

    /// Lets readahead begin with the size that it had in the preceding table.
    pub fn keep_readahead(&mut self, size: ReadaheadSize) {
        self.prefetch.continue_with(size);
    }

    /// Enables or disables the prefix filter lookup of seeks ([`IterOptions::prefix_filter`]).
    #[inline]
    pub fn set_prefix_filter(&mut self, on: bool) {
        self.options.prefix_filter = on;
    }

    /// Skips visible deletions in the current block, starting with the current entry: those up to
    /// sequence number `seq` with user keys before `limit`, at most `budget`. Stores the user key
    /// of the last one in `last` and returns their number. The next block may then be missing. For
    /// bytewise key orders only.
    #[inline]
    pub fn skip_deletions(
        &mut self,
        seq: SequenceNumber,
        limit: Option<&[u8]>,
        budget: u64,
        last: &mut Vec<u8>,
    ) -> (u64, Progress) {
        let mut skipped = 0;
        if self.slow || !self.valid {
            return (0, Progress::Ready);
        }
        let moved = match &self.block {
            Some((bytes, layout)) => {
                let hidden = SkipLimits { seq, limit, budget };
                let block = Block { bytes, layout };
                let (count, moved) = skip_deletions(&mut self.data, block, &hidden, last);
                skipped = count;
                moved
            }
            None => Ok(()),
        };
        if moved.is_ok() && self.data.valid() {
            return (skipped, Progress::Ready);
        }
        (skipped, self.leave(moved, false))
    }

    /// Skips visible deletions of this iterator together with the entries they delete in `other`,
    /// within the current blocks of both; see [`skip_deleted`]. A block may then be missing for
    /// either. For bytewise key orders only.
    pub fn skip_deleted(
        &mut self,
        other: &mut TableIter,
        hidden: &SkipLimits<'_>,
        last: &mut Vec<u8>,
    ) -> (Skipped, Progress, Progress) {
        if self.slow || other.slow || !self.valid || !other.valid {
            return (Skipped::default(), Progress::Ready, Progress::Ready);
        }
        let (Some((bytes, layout)), Some((other_bytes, other_layout))) =
            (&self.block, &other.block)
        else {
            return (Skipped::default(), Progress::Ready, Progress::Ready);
        };
        let newer = Walk {
            cursor: &mut self.data,
            block: Block { bytes, layout },
        };
        let older = Walk {
            cursor: &mut other.data,
            block: Block {
                bytes: other_bytes,
                layout: other_layout,
            },
        };
        let passed = skip_deleted(newer, older, hidden, last);
        let progress = self.after(passed.newer_moved);
        (passed.skipped, progress, other.after(passed.older_moved))
    }

    /// Continues after the cursor has left its block.
    fn after(&mut self, moved: Decoded<()>) -> Progress {
        if moved.is_ok() && self.data.valid() {
            return Progress::Ready;
        }
        self.leave(moved, false)
    }

    /// Returns the table.
    #[must_use]
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// True if the iterator is at an entry.
    #[inline]
    #[must_use]
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// Returns the internal key of the entry.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &[u8] {
        if self.padding.pads {
            return &self.padding.key;
        }
        self.data.key(self.bytes())
    }

    /// True if the entry is known to have another user key than its predecessor in the table; false
    /// if that is unknown. `same` compares user keys.
    #[inline]
    #[must_use]
    pub fn begins_key(&self, same: impl Fn(&[u8], &[u8]) -> bool) -> bool {
        let Some((block, _)) = &self.block else {
            return false;
        };
        !self.padding.pads
            && self
                .data
                .begins_key(DataWords::parse(block.tail()), block, same)
    }

    /// Returns the internal key and the value of the entry.
    #[inline(always)]
    #[must_use]
    pub fn entry(&self) -> (&[u8], &[u8]) {
        self.count_use();
        let bytes = self.bytes();
        let key = match self.padding.pads {
            true => &self.padding.key,
            false => self.data.key(bytes),
        };
        (key, self.data.value(bytes))
    }

    /// Returns the internal key of the entry and the length of its value.
    #[inline(always)]
    #[must_use]
    pub fn head(&self) -> (&[u8], usize) {
        (self.key(), self.data.value_range().len())
    }

    /// Returns the value of the entry.
    #[inline]
    #[must_use]
    pub fn value(&self) -> &[u8] {
        self.count_use();
        self.data.value(self.bytes())
    }

    /// Returns the block of the value, which pins it, and its range.
    ///
    /// # Panics
    ///
    /// Unless the iterator is valid.
    #[must_use]
    pub fn value_pin(&self) -> (Buffer, Range<usize>) {
        self.count_use();
        let block = self.block.as_ref().expect("the iterator is valid");
        (block.0.clone(), self.data.value_range())
    }

    /// Counts the entry, whose value is read, for the estimate of read amplification.
    #[inline]
    fn count_use(&self) {
        if self.slow
            && self.valid
            && let Some((block, layout)) = &self.block
        {
            let block = (self.block_handle, block);
            self.table.count_use(block, (layout, &self.data));
        }
    }

    /// Passes the entries of the current block from the current one on to `visit` until it returns false; if `back`,
    /// the current one and those before it.
    #[cold]
    pub fn visit_following(&self, back: bool, mut visit: impl FnMut(&[u8], &[u8]) -> bool) {
        let Some((block, layout)) = self
            .block
            .as_ref()
            .filter(|_| self.valid && !self.padding.pads)
        else {
            return;
        };
        let mut cursor = self.data.clone();
        let mut moved = Ok(());
        while moved.is_ok() && cursor.valid() && visit(cursor.key(block), cursor.value(block)) {
            moved = match back {
                true => cursor.prev(block, layout),
                false => cursor.next(block, layout),
            };
        }
    }

    /// Returns the target of the seek, as stored in the file, if the filter excluded its prefix, which
    /// made the iterator invalid.
    #[must_use]
    pub fn ruled_out(&self) -> Option<&[u8]> {
        (self.filter == PrefixFilter::Excluded).then_some(&self.target)
    }

    /// Returns the bytes of the current block.
    #[inline]
    fn bytes(&self) -> &[u8] {
        match &self.block {
            Some((block, _)) => block,
            None => &[],
        }
    }

    /// Returns the error that ended the iteration, if any.
    ///
    /// # Errors
    ///
    /// The error that ended the iteration.
    pub fn status(&self) -> Result<()> {
        self.error.clone().map_or(Ok(()), Err)
    }

    /// Moves to the first entry at or after the internal key `target`.
    pub fn seek(&mut self, target: &[u8]) -> Progress {
        self.begin(IndexLanding::Seek, Landing::Seek, Some(target))
    }

    /// Moves to the last entry at or before the internal key `target`.
    pub fn seek_for_prev(&mut self, target: &[u8]) -> Progress {
        self.begin(IndexLanding::SeekOrLast, Landing::SeekForPrev, Some(target))
    }

    /// Starts `seek`, or `seek_for_prev` if `back`, to be completed by [`TableIter::arrive`]: finds
    /// the data block, as far as the index is in memory, and prefetches its cache entry.
    pub fn set_out(&mut self, target: &[u8], back: bool) {
        match back {
            false => self.set_target(IndexLanding::Seek, Landing::Seek, Some(target)),
            true => self.set_target(IndexLanding::SeekOrLast, Landing::SeekForPrev, Some(target)),
        }
        // An error or a missing block shows up again in `arrive`.
        if matches!(self.check_filter(), Ok(None))
            && self.landing.is_some()
            && matches!(self.settle(), Ok(None))
            && self.walk.valid()
        {
            self.table.announce(self.walk.handle());
        }
    }

    /// Continues after [`TableIter::set_out`]: prefetches the data block.
    pub fn reach(&mut self) {
        if self.landing.is_some()
            && self.walk.is_settled()
            && self.walk.valid()
            && !self.has_block(self.walk.handle())
        {
            self.table.prefetch(self.walk.handle());
        }
    }

    /// Continues after [`TableIter::reach`]: pins the data block, if it is in memory, and prefetches
    /// the entry.
    pub fn hold(&mut self) {
        if let Some(landing) = self.landing
            && self.walk.is_settled()
            && self.walk.valid()
            && matches!(self.load_block(landing), Ok(None))
            && let Some((block, layout)) = &self.block
            && let Some(words) = DataWords::parse(block.tail())
            && let Some(place) = words.near(block, layout, key::user_key(&self.target))
        {
            block.prefetch_at(place.at(), SCANNED);
            self.near = (landing == Landing::Seek).then_some(place);
        }
    }

    /// Completes the seek started by [`TableIter::set_out`].
    pub fn arrive(&mut self) -> Progress {
        self.advance()
    }

    /// Moves to the first entry.
    pub fn seek_to_first(&mut self) -> Progress {
        self.begin(IndexLanding::First, Landing::First, None)
    }

    /// Moves to the last entry.
    pub fn seek_to_last(&mut self) -> Progress {
        self.begin(IndexLanding::Last, Landing::Last, None)
    }

    /// Moves to the next entry. The iterator must be valid.
    // Not inlined, so that the step within a block is compiled as a unit.
    #[inline(never)]
    #[expect(
        clippy::should_implement_trait,
        reason = "the usual name in this field; entries are borrowed from the iterator"
    )]
    pub fn next(&mut self) -> Progress {
        match self.step() {
            true => Progress::Ready,
            false => self.progress(),
        }
    }

    /// Returns the outcome of the last movement.
    #[inline]
    pub fn progress(&self) -> Progress {
        match self.lack {
            Some(_) => Progress::Lacks,
            None => Progress::Ready,
        }
    }

    /// Like [`TableIter::next`], but returns the [prefix](key::prefix) of the new key if the step
    /// stayed within the block and the key is returned as stored. After other steps the caller
    /// checks [`TableIter::progress`] and [`TableIter::valid`].
    // As for `next`.
    #[inline(never)]
    pub fn next_prefix(&mut self, order: &KeyOrder) -> Option<u64> {
        match self.step() {
            true => Some(key::prefix(order, self.data.key(self.bytes()))),
            false => None,
        }
    }

    /// Moves to the next entry. Returns true if the step stayed within the block and the key is
    /// returned as stored.
    #[inline(always)]
    fn step(&mut self) -> bool {
        debug_assert!(self.valid, "next is called on an entry");
        let moved = match &self.block {
            Some((block, layout)) => self.data.next(block, layout),
            None => Ok(()),
        };
        if moved.is_ok() && self.data.valid() && !self.slow {
            let value = self.data.value_range();
            if value.end > self.calm.to {
                self.prefetch_next_block(false);
            }
            // Prefetch the entry after the next one, assuming equal lengths. The hardware
            // prefetcher handles a single scan well, but not several interleaved ones.
            if let Some((block, _)) = &self.block {
                block.prefetch_line(value.end + value.len());
            }
            return true;
        }
        let _progress = self.leave(moved, false);
        false
    }

    /// Moves to the previous entry. The iterator must be valid.
    #[inline]
    pub fn prev(&mut self) -> Progress {
        match self.prev_prefix(&KeyOrder::Bytewise) {
            Some(_) => Progress::Ready,
            None => self.progress(),
        }
    }

    /// [`TableIter::next_prefix`] in reverse.
    #[inline(never)]
    pub fn prev_prefix(&mut self, order: &KeyOrder) -> Option<u64> {
        debug_assert!(self.valid, "prev is called on an entry");
        let moved = match &self.block {
            Some((block, layout)) => {
                let words = DataWords::parse(block.tail());
                self.data.prev_with(words, block, layout)
            }
            None => Ok(()),
        };
        if moved.is_ok() && self.data.valid() && !self.slow {
            if self.data.value_range().start < self.calm.from {
                self.prefetch_next_block(true);
            }
            // As in `next_prefix`.
            if let Some((block, _)) = &self.block {
                let entry = self.data.entry_range();
                block.prefetch_line(entry.start.wrapping_sub(2 * entry.len()));
            }
            return Some(key::prefix(order, self.data.key(self.bytes())));
        }
        let _progress = self.leave(moved, true);
        None
    }

    /// Prefetches for the next block of a scan: its cache entry at the first step in a block, and the
    /// block itself in the middle of the block.
    #[inline(never)]
    fn prefetch_next_block(&mut self, back: bool) {
        let begins = self.calm == PREFETCH_NEXT;
        self.calm = PREFETCH_NEVER;
        let Some(next) = self.walk.neighbour(&self.table, back) else {
            return;
        };
        if begins {
            let middle = self.bytes().len() / 2;
            self.calm = NoPrefetch {
                from: middle,
                to: middle,
            };
            self.table.announce(next);
        } else {
            self.table.prefetch(next);
        }
    }

    /// True if the blocks that the iterator reads for a search are likely to be searched again.
    fn searches_often(&self) -> bool {
        self.searches >= MANY_SEARCHES
    }

    /// Starts a movement that does not depend on the current position.
    fn begin(&mut self, index: IndexLanding, landing: Landing, target: Option<&[u8]>) -> Progress {
        self.set_target(index, landing, target);
        self.advance()
    }

    /// Records the target of a movement.
    fn set_target(&mut self, index: IndexLanding, landing: Landing, target: Option<&[u8]>) {
        self.error = None;
        self.lack = None;
        self.supplied.clear();
        self.valid = false;
        self.near = None;
        self.target.clear();
        if let Some(target) = target {
            self.table.store_target(target, &mut self.target);
        }
        self.searches = self.searches.saturating_add(u8::from(target.is_some()));
        self.filter = match self.options.prefix_filter && target.is_some() {
            true => PrefixFilter::Pending,
            false => PrefixFilter::Settled,
        };
        self.walk.start(index);
        self.landing = Some(landing);
    }

    /// Continues at the edge of a block, or after a step that needs more work: an error, or a key
    /// without its timestamp.
    #[inline(never)]
    fn leave(&mut self, moved: Decoded<()>, back: bool) -> Progress {
        if let Err(error) = moved {
            return self.fail(self.table.bad(error, self.block_handle.offset));
        }
        if self.data.valid() {
            return match self.set_position() {
                Ok(()) => Progress::Ready,
                Err(error) => self.fail(error),
            };
        }
        self.valid = false;
        if !back && self.ends_with_block() {
            return Progress::Ready;
        }
        if let Err(error) = self.walk.step(&self.table, back) {
            return self.fail(error);
        }
        self.landing = Some(if back { Landing::Last } else { Landing::First });
        self.advance()
    }

    /// Carries out pending movements until the iterator has a position or a block is missing.
    fn advance(&mut self) -> Progress {
        match self.drive() {
            Ok(None) => {
                self.release_supplied();
                Progress::Ready
            }
            Ok(Some(lack)) => self.request_block(lack),
            Err(error) => self.fail(error),
        }
    }

    fn is_back(&self) -> bool {
        self.landing.is_some_and(Landing::is_back)
    }

    #[cold]
    fn fail(&mut self, error: Error) -> Progress {
        self.valid = false;
        self.landing = None;
        self.supplied.clear();
        self.data.clear();
        self.error = Some(error);
        Progress::Ready
    }

    /// Carries out the pending filter lookup; the iterator becomes invalid if the prefix is excluded.
    fn check_filter(&mut self) -> Result<Option<MissingBlock>> {
        if self.filter == PrefixFilter::Pending {
            match self
                .table
                .may_have_prefix_of(key::user_key(&self.target), &self.supplied)?
            {
                Err(lack) => return Ok(Some(lack)),
                Ok(false) => {
                    self.landing = None;
                    self.filter = PrefixFilter::Excluded;
                    return Ok(None);
                }
                Ok(true) => self.filter = PrefixFilter::Settled,
            }
        }
        Ok(None)
    }

    /// Finds the data block in the index.
    #[inline]
    fn settle(&mut self) -> Result<Option<MissingBlock>> {
        self.walk.settle(&self.table, &self.supplied, &self.target)
    }

    fn drive(&mut self) -> Result<Option<MissingBlock>> {
        let mut is_loaded = self.near.is_some();
        if !is_loaded && let Some(lack) = self.check_filter()? {
            return Ok(Some(lack));
        }
        while let Some(landing) = self.landing {
            if !std::mem::take(&mut is_loaded) {
                if let Some(lack) = self.settle()? {
                    return Ok(Some(lack));
                }
                if !self.walk.valid() || landing.is_back() && self.begins_after_block() {
                    self.landing = None;
                    break;
                }
                if let Some(lack) = self.load_block(landing)? {
                    return Ok(Some(lack));
                }
            }
            self.land(landing)?;
            if self.data.valid() {
                self.landing = None;
                self.set_position()?;
                break;
            }
            if !landing.is_back() && self.ends_with_block() {
                self.landing = None;
                break;
            }
            self.walk.step(&self.table, landing.is_back())?;
            self.landing = Some(landing.in_neighbour());
        }
        Ok(None)
    }

    /// True if all entries after the current block are at or after the upper bound of the scan, which does not need
    /// them.
    #[inline]
    fn ends_with_block(&self) -> bool {
        let upper = self.prefetch.ends().and_then(|scan| scan.upper.as_ref());
        upper.is_some_and(|upper| {
            self.walk.valid() && separates(&self.table, &self.walk, upper, false)
        })
    }

    /// True if all entries of the current block and those before it precede the lower bound of the scan.
    #[inline]
    fn begins_after_block(&self) -> bool {
        let lower = self.prefetch.ends().and_then(|scan| scan.lower.as_ref());
        lower.is_some_and(|lower| separates(&self.table, &self.walk, lower, true))
    }

    /// True if the current block is the one at `handle`.
    #[inline]
    fn has_block(&self, handle: Handle) -> bool {
        self.block.is_some() && self.block_handle == handle
    }

    /// Loads the data block of the index walk, if it is in memory.
    fn load_block(&mut self, landing: Landing) -> Result<Option<MissingBlock>> {
        let handle = self.walk.handle();
        if self.has_block(handle) {
            return Ok(None);
        }
        let lack = MissingBlock {
            handle,
            role: CacheRole::Data,
        };
        let found = match landing {
            Landing::Seek | Landing::SeekForPrev => self.table.find_to_search(lack, &self.supplied),
            Landing::First | Landing::Last | Landing::FirstAfter | Landing::LastBefore => {
                self.table.find(lack, &self.supplied)
            }
        };
        let (block, calm, charge) = match found {
            Some(block) => {
                let charge = self.supplied.take_charge(handle.offset);
                if self.supplied.counts.data_hits.get() >= HITS_KEPT || perf::is_in_use() {
                    self.table.bring(&self.supplied.counts);
                }
                (block, PREFETCH_NEXT, charge)
            }
            None => {
                self.table.check(handle, self.walk.found_in(&self.table))?;
                let searched = self.searches_often() && landing.is_search();
                let planned = match &self.prefetch.planned {
                    Some(planned) => planned.find(handle),
                    None => None,
                };
                if planned.is_some()
                    && let Some(ahead) = &mut self.prefetch.background
                {
                    ahead.note_planned(&self.table);
                }
                let in_plan = planned.as_ref().map(|(bytes, range)| &bytes[range.clone()]);
                let raw = match in_plan {
                    Some(raw) => Some(raw),
                    None => match &mut self.prefetch.background {
                        Some(ahead) => ahead.find(&self.table, handle),
                        None => self.prefetch.take(handle),
                    },
                };
                match raw {
                    Some(raw) => {
                        self.table.count_found_ahead(raw.len());
                        let raw = (Raw::Part(raw), None);
                        let taken = take(&self.table, &self.options, lack, raw, searched)?;
                        self.table.trace_miss(lack, &taken.block, &self.supplied);
                        (taken.block, PREFETCH_NEVER, taken.charge)
                    }
                    None => return Ok(Some(lack)),
                }
            }
        };
        self.block = None;
        self.hold_data(charge);
        let layout = BlockLayout::parse(&block, BlockKind::Data)
            .map_err(|error| self.table.bad(error, handle.offset))?;
        self.block = Some((block, layout));
        self.block_handle = handle;
        self.calm = calm;
        if let Some(ahead) = &mut self.prefetch.background {
            ahead.visit(&self.table, handle, landing.is_back());
        }
        Ok(None)
    }

    fn land(&mut self, landing: Landing) -> Result<()> {
        let Some((block, layout)) = &self.block else {
            return Ok(());
        };
        let (order, target) = (&self.table.order, &self.target);
        let words = DataWords::parse(block.tail());
        let landed = match landing {
            Landing::First => self.data.first(block, layout),
            Landing::Last => self.data.last_with(words, block, layout),
            Landing::Seek => match (self.near.take(), &words) {
                (Some(near), Some(words)) => self
                    .data
                    .seek_from(&near, words, block, layout, order, target),
                _ => self.data.seek_with(words, block, layout, order, target),
            },
            Landing::SeekForPrev => self
                .data
                .seek_for_prev_with(words, block, layout, order, target),
            Landing::FirstAfter => {
                let moved = self.data.first(block, layout);
                moved.and_then(|()| self.check_neighbour(Ordering::Less))
            }
            Landing::LastBefore => {
                let moved = self.data.last_with(words, block, layout);
                moved.and_then(|()| self.check_neighbour(Ordering::Greater))
            }
        };
        landed.map_err(|error| self.table.bad(error, self.block_handle.offset))
    }

    /// Checks the entry that a seek found beside the block to which the index led it: it must not be on the side
    /// `wrong` of the target. Otherwise the index contradicts the blocks, and a scan that seeks at every step might
    /// never end.
    #[inline(never)]
    fn check_neighbour(&self, wrong: Ordering) -> Decoded<()> {
        let key = self.data.key(self.bytes());
        if self.data.valid() && key::compare(&self.table.order, key, &self.target) == wrong {
            return Err(Malformed::at(
                0,
                "index leads a seek to another block than that of its entry",
            ));
        }
        Ok(())
    }

    /// Sets the position to the entry of the cursor.
    #[inline]
    fn set_position(&mut self) -> Result<()> {
        if let Some((block, _)) = &self.block {
            let verified = self.table.verify_entry(&self.data, block);
            verified.map_err(|error| self.table.bad(error, self.block_handle.offset))?;
        }
        self.valid = true;
        if self.padding.pads
            && let Some((block, _)) = &self.block
        {
            self.padding.key.clear();
            crate::pad_internal(self.data.key(block), self.table.pad, &mut self.padding.key);
        }
        Ok(())
    }
}
