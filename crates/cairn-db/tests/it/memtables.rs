//! Memtables with Bloom filters, and by the names of RocksDB's other structures.

use std::path::Path;

use cairn_db::{Db, Family, FamilyDescriptor, load_latest_options};
use cairn_options::{FamilyOptions, MemtableFactory, Options, ReadOptions};
use cairn_platform::World;
use cairn_types::PrefixExtractor;

use crate::basic::{open_at, small};

fn filtered(whole_keys: bool, prefix: Option<usize>) -> FamilyOptions {
    FamilyOptions {
        memtable_prefix_bloom_size_ratio: 0.1,
        memtable_whole_key_filtering: whole_keys,
        prefix_extractor: prefix.map(PrefixExtractor::Fixed),
        disable_auto_compactions: true,
        ..small()
    }
}

fn family_of(options: &FamilyOptions) -> (Db, Family) {
    let db = open_at(&World::in_memory(), &[]).expect("an empty world can be opened");
    let family = db
        .create_family("filtered", options)
        .expect("there is no such family yet");
    (db, family)
}

fn seek(family: &Family, options: &ReadOptions, target: &[u8]) -> Option<Vec<u8>> {
    let mut iter = family.iter_with(options);
    iter.seek(target);
    iter.valid().then(|| iter.key().to_vec())
}

#[test]
fn lookups_are_the_same_with_every_filter() {
    for (whole_keys, prefix) in [(true, None), (false, Some(3)), (true, Some(3))] {
        let (_db, family) = family_of(&filtered(whole_keys, prefix));
        let keys: Vec<_> = (0..600_u32).map(|n| format!("{:05x}", n * 7)).collect();
        for key in &keys {
            family.put(key.as_bytes(), key.as_bytes()).unwrap();
        }
        family.delete(keys[5].as_bytes()).unwrap();
        family
            .delete_range(keys[20].as_bytes(), keys[21].as_bytes())
            .unwrap();
        for (n, key) in keys.iter().enumerate() {
            let found = family.get(key.as_bytes()).unwrap();
            let gone = n == 5 || (20..21).contains(&n);
            assert_eq!(found.is_none(), gone, "{key}");
            let absent = format!("{key}/");
            assert!(family.get(absent.as_bytes()).unwrap().is_none());
        }
    }
}

#[test]
fn a_prefix_that_no_memtable_knows_is_passed_over_unless_total_order_is_asked_for() {
    let (_db, family) = family_of(&filtered(false, Some(2)));
    for key in [&b"aa1"[..], b"cc1", b"c"] {
        family.put(key, b"v").unwrap();
    }
    let (plain, total) = (
        ReadOptions::default(),
        ReadOptions {
            total_order_seek: true,
            ..ReadOptions::default()
        },
    );
    assert_eq!(seek(&family, &plain, b"aa0").as_deref(), Some(&b"aa1"[..]));
    assert_eq!(
        seek(&family, &plain, b"bb0"),
        None,
        "the filter was not asked"
    );
    assert_eq!(seek(&family, &total, b"bb0").as_deref(), Some(&b"c"[..]));
    // Outside of the domain the order is total.
    assert_eq!(seek(&family, &plain, b"b").as_deref(), Some(&b"c"[..]));
}

#[test]
fn a_memtable_keeps_the_prefixes_it_began_with() {
    let (db, family) = family_of(&filtered(false, Some(2)));
    family.put(b"aa1", b"v").unwrap();
    family
        .set_options(&[
            ("prefix_extractor", "fixed:1"),
            ("memtable_whole_key_filtering", "true"),
        ])
        .unwrap();
    family.put(b"ab1", b"v").unwrap();
    for key in [&b"aa1"[..], b"ab1"] {
        assert!(family.get(key).unwrap().is_some());
        assert_eq!(
            seek(&family, &ReadOptions::default(), b"a").as_deref(),
            Some(&b"aa1"[..])
        );
    }
    family.flush().unwrap();
    family.put(b"ba1", b"v").unwrap();
    assert!(family.get(b"ba2").unwrap().is_none());
    assert_eq!(
        seek(&family, &ReadOptions::default(), b"b").as_deref(),
        Some(&b"ba1"[..])
    );
    drop(db);
}

#[test]
fn a_filter_takes_its_share_of_the_memtable() {
    let (db, family) = family_of(&filtered(true, None));
    let bytes = family
        .property_number("rocksdb.cur-size-active-mem-table")
        .unwrap();
    assert!(bytes >= (64 << 10) / 10, "{bytes}");
    drop(db);
}

#[test]
fn every_structure_of_rocksdb_is_accepted_and_kept() {
    for (text, structure) in [
        ("vector", MemtableFactory::Vector),
        ("vector:1024", MemtableFactory::Vector),
        ("prefix_hash:1000", MemtableFactory::HashSkipList),
        ("hash_linkedlist:1000", MemtableFactory::HashLinkList),
        ("VectorRepFactory", MemtableFactory::Vector),
    ] {
        let options = FamilyOptions::from_text(&format!("memtable_factory={text}")).unwrap();
        assert!(options.memtable_factory == structure, "{text}");
        let world = World::in_memory();
        let described = FamilyDescriptor::new("default", options.clone());
        let db = open_at(&world, &[described]).unwrap();
        for key in [b"b", b"a", b"c"] {
            db.put(key, b"v").unwrap();
        }
        let mut iter = db.iter();
        iter.seek_to_first();
        assert_eq!(iter.key(), b"a");
        drop(iter);
        db.flush().unwrap();
        drop(db);
        let kept = load_latest_options(Path::new("/db"), false, &world).unwrap();
        assert!(kept.families[0].1.memtable_factory == structure, "{text}");
    }
}

/// The newest flushed memtables stay in memory up to the size that is asked for, and are not read.
#[test]
fn flushed_memtables_are_kept_as_history() {
    // Six are flushed, of some 35 KiB each.
    for (limit, most) in [("0", 0), ("1", 0), ("150000", 5), ("-1", 5)] {
        let family = FamilyOptions {
            write_buffer_size: 64 << 10,
            arena_block_size: 32 << 10,
            ..FamilyOptions::default()
        };
        let mut family = family;
        family
            .update_from(&format!("max_write_buffer_size_to_maintain={limit}"))
            .unwrap();
        let world = World::in_memory();
        let db = open_at(&world, &[FamilyDescriptor::new("default", family)]).unwrap();
        let number = |name: &str| db.property(name).unwrap().parse::<u64>().unwrap();
        for round in 0..6_u8 {
            for n in 0..100 {
                db.put(&[n], &[round; 300]).unwrap();
            }
            db.flush().unwrap();
            let kept = number("rocksdb.num-immutable-mem-table-flushed");
            assert!(kept <= most, "{limit}: {kept} kept");
            let beside =
                number("rocksdb.size-all-mem-tables") - number("rocksdb.cur-size-all-mem-tables");
            assert_eq!(beside > 0, kept > 0, "{limit}");
            assert_eq!(db.get(&[7]).unwrap().as_deref(), Some(&[round; 300][..]));
        }
        let kept = number("rocksdb.num-immutable-mem-table-flushed");
        assert_eq!(kept > 0, most > 0, "{limit}");
    }
}
