//! Range tombstones: their encoding, and lookup of those that cover a key.
//!
//! ```text
//! block rocksdb.range_del: internal key (start, sequence number, RangeDeletion) -> end user key
//! ```
//!
//! A tombstone deletes every older entry with a key in `[start, end)`. Tombstones may overlap.
//! Their starts and ends, sorted, are the *edges*, which divide the keys into *regions*: region 0
//! is before the first edge, and region `i` extends from edge `i - 1`, inclusive, to edge `i`,
//! exclusive. All keys of a region are covered by the same tombstones. [`Fragments`] map a key to
//! its region (a binary search, mostly over 8 bytes of each edge), and a region to its tombstones
//! (modules `disjoint` and `stacks`). They are built once per source, and are immutable and shared.
//! A reader remembers its current region and continues from there.
//!
//! In an order with timestamps, edges carry none: a tombstone has a single timestamp, encoded in
//! both of its ends, and deletes entries whose timestamps are not newer.
//!
//! The tombstones of a file apply only to keys between its smallest and largest key; outside that
//! range, other files may have keys whose sequence numbers were zeroed. Callers enforce the bounds
//! of the file, so that nothing has to be copied.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ops::Range;

use cairn_types::{Decoded, KeyOrder, Malformed, SequenceNumber, ValueKind};

use crate::block::{BlockKind, BlockLayout, DataCursor};
use crate::key::{self, InternalKey};
use crate::sorted_u64::{Sorted, word};
use disjoint::Disjoint;
use edges::Edges;
use stacks::Stacks;

mod disjoint;
mod edges;
mod stacks;
#[cfg(test)]
mod tests;

/// A range tombstone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// The first user key that it deletes, without timestamp.
    pub start: Vec<u8>,
    /// The first user key after it, without timestamp.
    pub end: Vec<u8>,
    /// The sequence number; older entries are deleted.
    pub seq: SequenceNumber,
    /// The timestamp; empty if keys have none.
    pub ts: Vec<u8>,
}

impl Tombstone {
    /// Decodes an entry of a block whose keys end with a timestamp of `timestamp_size` bytes.
    ///
    /// # Errors
    ///
    /// If the key is not a range deletion, or one of the ends is too short for a timestamp.
    pub fn decode(internal_key: &[u8], end: &[u8], timestamp_size: usize) -> Decoded<Tombstone> {
        let part = Part::decode(internal_key, end, timestamp_size)?;
        Ok(Tombstone {
            start: part.start.to_vec(),
            end: part.end.to_vec(),
            seq: part.seq,
            ts: part.ts.to_vec(),
        })
    }

    /// Encodes the tombstone as an internal key and a value.
    #[must_use]
    pub fn encode(&self) -> (InternalKey, Vec<u8>) {
        let start = [&self.start[..], &self.ts].concat();
        let end = [&self.end[..], &self.ts].concat();
        let key = InternalKey::new(&start, self.seq, ValueKind::RangeDeletion);
        (key, end)
    }

    /// The upper bound of a file that ends with the tombstone. It sorts before every version of the
    /// end key, regardless of timestamp: the bound's own timestamp is the maximum, all ones.
    #[must_use]
    pub fn upper_bound(&self) -> InternalKey {
        let newest = vec![u8::MAX; self.ts.len()];
        let end = [&self.end[..], &newest].concat();
        InternalKey::new(&end, SequenceNumber::MAX, ValueKind::RangeDeletion)
    }
}

/// A borrowed tombstone.
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
                "range tombstone is too short for its timestamp",
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

/// Compares user keys without timestamps in `order`.
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

/// True if timestamp `a` is newer than `b`. Equal user keys are ordered newest first.
fn is_newer(order: &KeyOrder, a: &[u8], b: &[u8]) -> bool {
    order.compare(a, b) == Ordering::Less
}

/// A region of keys with its tombstones.
#[derive(Clone, Copy)]
pub struct Fragment<'a> {
    /// The first user key of the region, without timestamp.
    pub start: &'a [u8],
    /// The first user key after the region, without timestamp.
    pub end: &'a [u8],
    fragments: &'a Fragments,
    region: usize,
}

impl Fragment<'_> {
    /// The sequence number of the newest tombstone visible at `visible`; zero if there is none.
    #[must_use]
    pub fn newest(&self, visible: SequenceNumber) -> SequenceNumber {
        self.fragments.newest(self.region, visible)
    }

    /// The number of tombstones, including duplicates.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.fragments.over.depth(self.region)
    }

    /// The sequence numbers of the tombstones, newest first.
    #[must_use]
    pub fn seqs(&self) -> Vec<SequenceNumber> {
        self.stamps().into_iter().map(|(seq, _)| seq).collect()
    }

    /// The tombstones, newest first, each clipped to the region.
    pub fn tombstones(&self) -> impl Iterator<Item = Tombstone> + '_ {
        let stamps = self.stamps().into_iter();
        stamps.map(|(seq, ts)| tombstone(self.start, self.end, seq, ts))
    }

    /// The sequence numbers and timestamps of the tombstones, newest first, without duplicates.
    fn stamps(&self) -> Vec<(SequenceNumber, &[u8])> {
        match &self.fragments.over {
            Coverage::Disjoint(apart) => {
                let seq = apart.seq(self.region);
                seq.map(|seq| (seq, &[][..])).into_iter().collect()
            }
            Coverage::Stacked(stacked) => {
                let mut ranks = stacked.stacks.ranks(self.region);
                ranks.sort_unstable();
                let stamp = |rank: u32| (stacked.seq(rank), stacked.timestamp(rank));
                let mut stamps: Vec<_> = ranks.into_iter().map(stamp).collect();
                stamps.dedup();
                stamps
            }
        }
    }
}

fn tombstone(start: &[u8], end: &[u8], seq: SequenceNumber, ts: &[u8]) -> Tombstone {
    Tombstone {
        start: start.to_vec(),
        end: end.to_vec(),
        seq,
        ts: ts.to_vec(),
    }
}

/// Fragmented range tombstones; see the module's documentation.
#[derive(Debug, Default)]
pub struct Fragments {
    edges: Edges,
    /// An index of the edges for bytewise orders, which is faster than comparing keys.
    words: Option<Words>,
    over: Coverage,
}

/// The tombstones over each region.
#[derive(Debug)]
enum Coverage {
    Disjoint(Disjoint),
    Stacked(Stacked),
}

impl Default for Coverage {
    fn default() -> Coverage {
        Coverage::Disjoint(Disjoint::default())
    }
}

/// An arbitrary number of tombstones over each region.
#[derive(Debug, Default)]
struct Stacked {
    /// The sequence number of each tombstone, newest first. The index of a tombstone is its *rank*.
    seqs: Vec<SequenceNumber>,
    /// The timestamp of each tombstone.
    timestamps: Vec<u8>,
    timestamp_size: usize,
    /// The regions covered by each tombstone.
    spans: Vec<Range<u32>>,
    stacks: Stacks,
}

/// The 8 bytes of each edge that follow the common prefix of all edges.
#[derive(Debug)]
struct Words {
    /// The length of the common prefix.
    shared: usize,
    words: Sorted,
}

/// The minimum number of edges; with fewer, keys are compared.
const MIN_WORDS: usize = 16;

impl Fragments {
    /// Fragments `tombstones`, in any order. Empty tombstones (`start >= end`) are ignored.
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
        Fragments::of_disjoint_parts(order, parts.clone())
            .unwrap_or_else(|| Fragments::of_parts(order, parts))
    }

    /// Fragments `parts` if they are sorted and disjoint.
    fn of_disjoint_parts<'a>(
        order: &KeyOrder,
        mut parts: impl Iterator<Item = Part<'a>>,
    ) -> Option<Fragments> {
        let (mut edges, mut apart) = (Edges::default(), Disjoint::default());
        parts.try_for_each(|part| apart.push(&mut edges, order, &part))?;
        Some(Fragments::of_disjoint(order, edges, apart))
    }

    fn of_disjoint(order: &KeyOrder, mut edges: Edges, mut apart: Disjoint) -> Fragments {
        edges.shrink();
        apart.shrink();
        Fragments {
            words: words(&edges, order),
            edges,
            over: Coverage::Disjoint(apart),
        }
    }

    fn of_parts<'a>(order: &KeyOrder, parts: impl Iterator<Item = Part<'a>>) -> Fragments {
        let all: Vec<Part<'_>> = parts
            .filter(|part| compare(order, part.start, part.end) == Ordering::Less)
            .collect();
        if all.is_empty() {
            return Fragments::default();
        }
        let count = u32::try_from(all.len()).unwrap_or(u32::MAX);
        assert!(count < 1 << 31, "too many range tombstones");
        let mut by_rank: Vec<u32> = (0..count).collect();
        by_rank.sort_by(|&a, &b| {
            let (a, b) = (&all[a as usize], &all[b as usize]);
            b.seq.cmp(&a.seq).then_with(|| a.ts.cmp(b.ts))
        });
        let (edges, mut spans) = find_edges(order, &all);
        let in_order = || by_rank.iter().map(|&at| at as usize);
        let spans: Vec<Range<u32>> = in_order()
            .map(|at| std::mem::take(&mut spans[at]))
            .collect();
        let timestamp_size = order.timestamp_size();
        let mut timestamps = Vec::new();
        for at in in_order() {
            debug_assert_eq!(all[at].ts.len(), timestamp_size);
            timestamps.extend_from_slice(all[at].ts);
        }
        let stacked = Stacked {
            seqs: in_order().map(|at| all[at].seq).collect(),
            timestamps,
            timestamp_size,
            stacks: Stacks::build(edges.len() + 1, &spans),
            spans,
        };
        Fragments {
            words: words(&edges, order),
            edges,
            over: Coverage::Stacked(stacked),
        }
    }
    /// Fragments a block of tombstones. `global` replaces their sequence numbers in ingested files.
    ///
    /// # Errors
    ///
    /// If the block or a tombstone is malformed.
    pub fn decode(
        bytes: &[u8],
        order: &KeyOrder,
        global: Option<SequenceNumber>,
    ) -> Decoded<Fragments> {
        let layout = BlockLayout::parse(bytes, BlockKind::Meta)?;
        if order.timestamp_size() == 0
            && let Some(apart) = Fragments::decode_disjoint(bytes, &layout, order, global)?
        {
            return Ok(apart);
        }
        let mut entries = Vec::new();
        // The start keys; the end keys stay in the block.
        let mut keys: Vec<u8> = Vec::new();
        let mut cursor = DataCursor::new().with_global_seqno(global);
        cursor.first(bytes, &layout)?;
        while cursor.valid() {
            let key = cursor.key(bytes);
            let from = keys.len();
            check_whole(bytes, from, key, &cursor)?;
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

    /// Fragments a block whose tombstones are sorted and disjoint; `None` for other blocks.
    fn decode_disjoint(
        bytes: &[u8],
        layout: &BlockLayout,
        order: &KeyOrder,
        global: Option<SequenceNumber>,
    ) -> Decoded<Option<Fragments>> {
        // Usually every entry is a restart point. The capacity is two edges per entry, bounded by
        // the size of the block even if it is damaged. Pages that are never touched cost nothing,
        // and unused capacity is freed at the end.
        let count = (layout.restarts() as usize).min(bytes.len() / 4) * 2;
        let mut edges = Edges::with_capacity(count, bytes.len());
        let mut apart = Disjoint::with_capacity(count);
        let mut cursor = DataCursor::new().with_global_seqno(global);
        let mut keys = 0;
        cursor.first(bytes, layout)?;
        while cursor.valid() {
            let key = cursor.key(bytes);
            check_whole(bytes, keys, key, &cursor)?;
            keys += key.len();
            let part = Part::decode(key, cursor.value(bytes), 0)
                .map_err(|e| e.shifted(cursor.value_range().start))?;
            if apart.push(&mut edges, order, &part).is_none() {
                return Ok(None);
            }
            cursor.next(bytes, layout)?;
        }
        Ok(Some(Fragments::of_disjoint(order, edges, apart)))
    }

    /// True if there are no tombstones.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.edges.len() == 0
    }

    /// The memory used, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        let words = self.words.as_ref().map_or(0, |it| it.words.memory_usage());
        let over = match &self.over {
            Coverage::Disjoint(apart) => apart.memory(),
            Coverage::Stacked(stacked) => stacked.memory(),
        };
        self.edges.memory() + words + over
    }

    /// The number of edges.
    #[inline]
    #[must_use]
    pub fn edges(&self) -> usize {
        self.edges.len()
    }

    /// The edge with index `at`, without timestamp; `None` if there is none.
    #[inline]
    #[must_use]
    pub fn edge(&self, at: usize) -> Option<&[u8]> {
        self.edges.get(at)
    }

    /// The bounds of a region: its first key, and the first key after it. `None` where there is no
    /// bound.
    #[inline]
    #[must_use]
    pub fn bounds(&self, region: usize) -> [Option<&[u8]>; 2] {
        let before = region.checked_sub(1);
        [
            before.and_then(|before| self.edge(before)),
            self.edge(region),
        ]
    }

    /// The number of regions, including uncovered ones.
    fn regions(&self) -> usize {
        self.edges() + 1
    }

    /// The sequence numbers of all tombstones, in any order.
    pub fn seqs(&self) -> impl Iterator<Item = SequenceNumber> + '_ {
        let (apart, stacked) = match &self.over {
            Coverage::Disjoint(apart) => (Some(apart), None),
            Coverage::Stacked(stacked) => (None, Some(stacked)),
        };
        let apart = apart.into_iter().flat_map(Disjoint::seqs);
        let stacked = stacked.into_iter().flat_map(|stacked| &stacked.seqs);
        apart.chain(stacked.copied())
    }

    /// The region of `user_key`, without timestamp.
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
        let shared = self.edges.prefix(words.shared);
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
        // The words of these edges equal that of the key.
        let to = match wanted.checked_add(1) {
            Some(next) => words.words.before(next, |_| ()),
            None => self.edges(),
        };
        first_not(from..to, not_behind)
    }

    /// The region of `user_key`, without timestamp, starting the search at region `near`. Fast if
    /// the result is that region or an adjacent one.
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

    /// The sequence number of the newest tombstone over a region that is visible at `visible`; zero if there
    /// is none. Entries with smaller numbers are deleted.
    #[inline]
    #[must_use]
    pub fn newest(&self, region: usize, visible: SequenceNumber) -> SequenceNumber {
        let newest = match &self.over {
            Coverage::Disjoint(apart) => apart.seq(region).filter(|&seq| seq <= visible),
            Coverage::Stacked(stacked) => stacked.newest(region, visible),
        };
        newest.unwrap_or_default()
    }

    /// [`Fragments::newest`] for an entry with timestamp `key_ts` and a reader at timestamp
    /// `read_ts` (`None` for the newest). Only tombstones that are not older than `key_ts` are
    /// considered.
    #[must_use]
    pub fn newest_at(
        &self,
        order: &KeyOrder,
        region: usize,
        visible: SequenceNumber,
        key_ts: &[u8],
        read_ts: Option<&[u8]>,
    ) -> SequenceNumber {
        match &self.over {
            Coverage::Stacked(stacked) if stacked.timestamp_size > 0 => {
                let newest = stacked.newest_at(order, region, visible, key_ts, read_ts);
                newest.unwrap_or_default()
            }
            _ => self.newest(region, visible),
        }
    }

    /// The sequence number of the newest tombstone over `user_key`, which includes its timestamp, that is
    /// visible at `visible`; zero if there is none. All timestamps are visible; see
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

    /// [`Fragments::covering`] for a reader at the timestamp `read_ts`. Only tombstones that are not older
    /// than the timestamp of `user_key` are considered.
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
        let plain = key::strip_timestamp(user_key, order.timestamp_size());
        let region = self.region(order, plain);
        self.newest_at(order, region, visible, &user_key[plain.len()..], read_ts)
    }

    /// All covered regions, in order.
    pub fn iter(&self) -> impl Iterator<Item = Fragment<'_>> {
        self.fragments(0..self.regions())
    }

    fn fragments(&self, regions: Range<usize>) -> impl Iterator<Item = Fragment<'_>> {
        regions.filter_map(|region| {
            let [Some(start), Some(end)] = self.bounds(region) else {
                return None;
            };
            (self.over.depth(region) > 0).then_some(Fragment {
                start,
                end,
                fragments: self,
                region,
            })
        })
    }

    /// True if a tombstone covers any key from `from` to `to`, inclusive, without timestamps.
    #[must_use]
    pub fn touch(&self, order: &KeyOrder, from: &[u8], to: &[u8]) -> bool {
        let mut behind = self.fragments(self.region(order, from)..self.regions());
        let first = behind.next();
        first.is_some_and(|fragment| compare(order, fragment.start, to).is_le())
    }

    /// The covered regions clipped to `[from, to)`, user keys without timestamps. `None` means
    /// unbounded.
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

    /// The original tombstones, newest first, clipped to `[from, to)`, user keys without timestamps.
    pub fn tombstones<'a>(
        &'a self,
        order: &'a KeyOrder,
        from: &'a [u8],
        to: &'a [u8],
    ) -> impl Iterator<Item = Tombstone> + 'a {
        let given: Vec<(Range<usize>, SequenceNumber, &[u8])> = match &self.over {
            Coverage::Disjoint(apart) => {
                let within = self.region(order, from)..=self.region(order, to);
                let given = apart.within(within);
                let mut given: Vec<_> = given
                    .map(|(region, seq)| (region..region + 1, seq, &[][..]))
                    .collect();
                given.sort_by_key(|&(_, seq, _)| std::cmp::Reverse(seq));
                given
            }
            Coverage::Stacked(stacked) => (0..)
                .zip(&stacked.spans)
                .map(|(rank, span)| {
                    let span = span.start as usize..span.end as usize;
                    (span, stacked.seq(rank), stacked.timestamp(rank))
                })
                .collect(),
        };
        given.into_iter().filter_map(move |(span, seq, ts)| {
            let [start, end] = [span.start, span.end].map(|at| self.edge(at - 1));
            let start = later(order, start?, Some(from));
            let end = earlier(order, end?, Some(to));
            let some = compare(order, start, end).is_lt();
            some.then(|| tombstone(start, end, seq, ts))
        })
    }
}

impl Coverage {
    /// The number of tombstones over `region`.
    #[inline]
    fn depth(&self, region: usize) -> usize {
        match self {
            Coverage::Disjoint(apart) => usize::from(apart.seq(region).is_some()),
            Coverage::Stacked(stacked) => stacked.stacks.depth(region),
        }
    }
}

impl Stacked {
    fn newest(&self, region: usize, visible: SequenceNumber) -> Option<SequenceNumber> {
        let newest = self.stacks.first(region, self.first_visible(visible));
        newest.map(|rank| self.seq(rank))
    }

    /// See [`Fragments::newest_at`].
    fn newest_at(
        &self,
        order: &KeyOrder,
        region: usize,
        visible: SequenceNumber,
        key_ts: &[u8],
        read_ts: Option<&[u8]>,
    ) -> Option<SequenceNumber> {
        let counts = |rank: u32| {
            let ts = self.timestamp(rank);
            !is_newer(order, key_ts, ts) && read_ts.is_none_or(|read| !is_newer(order, ts, read))
        };
        let newest = self
            .stacks
            .find(region, self.first_visible(visible), counts);
        newest.map(|rank| self.seq(rank))
    }

    /// The rank of the newest tombstone visible at `visible`.
    #[inline]
    fn first_visible(&self, visible: SequenceNumber) -> u32 {
        if self.seqs.first().is_none_or(|&newest| newest <= visible) {
            return 0;
        }
        // Ranks have 31 bits.
        u32::try_from(self.seqs.partition_point(|&seq| seq > visible)).unwrap_or(u32::MAX)
    }

    #[inline]
    fn seq(&self, rank: u32) -> SequenceNumber {
        self.seqs[rank as usize]
    }

    fn timestamp(&self, rank: u32) -> &[u8] {
        let from = rank as usize * self.timestamp_size;
        &self.timestamps[from..from + self.timestamp_size]
    }

    fn memory(&self) -> usize {
        self.seqs.len() * (size_of::<SequenceNumber>() + size_of::<Range<u32>>())
            + self.timestamps.len()
            + self.stacks.memory()
    }
}

/// Sorts the starts and ends of `all`. Returns the edges, and the regions covered by each
/// tombstone.
fn find_edges(order: &KeyOrder, all: &[Part<'_>]) -> (Edges, Vec<Range<u32>>) {
    // The tombstones of a table are ordered by start, and mostly by end, so the sort finds two
    // sorted runs.
    let starts = (0..).zip(all).map(|(at, part)| (part.start, at, false));
    let ends = (0..).zip(all).map(|(at, part)| (part.end, at, true));
    let mut sorted: Vec<(&[u8], u32, bool)> = starts.chain(ends).collect();
    sorted.sort_by(|a, b| compare(order, a.0, b.0));
    let mut edges = Edges::default();
    let mut spans = vec![0..0; all.len()];
    for (key, at, is_end) in sorted {
        let last = edges.last();
        if last.is_none_or(|last| compare(order, last, key).is_lt()) {
            edges.push(key);
        }
        // At most twice as many edges as tombstones.
        let region = u32::try_from(edges.len()).unwrap_or(u32::MAX);
        let span = &mut spans[at as usize];
        match is_end {
            true => span.end = region,
            false => span.start = region,
        }
    }
    edges.shrink();
    (edges, spans)
}

fn words(edges: &Edges, order: &KeyOrder) -> Option<Words> {
    let count = edges.len();
    if count < MIN_WORDS || !matches!(order, KeyOrder::Bytewise | KeyOrder::BytewiseU64Ts) {
        return None;
    }
    let (first, last) = (edges.get(0)?, edges.last()?);
    let shared = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    let rest = |at: usize| edges.get(at).and_then(|edge| edge.get(shared..));
    let words = (0..count).map(|at| word(rest(at).unwrap_or_default()));
    Some(Words {
        shared,
        words: Sorted::new(words),
    })
}

/// Checks that the keys in a block of tombstones are not delta-encoded, so that they take no more
/// memory than the block.
fn check_whole(bytes: &[u8], before: usize, key: &[u8], cursor: &DataCursor) -> Decoded<()> {
    if before + key.len() > bytes.len() {
        return Err(Malformed::at(
            cursor.value_range().start,
            "keys of range tombstones are delta-encoded",
        ));
    }
    Ok(())
}

fn later<'a>(order: &KeyOrder, a: &'a [u8], b: Option<&'a [u8]>) -> &'a [u8] {
    b.filter(|b| compare(order, a, b).is_lt()).unwrap_or(a)
}

fn earlier<'a>(order: &KeyOrder, a: &'a [u8], b: Option<&'a [u8]>) -> &'a [u8] {
    b.filter(|b| compare(order, b, a).is_lt()).unwrap_or(a)
}

/// The first number of `range` for which `holds` is false, given that it is true for all smaller
/// ones.
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
