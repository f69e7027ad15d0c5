//! Memory outside of a cache that is charged to it, so that one capacity bounds both.
//!
//! A charge takes capacity from the entries: the cache evicts as many as necessary. A charge never fails,
//! since the memory is allocated in any case. If too few entries are left to evict, the cache exceeds its
//! capacity until it is within it again: an LRU cache, and one with a strict limit, accept no insertions meanwhile.

use cairn_platform::sync::{Arc, AtomicUsize, Ordering};

use super::BlockCache;

/// The use of charged memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MemoryUse {
    /// Memtables.
    WriteBuffer,
    /// Blocks buffered to train a compression dictionary.
    CompressionDictionaryBuffer,
    /// Keys and bits of filters under construction.
    FilterConstruction,
    /// Open tables: properties, and index and filter blocks that are not cached.
    TableReader,
    /// Metadata of files in versions.
    FileMetadata,
    /// Options and state of column families.
    Family,
    /// Blocks that are being read.
    ReadInProgress,
    /// Blocks that iterators hold and that are not cache entries.
    Iterator,
    /// Read-ahead buffers.
    Prefetch,
    /// Buffers of flushes and compactions.
    Job,
    /// Windows and buffers of write-ahead logs.
    Wal,
    /// Write batches in the write queue.
    WriteBatch,
    /// Values of a cache of blobs that has a capacity of its own.
    BlobCache,
    /// Rows.
    RowCache,
    /// The compressed tier.
    CompressedTier,
    /// Resident memory that the databases do not use: free blocks and pages that are kept for reuse.
    FreeMemory,
    /// Anything else.
    Other,
}

impl MemoryUse {
    /// Every use.
    pub const ALL: [MemoryUse; 17] = [
        MemoryUse::WriteBuffer,
        MemoryUse::CompressionDictionaryBuffer,
        MemoryUse::FilterConstruction,
        MemoryUse::TableReader,
        MemoryUse::FileMetadata,
        MemoryUse::Family,
        MemoryUse::ReadInProgress,
        MemoryUse::Iterator,
        MemoryUse::Prefetch,
        MemoryUse::Job,
        MemoryUse::Wal,
        MemoryUse::WriteBatch,
        MemoryUse::BlobCache,
        MemoryUse::RowCache,
        MemoryUse::CompressedTier,
        MemoryUse::FreeMemory,
        MemoryUse::Other,
    ];

    /// The name, RocksDB's where it has one.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MemoryUse::WriteBuffer => "WriteBuffer",
            MemoryUse::CompressionDictionaryBuffer => "CompressionDictionaryBuildingBuffer",
            MemoryUse::FilterConstruction => "FilterConstruction",
            MemoryUse::TableReader => "BlockBasedTableReader",
            MemoryUse::FileMetadata => "FileMetadata",
            MemoryUse::Family => "Family",
            MemoryUse::ReadInProgress => "ReadInProgress",
            MemoryUse::Iterator => "Iterator",
            MemoryUse::Prefetch => "Prefetch",
            MemoryUse::Job => "Job",
            MemoryUse::Wal => "Wal",
            MemoryUse::WriteBatch => "WriteBatch",
            MemoryUse::BlobCache => "BlobCache",
            MemoryUse::RowCache => "RowCache",
            MemoryUse::CompressedTier => "CompressedTier",
            MemoryUse::FreeMemory => "FreeMemory",
            MemoryUse::Other => "Misc",
        }
    }
}

/// A set of uses of memory.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryUses(u32);

impl MemoryUses {
    /// No use.
    pub const NONE: MemoryUses = MemoryUses(0);
    /// Every use.
    pub const ALL: MemoryUses = MemoryUses((1 << MemoryUse::ALL.len()) - 1);

    /// Returns the set with `what`.
    #[must_use]
    pub fn with(self, what: MemoryUse) -> MemoryUses {
        MemoryUses(self.0 | 1 << what as u16)
    }

    /// Returns the set without `what`.
    #[must_use]
    pub fn without(self, what: MemoryUse) -> MemoryUses {
        MemoryUses(self.0 & !(1 << what as u16))
    }

    /// True if `what` is in the set.
    #[inline]
    #[must_use]
    pub fn contains(self, what: MemoryUse) -> bool {
        self.0 & 1 << what as u16 != 0
    }
}

impl std::fmt::Debug for MemoryUses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let uses = MemoryUse::ALL.iter().filter(|what| self.contains(**what));
        f.debug_set().entries(uses).finish()
    }
}

/// The cache to which memory is charged, and the uses that are charged.
#[derive(Clone, Debug, Default)]
pub struct ChargePolicy {
    cache: Option<Arc<BlockCache>>,
    uses: MemoryUses,
}

impl ChargePolicy {
    /// Charges `uses` to `cache`; nothing without a cache.
    #[must_use]
    pub fn new(cache: Option<Arc<BlockCache>>, uses: MemoryUses) -> ChargePolicy {
        ChargePolicy { cache, uses }
    }

    /// True if `what` is charged.
    #[inline]
    #[must_use]
    pub fn charges(&self, what: MemoryUse) -> bool {
        self.uses.contains(what)
    }

    /// The cache, if `what` is charged to it.
    #[must_use]
    pub fn cache_of(&self, what: MemoryUse) -> Option<&Arc<BlockCache>> {
        self.cache.as_ref().filter(|_| self.uses.contains(what))
    }

    /// Charges `bytes`, if `what` is charged.
    #[inline]
    #[must_use]
    pub fn charge(&self, what: MemoryUse, bytes: usize) -> Option<CacheCharge> {
        match self.uses.contains(what) {
            true => self.charge_to_cache(what, bytes),
            false => None,
        }
    }

    #[cold]
    fn charge_to_cache(&self, what: MemoryUse, bytes: usize) -> Option<CacheCharge> {
        let cache = self.cache.clone()?;
        Some(CacheCharge::new(cache, what, bytes))
    }
}

/// Bytes charged by use.
#[derive(Default)]
pub(super) struct Charges([AtomicUsize; MemoryUse::ALL.len()]);

impl Charges {
    /// Changes a charge from `before` bytes to `now`.
    pub(super) fn change(&self, what: MemoryUse, before: usize, now: usize) {
        // The difference, modulo 2^64, so that no other thread sees both. Relaxed: sums that order nothing.
        let charged = &self.0[what as usize];
        let sum = charged.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
        debug_assert!(sum >= before, "only charged memory is released");
    }

    pub(super) fn of(&self, what: MemoryUse) -> usize {
        self.0[what as usize].load(Ordering::Relaxed)
    }

    pub(super) fn sum(&self) -> usize {
        // Charged capacities may be larger than any memory.
        let each = MemoryUse::ALL.iter().map(|&what| self.of(what));
        each.fold(0, usize::saturating_add)
    }
}

/// Memory charged to a cache, released when the charge is dropped. It is one pointer in size, since its
/// holders are moved often and charged rarely.
pub struct CacheCharge(Box<Charged>);

struct Charged {
    cache: Arc<BlockCache>,
    what: MemoryUse,
    bytes: usize,
}

impl CacheCharge {
    /// The maximum difference between the memory and its charge with [`CacheCharge::follow`], in bytes.
    pub const STEP: usize = 32 << 10;

    /// Charges `bytes` to `cache`, which evicts entries as necessary.
    #[must_use]
    pub fn new(cache: Arc<BlockCache>, what: MemoryUse, bytes: usize) -> CacheCharge {
        cache.change_charge(what, 0, bytes);
        CacheCharge(Box::new(Charged { cache, what, bytes }))
    }

    /// The bytes charged.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// True if the cache has a strict capacity and its usage exceeds it.
    #[must_use]
    pub fn exceeds_strict_capacity(&self) -> bool {
        let cache = &self.0.cache;
        cache.options().strict_capacity_limit && cache.usage() > cache.capacity()
    }

    /// Changes the use, for memory whose ownership moves.
    pub fn reuse(&mut self, what: MemoryUse) {
        if what != self.0.what {
            self.0.cache.charges.change(self.0.what, self.0.bytes, 0);
            self.0.cache.charges.change(what, 0, self.0.bytes);
            self.0.what = what;
        }
    }

    /// Changes the charge to `bytes` if it differs by [`CacheCharge::STEP`] or more: for memory that grows and
    /// shrinks in small steps.
    #[inline]
    pub fn follow(&mut self, bytes: usize) {
        if bytes.abs_diff(self.0.bytes) >= CacheCharge::STEP {
            self.set(bytes);
        }
    }

    /// Changes the charge to `bytes`.
    pub fn set(&mut self, bytes: usize) {
        if bytes != self.0.bytes {
            self.0.cache.change_charge(self.0.what, self.0.bytes, bytes);
            self.0.bytes = bytes;
        }
    }
}

impl Drop for CacheCharge {
    fn drop(&mut self) {
        self.0.cache.change_charge(self.0.what, self.0.bytes, 0);
    }
}

impl std::fmt::Debug for CacheCharge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "CacheCharge({} bytes, {})",
            self.0.bytes,
            self.0.what.name()
        )
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::{CacheKey, CacheKind, CacheOptions, CachePriority, CacheRole};
    use super::*;
    use cairn_platform::Buffer;

    #[test]
    fn charges_take_capacity_from_the_entries() {
        for kind in [CacheKind::Clock, CacheKind::Lru] {
            let options = CacheOptions {
                kind,
                num_shard_bits: Some(0),
                ..CacheOptions::default()
            };
            let cache = Arc::new(BlockCache::new(100_000, options));
            for n in 0..50 {
                let key = CacheKey { high: 1, low: n };
                let block = Buffer::from(vec![0; 2000]);
                cache.insert(key, block, CacheRole::Data, CachePriority::Low);
            }
            let mut charge = CacheCharge::new(cache.clone(), MemoryUse::TableReader, 40_000);
            assert!(cache.usage() <= 100_000, "{cache:?}");
            assert_eq!(cache.charged(MemoryUse::TableReader), 40_000);
            assert!((25..30).contains(&cache.entries()), "{}", cache.entries());
            charge.set(150_000);
            assert_eq!((cache.entries(), cache.usage()), (0, 150_000));
            let key = CacheKey { high: 1, low: 1 };
            let block = Buffer::from(vec![0; 2000]);
            cache.insert(key, block, CacheRole::Data, CachePriority::Low);
            charge.set(0);
            assert_eq!(charge.bytes(), 0);
            drop(charge);
            assert_eq!(cache.charged(MemoryUse::TableReader), 0);
            let entries = cache.role_usage(CacheRole::Data);
            assert_eq!(cache.usage(), entries);
        }
    }
    #[test]
    fn a_blob_cache_is_charged_once_until_dropped() {
        let blocks = Arc::new(BlockCache::new(8 << 20, CacheOptions::default()));
        let blobs = Arc::new(BlockCache::new(1 << 20, CacheOptions::default()));
        blobs.charge_to(&blobs, MemoryUse::BlobCache);
        blobs.charge_to(&blocks, MemoryUse::BlobCache);
        blobs.charge_to(&blocks, MemoryUse::BlobCache);
        blocks.charge_to(&blobs, MemoryUse::BlobCache);
        let mut evicted = 0;
        for n in 0..1000 {
            let (key, blob) = (CacheKey { high: 1, low: n }, Buffer::from(vec![0; 10_000]));
            blobs.insert(key, blob, CacheRole::Blob, CachePriority::Bottom);
            let charged = blocks.charged(MemoryUse::BlobCache);
            assert!(charged.abs_diff(blobs.usage()) < CacheCharge::STEP);
            evicted += usize::from(blobs.entries() as u64 <= n);
        }
        assert!(evicted > 0 && blobs.all_charged() == 0);
        drop(blobs);
        assert_eq!(blocks.usage(), 0);
    }

    #[test]
    fn only_the_uses_of_the_policy_are_charged() {
        let cache = Arc::new(BlockCache::new(1 << 20, CacheOptions::default()));
        let uses = MemoryUses::ALL.without(MemoryUse::Job);
        let policy = ChargePolicy::new(Some(cache.clone()), uses);
        assert!(policy.charge(MemoryUse::Job, 10).is_none());
        let mut read = policy.charge(MemoryUse::ReadInProgress, 10).unwrap();
        read.reuse(MemoryUse::Prefetch);
        assert_eq!(cache.charged(MemoryUse::ReadInProgress), 0);
        assert_eq!(cache.charged(MemoryUse::Prefetch), 10);
        assert_eq!((cache.all_charged(), cache.usage()), (10, 10));
        read.follow(CacheCharge::STEP);
        assert_eq!(read.bytes(), 10);
        read.follow(CacheCharge::STEP + 10);
        assert_eq!(cache.usage(), CacheCharge::STEP + 10);
        drop(read);
        assert_eq!((cache.all_charged(), cache.usage()), (0, 0));
        for what in MemoryUse::ALL {
            assert!(MemoryUses::ALL.contains(what) && !MemoryUses::NONE.contains(what));
            assert_eq!(MemoryUses::NONE.with(what).without(what), MemoryUses::NONE);
        }
        let no_cache = ChargePolicy::new(None, MemoryUses::ALL);
        assert!(no_cache.charge(MemoryUse::Wal, 1).is_none());
    }
}
