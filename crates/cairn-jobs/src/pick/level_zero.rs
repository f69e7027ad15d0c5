//! Picks of level 0, whose files overlap.

use cairn_options::CompactionPri;
use cairn_platform::sync::Arc;
use cairn_version::{FileMeta, bounds, compaction_score};

use super::description::{LevelInputs, Pick, Reason, range};
use super::tree::{Start, Tree};
use super::{compaction_priority, expand, multi_level};

/// Minimum number of inputs of an intra-level-0 compaction.
const MIN_FILES_WITHIN: usize = 4;

/// Returns a compaction that reduces the number of files in level 0.
///
/// Only one compaction into the base level runs at a time. While it runs, or if the base level is so
/// large that merging into it would rewrite too much, the newest files are merged within level 0.
/// A quarantined file holds back those that are newer and overlap it, but none that is older.
pub(super) fn pick(tree: &Tree, score: f64) -> Option<Pick> {
    let to_base = match tree.busy.takes_level_zero() {
        true => None,
        false => oldest_as_they_are(tree, score),
    };
    to_base
        .or_else(|| newest_by_size(tree, score))
        .or_else(|| into_base(tree, score))
        .or_else(|| newest_by_cost(tree, score))
        .or_else(|| older_than_quarantined(tree, score))
}

fn start(tree: &Tree, score: f64, files: Vec<Arc<FileMeta>>, output_level: usize) -> Start {
    debug_assert!(output_level == 0 || output_level == tree.targets.base_level);
    Start {
        reason: Reason::LevelL0FilesNum,
        score,
        inputs: LevelInputs { level: 0, files },
        output_level,
        level_zero_move: false,
    }
}

/// Returns a move of the oldest files that overlap neither each other nor the base level.
fn oldest_as_they_are(tree: &Tree, score: f64) -> Option<Pick> {
    let base = tree.targets.base_level;
    let none_below = tree.version.level(base).is_empty();
    if base == 0 || none_below || !tree.options.compression_per_level.is_empty() {
        // A single file can move to an empty level by the regular path.
        return None;
    }
    let order = tree.order();
    let mut taken: Vec<Arc<FileMeta>> = Vec::new();
    for file in tree.version.level(0).files().iter().rev() {
        let apart = taken.iter().all(|other| {
            bounds::compare(order, other.largest.as_bytes(), file.smallest.as_bytes()).is_lt()
                || bounds::compare(order, other.smallest.as_bytes(), file.largest.as_bytes())
                    .is_gt()
        });
        // The combined range is checked, so that no file of the base level is between two of them.
        let (low, high) = range(order, taken.iter().chain([file]))?;
        let clear = !tree
            .version
            .overlaps(base, Some(low.as_bytes()), Some(high.as_bytes()));
        if !apart || !clear || tree.busy.is_busy(file.number) {
            break;
        }
        taken.push(file.clone());
    }
    debug_assert!(!tree.busy.any(&taken));
    taken.sort_by(|a, b| {
        cairn_format::key::compare(order, a.smallest.as_bytes(), b.smallest.as_bytes())
    });
    let start = Start {
        level_zero_move: true,
        ..start(tree, score, taken, base)
    };
    (!start.inputs.files.is_empty())
        .then(|| expand::finish(tree, start))
        .flatten()
}

/// Returns the newest files if level 0 is small compared with the base level.
fn newest_by_size(tree: &Tree, score: f64) -> Option<Pick> {
    let files = tree.version.level(0).files();
    let at_least = tree.options.shape.level0_trigger.max(2);
    if tree.targets.base_level == 0 || files.len() < at_least {
        return None;
    }
    let average = compaction_score::average_value_bytes(tree.version);
    let bytes: u64 = files
        .iter()
        .map(|file| compaction_score::compensated_bytes(file, average))
        .fold(0, u64::saturating_add);
    let worth = bytes as f64 * tree.options.shape.multiplier.max(10.0) * 2.0;
    if tree.version.level(tree.targets.base_level).bytes() as f64 <= worth {
        return None;
    }
    let newest = files
        .iter()
        .take_while(|file| !tree.busy.is_busy(file.number));
    let newest: Vec<_> = newest.cloned().collect();
    match newest.len() >= at_least {
        true => expand::finish(tree, start(tree, score, newest, 0)),
        false => None,
    }
}

/// Returns a file of level 0, all files that overlap it, and the base-level files below them.
fn into_base(tree: &Tree, score: f64) -> Option<Pick> {
    if tree.busy.takes_level_zero() {
        return None;
    }
    let base = tree.targets.base_level;
    let files = tree.version.level(0).files();
    let mut positions = compaction_priority::by_priority(tree, 0).into_iter();
    let first = |at: usize| {
        if tree.busy.is_busy(files[at].number) {
            return None;
        }
        let inputs = with_overlapping(tree, vec![files[at].clone()], base)?;
        expand::finish(tree, start(tree, score, inputs.files, base))
            .map(|pick| multi_level::offered(tree, pick))
    };
    match tree.options.pri {
        CompactionPri::RoundRobin => positions.next().and_then(first),
        _ => positions.find_map(first),
    }
}

/// Returns the files that are older than all quarantined ones, and the base-level files below them.
fn older_than_quarantined(tree: &Tree, score: f64) -> Option<Pick> {
    if tree.busy.takes_level_zero() {
        return None;
    }
    let base = tree.targets.base_level;
    let files = tree.version.level(0).files();
    let oldest = files
        .iter()
        .rposition(|file| tree.busy.is_busy(file.number))?;
    let older = files[oldest + 1..].to_vec();
    let (smallest, largest) = range(tree.order(), &older)?;
    let (low, high) = (smallest.as_bytes(), largest.as_bytes());
    match base == 0 || tree.busy.writes(tree.order(), base, low, high) {
        true => None,
        false => expand::finish(tree, start(tree, score, older, base)),
    }
}

/// Returns the compaction of the marked `file` of `level` into `output_level`, with all files that must
/// be included.
pub(super) fn of_file(
    tree: &Tree,
    level: usize,
    file: &Arc<FileMeta>,
    output_level: usize,
    reason: Reason,
) -> Option<Pick> {
    let files = expand::clean_cut(tree, level, std::slice::from_ref(file))?;
    let inputs = match level {
        0 => with_overlapping(tree, files, output_level)?,
        level => LevelInputs { level, files },
    };
    let start = Start {
        reason,
        score: 0.0,
        inputs,
        output_level,
        level_zero_move: false,
    };
    expand::finish(tree, start)
}

/// Returns `files` of level 0 and all that overlap them, transitively; `None` if a running compaction
/// conflicts.
pub(super) fn with_overlapping(
    tree: &Tree,
    files: Vec<Arc<FileMeta>>,
    output_level: usize,
) -> Option<LevelInputs> {
    let order = tree.order();
    let (smallest, largest) = range(order, &files)?;
    let (low, high) = (Some(smallest.as_bytes()), Some(largest.as_bytes()));
    let files = tree
        .version
        .level(0)
        .overlapping_level_zero(order, low, high, true);
    let (smallest, largest) = range(order, &files)?;
    let blocked = tree.busy.any(&files)
        || (output_level > 0
            && tree
                .busy
                .writes(order, output_level, smallest.as_bytes(), largest.as_bytes()));
    (!blocked).then_some(LevelInputs { level: 0, files })
}

/// Returns the newest files that minimize the work per removed file, for a level 0 far above its
/// trigger that cannot be compacted into the base level.
fn newest_by_cost(tree: &Tree, score: f64) -> Option<Pick> {
    let files = tree.version.level(0).files();
    let first = files.first()?;
    if files.len() < tree.options.shape.level0_trigger + 2 || tree.busy.is_busy(first.number) {
        return None;
    }
    let mut bytes = first.size;
    let mut best = u64::MAX;
    let mut count = 1;
    for file in &files[1..] {
        bytes = bytes.saturating_add(file.size);
        let cost = bytes / count as u64;
        if tree.busy.is_busy(file.number)
            || cost > best
            || bytes > tree.options.max_compaction_bytes
        {
            break;
        }
        best = cost;
        count += 1;
    }
    match count >= MIN_FILES_WITHIN {
        true => expand::finish(tree, start(tree, score, files[..count].to_vec(), 0)),
        false => None,
    }
}
