//! Sorted runs that jobs read: memtables, and concatenated tables of a level.

use cairn_format::key;
use cairn_memtable::MemtableWalk;
use cairn_platform::Io;
use cairn_platform::sync::Arc;
use cairn_table::{Background, IterOptions, ReadAhead, Table, TableIter};
use cairn_types::{KeyOrder, Progress, Result};
use cairn_version::FileMeta;

use crate::sorted_runs::Run;

impl Run for MemtableWalk {
    fn start(&mut self, target: Option<&[u8]>) {
        MemtableWalk::start(self, target);
    }

    #[inline]
    fn next(&mut self) {
        MemtableWalk::next(self);
    }

    #[inline]
    fn valid(&self) -> bool {
        self.iter().valid()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.iter().key()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.iter().value()
    }

    fn status(&self) -> Result<()> {
        self.iter().status()
    }
}

/// An input table, with its bounds from the version.
#[derive(Clone)]
pub(crate) struct InputTable {
    pub(crate) file: Arc<FileMeta>,
    pub(crate) table: Arc<Table>,
}

/// Disjoint tables in key order, read as one run.
pub(crate) struct Tables {
    order: KeyOrder,
    tables: Vec<InputTable>,
    options: IterOptions,
    io: Io,
    /// Readahead in the background, for files that the kernel does not prefetch.
    ahead: Arc<ReadAhead>,
    /// Index of the table after the one under `iter`.
    next: usize,
    iter: Option<Box<TableIter>>,
    /// The iterator of that table, if it is being read.
    reading: Option<Box<TableIter>>,
}

impl Tables {
    pub(crate) fn new(
        order: KeyOrder,
        tables: Vec<InputTable>,
        options: IterOptions,
        io: Io,
    ) -> Tables {
        debug_assert!(
            tables.windows(2).all(|pair| {
                let [left, right] = [&pair[0].file.smallest, &pair[1].file.smallest];
                key::compare(&order, left.as_bytes(), right.as_bytes()).is_lt()
            }),
            "the tables of a run are in key order"
        );
        let ahead = ReadAhead {
            ends_at_bounds: false,
            planned: None,
            io: io.clone(),
            background: Background::Unprefetched,
            lower: None,
            upper: None,
            trims: false,
            keeps_size: false,
        };
        Tables {
            order,
            tables,
            options,
            io,
            ahead: Arc::new(ahead),
            next: 0,
            iter: None,
            reading: None,
        }
    }

    /// An iterator over `table`.
    fn iter_of(&self, table: &Arc<Table>) -> Box<TableIter> {
        let mut iter = TableIter::new(table.clone(), self.options);
        if self.options.readahead > 0 {
            iter.read_ahead(&self.ahead);
        }
        iter
    }

    /// Starts to read the next table, once the current one has been read to its end.
    fn read_next(&mut self) {
        let reads_on =
            |iter: &&TableIter| iter.has_read_to_end() && iter.admits_beyond(iter.chunks_held());
        let Some(iter) = self.iter.as_deref().filter(reads_on) else {
            return;
        };
        match &mut self.reading {
            Some(next) => next.read_on(),
            None => {
                self.reading = self.tables.get(self.next).map(|input| {
                    let mut next = self.iter_of(&input.table);
                    iter.read_into(&mut next, false);
                    next
                });
            }
        }
    }

    /// Moves to the first table, starting with `self.next`, that has an entry at or after `target`.
    /// If a table fails, the run ends with its error.
    fn open_next(&mut self, target: Option<&[u8]>) {
        self.iter = None;
        while let Some(input) = self.tables.get(self.next) {
            let reading = self.reading.take();
            let mut iter = reading.unwrap_or_else(|| self.iter_of(&input.table));
            let step = match target {
                Some(target) => iter.seek(target),
                None => iter.seek_to_first(),
            };
            iter.complete(step, &self.io);
            self.next += 1;
            let found = iter.valid() || iter.status().is_err();
            self.iter = Some(iter);
            if found {
                break;
            }
        }
    }

    /// Handles a step that has reached the end of a table or needs I/O.
    #[cold]
    fn leave(&mut self, step: Progress) {
        let Some(iter) = &mut self.iter else {
            return;
        };
        iter.complete(step, &self.io);
        if !iter.valid() && iter.status().is_ok() {
            self.open_next(None);
        }
        self.read_next();
    }
}

impl Run for Tables {
    fn start(&mut self, target: Option<&[u8]>) {
        self.next = target.map_or(0, |target| {
            self.tables.partition_point(|input| {
                key::compare(&self.order, input.file.largest.as_bytes(), target).is_lt()
            })
        });
        self.reading = None;
        self.open_next(target);
    }

    #[inline]
    fn next(&mut self) {
        let Some(iter) = &mut self.iter else {
            return;
        };
        let step = iter.next();
        if step != Progress::Ready || !iter.valid() {
            self.leave(step);
        }
    }

    #[inline]
    fn valid(&self) -> bool {
        self.iter.as_deref().is_some_and(TableIter::valid)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.iter.as_deref().map_or(&[], TableIter::key)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.iter.as_deref().map_or(&[], TableIter::value)
    }

    fn status(&self) -> Result<()> {
        self.iter.as_deref().map_or(Ok(()), TableIter::status)
    }
}
