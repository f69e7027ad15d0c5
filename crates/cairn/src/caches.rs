//! The caches of a database: for blocks, blobs and rows; their tiers, and their content across a restart.
//!
//! | option | cached | filled by |
//! |---|---|---|
//! | `family.table.block_cache` | blocks of tables | reads; `prepopulate_block_cache`: flushes, and compactions |
//! | `family.blob_cache` | values of blob files | reads; `prepopulate_blob_cache`: flushes |
//! | `db.row_cache` | the entries that a table has for a key | gets |
//!
//! One [`BlockCache`] can be used for several of these, and by several families and databases. Blobs are
//! evicted first, then data blocks and rows, then indexes and filters. With `uncache_aggressiveness` the
//! blocks of a table are evicted when the table is deleted.
//!
//! After a restart the block cache is empty. [`Db::dump_cache`] writes its blocks to a file, and
//! [`Db::load_cache`] loads them again:
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let (path, dump) = (dir.path().join("db"), dir.path().join("cache"));
//! use cairn::{Db, Options};
//!
//! let options = Options::default().create_if_missing(true);
//! let db = Db::open(&path, &options)?;
//! db.put(b"obsidian", b"volcanic glass")?;
//! db.default_family().flush()?;
//! db.get(b"obsidian")?;
//! let dumped = db.dump_cache(&dump)?;
//! db.close()?;
//!
//! let db = Db::open(&path, &options)?;
//! assert_eq!(db.load_cache(&dump)?.loaded, dumped);
//! # assert_eq!(dumped.blocks, 1);
//! # Ok::<(), cairn::Error>(())
//! ```
//!
//! # Tiers below
//!
//! A block cache can have tiers below it, which are offered the entries that it evicts and searched for those
//! that it lacks: [`CompressedSecondaryCache`] in memory, and [`FlashCache`] in files that persist across
//! restarts. Each keeps entries that are read repeatedly, and skips those that a scan reads once.
//! [`BlockCache::with_tier`] has a capacity separate from that of the tier, and [`BlockCache::tiered`]
//! divides one between itself and a compressed tier. The option `lowest_used_cache_tier` excludes a database
//! from the tiers below; rows are never moved to a tier.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! use std::sync::Arc;
//! use cairn::caches::{
//!     BlockCache, CacheOptions, CompressedCacheOptions, CompressedSecondaryCache, FlashCache, FlashCacheOptions,
//!     SecondaryCache,
//! };
//! use cairn::{Db, Options, World};
//!
//! // 1 MiB of blocks, 4 MiB of compressed ones, and 64 MiB on a local device.
//! let flash = FlashCacheOptions {
//!     dir: dir.path().join("flash"),
//!     capacity: 64 << 20,
//!     ..FlashCacheOptions::default()
//! };
//! let flash = Arc::new(FlashCache::open(&flash, &World::posix())?);
//! let compressed = CompressedCacheOptions { capacity: 4 << 20, ..CompressedCacheOptions::default() };
//! let compressed = Arc::new(CompressedSecondaryCache::with_tier_below(&compressed, flash.clone())?);
//! let cache = BlockCache::with_tier(1 << 20, CacheOptions::default(), compressed.clone());
//!
//! let mut options = Options::default().create_if_missing(true);
//! options.family.table.block_cache = Some(Arc::new(cache));
//! let db = Db::open(dir.path().join("db"), &options)?;
//! db.put(b"obsidian", b"volcanic glass")?;
//! db.default_family().flush()?;
//! assert_eq!(db.get(b"obsidian")?.as_deref(), Some(&b"volcanic glass"[..]));
//! # assert_eq!(compressed.counts().hits, 0);
//! db.close()?;
//! // Writes pending entries to the device, where the next process finds them.
//! flash.close();
//! # Ok::<(), cairn::Error>(())
//! ```
//!
//! The tickers `rocksdb.secondary.cache.*` and `rocksdb.compressed.secondary.cache.*` count the hits of a
//! database in tiers; [`SecondaryCache::counts`] and the `stats` of each tier are totals over all databases
//! that share it.
//!
//! A cache with [`CacheOptions::memory`] of [`MemoryKind::undumped`] keeps its entries out of core dumps.
//!
//! [`BlockCache::simulating`] creates a cache with a [`Simulation`] of another capacity, which counts the hits that a
//! cache of that capacity would have (RocksDB's `SimCache`). The property `cairn.simulated-cache` and the tickers
//! `rocksdb.sim.block.cache.*` report them.
//!
//! The property `cairn.cache` lists the content of the block caches by role, family and level, as JSON.
//! `cairn cache` prints the same for a dump, from [`CacheDumpContent`].

use std::path::Path;

pub use cairn_db::{CacheDump, CacheDumpContent, CacheGroup, CacheLoad};
pub use cairn_memory::secondary::{
    AdmissionPolicy, Bytes, CacheTier, CompressedCacheOptions, CompressedCacheStats,
    CompressedSecondaryCache, FlashAdmission, FlashCache, FlashCacheOptions, FlashCacheStats,
    Found, LookupCounts, Offer, SecondaryCache, TierCounts,
};
pub use cairn_memory::{
    BlockCache, CacheKey, CacheKind, CacheOptions, CachePriority, CacheRole, MemoryKind, Simulation,
};
use cairn_types::Result;

use crate::db::Db;

impl Db {
    /// Writes the cached blocks of the database to the file `path`, replacing any existing file, for
    /// [`Db::load_cache`]. The most valuable blocks come first: metadata before data, then by hits. Each
    /// block written counts as a hit. Reads and writes proceed meanwhile.
    ///
    /// # Errors
    ///
    /// `IoError`; an existing file is then unchanged.
    pub fn dump_cache(&self, path: impl AsRef<Path>) -> Result<CacheDump> {
        self.inner.dump_cache(path.as_ref())
    }

    /// Inserts the blocks of the dump `path` into the block caches, until they are full. Only blocks of
    /// tables in the database are loaded, so that the dump may be of an older state or another database.
    /// Reads and writes proceed meanwhile.
    ///
    /// # Errors
    ///
    /// `IoError`; `Corruption` if the file is damaged (the blocks before the damage have been inserted);
    /// `NotSupported` for a dump of another version.
    pub fn load_cache(&self, path: impl AsRef<Path>) -> Result<CacheLoad> {
        self.inner.load_cache(path.as_ref())
    }
}
