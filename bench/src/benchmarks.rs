//! The benchmarks by name, with the flags they change.

use cairn::{Error, Result};

use crate::db_dir::Content;
use crate::flags::Flags;
use crate::ycsb::Mix;

/// Default number of opens of `open` and `openall`.
const OPENINGS: i64 = 10;

/// The operation of a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Write(Order),
    Delete(Order),
    Get(Target),
    MultiGet,
    Seek,
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
    /// Deletes the keys between two entries with a range tombstone.
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

/// A named benchmark.
#[derive(Clone, Debug)]
pub struct Benchmark {
    pub name: String,
    pub kind: Kind,
    pub fresh: bool,
    /// The flags, as changed by the benchmark.
    pub flags: Flags,
    /// True if another thread writes concurrently.
    pub beside_writer: bool,
    /// Position in the run. It is part of the seed, so that reads do not use exactly the written keys.
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
        (0..)
            .zip(names.filter(|name| !name.is_empty()))
            .map(|(place, name)| Benchmark::named(name, place, flags))
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
            _ if Mix::named(name).is_some() => {
                Kind::Ycsb(Mix::named(name).expect("looked at in the line above"))
            }
            _ => {
                return Err(Error::invalid_argument(format!(
                    "unknown benchmark {name}; `cairn bench --help` lists them"
                )));
            }
        };
        benchmark.flags.check_prefixes()?;
        Ok(benchmark)
    }

    /// Returns the content of the database afterwards, given the content `before`.
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
            | Kind::Merge
            | Kind::Update
            | Kind::Deterministic
            | Kind::Debt
            | Kind::Tombstones
            | Kind::RangeTombstones
            | Kind::FillLinks => self.flags.num,
            Kind::FillOperands(count) => self.flags.num * count,
            Kind::Compact | Kind::Flush | Kind::Wait | Kind::LevelStats | Kind::Stats => 1,
            _ => self.flags.reads(),
        }
    }

    /// Returns the duration per thread in seconds; 0 to count operations. Scans of all keys always
    /// count.
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
