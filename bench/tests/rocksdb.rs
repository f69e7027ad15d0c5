//! The driver: data written to RocksDB is read back.

use std::collections::BTreeSet;

use cairn_bench::engine::{BareCache, CacheSettings, CacheType, Source};
use cairn_bench::rocksdb::{Db, Library, OpenMode, Tuning, list_families};

#[test]
fn a_database_is_written_closed_and_read_again() {
    if Library::left_out("rocksdb") {
        return;
    }
    let library = Library::locate().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let families = [
        ("default", "compression=kZSTD"),
        ("sums", "merge_operator=uint64add"),
    ];
    let db = Db::open(&library, &path, "", &families, OpenMode::Create).unwrap();
    let (default, sums) = (db.family("default").unwrap(), db.family("sums").unwrap());
    let mut batch = db.batch();
    for number in 0..1000 {
        batch.put(default, format!("{number:06}").as_bytes(), &[7; 50]);
    }
    batch.merge(sums, b"s", &40u64.to_le_bytes());
    batch.merge(sums, b"s", &2u64.to_le_bytes());
    batch.delete_range(default, b"000100", b"000200");
    assert_eq!(batch.count(), 1003);
    db.write(&batch).unwrap();
    drop(batch);
    db.flush(default).unwrap();
    db.compact(default);
    assert!(db.property(default, "rocksdb.stats").is_some());
    drop(db);

    assert_eq!(list_families(&library, &path).unwrap(), ["default", "sums"]);
    assert!(Db::open(&library, &path, "", &families[..1], OpenMode::Existing).is_err());
    let db = Db::open(&library, &path, "", &families, OpenMode::ReadOnly).unwrap();
    assert_eq!(
        db.get(sums, b"s").unwrap().as_deref(),
        Some(&42u64.to_le_bytes()[..])
    );
    assert!(db.get(default, b"000150").unwrap().is_none());
    let mut iter = db.iter(default);
    iter.seek_to_first();
    let mut count = 0;
    while iter.valid() {
        assert_eq!(iter.value(), [7; 50]);
        count += 1;
        iter.next();
    }
    iter.status().unwrap();
    assert_eq!(count, 900);
}

#[test]
fn a_hyper_clock_cache_is_added_to_the_parsed_options() {
    if Library::left_out("rocksdb") {
        return;
    }
    let library = Library::locate().unwrap();
    assert!(!library.is_cairn());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let settings = CacheSettings {
        kind: Some(CacheType::HyperClock),
        capacity: 5 << 20,
        shard_bits: None,
        high_ratio: None,
        low_ratio: None,
        with_blobs: true,
    };
    let cache = library.cache(&settings).unwrap();
    let library = library.with_cache(cache).with(Tuning {
        compact_on_deletion: Some(true),
    });
    let text = "block_based_table_factory={block_size=8192;block_cache=7M}";
    let db = Db::open(
        &library,
        &path,
        text,
        &[("default", text)],
        OpenMode::Create,
    )
    .unwrap();
    let default = db.family("default").unwrap();
    for name in [
        "rocksdb.block-cache-capacity",
        "rocksdb.blob-cache-capacity",
    ] {
        let capacity = db.property(default, name);
        assert_eq!(capacity.as_deref(), Some("5242880"), "{name}");
    }
    drop(db);
    let log = std::fs::read_to_string(path.join("LOG")).unwrap();
    assert!(log.contains("AutoHyperClockCache"), "{log}");
    assert!(log.contains("CompactOnDeletionCollector"), "{log}");
    assert!(log.contains("block_size: 8192"), "{log}");
}

/// Regression: families other than the default one had default options, and each a block cache of its own, while
/// Cairn's have the given options and share a cache.
#[test]
fn all_families_have_the_given_options_and_one_cache() {
    if Library::left_out("rocksdb") {
        return;
    }
    let library = Library::locate().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let families = [("default", ""), ("other", "")];
    drop(Db::open(&library, &path, "", &families, OpenMode::Create).unwrap());
    std::fs::remove_file(path.join("LOG")).unwrap();
    let text = "write_buffer_size=7340032;block_based_table_factory={block_cache=9M}";
    let db = Source::open(&library, &path, text, None).unwrap();
    assert_eq!(db.families(), ["default", "other"]);
    drop(db);
    let log = std::fs::read_to_string(path.join("LOG")).unwrap();
    let values = |name: &str| -> Vec<String> {
        let lines = log.lines().filter_map(|line| line.split_once(name));
        lines.map(|(_, value)| value.trim().to_owned()).collect()
    };
    let sizes = values("Options.write_buffer_size: ");
    assert!(
        sizes.len() >= 2 && sizes.iter().all(|size| size == "7340032"),
        "{log}"
    );
    let caches = values(" block_cache: 0x");
    let different: BTreeSet<&String> = caches.iter().collect();
    assert!(caches.len() >= 2 && different.len() == 1, "{caches:?}");
}

/// The library of the tests has no shim beside it; that of `cargo xtask reference` has one.
#[test]
fn operations_on_a_cache_need_the_shim() {
    if Library::left_out("rocksdb") {
        return;
    }
    let library = Library::locate().unwrap();
    for kind in [CacheType::Lru, CacheType::HyperClock] {
        let settings = CacheSettings {
            kind: Some(kind),
            capacity: 1 << 20,
            shard_bits: Some(0),
            high_ratio: Some(0.1),
            low_ratio: Some(0.4),
            with_blobs: false,
        };
        let cache = match library.bare_cache(&settings) {
            Ok(cache) => cache,
            Err(error) => {
                assert!(error.to_string().contains("cargo xtask reference"));
                assert!(library.cache(&settings).is_err());
                continue;
            }
        };
        assert_eq!(cache.lookup([1, 2]), None);
        for number in 0..1000 {
            assert!(cache.insert([number, 7], number, 10_000));
        }
        let cached = (0..1000).filter(|number| match cache.lookup([*number, 7]) {
            Some(found) => found == *number,
            None => false,
        });
        assert!((80..105).contains(&cached.count()), "{kind:?}");
    }
}
