//! Every option round-trips through text, alone and together with all others.

use cairn_options::{
    CompactRangeOptions, CompactionOptions, DbOptions, FamilyOptions, FlushOptions, Options,
    ReadOptions, TableOptions, WaitForCompactOptions, WriteOptions,
};
use proptest::prelude::*;

/// Sample values; each row is tried with every one.
const VALUES: &[&str] = &[
    "true",
    "false",
    "0",
    "1",
    "-1",
    "7",
    "64K",
    "3G",
    "0.5",
    "nullptr",
    "kZSTD",
    "kNoCompression",
    "kLZ4Compression:kZSTD",
    "1:2:3",
    "DEBUG_LEVEL",
    "kHot",
    "some/path;with:signs=#{}",
    "bytesxor",
    "{id=stringappend;delimiter={;}}",
    "fixed:4",
    "rocksdb.ReverseBytewiseComparator",
    "bloomfilter:9.9:false",
    "{id=ribbonfilter:10:2;bloom_before_level=2;}",
    "kCRC32c",
    "kTwoLevelIndexSearch",
    "{level=3;checksum=true}",
    "{block_size=8K;block_cache=1M}",
    "kCompactionStyleUniversal",
    "kRoundRobin",
    "kSkipAnyCorruptedRecords",
    "0a0b",
    "/a,1G:/b,5",
];

fn every_row_round_trips<S: Options>() {
    let default = S::default();
    assert_eq!(
        S::from_text(&default.to_text())
            .expect("its own text")
            .to_text(),
        default.to_text()
    );
    for row in S::rows() {
        let mut tried = 0;
        let mut options = S::default();
        // An enumeration lists its values in the error.
        let refusal = (row.set)(&mut options, "?").err().unwrap_or_default();
        let words = refusal.strip_prefix("expected one of ").unwrap_or("");
        for value in words.split(", ").chain(VALUES.iter().copied()) {
            let mut options = S::default();
            // The options of tables are part of the text if new tables have their format.
            if let Some(format) = match row.name {
                "plain_table_factory" => Some("PlainTable"),
                "cuckoo_table_factory" => Some("CuckooTable"),
                _ => None,
            } {
                options.set("table_factory", format).expect("a format");
            }
            if (row.set)(&mut options, value).is_err() {
                continue;
            }
            tried += 1;
            let text = options.to_text();
            let again = S::from_text(&text).unwrap_or_else(|error| panic!("{value}: {error}"));
            assert_eq!(again.to_text(), text);
            assert_eq!(again.get(row.name).expect("a row"), (row.get)(&options));
        }
        assert!(tried > 0, "no value was accepted for {}", row.name);
    }
}

#[test]
fn every_option_round_trips_through_text() {
    every_row_round_trips::<DbOptions>();
    every_row_round_trips::<FamilyOptions>();
    every_row_round_trips::<TableOptions>();
    every_row_round_trips::<ReadOptions>();
    every_row_round_trips::<WriteOptions>();
    every_row_round_trips::<FlushOptions>();
    every_row_round_trips::<CompactRangeOptions>();
    every_row_round_trips::<CompactionOptions>();
    every_row_round_trips::<WaitForCompactOptions>();
}

#[test]
fn unknown_names_and_values_are_rejected_without_effect() {
    let mut options = DbOptions::default();
    let before = options.to_text();
    for text in [
        "max_open_files=5;nosuch=1",
        "max_open_files=x",
        "max_open_files",
        "a={",
    ] {
        assert!(options.update_from(text).is_err(), "{text}");
        assert_eq!(options.to_text(), before);
    }
    assert!(options.get("nosuch").is_err());
    options
        .update_from("max_mem_compaction_level=3")
        .expect("a retired name is ignored");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn numbers_and_texts_survive(
        size in any::<u64>(), number in any::<i32>(), text in "[^{}]{0,12}", share in 0.0..1.0f64,
    ) {
        let mut db = DbOptions { max_open_files: number, max_total_wal_size: size, ..DbOptions::default() };
        db.db_host_id = text.trim().to_owned();
        let again = DbOptions::from_text(&db.to_text()).unwrap();
        prop_assert_eq!(again.to_text(), db.to_text());
        prop_assert_eq!(&again.db_host_id, &db.db_host_id);
        prop_assert_eq!(again.max_total_wal_size, size);
        let family = FamilyOptions { max_bytes_for_level_multiplier: share, ..FamilyOptions::default() };
        let again = FamilyOptions::from_text(&family.to_text()).unwrap();
        prop_assert!((again.max_bytes_for_level_multiplier - share).abs() < 1e-6);
    }

    #[test]
    fn any_text_is_parsed_or_rejected(text in "\\PC{0,60}") {
        let _ = (DbOptions::from_text(&text), FamilyOptions::from_text(&text));
    }
}

/// The forms that RocksDB's option string functions accept.
#[test]
fn all_text_forms_are_accepted() {
    let family = |text: &str| FamilyOptions::from_text(text).map_err(|error| error.to_string());
    let get = |text: &str, name: &str| family(text).unwrap().get(name).unwrap();
    for (text, name, expected) in [
        (
            "memtable_factory=skip_list:16",
            "memtable_factory",
            "SkipListFactory",
        ),
        ("memtable=vector", "memtable_factory", "VectorRepFactory"),
        (
            "memtable_factory={id=VectorRepFactory;count=10}",
            "memtable_factory",
            "VectorRepFactory",
        ),
        (
            "memtable_factory=prefix_hash:1000",
            "memtable_factory",
            "HashSkipListRepFactory",
        ),
        (
            "memtable_factory=hash_linkedlist:1000",
            "memtable_factory",
            "HashLinkListRepFactory",
        ),
        (
            "prefix_extractor=rocksdb.FixedPrefix.8",
            "prefix_extractor",
            "rocksdb.FixedPrefix.8",
        ),
        (
            "prefix_extractor={id=rocksdb.FixedPrefix;length=8}",
            "prefix_extractor",
            "rocksdb.FixedPrefix.8",
        ),
        (
            "prefix_extractor=capped:3",
            "prefix_extractor",
            "rocksdb.CappedPrefix.3",
        ),
        (
            "table_factory={id=BlockBasedTable;block_size=8K}",
            "table_factory",
            "BlockBasedTable",
        ),
        (
            "table_factory={id=PlainTable;user_key_len=3}",
            "table_factory",
            "PlainTable",
        ),
        (
            "table_factory={id=CuckooTable;hash_table_ratio=0.5}",
            "table_factory",
            "CuckooTable",
        ),
        (
            "comparator=rocksdb.ReverseBytewiseComparator",
            "comparator",
            "rocksdb.ReverseBytewiseComparator",
        ),
    ] {
        assert_eq!(get(text, name), expected, "{text}");
    }
    let options = family(
        "compression_opts=4:5:6:7:8:true;bottommost_compression_opts=4:5:6:7:8:2:true:9:false",
    )
    .unwrap();
    let opts = options.compression_opts;
    assert_eq!(
        (
            opts.window_bits,
            opts.level,
            opts.strategy,
            opts.max_dict_bytes
        ),
        (4, 5, 6, 7)
    );
    assert!(opts.zstd_max_train_bytes == 8 && opts.enabled && opts.parallel_threads == 1);
    let opts = options.bottommost_compression_opts;
    assert!(
        opts.parallel_threads == 2
            && opts.max_dict_buffer_bytes == 9
            && !opts.use_zstd_dict_trainer
    );
    let options = family(
        "block_based_table_factory={block_size=4K;block_cache={capacity=1M;num_shard_bits=4;\
         strict_capacity_limit=true;high_pri_pool_ratio=0.5}};table_factory.block_restart_interval=8",
    )
    .unwrap();
    assert_eq!(options.table.block_restart_interval, 8);
    assert!(
        options
            .table
            .block_cache
            .is_some_and(|cache| cache.capacity() == 1 << 20)
    );
    let fifo = family("compaction_options_fifo=88").unwrap();
    assert_eq!(fifo.compaction_options_fifo.max_table_files_size, 88);
    for wrong in [
        "compaction_options_fifo=x",
        "compression_opts=4:5",
        "compression_opts=a:b:c",
        "memtable_factory=skip_list:x",
        "memtable_factory=nosuch",
        "table_factory={id=PlainTable;block_size=3}",
        "table_factory={block_size=3}",
        "table_factory.nosuch=3",
        "prefix_extractor=fixed:x",
    ] {
        assert!(family(wrong).is_err(), "{wrong}");
    }
}

/// Regression: options of a format of tables that the family does not have were accepted without effect, where RocksDB
/// reports that it cannot modify the tables.
#[test]
fn options_of_another_table_format_are_rejected() {
    let plain = "table_factory={id=PlainTable;hash_table_ratio=0}";
    let cuckoo = "table_factory=CuckooTable";
    let cases = [
        (
            "table_factory=BlockBasedTable",
            "block_based_table_factory",
            "{block_size=8K}",
        ),
        (plain, "plain_table_factory", "{user_key_len=3}"),
        (cuckoo, "cuckoo_table_factory", "{cuckoo_block_size=3}"),
    ];
    for (family, ..) in cases {
        for (format, name, value) in cases {
            let mut options = FamilyOptions::from_text(family).unwrap();
            let before = options.to_text();
            let text = format!("{family};{name}={value}");
            let (member, number) = value
                .trim_matches(['{', '}'])
                .split_once('=')
                .expect("a member");
            let member = format!("{name}.{member}");
            let results = [
                FamilyOptions::from_text(&text).map(drop),
                options.clone().set_dynamic(&[(&member[..], number)]),
                options.set_dynamic(&[(name, value)]),
            ];
            for result in results {
                match result {
                    Ok(()) => assert_eq!(family, format, "{name}"),
                    Err(error) => {
                        assert_ne!(family, format, "{error}");
                        assert!(error.text().contains("another format"), "{error}");
                        assert_eq!(options.to_text(), before);
                    }
                }
            }
            // The tables are first given the format.
            let text = format!("{family};table_factory=BlockBasedTable;{format};{name}={value}");
            FamilyOptions::from_text(&text).unwrap();
        }
    }
}

#[test]
fn unknown_options_are_ignored_on_request() {
    let mut options = DbOptions::default();
    let unknown = options.update_from_known("max_open_files=9;of_the_future=1;another={a=b}");
    assert_eq!(unknown.unwrap(), ["of_the_future", "another"]);
    assert_eq!(options.max_open_files, 9);
    // As in RocksDB, an unknown value of a known option is ignored, too.
    let unknown = options.update_from_known("max_open_files=x;future=1;max_background_jobs=3");
    assert_eq!(unknown.unwrap(), ["max_open_files", "future"]);
    assert_eq!(
        (options.max_open_files, options.max_background_jobs),
        (9, 3)
    );
    assert!(options.update_from_known("max_open_files={").is_err());

    let mut options = FamilyOptions::default();
    let text = "compression_opts={level=7;of_the_future={a=b};strategy=2};ttl=9";
    let unknown = options.update_from_known(text);
    assert_eq!(unknown.unwrap(), ["compression_opts.of_the_future"]);
    assert_eq!(options.compression_opts.level, 7);
    assert_eq!(options.compression_opts.strategy, 2);
    assert_eq!(options.ttl, 9);
    let old = options.update_from_known("compression_opts=4:5:6");
    assert!(old.unwrap().is_empty());
    assert_eq!(options.compression_opts.level, 5);
    let wrong = options.update_from_known("compression_opts={level=seven;of_the_future=1}");
    assert_eq!(
        wrong.unwrap(),
        ["compression_opts.of_the_future", "compression_opts"]
    );
    assert_eq!(options.compression_opts.level, 5);
}
