//! Lookups through the row cache return the same as lookups without it, regardless of earlier reads.

use super::*;
use crate::batch::{BatchKey, multi_get};
use crate::row_cache::RowCache;
use cairn_memory::{CachePriority, CacheRole, RoleCounts};
use cairn_types::Result;

fn rows(world: &World) -> &RowCache {
    world.view.family.row_cache.as_ref().unwrap()
}

fn counts(world: &World) -> RoleCounts {
    rows(world).cache.role_counts(CacheRole::Other)
}

fn value_of(world: &World, key: &[u8], seq: u64, options: &ReadOptions) -> Option<Vec<u8>> {
    let lookup = LookupKey::new(key, SequenceNumber(seq));
    let found = get(&world.view, &lookup, options).unwrap();
    found.into_value().unwrap().map(|value| value.to_vec())
}

fn with_rows(changes: &[Change], layers: &[usize]) -> World {
    let shape = Shape {
        row_cache: Some(1 << 20),
        files: 1,
        ..shape_of(layers)
    };
    World::new(changes, &shape)
}

fn merge(key: &str, operand: &str) -> Change {
    Change::Merge(key.into(), operand.into())
}

fn delete_range(start: &str, end: &str) -> Change {
    Change::DeleteRange(start.into(), end.into())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn lookups_at_any_times_in_any_order_match_the_map(
        changes in proptest::collection::vec(change(), 1..80),
        shape in shape(),
        row_cache in prop_oneof![Just(2_000_usize), Just(1 << 20)],
        lookups in proptest::collection::vec(
            (0u64..80, proptest::collection::vec(key(), 1..4), any::<bool>(), any::<bool>()),
            1..30,
        ),
    ) {
        let world = World::new(&changes, &Shape { row_cache: Some(row_cache), ..shape });
        for (seq, keys, fill_cache, is_batch) in lookups {
            let seq = seq.min(changes.len() as u64);
            let model = world.model(seq);
            let options = ReadOptions { fill_cache, ..ReadOptions::default() };
            let found: Vec<Option<Vec<u8>>> = match is_batch {
                true => {
                    let lookup = |key: &Vec<u8>| LookupKey::new(key, SequenceNumber(seq));
                    let batch: Vec<_> = keys
                        .iter()
                        .map(|key| BatchKey { view: &world.view, lookup: lookup(key) })
                        .collect();
                    let found = multi_get(&batch, &options, false, Ok).into_iter();
                    let value = |found: Result<crate::Found>| found.unwrap().into_value().unwrap();
                    found.map(value).map(|value| value.map(|value| value.to_vec())).collect()
                }
                false => keys.iter().map(|key| value_of(&world, key, seq, &options)).collect(),
            };
            for (key, found) in keys.iter().zip(found) {
                let expected = model.iter().find(|(other, _)| other == key);
                prop_assert_eq!(found, expected.map(|(_, value)| value.clone()));
            }
        }
    }
}

#[test]
fn a_row_replaces_the_search_of_its_table() {
    let changes = [put("a", "1"), put("b", "2")];
    let world = with_rows(&changes, &[2]);
    let options = ReadOptions::default();
    for hits in 0..3 {
        assert_eq!(value_of(&world, b"a", 2, &options), Some(b"1".to_vec()));
        let counts = counts(&world);
        assert_eq!(
            (counts.hits, counts.misses, counts.insertions),
            (hits, 1, 1)
        );
    }
    // Neither the filter nor the block is read for a row: the block cache may be empty.
    let blocks = world.view.family.tables.cache.as_ref().unwrap();
    blocks.erase_unused();
    let cached = ReadOptions {
        read_tier: ReadTier::BlockCache,
        ..ReadOptions::default()
    };
    assert_eq!(value_of(&world, b"a", 2, &cached), Some(b"1".to_vec()));
    let other = LookupKey::new(b"b", SequenceNumber(2));
    let error = get(&world.view, &other, &cached).unwrap_err();
    assert_eq!(error.code(), Code::Incomplete);
}

#[test]
fn no_row_is_kept_without_fill_cache_or_without_entries() {
    let world = with_rows(&[put("a", "1"), put("c", "2")], &[2]);
    let options = ReadOptions {
        fill_cache: false,
        ..ReadOptions::default()
    };
    assert!(value_of(&world, b"a", 2, &options).is_some());
    assert!(value_of(&world, b"b", 2, &ReadOptions::default()).is_none());
    assert_eq!((counts(&world).misses, counts(&world).insertions), (2, 0));
}

#[test]
fn old_snapshots_have_rows_of_their_own() {
    let changes = [put("a", "1"), put("a", "2"), put("z", "3")];
    let world = with_rows(&changes, &[3]);
    let options = ReadOptions::default();
    for _ in 0..2 {
        assert_eq!(value_of(&world, b"a", 1, &options), Some(b"1".to_vec()));
        assert_eq!(value_of(&world, b"a", 2, &options), Some(b"2".to_vec()));
        assert_eq!(value_of(&world, b"a", 3, &options), Some(b"2".to_vec()));
        assert_eq!(value_of(&world, b"a", 0, &options), None);
    }
    // Those from the largest sequence number of the file on share a row; 0 found no entry.
    assert_eq!(counts(&world).insertions, 3);
    assert_eq!(value_of(&world, b"a", 9, &options), Some(b"2".to_vec()));
    assert_eq!(counts(&world).insertions, 3);
}

#[test]
fn a_range_tombstone_hides_the_entries_of_a_row() {
    let changes = [
        put("a", "1"),
        put("b", "2"),
        delete_range("a", "b"),
        put("y", "3"),
        put("z", "4"),
    ];
    // The tombstone is in a table above that of the row, in the same table, and in the memtable.
    for layers in [&[2, 0, 2][..], &[4], &[2]] {
        let world = with_rows(&changes, layers);
        let options = ReadOptions::default();
        for _ in 0..2 {
            assert_eq!(value_of(&world, b"a", 2, &options), Some(b"1".to_vec()));
            assert_eq!(value_of(&world, b"a", 5, &options), None);
            assert_eq!(value_of(&world, b"b", 5, &options), Some(b"2".to_vec()));
        }
        assert!(counts(&world).hits >= 2, "{layers:?}");
        let all = ReadOptions {
            ignore_range_deletions: true,
            ..ReadOptions::default()
        };
        assert_eq!(value_of(&world, b"a", 5, &all), Some(b"1".to_vec()));
    }
}

/// A lookup that a tombstone ends at the newest operand has not seen the entries below.
#[test]
fn a_lookup_that_ends_at_a_hidden_operand_keeps_no_row() {
    let changes = [
        put("a", "1"),
        merge("a", "2"),
        delete_range("a", "b"),
        put("z", "3"),
    ];
    let world = with_rows(&changes, &[4]);
    let options = ReadOptions::default();
    let all = ReadOptions {
        ignore_range_deletions: true,
        ..ReadOptions::default()
    };
    assert_eq!(value_of(&world, b"a", 4, &options), None);
    assert_eq!(counts(&world).insertions, 0);
    for _ in 0..2 {
        assert_eq!(value_of(&world, b"a", 4, &all), Some(b"1,2".to_vec()));
        assert_eq!(value_of(&world, b"a", 4, &options), None);
    }
    assert_eq!((counts(&world).insertions, counts(&world).hits), (1, 3));
}

#[test]
fn the_table_and_the_key_of_a_row_are_compared() {
    let world = with_rows(&[put("a", "1"), put("b", "2")], &[2]);
    let options = ReadOptions::default();
    assert!(value_of(&world, b"a", 2, &options).is_some());
    assert!(value_of(&world, b"b", 2, &options).is_some());
    // The row of `b` in the place of that of `a`, as if their hashes were equal.
    let cache = &rows(&world).cache;
    let mut all = Vec::new();
    for file in world.view.version.files() {
        let table = file.1.table.peek().unwrap();
        for key in [&b"a"[..], b"b"] {
            let place = rows(&world).position(&table, file.1.seqs.largest, SequenceNumber(2), key);
            all.extend(cache.get(&place).map(|row| (place, row)));
        }
    }
    let [(a, _), (_, row)] = &all[..] else {
        panic!("two rows, found {}", all.len());
    };
    cache.insert(*a, row.clone(), CacheRole::Other, CachePriority::Low);
    assert_eq!(value_of(&world, b"a", 2, &options), Some(b"1".to_vec()));
    // Bytes that are no row.
    for len in 0..60 {
        let bytes = vec![0xff; len];
        let other = cairn_platform::Buffer::from(&bytes[..]);
        cache.insert(*a, other, CacheRole::Other, CachePriority::Low);
        assert_eq!(value_of(&world, b"a", 2, &options), Some(b"1".to_vec()));
    }
}
