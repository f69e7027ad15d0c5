//! Batched lookups return the results of single gets.

use super::*;
use crate::batch::{BatchKey, multi_get};
use cairn_types::Result;

type Answers = Vec<Result<Option<Vec<u8>>>>;

fn multi_get_values(
    world: &World,
    seq: u64,
    keys: &[Vec<u8>],
    options: &ReadOptions,
    sorted: bool,
) -> Answers {
    let keys: Vec<BatchKey<'_>> = keys
        .iter()
        .map(|key| BatchKey {
            view: &world.view,
            lookup: LookupKey::new(key, SequenceNumber(seq)),
        })
        .collect();
    let found = multi_get(&keys, options, sorted, Ok).into_iter();
    found
        .map(|found| Ok(found?.into_value()?.map(|value| value.to_vec())))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn batch_returns_the_results_of_single_gets(
        changes in proptest::collection::vec(change(), 1..80),
        shape in shape(),
        keys in proptest::collection::vec(key(), 0..200),
        fill_cache in any::<bool>(),
        sorted in any::<bool>(),
    ) {
        let world = World::new(&changes, &shape);
        let options = ReadOptions { fill_cache, ..ReadOptions::default() };
        let seq = changes.len() as u64;
        let expected = world.model(seq);
        let expected = |key: &Vec<u8>| {
            expected.iter().find(|(found, _)| found == key).map(|(_, value)| value.clone())
        };
        // Keys that violate the order promised by `sorted` are found as well.
        for _warmth in 0..2 {
            let found = multi_get_values(&world, seq, &keys, &options, sorted);
            prop_assert_eq!(found.len(), keys.len());
            for (key, found) in keys.iter().zip(found) {
                prop_assert_eq!(found.unwrap(), expected(key));
            }
        }
    }
}

#[test]
fn error_of_a_key_does_not_affect_other_keys() {
    let changes: Vec<Change> = (0..60u8)
        .map(|n| Change::Put(vec![n], vec![n; 20]))
        .collect();
    let world = World::new(&changes, &shape_of(&[60]));
    world.damage_first_table(300);
    let keys: Vec<Vec<u8>> = (0..60u8).rev().map(|n| vec![n]).collect();
    let found = multi_get_values(&world, 99, &keys, &ReadOptions::default(), false);
    let damaged = found.iter().filter(|found| found.is_err()).count();
    assert!((1..6).contains(&damaged), "{damaged} keys of one block");
    for (key, found) in keys.iter().zip(found) {
        match found {
            Ok(value) => assert_eq!(value, Some(vec![key[0]; 20])),
            Err(error) => assert!(error.is_corruption()),
        }
    }
}

#[test]
fn value_size_soft_limit_aborts_remaining_keys() {
    let changes: Vec<Change> = (0..100u8)
        .map(|n| Change::Put(vec![n], vec![n; 10]))
        .collect();
    let world = World::new(&changes, &shape_of(&[50]));
    let keys: Vec<Vec<u8>> = (0..100u8).map(|n| vec![n]).collect();
    let options = ReadOptions {
        value_size_soft_limit: 495,
        ..ReadOptions::default()
    };
    let found = multi_get_values(&world, 999, &keys, &options, true);
    for (n, found) in found.into_iter().enumerate() {
        match n < 50 {
            true => assert_eq!(found.unwrap(), Some(vec![n as u8; 10])),
            false => assert_eq!(found.unwrap_err().code(), Code::Aborted),
        }
    }
}

#[test]
fn expired_deadline_fails_keys_that_need_io() {
    let changes = [put("a", "1"), put("b", "2")];
    let world = World::new(&changes, &shape_of(&[1]));
    let options = ReadOptions {
        deadline: 1,
        ..ReadOptions::default()
    };
    let keys = [b"a".to_vec(), b"b".to_vec()];
    let found = multi_get_values(&world, 9, &keys, &options, true);
    assert_eq!(found[0].as_ref().unwrap_err().code(), Code::TimedOut);
    assert_eq!(found[1].as_ref().unwrap(), &Some(b"2".to_vec()));
    let lookup = LookupKey::new(b"a", SequenceNumber(9));
    let error = get(&world.view, &lookup, &options).unwrap_err();
    assert_eq!(error.code(), Code::TimedOut);
    let mut iter = DbIter::new(world.view.clone(), SequenceNumber(9), &options);
    iter.seek_to_first();
    assert!(!iter.valid());
    assert_eq!(iter.status().unwrap_err().code(), Code::TimedOut);
}
