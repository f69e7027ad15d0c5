//! Scans over many ranges, whose reads are planned together.

use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;

use cairn_db::MultiScanArgs;
use cairn_options::ReadOptions;
use cairn_types::Result;

use crate::db::Db;
use crate::entries::KeyValue;
use crate::family::Family;

/// A scan over many ranges of one family, all as of the same point in time: an iterator over iterators.
///
/// Where reads have a latency, it is much faster than one iterator for each range: the blocks of all ranges are read
/// together, those close to each other with one read. [`MultiScanArgs`] limits the size of what is read ahead.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use cairn::{Db, MultiScanArgs, Options, ReadOptions, ScanRange};
///
/// let db = Db::open(dir.path().join("db"), &Options::default().create_if_missing(true))?;
/// for key in ["agate", "basalt", "beryl", "chalk", "gabbro", "garnet"] {
///     db.put(key.as_bytes(), b"1")?;
/// }
/// let range = |start: &str, limit: &str| ScanRange {
///     start: start.into(),
///     limit: Some(limit.into()),
/// };
/// let args = MultiScanArgs {
///     ranges: vec![range("b", "c"), range("g", "h")],
///     ..MultiScanArgs::default()
/// };
/// let mut scan = db.multi_scan(&ReadOptions::default(), args)?;
/// while let Some(entries) = scan.next_range() {
///     assert_eq!(entries.count(), 2);
/// }
/// # Ok::<(), cairn::Error>(())
/// ```
pub struct MultiScan<'db> {
    inner: cairn_db::MultiScan,
    db: PhantomData<&'db Db>,
}

/// The entries of one range of a [`MultiScan`]. Created by [`MultiScan::next_range`].
pub struct RangeEntries<'s> {
    scan: &'s mut cairn_db::MultiScan,
    range: usize,
    /// True if the current entry was returned.
    is_returned: bool,
    is_done: bool,
}

impl MultiScan<'_> {
    /// The entries of the next range, which need not be read to the end; `None` after the last range.
    pub fn next_range(&mut self) -> Option<RangeEntries<'_>> {
        let range = self.inner.next_range()?;
        Some(RangeEntries {
            scan: &mut self.inner,
            range,
            is_returned: false,
            is_done: false,
        })
    }
}

impl RangeEntries<'_> {
    /// The position of the range among those of the scan.
    #[must_use]
    pub fn range(&self) -> usize {
        self.range
    }

    /// Passes key and value of each remaining entry to `visit`, without a copy, until it returns false.
    ///
    /// # Errors
    ///
    /// Those of an iterator ([`Iter::status`](crate::Iter::status)).
    pub fn visit(mut self, mut visit: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        loop {
            if self.is_returned {
                self.scan.advance();
            }
            self.is_returned = true;
            if self.scan.valid() && !self.scan.prepare_value() {
                break;
            }
            let Some((key, value)) = self.scan.entry() else {
                break;
            };
            if !visit(key, value) {
                break;
            }
        }
        self.scan.status()
    }
}

impl Iterator for RangeEntries<'_> {
    type Item = Result<KeyValue>;

    fn next(&mut self) -> Option<Result<KeyValue>> {
        if self.is_done {
            return None;
        }
        if self.is_returned {
            self.scan.advance();
        }
        self.is_returned = true;
        let is_prepared = !self.scan.valid() || self.scan.prepare_value();
        if let Some((key, value)) = self.scan.entry().filter(|_| is_prepared) {
            return Some(Ok((key.into(), value.into())));
        }
        self.is_done = true;
        self.scan.status().err().map(Err)
    }
}

impl FusedIterator for RangeEntries<'_> {}

impl Db {
    /// A scan over many ranges of the default family.
    ///
    /// # Errors
    ///
    /// Those of [`Family::multi_scan`].
    pub fn multi_scan(&self, options: &ReadOptions, args: MultiScanArgs) -> Result<MultiScan<'_>> {
        self.default_family().multi_scan(options, args)
    }
}

impl<'db> Family<'db> {
    /// A scan over many ranges. The reads for all of them are planned, and started, here. Bounds and `async_io` of
    /// `options` are ignored.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for ranges that are empty, overlap or are not in ascending order; `NotSupported` with
    /// `tailing` or `auto_refresh_iterator_with_snapshot`.
    pub fn multi_scan(&self, options: &ReadOptions, args: MultiScanArgs) -> Result<MultiScan<'db>> {
        Ok(MultiScan {
            inner: self.inner.multi_scan(options, args)?,
            db: PhantomData,
        })
    }
}

impl fmt::Debug for MultiScan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiScan").finish_non_exhaustive()
    }
}

impl fmt::Debug for RangeEntries<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RangeEntries")
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}
