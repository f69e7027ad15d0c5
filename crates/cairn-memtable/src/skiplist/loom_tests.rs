//! Interleavings of two insertions and a reader, explored by loom.
//!
//! Run with `cargo xtask loom`.

use super::*;
use loom::sync::Arc;
use loom::thread;

fn insert(list: &SkipList, user: &[u8], seq: u64) {
    assert!(list.insert(user, seq << 8 | 1, user, &mut InsertHint::default()));
}

fn keys(list: &SkipList) -> Vec<Vec<u8>> {
    std::iter::successors(list.first(), Entry::next)
        .map(|entry| {
            assert_eq!(
                entry.user_key(),
                entry.value(),
                "a node is visible before it is complete"
            );
            entry.user_key().to_vec()
        })
        .collect()
}

/// An entry count for which the next two nodes both have links above the lowest level.
fn both_high() -> usize {
    (0..1000u64)
        .find(|&nth| height_of(nth) == 2 && height_of(nth + 1) == 2)
        .expect("a sixteenth of all pairs are") as usize
}

fn explore(first: &'static [u8], second: &'static [u8]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let list = Arc::new(SkipList::new(KeyOrder::Bytewise, 4096));
        list.entries.store(both_high(), Ordering::Relaxed);
        let writers: Vec<_> = [first, second]
            .into_iter()
            .enumerate()
            .map(|(n, user)| {
                let list = Arc::clone(&list);
                thread::spawn(move || insert(&list, user, n as u64 + 1))
            })
            .collect();
        let seen = keys(&list);
        assert!(seen.is_sorted());
        for writer in writers {
            writer.join().unwrap();
        }
        let mut expected = vec![first.to_vec(), second.to_vec()];
        expected.sort();
        assert_eq!(keys(&list), expected);
        assert_eq!(list.before(b"z", 0).unwrap().user_key(), expected[1]);
    });
}

#[test]
fn concurrent_neighbours_are_both_linked() {
    explore(b"a", b"b");
}

#[test]
fn concurrent_descending_insertions_are_both_linked() {
    explore(b"b", b"a");
}

#[test]
fn a_batch_and_a_concurrent_insertion_are_all_linked() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let list = Arc::new(SkipList::new(KeyOrder::Bytewise, 4096));
        list.entries.store(both_high(), Ordering::Relaxed);
        let other = Arc::clone(&list);
        let beside = thread::spawn(move || insert(&other, b"b", 1));
        let additions: [Addition<'_>; 2] = [(b"c", 2 << 8 | 1, b"c"), (b"a", 3 << 8 | 1, b"a")];
        list.insert_batch(&additions, &mut InsertHint::default(), |_, is_new| {
            assert!(is_new);
        });
        beside.join().unwrap();
        assert_eq!(keys(&list), [b"a", b"b", b"c"]);
    });
}

/// Two entries that are linked to each other before the list, and one that is inserted before, between or after them.
#[test]
fn a_run_and_a_concurrent_insertion_are_all_linked() {
    for user in [b"a", b"c", b"e"] {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let list = Arc::new(SkipList::new(KeyOrder::Bytewise, 4096));
            list.entries.store(both_high(), Ordering::Relaxed);
            let other = Arc::clone(&list);
            let beside = thread::spawn(move || insert(&other, user, 1));
            let additions: [Addition<'_>; 2] = [(b"b", 2 << 8 | 1, b"b"), (b"d", 3 << 8 | 1, b"d")];
            let inserted = list.insert_run(&additions, &mut InsertHint::default(), |_, is_new| {
                assert!(is_new);
            });
            assert!(inserted > 0);
            list.insert_batch(
                &additions[inserted..],
                &mut InsertHint::default(),
                |_, is_new| {
                    assert!(is_new);
                },
            );
            assert!(keys(&list).is_sorted());
            beside.join().unwrap();
            let mut expected = [user, b"b", b"d"];
            expected.sort();
            assert_eq!(keys(&list), expected);
            for key in expected {
                assert_eq!(list.at_or_after(key, u64::MAX).unwrap().user_key(), key);
            }
        });
    }
}

/// A deferred and published entry is found by a reader that sees its publication, even if the reader links it
/// at the same time as the writer.
#[test]
fn published_deferred_entries_are_found() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let list = Arc::new(SkipList::new(KeyOrder::Bytewise, 4096));
        let published = Arc::new(AtomicUsize::new(0));
        list.entries.store(both_high(), Ordering::Relaxed);
        // Sets the hint that the following insertions do not append to.
        list.insert_deferred(b"z", 1 << 8 | 1, b"z");
        let (shared, shown) = (Arc::clone(&list), Arc::clone(&published));
        let writer = thread::spawn(move || {
            for (at, user) in [b"b", b"a"].into_iter().enumerate() {
                shared.insert_deferred(user, (at as u64 + 2) << 8 | 1, user);
                shown.store(at + 1, Ordering::Release);
            }
        });
        let expected: &[&[u8]] = match published.load(Ordering::Acquire) {
            0 => &[b"z"],
            1 => &[b"b", b"z"],
            _ => &[b"a", b"b", b"z"],
        };
        let seen = keys(&list);
        assert!(expected.iter().all(|key| seen.contains(&key.to_vec())));
        writer.join().unwrap();
        assert_eq!(keys(&list), [b"a", b"b", b"z"]);
    });
}

/// A read of a list whose sequence numbers are to be shifted returns shifted ones, even if another thread shifts them at
/// the same time.
#[test]
fn a_read_during_a_shift_returns_shifted_entries() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let mut list = SkipList::new(KeyOrder::Bytewise, 4096);
        let sorted: [Addition<'_>; 2] = [(b"a", 1 << 8 | 1, b"a"), (b"b", 2 << 8 | 1, b"b")];
        list.fill(sorted.into_iter());
        list.shift(10);
        let list = Arc::new(list);
        let shared = Arc::clone(&list);
        let beside = thread::spawn(move || shared.finish_shift());
        let numbers: Vec<_> = std::iter::successors(list.first(), Entry::next)
            .map(|entry| entry.seq().0)
            .collect();
        assert_eq!(numbers, [11, 12]);
        beside.join().unwrap();
        assert_eq!(list.at_or_after(b"b", u64::MAX).unwrap().seq().0, 12);
    });
}
