//! The children of a merging iterator: memtables, level-0 tables and sorted levels.
//!
//! All implement the contract of `cairn_types::iter`. They are variants of one enum, so that a step
//! within a block or a memtable is a branch and an inlined call, never a virtual call.

use std::sync::Arc;

use cairn_format::block::{SkipLimits, Skipped};
use cairn_format::filter::FilterKey;
use cairn_format::key;
use cairn_memtable::MemtableIter;
use cairn_platform::{Buffer, ReadRequest};
use cairn_table::{IterOptions, ReadAhead, Table, TableIter};
use cairn_types::{KeyOrder, PrefixExtractor, Progress, Result, SequenceNumber, ValueKind};

use crate::level::LevelIter;
use crate::value::Value;

/// A sorted source of entries.
pub enum Child {
    /// A memtable. Never misses a block.
    Memtable(MemtableIter),
    /// A level-0 table, and its largest sequence number.
    Table(Box<TableIter>, SequenceNumber),
    /// A level-0 table that has not been positioned. A lazy seek needs only its filter.
    Unread(UnreadTable),
    /// The tables of a sorted level.
    Level(LevelIter),
}

/// A level-0 table whose iterator does not exist yet.
pub struct UnreadTable {
    /// Present until the iterator is made.
    table: Option<Arc<Table>>,
    options: IterOptions,
    /// The largest sequence number.
    largest: SequenceNumber,
}

impl UnreadTable {
    fn table(&self) -> Option<&Arc<Table>> {
        self.table.as_ref()
    }
}

/// Prefetches for [`Child::may_have`]. Returns false if `table` has no filter in memory.
#[inline]
fn begin_filter(table: &Table, key: &FilterKey<'_>) -> bool {
    table.prefetch_key_filter(key);
    table.holds_key_filter()
}

macro_rules! moves {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty)?);)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $name(&mut self $(, $arg: $type)?) -> Progress {
            self.make_iter();
            match self {
                Child::Memtable(iter) => {
                    iter.$name($($arg)?);
                    Progress::Ready
                }
                Child::Table(iter, _) => iter.$name($($arg)?),
                Child::Level(iter) => iter.$name($($arg)?),
                Child::Unread(_) => Progress::Ready,
            }
        }
    )*};
}

impl Child {
    moves! {
        /// Moves to the first entry at or after `target`, an internal key.
        seek(target: &[u8]);
        /// Moves to the last entry at or before `target`, an internal key.
        seek_for_prev(target: &[u8]);
        /// Moves to the first entry.
        seek_to_first();
        /// Moves to the last entry.
        seek_to_last();
    }

    /// A table with this largest sequence number, which is read with `options`.
    #[must_use]
    pub fn unread(table: Arc<Table>, options: IterOptions, largest: SequenceNumber) -> Child {
        Child::Unread(UnreadTable {
            table: Some(table),
            options,
            largest,
        })
    }

    /// Makes the iterator of a table that has not been positioned.
    #[inline]
    fn make_iter(&mut self) {
        if let Child::Unread(unread) = self
            && let Some(table) = unread.table.take()
        {
            *self = Child::Table(TableIter::new(table, unread.options), unread.largest);
        }
    }

    /// Moves to the next entry and returns the [prefix](key::prefix) of its key in `order`; `None`
    /// if the caller has to inspect [`Child::progress`] and [`Child::valid`] instead.
    #[inline]
    pub fn next_prefix(&mut self, order: &KeyOrder) -> Option<u64> {
        match self {
            Child::Memtable(iter) => {
                iter.next();
                iter.valid().then(|| key::prefix(order, iter.key()))
            }
            Child::Table(iter, _) => iter.next_prefix(order),
            Child::Level(iter) => iter.next_prefix(order),
            Child::Unread(_) => None,
        }
    }

    /// Moves to the previous entry; see [`Child::next_prefix`].
    #[inline]
    pub fn prev_prefix(&mut self, order: &KeyOrder) -> Option<u64> {
        match self {
            Child::Memtable(iter) => {
                iter.prev();
                iter.valid().then(|| key::prefix(order, iter.key()))
            }
            Child::Table(iter, _) => iter.prev_prefix(order),
            Child::Level(iter) => iter.prev_prefix(order),
            Child::Unread(_) => None,
        }
    }

    /// The result of the last operation.
    #[inline]
    pub fn progress(&self) -> Progress {
        match self {
            Child::Memtable(_) | Child::Unread(_) => Progress::Ready,
            Child::Table(iter, _) => iter.progress(),
            Child::Level(iter) => iter.progress(),
        }
    }

    /// Prefetches for [`Child::may_have`], which a seek to `target` calls for `key`, its user key. Returns false if a
    /// table has no filter in memory.
    #[inline]
    pub(crate) fn begin_filter(&mut self, target: &[u8], key: &FilterKey<'_>) -> bool {
        match self {
            Child::Memtable(_) => true,
            Child::Table(iter, _) => begin_filter(iter.table(), key),
            Child::Level(iter) => iter.begin_filter(target, key),
            Child::Unread(unread) => unread.table().is_some_and(|table| begin_filter(table, key)),
        }
    }

    /// False if the child does not have `key`. Always true for a memtable.
    #[inline]
    pub(crate) fn may_have(&self, key: &FilterKey<'_>) -> bool {
        match self {
            Child::Memtable(_) => true,
            Child::Table(iter, _) => iter.table().may_have_key(key),
            Child::Level(iter) => iter.may_have(key),
            Child::Unread(unread) => unread.table().is_none_or(|table| table.may_have_key(key)),
        }
    }

    /// [`Child::seek`] after [`Child::begin_filter`] with the same `target`.
    #[inline]
    pub(crate) fn seek_filtered(&mut self, target: &[u8]) -> Progress {
        match self {
            Child::Level(iter) => iter.seek_filtered(target),
            Child::Memtable(_) | Child::Table(..) | Child::Unread(_) => self.seek(target),
        }
    }

    /// The first stage of a seek, or of `seek_for_prev` if `back`: searches the index. Followed by
    /// `prefetch_block`, `pin_block` and `finish_seek`. See `cairn_table::TableIter` for the
    /// reason.
    pub fn begin_seek(&mut self, target: &[u8], back: bool) {
        self.make_iter();
        match self {
            Child::Memtable(_) | Child::Unread(_) => {}
            Child::Table(iter, _) => iter.set_out(target, back),
            Child::Level(iter) => iter.begin_seek(target, back),
        }
    }

    /// The second stage of a seek: prefetches the data block.
    pub fn prefetch_block(&mut self) {
        match self {
            Child::Memtable(_) | Child::Unread(_) => {}
            Child::Table(iter, _) => iter.reach(),
            Child::Level(iter) => iter.prefetch_block(),
        }
    }

    /// The third stage of a seek: pins the data block.
    pub fn pin_block(&mut self) {
        match self {
            Child::Memtable(_) | Child::Unread(_) => {}
            Child::Table(iter, _) => iter.hold(),
            Child::Level(iter) => iter.pin_block(),
        }
    }

    /// The last stage of a seek to `target`.
    pub fn finish_seek(&mut self, target: &[u8], back: bool) -> Progress {
        match self {
            Child::Memtable(_) if back => self.seek_for_prev(target),
            Child::Memtable(_) => self.seek(target),
            Child::Table(iter, _) => iter.arrive(),
            Child::Level(iter) => iter.finish_seek(),
            Child::Unread(_) => Progress::Ready,
        }
    }

    /// Controls whether seeks may skip memtables and tables whose prefix filters exclude the prefix
    /// of the target.
    pub fn set_prefix_filter(&mut self, on: bool, extractor: Option<&PrefixExtractor>) {
        match self {
            Child::Memtable(iter) => {
                let on = on && iter.table().has_prefixes_of(extractor);
                iter.set_prefix_filter(on);
            }
            Child::Table(iter, _) => {
                let on = on && iter.table().has_prefixes_of(extractor);
                iter.set_prefix_filter(on);
            }
            Child::Level(iter) => iter.set_prefix_filter(on),
            Child::Unread(unread) => {
                let is_of = |table: &Arc<Table>| table.has_prefixes_of(extractor);
                unread.options.prefix_filter = on && unread.table().is_some_and(is_of);
            }
        }
    }

    /// Reads ahead by `ahead`, with other bounds, from the next movement on, which is a seek.
    pub(crate) fn renew_readahead(&mut self, ahead: &Arc<ReadAhead>) {
        self.make_iter();
        match self {
            Child::Memtable(_) | Child::Unread(_) => {}
            Child::Table(iter, _) => iter.renew_readahead(ahead),
            Child::Level(level) => level.renew_readahead(ahead),
        }
    }

    /// Skips deletions; see `TableIter::skip_deletions`.
    #[inline]
    pub fn skip_deletions(
        &mut self,
        seq: SequenceNumber,
        limit: Option<&[u8]>,
        budget: u64,
        last: &mut Vec<u8>,
    ) -> (u64, Progress) {
        match self {
            Child::Memtable(iter) => {
                let mut skipped = 0;
                while skipped < budget
                    && let Some(entry) = iter.entry()
                    && matches!(
                        entry.kind(),
                        ValueKind::Deletion | ValueKind::SingleDeletion
                    )
                    && entry.seq() <= seq
                    && limit.is_none_or(|limit| entry.user_key() < limit)
                {
                    last.clear();
                    last.extend_from_slice(entry.user_key());
                    skipped += 1;
                    iter.next();
                }
                (skipped, Progress::Ready)
            }
            Child::Table(iter, _) => iter.skip_deletions(seq, limit, budget, last),
            Child::Level(iter) => iter.skip_deletions(seq, limit, budget, last),
            Child::Unread(_) => (0, Progress::Ready),
        }
    }

    /// Skips deletions of this child together with the entries that they delete in `other`; see
    /// `TableIter::skip_deleted`. Does nothing if either child is a memtable.
    pub fn skip_deleted(
        &mut self,
        other: &mut Child,
        hidden: &SkipLimits<'_>,
        last: &mut Vec<u8>,
    ) -> (Skipped, Progress, Progress) {
        let (Some(iter), Some(other_iter)) = (self.table_iter(), other.table_iter()) else {
            return (Skipped::default(), Progress::Ready, Progress::Ready);
        };
        let (skipped, progress, other_progress) = iter.skip_deleted(other_iter, hidden, last);
        (skipped, self.settle(progress), other.settle(other_progress))
    }

    /// The iterator over the current table; `None` for a memtable, or without a position.
    fn table_iter(&mut self) -> Option<&mut TableIter> {
        match self {
            Child::Memtable(_) | Child::Unread(_) => None,
            Child::Table(iter, _) => Some(iter),
            Child::Level(iter) => iter.table_iter(),
        }
    }

    /// Continues with the next table if the current one is exhausted after a forward move.
    fn settle(&mut self, progress: Progress) -> Progress {
        match self {
            Child::Memtable(_) | Child::Table(..) | Child::Unread(_) => progress,
            Child::Level(iter) => iter.settle_forward(progress),
        }
    }

    /// True if the child is positioned on an entry.
    #[inline]
    #[must_use]
    pub fn valid(&self) -> bool {
        match self {
            Child::Memtable(iter) => iter.valid(),
            Child::Table(iter, _) => iter.valid(),
            Child::Level(iter) => iter.valid(),
            Child::Unread(_) => false,
        }
    }

    /// The internal key of the current entry.
    // Called several times in each step.
    #[inline(always)]
    #[must_use]
    pub fn key(&self) -> &[u8] {
        match self {
            Child::Memtable(iter) => iter.key(),
            Child::Table(iter, _) => iter.key(),
            Child::Level(iter) => iter.key(),
            Child::Unread(_) => &[],
        }
    }

    /// True if the entry is known to have a different user key than the preceding entry of the
    /// child. `same` compares user keys for equality.
    #[inline]
    #[must_use]
    pub fn begins_key(&self, same: impl Fn(&[u8], &[u8]) -> bool) -> bool {
        match self {
            Child::Memtable(_) | Child::Unread(_) => false,
            Child::Table(iter, _) => iter.begins_key(same),
            Child::Level(iter) => iter.begins_key(same),
        }
    }

    /// The internal key and the value of the current entry.
    #[inline(always)]
    #[must_use]
    pub fn entry(&self) -> (&[u8], &[u8]) {
        match self {
            Child::Memtable(iter) => (iter.key(), iter.value()),
            Child::Table(iter, _) => iter.entry(),
            Child::Level(iter) => iter.entry(),
            Child::Unread(_) => (&[], &[]),
        }
    }

    /// The internal key of the current entry and the length of its value.
    #[inline(always)]
    #[must_use]
    pub fn head(&self) -> (&[u8], usize) {
        match self {
            Child::Memtable(iter) => (iter.key(), iter.value().len()),
            Child::Table(iter, _) => iter.head(),
            Child::Level(iter) => iter.head(),
            Child::Unread(_) => (&[], 0),
        }
    }

    /// The value of the current entry.
    #[inline(always)]
    #[must_use]
    pub fn value(&self) -> &[u8] {
        match self {
            Child::Memtable(iter) => iter.value(),
            Child::Table(iter, _) => iter.value(),
            Child::Level(iter) => iter.value(),
            Child::Unread(_) => &[],
        }
    }

    /// The value of the current entry, pinned.
    ///
    /// # Panics
    ///
    /// If the child is not positioned on an entry.
    #[must_use]
    pub fn value_pin(&self) -> Value {
        let block = |(buffer, range)| Value::in_block(buffer, range);
        match self {
            Child::Memtable(iter) => {
                Value::in_memtable(iter.pin().expect("the iterator is positioned on an entry"))
            }
            Child::Table(iter, _) => block(iter.value_pin()),
            Child::Level(iter) => block(iter.value_pin()),
            Child::Unread(_) => panic!("the child is positioned on an entry"),
        }
    }

    /// The error that ended the iteration, if any.
    ///
    /// # Errors
    ///
    /// The error of the table or of a read.
    pub fn status(&self) -> Result<()> {
        match self {
            Child::Memtable(iter) => iter.status(),
            Child::Table(iter, _) => iter.status(),
            Child::Level(iter) => iter.status(),
            Child::Unread(_) => Ok(()),
        }
    }

    /// Passes the entries of the current block from the current one on, in the direction of iteration, to `visit` until
    /// it returns false. Does nothing in a memtable.
    pub fn visit_following(&self, back: bool, visit: impl FnMut(&[u8], &[u8]) -> bool) {
        let iter = match self {
            Child::Memtable(_) | Child::Unread(_) => None,
            Child::Table(iter, _) => Some(&**iter),
            Child::Level(iter) => iter.current(),
        };
        if let Some(iter) = iter {
            iter.visit_following(back, visit);
        }
    }

    /// The missing block; `None` if none is missing.
    #[must_use]
    pub fn request(&self) -> Option<ReadRequest> {
        match self {
            Child::Memtable(_) | Child::Unread(_) => None,
            Child::Table(iter, _) => Some(iter.request()),
            Child::Level(iter) => iter.request(),
        }
    }

    /// Records the lookup of the missing block, which is not read.
    pub(crate) fn trace_refused(&self) {
        match self {
            Child::Memtable(_) | Child::Unread(_) => {}
            Child::Table(iter, _) => iter.trace_refused(),
            Child::Level(iter) => {
                if let Some(iter) = iter.current() {
                    iter.trace_refused();
                }
            }
        }
    }

    /// True if the missing block is in a tier below the cache: its request reads the device of the tier, not the table.
    pub(crate) fn lacks_only_device(&self) -> bool {
        match self {
            Child::Memtable(_) | Child::Unread(_) => false,
            Child::Table(iter, _) => iter.lacks_only_device(),
            Child::Level(iter) => iter.current().is_some_and(TableIter::lacks_only_device),
        }
    }

    /// Supplies the missing block and continues the operation.
    pub fn supply(&mut self, bytes: Result<Buffer>) -> Progress {
        match self {
            Child::Memtable(_) | Child::Unread(_) => Progress::Ready,
            Child::Table(iter, _) => iter.supply(bytes),
            Child::Level(iter) => iter.supply(bytes),
        }
    }

    /// The largest sequence number such that a range tombstone with a larger one is newer than all
    /// entries of the child. In a memtable, where all entries and tombstones have different
    /// numbers, this is one less than its largest sequence number.
    pub fn newest(&mut self) -> SequenceNumber {
        match self {
            Child::Memtable(iter) => {
                let largest = iter.table().largest_seq();
                SequenceNumber(largest.0.saturating_sub(1))
            }
            Child::Table(_, largest) => *largest,
            Child::Unread(unread) => unread.largest,
            Child::Level(iter) => iter.largest_seq(),
        }
    }
}
