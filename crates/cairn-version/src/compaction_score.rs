//! Level targets and compaction scores of a leveled tree.
//!
//! Computes from a version and a few options the target size of each level, the compaction score of
//! each level, the estimated pending compaction bytes, and the files marked for compaction by age
//! or content. Rules and thresholds are those of RocksDB, so that a tree keeps its shape when a
//! database moves from one engine to the other.
//!
//! The computations follow `ComputeCompactionScore`, `CalculateBaseBytes` and
//! `EstimateCompactionBytesNeeded` of RocksDB (db/version_set.cc, Apache 2.0).

use std::collections::HashSet;

use cairn_format::key;
use cairn_options::FamilyOptions;
use cairn_platform::sync::Arc;
use cairn_types::{FileNumber, SequenceNumber};

use crate::file_meta::{EntryCounts, FileMeta};
use crate::periodic_phase::PeriodicPhase;
use crate::version::Version;

/// Scale of scores above 1 with dynamic level sizes, so that they can be reduced without falling below
/// the threshold.
const SCORE_SCALE: f64 = 10.0;

/// Weight of a surplus point deletion, in units of the average value size.
const DELETION_WEIGHT: u64 = 2;

/// Options that determine the shape of a leveled tree, resolved from those of a column family.
#[derive(Clone, Debug, PartialEq)]
pub struct ShapeOptions {
    /// Number of level-0 files that triggers a compaction; `i32::MAX` for never.
    pub level0_trigger: usize,
    /// Target size of the first level below level 0, in bytes.
    pub base_bytes: u64,
    /// Size ratio between adjacent levels.
    pub multiplier: f64,
    /// Additional size factors by level.
    pub additional: Vec<i32>,
    /// True if level targets are derived from the size of the last level.
    pub dynamic: bool,
    /// Age at which data is compacted towards the last level, in seconds; 0 for never.
    pub ttl: u64,
    /// Age at which a file is rewritten, in seconds; 0 for never.
    pub periodic: u64,
    /// Minimum age of a bottommost file before it is compacted to drop old versions, in seconds.
    pub bottommost_delay: u64,
    /// Wasted reads per byte that trigger a compaction of a file; 0 for never.
    pub reads_per_byte: f64,
    /// True if young data stays above the last level.
    pub precludes_young: bool,
}

/// The trigger that no number of files reaches. Small enough to be doubled, also in 32 bits.
const NEVER_BY_FILES: usize = i32::MAX as usize;

/// The option value that stands for 30 days, or for never where age has no effect.
const DEFAULT_AGE: u64 = u64::MAX - 1;
const THIRTY_DAYS: u64 = 30 * 24 * 60 * 60;

impl From<&FamilyOptions> for ShapeOptions {
    fn from(options: &FamilyOptions) -> ShapeOptions {
        let trigger = usize::try_from(options.level0_file_num_compaction_trigger);
        let aged = |value: u64, default: u64| if value == DEFAULT_AGE { default } else { value };
        ShapeOptions {
            level0_trigger: trigger.unwrap_or(NEVER_BY_FILES).max(1),
            base_bytes: options.max_bytes_for_level_base.max(1),
            multiplier: options.max_bytes_for_level_multiplier,
            additional: options.max_bytes_for_level_multiplier_additional.clone(),
            dynamic: options.level_compaction_dynamic_level_bytes,
            ttl: aged(options.ttl, THIRTY_DAYS),
            // Without a compaction filter, rewriting by age has no effect.
            periodic: aged(
                options.periodic_compaction_seconds,
                match options.has_compaction_filter() {
                    true => THIRTY_DAYS,
                    false => 0,
                },
            ),
            bottommost_delay: u64::from(options.bottommost_file_compaction_delay),
            reads_per_byte: options.read_triggered_compaction_threshold,
            precludes_young: options.preclude_last_level_data_seconds > 0,
        }
    }
}

/// Target sizes of the levels, and the base level.
#[derive(Clone, Debug, PartialEq)]
pub struct Targets {
    /// The output level of level-0 compactions.
    pub base_level: usize,
    /// Maximum size of each level in bytes; `u64::MAX` above the base level.
    pub max_bytes: Vec<u64>,
    /// The lowest level that holds files but is not needed for the size of the tree; 0 if none.
    pub lowest_unnecessary: usize,
}

/// Returns `value * factor`, saturating; factors of zero and below return `value`.
fn scaled(value: u64, factor: f64) -> u64 {
    // The cast saturates.
    if factor > 0.0 {
        (value as f64 * factor) as u64
    } else {
        value
    }
}

/// Returns the targets of the levels of `version`.
#[must_use]
pub fn targets(version: &Version, options: &ShapeOptions) -> Targets {
    let targets = match options.dynamic && version.num_levels() > 1 {
        true => dynamic_targets(version, options),
        false => static_targets(version, options),
    };
    assert_eq!(
        targets.max_bytes.len(),
        version.num_levels(),
        "every level has a target"
    );
    assert!(
        targets.base_level < version.num_levels(),
        "the base level is a level of the tree"
    );
    debug_assert!(targets.base_level > 0 || version.num_levels() == 1);
    debug_assert!(targets.lowest_unnecessary < version.num_levels());
    targets
}

fn static_targets(version: &Version, options: &ShapeOptions) -> Targets {
    let mut max_bytes = vec![options.base_bytes; version.num_levels()];
    for level in 2..max_bytes.len() {
        let additional = options
            .additional
            .get(level - 1)
            .map_or(1.0, |&factor| f64::from(factor));
        max_bytes[level] = scaled(scaled(max_bytes[level - 1], options.multiplier), additional);
    }
    Targets {
        base_level: 1.min(version.num_levels() - 1),
        max_bytes,
        lowest_unnecessary: 0,
    }
}

/// Returns targets derived from the largest level upwards, so that most data is in the last level and
/// space amplification is low.
fn dynamic_targets(version: &Version, options: &ShapeOptions) -> Targets {
    let last = version.num_levels() - 1;
    let mut targets = Targets {
        base_level: last,
        max_bytes: vec![u64::MAX; version.num_levels()],
        lowest_unnecessary: 0,
    };
    let sizes: Vec<u64> = version.levels().iter().map(|level| level.bytes()).collect();
    let Some(first) = (1..=last).find(|&level| sizes[level] > 0) else {
        return targets;
    };
    let divided = |size: u64| (size as f64 / options.multiplier) as u64;
    let base_max = options.base_bytes;
    let base_min = divided(base_max);

    // The target that the first non-empty level would have if the largest level were exactly full.
    let mut size = sizes[1..].iter().copied().max().unwrap_or(0);
    for level in (first..last).rev() {
        size = divided(size);
        // The level above the last one holds the young data of a small tree, too.
        let keeps_young = options.precludes_young && level + 1 == last;
        if targets.lowest_unnecessary == 0 && size <= base_min && !keeps_young {
            targets.lowest_unnecessary = level;
        }
    }
    let base_size = if size <= base_min {
        targets.base_level = first;
        base_min.saturating_add(1)
    } else {
        targets.base_level = first;
        while targets.base_level > 1 && size > base_max {
            targets.base_level -= 1;
            size = divided(size);
        }
        size.clamp(1, base_max)
    };
    let mut size = base_size;
    for level in targets.base_level..=last {
        if level > targets.base_level {
            size = scaled(size, options.multiplier);
        }
        // No level may be smaller than level 0, or the tree would become an hourglass.
        targets.max_bytes[level] = size.max(base_max);
    }
    targets
}

/// Returns the average on-disk size of a value, from files with known entry counts.
#[must_use]
pub fn average_value_bytes(version: &Version) -> u64 {
    let mut sum = EntryCounts::default();
    let mut file_bytes = 0_u64;
    for (_, file) in version.files() {
        if let Some(counts) = file.counts.get() {
            sum.entries = sum.entries.saturating_add(counts.entries);
            sum.deletions = sum.deletions.saturating_add(counts.deletions);
            sum.raw_key_bytes = sum.raw_key_bytes.saturating_add(counts.raw_key_bytes);
            sum.raw_value_bytes = sum.raw_value_bytes.saturating_add(counts.raw_value_bytes);
            file_bytes = file_bytes.saturating_add(file.size);
        }
    }
    let raw = sum.raw_key_bytes.saturating_add(sum.raw_value_bytes);
    let values = sum.entries.saturating_sub(sum.deletions);
    if raw == 0 || values == 0 {
        return 0;
    }
    scaled(sum.raw_value_bytes / values, file_bytes as f64 / raw as f64)
}

/// Returns the size of `file` with compensation for deletions: compacting files with mostly
/// deletions frees space.
#[must_use]
pub fn compensated_bytes(file: &FileMeta, average_value: u64) -> u64 {
    let surplus = file.counts.get().map_or(0, |counts| {
        let points = counts.deletions.saturating_sub(counts.range_deletions);
        points.saturating_mul(2).saturating_sub(counts.entries)
    });
    file.size
        .saturating_add(
            surplus
                .saturating_mul(average_value)
                .saturating_mul(DELETION_WEIGHT),
        )
        .saturating_add(file.compensated_range_deletion_size)
}

/// Returns levels with their scores, highest score first. A compaction is due at a score of 1 or
/// more. Files in `busy`, which are being compacted or cannot be, are not counted.
#[must_use]
pub fn scores(
    version: &Version,
    targets: &Targets,
    busy: &HashSet<FileNumber>,
    options: &ShapeOptions,
) -> Vec<(usize, f64)> {
    let average = average_value_bytes(version);
    let waiting = |level: usize| {
        let files = version.level(level).files().iter();
        files.filter(|file| !busy.contains(&file.number)).fold(
            (0_usize, 0_u64),
            |(count, bytes), file| {
                (
                    count + 1,
                    bytes.saturating_add(compensated_bytes(file, average)),
                )
            },
        )
    };
    debug_assert_eq!(targets.max_bytes.len(), version.num_levels());
    let mut incoming = version.level(0).bytes() as f64;
    let mut scores = Vec::with_capacity(version.num_levels());
    scores.push((
        0,
        level_zero_score(version, targets, waiting(0), average, options),
    ));
    for level in 1..version.num_levels().saturating_sub(1) {
        let (bytes, max) = (waiting(level).1, targets.max_bytes[level]);
        let unnecessary = level <= targets.lowest_unnecessary;
        let score = match options.dynamic {
            true if bytes >= max => bytes as f64 / (max as f64 + incoming) * SCORE_SCALE,
            _ => bytes as f64 / max as f64,
        };
        let draining = match options.dynamic && unnecessary && bytes > 0 {
            true => SCORE_SCALE * (1.001 + 0.001 * (targets.lowest_unnecessary - level) as f64),
            false => 0.0,
        };
        scores.push((level, score.max(draining)));
        let total = version.level(level).bytes();
        incoming += if unnecessary {
            total
        } else {
            total.saturating_sub(max)
        } as f64;
    }
    scores.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    scores
}

/// Returns the score of level 0, which takes account of both files and bytes, since every read
/// searches each file.
fn level_zero_score(
    version: &Version,
    targets: &Targets,
    (runs, bytes): (usize, u64),
    average: u64,
    options: &ShapeOptions,
) -> f64 {
    let mut score = runs as f64 / options.level0_trigger as f64;
    if version.num_levels() == 1 {
        return score;
    }
    if !options.dynamic {
        return score.max(bytes as f64 / options.base_bytes as f64);
    }
    if bytes >= options.base_bytes {
        score = score.max(1.01);
    }
    let base_max = targets.max_bytes[targets.base_level];
    if bytes > base_max {
        // Level 0 is larger than the base level: compacting it takes precedence.
        let base = version.level(targets.base_level).files().iter();
        let base_bytes = base.map(|file| compensated_bytes(file, average));
        let base_bytes = base_bytes.fold(0, u64::saturating_add);
        score = score.max(bytes as f64 / base_bytes.max(base_max) as f64);
    }
    if score > 1.0 {
        score * SCORE_SCALE
    } else {
        score
    }
}

/// Returns the estimated bytes that compactions must rewrite until every level is within its target.
/// Used to delay writes. The `young` bytes of the level above the last one stay there.
#[must_use]
pub fn pending_compaction_bytes(
    version: &Version,
    targets: &Targets,
    options: &ShapeOptions,
    young: u64,
) -> u64 {
    let level_zero = version.level(0);
    let triggered =
        level_zero.len() >= options.level0_trigger || level_zero.bytes() >= options.base_bytes;
    let mut needed = if triggered { level_zero.bytes() } else { 0 };
    let mut moved_down = needed;
    for level in targets.base_level.max(1)..version.num_levels().saturating_sub(1) {
        let bytes = version.level(level).bytes();
        if level == targets.base_level && triggered {
            needed = needed.saturating_add(bytes);
        }
        let stays = if level + 2 == version.num_levels() {
            young
        } else {
            0
        };
        let grown = bytes.saturating_add(moved_down).saturating_sub(stays);
        moved_down = grown.saturating_sub(targets.max_bytes[level]);
        let below = version.level(level + 1).bytes();
        if moved_down > 0 && below > 0 {
            let fan_out = below as f64 / grown as f64 + 1.0;
            needed = needed.saturating_add(scaled(moved_down, fan_out));
        }
    }
    needed
}

/// Limits for judging files by age and content.
#[derive(Clone, Debug)]
pub struct AgeLimits {
    /// The current time, in seconds since 1970.
    pub now: u64,
    /// Seconds by which periodic compactions are brought forward.
    pub ahead: u64,
    /// The preferred times of periodic compactions.
    pub phase: PeriodicPhase,
    /// Bottommost files with only older sequence numbers are rewritten to drop versions kept for
    /// snapshots. Zero until the first snapshot is released; each release sets it to the oldest
    /// remaining snapshot, or to the last sequence number if none remains. If it started with the
    /// last sequence number, every new bottommost file would be rewritten to no effect.
    pub oldest_snapshot: SequenceNumber,
    /// Column families with timestamps drop history below this timestamp; empty if never set.
    pub full_history_ts_low: Vec<u8>,
    /// Entries with larger sequence numbers are too young for the last level. The maximum if none are.
    pub young_after: SequenceNumber,
    /// Entries with larger sequence numbers keep them in bottommost files, because their write times are preserved. The
    /// maximum if none do.
    pub zero_through: SequenceNumber,
}

impl AgeLimits {
    /// True if all entries of `file`, in `level` of `version`, are too young for the last level: a compaction into it would
    /// write them to their level again.
    #[must_use]
    pub fn is_young(&self, version: &Version, level: usize, file: &FileMeta) -> bool {
        level > 0 && level + 2 == version.num_levels() && file.seqs.smallest > self.young_after
    }
}

/// Files marked for compaction, each with its level.
#[derive(Clone, Debug, Default)]
pub struct Marked {
    /// Files marked by a collector or by the user.
    pub content: Vec<(usize, Arc<FileMeta>)>,
    /// Bottommost files with versions that no snapshot needs any more.
    pub bottommost: Vec<(usize, Arc<FileMeta>)>,
    /// Files whose oldest data has expired.
    pub expired: Vec<(usize, Arc<FileMeta>)>,
    /// Files due for periodic compaction.
    pub periodic: Vec<(usize, Arc<FileMeta>)>,
    /// Files with many wasted reads, most per byte first.
    pub read: Vec<(usize, Arc<FileMeta>)>,
}

/// Returns the files of `version` marked for compaction, except those in `busy`.
#[must_use]
pub fn marked(
    version: &Version,
    busy: &HashSet<FileNumber>,
    limits: &AgeLimits,
    options: &ShapeOptions,
) -> Marked {
    let mut marked = Marked::default();
    let levels = version.num_levels();
    let last_with_files = version.num_non_empty_levels().saturating_sub(1);
    let expired_before = expiry(limits.now, options.ttl);
    let rewrites_by_age = expiry(limits.now, options.periodic).is_some();
    let now_or_soon = limits.now.saturating_add(limits.ahead);
    let mut read = Vec::new();
    for (level, file) in version
        .files()
        .filter(|(_, file)| !busy.contains(&file.number))
    {
        // Files of the last non-empty level cannot move down, and neither can young ones.
        let is_young = limits.is_young(version, level, file);
        let can_go = (level < last_with_files || last_with_files == 0) && !is_young;
        if file.is_marked() && can_go {
            marked.content.push((level, file.clone()));
        }
        if options.reads_per_byte > 0.0 && can_go {
            let reads = file.reads_per_byte();
            if reads > options.reads_per_byte {
                read.push((reads, (level, file.clone())));
            }
        }
        if is_older(file.oldest_time(), expired_before) && level + 1 < levels && !is_young {
            marked.expired.push((level, file.clone()));
        }
        let created = if file.created() > 0 {
            file.created()
        } else {
            file.oldest_time()
        };
        if rewrites_by_age
            && created > 0
            && limits.phase.due(created, options.periodic) < now_or_soon
        {
            marked.periodic.push((level, file.clone()));
        }
        if wants_bottommost(version, level, file, limits, options) {
            marked.bottommost.push((level, file.clone()));
        }
    }
    read.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    marked.read = read.into_iter().map(|(_, place)| place).collect();
    marked
}

/// Returns the time `age` seconds before `now`; `None` if age has no effect.
fn expiry(now: u64, age: u64) -> Option<u64> {
    (age > 0).then(|| now.checked_sub(age)).flatten()
}

fn is_older(time: u64, limit: Option<u64>) -> bool {
    time > 0 && limit.is_some_and(|limit| time < limit)
}

/// True if this bottommost file holds versions that no snapshot needs any more.
fn wants_bottommost(
    version: &Version,
    level: usize,
    file: &FileMeta,
    limits: &AgeLimits,
    options: &ShapeOptions,
) -> bool {
    if file.hints.settled
        || file.seqs.largest == SequenceNumber::ZERO
        || file.seqs.largest >= limits.oldest_snapshot
        // The new file would be due for the same reason.
        || file.seqs.largest > limits.zero_through
    {
        return false;
    }
    if options.bottommost_delay > 0 {
        let Some(limit) = limits.now.checked_sub(options.bottommost_delay) else {
            return false;
        };
        if file.times.file > limit {
            return false;
        }
    }
    // With timestamps, history is dropped only below the timestamp set by the user.
    if version.order().timestamp_size() > 0 {
        let newest = &file.timestamps.max;
        let low = &limits.full_history_ts_low;
        if newest.is_empty() || low.is_empty() || newest.iter().rev().ge(low.iter().rev()) {
            return false;
        }
    }
    is_bottommost(version, level, file)
}

/// True if no other file can hold older versions of the keys of `file` in `level`.
#[must_use]
pub fn is_bottommost(version: &Version, level: usize, file: &FileMeta) -> bool {
    let oldest = version.level(level).files().last();
    if level == 0 && oldest.is_none_or(|oldest| oldest.number != file.number) {
        return false;
    }
    let (begin, end) = (file.smallest.user_key(), file.largest.user_key());
    !range_exists_below(version, level, begin, end)
}

/// True if a level below `level` has files that overlap the user keys `begin` to `end`. Below level 0,
/// any file counts.
#[must_use]
pub fn range_exists_below(version: &Version, level: usize, begin: &[u8], end: &[u8]) -> bool {
    let bound = |user_key: &[u8]| {
        key::InternalKey::new(
            user_key,
            SequenceNumber::MAX,
            cairn_types::ValueKind::FOR_SEEK,
        )
    };
    let (begin, end) = (bound(begin), bound(end));
    (level + 1..version.num_levels()).any(|below| {
        let files = version.level(below);
        match level {
            0 => !files.is_empty(),
            _ => version.overlaps(below, Some(begin.as_bytes()), Some(end.as_bytes())),
        }
    })
}
