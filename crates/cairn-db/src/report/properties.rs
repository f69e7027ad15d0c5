//! Properties of a database: RocksDB's, and Cairn's `cairn.cache` and `cairn.memory`.
//!
//! [`NUMBERS`] and [`TEXTS`] list the names; [`Shared::property_text`] returns their values.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::catalog::family::FamilyState;
use crate::db::Db;
use crate::db::handle::Family;
use crate::jobs::counts::JobKind;
use crate::report::blob_stats::{BlobStats, blob_cache};
use crate::report::stats_text::{Map, stall_text};
use crate::report::table_properties::{table_properties_map, table_properties_text};
use crate::shared::{FamilyTree, Shared};
use crate::write::stall::Condition;
use cairn_format::key::InternalKey;
use cairn_observe::event::hex;
use cairn_options::CompactionStyle;
use cairn_platform::sync::Ordering;
use cairn_read::View;
use cairn_version::FileMeta;

/// The state from which properties are computed.
struct PropertyInput<'a> {
    shared: &'a Shared,
    family: &'a FamilyState,
    view: &'a View,
    /// Unfinished flushes and compactions of the whole database.
    running: (usize, usize),
    immutables: usize,
    flush_pending: bool,
    condition: Condition,
    min_log: u64,
    /// Aborts of compactions in effect.
    aborts: u64,
    deletes_files: bool,
}

type Number = fn(&PropertyInput<'_>) -> u64;

/// Properties that are numbers.
const NUMBERS: &[(&str, Number)] = &[
    ("rocksdb.num-immutable-mem-table", |s| s.immutables as u64),
    ("rocksdb.mem-table-flush-pending", |s| {
        u64::from(s.flush_pending)
    }),
    ("rocksdb.num-running-flushes", |s| s.running.0 as u64),
    ("rocksdb.compaction-pending", |s| {
        u64::from(s.shared.wants_compaction(s.family, s.view))
    }),
    ("rocksdb.num-running-compactions", |s| s.running.1 as u64),
    ("rocksdb.num-running-remote-compactions", |s| {
        // Relaxed: a statistic.
        s.shared
            .telemetry
            .waiting_remotely()
            .load(Ordering::Relaxed) as u64
    }),
    // There is no thread pool of the lowest priority.
    ("rocksdb.num-running-bottom-compactions", |_| 0),
    ("rocksdb.background-errors", |s| {
        s.shared.errors.failed_jobs()
    }),
    ("rocksdb.cur-size-active-mem-table", |s| {
        s.view.memtable.memory_usage() as u64
    }),
    ("rocksdb.cur-size-all-mem-tables", memtable_bytes),
    ("rocksdb.size-all-mem-tables", |s| {
        memtable_bytes(s) + s.family.history().1 as u64
    }),
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
    ("rocksdb.num-immutable-mem-table-flushed", |s| {
        s.family.history().0 as u64
    }),
    ("rocksdb.num-running-compaction-sorted-runs", running_runs),
    ("rocksdb.num-unscheduled-compactions", |s| {
        let are_busy = s.running.1 >= s.shared.options().background_limits().1;
        u64::from(are_busy && s.shared.wants_compaction(s.family, s.view))
    }),
    ("rocksdb.compaction-abort-count", |s| s.aborts),
    ("rocksdb.estimate-table-readers-mem", |s| {
        let tables = s
            .view
            .version
            .files()
            .filter_map(|(_, file)| file.table.peek());
        tables.map(|table| table.memory_usage() as u64).sum()
    }),
    ("rocksdb.is-file-deletions-enabled", |s| {
        u64::from(s.deletes_files)
    }),
    ("rocksdb.oldest-snapshot-time", |s| {
        s.shared.catalog.snapshots.oldest_time()
    }),
    ("rocksdb.num-live-versions", |s| {
        s.family.live_versions() as u64
    }),
    ("rocksdb.current-super-version-number", |s| s.family.views()),
    ("rocksdb.estimate-live-data-size", live_data),
    ("rocksdb.min-obsolete-sst-number-to-keep", |s| {
        // A running job may be writing any file; without one, all obsolete tables may be deleted.
        if s.running == (0, 0) { u64::MAX } else { 0 }
    }),
    ("rocksdb.obsolete-sst-files-size", |s| {
        s.shared.catalog.deletions.table_bytes()
    }),
    ("rocksdb.block-cache-pinned-usage", |s| {
        s.family
            .cache()
            .map_or(0, |cache| cache.pinned_usage() as u64)
    }),
    ("rocksdb.num-snapshots", |s| {
        s.shared.catalog.snapshots.count() as u64
    }),
    ("rocksdb.oldest-snapshot-sequence", |s| {
        s.shared.catalog.snapshots.oldest().map_or(0, |seq| seq.0)
    }),
    ("rocksdb.min-log-number-to-keep", |s| s.min_log),
    ("rocksdb.total-sst-files-size", |s| {
        s.family.all_table_bytes(s.view)
    }),
    ("rocksdb.live-sst-files-size", live_table_bytes),
    ("rocksdb.base-level", |s| {
        match s.family.options().compaction_style {
            CompactionStyle::Level => s.shared.base_level(s.family, s.view) as u64,
            // RocksDB's -1.
            _ => u64::MAX,
        }
    }),
    ("rocksdb.estimate-pending-compaction-bytes", |s| {
        s.shared.pending_bytes(s.family, s.view)
    }),
    ("rocksdb.actual-delayed-write-rate", |s| match s.condition {
        Condition::Delayed(_) => {
            let families = s.shared.catalog.families();
            let delayed = families.iter().filter(|family| family.writes.is_stalled());
            delayed
                .map(|family| family.writes.throttle.rate())
                .min()
                .unwrap_or(0)
        }
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
        BlobStats::of(&s.view.version).bytes
    }),
    ("rocksdb.live-blob-file-garbage-size", |s| {
        BlobStats::of(&s.view.version).garbage
    }),
];

fn memtable_bytes(s: &PropertyInput<'_>) -> u64 {
    let waiting: usize = s
        .view
        .immutables
        .iter()
        .map(|memtable| memtable.memory_usage())
        .sum();
    (s.view.memtable.memory_usage() + waiting) as u64
}

fn live_table_bytes(s: &PropertyInput<'_>) -> u64 {
    let sizes = s.view.version.files().map(|(_, file)| file.size);
    sizes.fold(0, u64::saturating_add)
}

/// Sorted runs that are inputs of running compactions.
fn running_runs(s: &PropertyInput<'_>) -> u64 {
    let busy = {
        let tree = s.shared.tree.lock();
        let state = tree.families.get(&s.family.id());
        state.map(|state| state.busy.files().clone())
    };
    let busy = busy.unwrap_or_default();
    let levels = s.view.version.levels().iter().enumerate();
    let runs = levels.map(|(level, files)| {
        let taken = files.files().iter();
        let taken = taken.filter(|file| busy.contains(&file.number));
        match level {
            0 => taken.count() as u64,
            _ => u64::from(taken.count() > 0),
        }
    });
    runs.sum()
}

/// The maximum number of tables opened for an estimate.
const SAMPLED_TABLES: usize = 64;

/// Entries minus twice the deletions: each deletion hides one entry and does not count itself. Tables that
/// have not been opened yet are estimated by their size from those that have.
fn estimate_keys(s: &PropertyInput<'_>) -> u64 {
    let (mut known, mut known_bytes, mut all_bytes) = ((0_u64, 0_u64), 0_u64, 0_u64);
    let mut to_sample = SAMPLED_TABLES;
    for (level, file) in s.view.version.files() {
        all_bytes = all_bytes.saturating_add(file.size);
        if file.counts.get().is_none() && to_sample > 0 {
            to_sample -= 1;
            // The error of a table that cannot be opened is returned when it is read; the estimate continues.
            let _ = s.family.tables().open(file, level, &s.shared.context.io);
        }
        if let Some(counts) = file.counts.get() {
            known = (
                known.0.saturating_add(counts.entries),
                known.1.saturating_add(counts.deletions),
            );
            known_bytes = known_bytes.saturating_add(file.size);
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
    // A deletion counts as one entry, and hides another. Those in tables hide none in memtables.
    let remaining =
        |entries: u64, deletions: u64| entries.saturating_sub(deletions.saturating_mul(2));
    let in_tables = remaining(scaled(known.0), scaled(known.1));
    remaining(in_tables.saturating_add(in_memory.0), in_memory.1)
}

/// Bytes of tables that do not hide data in lower levels, summed from the last level upwards, with a binary search for
/// each table.
fn live_data(s: &PropertyInput<'_>) -> u64 {
    let order = s.family.order();
    let compare = |a: &InternalKey, b: &InternalKey| {
        order.compare_without_timestamp(a.user_key(), b.user_key())
    };
    let mut bytes = 0_u64;
    // In the order of their keys, without overlaps.
    let mut counted: Vec<&FileMeta> = Vec::new();
    for (level, files) in s.view.version.levels().iter().enumerate().rev() {
        let mut more = Vec::new();
        for file in files.files() {
            let at =
                counted.partition_point(|below| compare(&below.largest, &file.smallest).is_lt());
            let hides = |below: &&FileMeta| compare(&below.smallest, &file.largest).is_le();
            if counted.get(at).is_some_and(hides) {
                continue;
            }
            bytes = bytes.saturating_add(file.size);
            match level {
                // Files of level 0 may overlap: the newest is first, and counts.
                0 => counted.insert(at, file),
                _ => more.push(&**file),
            }
        }
        counted.append(&mut more);
        counted.sort_by(|a, b| compare(&a.smallest, &b.smallest));
    }
    // The records of blob files that tables refer to, as in RocksDB.
    for file in s.view.version.blob_files().values() {
        bytes = bytes.saturating_add(file.total_bytes.saturating_sub(file.garbage_bytes));
    }
    bytes
}

/// Text properties. Names that end in `-at-level` or `-at-temperature` are followed by a number.
const TEXTS: &[&str] = &[
    "rocksdb.num-files-at-level",
    "rocksdb.compression-ratio-at-level",
    "rocksdb.stats",
    "rocksdb.sstables",
    "rocksdb.cfstats",
    "rocksdb.cfstats-no-file-histogram",
    "rocksdb.cf-file-histogram",
    "rocksdb.cf-write-stall-stats",
    "rocksdb.db-write-stall-stats",
    "rocksdb.dbstats",
    "rocksdb.levelstats",
    "rocksdb.block-cache-entry-stats",
    "rocksdb.fast-block-cache-entry-stats",
    "rocksdb.live-sst-files-size-at-temperature",
    "rocksdb.aggregated-table-properties",
    "rocksdb.aggregated-table-properties-at-level",
    "rocksdb.estimate-oldest-key-time",
    "rocksdb.options-statistics",
    "rocksdb.blob-stats",
    "rocksdb.blob-cache-capacity",
    "rocksdb.blob-cache-usage",
    "rocksdb.blob-cache-pinned-usage",
    "cairn.cache",
    "cairn.io",
    "cairn.memory",
    "cairn.simulated-cache",
];

impl Shared {
    /// Returns the names of the properties that have a value.
    pub(crate) fn property_names() -> impl Iterator<Item = &'static str> {
        NUMBERS
            .iter()
            .map(|(name, _)| *name)
            .chain(TEXTS.iter().copied())
    }

    /// Returns the property `name` of `family` as a number, if it is one.
    pub(crate) fn property_number(&self, family: &FamilyState, name: &str) -> Option<u64> {
        self.context.check_reader().ok()?;
        let view = family.view_full();
        if let Some(number) = self.optional_number(family, &view, name) {
            return number;
        }
        let (_, number) = NUMBERS.iter().find(|(known, _)| *known == name)?;
        // Only values that take constant time are computed for all properties, with the lock of the tree.
        let tree = self.tree.lock();
        let none = FamilyTree::new(Default::default());
        let state = tree.families.get(&family.id()).unwrap_or(&none);
        let input = PropertyInput {
            shared: self,
            family,
            view: &view,
            running: (
                tree.jobs.unfinished(JobKind::Flush),
                tree.jobs.unfinished(JobKind::Compaction),
            ),
            immutables: state.immutables.len(),
            flush_pending: !state.immutables.is_empty() && !state.flushing,
            condition: tree.condition,
            min_log: tree.logs.first_needed().0,
            aborts: tree.jobs.aborts() as u64,
            deletes_files: self.catalog.deletions.are_enabled(),
        };
        drop(tree);
        Some(number(&input))
    }

    /// Numeric properties that exist only under certain conditions.
    fn optional_number(
        &self,
        family: &FamilyState,
        view: &View,
        name: &str,
    ) -> Option<Option<u64>> {
        let options = family.options();
        let blobs = || blob_cache(view);
        Some(match name {
            "rocksdb.blob-cache-capacity" => blobs().map(|(capacity, _, _)| capacity),
            "rocksdb.blob-cache-usage" => blobs().map(|(_, usage, _)| usage),
            "rocksdb.blob-cache-pinned-usage" => blobs().map(|(_, _, pinned)| pinned),
            // As in RocksDB: only if no file is ever merged with a younger one.
            "rocksdb.estimate-oldest-key-time" => {
                let fifo = options.compaction_style == CompactionStyle::Fifo
                    && !options.compaction_options_fifo.allow_compaction;
                let times = view.version.files().map(|(_, file)| file.oldest_time());
                times.filter(|_| fifo).filter(|time| *time > 0).min()
            }
            _ => return None,
        })
    }

    /// Returns the property `name` of `family` as text.
    pub(crate) fn property_text(&self, family: &FamilyState, name: &str) -> Option<String> {
        self.context.check_reader().ok()?;
        if let Some(number) = self.property_number(family, name) {
            return Some(number.to_string());
        }
        if name == "cairn.cache" {
            return Some(self.cached());
        }
        let view = family.view_full();
        let argument = |prefix: &str| -> Option<usize> { name.strip_prefix(prefix)?.parse().ok() };
        if let Some(level) = argument("rocksdb.num-files-at-level") {
            return Some(view.version.levels().get(level)?.len().to_string());
        }
        if let Some(level) = argument("rocksdb.compression-ratio-at-level") {
            return self
                .compression_ratio(family, &view, level)
                .map(|ratio| format!("{ratio:.6}"));
        }
        if let Some(level) = argument("rocksdb.aggregated-table-properties-at-level") {
            let sum = self.aggregated_properties(family, &view, Some(level))?;
            return Some(table_properties_text(&sum));
        }
        if let Some(temperature) = argument("rocksdb.live-sst-files-size-at-temperature") {
            let files = view.version.files();
            let files = files.filter(|(_, file)| usize::from(file.temperature) == temperature);
            return Some(
                files
                    .map(|(_, file)| file.size)
                    .fold(0, u64::saturating_add)
                    .to_string(),
            );
        }
        Some(match name {
            "cairn.io" => self.context.io.driver().to_string(),
            "cairn.memory" => self.memory_report(),
            "cairn.simulated-cache" => family.cache()?.simulation()?.to_string(),
            "rocksdb.levelstats" => level_stats(&view),
            "rocksdb.sstables" => tables(&view),
            "rocksdb.options-statistics" => self.telemetry.statistics()?.to_string(),
            "rocksdb.blob-stats" => BlobStats::of(&view.version).to_string(),
            "rocksdb.cfstats" => self.family_stats(family, &view, false) + &histogram(family),
            "rocksdb.cfstats-no-file-histogram" => self.family_stats(family, &view, false),
            "rocksdb.cf-file-histogram" => histogram(family),
            "rocksdb.dbstats" => self.telemetry.db_stats(),
            "rocksdb.stats" => {
                self.family_stats(family, &view, false)
                    + &histogram(family)
                    + &self.telemetry.db_stats()
            }
            "rocksdb.cf-write-stall-stats" => stall_text(&self.family_stall_stats(family)),
            "rocksdb.db-write-stall-stats" => stall_text(&self.telemetry.db_stall_stats()),
            "rocksdb.block-cache-entry-stats" | "rocksdb.fast-block-cache-entry-stats" => {
                return self.cache_stats(family);
            }
            "rocksdb.aggregated-table-properties" => {
                table_properties_text(&self.aggregated_properties(family, &view, None)?)
            }
            _ => return None,
        })
    }

    /// Returns the property `name` of `family` as a map, if it has that form.
    pub(crate) fn property_map(&self, family: &FamilyState, name: &str) -> Option<Map> {
        let view = family.view_full();
        if let Some(level) = name.strip_prefix("rocksdb.aggregated-table-properties-at-level") {
            let sum = self.aggregated_properties(family, &view, Some(level.parse().ok()?))?;
            return Some(table_properties_map(&sum));
        }
        Some(match name {
            "rocksdb.cfstats" => self.family_stats_map(family, &view),
            "rocksdb.dbstats" => self.telemetry.db_stats_map(),
            "rocksdb.cf-write-stall-stats" => self.family_stall_stats(family),
            "rocksdb.db-write-stall-stats" => self.telemetry.db_stall_stats(),
            "rocksdb.block-cache-entry-stats" | "rocksdb.fast-block-cache-entry-stats" => {
                return self.cache_stats_map(family);
            }
            "rocksdb.aggregated-table-properties" => {
                table_properties_map(&self.aggregated_properties(family, &view, None)?)
            }
            _ => return None,
        })
    }

    /// Numbers summed over all families. A cache shared by several families counts once. As in RocksDB, the sum wraps
    /// around: a family without limit has the number 2^64 - 1.
    pub(crate) fn aggregated(&self, name: &str) -> Option<u64> {
        let families = self.catalog.families().clone();
        let mut seen = Vec::new();
        let mut sum = 0_u64;
        for family in families.iter() {
            if name.starts_with("rocksdb.block-cache-") {
                let cache = family.cache().map(|cache| Arc::as_ptr(&cache));
                if seen.contains(&cache) {
                    continue;
                }
                seen.push(cache);
            }
            sum = sum.wrapping_add(self.property_number(family, name)?);
        }
        Some(sum)
    }
}

impl Family {
    /// Returns the property of this name as a map, if it has that form: `rocksdb.cfstats`, `rocksdb.dbstats`,
    /// stall and cache statistics, aggregated table properties.
    #[must_use]
    pub fn property_map(&self, name: &str) -> Option<BTreeMap<String, String>> {
        self.db.shared.property_map(&self.state, name)
    }
}

impl Db {
    /// Returns the numeric property of this name, summed over all families. A block cache shared by several
    /// of them counts once.
    #[must_use]
    pub fn aggregated_property_number(&self, name: &str) -> Option<u64> {
        self.handle.shared.aggregated(name)
    }
}

/// The latencies of file reads. They are not measured yet, so no level has a table.
fn histogram(family: &FamilyState) -> String {
    format!(
        "\n** File Read Latency Histogram By Level [{}] **\n",
        family.name()
    )
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

/// The tables and blob files in RocksDB's form: `number:size[sequence numbers][keys, in hexadecimal](wasted reads)`.
fn tables(view: &View) -> String {
    let mut text = String::new();
    for (level, files) in view.version.levels().iter().enumerate() {
        let _ = writeln!(text, "--- level {level} ---");
        for file in files.files() {
            let (first, last) = (file.seqs.smallest.0, file.seqs.largest.0);
            let keys = [&file.smallest, &file.largest].map(shown);
            let _ = write!(
                text,
                " {}:{}[{first} .. {last}][{} .. {}]",
                file.number.0, file.size, keys[0], keys[1]
            );
            if let Some(blob) = file.oldest_blob {
                let _ = write!(text, " blob_file:{}", blob.0);
            }
            let _ = writeln!(text, "({})", file.hints.wasted_reads.get());
        }
    }
    if !view.version.blob_files().is_empty() {
        text.push_str("--- blob files ---\n");
    }
    for file in view.version.blob_files().values() {
        let _ = writeln!(
            text,
            "blob_file_number: {} total_blob_count: {} total_blob_bytes: {} garbage_blob_count: {} garbage_blob_bytes: {}",
            file.number.0,
            file.total_count,
            file.total_bytes,
            file.garbage_count,
            file.garbage_bytes
        );
    }
    text
}

/// A key in the form in which RocksDB prints internal keys.
fn shown(key: &InternalKey) -> String {
    let user = hex(key.user_key());
    format!("'{user}' seq:{}, type:{}", key.seq().0, key.kind() as u8)
}

#[cfg(test)]
mod tests {
    use cairn_types::{FileNumber, SequenceNumber, ValueKind};
    use cairn_version::TreeEdit;
    use cairn_version::file_meta::EntryCounts;

    use super::*;
    use crate::db::open_in_memory;

    /// Regression: the sums of estimates overflowed.
    #[test]
    fn numbers_in_damaged_files_do_not_overflow() {
        let db = open_in_memory();
        let family = &db.default_family().state;
        let bound = |user| InternalKey::new(user, SequenceNumber(1), ValueKind::Value);
        let file = |number| {
            let file = FileMeta::new(FileNumber(number), u64::MAX, bound(b"a"), bound(b"z"));
            let counts = EntryCounts {
                entries: u64::MAX,
                deletions: u64::MAX / 2,
                ..EntryCounts::default()
            };
            file.counts.set(counts).expect("a new file has none");
            Arc::new(file)
        };
        let edit = TreeEdit {
            added: vec![(0, file(901)), (0, file(902)), (5, file(903))],
            ..TreeEdit::default()
        };
        let before = family.view().clone();
        let version = before.version.with_edit(&edit).unwrap();
        family.set_view(View {
            version: Arc::new(version),
            number: before.number + 1,
            ..View::clone(&before)
        });
        for name in Db::property_names() {
            // The properties of tables that do not exist have no value.
            let _ = db.property(name);
        }
        let number = |name| db.property_number(name);
        assert_eq!(number("rocksdb.estimate-num-keys"), Some(0));
        assert_eq!(number("rocksdb.live-sst-files-size"), Some(u64::MAX));
        let options = Default::default();
        let metadata = db.default_family().metadata(&options);
        assert_eq!((metadata.size, metadata.file_count), (u64::MAX, 3));
        family.set_view(View {
            number: before.number + 2,
            ..View::clone(&before)
        });
    }
}
