//! Batched point lookups (`MultiGet`): keys are sorted once and searched together.
//!
//! All keys first search the memtables. Each key then moves through its own sequence of tables
//! until a filter admits it. The admitted keys search their tables in stages: search the index;
//! prefetch the data block; pin the block; search it. Each stage, and each round of filter checks,
//! prefetches the memory that the next one touches, so that cache misses overlap. A key whose block
//! is not in memory is suspended while the others proceed. Once no key can proceed without I/O, the
//! missing blocks of all keys, across files and levels, are deduplicated and read: in one batch, or a
//! batch for each level or file (`Parallel`). They include index and filter blocks; values in blob
//! files are read after them. A key that waits for a filter has those of its later tables read in the
//! same batch, and one that waits for a table to be opened has its later tables opened with it, so that the
//! number of rounds does not grow with the number of levels.
//!
//! Every key has its own result: a damaged block fails only the keys that need it.

use std::cell::Cell;
use std::sync::Arc;

use cairn_format::key::{self, LookupKey};
use cairn_observe::Activity;
use cairn_observe::perf::by_level::{self, LevelMetric};
use cairn_observe::perf::{self, PerfMetric};
use cairn_observe::statistics::{Began, Histogram, Hit, TableCounts, Ticker};
use cairn_observe::traces::block_cache::is_in_use as is_traced;
use cairn_options::ReadOptions;
use cairn_platform::{Buffer, ReadDriver, ReadRequest};
use cairn_table::TableGet;
use cairn_types::{Error, Result};
use cairn_version::{FileToOpen, TableRef, open_together};

use crate::get::{
    BlobReads, Found, PointGet, get_with_timestamp, next_traced_get, open_blob_files, opens_apart,
    start_opening,
};
use crate::get_stats::len_of;
use crate::read_deadline::ReadDeadline;
use crate::view::{Reading, View};

/// Maximum number of keys searched together. A larger batch overlaps more reads; each key takes
/// about 400 bytes while it is searched.
const BATCH_SIZE: usize = 128;
/// The same if `value_size_soft_limit` is set, to limit the size of the values read beyond it.
const BATCH_SIZE_UNDER_LIMIT: usize = 32;

/// A key of a batch.
pub struct BatchKey<'a> {
    /// The view of the column family.
    pub view: &'a View,
    /// The lookup key.
    pub lookup: LookupKey,
}

/// Looks up `keys` and returns their results, converted by `show`, in the same order. If `sorted`, the keys of
/// each family are adjacent and ascending, which saves sorting them.
///
/// Once the values found exceed `value_size_soft_limit`, the remaining keys fail with `Aborted`.
/// Once the deadline has passed, keys that need I/O fail with `TimedOut`.
#[must_use]
pub fn multi_get<T>(
    keys: &[BatchKey<'_>],
    options: &ReadOptions,
    sorted: bool,
    show: fn(Found) -> Result<T>,
) -> Vec<Result<T>> {
    let mut lookups = Lookups::new(keys, options, sorted, show);
    while let Some(mut batch) = lookups.next_batch() {
        batch.search();
        batch.read_blobs();
        lookups.finish(&mut batch);
    }
    lookups.into_results()
}

/// [`multi_get`] as a future. Tables are opened on helper threads, all those that the keys need next together.
pub async fn multi_get_async<T>(
    keys: &[BatchKey<'_>],
    options: &ReadOptions,
    sorted: bool,
    show: fn(Found) -> Result<T>,
) -> Vec<Result<T>> {
    let mut lookups = Lookups::new(keys, options, sorted, show);
    while let Some(mut batch) = lookups.next_batch() {
        batch.search_async().await;
        batch.read_blobs_async().await;
        lookups.finish(&mut batch);
    }
    lookups.into_results()
}

/// Looks up `keys` one after the other, and returns their results with the timestamps of the versions found, in the
/// same order. Timestamps are empty for a family whose keys have none.
///
/// Once the values found exceed `value_size_soft_limit`, the remaining keys fail with `Aborted`, in the order of
/// [`multi_get`].
#[must_use]
pub fn multi_get_with_timestamps(
    keys: &[BatchKey<'_>],
    options: &ReadOptions,
) -> Vec<Result<(Found, Vec<u8>)>> {
    let mut bytes = 0_u64;
    let mut results = Vec::with_capacity(keys.len());
    for (_, at) in in_order(keys) {
        let BatchKey { view, lookup } = &keys[at as usize];
        let result = match bytes > options.value_size_soft_limit {
            true => Err(too_large(options)),
            false => get_with_timestamp(view, lookup, options),
        };
        if let Ok((found, _)) = &result {
            bytes = bytes.saturating_add(len_of(found).unwrap_or(0));
        }
        results.push((at, result));
    }
    results.sort_unstable_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The lookups of a call, batch by batch.
struct Lookups<'a, T> {
    keys: &'a [BatchKey<'a>],
    options: &'a ReadOptions,
    show: fn(Found) -> Result<T>,
    /// The keys in the order in which they are looked up.
    order: Vec<Place>,
    /// The number of keys that were looked up.
    done: usize,
    results: Vec<Option<Result<T>>>,
    stats: BatchStats<'a>,
    states: Vec<TableGet>,
}

impl<'a, T> Lookups<'a, T> {
    #[inline]
    fn new(
        keys: &'a [BatchKey<'a>],
        options: &'a ReadOptions,
        sorted: bool,
        show: fn(Found) -> Result<T>,
    ) -> Lookups<'a, T> {
        Lookups {
            keys,
            options,
            show,
            order: match sorted {
                true => indices(keys).map(|at| (0, at)).collect(),
                false => in_order(keys),
            },
            done: 0,
            results: keys.iter().map(|_| None).collect(),
            stats: BatchStats::new(keys),
            // An exiting thread recycles none.
            states: RECYCLED_STATES.try_with(Cell::take).unwrap_or_default(),
        }
    }

    /// Starts the next batch. Keys that exceed `value_size_soft_limit` fail.
    #[inline]
    fn next_batch(&mut self) -> Option<Batch<'a>> {
        if self.stats.bytes > self.options.value_size_soft_limit {
            for &(_, at) in &self.order[self.done..] {
                self.results[at as usize] = Some(Err(too_large(self.options)));
            }
            return None;
        }
        let batch_size = match self.options.value_size_soft_limit {
            u64::MAX => BATCH_SIZE,
            _ => BATCH_SIZE_UNDER_LIMIT,
        };
        let part = &self.order[self.done..];
        let part = &part[..part.len().min(batch_size)];
        let start = || Batch::new(self.keys, part, self.options, &mut self.states);
        (!part.is_empty()).then(start)
    }

    /// Takes the results of a batch.
    #[inline]
    fn finish(&mut self, batch: &mut Batch<'a>) {
        let count = batch.members.len();
        let part = &self.order[self.done..self.done + count];
        for (&(_, at), member) in part.iter().zip(&mut batch.members) {
            let result = match self.stats.bytes > self.options.value_size_soft_limit {
                true => {
                    self.states.push(member.get.take_state());
                    Err(too_large(self.options))
                }
                false => {
                    let hit = member.get.hit();
                    let found = member.finish(&mut self.states);
                    found.and_then(|found| {
                        self.stats.add(hit, len_of(&found));
                        (self.show)(found)
                    })
                }
            };
            self.results[at as usize] = Some(result);
        }
        self.done += count;
    }

    #[inline]
    fn into_results(mut self) -> Vec<Result<T>> {
        self.stats.record(self.keys.len(), &self.states);
        self.states.truncate(BATCH_SIZE);
        let _recycled = RECYCLED_STATES.try_with(|recycled| recycled.set(self.states));
        let unanswered = || Err(Error::aborted("a key of the batch was not looked up"));
        let results = self.results.into_iter();
        results
            .map(|result| result.unwrap_or_else(unanswered))
            .collect()
    }
}

/// The place of a key in the order of the lookups: a word of the key, and its index.
type Place = (u64, u32);

/// The places of `keys` in the order of the call. A batch of 2^32 keys would take 400 GB.
fn indices(keys: &[BatchKey<'_>]) -> impl Iterator<Item = u32> + use<> {
    0..u32::try_from(keys.len()).expect("a batch has fewer than 2^32 keys")
}

/// The places of `keys`, sorted by family and key.
fn in_order(keys: &[BatchKey<'_>]) -> Vec<Place> {
    let Some(view) = keys.first().map(|first| first.view) else {
        return Vec::new();
    };
    if !keys.iter().all(|key| std::ptr::eq(key.view, view)) {
        return in_order_of_families(keys);
    }
    let order = &view.family.order;
    let internal = |at: u32| keys[at as usize].lookup.internal();
    let users = keys.iter().map(|key| key.lookup.user());
    key::sorted_indices(order, users, |a, b| {
        key::compare(order, internal(a), internal(b))
    })
}

/// [`in_order`] for keys of several families.
#[cold]
fn in_order_of_families(keys: &[BatchKey<'_>]) -> Vec<Place> {
    let mut order: Vec<u32> = indices(keys).collect();
    order.sort_by(|&a, &b| {
        let (a, b) = (&keys[a as usize], &keys[b as usize]);
        // The address of the view identifies the family; the order of families is irrelevant.
        let family = |key: &BatchKey<'_>| std::ptr::from_ref::<View>(key.view);
        let order = &a.view.family.order;
        family(a)
            .cmp(&family(b))
            .then_with(|| key::compare(order, a.lookup.internal(), b.lookup.internal()))
    });
    order.into_iter().map(|at| (0, at)).collect()
}

thread_local! {
    /// Table search states, recycled by the next batch of the thread.
    static RECYCLED_STATES: Cell<Vec<TableGet>> = const { Cell::new(Vec::new()) };
}

/// Statistics of a batch.
struct BatchStats<'a> {
    reading: Option<&'a Reading>,
    began: Option<Began>,
    /// The place where each successful search ended, and true if it found a value; empty if statistics are disabled.
    hits: Vec<(Hit, bool)>,
    /// The number and the size of the values found.
    found: u64,
    bytes: u64,
}

impl<'a> BatchStats<'a> {
    fn new(keys: &'a [BatchKey<'_>]) -> BatchStats<'a> {
        let reading = keys.first().map(|key| &*key.view.family);
        let counts = reading.is_some_and(|reading| reading.statistics.is_some());
        BatchStats {
            reading,
            began: reading.map(Reading::began),
            hits: Vec::with_capacity(if counts { keys.len() } else { 0 }),
            found: 0,
            bytes: 0,
        }
    }

    /// Adds a successful search that ended at `hit`, and the size of the value that it found.
    #[inline]
    fn add(&mut self, hit: Hit, size: Option<u64>) {
        self.found += u64::from(size.is_some());
        self.bytes = self.bytes.saturating_add(size.unwrap_or(0));
        if self.reading.is_some_and(|it| it.statistics.is_some()) {
            self.hits.push((hit, size.is_some()));
        }
    }

    /// Records a call for `keys` keys.
    fn record(&self, keys: usize, states: &[TableGet]) {
        let Some((reading, began)) = self.reading.zip(self.began) else {
            return;
        };
        let counts = || states.iter().filter_map(TableGet::counts);
        if reading.statistics.is_none() && !perf::is_in_use() {
            counts().for_each(TableCounts::forget);
            return;
        }
        let micros = began.micros(&*reading.clock);
        perf::count(|perf| {
            counts().for_each(|counts| perf.add_tables(counts));
            perf.add(PerfMetric::MultigetReadBytes, self.bytes);
        });
        let Some(statistics) = &reading.statistics else {
            counts().for_each(TableCounts::forget);
            return;
        };
        let counted = statistics.update(|update| {
            counts().for_each(|counts| counts.bring_to(update));
            for &(hit, found) in &self.hits {
                update.hit(hit, found);
            }
            update.add(Ticker::NumberMultigetCalls, 1);
            update.add(Ticker::NumberMultigetKeysRead, keys as u64);
            update.add(Ticker::NumberMultigetKeysFound, self.found);
            update.add(Ticker::NumberMultigetBytesRead, self.bytes);
            update.record(Histogram::BytesPerMultiget, self.bytes);
            if let Some(micros) = micros {
                update.time(Histogram::DbMultiget, micros);
            }
        });
        if !counted {
            counts().for_each(TableCounts::forget);
        }
    }
}

#[cold]
fn too_large(options: &ReadOptions) -> Error {
    Error::aborted(format!(
        "the values of the batch exceed {} bytes (value_size_soft_limit)",
        options.value_size_soft_limit
    ))
}

/// Keys that are searched together.
struct Batch<'a> {
    members: Vec<Member<'a>>,
    read_deadline: ReadDeadline,
    parallel: Parallel,
    /// True if the time of each stage is recorded by level.
    timed_by_level: bool,
}

/// The blocks of a batch that are read in parallel. One after the other, they would be waited for longer;
/// together, they leave fewer reads of the device to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parallel {
    /// All (`async_io` and `optimize_multiget_for_io`).
    Levels,
    /// Those of one level, and of all blob files (`async_io`).
    Files,
    /// Those of one file.
    Blocks,
}

impl Parallel {
    fn of(options: &ReadOptions) -> Parallel {
        match (options.async_io, options.optimize_multiget_for_io) {
            (true, true) => Parallel::Levels,
            (true, false) => Parallel::Files,
            (false, _) => Parallel::Blocks,
        }
    }
}

/// The missing blocks of a batch.
struct Missing<'a> {
    reading: &'a Reading,
    requests: Vec<ReadRequest>,
    /// Requests of equal places are read together; see [`Parallel`].
    places: Vec<(usize, usize)>,
    /// The members that are supplied by the request at the same index.
    leaders: Vec<usize>,
    /// The members that are supplied by the leader at an index.
    followers: Vec<(usize, usize)>,
    /// Filters that are read ahead, by the last requests.
    ahead: Vec<(TableRef<'a>, TableGet)>,
}

/// The missing values in blob files of a batch.
struct MissingBlobs<'a> {
    reading: &'a Reading,
    requests: Vec<ReadRequest>,
    places: Vec<(usize, usize)>,
    /// The members, and their reads in the order of the requests.
    blobs: Vec<(usize, BlobReads)>,
}

/// A timed stage. Its duration is divided equally among the participating keys, which may be in
/// tables of different levels.
#[derive(Default)]
struct TimedStep<'a> {
    /// The configuration with the clock, and the start time; `None` if no key participates.
    began: Option<(&'a Reading, u64)>,
    /// The levels of the participating keys.
    levels: Vec<usize>,
}

impl<'a> TimedStep<'a> {
    #[cold]
    fn begin<'b>(members: impl Iterator<Item = &'b mut Member<'a>>) -> TimedStep<'a>
    where
        'a: 'b,
    {
        let mut step = TimedStep::default();
        for member in members {
            let reading = member.get.reading();
            let now = || (reading, reading.clock.monotonic_nanos());
            step.began.get_or_insert_with(now);
            step.levels.extend(member.get.level());
        }
        step
    }

    #[cold]
    fn end(self) {
        let Some((reading, began)) = self.began else {
            return;
        };
        let nanos = reading.clock.monotonic_nanos().saturating_sub(began);
        let share = nanos / self.levels.len().max(1) as u64;
        for level in self.levels {
            by_level::add(level, LevelMetric::GetFromTableNanos, share);
        }
    }
}

/// A key that is being searched.
struct Member<'a> {
    get: PointGet<'a>,
    /// True if the filter of the current table has admitted the key.
    at_table: bool,
    /// The error that ended the search.
    error: Option<Error>,
}

impl Member<'_> {
    fn finish(&mut self, states: &mut Vec<TableGet>) -> Result<Found> {
        states.push(self.get.take_state());
        match self.error.take() {
            Some(error) => Err(error),
            None => self.get.finish(),
        }
    }

    /// Records the error of a stage.
    fn note(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.error = Some(error);
        }
    }
}

/// Records the block lookups of `members` as those of one batch, if there is a trace.
#[cold]
fn trace(members: &mut [Member<'_>], options: &ReadOptions) {
    let mut id = None;
    for member in members {
        id = id.or_else(|| next_traced_get(member.get.view()));
        member.get.trace_in_batch(options, id);
    }
}

impl<'a> Batch<'a> {
    // Compiled in this crate, here and in `search`, and not with each type of results.
    #[inline(never)]
    fn new(
        keys: &'a [BatchKey<'a>],
        part: &[Place],
        options: &'a ReadOptions,
        states: &mut Vec<TableGet>,
    ) -> Batch<'a> {
        let member = |&(_, at): &Place| Member {
            get: PointGet::in_batch(
                keys[at as usize].view,
                &keys[at as usize].lookup,
                options,
                states.pop().unwrap_or_default(),
            ),
            at_table: false,
            error: None,
        };
        let mut members: Vec<_> = part.iter().map(member).collect();
        if is_traced() {
            trace(&mut members, options);
        }
        let first = members.first();
        Batch {
            timed_by_level: first.is_some_and(|member| member.get.wants_times_by_level()),
            members,
            read_deadline: ReadDeadline::of(options),
            parallel: Parallel::of(options),
        }
    }

    /// Searches until every member has finished or failed.
    fn search(&mut self) {
        self.search_in_memory();
        loop {
            let stopped = |member: &&mut Member<'_>| member.get.is_blocked();
            let step = self
                .timed_by_level
                .then(|| TimedStep::begin(self.members.iter_mut().filter(stopped)));
            let any = self.fetch();
            if let Some(step) = step {
                step.end();
            }
            if !any {
                return;
            }
            while self.descend() {}
        }
    }

    /// Searches until every member has finished or failed, or waits for a table or a block.
    #[inline(never)]
    fn search_in_memory(&mut self) {
        for member in &mut self.members {
            let searched = member.get.search_memtables();
            member.note(searched);
        }
        while self.descend() {}
    }

    /// Searches the next candidate table of every runnable member. Returns false if there was none.
    fn descend(&mut self) -> bool {
        while self.check_filters() {}
        let step = self
            .timed_by_level
            .then(|| TimedStep::begin(self.at_table()));
        let mut any = false;
        for member in self.at_table() {
            let located = member.get.search_index();
            member.note(located);
            any = true;
        }
        if any {
            for member in self.at_table() {
                member.get.prefetch_block();
            }
            for member in self.at_table() {
                member.get.pin_block();
            }
            for member in self.at_table() {
                member.at_table = false;
                let searched = member.get.search_table();
                member.note(searched);
            }
        }
        if let Some(step) = step {
            step.end();
        }
        any
    }

    /// Checks the filter of the next table of every runnable member that is not at a table. Returns
    /// true if a filter has excluded a key, whose next table then has to be checked.
    fn check_filters(&mut self) -> bool {
        for member in self.runnable().filter(|member| !member.at_table) {
            match member.get.find_table() {
                Ok(true) => member.get.prefetch_filter(),
                Ok(false) => {}
                Err(error) => member.error = Some(error),
            }
        }
        let waiting = |member: &&mut Member<'_>| !member.at_table && member.get.level().is_some();
        let step = self
            .timed_by_level
            .then(|| TimedStep::begin(self.runnable().filter(waiting)));
        let mut turned_away = false;
        for member in self.runnable().filter(|member| !member.at_table) {
            match member.get.passes_filter() {
                Ok(admitted) => {
                    member.at_table = admitted;
                    turned_away |= !admitted;
                }
                Err(error) => member.error = Some(error),
            }
        }
        if let Some(step) = step {
            step.end();
        }
        turned_away
    }

    /// Members whose current table may hold their key.
    fn at_table(&mut self) -> impl Iterator<Item = &mut Member<'a>> {
        let here = |member: &&mut Member<'_>| member.at_table && member.error.is_none();
        self.members.iter_mut().filter(here)
    }

    /// Members that have neither finished nor failed and do not wait for I/O.
    fn runnable(&mut self) -> impl Iterator<Item = &mut Member<'a>> {
        let goes = |member: &&mut Member<'_>| member.error.is_none() && member.get.is_runnable();
        self.members.iter_mut().filter(goes)
    }

    /// Reads the missing blocks of all members. Returns false if none was missing.
    fn fetch(&mut self) -> bool {
        // Held until the members have taken them: a table may be closed when it is not in use.
        let tables = self.open_tables_together();
        let (any, missing) = self.missing();
        drop(tables);
        if let Some(missing) = missing {
            let results = self.read(missing.reading, &missing.requests, |at| missing.places[at]);
            self.supply(missing, results);
        }
        any
    }

    /// The missing blocks of all members. Returns false if no member waits.
    fn missing(&mut self) -> (bool, Option<Missing<'a>>) {
        let mut any = false;
        let mut requests: Vec<ReadRequest> = Vec::new();
        // Leaders are supplied by the request at the same index, followers by their leader.
        let mut leaders: Vec<usize> = Vec::new();
        let mut followers: Vec<(usize, usize)> = Vec::new();
        for at in 0..self.members.len() {
            let member = &mut self.members[at];
            if member.error.is_some() || !member.get.is_blocked() {
                continue;
            }
            any = true;
            match member.get.next_request() {
                Ok(None) => {}
                Ok(Some(request)) => {
                    let same = |&leader: &usize| {
                        self.members[leader]
                            .get
                            .needs_same_block(&self.members[at].get)
                    };
                    match leaders.iter().rposition(same) {
                        Some(leader) => followers.push((at, leader)),
                        None => {
                            leaders.push(at);
                            requests.push(request);
                        }
                    }
                }
                Err(error) => member.error = Some(error),
            }
        }
        let Some(first) = leaders.first() else {
            return (any, None);
        };
        let reading = self.members[*first].get.reading();
        let mut ahead = Vec::new();
        if self.parallel == Parallel::Levels {
            let others = followers.iter().map(|(at, _)| at);
            for &at in leaders.iter().chain(others) {
                for (table, state) in self.members[at].get.look_ahead() {
                    let request = state.request(&table);
                    let same = |other: &ReadRequest| {
                        other.offset == request.offset && Arc::ptr_eq(&other.file, &request.file)
                    };
                    if !requests.iter().any(same) {
                        requests.push(request);
                        ahead.push((table, state));
                    }
                }
            }
        }
        let place = |at: &usize| {
            let place = self.members[*at].get.place();
            match self.parallel {
                Parallel::Levels => (0, 0),
                Parallel::Files => (place.0, 0),
                Parallel::Blocks => place,
            }
        };
        let mut places: Vec<_> = leaders.iter().map(place).collect();
        // Those of look-ahead are read with all others.
        places.resize(requests.len(), (0, 0));
        let missing = Missing {
            reading,
            requests,
            places,
            leaders,
            followers,
            ahead,
        };
        (any, Some(missing))
    }

    /// Supplies the missing blocks.
    fn supply(&mut self, missing: Missing<'a>, mut results: Vec<Result<Buffer>>) {
        let Missing {
            leaders,
            followers,
            ahead,
            ..
        } = missing;
        let blocks = leaders.len();
        for ((table, mut state), bytes) in ahead.into_iter().zip(results.drain(blocks..)) {
            // After an error, the get that needs the block reads it again and reports the error.
            let _ = state.supply(&table, bytes);
            state.bring_counts(&table);
        }
        let mut failed: Vec<Option<Error>> = Vec::with_capacity(leaders.len());
        for (&at, bytes) in leaders.iter().zip(results) {
            let member = &mut self.members[at];
            let supplied = member.get.supply(bytes);
            failed.push(supplied.as_ref().err().cloned());
            member.note(supplied);
        }
        for (at, leader) in followers {
            let leading = leaders[leader];
            let error = failed[leader].clone();
            let [member, from] = self
                .members
                .get_disjoint_mut([at, leading])
                .expect("a follower is not its own leader");
            match error {
                Some(error) => member.error = Some(error),
                None => member.get.supply_from(&from.get),
            }
        }
    }

    /// Executes `requests`: those of equal `place` in parallel, and different places one after another.
    fn read(
        &self,
        reading: &Reading,
        requests: &[ReadRequest],
        place: impl Fn(usize) -> (usize, usize),
    ) -> Vec<Result<Buffer>> {
        let activity = Activity::MultiGet;
        let mut order: Vec<_> = (0..requests.len()).map(|at| (place(at), at)).collect();
        order.sort_unstable();
        if order.first().map(|one| one.0) == order.last().map(|one| one.0) {
            return self.read_deadline.read_batch(reading, activity, requests);
        }
        let mut results: Vec<_> = (0..requests.len()).map(|_| None).collect();
        for group in order.chunk_by(|a, b| a.0 == b.0) {
            let asked: Vec<_> = group.iter().map(|&(_, at)| requests[at].clone()).collect();
            let read = self.read_deadline.read_batch(reading, activity, &asked);
            for (&(_, at), result) in group.iter().zip(read) {
                results[at] = Some(result);
            }
        }
        let unanswered = || Err(Error::aborted("a block of the batch was not read"));
        let results = results.into_iter();
        results.map(|one| one.unwrap_or_else(unanswered)).collect()
    }

    /// Reads the values that are stored in blob files.
    fn read_blobs(&mut self) {
        let mut missing = self.missing_blobs();
        while let Some(blobs) = missing {
            let results = self.read(blobs.reading, &blobs.requests, |at| blobs.places[at]);
            missing = self.supply_blobs(blobs, results);
        }
    }

    /// The values that are stored in blob files.
    fn missing_blobs(&mut self) -> Option<MissingBlobs<'a>> {
        let mut requests: Vec<ReadRequest> = Vec::new();
        let mut blobs: Vec<(usize, BlobReads)> = Vec::new();
        for (at, member) in self.members.iter_mut().enumerate() {
            if member.error.is_some() {
                continue;
            }
            match member.get.blob_reads(&mut requests) {
                Ok(None) => {}
                Ok(Some(reads)) => blobs.push((at, reads)),
                Err(error) => member.error = Some(error),
            }
        }
        self.placed(requests, blobs)
    }

    /// `requests`, those of `blobs`, with the places at which they are executed. `None` without requests.
    fn placed(
        &self,
        requests: Vec<ReadRequest>,
        blobs: Vec<(usize, BlobReads)>,
    ) -> Option<MissingBlobs<'a>> {
        let (first, _) = blobs.first()?;
        let place = |file| match self.parallel {
            Parallel::Levels | Parallel::Files => (0, 0),
            Parallel::Blocks => (0, file),
        };
        let files = blobs.iter().flat_map(|(_, reads)| reads.files());
        Some(MissingBlobs {
            reading: self.members[*first].get.reading(),
            requests,
            places: files.map(place).collect(),
            blobs,
        })
    }

    /// Supplies the values that are stored in blob files. Returns those that a tier of the cache has lost.
    fn supply_blobs(
        &mut self,
        missing: MissingBlobs<'a>,
        results: Vec<Result<Buffer>>,
    ) -> Option<MissingBlobs<'a>> {
        let mut results = results.into_iter();
        let mut again = (Vec::new(), Vec::new());
        for (at, mut reads) in missing.blobs {
            let member = &mut self.members[at];
            let results: Vec<_> = results.by_ref().take(reads.len()).collect();
            let before = again.0.len();
            let supplied = (member.get).supply_blobs(&mut reads, results.into_iter(), &mut again.0);
            match supplied {
                Ok(()) if reads.len() > 0 => again.1.push((at, reads)),
                Ok(()) => {}
                Err(error) => {
                    again.0.truncate(before);
                    member.error = Some(error);
                }
            }
        }
        self.placed(again.0, again.1)
    }

    /// [`Batch::search`] that awaits reads.
    async fn search_async(&mut self) {
        self.search_in_memory();
        loop {
            let tables = self.open_tables().await;
            let (any, missing) = self.missing();
            drop(tables);
            if let Some(missing) = missing {
                let read = self.read_async(missing.reading, &missing.requests, &missing.places);
                let results = read.await;
                self.supply(missing, results);
            }
            if !any {
                return;
            }
            while self.descend() {}
        }
    }

    /// The tables that members wait for, and those that they may need next, each once. Empty if each member is to
    /// open its own.
    fn unopened(&mut self) -> Vec<FileToOpen<'a>> {
        let mut unopened: Vec<FileToOpen<'a>> = Vec::new();
        let waits = |member: &Member<'_>| member.get.pending_table().is_some();
        if self.parallel == Parallel::Blocks || !self.members.iter().any(waits) {
            return unopened;
        }
        let io = self.members.first().map(|first| &first.get.reading().io);
        let looks_ahead = self.parallel == Parallel::Levels
            && io.is_some_and(|io| io.driver() != ReadDriver::Blocking);
        let may_open =
            |member: &&mut Member<'_>| member.error.is_none() && !member.get.is_cache_only();
        for member in self.members.iter_mut().filter(may_open) {
            let reading = member.get.reading();
            if self.read_deadline.check(reading).is_err() {
                continue;
            }
            let ahead = match looks_ahead {
                true => member.get.tables_ahead(),
                false => Vec::new(),
            };
            for (file, level) in member.get.pending_table().into_iter().chain(ahead) {
                let source = &reading.tables;
                if !unopened.iter().any(|known| Arc::ptr_eq(known.file, file)) {
                    unopened.push(FileToOpen {
                        file,
                        level,
                        source,
                    });
                }
            }
        }
        unopened
    }

    /// Opens the tables that members wait for, and reads what they need of their files together.
    fn open_tables_together(&mut self) -> Vec<TableRef<'a>> {
        let unopened = self.unopened();
        let Some(first) = self.members.first().filter(|_| unopened.len() > 1) else {
            return Vec::new();
        };
        let opened = open_together(&unopened, &first.get.reading().io);
        for (to_open, table) in unopened.iter().zip(&opened) {
            let Err(error) = table else {
                continue;
            };
            // The error of a table that no member has reached is reported when one does.
            for member in &mut self.members {
                let pending = member.get.pending_table();
                if pending.is_some_and(|(file, _)| Arc::ptr_eq(file, to_open.file)) {
                    member.error.get_or_insert_with(|| error.clone());
                }
            }
        }
        opened.into_iter().flatten().collect()
    }

    /// [`Batch::open_tables_together`] on helper threads.
    async fn open_tables(&mut self) -> Vec<TableRef<'a>> {
        let unopened = self.unopened();
        let Some(first) = self.members.first().filter(|_| !unopened.is_empty()) else {
            return Vec::new();
        };
        let reading = first.get.reading();
        if !opens_apart(reading) {
            return self.open_tables_together();
        }
        let start = |to_open| start_opening(to_open, &reading.io);
        let opening: Vec<_> = unopened.into_iter().map(start).collect();
        let mut opened = Vec::with_capacity(opening.len());
        for table in opening {
            // Taken from the metadata, or opened again after an error, which is reported then.
            opened.extend(table.await.map(TableRef::Held));
        }
        opened
    }

    /// [`Batch::read_blobs`] that awaits reads.
    async fn read_blobs_async(&mut self) {
        if let Some(first) = self.members.first() {
            let reading = first.get.reading();
            let mut indexes = Vec::new();
            for member in &self.members {
                // Those of other families are opened by the reads.
                if member.error.is_none() && std::ptr::eq(member.get.reading(), reading) {
                    member.get.add_blob_indexes(&mut indexes);
                }
            }
            if !indexes.is_empty() {
                let opening = open_blob_files(reading, &indexes);
                opening.await;
            }
        }
        let mut missing = self.missing_blobs();
        while let Some(blobs) = missing {
            let read = self.read_async(blobs.reading, &blobs.requests, &blobs.places);
            let results = read.await;
            missing = self.supply_blobs(blobs, results);
        }
    }

    /// [`Batch::read`] that awaits the reads.
    fn read_async(
        &self,
        reading: &'a Reading,
        requests: &[ReadRequest],
        places: &[(usize, usize)],
    ) -> impl Future<Output = Vec<Result<Buffer>>> + Send + use<'a> {
        let mut order: Vec<_> = places
            .iter()
            .copied()
            .zip(requests.iter().cloned())
            .collect();
        let mut places: Vec<_> = places.iter().copied().zip(0..).collect();
        // Stable: the requests of a place, and their indices, keep their order.
        order.sort_by_key(|one| one.0);
        places.sort_by_key(|one| one.0);
        let deadline = self.read_deadline;
        async move {
            let mut results: Vec<(usize, Result<Buffer>)> = Vec::with_capacity(places.len());
            let mut order = order.into_iter().peekable();
            while let Some((place, first)) = order.next() {
                let mut group = vec![first];
                while let Some((_, next)) = order.next_if(|one| one.0 == place) {
                    group.push(next);
                }
                let read = deadline.read_all(reading, group).await;
                let at = places[results.len()..].iter().map(|one| one.1);
                results.extend(at.zip(read).collect::<Vec<_>>());
            }
            results.sort_by_key(|one| one.0);
            results.into_iter().map(|one| one.1).collect()
        }
    }
}
