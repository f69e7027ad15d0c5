//! Opens the tables of a column family on first use.
//!
//! The open table is stored in the metadata of its file, so reads reach it through a pointer; see
//! [`crate::open_tables`] for when it is closed.

use std::path::PathBuf;

use cairn_format::names::{self, FileName};
use cairn_memory::secondary::CacheTier;
use cairn_memory::{BlockCache, ChargePolicy};
use cairn_observe::files::{ReadOf, counted_reads};
use cairn_observe::statistics::{Began, Histogram, Meter, Ticker};
use cairn_observe::traces::BlockCacheTracer;
use cairn_options::TableOptions;
use cairn_platform::fs::{Access, FileMode, RandomAccessFile};
use cairn_platform::sync::Arc;
use cairn_platform::{FileSystem, Io};
use cairn_table::{OpenParams, Table, UnopenedTable};
use cairn_types::{Error, KeyOrder, PrefixExtractor, Result, Subcode};

use crate::file_meta::{EntryCounts, FileMeta};
use crate::open_tables::{OpenTables, TableRef};

/// Opens the tables of a column family.
#[derive(Clone)]
pub struct TableSource {
    /// The file system.
    pub fs: Arc<dyn FileSystem>,
    /// The family's directories, by path id.
    pub paths: Vec<PathBuf>,
    /// The key order.
    pub order: KeyOrder,
    /// The family's prefix extractor.
    pub prefix_extractor: Option<PrefixExtractor>,
    /// The family's table options.
    pub options: Arc<TableOptions>,
    /// The block cache.
    pub cache: Option<Arc<BlockCache>>,
    /// The lowest tier of the cache in use.
    pub lowest_tier: CacheTier,
    /// The memory that is charged, and the cache that it is charged to.
    pub charge: ChargePolicy,
    /// Bits per key of the filter that a table without blocks gets in memory.
    pub flat_filter_bits: u32,
    /// Bytes of checksum for each entry of a block in memory.
    pub block_checksum_len: u8,
    /// True if the unique id in the MANIFEST is verified.
    pub verify_unique_id: bool,
    /// The mode in which files are opened.
    pub mode: FileMode,
    /// True if the kernel is advised to expect random access.
    pub advise_random: bool,
    /// Statistics sink for reads.
    pub meter: Meter,
    /// The index of the last level.
    pub last_level: usize,
    /// The open tables of the database.
    pub open_tables: Arc<OpenTables>,
    /// RocksDB's number of the temperature that statistics assume for files without a recorded one.
    pub default_temperature: u8,
    /// The family's `uncache_aggressiveness`.
    pub uncache_aggressiveness: u32,
    /// The recorder of block lookups of the database.
    pub cache_tracer: Option<Arc<BlockCacheTracer>>,
}

/// Returns the directory of the tables with `path_id`, one of `dirs`, the directories of their family: the last one if the
/// id is beyond them, as in RocksDB.
#[must_use]
pub fn table_dir(dirs: &[PathBuf], path_id: u32) -> Option<&PathBuf> {
    dirs.get(path_id as usize).or(dirs.last())
}

impl TableSource {
    /// Creates a source of the tables in `paths` that uses no cache, charges no memory, keeps any number of tables open and
    /// counts nothing. Options are the default ones, and no level is the last one.
    #[must_use]
    pub fn new(fs: Arc<dyn FileSystem>, paths: Vec<PathBuf>, order: KeyOrder) -> TableSource {
        TableSource {
            fs,
            paths,
            order,
            prefix_extractor: None,
            options: Arc::default(),
            cache: None,
            lowest_tier: CacheTier::default(),
            charge: ChargePolicy::default(),
            flat_filter_bits: 0,
            block_checksum_len: 0,
            verify_unique_id: false,
            mode: FileMode::default(),
            advise_random: false,
            meter: Meter::default(),
            last_level: usize::MAX,
            open_tables: OpenTables::new(None, 0),
            default_temperature: 0,
            uncache_aggressiveness: 0,
            cache_tracer: None,
        }
    }

    /// Returns the path of `file` under the name that LevelDB gives a table. A table that is missing at
    /// [`TableSource::path`] is opened here.
    #[must_use]
    pub fn legacy_path(&self, file: &FileMeta) -> PathBuf {
        self.in_dir(file, FileName::LegacyTable(file.number).to_string())
    }

    /// Returns the path of `file`.
    #[must_use]
    pub fn path(&self, file: &FileMeta) -> PathBuf {
        self.in_dir(file, names::table(file.number))
    }

    fn in_dir(&self, file: &FileMeta, name: String) -> PathBuf {
        let dir = self.dir(file);
        dir.map_or_else(|| PathBuf::from(&name), |dir| dir.join(&name))
    }

    /// Returns the directory of `file`.
    #[must_use]
    pub fn dir(&self, file: &FileMeta) -> Option<&PathBuf> {
        table_dir(&self.paths, file.path_id)
    }

    /// Evicts blocks of the obsolete `file` from the block cache, subject to `uncache_aggressiveness`, if
    /// its table is open. As in RocksDB, mapped files are skipped: their blocks are not cached.
    pub fn uncache(&self, file: &FileMeta) {
        if self.uncache_aggressiveness > 0
            && !self.mode.mapped
            && let Some(table) = file.table.peek()
        {
            table.uncache(self.uncache_aggressiveness);
        }
    }

    /// Returns the table of `file`, opening it if necessary. It stays open while it is referenced,
    /// and beyond that subject to the limit on open tables.
    ///
    /// # Errors
    ///
    /// `IoError`, or `Corruption` with file and offset.
    pub fn open<'f>(&self, file: &'f FileMeta, level: usize, io: &Io) -> Result<TableRef<'f>> {
        if let Some(table) = file.table.get() {
            return Ok(table);
        }
        let table = self.open_apart(file, Some(level), self.mode, io)?;
        Ok(self.keep(file, table))
    }

    /// Makes `table` the open table of `file`, unless another thread was faster.
    fn keep<'f>(&self, file: &'f FileMeta, table: Arc<Table>) -> TableRef<'f> {
        let table = file.table.put(table, &self.open_tables);
        let _ = file.counts.set(EntryCounts::of(table.properties()));
        table
    }

    /// Opens the table of `file` for one reader, independently of the shared one: a compaction may
    /// read it in another mode.
    ///
    /// # Errors
    ///
    /// As [`TableSource::open`].
    pub fn open_apart(
        &self,
        file: &FileMeta,
        level: Option<usize>,
        mode: FileMode,
        io: &Io,
    ) -> Result<Arc<Table>> {
        let began = self.meter.began();
        let opened = self.unopened(file, level, mode).and_then(|table| {
            let tail = io.read_now(&table.request());
            table.open(tail, io)
        });
        self.count_open(began, &opened);
        opened
    }

    fn count_open(&self, began: Began, opened: &Result<Arc<Table>>) {
        self.meter.update(|update| {
            update.add(Ticker::NoFileOpens, 1);
            update.add(Ticker::NoFileErrors, u64::from(opened.is_err()));
        });
        self.meter.time_since(began, Histogram::TableOpenIoMicros);
    }

    /// Opens the file of a table, under either of its names.
    fn open_file(&self, file: &FileMeta, mode: FileMode) -> Result<Arc<dyn RandomAccessFile>> {
        let is_missing = |error: &Error| error.subcode() == Subcode::PathNotFound;
        match self.fs.open(&self.path(file), mode) {
            Err(missing) if is_missing(&missing) => {
                match self.fs.open(&self.legacy_path(file), mode) {
                    Err(error) if is_missing(&error) => Err(missing),
                    opened => opened,
                }
            }
            opened => opened,
        }
    }

    fn unopened(
        &self,
        file: &FileMeta,
        level: Option<usize>,
        mode: FileMode,
    ) -> Result<UnopenedTable> {
        let mode = FileMode {
            temperature: file.temperature,
            ..mode
        };
        let handle = self.open_file(file, mode)?;
        if self.advise_random && !mode.direct {
            handle.advise(Access::Random);
        }
        debug_assert!(!self.paths.is_empty(), "a family has a directory");
        let last_level = level.is_some_and(|level| level >= self.last_level);
        let read = ReadOf::Table {
            last_level,
            temperature: match file.temperature {
                0 => self.default_temperature,
                recorded => recorded,
            },
        };
        let handle = counted_reads(handle, &self.meter, read);
        let params = OpenParams {
            number: file.number,
            level,
            order: self.order.clone(),
            prefix_extractor: self.prefix_extractor.clone(),
            options: self.options.clone(),
            cache: self.cache.clone(),
            lowest_tier: self.lowest_tier,
            charge: self.charge.clone(),
            expected_unique_id: file.unique_id.filter(|_| self.verify_unique_id),
            largest_seq: Some(file.seqs.largest),
            tail_size: (file.tail_size > 0).then_some(file.tail_size),
            flat_filter_bits: self.flat_filter_bits,
            block_checksum_len: self.block_checksum_len,
            meter: self.meter.clone(),
            cache_tracer: self.cache_tracer.clone(),
        };
        Ok(UnopenedTable::new(handle, file.size, params))
    }
}

/// A file whose table is to be opened, by its level and the source of its column family.
#[derive(Clone, Copy)]
pub struct FileToOpen<'f> {
    /// The file.
    pub file: &'f Arc<FileMeta>,
    /// Its level.
    pub level: usize,
    /// The source of its family.
    pub source: &'f Arc<TableSource>,
}

/// The maximum number of tables whose tails are read together.
const TOGETHER: usize = 64;

/// [`TableSource::open`] of all `files`, whose tails are read in batches of up to 64. Results are in the order of
/// the files.
#[must_use]
pub fn open_together<'f>(files: &[FileToOpen<'f>], io: &Io) -> Vec<Result<TableRef<'f>>> {
    let mut opened = Vec::with_capacity(files.len());
    for group in files.chunks(TOGETHER) {
        opened.extend(open_group(group, io));
    }
    opened
}

fn open_group<'f>(files: &[FileToOpen<'f>], io: &Io) -> Vec<Result<TableRef<'f>>> {
    let started: Vec<_> = files
        .iter()
        .map(
            |&FileToOpen {
                 file,
                 level,
                 source,
             }| {
                let began = source.meter.began();
                let unopened = || source.unopened(file, Some(level), source.mode);
                let table = file
                    .table
                    .get()
                    .map_or_else(|| unopened().map(Err), |it| Ok(Ok(it)));
                (began, table)
            },
        )
        .collect();
    let unopened = started.iter().filter_map(|(_, table)| match table {
        Ok(Err(unopened)) => Some(unopened.request()),
        _ => None,
    });
    let requests: Vec<_> = unopened.collect();
    let mut tails = io.read_batch(&requests).into_iter();
    let unanswered = || Err(Error::aborted("the end of a table was not read"));
    let complete = |(to_open, (began, table)): (&FileToOpen<'f>, (Began, Result<_>))| {
        let FileToOpen { file, source, .. } = *to_open;
        let opened = match table {
            Ok(Ok(open)) => return Ok(open),
            Ok(Err(unopened)) => {
                let unopened: UnopenedTable = unopened;
                unopened.open(tails.next().unwrap_or_else(unanswered), io)
            }
            Err(error) => Err(error),
        };
        source.count_open(began, &opened);
        opened.map(|table| source.keep(file, table))
    };
    files.iter().zip(started).map(complete).collect()
}
