//! PlainTables and CuckooTables: built and read back, and byte for byte like those of RocksDB.
//!
//! RocksDB 11.1.1 wrote the tables in `testdata/flat`, except for their names with the options in [`WRITTEN`].

use std::fs;
use std::path::Path;
use std::sync::Arc;

use cairn_format::flat::FlatFormat;
use cairn_format::flat::cuckoo::CuckooLayout;
use cairn_format::flat::plain::{BLOOM_BLOCK, INDEX_BLOCK, PlainBloom, PlainIndex};
use cairn_format::key::{self, SUFFIX_LEN};
use cairn_memory::{BlockCache, CacheOptions};
use cairn_options::{FamilyOptions, Options, TableFormat};
use cairn_platform::Io;
use cairn_table::{BuildParams, IterOptions, OpenParams, Table, TableIter};
use cairn_types::{Code, KeyOrder, PrefixExtractor, SequenceNumber, ValueKind};
use proptest::prelude::*;

use crate::round_trip::orders;
use crate::world::{Entry, backward, build, forward, get, open};

/// Tables of RocksDB: the name, the options, and the number of entries.
const WRITTEN: [(&str, &str, u64); 10] = [
    (
        "plain_v1101",
        "prefix_extractor=fixed:4;table_factory={id=PlainTable}",
        120,
    ),
    (
        "plain_indexed",
        "prefix_extractor=fixed:4;\
         table_factory={id=PlainTable;store_index_in_file=true;index_sparseness=3}",
        150,
    ),
    (
        "plain_locality",
        "prefix_extractor=fixed:4;bloom_locality=1;table_factory={id=PlainTable;\
         store_index_in_file=true;hash_table_ratio=0.5;index_sparseness=0;bloom_bits_per_key=7}",
        137,
    ),
    (
        "plain_prefix",
        "prefix_extractor=fixed:4;table_factory={id=PlainTable;encoding_type=kPrefix;\
         store_index_in_file=true;index_sparseness=4;bloom_bits_per_key=0}",
        150,
    ),
    (
        "plain_fixed",
        "table_factory={id=PlainTable;user_key_len=9;hash_table_ratio=0;store_index_in_file=true}",
        137,
    ),
    (
        "cuckoo_mtrue_itrue",
        "table_factory={id=CuckooTable;hash_table_ratio=0.95;use_module_hash=true;\
         identity_as_first_hash=true;cuckoo_block_size=2;max_search_depth=3}",
        150,
    ),
    (
        "cuckoo_mtrue_ifalse",
        "table_factory={id=CuckooTable;hash_table_ratio=0.95;use_module_hash=true;\
         identity_as_first_hash=false;cuckoo_block_size=2;max_search_depth=3}",
        150,
    ),
    (
        "cuckoo_mfalse_itrue",
        "table_factory={id=CuckooTable;hash_table_ratio=0.95;use_module_hash=false;\
         identity_as_first_hash=true;cuckoo_block_size=2;max_search_depth=3}",
        150,
    ),
    (
        "cuckoo_mfalse_ifalse",
        "table_factory={id=CuckooTable;hash_table_ratio=0.95;use_module_hash=false;\
         identity_as_first_hash=false;cuckoo_block_size=2;max_search_depth=3}",
        150,
    ),
    ("cuckoo_last", "table_factory={id=CuckooTable}", 137),
];

fn written(name: &str) -> Vec<u8> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/flat");
    fs::read(here.join(format!("{name}.sst"))).unwrap()
}

fn build_params(options: &str) -> BuildParams {
    let family = FamilyOptions::from_text(options).unwrap();
    BuildParams {
        format: family.table_format(),
        prefix_extractor: family.prefix_extractor,
        ..BuildParams::default()
    }
}

#[test]
fn tables_of_rocksdb_are_read_and_built_again() {
    for (name, options, count) in WRITTEN {
        let bytes = written(name);
        let table = open(&bytes, OpenParams::default()).unwrap();
        let format = table.flat_format().unwrap();
        assert_eq!(
            format == FlatFormat::Plain,
            name.starts_with("plain"),
            "{name}"
        );
        assert_eq!(table.properties().num_entries, count, "{name}");
        table.verify_checksums(&Io::blocking()).unwrap();
        let entries = forward(&table).unwrap();
        assert_eq!(entries.len() as u64, count, "{name}");
        assert!(
            backward(&table).unwrap().iter().rev().eq(&entries),
            "{name}"
        );
        for (key, value) in &entries {
            let (user, seq) = (key::user_key(key), key::sequence(key).0);
            assert_eq!(
                get(&table, user, seq).unwrap().first(),
                Some(&(seq, value.clone()))
            );
        }
        assert_eq!(get(&table, b"p00:zz", 1 << 40).unwrap(), []);

        let (again, _) = build(build_params(options), &entries, &[]).unwrap();
        let rebuilt = open(&again, OpenParams::default()).unwrap();
        let size = table.properties().data_size as usize;
        assert_eq!(rebuilt.properties().data_size as usize, size, "{name}");
        assert!(again[..size] == bytes[..size], "{name}: entries");
        let part = |bytes: &[u8], table: &Table, part: &[u8]| {
            let handle = table.parts().find(part)?;
            let start = handle.offset as usize;
            Some(bytes[start..start + handle.size as usize].to_vec())
        };
        for block in [BLOOM_BLOCK, INDEX_BLOCK] {
            let (ours, theirs) = (part(&again, &rebuilt, block), part(&bytes, &table, block));
            assert!(ours == theirs, "{name}: {}", String::from_utf8_lossy(block));
        }
        // The properties that encode the layout.
        assert_eq!(
            rebuilt.properties().others,
            table.properties().others,
            "{name}"
        );
        assert_eq!(
            rebuilt.properties().fixed_key_len,
            table.properties().fixed_key_len,
            "{name}"
        );
        assert_eq!(
            rebuilt.properties().num_deletions,
            table.properties().num_deletions,
            "{name}"
        );
    }
}

/// The index and the filter of a PlainTable, and the hashes of a CuckooTable, lead RocksDB to every key.
#[test]
fn stored_indexes_lead_to_every_key() {
    for (name, options, _) in WRITTEN {
        let bytes = written(name);
        let table = open(&bytes, OpenParams::default()).unwrap();
        let entries = forward(&table).unwrap();
        let extractor = FamilyOptions::from_text(options).unwrap().prefix_extractor;
        if table.flat_format() == Some(FlatFormat::Cuckoo) {
            let layout = CuckooLayout::of(table.properties(), bytes.len() as u64).unwrap();
            for (key, _) in &entries {
                assert!(layout.find(&bytes, key::user_key(key)).unwrap().is_some());
            }
            assert_eq!(layout.find(&bytes, b"p00:zzzzz").unwrap(), None);
            continue;
        }
        let part = |name: &[u8]| {
            let handle = table.parts().find(name)?;
            let start = handle.offset as usize;
            Some(&bytes[start..start + handle.size as usize])
        };
        let Some(index) = part(INDEX_BLOCK) else {
            continue;
        };
        let index = PlainIndex::decode(index).unwrap();
        let lines = if name == "plain_locality" { 3 } else { 0 };
        let bloom = part(BLOOM_BLOCK).map(|bits| PlainBloom::decode(bits, lines).unwrap());
        for (key, _) in &entries {
            let user = key::user_key(key);
            let prefix = extractor
                .as_ref()
                .map_or(&[][..], |it| it.prefix(user).unwrap());
            assert!(!index.offsets(prefix).unwrap().is_empty(), "{name}");
            let hashed = if extractor.is_some() { prefix } else { user };
            assert!(
                bloom.as_ref().is_none_or(|bloom| bloom.may_contain(hashed)),
                "{name}"
            );
        }
    }
}

/// Any flipped byte yields an error or entries, never a panic. Nothing in these tables has a checksum.
#[test]
fn any_flipped_byte_is_survived() {
    for (name, _, _) in WRITTEN {
        let bytes = written(name);
        let tail = bytes.len() - 900;
        for at in (0..tail).step_by(97).chain((tail..bytes.len()).step_by(5)) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x41;
            let Ok(table) = open(&damaged, OpenParams::default()) else {
                continue;
            };
            let entries = forward(&table).unwrap();
            assert!(
                backward(&table).unwrap().iter().rev().eq(&entries),
                "{name}"
            );
        }
    }
}

#[test]
fn a_truncated_table_is_corrupt() {
    for (name, _, _) in WRITTEN {
        let bytes = written(name);
        // Without its first byte, every offset is wrong.
        let error = open(&bytes[1..], OpenParams::default()).err().unwrap();
        assert!(
            matches!(error.code(), Code::Corruption | Code::NotSupported),
            "{name}: {error}"
        );
    }
}

#[test]
fn prefixes_repeated_without_end_are_rejected() {
    let mut key = vec![b'k'; 30_000];
    let mut entries: Vec<Entry> = Vec::new();
    for n in 0..4000u32 {
        key.truncate(30_000);
        key.extend(n.to_be_bytes());
        let mut internal = Vec::new();
        key::append_internal(&mut internal, &key, SequenceNumber(1), ValueKind::Value);
        entries.push((internal, Vec::new()));
    }
    let options = "prefix_extractor=fixed:30000;\
                   table_factory={id=PlainTable;encoding_type=kPrefix;index_sparseness=0}";
    let (bytes, _) = build(build_params(options), &entries, &[]).unwrap();
    assert!(bytes.len() < 100_000);
    let error = open(&bytes, OpenParams::default()).err().unwrap();
    assert!(error.text().contains("16 times"), "{error}");
}

#[test]
fn what_a_format_cannot_store_is_an_error() {
    let entry = |user: &[u8], kind| {
        let mut key = Vec::new();
        key::append_internal(&mut key, user, SequenceNumber(3), kind);
        vec![(key, b"v".to_vec())]
    };
    let value = entry(b"k", ValueKind::Value);
    let refused = |options: &str, entries: &[Entry], tombstones: &[Entry]| {
        let error = build(build_params(options), entries, tombstones).unwrap_err();
        error.to_string()
    };
    let tombstone = entry(b"a", ValueKind::RangeDeletion);
    let total_order = "table_factory={id=PlainTable;hash_table_ratio=0}";
    for options in [total_order, "table_factory={id=CuckooTable}"] {
        let error = refused(options, &value, &tombstone);
        assert_eq!(error, "Not implemented: Range deletion unsupported");
    }
    for (options, entries, words) in [
        (
            "table_factory={id=PlainTable}",
            &value,
            "Not implemented: PlainTable requires a prefix extractor",
        ),
        (
            "table_factory={id=PlainTable;hash_table_ratio=0;encoding_type=kPrefix}",
            &value,
            "Invalid argument: encoding_type=kPrefix",
        ),
        (
            "table_factory={id=PlainTable;hash_table_ratio=0;user_key_len=3}",
            &value,
            "Not implemented: a user key of 1 bytes",
        ),
        (
            "table_factory={id=CuckooTable}",
            &entry(b"k", ValueKind::Merge),
            "Not implemented: Unsupported key type 2",
        ),
        (
            "table_factory={id=CuckooTable;hash_table_ratio=0}",
            &value,
            "Invalid argument: hash_table_ratio",
        ),
    ] {
        let error = refused(options, entries, &[]);
        assert!(error.starts_with(words), "{error}");
    }
    let two = [value, entry(b"kk", ValueKind::Value)].concat();
    let error = refused("table_factory={id=CuckooTable}", &two, &[]);
    assert_eq!(error, "Not implemented: all keys have to be the same size");
}

/// The blocks of the table are held, so that a scan has no use for a cache, and no request reads the file.
#[test]
fn reads_need_neither_the_file_nor_the_cache() {
    let cache = Arc::new(BlockCache::new(1 << 20, CacheOptions::default()));
    for (name, _, count) in WRITTEN {
        let params = OpenParams {
            cache: Some(cache.clone()),
            ..OpenParams::default()
        };
        let bytes = written(name);
        let table = open(&bytes, params).unwrap();
        assert!(table.memory_usage() > bytes.len() / 2, "{name}");
        let mut iter = TableIter::new(table, IterOptions::default());
        let mut progress = iter.seek_to_first();
        for _ in 0..count {
            assert!(
                progress == cairn_types::Progress::Ready && iter.valid(),
                "{name}"
            );
            progress = iter.next();
        }
        assert!(!iter.valid());
    }
    assert_eq!(cache.usage(), 0);
}

fn formats() -> impl Strategy<Value = String> {
    let plain = (
        prop::sample::select(vec!["kPlain", "kPrefix"]),
        prop::sample::select(vec![0, 1, 3, 16]),
        any::<bool>(),
        prop::sample::select(vec![0, 1, 10]),
        prop::sample::select(vec!["0.2", "0.75", "0"]),
    );
    prop_oneof![
        plain.prop_map(|(encoding, sparseness, stores, bits, ratio)| format!(
            "prefix_extractor=capped:2;table_factory={{id=PlainTable;encoding_type={encoding};\
             index_sparseness={sparseness};store_index_in_file={stores};\
             bloom_bits_per_key={bits};hash_table_ratio={ratio}}}"
        )),
        (any::<bool>(), any::<bool>(), 1..5u32).prop_map(|(module, identity, block)| format!(
            "table_factory={{id=CuckooTable;use_module_hash={module};hash_table_ratio=0.7;\
             identity_as_first_hash={identity};cuckoo_block_size={block}}}"
        )),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn tables_round_trip(
        options in formats(),
        users in prop::collection::btree_set(prop::array::uniform4(prop_oneof![Just(b'a'), any::<u8>()]), 0..400),
        seq in prop_oneof![Just(0u64), Just(9)],
        order in orders(),
    ) {
        let kinds = [ValueKind::Value, ValueKind::Value, ValueKind::Deletion];
        let mut entries: Vec<Entry> = Vec::new();
        for (user, kind) in users.iter().zip(kinds.iter().cycle()) {
            let mut key = user.to_vec();
            key.resize(key.len() + order.timestamp_size(), 0);
            let user = key.clone();
            key.clear();
            key::append_internal(&mut key, &user, SequenceNumber(seq), *kind);
            let value = match kind {
                ValueKind::Value => user[..3].to_vec(),
                _ => Vec::new(),
            };
            entries.push((key, value));
        }
        entries.sort_by(|a, b| key::compare(&order, &a.0, &b.0));
        let params = BuildParams { order: order.clone(), ..build_params(&options) };
        let is_cuckoo = matches!(params.format, TableFormat::Cuckoo(_));
        let (bytes, stats) = build(params, &entries, &[]).unwrap();
        prop_assert_eq!(stats.properties.num_entries, entries.len() as u64);
        let open_params = OpenParams {
            order: order.clone(),
            prefix_extractor: Some(PrefixExtractor::Capped(2)),
            ..OpenParams::default()
        };
        let table = open(&bytes, open_params).unwrap();
        prop_assert_eq!(forward(&table).unwrap(), entries.clone());
        prop_assert!(backward(&table).unwrap().iter().rev().eq(&entries));
        if order.timestamp_size() == 0 {
            for (key, value) in entries.iter().step_by(5) {
                let found = get(&table, &key[..key.len() - SUFFIX_LEN], seq).unwrap();
                prop_assert_eq!(&found, &vec![(seq, value.clone())]);
            }
            prop_assert_eq!(get(&table, b"zzzzzz", 100).unwrap(), vec![]);
        }
        if is_cuckoo {
            let layout = CuckooLayout::of(table.properties(), bytes.len() as u64).unwrap();
            for (key, _) in &entries {
                prop_assert!(layout.find(&bytes, key::user_key(key)).unwrap().is_some());
            }
        }
        if !entries.is_empty() && order.name() != KeyOrder::ReverseBytewise.name() {
            let wrong = OpenParams { order: KeyOrder::ReverseBytewise, ..OpenParams::default() };
            prop_assert_eq!(open(&bytes, wrong).err().unwrap().code(), Code::InvalidArgument);
        }
    }
}
