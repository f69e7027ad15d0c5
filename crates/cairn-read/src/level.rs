//! A sorted level as one source: its tables in order, each opened when it is reached.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use cairn_format::filter::FilterKey;
use cairn_format::key;
use cairn_platform::{Buffer, ReadRequest};
use cairn_table::{IterOptions, ReadAhead, ReadaheadSize, Table, TableIter};
use cairn_types::{Error, KeyOrder, Progress, Result, SequenceNumber};
use cairn_version::{FileMeta, FileToOpen, LevelFiles, TableRef};

use crate::child::Child;
use crate::file_read_sample;
use crate::view::Reading;

/// The tables of an iterator, and the options for reading them.
#[derive(Clone)]
pub struct Tables {
    /// The configuration of the family.
    pub reading: Arc<Reading>,
    /// Options of table iterators.
    pub options: IterOptions,
    /// True if only cached data may be read.
    pub cache_only: bool,
    /// The bounds of iteration and the readahead; `None` for readahead without bounds. Files that start at or
    /// after the upper bound are not opened.
    pub ahead: Option<Arc<ReadAhead>>,
}

impl Tables {
    /// An iterator over `table`.
    #[must_use]
    pub fn iter(&self, table: Arc<Table>) -> Box<TableIter> {
        let options = self.options_for(&table);
        TableIter::new(table, options)
    }

    /// A child over `table`, which has this largest sequence number. Its iterator is made when it is first positioned,
    /// unless it reads ahead.
    #[inline]
    pub(crate) fn child(&self, table: Arc<Table>, largest: SequenceNumber) -> Child {
        if self.ahead.is_none() {
            let options = self.options_for(&table);
            return Child::unread(table, options, largest);
        }
        let mut iter = self.iter(table);
        self.prepare(&mut iter);
        Child::Table(iter, largest)
    }

    /// The options of an iterator over `table`. The prefix filter is ignored if the table was opened with a different
    /// prefix extractor.
    #[inline]
    fn options_for(&self, table: &Table) -> IterOptions {
        let mut options = self.options;
        options.prefix_filter =
            options.prefix_filter && table.has_prefixes_of(self.reading.prefix_extractor.as_ref());
        options
    }

    /// Lets `iter`, which is new, read ahead as the options of the scan request.
    // Apart from `Tables::iter`, so that an iterator is built where it stays.
    #[inline]
    pub fn prepare(&self, iter: &mut TableIter) {
        if let Some(ahead) = &self.ahead {
            iter.read_ahead(ahead);
        }
    }

    /// The table of `file`, if planned reads keep it open.
    #[cold]
    fn planned(&self, file: &FileMeta) -> Option<Arc<Table>> {
        let planned = self.ahead.as_ref()?.planned.as_ref()?;
        planned.table(file.number).cloned()
    }

    /// The table of `file`, opened if necessary.
    ///
    /// # Errors
    ///
    /// Those of opening it; `Incomplete` if it is not open and `cache_only` is set.
    pub fn table(&self, file: &Arc<FileMeta>, level: usize) -> Result<Arc<Table>> {
        if let Some(table) = file.table.get() {
            return Ok(table.into_arc());
        }
        if let Some(planned) = self.planned(file) {
            return Ok(planned);
        }
        if self.cache_only {
            return Err(storage_forbidden());
        }
        let opened = self.reading.tables.open(file, level, &self.reading.io);
        opened.map(TableRef::into_arc)
    }
}

/// The error of a read that would access storage although `read_tier` forbids it.
#[cold]
pub(crate) fn storage_forbidden() -> Error {
    Error::incomplete("the read needs storage access, which read_tier forbids")
}

/// The largest number of tables that a level reads before they are reached.
const MOST_NEXT: usize = 16;

/// Tables that follow the current one, with their positions.
type NextTables = VecDeque<(usize, Box<TableIter>)>;

/// An iterator over a sorted level. Implements the contract of `cairn_types::iter`.
pub struct LevelIter {
    level: usize,
    files: Arc<LevelFiles>,
    tables: Tables,
    /// The position of the file that `iter` reads.
    at: usize,
    iter: Option<Box<TableIter>>,
    /// The next tables in the direction of iteration, whose blocks are being read. Boxed: few iterators read
    /// ahead, and the others stay small.
    next: Option<Box<NextTables>>,
    back: bool,
    /// True if the current seek is sampled for the file in which it ends.
    sampled: bool,
    error: Option<Error>,
    largest_seq: Option<SequenceNumber>,
    /// The position of the file that [`LevelIter::begin_filter`] has found.
    filtered: usize,
}

impl Drop for LevelIter {
    fn drop(&mut self) {
        if let Some(iter) = self.iter.take() {
            iter.recycle();
        }
    }
}

impl LevelIter {
    /// An iterator over `files`, the files of `level`. Entries at or after the upper bound of `tables` may be
    /// omitted.
    #[must_use]
    pub fn new(level: usize, files: Arc<LevelFiles>, tables: Tables) -> LevelIter {
        LevelIter {
            level,
            files,
            tables,
            at: 0,
            iter: None,
            next: None,
            back: false,
            sampled: false,
            error: None,
            largest_seq: None,
            filtered: 0,
        }
    }

    /// Prefetches for [`LevelIter::may_have`], which a seek to `target` calls for `key`, its user key. Returns false if
    /// the table of the target is not open, or holds no filter of keys.
    #[inline]
    pub(crate) fn begin_filter(&mut self, target: &[u8], key: &FilterKey<'_>) -> bool {
        self.filtered = self.find(target, false).unwrap_or(self.files.len());
        let Some(file) = self.files.files().get(self.filtered) else {
            return true;
        };
        file.table.get().is_some_and(|table| {
            table.prefetch_key_filter(key);
            table.holds_key_filter()
        })
    }

    /// False if the level does not have `key`.
    #[inline]
    pub(crate) fn may_have(&self, key: &FilterKey<'_>) -> bool {
        let file = self.files.files().get(self.filtered);
        file.is_some_and(|file| {
            let table = file.table.get();
            table.is_none_or(|table| table.may_have_key(key))
        })
    }

    /// Moves to the first entry at or after `target`.
    pub fn seek(&mut self, target: &[u8]) -> Progress {
        let at = self.find(target, false);
        self.start(at, false, |iter| iter.seek(target))
    }

    /// [`LevelIter::seek`] after [`LevelIter::begin_filter`] with the same `target`.
    pub(crate) fn seek_filtered(&mut self, target: &[u8]) -> Progress {
        self.start(Some(self.filtered), false, |iter| iter.seek(target))
    }

    /// Moves to the last entry at or before `target`.
    pub fn seek_for_prev(&mut self, target: &[u8]) -> Progress {
        let at = self.find(target, true);
        self.start(at, true, |iter| iter.seek_for_prev(target))
    }

    /// Starts a staged `seek`, or `seek_for_prev` if `back`, completed by
    /// [`LevelIter::finish_seek`].
    pub(crate) fn begin_seek(&mut self, target: &[u8], back: bool) {
        let at = self.find(target, back);
        let _nowhere_yet = self.start(at, back, |iter| {
            iter.set_out(target, back);
            Progress::Lacks
        });
    }

    /// The position of the file that may hold the first entry at or after `target`, or, if `back`,
    /// the last entry at or before it.
    fn find(&self, target: &[u8], back: bool) -> Option<usize> {
        let order = &self.tables.reading.order;
        let at = self.files.find(order, target);
        let starts_after =
            |file: &Arc<FileMeta>| key::compare(order, file.smallest.as_bytes(), target).is_gt();
        match self.files.files().get(at) {
            Some(file) if back && starts_after(file) => at.checked_sub(1),
            None if back => at.checked_sub(1),
            _ => Some(at),
        }
    }

    /// The file that a seek to `target`, or to the end if there is none, enters, if its table is to be opened.
    pub(crate) fn unopened(&self, target: Option<&[u8]>, back: bool) -> Option<FileToOpen<'_>> {
        let at = match target {
            Some(target) => self.find(target, back)?,
            None if back => self.files.len().checked_sub(1)?,
            None => 0,
        };
        let file = self.files.files().get(at)?;
        let (level, source) = (self.level, &self.tables.reading.tables);
        file.table.get().is_none().then_some(FileToOpen {
            file,
            level,
            source,
        })
    }

    /// The second stage of a seek: prefetches the data block.
    pub(crate) fn prefetch_block(&mut self) {
        if let Some(iter) = &mut self.iter {
            iter.reach();
        }
    }

    /// The third stage of a seek: pins the data block.
    pub(crate) fn pin_block(&mut self) {
        if let Some(iter) = &mut self.iter {
            iter.hold();
        }
    }

    /// The last stage of a seek.
    pub(crate) fn finish_seek(&mut self) -> Progress {
        let Some(iter) = &mut self.iter else {
            return Progress::Ready;
        };
        let progress = iter.arrive();
        self.settle(progress)
    }

    /// Moves to the first entry.
    pub fn seek_to_first(&mut self) -> Progress {
        self.start(Some(0), false, TableIter::seek_to_first)
    }

    /// Moves to the last entry.
    pub fn seek_to_last(&mut self) -> Progress {
        self.start(
            self.files.len().checked_sub(1),
            true,
            TableIter::seek_to_last,
        )
    }

    /// Moves to the next entry and returns the [prefix](key::prefix) of its key; see
    /// `TableIter::next_prefix`.
    #[inline]
    pub fn next_prefix(&mut self, order: &KeyOrder) -> Option<u64> {
        self.back = false;
        let prefix = self.iter.as_mut()?.next_prefix(order);
        if prefix.is_none() {
            self.settle_step();
        }
        prefix
    }

    /// Moves to the previous entry; see [`LevelIter::next_prefix`].
    #[inline]
    pub fn prev_prefix(&mut self, order: &KeyOrder) -> Option<u64> {
        self.back = true;
        let prefix = self.iter.as_mut()?.prev_prefix(order);
        if prefix.is_none() {
            self.settle_step();
        }
        prefix
    }

    /// The result of the last operation.
    #[inline]
    pub fn progress(&self) -> Progress {
        let iter = self.iter.as_deref();
        iter.map_or(Progress::Ready, TableIter::progress)
    }

    /// Continues with the neighbouring table if a step has exhausted the current one.
    fn settle_step(&mut self) {
        if !self.valid() {
            let _progress = self.settle(self.progress());
        }
        if self.tables.ahead.is_some() {
            self.read_next_tables();
        }
    }

    /// Starts to read the next tables, once those before them have been read to their ends.
    #[cold]
    fn read_next_tables(&mut self) {
        let Some(iter) = &self.iter else {
            return;
        };
        if self.next.is_none() && !iter.has_read_to_end() {
            return;
        }
        let none = || Box::new(VecDeque::new());
        let mut all = self.next.take().unwrap_or_else(none);
        all.iter_mut().for_each(|(_, next)| next.read_on());
        let mut held = iter.chunks_held();
        held += all.iter().map(|next| next.1.chunks_held()).sum::<usize>();
        while all.len() < MOST_NEXT {
            let (at, last) = match all.back() {
                Some((at, last)) => (*at, last),
                None => (self.at, iter),
            };
            if !last.has_read_to_end() || !iter.admits_beyond(held) {
                break;
            }
            let next = self.neighbour_of(at).and_then(|at| {
                let file = self.files.files().get(at)?;
                // An error is reported when the table is reached.
                let table = self.tables.table(file, self.level).ok()?;
                let mut next = self.tables.iter(table);
                self.tables.prepare(&mut next);
                Some((at, next))
            });
            let Some((at, mut next)) = next else {
                break;
            };
            iter.read_into(&mut next, self.back);
            held += next.chunks_held();
            all.push_back((at, next));
        }
        self.next = Some(all);
    }

    /// The position of the file after that at position `at` in the direction of iteration, unless it is
    /// outside of the range.
    fn neighbour_of(&self, at: usize) -> Option<usize> {
        if self.back {
            return at
                .checked_sub(1)
                .filter(|&at| !self.ends_before_lower_bound(at));
        }
        let at = at + 1;
        let is_outside = self.starts_after_upper_bound(at) || self.starts_after_prefix(at);
        (at < self.files.len() && !is_outside).then_some(at)
    }

    /// Reads ahead by `ahead`, with other bounds, from the next movement on, which is a seek.
    pub(crate) fn renew_readahead(&mut self, ahead: &Arc<ReadAhead>) {
        self.tables.ahead = Some(ahead.clone());
        // Made with the other bounds.
        self.next = None;
        if let Some(iter) = &mut self.iter {
            iter.renew_readahead(ahead);
        }
    }

    /// Controls whether seeks may skip tables whose prefix filters exclude the prefix of the
    /// target.
    pub(crate) fn set_prefix_filter(&mut self, on: bool) {
        self.tables.options.prefix_filter = on;
        // Made with the other setting.
        self.next = None;
        if let Some(iter) = &mut self.iter {
            let extractor = self.tables.reading.prefix_extractor.as_ref();
            iter.set_prefix_filter(on && iter.table().has_prefixes_of(extractor));
        }
    }

    /// Skips deletions; see `TableIter::skip_deletions`.
    #[inline]
    pub(crate) fn skip_deletions(
        &mut self,
        seq: SequenceNumber,
        limit: Option<&[u8]>,
        budget: u64,
        last: &mut Vec<u8>,
    ) -> (u64, Progress) {
        self.back = false;
        let Some(iter) = &mut self.iter else {
            return (0, Progress::Ready);
        };
        let (skipped, progress) = iter.skip_deletions(seq, limit, budget, last);
        if iter.valid() {
            return (skipped, progress);
        }
        (skipped, self.settle(progress))
    }

    /// The iterator over the current table.
    pub(crate) fn table_iter(&mut self) -> Option<&mut TableIter> {
        self.iter.as_deref_mut()
    }

    /// The iterator over the current table.
    pub(crate) fn current(&self) -> Option<&TableIter> {
        self.iter.as_deref()
    }

    /// Continues with the next table if the current one is exhausted after a forward move.
    pub(crate) fn settle_forward(&mut self, progress: Progress) -> Progress {
        self.back = false;
        self.settle(progress)
    }

    /// True if the iterator is positioned on an entry.
    #[inline]
    #[must_use]
    pub fn valid(&self) -> bool {
        self.iter.as_deref().is_some_and(TableIter::valid)
    }

    /// The internal key of the current entry; empty if there is none.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.iter.as_deref().map_or(&[], TableIter::key)
    }

    /// True if the entry is known to be the first of its user key; see `TableIter::begins_key`.
    #[inline]
    #[must_use]
    pub(crate) fn begins_key(&self, same: impl Fn(&[u8], &[u8]) -> bool) -> bool {
        self.iter
            .as_deref()
            .is_some_and(|iter| iter.begins_key(same))
    }

    /// The internal key and the value of the current entry; empty if there is none.
    #[inline(always)]
    #[must_use]
    pub(crate) fn entry(&self) -> (&[u8], &[u8]) {
        match &self.iter {
            Some(iter) => iter.entry(),
            None => (&[], &[]),
        }
    }

    /// The internal key of the current entry and the length of its value; empty if there is none.
    #[inline(always)]
    #[must_use]
    pub(crate) fn head(&self) -> (&[u8], usize) {
        // A closure would not be inlined.
        match &self.iter {
            Some(iter) => iter.head(),
            None => (&[], 0),
        }
    }

    /// The value of the current entry; empty if there is none.
    #[inline(always)]
    #[must_use]
    pub fn value(&self) -> &[u8] {
        match &self.iter {
            Some(iter) => iter.value(),
            None => &[],
        }
    }

    /// The value of the current entry as a range of its block.
    ///
    /// # Panics
    ///
    /// If the iterator is not positioned on an entry.
    #[must_use]
    pub fn value_pin(&self) -> (Buffer, Range<usize>) {
        let iter = self.iter.as_deref();
        iter.expect("the iterator is positioned on an entry")
            .value_pin()
    }

    /// The error that ended the iteration, if any.
    ///
    /// # Errors
    ///
    /// The error of the table or of a read.
    pub fn status(&self) -> Result<()> {
        match (&self.error, &self.iter) {
            (Some(error), _) => Err(error.clone()),
            (None, Some(iter)) => iter.status(),
            (None, None) => Ok(()),
        }
    }

    /// The missing block.
    #[must_use]
    pub fn request(&self) -> Option<ReadRequest> {
        self.iter.as_deref().map(TableIter::request)
    }

    /// Supplies the missing block and continues the operation.
    pub fn supply(&mut self, bytes: Result<Buffer>) -> Progress {
        let Some(iter) = &mut self.iter else {
            return Progress::Ready;
        };
        let progress = iter.supply(bytes);
        let progress = self.settle(progress);
        if self.tables.ahead.is_some() {
            self.read_next_tables();
        }
        progress
    }

    /// Upper bound of the sequence numbers in the level. Computed over all files once.
    pub fn largest_seq(&mut self) -> SequenceNumber {
        *self.largest_seq.get_or_insert_with(|| {
            let files = self.files.files().iter();
            files
                .map(|file| file.seqs.largest)
                .max()
                .unwrap_or_default()
        })
    }

    /// Positions in the file at position `at` by `seek`.
    fn start(
        &mut self,
        at: Option<usize>,
        back: bool,
        seek: impl FnOnce(&mut TableIter) -> Progress,
    ) -> Progress {
        self.back = back;
        self.sampled = self.tables.reading.is_sampled();
        self.error = None;
        match self.enter(at) {
            Some(iter) => {
                let progress = seek(iter);
                self.settle(progress)
            }
            None => Progress::Ready,
        }
    }

    /// Makes the file at position `at` the current one. Returns `None` if there is none, or if its
    /// table cannot be opened; the error is then the status.
    fn enter(&mut self, at: Option<usize>) -> Option<&mut TableIter> {
        let Some(at) = at.filter(|&at| at < self.files.len()) else {
            self.iter = None;
            return None;
        };
        if self.iter.is_none() || self.at != at {
            self.enter_other(at);
        }
        self.iter.as_deref_mut()
    }

    /// Makes the file at position `at` the current one, which it is not.
    #[inline(never)]
    fn enter_other(&mut self, at: usize) {
        if self.next.is_some() && self.enter_next(at) {
            return;
        }
        let before = self.leave_readahead(at);
        self.at = at;
        match self.tables.table(&self.files.files()[at], self.level) {
            Ok(table) => {
                match &mut self.iter {
                    Some(iter) => {
                        let options = self.tables.options_for(&table);
                        iter.change_table(table, options);
                    }
                    None => self.iter = Some(self.tables.iter(table)),
                }
                if let Some(iter) = &mut self.iter {
                    self.tables.prepare(iter);
                    if let Some(before) = before {
                        iter.keep_readahead(before);
                    }
                }
            }
            Err(error) => {
                self.iter = None;
                self.error = Some(error);
            }
        }
    }

    /// Makes the file at position `at` the current one, if it is the next of those that are being read.
    #[cold]
    fn enter_next(&mut self, at: usize) -> bool {
        let Some(all) = &mut self.next else {
            return false;
        };
        match all.pop_front() {
            Some((next, iter)) if next == at => {
                (self.at, self.iter) = (at, Some(iter));
                true
            }
            _ => {
                all.clear();
                false
            }
        }
    }

    /// The readahead of the current table, if the file at position `at` continues it.
    #[inline]
    fn leave_readahead(&self, at: usize) -> Option<ReadaheadSize> {
        let ahead = self.tables.ahead.as_ref();
        let continues = ahead.is_some_and(|ahead| ahead.keeps_size) && at == self.at + 1;
        let iter = self.iter.as_deref().filter(|_| continues)?;
        Some(iter.readahead())
    }

    /// Continues with neighbouring files while the current one is exhausted.
    fn settle(&mut self, mut progress: Progress) -> Progress {
        while let Some(iter) = &self.iter {
            if !progress.is_ready() || iter.valid() || iter.status().is_err() {
                if self.sampled && iter.valid() {
                    self.count_seek();
                }
                return progress;
            }
            let next = self.neighbour_of(self.at);
            let back = self.back;
            progress = match self.enter(next) {
                Some(iter) if back => iter.seek_to_last(),
                Some(iter) => iter.seek_to_first(),
                None => Progress::Ready,
            };
        }
        Progress::Ready
    }

    /// Counts the sampled seek for the file in which it ended, if a compaction would have
    /// eliminated it.
    #[cold]
    fn count_seek(&mut self) {
        self.sampled = false;
        if let Some(file) = self.files.files().get(self.at)
            && key::parse(self.key()).is_ok_and(|key| file_read_sample::is_wasted(key.kind))
        {
            file_read_sample::count_wasted(file);
        }
    }

    /// True if the prefix filter of the current table has excluded the prefix of the target and the
    /// next file, at position `at`, starts after that prefix, so that no later file holds it
    /// either.
    fn starts_after_prefix(&self, at: usize) -> bool {
        let Some(target) = self.iter.as_deref().and_then(TableIter::ruled_out) else {
            return false;
        };
        let Some(extractor) = &self.tables.reading.prefix_extractor else {
            return false;
        };
        // Targets carry the timestamp that their table expects, or none.
        if self.tables.reading.order.timestamp_size() > 0 {
            return false;
        }
        let prefix = extractor.prefix(key::user_key(target));
        let file = self.files.files().get(at);
        prefix.is_some()
            && file.is_some_and(|file| extractor.prefix(file.smallest.user_key()) != prefix)
    }

    fn ends_before_lower_bound(&self, at: usize) -> bool {
        let order = &self.tables.reading.order;
        let lower = self.tables.ahead.as_ref().and_then(|it| it.lower.as_ref());
        let file = self.files.files().get(at);
        lower.zip(file).is_some_and(|(lower, file)| {
            let last = key::strip_timestamp(file.largest.user_key(), order.timestamp_size());
            key::compare_plain(order, last, lower).is_lt()
        })
    }

    fn starts_after_upper_bound(&self, at: usize) -> bool {
        let order = &self.tables.reading.order;
        let ahead = self.tables.ahead.as_ref();
        match (
            ahead.and_then(|ahead| ahead.upper.as_ref()),
            self.files.files().get(at),
        ) {
            (Some(until), Some(file)) => {
                let first = key::strip_timestamp(file.smallest.user_key(), order.timestamp_size());
                key::compare_plain(order, first, until).is_ge()
            }
            _ => false,
        }
    }
}
