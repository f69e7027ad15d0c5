//! Charges of memory outside of the block cache, and the memory report.

use std::path::Path;
use std::sync::Arc;

use cairn_db::{Db, FamilyDescriptor, OpenRequest, open};
use cairn_memory::{BlockCache, CacheOptions, MemoryUse};
use cairn_options::{CompactRangeOptions, FamilyOptions, Options, ReadOptions};
use cairn_platform::World;

use crate::basic::{db_options, open_at, small};

fn cache() -> Arc<BlockCache> {
    Arc::new(BlockCache::new(8 << 20, CacheOptions::default()))
}

/// Opens the database in `path` with `cache` and `cache_usage_options`.
fn opened(world: &World, path: &Path, cache: &Arc<BlockCache>, usage: &str) -> Db {
    let mut family = small();
    family.table.block_cache = Some(cache.clone());
    family.disable_auto_compactions = true;
    let set = family.table.set("cache_usage_options", usage);
    set.expect("the options are known");
    open(&OpenRequest {
        path,
        options: &db_options(),
        families: &[FamilyDescriptor::new("default", family)],
        others: None,
        read_only: false,
        world: world.clone(),
    })
    .expect("it opens")
}

fn fill(db: &Db, rounds: u32) {
    for round in 0..rounds {
        for n in 0..200 {
            let key = format!("key{n:05}");
            db.put(key.as_bytes(), &[round as u8; 100])
                .expect("it writes");
        }
        db.flush().expect("it flushes");
    }
}

#[test]
fn everything_is_charged_and_nothing_after_the_close() {
    let dir = tempfile::tempdir().unwrap();
    for on_disk in [false, true] {
        let world = match on_disk {
            true => World::posix(),
            false => World::in_memory(),
        };
        let cache = cache();
        let path = dir.path().join("db");
        let db = opened(&world, &path, &cache, "{options=kEnabled}");
        let charged = |what| cache.charged(what);
        fill(&db, 5);
        let many = charged(MemoryUse::FileMetadata);
        assert!(many > 500, "{many}");
        assert!(db.get(b"key00007").unwrap().is_some());
        assert!(charged(MemoryUse::TableReader) > 0);
        // A log in memory has no windows.
        assert!(charged(MemoryUse::Wal) >= if on_disk { 32 << 10 } else { 0 });
        assert_eq!(charged(MemoryUse::ReadInProgress), 0);
        // An iterator keeps the files that a compaction replaces.
        let mut iter = db.default_family().iter();
        iter.seek_to_first();
        db.compact_range(None, None, &CompactRangeOptions::default())
            .unwrap();
        assert!(charged(MemoryUse::FileMetadata) > many);
        for what in [
            MemoryUse::Job,
            MemoryUse::FilterConstruction,
            MemoryUse::Prefetch,
        ] {
            assert_eq!(charged(what), 0, "{what:?}");
        }
        drop(iter);
        db.wait_until_quiet().unwrap();
        assert!(charged(MemoryUse::FileMetadata) < many);
        let unfilled = ReadOptions {
            fill_cache: false,
            ..ReadOptions::default()
        };
        cache.erase_unused();
        let mut iter = db.default_family().iter_with(&unfilled);
        iter.seek_to_first();
        assert!(charged(MemoryUse::Iterator) > 0);
        drop(iter);
        assert_eq!(charged(MemoryUse::Iterator), 0);
        db.close().unwrap();
        drop(db);
        assert_eq!(cache.all_charged(), 0, "{cache:?}");
    }
}

#[test]
fn the_roles_of_rocksdb_are_charged_individually() {
    for (usage, tables, files) in [
        ("{}", false, false),
        ("{kBlockBasedTableReader=kEnabled}", true, false),
        ("{kFileMetadata=kEnabled;options=kDisabled}", false, true),
        ("{kFileMetadata=kDisabled;options=kEnabled}", true, false),
    ] {
        let cache = cache();
        let db = opened(&World::in_memory(), Path::new("/db"), &cache, usage);
        fill(&db, 2);
        assert!(db.get(b"key00007").unwrap().is_some());
        assert_eq!(cache.charged(MemoryUse::TableReader) > 0, tables, "{usage}");
        assert_eq!(cache.charged(MemoryUse::FileMetadata) > 0, files, "{usage}");
        let stats = db.property("rocksdb.block-cache-entry-stats").unwrap();
        assert_eq!(stats.contains(" FileMetadata(1,"), files, "{stats}");
        let map = db.property_map("rocksdb.block-cache-entry-stats").unwrap();
        let bytes: usize = map["bytes.block-based-table-reader"].parse().unwrap();
        assert_eq!(bytes, cache.charged(MemoryUse::TableReader));
        // Memory of a table is counted whether or not it is charged.
        assert!(
            db.property_number("rocksdb.estimate-table-readers-mem")
                .unwrap()
                > 0
        );
    }
}

#[test]
fn reads_and_opens_with_a_full_strict_cache_succeed() {
    let strict = CacheOptions {
        strict_capacity_limit: true,
        ..CacheOptions::default()
    };
    let cache = Arc::new(BlockCache::new(1, strict));
    let db = opened(
        &World::in_memory(),
        Path::new("/db"),
        &cache,
        "{options=kEnabled}",
    );
    fill(&db, 3);
    for n in 0..200 {
        let key = format!("key{n:05}");
        assert!(db.get(key.as_bytes()).unwrap().unwrap() == [2; 100][..]);
    }
    let mut iter = db.default_family().iter();
    iter.seek_to_first();
    let mut count = 0;
    while iter.valid() {
        count += 1;
        iter.next();
    }
    iter.status().unwrap();
    assert_eq!((count, cache.entries()), (200, 0));
}

#[test]
fn charges_need_a_block_cache() {
    let mut family = FamilyOptions::default();
    family.table.no_block_cache = true;
    family
        .table
        .set("cache_usage_options", "{kFileMetadata=kEnabled}")
        .unwrap();
    let refused = family.validate().unwrap_err();
    assert!(refused.to_string().contains("no_block_cache"), "{refused}");
    let mut family = FamilyOptions::default();
    family
        .table
        .set("cache_usage_options", "{kBlobCache=kEnabled}")
        .unwrap();
    let refused = family.validate().unwrap_err();
    assert!(refused.to_string().contains("blob_cache"), "{refused}");
    let wrong = family
        .table
        .set("cache_usage_options", "{kDataBlock=kEnabled}");
    assert!(wrong.is_err());
}

/// Returns the number after `"name":` in `json`, the first one after `from`.
fn number(json: &str, from: &str, name: &str) -> f64 {
    let at = json
        .find(from)
        .unwrap_or_else(|| panic!("no {from} in {json}"));
    let rest = &json[at..];
    let name = format!("\"{name}\":");
    let at = rest
        .find(&name)
        .unwrap_or_else(|| panic!("no {name} in {rest}"));
    let rest = &rest[at + name.len()..];
    let end = rest.find([',', '}', ']']).expect("a value ends");
    rest[..end].parse().expect("a number")
}

#[test]
fn the_report_has_iterators_and_snapshots_with_their_threads() {
    let db = open_at(&World::in_memory(), &[]).unwrap();
    db.put(b"a", b"1").unwrap();
    let report = || db.property("cairn.memory").unwrap();
    let empty = report();
    assert_eq!(number(&empty, "\"iterators\"", "open"), 0.0);
    assert_eq!(number(&empty, "\"snapshots\"", "open"), 0.0);
    assert!(number(&empty, "", "total") >= number(&empty, "\"memtables\"", "mutable"));
    assert!(number(&empty, "\"uses\"", "WriteBuffer") > 0.0);
    let family = db.default_family().clone();
    let scanner = std::thread::Builder::new().name("scanner".to_owned());
    let mut iter = scanner
        .spawn(move || family.iter())
        .unwrap()
        .join()
        .unwrap();
    let snapshot = db.snapshot();
    db.put(b"b", b"2").unwrap();
    db.flush().unwrap();
    let held = report();
    assert_eq!(number(&held, "\"iterators\"", "open"), 1.0);
    assert_eq!(number(&held, "\"iterators\"", "sequence"), 1.0);
    assert!(
        held.contains(r#""current":false,"thread":"scanner""#),
        "{held}"
    );
    assert!(number(&held, "\"iterators\"", "seconds") >= 0.0);
    assert_eq!(number(&held, "\"snapshots\"", "sequence"), 1.0);
    assert_eq!(number(&held, "\"snapshots\"", "count"), 1.0);
    iter.refresh().unwrap();
    let refreshed = report();
    assert_eq!(number(&refreshed, "\"iterators\"", "sequence"), 2.0);
    assert!(
        refreshed.contains(r#""current":true,"thread":"scanner""#),
        "{refreshed}"
    );
    drop((iter, snapshot));
    let empty = report();
    assert_eq!(number(&empty, "\"iterators\"", "open"), 0.0);
    assert_eq!(number(&empty, "\"snapshots\"", "open"), 0.0);
}

#[test]
fn the_report_counts_each_cache_once() {
    let cache = cache();
    let mut family = small();
    family.table.block_cache = Some(cache.clone());
    let families = ["default", "other"].map(|name| FamilyDescriptor::new(name, family.clone()));
    let db = open(&OpenRequest {
        path: Path::new("/db"),
        options: &cairn_options::DbOptions {
            create_missing_column_families: true,
            ..db_options()
        },
        families: &families,
        others: None,
        read_only: false,
        world: World::in_memory(),
    })
    .unwrap();
    fill(&db, 1);
    assert!(db.get(b"key00007").unwrap().is_some());
    let report = db.property("cairn.memory").unwrap();
    assert!(
        report.contains(r#""families":["default","other"]"#),
        "{report}"
    );
    assert_eq!(report.matches("\"capacity\"").count(), 1);
    let entries = number(&report, "", "cache_entries");
    assert!(entries > 0.0);
    assert_eq!(entries, cache.usage() as f64 - cache.all_charged() as f64);
    assert_eq!(number(&report, "\"DataBlock\"", "entries"), 1.0);
    assert_eq!(number(&report, "\"tables\"", "open"), 1.0);
}
