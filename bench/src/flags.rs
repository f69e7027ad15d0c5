//! db_bench's flags, in db_bench's spelling.
//!
//! gflags accepts `-num=5` and `--num=5` alike and uses underscores. [`normalized`] converts arguments
//! to the form of clap. A flag named like an engine option sets that option.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use cairn::world::RemoteSettings;
use cairn::{Error, Result};
use cairn_options::{DbOptions, FamilyOptions, Options, TableOptions};
use clap::{Args, ValueEnum};

use crate::bare_cache::Case;
use crate::engine::{CacheSettings, CacheType};
use crate::key_value_gen::Layout;
use crate::linkbench;
use crate::mixgraph::GraphFlags;
use crate::option_text;
use crate::rocksdb;

/// The default benchmarks.
pub const DEFAULT_BENCHMARKS: &str =
    "fillseq,fillrandom,overwrite,readrandom,readmissing,seekrandom,readseq,readreverse,compact";

/// The engine name of Cairn's native interface.
pub const OURS: &str = "ours";

/// The default number of entries.
const USUAL_NUM: u64 = 1_000_000;

/// The default size of a block cache, RocksDB's and Cairn's.
const USUAL_CACHE: usize = 32 << 20;

/// The default size of a block cache without a database, cache_bench's.
const USUAL_BARE_CACHE: usize = 1 << 30;

/// Memtables have one part of this number of the memory budget in libraries.
const BUFFERS_OF_BUDGET: u64 = 8;

/// The largest duration, thirty years.
const MAX_SECONDS: u64 = 1_000_000_000;

/// The largest number of threads, of databases, and of ranges of an operation.
const MAX_COUNT: u64 = 1_000_000;

/// Bytes of the number in a prefix; longer prefixes can be changed to missing ones.
const PREFIX_NUMBER_LEN: usize = 8;

/// The place where data is cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CacheBy {
    /// The engine's block cache.
    Engine,
    /// The operating system's page cache.
    Os,
}

/// The execution of reads that are known together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IoBy {
    /// io_uring, or threads where it is refused.
    Uring,
    /// Threads.
    Threads,
    /// One after another.
    Blocking,
}

/// The command `bench`.
#[derive(Clone, Debug, Args)]
pub struct Flags {
    /// Comma-separated benchmarks, in order.
    #[arg(long, default_value = DEFAULT_BENCHMARKS)]
    pub benchmarks: String,
    /// Directory of the database [default: cairn-bench in TEST_TMPDIR or the temporary directory].
    #[arg(long, value_name = "DIR")]
    pub db: Option<PathBuf>,
    /// Number of entries, or of LinkBench's nodes [default: 1000000, or for LinkBench with --memory_budget as
    /// many as have --data_per_memory times its bytes].
    #[arg(long = "num", value_name = "N")]
    pub given_num: Option<u64>,
    /// [`Flags::given_num`] or its default, set by [`Flags::settled`].
    #[arg(skip)]
    pub num: u64,
    /// Number of read operations [default: as many as entries].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub reads: Option<i64>,
    /// Number of operands that `mergerandom` writes [default: as many as entries].
    #[arg(long, value_name = "N")]
    pub writes: Option<u64>,
    /// Number of different keys of `mergerandom` [default: as many as entries].
    #[arg(long = "merge_keys", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub merge_keys: Option<u64>,
    /// Copy every operand that `readrandomoperands` reads to memory of its own.
    #[arg(long = "copy_operands", num_args = 0..=1, default_value_t = false, default_missing_value = "true", value_parser = clap::builder::BoolishValueParser::new())]
    pub copy_operands: bool,
    /// Duration of each benchmark with random keys, in seconds; 0 counts operations instead.
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=MAX_SECONDS))]
    pub duration: u64,
    /// Bytes of a key.
    #[arg(long = "key_size", value_name = "BYTES", default_value = "16", value_parser = key_size)]
    pub key_size: usize,
    /// Bytes of a value.
    #[arg(long = "value_size", value_name = "BYTES", default_value_t = 100)]
    pub value_size: usize,
    /// Compressed size of a value, as a fraction of its size.
    #[arg(
        long = "compression_ratio",
        value_name = "SHARE",
        default_value_t = 0.5,
        value_parser = share
    )]
    pub compression_ratio: f64,
    /// Number of threads.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=MAX_COUNT))]
    pub threads: u64,
    /// Write rate limit in bytes per second, for the writer of `readwhilewriting` and
    /// `seekrandomwhilewriting` and for each thread of `debt`, `fillseq`, `fillrandom`, `overwrite` and
    /// similar ones, so that all engines have the same background load; 0 for no limit.
    #[arg(
        long = "benchmark_write_rate_limit",
        value_name = "BYTES",
        default_value_t = 0
    )]
    pub write_rate_limit: u64,
    /// Entries per write batch.
    #[arg(long = "batch_size", value_name = "N", default_value_t = 1)]
    pub batch_size: u64,
    /// Number of steps after each seek.
    #[arg(long = "seek_nexts", value_name = "N", default_value_t = 0)]
    pub seek_nexts: u64,
    /// Number of ranges that an operation of `multiscan` or `rangescans` scans. Each has --seek_nexts keys, at least
    /// one.
    #[arg(long = "multiscan_size", value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(..=MAX_COUNT))]
    pub multiscan_size: u64,
    /// Number of keys from the start of one of these ranges to that of the next.
    #[arg(long = "multiscan_stride", value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(..=1 << 40))]
    pub multiscan_stride: u64,
    /// Step backwards after each seek.
    #[arg(long = "reverse_iterator", num_args = 0..=1, default_value_t = false, default_missing_value = "true", value_parser = clap::builder::BoolishValueParser::new())]
    pub reverse_iterator: bool,
    /// Reuse one iterator per thread instead of creating one for each seek.
    #[arg(long = "keep_iterator", num_args = 0..=1, default_value_t = false, default_missing_value = "true", value_parser = clap::builder::BoolishValueParser::new())]
    pub keep_iterator: bool,
    /// Length of the fixed prefix extractor; 0 for none.
    #[arg(long = "prefix_size", value_name = "BYTES", default_value_t = 0)]
    pub prefix_size: usize,
    /// Entries per prefix; 0 writes keys without generated prefixes.
    #[arg(long = "keys_per_prefix", value_name = "N", default_value_t = 0)]
    pub keys_per_prefix: u64,
    /// Ignore the prefix extractor in scans.
    #[arg(long = "total_order_seek", num_args = 0..=1, default_value_t = false, default_missing_value = "true", value_parser = clap::builder::BoolishValueParser::new())]
    pub total_order_seek: bool,
    /// End scans at the end of the prefix of their seek key.
    #[arg(long = "prefix_same_as_start", num_args = 0..=1, default_value_t = false, default_missing_value = "true", value_parser = clap::builder::BoolishValueParser::new())]
    pub prefix_same_as_start: bool,
    /// Seek missing prefixes; requires prefixes longer than 8 bytes.
    #[arg(long = "seek_missing_prefix", num_args = 0..=1, default_value_t = false, default_missing_value = "true", value_parser = clap::builder::BoolishValueParser::new())]
    pub seek_missing_prefix: bool,
    /// Parameters of the benchmark mixgraph.
    #[command(flatten)]
    pub graph: GraphFlags,
    /// Seed of random keys.
    #[arg(long, value_name = "N", default_value_t = 301)]
    pub seed: u64,
    /// Sync every write.
    #[arg(long, num_args = 0..=1, default_value_t = false, default_missing_value = "true", value_parser = clap::builder::BoolishValueParser::new())]
    pub sync: bool,
    /// Bypass the WAL.
    #[arg(long = "disable_wal", num_args = 0..=1, default_value_t = false, default_missing_value = "true", value_parser = clap::builder::BoolishValueParser::new())]
    pub disable_wal: bool,
    /// Use the existing database instead of a fresh one.
    #[arg(long = "use_existing_db", num_args = 0..=1, default_value_t = false, default_missing_value = "true", value_parser = clap::builder::BoolishValueParser::new())]
    pub use_existing_db: bool,
    /// Measure the latency of single operations and print percentiles.
    #[arg(long, num_args = 0..=1, default_value_t = true, default_missing_value = "true", action = clap::ArgAction::Set, value_parser = clap::builder::BoolishValueParser::new())]
    pub histogram: bool,
    /// Collect tickers and histograms, including timers, and print them at the end.
    #[arg(long, num_args = 0..=1, default_value_t = false, default_missing_value = "true", value_parser = clap::builder::BoolishValueParser::new())]
    pub statistics: bool,
    /// Compare every value read with the value written.
    #[arg(long, num_args = 0..=1, default_value_t = true, default_missing_value = "true", action = clap::ArgAction::Set, value_parser = clap::builder::BoolishValueParser::new())]
    pub verify: bool,
    /// Verify checksums of blocks.
    #[arg(long = "verify_checksum", num_args = 0..=1, default_value_t = true, default_missing_value = "true", action = clap::ArgAction::Set, value_parser = clap::builder::BoolishValueParser::new())]
    pub verify_checksum: bool,
    /// The engine: `ours` is Cairn in this process, a path is a library with RocksDB's C interface; a
    /// suffix `+hyperclock` or `+lru` selects the kind of its block cache.
    #[arg(long, value_name = "ENGINE", default_value = OURS, conflicts_with = "engines")]
    pub engine: String,
    /// Compact tables with many deletions: Cairn's `deletion_triggered_compaction`, and a collector
    /// with the same window in RocksDB [default: off when engines are compared, the engine's own
    /// default otherwise].
    #[arg(long = "compact_on_deletion", num_args = 0..=1, default_missing_value = "true", value_parser = clap::builder::BoolishValueParser::new())]
    pub compact_on_deletion: Option<bool>,
    /// Reopen the database and drop its files from the page cache before each benchmark that reads
    /// existing data.
    #[arg(long, num_args = 0..=1, default_value_t = false, default_missing_value = "true", value_parser = clap::builder::BoolishValueParser::new())]
    pub cold: bool,
    /// Keys per range tombstone of `fillrangetombstones`, all but the first of which are deleted.
    #[arg(long = "keys_per_tombstone", value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(2..))]
    pub keys_per_tombstone: u64,
    /// Merge operands per key of `filloperands`.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub operands: u64,
    /// Number of databases in the process, each with --num entries and all with one block cache; every
    /// operation is in a random one, and loads fill all. 0 for a single database.
    #[arg(long = "num_multi_db", value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=MAX_COUNT))]
    pub num_multi_db: u64,
    /// Median size of the data of LinkBench's nodes.
    #[arg(long = "node_datasize", value_name = "BYTES", default_value_t = 128)]
    pub node_datasize: usize,
    /// Median size of the data of LinkBench's links.
    #[arg(long = "link_datasize", value_name = "BYTES", default_value_t = 8)]
    pub link_datasize: usize,
    /// Memory of the databases; suffixes K, M and G are accepted. For Cairn it is the option `memory_budget` of all
    /// databases together. Libraries have no such option: an eighth is the limit of all memtables
    /// (`db_write_buffer_size`, each of half of it), and the rest is the block cache unless --cache_size is given.
    /// The page cache is not included; --use_direct_reads avoids it.
    #[arg(long = "memory_budget", value_name = "BYTES", value_parser = size)]
    pub memory_budget: Option<u64>,
    /// Size of LinkBench's data, as a multiple of the --memory_budget.
    #[arg(long = "data_per_memory", value_name = "N", default_value_t = 7.0)]
    pub data_per_memory: f64,
    /// Kind of the block cache: lru_cache or hyper_clock_cache [default: that of a cache given by its size,
    /// an LRU cache].
    #[arg(long = "cache_type", value_name = "NAME")]
    pub cache_type: Option<CacheType>,
    /// Base-2 logarithm of the number of shards of the block cache [default: the engine's].
    #[arg(
        long = "cache_numshardbits",
        value_name = "BITS",
        allow_negative_numbers = true
    )]
    pub cache_numshardbits: Option<i32>,
    /// Share of the block cache for metadata [default: the engine's].
    #[arg(long = "cache_high_pri_pool_ratio", value_name = "SHARE", value_parser = share)]
    pub cache_high_pri_pool_ratio: Option<f64>,
    /// Share of the block cache for data blocks, below which are blobs [default: the engine's].
    #[arg(long = "cache_low_pri_pool_ratio", value_name = "SHARE", value_parser = share)]
    pub cache_low_pri_pool_ratio: Option<f64>,
    /// Cache blobs.
    #[arg(long = "use_blob_cache", num_args = 0..=1, default_value_t = false, default_missing_value = "true", value_parser = clap::builder::BoolishValueParser::new())]
    pub use_blob_cache: bool,
    /// With --use_blob_cache, cache blobs in the block cache.
    #[arg(long = "use_shared_block_and_blob_cache", num_args = 0..=1, default_value_t = true, default_missing_value = "true", action = clap::ArgAction::Set, value_parser = clap::builder::BoolishValueParser::new())]
    pub use_shared_block_and_blob_cache: bool,
    /// Size of a blob cache that is not shared; suffixes K, M and G are accepted.
    #[arg(long = "blob_cache_size", value_name = "BYTES", default_value = "8M", value_parser = size_text)]
    pub blob_cache_size: String,
    /// Execution of reads that are known together, such as those of multireadrandom [default: io_uring if the
    /// kernel has it]. Only for the engine `ours`.
    #[arg(long, value_name = "HOW")]
    pub io: Option<IoBy>,
    /// Read option async_io: scans read ahead in the background, and the files of a level are read in parallel by
    /// multireadrandom.
    #[arg(long = "async_io", num_args = 0..=1, default_value_t = false, default_missing_value = "true", value_parser = clap::builder::BoolishValueParser::new())]
    pub async_io: bool,
    /// Read option optimize_multiget_for_io: with --async_io, all levels are read in parallel.
    #[arg(long = "optimize_multiget_for_io", num_args = 0..=1, default_value_t = true, default_missing_value = "true", action = clap::ArgAction::Set, value_parser = clap::builder::BoolishValueParser::new())]
    pub optimize_multiget_for_io: bool,
    /// Latency of each read, as on remote storage, in microseconds; 0 for none. Loads are delayed, too, unless
    /// they are a run of their own. Only for the engine `ours`, like the next two.
    #[arg(
        long = "fs_latency_us",
        value_name = "MICROSECONDS",
        default_value_t = 0
    )]
    pub fs_latency_us: u64,
    /// Bandwidth of all reads together, in MB per second; 0 for no limit.
    #[arg(long = "fs_bandwidth_mb", value_name = "MB", default_value_t = 0)]
    pub fs_bandwidth_mb: u64,
    /// Number of reads in flight at a time, if they have a latency or bandwidth.
    #[arg(long = "fs_queue_depth", value_name = "N", default_value_t = 128)]
    pub fs_queue_depth: usize,
    /// Comma-separated engines to compare; each runs in its own process, in turn.
    #[arg(long, value_name = "ENGINES", value_delimiter = ',')]
    pub engines: Vec<String>,
    /// Number of rounds [default: 5 with --engines, otherwise 1].
    #[arg(long, value_name = "N")]
    pub rounds: Option<usize>,
    /// Benchmarks to run once in each engine, untimed, before the first round; the rounds then use the
    /// resulting databases.
    #[arg(long, value_name = "BENCHMARKS")]
    pub prepare: Option<String>,
    /// Write all measurements to a JSON file.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a report with plots to an HTML file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the block cache to a file after the last benchmark, for `cairn cache`. Only for the engine `ours`.
    #[arg(long = "cache_dump", value_name = "FILE", conflicts_with_all = ["engines", "prepare", "rounds", "json", "html"])]
    pub cache_dump: Option<PathBuf>,
    /// The place where data is cached unless --cache_size is given: the engine's block cache, large enough
    /// for everything, or the operating system's page cache, with a block cache of 8 MB.
    #[arg(long = "cache_by", value_name = "WHO", conflicts_with = "cache_size")]
    pub cache_by: Option<CacheBy>,
    /// Run as the worker for this engine.
    #[arg(long, hide = true)]
    pub worker: Option<String>,
    /// Database directory of a worker.
    #[arg(long = "worker_dir", hide = true)]
    pub worker_dir: Option<PathBuf>,
    /// Round of a worker; 0 prepares.
    #[arg(long = "worker_round", hide = true, default_value_t = 0)]
    pub worker_round: u64,
    /// none, snappy, zlib, bzip2, lz4, lz4hc or zstd.
    #[arg(long = "compression_type", value_name = "NAME")]
    pub compression_type: Option<String>,
    /// Block cache size in bytes; suffixes K, M and G are accepted.
    #[arg(long = "cache_size", value_name = "BYTES", value_parser = size_text)]
    pub cache_size: Option<String>,
    /// Bits per key of Bloom filters; negative for none.
    #[arg(
        long = "bloom_bits",
        value_name = "BITS",
        allow_negative_numbers = true
    )]
    pub bloom_bits: Option<f64>,
    /// Engine options as RocksDB option string. A flag named like an option, such as
    /// --write_buffer_size=8M, sets that option; so does --memtablerep=vector.
    #[arg(
        long,
        value_name = "STRING",
        default_value = "",
        hide_default_value = true
    )]
    pub options: String,
}

/// Converts `args` to the form of clap: after the word `bench`, flags get two dashes and underscores,
/// and engine options become part of `--options`.
#[must_use]
pub fn normalized(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut normal = Vec::new();
    let mut engine = String::new();
    let mut in_bench = false;
    for (at, arg) in args.into_iter().enumerate() {
        match arg.to_str().filter(|_| in_bench).and_then(flag) {
            Some((name, Some(value))) if name == "options" => {
                engine.push_str(&format!("{value};"));
            }
            Some((name, value)) if is_engine_option(&name) => {
                engine.push_str(&format!(
                    "{};",
                    engine_statement(&name, value.unwrap_or("true"))
                ));
            }
            Some((name, Some(value))) => normal.push(format!("--{name}={value}").into()),
            Some((name, None)) => normal.push(format!("--{name}").into()),
            None => {
                in_bench |= at == 1 && arg == "bench";
                normal.push(arg);
            }
        }
    }
    if !engine.is_empty() {
        normal.push(format!("--options={engine}").into());
    }
    normal
}

/// Parses `-name`, `--name` or `--name=value`; `None` if `arg` is not a long flag.
fn flag(arg: &str) -> Option<(String, Option<&str>)> {
    let text = arg.strip_prefix('-')?;
    let text = text.strip_prefix('-').unwrap_or(text);
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    let long = name.len() > 1 && !name.starts_with(|char: char| char.is_ascii_digit());
    let name = match name.replace('-', "_") {
        // The flag's name in db_bench.
        name if name == "memtablerep" => "memtable_factory".to_owned(),
        name => name,
    };
    long.then_some((name, value))
}

/// Engine options whose names are also flags with another meaning; they can only be set with `--options`.
const FLAGS_FIRST: [&str; 2] = ["statistics", "memory_budget"];

/// True if `name` is an option of the engine and not a flag.
fn is_engine_option(name: &str) -> bool {
    let known = FamilyOptions::row(name).is_some()
        || DbOptions::row(name).is_some()
        || TableOptions::row(name).is_some();
    known && !FLAGS_FIRST.contains(&name)
}

/// Returns the assignment of engine option `name`.
fn engine_statement(name: &str, value: &str) -> String {
    let table_only = FamilyOptions::row(name).is_none() && DbOptions::row(name).is_none();
    match table_only {
        true => format!("block_based_table_factory={{{name}={value}}}"),
        false => format!("{name}={value}"),
    }
}

/// Parses a size with an optional suffix `K`, `M`, `G` or `T`.
fn size(text: &str) -> std::result::Result<u64, String> {
    let size = option_text::size(text).and_then(|size| u64::try_from(size).ok());
    size.ok_or_else(|| "expected bytes, with an optional suffix K, M, G or T".to_owned())
}

/// Parses a number from 0 to 1.
fn share(text: &str) -> std::result::Result<f64, String> {
    let share = text
        .parse()
        .ok()
        .filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "expected a number from 0 to 1".to_owned())
}

/// Parses the size of a key.
fn key_size(text: &str) -> std::result::Result<usize, String> {
    let size = text.parse().ok().filter(|size| *size > 0);
    size.ok_or_else(|| "expected a number above 0".to_owned())
}

/// Checks the text of a size.
fn size_text(text: &str) -> std::result::Result<String, String> {
    size(text).map(|_| text.to_owned())
}

/// Returns Cairn's caches, and those of the library that `cargo xtask reference` builds if it and its shim
/// exist.
fn cache_engines() -> Vec<String> {
    let kinds = |engine: &str| CacheType::SUFFIXES.map(|(_, suffix)| format!("{engine}{suffix}"));
    let mut engines = kinds(OURS).to_vec();
    match rocksdb::Library::reference() {
        Ok(path) => engines.extend(kinds(&path.to_string_lossy())),
        Err(error) => {
            // The reader of standard error may have closed it.
            let _ = writeln!(std::io::stderr(), "Cairn only: {error}");
        }
    }
    engines
}

impl Flags {
    /// Returns the flags with the effective number of entries, and, if only caches are measured and no engine
    /// is given, with the engines to compare: Cairn and the library of `cargo xtask reference`.
    #[must_use]
    pub fn settled(&self) -> Flags {
        let mut flags = self.clone();
        let scaled = || {
            let bytes = self.memory_budget.filter(|_| self.uses_graph())?;
            let nodes = bytes as f64 * self.data_per_memory;
            Some((nodes / self.graph_sizes().bytes_of_node() as f64).ceil() as u64)
        };
        flags.num = self.given_num.or_else(scaled).unwrap_or(USUAL_NUM);
        let alone = self.worker.is_none() && self.engines.is_empty() && self.engine == OURS;
        if alone && self.rounds.is_none() && self.measures_caches_only() {
            flags.engines = cache_engines();
        }
        flags
    }

    /// True if all benchmarks are of caches without a database.
    fn measures_caches_only(&self) -> bool {
        let names = self.benchmarks.split(',').map(str::trim);
        let mut names = names.filter(|name| !name.is_empty());
        names.all(|name| name == "cache" || Case::named(name).is_some())
    }

    /// True if LinkBench is among the benchmarks.
    #[must_use]
    pub fn uses_graph(&self) -> bool {
        let mut names = self.prepare.iter().chain([&self.benchmarks]);
        names.any(|names| names.contains("linkbench"))
    }

    /// Returns the sizes of LinkBench's data.
    #[must_use]
    pub fn graph_sizes(&self) -> linkbench::Sizes {
        linkbench::Sizes {
            node_data: self.node_datasize,
            link_data: self.link_datasize,
        }
    }

    /// Returns the number of databases.
    #[must_use]
    pub fn databases(&self) -> u64 {
        self.num_multi_db.max(1)
    }

    /// Returns the number of read operations.
    #[must_use]
    pub fn reads(&self) -> u64 {
        let given = self.reads.and_then(|reads| u64::try_from(reads).ok());
        given.unwrap_or(self.num)
    }

    /// Returns the options of every engine: those of db_bench flags, those given by name, and, when
    /// engines are compared, those whose defaults differ between engines.
    #[must_use]
    pub fn engine_options(&self) -> String {
        let mut text = String::new();
        if !self.engines.is_empty() {
            // Cairn's default is the number of cores; RocksDB's is 2.
            let cores = std::thread::available_parallelism().map_or(2, usize::from);
            text.push_str(&format!("max_background_jobs={};", cores.max(2)));
        }
        if let Some(name) = &self.compression_type {
            text.push_str(&format!("compression={};", compression_word(name)));
        }
        if let Some(size) = self
            .cache_text()
            .filter(|_| self.cache_settings().is_none())
        {
            text.push_str(&format!(
                "block_based_table_factory={{block_cache={size}}};"
            ));
        }
        if let Some(bytes) = self.own_budget() {
            text.push_str(&format!("memory_budget={bytes};"));
        }
        if let Some(bytes) = self.split_budget() {
            let buffers = bytes / BUFFERS_OF_BUDGET;
            let each = buffers / 2;
            text.push_str(&format!(
                "db_write_buffer_size={buffers};write_buffer_size={each};"
            ));
        }
        if self.use_blob_cache && !self.use_shared_block_and_blob_cache {
            text.push_str(&format!("blob_cache={};", self.blob_cache_size));
        }
        if let Some(bits) = self.bloom_bits.filter(|bits| *bits > 0.0) {
            text.push_str(&format!(
                "block_based_table_factory={{filter_policy=bloomfilter:{bits}:false}};"
            ));
        }
        if self.prefix_size > 0 {
            text.push_str(&format!(
                "prefix_extractor=rocksdb.FixedPrefix.{};",
                self.prefix_size
            ));
        }
        if self.statistics {
            text.push_str("statistics=BasicStatistics;");
        }
        option_text::merged(&(text + &self.options))
    }

    /// Returns the memory budget, if the engine has such an option.
    fn own_budget(&self) -> Option<u64> {
        let engine = self.worker.as_ref().unwrap_or(&self.engine);
        self.memory_budget
            .filter(|_| CacheType::split(engine).0 == OURS)
    }

    /// Returns the memory budget, if it has to be split for the engine.
    fn split_budget(&self) -> Option<u64> {
        self.memory_budget.filter(|_| self.own_budget().is_none())
    }

    /// Returns the size of the block cache, if it is set by flags.
    fn cache_text(&self) -> Option<String> {
        let by = |who| match who {
            CacheBy::Engine => (2 * self.raw_bytes()).max(64 << 20).to_string(),
            CacheBy::Os => "8M".to_owned(),
        };
        let rest = |bytes: u64| (bytes - bytes / BUFFERS_OF_BUDGET).to_string();
        let given = self.cache_size.clone().or(self.cache_by.map(by));
        given.or(self.split_budget().map(rest))
    }

    /// Returns the block cache that all databases share, if the flags require more than a size.
    #[must_use]
    pub fn cache_settings(&self) -> Option<CacheSettings> {
        let with_blobs = self.use_blob_cache && self.use_shared_block_and_blob_cache;
        // The cache of a budget has the blobs too.
        let needed = (with_blobs && self.own_budget().is_none())
            || (self.databases() > 1 && self.own_budget().is_none())
            || self.cache_type.is_some()
            || self.cache_numshardbits.is_some()
            || self.cache_high_pri_pool_ratio.is_some()
            || self.cache_low_pri_pool_ratio.is_some();
        needed.then(|| self.any_cache_settings(USUAL_CACHE, with_blobs))
    }

    /// Returns the settings of a block cache without a database.
    #[must_use]
    pub fn bare_cache_settings(&self) -> CacheSettings {
        self.any_cache_settings(USUAL_BARE_CACHE, false)
    }

    fn any_cache_settings(&self, usual: usize, with_blobs: bool) -> CacheSettings {
        let size = self.cache_text().and_then(|text| option_text::size(&text));
        CacheSettings {
            kind: self.cache_type,
            capacity: size.unwrap_or(usual),
            shard_bits: self.cache_numshardbits.filter(|bits| *bits >= 0),
            high_ratio: self.cache_high_pri_pool_ratio,
            low_ratio: self.cache_low_pri_pool_ratio,
            with_blobs,
        }
    }

    /// True if tables with many deletions are compacted; `None` for the engine's default.
    #[must_use]
    pub fn compacts_on_deletion(&self) -> Option<bool> {
        let compared = (!self.engines.is_empty()).then_some(false);
        self.compact_on_deletion.or(compared)
    }

    /// Returns the layout of keys.
    #[must_use]
    pub fn layout(&self) -> Layout {
        Layout::new(self.num, self.prefix_size, self.keys_per_prefix)
    }

    /// Returns the delays of reads, if there are any.
    #[must_use]
    pub fn remote(&self) -> Option<RemoteSettings> {
        (self.fs_latency_us > 0 || self.fs_bandwidth_mb > 0).then(|| RemoteSettings {
            latency: Duration::from_micros(self.fs_latency_us),
            bandwidth: self.fs_bandwidth_mb * 1_000_000,
            queue_depth: self.fs_queue_depth,
        })
    }

    /// Checks that flags of the engine `ours` are not given to others.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if they are.
    pub fn check_io(&self) -> Result<()> {
        let others = self.engines.iter().chain([&self.engine]);
        let ours = |name: &&String| CacheType::split(name).0 == OURS;
        if (self.io.is_some() || self.remote().is_some()) && !others.clone().all(|name| ours(&name))
        {
            return Err(Error::invalid_argument(
                "--io, --fs_latency_us and --fs_bandwidth_mb are for the engine `ours` only",
            ));
        }
        Ok(())
    }

    /// Checks the consistency of prefix flags.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if they are inconsistent.
    pub fn check_prefixes(&self) -> Result<()> {
        let refused = if self.prefix_size > self.key_size {
            "--prefix_size exceeds --key_size"
        } else if self.keys_per_prefix > 0 && self.prefix_size == 0 {
            "--keys_per_prefix requires --prefix_size"
        } else if self.keys_per_prefix > 0 && self.prefix_size == self.key_size {
            "with --keys_per_prefix, --key_size must exceed --prefix_size"
        } else if self.seek_missing_prefix
            && (self.prefix_size <= PREFIX_NUMBER_LEN || self.keys_per_prefix == 0)
        {
            "seeks to missing prefixes require --keys_per_prefix and a --prefix_size above 8"
        } else {
            return Ok(());
        };
        Err(Error::invalid_argument(refused))
    }

    /// Returns the total size of keys and values: those of the graph if LinkBench is among the benchmarks.
    #[must_use]
    pub fn raw_bytes(&self) -> u64 {
        let entry = match self.uses_graph() {
            true => self.graph_sizes().bytes_of_node(),
            false => self.key_size.saturating_add(self.value_size) as u64,
        };
        entry
            .saturating_mul(self.num)
            .saturating_mul(self.databases())
    }

    /// Returns the number of rounds.
    #[must_use]
    pub fn round_count(&self) -> usize {
        let usual = if self.engines.is_empty() { 1 } else { 5 };
        self.rounds.unwrap_or(usual).max(1)
    }

    /// True if this process compares the results of worker processes.
    #[must_use]
    pub fn compares(&self) -> bool {
        self.worker.is_none()
            && (!self.engines.is_empty()
                || self.round_count() > 1
                || self.prepare.is_some()
                || self.json.is_some()
                || self.html.is_some())
    }

    /// Returns the engines to measure.
    #[must_use]
    pub fn engine_names(&self) -> Vec<String> {
        match self.engines.is_empty() {
            true => vec![self.engine.clone()],
            false => self.engines.clone(),
        }
    }
}

/// Returns RocksDB's option value for db_bench's compression name.
fn compression_word(name: &str) -> &str {
    match name {
        "none" => "kNoCompression",
        "snappy" => "kSnappyCompression",
        "zlib" => "kZlibCompression",
        "bzip2" => "kBZip2Compression",
        "lz4" => "kLZ4Compression",
        "lz4hc" => "kLZ4HCCompression",
        "zstd" => "kZSTD",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(subcommand)]
        command: Command,
    }

    #[derive(clap::Subcommand)]
    enum Command {
        Bench(Box<Flags>),
    }

    fn parsed(line: &str) -> Flags {
        let args = normalized(line.split_whitespace().map(OsString::from));
        let Command::Bench(flags) = Cli::try_parse_from(args).unwrap().command;
        flags.settled()
    }

    #[test]
    fn engines_are_compared_in_rounds() {
        let flags = parsed("cairn bench --engines ours,/lib/librocksdb.so --cache-by=os");
        assert_eq!(flags.engine_names(), ["ours", "/lib/librocksdb.so"]);
        assert_eq!((flags.round_count(), flags.compares()), (5, true));
        let options = flags.engine_options();
        assert!(options.contains("max_background_jobs="), "{options}");
        assert!(options.contains("block_cache=8M"), "{options}");
        let alone = parsed("cairn bench --engine=ours");
        assert_eq!((alone.round_count(), alone.compares()), (1, false));
        assert_eq!(alone.engine_options(), "");
        let jobs = parsed("cairn bench --engines=ours --max_background_jobs=7").engine_options();
        assert_eq!(jobs, "max_background_jobs=7;");
    }

    #[test]
    fn compared_engines_use_equal_deletion_triggers() {
        let compacts = |line| parsed(line).compacts_on_deletion();
        assert_eq!(compacts("cairn bench --engine=ours"), None);
        assert_eq!(compacts("cairn bench --engines=ours,x.so"), Some(false));
        assert_eq!(
            compacts("cairn bench --engines=ours,x.so --compact_on_deletion"),
            Some(true)
        );
        assert_eq!(compacts("cairn bench --compact-on-deletion=0"), Some(false));
    }

    #[test]
    fn the_cache_is_sized_by_the_data() {
        let raw = |line| parsed(line).raw_bytes();
        assert_eq!(raw("cairn bench --num=1000"), 116_000);
        let graph = raw("cairn bench --num=1000 --prepare=filllinkbench");
        assert_eq!(graph, raw("cairn bench --num=1000 --benchmarks=linkbench"));
        assert!((430_000..450_000).contains(&graph), "{graph}");
        assert_eq!(raw("cairn bench --num=1000 --num_multi_db=3"), 348_000);
        let huge = raw("cairn bench --value_size=18446744073709551615");
        assert_eq!(huge, u64::MAX);
    }

    #[test]
    fn a_budget_is_cairns_option_and_scales_the_graph() {
        let mut flags =
            parsed("cairn bench --memory-budget=80M --benchmarks=filllinkbench,linkbench");
        let times = flags.raw_bytes() as f64 / f64::from(80 << 20);
        assert!((times - 7.0).abs() < 0.01, "{times}");
        assert_eq!(flags.engine_options(), "memory_budget=83886080;");
        assert_eq!(flags.cache_settings(), None);
        flags.worker = Some("librocksdb.so+lru".to_owned());
        let options = flags.engine_options();
        assert!(options.contains("db_write_buffer_size=10485760;write_buffer_size=5242880;"));
        assert!(options.contains("{block_cache=73400320}"), "{options}");
        let sized = "cairn bench --memory_budget=80M --cache_size=5M --benchmarks=linkbench --data-per-memory=2";
        let half = parsed(sized);
        let times = half.raw_bytes() as f64 / f64::from(80 << 20);
        assert!((times - 2.0).abs() < 0.01, "{times}");
        assert!(half.engine_options().contains("{block_cache=5M}"));
        assert_eq!(parsed("cairn bench --memory_budget=80M").num, USUAL_NUM);
        assert_eq!(parsed(&format!("{sized} --num=9")).num, 9);
    }

    #[test]
    fn a_cache_of_more_than_a_size_is_not_in_the_options() {
        let settings = |line| parsed(line).cache_settings();
        assert_eq!(settings("cairn bench --cache_size=5M"), None);
        let flags = parsed(
            "cairn bench --cache_size=5M --cache_type=hyper_clock_cache --cache_numshardbits=-1 \
             --cache_low_pri_pool_ratio=0.4 --use_blob_cache",
        );
        let settings = flags.cache_settings().unwrap();
        assert_eq!(
            settings,
            CacheSettings {
                kind: Some(CacheType::HyperClock),
                capacity: 5 << 20,
                shard_bits: None,
                high_ratio: None,
                low_ratio: Some(0.4),
                with_blobs: true,
            }
        );
        assert_eq!(flags.engine_options(), "");
        let apart = "cairn bench --use_blob_cache --use_shared_block_and_blob_cache=0";
        assert_eq!(parsed(apart).cache_settings(), None);
        assert_eq!(parsed(apart).engine_options(), "blob_cache=8M;");
        assert_eq!(parsed(apart).bare_cache_settings().capacity, 1 << 30);
    }

    /// Regression: with a kind of the cache, an invalid size was the default size, and with a ratio above 1 RocksDB had
    /// another cache than Cairn. Large numbers caused a panic.
    #[test]
    fn values_out_of_range_are_refused() {
        let refused = |flag: &str| {
            let args = normalized(["cairn", "bench", flag].map(OsString::from));
            Cli::try_parse_from(args).is_err()
        };
        for flag in [
            "--cache_size=5X",
            "--blob_cache_size=",
            "--memory_budget=-1",
            "--duration=20000000000",
            "--key_size=0",
            "--threads=0",
            "--compression_ratio=nan",
            "--cache_high_pri_pool_ratio=7",
            "--num_multi_db=18446744073709551615",
            "--multiscan_size=18446744073709551615",
        ] {
            assert!(refused(flag), "{flag}");
        }
        let settings = parsed("cairn bench --cache_size=2T --cache_type=lru_cache");
        assert_eq!(settings.cache_settings().unwrap().capacity, 2 << 40);
    }

    #[test]
    fn direct_io_is_an_option_of_the_engine() {
        let line = "cairn bench --use_direct_reads --use_direct_io_for_flush_and_compaction=true";
        let options = parsed(line).engine_options();
        assert_eq!(
            options,
            "use_direct_reads=true;use_direct_io_for_flush_and_compaction=true;"
        );
    }

    #[test]
    fn caches_are_compared_unless_an_engine_is_given() {
        let engines = |line: &str| parsed(&format!("cairn bench --benchmarks={line}")).engines;
        assert_eq!(engines("cache")[..2], ["ours+hyperclock", "ours+lru"]);
        assert_eq!(engines("cache95t1,cache60t4")[0], "ours+hyperclock");
        for line in [
            "cache --engine=x.so",
            "cache --rounds=1",
            "cache,readrandom",
            "readrandom",
        ] {
            assert!(engines(line).is_empty(), "{line}");
        }
        assert_eq!(engines("cache --engines=ours+lru"), ["ours+lru"]);
    }

    #[test]
    fn flags_are_spelled_as_in_db_bench() {
        let flags =
            parsed("cairn bench -num=5 --value-size=7 --use_existing_db=1 --histogram=0 --sync");
        assert_eq!((flags.num, flags.value_size), (5, 7));
        assert!(flags.use_existing_db && !flags.histogram && flags.sync);
        assert_eq!(flags.reads(), 5);
        assert_eq!(parsed("cairn bench --reads=-1 --num=9").reads(), 9);
    }

    #[test]
    fn names_of_engine_options_set_them() {
        let flags = parsed(
            "cairn bench --write_buffer_size=1M --max_background_jobs=4 --block_size=8K --memtablerep=vector \
             --options=num_levels=5 --compression_type=zstd --bloom_bits=10 --cache_size=1G",
        );
        let (mut db, mut family) = (DbOptions::default(), FamilyOptions::default());
        cairn_options::apply_mixed(&mut db, &mut family, &flags.engine_options()).unwrap();
        assert_eq!(family.write_buffer_size, 1 << 20);
        assert_eq!(db.max_background_jobs, 4);
        assert_eq!(family.table.block_size, 8 << 10);
        assert_eq!(family.num_levels, 5);
        assert_eq!(
            family.memtable_factory,
            cairn_options::MemtableFactory::Vector
        );
        assert!(family.table.filter_policy.is_some() && family.table.block_cache.is_some());
    }

    /// Regression: `--statistics` was parsed as the option of that name, whose value cannot be `true`.
    #[test]
    fn statistics_is_a_flag() {
        let flags = parsed("cairn bench --statistics --num=5");
        assert!(flags.statistics);
        assert_eq!(flags.engine_options(), "statistics=BasicStatistics;");
    }

    #[test]
    fn arguments_of_other_commands_are_unchanged() {
        let args = ["cairn", "get", "--db", "x", "-num"].map(OsString::from);
        assert_eq!(normalized(args.clone()), args);
    }
}
