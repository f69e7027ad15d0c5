//! Iterators: renewal, several at once, prefixes; also estimates and verification.

#![expect(clippy::unwrap_used, reason = "an absent value fails the test")]

use cairn_db::{Db, MayExist, OpenRequest, Range, SizeApproximationOptions};
use cairn_options::{
    BottommostLevelCompaction, CompactRangeOptions, CompactionOptions, Compression, FamilyOptions,
    FilterPolicy, Options as _, ReadOptions, TableFilter, WaitForCompactOptions,
};
use cairn_platform::World;
use cairn_types::{Code, KeyOrder, PrefixExtractor};

use crate::basic::{db_options, open_at, small};

fn keys(iter: &mut cairn_db::Iter) -> Vec<String> {
    let mut found = Vec::new();
    while iter.valid() {
        found.push(String::from_utf8(iter.key().to_vec()).unwrap());
        iter.next();
    }
    iter.status().unwrap();
    found
}

#[test]
fn a_tailing_iterator_returns_writes_before_each_seek() {
    let db = open_at(&World::in_memory(), &[]).unwrap();
    let options = ReadOptions {
        tailing: true,
        ..ReadOptions::default()
    };
    let mut iter = db.iter_with(&options);
    iter.seek_to_first();
    assert!(!iter.valid());
    for n in 0..50 {
        db.put(format!("{n:03}").as_bytes(), b"v").unwrap();
        if n % 10 == 9 {
            db.flush().unwrap();
        }
        iter.seek(format!("{n:03}").as_bytes());
        assert!(iter.valid(), "entry {n}");
        iter.next();
        assert!(!iter.valid());
    }
    iter.seek_to_last();
    assert_eq!(iter.status().unwrap_err().code(), Code::NotSupported);
    iter.seek_to_first();
    assert_eq!(keys(&mut iter).len(), 50);
}

#[test]
fn a_tailing_iterator_of_a_read_only_database_also_moves_backward() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    db.put(b"a", b"1").unwrap();
    db.put(b"b", b"1").unwrap();
    db.close().unwrap();
    drop(db);
    let db = cairn_db::open(&OpenRequest {
        path: "/db".as_ref(),
        options: &db_options(),
        families: &[],
        others: Some(&small()),
        read_only: true,
        world,
    });
    let options = ReadOptions {
        tailing: true,
        ..ReadOptions::default()
    };
    let mut iter = db.unwrap().iter_with(&options);
    iter.seek_to_last();
    assert!(iter.valid() && iter.key() == b"b");
    iter.prev();
    assert_eq!(keys(&mut iter), ["a", "b"]);
}

#[test]
fn an_iterator_is_refreshed_to_the_current_state_and_to_a_snapshot() {
    let db = open_at(&World::in_memory(), &[]).unwrap();
    db.put(b"a", b"1").unwrap();
    let snapshot = db.snapshot();
    let mut iter = db.iter();
    db.put(b"b", b"1").unwrap();
    db.flush().unwrap();
    iter.seek_to_first();
    assert_eq!(keys(&mut iter), ["a"]);
    let before = iter
        .property("rocksdb.iterator.super-version-number")
        .unwrap();
    iter.refresh().unwrap();
    assert!(!iter.valid());
    iter.seek_to_first();
    assert_ne!(
        iter.property("rocksdb.iterator.super-version-number")
            .unwrap(),
        before
    );
    assert_eq!(iter.property("rocksdb.iterator.internal-key").unwrap(), "a");
    assert_eq!(keys(&mut iter), ["a", "b"]);
    iter.refresh_to(&snapshot).unwrap();
    iter.seek_to_first();
    assert_eq!(keys(&mut iter), ["a"]);
    assert_eq!(
        iter.property("nothing").unwrap_err().code(),
        Code::InvalidArgument
    );
}

#[test]
fn an_iterator_of_a_snapshot_renews_its_view_in_place() {
    let db = open_at(&World::in_memory(), &[]).unwrap();
    for n in 0..100 {
        db.put(format!("{n:03}").as_bytes(), b"old").unwrap();
    }
    let snapshot = db.snapshot();
    let mut iter = db.iter_with(&ReadOptions {
        snapshot: Some(snapshot.sequence()),
        auto_refresh_iterator_with_snapshot: true,
        ..ReadOptions::default()
    });
    iter.seek_to_first();
    let mut seen = Vec::new();
    while iter.valid() {
        assert_eq!(iter.value(), b"old");
        seen.push(iter.key().to_vec());
        if seen.len() % 20 == 10 {
            for n in 0..150 {
                db.put(format!("{n:03}").as_bytes(), b"new").unwrap();
            }
            db.flush().unwrap();
            // A compaction that ends later would create a view for which the iterator has no step left.
            db.wait_for_compact(&WaitForCompactOptions::default())
                .unwrap();
        }
        iter.next();
    }
    iter.status().unwrap();
    assert_eq!(seen.len(), 100);
    assert_eq!(iter.view().number, db.iter().view().number);
    iter.seek_to_last();
    db.put(b"x", b"new").unwrap();
    db.flush().unwrap();
    iter.prev();
    assert_eq!(iter.key(), b"098");
}

#[test]
fn iterators_over_several_families_have_one_sequence_number() {
    let db = open_at(&World::in_memory(), &[]).unwrap();
    let other = db.create_family("other", &small()).unwrap();
    let mut batch = cairn_db::WriteBatch::new();
    batch.put(b"k", b"1");
    batch.put_in(&other, b"k", b"1");
    db.write(&batch).unwrap();
    let families = [db.default_family(), &other];
    let mut iters = db.iterators(&families, &ReadOptions::default()).unwrap();
    db.put(b"later", b"1").unwrap();
    assert_eq!(iters[0].seq(), iters[1].seq());
    for iter in &mut iters {
        iter.seek_to_first();
        assert_eq!(keys(iter), ["k"]);
    }
    let elsewhere = open_at(&World::in_memory(), &[]).unwrap();
    let refused = elsewhere.iterators(&families, &ReadOptions::default());
    assert_eq!(refused.err().unwrap().code(), Code::InvalidArgument);
}

#[test]
fn iterators_of_several_families_have_read_options_each() {
    let db = open_at(&World::in_memory(), &[]).unwrap();
    let other = db.create_family("other", &small()).unwrap();
    for family in [db.default_family(), &other] {
        for key in ["a", "b", "c"] {
            family.put(key.as_bytes(), b"1").unwrap();
        }
    }
    let before = db.snapshot();
    db.put(b"d", b"1").unwrap();
    other.put(b"d", b"1").unwrap();
    let options = ReadOptions::default();
    let from_b = ReadOptions {
        iterate_lower_bound: Some(b"b".to_vec()),
        ..ReadOptions::default()
    };
    let below_c = ReadOptions {
        iterate_upper_bound: Some(b"c".to_vec()),
        ..ReadOptions::default()
    };
    let walk = |first: &ReadOptions, second: &ReadOptions| -> Vec<Vec<String>> {
        let both = [(db.default_family(), first), (&other, second)];
        let mut iters = db.iterators_with(&both).unwrap();
        assert_eq!(iters[0].seq(), iters[1].seq());
        let walk = iters.iter_mut().map(|iter| {
            iter.seek_to_first();
            keys(iter)
        });
        walk.collect()
    };
    assert_eq!(
        walk(&from_b, &below_c),
        [vec!["b", "c", "d"], vec!["a", "b"]]
    );
    let at = |options: &ReadOptions| ReadOptions {
        snapshot: Some(before.sequence()),
        ..options.clone()
    };
    assert_eq!(
        walk(&at(&from_b), &at(&options)),
        [vec!["b", "c"], vec!["a", "b", "c"]]
    );
    assert!(db.iterators_with(&[]).unwrap().is_empty());
    let tailing = ReadOptions {
        tailing: true,
        ..ReadOptions::default()
    };
    for (second, name) in [(&at(&options), "snapshot"), (&tailing, "tailing")] {
        let both = [(db.default_family(), &options), (&other, second)];
        let refused = db.iterators_with(&both).err().unwrap();
        assert_eq!(refused.code(), Code::InvalidArgument);
        let text = refused.to_string();
        assert!(text.contains(name) && text.contains("other"), "{text}");
    }
    assert_eq!(walk(&tailing, &tailing), [["a", "b", "c", "d"]; 2]);
}

/// Creates a database whose tables have prefix filters, with a table for each first letter of the keys of the
/// default family.
fn by_prefixes() -> Db {
    let db = open_at(&World::in_memory(), &[]).unwrap();
    let mut options = FamilyOptions {
        prefix_extractor: Some(PrefixExtractor::Fixed(1)),
        disable_auto_compactions: true,
        ..small()
    };
    options.table.filter_policy = FilterPolicy::from_text("bloomfilter:10:false");
    let family = db.create_family("prefixes", &options).unwrap();
    for letter in 'a'..'h' {
        for n in 0..20 {
            family
                .put(format!("{letter}{n:02}").as_bytes(), b"v")
                .unwrap();
        }
        // The bounds of the table include all prefixes.
        family.put(format!("A{letter}").as_bytes(), b"v").unwrap();
        family.put(format!("z{letter}").as_bytes(), b"v").unwrap();
        family.flush().unwrap();
    }
    db
}

#[test]
fn prefixes_filter_tables_unless_total_order_is_requested() {
    let db = by_prefixes();
    let family = db.family("prefixes").unwrap();
    let all = |options: &ReadOptions, from: &[u8]| {
        let mut iter = family.iter_with(options);
        iter.seek(from);
        keys(&mut iter)
    };
    let total = ReadOptions {
        total_order_seek: true,
        ..ReadOptions::default()
    };
    assert_eq!(all(&total, b"c05").len(), 15 + 20 * 4 + 7);
    // As in RocksDB: within the prefix all keys are returned, after it keys of some tables may be missing.
    let plain = all(&ReadOptions::default(), b"c05");
    assert_eq!(plain[..15], all(&total, b"c05")[..15]);
    assert!(plain.len() < 15 + 20 * 4 + 7, "filters leave tables out");
    let same = ReadOptions {
        prefix_same_as_start: true,
        ..ReadOptions::default()
    };
    assert_eq!(all(&same, b"c05").len(), 15);
    for (upper, count) in [("c10", 5), ("d", 15), ("e", 35), ("zz", 15 + 20 * 4 + 7)] {
        let auto = ReadOptions {
            auto_prefix_mode: true,
            iterate_upper_bound: Some(upper.as_bytes().to_vec()),
            ..ReadOptions::default()
        };
        assert_eq!(all(&auto, b"c05").len(), count, "up to {upper}");
        let mut iter = family.iter_with(&auto);
        iter.seek(b"c00");
        iter.prev();
        assert_eq!(iter.key(), b"b19");
    }
    let mut whole = family.iter();
    whole.seek_to_first();
    assert_eq!(keys(&mut whole).len(), 7 * 22);
}

/// Regression: with an upper bound that is the successor of the prefix by a carry, keys shorter than prefixes were left out,
/// and a converted run of deletions could delete them.
#[test]
fn keys_shorter_than_prefixes_are_within_the_bound_in_auto_prefix_mode() {
    let db = open_at(&World::in_memory(), &[]).unwrap();
    let options = FamilyOptions::from_text(
        "prefix_extractor=fixed:3;disable_auto_compactions=true;\
         block_based_table_factory={filter_policy=bloomfilter:10:false;whole_key_filtering=false}",
    )
    .unwrap();
    let family = db.create_family("prefixes", &options).unwrap();
    for key in ["aaa1", "b", "ccc1"] {
        family.put(key.as_bytes(), b"live").unwrap();
    }
    family.flush().unwrap();
    let auto = ReadOptions {
        auto_prefix_mode: true,
        iterate_upper_bound: Some(b"b\0\0".to_vec()),
        ..ReadOptions::default()
    };
    let mut iter = family.iter_with(&auto);
    iter.seek(b"a\xff\xff00");
    assert!(iter.valid() && iter.key() == b"b");
}

#[test]
fn a_level_returns_all_keys_of_a_prefix_across_file_boundaries() {
    let db = open_at(&World::in_memory(), &[]).unwrap();
    let mut options = FamilyOptions {
        prefix_extractor: Some(PrefixExtractor::Fixed(1)),
        disable_auto_compactions: true,
        target_file_size_base: 1 << 10,
        compression: Compression::None,
        ..small()
    };
    options.table.filter_policy = FilterPolicy::from_text("bloomfilter:10:false");
    options.table.block_size = 256;
    let family = db.create_family("prefixes", &options).unwrap();
    let mut all = Vec::new();
    // Prefixes that span many files or a part of one; every other prefix is missing.
    for (letter, count) in [
        ('b', 3),
        ('d', 70),
        ('f', 1),
        ('h', 40),
        ('j', 2),
        ('l', 90),
    ] {
        all.extend((0..count).map(|n| format!("{letter}{n:03}")));
    }
    for key in &all {
        let value = key.repeat(12);
        family.put(key.as_bytes(), value.as_bytes()).unwrap();
    }
    family.flush().unwrap();
    let rewrite = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    family.compact_range(None, None, &rewrite).unwrap();
    assert!(
        db.live_files_metadata().len() > 8,
        "the level has many files"
    );
    for same in [false, true] {
        let options = ReadOptions {
            prefix_same_as_start: same,
            ..ReadOptions::default()
        };
        let mut iter = family.iter_with(&options);
        for letter in 'a'..'n' {
            for n in 0..100 {
                let target = format!("{letter}{n:03}");
                iter.seek(target.as_bytes());
                let mut found = Vec::new();
                while iter.valid() && iter.key()[0] == letter as u8 {
                    found.push(String::from_utf8(iter.key().to_vec()).unwrap());
                    iter.next();
                }
                iter.status().unwrap();
                let expected = all.iter().filter(|key| key.starts_with(letter));
                let expected: Vec<_> = expected.filter(|key| **key >= target).cloned().collect();
                assert_eq!(found, expected, "from {target}");
            }
        }
    }
}

#[test]
fn a_table_filter_selects_the_tables_of_an_iterator() {
    let db = by_prefixes();
    let family = db.family("prefixes").unwrap();
    let options = ReadOptions {
        total_order_seek: true,
        table_filter: TableFilter::new(|properties| properties.num_entries == 0),
        ..ReadOptions::default()
    };
    let mut iter = family.iter_with(&options);
    iter.seek_to_first();
    assert!(keys(&mut iter).is_empty());
}

/// A table filter excludes entries, but never the range tombstones of a table: keys that they delete stay deleted.
#[test]
fn a_table_filter_excludes_no_range_tombstones() {
    let db = open_at(&World::in_memory(), &[]).unwrap();
    for key in ["a", "b", "c", "d", "e", "f"] {
        db.put(key.as_bytes(), b"v").unwrap();
    }
    db.flush().unwrap();
    let move_newest = |level| {
        let files = db.live_files_metadata();
        let newest = files.iter().max_by_key(|file| file.file_number).unwrap();
        db.compact_files(
            &CompactionOptions::default(),
            &[&newest.relative_filename],
            level,
            None,
        )
        .unwrap();
    };
    move_newest(2);
    db.delete_range(b"b", b"e").unwrap();
    db.flush().unwrap();
    let options = ReadOptions {
        table_filter: TableFilter::new(|properties| properties.num_range_deletions == 0),
        ..ReadOptions::default()
    };
    for level in [0, 1] {
        if level == 1 {
            move_newest(1);
        }
        let mut iter = db.iter_with(&options);
        iter.seek_to_first();
        assert_eq!(keys(&mut iter), ["a", "e", "f"], "level {level}");
        iter.seek(b"c");
        assert_eq!(keys(&mut iter), ["e", "f"], "level {level}");
        iter.seek_for_prev(b"d");
        assert_eq!(iter.key(), b"a", "level {level}");
        iter.seek_to_last();
        iter.prev();
        iter.prev();
        assert_eq!(iter.key(), b"a", "level {level}");
    }
}

#[test]
fn values_in_blob_files_are_read_when_they_are_prepared() {
    let db = open_at(&World::in_memory(), &[]).unwrap();
    let options = FamilyOptions {
        enable_blob_files: true,
        ..small()
    };
    let family = db.create_family("blobs", &options).unwrap();
    for n in 0..10 {
        family.put(&[n], &[n; 100]).unwrap();
    }
    family.flush().unwrap();
    let mut iter = family.iter_with(&ReadOptions {
        allow_unprepared_value: true,
        ..ReadOptions::default()
    });
    iter.seek(&[3]);
    assert_eq!((iter.key(), iter.value()), (&[3][..], &[][..]));
    assert!(iter.prepare_value());
    assert_eq!(iter.value(), [3; 100]);
    iter.next();
    iter.next();
    assert_eq!(iter.key(), [5]);
    iter.prev();
    assert!(iter.prepare_value());
    assert_eq!((iter.key(), iter.value()), (&[4][..], &[4; 100][..]));
}

#[test]
fn sizes_of_ranges_are_additive() {
    let db = open_at(&World::in_memory(), &[]).unwrap();
    for n in 0..3000_u32 {
        db.put(format!("{n:05}").as_bytes(), &n.to_le_bytes().repeat(25))
            .unwrap();
    }
    db.flush().unwrap();
    db.wait_until_quiet().unwrap();
    let options = SizeApproximationOptions::default();
    let size = |begin: &str, end: &str, options: &SizeApproximationOptions| {
        let range = Range::new(begin.as_bytes(), end.as_bytes());
        db.approximate_sizes(&[range], options).unwrap()[0]
    };
    let whole = size("", "9", &options);
    let files = db.property_number("rocksdb.live-sst-files-size").unwrap();
    assert_eq!(whole, files);
    let half = size("00000", "01500", &options);
    let near = |found: u64, wanted: u64| found.abs_diff(wanted) < whole / 8;
    assert!(near(half, whole / 2), "{half} of {whole}");
    assert!(near(half + size("01500", "03000", &options), whole));
    assert_eq!(size("5", "6", &options), 0);
    assert_eq!(size("02000", "01000", &options), 0);
    let rough = SizeApproximationOptions {
        files_size_error_margin: 2.0,
        ..options
    };
    assert!(size("00000", "01500", &rough) <= whole);
    let memory = SizeApproximationOptions {
        include_memtables: true,
        include_files: false,
        ..options
    };
    assert_eq!(size("", "9", &memory), 0);
    db.put(b"02500", &[1; 500]).unwrap();
    assert_eq!(size("", "9", &memory), 5 + 8 + 500);
    assert_eq!(db.approximate_memtable_stats(&Range::new(b"", b"9")).0, 1);
    let nothing = SizeApproximationOptions {
        include_files: false,
        ..options
    };
    let refused = db.approximate_sizes(&[], &nothing).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
}

#[test]
fn a_key_may_exist_if_memory_does_not_decide() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    db.put(b"k", b"value").unwrap();
    let options = ReadOptions::default();
    assert!(
        matches!(db.key_may_exist(b"k", &options), MayExist::Yes(value) if *value == *b"value")
    );
    assert!(matches!(db.key_may_exist(b"other", &options), MayExist::No));
    db.flush().unwrap();
    db.close().unwrap();
    drop(db);
    let db = open_at(&world, &[]).unwrap();
    assert!(matches!(
        db.key_may_exist(b"k", &options),
        MayExist::Perhaps
    ));
    assert!(db.get(b"k").unwrap().is_some());
    assert!(matches!(db.key_may_exist(b"k", &options), MayExist::Yes(_)));
    let mut buffer = [0; 3];
    assert_eq!(db.get_into(b"k", &mut buffer, &options).unwrap(), Some(5));
    assert_eq!(&buffer, b"val");
    db.verify_checksum(&options).unwrap();
}

#[test]
fn damage_is_found_by_a_full_verification() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    for n in 0..2000_u32 {
        db.put(&n.to_be_bytes(), &[n as u8; 20]).unwrap();
    }
    db.flush().unwrap();
    db.verify_checksum(&ReadOptions::default()).unwrap();
    let late = ReadOptions {
        deadline: 1,
        ..ReadOptions::default()
    };
    assert_eq!(
        db.verify_checksum(&late).unwrap_err().code(),
        Code::TimedOut
    );
    let fs = &world.fs;
    let dir = std::path::Path::new("/db");
    let table = fs
        .list(dir)
        .unwrap()
        .into_iter()
        .find(|name| name.ends_with(".sst"))
        .unwrap();
    let path = dir.join(table);
    let mode = cairn_platform::fs::FileMode::default();
    let file = fs.open(&path, mode).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes[1000] ^= 1;
    db.close().unwrap();
    drop(db);
    fs.remove(&path).unwrap();
    fs.create(&path, mode).unwrap().append(&bytes).unwrap();
    let db = open_at(&world, &[]).unwrap();
    assert!(
        db.verify_checksum(&ReadOptions::default())
            .unwrap_err()
            .is_corruption()
    );
}

#[test]
fn a_new_database_uses_the_comparator_of_the_options_for_all_families() {
    let world = World::in_memory();
    let reverse = FamilyOptions {
        comparator: KeyOrder::ReverseBytewise,
        ..small()
    };
    let open_reverse = || {
        cairn_db::open(&OpenRequest {
            path: std::path::Path::new("/db"),
            options: &db_options(),
            families: &[],
            others: Some(&reverse),
            read_only: false,
            world: world.clone(),
        })
        .unwrap()
    };
    let db = open_reverse();
    db.put(b"a", b"1").unwrap();
    db.put(b"b", b"1").unwrap();
    db.close().unwrap();
    drop(db);
    let mut iter = open_reverse().iter();
    iter.seek_to_first();
    assert_eq!(keys(&mut iter), ["b", "a"]);
}
