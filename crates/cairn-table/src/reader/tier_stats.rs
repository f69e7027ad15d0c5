//! Statistics of lookups in the tiers below the block cache, for blocks and blobs.

use cairn_memory::CacheRole;
use cairn_memory::secondary::LookupCounts;
use cairn_observe::perf::{self, PerfMetric};
use cairn_observe::statistics::{Meter, Ticker};

/// Counts a lookup below the cache. `found` is the role of the entry if there is one.
#[cold]
pub fn count_lookup_below(meter: &Meter, counts: &LookupCounts, found: Option<CacheRole>) {
    if found.is_some() {
        perf::count(|perf| perf.add(PerfMetric::SecondaryCacheHitCount, 1));
    }
    meter.update(|update| {
        if let Some(role) = found {
            update.add(Ticker::SecondaryCacheHits, 1);
            match role {
                CacheRole::Filter => update.add(Ticker::SecondaryCacheFilterHits, 1),
                CacheRole::Index => update.add(Ticker::SecondaryCacheIndexHits, 1),
                CacheRole::Data => update.add(Ticker::SecondaryCacheDataHits, 1),
                _ => {}
            }
        }
        for (ticker, count) in [
            (
                Ticker::CompressedSecondaryCacheDummyHits,
                counts.placeholder_hits,
            ),
            (Ticker::CompressedSecondaryCacheHits, counts.compressed_hits),
            (
                Ticker::CompressedSecondaryCachePromotions,
                counts.hits_below_offered,
            ),
            (
                Ticker::CompressedSecondaryCachePromotionSkips,
                counts.hits_below_skipped,
            ),
        ] {
            update.add(ticker, u64::from(count));
        }
    });
}
