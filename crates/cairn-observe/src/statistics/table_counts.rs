//! What a read counts while it looks into tables: kept with the read, brought in at its end.

use std::cell::Cell;

use super::{Ticker, Update};

/// What a block of a table is, as tickers tell blocks apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockPart {
    /// Entries.
    Data,
    /// An index or a partition of one.
    Index,
    /// A filter, a partition of one or the index over them.
    Filter,
    /// A compression dictionary.
    Dictionary,
}

/// What happens to a block and the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheEvent {
    /// It was there.
    Hit,
    /// It was not.
    Miss,
    /// It was put in.
    Add,
}

impl BlockPart {
    /// The ticker of this part, which goes with that of all parts.
    #[must_use]
    pub fn ticker(self, event: CacheEvent) -> Ticker {
        use Ticker as T;
        let [hit, miss, add] = match self {
            BlockPart::Data => [
                T::BlockCacheDataHit,
                T::BlockCacheDataMiss,
                T::BlockCacheDataAdd,
            ],
            BlockPart::Index => [
                T::BlockCacheIndexHit,
                T::BlockCacheIndexMiss,
                T::BlockCacheIndexAdd,
            ],
            BlockPart::Filter => [
                T::BlockCacheFilterHit,
                T::BlockCacheFilterMiss,
                T::BlockCacheFilterAdd,
            ],
            BlockPart::Dictionary => [
                T::BlockCacheCompressionDictHit,
                T::BlockCacheCompressionDictMiss,
                T::BlockCacheCompressionDictAdd,
            ],
        };
        match event {
            CacheEvent::Hit => hit,
            CacheEvent::Miss => miss,
            CacheEvent::Add => add,
        }
    }

    /// The ticker of the bytes that were put into the cache.
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
        /// Counts of one read, or of several one after another.
        #[derive(Debug, Default)]
        pub struct TableCounts {
            $($(#[$doc])* pub $name: Cell<u64>,)+
        }

        impl TableCounts {
            /// True if nothing was counted.
            #[inline]
            #[must_use]
            pub fn is_empty(&self) -> bool {
                $(self.$name.get() == 0)&&+
            }

            /// Brings the counts in and begins anew.
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

            /// Begins anew.
            #[inline]
            pub fn forget(&self) {
                $(self.$name.set(0);)+
            }
        }
    };
}

counts! {
    /// Data blocks found in the cache.
    data_hits => BlockCacheHit | BlockCacheDataHit,
    /// Blocks of indexes found there.
    index_hits => BlockCacheHit | BlockCacheIndexHit,
    /// Blocks of filters found there.
    filter_hits => BlockCacheHit | BlockCacheFilterHit,
    /// Bytes of the blocks found there.
    hit_bytes => BlockCacheBytesRead,
    /// Filters that said no.
    filters_useful => BloomFilterUseful,
    /// Filters that said maybe.
    filters_positive => BloomFilterFullPositive,
    /// Filters that said maybe, and the key was there.
    filters_true => BloomFilterFullTruePositive,
    /// Filters that were asked for a prefix.
    prefixes_checked => BloomFilterPrefixChecked,
    /// Those of them that said no.
    prefixes_useful => BloomFilterPrefixUseful,
    /// Those that said maybe, and the key was there.
    prefixes_true => BloomFilterPrefixTruePositive,
}

/// Adds to a count.
#[inline]
pub fn count(cell: &Cell<u64>, more: u64) {
    cell.set(cell.get() + more);
}

impl TableCounts {
    /// A block of `len` bytes was found in the cache.
    #[inline]
    pub fn hit(&self, part: BlockPart, len: usize) {
        let hits = match part {
            BlockPart::Data => &self.data_hits,
            BlockPart::Filter => &self.filter_hits,
            // Dictionaries are held by their tables: nobody asks the cache for them.
            BlockPart::Index | BlockPart::Dictionary => &self.index_hits,
        };
        count(hits, 1);
        count(&self.hit_bytes, len as u64);
    }

    /// A filter was asked for a whole key.
    #[inline]
    pub fn filter(&self, may_match: bool) {
        let cell = match may_match {
            true => &self.filters_positive,
            false => &self.filters_useful,
        };
        count(cell, 1);
    }

    /// A filter was asked for a prefix.
    #[inline]
    pub fn prefix_filter(&self, may_match: bool) {
        count(&self.prefixes_checked, 1);
        if !may_match {
            count(&self.prefixes_useful, 1);
        }
    }
}
