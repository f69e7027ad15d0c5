//! Memtables with Bloom filters, and with the names of RocksDB's other representations.

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
    let db =
        open_at(&World::in_memory(), &[]).expect("a database can be created in an empty world");
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
fn a_prefix_in_no_memtable_is_skipped_unless_total_order_is_requested() {
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
        "the filter was not used"
    );
    assert_eq!(seek(&family, &total, b"bb0").as_deref(), Some(&b"c"[..]));
    // Outside of the domain the order is total.
    assert_eq!(seek(&family, &plain, b"b").as_deref(), Some(&b"c"[..]));
}

#[test]
fn a_memtable_keeps_its_prefix_extractor() {
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
fn every_representation_of_rocksdb_is_accepted_and_kept() {
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

/// The newest flushed memtables are kept in memory up to the configured size, and are not read.
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

/// Returns the number of level-0 files after `scan` iterated over a memtable with the hidden entries left by
/// `fill`, and two more writes.
fn files_after(triggers: (u32, u32), fill: fn(&Family), scan: fn(&Family)) -> Option<String> {
    let options = FamilyOptions {
        memtable_op_scan_flush_trigger: triggers.0,
        memtable_avg_op_scan_flush_trigger: triggers.1,
        disable_auto_compactions: true,
        ..small()
    };
    let (db, family) = family_of(&options);
    fill(&family);
    scan(&family);
    // The first write notices the mark, the second makes room.
    family.put(b"y", b"").expect("a write");
    family.put(b"z", b"").expect("a write");
    db.wait_until_quiet().expect("no job fails");
    family.property("rocksdb.num-files-at-level0")
}

fn walk(family: &Family) {
    let mut iter = family.iter();
    iter.seek_to_first();
    while iter.valid() {
        iter.next();
    }
    iter.status().expect("the scan returns no error");
}

#[test]
fn scans_over_hidden_entries_cause_a_flush() {
    let deleted = |family: &Family| {
        for n in 0..20_u8 {
            family.put(&[n], b"1").unwrap();
            family.delete(&[n]).unwrap();
        }
    };
    let one = Some("1".to_owned());
    let none = Some("0".to_owned());
    assert_eq!(files_after((40, 0), deleted, walk), one);
    assert_eq!(files_after((41, 0), deleted, walk), none);
    assert_eq!(files_after((0, 1), deleted, walk), none);
    // Each seek is counted separately, and only entries skipped forward count.
    let steps = |family: &Family| {
        let mut iter = family.iter();
        iter.seek(&[10]);
        iter.seek(&[5]);
        iter.seek_to_last();
    };
    assert_eq!(files_after((31, 0), deleted, steps), none);
    assert_eq!(files_after((30, 0), deleted, steps), one);
    // Such files are compacted automatically if they have many deletions; memtables are not.
    let in_files = |family: &Family| {
        for n in 0..20_u8 {
            family.put(&[n], b"1").unwrap();
            family.delete(&[n]).unwrap();
        }
        family.flush().unwrap();
        family.put(b"x", b"").unwrap();
    };
    assert_eq!(files_after((5, 0), in_files, walk), one);
}

#[test]
fn a_scan_that_skips_many_entries_on_average_causes_a_flush() {
    // Four hidden versions of each key.
    let overwritten = |family: &Family| {
        for n in 0..50_u8 {
            family.put(&[n % 10], &[n]).unwrap();
        }
    };
    let one = Some("1".to_owned());
    let none = Some("0".to_owned());
    assert_eq!(files_after((5, 0), overwritten, walk), none);
    assert_eq!(files_after((5, 3), overwritten, walk), one);
    assert_eq!(files_after((5, 4), overwritten, walk), none);
    assert_eq!(files_after((41, 3), overwritten, walk), none);
}

#[test]
fn scan_triggers_change_while_the_database_is_open() {
    let (db, family) = family_of(&FamilyOptions {
        disable_auto_compactions: true,
        ..small()
    });
    let fill = || {
        for n in 0..20_u8 {
            family.put(&[n], b"1").unwrap();
            family.delete(&[n]).unwrap();
        }
        walk(&family);
        family.put(b"y", b"").unwrap();
        family.put(b"z", b"").unwrap();
        db.wait_until_quiet().unwrap();
        family.property("rocksdb.num-files-at-level0")
    };
    assert_eq!(fill().as_deref(), Some("0"));
    family
        .set_options(&[("memtable_op_scan_flush_trigger", "10")])
        .unwrap();
    assert_eq!(fill().as_deref(), Some("1"));
}
