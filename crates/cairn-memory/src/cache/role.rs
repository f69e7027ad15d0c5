//! Roles and priorities of cache entries, and counters by role.

/// The role of an entry, for accounting only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CacheRole {
    /// A data block.
    Data,
    /// An index block or a partition of one.
    Index,
    /// A filter block or a partition of one.
    Filter,
    /// The index over the partitions of a filter.
    FilterMeta,
    /// A compression dictionary.
    Dictionary,
    /// A value from a blob file.
    Blob,
    /// Anything else.
    Other,
}

impl CacheRole {
    /// Every role.
    pub const ALL: [CacheRole; 7] = [
        CacheRole::Data,
        CacheRole::Index,
        CacheRole::Filter,
        CacheRole::FilterMeta,
        CacheRole::Dictionary,
        CacheRole::Blob,
        CacheRole::Other,
    ];

    /// RocksDB's name, used in properties and statistics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CacheRole::Data => "DataBlock",
            CacheRole::Index => "IndexBlock",
            CacheRole::Filter => "FilterBlock",
            CacheRole::FilterMeta => "FilterMetaBlock",
            CacheRole::Dictionary => "OtherBlock",
            CacheRole::Blob => "BlobValue",
            CacheRole::Other => "Misc",
        }
    }
}

/// The priority of an entry. Pools are evicted in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum CachePriority {
    /// Blobs.
    Bottom,
    /// Data blocks.
    Low,
    /// Index, filter and other metadata.
    High,
}

impl CachePriority {
    /// The pools in eviction order.
    pub(super) const IN_ORDER: [CachePriority; 3] = [
        CachePriority::Bottom,
        CachePriority::Low,
        CachePriority::High,
    ];
}

/// Counters of the entries of one role, since the cache was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoleCounts {
    /// Bytes currently charged.
    pub usage: usize,
    /// Entries currently cached.
    pub entries: usize,
    /// Lookups that found an entry.
    pub hits: u64,
    /// Lookups that found none.
    pub misses: u64,
    /// Insertions, including replacements.
    pub insertions: u64,
    /// Insertions rejected because the entry was too large or the cache full of entries in use.
    pub refusals: u64,
    /// Entries evicted.
    pub evictions: u64,
}

impl RoleCounts {
    /// Adds `other` to these.
    pub fn add(&mut self, other: &RoleCounts) {
        self.usage += other.usage;
        self.entries += other.entries;
        self.hits += other.hits;
        self.misses += other.misses;
        self.insertions += other.insertions;
        self.refusals += other.refusals;
        self.evictions += other.evictions;
    }
}
