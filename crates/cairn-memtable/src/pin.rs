//! An entry that keeps its memtable alive.
#![expect(
    unsafe_code,
    reason = "stores an entry together with the memtable it points into"
)]

use std::sync::Arc;

use crate::memtable::Memtable;
use crate::skiplist::Entry;

/// A handle to an entry that shares ownership of its memtable. Until it is dropped, key and value
/// stay readable and all memory of the memtable stays allocated.
#[derive(Clone)]
pub struct PinnedEntry {
    /// Not accessed once `table` is dropped: declared first, and without a destructor.
    entry: Entry<'static>,
    table: Arc<Memtable>,
}

impl PinnedEntry {
    /// Pins `entry` of `table`.
    ///
    /// # Panics
    ///
    /// If the entry belongs to another memtable.
    #[must_use]
    pub fn new(table: Arc<Memtable>, entry: Entry<'_>) -> PinnedEntry {
        assert!(
            entry.is_of(table.list()),
            "an entry can only be pinned by its own memtable"
        );
        PinnedEntry {
            // SAFETY: the list is owned by `table`, does not move, and lives as long as this value; no
            // reference with the long lifetime is handed out.
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
