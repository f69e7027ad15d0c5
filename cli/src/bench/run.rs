//! The benchmarks themselves.

use std::io::Write;
use std::path::{Path, PathBuf};

use cairn::{CompactRangeOptions, Db, Family, Options, ReadOptions, WriteBatch, WriteOptions};
use cairn_platform::clock::SystemClock;
use cairn_platform::sync::{AtomicBool, Ordering};
use cairn_platform::{Clock, FileSystem, PosixFileSystem};
use cairn_types::{Error, Result};

use super::flags::Flags;
use super::plan::{Benchmark, Kind, Order, Target};
use super::report::Tally;
use super::work::{Rng, Values, number_of, write_key};
use super::{directory, is_ours, make_fresh, print_head};
use crate::progress::Progress;

mod more;

/// Operations between two looks at the clock where single ones take less than the look.
const SCAN_STRIDE: u64 = 128;
/// Operations between two movements of the progress bar.
const PROGRESS_STRIDE: u64 = 4096;

/// Runs the benchmarks that the flags name.
///
/// # Errors
///
/// `InvalidArgument` for unknown names; `Corruption` if a value is not what was written; errors of
/// the database.
pub fn run(flags: &Flags, out: &mut dyn Write) -> Result<()> {
    let printed = |result: std::io::Result<()>| {
        result.map_err(|error| Error::io_text(format!("print: {error}")))
    };
    let names = flags.benchmarks.split(',').filter(|name| !name.is_empty());
    let benchmarks: Result<Vec<Benchmark>> = (0..)
        .zip(names)
        .map(|(place, name)| Benchmark::named(name, place, flags))
        .collect();
    let dir = directory(flags);
    let mut run = Run {
        dir,
        db: None,
        options: options(flags)?,
        trusted: flags.verify,
    };
    printed(print_head(flags, &run.dir, out))?;
    for benchmark in benchmarks? {
        let (tally, elapsed, text) = run.one(&benchmark)?;
        printed(writeln!(out, "{}", tally.line(&benchmark.name, elapsed)))?;
        if let Some(percentiles) = tally.percentiles() {
            printed(writeln!(out, "{percentiles}"))?;
        }
        if !text.is_empty() {
            printed(writeln!(out, "{}", text.trim_end()))?;
        }
        printed(out.flush())?;
    }
    match run.db {
        Some(db) => db.close(),
        None => Ok(()),
    }
}

/// Options of the engine.
fn options(flags: &Flags) -> Result<Options> {
    Options::default()
        .create_if_missing(true)
        .text(&flags.engine_options())
}

/// The state between benchmarks.
struct Run {
    dir: PathBuf,
    db: Option<Db>,
    options: Options,
    /// Whether every value in the database is known.
    trusted: bool,
}

impl Run {
    fn one(&mut self, benchmark: &Benchmark) -> Result<(Tally, u64, String)> {
        self.prepare(benchmark)?;
        if !is_ours(&self.dir, &benchmark.flags) || benchmark.kind == Kind::Merge {
            self.trusted = false;
        }
        let db = self.db.as_ref().expect("prepare has opened it");
        let job = Job::new(db, benchmark, self.trusted);
        let begin = SystemClock.monotonic_nanos();
        let tally = job.run()?;
        let elapsed = SystemClock.monotonic_nanos() - begin;
        let text = match benchmark.kind {
            Kind::LevelStats => db.property("rocksdb.levelstats").unwrap_or_default(),
            Kind::Stats => more::stats(db, &self.dir)?,
            _ => String::new(),
        };
        Ok((tally, elapsed, text))
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
            self.trusted = flags.verify;
        }
        if self.db.is_none() {
            if !fresh && !has_database(&self.dir) {
                make_fresh(&self.dir, flags)?;
            }
            self.db = Some(Db::open(&self.dir, &self.options)?);
        }
        Ok(())
    }
}

fn has_database(dir: &Path) -> bool {
    PosixFileSystem
        .exists(&dir.join("CURRENT"))
        .unwrap_or(false)
}

/// One benchmark on an open database.
struct Job<'a> {
    db: &'a Db,
    family: Family<'a>,
    benchmark: &'a Benchmark,
    values: Values,
    verify: bool,
    progress: Progress,
    /// The reading threads are done: the writing one stops.
    over: AtomicBool,
}

impl<'a> Job<'a> {
    fn new(db: &'a Db, benchmark: &'a Benchmark, verify: bool) -> Job<'a> {
        let flags = &benchmark.flags;
        let total = match benchmark.seconds() {
            0 => Some(benchmark.operations() * flags.threads),
            _ => None,
        };
        Job {
            db,
            family: db.default_family(),
            benchmark,
            values: Values::new(flags.value_size, flags.compression_ratio),
            verify,
            progress: Progress::items(&benchmark.name, total),
            over: AtomicBool::new(false),
        }
    }

    /// Runs all threads and adds up what they did.
    fn run(&self) -> Result<Tally> {
        let flags = &self.benchmark.flags;
        let total = std::thread::scope(|scope| {
            let writer = self
                .benchmark
                .beside_writer
                .then(|| scope.spawn(|| Worker::new(self, u64::MAX).write_until_over()));
            let threads: Vec<_> = (0..flags.threads.max(1))
                .map(|thread| scope.spawn(move || Worker::new(self, thread).run()))
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
            if let Some(Err(error)) = writer.map(|it| it.join().expect("the writer does not panic"))
            {
                failed = Some(error);
            }
            match failed {
                Some(error) => Err(error),
                None => Ok(total),
            }
        });
        self.progress.finish();
        total
    }
}

/// One thread of a benchmark.
struct Worker<'a> {
    job: &'a Job<'a>,
    flags: &'a Flags,
    thread: u64,
    rng: Rng,
    key: Vec<u8>,
    write: WriteOptions,
    read: ReadOptions,
    tally: Tally,
    begin: u64,
    /// When the last timed operation ended.
    last: u64,
    deadline: Option<u64>,
    reported: u64,
}

impl<'a> Worker<'a> {
    fn new(job: &'a Job<'a>, thread: u64) -> Worker<'a> {
        let flags = &job.benchmark.flags;
        let now = SystemClock.monotonic_nanos();
        let seconds = job.benchmark.seconds();
        let place = (job.benchmark.place << 32).wrapping_add(thread);
        let seed = flags
            .seed
            .wrapping_add(place.wrapping_mul(0x5851_f42d_4c95_7f2d));
        Worker {
            job,
            flags,
            thread,
            rng: Rng::new(seed),
            key: vec![0; flags.key_size],
            write: WriteOptions {
                sync: flags.sync,
                disable_wal: flags.disable_wal,
                ..WriteOptions::default()
            },
            read: ReadOptions {
                verify_checksums: flags.verify_checksum,
                ..ReadOptions::default()
            },
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
            Kind::Scan { reverse } => self.scan(reverse)?,
            Kind::ReadWrite => self.read_and_write()?,
            Kind::Update => self.update()?,
            Kind::Merge => self.merge()?,
            Kind::Operands => self.operands()?,
            Kind::Deterministic => self.fill_levels()?,
            Kind::Compact | Kind::Flush | Kind::Wait | Kind::LevelStats | Kind::Stats => {
                self.command()?;
            }
        }
        self.tally.nanos = SystemClock.monotonic_nanos() - self.begin;
        Ok(self.tally)
    }

    /// Whether there is more to do after `done` operations.
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
            let now = SystemClock.monotonic_nanos();
            if self.flags.histogram {
                self.tally.record(now - self.last);
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
        write_key(number, &mut self.key);
        number
    }

    /// Checks that `value` is that of key `number`.
    #[inline]
    fn check(&self, number: u64, value: &[u8]) -> Result<()> {
        if !self.job.verify || value == self.job.values.of(number) {
            return Ok(());
        }
        Err(wrong_value(number, value.len()))
    }

    fn write_keys(&mut self, order: Order) -> Result<()> {
        let shuffled = match order {
            Order::Shuffled => self.shuffled(),
            _ => Vec::new(),
        };
        let mut batch = WriteBatch::new();
        let mut done = 0;
        while self.goes_on(done) {
            let size = self
                .flags
                .batch_size
                .clamp(1, self.flags.num.saturating_sub(done).max(1));
            batch.clear();
            for at in done..done + size {
                let number = match order {
                    Order::Sequential => at,
                    Order::Random => self.rng.below(self.flags.num.max(1)),
                    Order::Shuffled => shuffled[at as usize],
                };
                write_key(number, &mut self.key);
                let value = self.job.values.of(number);
                self.tally.bytes += (self.key.len() + value.len()) as u64;
                batch.put(&self.key, value);
            }
            self.job.db.write_with(&batch, &self.write)?;
            done += size;
            self.finished(size);
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
                Order::Sequential => write_key(done, &mut self.key),
                _ => {
                    self.random_key();
                }
            }
            self.job.family.delete_with(&self.key, &self.write)?;
            done += 1;
            self.finished(1);
        }
        Ok(())
    }

    /// Puts random keys, uncounted, as long as other threads read.
    fn write_until_over(mut self) -> Result<()> {
        while !self.job.over.load(Ordering::Relaxed) {
            let number = self.random_key();
            self.job
                .db
                .put_with(&self.key, self.job.values.of(number), &self.write)?;
        }
        Ok(())
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
            write_key(number, &mut self.key[..len]);
            self.get_one(number)?;
            done += 1;
            self.finished(1);
        }
        Ok(())
    }

    #[inline]
    fn get_one(&mut self, number: u64) -> Result<()> {
        self.tally.looked += 1;
        if let Some(value) = self.job.db.get_with(&self.key, &self.read)? {
            self.tally.found += 1;
            self.tally.bytes += (self.key.len() + value.len()) as u64;
            self.check(number, &value)?;
        }
        Ok(())
    }

    fn multi_get(&mut self) -> Result<()> {
        let mut done = 0;
        let size = self.flags.batch_size.max(1);
        while self.goes_on(done) {
            for _ in 0..size {
                let number = self.random_key();
                self.get_one(number)?;
            }
            done += size;
            self.finished(size);
        }
        Ok(())
    }

    fn seek_keys(&mut self) -> Result<()> {
        let mut done = 0;
        while self.goes_on(done) {
            self.random_key();
            let mut iter = self.job.db.iter_with(&self.read);
            iter.seek(&self.key);
            self.tally.looked += 1;
            if iter.valid() && iter.key() == &self.key[..] {
                self.tally.found += 1;
            }
            let mut steps = 0;
            while iter.valid() {
                let (key, value) = (iter.key(), iter.value());
                self.tally.bytes += (key.len() + value.len()) as u64;
                self.check(number_of(key), value)?;
                if steps == self.flags.seek_nexts {
                    break;
                }
                steps += 1;
                match self.flags.reverse_iterator {
                    true => iter.prev(),
                    false => iter.next(),
                }
            }
            iter.status()?;
            done += 1;
            self.finished(1);
        }
        Ok(())
    }

    fn scan(&mut self, reverse: bool) -> Result<()> {
        let limit = self.job.benchmark.operations();
        let mut iter = self.job.db.iter_with(&self.read);
        match reverse {
            true => iter.seek_to_last(),
            false => iter.seek_to_first(),
        }
        let mut done = 0;
        while iter.valid() && done < limit {
            let (key, value) = (iter.key(), iter.value());
            self.tally.bytes += (key.len() + value.len()) as u64;
            self.check(number_of(key), value)?;
            match reverse {
                true => iter.prev(),
                false => iter.next(),
            }
            done += 1;
            if done.is_multiple_of(SCAN_STRIDE) {
                self.tally.done += SCAN_STRIDE;
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
                self.job
                    .db
                    .put_with(&self.key, self.job.values.of(number), &self.write)?;
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
            self.job
                .db
                .put_with(&self.key, self.job.values.of(number), &self.write)?;
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
            self.tally.bytes += (self.key.len() + operand.len()) as u64;
            self.job
                .family
                .merge_with(&self.key, operand, &self.write)?;
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
                Kind::Compact => db.compact_range(None, None, &CompactRangeOptions::default())?,
                Kind::Flush => db.flush()?,
                Kind::Wait => db.wait_until_quiet()?,
                _ => {}
            }
        }
        self.tally.done += 1;
        Ok(())
    }
}

#[cold]
fn wrong_value(number: u64, len: usize) -> Error {
    Error::corruption(format!(
        "the value of key {number} ({len} bytes) is not the one that was written"
    ))
}
