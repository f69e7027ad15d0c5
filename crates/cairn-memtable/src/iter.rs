//! Iterators over the point entries of a memtable. They read memory only, and fail only if the memtable's checks
//! ([`crate::Checks`]) find it damaged.
#![expect(
    unsafe_code,
    reason = "stores a position together with the memtable it points into"
)]

use std::sync::Arc;

use cairn_format::key;
use cairn_types::{Error, Result};

use crate::memtable::Memtable;
use crate::pin::PinnedEntry;
use crate::skiplist::{Entry, Prefetcher};

/// An iterator over the point entries of a memtable in internal-key order, with the contract of
/// `cairn_types::iter`. An entry added after the iterator was created may or may not be returned.
pub struct MemtableIter {
    /// Not accessed once `table` is dropped: declared first, and without a destructor.
    at: Option<Entry<'static>>,
    table: Arc<Memtable>,
    /// True if seeks consult the table's filter for the prefix of their target.
    prefix_filter: bool,
    /// True if the table has checks.
    checked: bool,
    /// The damage that ended the iteration.
    error: Option<Error>,
}

impl MemtableIter {
    /// Returns an iterator that is not positioned.
    #[must_use]
    pub fn new(table: Arc<Memtable>) -> MemtableIter {
        MemtableIter {
            at: None,
            checked: table.checks().any(),
            table,
            prefix_filter: false,
            error: None,
        }
    }

    /// Enables or disables prefix filtering: a seek then makes the iterator invalid, without a
    /// search, if the filter rules out the prefix of the target. The caller ensures that the filter
    /// holds these prefixes ([`Memtable::has_prefixes_of`]).
    pub fn set_prefix_filter(&mut self, on: bool) {
        self.prefix_filter = on;
    }

    /// True if the filter rules out the prefix of `internal`.
    #[inline]
    fn lacks_prefix_of(&self, internal: &[u8]) -> bool {
        self.prefix_filter && !self.table.may_have_prefix_of(key::user_key(internal))
    }

    /// The memtable.
    #[must_use]
    pub fn table(&self) -> &Arc<Memtable> {
        &self.table
    }

    /// Moves to the first entry at or after `internal`.
    #[inline]
    pub fn seek(&mut self, internal: &[u8]) {
        debug_assert!(
            internal.len() >= key::SUFFIX_LEN,
            "seeks take internal keys"
        );
        if self.lacks_prefix_of(internal) {
            (self.at, self.error) = (None, None);
            return;
        }
        let list = self.table.list();
        let at = list.at_or_after(key::user_key(internal), key::packed(internal));
        self.at = extended(at);
        if self.checked {
            self.check_seek(internal);
        }
    }

    /// Moves to the last entry at or before `internal`.
    pub fn seek_for_prev(&mut self, internal: &[u8]) {
        if self.lacks_prefix_of(internal) {
            (self.at, self.error) = (None, None);
            return;
        }
        let list = self.table.list();
        let (user, packed) = (key::user_key(internal), key::packed(internal));
        // An entry with exactly this key follows the last entry before the key.
        let at = match list.at_or_after(user, packed) {
            Some(found) if key::compare(list.order(), found.key(), internal).is_eq() => Some(found),
            _ => list.before(user, packed),
        };
        self.at = extended(at);
        if self.checked {
            self.check_seek(internal);
        }
    }

    /// Moves to the first entry.
    pub fn seek_to_first(&mut self) {
        self.at = extended(self.table.list().first());
        self.check_first();
    }

    /// Moves to the last entry.
    pub fn seek_to_last(&mut self) {
        self.at = extended(self.table.list().last());
        self.check_first();
    }

    /// Moves to the next entry.
    #[inline]
    pub fn next(&mut self) {
        let from = self.at;
        self.at = from.and_then(|entry| entry.next());
        if self.checked {
            self.check_step(from, self.at);
        }
    }

    /// Moves to the previous entry.
    pub fn prev(&mut self) {
        let from = self.at;
        self.at = from.and_then(|entry| entry.prev());
        if self.checked {
            self.check_prev(from);
        }
    }

    /// Checks a step back from an entry, which is a search.
    #[cold]
    fn check_prev(&mut self, from: Option<Entry<'static>>) {
        let passed = from.map_or(Ok(()), |from| {
            let packed = key::packed(from.key());
            self.table.list().verify_search(from.user_key(), packed)
        });
        match passed {
            Ok(()) => self.check_step(self.at, from),
            damaged => self.end_if_damaged(damaged),
        }
    }

    /// Checks a seek to `internal`.
    #[cold]
    fn check_seek(&mut self, internal: &[u8]) {
        let list = self.table.list();
        let passed = list.verify_search(key::user_key(internal), key::packed(internal));
        self.end_if_damaged(passed.and_then(|()| self.verify()));
    }

    /// Checks a move to an end of the memtable.
    fn check_first(&mut self) {
        if self.checked {
            self.end_if_damaged(self.verify());
        }
    }

    /// Checks a step between two neighbours, which are in order.
    #[cold]
    fn check_step(&mut self, left: Option<Entry<'static>>, right: Option<Entry<'static>>) {
        let in_order = match (left, right) {
            (Some(left), Some(right)) if self.table.checks().order => left.verify_before(&right),
            _ => Ok(()),
        };
        self.end_if_damaged(in_order.and_then(|()| self.verify()));
    }

    /// Verifies the current entry and the range tombstones read so far.
    fn verify(&self) -> Result<()> {
        self.table.verify_ranges_read()?;
        self.at.map_or(Ok(()), |entry| entry.verify())
    }

    /// Ends the iteration if a check failed; a passed check of a seek clears an earlier error.
    fn end_if_damaged(&mut self, checked: Result<()>) {
        self.error = checked.err();
        if self.error.is_some() {
            self.at = None;
        }
    }

    /// The damage that ended the iteration, if any.
    ///
    /// # Errors
    ///
    /// `Corruption` if the last move came to a damaged entry.
    #[inline]
    pub fn status(&self) -> Result<()> {
        match &self.error {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// True if the iterator is positioned on an entry.
    #[inline]
    #[must_use]
    pub fn valid(&self) -> bool {
        self.at.is_some()
    }

    /// The current entry.
    #[inline]
    #[must_use]
    pub fn entry(&self) -> Option<Entry<'_>> {
        self.at
    }

    /// The internal key of the current entry; empty if there is none.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.at.map_or(&[], |entry| entry.key())
    }

    /// The value of the current entry; empty if there is none.
    #[inline]
    #[must_use]
    pub fn value(&self) -> &[u8] {
        self.at.map_or(&[], |entry| entry.value())
    }

    /// Pins the current entry.
    #[must_use]
    pub fn pin(&self) -> Option<PinnedEntry> {
        self.at
            .map(|entry| PinnedEntry::new(Arc::clone(&self.table), entry))
    }
}

/// A forward scan over the point entries of a memtable, with prefetching, for flushes and other
/// scans of whole memtables.
pub struct MemtableWalk {
    iter: MemtableIter,
    /// Refers to the list in `iter` and is used only while `iter` exists.
    ahead: Prefetcher,
}

impl MemtableWalk {
    /// Returns a scan that is not positioned.
    #[must_use]
    pub fn new(table: Arc<Memtable>) -> MemtableWalk {
        MemtableWalk {
            iter: MemtableIter::new(table),
            ahead: Prefetcher::NONE,
        }
    }

    /// Moves to the first entry at or after `target`, an internal key, or to the first entry of the memtable
    /// if there is none. A scan with a target does not prefetch.
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

    /// Moves to the next entry.
    #[inline]
    pub fn next(&mut self) {
        self.iter.next();
        // SAFETY: `iter` shares ownership of the memtable, so the list is alive.
        unsafe { self.ahead.step() };
    }

    /// The current position.
    #[inline]
    #[must_use]
    pub fn iter(&self) -> &MemtableIter {
        &self.iter
    }
}

#[inline]
fn extended(entry: Option<Entry<'_>>) -> Option<Entry<'static>> {
    // SAFETY: the entry belongs to the list in `MemtableIter::table`, which is shared, does not move and
    // lives as long as the iterator; no reference with the long lifetime is handed out.
    entry.map(|entry| unsafe { entry.extended() })
}
