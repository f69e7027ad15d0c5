//! Reasons of jobs and background errors, with RocksDB's numbers and names.

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $number:literal, $text:literal;)+ })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[repr(u32)]
        #[non_exhaustive]
        pub enum $name { #[default] $($(#[$vdoc])* $variant = $number,)+ }

        impl $name {
            /// RocksDB's name, as written to its log.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }

            /// RocksDB's number.
            #[must_use]
            pub fn number(self) -> u32 {
                self as u32
            }
        }
    )+};
}

reasons! {
    /// The reason of a flush.
    FlushReason {
        /// Any other reason.
        Others = 0, "Others";
        /// The list of live files was requested.
        GetLiveFiles = 1, "Get Live Files";
        /// The database is closing.
        ShutDown = 2, "Shut down";
        /// A file is ingested.
        ExternalFileIngestion = 3, "External File Ingestion";
        /// A manual compaction.
        ManualCompaction = 4, "Manual Compaction";
        /// The write buffer manager is out of memory.
        WriteBufferManager = 5, "Write Buffer Manager";
        /// The memtable is full.
        WriteBufferFull = 6, "Write Buffer Full";
        /// A test.
        Test = 7, "Test";
        /// Files are deleted.
        DeleteFiles = 8, "Delete Files";
        /// An automatic compaction.
        AutoCompaction = 9, "Auto Compaction";
        /// The flush was requested.
        ManualFlush = 10, "Manual Flush";
        /// Recovery from an error.
        ErrorRecovery = 11, "Error Recovery";
        /// The retry of a flush that failed during recovery from an error.
        ErrorRecoveryRetryFlush = 12, "Error Recovery Retry Flush";
        /// The WALs are too large.
        WalFull = 13, "WAL Full";
        /// Data written during recovery from an error.
        CatchUpAfterErrorRecovery = 14, "Catch Up After Error Recovery";
        /// The memtable has too many range deletions.
        MemtableMaxRangeDeletions = 15, "Memtable Max Range Deletions";
    }
    /// The reason of a compaction.
    CompactionReason {
        /// Any other reason.
        Unknown = 0, "Unknown";
        /// Level 0 has too many files.
        LevelL0FilesNum = 1, "LevelL0FilesNum";
        /// A level is larger than its target.
        LevelMaxLevelSize = 2, "LevelMaxLevelSize";
        /// Universal: too much space amplification.
        UniversalSizeAmplification = 3, "UniversalSizeAmplification";
        /// Universal: sorted runs of similar size.
        UniversalSizeRatio = 4, "UniversalSizeRatio";
        /// Universal: too many sorted runs.
        UniversalSortedRunNum = 5, "UniversalSortedRunNum";
        /// FIFO: too much data.
        FifoMaxSize = 6, "FIFOMaxSize";
        /// FIFO: too many files.
        FifoReduceNumFiles = 7, "FIFOReduceNumFiles";
        /// FIFO: the data is too old.
        FifoTtl = 8, "FIFOTtl";
        /// The compaction was requested.
        ManualCompaction = 9, "ManualCompaction";
        /// Files are marked for compaction.
        FilesMarkedForCompaction = 10, "FilesMarkedForCompaction";
        /// Bottommost files have versions that were kept for snapshots released since.
        BottommostFiles = 11, "BottommostFiles";
        /// Data is older than the time to live.
        Ttl = 12, "Ttl";
        /// A flush, in statistics that count it as a compaction.
        Flush = 13, "Flush";
        /// An ingestion, in statistics that count it as a compaction.
        ExternalSstIngestion = 14, "ExternalSstIngestion";
        /// Files have reached the age for periodic compaction.
        PeriodicCompaction = 15, "PeriodicCompaction";
        /// Files change to another temperature.
        ChangeTemperature = 16, "ChangeTemperature";
        /// Blob files have too much garbage.
        ForcedBlobGc = 17, "ForcedBlobGC";
        /// Round robin: data is older than the time to live.
        RoundRobinTtl = 18, "RoundRobinTtl";
        /// Files are moved to another level.
        RefitLevel = 19, "RefitLevel";
        /// A file is read frequently.
        ReadTriggered = 20, "ReadTriggered";
    }
    /// The origin of a background error.
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
        /// A flush of data without a WAL.
        FlushNoWal = 5, "FlushNoWAL";
        /// A write of the MANIFEST for data without a WAL.
        ManifestWriteNoWal = 6, "ManifestWriteNoWAL";
        /// Opening of a file in the background.
        AsyncFileOpen = 7, "AsyncFileOpen";
    }
    /// The stall condition of a column family, with the numbers of the C API.
    StallCondition {
        /// Writes are not throttled.
        Normal = 2, "normal";
        /// Writes are delayed.
        Delayed = 0, "delayed";
        /// Writes are stopped.
        Stopped = 1, "stopped";
    }
}
