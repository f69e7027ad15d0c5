//! Skips ranges hidden by range tombstones, instead of their entries one by one.
//!
//! A tombstone hides all entries in its range in the children after its own. A seek into the range
//! positions these children at its end, and a step that reaches one of their entries in the range
//! moves them there. Entries in the child of the tombstone may be newer than it and are checked one
//! by one.

use cairn_format::key;
use cairn_types::{Result, SequenceNumber};

use super::DbIter;

impl DbIter {
    /// Seeks the merging iterator to `target` in the current direction.
    #[inline]
    pub(super) fn seek_sources(&mut self) -> Result<()> {
        let covers = self
            .range_dels
            .as_ref()
            .is_some_and(|range_dels| !range_dels.is_empty());
        if covers && self.seek_past_tombstone()? {
            return Ok(());
        }
        let _progress = match self.back {
            false if self.settings.lazy_seeks && self.merging.has_runs() => {
                let seeks = &self.view.family.lazy_seeks;
                self.merging.seek_lazily(&self.target, seeks)
            }
            false => self.merging.seek(&self.target),
            true => self.merging.seek_for_prev(&self.target),
        };
        Ok(())
    }

    /// Seeks past the tombstone that covers the target. Returns false if none does.
    #[inline(never)]
    fn seek_past_tombstone(&mut self) -> Result<bool> {
        let back = self.back;
        if let Some(range_dels) = &mut self.range_dels
            && self.settings.no_timestamps
            && range_dels.covering(key::user_key(&self.target))? > SequenceNumber::ZERO
            && let Some((child, end)) = range_dels.newest_end(back)
        {
            let _progress = self.merging.seek_split(back, &self.target, child, end);
            return Ok(true);
        }
        Ok(false)
    }

    /// The current entry is covered by the last tombstone found. Skips the range if all entries of
    /// the child within it are hidden; returns false otherwise.
    #[inline(never)]
    pub(super) fn skip_tombstone_range(&mut self) -> bool {
        let (Some(range_dels), true) = (&self.range_dels, self.settings.no_timestamps) else {
            return false;
        };
        let back = self.back;
        let skipped = self
            .merging
            .skip_ranges(|at, child| range_dels.hidden_until(at, back, || child.newest()));
        if skipped {
            self.count_hidden();
        }
        skipped
    }
}
