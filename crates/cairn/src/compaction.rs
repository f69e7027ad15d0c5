//! Compaction: styles, filters, partitioners, collectors and manual control.
//!
//! # Filters
//!
//! A [`CompactionFilter`] is called for the newest version of each key as tables are compacted, and
//! may drop or change it, so that data can expire without a deletion per key. It ignores snapshots:
//! entries that it removes disappear for their readers as well. A [`CompactionFilterFactory`]
//! creates one filter per subcompaction, and may filter flushes, too.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! use std::sync::Arc;
//! use cairn::compaction::{CompactionFilter, FilterDecision, FilterValue};
//! use cairn::{CompactRangeOptions, Db, Options};
//!
//! /// Drops expired sessions.
//! struct Expired;
//! impl CompactionFilter for Expired {
//!     fn name(&self) -> &str {
//!         "example.Expired"
//!     }
//!     fn filter(&self, _level: usize, _key: &[u8], value: FilterValue<'_>) -> FilterDecision {
//!         match value {
//!             FilterValue::Value(b"over") => FilterDecision::Remove,
//!             _ => FilterDecision::Keep,
//!         }
//!     }
//! }
//!
//! let mut options = Options::default().create_if_missing(true);
//! options.family.compaction_filter = (Arc::new(Expired) as Arc<dyn CompactionFilter>).into();
//! let db = Db::open(dir.path().join("db"), &options)?;
//! db.put(b"session 1", b"over")?;
//! db.put(b"session 2", b"open")?;
//! db.compact_range(None, None, &CompactRangeOptions::default())?;
//! assert!(db.get(b"session 1")?.is_none());
//! assert!(db.get(b"session 2")?.is_some());
//! # Ok::<(), cairn::Error>(())
//! ```

//! # Styles
//!
//! `compaction_style` determines the shape of a family's tree: leveled (the default, with the
//! lowest space amplification), universal (sorted runs merged by size, with the lowest write
//! amplification), FIFO (the oldest files are deleted, for logs and caches), or none.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! use cairn::{Db, Options};
//!
//! let options = Options::default().create_if_missing(true).text(
//!     "compaction_style=kCompactionStyleUniversal;\
//!      compaction_options_universal={size_ratio=10;max_size_amplification_percent=150}",
//! )?;
//! let db = Db::open(dir.path().join("runs"), &options)?;
//!
//! let options = Options::default().create_if_missing(true).text(
//!     "compaction_style=kCompactionStyleFIFO;num_levels=1;ttl=86400;\
//!      compaction_options_fifo={max_table_files_size=1G}",
//! )?;
//! let log = Db::open(dir.path().join("log"), &options)?;
//! # Ok::<(), cairn::Error>(())
//! ```
//!
//! # Tables
//!
//! A [`SstPartitionerFactory`] sets table boundaries, so that whole tables can be moved or deleted.
//! A [`TablePropertiesCollectorFactory`] creates collectors, which are called for every entry
//! written to a table, add properties to it, and may mark it for compaction. [`CompactOnDeletion`]
//! marks tables with dense deletions; every family has such a collector unless
//! `deletion_triggered_compaction` is disabled.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! use std::sync::Arc;
//! use cairn::compaction::{CompactOnDeletion, FixedPrefixPartitions, SstPartitionerFactory};
//! use cairn::{CompactRangeOptions, Db, Options};
//!
//! let mut options = Options::default().create_if_missing(true);
//! let by_day: Arc<dyn SstPartitionerFactory> = Arc::new(FixedPrefixPartitions::new(10));
//! options.family.sst_partitioner_factory = by_day.into();
//! let dense = CompactOnDeletion::new(1000, 300);
//! options.family.table_properties_collector_factories.push(Arc::new(dense));
//!
//! let db = Db::open(dir.path().join("db"), &options)?;
//! db.put(b"2024-05-01 08:00", b"...")?;
//! db.put(b"2024-05-02 08:00", b"...")?;
//! db.compact_range(None, None, &CompactRangeOptions::default())?;
//! assert_eq!(db.property("rocksdb.num-files-at-level6").as_deref(), Some("2"));
//! # Ok::<(), cairn::Error>(())
//! ```
//!
//! # Other processes
//!
//! A database with a [`CompactionService`] passes the description of each compaction to it. The service sends
//! it to a worker, which calls [`open_and_compact`] on the same files, and returns the result. Workers of RocksDB
//! can serve Cairn, and the other way round. The example `remote_compaction` has both sides.
//!
//! # Manual control
//!
//! [`Db::compact_range`] compacts a range of keys, [`Db::compact_files`] compacts files by name,
//! and [`Db::suggest_compact_range`] only marks files and leaves the timing to Cairn.
//! [`Db::delete_files_in_ranges`] frees the space of whole files at once. A [`Canceled`] flag
//! cancels a compaction.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # use cairn::{CompactRangeOptions, Db, Options};
//! # let db = Db::open(dir.path().join("db"), &Options::default().create_if_missing(true))?;
//! use cairn::compaction::{BottommostLevelCompaction, Canceled};
//! # db.put(b"k", b"v")?;
//!
//! let canceled = Canceled::new();
//! let options = CompactRangeOptions {
//!     bottommost_level_compaction: BottommostLevelCompaction::Force,
//!     change_level: true,
//!     target_level: 3,
//!     canceled: canceled.clone(), // another thread may call `canceled.cancel()`
//!     ..CompactRangeOptions::default()
//! };
//! db.compact_range(None, None, &options)?;
//! assert_eq!(db.property("rocksdb.num-files-at-level3").as_deref(), Some("1"));
//! # Ok::<(), cairn::Error>(())
//! ```

use std::path::Path;

use cairn_platform::World;
use cairn_types::Result;

use crate::db::Db;

pub use cairn_db::{CompactionServiceOptionsOverride, OpenAndCompactOptions, UserRange};
pub use cairn_options::{
    BlobGarbageCollectionPolicy, BottommostLevelCompaction, Canceled, CompactOnDeletion,
    CompactionOptions, CompactionService, CompactionServiceJobInfo, CompactionServiceJobStatus,
    CompactionServiceScheduleResponse, FixedPrefixPartitions, Plugin, WaitForCompactOptions,
};
pub use cairn_types::{
    CollectorContext, CompactionFilter, CompactionFilterFactory, FilterContext, FilterDecision,
    FilterValue, PartitionContext, SstPartitioner, SstPartitionerFactory, TableFileCreationReason,
    TablePropertiesCollector, TablePropertiesCollectorFactory, ValueKind,
};

/// Runs a compaction for a database in `path` that is open in another process: `input` is what its
/// [`CompactionService`] was called with. Outputs are written to the directory `output_directory` in `path`, which
/// must be empty or new. Returns the result for the service.
///
/// # Errors
///
/// `Corruption` for an invalid `input`; `Incomplete` if the compaction was canceled, or if the MANIFEST in `path`
/// is older than the request; `NotSupported` for column families with blob files; errors of files.
pub fn open_and_compact(
    options: &OpenAndCompactOptions,
    path: impl AsRef<Path>,
    output_directory: &str,
    input: &[u8],
    overrides: &CompactionServiceOptionsOverride,
) -> Result<Vec<u8>> {
    let world = World::posix();
    cairn_db::open_and_compact(
        options,
        path.as_ref(),
        output_directory,
        input,
        overrides,
        &world,
    )
}

impl Db {
    /// Compacts the tables `files` of the default family, and others that must be included, into
    /// `output_level`. Files are named as in the [property](Db::property) `rocksdb.sstables`, with
    /// or without their directory; `path_id` selects the directory of the output tables, `None`
    /// selects the only one. Returns the paths of the outputs: tables, and then blob files.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if a file or the level does not exist; `NotSupported` without a `path_id` if
    /// there are several directories; `Aborted` if some of the files are already being compacted;
    /// `Incomplete` if the compaction was cancelled; errors of the files.
    pub fn compact_files(
        &self,
        options: &CompactionOptions,
        files: &[&str],
        output_level: usize,
        path_id: Option<u32>,
    ) -> Result<Vec<String>> {
        self.inner
            .compact_files(options, files, output_level, path_id)
    }

    /// Marks the files of the default family that overlap the keys from `begin` to `end` to be
    /// compacted soon.
    ///
    /// # Errors
    ///
    /// The error that made the database read-only.
    pub fn suggest_compact_range(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        self.inner.suggest_compact_range(begin, end)
    }

    /// Deletes the tables of the default family below level 0 whose keys are entirely within one of
    /// `ranges`, without reading them. Range ends are inclusive if `include_end`. Keys in other
    /// files stay. Use it to free space quickly before [`Db::delete_range`]; it is not a deletion
    /// itself: snapshots lose the keys as well, and older versions in other files may reappear.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use cairn::{CompactRangeOptions, Db, Options};
    /// # let db = Db::open(dir.path().join("db"), &Options::default().create_if_missing(true))?;
    /// db.put(b"2019-04", b"...")?;
    /// db.compact_range(None, None, &CompactRangeOptions::default())?;
    /// db.put(b"2020-01", b"...")?;
    ///
    /// let old: (&[u8], &[u8]) = (b"2019", b"2020");
    /// db.delete_files_in_ranges(&[(Some(old.0), Some(old.1))], false)?;
    /// db.delete_range(old.0, old.1)?;
    /// assert!(db.get(b"2019-04")?.is_none());
    /// assert!(db.get(b"2020-01")?.is_some());
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The error that made the database read-only.
    pub fn delete_files_in_ranges(
        &self,
        ranges: &[UserRange<'_>],
        include_end: bool,
    ) -> Result<()> {
        self.inner.delete_files_in_ranges(ranges, include_end)
    }

    /// Moves the level-0 files of the default family, which must not overlap, to `target_level`.
    /// The levels from 1 to `target_level` must be empty.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, with the reason.
    pub fn promote_level_zero(&self, target_level: usize) -> Result<()> {
        self.inner.promote_level_zero(target_level)
    }

    /// Enables automatic compactions of the default family.
    ///
    /// # Errors
    ///
    /// Those of [`Db::set_options`].
    pub fn enable_auto_compaction(&self) -> Result<()> {
        self.inner.enable_auto_compaction()
    }

    /// Waits for running flushes and compactions, and starts no more until
    /// [`Db::continue_background_work`] has been called the same number of times. Writes continue
    /// until the memtables are full; requested flushes wait.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use cairn::{Db, Options};
    /// # let db = Db::open(dir.path().join("db"), &Options::default().create_if_missing(true))?;
    /// db.pause_background_work();
    /// // No flush or compaction changes the files here.
    /// db.continue_background_work()?;
    /// # Ok::<(), cairn::Error>(())
    /// ```
    pub fn pause_background_work(&self) {
        self.inner.pause_background_work();
    }

    /// Undoes one [`Db::pause_background_work`].
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if background work is not paused.
    pub fn continue_background_work(&self) -> Result<()> {
        self.inner.continue_background_work()
    }

    /// Cancels manual compactions with `Incomplete`, and rejects new ones until
    /// [`Db::enable_manual_compaction`] has been called the same number of times.
    pub fn disable_manual_compaction(&self) {
        self.inner.disable_manual_compaction();
    }

    /// Undoes one [`Db::disable_manual_compaction`].
    pub fn enable_manual_compaction(&self) {
        self.inner.enable_manual_compaction();
    }

    /// Aborts all running compactions, discarding their work, and starts no more until
    /// [`Db::resume_all_compactions`] has been called the same number of times. Flushes continue.
    pub fn abort_all_compactions(&self) {
        self.inner.abort_all_compactions();
    }

    /// Undoes one [`Db::abort_all_compactions`].
    pub fn resume_all_compactions(&self) {
        self.inner.resume_all_compactions();
    }

    /// Cancels all background work permanently. Afterwards the database can only be read and
    /// closed. With `wait`, returns once no job is running.
    ///
    /// # Errors
    ///
    /// An error of flushing data that was written without the WAL.
    pub fn cancel_all_background_work(&self, wait: bool) -> Result<()> {
        self.inner.cancel_all_background_work(wait)
    }

    /// Waits until no flush or compaction is running or due, subject to `options`.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use cairn::{Db, Options};
    /// # let db = Db::open(dir.path().join("db"), &Options::default().create_if_missing(true))?;
    /// use cairn::compaction::WaitForCompactOptions;
    /// # db.put(b"k", b"v")?;
    ///
    /// db.wait_for_compact(&WaitForCompactOptions {
    ///     flush: true,
    ///     timeout: 60_000_000,
    ///     ..WaitForCompactOptions::default()
    /// })?;
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Aborted` if background work is paused and `abort_on_pause` is set; `TimedOut`;
    /// `ShutdownInProgress`; the error that made the database read-only.
    pub fn wait_for_compact(&self, options: &WaitForCompactOptions) -> Result<()> {
        self.inner.wait_for_compact(options)
    }
}
