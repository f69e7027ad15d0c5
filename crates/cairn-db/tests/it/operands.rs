//! Reads of unmerged operands: their values, their limits, and the memory that they pin.

#![expect(clippy::unwrap_used, reason = "an absent value fails the test")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use cairn_db::{Db, GetMergeOperandsOptions, OpenRequest, Operands, WriteBatch, open};
use cairn_memory::{BlockCache, CacheOptions};
use cairn_options::{CompactRangeOptions, DbOptions, FamilyOptions, ReadOptions};
use cairn_platform::World;
use cairn_types::{Code, MergeInput, MergeOperator, Result, Subcode};
use proptest::prelude::*;

use crate::basic::{db_options, small};

/// Joins operands with commas, and never merges two operands into one.
struct Join;

impl MergeOperator for Join {
    fn name(&self) -> &str {
        "join"
    }

    fn full_merge(&self, input: &MergeInput<'_>) -> Option<Vec<u8>> {
        let all: Vec<&[u8]> = input
            .existing
            .into_iter()
            .chain(input.operands.iter().copied())
            .collect();
        Some(all.join(&b','))
    }
}

fn joining() -> FamilyOptions {
    FamilyOptions {
        disable_auto_compactions: true,
        merge_operator: Some(Arc::new(Join)),
        ..small()
    }
}

fn opened(family: &FamilyOptions, rows: bool) -> Db {
    let rows = rows.then(|| Arc::new(BlockCache::new(1 << 20, CacheOptions::default())));
    let options = DbOptions {
        row_cache: rows,
        ..db_options()
    };
    let db = open(&OpenRequest {
        path: Path::new("/db"),
        options: &options,
        families: &[],
        others: Some(family),
        read_only: false,
        world: World::in_memory(),
    });
    db.unwrap()
}

fn texts(operands: &Operands) -> Vec<String> {
    let texts = operands
        .iter()
        .map(|one| String::from_utf8_lossy(one).into_owned());
    texts.collect()
}

/// Reads the operands of `key`, at most `max`, and ends the read at the operand `stop`, counted from the newest.
/// Returns their number as well, and the operands that the function was called with.
fn read(
    db: &Db,
    key: &[u8],
    max: usize,
    stop: Option<usize>,
    options: &ReadOptions,
) -> (Result<Vec<String>>, usize, Vec<String>) {
    let mut seen: Vec<String> = Vec::new();
    let mut goes_on = |operand: &[u8]| {
        seen.push(String::from_utf8_lossy(operand).into_owned());
        Some(seen.len()) != stop
    };
    let mut request = GetMergeOperandsOptions {
        expected_max_number_of_operands: max,
        continue_cb: Some(&mut goes_on),
        number_of_operands: 77,
    };
    let family = db.default_family();
    let operands = family.get_merge_operands_with(key, &mut request, options);
    let number = request.number_of_operands;
    (operands.map(|operands| texts(&operands)), number, seen)
}

/// Three operands of `k` in tables and two in the memtable, above a value.
fn layered() -> Db {
    let db = opened(&joining(), false);
    db.put(b"k", b"base").unwrap();
    for operand in [b"1", b"2", b"3"] {
        db.flush().unwrap();
        db.merge(b"k", operand).unwrap();
    }
    db.flush().unwrap();
    db.merge(b"k", b"4").unwrap();
    db.merge(b"k", b"5").unwrap();
    db
}

#[test]
fn a_batch_with_an_operand_for_a_family_without_a_merge_operator_is_refused() {
    let db = opened(&joining(), false);
    let plain = db.create_family("plain", &small()).unwrap();
    let mut batch = WriteBatch::new();
    batch.merge(b"k", b"1");
    batch.put_in(&plain, b"k", b"1");
    db.write(&batch).unwrap();
    batch.set_save_point();
    batch.merge_in(&plain, b"k", b"2");
    let raw = WriteBatch::from_data(batch.data()).unwrap();
    for refused in [&batch, &raw] {
        let error = db.write(refused).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    }
    // No part of a batch was written, and others are.
    assert_eq!(&*db.get(b"k").unwrap().unwrap(), b"1");
    batch.rollback_to_save_point().unwrap();
    db.write(&batch).unwrap();
    assert_eq!(&*db.get(b"k").unwrap().unwrap(), b"1,1");
}

#[test]
fn a_read_ends_at_the_operand_at_which_the_function_returns_false() {
    let db = layered();
    let all = ["base", "1", "2", "3", "4", "5"];
    for stop in 1..=5 {
        let (operands, number, seen) = read(&db, b"k", 9, Some(stop), &ReadOptions::default());
        assert_eq!(operands.unwrap(), all[6 - stop..]);
        assert_eq!((number, seen.len()), (stop, stop));
    }
    let (operands, number, seen) = read(&db, b"k", 9, None, &ReadOptions::default());
    assert_eq!(operands.unwrap(), all);
    assert_eq!(number, 6);
    assert_eq!(
        seen,
        ["5", "4", "3", "2", "1"],
        "newest first, without the base value"
    );
    // Operands that are not returned do not count.
    let (operands, number, _) = read(&db, b"k", 2, Some(2), &ReadOptions::default());
    assert_eq!((operands.unwrap().len(), number), (2, 2));
}

#[test]
fn too_many_operands_are_counted_and_not_returned() {
    let db = layered();
    for max in 0..6 {
        let (operands, number, _) = read(&db, b"k", max, None, &ReadOptions::default());
        let error = operands.unwrap_err();
        assert_eq!(error.code(), Code::Incomplete);
        assert_eq!(error.subcode(), Subcode::MergeOperandsInsufficientCapacity);
        let text = error.to_string();
        assert!(
            text.starts_with("Result incomplete: Insufficient capacity for merge operands"),
            "{text}"
        );
        assert_eq!(number, 6);
    }
    let (operands, number, _) = read(&db, b"missing", 0, None, &ReadOptions::default());
    assert_eq!((operands.unwrap().len(), number), (0, 0));
}

#[test]
fn a_panic_of_the_function_is_passed_on_and_the_database_goes_on() {
    let db = layered();
    for at in 1..=5 {
        let mut calls = 0;
        let mut panics = |_: &[u8]| {
            calls += 1;
            assert!(calls < at, "the function panics");
            true
        };
        let mut request = GetMergeOperandsOptions {
            continue_cb: Some(&mut panics),
            ..GetMergeOperandsOptions::default()
        };
        let read = || {
            let family = db.default_family();
            family.get_merge_operands_with(b"k", &mut request, &ReadOptions::default())
        };
        assert!(catch_unwind(AssertUnwindSafe(read)).is_err());
        assert_eq!(
            db.get(b"k").unwrap().as_deref(),
            Some(&b"base,1,2,3,4,5"[..])
        );
    }
    db.close().unwrap();
}

#[test]
fn the_function_may_call_the_database() {
    let db = layered();
    let mut calls = 0;
    let mut busy = |_: &[u8]| {
        calls += 1;
        db.merge(b"k", b"later").unwrap();
        db.flush().unwrap();
        db.compact_range(None, None, &CompactRangeOptions::default())
            .unwrap();
        assert!(db.get(b"k").unwrap().is_some());
        assert!(
            db.get_merge_operands(b"k", 99, &ReadOptions::default())
                .is_ok()
        );
        true
    };
    let mut request = GetMergeOperandsOptions {
        continue_cb: Some(&mut busy),
        ..GetMergeOperandsOptions::default()
    };
    let family = db.default_family();
    let operands = family.get_merge_operands_with(b"k", &mut request, &ReadOptions::default());
    assert_eq!(texts(&operands.unwrap()), ["base", "1", "2", "3", "4", "5"]);
    assert_eq!(calls, 5);
}

/// A read that ends at an operand has seen only a part of the row of the key.
#[test]
fn a_read_that_ends_early_leaves_no_row_in_the_row_cache() {
    let db = opened(&joining(), true);
    let snapshots: Vec<_> = ["1", "2", "3"]
        .map(|operand| {
            db.merge(b"k", operand.as_bytes()).unwrap();
            db.snapshot()
        })
        .into();
    db.flush().unwrap();
    for stop in [Some(1), Some(2), None, Some(1)] {
        let (operands, ..) = read(&db, b"k", 9, stop, &ReadOptions::default());
        assert_eq!(operands.unwrap().len(), stop.unwrap_or(3));
        assert_eq!(db.get(b"k").unwrap().as_deref(), Some(&b"1,2,3"[..]));
    }
    drop(snapshots);
}

#[test]
fn operands_outlive_the_memtable_the_tables_and_the_database() {
    let db = layered();
    let operands = db
        .get_merge_operands(b"k", 9, &ReadOptions::default())
        .unwrap();
    let (oldest, newest) = (operands.get(0).unwrap(), operands.get(5).unwrap());
    assert!(operands.get(6).is_none() && operands.bytes(6).is_none());
    db.flush().unwrap();
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    db.close().unwrap();
    assert_eq!(texts(&operands), ["base", "1", "2", "3", "4", "5"]);
    assert_eq!(&operands[3], b"3");
    assert_eq!(operands.iter().next_back(), Some(&b"5"[..]));
    drop(operands);
    assert_eq!(&*oldest, b"base");
    drop(oldest);
    assert_eq!(&*newest, b"5");
}

#[test]
fn operands_are_read_and_dropped_by_other_threads() {
    let db = layered();
    let operands = db
        .get_merge_operands(b"k", 9, &ReadOptions::default())
        .unwrap();
    let each: Vec<_> = (0..operands.len())
        .map(|at| operands.get(at).unwrap())
        .collect();
    drop((operands, db));
    let read: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = each
            .into_iter()
            .map(|operand| scope.spawn(move || operand.to_vec()))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(read, [&b"base"[..], b"1", b"2", b"3", b"4", b"5"]);
}

#[test]
fn operands_of_a_dropped_family_stay_readable() {
    let db = opened(&joining(), false);
    let family = db.create_family("stones", &joining()).unwrap();
    family.merge(b"k", b"flushed").unwrap();
    family.flush().unwrap();
    family.merge(b"k", b"unflushed").unwrap();
    let operands = family
        .get_merge_operands(b"k", 9, &ReadOptions::default())
        .unwrap();
    db.drop_family(&family).unwrap();
    drop((family, db));
    assert_eq!(texts(&operands), ["flushed", "unflushed"]);
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, bool),
    Merge(u8, bool),
    Delete(u8),
    DeleteRange(u8, u8),
    Flush,
    Compact,
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..3u8;
    prop_oneof![
        2 => (key.clone(), any::<bool>()).prop_map(|(key, long)| Step::Put(key, long)),
        12 => (key.clone(), any::<bool>()).prop_map(|(key, long)| Step::Merge(key, long)),
        1 => key.clone().prop_map(Step::Delete),
        1 => (key.clone(), key).prop_map(|(from, to)| Step::DeleteRange(from, to)),
        2 => Just(Step::Flush),
        1 => Just(Step::Compact),
    ]
}

/// The base value and the operands that reads return, oldest first, for each key.
type Model = [Vec<String>; 3];

/// Writes the step to `db` and `model`; `number` makes values unique. Returns true if it was a write.
fn apply(step: &Step, number: usize, db: &Db, model: &mut Model, bases: &mut [bool; 3]) -> bool {
    let text = |long: bool| format!("{number}{}", "-".repeat(if long { 300 } else { 0 }));
    match *step {
        Step::Put(key, long) => {
            db.put(&[key], text(long).as_bytes()).unwrap();
            model[usize::from(key)] = vec![text(long)];
            bases[usize::from(key)] = true;
        }
        Step::Merge(key, long) => {
            db.merge(&[key], text(long).as_bytes()).unwrap();
            model[usize::from(key)].push(text(long));
        }
        Step::Delete(key) => {
            db.delete(&[key]).unwrap();
            model[usize::from(key)].clear();
            bases[usize::from(key)] = false;
        }
        Step::DeleteRange(from, to) => {
            if from < to {
                let mut batch = WriteBatch::new();
                batch.delete_range(&[from], &[to]);
                db.write(&batch).unwrap();
            }
            for key in usize::from(from)..usize::from(to) {
                model[key].clear();
                bases[key] = false;
            }
        }
        Step::Flush => db.flush().unwrap(),
        Step::Compact => db
            .compact_range(None, None, &CompactRangeOptions::default())
            .unwrap(),
    }
    !matches!(step, Step::Flush | Step::Compact)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Snapshots between all writes keep flushes and compactions from merging operands.
    #[test]
    fn operands_are_those_of_the_model(
        steps in proptest::collection::vec(step(), 1..70),
        rows in any::<bool>(),
        blobs in any::<bool>(),
    ) {
        let family = FamilyOptions { enable_blob_files: blobs, min_blob_size: 100, ..joining() };
        let db = opened(&family, rows);
        let (mut model, mut bases) = (Model::default(), [false; 3]);
        let mut states = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            if apply(step, number, &db, &mut model, &mut bases) {
                states.push((db.snapshot(), model.clone(), bases));
            }
        }
        for (snapshot, model, bases) in &states {
            let options = ReadOptions { snapshot: Some(snapshot.sequence()), ..ReadOptions::default() };
            for (key, expected) in model.iter().enumerate() {
                let name = [u8::try_from(key).unwrap()];
                let all = expected.len();
                // A compaction makes a value of an operand with nothing beneath.
                let merges = read(&db, &name, usize::MAX, None, &options).2.len();
                let written = all - usize::from(bases[key]);
                prop_assert!(merges == written || merges + 1 == written);
                for stop in [None, Some(1), Some(merges / 2), Some(merges), Some(all + 1)] {
                    let stops = stop.is_some_and(|stop| (1..=merges).contains(&stop));
                    let count = if stops { stop.unwrap() } else { all };
                    for max in [count, count.saturating_sub(1), 0, usize::MAX] {
                        let (found, number, seen) = read(&db, &name, max, stop, &options);
                        prop_assert_eq!(number, count);
                        let newest: Vec<_> = expected[all - merges..].iter().rev().take(count).cloned().collect();
                        prop_assert_eq!(seen, newest);
                        match count > max {
                            true => prop_assert_eq!(found.unwrap_err().code(), Code::Incomplete),
                            false => prop_assert_eq!(&found.unwrap(), &expected[all - count..]),
                        }
                    }
                }
                let value = db.default_family().get_with(&name, &options).unwrap();
                let value = value.map(|value| String::from_utf8(value.to_vec()).unwrap());
                prop_assert_eq!(value, (all > 0).then(|| expected.join(",")));
            }
        }
    }
}
