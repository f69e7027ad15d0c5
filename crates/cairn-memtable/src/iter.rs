//! The iterator over the point entries of a memtable. It never lacks anything and never fails.
#![expect(
    unsafe_code,
    reason = "a position in a memtable and the memtable, in one value"
)]

use std::sync::Arc;

use cairn_format::key;

use crate::memtable::Memtable;
use crate::pin::PinnedEntry;
use crate::skiplist::{Entry, Prefetcher};

/// Walks the point entries of a memtable in internal-key order, by the contract of
/// `cairn_types::iter`. Entries that are added meanwhile may or may not be met.
pub struct MemtableIter {
    /// Before `table`, and without a destructor: never used once the table is gone.
    at: Option<Entry<'static>>,
    table: Arc<Memtable>,
    /// True if seeks ask the table's filter for the prefix of their target.
    prefix_filter: bool,
}

impl MemtableIter {
    /// An iterator that stands nowhere.
    #[must_use]
    pub fn new(table: Arc<Memtable>) -> MemtableIter {
        MemtableIter {
            at: None,
            table,
            prefix_filter: false,
        }
    }

    /// Sets whether a seek may end nowhere at once if the table's filter does not know the prefix of
    /// the target. The caller sees to it that the filter is of the prefixes that are meant
    /// ([`Memtable::has_prefixes_of`]).
    pub fn set_prefix_filter(&mut self, on: bool) {
        self.prefix_filter = on;
    }

    /// True if a seek to `internal` is spared.
    #[inline]
    fn lacks_prefix_of(&self, internal: &[u8]) -> bool {
        self.prefix_filter && !self.table.may_have_prefix_of(key::user_key(internal))
    }

    /// The memtable.
    #[must_use]
    pub fn table(&self) -> &Arc<Memtable> {
        &self.table
    }

    /// Moves to the first entry at or behind `internal`.
    #[inline]
    pub fn seek(&mut self, internal: &[u8]) {
        if self.lacks_prefix_of(internal) {
            self.at = None;
            return;
        }
        let list = self.table.list();
        let at = list.at_or_after(key::user_key(internal), key::packed(internal));
        self.at = extended(at);
    }

    /// Moves to the last entry at or before `internal`.
    pub fn seek_for_prev(&mut self, internal: &[u8]) {
        if self.lacks_prefix_of(internal) {
            self.at = None;
            return;
        }
        let list = self.table.list();
        let (user, packed) = (key::user_key(internal), key::packed(internal));
        // An entry with exactly this key is the one behind the last that is before it.
        let at = match list.at_or_after(user, packed) {
            Some(found) if key::compare(list.order(), found.key(), internal).is_eq() => Some(found),
            _ => list.before(user, packed),
        };
        self.at = extended(at);
    }

    /// Moves to the first entry.
    pub fn seek_to_first(&mut self) {
        self.at = extended(self.table.list().first());
    }

    /// Moves to the last entry.
    pub fn seek_to_last(&mut self) {
        self.at = extended(self.table.list().last());
    }

    /// Moves to the entry behind the current one.
    #[inline]
    pub fn next(&mut self) {
        self.at = self.at.and_then(|entry| entry.next());
    }

    /// Moves to the entry before the current one.
    pub fn prev(&mut self) {
        self.at = self.at.and_then(|entry| entry.prev());
    }

    /// True if the iterator stands on an entry.
    #[inline]
    #[must_use]
    pub fn valid(&self) -> bool {
        self.at.is_some()
    }

    /// The entry it stands on.
    #[inline]
    #[must_use]
    pub fn entry(&self) -> Option<Entry<'_>> {
        self.at
    }

    /// The internal key of the entry; empty when there is none.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.at.map_or(&[], |entry| entry.key())
    }

    /// The value of the entry; empty when there is none.
    #[inline]
    #[must_use]
    pub fn value(&self) -> &[u8] {
        self.at.map_or(&[], |entry| entry.value())
    }

    /// The entry with a share in the memtable.
    #[must_use]
    pub fn pin(&self) -> Option<PinnedEntry> {
        self.at
            .map(|entry| PinnedEntry::new(Arc::clone(&self.table), entry))
    }
}

/// Walks the point entries of a memtable from front to back, and has the processor load what it will come
/// to: for walks of the whole memtable.
pub struct MemtableWalk {
    iter: MemtableIter,
    /// Of the list in `iter`; followed only while that is there.
    ahead: Prefetcher,
}

impl MemtableWalk {
    /// A walk that stands nowhere.
    #[must_use]
    pub fn new(table: Arc<Memtable>) -> MemtableWalk {
        MemtableWalk {
            iter: MemtableIter::new(table),
            ahead: Prefetcher::NONE,
        }
    }

    /// Goes to the first entry at or behind `target`, an internal key; to the first of all without. Nothing is loaded ahead
    /// behind a target.
    pub fn start(&mut self, target: Option<&[u8]>) {
        match target {
            Some(target) => {
                self.iter.seek(target);
                self.ahead = Prefetcher::NONE;
            }
            None => {
                self.iter.seek_to_first();
                self.ahead = Prefetcher::of(self.iter.table.list());
            }
        }
    }

    /// Goes to the following entry.
    #[inline]
    pub fn next(&mut self) {
        self.iter.next();
        // SAFETY: the list lives as long as `iter`, which shares its memtable.
        unsafe { self.ahead.step() };
    }

    /// Where it stands.
    #[inline]
    #[must_use]
    pub fn iter(&self) -> &MemtableIter {
        &self.iter
    }
}

#[inline]
fn extended(entry: Option<Entry<'_>>) -> Option<Entry<'static>> {
    // SAFETY: the entry is of the list in `MemtableIter::table`, which is shared, does not move and
    // lives as long as the iterator; no reference of the long lifetime is ever handed out.
    entry.map(|entry| unsafe { entry.extended() })
}
