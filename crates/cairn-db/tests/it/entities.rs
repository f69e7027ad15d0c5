//! Wide-column entities, merge operands, and successive merges.

#![expect(clippy::unwrap_used, reason = "an absent value fails the test")]

use std::sync::Arc;

use cairn_db::{Column, Db, FamilyDescriptor, WriteBatch};
use cairn_memory::{BlockCache, CacheOptions};
use cairn_options::{
    BlobGarbageCollectionPolicy, BottommostLevelCompaction, CompactRangeOptions, FamilyOptions,
    Options, ReadOptions, ReadTier, WriteOptions,
};
use cairn_platform::World;
use cairn_types::{Code, MergeInput, MergeOperator};

use crate::basic::{open_at, small};

fn opened(world: &World, options: FamilyOptions) -> Db {
    open_at(world, &[FamilyDescriptor::new("default", options)]).unwrap()
}

/// Operands are joined with commas, but only with a base value.
struct Append;

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "append"
    }

    fn full_merge(&self, input: &MergeInput<'_>) -> Option<Vec<u8>> {
        let mut all: Vec<&[u8]> = input.existing.into_iter().collect();
        all.extend(input.operands);
        Some(all.join(&b','))
    }
}

fn appending() -> FamilyOptions {
    let mut options = small();
    options.disable_auto_compactions = true;
    options.merge_operator = Some(Arc::new(Append));
    options
}

fn columns(db: &Db, key: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let found = db.get_entity(key, &ReadOptions::default()).unwrap();
    let found = found.unwrap();
    let pairs = found
        .iter()
        .map(|(name, value)| (name.to_vec(), value.to_vec()));
    pairs.collect()
}

fn check(db: &Db, key: &[u8], expected: &[Column<'_>]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|(name, value)| (name.to_vec(), value.to_vec()))
        .collect();
    assert_eq!(columns(db, key), expected);
    let default = expected.iter().find(|(name, _)| name.is_empty());
    let default = default.map_or(&[][..], |(_, value)| value);
    assert_eq!(db.get(key).unwrap().as_deref(), Some(default));
    for back in [false, true] {
        let mut iter = db.iter();
        match back {
            false => iter.seek(key),
            true => iter.seek_for_prev(key),
        }
        assert_eq!((iter.key(), iter.value()), (key, default));
        let shown = iter.columns().unwrap();
        let shown: Vec<_> = shown
            .iter()
            .map(|(name, value)| (name.to_vec(), value.to_vec()))
            .collect();
        assert_eq!(shown, expected);
    }
}

fn everything() -> CompactRangeOptions {
    CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        blob_garbage_collection_policy: BlobGarbageCollectionPolicy::Force,
        blob_garbage_collection_age_cutoff: 1.0,
        ..CompactRangeOptions::default()
    }
}

#[test]
fn entities_are_the_same_in_memtables_tables_and_blob_files() {
    let large = vec![b'L'; 400];
    let huge = vec![b'H'; 900];
    for (blobs, blob_columns) in [(false, false), (true, false), (true, true)] {
        let world = World::in_memory();
        let options = FamilyOptions {
            enable_blob_files: blobs,
            enable_blob_columns: blob_columns,
            min_blob_size: 300,
            ..appending()
        };
        let db = opened(&world, options.clone());
        db.put(b"a", b"plain").unwrap();
        db.put_entity(b"b", &[(b"z", b"26"), (b"", b"default"), (b"m", &large)])
            .unwrap();
        db.put_entity(b"c", &[(b"only", &huge)]).unwrap();
        db.put_entity(b"d", &[]).unwrap();
        db.put(b"e", &large).unwrap();
        let expected = |db: &Db, more: bool| {
            check(db, b"a", &[(b"", b"plain")]);
            match more {
                false => {
                    check(
                        db,
                        b"b",
                        &[(b"", b"default"), (b"m", &large), (b"z", b"26")],
                    );
                    check(db, b"c", &[(b"only", &huge)]);
                    check(db, b"e", &[(b"", &large)]);
                }
                true => {
                    let b: [Column<'_>; 3] = [(b"", b"default,1,2"), (b"m", &large), (b"z", b"26")];
                    check(db, b"b", &b);
                    check(db, b"c", &[(b"", b",1,2"), (b"only", &huge)]);
                    check(db, b"e", &[(b"", &[&large[..], b"1,2"].join(&b','))]);
                }
            }
            check(db, b"d", &[]);
        };
        expected(&db, false);
        db.flush().unwrap();
        expected(&db, false);
        for operand in [b"1", b"2"] {
            for key in [b"b", b"c", b"e"] {
                db.merge(key, operand).unwrap();
            }
        }
        expected(&db, true);
        db.flush().unwrap();
        expected(&db, true);
        db.compact_range(None, None, &everything()).unwrap();
        expected(&db, true);
        let operands = db.get_merge_operands(b"e", 9, &ReadOptions::default());
        assert_eq!(operands.unwrap().len(), 1, "the compaction has merged");
        let files = db.property_number("rocksdb.num-blob-files").unwrap();
        assert_eq!(files > 0, blobs);
        assert_eq!(
            db.property_number("rocksdb.live-blob-file-garbage-size"),
            Some(0)
        );
        db.close().unwrap();

        let db = opened(&world, options.clone());
        expected(&db, true);
        db.close().unwrap();
        // Blobs are relocated, and return to the tables.
        for blobs in [blobs, false] {
            let db = opened(
                &world,
                FamilyOptions {
                    enable_blob_files: blobs,
                    ..options.clone()
                },
            );
            db.compact_range(None, None, &everything()).unwrap();
            expected(&db, true);
            db.close().unwrap();
        }
        let db = opened(&world, options);
        assert_eq!(db.property_number("rocksdb.num-blob-files"), Some(0));
        expected(&db, true);
    }
}

#[test]
fn a_duplicate_column_is_rejected_and_nothing_is_written() {
    let db = opened(&World::in_memory(), small());
    let error = db.put_entity(b"k", &[(b"a", b"1"), (b"a", b"2")]);
    assert_eq!(error.unwrap_err().code(), Code::Corruption);
    let mut batch = WriteBatch::new();
    batch.put(b"k", b"v");
    batch.put_entity(b"k", &[(b"a", b"1"), (b"a", b"2")]);
    assert_eq!(db.write(&batch).unwrap_err().code(), Code::Corruption);
    assert!(db.get(b"k").unwrap().is_none());
    db.put(b"k", b"after").unwrap();
}

#[test]
fn attribute_groups_are_written_atomically() {
    let db = opened(&World::in_memory(), small());
    let (one, two) = (
        db.create_family("one", &small()).unwrap(),
        db.create_family("two", &small()).unwrap(),
    );
    let groups: [(&cairn_db::Family, &[Column<'_>]); 2] =
        [(&one, &[(b"x", b"1")]), (&two, &[(b"y", b"2")])];
    let none = WriteOptions::default();
    db.put_attribute_groups(b"k", &groups, &none).unwrap();
    let error = db.put_attribute_groups(b"k", &[], &none).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    let found = db.get_attribute_groups(
        b"k",
        &[&two, db.default_family(), &one],
        &ReadOptions::default(),
    );
    let found: Vec<_> = found.into_iter().map(Result::unwrap).collect();
    assert_eq!(found[0].as_ref().unwrap().get(b"y"), Some(&b"2"[..]));
    assert!(found[1].is_none());
    assert_eq!(found[2].as_ref().unwrap().get(b"x"), Some(&b"1"[..]));
}

fn operands(db: &Db, key: &[u8]) -> Vec<String> {
    let found = db.get_merge_operands(key, 100, &ReadOptions::default());
    let found = found.unwrap();
    let texts = found.iter().map(|value| String::from_utf8_lossy(value));
    texts.map(String::from).collect()
}

#[test]
fn operands_are_returned_unmerged_oldest_first() {
    let options = FamilyOptions {
        enable_blob_files: true,
        min_blob_size: 3,
        ..appending()
    };
    let db = opened(&World::in_memory(), options);
    assert_eq!(operands(&db, b"k"), [""; 0]);
    db.merge(b"k", b"old").unwrap();
    db.put(b"k", b"base").unwrap();
    // A flush merges the entries of one memtable.
    db.flush().unwrap();
    db.merge(b"k", b"1").unwrap();
    db.flush().unwrap();
    db.merge(b"k", b"2").unwrap();
    assert_eq!(operands(&db, b"k"), ["base", "1", "2"]);
    let few = db.get_merge_operands(b"k", 2, &ReadOptions::default());
    let few = few.unwrap_err();
    assert_eq!(few.code(), Code::Incomplete);
    assert!(few.text().contains("found 3"), "{few}");
    db.delete(b"k").unwrap();
    assert_eq!(operands(&db, b"k"), [""; 0]);
    db.merge(b"k", b"3").unwrap();
    assert_eq!(operands(&db, b"k"), ["3"]);
    db.put_entity(b"k", &[(b"", b"entity"), (b"a", b"b")])
        .unwrap();
    db.merge(b"k", b"4").unwrap();
    assert_eq!(operands(&db, b"k"), ["entity", "4"]);
    db.timed_put(b"k", b"timed", 1_000_000).unwrap();
    assert_eq!(operands(&db, b"k"), ["timed"]);
}

#[test]
fn accumulated_operands_are_merged_when_they_are_written() {
    let mut options = appending();
    options.set("max_successive_merges", "2").unwrap();
    let world = World::in_memory();
    let db = opened(&world, options.clone());
    for operand in ["1", "2", "3", "4"] {
        db.merge(b"k", operand.as_bytes()).unwrap();
    }
    // The third operand found two others.
    assert_eq!(operands(&db, b"k"), ["1,2,3", "4"]);
    db.put_entity(b"e", &[(b"a", b"b")]).unwrap();
    let mut batch = WriteBatch::new();
    for operand in ["1", "2", "3"] {
        batch.merge(b"e", operand.as_bytes());
    }
    db.write(&batch).unwrap();
    check(&db, b"e", &[(b"", b",1,2,3"), (b"a", b"b")]);
    assert_eq!(operands(&db, b"e"), [",1,2,3"]);
    db.close().unwrap();
    // The log has the operands.
    let db = opened(&world, options);
    check(&db, b"e", &[(b"", b",1,2,3"), (b"a", b"b")]);
    assert_eq!(db.get(b"k").unwrap().as_deref(), Some(&b"1,2,3,4"[..]));

    std::thread::scope(|scope| {
        for thread in 0..4 {
            let db = &db;
            scope.spawn(move || {
                for n in 0..100 {
                    db.merge(b"many", format!("{thread}.{n}").as_bytes())
                        .unwrap();
                }
            });
        }
    });
    let all = db.get(b"many").unwrap().unwrap();
    let mut all: Vec<&[u8]> = all.split(|&byte| byte == b',').collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 400);
}

/// An iterator that may not read returns an entity whose columns are in the blob cache, and fails with `Incomplete` otherwise.
#[test]
fn iterators_find_columns_in_the_blob_cache() {
    let cache = Arc::new(BlockCache::new(1 << 20, CacheOptions::default()));
    let options = FamilyOptions {
        enable_blob_files: true,
        enable_blob_columns: true,
        blob_cache: Some(cache),
        ..small()
    };
    let db = opened(&World::in_memory(), options);
    for key in [b"a", b"b"] {
        db.put_entity(key, &[(b"", &[1; 500]), (b"c", &[2; 500])])
            .unwrap();
    }
    db.flush().unwrap();
    assert_eq!(columns(&db, b"a").len(), 2);
    let mut iter = db.iter_with(&ReadOptions {
        read_tier: ReadTier::BlockCache,
        ..ReadOptions::default()
    });
    iter.seek(b"a");
    assert_eq!((iter.key(), iter.value()), (&b"a"[..], &[1; 500][..]));
    iter.next();
    assert!(!iter.valid());
    assert_eq!(iter.status().unwrap_err().code(), Code::Incomplete);
}

/// A batch of bytes with an entity that no flush could decode is rejected before it is logged: the database could otherwise
/// not be opened again.
#[test]
fn a_batch_with_a_malformed_entity_is_rejected() {
    let batch = |entity: &[u8]| {
        let mut data = vec![0; 12];
        data[8] = 1;
        data.extend_from_slice(&[0x16, 1, b'k', entity.len() as u8]);
        data.extend_from_slice(entity);
        WriteBatch::from_data(&data)
    };
    for entity in [&b"v"[..], b"", b"\x01", b"\x01\x01\x09a"] {
        assert_eq!(batch(entity).unwrap_err().code(), Code::Corruption);
    }
    let db = opened(&World::in_memory(), small());
    db.write(&batch(b"\x01\x01\x01c\x01v").unwrap()).unwrap();
    db.flush().unwrap();
    assert_eq!(columns(&db, b"k"), [(b"c".to_vec(), b"v".to_vec())]);
}
