//! The estimate of read amplification: both engines count the same bytes for the same reads of the same table.

use std::path::Path;

use cairn::{Db, Options};
use cairn_bench::cairn_engine::CairnSource;
use cairn_bench::engine::{Cursor, Engine, Session, Settings, Source};

const OPTIONS: &str = "statistics=BasicStatistics;compression=kNoCompression;disable_auto_compactions=true;\
                       block_based_table_factory={read_amp_bytes_per_bit=16}";

const ENTRIES: u32 = 3_000;

fn key(n: u32) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

fn build(path: &Path) {
    let options = Options::default().create_if_missing(true);
    let db = Db::open(path, &options.text(OPTIONS).unwrap()).unwrap();
    for n in 0..ENTRIES {
        let len = 20 + n as usize * 7 % 90;
        db.put(&key(n), &vec![b'v'; len]).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
}

/// The bytes read and the useful bytes: after gets of every tenth key, of the same keys again, and after a scan.
fn counted(source: &impl Source, path: &Path) -> Vec<(u64, u64)> {
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
    let engine = source.open(path, OPTIONS, None).unwrap();
    let bytes = || {
        let text = engine.properties("rocksdb.options-statistics").concat();
        let ticker = |name| -> u64 {
            let start = format!("rocksdb.read.amp.{name} COUNT : ");
            let line = text.lines().find_map(|line| line.strip_prefix(&start));
            line.unwrap().parse().unwrap()
        };
        (ticker("total.read.bytes"), ticker("estimate.useful.bytes"))
    };
    let mut steps = Vec::new();
    for _ in 0..2 {
        let mut session = engine.session(&settings);
        for n in (0..ENTRIES).step_by(10) {
            session.get(&key(n), |_| Ok(())).unwrap();
        }
        steps.push(bytes());
    }
    let session = engine.session(&settings);
    let mut cursor = session.cursor();
    cursor.seek_to_first();
    while cursor.valid() {
        assert!(!cursor.value().is_empty());
        cursor.next();
    }
    steps.push(bytes());
    steps
}

#[test]
fn both_engines_count_the_same_bytes() {
    let Some(library) = crate::library() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    build(&path);
    let ours = counted(&CairnSource::default(), &path);
    let theirs = counted(&library, &path);
    println!("bytes read, useful bytes: {ours:?}, RocksDB's {theirs:?}");
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours.0, theirs.0);
        // Both begin their granules at random.
        assert!(ours.1.abs_diff(theirs.1) < theirs.1 / 20);
    }
    let [first, again, scanned] = ours[..] else {
        panic!("three steps");
    };
    assert!(first.1 > 0 && first == again && scanned.1 > first.0 * 9 / 10);
}
