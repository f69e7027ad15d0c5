//! Snapshots: sequence numbers at which the database stays readable.
//!
//! A flush or compaction lists the live snapshots when it starts and keeps, for each of them, the newest
//! version at or before it. A snapshot taken later loses nothing: its number is at or above every entry that
//! the job reads, because a memtable is only flushed after its last entry was published.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::Thread;

use cairn_observe::logger::thread_number;
use cairn_platform::Process;
use cairn_platform::sync::{AtomicBool, AtomicU64, Condvar, OnceLock, Ordering};
use cairn_types::SequenceNumber;

use crate::locks::{Locks, Rank, Ranked};
use crate::read::open_iterators::Opener;

/// The live snapshots of a database.
pub(crate) struct Snapshots {
    /// The snapshots by sequence number. Its memory is proportional to the number of live snapshots.
    live: Ranked<BTreeMap<SequenceNumber, Taken>>,
    /// True if a snapshot was released since the database was opened.
    released: AtomicBool,
    /// True if new snapshots have to wait. Changed under `live`.
    paused: AtomicBool,
    /// Notified when they no longer have to wait.
    resumed: Condvar,
    /// Called, without any lock, when the oldest snapshot is gone.
    on_release: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// The release of a snapshot up to this number makes no entry at the bottommost level droppable, because the
    /// files there have no newer entries.
    bottom: AtomicU64,
    /// The number of the opening of their database.
    database: u64,
    /// The process that took the snapshots.
    process: Process,
}

/// The live snapshots at one sequence number.
struct Taken {
    count: usize,
    /// The time of the newest one, in seconds since 1970; 0 if no time was recorded.
    seconds: u64,
    /// The time of the first one, likewise.
    first_seconds: u64,
    /// The thread that took the first one, and its number in the info log.
    thread: (Thread, u64),
}

impl Taken {
    /// Creates the state before the calling thread takes the first snapshot.
    fn by_this_thread() -> Taken {
        Taken {
            count: 0,
            seconds: 0,
            first_seconds: 0,
            thread: (std::thread::current(), thread_number()),
        }
    }
}

/// The live snapshots at one sequence number, for a report.
#[derive(Clone, Debug)]
pub(crate) struct OpenSnapshot {
    pub(crate) seq: SequenceNumber,
    pub(crate) count: usize,
    /// The time of the first one, in seconds since 1970; 0 if no time was recorded.
    pub(crate) seconds: u64,
    /// The thread that took the first one.
    pub(crate) opener: Opener,
}

/// Blocks new snapshots while it exists.
pub(crate) struct Pause<'a>(&'a Snapshots);

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        let _live = self.0.live.lock();
        let before = self.0.paused.swap(false, Ordering::Relaxed);
        debug_assert!(before, "a pause of snapshots lasts until it is dropped");
        self.0.resumed.notify_all();
    }
}

impl Snapshots {
    /// Creates an empty list for the opening with the number `database`, which has `locks`.
    pub(crate) fn new(locks: Locks, database: u64) -> Snapshots {
        Snapshots {
            live: locks.mutex(Rank::Snapshots, BTreeMap::new()),
            released: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            resumed: Condvar::new(),
            on_release: OnceLock::new(),
            bottom: AtomicU64::new(0),
            database,
            process: Process::default(),
        }
    }

    /// Registers a snapshot at the number returned by `published`. It is called under the list's lock, so
    /// that a job that lists the snapshots either sees this one or reads only entries before it. A pause is not waited for
    /// if `may_wait`, which is called only in one, returns false.
    pub(crate) fn take(
        self: &Arc<Snapshots>,
        published: impl FnOnce() -> SequenceNumber,
        may_wait: impl FnOnce() -> bool,
    ) -> Snapshot {
        let mut live = self.live.lock();
        if self.paused.load(Ordering::Relaxed) && may_wait() {
            while self.paused.load(Ordering::Relaxed) {
                live.wait(&self.resumed);
            }
        }
        let seq = published();
        debug_assert!(
            live.keys().next_back().is_none_or(|newest| *newest <= seq),
            "the newest snapshot is at {:?}, and the last visible write at {seq}",
            live.keys().next_back()
        );
        live.entry(seq).or_insert_with(Taken::by_this_thread).count += 1;
        Snapshot {
            seq,
            list: self.clone(),
        }
    }

    /// Blocks new snapshots: data about to be added to the tree without a sequence number of its own would be
    /// visible to an older snapshot. Only the write-group leader pauses snapshots. A thread that holds a lock, such as one in a
    /// comparator that the leader calls, takes a snapshot without waiting.
    pub(crate) fn pause(&self) -> Pause<'_> {
        let _live = self.live.lock();
        let before = self.paused.swap(true, Ordering::Relaxed);
        assert!(!before, "one leader pauses snapshots");
        Pause(self)
    }

    /// Sets the function that is called when the oldest snapshot is released. Only the first call has an
    /// effect.
    pub(crate) fn on_release(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.on_release.get_or_init(|| Box::new(wake));
    }

    /// Returns the sequence numbers of the live snapshots, ascending, without duplicates.
    pub(crate) fn list(&self) -> Vec<SequenceNumber> {
        self.live.lock().keys().copied().collect()
    }

    /// Records `now` (seconds since 1970) as the time of the live snapshot at `seq`.
    pub(super) fn note_time(&self, seq: SequenceNumber, now: u64) {
        if let Some(taken) = self.live.lock().get_mut(&seq) {
            taken.seconds = now;
            if taken.first_seconds == 0 {
                taken.first_seconds = now;
            }
        }
    }

    /// The time of the oldest live snapshot, in seconds since 1970; 0 if there is none.
    pub(crate) fn oldest_time(&self) -> u64 {
        let live = self.live.lock();
        live.values().next().map_or(0, |taken| taken.seconds)
    }

    /// The live snapshots, the oldest first.
    pub(crate) fn open(&self) -> Vec<OpenSnapshot> {
        let live = self.live.lock();
        let open = live.iter().map(|(&seq, taken)| OpenSnapshot {
            seq,
            count: taken.count,
            seconds: taken.first_seconds,
            opener: Opener {
                name: taken.thread.0.name().unwrap_or_default().to_owned(),
                number: taken.thread.1,
            },
        });
        open.collect()
    }

    /// The number of live snapshots.
    pub(crate) fn count(&self) -> usize {
        self.live.lock().values().map(|taken| taken.count).sum()
    }

    /// Returns the sequence number below which versions kept for snapshots may have become garbage, given the
    /// last write `published`: zero as long as no snapshot was released.
    pub(crate) fn kept_from(&self, published: SequenceNumber) -> SequenceNumber {
        match self.released.load(Ordering::Relaxed) {
            true => self.oldest().unwrap_or(published),
            false => SequenceNumber::ZERO,
        }
    }

    /// Records that no file at the bottommost level is kept by snapshots older than `seq`.
    pub(crate) fn note_bottom(&self, seq: SequenceNumber) {
        self.bottom.store(seq.0, Ordering::Release);
    }

    /// Clears the record of [`Snapshots::note_bottom`] after a change of the tree.
    pub(super) fn forget_bottom(&self) {
        self.bottom.store(0, Ordering::Release);
    }

    /// True if files at the bottommost level may have droppable entries, given the `oldest` snapshot.
    pub(crate) fn may_settle(&self, oldest: SequenceNumber) -> bool {
        oldest.0 > self.bottom.load(Ordering::Acquire)
    }

    /// The oldest live snapshot.
    pub(crate) fn oldest(&self) -> Option<SequenceNumber> {
        self.live.lock().keys().next().copied()
    }
}

/// A state of the database that stays readable while this value exists.
pub struct Snapshot {
    seq: SequenceNumber,
    list: Arc<Snapshots>,
}

impl Snapshot {
    /// Returns the last sequence number visible to this snapshot.
    #[must_use]
    pub fn sequence(&self) -> SequenceNumber {
        self.seq
    }

    /// The number of the opening of its database; see [`DbContext`](crate::context::DbContext).
    pub(crate) fn database(&self) -> u64 {
        self.list.database
    }
}

impl Clone for Snapshot {
    fn clone(&self) -> Snapshot {
        let mut live = self.list.live.lock();
        let taken = live.entry(self.seq).or_insert_with(Taken::by_this_thread);
        debug_assert!(taken.count > 0, "a live snapshot is listed");
        taken.count += 1;
        drop(live);
        Snapshot {
            seq: self.seq,
            list: self.list.clone(),
        }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if !self.list.process.is_this() {
            // A thread of the parent may have held the lock.
            return;
        }
        let mut live = self.list.live.lock();
        let Some(taken) = live.get_mut(&self.seq) else {
            debug_assert!(false, "a live snapshot is listed");
            return;
        };
        debug_assert!(taken.count > 0, "a snapshot without a holder is not listed");
        taken.count -= 1;
        if taken.count > 0 {
            return;
        }
        live.remove(&self.seq);
        self.list.released.store(true, Ordering::Relaxed);
        let was_oldest = live.keys().next().is_none_or(|&oldest| oldest > self.seq);
        drop(live);
        if was_oldest && let Some(wake) = self.list.on_release.get() {
            wake();
        }
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot({})", self.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_listed_until_its_last_copy_is_dropped() {
        let list = Arc::new(Snapshots::new(Locks::new(), 1));
        let first = list.take(|| SequenceNumber(7), || true);
        let copy = first.clone();
        let _later = list.take(|| SequenceNumber(9), || true);
        assert_eq!(list.list(), [SequenceNumber(7), SequenceNumber(9)]);
        drop(first);
        assert_eq!(list.oldest(), Some(SequenceNumber(7)));
        drop(copy);
        assert_eq!(list.list(), [SequenceNumber(9)]);
        assert_eq!(list.count(), 1);
    }

    /// Regression: a comparator that took a snapshot for an ingestion waited for its own thread.
    #[test]
    fn a_thread_that_may_not_wait_takes_a_snapshot_during_a_pause() {
        let list = Arc::new(Snapshots::new(Locks::new(), 1));
        let pause = list.pause();
        let taken = list.take(|| SequenceNumber(7), || false);
        assert_eq!((list.count(), taken.sequence()), (1, SequenceNumber(7)));
        drop(pause);
        let later = list.take(
            || SequenceNumber(8),
            || unreachable!("there is no pause to wait for"),
        );
        assert_eq!(list.list(), [taken.sequence(), later.sequence()]);
    }

    #[test]
    fn released_snapshots_leave_no_state() {
        let list = Arc::new(Snapshots::new(Locks::new(), 1));
        let oldest = list.take(|| SequenceNumber(1), || true);
        list.note_time(oldest.sequence(), 100);
        for seq in 2..1_000 {
            let snapshot = list.take(|| SequenceNumber(seq), || true);
            list.note_time(snapshot.sequence(), 100 + seq);
        }
        assert_eq!(list.oldest_time(), 100);
        let newest = list.take(|| SequenceNumber(1_000), || true);
        list.note_time(newest.sequence(), 2_000);
        drop(oldest);
        assert_eq!(list.oldest_time(), 2_000);
        drop(newest);
        list.note_time(SequenceNumber(1_000), 3_000);
        assert_eq!((list.oldest_time(), list.count()), (0, 0));
        assert!(list.live.lock().is_empty());
    }
}
