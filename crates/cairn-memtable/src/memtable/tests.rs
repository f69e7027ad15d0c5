//! Tests of the memtable through its public interface.

use cairn_format::range_del::Fragments;
use proptest::prelude::*;

use super::*;

fn memtable() -> Arc<Memtable> {
    Arc::new(Memtable::new(
        KeyOrder::Bytewise,
        MemtableOptions {
            arena_block_size: 4096,
            ..MemtableOptions::default()
        },
    ))
}

fn seq(n: u64) -> SequenceNumber {
    SequenceNumber(n)
}

/// The versions of `user` visible at `at`, newest first.
fn versions(table: &Memtable, user: &[u8], at: u64) -> Vec<(u64, ValueKind, Vec<u8>)> {
    let mut found = Vec::new();
    table.get(&LookupKey::new(user, seq(at)), |seq, kind, value| {
        found.push((seq.0, kind, value.to_vec()));
        ControlFlow::Continue(())
    });
    found
}

#[test]
fn versions_up_to_the_read_sequence_are_visited_newest_first() {
    let table = memtable();
    table.add(seq(1), ValueKind::Value, b"a", b"one");
    table.add(seq(2), ValueKind::Merge, b"a", b"two");
    table.add(seq(3), ValueKind::Deletion, b"a", b"");
    table.add(seq(4), ValueKind::Value, b"ab", b"other");
    assert_eq!(
        versions(&table, b"a", 2),
        [
            (2, ValueKind::Merge, b"two".to_vec()),
            (1, ValueKind::Value, b"one".to_vec())
        ]
    );
    assert_eq!(versions(&table, b"a", 9).len(), 3);
    assert_eq!(versions(&table, b"a", 0), []);
    assert_eq!(versions(&table, b"b", 9), []);
}

#[test]
fn every_point_kind_is_stored_unchanged() {
    let kinds = [
        ValueKind::Deletion,
        ValueKind::Value,
        ValueKind::Merge,
        ValueKind::SingleDeletion,
        ValueKind::BlobIndex,
        ValueKind::WideColumnEntity,
        ValueKind::ValuePreferredSeqno,
    ];
    let table = memtable();
    for (n, kind) in kinds.into_iter().enumerate() {
        table.add(seq(n as u64), kind, b"k", &[n as u8]);
    }
    let found: Vec<_> = versions(&table, b"k", 99)
        .into_iter()
        .rev()
        .map(|(_, kind, _)| kind)
        .collect();
    assert_eq!(found, kinds);
    assert_eq!((table.entries(), table.deletions()), (7, 2));
    assert_eq!(
        (table.first_seq(), table.largest_seq()),
        (Some(seq(0)), seq(6))
    );
}

#[test]
fn deletions_with_timestamps_have_their_own_kind() {
    let table = Memtable::new(KeyOrder::BytewiseU64Ts, MemtableOptions::default());
    let at = |ts: u64| [&b"k"[..], &ts.to_le_bytes()].concat();
    table.add(seq(1), ValueKind::Value, &at(10), b"ten");
    table.add(seq(2), ValueKind::Deletion, &at(20), b"");
    table.add(seq(3), ValueKind::Value, &at(30), b"thirty");
    let kinds = |ts| {
        versions(&table, &at(ts), 9)
            .into_iter()
            .map(|(seq, kind, _)| (seq, kind))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        kinds(25),
        [(2, ValueKind::DeletionWithTimestamp), (1, ValueKind::Value)]
    );
    assert_eq!(kinds(u64::MAX).len(), 3);
    assert_eq!(kinds(5), []);
}

#[test]
fn range_tombstones_are_visible_by_sequence_number() {
    let table = memtable();
    assert!(!table.has_range_tombstones());
    table.add(seq(5), ValueKind::RangeDeletion, b"b", b"d");
    let covering = |groups: &RangeTombstones, key, visible| {
        let in_group = |group: &Arc<Fragments>| group.covering(table.order(), key, seq(visible));
        groups.iter().map(in_group).max().unwrap_or_default()
    };
    let first = table.range_tombstones();
    assert_eq!(covering(&first, b"c", 9), seq(5));
    assert_eq!(covering(&first, b"d", 9), seq(0));
    assert_eq!(covering(&first, b"c", 4), seq(0));
    assert!(
        Arc::ptr_eq(&first, &table.range_tombstones()),
        "without new tombstones nothing is rebuilt"
    );
    table.add(seq(7), ValueKind::RangeDeletion, b"c", b"e");
    let second = table.range_tombstones();
    assert_eq!(
        covering(&first, b"c", 9),
        seq(5),
        "returned fragments do not change"
    );
    assert_eq!(covering(&second, b"c", 7), seq(7));
    assert_eq!(covering(&second, b"c", 6), seq(5));
    assert_eq!((table.entries(), table.range_deletions()), (2, 2));
}

#[test]
fn interleaved_reads_refragment_few_range_tombstones() {
    let table = memtable();
    let count = 4_096_u64;
    let mut built = 0;
    let mut known: Vec<Arc<Fragments>> = Vec::new();
    for n in 0..count {
        let [start, end] = [n, n + 1].map(u64::to_be_bytes);
        table.add(seq(n + 1), ValueKind::RangeDeletion, &start, &end);
        let groups = table.range_tombstones();
        let is_new = |group: &&Arc<Fragments>| !known.iter().any(|old| Arc::ptr_eq(old, group));
        let new: usize = groups
            .iter()
            .filter(is_new)
            .map(|group| group.seqs().count())
            .sum();
        built += new;
        assert!(groups.len() <= 13, "{} groups", groups.len());
        known = groups.to_vec();
        let covers = |group: &&Arc<Fragments>| {
            group.covering(table.order(), &start, SequenceNumber::MAX) == seq(n + 1)
        };
        assert_eq!(groups.iter().filter(covers).count(), 1);
    }
    assert!(
        built <= 13 * count as usize,
        "{built} tombstones were fragmented"
    );
}

#[test]
fn the_iterator_seeks_and_reverses() {
    let table = memtable();
    for (n, user) in ["a", "c", "e", "c"].into_iter().enumerate() {
        table.add(
            seq(n as u64 + 1),
            ValueKind::Value,
            user.as_bytes(),
            user.as_bytes(),
        );
    }
    let mut iter = table.iter();
    assert!(!iter.valid());
    let at = |iter: &MemtableIter| {
        (
            key::user_key(iter.key()).to_vec(),
            key::sequence(iter.key()).0,
        )
    };
    iter.seek(LookupKey::new(b"c", seq(3)).internal());
    assert_eq!(at(&iter), (b"c".to_vec(), 2));
    iter.prev();
    assert_eq!(at(&iter), (b"c".to_vec(), 4));
    iter.prev();
    assert_eq!(at(&iter), (b"a".to_vec(), 1));
    iter.prev();
    assert!(!iter.valid());
    iter.seek_for_prev(LookupKey::new(b"d", seq(9)).internal());
    assert_eq!(at(&iter), (b"c".to_vec(), 2));
    let exactly = iter.key().to_vec();
    iter.seek_to_last();
    assert_eq!(at(&iter), (b"e".to_vec(), 3));
    iter.seek_for_prev(&exactly);
    assert_eq!(at(&iter), (b"c".to_vec(), 2));
    iter.seek_to_first();
    assert_eq!(at(&iter), (b"a".to_vec(), 1));
}

#[test]
fn a_scan_equals_the_iterator() {
    let table = memtable();
    for n in 0..100_u64 {
        let key = (n * 37 % 101).to_be_bytes();
        table.add(seq(n + 1), ValueKind::Value, &key, b"value");
    }
    let mut iter = table.iter();
    iter.seek_to_first();
    let all: Vec<_> = std::iter::from_fn(|| {
        let key = iter.valid().then(|| iter.key().to_vec());
        iter.next();
        key
    })
    .collect();
    let mut walk = table.walk();
    assert!(!walk.iter().valid());
    for from in [0, 60, 0, 99] {
        walk.start((from > 0).then(|| &all[from][..]));
        for key in &all[from..] {
            assert_eq!(walk.iter().key(), key);
            walk.next();
        }
        assert!(!walk.iter().valid());
        walk.next();
    }
}

#[test]
fn a_pinned_entry_keeps_its_memtable_alive() {
    let table = memtable();
    table.add(seq(1), ValueKind::Value, b"key", b"value");
    let mut pin = None;
    table.find(&LookupKey::new(b"key", seq(1)), |entry| {
        pin = Some(table.pin(entry));
        ControlFlow::Break(())
    });
    let mut iter = table.iter();
    iter.seek_to_first();
    drop(table);
    let again = iter.pin().unwrap();
    drop(iter);
    assert_eq!(pin.as_ref().unwrap().value(), b"value");
    drop(pin);
    assert_eq!(again.value(), b"value");
    std::thread::scope(|scope| {
        scope.spawn(move || assert_eq!(again.entry().user_key(), b"key"));
    });
}

#[test]
#[should_panic(expected = "its own memtable")]
fn pinning_an_entry_of_another_memtable_panics() {
    let (table, other) = (memtable(), memtable());
    table.add(seq(1), ValueKind::Value, b"key", b"value");
    table.find(&LookupKey::new(b"key", seq(1)), |entry| {
        let _pin = other.pin(entry);
        ControlFlow::Break(())
    });
}

#[test]
fn memory_usage_follows_the_data() {
    let table = memtable();
    let before = table.memory_usage();
    let entries = if cfg!(miri) { 20 } else { 1000 };
    for n in 0..entries {
        table.add(seq(n), ValueKind::Value, &n.to_be_bytes(), &[0; 100]);
    }
    let grown = table.memory_usage() - before;
    assert_eq!(table.data_bytes(), entries as usize * 116);
    assert!(grown >= table.data_bytes() && grown < 2 * table.data_bytes());
    assert!(table.memory_reserved() >= table.memory_usage());
}

/// Regression: the buffer of unsorted entries was not counted.
#[test]
fn unsorted_entries_are_counted() {
    let manager = Arc::new(WriteBufferManager::new(1 << 30, None, false));
    let options = MemtableOptions {
        sort_on_read: true,
        ..MemtableOptions::default()
    };
    let table = Memtable::new(KeyOrder::Bytewise, options).accounted(manager.clone());
    let entries = if cfg!(miri) { 20 } else { 1000 };
    for n in (0..entries).rev() {
        table.add(seq(n), ValueKind::Value, &n.to_be_bytes(), b"");
        assert_eq!(manager.memory_usage(), table.memory_reserved());
    }
    let counted = table.memory_reserved() - table.list.arena().memory_reserved();
    assert!(counted >= 16 * entries as usize, "{counted} bytes");
    // They are sorted, and the buffer keeps its memory for further entries.
    assert_eq!(versions(&table, &0_u64.to_be_bytes(), entries).len(), 1);
    table.add(seq(entries), ValueKind::Value, b"k", b"");
    assert!(table.memory_reserved() >= counted);
    assert_eq!(manager.memory_usage(), table.memory_reserved());
}

/// Short keys over a small alphabet, so that many share prefixes and some have none.
fn keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let key = proptest::collection::vec(b'a'..b'e', 0..5);
    proptest::collection::vec(key, 0..40)
}

fn filter_options() -> impl Strategy<Value = FilterOptions> {
    let extractors = vec![
        None,
        Some(PrefixExtractor::Fixed(2)),
        Some(PrefixExtractor::Capped(3)),
        Some(PrefixExtractor::Noop),
    ];
    let extractor = proptest::sample::select(extractors);
    (64_usize..1024, any::<bool>(), extractor).prop_map(|(bytes, whole_keys, prefix_extractor)| {
        FilterOptions {
            bytes,
            whole_keys,
            prefix_extractor,
        }
    })
}

proptest! {
    #[test]
    fn the_filter_does_not_change_lookups(
        added in keys(),
        asked in keys(),
        filter in filter_options(),
        stamped in any::<bool>(),
    ) {
        let order = match stamped {
            true => KeyOrder::BytewiseU64Ts,
            false => KeyOrder::Bytewise,
        };
        let full = |key: &[u8], ts: u64| match stamped {
            true => [key, &ts.to_le_bytes()].concat(),
            false => key.to_vec(),
        };
        let plain = Memtable::new(order.clone(), MemtableOptions::default());
        let options = MemtableOptions { filter, ..MemtableOptions::default() };
        let filtered = Memtable::new(order, options);
        let added_keys: Vec<_> = (1..).zip(&added).map(|(n, key)| full(key, n)).collect();
        let points: Vec<Point<'_>> = (1..)
            .zip(&added_keys)
            .map(|(n, key)| {
                let kind = if n % 3 == 0 { ValueKind::Deletion } else { ValueKind::Value };
                Point { seq: seq(n), kind, key, value: b"value" }
            })
            .collect();
        for point in &points {
            plain.add(point.seq, point.kind, point.key, point.value);
        }
        filtered.add_points(&points);
        let counts = |table: &Memtable| (table.entries(), table.deletions(), table.data_bytes());
        prop_assert_eq!(counts(&filtered), counts(&plain));
        for key in added.iter().chain(&asked) {
            let key = full(key, 100);
            let found = versions(&plain, &key, 100);
            prop_assert_eq!(&versions(&filtered, &key, 100), &found);
            prop_assert!(found.is_empty() || filtered.may_have(&key));
            prop_assert!(found.is_empty() || filtered.may_have_prefix_of(&key));
        }
    }

    /// Whatever their order, number and keys, and the entries before them.
    #[test]
    fn points_added_together_are_those_added_one_by_one(
        before in 0_usize..200,
        picked in proptest::collection::vec((0_u16..400, 0_usize..4), 0..1500),
        order in proptest::sample::select(vec![
            KeyOrder::Bytewise,
            KeyOrder::ReverseBytewise,
            KeyOrder::BytewiseU64Ts,
        ]),
    ) {
        let key = |(n, form): (u16, usize)| match form {
            0 => format!("k{n}........").into_bytes(),
            1 => format!("k......................................{n:05}........").into_bytes(),
            2 => [n.to_le_bytes().as_slice(), &[0; 8]].concat(),
            _ => vec![n as u8; 8 + usize::from(n % 5)],
        };
        let [one_by_one, together] =
            [(); 2].map(|()| Arc::new(Memtable::new(order.clone(), MemtableOptions::default())));
        let first = before as u64 + 1;
        for table in [&one_by_one, &together] {
            for n in 0..before {
                let at = (n as u16 * 7, n % 4);
                table.add(seq(n as u64 + 1), ValueKind::Value, &key(at), b"before");
            }
        }
        let keys: Vec<Vec<u8>> = picked.into_iter().map(key).collect();
        let points: Vec<Point<'_>> = (first..)
            .zip(&keys)
            .map(|(n, key)| Point { seq: seq(n), kind: ValueKind::Value, key, value: &key[..4] })
            .collect();
        for point in &points {
            one_by_one.add(point.seq, point.kind, point.key, point.value);
        }
        together.add_points(&points);
        let all = |table: &Arc<Memtable>| {
            let mut iter = table.iter();
            iter.seek_to_first();
            std::iter::from_fn(move || {
                let entry = iter.valid().then(|| (iter.key().to_vec(), iter.value().to_vec()));
                if entry.is_some() {
                    iter.next();
                }
                entry
            })
            .collect::<Vec<_>>()
        };
        prop_assert_eq!(all(&together), all(&one_by_one));
        let counts = |table: &Memtable| (table.entries(), table.data_bytes(), table.first_seq(), table.largest_seq());
        prop_assert_eq!(counts(&together), counts(&one_by_one));
    }

    #[test]
    fn the_filter_does_not_change_prefix_seeks(
        added in keys(),
        asked in keys(),
        bytes in 64_usize..1024,
    ) {
        let extractor = PrefixExtractor::Fixed(2);
        let filter = FilterOptions {
            bytes,
            whole_keys: false,
            prefix_extractor: Some(extractor.clone()),
        };
        let options = MemtableOptions { filter, ..MemtableOptions::default() };
        let table = Arc::new(Memtable::new(KeyOrder::Bytewise, options));
        for (n, key) in (1..).zip(&added) {
            table.add(seq(n), ValueKind::Value, key, b"");
        }
        let (mut plain, mut filtered) = (table.iter(), table.iter());
        filtered.set_prefix_filter(true);
        for key in added.iter().chain(&asked) {
            let target = LookupKey::new(key, SequenceNumber::MAX);
            for seek in [MemtableIter::seek, MemtableIter::seek_for_prev] {
                seek(&mut plain, target.internal());
                seek(&mut filtered, target.internal());
                let same = extractor.prefix(key).is_none()
                    || plain.entry().is_some_and(|e| extractor.prefix(e.user_key()) == extractor.prefix(key));
                if same || filtered.valid() {
                    prop_assert_eq!(filtered.key(), plain.key());
                }
            }
        }
    }
}

#[test]
fn the_filter_saves_searches_and_counts_as_memory() {
    let filter = FilterOptions {
        bytes: 4096,
        whole_keys: true,
        prefix_extractor: None,
    };
    let options = MemtableOptions {
        filter,
        ..MemtableOptions::default()
    };
    let table = Memtable::new(KeyOrder::Bytewise, options.clone());
    let without = Memtable::new(KeyOrder::Bytewise, MemtableOptions::default());
    assert_eq!(table.memory_usage(), without.memory_usage() + 4096);
    for n in 0..1000_u32 {
        table.add(seq(1), ValueKind::Value, &n.to_be_bytes(), b"");
    }
    let absent = 1000..11_000_u32;
    let walked = absent.filter(|n| table.may_have(&n.to_be_bytes())).count();
    assert!(
        walked < 100,
        "{walked} of 10000 absent keys were searched for"
    );
    assert!(without.may_have(b"x"));
    assert!(!table.has_prefixes_of(Some(&PrefixExtractor::Noop)));
}

#[test]
fn no_filter_if_different_bytes_may_be_equal() {
    struct AnyCase;
    impl cairn_types::Comparator for AnyCase {
        fn name(&self) -> &str {
            "any case"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
            a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
        }
    }
    let filter = FilterOptions {
        bytes: 4096,
        whole_keys: true,
        prefix_extractor: None,
    };
    let options = MemtableOptions {
        filter,
        ..MemtableOptions::default()
    };
    let table = Memtable::new(KeyOrder::Custom(Arc::new(AnyCase)), options);
    table.add(seq(1), ValueKind::Value, b"Stone", b"");
    assert_eq!(versions(&table, b"sTONE", 9).len(), 1);
}

/// Regression: a comparator can read the memory of the memtable whose range tombstones it compares.
#[test]
fn a_comparator_of_range_tombstones_can_read_the_memory() {
    #[derive(Default)]
    struct Measuring {
        table: std::sync::OnceLock<std::sync::Weak<Memtable>>,
        bytes: AtomicUsize,
    }
    impl cairn_types::Comparator for Measuring {
        fn name(&self) -> &str {
            "measuring"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
            if let Some(table) = self.table.get().and_then(std::sync::Weak::upgrade) {
                self.bytes.store(table.memory_usage(), Ordering::Relaxed);
            }
            a.cmp(b)
        }
    }
    let order = Arc::new(Measuring::default());
    let custom = KeyOrder::Custom(order.clone());
    let table = Arc::new(Memtable::new(custom, MemtableOptions::default()));
    let before = table.memory_usage();
    table.add(seq(1), ValueKind::RangeDeletion, b"a", b"c");
    table.add(seq(2), ValueKind::RangeDeletion, b"b", b"d");
    assert!(table.memory_usage() >= before + 2 * size_of::<Tombstone>());
    order.table.set(Arc::downgrade(&table)).unwrap();
    assert!(!table.range_tombstones().is_empty());
    let measured = order.bytes.load(Ordering::Relaxed);
    assert_eq!(measured, table.memory_usage());
}

#[test]
fn deferred_entries_are_read_and_counted_like_others() {
    let (late, plain) = (memtable(), memtable());
    for n in 1..500_u64 {
        let key = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let kind = match n % 7 {
            0 => ValueKind::Deletion,
            1 => ValueKind::RangeDeletion,
            2 => ValueKind::Merge,
            _ => ValueKind::Value,
        };
        let value: &[u8] = match kind {
            ValueKind::Deletion => b"",
            ValueKind::RangeDeletion => &[0xff; 9],
            _ => b"value",
        };
        late.add_deferred(seq(n), kind, &key, value);
        assert!(plain.add(seq(n), kind, &key, value));
        if n % 50 == 0 {
            assert_eq!(versions(&late, &key, n), versions(&plain, &key, n));
        }
    }
    let all = |table: &Arc<Memtable>| {
        let mut iter = table.iter();
        iter.seek_to_first();
        let mut all = Vec::new();
        while iter.valid() {
            all.push((iter.key().to_vec(), iter.value().to_vec()));
            iter.next();
        }
        all
    };
    assert_eq!(all(&late), all(&plain));
    let counts = |table: &Memtable| {
        (
            table.entries(),
            table.deletions(),
            table.range_deletions(),
            table.data_bytes(),
            table.first_seq(),
            table.largest_seq(),
        )
    };
    assert_eq!(counts(&late), counts(&plain));
    let tombstones = |table: &Memtable| table.raw_range_tombstones().len();
    assert_eq!(tombstones(&late), tombstones(&plain));
}
