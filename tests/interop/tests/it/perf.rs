//! Perf counters by level: both engines count the same reads of the same tree.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use cairn::compaction::CompactionOptions;
use cairn::observe::perf::by_level::{self, LevelMetric};
use cairn::observe::perf::{self, PerfLevel};
use cairn::{CompactRangeOptions, Db, Options};
use cairn_bench::cairn_engine::CairnSource;
use cairn_bench::engine::{Cursor, Engine, Session, Settings, Source};
use cairn_bench::rocksdb::{ByLevel, Library};

/// Enough bits that no filter has a false positive here.
const WHOLE_KEYS: &str = "filter_policy=bloomfilter:30;";
/// Table options: filters and indexes.
const TABLES: [&str; 4] = [
    "",
    WHOLE_KEYS,
    "filter_policy=bloomfilter:10;whole_key_filtering=false;",
    "filter_policy=bloomfilter:10;cache_index_and_filter_blocks=true;partition_filters=true;\
     index_type=kTwoLevelIndexSearch;metadata_block_size=128;",
];

const KEYS: u32 = 400;
/// The keys that a range deletion covers.
const DELETED: Range<u32> = 100..120;

fn options(table: &str) -> String {
    format!(
        "disable_auto_compactions=true;compression=kNoCompression;merge_operator=stringappend;\
         prefix_extractor=fixed:8;block_based_table_factory={{{table}block_size=512}}"
    )
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

/// Creates a table in level 0 of every `step`th key from `first` on, and of the first and the last.
fn table(db: &Db, first: u32, step: usize, change: impl Fn(u32)) {
    for n in (first..KEYS).step_by(step) {
        change(n);
    }
    for n in [0, KEYS - 1] {
        db.put(&key(n), b"bound").unwrap();
    }
    db.flush().unwrap();
}

/// Creates tables of levels 0, 3 and 6: values, and above them newer values, deletions, operands and a
/// range deletion.
fn build(path: &Path, table_options: &str) {
    let given = Options::default()
        .create_if_missing(true)
        .text(&options(table_options))
        .unwrap();
    let db = Db::open(path, &given).unwrap();
    let put = |value: &'static [u8]| {
        let db = &db;
        move |n| db.put(&key(n), value).unwrap()
    };
    table(&db, 0, 2, put(&[b'b'; 40]));
    let bottom = CompactRangeOptions {
        change_level: true,
        target_level: 6,
        ..CompactRangeOptions::default()
    };
    db.compact_range(None, None, &bottom).unwrap();
    table(&db, 0, 5, put(&[b'm'; 40]));
    let middle = db.live_files_metadata();
    let middle: Vec<_> = middle.iter().filter(|file| file.level == 0).collect();
    let middle: Vec<_> = middle.iter().map(|f| &*f.relative_filename).collect();
    db.compact_files(&CompactionOptions::default(), &middle, 3, None)
        .unwrap();
    table(&db, 3, 11, put(&[b't'; 40]));
    table(&db, 4, 20, |n| db.delete(&key(n)).unwrap());
    table(&db, 5, 7, |n| db.merge(&key(n), b"operand").unwrap());
    db.delete_range(&key(DELETED.start), &key(DELETED.end))
        .unwrap();
    table(&db, 6, 50, put(&[b'u'; 40]));
    let level = |level| db.property(&format!("rocksdb.num-files-at-level{level}"));
    let levels: Vec<_> = (0..7).filter_map(level).collect();
    assert_eq!(levels, ["4", "0", "0", "1", "0", "0", "1"]);
    db.close().unwrap();
}

/// The counters of the engine at `source` for the database at `path`: with open tables and an empty
/// block cache, and then with all blocks in the cache. `counted` runs some reads and returns the
/// report.
fn counts(
    source: &impl Source,
    path: &Path,
    table_options: &str,
    counted: impl Fn(&mut dyn FnMut()) -> String,
) -> [String; 4] {
    let settings = Settings {
        copy_operands: false,
        sync: false,
        disable_wal: false,
        verify_checksums: true,
        total_order_seek: true,
        prefix_same_as_start: false,
        async_io: false,
        optimize_multiget_for_io: true,
    };
    let engine = source.open(path, &options(table_options), None).unwrap();
    let mut session = engine.session(&settings);
    let mut gets = || {
        for n in 0..KEYS + 10 {
            session.get(&key(n), |_| Ok(())).unwrap();
        }
    };
    let cold = counted(&mut gets);
    let warm = counted(&mut gets);
    let walk = counted(&mut || {
        let session = engine.session(&settings);
        let mut cursor = session.cursor();
        cursor.seek_to_first();
        while cursor.valid() {
            cursor.next();
        }
    });
    let mut session = engine.session(&settings);
    let batches = counted(&mut || {
        // A batched get of RocksDB also searches the tables below a range deletion.
        let wanted: Vec<_> = (0..KEYS).filter(|n| !DELETED.contains(n)).collect();
        for some in wanted.chunks(50) {
            let keys: Vec<Box<[u8]>> = some.iter().map(|&n| key(n).into()).collect();
            session.multi_get(&keys, |_, _| Ok(())).unwrap();
        }
    });
    [cold, warm, walk, batches]
}

/// The totals of one metric in a report, by level.
fn sums(report: &str, metric: LevelMetric) -> BTreeMap<usize, u64> {
    let at = report.find("bloom_filter_useful = ");
    let by_level = &report[at.expect("counters by level are enabled")..];
    let (_, behind) = by_level
        .split_once(&format!("{} = ", metric.name()))
        .or_else(|| by_level.split_once(&format!("{} =", metric.name())))
        .expect("every metric is named");
    let sum = |text: &str| {
        let (sum, level) = text.split_once("@level")?;
        Some((level.parse().ok()?, sum.parse().ok()?))
    };
    behind.split(", ").map_while(sum).collect()
}

#[test]
fn both_engines_count_the_same_by_level() {
    use LevelMetric as M;
    let Some(library) = crate::library() else {
        return;
    };
    let theirs = ByLevel::load(&Library::path()).expect("the library exports C++ functions");
    for table_options in TABLES {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        build(&path, table_options);
        let ours = counts(&CairnSource::default(), &path, table_options, |work| {
            perf::set_level(PerfLevel::EnableCount);
            by_level::enable();
            perf::reset();
            work();
            let report = perf::report(true);
            by_level::clear();
            report
        });
        let theirs = counts(&library, &path, table_options, |work| {
            theirs.report_of(PerfLevel::EnableCount as i32, work)
        });
        let same = |work: usize, metrics: &[LevelMetric]| {
            for &metric in metrics {
                let [ours, theirs] = [&ours, &theirs].map(|all| sums(&all[work], metric));
                assert_eq!(
                    ours,
                    theirs,
                    "{table_options} work {work} {}",
                    metric.name()
                );
            }
        };
        let [cold, warm, walk, batches] = [0, 1, 2, 3];
        let keys_and_filters = [
            M::UserKeyReturnCount,
            M::BloomFilterUseful,
            M::BloomFilterFullPositive,
            M::BloomFilterFullTruePositive,
        ];
        for gets in [cold, warm, batches] {
            same(gets, &keys_and_filters);
        }
        assert!(!sums(&ours[cold], M::UserKeyReturnCount).is_empty());
        // RocksDB puts the partitions of level 0 into the cache when it opens a table, so Cairn looks
        // up fewer blocks.
        if !table_options.contains("partition") {
            same(cold, &[M::BlockCacheMissCount]);
            same(walk, &[M::BlockCacheHitCount, M::BlockCacheMissCount]);
            assert!(!sums(&ours[walk], M::BlockCacheHitCount).is_empty());
        }
        // If a filter's false positive or a key whose last version is an operand is at the end of a
        // block, RocksDB also reads the next block. The operands are in level 0.
        if table_options == WHOLE_KEYS {
            same(warm, &[M::BlockCacheMissCount]);
            for gets in [cold, warm] {
                let hits = [&ours, &theirs].map(|all| sums(&all[gets], M::BlockCacheHitCount));
                let [ours, theirs] = hits
                    .each_ref()
                    .map(|hits| [0, 3, 6].map(|level| hits[&level]));
                assert_eq!(ours[1..], theirs[1..]);
                assert!(ours[0] <= theirs[0] && theirs[0] < ours[0] + 5, "{hits:?}");
            }
            assert!(!sums(&ours[warm], M::BloomFilterUseful).is_empty());
        }
    }
}
