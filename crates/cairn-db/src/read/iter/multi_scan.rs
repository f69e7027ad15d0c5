//! Scans over many ranges of a family (`MultiScan`).

use cairn_options::ReadOptions;
use cairn_read::{MultiScanArgs, ScannedRanges};
use cairn_types::{Error, Result};

use super::{Iter, iterated_options, seen_by};
use crate::catalog::release::check_held;
use crate::db::handle::Family;

/// A scan over many ranges, all at the same sequence number. It begins before the first range.
///
/// It dereferences to the iterator over the entries of the current range, which only the scan moves.
pub struct MultiScan {
    /// `None` only while it is dropped. Before the iterator, whose drop may close the database.
    scanned: Option<ScannedRanges>,
    iter: Iter,
}

impl Family {
    /// Creates a scan over the ranges of `args`. The reads for all of them are planned, and started, here. Bounds and
    /// `async_io` of `options` are ignored.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for ranges that are empty, overlap or are not in ascending order; `NotSupported` with
    /// `tailing` or `auto_refresh_iterator_with_snapshot`; `ShutdownInProgress`. Errors of files are those of the
    /// range that needs them.
    pub fn multi_scan(&self, options: &ReadOptions, args: MultiScanArgs) -> Result<MultiScan> {
        let shared = &self.db.shared;
        shared.context.check_reader()?;
        if options.tailing || options.auto_refresh_iterator_with_snapshot {
            return Err(Error::not_supported(
                "a multi-scan with tailing or auto_refresh_iterator_with_snapshot",
            ));
        }
        let (view, seq) = shared.newest(&self.state);
        check_held(&view)?;
        let options = iterated_options(shared, options);
        let view = shared.limited(view, &options);
        let published = seq;
        let seq = seen_by(&options, seq);
        let (mut inner, scanned) = ScannedRanges::plan(view.clone(), seq, &options, args)?;
        inner.allow_range_conversion(published);
        Ok(MultiScan {
            scanned: Some(scanned),
            iter: Iter::around(self, &view, seq, options, inner),
        })
    }
}

impl MultiScan {
    /// Moves to the first entry of the next range, or, if the scan is backward, to the last entry of the preceding
    /// one. Returns the position of the range; `None` after the last. An error of an earlier range is forgotten.
    pub fn next_range(&mut self) -> Option<usize> {
        let scanned = self.scanned.as_mut().expect("present until dropped");
        if !self.iter.before_seek() {
            // Rejected: the error is the status.
            return scanned.skip();
        }
        scanned.enter_next(self.iter.inner_mut())
    }

    /// The number of ranges.
    #[must_use]
    pub fn ranges(&self) -> usize {
        self.scanned().ranges().len()
    }

    /// Reads the value of the entry, if that was deferred (`allow_unprepared_value`). Returns false if it cannot be
    /// read; the error is then the status.
    pub fn prepare_value(&mut self) -> bool {
        self.iter.prepare_value()
    }

    /// Moves to the next entry in the direction of the scan, within the range.
    #[inline]
    pub fn advance(&mut self) {
        match self.scanned().is_reverse() {
            true => self.iter.prev(),
            false => self.iter.next(),
        }
    }

    fn scanned(&self) -> &ScannedRanges {
        self.scanned.as_ref().expect("present until dropped")
    }
}

impl Drop for MultiScan {
    fn drop(&mut self) {
        if self.iter.family.db.shared.context.is_forked() {
            // Releasing blocks and files acquires locks.
            std::mem::forget(self.scanned.take());
        }
    }
}

impl std::ops::Deref for MultiScan {
    type Target = Iter;
    #[inline]
    fn deref(&self) -> &Iter {
        &self.iter
    }
}

impl std::fmt::Debug for MultiScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MultiScan").finish_non_exhaustive()
    }
}
