//! The engine interface of the benchmarks, the only code that differs between engines.
//!
//! A [`Source`] opens databases and an [`Engine`] is an open one; each thread uses its own [`Session`] and
//! scans with a [`Cursor`]. All are static types, so that calls of Cairn's native interface cost as much as
//! in a program.

use std::path::Path;

use cairn::{Error, Result};
use clap::ValueEnum;

/// Settings shared by all operations of a session.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// True if writes sync the WAL.
    pub sync: bool,
    /// True if writes bypass the WAL.
    pub disable_wal: bool,
    /// True if reads verify block checksums.
    pub verify_checksums: bool,
    /// True if scans ignore the prefix extractor.
    pub total_order_seek: bool,
    /// True if scans end at the end of the prefix of their seek key.
    pub prefix_same_as_start: bool,
    /// True if the files of a level are read in parallel.
    pub async_io: bool,
    /// True if, with `async_io`, all levels are read in parallel.
    pub optimize_multiget_for_io: bool,
    /// True if merge operands are copied.
    pub copy_operands: bool,
}

/// The kind of a block cache, by db_bench's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CacheType {
    /// An LRU cache, with pools by priority.
    #[value(name = "lru_cache")]
    Lru,
    /// RocksDB's HyperClock cache with a table that grows, and Cairn's clock cache.
    #[value(name = "hyper_clock_cache", alias = "auto_hyper_clock_cache")]
    HyperClock,
}

impl CacheType {
    /// Every kind, and the suffix of an engine name that selects it.
    pub const SUFFIXES: [(CacheType, &'static str); 2] = [
        (CacheType::HyperClock, "+hyperclock"),
        (CacheType::Lru, "+lru"),
    ];

    /// Splits the suffix off an engine name.
    #[must_use]
    pub fn split(engine: &str) -> (&str, Option<CacheType>) {
        let named = CacheType::SUFFIXES
            .into_iter()
            .find_map(|(kind, suffix)| Some((engine.strip_suffix(suffix)?, Some(kind))));
        named.unwrap_or((engine, None))
    }
}

/// Settings of a block cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheSettings {
    /// The kind; `None` for the default, an LRU cache.
    pub kind: Option<CacheType>,
    /// The capacity in bytes.
    pub capacity: usize,
    /// The base-2 logarithm of the number of shards; `None` for the engine's default.
    pub shard_bits: Option<i32>,
    /// The share for metadata; `None` for the engine's default.
    pub high_ratio: Option<f64>,
    /// The share for data blocks; `None` for the engine's default.
    pub low_ratio: Option<f64>,
    /// True if blobs are cached too.
    pub with_blobs: bool,
}

impl std::fmt::Display for CacheSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self.kind {
            Some(CacheType::HyperClock) => "hyper_clock_cache",
            Some(CacheType::Lru) | None => "lru_cache",
        };
        write!(f, "{kind} of {} bytes", self.capacity)?;
        if let Some(bits) = self.shard_bits {
            write!(f, ", 2^{bits} shards")?;
        }
        for (name, ratio) in [("metadata", self.high_ratio), ("data", self.low_ratio)] {
            if let Some(ratio) = ratio {
                write!(f, ", {ratio} for {name}")?;
            }
        }
        f.write_str(if self.with_blobs { ", with blobs" } else { "" })
    }
}

/// Opens databases of one engine.
pub trait Source: Sync {
    /// An open database.
    type Engine: Engine;
    /// A block cache of databases.
    type Cache;
    /// A block cache without a database.
    type BareCache: BareCache;

    /// Opens or creates the database in `dir` with a RocksDB option string. A `cache` replaces the one in the
    /// options.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    fn open(&self, dir: &Path, options: &str, cache: Option<&Self::Cache>) -> Result<Self::Engine>;

    /// Creates a block cache.
    ///
    /// # Errors
    ///
    /// `NotSupported` for settings that the engine or its interface lacks.
    fn cache(&self, settings: &CacheSettings) -> Result<Self::Cache>;

    /// Creates a block cache for single operations.
    ///
    /// # Errors
    ///
    /// As [`Source::cache`]; `NotSupported` if the interface has no such operations.
    fn bare_cache(&self, settings: &CacheSettings) -> Result<Self::BareCache>;
}

/// A block cache whose values begin with a number.
pub trait BareCache: Sync {
    /// Returns the number of the value of `key`; `None` if it is not cached.
    fn lookup(&self, key: [u64; 2]) -> Option<u64>;

    /// Inserts a value of `len` bytes, at least 8, with `number` at its start and every 4 KiB, so that its
    /// pages are resident like those of a block that was read. Returns false if it is rejected.
    fn insert(&self, key: [u64; 2], number: u64, len: usize) -> bool;
}

/// An open database; its default family is used.
pub trait Engine: Sync + Sized {
    /// The session of a thread.
    type Session<'a>: Session
    where
        Self: 'a;

    /// Returns the number of databases, of which each session has one selected.
    fn databases(&self) -> u64 {
        1
    }
    /// Creates a session for one thread.
    fn session(&self, settings: &Settings) -> Self::Session<'_>;
    /// Flushes memtables and waits.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    fn flush(&self) -> Result<()>;
    /// Compacts everything and waits.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    fn compact(&self) -> Result<()>;
    /// Waits until no flush or compaction is due.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    fn wait_until_quiet(&self) -> Result<()>;
    /// Returns a property by RocksDB's name, of the first database if there are several.
    fn property(&self, name: &str) -> Option<String>;
    /// Returns a property of every database that has it.
    fn properties(&self, name: &str) -> Vec<String> {
        self.property(name).into_iter().collect()
    }
    /// Writes the cached blocks to the file `path`.
    ///
    /// # Errors
    ///
    /// `NotSupported` if the engine does not support it; errors of the engine.
    fn dump_cache(&self, path: &Path) -> Result<()> {
        Err(Error::not_supported(format!(
            "{}: only the cache of a single database of the engine `ours` is dumped",
            path.display()
        )))
    }
    /// Closes the database.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    fn close(self) -> Result<()>;
}

/// The first key of a range, and the first key after it.
pub type KeyRange = (Vec<u8>, Vec<u8>);

/// The database session of one thread.
pub trait Session {
    /// An iterator over the keys.
    type Cursor<'a>: Cursor
    where
        Self: 'a;

    /// Selects the database for later calls.
    #[inline]
    fn select(&self, _database: u64) {}

    /// Puts a key.
    ///
    /// # Errors
    ///
    /// Errors of the engine, as for all calls below.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Deletes a key.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    fn delete(&mut self, key: &[u8]) -> Result<()>;
    /// Adds a merge operand to a key.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    fn merge(&mut self, key: &[u8], operand: &[u8]) -> Result<()>;
    /// Deletes every key from `begin` to `end`, exclusive.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    fn delete_range(&mut self, begin: &[u8], end: &[u8]) -> Result<()>;
    /// Adds a put to the session's batch.
    fn add(&mut self, key: &[u8], value: &[u8]);
    /// Adds a deletion to the session's batch.
    fn remove(&mut self, key: &[u8]);
    /// Writes and clears the session's batch.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    fn write(&mut self) -> Result<()>;
    /// Calls `see` with the pinned value of a key; returns false if there is none.
    ///
    /// # Errors
    ///
    /// Errors of the engine, and of `see`.
    fn get(&mut self, key: &[u8], see: impl FnMut(&[u8]) -> Result<()>) -> Result<bool>;
    /// Looks up `keys` in one call, and calls `see` with the index and value of each that exists.
    ///
    /// # Errors
    ///
    /// Errors of the engine, and of `see`.
    fn multi_get(
        &mut self,
        keys: &[Box<[u8]>],
        see: impl FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()>;
    /// Reads the merge operands of a key. Returns their number, which may be more than are `expected`, and
    /// otherwise their total size.
    ///
    /// # Errors
    ///
    /// Errors of the engine; `NotSupported` if its interface has no such call.
    fn operands(&mut self, key: &[u8], expected: usize) -> Result<(usize, u64)>;
    /// Scans `ranges` and calls `see` with each key and value: in one call, or, unless `together`, with one iterator after
    /// another.
    ///
    /// # Errors
    ///
    /// Errors of the engine, and of `see`; `NotSupported` if its interface has no such call.
    fn multi_scan(
        &mut self,
        ranges: Vec<KeyRange>,
        together: bool,
        see: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()>;
    /// Creates an iterator that is not positioned.
    fn cursor(&self) -> Self::Cursor<'_>;
}

/// An iterator over the keys in order.
pub trait Cursor {
    /// Moves to the first entry.
    fn seek_to_first(&mut self);
    /// Moves to the last entry.
    fn seek_to_last(&mut self);
    /// Moves to the first entry at or after `key`.
    fn seek(&mut self, key: &[u8]);
    /// Moves to the next entry. The cursor must be valid.
    fn next(&mut self);
    /// Moves to the previous entry. The cursor must be valid.
    fn prev(&mut self);
    /// True if the cursor is at an entry.
    fn valid(&self) -> bool;
    /// Returns the current key.
    fn key(&self) -> &[u8];
    /// Returns the current value.
    fn value(&self) -> &[u8];
    /// Returns the error that ended the iteration, if any.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    fn status(&self) -> Result<()>;
}
