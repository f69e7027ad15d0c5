//! Range tombstones over runs of deletions (`min_tombstones_for_range_conversion`).
//!
//! A step that passes a number of deleted keys, with no visible key between them, adds a range tombstone over them to
//! the active memtable, from which later iterators profit. Forward, the range ends at the visible key that the step
//! reaches, or else at the last key that it passed. Backward, it ends at the visible key that the step leaves, or else
//! at the first deleted key that it passed. The range contains only keys between two that were visited, so whatever the
//! options of the iterator hide outside its bounds or its prefix is not in the range. A step that ends with an error
//! adds nothing.
//!
//! `Memtable::add_derived_range` has the reasons why no read notices.

use cairn_format::key;
use cairn_memtable::DerivedRange;
use cairn_observe::statistics::Ticker;
use cairn_options::{ReadOptions, ReadTier};
use cairn_types::{KeyOrder, PrefixExtractor, SequenceNumber};

use super::{DbIter, PrefixUse};
use crate::view::View;

/// A run of deleted keys.
#[derive(Default)]
pub(super) struct RangeConversion {
    threshold: u64,
    /// True if every write that the iterator may see was complete when the iterator began.
    is_allowed: bool,
    /// The number of deletions found.
    count: u64,
    /// The sequence number of the first of them.
    deleted: SequenceNumber,
    /// The deleted key with which the range starts: forward the first that was found, backward the last.
    start: Vec<u8>,
    /// Backward: the key after the range, if `has_end`.
    end: Vec<u8>,
    has_end: bool,
    /// Backward: the number of the deletion that hides the versions of the current key gathered so far; zero if none
    /// does.
    gathered: SequenceNumber,
}

impl RangeConversion {
    /// For an iterator over `view` at `seq`; `None` if it converts nothing.
    #[inline]
    pub(super) fn new(
        view: &View,
        seq: SequenceNumber,
        options: &ReadOptions,
    ) -> Option<Box<RangeConversion>> {
        match view.family.min_tombstones_for_range_conversion {
            0 => None,
            threshold => RangeConversion::at(threshold, view, seq, options),
        }
    }

    #[cold]
    fn at(
        threshold: u32,
        view: &View,
        seq: SequenceNumber,
        options: &ReadOptions,
    ) -> Option<Box<RangeConversion>> {
        let sees_all = options.read_tier != ReadTier::Memtable
            && !options.ignore_range_deletions
            && view.family.order.timestamp_size() == 0;
        (sees_all && !options.tailing && seq < SequenceNumber::MAX).then(|| {
            Box::new(RangeConversion {
                threshold: u64::from(threshold),
                ..RangeConversion::default()
            })
        })
    }

    #[inline]
    fn forget(&mut self) {
        self.count = 0;
        self.has_end = false;
        self.gathered = SequenceNumber::ZERO;
    }
}

impl DbIter {
    /// Lets the iterator add range tombstones to the active memtable of its view if the family has that option.
    /// `published` is a sequence number that was published before the iterator was created: an iterator that sees
    /// writes after it adds nothing.
    #[inline]
    pub fn allow_range_conversion(&mut self, published: SequenceNumber) {
        if let Some(run) = &mut self.conversion {
            run.is_allowed = self.seq <= published;
        }
    }

    /// Counts the current entry, a deletion of a key that has no newer visible version. Forward.
    #[inline]
    pub(super) fn count_deleted(&mut self) {
        if let Some(run) = &mut self.conversion {
            if run.count == 0 {
                let internal = self.merging.key();
                run.deleted = key::sequence(internal);
                key::copy_user_key(&mut run.start, internal);
            }
            run.count += 1;
        }
    }

    /// Counts further deletions of the run. Forward.
    #[inline]
    pub(super) fn count_more_deleted(&mut self, count: u64) {
        if let Some(run) = &mut self.conversion {
            run.count += count;
        }
    }

    /// A backward step leaves the visible key `key`.
    #[inline]
    pub(super) fn begin_run_back(&mut self) {
        if let Some(run) = &mut self.conversion {
            run.end.clone_from(&self.key);
            run.has_end = true;
        }
    }

    /// Counts the current entry like [`DbIter::count_deleted`]. Backward.
    #[inline]
    pub(super) fn count_deleted_back(&mut self) {
        if let Some(run) = &mut self.conversion {
            let internal = self.merging.key();
            run.start.clear();
            run.start.extend_from_slice(key::user_key(internal));
            run.add_start(key::sequence(internal));
        }
    }

    /// Notes whether the versions of `key` gathered so far, of which the newest is given, are hidden by a deletion.
    #[inline]
    pub(super) fn note_gathered(&mut self, seq: SequenceNumber, is_deletion: bool) {
        if let Some(run) = &mut self.conversion {
            run.gathered = match is_deletion {
                true => seq,
                false => SequenceNumber::ZERO,
            };
        }
    }

    /// Counts `key`, all of whose versions are gathered, if a deletion hides them. Backward.
    #[inline]
    pub(super) fn count_gathered(&mut self) {
        if let Some(run) = &mut self.conversion
            && run.gathered > SequenceNumber::ZERO
        {
            run.start.clone_from(&self.key);
            run.add_start(run.gathered);
            run.gathered = SequenceNumber::ZERO;
        }
    }

    /// Ends the run before the visible key of the current entry. Forward.
    #[inline]
    pub(super) fn end_run_at_entry(&mut self) {
        if let Some(run) = &mut self.conversion
            && run.count > 0
        {
            key::copy_user_key(&mut run.end, self.merging.key());
            self.convert();
        }
    }

    /// Ends the run at the end of the iteration, or at a visible key backward.
    #[inline]
    pub(super) fn end_run(&mut self) {
        if let Some(run) = &mut self.conversion
            && run.count > 0
        {
            if !self.back {
                run.end.clone_from(&self.key);
            }
            self.convert();
        }
    }

    /// Forgets the run.
    #[inline]
    pub(super) fn forget_run(&mut self) {
        if let Some(run) = &mut self.conversion {
            run.forget();
        }
    }

    /// Adds a range tombstone over the run if it is long enough, and begins another run.
    #[cold]
    fn convert(&mut self) {
        let covers_all = self.visits_all_keys();
        let Some(run) = &mut self.conversion else {
            return;
        };
        if run.count >= run.threshold && run.is_allowed && covers_all {
            let is_added = self.view.memtable.add_derived_range(&DerivedRange {
                seq: self.seq,
                deleted: run.deleted,
                start: &run.start,
                end: &run.end,
            });
            if let Some(statistics) = &self.view.family.statistics {
                let ticker = match is_added {
                    true => Ticker::ReadPathRangeTombstonesInserted,
                    false => Ticker::ReadPathRangeTombstonesDiscarded,
                };
                statistics.add(ticker, 1);
            }
        }
        run.forget();
    }

    /// True if no key between two visited ones was left out by a prefix filter.
    fn visits_all_keys(&self) -> bool {
        if !self.bounds.filtering {
            return true;
        }
        // Keys of one prefix follow each other.
        let family = &self.view.family;
        let has_one_prefix =
            self.bounds.prefix.is_some() || self.settings.prefix_use == PrefixUse::WithinBound;
        has_one_prefix
            && matches!(family.order, KeyOrder::Bytewise)
            && matches!(
                family.prefix_extractor,
                Some(PrefixExtractor::Fixed(_) | PrefixExtractor::Capped(_))
            )
    }
}

impl RangeConversion {
    /// Counts a deletion of the key `start`. Backward.
    fn add_start(&mut self, seq: SequenceNumber) {
        if self.count == 0 {
            self.deleted = seq;
        }
        self.count += 1;
        if !self.has_end {
            self.end.clone_from(&self.start);
            self.has_end = true;
        }
    }
}
