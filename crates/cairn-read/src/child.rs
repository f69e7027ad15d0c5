//! The sources that a merging iterator joins: a memtable, a table, a level of tables.
//!
//! All keep the contract of `cairn_types::iter`. They are rows of one enum, so that moving inside a
//! block or a memtable is a branch and an inlined function, never a virtual call.

use cairn_format::block::{SkipLimits, Skipped};
use cairn_format::key;
use cairn_memtable::MemtableIter;
use cairn_platform::{Buffer, ReadRequest};
use cairn_table::TableIter;
use cairn_types::{KeyOrder, PrefixExtractor, Progress, Result, SequenceNumber, ValueKind};

use crate::level::LevelIter;
use crate::value::Value;

/// One sorted source of entries.
pub enum Child {
    /// A memtable; never lacks anything.
    Memtable(MemtableIter),
    /// A table of level 0, and the largest sequence number in it.
    Table(Box<TableIter>, SequenceNumber),
    /// The tables of a level below.
    Level(Box<LevelIter>),
}

macro_rules! moves {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty)?);)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $name(&mut self $(, $arg: $type)?) -> Progress {
            match self {
                Child::Memtable(iter) => {
                    iter.$name($($arg)?);
                    Progress::Ready
                }
                Child::Table(iter, _) => iter.$name($($arg)?),
                Child::Level(iter) => iter.$name($($arg)?),
            }
        }
    )*};
}

impl Child {
    moves! {
        /// Moves to the first entry at or behind `target`, an internal key.
        seek(target: &[u8]);
        /// Moves to the last entry at or before `target`, an internal key.
        seek_for_prev(target: &[u8]);
        /// Moves to the first entry.
        seek_to_first();
        /// Moves to the last entry.
        seek_to_last();
    }

    /// Moves to the entry behind the current one, and says the [prefix](key::prefix) that its key has in
    /// `order`; `None` if the child itself has to say where it stands.
    #[inline]
    pub fn next_prefix(&mut self, order: &KeyOrder) -> Option<u64> {
        match self {
            Child::Memtable(iter) => {
                iter.next();
                iter.valid().then(|| key::prefix(order, iter.key()))
            }
            Child::Table(iter, _) => iter.next_prefix(order),
            Child::Level(iter) => iter.next_prefix(order),
        }
    }

    /// Moves to the entry before the current one; see [`Child::next_prefix`].
    #[inline]
    pub fn prev_prefix(&mut self, order: &KeyOrder) -> Option<u64> {
        match self {
            Child::Memtable(iter) => {
                iter.prev();
                iter.valid().then(|| key::prefix(order, iter.key()))
            }
            Child::Table(iter, _) => iter.prev_prefix(order),
            Child::Level(iter) => iter.prev_prefix(order),
        }
    }

    /// The outcome of the last movement.
    #[inline]
    pub fn progress(&self) -> Progress {
        match self {
            Child::Memtable(_) => Progress::Ready,
            Child::Table(iter, _) => iter.progress(),
            Child::Level(iter) => iter.progress(),
        }
    }

    /// The first of four steps of `seek`, or of `seek_for_prev` if `back`: with `reach`, `hold` and
    /// `arrive`, which follow, it does what these do. See `cairn_table`'s iterator for what that is
    /// good for.
    pub fn begin_seek(&mut self, target: &[u8], back: bool) {
        match self {
            Child::Memtable(_) => {}
            Child::Table(iter, _) => iter.set_out(target, back),
            Child::Level(iter) => iter.begin_seek(target, back),
        }
    }

    /// The second step of a seek.
    pub fn prefetch_block(&mut self) {
        match self {
            Child::Memtable(_) => {}
            Child::Table(iter, _) => iter.reach(),
            Child::Level(iter) => iter.prefetch_block(),
        }
    }

    /// The third step of a seek.
    pub fn pin_block(&mut self) {
        match self {
            Child::Memtable(_) => {}
            Child::Table(iter, _) => iter.hold(),
            Child::Level(iter) => iter.pin_block(),
        }
    }

    /// The last step of a seek to `target`.
    pub fn finish_seek(&mut self, target: &[u8], back: bool) -> Progress {
        match self {
            Child::Memtable(_) if back => self.seek_for_prev(target),
            Child::Memtable(_) => self.seek(target),
            Child::Table(iter, _) => iter.arrive(),
            Child::Level(iter) => iter.finish_seek(),
        }
    }

    /// Sets whether seeks may leave out memtables and tables whose filters do not know the prefix of the target.
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
        }
    }

    /// Passes over deletions, as `TableIter::skip_deletions` does.
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
        }
    }

    /// Passes over deletions of this child and what they delete in `other`, as
    /// `TableIter::skip_deleted` does; nothing if either is no table.
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

    /// The iterator over the table that a child of tables is in.
    fn table_iter(&mut self) -> Option<&mut TableIter> {
        match self {
            Child::Memtable(_) => None,
            Child::Table(iter, _) => Some(iter),
            Child::Level(iter) => iter.table_iter(),
        }
    }

    /// Goes on to the next table where the one that was moved forward has ended.
    fn settle(&mut self, progress: Progress) -> Progress {
        match self {
            Child::Memtable(_) | Child::Table(..) => progress,
            Child::Level(iter) => iter.settle_forward(progress),
        }
    }

    /// True if the child stands on an entry.
    #[inline]
    #[must_use]
    pub fn valid(&self) -> bool {
        match self {
            Child::Memtable(iter) => iter.valid(),
            Child::Table(iter, _) => iter.valid(),
            Child::Level(iter) => iter.valid(),
        }
    }

    /// The internal key of the entry.
    // Asked for several times in each step.
    #[inline(always)]
    #[must_use]
    pub fn key(&self) -> &[u8] {
        match self {
            Child::Memtable(iter) => iter.key(),
            Child::Table(iter, _) => iter.key(),
            Child::Level(iter) => iter.key(),
        }
    }

    /// True if the entry is seen to have another user key than the one before it in the child; `false`
    /// where that cannot be told. User keys are the same if `same` says so.
    #[inline]
    #[must_use]
    pub fn begins_key(&self, same: impl Fn(&[u8], &[u8]) -> bool) -> bool {
        match self {
            Child::Memtable(_) => false,
            Child::Table(iter, _) => iter.begins_key(same),
            Child::Level(iter) => iter.begins_key(same),
        }
    }

    /// The internal key of the entry, and its value.
    #[inline(always)]
    #[must_use]
    pub fn entry(&self) -> (&[u8], &[u8]) {
        match self {
            Child::Memtable(iter) => (iter.key(), iter.value()),
            Child::Table(iter, _) => iter.entry(),
            Child::Level(iter) => iter.entry(),
        }
    }

    /// The internal key of the entry, and the length of its value.
    #[inline(always)]
    #[must_use]
    pub fn head(&self) -> (&[u8], usize) {
        match self {
            Child::Memtable(iter) => (iter.key(), iter.value().len()),
            Child::Table(iter, _) => iter.head(),
            Child::Level(iter) => iter.head(),
        }
    }

    /// The value of the entry.
    #[inline(always)]
    #[must_use]
    pub fn value(&self) -> &[u8] {
        match self {
            Child::Memtable(iter) => iter.value(),
            Child::Table(iter, _) => iter.value(),
            Child::Level(iter) => iter.value(),
        }
    }

    /// The value of the entry, kept alive.
    ///
    /// # Panics
    ///
    /// Unless the child stands on an entry.
    #[must_use]
    pub fn value_pin(&self) -> Value {
        let block = |(buffer, range)| Value::in_block(buffer, range);
        match self {
            Child::Memtable(iter) => {
                Value::in_memtable(iter.pin().expect("the iterator stands on an entry"))
            }
            Child::Table(iter, _) => block(iter.value_pin()),
            Child::Level(iter) => block(iter.value_pin()),
        }
    }

    /// Why the child stands nowhere, if not because there are no more entries.
    ///
    /// # Errors
    ///
    /// The error that ended the iteration.
    pub fn status(&self) -> Result<()> {
        match self {
            Child::Memtable(_) => Ok(()),
            Child::Table(iter, _) => iter.status(),
            Child::Level(iter) => iter.status(),
        }
    }

    /// The block that the child lacks; `None` if it lacks nothing.
    #[must_use]
    pub fn request(&self) -> Option<ReadRequest> {
        match self {
            Child::Memtable(_) => None,
            Child::Table(iter, _) => Some(iter.request()),
            Child::Level(iter) => iter.request(),
        }
    }

    /// Hands over what the child lacks, and goes on.
    pub fn supply(&mut self, bytes: Result<Buffer>) -> Progress {
        match self {
            Child::Memtable(_) => Progress::Ready,
            Child::Table(iter, _) => iter.supply(bytes),
            Child::Level(iter) => iter.supply(bytes),
        }
    }

    /// No entry of the child is newer than this, and those of a memtable, where each entry and each range tombstone has
    /// a number of its own, are not as new.
    pub fn newest(&mut self) -> SequenceNumber {
        match self {
            Child::Memtable(iter) => {
                let largest = iter.table().largest_seq();
                SequenceNumber(largest.0.saturating_sub(1))
            }
            Child::Table(_, largest) => *largest,
            Child::Level(iter) => iter.largest_seq(),
        }
    }
}
