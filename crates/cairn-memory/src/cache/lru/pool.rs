//! The pools of a shard and their limits.

use super::super::{CacheOptions, CachePriority};

/// A pool, in the order of eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Pool {
    /// Blobs, and overflow of the pool for data.
    Bottom,
    /// Data, and overflow of the pools above.
    Low,
    /// Data that was hit, if a high-priority ratio is configured, which it shares with metadata.
    Promoted,
    /// Metadata.
    High,
}

impl Pool {
    /// The pools in eviction order.
    pub(super) const IN_ORDER: [Pool; 4] = [Pool::Bottom, Pool::Low, Pool::Promoted, Pool::High];
}

/// The limits of a shard, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    pub(super) capacity: usize,
    /// The limit of the pool for data, if it has a configured ratio.
    pub(super) low: Option<usize>,
    /// The limit of the pools for metadata and promoted data together, if there is a configured ratio.
    pub(super) high: Option<usize>,
    pub(super) strict: bool,
}

impl Limits {
    pub(super) fn new(capacity: usize, options: &CacheOptions) -> Limits {
        // A share of a length in memory: the loss of precision is irrelevant.
        let share = |ratio: f64| (capacity as f64 * ratio.min(1.0)) as usize;
        let limit = |ratio: f64| (ratio > 0.0).then(|| share(ratio));
        Limits {
            capacity,
            low: limit(options.low_pri_pool_ratio),
            high: limit(options.high_pri_pool_ratio),
            strict: options.strict_capacity_limit,
        }
    }

    /// The pool of a new entry.
    pub(super) fn pool_of_new(priority: CachePriority) -> Pool {
        match priority {
            CachePriority::Bottom => Pool::Bottom,
            CachePriority::Low => Pool::Low,
            CachePriority::High => Pool::High,
        }
    }

    /// The pool of an entry that is hit.
    pub(super) fn pool_of_hit(&self, priority: CachePriority) -> Pool {
        match priority {
            CachePriority::Low if self.high.is_some() => Pool::Promoted,
            other => Limits::pool_of_new(other),
        }
    }
}
