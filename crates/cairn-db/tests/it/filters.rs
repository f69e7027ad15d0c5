//! Compaction filters in a database.

use std::path::Path;
use std::sync::Arc;

use cairn_db::{Db, OpenRequest, open};
use cairn_observe::listener::{CompactionJobInfo, CompactionJobStats, EventListener};
use cairn_options::{BottommostLevelCompaction, CompactRangeOptions, FamilyOptions, Options};
use cairn_platform::World;
use cairn_platform::sync::Mutex;
use cairn_types::{
    Code, CompactionFilter, CompactionFilterFactory, FilterContext, FilterDecision, FilterValue,
    TableFileCreationReason,
};

use crate::basic::{db_options, small};

struct DropX {
    ignore_snapshots: bool,
}

impl CompactionFilter for DropX {
    fn name(&self) -> &str {
        "drop-x"
    }

    fn filter(&self, _: usize, _: &[u8], value: FilterValue<'_>) -> FilterDecision {
        match value {
            FilterValue::Value(value) if value.starts_with(b"x") => FilterDecision::Remove,
            _ => FilterDecision::Keep,
        }
    }

    fn ignore_snapshots(&self) -> bool {
        self.ignore_snapshots
    }
}

/// Filters every table, and checks the context that it gets.
struct Always;

impl CompactionFilterFactory for Always {
    fn name(&self) -> &str {
        "always"
    }

    fn should_filter_table_file_creation(&self, _: TableFileCreationReason) -> bool {
        true
    }

    fn create(&self, context: &FilterContext) -> Option<Arc<dyn CompactionFilter>> {
        let flush = context.reason == TableFileCreationReason::Flush;
        assert_eq!(context.input_start_level.is_none(), flush);
        Some(Arc::new(DropX {
            ignore_snapshots: true,
        }))
    }
}

/// Keeps the counts of compactions.
#[derive(Default)]
struct Counted(Mutex<Vec<CompactionJobStats>>);

impl EventListener for Counted {
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        self.0.lock().push(info.stats);
    }
}

/// Skips all keys up to one that does not exist.
struct SkipAll;

impl CompactionFilter for SkipAll {
    fn name(&self) -> &str {
        "skip-all"
    }

    fn filter(&self, _: usize, _: &[u8], _: FilterValue<'_>) -> FilterDecision {
        FilterDecision::RemoveAndSkipUntil(b"z".to_vec())
    }
}

pub fn open_with(world: &World, family: &FamilyOptions) -> cairn_types::Result<Db> {
    open_told(world, family, &Arc::default())
}

fn open_told(
    world: &World,
    family: &FamilyOptions,
    counted: &Arc<Counted>,
) -> cairn_types::Result<Db> {
    let mut options = db_options();
    options.listeners.push(counted.clone());
    open(&OpenRequest {
        path: Path::new("/db"),
        options: &options,
        families: &[],
        others: Some(family),
        read_only: false,
        world: world.clone(),
    })
}

fn filter(ignore_snapshots: bool) -> Arc<dyn CompactionFilter> {
    Arc::new(DropX { ignore_snapshots })
}

/// A filter is applied by compactions, not by flushes, and a manual compaction rewrites the bottommost level
/// for it.
#[test]
fn a_filter_sees_compactions_only() {
    let family = FamilyOptions {
        compaction_filter: filter(true).into(),
        ..small()
    };
    // Files that would otherwise only be moved are rewritten as well.
    for bottom in [
        BottommostLevelCompaction::IfHaveCompactionFilter,
        BottommostLevelCompaction::Skip,
    ] {
        let db = open_with(&World::in_memory(), &family).unwrap();
        db.put(b"a", b"x1").unwrap();
        db.put(b"b", b"kept").unwrap();
        db.flush().unwrap();
        assert!(db.get(b"a").unwrap().is_some());
        let options = CompactRangeOptions {
            bottommost_level_compaction: bottom,
            ..CompactRangeOptions::default()
        };
        db.compact_range(None, None, &options).unwrap();
        assert!(db.get(b"a").unwrap().is_none(), "{bottom:?}");
        assert_eq!(db.get(b"b").unwrap().as_deref(), Some(&b"kept"[..]));
        assert_eq!(db.property("rocksdb.num-files-at-level0").unwrap(), "0");
    }
}

#[test]
fn a_factory_may_filter_flushes_too() {
    let family = FamilyOptions {
        compaction_filter_factory: (Arc::new(Always) as Arc<dyn CompactionFilterFactory>).into(),
        ..small()
    };
    let db = open_with(&World::in_memory(), &family).unwrap();
    db.put(b"a", b"x1").unwrap();
    db.put(b"b", b"kept").unwrap();
    db.flush().unwrap();
    assert!(db.get(b"a").unwrap().is_none());
    assert!(db.get(b"b").unwrap().is_some());
}

#[test]
fn a_filter_that_respects_snapshots_fails_its_compaction() {
    let family = FamilyOptions {
        compaction_filter: filter(false).into(),
        ..small()
    };
    let db = open_with(&World::in_memory(), &family).unwrap();
    db.put(b"a", b"x1").unwrap();
    let error = db
        .compact_range(None, None, &CompactRangeOptions::default())
        .unwrap_err();
    assert_eq!(error.code(), Code::NotSupported);
}

/// An OPTIONS file may name a filter that the program does not have: the database can be opened read-only,
/// but a writer would compact without the filter.
#[test]
fn a_filter_known_only_by_name_is_rejected() {
    let mut family = small();
    family.set("compaction_filter_factory", "theirs").unwrap();
    assert_eq!(family.get("compaction_filter_factory").unwrap(), "theirs");
    let error = open_with(&World::in_memory(), &family).err().unwrap();
    assert_eq!(error.code(), Code::NotSupported);
    assert!(
        error.text().contains("compaction_filter_factory"),
        "{error}"
    );
}

#[test]
fn skipped_keys_are_not_counted_and_the_count_is_marked_inexact() {
    let counted = Arc::new(Counted::default());
    let family = FamilyOptions {
        compaction_filter: (Arc::new(SkipAll) as Arc<dyn CompactionFilter>).into(),
        disable_auto_compactions: true,
        ..small()
    };
    let db = open_told(&World::in_memory(), &family, &counted).unwrap();
    for n in 0..300 {
        db.put(format!("k{n:03}").as_bytes(), b"v").unwrap();
    }
    db.flush().unwrap();
    let whole = CompactRangeOptions::default();
    db.compact_range(None, None, &whole).unwrap();
    assert!(db.get(b"k299").unwrap().is_none());
    let stats = counted.0.lock().pop().unwrap();
    assert!(stats.input_records_inexact && stats.num_input_records < 300);
    assert_eq!(
        (
            stats.total_input_raw_key_bytes,
            stats.total_input_raw_value_bytes
        ),
        (300 * (4 + 8), 300),
        "of the whole table"
    );
}

#[test]
fn blobs_read_for_a_filter_are_counted() {
    let counted = Arc::new(Counted::default());
    let family = FamilyOptions {
        compaction_filter: filter(true).into(),
        disable_auto_compactions: true,
        enable_blob_files: true,
        ..small()
    };
    let db = open_told(&World::in_memory(), &family, &counted).unwrap();
    db.put(b"a", b"x gone").unwrap();
    db.put(b"b", b"kept").unwrap();
    db.flush().unwrap();
    let whole = CompactRangeOptions::default();
    db.compact_range(None, None, &whole).unwrap();
    let stats = counted.0.lock().pop().unwrap();
    assert_eq!((stats.num_input_records, stats.num_output_records), (2, 1));
    assert!(!stats.input_records_inexact);
    assert_eq!(stats.num_blobs_read, 2);
    // A record has a header of 32 bytes and the key.
    assert_eq!(stats.total_blob_bytes_read, 2 * (32 + 1) + 6 + 4);
}
