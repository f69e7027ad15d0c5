//! Lazy seeks: the children that they read, and the entries after them.

use cairn_options::ReadOptions;
use cairn_types::SequenceNumber;
use proptest::prelude::*;

use super::world::{Shape, World};
use super::{Pairs, change, key, put, shape, shape_of};
use crate::db_iter::DbIter;

fn iter(world: &World, seq: u64) -> Box<DbIter> {
    let options = ReadOptions {
        total_order_seek: true,
        ..ReadOptions::default()
    };
    DbIter::new(world.view.clone(), SequenceNumber(seq), &options)
}

fn entry(iter: &DbIter) -> Option<(&[u8], &[u8])> {
    iter.status().unwrap();
    iter.entry()
}

/// Three runs, of which the oldest has the keys `b` and `m`, and the newest `b`. Its first data block is damaged.
fn with_damaged_run(filtered: bool) -> World {
    let fill = |n: u8| put(&format!("k{n}"), "filler of the blocks");
    let mut changes = vec![put("b", "old"), put("m", "old")];
    changes.extend((0..6).map(fill));
    changes.extend([put("c", "new"), put("d", "new"), put("b", "new")]);
    let shape = Shape {
        files: 1,
        filtered,
        ..shape_of(&[8, 2, 1])
    };
    let world = World::new(&changes, &shape);
    world.damage_first_table(10);
    // Opens the tables; only their last blocks are read.
    iter(&world, 11).seek_to_last();
    world
}

#[test]
fn a_seek_to_a_key_of_a_newer_run_does_not_read_older_runs() {
    let world = with_damaged_run(true);
    let mut iter = iter(&world, 11);
    iter.seek(b"b");
    assert_eq!(entry(&iter), Some((&b"b"[..], &b"new"[..])));
    iter.next();
    assert!(iter.status().unwrap_err().is_corruption());
    assert!(!iter.valid());
    // A filter excludes the key in the newest run.
    iter.seek(b"c");
    assert_eq!(entry(&iter), Some((&b"c"[..], &b"new"[..])));
    iter.prev();
    assert!(iter.status().unwrap_err().is_corruption());
}

#[test]
fn without_filters_or_the_key_a_seek_reads_all_runs() {
    let world = with_damaged_run(false);
    let mut unfiltered = iter(&world, 11);
    unfiltered.seek(b"b");
    assert!(unfiltered.status().unwrap_err().is_corruption());
    let world = with_damaged_run(true);
    let mut absent = iter(&world, 11);
    absent.seek(b"bb");
    assert!(absent.status().unwrap_err().is_corruption());
}

#[test]
fn a_snapshot_before_the_newest_version_reads_the_older_run() {
    let mut changes = vec![put("b", "old"), put("m", "old")];
    changes.extend([put("c", "x"), put("b", "new"), put("d", "x")]);
    let shape = Shape {
        files: 1,
        filtered: true,
        ..shape_of(&[2, 1, 2])
    };
    let world = World::new(&changes, &shape);
    for (seq, wanted) in [(3, "old"), (4, "new")] {
        let mut iter = iter(&world, seq);
        iter.seek_to_last();
        iter.seek(b"b");
        assert_eq!(entry(&iter), Some((&b"b"[..], wanted.as_bytes())));
        iter.next();
        assert_eq!(entry(&iter), Some((&b"c"[..], &b"x"[..])));
    }
}

/// A movement of an iterator.
#[derive(Clone, Debug)]
enum Move {
    Seek(Vec<u8>),
    SeekForPrev(Vec<u8>),
    First,
    Last,
    Next,
    Prev,
}

fn movement() -> impl Strategy<Value = Move> {
    prop_oneof![
        4 => key().prop_map(Move::Seek),
        1 => key().prop_map(Move::SeekForPrev),
        1 => Just(Move::First),
        1 => Just(Move::Last),
        4 => Just(Move::Next),
        2 => Just(Move::Prev),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn movements_after_lazy_seeks_match_a_list(
        changes in proptest::collection::vec(change(), 1..80),
        shape in shape(),
        moves in proptest::collection::vec(movement(), 1..40),
        back in 0u64..20,
    ) {
        let world = World::new(&changes, &Shape { filtered: true, ..shape });
        let seq = (changes.len() as u64).saturating_sub(back);
        let expected: Pairs = world.model(seq);
        let before = |key: &[u8], counts: fn(std::cmp::Ordering) -> bool| {
            expected.partition_point(|(it, _)| counts(world.order().compare(it, key)))
        };
        let mut iter = iter(&world, seq);
        // The position in the list; `None` if the iterator is not valid.
        let mut place: Option<usize> = None;
        for movement in &moves {
            match movement {
                Move::Seek(key) => {
                    iter.seek(key);
                    place = Some(before(key, |order| order.is_lt()));
                }
                Move::SeekForPrev(key) => {
                    iter.seek_for_prev(key);
                    place = before(key, |order| order.is_le()).checked_sub(1);
                }
                Move::First => {
                    iter.seek_to_first();
                    place = Some(0);
                }
                Move::Last => {
                    iter.seek_to_last();
                    place = expected.len().checked_sub(1);
                }
                Move::Next => {
                    iter.next();
                    place = place.map(|at| at + 1);
                }
                Move::Prev => {
                    iter.prev();
                    place = place.and_then(|at| at.checked_sub(1));
                }
            }
            place = place.filter(|at| *at < expected.len());
            let wanted = place.map(|at| (&expected[at].0[..], &expected[at].1[..]));
            iter.status().unwrap();
            prop_assert_eq!(iter.entry(), wanted, "after {:?} of {:?}", movement, moves);
        }
        iter.recycle();
    }
}
