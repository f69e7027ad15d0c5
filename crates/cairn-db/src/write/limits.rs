//! The limits at which a leader acts on a memtable, by the options of its family.

use cairn_memtable::Memtable;

use super::family::nearly_full;
use crate::catalog::family::FamilyState;

impl FamilyState {
    /// The size at which the memtable is switched, in bytes.
    pub(crate) fn full(&self) -> usize {
        self.options().write_buffer_size
    }

    /// The size at which the log of the memtable is first synced in the background.
    pub(crate) fn nearly_full(&self) -> usize {
        nearly_full(&self.options())
    }

    /// True if `memtable` has `memtable_max_range_deletions` or more.
    pub(crate) fn has_too_many_ranges(&self, memtable: &Memtable) -> bool {
        let limit = self.options().memtable_max_range_deletions as usize;
        limit > 0 && memtable.range_deletions() >= limit
    }
}
