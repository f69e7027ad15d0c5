//! The benchmarks by name: what each does, and what it changes of the flags.

use cairn::{Error, Result};

use crate::db_dir::Content;
use crate::flags::Flags;
use crate::ycsb::Mix;

/// How often `open` and `openall` open the database unless --reads says so.
const OPENINGS: i64 = 10;

/// What the threads of a benchmark do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Write(Order),
    Delete(Order),
    Get(Target),
    MultiGet,
    Seek,
    /// Seeks prefixes and walks all their entries.
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
    /// Prints the tree, its space, and how often bytes were written again.
    Stats,
    /// Gets the operands of random keys, unmerged.
    Operands,
    /// In order, a level after the other, so that the tree has the same shape each time.
    Deterministic,
    /// Random keys, and then until no compaction is due.
    Debt,
    /// Keys of which all but one in a hundred are deleted.
    Tombstones,
    /// The same, but a range tombstone deletes those between two entries.
    RangeTombstones,
    /// As many merge operands for each key.
    FillOperands(u64),
    /// A mix of the Yahoo! Cloud Serving Benchmark.
    Ycsb(Mix),
    /// db_bench's mix of gets, puts and walks, from models of keys and lengths.
    Graph,
    /// LinkBench's graph.
    FillLinks,
    /// LinkBench's mix.
    Links,
    /// Opens the database and gets one key, again and again.
    Open {
        /// Every table is open before the key is read.
        all: bool,
    },
}

/// The order of the keys that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Sequential,
    Random,
    Shuffled,
}

/// The keys that are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Any,
    Missing,
    Hot,
}

/// A benchmark by its name.
#[derive(Clone, Debug)]
pub struct Benchmark {
    pub name: String,
    pub kind: Kind,
    pub fresh: bool,
    /// Flags that the benchmark changes.
    pub flags: Flags,
    /// A further thread writes meanwhile.
    pub beside_writer: bool,
    /// Its place in the run: each has random keys of its own, or reads would ask for exactly the
    /// keys that were written.
    pub place: u64,
}

impl Benchmark {
    /// The benchmarks of a list of names.
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

    /// The benchmark called `name`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if there is none, or flags do not go together.
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
                        "{name} needs --prefix_size and --keys_per_prefix"
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

    /// What the database holds afterwards, if it held `before`.
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

    /// Operations of one thread, unless time decides.
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

    /// Seconds of one thread, or 0 to count operations. What walks all keys in order always
    /// counts.
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
