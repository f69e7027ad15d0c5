//! Range tombstones: how they lie in a table, and which of them covers a key.
//!
//! ```text
//! block rocksdb.range_del: internal key (start, sequence number, RangeDeletion) -> end user key
//! ```
//!
//! A tombstone hides every older entry of a key in `[start, end)`. Tombstones overlap as they
//! come; [`Fragments`] cuts them at each other's ends into ranges that do not, each with the
//! sequence numbers of all tombstones over it, newest first. A lookup is then one binary search.
//!
//! Where keys end with a timestamp, the ends of fragments do not: a tombstone has one timestamp,
//! which both its ends carry on disk, and hides entries whose timestamp is not newer.
//!
//! The tombstones of a file speak only for the keys between the file's smallest and largest key;
//! beyond them, other files may hold keys whose sequence numbers have been zeroed since.
//! [`Fragments::truncated`] cuts them there.

use std::cmp::Ordering;

use cairn_types::{Decoded, KeyOrder, Malformed, SequenceNumber, ValueKind};

use crate::block::{BlockKind, BlockLayout, DataCursor};
use crate::key::{self, InternalKey};

/// Sequence numbers over all fragments that a block's tombstones may come to: 128 MiB. Tombstones
/// nested in each other come to the square of their number, so a small block could ask for any
/// amount.
const MAX_DECODED_SEQS: usize = 1 << 24;

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
        let (start, ts) = parsed
            .user_key
            .split_at(parsed.user_key.len() - timestamp_size);
        Ok(Tombstone {
            start: start.to_vec(),
            end: key::strip_timestamp(end, timestamp_size).to_vec(),
            seq: parsed.seq,
            ts: ts.to_vec(),
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

/// A range of keys and all tombstones that cover the whole of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment<'a> {
    /// The first user key, without timestamp.
    pub start: &'a [u8],
    /// The first user key behind the range, without timestamp, unless `includes_end`.
    pub end: &'a [u8],
    /// Whether `end` itself is in the range. So it is only at the largest key of a file.
    pub includes_end: bool,
    /// The sequence numbers of the tombstones, newest first; at least one.
    pub seqs: &'a [SequenceNumber],
    /// Their timestamps in the same order, one after another; empty where keys have none.
    pub timestamps: &'a [u8],
}

impl Fragment<'_> {
    /// Whether the range ends before `user_key` (without timestamp).
    #[inline]
    #[must_use]
    pub fn is_before(&self, order: &KeyOrder, user_key: &[u8]) -> bool {
        match compare(order, self.end, user_key) {
            Ordering::Less => true,
            Ordering::Equal => !self.includes_end,
            Ordering::Greater => false,
        }
    }

    /// Whether the range begins behind `user_key` (without timestamp).
    #[inline]
    #[must_use]
    pub fn is_behind(&self, order: &KeyOrder, user_key: &[u8]) -> bool {
        compare(order, self.start, user_key).is_gt()
    }

    /// The timestamp of the tombstone at `i` of `seqs`; empty where keys have none.
    #[must_use]
    pub fn timestamp(&self, i: usize) -> &[u8] {
        let size = self.timestamps.len() / self.seqs.len().max(1);
        self.timestamps
            .get(i * size..(i + 1) * size)
            .unwrap_or_default()
    }

    /// The tombstones, newest first. The end of each is `end`, also where it is included.
    pub fn tombstones(&self) -> impl Iterator<Item = Tombstone> + '_ {
        self.seqs.iter().enumerate().map(|(i, &seq)| Tombstone {
            start: self.start.to_vec(),
            end: self.end.to_vec(),
            seq,
            ts: self.timestamp(i).to_vec(),
        })
    }

    /// The newest of the tombstones that `visible` sees: its place in `seqs`.
    #[inline]
    #[must_use]
    pub fn first_visible(&self, visible: SequenceNumber) -> usize {
        self.seqs.partition_point(|&seq| seq > visible)
    }
}

/// A part of the bytes of all ends.
#[derive(Clone, Copy, Debug)]
struct Span {
    at: usize,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    start: Span,
    end: Span,
    includes_end: bool,
    first: usize,
    count: usize,
}

/// Range tombstones as ranges that do not overlap, in order.
#[derive(Clone, Debug, Default)]
pub struct Fragments {
    keys: Vec<u8>,
    places: Vec<Place>,
    seqs: Vec<SequenceNumber>,
    timestamps: Vec<u8>,
    timestamp_size: usize,
}

impl Fragments {
    /// The fragments of `tombstones`, in any order. Empty tombstones (`start >= end`) vanish.
    #[must_use]
    pub fn build(order: &KeyOrder, tombstones: impl IntoIterator<Item = Tombstone>) -> Fragments {
        Fragments::build_within(order, tombstones, usize::MAX).expect("there is no limit")
    }

    /// [`Fragments::build`], or `None` if they have more than `limit` sequence numbers in all.
    fn build_within(
        order: &KeyOrder,
        tombstones: impl IntoIterator<Item = Tombstone>,
        limit: usize,
    ) -> Option<Fragments> {
        let mut all: Vec<Tombstone> = tombstones
            .into_iter()
            .filter(|t| compare(order, &t.start, &t.end) == Ordering::Less)
            .collect();
        all.sort_by(|a, b| compare(order, &a.start, &b.start));
        let mut ends: Vec<&[u8]> = all.iter().flat_map(|t| [&t.start[..], &t.end]).collect();
        ends.sort_unstable_by(|a, b| compare(order, a, b));
        ends.dedup_by(|a, b| compare(order, a, b) == Ordering::Equal);

        let mut built = Fragments {
            timestamp_size: order.timestamp_size(),
            ..Fragments::default()
        };
        // The tombstones over the range at hand, newest first.
        let mut over: Vec<&Tombstone> = Vec::new();
        let mut coming = all.iter().peekable();
        for pair in ends.windows(2) {
            let (start, end) = (pair[0], pair[1]);
            over.retain(|t| compare(order, &t.end, start) == Ordering::Greater);
            while let Some(t) = coming.next_if(|t| compare(order, &t.start, start).is_le()) {
                let at = over.partition_point(|other| other.seq > t.seq);
                over.insert(at, t);
            }
            if over.len() > limit - built.seqs.len().min(limit) {
                return None;
            }
            if !over.is_empty() {
                let (start, end) = (built.keep(start), built.keep(end));
                built.push(start, end, false, over.iter().map(|t| (t.seq, &t.ts[..])));
            }
        }
        Some(built)
    }

    /// The fragments of a block of tombstones; `global` replaces their sequence numbers in
    /// ingested files.
    ///
    /// # Errors
    ///
    /// When the block or a tombstone in it is malformed; when its tombstones overlap so much that
    /// their fragments take more than 2^24 sequence numbers.
    pub fn decode(
        bytes: &[u8],
        order: &KeyOrder,
        global: Option<SequenceNumber>,
    ) -> Decoded<Fragments> {
        let layout = BlockLayout::parse(bytes, BlockKind::Meta)?;
        let mut cursor = DataCursor::new().with_global_seqno(global);
        let mut tombstones = Vec::new();
        let mut keys_len = 0;
        cursor.first(bytes, &layout)?;
        while cursor.valid() {
            let at = cursor.value_range().start;
            // Every key of such a block is written whole, so that keys take no more than the block.
            keys_len += cursor.key(bytes).len();
            if keys_len > bytes.len() {
                return Err(Malformed::at(
                    at,
                    "range tombstones share bytes of their keys",
                ));
            }
            tombstones.push(
                Tombstone::decode(
                    cursor.key(bytes),
                    cursor.value(bytes),
                    order.timestamp_size(),
                )
                .map_err(|e| e.shifted(at))?,
            );
            cursor.next(bytes, &layout)?;
        }
        Fragments::build_within(order, tombstones, MAX_DECODED_SEQS)
            .ok_or_else(|| Malformed::unsupported(0, "range tombstones overlap too much"))
    }

    fn keep(&mut self, key: &[u8]) -> Span {
        // The end of one fragment is often the start of the next.
        if let Some(last) = self.places.last()
            && self.key(last.end) == key
        {
            return last.end;
        }
        let at = self.keys.len();
        self.keys.extend_from_slice(key);
        Span { at, len: key.len() }
    }

    fn key(&self, span: Span) -> &[u8] {
        &self.keys[span.at..span.at + span.len]
    }

    fn push<'a>(
        &mut self,
        start: Span,
        end: Span,
        includes_end: bool,
        stack: impl Iterator<Item = (SequenceNumber, &'a [u8])>,
    ) {
        let first = self.seqs.len();
        for (seq, ts) in stack {
            // The same tombstone twice is one.
            let last = self.seqs[first..].last();
            let last_ts = &self.timestamps[self.timestamps.len().saturating_sub(ts.len())..];
            if last == Some(&seq) && last_ts == ts {
                continue;
            }
            self.seqs.push(seq);
            self.timestamps.extend_from_slice(ts);
        }
        self.places.push(Place {
            start,
            end,
            includes_end,
            first,
            count: self.seqs.len() - first,
        });
    }

    /// Whether there is no tombstone.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// How many fragments there are.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Bytes of memory that the fragments take.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.keys.len()
            + self.places.len() * size_of::<Place>()
            + self.seqs.len() * size_of::<SequenceNumber>()
            + self.timestamps.len()
    }

    /// The fragment at `i`, in order.
    #[must_use]
    pub fn get(&self, i: usize) -> Option<Fragment<'_>> {
        let place = self.places.get(i)?;
        let seqs = place.first..place.first + place.count;
        Some(Fragment {
            start: self.key(place.start),
            end: self.key(place.end),
            includes_end: place.includes_end,
            timestamps: &self.timestamps
                [seqs.start * self.timestamp_size..seqs.end * self.timestamp_size],
            seqs: &self.seqs[seqs],
        })
    }

    /// All fragments, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Fragment<'_>> + ExactSizeIterator {
        (0..self.len()).map(|i| self.get(i).expect("it is one of them"))
    }

    /// The place of the first fragment that does not end before `user_key` (without timestamp).
    #[inline]
    #[must_use]
    pub fn find(&self, order: &KeyOrder, user_key: &[u8]) -> usize {
        self.places.partition_point(
            |place| match compare(order, self.key(place.end), user_key) {
                Ordering::Less => true,
                Ordering::Equal => !place.includes_end,
                Ordering::Greater => false,
            },
        )
    }

    /// The fragment over `user_key` (without timestamp), if there is one.
    #[inline]
    #[must_use]
    pub fn over(&self, order: &KeyOrder, user_key: &[u8]) -> Option<Fragment<'_>> {
        self.get(self.find(order, user_key))
            .filter(|fragment| compare(order, fragment.start, user_key).is_le())
    }

    /// The newest tombstone over `user_key` (timestamp included) that `visible` sees: its sequence
    /// number, zero if there is none. Entries with smaller numbers are hidden. Where keys have
    /// timestamps the reader sees all of them; see [`Fragments::covering_at`].
    #[inline]
    #[must_use]
    pub fn covering(
        &self,
        order: &KeyOrder,
        user_key: &[u8],
        visible: SequenceNumber,
    ) -> SequenceNumber {
        if self.is_empty() {
            return SequenceNumber::ZERO;
        }
        self.covering_at(order, user_key, visible, None)
    }

    /// [`Fragments::covering`] for a reader who sees timestamps up to `read_ts`. Only tombstones
    /// that are not older than the timestamp of `user_key` count.
    #[must_use]
    pub fn covering_at(
        &self,
        order: &KeyOrder,
        user_key: &[u8],
        visible: SequenceNumber,
        read_ts: Option<&[u8]>,
    ) -> SequenceNumber {
        let plain = key::strip_timestamp(user_key, self.timestamp_size);
        let Some(fragment) = self.over(order, plain) else {
            return SequenceNumber::ZERO;
        };
        let from = fragment.first_visible(visible);
        if self.timestamp_size == 0 {
            return fragment.seqs.get(from).copied().unwrap_or_default();
        }
        let key_ts = &user_key[plain.len()..];
        (from..fragment.seqs.len())
            .find(|&i| {
                let ts = fragment.timestamp(i);
                !is_newer(order, key_ts, ts)
                    && read_ts.is_none_or(|read| !is_newer(order, ts, read))
            })
            .map_or(SequenceNumber::ZERO, |i| fragment.seqs[i])
    }

    /// The parts of the fragments in `[from, to)`, user keys without timestamps; `None` is no
    /// bound.
    #[must_use]
    pub fn clipped(&self, order: &KeyOrder, from: Option<&[u8]>, to: Option<&[u8]>) -> Fragments {
        self.cut(order, from, to.map(|to| (to, false)))
    }

    /// The parts of the fragments that a file with these bounds speaks for. `largest` is in the
    /// file unless it is itself the end of a tombstone.
    #[must_use]
    pub fn truncated(
        &self,
        order: &KeyOrder,
        smallest: &InternalKey,
        largest: &InternalKey,
    ) -> Fragments {
        let smallest = key::strip_timestamp(smallest.user_key(), self.timestamp_size);
        let includes_end = !largest.is_exclusive_bound();
        let largest = key::strip_timestamp(largest.user_key(), self.timestamp_size);
        self.cut(order, Some(smallest), Some((largest, includes_end)))
    }

    fn cut(&self, order: &KeyOrder, from: Option<&[u8]>, to: Option<(&[u8], bool)>) -> Fragments {
        let mut parts = Fragments {
            timestamp_size: self.timestamp_size,
            ..Fragments::default()
        };
        let first = from.map_or(0, |from| self.find(order, from));
        for fragment in (first..self.len()).filter_map(|i| self.get(i)) {
            let start = match from {
                Some(from) if compare(order, fragment.start, from).is_lt() => from,
                _ => fragment.start,
            };
            let (end, includes_end) = match to {
                Some((to, includes_to)) => match compare(order, to, fragment.end) {
                    Ordering::Less => (to, includes_to),
                    Ordering::Equal => (fragment.end, includes_to && fragment.includes_end),
                    Ordering::Greater => (fragment.end, fragment.includes_end),
                },
                None => (fragment.end, fragment.includes_end),
            };
            match compare(order, start, end) {
                Ordering::Less => {}
                Ordering::Equal if includes_end => {}
                // Whatever follows starts later still.
                _ => break,
            }
            let (start, end) = (parts.keep(start), parts.keep(end));
            let stack = fragment.seqs.iter().enumerate();
            parts.push(
                start,
                end,
                includes_end,
                stack.map(|(i, &seq)| (seq, fragment.timestamp(i))),
            );
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{BlockBuilder, BlockOptions};
    use proptest::prelude::*;

    fn tombstone(start: &[u8], end: &[u8], seq: u64) -> Tombstone {
        Tombstone {
            start: start.to_vec(),
            end: end.to_vec(),
            seq: SequenceNumber(seq),
            ts: Vec::new(),
        }
    }

    fn shown(fragments: &Fragments) -> String {
        fragments
            .iter()
            .map(|f| {
                let seqs: Vec<String> = f.seqs.iter().map(ToString::to_string).collect();
                let close = if f.includes_end { ']' } else { ')' };
                format!(
                    "[{},{}{close}@{}",
                    f.start.escape_ascii(),
                    f.end.escape_ascii(),
                    seqs.join("+")
                )
            })
            .collect::<Vec<_>>()
            .join(" ")
    }

    const ORDER: KeyOrder = KeyOrder::Bytewise;

    #[test]
    fn keys_that_share_bytes_are_refused() {
        // A block of 3 KB once took a megabyte: each entry repeated a long key by its length alone.
        let mut builder =
            crate::block::BlockBuilder::new(crate::block::BlockOptions::one_restart());
        for number in 0..300u32 {
            let key = [&[b'a'; 2000][..], &number.to_be_bytes()].concat();
            let key = InternalKey::new(&key, SequenceNumber(5), ValueKind::RangeDeletion);
            builder.add(key.as_bytes(), b"b");
        }
        let block = builder.finish();
        assert!(Fragments::decode(block, &KeyOrder::Bytewise, None).is_err());
    }

    #[test]
    fn tombstones_are_cut_at_each_others_ends() {
        let fragments = Fragments::build(
            &ORDER,
            [
                tombstone(b"c", b"g", 10),
                tombstone(b"a", b"e", 20),
                tombstone(b"k", b"m", 5),
                tombstone(b"k", b"m", 5),
                tombstone(b"z", b"b", 99),
            ],
        );
        assert_eq!(shown(&fragments), "[a,c)@20 [c,e)@20+10 [e,g)@10 [k,m)@5");
        let covering =
            |key: &[u8], visible| fragments.covering(&ORDER, key, SequenceNumber(visible)).0;
        assert_eq!(covering(b"d", 100), 20);
        assert_eq!(covering(b"d", 19), 10);
        assert_eq!(covering(b"d", 9), 0);
        assert_eq!(covering(b"g", 100), 0);
        assert_eq!(covering(b"", 100), 0);
        assert_eq!(covering(b"zz", 100), 0);
    }

    #[test]
    fn a_file_speaks_only_for_its_own_keys() {
        let fragments =
            Fragments::build(&ORDER, [tombstone(b"b", b"f", 9), tombstone(b"h", b"k", 7)]);
        let smallest = InternalKey::new(b"c", SequenceNumber(3), ValueKind::Value);
        let point = InternalKey::new(b"i", SequenceNumber(3), ValueKind::Value);
        let parts = fragments.truncated(&ORDER, &smallest, &point);
        assert_eq!(shown(&parts), "[c,f)@9 [h,i]@7");
        assert_eq!(parts.covering(&ORDER, b"i", SequenceNumber::MAX).0, 7);
        assert_eq!(parts.covering(&ORDER, b"i\0", SequenceNumber::MAX).0, 0);
        assert_eq!(parts.covering(&ORDER, b"b", SequenceNumber::MAX).0, 0);
        let sentinel = InternalKey::new(b"i", SequenceNumber::MAX, ValueKind::RangeDeletion);
        let parts = fragments.truncated(&ORDER, &smallest, &sentinel);
        assert_eq!(shown(&parts), "[c,f)@9 [h,i)@7");
        let point = InternalKey::new(b"h", SequenceNumber(3), ValueKind::Value);
        let parts = fragments.truncated(&ORDER, &smallest, &point);
        assert_eq!(shown(&parts), "[c,f)@9 [h,h]@7");
        assert_eq!(
            shown(&fragments.clipped(&ORDER, None, Some(b"c"))),
            "[b,c)@9"
        );
        assert_eq!(
            shown(&fragments.clipped(&ORDER, Some(b"j"), None)),
            "[j,k)@7"
        );
        assert_eq!(
            shown(&fragments.clipped(&ORDER, Some(b"f"), Some(b"h"))),
            ""
        );
    }

    #[test]
    fn a_tombstone_hides_only_timestamps_that_are_not_newer() {
        let order = KeyOrder::BytewiseU64Ts;
        let ts = |n: u64| n.to_le_bytes().to_vec();
        let old = Tombstone {
            ts: ts(300),
            ..tombstone(b"a", b"m", 4)
        };
        let new = Tombstone {
            ts: ts(500),
            ..tombstone(b"c", b"z", 8)
        };
        let (key, end) = new.encode();
        assert_eq!(Tombstone::decode(key.as_bytes(), &end, 8).unwrap(), new);
        let fragments = Fragments::build(&order, [old, new]);
        assert_eq!(shown(&fragments), "[a,c)@4 [c,m)@8+4 [m,z)@8");
        let covering = |key: &[u8], key_ts, read_ts: u64| {
            let key = [key, &ts(key_ts)].concat();
            let read = ts(read_ts);
            fragments
                .covering_at(&order, &key, SequenceNumber::MAX, Some(&read))
                .0
        };
        assert_eq!(covering(b"d", 400, 600), 8);
        assert_eq!(covering(b"d", 200, 400), 4, "the newer one is not seen yet");
        assert_eq!(
            covering(b"d", 400, 450),
            0,
            "the seen one is older than the key"
        );
        assert_eq!(covering(b"d", 501, 600), 0);
    }

    #[test]
    fn a_block_of_tombstones_is_read() {
        let mut builder = BlockBuilder::new(BlockOptions::whole_keys());
        for t in [tombstone(b"a", b"e", 0), tombstone(b"c", b"g", 0)] {
            let (key, end) = t.encode();
            builder.add(key.as_bytes(), &end);
        }
        let bytes = builder.finish();
        let read = Fragments::decode(bytes, &ORDER, None).unwrap();
        assert_eq!(shown(&read), "[a,c)@0 [c,e)@0 [e,g)@0");
        let ingested = Fragments::decode(bytes, &ORDER, Some(SequenceNumber(6))).unwrap();
        assert_eq!(shown(&ingested), "[a,c)@6 [c,e)@6 [e,g)@6");
        let mut builder = BlockBuilder::new(BlockOptions::whole_keys());
        let point = InternalKey::new(b"a", SequenceNumber(1), ValueKind::Value);
        builder.add(point.as_bytes(), b"e");
        assert!(Fragments::decode(builder.finish(), &ORDER, None).is_err());
    }

    #[test]
    fn nested_tombstones_have_a_limit() {
        let nested = |n: u16| {
            (1..=n).map(|i| {
                tombstone(
                    &i.to_be_bytes(),
                    &(u16::MAX - i).to_be_bytes(),
                    u64::from(i),
                )
            })
        };
        // 1 + 2 + 3 + 2 + 1 sequence numbers over 5 fragments.
        assert!(Fragments::build_within(&ORDER, nested(3), 9).is_some());
        assert!(Fragments::build_within(&ORDER, nested(3), 8).is_none());
        assert!(Fragments::build_within(&ORDER, nested(300), 1000).is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn fragments_cover_what_their_tombstones_cover(
            list in prop::collection::vec((0u8..20, 0u8..20, 1u64..9), 0..12),
            reverse: bool, low in 0u8..20, high in 0u8..20, exclusive: bool,
        ) {
            let order = if reverse { KeyOrder::ReverseBytewise } else { KeyOrder::Bytewise };
            let all: Vec<Tombstone> = list.iter().map(|&(a, b, seq)| tombstone(&[a], &[b], seq)).collect();
            let fragments = Fragments::build(&order, all.clone());
            for pair in fragments.iter().collect::<Vec<_>>().windows(2) {
                prop_assert!(order.compare(pair[0].end, pair[1].start).is_le());
            }
            let smallest = InternalKey::new(&[low], SequenceNumber(1), ValueKind::Value);
            let largest = if exclusive {
                InternalKey::new(&[high], SequenceNumber::MAX, ValueKind::RangeDeletion)
            } else {
                InternalKey::new(&[high], SequenceNumber(1), ValueKind::Value)
            };
            let parts = fragments.truncated(&order, &smallest, &largest);
            for k in 0..20u8 {
                let key = [k];
                for visible in 0..10 {
                    let expected = all.iter()
                        .filter(|t| t.seq.0 <= visible)
                        .filter(|t| order.compare(&t.start, &key).is_le() && order.compare(&key, &t.end).is_lt())
                        .map(|t| t.seq).max().unwrap_or_default();
                    let visible = SequenceNumber(visible);
                    prop_assert_eq!(fragments.covering(&order, &key, visible), expected);
                    let below = order.compare(&key, &[high]);
                    let inside = order.compare(&[low], &key).is_le()
                        && (below.is_lt() || (below.is_eq() && !exclusive));
                    let expected = if inside { expected } else { SequenceNumber::ZERO };
                    prop_assert_eq!(parts.covering(&order, &key, visible), expected);
                }
            }
        }

        #[test]
        fn hostile_blocks_never_panic(bytes in prop::collection::vec(prop_oneof![0u8..16, any::<u8>()], 0..80)) {
            for order in [KeyOrder::Bytewise, KeyOrder::BytewiseU64Ts] {
                let bytes = [&bytes[..], &[0, 0, 0, 0, 1, 0, 0, 0]].concat();
                let _ = Fragments::decode(&bytes, &order, None);
            }
        }
    }
}
