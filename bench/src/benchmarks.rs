//! The benchmarks by name, with the flags they change.

use cairn::{Error, Result};

use crate::bare_cache::Case;
use crate::db_dir::Content;
use crate::engine::{CacheSettings, CacheType};
use crate::flags::Flags;
use crate::ycsb::Mix;

/// Default number of opens of `open` and `openall`.
const OPENINGS: i64 = 10;

/// The preset for blobs in the block cache.
const BLOBS: &str = "blobcache";

/// Size of the values of that preset, and the number of threads unless --threads is given.
const BLOB_VALUE: usize = 1024;
const BLOB_THREADS: u64 = 16;

/// The raw data of that preset as a multiple of its cache, unless the size of the cache is given. Data blocks
/// take half of such a cache, so that an LRU cache with one pool evicts some of them.
const BLOBS_PER_CACHE: u64 = 28;

/// Reads of all threads for each entry, unless --reads is given.
const READS_PER_BLOB: u64 = 5;

/// A part of the preset `blobcache`: values in blob files are cached together with data blocks and metadata
/// in a cache that is too small for them, and read at random by 16 threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlobCache {
    /// Writes random keys, flushes, and waits until no compaction is due.
    Fill,
    /// Reads with an LRU cache, in which blobs and data blocks are in one pool.
    Lru,
    /// Reads with an LRU cache that has a pool for data blocks.
    Pools,
    /// Reads with the clock cache, which has no ratios to set.
    Fast,
}

impl BlobCache {
    const ALL: [BlobCache; 4] = [
        BlobCache::Fill,
        BlobCache::Lru,
        BlobCache::Pools,
        BlobCache::Fast,
    ];

    fn name(self) -> String {
        let part = match self {
            BlobCache::Fill => "fill",
            BlobCache::Lru => "lru",
            BlobCache::Pools => "pools",
            BlobCache::Fast => "fast",
        };
        format!("{BLOBS}-{part}")
    }

    fn named(name: &str) -> Option<BlobCache> {
        BlobCache::ALL.into_iter().find(|case| case.name() == name)
    }

    /// Sets the flags of the part.
    fn apply(self, flags: &mut Flags) {
        flags.value_size = BLOB_VALUE;
        flags.statistics = true;
        flags.use_blob_cache = true;
        flags.use_shared_block_and_blob_cache = true;
        if flags.cache_size.is_none() && flags.cache_by.is_none() && flags.memory_budget.is_none() {
            flags.cache_size = Some((flags.raw_bytes() / BLOBS_PER_CACHE).to_string());
        }
        flags.options = format!(
            "enable_blob_files=true;block_based_table_factory={{cache_index_and_filter_blocks=true}};{}",
            flags.options
        );
        let (kind, ratios) = match self {
            BlobCache::Fill | BlobCache::Lru => (CacheType::Lru, Some((0.1, 0.0))),
            BlobCache::Pools => (CacheType::Lru, Some((0.1, 0.4))),
            BlobCache::Fast => (CacheType::HyperClock, None),
        };
        flags.cache_type = Some(kind);
        flags.cache_high_pri_pool_ratio = ratios.map(|(high, _)| high);
        flags.cache_low_pri_pool_ratio = ratios.map(|(_, low)| low);
        if flags.threads == 1 && self != BlobCache::Fill {
            flags.threads = BLOB_THREADS;
        }
        let reads = (flags.num * READS_PER_BLOB).div_ceil(flags.threads.max(1));
        flags.reads = flags.reads.or(i64::try_from(reads).ok());
    }
}

/// The operation of a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Write(Order),
    Delete(Order),
    Get(Target),
    MultiGet,
    Seek,
    /// Scans ranges in one call, or one after another.
    MultiScan {
        together: bool,
    },
    /// Seeks prefixes and scans all their entries.
    Prefix {
        missing: bool,
    },
    Scan {
        reverse: bool,
    },
    ReadWrite,
    Update,
    Merge,
    Compact,
    Flush,
    Wait,
    LevelStats,
    /// Prints the shape of the tree, its space, and its write amplification.
    Stats,
    /// Reads the merge operands of random keys.
    Operands,
    /// Fills level by level in key order, for a reproducible tree shape.
    Deterministic,
    /// Writes random keys and waits until no compaction is due.
    Debt,
    /// Deletes all but one in a hundred keys.
    Tombstones,
    /// Deletes the keys between each two entries with a range tombstone.
    RangeTombstones,
    /// Writes this number of merge operands for each key.
    FillOperands(u64),
    /// A core workload of the Yahoo! Cloud Serving Benchmark.
    Ycsb(Mix),
    /// db_bench's mix of gets, puts and scans, with modelled keys and lengths.
    Graph,
    /// Loads LinkBench's graph.
    FillLinks,
    /// LinkBench's operation mix.
    Links,
    /// Opens the database repeatedly and gets one key.
    Open {
        /// True if every table is opened before the get.
        all: bool,
    },
    /// Looks up and inserts in a block cache without a database.
    BareCache(Case),
}

/// Order of written keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Sequential,
    Random,
    Shuffled,
}

/// Keys to look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Any,
    Missing,
    Hot,
}

/// How databases are opened.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// The option string.
    pub options: String,
    /// The block cache, unless it is in the options.
    pub cache: Option<CacheSettings>,
    /// Number of databases.
    pub databases: u64,
}

impl Setup {
    /// Returns the setup that the flags require.
    #[must_use]
    pub fn of(flags: &Flags) -> Setup {
        Setup {
            options: flags.engine_options(),
            cache: flags.cache_settings(),
            databases: flags.databases(),
        }
    }
}

/// A named benchmark.
#[derive(Clone, Debug)]
pub struct Benchmark {
    pub name: String,
    pub kind: Kind,
    pub fresh: bool,
    /// How the databases are opened. They are reopened if it differs from that of the previous benchmark.
    pub setup: Setup,
    /// True if cache misses are reported.
    pub counts_misses: bool,
    /// The flags, as changed by the benchmark.
    pub flags: Flags,
    /// True if another thread writes concurrently.
    pub beside_writer: bool,
    /// Position in the run. It is part of the seed, so that reads do not repeat the sequence of writes.
    pub place: u64,
}

impl Benchmark {
    /// Parses a list of benchmark names.
    ///
    /// # Errors
    ///
    /// As [`Benchmark::named`].
    pub fn list(names: &str, flags: &Flags) -> Result<Vec<Benchmark>> {
        let names = names.split(',').map(str::trim);
        let names = names
            .filter(|name| !name.is_empty())
            .flat_map(|name| match name {
                "cache" => Case::ALL.iter().map(Case::name).collect(),
                BLOBS => BlobCache::ALL.iter().map(|case| case.name()).collect(),
                _ => vec![name.to_owned()],
            });
        (0..)
            .zip(names)
            .map(|(place, name)| Benchmark::named(&name, place, flags))
            .collect()
    }

    /// Returns the benchmark `name`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if it does not exist, or its flags are inconsistent.
    pub fn named(name: &str, place: u64, flags: &Flags) -> Result<Benchmark> {
        let mut benchmark = Benchmark {
            name: name.to_owned(),
            kind: Kind::Flush,
            fresh: name.starts_with("fill"),
            setup: Setup::of(flags),
            counts_misses: false,
            flags: flags.clone(),
            beside_writer: name.ends_with("whilewriting"),
            place,
        };
        let own = &mut benchmark.flags;
        benchmark.kind = match name {
            "fillseq" => Kind::Write(Order::Sequential),
            "fillbatch" => {
                own.batch_size = 1000;
                Kind::Write(Order::Sequential)
            }
            "fillrandom" | "overwrite" => Kind::Write(Order::Random),
            "filluniquerandom" => Kind::Write(Order::Shuffled),
            "fillsync" => {
                own.num = (own.num / 1000).max(1);
                own.sync = true;
                Kind::Write(Order::Random)
            }
            "fill100K" => {
                own.num = (own.num / 1000).max(1);
                own.value_size = 100 * 1000;
                Kind::Write(Order::Random)
            }
            "deleteseq" => Kind::Delete(Order::Sequential),
            "deleterandom" => Kind::Delete(Order::Random),
            "readrandom" | "readwhilewriting" => Kind::Get(Target::Any),
            "readmissing" => Kind::Get(Target::Missing),
            "readhot" => Kind::Get(Target::Hot),
            "multireadrandom" => Kind::MultiGet,
            "seekrandom" | "seekrandomwhilewriting" => Kind::Seek,
            "multiscan" => Kind::MultiScan { together: true },
            "rangescans" => Kind::MultiScan { together: false },
            "prefixscan" | "prefixmissing" => {
                let missing = name == "prefixmissing";
                own.prefix_same_as_start = true;
                own.seek_missing_prefix = missing;
                if own.keys_per_prefix == 0 {
                    return Err(Error::invalid_argument(format!(
                        "{name} requires --prefix_size and --keys_per_prefix"
                    )));
                }
                Kind::Prefix { missing }
            }
            "readseq" => Kind::Scan { reverse: false },
            "readreverse" => Kind::Scan { reverse: true },
            "readrandomwriterandom" => Kind::ReadWrite,
            "updaterandom" => Kind::Update,
            "mergerandom" => Kind::Merge,
            "compact" => Kind::Compact,
            "flush" => Kind::Flush,
            "waitforcompaction" => Kind::Wait,
            "levelstats" => Kind::LevelStats,
            "stats" => Kind::Stats,
            "readrandomoperands" => Kind::Operands,
            "fillseqdeterministic" => Kind::Deterministic,
            "debt" => {
                benchmark.fresh = true;
                Kind::Debt
            }
            "filltombstones" => Kind::Tombstones,
            "fillrangetombstones" => Kind::RangeTombstones,
            "filloperands" => Kind::FillOperands(own.operands),
            "mixgraph" => Kind::Graph,
            "filllinkbench" => Kind::FillLinks,
            "linkbench" => Kind::Links,
            "open" | "openall" => {
                own.reads = own.reads.or(Some(OPENINGS));
                Kind::Open {
                    all: name == "openall",
                }
            }
            _ => benchmark.in_series()?,
        };
        benchmark.flags.check_prefixes()?;
        benchmark.flags.check_io()?;
        benchmark.check_databases()?;
        Ok(benchmark)
    }

    /// Returns the kind of a benchmark that is one of a series, and sets its flags.
    fn in_series(&mut self) -> Result<Kind> {
        let name = &self.name;
        if let Some(mix) = Mix::named(name) {
            return Ok(Kind::Ycsb(mix));
        }
        if let Some(case) = Case::named(name) {
            self.flags.threads = case.threads;
            return Ok(Kind::BareCache(case));
        }
        let Some(case) = BlobCache::named(name) else {
            return Err(Error::invalid_argument(format!(
                "unknown benchmark {name}; `cairn bench --help` lists them"
            )));
        };
        case.apply(&mut self.flags);
        self.setup = Setup::of(&self.flags);
        self.fresh = case == BlobCache::Fill;
        self.counts_misses = !self.fresh;
        Ok(match case {
            BlobCache::Fill => Kind::Debt,
            _ => Kind::Get(Target::Any),
        })
    }

    /// Checks that the benchmark can run with several databases if there are several.
    fn check_databases(&self) -> Result<()> {
        let several = matches!(
            self.kind,
            Kind::Write(_)
                | Kind::Get(_)
                | Kind::MultiGet
                | Kind::Seek
                | Kind::MultiScan { .. }
                | Kind::ReadWrite
                | Kind::Update
                | Kind::Merge
                | Kind::Compact
                | Kind::Flush
                | Kind::Wait
                | Kind::LevelStats
                | Kind::Stats
                | Kind::BareCache(_)
        );
        if several || self.flags.databases() == 1 {
            return Ok(());
        }
        Err(Error::invalid_argument(format!(
            "{} runs with a single database, without --num_multi_db",
            self.name
        )))
    }

    /// Returns the number of databases that each operation writes to.
    #[must_use]
    pub fn databases_written(&self) -> u64 {
        match self.kind {
            Kind::Write(_) => self.setup.databases,
            _ => 1,
        }
    }

    /// True if reads from storage are reported for each operation.
    #[must_use]
    pub fn counts_storage_reads(&self) -> bool {
        let flags = &self.flags;
        let asked = flags.statistics || flags.memory_budget.is_some() || flags.databases() > 1;
        self.kind == Kind::Links || (asked && self.reads())
    }

    /// True if the benchmark reads keys.
    fn reads(&self) -> bool {
        matches!(
            self.kind,
            Kind::Get(_)
                | Kind::MultiGet
                | Kind::Seek
                | Kind::MultiScan { .. }
                | Kind::Prefix { .. }
                | Kind::Scan { .. }
                | Kind::ReadWrite
                | Kind::Update
                | Kind::Operands
                | Kind::Ycsb(_)
                | Kind::Graph
        )
    }

    /// Returns the content of the database after the benchmark, given the content `before`.
    #[must_use]
    pub fn leaves(&self, before: Content) -> Content {
        match (self.kind, before) {
            (Kind::Graph, Content::Plain) => Content::AnyLength,
            (Kind::FillLinks, _) if self.fresh && !self.flags.use_existing_db => Content::Graph,
            (Kind::Graph, Content::AnyLength) | (Kind::Links, Content::Graph) => before,
            (
                Kind::Merge | Kind::FillOperands(_) | Kind::Graph | Kind::FillLinks | Kind::Links,
                _,
            ) => Content::Unknown,
            _ => before,
        }
    }

    /// Returns the operations per thread, unless a duration is set.
    #[must_use]
    pub fn operations(&self) -> u64 {
        match self.kind {
            Kind::Write(_)
            | Kind::Delete(_)
            | Kind::Update
            | Kind::Deterministic
            | Kind::Debt
            | Kind::Tombstones
            | Kind::RangeTombstones
            | Kind::FillLinks => self.flags.num,
            Kind::Merge => self.flags.writes.unwrap_or(self.flags.num),
            Kind::FillOperands(count) => self.flags.num * count,
            Kind::Compact | Kind::Flush | Kind::Wait | Kind::LevelStats | Kind::Stats => 1,
            _ => self.flags.reads(),
        }
    }

    /// Returns the duration per thread in seconds; 0 to count operations. Scans of all keys always count
    /// operations.
    #[must_use]
    pub fn seconds(&self) -> u64 {
        match self.kind {
            Kind::Write(Order::Sequential | Order::Shuffled)
            | Kind::Delete(Order::Sequential)
            | Kind::Deterministic
            | Kind::Debt
            | Kind::Tombstones
            | Kind::RangeTombstones
            | Kind::FillOperands(_)
            | Kind::FillLinks
            | Kind::Open { .. }
            | Kind::Scan { .. } => 0,
            _ => self.flags.duration,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        flags: Flags,
    }

    fn flags(line: &str) -> Flags {
        let words = ["bench"].into_iter().chain(line.split_whitespace());
        Cli::try_parse_from(words).unwrap().flags.settled()
    }

    #[test]
    fn presets_are_lists_of_benchmarks() {
        let flags = flags("--num=80000");
        let all = Benchmark::list("cache,blobcache", &flags).unwrap();
        let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names[..2], ["cache95t1", "cache95t2"]);
        let parts = [
            "blobcache-fill",
            "blobcache-lru",
            "blobcache-pools",
            "blobcache-fast",
        ];
        assert_eq!(names[6..], parts);
        let [fill, lru, pools, fast] = &all[6..] else {
            panic!("{names:?}")
        };
        assert!(fill.fresh && fill.flags.threads == 1 && !fill.counts_misses);
        assert!(fill.setup.options.contains("enable_blob_files=true"));
        let cache = |one: &Benchmark| one.setup.cache.expect("blobs are in the block cache");
        assert_eq!(cache(lru).capacity, 80_000 * (16 + 1024) / 28);
        assert!(cache(lru).with_blobs && lru.flags.threads == 16);
        assert_eq!(lru.operations(), 25_000);
        assert_eq!(
            (cache(pools).high_ratio, cache(pools).low_ratio),
            (Some(0.1), Some(0.4))
        );
        assert_eq!(cache(lru).low_ratio, Some(0.0));
        assert_eq!(
            (cache(fast).high_ratio, cache(fast).low_ratio),
            (None, None)
        );
        assert_eq!(cache(fast).kind, Some(CacheType::HyperClock));
        assert_eq!(lru.setup.options, fast.setup.options);
    }

    #[test]
    fn several_databases_are_refused_where_one_is_needed() {
        let flags = flags("--num_multi_db=3");
        for name in ["fillrandom", "readwhilewriting", "seekrandom", "stats"] {
            assert!(Benchmark::named(name, 0, &flags).is_ok(), "{name}");
        }
        for name in ["linkbench", "ycsba", "open", "debt", "readseq"] {
            let error = Benchmark::named(name, 0, &flags).unwrap_err();
            assert!(error.to_string().contains("--num_multi_db"), "{error}");
        }
    }
}
