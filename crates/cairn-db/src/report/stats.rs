//! Tables of statistics: the work of jobs on each level of a family, writes to the database, and the content
//! of the block cache. Text and map forms have RocksDB's layout, because programs parse them.

use std::fmt::Write as _;

use cairn_memory::{CacheRole, MemoryUse};
use cairn_read::View;

use crate::catalog::family::FamilyState;
use crate::report::blob_stats::BlobStats;
use crate::report::family_stats::{CompactionStats, FamilyStats, Interval};
use crate::report::stats_text::{GB, MB, Map, human_bytes, human_count, stall_text};
use crate::shared::Shared;

/// The columns: the name in maps, and the title in tables. `CompactedFiles` is in the column of `NumFiles`.
const COLUMNS: [(&str, &str); 22] = [
    ("NumFiles", "Files"),
    ("CompactedFiles", ""),
    ("SizeBytes", "Size"),
    ("Score", "Score"),
    ("ReadGB", "Read(GB)"),
    ("RnGB", "Rn(GB)"),
    ("Rnp1GB", "Rnp1(GB)"),
    ("WriteGB", "Write(GB)"),
    ("WPreCompGB", "WPreComp(GB)"),
    ("WnewGB", "Wnew(GB)"),
    ("MovedGB", "Moved(GB)"),
    ("WriteAmp", "W-Amp"),
    ("ReadMBps", "Rd(MB/s)"),
    ("WriteMBps", "Wr(MB/s)"),
    ("CompSec", "Comp(sec)"),
    ("CompMergeCPU", "CompMergeCPU(sec)"),
    ("CompCount", "Comp(cnt)"),
    ("AvgSec", "Avg(sec)"),
    ("KeyIn", "KeyIn"),
    ("KeyDrop", "KeyDrop"),
    ("RblobGB", "Rblob(GB)"),
    ("WblobGB", "Wblob(GB)"),
];

/// Columns of a row other than the work.
#[derive(Clone, Copy, Default)]
struct Present {
    files: usize,
    busy: usize,
    bytes: u64,
    score: f64,
    write_amplification: f64,
}

/// The values of a row, in the order of [`COLUMNS`].
fn row(present: Present, stats: &CompactionStats) -> [f64; 22] {
    let gb = |bytes: u64| bytes as f64 / GB;
    let seconds = stats.micros as f64 / 1e6;
    let elapsed = (stats.micros + 1) as f64 / 1e6;
    let average = match stats.jobs {
        0 => 0.0,
        jobs => seconds / jobs as f64,
    };
    [
        present.files as f64,
        present.busy as f64,
        present.bytes as f64,
        present.score,
        gb(stats.read()),
        gb(stats.read_above),
        gb(stats.read_here),
        gb(stats.written),
        // Bytes before compression are not counted.
        gb(0),
        (stats.written as f64 - stats.read_here as f64) / GB,
        gb(stats.moved),
        present.write_amplification,
        stats.read() as f64 / MB / elapsed,
        stats.all_written() as f64 / MB / elapsed,
        seconds,
        stats.cpu_micros as f64 / 1e6,
        stats.jobs as f64,
        average,
        stats.entries_in as f64,
        stats.entries_dropped as f64,
        gb(stats.read_blobs),
        gb(stats.written_blobs),
    ]
}

fn header(family: &str, by: &str) -> String {
    let mut line = format!("{by}    {}", COLUMNS[0].1);
    for (at, (_, title)) in COLUMNS.iter().enumerate().skip(2) {
        let gap = match at {
            2 | 3 => "   ",
            4 => "     ",
            6 => "  ",
            _ => " ",
        };
        line.push_str(gap);
        line.push_str(title);
    }
    line.push('\n');
    let rule = "-".repeat(line.len());
    format!("\n** Compaction Stats [{family}] **\n{line}{rule}\n")
}

fn print_row(name: &str, v: &[f64; 22]) -> String {
    format!(
        "{name:>4} {:>6.0}/{:<3.0} {:>10} {:>5.1} {:>8.1} {:>7.1} {:>8.1} {:>9.1} {:>9.1} {:>8.1} \
         {:>9.1} {:>5.1} {:>8.1} {:>8.1} {:>9.2} {:>17.2} {:>9.0} {:>8.3} {:>7} {:>6} {:>9.1} {:>9.1}\n",
        v[0],
        v[1],
        human_bytes(v[2]),
        v[3],
        v[4],
        v[5],
        v[6],
        v[7],
        v[8],
        v[9],
        v[10],
        v[11],
        v[12],
        v[13],
        v[14],
        v[15],
        v[16],
        v[17],
        human_count(v[18] as u64),
        human_count(v[19] as u64),
        v[20],
        v[21],
    )
}

/// The rows of the levels, and their sum.
struct Levels {
    rows: Vec<(usize, [f64; 22])>,
    sum: [f64; 22],
    total: CompactionStats,
}

impl Shared {
    fn levels(&self, family: &FamilyState, view: &View, stats: &FamilyStats) -> Levels {
        let (busy, scores) = {
            let tree = self.tree.lock();
            let state = tree.families.get(&family.id());
            let busy = state
                .map(|state| state.busy.files().clone())
                .unwrap_or_default();
            let scores = self.scores(family, view, &busy);
            (busy, scores)
        };
        let ingest = stats.taken_in();
        let amplification = |input: u64, stats: &CompactionStats| match input {
            0 => 0.0,
            input => stats.all_written() as f64 / input as f64,
        };
        let mut rows = Vec::new();
        let mut total = CompactionStats::default();
        let mut all = Present::default();
        for (level, files) in view.version.levels().iter().enumerate() {
            let done = stats.levels.get(&level).copied().unwrap_or_default();
            let taken = files
                .files()
                .iter()
                .filter(|file| busy.contains(&file.number));
            let present = Present {
                files: files.len(),
                busy: taken.count(),
                bytes: files.bytes(),
                score: scores.get(&level).copied().unwrap_or_default(),
                write_amplification: amplification(
                    if level == 0 {
                        ingest
                    } else {
                        done.read_above.saturating_add(done.read_blobs)
                    },
                    &done,
                ),
            };
            all.files += present.files;
            all.busy += present.busy;
            if done.micros > 0 || present.files > 0 {
                all.bytes = all.bytes.saturating_add(present.bytes);
                total.add(&done);
                rows.push((level, row(present, &done)));
            }
        }
        all.write_amplification = amplification(ingest, &total);
        Levels {
            rows,
            sum: row(all, &total),
            total,
        }
    }

    /// The property `rocksdb.cfstats-no-file-histogram`. A `periodic` report begins the next interval.
    pub(crate) fn family_stats(&self, family: &FamilyState, view: &View, periodic: bool) -> String {
        let uptime = || self.context.uptime();
        let Interval {
            now: (stats, now),
            before: (before, since),
        } = family.stats.interval(uptime, periodic);
        let levels = self.levels(family, view, &stats);
        let mut text = header(family.name(), "Level");
        for (level, values) in &levels.rows {
            text += &print_row(&format!("L{level}"), values);
        }
        text += &print_row("Sum", &levels.sum);
        let interval = total_of(&stats).minus(&total_of(&before));
        let ingest = FamilyStats::taken_in;
        let amplification =
            interval.all_written() as f64 / ((ingest(&stats) - ingest(&before)) as f64 + 1.0);
        let present = Present {
            write_amplification: amplification,
            ..Present::default()
        };
        text += &print_row("Int", &row(present, &interval));
        text += &header(family.name(), "Priority");
        let mut low = levels.total;
        low = low.minus(&stats.flushes);
        for (name, stats) in [("Low", low), ("High", stats.flushes)] {
            if stats.micros > 0 {
                text += &print_row(name, &row(Present::default(), &stats));
            }
        }
        let blobs = BlobStats::of(&view.version);
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "\nBlob file count: {}, total size: {:.1} GB, garbage size: {:.1} GB, space amp: {:.1}\n\n",
            view.version.blob_files().len(),
            blobs.bytes as f64 / GB,
            blobs.garbage as f64 / GB,
            blob_amplification(&blobs),
        );
        let seconds = (now, now - since);
        text += &totals(&stats, &before, &levels.total, &interval, seconds);
        let _ = writeln!(
            text,
            "Estimated pending compaction bytes: {}",
            self.pending_bytes(family, view)
        );
        text += &stall_text(&family_stalls(&stats));
        text
    }

    /// The map form of `rocksdb.cfstats`.
    pub(crate) fn family_stats_map(&self, family: &FamilyState, view: &View) -> Map {
        let stats = family.stats.get();
        let levels = self.levels(family, view, &stats);
        let mut map = family_stalls(&stats);
        let named = levels
            .rows
            .iter()
            .map(|(level, row)| (format!("L{level}"), row));
        for (level, values) in named.chain([("Sum".to_owned(), &levels.sum)]) {
            for ((name, _), value) in COLUMNS.iter().zip(values) {
                map.insert(format!("compaction.{level}.{name}"), format!("{value:.6}"));
            }
        }
        map
    }

    /// The property `rocksdb.cf-write-stall-stats`.
    pub(crate) fn family_stall_stats(&self, family: &FamilyState) -> Map {
        family_stalls(&family.stats.get())
    }

    /// The property `rocksdb.block-cache-entry-stats`: the cache entries of `family`, by role.
    pub(crate) fn cache_stats(&self, family: &FamilyState) -> Option<String> {
        let cache = family.cache()?;
        let capacity = cache.capacity();
        let mut text = format!(
            "Block cache LRUCache@{:p} capacity: {} usage: {} occupancy: {}\n\
             Block cache entry stats(count,size,portion):",
            std::sync::Arc::as_ptr(&cache),
            human_bytes(capacity as f64),
            human_bytes(cache.usage() as f64),
            cache.entries(),
        );
        for role in CacheRole::ALL {
            let counts = cache.role_counts(role);
            if counts.entries > 0 {
                let _ = write!(
                    text,
                    " {}({},{},{}%)",
                    role.name(),
                    counts.entries,
                    human_bytes(counts.usage as f64),
                    share(counts.usage, capacity)
                );
            }
        }
        for what in CHARGED {
            let bytes = cache.charged(what);
            if bytes > 0 {
                let (name, count) = (what.name(), charges(bytes));
                let size = human_bytes(bytes as f64);
                let _ = write!(text, " {name}({count},{size},{}%)", share(bytes, capacity));
            }
        }
        text.push('\n');
        Some(text)
    }

    /// The map form of [`Shared::cache_stats`].
    pub(crate) fn cache_stats_map(&self, family: &FamilyState) -> Option<Map> {
        let cache = family.cache()?;
        let capacity = cache.capacity();
        let mut map = Map::from([
            (
                "id".to_owned(),
                format!("LRUCache@{:p}", std::sync::Arc::as_ptr(&cache)),
            ),
            ("capacity".to_owned(), capacity.to_string()),
            ("secs_for_last_collection".to_owned(), "0.000000".to_owned()),
            ("secs_since_last_collection".to_owned(), "0".to_owned()),
        ]);
        for role in CacheRole::ALL {
            let counts = cache.role_counts(role);
            let name = hyphened(role.name());
            map.insert(format!("count.{name}"), counts.entries.to_string());
            map.insert(format!("bytes.{name}"), counts.usage.to_string());
            let percent = format!("{:.6}", share(counts.usage, capacity));
            map.insert(format!("percent.{name}"), percent);
        }
        for what in CHARGED {
            let (name, bytes) = (hyphened(what.name()), cache.charged(what));
            map.insert(format!("count.{name}"), charges(bytes).to_string());
            map.insert(format!("bytes.{name}"), bytes.to_string());
            let percent = format!("{:.6}", share(bytes, capacity));
            map.insert(format!("percent.{name}"), percent);
        }
        Some(map)
    }
}

/// Uses of memory that RocksDB charges as cache entries of a role.
const CHARGED: [MemoryUse; 6] = [
    MemoryUse::WriteBuffer,
    MemoryUse::CompressionDictionaryBuffer,
    MemoryUse::FilterConstruction,
    MemoryUse::TableReader,
    MemoryUse::FileMetadata,
    MemoryUse::BlobCache,
];

/// The number of 256-KiB entries with which RocksDB charges `bytes`.
fn charges(bytes: usize) -> usize {
    bytes.div_ceil(256 << 10)
}

fn share(part: usize, whole: usize) -> f64 {
    match whole {
        0 => 0.0,
        whole => 100.0 * part as f64 / whole as f64,
    }
}

/// Converts `DataBlock` to `data-block`.
fn hyphened(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !text.is_empty() {
            text.push('-');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}

fn blob_amplification(blobs: &BlobStats) -> f64 {
    match blobs.bytes.saturating_sub(blobs.garbage) {
        0 => 0.0,
        live => blobs.bytes as f64 / live as f64,
    }
}

fn total_of(stats: &FamilyStats) -> CompactionStats {
    let mut total = CompactionStats::default();
    stats.levels.values().for_each(|level| total.add(level));
    total
}

/// The lines between the tables and the stalls.
fn totals(
    stats: &FamilyStats,
    before: &FamilyStats,
    total: &CompactionStats,
    interval: &CompactionStats,
    (up, since): (f64, f64),
) -> String {
    let gb = |bytes: u64| bytes as f64 / GB;
    let mut text = format!(
        "Uptime(secs): {up:.1} total, {since:.1} interval\n\
         Flush(GB): cumulative {:.3}, interval {:.3}\n\
         AddFile(GB): cumulative {:.3}, interval {:.3}\n\
         AddFile(Total Files): cumulative {}, interval {}\n\
         AddFile(L0 Files): cumulative {}, interval {}\n\
         AddFile(Keys): cumulative {}, interval {}\n",
        gb(stats.flushes.all_written()),
        gb(stats.flushes.all_written() - before.flushes.all_written()),
        gb(stats.ingested.0),
        gb(stats.ingested.0 - before.ingested.0),
        stats.ingested.1,
        stats.ingested.1 - before.ingested.1,
        stats.ingested_level_zero,
        stats.ingested_level_zero - before.ingested_level_zero,
        stats.ingested_entries,
        stats.ingested_entries - before.ingested_entries,
    );
    for (word, stats, seconds) in [("Cumulative", total, up), ("Interval", interval, since)] {
        let written = stats.all_written();
        let rate = |bytes: u64| bytes as f64 / MB / seconds.max(0.001);
        let _ = writeln!(
            text,
            "{word} compaction: {:.2} GB write, {:.2} MB/s write, {:.2} GB read, {:.2} MB/s read, \
             {:.1} seconds",
            gb(written),
            rate(written),
            gb(stats.read()),
            rate(stats.read()),
            stats.micros as f64 / 1e6
        );
    }
    text
}

/// Returns write stalls of a family, by cause.
fn family_stalls(stats: &FamilyStats) -> Map {
    const CAUSES: [&str; 3] = [
        "memtable-limit",
        "l0-file-count-limit",
        "pending-compaction-bytes",
    ];
    let mut map = Map::new();
    for (at, cause) in CAUSES.iter().enumerate() {
        map.insert(format!("{cause}-delays"), stats.delays[at].to_string());
        map.insert(format!("{cause}-stops"), stats.stops[at].to_string());
    }
    let busy = stats.level_zero_stalls_while_compacting;
    for (word, count) in [("delays", busy.0), ("stops", busy.1)] {
        let name = format!("cf-l0-file-count-limit-{word}-with-ongoing-compaction");
        map.insert(name, count.to_string());
    }
    let sum = |counts: &[u64; 3]| counts.iter().sum::<u64>().to_string();
    map.insert("total-delays".to_owned(), sum(&stats.delays));
    map.insert("total-stops".to_owned(), sum(&stats.stops));
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_hyphens() {
        assert_eq!(hyphened("FilterMetaBlock"), "filter-meta-block");
    }

    #[test]
    fn rows_are_aligned_with_their_titles() {
        let text = header("f", "Level");
        let titles = text.lines().nth(2).expect("titles");
        let row = print_row("Sum", &row(Present::default(), &CompactionStats::default()));
        assert!(
            titles.starts_with("Level    Files   Size   Score     Read(GB) Rn(GB)"),
            "{titles}"
        );
        assert_eq!(row.split_whitespace().count(), 23, "{row}");
    }
}
