//! Gets by their kind: one count in place of some nine.
//!
//! A get that finds its value in a table adds to many tickers, to most of them by one: keys read, misses of
//! memtables, hits of a level, blocks and data blocks found in the cache, filters that said maybe and rightly so,
//! filters that said no. Nearly all gets are of one of few kinds, so a shard has a number for each kind, to which
//! such a get adds one, and who reads multiplies out what a get of each kind adds to a ticker. A get of any other
//! kind adds to the tickers themselves, which are sums beside these.

use std::array;

use super::single_writer::Sum;
use super::table_counts::TableCounts;
use super::ticker::Ticker;

/// How many kinds there are.
pub(super) const KINDS: usize = 129;

/// Where the search for a key ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    /// In a memtable.
    Memtable,
    /// In a table of this level.
    Level(usize),
    /// Nowhere.
    Nowhere,
}

impl Hit {
    /// What memtables count.
    pub(super) fn of_memtables(self) -> Ticker {
        match self {
            Hit::Memtable => Ticker::MemtableHit,
            Hit::Level(_) | Hit::Nowhere => Ticker::MemtableMiss,
        }
    }

    /// What the level counts in which a value was found.
    pub(super) fn of_level(self) -> Option<Ticker> {
        match self {
            Hit::Level(level) => Some(LEVELS[level.min(MISSING - 1)]),
            Hit::Memtable | Hit::Nowhere => None,
        }
    }
}

const LEVELS: [Ticker; MISSING] = [Ticker::GetHitL0, Ticker::GetHitL1, Ticker::GetHitL2AndUp];

/// Beyond the levels: there is no value.
const MISSING: usize = 3;

/// A kind of get: [`Kind::MEMTABLE`], or one that looked into tables and into no block but at most one of entries. Bits
/// 0 and 1: where the value was, a place in [`LEVELS`] or [`MISSING`]. Bit 2: blocks found in the cache. Bit 3: filters
/// that said maybe, rightly so if there is a value. Bits 4 to 6: filters that said no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind(u8);

impl Kind {
    /// Ended in a memtable.
    const MEMTABLE: Kind = Kind(128);

    /// That of a get that ended there, if it is of any, by what it counted in tables if it looked into any.
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
        // One look at all of them: each is zero for nearly all gets.
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

    /// By how much a get of this kind adds to a ticker of [`TICKERS`].
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

/// What gets of some kind add to.
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

/// How many gets of each kind there were.
pub(super) struct Gets([Sum; KINDS]);

impl Gets {
    pub(super) fn new() -> Gets {
        Gets(array::from_fn(|_| Sum::new(0)))
    }

    /// Adds a get. Only for whom the shard belongs to.
    #[inline]
    pub(super) fn add(&self, kind: Kind) {
        self.0[usize::from(kind.0)].add(1);
    }
}

/// How many gets of each kind there were, at one moment, in several shards.
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

    /// True if gets of any kind add to `ticker`.
    pub(super) fn tell_of(ticker: Ticker) -> bool {
        TICKERS.contains(&ticker)
    }

    /// What they added to one of [`TICKERS`].
    pub(super) fn ticker(&self, ticker: Ticker) -> u64 {
        let kinds = (0..).zip(&self.0).filter(|(_, gets)| **gets > 0);
        kinds.fold(0_u64, |sum, (kind, gets)| {
            sum.wrapping_add(gets.wrapping_mul(Kind(kind).adds_to(ticker)))
        })
    }

    /// What they added to each ticker that they add to.
    pub(super) fn tickers(&self) -> impl Iterator<Item = (Ticker, u64)> {
        TICKERS.iter().map(|&ticker| (ticker, self.ticker(ticker)))
    }
}
