//! Batched point reads: many keys, sorted once, descending together.
//!
//! All keys ask the memtables; then each goes from table to table until a filter admits it. Which tables
//! these are differs from key to key. Only then are they searched, in steps that all keys make before
//! the next: the index is asked; the memory of the data block is asked for; the block is taken hold of; it is
//! searched. Each step, and each round of filters, asks for the memory of the next one, so that the misses of
//! the processor's cache overlap. A key whose block is not in memory stops there while the others go
//! on; when none can go on without a file, the blocks that all of them lack, of whatever files
//! and levels, are read as one batch, each once, and the keys continue. The same batch carries
//! blocks of indexes and filters; values in blob files follow in a batch of their own.
//!
//! Each key has its own result: an error of one block is the error of the keys that need it.

use std::cell::Cell;

use cairn_format::key::{self, LookupKey};
use cairn_observe::Activity;
use cairn_observe::perf::by_level::{self, LevelMetric};
use cairn_observe::perf::{self, PerfMetric};
use cairn_observe::statistics::{Began, Histogram, Hit, TableCounts, Ticker};
use cairn_options::ReadOptions;
use cairn_platform::ReadRequest;
use cairn_table::TableGet;
use cairn_types::{Error, Result};

use crate::get::{Found, PointGet};
use crate::get_stats::len_of;
use crate::read_deadline::ReadDeadline;
use crate::view::{Reading, View};

/// Keys that descend together. More overlap more reads; each costs some 400 bytes meanwhile.
const BATCH_SIZE: usize = 128;
/// The same when `value_size_soft_limit` is set, so that little is read in vain.
const BATCH_SIZE_UNDER_LIMIT: usize = 32;

/// One key of a batch.
pub struct BatchKey<'a> {
    /// The view of the key's family.
    pub view: &'a View,
    /// The key.
    pub lookup: LookupKey,
}

/// The newest versions of all keys in `wanted`, in its order. `sorted` promises that keys of one
/// family stand together and ascend, which saves sorting them.
///
/// When the values found exceed `value_size_soft_limit` the keys that are not yet done fail with
/// `Aborted`; when the deadline passes, those that need a file fail with `TimedOut`.
#[must_use]
pub fn multi_get(
    wanted: &[BatchKey<'_>],
    options: &ReadOptions,
    sorted: bool,
) -> Vec<Result<Found>> {
    let mut results: Vec<Option<Result<Found>>> = wanted.iter().map(|_| None).collect();
    let mut stats = BatchStats::new(wanted);
    let order = match sorted {
        true => (0..wanted.len()).collect(),
        false => in_order(wanted),
    };
    let batch_size = match options.value_size_soft_limit {
        u64::MAX => BATCH_SIZE,
        _ => BATCH_SIZE_UNDER_LIMIT,
    };
    let mut bytes = 0_u64;
    let mut states = RECYCLED_STATES.take();
    for part in order.chunks(batch_size) {
        let exceeded = bytes > options.value_size_soft_limit;
        if exceeded {
            for &at in part {
                results[at] = Some(Err(too_large(options)));
            }
            continue;
        }
        let mut batch = Batch::new(wanted, part, options, &mut states);
        batch.search();
        batch.read_blobs();
        for (&at, member) in part.iter().zip(&mut batch.members) {
            results[at] = Some(match bytes > options.value_size_soft_limit {
                true => {
                    states.push(member.get.take_state());
                    Err(too_large(options))
                }
                false => {
                    stats.add_hit(at, member.get.hit());
                    member.finish(&mut states)
                }
            });
            if let Some(Ok(Found::Value(value) | Found::Entity(value))) = &results[at] {
                bytes = bytes.saturating_add(value.len() as u64);
            }
        }
    }
    stats.record(&results, &states);
    states.truncate(BATCH_SIZE);
    RECYCLED_STATES.set(states);
    let unanswered = || Err(Error::aborted("a key of a batch was not looked up"));
    results
        .into_iter()
        .map(|result| result.unwrap_or_else(unanswered))
        .collect()
}

/// The positions of `wanted` by family and key.
fn in_order(wanted: &[BatchKey<'_>]) -> Vec<usize> {
    // Families are told apart by where their views lie: any order of them will do.
    let place = |at: usize| {
        let BatchKey { view, lookup } = &wanted[at];
        let prefix = key::prefix(&view.family.order, lookup.internal());
        (std::ptr::from_ref::<View>(view), prefix, at)
    };
    let mut places: Vec<_> = (0..wanted.len()).map(place).collect();
    places.sort_unstable_by(|a, b| {
        (a.0, a.1).cmp(&(b.0, b.1)).then_with(|| {
            let (a, b) = (&wanted[a.2], &wanted[b.2]);
            let order = &a.view.family.order;
            key::compare(order, a.lookup.internal(), b.lookup.internal())
        })
    });
    places.into_iter().map(|(_, _, at)| at).collect()
}

thread_local! {
    /// The state of searches in tables, kept for the thread's next batch.
    static RECYCLED_STATES: Cell<Vec<TableGet>> = const { Cell::new(Vec::new()) };
}

/// The counts of a batch for statistics.
struct BatchStats<'a> {
    reading: Option<&'a Reading>,
    began: Option<Began>,
    /// Where the searches ended, if there are statistics.
    hits: Vec<(usize, Hit)>,
}

impl<'a> BatchStats<'a> {
    fn new(wanted: &'a [BatchKey<'_>]) -> BatchStats<'a> {
        let reading = wanted.first().map(|wanted| &*wanted.view.family);
        let counts = reading.is_some_and(|reading| reading.statistics.is_some());
        BatchStats {
            reading,
            began: reading.map(Reading::began),
            hits: Vec::with_capacity(if counts { wanted.len() } else { 0 }),
        }
    }

    fn add_hit(&mut self, at: usize, hit: Hit) {
        if self.reading.is_some_and(|it| it.statistics.is_some()) {
            self.hits.push((at, hit));
        }
    }

    fn record(&self, results: &[Option<Result<Found>>], states: &[TableGet]) {
        let Some((reading, began)) = self.reading.zip(self.began) else {
            return;
        };
        let counts = || states.iter().filter_map(TableGet::counts);
        if reading.statistics.is_none() && !perf::is_in_use() {
            counts().for_each(TableCounts::forget);
            return;
        }
        let micros = began.micros(&*reading.clock);
        let found = |at: usize| results[at].as_ref().and_then(|result| result.as_ref().ok());
        let values = (0..results.len()).filter_map(found);
        let sizes = values.filter_map(len_of);
        let (keys, bytes) = sizes.fold((0, 0), |(keys, sum), size| (keys + 1, sum + size));
        perf::count(|perf| {
            counts().for_each(|counts| perf.add_tables(counts));
            perf.add(PerfMetric::MultigetReadBytes, bytes);
        });
        let Some(statistics) = &reading.statistics else {
            counts().for_each(TableCounts::forget);
            return;
        };
        let counted = statistics.update(|update| {
            counts().for_each(|counts| counts.bring_to(update));
            for &(at, hit) in &self.hits {
                if let Some(found) = found(at) {
                    update.hit(hit, len_of(found).is_some());
                }
            }
            update.add(Ticker::NumberMultigetCalls, 1);
            update.add(Ticker::NumberMultigetKeysRead, results.len() as u64);
            update.add(Ticker::NumberMultigetKeysFound, keys);
            update.add(Ticker::NumberMultigetBytesRead, bytes);
            update.record(Histogram::BytesPerMultiget, bytes);
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

/// Keys that descend together.
struct Batch<'a> {
    members: Vec<Member<'a>>,
    read_deadline: ReadDeadline,
    /// True if the times of its steps are counted by level.
    timed_by_level: bool,
}

/// The time of a step that is counted by level. Keys take a step together, of tables of several levels:
/// its time is shared equally among them.
#[derive(Default)]
struct TimedStep<'a> {
    /// Where time comes from and when the step began; none if it is not counted.
    began: Option<(&'a Reading, u64)>,
    /// The levels of the keys that take it.
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

/// One key on its way.
struct Member<'a> {
    get: PointGet<'a>,
    /// It stands at a table that may have it.
    at_table: bool,
    /// The error that ended its way.
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

    /// Notes the error of a step.
    fn note(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.error = Some(error);
        }
    }
}

impl<'a> Batch<'a> {
    fn new(
        wanted: &'a [BatchKey<'a>],
        part: &[usize],
        options: &'a ReadOptions,
        states: &mut Vec<TableGet>,
    ) -> Batch<'a> {
        let member = |&at: &usize| Member {
            get: PointGet::new(
                wanted[at].view,
                &wanted[at].lookup,
                options,
                states.pop().unwrap_or_default(),
            ),
            at_table: false,
            error: None,
        };
        let members: Vec<_> = part.iter().map(member).collect();
        let first = members.first();
        Batch {
            timed_by_level: first.is_some_and(|member| member.get.wants_times_by_level()),
            members,
            read_deadline: ReadDeadline::of(options),
        }
    }

    /// Searches until every member is over or has failed.
    fn search(&mut self) {
        for member in &mut self.members {
            member.get.search_memtables();
        }
        loop {
            while self.descend() {}
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
        }
    }

    /// Every member that can looks into the next table that may have its key. Returns whether any did.
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

    /// Members that have not at_table ask the filter of their next table. Returns whether any has to go on.
    fn check_filters(&mut self) -> bool {
        for member in self.runnable().filter(|member| !member.at_table) {
            if member.get.find_table() {
                member.get.prefetch_filter();
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

    /// Members that stand at a table that may have their key.
    fn at_table(&mut self) -> impl Iterator<Item = &mut Member<'a>> {
        let here = |member: &&mut Member<'_>| member.at_table && member.error.is_none();
        self.members.iter_mut().filter(here)
    }

    /// Members that are neither over nor stopped.
    fn runnable(&mut self) -> impl Iterator<Item = &mut Member<'a>> {
        let goes = |member: &&mut Member<'_>| member.error.is_none() && member.get.is_runnable();
        self.members.iter_mut().filter(goes)
    }

    /// Obtains what the members lack. Returns whether any lacked something.
    fn fetch(&mut self) -> bool {
        let mut any = false;
        let mut requests: Vec<ReadRequest> = Vec::new();
        // Who is supplied by which request, and who by the member that a request was made for.
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
            return any;
        };
        let reading = self.members[*first].get.reading();
        let mut failed: Vec<Option<Error>> = Vec::with_capacity(leaders.len());
        for (&at, bytes) in leaders.iter().zip(self.read_deadline.read_batch(
            reading,
            Activity::MultiGet,
            &requests,
        )) {
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
        true
    }

    /// Reads the values that lie in blob files.
    fn read_blobs(&mut self) {
        let mut of: Vec<usize> = Vec::new();
        let mut requests: Vec<ReadRequest> = Vec::new();
        let mut places = Vec::new();
        for (at, member) in self.members.iter_mut().enumerate() {
            if member.error.is_some() {
                continue;
            }
            match member.get.blob_request() {
                Ok(None) => {}
                Ok(Some((place, request))) => {
                    of.push(at);
                    places.push(place);
                    requests.push(request);
                }
                Err(error) => member.error = Some(error),
            }
        }
        let Some(first) = of.first() else {
            return;
        };
        let reading = self.members[*first].get.reading();
        let results = self
            .read_deadline
            .read_batch(reading, Activity::MultiGet, &requests);
        for ((at, place), bytes) in of.into_iter().zip(places).zip(results) {
            let member = &mut self.members[at];
            let supplied = bytes.and_then(|bytes| member.get.supply_blob(&place, bytes));
            member.note(supplied);
        }
    }
}
