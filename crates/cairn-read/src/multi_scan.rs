//! Scans over many ranges, whose reads are planned before the first of them (`MultiScan`).
//!
//! The tables that may have keys of the ranges are opened together, the blocks of their indexes are read in common
//! rounds, and then the data blocks of all ranges, or as many as `max_prefetch_size` admits, in one more. The ranges
//! are then scanned one after another by a [`DbIter`], whose bounds change with each range.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use cairn_format::key;
use cairn_observe::Activity;
use cairn_observe::statistics::{Histogram, Ticker};
use cairn_options::{ReadOptions, ReadTier};
use cairn_platform::ReadDriver;
use cairn_table::{PlanOptions, PlannedReads, ReadAhead, ScanPlan, ScanRange, Table};
use cairn_types::{Error, KeyOrder, Result, SequenceNumber};
use cairn_version::{FileMeta, FileToOpen, TableRef, open_together};

use crate::db_iter::DbIter;
use crate::db_iter::bounds::readahead_with;
use crate::read_deadline::ReadDeadline;
use crate::view::View;

/// The number of ranges that are planned together. A plan takes some hundred bytes for each range in each table.
pub(crate) const MOST_PLANNED: usize = 1024;

/// The ranges of a scan, and the manner of its reads.
#[derive(Clone, Debug)]
pub struct MultiScanArgs {
    /// The ranges, in ascending order. They do not overlap, and only the last may have no end.
    pub ranges: Vec<ScanRange>,
    /// The largest number of bytes between two blocks that are read together; 16 KiB by default.
    pub io_coalesce_threshold: u64,
    /// The largest number of bytes that are read before the scan needs them; 0, the default, for no limit. Further
    /// blocks are read when the scan has passed others. RocksDB, whose limit is for each file, ends the scan with
    /// `Incomplete` instead.
    pub max_prefetch_size: u64,
    /// True if blocks are read in the background while the scan processes others. False, the default, if those that
    /// `max_prefetch_size` admits are read in one batch before the first range.
    pub use_async_io: bool,
    /// True if the ranges are scanned from the last to the first, and each of them backward. All must have an end.
    pub reverse: bool,
}

impl Default for MultiScanArgs {
    fn default() -> MultiScanArgs {
        MultiScanArgs {
            ranges: Vec::new(),
            io_coalesce_threshold: 16 << 10,
            max_prefetch_size: 0,
            use_async_io: false,
            reverse: false,
        }
    }
}

impl MultiScanArgs {
    /// Checks the ranges, whose keys are in `order`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if there is no range, if one is empty, if two overlap or are not in ascending order, or if one
    /// that must have an end has none.
    pub fn check(&self, order: &KeyOrder) -> Result<()> {
        let refused = |at: usize, what: &str| {
            Err(Error::invalid_argument(format!(
                "range {at} of a multi-scan {what}"
            )))
        };
        if self.ranges.is_empty() {
            return Err(Error::invalid_argument("a multi-scan without ranges"));
        }
        for (at, range) in self.ranges.iter().enumerate() {
            let is_last = at + 1 == self.ranges.len();
            match &range.limit {
                None if self.reverse => return refused(at, "has no end, and is scanned backward"),
                None if !is_last => return refused(at, "has no end, and is not the last"),
                None => {}
                Some(limit) if key::compare_plain(order, &range.start, limit) != Ordering::Less => {
                    return refused(at, "ends at or before its start");
                }
                Some(_) => {}
            }
            if let Some(before) = at.checked_sub(1)
                && let Some(limit) = &self.ranges[before].limit
                && key::compare_plain(order, &range.start, limit) == Ordering::Less
            {
                return refused(at, "begins before the end of the preceding one");
            }
        }
        Ok(())
    }
}

/// The progress of a scan over many ranges.
pub struct ScannedRanges {
    args: MultiScanArgs,
    options: ReadOptions,
    /// The positions of the ranges that are planned.
    group: Range<usize>,
    ahead: Arc<ReadAhead>,
    /// The number of ranges that were entered.
    entered: usize,
}

impl ScannedRanges {
    /// Plans a scan of `view` at `seq`, and returns its iterator, without a position. Bounds in `options` are
    /// ignored.
    ///
    /// # Errors
    ///
    /// Those of [`MultiScanArgs::check`].
    pub fn plan(
        view: Arc<View>,
        seq: SequenceNumber,
        options: &ReadOptions,
        args: MultiScanArgs,
    ) -> Result<(Box<DbIter>, ScannedRanges)> {
        args.check(&view.family.order)?;
        let first = args.ranges.first().map(|range| range.start.clone());
        let limit = args.ranges.last().and_then(|range| range.limit.clone());
        let options = ReadOptions {
            iterate_lower_bound: first,
            iterate_upper_bound: limit,
            async_io: args.use_async_io,
            ..options.clone()
        };
        let group = match args.reverse {
            false => group_from(0, &args),
            true => group_from(args.ranges.len() - 1, &args),
        };
        let planned = planned(&view, &options, &args, group.clone());
        let ahead = readahead_with(&view, &options, planned);
        let iter = DbIter::with_readahead(view, seq, &options, Some(ahead.clone()));
        let scanned = ScannedRanges {
            args,
            options,
            group,
            ahead,
            entered: 0,
        };
        Ok((iter, scanned))
    }

    /// Moves `iter`, which was planned with this scan, to the first entry of the next range, or to the last if the scan is
    /// backward. Returns the position of the range; `None` at the end.
    pub fn enter_next(&mut self, iter: &mut DbIter) -> Option<usize> {
        let at = self.skip()?;
        let range = &self.args.ranges[at];
        if !self.group.contains(&at) {
            self.group = group_from(at, &self.args);
            let group = self.group.clone();
            let planned = planned(iter.view(), &self.options, &self.args, group);
            self.ahead = readahead_with(iter.view(), &self.options, planned);
        }
        if let Some(planned) = &self.ahead.planned {
            planned.enter(at - self.group.start);
        }
        iter.set_range(range, &self.ahead);
        match self.args.reverse {
            true => iter.seek_to_last(),
            false => iter.seek(&range.start),
        }
        iter.count_scan_error();
        Some(at)
    }

    /// Passes over the next range. Returns its position; `None` at the end.
    pub fn skip(&mut self) -> Option<usize> {
        let left = self.args.ranges.len().checked_sub(self.entered + 1)?;
        self.entered += 1;
        Some(match self.args.reverse {
            true => left,
            false => self.entered - 1,
        })
    }

    /// The reads of the ranges that are planned.
    #[cfg(test)]
    pub(crate) fn planned(&self) -> Option<&Arc<PlannedReads>> {
        self.ahead.planned.as_ref()
    }

    /// True if the ranges are scanned from the last to the first, and backward.
    #[must_use]
    pub fn is_reverse(&self) -> bool {
        self.args.reverse
    }

    /// The ranges.
    #[must_use]
    pub fn ranges(&self) -> &[ScanRange] {
        &self.args.ranges
    }
}

/// The positions of the ranges that are planned together when the range at position `at` is entered.
fn group_from(at: usize, args: &MultiScanArgs) -> Range<usize> {
    match args.reverse {
        false => at..at.saturating_add(MOST_PLANNED).min(args.ranges.len()),
        true => (at + 1).saturating_sub(MOST_PLANNED)..at + 1,
    }
}

/// Returns the reads of the ranges at the positions `group`, of which the first have been executed or started. `None`
/// if they read no table.
fn planned(
    view: &View,
    options: &ReadOptions,
    args: &MultiScanArgs,
    group: Range<usize>,
) -> Option<Arc<PlannedReads>> {
    if options.read_tier != ReadTier::All {
        return None;
    }
    let ranges: Arc<[ScanRange]> = args.ranges[group].into();
    let family = &view.family;
    let began = family.began();
    let deadline = ReadDeadline::of(options);
    let activity = Activity::DbIterator;
    if deadline.check(family).is_err() {
        return None;
    }
    let tables = tables_with(view, options, &ranges);
    if tables.is_empty() {
        return None;
    }
    let plan_options = PlanOptions {
        io_coalesce_threshold: args.io_coalesce_threshold,
        max_prefetch_size: args.max_prefetch_size,
        in_background: args.use_async_io,
        back: args.reverse,
        verify_checksums: options.verify_checksums,
        fill_cache: options.fill_cache,
    };
    let mut plan = ScanPlan::new(ranges, plan_options);
    for (table, ranges) in tables {
        plan.add(table, ranges);
    }
    loop {
        let requests = plan.advance();
        if requests.is_empty() {
            break;
        }
        plan.supply(deadline.read_batch(family, activity, &requests));
    }
    let reads = plan.reads(&family.io);
    match args.use_async_io || family.io.driver() == ReadDriver::Blocking {
        true => reads.start(),
        false => reads.read_first(|requests| deadline.read_batch(family, activity, requests)),
    }
    if let Some(statistics) = &family.statistics
        && let Some(micros) = began.micros(&*family.clock)
    {
        statistics.time(Histogram::MultiscanPrepareIterators, micros);
        statistics.time(Histogram::MultiscanPrepareMicros, micros);
    }
    Some(reads)
}

/// The tables that may have keys of `ranges`, each with the positions of those ranges. Those that cannot be opened are
/// left out: the scan reports the error when it reaches them.
fn tables_with(
    view: &View,
    options: &ReadOptions,
    ranges: &[ScanRange],
) -> Vec<(Arc<Table>, Range<usize>)> {
    let source = &view.family.tables;
    let levels = view.version.levels().iter().enumerate();
    let files = levels.flat_map(|(level, files)| files.files().iter().map(move |it| (level, it)));
    let (to_open, overlaps): (Vec<FileToOpen<'_>>, Vec<Range<usize>>) = files
        .filter_map(|(level, file)| {
            let overlap = ranges_of(&view.family.order, file, ranges);
            let to_open = FileToOpen {
                file,
                level,
                source,
            };
            (!overlap.is_empty()).then_some((to_open, overlap))
        })
        .unzip();
    let opened = open_together(&to_open, &view.family.io);
    let filter = &options.table_filter;
    let chosen = |(table, overlap): (Result<TableRef<'_>>, Range<usize>)| {
        let table = table.ok()?.into_arc();
        filter
            .chooses(table.properties())
            .then_some((table, overlap))
    };
    opened
        .into_iter()
        .zip(overlaps)
        .filter_map(chosen)
        .collect()
}

/// The positions of the ranges that intersect the key range of `file`.
fn ranges_of(order: &KeyOrder, file: &FileMeta, ranges: &[ScanRange]) -> Range<usize> {
    let plain = |user| key::strip_timestamp(user, order.timestamp_size());
    let (smallest, largest) = (
        plain(file.smallest.user_key()),
        plain(file.largest.user_key()),
    );
    let ends_before = |range: &ScanRange| {
        let limit = range.limit.as_ref();
        limit.is_some_and(|limit| key::compare_plain(order, limit, smallest).is_le())
    };
    let starts_within =
        |range: &ScanRange| key::compare_plain(order, &range.start, largest).is_le();
    let first = ranges.partition_point(ends_before);
    first..ranges.partition_point(starts_within).max(first)
}

impl DbIter {
    /// Counts an error of a scan over many ranges, if there is one.
    pub(crate) fn count_scan_error(&self) {
        if let Some(statistics) = &self.view().family.statistics
            && self.status().is_err()
        {
            statistics.add(Ticker::MultiscanSeekErrors, 1);
        }
    }
}
