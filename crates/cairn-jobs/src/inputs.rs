//! Sorted runs that jobs read: memtables, and concatenated tables of a level.

use cairn_format::key;
use cairn_memtable::MemtableWalk;
use cairn_platform::Io;
use cairn_platform::sync::Arc;
use cairn_table::{Background, IterOptions, ReadAhead, Table, TableIter};
use cairn_types::{Error, KeyOrder, Progress, Result};
use cairn_version::FileMeta;
use cairn_version::file_meta::EntryCounts;

use crate::context::OpenTable;
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

    #[cold]
    fn source(&self) -> String {
        "a memtable".to_owned()
    }
}

/// A sorted run of inputs: disjoint tables in key order.
pub(crate) type InputRun = Arc<[InputTable]>;

/// All inputs of `runs`.
pub(crate) fn inputs(runs: &[InputRun]) -> impl Iterator<Item = &InputTable> + Clone {
    runs.iter().flat_map(|run| run.iter())
}

/// The largest number of inputs that a job holds open. With more, each is opened to prepare the job, and again when it
/// is read, so that the memory of open tables does not grow with the number of inputs. Builds with debug assertions hold
/// few, for test coverage.
pub(crate) const MAX_HELD: usize = if cfg!(debug_assertions) { 3 } else { 256 };

/// An input table, with its bounds from the version.
pub(crate) struct InputTable {
    pub(crate) file: Arc<FileMeta>,
    pub(crate) facts: InputFacts,
    access: Access,
}

/// How the table of an input is reached.
enum Access {
    Held(Arc<Table>),
    OnDemand { level: usize, open: Arc<OpenTable> },
}

/// What the properties of an input state.
pub(crate) struct InputFacts {
    /// Its entries; 0 if their number is unknown.
    pub(crate) counts: EntryCounts,
    /// Bytes of the data blocks; 0 if they are unknown.
    pub(crate) data_bytes: u64,
    /// True if the table has range tombstones.
    pub(crate) has_tombstones: bool,
}

impl InputTable {
    /// Opens the table of `file`, and holds it if `held`.
    pub(crate) fn open(
        open: &Arc<OpenTable>,
        file: &Arc<FileMeta>,
        level: usize,
        held: bool,
    ) -> Result<InputTable> {
        let table = open(file, level)?;
        let properties = table.properties();
        let facts = InputFacts {
            counts: EntryCounts::of(properties),
            data_bytes: properties.data_size,
            has_tombstones: table.range_tombstones().is_some(),
        };
        let access = match held {
            true => Access::Held(table),
            false => Access::OnDemand {
                level,
                open: open.clone(),
            },
        };
        Ok(InputTable {
            file: file.clone(),
            facts,
            access,
        })
    }

    /// The table, which is opened if it is not held.
    pub(crate) fn table(&self) -> Result<Arc<Table>> {
        match &self.access {
            Access::Held(table) => Ok(table.clone()),
            Access::OnDemand { level, open } => open(&self.file, *level),
        }
    }
}

/// Disjoint tables in key order, read as one run.
pub(crate) struct Tables {
    order: KeyOrder,
    tables: InputRun,
    options: IterOptions,
    io: Io,
    /// Readahead in the background, for files that the kernel does not prefetch.
    ahead: Arc<ReadAhead>,
    /// Index of the table after the one under `iter`.
    next: usize,
    iter: Option<Box<TableIter>>,
    /// The iterator of that table, if it is being read.
    reading: Option<Box<TableIter>>,
    /// The error of a table that could not be opened.
    error: Option<Error>,
}

impl Tables {
    pub(crate) fn new(order: KeyOrder, tables: InputRun, options: IterOptions, io: Io) -> Tables {
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
            error: None,
        }
    }

    /// An iterator over the table of `input`.
    fn iter_of(&self, input: &InputTable) -> Result<Box<TableIter>> {
        let mut iter = TableIter::new(input.table()?, self.options);
        if self.options.readahead > 0 {
            iter.read_ahead(&self.ahead);
        }
        Ok(iter)
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
                // An error is that of the table's turn.
                let input = self.tables.get(self.next);
                let mut next = input.and_then(|input| self.iter_of(input).ok());
                if let Some(next) = &mut next {
                    iter.read_into(next, false);
                }
                self.reading = next;
            }
        }
    }

    /// Moves to the first table, starting with `self.next`, that has an entry at or after `target`.
    /// If a table fails, the run ends with its error.
    fn open_next(&mut self, target: Option<&[u8]>) {
        self.iter = None;
        while let Some(input) = self.tables.get(self.next) {
            let reading = self.reading.take();
            let mut iter = match reading.map_or_else(|| self.iter_of(input), Ok) {
                Ok(iter) => iter,
                Err(error) => {
                    self.error = Some(error);
                    return;
                }
            };
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
        self.error = None;
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
        match (&self.error, self.iter.as_deref()) {
            (Some(error), _) => Err(error.clone()),
            (None, iter) => iter.map_or(Ok(()), TableIter::status),
        }
    }

    #[cold]
    fn source(&self) -> String {
        match &self.iter {
            Some(iter) => iter.table().path().display().to_string(),
            None => "an input of a compaction".to_owned(),
        }
    }
}
