//! The range tombstones of all sources of a read: finds the newest tombstone that covers a key.
//!
//! Fragments are shared, not copied. Each source remembers the region of its fragments that
//! contains the last key, and the results of all sources hold within the *window* between the
//! nearest edges. A lookup within the window costs two key comparisons. A lookup outside the window
//! moves only the sources whose own edges it has passed, to the adjacent region or by binary
//! search. If no source has tombstones, a lookup costs nothing.
//!
//! Sources are ordered like the children of the merging iterator, newest first. The entries of an
//! older child are older than every tombstone of a newer one, so a tombstone hides its whole range
//! in all later children; [`RangeDelAggregator::hidden_until`] returns how far they can be advanced
//! at once.
//!
//! A level is dropped once all of its files are known to have no tombstones.
//!
//! The tombstones of a level are looked up in the file whose bounds contain the key, whether or not
//! the iterator over that level is positioned in it. They apply only within the bounds of the file,
//! which are edges of the window. If keys have timestamps, the answer depends on the timestamp of
//! the key, and no window is kept.

use std::cmp::Ordering;
use std::sync::Arc;

use cairn_format::key;
use cairn_format::range_del::Fragments;
use cairn_table::ReadAhead;
use cairn_types::{KeyOrder, Result, SequenceNumber, ValueKind};
use cairn_version::{FileMeta, LevelFiles};

use crate::level::Tables;

/// The range tombstones of a view; see the module documentation.
pub(crate) struct RangeDelAggregator {
    reader: Reader,
    /// The sources, newest first.
    sources: Vec<Source>,
    window: Window,
}

/// The parameters of the read: order, snapshot, timestamp and tables.
struct Reader {
    order: KeyOrder,
    /// Length of the timestamp at the end of user keys, in bytes.
    timestamp_size: usize,
    visible: SequenceNumber,
    read_ts: Option<Vec<u8>>,
    tables: Tables,
    /// Buffer for lookup keys.
    target: Vec<u8>,
}

/// The tombstones of a memtable, table or level, positioned at the last key.
struct Source {
    /// The child of the merging iterator with the entries of the same memtable, table or level; the next older child if a
    /// table filter excludes them all.
    child: usize,
    location: Location,
    /// The fragments at the last key, and the region that contains it; `None` if no file contains
    /// the key or the file has no tombstones.
    fragments: Option<Arc<Fragments>>,
    region: usize,
    /// The newest visible tombstone over the key; zero if there is none.
    seq: SequenceNumber,
    /// The first key to which `seq` applies.
    from: Edge,
    /// The first key after that to which it does not.
    until: Edge,
}

enum Location {
    Memtable,
    /// A level-0 table.
    File(Arc<FileMeta>),
    /// The number and the files of a sorted level, and the position of the file whose fragments are
    /// loaded.
    Level(usize, Arc<LevelFiles>, usize),
}

/// An end of a window.
#[derive(Clone, Copy, Debug, Default)]
enum Edge {
    /// Unbounded.
    #[default]
    Open,
    /// An edge of the fragments.
    Fragment(usize),
    /// The smallest key of the file at this position.
    Smallest(usize),
    /// The largest key of the file at this position.
    Largest(usize),
    /// Immediately after the largest key of the file at this position.
    AfterLargest(usize),
}

/// The keys for which the answer of all sources is the same.
#[derive(Clone, Copy, Default)]
struct Window {
    /// True if there is a window.
    known: bool,
    /// The sources with the nearest edges.
    from: usize,
    until: usize,
    seq: SequenceNumber,
}

impl RangeDelAggregator {
    pub(crate) fn new(
        order: KeyOrder,
        visible: SequenceNumber,
        read_ts: Option<Vec<u8>>,
        tables: Tables,
    ) -> RangeDelAggregator {
        RangeDelAggregator {
            reader: Reader {
                timestamp_size: order.timestamp_size(),
                order,
                visible,
                read_ts,
                tables,
                target: Vec::new(),
            },
            sources: Vec::new(),
            window: Window::default(),
        }
    }

    /// Takes tables from `ahead`, instead of the readahead before it.
    pub(crate) fn renew_readahead(&mut self, ahead: &Arc<ReadAhead>) {
        self.reader.tables.ahead = Some(ahead.clone());
    }

    /// Adds tombstones of a memtable whose entries are those of `child`.
    pub(crate) fn add_memtable(&mut self, child: usize, fragments: Arc<Fragments>) {
        if !fragments.is_empty() {
            self.add(child, Location::Memtable, Some(fragments));
        }
    }

    /// Adds the tombstones of a level-0 table whose entries are those of `child`.
    pub(crate) fn add_table(
        &mut self,
        child: usize,
        file: &Arc<FileMeta>,
        fragments: &Arc<Fragments>,
    ) {
        if !fragments.is_empty() {
            self.add(child, Location::File(file.clone()), Some(fragments.clone()));
        }
    }

    /// Adds the tombstones of `files`, the files of level `number`, whose entries are those of
    /// `child`.
    pub(crate) fn add_level(&mut self, child: usize, number: usize, files: Arc<LevelFiles>) {
        // No file is loaded yet.
        let none = files.len();
        self.add(child, Location::Level(number, files, none), None);
    }

    fn add(&mut self, child: usize, location: Location, fragments: Option<Arc<Fragments>>) {
        self.sources.push(Source {
            child,
            location,
            fragments,
            region: 0,
            seq: SequenceNumber::ZERO,
            from: Edge::Open,
            until: Edge::Open,
        });
    }

    /// Returns the sequence number of the newest visible tombstone that covers `user_key`, or zero.
    /// Entries with smaller sequence numbers are hidden.
    ///
    /// # Errors
    ///
    /// Those of opening a table.
    #[inline]
    pub(crate) fn covering(&mut self, user_key: &[u8]) -> Result<SequenceNumber> {
        if self.is_empty() {
            return Ok(SequenceNumber::ZERO);
        }
        if self.window_contains(user_key) {
            return Ok(self.window.seq);
        }
        self.find(user_key)
    }

    /// True if no source has tombstones.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Drops levels that are known by now to have no tombstones.
    pub(crate) fn drop_empty_levels(&mut self) {
        let is_idle = |source: &Source| matches!(&source.location, Location::Level(_, files, _) if files.has_no_tombstones());
        if self.sources.iter().any(is_idle) {
            self.sources.retain(|source| !is_idle(source));
            self.combine();
        }
    }

    /// True if `user_key` is known to be uncovered without opening tables.
    pub(crate) fn is_known_uncovered(&self, user_key: &[u8]) -> bool {
        self.is_empty() || self.window.seq == SequenceNumber::ZERO && self.window_contains(user_key)
    }

    /// The edges of the current window if no tombstone covers it. Keys strictly between the edges
    /// are not covered.
    pub(crate) fn uncovered(&self) -> Option<[Option<&[u8]>; 2]> {
        let uncovered = self.window.known && self.window.seq == SequenceNumber::ZERO;
        uncovered.then(|| self.edges())
    }

    /// Returns the end of the range around the last key in which all entries of `child` are hidden;
    /// `None` if there is no such range. Forward, the end is the first key after the range; with
    /// `back`, it is the first key in the range. `largest` returns the largest sequence number of
    /// the child.
    pub(crate) fn hidden_until(
        &self,
        child: usize,
        back: bool,
        mut largest: impl FnMut() -> SequenceNumber,
    ) -> Option<&[u8]> {
        if !self.window.known || self.window.seq == SequenceNumber::ZERO {
            return None;
        }
        let mut end: Option<&[u8]> = None;
        for source in &self.sources {
            if source.seq > SequenceNumber::ZERO && (source.child < child || largest() < source.seq)
            {
                let edge = match back {
                    true => source.from,
                    false => source.until,
                };
                let edge = self.reader.edge(source, edge)?;
                let is_further =
                    |end: &[u8]| key::compare_plain(&self.reader.order, edge, end).is_gt() != back;
                if end.is_none_or(is_further) {
                    end = Some(edge);
                }
            }
        }
        end
    }

    /// The newest child that has a tombstone over the last key, and the end of the range hidden in
    /// all later children; see [`RangeDelAggregator::hidden_until`].
    pub(crate) fn newest_end(&self, back: bool) -> Option<(usize, &[u8])> {
        let covers = |source: &&Source| source.seq > SequenceNumber::ZERO;
        let source = self.sources.iter().find(covers)?;
        let after = source.child + 1;
        let end = self.hidden_until(after, back, || SequenceNumber::MAX)?;
        Some((source.child, end))
    }

    #[inline]
    fn window_contains(&self, user_key: &[u8]) -> bool {
        let Window {
            known, from, until, ..
        } = self.window;
        known
            && self.reader.is_before_end(&self.sources[until], user_key)
            && self.reader.is_after_start(&self.sources[from], user_key)
    }

    fn edges(&self) -> [Option<&[u8]>; 2] {
        let edge = |source: usize, edge: fn(&Source) -> Edge| {
            let source = self.sources.get(source)?;
            self.reader.edge(source, edge(source))
        };
        let Window { from, until, .. } = self.window;
        [
            edge(from, |source| source.from),
            edge(until, |source| source.until),
        ]
    }

    /// Moves all sources to `user_key`.
    // Not cold: a scan over many small tombstones calls it for each of them.
    #[inline(never)]
    fn find(&mut self, user_key: &[u8]) -> Result<SequenceNumber> {
        let reader = &mut self.reader;
        // A key of a damaged file may be shorter than its timestamp.
        let plain_len = user_key.len().saturating_sub(reader.timestamp_size);
        let (plain, timestamp) = user_key.split_at(plain_len);
        let is_known = self.window.known;
        let Window { from, until, .. } = self.window;
        // If the key is after the start of the window, it is after the start of every source;
        // likewise for the end.
        let is_forward = is_known && reader.is_after_start(&self.sources[from], plain);
        let is_back = is_known && !is_forward && reader.is_before_end(&self.sources[until], plain);
        self.window.known = false;
        for source in &mut self.sources {
            if is_known
                && (is_back || reader.is_before_end(source, plain))
                && (is_forward || reader.is_after_start(source, plain))
            {
                continue;
            }
            let stepped = is_forward && source.step(reader, plain)
                || is_back && source.step_back(reader, plain);
            if !stepped {
                source.seek(reader, plain, timestamp)?;
            }
        }
        self.combine();
        self.window.known = self.reader.timestamp_size == 0;
        Ok(self.window.seq)
    }

    /// Computes the window from the positions of all sources.
    fn combine(&mut self) {
        let mut window = Window {
            known: self.window.known,
            ..Window::default()
        };
        let mut edges: [Option<&[u8]>; 2] = [None; 2];
        let reader = &self.reader;
        for (at, source) in self.sources.iter().enumerate() {
            window.seq = window.seq.max(source.seq);
            if let Some(from) = reader.edge(source, source.from) {
                let is_later = |known: &[u8]| match key::compare_plain(&reader.order, known, from) {
                    Ordering::Less => true,
                    Ordering::Equal => matches!(source.from, Edge::AfterLargest(_)),
                    Ordering::Greater => false,
                };
                if edges[0].is_none_or(is_later) {
                    (edges[0], window.from) = (Some(from), at);
                }
            }
            if let Some(until) = reader.edge(source, source.until)
                && edges[1]
                    .is_none_or(|known| key::compare_plain(&reader.order, until, known).is_lt())
            {
                (edges[1], window.until) = (Some(until), at);
            }
        }
        // If no source has an edge, any index will do.
        self.window = window;
    }
}

impl Reader {
    #[inline]
    fn is_before_end(&self, source: &Source, plain: &[u8]) -> bool {
        let until = self.edge(source, source.until);
        until.is_none_or(|until| key::compare_plain(&self.order, plain, until).is_lt())
    }

    #[inline]
    fn is_after_start(&self, source: &Source, plain: &[u8]) -> bool {
        let from = self.edge(source, source.from);
        from.is_none_or(|from| match key::compare_plain(&self.order, from, plain) {
            Ordering::Less => true,
            Ordering::Equal => !matches!(source.from, Edge::AfterLargest(_)),
            Ordering::Greater => false,
        })
    }

    /// The user key of an edge of `source`, without its timestamp.
    #[inline]
    fn edge<'a>(&self, source: &'a Source, edge: Edge) -> Option<&'a [u8]> {
        let user = match edge {
            Edge::Open => return None,
            Edge::Fragment(at) => return source.fragments.as_ref()?.edge(at),
            Edge::Smallest(at) => source.location.file(at)?.smallest.user_key(),
            Edge::Largest(at) | Edge::AfterLargest(at) => {
                source.location.file(at)?.largest.user_key()
            }
        };
        Some(key::strip_timestamp(user, self.timestamp_size))
    }

    /// Compares the smallest and the largest key of `file` with `plain`.
    fn bounds(&self, file: &FileMeta, plain: &[u8]) -> [Ordering; 2] {
        [&file.smallest, &file.largest].map(|bound| {
            let bound = key::strip_timestamp(bound.user_key(), self.timestamp_size);
            key::compare_plain(&self.order, bound, plain)
        })
    }
}

impl Source {
    /// Moves forward to the key `plain` if it is in the adjacent region: a step from tombstone to
    /// tombstone, which costs two key comparisons. Returns false, without moving, if it is not, or
    /// if that region extends beyond the file.
    #[inline]
    fn step(&mut self, reader: &Reader, plain: &[u8]) -> bool {
        let (Edge::Fragment(crossed), Some(fragments)) = (self.until, &self.fragments) else {
            return false;
        };
        let next = crossed + 1;
        let is_less = |a: &[u8], b: &[u8]| key::compare_plain(&reader.order, a, b).is_lt();
        let ends_in_file = |end: &[u8]| {
            let file = self.location.current();
            file.is_none_or(|file| is_less(end, file.largest.user_key()))
        };
        let end = fragments.edge(next);
        if !end.is_some_and(|end| is_less(plain, end) && ends_in_file(end)) {
            return false;
        }
        self.region = next;
        self.seq = fragments.newest(next, reader.visible);
        (self.from, self.until) = (Edge::Fragment(crossed), Edge::Fragment(next));
        true
    }

    /// Moves backward to the key `plain` if it is in the adjacent region; see [`Source::step`].
    #[inline]
    fn step_back(&mut self, reader: &Reader, plain: &[u8]) -> bool {
        let (Edge::Fragment(crossed), Some(fragments)) = (self.from, &self.fragments) else {
            return false;
        };
        let Some(before) = crossed.checked_sub(1) else {
            return false;
        };
        let is_less = |a: &[u8], b: &[u8]| key::compare_plain(&reader.order, a, b).is_lt();
        let begins_in_file = |start: &[u8]| {
            let file = self.location.current();
            file.is_none_or(|file| is_less(file.smallest.user_key(), start))
        };
        let start = fragments.edge(before);
        if !start.is_some_and(|start| !is_less(plain, start) && begins_in_file(start)) {
            return false;
        }
        self.region = crossed;
        self.seq = fragments.newest(crossed, reader.visible);
        (self.from, self.until) = (Edge::Fragment(before), Edge::Fragment(crossed));
        true
    }

    /// Moves to the key `plain` with this timestamp.
    fn seek(&mut self, reader: &mut Reader, plain: &[u8], timestamp: &[u8]) -> Result<()> {
        match &self.location {
            Location::Memtable => self.lookup(reader, plain, timestamp),
            Location::File(file) => match reader.bounds(file, plain) {
                [Ordering::Greater, _] => self.set_uncovered(Edge::Open, Edge::Smallest(0)),
                [_, Ordering::Less] => self.set_uncovered(Edge::AfterLargest(0), Edge::Open),
                [_, Ordering::Equal] if file.largest.is_exclusive_bound() => {
                    self.set_uncovered(Edge::Largest(0), Edge::Open);
                }
                _ => self.lookup_in_file(reader, 0, plain, timestamp),
            },
            Location::Level(number, files, at) => {
                if let Some(file) = files.files().get(*at)
                    && self.fragments.is_some()
                    && let [Ordering::Less | Ordering::Equal, Ordering::Greater] =
                        reader.bounds(file, plain)
                {
                    let at = *at;
                    self.lookup_in_file(reader, at, plain, timestamp);
                    return Ok(());
                }
                let (number, files) = (*number, files.clone());
                return self.seek_in_level(reader, number, &files, plain, timestamp);
            }
        }
        Ok(())
    }

    /// Moves to the file of a level that may hold the key, or to several if its versions span
    /// files.
    fn seek_in_level(
        &mut self,
        reader: &mut Reader,
        number: usize,
        files: &LevelFiles,
        plain: &[u8],
        timestamp: &[u8],
    ) -> Result<()> {
        let target = &mut reader.target;
        target.clear();
        target.extend_from_slice(plain);
        target.extend_from_slice(timestamp);
        let packed = key::pack(SequenceNumber::MAX, ValueKind::FOR_SEEK);
        target.extend_from_slice(&packed.to_le_bytes());
        let found = files.find(&reader.order, target);
        let before = found
            .checked_sub(1)
            .map(|before| (before, &files.files()[before]));
        self.set_uncovered(before.map_or(Edge::Open, edge_after), Edge::Open);
        let mut seq = SequenceNumber::ZERO;
        let mut is_in = false;
        for (at, file) in files.files().iter().enumerate().skip(found) {
            let [smallest, largest] = reader.bounds(file, plain);
            if smallest.is_gt() {
                if !is_in {
                    self.until = Edge::Smallest(at);
                }
                break;
            }
            if largest.is_eq() && file.largest.is_exclusive_bound() {
                if !is_in {
                    self.set_uncovered(Edge::Largest(at), Edge::Open);
                }
                continue;
            }
            let table = reader.tables.table(file, number)?;
            self.fragments = table.range_tombstones().cloned();
            if let Location::Level(.., current) = &mut self.location {
                *current = at;
            }
            self.region = 0;
            self.lookup_in_file(reader, at, plain, timestamp);
            seq = seq.max(self.seq);
            if is_in {
                // The tombstones of the preceding file apply to this key only.
                self.until = Edge::Smallest(at);
            }
            is_in = true;
            if largest.is_gt() {
                break;
            }
        }
        self.seq = seq;
        Ok(())
    }

    /// Records that the key is in no file of the source.
    fn set_uncovered(&mut self, from: Edge, until: Edge) {
        (self.seq, self.from, self.until) = (SequenceNumber::ZERO, from, until);
    }

    /// Looks up the key in the fragments of the file at position `at`, whose bounds contain it.
    fn lookup_in_file(&mut self, reader: &Reader, at: usize, plain: &[u8], timestamp: &[u8]) {
        self.lookup(reader, plain, timestamp);
        let edge = |edge| reader.edge(self, edge);
        let [from, until] = [edge(self.from), edge(self.until)];
        let [smallest, largest] = [edge(Edge::Smallest(at)), edge(Edge::Largest(at))];
        let is_less = |a: Option<&[u8]>, b: Option<&[u8]>| {
            let both = a.zip(b);
            both.is_none_or(|(a, b)| key::compare_plain(&reader.order, a, b).is_lt())
        };
        let (is_clipped, is_cut_off) = (is_less(from, smallest), is_less(largest, until));
        if is_clipped {
            self.from = Edge::Smallest(at);
        }
        // The next file may hold versions of the last key as well, so the window ends before that
        // key.
        if is_cut_off {
            self.until = Edge::Largest(at);
        }
    }

    /// Looks up the key in the loaded fragments.
    #[inline]
    fn lookup(&mut self, reader: &Reader, plain: &[u8], timestamp: &[u8]) {
        let Some(fragments) = &self.fragments else {
            return self.set_uncovered(Edge::Open, Edge::Open);
        };
        let order = &reader.order;
        self.region = fragments.region_near(order, self.region, plain);
        self.seq = match timestamp.is_empty() {
            true => fragments.newest(self.region, reader.visible),
            false => fragments.newest_at(
                order,
                self.region,
                reader.visible,
                timestamp,
                reader.read_ts.as_deref(),
            ),
        };
        self.from = self
            .region
            .checked_sub(1)
            .map_or(Edge::Open, Edge::Fragment);
        self.until = match self.region < fragments.edges() {
            true => Edge::Fragment(self.region),
            false => Edge::Open,
        };
    }
}

/// The edge after the file at this position.
fn edge_after((at, file): (usize, &Arc<FileMeta>)) -> Edge {
    match file.largest.is_exclusive_bound() {
        true => Edge::Largest(at),
        false => Edge::AfterLargest(at),
    }
}

impl Location {
    /// The file whose fragments are loaded; `None` for a memtable.
    #[inline]
    fn current(&self) -> Option<&FileMeta> {
        let at = match self {
            Location::Level(.., at) => *at,
            Location::Memtable | Location::File(_) => 0,
        };
        self.file(at)
    }

    #[inline]
    fn file(&self, at: usize) -> Option<&FileMeta> {
        match self {
            Location::Memtable => None,
            Location::File(file) => Some(file),
            Location::Level(_, files, _) => files.files().get(at).map(|file| &**file),
        }
    }
}
