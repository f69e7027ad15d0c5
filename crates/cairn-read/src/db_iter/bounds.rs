//! The keys in scope of an iterator: bounds, prefixes, timestamps, and the sources selected by its
//! options.

use std::cell::RefCell;
use std::sync::Arc;

use cairn_format::key::{self, InternalKey};
use cairn_options::{ReadOptions, ReadTier};
use cairn_platform::ReadDriver;
use cairn_table::{Background, PlannedReads, ReadAhead, ScanRange, Table};
use cairn_types::{Error, KeyOrder, PrefixExtractor, Result, SequenceNumber, ValueKind};
use cairn_version::{FileMeta, FileToOpen, LevelFiles, TableRef, open_together};

use super::{DbIter, Position, PrefixUse, Task};
use crate::blob::Located;
use crate::blobs_ahead::BlobsAhead;
use crate::child::Child;
use crate::columns::{PendingEntity, blob_indexes};
use crate::level::{LevelIter, Tables};
use crate::range_del_aggregator::RangeDelAggregator;
use crate::value::Value;
use crate::view::{Reading, View, check_timestamp_size, timestamp_of_read};

/// The error for options that an iterator over `view` does not support.
pub(super) fn refused(view: &View, options: &ReadOptions) -> Option<Error> {
    let has_timestamps = view.family.order.timestamp_size() > 0;
    if (has_timestamps || options.timestamp.is_some())
        && let Err(error) = timestamp_of_read(view, options)
    {
        return Some(error);
    }
    if view.family.follows && (options.snapshot.is_some() || options.tailing) {
        let what = match options.tailing {
            true => "tailing iterator",
            false => "snapshot",
        };
        return Some(Error::not_supported(format!(
            "{what} not supported in secondary mode"
        )));
    }
    if let Some(start) = &options.iter_start_ts
        && let Err(error) = check_start_timestamp(view, start)
    {
        return Some(error);
    }
    if options.table_filter.is_some() && view.family.min_tombstones_for_range_conversion > 0 {
        // The tombstone of another iterator could hide entries whose deletions the filter hides.
        return Some(Error::invalid_argument(
            "table_filter is not supported if min_tombstones_for_range_conversion is set",
        ));
    }
    (options.read_tier == ReadTier::Persisted)
        .then(|| Error::not_supported("iterators with read_tier kPersistedTier"))
}

/// Checks `iter_start_ts`.
fn check_start_timestamp(view: &View, start: &[u8]) -> Result<()> {
    match view.family.order.timestamp_size() {
        0 => Err(Error::invalid_argument(format!(
            "iter_start_ts on column family {} that does not enable timestamp",
            view.family.family
        ))),
        size => check_timestamp_size(size, start.len()),
    }
}

/// The bounds and the readahead of an iterator; `None` if it has no upper bound and `options` request nothing.
#[inline]
pub(super) fn read_ahead(view: &View, options: &ReadOptions) -> Option<Arc<ReadAhead>> {
    let is_bounded = options.iterate_upper_bound.is_some();
    match is_bounded || options.async_io || options.adaptive_readahead {
        true => Some(readahead_with(view, options, None)),
        false => None,
    }
}

#[inline(never)]
pub(crate) fn readahead_with(
    view: &View,
    options: &ReadOptions,
    planned: Option<Arc<PlannedReads>>,
) -> Arc<ReadAhead> {
    Arc::new(ReadAhead {
        io: view.family.io.clone(),
        background: match options.async_io {
            true => Background::All,
            false => Background::None,
        },
        lower: options
            .iterate_lower_bound
            .clone()
            .filter(|_| options.async_io),
        upper: options.iterate_upper_bound.clone(),
        trims: options.auto_readahead_size,
        keeps_size: options.adaptive_readahead,
        ends_at_bounds: true,
        planned,
    })
}

/// The readahead of values in blob files that `options` request.
#[inline]
pub(super) fn blobs_ahead(view: &View, options: &ReadOptions) -> Option<Box<RefCell<BlobsAhead>>> {
    match options.async_io {
        true => requested_blobs_ahead(view, options),
        false => None,
    }
}

#[cold]
fn requested_blobs_ahead(view: &View, options: &ReadOptions) -> Option<Box<RefCell<BlobsAhead>>> {
    let io = &view.family.io;
    let is_wanted = options.read_tier == ReadTier::All && io.driver() != ReadDriver::Blocking;
    is_wanted.then(|| Box::new(RefCell::new(BlobsAhead::new(io.clone()))))
}

/// True if tables that an operation needs are opened together.
#[inline]
pub(super) fn opens_together(view: &View, options: &ReadOptions) -> bool {
    options.async_io
        && options.read_tier == ReadTier::All
        && view.family.io.driver() != ReadDriver::Blocking
}

/// Opens the tables that an iterator needs from the beginning: those of level 0 within the bounds, and all those that
/// a table filter inspects. An error is reported when the iterator opens the table again.
#[cold]
fn open_first(view: &View, options: &ReadOptions) -> Vec<Arc<Table>> {
    let source = &view.family.tables;
    let levels = view.version.levels().iter().enumerate();
    let files = levels.flat_map(|(level, files)| files.files().iter().map(move |it| (level, it)));
    let is_needed = |(level, file): &(usize, &Arc<FileMeta>)| {
        let is_inspected = options.table_filter.is_some();
        let is_first = *level == 0 && is_within(view, file, options);
        (is_inspected || is_first) && file.table.get().is_none()
    };
    let to_open = |(level, file)| FileToOpen {
        file,
        level,
        source,
    };
    let unopened: Vec<_> = files.filter(is_needed).map(to_open).collect();
    let opened = match unopened.len() {
        0 | 1 => Vec::new(),
        _ => open_together(&unopened, &view.family.io),
    };
    let opened = opened.into_iter().flatten();
    opened.map(TableRef::into_arc).collect()
}

/// Adds the sources of `view` selected by `options` to `children`, newest first, and returns the range tombstones.
pub(super) fn sources(
    view: &View,
    seq: SequenceNumber,
    tables: &Tables,
    options: &ReadOptions,
    children: &mut Vec<Child>,
) -> Result<Option<Box<RangeDelAggregator>>> {
    let mut range_dels = None;
    let wanted = !options.ignore_range_deletions;
    let new = || {
        let order = view.family.order.clone();
        let timestamp = options.timestamp.clone();
        let new = RangeDelAggregator::new(order, seq, timestamp, tables.clone());
        Box::new(new)
    };
    for memtable in view.memtables() {
        // Entries added later to an empty memtable are newer than the snapshot, unless the iterator
        // sees all sequence numbers.
        if !memtable.is_empty() || seq == SequenceNumber::MAX {
            children.push(Child::Memtable(memtable.iter()));
        }
        if wanted && memtable.has_range_tombstones() {
            let range_dels = range_dels.get_or_insert_with(new);
            // A memtable with tombstones is not empty, so its child has just been added.
            let child = children.len().saturating_sub(1);
            for group in memtable.range_tombstones().iter() {
                range_dels.add_memtable(child, group.clone());
            }
        }
    }
    if options.read_tier == ReadTier::Memtable {
        return Ok(range_dels);
    }
    // Held until they are taken: a table may be closed when it is not in use.
    let _tables = opens_together(view, options).then(|| open_first(view, options));
    for (level, files) in view.version.levels().iter().enumerate() {
        if files.is_empty() {
            continue;
        }
        // The filter excludes entries, not range tombstones. A source without a child takes the index of the next one, which
        // is older.
        if level > 0 {
            if wanted && !files.has_no_tombstones() {
                let range_dels = range_dels.get_or_insert_with(new);
                range_dels.add_level(children.len(), level, files.clone());
            }
            let chosen = chosen(files, level, tables, options)?;
            let files = chosen.as_ref().unwrap_or(files);
            if !files.is_empty() {
                let iter = LevelIter::new(level, files.clone(), tables.clone());
                children.push(Child::Level(iter));
            }
            continue;
        }
        for file in files
            .files()
            .iter()
            .filter(|file| is_within(view, file, options))
        {
            let table = tables.table(file, level)?;
            if wanted && let Some(tombstones) = table.range_tombstones() {
                let range_dels = range_dels.get_or_insert_with(new);
                range_dels.add_table(children.len(), file, tombstones);
            }
            if !options.table_filter.chooses(table.properties()) {
                continue;
            }
            children.push(tables.child(table, file.seqs.largest));
        }
    }
    Ok(range_dels)
}

/// The files of a level below level 0 whose entries the table filter of `options` selects; `None` if there is no filter.
fn chosen(
    files: &Arc<LevelFiles>,
    level: usize,
    tables: &Tables,
    options: &ReadOptions,
) -> Result<Option<Arc<LevelFiles>>> {
    let filter = &options.table_filter;
    if !filter.is_some() {
        return Ok(None);
    }
    let mut kept = Vec::with_capacity(files.len());
    for file in files.files() {
        kept.push(filter.chooses(tables.table(file, level)?.properties()));
    }
    let mut kept = kept.into_iter();
    let keep = |_: &Arc<FileMeta>| kept.next().unwrap_or(true);
    Ok(Some(Arc::new(files.filtered(keep))))
}

/// True if the key range of `file` intersects the bounds.
fn is_within(view: &View, file: &Arc<FileMeta>, options: &ReadOptions) -> bool {
    let order = &view.family.order;
    let compare = |file_end: &InternalKey, bound: &[u8]| {
        let plain = key::strip_timestamp(file_end.user_key(), order.timestamp_size());
        key::compare_plain(order, plain, bound)
    };
    let upper = options.iterate_upper_bound.as_ref();
    let lower = options.iterate_lower_bound.as_ref();
    upper.is_none_or(|upper| compare(&file.smallest, upper).is_lt())
        && lower.is_none_or(|lower| compare(&file.largest, lower).is_ge())
}

impl DbIter {
    /// True if two user keys are equal except for their timestamps.
    #[inline]
    pub(super) fn is_same(&self, a: &[u8], b: &[u8]) -> bool {
        key::is_same_key(&self.view.family.order, a, b)
    }

    /// True if the timestamp of `user` is newer than that of the read.
    #[inline]
    pub(super) fn is_too_new(&self, user: &[u8]) -> bool {
        let Some(read_ts) = &self.settings.read_ts else {
            return false;
        };
        // Keys that differ only in their timestamps are ordered newest first.
        let order = &self.view.family.order;
        let plain = key::strip_timestamp(user, order.timestamp_size());
        if let (KeyOrder::BytewiseU64Ts, Some(newest)) = (order, read_ts.last_chunk()) {
            let timestamp = user[plain.len()..].first_chunk();
            return timestamp.is_some_and(|timestamp| {
                u64::from_le_bytes(*timestamp) > u64::from_le_bytes(*newest)
            });
        }
        order.compare(user, &[plain, read_ts].concat()).is_lt()
    }

    /// Sets the bounds to those of `range`, and those of the readahead, which is otherwise like `ahead`. The iterator
    /// is then not positioned.
    pub(crate) fn set_range(&mut self, range: &ScanRange, ahead: &ReadAhead) {
        self.position = Position::Invalid;
        self.task = Task::Rest;
        self.bounds.lower = Some(range.start.clone());
        self.bounds.upper.clone_from(&range.limit);
        let ahead = Arc::new(ReadAhead {
            lower: Some(range.start.clone()),
            upper: range.limit.clone(),
            ..ahead.clone()
        });
        self.merging.renew_readahead(&ahead);
        if let Some(range_dels) = &mut self.range_dels {
            range_dels.renew_readahead(&ahead);
        }
    }

    /// Compares two user keys without timestamps.
    #[inline]
    pub(super) fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        key::compare_plain(&self.view.family.order, a, b)
    }

    /// True if forward iteration ends before `user`.
    #[inline]
    pub(super) fn is_past_end(&self, user: &[u8]) -> bool {
        (self.bounds.upper.is_some() || self.bounds.prefix.is_some()) && self.is_after_end(user)
    }

    /// Not inlined into iteration without bounds.
    #[inline(never)]
    fn is_after_end(&self, user: &[u8]) -> bool {
        let plain = self.without_timestamp(user);
        let after = |upper: &Vec<u8>| self.compare(plain, upper).is_ge();
        self.bounds.upper.as_ref().is_some_and(after) || self.has_other_prefix(plain)
    }

    /// True if backward iteration ends before `user`.
    #[inline]
    pub(super) fn is_before_start(&self, user: &[u8]) -> bool {
        (self.bounds.lower.is_some() || self.bounds.prefix.is_some()) && self.is_before(user)
    }

    #[inline(never)]
    fn is_before(&self, user: &[u8]) -> bool {
        let plain = self.without_timestamp(user);
        let before = |lower: &Vec<u8>| self.compare(plain, lower).is_lt();
        self.bounds.lower.as_ref().is_some_and(before) || self.has_other_prefix(plain)
    }

    #[inline]
    fn without_timestamp<'k>(&self, user: &'k [u8]) -> &'k [u8] {
        match self.settings.no_timestamps {
            true => user,
            false => key::strip_timestamp(user, self.view.family.order.timestamp_size()),
        }
    }

    #[inline]
    fn has_other_prefix(&self, plain: &[u8]) -> bool {
        let Some(prefix) = &self.bounds.prefix else {
            return false;
        };
        let same = |other| key::is_same_bytes(other, prefix);
        let extractor = &self.view.family.prefix_extractor;
        extractor
            .as_ref()
            .is_some_and(|extractor| !extractor.prefix(plain).is_some_and(same))
    }

    /// Enables or disables the use of prefix filters for a seek to `target`.
    pub(super) fn choose_filter(&mut self, target: Option<&[u8]>, back: bool) {
        let on = match (self.settings.prefix_use, target) {
            (PrefixUse::Always, Some(_)) => true,
            (PrefixUse::WithinBound, Some(target)) => !back && self.upper_ends_prefix_of(target),
            _ => false,
        };
        if on != self.bounds.filtering {
            self.bounds.filtering = on;
            let extractor = self.view.family.prefix_extractor.as_ref();
            self.merging.set_prefix_filter(on, extractor);
        }
    }

    /// True if all keys from `target` to the upper bound have the prefix of `target`.
    fn upper_ends_prefix_of(&self, target: &[u8]) -> bool {
        let family = &self.view.family;
        let (Some(upper), Some(extractor)) = (&self.bounds.upper, &family.prefix_extractor) else {
            return false;
        };
        let Some(prefix) = extractor.prefix(target) else {
            return false;
        };
        if extractor.prefix(upper) == Some(prefix) {
            return true;
        }
        let is_plain = matches!(family.order, KeyOrder::Bytewise);
        matches!(extractor, PrefixExtractor::Fixed(n) if is_plain && upper.len() == *n)
            && is_successor(prefix, upper)
    }

    /// The prefix that all keys must have after a seek to `target`.
    pub(super) fn prefix_of(&self, target: &[u8]) -> Option<Vec<u8>> {
        let extractor = self.view.family.prefix_extractor.as_ref();
        extractor
            .filter(|_| self.settings.same_prefix)
            .and_then(|extractor| extractor.prefix(target))
            .map(<[u8]>::to_vec)
    }

    /// Sets the target to the newest visible version of `plain`.
    pub(super) fn set_target_newest_visible(&mut self, plain: &[u8]) {
        let size = self.view.family.order.timestamp_size();
        self.target.clear();
        self.target.reserve(plain.len() + size + key::SUFFIX_LEN);
        self.target.extend_from_slice(plain);
        match &self.settings.read_ts {
            Some(read_ts) => self.target.extend_from_slice(read_ts),
            None => self.target.resize(plain.len() + size, 0xff),
        }
        let packed = key::pack(self.seq, ValueKind::FOR_SEEK);
        self.target.extend_from_slice(&packed.to_le_bytes());
    }

    /// Sets the target before all versions of `plain`.
    pub(super) fn set_target_before_all(&mut self, plain: &[u8]) {
        let packed = key::pack(SequenceNumber::MAX, ValueKind::FOR_SEEK);
        self.set_target(plain, 0xff, packed);
    }

    /// Sets the target after all versions of `plain`.
    pub(super) fn set_target_after_all(&mut self, plain: &[u8]) {
        self.set_target(plain, 0, 0);
    }

    /// Sets the target after all versions of `key`.
    pub(super) fn set_target_after_key(&mut self) {
        if self.history.is_some() {
            return self.set_target_after_version();
        }
        let user = std::mem::take(&mut self.key);
        self.set_target_after_all(key::strip_timestamp(
            &user,
            self.view.family.order.timestamp_size(),
        ));
        self.key = user;
    }

    fn set_target(&mut self, plain: &[u8], timestamp: u8, packed: u64) {
        let size = self.view.family.order.timestamp_size();
        self.target.clear();
        self.target.extend_from_slice(plain);
        self.target.resize(plain.len() + size, timestamp);
        self.target.extend_from_slice(&packed.to_le_bytes());
    }

    /// Reads the value of the entry of `owner`, a user key, to which an encoded blob index refers.
    pub(super) fn blob(&self, owner: &[u8], index: &[u8]) -> Result<Value> {
        if let Some(ahead) = &self.blobs_ahead {
            return self.blob_ahead(owner, index, &mut ahead.borrow_mut());
        }
        let blobs = &self.view.family.blobs;
        let located = blobs.locate(index, owner, self.settings.blob_options)?;
        self.read_located(located, owner)
    }

    /// Executes the read of `located`, if it needs one, within the time limits.
    fn read_located(&self, located: Located, owner: &[u8]) -> Result<Value> {
        let reading = &*self.view.family;
        let Reading { blobs, io, .. } = reading;
        match located {
            Located::Cached(value) => Ok(value),
            located @ Located::InFile(..) => {
                let read = || blobs.read_located(located, owner, io);
                self.settings.read_deadline.limited(reading, read)
            }
        }
    }

    /// [`DbIter::blob`], which also starts to read the values of further entries.
    #[cold]
    fn blob_ahead(&self, owner: &[u8], index: &[u8], ahead: &mut BlobsAhead) -> Result<Value> {
        let started = ahead.take(index);
        let was_ahead = started.is_some();
        let blobs = &self.view.family.blobs;
        let located = match started {
            Some((place, request)) => Located::InFile(place, request),
            None => blobs.locate(index, owner, self.settings.blob_options)?,
        };
        if matches!(located, Located::InFile(..)) {
            self.read_on(owner, was_ahead, ahead);
        }
        self.read_located(located, owner)
    }

    /// Returns `entity`, the value of `owner`, a user key, with the column values that are stored in blob files read and
    /// inlined.
    pub(super) fn with_blobs(&self, owner: &[u8], entity: Value) -> Result<Value> {
        let reading = &*self.view.family;
        let options = self.settings.blob_options;
        let mut ahead = self.blobs_ahead.as_ref().map(|ahead| ahead.borrow_mut());
        let mut were_ahead = true;
        let located = PendingEntity::locate(&entity, |index| {
            if let Some((place, request)) = ahead.as_mut().and_then(|ahead| ahead.take(index)) {
                return Ok(Located::InFile(place, request));
            }
            let located = reading.blobs.locate(index, owner, options)?;
            were_ahead &= matches!(located, Located::Cached(_));
            Ok(located)
        });
        let Some((pending, reads)) = located? else {
            return Ok(entity);
        };
        if reads.is_empty() {
            return pending.finish();
        }
        if let Some(ahead) = ahead.as_deref_mut() {
            self.read_on(owner, were_ahead, ahead);
        }
        let read = || pending.read(reading, owner, reads);
        self.settings.read_deadline.limited(reading, read)
    }

    /// Notes a read of a value of `owner` in a blob file, which had been started if `was_ahead`, and starts those of the
    /// entries that follow if it is time.
    fn read_on(&self, owner: &[u8], was_ahead: bool, ahead: &mut BlobsAhead) {
        let Some(most) = ahead.reads_on(was_ahead) else {
            return;
        };
        let mut following = self.following_blobs(owner, most);
        let order = &self.view.family.order;
        following.sort_by(|(a, _), (b, _)| match self.back {
            true => key::compare(order, b, a),
            false => key::compare(order, a, b),
        });
        ahead.retain(&following.iter().map(|(_, index)| &index[..]).collect());
        let blobs = &self.view.family.blobs;
        for (internal, index) in &following {
            let locate = || {
                let owner = key::user_key(internal);
                let is_cached = blobs.is_cached(index);
                match (!is_cached).then(|| blobs.locate(index, owner, self.settings.blob_options)) {
                    Some(Ok(Located::InFile(place, request))) => Some((place, request)),
                    // Errors are reported when the scan reaches the entry.
                    None | Some(Ok(Located::Cached(_)) | Err(_)) => None,
                }
            };
            if !ahead.start(index, locate) {
                return;
            }
        }
    }

    /// The internal keys and encoded blob indexes of the entries that follow that of `owner`, at most `most` of each child
    /// and some more of an entity.
    fn following_blobs(&self, owner: &[u8], most: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut following: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let (mut current, mut before) = (usize::MAX, 0);
        self.merging.visit_following(|child, internal, value| {
            if child != current {
                (current, before) = (child, following.len());
            }
            let Ok(key) = key::parse(internal) else {
                return false;
            };
            let is_outside = match self.back {
                true => self.is_before_start(key.user_key),
                false => self.is_past_end(key.user_key),
            };
            if is_outside {
                return false;
            }
            if key.seq <= self.seq && !self.is_same(key.user_key, owner) {
                let blobs = match key.kind {
                    ValueKind::BlobIndex => vec![value],
                    ValueKind::WideColumnEntity => blob_indexes(value),
                    _ => Vec::new(),
                };
                following.extend(
                    blobs
                        .iter()
                        .map(|index| (internal.to_vec(), index.to_vec())),
                );
            }
            following.len() - before < most
        });
        following
    }
}

/// True if `b` is `a` with its last byte incremented. A successor with a carry follows shorter strings as well, which do not
/// have the prefix.
fn is_successor(a: &[u8], b: &[u8]) -> bool {
    match (a.split_last(), b.split_last()) {
        (Some((last, start)), Some((next, same))) => {
            start == same && last.checked_add(1) == Some(*next)
        }
        _ => false,
    }
}

/// The error for an entry of unknown kind.
#[cold]
pub(super) fn unknown_kind(internal: &[u8]) -> Error {
    Error::corruption(format!(
        "entry of unknown kind {:#04x} under the key {}",
        key::packed(internal) & 0xff,
        key::user_key(internal).escape_ascii()
    ))
}
