//! Compaction: what steers it, and what a program may put into it.
//!
//! # Filters
//!
//! A [`CompactionFilter`] sees the newest version of each key as tables are compacted, and may
//! drop or change it: the way to let data expire without a deletion for each key. It works beside
//! snapshots, not for them: what it removes is gone for their readers as well. A
//! [`CompactionFilterFactory`] makes one filter for each part of a job, and may filter flushes too.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! use std::sync::Arc;
//! use cairn::compaction::{CompactionFilter, FilterDecision, FilterValue};
//! use cairn::{CompactRangeOptions, Db, Options};
//!
//! /// Drops sessions that are over.
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
//! `compaction_style` says how a family's tree is shaped: leveled (the default: least space),
//! universal (sorted runs merged by size: least writing), FIFO (the oldest files are dropped: for
//! logs and caches), or not at all.
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
//! A [`SstPartitionerFactory`] ends tables where the user wants them to end, so that whole tables
//! can be moved or deleted. A [`TablePropertiesCollectorFactory`] sees every entry of a table as it
//! is written, adds properties to the table, and may ask for its compaction. [`CompactOnDeletion`]
//! is one that asks where deletions lie close together; with `deletion_triggered_compaction`, which
//! is on, every family has one.
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
//! # By hand
//!
//! [`Db::compact_range`] compacts a range of keys, [`Db::compact_files`] files by name;
//! [`Db::suggest_compact_range`] leaves the when to Cairn. [`Db::delete_files_in_ranges`] frees
//! the space of whole files at once. A [`Canceled`] flag calls a compaction off.
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

use cairn_types::Result;

use crate::db::Db;

pub use cairn_db::UserRange;
pub use cairn_options::{
    BlobGarbageCollectionPolicy, BottommostLevelCompaction, Canceled, CompactOnDeletion,
    CompactionOptions, FixedPrefixPartitions, Plugin, WaitForCompactOptions,
};
pub use cairn_types::{
    CollectorContext, CompactionFilter, CompactionFilterFactory, FilterContext, FilterDecision,
    FilterValue, PartitionContext, SstPartitioner, SstPartitionerFactory, TableFileCreationReason,
    TablePropertiesCollector, TablePropertiesCollectorFactory, ValueKind,
};

impl Db {
    /// Compacts the tables called `files` of the default family, and those that have to go with
    /// them, into `output_level`. Names are as in [`Db::property`] `rocksdb.sstables`, with or
    /// without their directory; `path_id` is the directory of the outputs. Returns the paths of
    /// the outputs.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if there is no such file or level; `Aborted` if files of it are being
    /// compacted already; `Incomplete` if it was called off; errors of the files.
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

    /// Marks the files of the default family that touch the keys from `begin` to `end` for compaction
    /// soon.
    ///
    /// # Errors
    ///
    /// The error that made the database read-only.
    pub fn suggest_compact_range(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        self.inner.suggest_compact_range(begin, end)
    }

    /// Deletes the tables of the default family from level 1 on that lie in one of `ranges` with
    /// all their keys, without reading them; the end of a range belongs to it if `include_end`.
    /// Other keys of the ranges stay. A quick way to free space before [`Db::delete_range`],
    /// not a deletion: snapshots see their keys go, and older versions in other files may come to
    /// light.
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

    /// Moves the files of level 0 of the default family, which must not overlap, to
    /// `target_level`, above which nothing may lie.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` names the obstacle.
    pub fn promote_level_zero(&self, target_level: usize) -> Result<()> {
        self.inner.promote_level_zero(target_level)
    }

    /// Turns automatic compactions of the default family on.
    ///
    /// # Errors
    ///
    /// Those of [`Db::set_options`].
    pub fn enable_auto_compaction(&self) -> Result<()> {
        self.inner.enable_auto_compaction()
    }

    /// Waits for running flushes and compactions, and starts no more until
    /// [`Db::continue_background_work`] has been called as often. Writes go on until memtables are
    /// full; a flush that is requested waits.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use cairn::{Db, Options};
    /// # let db = Db::open(dir.path().join("db"), &Options::default().create_if_missing(true))?;
    /// db.pause_background_work();
    /// // The files of the database stay as they are now.
    /// db.continue_background_work()?;
    /// # Ok::<(), cairn::Error>(())
    /// ```
    pub fn pause_background_work(&self) {
        self.inner.pause_background_work();
    }

    /// Takes one pause back.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if there is none.
    pub fn continue_background_work(&self) -> Result<()> {
        self.inner.continue_background_work()
    }

    /// Ends manual compactions with `Incomplete`, and refuses new ones until
    /// [`Db::enable_manual_compaction`] has been called as often.
    pub fn disable_manual_compaction(&self) {
        self.inner.disable_manual_compaction();
    }

    /// Takes one ban on manual compactions back.
    pub fn enable_manual_compaction(&self) {
        self.inner.enable_manual_compaction();
    }

    /// Ends all compactions, whose work is lost, and starts no more until
    /// [`Db::resume_all_compactions`] has been called as often. Flushes go on.
    pub fn abort_all_compactions(&self) {
        self.inner.abort_all_compactions();
    }

    /// Takes one abort back.
    pub fn resume_all_compactions(&self) {
        self.inner.resume_all_compactions();
    }

    /// Ends all background work for good: what is left to do with the database is to read, and to
    /// close it. With `wait`, returns when nothing runs any more.
    ///
    /// # Errors
    ///
    /// An error of flushing what was written without a log.
    pub fn cancel_all_background_work(&self, wait: bool) -> Result<()> {
        self.inner.cancel_all_background_work(wait)
    }

    /// Waits until no flush or compaction runs or is due, and what else `options` say.
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
