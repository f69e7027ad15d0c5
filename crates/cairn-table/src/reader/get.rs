//! Point lookups: the entries of one user key, newest first.
//!
//! A get runs over what is in memory. When a block is not there it stops and says so, and stays where it is in the
//! index; once the block was supplied it goes on from there, so that a key whose versions fill many blocks costs a step
//! for each. Blocks that were supplied are let go of with the data block behind which they are not needed. In
//! memory it allocates nothing and counts one reference: on the data block.
//!
//! A caller that makes several gets at once takes all of them through [`Table::admits`], then through
//! [`Table::locate`], [`Table::reach`] and [`Table::hold`], before the first is carried out. Each asks
//! for the memory that the next step touches and does not wait for it, so that the misses overlap.

use std::cmp::Ordering;
use std::ops::{ControlFlow, Range};

use cairn_format::block::{BlockKind, BlockLayout, DataCursor, DataWords};
use cairn_format::key::{self, LookupKey, ParsedKey};
use cairn_memory::CacheRole;
use cairn_observe::statistics::TableCounts;
use cairn_platform::{Buffer, Io, ReadRequest};
use cairn_types::{Progress, Result, SequenceNumber};

use super::block_fetcher::Raw;
use super::index::{IndexWalk, Landing};
use super::table::{Lack, Supplied, Table};

/// How a get reads.
#[derive(Clone, Copy, Debug)]
pub struct GetOptions {
    /// Keep the blocks that were read in the cache.
    pub fill_cache: bool,
    /// Check the checksums of the blocks that were read.
    pub verify_checksums: bool,
}

/// Bytes of an entry that are asked for before it is read.
const FOUND: usize = 128;

impl Default for GetOptions {
    fn default() -> GetOptions {
        GetOptions {
            fill_cache: true,
            verify_checksums: true,
        }
    }
}

/// A value where it lies.
#[derive(Clone, Debug)]
pub struct ValueRef<'a> {
    /// The block. Cloning it pins the value.
    pub buffer: &'a Buffer,
    /// Where in the block the value lies.
    pub range: Range<usize>,
}

impl ValueRef<'_> {
    /// The value.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }
}

/// The state of one get between its steps. May be used for get after get, of one table after
/// another; memory that it allocated is kept. Moving it about is cheap: it points to what it has once
/// there is something to keep.
#[derive(Default)]
pub struct TableGet(Option<Box<State>>);

#[derive(Default)]
pub(super) struct State {
    lack: Option<(Lack, GetOptions, ReadRequest)>,
    supplied: Supplied,
    filter_passed: bool,
    /// The walk has begun: it stands at the data block that comes next, or lacks a block of the index on its way there.
    located: bool,
    /// That block, if it was looked for; within, `None` if it is not in memory.
    ahead: Option<Option<Buffer>>,
    /// The table has the key.
    matched: bool,
    walk: IndexWalk,
    data: DataCursor,
    global: Option<SequenceNumber>,
    target: Vec<u8>,
    padded: Vec<u8>,
}

impl TableGet {
    /// The state of a get that has not begun.
    #[must_use]
    pub const fn new() -> TableGet {
        TableGet(None)
    }

    /// Forgets a get that was given up between its steps.
    pub fn reset(&mut self) {
        if let Some(state) = &mut self.0 {
            state.reset();
        }
    }

    /// The counts since the last call; none before the first table was searched.
    #[inline]
    #[must_use]
    pub fn counts(&self) -> Option<&TableCounts> {
        self.0.as_ref().map(|state| &state.supplied.counts)
    }

    /// Brings in what was counted since, all of it in `table`.
    pub fn bring_counts(&self, table: &Table) {
        if let Some(counts) = self.counts() {
            table.bring(counts);
        }
    }

    /// The block that the get lacks.
    ///
    /// # Panics
    ///
    /// Unless the last step returned [`Progress::Lacks`].
    #[must_use]
    pub fn request(&self) -> ReadRequest {
        let lack = self.0.as_ref().and_then(|state| state.lack.as_ref());
        lack.expect("the get lacks a block").2.clone()
    }

    /// Hands over what the get lacks; [`Table::get`] is then called again.
    ///
    /// # Errors
    ///
    /// That of the read, or `Corruption` if the block is damaged. The get is then over.
    pub fn supply(&mut self, table: &Table, bytes: Result<Buffer>) -> Result<()> {
        let state = self.state();
        let (lack, options, _) = state.lack.take().expect("the get lacks a block");
        let taken = bytes
            .map(Raw::Whole)
            .and_then(|raw| table.take(lack, &raw, options.verify_checksums, options.fill_cache));
        match taken {
            Ok(buffer) => {
                state.supplied.push((lack.handle.offset, buffer));
                Ok(())
            }
            Err(error) => {
                state.reset();
                Err(error)
            }
        }
    }

    /// Where the block that the get lacks lies in its file; `None` if it lacks none.
    #[must_use]
    pub fn lacking_at(&self) -> Option<u64> {
        let (lack, ..) = self.0.as_ref()?.lack.as_ref()?;
        Some(lack.handle.offset)
    }

    /// Hands over the block that this get lacks from `other`, a get of the same table that lacked
    /// the same block and was supplied with it just now. `false` if `other` does not have it.
    pub fn supply_from(&mut self, other: &TableGet) -> bool {
        let at = self.lacking_at();
        let last = other.0.as_ref().and_then(|other| other.supplied.last());
        let block = last.filter(|(have, _)| Some(*have) == at);
        if let Some(block) = block {
            let state = self.state();
            state.supplied.push(block.clone());
            state.lack = None;
        }
        block.is_some()
    }

    #[inline]
    fn state(&mut self) -> &mut State {
        self.0.get_or_insert_default()
    }
}

impl State {
    #[inline]
    fn reset(&mut self) {
        self.lack = None;
        self.supplied.clear();
        self.filter_passed = false;
        self.located = false;
        self.ahead = None;
        self.matched = false;
        self.walk.let_go();
    }
}

impl Table {
    /// Shows `visit` the entries of the user key of `lookup` that are not newer than its sequence
    /// number, newest first, until it breaks or there are no more. With timestamps: the entries
    /// of the key whose timestamps are not later than that of `lookup`.
    ///
    /// Range tombstones are not looked at.
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
                state.lack = Some((lack, *options, self.request(lack, 0)));
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

    /// Begins a get that [`Table::get`] will carry out: asks the filter, if it is in memory. `false` if the
    /// table surely does not have the key; the get is then over.
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

    /// Goes on with a get that the table [`admits`](Table::admits): asks the index, as far as it is in
    /// memory, and announces the data block to the cache.
    ///
    /// # Errors
    ///
    /// `Corruption` if a block is damaged. The get is then over.
    #[inline]
    pub fn locate(&self, lookup: &LookupKey, state: &mut TableGet) -> Result<()> {
        let state = state.state();
        // What is resumed, keys that have to be rewritten, and filters that were not there go the usual way.
        if !state.filter_passed || state.located || self.pad > 0 {
            return Ok(());
        }
        state.walk.turn_to(self);
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

    /// Goes on with a get that was [`Table::locate`]d: asks for the memory of the data block.
    #[inline]
    pub fn reach(&self, state: &mut TableGet) {
        let state = state.state();
        if state.located && state.walk.valid() {
            self.prefetch(state.walk.handle());
        }
    }

    /// Goes on with a get that was [`Table::reach`]ed: takes hold of the data block, if it is in
    /// memory, and asks for the memory of the entry.
    #[inline]
    pub fn hold(&self, lookup: &LookupKey, state: &mut TableGet) {
        let state = state.state();
        if !state.located || !state.walk.valid() {
            return;
        }
        let lack = Lack {
            handle: state.walk.handle(),
            role: CacheRole::Data,
        };
        let block = self.find_to_search(lack, &state.supplied);
        if let Some(block) = &block
            && let Some(words) = DataWords::parse(block.tail())
            && let Ok(layout) = BlockLayout::parse(block, BlockKind::Data)
            && let Some(at) = words.near(block, &layout, lookup.user())
        {
            block.prefetch_at(at, FOUND);
        }
        state.ahead = Some(block);
    }

    /// [`Table::get`] that reads what it lacks on the calling thread.
    ///
    /// # Errors
    ///
    /// Those of [`Table::get`], and of reading.
    pub fn get_now(
        &self,
        lookup: &LookupKey,
        options: &GetOptions,
        io: &Io,
        visit: &mut impl FnMut(ParsedKey<'_>, ValueRef<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut state = TableGet::new();
        while self.get(lookup, options, &mut state, visit)? == Progress::Lacks {
            let bytes = io.read_now(&state.request());
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
    ) -> Result<Option<Lack>> {
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
    ) -> Result<Option<Lack>> {
        if !state.located {
            state.walk.turn_to(self);
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
            let lack = Lack {
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
            if self
                .get_in_block(&block, lack, target, state, visit)?
                .is_break()
            {
                return Ok(None);
            }
            // The supplied blocks are used up: the walk holds its own block of the index.
            state.supplied.clear();
            // The key ran off the end of the block. It goes on in the next one only if the
            // separator between them does not already lie behind it.
            let separator = state.walk.user_key(self);
            let order = self
                .order
                .compare_without_timestamp(separator, key::user_key(target));
            if order == Ordering::Greater {
                return Ok(None);
            }
            state.walk.step(self, false)?;
        }
    }

    /// Visits what one data block has; breaks when there is no more to be found behind it.
    #[inline]
    fn get_in_block(
        &self,
        block: &Buffer,
        lack: Lack,
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
            ..
        } = state;
        let words = DataWords::parse(block.tail());
        data.seek_point_with(words, block, &layout, &self.order, target)
            .map_err(bad)?;
        let user = key::user_key(target);
        while data.valid() {
            let mut found = key::parse(data.key(block)).map_err(bad)?;
            if !self.same_key(found.user_key, user) {
                return Ok(ControlFlow::Break(()));
            }
            if self.pad > 0 {
                padded.clear();
                padded.extend_from_slice(found.user_key);
                padded.resize(found.user_key.len() + self.pad, 0);
                found.user_key = padded;
            }
            *matched = true;
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

    /// True if two user keys of the file are the same but for their timestamps.
    #[inline]
    fn same_key(&self, a: &[u8], b: &[u8]) -> bool {
        if self.order.is_bytewise() {
            a == b
        } else {
            self.order.compare_without_timestamp(a, b) == Ordering::Equal
        }
    }
}
