//! The benchmarks themselves: threads that work on an open database and count what they did.
//!
//! Every value that is read is compared with what its key must have, unless somebody else wrote
//! the database. Nothing here knows which engine it measures.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cairn::{Error, Result};

use crate::bench_stats::Tally;
use crate::benchmarks::{Benchmark, Kind, Order, Target};
use crate::db_dir::{
    Content, content, directory, drop_cached, has_database, make_fresh, note_content, space,
};
use crate::engine::{Cursor, Engine, Session, Settings, Source};
use crate::flags::Flags;
use crate::key_value_gen::{Layout, Rng, Values, make_missing};
use crate::measurement::Measured;
use crate::mixgraph::SHORTEST_VALUE;
use crate::progress::{Begin, Progress};
use crate::resource_usage::{Usage, peak_memory, reset_peak};

mod linkbench;
mod mixes;
mod more;
mod open;

/// Operations between two looks at the clock where single ones take less than the look.
const SCAN_STRIDE: u64 = 128;
/// Operations between two movements of the progress bar.
const PROGRESS_STRIDE: u64 = 4096;
/// Bytes of the longest value of a database with values of all lengths.
const LONGEST_VALUE: usize = 1 << 20;
/// Keys that multireadrandom looks up at once unless --batch_size says so.
const MULTI_GET_KEYS: u64 = 8;

/// What a benchmark did: its counts, its costs, and what it has to say.
pub struct Outcome {
    /// The counts.
    pub tally: Tally,
    /// The costs.
    pub measured: Measured,
    /// Text of benchmarks that print something.
    pub text: String,
}

/// Prints db_bench's lines of an outcome.
///
/// # Errors
///
/// Nothing can be printed.
pub fn print(outcome: &Outcome, out: &mut dyn Write) -> std::io::Result<()> {
    let (tally, measured) = (&outcome.tally, &outcome.measured);
    writeln!(
        out,
        "{}",
        tally.line(&measured.name, measured.elapsed_nanos)
    )?;
    if let Some(percentiles) = tally.percentiles() {
        writeln!(out, "{percentiles}")?;
    }
    for (name, value) in &measured.figures {
        writeln!(out, "{name}: {value:.3}")?;
    }
    if !outcome.text.is_empty() {
        writeln!(out, "{}", outcome.text.trim_end())?;
    }
    out.flush()
}

/// Runs `benchmarks` in the engine of `source`, and hands each outcome to `see`.
///
/// # Errors
///
/// `Corruption` if a value is not what was written; errors of the engine, of files, and of `see`.
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
        db: None,
        options: flags.engine_options(),
        begin,
    };
    for (at, benchmark) in benchmarks.iter().enumerate() {
        let mut outcome = run.one(benchmark)?;
        if flags.statistics && at + 1 == benchmarks.len() {
            outcome.text += &run.statistics();
        }
        see(&outcome)?;
    }
    run.db.map_or(Ok(()), Engine::close)
}

/// The state between benchmarks.
struct Run<'a, S: Source> {
    source: &'a S,
    dir: PathBuf,
    db: Option<S::Engine>,
    options: String,
    begin: Begin<'a>,
}

impl<S: Source> Run<'_, S> {
    fn one(&mut self, benchmark: &Benchmark) -> Result<Outcome> {
        self.prepare(benchmark)?;
        let before = content(&self.dir, &benchmark.flags);
        let after = benchmark.leaves(before);
        if after != before {
            note_content(&self.dir, &benchmark.flags, after)?;
        }
        let checked = Checked::of(benchmark, after);
        if let Kind::Open { all } = benchmark.kind {
            return self.open_again_and_again(benchmark, checked, all);
        }
        let db = self.db.as_ref().expect("prepare has opened it");
        let job = Job::new(db, benchmark, checked, self.begin);
        reset_peak();
        let before = Usage::now();
        let tally = job.run()?;
        let elapsed = job.nanos();
        let mut measured = Measured::of(&benchmark.name, &tally, elapsed);
        measured.usage = Usage::now().since(&before);
        measured.peak_memory = peak_memory();
        measured.space = space(&self.dir);
        if benchmark.kind == Kind::Debt {
            measured.figures = job.debt_figures(&measured);
        }
        let text = match benchmark.kind {
            Kind::LevelStats => db.property("rocksdb.levelstats").unwrap_or_default(),
            Kind::Stats => more::stats(db, &self.dir),
            _ => String::new(),
        };
        Ok(Outcome {
            tally,
            measured,
            text,
        })
    }

    /// What the database has counted since it was opened, as db_bench prints it.
    fn statistics(&self) -> String {
        let text = self
            .db
            .as_ref()
            .and_then(|db| db.property("rocksdb.options-statistics"));
        format!("STATISTICS:\n{}", text.unwrap_or_default())
    }

    /// Opens the database: a fresh one if the benchmark wants one.
    fn prepare(&mut self, benchmark: &Benchmark) -> Result<()> {
        let flags = &benchmark.flags;
        let fresh = benchmark.fresh && !flags.use_existing_db;
        if fresh {
            if let Some(db) = self.db.take() {
                db.close()?;
            }
            make_fresh(&self.dir, flags)?;
        } else if flags.cold {
            if let Some(db) = self.db.take() {
                db.close()?;
            }
            drop_cached(&self.dir)?;
        }
        if self.db.is_none() {
            if !fresh && !has_database(&self.dir) {
                make_fresh(&self.dir, flags)?;
            }
            self.db = Some(self.source.open(&self.dir, &self.options)?);
        }
        Ok(())
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
    /// The reading threads are done: the writing one stops.
    over: AtomicBool,
    /// Nanoseconds after which `debt` had loaded everything.
    loaded: AtomicU64,
    /// Keys that there are, for benchmarks that add some.
    keys: AtomicU64,
}

impl<'a, E: Engine> Job<'a, E> {
    fn new(db: &'a E, benchmark: &'a Benchmark, checked: Checked, begin: Begin<'_>) -> Job<'a, E> {
        let flags = &benchmark.flags;
        let total = match benchmark.seconds() {
            0 => Some(benchmark.operations() * flags.threads),
            _ => None,
        };
        Job {
            db,
            benchmark,
            values: checked.values(flags),
            checked,
            progress: begin(&benchmark.name, total),
            began: Instant::now(),
            over: AtomicBool::new(false),
            loaded: AtomicU64::new(0),
            keys: AtomicU64::new(flags.num.max(1)),
        }
    }

    /// Nanoseconds since the benchmark began.
    #[inline]
    fn nanos(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn settings(&self) -> Settings {
        settings(&self.benchmark.flags)
    }

    /// Runs all threads and adds up what they did.
    fn run(&self) -> Result<Tally> {
        let flags = &self.benchmark.flags;
        let work = |thread| Worker::new(self, self.db.session(&self.settings()), thread).run();
        let write =
            || Worker::new(self, self.db.session(&self.settings()), u64::MAX).write_until_over();
        let total = std::thread::scope(|scope| {
            let writer = self.benchmark.beside_writer.then(|| scope.spawn(write));
            let threads: Vec<_> = (0..flags.threads.max(1))
                .map(|thread| scope.spawn(move || work(thread)))
                .collect();
            let mut total = Tally::default();
            let mut failed = None;
            for thread in threads {
                match thread.join().expect("a worker does not panic") {
                    Ok(tally) => total.add(&tally),
                    Err(error) => failed = Some(error),
                }
            }
            self.over.store(true, Ordering::Relaxed);
            match writer.map(|it| it.join().expect("the writer does not panic")) {
                Some(Err(error)) => failed = Some(error),
                Some(Ok(bytes)) => total.written += bytes,
                None => {}
            }
            failed.map_or(Ok(total), Err)
        });
        self.progress.finish();
        total
    }
}

/// What every operation of a benchmark does alike.
fn settings(flags: &Flags) -> Settings {
    Settings {
        sync: flags.sync,
        disable_wal: flags.disable_wal,
        verify_checksums: flags.verify_checksum,
        total_order_seek: flags.total_order_seek,
        prefix_same_as_start: flags.prefix_same_as_start,
    }
}

/// The seed of a thread's random keys.
fn seed(benchmark: &Benchmark, thread: u64) -> u64 {
    let flags = &benchmark.flags;
    let place = (benchmark.place << 32).wrapping_add(thread);
    let seed = flags.seed + flags.worker_round;
    seed.wrapping_add(place.wrapping_mul(0x5851_f42d_4c95_7f2d))
}

/// How long writing `bytes` takes at `rate` bytes a second; no time if that is 0.
fn due(bytes: u64, rate: u64) -> Duration {
    // Lengths that a benchmark writes are exact in a double.
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
    layout: Layout,
    key: Vec<u8>,
    tally: Tally,
    /// Nanoseconds of the job at which this thread began.
    begin: u64,
    /// When the last timed operation ended.
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
            layout: flags.layout(),
            key: vec![0; flags.key_size],
            tally: Tally::default(),
            begin: now,
            last: now,
            deadline: (seconds > 0).then(|| now + seconds * 1_000_000_000),
            reported: 0,
        }
    }

    fn run(mut self) -> Result<Tally> {
        match self.job.benchmark.kind {
            Kind::Write(order) => self.write_keys(order)?,
            Kind::Delete(order) => self.delete_keys(order)?,
            Kind::Get(target) => self.get_keys(target)?,
            Kind::MultiGet => self.multi_get()?,
            Kind::Seek => self.seek_keys()?,
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
            | Kind::Open { .. } => self.command()?,
        }
        self.tally.nanos = self.job.nanos() - self.begin;
        Ok(self.tally)
    }

    /// True if there is more to do after `done` operations.
    fn goes_on(&self, done: u64) -> bool {
        match self.deadline {
            Some(deadline) => self.last < deadline,
            None => done < self.job.benchmark.operations(),
        }
    }

    /// Notes `count` finished operations, and their latency as one.
    #[inline]
    fn finished(&mut self, count: u64) {
        self.tally.done += count;
        if self.flags.histogram || self.deadline.is_some() {
            let now = self.job.nanos();
            if self.flags.histogram {
                self.tally.record(now - self.last);
                self.tally.course.note(now, count, now - self.last);
            }
            self.last = now;
        }
        if self.tally.done - self.reported >= PROGRESS_STRIDE {
            self.job.progress.advance(self.tally.done - self.reported);
            self.reported = self.tally.done;
        }
    }

    #[inline]
    fn random_key(&mut self) -> u64 {
        let number = self.rng.below(self.flags.num.max(1));
        self.layout.write(number, &mut self.key);
        number
    }

    /// Puts the value of `number` under the present key.
    #[inline]
    fn put(&mut self, number: u64) -> Result<()> {
        let value = self.job.values.of(number);
        self.tally.written += (self.key.len() + value.len()) as u64;
        self.session.put(&self.key, value)
    }

    fn write_keys(&mut self, order: Order) -> Result<()> {
        let shuffled = match order {
            Order::Shuffled => self.shuffled(),
            _ => Vec::new(),
        };
        let began = Instant::now();
        let mut done = 0;
        while self.goes_on(done) {
            let size = self
                .flags
                .batch_size
                .clamp(1, self.flags.num.saturating_sub(done).max(1));
            for at in done..done + size {
                let number = match order {
                    Order::Sequential => at,
                    Order::Random => self.rng.below(self.flags.num.max(1)),
                    Order::Shuffled => shuffled[at as usize],
                };
                self.layout.write(number, &mut self.key);
                if size == 1 {
                    self.put(number)?;
                } else {
                    let value = self.job.values.of(number);
                    self.tally.written += (self.key.len() + value.len()) as u64;
                    self.session.add(&self.key, value);
                }
            }
            if size > 1 {
                self.session.write()?;
            }
            done += size;
            self.finished(size);
            if self.flags.write_rate_limit > 0 {
                self.keep_pace(began);
                self.last = self.job.nanos();
            }
        }
        Ok(())
    }

    /// All keys, each once, in an order of this thread's own.
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
            self.tally.written += self.key.len() as u64;
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
        Ok(self.tally.written)
    }

    /// Waits if this thread has written more since `began` than its share of the limit.
    fn keep_pace(&self, began: Instant) {
        let due = due(self.tally.written, self.flags.write_rate_limit);
        if let Some(ahead) = due.checked_sub(began.elapsed()) {
            std::thread::sleep(ahead);
        }
    }

    fn get_keys(&mut self, target: Target) -> Result<()> {
        let hot = (self.flags.num / 100).max(1);
        let mut done = 0;
        if target == Target::Missing {
            // One byte more than any key that was written.
            self.key.push(b'.');
        }
        while self.goes_on(done) {
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
        self.tally.looked += 1;
        let (job, mut bytes) = (self.job, 0);
        let found = self.session.get(&self.key, |value| {
            bytes = value.len() as u64;
            check(job, || number, value)
        })?;
        if found {
            self.tally.found += 1;
            self.tally.bytes += self.key.len() as u64 + bytes;
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
            self.tally.looked += size;
            self.tally.found += found;
            self.tally.bytes += bytes;
            done += size;
            self.finished(size);
        }
        Ok(())
    }

    fn seek_keys(&mut self) -> Result<()> {
        // A session of its own: its iterators may stay while this worker goes on.
        let session = self.job.db.session(&self.job.settings());
        let mut kept = self.flags.keep_iterator.then(|| session.cursor());
        let mut done = 0;
        while self.goes_on(done) {
            self.random_key();
            if self.flags.seek_missing_prefix {
                make_missing(&mut self.key);
            }
            match &mut kept {
                Some(iter) => self.seek_one(iter)?,
                None => self.seek_one(&mut session.cursor())?,
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

    /// Reads all entries with the prefix of the present key.
    #[inline]
    fn walk_prefix(&mut self, iter: &mut impl Cursor) -> Result<()> {
        let prefix = &self.key[..self.flags.prefix_size];
        iter.seek(prefix);
        self.tally.looked += 1;
        self.tally.found += u64::from(iter.valid());
        while iter.valid() {
            let (key, value) = (iter.key(), iter.value());
            if !key.starts_with(prefix) {
                return Err(wrong_prefix(key));
            }
            self.tally.bytes += (key.len() + value.len()) as u64;
            check(self.job, || self.layout.number(key), value)?;
            iter.next();
        }
        iter.status()
    }

    #[inline]
    fn seek_one(&mut self, iter: &mut impl Cursor) -> Result<()> {
        iter.seek(&self.key);
        self.tally.looked += 1;
        if iter.valid() && iter.key() == &self.key[..] {
            self.tally.found += 1;
        }
        let mut steps = 0;
        while iter.valid() {
            let (key, value) = (iter.key(), iter.value());
            self.tally.bytes += (key.len() + value.len()) as u64;
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
            self.tally.bytes += (key.len() + value.len()) as u64;
            check(self.job, || self.layout.number(key), value)?;
            match reverse {
                true => iter.prev(),
                false => iter.next(),
            }
            done += 1;
            if done.is_multiple_of(SCAN_STRIDE) {
                self.tally.done += SCAN_STRIDE;
                if self.flags.histogram {
                    self.tally.course.note(self.job.nanos(), SCAN_STRIDE, 0);
                }
                self.job.progress.advance(SCAN_STRIDE);
            }
        }
        self.tally.done = done;
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
            let number = self.random_key();
            let operand = self.job.values.of(number);
            self.tally.written += (self.key.len() + operand.len()) as u64;
            self.session.merge(&self.key, operand)?;
            done += 1;
            self.finished(1);
        }
        Ok(())
    }

    /// What one thread does once.
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
        self.tally.done += 1;
        Ok(())
    }
}

/// Checks that `value` is that of the key with this number, which is worked out only for that.
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

/// What values that are read are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checked {
    /// With nothing.
    Nothing,
    /// With the value of their key.
    Values,
    /// With the value of their key in their length.
    AnyLength,
}

impl Checked {
    /// What `benchmark` can know of a database that holds `content`.
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

    /// The values of a run.
    fn values(self, flags: &Flags) -> Values {
        let longest = match self {
            Checked::AnyLength => LONGEST_VALUE,
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
        "a walk of a prefix came to the key {}",
        key.escape_ascii()
    ))
}

#[cold]
fn wrong_value(number: u64, len: usize) -> Error {
    Error::corruption(format!(
        "the value of key {number} ({len} bytes) is not the one that was written"
    ))
}
