//! Why jobs run and errors happen, with RocksDB's numbers and names.

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $number:literal, $text:literal;)+ })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[repr(u32)]
        #[non_exhaustive]
        pub enum $name { #[default] $($(#[$vdoc])* $variant = $number,)+ }

        impl $name {
            /// RocksDB's words for it, as they stand in its log.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }

            /// RocksDB's number for it.
            #[must_use]
            pub fn number(self) -> u32 {
                self as u32
            }
        }
    )+};
}

reasons! {
    /// Why memtables are flushed.
    FlushReason {
        /// None of the others.
        Others = 0, "Others";
        /// Somebody asked for the live files.
        GetLiveFiles = 1, "Get Live Files";
        /// The database is closed.
        ShutDown = 2, "Shut down";
        /// A file is ingested.
        ExternalFileIngestion = 3, "External File Ingestion";
        /// A range is compacted by hand.
        ManualCompaction = 4, "Manual Compaction";
        /// The write buffer manager has no room.
        WriteBufferManager = 5, "Write Buffer Manager";
        /// The memtable is full.
        WriteBufferFull = 6, "Write Buffer Full";
        /// A test.
        Test = 7, "Test";
        /// Files are deleted.
        DeleteFiles = 8, "Delete Files";
        /// An automatic compaction.
        AutoCompaction = 9, "Auto Compaction";
        /// Somebody asked for it.
        ManualFlush = 10, "Manual Flush";
        /// An error is being recovered from.
        ErrorRecovery = 11, "Error Recovery";
        /// A flush that failed while an error was recovered from.
        ErrorRecoveryRetryFlush = 12, "Error Recovery Retry Flush";
        /// The logs are too large.
        WalFull = 13, "WAL Full";
        /// What was written while an error was recovered from.
        CatchUpAfterErrorRecovery = 14, "Catch Up After Error Recovery";
        /// The memtable has too many range deletions.
        MemtableMaxRangeDeletions = 15, "Memtable Max Range Deletions";
    }
    /// Why files are compacted.
    CompactionReason {
        /// None of the others.
        Unknown = 0, "Unknown";
        /// Level 0 has many files.
        LevelL0FilesNum = 1, "LevelL0FilesNum";
        /// A level is larger than its target.
        LevelMaxLevelSize = 2, "LevelMaxLevelSize";
        /// Universal: too much space for obsolete data.
        UniversalSizeAmplification = 3, "UniversalSizeAmplification";
        /// Universal: runs of similar size.
        UniversalSizeRatio = 4, "UniversalSizeRatio";
        /// Universal: too many runs.
        UniversalSortedRunNum = 5, "UniversalSortedRunNum";
        /// FIFO: too much data.
        FifoMaxSize = 6, "FIFOMaxSize";
        /// FIFO: too many files.
        FifoReduceNumFiles = 7, "FIFOReduceNumFiles";
        /// FIFO: the data is too old.
        FifoTtl = 8, "FIFOTtl";
        /// Somebody asked for it.
        ManualCompaction = 9, "ManualCompaction";
        /// Something in the files asks for it.
        FilesMarkedForCompaction = 10, "FilesMarkedForCompaction";
        /// Versions that snapshots kept alive can go.
        BottommostFiles = 11, "BottommostFiles";
        /// Data is older than the time to live.
        Ttl = 12, "Ttl";
        /// A flush, in statistics that count it as a compaction.
        Flush = 13, "Flush";
        /// An ingestion, in statistics that count it as a compaction.
        ExternalSstIngestion = 14, "ExternalSstIngestion";
        /// Files have not been rewritten for long.
        PeriodicCompaction = 15, "PeriodicCompaction";
        /// Data goes to another kind of storage.
        ChangeTemperature = 16, "ChangeTemperature";
        /// Blob files hold too much garbage.
        ForcedBlobGc = 17, "ForcedBlobGC";
        /// Round robin: data is older than the time to live.
        RoundRobinTtl = 18, "RoundRobinTtl";
        /// Files go to another level as they are.
        RefitLevel = 19, "RefitLevel";
        /// A file is read often.
        ReadTriggered = 20, "ReadTriggered";
    }
    /// Where a background error came from.
    BackgroundErrorReason {
        /// A flush.
        Flush = 0, "Flush";
        /// A compaction.
        Compaction = 1, "Compaction";
        /// A write.
        WriteCallback = 2, "WriteCallback";
        /// An insertion into a memtable.
        MemTable = 3, "MemTable";
        /// A write of the MANIFEST.
        ManifestWrite = 4, "ManifestWrite";
        /// A flush of what has no log.
        FlushNoWal = 5, "FlushNoWAL";
        /// A write of the MANIFEST for what has no log.
        ManifestWriteNoWal = 6, "ManifestWriteNoWAL";
        /// The opening of a file in the background.
        AsyncFileOpen = 7, "AsyncFileOpen";
    }
    /// What writers of a family must do, with the numbers of the C API.
    StallCondition {
        /// Write on.
        Normal = 2, "normal";
        /// Write more slowly.
        Delayed = 0, "delayed";
        /// Wait.
        Stopped = 1, "stopped";
    }
}
