//! Point lookups: the entries of one user key, newest first.
//!
//! A get works on blocks in memory. If a block is missing, it reports the block, keeps its position
//! in the index, and continues once the block is supplied, so that a key whose versions fill many
//! blocks takes one step per block. Supplied blocks are released after the data block that needed
//! them. If all blocks are in memory, a get allocates nothing and takes a single reference, on the
//! data block.
//!
//! A caller with several gets passes all of them through [`Table::admits`], then [`Table::locate`],
//! [`Table::reach`] and [`Table::hold`], before it completes the first. Each stage prefetches the
//! memory of the next one, so that cache misses overlap.

use std::cmp::Ordering;
use std::ops::{ControlFlow, Range};

use cairn_format::block::{BlockKind, BlockLayout, DataCursor, DataWords, Place};
use cairn_format::key::{self, LookupKey, ParsedKey};
use cairn_memory::secondary::DeviceRead;
use cairn_memory::{CacheCharge, CacheRole};
use cairn_observe::statistics::TableCounts;
use cairn_observe::traces::block_cache::is_in_use as is_traced;
use cairn_platform::{Buffer, Io, ReadRequest};
use cairn_types::{Progress, Result, SequenceNumber};

use super::block_fetcher::Raw;
use super::index::{IndexIter, Landing, SavedPosition};
use super::table::{MissingBlock, SuppliedBlock, SuppliedBlocks, Table};

/// Options of a get.
#[derive(Clone, Copy, Debug)]
pub struct GetOptions {
    /// True if the blocks read are inserted into the cache.
    pub fill_cache: bool,
    /// True if the checksums of the blocks read are verified.
    pub verify_checksums: bool,
}

/// The number of bytes of an entry to prefetch.
const FOUND: usize = 128;

impl Default for GetOptions {
    fn default() -> GetOptions {
        GetOptions {
            fill_cache: true,
            verify_checksums: true,
        }
    }
}

/// A value in its block.
#[derive(Clone, Debug)]
pub struct ValueRef<'a> {
    /// The block. A clone pins the value.
    pub buffer: &'a Buffer,
    /// The range of the value in the block.
    pub range: Range<usize>,
}

impl ValueRef<'_> {
    /// Returns the value.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }
}

/// The state of a get between its steps. It can be reused for other gets and tables, and keeps its
/// allocations. It is cheap to move, because its state is boxed.
#[derive(Default)]
pub struct TableGet(pub(super) Option<Box<State>>);

#[derive(Default)]
pub(super) struct State {
    lack: Option<Lack>,
    pub(super) supplied: SuppliedBlocks,
    filter_passed: bool,
    /// True once the index walk has started: it is at the next data block or needs an index block.
    located: bool,
    /// The result of a cache lookup of that data block, once made; the inner `None` is a miss.
    ahead: Option<Option<Buffer>>,
    /// The place of the key in that block, if it was looked up.
    near: Option<Place>,
    /// True once an entry of the key has been found.
    matched: bool,
    walk: IndexIter,
    data: DataCursor,
    global: Option<SequenceNumber>,
    target: Vec<u8>,
    padded: Vec<u8>,
}

/// The block that a get lacks.
struct Lack {
    block: MissingBlock,
    options: GetOptions,
    /// The read of the block from the device of a tier, if it is there.
    on_device: Option<Box<DeviceRead>>,
    /// The charge of the read, made before it.
    charge: Option<CacheCharge>,
}

/// A get that waits for a block, without the buffers and cursors of its search. Made by
/// [`TableGet::suspend`].
#[must_use]
pub struct SuspendedGet(Box<Suspended>);

struct Suspended {
    lack: Option<Lack>,
    supplied: SuppliedBlocks,
    filter_passed: bool,
    matched: bool,
    /// The position in the index; `None` if the index walk has not started.
    position: Option<SavedPosition>,
}

impl TableGet {
    /// Creates the state of a get that has not started.
    #[must_use]
    pub const fn new() -> TableGet {
        TableGet(None)
    }

    /// Abandons a get between two steps.
    pub fn reset(&mut self) {
        if let Some(state) = &mut self.0 {
            state.reset();
        }
    }

    /// Returns the counts since the last call; `None` if no table has been searched yet.
    #[inline]
    #[must_use]
    pub fn counts(&self) -> Option<&TableCounts> {
        self.0.as_ref().map(|state| &state.supplied.counts)
    }

    /// Reports the counts since the last call to the statistics of `table`.
    pub fn bring_counts(&self, table: &Table) {
        if let Some(counts) = self.counts() {
            table.bring(counts);
        }
    }

    /// Returns the request for the missing block of `table`.
    ///
    /// # Panics
    ///
    /// Unless the last step returned [`Progress::Lacks`].
    #[must_use]
    pub fn request(&self, table: &Table) -> ReadRequest {
        let lack = self.0.as_ref().and_then(|state| state.lack.as_ref());
        let lack = lack.expect("the get lacks a block");
        match &lack.on_device {
            Some(read) => read.request().clone(),
            None => table.request(lack.block, 0),
        }
    }

    /// Moves a get that waits for a block out of the state, which can then serve others. Thousands of suspended
    /// gets may wait: each keeps only what it needs after the wait.
    pub fn suspend(&mut self) -> SuspendedGet {
        let state = self.state();
        let position = match state.located {
            true => Some(state.walk.save()),
            false => None,
        };
        let suspended = Suspended {
            lack: state.lack.take(),
            supplied: std::mem::take(&mut state.supplied),
            filter_passed: state.filter_passed,
            matched: state.matched,
            position,
        };
        state.reset();
        SuspendedGet(Box::new(suspended))
    }

    /// Continues a get in `table` that was suspended. The get in this state, if any, is abandoned.
    pub fn resume(&mut self, table: &Table, suspended: SuspendedGet) {
        let Suspended {
            lack,
            supplied,
            filter_passed,
            matched,
            position,
        } = *suspended.0;
        let state = self.state();
        state.reset();
        state.lack = lack;
        state.supplied = supplied;
        state.filter_passed = filter_passed;
        state.matched = matched;
        if let Some(position) = position {
            state.walk.restore(table, position);
            state.located = true;
        }
    }

    /// Supplies the missing block. The caller then calls [`Table::get`] again.
    ///
    /// # Errors
    ///
    /// The read error, or `Corruption` if the block is damaged. The get is then over.
    pub fn supply(&mut self, table: &Table, bytes: Result<Buffer>) -> Result<()> {
        let state = self.state();
        let lack = state.lack.take().expect("the get lacks a block");
        let GetOptions {
            fill_cache,
            verify_checksums,
            ..
        } = lack.options;
        let is_on_device = lack.on_device.is_some();
        let taken = match lack.on_device {
            Some(read) => table.take_from_device(lack.block, (*read, bytes), &state.supplied),
            None => bytes.map(Raw::Whole).and_then(|raw| {
                let reading = lack.charge;
                let taken = table.take(lack.block, &raw, verify_checksums, fill_cache, reading);
                taken.map(Some)
            }),
        };
        match taken {
            Ok(Some(block)) => {
                if !is_on_device {
                    table.trace_miss(lack.block, &block.block, &state.supplied);
                }
                state.supplied.push(block);
                Ok(())
            }
            // The get is missing the block again, and reads it from the table.
            Ok(None) => Ok(()),
            Err(error) => {
                state.reset();
                Err(error)
            }
        }
    }

    /// Returns the offset of the missing block; `None` if no block is missing.
    #[must_use]
    pub fn lacking_at(&self) -> Option<u64> {
        let lack = self.0.as_ref()?.lack.as_ref()?;
        Some(lack.block.handle.offset)
    }

    /// True if the missing block is in a tier below the cache: its request reads the device of the tier, not the table.
    #[must_use]
    pub fn lacks_only_device(&self) -> bool {
        let lack = self.0.as_ref().and_then(|state| state.lack.as_ref());
        lack.is_some_and(|lack| lack.on_device.is_some())
    }

    /// True if a block of the filter is missing.
    #[must_use]
    pub fn lacks_filter(&self) -> bool {
        let lack = self.0.as_ref().and_then(|state| state.lack.as_ref());
        let role = lack.map(|lack| lack.block.role);
        matches!(role, Some(CacheRole::Filter | CacheRole::FilterMeta))
    }

    /// Takes the missing block from `other`, a get on the same table that has just been supplied
    /// with it. Returns false if `other` does not have it.
    pub fn supply_from(&mut self, other: &TableGet) -> bool {
        let at = self.lacking_at();
        let last = other.0.as_ref().and_then(|other| other.supplied.last());
        let Some(block) = last.filter(|block| Some(block.offset) == at) else {
            return false;
        };
        let state = self.state();
        state.supplied.push(SuppliedBlock {
            offset: block.offset,
            role: block.role,
            block: block.block.clone(),
            charge: None,
        });
        state.lack = None;
        true
    }

    #[inline]
    pub(super) fn state(&mut self) -> &mut State {
        self.0.get_or_insert_default()
    }
}

impl State {
    pub(super) fn missing_block(&self) -> Option<MissingBlock> {
        self.lack.as_ref().map(|lack| lack.block)
    }

    #[inline]
    fn reset(&mut self) {
        self.lack = None;
        self.supplied.clear();
        self.supplied.forget_on_device();
        self.filter_passed = false;
        self.located = false;
        self.ahead = None;
        self.near = None;
        self.matched = false;
        self.walk.release();
    }
}

impl Table {
    /// Calls `visit` with the entries of the user key of `lookup` that are visible at its sequence
    /// number, newest first, until it breaks or there are no more. With timestamps, only entries with a
    /// timestamp up to that of `lookup` are visited.
    ///
    /// Range tombstones are ignored.
    ///
    /// # Errors
    ///
    /// `Corruption` if a block is damaged. The get is then over.
    #[inline]
    pub fn get(
        &self,
        lookup: &LookupKey,
        options: &GetOptions,
        state: &mut TableGet,
        visit: &mut impl FnMut(ParsedKey<'_>, ValueRef<'_>) -> ControlFlow<()>,
    ) -> Result<Progress> {
        let state = state.state();
        match self.get_step(lookup, state, visit) {
            Ok(Some(lack)) => {
                self.set_lack(state, lack, options);
                Ok(Progress::Lacks)
            }
            Ok(None) => {
                if state.matched {
                    self.count_true_positive(&state.supplied.counts);
                }
                state.reset();
                Ok(Progress::Ready)
            }
            Err(error) => {
                state.reset();
                Err(error)
            }
        }
    }

    /// Starts a get only to bring a block of the filter into the cache, ahead of the get that will need it.
    /// Returns true if the get lacks one, which is then supplied as after [`Table::get`]. False if the filter
    /// is in memory, and without a cache to keep the block.
    pub fn lacks_filter_ahead(
        &self,
        lookup: &LookupKey,
        options: &GetOptions,
        state: &mut TableGet,
    ) -> bool {
        let state = state.state();
        state.reset();
        if self.params.cache.is_none() || !options.fill_cache {
            return false;
        }
        match self.may_contain(lookup, &state.supplied) {
            Ok(Err(lack)) => {
                self.set_lack(state, lack, options);
                true
            }
            // The get itself counts the lookup, and reports the error.
            Ok(Ok(_)) | Err(_) => {
                state.supplied.counts.forget();
                false
            }
        }
    }

    fn set_lack(&self, state: &mut State, lack: MissingBlock, options: &GetOptions) {
        let on_device = state.supplied.take_on_device(lack.handle.offset);
        let charge = match &on_device {
            Some(read) => self.charge_read(read.request()),
            None => self.charge_read(&self.request(lack, 0)),
        };
        state.lack = Some(Lack {
            block: lack,
            options: *options,
            charge,
            on_device: on_device.map(Box::new),
        });
    }

    /// Starts a get for [`Table::get`] with a filter lookup, if the filter is in memory. Returns false,
    /// and ends the get, if the table does not have the key.
    ///
    /// # Errors
    ///
    /// `Corruption` if a block is damaged. The get is then over.
    #[inline]
    pub fn admits(&self, lookup: &LookupKey, state: &mut TableGet) -> Result<bool> {
        let state = state.state();
        if state.filter_passed {
            return Ok(true);
        }
        match self.may_contain(lookup, &state.supplied) {
            Ok(Ok(true)) => state.filter_passed = true,
            Ok(Err(_)) => {}
            Ok(Ok(false)) => {
                state.reset();
                return Ok(false);
            }
            Err(error) => {
                state.reset();
                return Err(error);
            }
        }
        Ok(true)
    }

    /// Continues a get after [`Table::admits`]: searches the index as far as it is in memory, and
    /// prefetches the cache entry of the data block.
    ///
    /// # Errors
    ///
    /// `Corruption` if a block is damaged. The get is then over.
    #[inline]
    pub fn locate(&self, lookup: &LookupKey, state: &mut TableGet) -> Result<()> {
        let state = state.state();
        // Resumed gets, tables with rewritten keys, and filters that are not in memory take the
        // regular path.
        if !state.filter_passed || state.located || self.pad > 0 {
            return Ok(());
        }
        state.walk.reset_to(self);
        state.walk.start(Landing::Seek);
        state.located = true;
        match state.walk.settle(self, &state.supplied, lookup.internal()) {
            Ok(lack) => {
                if lack.is_none() && state.walk.valid() {
                    self.announce(state.walk.handle());
                }
            }
            Err(error) => {
                state.reset();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Continues a get after [`Table::locate`]: prefetches the data block.
    #[inline]
    pub fn reach(&self, state: &mut TableGet) {
        let state = state.state();
        if state.located && state.walk.valid() {
            self.prefetch(state.walk.handle());
        }
    }

    /// Continues a get after [`Table::reach`]: pins the data block, if it is in memory, and prefetches
    /// the entry.
    #[inline]
    pub fn hold(&self, lookup: &LookupKey, state: &mut TableGet) {
        let state = state.state();
        if !state.located || !state.walk.valid() {
            return;
        }
        let lack = MissingBlock {
            handle: state.walk.handle(),
            role: CacheRole::Data,
        };
        let block = self.find_to_search(lack, &state.supplied);
        state.near = None;
        if let Some(block) = &block
            && let Some(words) = DataWords::parse(block.tail())
            && let Ok(layout) = BlockLayout::parse(block, BlockKind::Data)
            && let Some(place) = words.near(block, &layout, lookup.user())
        {
            block.prefetch_at(place.at(), FOUND);
            state.near = Some(place);
        }
        state.ahead = Some(block);
    }

    /// Runs [`Table::get`] and reads missing blocks on the calling thread.
    ///
    /// # Errors
    ///
    /// Those of [`Table::get`], and read errors.
    pub fn get_now(
        &self,
        lookup: &LookupKey,
        options: &GetOptions,
        io: &Io,
        visit: &mut impl FnMut(ParsedKey<'_>, ValueRef<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut state = TableGet::new();
        while self.get(lookup, options, &mut state, visit)? == Progress::Lacks {
            let bytes = io.read_now(&state.request(self));
            state.supply(self, bytes)?;
        }
        Ok(())
    }

    #[inline]
    fn get_step(
        &self,
        lookup: &LookupKey,
        state: &mut State,
        visit: &mut impl FnMut(ParsedKey<'_>, ValueRef<'_>) -> ControlFlow<()>,
    ) -> Result<Option<MissingBlock>> {
        if !state.filter_passed {
            match self.may_contain(lookup, &state.supplied)? {
                Ok(false) => return Ok(None),
                Ok(true) => state.filter_passed = true,
                Err(lack) => return Ok(Some(lack)),
            }
        }
        if self.pad == 0 {
            return self.get_in_blocks(lookup.internal(), state, visit);
        }
        let mut target = std::mem::take(&mut state.target);
        let stored = self.strip_target(lookup.internal(), &mut target);
        let result = self.get_in_blocks(stored, state, visit);
        state.target = target;
        result
    }

    #[inline]
    fn get_in_blocks(
        &self,
        target: &[u8],
        state: &mut State,
        visit: &mut impl FnMut(ParsedKey<'_>, ValueRef<'_>) -> ControlFlow<()>,
    ) -> Result<Option<MissingBlock>> {
        if !state.located {
            state.walk.reset_to(self);
            state.walk.start(Landing::Seek);
            state.located = true;
        }
        loop {
            if let Some(lack) = state.walk.settle(self, &state.supplied, target)? {
                return Ok(Some(lack));
            }
            if !state.walk.valid() {
                return Ok(None);
            }
            let handle = state.walk.handle();
            let lack = MissingBlock {
                handle,
                role: CacheRole::Data,
            };
            let found = match state.ahead.take() {
                Some(found) => found,
                None => self.find_to_search(lack, &state.supplied),
            };
            let Some(block) = found else {
                self.check(handle, state.walk.found_in(self))?;
                return Ok(Some(lack));
            };
            // Twice, so that the end of the search jumps there directly.
            if self
                .get_in_block(&block, lack, target, state, visit)?
                .is_break()
            {
                if is_traced() {
                    self.trace_search(&block, &state.data, &state.supplied);
                }
                return Ok(None);
            }
            if is_traced() {
                self.trace_search(&block, &state.data, &state.supplied);
            }
            // The walk holds its own index block, so the supplied blocks are no longer needed.
            state.supplied.clear();
            // The key was the last one of its block. The next block has more of it only if the
            // separator is not greater.
            let separator = state.walk.user_key(self);
            let user = key::user_key(target);
            let order = key::compare_without_timestamp(&self.order, separator, user);
            if order == Ordering::Greater {
                return Ok(None);
            }
            state.walk.step(self, false)?;
        }
    }

    /// Visits the entries in one data block; breaks if later blocks cannot have any more.
    #[inline]
    fn get_in_block(
        &self,
        block: &Buffer,
        lack: MissingBlock,
        target: &[u8],
        state: &mut State,
        visit: &mut impl FnMut(ParsedKey<'_>, ValueRef<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let bad = |error| self.bad(error, lack.handle.offset);
        if state.global != self.global_seqno {
            state.global = self.global_seqno;
            state.data = DataCursor::new().with_global_seqno(self.global_seqno);
        }
        let layout = BlockLayout::parse(block, BlockKind::Data).map_err(bad)?;
        let State {
            data,
            padded,
            matched,
            near,
            ..
        } = state;
        let words = DataWords::parse(block.tail());
        let sought = match (near.take(), &words) {
            (Some(near), Some(words)) => {
                data.seek_from(&near, words, block, &layout, &self.order, target)
            }
            _ => data.seek_point_with(words, block, &layout, &self.order, target),
        };
        sought.map_err(bad)?;
        let user = key::user_key(target);
        while data.valid() {
            self.verify_entry(data, block).map_err(bad)?;
            let mut found = key::parse(data.key(block)).map_err(bad)?;
            if !key::is_same_key(&self.order, found.user_key, user) {
                return Ok(ControlFlow::Break(()));
            }
            if self.pad > 0 {
                padded.clear();
                padded.extend_from_slice(found.user_key);
                padded.resize(found.user_key.len() + self.pad, 0);
                found.user_key = padded;
            }
            *matched = true;
            self.count_use((lack.handle, block), (&layout, data));
            let value = ValueRef {
                buffer: block,
                range: data.value_range(),
            };
            if visit(found, value).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            data.next(block, &layout).map_err(bad)?;
        }
        Ok(ControlFlow::Continue(()))
    }
}
