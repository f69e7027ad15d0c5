//! Operation counters of a database since it was opened.

use std::fmt;

use cairn_platform::sync::{AtomicU64, Ordering};

/// A monotonic counter. Additions are relaxed, so several counters are not read as one consistent
/// set.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// The current value.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// The counters of a database.
        #[derive(Debug, Default)]
        pub struct InternalStats { $($(#[$doc])* pub $name: Counter,)+ }

        impl InternalStats {
            /// The name and value of each counter.
            #[must_use]
            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.get()),)+]
            }
        }
    };
}

counters! {
    /// Keys in written batches.
    keys_written,
    /// Bytes of written batches.
    bytes_written,
    /// Write groups. Batches that were logged together count once.
    write_groups,
    /// Batches written.
    writes,
    /// Batches written to the WAL.
    wal_writes,
    /// Write stops caused by the write buffer manager.
    write_buffer_manager_stops,
    /// Bytes appended to WALs.
    wal_bytes,
    /// Syncs of WALs.
    wal_syncs,
    /// Microseconds of write delays and stops.
    stall_micros,
    /// Point lookups.
    gets,
    /// Lookups that found a value in a memtable.
    memtable_hits,
    /// Seeks of iterators.
    seeks,
    /// Installed flushes.
    flushes,
    /// Table bytes written by flushes.
    flush_bytes,
    /// Installed compactions, except trivial moves.
    compactions,
    /// Files moved to another level without rewriting.
    trivial_moves,
    /// Table bytes read by compactions.
    compaction_read_bytes,
    /// Table bytes written by compactions.
    compaction_written_bytes,
    /// Files deleted as obsolete.
    files_deleted,
}

impl InternalStats {
    /// Counts a write group of `writes` batches and `bytes` bytes.
    #[inline]
    pub fn note_group(&self, writes: usize, bytes: usize, logged: bool) {
        self.writes.add(writes as u64);
        self.write_groups.add(1);
        self.bytes_written.add(bytes as u64);
        if logged {
            self.wal_writes.add(writes as u64);
            self.wal_bytes.add(bytes as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_listed_by_name() {
        let counters = InternalStats::default();
        counters.gets.add(2);
        counters.gets.add(3);
        assert!(counters.all().contains(&("gets", 5)));
    }
}
