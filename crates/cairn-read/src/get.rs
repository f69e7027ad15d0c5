//! Point lookups: find the newest visible version of a key.
//!
//! Sources are searched from newest to oldest: the memtables, the files of level 0, then at most
//! one file of each further level (more if the versions of a key span files). The first version
//! that is not a merge operand ends the search. `PointGet` runs on data in memory and stops at a
//! missing block; [`get`] and [`get_async`] read the block and continue. A lookup served from
//! memory takes a single reference, on the memory that holds the value.

mod blobs;
mod future;
mod result;
mod stored_versions;
mod traced;
mod waiting;
mod written;

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;

use cairn_format::key::{self, LookupKey};
use cairn_format::range_del::Fragments;
use cairn_memtable::Entry;
use cairn_observe::perf::by_level::{self, LevelMetric};
use cairn_observe::perf::{self, PerfMetric};
use cairn_observe::statistics::{Hit, Ticker};
use cairn_observe::traces::block_cache::is_in_use as is_traced;
use cairn_options::{ReadOptions, ReadTier};
use cairn_table::{GetOptions, Table, TableGet};
use cairn_types::{KeyOrder, Progress, Result, SequenceNumber};
use cairn_version::{FileMeta, TableRef};

use crate::columns::{Columns, default_column};
use crate::file_read_sample;
use crate::get_stats::{count_get, count_tables};
use crate::operands::{Counting, GetMergeOperandsOptions, OnOperand, Operands};
use crate::read_deadline::ReadDeadline;
use crate::row_cache::{Lookup, NewRow, RowCache};
use crate::value::{Value, mergeable};
use crate::versions::{Newest, SearchState, Stored, TimestampedTombstones, Versions};
use crate::view::{Reading, View};
pub(crate) use blobs::BlobReads;
pub use future::{get_async, try_get};
pub(crate) use future::{open_blob_files, opens_apart, start_opening};
pub use stored_versions::{StoredVersions, stored_versions};
use traced::next_traced;
pub(crate) use traced::next_traced_get;
pub use written::{is_written_after, is_written_since};

/// The result of a point lookup.
#[derive(Clone, Debug)]
pub enum Found {
    /// The key has no value.
    Missing,
    /// A plain value.
    Value(Value),
    /// An encoded wide-column entity.
    Entity(Value),
}

impl Found {
    /// The plain value, or the entity's default column (empty if it has none).
    ///
    /// # Errors
    ///
    /// `Corruption` if the entity cannot be decoded.
    pub fn into_value(self) -> Result<Option<Value>> {
        match self {
            Found::Missing => Ok(None),
            Found::Value(value) => Ok(Some(value)),
            Found::Entity(entity) => {
                let range = default_column(&entity)?;
                Ok(Some(entity.slice(range)))
            }
        }
    }

    /// The columns; a plain value is one without a name.
    ///
    /// # Errors
    ///
    /// `Corruption` if the entity cannot be decoded.
    pub fn into_columns(self) -> Result<Option<Columns>> {
        match self {
            Found::Missing => Ok(None),
            Found::Value(value) => Ok(Some(Columns::of_value(value))),
            Found::Entity(entity) => Columns::of_entity(entity).map(Some),
        }
    }
}

/// The position of a point lookup.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Memtables,
    /// The file at this position of this level is next.
    File(usize, usize),
    /// This level is next.
    Level(usize),
    Done,
}

/// The resource that a point lookup is waiting for.
enum Pending<'a> {
    /// A table that has to be opened, and its level.
    Table(&'a Arc<FileMeta>, usize),
    /// A block of the current table.
    Block,
}

/// Maximum number of level-0 filters that are prefetched.
const PREFETCHED_FILTERS: usize = 8;

/// A point lookup in progress.
pub(crate) struct PointGet<'a, H = ()> {
    view: &'a View,
    lookup: &'a LookupKey,
    /// The options of the read. They are not copied, because thousands of lookups may wait.
    read_options: &'a ReadOptions,
    /// The options of the search of a table.
    options: GetOptions,
    stage: Stage,
    /// The current table.
    table: Option<TableRef<'a>>,
    state: TableGet,
    pending: Option<Pending<'a>>,
    /// The row of the current table that is collected for the row cache.
    row: Option<Box<NewRow>>,
    versions: Versions<'a>,
    hit: Hit,
    /// True if the lookup is counted on files in which it finds no value.
    sampled: bool,
    /// True if perf counters by level are enabled.
    by_level: bool,
    on_operand: H,
}

impl<'a> PointGet<'a> {
    /// A lookup that merges all operands.
    #[inline(always)]
    pub(crate) fn new(
        view: &'a View,
        lookup: &'a LookupKey,
        options: &'a ReadOptions,
        state: TableGet,
    ) -> PointGet<'a> {
        PointGet::with_hook(view, lookup, options, state, ())
    }

    /// A lookup that is part of a batch; see [`PointGet::trace_in_batch`].
    #[inline(always)]
    pub(crate) fn in_batch(
        view: &'a View,
        lookup: &'a LookupKey,
        options: &'a ReadOptions,
        state: TableGet,
    ) -> PointGet<'a> {
        PointGet::with_state(view, lookup, options, state, ())
    }
}

impl<'a, H: OnOperand> PointGet<'a, H> {
    #[inline(always)]
    fn with_hook(
        view: &'a View,
        lookup: &'a LookupKey,
        options: &'a ReadOptions,
        state: TableGet,
        on_operand: H,
    ) -> PointGet<'a, H> {
        let state = match is_traced() {
            false => state,
            true => next_traced(state, view, lookup, options),
        };
        PointGet::with_state(view, lookup, options, state, on_operand)
    }

    #[inline(always)]
    fn with_state(
        view: &'a View,
        lookup: &'a LookupKey,
        options: &'a ReadOptions,
        state: TableGet,
        on_operand: H,
    ) -> PointGet<'a, H> {
        PointGet {
            on_operand,
            view,
            lookup,
            read_options: options,
            options: GetOptions {
                fill_cache: options.fill_cache,
                verify_checksums: options.verify_checksums,
            },
            stage: match options.read_tier {
                ReadTier::Persisted => Stage::File(0, 0),
                _ => Stage::Memtables,
            },
            table: None,
            state,
            pending: None,
            row: None,
            hit: Hit::Nowhere,
            sampled: view.family.is_sampled(),
            by_level: by_level::is_wanted(),
            versions: Versions::new(view.family.order.timestamp_size() > 0),
        }
    }

    /// The time limits of reads.
    fn read_deadline(&self) -> ReadDeadline {
        ReadDeadline::of(self.read_options)
    }

    /// Runs until the search is finished or waits for a table or block.
    #[inline]
    fn run(&mut self) -> Result<Progress> {
        while self.stage != Stage::Done {
            if self.stage == Stage::Memtables {
                self.search_memtables()?;
            } else if self.table.is_some() || self.find_table()? {
                self.search_table()?;
            }
            if self.pending.is_some() {
                return Ok(Progress::Lacks);
            }
        }
        Ok(Progress::Ready)
    }

    /// Searches the memtables unless that is done.
    #[inline]
    pub(crate) fn search_memtables(&mut self) -> Result<()> {
        if self.stage != Stage::Memtables {
            return Ok(());
        }
        self.lookup_in_memtables()?;
        if self.versions.state == SearchState::Finished {
            self.hit = Hit::Memtable;
        }
        if self.versions.state != SearchState::Open {
            self.stage = Stage::Done;
            return Ok(());
        }
        self.stage = Stage::File(0, 0);
        self.prefetch_filters();
        Ok(())
    }

    /// Prefetches the filter lines of the level-0 files for the key if there are several files:
    /// most of these filters will be checked, and their cache misses would otherwise be serialized.
    #[inline]
    fn prefetch_filters(&self) {
        let files = self.view.version.level(0).files();
        if files.len() < 2 {
            return;
        }
        for file in files.iter().take(PREFETCHED_FILTERS) {
            if let Some(table) = file.table.kept() {
                table.prefetch_filter(self.lookup);
            }
        }
    }

    /// Moves to the next table whose bounds contain the key. Returns true if there is a table to
    /// search. If the table has to be opened, the lookup waits for it; if the row cache has its row,
    /// the table is finished.
    #[inline]
    pub(crate) fn find_table(&mut self) -> Result<bool> {
        if self.table.is_none()
            && let Some((file, level)) = self.next_file()
        {
            match file.table.get() {
                Some(table) => self.enter(table, file)?,
                None => self.pending = Some(Pending::Table(file, level)),
            }
        }
        Ok(self.table.is_some())
    }

    /// Prefetches the filter line of the current table.
    #[inline]
    pub(crate) fn prefetch_filter(&self) {
        if let Some(table) = &self.table {
            table.prefetch_filter(self.lookup);
        }
    }

    /// Checks the filter of the current table and leaves the table if the filter excludes the key.
    /// Returns true if there is still a current table.
    #[inline]
    pub(crate) fn passes_filter(&mut self) -> Result<bool> {
        let Some(table) = &self.table else {
            return Ok(false);
        };
        let admitted = table.admits(self.lookup, &mut self.state)?;
        if !admitted && let Some(table) = self.table.take() {
            self.row = None;
            self.finish_table(&table);
        }
        Ok(admitted)
    }

    /// Searches the index of the current table. The first of three stages before
    /// [`PointGet::search_table`], each of which prefetches the memory that the next one touches.
    #[inline]
    pub(crate) fn search_index(&mut self) -> Result<()> {
        match &self.table {
            Some(table) => table.locate(self.lookup, &mut self.state),
            None => Ok(()),
        }
    }

    /// Prefetches the data block found by [`PointGet::search_index`].
    #[inline]
    pub(crate) fn prefetch_block(&mut self) {
        if let Some(table) = &self.table {
            table.reach(&mut self.state);
        }
    }

    /// Pins the data block found by [`PointGet::search_index`].
    #[inline]
    pub(crate) fn pin_block(&mut self) {
        if let Some(table) = &self.table {
            table.hold(self.lookup, &mut self.state);
        }
    }

    /// Searches the current table until it is exhausted or a block is missing.
    #[inline]
    pub(crate) fn search_table(&mut self) -> Result<()> {
        let Some(table) = self.table.take() else {
            return Ok(());
        };
        let progress = self.search(&table);
        if !matches!(progress, Ok(Progress::Ready)) {
            if self.by_level {
                self.state.bring_counts(&table);
            }
            self.table = Some(table);
            self.pending = progress.is_ok().then_some(Pending::Block);
            return progress.map(|_| ());
        }
        if let Some(row) = self.row.take()
            && let Some(rows) = &self.view.family.row_cache
        {
            rows.insert(*row);
        }
        self.finish_table(&table);
        Ok(())
    }

    /// Finishes the search of a table.
    #[inline]
    fn finish_table(&mut self, table: &Table) {
        if self.sampled | self.by_level {
            self.count_finished_table(table);
        }
        if self.versions.state != SearchState::Open {
            if let Stage::File(level, _) = self.stage {
                self.hit = Hit::Level(level);
            }
            self.stage = Stage::Done;
        }
    }

    /// Counts a lookup that found no value in the finished table, and records perf counters by
    /// level.
    #[cold]
    fn count_finished_table(&self, table: &Table) {
        let Stage::File(level, next) = self.stage else {
            return;
        };
        let newest_is_missing = matches!(self.versions.newest, Newest::Missing);
        if self.sampled
            && newest_is_missing
            && let Some(file) = self.view.version.level(level).files().get(next - 1)
        {
            file_read_sample::count_wasted(file);
        }
        if self.by_level {
            self.state.bring_counts(table);
            // Operands that end here, even at a deletion, yield a value from this level.
            let is_value = !newest_is_missing || self.versions.operands.is_some();
            if is_value && self.versions.state == SearchState::Finished {
                by_level::add(level, LevelMetric::UserKeyReturnCount, 1);
            }
        }
    }

    /// The level of the current table.
    pub(crate) fn level(&self) -> Option<usize> {
        match self.stage {
            Stage::File(level, _) => Some(level),
            _ => None,
        }
    }

    /// The level of the current table, and its place there.
    pub(crate) fn place(&self) -> (usize, usize) {
        match self.stage {
            Stage::File(level, next) => (level, next),
            _ => (0, 0),
        }
    }

    /// True if table search times are recorded by level.
    #[inline]
    pub(crate) fn wants_times_by_level(&self) -> bool {
        self.by_level && perf::wants_times()
    }

    /// True if the lookup can proceed without I/O.
    #[inline]
    pub(crate) fn is_runnable(&self) -> bool {
        self.pending.is_none() && self.stage != Stage::Done
    }

    pub(crate) fn view(&self) -> &'a View {
        self.view
    }

    pub(crate) fn reading(&self) -> &'a Reading {
        &self.view.family
    }

    /// The source in which the search ended.
    #[inline]
    pub(crate) fn hit(&self) -> Hit {
        self.hit
    }

    /// Returns the search state for reuse by another lookup.
    pub(crate) fn take_state(&mut self) -> TableGet {
        let mut state = std::mem::take(&mut self.state);
        state.reset();
        state
    }

    /// Runs until the search is finished, reading on the calling thread.
    #[inline]
    fn run_blocking(&mut self) -> Result<()> {
        if self.wants_times_by_level() {
            return self.run_timed();
        }
        while !self.run()?.is_ready() {
            self.fetch_pending()?;
        }
        Ok(())
    }

    /// [`PointGet::run_blocking`], and counts the tables that were searched.
    fn run_counted(&mut self) -> Result<()> {
        let searched = self.run_blocking();
        if let Some(tables) = self.state.counts() {
            count_tables(&self.view.family, tables);
        }
        searched
    }

    /// Opens the table or reads the block that the lookup waits for, on the calling thread.
    #[inline]
    fn fetch_pending(&mut self) -> Result<()> {
        if let Some(request) = self.next_request()? {
            let bytes = self.read_deadline().read(&self.view.family, &request);
            self.supply(bytes)?;
        }
        Ok(())
    }

    /// [`PointGet::run_blocking`], recording the time spent in each table, including opening it, by
    /// level.
    #[cold]
    fn run_timed(&mut self) -> Result<()> {
        let clock = &self.view.family.clock;
        self.search_memtables()?;
        while self.stage != Stage::Done {
            self.find_table()?;
            let Some(level) = self.level() else {
                continue;
            };
            let began = clock.monotonic_nanos();
            let searched = self.run_in_table();
            let nanos = clock.monotonic_nanos().saturating_sub(began);
            by_level::add(level, LevelMetric::GetFromTableNanos, nanos);
            searched?;
        }
        Ok(())
    }

    /// Runs until the current table is finished.
    fn run_in_table(&mut self) -> Result<()> {
        loop {
            if self.pending.is_some() {
                self.fetch_pending()?;
            }
            if self.table.is_none() {
                return Ok(());
            }
            self.search_table()?;
        }
    }

    #[inline]
    fn lookup_in_memtables(&mut self) -> Result<()> {
        for memtable in self.view.memtables() {
            if memtable.checks().any() {
                memtable.verify_lookup(self.lookup)?;
            }
            if memtable.has_range_tombstones() && !self.read_options.ignore_range_deletions {
                let groups = match self.versions.records_newest {
                    // Those that scans derived are no writes.
                    true => memtable.written_range_tombstones(),
                    false => memtable.range_tombstones(),
                };
                for group in groups.iter() {
                    self.add_tombstones(group);
                }
            }
            let (versions, on_operand) = (&mut self.versions, &mut self.on_operand);
            let add = |versions: &mut Versions<'a>, on_operand: &mut H, entry: Entry<'a>| {
                let stored = || Stored::Memtable(memtable, entry);
                let (key, seq, kind) = (entry.user_key(), entry.seq(), entry.kind());
                versions.add(key, seq, kind, on_operand, stored)
            };
            if versions.has_timestamps | versions.records_newest {
                memtable.find(self.lookup, |entry| add(versions, on_operand, entry));
            } else {
                let mut next = memtable.newest(self.lookup);
                while let Some(entry) = next
                    && add(versions, on_operand, entry).is_continue()
                {
                    next = versions.add_operands_after(memtable, entry, on_operand);
                }
            }
            if self.versions.state == SearchState::Finished {
                break;
            }
        }
        Ok(())
    }

    /// Adds the range tombstones of a source.
    fn add_tombstones(&mut self, tombstones: &Arc<Fragments>) {
        let (order, lookup) = (&self.view.family.order, self.lookup);
        if order.timestamp_size() > 0 {
            return self.add_timestamped_tombstones(tombstones);
        }
        let seq = tombstones.covering(order, lookup.user(), lookup.seq());
        self.versions.covered_by = self.versions.covered_by.max(seq);
        // This source may still hold versions newer than the tombstone.
        if self.versions.covered_by > SequenceNumber::ZERO {
            self.versions.state = SearchState::Covered;
        }
    }

    #[cold]
    fn add_timestamped_tombstones(&mut self, tombstones: &Arc<Fragments>) {
        let timed = self.versions.timed.get_or_insert_with(|| {
            Box::new(TimestampedTombstones {
                order: &self.view.family.order,
                visible: self.lookup.seq(),
                read_ts: self.read_options.timestamp.as_deref(),
                sources: Vec::new(),
            })
        });
        timed.sources.push(tombstones.clone());
        self.versions.covered_by = SequenceNumber::MAX;
    }

    /// The next file whose bounds contain the key, and its level.
    #[inline(always)]
    fn next_file(&mut self) -> Option<(&'a Arc<FileMeta>, usize)> {
        let order = &self.view.family.order;
        let (version, user) = (&self.view.version, self.lookup.user());
        loop {
            match self.stage {
                Stage::File(level, at) => {
                    let Some(file) = version.level(level).files().get(at) else {
                        self.stage = Stage::Level(level + 1);
                        continue;
                    };
                    self.stage = Stage::File(level, at + 1);
                    if may_hold(order, file, user) {
                        return Some((file, level));
                    }
                    if level > 0 && starts_after(order, file, user) {
                        self.stage = Stage::Level(level + 1);
                    }
                }
                Stage::Level(level) => {
                    // Most levels have no files.
                    let mut levels = version.levels().iter().enumerate().skip(level);
                    let Some((level, files)) = levels.find(|(_, files)| !files.is_empty()) else {
                        self.stage = Stage::Done;
                        return None;
                    };
                    self.stage = Stage::File(level, files.find(order, self.lookup.internal()));
                }
                Stage::Memtables | Stage::Done => {
                    self.stage = Stage::Done;
                    return None;
                }
            }
        }
    }

    /// Starts the search of the table of `file`.
    #[inline]
    fn enter(&mut self, table: TableRef<'a>, file: &FileMeta) -> Result<()> {
        if let Some(tombstones) = table.range_tombstones()
            && !self.read_options.ignore_range_deletions
        {
            // The key is within the bounds of the file, so all of its tombstones apply.
            self.add_tombstones(tombstones);
        }
        if let Some(rows) = &self.view.family.row_cache {
            return self.enter_by_row(table, file, rows);
        }
        self.table = Some(table);
        Ok(())
    }

    /// Finishes the table of `file` if `rows` has its row for the key, and starts the search otherwise.
    #[inline(never)]
    fn enter_by_row(
        &mut self,
        table: TableRef<'a>,
        file: &FileMeta,
        rows: &RowCache,
    ) -> Result<()> {
        let lookup = self.lookup;
        let found = rows.lookup(&table, file.seqs.largest, lookup.seq(), lookup.user());
        if let Some(statistics) = &self.view.family.statistics {
            let ticker = match found {
                Lookup::Hit(_) => Ticker::RowCacheHit,
                Lookup::Miss(_) => Ticker::RowCacheMiss,
            };
            statistics.add(ticker, 1);
        }
        let mut row = match found {
            Lookup::Hit(row) => row,
            Lookup::Miss(row) => {
                self.row = self.options.fill_cache.then_some(row);
                self.table = Some(table);
                return Ok(());
            }
        };
        while let Some(entry) = row.next()? {
            let stored = || row.stored(&entry);
            let on_operand = &mut self.on_operand;
            let added = self
                .versions
                .add(lookup.user(), entry.seq, entry.kind, on_operand, stored);
            if added.is_break() {
                break;
            }
        }
        self.finish_table(&table);
        Ok(())
    }

    #[inline]
    fn search(&mut self, table: &Table) -> Result<Progress> {
        let (versions, seq) = (&mut self.versions, self.lookup.seq());
        let (row, on_operand) = (&mut self.row, &mut self.on_operand);
        table.get(
            self.lookup,
            &self.options,
            &mut self.state,
            &mut |key, value| {
                // Versions with older timestamps follow, with any sequence number.
                if key.seq > seq {
                    return ControlFlow::Continue(());
                }
                let stored = || Stored::Block(value.buffer, value.range.clone());
                let added = versions.add(key.user_key, key.seq, key.kind, on_operand, stored);
                if let Some(row) = row {
                    row.add(key.seq, key.kind, value.bytes(), added);
                }
                added
            },
        )
    }
}

/// Returns `stored` in the form that the merge operator receives.
fn to_merge_form(stored: Value, dated: bool) -> Result<Value> {
    let len = mergeable(&stored, dated)?.len();
    Ok(stored.slice(0..len))
}

/// True if the bounds of `file` contain `user`.
#[inline]
fn may_hold(order: &KeyOrder, file: &FileMeta, user: &[u8]) -> bool {
    !starts_after(order, file, user)
        && match key::compare_without_timestamp(order, file.largest.user_key(), user) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => !file.largest.is_exclusive_bound(),
            std::cmp::Ordering::Greater => true,
        }
}

#[inline]
fn starts_after(order: &KeyOrder, file: &FileMeta, user: &[u8]) -> bool {
    key::compare_without_timestamp(order, file.smallest.user_key(), user).is_gt()
}

/// Returns the newest version of the key in `view` that is visible to `lookup`.
///
/// # Errors
///
/// `IoError` and `Corruption` of the files read, `Incomplete` if `read_tier` forbids a necessary
/// read, `TimedOut`, and those of [`full_merge`](crate::merge_operands::full_merge).
#[inline]
pub fn get(view: &View, lookup: &LookupKey, options: &ReadOptions) -> Result<Found> {
    with_scratch(|scratch| get_in(view, lookup, options, scratch))
}

/// [`get`] with a search state owned by the caller.
///
/// # Errors
///
/// Those of [`get`].
#[inline]
pub fn get_in(
    view: &View,
    lookup: &LookupKey,
    options: &ReadOptions,
    scratch: &GetScratch,
) -> Result<Found> {
    let began = view.family.began();
    let mut get = PointGet::new(view, lookup, options, scratch.0.take());
    let found = get.run_blocking();
    let mut state = std::mem::take(&mut get.state);
    if found.is_err() {
        state.reset();
    }
    let hit = get.hit();
    let found = found.and_then(|()| get.finish());
    count_get(view, began, state.counts(), hit, &found);
    scratch.0.set(state);
    found
}

/// [`get`], and the timestamp of the newest version of the key, which may be a deletion; empty if there is none, or
/// if keys have no timestamps.
///
/// # Errors
///
/// Those of [`get`].
pub fn get_with_timestamp(
    view: &View,
    lookup: &LookupKey,
    options: &ReadOptions,
) -> Result<(Found, Vec<u8>)> {
    let began = view.family.began();
    let mut get = PointGet::new(view, lookup, options, take_scratch());
    get.versions.records_newest = true;
    let found = get.run_blocking();
    let state = get.take_state();
    let hit = get.hit();
    let found = found.and_then(|()| get.finish());
    count_get(view, began, state.counts(), hit, &found);
    keep_scratch(state);
    let size = view.family.order.timestamp_size();
    let mut timestamp = get.versions.take_key();
    timestamp.drain(..timestamp.len().saturating_sub(size));
    Ok((found?, timestamp))
}

/// Returns the base value of the key and its merge operands, oldest first, without merging them;
/// empty if the key has no value.
///
/// # Errors
///
/// `Incomplete` (`MergeOperandsInsufficientCapacity`) if there are more than `request` expects; those of [`get`],
/// except for those of a merge.
pub fn operands(
    view: &View,
    lookup: &LookupKey,
    options: &ReadOptions,
    request: &mut GetMergeOperandsOptions<'_>,
) -> Result<Operands> {
    request.number_of_operands = 0;
    let dated = view.family.dated;
    let counting = Counting { request, dated };
    let mut get = PointGet::with_hook(view, lookup, options, TableGet::default(), counting);
    get.run_counted()?;
    get.finish_operands()
}

impl PointGet<'_, Counting<'_, '_>> {
    /// Returns the base value and the operands, unless there are too many.
    fn finish_operands(mut self) -> Result<Operands> {
        let count = self.on_operand.request.number_of_operands as u64;
        perf::count(|perf| perf.add(PerfMetric::InternalMergePointLookupCount, count));
        let has_base = !matches!(self.versions.newest, Newest::Missing);
        self.on_operand.request.number_of_operands += usize::from(has_base);
        self.on_operand.request.check()?;
        let dated = self.view.family.dated;
        let base = match self.stored()? {
            Found::Value(value) => Some(to_merge_form(value, dated)?),
            other => other.into_value()?,
        };
        let operands = self.versions.operands.take().unwrap_or_default();
        Operands::new(base, *operands, dated)
    }
}

/// A table search state that is reused by successive gets to avoid allocation.
///
/// [`get`] keeps one per thread. A caller with thread-local state of its own can keep one there and
/// use [`get_in`]: in a shared library each access to a thread-local variable is a function call.
#[derive(Default)]
pub struct GetScratch(Cell<TableGet>);

impl GetScratch {
    /// An empty state without allocation.
    #[must_use]
    pub const fn new() -> GetScratch {
        GetScratch(Cell::new(TableGet::new()))
    }

    /// Frees the memory of the state.
    pub fn clear(&self) {
        self.0.take();
    }
}

thread_local! {
    static SCRATCH: GetScratch = const { GetScratch::new() };
}

/// Calls `work` with the search state of the thread; with a new one if the thread is exiting.
#[inline]
fn with_scratch<T>(work: impl Fn(&GetScratch) -> T) -> T {
    // Asked first: with `try_with` alone, the result of each get is moved once more.
    match SCRATCH.try_with(|_| ()) {
        Ok(()) => SCRATCH.with(work),
        Err(_) => with_new_scratch(work),
    }
}

/// Out of line, so that gets stay small.
#[cold]
#[inline(never)]
fn with_new_scratch<T>(work: impl Fn(&GetScratch) -> T) -> T {
    work(&GetScratch::new())
}

/// Takes the search state of the thread.
fn take_scratch() -> TableGet {
    let taken = SCRATCH.try_with(|scratch| scratch.0.take());
    taken.unwrap_or_default()
}

/// Returns a search state, which is reset, to the thread.
fn keep_scratch(state: TableGet) {
    // An exiting thread keeps none.
    let _kept = SCRATCH.try_with(|scratch| scratch.0.set(state));
}
