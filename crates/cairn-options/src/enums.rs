//! Enumerated options, with RocksDB's names for their values.

pub use cairn_compress::Compression;
pub use cairn_format::checksum::ChecksumKind;

use cairn_memory::secondary;
use cairn_observe::Level;

use crate::text::{Named, Refusal, Text};

/// Declares an enum whose variants have one option text each.
macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)+ })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)+ }

        impl $name {
            /// All values with their names.
            pub const ALL: &[($name, &str)] = &[$(($name::$variant, $text),)+];
        }

        words!($name, $name::ALL);
    )+};
}

/// Implements the text form of an enum.
macro_rules! words {
    ($name:ty, $all:expr) => {
        impl Text for $name {
            fn parse(text: &str) -> Result<$name, Refusal> {
                let all: &[($name, &str)] = $all;
                match all.iter().find(|(_, word)| *word == text) {
                    Some((value, _)) => Ok(*value),
                    None => {
                        let words: Vec<&str> = all.iter().map(|(_, word)| *word).collect();
                        Err(format!("expected one of {}", words.join(", ")))
                    }
                }
            }

            fn print(&self) -> String {
                let all: &[($name, &str)] = $all;
                let found = all.iter().find(|(value, _)| value == self);
                found.expect("the table has every value").1.to_owned()
            }
        }
    };
}

choices! {
    /// Compaction style.
    CompactionStyle {
        /// Levels of increasing size, each a sorted run.
        Level = "kCompactionStyleLevel",
        /// Sorted runs merged by size.
        Universal = "kCompactionStyleUniversal",
        /// The oldest files are deleted.
        Fifo = "kCompactionStyleFIFO",
        /// No automatic compaction.
        None = "kCompactionStyleNone",
    }
    /// File priority of leveled compaction.
    CompactionPri {
        /// Largest compensated size first.
        ByCompensatedSize = "kByCompensatedSize",
        /// Oldest largest sequence number first.
        OldestLargestSeqFirst = "kOldestLargestSeqFirst",
        /// Oldest smallest sequence number first.
        OldestSmallestSeqFirst = "kOldestSmallestSeqFirst",
        /// Smallest ratio of overlapping bytes in the next level first.
        MinOverlappingRatio = "kMinOverlappingRatio",
        /// Round-robin by key.
        RoundRobin = "kRoundRobin",
    }
    /// Stop condition of universal compaction.
    CompactionStopStyle {
        /// Stops at a run of dissimilar size.
        SimilarSize = "kCompactionStopStyleSimilarSize",
        /// Stops at a run larger than all picked runs together.
        TotalSize = "kCompactionStopStyleTotalSize",
    }
    /// Write mode of WALs.
    #[non_exhaustive]
    WalWriteMode {
        /// Stores into a mapping of the file, on file systems known to support it. Like a write
        /// call, a store survives the death of the process, at a fraction of the cost.
        Mapped = "kMapped",
        /// Write calls.
        Plain = "kPlain",
    }
    /// The way in which reads that are known together are executed.
    IoMode {
        /// By io_uring, or by threads where the kernel refuses it.
        Auto = "kAuto",
        /// The same; the LOG contains a warning if the kernel refuses io_uring.
        Uring = "kUring",
        /// By threads.
        Threads = "kThreads",
        /// One after another.
        Blocking = "kBlocking",
    }
    /// Treatment of damaged WALs during recovery.
    WalRecoveryMode {
        /// A torn last record is dropped; other damage fails recovery.
        TolerateCorruptedTailRecords = "kTolerateCorruptedTailRecords",
        /// Any damage fails recovery.
        AbsoluteConsistency = "kAbsoluteConsistency",
        /// Recovery stops at the first damage, with a consistent state.
        PointInTimeRecovery = "kPointInTimeRecovery",
        /// Damaged records are skipped.
        SkipAnyCorruptedRecords = "kSkipAnyCorruptedRecords",
    }
    /// Minimum severity of LOG messages.
    InfoLogLevel {
        /// Debug messages.
        Debug = "DEBUG_LEVEL",
        /// Events.
        Info = "INFO_LEVEL",
        /// Warnings.
        Warn = "WARN_LEVEL",
        /// Errors.
        Error = "ERROR_LEVEL",
        /// Fatal errors.
        Fatal = "FATAL_LEVEL",
        /// The header only.
        Header = "HEADER_LEVEL",
    }
    /// The lowest cache tier in use.
    #[non_exhaustive]
    CacheTier {
        /// Uncompressed blocks in memory.
        VolatileTier = "kVolatileTier",
        /// Compressed blocks in memory.
        VolatileCompressedTier = "kVolatileCompressedTier",
        /// A cache on a device.
        NonVolatileBlockTier = "kNonVolatileBlockTier",
    }
    /// Temperature of data, for file systems that place it.
    #[non_exhaustive]
    Temperature {
        /// Unspecified.
        Unknown = "kUnknown",
        /// Used all the time.
        Hot = "kHot",
        /// Used often.
        Warm = "kWarm",
        /// Used occasionally.
        Cool = "kCool",
        /// Used rarely.
        Cold = "kCold",
        /// Almost never used.
        Ice = "kIce",
    }
    /// The index of a table.
    IndexType {
        /// One block with binary search.
        BinarySearch = "kBinarySearch",
        /// One block, and a hash table from prefixes to ranges of its entries.
        HashSearch = "kHashSearch",
        /// Partitioned, with a top-level index.
        TwoLevelIndexSearch = "kTwoLevelIndexSearch",
        /// One block whose entries contain the first key of each data block.
        BinarySearchWithFirstKey = "kBinarySearchWithFirstKey",
    }
    /// Search in an index block.
    #[non_exhaustive]
    IndexBlockSearchType {
        /// Binary search.
        Binary = "kBinary",
        /// Interpolation search, for evenly distributed keys.
        Interpolation = "kInterpolation",
        /// Interpolation search in blocks marked as evenly distributed.
        Auto = "kAuto",
    }
    /// The index inside a data block.
    #[non_exhaustive]
    DataBlockIndexType {
        /// Restart points only.
        BinarySearch = "kDataBlockBinarySearch",
        /// Restart points and a hash table.
        BinaryAndHash = "kDataBlockBinaryAndHash",
    }
    /// Shortening of index keys.
    #[non_exhaustive]
    IndexShortening {
        /// Full keys.
        NoShortening = "kNoShortening",
        /// Shortest separators between blocks.
        ShortenSeparators = "kShortenSeparators",
        /// Shortest separators, and the shortest successor after the last block.
        ShortenSeparatorsAndSuccessor = "kShortenSeparatorsAndSuccessor",
    }
    /// Blocks that store the common prefix of their user keys once.
    KeyCommonPrefix {
        /// None.
        Disabled = "kDisabled",
        /// Blocks of bytewise or reverse bytewise order.
        IfFastSeek = "kIfFastSeek",
        /// All.
        Enabled = "kEnabled",
    }
    /// Index to open a table with, if it has a user-defined one.
    #[non_exhaustive]
    IndexMode {
        /// The built-in one; no other index is written.
        StandardOnly = "kStandardOnly",
        /// The built-in one.
        StandardDefault = "kStandardDefault",
        /// The user-defined one.
        CustomDefault = "kCustomDefault",
        /// The user-defined one; no built-in index is written.
        CustomOnly = "kCustomOnly",
        /// The built-in one; tables without it are rejected.
        StandardRequired = "kStandardRequired",
    }
    /// Metadata blocks pinned in the cache while their table is open.
    PinningTier {
        /// As the older options specify.
        Fallback = "kFallback",
        /// None.
        None = "kNone",
        /// Those of tables in level 0.
        FlushedAndSimilar = "kFlushedAndSimilar",
        /// All.
        All = "kAll",
    }
    /// Charging of memory to the block cache.
    ChargeDecision {
        /// Charged.
        Enabled = "kEnabled",
        /// Not charged.
        Disabled = "kDisabled",
        /// The decision for all roles, or the default of the role.
        Fallback = "kFallback",
    }
    /// Insertion of new blocks into the cache.
    #[non_exhaustive]
    PrepopulateBlockCache {
        /// None.
        Disable = "kDisable",
        /// Those of flushes.
        FlushOnly = "kFlushOnly",
        /// Those of flushes and compactions.
        FlushAndCompaction = "kFlushAndCompaction",
    }
    /// Insertion of new blobs into the cache.
    #[non_exhaustive]
    PrepopulateBlobCache {
        /// None.
        Disable = "kDisable",
        /// Those of flushes.
        FlushOnly = "kFlushOnly",
    }
    /// Data structure of memtables.
    #[non_exhaustive]
    MemtableFactory {
        /// A skiplist with concurrent insertion.
        SkipList = "SkipListFactory",
        /// A vector, sorted when it is full.
        Vector = "VectorRepFactory",
        /// A skiplist per prefix.
        HashSkipList = "HashSkipListRepFactory",
        /// A linked list per prefix.
        HashLinkList = "HashLinkListRepFactory",
    }
    /// The format of new tables.
    #[non_exhaustive]
    TableKind {
        /// Blocks of sorted entries: the format described by [`crate::TableOptions`].
        BlockBased = "BlockBasedTable",
        /// Entries without blocks: the format described by [`crate::PlainTableOptions`].
        Plain = "PlainTable",
        /// A hash table of entries of one size: the format described by [`crate::CuckooTableOptions`].
        Cuckoo = "CuckooTable",
    }
    /// Encoding of the keys of a PlainTable.
    PlainEncodingType {
        /// All keys in full.
        Plain = "kPlain",
        /// Keys without the prefix of their predecessor.
        Prefix = "kPrefix",
    }
    /// Tiers that a read may access.
    #[non_exhaustive]
    ReadTier {
        /// All tiers.
        All = "kReadAllTier",
        /// Memtables and the block cache; a read that needs a file fails with `Incomplete`.
        BlockCache = "kBlockCacheTier",
        /// Persisted data: files and logged memtables.
        Persisted = "kPersistedTier",
        /// Memtables only, for iterators. Point reads treat it like [`ReadTier::All`].
        Memtable = "kMemtableTier",
    }
    /// The priority with which an operation takes bytes from the rate limiter.
    IoCharge {
        /// That of compactions.
        Low = "IO_LOW",
        /// Between compactions and flushes.
        Mid = "IO_MID",
        /// That of flushes.
        High = "IO_HIGH",
        /// That of user operations.
        User = "IO_USER",
        /// It takes none.
        Uncharged = "IO_TOTAL",
    }
    /// Rewriting of the bottommost level by manual compactions.
    BottommostLevelCompaction {
        /// No.
        Skip = "kSkip",
        /// If a compaction filter is configured.
        IfHaveCompactionFilter = "kIfHaveCompactionFilter",
        /// Always.
        Force = "kForce",
        /// Always, except files written by the same compaction.
        ForceOptimized = "kForceOptimized",
    }
    /// Blob garbage collection by manual compactions.
    BlobGarbageCollectionPolicy {
        /// Enabled.
        Force = "kForce",
        /// Disabled.
        Disable = "kDisable",
        /// As the options of the column family specify.
        UseDefault = "kUseDefault",
    }
}

impl From<InfoLogLevel> for Level {
    fn from(level: InfoLogLevel) -> Level {
        match level {
            InfoLogLevel::Debug => Level::Debug,
            InfoLogLevel::Info => Level::Info,
            InfoLogLevel::Warn => Level::Warn,
            InfoLogLevel::Error => Level::Error,
            InfoLogLevel::Fatal => Level::Fatal,
            InfoLogLevel::Header => Level::Header,
        }
    }
}

impl Text for Compression {
    fn parse(text: &str) -> Result<Compression, Refusal> {
        Compression::from_option_name(text).ok_or_else(|| {
            let words: Vec<&str> = Compression::all().map(Compression::option_name).collect();
            format!("expected one of {}", words.join(", "))
        })
    }

    fn print(&self) -> String {
        self.option_name().to_owned()
    }
}

impl Named for Compression {
    const NONE: &'static [&'static str] = &["kDisableCompressionOption"];
}

words!(
    ChecksumKind,
    &[
        (ChecksumKind::None, "kNoChecksum"),
        (ChecksumKind::Crc32c, "kCRC32c"),
        (ChecksumKind::XxHash, "kxxHash"),
        (ChecksumKind::XxHash64, "kxxHash64"),
        (ChecksumKind::Xxh3, "kXXH3"),
    ]
);

impl From<CacheTier> for secondary::CacheTier {
    fn from(tier: CacheTier) -> secondary::CacheTier {
        match tier {
            CacheTier::VolatileTier => secondary::CacheTier::Volatile,
            CacheTier::VolatileCompressedTier => secondary::CacheTier::VolatileCompressed,
            CacheTier::NonVolatileBlockTier => secondary::CacheTier::NonVolatileBlock,
        }
    }
}
