//! Reads compared with a map: random views of memtables, level-0 tables and levels with tiny
//! blocks, and all operations in both directions at several snapshots.

mod batch;
mod lazy_seeks;
mod multi_scan;
mod prefix;
mod range_conversion;
mod range_tombstones;
mod row_cache;
mod skipped;
mod world;

use std::sync::Arc;

use cairn_format::dated;
use cairn_format::key::LookupKey;
use cairn_options::{ReadOptions, ReadTier};
use cairn_types::{Code, KeyOrder, SequenceNumber};
use proptest::prelude::*;

use crate::db_iter::DbIter;
use crate::get::{Found, get, get_async, stored_versions};
use crate::view::View;
use world::{Change, Shape, World};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn forward(iter: &mut DbIter) -> Pairs {
    let mut found = Vec::new();
    while iter.valid() {
        assert_eq!(*iter.value_pinned(), *iter.value());
        assert_eq!(iter.entry(), Some((iter.key(), iter.value())));
        found.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.next();
    }
    iter.status().unwrap();
    found
}

fn backward(iter: &mut DbIter) -> Pairs {
    let mut found = Vec::new();
    while iter.valid() {
        found.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.prev();
    }
    iter.status().unwrap();
    found.reverse();
    found
}

/// A key from a set small enough that versions accumulate.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => (0u8..20).prop_map(|n| vec![b'a' + n / 5, b'a' + n % 5]),
        1 => (0u8..20).prop_map(|n| vec![b'a' + n / 5, b'a' + n % 5, b'x', b'x', b'x', b'x', b'x', b'x', b'x', n]),
        1 => (0u8..5).prop_map(|n| vec![b'a' + n]),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => (key(), 0u8..250).prop_map(|(key, n)| Change::Put(key, vec![n; usize::from(n) % 40])),
        2 => key().prop_map(Change::Delete),
        1 => key().prop_map(Change::SingleDelete),
        3 => (key(), 0u8..26).prop_map(|(key, n)| Change::Merge(key, vec![b'A' + n])),
        1 => (key(), key()).prop_map(|(start, end)| Change::DeleteRange(start, end)),
        1 => (key(), 0u8..26).prop_map(|(key, n)| Change::PutEntity(key, vec![n])),
    ]
}

fn shape() -> impl Strategy<Value = Shape> {
    (
        proptest::collection::vec(0usize..8, 0..4),
        1usize..5,
        1u64..6,
        16u64..400,
        prop_oneof![Just(1), Just(3), Just(16)],
        any::<bool>(),
        any::<bool>(),
        prop_oneof![Just(None), Just(Some(2_000)), Just(Some(1 << 20))],
    )
        .prop_map(
            |(layers, files, skip, block_size, interval, reverse, dated, row_cache)| Shape {
                layers,
                files,
                skip,
                block_size,
                interval,
                reverse,
                dated,
                row_cache,
                // Scans of the tests cross prefixes.
                filtered: false,
            },
        )
}

/// Checks all operations of `world` at `seq`.
fn check(world: &World, seq: u64, probes: &[Vec<u8>]) {
    let expected = world.model(seq);
    let options = ReadOptions::default();
    let view = world.view.clone();
    for probe in probes.iter().chain(expected.iter().map(|(key, _)| key)) {
        let lookup = LookupKey::new(probe, SequenceNumber(seq));
        let found = get(&view, &lookup, &options).unwrap().into_value().unwrap();
        let wanted = expected
            .iter()
            .find(|(key, _)| key == probe)
            .map(|(_, value)| &value[..]);
        assert_eq!(
            found.as_deref(),
            wanted,
            "get {:?} at {seq}",
            probe.escape_ascii().to_string()
        );
        let later = wait(get_async(&view, &lookup, &options))
            .unwrap()
            .into_value()
            .unwrap();
        assert_eq!(later.as_deref(), wanted);
    }
    let mut iter = DbIter::new(view.clone(), SequenceNumber(seq), &options);
    iter.seek_to_first();
    assert_eq!(forward(&mut iter), expected, "forward at {seq}");
    iter.seek_to_last();
    assert_eq!(backward(&mut iter), expected, "backward at {seq}");
    for probe in probes {
        let from = expected.partition_point(|(key, _)| world.order().compare(key, probe).is_lt());
        iter.seek(probe);
        assert_eq!(
            forward(&mut iter),
            expected[from..],
            "seek {probe:?} at {seq}"
        );
        let to = expected.partition_point(|(key, _)| world.order().compare(key, probe).is_le());
        iter.seek_for_prev(probe);
        assert_eq!(
            backward(&mut iter),
            expected[..to],
            "seek_for_prev {probe:?} at {seq}"
        );
    }
    iter.recycle();
}

/// Waits for `future` on the calling thread.
fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut future = std::pin::pin!(future);
    loop {
        if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        std::thread::yield_now();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn all_reads_match_the_map(
        changes in proptest::collection::vec(change(), 1..80),
        shape in shape(),
        probes in proptest::collection::vec(key(), 1..6),
        snapshot in 0u64..80,
    ) {
        let world = World::new(&changes, &shape);
        check(&world, changes.len() as u64, &probes);
        check(&world, snapshot.min(changes.len() as u64), &probes);
    }

    #[test]
    fn direction_changes_match_a_list(
        changes in proptest::collection::vec(change(), 1..60),
        shape in shape(),
        turns in proptest::collection::vec(0u8..4, 1..40),
        start in key(),
        lower in proptest::option::weighted(0.3, key()),
        upper in proptest::option::weighted(0.3, key()),
        prefix_same_as_start in proptest::bool::weighted(0.3),
    ) {
        let world = World::new(&changes, &shape);
        let seq = changes.len() as u64;
        let order = world.order();
        let expected: Pairs = world.model(seq).into_iter().filter(|(key, _)| {
            lower.as_ref().is_none_or(|lower| order.compare(key, lower).is_ge())
                && upper.as_ref().is_none_or(|upper| order.compare(key, upper).is_lt())
                && (!prefix_same_as_start || key[0] == start[0])
        }).collect();
        let options = ReadOptions {
            iterate_lower_bound: lower,
            iterate_upper_bound: upper,
            prefix_same_as_start,
            ..ReadOptions::default()
        };
        let mut iter = DbIter::new(world.view.clone(), SequenceNumber(seq), &options);
        iter.seek(&start);
        let mut at = expected.partition_point(|(key, _)| order.compare(key, &start).is_lt());
        let mut shown = None;
        for turn in turns {
            let here = expected.get(at).map(|(key, value)| (&key[..], &value[..]));
            let there = iter.valid().then(|| (iter.key(), iter.value()));
            prop_assert_eq!(iter.entry(), there);
            prop_assert_eq!(here, there);
            if let Some(shown) = shown.take() {
                let there = there.map(|(key, value)| (key.to_vec(), value.to_vec()));
                prop_assert_eq!(shown, there);
            }
            if here.is_none() {
                break;
            }
            if turn == 0 {
                iter.next();
                at += 1;
            } else if turn == 2 {
                let mut entry = None;
                let valid = iter.next_shown(|key, value| entry = Some((key.to_vec(), value.to_vec())));
                prop_assert_eq!(valid, entry.is_some());
                shown = Some(entry);
                at += 1;
            } else {
                iter.prev();
                at = at.wrapping_sub(1);
            }
        }
        iter.status().unwrap();
        iter.recycle();
    }

    #[test]
    fn bounds_limit_iteration(
        changes in proptest::collection::vec(change(), 1..60),
        shape in shape(),
        lower in proptest::option::of(key()),
        upper in proptest::option::of(key()),
        probe in key(),
    ) {
        let world = World::new(&changes, &shape);
        let seq = changes.len() as u64;
        let order = world.order();
        let within: Pairs = world.model(seq).into_iter().filter(|(key, _)| {
            lower.as_ref().is_none_or(|lower| order.compare(key, lower).is_ge())
                && upper.as_ref().is_none_or(|upper| order.compare(key, upper).is_lt())
        }).collect();
        let options = ReadOptions {
            iterate_lower_bound: lower,
            iterate_upper_bound: upper,
            ..ReadOptions::default()
        };
        let mut iter = DbIter::new(world.view.clone(), SequenceNumber(seq), &options);
        iter.seek_to_first();
        prop_assert_eq!(forward(&mut iter), &within[..]);
        iter.seek_to_last();
        prop_assert_eq!(backward(&mut iter), &within[..]);
        iter.seek(&probe);
        let from = within.partition_point(|(key, _)| order.compare(key, &probe).is_lt());
        prop_assert_eq!(forward(&mut iter), &within[from..]);
        iter.seek_for_prev(&probe);
        let to = within.partition_point(|(key, _)| order.compare(key, &probe).is_le());
        prop_assert_eq!(backward(&mut iter), &within[..to]);
        iter.recycle();
    }
}

#[test]
fn recycled_iterators_keep_memory_only() {
    let changes: Vec<Change> = (0..40_u8)
        .map(|i| Change::Put(vec![b'a' + i % 20], vec![i; 9]))
        .collect();
    let world = World::new(&changes, &shape_of(&[5, 10, 15]));
    let bounded = ReadOptions {
        iterate_lower_bound: Some(b"c".to_vec()),
        iterate_upper_bound: Some(b"e".to_vec()),
        ..ReadOptions::default()
    };
    let held = || {
        let files = world.view.version.levels().iter().flat_map(|it| it.files());
        let tables = files.filter_map(|file| file.table.get());
        let tables = tables.map(|table| Arc::strong_count(&table.into_arc()));
        (Arc::strong_count(&world.view), tables.collect::<Vec<_>>())
    };
    let seq = SequenceNumber(changes.len() as u64);
    let mut first = DbIter::new(world.view.clone(), seq, &bounded);
    // Opens the tables.
    first.seek_to_last();
    first.recycle();
    let before = held();
    let mut iter = DbIter::new(world.view.clone(), seq, &bounded);
    iter.seek_to_last();
    assert_eq!(iter.key(), b"d");
    assert_ne!(held(), before);
    let address = std::ptr::from_ref(&*iter);
    iter.recycle();
    assert_eq!(held(), before, "neither the view nor a table is held");
    let mut iter = DbIter::new(world.view.clone(), seq, &ReadOptions::default());
    assert_eq!(std::ptr::from_ref(&*iter), address);
    assert!(!iter.valid());
    iter.seek_to_first();
    assert_eq!(forward(&mut iter), world.model(seq.0), "without the bounds");
}

fn shape_of(layers: &[usize]) -> Shape {
    Shape {
        layers: layers.to_vec(),
        files: 2,
        skip: 8,
        block_size: 64,
        interval: 3,
        reverse: false,
        dated: false,
        row_cache: None,
        filtered: false,
    }
}

fn put(key: &str, value: &str) -> Change {
    Change::Put(key.into(), value.into())
}

#[test]
fn prefix_same_as_start_ends_iteration_with_the_prefix() {
    let changes = [
        put("aa", "1"),
        put("ab", "2"),
        put("ba", "3"),
        put("bb", "4"),
    ];
    let world = World::new(&changes, &shape_of(&[2]));
    let options = ReadOptions {
        prefix_same_as_start: true,
        ..ReadOptions::default()
    };
    let mut iter = DbIter::new(world.view.clone(), SequenceNumber(4), &options);
    iter.seek(b"aa");
    assert_eq!(forward(&mut iter).len(), 2);
    iter.seek_for_prev(b"bz");
    assert_eq!(backward(&mut iter).len(), 2);
    iter.seek(b"c");
    assert!(!iter.valid());
}

#[test]
fn block_cache_tier_reports_incomplete_reads() {
    let changes = [put("a", "1"), put("b", "2")];
    let world = World::new(&changes, &shape_of(&[1]));
    let options = ReadOptions {
        read_tier: ReadTier::BlockCache,
        ..ReadOptions::default()
    };
    let lookup = LookupKey::new(b"a", SequenceNumber(9));
    assert_eq!(
        get(&world.view, &lookup, &options).unwrap_err().code(),
        Code::Incomplete
    );
    let mut iter = DbIter::new(world.view.clone(), SequenceNumber(9), &options);
    iter.seek_to_first();
    assert!(!iter.valid());
    assert_eq!(iter.status().unwrap_err().code(), Code::Incomplete);
    let options = ReadOptions {
        read_tier: ReadTier::Memtable,
        ..ReadOptions::default()
    };
    let mut iter = DbIter::new(world.view.clone(), SequenceNumber(9), &options);
    iter.seek_to_first();
    assert_eq!(forward(&mut iter).len(), 1);
}

#[test]
fn max_skippable_internal_keys_ends_iteration() {
    let mut changes: Vec<Change> = (0..50u8).map(|n| Change::Delete(vec![b'a', n])).collect();
    changes.push(put("b", "here"));
    let world = World::new(&changes, &shape_of(&[20, 20]));
    let options = ReadOptions {
        max_skippable_internal_keys: 30,
        ..ReadOptions::default()
    };
    let mut iter = DbIter::new(world.view.clone(), SequenceNumber(99), &options);
    iter.seek_to_first();
    assert!(!iter.valid());
    assert_eq!(iter.status().unwrap_err().code(), Code::Incomplete);
    iter.seek(b"b");
    assert_eq!(iter.value(), b"here");
    iter.status().unwrap();
}

#[test]
fn operands_without_a_merge_operator_are_an_error() {
    let changes = [
        put("a", "1"),
        Change::Merge(b"b".to_vec(), b"x".to_vec()),
        put("c", "2"),
    ];
    let world = World::with_operator(&changes, &shape_of(&[]), None, KeyOrder::Bytewise);
    let mut iter = DbIter::new(
        world.view.clone(),
        SequenceNumber(9),
        &ReadOptions::default(),
    );
    iter.seek_to_first();
    iter.next();
    assert!(!iter.valid());
    assert_eq!(iter.status().unwrap_err().code(), Code::InvalidArgument);
}

#[test]
fn entity_returns_columns_and_default_column_as_value() {
    let changes = [Change::PutEntity(b"k".to_vec(), vec![7]), put("l", "plain")];
    for layers in [&[][..], &[2][..]] {
        let world = World::new(&changes, &shape_of(layers));
        let mut iter = DbIter::new(
            world.view.clone(),
            SequenceNumber(9),
            &ReadOptions::default(),
        );
        iter.seek(b"k");
        assert_eq!(iter.value(), [7]);
        let columns = iter.columns().unwrap();
        assert_eq!(columns.get(b"other"), Some(&b"column"[..]));
        iter.next();
        assert_eq!(iter.columns().unwrap().get(b""), Some(&b"plain"[..]));
        iter.prev();
        assert_eq!(iter.columns().unwrap().len(), 2);
        let lookup = LookupKey::new(b"k", SequenceNumber(9));
        let found = get(&world.view, &lookup, &ReadOptions::default()).unwrap();
        assert_eq!(found.into_columns().unwrap().unwrap().len(), 2);
    }
}

#[test]
fn corrupt_block_ends_iteration_with_an_error() {
    let changes: Vec<Change> = (0..60u8)
        .map(|n| Change::Put(vec![n], vec![n; 20]))
        .collect();
    let world = World::new(&changes, &shape_of(&[60]));
    world.damage_first_table(300);
    let mut iter = DbIter::new(
        world.view.clone(),
        SequenceNumber(99),
        &ReadOptions::default(),
    );
    iter.seek_to_first();
    while iter.valid() {
        iter.next();
    }
    assert!(iter.status().unwrap_err().is_corruption());
}

#[test]
fn timestamps_select_versions() {
    let at = |key: &str, ts: u64| [key.as_bytes(), &ts.to_le_bytes()].concat();
    let changes = [
        Change::Put(at("a", 10), b"ten".to_vec()),
        Change::Put(at("a", 20), b"twenty".to_vec()),
        Change::Delete(at("b", 15)),
        Change::Put(at("b", 12), b"twelve".to_vec()),
        Change::Put(at("c", 30), b"thirty".to_vec()),
    ];
    for layers in [&[][..], &[3][..], &[2, 2][..]] {
        let world =
            World::with_operator(&changes, &shape_of(layers), None, KeyOrder::BytewiseU64Ts);
        let seen = |ts: u64| {
            let options = ReadOptions {
                timestamp: Some(ts.to_le_bytes().to_vec()),
                ..ReadOptions::default()
            };
            let mut iter = DbIter::new(world.view.clone(), SequenceNumber(9), &options);
            iter.seek_to_first();
            let ahead = forward(&mut iter);
            iter.seek_to_last();
            assert_eq!(backward(&mut iter), ahead);
            ahead
                .into_iter()
                .map(|(key, value)| {
                    let text = |bytes| String::from_utf8(bytes).unwrap();
                    text(key) + "=" + &text(value)
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(seen(9), [""; 0]);
        assert_eq!(seen(12), ["a=ten", "b=twelve"]);
        assert_eq!(seen(20), ["a=twenty"]);
        assert_eq!(seen(30), ["a=twenty", "c=thirty"]);
        let mut options = ReadOptions::default();
        let mut iter = DbIter::new(world.view.clone(), SequenceNumber(9), &options);
        iter.seek(b"a");
        assert!(!iter.valid() && iter.status().is_err());
        options.timestamp = Some(vec![0xff; 8]);
        let mut iter = DbIter::new(world.view.clone(), SequenceNumber(9), &options);
        iter.seek(b"a");
        assert_eq!(
            (iter.key(), iter.timestamp()),
            (&b"a"[..], &20u64.to_le_bytes()[..])
        );
    }
}

/// What stores a key again gets its value and operands with their TTL timestamps, without a merge operator.
#[test]
fn stored_versions_are_neither_merged_nor_stripped() {
    let text = |text: &str| text.as_bytes().to_vec();
    let changes = [
        Change::Put(text("k"), text("old")),
        Change::Put(text("k"), text("base")),
        Change::Merge(text("k"), text("one")),
        Change::Merge(text("k"), text("two")),
        Change::Merge(text("new"), text("only")),
        Change::PutEntity(text("e"), text("wide")),
    ];
    for dated in [false, true] {
        for layers in [&[][..], &[2], &[3], &[6]] {
            let shape = Shape {
                dated,
                ..shape_of(layers)
            };
            let world = World::with_operator(&changes, &shape, None, KeyOrder::Bytewise);
            let stored = |key: &str, seq| {
                let lookup = LookupKey::new(key.as_bytes(), SequenceNumber(seq));
                stored_versions(&world.view, &lookup).unwrap()
            };
            let date: &[u8] = match dated {
                true => &dated::encode(1_800_000_000),
                false => &[],
            };
            let with_date = |value: &str| [value.as_bytes(), date].concat();
            let found = stored("k", 9);
            assert!(matches!(found.base, Found::Value(value) if *value == *with_date("base")));
            assert_eq!(found.operands, [with_date("one"), with_date("two")]);
            let found = stored("k", 1);
            assert!(matches!(found.base, Found::Value(value) if *value == *with_date("old")));
            assert!(found.operands.is_empty());
            let found = stored("new", 9);
            assert!(matches!(found.base, Found::Missing));
            assert_eq!(found.operands, [with_date("only")]);
            let columns = stored("e", 9).base.into_columns().unwrap().unwrap();
            assert_eq!(columns.get(b""), Some(&b"wide"[..]));
        }
    }
}

#[test]
fn values_without_ttl_timestamp_are_corruption() {
    let early = [b"v".as_slice(), &(dated::EARLIEST - 1).to_le_bytes()].concat();
    for (value, words) in [
        (b"abc".to_vec(), "value's length less than timestamp's"),
        (early, "Timestamp < ttl feature release time"),
    ] {
        for layers in [&[][..], &[1]] {
            let change = Change::Put(b"k".to_vec(), value.clone());
            expect_corruption(&change, &shape_of(layers), words);
        }
    }
}

/// Reads of `undated`, stored without a TTL timestamp, fail with a corruption that mentions `words`
/// if the family expects one.
fn expect_corruption(undated: &Change, shape: &Shape, words: &str) {
    let dated = Shape {
        dated: true,
        ..shape.clone()
    };
    let written = World::new(std::slice::from_ref(undated), shape);
    let view = Arc::new(View {
        family: World::new(&[], &dated).view.family.clone(),
        ..View::clone(&written.view)
    });
    let (seq, options) = (SequenceNumber(9), ReadOptions::default());
    // The view refers to the tables of the world that wrote them.
    for file in written.view.version.files() {
        let family = &written.view.family;
        family.tables.open(file.1, file.0, &family.io).unwrap();
    }
    let error = get(&view, &LookupKey::new(b"k", seq), &options).unwrap_err();
    assert!(error.is_corruption(), "{error}");
    assert!(error.to_string().contains(words), "{error}");

    let mut iter = DbIter::new(view, seq, &options);
    for back in [false, true] {
        match back {
            false => iter.seek_to_first(),
            true => iter.seek_to_last(),
        }
        assert!(!iter.valid());
        let error = iter.status().unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
}
