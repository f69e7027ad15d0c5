//! Tickers and histograms of writes, jobs and logs. Reads update theirs in `cairn-read`.

use std::sync::Arc;

use cairn_jobs::JobStats;
use cairn_memtable::Memtable;
use cairn_observe::listener::CompactionJobInfo;
use cairn_observe::perf::{self, PerfMetric};
use cairn_observe::statistics::{Began, Histogram, Meter, Statistics, Ticker, Update};
use cairn_observe::{CompactionReason, FlushReason};

use super::Telemetry;

/// Bytes of a batch before its first record.
const BATCH_HEADER: usize = 12;

/// A group of batches written together.
pub(crate) struct GroupCounts {
    pub(crate) batches: usize,
    pub(crate) keys: u64,
    /// Bytes of all batches.
    pub(crate) bytes: usize,
    pub(crate) logged: bool,
}

impl Telemetry {
    /// Returns the statistics of the database, if enabled.
    pub(crate) fn statistics(&self) -> Option<&Arc<Statistics>> {
        self.statistics.as_ref()
    }

    /// Returns the same with the clock, for jobs.
    pub(crate) fn meter(&self) -> Meter {
        Meter::new(self.statistics.clone(), self.context.world.clock.clone())
    }

    /// Updates the statistics, if enabled.
    #[inline]
    pub(crate) fn record(&self, change: impl FnOnce(&Update<'_>)) {
        if let Some(statistics) = &self.statistics {
            statistics.update(change);
        }
    }

    /// Adds to one ticker.
    pub(crate) fn tick(&self, ticker: Ticker, count: u64) {
        self.record(|update| update.add(ticker, count));
    }

    /// Starts a timer, if statistics are enabled.
    #[inline]
    pub(crate) fn began(&self) -> Began {
        Began::now(self.statistics.as_deref(), &*self.context.world.clock)
    }

    /// Stops a timer. Returns the microseconds, if they were measured.
    #[inline]
    pub(crate) fn time_since(&self, began: Began, histogram: Histogram) -> Option<u64> {
        let micros = began.micros(&*self.context.world.clock)?;
        self.record(|update| update.time(histogram, micros));
        Some(micros)
    }

    /// Runs `step` and adds its time to the perf counter of the thread, if timing is enabled.
    #[inline]
    pub(crate) fn perf_timed<T>(&self, metric: PerfMetric, step: impl FnOnce() -> T) -> T {
        if !perf::wants_times() {
            return step();
        }
        let began = self.context.world.clock.monotonic_nanos();
        let result = step();
        let nanos = self
            .context
            .world
            .clock
            .monotonic_nanos()
            .saturating_sub(began);
        perf::count(|perf| perf.add(metric, nanos));
        result
    }

    /// Records a write group.
    pub(crate) fn record_group(&self, group: &GroupCounts) {
        debug_assert!(
            group.batches > 0 && group.bytes >= group.batches * BATCH_HEADER,
            "a group has the batch of its leader, and each batch its header"
        );
        self.counters
            .note_group(group.batches, group.bytes, group.logged);
        self.record(|update| {
            // RocksDB counts a group as one merged batch.
            let bytes = (group.bytes - (group.batches - 1) * BATCH_HEADER) as u64;
            update.add(Ticker::NumberKeysWritten, group.keys);
            update.add(Ticker::BytesWritten, bytes);
            update.add(Ticker::WriteDoneBySelf, 1);
            update.add(Ticker::WriteDoneByOther, group.batches as u64 - 1);
            update.record(Histogram::BytesPerWrite, bytes);
            if group.logged {
                update.add(Ticker::WriteWithWal, group.batches as u64);
                update.add(Ticker::WalFileBytes, bytes);
            }
        });
    }

    /// Counts keys that were assigned sequence numbers.
    pub(crate) fn record_keys(&self, keys: u64) {
        self.counters.keys_written.add(keys);
    }

    /// Counts a write stopped by the write buffer manager.
    pub(crate) fn record_buffer_stop(&self) {
        self.counters.write_buffer_manager_stops.add(1);
    }

    /// Records a write that was delayed or stopped.
    pub(crate) fn record_stall(&self, micros: u64) {
        self.counters.stall_micros.add(micros);
        self.record(|update| {
            update.add(Ticker::StallMicros, micros);
            update.record(Histogram::WriteStall, micros);
        });
    }

    /// Counts a WAL sync of a write, and starts its timer.
    pub(crate) fn wal_sync_begins(&self) -> Began {
        self.counters.wal_syncs.add(1);
        self.began()
    }

    /// Records a WAL sync.
    pub(crate) fn record_wal_sync(&self, began: Began) {
        self.tick(Ticker::WalFileSynced, 1);
        self.time_since(began, Histogram::WalFileSyncMicros);
    }

    /// Records the start of a flush of `memtables`.
    pub(crate) fn record_flush_begins(&self, memtables: &[Arc<Memtable>], reason: FlushReason) {
        let sum = |count: fn(&Memtable) -> usize| -> u64 {
            memtables
                .iter()
                .map(|memtable| count(memtable) as u64)
                .sum()
        };
        let memory = sum(Memtable::memory_usage);
        self.record(|update| {
            update.record(Histogram::FlushMemtableMemoryBytes, memory);
            update.record(
                Histogram::FlushMemtableTotalDataSize,
                sum(Memtable::data_bytes),
            );
            match reason {
                FlushReason::WriteBufferFull => {
                    update.add(Ticker::FlushReasonWriteBufferFull, 1);
                    update.record(Histogram::FlushWriteBufferFullMemtableMemoryBytes, memory);
                }
                FlushReason::WriteBufferManager => {
                    update.add(Ticker::FlushReasonWriteBufferManager, 1);
                    update.record(
                        Histogram::FlushWriteBufferManagerMemtableMemoryBytes,
                        memory,
                    );
                }
                FlushReason::MemtableMaxRangeDeletions => {
                    update.add(Ticker::FlushReasonMemtableMaxRangeDeletions, 1);
                }
                _ => {}
            }
        });
    }

    /// Records a request to flush all families atomically.
    pub(crate) fn record_atomic_flush(&self, reason: FlushReason) {
        let ticker = match reason {
            FlushReason::WriteBufferFull => Ticker::AtomicFlushRequestReasonWriteBufferFull,
            FlushReason::WriteBufferManager => Ticker::AtomicFlushRequestReasonWriteBufferManager,
            FlushReason::MemtableMaxRangeDeletions => {
                Ticker::AtomicFlushRequestReasonMemtableMaxRangeDeletions
            }
            _ => Ticker::AtomicFlushRequestReasonOther,
        };
        self.tick(ticker, 1);
    }

    /// Records a flush that wrote `written` bytes of keys and values out of `payload` in its memtables.
    pub(crate) fn record_garbage(&self, payload: u64, written: u64) {
        // Merged operands may be larger than the originals.
        if let Some(garbage) = payload.checked_sub(written) {
            self.record(|update| {
                update.add(Ticker::MemtablePayloadBytesAtFlush, payload);
                update.add(Ticker::MemtableGarbageBytesAtFlush, garbage);
            });
        }
    }

    /// Records an installed flush.
    pub(crate) fn record_flush(&self, table_bytes: u64, blob_bytes: u64, micros: u64) {
        self.record(|update| {
            update.add(
                Ticker::FlushWriteBytes,
                table_bytes.saturating_add(blob_bytes),
            );
            update.add(Ticker::BlobDbBlobFileBytesWritten, blob_bytes);
            update.time(Histogram::FlushTime, micros);
        });
    }

    /// Records an installed compaction other than a trivial move.
    pub(crate) fn record_compaction(&self, info: &CompactionJobInfo, did: &JobStats) {
        use CompactionReason as Reason;
        let dropping = match info.compaction_reason {
            Reason::FifoMaxSize => Some(Ticker::FifoMaxSizeCompactions),
            Reason::FifoTtl => Some(Ticker::FifoTtlCompactions),
            _ => None,
        };
        if let Some(ticker) = dropping {
            return self.tick(ticker, 1);
        }
        let stats = &info.stats;
        let (blob_bytes, dropped) = (did.output_blob_bytes, &did.dropped);
        let (read, written) = (
            stats.total_input_bytes,
            stats.total_output_bytes.saturating_add(blob_bytes),
        );
        self.record(|update| {
            update.add(Ticker::CompactReadBytes, read);
            update.add(Ticker::CompactWriteBytes, written);
            update.add(Ticker::BlobDbBlobFileBytesWritten, blob_bytes);
            // The size of a manual compaction is determined by the caller.
            if !stats.is_manual_compaction {
                update.record(Histogram::NumFilesInSingleCompaction, stats.num_input_files);
            }
            for (ticker, count) in [
                (Ticker::CompactionKeyDropNewerEntry, dropped.hidden),
                (Ticker::CompactionKeyDropObsolete, dropped.obsolete),
                (Ticker::CompactionKeyDropRangeDel, dropped.covered),
                (Ticker::CompactionKeyDropUser, dropped.filtered),
                (
                    Ticker::CompactionRangeDelDropObsolete,
                    dropped.range_deletions,
                ),
                (
                    Ticker::CompactionOptimizedDelDropObsolete,
                    dropped.obsolete_early,
                ),
                (Ticker::BlobDbGcNumKeysRelocated, did.relocated_blobs),
                (Ticker::BlobDbGcBytesRelocated, did.relocated_blob_bytes),
                (Ticker::CompactionCpuTotalTime, stats.cpu_micros),
            ] {
                update.add(ticker, count);
            }
            update.time(Histogram::CompactionTime, stats.elapsed_micros);
            update.time(Histogram::CompactionCpuTime, stats.cpu_micros);
            let is_change = info.compaction_reason == Reason::ChangeTemperature;
            update.add(
                Ticker::FifoChangeTemperatureCompactions,
                u64::from(is_change),
            );
            let of_reason = match info.compaction_reason {
                Reason::FilesMarkedForCompaction => Some((
                    Ticker::CompactReadBytesMarked,
                    Ticker::CompactWriteBytesMarked,
                )),
                Reason::PeriodicCompaction => Some((
                    Ticker::CompactReadBytesPeriodic,
                    Ticker::CompactWriteBytesPeriodic,
                )),
                Reason::Ttl => Some((Ticker::CompactReadBytesTtl, Ticker::CompactWriteBytesTtl)),
                _ => None,
            };
            if let Some((read_ticker, write_ticker)) = of_reason {
                update.add(read_ticker, read);
                update.add(write_ticker, written);
            }
        });
    }
}
