//! RocksDB reads the golden databases as recorded: a test of the driver and of the recorded content.

use cairn_interop::content::{Content, difference};
use cairn_interop::engine::RocksDb;
use cairn_interop::workload::{Durable, Engine, Generator, Model};
use cairn_interop::{golden, reference};

/// A sample suffices, because the driver is tested and not RocksDB.
const SAMPLE: [&str; 5] = [
    "v1101_multi_cf",
    "v1101_value_types",
    "v1101_wal_zstd",
    "v0708_leveled",
    "v1101_rev_comparator",
];

#[test]
fn rocksdb_reads_golden_databases_as_recorded() {
    let Some(library) = crate::library() else {
        return;
    };
    for golden in golden::all()
        .into_iter()
        .filter(|g| SAMPLE.contains(&g.name.as_str()))
    {
        let folder = tempfile::tempdir().unwrap();
        golden.unpack(folder.path());
        let mut families = golden.families.clone();
        for (name, comparator) in &golden.comparators {
            assert_eq!(comparator, "rev");
            families
                .entry(name.clone())
                .or_default()
                .push_str(";comparator=rocksdb.ReverseBytewiseComparator");
        }
        let families: Vec<_> = families
            .iter()
            .map(|(n, t)| (n.as_str(), t.as_str()))
            .collect();
        let path = folder.path().join("db");
        let actual: Content = reference::dump(&library, &path, &golden.options, &families).unwrap();
        assert_eq!(
            difference(&golden.expected().unwrap(), &actual),
            None,
            "{}",
            golden.name
        );
    }
}

/// The map agrees with RocksDB, so that tests may use it to check Cairn.
#[test]
fn rocksdb_does_what_the_model_says() {
    if crate::library().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut model = Model::default();
    let mut generator = Generator::new(7);
    for _ in 0..3 {
        let path = folder.path().join("db");
        let mut rocksdb = RocksDb::open(&path, "", "write_buffer_size=65536").unwrap();
        let steps = generator.steps(1000);
        model.run(&steps);
        rocksdb.run(&steps);
        assert_eq!(
            difference(&rocksdb.shown(model.content()), &rocksdb.content()),
            None
        );
    }
}
