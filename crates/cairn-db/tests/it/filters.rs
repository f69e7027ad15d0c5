//! Compaction filters in a whole database.

use std::path::Path;
use std::sync::Arc;

use cairn_db::{Db, OpenRequest, open};
use cairn_options::{BottommostLevelCompaction, CompactRangeOptions, FamilyOptions, Options};
use cairn_platform::World;
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

/// Filters every table, and checks what it is told.
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

pub fn open_with(world: &World, family: &FamilyOptions) -> cairn_types::Result<Db> {
    open(&OpenRequest {
        path: Path::new("/db"),
        options: &db_options(),
        families: &[],
        others: Some(family),
        read_only: false,
        world: world.clone(),
    })
}

fn filter(ignore_snapshots: bool) -> Arc<dyn CompactionFilter> {
    Arc::new(DropX { ignore_snapshots })
}

/// A filter works in compactions, not in flushes, and a manual compaction rewrites the bottom for
/// its sake.
#[test]
fn a_filter_sees_compactions_only() {
    let family = FamilyOptions {
        compaction_filter: filter(true).into(),
        ..small()
    };
    // Files that would only have to move are not spared either.
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
fn a_filter_that_spares_snapshots_fails_its_compaction() {
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

/// An OPTIONS file may name a filter that this program does not have: it can be read, but a
/// writer would compact without the filter.
#[test]
fn a_filter_that_only_a_text_names_is_refused() {
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
