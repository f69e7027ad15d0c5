//! Fragments compared to their tombstones, and damaged blocks.

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

fn shown<'a>(fragments: impl Iterator<Item = Fragment<'a>>) -> String {
    fragments
        .map(|f| {
            let seqs: Vec<String> = f.seqs().iter().map(ToString::to_string).collect();
            format!(
                "[{},{})@{}",
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
fn delta_encoded_tombstones_are_rejected() {
    // Regression test: a block of 3 KB expanded to a megabyte, because each entry repeated a long
    // key at the cost of a length.
    let mut builder = crate::block::BlockBuilder::new(crate::block::BlockOptions::one_restart());
    for number in 0..300u32 {
        let key = [&[b'a'; 2000][..], &number.to_be_bytes()].concat();
        let key = InternalKey::new(&key, SequenceNumber(5), ValueKind::RangeDeletion);
        builder.add(key.as_bytes(), b"b");
    }
    let block = builder.finish();
    assert!(Fragments::decode(block, &KeyOrder::Bytewise, None).is_err());
}

#[test]
fn overlapping_tombstones_are_fragmented() {
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
    assert_eq!(
        shown(fragments.iter()),
        "[a,c)@20 [c,e)@20+10 [e,g)@10 [k,m)@5"
    );
    let covering = |key: &[u8], visible| fragments.covering(&ORDER, key, SequenceNumber(visible)).0;
    assert_eq!(covering(b"d", 100), 20);
    assert_eq!(covering(b"d", 19), 10);
    assert_eq!(covering(b"d", 9), 0);
    assert_eq!(covering(b"g", 100), 0);
    assert_eq!(covering(b"", 100), 0);
    assert_eq!(covering(b"zz", 100), 0);
}

#[test]
fn fragments_are_clipped_to_bounds() {
    let fragments = Fragments::build(
        &ORDER,
        [
            tombstone(b"b", b"f", 9),
            tombstone(b"h", b"k", 7),
            tombstone(b"j", b"m", 8),
        ],
    );
    let clipped = |from, to| shown(fragments.clipped(&ORDER, from, to));
    assert_eq!(clipped(None, Some(b"c")), "[b,c)@9");
    assert_eq!(clipped(Some(b"j"), None), "[j,k)@8+7 [k,m)@8");
    assert_eq!(clipped(Some(b"c"), Some(b"i")), "[c,f)@9 [h,i)@7");
    assert_eq!(clipped(Some(b"f"), Some(b"h")), "");
    assert_eq!(clipped(Some(b"x"), None), "");
    let touch = |from, to| fragments.touch(&ORDER, from, to);
    assert!(touch(b"a", b"b") && touch(b"e", b"g") && touch(b"l", b"z") && touch(b"a", b"z"));
    assert!(!touch(b"a", b"aa") && !touch(b"f", b"g") && !touch(b"m", b"z"));
    let within: Vec<Tombstone> = fragments.tombstones(&ORDER, b"c", b"l").collect();
    let expected = [
        tombstone(b"c", b"f", 9),
        tombstone(b"j", b"l", 8),
        tombstone(b"h", b"k", 7),
    ];
    assert_eq!(within, expected);
}

#[test]
fn tombstones_do_not_cover_newer_timestamps() {
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
    assert_eq!(shown(fragments.iter()), "[a,c)@4 [c,m)@8+4 [m,z)@8");
    let covering = |key: &[u8], key_ts, read_ts: u64| {
        let key = [key, &ts(key_ts)].concat();
        let read = ts(read_ts);
        fragments
            .covering_at(&order, &key, SequenceNumber::MAX, Some(&read))
            .0
    };
    assert_eq!(covering(b"d", 400, 600), 8);
    assert_eq!(
        covering(b"d", 200, 400),
        4,
        "the newer one is not visible yet"
    );
    assert_eq!(
        covering(b"d", 400, 450),
        0,
        "the visible one is older than the key"
    );
    assert_eq!(covering(b"d", 501, 600), 0);
}

#[test]
fn tombstone_blocks_are_decoded() {
    let mut builder = BlockBuilder::new(BlockOptions::whole_keys());
    for t in [tombstone(b"a", b"e", 0), tombstone(b"c", b"g", 0)] {
        let (key, end) = t.encode();
        builder.add(key.as_bytes(), &end);
    }
    let bytes = builder.finish();
    let read = Fragments::decode(bytes, &ORDER, None).unwrap();
    assert_eq!(shown(read.iter()), "[a,c)@0 [c,e)@0 [e,g)@0");
    let ingested = Fragments::decode(bytes, &ORDER, Some(SequenceNumber(6))).unwrap();
    assert_eq!(shown(ingested.iter()), "[a,c)@6 [c,e)@6 [e,g)@6");
    let mut builder = BlockBuilder::new(BlockOptions::whole_keys());
    let point = InternalKey::new(b"a", SequenceNumber(1), ValueKind::Value);
    builder.add(point.as_bytes(), b"e");
    assert!(Fragments::decode(builder.finish(), &ORDER, None).is_err());
}

/// Nested tombstones.
fn nested(n: u32) -> impl Iterator<Item = Tombstone> {
    (0..n).map(|i| {
        tombstone(
            &i.to_be_bytes(),
            &(u32::MAX - i).to_be_bytes(),
            u64::from(i) + 1,
        )
    })
}

#[test]
fn nested_tombstones_take_subquadratic_memory() {
    let few = Fragments::build(&ORDER, nested(1_000)).memory();
    let many = Fragments::build(&ORDER, nested(100_000)).memory();
    assert!(
        many < 200 * few,
        "{many} bytes for a hundred times as many as take {few}"
    );
    assert!(many < 100_000 * 250, "{many} bytes");
    let fragments = Fragments::build(&ORDER, nested(100_000));
    let middle = 1_u32 << 31;
    for (visible, newest) in [(100_000, 100_000), (99_999, 99_999), (5, 5), (0, 0)] {
        let visible = SequenceNumber(visible);
        let found = fragments.covering(&ORDER, &middle.to_be_bytes(), visible);
        assert_eq!(found.0, newest);
    }
    // Tombstones that each cover a single region need leaves only.
    let apart =
        (0..100_000_u32).map(|i| tombstone(&(2 * i).to_be_bytes(), &(2 * i + 1).to_be_bytes(), 7));
    let apart = Fragments::build(&ORDER, apart).memory();
    assert!(apart < 100_000 * 52, "{apart} bytes");
    // Adjacent ones share their edges.
    let close = (0..100_000_u32).map(|i| tombstone(&i.to_be_bytes(), &(i + 1).to_be_bytes(), 7));
    let close = Fragments::build(&ORDER, close).memory();
    assert!(close < 100_000 * 26, "{close} bytes");
}

/// An order that counts comparisons.
#[derive(Debug, Default)]
struct Counting(std::sync::atomic::AtomicU64);

impl cairn_types::Comparator for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        a.cmp(b)
    }
}

#[test]
fn regions_are_found_with_few_comparisons() {
    let counting = std::sync::Arc::new(Counting::default());
    let order = KeyOrder::Custom(counting.clone());
    let fragments = Fragments::build(&order, nested(100_000));
    let compared = |work: &dyn Fn() -> usize| {
        let before = counting.0.load(std::sync::atomic::Ordering::Relaxed);
        let region = work();
        let after = counting.0.load(std::sync::atomic::Ordering::Relaxed);
        (region, after - before)
    };
    let key = 70_000_u32.to_be_bytes();
    let (region, cost) = compared(&|| fragments.region(&order, &key));
    assert_eq!(region, 70_001);
    assert!(cost <= 18, "{cost} comparisons");
    for near in [70_000, 70_001, 70_002] {
        let (region, cost) = compared(&|| fragments.region_near(&order, near, &key));
        assert_eq!(region, 70_001);
        assert!(cost <= 3, "{cost} comparisons from {near}");
    }
    for near in [0, 1, 4_711, 200_000, 200_001] {
        assert_eq!(fragments.region_near(&order, near, &key), 70_001);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn fragments_match_their_tombstones(
        list in prop::collection::vec((0u8..40, 0u8..40, 1u64..9), 0..30),
        reverse: bool, low in 0u8..40, high in 0u8..40, near in 0usize..50,
        long: bool,
    ) {
        let order = if reverse { KeyOrder::ReverseBytewise } else { KeyOrder::Bytewise };
        // Long keys that are not all distinguished by 8 bytes.
        let key = |n: u8| match long {
            true => [&b"prefix"[..], &[n / 8; 9][..], &[n]].concat(),
            false => vec![n],
        };
        let all: Vec<Tombstone> = list.iter().map(|&(a, b, seq)| tombstone(&key(a), &key(b), seq)).collect();
        let fragments = Fragments::build(&order, all.clone());
        for pair in fragments.iter().collect::<Vec<_>>().windows(2) {
            prop_assert!(order.compare(pair[0].end, pair[1].start).is_le());
        }
        let (low, high) = (key(low), key(high));
        let clipped = fragments.clipped(&order, Some(&low), Some(&high)).flat_map(|part| part.tombstones().collect::<Vec<_>>());
        let clipped = Fragments::build(&order, clipped);
        let within = Fragments::build(&order, fragments.tombstones(&order, &low, &high));
        for k in (0..40u8).map(key).chain([Vec::new(), b"prefix".to_vec(), b"q".to_vec()]) {
            let region = fragments.region(&order, &k);
            prop_assert_eq!(fragments.region_near(&order, near, &k), region);
            prop_assert_eq!(fragments.region_near(&order, region, &k), region);
            let [from, until] = fragments.bounds(region);
            prop_assert!(from.is_none_or(|from| order.compare(from, &k).is_le()));
            prop_assert!(until.is_none_or(|until| order.compare(&k, until).is_lt()));
            for visible in 0..10 {
                let expected = all.iter()
                    .filter(|t| t.seq.0 <= visible)
                    .filter(|t| order.compare(&t.start, &k).is_le() && order.compare(&k, &t.end).is_lt())
                    .map(|t| t.seq).max().unwrap_or_default();
                let visible = SequenceNumber(visible);
                prop_assert_eq!(fragments.covering(&order, &k, visible), expected);
                prop_assert_eq!(fragments.newest(region, visible), expected);
                let inside = order.compare(&low, &k).is_le() && order.compare(&k, &high).is_lt();
                let expected = if inside { expected } else { SequenceNumber::ZERO };
                prop_assert_eq!(clipped.covering(&order, &k, visible), expected);
                prop_assert_eq!(within.covering(&order, &k, visible), expected);
            }
        }
    }

    #[test]
    fn disjoint_tombstones_equal_stacked_ones(
        steps in prop::collection::vec((0u16..3, 0u16..3, 1u64..9), 0..60),
        overlapping: bool, reverse: bool, global: bool, low in 0u16..180, high in 0u16..180,
    ) {
        let order = if reverse { KeyOrder::ReverseBytewise } else { KeyOrder::Bytewise };
        let key = |at: u16| match reverse {
            true => (u16::MAX - at).to_be_bytes().repeat(2),
            false => at.to_be_bytes().repeat(2),
        };
        let mut at = 0;
        let mut all = Vec::new();
        for (gap, width, seq) in steps {
            all.push(tombstone(&key(at + gap), &key(at + gap + width), seq));
            at += gap + width;
        }
        if overlapping && at > 0 {
            all.push(tombstone(&key(at - 1), &key(at + 1), 5));
        }
        let parts = |all: &[Tombstone]| -> Fragments {
            let parts = all.iter().map(|t| Part { start: &t.start, end: &t.end, seq: t.seq, ts: &t.ts });
            Fragments::of_parts(&order, parts)
        };
        let mut builder = BlockBuilder::new(BlockOptions::whole_keys());
        for t in &all {
            let (key, end) = t.encode();
            builder.add(key.as_bytes(), &end);
        }
        let rewritten = global.then_some(SequenceNumber(7));
        let decoded = Fragments::decode(builder.finish(), &order, rewritten).unwrap();
        let built = Fragments::build(&order, &all);
        prop_assert!(overlapping || matches!(built.over, Coverage::Disjoint(_)));
        let stacked = parts(&all);
        for t in all.iter_mut().filter(|_| global) {
            t.seq = SequenceNumber(7);
        }
        let (low, high) = (key(low), key(high));
        for (apart, stacked) in [(built, stacked), (decoded, parts(&all))] {
            prop_assert_eq!(apart.is_empty(), stacked.is_empty());
            prop_assert_eq!(apart.edges(), stacked.edges());
            let seqs = [&apart, &stacked].map(|it| {
                let mut seqs: Vec<SequenceNumber> = it.seqs().collect();
                seqs.sort_unstable();
                seqs
            });
            prop_assert_eq!(&seqs[0], &seqs[1]);
            prop_assert_eq!(shown(apart.iter()), shown(stacked.iter()));
            for region in 0..=apart.edges() + 1 {
                prop_assert_eq!(apart.bounds(region), stacked.bounds(region));
                for visible in 0..10 {
                    let visible = SequenceNumber(visible);
                    prop_assert_eq!(apart.newest(region, visible), stacked.newest(region, visible));
                }
            }
            let within = [&apart, &stacked].map(|it| it.tombstones(&order, &low, &high).collect::<Vec<_>>());
            prop_assert_eq!(&within[0], &within[1]);
            let clipped = [&apart, &stacked].map(|it| shown(it.clipped(&order, Some(&low), Some(&high))));
            prop_assert_eq!(&clipped[0], &clipped[1]);
            prop_assert_eq!(apart.touch(&order, &low, &high), stacked.touch(&order, &low, &high));
        }
    }

    #[test]
    fn timestamps_match_a_list(
        list in prop::collection::vec((0u8..12, 0u8..12, 1u64..9, 1u64..6), 0..20),
    ) {
        let order = KeyOrder::BytewiseU64Ts;
        let all: Vec<Tombstone> = list.iter().map(|&(a, b, seq, ts)| Tombstone {
            ts: ts.to_le_bytes().to_vec(),
            ..tombstone(&[a], &[b], seq)
        }).collect();
        let fragments = Fragments::build(&order, all.clone());
        for k in 0..12u8 {
            for (visible, key_ts, read_ts) in (0..10).flat_map(|v| (0..6u64).flat_map(move |k| (0..6u64).map(move |r| (v, k, r)))) {
                let expected = all.iter()
                    .zip(&list)
                    .filter(|(t, (.., ts))| t.seq.0 <= visible && *ts >= key_ts && *ts <= read_ts)
                    .filter(|(t, _)| t.start[..] <= [k][..] && [k][..] < t.end[..])
                    .map(|(t, _)| t.seq).max().unwrap_or_default();
                let key = [&[k][..], &key_ts.to_le_bytes()].concat();
                let found = fragments.covering_at(&order, &key, SequenceNumber(visible), Some(&read_ts.to_le_bytes()));
                prop_assert_eq!(found, expected);
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
