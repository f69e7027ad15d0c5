//! Properties: every name of RocksDB has a value, and the values are correct.

use std::collections::BTreeMap;
use std::sync::Arc;

use cairn_db::{Db, Family, approximate_memory_usage, caches_of};
use cairn_memory::{BlockCache, CacheCharge, CacheOptions, MemoryUse};
use cairn_options::{CompactRangeOptions, FamilyOptions};
use cairn_platform::World;

use crate::basic::open_at;

/// The names in RocksDB 11.12's `DB::Properties`, with an argument if they need one.
const NAMES: &[&str] = &[
    "num-files-at-level0",
    "compression-ratio-at-level6",
    "stats",
    "sstables",
    "cfstats",
    "cfstats-no-file-histogram",
    "cf-file-histogram",
    "cf-write-stall-stats",
    "db-write-stall-stats",
    "dbstats",
    "levelstats",
    "block-cache-entry-stats",
    "fast-block-cache-entry-stats",
    "num-immutable-mem-table",
    "num-immutable-mem-table-flushed",
    "mem-table-flush-pending",
    "num-running-flushes",
    "compaction-pending",
    "num-running-compactions",
    "num-running-remote-compactions",
    "num-running-bottom-compactions",
    "num-running-compaction-sorted-runs",
    "compaction-abort-count",
    "num-unscheduled-compactions",
    "background-errors",
    "cur-size-active-mem-table",
    "cur-size-all-mem-tables",
    "size-all-mem-tables",
    "num-entries-active-mem-table",
    "num-entries-imm-mem-tables",
    "num-deletes-active-mem-table",
    "num-deletes-imm-mem-tables",
    "estimate-num-keys",
    "estimate-table-readers-mem",
    "is-file-deletions-enabled",
    "num-snapshots",
    "oldest-snapshot-time",
    "oldest-snapshot-sequence",
    "num-live-versions",
    "current-super-version-number",
    "estimate-live-data-size",
    "min-log-number-to-keep",
    "min-obsolete-sst-number-to-keep",
    "total-sst-files-size",
    "live-sst-files-size",
    "obsolete-sst-files-size",
    "live-sst-files-size-at-temperature0",
    "base-level",
    "estimate-pending-compaction-bytes",
    "aggregated-table-properties",
    "options-statistics",
    "aggregated-table-properties-at-level6",
    "actual-delayed-write-rate",
    "is-write-stopped",
    "block-cache-capacity",
    "block-cache-usage",
    "block-cache-pinned-usage",
    "num-blob-files",
    "blob-stats",
    "total-blob-file-size",
    "live-blob-file-size",
    "live-blob-file-garbage-size",
];

/// Properties that exist only under certain conditions: FIFO, a blob cache.
const CONDITIONAL: &[&str] = &[
    "estimate-oldest-key-time",
    "blob-cache-capacity",
    "blob-cache-usage",
    "blob-cache-pinned-usage",
];

fn filled() -> Db {
    let db = open_at(&World::in_memory(), &[]).expect("it opens");
    for round in 0..3_u32 {
        for n in 0..200_u32 {
            db.put(format!("key{n:05}").as_bytes(), &round.to_le_bytes())
                .expect("it writes");
        }
        db.flush().expect("it flushes");
    }
    db.compact_range(None, None, &CompactRangeOptions::default())
        .expect("it compacts");
    db.put(b"in memory", b"1").expect("it writes");
    db
}

#[test]
fn every_name_has_a_value() {
    let db = filled();
    for name in NAMES {
        let name = format!("rocksdb.{name}");
        assert!(db.property(&name).is_some(), "{name}");
    }
    for name in CONDITIONAL {
        assert_eq!(db.property(&format!("rocksdb.{name}")), None, "{name}");
    }
    assert_eq!(NAMES.len() + CONDITIONAL.len(), 66);
    assert!(db.property("cairn.cache").is_some());
    assert_eq!(db.property("cairn.simulated-cache"), None);
    // Four are not RocksDB's: `cairn.cache`, `cairn.io`, `cairn.memory` and `cairn.simulated-cache`.
    assert_eq!(Db::property_names().count(), 70);
    for wrong in [
        "rocksdb.nosuch",
        "rocksdb.num-files-at-level77",
        "num-snapshots",
        "rocksdb.",
    ] {
        assert_eq!(db.property(wrong), None, "{wrong}");
    }
}

#[test]
fn numbers_are_correct() {
    let db = filled();
    let other = db.create_family("other", &Default::default()).unwrap();
    other.put(b"k", b"v").unwrap();
    let number = |name: &str| {
        db.property_number(&format!("rocksdb.{name}"))
            .expect("a number")
    };
    assert_eq!(number("num-entries-active-mem-table"), 1);
    assert_eq!(number("is-file-deletions-enabled"), 1);
    assert_eq!(
        (number("num-live-versions"), number("num-snapshots")),
        (1, 0)
    );
    assert_eq!(
        number("estimate-live-data-size"),
        number("live-sst-files-size")
    );
    assert_eq!(number("oldest-snapshot-time"), 0);
    let held = db.iter();
    let snapshot = db.snapshot();
    db.flush().unwrap();
    assert_eq!(
        (number("num-live-versions"), number("num-snapshots")),
        (2, 1)
    );
    assert_eq!(number("oldest-snapshot-sequence"), snapshot.sequence().0);
    drop((held, snapshot));
    assert_eq!(number("num-live-versions"), 1);
    assert!(db.get(b"key00007").unwrap().is_some());
    assert!(number("estimate-table-readers-mem") > 0);
    let sum = |name: &str| db.aggregated_property_number(&format!("rocksdb.{name}"));
    assert_eq!(sum("num-entries-active-mem-table"), Some(1));
    // Both families share one cache.
    assert_eq!(
        sum("block-cache-capacity"),
        Some(number("block-cache-capacity"))
    );
    assert_eq!(sum("cfstats"), None);
    let memory = approximate_memory_usage(&[&db], &[]);
    assert!(memory.mem_table_total >= memory.mem_table_unflushed);
    assert_eq!(
        Some(memory.mem_table_unflushed),
        sum("cur-size-all-mem-tables")
    );
}

/// Regression: the caches of the families were counted even if they were not given.
#[test]
fn each_given_cache_is_counted_once() {
    let db = filled();
    assert!(db.get(b"key00007").unwrap().is_some());
    let total = |caches: &[_]| approximate_memory_usage(&[&db], caches).cache_total;
    assert_eq!(total(&[]), 0);
    let cache = Arc::new(BlockCache::new(1 << 20, CacheOptions::default()));
    let charge = CacheCharge::new(cache.clone(), MemoryUse::Other, 1000);
    assert_eq!(total(&[cache.clone(), cache]), 1000);
    drop(charge);
    let of_families = caches_of(&[&db]);
    assert!(of_families.len() == 1 && total(&of_families) > 0);
}

/// Regression: the total of a family had the obsolete tables of all families, and obsolete tables those with readers.
#[test]
fn tables_with_readers_count_for_their_family() {
    let db = open_at(&World::in_memory(), &[]).unwrap();
    let (family, other) = (
        db.default_family(),
        db.create_family("other", &Default::default()).unwrap(),
    );
    for family in [family, &other, family] {
        family.put(b"k", b"v").unwrap();
        family.flush().unwrap();
    }
    let number = |family: &Family, name: &str| {
        let name = format!("rocksdb.{name}-sst-files-size");
        family.property_number(&name).expect("a number")
    };
    let before = number(family, "live");
    assert_eq!(number(family, "total"), before);
    let held = family.iter();
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    let live = number(family, "live");
    assert!(live < before);
    assert_eq!(number(family, "total"), live + before);
    assert_eq!(number(family, "obsolete"), 0, "they have a reader");
    assert_eq!(number(&other, "total"), number(&other, "live"));
    drop(held);
    assert_eq!(number(family, "total"), live);
    db.drop_family(&other).unwrap();
    assert_eq!(number(&other, "total"), number(&other, "live"));
}

/// Regression: blob files that a flush wrote counted as amplified writes.
#[test]
fn a_flush_of_blobs_does_not_amplify_writes() {
    let db = open_at(&World::in_memory(), &[]).unwrap();
    let blobs = FamilyOptions {
        enable_blob_files: true,
        ..FamilyOptions::default()
    };
    let family = db.create_family("f", &blobs).unwrap();
    family.put(b"k", &[b'v'; 10_000]).unwrap();
    family.flush().unwrap();
    let map = family.property_map("rocksdb.cfstats").unwrap();
    assert_eq!(map["compaction.L0.WriteAmp"], "1.000000");
}

#[test]
fn statistics_can_be_parsed() {
    let db = filled();
    let text = db.property("rocksdb.stats").unwrap();
    for part in [
        "\n** Compaction Stats [default] **\nLevel    Files   Size   ",
        "\n  L6      1/0 ",
        "\n Sum      1/0 ",
        "\n Int      0/0 ",
        "\n** Compaction Stats [default] **\nPriority    Files",
        "\nBlob file count: 0, total size: 0.0 GB",
        "\nUptime(secs): ",
        "\nFlush(GB): cumulative 0.000, interval 0.000\n",
        "\nCumulative compaction: ",
        "\n** DB Stats **\n",
        "Cumulative writes: 601 writes, 601 keys, 601 commit groups, 1.0 writes per commit group",
        "Cumulative WAL: 601 writes, 0 syncs",
        "Write Stall (count): ",
    ] {
        assert!(text.contains(part), "{part:?} is missing from\n{text}");
    }
    let map = db.property_map("rocksdb.cfstats").unwrap();
    let value = |map: &BTreeMap<String, String>, name: &str| -> f64 {
        map.get(name)
            .unwrap_or_else(|| panic!("{name}"))
            .parse()
            .expect("a number")
    };
    assert_eq!(value(&map, "compaction.L6.NumFiles"), 1.0);
    assert_eq!(value(&map, "compaction.L0.KeyIn"), 600.0);
    assert_eq!(value(&map, "compaction.L6.KeyIn"), 600.0);
    assert_eq!(value(&map, "compaction.L6.KeyDrop"), 400.0);
    assert_eq!(value(&map, "compaction.Sum.CompCount"), 4.0);
    assert_eq!(value(&map, "total-stops"), 0.0);
    let map = db.property_map("rocksdb.dbstats").unwrap();
    assert_eq!(value(&map, "db.user_keys_written"), 601.0);
    let map = db
        .property_map("rocksdb.aggregated-table-properties")
        .unwrap();
    assert_eq!(value(&map, "num_entries"), 200.0);
    let text = db
        .property("rocksdb.aggregated-table-properties-at-level6")
        .unwrap();
    assert!(
        text.starts_with("# data blocks=") && text.contains("; # entries=200; "),
        "{text}"
    );
    let map = db.property_map("rocksdb.block-cache-entry-stats").unwrap();
    assert!(map.contains_key("count.data-block") && value(&map, "capacity") > 0.0);
    assert_eq!(db.property_map("rocksdb.num-snapshots"), None);
}

#[test]
fn properties_of_tables_are_listed_by_path_and_range() {
    let db = filled();
    db.put(b"zebra", b"1").unwrap();
    db.delete(b"in memory").unwrap();
    db.flush().unwrap();
    let all = db.properties_of_all_tables().unwrap();
    assert_eq!(all.len(), 2);
    assert!(
        all.keys()
            .all(|path| path.starts_with("/db/") && path.ends_with(".sst"))
    );
    let some = db
        .properties_of_tables_in_range(&[(b"key00050", b"key00060")])
        .unwrap();
    let entries: Vec<u64> = some
        .values()
        .map(|properties| properties.num_entries)
        .collect();
    assert_eq!(entries.iter().max(), Some(&200));
    assert!(
        db.properties_of_tables_in_range(&[(b"zz", b"zzz")])
            .unwrap()
            .is_empty()
    );
    let levels = db.properties_of_tables_by_level().unwrap();
    assert_eq!((levels[0].len(), levels[6].len()), (1, 1));
}

/// Regression: tables were listed without their keys and sequence numbers, and blob files not at all.
#[test]
fn tables_are_listed_with_their_keys_and_blob_files() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    let blobs = FamilyOptions {
        enable_blob_files: true,
        ..FamilyOptions::default()
    };
    let family = db.create_family("f", &blobs).unwrap();
    family.put(b"a", b"1").unwrap();
    family.put(b"k\xff", b"2").unwrap();
    family.flush().unwrap();
    let text = family.property("rocksdb.sstables").unwrap();
    let tables: Vec<&str> = text.lines().filter(|line| line.starts_with(' ')).collect();
    let [table] = tables[..] else {
        panic!("{text}")
    };
    let keys = "[1 .. 2]['61' seq:1, type:17 .. '6BFF' seq:2, type:17] blob_file:";
    assert!(
        text.starts_with("--- level 0 ---\n ") && table.contains(keys),
        "{text}"
    );
    let blob = "\n--- blob files ---\nblob_file_number: ";
    assert!(
        text.contains(blob) && text.contains(" total_blob_count: 2 total_blob_bytes: "),
        "{text}"
    );
}

/// Regression: of tables of level 0 that overlap, the oldest was counted.
#[test]
fn live_data_are_those_of_the_newest_of_overlapping_tables() {
    let db = open_at(&World::in_memory(), &[]).unwrap();
    let live = || db.property_number("rocksdb.estimate-live-data-size");
    let all = || db.property_number("rocksdb.live-sst-files-size").unwrap();
    let fill = |keys: std::ops::Range<u32>, len: usize| {
        for key in keys {
            db.put(&key.to_be_bytes(), &vec![b'v'; len]).unwrap();
        }
        db.flush().unwrap();
    };
    let unchanged = [("disable_auto_compactions", "true")];
    db.default_family().set_options(&unchanged).unwrap();
    fill(0..100, 100);
    let old = all();
    fill(50..60, 10);
    let new = all() - old;
    assert!(new < old);
    assert_eq!(live(), Some(new));
    fill(200..300, 10);
    assert_eq!(live(), Some(all() - old));
    // Those of the last level count in any case.
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    let below = all();
    fill(55..56, 10);
    assert_eq!(live(), Some(below));
    fill(400..401, 10);
    assert!(live() > Some(below));
}
