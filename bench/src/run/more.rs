//! Less common benchmarks: merge operands, a reproducible tree shape, compaction debt, tombstones, and
//! tree statistics.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Instant;

use cairn::Result;

use super::{Job, Worker, check};
use crate::benchmarks::Benchmark;
use crate::db_dir::space;
use crate::engine::{Engine, Session};
use crate::measurement::Measurement;
use crate::tickers::Tickers;

/// Number of writes between two checks of the rate limit, which bounds the cost of sleeping.
const PACE_EVERY: u64 = 256;

/// The number of operands that a thread expects at first, as in db_bench.
const EXPECTED_OPERANDS: usize = 8;

/// Properties printed by `stats`.
const PROPERTIES: [&str; 6] = [
    "rocksdb.estimate-num-keys",
    "rocksdb.total-sst-files-size",
    "rocksdb.live-sst-files-size",
    "rocksdb.total-blob-file-size",
    "rocksdb.estimate-live-data-size",
    "rocksdb.estimate-pending-compaction-bytes",
];

/// Returns the shape of the tree and its space, as text.
pub(super) fn stats<E: Engine>(db: &E, dirs: &[PathBuf]) -> String {
    let mut text = db.property("rocksdb.levelstats").unwrap_or_default();
    for name in PROPERTIES {
        if let Some(value) = db.property(name) {
            let _ = writeln!(text, "{name}: {value}");
        }
    }
    if let Some(stats) = db.property("rocksdb.stats") {
        text += &stats;
    }
    let _ = writeln!(text, "bytes on disk: {}", space(dirs).occupied);
    text
}

/// Returns the number of reads from storage per operation, by the counters of the engine, which include
/// compactions and reads from the page cache, and by those of the kernel; and the cache misses if `benchmark`
/// counts them.
pub(super) fn read_figures(
    benchmark: &Benchmark,
    measured: &Measurement,
    tickers: &Tickers,
) -> Vec<(String, f64)> {
    let mut figures = Vec::new();
    let mut figure = |name: &str, value: f64| figures.push((name.to_owned(), value));
    if benchmark.counts_misses {
        let data = tickers.get("rocksdb.block.cache.data.miss");
        let blocks = tickers.get("rocksdb.block.cache.miss");
        let blobs = tickers.get("rocksdb.blobdb.cache.miss");
        figure("data block misses", data as f64);
        figure("block misses", blocks as f64);
        figure("blob misses", blobs as f64);
        figure("all misses", (blocks + blobs) as f64);
    }
    let each = |count: u64| count as f64 / measured.done.max(1) as f64;
    if !tickers.is_empty() {
        let (reads, bytes) = tickers.storage_reads();
        figure("storage reads per operation", each(reads));
        figure("storage bytes read per operation", each(bytes));
    }
    let usage = &measured.usage;
    figure("read calls per operation", each(usage.read_calls));
    figure("device bytes read per operation", each(usage.device_read));
    if let Some(budget) = benchmark.flags.memory_budget {
        let times = measured.space.tables as f64 / budget.max(1) as f64;
        figure("tables as a multiple of the memory budget", times);
    }
    figures
}

impl<E: Engine> Job<'_, E> {
    /// Returns the figures of `debt` other than latencies.
    pub(super) fn debt_figures(&self, measured: &Measurement) -> Vec<(String, f64)> {
        let loaded = self.loaded.load(Ordering::Relaxed);
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        let quiet = measured.elapsed_nanos.saturating_sub(loaded);
        let mut figures = vec![
            ("seconds to load".to_owned(), seconds(loaded)),
            ("seconds to quiet".to_owned(), seconds(quiet)),
            (
                "megabytes of tables".to_owned(),
                measured.space.tables as f64 / 1e6,
            ),
        ];
        if let Some(amplification) = measured.amplification() {
            figures.push(("write amplification".to_owned(), amplification));
        }
        figures
    }
}

impl<E: Engine, S: Session> Worker<'_, E, S> {
    /// Reads the merge operands of random keys. As in db_bench, an operation includes a second read if there are
    /// more operands than the thread has met before.
    pub(super) fn operands(&mut self) -> Result<()> {
        let (mut done, mut expected) = (0, EXPECTED_OPERANDS);
        while self.goes_on(done) {
            self.random_key();
            self.stats.looked += 1;
            let (mut count, mut bytes) = self.session.operands(&self.key, expected)?;
            if count > expected {
                expected = count;
                (count, bytes) = self.session.operands(&self.key, expected)?;
            }
            self.stats.found += u64::from(count > 0);
            self.stats.bytes += bytes;
            done += 1;
            self.finished(1);
        }
        Ok(())
    }

    /// Scans ranges in random places, in one call or one after another. An operation is a range.
    pub(super) fn scan_ranges(&mut self, together: bool) -> Result<()> {
        let size = self.flags.multiscan_size.max(1);
        let length = self.flags.seek_nexts.max(1);
        let stride = self.flags.multiscan_stride.max(length);
        let places = self.flags.num.saturating_sub(size * stride).max(1);
        let mut done = 0;
        while self.goes_on(done) {
            self.choose_database();
            let first = self.rng.below(places);
            let mut key = |number| {
                self.layout.write(number, &mut self.key);
                self.key.to_vec()
            };
            let starts = (0..size).map(|at| first + at * stride);
            let ranges = starts
                .map(|start| (key(start), key(start + length)))
                .collect();
            let (job, layout) = (self.job, &self.layout);
            let (mut found, mut bytes) = (0, 0);
            self.session.multi_scan(ranges, together, |key, value| {
                found += 1;
                bytes += (key.len() + value.len()) as u64;
                check(job, || layout.number(key), value)
            })?;
            self.stats.looked += size * length;
            self.stats.found += found;
            self.stats.bytes += bytes;
            done += size;
            self.finished(size);
        }
        Ok(())
    }

    /// Writes all keys in order once for each level to fill, fewer each time: the first and largest part
    /// fills the last level, and so on upwards, as in db_bench.
    pub(super) fn fill_levels(&mut self) -> Result<()> {
        const LEVELS: u32 = 4;
        let mut share = self.flags.num;
        for level in 0..LEVELS {
            for number in 0..share {
                self.layout.write(number, &mut self.key);
                self.put(number)?;
                self.finished(1);
            }
            self.job.db.flush()?;
            if level == 0 {
                self.job.db.compact()?;
            }
            self.job.db.wait_until_quiet()?;
            share = (share / 10).max(1);
        }
        Ok(())
    }

    /// Puts random keys and waits until no compaction is due, to measure the total cost of a load.
    pub(super) fn load_and_wait(&mut self) -> Result<()> {
        let began = Instant::now();
        for done in 0..self.job.benchmark.operations() {
            let number = self.random_key();
            self.put(number)?;
            self.finished(1);
            if done % PACE_EVERY == 0 {
                self.keep_pace(began);
            }
        }
        // The last thread to finish records the time.
        self.job
            .loaded
            .fetch_max(self.job.nanos(), Ordering::Relaxed);
        self.job.db.flush()?;
        self.job.db.wait_until_quiet()
    }

    /// Puts all keys in order, flushes, and deletes all but every hundredth, so that a scan skips ninety-nine
    /// deletions between two entries.
    pub(super) fn fill_tombstones(&mut self) -> Result<()> {
        for number in 0..self.flags.num {
            self.layout.write(number, &mut self.key);
            self.put(number)?;
            self.finished(1);
        }
        self.job.db.flush()?;
        for number in (0..self.flags.num).filter(|number| number % 100 != 0) {
            self.layout.write(number, &mut self.key);
            self.session.delete(&self.key)?;
            self.stats.written += self.key.len() as u64;
            self.finished(1);
        }
        self.job.db.flush()
    }

    /// Like [`Worker::fill_tombstones`], with a range tombstone for every hundred entries, or as many as the
    /// flags set, instead of ninety-nine deletions.
    pub(super) fn fill_range_tombstones(&mut self) -> Result<()> {
        for number in 0..self.flags.num {
            self.layout.write(number, &mut self.key);
            self.put(number)?;
            self.finished(1);
        }
        self.job.db.flush()?;
        let mut end = self.key.clone();
        let width = self.flags.keys_per_tombstone;
        for at in 0..self.flags.num.div_ceil(width) {
            let number = at * width;
            self.layout.write(number + 1, &mut self.key);
            self.layout.write(number + width, &mut end);
            self.session.delete_range(&self.key, &end)?;
            self.stats.written += (self.key.len() + end.len()) as u64;
            self.finished(1);
        }
        self.job.db.flush()
    }

    /// Adds `count` operands to each key, in rounds over all keys.
    pub(super) fn fill_operands(&mut self, count: u64) -> Result<()> {
        for at in 0..count {
            for number in 0..self.flags.num {
                self.layout.write(number, &mut self.key);
                let operand = self.job.values.of(number ^ (at << 40));
                self.stats.written += (self.key.len() + operand.len()) as u64;
                self.session.merge(&self.key, operand)?;
                self.finished(1);
            }
        }
        Ok(())
    }
}
