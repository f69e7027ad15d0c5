//! An entry that keeps its memtable alive.
#![expect(
    unsafe_code,
    reason = "an entry and the memtable it points into, in one value"
)]

use std::sync::Arc;

use crate::memtable::Memtable;
use crate::skiplist::Entry;

/// An entry of a memtable with a share in the memtable: its key and value stay readable for as long
/// as this is kept, and with them all of the memtable's memory.
#[derive(Clone)]
pub struct PinnedEntry {
    /// Before `table`, and without a destructor: never used once the table is gone.
    entry: Entry<'static>,
    table: Arc<Memtable>,
}

impl PinnedEntry {
    /// Pins `entry` of `table`.
    ///
    /// # Panics
    ///
    /// If the entry is another memtable's.
    #[must_use]
    pub fn new(table: Arc<Memtable>, entry: Entry<'_>) -> PinnedEntry {
        assert!(
            entry.is_of(table.list()),
            "an entry is pinned with its own memtable"
        );
        PinnedEntry {
            // SAFETY: the list lies in what `table` shares, which does not move, and lives as long
            // as this value; no reference of the long lifetime is ever handed out.
            entry: unsafe { entry.extended() },
            table,
        }
    }

    /// The entry.
    #[inline]
    #[must_use]
    pub fn entry(&self) -> Entry<'_> {
        self.entry
    }

    /// The value.
    #[inline]
    #[must_use]
    pub fn value(&self) -> &[u8] {
        self.entry.value()
    }

    /// The memtable.
    #[must_use]
    pub fn table(&self) -> &Arc<Memtable> {
        &self.table
    }
}

impl std::fmt::Debug for PinnedEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PinnedEntry({})", self.entry.user_key().escape_ascii())
    }
}
