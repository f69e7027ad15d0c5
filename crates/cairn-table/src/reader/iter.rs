//! Walking a table: the iterator over its entries.
//!
//! Inside a block `next` is a few inlined instructions. At the end of a block the iterator notes
//! what is to be done (a step in the index, a landing in a data block) and does it as far as
//! blocks are in memory; when one is not, it stops there and goes on when it was supplied.
//!
//! A caller that seeks with several iterators takes all of them through [`TableIter::set_out`], then through
//! [`TableIter::reach`], then through [`TableIter::hold`], before the first arrives. Each asks for the
//! memory that the next step touches and does not wait for it, so that the misses overlap.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use cairn_format::block::{
    Block, BlockKind, BlockLayout, DataCursor, DataWords, Hidden, Skipped, Walk, skip_deleted,
    skip_deletions,
};
use cairn_format::key;
use cairn_format::table::Handle;
use cairn_memory::CacheRole;
use cairn_observe::perf;
use cairn_platform::{Buffer, Io, ReadRequest};
use cairn_types::{Decoded, Error, KeyOrder, Progress, Result, SequenceNumber};

use super::block_fetcher::Raw;
use super::index::{IndexWalk, Landing as IndexLanding};
use super::prefetch::Prefetch;
use super::table::{Lack, Supplied, Table};

/// Bytes of the entries from the sought one on that are asked for before they are read.
const SCANNED: usize = 256;

/// The part of a block in which a walk need not look ahead to the next one: from the offset `from` to `to`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Calm {
    from: usize,
    to: usize,
}

/// The walk looks ahead at its next step.
const NO_CALM: Calm = Calm {
    from: usize::MAX,
    to: 0,
};
/// The walk does not look ahead any more.
const ALL_CALM: Calm = Calm {
    from: 0,
    to: usize::MAX,
};

/// How an iterator reads.
#[derive(Clone, Copy, Debug)]
pub struct IterOptions {
    /// Keep the blocks that were read in the cache.
    pub fill_cache: bool,
    /// Check the checksums of the blocks that were read.
    pub verify_checksums: bool,
    /// Bytes to read ahead from the first block on; 0 to begin when reads turn out sequential.
    pub readahead: u64,
    /// Let `seek` ask the filter for the prefix of its target and stand nowhere if the table has
    /// no such prefix. Only for callers that want no keys of other prefixes.
    pub prefix_filter: bool,
}

impl Default for IterOptions {
    fn default() -> IterOptions {
        IterOptions {
            fill_cache: true,
            verify_checksums: true,
            readahead: 0,
            prefix_filter: false,
        }
    }
}

/// Where in a data block the iterator should stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Landing {
    First,
    Last,
    Seek,
    SeekForPrev,
}

impl Landing {
    fn is_back(self) -> bool {
        matches!(self, Landing::Last | Landing::SeekForPrev)
    }
}

/// Blocks found in the cache before an iterator brings that in.
const HITS_KEPT: u64 = 16;

/// An iterator over the point entries of a table, in internal-key order. Keeps the contract of
/// `cairn_types::iter`.
pub struct TableIter {
    table: Arc<Table>,
    options: IterOptions,
    walk: IndexWalk,
    data: DataCursor,
    block: Option<(Buffer, BlockLayout)>,
    block_handle: Handle,
    calm: Calm,
    landing: Option<Landing>,
    /// The filter is to be asked before anything else.
    ask_filter: bool,
    /// The filter has said that nothing has the prefix of the target.
    ruled_out: bool,
    target: Vec<u8>,
    /// True if keys get a timestamp that the file does not have; they then lie in `padded`.
    pads: bool,
    padded: Vec<u8>,
    valid: bool,
    error: Option<Error>,
    lack: Option<(Lack, ReadRequest)>,
    supplied: Supplied,
    prefetch: Prefetch,
}

impl Drop for TableIter {
    fn drop(&mut self) {
        if !self.supplied.counts.is_empty() {
            self.table.bring(&self.supplied.counts);
        }
        Spare {
            data: std::mem::take(&mut self.data),
            target: std::mem::take(&mut self.target),
        }
        .keep();
    }
}

/// Memory that an iterator has allocated, kept for the thread's next ones: to allocate and to free
/// it costs as much as a seek in memory.
#[derive(Default)]
struct Spare {
    data: DataCursor,
    target: Vec<u8>,
}

/// How many iterators' memory a thread keeps, and how many bytes of each at most.
const KEPT: usize = 16;
const KEPT_BYTES: usize = 4 << 10;

thread_local! {
    static SPARE: RefCell<Vec<Spare>> = const { RefCell::new(Vec::new()) };
}

impl Spare {
    fn take() -> Spare {
        let spare = SPARE.try_with(|spare| spare.borrow_mut().pop());
        spare.ok().flatten().unwrap_or_default()
    }

    fn keep(self) {
        if self.data.memory_usage() + self.target.capacity() > KEPT_BYTES {
            return;
        }
        // A thread that ends keeps nothing.
        let _kept = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < KEPT {
                spare.push(self);
            }
        });
    }
}

impl TableIter {
    /// An iterator that stands nowhere.
    #[must_use]
    pub fn new(table: Arc<Table>, options: IterOptions) -> TableIter {
        let Spare {
            mut data,
            mut target,
        } = Spare::take();
        data.clear();
        target.clear();
        TableIter {
            walk: IndexWalk::new(&table),
            data: data.with_global_seqno(table.global_seqno),
            target,
            prefetch: Prefetch::new(options.readahead),
            pads: table.pad > 0,
            table,
            options,
            block: None,
            block_handle: Handle::NULL,
            calm: ALL_CALM,
            landing: None,
            ask_filter: false,
            ruled_out: false,
            padded: Vec::new(),
            valid: false,
            error: None,
            lack: None,
            supplied: Supplied::default(),
        }
    }

    /// Sets whether seeks ask the filter for the prefix of their target
    /// ([`IterOptions::prefix_filter`]).
    #[inline]
    pub fn set_prefix_filter(&mut self, on: bool) {
        self.options.prefix_filter = on;
    }

    /// Passes over visible deletions in the current block, from the current entry on: those that
    /// are not newer than `seq` and whose user keys are before `limit`, at most `budget`. The user
    /// key of the last one is left in `last`. Returns how many there were; the iterator may lack
    /// the block behind them. Only for keys that order as their bytes do.
    #[inline]
    pub fn skip_deletions(
        &mut self,
        seq: SequenceNumber,
        limit: Option<&[u8]>,
        budget: u64,
        last: &mut Vec<u8>,
    ) -> (u64, Progress) {
        let mut skipped = 0;
        if self.pads || !self.valid {
            return (0, Progress::Ready);
        }
        let moved = match &self.block {
            Some((bytes, layout)) => {
                let hidden = Hidden { seq, limit, budget };
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

    /// Passes over visible deletions of this iterator and over what they delete in `other`, within
    /// the blocks on which both stand; see [`skip_deleted`]. Either may then lack a block. Only for
    /// keys that order as their bytes do.
    pub fn skip_deleted(
        &mut self,
        other: &mut TableIter,
        hidden: &Hidden<'_>,
        last: &mut Vec<u8>,
    ) -> (Skipped, Progress, Progress) {
        if self.pads || other.pads || !self.valid || !other.valid {
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

    /// Goes on where the cursor has left its block.
    fn after(&mut self, moved: Decoded<()>) -> Progress {
        if moved.is_ok() && self.data.valid() {
            return Progress::Ready;
        }
        self.leave(moved, false)
    }

    /// The table.
    #[must_use]
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// True if the iterator stands on an entry.
    #[inline]
    #[must_use]
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// The internal key of the entry.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &[u8] {
        if self.pads {
            return &self.padded;
        }
        self.data.key(self.bytes())
    }

    /// True if the entry is seen to have another user key than the one before it in the table; `false`
    /// where that cannot be told. User keys are the same if `same` says so.
    #[inline]
    #[must_use]
    pub fn begins_key(&self, same: impl Fn(&[u8], &[u8]) -> bool) -> bool {
        let Some((block, _)) = &self.block else {
            return false;
        };
        !self.pads
            && self
                .data
                .begins_key(DataWords::parse(block.tail()), block, same)
    }

    /// The internal key of the entry, and its value.
    #[inline(always)]
    #[must_use]
    pub fn entry(&self) -> (&[u8], &[u8]) {
        let bytes = self.bytes();
        let key = match self.pads {
            true => &self.padded,
            false => self.data.key(bytes),
        };
        (key, self.data.value(bytes))
    }

    /// The internal key of the entry, and the length of its value.
    #[inline(always)]
    #[must_use]
    pub fn head(&self) -> (&[u8], usize) {
        (self.key(), self.data.value_range().len())
    }

    /// The value of the entry.
    #[inline]
    #[must_use]
    pub fn value(&self) -> &[u8] {
        self.data.value(self.bytes())
    }

    /// The value of the entry as a part of its block, for as long as the caller keeps that.
    ///
    /// # Panics
    ///
    /// Unless the iterator stands on an entry.
    #[must_use]
    pub fn value_pin(&self) -> (Buffer, Range<usize>) {
        let block = self
            .block
            .as_ref()
            .expect("the iterator stands on an entry");
        (block.0.clone(), self.data.value_range())
    }

    /// The target of the seek, as the file stores keys, if the filter has said that nothing has its prefix: the reason why
    /// the iterator stands nowhere.
    #[must_use]
    pub fn ruled_out(&self) -> Option<&[u8]> {
        self.ruled_out.then_some(&self.target)
    }

    /// The bytes of the current block.
    #[inline]
    fn bytes(&self) -> &[u8] {
        match &self.block {
            Some((block, _)) => block,
            None => &[],
        }
    }

    /// Why the iterator stands nowhere, if not because there are no more entries.
    ///
    /// # Errors
    ///
    /// The error that ended the iteration.
    pub fn status(&self) -> Result<()> {
        self.error.clone().map_or(Ok(()), Err)
    }

    /// Goes to the first entry at or after `target`, an internal key.
    pub fn seek(&mut self, target: &[u8]) -> Progress {
        self.begin(IndexLanding::Seek, Landing::Seek, Some(target))
    }

    /// Goes to the last entry at or before `target`, an internal key.
    pub fn seek_for_prev(&mut self, target: &[u8]) -> Progress {
        self.begin(IndexLanding::SeekOrLast, Landing::SeekForPrev, Some(target))
    }

    /// Begins `seek`, or `seek_for_prev` if `back`, which [`TableIter::arrive`] completes: looks for
    /// the data block in the index, as far as that is in memory, and announces it to the cache.
    pub fn set_out(&mut self, target: &[u8], back: bool) {
        match back {
            false => self.aim(IndexLanding::Seek, Landing::Seek, Some(target)),
            true => self.aim(IndexLanding::SeekOrLast, Landing::SeekForPrev, Some(target)),
        }
        // What stops it here stops it again when it arrives.
        if matches!(self.sift(), Ok(None))
            && self.landing.is_some()
            && matches!(self.settle(), Ok(None))
            && self.walk.valid()
        {
            self.table.announce(self.walk.handle());
        }
    }

    /// Goes on with what [`TableIter::set_out`] began: asks for the memory of the data block.
    pub fn reach(&mut self) {
        if self.landing.is_some()
            && self.walk.is_settled()
            && self.walk.valid()
            && !self.has_block(self.walk.handle())
        {
            self.table.prefetch(self.walk.handle());
        }
    }

    /// Goes on with what [`TableIter::set_out`] began: takes hold of the data block, if it is in
    /// memory, and asks for the memory of the entry.
    pub fn hold(&mut self) {
        if let Some(landing) = self.landing
            && self.walk.is_settled()
            && self.walk.valid()
            && matches!(self.load_block(landing), Ok(None))
            && let Some((block, layout)) = &self.block
            && let Some(words) = DataWords::parse(block.tail())
            && let Some(at) = words.near(block, layout, key::user_key(&self.target))
        {
            block.prefetch_at(at, SCANNED);
        }
    }

    /// Completes what [`TableIter::set_out`] began.
    pub fn arrive(&mut self) -> Progress {
        self.go_on()
    }

    /// Goes to the first entry.
    pub fn seek_to_first(&mut self) -> Progress {
        self.begin(IndexLanding::First, Landing::First, None)
    }

    /// Goes to the last entry.
    pub fn seek_to_last(&mut self) -> Progress {
        self.begin(IndexLanding::Last, Landing::Last, None)
    }

    /// Goes to the following entry. Only while the iterator is valid.
    // A call of its own, so that what a step does within a block is one piece.
    #[inline(never)]
    #[expect(
        clippy::should_implement_trait,
        reason = "the word of the field for an iterator that lends its entries"
    )]
    pub fn next(&mut self) -> Progress {
        match self.step() {
            true => Progress::Ready,
            false => self.progress(),
        }
    }

    /// The outcome of the last movement.
    #[inline]
    pub fn progress(&self) -> Progress {
        match self.lack {
            Some(_) => Progress::Lacks,
            None => Progress::Ready,
        }
    }

    /// [`TableIter::next`] that says the [prefix](key::prefix) that the following entry's key has in
    /// `order`, if the step is one of those that most are: within a block, to a key that is shown as it is
    /// stored. After other steps the iterator itself says where it stands ([`TableIter::progress`],
    /// [`TableIter::valid`]).
    // See `next`.
    #[inline(never)]
    pub fn next_prefix(&mut self, order: &KeyOrder) -> Option<u64> {
        match self.step() {
            true => Some(key::prefix(order, self.data.key(self.bytes()))),
            false => None,
        }
    }

    /// Goes to the following entry; whether that was a step within the block to a key that is shown as it
    /// is stored.
    #[inline(always)]
    fn step(&mut self) -> bool {
        debug_assert!(self.valid, "next is called on an entry");
        let moved = match &self.block {
            Some((block, layout)) => self.data.next(block, layout),
            None => Ok(()),
        };
        if moved.is_ok() && self.data.valid() && !self.pads {
            let value = self.data.value_range();
            if value.end > self.calm.to {
                self.look_ahead(false);
            }
            // The entry behind the next one, if that is as long as this one is. The processor foresees a
            // single walk by itself, but hardly one that goes on after steps of others.
            if let Some((block, _)) = &self.block {
                block.prefetch_line(value.end + value.len());
            }
            return true;
        }
        let _progress = self.leave(moved, false);
        false
    }

    /// Goes to the entry before. Only while the iterator is valid.
    #[inline]
    pub fn prev(&mut self) -> Progress {
        match self.prev_prefix(&KeyOrder::Bytewise) {
            Some(_) => Progress::Ready,
            None => self.progress(),
        }
    }

    /// [`TableIter::next_prefix`] for a step back.
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
        if moved.is_ok() && self.data.valid() && !self.pads {
            if self.data.value_range().start < self.calm.from {
                self.look_ahead(true);
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

    /// Asks for the memory of the block that a walk comes to next: at its first step in a block for that
    /// of the cache's entry, and in the middle of the block for that of the block.
    #[inline(never)]
    fn look_ahead(&mut self, back: bool) {
        let begins = self.calm == NO_CALM;
        self.calm = ALL_CALM;
        let Some(next) = self.walk.neighbour(&self.table, back) else {
            return;
        };
        if begins {
            let middle = self.bytes().len() / 2;
            self.calm = Calm {
                from: middle,
                to: middle,
            };
            self.table.announce(next);
        } else {
            self.table.prefetch(next);
        }
    }

    /// The block that the iterator lacks.
    ///
    /// # Panics
    ///
    /// Unless the last step returned [`Progress::Lacks`].
    #[must_use]
    pub fn request(&self) -> ReadRequest {
        self.lack
            .as_ref()
            .expect("the iterator lacks a block")
            .1
            .clone()
    }

    /// Hands over what the iterator lacks, and goes on. The bytes may go beyond the block.
    pub fn supply(&mut self, bytes: Result<Buffer>) -> Progress {
        let (lack, _) = self.lack.take().expect("the iterator lacks a block");
        let taken = bytes.and_then(|bytes| {
            let len = bytes
                .len()
                .min(lack.handle.size as usize + cairn_format::table::TRAILER_LEN);
            if lack.role == CacheRole::Data && self.prefetch.keep(lack.handle, &bytes) {
                self.table.count_ahead(bytes.len());
            }
            let IterOptions {
                verify_checksums,
                fill_cache,
                ..
            } = self.options;
            let raw = match bytes.len() == len {
                true => Raw::Whole(bytes),
                false => Raw::Part(&bytes[..len]),
            };
            self.table.take(lack, &raw, verify_checksums, fill_cache)
        });
        match taken {
            Ok(buffer) => {
                self.supplied.push((lack.handle.offset, buffer));
                self.go_on()
            }
            Err(error) => self.fail(error),
        }
    }

    /// Reads what the step that returned `progress` lacks, on the calling thread, until the step
    /// is complete: `iter.complete(iter.next(), io)` cannot be written, so
    /// `let step = iter.next(); iter.complete(step, io);`.
    pub fn complete(&mut self, mut progress: Progress, io: &Io) {
        while progress == Progress::Lacks {
            let request = self.request();
            let spent = self.prefetch.spent(request.len);
            progress = self.supply(io.read_into(&request, spent));
        }
    }

    /// Begins a movement that does not depend on where the iterator stands.
    fn begin(&mut self, index: IndexLanding, landing: Landing, target: Option<&[u8]>) -> Progress {
        self.aim(index, landing, target);
        self.go_on()
    }

    /// Notes where a movement is to lead.
    fn aim(&mut self, index: IndexLanding, landing: Landing, target: Option<&[u8]>) {
        self.error = None;
        self.lack = None;
        self.supplied.clear();
        self.valid = false;
        self.target.clear();
        if let Some(target) = target {
            let mut buffer = Vec::new();
            let stored = self.table.stored_target(target, &mut buffer);
            self.target.extend_from_slice(stored);
        }
        self.ask_filter = self.options.prefix_filter && target.is_some();
        self.ruled_out = false;
        self.walk.start(index);
        self.landing = Some(landing);
    }

    /// Goes on at the edge of a block, or after a step inside it that needs more work: an error,
    /// or a key whose timestamp must be added.
    #[inline(never)]
    fn leave(&mut self, moved: Decoded<()>, back: bool) -> Progress {
        if let Err(error) = moved {
            return self.fail(self.table.bad(error, self.block_handle.offset));
        }
        if self.data.valid() {
            self.stand();
            return Progress::Ready;
        }
        self.valid = false;
        if let Err(error) = self.walk.step(&self.table, back) {
            return self.fail(error);
        }
        self.landing = Some(if back { Landing::Last } else { Landing::First });
        self.go_on()
    }

    /// Does what is to be done until the iterator stands somewhere or lacks a block.
    fn go_on(&mut self) -> Progress {
        match self.drive() {
            Ok(None) => {
                self.supplied.clear();
                Progress::Ready
            }
            Ok(Some(lack)) => {
                let more = if lack.role == CacheRole::Data && !self.is_back() {
                    self.prefetch.more(lack.handle, &self.table.params.options)
                } else {
                    0
                };
                let room = self.table.data_end().saturating_sub(lack.handle.end());
                let more = more.min(room);
                let more = self.prefetch.piece(lack.handle, more, &*self.table.file);
                self.lack = Some((lack, self.table.request(lack, more)));
                Progress::Lacks
            }
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

    /// Asks the filter, if it is to be asked; the iterator goes nowhere if the table has no such
    /// prefix.
    fn sift(&mut self) -> Result<Option<Lack>> {
        if self.ask_filter {
            match self
                .table
                .may_have_prefix_of(key::user_key(&self.target), &self.supplied)?
            {
                Err(lack) => return Ok(Some(lack)),
                Ok(false) => {
                    self.landing = None;
                    self.ask_filter = false;
                    self.ruled_out = true;
                    return Ok(None);
                }
                Ok(true) => self.ask_filter = false,
            }
        }
        Ok(None)
    }

    /// Finds the data block in the index.
    #[inline]
    fn settle(&mut self) -> Result<Option<Lack>> {
        self.walk.settle(&self.table, &self.supplied, &self.target)
    }

    fn drive(&mut self) -> Result<Option<Lack>> {
        if let Some(lack) = self.sift()? {
            return Ok(Some(lack));
        }
        while let Some(landing) = self.landing {
            if let Some(lack) = self.settle()? {
                return Ok(Some(lack));
            }
            if !self.walk.valid() {
                self.landing = None;
                break;
            }
            if let Some(lack) = self.load_block(landing)? {
                return Ok(Some(lack));
            }
            self.land(landing)?;
            if self.data.valid() {
                self.landing = None;
                self.stand();
                break;
            }
            self.walk.step(&self.table, landing.is_back())?;
            self.landing = Some(if landing.is_back() {
                Landing::Last
            } else {
                Landing::First
            });
        }
        Ok(None)
    }

    /// True if the current block is the one at `handle`.
    #[inline]
    fn has_block(&self, handle: Handle) -> bool {
        self.block.is_some() && self.block_handle == handle
    }

    /// Makes the block at which the walk stands the current one, if it is in memory.
    fn load_block(&mut self, landing: Landing) -> Result<Option<Lack>> {
        let handle = self.walk.handle();
        if self.has_block(handle) {
            return Ok(None);
        }
        let lack = Lack {
            handle,
            role: CacheRole::Data,
        };
        let found = match landing {
            Landing::Seek | Landing::SeekForPrev => self.table.find_to_search(lack, &self.supplied),
            Landing::First | Landing::Last => self.table.find(lack, &self.supplied),
        };
        let (block, calm) = match found {
            Some(block) => {
                if self.supplied.counts.data_hits.get() >= HITS_KEPT || perf::is_in_use() {
                    self.table.bring(&self.supplied.counts);
                }
                (block, NO_CALM)
            }
            None => {
                self.table.check(handle, self.walk.found_in(&self.table))?;
                let IterOptions {
                    verify_checksums,
                    fill_cache,
                    ..
                } = self.options;
                match self.prefetch.take(handle) {
                    Some(raw) => {
                        self.table.count_found_ahead(raw.len());
                        let raw = Raw::Part(raw);
                        let taken = self.table.take(lack, &raw, verify_checksums, fill_cache);
                        (taken?, ALL_CALM)
                    }
                    None => return Ok(Some(lack)),
                }
            }
        };
        self.block = None;
        let layout = BlockLayout::parse(&block, BlockKind::Data)
            .map_err(|error| self.table.bad(error, handle.offset))?;
        self.block = Some((block, layout));
        self.block_handle = handle;
        self.calm = calm;
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
            Landing::Seek => self.data.seek_with(words, block, layout, order, target),
            Landing::SeekForPrev => self
                .data
                .seek_for_prev_with(words, block, layout, order, target),
        };
        landed.map_err(|error| self.table.bad(error, self.block_handle.offset))
    }

    /// Stands on the entry of the cursor.
    #[inline]
    fn stand(&mut self) {
        self.valid = true;
        if self.pads
            && let Some((block, _)) = &self.block
        {
            self.padded.clear();
            crate::pad_internal(self.data.key(block), self.table.pad, &mut self.padded);
        }
    }
}
