//! Seeks and steps of iterators. Each operation is the first or the second of a new iterator.

use std::time::{Duration, Instant};

use cairn::observe::perf::{self, PerfLevel, PerfMetric, by_level};
use cairn::{Iter, Options, PrefixExtractor};

use crate::database::{Database, options};
use crate::keys::KeyGenerator;
use crate::support::{Case, Sampling, name, run as run_case};
use crate::write::in_threads;

/// The number of iterators that are created before, and dropped after, a part of a sample.
const BATCH: u64 = 256;

/// The operation of a case.
#[derive(Clone, Copy, PartialEq)]
enum Operation {
    Seek,
    SeekMissing,
    SeekPrefix,
    Next,
    Prev,
}

impl Operation {
    /// Prepares an iterator: one that is to move stands at an entry.
    fn prepare(self, iter: &mut Iter<'_>, keys: &mut KeyGenerator) {
        if matches!(self, Operation::Next | Operation::Prev) {
            while !iter.valid() {
                iter.seek(&keys.next_key());
                iter.status().expect("the key can be read");
            }
        }
    }

    /// Returns the target of a seek.
    fn target(self, keys: &mut KeyGenerator) -> Vec<u8> {
        match self {
            Operation::Seek => keys.next_key().to_vec(),
            Operation::SeekMissing => keys.next_missing().to_vec(),
            Operation::SeekPrefix => keys.next_prefix().to_vec(),
            Operation::Next | Operation::Prev => Vec::new(),
        }
    }

    fn execute(self, iter: &mut Iter<'_>, target: &[u8]) {
        match self {
            Operation::Next => iter.next(),
            Operation::Prev => iter.prev(),
            _ => iter.seek(target),
        }
    }
}

struct Iterate {
    database: Database,
    keys: Vec<KeyGenerator>,
    operation: Operation,
}

impl Iterate {
    /// Fills a database of `max_data` bytes in values of `value_len` with random keys, of which some repeat.
    fn new(
        case: &str,
        options: Options,
        (max_data, value_len): (u64, u64),
        operation: Operation,
        threads: u64,
    ) -> Iterate {
        let entries = max_data / value_len;
        let keys = |seed| {
            let keys = KeyGenerator::random(seed, entries);
            match operation {
                Operation::SeekPrefix => keys.with_prefixes(entries / 100),
                _ => keys,
            }
        };
        let database = Database::create(case, options);
        database.fill(&mut keys(301), entries, value_len as usize);
        database.settle();
        let seeds = (0..threads).map(|thread| 401 + thread);
        Iterate {
            database,
            keys: seeds.map(keys).collect(),
            operation,
        }
    }
}

impl Case for Iterate {
    fn run(&mut self, operations: u64) -> Duration {
        let threads = self.keys.len() as u64;
        let (operation, db) = (self.operation, self.database.db());
        let mut time = Duration::ZERO;
        let mut left = operations.div_ceil(threads);
        let executed = left * threads;
        while left > 0 {
            let batch = left.min(BATCH);
            left -= batch;
            let mut batches = Vec::new();
            for keys in &mut self.keys {
                let mut iterators = Vec::new();
                for _ in 0..batch {
                    let mut iter = db.iter();
                    operation.prepare(&mut iter, keys);
                    iterators.push((iter, operation.target(keys)));
                }
                batches.push(std::sync::Mutex::new(iterators));
            }
            time += in_threads(&batches, |batch| {
                for (iter, target) in &mut *batch.lock().expect("no thread has panicked") {
                    operation.execute(iter, target);
                }
            });
            for batch in batches {
                let iterators = batch.into_inner().expect("no thread has panicked");
                for (iter, _) in iterators {
                    iter.status().expect("the entries can be read");
                }
            }
        }
        time.mul_f64(operations as f64 / executed as f64)
    }

    fn counters(&mut self) -> Vec<(&'static str, f64)> {
        vec![self.database.size()]
    }
}

/// The counters of [`NextWithPerfContext`], by RocksDB's names.
const NEXT_METRICS: [(&str, PerfMetric); 1] = [(
    "internal_key_skipped_count",
    PerfMetric::InternalKeySkippedCount,
)];

/// Steps with all times measured.
struct NextWithPerfContext {
    database: Database,
    keys: KeyGenerator,
    steps: u64,
    sums: [u64; NEXT_METRICS.len()],
}

impl NextWithPerfContext {
    fn new() -> NextWithPerfContext {
        let options = Options::default().create_if_missing(true);
        let database = Database::create("IteratorNextWithPerfContext", options);
        let mut keys = KeyGenerator::random(301, 1024);
        database.fill(&mut keys, 1024, 1024);
        database.settle();
        NextWithPerfContext {
            database,
            keys,
            steps: 0,
            sums: [0; NEXT_METRICS.len()],
        }
    }
}

impl Case for NextWithPerfContext {
    fn run(&mut self, operations: u64) -> Duration {
        self.steps += operations;
        perf::set_level(PerfLevel::EnableTime);
        by_level::enable();
        let mut time = Duration::ZERO;
        for _ in 0..operations {
            let mut iter = self.database.db().iter();
            Operation::Next.prepare(&mut iter, &mut self.keys);
            perf::reset();
            let began = Instant::now();
            iter.next();
            for (sum, (_, metric)) in self.sums.iter_mut().zip(NEXT_METRICS) {
                *sum += perf::metric(metric);
            }
            time += began.elapsed();
        }
        by_level::disable();
        perf::set_level(PerfLevel::EnableCount);
        time
    }

    fn counters(&mut self) -> Vec<(&'static str, f64)> {
        let sums = NEXT_METRICS.iter().zip(self.sums);
        let mean = |sum: u64| sum as f64 / self.steps as f64;
        let mut counters: Vec<_> = sums.map(|((name, _), sum)| (*name, mean(sum))).collect();
        counters.push(self.database.size());
        counters
    }
}

/// Calls `each` with every combination of style, size of the data and size of a value.
fn sizes(mut each: impl FnMut(u64, u64, u64)) {
    for style in 0..3 {
        for max_data in [128 << 20, 512 << 20] {
            for value_len in [256, 1024] {
                each(style, max_data, value_len);
            }
        }
    }
}

/// Returns options, with a Bloom filter if `filter` is not 0.
fn filtered(style: u64, statistics: u64, filter: u64) -> Options {
    let options = options(style, statistics);
    match filter {
        0 => options,
        _ => options
            .text("block_based_table_factory={filter_policy=bloomfilter:10}")
            .expect("the options are valid"),
    }
}

fn run_seeks() {
    for threads in [1, 8] {
        sizes(|style, max_data, value_len| {
            for flags in 0..8 {
                let (statistics, missing, filter) = (flags >> 2, (flags >> 1) & 1, flags & 1);
                let parameters = [
                    ("comp_style", style),
                    ("max_data", max_data),
                    ("per_key_size", value_len),
                    ("enable_statistics", statistics),
                    ("negative_query", missing),
                    ("enable_filter", filter),
                    ("threads", threads),
                ];
                let operation = match missing {
                    0 => Operation::Seek,
                    _ => Operation::SeekMissing,
                };
                run_case(&name("IteratorSeek", &parameters), Sampling::Timed, || {
                    let options = filtered(style, statistics, filter);
                    let data = (max_data, value_len);
                    Iterate::new("IteratorSeek", options, data, operation, threads)
                });
            }
        });
    }
}

fn run_steps() {
    for (benchmark, operation) in [
        ("IteratorNext", Operation::Next),
        ("IteratorPrev", Operation::Prev),
    ] {
        sizes(|style, max_data, value_len| {
            let parameters = [
                ("comp_style", style),
                ("max_data", max_data),
                ("per_key_size", value_len),
            ];
            run_case(&name(benchmark, &parameters), Sampling::Timed, || {
                let data = (max_data, value_len);
                Iterate::new(benchmark, options(style, 0), data, operation, 1)
            });
        });
    }
    run_case(
        "IteratorNextWithPerfContext",
        Sampling::Timed,
        NextWithPerfContext::new,
    );
}

fn run_prefix_seeks() {
    for threads in [1, 8] {
        sizes(|style, max_data, value_len| {
            for flags in 0..4 {
                let (statistics, filter) = (flags >> 1, flags & 1);
                let parameters = [
                    ("comp_style", style),
                    ("max_data", max_data),
                    ("per_key_size", value_len),
                    ("enable_statistics", statistics),
                    ("enable_filter", filter),
                    ("threads", threads),
                ];
                run_case(&name("PrefixSeek", &parameters), Sampling::Timed, || {
                    let mut options = filtered(style, statistics, filter);
                    options.family.prefix_extractor = Some(PrefixExtractor::Fixed(4));
                    let data = (max_data, value_len);
                    Iterate::new("PrefixSeek", options, data, Operation::SeekPrefix, threads)
                });
            }
        });
    }
}

/// Runs the cases `IteratorSeek`, `IteratorNext`, `IteratorNextWithPerfContext`, `IteratorPrev` and `PrefixSeek`.
pub fn run() {
    run_seeks();
    run_steps();
    run_prefix_seeks();
}
