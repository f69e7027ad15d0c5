//! Entries and values that keep their memtable alive.
#![expect(
    unsafe_code,
    reason = "stores entries and values together with the memtable they point into"
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

/// Values of one memtable that share ownership of it. Until they are dropped, the values stay readable and all
/// memory of the memtable stays allocated.
pub struct PinnedValues {
    /// Not accessed once `table` is dropped: declared first, and without destructors.
    values: Vec<&'static [u8]>,
    table: Arc<Memtable>,
}

impl PinnedValues {
    /// No values of `table`.
    #[must_use]
    pub fn new(table: &Arc<Memtable>) -> PinnedValues {
        PinnedValues {
            values: Vec::new(),
            table: Arc::clone(table),
        }
    }

    /// True if the values are those of `table`.
    #[inline]
    #[must_use]
    pub fn is_of(&self, table: &Arc<Memtable>) -> bool {
        Arc::ptr_eq(&self.table, table)
    }

    /// Appends the value of `entry`.
    ///
    /// # Panics
    ///
    /// If the entry belongs to another memtable.
    #[inline]
    pub fn push(&mut self, entry: Entry<'_>) {
        assert!(
            entry.is_of(self.table.list()),
            "a value can only be pinned by its own memtable"
        );
        // SAFETY: the list is owned by `table`, and its values do not change or move while it lives, which is as
        // long as this one; no reference with the long lifetime is handed out.
        let entry: Entry<'static> = unsafe { entry.extended() };
        self.values.push(entry.value());
    }

    /// The values.
    #[inline]
    #[must_use]
    pub fn values(&self) -> &[&[u8]] {
        &self.values
    }

    /// Reverses the order of the values.
    pub fn reverse(&mut self) {
        self.values.reverse();
    }
}

impl std::fmt::Debug for PinnedValues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PinnedValues({})", self.values.len())
    }
}
