//! Statistics of table reads.

use cairn_format::table::TRAILER_LEN;
use cairn_memory::InsertOutcome;
use cairn_observe::Activity;
use cairn_observe::perf::by_level::{self, LevelMetric};
use cairn_observe::perf::{self, PerfMetric};
use cairn_observe::statistics::{
    BlockPart, CacheEvent, Histogram, Statistics, TableCounts, Ticker, count,
};
use cairn_platform::Buffer;

use super::table::{MissingBlock, Table};
use crate::block_stats::{count_insertion, part_of};

/// True in compactions, whose readahead RocksDB counts separately.
fn is_compaction() -> bool {
    Activity::current() == Some(Activity::Compaction)
}

impl Table {
    fn statistics(&self) -> Option<&Statistics> {
        self.params.meter.statistics().map(|kept| &**kept)
    }

    /// Counts a read of `block` from its stored form `raw`, which includes the trailer. `inserted` is the
    /// outcome of a cache insertion, if one was attempted.
    pub(crate) fn count_read(
        &self,
        lack: MissingBlock,
        raw: &[u8],
        block: &Buffer,
        verified: bool,
        inserted: Option<InsertOutcome>,
    ) {
        let part = part_of(lack.role);
        let stored = raw.len().saturating_sub(TRAILER_LEN);
        let unpacked = raw.get(stored).is_some_and(|&compression| compression != 0);
        perf::count(|perf| {
            let (blocks, bytes) = match part {
                BlockPart::Data => (None, PerfMetric::DataBlockReadByte),
                BlockPart::Index => (
                    Some(PerfMetric::IndexBlockReadCount),
                    PerfMetric::IndexBlockReadByte,
                ),
                BlockPart::Filter => (
                    Some(PerfMetric::FilterBlockReadCount),
                    PerfMetric::FilterBlockReadByte,
                ),
                BlockPart::Dictionary => (
                    Some(PerfMetric::CompressionDictBlockReadCount),
                    PerfMetric::CompressionDictBlockReadByte,
                ),
            };
            if let Some(blocks) = blocks {
                perf.add(blocks, 1);
            }
            perf.add(bytes, raw.len() as u64);
            perf.add(PerfMetric::BlockReadCount, 1);
            perf.add(PerfMetric::BlockReadByte, raw.len() as u64);
            perf.add(PerfMetric::BlockDecompressCount, u64::from(unpacked));
        });
        if let Some(level) = self.params.level
            && self.params.cache.is_some()
            && by_level::is_wanted()
        {
            by_level::add(level, LevelMetric::BlockCacheMissCount, 1);
        }
        let Some(statistics) = self.statistics() else {
            return;
        };
        statistics.update(|update| {
            if self.params.cache.is_some() {
                update.add(Ticker::BlockCacheMiss, 1);
                update.add(part.ticker(CacheEvent::Miss), 1);
            }
            if verified {
                update.add(Ticker::BlockChecksumComputeCount, 1);
            }
            if let Some(outcome) = inserted {
                count_insertion(update, part, block.memory_usage(), outcome);
            }
            if unpacked {
                update.add(Ticker::NumberBlockDecompressed, 1);
                update.add(Ticker::BytesDecompressedFrom, stored as u64);
                update.add(Ticker::BytesDecompressedTo, block.len() as u64);
            }
        });
    }

    /// Counts a read of `len` bytes of a block and readahead.
    #[cold]
    pub(crate) fn count_ahead(&self, len: usize) {
        self.params.meter.update(|update| match is_compaction() {
            true => update.record(Histogram::CompactionPrefetchBytes, len as u64),
            false => update.add(Ticker::PrefetchBytes, len as u64),
        });
    }

    /// Counts the table in the plan of a scan: blocks that were in the cache, and errors.
    pub(crate) fn count_plan(&self, from_cache: u64, errors: u64) {
        self.params.meter.update(|update| {
            update.add(Ticker::MultiscanPrepareCalls, u64::from(errors == 0));
            update.add(Ticker::MultiscanPrepareErrors, errors);
            update.add(Ticker::MultiscanBlocksFromCache, from_cache);
        });
        perf::count(|perf| {
            perf.add(PerfMetric::MultiscanPrepareCount, u64::from(errors == 0));
            perf.add(PerfMetric::MultiscanBlocksFromCache, from_cache);
        });
    }

    /// Counts blocks of a plan that are read together with others although they are not adjacent, and the blocks
    /// of the table.
    pub(crate) fn count_joined(&self, joined: u64, blocks: u64) {
        self.params.meter.update(|update| {
            update.add(Ticker::MultiscanIoCoalescedNonadjacent, joined);
            update.record(Histogram::MultiscanBlocksPerPrepare, blocks);
        });
        perf::count(|perf| perf.add(PerfMetric::MultiscanIoCoalescedNonadjacent, joined));
    }

    /// Counts a planned read of `len` bytes with `blocks`.
    pub(crate) fn count_planned(&self, blocks: u64, len: usize) {
        self.params.meter.update(|update| {
            update.add(Ticker::MultiscanIoRequests, 1);
            update.add(Ticker::MultiscanBlocksPrefetched, blocks);
            update.add(Ticker::MultiscanPrefetchBytes, len as u64);
        });
        perf::count(|perf| {
            perf.add(PerfMetric::MultiscanIoRequests, 1);
            perf.add(PerfMetric::MultiscanBlocksPrefetched, blocks);
            perf.add(PerfMetric::MultiscanPrefetchBytes, len as u64);
        });
    }

    /// Counts blocks of a plan that were read in vain.
    pub(crate) fn count_wasted(&self, blocks: u64) {
        self.params
            .meter
            .add(Ticker::MultiscanPrefetchBlocksWasted, blocks);
    }

    /// Counts a block of `len` bytes found in the readahead buffer.
    pub(crate) fn count_found_ahead(&self, len: usize) {
        self.params.meter.update(|update| {
            if !is_compaction() {
                update.add(Ticker::PrefetchHits, 1);
                update.add(Ticker::PrefetchBytesUseful, len as u64);
            }
        });
    }

    /// Counts a damaged block; `mended` is true if the second read was good.
    #[cold]
    pub(crate) fn count_damage(&self, mended: bool) {
        if let Some(statistics) = self.statistics() {
            statistics.update(|update| {
                update.add(Ticker::BlockChecksumMismatchCount, 1);
                update.add(Ticker::FileReadCorruptionRetryCount, 1);
                update.add(
                    Ticker::FileReadCorruptionRetrySuccessCount,
                    u64::from(mended),
                );
            });
        }
    }

    /// Counts a key found after the filter admitted it.
    #[inline]
    pub(crate) fn count_true_positive(&self, counts: &TableCounts) {
        match &self.filter {
            Some(filter) if filter.whole_keys => count(&counts.filters_true, 1),
            Some(filter) if filter.prefixes => count(&counts.prefixes_true, 1),
            _ => {}
        }
    }

    /// Reports the counts of this table.
    #[cold]
    pub(crate) fn bring(&self, counts: &TableCounts) {
        perf::count(|perf| perf.add_tables(counts));
        if let Some(level) = self.params.level
            && by_level::is_wanted()
        {
            by_level::add_tables(level, counts);
        }
        let statistics = self.statistics();
        if !statistics.is_some_and(|all| all.update(|update| counts.bring_to(update))) {
            counts.forget();
        }
    }
}
