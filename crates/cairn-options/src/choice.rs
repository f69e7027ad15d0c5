//! Options that choose one of a few words, under RocksDB's names.

pub use cairn_compress::Compression;
pub use cairn_format::checksum::ChecksumKind;

use cairn_observe::Level;

use crate::text::{Named, Refusal, Text};

/// A choice: an enum whose variants have one name each in option texts.
macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)+ })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)+ }

        impl $name {
            /// Every value with its name.
            pub const ALL: &[($name, &str)] = &[$(($name::$variant, $text),)+];
        }

        words!($name, $name::ALL);
    )+};
}

/// The text form of a type with a table of names.
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
    /// How compactions shape the tree.
    CompactionStyle {
        /// Levels of growing size, each sorted.
        Level = "kCompactionStyleLevel",
        /// Sorted runs merged by size.
        Universal = "kCompactionStyleUniversal",
        /// Oldest files are dropped.
        Fifo = "kCompactionStyleFIFO",
        /// No compaction but what the user asks for.
        None = "kCompactionStyleNone",
    }
    /// Which file of a level a leveled compaction takes first.
    CompactionPri {
        /// The largest by size, deletions counted more.
        ByCompensatedSize = "kByCompensatedSize",
        /// The one whose newest entry is oldest.
        OldestLargestSeqFirst = "kOldestLargestSeqFirst",
        /// The one whose oldest entry is oldest.
        OldestSmallestSeqFirst = "kOldestSmallestSeqFirst",
        /// The one with the least to rewrite in the next level.
        MinOverlappingRatio = "kMinOverlappingRatio",
        /// One after the other.
        RoundRobin = "kRoundRobin",
    }
    /// When a universal compaction has taken enough runs.
    CompactionStopStyle {
        /// When the next run is of another size.
        SimilarSize = "kCompactionStopStyleSimilarSize",
        /// When the next run is larger than all taken together.
        TotalSize = "kCompactionStopStyleTotalSize",
    }
    /// How logs are written.
    #[non_exhaustive]
    WalWriteMode {
        /// By stores into a mapping of the file, where its file system is known to take them. A store
        /// survives the end of the process as a call does, and costs a small part of it.
        Mapped = "kMapped",
        /// By calls.
        Plain = "kPlain",
    }
    /// What recovery does with a damaged log.
    WalRecoveryMode {
        /// A damaged last record is dropped; anything else fails.
        TolerateCorruptedTailRecords = "kTolerateCorruptedTailRecords",
        /// Any damage fails.
        AbsoluteConsistency = "kAbsoluteConsistency",
        /// Recovery stops at the first damage: a consistent state of some moment.
        PointInTimeRecovery = "kPointInTimeRecovery",
        /// Whatever can be read is kept.
        SkipAnyCorruptedRecords = "kSkipAnyCorruptedRecords",
    }
    /// The least important message that goes to the LOG file.
    InfoLogLevel {
        /// Everything.
        Debug = "DEBUG_LEVEL",
        /// Events.
        Info = "INFO_LEVEL",
        /// What may need attention.
        Warn = "WARN_LEVEL",
        /// What failed.
        Error = "ERROR_LEVEL",
        /// What ends the database's life.
        Fatal = "FATAL_LEVEL",
        /// The header only.
        Header = "HEADER_LEVEL",
    }
    /// The slowest cache that may be used.
    #[non_exhaustive]
    CacheTier {
        /// Uncompressed blocks in memory.
        VolatileTier = "kVolatileTier",
        /// Compressed blocks in memory.
        VolatileCompressedTier = "kVolatileCompressedTier",
        /// A cache on a device.
        NonVolatileBlockTier = "kNonVolatileBlockTier",
    }
    /// How warm data is, for file systems that place it.
    #[non_exhaustive]
    Temperature {
        /// Not said.
        Unknown = "kUnknown",
        /// Used all the time.
        Hot = "kHot",
        /// Used often.
        Warm = "kWarm",
        /// Used now and then.
        Cool = "kCool",
        /// Used rarely.
        Cold = "kCold",
        /// Nearly never used.
        Ice = "kIce",
    }
    /// The index of a table.
    IndexType {
        /// One block, searched by halves.
        BinarySearch = "kBinarySearch",
        /// One block, and a hash table from prefixes to its parts.
        HashSearch = "kHashSearch",
        /// Many blocks and one above them.
        TwoLevelIndexSearch = "kTwoLevelIndexSearch",
        /// One block whose entries know the first key of each data block.
        BinarySearchWithFirstKey = "kBinarySearchWithFirstKey",
    }
    /// How an index block is searched.
    #[non_exhaustive]
    IndexBlockSearchType {
        /// By halves.
        Binary = "kBinary",
        /// By guessing where a key of evenly spread keys lies.
        Interpolation = "kInterpolation",
        /// By guessing where the block says that its keys are evenly spread.
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
    /// How short the keys of an index are made.
    #[non_exhaustive]
    IndexShortening {
        /// Whole keys.
        NoShortening = "kNoShortening",
        /// The shortest key between two blocks.
        ShortenSeparators = "kShortenSeparators",
        /// That, and the shortest key after the last block.
        ShortenSeparatorsAndSuccessor = "kShortenSeparatorsAndSuccessor",
    }
    /// Which blocks store what all their user keys begin with once.
    KeyCommonPrefix {
        /// None.
        Disabled = "kDisabled",
        /// Those whose keys are in the order of their bytes, or in its reverse.
        IfFastSeek = "kIfFastSeek",
        /// All.
        Enabled = "kEnabled",
    }
    /// Which index a table is opened with, where it has one of a user's making.
    #[non_exhaustive]
    IndexMode {
        /// The built-in one; no other is written.
        StandardOnly = "kStandardOnly",
        /// The built-in one.
        StandardDefault = "kStandardDefault",
        /// The other one.
        CustomDefault = "kCustomDefault",
        /// The other one; no built-in one is written.
        CustomOnly = "kCustomOnly",
        /// The built-in one, without which a table is refused.
        StandardRequired = "kStandardRequired",
    }
    /// Which metadata blocks stay in the cache as long as their table is open.
    PinningTier {
        /// What older options say.
        Fallback = "kFallback",
        /// None.
        None = "kNone",
        /// Those of tables that came from a flush and are small, or lie in level 0.
        FlushedAndSimilar = "kFlushedAndSimilar",
        /// All.
        All = "kAll",
    }
    /// Whether blocks enter the cache as they are written.
    #[non_exhaustive]
    PrepopulateBlockCache {
        /// No.
        Disable = "kDisable",
        /// Those of flushes.
        FlushOnly = "kFlushOnly",
        /// Those of flushes and compactions.
        FlushAndCompaction = "kFlushAndCompaction",
    }
    /// Whether blobs enter the cache as they are written.
    #[non_exhaustive]
    PrepopulateBlobCache {
        /// No.
        Disable = "kDisable",
        /// Those of flushes.
        FlushOnly = "kFlushOnly",
    }
    /// The structure behind a memtable.
    #[non_exhaustive]
    MemtableFactory {
        /// An ordered list that many threads insert into at once.
        SkipList = "SkipListFactory",
        /// An array sorted when it is full.
        Vector = "VectorRepFactory",
        /// A skip list for each prefix.
        HashSkipList = "HashSkipListRepFactory",
        /// A linked list for each prefix.
        HashLinkList = "HashLinkListRepFactory",
    }
    /// The format of new tables.
    #[non_exhaustive]
    TableKind {
        /// Blocks of sorted entries: the format described by [`crate::TableOptions`].
        BlockBased = "BlockBasedTable",
        /// One mapped array of entries.
        Plain = "PlainTable",
        /// A hash table of entries.
        Cuckoo = "CuckooTable",
    }
    /// Checksums of whole files, kept in the MANIFEST.
    #[non_exhaustive]
    FileChecksum {
        /// CRC-32C, big-endian.
        Crc32c = "FileChecksumGenCrc32cFactory",
    }
    /// Where a read may look.
    #[non_exhaustive]
    ReadTier {
        /// Everywhere.
        All = "kReadAllTier",
        /// In memtables and the block cache; a read that needs a file fails with `Incomplete`.
        BlockCache = "kBlockCacheTier",
        /// In files and what is in the log; not in memtables whose data has no log.
        Persisted = "kPersistedTier",
        /// In memtables.
        Memtable = "kMemtableTier",
    }
    /// Whether a manual compaction rewrites the bottommost level.
    BottommostLevelCompaction {
        /// No.
        Skip = "kSkip",
        /// If a compaction filter is configured.
        IfHaveCompactionFilter = "kIfHaveCompactionFilter",
        /// Yes.
        Force = "kForce",
        /// Yes, but for files that this compaction has just written.
        ForceOptimized = "kForceOptimized",
    }
    /// Whether blob garbage is collected by a manual compaction.
    BlobGarbageCollectionPolicy {
        /// Yes.
        Force = "kForce",
        /// No.
        Disable = "kDisable",
        /// As the family's options say.
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

impl Named for FileChecksum {}

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
