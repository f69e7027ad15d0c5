//! Cairn's native interface as a benchmark engine.

use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Weak};

use cairn::options::enums::IoMode;
use cairn::world::RemoteSettings;
use cairn::{
    CompactRangeOptions, Db, Family, GetMergeOperandsOptions, Iter, MultiScanArgs, Options,
    ReadOptions, Result, ScanRange, Subcode,
};
use cairn::{World, WriteBatch, WriteOptions};
use cairn_memory::{
    BlockCache, CacheKey, CacheKind, CacheOptions, CachePriority, CacheRole, MemoryBudget,
};
use cairn_platform::sync::Mutex;
use cairn_platform::{Allocation, Buffer};

use crate::engine::{
    BareCache, CacheSettings, CacheType, Cursor, Engine, KeyRange, Session, Settings, Source,
};

/// Opens Cairn databases.
#[derive(Debug, Default)]
pub struct CairnSource {
    /// The option `deletion_triggered_compaction`; `None` for its default.
    pub compact_on_deletion: Option<bool>,
    /// The option `io_mode`; `None` for its default.
    pub io: Option<IoMode>,
    /// Delays of reads.
    pub remote: Option<RemoteSettings>,
    /// The memory budget of the databases that are open.
    pub budget: OpenBudget,
}

/// The memory budget that open databases share, although each is opened by a text of its own.
#[derive(Default)]
pub struct OpenBudget(Mutex<Weak<MemoryBudget>>);

impl OpenBudget {
    /// The budget for a database whose options have `own`.
    fn shared(&self, own: &Arc<MemoryBudget>) -> Arc<MemoryBudget> {
        let mut open = self.0.lock();
        let same = |it: &Arc<MemoryBudget>| it.bytes() == own.bytes();
        match open.upgrade().filter(same) {
            Some(shared) => shared,
            None => {
                *open = Arc::downgrade(own);
                own.clone()
            }
        }
    }
}

impl std::fmt::Debug for OpenBudget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenBudget").finish_non_exhaustive()
    }
}

impl Source for CairnSource {
    type Engine = Db;
    type Cache = Cache;
    type BareCache = Arc<BlockCache>;

    fn open(&self, dir: &Path, options: &str, cache: Option<&Cache>) -> Result<Db> {
        let mut options = Options::default()
            .create_if_missing(true)
            // As for loaded libraries, so that the compared options are equal.
            .text("create_missing_column_families=true")?
            .text(&self.deletion_text())?
            .text(options)?;
        if let Some(budget) = &mut options.db.memory_budget {
            *budget = self.budget.shared(budget);
        }
        if let Some(cache) = cache {
            options.family.table.block_cache = Some(cache.blocks.clone());
            if cache.with_blobs {
                options.family.blob_cache = Some(cache.blocks.clone());
            }
        }
        if let Some(mode) = self.io {
            options.db.io_mode = mode;
        }
        let world = World::posix();
        let world = match self.remote {
            Some(settings) => world.remote(settings),
            None => world,
        };
        Db::builder(dir).options(options).world(world).open()
    }

    fn cache(&self, settings: &CacheSettings) -> Result<Cache> {
        Ok(Cache {
            blocks: self.bare_cache(settings)?,
            with_blobs: settings.with_blobs,
        })
    }

    fn bare_cache(&self, settings: &CacheSettings) -> Result<Arc<BlockCache>> {
        let usual = CacheOptions::default();
        let options = CacheOptions {
            kind: match settings.kind {
                Some(CacheType::HyperClock) => CacheKind::Clock,
                // All engines use the kind that a cache given by its size has.
                Some(CacheType::Lru) | None => CacheKind::Lru,
            },
            num_shard_bits: settings.shard_bits.and_then(|bits| bits.try_into().ok()),
            high_pri_pool_ratio: settings.high_ratio.unwrap_or(usual.high_pri_pool_ratio),
            low_pri_pool_ratio: settings.low_ratio.unwrap_or(usual.low_pri_pool_ratio),
            ..usual
        };
        Ok(Arc::new(BlockCache::new(settings.capacity, options)))
    }
}

/// The distance between the copies of the number in a value of a cache without a database.
const PAGE: usize = 4096;

/// A block cache of databases.
pub struct Cache {
    blocks: Arc<BlockCache>,
    with_blobs: bool,
}

impl BareCache for Arc<BlockCache> {
    #[inline]
    fn lookup(&self, [high, low]: [u64; 2]) -> Option<u64> {
        let found = BlockCache::lookup(self, &CacheKey { high, low }, CacheRole::Data)?;
        found
            .first_chunk()
            .map(|number| u64::from_le_bytes(*number))
    }

    #[inline]
    fn insert(&self, [high, low]: [u64; 2], number: u64, len: usize) -> bool {
        let head = number.to_le_bytes();
        let value = Buffer::filled(len.max(head.len()), Allocation::default(), |bytes| {
            for page in bytes.chunks_mut(PAGE) {
                if let Some(start) = page.first_chunk_mut() {
                    *start = head;
                }
            }
            Ok::<(), Infallible>(())
        });
        let Ok(value) = value;
        let key = CacheKey { high, low };
        BlockCache::insert(self, key, value, CacheRole::Data, CachePriority::Low).is_kept()
    }
}

impl CairnSource {
    fn deletion_text(&self) -> String {
        self.compact_on_deletion
            .map_or_else(String::new, |compact| {
                format!("deletion_triggered_compaction={compact}")
            })
    }
}

/// A benchmark session.
pub struct Thread<'a> {
    db: &'a Db,
    family: Family<'a>,
    read: ReadOptions,
    write: WriteOptions,
    batch: WriteBatch,
    copies_operands: bool,
}

impl Engine for Db {
    type Session<'a> = Thread<'a>;

    fn session(&self, settings: &Settings) -> Thread<'_> {
        Thread {
            db: self,
            family: self.default_family(),
            read: ReadOptions {
                verify_checksums: settings.verify_checksums,
                total_order_seek: settings.total_order_seek,
                prefix_same_as_start: settings.prefix_same_as_start,
                async_io: settings.async_io,
                optimize_multiget_for_io: settings.optimize_multiget_for_io,
                ..ReadOptions::default()
            },
            write: WriteOptions {
                sync: settings.sync,
                disable_wal: settings.disable_wal,
                ..WriteOptions::default()
            },
            batch: WriteBatch::new(),
            copies_operands: settings.copy_operands,
        }
    }

    fn flush(&self) -> Result<()> {
        Db::flush(self)
    }

    fn compact(&self) -> Result<()> {
        self.compact_range(None, None, &CompactRangeOptions::default())
    }

    fn wait_until_quiet(&self) -> Result<()> {
        Db::wait_until_quiet(self)
    }

    fn property(&self, name: &str) -> Option<String> {
        Db::property(self, name)
    }

    fn dump_cache(&self, path: &Path) -> Result<()> {
        Db::dump_cache(self, path).map(|_| ())
    }

    fn close(self) -> Result<()> {
        Db::close(self)
    }
}

impl Session for Thread<'_> {
    type Cursor<'b>
        = Iter<'b>
    where
        Self: 'b;

    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.db.put_with(key, value, &self.write)
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.family.delete_with(key, &self.write)
    }

    fn merge(&mut self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.family.merge_with(key, operand, &self.write)
    }

    fn delete_range(&mut self, begin: &[u8], end: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete_range(begin, end);
        self.db.write_with(&batch, &self.write)
    }

    #[inline]
    fn add(&mut self, key: &[u8], value: &[u8]) {
        self.batch.put(key, value);
    }

    fn remove(&mut self, key: &[u8]) {
        self.batch.delete(key);
    }

    fn write(&mut self) -> Result<()> {
        self.db.write_with(&self.batch, &self.write)?;
        self.batch.clear();
        Ok(())
    }

    #[inline]
    fn get(&mut self, key: &[u8], mut see: impl FnMut(&[u8]) -> Result<()>) -> Result<bool> {
        match self.db.get_with(key, &self.read)? {
            Some(value) => see(&value).map(|()| true),
            None => Ok(false),
        }
    }

    fn multi_get(
        &mut self,
        keys: &[Box<[u8]>],
        mut see: impl FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let values = self.db.multi_get(keys, &self.read);
        for (at, value) in values.into_iter().enumerate() {
            if let Some(value) = value? {
                see(at, &value)?;
            }
        }
        Ok(())
    }

    fn operands(&mut self, key: &[u8], expected: usize) -> Result<(usize, u64)> {
        let mut request = GetMergeOperandsOptions {
            expected_max_number_of_operands: expected,
            ..GetMergeOperandsOptions::default()
        };
        let read = self
            .family
            .get_merge_operands_with(key, &mut request, &self.read);
        let operands = match read {
            Err(error) if error.subcode() == Subcode::MergeOperandsInsufficientCapacity => {
                return Ok((request.number_of_operands, 0));
            }
            read => read?,
        };
        let bytes = match self.copies_operands {
            false => operands.iter().map(|one| one.len() as u64).sum(),
            true => {
                let copies: Vec<Vec<u8>> = operands.iter().map(<[u8]>::to_vec).collect();
                copies.iter().map(|copy| copy.len() as u64).sum()
            }
        };
        Ok((operands.len(), bytes))
    }

    fn multi_scan(
        &mut self,
        ranges: Vec<KeyRange>,
        together: bool,
        mut see: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        if !together {
            for (start, limit) in ranges {
                let mut iter = self.db.iter_with(&ReadOptions {
                    iterate_upper_bound: Some(limit),
                    ..self.read.clone()
                });
                iter.seek(&start);
                while let Some((key, value)) = iter.entry() {
                    see(key, value)?;
                    iter.next();
                }
                iter.status()?;
            }
            return Ok(());
        }
        let range = |(start, limit)| ScanRange {
            start,
            limit: Some(limit),
        };
        let args = MultiScanArgs {
            ranges: ranges.into_iter().map(range).collect(),
            use_async_io: self.read.async_io,
            ..MultiScanArgs::default()
        };
        let mut scan = self.db.multi_scan(&self.read, args)?;
        while let Some(entries) = scan.next_range() {
            let mut seen = Ok(());
            entries.visit(|key, value| {
                seen = see(key, value);
                seen.is_ok()
            })?;
            seen?;
        }
        Ok(())
    }

    fn cursor(&self) -> Iter<'_> {
        self.db.iter_with(&self.read)
    }
}

impl Cursor for Iter<'_> {
    fn seek_to_first(&mut self) {
        Iter::seek_to_first(self);
    }

    fn seek_to_last(&mut self) {
        Iter::seek_to_last(self);
    }

    #[inline]
    fn seek(&mut self, key: &[u8]) {
        Iter::seek(self, key);
    }

    #[inline]
    fn next(&mut self) {
        Iter::next(self);
    }

    #[inline]
    fn prev(&mut self) {
        Iter::prev(self);
    }

    #[inline]
    fn valid(&self) -> bool {
        Iter::valid(self)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        Iter::key(self)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        Iter::value(self)
    }

    fn status(&self) -> Result<()> {
        Iter::status(self)
    }
}
