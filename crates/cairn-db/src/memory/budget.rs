//! The memory budget of a database, with the times of block reads on which its division is based.
//!
//! Only reads of single blocks are reported. Their times are measured at the file system, and include reads
//! served by the page cache. Larger reads are those of compactions and read-ahead, whose times depend less on
//! the division of memory.

use std::path::Path;
use std::sync::Arc;

use cairn_memory::MemoryBudget;
use cairn_memory::budget::ReadTimes;
use cairn_options::TableOptions;
use cairn_platform::fs::{FileMode, RandomAccessFile, Status, WritableFile};
use cairn_platform::io::{FileReads, ReadQueue};
use cairn_platform::sync::{AtomicU64, Mutex, Ordering};
use cairn_platform::{Clock, FileSystem, wrapper};
use cairn_types::Result;

/// The maximum size of a read that counts as one of a block, in bytes.
const LARGEST_BLOCK_READ: usize = 64 << 10;

/// The budget of a database, and the counters last reported to it.
pub(crate) struct Budget {
    pub(crate) of: Arc<MemoryBudget>,
    reads: Arc<ReadCounters>,
    /// The counters at the last report.
    reported: Mutex<(ReadTimes, MergeTimes)>,
}

impl Budget {
    pub(crate) fn new(of: Arc<MemoryBudget>) -> Budget {
        Budget {
            of,
            reads: Arc::default(),
            reported: Mutex::default(),
        }
    }

    /// Returns `fs` with its read times measured.
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

    /// Returns `options` of a family that uses the budget's cache: metadata is cached, so that it is bounded,
    /// and evicted last.
    pub(crate) fn table_options(&self, options: &TableOptions) -> TableOptions {
        let mut options = options.clone();
        let shared = |cache| Arc::ptr_eq(cache, self.of.cache());
        if options.block_cache.as_ref().is_some_and(shared) {
            options.cache_index_and_filter_blocks = true;
            options.cache_index_and_filter_blocks_with_high_priority = true;
        }
        options
    }

    /// Returns the reads and the merges since the last call; `merges` is the current total.
    pub(crate) fn take_work(&self, merges: MergeTimes) -> (ReadTimes, MergeTimes) {
        let reads = self.reads.get();
        let mut reported = self.reported.lock();
        let (reads_before, merges_before) = std::mem::replace(&mut *reported, (reads, merges));
        (reads.since(&reads_before), merges.since(&merges_before))
    }
}

/// The time of flushes and compactions, in nanoseconds.
#[derive(Clone, Copy, Default)]
pub(crate) struct MergeTimes {
    /// All of them.
    pub(crate) nanos: u64,
    /// The part in which compactions of level 0 rewrote data of sorted levels.
    pub(crate) overlap_nanos: u64,
}

impl MergeTimes {
    fn since(&self, earlier: &MergeTimes) -> MergeTimes {
        MergeTimes {
            nanos: self.nanos.saturating_sub(earlier.nanos),
            overlap_nanos: self.overlap_nanos.saturating_sub(earlier.overlap_nanos),
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
        // Reads of a batch overlap: each counts with its share of the elapsed time.
        let count = reads.reads.len() as u64;
        self.reads.add(count, queue.share(nanos), bytes);
    }
}
