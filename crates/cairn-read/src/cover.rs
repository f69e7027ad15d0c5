//! Range tombstones of all sources of a read, as one question: what is the newest tombstone over
//! this key?
//!
//! Scans ask it for every key, so the answer is kept with the window of keys that it holds for: the
//! piece between the nearest edges of fragments and files on either side. Inside the window a
//! question costs two comparisons of keys, without any tombstone around mostly of 8 bytes each;
//! where no source can have tombstones, it costs nothing.
//!
//! A level is not asked at all once it is known that no file of it has tombstones.
//!
//! Tombstones of a level are found by file, in the file that may hold the key, whether or not the
//! iterator over that level has points there. Where keys have timestamps, an answer depends on the
//! key's own, and no window is kept.

use std::sync::Arc;

use cairn_format::key;
use cairn_format::range_del::Fragments;
use cairn_types::{KeyOrder, Result, SequenceNumber, ValueKind};
use cairn_version::{FileMeta, LevelFiles};

use crate::bound::compare;
use crate::level::Tables;

/// The range tombstones of a view; see the module's documentation.
pub(crate) struct Cover {
    order: KeyOrder,
    visible: SequenceNumber,
    read_ts: Option<Vec<u8>>,
    /// Tombstones of memtables and of tables of level 0, these cut at the bounds of their files.
    whole: Vec<Arc<Fragments>>,
    levels: Vec<Level>,
    tables: Tables,
    window: Window,
    /// A lookup key in the making; kept for its memory.
    target: Vec<u8>,
}

/// A level from 1 on, and the tombstones of the file that was asked last.
struct Level {
    number: usize,
    files: Arc<LevelFiles>,
    last: Option<(usize, Option<Arc<Fragments>>)>,
}

/// Keys for which an answer holds.
#[derive(Default)]
struct Window {
    /// Whether there is an answer at all.
    known: bool,
    /// The first key, or the last one before if `after`; none for no edge.
    from: Option<Vec<u8>>,
    after: bool,
    /// The first key behind the window.
    until: Option<Vec<u8>>,
    seq: SequenceNumber,
}

impl Cover {
    pub(crate) fn new(
        order: KeyOrder,
        visible: SequenceNumber,
        read_ts: Option<Vec<u8>>,
        tables: Tables,
    ) -> Cover {
        Cover {
            order,
            visible,
            read_ts,
            whole: Vec::new(),
            levels: Vec::new(),
            tables,
            window: Window::default(),
            target: Vec::new(),
        }
    }

    /// Adds the tombstones of a memtable, or of a table of level 0.
    pub(crate) fn add(&mut self, fragments: Arc<Fragments>) {
        if !fragments.is_empty() {
            self.whole.push(fragments);
        }
    }

    /// Adds the tombstones of `files`, which make up the level `number`.
    pub(crate) fn add_level(&mut self, number: usize, files: Arc<LevelFiles>) {
        if !files.has_no_tombstones() {
            self.levels.push(Level {
                number,
                files,
                last: None,
            });
        }
    }

    /// The sequence number of the newest visible tombstone over `user_key`, zero for none. Entries
    /// with smaller numbers are hidden.
    ///
    /// # Errors
    ///
    /// Those of opening a table.
    #[inline]
    pub(crate) fn covering(&mut self, user_key: &[u8]) -> Result<SequenceNumber> {
        if self.is_empty() {
            return Ok(SequenceNumber::ZERO);
        }
        if self.window.holds(&self.order, user_key) {
            return Ok(self.window.seq);
        }
        self.find(user_key)
    }

    /// Whether no source can have tombstones.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.levels.is_empty()
    }

    /// Does not ask levels any more of which it is known by now that they have no tombstones.
    pub(crate) fn forget_levels(&mut self) {
        self.levels.retain(|level| !level.files.has_no_tombstones());
    }

    /// Whether it is known, without looking at tables, that no tombstone covers `user_key`.
    pub(crate) fn is_known_uncovered(&self, user_key: &[u8]) -> bool {
        let window = &self.window;
        self.is_empty() || window.seq == SequenceNumber::ZERO && window.holds(&self.order, user_key)
    }

    /// The edges of the window around the key that was asked last, if no tombstone covers that: the keys
    /// between them, which are not the edges themselves, are not covered either.
    pub(crate) fn uncovered(&self) -> Option<[Option<&[u8]>; 2]> {
        let Window {
            known,
            from,
            until,
            seq,
            ..
        } = &self.window;
        let uncovered = *known && *seq == SequenceNumber::ZERO;
        uncovered.then_some([from, until].map(Option::as_deref))
    }

    /// The end of the window around the key that was asked last, if all of the window up to there
    /// is covered.
    pub(crate) fn covered_until(&self) -> Option<&[u8]> {
        self.window.until.as_deref().filter(|_| self.window.known)
    }

    #[cold]
    fn find(&mut self, user_key: &[u8]) -> Result<SequenceNumber> {
        let plain = key::strip_timestamp(user_key, self.order.timestamp_size());
        let mut found = Found {
            order: &self.order,
            visible: self.visible,
            read_ts: self.read_ts.as_deref(),
            user_key,
            plain,
            window: Window::default(),
        };
        for fragments in &self.whole {
            found.ask(fragments);
        }
        key::append_internal(
            clear(&mut self.target),
            user_key,
            SequenceNumber::MAX,
            ValueKind::FOR_SEEK,
        );
        for level in &mut self.levels {
            level.ask(&mut found, &self.target, &self.tables)?;
        }
        let mut window = found.window;
        window.known = self.order.timestamp_size() == 0;
        self.window = window;
        Ok(self.window.seq)
    }
}

fn clear(bytes: &mut Vec<u8>) -> &mut Vec<u8> {
    bytes.clear();
    bytes
}

impl Window {
    #[inline]
    fn holds(&self, order: &KeyOrder, user_key: &[u8]) -> bool {
        self.known
            && self
                .until
                .as_deref()
                .is_none_or(|until| compare(order, user_key, until).is_lt())
            && self
                .from
                .as_deref()
                .is_none_or(|from| match compare(order, from, user_key) {
                    std::cmp::Ordering::Less => true,
                    std::cmp::Ordering::Equal => !self.after,
                    std::cmp::Ordering::Greater => false,
                })
    }
}

/// A question on its way through the sources.
struct Found<'a> {
    order: &'a KeyOrder,
    visible: SequenceNumber,
    read_ts: Option<&'a [u8]>,
    user_key: &'a [u8],
    plain: &'a [u8],
    window: Window,
}

impl Found<'_> {
    /// The window begins at `from`, or behind it, at the earliest.
    fn not_before(&mut self, from: &[u8], after: bool) {
        let later = match &self.window.from {
            None => true,
            Some(known) => match compare(self.order, known, from) {
                std::cmp::Ordering::Less => true,
                std::cmp::Ordering::Equal => after,
                std::cmp::Ordering::Greater => false,
            },
        };
        if later {
            self.window.from = Some(from.to_vec());
            self.window.after = after;
        }
    }

    /// The window ends at `until` at the latest.
    fn not_behind(&mut self, until: &[u8]) {
        let earlier = match &self.window.until {
            None => true,
            Some(known) => compare(self.order, until, known).is_lt(),
        };
        if earlier {
            self.window.until = Some(until.to_vec());
        }
    }

    fn ask(&mut self, fragments: &Fragments) {
        let at = fragments.find(self.order, self.plain);
        if let Some(before) = at.checked_sub(1).and_then(|before| fragments.get(before)) {
            self.not_before(before.end, before.includes_end);
        }
        let Some(fragment) = fragments.get(at) else {
            return;
        };
        if compare(self.order, fragment.start, self.plain).is_gt() {
            return self.not_behind(fragment.start);
        }
        self.not_before(fragment.start, false);
        self.not_behind(fragment.end);
        let seq = fragments.covering_at(self.order, self.user_key, self.visible, self.read_ts);
        self.window.seq = self.window.seq.max(seq);
    }
}

impl Level {
    /// Asks the files that may hold the key: one, or more where its versions are spread.
    fn ask(&mut self, found: &mut Found<'_>, target: &[u8], tables: &Tables) -> Result<()> {
        let size = found.order.timestamp_size();
        let files = self.files.clone();
        let mut at = files.find(found.order, target);
        if let Some(before) = at
            .checked_sub(1)
            .and_then(|before| files.files().get(before))
        {
            let end = key::strip_timestamp(before.largest.user_key(), size);
            found.not_before(end, !before.largest.is_exclusive_bound());
        }
        while let Some(file) = files.files().get(at) {
            let start = key::strip_timestamp(file.smallest.user_key(), size);
            if compare(found.order, start, found.plain).is_gt() {
                found.not_behind(start);
                break;
            }
            let end = key::strip_timestamp(file.largest.user_key(), size);
            found.not_before(start, false);
            // At its last key itself a file may share the answer with the next one.
            found.not_behind(end);
            if let Some(fragments) = self.fragments(at, file, found.order, tables)? {
                found.ask(&fragments);
            }
            if compare(found.order, end, found.plain).is_gt() {
                break;
            }
            at += 1;
        }
        Ok(())
    }

    fn fragments(
        &mut self,
        at: usize,
        file: &Arc<FileMeta>,
        order: &KeyOrder,
        tables: &Tables,
    ) -> Result<Option<Arc<Fragments>>> {
        if let Some((last, fragments)) = &self.last
            && *last == at
        {
            return Ok(fragments.clone());
        }
        let fragments = file_tombstones(file, self.number, order, tables)?;
        self.last = Some((at, fragments.clone()));
        Ok(fragments)
    }
}

/// The range tombstones of `file`, cut at its bounds; `None` if it has none.
pub(crate) fn file_tombstones(
    file: &Arc<FileMeta>,
    level: usize,
    order: &KeyOrder,
    tables: &Tables,
) -> Result<Option<Arc<Fragments>>> {
    let table = tables.table(file, level)?;
    Ok(table
        .range_tombstones()
        .map(|all| Arc::new(all.truncated(order, &file.smallest, &file.largest))))
}
