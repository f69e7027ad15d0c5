//! Iterators over several families.

#![expect(clippy::unwrap_used, reason = "an absent value fails the test")]

use std::collections::BTreeMap;

use cairn_db::{CoalescingIter, Columns, Db, Family, FamilyDescriptor};
use cairn_options::{FamilyOptions, ReadOptions};
use cairn_platform::World;
use cairn_types::{Code, KeyOrder};

use crate::basic::{open_at, small};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn pairs(columns: &Columns) -> Pairs {
    let each = columns.iter();
    each.map(|(name, value)| (name.to_vec(), value.to_vec()))
        .collect()
}

fn three() -> (Db, Vec<Family>) {
    let families = ["default", "a", "b"].map(|name| FamilyDescriptor::new(name, small()));
    let db = open_at(&World::in_memory(), &[]).unwrap();
    for family in &families[1..] {
        db.create_family(&family.name, &family.options).unwrap();
    }
    let families = families.map(|family| db.family(&family.name).unwrap());
    (db, families.to_vec())
}

/// The value of each key in each family.
type Expected = BTreeMap<Vec<u8>, BTreeMap<usize, Pairs>>;

/// Keys in varying subsets of the families, as plain values and as entities, in tables and in memtables.
fn fill(families: &[Family]) -> Expected {
    let mut expected = Expected::new();
    let mut state = 7_u64;
    let mut draw = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    for round in 0..400_u64 {
        let (key, at) = (format!("k{:03}", draw(120)).into_bytes(), draw(3) as usize);
        let family = &families[at];
        let of_key = expected.entry(key.clone()).or_default();
        let value = round.to_string().into_bytes();
        match draw(5) {
            0 => {
                family.delete(&key).unwrap();
                of_key.remove(&at);
            }
            1 | 2 => {
                family.put(&key, &value).unwrap();
                of_key.insert(at, vec![(Vec::new(), value)]);
            }
            _ => {
                let names = [&b""[..], b"x", b"y", b"z"];
                let from = draw(4) as usize;
                let columns: Vec<(&[u8], &[u8])> = names[from..]
                    .iter()
                    .map(|name| (*name, &value[..]))
                    .collect();
                family.put_entity(&key, &columns).unwrap();
                let owned = columns
                    .iter()
                    .map(|(name, value)| (name.to_vec(), value.to_vec()));
                of_key.insert(at, owned.collect());
            }
        }
        if draw(60) == 0 {
            family.flush().unwrap();
        }
    }
    expected.retain(|_, of_key| !of_key.is_empty());
    expected
}

fn check(iter: &CoalescingIter, key: &[u8], of_key: &BTreeMap<usize, Pairs>, names: &[&str]) {
    assert!(iter.valid());
    assert_eq!(iter.key(), key);
    let groups: Vec<(&str, Pairs)> = iter
        .attribute_groups()
        .iter()
        .map(|(family, columns)| (family.name(), pairs(columns)))
        .collect();
    let expected: Vec<(&str, Pairs)> = of_key
        .iter()
        .map(|(at, columns)| (names[*at], columns.clone()))
        .collect();
    assert_eq!(groups, expected);
    let coalesced: BTreeMap<Vec<u8>, Vec<u8>> = of_key
        .values()
        .flat_map(|columns| columns.iter().cloned())
        .collect();
    let default = coalesced.get(&b""[..]).cloned().unwrap_or_default();
    assert_eq!(
        pairs(&iter.columns()),
        coalesced.into_iter().collect::<Pairs>()
    );
    assert_eq!(&iter.value()[..], default);
}

#[test]
fn each_key_is_returned_once_with_the_values_of_all_families() {
    let (db, families) = three();
    let expected = fill(&families);
    let names = ["default", "a", "b"];
    let families: Vec<&Family> = families.iter().collect();
    let mut iter = db
        .coalescing_iterator(&families, &ReadOptions::default())
        .unwrap();
    // Concurrent writes are not visible.
    families[1].put(b"k050", b"later").unwrap();
    assert!(!iter.valid() && iter.key().is_empty() && iter.value().is_empty());

    iter.seek_to_first();
    for (key, of_key) in &expected {
        check(&iter, key, of_key, &names);
        iter.next();
    }
    assert!(!iter.valid());
    iter.next();
    assert!(!iter.valid());
    iter.seek_to_last();
    for (key, of_key) in expected.iter().rev() {
        check(&iter, key, of_key, &names);
        iter.prev();
    }
    assert!(!iter.valid());

    for n in 0..121 {
        let target = format!("k{n:03}").into_bytes();
        let mut up = expected.range(target.clone()..);
        iter.seek(&target);
        let first = up.next();
        assert_eq!(iter.valid(), first.is_some());
        if let Some((key, of_key)) = first {
            check(&iter, key, of_key, &names);
            // Forwards and backwards.
            iter.prev();
            let before = expected.range(..key.clone()).next_back();
            assert_eq!(iter.valid(), before.is_some());
            if let Some((before, of_key)) = before {
                check(&iter, before, of_key, &names);
                iter.next();
                assert_eq!(iter.key(), key);
            }
        }
        iter.seek_for_prev(&target);
        let last = expected.range(..=target).next_back();
        assert_eq!(iter.valid(), last.is_some());
        if let Some((key, of_key)) = last {
            check(&iter, key, of_key, &names);
        }
    }
    iter.status().unwrap();
}

#[test]
fn bounds_snapshots_and_unprepared_values_hold_for_all_families() {
    let (db, families) = three();
    let blobs = FamilyOptions {
        enable_blob_files: true,
        ..small()
    };
    let large = db.create_family("large", &blobs).unwrap();
    for (family, value) in [(&families[0], b"0"), (&families[1], b"1"), (&large, b"2")] {
        for key in [b"a", b"b", b"c"] {
            family.put(key, value).unwrap();
        }
    }
    large.flush().unwrap();
    let snapshot = db.snapshot();
    large.put(b"b", b"3").unwrap();
    families[0].put(b"bb", b"3").unwrap();
    let options = ReadOptions {
        snapshot: Some(snapshot.sequence()),
        iterate_lower_bound: Some(b"b".to_vec()),
        iterate_upper_bound: Some(b"c".to_vec()),
        allow_unprepared_value: true,
        ..ReadOptions::default()
    };
    let all = [&families[0], &large, &families[1]];
    let mut iter = db.coalescing_iterator(&all, &options).unwrap();
    iter.seek_to_first();
    assert!(iter.prepare_value());
    assert_eq!((iter.key(), &iter.value()[..]), (&b"b"[..], &b"1"[..]));
    let groups = iter.attribute_groups();
    assert_eq!(pairs(&groups[1].1), [(Vec::new(), b"2".to_vec())]);
    drop(groups);
    iter.next();
    assert!(!iter.valid() && !iter.prepare_value());
    iter.status().unwrap();
}

#[test]
fn incompatible_families_are_rejected() {
    let (db, families) = three();
    let backwards = FamilyOptions {
        comparator: KeyOrder::ReverseBytewise,
        ..small()
    };
    let odd = db.create_family("odd", &backwards).unwrap();
    let (stranger, _) = three();
    let stranger = stranger.default_family();
    let options = ReadOptions::default();
    for list in [&[][..], &[&families[0], &odd], &[&families[0], stranger]] {
        let refused = db.coalescing_iterator(list, &options).err().unwrap();
        assert_eq!(refused.code(), Code::InvalidArgument);
    }
    // Reverse order is valid as well.
    odd.put(b"a", b"1").unwrap();
    odd.put(b"b", b"2").unwrap();
    let mut iter = db.coalescing_iterator(&[&odd], &options).unwrap();
    iter.seek_to_first();
    assert_eq!(iter.key(), b"b");
    iter.next();
    assert_eq!(iter.key(), b"a");
}
