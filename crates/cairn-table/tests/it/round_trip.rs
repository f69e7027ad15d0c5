//! Tables of random entries under random options are read back as written.

use std::cmp::Ordering;
use std::sync::Arc;

use cairn_compress::Compression;
use cairn_format::checksum::ChecksumKind;
use cairn_format::key;
use cairn_memory::{BlockCache, CacheOptions};
use cairn_options::{
    CompressionOptions, DataBlockIndexType, FamilyOptions, FilterPolicy, IndexShortening,
    IndexType, KeyCommonPrefix, Options as _, TableOptions,
};
use cairn_platform::Io;
use cairn_table::{BuildParams, IterOptions, OpenParams, TableIdentity, TableIter};
use cairn_types::{KeyOrder, PrefixExtractor, SequenceNumber, ValueKind};
use proptest::prelude::*;

use crate::world::{Entry, backward, build, forward, get, open};

pub fn entries_of(order: &KeyOrder, raw: Vec<(Vec<u8>, u64, Vec<u8>)>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = raw
        .into_iter()
        .map(|(mut user, seq, value)| {
            if order.timestamp_size() > 0 {
                user.extend_from_slice(&(seq % 3).to_le_bytes());
            }
            let kind = [ValueKind::Value, ValueKind::Merge, ValueKind::Deletion][seq as usize % 3];
            let mut key = Vec::new();
            key::append_internal(&mut key, &user, SequenceNumber(seq), kind);
            (key, value)
        })
        .collect();
    entries.sort_by(|a, b| key::compare(order, &a.0, &b.0));
    entries.dedup_by(|a, b| key::compare(order, &a.0, &b.0) == Ordering::Equal);
    entries
}

pub fn options() -> impl Strategy<Value = (TableOptions, Compression, CompressionOptions)> {
    let layout = (
        (
            prop_oneof![2 => 2u32..8, 1 => Just(8)],
            0u8..5,
            64u64..2000,
            1i32..20,
            1i32..9,
        ),
        prop::sample::select(vec![
            IndexType::BinarySearch,
            IndexType::HashSearch,
            IndexType::TwoLevelIndexSearch,
            IndexType::BinarySearchWithFirstKey,
        ]),
        prop::sample::select(vec![
            IndexShortening::NoShortening,
            IndexShortening::ShortenSeparators,
            IndexShortening::ShortenSeparatorsAndSuccessor,
        ]),
        (
            any::<bool>(),
            any::<bool>(),
            any::<bool>(),
            any::<bool>(),
            any::<bool>(),
            any::<bool>(),
            prop::sample::select(KeyCommonPrefix::ALL),
        ),
    );
    let filter = (
        prop::option::of(prop::bool::ANY),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        64u64..1000,
    );
    let codec = (
        prop::sample::select(vec![
            Compression::None,
            Compression::Snappy,
            Compression::Zlib,
            Compression::Bzip2,
            Compression::Lz4,
            Compression::Lz4hc,
            Compression::Zstd,
        ]),
        any::<bool>(),
    );
    (layout, filter, codec).prop_map(|(layout, filter, (mut compression, dictionary))| {
        let ((version, checksum, block_size, restarts, index_restarts), index, shortening, flags) =
            layout;
        let (policy, whole_keys, partitioned, decoupled, metadata) = filter;
        let (hashed, delta, apart, align, super_block, verify, (common_prefix, _)) = flags;
        let mut options = TableOptions {
            format_version: version,
            block_size,
            block_restart_interval: restarts,
            index_block_restart_interval: index_restarts,
            index_type: index,
            index_shortening: shortening,
            use_delta_encoding: delta,
            optimize_key_common_prefix: common_prefix,
            separate_key_value_in_data_block: apart,
            verify_compression: verify,
            whole_key_filtering: whole_keys,
            decouple_partitioned_filters: decoupled,
            metadata_block_size: metadata,
            partition_filters: partitioned && index == IndexType::TwoLevelIndexSearch,
            ..TableOptions::default()
        };
        options.checksum = ChecksumKind::from_u8(checksum).unwrap();
        if hashed {
            options.data_block_index_type = DataBlockIndexType::BinaryAndHash;
        }
        if align && block_size > 1000 {
            compression = Compression::None;
            options.block_align = true;
            options.block_size = 512;
        }
        if super_block {
            options.super_block_alignment_size = 4096;
            options.super_block_alignment_space_overhead_ratio = 16;
        }
        options.filter_policy = policy.map(|bloom| {
            if bloom {
                FilterPolicy::Bloom { bits_per_key: 10.0 }
            } else {
                FilterPolicy::Ribbon {
                    bloom_equivalent_bits_per_key: 10.0,
                    bloom_before_level: 0,
                }
            }
        });
        let codec = CompressionOptions {
            max_dict_bytes: if dictionary { 1000 } else { 0 },
            auto_skip: super_block && hashed,
            zstd_max_train_bytes: if dictionary && verify { 8000 } else { 0 },
            ..CompressionOptions::default()
        };
        (options, compression, codec)
    })
}

pub fn orders() -> impl Strategy<Value = KeyOrder> {
    prop::sample::select(vec![
        KeyOrder::Bytewise,
        KeyOrder::ReverseBytewise,
        KeyOrder::BytewiseU64Ts,
        crate::world::length_then_bytes(),
    ])
}

pub fn raw_entries() -> impl Strategy<Value = Vec<(Vec<u8>, u64, Vec<u8>)>> {
    let key = prop_oneof![
        prop::collection::vec(prop::sample::select(vec![0u8, 1, b'a', b'b', 0xff]), 0..6),
        (0u32..2000).prop_map(|n| format!("key{n:06}").into_bytes()),
    ];
    let value = prop::collection::vec(any::<u8>(), 0..40);
    prop::collection::vec((key, 1u64..200, value), 0..250)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_table_is_read_back_as_written(
        raw in raw_entries(),
        (options, compression, codec) in options(),
        order in orders(),
        prefix in prop::option::of(prop::bool::ANY),
        cached: bool,
        cache_metadata: bool,
        probes in prop::collection::vec((prop::sample::Index::arbitrary(), 0u64..201), 20),
    ) {
        let entries = entries_of(&order, raw);
        let extractor = prefix.map(|fixed| {
            if fixed { PrefixExtractor::Fixed(3) } else { PrefixExtractor::Capped(4) }
        });
        let options = TableOptions { cache_index_and_filter_blocks: cache_metadata, ..options };
        let options = Arc::new(options);
        let (bytes, stats) = build(
            BuildParams {
                options: options.clone(),
                order: order.clone(),
                compression,
                compression_options: codec,
                prefix_extractor: extractor.clone(),
                identity: TableIdentity {
            db_id: "a database".to_owned(),
            session_id: "ABCDEFGHIJKLMNOPQRST".to_owned(),
            ..TableIdentity::default()
        },
                ..BuildParams::default()
            },
            &entries,
            &[],
        ).unwrap();
        prop_assert_eq!(stats.properties.num_entries, entries.len() as u64);
        let cache = cached.then(|| Arc::new(BlockCache::new(1 << 20, CacheOptions::default())));
        let table = open(&bytes, OpenParams {
            order: order.clone(),
            options,
            prefix_extractor: extractor,
            cache,
            ..OpenParams::default()
        }).unwrap();
        prop_assert_eq!(table.properties(), &stats.properties);
        prop_assert_eq!(&forward(&table).unwrap(), &entries);
        let reversed: Vec<Entry> = entries.iter().rev().cloned().collect();
        prop_assert_eq!(backward(&table).unwrap(), reversed);
        table.verify_checksums(&Io::blocking()).unwrap();

        let io = Io::blocking();
        let mut iter = TableIter::new(table.clone(), IterOptions::default());
        for (index, seq) in probes {
            if entries.is_empty() {
                break;
            }
            let near = &entries[index.index(entries.len())].0;
            let mut user = key::user_key(near).to_vec();
            if order.timestamp_size() == 0 && seq % 4 == 0 {
                user.push(0);
            }
            let mut target = Vec::new();
            key::append_internal(&mut target, &user, SequenceNumber(seq), ValueKind::FOR_SEEK);
            let compare = |entry: &&Entry| key::compare(&order, &entry.0, &target);
            let step = iter.seek(&target);
            iter.complete(step, &io);
            let expected = entries.iter().find(|entry| compare(entry).is_ge());
            prop_assert_eq!(iter.valid().then(|| iter.key()), expected.map(|e| &e.0[..]));
            let step = iter.seek_for_prev(&target);
            iter.complete(step, &io);
            let expected = entries.iter().rev().find(|entry| compare(entry).is_le());
            prop_assert_eq!(iter.valid().then(|| iter.key()), expected.map(|e| &e.0[..]));

            let same = |other: &[u8]| {
                order.compare_without_timestamp(other, &user) == Ordering::Equal
            };
            let expected: Vec<(u64, Vec<u8>)> = entries
                .iter()
                .filter(|entry| same(key::user_key(&entry.0)) && compare(entry).is_ge())
                .map(|(key, value)| (key::sequence(key).0, value.clone()))
                .collect();
            prop_assert_eq!(get(&table, &user, seq).unwrap(), expected);
        }
    }
}

/// Writes tables of every format version for RocksDB's tools.
#[test]
fn tables_for_other_readers() {
    let Ok(dir) = std::env::var("CAIRN_TABLE_OUT") else {
        return;
    };
    let texts = [
        ("plain", "block_size=512"),
        (
            "two",
            "block_size=512;index_type=kTwoLevelIndexSearch;metadata_block_size=256;partition_filters=true;filter_policy=bloomfilter:10:false",
        ),
        (
            "coupled",
            "block_size=512;index_type=kTwoLevelIndexSearch;metadata_block_size=256;partition_filters=true;filter_policy=ribbonfilter:10;decouple_partitioned_filters=false",
        ),
        (
            "hash",
            "block_size=512;index_type=kHashSearch;data_block_index_type=kDataBlockBinaryAndHash;filter_policy=ribbonfilter:10",
        ),
        (
            "first",
            "block_size=512;index_type=kBinarySearchWithFirstKey;index_block_restart_interval=4;filter_policy=bloomfilter:10:false",
        ),
        (
            "align",
            "block_size=512;block_align=true;checksum=kxxHash64",
        ),
        (
            "short",
            "block_size=300;index_shortening=kShortenSeparatorsAndSuccessor;checksum=kCRC32c;index_block_restart_interval=8",
        ),
        (
            "super",
            "block_size=700;super_block_alignment_size=4096;super_block_alignment_space_overhead_ratio=8;checksum=kxxHash",
        ),
    ];
    for version in 2..=8 {
        for (name, text) in texts {
            for (compression, dictionary) in [
                (Compression::None, 0),
                (Compression::Lz4, 0),
                (Compression::Zlib, 2000),
                (Compression::Zstd, 2000),
                (Compression::Snappy, 0),
                (Compression::Lz4, 2000),
            ] {
                if name == "align" && compression != Compression::None {
                    continue;
                }
                let mut options: TableOptions = cairn_options::Options::from_text(text).unwrap();
                options.format_version = version;
                let raw = (0..2000u64)
                    .map(|n| {
                        (
                            format!("key{:06}", n * 7 % 1500).into_bytes(),
                            n + 1,
                            format!("value {n} {n}").into_bytes(),
                        )
                    })
                    .collect();
                let entries = entries_of(&KeyOrder::Bytewise, raw);
                let mut start = b"key000100".to_vec();
                start.extend_from_slice(&(3000u64 << 8 | 0xf).to_le_bytes());
                let (bytes, _) = build(
                    BuildParams {
                        options: Arc::new(options),
                        compression,
                        compression_options: CompressionOptions {
                            max_dict_bytes: dictionary,
                            zstd_max_train_bytes: dictionary * 8,
                            ..CompressionOptions::default()
                        },
                        prefix_extractor: Some(PrefixExtractor::Fixed(5)),
                        identity: TableIdentity {
                            db_id: "a database".to_owned(),
                            session_id: "ABCDEFGHIJKLMNOPQRST".to_owned(),
                            family_id: 0,
                            family_name: "default".to_owned(),
                            ..TableIdentity::default()
                        },
                        ..BuildParams::default()
                    },
                    &entries,
                    &[(start, b"key000200".to_vec())],
                )
                .unwrap();
                let path = format!("{dir}/{name}_{version}_{compression}_{dictionary}.sst");
                std::fs::write(path, bytes).unwrap();
            }
        }
    }
}

/// Aligned blocks have at most the size of their alignment, so that none takes two places, super blocks are padded as far as
/// the ratio allows, and each block of size 0 has one entry.
#[test]
fn blocks_keep_their_alignment() {
    let entries: Vec<Entry> = (0..300_u32)
        .map(|n| {
            let mut internal = Vec::new();
            let user = n.to_be_bytes();
            key::append_internal(&mut internal, &user, SequenceNumber(1), ValueKind::Value);
            (internal, vec![b'v'; 1500])
        })
        .collect();
    let size = |text: &str| {
        let text = format!("block_based_table_factory={{{text}}}");
        let family = FamilyOptions::from_text(&text).unwrap();
        let params = BuildParams {
            options: Arc::new(family.table),
            compression: Compression::None,
            ..BuildParams::default()
        };
        let (bytes, stats) = build(params, &entries, &[]).unwrap();
        let table = open(&bytes, OpenParams::default()).unwrap();
        assert_eq!(forward(&table).unwrap(), entries);
        (stats.properties.num_data_blocks, stats.properties.data_size)
    };
    assert_eq!(size("block_size=4096;block_align=true"), (150, 150 * 4096));
    // As in RocksDB, a deviation of 100 % means that blocks are closed once they have their size.
    assert_eq!(size("block_size=4096;block_size_deviation=100").0, 100);
    assert_eq!(size("block_size=0").0, 300);
    let plain = size("block_size=4096");
    let aligned = "block_size=4096;super_block_alignment_size=16384;super_block_alignment_space_overhead_ratio";
    assert_eq!(size(&format!("{aligned}=0")), plain);
    let padded = size(&format!("{aligned}=4"));
    assert!(
        padded.1 > plain.1 && padded.1 < plain.1 / 3 * 4,
        "{padded:?}"
    );
}
