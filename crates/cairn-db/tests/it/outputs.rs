//! Tables written by compactions: boundaries, properties, marks, filters, sizes.

use std::sync::Arc;

use cairn_db::Db;
use cairn_options::{
    CompactRangeOptions, FamilyOptions, FixedPrefixPartitions, Options, WaitForCompactOptions,
};
use cairn_platform::World;
use cairn_platform::fs::FileMode;
use cairn_types::{
    Code, CollectorContext, Result, SequenceNumber, SstPartitionerFactory,
    TablePropertiesCollector, TablePropertiesCollectorFactory, ValueKind,
};

use crate::basic::small;
use crate::controls::files;
use crate::filters::open_with;

fn compacted(db: &Db) {
    db.compact_range(None, None, &CompactRangeOptions::default())
        .expect("a compaction");
}

fn peace(db: &Db) {
    db.wait_for_compact(&WaitForCompactOptions::default())
        .expect("peace");
}

#[test]
fn tables_end_where_the_prefix_changes() {
    let factory: Arc<dyn SstPartitionerFactory> = Arc::new(FixedPrefixPartitions::new(2));
    let family = FamilyOptions {
        disable_auto_compactions: true,
        sst_partitioner_factory: factory.into(),
        ..small()
    };
    let text = family.get("sst_partitioner_factory").unwrap();
    assert_eq!(text, "{id=SstPartitionerFixedPrefixFactory;length=2;}");
    let mut again = small();
    again.set("sst_partitioner_factory", &text).unwrap();
    assert!(again.check_supported().is_ok());

    let db = open_with(&World::in_memory(), &family).unwrap();
    for key in ["aa1", "aa2", "ab1", "b", "ba1"] {
        db.put(key.as_bytes(), b"v").unwrap();
    }
    db.flush().unwrap();
    assert_eq!(files(&db, 7)[0], 1);
    // A single table, which a compaction would otherwise only move; but it has a prefix boundary.
    compacted(&db);
    assert_eq!(files(&db, 7).iter().sum::<u64>(), 4);
}

struct CountMerges(u64);

impl TablePropertiesCollector for CountMerges {
    fn add(
        &mut self,
        _: &[u8],
        _: &[u8],
        kind: ValueKind,
        _: SequenceNumber,
        _: u64,
    ) -> Result<()> {
        self.0 += u64::from(kind == ValueKind::RangeDeletion);
        Ok(())
    }

    fn finish(&mut self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        Ok(vec![(
            b"example.ranges".to_vec(),
            self.0.to_string().into(),
        )])
    }

    fn need_compact(&self) -> bool {
        self.0 > 0
    }
}

struct CountMergesFactory;

impl TablePropertiesCollectorFactory for CountMergesFactory {
    fn name(&self) -> &str {
        "example.CountMerges"
    }

    fn create(&self, context: &CollectorContext) -> Option<Box<dyn TablePropertiesCollector>> {
        assert_eq!(context.num_levels, 7);
        Some(Box::new(CountMerges(0)))
    }
}

/// A table marked by its collector is compacted even if no other compaction is due.
#[test]
fn collectors_leave_properties_and_marks() {
    let mut family = small();
    family
        .table_properties_collector_factories
        .push(Arc::new(CountMergesFactory));
    let db = open_with(&World::in_memory(), &family).unwrap();
    db.put(b"a", b"1").unwrap();
    db.flush().unwrap();
    peace(&db);
    assert_eq!(files(&db, 7)[0], 1);
    db.delete_range(b"a", b"b").unwrap();
    db.put(b"c", b"1").unwrap();
    db.flush().unwrap();
    peace(&db);
    assert_eq!(files(&db, 7)[0], 0);
    assert!(db.get(b"a").unwrap().is_none() && db.get(b"c").unwrap().is_some());
}

/// A queue: everything is written once and deleted once. Its tables trigger compactions, unless that is
/// disabled.
#[test]
fn tables_dense_with_deletions_are_compacted() {
    for own in [true, false] {
        let family = FamilyOptions {
            deletion_triggered_compaction: own,
            write_buffer_size: 4 << 20,
            ..FamilyOptions::default()
        };
        let db = open_with(&World::in_memory(), &family).unwrap();
        for n in 0..10_000_u32 {
            db.put(format!("job {n:06}").as_bytes(), b"payload")
                .unwrap();
        }
        db.flush().unwrap();
        for n in 0..9_000_u32 {
            db.delete(format!("job {n:06}").as_bytes()).unwrap();
        }
        db.flush().unwrap();
        peace(&db);
        let left = db.property_number("rocksdb.estimate-num-keys").unwrap();
        let level_zero = files(&db, 7)[0];
        match own {
            true => assert_eq!((level_zero, left), (0, 1000)),
            false => assert_eq!(level_zero, 2),
        }
    }
}

#[test]
fn a_released_snapshot_allows_its_entries_to_be_dropped() {
    let db = open_with(&World::in_memory(), &small()).unwrap();
    db.put(b"a", b"old").unwrap();
    let snapshot = db.snapshot();
    db.put(b"a", b"new").unwrap();
    db.flush().unwrap();
    compacted(&db);
    assert_eq!(db.property_number("rocksdb.estimate-num-keys"), Some(2));
    // Files are old once newer entries have been written.
    db.put(b"z", b"in memory").unwrap();
    assert_eq!(db.property_number("rocksdb.estimate-num-keys"), Some(3));
    // Nothing is flushed: the release alone starts the compaction.
    drop(snapshot);
    peace(&db);
    assert_eq!(db.property_number("rocksdb.estimate-num-keys"), Some(2));
}

#[test]
fn no_table_exceeds_its_target_size_if_that_is_a_limit() {
    for strict in [true, false] {
        let family = FamilyOptions {
            target_file_size_is_upper_bound: strict,
            target_file_size_base: 40 << 10,
            disable_auto_compactions: true,
            compression: cairn_options::Compression::None,
            ..small()
        };
        let world = World::in_memory();
        let db = open_with(&world, &family).unwrap();
        for n in 0..4000_u32 {
            db.put(format!("key{n:06}").as_bytes(), &[b'v'; 60])
                .unwrap();
        }
        db.flush().unwrap();
        // Keys that are written twice cannot be moved unchanged.
        db.put(b"key000000", b"again").unwrap();
        db.put(b"key003999", b"again").unwrap();
        db.flush().unwrap();
        compacted(&db);
        let names = world.fs.list("/db".as_ref()).unwrap();
        let sizes = names
            .iter()
            .filter(|name| name.ends_with(".sst"))
            .map(|name| {
                let path = format!("/db/{name}");
                let file = world.fs.open(path.as_ref(), FileMode::default()).unwrap();
                file.len().unwrap()
            });
        let largest = sizes.max().unwrap();
        assert_eq!(largest <= 40 << 10, strict, "{largest}");
    }
}

#[test]
fn mixing_single_deletions_with_deletions_fails_the_flush_that_detects_it() {
    let db = open_with(&World::in_memory(), &small()).unwrap();
    db.put(b"a", b"1").unwrap();
    db.delete(b"a").unwrap();
    db.single_delete(b"a").unwrap();
    let error = db.flush().unwrap_err();
    assert_eq!(error.code(), Code::Corruption);
    assert!(
        error.text().contains("enforce_single_del_contracts"),
        "{error}"
    );
}

/// Regression: deletions in tables were subtracted from the entries in memtables.
#[test]
fn deletions_in_tables_do_not_lower_the_estimate_of_keys_in_memory() {
    let db = open_with(&World::in_memory(), &small()).unwrap();
    for n in 0..100_u8 {
        db.delete(&[n]).unwrap();
    }
    db.flush().unwrap();
    for n in 0..50_u8 {
        db.put(&[n], b"x").unwrap();
    }
    let estimate = db.property_number("rocksdb.estimate-num-keys");
    assert_eq!(estimate, Some(50));
}
