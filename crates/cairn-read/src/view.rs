//! The view of a read: the memtables and the version of one family at one moment.

use std::sync::Arc;

use cairn_memtable::Memtable;
use cairn_observe::Statistics;
use cairn_platform::sync::{AtomicBool, Ordering};
use cairn_platform::{Clock, Io, Random};
use cairn_types::{KeyOrder, MergeOperator, PrefixExtractor};
use cairn_version::{TableSource, Version};

use crate::blob::BlobSource;

/// The facts of a family that do not change while it is open.
pub struct Reading {
    /// The name, for messages.
    pub family: String,
    /// The order of the keys.
    pub order: KeyOrder,
    /// Combines merge operands with values, both without their dates.
    pub merge_operator: Option<Arc<dyn MergeOperator>>,
    /// True if values and operands are stored with their dates ([`cairn_format::dated`]), which no
    /// reader is shown. Entities have none.
    pub dated: bool,
    /// The extractor of prefix filters and prefix scans.
    pub prefix_extractor: Option<PrefixExtractor>,
    /// Hidden entries that an iterator steps over before it seeks past them.
    pub max_sequential_skip: u64,
    /// Hidden entries of the memtable after which a step of an iterator has it flushed; 0 for never.
    pub memtable_op_scan_flush_trigger: u32,
    /// The same as an average over the steps between two seeks, if these pass over as many as one step
    /// may; 0 for never.
    pub memtable_avg_op_scan_flush_trigger: u32,
    /// Draws the reads that are counted on the files that they go to; `None` if none are.
    pub read_sampler: Option<Arc<dyn Random>>,
    /// Opens the family's tables.
    pub tables: Arc<TableSource>,
    /// Reads values that lie in blob files.
    pub blobs: Arc<BlobSource>,
    /// Carries reads out.
    pub io: Io,
    /// The clock of deadlines.
    pub clock: Arc<dyn Clock>,
    /// The statistics of reads.
    pub statistics: Option<Arc<Statistics>>,
}

/// The state of one family that a read sees. Immutable; a new one replaces it when memtables switch and when
/// jobs install. A holder keeps its memtables in memory and its files on disk.
#[derive(Clone)]
pub struct View {
    /// The memtable that takes writes.
    pub memtable: Arc<Memtable>,
    /// Memtables that wait to be flushed, newest first.
    pub immutables: Vec<Arc<Memtable>>,
    /// The tables.
    pub version: Arc<Version>,
    /// The facts that do not change while the family is open.
    pub family: Arc<Reading>,
    /// How many views of the family came before this one, and one more.
    pub number: u64,
    /// Notes that the view was let go of. The last field: what the others keep is let go of before.
    pub end: ViewEnd,
}

/// Notes the ends of views: each clone sets a flag that all share as it is dropped. Files that only a view kept can be deleted
/// from then on, and no look for such is needed before.
#[derive(Clone, Debug, Default)]
pub struct ViewEnd(Arc<AtomicBool>);

impl ViewEnd {
    /// True if a view has ended since the last call.
    #[must_use]
    pub fn take(&self) -> bool {
        // Mostly nothing has, and nothing is written then: iterators on all cores come here.
        self.0.load(Ordering::Acquire) && self.0.swap(false, Ordering::AcqRel)
    }

    /// True if a view has ended since [`ViewEnd::take`] was called last.
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

impl View {
    /// All memtables, newest first.
    pub fn memtables(&self) -> impl DoubleEndedIterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.memtable).chain(&self.immutables)
    }

    /// The view after `memtable` has taken the place of the one that took writes.
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

    /// The view after a job has installed `version`, without the memtables in `flushed`.
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
