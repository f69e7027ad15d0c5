//! Every interleaving of two insertions and a reader, as far as loom explores it.
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
                "a node was seen before it was complete"
            );
            entry.user_key().to_vec()
        })
        .collect()
}

/// A number of entries after which the next two nodes have links above the lowest level.
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
fn neighbours_inserted_at_once_are_both_there() {
    explore(b"a", b"b");
}

#[test]
fn insertions_in_falling_order_are_both_there() {
    explore(b"b", b"a");
}

#[test]
fn two_inserted_together_and_one_beside_them_are_all_there() {
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

/// What a writer puts off and publishes is found by who knows of the publication, and by who links it in
/// at the same time as the writer.
#[test]
fn what_is_put_off_is_found_by_who_knows_of_it() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let list = Arc::new(SkipList::new(KeyOrder::Bytewise, 4096));
        let published = Arc::new(AtomicUsize::new(0));
        list.entries.store(both_high(), Ordering::Relaxed);
        // It makes the hint, behind which the others do not go.
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
