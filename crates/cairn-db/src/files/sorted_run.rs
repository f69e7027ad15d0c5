//! External sorting: pairs are added in any order and become consecutive tables, ready for an ingestion.
//!
//! The work is done by a database in its own directory: with memtables that are sorted when they are full, no
//! log, and one compaction of everything at the end.

use std::path::PathBuf;

use cairn_options::{
    BottommostLevelCompaction, CompactRangeOptions, CompactionStyle, Compression, DbOptions,
    FamilyOptions, InfoLogLevel, MemtableFactory, ReadOptions, TableOptions, WriteOptions,
};
use cairn_platform::World;
use cairn_platform::sync::{AtomicU64, Ordering};
use cairn_types::{Error, KeyOrder, Result};

use crate::catalog::family::FamilyDescriptor;
use crate::db::Db;
use crate::open::{OpenRequest, open};
use crate::read::iter::Iter;
use crate::write::batch::WriteBatch;

/// The options of a `SortedRunBuilder`.
#[derive(Clone, Debug)]
pub struct SortedRunBuilderOptions {
    /// The working directory. It must not contain a database.
    pub temp_dir: PathBuf,
    /// The comparator.
    pub comparator: KeyOrder,
    /// The approximate size of the tables in bytes.
    pub target_file_size_bytes: u64,
    /// The compression of their blocks.
    pub compression: Compression,
    /// The number of concurrent flushes, and of subcompactions of the final compaction.
    pub max_compaction_threads: i32,
    /// The number of bytes sorted in memory at a time.
    pub write_buffer_size: usize,
    /// The maximum number of such memtables before writers wait.
    pub max_write_buffer_number: i32,
    /// The table format options.
    pub table: TableOptions,
    /// True to keep the directory when the builder is dropped.
    pub keep_temp_db: bool,
}

impl SortedRunBuilderOptions {
    /// Returns the defaults, which are RocksDB's, with `temp_dir`: bytewise order, tables and memtables of 64
    /// MiB, no compression, 4 threads, 4 memtables.
    #[must_use]
    pub fn new(temp_dir: impl Into<PathBuf>) -> SortedRunBuilderOptions {
        SortedRunBuilderOptions {
            temp_dir: temp_dir.into(),
            comparator: KeyOrder::Bytewise,
            target_file_size_bytes: 64 << 20,
            compression: Compression::None,
            max_compaction_threads: 4,
            write_buffer_size: 64 << 20,
            max_write_buffer_number: 4,
            table: TableOptions::default(),
            keep_temp_db: false,
        }
    }

    fn check(&self) -> Result<()> {
        let refused = [
            (self.temp_dir.as_os_str().is_empty(), "temp_dir is empty"),
            (
                self.max_compaction_threads <= 0,
                "max_compaction_threads is not positive",
            ),
            (self.write_buffer_size == 0, "write_buffer_size is 0"),
            (
                self.max_write_buffer_number < 2,
                "max_write_buffer_number is less than 2",
            ),
            (
                self.target_file_size_bytes == 0,
                "target_file_size_bytes is 0",
            ),
        ];
        match refused.iter().find(|(wrong, _)| *wrong) {
            Some((_, what)) => Err(Error::invalid_argument(*what)),
            None => Ok(()),
        }
    }

    fn of_database(&self) -> DbOptions {
        DbOptions {
            create_if_missing: true,
            error_if_exists: true,
            max_background_jobs: self.max_compaction_threads,
            max_subcompactions: self.max_compaction_threads.unsigned_abs(),
            max_open_files: -1,
            info_log_level: InfoLogLevel::Header,
            stats_dump_period_sec: 0,
            ..DbOptions::default()
        }
    }

    fn of_family(&self) -> FamilyOptions {
        FamilyOptions {
            comparator: self.comparator.clone(),
            memtable_factory: MemtableFactory::Vector,
            compaction_style: CompactionStyle::Universal,
            disable_auto_compactions: true,
            // Files of level 0 accumulate until the end, since nothing reads them.
            level0_slowdown_writes_trigger: i32::MAX,
            level0_stop_writes_trigger: i32::MAX,
            soft_pending_compaction_bytes_limit: 0,
            hard_pending_compaction_bytes_limit: 0,
            write_buffer_size: self.write_buffer_size,
            max_write_buffer_number: self.max_write_buffer_number,
            target_file_size_base: self.target_file_size_bytes,
            compression: self.compression,
            table: self.table.clone(),
            ..FamilyOptions::default()
        }
    }
}

/// The result of a builder.
struct Sorted {
    files: Vec<PathBuf>,
    entries: u64,
    bytes: u64,
}

/// Sorts more data than fits in memory: pairs are added in any order, by any threads, and become tables in
/// key order. Of several pairs with the same key, the last one added is kept.
///
/// The tables can be ingested with `allow_db_generated_files` and without `snapshot_consistency`; they are
/// deleted with the directory unless `keep_temp_db` is set.
pub struct SortedRunBuilder {
    options: SortedRunBuilderOptions,
    world: World,
    /// `None` after the clean-up.
    db: Option<Db>,
    entries: AtomicU64,
    bytes: AtomicU64,
    sorted: Option<Sorted>,
}

impl SortedRunBuilder {
    /// Creates an empty builder.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for invalid options, or if the directory already contains a database; `IoError`.
    pub fn new(world: &World, options: SortedRunBuilderOptions) -> Result<SortedRunBuilder> {
        options.check()?;
        let db = open(&OpenRequest {
            path: &options.temp_dir,
            options: &options.of_database(),
            families: &[FamilyDescriptor::new("default", options.of_family())],
            others: None,
            read_only: false,
            world: world.clone(),
        })?;
        Ok(SortedRunBuilder {
            options,
            world: world.clone(),
            db: Some(db),
            entries: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            sorted: None,
        })
    }

    fn database(&self) -> Result<&Db> {
        let db = self.db.as_ref();
        db.ok_or_else(|| Error::invalid_argument("the builder was cleaned up"))
    }

    /// Returns the database, if pairs may still be added.
    fn open_for_more(&self) -> Result<&Db> {
        match self.sorted {
            Some(_) => Err(Error::invalid_argument("the builder is finished")),
            None => self.database(),
        }
    }

    /// Adds a pair.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` after [`SortedRunBuilder::finish`]; `IoError`.
    pub fn add(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put(key, value);
        self.write(&batch, (key.len() + value.len()) as u64)
    }

    /// Adds the pairs of `batch`, which is cheaper for many pairs. It should contain nothing else.
    ///
    /// # Errors
    ///
    /// Those of [`SortedRunBuilder::add`].
    pub fn add_batch(&self, batch: &WriteBatch) -> Result<()> {
        self.write(batch, batch.data().len() as u64)
    }

    fn write(&self, batch: &WriteBatch, bytes: u64) -> Result<()> {
        let unlogged = WriteOptions {
            disable_wal: true,
            ..WriteOptions::default()
        };
        self.open_for_more()?.write_with(batch, &unlogged)?;
        // Relaxed: counters that order nothing else.
        let count = u64::from(batch.count());
        self.entries.fetch_add(count, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Creates tables from everything that was added.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` the second time; `IoError` of a flush or compaction.
    pub fn finish(&mut self) -> Result<()> {
        let db = self.open_for_more()?;
        db.flush()?;
        let all = CompactRangeOptions {
            bottommost_level_compaction: BottommostLevelCompaction::ForceOptimized,
            max_subcompactions: self.options.max_compaction_threads.unsigned_abs(),
            ..CompactRangeOptions::default()
        };
        db.compact_range(None, None, &all)?;
        let files = db.live_files_metadata();
        let tables = db.default_family().properties_of_all_tables()?;
        debug_assert_eq!(
            files.len(),
            tables.len(),
            "the tables of a finished builder do not change"
        );
        debug_assert!(
            files.windows(2).all(|pair| {
                let order = &self.options.comparator;
                let (first, second) = (&pair[0].largest_key, &pair[1].smallest_key);
                matches!(order, KeyOrder::Custom(_)) || !order.compare(first, second).is_gt()
            }),
            "tables follow each other"
        );
        let entries = tables.values().map(|table| table.num_entries);
        let entries = entries.fold(0, u64::saturating_add);
        debug_assert!(
            entries <= self.entries.load(Ordering::Relaxed),
            "there are no more pairs than were added"
        );
        self.sorted = Some(Sorted {
            entries,
            bytes: files
                .iter()
                .map(|file| file.size)
                .fold(0, u64::saturating_add),
            files: files
                .iter()
                .map(|file| file.directory.join(&file.relative_filename))
                .collect(),
        });
        Ok(())
    }

    /// Returns the tables, in key order; empty before [`SortedRunBuilder::finish`].
    #[must_use]
    pub fn output_files(&self) -> &[PathBuf] {
        self.sorted.as_ref().map_or(&[], |sorted| &sorted.files)
    }

    /// Returns the number of pairs; before the end, including duplicates.
    #[must_use]
    pub fn num_entries(&self) -> u64 {
        let added = || self.entries.load(Ordering::Relaxed);
        self.sorted
            .as_ref()
            .map_or_else(added, |sorted| sorted.entries)
    }

    /// Returns the size of the tables in bytes; before the end, that of all pairs added.
    #[must_use]
    pub fn data_size(&self) -> u64 {
        let added = || self.bytes.load(Ordering::Relaxed);
        self.sorted
            .as_ref()
            .map_or_else(added, |sorted| sorted.bytes)
    }

    /// Returns an iterator over all pairs in key order.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` before [`SortedRunBuilder::finish`].
    pub fn iter(&self, options: &ReadOptions) -> Result<Iter> {
        match self.sorted {
            Some(_) => Ok(self.database()?.default_family().iter_with(options)),
            None => Err(Error::invalid_argument("the builder is not finished")),
        }
    }

    /// Deletes the database in the directory with all tables. The builder cannot be used afterwards. Dropping
    /// the builder does the same, unless `keep_temp_db` is set.
    ///
    /// # Errors
    ///
    /// `IoError`.
    pub fn cleanup(&mut self) -> Result<()> {
        let Some(db) = self.db.take() else {
            return Ok(());
        };
        self.sorted = None;
        db.close()?;
        drop(db);
        let dir = &self.options.temp_dir;
        super::destroy(
            &self.world,
            dir,
            &self.options.of_database(),
            &[self.options.of_family()],
        )
    }
}

impl Drop for SortedRunBuilder {
    fn drop(&mut self) {
        if !self.options.keep_temp_db {
            // A drop cannot report errors; `cleanup` does.
            let _ = self.cleanup();
        }
    }
}
