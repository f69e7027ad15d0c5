//! Memory outside of a cache that is charged to it, so that one capacity bounds both.
//!
//! A charge takes capacity from the entries: the cache evicts as many as necessary. It is never refused, since
//! the memory is needed in any case; with too few entries left the cache exceeds its capacity, and keeps
//! nothing more until it is within it again.

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
    /// Anything else.
    Other,
}

impl MemoryUse {
    /// Every use.
    pub const ALL: [MemoryUse; 15] = [
        MemoryUse::WriteBuffer,
        MemoryUse::CompressionDictionaryBuffer,
        MemoryUse::FilterConstruction,
        MemoryUse::TableReader,
        MemoryUse::FileMetadata,
        MemoryUse::ReadInProgress,
        MemoryUse::Iterator,
        MemoryUse::Prefetch,
        MemoryUse::Job,
        MemoryUse::Wal,
        MemoryUse::WriteBatch,
        MemoryUse::BlobCache,
        MemoryUse::RowCache,
        MemoryUse::CompressedTier,
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
            MemoryUse::ReadInProgress => "ReadInProgress",
            MemoryUse::Iterator => "Iterator",
            MemoryUse::Prefetch => "Prefetch",
            MemoryUse::Job => "Job",
            MemoryUse::Wal => "Wal",
            MemoryUse::WriteBatch => "WriteBatch",
            MemoryUse::BlobCache => "BlobCache",
            MemoryUse::RowCache => "RowCache",
            MemoryUse::CompressedTier => "CompressedTier",
            MemoryUse::Other => "Misc",
        }
    }
}

/// Bytes charged by use.
#[derive(Default)]
pub(super) struct Charges([AtomicUsize; MemoryUse::ALL.len()]);

impl Charges {
    /// Changes a charge from `before` bytes to `now`.
    pub(super) fn change(&self, what: MemoryUse, before: usize, now: usize) {
        // Relaxed: sums that order nothing.
        let charged = &self.0[what as usize];
        charged.fetch_add(now, Ordering::Relaxed);
        let sum = charged.fetch_sub(before, Ordering::Relaxed);
        debug_assert!(sum >= before, "only charged memory is given back");
    }

    pub(super) fn of(&self, what: MemoryUse) -> usize {
        self.0[what as usize].load(Ordering::Relaxed)
    }

    pub(super) fn sum(&self) -> usize {
        let each = MemoryUse::ALL.iter().map(|&what| self.of(what));
        each.sum()
    }
}

/// Memory charged to a cache. Dropping the charge gives it back.
pub struct CacheCharge {
    cache: Arc<BlockCache>,
    what: MemoryUse,
    bytes: usize,
}

impl CacheCharge {
    /// Charges `bytes` to `cache`, which evicts entries as necessary.
    #[must_use]
    pub fn new(cache: Arc<BlockCache>, what: MemoryUse, bytes: usize) -> CacheCharge {
        cache.change_charge(what, 0, bytes);
        CacheCharge { cache, what, bytes }
    }

    /// The bytes charged.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the charge to `bytes`.
    pub fn set(&mut self, bytes: usize) {
        if bytes != self.bytes {
            self.cache.change_charge(self.what, self.bytes, bytes);
            self.bytes = bytes;
        }
    }
}

impl Drop for CacheCharge {
    fn drop(&mut self) {
        self.cache.change_charge(self.what, self.bytes, 0);
    }
}

impl std::fmt::Debug for CacheCharge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CacheCharge({} bytes, {})", self.bytes, self.what.name())
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
}
