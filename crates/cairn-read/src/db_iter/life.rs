//! The life of an iterator: it is made, reads one view or several, and leaves its memory to a later one of its thread.

use std::sync::Arc;

use cairn_format::trace::block_cache::CacheCaller;
use cairn_memory::spare::Spare;
use cairn_observe::statistics::Ticker;
use cairn_options::ReadOptions;
use cairn_table::{IterOptions, ReadAhead};
use cairn_types::{KeyOrder, SequenceNumber};

use super::bounds::{self, refused, sources};
use super::{
    Bounds, Counters, DbIter, History, Position, RangeConversion, ScanFlushTrigger, Settings, Task,
    Versions,
};
use crate::level::Tables;
use crate::merging_iter::MergingIter;
use crate::view::View;

/// Maximum number of iterators kept per thread, and maximum bytes of the buffers of each.
const KEPT: usize = 4;
const KEPT_BYTES: usize = 4 << 10;

thread_local! {
    /// Iterators without a view.
    static SPARE: Spare<DbIter> = const { Spare::new() };
}

/// The view that an iterator reads. A recycled iterator has none.
pub(super) struct HeldView(Option<Arc<View>>);

impl std::ops::Deref for HeldView {
    type Target = Arc<View>;

    #[inline]
    fn deref(&self) -> &Arc<View> {
        self.0.as_ref().expect("a recycled iterator is not used")
    }
}

impl Drop for DbIter {
    fn drop(&mut self) {
        self.end();
    }
}

impl DbIter {
    /// An iterator over `view` at `seq`, without a position. Unsupported `options` are reported by
    /// [`DbIter::status`]. It is boxed because moving it costs as much as a step.
    #[must_use]
    pub fn new(view: Arc<View>, seq: SequenceNumber, options: &ReadOptions) -> Box<DbIter> {
        let ahead = bounds::read_ahead(&view, options);
        DbIter::with_readahead(view, seq, options, ahead)
    }

    /// [`DbIter::new`] with this readahead.
    #[inline]
    pub(crate) fn with_readahead(
        view: Arc<View>,
        seq: SequenceNumber,
        options: &ReadOptions,
        ahead: Option<Arc<ReadAhead>>,
    ) -> Box<DbIter> {
        let mut iter = Spare::take(&SPARE).unwrap_or_else(DbIter::in_new_memory);
        iter.begin(view, seq, options, ahead);
        iter
    }

    /// An iterator without a view.
    #[cold]
    fn in_new_memory() -> Box<DbIter> {
        Box::new(DbIter {
            seq: SequenceNumber::ZERO,
            settings: Settings::default(),
            bounds: Bounds::default(),
            merging: MergingIter::new(KeyOrder::Bytewise, Vec::new()),
            range_dels: None,
            position: Position::Invalid,
            task: Task::Rest,
            back: false,
            needs_reposition: false,
            fast_ranges: Default::default(),
            key: Vec::new(),
            versions: Versions::default(),
            counters: Counters::default(),
            conversion: None,
            target: Vec::new(),
            last_reseek_target: Vec::new(),
            blobs_ahead: None,
            error: None,
            history: None,
            view: HeldView(None),
        })
    }

    /// Lets an iterator without a view read `view`.
    fn begin(
        &mut self,
        view: Arc<View>,
        seq: SequenceNumber,
        options: &ReadOptions,
        ahead: Option<Arc<ReadAhead>>,
    ) {
        if let Some(statistics) = &view.family.statistics {
            statistics.add(Ticker::NoIteratorCreated, 1);
        }
        let order = &view.family.order;
        self.seq = seq;
        self.settings = Settings::of(&view, options);
        self.bounds.lower.clone_from(&options.iterate_lower_bound);
        self.bounds.upper.clone_from(&options.iterate_upper_bound);
        self.merging.set_order(order);
        let tables = Tables {
            reading: view.family.clone(),
            options: IterOptions {
                fill_cache: options.fill_cache,
                verify_checksums: options.verify_checksums,
                readahead: options.readahead_size,
                prefix_filter: false,
                caller: CacheCaller::Iterator,
            },
            cache_only: self.settings.cache_only,
            ahead,
        };
        self.error = refused(&view, options);
        if self.error.is_none() {
            let children = self.merging.children_to_fill();
            match sources(&view, seq, &tables, options, children) {
                Ok(range_dels) => self.range_dels = range_dels,
                Err(error) => {
                    children.clear();
                    self.error = Some(error);
                }
            }
            self.merging.begin();
        }
        self.counters.flush_trigger = ScanFlushTrigger::new(&view, options);
        self.conversion = RangeConversion::new(&view, seq, options);
        self.blobs_ahead = bounds::blobs_ahead(&view, options);
        self.history = History::new(options);
        self.view = HeldView(Some(view));
    }

    /// Drops the iterator, and keeps its memory for later iterators of the thread.
    pub fn recycle(mut self: Box<Self>) {
        self.end();
        self.reset();
        let buffers = [&self.key, &self.target, &self.last_reseek_target].map(Vec::capacity);
        if buffers.iter().sum::<usize>() > KEPT_BYTES || !self.merging.is_small() {
            return;
        }
        Spare::keep(&SPARE, KEPT, self);
    }

    /// Counts the end of the iteration.
    fn end(&mut self) {
        if self.view.0.is_some() {
            self.count_end();
            self.record_lazy_seek();
        }
        if let Some(trigger) = &mut self.counters.flush_trigger {
            trigger.end_scan();
        }
    }

    /// Releases everything. The iterator is then like a new one that has no view.
    fn reset(&mut self) {
        // The view comes last: it keeps the files of the rest.
        self.merging.reset();
        self.range_dels = None;
        self.position = Position::Invalid;
        self.task = Task::Rest;
        self.back = false;
        self.needs_reposition = false;
        self.fast_ranges = Default::default();
        self.key.clear();
        self.versions.reset();
        self.counters = Counters::default();
        self.conversion = None;
        self.target.clear();
        self.last_reseek_target.clear();
        self.blobs_ahead = None;
        self.error = None;
        self.history = None;
        self.bounds = Bounds::default();
        self.settings.read_ts = None;
        self.view = HeldView(None);
    }
}
