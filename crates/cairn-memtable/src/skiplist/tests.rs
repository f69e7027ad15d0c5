//! Tests of the skiplist alone; reduced under Miri.

use super::*;
use std::collections::BTreeMap;

const CASES: u64 = if cfg!(miri) { 60 } else { 5_000 };

fn list() -> SkipList {
    SkipList::new(KeyOrder::Bytewise, 4096)
}

fn all(list: &SkipList) -> Vec<(&[u8], u64, &[u8])> {
    std::iter::successors(list.first(), Entry::next)
        .map(|entry| (entry.user_key(), entry.seq().0, entry.value()))
        .collect()
}

fn insert(list: &SkipList, hint: &mut InsertHint, user: &[u8], seq: u64, value: &[u8]) -> bool {
    list.insert(user, seq << 8 | 1, value, hint)
}

#[test]
fn an_empty_list_has_no_entry() {
    let list = list();
    assert!(list.first().is_none());
    assert!(list.last().is_none());
    assert!(list.at_or_after(b"", u64::MAX).is_none());
    assert!(list.before(b"a", 0).is_none());
}

#[test]
fn keys_ascend_and_sequence_numbers_descend() {
    let list = list();
    let mut hint = InsertHint::default();
    for (user, seq) in [("b", 1), ("a", 2), ("b", 3), ("ab", 4), ("", 5), ("a\0", 6)] {
        assert!(insert(
            &list,
            &mut hint,
            user.as_bytes(),
            seq,
            user.as_bytes()
        ));
    }
    let order: Vec<_> = all(&list)
        .iter()
        .map(|(user, seq, _)| (user.to_vec(), *seq))
        .collect();
    let expected = [("", 5), ("a", 2), ("a\0", 6), ("ab", 4), ("b", 3), ("b", 1)];
    assert_eq!(
        order,
        expected.map(|(user, seq)| (user.as_bytes().to_vec(), seq))
    );
    assert_eq!(list.last().unwrap().seq().0, 1);
}

#[test]
fn the_same_internal_key_is_inserted_once() {
    let list = list();
    let mut hint = InsertHint::default();
    assert!(insert(&list, &mut hint, b"k", 7, b"first"));
    assert!(!insert(&list, &mut hint, b"k", 7, b"second"));
    assert!(!insert(
        &list,
        &mut InsertHint::default(),
        b"k",
        7,
        b"third"
    ));
    assert_eq!(all(&list), [(&b"k"[..], 7, &b"first"[..])]);
}

#[test]
fn any_pattern_of_insertions_ends_sorted_with_any_hint() {
    for pattern in 0..4u64 {
        let list = list();
        let (mut one, mut other) = (InsertHint::default(), InsertHint::default());
        let mut model = BTreeMap::new();
        for n in 0..CASES {
            let key = match pattern {
                0 => n,
                1 => u64::MAX - n,
                2 => n.wrapping_mul(0x9e37_79b9_7f4a_7c15),
                _ => (n % 7) << 40 | n,
            };
            let hint = if n % 3 == 0 { &mut other } else { &mut one };
            let user = key.to_be_bytes();
            assert!(insert(&list, hint, &user, n, &n.to_le_bytes()));
            model.insert(user.to_vec(), n);
        }
        let expected: Vec<_> = model.iter().map(|(user, n)| (user.clone(), *n)).collect();
        let found: Vec<_> = all(&list)
            .iter()
            .map(|(user, seq, _)| (user.to_vec(), *seq))
            .collect();
        assert_eq!(found, expected);
        let backwards = std::iter::successors(list.last(), Entry::prev);
        assert!(
            backwards
                .map(|entry| entry.seq().0)
                .eq(model.values().rev().copied())
        );
    }
}

#[test]
fn a_hint_of_another_list_is_not_followed() {
    let mut hint = InsertHint::default();
    {
        let gone = list();
        insert(&gone, &mut hint, b"a", 1, b"");
    }
    let list = list();
    insert(&list, &mut hint, b"b", 1, b"");
    assert_eq!(all(&list).len(), 1);
}

#[test]
fn every_built_in_order_agrees_with_its_comparator() {
    let orders = [
        KeyOrder::Bytewise,
        KeyOrder::ReverseBytewise,
        KeyOrder::BytewiseU64Ts,
        KeyOrder::ReverseBytewiseU64Ts,
    ];
    for order in orders {
        let list = SkipList::new(order.clone(), 4096);
        let mut hint = InsertHint::default();
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for n in 0..CASES.min(300) {
            let text = (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40).to_string();
            let mut user = text.as_bytes()[..1 + n as usize % text.len()].to_vec();
            user.extend_from_slice(&(n % 5).to_le_bytes());
            insert(&list, &mut hint, &user, n, b"");
            keys.push(user);
        }
        keys.sort_by(|a, b| order.compare(a, b));
        let found: Vec<_> = all(&list).iter().map(|(user, ..)| user.to_vec()).collect();
        assert!(found.is_sorted_by(|a, b| order.compare(a, b) != Order::Greater));
        assert_eq!(found.len(), keys.len());
    }
}

#[test]
fn concurrent_insertions_and_reads() {
    let list = list();
    let per_thread = CASES / 4;
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let list = &list;
            scope.spawn(move || {
                let mut hint = InsertHint::default();
                for n in 0..per_thread {
                    let key = (n * 3 + thread)
                        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                        .to_be_bytes();
                    assert!(insert(list, &mut hint, &key, n, &key));
                    let found = list.at_or_after(&key, u64::MAX).unwrap();
                    assert_eq!(found.value(), key);
                }
            });
        }
        for _ in 0..if cfg!(miri) { 2 } else { 20 } {
            let seen = all(&list);
            assert!(seen.is_sorted_by(|a, b| a.0 < b.0));
            assert!(seen.iter().all(|(user, _, value)| user == value));
        }
    });
    assert_eq!(all(&list).len(), 3 * per_thread as usize);
    assert_eq!(list.entries(), 3 * per_thread as usize);
}

/// Inserts values that are copies of their keys, in batches.
fn insert_all(list: &SkipList, hint: &mut InsertHint, keys: &[(Vec<u8>, u64)]) -> Vec<bool> {
    let mut new = vec![None; keys.len()];
    for (nth, keys) in keys.chunks(INSERT_BATCH).enumerate() {
        let additions: Vec<Addition<'_>> = keys
            .iter()
            .map(|(user, seq)| (&**user, seq << 8 | 1, &**user))
            .collect();
        list.insert_batch(&additions, hint, |at, is_new| {
            assert_eq!(new[nth * INSERT_BATCH + at].replace(is_new), None);
        });
    }
    new.into_iter()
        .map(|is_new| is_new.expect("each insertion is reported"))
        .collect()
}

#[test]
fn batched_insertions_equal_single_ones() {
    for order in [KeyOrder::Bytewise, KeyOrder::ReverseBytewise] {
        // Small chunks hold nodes one by one, large ones also those of a run.
        let [together, alone] = [1 << 20, 4096].map(|len| SkipList::new(order.clone(), len));
        let (mut hint, mut other) = (InsertHint::default(), InsertHint::default());
        let mut state = 3_u64;
        let mut seq = 0;
        for round in 0..CASES / 10 {
            let keys: Vec<(Vec<u8>, u64)> = (0..1 + round % 19)
                .map(|n| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    // Every fourth number is used twice, so that some entries are duplicates.
                    seq += u64::from(state >> 60 & 3 != 0);
                    let key = match round % 4 {
                        0 => round * 100 + n,
                        1 => u64::MAX - round * 100 - n,
                        2 => state >> 40 & 0xf,
                        _ => state,
                    };
                    let len = 1 + (state >> 33 & 7) as usize;
                    (key.to_be_bytes()[8 - len..].to_vec(), seq)
                })
                .collect();
            let new = insert_all(&together, &mut hint, &keys);
            let expected = keys
                .iter()
                .map(|(user, seq)| insert(&alone, &mut other, user, *seq, user));
            assert_eq!(new, expected.collect::<Vec<_>>());
        }
        assert_eq!(all(&together), all(&alone));
        assert_eq!(together.entries(), alone.entries());
        let backwards = std::iter::successors(together.last(), Entry::prev);
        assert_eq!(backwards.count(), together.entries());
    }
}

/// Runs of neighbours collide with insertions between them, and with each other.
#[test]
fn concurrent_runs_lose_no_entries() {
    let per_thread = if cfg!(miri) { 40 } else { 16_000 };
    for arena_block in [4096, 1 << 20] {
        let list = SkipList::new(KeyOrder::Bytewise, arena_block);
        std::thread::scope(|scope| {
            for thread in 0..3_u64 {
                let list = &list;
                scope.spawn(move || {
                    let mut hint = InsertHint::default();
                    let keys: Vec<(Vec<u8>, u64)> = (0..per_thread)
                        .map(|n| ((n * 3 + thread).to_be_bytes().to_vec(), n))
                        .collect();
                    let new = insert_all(list, &mut hint, &keys);
                    assert!(new.iter().all(|is_new| *is_new));
                });
            }
        });
        let seen = all(&list);
        assert!(seen.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(seen.len(), 3 * per_thread as usize);
        for (user, _, value) in seen {
            let found = list.at_or_after(user, u64::MAX);
            assert_eq!(found.map(|entry| entry.user_key()), Some(user));
            assert_eq!(user, value);
        }
    }
}

#[test]
fn concurrent_batches_lose_no_entries() {
    let list = list();
    let per_thread = if cfg!(miri) { 40 } else { 8_000 };
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let list = &list;
            scope.spawn(move || {
                let mut hint = InsertHint::default();
                let keys: Vec<(Vec<u8>, u64)> = (0..per_thread)
                    .map(|n| {
                        let key = (n * 3 + thread).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                        (key.to_be_bytes().to_vec(), n)
                    })
                    .collect();
                for keys in keys.chunks(1 + 3 * thread as usize) {
                    assert!(
                        insert_all(list, &mut hint, keys)
                            .iter()
                            .all(|is_new| *is_new)
                    );
                }
            });
        }
    });
    let seen = all(&list);
    assert!(seen.is_sorted_by(|a, b| a.0 < b.0));
    assert_eq!(seen.len(), 3 * per_thread as usize);
}

/// Compares a list with deferred insertions to an ordinary one at every read.
#[test]
fn deferred_entries_are_visible_to_every_read() {
    for pattern in 0..4_u64 {
        let list = list();
        let mut model = BTreeMap::new();
        let mut chance = 1_u64;
        let mut deferred_reads = 0;
        for n in 1..CASES / 4 {
            chance = chance.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(n);
            let key = match pattern {
                0 => n,
                1 => CASES - n,
                2 => chance >> 40,
                _ => chance >> 61,
            };
            let key = key.to_be_bytes();
            // Occasionally use a different kind of insertion.
            match chance >> 33 & 31 {
                0 if pattern > 0 => {
                    assert!(insert(&list, &mut InsertHint::default(), &key, n, b"v"))
                }
                _ => list.insert_deferred(&key, n << 8 | 1, b"v"),
            }
            deferred_reads += usize::from(list.deferred.waiting.load(Ordering::Relaxed));
            model.insert((key, u64::MAX - n), n);
            let versions = || model.iter().map(|((key, _), n)| (*key, *n));
            let named = |entry: Entry<'_>| {
                (
                    <[u8; 8]>::try_from(entry.user_key()).unwrap(),
                    entry.seq().0,
                )
            };
            match chance >> 33 & 127 {
                1 => assert_eq!(list.first().map(named), versions().next()),
                2 => assert_eq!(list.last().map(named), versions().next_back()),
                3 => assert_eq!(
                    list.at_or_after(&key, n << 8 | 1).map(named),
                    Some((key, n))
                ),
                4 => {
                    let before = model.range(..(key, u64::MAX - n)).next_back();
                    let before = before.map(|((key, _), n)| (*key, *n));
                    assert_eq!(list.before(&key, n << 8 | 1).map(named), before);
                }
                _ => {}
            }
        }
        let found: Vec<u64> = all(&list).iter().map(|(_, seq, _)| *seq).collect();
        assert_eq!(found, model.values().copied().collect::<Vec<_>>());
        assert_eq!(list.entries(), model.len());
        match pattern {
            0 => assert_eq!(deferred_reads, 0, "ascending keys are not deferred"),
            _ => assert!(deferred_reads > 0),
        }
    }
}

#[test]
fn readers_find_published_entries_that_are_deferred() {
    let list = list();
    let published = AtomicUsize::new(0);
    let key = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for n in 1..CASES {
                list.insert_deferred(&key(n), n << 8 | 1, b"v");
                published.store(n as usize, Ordering::Release);
                if n % 512 == 0 {
                    std::thread::yield_now();
                }
            }
        });
        for _ in 0..2 {
            threads.spawn(|| {
                loop {
                    let n = published.load(Ordering::Acquire) as u64;
                    for n in n.saturating_sub(9)..n {
                        let found = list.at_or_after(&key(n + 1), u64::MAX).unwrap();
                        assert_eq!((found.user_key(), found.seq().0), (&key(n + 1)[..], n + 1));
                    }
                    if n + 1 == CASES {
                        break;
                    }
                    // Long enough for insertions to be deferred again.
                    std::thread::yield_now();
                }
            });
        }
    });
    assert_eq!(all(&list).len() as u64, CASES - 1);
}

#[test]
fn a_list_sorted_on_read_equals_any_other() {
    let late = list().sort_on_read();
    let mut hint = InsertHint::default();
    let mut expected = BTreeMap::new();
    let mut state = 7_u64;
    for n in 0..CASES {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let user = (state >> 40 & 0xff).to_be_bytes();
        assert!(insert(&late, &mut hint, &user, n, &n.to_le_bytes()));
        expected.insert((user, std::cmp::Reverse(n)), n.to_le_bytes());
        if n % 97 == 0 {
            let all: Vec<_> = all(&late);
            let wanted: Vec<_> = expected
                .iter()
                .map(|((user, seq), value)| (&user[..], seq.0, &value[..]))
                .collect();
            assert_eq!(all, wanted);
            let last = late.last().map(|entry| entry.user_key().to_vec());
            assert_eq!(last.as_deref(), wanted.last().map(|(user, ..)| *user));
        } else if n % 31 == 0 {
            let found = late.at_or_after(&user, u64::MAX).map(|entry| entry.seq().0);
            assert_eq!(found, Some(n));
        }
    }
    assert_eq!(late.entries() as u64, CASES);
}

/// If two entries have the same internal key, one is kept and counted.
#[test]
fn duplicates_are_dropped_when_the_list_is_sorted() {
    let late = list().sort_on_read();
    let mut hint = InsertHint::default();
    for value in [b"1", b"1"] {
        insert(&late, &mut hint, b"a", 1, value);
    }
    assert_eq!(all(&late), [(&b"a"[..], 1, &b"1"[..])]);
    assert_eq!(late.entries(), 1);
}

#[test]
fn keys_and_values_have_any_length() {
    let list = list();
    let mut hint = InsertHint::default();
    let lens = [0, 1, 7, 8, 9, 127, 128, 129, 16_383, 16_384, 2_100_000];
    let bytes = |len: usize| vec![b'x'; if cfg!(miri) { len.min(500) } else { len }];
    for (nth, &key) in lens.iter().enumerate() {
        for (seq, &value) in lens.iter().enumerate() {
            let seq = (nth * lens.len() + seq) as u64;
            assert!(insert(&list, &mut hint, &bytes(key), seq, &bytes(value)));
        }
    }
    let mut entries: Vec<_> = all(&list);
    entries.sort_by_key(|&(_, seq, _)| seq);
    for (entry, nth) in entries.iter().zip(0..) {
        let (key, value) = (lens[nth / lens.len()], lens[nth % lens.len()]);
        assert_eq!(*entry, (&bytes(key)[..], nth as u64, &bytes(value)[..]));
    }
    assert_eq!(entries.len(), lens.len() * lens.len());
}

/// The overhead per entry. RocksDB's skiplist takes 138.7 bytes for such an entry; a larger overhead would
/// reduce the capacity of memtables and increase write amplification.
#[test]
fn entries_have_a_small_overhead() {
    let list = SkipList::new(KeyOrder::Bytewise, 1 << 20);
    let mut hint = InsertHint::default();
    let before = list.arena().memory_usage();
    for n in 0..1000_u64 {
        let key = [n.to_be_bytes(), [0; 8]].concat();
        assert!(insert(&list, &mut hint, &key, n, &[7; 100]));
    }
    let taken = list.arena().memory_usage() - before;
    assert!(taken <= 143 * 1000, "{taken} bytes for 1000 entries");
}
