//! Sums of what a database has done since it was opened.

use std::fmt;

use cairn_platform::sync::{AtomicU64, Ordering};

/// A number that only grows. Additions are relaxed: a reader may see one sum newer than another.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// The sum so far.
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
            /// Every counter's name and sum.
            #[must_use]
            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.get()),)+]
            }
        }
    };
}

counters! {
    /// Keys written by batches.
    keys_written,
    /// Bytes of the batches written.
    bytes_written,
    /// Write groups: batches that went to the log together count once.
    write_groups,
    /// Batches written.
    writes,
    /// Batches that went to a log.
    wal_writes,
    /// Times that writes were stopped because the write buffer manager had no room.
    write_buffer_manager_stops,
    /// Bytes appended to WALs.
    wal_bytes,
    /// Syncs of WALs.
    wal_syncs,
    /// Microseconds that writes were delayed or stopped.
    stall_micros,
    /// Point lookups.
    gets,
    /// Lookups that found a value in a memtable.
    memtable_hits,
    /// Seeks of iterators.
    seeks,
    /// Flushes that were installed.
    flushes,
    /// Bytes of tables that flushes wrote.
    flush_bytes,
    /// Compactions that were installed, trivial moves aside.
    compactions,
    /// Files moved to another level without rewriting.
    trivial_moves,
    /// Bytes of tables that compactions read.
    compaction_read_bytes,
    /// Bytes of tables that compactions wrote.
    compaction_written_bytes,
    /// Files deleted as obsolete.
    files_deleted,
}

impl InternalStats {
    /// A group of `writes` batches of `bytes` is written, with or without the log.
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
    fn sums_are_listed_by_name() {
        let counters = InternalStats::default();
        counters.gets.add(2);
        counters.gets.add(3);
        assert!(counters.all().contains(&("gets", 5)));
    }
}
