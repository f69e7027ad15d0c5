//! The life of an iterator: it is made, reads one table or several, and leaves its memory to a later one of its thread.

use std::sync::Arc;

use cairn_format::block::DataCursor;
use cairn_format::table::Handle;
use cairn_memory::spare::Spare;

use super::super::index::IndexIter;
use super::super::lookup_trace::TracedReader;
use super::super::prefetch::Prefetch;
use super::super::table::{SuppliedBlocks, Table};
use super::{IterOptions, PREFETCH_NEVER, Padding, PrefixFilter, TableIter};

/// Maximum number of iterators kept per thread, and maximum bytes of the buffers of each.
const KEPT: usize = 16;
const KEPT_BYTES: usize = 4 << 10;

thread_local! {
    /// Iterators without a table.
    static SPARE: Spare<TableIter> = const { Spare::new() };
}

/// The table that an iterator reads. A recycled iterator has none.
pub(super) struct ReadTable(Option<Arc<Table>>);

impl std::ops::Deref for ReadTable {
    type Target = Arc<Table>;

    #[inline]
    fn deref(&self) -> &Arc<Table> {
        self.0.as_ref().expect("a recycled iterator is not used")
    }
}

impl Drop for TableIter {
    fn drop(&mut self) {
        self.count_end();
    }
}

impl TableIter {
    /// Creates an iterator, which is not valid. It is boxed because moving it costs as much as a search in a block.
    #[must_use]
    pub fn new(table: Arc<Table>, options: IterOptions) -> Box<TableIter> {
        match Spare::take(&SPARE) {
            Some(mut iter) => {
                iter.enter(table, options);
                iter
            }
            None => TableIter::in_new_memory(table, options),
        }
    }

    #[cold]
    fn in_new_memory(table: Arc<Table>, options: IterOptions) -> Box<TableIter> {
        Box::new(TableIter {
            walk: IndexIter::new(&table),
            data: DataCursor::new().with_global_seqno(table.global_seqno),
            target: Vec::new(),
            searches: 0,
            prefetch: Prefetch::new(options.readahead),
            padding: Padding {
                pads: table.pad > 0,
                key: Vec::new(),
            },
            slow: table.has_slow_entries(),
            table: ReadTable(Some(table)),
            supplied: SuppliedBlocks::of_reader(options.caller, options.fill_cache),
            options,
            block: None,
            block_handle: Handle::NULL,
            calm: PREFETCH_NEVER,
            landing: None,
            near: None,
            filter: PrefixFilter::Settled,
            valid: false,
            error: None,
            lack: None,
            held: None,
        })
    }

    /// Lets an iterator without a table read `table`.
    #[inline]
    fn enter(&mut self, table: Arc<Table>, options: IterOptions) {
        self.walk.reset_to(&table);
        self.data.set_global_seqno(table.global_seqno);
        self.prefetch.set_fixed(options.readahead);
        self.padding.pads = table.pad > 0;
        self.slow = table.has_slow_entries();
        self.supplied.reader = Some(TracedReader {
            caller: options.caller,
            fills: options.fill_cache,
        });
        self.options = options;
        self.table = ReadTable(Some(table));
    }

    /// Lets the iterator read `table` from its beginning, instead of its current table, as a new one would.
    pub fn change_table(&mut self, table: Arc<Table>, options: IterOptions) {
        self.leave_table();
        self.enter(table, options);
    }

    /// Drops the iterator, and keeps its memory for later iterators of the thread.
    pub fn recycle(mut self: Box<Self>) {
        self.leave_table();
        let buffers = self.data.memory_usage()
            + self.walk.memory_usage()
            + self.target.capacity()
            + self.padding.key.capacity();
        if buffers > KEPT_BYTES {
            return;
        }
        Spare::keep(&SPARE, KEPT, self);
    }

    /// Releases the table and its blocks. The iterator is then like a new one that has no table.
    fn leave_table(&mut self) {
        self.count_end();
        self.table = ReadTable(None);
        self.walk.release();
        self.data.clear();
        self.block = None;
        self.block_handle = Handle::NULL;
        self.calm = PREFETCH_NEVER;
        self.landing = None;
        self.near = None;
        self.filter = PrefixFilter::Settled;
        self.target.clear();
        self.padding.key.clear();
        self.valid = false;
        self.error = None;
        self.lack = None;
        self.supplied.clear();
        self.supplied.forget_on_device();
        self.held = None;
        self.prefetch.reset();
        self.searches = 0;
    }

    /// Reports the counts of an iterator that leaves its table.
    fn count_end(&mut self) {
        let Some(table) = &self.table.0 else {
            return;
        };
        self.prefetch.count_end(table);
        if let Some(ahead) = &mut self.prefetch.background {
            ahead.count_end(table);
        }
        if !self.supplied.counts.is_empty() {
            table.bring(&self.supplied.counts);
        }
    }
}
