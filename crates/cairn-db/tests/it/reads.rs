//! Kinds of reads: batches of keys, views of several families.

use cairn_db::{FamilyDescriptor, Iter};
use cairn_options::{
    CompactRangeOptions, FamilyOptions, Options as _, ReadOptions, ReadTier, WriteOptions,
};
use cairn_platform::World;
use cairn_types::Code;

use crate::basic::{db_options, open_at, open_with, small};
use crate::best_effort::damage;

#[test]
fn a_batch_reads_several_families_in_the_order_of_its_keys() {
    let world = World::in_memory();
    let stones = FamilyDescriptor::new("stones", small());
    let db = open_at(&world, &[]).unwrap();
    let stones = db.create_family("stones", &stones.options).unwrap();
    for n in 0..2000_u32 {
        db.put(&n.to_be_bytes(), b"default").unwrap();
        stones
            .put(&n.to_be_bytes(), format!("stone {n}").as_bytes())
            .unwrap();
    }
    db.flush_families(&[]).unwrap();
    stones.delete(&7_u32.to_be_bytes()).unwrap();
    let snapshot = db.snapshot();
    stones.put(&8_u32.to_be_bytes(), b"new").unwrap();
    let numbers = [1999_u32, 8, 7, 8, 2000, 0].map(u32::to_be_bytes);
    let default = db.default_family();
    let keys: Vec<_> = numbers
        .iter()
        .enumerate()
        .map(|(at, key)| (if at == 3 { default } else { &stones }, &key[..]))
        .collect();
    let text = |options: &ReadOptions| -> Vec<Option<String>> {
        let found = db.multi_get_in(&keys, options, false).into_iter();
        found
            .map(|value| {
                value
                    .unwrap()
                    .map(|value| String::from_utf8(value.to_vec()).unwrap())
            })
            .collect()
    };
    let some = |text: &str| Some(text.to_owned());
    let newest = text(&ReadOptions::default());
    assert_eq!(
        newest,
        [
            some("stone 1999"),
            some("new"),
            None,
            some("default"),
            None,
            some("stone 0")
        ]
    );
    let before = text(&ReadOptions {
        snapshot: Some(snapshot.sequence()),
        ..ReadOptions::default()
    });
    assert_eq!(before[1], some("stone 8"));
    let columns = stones.multi_get_entity(&numbers, &ReadOptions::default());
    let columns = columns[0].as_ref().unwrap().as_ref().unwrap();
    assert_eq!(columns.get(b""), Some(&b"stone 1999"[..]));
    let other = open_at(&World::in_memory(), &[]).unwrap();
    let refused = other.multi_get_in(&keys[..1], &ReadOptions::default(), false);
    assert_eq!(
        refused[0].as_ref().unwrap_err().code(),
        Code::InvalidArgument
    );
}

#[test]
fn the_persisted_tier_excludes_writes_without_a_log() {
    let db = open_at(&World::in_memory(), &[]).unwrap();
    let persisted = ReadOptions {
        read_tier: ReadTier::Persisted,
        ..ReadOptions::default()
    };
    db.put(b"a", b"1").unwrap();
    assert!(db.get_with(b"a", &persisted).unwrap().is_some());
    let unlogged = WriteOptions {
        disable_wal: true,
        ..WriteOptions::default()
    };
    db.put_with(b"b", b"2", &unlogged).unwrap();
    assert!(db.get_with(b"b", &persisted).unwrap().is_none());
    assert!(
        db.multi_get(&[b"b"], &persisted)[0]
            .as_ref()
            .unwrap()
            .is_none()
    );
    assert!(db.get(b"b").unwrap().is_some());
    db.flush().unwrap();
    assert!(db.get_with(b"b", &persisted).unwrap().is_some());
}

#[test]
fn a_point_read_reports_too_many_merged_operands() {
    let family = FamilyOptions {
        merge_operator: Some(cairn_options::merge_operators::from_text("stringappend").unwrap()),
        ..small()
    };
    let db = open_at(
        &World::in_memory(),
        &[FamilyDescriptor::new("default", family)],
    )
    .unwrap();
    db.put(b"k", b"0").unwrap();
    db.put_entity(b"e", &[(b"", b"0"), (b"c", b"1")]).unwrap();
    // Snapshots keep the flush from merging.
    let mut snapshots = Vec::new();
    for n in 1..=3_u8 {
        snapshots.push(db.snapshot());
        for key in [b"k", b"e", b"m"] {
            db.merge(key, &[b'0' + n]).unwrap();
        }
    }
    let up_to = |threshold| ReadOptions {
        merge_operand_count_threshold: threshold,
        ..ReadOptions::default()
    };
    let cases = [
        (None, false),
        (Some(3), false),
        (Some(2), true),
        (Some(0), true),
    ];
    let check = || {
        for (threshold, too_many) in cases {
            let options = up_to(threshold);
            for (key, value) in [
                (b"k", &b"0,1,2,3"[..]),
                (b"m", b"1,2,3"),
                (b"e", b"0,1,2,3"),
            ] {
                let found = db.get_with(key, &options).unwrap().unwrap();
                assert_eq!(&*found, value);
                assert_eq!(found.has_too_many_operands(), too_many, "{threshold:?}");
                let found = db.multi_get(&[key], &options).pop().unwrap().unwrap();
                assert_eq!(found.unwrap().has_too_many_operands(), too_many);
                let entity = db.get_entity(key, &options).unwrap().unwrap();
                assert_eq!(entity.has_too_many_operands(), too_many);
            }
        }
    };
    check();
    db.flush().unwrap();
    check();
    // Operands that were merged before are a plain value.
    snapshots.clear();
    db.put(b"a", b"").unwrap();
    db.put(b"z", b"").unwrap();
    db.flush().unwrap();
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    let found = db.get_with(b"k", &up_to(Some(0))).unwrap().unwrap();
    assert_eq!(&*found, b"0,1,2,3");
    assert!(!found.has_too_many_operands());
}

/// The memtable tier is one of iterators: a point read must not report a flushed key as absent, or merge operands without
/// their base.
#[test]
fn point_reads_ignore_the_memtable_tier() {
    let family = FamilyOptions {
        merge_operator: Some(cairn_options::merge_operators::from_text("stringappend").unwrap()),
        ..small()
    };
    let world = World::in_memory();
    let db = open_at(&world, &[FamilyDescriptor::new("default", family)]).unwrap();
    db.put(b"table", b"base").unwrap();
    db.put(b"merged", b"base").unwrap();
    db.flush().unwrap();
    db.merge(b"merged", b"op").unwrap();
    let options = ReadOptions {
        read_tier: ReadTier::Memtable,
        ..ReadOptions::default()
    };
    for (key, value) in [(&b"table"[..], &b"base"[..]), (b"merged", b"base,op")] {
        assert_eq!(&*db.get_with(key, &options).unwrap().unwrap(), value);
        let found = db.multi_get(&[key], &options).pop().unwrap();
        assert_eq!(&*found.unwrap().unwrap(), value);
        let entity = db.get_entity(key, &options).unwrap().unwrap();
        assert_eq!(entity.iter().next().unwrap().1, value);
    }
    let mut iter = db.iter_with(&options);
    iter.seek_to_first();
    assert_eq!((iter.key(), iter.value()), (&b"merged"[..], &b"op"[..]));
}

/// Regression: a seek that found a damaged block without reading, since it had been read ahead, passed over the table, and
/// returned older versions and deleted keys.
#[test]
fn a_seek_to_a_damaged_block_is_an_error_and_not_an_older_version() {
    for newer in ["put", "deletion"] {
        let world = World::in_memory();
        let options = FamilyOptions {
            disable_auto_compactions: true,
            write_buffer_size: 64 << 20,
            ..FamilyOptions::from_text(
                "compression=kNoCompression;\
                 block_based_table_factory={filter_policy=bloomfilter:10:false}",
            )
            .unwrap()
        };
        let open = || open_with(&world, &db_options(), &options).unwrap();
        let db = open();
        let key = |n: u32| format!("key{n:05}").into_bytes();
        for n in 0..3000 {
            db.put(&key(n), &[b'o'; 200]).unwrap();
        }
        db.flush().unwrap();
        for n in 0..3000 {
            match newer {
                "put" => db.put(&key(n), &[b'n'; 200]).unwrap(),
                _ => db.delete(&key(n)).unwrap(),
            }
        }
        db.flush().unwrap();
        db.close().unwrap();
        let names = world.fs.list("/db".as_ref()).unwrap();
        let table = names.into_iter().filter(|name| name.ends_with(".sst"));
        let at = match newer {
            "put" => 60_000,
            _ => 12_000,
        };
        damage(&world, &table.max().expect("two tables"), at);
        let db = open();
        let read = |iter: &mut Iter, n: u32| {
            iter.seek(&key(n));
            let is_found = iter.valid() && iter.key() == key(n);
            iter.status().map(|()| is_found.then(|| iter.value()[0]))
        };
        let expected = (newer == "put").then_some(b'n');
        let mut iter = db.iter();
        // Reading ahead begins.
        iter.seek_to_first();
        for _ in 0..150 {
            if iter.valid() {
                iter.next();
            }
        }
        let mut errors = 0;
        for n in 0..3000 {
            match read(&mut iter, n) {
                Ok(found) => assert_eq!(found, expected, "{newer} {n}"),
                Err(error) => {
                    assert!(error.is_corruption(), "{error}");
                    errors += 1;
                }
            }
        }
        assert!(errors > 0, "{newer}");
    }
}
