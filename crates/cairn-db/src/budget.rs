//! The database under a memory budget: it reports its work, and lets the budget move a border every second.
//!
//! The reads that count are those of single blocks. Their times are measured at the file system, which includes
//! those that the page cache serves. Larger reads are compactions and read-ahead, and their time does not depend on
//! the division of memory as much.

use std::path::Path;
use std::sync::Arc;

use cairn_memory::MemoryBudget;
use cairn_memory::budget::{Budgeted, DatabaseWork, MemoryRegion, MoveRecord, ReadTimes};
use cairn_options::TableOptions;
use cairn_platform::fs::{FileMode, RandomAccessFile, Status, WritableFile};
use cairn_platform::io::{FileReads, ReadQueue};
use cairn_platform::sync::{AtomicU64, Mutex, Ordering};
use cairn_platform::{Clock, FileSystem, wrapper};
use cairn_types::Result;

use crate::shared::Shared;

/// The largest read that is one of a block, in bytes.
const LARGEST_BLOCK_READ: usize = 64 << 10;

/// The budget of a database, and what was last reported to it.
pub(crate) struct Budget {
    pub(crate) of: Arc<MemoryBudget>,
    reads: Arc<ReadCounters>,
    /// The counters at the last report: reads, and nanoseconds of flushes and compactions.
    reported: Mutex<(ReadTimes, u64)>,
}

impl Budget {
    pub(crate) fn new(of: Arc<MemoryBudget>) -> Budget {
        Budget {
            of,
            reads: Arc::default(),
            reported: Mutex::default(),
        }
    }

    /// `fs` with the times of its reads measured.
    pub(crate) fn timed(
        &self,
        fs: Arc<dyn FileSystem>,
        clock: Arc<dyn Clock>,
    ) -> Arc<dyn FileSystem> {
        Arc::new(Timed {
            fs,
            clock,
            reads: self.reads.clone(),
        })
    }

    /// `options` of a family whose cache is the budget's: metadata is cached, so that it is bounded, and last to be
    /// evicted.
    pub(crate) fn table_options(&self, options: &TableOptions) -> TableOptions {
        let mut options = options.clone();
        let shared = |cache| Arc::ptr_eq(cache, self.of.cache());
        if options.block_cache.as_ref().is_some_and(shared) {
            options.cache_index_and_filter_blocks = true;
            options.cache_index_and_filter_blocks_with_high_priority = true;
        }
        options
    }
}

impl Shared {
    /// Lets the budget move a border, and logs the move.
    pub(crate) fn tick_budget(&self) {
        let Some(budget) = &self.budget else { return };
        let now = self.context.world.clock.monotonic_nanos();
        if let Some(record) = budget.of.tick(now) {
            self.log_move(&record);
        }
    }

    fn log_move(&self, record: &MoveRecord) {
        let made = &record.made;
        let mut event = self
            .telemetry
            .event(self.telemetry.new_job(), "memory_budget_move");
        event
            .text("from", made.from.name())
            .text("to", made.to.name())
            .number("bytes", made.bytes)
            .number("saved_nanos_per_second", made.saved.round())
            .number("lost_nanos_per_second", made.lost.round())
            .text("reason", &made.to_string());
        for region in MemoryRegion::ALL {
            event.number(region.name(), record.split.get(region));
        }
        self.telemetry.log_event(&event);
    }

    /// Nanoseconds of all flushes and compactions, and bytes of the files.
    fn merges_and_size(&self) -> (u64, u64) {
        let (mut micros, mut stored) = (0, 0);
        let families = self.catalog.families();
        for family in families.iter() {
            let work = family.work.get();
            micros += work.levels.values().map(|level| level.micros).sum::<u64>();
            let version = &family.view().version;
            let levels = (0..version.num_levels()).map(|level| version.level(level).bytes());
            let blobs = version.blob_files().values().map(|file| file.total_bytes);
            stored += levels.chain(blobs).sum::<u64>();
        }
        (micros.saturating_mul(1000), stored)
    }
}

impl Budgeted for Shared {
    fn take_work(&self) -> DatabaseWork {
        let Some(budget) = &self.budget else {
            return DatabaseWork::default();
        };
        let (merge_nanos, stored) = self.merges_and_size();
        let reads = budget.reads.get();
        let mut reported = budget.reported.lock();
        let (reads_before, nanos_before) = std::mem::replace(&mut *reported, (reads, merge_nanos));
        DatabaseWork {
            reads: reads.since(&reads_before),
            merge_nanos: merge_nanos.saturating_sub(nanos_before),
            stored,
            direct_reads: self.options().use_direct_reads,
        }
    }
}

/// Counters of block reads.
#[derive(Default)]
struct ReadCounters {
    fast: AtomicU64,
    fast_nanos: AtomicU64,
    slow: AtomicU64,
    slow_nanos: AtomicU64,
    bytes: AtomicU64,
}

impl ReadCounters {
    fn add(&self, reads: u64, nanos: u64, bytes: u64) {
        // Relaxed: counters that order nothing.
        let (count, sum) = match nanos < ReadTimes::SLOW.saturating_mul(reads) {
            true => (&self.fast, &self.fast_nanos),
            false => (&self.slow, &self.slow_nanos),
        };
        count.fetch_add(reads, Ordering::Relaxed);
        sum.fetch_add(nanos, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn get(&self) -> ReadTimes {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ReadTimes {
            fast: load(&self.fast),
            fast_nanos: load(&self.fast_nanos),
            slow: load(&self.slow),
            slow_nanos: load(&self.slow_nanos),
            bytes: load(&self.bytes),
        }
    }
}

struct Timed {
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    reads: Arc<ReadCounters>,
}

impl wrapper::FileSystemWrapper for Timed {
    fn target(&self) -> &dyn FileSystem {
        &*self.fs
    }

    fn open(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn RandomAccessFile>> {
        Ok(Arc::new(TimedFile {
            file: self.fs.open(path, mode)?,
            clock: self.clock.clone(),
            reads: self.reads.clone(),
        }))
    }

    fn create(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.fs.create(path, mode)
    }

    fn open_append(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.fs.open_append(path, mode)
    }

    fn open_overwrite(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.fs.open_overwrite(path, mode)
    }

    fn status(&self, path: &Path) -> Result<Status> {
        self.fs.status(path)
    }

    fn status_each(&self, dir: &Path, names: &[String]) -> Vec<Result<Status>> {
        self.fs.status_each(dir, names)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.fs.sync_dir(dir)
    }
}

struct TimedFile {
    file: Arc<dyn RandomAccessFile>,
    clock: Arc<dyn Clock>,
    reads: Arc<ReadCounters>,
}

impl TimedFile {
    fn read(&self, len: usize, read: impl FnOnce() -> Result<usize>) -> Result<usize> {
        if len > LARGEST_BLOCK_READ {
            return read();
        }
        let began = self.clock.monotonic_nanos();
        let got = read();
        if let Ok(bytes) = &got {
            let nanos = self.clock.monotonic_nanos().saturating_sub(began);
            self.reads.add(1, nanos, *bytes as u64);
        }
        got
    }
}

impl wrapper::RandomAccessFileWrapper for TimedFile {
    fn target(&self) -> &dyn RandomAccessFile {
        &*self.file
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.read(buf.len(), || self.file.read_at(offset, buf))
    }

    fn read_up_to_end(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.read(buf.len(), || self.file.read_up_to_end(offset, buf))
    }

    fn start_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue) {
        reads.note(self.clock.monotonic_nanos());
        self.file.start_reads(reads, queue);
    }

    fn finish_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue) {
        self.file.finish_reads(reads, queue);
        let nanos = self.clock.monotonic_nanos();
        let nanos = nanos.saturating_sub(reads.take_note());
        let (_, bytes) = reads.done();
        // The times of reads that are under way together are not their sum.
        let count = reads.reads.len() as u64;
        self.reads.add(count, queue.share(nanos), bytes);
    }
}
