//! Properties: what a database says of itself under RocksDB's names.
//!
//! [`NAMES`] lists those that have an answer; others answer `None`.

use std::fmt::Write as _;

use crate::blob_numbers::{BlobNumbers, blob_cache};
use crate::family::FamilyState;
use crate::shared::{FamilyTree, Shared};
use crate::write::stall::Condition;
use cairn_read::View;

/// What a property is computed from.
struct Sources<'a> {
    shared: &'a Shared,
    family: &'a FamilyState,
    view: &'a View,
    /// Flushes and compactions that run in the whole database.
    running: (usize, usize),
    immutables: usize,
    flush_pending: bool,
    compaction_pending: bool,
    condition: Condition,
    min_log: u64,
}

type Number = fn(&Sources<'_>) -> u64;

/// Properties that are numbers.
const NUMBERS: &[(&str, Number)] = &[
    ("rocksdb.num-immutable-mem-table", |s| s.immutables as u64),
    ("rocksdb.mem-table-flush-pending", |s| {
        u64::from(s.flush_pending)
    }),
    ("rocksdb.num-running-flushes", |s| s.running.0 as u64),
    ("rocksdb.compaction-pending", |s| {
        u64::from(s.compaction_pending)
    }),
    ("rocksdb.num-running-compactions", |s| s.running.1 as u64),
    ("rocksdb.background-errors", |s| {
        u64::from(s.shared.failure.load().is_some())
    }),
    ("rocksdb.cur-size-active-mem-table", |s| {
        s.view.memtable.memory_usage() as u64
    }),
    ("rocksdb.cur-size-all-mem-tables", memtable_bytes),
    ("rocksdb.size-all-mem-tables", memtable_bytes),
    ("rocksdb.num-entries-active-mem-table", |s| {
        s.view.memtable.entries() as u64
    }),
    ("rocksdb.num-entries-imm-mem-tables", |s| {
        s.view
            .immutables
            .iter()
            .map(|memtable| memtable.entries() as u64)
            .sum()
    }),
    ("rocksdb.num-deletes-active-mem-table", |s| {
        s.view.memtable.deletions() as u64
    }),
    ("rocksdb.num-deletes-imm-mem-tables", |s| {
        s.view
            .immutables
            .iter()
            .map(|memtable| memtable.deletions() as u64)
            .sum()
    }),
    ("rocksdb.estimate-num-keys", estimate_keys),
    ("rocksdb.num-snapshots", |s| {
        s.shared.snapshots.count() as u64
    }),
    ("rocksdb.oldest-snapshot-sequence", |s| {
        s.shared.snapshots.oldest().map_or(0, |seq| seq.0)
    }),
    ("rocksdb.min-log-number-to-keep", |s| s.min_log),
    ("rocksdb.total-sst-files-size", |s| {
        live_table_bytes(s) + obsolete_table_bytes(s)
    }),
    ("rocksdb.live-sst-files-size", live_table_bytes),
    ("rocksdb.base-level", |s| {
        s.shared.base_level(s.family, s.view) as u64
    }),
    ("rocksdb.estimate-pending-compaction-bytes", |s| {
        s.shared.pending_bytes(s.family, s.view)
    }),
    ("rocksdb.actual-delayed-write-rate", |s| match s.condition {
        Condition::Delayed(_) => s.shared.throttle.rate(),
        _ => 0,
    }),
    ("rocksdb.is-write-stopped", |s| {
        u64::from(matches!(s.condition, Condition::Stopped(_)))
    }),
    ("rocksdb.block-cache-capacity", |s| {
        s.family.cache().map_or(0, |cache| cache.capacity() as u64)
    }),
    ("rocksdb.block-cache-usage", |s| {
        s.family.cache().map_or(0, |cache| cache.usage() as u64)
    }),
    ("rocksdb.num-blob-files", |s| {
        s.view.version.blob_files().len() as u64
    }),
    ("rocksdb.total-blob-file-size", |s| {
        s.shared.all_blob_bytes(s.view)
    }),
    ("rocksdb.live-blob-file-size", |s| {
        BlobNumbers::of(&s.view.version).bytes
    }),
    ("rocksdb.live-blob-file-garbage-size", |s| {
        BlobNumbers::of(&s.view.version).garbage
    }),
    ("rocksdb.blob-cache-capacity", |s| {
        blob_cache(s.view).map_or(0, |(capacity, _, _)| capacity)
    }),
    ("rocksdb.blob-cache-usage", |s| {
        blob_cache(s.view).map_or(0, |(_, usage, _)| usage)
    }),
    ("rocksdb.blob-cache-pinned-usage", |s| {
        blob_cache(s.view).map_or(0, |(_, _, pinned)| pinned)
    }),
];

fn memtable_bytes(s: &Sources<'_>) -> u64 {
    let waiting: usize = s
        .view
        .immutables
        .iter()
        .map(|memtable| memtable.memory_usage())
        .sum();
    (s.view.memtable.memory_usage() + waiting) as u64
}

fn live_table_bytes(s: &Sources<'_>) -> u64 {
    s.view.version.files().map(|(_, file)| file.size).sum()
}

fn obsolete_table_bytes(s: &Sources<'_>) -> u64 {
    let tree = s.shared.tree.lock();
    tree.obsolete_tables.iter().map(|(_, file)| file.size).sum()
}

/// Tables that are opened, at most, for an estimate.
const SAMPLED_TABLES: usize = 64;

/// Entries less twice the deletions: each deletion hides one entry and is none itself. Tables that
/// nobody has read yet count like those that were opened, by their size.
fn estimate_keys(s: &Sources<'_>) -> u64 {
    let (mut known, mut known_bytes, mut all_bytes) = ((0_u64, 0_u64), 0_u64, 0_u64);
    let mut to_sample = SAMPLED_TABLES;
    for (level, file) in s.view.version.files() {
        all_bytes += file.size;
        if file.counts.get().is_none() && to_sample > 0 {
            to_sample -= 1;
            // A table that cannot be opened says so when it is read; an estimate goes on.
            let _ = s.family.tables().open(file, level, &s.shared.io);
        }
        if let Some(counts) = file.counts.get() {
            known = (known.0 + counts.entries, known.1 + counts.deletions);
            known_bytes += file.size;
        }
    }
    let scale = |count: u64| match known_bytes {
        0 => 0,
        bytes => u128::from(count) * u128::from(all_bytes) / u128::from(bytes),
    };
    let scaled = |count| u64::try_from(scale(count)).unwrap_or(u64::MAX);
    let memtables = std::iter::once(&s.view.memtable).chain(&s.view.immutables);
    let in_memory = memtables.fold((0, 0), |sum: (u64, u64), memtable| {
        (
            sum.0 + memtable.entries() as u64,
            sum.1 + memtable.deletions() as u64,
        )
    });
    let entries = scaled(known.0).saturating_add(in_memory.0);
    entries.saturating_sub(2 * (scaled(known.1) + in_memory.1))
}

/// Properties that are texts; a number may follow the first.
const TEXTS: &[&str] = &[
    "rocksdb.num-files-at-level",
    "rocksdb.levelstats",
    "rocksdb.sstables",
    "rocksdb.blob-stats",
];

impl Shared {
    /// The names of the properties that have an answer.
    pub(crate) fn property_names() -> impl Iterator<Item = &'static str> {
        NUMBERS
            .iter()
            .map(|(name, _)| *name)
            .chain(TEXTS.iter().copied())
    }

    /// The property `name` of `family` as a number, if it is one.
    pub(crate) fn property_number(&self, family: &FamilyState, name: &str) -> Option<u64> {
        let (_, number) = NUMBERS.iter().find(|(known, _)| *known == name)?;
        let view = family.view.load_full();
        let (running, immutables, flush_pending, condition, min_log) = {
            let tree = self.tree.lock();
            let none = FamilyTree::new(Default::default());
            let state = tree.families.get(&family.id()).unwrap_or(&none);
            let pending = !state.immutables.is_empty() && !state.flushing;
            let min_log = tree.durable_min_log.0;
            (
                (tree.flushes, tree.compactions),
                state.immutables.len(),
                pending,
                tree.condition,
                min_log,
            )
        };
        let compaction_pending = self.wants_compaction(family, &view);
        Some(number(&Sources {
            shared: self,
            family,
            view: &view,
            running,
            immutables,
            flush_pending,
            compaction_pending,
            condition,
            min_log,
        }))
    }

    /// The property `name` of `family` as text.
    pub(crate) fn property_text(&self, family: &FamilyState, name: &str) -> Option<String> {
        if let Some(number) = self.property_number(family, name) {
            return Some(number.to_string());
        }
        let view = family.view.load_full();
        if let Some(level) = name.strip_prefix("rocksdb.num-files-at-level") {
            let level: usize = level.parse().ok()?;
            return Some(view.version.levels().get(level)?.len().to_string());
        }
        match name {
            "rocksdb.levelstats" => Some(level_stats(&view)),
            "rocksdb.sstables" => Some(tables(&view)),
            "rocksdb.blob-stats" => Some(BlobNumbers::of(&view.version).to_string()),
            _ => None,
        }
    }
}

fn level_stats(view: &View) -> String {
    let mut text = String::from("Level Files Size(MB)\n--------------------\n");
    for (level, files) in view.version.levels().iter().enumerate() {
        let megabytes = files.bytes() as f64 / f64::from(1 << 20);
        // Writing to a string does not fail.
        let _ = writeln!(text, "{level:>3} {:>8} {megabytes:>8.0}", files.len());
    }
    text
}

fn tables(view: &View) -> String {
    let mut text = String::new();
    for (level, files) in view.version.levels().iter().enumerate() {
        let _ = writeln!(text, "--- level {level} ---");
        for file in files.files() {
            let _ = writeln!(text, " {}:{}", file.number.0, file.size);
        }
    }
    text
}
