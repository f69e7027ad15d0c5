//! Observability: listeners, the info log, statistics, perf counters and thread status.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("db");
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU64, Ordering};
//! use cairn::observe::{EventListener, FlushJobInfo};
//! use cairn::{Db, Options};
//!
//! #[derive(Default)]
//! struct Flushes(AtomicU64);
//! impl EventListener for Flushes {
//!     fn on_flush_completed(&self, info: &FlushJobInfo) {
//!         println!("{} (reason: {})", info.file_path, info.flush_reason.text());
//!         self.0.fetch_add(1, Ordering::Relaxed);
//!     }
//! }
//!
//! let flushes = Arc::new(Flushes::default());
//! let db = Db::open(&path, &Options::default().create_if_missing(true).listener(flushes.clone()))?;
//! db.put(b"stone", b"granite")?;
//! db.flush()?;
//! assert_eq!(flushes.0.load(Ordering::Relaxed), 1);
//! # Ok::<(), cairn::Error>(())
//! ```
//!
//! The lines of the info log go to a [`LogSink`] in [`crate::DbOptions::info_log`], or to the file
//! `LOG`. They never contain keys or values.
//!
//! Unless [`crate::DbOptions::statistics`] disables them, a database keeps statistics: RocksDB's
//! tickers and histograms, by default without times. [`perf`] has counters for the operations of
//! the calling thread, [`perf::by_level`] for each level of the tree, and [`perf::iostats`] for its
//! file I/O. [`threads`] lists flushes, compactions and opens in progress.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("db");
//! use cairn::observe::Ticker;
//! use cairn::{Db, Options};
//!
//! let db = Db::open(&path, &Options::default().create_if_missing(true))?;
//! db.put(b"stone", b"granite")?;
//! let statistics = db.statistics().expect("statistics are enabled by default");
//! assert_eq!(statistics.ticker(Ticker::NumberKeysWritten), 1);
//! # Ok::<(), cairn::Error>(())
//! ```

/// Counters of the operations of the calling thread.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = cairn::Db::open(dir.path().join("db"), &cairn::Options::default().create_if_missing(true))?;
/// use cairn::observe::perf::{self, PerfLevel, PerfMetric};
///
/// perf::set_level(PerfLevel::EnableCount);
/// perf::reset();
/// db.put(b"stone", b"granite")?;
/// db.get(b"stone")?;
/// assert_eq!(perf::metric(PerfMetric::GetFromMemtableCount), 1);
/// # Ok::<(), cairn::Error>(())
/// ```
pub mod perf {
    pub use cairn_observe::perf::{PerfLevel, PerfMetric, level, metric, report, reset, set_level};

    /// Counters for each level of the tree.
    pub mod by_level {
        pub use cairn_observe::perf::by_level::{
            LevelMetric, clear, disable, enable, levels, metric,
        };
    }

    /// Counters of the file I/O of the calling thread.
    pub mod iostats {
        pub use cairn_observe::perf::iostats::{IoMetric, metric, report, reset};
    }
}

/// Thread status: flushes, compactions and opens in progress.
pub mod threads {
    pub use cairn_observe::threads::{
        CompactionOperation, FlushOperation, Operation, Stage, ThreadStatus, ThreadType, list,
    };
}

pub use cairn_observe::listener::{
    BackgroundErrorRecoveryInfo, BackgroundJobPressure, BlobFileAddition, BlobFileCreationInfo,
    BlobFileGarbage, CompactionFileInfo, CompactionJobInfo, CompactionJobStats, EventListener,
    ExternalFileIngestionInfo, FileCreationBriefInfo, FileDeletionInfo, FileOperation,
    FileOperationInfo, FlushJobInfo, IoErrorInfo, KeyPrefix, ManualFlushInfo, MemTableInfo,
    SubcompactionJobInfo, TableFileCreationInfo, WriteStallInfo,
};
pub use cairn_observe::statistics::history::Slice as StatsSlice;
pub use cairn_observe::statistics::{
    Distribution, Histogram, HistogramData, Keeping, Statistics, StatsLevel, Ticker,
};
pub use cairn_observe::{
    BackgroundErrorReason, CompactionReason, FlushReason, Level, LogSink, StallCondition,
};
