//! The table counters of a read, kept with the read and added to the statistics at its end.

use std::cell::Cell;

use super::{Ticker, Update};

/// The kind of a block, as distinguished by cache tickers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockPart {
    /// A data block.
    Data,
    /// An index or a partition of one.
    Index,
    /// A filter, a partition of one or the index over them.
    Filter,
    /// A compression dictionary.
    Dictionary,
}

/// An event of the block cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheEvent {
    /// A hit.
    Hit,
    /// A miss.
    Miss,
    /// An insertion.
    Add,
    /// An insertion that replaced the same block.
    AddRedundant,
}

impl BlockPart {
    /// The ticker of this kind of block, in addition to the ticker of all kinds.
    #[must_use]
    pub fn ticker(self, event: CacheEvent) -> Ticker {
        use Ticker as T;
        let [hit, miss, add, redundant] = match self {
            BlockPart::Data => [
                T::BlockCacheDataHit,
                T::BlockCacheDataMiss,
                T::BlockCacheDataAdd,
                T::BlockCacheDataAddRedundant,
            ],
            BlockPart::Index => [
                T::BlockCacheIndexHit,
                T::BlockCacheIndexMiss,
                T::BlockCacheIndexAdd,
                T::BlockCacheIndexAddRedundant,
            ],
            BlockPart::Filter => [
                T::BlockCacheFilterHit,
                T::BlockCacheFilterMiss,
                T::BlockCacheFilterAdd,
                T::BlockCacheFilterAddRedundant,
            ],
            BlockPart::Dictionary => [
                T::BlockCacheCompressionDictHit,
                T::BlockCacheCompressionDictMiss,
                T::BlockCacheCompressionDictAdd,
                T::BlockCacheCompressionDictAddRedundant,
            ],
        };
        match event {
            CacheEvent::Hit => hit,
            CacheEvent::Miss => miss,
            CacheEvent::Add => add,
            CacheEvent::AddRedundant => redundant,
        }
    }

    /// The ticker of bytes inserted into the cache.
    #[must_use]
    pub fn bytes_inserted(self) -> Ticker {
        match self {
            BlockPart::Data => Ticker::BlockCacheDataBytesInsert,
            BlockPart::Index => Ticker::BlockCacheIndexBytesInsert,
            BlockPart::Filter => Ticker::BlockCacheFilterBytesInsert,
            BlockPart::Dictionary => Ticker::BlockCacheCompressionDictBytesInsert,
        }
    }
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident => $($ticker:ident)|+,)+) => {
        /// The table counters of one read, or of several consecutive ones.
        #[derive(Debug, Default)]
        pub struct TableCounts {
            $($(#[$doc])* pub $name: Cell<u64>,)+
        }

        impl TableCounts {
            /// True if nothing was counted.
            #[inline]
            #[must_use]
            pub fn is_empty(&self) -> bool {
                // Without a branch for each.
                0 $(| self.$name.get())+ == 0
            }

            /// Adds the counts to the statistics and resets them.
            #[inline]
            pub fn bring_to(&self, update: &Update<'_>) {
                $(
                    let count = self.$name.get();
                    if count > 0 {
                        $(update.add(Ticker::$ticker, count);)+
                        self.$name.set(0);
                    }
                )+
            }

            /// Resets the counts.
            #[inline]
            pub fn forget(&self) {
                $(self.$name.set(0);)+
            }
        }
    };
}

counts! {
    /// Block cache hits of data blocks.
    data_hits => BlockCacheHit | BlockCacheDataHit,
    /// Block cache hits of index blocks.
    index_hits => BlockCacheHit | BlockCacheIndexHit,
    /// Block cache hits of filter blocks.
    filter_hits => BlockCacheHit | BlockCacheFilterHit,
    /// Bytes charged for the blocks of block cache hits.
    hit_bytes => BlockCacheBytesRead,
    /// Negative filters.
    filters_useful => BloomFilterUseful,
    /// Positive filters.
    filters_positive => BloomFilterFullPositive,
    /// Positive filters of keys that exist.
    filters_true => BloomFilterFullTruePositive,
    /// Prefix filter lookups.
    prefixes_checked => BloomFilterPrefixChecked,
    /// Negative prefix filters.
    prefixes_useful => BloomFilterPrefixUseful,
    /// Positive prefix filters of keys that exist.
    prefixes_true => BloomFilterPrefixTruePositive,
}

/// Adds to a count.
#[inline]
pub fn count(cell: &Cell<u64>, more: u64) {
    cell.set(cell.get() + more);
}

impl TableCounts {
    /// Counts a block cache hit of a block that is charged for `bytes` bytes.
    #[inline]
    pub fn hit(&self, part: BlockPart, bytes: usize) {
        let hits = match part {
            BlockPart::Data => &self.data_hits,
            BlockPart::Filter => &self.filter_hits,
            // Dictionaries are held by their tables and never looked up.
            BlockPart::Index | BlockPart::Dictionary => &self.index_hits,
        };
        count(hits, 1);
        count(&self.hit_bytes, bytes as u64);
    }

    /// Counts a lookup in a whole-key filter.
    #[inline]
    pub fn filter(&self, may_match: bool) {
        let cell = match may_match {
            true => &self.filters_positive,
            false => &self.filters_useful,
        };
        count(cell, 1);
    }

    /// Counts a lookup in a prefix filter.
    #[inline]
    pub fn prefix_filter(&self, may_match: bool) {
        count(&self.prefixes_checked, 1);
        if !may_match {
            count(&self.prefixes_useful, 1);
        }
    }
}
