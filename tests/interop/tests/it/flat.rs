//! Databases with PlainTables and CuckooTables, written by both engines in turns.

use std::collections::BTreeMap;
use std::path::Path;

use cairn::{CompactRangeOptions, Options};
use cairn_bench::rocksdb::{Db, Library, OpenMode};

/// Table options, and whether the keys and values may have any size, so that there are also merges.
const SHAPES: [(&str, bool); 8] = [
    (
        "prefix_extractor=fixed:4;table_factory={id=PlainTable}",
        true,
    ),
    (
        "prefix_extractor=fixed:4;table_factory={id=PlainTable;encoding_type=kPrefix;\
         index_sparseness=3;store_index_in_file=true}",
        true,
    ),
    (
        "prefix_extractor=fixed:4;bloom_locality=1;table_factory={id=PlainTable;\
         store_index_in_file=true;hash_table_ratio=0.5;bloom_bits_per_key=7}",
        true,
    ),
    (
        "table_factory={id=PlainTable;hash_table_ratio=0;store_index_in_file=true}",
        true,
    ),
    (
        "table_factory={id=PlainTable;hash_table_ratio=0;user_key_len=9}",
        false,
    ),
    ("table_factory={id=CuckooTable}", false),
    (
        "table_factory={id=CuckooTable;use_module_hash=false;identity_as_first_hash=true;\
         cuckoo_block_size=1}",
        false,
    ),
    (
        "table_factory={id=CuckooTable;hash_table_ratio=0.5;max_search_depth=2}",
        false,
    ),
];

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// A change: a put, a merge, or a deletion.
enum Change {
    Put(Vec<u8>, Vec<u8>),
    Merge(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
}

/// The changes of a round.
fn changes(round: u32, is_free: bool) -> Vec<Change> {
    let mut changes = Vec::new();
    for n in 0..300u32 {
        let n = (n * 37 + round * 11) % 400;
        let mut key = format!("p{:02}:{n:05}", n % 7).into_bytes();
        let mut value = format!("{round:03} {n:05}").into_bytes();
        if is_free {
            key.extend(std::iter::repeat_n(b'k', (n % 5) as usize));
            value.extend(std::iter::repeat_n(b'v', (n % 70) as usize));
        }
        changes.push(match (n + round) % 9 {
            0 => Change::Delete(key),
            1 if is_free => Change::Merge(key, b"more".to_vec()),
            _ => Change::Put(key, value),
        });
    }
    changes
}

fn apply(content: &mut Content, changes: &[Change]) {
    for change in changes {
        match change {
            Change::Put(key, value) => {
                content.insert(key.clone(), value.clone());
            }
            Change::Merge(key, operand) => {
                let value = content.entry(key.clone()).or_default();
                if !value.is_empty() {
                    value.push(b',');
                }
                value.extend_from_slice(operand);
            }
            Change::Delete(key) => {
                content.remove(key);
            }
        }
    }
}

fn text(shape: &str) -> String {
    format!("merge_operator=stringappend;compression=kNoCompression;{shape}")
}

/// Writes a round with RocksDB, and reads everything before and after.
fn rocksdb(
    library: &Library,
    path: &Path,
    shape: &str,
    (round, is_free): (u32, bool),
    content: &mut Content,
) {
    let families = [("default", &*text(shape))];
    let options = "allow_mmap_reads=true";
    let db = Db::open(library, path, options, &families, OpenMode::Create)
        .unwrap_or_else(|error| panic!("{shape}: {error}"));
    let family = db.family("default").unwrap();
    let check = |content: &Content, when: &str| {
        let mut found = Content::new();
        let mut iter = db.iter(family);
        iter.seek_to_first();
        while iter.valid() {
            found.insert(iter.key().to_vec(), iter.value().to_vec());
            iter.next();
        }
        iter.status().unwrap();
        assert!(found == *content, "RocksDB, {shape}, round {round}, {when}");
        for (key, value) in content {
            let got = db.get(family, key).unwrap();
            assert_eq!(got.as_deref(), Some(&value[..]), "RocksDB, {shape}, {when}");
        }
        assert!(db.get(family, b"p00:absent").unwrap().is_none());
    };
    check(content, "opened");
    let changes = changes(round, is_free);
    for change in &changes {
        match change {
            Change::Put(key, value) => db.put(family, key, value),
            Change::Merge(key, operand) => db.merge(family, key, operand),
            Change::Delete(key) => db.delete(family, key),
        }
        .unwrap();
    }
    apply(content, &changes);
    db.flush(family).unwrap();
    check(content, "flushed");
    if round % 4 == 2 {
        db.compact(family);
        check(content, "compacted");
    }
}

fn cairn_round(path: &Path, shape: &str, (round, is_free): (u32, bool), content: &mut Content) {
    let options = Options::default().create_if_missing(true);
    let options = options.text(&text(shape)).unwrap();
    let db = cairn::Db::open(path, &options).unwrap_or_else(|error| panic!("{shape}: {error}"));
    let check = |content: &Content, when: &str| {
        let mut found = Content::new();
        let mut iter = db.iter();
        iter.seek_to_first();
        while iter.valid() {
            found.insert(iter.key().to_vec(), iter.value().to_vec());
            iter.next();
        }
        iter.status().unwrap();
        assert!(found == *content, "Cairn, {shape}, round {round}, {when}");
        for (key, value) in content {
            let got = db.get(key).unwrap();
            assert_eq!(got.as_deref(), Some(&value[..]), "Cairn, {shape}, {when}");
        }
        assert!(db.get(b"p00:absent").unwrap().is_none());
    };
    check(content, "opened");
    let changes = changes(round, is_free);
    for change in &changes {
        match change {
            Change::Put(key, value) => db.put(key, value),
            Change::Merge(key, operand) => db.merge(key, operand),
            Change::Delete(key) => db.delete(key),
        }
        .unwrap();
    }
    apply(content, &changes);
    db.flush().unwrap();
    check(content, "flushed");
    if round % 4 == 3 {
        db.compact_range(None, None, &CompactRangeOptions::default())
            .unwrap();
        check(content, "compacted");
    }
    db.verify_checksum(&Default::default()).unwrap();
}

#[test]
fn engines_alternate_on_tables_without_blocks() {
    let Some(library) = crate::library() else {
        return;
    };
    for (shape, is_free) in SHAPES {
        for first in [0, 1] {
            let folder = tempfile::tempdir().unwrap();
            let mut content = Content::new();
            for round in 0..5 {
                if (round + first) % 2 == 0 {
                    rocksdb(
                        &library,
                        folder.path(),
                        shape,
                        (round, is_free),
                        &mut content,
                    );
                } else {
                    cairn_round(folder.path(), shape, (round, is_free), &mut content);
                }
            }
        }
    }
}

/// A database changes its table format, and has files of all.
#[test]
fn a_database_may_have_tables_of_all_formats() {
    let Some(library) = crate::library() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut content = Content::new();
    let shapes = [
        "disable_auto_compactions=true;table_factory={id=PlainTable;hash_table_ratio=0}",
        "disable_auto_compactions=true;table_factory={id=CuckooTable}",
        "disable_auto_compactions=true;table_factory={id=BlockBasedTable}",
        "disable_auto_compactions=true;table_factory={id=PlainTable;hash_table_ratio=0;user_key_len=9}",
    ];
    for (round, shape) in (0..).zip(shapes) {
        cairn_round(folder.path(), shape, (4 * round, false), &mut content);
    }
    // RocksDB reads files of one format, so that a compaction has to rewrite the others.
    cairn_round(folder.path(), shapes[1], (3, false), &mut content);
    rocksdb(&library, folder.path(), shapes[1], (1, false), &mut content);
}
