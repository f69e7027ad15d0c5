//! What flushes and compactions have done to each level of a family since it was opened: the
//! figures behind `rocksdb.cfstats`.

use std::collections::BTreeMap;

use cairn_observe::CompactionReason;
use cairn_platform::sync::Mutex;

/// What was done to one level, as the output of jobs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LevelWork {
    /// How long jobs took, in microseconds.
    pub(crate) micros: u64,
    /// Bytes read of the levels above.
    pub(crate) read_above: u64,
    /// Bytes read of the level itself.
    pub(crate) read_here: u64,
    /// Bytes read of blob files.
    pub(crate) read_blobs: u64,
    /// Bytes of tables written.
    pub(crate) written: u64,
    /// Bytes of blob files written.
    pub(crate) written_blobs: u64,
    /// Bytes of tables that were moved here as they were.
    pub(crate) moved: u64,
    /// Entries read.
    pub(crate) entries_in: u64,
    /// Entries that were read and not written.
    pub(crate) entries_dropped: u64,
    /// Jobs.
    pub(crate) jobs: u64,
}

impl LevelWork {
    /// Adds what another did.
    pub(crate) fn add(&mut self, other: &LevelWork) {
        self.micros += other.micros;
        self.read_above += other.read_above;
        self.read_here += other.read_here;
        self.read_blobs += other.read_blobs;
        self.written += other.written;
        self.written_blobs += other.written_blobs;
        self.moved += other.moved;
        self.entries_in += other.entries_in;
        self.entries_dropped += other.entries_dropped;
        self.jobs += other.jobs;
    }
}

/// What was done to a family.
#[derive(Clone, Debug, Default)]
pub(crate) struct Work {
    /// By level of the output.
    pub(crate) levels: BTreeMap<usize, LevelWork>,
    /// Flushes alone.
    pub(crate) flushes: LevelWork,
    /// Jobs by why they ran.
    pub(crate) reasons: BTreeMap<u32, u64>,
    /// Times that writes were slowed down and stopped, by cause: memtables, level 0, debt.
    pub(crate) delays: [u64; 3],
    /// The same for stops.
    pub(crate) stops: [u64; 3],
}

/// The work of a family, counted by several threads.
#[derive(Default)]
pub(crate) struct WorkCounts(Mutex<Work>);

impl WorkCounts {
    /// A flush has written to level 0.
    pub(crate) fn flushed(&self, done: &LevelWork) {
        let mut work = self.0.lock();
        work.flushes.add(done);
        work.levels.entry(0).or_default().add(done);
        *work
            .reasons
            .entry(CompactionReason::Flush.number())
            .or_default() += 1;
    }

    /// A compaction has written, or moved, to `level`.
    pub(crate) fn compacted(&self, level: usize, reason: CompactionReason, done: &LevelWork) {
        let mut work = self.0.lock();
        work.levels.entry(level).or_default().add(done);
        *work.reasons.entry(reason.number()).or_default() += 1;
    }

    /// Writes are slowed down, or stopped, for the cause of that number.
    pub(crate) fn stalled(&self, stopped: bool, cause: usize) {
        let mut work = self.0.lock();
        match stopped {
            true => work.stops[cause] += 1,
            false => work.delays[cause] += 1,
        }
    }
}
