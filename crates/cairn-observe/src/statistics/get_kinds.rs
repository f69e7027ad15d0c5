//! Counts gets by kind: one counter instead of about nine tickers.
//!
//! A get that finds its value in a table increments many tickers: keys read, memtable misses, hits
//! by level, block cache hits, true-positive filters, useful filters. Nearly all gets are of a few
//! kinds. A shard therefore has one counter for each kind, and readers derive the tickers by
//! multiplication. Gets of other kinds are added to the tickers directly.

use std::array;

use super::single_writer::Sum;
use super::table_counts::TableCounts;
use super::ticker::Ticker;

/// The number of kinds.
pub(super) const KINDS: usize = 129;

/// The place where a get ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    /// A memtable.
    Memtable,
    /// A table of this level.
    Level(usize),
    /// The key was not found.
    Nowhere,
}

impl Hit {
    /// The memtable ticker.
    pub(super) fn of_memtables(self) -> Ticker {
        match self {
            Hit::Memtable => Ticker::MemtableHit,
            Hit::Level(_) | Hit::Nowhere => Ticker::MemtableMiss,
        }
    }

    /// The ticker of the level in which the value was found.
    pub(super) fn of_level(self) -> Option<Ticker> {
        match self {
            Hit::Level(level) => Some(LEVELS[level.min(MISSING - 1)]),
            Hit::Memtable | Hit::Nowhere => None,
        }
    }
}

const LEVELS: [Ticker; MISSING] = [Ticker::GetHitL0, Ticker::GetHitL1, Ticker::GetHitL2AndUp];

/// The index after the levels, for gets without a value.
const MISSING: usize = 3;

/// A kind of get: [`Kind::MEMTABLE`], or a get that searched tables and at most one data block. Bits 0 and 1
/// are the index of the value's level in [`LEVELS`], or [`MISSING`]. Bit 2 is the number of block cache hits,
/// bit 3 the number of positive filters (true positives if there is a value), and bits 4 to 6 the number of
/// negative filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind(u8);

impl Kind {
    /// A get that ended in a memtable.
    const MEMTABLE: Kind = Kind(128);

    /// The kind of a get with the given outcome and table counts, or `None` if it has none.
    #[inline]
    pub(super) fn of(tables: Option<&TableCounts>, hit: Hit, is_value: bool) -> Option<Kind> {
        match tables {
            Some(tables) => Kind::by_tables(tables, hit, is_value),
            None => (hit == Hit::Memtable).then_some(Kind::MEMTABLE),
        }
    }

    #[inline]
    fn by_tables(tables: &TableCounts, hit: Hit, is_value: bool) -> Option<Kind> {
        let place = match hit {
            Hit::Memtable => return tables.is_empty().then_some(Kind::MEMTABLE),
            Hit::Level(level) if is_value => level.min(MISSING - 1),
            Hit::Level(_) | Hit::Nowhere => MISSING,
        };
        let (hits, positive) = (tables.data_hits.get(), tables.filters_positive.get());
        let useful = tables.filters_useful.get();
        let right = match place < MISSING {
            true => positive,
            false => 0,
        };
        // A single test for all of them: each is zero for nearly all gets.
        let otherwise = (hits | positive) >> 1
            | useful >> 3
            | (tables.filters_true.get() ^ right)
            | tables.index_hits.get()
            | tables.filter_hits.get()
            | tables.prefixes_checked.get()
            | tables.prefixes_true.get();
        (otherwise == 0).then_some(Kind(
            place as u8 | (hits << 2 | positive << 3 | useful << 4) as u8,
        ))
    }

    /// The amount by which a get of this kind increments a ticker of [`TICKERS`].
    fn adds_to(self, ticker: Ticker) -> u64 {
        let place = usize::from(self.0 & 3);
        let (hits, positive) = (u64::from(self.0 >> 2 & 1), u64::from(self.0 >> 3 & 1));
        match ticker {
            Ticker::NumberKeysRead => 1,
            Ticker::MemtableHit => u64::from(self == Kind::MEMTABLE),
            _ if self == Kind::MEMTABLE => 0,
            Ticker::MemtableMiss => 1,
            Ticker::BlockCacheHit | Ticker::BlockCacheDataHit => hits,
            Ticker::BloomFilterFullPositive => positive,
            Ticker::BloomFilterFullTruePositive => positive * u64::from(place < MISSING),
            Ticker::BloomFilterUseful => u64::from(self.0 >> 4),
            other => u64::from(LEVELS.get(place) == Some(&other)),
        }
    }
}

/// The tickers that gets with a kind increment.
const TICKERS: [Ticker; 11] = [
    Ticker::NumberKeysRead,
    Ticker::MemtableHit,
    Ticker::MemtableMiss,
    Ticker::BlockCacheHit,
    Ticker::BlockCacheDataHit,
    Ticker::BloomFilterFullPositive,
    Ticker::BloomFilterFullTruePositive,
    Ticker::BloomFilterUseful,
    Ticker::GetHitL0,
    Ticker::GetHitL1,
    Ticker::GetHitL2AndUp,
];

/// The number of gets of each kind.
pub(super) struct Gets([Sum; KINDS]);

impl Gets {
    pub(super) fn new() -> Gets {
        Gets(array::from_fn(|_| Sum::new(0)))
    }

    /// Adds a get. Only called by the owner of the shard.
    #[inline]
    pub(super) fn add(&self, kind: Kind) {
        self.0[usize::from(kind.0)].add(1);
    }

    pub(super) fn counts(&self) -> [u64; KINDS] {
        self.0.each_ref().map(Sum::get)
    }

    /// Adds the gets added since `before` to `inner`.
    pub(super) fn forward(&self, before: &[u64; KINDS], inner: &Gets) {
        for ((gets, before), inner) in self.0.iter().zip(before).zip(&inner.0) {
            inner.add(gets.get().wrapping_sub(*before));
        }
    }
}

/// The number of gets of each kind, summed over several shards.
pub(super) struct Totals([u64; KINDS]);

impl Totals {
    pub(super) fn of<'a>(shards: impl Iterator<Item = &'a Gets>) -> Totals {
        let mut sums = [0_u64; KINDS];
        for gets in shards {
            for (sum, gets) in sums.iter_mut().zip(&gets.0) {
                *sum = sum.wrapping_add(gets.get());
            }
        }
        Totals(sums)
    }

    /// True if gets with a kind increment `ticker`.
    pub(super) fn includes(ticker: Ticker) -> bool {
        TICKERS.contains(&ticker)
    }

    /// The amount contributed to one of [`TICKERS`].
    pub(super) fn ticker(&self, ticker: Ticker) -> u64 {
        let kinds = (0..).zip(&self.0).filter(|(_, gets)| **gets > 0);
        kinds.fold(0_u64, |sum, (kind, gets)| {
            sum.wrapping_add(gets.wrapping_mul(Kind(kind).adds_to(ticker)))
        })
    }

    /// The amounts contributed to each of [`TICKERS`].
    pub(super) fn tickers(&self) -> impl Iterator<Item = (Ticker, u64)> {
        TICKERS.iter().map(|&ticker| (ticker, self.ticker(ticker)))
    }
}
