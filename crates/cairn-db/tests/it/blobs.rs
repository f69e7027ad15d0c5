//! Large values: their location, and the collection of garbage.

#![expect(clippy::unwrap_used, reason = "an absent value fails the test")]

use std::path::Path;
use std::sync::Arc;

use cairn_db::{Db, FamilyDescriptor, Iter, Range, SizeApproximationOptions};
use cairn_memory::{BlockCache, CacheOptions, CacheRole};
use cairn_observe::perf::{self, PerfLevel, PerfMetric};
use cairn_observe::statistics::Ticker;
use cairn_options::{
    BlobGarbageCollectionPolicy, BottommostLevelCompaction, CompactRangeOptions, CompactionOptions,
    FamilyOptions, PrepopulateBlobCache, ReadOptions, ReadTier,
};
use cairn_platform::World;
use cairn_types::Code;

use crate::basic::{open_at, small};

fn with_blobs() -> FamilyOptions {
    FamilyOptions {
        enable_blob_files: true,
        min_blob_size: 100,
        blob_file_size: 20_000,
        disable_auto_compactions: true,
        ..small()
    }
}

fn opened(world: &World, options: FamilyOptions) -> Db {
    open_at(world, &[FamilyDescriptor::new("default", options)]).unwrap()
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:04}").into_bytes()
}

/// Every third value is small.
fn value(n: u32, round: u32) -> Vec<u8> {
    let len = if n.is_multiple_of(3) { 20 } else { 500 };
    format!("{n} of {round} ")
        .into_bytes()
        .into_iter()
        .cycle()
        .take(len)
        .collect()
}

fn fill(db: &Db, round: u32, step: usize) {
    for n in (0..120).step_by(step) {
        db.put(&key(n), &value(n, round)).unwrap();
    }
    db.flush().unwrap();
}

fn blob_files(world: &World) -> Vec<String> {
    let mut names = world.fs.list(Path::new("/db")).unwrap();
    names.retain(|name| name.ends_with(".blob"));
    names.sort();
    names
}

fn check(db: &Db, round_of: impl Fn(u32) -> u32) {
    for n in 0..120 {
        let found = db.get(&key(n)).unwrap().unwrap();
        assert!(found == value(n, round_of(n))[..], "{n}");
    }
    let mut iter = db.iter();
    iter.seek_to_last();
    for n in (0..120).rev() {
        assert!(iter.value() == &value(n, round_of(n))[..], "{n}");
        iter.prev();
    }
    assert!(!iter.valid());
}

fn all(policy: BlobGarbageCollectionPolicy, cutoff: f64) -> CompactRangeOptions {
    CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        blob_garbage_collection_policy: policy,
        blob_garbage_collection_age_cutoff: cutoff,
        ..CompactRangeOptions::default()
    }
}

/// The number of entries that `iter` returns in a walk over all of its family, backwards if `back` is true.
pub(super) fn walk(mut iter: Iter, back: bool) -> usize {
    let mut found = 0;
    match back {
        false => iter.seek_to_first(),
        true => iter.seek_to_last(),
    }
    while iter.valid() {
        found += 1;
        assert!(iter.prepare_value());
        match back {
            false => iter.next(),
            true => iter.prev(),
        }
    }
    iter.status().unwrap();
    found
}

/// An entry that is returned is not skipped, even if its value or its columns are in a blob file; a deletion is.
#[test]
fn entries_with_values_in_blob_files_are_not_skipped() {
    for has_deletions in [false, true] {
        let db = opened(&World::in_memory(), with_blobs());
        for n in 0..20 {
            match n % 3 {
                0 if has_deletions => db.delete(&key(n)).unwrap(),
                1 => db.put_entity(&key(n), &[(b"", &[7; 500])]).unwrap(),
                _ => db.put(&key(n), &[7; 500]).unwrap(),
            }
        }
        db.flush().unwrap();
        let deleted = if has_deletions { 7 } else { 0 };
        for (back, deferred) in [(false, false), (false, true), (true, false), (true, true)] {
            let statistics = db.statistics().unwrap();
            let before = statistics.ticker(Ticker::NumberIterSkip);
            perf::set_level(PerfLevel::EnableCount);
            perf::reset();
            let iter = db.iter_with(&ReadOptions {
                max_skippable_internal_keys: 1,
                allow_unprepared_value: deferred,
                ..ReadOptions::default()
            });
            assert_eq!(walk(iter, back), 20 - deleted, "{back} {deferred}");
            let left = perf::metric(PerfMetric::InternalKeySkippedCount);
            perf::set_level(PerfLevel::Disable);
            let skipped = statistics.ticker(Ticker::NumberIterSkip) - before;
            assert_eq!(skipped, deleted as u64, "{back} {deferred}");
            // RocksDB's definition includes each entry that is left, and backward deletions too.
            let expected = if back { 20 } else { 20 - deleted };
            assert_eq!(left, expected as u64, "{back} {deferred}");
        }
    }
}

#[test]
fn large_values_lie_in_blob_files_until_they_are_garbage() {
    let world = World::in_memory();
    let db = opened(&world, with_blobs());
    fill(&db, 1, 1);
    assert_eq!(db.property_number("rocksdb.num-blob-files"), Some(3));
    assert_eq!(blob_files(&world).len(), 3);
    let bytes = db.property_number("rocksdb.total-blob-file-size").unwrap();
    let on_disk: u64 = blob_files(&world)
        .iter()
        .map(|name| {
            let path = Path::new("/db").join(name);
            world.fs.status(&path).unwrap().len
        })
        .sum();
    assert_eq!(bytes, on_disk);
    check(&db, |_| 1);
    db.close().unwrap();

    // Garbage collection moves values to new files on request; old files are deleted, but not while they are
    // being read.
    let db = opened(&world, with_blobs());
    check(&db, |_| 1);
    fill(&db, 2, 2);
    let before = blob_files(&world);
    let mut iter = db.iter();
    iter.seek(&key(1));
    let none = all(BlobGarbageCollectionPolicy::UseDefault, -1.0);
    db.compact_range(None, None, &none).unwrap();
    assert!(before.iter().all(|name| blob_files(&world).contains(name)));
    let garbage = db.property_number("rocksdb.live-blob-file-garbage-size");
    assert!(garbage > Some(40 * 500), "{garbage:?}");
    let force = all(BlobGarbageCollectionPolicy::Force, 1.0);
    db.compact_range(None, None, &force).unwrap();
    assert_eq!(
        db.property_number("rocksdb.live-blob-file-garbage-size"),
        Some(0)
    );
    assert!(iter.value() == &value(1, 1)[..]);
    assert!(before.iter().all(|name| blob_files(&world).contains(name)));
    drop(iter);
    db.wait_until_quiet().unwrap();
    db.compact_range(None, None, &none).unwrap();
    assert!(!before.iter().any(|name| blob_files(&world).contains(name)));
    check(&db, |n| if n % 2 == 0 { 2 } else { 1 });
    db.close().unwrap();

    // With blob files disabled, values return to the tables.
    let db = opened(
        &world,
        FamilyOptions {
            enable_blob_files: false,
            ..with_blobs()
        },
    );
    check(&db, |n| if n % 2 == 0 { 2 } else { 1 });
    db.compact_range(None, None, &force).unwrap();
    assert_eq!(db.property_number("rocksdb.num-blob-files"), Some(0));
    db.wait_until_quiet().unwrap();
    assert_eq!(blob_files(&world), [""; 0]);
    check(&db, |n| if n % 2 == 0 { 2 } else { 1 });
}

/// Regression: a cutoff above 1 failed the compaction.
#[test]
fn a_cutoff_out_of_range_is_that_of_the_family() {
    for cutoff in [-0.5, 1.5, f64::NAN] {
        let options = FamilyOptions {
            blob_garbage_collection_age_cutoff: 1.0,
            ..with_blobs()
        };
        let db = opened(&World::in_memory(), options);
        fill(&db, 1, 1);
        fill(&db, 2, 2);
        let force = all(BlobGarbageCollectionPolicy::Force, cutoff);
        db.compact_range(None, None, &force).unwrap();
        let garbage = db.property_number("rocksdb.live-blob-file-garbage-size");
        assert_eq!(garbage, Some(0), "{cutoff}");
    }
}

/// Regression: only tables were returned.
#[test]
fn a_compaction_of_files_returns_the_new_blob_files() {
    let world = World::in_memory();
    let options = FamilyOptions {
        enable_blob_garbage_collection: true,
        blob_garbage_collection_age_cutoff: 1.0,
        ..with_blobs()
    };
    let db = opened(&world, options);
    fill(&db, 1, 1);
    fill(&db, 2, 2);
    let before = blob_files(&world);
    let inputs = db.live_files_metadata().into_iter();
    let inputs: Vec<_> = inputs.map(|table| table.relative_filename).collect();
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    let outputs = db
        .compact_files(&CompactionOptions::default(), &inputs, 6, None)
        .unwrap();
    let (blobs, tables): (Vec<_>, Vec<_>) = outputs
        .into_iter()
        .partition(|path| path.ends_with(".blob"));
    let mut new = blob_files(&world);
    new.retain(|name| !before.contains(name));
    let new: Vec<_> = new.iter().map(|name| format!("/db/{name}")).collect();
    assert!(!new.is_empty() && !tables.is_empty());
    assert_eq!(blobs, new);
}

#[test]
fn sizes_of_ranges_include_blob_files_in_proportion() {
    let world = World::in_memory();
    let db = opened(&world, with_blobs());
    fill(&db, 0, 1);
    let tables = SizeApproximationOptions::default();
    let both = SizeApproximationOptions {
        include_blob_files: true,
        ..tables
    };
    let blobs = SizeApproximationOptions {
        include_files: false,
        ..both
    };
    let size = |end: &[u8], options| {
        let range = Range::new(b"", end);
        db.approximate_sizes(&[range], options).unwrap()[0]
    };
    let all = db.property_number("rocksdb.total-blob-file-size").unwrap();
    assert!(all > 0);
    let end = [0xff; 8];
    assert_eq!(size(&end, &blobs), all);
    assert_eq!(size(&end, &both), size(&end, &tables) + all);
    assert_eq!(size(b"", &both), 0);
}

#[test]
fn blob_files_take_no_more_space_than_the_target_allows() {
    let world = World::in_memory();
    let options = FamilyOptions {
        blob_space_target: 1.5,
        disable_auto_compactions: false,
        level0_file_num_compaction_trigger: 2,
        ..with_blobs()
    };
    let db = opened(&world, options);
    for round in 0..20 {
        fill(&db, round, 1);
    }
    db.wait_until_quiet().unwrap();
    let number = |name| db.property_number(name).unwrap() as f64;
    let total = number("rocksdb.live-blob-file-size");
    let garbage = number("rocksdb.live-blob-file-garbage-size");
    // Headers and footers of files do not count towards the target.
    assert!(total <= 1.55 * (total - garbage), "{total} {garbage}");
    // Live data includes the records of blob files, but not their headers and footers.
    let live = number("rocksdb.estimate-live-data-size");
    let tables = number("rocksdb.live-sst-files-size");
    assert!(live > 0.9 * (total - garbage), "{live} {total} {garbage}");
    assert!(
        live <= total - garbage + tables,
        "{live} {total} {garbage} {tables}"
    );
    check(&db, |_| 19);
}

#[test]
fn blobs_are_cached_and_handed_out_without_a_copy() {
    for compression in [
        cairn_options::Compression::None,
        cairn_options::Compression::Zstd,
    ] {
        let world = World::in_memory();
        let cache = Arc::new(BlockCache::new(1 << 20, CacheOptions::default()));
        let options = FamilyOptions {
            blob_cache: Some(cache.clone()),
            blob_compression_type: compression,
            ..with_blobs()
        };
        let db = opened(&world, options.clone());
        fill(&db, 1, 1);
        assert_eq!(cache.role_usage(CacheRole::Blob), 0);
        let cached = ReadOptions {
            read_tier: ReadTier::BlockCache,
            ..ReadOptions::default()
        };
        let unread = db.get_with(&key(1), &cached).unwrap_err();
        assert_eq!(unread.code(), Code::Incomplete);
        let first = db.get(&key(1)).unwrap().unwrap();
        assert!(cache.role_usage(CacheRole::Blob) > 500);
        let second = db.get_with(&key(1), &cached).unwrap().unwrap();
        assert!(first == value(1, 1)[..]);
        assert_eq!(first.as_ptr(), second.as_ptr(), "both are the cache's");
        db.close().unwrap();

        // An entry inserted by another opening is not used by this one.
        let db = opened(&world, options.clone());
        assert!(db.get_with(&key(1), &cached).is_err());
        db.close().unwrap();

        let warm = FamilyOptions {
            prepopulate_blob_cache: PrepopulateBlobCache::FlushOnly,
            ..options
        };
        let db = opened(&world, warm);
        fill(&db, 2, 1);
        for n in 0..120 {
            // The table is opened by the first read; after that only the blob is missing.
            let _ = db.get(&key(0)).unwrap();
            let found = db.get_with(&key(n), &cached);
            if let Ok(found) = found {
                assert!(found.unwrap() == value(n, 2)[..]);
            } else {
                assert!(db.get(&key(n)).is_ok());
                let found = db.get_with(&key(n), &cached).unwrap().unwrap();
                assert!(found == value(n, 2)[..]);
            }
        }
        let counts = cache.role_counts(CacheRole::Blob);
        assert!(counts.hits >= 80, "{counts:?}");
    }
}
