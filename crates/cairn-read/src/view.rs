//! The view of a read: the memtables and the version of one column family at one point in time.

use std::sync::Arc;

use cairn_memtable::Memtable;
use cairn_observe::Statistics;
use cairn_options::ReadOptions;
use cairn_platform::sync::{AtomicBool, Ordering};
use cairn_platform::{Clock, Io, Limits, Random};
use cairn_types::{Error, KeyOrder, MergeOperator, PrefixExtractor, Result};
use cairn_version::{TableSource, Version};

use crate::blob::BlobSource;
use crate::merging_iter::LazySeeks;
use crate::row_cache::RowCache;

/// The configuration of a column family that is fixed while a view exists.
#[derive(Clone)]
pub struct Reading {
    /// The name of the family, for messages.
    pub family: String,
    /// The order of the keys.
    pub order: KeyOrder,
    /// The merge operator. Its arguments have no TTL timestamps.
    pub merge_operator: Option<Arc<dyn MergeOperator>>,
    /// True if values and operands are stored with TTL timestamps ([`cairn_format::dated`]), which
    /// reads strip. Entities have none.
    pub dated: bool,
    /// True if the database follows another one, whose compactions drop versions that snapshots need: reads at a
    /// snapshot are refused.
    pub follows: bool,
    /// The extractor of prefix filters and prefix scans.
    pub prefix_extractor: Option<PrefixExtractor>,
    /// `max_sequential_skip_in_iterations`: hidden entries that an iterator skips before it
    /// reseeks.
    pub max_sequential_skip: u64,
    /// Hidden memtable entries in one iterator step that trigger a flush; 0 for never.
    pub memtable_op_scan_flush_trigger: u32,
    /// Average number of hidden memtable entries per step between two seeks that triggers a flush,
    /// if they also exceed `memtable_op_scan_flush_trigger` in total; 0 for never.
    pub memtable_avg_op_scan_flush_trigger: u32,
    /// The number of consecutive deletions that an iterator turns into a range tombstone of the active memtable; 0 for
    /// never.
    pub min_tombstones_for_range_conversion: u32,
    /// Random source that selects the sampled reads; `None` if sampling is disabled.
    pub read_sampler: Option<Arc<dyn Random>>,
    /// The benefit of lazy seeks.
    pub lazy_seeks: LazySeeks,
    /// Opens the tables of the family.
    pub tables: Arc<TableSource>,
    /// Reads values from blob files.
    pub blobs: Arc<BlobSource>,
    /// The row cache of point lookups; `None` if keys have timestamps.
    pub row_cache: Option<RowCache>,
    /// The I/O backend.
    pub io: Io,
    /// The clock for deadlines and timers.
    pub clock: Arc<dyn Clock>,
    /// The statistics of reads.
    pub statistics: Option<Arc<Statistics>>,
}

impl Reading {
    /// Creates the configuration of a family with default options: without merge operator, prefix extractor, row cache and
    /// statistics.
    #[must_use]
    pub fn new(
        family: String,
        tables: Arc<TableSource>,
        blobs: Arc<BlobSource>,
        io: Io,
        clock: Arc<dyn Clock>,
    ) -> Reading {
        Reading {
            family,
            order: tables.order.clone(),
            merge_operator: None,
            dated: false,
            follows: false,
            prefix_extractor: None,
            max_sequential_skip: 8,
            memtable_op_scan_flush_trigger: 0,
            memtable_avg_op_scan_flush_trigger: 0,
            min_tombstones_for_range_conversion: 0,
            read_sampler: None,
            lazy_seeks: LazySeeks::default(),
            tables,
            blobs,
            row_cache: None,
            io,
            clock,
            statistics: None,
        }
    }
}

/// The state of one column family that a read sees. Immutable; replaced when memtables switch and
/// when jobs install a version. Holding a view keeps its memtables in memory and its files on disk.
#[derive(Clone)]
pub struct View {
    /// The active memtable.
    pub memtable: Arc<Memtable>,
    /// Immutable memtables queued for flush, newest first.
    pub immutables: Vec<Arc<Memtable>>,
    /// The tables.
    pub version: Arc<Version>,
    /// The configuration of the family.
    pub family: Arc<Reading>,
    /// The sequence number of this view among the views of the family, from 1.
    pub number: u64,
    /// Signals the end of this view. The last field: dropped after the memtables and the version.
    pub end: ViewEnd,
}

impl View {
    /// The same view, whose reads of files are limited by `limits`.
    #[must_use]
    pub fn limited(&self, limits: Limits) -> View {
        View {
            family: Arc::new(Reading {
                io: self.family.io.limited(limits),
                ..Reading::clone(&self.family)
            }),
            ..self.clone()
        }
    }
}

/// A flag shared by all clones that is set when one of them is dropped. Files can become obsolete
/// only if a view has ended, so the search for obsolete files is skipped while the flag is clear.
#[derive(Clone, Debug, Default)]
pub struct ViewEnd(Arc<AtomicBool>);

impl ViewEnd {
    /// True if a view has ended since the last call. Clears the flag.
    #[must_use]
    pub fn take(&self) -> bool {
        // The load avoids writing to a cache line shared by iterators on all cores.
        self.0.load(Ordering::Acquire) && self.0.swap(false, Ordering::AcqRel)
    }

    /// True if a view has ended since the last call of [`ViewEnd::take`].
    #[must_use]
    pub fn is_noted(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Drop for ViewEnd {
    fn drop(&mut self) {
        if !self.is_noted() {
            self.0.store(true, Ordering::Release);
        }
    }
}

/// Returns the timestamp of a read of `view` with `options`.
///
/// # Errors
///
/// `InvalidArgument` if keys have no timestamps; if they have, and the read has none or one of another size; if the
/// history at the timestamp may have been dropped.
pub fn timestamp_of_read<'o>(view: &View, options: &'o ReadOptions) -> Result<&'o [u8]> {
    let order = &view.family.order;
    let low = view.version.history_low();
    let is_valid = |timestamp: &&[u8]| {
        timestamp.len() == order.timestamp_size()
            && !timestamp.is_empty()
            // Keys that differ only in their timestamps are ordered newest first.
            && (low.is_empty() || order.compare(timestamp, low).is_le())
    };
    match options.timestamp.as_deref().filter(is_valid) {
        Some(timestamp) => Ok(timestamp),
        None => Err(refused_timestamp(view, options.timestamp.as_deref())),
    }
}

/// The error of a read of `view` at `timestamp`, which is missing, of another size, or before the history.
#[cold]
fn refused_timestamp(view: &View, timestamp: Option<&[u8]>) -> Error {
    let (size, name) = (view.family.order.timestamp_size(), &view.family.family);
    let Some(timestamp) = timestamp else {
        return Error::invalid_argument(format!(
            "cannot call this method on column family {name} that enables timestamp: the read has no timestamp"
        ));
    };
    if size == 0 {
        return Error::invalid_argument(format!(
            "cannot call this method on column family {name} that does not enable timestamp: the read has a timestamp"
        ));
    }
    let low = view.version.history_low();
    match check_timestamp_size(size, timestamp.len()) {
        Err(error) => error,
        Ok(()) => Error::invalid_argument(format!(
            "Read timestamp: {} is smaller than full_history_ts_low: {}",
            shown_timestamp(timestamp),
            shown_timestamp(low)
        )),
    }
}

/// Checks the size of a timestamp.
///
/// # Errors
///
/// `InvalidArgument` if it is not `expected`.
pub fn check_timestamp_size(expected: usize, found: usize) -> Result<()> {
    match expected == found {
        true => Ok(()),
        false => Err(Error::invalid_argument(format!(
            "Timestamp sizes mismatch: expect {expected}, {found} given"
        ))),
    }
}

/// Returns `timestamp` as text: 8 bytes as a number, other sizes in hexadecimal.
#[must_use]
pub fn shown_timestamp(timestamp: &[u8]) -> String {
    match <[u8; 8]>::try_from(timestamp) {
        Ok(bytes) => u64::from_le_bytes(bytes).to_string(),
        Err(_) => timestamp.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

impl View {
    /// All memtables, newest first.
    pub fn memtables(&self) -> impl DoubleEndedIterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.memtable).chain(&self.immutables)
    }

    /// Returns the view with `memtable` as the active memtable and the previous one immutable.
    #[must_use]
    pub fn with_new_memtable(&self, memtable: Arc<Memtable>) -> View {
        let mut immutables = Vec::with_capacity(self.immutables.len() + 1);
        immutables.push(self.memtable.clone());
        immutables.extend(self.immutables.iter().cloned());
        View {
            memtable,
            immutables,
            version: self.version.clone(),
            family: self.family.clone(),
            number: self.number + 1,
            end: self.end.clone(),
        }
    }

    /// Returns the view with `memtable` as the active memtable, and `ingested` as the newest immutable one. The previous
    /// active memtable becomes immutable before it, unless it is empty.
    #[must_use]
    pub fn with_ingested(&self, ingested: Arc<Memtable>, memtable: Arc<Memtable>) -> View {
        let mut next = self.with_new_memtable(memtable);
        match self.memtable.is_empty() {
            true => next.immutables[0] = ingested,
            false => next.immutables.insert(0, ingested),
        }
        next
    }

    /// Returns the view with `version`, and without the memtables in `flushed`.
    #[must_use]
    pub fn with_version(&self, version: Arc<Version>, flushed: &[Arc<Memtable>]) -> View {
        let stays =
            |memtable: &&Arc<Memtable>| !flushed.iter().any(|gone| Arc::ptr_eq(gone, memtable));
        View {
            memtable: self.memtable.clone(),
            immutables: self.immutables.iter().filter(stays).cloned().collect(),
            version,
            family: self.family.clone(),
            number: self.number + 1,
            end: self.end.clone(),
        }
    }
}
