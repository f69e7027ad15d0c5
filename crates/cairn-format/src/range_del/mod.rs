//! Range tombstones: how they lie in a table, and which of them covers a key.
//!
//! ```text
//! block rocksdb.range_del: internal key (start, sequence number, RangeDeletion) -> end user key
//! ```
//!
//! A tombstone hides every older entry of a key in `[start, end)`. Tombstones overlap as they come. Their ends,
//! sorted, are the *edges*, which cut the keys into *regions*: region 0 lies before the first edge, region `i` between
//! edge `i - 1`, which belongs to it, and edge `i`. All keys of a region lie under the same tombstones.
//! [`Fragments`] say of a key in which region it lies (a binary search, mostly over 8 bytes of each edge), and of a
//! region which tombstones lie over it (the module `stacks`). They are built once for each source, never
//! change, and are shared: a reader keeps the number of its region and goes on from there.
//!
//! Where keys end with a timestamp, the edges do not: a tombstone has one timestamp,
//! which both its ends carry on disk, and hides entries whose timestamp is not newer.
//!
//! The tombstones of a file speak only for the keys between the file's smallest and largest key;
//! beyond them, other files may hold keys whose sequence numbers have been zeroed since. Whoever asks keeps to the
//! bounds of the file; nothing is copied for them.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ops::Range;

use cairn_types::{Decoded, KeyOrder, Malformed, SequenceNumber, ValueKind};

use crate::block::{BlockKind, BlockLayout, DataCursor};
use crate::key::{self, InternalKey};
use crate::sorted::{Sorted, word};
use stacks::Stacks;

mod stacks;
#[cfg(test)]
mod tests;

/// One range tombstone, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// The first user key that it hides, without timestamp.
    pub start: Vec<u8>,
    /// The first user key behind it, without timestamp.
    pub end: Vec<u8>,
    /// Entries with smaller sequence numbers are hidden.
    pub seq: SequenceNumber,
    /// Its timestamp; empty where keys have none.
    pub ts: Vec<u8>,
}

impl Tombstone {
    /// The tombstone of an entry of the block, where keys end with `timestamp_size` bytes of
    /// timestamp.
    ///
    /// # Errors
    ///
    /// When the key is no range deletion, or an end is too short for a timestamp.
    pub fn decode(internal_key: &[u8], end: &[u8], timestamp_size: usize) -> Decoded<Tombstone> {
        let part = Part::decode(internal_key, end, timestamp_size)?;
        Ok(Tombstone {
            start: part.start.to_vec(),
            end: part.end.to_vec(),
            seq: part.seq,
            ts: part.ts.to_vec(),
        })
    }

    /// The entry of the block: internal key and value.
    #[must_use]
    pub fn encode(&self) -> (InternalKey, Vec<u8>) {
        let start = [&self.start[..], &self.ts].concat();
        let end = [&self.end[..], &self.ts].concat();
        let key = InternalKey::new(&start, self.seq, ValueKind::RangeDeletion);
        (key, end)
    }

    /// The upper bound of a file that ends with the tombstone: before all versions of the key behind it, whatever their
    /// timestamps. The timestamp of such a bound is the newest one, which is all ones.
    #[must_use]
    pub fn upper_bound(&self) -> InternalKey {
        let newest = vec![u8::MAX; self.ts.len()];
        let end = [&self.end[..], &newest].concat();
        InternalKey::new(&end, SequenceNumber::MAX, ValueKind::RangeDeletion)
    }
}

/// A tombstone that lies elsewhere.
#[derive(Clone, Copy)]
struct Part<'a> {
    start: &'a [u8],
    end: &'a [u8],
    seq: SequenceNumber,
    ts: &'a [u8],
}

impl<'a> Part<'a> {
    /// See [`Tombstone::decode`].
    fn decode(internal_key: &'a [u8], end: &'a [u8], timestamp_size: usize) -> Decoded<Part<'a>> {
        let parsed = key::parse(internal_key)?;
        if parsed.kind != ValueKind::RangeDeletion {
            return Err(Malformed::at(
                0,
                format!("range tombstone has the kind {:?}", parsed.kind),
            ));
        }
        if parsed.user_key.len() < timestamp_size || end.len() < timestamp_size {
            return Err(Malformed::at(
                0,
                "range tombstone has no room for its timestamp",
            ));
        }
        let plain = parsed.user_key.len() - timestamp_size;
        let (start, ts) = parsed.user_key.split_at(plain);
        Ok(Part {
            start,
            end: key::strip_timestamp(end, timestamp_size),
            seq: parsed.seq,
            ts,
        })
    }
}

/// How user keys without timestamps stand to each other in `order`.
#[inline]
fn compare(order: &KeyOrder, a: &[u8], b: &[u8]) -> Ordering {
    match order {
        KeyOrder::Bytewise | KeyOrder::BytewiseU64Ts => a.cmp(b),
        KeyOrder::ReverseBytewise | KeyOrder::ReverseBytewiseU64Ts => b.cmp(a),
        KeyOrder::Custom(custom) => match custom.timestamp_size() {
            0 => custom.compare(a, b),
            _ => custom.compare_without_timestamp(a, false, b, false),
        },
    }
}

/// Whether timestamp `a` is newer than `b`: keys that differ in nothing else come newest first.
fn is_newer(order: &KeyOrder, a: &[u8], b: &[u8]) -> bool {
    order.compare(a, b) == Ordering::Less
}

/// A region of keys that some tombstones cover.
#[derive(Clone, Copy)]
pub struct Fragment<'a> {
    /// The first user key, without timestamp.
    pub start: &'a [u8],
    /// The first user key behind the region, without timestamp.
    pub end: &'a [u8],
    fragments: &'a Fragments,
    region: usize,
}

impl Fragment<'_> {
    /// The newest of the tombstones that `visible` sees; zero for none.
    #[must_use]
    pub fn newest(&self, visible: SequenceNumber) -> SequenceNumber {
        self.fragments.newest(self.region, visible)
    }

    /// How many tombstones there are, those counted more than once that come more than once.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.fragments.stacks.depth(self.region)
    }

    /// The sequence numbers of the tombstones, newest first.
    #[must_use]
    pub fn seqs(&self) -> Vec<SequenceNumber> {
        let seq = |rank: u32| self.fragments.seqs[rank as usize];
        self.ranks().into_iter().map(seq).collect()
    }

    /// The tombstones, newest first, from `start` to `end` each.
    pub fn tombstones(&self) -> impl Iterator<Item = Tombstone> + '_ {
        let ranks = self.ranks().into_iter();
        ranks.map(|rank| self.fragments.tombstone(rank, self.start, self.end))
    }

    /// The tombstones, newest first; the same one twice is one.
    fn ranks(&self) -> Vec<u32> {
        let all = self.fragments;
        let mut ranks = all.stacks.ranks(self.region);
        ranks.sort_unstable();
        ranks.dedup_by(|&mut b, &mut a| {
            all.seqs[a as usize] == all.seqs[b as usize] && all.timestamp(a) == all.timestamp(b)
        });
        ranks
    }
}

/// Range tombstones and their edges; see the module's documentation.
#[derive(Debug, Default)]
pub struct Fragments {
    /// The bytes of all edges.
    keys: Vec<u8>,
    /// Where each edge begins in `keys`, and where the last one ends; empty if there is none.
    offsets: Vec<usize>,
    /// Where keys order as their bytes do: what finds an edge faster than comparing keys.
    words: Option<Words>,
    /// The sequence number of each tombstone, newest first. Its place here is the *rank* of a tombstone.
    seqs: Vec<SequenceNumber>,
    /// The timestamp of each.
    timestamps: Vec<u8>,
    timestamp_size: usize,
    /// The regions that each covers.
    spans: Vec<Range<u32>>,
    stacks: Stacks,
}

/// Of each edge the 8 bytes behind what all edges begin with.
#[derive(Debug)]
struct Words {
    /// How many bytes that is.
    shared: usize,
    words: Sorted,
}

/// With fewer edges a search compares keys.
const MIN_WORDS: usize = 16;

impl Fragments {
    /// The fragments of `tombstones`, in any order. Empty tombstones (`start >= end`) vanish.
    ///
    /// # Panics
    ///
    /// If there are 2^31 tombstones or more.
    #[must_use]
    pub fn build<T: Borrow<Tombstone>>(
        order: &KeyOrder,
        tombstones: impl IntoIterator<Item = T>,
    ) -> Fragments {
        let all: Vec<T> = tombstones.into_iter().collect();
        let parts = all.iter().map(Borrow::borrow).map(|t| Part {
            start: &t.start,
            end: &t.end,
            seq: t.seq,
            ts: &t.ts,
        });
        Fragments::of_parts(order, parts)
    }

    fn of_parts<'a>(order: &KeyOrder, parts: impl Iterator<Item = Part<'a>>) -> Fragments {
        let all: Vec<Part<'_>> = parts
            .filter(|part| compare(order, part.start, part.end) == Ordering::Less)
            .collect();
        if all.is_empty() {
            return Fragments::default();
        }
        let count = u32::try_from(all.len()).unwrap_or(u32::MAX);
        assert!(count < 1 << 31, "there are too many range tombstones");
        let mut by_rank: Vec<u32> = (0..count).collect();
        by_rank.sort_by(|&a, &b| {
            let (a, b) = (&all[a as usize], &all[b as usize]);
            b.seq.cmp(&a.seq).then_with(|| a.ts.cmp(b.ts))
        });
        let mut fragments = Fragments {
            timestamp_size: order.timestamp_size(),
            ..Fragments::default()
        };
        let mut spans = fragments.find_edges(order, &all);
        let in_order = || by_rank.iter().map(|&at| at as usize);
        fragments.spans = in_order()
            .map(|at| std::mem::take(&mut spans[at]))
            .collect();
        fragments.seqs = in_order().map(|at| all[at].seq).collect();
        for at in in_order() {
            debug_assert_eq!(all[at].ts.len(), fragments.timestamp_size);
            fragments.timestamps.extend_from_slice(all[at].ts);
        }
        fragments.stacks = Stacks::build(fragments.regions(), &fragments.spans);
        fragments.words = fragments.words(order);
        fragments
    }

    /// Sorts the ends of `all`, and returns which regions each covers.
    fn find_edges(&mut self, order: &KeyOrder, all: &[Part<'_>]) -> Vec<Range<u32>> {
        // Tables have tombstones in the order of their starts, and mostly of their ends: the sort finds two sorted runs.
        let starts = (0..).zip(all).map(|(at, part)| (part.start, at, false));
        let ends = (0..).zip(all).map(|(at, part)| (part.end, at, true));
        let mut edges: Vec<(&[u8], u32, bool)> = starts.chain(ends).collect();
        edges.sort_by(|a, b| compare(order, a.0, b.0));
        let mut spans = vec![0..0; all.len()];
        let mut last: Option<&[u8]> = None;
        for (key, at, is_end) in edges {
            if last.is_none_or(|last| compare(order, last, key).is_lt()) {
                self.offsets.push(self.keys.len());
                self.keys.extend_from_slice(key);
                last = Some(key);
            }
            // Twice as many edges as tombstones at most.
            let region = u32::try_from(self.offsets.len()).unwrap_or(u32::MAX);
            let span = &mut spans[at as usize];
            match is_end {
                true => span.end = region,
                false => span.start = region,
            }
        }
        self.offsets.push(self.keys.len());
        self.offsets.shrink_to_fit();
        self.keys.shrink_to_fit();
        spans
    }

    fn words(&self, order: &KeyOrder) -> Option<Words> {
        let count = self.edges();
        if count < MIN_WORDS || !matches!(order, KeyOrder::Bytewise | KeyOrder::BytewiseU64Ts) {
            return None;
        }
        let (first, last) = (self.edge(0)?, self.edge(count - 1)?);
        let shared = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        let words = (0..count).filter_map(|at| Some(word(&self.edge(at)?[shared..])));
        let words: Vec<u64> = words.collect();
        Some(Words {
            shared,
            words: Sorted::new(&words),
        })
    }

    /// The fragments of a block of tombstones; `global` replaces their sequence numbers in
    /// ingested files.
    ///
    /// # Errors
    ///
    /// When the block or a tombstone in it is malformed.
    pub fn decode(
        bytes: &[u8],
        order: &KeyOrder,
        global: Option<SequenceNumber>,
    ) -> Decoded<Fragments> {
        let layout = BlockLayout::parse(bytes, BlockKind::Meta)?;
        let mut cursor = DataCursor::new().with_global_seqno(global);
        let mut entries = Vec::new();
        // The keys; ends lie in the block.
        let mut keys: Vec<u8> = Vec::new();
        cursor.first(bytes, &layout)?;
        while cursor.valid() {
            let at = cursor.value_range().start;
            let key = cursor.key(bytes);
            // Every key of such a block is written whole, so that keys take no more than the block.
            if keys.len() + key.len() > bytes.len() {
                return Err(Malformed::at(
                    at,
                    "range tombstones share bytes of their keys",
                ));
            }
            let from = keys.len();
            keys.extend_from_slice(key);
            entries.push((from..keys.len(), cursor.value_range()));
            cursor.next(bytes, &layout)?;
        }
        let size = order.timestamp_size();
        let parts = entries.into_iter().map(|(key, end)| {
            let at = end.start;
            Part::decode(&keys[key], &bytes[end], size).map_err(|e| e.shifted(at))
        });
        let parts = parts.collect::<Decoded<Vec<Part<'_>>>>()?;
        Ok(Fragments::of_parts(order, parts.into_iter()))
    }

    /// Whether there is no tombstone.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.seqs.is_empty()
    }

    /// Bytes of memory that the fragments take.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.keys.len()
            + self.offsets.len() * size_of::<usize>()
            + self
                .words
                .as_ref()
                .map_or(0, |words| words.words.memory_usage())
            + self.seqs.len() * (size_of::<SequenceNumber>() + size_of::<Range<u32>>())
            + self.timestamps.len()
            + self.stacks.memory()
    }

    /// How many edges there are.
    #[inline]
    #[must_use]
    pub fn edges(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// The edge at `at`, without timestamp; `None` behind the last one.
    #[inline]
    #[must_use]
    pub fn edge(&self, at: usize) -> Option<&[u8]> {
        let &[from, to] = self.offsets.get(at..)?.first_chunk::<2>()?;
        self.keys.get(from..to)
    }

    /// The edges of a region: its first key, and the first key behind it. `None` for no edge.
    #[inline]
    #[must_use]
    pub fn bounds(&self, region: usize) -> [Option<&[u8]>; 2] {
        let before = region.checked_sub(1);
        [
            before.and_then(|before| self.edge(before)),
            self.edge(region),
        ]
    }

    /// How many regions there are, those included that nothing covers.
    fn regions(&self) -> usize {
        self.edges() + 1
    }

    /// The sequence numbers of all tombstones, newest first.
    #[must_use]
    pub fn seqs(&self) -> &[SequenceNumber] {
        &self.seqs
    }

    /// The region that `user_key` (without timestamp) lies in.
    #[inline]
    #[must_use]
    pub fn region(&self, order: &KeyOrder, user_key: &[u8]) -> usize {
        let not_behind = |edge: usize| {
            let edge = self.edge(edge);
            edge.is_some_and(|edge| compare(order, edge, user_key).is_le())
        };
        match &self.words {
            None => first_not(0..self.edges(), not_behind),
            Some(words) => self.region_by_words(words, user_key, not_behind),
        }
    }

    #[inline]
    fn region_by_words(
        &self,
        words: &Words,
        user_key: &[u8],
        not_behind: impl Fn(usize) -> bool,
    ) -> usize {
        let shared = self.keys.get(..words.shared).unwrap_or_default();
        let Some(rest) = user_key.strip_prefix(shared) else {
            return match user_key < shared {
                true => 0,
                false => self.edges(),
            };
        };
        let wanted = word(rest);
        let from = words.words.before(wanted, |_| ());
        if words.words.get(from) != Some(wanted) {
            return from;
        }
        // The words cannot tell these edges from the key.
        let to = match wanted.checked_add(1) {
            Some(next) => words.words.before(next, |_| ()),
            None => self.edges(),
        };
        first_not(from..to, not_behind)
    }

    /// The region that `user_key` (without timestamp) lies in, which costs next to nothing if it is `near` or
    /// a neighbour of it.
    #[inline]
    #[must_use]
    pub fn region_near(&self, order: &KeyOrder, near: usize, user_key: &[u8]) -> usize {
        let begins = |region: usize| match region.checked_sub(1).map(|before| self.edge(before)) {
            Some(Some(edge)) => compare(order, edge, user_key).is_le(),
            Some(None) => false,
            None => true,
        };
        if begins(near) {
            match (begins(near + 1), begins(near + 2)) {
                (false, _) => return near,
                (true, false) => return near + 1,
                _ => {}
            }
        } else if near > 0 && begins(near - 1) {
            return near - 1;
        }
        self.region(order, user_key)
    }

    /// The newest tombstone over a region that `visible` sees: its sequence number, zero if there is none. Entries
    /// with smaller numbers are hidden.
    #[inline]
    #[must_use]
    pub fn newest(&self, region: usize, visible: SequenceNumber) -> SequenceNumber {
        let newest = self.stacks.first(region, self.first_visible(visible));
        newest.map_or(SequenceNumber::ZERO, |rank| self.seqs[rank as usize])
    }

    /// [`Fragments::newest`] for an entry with the timestamp `key_ts` and a reader who sees timestamps up to `read_ts`, all
    /// without one. Only tombstones that are not older than `key_ts` count.
    #[must_use]
    pub fn newest_at(
        &self,
        order: &KeyOrder,
        region: usize,
        visible: SequenceNumber,
        key_ts: &[u8],
        read_ts: Option<&[u8]>,
    ) -> SequenceNumber {
        if self.timestamp_size == 0 {
            return self.newest(region, visible);
        }
        let counts = |rank: u32| {
            let ts = self.timestamp(rank);
            !is_newer(order, key_ts, ts) && read_ts.is_none_or(|read| !is_newer(order, ts, read))
        };
        let newest = self
            .stacks
            .find(region, self.first_visible(visible), counts);
        newest.map_or(SequenceNumber::ZERO, |rank| self.seqs[rank as usize])
    }

    /// The rank of the newest tombstone that `visible` sees.
    #[inline]
    fn first_visible(&self, visible: SequenceNumber) -> u32 {
        if self.seqs.first().is_none_or(|&newest| newest <= visible) {
            return 0;
        }
        // Ranks have 31 bits.
        u32::try_from(self.seqs.partition_point(|&seq| seq > visible)).unwrap_or(u32::MAX)
    }

    /// The newest tombstone over `user_key` (timestamp included) that `visible` sees: its sequence
    /// number, zero if there is none. Where keys have timestamps the reader sees all of them; see
    /// [`Fragments::covering_at`].
    #[inline]
    #[must_use]
    pub fn covering(
        &self,
        order: &KeyOrder,
        user_key: &[u8],
        visible: SequenceNumber,
    ) -> SequenceNumber {
        self.covering_at(order, user_key, visible, None)
    }

    /// [`Fragments::covering`] for a reader who sees timestamps up to `read_ts`. Only tombstones
    /// that are not older than the timestamp of `user_key` count.
    #[inline]
    #[must_use]
    pub fn covering_at(
        &self,
        order: &KeyOrder,
        user_key: &[u8],
        visible: SequenceNumber,
        read_ts: Option<&[u8]>,
    ) -> SequenceNumber {
        if self.is_empty() {
            return SequenceNumber::ZERO;
        }
        let plain = key::strip_timestamp(user_key, self.timestamp_size);
        let region = self.region(order, plain);
        self.newest_at(order, region, visible, &user_key[plain.len()..], read_ts)
    }

    fn timestamp(&self, rank: u32) -> &[u8] {
        let from = rank as usize * self.timestamp_size;
        &self.timestamps[from..from + self.timestamp_size]
    }

    fn tombstone(&self, rank: u32, start: &[u8], end: &[u8]) -> Tombstone {
        Tombstone {
            start: start.to_vec(),
            end: end.to_vec(),
            seq: self.seqs[rank as usize],
            ts: self.timestamp(rank).to_vec(),
        }
    }

    /// All regions that tombstones cover, in order.
    pub fn iter(&self) -> impl Iterator<Item = Fragment<'_>> {
        self.fragments(0..self.regions())
    }

    fn fragments(&self, regions: Range<usize>) -> impl Iterator<Item = Fragment<'_>> {
        regions.filter_map(|region| {
            let [Some(start), Some(end)] = self.bounds(region) else {
                return None;
            };
            (self.stacks.depth(region) > 0).then_some(Fragment {
                start,
                end,
                fragments: self,
                region,
            })
        })
    }

    /// Whether a tombstone covers any key from `from` to `to`, both included and without timestamps.
    #[must_use]
    pub fn touch(&self, order: &KeyOrder, from: &[u8], to: &[u8]) -> bool {
        let mut behind = self.fragments(self.region(order, from)..self.regions());
        let first = behind.next();
        first.is_some_and(|fragment| compare(order, fragment.start, to).is_le())
    }

    /// The parts of the fragments in `[from, to)`, user keys without timestamps; `None` is no
    /// bound.
    pub fn clipped<'a>(
        &'a self,
        order: &'a KeyOrder,
        from: Option<&'a [u8]>,
        to: Option<&'a [u8]>,
    ) -> impl Iterator<Item = Fragment<'a>> {
        let first = from.map_or(0, |from| self.region(order, from));
        self.fragments(first..self.regions())
            .map(move |fragment| Fragment {
                start: later(order, fragment.start, from),
                end: earlier(order, fragment.end, to),
                ..fragment
            })
            .take_while(move |part| to.is_none_or(|to| compare(order, part.start, to).is_lt()))
            .filter(move |part| compare(order, part.start, part.end).is_lt())
    }

    /// The tombstones as they were given, newest first, but for what lies outside `[from, to)`, user keys without timestamps.
    pub fn tombstones<'a>(
        &'a self,
        order: &'a KeyOrder,
        from: &'a [u8],
        to: &'a [u8],
    ) -> impl Iterator<Item = Tombstone> + 'a {
        (0..).zip(&self.spans).filter_map(move |(rank, span)| {
            let [start, end] = [span.start, span.end].map(|at| self.edge(at as usize - 1));
            let start = later(order, start?, Some(from));
            let end = earlier(order, end?, Some(to));
            let some = compare(order, start, end).is_lt();
            some.then(|| self.tombstone(rank, start, end))
        })
    }
}

fn later<'a>(order: &KeyOrder, a: &'a [u8], b: Option<&'a [u8]>) -> &'a [u8] {
    b.filter(|b| compare(order, a, b).is_lt()).unwrap_or(a)
}

fn earlier<'a>(order: &KeyOrder, a: &'a [u8], b: Option<&'a [u8]>) -> &'a [u8] {
    b.filter(|b| compare(order, b, a).is_lt()).unwrap_or(a)
}

/// The first number of `range` for which `holds` does not; it does for all those before.
#[inline]
fn first_not(range: Range<usize>, holds: impl Fn(usize) -> bool) -> usize {
    let Range { mut start, mut end } = range;
    while start < end {
        let middle = usize::midpoint(start, end);
        match holds(middle) {
            true => start = middle + 1,
            false => end = middle,
        }
    }
    start
}
