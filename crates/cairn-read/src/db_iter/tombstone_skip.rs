//! Past what range tombstones hide: by range where that can be, instead of entry by entry.
//!
//! Children behind the one that a tombstone lies beside hold nothing in its range that counts. A seek sends them to the end of
//! the range at once, and so does a walk that comes to an entry of theirs there, forward and backward. What lies
//! beside the tombstone itself may be newer than it, and is looked at entry by entry.

use cairn_format::key;
use cairn_types::{Result, SequenceNumber};

use super::DbIter;

impl DbIter {
    /// Moves the merging iterator to `target`, on which a walk in the direction of this one begins.
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
            false => self.merging.seek(&self.target),
            true => self.merging.seek_for_prev(&self.target),
        };
        Ok(())
    }

    /// The same where range tombstones may be; `false` if none covers the target.
    #[inline(never)]
    fn seek_past_tombstone(&mut self) -> Result<bool> {
        let back = self.back;
        if let Some(range_dels) = &mut self.range_dels
            && self.rules.no_timestamps
            && range_dels.covering(key::user_key(&self.target))? > SequenceNumber::ZERO
            && let Some((child, end)) = range_dels.newest_end(back)
        {
            let _progress = self.merging.seek_split(back, &self.target, child, end);
            return Ok(true);
        }
        Ok(false)
    }

    /// The current entry lies under the tombstone that was asked for last. Passes over the whole range, if all of it that the entry's
    /// child holds is hidden; `false` if not.
    #[inline(never)]
    pub(super) fn skip_tombstone_range(&mut self) -> Result<bool> {
        let (Some(range_dels), true) = (&self.range_dels, self.rules.no_timestamps) else {
            return Ok(false);
        };
        let back = self.back;
        let skipped = self
            .merging
            .skip_ranges(|at, child| range_dels.hidden_until(at, back, || child.newest()));
        if skipped {
            self.count_hidden()?;
        }
        Ok(skipped)
    }
}
