//! Memory of files, open tables and compaction outputs, in bytes per file, as counted by the allocator.
//!
//! A database of 10,000 small files stays within a memory budget only if these bytes are few, and charged.

use std::path::Path;
use std::sync::Arc;

use cairn_db::{Db, OpenRequest, open};
use cairn_memory::{MemoryBudget, MemoryUse};
use cairn_options::{BottommostLevelCompaction, CompactRangeOptions, DbOptions, FamilyOptions};
use cairn_platform::World;

use crate::memory_limit::{live, peak_of};

/// The number of entries, of a kilobyte each.
const ENTRIES: u32 = 4_000;

/// The least number of files.
const FILES: usize = 600;

/// Bound on the memory of the metadata of a file, and of its part of a version, in bytes.
const METADATA: usize = 600;

/// Bound on the memory of an open table outside of the block cache, in bytes.
const TABLE: usize = 2_600;

/// Bound on the memory of an output while the compaction runs and is installed, in bytes.
const OUTPUT: usize = 1_000;

/// Bound on the memory of an input and an output of a compaction with many inputs, beside the open tables, in bytes.
const REWRITTEN: usize = 800;

/// Memory of a compaction that does not depend on the number of its outputs, in bytes.
const COMPACTION: usize = 300 << 10;

/// Memory of an open database that does not depend on the number of files, in bytes.
const OPEN: usize = 100 << 10;

/// Memory of readers that does not depend on the number of tables, and of hash tables, which double, in bytes.
const READERS: usize = 160 << 10;

fn opened(path: &Path, budget: &Arc<MemoryBudget>) -> Db {
    let options = DbOptions {
        create_if_missing: true,
        memory_budget: Some(budget.clone()),
        ..DbOptions::default()
    };
    let family = FamilyOptions {
        target_file_size_base: 2 << 10,
        // A compaction may have all files as inputs.
        max_compaction_bytes: 1 << 30,
        disable_auto_compactions: true,
        ..FamilyOptions::default()
    };
    open(&OpenRequest {
        path,
        options: &options,
        families: &[],
        others: Some(&family),
        read_only: false,
        world: World::posix(),
    })
    .expect("it opens")
}

fn fill(db: &Db) {
    let mut state = 1_u32;
    for n in 0..ENTRIES {
        let noise = (0..250).flat_map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()
        });
        let value: Vec<u8> = noise.collect();
        db.put(format!("key{n:013}").as_bytes(), &value)
            .expect("it writes");
    }
    db.flush().expect("it flushes");
}

fn files(db: &Db) -> usize {
    db.live_files_metadata().len()
}

/// The bytes that `work` leaves allocated on this thread.
fn left_by(work: impl FnOnce()) -> usize {
    let before = live();
    work();
    usize::try_from(live() - before).expect("the work allocates")
}

#[test]
fn the_memory_of_files_and_open_tables_is_bounded_and_charged() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("db");
    let budget = MemoryBudget::new(64 << 20).expect("enough");
    let db = opened(&path, &budget);
    // A single table would be moved instead of rewritten.
    fill(&db);
    fill(&db);
    let peak = peak_of(|| {
        db.compact_range(None, None, &CompactRangeOptions::default())
            .expect("it compacts");
    });
    let count = files(&db);
    assert!(count >= FILES, "{count} files");
    assert!(
        peak < COMPACTION + count * OUTPUT,
        "{} bytes for an output",
        peak.saturating_sub(COMPACTION) / count
    );
    db.close().expect("it closes");
    drop(db);

    let mut db = None;
    let metadata = left_by(|| db = Some(opened(&path, &budget)));
    let db = db.expect("it opened");
    let charged = |what| budget.cache().charged(what);
    assert!(
        metadata < OPEN + count * METADATA,
        "{} bytes for the metadata of a file",
        metadata.saturating_sub(OPEN) / count
    );
    let files_charged = charged(MemoryUse::FileMetadata);
    assert!(
        files_charged + OPEN > metadata,
        "{files_charged} of {metadata} bytes are charged"
    );
    let tables = left_by(|| {
        for n in 0..ENTRIES {
            let found = db.get(format!("key{n:013}").as_bytes());
            assert!(found.expect("it reads").is_some());
        }
    });
    assert!(
        tables < READERS + count * TABLE,
        "{} bytes for an open table",
        tables.saturating_sub(READERS) / count
    );
    let tables_charged = charged(MemoryUse::TableReader);
    assert!(
        tables_charged + READERS > tables,
        "{tables_charged} of {tables} bytes are charged"
    );
    db.close().expect("it closes");
    drop(db);
    within_a_small_budget(&path, count);
}

/// A budget limits the open tables, and a compaction does not hold its inputs open.
fn within_a_small_budget(path: &Path, count: usize) {
    let budget = MemoryBudget::new(MemoryBudget::smallest()).expect("enough");
    let db = opened(path, &budget);
    let limit = budget.open_tables();
    assert!(limit + 100 < count, "{limit} of {count} tables may be open");
    let read_all = || {
        for n in 0..ENTRIES {
            let found = db.get(format!("key{n:013}").as_bytes());
            assert!(found.expect("it reads").is_some());
        }
        let charged = budget.cache().charged(MemoryUse::TableReader);
        assert!(
            (limit / 2 * TABLE / 2..limit * TABLE).contains(&charged),
            "{charged} bytes for {limit} open tables"
        );
    };
    read_all();
    read_all();
    let every_file = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    let peak = peak_of(|| {
        db.compact_range(None, None, &every_file)
            .expect("it compacts");
    });
    assert!(
        peak < COMPACTION + count * REWRITTEN,
        "{} bytes for a file",
        peak.saturating_sub(COMPACTION) / count
    );
    // The new tables take the places of those that are gone.
    read_all();
    db.close().expect("it closes");
}
