//! A view as an iterator shows it: one entry a key, the newest that is visible, if it
//! is a value.
//!
//! The merging iterator below shows every version of every key, newest first. [`DbIter`] picks:
//! versions beyond the read's sequence number or timestamp are passed over, deletions and range
//! tombstones hide what is older, merge operands are combined with what lies below them, values in
//! blob files are fetched.
//!
//! Forward, the first visible version of a key decides, and the iterator then stands on it in
//! place: the value is that of the block. The key is copied: the next step needs it, and who asks for it finds it
//! without a way through the sources. Backward, versions come oldest first, so those of
//! a key are gathered until the next key begins, unless it is plain that there is only one. Turning
//! around is a seek.
//!
//! Each direction is a loop over the state kept here (`Task`), which may stop at any entry where
//! something lacks and goes on from there. `DbIter::fetch_pending` fetches what lacks, blocking.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use cairn_format::key;
use cairn_observe::Activity;
use cairn_observe::statistics::Ticker;
use cairn_options::{ReadOptions, ReadTier};
use cairn_table::IterOptions;
use cairn_types::{Error, Progress, Result, SequenceNumber, ValueKind};

use crate::blob::BlobReadOptions;
use crate::columns::Columns;
use crate::level::{Tables, storage_forbidden};
use crate::merging_iter::MergingIter;
use crate::range_del_aggregator::RangeDelAggregator;
use crate::read_deadline::ReadDeadline;
use crate::value::{Value, strip_ttl};
use crate::view::View;

/// Where the iterator stands.
enum Position {
    Invalid,
    /// On the merging iterator's entry, whose user key `DbIter::key` has too; the value is this part of
    /// that entry's.
    Entry(Part),
    /// On the key in `DbIter::key`, with this value.
    Value(Value),
    /// On the key in `DbIter::key`, whose value was not read: it lies where this encoded blob index
    /// says.
    Index(Value),
    /// On the key in `DbIter::key`, with this encoded entity and the place of its default column.
    Entity(Value, Range<usize>),
}

/// When seeks may leave out tables whose filters do not know the prefix of the target.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PrefixUse {
    /// Never: every key is shown.
    Never,
    /// Always: keys of other prefixes than that of the last target may be missing.
    Always,
    /// Where the upper bound ends the walk before another prefix begins: nothing is missing.
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

/// A part of an entry's value.
enum Part {
    All,
    Range(Range<usize>),
    /// The default column of an entity.
    Column(Range<usize>),
}

/// The work of the iterator while it stands nowhere.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Task {
    /// Nothing.
    Rest,
    /// Looking for the next key that has a value.
    Forward,
    /// Collecting the operands of `key`; then standing.
    Collect,
    /// Looking for the previous key that has a value.
    Backward,
    /// Looking, forward, for the newest visible version of `key`, which has too many versions to
    /// walk through them backward.
    Newest,
}

/// The value of the versions of one key, gathered from the oldest.
enum Newest {
    Missing,
    Value(Value),
    Entity(Value),
    Blob(Value),
}

/// Walks the keys of a view in order, as its sequence number sees them.
pub struct DbIter {
    seq: SequenceNumber,
    rules: Rules,
    bounds: Bounds,
    merging: MergingIter,
    range_dels: Option<RangeDelAggregator>,
    position: Position,
    task: Task,
    back: bool,
    /// Going backward, the merging iterator does not stand before `key`.
    needs_reposition: bool,
    /// How far steps forward, and steps back, are plain.
    fast_ranges: [FastRange; 2],
    /// The user key of the entry, or the key to pass over.
    key: Vec<u8>,
    versions: Versions,
    counters: Counters,
    target: Vec<u8>,
    /// The last target of a seek that passes over entries in this direction. The next one lies
    /// further on, so that files with their keys out of order cannot lead around in circles.
    last_reseek_target: Vec<u8>,
    error: Option<Error>,
    /// The last field: when a view is let go of, nothing else keeps its files.
    view: Arc<View>,
}

/// The read options and the properties of the family that decide what is shown, and how it is read.
struct Rules {
    read_ts: Option<Vec<u8>>,
    /// Keys have no timestamps.
    no_timestamps: bool,
    /// Values and operands are stored with their dates, which are not shown.
    dated: bool,
    /// Neither, and there is no limit of entries passed over.
    fast_path: bool,
    /// How prefix filters are used.
    prefix_use: PrefixUse,
    /// Only keys with the prefix of the seek target are shown.
    same_prefix: bool,
    cache_only: bool,
    /// Values in blob files are read when they are asked for.
    defer_blob_values: bool,
    blob_options: BlobReadOptions,
    /// The most entries that a step may pass over; 0 for any number.
    max_skippable: u64,
    read_deadline: ReadDeadline,
    has_statistics: bool,
}

/// The keys that the iterator shows.
struct Bounds {
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
    /// The prefix that all keys must have, since the last seek.
    prefix: Option<Vec<u8>>,
    /// True if seeks ask prefix filters now.
    filtering: bool,
}

/// The versions of `DbIter::key` seen so far.
struct Versions {
    /// Entries of the key are passed over (forward), or gathered (backward).
    same_key: bool,
    /// The tombstone over the key.
    covered_by: SequenceNumber,
    /// Operands: newest first forward, oldest first backward.
    operands: Vec<Value>,
    newest: Newest,
}

/// Counts of the entries passed over.
struct Counters {
    /// Since the last seek in the sources.
    skipped: u64,
    /// Since the user's call.
    hidden: u64,
    /// For statistics.
    counts: IterCounts,
    /// The count of entries passed over in the memtable, if they may have it flushed.
    flush_trigger: Option<Box<ScanFlushTrigger>>,
}

/// Memory that an iterator has allocated, empty, kept for the thread's next one.
#[derive(Default)]
struct RecycledBuffers {
    key: Vec<u8>,
    target: Vec<u8>,
}

/// No longer keys' memory is kept.
const MAX_RECYCLED_BYTES: usize = 4 << 10;

thread_local! {
    static RECYCLED: Cell<RecycledBuffers> = const {
        Cell::new(RecycledBuffers { key: Vec::new(), target: Vec::new() })
    };
}

impl Drop for DbIter {
    fn drop(&mut self) {
        self.count_end();
        if let Some(trigger) = &mut self.counters.flush_trigger {
            trigger.end_scan();
        }
        if self.key.capacity() + self.target.capacity() <= MAX_RECYCLED_BYTES {
            let [mut key, mut target] = [&mut self.key, &mut self.target].map(std::mem::take);
            key.clear();
            target.clear();
            // A thread that ends keeps nothing.
            let _recycled =
                RECYCLED.try_with(|recycled| recycled.set(RecycledBuffers { key, target }));
        }
    }
}

impl DbIter {
    /// An iterator over `view` as `seq` sees it, which stands nowhere. What is wrong with
    /// `options` is reported by [`DbIter::status`].
    #[must_use]
    pub fn new(view: Arc<View>, seq: SequenceNumber, options: &ReadOptions) -> DbIter {
        if let Some(statistics) = &view.family.statistics {
            statistics.add(Ticker::NoIteratorCreated, 1);
        }
        let has_statistics = view.family.statistics.is_some();
        let order = view.family.order.clone();
        let cache_only = options.read_tier != ReadTier::All;
        let tables = Tables {
            reading: view.family.clone(),
            options: IterOptions {
                fill_cache: options.fill_cache,
                verify_checksums: options.verify_checksums,
                readahead: options.readahead_size,
                prefix_filter: false,
            },
            cache_only,
        };
        let mut error = refused(&view, options);
        let read_ts = options.timestamp.clone();
        let sources = match error {
            Some(_) => Ok((Vec::new(), None)),
            None => sources(&view, seq, read_ts.clone(), &tables, options),
        };
        let (children, range_dels) = sources.unwrap_or_else(|failed| {
            error = Some(failed);
            (Vec::new(), None)
        });
        let RecycledBuffers { key, target } = RECYCLED.try_with(Cell::take).unwrap_or_default();
        let (no_timestamps, dated) = (order.timestamp_size() == 0, view.family.dated);
        DbIter {
            seq,
            rules: Rules {
                read_ts,
                no_timestamps,
                dated,
                fast_path: no_timestamps && !dated && options.max_skippable_internal_keys == 0,
                prefix_use: PrefixUse::of(&view, options),
                same_prefix: options.prefix_same_as_start && view.family.prefix_extractor.is_some(),
                cache_only,
                defer_blob_values: options.allow_unprepared_value,
                blob_options: BlobReadOptions {
                    fill_cache: options.fill_cache,
                    cache_only,
                },
                max_skippable: options.max_skippable_internal_keys,
                read_deadline: ReadDeadline::of(options),
                has_statistics,
            },
            bounds: Bounds {
                lower: options.iterate_lower_bound.clone(),
                upper: options.iterate_upper_bound.clone(),
                prefix: None,
                filtering: false,
            },
            merging: MergingIter::new(order, children),
            range_dels,
            position: Position::Invalid,
            task: Task::Rest,
            back: false,
            needs_reposition: false,
            fast_ranges: Default::default(),
            key,
            versions: Versions {
                same_key: false,
                covered_by: SequenceNumber::ZERO,
                operands: Vec::new(),
                newest: Newest::Missing,
            },
            counters: Counters {
                skipped: 0,
                hidden: 0,
                counts: IterCounts::default(),
                flush_trigger: ScanFlushTrigger::new(&view, options),
            },
            target,
            last_reseek_target: Vec::new(),
            error,
            view,
        }
    }

    /// Moves to the first key at or behind `target`. Keys are given and shown without timestamps.
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
        let began = self.view.family.began();
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
            // With `prefix_same_as_start` the bound is where the walk starts.
            self.bounds.prefix = self.prefix_of(&lower);
            self.set_target_newest_visible(&lower);
            self.bounds.lower = Some(lower);
            self.seek_and_run(Task::Forward);
        } else {
            let _progress = self.merging.seek_to_first();
            self.run(Task::Forward);
            if self.valid() {
                self.bounds.prefix = self.prefix_of(self.key());
            }
        }
    }

    /// Moves to the last key.
    pub fn seek_to_last(&mut self) {
        let began = self.view.family.began();
        self.seek_last(None);
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
            let _progress = self.merging.seek_to_last();
            self.run(Task::Backward);
        }
    }

    /// Moves to the next key. Only while the iterator is valid; otherwise it stays nowhere.
    #[inline]
    pub fn next(&mut self) {
        self.step_forward::<false>(&mut |_, _| {});
    }

    /// [`DbIter::next`] that shows key and value of the entry it comes to, as [`DbIter::key`] and
    /// [`DbIter::value`] say them, if there is one; says whether there is. The way to both that costs least.
    #[inline]
    pub fn next_shown(&mut self, mut visit: impl FnMut(&[u8], &[u8])) -> bool {
        self.step_forward::<true>(&mut visit)
    }

    /// Moves to the next key, and shows the entry if `VISITS`; says whether there is one.
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
            visit(self.key(), self.value());
        }
        self.valid()
    }

    /// Moves to the next key where more has to be thought of than in plain steps; if `moved`, the merging
    /// iterator has left the entry already.
    // Apart, so that plain steps are short.
    #[inline(never)]
    fn next_general(&mut self, moved: bool) {
        match &self.position {
            Position::Invalid => return,
            Position::Entry(_) if moved => {}
            // The merging iterator stands on the entry.
            Position::Entry(_) if !self.back => {
                let _progress = self.merging.next();
            }
            _ if self.back => {
                self.back = false;
                self.last_reseek_target.clear();
                self.set_target_after_key();
                let _progress = self.merging.seek(&self.target);
            }
            _ => {}
        }
        self.versions.same_key = true;
        self.position = Position::Invalid;
        self.run(Task::Forward);
        self.refresh_fast_ranges();
        self.count_step(false);
    }

    /// Moves to the previous key. Only while the iterator is valid; otherwise it stays nowhere.
    pub fn prev(&mut self) {
        self.counters.hidden = 0;
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
        if !self.back || self.needs_reposition {
            self.back = true;
            if self.rules.prefix_use == PrefixUse::WithinBound {
                // The upper bound says nothing about what lies before.
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

    /// Goes on to the next key as long as entries are of the kinds that walks mostly meet: the newest version of
    /// a key if that is a plain value, and the older ones, with nothing else to think of (see the module `plain`). The
    /// iterator then stands on its entry as it did on the one before, and has shown it if `VISITS`. `false` where
    /// more has to be thought of.
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
            debug_assert!(!self.is_past_end(user) && self.is_uncovered(user));
            let bytes = user.len() + value_len;
            key::copy_user_key(&mut self.key, internal);
            if VISITS {
                visit(&self.key, value);
            }
            self.count_fast_step(false, bytes as u64);
            return true;
        }
    }

    /// Stands on the entry that the merging iterator has stepped back onto, if that is of the kind that
    /// walks mostly meet: a plain value, and the newest version of its key, with nothing else to
    /// think of (see the module `plain`).
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
        debug_assert!(!self.is_before_start(user) && self.is_uncovered(user));
        let bytes = user.len() + value_len;
        key::copy_user_key(&mut self.key, internal);
        self.count_fast_step(true, bytes as u64);
        true
    }

    /// True if an entry with this key is a plain value that the read sees.
    #[inline]
    fn is_plain_value(&self, internal: &[u8]) -> bool {
        let packed = key::packed(internal);
        // Truncation is meant: the kind is the lowest byte.
        packed as u8 == ValueKind::Value as u8 && packed >> 8 <= self.seq.0
    }

    /// Makes the user key of the merging iterator's entry `key`.
    #[inline]
    fn save_key(&mut self) {
        key::copy_user_key(&mut self.key, self.merging.key());
    }

    /// True if the iterator stands on a key.
    #[inline]
    #[must_use]
    pub fn valid(&self) -> bool {
        !matches!(self.position, Position::Invalid)
    }

    /// The user key with its timestamp.
    #[inline]
    fn whole_key(&self) -> &[u8] {
        match &self.position {
            Position::Invalid => &[],
            _ => &self.key,
        }
    }

    /// The key, without timestamp; empty when there is none.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &[u8] {
        let key = self.whole_key();
        match self.rules.no_timestamps {
            true => key,
            false => key::strip_timestamp(key, self.view.family.order.timestamp_size()),
        }
    }

    /// The timestamp of the entry; empty where keys have none.
    #[must_use]
    pub fn timestamp(&self) -> &[u8] {
        &self.whole_key()[self.key().len()..]
    }

    /// The value, or the default column of an entity; empty when there is none.
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

    /// Key and value, as [`DbIter::key`] and [`DbIter::value`] say them, if it stands on an entry.
    #[inline]
    #[must_use]
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.valid().then(|| (self.key(), self.value()))
    }

    /// The value, kept alive beyond the next step; empty when there is none.
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

    /// The columns of the entry: those of an entity, or a plain value as the one without a name.
    /// `None` when there is no entry, or the entity cannot be decoded, which a get reports.
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

    /// Why the iterator stands nowhere, if not because there are no more keys.
    ///
    /// # Errors
    ///
    /// The error that ended the iteration: an error of a file, of a merge or of the options; `Incomplete`
    /// when `read_tier` or `max_skippable_internal_keys` forbade to go on.
    pub fn status(&self) -> Result<()> {
        self.error.clone().map_or(Ok(()), Err)
    }

    /// Reads the value of the entry, if that was put off (`allow_unprepared_value`). `false` if it
    /// cannot be read, which is then the status, and the iterator stands nowhere.
    pub fn prepare_value(&mut self) -> bool {
        let Position::Index(index) = &self.position else {
            return self.valid();
        };
        match self.blob(index).and_then(|value| self.strip_ttl(value)) {
            Ok(value) => self.position = Position::Value(value),
            Err(error) => self.fail(error),
        }
        self.valid()
    }

    /// Makes `error` the status of a move that is refused; the iterator then stands nowhere.
    pub fn refuse(&mut self, error: Error) {
        self.fail(error);
    }

    /// The view that the iterator reads.
    #[must_use]
    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// The sequence number that the iterator sees.
    #[must_use]
    pub fn seq(&self) -> SequenceNumber {
        self.seq
    }

    /// Prepares a seek; `false` if the iterator cannot be used.
    fn begin_seek(&mut self, back: bool) -> bool {
        self.position = Position::Invalid;
        self.task = Task::Rest;
        self.back = back;
        self.needs_reposition = false;
        self.versions.same_key = false;
        self.counters.skipped = 0;
        self.counters.hidden = 0;
        self.last_reseek_target.clear();
        self.versions.operands.clear();
        if let Some(trigger) = &mut self.counters.flush_trigger {
            trigger.end_scan();
        }
        if self.merging.is_empty() && self.error.is_some() {
            return false;
        }
        self.error = None;
        true
    }

    /// Begins `task` at `target`.
    #[inline]
    fn seek_and_run(&mut self, task: Task) {
        match self.seek_sources() {
            Ok(()) => self.run(task),
            Err(error) => self.fail(error),
        }
    }

    /// Carries out `task`, waiting for what lacks.
    #[inline]
    fn run(&mut self, task: Task) {
        self.task = task;
        while self.task != Task::Rest {
            let step = match self.task {
                Task::Rest => return,
                Task::Forward => self.find_next_entry(),
                Task::Collect => self.collect_operands(),
                Task::Backward => self.find_prev_entry(),
                Task::Newest => self.find_newest(),
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
        if self.rules.cache_only {
            self.fail(storage_forbidden());
            return;
        }
        let view = self.view.clone();
        let read_deadline = self.rules.read_deadline;
        self.merging.wait_with(|requests| {
            read_deadline.read_batch(&view.family, Activity::DbIterator, requests)
        });
    }

    #[cold]
    fn fail(&mut self, error: Error) {
        self.error = Some(error);
        self.position = Position::Invalid;
        self.task = Task::Rest;
        self.versions.operands.clear();
    }

    /// Stands on this part of the merging iterator's entry.
    #[inline]
    fn set_entry(&mut self, part: Part) -> Result<Progress> {
        self.save_key();
        self.position = Position::Entry(part);
        self.task = Task::Rest;
        match self.rules.dated {
            true => self.strip_ttl_timestamp(),
            false => Ok(Progress::Ready),
        }
    }

    /// Stands on what is shown of the value that the iterator stands on.
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

    /// The part of the stored `value` that is shown.
    fn strip_ttl(&self, value: Value) -> Result<Value> {
        match self.rules.dated {
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

    /// There are no more entries in this direction.
    #[cold]
    fn end_iteration(&mut self) -> Result<Progress> {
        self.merging.status()?;
        self.set_position(Position::Invalid)
    }
}

mod backward;
mod bounds;
mod fast_path;
mod forward;
mod iter_stats;
mod scan_flush_trigger;
mod tombstone_skip;

use bounds::{refused, sources};
use fast_path::FastRange;
use iter_stats::IterCounts;
use scan_flush_trigger::ScanFlushTrigger;
