//! Gets.

use std::hint::black_box;
use std::time::Duration;

use cairn::observe::Histogram;
use cairn::observe::perf::{self, PerfLevel, PerfMetric, by_level};
use cairn::options::CompressionOptions;
use cairn::{CompactRangeOptions, Options, ReadOptions};
use cairn_bench::key_value_gen::Rng;

use crate::database::{Database, options, with_text};
use crate::keys::{Key, KeyGenerator, compressible};
use crate::support::{Case, Sampling, name, run as run_case, timed};
use crate::write::in_threads;

/// Parameters of `DBGet`, in the order of its name. All but the sizes and the style are 0 or 1.
#[derive(Clone, Copy)]
struct Parameters {
    style: u64,
    max_data: u64,
    value_len: u64,
    statistics: u64,
    missing: u64,
    filter: u64,
    mmap: u64,
    /// RocksDB's number of the codec: none or Zstd.
    compression: u64,
    compression_checksum: u64,
    no_block_cache: u64,
    threads: u64,
}

impl Parameters {
    fn all() -> Vec<Parameters> {
        let mut all = Vec::new();
        for threads in [1, 8] {
            for style in 0..3 {
                for max_data in [1 << 20, 128 << 20, 512 << 20] {
                    for value_len in [256, 1024] {
                        // The last flag changes first, as in nested loops.
                        for flags in 0..128 {
                            let flag = |place: u32| (flags >> (6 - place)) & 1;
                            all.push(Parameters {
                                style,
                                max_data,
                                value_len,
                                statistics: flag(0),
                                missing: flag(1),
                                filter: flag(2),
                                mmap: flag(3),
                                compression: 7 * flag(4),
                                compression_checksum: flag(5),
                                no_block_cache: flag(6),
                                threads,
                            });
                        }
                    }
                }
            }
        }
        all
    }

    fn name(&self) -> String {
        name(
            "DBGet",
            &[
                ("comp_style", self.style),
                ("max_data", self.max_data),
                ("per_key_size", self.value_len),
                ("enable_statistics", self.statistics),
                ("negative_query", self.missing),
                ("enable_filter", self.filter),
                ("mmap", self.mmap),
                ("compression_type", self.compression),
                ("compression_checksum", self.compression_checksum),
                ("no_blockcache", self.no_block_cache),
                ("threads", self.threads),
            ],
        )
    }

    fn options(&self) -> Options {
        let mut table = String::new();
        if self.filter == 1 {
            table += "filter_policy=bloomfilter:10;";
        }
        if self.mmap == 1 {
            table += "block_restart_interval=1;";
        }
        table += match self.mmap == 1 || self.no_block_cache == 1 {
            true => "no_block_cache=true;",
            false => "block_cache={id=LRUCache;capacity=104857600;};",
        };
        let codec = match self.compression {
            0 => "kNoCompression",
            _ => "kZSTD",
        };
        let text = format!(
            "compression={codec};allow_mmap_reads={};block_based_table_factory={{{table}}}",
            self.mmap == 1
        );
        let options = options(self.style, self.statistics).text(&text);
        let mut options = options.expect("the options are valid");
        options.family.compression_opts = CompressionOptions {
            checksum: self.compression_checksum == 1,
            ..options.family.compression_opts
        };
        options
    }
}

struct Get {
    database: Database,
    keys: Vec<KeyGenerator>,
    missing: bool,
    options: ReadOptions,
    gets: u64,
    not_found: u64,
}

impl Get {
    fn new(parameters: Parameters) -> Get {
        let entries = parameters.max_data / parameters.value_len;
        let database = Database::create("DBGet", parameters.options());
        let mut keys = KeyGenerator::sequential(entries);
        let mut random = Rng::new(301);
        let mut value = vec![0; parameters.value_len as usize];
        for _ in 0..entries {
            compressible(&mut random, &mut value);
            database.put_unlogged(&keys.next_key(), &value);
        }
        // One level, so that each get considers one file.
        let compacted = database
            .db()
            .compact_range(None, None, &CompactRangeOptions::default());
        compacted.expect("the database can be compacted");
        database.wait_for_compactions();
        let seeds = (0..parameters.threads).map(|thread| 301 + thread);
        Get {
            database,
            keys: seeds
                .map(|seed| KeyGenerator::random(seed, entries))
                .collect(),
            missing: parameters.missing == 1,
            options: ReadOptions {
                verify_checksums: parameters.mmap == 0,
                ..ReadOptions::default()
            },
            gets: 0,
            not_found: 0,
        }
    }
}

impl Case for Get {
    fn run(&mut self, operations: u64) -> Duration {
        let share = operations.div_ceil(self.keys.len() as u64);
        let missing = self.missing;
        let batches: Vec<Vec<Key>> = self
            .keys
            .iter_mut()
            .map(|keys| {
                let key = |_| match missing {
                    true => keys.next_missing(),
                    false => keys.next_key(),
                };
                (0..share).map(key).collect()
            })
            .collect();
        let (db, options) = (self.database.db(), &self.options);
        let time = in_threads(&batches, |keys| {
            for key in keys {
                let value = db.get_with(key, options).expect("the key can be read");
                assert_eq!(black_box(value).is_none(), missing);
            }
        });
        let executed = share * batches.len() as u64;
        self.gets += executed;
        self.not_found += u64::from(missing) * executed;
        time.mul_f64(operations as f64 / executed as f64)
    }

    fn counters(&mut self) -> Vec<(&'static str, f64)> {
        let share = 100.0 * self.not_found as f64 / self.gets as f64;
        let names = ["get_mean", "get_p95", "get_p99"];
        let mut counters = self.database.times(Histogram::DbGet, names);
        counters.extend([("neg_qu_pct", share), self.database.size()]);
        counters
    }
}

/// The counters of [`SimpleGet`], by RocksDB's names.
const GET_METRICS: [(&str, PerfMetric); 1] = [("block_read_time", PerfMetric::BlockReadTime)];

/// Gets of missing keys with all times measured.
struct SimpleGet {
    database: Database,
    keys: KeyGenerator,
    gets: u64,
    sums: [u64; GET_METRICS.len()],
}

impl SimpleGet {
    fn new() -> SimpleGet {
        let options = with_text("arena_block_size=8388608");
        let database = Database::create("simple_get_", options);
        let mut keys = KeyGenerator::random(301, 1024);
        database.fill(&mut keys, 1024, 1024);
        database.settle();
        SimpleGet {
            database,
            keys,
            gets: 0,
            sums: [0; GET_METRICS.len()],
        }
    }
}

impl Case for SimpleGet {
    fn run(&mut self, operations: u64) -> Duration {
        self.gets += operations;
        perf::set_level(PerfLevel::EnableTime);
        by_level::enable();
        let time = timed(operations, || {
            perf::reset();
            let key = self.keys.next_missing();
            black_box(self.database.db().get(&key)).expect("the key can be read");
            for (sum, (_, metric)) in self.sums.iter_mut().zip(GET_METRICS) {
                *sum += perf::metric(metric);
            }
        });
        by_level::disable();
        perf::set_level(PerfLevel::EnableCount);
        time
    }

    fn counters(&mut self) -> Vec<(&'static str, f64)> {
        let sums = GET_METRICS.iter().zip(self.sums);
        let mean = |sum: u64| sum as f64 / self.gets as f64;
        let mut counters: Vec<_> = sums.map(|((name, _), sum)| (*name, mean(sum))).collect();
        counters.push(self.database.size());
        counters
    }
}

/// Runs the cases `DBGet` and `SimpleGetWithPerfContext`.
pub fn run() {
    for parameters in Parameters::all() {
        run_case(&parameters.name(), Sampling::Timed, || Get::new(parameters));
    }
    run_case("SimpleGetWithPerfContext", Sampling::Timed, SimpleGet::new);
}
