//! The roles of cache entries, their worth, and their counts.

/// The role of an entry; for accounting only.
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

    /// RocksDB's name, as properties and statistics show it.
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

/// How much an entry is worth; the pools are in this order, the first to be evicted first.
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
    /// The pools in the order of eviction.
    pub(super) const IN_ORDER: [CachePriority; 3] = [
        CachePriority::Bottom,
        CachePriority::Low,
        CachePriority::High,
    ];

    /// The next lower pool.
    pub(super) fn below(self) -> Option<CachePriority> {
        match self {
            CachePriority::Bottom => None,
            CachePriority::Low => Some(CachePriority::Bottom),
            CachePriority::High => Some(CachePriority::Low),
        }
    }
}

/// The entries of one role, and their counts since the cache was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoleCounts {
    /// Bytes in the cache now.
    pub usage: usize,
    /// Entries in the cache now.
    pub entries: usize,
    /// Lookups that found their entry.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Entries inserted, replacements included.
    pub insertions: u64,
    /// Insertions refused because the cache was full of what is in use, or the entry too large.
    pub refusals: u64,
    /// Entries that had to go for others.
    pub evictions: u64,
}

impl RoleCounts {
    /// Adds `other` to this.
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
