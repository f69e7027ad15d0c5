//! The benchmark loops: threads that operate on an open database and collect statistics.
//!
//! Every value read is verified, unless another program wrote the database. This module does not depend on
//! the engine that it measures.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cairn::{Error, Result};

use crate::bench_stats::BenchStats;
use crate::benchmarks::{Benchmark, Kind, Order, Setup, Target};
use crate::db_dir::{
    Content, content, directories, directory, drop_cached, has_database, make_fresh, note_content,
    space,
};
use crate::engine::{Cursor, Engine, Session, Settings, Source};
use crate::flags::Flags;
use crate::key_value_gen::{Layout, Rng, Values, make_missing};
use crate::linkbench::MOST_NODE_DATA;
use crate::measurement::{Measurement, figure_text};
use crate::memory_record::recorded;
use crate::mixgraph::SHORTEST_VALUE;
use crate::multi_db::MultiDb;
use crate::progress::{Begin, Progress};
use crate::resource_usage::{Usage, peak_memory, reset_peak};
use crate::tickers::Tickers;

mod bare_cache;
mod linkbench;
mod mixes;
mod more;
mod open;

/// Operations between clock reads, if an operation is shorter than a clock read.
const SCAN_STRIDE: u64 = 128;
/// Operations between updates of the progress bar.
const PROGRESS_STRIDE: u64 = 4096;
/// Maximum value size of a database with varying lengths.
const LONGEST_VALUE: usize = 1 << 20;
/// Default batch size of multireadrandom.
const MULTI_GET_KEYS: u64 = 8;

/// The result of a benchmark: statistics, costs, and text.
pub struct Outcome {
    /// The statistics.
    pub stats: BenchStats,
    /// The costs.
    pub measured: Measurement,
    /// Text output of the benchmark.
    pub text: String,
}

/// Prints db_bench's lines of an outcome.
///
/// # Errors
///
/// Output errors.
pub fn print(outcome: &Outcome, out: &mut dyn Write) -> std::io::Result<()> {
    let (stats, measured) = (&outcome.stats, &outcome.measured);
    writeln!(
        out,
        "{}",
        stats.line(&measured.name, measured.elapsed_nanos)
    )?;
    if let Some(percentiles) = stats.percentiles() {
        writeln!(out, "{percentiles}")?;
    }
    for (name, value) in &measured.figures {
        writeln!(out, "{name}: {}", figure_text(*value))?;
    }
    if !outcome.text.is_empty() {
        writeln!(out, "{}", outcome.text.trim_end())?;
    }
    out.flush()
}

/// Runs `benchmarks` in the engine of `source`, and passes each outcome to `see`.
///
/// # Errors
///
/// `Corruption` if a value is not the written one; errors of the engine, of files, and of `see`.
pub fn run<S: Source>(
    source: &S,
    flags: &Flags,
    benchmarks: &[Benchmark],
    begin: Begin<'_>,
    mut see: impl FnMut(&Outcome) -> Result<()>,
) -> Result<()> {
    let mut run = Run {
        source,
        dir: flags.worker_dir.clone().unwrap_or_else(|| directory(flags)),
        open: None,
        begin,
    };
    for (at, benchmark) in benchmarks.iter().enumerate() {
        let mut outcome = run.one(benchmark)?;
        if flags.statistics && at + 1 == benchmarks.len() {
            outcome.text += &run.statistics();
        }
        see(&outcome)?;
    }
    if let Some(path) = &flags.cache_dump {
        run.dump_cache(path)?;
    }
    run.close()
}

/// State kept between benchmarks.
struct Run<'a, S: Source> {
    source: &'a S,
    dir: PathBuf,
    open: Option<Open<S::Engine>>,
    begin: Begin<'a>,
}

/// Open databases, and how they were opened.
struct Open<E> {
    databases: Databases<E>,
    setup: Setup,
}

enum Databases<E> {
    One(E),
    Several(MultiDb<E>),
}

impl<S: Source> Run<'_, S> {
    fn one(&mut self, benchmark: &Benchmark) -> Result<Outcome> {
        if let Kind::BareCache(case) = benchmark.kind {
            return self.bare_cache(benchmark, case);
        }
        self.prepare(benchmark)?;
        let dirs = self.dirs(benchmark);
        let before = content(&dirs[0], &benchmark.flags);
        let after = benchmark.leaves(before);
        if after != before {
            for dir in &dirs {
                note_content(dir, &benchmark.flags, after)?;
            }
        }
        let checked = Checked::of(benchmark, after);
        if let Kind::Open { all } = benchmark.kind {
            return self.open_again_and_again(benchmark, checked, all);
        }
        let open = self.open.as_ref().expect("prepare has opened it");
        match &open.databases {
            Databases::One(db) => self.measure(db, benchmark, checked),
            Databases::Several(databases) => self.measure(databases, benchmark, checked),
        }
    }

    fn measure<E: Engine>(
        &self,
        db: &E,
        benchmark: &Benchmark,
        checked: Checked,
    ) -> Result<Outcome> {
        let dirs = self.dirs(benchmark);
        let counts = benchmark.counts_storage_reads() || benchmark.counts_misses;
        let tickers = || match counts {
            true => Tickers::of(db),
            false => Tickers::default(),
        };
        let counted = tickers();
        let job = Job::new(db, benchmark, checked, self.begin);
        reset_peak();
        let before = Usage::now();
        let flags = &benchmark.flags;
        let reports = flags.html.is_some() || flags.json.is_some();
        let (ran, memory) = recorded(db, reports, || job.run());
        let (stats, elapsed) = ran?;
        let mut measured = Measurement::of(&benchmark.name, &stats, elapsed);
        measured.usage = Usage::now().since(&before);
        measured.peak_memory = peak_memory();
        measured.memory = memory;
        measured.space = space(&dirs);
        if benchmark.kind == Kind::Debt {
            measured.figures = job.debt_figures(&measured);
        }
        if counts {
            let more = more::read_figures(benchmark, &measured, &tickers().since(&counted));
            measured.figures.extend(more);
        }
        let text = match benchmark.kind {
            Kind::LevelStats => db.property("rocksdb.levelstats").unwrap_or_default(),
            Kind::Stats => more::stats(db, &dirs),
            _ => String::new(),
        };
        Ok(Outcome {
            stats,
            measured,
            text,
        })
    }

    /// Returns the directories of the databases.
    fn dirs(&self, benchmark: &Benchmark) -> Vec<PathBuf> {
        directories(&self.dir, benchmark.setup.databases)
    }

    /// Returns the statistics since the database was opened, as db_bench prints them.
    fn statistics(&self) -> String {
        let property = "rocksdb.options-statistics";
        let text = self.open.as_ref().and_then(|open| match &open.databases {
            Databases::One(db) => db.property(property),
            Databases::Several(databases) => databases.property(property),
        });
        format!("STATISTICS:\n{}", text.unwrap_or_default())
    }

    fn dump_cache(&self, path: &Path) -> Result<()> {
        match self.open.as_ref().map(|open| &open.databases) {
            Some(Databases::One(db)) => db.dump_cache(path),
            Some(Databases::Several(databases)) => databases.dump_cache(path),
            None => Err(Error::invalid_argument(
                "--cache_dump: the last benchmark leaves no open database",
            )),
        }
    }

    /// Opens the databases, fresh ones if the benchmark needs them.
    fn prepare(&mut self, benchmark: &Benchmark) -> Result<()> {
        let (flags, setup) = (&benchmark.flags, &benchmark.setup);
        let fresh = benchmark.fresh && !flags.use_existing_db;
        let other = self.open.as_ref().is_some_and(|open| open.setup != *setup);
        if fresh || flags.cold || benchmark.counts_misses || other {
            self.close()?;
        }
        for dir in self.dirs(benchmark) {
            if fresh {
                make_fresh(&dir, flags)?;
            } else if flags.cold {
                drop_cached(&dir)?;
            }
            if self.open.is_none() && !fresh && !has_database(&dir) {
                if flags.use_existing_db {
                    return Err(Error::invalid_argument(format!(
                        "--use_existing_db: there is no database in {}",
                        dir.display()
                    )));
                }
                make_fresh(&dir, flags)?;
            }
        }
        if self.open.is_none() {
            self.open = Some(self.opened(benchmark)?);
        }
        Ok(())
    }

    /// Opens the databases with a cache of their own.
    fn opened(&self, benchmark: &Benchmark) -> Result<Open<S::Engine>> {
        let setup = &benchmark.setup;
        let cache = setup.cache.as_ref();
        let cache = cache.map(|cache| self.source.cache(cache)).transpose()?;
        let open = |dir: &PathBuf| self.source.open(dir, &setup.options, cache.as_ref());
        let dirs = self.dirs(benchmark);
        let databases = match &dirs[..] {
            [dir] => Databases::One(open(dir)?),
            dirs => Databases::Several(MultiDb(dirs.iter().map(open).collect::<Result<_>>()?)),
        };
        Ok(Open {
            databases,
            setup: setup.clone(),
        })
    }

    fn close(&mut self) -> Result<()> {
        match self.open.take().map(|open| open.databases) {
            Some(Databases::One(db)) => db.close(),
            Some(Databases::Several(databases)) => databases.close(),
            None => Ok(()),
        }
    }
}

/// One benchmark on an open database.
struct Job<'a, E> {
    db: &'a E,
    benchmark: &'a Benchmark,
    values: Values,
    checked: Checked,
    progress: Box<dyn Progress>,
    began: Instant,
    /// Set once the reading threads are finished, to stop the writer.
    over: AtomicBool,
    /// The time at which `debt` had written all keys, in nanoseconds.
    loaded: AtomicU64,
    /// Current number of keys, for benchmarks that insert.
    keys: AtomicU64,
}

impl<'a, E: Engine> Job<'a, E> {
    fn new(db: &'a E, benchmark: &'a Benchmark, checked: Checked, begin: Begin<'_>) -> Job<'a, E> {
        let flags = &benchmark.flags;
        let total = match benchmark.seconds() {
            0 => Some(benchmark.operations() * flags.threads * benchmark.databases_written()),
            _ => None,
        };
        Job {
            db,
            benchmark,
            values: checked.values(benchmark),
            checked,
            progress: begin(&benchmark.name, total),
            began: Instant::now(),
            over: AtomicBool::new(false),
            loaded: AtomicU64::new(0),
            keys: AtomicU64::new(flags.num.max(1)),
        }
    }

    /// Returns the nanoseconds since the start of the benchmark.
    #[inline]
    fn nanos(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn settings(&self) -> Settings {
        settings(&self.benchmark.flags)
    }

    /// Runs all threads and adds up their statistics. The time ends with them, and does not include the last put of the
    /// writer beside them, which may be delayed.
    fn run(&self) -> Result<(BenchStats, u64)> {
        let flags = &self.benchmark.flags;
        let work = |thread| Worker::new(self, self.db.session(&self.settings()), thread).run();
        let write =
            || Worker::new(self, self.db.session(&self.settings()), u64::MAX).write_until_over();
        let total = std::thread::scope(|scope| {
            let writer = self.benchmark.beside_writer.then(|| scope.spawn(write));
            let threads: Vec<_> = (0..flags.threads.max(1))
                .map(|thread| scope.spawn(move || work(thread)))
                .collect();
            let mut total = BenchStats::default();
            let mut failed = None;
            for thread in threads {
                match thread.join().expect("a worker does not panic") {
                    Ok(stats) => total.add(&stats),
                    Err(error) => failed = Some(error),
                }
            }
            let elapsed = self.nanos();
            self.over.store(true, Ordering::Relaxed);
            match writer.map(|it| it.join().expect("the writer does not panic")) {
                Some(Err(error)) => failed = Some(error),
                Some(Ok(bytes)) => total.written_beside += bytes,
                None => {}
            }
            failed.map_or(Ok((total, elapsed)), Err)
        });
        self.progress.finish();
        total
    }
}

/// Returns the settings of all operations.
fn settings(flags: &Flags) -> Settings {
    Settings {
        sync: flags.sync,
        disable_wal: flags.disable_wal,
        verify_checksums: flags.verify_checksum,
        total_order_seek: flags.total_order_seek,
        prefix_same_as_start: flags.prefix_same_as_start,
        async_io: flags.async_io,
        optimize_multiget_for_io: flags.optimize_multiget_for_io,
        copy_operands: flags.copy_operands,
    }
}

/// Returns the seed of a thread's random keys.
fn seed(benchmark: &Benchmark, thread: u64) -> u64 {
    let flags = &benchmark.flags;
    let place = (benchmark.place << 32).wrapping_add(thread);
    let seed = flags.seed + flags.worker_round;
    seed.wrapping_add(place.wrapping_mul(0x5851_f42d_4c95_7f2d))
}

/// Returns the time to write `bytes` at `rate` bytes per second; zero without a limit.
fn due(bytes: u64, rate: u64) -> Duration {
    // Byte counts of a benchmark are exactly representable.
    let seconds = bytes as f64 / rate as f64;
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// One thread of a benchmark.
struct Worker<'a, E: Engine, S> {
    job: &'a Job<'a, E>,
    session: S,
    flags: &'a Flags,
    thread: u64,
    rng: Rng,
    /// Number of databases, and the selected one.
    databases: u64,
    database: u64,
    layout: Layout,
    key: Vec<u8>,
    stats: BenchStats,
    /// Start of this thread, in nanoseconds of the job.
    begin: u64,
    /// End of the last timed operation.
    last: u64,
    deadline: Option<u64>,
    reported: u64,
}

impl<'a, E: Engine, S: Session> Worker<'a, E, S> {
    fn new(job: &'a Job<'a, E>, session: S, thread: u64) -> Worker<'a, E, S> {
        let flags = &job.benchmark.flags;
        let now = job.nanos();
        let seconds = job.benchmark.seconds();
        Worker {
            job,
            session,
            flags,
            thread,
            rng: Rng::new(seed(job.benchmark, thread)),
            databases: job.db.databases(),
            database: 0,
            layout: flags.layout(),
            key: vec![0; flags.key_size],
            stats: BenchStats::default(),
            begin: now,
            last: now,
            deadline: (seconds > 0).then(|| now + seconds * 1_000_000_000),
            reported: 0,
        }
    }

    fn run(mut self) -> Result<BenchStats> {
        match self.job.benchmark.kind {
            Kind::Write(order) => self.write_keys(order)?,
            Kind::Delete(order) => self.delete_keys(order)?,
            Kind::Get(target) => self.get_keys(target)?,
            Kind::MultiGet => self.multi_get()?,
            Kind::Seek => self.seek_keys()?,
            Kind::MultiScan { together } => self.scan_ranges(together)?,
            Kind::Prefix { missing } => self.scan_prefixes(missing)?,
            Kind::Scan { reverse } => self.scan(reverse)?,
            Kind::ReadWrite => self.read_and_write()?,
            Kind::Update => self.update()?,
            Kind::Merge => self.merge()?,
            Kind::Operands => self.operands()?,
            Kind::Deterministic => self.fill_levels()?,
            Kind::Debt => self.load_and_wait()?,
            Kind::Tombstones => self.fill_tombstones()?,
            Kind::RangeTombstones => self.fill_range_tombstones()?,
            Kind::FillOperands(count) => self.fill_operands(count)?,
            Kind::Ycsb(mix) => self.ycsb(mix)?,
            Kind::Graph => self.graph()?,
            Kind::FillLinks => self.fill_links()?,
            Kind::Links => self.links()?,
            Kind::Compact
            | Kind::Flush
            | Kind::Wait
            | Kind::LevelStats
            | Kind::Stats
            | Kind::Open { .. }
            | Kind::BareCache(_) => self.command()?,
        }
        self.stats.nanos = self.job.nanos() - self.begin;
        Ok(self.stats)
    }

    /// True if more operations follow after `done`.
    fn goes_on(&self, done: u64) -> bool {
        match self.deadline {
            Some(deadline) => self.last < deadline,
            None => done < self.job.benchmark.operations(),
        }
    }

    /// Records `count` finished operations, with one latency.
    #[inline]
    fn finished(&mut self, count: u64) {
        self.stats.done += count;
        if self.flags.histogram || self.deadline.is_some() {
            let now = self.job.nanos();
            if self.flags.histogram {
                self.stats.record(now - self.last);
                self.stats.course.note(now, count, now - self.last);
            }
            self.last = now;
        }
        if self.stats.done - self.reported >= PROGRESS_STRIDE {
            self.job.progress.advance(self.stats.done - self.reported);
            self.reported = self.stats.done;
        }
    }

    /// Selects a random database if there are several.
    #[inline]
    fn choose_database(&mut self) {
        if self.databases > 1 {
            self.database = self.rng.below(self.databases);
            self.session.select(self.database);
        }
    }

    #[inline]
    fn random_key(&mut self) -> u64 {
        self.random_key_of(self.flags.num)
    }

    /// Sets the key to a random one of the first `count` and returns its number.
    fn random_key_of(&mut self, count: u64) -> u64 {
        self.choose_database();
        let number = self.rng.below(count.max(1));
        self.layout.write(number, &mut self.key);
        number
    }

    /// Puts the value of `number` under the current key.
    #[inline]
    fn put(&mut self, number: u64) -> Result<()> {
        let value = self.job.values.of(number);
        self.stats.written += (self.key.len() + value.len()) as u64;
        self.session.put(&self.key, value)
    }

    fn write_keys(&mut self, order: Order) -> Result<()> {
        let shuffled = match order {
            Order::Shuffled => self.shuffled(),
            _ => Vec::new(),
        };
        let began = Instant::now();
        let mut done = 0;
        let mut next = self.number_at(0, order, &shuffled);
        while self.goes_on(done) {
            let size = self
                .flags
                .batch_size
                .clamp(1, self.flags.num.saturating_sub(done).max(1));
            for at in done..done + size {
                let number = next;
                next = self.number_at(at + 1, order, &shuffled);
                // Otherwise each write waits for the memory of its value, which is not a cost of the engine.
                self.job.values.prefetch(next);
                self.layout.write(number, &mut self.key);
                for database in 0..self.databases {
                    self.session.select(database);
                    if size == 1 {
                        self.put(number)?;
                    } else {
                        let value = self.job.values.of(number);
                        self.stats.written += (self.key.len() + value.len()) as u64;
                        self.session.add(&self.key, value);
                    }
                }
            }
            if size > 1 {
                for database in 0..self.databases {
                    self.session.select(database);
                    self.session.write()?;
                }
            }
            done += size;
            self.finished(size * self.databases);
            if self.flags.write_rate_limit > 0 {
                self.keep_pace(began);
                self.last = self.job.nanos();
            }
        }
        Ok(())
    }

    /// Returns the number of the key at a place in the order of the writes, given all numbers if they are shuffled.
    #[inline]
    fn number_at(&mut self, place: u64, order: Order, shuffled: &[u64]) -> u64 {
        match order {
            Order::Sequential => place,
            Order::Random => self.rng.below(self.flags.num.max(1)),
            // There is none after the last.
            Order::Shuffled => shuffled.get(place as usize).copied().unwrap_or(0),
        }
    }

    /// Returns all keys once, in an order specific to the thread.
    fn shuffled(&mut self) -> Vec<u64> {
        let mut numbers: Vec<u64> = (0..self.flags.num).collect();
        for at in (1..numbers.len()).rev() {
            let other = self.rng.below(at as u64 + 1) as usize;
            numbers.swap(at, other);
        }
        numbers
    }

    fn delete_keys(&mut self, order: Order) -> Result<()> {
        let mut done = 0;
        while self.goes_on(done) {
            match order {
                Order::Sequential => self.layout.write(done, &mut self.key),
                _ => {
                    self.random_key();
                }
            }
            self.session.delete(&self.key)?;
            self.stats.written += self.key.len() as u64;
            done += 1;
            self.finished(1);
        }
        Ok(())
    }

    /// Puts random keys, uncounted, as long as other threads read.
    fn write_until_over(mut self) -> Result<u64> {
        let began = Instant::now();
        while !self.job.over.load(Ordering::Relaxed) {
            let number = self.random_key();
            self.put(number)?;
            self.keep_pace(began);
        }
        Ok(self.stats.written)
    }

    /// Sleeps if this thread exceeds its share of the rate limit since `began`.
    fn keep_pace(&self, began: Instant) {
        let due = due(self.stats.written, self.flags.write_rate_limit);
        if let Some(ahead) = due.checked_sub(began.elapsed()) {
            std::thread::sleep(ahead);
        }
    }

    fn get_keys(&mut self, target: Target) -> Result<()> {
        let hot = (self.flags.num / 100).max(1);
        let mut done = 0;
        if target == Target::Missing {
            // One byte longer than any key written.
            self.key.push(b'.');
        }
        while self.goes_on(done) {
            self.choose_database();
            let number = match target {
                Target::Hot => self.rng.below(hot),
                _ => self.rng.below(self.flags.num.max(1)),
            };
            let len = self.flags.key_size;
            self.layout.write(number, &mut self.key[..len]);
            self.get_one(number)?;
            done += 1;
            self.finished(1);
        }
        Ok(())
    }

    #[inline]
    fn get_one(&mut self, number: u64) -> Result<()> {
        self.stats.looked += 1;
        let (job, mut bytes) = (self.job, 0);
        let found = self.session.get(&self.key, |value| {
            bytes = value.len() as u64;
            check(job, || number, value)
        })?;
        if found {
            self.stats.found += 1;
            self.stats.bytes += self.key.len() as u64 + bytes;
        }
        Ok(())
    }

    fn multi_get(&mut self) -> Result<()> {
        let mut done = 0;
        let size = match self.flags.batch_size {
            0 | 1 => MULTI_GET_KEYS,
            given => given,
        };
        let mut keys = vec![vec![0; self.flags.key_size].into_boxed_slice(); size as usize];
        let mut numbers = vec![0; size as usize];
        while self.goes_on(done) {
            self.choose_database();
            for (key, number) in keys.iter_mut().zip(&mut numbers) {
                *number = self.rng.below(self.flags.num.max(1));
                self.layout.write(*number, key);
            }
            let (job, mut found, mut bytes) = (self.job, 0, 0);
            self.session.multi_get(&keys, |at, value| {
                found += 1;
                bytes += (keys[at].len() + value.len()) as u64;
                check(job, || numbers[at], value)
            })?;
            self.stats.looked += size;
            self.stats.found += found;
            self.stats.bytes += bytes;
            done += size;
            self.finished(size);
        }
        Ok(())
    }

    fn seek_keys(&mut self) -> Result<()> {
        // A separate session, whose iterators may outlive this loop.
        let session = self.job.db.session(&self.job.settings());
        let cursor = |database| {
            session.select(database);
            session.cursor()
        };
        let kept = self.flags.keep_iterator;
        let mut kept: Option<Vec<_>> = kept.then(|| (0..self.databases).map(cursor).collect());
        let mut done = 0;
        while self.goes_on(done) {
            self.random_key();
            if self.flags.seek_missing_prefix {
                make_missing(&mut self.key);
            }
            match &mut kept {
                Some(iters) => self.seek_one(&mut iters[self.database as usize])?,
                None => self.seek_one(&mut cursor(self.database))?,
            }
            done += 1;
            self.finished(1);
        }
        Ok(())
    }

    fn scan_prefixes(&mut self, missing: bool) -> Result<()> {
        let session = self.job.db.session(&self.job.settings());
        let mut kept = self.flags.keep_iterator.then(|| session.cursor());
        let mut done = 0;
        while self.goes_on(done) {
            self.random_key();
            if missing {
                make_missing(&mut self.key);
            }
            match &mut kept {
                Some(iter) => self.walk_prefix(iter)?,
                None => self.walk_prefix(&mut session.cursor())?,
            }
            done += 1;
            self.finished(1);
        }
        Ok(())
    }

    /// Reads all entries with the prefix of the current key.
    #[inline]
    fn walk_prefix(&mut self, iter: &mut impl Cursor) -> Result<()> {
        let prefix = &self.key[..self.flags.prefix_size];
        iter.seek(prefix);
        self.stats.looked += 1;
        self.stats.found += u64::from(iter.valid());
        while iter.valid() {
            let (key, value) = (iter.key(), iter.value());
            if !key.starts_with(prefix) {
                return Err(wrong_prefix(key));
            }
            self.stats.bytes += (key.len() + value.len()) as u64;
            check(self.job, || self.layout.number(key), value)?;
            iter.next();
        }
        iter.status()
    }

    #[inline]
    fn seek_one(&mut self, iter: &mut impl Cursor) -> Result<()> {
        iter.seek(&self.key);
        self.stats.looked += 1;
        let mut steps = 0;
        while iter.valid() {
            let (key, value) = (iter.key(), iter.value());
            self.stats.found += u64::from(steps == 0 && key == &self.key[..]);
            self.stats.bytes += (key.len() + value.len()) as u64;
            check(self.job, || self.layout.number(key), value)?;
            if steps == self.flags.seek_nexts {
                break;
            }
            steps += 1;
            match self.flags.reverse_iterator {
                true => iter.prev(),
                false => iter.next(),
            }
        }
        iter.status()
    }

    fn scan(&mut self, reverse: bool) -> Result<()> {
        let limit = self.job.benchmark.operations();
        let mut iter = self.session.cursor();
        match reverse {
            true => iter.seek_to_last(),
            false => iter.seek_to_first(),
        }
        let mut done = 0;
        while iter.valid() && done < limit {
            let (key, value) = (iter.key(), iter.value());
            self.stats.bytes += (key.len() + value.len()) as u64;
            check(self.job, || self.layout.number(key), value)?;
            match reverse {
                true => iter.prev(),
                false => iter.next(),
            }
            done += 1;
            if done.is_multiple_of(SCAN_STRIDE) {
                self.stats.done += SCAN_STRIDE;
                if self.flags.histogram {
                    self.stats.course.note(self.job.nanos(), SCAN_STRIDE, 0);
                }
                self.job.progress.advance(SCAN_STRIDE);
            }
        }
        self.stats.done = done;
        iter.status()
    }

    fn read_and_write(&mut self) -> Result<()> {
        let mut done = 0;
        while self.goes_on(done) {
            let number = self.random_key();
            if done % 10 == 9 {
                self.put(number)?;
            } else {
                self.get_one(number)?;
            }
            done += 1;
            self.finished(1);
        }
        Ok(())
    }

    fn update(&mut self) -> Result<()> {
        let mut done = 0;
        while self.goes_on(done) {
            let number = self.random_key();
            self.get_one(number)?;
            self.put(number)?;
            done += 1;
            self.finished(1);
        }
        Ok(())
    }

    fn merge(&mut self) -> Result<()> {
        let mut done = 0;
        while self.goes_on(done) {
            let number = self.random_key_of(self.flags.merge_keys.unwrap_or(self.flags.num));
            let operand = self.job.values.of(number);
            self.stats.written += (self.key.len() + operand.len()) as u64;
            self.session.merge(&self.key, operand)?;
            done += 1;
            self.finished(1);
        }
        Ok(())
    }

    /// Runs a single command.
    fn command(&mut self) -> Result<()> {
        if self.thread == 0 {
            let db = self.job.db;
            match self.job.benchmark.kind {
                Kind::Compact => db.compact()?,
                Kind::Flush => db.flush()?,
                Kind::Wait => db.wait_until_quiet()?,
                _ => {}
            }
        }
        self.stats.done += 1;
        Ok(())
    }
}

/// Verifies the value of a key; `number` is computed only if needed.
#[inline]
fn check<E>(job: &Job<'_, E>, number: impl FnOnce() -> u64, value: &[u8]) -> Result<()> {
    if job.checked == Checked::Nothing {
        return Ok(());
    }
    let number = number();
    if job.checked.is_right(&job.values, number, value) {
        return Ok(());
    }
    Err(wrong_value(number, value.len()))
}

/// The verification of values read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checked {
    /// None.
    Nothing,
    /// The value of the key.
    Values,
    /// The value of the key, in its length.
    AnyLength,
}

impl Checked {
    /// Returns the verification that is possible for `benchmark` in a database with `content`.
    fn of(benchmark: &Benchmark, content: Content) -> Checked {
        let of_graph = matches!(benchmark.kind, Kind::FillLinks | Kind::Links);
        match content {
            _ if !benchmark.flags.verify => Checked::Nothing,
            Content::Plain if !of_graph => Checked::Values,
            Content::AnyLength if !of_graph => Checked::AnyLength,
            Content::Graph if of_graph => Checked::Values,
            _ => Checked::Nothing,
        }
    }

    /// The values of a benchmark.
    fn values(self, benchmark: &Benchmark) -> Values {
        let flags = &benchmark.flags;
        let longest = match (self, benchmark.kind) {
            (_, Kind::FillLinks | Kind::Links) => MOST_NODE_DATA,
            (Checked::AnyLength, _) => LONGEST_VALUE,
            _ => flags.graph.mix_max_value_size as usize,
        };
        Values::new(longest, flags.value_size, flags.compression_ratio)
    }

    #[inline]
    fn is_right(self, values: &Values, number: u64, value: &[u8]) -> bool {
        match self {
            Checked::Nothing => true,
            Checked::Values => value == values.of(number),
            Checked::AnyLength => {
                value == values.of(number)
                    || (value.len() >= SHORTEST_VALUE
                        && value == values.of_len(number, value.len()))
            }
        }
    }
}

#[cold]
fn wrong_prefix(key: &[u8]) -> Error {
    Error::corruption(format!(
        "a scan of a prefix returned the key {}",
        key.escape_ascii()
    ))
}

#[cold]
fn wrong_value(number: u64, len: usize) -> Error {
    Error::corruption(format!(
        "the value of key {number} ({len} bytes) is not the one written"
    ))
}
