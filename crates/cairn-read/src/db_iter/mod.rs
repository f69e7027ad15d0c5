//! The iterator over the keys of a view: for each key, its newest visible version, if that is a
//! value.
//!
//! The merging iterator below yields every version of every key, newest first. [`DbIter`] skips
//! versions newer than the sequence number or timestamp of the read, applies deletions and range
//! tombstones, merges operands into their base value and reads values from blob files.
//!
//! Forward, the first visible version of a key determines its value, and the iterator is positioned
//! on it in place: the value is pinned in its block. The key is copied, because the next step
//! compares it and because the copy is cheaper to return. Backward, versions are visited oldest
//! first and gathered until the previous key begins, unless the key is known to have a single
//! version. A change of direction is a seek.
//!
//! Each direction is a loop over the state kept here (`Task`), which can stop at any entry if a
//! block is missing and continue from there. `DbIter::fetch_pending` reads the missing blocks on
//! the calling thread.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use cairn_format::key;
use cairn_observe::Activity;
use cairn_options::{ReadOptions, ReadTier};
use cairn_platform::ReadRequest;
use cairn_table::Table;
use cairn_types::{Error, KeyOrder, Progress, Result, SequenceNumber, ValueKind};
use cairn_version::{TableRef, open_together};

use crate::blob::BlobReadOptions;
use crate::blobs_ahead::BlobsAhead;
use crate::columns::Columns;
use crate::level::storage_forbidden;
use crate::merging_iter::MergingIter;
use crate::range_del_aggregator::RangeDelAggregator;
use crate::read_deadline::ReadDeadline;
use crate::value::{Value, strip_ttl};
use crate::view::View;
use life::HeldView;

/// The position of the iterator.
enum Position {
    Invalid,
    /// On the entry of the merging iterator, whose user key is in `DbIter::key`. The value is the
    /// given part of the value of the entry.
    Entry(Part),
    /// On the key in `DbIter::key`, with this value.
    Value(Value),
    /// On the key in `DbIter::key`, whose value has not been read from the blob file that this
    /// encoded blob index refers to.
    Index(Value),
    /// On the key in `DbIter::key`, with this encoded entity and the range of its default column.
    Entity(Value, Range<usize>),
}

/// The use of prefix filters by seeks.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum PrefixUse {
    /// Never: all keys are returned.
    #[default]
    Never,
    /// Always: keys with other prefixes than the seek target may be missing.
    Always,
    /// If all keys up to the upper bound have the prefix of the target, so that none is missing.
    WithinBound,
}

impl PrefixUse {
    fn of(view: &View, options: &ReadOptions) -> PrefixUse {
        match view.family.prefix_extractor {
            Some(_) if options.auto_prefix_mode && !options.total_order_seek => {
                PrefixUse::WithinBound
            }
            Some(_) if !options.total_order_seek => PrefixUse::Always,
            _ => PrefixUse::Never,
        }
    }
}

/// A part of the value of an entry.
enum Part {
    All,
    Range(Range<usize>),
    /// The default column of an entity.
    Column(Range<usize>),
}

/// The task in progress while the iterator has no position.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Task {
    /// None.
    Rest,
    /// Searching for the next key that has a value.
    Forward,
    /// Collecting the operands of `key`.
    Collect,
    /// Searching for the previous key that has a value.
    Backward,
    /// Searching forward for the newest visible version of `key`, which has too many versions to
    /// gather.
    Newest,
    /// Searching for the next version (`iter_start_ts`).
    NextVersion,
    /// Searching for the previous version (`iter_start_ts`).
    PrevVersion,
}

/// The newest version of a key that is not a merge operand, among those gathered.
#[derive(Default)]
enum Newest {
    #[default]
    Missing,
    Value(Value),
    Entity(Value),
    Blob(Value),
}

/// An iterator over the keys of a view, in order, at a sequence number.
pub struct DbIter {
    seq: SequenceNumber,
    settings: Settings,
    bounds: Bounds,
    merging: MergingIter,
    /// The range tombstones; `None` if there are none.
    range_dels: Option<Box<RangeDelAggregator>>,
    position: Position,
    task: Task,
    back: bool,
    /// True if the merging iterator is not at its place: before `key` backward, at the current version forward
    /// (`iter_start_ts`).
    needs_reposition: bool,
    /// The fast ranges forward and backward.
    fast_ranges: [FastRange; 2],
    /// The current user key, or the key whose versions are being skipped.
    key: Vec<u8>,
    versions: Versions,
    counters: Counters,
    /// The current run of deletions, if it may become a range tombstone.
    conversion: Option<Box<RangeConversion>>,
    target: Vec<u8>,
    /// The target of the last reseek in this direction. A reseek must go further, so that a file
    /// with keys out of order cannot cause an endless loop.
    last_reseek_target: Vec<u8>,
    /// Values in blob files that are being read (`async_io`).
    blobs_ahead: Option<Box<RefCell<BlobsAhead>>>,
    error: Option<Error>,
    /// With `iter_start_ts`, all versions of a key are returned.
    history: Option<Box<History>>,
    /// The last field: dropped after everything else that keeps files of the view open.
    view: HeldView,
}

/// Settings derived from the read options and the family.
#[derive(Default)]
struct Settings {
    read_ts: Option<Vec<u8>>,
    /// True if keys have no timestamps.
    no_timestamps: bool,
    /// True if values are stored with TTL timestamps, which are stripped.
    dated: bool,
    /// True if steps may use the fast path: no timestamps of either kind and no limit of skipped
    /// entries.
    fast_path: bool,
    /// The use of prefix filters.
    prefix_use: PrefixUse,
    /// `prefix_same_as_start`: only keys with the prefix of the seek target are returned.
    same_prefix: bool,
    cache_only: bool,
    /// True if the tables of a seek are opened together.
    opens_together: bool,
    /// True if seeks may leave out children until the next step.
    lazy_seeks: bool,
    /// `allow_unprepared_value`: values in blob files are read by [`DbIter::prepare_value`].
    defer_blob_values: bool,
    blob_options: BlobReadOptions,
    /// `max_skippable_internal_keys`: maximum number of entries that a step may skip; 0 for no
    /// limit.
    max_skippable: u64,
    read_deadline: ReadDeadline,
    has_statistics: bool,
}

impl Settings {
    #[inline]
    fn of(view: &View, options: &ReadOptions) -> Settings {
        let (no_timestamps, dated) = (view.family.order.timestamp_size() == 0, view.family.dated);
        let cache_only = options.read_tier == ReadTier::BlockCache;
        Settings {
            read_ts: options.timestamp.clone(),
            no_timestamps,
            dated,
            fast_path: no_timestamps && !dated && options.max_skippable_internal_keys == 0,
            prefix_use: PrefixUse::of(view, options),
            same_prefix: options.prefix_same_as_start && view.family.prefix_extractor.is_some(),
            cache_only,
            opens_together: bounds::opens_together(view, options),
            // With readahead, a scan is expected.
            lazy_seeks: !options.async_io
                && options.readahead_size == 0
                && matches!(
                    view.family.order,
                    KeyOrder::Bytewise | KeyOrder::ReverseBytewise
                ),
            defer_blob_values: options.allow_unprepared_value,
            blob_options: BlobReadOptions {
                fill_cache: options.fill_cache,
                cache_only,
            },
            max_skippable: options.max_skippable_internal_keys,
            read_deadline: ReadDeadline::of(options),
            has_statistics: view.family.statistics.is_some(),
        }
    }
}

/// The range of keys that the iterator returns.
#[derive(Default)]
struct Bounds {
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
    /// The prefix that all keys must have until the next seek.
    prefix: Option<Vec<u8>>,
    /// True if seeks currently use prefix filters.
    filtering: bool,
}

/// The versions of `DbIter::key` found so far.
#[derive(Default)]
struct Versions {
    /// True if further versions of the key are skipped (forward) or gathered (backward).
    same_key: bool,
    /// Forward: true if the merging iterator is still on the last entry that the current value was made of, which
    /// the next step leaves without counting it as hidden.
    on_returned: bool,
    /// The sequence number of the newest tombstone over the key.
    covered_by: SequenceNumber,
    /// Merge operands: newest first if forward, oldest first if backward.
    operands: Vec<Value>,
    newest: Newest,
    /// Backward: the user key of `newest` if that is a blob or an entity; operands above it may have other timestamps.
    base_key: Vec<u8>,
}

impl Versions {
    /// Forgets the versions, and keeps the memory of their list.
    fn reset(&mut self) {
        self.same_key = false;
        self.on_returned = false;
        self.covered_by = SequenceNumber::ZERO;
        self.operands.clear();
        self.newest = Newest::Missing;
        self.base_key = Vec::new();
    }
}

/// Counters of skipped entries.
#[derive(Default)]
struct Counters {
    /// Entries skipped since the last reseek.
    skipped: u64,
    /// Entries skipped by the current call.
    hidden: u64,
    /// Counts for statistics.
    counts: IterCounts,
    /// Counter of hidden memtable entries, if they can trigger a flush.
    flush_trigger: Option<Box<ScanFlushTrigger>>,
}

impl DbIter {
    /// Moves to the first key at or after `target`. Keys have no timestamps.
    pub fn seek(&mut self, target: &[u8]) {
        let began = self.view.family.began();
        self.seek_forward(target);
        self.count_seek(began);
    }

    fn seek_forward(&mut self, target: &[u8]) {
        if !self.begin_seek(false) {
            return;
        }
        self.bounds.prefix = self.prefix_of(target);
        let lower = self.bounds.lower.take();
        let from = match &lower {
            Some(lower) if self.compare(target, lower).is_lt() => lower,
            _ => target,
        };
        self.choose_filter(Some(from), false);
        self.set_target_newest_visible(from);
        self.bounds.lower = lower;
        self.seek_and_run(Task::Forward);
    }

    /// Moves to the last key at or before `target`.
    pub fn seek_for_prev(&mut self, target: &[u8]) {
        let began = self.view.family.began();
        self.seek_backward(target);
        self.count_seek(began);
    }

    fn seek_backward(&mut self, target: &[u8]) {
        if self
            .bounds
            .upper
            .as_ref()
            .is_some_and(|upper| self.compare(target, upper).is_ge())
        {
            return self.seek_last(self.prefix_of(target));
        }
        if !self.begin_seek(true) {
            return;
        }
        self.bounds.prefix = self.prefix_of(target);
        self.choose_filter(Some(target), true);
        self.set_target_after_all(target);
        self.seek_and_run(Task::Backward);
    }

    /// Moves to the first key.
    pub fn seek_to_first(&mut self) {
        let began = self.began_at_end(self.bounds.lower.is_some());
        self.seek_first();
        self.count_seek(began);
    }

    fn seek_first(&mut self) {
        if !self.begin_seek(false) {
            return;
        }
        self.bounds.prefix = None;
        self.choose_filter(None, false);
        if let Some(lower) = self.bounds.lower.take() {
            // With `prefix_same_as_start`, iteration starts at the bound.
            self.bounds.prefix = self.prefix_of(&lower);
            self.set_target_newest_visible(&lower);
            self.bounds.lower = Some(lower);
            self.seek_and_run(Task::Forward);
        } else {
            let tables = self.settings.opens_together.then(|| self.open_tables(None));
            let _progress = self.merging.seek_to_first();
            self.run(Task::Forward);
            drop(tables);
            if self.valid() {
                self.bounds.prefix = self.prefix_of(self.key());
            }
        }
    }

    /// Moves to the last key. With `prefix_same_as_start`, its prefix is that of the iteration; with an upper bound, that is
    /// the prefix of the bound, as in RocksDB.
    pub fn seek_to_last(&mut self) {
        let began = self.began_at_end(self.bounds.upper.is_some());
        let upper = self.bounds.upper.as_deref();
        self.seek_last(upper.and_then(|upper| self.prefix_of(upper)));
        if self.valid() && self.bounds.upper.is_none() {
            self.bounds.prefix = self.prefix_of(self.key());
        }
        self.count_seek(began);
    }

    fn seek_last(&mut self, prefix: Option<Vec<u8>>) {
        if !self.begin_seek(true) {
            return;
        }
        self.choose_filter(None, true);
        self.bounds.prefix = prefix;
        if let Some(upper) = self.bounds.upper.take() {
            self.set_target_before_all(&upper);
            self.bounds.upper = Some(upper);
            self.seek_and_run(Task::Backward);
        } else {
            let tables = self.settings.opens_together.then(|| self.open_tables(None));
            let _progress = self.merging.seek_to_last();
            self.run(Task::Backward);
            drop(tables);
        }
    }

    /// Moves to the next key. Does nothing unless the iterator is valid.
    #[inline]
    pub fn next(&mut self) {
        self.step_forward::<false>(&mut |_, _| {});
    }

    /// [`DbIter::next`] combined with [`DbIter::raw_key`] and [`DbIter::value`]: passes both to `visit`, if there is a next
    /// entry, and returns true. The cheapest way to read both.
    #[inline]
    pub fn next_shown(&mut self, mut visit: impl FnMut(&[u8], &[u8])) -> bool {
        self.step_forward::<true>(&mut visit)
    }

    /// Moves to the next key and, if `VISITS`, passes the entry to `visit`. Returns true if there
    /// is an entry.
    #[inline(always)]
    fn step_forward<const VISITS: bool>(&mut self, visit: &mut impl FnMut(&[u8], &[u8])) -> bool {
        self.counters.hidden = 0;
        self.counters.skipped = 0;
        if let Some(trigger) = &mut self.counters.flush_trigger {
            trigger.begin_step();
        }
        let fast = self.fast_ranges[0].is_enabled()
            && !self.back
            && matches!(self.position, Position::Entry(Part::All));
        if fast && self.next_fast::<VISITS>(visit) {
            return true;
        }
        self.next_general(fast);
        if VISITS && self.valid() {
            visit(self.raw_key(), self.value());
        }
        self.valid()
    }

    /// Moves to the next key by the general path. If `moved`, the merging iterator has already left
    /// the current entry.
    // Not inlined, to keep the fast path short.
    #[inline(never)]
    fn next_general(&mut self, moved: bool) {
        let on_returned = std::mem::take(&mut self.versions.on_returned);
        match &self.position {
            Position::Invalid => return,
            Position::Entry(_) if moved => {}
            // The merging iterator is on the current entry.
            Position::Entry(_) if !self.back => {
                let _progress = self.merging.next();
            }
            _ if self.back || self.needs_reposition => {
                self.back = false;
                self.needs_reposition = false;
                self.last_reseek_target.clear();
                self.set_target_after_key();
                let _progress = self.merging.seek(&self.target);
            }
            _ if on_returned => {
                let _progress = self.merging.next();
            }
            _ => {}
        }
        self.versions.same_key = true;
        self.position = Position::Invalid;
        self.run(Task::Forward);
        self.refresh_fast_ranges();
        self.count_step(false);
    }

    /// Moves to the previous key. Does nothing unless the iterator is valid.
    pub fn prev(&mut self) {
        self.counters.hidden = 0;
        self.versions.on_returned = false;
        match &self.position {
            Position::Invalid => return,
            Position::Entry(part) if self.back => {
                let fast = self.fast_ranges[1].is_enabled() && matches!(part, Part::All);
                let _progress = self.merging.prev();
                if fast && self.prev_fast() {
                    return;
                }
            }
            _ => {}
        }
        self.begin_run_back();
        if !self.back || self.needs_reposition {
            self.back = true;
            if self.settings.prefix_use == PrefixUse::WithinBound {
                // The upper bound does not limit the prefixes of preceding keys.
                self.choose_filter(None, true);
            }
            self.seek_before_key();
        }
        self.position = Position::Invalid;
        self.versions.same_key = false;
        self.last_reseek_target.clear();
        self.run(Task::Backward);
        self.refresh_fast_ranges();
        self.count_step(true);
    }

    /// Moves to the next key while entries are plain values or older versions within the fast range
    /// (see [`fast_path`]). Returns false, for the general path to continue, at any other entry.
    /// Passes the entry to `visit` if `VISITS`.
    #[inline(always)]
    fn next_fast<const VISITS: bool>(&mut self, visit: &mut impl FnMut(&[u8], &[u8])) -> bool {
        loop {
            let _progress = self.merging.next();
            if !self.merging.valid() {
                return false;
            }
            let (internal, value, value_len) = match VISITS {
                true => {
                    let (internal, value) = self.merging.entry();
                    (internal, value, value.len())
                }
                false => {
                    let (internal, value_len) = self.merging.head();
                    (internal, &[][..], value_len)
                }
            };
            let user = key::user_key(internal);
            if self.is_same(user, &self.key) {
                if self.counters.skipped >= self.view.family.max_sequential_skip {
                    return false;
                }
                self.counters.skipped += 1;
                self.counters.hidden += 1;
                self.counters.counts.skipped += 1;
                continue;
            }
            if !self.is_plain_value(internal) || !self.fast_ranges[0].contains_forward(user) {
                return false;
            }
            if cfg!(debug_assertions) && (self.is_past_end(user) || !self.is_uncovered(user)) {
                self.fail(out_of_range());
                return false;
            }
            let bytes = user.len() + value_len;
            key::copy_user_key(&mut self.key, internal);
            if VISITS {
                visit(&self.key, value);
            }
            self.count_fast_step(false, bytes as u64);
            return true;
        }
    }

    /// Positions on the entry to which the merging iterator has just stepped back, if it is a plain
    /// value within the fast range (see [`fast_path`]) and the newest version of its key. Returns
    /// false otherwise. If it returns true, the iterator has a position or an error.
    #[inline]
    fn prev_fast(&mut self) -> bool {
        if !self.merging.valid() {
            return false;
        }
        let (internal, value_len) = self.merging.head();
        let user = key::user_key(internal);
        if !self.is_plain_value(internal)
            || !self.fast_ranges[1].contains_backward(user)
            || !self
                .merging
                .is_newest_version(user, |a, b| self.is_same(a, b))
        {
            return false;
        }
        if cfg!(debug_assertions) && (self.is_before_start(user) || !self.is_uncovered(user)) {
            self.fail(out_of_range());
            return true;
        }
        let bytes = user.len() + value_len;
        key::copy_user_key(&mut self.key, internal);
        self.count_fast_step(true, bytes as u64);
        true
    }

    /// True if the internal key is that of a visible plain value.
    #[inline]
    fn is_plain_value(&self, internal: &[u8]) -> bool {
        let packed = key::packed(internal);
        // The truncation is intended: the kind is the lowest byte.
        packed as u8 == ValueKind::Value as u8 && packed >> 8 <= self.seq.0
    }

    /// Copies the user key of the merging iterator to `key`.
    #[inline]
    fn save_key(&mut self) {
        key::copy_user_key(&mut self.key, self.merging.key());
    }

    /// True if the iterator is positioned on a key.
    #[inline]
    #[must_use]
    pub fn valid(&self) -> bool {
        !matches!(self.position, Position::Invalid)
    }

    /// The user key, including its timestamp.
    #[inline]
    fn whole_key(&self) -> &[u8] {
        match &self.position {
            Position::Invalid => &[],
            _ => &self.key,
        }
    }

    /// The key, without its timestamp; empty if the iterator is not valid.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &[u8] {
        let key = self.whole_key();
        match self.settings.no_timestamps {
            true => key,
            false => key::strip_timestamp(key, self.view.family.order.timestamp_size()),
        }
    }

    /// The key as RocksDB's iterators return it: [`DbIter::key`], but [`DbIter::internal_key`] with `iter_start_ts`.
    #[inline]
    #[must_use]
    pub fn raw_key(&self) -> &[u8] {
        match self.settings.no_timestamps {
            true => self.whole_key(),
            false => self.internal_key().unwrap_or_else(|| self.key()),
        }
    }

    /// The timestamp of the key; empty if keys have none.
    #[must_use]
    pub fn timestamp(&self) -> &[u8] {
        &self.whole_key()[self.key().len()..]
    }

    /// The value, or the default column of an entity; empty if the iterator is not valid.
    #[inline]
    #[must_use]
    pub fn value(&self) -> &[u8] {
        match &self.position {
            Position::Invalid | Position::Index(_) => &[],
            Position::Entry(Part::All) => self.merging.value(),
            Position::Entry(Part::Range(range) | Part::Column(range)) => {
                &self.merging.value()[range.clone()]
            }
            Position::Value(value) => value,
            Position::Entity(entity, range) => &entity[range.clone()],
        }
    }

    /// [`DbIter::key`] and [`DbIter::value`]; `None` if the iterator is not valid.
    #[inline]
    #[must_use]
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.valid().then(|| (self.key(), self.value()))
    }

    /// The value, pinned beyond the next step; empty if the iterator is not valid.
    #[must_use]
    pub fn value_pinned(&self) -> Value {
        match &self.position {
            Position::Invalid | Position::Index(_) => Vec::new().into(),
            Position::Entry(Part::All) => self.merging.value_pin(),
            Position::Entry(Part::Range(range) | Part::Column(range)) => {
                self.merging.value_pin().slice(range.clone())
            }
            Position::Value(value) => value.clone(),
            Position::Entity(entity, range) => entity.clone().slice(range.clone()),
        }
    }

    /// The columns of an entity, or a plain value as a single column with an empty name. `None` if
    /// the iterator is not valid or the entity cannot be decoded, an error that a get reports.
    #[must_use]
    pub fn columns(&self) -> Option<Columns> {
        match &self.position {
            Position::Invalid => None,
            Position::Entry(Part::Column(_)) => Columns::of_entity(self.merging.value_pin()).ok(),
            Position::Entity(entity, _) => Columns::of_entity(entity.clone()).ok(),
            Position::Entry(_) | Position::Value(_) | Position::Index(_) => {
                Some(Columns::of_value(self.value_pinned()))
            }
        }
    }

    /// The error that ended the iteration, if any.
    ///
    /// # Errors
    ///
    /// Those of files, of a merge or of the options; `Incomplete` if `read_tier` or
    /// `max_skippable_internal_keys` ended the iteration.
    pub fn status(&self) -> Result<()> {
        self.error.clone().map_or(Ok(()), Err)
    }

    /// Reads the value of the entry if that was deferred (`allow_unprepared_value`). Returns false
    /// if the read fails; the error is then the status, and the iterator is not valid.
    pub fn prepare_value(&mut self) -> bool {
        let Position::Index(index) = &self.position else {
            return self.valid();
        };
        match self
            .blob(&self.key, index)
            .and_then(|value| self.strip_ttl(value))
        {
            Ok(value) => self.position = Position::Value(value),
            Err(error) => self.fail(error),
        }
        self.valid()
    }

    /// Invalidates the iterator with status `error`.
    pub fn refuse(&mut self, error: Error) {
        self.fail(error);
    }

    /// The view of the iterator.
    #[must_use]
    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// The sequence number of the iterator.
    #[must_use]
    pub fn seq(&self) -> SequenceNumber {
        self.seq
    }

    /// Prepares a seek. Returns false if the iterator could not be created.
    fn begin_seek(&mut self, back: bool) -> bool {
        self.record_lazy_seek();
        self.position = Position::Invalid;
        self.task = Task::Rest;
        self.back = back;
        self.needs_reposition = false;
        self.versions.same_key = false;
        self.versions.on_returned = false;
        self.counters.skipped = 0;
        self.counters.hidden = 0;
        self.last_reseek_target.clear();
        self.versions.operands.clear();
        self.forget_run();
        if let Some(ahead) = &mut self.blobs_ahead {
            ahead.get_mut().clear();
        }
        if let Some(trigger) = &mut self.counters.flush_trigger {
            trigger.end_scan();
        }
        if self.merging.is_empty() && self.error.is_some() {
            return false;
        }
        self.error = None;
        true
    }

    /// Records the benefit of the last seek, if it was lazy.
    #[inline]
    fn record_lazy_seek(&mut self) {
        if let Some(has_gained) = self.merging.take_lazy_outcome() {
            self.view.family.lazy_seeks.record(has_gained);
        }
    }

    /// Seeks the merging iterator to the target and runs `task`.
    #[inline]
    fn seek_and_run(&mut self, task: Task) {
        if self.settings.opens_together {
            return self.open_and_run(task);
        }
        self.seek_target_and_run(task);
    }

    #[inline]
    fn seek_target_and_run(&mut self, task: Task) {
        match self.seek_sources() {
            Ok(()) => self.run(task),
            Err(error) => self.fail(error),
        }
    }

    /// [`DbIter::seek_and_run`] that opens the tables with the target together before.
    #[cold]
    fn open_and_run(&mut self, task: Task) {
        // Held until the sources have taken them: a table may be closed when it is not in use.
        let tables = self.open_tables(Some(&self.target));
        self.seek_target_and_run(task);
        drop(tables);
    }

    /// Opens the tables that a seek to `target`, or to the end if there is none, needs. An error is reported when the
    /// seek opens the table again.
    #[cold]
    fn open_tables(&self, target: Option<&[u8]>) -> Vec<Arc<Table>> {
        if self
            .settings
            .read_deadline
            .check(&self.view.family)
            .is_err()
        {
            return Vec::new();
        }
        let unopened = self.merging.unopened(target, self.back);
        let opened = match unopened.len() {
            0 | 1 => Vec::new(),
            _ => open_together(&unopened, &self.view.family.io),
        };
        opened
            .into_iter()
            .flatten()
            .map(TableRef::into_arc)
            .collect()
    }

    /// Runs `task` to completion, reading missing blocks.
    #[inline]
    fn run(&mut self, task: Task) {
        self.task = match self.history.is_some() {
            false => task,
            true => task.of_versions(),
        };
        while self.task != Task::Rest {
            let step = match self.task {
                Task::Rest => return,
                Task::Forward => self.find_next_entry(),
                Task::Collect => self.collect_operands(),
                Task::Backward => self.find_prev_entry(),
                Task::Newest => self.find_newest(),
                Task::NextVersion => self.find_next_version(),
                Task::PrevVersion => self.find_prev_version(),
            };
            match step {
                Ok(Progress::Ready) => {}
                Ok(Progress::Lacks) => self.fetch_pending(),
                Err(error) => self.fail(error),
            }
        }
    }

    #[cold]
    fn fetch_pending(&mut self) {
        let view = self.view.clone();
        let read_deadline = self.settings.read_deadline;
        let mut read = |requests: &[ReadRequest]| {
            read_deadline.read_batch(&view.family, Activity::DbIterator, requests)
        };
        while self.merging.is_waiting() {
            if self.settings.cache_only && self.merging.lacks_storage() {
                self.merging.trace_refused();
                return self.fail(storage_forbidden());
            }
            self.merging.wait_once(&mut read);
        }
    }

    #[cold]
    fn fail(&mut self, error: Error) {
        self.error = Some(error);
        self.position = Position::Invalid;
        self.task = Task::Rest;
        self.versions.operands.clear();
        self.forget_run();
    }

    /// Positions on this part of the entry of the merging iterator.
    #[inline]
    fn set_entry(&mut self, part: Part) -> Result<Progress> {
        self.save_key();
        self.position = Position::Entry(part);
        self.task = Task::Rest;
        match self.settings.dated {
            true => self.strip_ttl_timestamp(),
            false => Ok(Progress::Ready),
        }
    }

    /// Removes the TTL timestamp from the current part of the value.
    #[cold]
    fn strip_ttl_timestamp(&mut self) -> Result<Progress> {
        let value = self.merging.value();
        let range = match &self.position {
            Position::Entry(Part::All) => 0..value.len(),
            Position::Entry(Part::Range(range)) => range.clone(),
            _ => return Ok(Progress::Ready),
        };
        let len = strip_ttl(&value[range.clone()])?.len();
        self.position = Position::Entry(Part::Range(range.start..range.start + len));
        Ok(Progress::Ready)
    }

    /// Returns a stored value without its TTL timestamp.
    fn strip_ttl(&self, value: Value) -> Result<Value> {
        match self.settings.dated {
            true => value.strip_ttl(),
            false => Ok(value),
        }
    }

    #[inline]
    fn set_position(&mut self, position: Position) -> Result<Progress> {
        self.position = position;
        self.task = Task::Rest;
        Ok(Progress::Ready)
    }

    /// Ends the iteration in this direction.
    #[cold]
    fn end_iteration(&mut self) -> Result<Progress> {
        self.merging.status()?;
        self.end_run();
        self.set_position(Position::Invalid)
    }
}

mod backward;
pub(crate) mod bounds;
mod fast_path;
mod forward;
mod iter_stats;
mod life;
mod range_conversion;
mod scan_flush_trigger;
mod tombstone_skip;
mod versions;

use fast_path::{FastRange, out_of_range};
use iter_stats::IterCounts;
use range_conversion::RangeConversion;
use scan_flush_trigger::ScanFlushTrigger;
use versions::History;
