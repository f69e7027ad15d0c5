//! Round trips of CuckooTables, and rejection of damaged properties.

use super::*;
use proptest::prelude::*;

fn options(use_module: bool, block_size: u32) -> CuckooOptions {
    CuckooOptions {
        hash: CuckooHash {
            identity_first: false,
            use_module,
        },
        hash_table_ratio: 0.9,
        max_search_depth: 100,
        block_size,
    }
}

fn internal(user: &[u8], seq: u64, kind: ValueKind) -> Vec<u8> {
    let mut out = Vec::new();
    key::append_internal(&mut out, user, SequenceNumber(seq), kind);
    out
}

/// The file of the entries and its layout, from its properties.
fn built(builder: &CuckooBuilder) -> (Vec<u8>, CuckooLayout) {
    let (layout, buckets) = builder.place().unwrap();
    let mut file = Vec::new();
    for entry in buckets {
        builder.bucket(&layout, entry, &mut file);
    }
    let mut properties = Properties {
        num_entries: layout.entries,
        ..Properties::default()
    };
    layout.describe(&mut properties);
    let again = CuckooLayout::of(&properties, file.len() as u64).unwrap();
    assert_eq!(again, layout);
    (file, layout)
}

fn entries(file: &[u8], layout: &CuckooLayout) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    let visited = layout.visit(file, |_, key, value| {
        found.push((key.to_vec(), value.to_vec()));
        Ok(())
    });
    visited.unwrap();
    found.sort();
    found
}

#[test]
fn murmur_hashes_are_those_of_the_reference() {
    assert_eq!(murmur64(b"", 0), 0);
    // Computed with the published MurmurHash64A.
    assert_eq!(murmur64(b"hello", 0), 0x1e68_d17c_457b_f117);
    assert_eq!(murmur64(b"hello world", SEED), 0x8f86_eff2_7726_b085);
}

#[test]
fn keys_with_sequence_numbers_are_stored_whole() {
    let mut builder = CuckooBuilder::new(options(true, 2));
    let rows = [
        (internal(b"k1", 5, ValueKind::Value), b"v1".to_vec()),
        (internal(b"k2", 0, ValueKind::Value), b"v2".to_vec()),
    ];
    for (key, value) in &rows {
        builder.add(key, value, false).unwrap();
    }
    let gone = internal(b"k3", 9, ValueKind::Deletion);
    builder.add(&gone, b"", true).unwrap();
    let (file, layout) = built(&builder);
    assert!(!layout.is_last_level);
    let mut expected = rows.to_vec();
    expected.push((gone, Vec::new()));
    assert_eq!(entries(&file, &layout), expected);
}

#[test]
fn entries_of_another_size_are_rejected() {
    let mut builder = CuckooBuilder::new(options(true, 5));
    let key = |user: &[u8]| internal(user, 0, ValueKind::Value);
    builder.add(&key(b"k1"), b"v1", false).unwrap();
    let add = |builder: &mut CuckooBuilder, user: &[u8], value: &[u8]| {
        builder.add(&key(user), value, false)
    };
    assert_eq!(add(&mut builder, b"k", b"v1"), Err(Unhashable::KeyLength));
    assert_eq!(add(&mut builder, b"k2", b"v"), Err(Unhashable::ValueLength));
    builder
        .add(&internal(b"k1", 3, ValueKind::Value), b"v0", false)
        .unwrap();
    assert_eq!(builder.place().unwrap_err(), Unhashable::SameKey);
}

#[test]
fn without_an_unused_key_there_is_no_table() {
    let mut builder = CuckooBuilder::new(options(false, 5));
    for byte in 0..=255 {
        builder
            .add(&internal(&[byte], 0, ValueKind::Value), b"", false)
            .unwrap();
    }
    assert_eq!(builder.place().unwrap_err(), Unhashable::NoUnusedKey);
}

#[test]
fn a_table_without_entries_has_no_buckets() {
    let builder = CuckooBuilder::new(options(false, 5));
    let (file, layout) = built(&builder);
    assert!(file.is_empty() && entries(&file, &layout).is_empty());
    assert_eq!(layout.find(&file, b"k"), Ok(None));
}

proptest! {
    #[test]
    fn every_entry_is_found(
        users in prop::collection::btree_set(prop::array::uniform3(any::<u8>()), 1..300),
        seq in prop_oneof![Just(0u64), Just(7)],
        use_module: bool,
        identity_first: bool,
        block_size in 1u32..6,
        max_search_depth in prop_oneof![Just(0u32), Just(2), Just(100)],
    ) {
        let mut options = options(use_module, block_size);
        options.hash.identity_first = identity_first;
        options.max_search_depth = max_search_depth;
        let mut builder = CuckooBuilder::new(options);
        let mut expected = Vec::new();
        for user in &users {
            let key = internal(user, seq, ValueKind::Value);
            builder.add(&key, &user[..2], false).unwrap();
            expected.push((key, user[..2].to_vec()));
        }
        let Ok(_) = builder.place() else {
            // A module hash with a full table may need more than 64 hash functions.
            return Ok(());
        };
        let (file, layout) = built(&builder);
        prop_assert_eq!(layout.is_last_level, seq == 0);
        prop_assert_eq!(entries(&file, &layout), expected);
        for user in &users {
            let at = layout.find(&file, user).unwrap();
            prop_assert_eq!(&file[at.unwrap()..][..3], &user[..]);
        }
    }

    #[test]
    fn damaged_properties_never_panic(name in 0usize..9, bytes in prop::collection::vec(any::<u8>(), 0..9), entries in 0u64..20) {
        let mut builder = CuckooBuilder::new(options(true, 2));
        for user in 0..10u8 {
            builder.add(&internal(&[user], 1, ValueKind::Value), b"v", false).unwrap();
        }
        let (file, layout) = built(&builder);
        let mut properties = Properties { num_entries: entries, ..Properties::default() };
        layout.describe(&mut properties);
        let name = properties.others.keys().nth(name).unwrap().clone();
        properties.others.insert(name, bytes);
        if let Ok(layout) = CuckooLayout::of(&properties, file.len() as u64) {
            let _ = layout.visit(&file, |_, _, _| Ok(()));
            let _ = layout.find(&file, b"\x03");
        }
    }
}
