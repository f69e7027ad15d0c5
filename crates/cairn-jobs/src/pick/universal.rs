//! Picks of a universal tree: sorted runs, merged by size.
//!
//! A *run* is a file of level 0 or all files of a lower level. Runs are ordered by age, newest first,
//! and a pick takes adjacent runs, so that their ages do not interleave:
//!
//! 1. The output goes to the lowest level above the next older run, or to the last level if there
//!    is none. This leaves room for newer runs.
//! 2. With `ingest_behind` the last level is reserved for ingested files and is not a run.
//! 3. A run is busy if one of its files is; picks do not extend across busy runs.
//!
//! The triggers are tried in RocksDB's order: age, space amplification, size ratio, number of runs,
//! marked files. Each is linear in the number of runs. A number of runs that stops writes triggers a compaction
//! whatever the other options say: in RocksDB, writes wait for ever if the number that triggers one is the same.

use std::ops::{Range, RangeInclusive};

use cairn_options::{CompactionStopStyle, Compression};
use cairn_platform::sync::Arc;
use cairn_version::{FileMeta, bounds, compaction_score};

use super::description::{LevelInputs, Pick, Reason, range};
use super::tree::{Start, Tree};
use super::{db_paths, expand, level_zero, young};

/// A sorted run.
struct Run {
    level: usize,
    files: Vec<Arc<FileMeta>>,
    size: u64,
    /// The size including the compensation for deletions.
    compensated: u64,
    busy: bool,
}

impl Run {
    fn new(tree: &Tree, level: usize, files: Vec<Arc<FileMeta>>, average: u64) -> Run {
        Run {
            level,
            size: files
                .iter()
                .map(|file| file.size)
                .fold(0, u64::saturating_add),
            compensated: files
                .iter()
                .map(|file| compaction_score::compensated_bytes(file, average))
                .fold(0, u64::saturating_add),
            busy: tree.busy.any(&files),
            files,
        }
    }
}

/// Returns the runs of the tree, newest first.
fn runs(tree: &Tree) -> Vec<Run> {
    let average = compaction_score::average_value_bytes(tree.version);
    let newest = tree.version.level(0).files().iter();
    let levels = 1..tree.last_output() + 1;
    newest
        .map(|file| (0, vec![file.clone()]))
        .chain(levels.map(|level| (level, tree.version.level(level).files().to_vec())))
        .filter(|(_, files)| !files.is_empty())
        .map(|(level, files)| Run::new(tree, level, files, average))
        .collect()
}

/// Returns the number of runs, busy or not, which bounds read amplification and controls write stalls.
#[must_use]
pub fn run_count(version: &cairn_version::Version) -> usize {
    let levels = version.levels().iter().skip(1);
    version.level(0).len() + levels.filter(|level| !level.is_empty()).count()
}

/// True if writes wait until there are fewer runs, and no compaction is running.
fn is_stuck(tree: &Tree) -> bool {
    tree.busy.is_empty() && run_count(tree.version) >= tree.options.level0_stop
}

/// Chooses the next compaction of a universal tree.
pub(super) fn pick(tree: &Tree) -> Option<Pick> {
    let runs = runs(tree);
    let trigger = tree.options.shape.level0_trigger;
    let marked = tree.marked();
    let mut found = None;
    if !marked.periodic.is_empty() {
        found = by_age(tree, &runs, &marked.periodic);
    }
    if runs.len() >= trigger || is_stuck(tree) {
        found = found
            .or_else(|| by_amplification(tree, &runs))
            .or_else(|| by_similar_size(tree, &runs))
            .or_else(|| by_number(tree, &runs));
    }
    let aged = |pick: &Pick| pick.reason == Reason::Periodic;
    let found = found.map(|mut pick| {
        let moves =
            tree.options.universal.allow_trivial_move && !aged(&pick) && pick.young.is_none();
        pick.trivial_move = moves && pick.output.level > 0 && is_disjoint(tree, &pick);
        pick
    });
    found
        .or_else(|| downwards(tree, &runs, Reason::FilesMarked, &marked.content))
        .or_else(|| downwards(tree, &runs, Reason::ReadTriggered, &marked.read))
}

/// True if a run is busy, so that [`everything`] cannot be compacted.
pub(super) fn has_busy_run(tree: &Tree) -> bool {
    runs(tree).iter().any(|run| run.busy)
}

/// Returns a compaction of all runs into the last level, for manual compaction.
pub(super) fn everything(tree: &Tree) -> Option<Pick> {
    let runs = runs(tree);
    match runs.is_empty() || runs.iter().any(|run| run.busy) || !tree.busy.is_empty() {
        true => None,
        false => of_runs(tree, &runs, 0..runs.len(), Reason::Manual),
    }
}

/// Returns a compaction triggered by file age, from the oldest run up to the first busy one.
fn by_age(tree: &Tree, runs: &[Run], old: &[(usize, Arc<FileMeta>)]) -> Option<Pick> {
    let from = runs.iter().rposition(|run| run.busy).map_or(0, |at| at + 1);
    let last = runs.get(from)?;
    // The oldest run alone is compacted only if it is itself due.
    let holds_old = || {
        let mut numbers = last.files.iter().map(|file| file.number);
        numbers.any(|number| old.iter().any(|(_, file)| file.number == number))
    };
    if from + 1 == runs.len() && !holds_old() {
        return None;
    }
    of_runs(tree, runs, from..runs.len(), Reason::Periodic)
}

/// Returns a compaction of all runs down to the oldest, if the newer runs are too large compared with
/// it.
fn by_amplification(tree: &Tree, all: &[Run]) -> Option<Pick> {
    // The size of the last level says nothing about the copies of data that is kept out of it.
    let runs = match all {
        [above @ .., last] if !above.is_empty() && young::is_kept_out_of(tree, last.level) => above,
        all => all,
    };
    let (base, newer) = runs.split_last()?;
    if base.busy {
        return None;
    }
    let from = newer
        .iter()
        .rposition(|run| run.busy)
        .map_or(0, |at| at + 1);
    if from == newer.len() {
        return None;
    }
    let candidate: u64 = newer[from..]
        .iter()
        .map(|run| run.compensated)
        .fold(0, u64::saturating_add);
    let limit = u64::from(tree.options.universal.max_size_amplification_percent);
    let exceeds =
        |candidate: u64| u128::from(candidate) * 100 >= u128::from(limit) * u128::from(base.size);
    if !exceeds(candidate) {
        return None;
    }
    if tree.options.universal.incremental {
        // A partial compaction may cost more per freed byte than a full one, within a limit.
        let whole = base.size as f64 / candidate as f64;
        if let Some(pick) = incremental(tree, runs, whole * 1.8) {
            return Some(pick);
        }
    }
    let skipped = newest_to_leave_out(tree, &newer[from..], candidate, exceeds);
    let range = from + skipped..runs.len();
    of_runs(tree, all, range, Reason::UniversalSizeAmplification)
}

/// Returns a partial compaction of the two oldest runs, with the data of newer levels in its key
/// range: the range that rewrites the least of the oldest run per byte of the second oldest, below
/// the ratio `most`. `None` if there is no such range or the second oldest run is in level 0, whose
/// files are whole runs.
fn incremental(tree: &Tree, runs: &[Run], most: f64) -> Option<Pick> {
    let (oldest, newer) = runs.split_last()?;
    let (second, newer) = newer.split_last()?;
    if second.level == 0 {
        return None;
    }
    let limit = tree.options.max_compaction_bytes / 2;
    let part = cheapest_part(tree, &second.files, &oldest.files, limit, most)?;
    let files = expand::clean_cut(tree, second.level, &second.files[part])?;
    let start = Start {
        reason: Reason::UniversalSizeAmplification,
        score: 0.0,
        inputs: LevelInputs {
            level: second.level,
            files,
        },
        output_level: oldest.level,
        level_zero_move: false,
    };
    let mut inputs = expand::finish(tree, start)?.inputs;
    for run in newer.iter().rev().take_while(|run| run.level > 0) {
        let (smallest, largest) = range(tree.order(), &inputs[0].files)?;
        let inside = |file: &Arc<FileMeta>| {
            let order = |a: &[u8], b: &[u8]| bounds::compare(tree.order(), a, b);
            order(smallest.as_bytes(), file.smallest.as_bytes()).is_le()
                && order(file.largest.as_bytes(), largest.as_bytes()).is_le()
        };
        let files: Vec<_> = run
            .files
            .iter()
            .filter(|file| inside(file))
            .cloned()
            .collect();
        let (begin, end) = (smallest.as_bytes(), largest.as_bytes());
        let touched = || tree.version.overlapping(run.level, Some(begin), Some(end));
        // If data of newer levels were included, entries that stay in this level would be above
        // newer ones.
        if files.is_empty() && !touched().is_empty() {
            break;
        }
        if files.is_empty() {
            continue;
        }
        let whole = expand::clean_cut(tree, run.level, &files);
        if whole.is_none_or(|whole| whole.len() > files.len()) {
            break;
        }
        let level = run.level;
        inputs.insert(0, LevelInputs { level, files });
    }
    let reason = Reason::UniversalSizeAmplification;
    let mut pick = expand::assemble(tree, reason, 0.0, inputs, oldest.level)?;
    pick.trivial_move = false;
    pick.grandparents = Vec::new();
    pick.output.max_bytes = pick.output.target_bytes;
    Some(pick)
}

/// Returns the adjacent `files` with the lowest ratio of overlapping bytes of `below` to their own
/// bytes, below `most`. Both together reach `limit` bytes, if there is enough data.
fn cheapest_part(
    tree: &Tree,
    files: &[Arc<FileMeta>],
    below: &[Arc<FileMeta>],
    limit: u64,
    mut most: f64,
) -> Option<Range<usize>> {
    let before = |a: &FileMeta, b: &FileMeta| {
        bounds::compare(tree.order(), a.largest.as_bytes(), b.smallest.as_bytes()).is_lt()
    };
    let first_touched = |file: &FileMeta| below.partition_point(|low| before(low, file));
    let behind_touched = |file: &FileMeta| below.partition_point(|low| !before(file, low));
    let bytes = |files: &[Arc<FileMeta>]| {
        let sizes = files.iter().map(|file| file.size);
        sizes.fold(0, u64::saturating_add)
    };
    let mut cheapest = None;
    let mut from = 0;
    for at in 0..files.len() {
        if at > from && behind_touched(&files[at - 1]) < first_touched(&files[at]) {
            // A file of `below` is between the two and would be rewritten for nothing.
            from = at;
        }
        while from <= at {
            let mine = bytes(&files[from..=at]);
            let touched = first_touched(&files[from])..behind_touched(&files[at]);
            let theirs = bytes(&below[touched.start.min(touched.end)..touched.end]);
            let is_enough = mine + theirs > limit;
            if is_enough || at + 1 == files.len() {
                let cost = theirs as f64 / mine.max(1) as f64;
                if cost < most {
                    most = cost;
                    cheapest = Some(from..at + 1);
                }
            }
            if !is_enough {
                break;
            }
            from += 1;
        }
    }
    cheapest
}

/// Returns the number of newest level-0 files that a large compaction leaves out, to reduce the
/// risk of a write stop while it runs; only if leaving them out costs little.
fn newest_to_leave_out(
    tree: &Tree,
    newer: &[Run],
    candidate: u64,
    exceeds: impl Fn(u64) -> bool,
) -> usize {
    let universal = &tree.options.universal;
    let level_zero = newer.iter().filter(|run| run.level == 0).count();
    if level_zero == 0 {
        return 0;
    }
    // At least one level-0 file and two runs in total are kept.
    let most = (level_zero - 1).min(newer.len() - 1);
    let room = tree.options.level0_stop.saturating_sub(newer.len() + 1);
    let wanted = |width: u32| (width as usize).saturating_sub(room).min(most);
    let (least, most) = (
        wanted(universal.min_merge_width),
        wanted(universal.max_merge_width),
    );
    let mut spared = 0;
    for count in least..=most {
        let left: u64 = newer[count..]
            .iter()
            .map(|run| run.compensated)
            .fold(0, u64::saturating_add);
        if !exceeds(left) || left < candidate / 10 * 9 {
            break;
        }
        spared = count;
    }
    debug_assert!(spared < newer.len(), "a run is left to compact");
    spared
}

/// Returns a compaction of adjacent runs of similar size.
fn by_similar_size(tree: &Tree, runs: &[Run]) -> Option<Pick> {
    let ratio = f64::from(tree.options.universal.size_ratio);
    let range = neighbours(tree, runs, Some(ratio), merge_widths(tree))?;
    of_runs(tree, runs, range, Reason::UniversalSizeRatio)
}

/// Returns a compaction of adjacent runs of any size, as many as exceed the trigger. If there is none and writes are stopped,
/// it merges enough runs for them to proceed.
fn by_number(tree: &Tree, runs: &[Run]) -> Option<Pick> {
    let waiting = runs.iter().filter(|run| !run.busy).count();
    let (least, widest) = merge_widths(tree).into_inner();
    let surplus = waiting.saturating_sub(most_runs(tree, runs));
    let by_trigger = match surplus {
        0 => None,
        surplus => neighbours(tree, runs, None, least..=widest.min(surplus + 1)),
    };
    let range = by_trigger.or_else(|| {
        let surplus = (run_count(tree.version) + 1).saturating_sub(tree.options.level0_stop);
        let merge = || neighbours(tree, runs, None, 2..=surplus + 1);
        is_stuck(tree).then(merge).flatten()
    })?;
    of_runs(tree, runs, range, Reason::UniversalSortedRunNum)
}

/// Returns the maximum number of runs.
fn most_runs(tree: &Tree, runs: &[Run]) -> usize {
    let universal = &tree.options.universal;
    let trigger = tree.options.shape.level0_trigger;
    match usize::try_from(universal.max_read_amp) {
        Err(_) => trigger,
        Ok(0) if universal.stop_style == CompactionStopStyle::SimilarSize => trigger,
        Ok(0) => {
            // The number of runs of a tree with this largest run, if each run is as large as possible
            // without triggering a size-ratio merge.
            let largest = runs.iter().map(|run| run.size).max().unwrap_or(0) as f64;
            let factor = f64::from(universal.size_ratio) / 100.0 + 1.0;
            let (mut count, mut size, mut sum) = (1, tree.options.write_buffer_bytes as f64, 0.0);
            while size < largest && count < 64 {
                sum += size;
                size = factor * sum;
                count += 1;
            }
            count
        }
        Ok(most) => most,
    }
}

/// Returns the numbers of runs that a compaction may merge according to the options.
fn merge_widths(tree: &Tree) -> RangeInclusive<usize> {
    let universal = &tree.options.universal;
    universal.min_merge_width.max(2) as usize..=universal.max_merge_width as usize
}

/// Returns the first adjacent runs that may be merged, as many as `widths` permits: each is no larger than the preceding
/// ones together, within `ratio` percent (`None` for any size).
fn neighbours(
    tree: &Tree,
    runs: &[Run],
    ratio: Option<f64>,
    widths: RangeInclusive<usize>,
) -> Option<Range<usize>> {
    let universal = &tree.options.universal;
    let (least, most) = widths.into_inner();
    let fits = |have: u64, next: u64| match ratio {
        Some(ratio) => have as f64 * (100.0 + ratio) / 100.0 >= next as f64,
        None => true,
    };
    for from in 0..runs.len() {
        if runs[from].busy {
            continue;
        }
        let mut size = runs[from].compensated;
        let mut count = 1;
        for next in runs[from + 1..].iter().take(most.saturating_sub(1)) {
            if next.busy || !fits(size, next.size) {
                break;
            }
            match universal.stop_style {
                CompactionStopStyle::SimilarSize if !fits(next.size, size) => break,
                CompactionStopStyle::SimilarSize => size = next.compensated,
                CompactionStopStyle::TotalSize => size = size.saturating_add(next.compensated),
            }
            count += 1;
        }
        debug_assert!(count <= most.max(1));
        if count >= least {
            return Some(from..from + count);
        }
    }
    None
}

/// Returns a compaction of a marked file into the next older run, as in a leveled tree.
fn downwards(
    tree: &Tree,
    runs: &[Run],
    reason: Reason,
    files: &[(usize, Arc<FileMeta>)],
) -> Option<Pick> {
    if tree.version.num_levels() == 1 {
        let asks = |run: &Run| {
            let mut numbers = files.iter().map(|(_, file)| file.number);
            !run.busy && numbers.any(|number| number == run.files[0].number)
        };
        let from = runs.split_last()?.1.iter().position(asks)?;
        let until = runs[from..].iter().position(|run| run.busy);
        let range = from..until.map_or(runs.len(), |count| from + count);
        return match range.len() > 1 {
            true => of_runs(tree, runs, range, reason),
            false => None,
        };
    }
    files.iter().find_map(|(level, file)| {
        if *level == 0 && !tree.busy.is_empty() {
            return None;
        }
        let last = tree.last_output();
        let below = (level + 1..=last).find(|&below| !tree.version.level(below).is_empty());
        let output_level = match below {
            Some(below) => below,
            None if *level == 0 => last,
            None => return None,
        };
        level_zero::of_file(tree, *level, file, output_level, reason)
    })
}

/// Returns a compaction of adjacent runs. `None` if a running compaction conflicts.
fn of_runs(tree: &Tree, runs: &[Run], range: Range<usize>, reason: Reason) -> Option<Pick> {
    debug_assert!(!range.is_empty() && range.end <= runs.len());
    debug_assert!(runs[range.clone()].iter().all(|run| !run.busy));
    let last = tree.last_output();
    let output_level = match runs.get(range.end) {
        None => last,
        Some(next) => next.level.saturating_sub(1),
    };
    let mut inputs: Vec<LevelInputs> = Vec::new();
    for run in &runs[range.clone()] {
        match inputs.last_mut() {
            Some(inputs) if inputs.level == run.level => inputs.files.extend(run.files.clone()),
            _ => inputs.push(LevelInputs {
                level: run.level,
                files: run.files.clone(),
            }),
        }
    }
    let mut pick = expand::assemble(tree, reason, 0.0, inputs, output_level)?;
    if young::is_futile(tree, &pick) {
        return None;
    }
    pick.score = runs.iter().filter(|run| !run.busy).count() as f64
        / tree.options.shape.level0_trigger as f64;
    pick.trivial_move = false;
    pick.output.path_id = db_paths::of_run(
        tree.options,
        runs[range.clone()]
            .iter()
            .map(|run| run.size)
            .fold(0, u64::saturating_add),
    );
    // Whole runs are merged, so grandparent boundaries matter only for later partial compactions.
    pick.grandparents = match runs.get(range.end) {
        Some(next) if tree.options.universal.incremental && next.level > 1 => {
            pick.output.max_compaction_bytes = tree.options.target_file_bytes / 2 * 3;
            next.files.clone()
        }
        _ => Vec::new(),
    };
    pick.output.max_bytes = pick.output.target_bytes;
    pick.cursor = None;
    if !is_compressed(tree, runs, &range, reason) {
        pick.output.compression = Compression::None;
    }
    Some(pick)
}

/// True if the outputs are compressed: not if older runs already make up the fraction of the tree to be
/// compressed.
fn is_compressed(tree: &Tree, runs: &[Run], range: &Range<usize>, reason: Reason) -> bool {
    let by_size = matches!(
        reason,
        Reason::UniversalSizeRatio | Reason::UniversalSortedRunNum
    );
    let Ok(percent) = u64::try_from(tree.options.universal.compression_size_percent) else {
        return true;
    };
    if !by_size {
        return true;
    }
    let total: u64 = runs
        .iter()
        .map(|run| run.compensated)
        .fold(0, u64::saturating_add);
    let older: u64 = runs[range.end..]
        .iter()
        .map(|run| run.size)
        .fold(0, u64::saturating_add);
    range.end == runs.len() || u128::from(older) * 100 < u128::from(total) * u128::from(percent)
}

/// True if all inputs can be moved unchanged: no two overlap.
fn is_disjoint(tree: &Tree, pick: &Pick) -> bool {
    let files = || pick.files().map(|(_, file)| file);
    expand::are_disjoint(tree.order(), files())
        && files().all(|file| file.path_id == pick.output.path_id)
}
