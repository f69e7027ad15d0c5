//! Writes, manual compactions and manual flushes.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use cairn::WriteOptions;
use cairn::compaction::CompactionOptions;
use cairn::observe::{Histogram, Ticker};
use cairn_bench::key_value_gen::Rng;

use crate::database::{Database, NO_COMPACTION, options};
use crate::keys::{Key, KeyGenerator, random_text};
use crate::support::{Case, Sampling, name, run as run_case};

/// The number of samples of an operation that takes a new database.
const SAMPLES: usize = 10;

struct Put {
    database: Database,
    options: WriteOptions,
    keys: Vec<KeyGenerator>,
    value_len: usize,
}

impl Case for Put {
    fn run(&mut self, operations: u64) -> Duration {
        let share = operations.div_ceil(self.keys.len() as u64);
        let entries: Vec<Vec<(Key, Vec<u8>)>> = self
            .keys
            .iter_mut()
            .map(|keys| {
                let mut random = Rng::new(share);
                let entry = |_| {
                    let mut value = vec![0; self.value_len];
                    random_text(&mut random, &mut value);
                    (keys.next_key(), value)
                };
                (0..share).map(entry).collect()
            })
            .collect();
        let (db, options) = (self.database.db(), &self.options);
        let put_all = |entries: &[(Key, Vec<u8>)]| {
            for (key, value) in entries {
                db.put_with(key, value, options)
                    .expect("the entry can be written");
            }
        };
        let time = in_threads(&entries, |entries| put_all(entries));
        // Each thread executes an equal share of the operations.
        time.mul_f64(operations as f64 / (share * entries.len() as u64) as f64)
    }

    fn counters(&mut self) -> Vec<(&'static str, f64)> {
        self.database.wait_for_compactions();
        let names = ["put_mean", "put_p95", "put_p99"];
        let mut counters = self.database.times(Histogram::DbWrite, names);
        counters.push(self.database.size());
        counters
    }
}

/// Calls `work` with each item in a thread of its own, all at the same time. Returns the time until the last has ended.
pub fn in_threads<T: Sync>(items: &[T], work: impl Fn(&T) + Sync) -> Duration {
    if let [item] = items {
        let began = Instant::now();
        work(item);
        return began.elapsed();
    }
    let start = Barrier::new(items.len() + 1);
    std::thread::scope(|scope| {
        let threads: Vec<_> = items
            .iter()
            .map(|item| {
                scope.spawn(|| {
                    start.wait();
                    work(item);
                })
            })
            .collect();
        start.wait();
        let began = Instant::now();
        for thread in threads {
            thread.join().expect("a thread ends without a panic");
        }
        began.elapsed()
    })
}

struct ManualCompaction {
    /// The number of the style, and 1 for statistics.
    style: u64,
    statistics: u64,
    entries: u64,
    value_len: usize,
    database: Option<Database>,
}

impl Case for ManualCompaction {
    fn run(&mut self, operations: u64) -> Duration {
        let mut time = Duration::ZERO;
        for _ in 0..operations {
            let options = options(self.style, self.statistics);
            let options = options.text(NO_COMPACTION).expect("the options are valid");
            // The last database is destroyed first, since both have one path.
            self.database = None;
            let database = Database::create("ManualCompaction", options);
            let mut keys = KeyGenerator::random(301, self.entries);
            for _ in 0..4 {
                database.fill(&mut keys, self.entries / 4, self.value_len);
                database.db().flush().expect("the database can be flushed");
            }
            let metadata = database.db().default_family().metadata(&Default::default());
            let files = metadata.levels.iter().flat_map(|level| &level.files);
            let files: Vec<String> = files.map(|file| file.relative_filename.clone()).collect();
            let files: Vec<&str> = files.iter().map(String::as_str).collect();
            let began = Instant::now();
            let options = CompactionOptions::default();
            let compacted = database.db().compact_files(&options, &files, 1, None);
            compacted.expect("the files can be compacted");
            time += began.elapsed();
            self.database = Some(database);
        }
        time
    }

    fn counters(&mut self) -> Vec<(&'static str, f64)> {
        let Some(database) = &self.database else {
            return Vec::new();
        };
        database.wait_for_compactions();
        let mut counters = vec![database.size()];
        if let Some(statistics) = database.db().statistics() {
            let mean = |histogram| statistics.histogram(histogram).average();
            let sum = |ticker| statistics.ticker(ticker) as f64;
            counters.extend([
                ("comp_time", mean(Histogram::CompactionTime)),
                ("comp_cpu_time", mean(Histogram::CompactionCpuTime)),
                (
                    "comp_outfile_sync",
                    mean(Histogram::CompactionOutfileSyncMicros),
                ),
                ("comp_read", sum(Ticker::CompactReadBytes)),
                ("comp_write", sum(Ticker::CompactWriteBytes)),
            ]);
        }
        counters
    }
}

struct ManualFlush {
    database: Database,
    keys: KeyGenerator,
    random: Rng,
    entries: u64,
    value_len: usize,
}

impl Case for ManualFlush {
    fn run(&mut self, operations: u64) -> Duration {
        let mut time = Duration::ZERO;
        for _ in 0..operations {
            let mut value = vec![0; self.value_len];
            for _ in 0..self.entries {
                random_text(&mut self.random, &mut value);
                let written = self.database.db().put(&self.keys.next_key(), &value);
                written.expect("the entry can be written");
            }
            let began = Instant::now();
            let flushed = self.database.db().flush();
            flushed.expect("the database can be flushed");
            time += began.elapsed();
        }
        time
    }

    fn counters(&mut self) -> Vec<(&'static str, f64)> {
        let mut counters = vec![self.database.size()];
        if let Some(statistics) = self.database.db().statistics() {
            let flushes = statistics.histogram(Histogram::FlushTime);
            let written = statistics.ticker(Ticker::FlushWriteBytes);
            counters.extend([
                ("flush_time", flushes.average()),
                ("flush_write_bytes", written as f64),
            ]);
        }
        counters
    }
}

fn run_puts() {
    const MAX_DATA: u64 = 100 << 30;
    for threads in [1, 8] {
        for style in 0..3 {
            for value_len in [256, 1024] {
                for statistics in [0, 1] {
                    for wal in [0, 1] {
                        let parameters = [
                            ("comp_style", style),
                            ("max_data", MAX_DATA),
                            ("per_key_size", value_len),
                            ("enable_statistics", statistics),
                            ("wal", wal),
                            ("threads", threads),
                        ];
                        let keys = MAX_DATA / value_len;
                        let seeds = (0..threads).map(|thread| 301 + thread);
                        run_case(&name("DBPut", &parameters), Sampling::Timed, || Put {
                            database: Database::create("DBPut", options(style, statistics)),
                            options: WriteOptions {
                                disable_wal: wal == 0,
                                ..WriteOptions::default()
                            },
                            keys: seeds.map(|seed| KeyGenerator::random(seed, keys)).collect(),
                            value_len: value_len as usize,
                        });
                    }
                }
            }
        }
    }
}

fn run_compactions() {
    for style in 0..2 {
        for max_data in [32 << 20, 128 << 20] {
            for value_len in [256, 1024] {
                for statistics in [0, 1] {
                    let parameters = [
                        ("comp_style", style),
                        ("max_data", max_data),
                        ("per_key_size", value_len),
                        ("enable_statistics", statistics),
                    ];
                    let name = name("ManualCompaction", &parameters);
                    run_case(&name, Sampling::Single(SAMPLES), || ManualCompaction {
                        style,
                        statistics,
                        entries: max_data / value_len,
                        value_len: value_len as usize,
                        database: None,
                    });
                }
            }
        }
    }
}

fn run_flushes() {
    for entries in [1 << 10, 8 << 10, 64 << 10] {
        for value_len in [256, 1024] {
            let parameters = [("key_num", entries), ("per_key_size", value_len)];
            let name = name("ManualFlush", &parameters);
            run_case(&name, Sampling::Single(SAMPLES), || {
                let options = options(0, 1).text(NO_COMPACTION);
                let options =
                    options.and_then(|options| options.text("write_buffer_size=2147483648"));
                let options = options.expect("the options are valid");
                ManualFlush {
                    database: Database::create("ManualFlush", options),
                    keys: KeyGenerator::random(301, entries),
                    random: Rng::new(301),
                    entries,
                    value_len: value_len as usize,
                }
            });
        }
    }
}

/// Runs the cases `DBPut`, `ManualCompaction` and `ManualFlush`.
pub fn run() {
    run_puts();
    run_compactions();
    run_flushes();
}
